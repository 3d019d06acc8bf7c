"""Notes of one commit from several clones become the same note everywhere, and no word of a person is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.base.codec import Note, parse_note
from gitbaton.checkpoints.store.join import merged_note

IDS = [f"{n:02x}" * 20 for n in range(70)]
TIMES = {oid: b"2026-%03d" % (n * 7 % 60) for n, oid in enumerate(IDS[:60])}
TEXTS = {oid: f"checkpoint {oid}\ntrack: t\nstep: {n}\n".encode() for n, oid in enumerate(IDS)}
WORDS = [b"reviewed by Ann\n", b"Tested-by: Bob\n", b"two\nlines\n", b"checkpoint not an id\n"]
NOTES = st.builds(
    lambda entries, words, older: Note(
        preamble=b"\n".join(words), entries=tuple((oid, TEXTS[oid]) for oid in entries), older=older
    ).render(),
    st.lists(st.sampled_from(IDS), max_size=12, unique=True),
    st.lists(st.sampled_from(WORDS), max_size=3, unique=True),
    st.booleans(),
)


def joined(*raws: bytes, gone: frozenset[str] = frozenset()) -> bytes:
    return merged_note(raws, {}, TIMES, lambda oid: oid in gone)


@pytest.mark.full
@settings(max_examples=150, deadline=None)
@given(st.lists(NOTES, min_size=1, max_size=5), st.randoms())
def test_any_order_and_grouping_gives_the_same_note(notes: list[bytes], random: object) -> None:
    mixed = [*notes, notes[0]]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    whole = joined(*notes)
    cut = len(mixed) // 2
    assert joined(joined(*mixed[:cut]), joined(*mixed[cut:])) == whole == joined(whole) == joined(whole, *notes)
    parsed = parse_note(whole)
    assert {oid for oid, _ in parsed.entries} == {oid for raw in notes for oid, _ in parse_note(raw).entries}
    assert all(word in whole for raw in notes for word in WORDS if word in raw)
    known = [TIMES[oid] for oid, _ in parsed.entries if oid in TIMES]
    assert all(one >= two for one, two in pairwise(known))


@settings(max_examples=60, deadline=None)
@given(st.lists(NOTES, max_size=3), st.frozensets(st.sampled_from(IDS), max_size=30), st.frozensets(st.sampled_from(IDS)))
def test_new_entries_come_and_dropped_ones_go(notes: list[bytes], new: frozenset[str], gone: frozenset[str]) -> None:
    made = merged_note(notes, {oid: TEXTS[oid] for oid in new}, TIMES, lambda oid: oid in gone)
    found = {oid for raw in notes for oid, _ in parse_note(raw).entries}
    wanted = (found | new) - gone
    kept = parse_note(made)
    assert len(kept.entries) == min(len(wanted), 50) and {oid for oid, _ in kept.entries} <= wanted
    assert kept.older == (any(parse_note(raw).older for raw in notes) or len(wanted) > 50)
