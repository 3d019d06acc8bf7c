"""What the symbolic links among a step's inputs lead to: it counts as read, too."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from gitbaton.git.fileread import LARGE
from gitbaton.git.filetrees import LINK, Entry
from gitbaton.git.globs import quote, roots
from gitbaton.git.objects import new_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.git.filesets import Files

_MOST = 1000  # links that are followed


def led_to(files: Files, globs: Sequence[str], entries: Iterable[Entry]) -> dict[str, Entry]:
    """What is read through links: the links on the way to where globs begin; what they and the links among ``entries`` lead to
    inside the root, by real path; and of a regular file of at most 100 MiB outside of it the digest, under a name that no
    other file of a set can have. Raises GitError."""
    found: dict[str, Entry] = {}
    waiting = [entry.path for entry in entries if entry.mode == LINK]
    for start in filter(None, roots(globs)):
        parts = start.split("/")
        ways = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        links = [way for way in ways if os.path.islink(os.path.join(files.root, way))]
        if links:
            found |= files.take([(links[0], os.lstat(os.path.join(files.root, links[0])))])
            waiting.append(start)
    top, seen = os.path.realpath(files.root), set[str]()
    while waiting and len(seen) < _MOST:
        path = waiting.pop()
        real = os.path.realpath(os.path.join(top, path))
        if path in seen or real == top or not os.path.exists(real):
            continue
        seen.add(path)
        inside = real.startswith(top + "/")
        fresh = _below(files, real[len(top) + 1 :]) if inside else _outside(files, path, real)
        waiting += [entry.path for entry in fresh.values() if entry.mode == LINK]
        found |= fresh
    return found


def _below(files: Files, path: str) -> dict[str, Entry]:
    """A file, or the files below a folder."""
    return files.take(files.walk((quote(path),))[0])


def _outside(files: Files, path: str, real: str) -> dict[str, Entry]:
    import hashlib

    if not os.path.isfile(real) or os.path.getsize(real) > LARGE:
        return {}
    read = files.reader.read(real, path, digest=True)
    if read is None:
        return {}
    blob = new_object(files.reader.algorithm, "blob", read.data or b"")
    files.store.write([blob])
    name = f".baton-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.old"
    return {name: Entry(path=name, mode=read.mode, oid=blob.oid, digest=True)}
