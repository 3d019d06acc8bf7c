"""Stored conversations: ref, chunks and metadata, written, and read whatever program wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from gitbaton.base.codec import Json, canonical, encode_track, parse, parse_transcript
from gitbaton.base.errors import RecordError
from gitbaton.base.model import Oid, Transcript
from gitbaton.base.values import cast, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store.refs import TRANSCRIPTS
from gitbaton.git.objects import (
    MAX_TREE,
    NewObject,
    Object,
    Objects,
    ReadAhead,
    TreeEntry,
    author_at,
    commit_data,
    entries_of,
    new_object,
    parse_commit,
    parse_tree,
    tree_data,
)

CHUNK = 64 << 10
MAX_STORED = 256 << 20
LOCK_WAIT = 1.0  # seconds; a hook has little time
_MAX_CHUNKS = 10_000


@value
class StoredConversation:
    """A stored conversation: its commit, how far it goes in the client's file, and the blobs of its chunks, which have
    ``size`` bytes. ``exact``: they are the file's own, as they were stored before there was redaction."""

    commit: Oid
    position: Transcript
    chunks: tuple[Oid, ...]
    size: int
    exact: bool


def transcript_ref(agent: str, session: str) -> str:
    """The ref of a stored conversation. Raises UsageError for a session that no ref can be named after."""
    return f"{TRANSCRIPTS}{agent}/{encode_track(session)}"


def told_session(session: str) -> str:
    """The name under which what was said around the checkpoints of a session is kept, as if it were a conversation."""
    return f"{session}.told"


def sessions_of(session: str) -> tuple[str, str]:
    """The names under which what belongs to a session is stored: the conversation, and what was said."""
    return session, told_session(session)


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


def frame(objects: Objects, entries: list[TreeEntry], meta: bytes) -> list[NewObject]:
    """The trees and the meta blob around chunks; the last is the tree of the commit."""
    folder = new_object(objects.algorithm, "tree", tree_data(entries))
    blob = new_object(objects.algorithm, "blob", meta)
    top = [
        TreeEntry(mode=b"40000", name=b"chunks", oid=folder.oid),
        TreeEntry(mode=b"100644", name=b"meta", oid=blob.oid),
    ]
    return [folder, blob, new_object(objects.algorithm, "tree", tree_data(top))]


def commit(baton: Baton, tree: Oid, above: Object | None, text: str) -> NewObject:
    """The commit of such a tree upon what its ref holds, where that is one."""
    parents = [above.oid] if above is not None and above.kind == "commit" else []
    data = commit_data(tree=tree, parents=parents, author=author_at(baton.author()[0], baton.clock()), message=text.encode())
    return new_object(baton.repo.layout.algorithm, "commit", data)


def meta(found: Transcript, size: int, agent: str, session: str) -> bytes:
    """Return the metadata of a conversation that goes as far as this in the client's file, and of which ``size`` bytes are
    stored."""
    said: dict[str, Json] = {"v": 2, "agent": agent, "session": session}
    return canonical({**said, "bytes": found.size, "lines": found.lines, "last": found.last, "kept": size})


def kept(objects: Objects, oid: Oid, agent: str, session: str) -> StoredConversation:
    """Read a stored conversation, whatever program wrote it. Raises RecordError when it is not one, or is that of another
    session."""
    commit = objects.read(oid)
    if commit is None or commit.kind != "commit" or commit.data is None:
        raise RecordError(f"'{oid}' is not the commit of a conversation")
    top = _tree(objects, parse_commit(commit.data).tree, oid)
    if [(e.name, e.mode) for e in top] != [(b"chunks", b"40000"), (b"meta", b"100644")]:
        raise RecordError(f"commit {oid} does not hold a conversation")
    entries = _tree(objects, top[0].oid, oid)
    if len(entries) > _MAX_CHUNKS or any(e.mode != b"100644" or e.name != b"%08d" % number for number, e in enumerate(entries)):
        raise RecordError(f"commit {oid} does not hold the chunks of a conversation")
    position, size, exact = _parsed(objects, top[1].oid, agent, session)
    return StoredConversation(commit=oid, position=position, chunks=tuple(e.oid for e in entries), size=size, exact=exact)


def ahead(objects: Objects, oids: Iterable[Oid]) -> Objects:
    """Return a reader for ``kept`` that has read together what it asks for of many stored conversations, as far as that can be
    read."""
    reader = ReadAhead(objects)
    commits = [item.data for item in reader.take(oids) if item.kind == "commit" and item.data is not None]
    with suppress(RecordError):  # it is said of that conversation
        top = reader.take([parse_commit(data).tree for data in commits], MAX_TREE)
        trees = [parse_tree(item.data, objects.algorithm) for item in top if item.kind == "tree" and item.data is not None]
        parts = {name: [e.oid for tree in trees for e in tree if e.name == name] for name in (b"chunks", b"meta")}
        reader.take(parts[b"chunks"], MAX_TREE)
        reader.take(parts[b"meta"])
    return cast(Objects, reader)


def _tree(objects: Objects, oid: Oid, where: Oid) -> list[TreeEntry]:
    found = entries_of(objects, oid)
    if found is None:
        raise RecordError(f"commit {where} does not hold a conversation")
    return found


def _parsed(objects: Objects, oid: Oid, agent: str, session: str) -> tuple[Transcript, int, bool]:
    """Read a meta blob: the position in the client's file, how many bytes are stored, and whether they are the file's."""
    found = objects.read(oid)
    said = parse(found.data) if found and found.kind == "blob" and found.data else None
    if not isinstance(said, dict) or said.get("v") not in (1, 2) or isinstance(said.get("v"), bool):
        raise RecordError(f"'{oid}' does not describe a conversation")
    if (said.get("agent"), said.get("session")) != (agent, session):
        raise RecordError(f"'{oid}' describes another conversation")
    last = said.get("last")
    text = f"bytes={said.get('bytes')} lines={said.get('lines')}" + (f" last={last}" if last is not None else "")
    position, exact = parse_transcript(text), said["v"] == 1
    size = said.get("bytes" if exact else "kept")
    told = isinstance(size, int) and not isinstance(size, bool) and 0 < size <= MAX_STORED
    if position is None or position.stored is not None or position.size > MAX_STORED or not told:
        raise RecordError(f"'{oid}' describes no conversation that can be")
    return position, cast(int, size), exact
