"""The command line: its words, options, help and errors, and how verbs speak to a terminal."""
