"""Retention: which checkpoints stay, what is removed and what it frees, pins, and forgetting for good."""
