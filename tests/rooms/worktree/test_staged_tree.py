"""The tree that git has written down in an index: it is that of what is staged, or it is none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.git.repo import discover
from gitbaton.git.worktree.filedrift import changed_paths
from gitbaton.git.worktree.index import kept_tree
from gitbaton.git.worktree.untracked import CaptureRules
from tests.kit import Sandbox
from tests.kit.tiers import first

Steps = list[tuple[str, ...]]
NONE: Steps = [("add", "-N", "new"), ("update-index", "--add", "new"), ("rm", "-q", "--cached", "a.txt"), ("mv", "a.txt", "b")]
SAME: Steps = [
    ("status",),
    ("commit", "-qm", "nothing", "--allow-empty"),
    ("reset", "-q", "--hard"),
    ("checkout", "-q", "-b", "other"),
    ("update-index", "--untracked-cache"),
    ("update-index", "--index-version", "4"),
    ("update-index", "--split-index"),
    ("update-index", "--skip-worktree", "a.txt"),
    ("update-index", "--assume-unchanged", "a.txt"),
    ("-c", "index.threads=2", "-c", "index.recordEndOfIndexEntries=true", "update-index", "--force-write-index"),
    ("-c", "feature.manyFiles=true", "update-index", "--force-write-index"),
    ("sparse-checkout", "set", "--sparse-index", "sub"),
    ("rm", "-qr", "--cached", "."),
    ("read-tree", "--empty"),
    ("read-tree", "HEAD~1"),
    ("add", "-A"),
]


@pytest.fixture(params=first(["sha1", "sha256"]))
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Sandbox:
    repo = Sandbox.init(tmp_path / "repo", *(["--object-format=sha256"] if request.param == "sha256" else []))
    for name in ("a.txt", "TREE", "sub/TREEof", "sub/deep/TREE", "z/TREE\n"):
        repo.write(name, f"{name}\n")
    repo.commit("first")
    repo.write("sub/deep/TREE", "changed\n")
    repo.git("commit", "-qam", "second")
    repo.write("new", "")
    return repo


def staged(repo: Sandbox) -> str:
    """What git would commit, of a copy of the index."""
    place = Path(repo.git("rev-parse", "--path-format=absolute", "--git-path", "index"))
    copy = place.with_name("index-copy")
    shutil.copy2(place, copy)
    return repo.git("write-tree", env={"GIT_INDEX_FILE": str(copy)})


def kept(repo: Sandbox) -> str | None:
    return kept_tree(discover(str(repo.path)))


def test_it_is_that_of_what_is_staged(repo: Sandbox) -> None:
    assert kept(repo) == repo.git("rev-parse", "HEAD^{tree}") == staged(repo)


@pytest.mark.deep
@pytest.mark.parametrize("words", SAME, ids=lambda words: " ".join(words)[-40:])
def test_it_is_that_or_none_after_whatever_git_does(repo: Sandbox, words: tuple[str, ...]) -> None:
    for step in (words, ("status",), ("commit", "-qm", "next", "--allow-empty")):
        repo.git(*step)
        assert kept(repo) in (None, staged(repo)), step
    assert kept(repo) is not None or "--split-index" in words, "git writes it with a commit"


@pytest.mark.deep
@pytest.mark.parametrize("words", NONE, ids=lambda words: " ".join(words))
def test_there_is_none_where_an_entry_is_in_no_tree_yet(repo: Sandbox, words: tuple[str, ...]) -> None:
    repo.git(*words)
    assert kept(repo) is None


@pytest.mark.deep
def test_there_is_none_amid_a_merge(repo: Sandbox) -> None:
    repo.git("checkout", "-qb", "side", "HEAD~1")
    repo.write("sub/deep/TREE", "theirs\n")
    repo.git("commit", "-qam", "theirs")
    assert repo.try_git("merge", "main").code != 0
    assert kept(repo) is None


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "shorter": lambda data: data[:-30],
    "longer": lambda data: data + b"TREE",
    "another count": lambda data: data[:11] + bytes([data[11] ^ 1]) + data[12:],
    "only letters": lambda data: b"DIRC" + b"TREE" * 30,
    "nothing": lambda data: b"",
}


@pytest.mark.deep
@pytest.mark.parametrize("damage", DAMAGES)
def test_there_is_none_in_a_damaged_index(repo: Sandbox, damage: str) -> None:
    path = repo.path / ".git/index"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert kept(repo) is None


@pytest.mark.deep
def test_of_one_that_is_gone_in_part_the_index_itself_says_what_it_holds(repo: Sandbox) -> None:
    repo.write("sub/deep/TREE", "staged\n")
    repo.git("add", "sub")
    tree, both = staged(repo), [repo.git("rev-parse", f"{commit}^{{tree}}") for commit in ("HEAD", "HEAD~1")]
    repo.git("read-tree", tree)
    assert kept(repo) == tree
    told = changed_paths(discover(str(repo.path)), CaptureRules(), both)
    assert told == {tree: ["new", "sub/deep/TREE"] for tree in both}
    repo.loose(repo.git("rev-parse", f"{tree}:sub/deep")).unlink()
    assert kept(repo) == tree and changed_paths(discover(str(repo.path)), CaptureRules(), both) == told
