"""Conversations are stored and shown without their secrets, and go on from what is stored. Git is the judge."""

from __future__ import annotations

import json
import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.baton import Baton
from gitbaton.codec import transcript_text
from gitbaton.errors import ScanError
from gitbaton.model import Agent, Checkpoint, Stored, Transcript
from gitbaton.transcripts import CHUNK, layout, proofs, read, record, storing
from gitbaton.values import replace
from tests.kit import Sandbox
from tests.kit.tiers import some
from tests.rooms.transcripts.test_transcripts import REF, SESSION, event, line, objects, path, take
from tests.rooms.transcripts.test_transcripts_read import back, snap

__all__ = ["path"]
SECRET = re.compile(rb"hunter[0-9]+")


class Fake:
    """A redactor of one kind of secret, which counts the lines that it was given."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.rule = SECRET

    def line(self, raw: bytes) -> bytes:
        assert raw.endswith(b"\n") and raw.count(b"\n") == 1
        self.seen.append(raw)
        return self.rule.sub(b"[redacted:password]", raw)

    def checkpoint(self, c: Checkpoint) -> Checkpoint:
        return c


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake()
    monkeypatch.setattr(Baton, "redactor", made, raising=False)
    return made


def secret(number: int, size: int = 0) -> bytes:
    return line(number, size).replace(b'"pad": "', b'"pad": "hunter%d ' % number)


def hidden(data: bytes) -> bytes:
    return SECRET.sub(b"[redacted:password]", data)


def content(box: Sandbox, commit: str | None) -> bytes:
    names = [name for name in box.tree(str(commit)) if name != "meta"]
    return b"".join(box.run("git", "cat-file", "blob", f"{commit}:{name}").out.encode() for name in names)


def told(box: Sandbox, commit: str | None) -> dict[str, object]:
    found = json.loads(box.git("cat-file", "blob", f"{commit}:meta"))
    assert isinstance(found, dict)
    return found


def named(found: Transcript) -> Stored:
    """A checkpoint that names a position, without a repository."""
    agent = Agent(name="claude", session=SESSION, transcript=transcript_text(found))
    checkpoint = Checkpoint(track="t", step="s", created=datetime(2026, 11, 20, tzinfo=UTC), agent=agent)
    return Stored(id="1" * 40, commit="1" * 40, base=None, tree="1" * 40, raw=b"", checkpoint=checkpoint)


def everything(box: Sandbox) -> str:
    """All that any object of the repository holds."""
    return box.run("git", "cat-file", "--batch-all-objects", "--batch").out


def proof(box: Sandbox) -> Path:
    return box.path / ".git/baton/transcripts/claude" / SESSION


def test_no_object_holds_a_secret_and_positions_are_those_of_the_file(repo: Sandbox, path: Path, fake: Fake) -> None:
    path.write_bytes(line(1) + secret(2) + line(3))
    found = take(repo, path)
    data = path.read_bytes()
    assert (found.size, found.lines, found.last) == (len(data), 3, "u-3")
    assert content(repo, found.stored) == hidden(data)
    position = {"bytes": len(data), "lines": 3, "last": "u-3", "kept": len(hidden(data))}
    assert told(repo, found.stored) == {"v": 2, "agent": "claude", "session": SESSION, **position}
    assert "hunter" not in everything(repo)
    assert back(repo, snap(repo, found)) == hidden(data)
    repo.fsck()


sizes = st.lists(st.tuples(st.sampled_from([1, 40, 900, CHUNK - 30, CHUNK, 150_000]), st.booleans()), min_size=1, max_size=9)


@pytest.mark.deep
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=sizes, cuts=st.lists(st.floats(0, 1), max_size=4), lost=st.sets(st.integers(0, 4)))
def test_growing_at_any_place_gives_the_tree_of_one_write(
    repo: Sandbox, path: Path, fake: Fake, sizes: list[tuple[int, bool]], cuts: list[float], lost: set[int]
) -> None:
    repo.git("update-ref", "-d", REF)
    data = b"".join((secret if odd else line)(n, size) for n, (size, odd) in enumerate(sizes))
    path.write_bytes(data)
    whole = take(repo, path)
    repo.git("update-ref", "-d", REF)
    before: list[Transcript] = []
    for number, cut in enumerate([*sorted(cuts), 1.0]):
        path.write_bytes(data[: int(len(data) * cut)])
        if number in lost:
            proof(repo).unlink(missing_ok=True)
        if b"\n" in path.read_bytes():
            before.append(take(repo, path))
    assert repo.git("rev-parse", f"{before[-1].stored}^{{tree}}") == repo.git("rev-parse", f"{whole.stored}^{{tree}}")
    with repo.open(door="binary") as baton:
        for found in before:
            for commit in (found.stored, before[-1].stored):
                assert read(baton, named(replace(found, stored=commit)), {}) == hidden(data[: found.size])
    repo.fsck()


def test_only_new_lines_are_redacted(repo: Sandbox, path: Path, fake: Fake) -> None:
    path.write_bytes(b"".join(secret(n, 1000) for n in range(200)))
    take(repo, path)
    fake.seen.clear()
    assert take(repo, path).lines == 200 and not fake.seen
    with path.open("ab") as file:
        file.write(secret(200) + line(201))
    count = objects(repo)
    found = take(repo, path)
    assert fake.seen == [secret(200), line(201)]
    assert objects(repo) - count == 5  # last chunk, their folder, meta, tree, commit
    assert content(repo, found.stored) == hidden(path.read_bytes())


def spoiled(path: Path, what: str) -> None:
    """A proof that is none any more."""
    old = path.read_bytes()
    path.unlink()
    if what == "a folder":
        path.mkdir()
    elif what == "a link to nothing":
        path.symlink_to("nowhere")
    elif what == "a link to itself":
        path.symlink_to(path.name)
    elif what != "gone":
        other = old.replace(old[2:42], b"1" * 40)
        path.write_bytes({"empty": b"", "garbage": b"\xff" * 5000, "more": old + b"x\n", "another's": other}[what])


SPOILS = ("gone", "empty", "garbage", "more", "another's", "a folder", "a link to nothing", "a link to itself")


@pytest.mark.deep
@some("what", SPOILS, 3)
def test_without_a_proof_everything_is_compared(repo: Sandbox, path: Path, fake: Fake, what: str) -> None:
    path.write_bytes(secret(1, CHUNK) + secret(2) + line(3))
    before = take(repo, path)
    spoiled(proof(repo), what)
    fake.seen.clear()
    assert take(repo, path) == before and len(fake.seen) == 3
    fake.seen.clear()
    assert take(repo, path) == before and len(fake.seen) == (3 if what == "a folder" else 0)  # else it was noted again
    if what != "a folder":
        spoiled(proof(repo), what)
    with path.open("ab") as file:
        file.write(secret(4))
    fake.seen.clear()
    after = take(repo, path)
    assert content(repo, after.stored) == hidden(path.read_bytes()) and len(fake.seen) == 4
    assert repo.git("rev-list", REF).split() == [after.stored, before.stored]


def test_the_proof_is_of_its_owner_alone_and_in_no_object(repo: Sandbox, path: Path, fake: Fake) -> None:
    path.write_bytes(secret(1))
    found = take(repo, path)
    words = proof(repo).read_text().split()
    assert words[:3] == ["1", found.stored, str(found.size)] and re.fullmatch("[0-9a-f]{64}", words[3])
    assert stat.S_IMODE(proof(repo).stat().st_mode) == 0o600 and words[3] not in everything(repo)
    assert [entry.name for entry in proof(repo).parent.iterdir()] == [SESSION]


def test_a_proof_that_was_not_written_any_more_is_only_stale(repo: Sandbox, path: Path, fake: Fake) -> None:
    path.write_bytes(secret(1) + line(2))
    take(repo, path)
    old = proof(repo).read_bytes()
    with path.open("ab") as file:
        file.write(secret(3))
    second = take(repo, path)
    proof(repo).write_bytes(old)  # killed after the ref moved
    with path.open("ab") as file:
        file.write(secret(4))
    third = take(repo, path)
    assert content(repo, third.stored) == hidden(path.read_bytes())
    assert repo.git("rev-list", REF).split()[:2] == [third.stored, second.stored]


def test_what_was_noted_long_ago_is_removed(repo: Sandbox, path: Path, fake: Fake) -> None:
    path.write_bytes(line(1))
    take(repo, path)
    with repo.open(door="binary") as baton:
        proofs.prune(baton.repo)
        assert proof(repo).is_file()
        os.utime(proof(repo), (1, 1))
        proofs.prune(baton.repo)
        assert not proof(repo).exists()
        proof(repo).parent.rmdir()
        proof(repo).parent.parent.rmdir()
        proofs.prune(baton.repo)


def test_a_secret_that_changes_in_the_file_is_a_rewrite(repo: Sandbox, path: Path, fake: Fake) -> None:
    path.write_bytes(secret(1) + line(2))
    before = take(repo, path)
    path.write_bytes(path.read_bytes().replace(b"hunter1", b"hunter8") + line(3))
    after = take(repo, path)
    assert content(repo, after.stored) == hidden(path.read_bytes())
    assert repo.git("rev-list", REF).split() == [after.stored, before.stored]


@pytest.mark.deep
@some("proven", [True, False])
def test_other_rules_hold_for_what_is_new_and_corrupt_nothing(repo: Sandbox, path: Path, fake: Fake, proven: bool) -> None:
    path.write_bytes(secret(1) + line(2))
    fake.rule = re.compile(rb"never")  # baton.redact=off
    first = take(repo, path)
    old = path.read_bytes()
    assert content(repo, first.stored) == old and told(repo, first.stored)["kept"] == len(old)
    fake.rule = SECRET
    if not proven:
        proof(repo).unlink()
    with path.open("ab") as file:
        file.write(secret(3))
    second = take(repo, path)
    assert content(repo, second.stored) == (old if proven else hidden(old)) + hidden(secret(3))
    assert repo.git("rev-list", REF).split() == [second.stored, first.stored]
    assert back(repo, snap(repo, first)) == hidden(old)  # what is shown is redacted, whatever is stored
    assert back(repo, snap(repo, second)) == hidden(path.read_bytes())
    fake.rule = re.compile(rb"never")
    with path.open("ab") as file:
        file.write(secret(4))
    third = take(repo, path)
    assert content(repo, third.stored) == content(repo, second.stored) + secret(4)
    for found in (first, second, third):
        back(repo, snap(repo, found))
    repo.fsck()


def test_much_that_is_new_is_stored_in_parts(repo: Sandbox, path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "PART", 100_000)
    path.write_bytes(b"".join(secret(n, 90_000 if n < 3 else 250_000 if n == 3 else 10) for n in range(6)))
    found: Transcript | None = None
    for _ in range(5):
        with repo.open(door="binary") as baton:
            found = record(baton, event(path), "full", None)
    assert found is not None and content(repo, found.stored) == hidden(path.read_bytes())
    assert repo.git("rev-list", "--count", REF) == "4" and len(fake.seen) == 6


class Broken:
    """A redactor that fails at some line."""

    def line(self, raw: bytes) -> bytes:
        if b"u-3" in raw:
            raise ScanError("the rules of 'x' cannot be read")
        return raw


class Joining:
    def line(self, raw: bytes) -> bytes:
        return raw.rstrip(b"\n")


class Cutting:
    def line(self, raw: bytes) -> bytes:
        return b"\n" + raw


@pytest.mark.parametrize("kind", [Broken, Joining, Cutting])
def test_where_the_scanner_fails_nothing_is_stored(
    repo: Sandbox, path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Broken]
) -> None:
    path.write_bytes(b"".join(line(n, CHUNK) for n in range(4)))
    monkeypatch.setattr(Baton, "redactor", kind(), raising=False)
    before, refs = objects(repo), repo.git("for-each-ref")
    with repo.open(door="binary") as baton:
        with pytest.raises(ScanError):
            record(baton, event(path), "full", None)
        assert record(baton, event(path), "position", None) is not None
    assert (objects(repo), repo.git("for-each-ref")) == (before, refs)
    assert not proof(repo).exists()


def test_what_grows_beyond_the_limit_is_not_stored(
    repo: Sandbox, path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(secret(1) * 1000)
    monkeypatch.setattr(layout, "MAX_STORED", path.stat().st_size)
    said: list[str] = []
    with repo.open(door="binary") as baton:
        found = record(baton, event(path), "full", None, said.append)
    assert found is not None and found.stored is None and repo.git("for-each-ref", "refs/baton") == ""
    size = len(hidden(path.read_bytes()))
    assert said == [f"the conversation is not stored: redacted it has {size} bytes, and the limit is {found.size}"]


def test_a_file_that_changes_while_it_is_read_is_not_stored(
    repo: Sandbox, path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(secret(1) + line(2))

    class Shrinking:
        def line(self, raw: bytes) -> bytes:
            os.truncate(path, 10)
            return raw

    monkeypatch.setattr("gitbaton.transcripts.files.BLOCK", 16)
    monkeypatch.setattr(Baton, "redactor", Shrinking(), raising=False)
    said: list[str] = []
    with repo.open(door="binary") as baton:
        record(baton, event(path), "full", None, said.append)
    assert said and repo.git("for-each-ref", "refs/baton") == ""


def test_what_was_forgotten_is_not_stored_again(repo: Sandbox, path: Path) -> None:
    path.write_bytes(line(1))
    found = take(repo, path)
    snap(repo, found)
    repo.ok("forget", "--yes", "@", "--everywhere")
    assert repo.git("for-each-ref", "refs/baton/transcripts") == ""
    path.write_bytes(line(1) + line(2))
    os.utime(proof(repo), (0, 0))
    with repo.open(door="cli") as baton:
        proofs.prune(baton.repo)
        later = record(baton, event(path), "full", None)
        assert later is not None and (later.lines, later.stored) == (2, None)
        assert record(baton, event(path), "full", later) == later
    assert repo.git("for-each-ref", "refs/baton/transcripts") == ""
