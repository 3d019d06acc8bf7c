"""Bulk listings of refs and objects: what is reachable, its content, which commit brought it in, and its size on disk."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set

from gitbaton.base.errors import MENDS, GitError, GitTimeoutError, RecordError
from gitbaton.base.model import Oid
from gitbaton.base.system.process import Result, together
from gitbaton.base.values import value
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import Algorithm, Object, Objects, is_oid, zero
from gitbaton.git.reffiles import lying
from gitbaton.git.repo import Repo
from gitbaton.git.run import Git, checked, halves, mends

_WANTED = 1000
_MUCH, _GATHER = 1 << 18, 0.001  # bytes of an output that is long, and seconds
_HEX = rb"[0-9a-f]+\Z"
_ENTRY = {form: re.compile(rb"(?s)[0-7]{5,6} ([^\0]+)\0.{%d}" % size) for form, size in (("sha1", 20), ("sha256", 32))}
_ENTRY_ID = {form: re.compile(rb"(?s)[0-7]{5,6} [^\0]+\0(.{%d})" % size) for form, size in (("sha1", 20), ("sha256", 32))}
_LOG = (
    *("--literal-pathspecs", "log", "-z", "--reverse", "--raw", "--no-abbrev", "--no-renames", "--no-notes", "--no-decorate"),
    *("--no-color", "--no-ext-diff", "--diff-merges=first-parent", "--format=%H"),
)


def reachable(repo: Repo, wants: Sequence[Oid], haves: Iterable[Oid]) -> dict[Oid, bytes]:
    """Return every object that is reachable from ``wants`` and not from ``haves``, with the path by which git came to it first.

    Of ``haves``, what is not here excludes nothing. What a partial clone left out is passed over: its remote has it.
    Raises GitError where anything else is missing.
    """
    algorithm = repo.layout.algorithm
    for oid in wants:
        if not is_oid(algorithm, oid) or repo.objects.info(oid) is None:
            raise GitError(f"object {oid} does not exist")
    if not wants:
        return {}
    ends = sorted({f"^{oid}\n" for oid in haves if is_oid(algorithm, oid)})
    stdin = "".join([*(f"{oid}\n" for oid in wants), *ends]).encode()
    raw = repo.git.out("rev-list", "--objects", _MISSING, "--ignore-missing", "--stdin", stdin=stdin)
    pairs = (line.partition(b" ") for line in raw.split(b"\n") if line)
    return {oid.decode("ascii", "replace"): path for oid, _, path in pairs}


def sizes(objects: Objects, oids: Sequence[Oid]) -> Iterator[Object]:
    """Yield each object without its bytes, in their order. Raises GitError when one is missing or cannot be read."""
    for oid, found in zip(oids, objects.read_many(oids, -1), strict=True):
        if found is None:
            raise GitError(f"object {oid} cannot be read", MENDS)
        yield found


def contents(objects: Objects, items: Iterable[Object]) -> Iterator[tuple[Object, bytes]]:
    """Yield each object with its bytes; a few MiB are held at once. Raises GitError when one cannot be read."""
    asked = list(items)
    most = max((item.size for item in asked), default=0)  # how large they may be is the caller's to say
    for item, found in zip(asked, objects.read_many([item.oid for item in asked], most), strict=True):
        if found is None or found.data is None:
            raise GitError(f"object {item.oid} cannot be read", MENDS)
        yield item, found.data


def first_bytes(git: Git, oid: Oid, count: int) -> bytes:
    """Return the first bytes of a blob of any size. Raises GitError when it cannot be read, GitTimeoutError."""
    process = git.start("cat-file", "blob", oid)
    data = b""
    try:
        for piece in process.pieces(count):
            data += piece
            if len(data) >= count:
                return data[:count]
    finally:
        process.stop()
    if not process.ended:
        raise GitTimeoutError("'git cat-file' did not answer in its time and was stopped")
    if not data:
        raise GitError(f"object {oid} cannot be read", MENDS)
    return data


def introduced(
    git: Git, blobs: Collection[Oid], wants: Iterable[Oid], haves: Iterable[Oid], *, paths: Sequence[bytes] = ()
) -> dict[Oid, list[tuple[Oid, bytes]]]:
    """Return for each blob the commits reachable from ``wants`` and not from ``haves`` that brought it in, and at which path.

    The oldest comes first, and a merge is held against its first parent. With ``paths``: only at these. What is no commit
    counts for nothing. Raises GitError.
    """
    found: dict[Oid, list[tuple[Oid, bytes]]] = {}
    stdin = _ends(git, wants, haves)
    if not stdin:
        return found
    stdin += b"--\n" + b"".join(path + b"\n" for path in paths if path) if paths else b""
    quiet = git.changed({}, "log.showRoot=true", "log.showSignature=false", "log.follow=false")
    wanted = sorted(blobs)
    for start in range(0, len(wanted), _WANTED):
        part = set(wanted[start : start + _WANTED])
        looked = [f"--find-object={oid}" for oid in sorted(part)]
        result = quiet.run(*_LOG, *looked, "--stdin", stdin=stdin)
        if result.code != 0:  # in a partial clone it asks for blobs that are not there; without the option it lists everything
            result = quiet.run(*_LOG, "--stdin", stdin=stdin)
        for commit, oid, path in _rows(checked(result, "log")):
            if oid in part:
                found.setdefault(oid, []).append((commit, path))
    return found


def _ends(git: Git, wants: Iterable[Oid], haves: Iterable[Oid]) -> bytes:
    """Return the input of a walk from commits to others; empty where there is no commit to begin with."""
    starts = _commits(git, list(wants))
    ends = [*starts, *("^" + oid for oid in _commits(git, list(haves)))]
    return "".join(f"{end}\n" for end in ends).encode() if starts else b""


def _rows(raw: bytes) -> Iterator[tuple[Oid, Oid, bytes]]:
    """Yield commit, new blob and path of every change that a log lists."""
    commit = ""
    fields: list[str] = []
    for token in raw.split(b"\0"):
        text = token.removeprefix(b"\n")
        if fields:
            yield commit, fields[3], token
            fields = []
        elif text.startswith(b":"):
            fields = text.decode("ascii", "replace").split(" ")
        else:
            commit = text.decode("ascii", "replace")


def named(git: Git, names: Collection[bytes], wants: Iterable[Oid], haves: Iterable[Oid]) -> dict[bytes, tuple[Oid, bytes]]:
    """Return for each name of a file or folder the oldest commit reachable from ``wants`` and not from ``haves`` that changes a
    path with it, and that path as far as the name. Raises GitError."""
    stdin = _ends(git, wants, haves)
    found: dict[bytes, tuple[Oid, bytes]] = {}
    if not stdin:
        return found
    quiet = git.changed({}, "log.showRoot=true", "log.showSignature=false", "log.follow=false")
    for commit, _, path in _rows(checked(quiet.run(*_LOG, "--stdin", stdin=stdin), "log")):
        parts = path.split(b"/")
        for place, part in enumerate(parts):
            if part in names:
                found.setdefault(part, (commit, b"/".join(parts[: place + 1])))
    return found


def at_paths(git: Git, places: Sequence[tuple[Oid, bytes]]) -> list[Oid | None]:
    """Return the object in each commit at a path without line feeds; None where there is none."""
    asked = b"".join(commit.encode() + b":" + path + b"\n" for commit, path in places)
    raw = git.out("cat-file", "--batch-check=%(objectname)", "--buffer", stdin=asked) if places else b""
    return [row.decode("ascii", "replace") if re.match(_HEX, row) else None for row in raw.split(b"\n")[:-1]]


def entry_names(data: bytes, algorithm: Algorithm, without: Set[bytes]) -> set[bytes]:
    """Return the names in a tree, without some, and without those in hexadecimal alone, as notes and digests have them."""
    return {name for name in {*_ENTRY[algorithm].findall(data)} - without if not re.match(_HEX, name)}


def _commits(git: Git, oids: Sequence[Oid]) -> list[Oid]:
    """Return those that are commits, or tags, and exist."""
    if not oids:
        return []
    raw = git.out("cat-file", "--batch-check", "--buffer", stdin=_lines(oids)).decode("ascii", "replace")
    rows = [row.split(" ") for row in raw.split("\n")]
    return [row[0] for row in rows if len(row) == 3 and row[1] in ("commit", "tag")]


def _lines(oids: Iterable[Oid]) -> bytes:
    return "\n".join([*oids, ""]).encode()


_MISSING = "--missing=allow-promisor"
_LARGE = 10_000  # objects from which on two processes look at them
_ON_DISK = "%(objectname) %(objecttype) %(objectsize:disk) %(deltabase)"
_SAID = r"(?:error|fatal): "
_NAMED = r"\b[0-9a-f]{2}/?[0-9a-f]{38,}\b"


@value
class Size:
    """An object on disk: ``bytes`` it takes there, and the object that it is stored as a difference to (None: it is whole)."""

    kind: str
    bytes: int
    delta: Oid | None


def all_refs(repo: Repo, *prefixes: str) -> dict[str, Oid]:
    """Return refs as ``Objects.refs``, by git itself: libgit2 leaves out a ref file without an id. Zeros also for a symbolic
    ref that leads to nothing, which git leaves out."""
    layout = repo.layout
    door = BinaryObjects(repo.git, layout.git_dir, layout.common_dir, layout.algorithm)
    before, found = lying(repo, *prefixes), door.refs(*prefixes)
    for ref in sorted(before - found.keys()):
        now = door.refs(ref)  # it may just have come, or gone
        found |= now or (dict.fromkeys([ref], zero(layout.algorithm)) if ref in lying(repo, *prefixes) else {})
    return found


def symbolic(repo: Repo, *prefixes: str) -> dict[str, str]:
    """Return the symbolic refs among some, each with the ref that it stands for; one that stands for nothing is left out."""
    rows = repo.git.out("for-each-ref", "--format=%(refname) %(symref)", *prefixes).decode("utf-8", "replace").splitlines()
    return {ref: target for ref, _, target in (row.partition(" ") for row in rows) if target}


def reached(repo: Repo, tips: Iterable[Oid], without: Iterable[Oid] = ()) -> dict[Oid, bytes]:
    """Return every object that ``tips`` reach and, as far as git can tell without looking at all of them, ``without`` do not;
    each with a path at which it was met. Raises RecordError when one of them is missing or cannot be parsed."""
    return _named(_walked(repo, "--objects", "--stdin", stdin=_walk_ends(tips, without)))


def ids_reached(repo: Repo, tips: Iterable[Oid], without: Iterable[Oid] = (), *, logs: bool = False) -> set[Oid]:
    """Return the objects that ``reached`` does, without a path, which is sooner done; with ``logs`` also what the reflogs
    reach. Raises as that."""
    more = ["--reflog"] if logs else []
    raw = _walked(repo, "--objects", "--no-object-names", *more, "--stdin", stdin=_walk_ends(tips, without))
    return set(raw.decode("ascii").split())


def ids_reached_together(repo: Repo, *walks: tuple[Iterable[Oid], Iterable[Oid]]) -> list[set[Oid]]:
    """Return what ``ids_reached`` does for each of several walks, tips and what they are without, that run at a time. Raises as
    that."""
    words = ("--objects", "--no-object-names")
    found = _walked_together(repo, *((words, _walk_ends(tips, without)) for tips, without in walks))
    return [set(raw.decode("ascii").split()) for raw in found]


def disk_bytes_by(
    repo: Repo, groups: Sequence[Collection[Oid]], without: Collection[Oid], since: Collection[Oid]
) -> dict[frozenset[int], int]:
    """Return the bytes on disk of the objects that groups of tips reach, by the places of all the groups that reach an object;
    but for what ``ids_reached`` leaves out for ``without``, and what these reach since some commits. Raises as that.

    A walk lists an object once, whoever reaches it, and a walk for each group is a process for each. So what reaches a commit
    is handed down here to its parents and its tree, and from a tree to what is in it.
    """
    ends, objects = _walk_ends((oid for tips in groups for oid in tips), without), ("--objects", "--no-object-names")
    form = ("--topo-order", "--no-commit-header", "--format=%H %T %P")
    rows, *walks = _walked_together(repo, (form, ends), (objects, ends), (objects, _walk_ends(without, since)))
    same = dict[int, int]()  # a bit for each group, and of equal numbers one

    def hand_down(mask: int, oids: Iterable[bytes], found: dict[bytes, int]) -> None:
        for oid in oids:
            more = found.get(oid, 0) | mask
            found[oid] = same.setdefault(more, more)

    above, news, by = dict[bytes, int](), dict[bytes, int](), dict[bytes, int]()
    for place, tips in enumerate(groups):
        hand_down(1 << place, map(bytes.fromhex, tips), above)
    apart, commits = {*above}, set[bytes]()
    for row in rows.decode("ascii").splitlines():
        commit, tree, *parents = map(bytes.fromhex, row.split())
        commits.add(commit)
        hand_down(above.get(commit, 0), parents, above)
        hand_down(above.get(commit, 0), [tree], news)
    reached, theirs = (raw.split() for raw in walks)
    left = frozenset(theirs)
    names = b"".join(oid + b"\n" for oid in reached if oid not in left)
    sizes = {bytes.fromhex(oid): (kind, int(size)) for oid, kind, size, _ in _on_disk(repo, names)}
    inside = frozenset(sizes.keys() - commits)
    for oid in apart & inside:
        hand_down(above[oid], [oid], news)
    while news:
        now = [oid for oid in inside.intersection(news) if news[oid] | by.get(oid, 0) != by.get(oid)]
        for oid in now:
            hand_down(news[oid], [oid], by)
        trees, news = [oid for oid in now if sizes[oid][0] == "tree"], {}
        for oid, entries in zip(trees, _in_trees(repo, trees), strict=True):
            hand_down(by[oid], inside.intersection(entries), news)
    for oid in (oid for oid in apart & inside if sizes[oid][0] == "tag"):
        hand_down(above[oid], map(bytes.fromhex, ids_reached(repo, [oid.hex()], without)), by)
    found = dict[int, int]()
    for oid, (_, size) in sizes.items():
        mask = by.get(oid, 0) | (above.get(oid, 0) if oid in commits else 0)
        found[mask] = found.get(mask, 0) + size
    return {frozenset(_bits(mask)): size for mask, size in found.items()}


def _bits(mask: int) -> Iterator[int]:
    while mask:
        yield (lowest := mask & -mask).bit_length() - 1
        mask ^= lowest


def _in_trees(repo: Repo, trees: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield the ids in each of some trees. Raises RecordError where one cannot be read."""
    if not trees:
        return
    entry, data, at = _ENTRY_ID[repo.layout.algorithm], b"", 0
    process = repo.git.start("cat-file", "--batch", "--buffer", stdin=_lines(oid.hex() for oid in trees))
    try:
        for piece in process.pieces():
            data, at = data[at:] + piece, 0
            while (end := data.find(b"\n", at)) >= 0:
                oid, _, size = data[at:end].rpartition(b" ")
                if not size.isdigit():
                    raise RecordError(f"not every object can be read: {oid.decode('ascii', 'replace')} is missing", MENDS)
                if (last := end + 1 + int(size)) >= len(data):
                    break
                yield entry.findall(data, end + 1, last)
                at = last + 1
    except BaseException:
        process.stop()
        raise
    _whole(process.finish())


def everything(repo: Repo, without: Iterable[str] = (), *, kept: bool = True) -> dict[Oid, bytes]:
    """Return every object that any ref, any HEAD, the indexes and the reflogs of all work trees reach. ``without``: patterns of
    refs that do not count; ``kept``: whether the indexes and reflogs do. Raises RecordError."""
    beyond = ("--reflog", "--indexed-objects") if kept else ()
    return _named(_walked(repo, "--objects", *(f"--exclude={pattern}" for pattern in without), "--all", *beyond))


def unreadable(repo: Repo, tips: Iterable[Oid], without: Iterable[Oid] = ()) -> str:
    """Verify all objects that ``tips`` reach and ``without`` do not, each against its id; return git's complaint, empty where
    all are whole."""
    words = ("rev-list", "--objects", "--verify-objects", "--quiet", _MISSING, "--stdin")
    result = repo.git.run(*words, stdin=_walk_ends(tips, without))
    said = [line.split(": ", 1)[1] for line in result.err.splitlines() if re.match(_SAID, line)]
    named = [line for line in said if re.search(_NAMED, line)]
    return (named or said or [result.fatal()])[0] if result.code != 0 or said else ""


def commits_between(repo: Repo, tips: Iterable[Oid], without: Iterable[Oid] = ()) -> set[Oid]:
    """Return the commits that ``tips`` reach and ``without`` do not. Raises RecordError when one is missing."""
    return {*_named(_walked(repo, "--stdin", stdin=_walk_ends(tips, without)))}


def _walk_ends(tips: Iterable[Oid], without: Iterable[Oid]) -> bytes:
    """Return the input of a walk: where it begins, and where it ends."""
    return "".join(f"{end}\n" for end in (*sorted(set(tips)), *sorted({f"^{oid}" for oid in without}))).encode()


def _walked(repo: Repo, *words: str, stdin: bytes = b"") -> bytes:
    return _whole(repo.git.run("rev-list", _MISSING, *words, stdin=stdin))


def _walked_together(repo: Repo, *walks: tuple[Sequence[str], bytes]) -> list[bytes]:
    """Return what several walks say that run at a time, each with words and its ends."""
    starting = (repo.git.start("rev-list", _MISSING, *words, "--stdin", stdin=stdin) for words, stdin in walks)
    return [*map(_whole, together(starting))]


def _whole(result: Result) -> bytes:
    if result.code != 0:
        raise RecordError(f"not every object can be read: {result.fatal()}", *mends(result))
    return result.out


def _named(raw: bytes) -> dict[Oid, bytes]:
    rows = (line.partition(b" ") for line in raw.split(b"\n")[:-1])
    return {oid.decode("ascii"): path for oid, _, path in rows}


def disk_sizes(repo: Repo, oids: Collection[Oid]) -> dict[Oid, Size]:
    """Return the size of objects on disk; what does not exist is left out."""
    whole, found = zero(repo.layout.algorithm), _on_disk(repo, _lines(oids))
    return {oid: Size(kind=kind, bytes=int(size), delta=None if base == whole else base) for oid, kind, size, base in found}


def lacking(repo: Repo, oids: Collection[Oid]) -> set[Oid]:
    """Return those of some objects of which git cannot say the size on disk; that there is none costs no look at each."""
    names = _lines(oids)
    return set() if _all_there(repo, names) else {*oids}.difference(oid for oid, *_ in _on_disk(repo, names))


def _all_there(repo: Repo, names: bytes) -> bool:
    words = ("cat-file", f"--batch-check={_ON_DISK}", "--buffer")
    said = repo.git.divided(*words, lines=names.splitlines(keepends=True), large=_LARGE) if names else b""
    many = names.count(b"\n")  # a line of what is missing has fewer words
    return (said.count(b"\n"), said.count(b" ")) == (many, 3 * many)


def _on_disk(repo: Repo, names: bytes) -> Iterator[list[str]]:
    """Return what git says of each of some objects, a line each; of what does not exist it says less."""
    raw = repo.git.out("cat-file", f"--batch-check={_ON_DISK}", "--buffer", stdin=names) if names else b""
    return (row for line in raw.decode("ascii", "replace").splitlines() if len(row := line.split(" ")) == 4)


def are_there(repo: Repo, tips: Iterable[Oid], without: Collection[Oid] = ()) -> bool:
    """Whether git finds every object that ``tips`` reach, and none of these is among some others. Raises RecordError when a
    walk meets one that is missing or cannot be parsed."""
    raw = _walked(repo, "--objects", "--no-object-names", "--stdin", stdin=_walk_ends(tips, ()))
    return _all_there(repo, raw) and not any(oid.encode() in raw for oid in without)


def headers(repo: Repo, oids: Iterable[Oid]) -> dict[Oid, str]:
    """Return the kind of each of some objects that git finds, by their headers: what follows them may be corrupt."""
    result = repo.git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", "--buffer", stdin=_lines(oids))
    words = result.out.decode("ascii").split()
    return {oid: kind for oid, kind in zip(words[::2], words[1::2], strict=False) if kind != "missing"}


def are_of_kinds(repo: Repo, oids: Mapping[str, Collection[Oid]]) -> bool:
    """Whether git finds objects, given by their kind, and says by their headers that each is of it."""
    stdin = b"".join(map(_lines, oids.values()))
    said = repo.git.run("cat-file", "--batch-check=%(objecttype)", "--buffer", stdin=stdin).out
    return said == b"".join(f"{kind}\n".encode() * len(of) for kind, of in oids.items())


def kinds(repo: Repo, oids: Iterable[Oid]) -> dict[Oid, str]:
    """Return the kind of each of some objects that git can read to its end. Git stops at the first corrupt one, and says
    nothing of some that come after it. Many are read by two processes."""
    found = dict[Oid, str]()
    running = deque(_kinds(repo, part, found) for part in halves(list(oids), _WANTED) if part)
    while running:
        if next(running[0], False):
            running.rotate()
        else:
            running.popleft()
    return found


def _kinds(repo: Repo, oids: Sequence[Oid], found: dict[Oid, str]) -> Iterator[bool]:
    """Take into ``found`` what ``kinds`` returns of some objects, by one process; yields True after each piece of output."""
    process = repo.git.start("cat-file", "--batch", "--buffer", stdin="".join(f"{oid}\n" for oid in oids).encode())
    data, at, last, most = b"", 0, b"", _MUCH
    try:
        for piece in process.pieces():
            most -= len(piece)
            if most < 0:  # git writes small pieces, and goes on writing while some gather
                time.sleep(_GATHER)
            data, at = data[at:] + piece, max(at - len(data), 0)
            while at <= len(data):
                if last:
                    oid, _, kind = last.decode("ascii").partition(" ")
                    found[oid] = kind
                last, end = b"", data.find(b"\n", at)
                if end < 0:
                    break
                said, _, size = data[at:end].rpartition(b" ")
                at = end + 1
                if size.isdigit():  # else it is missing
                    at, last = at + int(size) + 1, said
            yield True
    except BaseException:
        process.stop()
        raise
    process.finish()


def weighed(repo: Repo, bases: Collection[Oid], more: Collection[Oid]) -> tuple[dict[Oid, int], dict[Oid, int]]:
    """Return the bytes on disk of ``bases`` and ``more``, as far as they are there, and of all other objects of the repository
    that are stored as a difference to one of ``bases``. Looks at every object's entry, and at the content of none: git looks
    long for one that is not there."""
    asked, names = (frozenset(oid.encode() for oid in oids) for oids in ({*bases, *more}, bases))
    form = "--batch-check=%(objectname) %(objectsize:disk) %(deltabase)"
    process = repo.git.start("cat-file", "--batch-all-objects", "--unordered", "--buffer", form)
    found, built, rest = dict[Oid, int](), dict[Oid, int](), b""
    for block in process.pieces():
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            oid, size, base = line.split(b" ")
            if oid in asked:
                found[oid.decode("ascii")] = int(size)
            if base in names and oid not in names:
                built[oid.decode("ascii")] = int(size)
    checked(process.finish(), "cat-file")
    return found, built
