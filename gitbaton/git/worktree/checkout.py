"""Differences of two trees, what is in the way of them on disk, and git's checkout of a whole tree into a new work tree."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import CollectedError, GitError, PathError
from gitbaton.base.model import Oid
from gitbaton.base.system.process import Result
from gitbaton.base.values import value
from gitbaton.git.gone import Readable
from gitbaton.git.objects import Objects, lookup, new_object
from gitbaton.git.repo import Repo
from gitbaton.git.run import Git, mends, zsplit
from gitbaton.git.treediff import compared, records, refuse_pathspecs
from gitbaton.git.worktree.filetrees import LINK, hides, is_safe, parents
from gitbaton.git.worktree.index import PrivateIndex, index_entries, index_info

GITLINK = "160000"
NESTED, INVALID = "nested-repository", "invalid-name"
CHECKOUT_SECONDS = 6 * 3600.0
_DOUBTFUL = re.compile(rb"\\|:|~|(?:^|/)gi7", re.I)
SMUDGE = re.compile(r"^fatal: (.*): smudge filter (.+) failed$", re.M)
_DENIED = re.compile(
    r"^(?:error|fatal|warning): (?:unable to (?:create file|unlink(?: old)?|create symlink)|cannot create directory at) "
    r"'?(.+?)'?:? \(?([A-Z][A-Za-z ,-]+)\)?$",
    re.M,
)
_MAY_NOT = ("Permission denied", "Operation not permitted", "Read-only file system", "Device or resource busy")
# What would be said of any other path, too.
NO_ROOM = (
    "No space left on device",
    "Disk quota exceeded",
    "Input/output error",
    "Too many open files",
    "Cannot allocate memory",
)
# Skip-worktree bits are ours to judge here, and a private index is written whole.
PLAIN = ("core.sparseCheckout=false", "index.sparse=false", "core.splitIndex=false", "submodule.recurse=false")


@value
class GitEntry:
    """A tree's entry at a path: ``mode`` as git prints it."""

    mode: str
    oid: Oid


@value
class Difference:
    """A path that two trees hold differently; None: not at all."""

    path: str
    now: GitEntry | None
    then: GitEntry | None


def entry_at(objects: Objects, tree: Oid, path: str) -> GitEntry | None:
    """Return a tree's entry at a path; None where there is nothing, or a folder. Raises RecordError."""
    found = lookup(objects, tree, os.fsencode(path))
    if found is None or found.is_tree:
        return None
    return GitEntry(mode=found.mode.decode("ascii", "replace"), oid=found.oid)


def differences(git: Git, now: Oid, then: Oid, specs: Sequence[str] = ()) -> list[Difference]:
    """Return the paths at which two trees differ, in git's order, perhaps only those that pathspecs match. Raises
    CollectedError, and GitError for pathspecs that git does not understand."""
    if now == then:
        refuse_pathspecs(git, specs)
        return []
    options = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none", "--no-relative")
    result = git.run("diff-tree", *options, now, then, "--", *specs)
    if result.code != 0:
        refuse_pathspecs(git, specs)
    changes = records(compared(result))[0][1]
    return [Difference(path=c.path, now=_entry(c.before), then=_entry(c.after)) for c in changes]


@value
class TreeComparison:
    """The differences of two trees; both less the folders that cannot be read on either side: these are the same on both.
    ``gone`` are such folders ("": the whole), with the reason."""

    now: Oid
    then: Oid
    differences: list[Difference]
    gone: Mapping[str, str] = MappingProxyType({})


def readable_differences(repo: Repo, now: Oid, then: Oid) -> TreeComparison:
    """Compare two trees as far as they can be read. Raises GitError."""
    try:
        return TreeComparison(now=now, then=then, differences=differences(repo.git, now, then))
    except CollectedError:
        first = Readable(repo.objects, now, then)
        second = Readable(repo.objects, then, first.tree)
        if not (first.gone or second.gone):
            raise
    repo.stow([*first.new, *second.new])
    apart = [] if "" in {**first.gone, **second.gone} else differences(repo.git, first.tree, second.tree)
    return TreeComparison(now=first.tree, then=second.tree, differences=apart, gone={**second.gone, **first.gone})


def _entry(said: str | None) -> GitEntry | None:
    mode, _, oid = (said or "").partition(" ")
    return GitEntry(mode=mode, oid=oid) if oid else None


class Guard:
    """The obstacles on disk where a path is to be put, as far as no capture holds them.

    ``held``: whether the capture holds a path. ``within``: files may come back into what is a repository of its own by now. No
    component is followed if it is a symbolic link.
    """

    def __init__(self, root: str, held: Callable[[str], bool], *, within: bool = False) -> None:
        self.root, self.held, self.within = root, held, within
        self._folders: dict[str, str | None] = {}

    def in_repository(self, path: str) -> bool:
        """Whether a path lies in a repository of its own, or in a linked work tree."""
        return any(self._above(folder) == NESTED for folder in parents(path))

    def _above(self, folder: str) -> str | None:
        if folder not in self._folders:
            self._folders[folder] = self._folder(folder)
        return self._folders[folder]

    def in_the_way(self, path: str) -> str | None:
        """Return the reason for which a path cannot be put there, or None: ``ignored``, ``special-file``,
        ``nested-repository``, ``invalid-name``."""
        if not is_safe(path):
            return INVALID
        for folder in parents(path):
            reason = self._above(folder)
            if reason == NESTED and self.within:
                continue
            if reason is not None:
                return reason or None
        reason = self._target(path)
        return NESTED if reason == "ignored" and self.in_repository(path) else reason

    def _folder(self, path: str) -> str | None:
        """Return the reason for which nothing can be put below a path; "" where nothing is there, None where a directory is."""
        found = self._stat(path)
        if found is None:
            return ""
        if not stat.S_ISDIR(found.st_mode):
            return "" if self.held(path) else _kind(found)
        return NESTED if os.path.lexists(self._full(path + "/.git")) else None

    def _target(self, path: str) -> str | None:
        found = self._stat(path)
        if found is None or self.held(path):
            return None
        return self._inside(path) if stat.S_ISDIR(found.st_mode) else _kind(found)

    def _inside(self, folder: str) -> str | None:
        """Return the reason for which a directory cannot make room: something in it is neither a directory nor held."""
        try:
            with os.scandir(self._full(folder)) as entries:
                listed = list(entries)
        except OSError:
            return "unreadable"
        if any(e.name == ".git" for e in listed):
            return NESTED
        for entry in listed:
            path = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                reason = self._inside(path)
            else:
                reason = None if self.held(path) else _kind(entry.stat(follow_symlinks=False))
            if reason:
                return reason
        return None

    def _stat(self, path: str) -> os.stat_result | None:
        try:
            return os.lstat(self._full(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise GitError(f"{in_quotes(path)}: {error.strerror}") from None

    def _full(self, path: str) -> str:
        return os.path.join(self.root, path)


def _kind(found: os.stat_result) -> str:
    plain = stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return "ignored" if plain else "special-file"


def changed_tree(index: PrivateIndex, wanted: Mapping[str, GitEntry | None], tree: Oid | None = None) -> Oid:
    """Return the tree of a private index, or another ``tree``, with some paths as ``wanted`` says; the index itself stays as
    it is. Raises GitError."""
    target = PrivateIndex(index.repo, index.path, index.path + ".target")
    target.git = index.repo.writing(target.git)
    target.copy()
    empty = os.path.join(os.path.dirname(index.path), "empty")
    os.makedirs(empty, exist_ok=True)
    env = {"GIT_DIR": index.repo.layout.git_dir, "GIT_WORK_TREE": empty}
    git = target.git.changed(env, *PLAIN, directory=empty)
    if tree is not None:
        index_of(git, tree)
    git.out("update-index", "-z", "--index-info", stdin=index_info(rows_of(wanted), index.width))
    # Whether its objects are here whoever carries it out looks.
    made = git.out("write-tree", "--missing-ok").decode("ascii").strip()
    os.unlink(target.path)
    return made


def index_of(git: Git, tree: Oid) -> None:
    """Fill the index of ``git`` with a tree, less what may not be in an index: git refuses a whole tree for one such name."""
    if git.run("read-tree", tree).code != 0:
        git.out("read-tree", "--empty")
        git.out("update-index", "-z", "--index-info", stdin=git.out("ls-tree", "-r", "-z", "--full-tree", tree))


def take_in(index: PrivateIndex, wanted: Mapping[str, GitEntry]) -> Oid:
    """Add to a private index paths that ignore rules hide, as far as they are on disk what ``wanted`` says; its tree then."""
    if not wanted:
        return index.write_tree()
    stdin = b"".join(b":(top,literal)" + os.fsencode(path) + b"\0" for path in wanted)
    words = ("add", "-f", "--ignore-errors", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
    index.git.changed({}, "core.safecrlf=false").run(*words, stdin=stdin)
    there = index_entries(index.git, [f":(top,literal){path}" for path in wanted])
    other = [path for mode, oid, _, path in there if GitEntry(mode=mode, oid=oid) != wanted.get(path)]
    if other:
        index.forget(other)
    return index.write_tree()


def refused_names(index: PrivateIndex, entries: Iterable[tuple[str, str]]) -> set[str]:
    """Return the paths, each asked for with a mode, that git takes into no index, as it is configured, or that are never safe:
    nothing puts them back. Git is asked only of such as look like that."""
    asked = {*entries}
    never = {path for path, _ in asked if not is_safe(path)}
    doubtful = sorted((path, mode) for path, mode in asked if path not in never and _is_doubtful(path, mode))
    if not doubtful:
        return never
    git = index.git.changed({"GIT_INDEX_FILE": index.path + ".names"}, *PLAIN)
    oid, found = "1" * 2 * index.width, set[tuple[str, str]]()
    while rest := [row for row in doubtful if row not in found]:  # one of them may be the folder of another
        git.out("read-tree", "--empty")
        rows = b"".join(os.fsencode(f"{mode} {oid}\t{path}\0") for path, mode in rest)
        git.run("update-index", "-z", "--index-info", stdin=rows)
        taken = {(path, mode) for mode, _, _, path in index_entries(git)}.intersection(rest)
        if not taken:
            break
        found |= taken
    return never.union(path for path, _ in rest)


def _is_doubtful(path: str, mode: str) -> bool:
    """Whether git may refuse to have a path of this mode in an index."""
    raw = os.fsencode(path)
    return bool(_DOUBTFUL.search(raw)) or (mode == LINK and b"git" in raw.lower()) or hides(path)


def rows_of(wanted: Mapping[str, GitEntry | None]) -> dict[str, list[str]]:
    """Return what is wanted at each path, as ``index_info`` takes it."""
    return {path: [f"{entry.mode} {entry.oid}"] if entry is not None else [] for path, entry in wanted.items()}


def hidden(index: PrivateIndex, paths: Collection[str]) -> list[str]:
    """Return those of the paths that are skip-worktree in a private index."""
    wanted = set(paths)
    listing = zsplit(index.git.changed({}, *PLAIN).out("ls-files", "-v", "-z"))
    return [row[2:] for row in listing if row[:1] in "Ss" and row[2:] in wanted]


def check_out(index: PrivateIndex, now: Oid, then: Oid) -> None:
    """Bring a new work tree, in which nothing else is at work, from ``now``, which the private index holds, to ``then``; the
    index has the files' stat data afterwards. Raises PathError for a file that cannot be written, GitError."""
    git = index.git.changed({}, *PLAIN)
    git.timeout = CHECKOUT_SECONDS
    result = git.run("read-tree", "-m", "-u", "--no-recurse-submodules", now, then)
    if result.code != 0:
        raise failure(result)


def failure(result: Result) -> GitError:
    """Return the error of a checkout that failed, by git's own words."""
    failed = SMUDGE.search(result.err)
    if failed:
        said = f"'{failed.group(1)}': the required filter '{failed.group(2)}' fails"
        hints = ["if its content is not here: git lfs fetch"] if failed.group(2) == "lfs" else []
        return PathError(said, *hints, reasons={failed.group(1): "filter-missing"})
    denied = _DENIED.findall(result.err)
    if denied and not any(why in NO_ROOM for _, why in denied):
        path, why = denied[0]
        reasons = {path: "unwritable" if why in _MAY_NOT else f"unwritable: {why}" for path, why in denied}
        return PathError(f"{in_quotes(path)}: {why}", reasons=reasons)
    return GitError(f"'git read-tree' failed: {result.fatal()}", *mends(result))


def matching(index: PrivateIndex, directory: str, tree: Oid, specs: Sequence[str]) -> set[str]:
    """Return the paths of a tree that pathspecs match, as seen from a directory. Raises GitError for a malformed one."""
    empty = new_object(index.repo.layout.algorithm, "tree", b"")
    index.repo.objects.write([empty])
    git = index.repo.git.changed({}, directory=directory)
    return {d.path for d in differences(git, empty.oid, tree, specs)}
