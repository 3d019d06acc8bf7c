"""Capture: the work tree and the index as trees, through a private index, with a reason for every path left out."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from gitbaton.errors import GitError
from gitbaton.git.index import Facts, PrivateIndex, stages_tree
from gitbaton.git.objects import NewObject
from gitbaton.git.repo import Repo
from gitbaton.git.run import Result, checked, zsplit
from gitbaton.git.untracked import Rules, sort_out, special, specials
from gitbaton.model import Flag, Oid, Skipped
from gitbaton.values import value

_FEW = 500
_ATTEMPTS = 4
_FILTER = re.compile(r"clean filter '(.+)' failed")
_LEFTOVER_SECONDS = 3600.0


@value
class Captured:
    """The work tree as ``tree``; the index as ``staged`` (its stage-0 entries), flags and unmerged stages.

    ``stages`` are objects not yet written, the last one the tree ``1/ 2/ 3/ flags`` of an index commit's second parent.
    """

    tree: Oid
    staged: Oid
    flags: tuple[Flag, ...]
    unmerged: int
    stages: tuple[NewObject, ...]
    skipped: tuple[Skipped, ...]


class _Changes:
    """What differs from the index: tracked paths, untracked ones, and what to leave alone."""

    def __init__(self, skipped: list[Skipped]) -> None:
        self.tracked: list[str] = []
        self.untracked: list[str] = []
        self.skipped = skipped

    def __bool__(self) -> bool:
        return bool(self.tracked or self.untracked)


@contextmanager
def private_folder(repo: Repo) -> Iterator[str]:
    """A folder of our own in the git directory; what killed processes left there goes after an hour."""
    parent = os.path.join(repo.own_dir, "tmp")
    os.makedirs(parent, exist_ok=True)
    with os.scandir(parent) as entries:
        old = [e.path for e in entries if time.time() - e.stat(follow_symlinks=False).st_mtime > _LEFTOVER_SECONDS]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    folder = os.path.join(parent, f"{os.getpid()}.{time.monotonic_ns()}")
    os.mkdir(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def capture(repo: Repo, folder: str, rules: Rules, reachable: Collection[Oid]) -> Captured:
    """The state of the work tree and index of ``repo`` now, as objects in its object store.

    Equal to ``git add -A`` on a private index, plus edits that assume-unchanged and skip-worktree hide, less what
    ``rules`` and the file system refuse. ``reachable`` are trees known to be kept by gc (see PrivateIndex.facts).
    The real index is read and never written. Raises GitError.
    """
    root = repo.layout.root
    if root is None:
        raise GitError(f"'{repo.layout.git_dir}' has no work tree")
    for attempt in range(_ATTEMPTS):
        index = PrivateIndex(repo, repo.layout.index, os.path.join(folder, f"index.{attempt}"))
        if attempt:  # somebody writes the index while we read: stay on a copy
            index.copy()
        facts = index.facts(reachable)
        index.reveal(facts, root)
        changes = _look(index, folder, root, rules)
        if changes or facts.stages:
            index.copy()
        if index.copied or not index.moved():
            break
    return _captured(index, facts, root, changes)


def _captured(index: PrivateIndex, facts: Facts, root: str, changes: _Changes) -> Captured:
    skipped = list(changes.skipped)
    if changes:
        skipped += _take_in(index, root, changes)
    tree = _tree(index, facts, skipped) if changes or facts.stages else facts.tree
    skipped += _dirty_submodules(index, facts)
    unique = {s.path.rstrip("/"): s for s in reversed(skipped)}
    return Captured(
        tree=tree,
        staged=facts.tree,
        flags=facts.flags,
        unmerged=len({path for _, path, _, _ in facts.stages}),
        stages=stages_tree(index, facts),
        skipped=tuple(sorted(unique.values(), key=lambda s: os.fsencode(s.path))),
    )


def _look(index: PrivateIndex, folder: str, root: str, rules: Rules) -> _Changes:
    """What differs, by two listings at once: stat of what is tracked, and the untracked files."""
    tracked, others = index.listings()
    odd = specials(index.git, root)  # while git looks, too
    result = tracked.finish()
    changes = _Changes([Skipped(path=p, reason="special-file") for p in odd])
    if result.code == 0:
        fields = zsplit(result.out)
        for status, path in zip(fields[0::2], fields[1::2], strict=True):
            if status == "D" and special(os.path.join(root, path)):
                changes.skipped.append(Skipped(path=path, reason="special-file"))
            elif not changes.tracked or changes.tracked[-1] != path:
                changes.tracked.append(path)
    else:  # a racily clean path whose required filter is missing: let `add` look at everything
        changes.tracked = [""]
    untracked = zsplit(checked(others.finish(), "ls-files"))
    changes.untracked, left = sort_out(index.git, folder, root, untracked, rules)
    changes.skipped += left
    changes.skipped += [Skipped(path=p, reason="nested-repository") for p in changes.untracked if p.endswith("/")]
    return changes


def _take_in(index: PrivateIndex, root: str, changes: _Changes) -> list[Skipped]:
    """Bring the changes into the private index with git's own ``add``; what did not get in, and why."""
    skipped: list[Skipped] = []
    left = [s.path for s in changes.skipped if s.reason != "nested-repository"]
    for attempt in range(3):
        result, raw = _add(index, changes, left, everything=attempt > 0)
        skipped += raw
        if result.code == 0:
            return skipped
        missing = _left_behind(index, {p.rstrip("/") for p in left})
        reasons = {path: _reason(root, path) for path in missing}
        if attempt == 2 or not any(r == "unstable" for r in reasons.values()):
            break
    return skipped + [Skipped(path=path, reason=reason) for path, reason in reasons.items()]


def _add(index: PrivateIndex, changes: _Changes, left: list[str], *, everything: bool) -> tuple[Result, list[Skipped]]:
    """``git add -A`` of the changed paths, or of all when there are many, less those left out.

    A required filter that does not run makes git stop and keep the *old* index, with ``write-tree`` still succeeding:
    that filter is switched off, the files are stored as they are, and each is reported.
    """
    paths = changes.tracked + [p.rstrip("/") for p in changes.untracked]
    everything = everything or len(paths) > _FEW or "" in paths
    specs = [":(top)"] if everything else [f":(top,literal){p}" for p in paths]
    specs += [f":(top,exclude,literal){p.rstrip('/')}" for p in left]
    stdin = b"".join(os.fsencode(s) + b"\0" for s in specs)
    settings = ["core.safecrlf=false", "advice.addEmbeddedRepo=false", "advice.addIgnoredFile=false"]
    off: list[str] = []
    arguments = ("add", "-A", "--ignore-errors", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
    while True:
        result = index.git.changed({}, *settings).run(*arguments, stdin=stdin)
        if result.code < 2:
            break
        name = _FILTER.search(result.err)
        if "did not match any files" in result.err and not everything:
            return _add(index, changes, left, everything=True)
        if name is None or name.group(1) in off:
            raise GitError(f"the work tree cannot be captured: {result.fatal()}")
        off.append(name.group(1))
        settings += [f"filter.{name.group(1)}.{key}" for key in ("required=false", "clean=", "process=")]
    return result, [Skipped(path=p, reason="filter-missing") for p in _filtered(index, paths, off)]


def _filtered(index: PrivateIndex, paths: list[str], filters: list[str]) -> list[str]:
    """Those of ``paths`` that go through one of ``filters``."""
    if not filters:
        return []
    if "" in paths:
        paths = zsplit(index.git.out("ls-files", "-z"))
    stdin = b"".join(os.fsencode(p) + b"\0" for p in paths)
    fields = zsplit(index.git.out("check-attr", "-z", "--stdin", "filter", stdin=stdin))
    return [path for path, value in zip(fields[0::3], fields[2::3], strict=True) if value in filters]


def _left_behind(index: PrivateIndex, left: set[str]) -> list[str]:
    """Paths that still differ from the private index after ``add`` failed on some."""
    untracked = zsplit(index.git.out("ls-files", "-o", "-z", "--exclude-standard"))
    tracked = zsplit(index.git.out("diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=dirty"))
    return [p.rstrip("/") for p in (*tracked, *untracked) if p.rstrip("/") not in left]


def _reason(root: str, path: str) -> str:
    """Why git did not take a path in."""
    full = os.path.join(root, path)
    if special(full):
        return "special-file"
    if os.path.isdir(full) and not os.path.islink(full):
        return "nested-repository"
    try:
        if not os.path.islink(full):
            os.close(os.open(full, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
    except FileNotFoundError:
        return "unstable"
    except OSError:
        return "unreadable"
    parts = [part.lower() for part in path.split("/")]
    odd = any(p in (".git", "git~1") or p.startswith(".git") or "\\" in p or ":" in p for p in parts)
    return "invalid-name" if odd else "unstable"


def _tree(index: PrivateIndex, facts: Facts, skipped: list[Skipped]) -> Oid:
    """The private index as a tree; a path still unmerged there could not be read and has no entry."""
    if facts.stages:
        rest = index.git.out("ls-files", "-u", "-z").split(b"\0")[:-1]
        unread = {line.split(b"\t", 1)[1] for line in rest}
        if unread:
            index.forget(unread)
            skipped += [Skipped(path=os.fsdecode(p), reason="unreadable") for p in unread]
    return index.write_tree()


def _dirty_submodules(index: PrivateIndex, facts: Facts) -> list[Skipped]:
    """Submodules and nested repositories in the index whose own work tree has uncommitted content."""
    if not facts.gitlinks:
        return []
    specs = [f":(top,literal){p}" for p in facts.gitlinks] if len(facts.gitlinks) <= _FEW else []
    options = ("--porcelain=v2", "-z", "--ignore-submodules=none", "--no-renames", "-uno")
    found = index.git.run("status", *options, "--", *specs)
    records = (r.split(" ", 8) for r in zsplit(found.out) if r.startswith("1 "))
    return [Skipped(path=r[8], reason="submodule-dirty") for r in records if r[2][:1] == "S" and r[2][2:] != ".."]
