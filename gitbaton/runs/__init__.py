"""Durable steps: commands that are carried out once for the same inputs, recovered after a crash, and repaired."""
