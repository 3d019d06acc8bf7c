"""Conversations are stored and shown without their secrets, and go on from what is stored. Git is the judge."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.agents.transcripts import CHUNK, files, read, record
from gitbaton.base.codec import transcript_text
from gitbaton.base.model import Agent, Checkpoint, Stored, Transcript
from gitbaton.base.values import replace
from tests.kit import Sandbox
from tests.kit.tiers import some
from tests.rooms.transcripts.test_transcripts import REF, SESSION, event, line, objects, path, take
from tests.rooms.transcripts.test_transcripts_read import back, snap

__all__ = ["path"]
SECRET = re.compile(rb"AKIA[0-9]{4}EGZT7WJHX5PL")


def secret(number: int, size: int = 0) -> bytes:
    return line(number, size).replace(b'"pad": "', b'"pad": "AKIA%04dEGZT7WJHX5PL ' % number)


def hidden(data: bytes) -> bytes:
    return SECRET.sub(b"[redacted:aws-key]", data)


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


@pytest.mark.deep
def test_no_object_holds_a_secret_and_positions_are_those_of_the_file(repo: Sandbox, path: Path) -> None:
    path.write_bytes(line(1) + secret(2) + line(3))
    found = take(repo, path)
    data = path.read_bytes()
    assert (found.size, found.lines, found.last) == (len(data), 3, "u-3")
    assert content(repo, found.stored) == hidden(data)
    position = {"bytes": len(data), "lines": 3, "last": "u-3", "kept": len(hidden(data))}
    assert told(repo, found.stored) == {"v": 2, "agent": "claude", "session": SESSION, **position}
    assert "AKIA" not in everything(repo)
    assert back(repo, snap(repo, found)) == hidden(data)
    repo.fsck()


sizes = st.lists(st.tuples(st.sampled_from([1, 40, 900, CHUNK - 30, CHUNK, 150_000]), st.booleans()), min_size=1, max_size=9)


@pytest.mark.full
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=sizes, cuts=st.lists(st.floats(0, 1), max_size=4), lost=st.sets(st.integers(0, 4)))
def test_growing_at_any_place_gives_the_tree_of_one_write(
    repo: Sandbox, path: Path, sizes: list[tuple[int, bool]], cuts: list[float], lost: set[int]
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


@pytest.mark.full
@some("what", SPOILS, 3)
def test_without_a_proof_everything_is_compared_and_with_one_only_what_is_new_is_looked_at(
    repo: Sandbox, path: Path, what: str
) -> None:
    path.write_bytes(secret(1, CHUNK) + secret(2) + line(3))
    before, old = take(repo, path), path.read_bytes()
    repo.git("config", "baton.redact", "off")
    assert take(repo, path) == before
    spoiled(proof(repo), what)
    repo.git("config", "baton.redact", "on")
    assert take(repo, path) == before
    repo.git("config", "baton.redact", "off")
    with path.open("ab") as file:
        file.write(secret(4))
    count = objects(repo)
    after = take(repo, path)
    noted = what != "a folder"  # when it was compared
    assert content(repo, after.stored) == (hidden(old) if noted else old) + secret(4)
    assert repo.git("rev-list", REF).split() == [after.stored, before.stored]
    if noted:
        assert objects(repo) - count == 5  # last chunk, their folder, meta, tree, commit


def test_the_proof_is_of_its_owner_alone_and_in_no_object(repo: Sandbox, path: Path) -> None:
    path.write_bytes(secret(1))
    found = take(repo, path)
    words = proof(repo).read_text().split()
    assert words[:3] == ["2", found.stored, str(found.size)] and re.fullmatch("[0-9a-f]{64} [0-9a-f]{64}", " ".join(words[3:5]))
    assert stat.S_IMODE(proof(repo).stat().st_mode) == 0o600 and words[3] not in everything(repo)
    assert [entry.name for entry in proof(repo).parent.iterdir()] == [SESSION]


def test_a_proof_of_yesterday_is_believed_and_written_anew(repo: Sandbox, path: Path) -> None:
    """It had one digest of all that was stored, and no more."""
    path.write_bytes(secret(1) + line(2))
    old, before = path.read_bytes(), take(repo, path)
    noted = f"1 {before.stored} {before.size} {hashlib.blake2b(old, digest_size=32).hexdigest()}\n"
    proof(repo).write_text(noted)
    repo.git("config", "baton.redact", "off")  # so that a comparison would find another conversation
    with path.open("ab") as file:
        file.write(secret(3))
    after = take(repo, path)
    assert content(repo, after.stored) == hidden(old) + secret(3) and proof(repo).read_bytes().startswith(b"2 ")
    proof(repo).write_text(noted.replace(str(before.stored), str(after.stored)).replace(f" {before.size} ", f" {after.size} "))
    with path.open("ab") as file:
        file.write(line(4))
    assert content(repo, take(repo, path).stored) == path.read_bytes(), "its digest is another's: all is stored anew"


@pytest.mark.parametrize("size", [10, files.BLOCK - 1, files.BLOCK, 2 * files.BLOCK + 3])
def test_a_digest_goes_on_from_its_whole_blocks(size: int) -> None:
    data = random.Random(size).randbytes(size)
    whole, parts = files.Digest(), files.Digest()
    whole.update(data)
    for start in range(0, size, 70_001):
        parts.update(data[start : start + 70_001])
    at = size // files.BLOCK * files.BLOCK
    again = files.Digest(at, whole.chain)
    again.update(data[at:])
    assert whole.hexdigest() == parts.hexdigest() == again.hexdigest() and whole.size == again.size == size
    other = files.Digest()
    other.update(data[:-1])
    assert other.hexdigest() != whole.hexdigest()


def test_a_proof_that_was_not_written_any_more_is_only_stale(repo: Sandbox, path: Path) -> None:
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


def test_what_was_noted_long_ago_is_removed(repo: Sandbox, path: Path) -> None:
    path.write_bytes(line(1))
    take(repo, path)
    with repo.open(door="binary") as baton:
        files.prune_digests(baton.repo)
        assert proof(repo).is_file()
        os.utime(proof(repo), (1, 1))
        files.prune_digests(baton.repo)
        assert not proof(repo).exists()
        proof(repo).parent.rmdir()
        proof(repo).parent.parent.rmdir()
        files.prune_digests(baton.repo)


def test_a_secret_that_changes_in_the_file_is_a_rewrite(repo: Sandbox, path: Path) -> None:
    path.write_bytes(secret(1) + line(2))
    before = take(repo, path)
    path.write_bytes(path.read_bytes().replace(b"AKIA0001", b"AKIA0008") + line(3))
    after = take(repo, path)
    assert content(repo, after.stored) == hidden(path.read_bytes())
    assert repo.git("rev-list", REF).split() == [after.stored, before.stored]


@pytest.mark.deep
@some("proven", [True, False])
def test_other_rules_hold_for_what_is_new_and_corrupt_nothing(repo: Sandbox, path: Path, proven: bool) -> None:
    path.write_bytes(secret(1) + line(2))
    repo.git("config", "baton.redact", "off")
    first = take(repo, path)
    old = path.read_bytes()
    assert content(repo, first.stored) == old and told(repo, first.stored)["kept"] == len(old)
    repo.git("config", "baton.redact", "on")
    if not proven:
        proof(repo).unlink()
    with path.open("ab") as file:
        file.write(secret(3))
    second = take(repo, path)
    assert content(repo, second.stored) == (old if proven else hidden(old)) + hidden(secret(3))
    assert repo.git("rev-list", REF).split() == [second.stored, first.stored]
    assert back(repo, snap(repo, first)) == hidden(old)  # what is shown is redacted, whatever is stored
    assert back(repo, snap(repo, second)) == hidden(path.read_bytes())
    repo.git("config", "baton.redact", "off")
    with path.open("ab") as file:
        file.write(secret(4))
    third = take(repo, path)
    assert content(repo, third.stored) == content(repo, second.stored) + secret(4)
    for found in (first, second, third):
        back(repo, snap(repo, found))
    repo.fsck()


def test_a_file_that_changes_while_it_is_read_is_not_stored(repo: Sandbox, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made shorter just before one of the reads of a hook."""
    path.write_bytes(secret(1) + line(2))
    data, pread, warned = path.read_bytes(), os.pread, list[str]()
    for moment in range(1 << 10):
        reads, said = list[int](), list[str]()
        path.write_bytes(data)

        def shrinking(fd: int, size: int, at: int, reads: list[int] = reads, moment: int = moment) -> bytes:
            if len(reads) == moment:
                os.truncate(path, 10)
            reads.append(at)
            return pread(fd, size, at)

        with monkeypatch.context() as patch, repo.open(door="binary") as baton:
            patch.setattr(os, "pread", shrinking)
            record(baton, event(path), "full", None, said.append)
        if len(reads) <= moment:
            break
        warned += said
        if repo.git("for-each-ref", REF):  # all was read before
            assert content(repo, REF) == hidden(data)
            repo.git("update-ref", "-d", REF)
    assert warned == ["the conversation is not stored: its file changed while it was read"]


def test_what_was_forgotten_is_not_stored_again(repo: Sandbox, path: Path) -> None:
    path.write_bytes(line(1))
    found = take(repo, path)
    snap(repo, found)
    repo.ok("forget", "--yes", "@", "--everywhere")
    assert repo.git("for-each-ref", "refs/baton/transcripts") == ""
    path.write_bytes(line(1) + line(2))
    os.utime(proof(repo), (0, 0))
    with repo.open(door="cli") as baton:
        files.prune_digests(baton.repo)
        later = record(baton, event(path), "full", None)
        assert later is not None and (later.lines, later.stored) == (2, None)
        assert record(baton, event(path), "full", later) == later
    assert repo.git("for-each-ref", "refs/baton/transcripts") == ""
