"""Coding agents' clients, without I/O: payloads of hooks, transcripts, settings files, and commands that are tests."""
