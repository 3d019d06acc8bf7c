"""A conversation recorded: its position, and its content in chunks. Git is the judge of what is stored."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.agents.transcripts import CHUNK, Mode, chunks, record
from gitbaton.base.clients import HookEvent
from gitbaton.base.codec import parse_transcript, transcript_text
from gitbaton.base.model import Transcript
from tests.kit import Sandbox, integer_clock
from tests.kit.tiers import some

SESSION = "e8b31b82-3a88-40ec-b500-13cf0a0662a6"
REF = f"refs/baton/transcripts/claude/{SESSION}"


def event(path: Path | str | None, agent: str = "claude", session: str | None = SESSION) -> HookEvent:
    name = None if path is None else str(path)
    return HookEvent(agent=agent, name="Stop", moment="turn", session=session, transcript=name)


def line(number: int, size: int = 0) -> bytes:
    return json.dumps({"type": "user", "uuid": f"u-{number}", "pad": "x" * size}).encode() + b"\n"


def take(box: Sandbox, path: Path, mode: Mode = "full", before: Transcript | None = None) -> Transcript:
    """A conversation recorded without anything to warn of."""
    said: list[str] = []
    with box.open(door="binary", clock=integer_clock()) as baton:
        found = record(baton, event(path), mode, before, said.append)
    assert found is not None and not said, said
    return found


def check_stored(box: Sandbox, found: Transcript, data: bytes) -> None:
    """Git has exactly these bytes, in consecutive chunks that end at lines."""
    assert found.stored is not None
    names = [name for name in box.tree(found.stored) if name != "meta"]
    assert names == [f"chunks/{n:08d}" for n in range(len(names))]
    parts = [box.run("git", "cat-file", "blob", f"{found.stored}:{name}").out.encode() for name in names]
    assert b"".join(parts) == data and all(part.endswith(b"\n") for part in parts)
    meta = json.loads(box.git("cat-file", "blob", f"{found.stored}:meta"))
    position = {"bytes": len(data), "lines": data.count(b"\n"), "last": found.last}
    assert meta == {"v": 2, "agent": "claude", "session": SESSION, **position, "kept": len(data)}


def objects(box: Sandbox) -> int:
    """How many there are, loose or in a pack."""
    rows = dict(row.split(": ") for row in box.git("count-objects", "-v").splitlines())
    return int(rows["count"]) + int(rows["in-pack"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A transcript of three lines, the last of them half written."""
    path = tmp_path / "talk.jsonl"
    path.write_bytes(line(1) + line(2) + b'{"type": "user", "uuid": "half')
    return path


def test_off_looks_at_nothing_and_position_stores_nothing(repo: Sandbox, path: Path) -> None:
    count = objects(repo)
    with repo.open(door="binary") as baton:
        assert record(baton, event(path), "off", None) is None
        found = record(baton, event(path), "position", None)
    assert found == Transcript(size=len(line(1) + line(2)), lines=2, last="u-2", stored=None)
    assert objects(repo) == count and repo.git("for-each-ref", "refs/baton") == ""
    assert parse_transcript(transcript_text(found)) == found


def test_full_stores_whole_lines_under_the_session(repo: Sandbox, path: Path) -> None:
    found = take(repo, path)
    assert repo.git("rev-parse", REF) == found.stored
    check_stored(repo, found, line(1) + line(2))
    assert take(repo, path) == found  # nothing new: the same commit
    with path.open("ab") as file:
        file.write(b'"}\n' + line(4))
    more = take(repo, path, before=found)
    check_stored(repo, more, path.read_bytes())
    assert repo.git("rev-list", REF).split() == [more.stored, found.stored]
    assert (more.lines, more.last) == (4, "u-4")
    assert repo.git("log", "-1", "--format=%an <%ae>|%s", REF) == "A U Thor <author@example.com>|conversation of 4 lines"
    repo.fsck()


def test_only_what_follows_the_last_position_is_read(repo: Sandbox, path: Path) -> None:
    path.write_bytes(line(1) * 5000 + line(2))
    before = take(repo, path, "position")
    hole = before.size - len(line(2))
    path.write_bytes(b"\0" * (hole - 1) + b"\n" + line(2) + line(3))
    found = take(repo, path, "position", before)
    assert (found.lines, found.last, found.size) == (5002, "u-3", before.size + len(line(3)))


@pytest.mark.parametrize("mode", ["position", "full"])
def test_a_line_that_ends_where_another_did_does_not_go_on_from_it(repo: Sandbox, path: Path, mode: Mode) -> None:
    path.write_bytes(line(1) + line(2, 500))
    before = take(repo, path, mode)
    size = len(line(3)) + len(line(4)) + len(line(5))
    path.write_bytes(line(3) + line(4) + line(5, before.size - size) + line(6))
    assert path.read_bytes()[before.size - 1 : before.size] == b"\n"
    found = take(repo, path, mode, before)
    assert (found.lines, found.last, found.size) == (4, "u-6", path.stat().st_size)


def test_without_an_id_all_is_counted_again(repo: Sandbox, path: Path) -> None:
    path.write_bytes(b"[]\n" + b"x" * 100 + b"\n")
    before = take(repo, path, "position")
    assert (before.lines, before.last) == (2, None)
    path.write_bytes(b"[]\n" * (before.size // 3) + b"\n" * (before.size % 3) + b"[]\n")
    assert take(repo, path, "position", before).lines == path.read_bytes().count(b"\n")


def test_the_last_message_may_stand_before_other_lines(repo: Sandbox, path: Path) -> None:
    path.write_bytes(line(1) + line(2) + b'{"type": "mode"}\n' * 9)
    before = take(repo, path, "position")
    assert (before.lines, before.last) == (11, "u-2")
    with path.open("ab") as file:
        file.write(b'{"type": "mode"}\n')
    found = take(repo, path, "position", before)
    assert (found.lines, found.last, found.size) == (12, "u-2", path.stat().st_size)


@pytest.mark.parametrize("mode", ["position", "full"])
def test_a_file_that_was_rewritten_starts_anew(repo: Sandbox, path: Path, mode: Mode) -> None:
    path.write_bytes(line(1) + line(2) + line(3))
    before = take(repo, path, mode)
    path.write_bytes(line(7))
    shrunk = take(repo, path, mode, before)
    assert (shrunk.lines, shrunk.last, shrunk.size) == (1, "u-7", len(line(7)))
    path.write_bytes(line(8, 500) + line(9))
    moved = take(repo, path, mode, before)
    assert (moved.lines, moved.last) == (2, "u-9")
    if mode == "full":
        check_stored(repo, shrunk, line(7))
        check_stored(repo, moved, line(8, 500) + line(9))
        assert repo.git("rev-list", "--count", REF) == "3"
        repo.fsck()


def test_a_rewrite_of_the_same_length_is_seen_where_content_is_stored(repo: Sandbox, path: Path) -> None:
    path.write_bytes(line(1) + line(2))
    before = take(repo, path)
    path.write_bytes(line(3) + line(2) + line(4))
    check_stored(repo, take(repo, path, before=before), path.read_bytes())


@pytest.mark.full
@some("place", [0, 1, 7, 20, 38, 39])
def test_an_earlier_part_that_was_rewritten_is_seen(repo: Sandbox, path: Path, place: int) -> None:
    rows = [line(n, 30_000) for n in range(40)]  # more than a megabyte
    path.write_bytes(b"".join(rows))
    before = take(repo, path)
    rows[place] = rows[place].replace(b"xxx", b"yyy", 1)
    path.write_bytes(b"".join(rows))
    same = take(repo, path, before=before)
    assert (same.size, same.lines, same.last) == (before.size, before.lines, before.last)
    check_stored(repo, same, path.read_bytes())
    rows[place] = rows[place].replace(b"yyy", b"zzz", 1)
    path.write_bytes(b"".join([*rows, line(40)]))
    check_stored(repo, take(repo, path, before=same), path.read_bytes())
    assert repo.git("rev-list", "--count", REF) == "3"
    repo.fsck()


@pytest.mark.deep
@some("place", [0, 10, 20, 29])
def test_what_a_hook_in_a_hurry_passes_over_is_seen_by_the_next_that_is_not(repo: Sandbox, path: Path, place: int) -> None:
    """It looks at the file's last mebibyte alone, while it is the same file: what was written into the middle of it waits."""
    rows = [line(n, 60_000) for n in range(30)]
    path.write_bytes(b"".join(rows))
    first = take(repo, path)
    rows[place] = rows[place].replace(b"xxx", b"yyy", 1)
    with path.open("r+b") as file:
        file.write(b"".join([*rows, line(40)]))
    with repo.open(door="binary") as baton:
        hurried = record(baton, event(path), "full", first, seconds=None)
        assert hurried is not None and hurried.stored is not None and hurried.size == path.stat().st_size
    if place > 17:  # in what it looks at
        check_stored(repo, hurried, path.read_bytes())
    check_stored(repo, take(repo, path, before=hurried), path.read_bytes())


@pytest.mark.deep
def test_what_is_appended_costs_only_itself(repo: Sandbox, path: Path) -> None:
    path.write_bytes(b"".join(line(n, 1000) for n in range(1000)))  # a megabyte
    before = take(repo, path)
    count = objects(repo)
    with path.open("ab") as file:
        file.write(line(1000))
    after = take(repo, path, before=before)
    assert objects(repo) - count == 5  # last chunk, their folder, meta, tree, commit
    old, new = repo.tree(before.stored or ""), repo.tree(after.stored or "")
    assert len(new) == 16 + 1 and [name for name in new if new[name] != old.get(name)] == ["chunks/00000015", "meta"]
    assert objects(repo) - count == 5 and take(repo, path) == after and objects(repo) - count == 5


def test_a_long_line_is_a_chunk_by_itself() -> None:
    short, long = line(1), line(2, CHUNK * 3)
    assert list(chunks([short, long, short, short])) == [short, long, short + short]
    full = b"x" * (CHUNK - 1) + b"\n"
    assert list(chunks([full, short])) == [full, short]
    assert list(chunks([short, full, short])) == [short + full, short]
    assert list(chunks([])) == []


sizes = st.lists(st.sampled_from([1, 40, 900, 30_000, CHUNK - 1, CHUNK, CHUNK + 1, 150_000]), min_size=1, max_size=12)


@pytest.mark.full
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=sizes, cuts=st.lists(st.floats(0, 1), max_size=4))
def test_growing_at_any_place_gives_the_tree_of_one_write(
    repo: Sandbox, path: Path, sizes: list[int], cuts: list[float]
) -> None:
    repo.git("update-ref", "-d", REF)
    data = b"".join(line(n, size) for n, size in enumerate(sizes))
    path.write_bytes(data)
    whole = take(repo, path)
    check_stored(repo, whole, data)
    repo.git("update-ref", "-d", REF)
    before: Transcript | None = None
    for cut in [*sorted(cuts), 1.0]:
        path.write_bytes(data[: int(len(data) * cut)])
        if b"\n" in path.read_bytes():
            before = take(repo, path, before=before)
    assert before is not None
    assert repo.git("rev-parse", f"{before.stored}^{{tree}}") == repo.git("rev-parse", f"{whole.stored}^{{tree}}")
    repo.fsck()


def test_odd_files_are_no_conversation(repo: Sandbox, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "to-fifo").symlink_to(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "no-line-end").write_bytes(b"x" * 100_000)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "socket"))
    names = ["fifo", "to-fifo", "loop", "empty", "no-line-end", "socket", "gone", "", "x" * 300, "a/b\0c"]
    with repo.open(door="binary") as baton:
        for mode in ("position", "full"):
            for name in names:
                assert record(baton, event(f"{tmp_path}/{name}"), mode, None) is None, name
            for other in (None, "", "relative.jsonl", "/dev/null", "/dev/zero", "/dev/tty", "/proc/self/mem"):
                assert record(baton, event(other), mode, None) is None, other
    listening.close()
    assert repo.git("for-each-ref", "refs/baton") == ""


def test_what_is_no_json_is_counted_and_kept_as_it_is(repo: Sandbox, path: Path) -> None:
    data = bytes(range(256)) * 700 + b"\n" + line(1) + b"[1]\n\n{bad\n" + b"{" * 100_000 + b"\n\xff\n"
    path.write_bytes(data)
    found = take(repo, path)
    assert (found.size, found.lines, found.last) == (len(data), data.count(b"\n"), "u-1")
    raw = [repo.path / ".git", found.stored]
    listed = repo.git("ls-tree", "-r", "-l", str(raw[1]), "chunks").splitlines()
    assert sum(int(row.split()[3]) for row in listed) == len(data)
    repo.fsck()


def test_the_last_message_is_found_far_back(repo: Sandbox, path: Path) -> None:
    path.write_bytes(line(1) + b'{"type": "mode"}\n' * 20_000)
    assert take(repo, path, "position").last == "u-1"


def test_a_huge_conversation_has_a_position_only(repo: Sandbox, path: Path) -> None:
    path.write_bytes(line(1) + b"{")
    os.truncate(path, 256 << 20)
    with path.open("ab") as file:
        file.write(b"\n" + line(2))
    said: list[str] = []
    with repo.open(door="binary") as baton:
        found = record(baton, event(path), "full", None, said.append)
    assert found == Transcript(size=path.stat().st_size, lines=3, last="u-2")
    assert said == [f"the conversation is not stored: it has {found.size} bytes, and the limit is {256 << 20}"]


@pytest.mark.full
def test_much_that_is_new_is_stored_in_parts(repo: Sandbox, path: Path) -> None:
    data = b"".join(line(n, size) for n, size in enumerate([900_000] * 5 + [5_000_000, 10]))
    path.write_bytes(data)
    said: list[str] = []
    found: Transcript | None = None
    for _ in range(4):
        with repo.open(door="binary") as baton:
            found = record(baton, event(path), "full", found, said.append)
        assert found is not None and (found.size, found.lines, found.last) == (len(data), 7, "u-6")
    assert found is not None
    ends = [sum(len(row) + 1 for row in data.split(b"\n")[:count]) for count in (2, 4, 5)]
    rest = f"of {len(data)}; the next checkpoint goes on from there"
    assert said == [f"the conversation is stored up to byte {end} {rest}" for end in ends]
    check_stored(repo, found, data)
    assert repo.git("rev-list", "--count", REF) == "4"


@pytest.mark.parametrize("session", [None, "", "a\nb", "x" * 201])
def test_a_session_that_names_no_ref_has_a_position_only(repo: Sandbox, path: Path, session: str | None) -> None:
    with repo.open(door="binary") as baton:
        found = record(baton, event(path, session=session), "full", None)
        other = record(baton, event(path, agent="../x"), "full", None)
    assert found is not None and found.stored is None
    assert other is not None and other.stored is None


def test_a_session_becomes_one_part_of_a_ref(repo: Sandbox, path: Path) -> None:
    with repo.open(door="binary") as baton:
        found = record(baton, event(path, session="../a b/ü"), "full", None)
    assert found is not None
    assert repo.git("for-each-ref", "--format=%(refname)", "refs/baton") == (
        "refs/baton/transcripts/claude/%2E%2E%2Fa%20b%2F%C3%BC"
    )
