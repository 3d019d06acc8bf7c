"""Note entries: concatenation, duplication, reordering and strangers' text leave every entry whole."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.base.codec import entry, parse_note, short, track_in
from gitbaton.base.codec.notes import MAX_ENTRIES, OLDER
from gitbaton.base.model import Checkpoint
from gitbaton.base.values import replace
from tests.kit import Sandbox, examples
from tests.kit.checkpoints import CHECKPOINTS, OID
from tests.rooms.codec.test_codec import checkpoint

IDS = st.sampled_from([f"{n:040x}" for n in range(6)] + [f"{n:064x}" for n in range(3)])
TEXTS = st.dictionaries(IDS, CHECKPOINTS, min_size=1, max_size=5)
LINE = st.sampled_from(
    [b"reviewed-by: me", b"# remark", b"checkpoint", b"checkpoint 12", b"x checkpoint " + OID.encode(), b"\tz"]
)
STRANGE = st.lists(LINE, min_size=1, max_size=3).map(b"\n".join)


def entries_of(ids: dict[str, Checkpoint]) -> dict[str, bytes]:
    return {oid: entry(oid, c) for oid, c in ids.items()}


@pytest.mark.deep
@settings(max_examples=examples(80, 30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(IDS, CHECKPOINTS)
def test_no_value_forges_a_line_of_an_entry(oid: str, c: Checkpoint) -> None:
    text = entry(oid, c).decode("utf-8")
    lines = text.removesuffix("\n").split("\n")
    assert lines[0] == f"checkpoint {oid}" and all(lines) and not any(line != line.rstrip() for line in lines)
    heads = [line.split(":", 1)[0] for line in lines[1:] if not line.startswith("\t")]
    texts = [("track", c.track), ("step", c.step), ("validation", c.validation), ("next", c.next_cmd), ("note", c.note)]
    texts += [("decision", d) for d in c.decisions] + [(f"extra.{k}", v) for k, v in c.extra]
    # The tests' own idea of what is left of a value: lines that hold more than blanks.
    assert [h for h in heads if h != "note"] == [n for n, t in texts if n != "note" and re.search(r"[^ \t\n]", shown(t))]
    assert all(
        line.startswith("\t") or re.match(r"(track|step|validation|next|note|decision|extra\..+): ", line) for line in lines[1:]
    )


def shown(text: str) -> str:
    """What is left of a value: control characters as ``?``, blanks of any kind as spaces."""
    from gitbaton.base.codec import plain

    return "".join(" " if c.isspace() and c not in "\n\t" else c for c in plain(text, keep="\n\t"))


@pytest.mark.deep
@settings(max_examples=examples(80, 30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS, st.data())
def test_entries_survive_concatenation_duplication_and_reordering(ids: dict[str, Checkpoint], data: st.DataObject) -> None:
    texts = entries_of(ids)
    order = data.draw(st.lists(st.sampled_from(sorted(texts)), min_size=1, max_size=10))
    parts = [texts[oid] for oid in order]
    strange = data.draw(st.lists(st.tuples(st.integers(0, len(parts)), STRANGE), max_size=3))
    for at, text in strange:
        parts.insert(at, text + b"\n")
    raw = b"\n".join(parts)  # as git joins notes: an empty line between
    crlf = data.draw(st.booleans())
    note = parse_note(raw.replace(b"\n", b"\r\n") if crlf else raw)
    assert dict(note.entries) == {oid: texts[oid] for oid in order}
    assert [oid for oid, _ in note.entries] == list(dict.fromkeys(order))
    for _, text in strange:
        assert text in note.preamble.replace(b"\r\n", b"\n")
    again = parse_note(note.render())
    assert [oid for oid, _ in again.entries] == [oid for oid, _ in note.entries] and again.preamble == note.preamble
    assert [track_in(text) for _, text in again.entries] == [track_in(text) for _, text in note.entries]
    assert again.render() == note.render() and again.render(lambda oid, _: texts[oid]) == note.render()


@pytest.mark.full
@settings(max_examples=examples(50, 25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS, TEXTS, STRANGE)
def test_a_note_joined_with_itself_does_not_grow(a: dict[str, Checkpoint], b: dict[str, Checkpoint], strange: bytes) -> None:
    one = parse_note(b"\n".join([strange + b"\n", *entries_of(a).values(), *entries_of(b).values()])).render()
    twice = parse_note(one + b"\n" + one).render()
    assert twice == one


def test_text_behind_a_doubled_entry_is_kept() -> None:
    text = entry(OID, checkpoint())
    note = parse_note(text + b"\n" + text + b"\nmine, added with git notes append\n\nand more\n")
    assert dict(note.entries) == {OID: text}
    assert note.preamble == b"mine, added with git notes append\n\nand more\n"


def test_a_line_of_a_newer_version_stays_in_its_entry() -> None:
    text = entry(OID, checkpoint()) + b"later: something\n"
    assert parse_note(b"\n\n" + text + b"\n\n").entries == ((OID, text),)


def test_the_newest_50_stay_and_a_line_says_where_the_rest_is() -> None:
    note = parse_note(b"by hand\n")
    for number in range(MAX_ENTRIES):
        note = parse_note(note.with_entry(f"{number:040x}", entry(f"{number:040x}", checkpoint())).render())
    assert not note.older and OLDER not in note.render()
    note = parse_note(note.with_entry("f" * 40, entry("f" * 40, checkpoint())).render())
    raw = note.render()
    assert raw.endswith(b"\n\n" + OLDER) and raw.count(OLDER) == 1 and raw.startswith(b"by hand\n\ncheckpoint ffff")
    assert len(note.entries) == MAX_ENTRIES and note.entries[0][0] == "f" * 40 and f"{0:040x}" not in dict(note.entries)
    # an entry that is replaced, and a note that git put behind another, do not forget it
    assert note.with_entry("f" * 40, b"checkpoint " + b"f" * 40 + b"\n").render().endswith(OLDER)
    joined = parse_note(raw + b"\n" + entry("e" * 40, checkpoint()) + b"\n" + raw).render()
    assert joined.count(OLDER) == 1 and joined.endswith(OLDER)


def test_below_the_newest_three_of_a_track_an_entry_is_its_id_and_its_step() -> None:
    rows = [("a" if n % 5 else "b", f"{n:040x}") for n in range(16)]  # b, a, a, a, a, b, ...: the oldest first
    texts = {oid: entry(oid, replace(checkpoint(), track=track, step=f"step {n}\nmore")) for n, (track, oid) in enumerate(rows)}
    note = parse_note(b"")
    for _, oid in rows:
        note = parse_note(note.with_entry(oid, texts[oid]).render())
    newest = {oid for name in "ab" for oid in [oid for track, oid in rows if track == name][-3:]}
    assert dict(note.entries) == {o: texts[o] if o in newest else short(texts[o]) for o in texts}
    said = note.render().decode()
    for (above, _), (track, oid) in pairwise(reversed(rows)):
        n = int(oid, 16)
        where = "" if track == above else f"track: {track}\n"
        assert oid in newest or f"\ncheckpoint {oid}\n{where}step: step {n}\n" in said
    assert note.render() == parse_note(note.render()).render()
    # What was short is whole again where it is among the newest three, and nothing else is asked for.
    left = replace(note, entries=tuple(item for item in note.entries if item[0] not in sorted(newest)[-2:]))
    asked = []
    whole = parse_note(left.render(lambda oid, text: asked.append(oid) or texts[oid]))  # type: ignore[func-returns-value]
    assert asked and all(whole_text == texts[oid] for oid, whole_text in whole.entries if oid in asked)
    assert len(asked) == 2 and not newest.intersection(asked)


def test_a_whole_entry_beats_a_short_one_wherever_it_stands() -> None:
    whole = entry(OID, checkpoint())
    for raw in (whole + b"\n" + short(whole), short(whole) + b"\n" + whole):
        assert parse_note(raw).entries == ((OID, whole),)


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["amend", "squash"])
def test_gits_own_concatenation_still_parses(repo: Sandbox, mode: str) -> None:
    repo.git("config", "notes.rewriteRef", "refs/notes/checkpoints*")
    base = repo.head()
    with repo.open() as baton:
        stored = []
        for number in range(2):
            repo.commit(f"c{number}", b_txt=f"{number}\n")
            stored.append(baton.snapshot(f"step {number}\nmore", track="main", note="a\n\nb\n").stored)
    if mode == "squash":
        repo.git("-c", "sequence.editor=sed -i 2s/pick/fixup/", "rebase", "-q", "-i", base)
    else:
        repo.git("notes", "--ref=checkpoints", "copy", "-f", "HEAD~1", "HEAD")
        repo.git("notes", "--ref=checkpoints", "append", "-m", "by hand", "HEAD")
        repo.git("commit", "-q", "--amend", "-m", "amended")
    raw = repo.git("notes", "--ref=checkpoints", "show", "HEAD").encode() + b"\n"
    note = parse_note(raw)
    wanted = stored if mode == "squash" else stored[:1]
    assert dict(note.entries) == {s.id: entry(s.id, s.checkpoint) for s in wanted}
    assert note.preamble == (b"" if mode == "squash" else b"by hand\n")
