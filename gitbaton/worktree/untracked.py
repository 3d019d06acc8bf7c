"""What a snapshot leaves out: untracked files by size, by baton.exclude and because they were ignored until now, special files,
the inside of submodules."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Mapping, Sequence

from gitbaton.codec import in_quotes, plain
from gitbaton.errors import UsageError
from gitbaton.git.repo import Repo
from gitbaton.git.run import Git, zsplit
from gitbaton.model import IGNORED, Skipped
from gitbaton.values import value
from gitbaton.worktree.ignores import Past, excluded, ignored, text_of, until_now
from gitbaton.worktree.index import Facts, PrivateIndex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Untracked = Literal["all", "none"]


SCAN_LIMIT = 10_000
_NAMED = 500
_MANY, _SEEN = 2000, 20_000  # ignored files that are held, and entries that are looked at for them
_BESIDE = re.compile(r"\.(.+)\.new")


@value
class Rules:
    """What of the untracked files is taken in. ``max_size`` in bytes; ``exclude`` are gitignore patterns; ``never`` are
    paths that are ours (LATEST) and belong in no checkpoint. ``past``: asked for what was ignored until now, where something
    is untracked; ``include``: paths that are taken in all the same. ``most``: how many bytes of files that the newest
    checkpoint does not hold, where there is a limit; ``held``: asked whether it holds a path with a file of that size.
    ``going``: ignored files that a command is about to remove, and that are held here; and those that are not, with the reason.
    ``telling``: by the names of files that ``exclude`` names, what must stand in one for it to be left out."""

    untracked: Untracked = "all"
    max_size: int = 50 << 20
    exclude: tuple[str, ...] = ()
    never: frozenset[str] = frozenset()
    past: Callable[[], Past] | None = None
    include: Collection[str] = frozenset()
    most: int | None = None
    held: Callable[[str, int], bool] = lambda path, size: False
    telling: Mapping[str, bytes] = {}
    going: tuple[Sequence[str], Sequence[Skipped]] = ((), ())


def ours(path: str, never: Collection[str]) -> bool:
    """Whether an untracked path is one of ``never``, or what a process of ours that is just writing it puts beside it."""
    folder, name = os.path.split(path)
    beside = _BESIDE.fullmatch(name)
    return path in never or (beside is not None and os.path.join(folder, beside.group(1)) in never)


def sort_out(
    repo: Repo, folder: str, root: str, paths: Sequence[str], rules: Rules, beside: Collection[str] = ()
) -> tuple[list[str], list[Skipped]]:
    """Divide untracked paths into those to take in and those to leave out, with the reason. ``beside``: others that were taken
    in."""
    paths = [p for p in paths if not ours(p, rules.never)]
    if rules.untracked == "none":
        return [], [Skipped(path=p, reason="untracked") for p in paths]
    hidden, named = set[str](), list[str]()
    if paths and rules.past is not None:
        hidden, named = until_now(repo, folder, paths, rules.past(), {*rules.include, *beside})
    taken, left, sizes = [], [Skipped(path=p, reason=IGNORED) for p in named], dict[str, int]()
    paths = [p for p in paths if p not in hidden]
    out = excluded(repo.git, folder, paths, rules.exclude) if rules.exclude and paths else set[str]()
    for path in paths:
        sizes[path] = 0 if path.endswith("/") else _size(os.path.join(root, path))
        if path in out and not _harmless(os.path.join(root, path), rules):
            left.append(Skipped(path=path, reason="excluded"))
        elif sizes[path] > rules.max_size:
            left.append(Skipped(path=path, reason="too-large"))
        else:
            taken.append(path)
    over = _over(taken, sizes, rules)
    return [p for p in taken if p not in over], left + [Skipped(path=p, reason="too-much") for p in sorted(over)]


def asked_for(repo: Repo, directory: str | None, specs: Sequence[str]) -> dict[str, list[str]]:
    """The untracked paths that pathspecs match as seen from a directory, by pathspec; none for what is tracked. Raises
    UsageError for one that matches nothing else."""
    git, found = repo.git.changed({}, directory=directory or repo.layout.root or repo.layout.git_dir), dict[str, list[str]]()
    for spec in specs:
        listed = git.run("ls-files", "-o", "-z", "--full-name", "--exclude-standard", "--", spec)
        if listed.code:
            raise UsageError(f"{in_quotes(spec)} cannot be included: {listed.fatal()}")
        found[spec] = zsplit(listed.out)
        if found[spec] or git.out("ls-files", "-z", "--", spec):
            continue
        if git.out("ls-files", "-o", "-z", "--", spec):
            from shlex import quote

            word = quote(plain(spec))
            hints = f"'git check-ignore -v -- {word}' says why", f"'git add -f -- {word}' has git track it"
            raise UsageError(f"{in_quotes(spec)} cannot be included: git ignores it", *hints)
        raise UsageError(f"{in_quotes(spec)} cannot be included: it matches no file")
    return found


def going(
    repo: Repo, folder: str, rules: Rules, paths: Sequence[str], names: Sequence[str], most: int
) -> tuple[list[str], list[Skipped]]:
    """Divide the ignored files at and below paths into those to hold and those to name: each file and each folder of which all
    is ignored is held whole or not at all, the smallest first, ``most`` bytes together; what ``exclude`` names is not. With
    ``names`` only what is called so, or lies in a folder that is. Raises GitError."""
    root = repo.layout.root or ""
    top = repo.git.changed({}, directory=root)
    listed = zsplit(top.out("ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z"))
    found = [(path, _files(root, path, names, most)) for path in _at_or_below(listed, paths)]
    held, left, total = list[str](), list[Skipped](), 0
    for path, files in sorted(found, key=lambda one: sum(one[1].values()) if one[1] is not None else 0):
        size = sum(files.values()) if files is not None else 0
        if files is None or total + size > most or len(held) + len(files) > _MANY:
            left.append(Skipped(path=path.rstrip("/"), reason="ignored"))
            continue
        total += size
        held += (file for file in files if not ours(file, rules.never))
    out = excluded(repo.git, folder, held, rules.exclude) if rules.exclude and held else set[str]()
    out = {path for path in out if not _harmless(os.path.join(root, path), rules)}
    return [p for p in held if p not in out], left + [Skipped(path=p, reason="excluded") for p in sorted(out)]


def _at_or_below(listed: Sequence[str], paths: Sequence[str]) -> list[str]:
    """What of some ignored files and folders (they end in a slash) lies at or below paths; of a folder above one, that path."""
    found = dict[str, None]()
    for path in paths or ("",):
        at = "" if path in ("", ".") else f"{path.rstrip('/')}/"
        for one in listed:
            whole = one if one.endswith("/") else f"{one}/"
            found |= {one: None} if whole.startswith(at) else {path: None} if at.startswith(whole) else {}
    return [one for one in found if not any(one.startswith(other) for other in found if other != one and other.endswith("/"))]


def _files(root: str, path: str, names: Sequence[str], most: int) -> dict[str, int] | None:
    """The regular files at or below a path, each with its size; None where they are too many or too large, where something else
    is among them, or a repository."""
    from fnmatch import fnmatch

    found, todo, total = dict[str, int](), [path.rstrip("/")], 0
    while todo:
        at = todo.pop()
        full = os.path.join(root, at)
        try:
            mode, size = (seen := os.lstat(full)).st_mode, seen.st_size
            if stat.S_ISDIR(mode):
                inside = os.listdir(full)
                if ".git" in inside or len(todo) + len(inside) > _SEEN:
                    return None
                todo += [f"{at}/{name}" for name in inside]
                continue
        except FileNotFoundError:
            continue
        except OSError:
            return None
        if names and not any(fnmatch(part, name) for part in at.split("/") for name in names):
            continue
        total += size
        if not stat.S_ISREG(mode) or total > most or len(found) >= _MANY:
            return None
        found[at] = size
    return found


def _over(taken: Sequence[str], sizes: Mapping[str, int], rules: Rules) -> set[str]:
    """The largest of the new files, as many as it takes for the others to keep the limit."""
    over = set[str]()
    if rules.most is None or sum(sizes[p] for p in taken) <= rules.most:
        return over
    new = sorted((p for p in taken if not rules.held(p, sizes[p])), key=lambda p: (-sizes[p], p))
    left = sum(sizes[p] for p in new)
    for path in new:
        if left <= rules.most:
            break
        over.add(path)
        left -= sizes[path]
    return over


def _harmless(path: str, rules: Rules) -> bool:
    """Whether a file holds nothing of what a file of its name is left out for."""
    telling = rules.telling.get(os.path.basename(path))
    text = text_of(path) if telling is not None else None
    return telling is not None and text is not None and re.search(telling, text) is None


def _size(path: str) -> int:
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def regular(path: str) -> bool:
    """Whether a regular file stands at a path."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


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
    known = ignored(git, found, whole=False) if found else []
    return [p for p in found if "./" + p not in known]


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
    there = [path for path in facts.gitlinks if os.path.lexists(os.path.join(root, path, ".git"))]
    return [Skipped(path=p, reason="submodule-dirty") for p in (_dirty(index, there) if changed else ())]


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
