"""Disk usage of objects: which ones refs reach, the size of each, and what new ones would take."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping

from gitbaton.errors import RecordError
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import NewObject, zero
from gitbaton.git.reffiles import lying
from gitbaton.git.repo import Repo
from gitbaton.git.run import checked
from gitbaton.model import Oid
from gitbaton.values import value

_MISSING = "--missing=allow-promisor"
_FRAME = 32  # bytes of a pack around its objects
_SAID = re.compile(r"(?:error|fatal): ")
_NAMED = re.compile(r"\b[0-9a-f]{2}/?[0-9a-f]{38,}\b")


@value
class Size:
    """An object on disk: ``bytes`` it takes there, and the object that it is stored as a difference to (None: it is whole)."""

    kind: str
    bytes: int
    delta: Oid | None


def refs(repo: Repo, *prefixes: str) -> dict[str, Oid]:
    """As ``Objects.refs``, asked of git itself: libgit2 leaves out a ref whose file holds no id. Zeros also for a symbolic ref
    that leads to nothing, which git leaves out."""
    layout = repo.layout
    door = BinaryObjects(repo.git, layout.git_dir, layout.common_dir, layout.algorithm)
    before, found = lying(repo, *prefixes), door.refs(*prefixes)
    for ref in sorted(before - found.keys()):
        now = door.refs(ref)  # it may just have come, or gone
        found |= now or (dict.fromkeys([ref], zero(layout.algorithm)) if ref in lying(repo, *prefixes) else {})
    return found


def symbolic(repo: Repo, *prefixes: str) -> dict[str, str]:
    """The symbolic refs among some, each with the ref that it stands for; one that stands for nothing is left out."""
    rows = repo.git.out("for-each-ref", "--format=%(refname) %(symref)", *prefixes).decode("utf-8", "replace").splitlines()
    return {ref: target for ref, _, target in (row.partition(" ") for row in rows) if target}


def reached(repo: Repo, tips: Iterable[Oid], without: Iterable[Oid] = (), *, logs: bool = False) -> dict[Oid, bytes]:
    """Every object that ``tips`` reach and, as far as git can tell without looking at all of them, ``without`` do not; each
    with a path at which it was met. With ``logs`` also what the reflogs reach. Raises RecordError when one of them is missing
    or cannot be parsed."""
    return _named(_walked(repo, "--objects", *(["--reflog"] if logs else []), "--stdin", stdin=_ends(tips, without)))


def everything(repo: Repo, without: Iterable[str] = (), *, kept: bool = True) -> dict[Oid, bytes]:
    """Every object that any ref, any HEAD, the indexes and the reflogs of all work trees reach. ``without``: patterns of refs
    that do not count; ``kept``: whether the indexes and reflogs do. Raises RecordError."""
    beyond = ("--reflog", "--indexed-objects") if kept else ()
    return _named(_walked(repo, "--objects", *(f"--exclude={pattern}" for pattern in without), "--all", *beyond))


def unreadable(repo: Repo, tips: Iterable[Oid], without: Iterable[Oid] = ()) -> str:
    """What is wrong with what ``tips`` reach and ``without`` do not, as git says it, every object read and held against its id;
    empty where nothing is."""
    words = ("rev-list", "--objects", "--verify-objects", "--quiet", _MISSING, "--stdin")
    result = repo.git.run(*words, stdin=_ends(tips, without))
    said = [line.split(": ", 1)[1] for line in result.err.splitlines() if _SAID.match(line)]
    named = [line for line in said if _NAMED.search(line)]
    return (named or said or [result.fatal()])[0] if result.code != 0 or said else ""


def commits(repo: Repo, tips: Iterable[Oid], without: Iterable[Oid] = ()) -> set[Oid]:
    """The commits that ``tips`` reach and ``without`` do not. Raises RecordError when one is missing."""
    return {*_named(_walked(repo, "--stdin", stdin=_ends(tips, without)))}


def _ends(tips: Iterable[Oid], without: Iterable[Oid]) -> bytes:
    """What a walk is told: where it begins, and where it ends."""
    return "".join(f"{end}\n" for end in (*sorted(set(tips)), *sorted({f"^{oid}" for oid in without}))).encode()


def _walked(repo: Repo, *words: str, stdin: bytes = b"") -> bytes:
    result = repo.git.run("rev-list", _MISSING, *words, stdin=stdin)
    if result.code != 0:
        raise RecordError(f"not every object can be read: {result.fatal()}")
    return result.out


def _named(raw: bytes) -> dict[Oid, bytes]:
    rows = (line.partition(b" ") for line in raw.split(b"\n")[:-1])
    return {oid.decode("ascii"): path for oid, _, path in rows}


def sizes(repo: Repo, oids: Collection[Oid]) -> dict[Oid, Size]:
    """How large objects are on disk; what does not exist is left out."""
    names = "".join(f"{oid}\n" for oid in oids).encode()
    form = "--batch-check=%(objectname) %(objecttype) %(objectsize:disk) %(deltabase)"
    raw = repo.git.out("cat-file", form, "--buffer", stdin=names) if names else b""
    rows = (line.split() for line in raw.decode("ascii", "replace").splitlines())
    found = (row for row in rows if len(row) == 4)
    return {row[0]: Size(kind=row[1], bytes=int(row[2]), delta=row[3] if row[3].strip("0") else None) for row in found}


def built_on(repo: Repo, bases: Collection[Oid]) -> dict[Oid, Oid]:
    """All objects of the repository that are stored as a difference to one of ``bases``, each with that one. Looks at every
    object's entry, and at the content of none."""
    names = frozenset(base.encode() for base in bases)
    form = "--batch-check=%(deltabase) %(objectname)"
    process = repo.git.start("cat-file", "--batch-all-objects", "--unordered", "--buffer", form)
    found, rest = {}, b""
    for block in process.pieces():
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            base, _, oid = line.partition(b" ")
            if base in names:
                found[oid.decode("ascii")] = base.decode("ascii")
    checked(process.finish(), "cat-file")
    return found


def packed(repo: Repo, new: Iterable[NewObject], old: Mapping[Oid, bytes]) -> int:
    """How many bytes a pack of new objects and of some that exist (each with a path) would take; nothing of it stays.

    Git decides what is stored as a difference to what, as its garbage collection would.
    """
    import tempfile

    items = {item.oid: item for item in new}
    if not items and not old:
        return 0
    with tempfile.TemporaryDirectory(prefix="gitbaton-") as folder:
        os.mkdir(os.path.join(folder, "pack"))
        git = repo.apart(repo.git, folder)
        door = BinaryObjects(git, repo.layout.git_dir, repo.layout.common_dir, repo.layout.algorithm)
        try:
            door.write(items.values())
        finally:
            door.close()
        rows = [f"{oid}\n".encode() for oid in items if oid not in old]
        rows += [oid.encode() + b" " + path + b"\n" for oid, path in old.items()]
        words = ("pack-objects", "-q", "--stdout", "--delta-base-offset", "--threads=1")
        process = git.start(*words, stdin=b"".join(rows))
        size = sum(map(len, process.pieces()))
        checked(process.finish(), "pack-objects")
    return size - _FRAME
