"""The door of one-shot commands: objects and refs through the git binary, in every format that this git can open."""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from gitbaton.errors import GitError, RefConflictError
from gitbaton.git.objects import MAX_READ, OID, Algorithm, Kind, NewObject, Object, RefChange, zero
from gitbaton.git.run import Git, memory_file, spawn
from gitbaton.model import Head, Oid

_MANY = 64
_PACK_KIND = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
_CONFLICT = re.compile(
    r"but expected|reference already exists|unable to resolve reference|Unable to create|File exists|cannot lock references"
)


class BinaryObjects:
    """Objects and refs through one ``git cat-file --batch-command`` and a process for each write."""

    def __init__(self, git: Git, git_dir: str, common_dir: str, algorithm: Algorithm) -> None:
        self.git, self.git_dir, self.common_dir, self.algorithm = git, git_dir, common_dir, algorithm
        self._batch: _Batch | None = None

    def info(self, spec: str) -> Object | None:
        """See Objects."""
        return self._ask().info(spec)

    def read(self, spec: str, limit: int = MAX_READ) -> Object | None:
        """See Objects."""
        found = self._ask().info(spec)
        if found is None or found.size > limit:
            return found
        return self._ask().contents(found)

    def read_many(self, oids: Sequence[Oid], limit: int = MAX_READ) -> Iterator[Object | None]:
        """See Objects. A few are asked of the process that is there; many are worth two of their own."""
        if len(oids) <= _MANY:
            yield from (self.read(oid, limit) for oid in oids)
            return
        names = "".join(f"{oid}\n" for oid in oids).encode()
        lines = self.git.out("cat-file", "--batch-check", "--buffer", stdin=names).splitlines()
        found = [_header(line) for line in lines]
        wanted = "".join(f"{o.oid}\n" for o in found if o and o.size <= limit).encode()
        raw = self.git.out("cat-file", "--batch", "--buffer", stdin=wanted) if wanted else b""
        at = 0
        for item in found:
            if item is None or item.size > limit:
                yield item
                continue
            at = raw.index(b"\n", at) + 1
            yield Object(oid=item.oid, kind=item.kind, size=item.size, data=raw[at : at + item.size])
            at += item.size + 1

    def write(self, objects: Iterable[NewObject]) -> None:
        """See Objects. One pack into ``unpack-objects``: any number of objects, byte for byte, by one process."""
        import hashlib

        parts = [_pack_entry(o.kind, o.data) for o in objects]
        if not parts:
            return
        pack = b"PACK" + (2).to_bytes(4, "big") + len(parts).to_bytes(4, "big") + b"".join(parts)
        pack += hashlib.new(self.algorithm, pack, usedforsecurity=False).digest()
        self.git.out("unpack-objects", "-q", stdin=pack)

    def refs(self, *prefixes: str) -> dict[str, Oid]:
        """See Objects."""
        raw = self.git.out("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
        pairs = (os.fsdecode(line).split(" ", 1) for line in raw.splitlines())
        return {name: oid for oid, name in pairs}

    def update(self, *transactions: Sequence[RefChange]) -> None:
        """See Objects."""
        nothing = zero(self.algorithm)
        lines = []
        for changes in transactions:
            lines.append("start\n")
            lines += [f"update {c.name} {c.new or nothing} {c.old or nothing}\n" for c in changes]
            lines += ["prepare\n", "commit\n"]
        result = self.git.run("update-ref", "--no-deref", "--stdin", stdin="".join(lines).encode())
        if result.code != 0:
            error = RefConflictError if _CONFLICT.search(result.err) else GitError
            raise error(f"cannot update a ref: {result.fatal()}")

    def symref(self, name: str) -> str | None:
        """See Objects. The file is git's own and costs no process; on reftable (its HEAD is a stub) git is asked."""
        path = os.path.join(self.git_dir, name)
        try:
            with open(path, "rb") as file:
                text = os.fsdecode(file.read(4096)).rstrip("\n")
        except FileNotFoundError:
            text = ""
        if text.startswith("ref: ") and text != "ref: refs/heads/.invalid" and not os.path.islink(path):
            return text[5:].strip()
        if OID.match(text):
            return None
        result = self.git.run("symbolic-ref", "-q", name) if text or self._reftable() else None
        return os.fsdecode(result.out).rstrip("\n") or None if result else None

    def _reftable(self) -> bool:
        return os.path.isdir(os.path.join(self.common_dir, "reftable"))

    def set_symref(self, name: str, target: str) -> None:
        """See Objects."""
        self.git.out("symbolic-ref", name, target)

    def head(self) -> Head:
        """See Objects."""
        ref = self.symref("HEAD")
        found = self.info("HEAD")
        branch = ref.removeprefix("refs/heads/") if ref else None
        return Head(branch=branch, oid=found.oid if found else None)

    def first_parents(self, start: Oid, limit: int | None = None) -> list[Oid]:
        """See Objects."""
        count = [] if limit is None else [f"--max-count={limit}"]
        raw = self.git.out("rev-list", "--first-parent", *count, "--end-of-options", start, "--")
        return raw.decode("ascii").split()

    def distance(self, here: Oid, there: Oid) -> tuple[int, int] | None:
        """See Objects."""
        if self.git.run("merge-base", "--", here, there).code != 0:
            return None
        raw = self.git.out("rev-list", "--left-right", "--count", "--end-of-options", f"{here}...{there}", "--")
        left, right = raw.split()
        return int(left), int(right)

    def count(self, start: Oid) -> int:
        """See Objects."""
        return int(self.git.out("rev-list", "--count", "--end-of-options", start, "--"))

    def abbreviate(self, oid: Oid, length: int) -> str:
        """See Objects."""
        while length < len(oid) and self._ask().ambiguous(oid[:length]):
            length += 1
        return oid[:length]

    def _ask(self) -> _Batch:
        if self._batch is None:
            self._batch = _Batch(self.git)
        return self._batch

    def close(self) -> None:
        """See Objects."""
        if self._batch is not None:
            self._batch.close()
            self._batch = None


class _Batch:
    """One long-lived ``git cat-file --batch-command``; it reads refs anew on every request."""

    def __init__(self, git: Git) -> None:
        self.timeout = git.timeout
        reader, out = os.pipe()
        stdin, self.writer = os.pipe()
        self.err = memory_file()
        try:
            self.pid = spawn(git.argv("cat-file", "--batch-command"), git.env, stdin, out, self.err)
        finally:
            os.close(out)
            os.close(stdin)
        self.reader = open(reader, "rb", buffering=1 << 16)

    def info(self, spec: str) -> Object | None:
        """Type and size of what one line names."""
        return None if "\n" in spec else _header(self._request(b"info " + os.fsencode(spec)))

    def ambiguous(self, prefix: str) -> bool:
        """Whether more than one object begins with these digits."""
        return self._request(b"info " + prefix.encode()).endswith(b" ambiguous")

    def contents(self, known: Object) -> Object:
        """The bytes of an object whose size is known."""
        self._request(b"contents " + known.oid.encode())
        data = self.reader.read(known.size)
        if len(data) != known.size or self.reader.read(1) != b"\n":
            raise GitError(f"object {known.oid} cannot be read")
        return Object(oid=known.oid, kind=known.kind, size=known.size, data=data)

    def _request(self, line: bytes) -> bytes:
        try:
            os.write(self.writer, line + b"\n")
            answer = self.reader.readline()
        except BrokenPipeError:
            answer = b""
        if not answer.endswith(b"\n"):
            said = os.pread(self.err, 4096, 0).decode("utf-8", "replace").strip().splitlines()
            raise GitError(f"'git cat-file' ended early: {said[0] if said else 'no answer'}")
        return answer[:-1]

    def close(self) -> None:
        """End the process and wait for it."""
        os.close(self.writer)
        self.reader.close()
        os.close(self.err)
        os.waitpid(self.pid, 0)


def _header(line: bytes) -> Object | None:
    """``<oid> <type> <size>``, or None for any other answer (missing, ambiguous)."""
    fields = line.split(b" ")
    if len(fields) != 3 or not fields[2].isdigit() or not OID.match(fields[0].decode("ascii", "replace")):
        return None
    oid, kind = fields[0].decode("ascii"), cast(Kind, fields[1].decode("ascii", "replace"))
    return Object(oid=oid, kind=kind, size=int(fields[2]), data=None)


def _pack_entry(kind: Kind, data: bytes) -> bytes:
    """One entry of a pack (gitformat-pack): type and size in groups of seven bits, then deflated bytes."""
    size = len(data)
    first = _PACK_KIND[kind] << 4 | size & 15
    size >>= 4
    head = bytearray()
    while size:
        head.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    head.append(first)
    return bytes(head) + zlib.compress(data, 1)


def clear_stale_locks(common_dir: str, names: Iterable[str], older: float = 10.0) -> None:
    """Remove lock files beside refs of ours that are older than ``older`` seconds. Only while our own lock is held."""
    for name in names:
        path = os.path.join(common_dir, *name.split("/")) + ".lock"
        try:
            if time.time() - os.stat(path).st_mtime > older:
                os.unlink(path)
        except OSError:
            continue
