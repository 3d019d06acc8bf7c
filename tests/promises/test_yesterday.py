"""Yesterday's bytes, read today: records of format version 1 lie in ``data/v1`` as files and must never change."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import pytest

from gitbaton.base.codec import decode, encode, entry, message, parse_note, payload
from gitbaton.base.errors import RecordError
from gitbaton.base.model import Agent, Checkpoint, FileState, Flag, IndexState, Operation, Skipped, Stored, WorktreeId
from gitbaton.checkpoints.render import latest_json, latest_markdown
from tests.kit import Sandbox
from tests.kit.places import DATA
from tests.kit.tables import each
from tests.rooms.codec.test_codec import blob_id, hold

V1 = DATA / "v1"
FULL_ID = "cfe94e0f1b73dafa1d1f639808807fbbe80b5030"
PLAIN_ID = "c136e8edfd4c87d8de03eb76ef6da1d599a4e379"
GENERATED = "2026-01-02T03:04:05.000007Z"

PLAIN = Checkpoint(track="side work", step="begun", created=datetime(2026, 1, 1, tzinfo=UTC))
FULL = Checkpoint(
    track="main",
    step="parser done\nwith \x1b[31mcolour\x1b[m and \u202eorder",
    note="two\n\n\tlines, é, 日本 and \U000e0041",
    next_cmd='make test && echo "ok\\n"',
    validation="green",
    decisions=("keep the old parser", "checkpoint " + "0" * 40),
    label="v1 ready",
    kind="manual",
    branch="feature/parser",
    head="0123456789abcdef0123456789abcdef01234567",
    created=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    extra=(("pr", "17"), ("a.b-c_d", "")),
    agent=Agent(name="claude", session="s-1", transcript=None),
    files=FileState(
        tree="89abcdef0123456789abcdef0123456789abcdef",
        index=IndexState(
            tree="456789abcdef0123456789abcdef0123456789ab",
            flags=(Flag(path="a.txt", bits="as"), Flag(path=os.fsdecode(b"caf\xe9"), bits="i")),
            flags_more=2,
            unmerged=1,
        ),
        operation=Operation(
            kind="rebase",
            head="23456789abcdef0123456789abcdef0123456789",
            onto=None,
            refs=(("head-name", "refs/heads/feature/parser"),),
        ),
        changed=12,
        skipped=(Skipped(path="big.bin", reason="too-large"), Skipped(path=".env", reason="excluded")),
        skipped_more=3,
        worktree=WorktreeId(path="/home/someone/work", created=datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ),
    previous="6789abcdef0123456789abcdef0123456789abcd",
)


def stored_pair() -> tuple[Stored, Stored]:
    made = []
    for c in (FULL, PLAIN):
        raw = encode(c)
        made.append(Stored(id=blob_id(raw), commit="1" * 40, base=None, tree="2" * 40, raw=raw, checkpoint=c))
    return made[0], made[1]


def read(name: str) -> bytes:
    return (V1 / name).read_bytes()


@pytest.mark.parametrize(("name", "value", "oid"), [("full", FULL, FULL_ID), ("plain", PLAIN, PLAIN_ID)])
def test_checkpoints_of_version_1(name: str, value: Checkpoint, oid: str) -> None:
    raw = read(f"checkpoint-{name}.json")
    hold(raw)
    assert decode(raw) == value
    assert blob_id(raw) == oid
    assert encode(value) == raw


def test_a_message_of_version_1() -> None:
    raw = read("message.txt")
    assert payload(raw) == read("checkpoint-full.json")
    assert raw.split(b"\n", 1)[0] == b"parser done"
    assert message(FULL.step, read("checkpoint-full.json")) == raw


def test_a_note_of_version_1() -> None:
    note = parse_note(read("note.txt"))
    assert note.preamble == b"a remark of a person\n"
    assert [oid for oid, _ in note.entries] == [FULL_ID, PLAIN_ID]
    assert dict(note.entries)[FULL_ID] == entry(FULL_ID, FULL)
    assert note.render() == read("note.txt")


def test_latest_of_version_1() -> None:
    found = json.loads(read("LATEST.json"))
    assert list(found) == ["current_track", "generated", "tracks"]
    assert found["current_track"] == "main" and found["generated"] == GENERATED
    assert {track: c["id"] for track, c in found["tracks"].items()} == {"main": FULL_ID, "side work": PLAIN_ID}
    for track, value in (("main", FULL), ("side work", PLAIN)):
        assert decode(json.dumps(found["tracks"][track]).encode()) == value
    pair = stored_pair()
    assert latest_json("main", GENERATED, pair) == read("LATEST.json")
    assert latest_markdown("main", GENERATED, pair) == read("LATEST.md")


def test_git_itself_reads_the_files_to_the_same_id(repo: Sandbox) -> None:
    for name, oid in (("full", FULL_ID), ("plain", PLAIN_ID)):
        assert repo.git("hash-object", str(V1 / f"checkpoint-{name}.json")) == oid


@each("change", [{}, {"step": {"text": "other"}}, {"files": {"new": "shape"}}])
def test_a_record_of_version_2_is_refused_with_a_clear_line(change: dict[str, object]) -> None:
    document = {**json.loads(read("checkpoint-full.json")), **change, "v": 2}
    with pytest.raises(RecordError) as caught:
        decode(json.dumps(document).encode())
    assert caught.value.message == "record has format version 2; this gitbaton reads 1"


def test_a_chain_of_version_2_is_one_warning_and_nothing_else(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "main", "--step", "one")
    document = {**json.loads(repo.git("cat-file", "-p", "refs/checkpoints/main")), "v": 2}
    root = repo.git("rev-parse", "refs/baton/tracks/main~1")
    text = message("later", json.dumps(document, indent=2).encode() + b"\n")
    commit = repo.git("commit-tree", "-p", root, "HEAD^{tree}", stdin=text)
    repo.git("update-ref", "refs/baton/tracks/newer", commit)
    done = repo.ok("status")
    assert "main" in done.out and "newer" not in done.out
    assert done.err == "warning: 'refs/baton/tracks/newer' is left out: record has format version 2; this gitbaton reads 1\n"
    refused = repo.baton("resume", "--track", "newer")
    assert refused.code == 128 and refused.err.startswith("fatal: record has format version 2; ")
