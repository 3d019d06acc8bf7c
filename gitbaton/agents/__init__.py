"""Coding agents' clients, without I/O: payloads of hooks, transcripts, settings files, and commands that are tests.

A further client is a module of its name with a CLIENT, which is a ``client.Client``, and a line in ``values.SESSIONS``.
"""
