"""Care of checkpoints once they exist: sync between machines, retention, scanning for secrets, mending, and tools on top."""
