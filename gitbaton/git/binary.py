"""Object and ref access through the git binary, for one-shot commands and every repository format."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from gitbaton.base.errors import MENDS, GitError, GitTimeoutError, RefConflictError
from gitbaton.base.model import Head, Oid
from gitbaton.base.system.files import read_regular, write_all
from gitbaton.base.system.process import Coprocess, Process, Result
from gitbaton.base.values import TYPE_CHECKING, cast
from gitbaton.git.loose import FEW, drop_torn, is_shared, put_in
from gitbaton.git.objects import (
    MAX_READ,
    OID,
    Algorithm,
    Kind,
    NewObject,
    Object,
    Objects,
    RefChange,
    in_the_way,
    is_conflict,
    is_oid,
    is_ref,
    linked_ref,
    packed_refs,
    parse_commit,
    zero,
)
from gitbaton.git.run import Git, checked

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")
SYNCED = ("core.fsync=all", "core.fsyncMethod=fsync")
_MOVE = ("update-ref", "--no-deref", "-z", "--stdin")
_HEADER = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) ([^ ]*) ([0-9]+)\Z")
_MANY = 256
_PIPE = 4096  # bytes that go into every pipe at once
_ATTEMPTS = 4
_NO_FOLDER = "unable to create temporary file: No such file or directory"
_GROUP = 2000
_GROUP_BYTES = 4 << 20  # of contents that are held at once, unless one object is larger
_TABLES = "cannot lock references"
_OWN_REFS = ("refs/worktree/", "refs/bisect/", "refs/rewritten/")
# How git reads a name that is no ref: as one elsewhere, or as what `git describe` prints (`x-gabcdef0`).
_ELSEWHERE = ("refs/{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/{}", "refs/remotes/{}/HEAD")
_DESCRIBED = r"-g[0-9a-f]{4,}\Z"


_AS_OLD = 50  # commits more than are asked for, of which some may be as old as the last


class GitObjects(Objects):
    """Base of both doors: writes and rare questions, by a git process for each. With ``lasting`` one process moves all refs."""

    shared: int | None = None

    def __init__(self, git: Git, git_dir: str, common_dir: str, algorithm: Algorithm, *, lasting: bool = False) -> None:
        self.git, self.git_dir, self.common_dir, self.algorithm = git, git_dir, common_dir, algorithm
        self._mover: _UpdateRef | None = None
        self._lasting = lasting
        self._plain = git

    def write(self, objects: Iterable[NewObject]) -> None:
        """See Objects. A few become files without a process, but in a store that git opens to others; more are one pack into
        ``unpack-objects``. With ``core.fsync=all`` they are on disk then."""
        items = list(objects)
        if not items:
            return
        folder = self.git.objects_dir(self.common_dir)
        if len(items) <= FEW and not is_shared(folder):
            put_in(folder, items, sync=SYNCED[0] in self.git.config)
            return
        drop_torn(folder, (item.oid for item in items))
        for _ in range(_ATTEMPTS):
            result = self.git.run("unpack-objects", "-q", stdin=self._pack(items))
            if _NO_FOLDER not in result.err:
                break  # else a repack beside us has just removed a folder that it found empty
        checked(result, "unpack-objects")

    def write_pack(self, objects: Iterable[NewObject]) -> None:
        """See Objects. Five times as fast for hundreds as ``write``."""
        from gitbaton.git.packfile import compressed, put_packs

        items, folder = {item.oid: item for item in objects}, self.git.objects_dir(self.common_dir)
        drop_torn(folder, items)
        rows = [(item.kind, bytes.fromhex(item.oid), item.data) for item in items.values()]
        try:
            put_packs(os.path.join(folder, "pack"), self.algorithm, rows, compressed, int)
        except OSError as error:
            raise GitError(f"a pack cannot be written: {error.strerror}") from None

    def _pack(self, objects: Iterable[NewObject]) -> bytes:
        from gitbaton.git.packfile import stream

        return stream(self.algorithm, ((o.kind, bytes.fromhex(o.oid), o.data) for o in objects))

    def update(self, *transactions: Sequence[RefChange]) -> None:
        """See Objects."""
        nothing = zero(self.algorithm)
        words = []
        for changes in transactions:
            words.append("start")
            for change in changes:
                oids = [oid for oid in (change.new, change.old) if oid is not None]
                if not is_ref(change.name) or not all(is_oid(self.algorithm, oid) for oid in oids):
                    raise GitError(f"cannot update a ref: '{change.name}' or its value is malformed")
                words += [f"update {change.name}", change.new or nothing, change.old or nothing]
            words += ["prepare", "commit"]
        stdin = b"".join(os.fsencode(word) + b"\0" for word in words)
        result = self._moved(stdin, len(transactions)) if self._lasting else self.git.run(*_MOVE, stdin=stdin)
        if result.code != 0:
            error = RefConflictError if is_conflict(result.err) else GitError
            raise error(f"cannot update a ref: {result.fatal()}{self._tables_locked(result.err)}")

    def _tables_locked(self, said: str) -> str:
        """Return, in git's words, the lock that is in the way of all refs at once: on reftable git does not name it."""
        path = os.path.join(self.common_dir, "reftable", "tables.list.lock")
        return f": Unable to create '{path}': File exists" if _TABLES in said and os.path.lexists(path) else ""

    def _moved(self, stdin: bytes, transactions: int) -> Result:
        """Move refs by the one process. Where it was ended meanwhile (it says nothing then), another one is asked: what has
        moved already is a conflict for it."""
        for _ in range(2):
            if self._mover is not None and self._mover.dead:
                self._mover.close()
                self._mover = None
            self._mover = self._mover or _UpdateRef(self.git)
            result = self._mover.move(stdin, transactions)
            if result.code == 0 or result.err:
                break
        return result

    def symref(self, name: str) -> str | None:
        """See Objects. The file is git's own and costs no process; on reftable (its HEAD is a stub) git is asked."""
        linked = linked_ref(self.git_dir, name)
        if linked is not None or not is_ref(name):
            return linked
        if name != "HEAD" and in_the_way(self.git_dir, name):
            return None
        try:
            text = os.fsdecode(read_regular(os.path.join(self.git_dir, name), 4096)).rstrip("\n")
        except FileNotFoundError:
            text = ""
        except OSError:
            text = "?"
        if text.startswith("ref: ") and text != "ref: refs/heads/.invalid":
            return text[5:].strip()
        if OID.match(text):
            return None
        result = self.git.run("symbolic-ref", "-q", name) if text or self._reftable() else None
        return os.fsdecode(result.out).rstrip("\n") or None if result else None

    def _reftable(self) -> bool:
        return os.path.isdir(os.path.join(self.common_dir, "reftable"))

    def set_symref(self, name: str, target: str) -> None:
        """See Objects."""
        if not is_ref(target):
            raise GitError(f"cannot set '{name}': '{target}' is not a ref")
        if wrong := in_the_way(self.git_dir, name):
            raise GitError(f"cannot set '{name}': '{os.path.join(self.git_dir, name)}' is {wrong}")
        self.git.out("symbolic-ref", name, target)

    def head(self) -> Head:
        """See Objects."""
        ref = self.symref("HEAD")
        found = self.info(ref or "HEAD")
        branch = ref.removeprefix("refs/heads/") if ref else None
        if found is not None:
            return Head(branch=branch, oid=found.oid)
        # A branch that is not there makes HEAD unborn; one whose commit cannot be read does not: git still says its id.
        said = ""
        if ref is None or self.git.run("show-ref", "--verify", "-q", "--", ref).code != 1:  # rev-parse takes X-1-gID for ID
            said = self.git.run("rev-parse", "--verify", "-q", ref or "HEAD").out.decode("ascii", "replace").strip()
        return Head(branch=branch, oid=said or None)

    def _check(self, *commits: Oid) -> None:
        """Raise GitError for what is no commit: rev-list takes it for an empty history."""
        for oid in commits:
            found = self.info(oid) if is_oid(self.algorithm, oid) else None
            if found is None or found.kind != "commit":
                raise GitError(f"'{oid}' is not a commit that exists")

    def chains(
        self, starts: Iterable[Oid], limit: int | None = None, meanwhile: Callable[[], object] = lambda: None
    ) -> dict[Oid, list[Oid]]:
        """See Objects. One process for all; where one of them is torn, one for each."""
        asked = [oid for oid in dict.fromkeys(starts) if is_oid(self.algorithm, oid)]
        most = limit + _AS_OLD if limit is not None else None
        while asked:
            words = ("rev-list", "--first-parent", "--parents", *(["--timestamp", f"--max-count={most}"] if most else []))
            process = self.git.start(*words, "--stdin", stdin="".join(f"{oid}\n" for oid in asked).encode())
            meanwhile()
            result = process.finish()
            if result.code != 0:
                return {oid: self._alone(oid, limit) for oid in asked}
            lines = result.out.decode("ascii").splitlines()
            if most is not None and limit is not None and len(lines) > limit:
                last, *_ = lines[max(limit, 1) - 1].partition(" ")
                if len(lines) >= most and lines[-1].startswith(last + " "):  # more may be as old
                    most *= 4
                    continue
                lines = [*lines[:limit], *(line for line in lines[limit:] if line.startswith(last + " "))]
            if most is not None:
                lines = [line.partition(" ")[2] for line in lines]
            size = len(asked[0])
            above = {line[:size]: line[size + 1 : 2 * size + 1] or None for line in lines}
            return {oid: _down(above, oid) for oid in asked}
        return {}

    def reading(self, starts: Iterable[Oid]) -> Callable[[], bool]:
        """See Objects. It writes a number alone, and so does not wait for its reader."""
        asked = "".join(f"{oid}\n" for oid in dict.fromkeys(starts) if is_oid(self.algorithm, oid)).encode()
        git = self.git.changed({}, "core.commitGraph=false")
        process = git.start("rev-list", "--first-parent", "--count", "--stdin", stdin=asked) if asked else None
        return lambda: process is None or process.finish().code == 0

    def _alone(self, start: Oid, limit: int | None) -> list[Oid]:
        try:
            return self.first_parents(start, limit)
        except GitError:
            return [start]

    def distance(self, here: Oid, there: Oid) -> tuple[int, int] | None:
        """See Objects."""
        self._check(here, there)
        base = self.git.run("merge-base", "--", here, there)
        if base.code == 1:
            return None
        if base.code != 0:
            raise GitError(f"cannot compare {here} and {there}: {base.fatal()}")
        raw = self.git.out("rev-list", "--left-right", "--count", "--end-of-options", f"{here}...{there}", "--")
        left, right = raw.split()
        return int(left), int(right)

    def count(self, start: Oid) -> int:
        """See Objects."""
        self._check(start)
        return int(self.git.out("rev-list", "--count", "--end-of-options", start, "--"))

    def borrow(self, store: str, env: Mapping[str, str]) -> None:
        """See Objects."""
        self._plain, self.git = self.git, self.git.changed(env)

    def give_back(self) -> None:
        """See Objects."""
        self.git = self._plain

    def warm(self) -> None:
        """See Objects."""

    def forked(self) -> None:
        """See Objects."""
        mover, self._mover = self._mover, None
        if mover is not None:
            mover.leave()

    def close(self) -> None:
        """See Objects."""
        mover, self._mover = self._mover, None
        if mover is not None:
            mover.close()


class BinaryObjects(GitObjects):
    """Objects and refs read through one ``git cat-file --batch-command``, too."""

    _batch: _CatFile | None = None
    _packed: tuple[tuple[int, int, int] | None, frozenset[bytes] | None] = None, None
    elder: BinaryObjects | None = None
    """Another reader of the same objects and shared refs, as of another work tree, whose process is asked for them."""

    def info(self, spec: str) -> Object | None:
        """See Objects."""
        if is_oid(self.algorithm, spec):
            return self._ask().info(spec)
        if not is_ref(spec) or not self._may_be_there(spec):
            return None
        found = self._ask(own=not _is_shared(spec)).info(spec)
        return found if found is not None and self._is_there(spec) else None

    def _may_be_there(self, name: str) -> bool:
        """Whether a ref may be there: of a work tree's own ones the files tell."""
        return _is_shared(name) or os.path.lexists(os.path.join(self.git_dir, name)) or self._reftable()

    def _is_there(self, name: str) -> bool:
        """Whether a ref that git resolved is this very one, and not another that git takes the name for."""
        if self._reftable():
            if not re.search(_DESCRIBED, name) and not any(self._ask().info(rule.format(name)) for rule in _ELSEWHERE):
                return True
            return self.git.run("show-ref", "--exists", name).code == 0
        if os.path.lexists(os.path.join(self.common_dir if _is_shared(name) else self.git_dir, name)):
            return True
        return self._is_packed(os.fsencode(name))

    def _is_packed(self, name: bytes) -> bool:
        """Whether packed-refs has a ref. Whoever asks once more hears it from its names, until git writes the file anew."""
        try:
            found = os.stat(os.path.join(self.common_dir, "packed-refs"))
        except FileNotFoundError:
            return False
        state = found.st_ino, found.st_size, found.st_mtime_ns
        before, names = self._packed
        if before != state:
            self._packed = state, None
            return b" " + name + b"\n" in packed_refs(self.common_dir)
        if names is None:
            names = frozenset(re.findall(rb" ([^ \n]+)\n", packed_refs(self.common_dir)))
            self._packed = state, names
        return name in names

    def read(self, spec: str, limit: int = MAX_READ) -> Object | None:
        """See Objects."""
        found = self.info(spec)
        if found is None or found.size > limit:
            return found
        return self._ask().contents(found)

    def read_many(self, oids: Sequence[Oid], limit: int = MAX_READ) -> Iterator[Object | None]:
        """See Objects. A few are asked of the process that is there; many are worth two of their own."""
        if len(oids) <= _MANY:
            yield from self._read_few(oids, limit)
            return
        ahead = self._begin(oids[:_GROUP], limit)
        try:
            for start in range(_GROUP, len(oids) + _GROUP, _GROUP):
                now, ahead = ahead, self._begin(oids[start : start + _GROUP], limit)  # git reads while this is worked on
                yield from self._contents(*now, limit)
        finally:
            if ahead[1] is not None:
                ahead[1].stop()

    def _readable(self, oid: Oid, limit: int) -> Object | None:
        try:
            return self.read(oid, limit)
        except GitTimeoutError:
            raise
        except GitError:
            return None

    def _read_few(self, oids: Sequence[Oid], limit: int) -> Iterator[Object | None]:
        """Yield objects by few requests; what is not answered is asked for one by one."""
        known = list[Object | None]()
        if len(oids) > 1 and all(is_oid(self.algorithm, oid) for oid in oids):
            known = self._ask().infos(oids)
        if not known:
            yield from (self._readable(oid, limit) for oid in oids)
        part, size = list[Object | None](), 0
        for place, item in enumerate(known):
            part.append(item)
            size += item.size if item and item.size <= limit else 0
            if size > _GROUP_BYTES or place + 1 == len(known):
                read = iter(self._ask().several([one for one in part if one and one.size <= limit]))
                for one in part:
                    yield (next(read, None) or self._readable(one.oid, limit)) if one and one.size <= limit else one
                part, size = [], 0

    def _begin(self, oids: Sequence[Oid], limit: int) -> tuple[list[Object | None], Process | None]:
        """Return objects without their bytes, and a process that reads those up to ``limit``; None where there are none."""
        nothing = zero(self.algorithm)
        names = "".join(f"{oid if is_oid(self.algorithm, oid) else nothing}\n" for oid in oids).encode()
        lines = self.git.out("cat-file", "--batch-check", "--buffer", stdin=names).splitlines() if names else ()
        items = [*map(_header, lines)]
        wanted = "".join(f"{o.oid}\n" for o in items if o and o.size <= limit).encode()
        return items, self.git.start("cat-file", "--batch", "--buffer", stdin=wanted) if wanted else None

    def _contents(self, items: Sequence[Object | None], process: Process | None, limit: int) -> Iterator[Object | None]:
        """Yield known objects with the bytes that a process reads of them; git stops at a corrupt one, and what is missing then
        is asked for one by one."""
        pieces, held, at = process.pieces() if process else iter(()), b"", 0
        try:
            for item in items:
                if item is None or item.size > limit:
                    yield item
                    continue
                head = f"{item.oid} {item.kind} {item.size}\n".encode()
                start, end = at + len(head), at + len(head) + item.size
                if process is not None and len(held) <= end:
                    parts, lacking = [held[at:]], end + 1 - len(held)
                    process.deadline = time.monotonic() + self.git.timeout  # the work between two pieces is not git's
                    while lacking > 0 and (piece := next(pieces, b"")):
                        parts.append(piece)
                        lacking -= len(piece)
                    held, start, end, at = b"".join(parts), start - at, end - at, 0
                    if lacking > 0 and not process.ended:
                        stuck, process = process, None
                        stuck.finish()  # raises
                if len(held) > end and held.startswith(head, at):
                    yield Object(oid=item.oid, kind=item.kind, size=item.size, data=held[start:end])
                    at = end + 1
                else:
                    held, at, pieces = b"", 0, iter(())
                    yield self._readable(item.oid, limit)
        finally:
            if process is not None:
                process.stop()

    def refs(self, *prefixes: str) -> dict[str, Oid]:
        """See Objects."""
        if not prefixes:
            return {}
        result = self.git.run("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
        if result.code != 0 and "packed-refs" in result.err:  # then git lists no ref at all
            raise GitError(f"'git for-each-ref' failed: {result.fatal()}", MENDS)
        raw = checked(result, "for-each-ref")
        nothing = zero(self.algorithm)
        warned = re.findall("(?m)^warning: ignoring broken ref (.*)$", result.err)
        broken = {name: nothing for name in warned if name.startswith(prefixes)}
        words = os.fsdecode(raw).replace("\n", " ").split(" ")  # no name has a blank
        return broken | dict(zip(words[1::2], words[::2], strict=False))

    def first_parents(self, start: Oid, limit: int | None = None) -> list[Oid]:
        """See Objects."""
        count = [] if limit is None else [f"--max-count={limit}"]
        self._check(start)
        result = self.git.run("rev-list", "--first-parent", *count, "--end-of-options", start, "--")
        return result.out.decode("ascii").split() if result.code == 0 else self._step_by_step(start, limit)

    def _step_by_step(self, start: Oid, limit: int | None) -> list[Oid]:
        """Return the chain as far as it can be read, and the id of the commit that cannot."""
        path = [start]
        while limit is None or len(path) < limit:
            found = self._readable(path[-1], MAX_READ)
            parents = parse_commit(found.data).parents if found and found.kind == "commit" and found.data else ()
            if not parents:
                break
            path.append(parents[0])
        return path

    def abbreviate(self, oid: Oid, length: int) -> str:
        """See Objects."""
        while length < len(oid) and self._ask().ambiguous(oid[:length], oid):
            length += 1
        return oid[:length]

    def _ask(self, *, own: bool = False) -> _CatFile:
        if self.elder is not None and not own:
            return self.elder._ask()
        if self._batch is not None and self._batch.dead:
            self.close()
        if self._batch is None:
            self._batch = _CatFile(self.git)
        return self._batch

    def borrow(self, store: str, env: Mapping[str, str]) -> None:
        """See Objects."""
        self.close()
        super().borrow(store, env)

    def warm(self) -> None:
        """See Objects."""
        self._ask()

    def close(self) -> None:
        """See Objects."""
        super().close()
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.close()

    def forked(self) -> None:
        """See Objects."""
        super().forked()
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.leave()
        if self.elder is not None:
            self.elder.forked()


def _is_shared(name: str) -> bool:
    """Whether a ref is that of all work trees."""
    return name.startswith("refs/") and not name.startswith(_OWN_REFS)


def _down(above: Mapping[Oid, Oid | None], start: Oid) -> list[Oid]:
    """Return a commit and those below it by the parent of each, as far as they are listed."""
    found, at = list[Oid](), start if start in above else None
    while at is not None and at in above:
        found.append(at)
        at = above[at]
    return found


class _UpdateRef(Coprocess):
    """One long-lived ``git update-ref --stdin``; it reads refs anew in every transaction."""

    def __init__(self, git: Git) -> None:
        super().__init__("git update-ref", git.argv(*_MOVE), git.env, git.timeout, group=True)

    def move(self, stdin: bytes, transactions: int) -> Result:
        """Carry out transactions. After one that fails it has ended. Raises GitTimeoutError."""
        deadline, done, self.dead = time.monotonic() + self.timeout, 0, True
        try:
            write_all(self.writer, stdin)
            while done < transactions:
                done += self.line(deadline) == b"commit: ok"
        except GitTimeoutError:
            raise
        except (GitError, BrokenPipeError):
            self.dead = True
            return Result(code=1, out=b"", err=os.pread(self.err, 1 << 20, 0).decode("utf-8", "surrogateescape"))
        self.dead = False
        return Result(code=0, out=b"", err="")


class _CatFile(Coprocess):
    """One long-lived ``git cat-file --batch-command``; it reads refs anew on every request, and ends at a corrupt object."""

    def __init__(self, git: Git) -> None:
        super().__init__("git cat-file", git.argv("cat-file", "--batch-command"), git.env, git.timeout)

    def info(self, spec: str) -> Object | None:
        """Return type and size of what one line names."""
        return _header(self._request(b"info " + os.fsencode(spec)))

    def ambiguous(self, prefix: str, oid: Oid) -> bool:
        """Whether the first digits of an object's id name more than it, or something else."""
        answer = self._request(b"info " + prefix.encode())
        found = _header(answer)
        return answer.endswith(b" ambiguous") or (found is not None and found.oid != oid)

    def infos(self, oids: Sequence[Oid]) -> list[Object | None]:
        """Return type and size of each object; nothing where not all is answered. Raises GitTimeoutError."""
        found = [*self._answers("info", oids, lambda _, deadline: _header(self.line(deadline)))]
        return found if len(found) == len(oids) else []

    def several(self, known: Sequence[Object]) -> list[Object]:
        """Return objects of known sizes with their bytes, up to the first that git does not answer as it should. Raises
        GitTimeoutError."""
        return [*self._answers("contents", [item.oid for item in known], lambda at, _: self._answer(known[at]))]

    def _answers(self, word: str, oids: Sequence[Oid], answer: Callable[[int, float], T]) -> Iterator[T]:
        """Yield the answers to the same request for each object, up to an error. No more is asked at once than goes into any
        pipe: git waits for us to read. Until all is read, another request would get what is left. Raises GitTimeoutError."""
        many = _PIPE // (len(word) + 2 + max(map(len, oids), default=0))
        try:
            for start in range(0, len(oids), many):
                part = oids[start : start + many]
                self._send("".join(f"{word} {oid}\n" for oid in part).encode())
                deadline = time.monotonic() + self.timeout
                for at in range(start, start + len(part)):
                    yield answer(at, deadline)
        except BaseException as error:
            self.dead = True
            if isinstance(error, GitTimeoutError) or not isinstance(error, GitError):
                raise

    def contents(self, known: Object) -> Object:
        """Return the bytes of an object of known size. Raises GitError when they cannot be read."""
        self._send(b"contents " + known.oid.encode() + b"\n")
        return self._answer(known)

    def _answer(self, known: Object) -> Object:
        """Return the object that was asked for. Raises as ``contents``."""
        deadline = time.monotonic() + self.timeout
        if self.line(deadline) != f"{known.oid} {known.kind} {known.size}".encode():
            self.dead = True
            raise GitError(f"object {known.oid} cannot be read", MENDS)
        while len(self.buffer) <= known.size:
            self.more(deadline)
        data = bytes(self.buffer[: known.size])
        del self.buffer[: known.size + 1]
        return Object(oid=known.oid, kind=known.kind, size=known.size, data=data)

    def _request(self, line: bytes) -> bytes:
        """Send a request; return the first line of the answer."""
        deadline = time.monotonic() + self.timeout
        self._send(line + b"\n")
        return self.line(deadline)

    def _send(self, lines: bytes) -> None:
        try:
            os.write(self.writer, lines)
        except BrokenPipeError:
            self.dead = True


def _header(line: bytes) -> Object | None:
    """Parse ``<oid> <type> <size>``; None for any other answer (missing, ambiguous)."""
    found = _HEADER.match(line)
    if found is None:
        return None
    oid, kind, size = found.groups()
    return Object(oid=oid.decode("ascii"), kind=cast(Kind, kind.decode("ascii", "replace")), size=int(size), data=None)


def clear_stale_locks(common_dir: str, names: Iterable[str], older: float = 10.0) -> None:
    """Remove lock files beside refs of ours that are older than ``older`` seconds. Only while our own lock is held."""
    for name in names:
        path = os.path.join(common_dir, *name.split("/")) + ".lock"
        with suppress(OSError):
            if time.time() - os.stat(path).st_mtime > older:
                os.unlink(path)
