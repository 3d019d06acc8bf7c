"""Read a conversation back: from what is stored, else from the client's own file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from gitbaton.agents.client import client
from gitbaton.agents.records import where
from gitbaton.agents.values import NAMES
from gitbaton.baton import Baton
from gitbaton.codec import in_quotes, parse_transcript
from gitbaton.errors import BatonError, RecordError, UsageError
from gitbaton.git.objects import Objects
from gitbaton.model import Oid, Stored, Transcript
from gitbaton.transcripts import layout
from gitbaton.transcripts.files import opened
from gitbaton.transcripts.layout import StoredConversation
from gitbaton.transcripts.storing import MARK, clean

_SHORT = 10
HINTS = (
    "baton.transcripts is 'off', 'position' or 'full'",
    "'full', the default, stores what was said, redacted; 'position' stores how far a conversation had come and no more",
)


def position(stored: Stored) -> Transcript:
    """Return how far the conversation of a checkpoint had come. Raises BatonError where the checkpoint knows of none."""
    agent = stored.checkpoint.agent
    found = parse_transcript(agent.transcript) if agent else None
    if found is None or agent is None or agent.session is None:
        raise BatonError(f"checkpoint '{stored.id[:_SHORT]}' knows of no conversation", HINTS[0])
    return found


def read(baton: Baton, stored: Stored, env: Mapping[str, str]) -> bytes:
    """The conversation up to a checkpoint as it may be shown: from what is stored, else from the client's own file on this
    machine, else from what was stored later; redacted, whenever and by whomever it was written.

    Raises RecordError when what is stored is no conversation, ScanError, BatonError where there is neither.
    """
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
    wanted, agent, session = _wanted(stored)
    kept, own = _stored_then(baton, wanted, agent, session), _own(wanted, agent, session, env)
    if own is not None and (kept is None or _made_of(baton, own, kept)):
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


def _nowhere(stored: Stored, env: Mapping[str, str]) -> BatonError:
    """Why there is no conversation."""
    wanted, agent, session = _wanted(stored)
    name = stored.id[:_SHORT]
    if any(os.path.isfile(path) for path in _local(agent, session, env)):
        text = f"the client has rewritten the conversation of checkpoint {in_quotes(name)}, and its content is not stored"
    else:
        where = "not in this repository" if wanted.stored else "not stored"
        text = f"the conversation of checkpoint {in_quotes(name)} is {where}, and the client has no file of it here"
    return BatonError(text, *HINTS)


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


def _made_of(baton: Baton, own: bytes, kept: bytes) -> bool:
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
    """The conversation up to a position, where a later checkpoint of the session has stored it."""
    objects = baton.repo.objects
    try:
        found = objects.info(layout.transcript_ref(agent, session)) if agent in NAMES else None
        return _stored(objects, found.oid, wanted, agent, session) if found else None
    except (RecordError, UsageError):
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
