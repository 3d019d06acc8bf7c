"""Kilo Code as a test drives it: OpenCode with names of its own."""

from __future__ import annotations

from tests.clients.client_opencode import OpenCode


class Kilo(OpenCode):
    """Kilo Code in a workshop, with a scripted model of its own provider."""

    name = "kilo"
