"""A conversation's content stored: only what is new, whoever else stores it at the same time."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from gitbaton.baton import Baton
from gitbaton.errors import GitError, RecordError, RefConflictError
from gitbaton.git.objects import Algorithm, Objects, RefChange, TreeEntry, commit_data, new_object, object_id
from gitbaton.model import Oid, Transcript
from gitbaton.transcripts import layout
from gitbaton.transcripts.files import lines
from gitbaton.transcripts.layout import CHUNK, Kept
from gitbaton.transcripts.positions import measure
from gitbaton.values import replace, value

PART = 16 << 20  # what one call stores at most: it takes about a second
_BATCH = 16 << 20
_ATTEMPTS = 2
_LOCK_WAIT = 1.0
_MUCH = 1 << 20


@value
class _Tip:
    """What is stored already: its ``whole`` chunks, to which nothing can be appended, and where what follows them begins."""

    kept: Kept
    whole: tuple[Oid, ...]
    start: int


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
    known = tip.kept.position if tip else None
    now = measure(fd, agent, known)
    if now is None or now.size > layout.MAX_STORED:
        return now, f"not stored: it has {now.size} bytes, and the limit is {layout.MAX_STORED}" if now else None
    if tip is not None and now == known:
        return replace(now, stored=tip.kept.commit), None
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


def _extended(objects: Objects, oid: Oid | None, fd: int, agent: str, session: str) -> _Tip | None:
    """What is stored, where the file begins with every byte of it; a file that was rewritten is stored anew."""
    try:
        kept = layout.kept(objects, oid, agent, session) if oid else None
    except RecordError:
        return None
    end = kept.position.size if kept else 0
    if kept is None or not kept.chunks or os.fstat(fd).st_size < end or objects.info(kept.chunks[-1]) is None:
        return None
    known, start, size, count = iter(kept.chunks), 0, 0, 0
    name = _namer(objects.algorithm, end)
    for data in layout.chunks(lines(fd, 0, end)):
        if next(known, None) != name(data):
            return None
        start, size = start + size, len(data)
        count += data.count(b"\n")
    if next(known, None) is not None or (start + size, count) != (end, kept.position.lines):
        return None
    grows = size < CHUNK
    return _Tip(kept=kept, whole=kept.chunks[:-1] if grows else kept.chunks, start=start if grows else end)


def _namer(algorithm: Algorithm, size: int) -> Callable[[bytes], Oid]:
    """How to name chunks: of much content by OpenSSL, which is four times as fast and costs 3 ms to import."""
    if size < _MUCH:
        return lambda data: object_id(algorithm, "blob", data)
    import hashlib

    def name(data: bytes) -> Oid:
        found = hashlib.new(algorithm, b"blob %d\0" % len(data), usedforsecurity=False)
        found.update(data)
        return found.hexdigest()

    return name


def _write(baton: Baton, fd: int, found: Transcript, tip: _Tip | None, parent: Oid | None, agent: str, session: str) -> Oid:
    """Write the objects of a conversation; those of whole chunks that are stored already are used again."""
    objects = baton.repo.objects
    oids, start = (list(tip.whole), tip.start) if tip else ([], 0)
    batch, size = [], 0
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


def _commit(baton: Baton, tree: Oid, parent: Oid | None, found: Transcript) -> bytes:
    above = baton.repo.objects.info(parent) if parent else None
    parents = [above.oid] if above and above.kind == "commit" else []
    author = baton.author()[0] + b" %d +0000" % int(baton.clock().timestamp())
    text = f"conversation of {found.lines} lines\n".encode()
    return commit_data(tree=tree, parents=parents, author=author, message=text)
