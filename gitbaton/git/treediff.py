"""Tree diffs: raw modes and ids, no renames; submodules by commit, whatever git is told to ignore."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from gitbaton.base.errors import MENDS, CollectedError, GitError
from gitbaton.base.model import Oid
from gitbaton.base.system.process import Process, Result
from gitbaton.base.values import value
from gitbaton.git.repo import Repo
from gitbaton.git.run import Git, refuse_index

TREES = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none")

Entry = str | None  # "MODE ID" as a tree has it; None where nothing stands
Pair = tuple[Oid, Oid]


@value
class PathChange:
    """One path on two sides, each ``MODE ID``; the id is zeros where git has not hashed a file."""

    path: str
    before: Entry
    after: Entry
    status: str


def differences(repo: Repo, pairs: Iterable[Pair], paths: Sequence[str] = ()) -> dict[Pair, dict[str, PathChange]]:
    """Return the differences between the two trees of each pair, by path; one process for all of them. ``paths``: only these,
    and what is below; a git that forgets them (2.36.0) tells more. Raises GitError."""
    wanted = list(dict.fromkeys(pairs))
    apart = [pair for pair in wanted if pair[0] != pair[1]]
    found: dict[Pair, dict[str, PathChange]] = {pair: {} for pair in wanted}
    if apart:
        found |= zip(apart, finished(started(repo, apart, paths), len(apart)), strict=True)
    return found


def started(repo: Repo, pairs: Sequence[Pair], paths: Sequence[str] = ()) -> Process:
    """Start a process that compares the trees of each pair, while other things are done. Raises GitError."""
    only = [f":(top,literal){path}" for path in paths]
    stdin = "".join(f"{before} {after}\n" for before, after in pairs).encode()
    return repo.git.start(*TREES, "--", *only, stdin=stdin, env=no_index(repo))


def no_index(repo: Repo) -> dict[str, str]:
    """Return the variable with which git compares trees without reading the index, which it does not need then: a damaged one
    would stop it."""
    return {"GIT_INDEX_FILE": os.path.join(repo.own_dir, "none")}


def refuse_pathspecs(git: Git, specs: Sequence[str]) -> None:
    """Raise GitError with git's own words for pathspecs that it does not understand."""
    result = git.run("diff-tree", "--stdin", "--", *specs) if specs else None
    if result is not None and result.code != 0:
        refuse_index(result)
        raise GitError(result.fatal())


def finished(process: Process, count: int) -> list[dict[str, PathChange]]:
    """Return what a comparison found of so many pairs, by path. Raises CollectedError where a tree cannot be read."""
    groups = records(compared(process.finish()))[1:]
    if len(groups) != count:  # git passes over a tree that is not there without failing
        raise CollectedError("cannot compare trees: one of them cannot be read", MENDS)
    return [{c.path: c for c in changes} for _, changes in groups]


def compared(result: Result) -> bytes:
    """Return what ``git diff-tree`` printed. Raises CollectedError where a tree cannot be read, DamagedIndexError."""
    if result.code != 0:
        refuse_index(result)
        raise CollectedError(f"'git diff-tree' failed: {result.fatal()}", MENDS)
    return result.out


def records(raw: bytes) -> list[tuple[str, list[PathChange]]]:
    """Parse git's ``--raw -z`` output in groups; each but the first follows a line of its own."""
    groups: list[tuple[str, list[PathChange]]] = [("", [])]
    at = 0
    while at < len(raw):
        if raw[at : at + 1] != b":":
            end = raw.index(b"\n", at)
            groups.append((raw[at:end].decode("ascii"), []))
            at = end + 1
            continue
        middle = raw.index(b"\0", at)
        end = raw.index(b"\0", middle + 1)
        old, new, before, after, status = raw[at + 1 : middle].decode("ascii").split(" ")
        change = PathChange(
            path=os.fsdecode(raw[middle + 1 : end]), before=_entry(old, before), after=_entry(new, after), status=status
        )
        groups[-1][1].append(change)
        at = end + 1
    return groups


def _entry(mode: str, oid: str) -> Entry:
    return f"{mode} {oid}" if mode.strip("0") else None
