"""What install remembers of the files it changed, so that they go back; one writer at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from gitbaton.agents.settings import Edit
from gitbaton.install.agentfiles import File, bytes_of, check_unchanged, drop_folders, make_folders, write
from gitbaton.install.hookfiles import digest
from gitbaton.system.files import acquire
from gitbaton.values import value


@value
class Record:
    """What install did to a file. ``digest`` of its bytes then; ``edits`` lead back from them, None where none do exactly.

    ``made``: the containers that were not there before, None where that is not known. ``created``: the file itself was not
    there. ``folders``: those that were made for it.
    """

    digest: str
    edits: tuple[Edit, ...] | None = None
    made: tuple[str, ...] | None = ()
    created: bool = False
    folders: tuple[str, ...] = ()


@value
class Change:
    """A file, the bytes it is to have (None: it is to go), and what is remembered of it from then on."""

    file: File
    after: bytes | None
    record: Record | None = None


class Ledger:
    """The records of one level, in a file of its own, with the folders that were made for it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.read()

    def read(self) -> None:
        """Take up what is in the file; nothing where it cannot be read: what is ours is then told by its marks alone."""
        self.files: dict[str, Record] = {}
        self.folders: tuple[str, ...] = ()
        try:
            data = json.loads((bytes_of(self.path) or b"").decode("utf-8", "surrogateescape"))
            folders = tuple(map(str, data["folders"]))
            self.files = {str(name): _record(item) for name, item in data["files"].items()}
            self.folders = folders
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other writers out, and read again what they have left. Raises OSError."""
        folder = os.path.dirname(self.path)
        made: list[str] = []
        while True:
            made += make_folders(folder)
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with suppress(OSError):  # a file system without locks
                    acquire(fd, None)
                if not os.path.isdir(folder) or not os.path.samestat(os.stat(folder), os.fstat(fd)):
                    continue  # who held it was the last, and took the folder away
                self.read()
                self.folders = tuple(dict.fromkeys([*self.folders, *made]))
                try:
                    yield
                finally:
                    if not self.files:
                        drop_folders(self.folders)
                return
            finally:
                os.close(fd)

    def put(self, name: str, record: Record | None) -> None:
        """Remember a file, or forget it; only while it is locked. Raises OSError."""
        if record is None and self.files.pop(name, None) is None:
            return
        if record is not None:
            self.files[name] = record
        if self.files:
            text = json.dumps({"v": 1, "folders": self.folders, "files": {k: _fields(v) for k, v in self.files.items()}})
            write(self.path, text.encode("utf-8", "surrogateescape"), 0o600)
        elif os.path.lexists(self.path):
            os.unlink(self.path)


class Records:
    """The ledger of the level that is changed, and others that may know the same files: a home folder can be a work tree."""

    def __init__(self, path: str, others: tuple[str, ...] = ()) -> None:
        self.own, self.others = Ledger(path), [Ledger(other) for other in others]

    def of(self, file: File) -> Record | None:
        """What is remembered of a file."""
        found = (ledger.files.get(file.real) for ledger in (self.own, *self.others))
        return next((record for record in found if record is not None), None)

    def exact(self, file: File) -> Record | None:
        """The same, if nobody has changed the file since."""
        record = self.of(file)
        return record if record and file.data is not None and record.digest == digest(file.data) else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other installs out, and read again what they have left. Raises OSError."""
        known = {self.own.path: self.own, **{ledger.path: ledger for ledger in self.others if ledger.files}}
        with ExitStack() as stack:
            for path in sorted(known):  # in one order, so that no two wait for each other
                stack.enter_context(known[path].locked())
            yield

    def put(self, name: str, record: Record) -> None:
        """Remember a file, at this level alone; only while it is locked. Raises OSError."""
        self.own.put(name, record)
        self._forget(name)

    def drop(self, name: str) -> None:
        """Forget a file at every level; only while it is locked. Raises OSError."""
        self.own.put(name, None)
        self._forget(name)

    def _forget(self, name: str) -> None:
        for ledger in self.others:
            if name in ledger.files:
                ledger.put(name, None)


def _fields(record: Record) -> dict[str, Any]:
    edits = None if record.edits is None else [[e.start, e.length, e.old] for e in record.edits]
    fields = {"made": record.made, "created": record.created, "folders": record.folders}
    return {"digest": record.digest, "edits": edits, **fields}


def _record(data: dict[str, Any]) -> Record:
    edits, made = data["edits"], data["made"]
    known = None if edits is None else tuple(Edit(start=int(s), length=int(n), old=str(old)) for s, n, old in edits)
    return Record(
        digest=str(data["digest"]),
        edits=known,
        made=None if made is None else tuple(map(str, made)),
        created=data["created"] is True,
        folders=tuple(map(str, data["folders"])),
    )


def carry_out(change: Change, records: Records) -> None:
    """Write or remove one file, and remember it. Raises BatonError, OSError."""
    file, record = change.file, change.record
    if check_unchanged(file, change.after):
        return  # another install was faster
    if change.after is None:
        os.unlink(file.real)
        records.drop(file.real)
        return
    if record is None:
        write(file.real, change.after, file.mode, file.owner)
        records.drop(file.real)
        return
    made = make_folders(os.path.dirname(file.real))
    fields = {name: getattr(record, name) for name in ("digest", "edits", "made", "created")}
    # before the file: one that is remembered and unwritten does no harm
    records.put(file.real, Record(**fields, folders=(*record.folders, *made)))
    write(file.real, change.after, file.mode, file.owner)


def check_all(changes: tuple[Change, ...]) -> None:
    """Raise BatonError when a file of a plan has changed since."""
    for change in changes:
        check_unchanged(change.file, change.after)
