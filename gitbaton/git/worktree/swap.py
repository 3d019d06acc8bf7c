"""Swap of files: one (move the old one aside and look at it, put the new one into the free place, or put the old one back), and
many, each for itself, for the outputs of steps: what is not as expected is neither overwritten nor removed.

Nothing is written over: what another process wrote in between was moved, not overwritten, or it stands where the new file is
refused. A name is one in the open ``folder``, or an absolute path elsewhere on its file system.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from types import MappingProxyType

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitError
from gitbaton.base.system.files import NEW, Signature, open_below, open_file, settled, signature, write_all
from gitbaton.base.values import TYPE_CHECKING, cast
from gitbaton.git.objects import object_id
from gitbaton.git.repo import Repo
from gitbaton.git.worktree.filetrees import (
    EXECUTABLE,
    FILE,
    LARGE,
    LINK,
    FileEntry,
    FileReader,
    ObjectStore,
    Read,
    digest_text,
    is_safe,
    marked,
    parents,
)
from gitbaton.git.worktree.gate import Gate
from gitbaton.git.worktree.heldbytes import HeldStore, parse_held, read_held
from gitbaton.git.worktree.modes import NOTHING, Folders, Modes, Permits, permissions, prune, without_list

if TYPE_CHECKING:
    from typing import Any

Identity = tuple[int, ...]  # inode, mode, size and time of content: what of a signature stays when a file gets another name
Bits = tuple[int, bool]  # permissions of a file that is made, and whether they hold whatever the umask is
_NOREPLACE, _EXCHANGE = 1, 2  # flags of renameat2
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_NO_FLAGS = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)
Wanted = Mapping[str, FileEntry | None]
Known = Callable[[str, os.stat_result, bool], FileEntry | None]  # the entry of a file that was read, if it is still as then
Seen = tuple[Signature, bool]  # of the file that was looked at, and whether every later change must show in it
_GONE = (errno.ENOTDIR, errno.ELOOP, errno.ENOENT)  # a folder is not there any more, or a file or a link stands in its place


def stat_signature(name: str, folder: int | None = None) -> Signature | None:
    """Return the signature of a file; None where there is none."""
    try:
        return signature(os.lstat(name, dir_fd=folder))
    except OSError:
        return None


def mode_at(folder: int | None, name: str) -> int:
    """Return the mode of what stands at a name; 0 where nothing does."""
    seen = stat_signature(name, folder)
    return seen[4] if seen is not None else 0


def identity(seen: Signature) -> Identity:
    """Return the part of a signature that stays when a file gets another name."""
    return seen[0], seen[4], seen[1], seen[2]


def is_same(name: str, expected: Identity, folder: int | None = None) -> bool:
    """Whether a file has an identity; if not, it was written late, or is another one. Raises OSError."""
    return identity(signature(os.lstat(name, dir_fd=folder))) == expected


def temporary_name(path: str) -> str:
    """Return the name beside a path of the file that is to come there; a killed writer leaves it."""
    import hashlib

    return f".baton-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.new"


def write(folder: int, name: str, bits: Bits, pieces: Iterable[bytes]) -> None:
    """Make a file, whole or not at all unless this process is killed. Raises OSError."""
    fd = os.open(name, NEW, bits[0] & 0o700 if bits[1] else bits[0], dir_fd=folder)
    try:
        for piece in pieces:
            write_all(fd, piece)
        if bits[1]:
            with suppress(PermissionError):  # a file system that knows one mode for all
                os.fchmod(fd, bits[0])
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(fd)


def put(folder: int, source: str, name: str) -> bool:
    """Give a file on the same file system a name that nothing has; return False where something has it. Raises OSError."""
    try:
        os.link(source, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:
            if not _rename(folder, source, name, _NOREPLACE):
                if mode_at(folder, name):
                    return False
                os.rename(source, name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            return False
        return True
    os.unlink(source, dir_fd=folder)
    return True


def move_aside(folder: int, name: str, place: str, expected: Callable[[str], bool]) -> bool:
    """Rename a file to ``place``; return whether ``expected`` knows it there. Raises OSError."""
    os.rename(name, place, src_dir_fd=folder, dst_dir_fd=folder)
    return expected(place)


def remove(folder: int, old: str, name: str, expected: Callable[[str], bool]) -> bool:
    """Put a file aside to ``old``, and remove it, or put it back if ``expected`` does not know it there; whether it is removed.
    Raises OSError."""
    if stat.S_ISDIR(mode_at(folder, name)):
        return False
    known = move_aside(folder, name, old, expected)
    if known:
        os.unlink(old, dir_fd=folder)
    else:
        put(folder, old, name)
    return known


def replace(folder: int, fresh: str, old: str, name: str, expected: Callable[[str], bool]) -> bool:
    """Exchange ``name`` for the file ``fresh``, and remove it from ``old``, or put it back if ``expected`` does not know it
    there; whether it is replaced. If not, ``fresh`` may be left. Raises OSError."""
    if stat.S_ISDIR(mode_at(folder, name)):
        return False
    ours = identity(signature(os.lstat(fresh, dir_fd=folder)))
    # From here on the file is whole: one that is found as `old` is not torn.
    os.rename(fresh, old, src_dir_fd=folder, dst_dir_fd=folder)
    try:
        exchanged = _rename(folder, old, name, _EXCHANGE)
    except FileNotFoundError:  # it was removed after it was looked at
        os.unlink(old, dir_fd=folder)
        return False
    if not exchanged:
        os.rename(old, fresh, src_dir_fd=folder, dst_dir_fd=folder)
        return _replace_linked(folder, fresh, old, name, expected)
    if expected(old):
        os.unlink(old, dir_fd=folder)
        return True
    try:
        _rename(folder, old, name, _EXCHANGE)
        if is_same(old, ours, folder):
            os.unlink(old, dir_fd=folder)
        else:  # another one was put there meanwhile: the newer stays, none is lost
            _rename(folder, old, name, _EXCHANGE)
    except FileNotFoundError:
        if not mode_at(folder, name):
            put(folder, old, name)
    return False


def _replace_linked(folder: int, fresh: str, old: str, name: str, expected: Callable[[str], bool]) -> bool:
    """Replace a file where the system cannot exchange two: a second name keeps what stands there until it was looked at."""
    try:
        os.link(name, old, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if not expected(name):
            return False
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        return True
    known = expected(old)
    if known:
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        if not expected(old):  # it was written late
            os.rename(old, name, src_dir_fd=folder, dst_dir_fd=folder)
            return False
    os.unlink(old, dir_fd=folder)
    return known


def _rename(folder: int, one: str, other: str, flag: int) -> bool:
    """Exchange two names in one step, or rename a file where nothing stands; False where the system cannot. Raises OSError."""
    call = _renameat2()
    if call is None:
        return False
    import ctypes

    if call(folder, os.fsencode(one), folder, os.fsencode(other), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_FLAGS:
        return False
    raise OSError(number, os.strerror(number), one, None, other)


@cache
def _renameat2() -> Any:
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, AttributeError):
        return None


def swap(
    repo: Repo,
    root: str,
    changes: Wanted,
    expect: Wanted,
    *,
    between: Callable[[], None] | None = None,
    source: str | None = None,
    known: Known | None = None,
    keep: Collection[str] = (),
    modes: Mapping[str, int] = MappingProxyType({}),
    most: Modes = NOTHING,
) -> tuple[str, ...]:
    """Make each path below ``root`` what ``changes`` says (None: nothing), if it is what ``expect`` says; what is so already
    stays. The paths that are neither come back: they were left alone.

    Each file is old or new at any moment, never torn; a killed swap can be done again. Writes come before removals where that
    is possible; folders go with their last file, but for those to ``keep``. Nothing is done through a symbolic link, and
    nothing to ``.git``. ``between`` is called after each file. Files that are recorded by digest come from the same path below
    ``source``; without one they are left alone. ``known`` spares reading again what was read below ``root``.
    A file keeps the permissions of the one that it replaces, or gets those of ``modes``; a new one has those of its source.
    But for those of ``modes`` none has more than ``most`` says, nor has a folder that files come into.
    Raises GitError that names the file which cannot be read or written, or, before anything is written, a path that no file
    may have and a symbolic link that would lead out of ``root``.
    """
    for path in (*changes, *expect):
        if not is_safe(path):
            raise GitError(f"{in_quotes(path)} cannot be a path of a work tree")
    job = _Swap(repo, root, between, source, known, keep, modes, most)
    job.look(marked(repo.objects, changes, job.held.has), expect)
    return job.run()


def leads_outside(root: str, path: str, target: str) -> bool:
    """Whether a symbolic link at a path below ``root`` would lead out of it, as its folders are now."""
    top = os.path.realpath(root)
    there = os.path.realpath(os.path.join(top, os.path.dirname(path), target))
    return there != top and not there.startswith(top.rstrip("/") + "/")


class _Look:
    """The file at a name of an open folder: read once for each way of recording it."""

    def __init__(self, reader: FileReader, known: Known | None, folder: int, name: str, path: str) -> None:
        self.reader, self.known, self.folder, self.name, self.path = reader, known, folder, name, path
        self.seen: Seen | None = None  # of the last entry that it was
        self._reads: dict[bool, Read | None] = {}
        try:
            found = os.lstat(name, dir_fd=folder) if folder >= 0 else None
        except FileNotFoundError:
            found = None
        self.stat = None if found is None or stat.S_ISDIR(found.st_mode) else found  # a folder may go with its files

    def equals(self, entry: FileEntry | None) -> bool:
        """Whether the file is what an entry says (None: nothing)."""
        if entry is None or self.stat is None:
            return entry is None and self.stat is None
        mode = FILE if entry.mode == EXECUTABLE and not self.reader.filemode else entry.mode
        if self.reader.mode(self.stat) != mode or (entry.digest and mode == LINK):
            return False
        if not entry.digest and self.stat.st_size > LARGE:
            return False
        known = self.known(self.path, self.stat, entry.digest) if self.known else None
        if known is not None:
            self.seen = (signature(self.stat), True)
            return known.oid == entry.oid
        if entry.digest not in self._reads:
            self._reads[entry.digest] = self.reader.read(self.name, self.path, digest=entry.digest, folder=self.folder)
        read = self._reads[entry.digest]
        if read is None or not read.whole or read.mode != mode:
            return False
        self.seen = (read.signature, settled(read.signature, read.before))
        return self.reader.oid(read) == entry.oid


class _Swap:
    """One swap: what is to be written and removed, found by looking at every path first."""

    def __init__(
        self,
        repo: Repo,
        root: str,
        between: Callable[[], None] | None,
        source: str | None,
        known: Known | None,
        keep: Collection[str],
        modes: Mapping[str, int],
        most: Modes,
    ) -> None:
        self.repo, self.root, self.between, self.source, self.known = repo, root, between, source, known
        self.keep, self.modes, self.most = keep, modes, most
        self.folders = Folders(root, Permits(repo, most))
        self.gate, self.held = Gate(repo, root), HeldStore(repo)
        filemode = repo.boolean("core.filemode", default=True)
        self.reader = FileReader(repo.layout.algorithm, filemode=filemode, held=1 << 20, gate=self.gate)
        self.writes: dict[str, tuple[FileEntry, FileEntry | None, Seen | None]] = {}
        self.removals: dict[str, tuple[FileEntry, Seen | None]] = {}
        self.left: list[str] = []

    def look(self, changes: Wanted, expect: Wanted) -> None:
        """Sort the paths. Raises GitError."""
        self.gate.ask(changes)
        for path in sorted(changes, key=os.fsencode):
            entry, expected = changes[path], expect.get(path)
            with self._looked(path) as there:
                if there.equals(entry):
                    continue
                if not there.equals(expected) or (entry is not None and entry.digest and self.source is None):
                    self.left.append(path)
                elif entry is None:
                    self.removals[path] = (cast(FileEntry, expected), there.seen)
                else:
                    self.writes[path] = (entry, expected, there.seen)

    @contextmanager
    def _looked(self, path: str) -> Iterator[_Look]:
        """Yield what stands at a path; what a killed swap left beside it goes first. Raises GitError."""
        *folders, name = path.split("/")
        try:
            folder = open_below(self.root, folders)
        except OSError as error:
            if error.errno not in _GONE:
                raise GitError(f"{in_quotes(path)} cannot be read: {error.strerror}") from None
            yield _Look(self.reader, self.known, -1, name, path)
            return
        try:
            self._sweep(folder, path)
            yield _Look(self.reader, self.known, folder, name, path)
        finally:
            os.close(folder)

    def _sweep(self, folder: int, path: str) -> None:
        """Remove what a killed swap left beside a path: what it was writing, and what it had moved aside if that is stored."""
        fresh, old = _names(path)
        _unlink(folder, fresh)
        if not mode_at(folder, old):
            return
        read = self.reader.read(old, path, digest=False, folder=folder)
        if read is not None and not ObjectStore(self.repo).missing([self.reader.oid(read)]):
            _unlink(folder, old)

    def run(self) -> tuple[str, ...]:
        """Write, remove, and write what stood below a file or above one. Raises GitError."""
        links = {p: self._target(w[0]) for p, w in self.writes.items() if w[0].mode == LINK}
        for path, target in links.items():
            if leads_outside(self.root, path, os.fsdecode(target)):
                said = os.fsdecode(target)
                raise GitError(f"{in_quotes(path)} would be a symbolic link that leads out of the work tree, to '{said}'")
        self.folders.enter({**dict.fromkeys(self.removals, False), **dict.fromkeys(self.writes, True)})
        try:
            later = self._write(list(self.writes), links)
            for path in sorted(self.removals, key=os.fsencode, reverse=True):
                self._remove(path)
            self.left += self._write(later, links)
        finally:
            self.folders.leave()
        return tuple(sorted(self.left))

    def _target(self, entry: FileEntry) -> bytes:
        found = self.repo.objects.read(entry.oid)
        if found is None or found.data is None or found.kind != "blob" or not found.data or b"\0" in found.data:
            raise GitError(f"object {entry.oid} is no target of the symbolic link {in_quotes(entry.path)}")
        return found.data

    def _write(self, paths: Sequence[str], links: Mapping[str, bytes]) -> list[str]:
        """Write files; return those that a file, a folder or a symbolic link is in the way of."""
        blocked = []
        plain = [p for p in paths if p not in links and not self.writes[p][0].digest]
        contents = self._contents(plain)
        for path in paths:
            data = links.get(path)
            if data is None and not self.writes[path][0].digest:
                data = next(contents)
            if not self._put(path, data):
                blocked.append(path)
        return blocked

    def _contents(self, paths: Sequence[str]) -> Iterator[bytes]:
        found = self.repo.objects.read_many([self.writes[p][0].oid for p in paths], LARGE)
        for path, item in zip(paths, found, strict=True):
            if item is None or item.kind != "blob" or item.data is None:
                raise GitError(f"object {self.writes[path][0].oid} of {in_quotes(path)} is not there")
            held = parse_held(item.data)
            yield item.data if held is None else self.held.read(path, held)

    def _put(self, path: str, data: bytes | None) -> bool:
        """Write one file; False when something is in its way. What is no longer as expected is left alone."""
        done = False
        try:
            with self.folders.opened(path, make=True) as (folder, name):
                if stat.S_ISDIR(mode_at(folder, name)):
                    return False
                try:
                    done = self._place(folder, name, path, data)
                finally:
                    _unlink(folder, _names(path)[0])
        except OSError as error:
            if error.errno in _GONE:  # somebody has just removed a folder of ours
                return False
            raise GitError(f"{in_quotes(path)} cannot be written: {error.strerror}") from None
        finally:
            if not done:
                ways = parents(path)
                prune(self.root, path.split("/")[:-1], sum(folder not in self.folders.fresh for folder in ways))
        self._tell(path, done)
        return True

    def _place(self, folder: int, name: str, path: str, data: bytes | None) -> bool:
        entry, expected, seen = self.writes[path]
        fresh, old = _names(path)
        if data is None:
            self._copy(folder, fresh, entry, self._bits(folder, name, entry))
        elif entry.mode == LINK:
            os.symlink(data, os.fsencode(fresh), dir_fd=folder)
        else:
            write(folder, fresh, self._bits(folder, name, entry), iter((data,)))
        if expected is None:
            return put(folder, fresh, name)
        return replace(folder, fresh, _free(folder, old), name, self._same(folder, expected, seen))

    def _bits(self, folder: int, name: str, entry: FileEntry) -> Bits:
        """Return the permissions of a file that comes in the place of another: its readers and writers stay. A new one has
        those with which it was made in the source, as far as the umask lets it."""
        now = mode_at(folder, name)
        kept = without_list(os.path.join(self.root, entry.path), now & 0o777) if stat.S_ISREG(now) else None
        there = self.modes.get(entry.path, kept)
        source = mode_at(None, os.path.join(self.source, entry.path)) if self.source is not None else 0
        made = source & 0o777 if stat.S_ISREG(source) else None
        runs = entry.mode == EXECUTABLE
        if not self.reader.filemode:  # git does not look at that
            runs = bool((made if made is not None else there or 0) & 0o100)
        most = self.most.most(entry.path)
        if there is not None:
            most |= 0o777 if entry.path in self.modes else 0
            return (there if bool(there & 0o100) == runs else permissions(there, runs)) & most, True
        if made is not None and bool(made & 0o100) == runs:
            return made & most, False
        return (0o777 if runs else 0o666) & most, False

    def _copy(self, folder: int, fresh: str, entry: FileEntry, bits: Bits) -> None:
        """Bring a file that is recorded by digest from where it was made. Raises GitError when it is another one there."""
        import hashlib

        fd = open_file(cast(str, self.source), entry.path)
        if fd is None:
            raise GitError(f"{in_quotes(entry.path)} is not there any more to be brought in")
        made, size = hashlib.sha256(), 0

        def pieces() -> Iterator[bytes]:
            nonlocal size
            while chunk := os.read(fd, 1 << 20):
                made.update(chunk)
                size += len(chunk)
                yield chunk

        try:
            write(folder, fresh, bits, pieces())
            held = read_held(self.repo.objects, entry.oid)
            if held is not None and self.held.hold(entry.path, fd, held.driver, cleaned=False, store=False)[0] == held:
                return
        finally:
            os.close(fd)
        if object_id(self.reader.algorithm, "blob", digest_text(made.hexdigest(), size)) != entry.oid:
            raise GitError(f"{in_quotes(entry.path)} has changed since it was recorded")

    def _same(self, folder: int, expected: FileEntry, seen: Seen | None) -> Callable[[str], bool]:
        """Whether a file is still the one that was looked at; it may have another name by now, which moves its ctime."""

        def same(name: str) -> bool:
            known = seen is not None and seen[1] and is_same(name, identity(seen[0]), folder)
            return known or _Look(self.reader, None, folder, name, expected.path).equals(expected)

        return same

    def _remove(self, path: str) -> None:
        """Remove one file and the folders that become empty by it."""
        expected, seen = self.removals[path]
        try:
            with self.folders.opened(path) as (folder, name):
                done = remove(folder, _free(folder, _names(path)[1]), name, self._same(folder, expected, seen))
        except OSError as error:
            if error.errno not in _GONE:
                raise GitError(f"{in_quotes(path)} cannot be removed: {error.strerror}") from None
            done = False
        if done:
            prune(self.root, path.split("/")[:-1], keep=self.keep)
        self._tell(path, done)

    def _tell(self, path: str, done: bool) -> None:
        if not done:
            self.left.append(path)
        if self.between is not None:
            self.between()


def _names(path: str) -> tuple[str, str]:
    """Return the names beside a path while it is swapped: of the file being written, and of the one moved aside."""
    fresh = temporary_name(path)
    return fresh, fresh.removesuffix("new") + "old"


def _free(folder: int, old: str) -> str:
    """Return a name to move a file aside to; a killed swap may have left one that is stored nowhere else, and it stays."""
    return old if not mode_at(folder, old) else f".baton-{os.urandom(8).hex()}.old"


def _unlink(folder: int, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)
