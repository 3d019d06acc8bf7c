"""Mending: what a disk left damaged of ours is put aside, found again elsewhere, or left out, and said."""
