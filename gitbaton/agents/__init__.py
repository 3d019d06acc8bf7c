"""Coding agents: what each client sends and writes; below, their hooks, their transcripts, and their settings.

The modules themselves do no I/O. A further client is a module of its name with a CLIENT, which is a ``client.Client``, and a
line in ``base.clients.KNOWN``.
"""
