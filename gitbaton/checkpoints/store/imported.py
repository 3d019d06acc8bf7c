"""Imported turns: chains of their own, one for each session of a client's own transcripts, read together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from gitbaton.base.codec import canonical, encode_track, timestamp
from gitbaton.base.errors import BatonError, RecordError
from gitbaton.base.model import Oid, Stored
from gitbaton.checkpoints.store.chain import MAX_COMMIT, Chains, History, Problem, newest_first
from gitbaton.checkpoints.store.refs import IMPORTED, REMOTES
from gitbaton.git.objects import Algorithm, object_id
from gitbaton.git.reffiles import below


def imported_ref(client: str, session: str) -> str:
    """Return the ref of the chain of a session's turns. Raises UsageError for a session that no ref can be named after."""
    return f"{IMPORTED}{client}/{encode_track(session)}"


def track_name(client: str) -> str:
    """Return the name that stands for a track in the records of a client's turns: no track is called so."""
    return f"imported/{client}"


def tombstone(algorithm: Algorithm, client: str, session: str, since: datetime) -> Oid:
    """Return the id that stands for a forgotten turn, whatever a record of it says of its end and its commits. ``since``: when
    its prompt was sent."""
    return object_id(algorithm, "blob", canonical({"client": client, "session": session, "since": timestamp(since)}))


def commits(store: Chains, problems: list[Problem] | None = None, limit: int | None = None) -> list[Oid]:
    """Return the commits of all chains of imported turns, fetched ones, too, or the newest of them, by one process. A chain
    that cannot be walked is added to ``problems``."""
    rooms = [IMPORTED, *(f"{REMOTES}{remote}/imported/" for remote in below(store.repo, REMOTES))]
    rooms = [room for room in rooms if below(store.repo, room)]
    refs = store.objects.refs(*rooms) if rooms else {}
    asked = "".join(f"{oid}\n" for oid in refs.values() if oid.strip("0")).encode()
    most = [] if limit is None else [f"--max-count={limit}"]
    told = store.repo.git.run("rev-list", *most, "--stdin", stdin=asked) if asked else None
    if told is not None and told.code == 0:
        return [oid for oid in told.out.decode("ascii").split() if oid != store.root]
    found: dict[Oid, None] = {}
    for ref, oid in refs.items():
        try:
            found |= dict.fromkeys(store.objects.first_parents(oid))
        except BatonError as error:
            if problems is not None:
                problems.append(Problem(where=ref, reason=error.message))
    return [oid for oid in found if oid != store.root]


def records(store: Chains, limit: int | None = None) -> History:
    """Return all imported turns, or so many, newest first; what cannot be read is named and left out."""
    problems: list[Problem] = []
    items = {stored.id: stored for stored in _read(store, commits(store, problems, limit), problems)}
    return History(items=newest_first(items.values()), problems=tuple(problems))


def makers(store: Chains) -> dict[Oid, Stored]:
    """Return the imported turn in which each commit was made, as far as a transcript shows it: ours before foreign ones."""
    found: dict[Oid, Stored] = {}
    for stored in sorted(_read(store, commits(store), [], holding=b'"commits": ['), key=lambda s: s.foreign):
        turn = stored.checkpoint.imported
        for oid in turn.commits if turn is not None else ():
            found.setdefault(oid, stored)
    return found


def _read(store: Chains, oids: list[Oid], problems: list[Problem], holding: bytes = b"") -> Iterator[Stored]:
    """Yield the turns of some commits, of all or of those that hold some bytes."""
    for oid, found in zip(oids, store.objects.read_many(oids, MAX_COMMIT), strict=True):
        if found is not None and holding not in (found.data or b""):
            continue
        try:
            stored = store.stored(found, None, oid)
            if stored.checkpoint.imported is None:
                raise RecordError(f"commit {oid} is no imported turn")
            yield stored
        except RecordError as error:
            problems.append(Problem(where=f"commit {oid}", reason=error.message))
