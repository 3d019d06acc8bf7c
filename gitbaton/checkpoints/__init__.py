"""Checkpoints: how they are stored and read, named, told, mirrored and restored; `Baton` is what a program holds of them."""
