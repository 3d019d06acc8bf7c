"""Conversations read back where something was redacted, and those that were stored before there was redaction."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitbaton.agents.transcripts import original
from gitbaton.base.errors import RecordError
from gitbaton.base.model import Transcript
from gitbaton.base.values import replace
from tests.kit import Sandbox
from tests.rooms.transcripts.test_transcripts import REF, SESSION, line, path, take
from tests.rooms.transcripts.test_transcripts_read import back, blob, commit_of, own, refused, snap, tree
from tests.rooms.transcripts.test_transcripts_redacted import content, hidden, secret, told

__all__ = ["own", "path"]


def yesterday(box: Sandbox, data: bytes, last: str) -> Transcript:
    """A conversation as it was stored before there was redaction, byte for byte."""
    meta = (
        f'{{\n  "v": 1,\n  "agent": "claude",\n  "session": "{SESSION}",\n'
        f'  "bytes": {len(data)},\n  "lines": {data.count(10)},\n  "last": "{last}"\n}}\n'
    )
    folder = tree(box, ("100644", blob(box, data), "00000000"))
    commit = commit_of(box, ("040000", "tree", folder, "chunks"), ("100644", "blob", blob(box, meta.encode()), "meta"))
    box.git("update-ref", REF, commit)
    return Transcript(size=len(data), lines=data.count(10), last=last, stored=commit)


@pytest.mark.deep
def test_what_was_stored_yesterday_is_read_and_gone_on_from(repo: Sandbox, path: Path) -> None:
    path.write_bytes(line(1) + line(2))
    old = yesterday(repo, path.read_bytes(), "u-2")
    assert back(repo, snap(repo, old)) == path.read_bytes()
    assert back(repo, snap(repo, replace(old, size=len(line(1)), lines=1, last="u-1"))) == line(1)
    for wrong in (replace(old, size=old.size - 1), replace(old, lines=1), replace(old, lines=3), replace(old, last="u-9")):
        assert isinstance(refused(repo, snap(repo, wrong)), RecordError)
    assert take(repo, path) == old
    with path.open("ab") as file:
        file.write(secret(3))
    new = take(repo, path)
    assert content(repo, new.stored) == hidden(path.read_bytes()) and told(repo, new.stored)["v"] == 2
    assert repo.git("rev-list", REF).split() == [new.stored, old.stored]


def test_what_was_stored_yesterday_with_a_secret_is_shown_without(repo: Sandbox, path: Path) -> None:
    path.write_bytes(secret(1) + line(2))
    old = yesterday(repo, path.read_bytes(), "u-2")
    assert back(repo, snap(repo, old)) == hidden(path.read_bytes())
    new = take(repo, path)
    assert new.stored != old.stored and content(repo, new.stored) == hidden(path.read_bytes())


@pytest.mark.deep
def test_an_earlier_position_is_read_by_its_lines(repo: Sandbox, own: Path) -> None:
    own.write_bytes(b"".join(secret(n, 20_000) for n in range(10)))
    position = take(repo, own, "position")
    then = snap(repo, position)
    with own.open("ab") as file:
        file.write(line(10))
    later = take(repo, own)
    data = own.read_bytes()
    own.unlink()
    assert back(repo, then) == hidden(data[: position.size])
    for count in (1, 3, 4, 10):
        size = sum(len(secret(n, 20_000)) for n in range(count))
        found = replace(later, size=size, lines=count, last=f"u-{count - 1}")
        assert back(repo, snap(repo, found)) == hidden(data[:size])


@pytest.mark.deep
def test_what_is_said_of_redacted_lines_must_agree(repo: Sandbox, path: Path) -> None:
    path.write_bytes(line(0) + secret(1) + line(2))
    found = take(repo, path)
    data = path.read_bytes()
    for wrong in (
        replace(found, size=found.size + 1),
        replace(found, size=found.size - 1),
        replace(found, lines=4),
        replace(found, lines=2),
        replace(found, last="u-1"),
        replace(found, lines=1, size=len(line(0)) + 1, last="u-0"),
    ):
        assert isinstance(refused(repo, snap(repo, wrong)), RecordError), wrong
    folder = repo.git("rev-parse", f"{found.stored}:chunks")
    meta = repo.git("cat-file", "blob", f"{found.stored}:meta") + "\n"
    for name in ("kept", "bytes"):
        size = {"kept": len(hidden(data)), "bytes": len(data)}[name]
        other = blob(repo, meta.replace(f'"{name}": {size}', f'"{name}": {size - 1}').encode())
        commit = commit_of(repo, ("040000", "tree", folder, "chunks"), ("100644", "blob", other, "meta"))
        assert isinstance(refused(repo, snap(repo, replace(found, stored=commit))), RecordError), name


def test_the_clients_own_file_is_redacted_when_it_is_shown(repo: Sandbox, own: Path) -> None:
    own.write_bytes(secret(1) + line(2))
    assert back(repo, snap(repo, take(repo, own, "position"))) == hidden(own.read_bytes())


@pytest.mark.deep
def test_a_client_gets_back_what_it_wrote_itself(repo: Sandbox, own: Path) -> None:
    data = secret(1) + line(2)
    for mode in ("position", "full"):
        own.write_bytes(data)
        stored = snap(repo, take(repo, own, "full" if mode == "full" else "position"))
        with own.open("ab") as file:
            file.write(line(3))
        with repo.open(door="binary") as baton:
            assert original(baton, stored, os.environ) == data
            own.write_bytes(data.replace(b'u-1"', b'v-1"'))  # of the same length, and its last message is the same
            if mode == "full":
                assert original(baton, stored, os.environ) == hidden(data)
            own.unlink()
            if mode == "full":
                assert original(baton, stored, os.environ) == hidden(data)
