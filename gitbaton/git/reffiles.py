"""Ref files looked at without git: which refs exist, whether any has moved, and where a HEAD is."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from gitbaton.base.model import Oid
from gitbaton.base.system.files import closing_fd
from gitbaton.git import places
from gitbaton.git.objects import OID, is_ref, packed_refs
from gitbaton.git.repo import Repo


def there(repo: Repo, name: str) -> bool:
    """Whether a ref that all work trees share is there, also one that cannot be read."""
    common = repo.layout.common_dir
    if os.path.exists(os.path.join(common, "reftable")):
        return name in repo.objects.refs(name.rpartition("/")[0] + "/")
    return os.path.isfile(os.path.join(common, name)) or b" %s\n" % os.fsencode(name) in packed_refs(common)


def head_of(git_dir: str, common_dir: str) -> Oid | None:
    """Return the id that the HEAD of a git directory comes to, by its files; None where only git can say."""
    name = _said(git_dir, "HEAD").removeprefix("ref: ")
    if not name.startswith("refs/heads/") or not is_ref(name):
        return detached(git_dir)
    if os.path.lexists(os.path.join(common_dir, name)):
        return _id(_said(common_dir, name))
    try:
        found = re.search(rb"^([0-9a-f]+) %s$" % re.escape(os.fsencode(name)), packed_refs(common_dir), re.M)
    except OSError:
        return None
    return _id(found[1].decode()) if found is not None else None


def detached(git_dir: str) -> Oid | None:
    """Return the id at which the HEAD of a git directory is detached, by its file; None where it is not, or only git can
    say."""
    return _id(_said(git_dir, "HEAD"))


def _id(word: str) -> Oid | None:
    return word if OID.match(word) else None


def _said(folder: str, name: str) -> str:
    """Return the content of a ref's file, which is no link; empty where it cannot be read."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        with closing_fd(os.open(os.path.join(folder, name), flags)) as fd:
            return os.fsdecode(os.read(fd, 4096)).removesuffix("\n")
    except OSError:
        return ""


def below(repo: Repo, prefix: str) -> set[str]:
    """Return the first component of each ref's name below a prefix that ends in ``/``; no ref is read for it."""
    common = repo.layout.common_dir
    if os.path.exists(os.path.join(common, "reftable")):
        return {name.removeprefix(prefix).partition("/")[0] for name in repo.objects.refs(prefix)}
    found: set[str] = set()
    with suppress(FileNotFoundError, NotADirectoryError):
        found.update(os.listdir(os.path.join(common, prefix)))
    packed = re.findall(b" %s([^/\n]+)" % re.escape(os.fsencode(prefix)), packed_refs(common))
    return found | set(map(os.fsdecode, packed))


def lying(repo: Repo, *prefixes: str) -> set[str]:
    """Return the names of the refs that have a file of their own, whatever it holds, at or below some names."""
    common = repo.layout.common_dir
    found = {prefix for prefix in prefixes if os.path.isfile(os.path.join(common, prefix))}
    for prefix in prefixes:
        for folder, _, files in os.walk(os.path.join(common, prefix)):
            found.update(os.path.relpath(os.path.join(folder, name), common) for name in files if not name.endswith(".lock"))
    return found


def folders(repo: Repo, *prefixes: str) -> str | None:
    """Return the state of folders of refs, in words: git makes and removes a lock file there for each ref that it moves, so
    equal words mean that none has moved, but for what git moves in the very tick of the file system's clock in which it was
    looked. None where that cannot be known."""
    common = repo.layout.common_dir
    tables = os.path.join(common, "reftable", "tables.list")
    looks = []
    try:
        if os.path.exists(tables):
            with open(tables, encoding="ascii", errors="replace") as file:
                looks += file.read().split()  # each change makes a table with a name of its own
        looks.append(places.looks(os.path.join(common, name) for name in ("packed-refs", *prefixes))[0])
        return " ".join(looks)
    except OSError:
        return None
