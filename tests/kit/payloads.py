"""The payloads captured from real clients, as the tests of translators and hooks use them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.kit.places import DATA

FOLDER = DATA / "payloads"


class Captured(NamedTuple):
    """One call of a hook: the event it was registered for, what it read, and the client's variables."""

    event: str
    payload: dict[str, Any]
    env: dict[str, str]

    @property
    def data(self) -> bytes:
        return json.dumps(self.payload).encode()


def captured(agent: str) -> list[Captured]:
    """Every call that a client's session made, in order."""
    records = json.loads((FOLDER / f"{agent}_payloads.json").read_text(encoding="utf-8"))
    return [Captured(r["registered_for"], r["payload"], r["env"]) for r in records]


def opencode_events() -> dict[str, dict[str, Any]]:
    """The last payload of each event that an OpenCode plugin saw."""
    records = json.loads((FOLDER / "opencode_events.json").read_text(encoding="utf-8"))
    return {r["name"]: r["payload"] for r in records}
