"""What is known of unchanged files: never read twice, never believed where it may be wrong, and of use to the next process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from gitbaton.base.system.files import settled, signature
from gitbaton.git.objects import new_object
from gitbaton.git.publish import kept_reachable
from gitbaton.git.repo import Repo, discover
from gitbaton.git.worktree.filesets import FileCache, Files
from tests.kit import Sandbox
from tests.kit.filekit import coarse
from tests.kit.moments import Args, at
from tests.kit.tiers import some

RACY = 0.07  # seconds after which a file's times can be relied on


@pytest.fixture
def opened(repo: Sandbox) -> Iterator[Repo]:
    found = discover(os.fspath(repo.path), door="binary")
    yield found
    found.close()


@pytest.fixture
def reads(repo: Sandbox) -> Iterator[list[str]]:
    """The files of the work tree that are opened to be read."""
    said: list[str] = []

    def mine(args: Args) -> bool:
        path = str(args[0]).removeprefix(f"{repo.path}/")
        return path != str(args[0]) and not path.startswith(".git/") and not args[2] & os.O_ACCMODE

    with at("open", mine, lambda args: said.append(os.path.relpath(args[0], repo.path))):
        yield said


def worth(repo: Sandbox) -> None:
    """Enough to be read that it is kept for the next process; and old enough that all of it can be relied on."""
    for number in range(2):
        repo.write(f"d/large{number}", bytes(5 << 20))
    time.sleep(RACY)


def files(opened: Repo, *, cached: bool = True) -> Files:
    return Files(opened, opened.layout.root or "", cached=cached)


@pytest.mark.deep
def test_an_unchanged_file_is_read_once(repo: Sandbox, opened: Repo, reads: list[str]) -> None:
    repo.write("d/a", "a")
    repo.write("d/b", "b")
    time.sleep(RACY)
    seen = files(opened)
    first = seen.scan(["d/**"])
    assert sorted(reads) == ["d/a", "d/b"]
    repo.write("d/b", "c")
    assert seen.scan(["d/*"]).tree != first.tree and reads[2:] == ["d/b"]
    seen.scan(["d/a"])
    assert reads[2:] == ["d/b"]


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("old", [False, True])
def test_same_size_edits_of_the_same_moment_are_seen(
    repo: Sandbox, opened: Repo, monkeypatch: pytest.MonkeyPatch, steps: bool, old: bool
) -> None:
    if steps:
        coarse(monkeypatch)
    seen = files(opened)
    path = repo.path / "d"
    for number in range(15):
        path.write_bytes(b"%04d" % number)
        if old:
            os.utime(path, ns=(0, 0))
        assert seen.scan(["d"]).tree == files(opened, cached=False).scan(["d"]).tree, number


def test_times_of_whole_seconds_are_not_relied_on_so_soon() -> None:
    second = 1_000_000_000
    for ctime, later, sure in (
        (7 * second, 9 * second, False),
        (7 * second, 9 * second + 1, True),
        (7 * second + 1, 8 * second, True),
    ):
        assert settled((1, 1, 5 * second, ctime, 0o100644), later) == sure


@pytest.mark.deep
def test_the_next_process_reads_nothing_again(repo: Sandbox, opened: Repo, reads: list[str]) -> None:
    repo.write("d/a\n\xe9", "a")
    repo.write("d/b", "b" * 100).chmod(0o755)
    (repo.path / "d/l").symlink_to("b")
    worth(repo)
    with closing(files(opened)) as seen:
        first = seen.scan(["d/**"])
        none = seen.scan(["d/**"], store="none")
    reads.clear()
    with closing(files(opened)) as seen:
        assert seen.scan(["d/**"]) == first and seen.scan(["d/**"], store="none") == none
    assert reads == []
    repo.write("d/b", "B" * 100)
    with closing(files(opened)) as seen:
        assert seen.scan(["d/**"]).tree != first.tree
    assert reads == ["d/b"]


@pytest.mark.deep
@pytest.mark.parametrize("again", ["same object", "next process"])
def test_r44_what_gc_collected_is_written_again(repo: Sandbox, opened: Repo, reads: list[str], again: str) -> None:
    for number in range(150):
        repo.write(f"d/{number % 5}/{number}", str(number))
    worth(repo)
    seen = files(opened)
    first = seen.scan(["d/**", "a.txt"])
    assert seen.scan(["d/**", "a.txt"]) == first
    seen.close()
    with kept_reachable(opened, [first.tree], (), how="never"):
        assert len(repo.tree(first.tree)) == 153
    repo.git("gc", "-q", "--prune=now")
    assert repo.try_git("cat-file", "-e", first.tree).code != 0
    reads.clear()
    if again == "next process":  # with a quarantine of its own
        opened.close()
        opened = discover(os.fspath(repo.path), door="binary")
        seen = files(opened)
    assert seen.scan(["d/**", "a.txt"]) == first
    assert len(reads) == (152 if again == "next process" else 0)  # and not what a commit keeps
    with kept_reachable(opened, [first.tree], (), how="never"):
        assert len(repo.tree(first.tree)) == 153
    listed = "".join(f"{row.split(' ')[1]}\n" for row in repo.tree(first.tree).values())
    assert "missing" not in repo.git("cat-file", "--batch-check", stdin=listed.encode())
    assert len(repo.tree(first.tree)) == 153


@pytest.mark.deep
def test_loose_objects_that_were_pruned_are_written_again(repo: Sandbox, opened: Repo) -> None:
    repo.write("d/a", "alone")
    time.sleep(RACY)
    seen = files(opened)
    opened.objects.write([new_object("sha1", "blob", b"alone")])  # somebody else's
    first = seen.scan(["d/**"])
    for _ in range(2):
        repo.git("prune", "--expire=now")
        assert repo.try_git("cat-file", "-e", first.tree).code != 0
        assert seen.scan(["d/**"]) == first
        with kept_reachable(opened, [first.tree], (), how="never"):
            assert len(repo.tree(first.tree)) == 1 and repo.git("cat-file", "blob", first.entries["d/a"].oid) == "alone"
        for path in (repo.path / ".git/objects/pack").iterdir():
            path.unlink()


@pytest.mark.deep
def test_what_is_relied_on_is_as_good_as_new(repo: Sandbox, opened: Repo, reads: list[str]) -> None:
    """Also where the file need not be read."""
    repo.write("d/a", "alone")
    worth(repo)
    item = new_object("sha1", "blob", b"alone")
    opened.objects.write([item])
    loose = repo.loose(item.oid)
    for count in (1, 0):
        os.utime(loose, (0, 0))
        reads.clear()
        with closing(files(opened)) as seen:
            seen.scan(["d/**"])
        assert reads.count("d/a") == count
        repo.git("prune", "--expire=1.day.ago")
        assert loose.exists()


@pytest.mark.deep
@some("harm", ["cut", "flipped", "empty", "another root", "nonsense"], 3)
def test_a_broken_cache_is_no_cache(repo: Sandbox, opened: Repo, reads: list[str], harm: str) -> None:
    repo.write("d/a", "a")
    worth(repo)
    with closing(files(opened)) as seen:
        first = seen.scan(["d/**"])
    place = repo.path / ".git/baton/files.cache"
    data = place.read_bytes()
    oid = first.entries["d/a"].oid.encode()
    flipped = data.replace(oid, oid[::-1])
    assert flipped != data
    harmed = {"cut": data[:-7], "flipped": flipped, "empty": b"", "nonsense": b"x" * 50, "another root": data}[harm]
    place.write_bytes(harmed)
    reads.clear()
    if harm == "another root":
        other = FileCache(opened, "/elsewhere", os.fspath(place))
        assert other.get("d/a", signature(os.stat(repo.path / "d/a")), digest=False) is None
    else:
        assert files(opened).scan(["d/**"]) == first and "d/a" in reads


@pytest.mark.deep
def test_a_few_files_are_not_worth_a_cache(repo: Sandbox, opened: Repo) -> None:
    time.sleep(RACY)
    with closing(files(opened)) as seen:
        seen.scan(["**"])
    assert not (repo.path / ".git/baton/files.cache").exists()
