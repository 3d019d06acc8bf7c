"""Ignore rules: what those of a tree cover, and what was ignored until now though no rule covers it any more. Git judges."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from gitbaton.errors import RecordError
from gitbaton.git.objects import lookup, object_id
from gitbaton.git.repo import Repo, put
from gitbaton.git.run import Git, checked, zsplit
from gitbaton.model import Oid, covered
from gitbaton.system.files import read_regular
from gitbaton.values import value
from gitbaton.worktree.filetrees import parents
from gitbaton.worktree.gate import filters, folders_of

_MAX = 64 << 20  # bytes of an ignore file that is read
_INSIDE = "a"
_ANY = "gitbaton.any"  # a name that only a rule for everything in a folder covers
_GITIGNORE, _ATTRIBUTES = ".gitignore", ".gitattributes"


@value
class Past:
    """What was ignored until now: ``trees`` are HEAD's and those of the newest checkpoints, whose ``.gitignore`` files count;
    ``kept`` are the paths that those checkpoints kept out for this reason. What a tree of ``held`` has stays in.
    ``excludes``: what else said so then, as ``excludes`` gives it; None where that is the same now. ``shut``: the paths that
    did not pass their filter then, each with its name."""

    trees: tuple[Oid, ...] = ()
    held: tuple[Oid, ...] = ()
    kept: Mapping[str, str]
    excludes: bytes | None = None
    shut: Mapping[str, str] = MappingProxyType({})


def until_now(
    repo: Repo, folder: str, paths: Sequence[str], past: Past, stay: Collection[str] = ()
) -> tuple[set[str], list[str]]:
    """Those of the untracked paths, which no rule of now covers, that were ignored until now, less what is to ``stay``; and
    what to call them: the highest folders in which all was ignored and nothing stays, else themselves. Raises GitError."""
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
    """The folders above a path in which nothing is tracked, the highest first. ``whole``: the highest of all, with a slash."""
    found = parents(path.rstrip("/"))
    start = next((n for n, at in enumerate(found) if at + "/" in whole), len(found))
    return found[start:]


def anything_in(root: str, path: str) -> str:
    """What to ask of a path: of a folder, a name in it that only a rule for all of it covers."""
    return f"{path}/{_ANY}" if os.path.isdir(os.path.join(root, path)) else path


def ignored_by(repo: Repo, folder: str, tree: Oid | None, paths: Sequence[str], excludes: bytes | None = None) -> set[str]:
    """Those of the paths that the ``.gitignore`` files of a tree cover, or ``info/exclude`` and ``core.excludesFile`` of now;
    with ``excludes`` that instead of these. Raises GitError.

    The rules are laid out in an empty work tree below ``folder``; nothing else is read from the real one."""
    place = os.path.join(folder, "ignores", tree or "none")
    os.makedirs(place, exist_ok=True)
    trees = _Trees(repo)
    for directory in folders_of(paths):
        oid = trees.rules(tree, directory) if tree is not None else None
        found = repo.objects.read(oid, _MAX) if oid is not None else None
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
    """The paths that patterns name, asked of git in an empty repository, so that no other ignore file has a say."""
    own = bare_rules(git, os.path.join(folder, "rules"), b"".join(os.fsencode(p) + b"\n" for p in patterns))
    asked = _names(paths)
    fields = ignored(own, asked, "--no-index", "-v")
    rows = zip(fields[2::4], fields[3::4], strict=True)
    return {asked[path[2:]] for pattern, path in rows if not pattern.startswith("!")}


def _names(paths: Iterable[str]) -> dict[str, str]:
    """What to ask git for in an empty work tree, and the path that each stands for: there it sees no directory, so of a nested
    repository (it ends in a slash) it is asked for a path inside, too."""
    return {name: p for p in paths for name in ((p.rstrip("/"), p + _INSIDE) if p.endswith("/") else (p,))}


def bare_rules(git: Git, place: str, text: bytes) -> Git:
    """Git bound to a repository with nothing in it but ``text`` as its ``info/exclude``, and an empty work tree."""
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
    """What ``check-ignore`` says of paths, each behind ``./``: one that begins with a colon would be read as a pathspec. Raises
    GitError where it fails; without ``whole`` what it said before counts."""
    stdin = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
    result = git.run("check-ignore", "-z", *options, "--stdin", stdin=stdin)
    if whole and result.code not in (0, 1):
        checked(result, "check-ignore")
    return zsplit(result.out)


class _Trees:
    """Entries of trees, each tree asked for once."""

    def __init__(self, repo: Repo) -> None:
        self.repo, self.objects = repo, repo.objects
        self._below: dict[tuple[Oid, str], Oid | None] = {}

    def _at(self, tree: Oid, folder: str) -> Oid | None:
        """The tree of a folder; None where there is none."""
        if not folder:
            return tree
        known = self._below.get((tree, folder), "")
        if known != "":
            return known
        above, _, name = folder.rpartition("/")
        parent = self._at(tree, above)
        entry = lookup(self.objects, parent, os.fsencode(name)) if parent is not None else None
        found = self._below[tree, folder] = entry.oid if entry is not None and entry.is_tree else None
        return found

    def holds(self, tree: Oid, path: str) -> bool:
        """Whether a tree has something at a path."""
        folder, _, name = path.rpartition("/")
        parent = self._at(tree, folder)
        return parent is not None and lookup(self.objects, parent, os.fsencode(name)) is not None

    def rules(self, tree: Oid, folder: str, name: str = _GITIGNORE) -> Oid | None:
        """The blob of the ignore file in a folder, or another file of rules; None where there is none that git would read."""
        parent = self._at(tree, folder)
        entry = lookup(self.objects, parent, name.encode()) if parent is not None else None
        return entry.oid if entry is not None and entry.mode[:3] == b"100" else None

    def rules_differ(self, tree: Oid, folders: Iterable[str], name: str = _GITIGNORE) -> bool:
        """Whether an ignore file in one of the folders, or another file of rules, is another than on disk, or only there, or
        only here."""
        root = self.repo.layout.root or ""
        try:
            for folder in folders:
                now = text_of(os.path.join(root, folder, name))
                same = object_id(self.objects.algorithm, "blob", now) if now is not None else None
                if self.rules(tree, folder, name) != same:
                    return True
        except RecordError:  # git shall say what is wrong
            return True
        return False


def filtered_until_now(repo: Repo, folder: str, paths: Sequence[str], past: Past) -> dict[str, str]:
    """Those of the paths that stood behind a filter until now, each with its name, by the ``.gitattributes`` files of trees
    where these are others than on disk; and those of which the newest checkpoints say so. Raises GitError."""
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
    """What ``core.excludesFile`` and ``info/exclude`` say now, as one ignore file: what stands later counts more."""
    given = repo.settings().get("core.excludesfile", [""])[-1]
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    general = os.path.expanduser(given) if given else os.path.join(home, "git", "ignore")
    paths = (os.path.join(repo.layout.root or "", general), repo.layout.exclude)
    texts = (text_of(path, follow=True) for path in paths)
    return b"".join(text.rstrip(b"\n") + b"\n" for text in texts if text)


def text_of(path: str, *, follow: bool = False) -> bytes | None:
    """A regular file's bytes; None where there is none to be read."""
    try:
        return read_regular(path, _MAX, follow=follow)
    except OSError:
        return None


def _memory(repo: Repo) -> str:
    return os.path.join(repo.own_dir, "excludes")


def remember(repo: Repo) -> None:
    """Write down what ``excludes`` says, for the next capture in this work tree. Raises OSError."""
    now = excludes(repo)
    if now != (text_of(_memory(repo)) or b""):
        put(repo, _memory(repo), now)


def forgotten(repo: Repo) -> bytes | None:
    """What was remembered, where that is not what ``excludes`` says now; None where it is, or where nothing was."""
    then = text_of(_memory(repo))
    return then if then is not None and then != excludes(repo) else None
