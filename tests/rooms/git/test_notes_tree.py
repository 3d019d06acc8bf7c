"""Notes trees: git reads every note that we write, and we read every note that git writes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import RecordError
from gitbaton.git.objects import (
    Objects,
    ReadAhead,
    TreeEntry,
    commit_data,
    edit_many_notes,
    edit_notes,
    find_notes,
    new_object,
    take_notes,
    tree_data,
    walk_notes,
)
from gitbaton.git.repo import discover
from tests.kit import Sandbox
from tests.kit.moments import Args, at
from tests.kit.threads import git_called
from tests.kit.tiers import some

REF = "refs/notes/checkpoints"
AUTHOR = b"A U Thor <author@example.com> 1767225600 +0000"


def ids(count: int, algorithm: str = "sha1", seed: str = "") -> list[str]:
    """Made-up commit ids, spread as git's are."""
    return [hashlib.new(algorithm, f"{seed}{n}".encode()).hexdigest() for n in range(count)]


def open_at(box: Sandbox) -> Objects:
    """The long-lived door where there is one."""
    return discover(str(box.path)).objects


def ours(objects: Objects, notes: Iterable[str], tree: str | None = None, text: str = "") -> str | None:
    """A notes tree with a note for each id, written by us; the note says which id it is for, or ``text``."""
    for oid in notes:
        blob = new_object(objects.algorithm, "blob", (text or f"{oid}\n").encode())
        made = [blob, *edit_notes(objects, tree, oid, blob.oid)]
        objects.write(made)
        tree = made[-1].oid
    return tree


def publish(box: Sandbox, objects: Objects, tree: str) -> None:
    """Make a tree git's notes."""
    commit = new_object(objects.algorithm, "commit", commit_data(tree=tree, parents=(), author=AUTHOR, message=b"notes\n"))
    objects.write([commit])
    box.git("update-ref", REF, commit.oid)


def theirs(box: Sandbox, notes: Iterable[str]) -> str:
    """Notes ``x`` of HEAD and of ids, written by git itself; its tree."""
    box.commit("noted")
    box.git("notes", f"--ref={REF}", "add", "-m", "x", "HEAD")
    head = box.head()
    box.git("notes", f"--ref={REF}", "copy", "--stdin", stdin="".join(f"{head} {oid}\n" for oid in notes).encode())
    return box.git("rev-parse", f"{REF}^{{tree}}")


def listed(box: Sandbox) -> set[str]:
    """The ids that git finds a note for."""
    rows = box.git("notes", f"--ref={REF}", "list").splitlines()
    return {row.split(" ")[1] for row in rows}


@some("algorithm", ["sha1", "sha256"])
@some("count", [1, 15, 50, 300])
def test_git_reads_what_we_write(count: int, algorithm: str, tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "box", f"--object-format={algorithm}")
    if algorithm == "sha256" and count > 15:
        count = 50
    objects, notes = open_at(box), ids(count, algorithm)
    tree = ours(objects, notes)
    assert tree is not None
    publish(box, objects, tree)
    assert listed(box) == set(notes)
    for oid in notes:
        assert len(find_notes(objects, tree, oid)) == 1
    box.fsck()
    box.git("update-ref", "-d", REF)
    judged = theirs(box, notes)
    assert ours(objects, [box.head(), *notes], text="x\n") == judged  # fanned out where git does it


@some("algorithm", ["sha1", "sha256"], share=0)
@some("count", [1, 15, 50, 300, 2000], share=0)
def test_we_read_and_change_what_git_writes(count: int, algorithm: str, tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "box", f"--object-format={algorithm}")
    notes = ids(count, algorithm)
    tree, objects = theirs(box, notes), open_at(box)
    for oid in notes[:: max(1, count // 100)]:
        found = [objects.read(blob) for blob in find_notes(objects, tree, oid)]
        assert [f.data for f in found if f] == [b"x\n"]
    assert find_notes(objects, tree, ids(1, algorithm, "no such note")[0]) == []
    more = ids(20, algorithm, "more")
    after = ours(objects, [*more, *notes[:5]], tree)
    assert after is not None
    publish(box, objects, after)
    assert listed(box) == {*notes, *more, box.head()}
    box.fsck()


def test_mixed_fan_out_is_one_note_afterwards(repo: Sandbox) -> None:
    objects, (oid, *others) = open_at(repo), ids(100)
    blobs = [new_object("sha1", "blob", b"%d\n" % n) for n in range(3)]
    inner = new_object("sha1", "tree", tree_data([TreeEntry(mode=b"100644", name=oid[2:].encode(), oid=blobs[0].oid)]))
    flat = [TreeEntry(mode=b"100644", name=o.encode(), oid=blobs[1].oid) for o in (oid, *others)]
    foreign = [TreeEntry(mode=b"100644", name=b"README", oid=blobs[2].oid)]
    fan = TreeEntry(mode=b"40000", name=oid[:2].encode(), oid=inner.oid)
    mixed = new_object("sha1", "tree", tree_data([*flat, fan, *foreign]))
    objects.write([*blobs, inner, mixed])
    assert set(find_notes(objects, mixed.oid, oid)) == {blobs[0].oid, blobs[1].oid}
    made = edit_notes(objects, mixed.oid, oid, blobs[2].oid)
    objects.write(made)
    assert find_notes(objects, made[-1].oid, oid) == [blobs[2].oid]
    assert repo.tree(made[-1].oid)["README"].endswith(blobs[2].oid)
    publish(repo, objects, made[-1].oid)
    assert listed(repo) == {oid, *others}
    repo.fsck()


@pytest.mark.deep
@pytest.mark.parametrize("count", [3, 700])
def test_trees_that_were_taken_together_are_walked_without_another_look(repo: Sandbox, count: int) -> None:
    with closing(discover(str(repo.path), door="binary")) as opened:
        objects = opened.objects
        tree = ours(objects, ids(count))
        assert tree is not None
        reader = ReadAhead(objects)
        take_notes(reader, tree)
        began, rows = list[Args](), {*walk_notes(objects, tree)}
        objects.close()  # whoever asks has to start a process again
        with at("os.posix_spawn", git_called("cat-file"), began.append):
            assert {*walk_notes(cast(Objects, reader), tree)} == rows and len(rows) == count
        assert not began
        missing = new_object("sha1", "tree", b"").oid[::-1]
        with pytest.raises(RecordError, match=f"notes tree {missing} cannot be read"):
            take_notes(reader, missing)
            list(walk_notes(cast(Objects, reader), missing))


@pytest.mark.deep
@pytest.mark.parametrize("count", [3, 700])
def test_what_two_trees_have_alike_is_not_walked(repo: Sandbox, count: int) -> None:
    """Whatever else is walked with it, nothing that differs is left out, also where one tree is fanned out and one is not."""
    objects, notes = open_at(repo), ids(count)
    tree = ours(objects, notes)
    assert tree is not None and not [*walk_notes(objects, tree, tree)]
    other = ours(objects, [notes[0], *ids(1, seed="more")], tree, "another\n")
    assert other is not None
    assert {*walk_notes(objects, other, tree)} == {*walk_notes(objects, other)} - {*walk_notes(objects, tree)}
    few = ours(objects, notes[:2])
    assert {*walk_notes(objects, tree, few)} >= {*walk_notes(objects, tree)} - {*walk_notes(objects, few or tree)}


@pytest.mark.deep
def test_foreign_entries_stay(repo: Sandbox) -> None:
    objects, notes = open_at(repo), ids(120)
    blob = new_object("sha1", "blob", b"not a note\n")
    objects.write([blob])
    file = notes[0][:2].encode()  # a file of somebody's where a folder of notes would be
    names = [b"README", b"zz", b"abc", file, notes[0].upper().encode()]
    tree = new_object("sha1", "tree", tree_data(TreeEntry(mode=b"100644", name=n, oid=blob.oid) for n in names))
    objects.write([tree])
    after = ours(objects, notes, tree.oid)
    assert after is not None
    held = repo.tree(after)
    assert all(held[n.decode()] == f"100644 {blob.oid}" for n in names)
    assert all(len(find_notes(objects, after, oid)) == 1 for oid in notes)
    publish(repo, objects, after)
    repo.fsck()


@pytest.mark.full
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.integers(0, 90),
    edits=st.lists(st.tuples(st.integers(0, 120), st.integers(0, 9)), max_size=60),
)
def test_any_sequence_of_edits(repo: Sandbox, start: int, edits: list[tuple[int, int]]) -> None:
    objects, names = open_at(repo), ids(121)
    expected = {oid: f"{oid}\n".encode() for oid in names[:start]}
    tree = ours(objects, names[:start])
    for which, text in edits:
        blob = new_object("sha1", "blob", b"%d" % text)
        made = [blob, *edit_notes(objects, tree, names[which], blob.oid)]
        objects.write(made)
        tree, expected[names[which]] = made[-1].oid, blob.data
    for oid in names:
        found = [objects.read(blob) for blob in find_notes(objects, tree, oid)]
        assert [f.data for f in found if f] == ([expected[oid]] if oid in expected else [])
    objects.close()


@pytest.mark.deep
@pytest.mark.parametrize("there", [0, 3, 60, 400, 6000])
def test_many_at_once_are_as_one_after_the_other(there: int, tmp_path: Path) -> None:
    objects = open_at(Sandbox.init(tmp_path / "box"))
    blob = new_object(objects.algorithm, "blob", b"x\n")
    old, fresh = ids(there, seed="old"), ids(700)
    odd = {fresh[5][:2]: TreeEntry(mode=b"100644", name=fresh[5][:2].encode(), oid=blob.oid)} if there == 60 else {}
    flat = [TreeEntry(mode=b"100644", name=oid.encode(), oid=blob.oid) for oid in fresh[:2] if there >= 400]
    begun = new_object(objects.algorithm, "tree", tree_data([*odd.values(), *flat])) if odd or flat else None
    objects.write([blob, *([begun] if begun else [])])
    start = edit_many_notes(objects, begun.oid if begun else None, dict.fromkeys(old, blob.oid), objects.write)
    notes = {oid: new_object(objects.algorithm, "blob", oid.encode()) for oid in [*fresh, *old[:9]]}
    objects.write(notes.values())
    expected = start
    for oid, note in notes.items():
        made = edit_notes(objects, expected, oid, note.oid)
        objects.write(made)
        expected = made[-1].oid
    assert edit_many_notes(objects, start, {oid: note.oid for oid, note in notes.items()}, objects.write) == expected
    assert edit_many_notes(objects, start, {}, objects.write) == start
