"""The line of a note that says that there are older entries: true, and the same in each clone, whatever came first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.base.codec import Note, entry, parse_note
from gitbaton.base.codec.notes import MAX_ENTRIES, OLDER
from gitbaton.base.values import replace
from gitbaton.checkpoints.store.join import merged_note
from tests.kit.clones import Clone
from tests.kit.far import Far, forget, ok
from tests.kit.tiers import some
from tests.rooms.codec.test_codec import checkpoint
from tests.rooms.sync.test_notes_short import many


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def same(far: Far, *clones: Clone) -> Note:
    """All sync until nothing is left to say; then they and the remote have one note, which is what the chains make of it."""
    for _ in range(2):
        for clone in clones:
            ok(clone, "sync", "--yes")
    found = [*(clone.state().notes for clone in clones), far.there().notes]
    for notes in found[1:]:
        assert notes == found[0]
    first = clones[0]
    note = parse_note(found[0].get(first.head(), b""))
    said = [
        (item.data["created"], item.id)
        for items in first.state().chains.values()
        for item in items
        if item.data["kind"] == "manual" and item.data["head"] == first.head()
    ]
    wanted = [oid for _, oid in sorted(said, reverse=True)]
    assert [oid for oid, _ in note.entries] == wanted[:MAX_ENTRIES]
    assert note.older == (len(wanted) > MAX_ENTRIES)
    return note


def pruned_first(a: Clone, b: Clone) -> None:
    many(a, "t", *range(53))
    ok(a, "prune", "t", "--keep-last", "5")
    ok(a, "sync", "--yes")
    ok(b, "sync", "--yes")
    many(b, "t", 53)


def fetched_first(a: Clone, b: Clone) -> None:
    many(a, "t", *range(53))
    ok(a, "sync", "--yes")
    ok(b, "sync", "--yes")
    ok(a, "prune", "t", "--keep-last", "5")


def pruned_by_the_other(a: Clone, b: Clone) -> None:
    many(a, "t", *range(53))
    ok(a, "sync", "--yes")
    ok(b, "sync", "--yes")
    ok(b, "prune", "t", "--keep-last", "7")
    many(a, "t", 60)


def nothing_pruned(a: Clone, b: Clone) -> None:
    many(a, "t", *range(53))


def only_unlisted_ones_go(a: Clone, b: Clone) -> None:
    ids = many(a, "t", *range(53))
    ok(a, "sync", "--yes")
    ok(b, "sync", "--yes")
    forget(a, *ids[:3])


def what_was_unlisted_comes_back(a: Clone, b: Clone) -> None:
    ids = many(a, "t", *range(55))
    forget(a, *ids[20:30])
    ok(a, "sync", "--yes")


def in_turn(a: Clone, b: Clone) -> None:
    for n in range(4):
        clone = (a, b)[n % 2]
        many(clone, "t", *range(20 * n, 20 * n + 20))
        ok(clone, "sync", "--yes")
    ok(b, "prune", "t", "--keep-last", "51")
    ok(b, "sync", "--yes")
    ok(a, "prune", "t", "--keep-last", "50")


def of_two_tracks(a: Clone, b: Clone) -> None:
    many(a, "t", *range(30))
    many(b, "u", *range(30))
    ok(a, "sync", "--yes")
    ok(b, "sync", "--yes")
    ok(a, "sync", "--yes")
    ok(a, "tracks", "delete", "u", "--yes")


def a_stale_line_of_before(a: Clone, b: Clone) -> None:
    many(a, "t", *range(4))
    stale = a.state().notes[a.head()] + b"\n" + OLDER
    a.git("notes", "--ref=checkpoints", "add", "-f", "-F", "-", a.head(), stdin=stale)


WAYS: list[Callable[[Clone, Clone], None]] = [
    pruned_first,
    fetched_first,
    pruned_by_the_other,
    nothing_pruned,
    only_unlisted_ones_go,
    what_was_unlisted_comes_back,
    in_turn,
    of_two_tracks,
    a_stale_line_of_before,
]


@pytest.mark.deep
@some("way", WAYS, share=3)
def test_clones_and_their_remote_say_the_same_of_older_entries(far: Far, way: Callable[[Clone, Clone], None]) -> None:
    a, b = far.first, far.clone(skew=5)
    way(a, b)
    note = same(far, a, b)
    assert same(far, b, a, far.clone("c")) == note and note.entries


@pytest.mark.deep
def test_a_mended_note_lists_the_newest(far: Far) -> None:
    a = far.first
    ids = many(a, "t", *range(53))
    blob = a.git("rev-parse", f"refs/notes/checkpoints:{a.head()}")
    file = a.path / ".git" / "objects" / blob[:2] / blob[2:]
    if not file.exists():
        for pack in (a.path / ".git/objects/pack").glob("*.pack"):
            moved = a.path / pack.name
            pack.rename(moved)
            a.git("unpack-objects", "-q", stdin=moved.read_bytes())
    file.chmod(0o644)
    file.write_bytes(b"torn")
    assert "1 note written" in a.here("doctor", "--mend").out
    note = parse_note(a.state().notes[a.head()])
    assert [oid for oid, _ in note.entries] == ids[:2:-1] and note.older


def test_a_note_asks_what_there_is_only_where_it_does_not_know() -> None:
    texts = {f"{n:040x}": entry(f"{n:040x}", checkpoint()) for n in range(MAX_ENTRIES + 1)}
    times = {oid: oid.encode() for oid in texts}
    asked: list[Note] = []

    def settle(note: Note) -> Note:
        asked.append(note)
        return replace(note, older=False)

    def merged(note: bytes, *gone: str) -> bytes:
        return merged_note([note], {}, times, lambda oid: oid in gone, None, settle)

    full = merged_note([], texts, times, lambda oid: False, None, settle)
    assert full.endswith(OLDER) and asked == []
    assert not merged(full, f"{9:040x}").endswith(OLDER) and len(asked) == 1
    assert not merged(merged(full, f"{9:040x}")).endswith(OLDER) and len(asked) == 2
