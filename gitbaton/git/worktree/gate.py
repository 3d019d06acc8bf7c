"""Filter gate: which paths stand behind a ``filter`` attribute, and a git that stores none of them as they are.

A clean filter is a privacy gate: what stands behind one leaves this machine only as the filter made it. Git itself stores a
file as it is where its filter is not required and missing, not configured, or fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence

from gitbaton.base.system.files import read_or_none, read_regular
from gitbaton.git.repo import Repo
from gitbaton.git.run import Git, configured, zsplit
from gitbaton.git.worktree.heldbytes import HeldStore

OFF = ("false", "no", "off", "0", "")
NO_DRIVER = ("unspecified", "unset", "set")
_WORD = b"filter"
_FEW = 50
_MOST = 16 << 20  # bytes of an attributes file that git reads, and more


def setting(repo: Repo, key: str) -> str:
    """Return the value of a setting that we heed, in small letters; empty where there is none."""
    return repo.settings().get(key, [""])[-1].lower()


def has_links(repo: Repo) -> bool:
    """Whether git makes symbolic links here, and no text files in their place."""
    return repo.boolean("core.symlinks", default=True)


def has_attributes(repo: Repo, root: str, paths: Iterable[str], word: bytes = b"") -> bool:
    """Whether an attributes file may speak of ``paths``: one on disk, which has the ``word`` in it, or one that only a tree
    or a sparse index holds."""
    env, settings = repo.git.env, repo.settings()
    named = any(settings.get(key, [""])[-1] for key in ("core.attributesfile", "attr.tree")) or env.get("GIT_ATTR_SOURCE")
    if named or repo.boolean("core.sparsecheckout"):
        return True
    paths = list(paths)
    if not word and any(p.endswith(".gitattributes") for p in paths):
        return True
    home, config = env.get("HOME", ""), env.get("XDG_CONFIG_HOME", "")
    users = os.path.join(config or os.path.join(home, ".config"), "git", "attributes")
    places = [
        os.path.join(repo.layout.common_dir, "info", "attributes"),
        users,
        *(_system(env.get("PATH", os.defpath)) if env.get("GIT_ATTR_NOSYSTEM", "").lower() in OFF else ()),
        *(os.path.join(root, folder, ".gitattributes") for folder in folders_of(paths)),
    ]
    return any(_speaks(place, word) for place in places)


def may_speak(repo: Repo, root: str, paths: Collection[str], word: bytes = b"") -> bool:
    """Whether an attributes file may speak of ``paths``, as ``has_attributes``, also one that only the index holds."""
    return has_attributes(repo, root, paths, word) or _only_in_index(repo, root, paths)


def folders_of(paths: Iterable[str]) -> set[str]:
    """Return the top and every folder above some paths; a slash at the end of one is no folder of its own."""
    folders = {""}
    for path in paths:
        folder = os.path.dirname(path.rstrip("/"))
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    return folders


def _speaks(place: str, word: bytes) -> bool:
    """Whether an attributes file exists, and has the word in it, as far as it can be read."""
    if not os.path.lexists(place):
        return False
    try:
        return word in read_regular(place, _MOST, follow=True)
    except OSError:
        return True


def _system(search: str) -> list[str]:
    """Return the paths at which the git that is on PATH may keep the system's attributes."""
    places = ["/etc/gitattributes"]
    program = next((p for folder in search.split(os.pathsep) if os.access(p := os.path.join(folder, "git"), os.X_OK)), None)
    for name in {program, os.path.realpath(program)} if program else ():
        prefix = os.path.dirname(os.path.dirname(name))
        places += [os.path.join(prefix, "etc", "gitattributes"), os.path.join(prefix, "share", "git-core", "gitattributes")]
    return places


def filters(git: Git, paths: Sequence[str], *options: str) -> dict[str, str]:
    """Return the filter that each of ``paths`` stands behind, if it does, by the attributes of now or where ``options`` of
    ``check-attr`` say."""
    stdin = b"".join(os.fsencode(p) + b"\0" for p in paths)
    fields = zsplit(git.out("check-attr", *options, "-z", "--stdin", "filter", stdin=stdin)) if paths else []
    pairs = zip(fields[0::3], fields[2::3], strict=True)
    return {path: name for path, name in pairs if name not in NO_DRIVER}


def gated(repo: Repo, root: str, paths: Sequence[str], git: Git | None = None) -> dict[str, str]:
    """Return the filters as ``filters`` does, without a process where no attributes file speaks of filters. ``git`` says
    which index counts, else it is the repository's; a ``root`` that is not its work tree has attributes of its own, too."""
    if not paths or not may_speak(repo, root, paths, _WORD):
        return {}
    found = filters(git or repo.git, paths)
    if root != repo.layout.root:
        with_root = (git or repo.git).changed({"GIT_DIR": repo.layout.git_dir, "GIT_WORK_TREE": root}, directory=root)
        found = {**filters(with_root, paths), **found}
    return found


def _only_in_index(repo: Repo, root: str, paths: Iterable[str]) -> bool:
    """Whether the index may name an attributes file above a path that is not on disk: git reads it from there then."""
    data = _index(repo)
    if b"attributes\0" not in data and b"link" not in data:
        return False
    names = [os.path.join(folder, ".gitattributes") for folder in folders_of(paths)]
    missing = [name for name in names if not os.path.lexists(os.path.join(root, name))]
    if data[7:8] == b"\4" or b"link" in data or len(missing) > _FEW:  # names are cut short there, or in another file
        return bool(missing)
    return any(os.fsencode(name) + b"\0" in data for name in missing)


def may_have_attributes(repo: Repo) -> bool:
    """Whether the index may name attributes of a folder below the top."""
    data = _index(repo)
    return (b"attributes\0" if data[7:8] == b"\4" else b"/.gitattributes\0") in data or b"link" in data


def _index(repo: Repo) -> bytes:
    """Return the bytes of the index; none where it cannot be read."""
    return read_or_none(repo.layout.index, follow=True) or b""


def requiring(git: Git, names: Collection[str]) -> Git:
    """Return the same git, for which these filters are required, also those that are not configured: it stops at a file that
    one of them does not clean, and stores nothing of it."""
    return configured(git, {f"filter.{name}.required": "true" for name in sorted(names)})


class Gate:
    """The filter gate of a file set, which no filter touches: a stand-in replaces what stands behind a filter."""

    def __init__(self, repo: Repo, root: str) -> None:
        self.repo, self.root = repo, root
        self._drivers: dict[str, str | None] = {}
        self._held: HeldStore | None = None

    def ask(self, paths: Iterable[str]) -> None:
        """Ask for many paths at once which filter each stands behind, as things are now."""
        asked = list(dict.fromkeys(paths))
        found = gated(self.repo, self.root, asked)
        self._drivers = {path: found.get(path) for path in asked}

    def shut(self, path: str) -> bool:
        """Whether a path that was asked for stands behind a filter."""
        return self._drivers.get(path) is not None

    def stand_in(self, path: str, fd: int, *, store: bool) -> bytes | None:
        """Return what is recorded in place of an open file's bytes, which are kept here with ``store``; None where the bytes
        themselves are recorded. Raises GitError."""
        driver = self._drivers.get(path)
        if driver is None:
            return None
        self._held = self._held or HeldStore(self.repo)
        return self._held.hold(path, fd, driver, cleaned=False, store=store)[0].text


MOST = 1024  # bytes of a pointer, as git-lfs has it
LFS, ANNEX, DVC, OTHER = "lfs", "annex", "dvc", "other"
_LFS = re.compile(rb"version https?://[^\n]+/spec/v1\n(?:[a-z0-9.-]+ [^\n]*\n)*?oid sha256:([0-9a-f]{64})\n")
_ANNEX = re.compile(rb"/annex/objects/|[^\n]*\.git/(?:modules/[^\n]*/)?annex/objects/[^\n]*\Z")  # a pointer; a link
_STAND_IN = b"gitbaton held 1\n"  # our own stand-in for what passed no filter
_DIGEST = re.compile(rb"(?<![0-9a-zA-Z])[0-9a-f]{32,}(?![0-9a-zA-Z])")


def kept_by(path: bytes, data: bytes) -> str:
    """Return the tool that keeps the content which a blob at a path points to: LFS, ANNEX, DVC, or OTHER where it only looks
    like a pointer, to be believed behind a filter alone; empty where it points to nothing."""
    if len(data) > MOST or b"\0" in data or data.startswith(_STAND_IN):
        return ""
    if _LFS.match(data):
        return LFS
    if _ANNEX.match(data):
        return ANNEX
    digest = _DIGEST.search(data) is not None
    if digest and path.endswith((b".dvc", b"dvc.lock")) and b"outs:" in data:
        return DVC
    return OTHER if digest else ""


def lfs_oid(data: bytes) -> str:
    """Return the id by which git-lfs knows the content of a pointer; empty where it is none of its."""
    found = _LFS.match(data)
    return found[1].decode("ascii") if found else ""
