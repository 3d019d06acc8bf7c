"""File cache: entries of files that have not changed since they were read, by path and stat signature."""

from __future__ import annotations

import os
import time

from gitbaton.git.objects import OID
from gitbaton.git.repo import Repo, put
from gitbaton.system.files import Signature, settled
from gitbaton.values import cast
from gitbaton.worktree.filetrees import Entry

_HEAD = b"gitbaton files 1\n"
_MOST = 500_000  # files remembered
_DIGEST = "digest\0"


class FileCache:
    """Entries of the files below one root. ``place``: the file of ``repo`` in which they outlive this process, or None."""

    def __init__(self, repo: Repo, root: str, place: str | None) -> None:
        self._repo, self._root, self._place = repo, root, place
        self._known: dict[str, tuple[Signature, Entry]] = {}
        self._stored: dict[str, str] | None = None if place else {}
        self.learned = 0  # bytes read and files, in a measure of what reading them again would cost

    def get(self, path: str, found: Signature, *, digest: bool) -> Entry | None:
        """The entry of a file that has not changed since it was read."""
        key = _DIGEST + path if digest else path
        known = self._known.get(key) or self._recall(key, path)
        return known[1] if known is not None and known[0] == found else None

    def put(self, found: Signature, before: int, entry: Entry) -> None:
        """Keep what was read of a file that had this signature at ``before`` (nanoseconds), if that can be relied on."""
        key = _DIGEST + entry.path if entry.digest else entry.path
        if settled(found, before):
            self._known[key] = (found, entry)
            self.learned += 10_000 + found[1]

    def _recall(self, key: str, path: str) -> tuple[Signature, Entry] | None:
        """What an earlier process has learned of a file."""
        said = self._stored_now().get(key)
        fields = said.split(" ") if said else []
        if len(fields) != 7 or not all(f.isdecimal() for f in fields[:6]) or not OID.match(fields[6]):
            return None
        ino, size, mtime, ctime, mode = (int(f) for f in fields[:5])
        entry = Entry(path=path, mode=fields[5], oid=fields[6], digest=key != path)
        self._known[key] = ((ino, size, mtime, ctime, mode), entry)
        return self._known[key]

    def _stored_now(self) -> dict[str, str]:
        if self._stored is None:
            self._stored = _load(cast(str, self._place), self._root)
        return self._stored

    def save(self, least: int) -> None:
        """Write what is known for the next process, if at least ``least`` was learned. Never raises: it can be done without."""
        if self._place is None or self.learned < least:
            return
        stored = self._stored_now()
        for key, (found, entry) in self._known.items():
            stored[key] = " ".join((*map(str, found), entry.mode, entry.oid))
        if len(stored) <= _MOST:
            _save(self._repo, self._place, self._root, stored)
        self.learned = 0


def _load(place: str, root: str) -> dict[str, str]:
    """What a file of ours says of the files below ``root``; nothing where it is torn, of another format or another root."""
    try:
        with open(place, "rb") as file:
            data = file.read()
    except OSError:
        return {}
    body, mark = data[:-20], data[-20:]
    head = _HEAD + os.fsencode(root) + b"\0"
    if not body.startswith(head) or _sum(body) != mark:
        return {}
    fields = os.fsdecode(body[len(head) :]).split("\n\0")
    return dict(zip(fields[0:-1:2], fields[1::2], strict=True)) if len(fields) % 2 else {}


def _save(repo: Repo, place: str, root: str, stored: dict[str, str]) -> None:
    body = os.fsencode(f"{os.fsdecode(_HEAD)}{root}\0" + "".join(f"{k}\n\0{v}\n\0" for k, v in stored.items()))
    fresh = f".{os.getpid()}.{time.monotonic_ns()}"
    try:
        put(repo, place, body + _sum(body), fresh=fresh)
    except OSError:
        try:
            os.unlink(place + fresh)
        except OSError:
            return


def _sum(data: bytes) -> bytes:
    import hashlib

    return hashlib.sha1(data, usedforsecurity=False).digest()
