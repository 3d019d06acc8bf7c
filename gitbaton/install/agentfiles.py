"""Files of other programs that install changes: looked at first, written after, and remembered, so that they go back."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from typing import Any

from gitbaton.agents.settings import Edit
from gitbaton.errors import BatonError
from gitbaton.git.hookfiles import digest, read, write
from gitbaton.values import value

MAX_BYTES = 4 << 20


@value
class File:
    """A file as it was looked at. ``shown`` is its name for the user, ``real`` where its bytes are; None: it is not there."""

    shown: str
    real: str
    data: bytes | None
    mode: int


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


def look(path: str, shown: str, *, inside: str | None = None, git_dir: str | None = None) -> File:
    """A file to be changed, symbolic links followed; ``inside``: it must not lead out of that directory.

    Raises BatonError in one line for what cannot be changed: a directory, a device, a file that is too large or not ours to
    read, a link that leads out of the work tree or into ``git_dir``.
    """
    real = os.path.realpath(path)
    if inside is not None and not _below(real, os.path.realpath(inside)):
        raise BatonError(f"'{shown}' leads out of the work tree, to '{real}'")
    if git_dir is not None and _below(real, os.path.realpath(git_dir)):
        raise BatonError(f"'{shown}' leads into the repository's own directory")
    try:
        found = os.stat(path)
    except FileNotFoundError:
        _writable(real, shown)
        return File(shown=shown, real=real, data=None, mode=_new_mode())
    except OSError as error:
        raise BatonError(f"'{shown}' cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise BatonError(f"'{shown}' is {'a directory' if stat.S_ISDIR(found.st_mode) else 'not a plain file'}")
    if found.st_size > MAX_BYTES:
        raise BatonError(f"'{shown}' is over {MAX_BYTES >> 20} MiB")
    data = read(real, limit=-1)
    if data is None:
        raise BatonError(f"'{shown}' cannot be read")
    _writable(real, shown)
    return File(shown=shown, real=real, data=data, mode=stat.S_IMODE(found.st_mode))


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def _writable(real: str, shown: str) -> None:
    """Whether a file can be put into its folder, or into the nearest one that is there."""
    folder = os.path.dirname(real)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise BatonError(f"'{shown}' cannot be written: '{folder}' is not a directory")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BatonError(f"'{shown}' cannot be written: '{folder}' may not be changed")


def _new_mode() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return 0o666 & ~mask


class Records:
    """What install remembers of the files it changed, in a file of its own."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.files: dict[str, Record] = {}
        self.folders: tuple[str, ...] = ()
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                data = json.load(file)
            self.folders = tuple(map(str, data["folders"]))
            self.files = {str(name): _record(item) for name, item in data["files"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # what is ours is then told by its marks alone

    def of(self, file: File) -> Record | None:
        """What is remembered of a file."""
        return self.files.get(file.real)

    def exact(self, file: File) -> Record | None:
        """The same, if nobody has changed the file since."""
        record = self.of(file)
        return record if record and file.data is not None and record.digest == digest(file.data) else None

    def put(self, name: str, record: Record | None) -> None:
        """Remember a file, or forget it."""
        if record is None and self.files.pop(name, None) is None:
            return
        if record is not None:
            self.files[name] = record
        if self.files:
            self.folders += tuple(make_folders(os.path.dirname(self.path)))
            text = json.dumps({"v": 1, "folders": self.folders, "files": {k: _plain(v) for k, v in self.files.items()}})
            write(self.path, text.encode("utf-8", "surrogateescape"), 0o600)
        elif os.path.lexists(self.path):
            os.unlink(self.path)
            drop_folders(self.folders)


def _plain(record: Record) -> dict[str, Any]:
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


def make_folders(folder: str) -> list[str]:
    """Make a folder and those above it; the ones that were not there. Raises OSError."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        os.mkdir(path)
    return missing


def drop_folders(folders: Iterable[str]) -> None:
    """Remove folders that we made, unless somebody has put something into them."""
    for folder in sorted(set(folders), key=len, reverse=True):
        try:
            os.rmdir(folder)
        except OSError:
            continue


def unchanged(change: Change) -> None:
    """Raise BatonError when the file is not what it was when it was looked at."""
    path = change.file.real
    if (read(path, limit=-1) if os.path.lexists(path) else None) != change.file.data:
        raise BatonError(f"'{change.file.shown}' has just been changed by somebody else, and is left as it is", "run it again")


def carry_out(change: Change, records: Records) -> None:
    """Write or remove one file, and remember it. Raises BatonError, OSError."""
    unchanged(change)
    real, record = change.file.real, change.record
    if change.after is None:
        os.unlink(real)
        records.put(real, None)
        return
    if record is not None:
        made = make_folders(os.path.dirname(real))
        fields = {name: getattr(record, name) for name in ("digest", "edits", "made", "created")}
        record = Record(**fields, folders=(*record.folders, *made))
    if record is not None:
        records.put(real, record)  # before the file: one that is remembered and unwritten does no harm
    write(real, change.after, change.file.mode)
    if record is None:
        records.put(real, None)
