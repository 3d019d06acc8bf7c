"""Files of file sets: read as on disk (raw bytes, a link's target, or a digest where the file is too large), stored in the
quarantine until a ref holds them, and as git trees, which are read back with every name checked."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitError, RecordError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import READ, Signature, closing_fd, names_in, signature
from gitbaton.base.values import replace, value
from gitbaton.git.loose import drop_torn, is_hollow, remember
from gitbaton.git.objects import Algorithm, NewObject, Objects, object_id, parse_tree
from gitbaton.git.repo import Repo
from gitbaton.git.worktree.gate import Gate
from gitbaton.git.worktree.heldbytes import LONGEST, HeldBytes, parse_held

FILE, EXECUTABLE, LINK = "100644", "100755", "120000"
_MODES = (FILE, EXECUTABLE, LINK)
_MAX_TREE = 64 << 20
_MAX_DEPTH = 1000
_MAX_FILES = 2_000_000
_DIGEST = re.compile(rb"gitbaton digest 1\nsha256 [0-9a-f]{64}\nsize [0-9]{1,19}\n\Z")
_LONGEST = 128  # bytes of the text of a digest
_HFS = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))
LARGE = 100 << 20  # bytes over which a file is recorded by its digest
_ATTEMPTS = 5
_PAUSE = 0.004  # seconds; the kernel's clock of files must have gone on
_CHUNK = 1 << 20
Stream = Callable[[int], Oid]  # stores the rest of an open file
MANY = 100  # objects of which it is worth asking whether the store has them
_OLD = 86400.0  # seconds; gc takes unreferenced objects of two weeks
_LARGE = 1 << 20  # and as many bytes


@value
class FileEntry:
    """A file of a set: its path from the top, its mode (``100644``, ``100755`` or ``120000``) and its blob. ``digest``: the
    blob does not hold the file's bytes but the text ``gitbaton digest 1``, its SHA-256 and its size."""

    path: str
    mode: str
    oid: Oid
    digest: bool = False


@value
class FileSet:
    """The files that globs matched: a tree with every file in it, the files by path, the globs that matched nothing, the
    paths recorded by digest only, the empty folders where files could match, and the permission bits of the regular files.
    ``passed``: what matched and is no file, or may be in no tree. ``folder_modes``: of the folders above these files, and
    where files could match, the permission bits and whether they pass their group on."""

    tree: Oid
    entries: Mapping[str, FileEntry]
    unmatched: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    modes: Mapping[str, int] = MappingProxyType({})
    folder_modes: Mapping[str, int] = MappingProxyType({})


def is_safe(path: str) -> bool:
    """Whether a record's path may be a path below the work tree: relative, no way up, nothing of git's own."""
    return all(_is_safe(os.fsencode(part)) for part in path.split("/"))


def hides(path: str) -> bool:
    """Whether a path has a character that some file systems pass over."""
    return not path.isascii() and path.translate(_HFS) != path


def parents(path: str) -> list[str]:
    """Return the directories above a path, the top's child first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _is_safe(name: bytes) -> bool:
    """Whether a name of a tree may be a name on disk: no way up, and nothing that is ``.git`` on any file system."""
    text = os.fsdecode(name).translate(_HFS).lower().rstrip(" .")
    return bool(name) and b"/" not in name and name not in (b".", b"..") and text not in (".git", "git~1")


def is_digest(data: bytes) -> bool:
    """Whether a blob's bytes are the text that stands for a file which is recorded by digest only."""
    return len(data) <= _LONGEST and _DIGEST.match(data) is not None


def marked(
    objects: Objects, entries: Mapping[str, FileEntry | None], held: Callable[[HeldBytes], bool]
) -> dict[str, FileEntry | None]:
    """Mark the entries that are recorded by digest only, by their blobs: a record may not list them all. So are those that
    passed no filter, unless what they stand for is ``held`` here."""
    oids = list({e.oid for e in entries.values() if e is not None and not e.digest and e.mode != LINK})
    found = zip(oids, objects.read_many(oids, LONGEST), strict=True)
    texts = set()
    for oid, item in found:
        data = item.data if item is not None and item.data is not None else b""
        stand_in = parse_held(data)
        if is_digest(data) or (stand_in is not None and not held(stand_in)):
            texts.add(oid)
    return {
        p: replace(e, digest=True) if e is not None and e.mode != LINK and e.oid in texts else e for p, e in entries.items()
    }


def read_tree(objects: Objects, tree: Oid, digests: Collection[str] = ()) -> dict[str, FileEntry]:
    """Return the files of a tree by path, those of ``digests`` marked as recorded by digest. Raises RecordError for a tree
    that is not there, or that holds what we do not write: odd modes, submodules, names like ``.git`` or ``..``."""
    found: dict[str, FileEntry] = {}
    level = [("", tree)]
    for _ in range(_MAX_DEPTH):
        deeper: list[tuple[str, Oid]] = []
        for (prefix, oid), item in zip(level, objects.read_many([oid for _, oid in level], _MAX_TREE), strict=True):
            if item is None or item.kind != "tree" or item.data is None:
                raise RecordError(f"tree {oid} is not there")
            rows = parse_tree(item.data, objects.algorithm)
            twice = len({row.name for row in rows}) < len(rows)  # a link that is a folder, too, would lead a writer out
            for entry in rows:
                path, mode = prefix + os.fsdecode(entry.name), entry.mode.decode("ascii", "replace")
                if b"/" in entry.name or not is_safe(os.fsdecode(entry.name)) or twice:
                    raise RecordError(f"tree {oid} has a path that is no file's")
                if entry.is_tree:
                    deeper.append((path + "/", entry.oid))
                elif mode in _MODES:
                    found[path] = FileEntry(path=path, mode=mode, oid=entry.oid, digest=path in digests)
                else:
                    raise RecordError(f"tree {oid} has an entry that is no file")
            if len(found) + len(deeper) > _MAX_FILES:
                raise RecordError(f"tree {tree} has more than {_MAX_FILES} files")
        level = deeper
        if not level:
            return found
    raise RecordError(f"tree {tree} is nested too deep")


def same(one: FileEntry | None, other: FileEntry | None) -> bool:
    """Whether two files are equal: both missing, or of the same mode and content."""
    if one is None or other is None:
        return one is other
    return one.oid == other.oid and one.mode == other.mode


def differences(have: Mapping[str, FileEntry], want: Mapping[str, FileEntry]) -> dict[str, FileEntry | None]:
    """Return what must be written (or removed: None) to make one set of files the other."""
    return {path: want.get(path) for path in sorted(have.keys() | want.keys()) if not same(have.get(path), want.get(path))}


@value
class Read:
    """A file as it was read: its mode, its bytes, or its blob's id where the bytes were not to be held. ``digest``: they are
    the text that stands for the file. ``signature`` and ``before`` (nanoseconds) are for the cache; ``whole`` is false for a
    file that changed each time it was read."""

    mode: str
    data: bytes | None
    oid: Oid | None
    digest: bool
    signature: Signature
    before: int
    whole: bool


class FileReader:
    """A reader of files: ``algorithm`` of their ids, whether the owner's x bit counts, how many bytes may be ``held``. What
    is larger goes to ``stream``, which returns a blob's id for an open file; without one it is only hashed. ``gate`` has
    stand-ins for what stands behind a filter."""

    def __init__(self, algorithm: Algorithm, *, filemode: bool, held: int = 8 << 20, gate: Gate | None = None) -> None:
        self.algorithm, self.filemode, self.held, self.gate = algorithm, filemode, held, gate

    def read(
        self, path: str, name: str, *, digest: bool, stream: Stream | None = None, folder: int | None = None
    ) -> Read | None:
        """Return the regular file or symbolic link at ``path`` (below the open ``folder``, where one is given); None where
        there is none. ``name`` is what errors call it. Raises GitError for a file that cannot be read."""
        found: Read | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE)
            try:
                found = self._once(path, name, digest, stream, folder)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR):
                    return None
                if error.errno in (errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.ESTALE):  # it has just become something else
                    continue
                raise GitError(f"{in_quotes(name)} cannot be read: {error.strerror}") from None
            if found is None or found.whole:
                return found
        return found

    def mode(self, found: os.stat_result) -> str:
        """Return the mode that git would give a file."""
        if stat.S_ISLNK(found.st_mode):
            return LINK
        return EXECUTABLE if self.filemode and found.st_mode & 0o100 else FILE

    def _once(self, path: str, name: str, digest: bool, stream: Stream | None, folder: int | None) -> Read | None:
        before = time.time_ns()
        first = os.lstat(path, dir_fd=folder)
        if stat.S_ISLNK(first.st_mode):
            data = os.fsencode(os.readlink(path, dir_fd=folder))
            whole = signature(os.lstat(path, dir_fd=folder)) == signature(first)
            return Read(mode=LINK, data=data, oid=None, digest=False, signature=signature(first), before=before, whole=whole)
        if not stat.S_ISREG(first.st_mode):
            return None
        with closing_fd(os.open(path, READ, dir_fd=folder)) as fd:
            return self._opened(fd, name, before, digest, stream)

    def _opened(self, fd: int, name: str, before: int, digest: bool, stream: Stream | None) -> Read | None:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
        digest = digest or found.st_size > LARGE
        oid = None
        data = self.gate.stand_in(name, fd, store=not digest) if self.gate is not None else None
        stands = data is not None or digest
        if data is not None:
            os.lseek(fd, 0, os.SEEK_SET)
        elif digest:
            data = _digest(fd)
        elif found.st_size <= self.held:
            data = _bytes(fd, self.held)
            # A file with a text that stands for another one would be taken for that.
            if is_digest(data) or parse_held(data) is not None:
                data, digest, stands = digest_text(hashed(data), len(data)), True, True
        elif stream is not None:
            oid = stream(fd)
        else:
            oid = hash_blob(self.algorithm, fd, found.st_size)
        size = found.st_size if data is None or stands else len(data)
        whole = signature(os.fstat(fd)) == signature(found) and size == found.st_size
        return Read(
            mode=self.mode(found),
            data=data,
            oid=oid,
            digest=digest,
            signature=signature(found),
            before=before,
            whole=whole,
        )

    def oid(self, read: Read) -> Oid:
        """Return the id of the blob that holds, or would hold, what was read."""
        return read.oid if read.oid is not None else object_id(self.algorithm, "blob", read.data or b"")


def hash_blob(algorithm: Algorithm, fd: int, size: int) -> Oid:
    """Return the id of the blob that an open file would be."""
    import hashlib

    made = hashlib.new(algorithm, b"blob %d\0" % size, usedforsecurity=False)
    while chunk := os.read(fd, _CHUNK):
        made.update(chunk)
    return made.hexdigest()


def _bytes(fd: int, most: int) -> bytes:
    """Return the bytes of an open file, at most ``most`` of them: it may grow while it is read."""
    chunks, left = [], most
    while left > 0 and (chunk := os.read(fd, min(left, _CHUNK))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _digest(fd: int) -> bytes:
    """Return the text that stands for an open file in a tree."""
    import hashlib

    made, size = hashlib.sha256(), 0
    while chunk := os.read(fd, _CHUNK):
        made.update(chunk)
        size += len(chunk)
    return digest_text(made.hexdigest(), size)


def hashed(data: bytes) -> str:
    """Return the SHA-256 of bytes."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def digest_text(sha256: str, size: int) -> bytes:
    """Return the text that stands in a tree for a file recorded by digest only."""
    return f"gitbaton digest 1\nsha256 {sha256}\nsize {size}\n".encode()


class ObjectStore:
    """The object store of a repository. What was found in it is looked for again each time, because git may collect what
    nothing refers to yet: loose objects by listing their folders, packed ones when packs have come or gone."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.folder = repo.objects_dir
        self._packed: set[Oid] = set()
        self._mark = -1
        self._fresh: set[Oid] = set()

    def missing(self, oids: Iterable[Oid]) -> set[Oid]:
        """Return those of the ids that name no object any more. Raises GitError."""
        rest = self._not_loose(set(oids) - self.repo.stowed)
        mark = self.repo.object_store()[0]
        if mark != self._mark:
            self._packed.clear()
            self._mark = mark
        rest -= self._packed
        if not rest:
            return set()
        # A process of its own: one that has a removed pack open still finds what was in it.
        names = sorted(rest)
        stdin = "".join(f"{oid}\n" for oid in names).encode()
        # Its type, which git has to look for in the object: of a torn one it would give the name.
        lines = self.repo.git.out("cat-file", "--batch-check=%(objecttype)", "--buffer", stdin=stdin).split(b"\n")
        gone = {oid for oid, line in zip(names, lines, strict=False) if line.endswith(b"missing")}
        if self.repo.object_store()[0] == mark:  # else a pack may have come and gone since they were listed
            self._packed |= rest - gone
        return gone

    def _not_loose(self, oids: set[Oid]) -> set[Oid]:
        """Return the ids of no loose object; old ones among the others count as new from now on, as with git, so that no gc
        takes them."""
        folders: dict[str, set[str]] = {}
        rest = set()
        for oid in oids:
            names = folders.get(oid[:2])
            if names is None:
                names = folders[oid[:2]] = names_in(os.path.join(self.folder, oid[:2]))
            if oid[2:] not in names or (oid not in self._fresh and not self._renew(oid)):
                rest.add(oid)
        return rest

    def _renew(self, oid: Oid) -> bool:
        """Make an old loose object a new one; False when it is gone, or hollow."""
        path = os.path.join(self.folder, oid[:2], oid[2:])
        try:
            if is_hollow(path):
                return False
            if time.time() - os.stat(path).st_mtime > _OLD:
                os.utime(path)
        except FileNotFoundError:
            return False
        except OSError:  # somebody else's, in a shared repository
            pass
        self._fresh.add(oid)
        return True

    def write(self, objects: Sequence[NewObject]) -> None:
        """Store objects, those that are there left out where there are many or they are large. Raises GitError."""
        every = {o.oid: o for o in objects}
        remember(objects)  # also what is there already: it may be what another process left, and git collects that
        many = len(every) > MANY or sum(len(o.data) for o in objects) > _LARGE
        gone = self.missing(every) if many else self._not_loose(every.keys() - self.repo.stowed)  # packs are not asked for few
        if gone:
            drop_torn(self.folder, gone)
            self.repo.stow([every[oid] for oid in gone])

    def stream(self, fd: int) -> Oid:
        """Store the rest of an open file as a blob, without holding it. Raises GitError."""
        return self.repo.writing(self.repo.git).blob(fd)
