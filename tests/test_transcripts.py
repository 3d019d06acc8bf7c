"""A conversation recorded: its position, and its content in chunks. Git is the judge of what is stored."""

from __future__ import annotations

import json
from pathlib import Path

from gitbaton.agents.values import Event
from gitbaton.model import Transcript
from gitbaton.transcripts import Mode, record
from tests.support import Sandbox

SESSION = "e8b31b82-3a88-40ec-b500-13cf0a0662a6"


def event(path: Path | str | None, agent: str = "claude", session: str | None = SESSION) -> Event:
    name = None if path is None else str(path)
    return Event(agent=agent, name="Stop", moment="turn", session=session, transcript=name)


def line(number: int, size: int = 0) -> bytes:
    return json.dumps({"type": "user", "uuid": f"u-{number}", "pad": "x" * size}).encode() + b"\n"


def take(box: Sandbox, path: Path, mode: Mode = "full", before: Transcript | None = None) -> Transcript:
    with box.open(door="binary") as baton:
        found = record(baton, event(path), mode, before)
    assert found is not None
    return found


def test_first(repo: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(1) + line(2) + b'{"half"')
    one = take(repo, path)
    assert one.stored is not None
    assert one.size == len(line(1) + line(2)) and one.lines == 2 and one.last == "u-2"
    two = take(repo, path)
    assert one == two
    path.write_bytes(line(1) + line(2) + line(3, 200_000) + line(4))
    three = take(repo, path)
    assert repo.tree(three.stored or "").keys() == {"chunks/00000000", "chunks/00000001", "chunks/00000002", "meta"}
    repo.fsck()
