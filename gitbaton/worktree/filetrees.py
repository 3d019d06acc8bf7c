"""File sets as git trees: written as nested trees, and read back with every name checked."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

from gitbaton.errors import GitError, RecordError
from gitbaton.git.loose import remember
from gitbaton.git.objects import Objects, parse_tree, tree_objects
from gitbaton.git.repo import Repo
from gitbaton.model import Oid
from gitbaton.values import replace, value

FILE, EXECUTABLE, LINK = "100644", "100755", "120000"
_MODES = (FILE, EXECUTABLE, LINK)
_MAX_TREE = 64 << 20
_MAX_DEPTH = 1000
_MAX_FILES = 2_000_000
_DIGEST = re.compile(rb"gitbaton digest 1\nsha256 [0-9a-f]{64}\nsize [0-9]{1,19}\n\Z")
_LONGEST = 128  # bytes of the text of a digest
_HFS = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


@value
class Entry:
    """A file of a set: its path from the top, its mode (``100644``, ``100755`` or ``120000``) and its blob. ``digest``: the
    blob does not hold the file's bytes but the text ``gitbaton digest 1``, its SHA-256 and its size."""

    path: str
    mode: str
    oid: Oid
    digest: bool = False


@value
class FileSet:
    """What globs matched: a tree with every file in it, the files by path, the globs that matched nothing, the paths of the
    files that are recorded by digest only, the empty folders where files could match, and the permission bits of the
    regular files; ``passed``: what matched and is no file, or may be in no tree."""

    tree: Oid
    entries: Mapping[str, Entry]
    unmatched: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    modes: Mapping[str, int] = MappingProxyType({})


def is_safe(path: str) -> bool:
    """Whether a path of a record may be a path below the work tree: relative, no way up, nothing of git's own."""
    return all(_is_safe(os.fsencode(part)) for part in path.split("/"))


def _is_safe(name: bytes) -> bool:
    """Whether a name of a tree may be a name on disk: no way up, and nothing that is ``.git`` on any file system."""
    text = os.fsdecode(name).translate(_HFS).lower().rstrip(" .")
    return bool(name) and b"/" not in name and name not in (b".", b"..") and text not in (".git", "git~1")


def write_tree(repo: Repo, entries: Mapping[str, Entry]) -> Oid:
    """Write the tree that holds these files, whose blobs must be there, into the quarantine; its id. Raises GitError for a path
    that may not be one of a work tree."""
    for path in entries:
        if not is_safe(path):
            raise GitError(f"'{path}' cannot be a path of a tree")
    trees = tree_objects(repo.layout.algorithm, ((p, e.mode, e.oid) for p, e in entries.items()))
    remember(trees)
    repo.stow(trees)
    return trees[-1].oid


def is_digest(data: bytes) -> bool:
    """Whether a blob's bytes are the text that stands for a file which is recorded by digest only. A file that holds such a
    text is itself recorded so: no text of this form is ever written into a file."""
    return len(data) <= _LONGEST and _DIGEST.match(data) is not None


def marked(objects: Objects, entries: Mapping[str, Entry | None]) -> dict[str, Entry | None]:
    """Entries, by their blobs those marked that are recorded by digest only: a record may not list them all."""
    asked = {e.oid for e in entries.values() if e is not None and not e.digest and e.mode != LINK}
    oids = list(asked)
    found = zip(oids, objects.read_many(oids, _LONGEST), strict=True)
    texts = {oid for oid, item in found if item is not None and item.data is not None and is_digest(item.data)}
    return {
        p: replace(e, digest=True) if e is not None and e.mode != LINK and e.oid in texts else e for p, e in entries.items()
    }


def read_tree(objects: Objects, tree: Oid, digests: Collection[str] = ()) -> dict[str, Entry]:
    """The files of a tree by path, those of ``digests`` marked as recorded by digest. Raises RecordError for a tree that is
    not there, or that holds what no ``write_tree`` writes: odd modes, submodules, names like ``.git`` or ``..``."""
    found: dict[str, Entry] = {}
    level = [("", tree)]
    for _ in range(_MAX_DEPTH):
        deeper: list[tuple[str, Oid]] = []
        for (prefix, oid), item in zip(level, objects.read_many([oid for _, oid in level], _MAX_TREE), strict=True):
            if item is None or item.kind != "tree" or item.data is None:
                raise RecordError(f"tree {oid} is not there")
            for entry in parse_tree(item.data, objects.algorithm):
                path, mode = prefix + os.fsdecode(entry.name), entry.mode.decode("ascii", "replace")
                if b"/" in entry.name or not is_safe(os.fsdecode(entry.name)) or path in found:
                    raise RecordError(f"tree {oid} has a path that is no file's")
                if entry.is_tree:
                    deeper.append((path + "/", entry.oid))
                elif mode in _MODES:
                    found[path] = Entry(path=path, mode=mode, oid=entry.oid, digest=path in digests)
                else:
                    raise RecordError(f"tree {oid} has an entry that is no file")
            if len(found) + len(deeper) > _MAX_FILES:
                raise RecordError(f"tree {tree} has more than {_MAX_FILES} files")
        level = deeper
        if not level:
            return found
    raise RecordError(f"tree {tree} is nested too deep")


def same(one: Entry | None, other: Entry | None) -> bool:
    """Whether two files are equal: both missing, or of the same mode and content."""
    if one is None or other is None:
        return one is other
    return one.oid == other.oid and one.mode == other.mode


def differences(have: Mapping[str, Entry], want: Mapping[str, Entry]) -> dict[str, Entry | None]:
    """What must be written (or removed: None) to make one set of files the other."""
    return {path: want.get(path) for path in sorted(have.keys() | want.keys()) if not same(have.get(path), want.get(path))}
