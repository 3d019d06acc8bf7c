"""What a snapshot leaves out: untracked files by size and baton.exclude, special files, the inside of submodules; and what the
ignore rules of a tree cover."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable

from gitbaton.git.objects import lookup
from gitbaton.git.repo import Repo
from gitbaton.git.run import Git, checked, zsplit
from gitbaton.model import Oid, Skipped
from gitbaton.values import value
from gitbaton.worktree.index import Facts, PrivateIndex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Untracked = Literal["all", "none"]


SCAN_LIMIT = 10_000
_NAMED = 500
_INSIDE = "a"
_BESIDE = re.compile(r"\.(.+)\.new")


@value
class Rules:
    """What of the untracked files is taken in. ``max_size`` in bytes; ``exclude`` are gitignore patterns; ``never`` are
    paths that are ours (LATEST) and belong in no checkpoint."""

    untracked: Untracked = "all"
    max_size: int = 50 << 20
    exclude: tuple[str, ...] = ()
    never: frozenset[str] = frozenset()


def ours(path: str, never: Collection[str]) -> bool:
    """Whether an untracked path is one of ``never``, or what a process of ours that is just writing it puts beside it."""
    folder, name = os.path.split(path)
    beside = _BESIDE.fullmatch(name)
    return path in never or (beside is not None and os.path.join(folder, beside.group(1)) in never)


def sort_out(git: Git, folder: str, root: str, paths: list[str], rules: Rules) -> tuple[list[str], list[Skipped]]:
    """Divide untracked paths into those to take in and those to leave out, with the reason."""
    taken, left = [], []
    excluded = _excluded(git, folder, paths, rules.exclude) if rules.exclude and paths else set()
    for path in paths:
        if ours(path, rules.never):
            continue
        if rules.untracked == "none":
            left.append(Skipped(path=path, reason="untracked"))
        elif path in excluded:
            left.append(Skipped(path=path, reason="excluded"))
        elif not path.endswith("/") and _size(os.path.join(root, path)) > rules.max_size:
            left.append(Skipped(path=path, reason="too-large"))
        else:
            taken.append(path)
    return taken, left


def _size(path: str) -> int:
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _excluded(git: Git, folder: str, paths: list[str], patterns: tuple[str, ...]) -> set[str]:
    """The paths that the patterns name, asked of git in an empty repository, so that no other ignore file has a say."""
    case = git.run("config", "--type=bool", "core.ignoreCase").out.decode().strip() or "false"
    own = _empty_repository(git, folder, patterns, f"core.ignoreCase={case}")
    # A nested repository ends in a slash, and git here sees no directory: ask for a path inside it, too.
    asked = {name: p for p in paths for name in ((p.rstrip("/"), p + _INSIDE) if p.endswith("/") else (p,))}
    fields = _ignored(own, asked, "--no-index", "-v")
    rows = zip(fields[2::4], fields[3::4], strict=True)
    return {asked[path[2:]] for pattern, path in rows if not pattern.startswith("!")}


def _empty_repository(git: Git, folder: str, patterns: tuple[str, ...], *config: str) -> Git:
    """Git bound to a repository with nothing in it but ``patterns`` as its ``info/exclude``."""
    place, empty = os.path.join(folder, "rules"), os.path.join(folder, "empty")
    for name in ("objects", "refs", "info"):
        os.makedirs(os.path.join(place, name), exist_ok=True)
    os.makedirs(empty, exist_ok=True)
    with open(os.path.join(place, "HEAD"), "wb") as file:
        file.write(b"ref: refs/heads/main\n")
    with open(os.path.join(place, "info", "exclude"), "wb") as file:
        file.write(b"".join(os.fsencode(p) + b"\n" for p in patterns))
    env = {"GIT_DIR": place, "GIT_COMMON_DIR": place, "GIT_WORK_TREE": empty, "GIT_INDEX_FILE": os.path.join(place, "index")}
    return git.changed(env, "core.excludesFile=", *config, directory=empty)


def _ignored(git: Git, paths: Iterable[str], *options: str, whole: bool = True) -> list[str]:
    """What ``check-ignore`` says of paths, each behind ``./``: one that begins with a colon would be read as a pathspec. Raises
    GitError where it fails; without ``whole`` what it said before counts."""
    stdin = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
    result = git.run("check-ignore", "-z", *options, "--stdin", stdin=stdin)
    if whole and result.code not in (0, 1):
        checked(result, "check-ignore")
    return zsplit(result.out)


def special(path: str) -> bool:
    """Whether a FIFO, a socket or a device stands at a path."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


def specials(git: Git, root: str, closed: Collection[str] = ()) -> list[str]:
    """FIFOs, sockets and devices that are not ignored, among the first 10,000 directory entries, nearest the top first.

    No git command shows them: they have no content that git could hold. ``closed`` are directories not looked into.
    """
    found, left = [], SCAN_LIMIT
    level = [""]
    while level and left > 0:
        deeper: list[str] = []
        for folder in level:
            if left <= 0:
                break
            entries = _entries(os.path.join(root, folder), top=not folder)
            left -= len(entries)
            for entry in [e for e in entries if not e.is_file(follow_symlinks=False)]:
                path = folder + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if path not in closed:
                        deeper.append(path + "/")
                elif not entry.is_symlink():
                    found.append(path)
        level = deeper
    # Git fails at a path inside a submodule that is in conflict, which is no gitlink yet.
    ignored = _ignored(git, found, whole=False) if found else []
    return [p for p in found if "./" + p not in ignored]


def _entries(folder: str, *, top: bool) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            listed = list(entries)
    except OSError:
        return []
    if top:
        return [e for e in listed if e.name != ".git"]
    nested = os.path.lexists(os.path.join(folder, ".git"))  # a repository, which is not ours to look into
    return [] if nested else listed


def inside_gitlinks(index: PrivateIndex, facts: Facts, root: str, *, changed: bool) -> list[Skipped]:
    """Submodules and nested repositories in the index that hold content which no commit of theirs has.

    Unless something has ``changed`` at all, git has just found them clean.
    """
    dirty, other = [], []
    for path in facts.gitlinks:
        try:
            with os.scandir(os.path.join(root, path)) as entries:
                names = {e.name for e in entries}
        except OSError:
            continue
        if ".git" in names:
            dirty.append(path)
        elif names:  # git looks into no directory whose place a commit has
            other.append(path)
    found = [Skipped(path=p, reason="submodule-dirty") for p in (_dirty(index, dirty) if changed else ())]
    return found + [Skipped(path=p, reason="nested-repository") for p in other]


def _dirty(index: PrivateIndex, paths: list[str]) -> list[str]:
    """Those of the submodules that git finds uncommitted or untracked content in, or cannot open."""
    if not paths:
        return []
    specs = [f":(top,literal){p}" for p in paths] if len(paths) <= _NAMED else []
    found = index.git.run("diff-files", "-z", "--name-only", "--ignore-submodules=none", "--", *specs)
    if found.code == 0:
        return [p for p in zsplit(found.out) if p in paths]
    half = len(paths) // 2
    return [*_dirty(index, paths[:half]), *_dirty(index, paths[half:])] if half else paths


def ignored_by(repo: Repo, folder: str, tree: Oid, paths: list[str]) -> set[str]:
    """Those of the paths that the ``.gitignore`` files of a tree cover, or ``info/exclude`` and ``core.excludesFile``.

    The rules are laid out in an empty work tree below ``folder``; nothing else is read from the real one. Raises GitError.
    """
    place = os.path.join(folder, "ignores")
    os.makedirs(place, exist_ok=True)
    for directory in sorted({above for path in paths for above in _folders(path)}):
        name = f"{directory}/.gitignore" if directory else ".gitignore"
        entry = lookup(repo.objects, tree, os.fsencode(name))
        found = repo.objects.read(entry.oid, 64 << 20) if entry is not None and entry.mode[:3] == b"100" else None
        if found is not None and found.data is not None:
            os.makedirs(os.path.join(place, directory), exist_ok=True)
            with open(os.path.join(place, name), "wb") as file:
                file.write(found.data)
    env = {"GIT_DIR": repo.layout.git_dir, "GIT_WORK_TREE": place, "GIT_INDEX_FILE": os.path.join(folder, "no-index")}
    return {path[2:] for path in _ignored(repo.git.changed(env, directory=place), paths, "--no-index")}


def _folders(path: str) -> list[str]:
    """The top and every directory above a path."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:n]) for n in range(len(parts) + 1)]
