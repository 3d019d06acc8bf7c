"""What knows no git: files, locks, processes and terminals of the operating system."""
