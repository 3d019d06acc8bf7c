"""What git and the coding agents call. A guard never breaks the guarded: whatever goes wrong, the caller goes on."""
