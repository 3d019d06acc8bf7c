"""Transcript files of clients: opened without blocking, read by position; the position of a conversation; and digests, kept on
this machine alone, of the file that a stored conversation was made from: one of a text of which only a password is unknown
would give the password away to its readers elsewhere."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import suppress

from gitbaton.agents.client import Client, client
from gitbaton.agents.records import MAX_LINE, message_id, messages
from gitbaton.base.clients import HookEvent
from gitbaton.base.model import Oid, Transcript
from gitbaton.base.system.files import read_regular
from gitbaton.base.values import TYPE_CHECKING, value
from gitbaton.git.repo import Repo, clear_old, make_folder, put

if TYPE_CHECKING:
    from hashlib import blake2b


BLOCK = 1 << 20
_MAX_COUNTED = 1 << 30
_LOOKED = 4 << 20  # bytes in which the last message is looked for
_WINDOW, _WIDEST = 64 << 10, 4 << 20
_TAIL = 256 << 10
_ESCAPED = 6  # bytes that JSON takes at most for one of text
KEPT_SECONDS = 14 * 86_400
_FORGOTTEN = b"forgotten"
_TOLD = b"git baton: the state of track"
_MAX_BYTES = 512
_V1, _V2 = re.compile(r"1 (\w+) (\d+) ([0-9a-f]{64})"), re.compile(r"2 (\w+) (\d+) ([0-9a-f]{64}) ([0-9a-f]{64}) (\d+) (\d+)")
_PAUSES, _PAUSE = 15, 0.01  # seconds each


def opened(path: str | None) -> int | None:
    """A regular file, open for reading; None for anything else, without waiting for it or waking a device."""
    if path is None or not os.path.isabs(path) or "\0" in path:
        return None
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def blocks(fd: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes between two places, in blocks; fewer where the file ends before."""
    while start < end and (block := os.pread(fd, min(BLOCK, end - start), start)):
        start += len(block)
        yield block


def lines(fd: int, start: int, end: int) -> Iterator[bytes]:
    """The lines between two places, with their ends."""
    with open(os.dup(fd), "rb", buffering=BLOCK) as file:
        file.seek(start)
        while start < end and (line := file.readline(end - start)):
            start += len(line)
            yield line


def lines_back(fd: int, start: int, end: int) -> Iterator[bytes]:
    """The lines between two places without their ends, the last first; that one is what follows the last end of a line."""
    at, window, rest = end, _WINDOW, b""
    while at > start:
        begin = max(start, at - window)
        rows = (os.pread(fd, at - begin, begin) + rest).split(b"\n")
        rest = rows.pop(0) if begin > start else b""
        yield from reversed(rows)
        at, window = begin, min(window * 2, _WIDEST)


def measure(fd: int, agent: str, before: Transcript | None, most: int | None = None) -> Transcript | None:
    """Measure a transcript up to its last whole line, of ``most`` bytes at most; what precedes ``before`` is not read again."""
    size = os.fstat(fd).st_size if most is None else most
    known = before is not None and before.size <= size and _goes_on(fd, agent, before)
    start, lines, last = (before.size, before.lines, before.last) if before is not None and known else (0, 0, None)
    if size - start > _MAX_COUNTED:
        return None
    end = at = start
    for block in blocks(fd, start, size):
        lines += block.count(b"\n")
        end = at + block.rfind(b"\n") + 1 if b"\n" in block else end
        at += len(block)
    if end == 0:
        return None
    return Transcript(size=end, lines=lines, last=_last(fd, agent, start, end) or last)


def _goes_on(fd: int, agent: str, before: Transcript) -> bool:
    """Whether a line still ends at a position, and the last message up to there is the same; else the file was rewritten."""
    if before.last is None or before.size < 1 or os.pread(fd, 1, before.size - 1) != b"\n":
        return False
    return _last(fd, agent, 0, before.size) == before.last


def settle(fd: int, event: HookEvent) -> None:
    """Wait until the file holds the last words of a turn, and not for long: a client may write them after it called us. Where
    the event does not say them, the client's record of the call itself is waited for, which comes after them."""
    words = (event.said or "").strip()
    of = client(event.agent)
    if of is None or event.moment != "turn" or not (words or of.calls):
        return
    tail = min(MAX_LINE, _TAIL + _ESCAPED * len(words.encode("utf-8", "replace")))
    seen = -1
    for _ in range(_PAUSES):
        size = os.fstat(fd).st_size
        data = os.pread(fd, tail, max(0, size - tail)) if size != seen else b""
        if data and (_ends_with(of, data, words) if words else _calls(of, data, event.name)):
            return
        seen = size
        time.sleep(_PAUSE)


def _ends_with(of: Client, tail: bytes, words: str) -> bool:
    """Whether the last thing said in whole lines is the assistant's, and ends with these words, or they with it."""
    said = [message for message in messages(of, tail[: tail.rfind(b"\n") + 1]) if message.who != "system"]
    last = said[-1].text.strip() if said and said[-1].who == "assistant" else ""
    return bool(last) and (last.endswith(words) or words.endswith(last))


def _calls(of: Client, tail: bytes, name: str) -> bool:
    """Whether the last call of a hook that the client has written down is the one for an event."""
    found = (of.called(line, name) for line in reversed(tail.split(b"\n")[:-1]))
    return next((called for called in found if called is not None), False)


def compacted(event: HookEvent) -> bool:
    """Whether the window was compacted since a session was told of the state here, as its file says both."""
    of, fd = client(event.agent), opened(event.transcript)
    if of is None or fd is None:
        return False
    with open(fd, "rb"), suppress(OSError):
        size = os.fstat(fd).st_size
        for line in lines_back(fd, max(0, size - _LOOKED), size):
            if _TOLD in line or re.search(of.compacts, line):
                return _TOLD not in line
    return False


def _last(fd: int, agent: str, start: int, end: int) -> str | None:
    """The id of the last message between two places, looked for backwards."""
    if (of := client(agent)) is None:
        return None
    lines = lines_back(fd, max(start, end - _LOOKED), end)
    return next((found for line in lines if (found := message_id(of, line))), None)


def hasher(data: bytes = b"") -> blake2b:
    """A digest of some bytes. CPython's own BLAKE2 where it is there: importing OpenSSL's costs a start 3 ms."""
    try:
        from _blake2 import blake2b as found
    except ImportError:
        from hashlib import blake2b as found
    made: blake2b = found(data, digest_size=32)
    return made


class Digest:
    """The digest of a file that grows: of its last bytes, and of the ``chain``, which is that of its whole blocks; from these
    it can be gone on with."""

    def __init__(self, size: int = 0, chain: str = "0" * 64) -> None:
        """``size``: of the whole blocks that ``chain`` is of."""
        self.size, self.chain, self._last = size, chain, hasher()

    def update(self, data: bytes) -> None:
        """Go on with some more bytes."""
        while data:
            part = data[: BLOCK - self.size % BLOCK]
            self._last.update(part)
            self.size += len(part)
            if self.size % BLOCK == 0:
                self.chain, self._last = self.hexdigest(), hasher()
            data = data[len(part) :]

    def hexdigest(self) -> str:
        """That of all bytes until now."""
        return hasher(f"{self.chain} {self._last.hexdigest()}".encode()).hexdigest()


@value
class SourceDigest:
    """Proof that a stored conversation, its ``commit``, was made from the first ``size`` bytes of a file, which have a
    ``digest``, its whole blocks a ``chain``; ``file``: the device and the number of that file. One of the first kind has no
    chain, and one digest of all."""

    commit: Oid
    size: int
    digest: str
    chain: str = ""
    file: tuple[int, int] = (0, 0)


def load_digest(repo: Repo, ref: str) -> SourceDigest | None:
    """Return the digest noted last of the conversation of a ref; None where none can be read."""
    noted = _noted(digest_path(repo, ref)).decode("ascii", "replace")
    if found := _V2.fullmatch(noted):
        commit, size, digest, chain, device, inode = found.groups()
        return SourceDigest(commit=commit, size=int(size), digest=digest, chain=chain, file=(int(device), int(inode)))
    if found := _V1.fullmatch(noted):
        commit, size, digest = found.groups()
        return SourceDigest(commit=commit, size=int(size), digest=digest)
    return None


def _noted(name: str) -> bytes:
    try:
        return read_regular(name, _MAX_BYTES).removesuffix(b"\n")
    except OSError:
        return b""


def save_digest(repo: Repo, ref: str, noted: SourceDigest) -> None:
    """Note a digest, readable by its owner alone, or by all users of a shared repository; with a conversation's first, what is
    old goes. Never raises: without it the next one compares everything."""
    name = digest_path(repo, ref)
    first = not os.path.lexists(name)
    try:
        _put(repo, name, f"2 {noted.commit} {noted.size} {noted.digest} {noted.chain} {noted.file[0]} {noted.file[1]}".encode())
    except OSError:
        return
    if first:
        prune_digests(repo)


def mark_forgotten(repo: Repo, ref: str) -> None:
    """Note that the conversation was forgotten, so that no hook stores it again from the client's file, of which all is still
    there. Raises OSError."""
    _put(repo, digest_path(repo, ref), _FORGOTTEN)


def _put(repo: Repo, name: str, data: bytes) -> None:
    make_folder(repo, repo.shared_dir)
    make_folder(repo, os.path.dirname(name), mode=0o700)
    put(repo, name, data + b"\n", fresh=f".{os.getpid()}", mode=0o600)


def is_forgotten(repo: Repo, ref: str) -> bool:
    """Whether the conversation of a ref was forgotten: only its positions are recorded from then on."""
    return _noted(digest_path(repo, ref)) == _FORGOTTEN


def digest_path(repo: Repo, ref: str) -> str:
    """The file of a conversation's ref, ``<common dir>/baton/transcripts/<agent>/<session, encoded>``."""
    return os.path.join(repo.shared_dir, ref.removeprefix("refs/baton/"))


def prune_digests(repo: Repo) -> None:
    """Remove what was noted two weeks ago and not since, but never that one was forgotten. Never raises."""
    since, top = time.time() - KEPT_SECONDS, os.path.join(repo.shared_dir, "transcripts")
    with suppress(OSError):
        for folder in [os.path.join(top, agent) for agent in os.listdir(top)]:

            def goes(name: str, found: os.stat_result, folder: str = folder) -> bool:
                old = stat.S_ISREG(found.st_mode) and found.st_mtime < since
                return old and _noted(os.path.join(folder, name)) != _FORGOTTEN

            clear_old(repo, folder, goes)
