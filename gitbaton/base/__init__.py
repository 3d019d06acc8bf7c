"""Base: errors, the values that travel, their codecs, secrets in words, files and processes, the terminal. Knows no git."""
