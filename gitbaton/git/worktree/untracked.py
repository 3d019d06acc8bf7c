"""Untracked files: which of them a snapshot leaves out, by size, by baton.exclude, ignore rules of now and of before; special
files, the inside of submodules. Git judges the rules."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

from gitbaton.base.codec import in_quotes, plain
from gitbaton.base.errors import RecordError, UsageError
from gitbaton.base.model import IGNORED, Oid, Skipped, covered
from gitbaton.base.system.files import read_or_none
from gitbaton.base.values import TYPE_CHECKING, value
from gitbaton.git.objects import lookup, object_id
from gitbaton.git.repo import Repo, put
from gitbaton.git.run import Git, checked, zsplit
from gitbaton.git.worktree.filetrees import parents
from gitbaton.git.worktree.gate import filters, folders_of
from gitbaton.git.worktree.index import IndexFacts, PrivateIndex
from gitbaton.git.worktree.swap import mode_at, stat_signature

if TYPE_CHECKING:
    from typing import Literal

    Untracked = Literal["all", "none"]


SCAN_LIMIT = 10_000
_NAMED = 500
_MANY, _SEEN = 2000, 20_000  # ignored files that are held, and entries that are looked at for them
_BESIDE = re.compile(r"\.(.+)\.new")


@value
class CaptureRules:
    """The rules by which untracked files are taken in. ``max_size`` in bytes; ``exclude`` are gitignore patterns; ``never``
    are paths that are ours (LATEST) and belong in no checkpoint. ``past``: asked for what was ignored until now, where
    something is untracked; ``include``: paths that are taken in all the same. ``most``: how many bytes of files that the
    newest checkpoint does not hold, where there is a limit; ``held``: asked whether it holds a path with a file of that
    size. ``going``: ignored files that a command is about to remove, and that are held here; and those that are not, with
    the reason. ``telling``: by the names of files that ``exclude`` names, what must stand in one for it to be left out.
    ``walk``: each file is looked at, though a daemon of git's may know what has changed: before files are replaced."""

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
    walk: bool = False


def ours(path: str, never: Collection[str]) -> bool:
    """Whether an untracked path is one of ``never``, or what a process of ours puts beside it while it writes it."""
    folder, name = os.path.split(path)
    beside = _BESIDE.fullmatch(name)
    return path in never or (beside is not None and os.path.join(folder, beside.group(1)) in never)


def sort_out(
    repo: Repo, folder: str, root: str, paths: Sequence[str], rules: CaptureRules, beside: Collection[str] = ()
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
    """Return the untracked paths that pathspecs match as seen from a directory, by pathspec; none for what is tracked.
    Raises UsageError for one that matches nothing else."""
    git, found = repo.git.changed({}, directory=directory or repo.layout.root or repo.layout.git_dir), dict[str, list[str]]()
    for spec in specs:
        listed = git.run("ls-files", "-o", "-z", "--full-name", "--exclude-standard", "--", spec)
        if listed.code:
            said = listed.fatal().replace(f"'{spec}' is", "it is", 1)
            raise UsageError(f"{in_quotes(spec)} cannot be included: {said}")
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


def divide_ignored(
    repo: Repo, folder: str, rules: CaptureRules, paths: Sequence[str], names: Sequence[str], most: int
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
    """Return those of some ignored files and folders (they end in a slash) that are at or below paths; of a folder above
    one, that path."""
    found = dict[str, None]()
    for path in paths or ("",):
        at = "" if path in ("", ".") else f"{path.rstrip('/')}/"
        for one in listed:
            whole = one if one.endswith("/") else f"{one}/"
            found |= {one: None} if whole.startswith(at) else {path: None} if at.startswith(whole) else {}
    return [one for one in found if not any(one.startswith(other) for other in found if other != one and other.endswith("/"))]


def _files(root: str, path: str, names: Sequence[str], most: int) -> dict[str, int] | None:
    """Return the regular files at or below a path, each with its size; None where they are too many or too large, where
    something else is among them, or a repository."""
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


def _over(taken: Sequence[str], sizes: Mapping[str, int], rules: CaptureRules) -> set[str]:
    """Return the largest of the new files, as many as it takes for the others to keep the limit."""
    if rules.most is None or sum(sizes[p] for p in taken) <= rules.most:
        return set()
    new = sorted((p for p in taken if not rules.held(p, sizes[p])), key=lambda p: (-sizes[p], p))[::-1]
    return {p for p, total in zip(new, accumulate(sizes[p] for p in new), strict=True) if total > rules.most}


def _harmless(path: str, rules: CaptureRules) -> bool:
    """Whether a file holds nothing of what a file of its name is left out for."""
    telling = rules.telling.get(os.path.basename(path))
    text = read_or_none(path, MAX_RULES) if telling is not None else None
    return telling is not None and text is not None and re.search(telling, text) is None


def _size(path: str) -> int:
    seen = stat_signature(path)
    return seen[1] if seen is not None and stat.S_ISREG(seen[4]) else 0


def regular(path: str) -> bool:
    """Whether a regular file stands at a path."""
    return stat.S_ISREG(mode_at(None, path))


def special(path: str) -> bool:
    """Whether a FIFO, a socket or a device stands at a path."""
    return stat.S_IFMT(mode_at(None, path)) not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)


def specials(git: Git, root: str, closed: Collection[str] = ()) -> list[str]:
    """Return FIFOs, sockets and devices that are not ignored, among the first 10,000 directory entries, nearest the top first.

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
    return [] if os.path.lexists(os.path.join(folder, ".git")) else listed  # no repository is ours to look into


def inside_gitlinks(index: PrivateIndex, facts: IndexFacts, root: str, *, changed: bool) -> list[Skipped]:
    """Return submodules and nested repositories in the index that hold content which no commit of theirs has.

    Unless something has ``changed`` at all, git has just found them clean.
    """
    there = [path for path in facts.gitlinks if os.path.lexists(os.path.join(root, path, ".git"))]
    return [Skipped(path=p, reason="submodule-dirty") for p in (_dirty(index, there) if changed else ())]


def _dirty(index: PrivateIndex, paths: list[str]) -> list[str]:
    """Return those of the submodules that git finds uncommitted or untracked content in, or cannot open."""
    if not paths:
        return []
    specs = [f":(top,literal){p}" for p in paths] if len(paths) <= _NAMED else []
    found = index.git.run("diff-files", "-z", "--name-only", "--ignore-submodules=none", "--", *specs)
    if found.code == 0:
        return [p for p in zsplit(found.out) if p in paths]
    half = len(paths) // 2
    return [*_dirty(index, paths[:half]), *_dirty(index, paths[half:])] if half else paths


MAX_RULES = 64 << 20  # bytes of an ignore file that is read
_INSIDE = "a"
_ANY = "gitbaton.any"  # a name that only a rule for everything in a folder covers
_GITIGNORE, _ATTRIBUTES = ".gitignore", ".gitattributes"


@value
class Past:
    """The paths that were ignored until now, and why: ``trees`` are HEAD's and those of the newest checkpoints, with the
    ``.gitignore`` files that count; ``kept`` are the paths that those checkpoints kept out for this reason. What a tree of
    ``held`` has stays in. ``excludes``: what else said so then, as ``excludes`` gives it; None where that is the same now.
    ``shut``: the paths that did not pass their filter then, each with its name."""

    trees: tuple[Oid, ...] = ()
    held: tuple[Oid, ...] = ()
    kept: Mapping[str, str]
    excludes: bytes | None = None
    shut: Mapping[str, str] = MappingProxyType({})


def until_now(
    repo: Repo, folder: str, paths: Sequence[str], past: Past, stay: Collection[str] = ()
) -> tuple[set[str], list[str]]:
    """Return those of the untracked paths, which no rule of now covers, that were ignored until now, less what is to
    ``stay``; and what to call them: the highest folders in which all was ignored and nothing stays, else themselves. Raises
    GitError."""
    hidden = {p for p in paths if covered(p.rstrip("/"), past.kept) is not None} if past.kept else set[str]()
    trees = _Trees(repo)
    where = folders_of(paths)
    lost: list[Oid | None] = [tree for tree in past.trees if past.excludes is not None or trees.rules_differ(tree, where)]
    if past.excludes is not None and not lost:
        lost = [None]
    for tree in lost:
        hidden |= ignored_by(repo, folder, tree, [p for p in paths if p not in hidden], past.excludes)
    hidden = {p for p in hidden if p not in stay and not any(trees.holds(tree, p.rstrip("/")) for tree in past.held)}
    if not hidden:
        return hidden, []
    whole = {p for p in zsplit(repo.git.out("ls-files", "-o", "-z", "--directory", "--exclude-standard")) if p[-1] == "/"}
    staying = {*folders_of(p for p in paths if p not in hidden), *folders_of(stay)}
    above = {p: [at for at in _chain(p, whole) if at not in staying] for p in hidden}
    asked = [f"{at}/{_ANY}" for at in {at for chain in above.values() for at in chain} if at not in past.kept]
    closed = {at for tree in lost for at in ignored_by(repo, folder, tree, asked, past.excludes)} if asked else set[str]()
    named = {next((at for at in above[p] if at in past.kept or f"{at}/{_ANY}" in closed), p.rstrip("/")) for p in hidden}
    return hidden, sorted(named, key=os.fsencode)


def _chain(path: str, whole: Collection[str]) -> list[str]:
    """Return the folders above a path in which nothing is tracked, the highest first. ``whole``: the highest of all, with a
    slash."""
    found = parents(path.rstrip("/"))
    start = next((n for n, at in enumerate(found) if at + "/" in whole), len(found))
    return found[start:]


def anything_in(root: str, path: str) -> str:
    """Return the path to ask of for a path: for a folder, a name in it that only a rule for all of it covers."""
    return f"{path}/{_ANY}" if os.path.isdir(os.path.join(root, path)) else path


def ignored_by(repo: Repo, folder: str, tree: Oid | None, paths: Sequence[str], excludes: bytes | None = None) -> set[str]:
    """Return those of the paths that the ``.gitignore`` files of a tree cover, or ``info/exclude`` and ``core.excludesFile`` of
    now; with ``excludes`` that instead of these. Raises GitError.

    The rules are laid out in an empty work tree below ``folder``; nothing else is read from the real one.
    """
    place = os.path.join(folder, "ignores", tree or "none")
    os.makedirs(place, exist_ok=True)
    trees = _Trees(repo)
    for directory in folders_of(paths):
        oid = trees.rules(tree, directory) if tree is not None else None
        found = repo.objects.read(oid, MAX_RULES) if oid is not None else None
        if found is not None and found.data is not None:
            os.makedirs(os.path.join(place, directory), exist_ok=True)
            with open(os.path.join(place, directory, _GITIGNORE), "wb") as file:
                file.write(found.data)
    if excludes is None:
        env = {"GIT_DIR": repo.layout.git_dir, "GIT_INDEX_FILE": os.path.join(folder, "no-index")}
        git = repo.git.changed(env)
    else:
        git = bare_rules(repo.git, os.path.join(folder, "excludes"), excludes)
    asked = _names(paths)
    return {asked[name[2:]] for name in ignored(git.changed({"GIT_WORK_TREE": place}, directory=place), asked, "--no-index")}


def excluded(git: Git, folder: str, paths: Sequence[str], patterns: Iterable[str]) -> set[str]:
    """Return the paths that patterns name, asked of git in an empty repository, so that no other ignore file has a say."""
    own = bare_rules(git, os.path.join(folder, "rules"), b"".join(os.fsencode(p) + b"\n" for p in patterns))
    asked = _names(paths)
    fields = ignored(own, asked, "--no-index", "-v")
    rows = zip(fields[2::4], fields[3::4], strict=True)
    return {asked[path[2:]] for pattern, path in rows if not pattern.startswith("!")}


def _names(paths: Iterable[str]) -> dict[str, str]:
    """Return what to ask git for in an empty work tree, and the path that each stands for: git sees no directory there, so
    of a nested repository (it ends in a slash) it is asked for a path inside, too."""
    return {name: p for p in paths for name in ((p.rstrip("/"), p + _INSIDE) if p.endswith("/") else (p,))}


def bare_rules(git: Git, place: str, text: bytes) -> Git:
    """Return git bound to a repository with nothing in it but ``text`` as its ``info/exclude``, and an empty work tree."""
    empty = os.path.join(place, "empty")
    for name in ("objects", "refs", "info", "empty"):
        os.makedirs(os.path.join(place, name), exist_ok=True)
    with open(os.path.join(place, "HEAD"), "wb") as file:
        file.write(b"ref: refs/heads/main\n")
    with open(os.path.join(place, "info", "exclude"), "wb") as file:
        file.write(text)
    case = git.run("config", "--type=bool", "core.ignoreCase").out.decode().strip() or "false"
    env = {"GIT_DIR": place, "GIT_COMMON_DIR": place, "GIT_WORK_TREE": empty, "GIT_INDEX_FILE": os.path.join(place, "index")}
    return git.changed(env, "core.excludesFile=", f"core.ignoreCase={case}", directory=empty)


def ignored(git: Git, paths: Iterable[str], *options: str, whole: bool = True) -> list[str]:
    """Return what ``check-ignore`` says of paths, each behind ``./``: one that begins with a colon would be read as a
    pathspec. Raises GitError where it fails; without ``whole`` what it said before counts."""
    stdin = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
    result = git.run("check-ignore", "-z", *options, "--stdin", stdin=stdin)
    if whole and result.code not in (0, 1):
        checked(result, "check-ignore")
    return zsplit(result.out)


class _Trees:
    """The entries of trees, each tree asked for once."""

    def __init__(self, repo: Repo) -> None:
        self.repo, self.objects = repo, repo.objects
        self._below: dict[tuple[Oid, str], Oid | None] = {}

    def _at(self, tree: Oid, folder: str) -> Oid | None:
        """Return the tree of a folder; None where there is none."""
        if not folder:
            return tree
        if (tree, folder) not in self._below:
            above, _, name = folder.rpartition("/")
            parent = self._at(tree, above)
            entry = lookup(self.objects, parent, os.fsencode(name)) if parent is not None else None
            self._below[tree, folder] = entry.oid if entry is not None and entry.is_tree else None
        return self._below[tree, folder]

    def holds(self, tree: Oid, path: str) -> bool:
        """Whether a tree has something at a path."""
        folder, _, name = path.rpartition("/")
        parent = self._at(tree, folder)
        return parent is not None and lookup(self.objects, parent, os.fsencode(name)) is not None

    def rules(self, tree: Oid, folder: str, name: str = _GITIGNORE) -> Oid | None:
        """Return the blob of the ignore file in a folder, or another file of rules; None where there is none that git would
        read."""
        parent = self._at(tree, folder)
        entry = lookup(self.objects, parent, name.encode()) if parent is not None else None
        return entry.oid if entry is not None and entry.mode[:3] == b"100" else None

    def rules_differ(self, tree: Oid, folders: Iterable[str], name: str = _GITIGNORE) -> bool:
        """Whether an ignore file in one of the folders, or another file of rules, is another than on disk, or only there, or
        only here."""
        root = self.repo.layout.root or ""
        try:
            for folder in folders:
                now = read_or_none(os.path.join(root, folder, name), MAX_RULES)
                same = object_id(self.objects.algorithm, "blob", now) if now is not None else None
                if self.rules(tree, folder, name) != same:
                    return True
        except RecordError:  # git shall say what is wrong
            return True
        return False


def filtered_until_now(repo: Repo, folder: str, paths: Sequence[str], past: Past) -> dict[str, str]:
    """Return those of the paths that stood behind a filter until now, each with its name, by the ``.gitattributes`` files of
    trees where these are others than on disk; and those of which the newest checkpoints say so. Raises GitError."""
    found = {path: past.shut[path] for path in paths if path in past.shut}
    trees, where = _Trees(repo), folders_of(paths)
    for tree in past.trees:
        if not trees.rules_differ(tree, where, _ATTRIBUTES):
            continue
        rules = {os.path.join(at, _ATTRIBUTES): oid for at in where if (oid := trees.rules(tree, at, _ATTRIBUTES))}
        git = repo.git.changed({"GIT_INDEX_FILE": os.path.join(folder, f"attributes-{tree}")}, "core.splitIndex=false")
        rows = "".join(f"100644 {oid}\t{path}\0" for path, oid in rules.items())
        if rules:
            git.out("update-index", "-z", "--index-info", stdin=os.fsencode(rows))
            found = {**filters(git, paths, "--cached"), **found}
    return found


def excludes(repo: Repo) -> bytes:
    """Return what ``core.excludesFile`` and ``info/exclude`` say now, as one ignore file: what stands later counts more."""
    given = repo.settings().get("core.excludesfile", [""])[-1]
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    general = os.path.expanduser(given) if given else os.path.join(home, "git", "ignore")
    paths = (os.path.join(repo.layout.root or "", general), repo.layout.exclude)
    texts = (read_or_none(path, MAX_RULES, follow=True) for path in paths)
    return b"".join(text.rstrip(b"\n") + b"\n" for text in texts if text)


def _memory(repo: Repo) -> str:
    return os.path.join(repo.own_dir, "excludes")


def remember(repo: Repo) -> None:
    """Write down what ``excludes`` says, for the next capture in this work tree. Raises OSError."""
    now = excludes(repo)
    if now != (read_or_none(_memory(repo), MAX_RULES) or b""):
        put(repo, _memory(repo), now)


def forgotten(repo: Repo) -> bytes | None:
    """Return what was remembered, where that is not what ``excludes`` says now; None where it is, or where nothing was."""
    then = read_or_none(_memory(repo), MAX_RULES)
    return then if then is not None and then != excludes(repo) else None
