"""Conversations: how far one had come; its content in chunks in git, where that is wanted; and both read back."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext

from gitbaton.agents.conversation import message_id, places
from gitbaton.agents.values import NAMES, Event
from gitbaton.baton import Baton
from gitbaton.codec import Json, canonical, encode_track, parse, parse_transcript
from gitbaton.errors import BatonError, GitError, RecordError, RefConflictError, UsageError
from gitbaton.git.objects import (
    NewObject,
    Objects,
    RefChange,
    TreeEntry,
    commit_data,
    new_object,
    parse_commit,
    parse_tree,
    tree_data,
)
from gitbaton.model import Oid, Stored, Transcript
from gitbaton.store.refs import TRANSCRIPTS
from gitbaton.values import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Mode = Literal["off", "position", "full"]

CHUNK = 64 << 10
MAX_STORED = 256 << 20
PART = 16 << 20  # what one call stores at most: it takes about a second
_MAX_COUNTED = 1 << 30
_MAX_CHUNKS = 10_000
_BLOCK = 1 << 20
_BATCH = 16 << 20
_LOOKED = 64 << 20
_SHORT = 10
_ATTEMPTS = 2
_LOCK_WAIT = 1.0
HINTS = (
    "baton.transcripts is 'off', 'position' or 'full'",
    "'position', the default, stores how far a conversation had come and none of its content, until redaction exists",
)


@value
class _Kept:
    """A stored conversation: its commit, how far it goes, and the blobs of its chunks."""

    commit: Oid
    position: Transcript
    chunks: tuple[Oid, ...]


def record(
    baton: Baton, event: Event, mode: Mode, before: Transcript | None, warn: Callable[[str], None] | None = None
) -> Transcript | None:
    """How far the conversation that an event names has come, at a line's end; in mode ``full`` its content is stored, too.

    ``before`` is the last position of the same session: only what follows it is read. None in mode ``off``, and where there is
    no regular file that can be read or it holds no whole line. What cannot be stored is told to ``warn``, and the position
    comes back without it.
    """
    fd = _opened(event.transcript) if mode != "off" else None
    if fd is None:
        return None
    try:
        if mode != "full" or event.session is None or event.agent not in NAMES:
            return _position(fd, event.agent, before)
        try:
            found, said = _keep(baton, fd, event.agent, event.session)
        except BatonError as error:
            found, said = _position(fd, event.agent, before), f"not stored: {error.message}"
        if said is not None and warn is not None:
            warn(f"the conversation is {said}")
        return found
    except (OSError, MemoryError):
        return None
    finally:
        os.close(fd)


def _opened(path: str | None) -> int | None:
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


def _position(fd: int, agent: str, before: Transcript | None, most: int | None = None) -> Transcript | None:
    """Where the last whole line ends, of ``most`` bytes at most; what lies before ``before`` is not read again."""
    size = os.fstat(fd).st_size if most is None else most
    known = before is not None and 0 < before.size <= size and os.pread(fd, 1, before.size - 1) == b"\n"
    start, lines, last = (before.size, before.lines, before.last) if before is not None and known else (0, 0, None)
    if size - start > _MAX_COUNTED:
        return None
    end = at = start
    while at < size and (block := os.pread(fd, min(_BLOCK, size - at), at)):
        lines += block.count(b"\n")
        end = at + block.rfind(b"\n") + 1 if b"\n" in block else end
        at += len(block)
    if end == 0:
        return None
    return Transcript(size=end, lines=lines, last=_last(fd, agent, start, end) or last)


def _last(fd: int, agent: str, start: int, end: int) -> str | None:
    """The id of the last message between two places, looked for backwards."""
    at, window, rest = end, CHUNK, b""
    while at > start and end - at < _LOOKED:
        begin = max(start, at - window)
        lines = (os.pread(fd, at - begin, begin) + rest).split(b"\n")
        rest = lines.pop(0) if begin > start else b""
        for line in reversed(lines):
            found = message_id(agent, line)
            if found:
                return found
        at, window = begin, window * 2
    return None


def chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines in chunks: each ends with the line that fills 64 KiB, and a line that is longer is one by itself.

    Where the cuts are follows from what comes before them, so whatever is appended, all chunks but the last stay.
    """
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and len(line) > CHUNK:
            yield b"".join(part)
            part, size = [], 0
        part.append(line)
        size += len(line)
        if size >= CHUNK:
            yield b"".join(part)
            part, size = [], 0
    if part:
        yield b"".join(part)


def _lines(fd: int, start: int, end: int) -> Iterator[bytes]:
    with open(os.dup(fd), "rb", buffering=_BLOCK) as file:
        file.seek(start)
        while start < end and (line := file.readline(end - start)):
            start += len(line)
            yield line


def transcript_ref(agent: str, session: str) -> str:
    """The ref of a stored conversation. Raises UsageError for a session that no ref can be named after."""
    return f"{TRANSCRIPTS}{agent}/{encode_track(session)}"


def _keep(baton: Baton, fd: int, agent: str, session: str) -> tuple[Transcript | None, str | None]:
    """Store what is new; what another process has stored meanwhile is built upon, at last with the lock held all along."""
    ref = transcript_ref(agent, session)
    for _ in range(_ATTEMPTS):
        try:
            return _keep_once(baton, fd, ref, agent, session, baton.repo.lock((ref,), wait=_LOCK_WAIT))
        except RefConflictError:
            continue
    with baton.repo.lock((ref,), wait=_LOCK_WAIT):
        return _keep_once(baton, fd, ref, agent, session, nullcontext())


def _keep_once(
    baton: Baton, fd: int, ref: str, agent: str, session: str, guard: AbstractContextManager[None]
) -> tuple[Transcript | None, str | None]:
    """Store what is new: objects first, then the ref under the guard. Raises RefConflictError where another was first.

    Of much that is new only a part, for a hook has little time: then what comes back names no commit, and why.
    """
    objects = baton.repo.objects
    found = objects.info(ref)
    old = found.oid if found else None
    tip = _extended(objects, old, fd, agent, session)
    known = tip.position if tip else None
    now = _position(fd, agent, known)
    if now is None or now.size > MAX_STORED:
        return now, f"not stored: it has {now.size} bytes, and the limit is {MAX_STORED}" if now else None
    if tip is not None and now == known:
        return replace(now, stored=tip.commit), None
    start = known.size if known else 0
    part = _position(fd, agent, known, start + PART) if now.size - start > PART else now
    if part is None or part == known:  # one line is longer
        part = now
    commit = _write(baton, fd, part, tip, old, agent, session)
    with guard:
        objects.update([RefChange(name=ref, new=commit, old=old)])
    if part != now:
        return now, f"stored up to byte {part.size} of {now.size}; the next checkpoint goes on from there"
    return replace(now, stored=commit), None


def _extended(objects: Objects, oid: Oid | None, fd: int, agent: str, session: str) -> _Kept | None:
    """What is stored, where the file begins with it; a file that was rewritten is stored anew."""
    try:
        kept = _kept(objects, oid, agent, session) if oid else None
    except RecordError:
        return None
    if kept is None or not kept.chunks:
        return None
    tail = objects.read(kept.chunks[-1], MAX_STORED)
    if tail is None or tail.data is None or tail.kind != "blob":
        return None
    start = kept.position.size - tail.size
    if start < 0 or os.fstat(fd).st_size < kept.position.size or os.pread(fd, tail.size, start) != tail.data:
        return None
    return kept


def _write(baton: Baton, fd: int, found: Transcript, tip: _Kept | None, parent: Oid | None, agent: str, session: str) -> Oid:
    """Write the objects of a conversation; those of whole chunks that are stored already are used again."""
    objects = baton.repo.objects
    whole, start = _whole(objects, tip)
    oids, batch, size = list(whole), [], 0
    for data in chunks(_lines(fd, start, found.size)):
        start += len(data)
        batch.append(new_object(objects.algorithm, "blob", data))
        oids.append(batch[-1].oid)
        size += len(data)
        if size >= _BATCH:
            objects.write(batch)
            batch, size = [], 0
    if start != found.size:
        raise GitError("its file changed while it was read")
    entries = [TreeEntry(mode=b"100644", name=b"%08d" % n, oid=oid) for n, oid in enumerate(oids)]
    batch += _frame(objects, entries, _meta(found, agent, session))
    batch.append(new_object(objects.algorithm, "commit", _commit(baton, batch[-1].oid, parent, found)))
    objects.write(batch)
    return batch[-1].oid


def _whole(objects: Objects, tip: _Kept | None) -> tuple[tuple[Oid, ...], int]:
    """The chunks that nothing can be appended to, and where they end."""
    if tip is None:
        return (), 0
    last = objects.info(tip.chunks[-1])
    size = last.size if last else 0
    return (tip.chunks, tip.position.size) if size >= CHUNK else (tip.chunks[:-1], tip.position.size - size)


def _frame(objects: Objects, entries: list[TreeEntry], meta: bytes) -> list[NewObject]:
    """The trees and the meta blob around chunks; the last is the tree of the commit."""
    folder = new_object(objects.algorithm, "tree", tree_data(entries))
    blob = new_object(objects.algorithm, "blob", meta)
    top = [
        TreeEntry(mode=b"40000", name=b"chunks", oid=folder.oid),
        TreeEntry(mode=b"100644", name=b"meta", oid=blob.oid),
    ]
    return [folder, blob, new_object(objects.algorithm, "tree", tree_data(top))]


def _meta(found: Transcript, agent: str, session: str) -> bytes:
    said: dict[str, Json] = {"v": 1, "agent": agent, "session": session}
    return canonical({**said, "bytes": found.size, "lines": found.lines, "last": found.last})


def _commit(baton: Baton, tree: Oid, parent: Oid | None, found: Transcript) -> bytes:
    above = baton.repo.objects.info(parent) if parent else None
    parents = [above.oid] if above and above.kind == "commit" else []
    author = baton.author()[0] + b" %d +0000" % int(baton.clock().timestamp())
    text = f"conversation of {found.lines} lines\n".encode()
    return commit_data(tree=tree, parents=parents, author=author, message=text)


def _kept(objects: Objects, oid: Oid, agent: str, session: str) -> _Kept:
    """A stored conversation, whoever wrote it. Raises RecordError when it is not one, or is that of another session."""
    commit = objects.read(oid)
    if commit is None or commit.kind != "commit" or commit.data is None:
        raise RecordError(f"'{oid}' is not the commit of a conversation")
    top = _tree(objects, parse_commit(commit.data).tree, oid)
    if [(e.name, e.mode) for e in top] != [(b"chunks", b"40000"), (b"meta", b"100644")]:
        raise RecordError(f"commit {oid} does not hold a conversation")
    entries = _tree(objects, top[0].oid, oid)
    if len(entries) > _MAX_CHUNKS or any(e.mode != b"100644" or e.name != b"%08d" % number for number, e in enumerate(entries)):
        raise RecordError(f"commit {oid} does not hold the chunks of a conversation")
    return _Kept(commit=oid, position=_parsed(objects, top[1].oid, agent, session), chunks=tuple(e.oid for e in entries))


def _tree(objects: Objects, oid: Oid, where: Oid) -> list[TreeEntry]:
    found = objects.read(oid)
    if found is None or found.kind != "tree" or found.data is None:
        raise RecordError(f"commit {where} does not hold a conversation")
    return parse_tree(found.data, objects.algorithm)


def _parsed(objects: Objects, oid: Oid, agent: str, session: str) -> Transcript:
    """The position that a meta blob tells."""
    found = objects.read(oid)
    said = parse(found.data) if found and found.kind == "blob" and found.data else None
    if not isinstance(said, dict) or said.get("v") != 1:
        raise RecordError(f"'{oid}' does not describe a conversation")
    if (said.get("agent"), said.get("session")) != (agent, session):
        raise RecordError(f"'{oid}' describes another conversation")
    last = said.get("last")
    text = f"bytes={said.get('bytes')} lines={said.get('lines')}" + (f" last={last}" if last is not None else "")
    position = parse_transcript(text)
    if position is None or position.stored is not None or position.size > MAX_STORED:
        raise RecordError(f"'{oid}' describes no conversation that can be")
    return position


def position(stored: Stored) -> Transcript:
    """How far the conversation of a checkpoint had come. Raises BatonError where the checkpoint knows of none."""
    agent = stored.checkpoint.agent
    found = parse_transcript(agent.transcript) if agent else None
    if found is None or agent is None or agent.session is None:
        raise BatonError(f"checkpoint '{stored.id[:_SHORT]}' knows of no conversation", HINTS[0])
    return found


def read(baton: Baton, stored: Stored, env: Mapping[str, str]) -> bytes:
    """The conversation up to a checkpoint: from what is stored, else from the client's own file on this machine, else from
    what was stored later.

    Raises RecordError when what is stored is no conversation, BatonError where there is neither.
    """
    wanted, agent = position(stored), stored.checkpoint.agent
    assert agent is not None and agent.session is not None  # else there is no position
    objects = baton.repo.objects
    if wanted.stored is not None and objects.info(wanted.stored) is not None:
        return _stored(objects, wanted.stored, wanted, agent.name, agent.session)
    name, found = stored.id[:_SHORT], False
    for path in _local(agent.name, agent.session, env):
        fd = _opened(path)
        if fd is None:
            continue
        found = True
        with open(fd, "rb") as file:
            data = file.read(wanted.size) if os.fstat(fd).st_size >= wanted.size else b""
        if _is(data, wanted):
            return data
    later = _stored_since(objects, wanted, agent.name, agent.session)
    if later is not None:
        return later
    if found:
        raise BatonError(
            f"the client has rewritten the conversation of checkpoint '{name}', and its content is not stored", *HINTS
        )
    where = "not in this repository" if wanted.stored else "not stored"
    raise BatonError(f"the conversation of checkpoint '{name}' is {where}, and the client has no file of it here", *HINTS)


def _is(data: bytes, wanted: Transcript) -> bool:
    """Whether bytes are the conversation up to a position."""
    whole = len(data) == wanted.size and data.endswith(b"\n") and data.count(b"\n") == wanted.lines
    return whole and (wanted.last is None or wanted.last.encode() in data)


def _local(agent: str, session: str, env: Mapping[str, str]) -> Iterator[str]:
    """Files that may be a client's transcript of a session; the session is a name and never a path."""
    from glob import escape, iglob

    for folder, pattern in places(agent, session, env):
        yield from sorted(iglob(f"{escape(folder)}/{pattern}"))


def _stored_since(objects: Objects, wanted: Transcript, agent: str, session: str) -> bytes | None:
    """The conversation up to a position, where a later checkpoint of the session has stored it."""
    try:
        found = objects.info(transcript_ref(agent, session)) if agent in NAMES else None
        return _stored(objects, found.oid, wanted, agent, session) if found else None
    except (RecordError, UsageError):
        return None


def _stored(objects: Objects, oid: Oid, wanted: Transcript, agent: str, session: str) -> bytes:
    """The bytes of a stored conversation up to a position, whoever stored it."""
    kept = _kept(objects, oid, agent, session)
    parts, size = [], 0
    for chunk in kept.chunks:
        found = objects.read(chunk, MAX_STORED - size)
        if found is None or found.kind != "blob" or not found.data or not found.data.endswith(b"\n"):
            raise RecordError(f"commit {oid} does not hold the chunks of a conversation")
        parts.append(found.data)
        size += found.size
        if size >= wanted.size:
            break
    data = b"".join(parts)[: wanted.size]
    if not _is(data, wanted):
        raise RecordError(f"commit {oid} does not hold the conversation up to byte {wanted.size}")
    return data
