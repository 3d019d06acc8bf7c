"""Merges in memory: for each pair of changes git's own merge is the judge of what conflicts and of what it makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitbaton.base.errors import GitError
from gitbaton.git.mergetree import MergeAnswer, MergeAsk, MergeSide, merged
from gitbaton.git.repo import Repo, discover
from tests.kit.pairs import BASE, P, Sides, both, insert, line, move, write


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    return Sides(tmp_path)


@pytest.fixture
def repo(sides: Sides) -> Iterator[Repo]:
    opened = discover(os.fspath(sides.box.path))
    yield opened
    opened.close()


def side(sides: Sides, commit: str, head: str | None = None) -> MergeSide:
    return MergeSide(tree=sides.box.git("rev-parse", f"{commit}^{{tree}}"), head=head or sides.base)


def asked(sides: Sides, repo: Repo, store: Path, *pairs: tuple[str, str]) -> list[MergeAnswer | None]:
    store.mkdir(exist_ok=True)
    return merged(repo, [MergeAsk(ours=side(sides, a), theirs=side(sides, b)) for a, b in pairs], os.fspath(store))


def one(sides: Sides, repo: Repo, store: Path, ours: str, theirs: str) -> MergeAnswer:
    (found,) = asked(sides, repo, store, (ours, theirs))
    assert found is not None
    return found


def test_one_line_on_both_sides(sides: Sides, repo: Repo, tmp_path: Path) -> None:
    ours, theirs = sides.commit(line(P, 10, "ours")), sides.commit(line(P, 10, "theirs"))
    objects = sides.box.everything()
    answer = one(sides, repo, tmp_path / "store", ours, theirs)
    assert not answer.clean and list(answer.conflicts) == [P]
    found = answer.conflicts[P]
    assert (found.reason, found.here, found.lines) == ("contents", P, ((10, 10),))
    trees = [sides.box.tree(commit)[P] for commit in (sides.base, ours, theirs)]
    assert list(found.stages) == trees
    assert sides.box.everything() == objects


def test_lines_are_those_of_our_file(sides: Sides, repo: Repo, tmp_path: Path) -> None:
    def ours(root: Path) -> None:
        for step in (line(P, 30, "a"), line(P, 31, "b"), insert(P, 2, "x\ny"), line("doc/last.txt", 2, "L")):
            step(root)

    answer = one(sides, repo, tmp_path / "store", sides.commit(ours), sides.commit(line(P, 32, "theirs")))
    assert answer.conflicts[P].lines == ((32, 33),)


def test_no_final_newline(sides: Sides, repo: Repo, tmp_path: Path) -> None:
    path = "doc/last.txt"
    pair = sides.commit(write(path, "first\nLAST")), sides.commit(write(path, "first\nlast\nmore"))
    assert one(sides, repo, tmp_path / "store", *pair).conflicts[path].lines == ((2, 2),)


def test_a_file_that_they_renamed_is_told_by_our_name(sides: Sides, repo: Repo, tmp_path: Path) -> None:
    def theirs(root: Path) -> None:
        line(P, 10, "theirs")(root)
        move(P, "src/paid.py")(root)

    answer = one(sides, repo, tmp_path / "store", sides.commit(line(P, 10, "o")), sides.commit(theirs))
    assert {path: (found.here, found.lines) for path, found in answer.conflicts.items()} == {"src/paid.py": (P, ((10, 10),))}


def test_a_folder_that_they_renamed_is_listed_once(
    sides: Sides, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"lots/{n}.txt" for n in range(20)]
    texts = {name: "".join(f"{name} {n}\n" for n in range(9)) for name in names}
    sides.base = sides.commit(both(*(write(name, text) for name, text in texts.items())))
    ours = sides.commit(both(*(line(name, 5, "ours") for name in names)))
    moved = (step for name in names for step in (line(name, 5, "theirs"), move(name, f"new/{name}")))
    theirs = sides.commit(both(*moved))
    trace = tmp_path / "trace"
    monkeypatch.setattr(repo, "git", repo.git.changed({"GIT_TRACE": str(trace)}))
    found = one(sides, repo, tmp_path / "store", ours, theirs).conflicts
    assert sorted(one.here for one in found.values()) == sorted(names)
    assert trace.read_text().count("ls-tree") < 5


def test_a_clean_merge_has_the_tree_that_git_makes(sides: Sides, repo: Repo, tmp_path: Path) -> None:
    ours, theirs = sides.commit(line(P, 10, "ours")), sides.commit(line(P, 30, "theirs"))
    answer = one(sides, repo, tmp_path / "store", ours, theirs)
    sides.box.git("checkout", "-q", "-f", "--detach", ours)
    sides.box.git("merge", "-q", "--no-edit", theirs)
    assert answer.clean and answer.tree == sides.box.git("rev-parse", "HEAD^{tree}")


def test_a_driver_of_the_users_is_not_run(sides: Sides, repo: Repo, tmp_path: Path) -> None:
    sides.box.git("config", "merge.mine.driver", f"touch {tmp_path / 'ran'}; false")
    pair = sides.commit(write("kept.cfg", "a\n")), sides.commit(write("kept.cfg", "b\n"))
    assert one(sides, repo, tmp_path / "store", *pair).clean
    assert not (tmp_path / "ran").exists()


def test_the_base_is_what_the_histories_have_in_common(sides: Sides, repo: Repo, tmp_path: Path) -> None:
    git = sides.box.git
    ours = sides.commit(line(P, 10, "ours"))
    later = sides.commit(line(P, 10, "theirs"))
    store = tmp_path / "store"
    store.mkdir()
    same = MergeAsk(ours=side(sides, ours, ours), theirs=side(sides, later, sides.base))
    known = MergeAsk(ours=side(sides, ours, ours), theirs=side(sides, later, ours))  # they stand on what we committed
    unborn = MergeAsk(ours=MergeSide(tree=git("rev-parse", f"{ours}^{{tree}}"), head=None), theirs=side(sides, later))
    found = merged(repo, [same, known, unborn], os.fspath(store))
    assert [answer and (answer.clean, sorted(answer.conflicts)) for answer in found] == [
        (False, [P]),
        (True, []),
        (False, [P]),
    ]


def test_what_is_not_here_stops_nothing_but_itself(sides: Sides, repo: Repo, tmp_path: Path) -> None:
    ours, theirs = sides.commit(line(P, 10, "ours")), sides.commit(line(P, 10, "theirs"))
    far = sides.commit(line(P, 30, "far"))
    store = tmp_path / "store"
    store.mkdir()
    good, gone = side(sides, ours), MergeSide(tree="1" * 40, head=sides.base)
    asks = [MergeAsk(ours=good, theirs=other) for other in (side(sides, theirs), gone, side(sides, far))]
    found = merged(repo, asks, os.fspath(store))
    assert [answer and answer.clean for answer in found] == [False, None, True]


def test_a_git_that_takes_one_pair_only(sides: Sides, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(sides.commit(line(P, 10, "o")), sides.commit(line(P, n, "t"))) for n in (10, 30)]
    new = asked(sides, repo, tmp_path / "store", *pairs)
    folder = tmp_path / "bin"
    folder.mkdir()
    real = sides.box.run("sh", "-c", "command -v git").out.strip()
    (folder / "git").write_text(f'#!/bin/sh\ncase "$*" in *merge-tree*--stdin*) exit 129;; esac\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    old = discover(os.fspath(sides.box.path))
    monkeypatch.setitem(old.git.env, "PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert asked(sides, old, tmp_path / "store", *pairs) == new
    (folder / "git").write_text(f'#!/bin/sh\ncase "$*" in *merge-tree*) exit 129;; esac\nexec {real} "$@"\n')
    with pytest.raises(GitError, match=r"2\.38"):
        asked(sides, old, tmp_path / "store", *pairs)
    old.close()


def test_every_path_of_the_base_can_be_told(sides: Sides, repo: Repo, tmp_path: Path) -> None:
    names = [name for name, data in BASE.items() if isinstance(data, str) and data.startswith("line 1\n")]

    def edit(text: str) -> str:
        return sides.commit(both(*(line(name, 5, text) for name in names)))

    answer = one(sides, repo, tmp_path / "store", edit("o"), edit("t"))
    assert {name: found.lines for name, found in answer.conflicts.items()} == dict.fromkeys(names, ((5, 5),))
