"""Facts that are kept of records: no answer is another one with them, whatever has become of their file or of the records."""

from __future__ import annotations

import re
import shutil
import zlib
from pathlib import Path

import pytest

from gitbaton.base.system import parallel
from gitbaton.base.values import replace, waits
from gitbaton.checkpoints import names
from gitbaton.checkpoints.restore import attribution
from gitbaton.checkpoints.store import chain, facts, selection
from gitbaton.cli import look
from tests.kit import Sandbox
from tests.kit.damage import LEFT, MENDED, OTHER, THEIRS, TRACK, file_of, scene
from tests.kit.tiers import some

Answer = tuple[int, str, str]


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    """Return a repository with two tracks, one of them also fetched as it was, two that are only fetched, restores, a pin and a
    turn."""
    box = scene(tmp_path / "scene")
    box.git("update-ref", "refs/baton/remotes/far/tracks/abroad", OTHER)
    box.git("update-ref", "refs/baton/remotes/far/tracks/T", f"{TRACK}~1")
    told = box.git("cat-file", "commit", OTHER) + "\n"  # not as we write it
    odd = told.replace('"v": 1,', '"odd": {"label": "L9"},\n  "v": 1,').replace('"note": "",', '"note":  "odd",')
    made = box.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=odd.encode())
    box.git("update-ref", "refs/baton/remotes/far/tracks/odd", made)
    box.write("a.txt", "a 1\na 5\nnow\n")
    return box


def asked(box: Sandbox) -> list[tuple[str, ...]]:
    oid = box.git("for-each-ref", "--format=%(objectname)", "refs/checkpoints/t") or "0" * 40
    return [
        ("blame", "a.txt", "--json"),
        ("blame", "sub/new.txt", "--json"),
        ("why", "a.txt:1", "--json"),
        ("why", "a.txt:3", "--json"),
        ("log", "--all", "--no-fold"),
        ("log", "--all", "--stat"),
        ("log", "--graph"),
        ("page", "-o", str(box.path.parent / "page.html")),
        ("export", "--history", "--checkpoint-dir", str(box.path.parent / "exported")),
        ("log", "--all", "--porcelain"),
        ("log", "--all", "--json"),
        ("log", "--all", "--porcelain", "-n", "3"),
        ("log", "--all", "--porcelain", "-S", "a 3"),
        ("log", "--all", "--porcelain", "-n", "2", "--", "a.txt"),
        ("log", "--porcelain", "--track", "abroad"),
        ("show", "--json", "odd"),
        ("show", "--json", oid[:9]),
        ("show", "--json", "L3"),
        ("restore", oid[:9], "--dry-run"),
        ("tracks", "--porcelain"),
        ("prune", "--keep-last", "1", "--dry-run", "--json"),
        ("prune", "--keep-last", "1", "--drop-milestones", "--dry-run", "--json"),
        ("forget", oid[:9], "--dry-run", "--json"),
    ]


def answers(box: Sandbox, monkeypatch: pytest.MonkeyPatch, many: int) -> list[Answer]:
    sizes = ((place, "MANY", many) for place in (chain, facts, names, selection, parallel))
    parts = ((parallel, "_GROUP", 3), (look, "_PART", 2 if many == 1 else 1000))
    for place, name, size in (*sizes, *parts, (attribution, "FEW", 0 if many == 1 else many)):
        monkeypatch.setattr(place, name, size)
    done = [box.here(*words) for words in asked(box)]
    files = [box.path.parent / "page.html", *sorted((box.path.parent / "exported").glob("*_*"))]
    written = [(0, path.name, MOMENT.sub("", path.read_text("utf-8"))) for path in files if path.exists()]
    for path in files:
        path.unlink(missing_ok=True)
    return [(one.code, AGE.sub(" 0s ", one.out), one.err) for one in done] + written


NEVER = 1 << 40
AGE = re.compile(r" +(now|\d+[mhd]) ")
MOMENT = re.compile(r'written <time datetime="[^"]*">[^<]*')
DAMAGES = MENDED | LEFT | THEIRS
SOME = 8


def kept(box: Sandbox) -> Path:
    return box.path / ".git/baton/facts"


@pytest.mark.deep
def test_no_answer_is_another_one_with_them(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = answers(box, monkeypatch, NEVER)
    assert not kept(box).exists() and {code for code, _, _ in plain} == {0} and len(plain) > len(asked(box)) + 10
    assert answers(box, monkeypatch, 1) == plain
    whole = kept(box).read_bytes()
    assert answers(box, monkeypatch, 1) == plain and kept(box).read_bytes() == whole
    others = (b"", b"x", whole[:-30], whole + whole[-30:], whole.replace(b" ", b"  "), whole.replace(b"facts 3", b"facts 2"))
    for other in others:
        kept(box).write_bytes(other)
        assert answers(box, monkeypatch, 1) == plain and kept(box).read_bytes() == whole, other[:50]
    rows = whole.splitlines(keepends=True)
    kept(box).unlink()
    kept(box).mkdir()  # so that nothing can be kept
    assert answers(box, monkeypatch, 1) == plain
    kept(box).rmdir()
    assert len(rows) > 10


@pytest.mark.deep
def test_they_hold_no_words(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(box, monkeypatch, 1)
    _, *rows = kept(box).read_text(encoding="ascii").splitlines()
    words = {word for row in rows for word in row.split(" ")}
    assert all(re.fullmatch(r"[0-9a-f]{40}|[-0-9T:.]+\+00:00|\d{1,3}|[-MASI][a-z]*|", word) for word in words), words


@pytest.mark.deep
def test_of_two_that_write_at_once_one_wins(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    told = answers(box, monkeypatch, 1)
    whole = set(kept(box).read_bytes().splitlines()[1:])
    kept(box).unlink()
    with box.open(door="binary") as one, box.open(door="binary") as other:
        for both in (one, other):
            both.store.facts.load()
        items = [both.store.whole().items for both in (one, other)]
    rows = set(kept(box).read_bytes().splitlines()[1:])
    assert items[0] == items[1] and rows and rows <= whole and answers(box, monkeypatch, 1) == told


@pytest.mark.deep
def test_what_is_known_in_outline_is_what_is_read_at_once(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(box, monkeypatch, 1)
    with box.open(door="binary") as baton, baton.store.keeping():
        brief = baton.store.surely(lambda brief: baton.store.whole(brief=brief))
        tips = baton.store.tips().items
        whole = {(stored.checkpoint.track, stored.id): stored for stored in baton.store.whole().items}
        assert len(brief.outlines) > 3 and len(brief.outlines) + len(brief.items) == len(whole)
        assert tips and all(whole[tip.checkpoint.track, tip.id] == baton.store.read(tip) for tip in tips)
        for one in brief.outlines:
            read = whole[one.track, one.id]
            c, place = read.checkpoint, read.checkpoint.files and read.checkpoint.files.worktree.created
            assert baton.store.read(one.stored()) == read
            told = (one.head, one.previous or None, one.created, one.place, one.restore, one.foreign)
            assert told == (c.head, c.previous, c.created, place, c.restore, read.foreign)


@pytest.mark.deep
def test_what_is_read_later_is_what_is_read_at_once(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(box, monkeypatch, 1)
    with box.open(door="binary") as baton:
        whole, brief = (baton.store.whole(brief=brief).items for brief in (False, True))
        later = [stored for stored in brief if waits(stored)]
        read = {stored.id: baton.store.read(stored) for stored in later}
        assert len(later) > 3 and read == {stored.id: stored for stored in whole if stored.id in read}
        assert not any(map(waits, read.values()))
        back = replace(later[0], restored="a path")
        assert waits(back) and baton.store.read(back) == replace(read[back.id], restored="a path")


@some("kind", DAMAGES, share=SOME)
@pytest.mark.deep
def test_what_is_damaged_since_is_told_as_without_them(box: Sandbox, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    answers(box, monkeypatch, 1)
    assert kept(box).exists()
    DAMAGES[kind](box)
    answers(box, monkeypatch, NEVER)  # the first command may put something in order
    with_them = answers(box, monkeypatch, 1)
    kept(box).unlink()
    assert answers(box, monkeypatch, NEVER) == with_them


@pytest.mark.deep
def test_another_walk_beside_one_in_brief_hides_no_damage(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(box, monkeypatch, 1)
    file_of(box, f"{TRACK}~3").unlink()
    asked = list[bool]()
    with box.open(door="binary") as baton:

        def ask(brief: bool) -> int:
            asked.append(brief)
            found = baton.store.whole(brief=brief)
            with baton.store.ahead([]):
                return len(found.problems)

        assert baton.store.surely(ask) > 0
    assert asked == [True, False]


@pytest.mark.deep
def test_a_record_that_has_become_another_one_since_stops_no_second_command(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(box, monkeypatch, 1)
    file = file_of(box, f"{TRACK}~3")
    whole = zlib.decompress(file.read_bytes())
    file.chmod(0o644)
    file.write_bytes(zlib.compress(whole.replace(b'"note": "', b'"nota": "')))
    first = box.here("log", "--all", "--no-fold")
    assert (first.code, first.out) == (128, "") and first.err.startswith("fatal: commit ") and not kept(box).exists()
    again = box.here("log", "--all", "--no-fold")
    assert again.code == 0 and again.out and "is left out: record: " in again.err
    with_them = answers(box, monkeypatch, 1)
    kept(box).unlink()
    assert answers(box, monkeypatch, NEVER) == with_them


@pytest.mark.deep
def test_a_prune_removes_the_same_with_them(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def pruned(name: str) -> str:
        shutil.copytree(box.path, box.path.parent / name, symlinks=True)
        there = Sandbox(box.path.parent / name)
        done = there.here("prune", "--keep-last", "1", "--yes", "--json")
        refs = there.git("for-each-ref", "--format=%(objectname) %(refname)", "refs/baton", "refs/checkpoints", "refs/notes")
        there.fsck()
        return done.out + done.err + refs

    plain = pruned("plain")
    answers(box, monkeypatch, 1)
    assert kept(box).exists() and plain.count('"kind"') > 3
    assert pruned("known") == plain

    there = Sandbox(box.path.parent / "known")
    rows = {row.split(" ")[0]: row for row in kept(there).read_text().splitlines()[1:]}
    kept(there).unlink()
    answers(there, monkeypatch, 1)
    anew = {row.split(" ")[0]: row for row in kept(there).read_text().splitlines()[1:]}
    moved = anew.keys() & rows.keys() - {row.split(" ")[0] for row in kept(box).read_text().splitlines()[1:]}
    told = [{oid: found[oid].replace("w", "") for oid in moved} for found in (rows, anew)]  # canonical, as far as that was seen
    assert len(moved) > 1 and told[0] == told[1]


@pytest.mark.deep
def test_forget_leaves_what_names_no_forgotten_checkpoint(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    oid = box.git("for-each-ref", "--format=%(objectname)", "refs/checkpoints/t")
    answers(box, monkeypatch, 1)
    before = kept(box).read_text().splitlines()
    assert any(oid in row.split(" ") for row in before)
    done = box.here("forget", oid, "--yes")
    after = kept(box).read_text().splitlines()
    assert (done.code, after[1:]) == (0, [row for row in before[1:] if oid not in row.split(" ")]) and len(after) > 2
    with_them = answers(box, monkeypatch, 1)
    kept(box).unlink()
    assert answers(box, monkeypatch, NEVER) == with_them
