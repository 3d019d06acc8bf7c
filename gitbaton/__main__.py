"""``python -m gitbaton``."""

from gitbaton.main import run

run()
