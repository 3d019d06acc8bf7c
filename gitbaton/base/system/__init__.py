"""Files, locks, processes and terminals of the operating system. Nothing here knows git."""
