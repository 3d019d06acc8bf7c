"""``python -m gitbaton``."""

from gitbaton.cli.main import run

run()
