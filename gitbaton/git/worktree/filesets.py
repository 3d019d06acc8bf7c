"""File sets: the files that globs match, as a git tree of raw bytes, and putting such a set in place."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import Signature, names_in, read_or_none, settled, signature
from gitbaton.base.values import TYPE_CHECKING, cast
from gitbaton.git.objects import NewObject, Row, new_object, tree_objects
from gitbaton.git.repo import Repo, put
from gitbaton.git.worktree.filetrees import (
    LARGE,
    LINK,
    FileEntry,
    FileReader,
    FileSet,
    ObjectStore,
    is_safe,
    parents,
    read_tree,
)
from gitbaton.git.worktree.gate import Gate
from gitbaton.git.worktree.globs import below, matcher, quote, roots
from gitbaton.git.worktree.swap import leads_outside, swap, temporary_name

if TYPE_CHECKING:
    from typing import Any, Literal

    Keep = Literal["all", "none"]
    Found = tuple[str, os.stat_result]
    Learned = Sequence[Any]  # a signature, the mode and the blob
else:
    Found = Keep = Learned = str

__all__ = ["FileEntry", "FileSet", "Files", "read_tree", "swap", "unmatched"]


_HELD = 32 << 20  # bytes of new blobs that wait to be written together
_PAYS = 10_000_000  # what must have been read anew (10,000 a file, and its bytes) for the next process to be told
_SETS = 8
_MOST = 1000  # links that are followed
TEMPORARY = re.compile(r"\.baton-[0-9a-f]{16}\.(?:new|old)\Z")  # what ``swap`` puts beside a file
_HEAD = b"gitbaton files 2\n"
_FILES = 500_000  # files remembered
_DIGEST = "digest\0"


class Files:
    """The files below ``root`` (the top of a work tree or of a copy of it), with blobs and trees in the store of ``repo``.

    A file that has not changed since it was read is not read again, in this object's life; with ``cached``, and where
    ``root`` is the top of the repository's own work tree, not by the next process either (``files.cache`` in gitbaton's folder
    of the git directory). Not thread-safe.
    """

    def __init__(self, repo: Repo, root: str, *, cached: bool = True) -> None:
        self.repo, self.root = repo, root
        self.store = ObjectStore(repo)
        self.gate = Gate(repo, root)
        self.reader = FileReader(repo.layout.algorithm, filemode=repo.boolean("core.filemode", default=True), gate=self.gate)
        place = os.path.join(repo.own_dir, "files.cache") if cached and root == repo.layout.root else None
        self._cache = FileCache(repo, root, place)
        self._folded = os.path.lexists(os.path.join(root, ".GIT"))  # names that differ in case are one
        self._trees: dict[tuple[Row, ...], tuple[Oid, ...]] = {}  # of the last sets: their trees, the whole one last

    def close(self) -> None:
        """Keep for the next process what it would have to read anew. Never raises."""
        self._cache.save(_PAYS)

    def scan(
        self,
        globs: Sequence[str],
        *,
        store: Keep = "all",
        inside: bool = False,
        but: Mapping[str, FileEntry] = MappingProxyType({}),
        follow: bool = False,
    ) -> FileSet:
        """Return the files that globs (in their normal form) match now, their blobs and trees written into the store.

        Bytes are those on disk, whatever filters say, but for what stands behind a filter: that is kept here, and a stand-in is
        stored. Modes are 100644, 100755 by the owner's x bit where core.filemode counts, and 120000. FIFOs, sockets, devices
        and everything named ``.git`` are passed over; no symbolic link is followed. Files over 100 MiB, and with ``store`` none
        all regular files, are recorded by digest. A file that changes while it is read is read again, after five times taken as
        it was last seen. ``inside``: refuse symbolic links that lead out of the root, but for those that are as in ``but``.
        ``follow``: add what symbolic links lead to (``led_to``). Raises GitError that names the file or folder which cannot be
        read.
        """
        entered: set[str] = set()
        found, bare, passed = self.walk(globs, entered)
        entries = self.take(found, digest=store == "none")
        if follow:
            entries |= led_to(self, globs, entries.values())
        away = self.outward(entry for path, entry in entries.items() if entry != but.get(path)) if inside else {}
        for path, target in away.items():
            raise GitError(f"{in_quotes(path)} is a symbolic link that leads out of the work tree, to {in_quotes(target)}")
        ordered = {path: entries[path] for path in sorted(entries)}
        return FileSet(
            tree=self.tree(ordered),
            entries=ordered,
            unmatched=unmatched(globs, ordered),
            digests=tuple(path for path, entry in ordered.items() if entry.digest),
            folders=tuple(sorted(bare)),
            passed=tuple(sorted(passed)),
            modes={path: seen.st_mode & 0o777 for path, seen in found if stat.S_ISREG(seen.st_mode)},
            folder_modes=folder_modes(self.root, {*entered, *bare, *(f for path in ordered for f in parents(path))}),
        )

    def known(self, path: str, found: os.stat_result, digest: bool = False) -> FileEntry | None:
        """Return the entry of a file that was seen with this stat, if it was read before and has not changed since."""
        if self.gate.shut(path):  # what was read before may have been read without its filter
            return None
        return self._cache.get(path, signature(found), digest=digest)

    def take(self, found: Iterable[Found], *, digest: bool = False) -> dict[str, FileEntry]:
        """Return the entries of files that were seen with these stats, their blobs in the store; those that are gone by now
        are left out. Raises GitError."""
        entries: dict[str, FileEntry] = {}
        fresh: list[str] = []
        found = list(found)
        self.gate.ask(path for path, _ in found)
        for path, seen in found:
            known = self.known(path, seen, stat.S_ISREG(seen.st_mode) and (digest or seen.st_size > LARGE))
            if known is None:
                fresh.append(path)
            else:
                entries[path] = known
        gone = self.store.missing({entry.oid for entry in entries.values()})
        fresh += [path for path, entry in entries.items() if entry.oid in gone] if gone else []
        for path, entry in self._read(fresh, digest):
            if entry is None:
                entries.pop(path, None)
            else:
                entries[path] = entry
        return entries

    def _read(self, paths: Sequence[str], digest: bool) -> Iterator[tuple[str, FileEntry | None]]:
        """Read files, writing what was read in portions, and yield each with its entry; None for one that is gone."""
        held: list[NewObject] = []
        size = 0
        for path in paths:
            full = os.path.join(self.root, path)
            read = self.reader.read(full, path, digest=digest, stream=self.store.stream)
            if read is None:
                yield path, None
                continue
            oid = read.oid
            if oid is None:
                held.append(new_object(self.reader.algorithm, "blob", read.data or b""))
                oid, size = held[-1].oid, size + len(held[-1].data)
            entry = FileEntry(path=path, mode=read.mode, oid=oid, digest=read.digest)
            if read.whole and not self.gate.shut(path):
                self._cache.put(read.signature, read.before, entry)
            yield path, entry
            if size > _HELD:
                self.store.write(held)
                held, size = [], 0
        self.store.write(held)

    def tree(self, entries: Mapping[str, FileEntry]) -> Oid:
        """Write the tree of entries that have their blobs stored, and return its id. Raises GitError."""
        rows = tuple((path, entry.mode, entry.oid) for path, entry in entries.items())
        known = self._trees.pop(rows, None)
        if known is None or self.store.missing(known):
            trees = tree_objects(self.reader.algorithm, rows)
            self.store.write(trees)
            known = tuple(tree.oid for tree in trees)
        self._trees[rows] = known
        if len(self._trees) > _SETS:
            del self._trees[next(iter(self._trees))]
        return known[-1]

    def outward(self, entries: Iterable[FileEntry]) -> dict[str, str]:
        """Return the symbolic links among files that lead out of the root now, with their targets."""
        found = {}
        for path in (entry.path for entry in entries if entry.mode == LINK):
            try:
                target = os.readlink(os.path.join(self.root, path))
            except OSError:
                continue
            if leads_outside(self.root, path, target):
                found[path] = target
        return found

    def walk(self, globs: Sequence[str], entered: set[str] | None = None) -> tuple[list[Found], set[str], set[str]]:
        """Return the files that globs match, with their stats, the empty folders that were met, and what was passed over.
        The folders that were gone through are added to ``entered``. Raises GitError."""
        found: list[Found] = []
        bare: set[str] = set()
        passed: set[str] = set()
        matches, enter = matcher(globs), below(globs)
        for start in roots(globs):
            if start and not self._is_solid(start):
                continue
            seen = self._look_at(start)
            kind = stat.S_IFMT(seen.st_mode) if seen is not None else 0
            if seen is None or kind != stat.S_IFDIR:
                found += [(start, seen)] if seen is not None and kind in (stat.S_IFREG, stat.S_IFLNK) and matches(start) else []
                bare |= self._bare_above(start)
                continue
            waiting = [start]
            while waiting:
                folder = waiting.pop()
                if entered is not None and folder:
                    entered.add(folder)
                waiting += (path for path in self._folder(folder, matches, found, bare, passed) if enter(path))
        return found, bare, passed

    def _bare_above(self, path: str) -> set[str]:
        """Return the deepest folder above a path, if it is empty."""
        while path := path.rpartition("/")[0]:
            full = os.path.join(self.root, path)
            if os.path.isdir(full):
                return set() if names_in(full) else {path}
        return set()

    def _is_solid(self, path: str) -> bool:
        """Whether a path is reached through no symbolic link, is not one that leads to a folder, and is spelt as on disk."""
        parts = path.split("/")
        if not is_safe(path) or TEMPORARY.match(parts[-1]):
            return False
        at = self.root
        for number, part in enumerate(parts, 1):
            if self._folded and part not in names_in(at):
                return False
            at = os.path.join(at, part)
            if os.path.islink(at) and (number < len(parts) or os.path.isdir(at)):
                return number == len(parts)
        return True

    def _look_at(self, path: str) -> os.stat_result | None:
        try:
            return os.lstat(os.path.join(self.root, path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise GitError(f"{in_quotes(path)} cannot be read: {error.strerror}") from None

    def _folder(
        self, folder: str, matches: Callable[[str], bool], found: list[Found], bare: set[str], passed: set[str]
    ) -> list[str]:
        """List one folder: add its files that match, and itself if it is empty, and return the folders in it."""
        prefix, deeper, name = folder + "/" if folder else "", [], ""
        try:
            with os.scandir(os.path.join(self.root, folder)) as listed:
                for entry in listed:
                    name = entry.name
                    if (name[0] in ".gG" or not name.isascii()) and (not is_safe(name) or TEMPORARY.match(name)):
                        if folder and matches(prefix + "x") and not TEMPORARY.match(name):
                            passed.add(prefix + name)
                        continue
                    path = prefix + name
                    if entry.is_dir(follow_symlinks=False):
                        deeper.append(path)
                    elif not matches(path):
                        continue
                    elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                        passed.add(path)
                    else:
                        try:
                            found.append((path, entry.stat(follow_symlinks=False)))
                        except FileNotFoundError:
                            continue
            if not name and folder:
                bare.add(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise GitError(f"'{folder or '.'}' cannot be read: {error.strerror}") from None
        return deeper


def folder_modes(root: str, folders: Iterable[str]) -> dict[str, int]:
    """Return the permission bits of folders, and whether they pass their group on; of those that are not there, nothing."""
    found = {}
    for folder in folders:
        with suppress(OSError):
            mode = os.lstat(os.path.join(root, folder)).st_mode
            if stat.S_ISDIR(mode):
                found[folder] = mode & 0o2777
    return found


def unmatched(globs: Sequence[str], paths: Iterable[str]) -> tuple[str, ...]:
    """Return the globs that match none of the paths."""
    left = [(glob, matcher((glob,))) for glob in dict.fromkeys(globs)]
    for path in paths:
        if not left:
            break
        left = [(glob, matches) for glob, matches in left if not matches(path)]
    return tuple(glob for glob, _ in left)


def led_to(files: Files, globs: Sequence[str], entries: Iterable[FileEntry]) -> dict[str, FileEntry]:
    """Return what is read through links: the links on the way to where globs begin; what they and the links among
    ``entries`` lead to inside the root, by real path; and of a regular file of at most 100 MiB outside of it the digest,
    under a name that no other file of a set can have. Raises GitError."""
    found: dict[str, FileEntry] = {}
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
        below = files.walk((quote(real[len(top) + 1 :]),))[0] if inside else []
        fresh = files.take(below) if inside else _outside(files, path, real)
        waiting += [entry.path for entry in fresh.values() if entry.mode == LINK]
        found |= fresh
    return found


def _outside(files: Files, path: str, real: str) -> dict[str, FileEntry]:
    fits = os.path.isfile(real) and os.path.getsize(real) <= LARGE
    read = files.reader.read(real, path, digest=True) if fits else None
    if read is None:
        return {}
    blob = new_object(files.reader.algorithm, "blob", read.data or b"")
    files.store.write([blob])
    name = temporary_name(path).removesuffix("new") + "old"
    return {name: FileEntry(path=name, mode=read.mode, oid=blob.oid, digest=True)}


class FileCache:
    """Entries of the files below one root. ``place``: the file of ``repo`` in which they outlive this process, or None."""

    def __init__(self, repo: Repo, root: str, place: str | None) -> None:
        self._repo, self._root, self._place = repo, root, place
        self._known: dict[str, tuple[Signature, FileEntry]] = {}
        self._stored: dict[str, Learned] | None = None if place else {}
        self.learned = 0  # bytes read and files, in a measure of what reading them again would cost

    def get(self, path: str, found: Signature, *, digest: bool) -> FileEntry | None:
        """Return the entry of a file that has not changed since it was read."""
        key = _DIGEST + path if digest else path
        known = self._known.get(key)
        if known is None and (row := self._stored_now().get(key)) is not None:
            known = self._known[key] = (tuple(row[:5]), FileEntry(path=path, mode=row[5], oid=row[6], digest=digest))
        return known[1] if known is not None and known[0] == found else None

    def put(self, found: Signature, before: int, entry: FileEntry) -> None:
        """Keep what was read of a file that had this signature at ``before`` (nanoseconds), if that can be relied on."""
        key = _DIGEST + entry.path if entry.digest else entry.path
        if settled(found, before):
            self._known[key] = (found, entry)
            self.learned += 10_000 + found[1]

    def _stored_now(self) -> dict[str, Learned]:
        if self._stored is None:
            self._stored = _load(cast(str, self._place), self._root)
        return self._stored

    def save(self, least: int) -> None:
        """Write what is known for the next process, if at least ``least`` was learned. Never raises: it can be done without."""
        if self._place is None or self.learned < least:
            return
        stored = self._stored_now()
        stored.update((key, (*found, entry.mode, entry.oid)) for key, (found, entry) in self._known.items())
        if len(stored) <= _FILES:
            body = _HEAD + os.fsencode(self._root) + b"\0" + json.dumps(stored).encode("ascii")
            fresh = f".{os.getpid()}.{time.monotonic_ns()}"
            try:
                put(self._repo, self._place, body + _sum(body), fresh=fresh)
            except OSError:
                with suppress(OSError):
                    os.unlink(self._place + fresh)
        self.learned = 0


def _load(place: str, root: str) -> dict[str, Learned]:
    """Return what a cache file says of the files below ``root``; nothing where it is torn, of another format or another
    root."""
    data = read_or_none(place) or b""
    body, mark = data[:-20], data[-20:]
    head = _HEAD + os.fsencode(root) + b"\0"
    whole = body.startswith(head) and _sum(body) == mark
    return cast("dict[str, Learned]", json.loads(body[len(head) :])) if whole else {}


def _sum(data: bytes) -> bytes:
    import hashlib

    return hashlib.sha1(data, usedforsecurity=False).digest()
