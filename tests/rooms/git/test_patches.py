"""Patches of many pairs of trees: each is what git gives of the pair alone, whatever stands in the files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest

from gitbaton.git.repo import Repo, discover
from gitbaton.git.treediff import Pair, patch, patches
from tests.kit import Sandbox

WHOLE = 1 << 20


@pytest.fixture
def opened(repo: Sandbox) -> Iterator[Repo]:
    found = discover(str(repo.path), door="binary")
    yield found
    found.close()


@pytest.fixture
def pairs(repo: Sandbox) -> list[Pair]:
    """Pairs of trees, some of them alike, with files that hold the lines which tell patches apart."""

    def tree(**files: bytes) -> str:
        rows = ((name.replace("_", "\n"), repo.git("hash-object", "-w", "--stdin", stdin=text)) for name, text in files.items())
        return repo.git("mktree", "-z", stdin="".join(f"100644 blob {oid}\t{name}\0" for name, oid in rows).encode())

    first, second = tree(a=b"one\n"), tree(a=b"two\n" * 99, b_c=b"no end")
    marks = f"{first} {second}\n{second} {first}\n".encode()
    trees = [first, second, tree(a=marks), tree(a=b"\n" + marks * 99, b_c=b"\0" + marks), tree()]
    return [*permutations(trees, 2), (first, first)]


@pytest.mark.deep
@pytest.mark.parametrize("most", [0, 1, 60, 999, WHOLE])
def test_each_patch_is_that_of_the_pair_alone_up_to_what_is_asked_for(opened: Repo, pairs: list[Pair], most: int) -> None:
    found, alone = patches(opened, pairs, most), {pair: patch(opened, pair) for pair in pairs}
    assert list(found) == pairs and {pair: text[: most + 1] for pair, text in alone.items()} == found


@pytest.mark.deep
def test_where_git_does_not_give_all_there_are_none(repo: Sandbox, opened: Repo, pairs: list[Pair]) -> None:
    assert patches(opened, [], WHOLE) == {} == patches(opened, [*pairs, ("1" * 40, "2" * 40), pairs[0]], WHOLE)
    blob = repo.loose(repo.git("rev-parse", f"{pairs[0][0]}:a"))
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes()[:-4])
    assert patches(opened, pairs, WHOLE) == {}
