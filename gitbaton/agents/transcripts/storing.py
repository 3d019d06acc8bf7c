"""Conversations stored and read back: at a hook's event the position, and the content, redacted, one line for each, only what
is new, beside any other writer; what was said around a checkpoint; and a conversation from what is stored, else from the
client's own file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from io import BytesIO
from itertools import chain

from gitbaton.agents.client import client
from gitbaton.agents.records import where
from gitbaton.agents.transcripts import files, layout
from gitbaton.agents.transcripts.files import blocks, lines, measure, opened, settle
from gitbaton.agents.transcripts.layout import CHUNK, StoredConversation
from gitbaton.base.clients import DATABASES, NAMES, HookEvent
from gitbaton.base.codec import in_quotes, parse_transcript, told_bytes
from gitbaton.base.errors import BatonError, GitError, RecordError, ScanError, UsageError
from gitbaton.base.model import Agent, Oid, Stored, Told, Transcript
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store.chain import Guard, append_to
from gitbaton.checkpoints.store.refs import REMOTES, remote_of
from gitbaton.git.objects import Object, Objects, RefChange, TreeEntry, new_object, object_id
from gitbaton.git.publish import publish, publish_reachable
from gitbaton.git.reffiles import below

if TYPE_CHECKING:
    from typing import Literal

    from gitbaton.base.secrets import Redactor

    Mode = Literal["off", "position", "full"]
else:
    Mode = str
_SHORT = 10
_NONE = "the hooks of an agent record it: 'git baton agent list' says which agents have them"
_STORES = "'git config baton.transcripts full' has the hooks store from now on what is said, redacted"
MARK = b"[redacted:"  # begins whatever stands for a secret
PART = 2 << 20  # bytes of new lines that are stored at once: to redact them takes half a second
LITTLE = 32 << 10
"""Bytes of new lines that a hook stores itself while its client waits."""
_ELSEWHERE = b'{"type":"[redacted:elsewhere]"}\n'  # stands for a line that is not stored
_BATCH = 16 << 20
_AHEAD = 2  # attempts that build before the lock: to read a conversation takes long


@value
class Storing:
    """Way in which a conversation is stored: in parts of so many bytes, after each of which ``told`` is called with how many of
    the file are stored by then; ``without`` the lines between some two places, of which a mark takes the place of each."""

    part: int = PART
    told: Callable[[int], None] = lambda size: None
    without: Sequence[tuple[int, int]] = ()


WHOLE = Storing()


def record(
    baton: Baton,
    event: HookEvent,
    mode: Mode,
    before: Transcript | None,
    warn: Callable[[str], None] | None = None,
    seconds: float | None = 0.0,
    how: Storing = WHOLE,
) -> Transcript | None:
    """Record how far the conversation that an event names has come, at a line's end; in mode ``full`` its content is stored,
    too, for so many ``seconds``, one part of it at least; for None only where no more than a LITTLE is new, and ``behind``
    tells of it.

    ``before`` is the last position of the same session: where the file goes on from it, only what follows is read. The last
    words of a turn are waited for, for a moment. None in mode ``off``, and where there is no regular file that can be read or
    it holds no whole line. Of a conversation that was forgotten everywhere nothing more is stored. What cannot be stored is
    told to ``warn``, and the position comes back without it.

    Raises ScanError, and has moved no ref, where content cannot be redacted: no checkpoint is to follow then either.
    """
    fd = opened(event.transcript) if mode != "off" else None
    if fd is None:
        return None
    try:
        settle(fd, event)
        try:
            if (
                mode != "full"
                or event.session is None
                or event.agent not in NAMES
                or files.is_forgotten(baton.repo, layout.transcript_ref(event.agent, event.session))
            ):
                return measure(fd, event.agent, before)
            known = stored_position(baton, event.agent, event.session)
            if seconds is None and os.fstat(fd).st_size - (known.size if known else 0) > LITTLE:
                return measure(fd, event.agent, before or known)
            found, said = _keep(baton, fd, event.agent, event.session, seconds, how)
        except ScanError:
            raise
        except BatonError as error:
            found, said = measure(fd, event.agent, before), f"not stored: {error.message}"
        if said is not None and warn is not None:
            warn(f"the conversation is {said}")
        return found
    except (OSError, MemoryError):
        return None
    finally:
        os.close(fd)


def redacted(look: Callable[[bytes], bytes], raw: Iterable[bytes]) -> Iterator[bytes]:
    """Each line, with its end, as it may be stored and shown. Raises ScanError."""
    for line in raw:
        clean = look(line)
        if clean is not line and (clean.count(b"\n"), clean[-1:]) != (line.count(b"\n"), line[-1:]):
            raise ScanError("redaction made other lines of a conversation")
        yield clean


def clean(redactor: Redactor, data: bytes) -> bytes:
    """A whole conversation as it may be shown. Raises ScanError."""
    return b"".join(redacted(redactor.line, BytesIO(data)))


@value
class _Talk:
    """A conversation that is to be stored: its file, its session, its ref, and how a line of it is redacted, none twice."""

    baton: Baton
    look: Callable[[bytes], bytes]
    fd: int
    agent: str
    session: str
    ref: str
    hurry: bool
    how: Storing


@value
class _Tip:
    """The part that is stored already: its ``whole`` chunks, to which nothing can be appended, the bytes of one that follows
    and is not full, and the digest of the part of the client's file that all this was made from."""

    kept: StoredConversation
    whole: tuple[Oid, ...]
    rest: bytes
    hashed: files.Digest


def behind(baton: Baton, event: HookEvent) -> bool:
    """Whether a stored conversation has more new content than a hook stores itself. Never raises."""
    if event.session is None or event.agent not in NAMES or (fd := opened(event.transcript)) is None:
        return False
    try:
        known, size = stored_position(baton, event.agent, event.session), os.fstat(fd).st_size
        much = size - (known.size if known else 0) > LITTLE and size <= layout.MAX_STORED
        return much and not files.is_forgotten(baton.repo, layout.transcript_ref(event.agent, event.session))
    except (OSError, BatonError):
        return False
    finally:
        os.close(fd)


def stored_position(baton: Baton, agent: str, session: str) -> Transcript | None:
    """Return how far in the client's file what is stored goes; None where nothing is that can be read. Raises UsageError,
    GitError."""
    found = baton.repo.objects.info(layout.transcript_ref(agent, session))
    try:
        return layout.kept(baton.repo.objects, found.oid, agent, session).position if found else None
    except RecordError:
        return None


def _keep(
    baton: Baton, fd: int, agent: str, session: str, seconds: float | None, how: Storing
) -> tuple[Transcript | None, str | None]:
    """Store what is new, redacted; what another process has stored meanwhile is built upon, at last with the lock held all
    along. Raises BatonError; ScanError where a secret may be in what cannot be looked at."""
    ref = layout.transcript_ref(agent, session)
    look = cache(baton.redactor.line)  # who has to begin anew, because another was first, is done soon
    talk = _Talk(baton=baton, look=look, fd=fd, agent=agent, session=session, ref=ref, hurry=seconds is None, how=how)
    late = time.monotonic() + (seconds or 0)
    while True:
        found, said, more = append_to(
            baton.repo,
            (ref,),
            lambda guard: _once(talk, guard),
            seconds=0,
            lock=lambda: baton.repo.lock((ref,), wait=layout.LOCK_WAIT),
            ahead=_AHEAD,
        )
        if not more or time.monotonic() >= late:
            return found, said
        look.cache_clear()


def _once(talk: _Talk, guard: Guard) -> tuple[Transcript | None, str | None, bool]:
    """Store what is new: objects first, then the ref under the guard. Raises RefConflictError where another was first.

    Of much that is new only a part: then what comes back names no commit, and why; and whether a further call would go on.
    """
    found = talk.baton.repo.objects.info(talk.ref)
    old = found.oid if found else None
    tip = _extended(talk, old)
    known = tip.kept.position if tip else None
    now = measure(talk.fd, talk.agent, known)
    if now is None or now.size > layout.MAX_STORED:
        return now, f"not stored: it has {now.size} bytes, and the limit is {layout.MAX_STORED}" if now else None, False
    if tip is not None and now == known:
        return replace(now, stored=tip.kept.commit), None, False
    part = _part(talk, known, now)
    commit, digest = _write(talk, part, tip, found)
    with guard:
        if files.is_forgotten(talk.baton.repo, talk.ref):
            return now, None, False
        publish_reachable(talk.baton.repo, [RefChange(name=talk.ref, new=commit, old=old)], automatic=True)
        files.save_digest(talk.baton.repo, talk.ref, _proof(talk, commit, part.size, digest))
    talk.how.told(part.size)
    if part != now:
        return now, f"stored up to byte {part.size} of {now.size}; the next checkpoint goes on from there", True
    return replace(now, stored=commit), None, False


def _part(talk: _Talk, known: Transcript | None, now: Transcript) -> Transcript:
    """Return how far one call goes: so many bytes, or one line that is longer."""
    start = end = known.size if known else 0
    while now.size - end > talk.how.part:
        end += talk.how.part
        part = measure(talk.fd, talk.agent, known, end)
        if part is not None and part.size > start:
            return part
    return now


def _extended(talk: _Talk, oid: Oid | None) -> _Tip | None:
    """Return the part that is stored, where the file begins with all that it was made from; a file that was rewritten is stored
    anew.

    The proof is the digest that this machine noted when it stored it; without one, everything is redacted again and compared.
    """
    objects = talk.baton.repo.objects
    try:
        kept = layout.kept(objects, oid, talk.agent, talk.session) if oid else None
    except RecordError:
        return None
    if kept is None or not kept.chunks or os.fstat(talk.fd).st_size < kept.position.size:
        return None
    found = objects.info(kept.chunks[-1])
    if found is None or found.kind != "blob":
        return None
    hashed = _proven(talk, kept)
    if hashed is None:
        return None
    if found.size >= CHUNK:
        return _Tip(kept=kept, whole=kept.chunks, rest=b"", hashed=hashed)
    last = objects.read(found.oid)
    return _Tip(kept=kept, whole=kept.chunks[:-1], rest=last.data, hashed=hashed) if last and last.data else None


def _proven(talk: _Talk, kept: StoredConversation) -> files.Digest | None:
    """Return the digest of the beginning of the file, where that is what is stored; None where it was rewritten.

    In a hurry the last block counts for all, while it is the same file: a change before it in place is found by the next call
    that has time.
    """
    noted, size = files.load_digest(talk.baton.repo, talk.ref), kept.position.size
    if noted is not None and (noted.commit, noted.size) != (kept.commit, size):
        noted = None
    if talk.hurry and noted is not None and noted.chain and noted.file == _file(talk.fd):
        whole = size // files.BLOCK * files.BLOCK
        hashed = files.Digest(whole, noted.chain)
        for block in blocks(talk.fd, whole, size):
            hashed.update(block)
        if hashed.hexdigest() == noted.digest:
            return hashed
    hashed, first = files.Digest(), files.hasher()
    for block in blocks(talk.fd, 0, size):
        hashed.update(block)
        if noted is not None and not noted.chain:
            first.update(block)
    now = _proof(talk, kept.commit, size, hashed)
    if noted is not None and noted.digest != (now.digest if noted.chain else first.hexdigest()):
        return None
    if noted is None and not _made_of(talk, kept):
        return None
    if noted != now:
        files.save_digest(talk.baton.repo, talk.ref, now)
    return hashed


def _proof(talk: _Talk, commit: Oid, size: int, hashed: files.Digest) -> files.SourceDigest:
    return files.SourceDigest(commit=commit, size=size, digest=hashed.hexdigest(), chain=hashed.chain, file=_file(talk.fd))


def _file(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _made_of(talk: _Talk, kept: StoredConversation) -> bool:
    """Whether the first lines of the file, redacted, are what is stored."""
    known, size, count = iter(kept.chunks), 0, 0
    raw = (line for _, line in _lines(talk, 0, kept.position.size))
    for data in layout.chunks(redacted(talk.baton.redactor.line, raw)):
        if next(known, None) != object_id(talk.baton.repo.objects.algorithm, "blob", data):
            return False
        size += len(data)
        count += data.count(b"\n")
    return next(known, None) is None and (size, count) == (kept.size, kept.position.lines)


def _lines(talk: _Talk, start: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the lines of the file between two places, each as it is, and as it is to be stored."""
    for line in lines(talk.fd, start, end):
        yield line, _ELSEWHERE if any(since <= start < until for since, until in talk.how.without) else line
        start += len(line)


def _write(talk: _Talk, found: Transcript, tip: _Tip | None, above: Object | None) -> tuple[Oid, files.Digest]:
    """Write the objects of a conversation, those of whole chunks that are stored already are used again; the commit, and the
    digest of the part of the file that it was made from."""
    objects = talk.baton.repo.objects
    oids, start = (list(tip.whole), tip.kept.position.size) if tip else ([], 0)
    hashed, made = (tip.hashed, tip.kept.size - len(tip.rest)) if tip else (files.Digest(), 0)
    end = start

    def fresh() -> Iterator[bytes]:
        nonlocal end
        for read, line in _lines(talk, start, found.size):
            hashed.update(read)
            end += len(read)
            yield line

    batch, size = [], 0
    for data in layout.chunks(chain([tip.rest] if tip and tip.rest else [], redacted(talk.look, fresh()))):
        batch.append(new_object(objects.algorithm, "blob", data))
        oids.append(batch[-1].oid)
        size += len(data)
        made += len(data)
        if size >= _BATCH:
            talk.baton.repo.stow(batch)
            batch, size = [], 0
    if end != found.size:
        raise GitError("its file changed while it was read")
    if made > layout.MAX_STORED:
        raise GitError(f"redacted it has {made} bytes, and the limit is {layout.MAX_STORED}")
    entries = [TreeEntry(mode=b"100644", name=b"%08d" % n, oid=oid) for n, oid in enumerate(oids)]
    batch += layout.frame(objects, entries, layout.meta(found, made, talk.agent, talk.session))
    batch.append(layout.commit(talk.baton, batch[-1].oid, above, f"conversation of {found.lines} lines\n"))
    talk.baton.repo.stow(batch)
    return batch[-1].oid, hashed


def keep_told(baton: Baton, agent: Agent, told: Told, seconds: float = 0.0) -> Oid | None:
    """Store what was said; the blob, which a later turn's does not take away. None where the conversation was forgotten, or no
    ref can be named after its session. Others in the way are waited for, for so many ``seconds`` or a moment. Raises
    BatonError."""
    if agent.session is None or agent.name not in NAMES:
        return None
    try:
        ref = layout.transcript_ref(agent.name, layout.told_session(agent.session))
        if files.is_forgotten(baton.repo, layout.transcript_ref(agent.name, agent.session)):
            return None
    except UsageError:
        return None
    data, objects = told_bytes(told), baton.repo.objects
    blob = new_object(objects.algorithm, "blob", data)
    place = Transcript(size=len(data), lines=data.count(b"\n"))
    meta = layout.meta(place, len(data), agent.name, layout.told_session(agent.session))
    frame = layout.frame(objects, [TreeEntry(mode=b"100644", name=b"00000000", oid=blob.oid)], meta)

    def once(_: object) -> Oid:
        old = objects.info(ref)
        commit = layout.commit(baton, frame[-1].oid, old, "what was said\n")
        change = RefChange(name=ref, new=commit.oid, old=old.oid if old else None)
        publish(baton.repo, [change], new=[blob, *frame, commit], automatic=True)
        return blob.oid

    wait = max(seconds, layout.LOCK_WAIT)
    return append_to(baton.repo, (ref,), once, seconds=seconds, lock=lambda: baton.repo.lock((ref,), wait=wait))


def position(stored: Stored) -> Transcript:
    """Return how far the conversation of a checkpoint had come. Raises BatonError where the checkpoint knows of none."""
    agent = stored.checkpoint.agent
    found = parse_transcript(agent.transcript) if agent else None
    if found is None or agent is None or agent.session is None:
        raise BatonError(f"checkpoint '{stored.id[:_SHORT]}' knows of no conversation", _NONE)
    return found


def read(baton: Baton, stored: Stored, env: Mapping[str, str]) -> bytes:
    """The conversation up to a checkpoint as it may be shown: from what is stored, else from the client's own file or database
    on this machine, else from what was stored later; redacted, whenever and by whomever it was written.

    Raises RecordError when what is stored is no conversation, ScanError, BatonError where there is neither.
    """
    if rows := _in_database(stored, env):
        return clean(baton.redactor, rows)
    wanted, agent, session = _wanted(stored)
    data = _stored_then(baton, wanted, agent, session) or _own(wanted, agent, session, env)
    data = data or _stored_since(baton, wanted, agent, session)
    if data is None:
        raise _nowhere(stored, env)
    return clean(baton.redactor, data)


def original(baton: Baton, stored: Stored, env: Mapping[str, str]) -> bytes:
    """The conversation up to a checkpoint for its client: as it stands in the client's own file, where that is still what was
    stored of it; else as it is stored.

    So secrets come back only where they are already: in the client's folder. Raises as ``read``.
    """
    if rows := _in_database(stored, env):
        return rows
    wanted, agent, session = _wanted(stored)
    kept, own = _stored_then(baton, wanted, agent, session), _own(wanted, agent, session, env)
    if own is not None and (kept is None or _same_lines(baton, own, kept)):
        return own
    kept = kept or _stored_since(baton, wanted, agent, session)
    if kept is None:
        raise _nowhere(stored, env)
    return kept


def _wanted(stored: Stored) -> tuple[Transcript, str, str]:
    """The position of a checkpoint, the agent and the session."""
    wanted, agent = position(stored), stored.checkpoint.agent
    assert agent is not None and agent.session is not None  # else there is no position
    return wanted, agent.name, agent.session


def _in_database(stored: Stored, env: Mapping[str, str]) -> bytes:
    """The conversation up to a checkpoint, from the database of its client on this machine; empty where that has none of it."""
    agent = stored.checkpoint.agent
    if agent is None or agent.session is None or agent.transcript or agent.name not in DATABASES or stored.foreign:
        return b""
    from gitbaton.agents.transcripts.past import row_lines

    of = client(agent.name)
    return b"".join(row_lines(of, agent.session, env, stored.checkpoint.created.timestamp())) if of is not None else b""


def _nowhere(stored: Stored, env: Mapping[str, str]) -> BatonError:
    """Why there is no conversation."""
    wanted, agent, session = _wanted(stored)
    name = stored.id[:_SHORT]
    if any(os.path.isfile(path) for path in _local(agent, session, env)):
        text = f"the client has rewritten the conversation of checkpoint {in_quotes(name)}, and its content is not stored"
    else:
        where = "not in this repository" if wanted.stored else "not stored"
        text = f"the conversation of checkpoint {in_quotes(name)} is {where}, and the client has no file of it here"
    return BatonError(text, *([] if wanted.stored else [_STORES]))


def _own(wanted: Transcript, agent: str, session: str, env: Mapping[str, str]) -> bytes | None:
    """The conversation up to a position in the client's own file; None where none has it."""
    for path in _local(agent, session, env):
        fd = opened(path)
        if fd is None:
            continue
        with open(fd, "rb") as file:
            data = file.read(wanted.size) if os.fstat(fd).st_size >= wanted.size else b""
        if _is(data, wanted):
            return data
    return None


def _same_lines(baton: Baton, own: bytes, kept: bytes) -> bool:
    """Whether lines are what is stored, or become it when they are redacted."""
    ours, theirs = own.split(b"\n"), kept.split(b"\n")
    same = len(ours) == len(theirs)
    return same and all(a == b or clean(baton.redactor, a + b"\n") == b + b"\n" for a, b in zip(ours, theirs, strict=True))


def _is(data: bytes, wanted: Transcript) -> bool:
    """Whether bytes are the conversation up to a position."""
    whole = len(data) == wanted.size and _ends(data, wanted)
    return whole and (wanted.last is None or wanted.last.encode() in data)


def _ends(data: bytes, wanted: Transcript) -> bool:
    return data.endswith(b"\n") and data.count(b"\n") == wanted.lines


def _local(agent: str, session: str, env: Mapping[str, str]) -> Iterator[str]:
    """Files that may be a client's transcript of a session; the session is a name and never a path."""
    from glob import escape, iglob

    of = client(agent)
    for folder, pattern in where(of, session, env) if of is not None else ():
        yield from sorted(iglob(f"{escape(folder)}/{pattern}"))


def _stored_then(baton: Baton, wanted: Transcript, agent: str, session: str) -> bytes | None:
    """The conversation up to a position, from the commit that the position names; None where it names none that is here."""
    objects = baton.repo.objects
    if wanted.stored is None or objects.info(wanted.stored) is None:
        return None
    return _stored(objects, wanted.stored, wanted, agent, session)


def _stored_since(baton: Baton, wanted: Transcript, agent: str, session: str) -> bytes | None:
    """The conversation up to a position, where the session's is stored here, or at a remote as far as that was fetched."""
    objects = baton.repo.objects
    try:
        ref = layout.transcript_ref(agent, session) if agent in NAMES else ""
    except UsageError:
        return None
    found = objects.info(ref) if ref else None
    oids = [found.oid] if found is not None else []
    if ref and below(baton.repo, REMOTES):
        room = ref.removeprefix("refs/baton/")
        oids += [oid for name, oid in objects.refs(REMOTES).items() if (remote_of(name) or ("", ""))[1] == room]
    for oid in oids:
        with suppress(RecordError):
            return _stored(objects, oid, wanted, agent, session)
    return None


def _stored(objects: Objects, oid: Oid, wanted: Transcript, agent: str, session: str) -> bytes:
    """Return so many lines of a stored conversation, up to a position, whatever program stored it."""
    kept = layout.kept(objects, oid, agent, session)
    parts, size, count = [], 0, 0
    for chunk in kept.chunks:
        found = objects.read(chunk, layout.MAX_STORED - size)
        if found is None or found.kind != "blob" or not found.data or not found.data.endswith(b"\n"):
            raise RecordError(f"commit {oid} does not hold the chunks of a conversation")
        rows = found.data.split(b"\n", wanted.lines - count)  # what follows the line that is wanted last is left over
        parts.append(found.data[: len(found.data) - len(rows[-1])])
        size, count = size + found.size, count + len(rows) - 1
        if count >= wanted.lines:
            break
    data = b"".join(parts)
    if not _holds(kept, data, wanted):
        raise RecordError(f"commit {oid} does not hold the conversation up to byte {wanted.size}")
    return data


def _holds(kept: StoredConversation, data: bytes, wanted: Transcript) -> bool:
    """Whether stored lines can be the conversation up to a position. Where something in it was redacted, its bytes tell less of
    the file's, and what is said of the whole must agree."""
    if kept.exact or MARK not in data:
        return _is(data, wanted)
    if wanted.lines == kept.position.lines:
        told = (kept.position.size, kept.position.last, kept.size)
        return _ends(data, wanted) and told == (wanted.size, wanted.last, len(data))
    return _ends(data, wanted) and wanted.size < kept.position.size
