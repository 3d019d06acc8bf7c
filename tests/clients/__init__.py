"""The real clients, driven against a scripted model server on 127.0.0.1; only with ``pytest --clients``."""
