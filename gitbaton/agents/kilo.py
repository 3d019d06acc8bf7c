"""Kilo Code: OpenCode under names of its own, with the same plugin and the same tables."""

from __future__ import annotations

from collections.abc import Iterator

from gitbaton.agents.client import Installed
from gitbaton.agents.opencode import OpenCode


class Kilo(OpenCode):
    """Kilo Code. It reads no plugins of OpenCode's."""

    name = "kilo"
    title = "Kilo Code"
    programs = ("kilo", "kilocode")
    project = ".kilo/plugins/gitbaton.js"
    folder = ".config/kilo"
    moved = (("XDG_CONFIG_HOME", "kilo"),)
    plugin = None
    resume = ""

    def plugins(self, of: Installed) -> Iterator[tuple[str, str, bool]]:
        """None of ours: it takes the same script from its own folder."""
        return iter(())


CLIENT = Kilo()
