"""Git objects as bytes, trees of notes among them, and the protocol that both readers (binary, libgit2) implement."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gitbaton.base.errors import GitError, RecordError
from gitbaton.base.model import Head, Oid
from gitbaton.base.system.files import kind_of
from gitbaton.base.values import TYPE_CHECKING, cast, value

_SMALL = 1 << 20  # bytes up to which the slower code is the sooner one
if TYPE_CHECKING:
    from datetime import datetime
    from hashlib import _Hash as Hash
    from typing import Literal, Protocol

    Kind = Literal["blob", "tree", "commit", "tag"]
    Algorithm = Literal["sha1", "sha256"]
else:
    Kind = Algorithm = str
    Protocol = object

OID = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_REF = re.compile(r"(?:refs/[^\0- \x7f~^:?*\[\\]+|[A-Z][A-Z_]*)\Z")
_LASTING = (
    r"Permission denied|Operation not permitted|Read-only file system|No space left on device|Disk quota exceeded"
    r"|Too many open files"
)
_CONFLICT = (
    r"but expected|reference already exists|unable to resolve reference|Unable to create|File exists|cannot lock references"
)
MAX_READ = 4 << 20
MAX_TREE = 64 << 20
LARGEST = 1 << 30  # bytes of a blob that is read: a few from a remote may inflate to anything
LONGEST = 128 << 20  # bytes of a commit or tree
_HEX_LENGTH = {"sha1": 40, "sha256": 64}


@value
class Object:
    """An object of the repository; ``data`` is None when it is larger than was asked for."""

    oid: Oid
    kind: Kind
    size: int
    data: bytes | None


@value
class NewObject:
    """An object to be written, byte for byte, under the id that ``object_id`` gives it."""

    oid: Oid
    kind: Kind
    data: bytes


@value
class RefChange:
    """Move ``name`` from ``old`` (None: it must not exist) to ``new`` (None: delete it); where both are the same, only make
    sure that it is there and free."""

    name: str
    new: Oid | None
    old: Oid | None


@value
class RawCommit:
    """A raw commit taken apart; ``author`` is the bytes after ``author ``, with date."""

    tree: Oid
    parents: tuple[Oid, ...]
    author: bytes
    message: bytes


@value
class TreeEntry:
    """One entry of a tree object."""

    mode: bytes
    name: bytes
    oid: Oid

    @property
    def is_tree(self) -> bool:
        """Whether the entry is a directory."""
        return self.mode == b"40000"


Row = tuple[str, str, Oid]
"""A file of a tree: its path, its mode, its blob."""


class Objects(Protocol):
    """Objects, refs with compare-and-swap, and walks. A *spec* is a full object id or a full ref name; all else names nothing.

    Whatever goes wrong is a GitError. An object that is there and cannot be read (corrupt) is one, too.
    """

    algorithm: Algorithm
    shared: int | None
    """What ``core.sharedRepository`` asks for, as ``share`` takes it; None where it was not read."""

    def info(self, spec: str) -> Object | None:
        """Return id, type and size of what a spec names (``data`` is None); None when it does not exist."""

    def read(self, spec: str, limit: int = MAX_READ) -> Object | None:
        """Return ``info``, with the bytes when there are at most ``limit``."""

    def read_many(self, oids: Sequence[Oid], limit: int = MAX_READ) -> Iterator[Object | None]:
        """Yield ``read`` for many ids, in their order; None for a corrupt object as well."""

    def write(self, objects: Iterable[NewObject]) -> None:
        """Store objects; one that exists stays."""

    def write_pack(self, objects: Iterable[NewObject]) -> None:
        """Store objects as one pack, without a file for each. Raises GitError."""

    def refs(self, *prefixes: str) -> dict[str, Oid]:
        """Return all refs below ``prefixes`` (each ends in ``/``) and what they point at, by name.

        A ref that is there and cannot be read (an empty file after a power loss) has the id of no object.
        """

    def update(self, *transactions: Sequence[RefChange]) -> None:
        """Carry out each transaction wholly or not at all, in order.

        Raises RefConflictError when a ref is not where a change expects it or is locked, and GitError when trying again
        cannot help (a name that collides with another's folder, an object that is not there); earlier transactions stand.
        """

    def symref(self, name: str) -> str | None:
        """Return the target of a symbolic ref of this work tree."""

    def set_symref(self, name: str, target: str) -> None:
        """Make ``name`` a symbolic ref to ``target``."""

    def head(self) -> Head:
        """Return HEAD of this work tree."""

    def first_parents(self, start: Oid, limit: int | None = None) -> list[Oid]:
        """Return ``start`` and its chain of first parents, newest first."""

    def chains(
        self, starts: Iterable[Oid], limit: int | None = None, meanwhile: Callable[[], object] = lambda: None
    ) -> dict[Oid, list[Oid]]:
        """Return ``first_parents`` of each of several commits; with a ``limit`` the newest so many of all of them together, and
        those that are as old as the last of these. Of what cannot be read, the start alone. What is to be done ``meanwhile`` is
        called before git is waited for."""

    def reading(self, starts: Iterable[Oid]) -> Callable[[], bool]:
        """Begin to read each commit of ``chains`` itself, in place of git's commit-graph; return a function that waits for the
        end, and says whether all of them could be read."""

    def distance(self, here: Oid, there: Oid) -> tuple[int, int] | None:
        """Count the commits that only ``here`` and only ``there`` reach; None when they have no common ancestor."""

    def count(self, start: Oid) -> int:
        """Count the commits that ``start`` reaches, itself included."""

    def abbreviate(self, oid: Oid, length: int) -> str:
        """Return the shortest prefix of at least ``length`` digits that names only this object."""

    def borrow(self, store: str, env: Mapping[str, str]) -> None:
        """Also read what lies in another folder of objects; ``env`` names it for git."""

    def give_back(self) -> None:
        """Forget the borrowed folder: what is started from now on does not look there."""

    def warm(self) -> None:
        """Start the reader process early."""

    def forked(self) -> None:
        """Leave the processes that were started to the parent, in a forked child."""

    def close(self) -> None:
        """Close processes and handles."""


class ReadAhead:
    """Reader of objects that reads each once, and many together that will be asked for one by one."""

    def __init__(self, objects: Objects) -> None:
        self.objects, self.algorithm = objects, objects.algorithm
        self.seen: dict[str, Object | None] = {}

    def take(self, oids: Iterable[Oid], limit: int = MAX_READ) -> list[Object]:
        """Read many objects, as ``Objects.read_many``; return those that can be read."""
        wanted = [*dict.fromkeys(oids)]
        asked = [oid for oid in wanted if oid not in self.seen]
        read = zip(asked, self.objects.read_many(asked, limit), strict=True)
        self.seen |= {oid: found for oid, found in read if found is not None}  # whoever asks for another hears why not
        return [found for oid in wanted if (found := self.seen.get(oid)) is not None]

    def read(self, spec: str, limit: int = MAX_READ) -> Object | None:
        """See Objects."""
        if spec not in self.seen:
            self.seen[spec] = self.objects.read(spec, limit)
        return self.seen[spec]


def is_oid(algorithm: Algorithm, spec: str) -> bool:
    """Whether a spec is a full object id of this object format."""
    return len(spec) == _HEX_LENGTH[algorithm] and OID.match(spec) is not None


def is_conflict(said: str) -> bool:
    """Whether git's words say that a ref did not move because another process has it, or was faster: trying again can help."""
    return re.search(_CONFLICT, said) is not None and not re.search(_LASTING, said)


def is_ref(spec: str) -> bool:
    """Whether a spec is a full ref name: below ``refs/``, or one like ``HEAD``; never a revision expression."""
    return _REF.match(spec) is not None and "@{" not in spec and ".." not in spec


def are_refs(algorithm: Algorithm, refs: Mapping[str, str]) -> bool:
    """Whether many refs have full names and full object ids of this object format: as ``is_ref`` and ``is_oid``, but sooner."""
    names, oids = "\n".join(refs), "".join(refs.values())
    right = {*map(len, refs.values())} <= {_HEX_LENGTH[algorithm]} and re.fullmatch(r"[0-9a-f]*", oids) is not None
    return right and all(map(_REF.match, refs)) and "@{" not in names and ".." not in names


def linked_ref(git_dir: str, name: str) -> str | None:
    """Return the ref that ``name`` points at where it is a symbolic ref of the old style: a symbolic link."""
    try:
        target = os.readlink(os.path.join(git_dir, name))
    except OSError:
        return None
    return target if target.startswith("refs/") and is_ref(target) else None


def in_the_way(git_dir: str, name: str) -> str:
    """Return the kind of what stands in place of a ref's file, and is neither a file nor a link to a ref: git would wait for
    it, or follow it. Empty where nothing is wrong."""
    try:
        mode = os.lstat(os.path.join(git_dir, name)).st_mode
    except OSError:
        return ""
    return "" if stat.S_ISREG(mode) or linked_ref(git_dir, name) else kind_of(mode)


def packed_refs(common_dir: str) -> bytes:
    """Return the content of packed-refs; nothing where there is none."""
    try:
        with open(os.path.join(common_dir, "packed-refs"), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def object_id(algorithm: Algorithm, kind: Kind, data: bytes) -> Oid:
    """Return the id that git gives to an object."""
    return digest(algorithm, b"%s %d\0" % (kind.encode(), len(data)) + data).hex()


def hasher(algorithm: Algorithm, size: int) -> Hash:
    """Return a hash by which git names so many bytes. CPython's own SHA-1 where it is there: importing OpenSSL's, which is
    faster for many bytes, costs a start 3 ms."""
    if algorithm == "sha1" and size < _SMALL and "_hashlib" not in sys.modules:
        try:
            from _sha1 import sha1  # type: ignore[import-not-found]

            return cast("Hash", sha1())
        except ImportError:
            pass
    import hashlib

    return hashlib.new(algorithm, usedforsecurity=False)


def digest(algorithm: Algorithm, data: bytes) -> bytes:
    """Return the digest by which git names data."""
    seal = hasher(algorithm, len(data))
    seal.update(data)
    return seal.digest()


def new_object(algorithm: Algorithm, kind: Kind, data: bytes) -> NewObject:
    """Return ``data`` with its id."""
    return NewObject(oid=object_id(algorithm, kind, data), kind=kind, data=data)


def check_size(oid: str, kind: Kind, size: int) -> None:
    """Raise GitError for an object that is too large to be read."""
    most = LARGEST if kind == "blob" else LONGEST
    if size > most:
        raise GitError(f"object {oid} is too large: {size:,} bytes, where a {kind} may have {most:,}")


def zero(algorithm: Algorithm) -> Oid:
    """Return the null id."""
    return "0" * _HEX_LENGTH[algorithm]


def author_at(author: bytes, when: datetime) -> bytes:
    """Return ``Name <email>`` as the author of a commit of this time, in UTC."""
    return author + b" %d +0000" % int(when.timestamp() // 1)


def commit_data(*, tree: Oid, parents: Iterable[Oid], author: bytes, message: bytes) -> bytes:
    """Return a raw commit with its author as the committer; raw because git and libgit2 clean names each in their own way."""
    above = [b"parent " + parent.encode() for parent in parents]
    return b"\n".join([b"tree " + tree.encode(), *above, b"author " + author, b"committer " + author, b"", message])


def parse_commit(data: bytes) -> RawCommit:
    """Parse a raw commit of any writer. Raises RecordError when it is not one."""
    head, _, message = data.partition(b"\n\n")
    tree, author, parents = "", b"", []
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"tree" and not tree:
            tree = value.decode("ascii", "replace")
        elif key == b"parent":
            parents.append(value.decode("ascii", "replace"))
        elif key == b"author" and not author:
            author = value
    if not all(OID.match(oid) for oid in (tree, *parents)):
        raise RecordError("commit is malformed")
    return RawCommit(tree=tree, parents=tuple(parents), author=author, message=message)


def parse_tree(data: bytes, algorithm: Algorithm) -> list[TreeEntry]:
    """Parse a raw tree. Raises RecordError when it is not one."""
    width = _HEX_LENGTH[algorithm] // 2
    entries, at = [], 0
    while at < len(data):
        space = data.find(b" ", at)
        end = data.find(b"\0", space)
        if space < 0 or end < 0 or end + 1 + width > len(data):
            raise RecordError("tree is malformed")
        oid = data[end + 1 : end + 1 + width].hex()
        entries.append(TreeEntry(mode=data[at:space], name=data[space + 1 : end], oid=oid))
        at = end + 1 + width
    return entries


def tree_data(entries: Iterable[TreeEntry]) -> bytes:
    """Return the raw tree of entries, in git's order (a directory sorts as if its name ended in a slash)."""
    ordered = sorted(entries, key=lambda e: e.name + b"/" if e.is_tree else e.name)
    return b"".join(e.mode + b" " + e.name + b"\0" + bytes.fromhex(e.oid) for e in ordered)


def tree_objects(algorithm: Algorithm, rows: Iterable[Row]) -> list[NewObject]:
    """Return the tree objects of files (path, mode, id), deepest first, the whole one last; one empty tree for no files.

    Raises GitError where a path is both a file and a folder.
    """
    files: dict[str, list[tuple[bytes, bytes]]] = {"": []}
    paths = set()
    for path, mode, oid in rows:
        folder, _, name = path.rpartition("/")
        paths.add(path)
        above = folder
        while above not in files:
            files[above] = []
            above = above.rpartition("/")[0]
        raw = os.fsencode(name)
        files[folder].append((raw, mode.encode() + b" " + raw + b"\0" + bytes.fromhex(oid)))
    both = next((folder for folder in files if folder in paths), None)
    if both is not None:
        raise GitError(f"'{both}' cannot be both a file and a folder of one tree")
    made: dict[Oid, NewObject] = {}
    for folder in sorted(files, key=lambda name: name.count("/") + 1 if name else 0, reverse=True):
        tree = new_object(algorithm, "tree", b"".join(data for _, data in sorted(files[folder])))
        made.pop(tree.oid, None)
        made[tree.oid] = tree
        if folder:
            above, _, name = folder.rpartition("/")
            raw = os.fsencode(name)
            files[above].append((raw + b"/", b"40000 " + raw + b"\0" + bytes.fromhex(tree.oid)))
    return list(made.values())


def lookup(objects: Objects, tree: Oid, path: bytes) -> TreeEntry | None:
    """Return the entry at a path below a tree, or None."""
    found: TreeEntry | None = None
    for name in path.split(b"/"):
        read = objects.read(tree, MAX_TREE)
        found = _entry(read.data, name, objects.algorithm) if read and read.kind == "tree" and read.data else None
        if found is None:
            break
        tree = found.oid
    return found


def _entry(data: bytes, name: bytes, algorithm: Algorithm) -> TreeEntry | None:
    """Return the entry of a name in a raw tree, without taking the others apart. Raises RecordError when it is malformed."""
    wanted, width, at = b" " + name + b"\0", _HEX_LENGTH[algorithm] // 2, 0
    if wanted not in data:
        return None
    while at < len(data):
        space = data.find(b" ", at)
        end = data.find(b"\0", space)
        if space < 0 or end < 0 or end + 1 + width > len(data):
            raise RecordError("tree is malformed")
        if end - space == len(wanted) - 1 and data.startswith(wanted, space):
            return TreeEntry(mode=data[at:space], name=name, oid=data[end + 1 : end + 1 + width].hex())
        at = end + 1 + width
    return None


def entries_of(objects: Objects, tree: Oid) -> list[TreeEntry] | None:
    """Return the entries of a tree; None where there is none. Raises RecordError when it is malformed."""
    found = objects.read(tree, MAX_TREE)
    if found is None or found.kind != "tree" or found.data is None:
        return None
    return parse_tree(found.data, objects.algorithm)


_DIGITS = re.compile(rb"[0-9a-f]+\Z")


def find_notes(objects: Objects, tree: Oid | None, commit: Oid, known: dict[Oid, list[TreeEntry]] | None = None) -> list[Oid]:
    """Return the blobs that the notes tree holds for a commit: none, one, or several where fan-outs are mixed. ``known`` keeps
    the trees that were read, for the next commit."""
    levels = [(commit[spent:].encode(), entries) for spent, entries in _notes_path(objects, tree, commit, known)]
    return [e.oid for rest, entries in levels for e in entries if e.name == rest and not e.is_tree]


def read_notes(objects: Objects, tree: Oid, commits: Iterable[Oid], known: dict[Oid, list[TreeEntry]]) -> None:
    """Read the trees of a notes tree in which the notes of many commits stand into ``known``, all of one level at once, as far
    as they can be read."""
    at, spent = dict.fromkeys(commits, tree), 0
    while at:
        asked = [oid for oid in dict.fromkeys(at.values()) if oid not in known]
        for oid, found in zip(asked, objects.read_many(asked, MAX_TREE), strict=True):
            if found is not None and found.kind == "tree" and found.data is not None:
                known[oid] = parse_tree(found.data, objects.algorithm)
        folders = {oid: {e.name: e.oid for e in known.get(oid, ()) if e.is_tree} for oid in {*at.values()}}
        below = ((commit, folders[oid].get(commit[spent : spent + 2].encode())) for commit, oid in at.items())
        at, spent = {commit: oid for commit, oid in below if oid is not None}, spent + 2


def edit_notes(objects: Objects, tree: Oid | None, commit: Oid, blob: Oid) -> list[NewObject]:
    """Return the trees to write so that ``blob`` is the one note of ``commit``; the last one is the new root."""
    made: list[NewObject] = []
    name, mode, oid = "", b"100644", blob  # what stands in the tree: the note, then one folder after the other
    for spent, entries in reversed(_notes_path(objects, tree, commit)):
        rest = commit[spent:]
        name = name or rest
        others = [e for e in entries if e.name not in (rest.encode(), name.encode())]
        new = TreeEntry(mode=mode, name=name.encode(), oid=oid)
        made.append(new_object(objects.algorithm, "tree", tree_data(_spread(objects, len(rest), [*others, new], made))))
        name, mode, oid = commit[spent - 2 : spent], b"40000", made[-1].oid
    return made


def edit_many_notes(
    objects: Objects, tree: Oid | None, blobs: Mapping[Oid, Oid], add: Callable[[Iterable[NewObject]], None]
) -> Oid | None:
    """Return the tree that ``edit_notes`` leads to for one note after the other, of commits with their blobs; ``add`` makes the
    trees known to ``objects`` meanwhile. The root is written once, where its folders are there."""
    left = [*blobs.items()]
    while left:
        entries = _notes_tree(objects, tree) if tree else []
        there = {entry.name: entry for entry in reversed(entries)}
        groups: dict[bytes, list[tuple[Oid, Oid]]] = {}
        for commit, blob in left if any(map(_is_fan, entries)) else ():
            digits = commit[:2].encode()
            if digits not in there or there[digits].is_tree:  # a user's file may stand there
                groups.setdefault(digits, []).append((commit, blob))
        if not groups:
            made = edit_notes(objects, tree, *left.pop(0))
            add(made)
            tree = made[-1].oid
            continue
        fresh = list[TreeEntry]()
        for digits, group in groups.items():
            below = there[digits].oid if digits in there else None
            for commit, blob in group:
                made = edit_notes(objects, below, commit[2:], blob)
                add(made)
                below = made[-1].oid
            fresh.append(TreeEntry(mode=b"40000", name=digits, oid=made[-1].oid))
        done = {commit for group in groups.values() for commit, _ in group}
        gone = {*groups, *(commit.encode() for commit in done)}
        root = new_object(objects.algorithm, "tree", tree_data([*(e for e in entries if e.name not in gone), *fresh]))
        add([root])
        tree, left = root.oid, [row for row in left if row[0] not in done]
    return tree


def walk_notes(objects: Objects, tree: Oid, beside: Oid | None = None, spent: str = "") -> Iterator[tuple[Oid, Oid]]:
    """Yield every note of a notes tree: the id of the object it is for, and its blob; ``beside``: another such tree, of which
    that is left out which stands there in the same place. Raises RecordError for a tree not there."""
    length = 40 if objects.algorithm == "sha1" else 64
    there = {entry.name: entry for entry in _notes_tree(objects, beside)} if beside is not None else {}
    for entry in _notes_tree(objects, tree):
        other = there.get(entry.name)
        if entry == other:
            continue
        if _is_fan(entry) and len(spent) < length - 2:
            below = other.oid if other is not None and _is_fan(other) else None
            yield from walk_notes(objects, entry.oid, below, spent + entry.name.decode())
        elif not entry.is_tree and _DIGITS.match(entry.name) and len(spent) + len(entry.name) == length:
            yield spent + entry.name.decode(), entry.oid


def take_notes(objects: ReadAhead, tree: Oid) -> None:
    """Read all trees of a notes tree, those of one level together. Raises RecordError for one that is malformed."""
    level = [tree]
    while level:
        found = objects.take(level, MAX_TREE)
        trees = (parse_tree(item.data, objects.algorithm) for item in found if item.kind == "tree" and item.data is not None)
        level = [entry.oid for entries in trees for entry in entries if _is_fan(entry) and entry.oid not in objects.seen]


def exchange_notes(objects: Objects, tree: Oid, blobs: Mapping[Oid, Oid | None]) -> list[NewObject]:
    """Return the trees to write so that other blobs stand where these stood, None for none at all; the last one is the new
    root.

    Folders that become empty go; everything else stays where it is.
    """
    made: list[NewObject] = []
    kept = []
    for entry in _notes_tree(objects, tree):
        if _is_fan(entry):
            below = exchange_notes(objects, entry.oid, blobs)
            if below and below[-1].data == b"":
                continue
            made += below
            entry = TreeEntry(mode=entry.mode, name=entry.name, oid=below[-1].oid if below else entry.oid)
        elif not entry.is_tree and entry.oid in blobs:
            other = blobs[entry.oid]
            if other is None:
                continue
            entry = TreeEntry(mode=entry.mode, name=entry.name, oid=other)
        kept.append(entry)
    return [*made, new_object(objects.algorithm, "tree", tree_data(kept))]


def _notes_path(
    objects: Objects, tree: Oid | None, commit: Oid, known: dict[Oid, list[TreeEntry]] | None = None
) -> list[tuple[int, list[TreeEntry]]]:
    """Return the trees from the root down towards a commit's note, as deep as they go: how many of its digits are spent to get
    there, and the entries.

    A tree that is fanned out but has no folder for these digits yet gets an empty one.
    """
    known = {} if known is None else known

    def listed(oid: Oid) -> list[TreeEntry]:
        if oid not in known:
            known[oid] = _notes_tree(objects, oid)
        return known[oid]

    spent, entries = 0, listed(tree) if tree else []
    levels = [(spent, entries)]
    while spent < len(commit) - 2:
        digits = commit[spent : spent + 2].encode()
        below = next((e for e in entries if e.name == digits), None)
        if not (below.is_tree if below is not None else any(map(_is_fan, entries))):  # a user's file may stand there
            break
        spent, entries = spent + 2, listed(below.oid) if below else []
        levels.append((spent, entries))
    return levels


def _notes_tree(objects: Objects, tree: Oid) -> list[TreeEntry]:
    found = entries_of(objects, tree)
    if found is None:
        raise RecordError(f"notes tree {tree} cannot be read")
    return found


def _is_fan(entry: TreeEntry) -> bool:
    return entry.is_tree and len(entry.name) == 2 and _DIGITS.match(entry.name) is not None


def _spread(objects: Objects, length: int, entries: list[TreeEntry], made: list[NewObject]) -> list[TreeEntry]:
    """Return the entries of a tree in which a note's name has ``length`` digits, moved into folders of two digits once git
    would: two notes behind each first digit.

    Only where no such folder is yet: where fan-outs are mixed, what lies flat may stay so.
    """
    notes = [e for e in entries if len(e.name) == length and not e.is_tree and _DIGITS.match(e.name)]
    count = Counter(note.name[:1] for note in notes)
    taken = any(len(e.name) == 2 and _DIGITS.match(e.name) for e in entries)
    if len(count) < 16 or min(count.values()) < 2 or length <= 2 or taken:
        return entries
    folders: dict[bytes, list[TreeEntry]] = {}
    for note in notes:
        folders.setdefault(note.name[:2], []).append(TreeEntry(mode=note.mode, name=note.name[2:], oid=note.oid))
    kept = {note.name for note in notes}
    result = [e for e in entries if e.name not in kept]
    for digits, below in folders.items():
        tree = new_object(objects.algorithm, "tree", tree_data(below))
        made.append(tree)
        result.append(TreeEntry(mode=b"40000", name=digits, oid=tree.oid))
    return result
