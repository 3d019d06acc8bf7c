"""The write-ahead log of a repository's threads: all processes append to it, and each sees what the others did."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from zlib import crc32

from gitbaton.errors import GitError, UsageError
from gitbaton.threads import walfile
from gitbaton.threads.walfile import HEAD, MOST, START, damaged, failed, fdatasync, pack_record, path_of
from gitbaton.threads.walopen import Opened, unwritable
from gitbaton.threads.walstate import Place, Records, State, leave

_MANY = 8  # sealed segments: git takes nothing for some time, and what they do not fill is given back
_FAR = 1 << 16  # segments; no log has so many


class Wal(Opened):
    """The log in a folder, which is made when there is none. ``sync``: whether ``sync`` waits for the disk.

    ``opened`` says how often this object opened the log: once, and once more when a forked child uses it; ``read`` then gives
    everything anew. ``readonly`` says that we may not write there: what others have in the log can be read, nothing appended;
    a change of a log that nobody else has open counts as opening it, too. Raises GitError when the log cannot be opened."""

    @property
    def changed(self) -> bool:
        """Whether anybody else appended or dropped since our last read; after a fork it is so, too."""
        return self._words[1] != self._seen

    @property
    def epoch(self) -> int:
        """Goes up when segments were dropped or refs changed otherwise; as of our last read."""
        return self._place[0] + (self.opened << 40)

    @property
    def oldest(self) -> int:
        """Records of segments below this one are gone, as of our last read."""
        return self._place[1] + self._shift

    @property
    def segment(self) -> int:
        """The segment of a record that was just appended."""
        return self._place[2] + self._shift

    @property
    def back(self) -> float:
        """When a thread of this process that waits for the disk is likely to go on, as ``time.perf_counter`` counts; 0 when
        none waits."""
        return self._tail.back

    @property
    def strict(self) -> bool:
        """Whether the log may hold what somebody waited to have on disk: whoever drops that has it on disk elsewhere."""
        return self._strict or (self._state is not None and self._state.strict)

    @property
    def ending(self) -> bool:
        """Whether the log is being closed: nothing is appended any more."""
        return self._ending

    def read(self) -> Records:
        """Segment and payload of what others appended since the last read, in order; the first time of all that is in the log.
        Under the lock. Raises RecordError, GitError."""
        if self._words[1] == self._seen:
            return []
        if self._state is None and self.readonly and self._appends.mine:
            self._seen = self._dead_at
            return [(number + self._shift, payload) for number, payload in self._dead]
        (seen, place), shift = self._own().get(), self._shift
        _, oldest, active, end, last, _, _ = place
        number, pos, chain = self._read_to
        if number < oldest:
            number, pos, chain = oldest, 0, 0
        if not number <= active < number + _FAR or max(place[5:]) >> 60:
            raise damaged(self.folder, f"it cannot go on in segment {active}")
        found: Records = []
        try:
            while number < active:
                found += [(number + shift, payload) for payload in self._records(number, pos, chain, None)[0]]
                number, pos, chain = number + 1, 0, 0
            if end > pos:
                payloads, pos, chain = self._records(number, pos, chain, end)
                found += [(number + shift, payload) for payload in payloads]
        except OSError as error:
            raise failed(error, "read") from None
        if (number, pos, chain) != (active, end, last):
            raise damaged(self.folder, f"segment {active} does not end where it should")
        self._read_to, self._place, self._seen = (active, end, last), place, seen
        return found

    def rewind(self) -> None:
        """Let the next ``read`` give all that is in the log, our own records, too: for one who lost what it had read. Under the
        lock."""
        if self._state is not None or not self.readonly:
            self._own()
        self._read_to, self._seen = (0, 0, 0), -1

    def _records(self, number: int, pos: int, chain: int, end: int | None) -> tuple[list[bytes], int, int]:
        """The records of a segment from a place on."""
        own = number == self._tail.number
        try:
            fd = self._tail.fd if own else os.open(path_of(self.folder, number), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return [], pos, chain
        try:
            if not pos:
                head = walfile.opened(fd)
                if head is None or head[0] != number:  # dropped by one who was killed before it could say so
                    return [], pos, chain
                pos, chain = START, head[1]
            return walfile.scan(fd, pos, chain, os.fstat(fd).st_size if end is None else end)[:3]
        finally:
            if not own:
                os.close(fd)

    def _own(self) -> State:
        if not self._appends.mine or self._state is None:
            if self._appends.mine and self.readonly:
                raise unwritable()
            raise UsageError("the log of threads is used without its lock")
        return self._state

    def append(self, payload: bytes) -> int:
        """Add a record; a token for ``sync``. Under the lock, after ``read``. Raises GitError when it cannot be written, for
        want of room or because the log is read-only, and then the log is as it was; UsageError for a payload that is empty or
        longer than 1 GiB, and once the log is being closed."""
        state, size, tail = self._own(), len(payload), self._tail
        epoch, oldest, number, pos, chain, records, total = self._place
        fits = pos and size and number == tail.number and pos + size + 2 * HEAD <= tail.room
        try:
            head = b""
            if not fits or self._ending or tail.broken or self._words[1] != self._seen:
                head, number, pos, chain = self._begin(size)
            crc = crc32(payload, chain ^ size)
            raw = head + pack_record(size, crc) + payload
            if tail.due and pos > tail.room >> 1:
                tail.prepare(self.folder, oldest, strict=state.strict)
            if os.pwrite(tail.fd, raw, pos - len(head)) != len(raw):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise failed(error, "written") from None
        end, seen = pos + HEAD + size, self._seen + 1
        tail.appended = token = tail.appended + 1
        place = (epoch, oldest, number, end, crc, records + 1, total + HEAD + size)
        state.put(seen, place)
        self._read_to, self._place, self._seen = (number, end, crc), place, seen
        return token

    def _begin(self, size: int) -> tuple[bytes, int, int, int]:
        """Have a segment open that a record of this size fits in: its header if it is new, its number, where the record goes,
        and the checksum before it."""
        tail, (_, oldest, number, pos, chain, _, _) = self._tail, self._place
        if not 0 < size <= MOST:
            raise UsageError(f"a record of {size} bytes does not go into the log of threads")
        self._writable()
        if self._ending:
            raise UsageError("the log of threads is closed")
        if tail.broken:
            raise GitError(tail.broken)
        if pos:
            self._reach(number)
            if pos + size + 2 * HEAD <= tail.room:
                return b"", number, pos, chain
            self._seal()
            number += 1
        tail.rest()
        need, likely = START + size + 2 * HEAD, tail.likely if pos else max(tail.room, walfile.SMALL)
        strict = self._own().strict
        tail.use(walfile.take(self.folder, number, oldest, need, likely, sync=strict, share=self.share), number)
        salt = int.from_bytes(os.urandom(4), "little")
        return walfile.header(number, salt), number, START, salt

    def _writable(self) -> State:
        state = self._own()
        if self.readonly:
            raise unwritable()
        if self._words[1] != self._seen:
            raise UsageError("the log of threads is written to without having been read")
        return state

    def _reach(self, number: int) -> None:
        """Have the active segment open."""
        if number != self._tail.number:
            self._tail.use(os.open(path_of(self.folder, number), os.O_RDWR | os.O_CLOEXEC), number)

    def _seal(self) -> None:
        """End the active segment; on disk before anything is in the next."""
        state, tail, (epoch, oldest, number, pos, chain, records, total) = self._own(), self._tail, self._place
        self._reach(number)
        if os.pwrite(tail.fd, walfile.seal(chain), pos) != HEAD:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if state.strict and not tail.broken:
            fdatasync(tail.fd)
        if number - oldest > _MANY:
            os.ftruncate(tail.fd, pos + HEAD)
        self._put((epoch, oldest, number + 1, 0, 0, records, total))

    def _put(self, place: Place) -> None:
        self._own().put(self._seen + 1, place)
        self._read_to, self._place, self._seen = place[2:5], place, self._seen + 1

    def sync(self, token: int) -> None:
        """Return when a record is on disk, with all before it; at once where the log was opened without sync. Not under the
        lock. Raises GitError when the disk fails: nothing is appended then until what is in the log is in git and dropped."""
        tail = self._tail
        if token > tail.synced and self._strict:
            tail.sync(token)

    def rotate(self) -> int:
        """Go on in the next segment: all that was appended so far is in segments up to the number that is returned. Under the
        lock, after ``read``. Raises GitError."""
        self._writable()
        try:
            if self._place[3]:
                self._seal()
        except OSError as error:
            raise failed(error, "written") from None
        epoch, oldest, number, _, _, records, _ = self._place
        if records:
            self._put((epoch, oldest, number, 0, 0, 0, 0))
        return number - 1 + self._shift

    def drop(self, n: int) -> None:
        """Forget the segments up to ``n``: they are in git. They are never read again, also after a power cut. The epoch goes
        up. Under the lock, after ``read``. Raises GitError; UsageError for the active segment: it must be rotated first."""
        state, (epoch, oldest, number, *rest) = self._writable(), self._place
        n -= self._shift
        if n >= number:
            raise UsageError(f"segment {n} of the log of threads is not sealed")
        try:
            walfile.wipe([path_of(self.folder, one) for one in range(oldest, n + 1)], sync=state.strict)
            oldest = max(oldest, n + 1)
            self._put((epoch + 1, oldest, number, *rest))  # type: ignore[arg-type]
            self._tail.broken = self._tail.broken if self._tail.number >= oldest else ""
            walfile.trim(self.folder, oldest, sync=state.strict)
        except OSError as error:
            raise failed(error, "written") from None

    def bump(self) -> None:
        """Let the epoch go up: refs were changed. Under the lock, after ``read``. Raises GitError."""
        self._writable()
        epoch, *rest = self._place
        self._put((epoch + 1, *rest))  # type: ignore[arg-type]

    def close(self, last: Callable[[], object] = lambda: None) -> None:
        """Let go of the log; nothing is appended from now on, and who waits in ``sync`` is served. When nobody else has it
        open, ``last`` is called, which should write it to git, and its files are removed if nothing is left in it. Raises
        GitError, and what ``last`` raises: the files then stay. To close again does nothing."""
        failure = None
        if self._state is not None and not self.readonly:
            try:
                with self.lock():
                    again, self._ending = self._ending, True
            except UsageError:  # another thread has just closed it
                return
            if again:
                return
        try:
            if self._ending:
                failure = self._end(last)
        finally:
            with self._appends.mutex, self._opening:
                self._closed = True
                self._let_go()
        if failure is not None:
            raise failure

    def _end(self, last: Callable[[], object]) -> GitError | None:
        """Serve those who wait, and leave; what went wrong, if that is not in git."""
        failure, state = None, self._state
        try:
            self.sync(self._tail.appended)
        except GitError as error:
            failure = error
        self._tail.rest()
        if state is not None:
            leave(state, self.folder, lambda: self._is_empty(last))
        return failure if self._tail.broken else None

    def _is_empty(self, last: Callable[[], object]) -> bool:
        """Whether nothing is in the log after ``last``."""
        last()
        with self.lock():
            self.read()
            return self._place[1] == self._place[2] and not self._place[3]
