"""Manifest: what install wrote, remembered in a file of its own, so that exactly that is taken back. Two formats on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Literal

from gitbaton.agents.settings import Edit
from gitbaton.install.plan import File, digest, drop_folders, make_folders, read, write
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


class Manifest:
    """What install wrote at one level: files, folders that were made, values of git's configuration.

    ``kind`` is the format. ``hooks``: what git's hooks need, a digest a file, readable for all who share the repository.
    ``files``: what went into files of agents, how it leads back, for the user alone; gone with its last file.
    ``lost``: no manifest can be read, and what is ours is told by its marks alone.
    """

    def __init__(self, path: str, kind: Literal["hooks", "files"]) -> None:
        self.path, self.kind = path, kind
        self.load()

    def load(self) -> None:
        """Take up what is in the file; nothing where it cannot be read."""
        self.lost = True
        self.config: list[tuple[str, str]] = []
        self.files: dict[str, Record] = {}
        self.folders: list[str] = []
        try:
            data = json.loads((read(self.path) or b"").decode("utf-8", "surrogateescape"))
            config = [(str(key), str(text)) for key, text in (data["config"] if self.kind == "hooks" else ())]
            folders = [str(folder) for folder in data["folders"]]
            self.files = {str(name): _record(item) for name, item in data[self.kind].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return
        self.config, self.folders, self.lost = config, folders, False

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
                self.load()
                self.folders = list(dict.fromkeys([*self.folders, *made]))
                try:
                    yield
                finally:
                    if not self.files:
                        drop_folders(self.folders)
                return
            finally:
                os.close(fd)

    def put(self, name: str, record: Record | None) -> None:
        """Remember a file, or forget it. Raises OSError."""
        if record is not None:
            self.files[name] = record
        elif self.files.pop(name, None) is None:
            return
        self.save()

    def put_value(self, key: str, text: str, *, here: bool) -> None:
        """Remember a value of git's configuration, or forget it. Raises OSError."""
        if ((key, text) in self.config) == here:
            return
        if here:
            self.config.append((key, text))
        else:
            self.config.remove((key, text))
        self.save()

    def save(self) -> None:
        """Write the file. Raises OSError."""
        if self.kind == "hooks":
            digests = {name: record.digest for name, record in self.files.items()}
            document = {"v": 1, "config": self.config, "hooks": digests, "folders": self.folders}
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            write(self.path, json.dumps(document, indent=2).encode("utf-8", "surrogateescape"), 0o644)
        elif self.files:
            document = {"v": 1, "folders": self.folders, "files": {name: _fields(r) for name, r in self.files.items()}}
            write(self.path, json.dumps(document).encode("utf-8", "surrogateescape"), 0o600)
        elif os.path.lexists(self.path):
            os.unlink(self.path)


def _fields(record: Record) -> dict[str, Any]:
    edits = None if record.edits is None else [[e.start, e.length, e.old] for e in record.edits]
    fields = {"made": record.made, "created": record.created, "folders": record.folders}
    return {"digest": record.digest, "edits": edits, **fields}


def _record(data: str | dict[str, Any]) -> Record:
    if isinstance(data, str):
        return Record(digest=data)
    edits, made = data["edits"], data["made"]
    return Record(
        digest=str(data["digest"]),
        edits=None if edits is None else tuple(Edit(start=int(s), length=int(n), old=str(old)) for s, n, old in edits),
        made=None if made is None else tuple(map(str, made)),
        created=data["created"] is True,
        folders=tuple(map(str, data["folders"])),
    )


class Manifests:
    """Manifests of agents' files: of the level that is changed, then of others that may know the same files, because a home
    folder can be a work tree."""

    def __init__(self, own: str, *others: str) -> None:
        self.own, self.all = own, [Manifest(path, "files") for path in (own, *others)]

    def of(self, file: File) -> Record | None:
        """What is remembered of a file."""
        return next((manifest.files[file.real] for manifest in self.all if file.real in manifest.files), None)

    def exact(self, file: File) -> Record | None:
        """The same, if nobody has changed the file since."""
        record = self.of(file)
        return record if record and file.data is not None and record.digest == digest(file.data) else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other installs out, and read again what they have left. Raises OSError."""
        known = {manifest.path: manifest for manifest in self.all if manifest.path == self.own or manifest.files}
        with ExitStack() as stack:
            for path in sorted(known):  # in one order, so that no two wait for each other
                stack.enter_context(known[path].locked())
            yield

    def put(self, name: str, record: Record | None) -> None:
        """Remember a file at the level that is changed alone, or forget it everywhere; only while locked. Raises OSError."""
        for manifest in self.all:
            manifest.put(name, record if manifest.path == self.own else None)
