"""Ref change detection by file stamps: which refs exist, and whether any has moved, without reading one."""

from __future__ import annotations

import os
import re

from gitbaton.git.repo import Repo


def there(repo: Repo, name: str) -> bool:
    """Whether a ref that all work trees share is there, also one that cannot be read."""
    common = os.fsencode(repo.layout.common_dir)
    if os.path.exists(os.path.join(common, b"reftable")):
        return name in repo.objects.refs(name.rpartition("/")[0] + "/")
    if os.path.isfile(os.path.join(common, os.fsencode(name))):
        return True
    try:
        with open(os.path.join(common, b"packed-refs"), "rb") as file:
            return b" %s\n" % os.fsencode(name) in file.read()
    except FileNotFoundError:
        return False


def below(repo: Repo, prefix: str) -> set[str]:
    """The first component of each ref's name below a prefix that ends in ``/``; no ref is read for it."""
    common = os.fsencode(repo.layout.common_dir)
    if os.path.exists(os.path.join(common, b"reftable")):
        return {name.removeprefix(prefix).partition("/")[0] for name in repo.objects.refs(prefix)}
    found: set[bytes] = set()
    try:
        found.update(os.listdir(os.path.join(common, os.fsencode(prefix))))
    except (FileNotFoundError, NotADirectoryError):
        pass
    try:
        with open(os.path.join(common, b"packed-refs"), "rb") as file:
            found.update(re.findall(b" %s([^/\n]+)" % re.escape(os.fsencode(prefix)), file.read()))
    except FileNotFoundError:
        pass
    return {os.fsdecode(name) for name in found}


def lying(repo: Repo, *prefixes: str) -> set[str]:
    """The names of the refs that have a file of their own, whatever it holds, at or below some names."""
    common = repo.layout.common_dir
    found = {prefix for prefix in prefixes if os.path.isfile(os.path.join(common, prefix))}
    for prefix in prefixes:
        for folder, _, files in os.walk(os.path.join(common, prefix)):
            found.update(os.path.relpath(os.path.join(folder, name), common) for name in files if not name.endswith(".lock"))
    return found


def folders(repo: Repo, *prefixes: str) -> str | None:
    """How the folders of refs look now, in words: git makes and removes a lock file there for each ref that it moves, so equal
    words mean that none has moved, but for what git moves in the very tick of the file system's clock in which it was looked.
    None where that cannot be known."""
    common = repo.layout.common_dir
    tables = os.path.join(common, "reftable", "tables.list")
    looks = []
    try:
        if os.path.exists(tables):
            with open(tables, encoding="ascii", errors="replace") as file:
                looks += file.read().split()  # each change makes a table with a name of its own
        for name in ("packed-refs", *prefixes):
            try:
                seen = os.stat(os.path.join(common, name))
                looks.append(f"{seen.st_ino}.{seen.st_mtime_ns}.{seen.st_size}")
            except (FileNotFoundError, NotADirectoryError):
                looks.append("-")
        return " ".join(looks)
    except OSError:
        return None
