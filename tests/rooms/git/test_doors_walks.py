"""One contract for both doors to git: HEAD, symbolic refs, walks, what is broken, and many writers."""

from __future__ import annotations

import multiprocessing
import os
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from gitbaton.base.errors import BatonError, GitError, NotARepositoryError, RefConflictError
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.libgit2 import Libgit2Objects
from gitbaton.git.objects import NewObject, RefChange, new_object
from gitbaton.git.repo import Door, discover
from tests.kit import Sandbox
from tests.kit.doors import FORMATS, Place, build
from tests.kit.tiers import FULL, some


@pytest.fixture(params=FORMATS)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = build(tmp_path / "repo", request.param, monkeypatch)
    yield made
    made.objects.close()


def test_symref_and_set_symref(place: Place) -> None:
    objects = place.objects
    assert objects.symref("HEAD") == "refs/heads/main"
    assert objects.symref("BATON_HEAD") is None and objects.symref("refs/heads/main") is None
    for name in ("", "\n", "x y", "--output=x", "../x", "refs", "objects"):
        assert objects.symref(name) is None, name
    objects.set_symref("BATON_HEAD", "refs/checkpoints/a%20b")
    assert objects.symref("BATON_HEAD") == place.open().symref("BATON_HEAD") == "refs/checkpoints/a%20b"
    assert place.sandbox.git("symbolic-ref", "BATON_HEAD") == "refs/checkpoints/a%20b"
    place.sandbox.git("symbolic-ref", "BATON_HEAD", "refs/checkpoints/z")
    assert objects.symref("BATON_HEAD") == "refs/checkpoints/z"
    with pytest.raises(GitError):
        objects.set_symref("BATON_HEAD", "refs/x y")
    assert objects.symref("BATON_HEAD") == "refs/checkpoints/z"


def test_head_on_a_branch_detached_unborn(place: Place) -> None:
    git, objects = place.sandbox.git, place.objects
    head = place.sandbox.head()
    assert (objects.head().branch, objects.head().oid) == ("main", head)
    git("pack-refs", "--all")
    assert (objects.head().branch, objects.head().oid) == ("main", head)
    git("checkout", "-q", "--detach")
    assert (objects.head().branch, objects.head().oid) == (None, head)
    git("update-ref", "refs/tags/HEAD", "HEAD")  # git takes it for an unborn HEAD
    git("symbolic-ref", "HEAD", "refs/heads/unborn-1-g" + head[:10])
    assert (objects.head().branch, objects.head().oid) == ("unborn-1-g" + head[:10], None)


@pytest.mark.parametrize("name", ["binary", "libgit2", "sha256"])
def test_head_as_a_link(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = build(tmp_path / "repo", name, monkeypatch)
    place.sandbox.git("config", "core.preferSymlinkRefs", "true")
    place.sandbox.git("checkout", "-q", "-b", "other")
    assert (place.sandbox.path / ".git/HEAD").is_symlink()
    objects = place.open()
    assert (objects.head().branch, objects.head().oid) == ("other", place.sandbox.head())
    place.objects.set_symref("BATON_HEAD", "refs/checkpoints/none")
    assert objects.symref("BATON_HEAD") == "refs/checkpoints/none"


def test_a_linked_work_tree_has_its_own_head(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other"
    place.sandbox.git("worktree", "add", "-q", "-b", "side", str(other))
    there = discover(str(other), door=place.door).objects
    place.objects.set_symref("BATON_HEAD", "refs/checkpoints/here")
    assert there.symref("BATON_HEAD") is None
    there.set_symref("BATON_HEAD", "refs/checkpoints/there")
    assert (place.objects.symref("BATON_HEAD"), there.symref("BATON_HEAD")) == (
        "refs/checkpoints/here",
        "refs/checkpoints/there",
    )
    assert (place.objects.head().branch, there.head().branch) == ("main", "side")
    blob = place.blob("shared")
    there.update([RefChange(name="refs/checkpoints/there", new=blob, old=None)])
    assert place.objects.refs("refs/checkpoints/") == {"refs/checkpoints/there": blob}


def test_walks(place: Place) -> None:
    objects = place.objects
    root = place.commit("root")
    line = [root]
    for n in range(5):
        line.insert(0, place.commit(f"{n}", line[0]))
    side = place.commit("side", line[2])
    merge = place.commit("merge", line[0], side)
    assert objects.first_parents(merge) == [merge, *line]
    assert objects.first_parents(merge, 3) == [merge, *line[:2]] and objects.first_parents(merge, 0) == []
    assert objects.count(root) == 1 and objects.count(merge) == 8
    assert objects.distance(line[0], line[0]) == (0, 0)
    assert objects.distance(line[0], root) == (5, 0) and objects.distance(root, line[0]) == (0, 5)
    assert objects.distance(side, line[0]) == (1, 2)
    assert objects.distance(root, place.commit("another root")) is None
    blob, absent = place.blob("no commit"), "1" * len(root)
    for bad in (blob, absent):
        for ask in (objects.first_parents, objects.count, lambda oid: objects.distance(root, oid)):
            with pytest.raises(GitError):
                ask(bad)


def test_abbreviate(place: Place) -> None:
    algorithm = place.objects.algorithm
    seen: dict[str, NewObject] = {}
    n = 0
    while True:  # two blobs whose ids begin with the same five digits
        item = new_object(algorithm, "blob", b"%d" % n)
        twin = seen.setdefault(item.oid[:5], item)
        if twin is not item:
            break
        n += 1
    place.objects.write([item, twin])
    common = next(item.oid[:n] for n in range(len(item.oid), 0, -1) if item.oid[:n] == twin.oid[:n])
    assert place.objects.abbreviate(item.oid, 4) == item.oid[: len(common) + 1]
    assert place.objects.abbreviate(item.oid, len(common) + 3) == item.oid[: len(common) + 3]
    assert place.objects.abbreviate(item.oid, len(item.oid)) == item.oid
    absent = "1" * len(item.oid)
    assert absent.startswith(place.objects.abbreviate(absent, 7))


@pytest.mark.deep
def test_an_open_door_sees_what_others_write(place: Place) -> None:
    git, objects = place.sandbox.git, place.objects
    ref = "refs/checkpoints/a"
    for n in range(6):
        before = objects.info(ref)
        blob = place.sandbox.run("git", "hash-object", "-w", "--stdin", stdin=b"%d" % n).out.strip()
        git("update-ref", ref, blob)
        assert before is None or before.oid != blob
        for tidy in ((), ("pack-refs", "--all"), ("repack", "-adq"), ("gc", "-q", "--prune=now")):
            if tidy:
                git(*tidy)
            found = objects.read(ref)
            assert found is not None and (found.oid, found.data) == (blob, b"%d" % n)
            assert objects.refs("refs/checkpoints/") == {ref: blob}
    git("update-ref", "-d", ref)
    assert objects.info(ref) is None and objects.refs("refs/checkpoints/") == {}


@pytest.mark.deep
@some("many", [False, True])
def test_corrupt_objects(place: Place, many: bool) -> None:
    bad, good = place.put("blob", os.urandom(100_000)), place.blob("good")
    path = place.sandbox.path / ".git/objects" / bad[:2] / bad[2:]
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data[: len(data) // 2])
    place.sandbox.git("update-ref", "--stdin", stdin=f"create refs/checkpoints/good {good}\n".encode())
    objects = place.open()
    with pytest.raises(GitError) as caught:
        objects.read(bad)
    assert "\n" not in caught.value.message
    found = objects.read("refs/checkpoints/good")  # and the door still works
    assert found is not None and found.data == b"good"
    asked = [good, bad, good] * (40 if many else 1)
    assert [o.data if o else None for o in objects.read_many(asked)] == [b"good", None, b"good"] * (len(asked) // 3)


@pytest.mark.deep
def test_thousands_are_read_in_order_past_what_is_torn_large_or_not_there(place: Place) -> None:
    algorithm = place.objects.algorithm
    items = [new_object(algorithm, "blob", b"%d\n" % n * (n % 900)) for n in range(4_600)]
    place.objects.write_pack(items)
    bad = place.put("blob", os.urandom(9_000))
    path = place.sandbox.path / ".git/objects" / bad[:2] / bad[2:]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:3_000])
    asked, limit = [item.oid for item in items], 4_000
    asked[2_100:2_100], asked[4_400:4_400] = [bad], ["1" * len(bad)]
    objects = place.open()
    answers = [item.data if item else None for item in objects.read_many(asked, limit)]
    wanted = [item.data if len(item.data) <= limit else None for item in items]
    assert answers == [*wanted[:2_100], None, *wanted[2_100:4_399], None, *wanted[4_399:]]
    there = len(os.listdir("/dev/fd"))
    part = objects.read_many(asked, limit)
    assert [item.data if item else None for item in (next(part), next(part))] == wanted[:2]
    assert isinstance(part, Generator)
    part.close()  # and the process that has read ahead is ended
    assert len(os.listdir("/dev/fd")) == there


def test_an_object_of_no_known_kind_is_not_called_missing(place: Place) -> None:
    oid = place.blob("odd")
    path = place.sandbox.path / ".git/objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    path.write_bytes(zlib.compress(b"odd 3\0odd"))
    with pytest.raises(GitError):
        place.open().read(oid)


def test_an_object_that_goes_away_meanwhile(place: Place) -> None:
    blob = place.blob("soon gone")
    objects = place.open()
    assert objects.info(blob) is not None
    (place.sandbox.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    try:
        assert objects.read(blob) is None
    except GitError as error:
        assert blob in error.message
    found = objects.info("HEAD")
    assert found is not None and found.kind == "commit"


def test_close_lets_go_and_may_be_repeated(place: Place) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    for _ in range(5):
        objects = place.open()
        assert objects.info("HEAD") is not None and objects.refs("refs/heads/")
        objects.close()
        objects.close()
    assert descriptors() <= before


def test_what_libgit2_cannot_open_uses_the_binary(repo: Sandbox) -> None:
    assert isinstance(discover(str(repo.path)).objects, Libgit2Objects)
    repo.git("config", "core.repositoryformatversion", "0")
    repo.git("config", "extensions.refstorage", "reftable")
    assert isinstance(discover(str(repo.path)).objects, BinaryObjects)
    with pytest.raises(NotARepositoryError):
        discover(str(repo.path), door="libgit2")
    repo.git("config", "--unset", "extensions.refstorage")
    repo.git("config", "core.repositoryformatversion", "1")
    repo.git("config", "extensions.partialClone", "origin")
    assert isinstance(discover(str(repo.path)).objects, Libgit2Objects)


def _raise_counter(path: str, door: Door, times: int) -> None:
    objects = discover(path, door=door).objects
    done = 0
    deadline = time.monotonic() + 60
    while done < times:
        assert time.monotonic() < deadline
        found = objects.read("refs/checkpoints/counter")
        value = int(found.data or b"0") if found else 0
        item = new_object(objects.algorithm, "blob", b"%d" % (value + 1))
        objects.write([item])
        try:
            objects.update([RefChange(name="refs/checkpoints/counter", new=item.oid, old=found.oid if found else None)])
            done += 1
        except RefConflictError:
            continue
    objects.close()


@pytest.mark.full
@pytest.mark.parametrize("name,times", [("binary", 25), ("libgit2", 100)])
def test_t18_compare_and_swap_loses_nothing(name: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = build(tmp_path / "repo", name, monkeypatch)
    times = 100 if FULL else times
    start: Callable[..., multiprocessing.Process] = multiprocessing.get_context("spawn").Process  # type: ignore[assignment]
    workers = [start(target=_raise_counter, args=(str(place.sandbox.path), place.door, times)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 8
    assert place.sandbox.git("cat-file", "-p", "refs/checkpoints/counter") == str(8 * times)


def test_no_exception_but_ours_leaves(place: Place) -> None:
    head = place.sandbox.head()
    for bad in ("", "\0", "\n", "--output=x", "é", "\udcff", head + "^", "refs/heads/main..x"):
        calls: list[Callable[[], object]] = [
            lambda bad=bad: place.objects.first_parents(bad),  # type: ignore[misc]
            lambda bad=bad: place.objects.count(bad),  # type: ignore[misc]
            lambda bad=bad: place.objects.distance(head, bad),  # type: ignore[misc]
            lambda bad=bad: place.objects.set_symref("BATON_HEAD", bad),  # type: ignore[misc]
            lambda bad=bad: place.objects.update([RefChange(name=bad, new=head, old=None)]),  # type: ignore[misc]
            lambda bad=bad: place.objects.update([RefChange(name="refs/x/y", new=bad or "x", old=None)]),  # type: ignore[misc]
        ]
        for call in calls:
            with pytest.raises(BatonError) as caught:
                call()
            assert "\n" not in caught.value.message.replace(bad or "\0", ""), bad
    assert place.objects.refs("refs/") == {"refs/heads/main": head}
