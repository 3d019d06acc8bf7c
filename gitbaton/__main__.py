"""``python -m gitbaton``."""

from gitbaton.cli import run

run()
