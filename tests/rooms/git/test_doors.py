"""One contract for both doors to git, binary (SHA-1, SHA-256, reftable) and libgit2: objects and refs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitbaton.base.errors import GitError, RefConflictError
from gitbaton.git.objects import NewObject, RefChange, TreeEntry, commit_data, new_object, tree_data
from tests.kit.doors import FORMATS, Place, build
from tests.kit.tiers import some


@pytest.fixture(params=FORMATS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = build(tmp_path / "repo", request.param, monkeypatch)
    yield made
    made.objects.close()


def test_info_and_read(place: Place) -> None:
    objects, git = place.objects, place.sandbox.git
    head = git("rev-parse", "HEAD")
    for spec in (head, "refs/heads/main", "HEAD"):
        found = objects.info(spec)
        assert found is not None and (found.oid, found.kind, found.data) == (head, "commit", None)
        read = objects.read(spec)
        assert read is not None and read.data == place.sandbox.run("git", "cat-file", "commit", head).out.encode()
        assert found.size == read.size == len(read.data or b"")
    tree = objects.read(git("rev-parse", "HEAD^{tree}"))
    assert tree is not None and tree.kind == "tree"
    git("tag", "-a", "-m", "t", "v1")
    tag = objects.read("refs/tags/v1")
    assert tag is not None and tag.kind == "tag" and tag.data is not None and tag.data.startswith(b"object ")


def test_specs_that_name_nothing(place: Place) -> None:
    objects, git = place.objects, place.sandbox.git
    head = git("rev-parse", "HEAD")
    git("tag", "refs/baton/tracks/x")  # git would take this tag, and this head, for the ref without them
    git("branch", "refs/baton/tracks/y")
    git("tag", "MERGE_HEAD")
    described = f"refs/baton/tracks/v1-1-g{head[:8]}"  # what `git describe` prints names a commit to git
    odd = ["", " ", "\n", "HEAD\n", f"{head}\n", f"{head}\n{head}", "--output=x", "-", "HEAD:a.txt", "HEAD^{tree}", "HEAD~1"]
    odd += ["main", head[:10], head.upper(), "refs/heads/missing", "refs/baton/tracks/x", "refs/baton/tracks/y"]
    odd += ["MERGE_HEAD", described, "@", "HEAD@{0}", "refs/../HEAD", "HEAD\0x", "../x", "refs/heads", "refs/heads/"]
    odd += [f"{head[:-1]}{'0' if head[-1] != '0' else '1'}", "0" * len(head), "1" * (104 - len(head)), "f" * 40, "f" * 64]
    for spec in odd:
        assert objects.info(spec) is None, spec
        assert objects.read(spec) is None, spec
    git("update-ref", "--stdin", stdin=f"create {described} {head}\n".encode())
    assert objects.info(described) is not None
    assert objects.info("HEAD") is not None
    assert not list(place.sandbox.path.glob("x"))


@pytest.mark.deep
def test_read_many_keeps_order(place: Place) -> None:
    few = [place.blob(f"blob {n}") for n in range(3)]
    absent = "1" * len(few[0])
    answers = list(place.objects.read_many([few[2], absent, few[0], few[0], few[1]]))
    assert [a.data if a else None for a in answers] == [b"blob 2", None, b"blob 0", b"blob 0", b"blob 1"]
    items = [new_object(place.objects.algorithm, "blob", b"%d\n" % n * (n % 7)) for n in range(300)]
    place.objects.write(items)
    asked = [item.oid for item in items]
    asked[10:10] = [absent, "HEAD", "", "x\ny"]
    many = list(place.objects.read_many(asked))
    assert [a.data if a else None for a in many] == [i.data for i in items[:10]] + [None] * 4 + [i.data for i in items[10:]]
    assert list(place.objects.read_many([])) == []


@pytest.mark.deep
def test_a_torn_object_hides_none_of_those_that_are_read_with_it(place: Place) -> None:
    oids = [place.blob(f"blob {n}\n" * 30) for n in range(150)]
    torn, absent = oids[100], "1" * len(oids[0])
    path = place.sandbox.path / ".git" / "objects" / torn[:2] / torn[2:]
    if not path.exists():
        pytest.skip("it is in a pack")
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:20])
    for part in (oids[98:103], oids):
        place.objects = place.open()
        answers = list(place.objects.read_many([absent, *part]))
        whole = [f"blob {oids.index(oid)}\n".encode() * 30 for oid in part]
        there = [a is not None and a.data == data for a, data in zip(answers[1:], whole, strict=True)]
        assert there == [oid != torn for oid in part] and answers[0] is None
    again = place.objects.read(oids[0])
    assert again is not None and again.data == b"blob 0\n" * 30


@pytest.mark.deep
def test_limit_of_reading(place: Place) -> None:
    big, empty = place.put("blob", b"x" * 5_000_000), place.put("blob", b"")
    at = place.objects.read(big)
    assert at is not None and at.size == 5_000_000 and at.data is None
    whole = place.objects.read(big, 5_000_000)
    assert whole is not None and whole.data == b"x" * 5_000_000
    nothing = place.objects.read(empty, 0)
    assert nothing is not None and nothing.data == b""
    small = place.blob("123")
    for oids in ([big, small], [big, small] * 40):
        answers = list(place.objects.read_many(oids, 3))
        assert [a.data if a else "none" for a in answers[:2]] == [None, b"123"]


@pytest.mark.deep
def test_write_is_byte_exact(place: Place) -> None:
    algorithm = place.objects.algorithm
    tree = place.put("tree", tree_data([TreeEntry(mode=b"100644", name=b"a\xff\n", oid=place.blob("x"))]))
    authors = (b"Foo Jr. <foo@example.com>", b"gitbaton <gitbaton@localhost>", b"  .Odd,;  <a b>", b"\xe4 <\xff@x>", b"X <>")
    made: list[NewObject] = [
        new_object(algorithm, "commit", commit_data(tree=tree, parents=(), author=a + b" 0 +0000", message=b"\n\nx\n \n"))
        for a in authors
    ]
    made.append(new_object(algorithm, "blob", b""))
    made.append(new_object(algorithm, "blob", bytes(range(256)) * 20_000))
    place.objects.write(iter(made))
    place.objects.write(made)
    place.objects.write([])
    for item in made:
        judged = place.sandbox.path.parent / "judged"
        judged.write_bytes(item.data)
        assert place.sandbox.git("hash-object", "-t", item.kind, "--literally", str(judged)) == item.oid
        found = place.open().read(item.oid, 10 << 20)
        assert found is not None and (found.kind, found.data) == (item.kind, item.data)


@pytest.mark.deep
def test_libgit2_writes_beside_a_git_that_removes_empty_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`git prune-packed`, a part of gc, takes away the folder that an object is about to be moved into."""
    place = build(tmp_path / "repo", "libgit2", monkeypatch)
    items = [new_object(place.objects.algorithm, "blob", b"%d" % n) for n in range(60_000)]
    items = [item for item in items if item.oid.startswith("ab")]
    folder = place.sandbox.path / ".git" / "objects" / "ab"
    code = "import os,sys,time\nprint(flush=True)\nwhile 1:\n time.sleep(1e-4)\n try: os.rmdir(sys.argv[1])\n except OSError: 0"
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            for item in items:
                place.objects.write([item])
                (folder / item.oid[2:]).unlink()
        finally:
            other.kill()
            place.objects.close()
    assert len(items) > 200


def test_refs_by_prefix(place: Place) -> None:
    one, two = place.blob("1"), place.blob("2")
    names = ["refs/checkpoints/b", "refs/checkpoints/a%20b", "refs/checkpointsx/c", "refs/baton/tracks/t", "refs/baton/x"]
    place.objects.update([RefChange(name=name, new=one, old=None) for name in names])
    assert place.objects.refs("refs/checkpoints/") == {"refs/checkpoints/a%20b": one, "refs/checkpoints/b": one}
    both = place.objects.refs("refs/checkpoints/", "refs/baton/tracks/")
    assert sorted(both) == ["refs/baton/tracks/t", "refs/checkpoints/a%20b", "refs/checkpoints/b"]
    assert place.objects.refs("refs/nothing/") == place.objects.refs() == {}
    place.sandbox.git("update-ref", names[0], two)
    place.sandbox.git("symbolic-ref", "refs/checkpoints/dangling", "refs/heads/none")
    place.sandbox.git("symbolic-ref", "refs/checkpoints/sym", "refs/checkpoints/b")
    assert place.objects.refs("refs/checkpoints/") == {names[1]: one, names[0]: two, "refs/checkpoints/sym": two}


def test_refs_whose_names_are_not_utf8(place: Place) -> None:
    name = os.fsdecode(b"refs/heads/caf\xe9")
    head = place.sandbox.head()
    place.sandbox.git("update-ref", name, head)
    assert place.objects.refs("refs/heads/") == {name: head, "refs/heads/main": head}
    found = place.objects.info(name)
    assert found is not None and found.oid == head
    place.sandbox.git("symbolic-ref", "HEAD", name)
    assert place.objects.head().branch == os.fsdecode(b"caf\xe9")


def test_update_creates_moves_deletes(place: Place) -> None:
    one, two = place.blob("1"), place.blob("2")
    ref = "refs/checkpoints/a"
    place.objects.update([RefChange(name=ref, new=one, old=None)])
    assert place.at(ref) == one
    place.objects.update([RefChange(name=ref, new=two, old=one)])
    assert place.at(ref) == two
    place.sandbox.git("pack-refs", "--all")
    place.objects.update([RefChange(name=ref, new=None, old=two)])
    assert place.at(ref) is None and place.objects.info(ref) is None
    place.objects.update()
    place.objects.update([])


@pytest.mark.deep
@some("packed", [False, True])
def test_update_compares(place: Place, packed: bool) -> None:
    one, two, three = place.blob("1"), place.blob("2"), place.blob("3")
    a, b = "refs/checkpoints/a", "refs/checkpoints/b"
    place.objects.update([RefChange(name=a, new=one, old=None), RefChange(name=b, new=one, old=None)])
    if packed:
        place.sandbox.git("pack-refs", "--all")
    wrong = [
        [RefChange(name=a, new=two, old=None)],
        [RefChange(name=a, new=two, old=three)],
        [RefChange(name=a, new=None, old=two)],
        [RefChange(name="refs/checkpoints/missing", new=two, old=one)],
        [RefChange(name=a, new=two, old=one), RefChange(name=b, new=two, old=three)],
        [RefChange(name=b, new=two, old=one), RefChange(name=a, new=two, old=None)],
    ]
    for changes in wrong:
        with pytest.raises(RefConflictError):
            place.objects.update(changes)
        assert (place.at(a), place.at(b)) == (one, one)
    with pytest.raises(RefConflictError):
        place.objects.update([RefChange(name=a, new=two, old=one)], [RefChange(name=b, new=two, old=three)])
    assert (place.at(a), place.at(b)) == (two, one)
    assert not list(place.sandbox.path.glob(".git/refs/**/*.lock"))
    place.objects.update([RefChange(name=b, new=two, old=one)])


def test_update_that_cannot_work(place: Place) -> None:
    one = place.blob("1")
    place.objects.update([RefChange(name="refs/checkpoints/a", new=one, old=None)])
    for name in ("refs/checkpoints/a/b", "refs/checkpoints", "refs/checkpoints/x..y", "refs/checkpoints/x\ny", "refs/x y"):
        with pytest.raises(GitError) as caught:
            place.objects.update([RefChange(name=name, new=one, old=None)])
        assert not isinstance(caught.value, RefConflictError), name
        assert "\n" not in caught.value.message.replace(name, "")
    with pytest.raises(GitError):
        place.objects.update([RefChange(name="refs/checkpoints/z", new="1" * len(one), old=None)])
    assert list(place.objects.refs("refs/checkpoints/")) == ["refs/checkpoints/a"]


@pytest.mark.deep
def test_update_meets_a_lock(place: Place) -> None:
    one = place.blob("1")
    place.objects.update([RefChange(name="refs/checkpoints/a", new=one, old=None)])
    git_dir = place.sandbox.path / ".git"
    reftable = (git_dir / "reftable").is_dir()
    lock = git_dir / ("reftable/tables.list.lock" if reftable else "refs/checkpoints/a.lock")
    lock.touch()
    with pytest.raises(RefConflictError):
        place.objects.update([RefChange(name="refs/checkpoints/a", new=None, old=one)])
    lock.unlink()
    place.objects.update([RefChange(name="refs/checkpoints/a", new=None, old=one)])
