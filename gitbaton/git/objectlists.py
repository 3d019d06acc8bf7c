"""Bulk object listings: what is reachable, its size, its content, and the commit that brought it in."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from gitbaton.errors import GitError, GitTimeoutError
from gitbaton.git.objects import Algorithm, Object, Objects, is_oid
from gitbaton.git.repo import Repo
from gitbaton.git.run import Git, checked
from gitbaton.model import Oid

_WANTED = 1000
_HEX = re.compile(rb"[0-9a-f]+\Z")
_ENTRY = {form: re.compile(rb"(?s)[0-7]{5,6} ([^\0]+)\0.{%d}" % size) for form, size in (("sha1", 20), ("sha256", 32))}
_LOG = (
    *("--literal-pathspecs", "log", "-z", "--reverse", "--raw", "--no-abbrev", "--no-renames", "--no-notes", "--no-decorate"),
    *("--no-color", "--no-ext-diff", "--diff-merges=first-parent", "--format=%H"),
)


def reachable(repo: Repo, wants: Sequence[Oid], haves: Iterable[Oid]) -> dict[Oid, bytes]:
    """Every object that is reachable from ``wants`` and not from ``haves``, with the path by which git came to it first.

    Of ``haves``, what is not here excludes nothing. What a partial clone left out is passed over: its remote has it.
    Raises GitError where anything else is missing.
    """
    algorithm = repo.layout.algorithm
    for oid in wants:
        if not is_oid(algorithm, oid) or repo.objects.info(oid) is None:
            raise GitError(f"object {oid} does not exist")
    known = {oid for oid in haves if is_oid(algorithm, oid) and repo.objects.info(oid) is not None}
    if not wants:
        return {}
    stdin = "".join([f"{oid}\n" for oid in wants] + [f"^{oid}\n" for oid in known]).encode()
    raw = repo.git.out("rev-list", "--objects", "--missing=allow-promisor", "--stdin", stdin=stdin)
    pairs = (line.partition(b" ") for line in raw.split(b"\n") if line)
    return {oid.decode("ascii", "replace"): path for oid, _, path in pairs}


def sizes(objects: Objects, oids: Sequence[Oid]) -> Iterator[Object]:
    """Each object without its bytes, in their order. Raises GitError when one is missing or cannot be read."""
    for oid, found in zip(oids, objects.read_many(oids, -1), strict=True):
        if found is None:
            raise GitError(f"object {oid} cannot be read")
        yield found


def contents(objects: Objects, items: Iterable[Object]) -> Iterator[tuple[Object, bytes]]:
    """Each object with its bytes; a few MiB are held at once. Raises GitError when one cannot be read."""
    asked = list(items)
    most = max((item.size for item in asked), default=0)  # how large they may be is the caller's to say
    for item, found in zip(asked, objects.read_many([item.oid for item in asked], most), strict=True):
        if found is None or found.data is None:
            raise GitError(f"object {item.oid} cannot be read")
        yield item, found.data


def first_bytes(git: Git, oid: Oid, count: int) -> bytes:
    """The first bytes of a blob of any size. Raises GitError when it cannot be read, GitTimeoutError."""
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
        raise GitError(f"object {oid} cannot be read")
    return data


def introduced(
    git: Git, blobs: Collection[Oid], wants: Iterable[Oid], haves: Iterable[Oid], *, paths: Sequence[bytes] = ()
) -> dict[Oid, list[tuple[Oid, bytes]]]:
    """For each blob the commits reachable from ``wants`` and not from ``haves`` that brought it in, and at which path.

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
    """What a walk from commits to others is told; empty where there is none to begin with."""
    starts = _commits(git, list(wants))
    ends = [*starts, *("^" + oid for oid in _commits(git, list(haves)))]
    return "".join(f"{end}\n" for end in ends).encode() if starts else b""


def _rows(raw: bytes) -> Iterator[tuple[Oid, Oid, bytes]]:
    """Commit, new blob and path of every change that a log lists."""
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
    """For each name of a file or folder the oldest commit reachable from ``wants`` and not from ``haves`` that changes a path
    with it, and that path as far as the name. Raises GitError."""
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
    """What stands in each commit at a path that has no line feed; None for nothing."""
    asked = b"".join(commit.encode() + b":" + path + b"\n" for commit, path in places)
    raw = git.out("cat-file", "--batch-check=%(objectname)", "--buffer", stdin=asked) if places else b""
    rows = raw.split(b"\n")[:-1]
    return [row.decode("ascii", "replace") if _HEX.match(row) else None for row in rows]


def entry_names(data: bytes, algorithm: Algorithm) -> set[bytes]:
    """The names in a tree, without those in hexadecimal alone, as notes and digests have them."""
    return {name for name in _ENTRY[algorithm].findall(data) if not _HEX.match(name)}


def _commits(git: Git, oids: Sequence[Oid]) -> list[Oid]:
    """Those that are commits, or tags, and exist."""
    if not oids:
        return []
    raw = git.out("cat-file", "--batch-check", "--buffer", stdin=_lines(oids)).decode("ascii", "replace")
    rows = [row.split(" ") for row in raw.split("\n")]
    return [row[0] for row in rows if len(row) == 3 and row[1] in ("commit", "tag")]


def _lines(oids: Iterable[Oid]) -> bytes:
    return "".join(f"{oid}\n" for oid in oids).encode()
