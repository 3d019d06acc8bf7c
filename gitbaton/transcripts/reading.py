"""A conversation read back: from what is stored, by whomever, else from the client's own file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from gitbaton.agents.conversation import places
from gitbaton.agents.values import NAMES
from gitbaton.baton import Baton
from gitbaton.codec import parse_transcript
from gitbaton.errors import BatonError, RecordError, UsageError
from gitbaton.git.objects import Objects
from gitbaton.model import Oid, Stored, Transcript
from gitbaton.transcripts import layout
from gitbaton.transcripts.files import opened

_SHORT = 10
HINTS = (
    "baton.transcripts is 'off', 'position' or 'full'",
    "'position', the default, stores how far a conversation had come and none of its content, until redaction exists",
)


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
        fd = opened(path)
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
        found = objects.info(layout.transcript_ref(agent, session)) if agent in NAMES else None
        return _stored(objects, found.oid, wanted, agent, session) if found else None
    except (RecordError, UsageError):
        return None


def _stored(objects: Objects, oid: Oid, wanted: Transcript, agent: str, session: str) -> bytes:
    """The bytes of a stored conversation up to a position, whoever stored it."""
    kept = layout.kept(objects, oid, agent, session)
    parts, size = [], 0
    for chunk in kept.chunks:
        found = objects.read(chunk, layout.MAX_STORED - size)
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
