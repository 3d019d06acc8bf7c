"""A conversation's content stored: only what is new, whoever else stores it at the same time."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext

from gitbaton.baton import Baton
from gitbaton.errors import GitError, RecordError, RefConflictError
from gitbaton.git.objects import Objects, RefChange, TreeEntry, commit_data, new_object
from gitbaton.model import Oid, Transcript
from gitbaton.transcripts import layout
from gitbaton.transcripts.files import lines
from gitbaton.transcripts.layout import CHUNK, Kept
from gitbaton.transcripts.positions import measure
from gitbaton.values import replace

PART = 16 << 20  # what one call stores at most: it takes about a second
_BATCH = 16 << 20
_ATTEMPTS = 2
_LOCK_WAIT = 1.0


def keep(baton: Baton, fd: int, agent: str, session: str) -> tuple[Transcript | None, str | None]:
    """Store what is new; what another process has stored meanwhile is built upon, at last with the lock held all along."""
    ref = layout.transcript_ref(agent, session)
    for _ in range(_ATTEMPTS):
        try:
            return _once(baton, fd, ref, agent, session, baton.repo.lock((ref,), wait=_LOCK_WAIT))
        except RefConflictError:
            continue
    with baton.repo.lock((ref,), wait=_LOCK_WAIT):
        return _once(baton, fd, ref, agent, session, nullcontext())


def _once(
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
    now = measure(fd, agent, known)
    if now is None or now.size > layout.MAX_STORED:
        return now, f"not stored: it has {now.size} bytes, and the limit is {layout.MAX_STORED}" if now else None
    if tip is not None and now == known:
        return replace(now, stored=tip.commit), None
    start = known.size if known else 0
    part = measure(fd, agent, known, start + PART) if now.size - start > PART else now
    if part is None or part == known:  # one line is longer
        part = now
    commit = _write(baton, fd, part, tip, old, agent, session)
    with guard:
        objects.update([RefChange(name=ref, new=commit, old=old)])
    if part != now:
        return now, f"stored up to byte {part.size} of {now.size}; the next checkpoint goes on from there"
    return replace(now, stored=commit), None


def _extended(objects: Objects, oid: Oid | None, fd: int, agent: str, session: str) -> Kept | None:
    """What is stored, where the file begins with it; a file that was rewritten is stored anew."""
    try:
        kept = layout.kept(objects, oid, agent, session) if oid else None
    except RecordError:
        return None
    if kept is None or not kept.chunks:
        return None
    tail = objects.read(kept.chunks[-1], layout.MAX_STORED)
    if tail is None or tail.data is None or tail.kind != "blob":
        return None
    start = kept.position.size - tail.size
    if start < 0 or os.fstat(fd).st_size < kept.position.size or os.pread(fd, tail.size, start) != tail.data:
        return None
    return kept


def _write(baton: Baton, fd: int, found: Transcript, tip: Kept | None, parent: Oid | None, agent: str, session: str) -> Oid:
    """Write the objects of a conversation; those of whole chunks that are stored already are used again."""
    objects = baton.repo.objects
    whole, start = _whole(objects, tip)
    oids, batch, size = list(whole), [], 0
    for data in layout.chunks(lines(fd, start, found.size)):
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
    batch += layout.frame(objects, entries, layout.meta(found, agent, session))
    batch.append(new_object(objects.algorithm, "commit", _commit(baton, batch[-1].oid, parent, found)))
    objects.write(batch)
    return batch[-1].oid


def _whole(objects: Objects, tip: Kept | None) -> tuple[tuple[Oid, ...], int]:
    """The chunks that nothing can be appended to, and where they end."""
    if tip is None:
        return (), 0
    last = objects.info(tip.chunks[-1])
    size = last.size if last else 0
    return (tip.chunks, tip.position.size) if size >= CHUNK else (tip.chunks[:-1], tip.position.size - size)


def _commit(baton: Baton, tree: Oid, parent: Oid | None, found: Transcript) -> bytes:
    above = baton.repo.objects.info(parent) if parent else None
    parents = [above.oid] if above and above.kind == "commit" else []
    author = baton.author()[0] + b" %d +0000" % int(baton.clock().timestamp())
    text = f"conversation of {found.lines} lines\n".encode()
    return commit_data(tree=tree, parents=parents, author=author, message=text)
