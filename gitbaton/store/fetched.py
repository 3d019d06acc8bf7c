"""Fetched tracks: what remotes have, below refs/baton/remotes; foreign until a local snapshot follows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from gitbaton.codec import decode_track, plain
from gitbaton.errors import BatonError, GitError, NotFoundError, RecordError
from gitbaton.model import Oid, Stored
from gitbaton.store import meta
from gitbaton.store.chain import Chains
from gitbaton.store.refs import REMOTES, chain_ref, fetched_ref, remote_of, remote_ref
from gitbaton.store.values import History, Problem
from gitbaton.values import replace, value

SLACK = timedelta(minutes=10)  # what is further in the future is listed and not joined
_MOST = 1000  # newer checkpoints that are counted


@value
class Newer:
    """A remote that has newer checkpoints of a track than this repository: how many, at most 1,000."""

    remote: str
    track: str
    count: int

    @property
    def sentence(self) -> str:
        """What should be said about it."""
        many = f"{self.count} newer checkpoint{'' if self.count == 1 else 's'}"
        remote = plain(self.remote)
        return f"{remote} has {many} of track '{plain(self.track)}': 'git baton sync {remote}' joins them"


def strays(store: Chains) -> list[Problem]:
    """The refs below refs/baton/remotes whose name is not one that gitbaton writes."""
    return [
        Problem(where=ref, reason="the name is not one that gitbaton writes")
        for ref in store.objects.refs(REMOTES)
        if not _is_ours(ref)
    ]


def _is_ours(ref: str) -> bool:
    rest = (remote_of(ref) or ("", ""))[1]
    kind, _, name = rest.partition("/")
    if kind in ("tracks", "runs"):
        return decode_track(name) is not None
    if kind == "joined":  # how threads stood when both sides had the same, by a digest of the address
        kind, _, name = name.partition("/")[2].partition("/")
        return kind in ("threads", "late") and bool(name)
    return rest in ("notes", "meta") or (kind in ("transcripts", "threads", "late") and bool(name))


def dropping(store: Chains, remotes: Iterable[str]) -> meta.Meta:
    """What this repository and remotes have pinned and dropped. Raises RecordError."""
    refs = [remote_ref(remote, "meta") for remote in remotes]
    return meta.union(meta.read(store), *(meta.read(store, ref) for ref in refs))


def history(store: Chains, track: str, limit: int | None = None) -> History:
    """The checkpoints of a track that exists only as fetched, newest first, from all its remotes; all of them are foreign.

    What was dropped anywhere is left out. As of the last listing of the chains. Raises NotFoundError.
    """
    chains = store.strange().get(track)
    if not chains:
        raise NotFoundError(f"there is no track '{track}'")
    problems: list[Problem] = []
    drops = _dropping(store, (remote for remote, _ in chains), problems)
    return _history(store, track, [remote for remote, _ in chains], drops, problems, limit)


def addresses(store: Chains) -> dict[str, tuple[str, str]]:
    """What ``REMOTE/TRACK`` means: the remote and the track of each chain that was fetched, as of the last listing."""
    return {f"{remote}/{track}": (remote, track) for track, chains in store.elsewhere().items() for remote, _ in chains}


def history_at(store: Chains, remote: str, track: str, limit: int | None = None) -> History:
    """The checkpoints that one remote has of a track, newest first, as far as they were fetched; all of them are foreign. What
    was dropped anywhere is left out."""
    problems: list[Problem] = []
    found = _history(store, track, [remote], _dropping(store, [remote], problems), problems, limit)
    return replace(found, origins={stored.id: (remote,) for stored in found.items})


def _dropping(store: Chains, remotes: Iterable[str], problems: list[Problem]) -> meta.Meta:
    """As ``dropping``; what cannot be read is a problem, and nothing is left out for it."""
    try:
        return dropping(store, remotes)
    except RecordError as error:
        problems.append(Problem(where=REMOTES.rstrip("/"), reason=error.message))
        return meta.NOTHING


def _history(
    store: Chains, track: str, remotes: Iterable[str], drops: meta.Meta, problems: list[Problem], limit: int | None
) -> History:
    found: dict[Oid, Stored] = {}
    for remote in remotes:
        ref = fetched_ref(remote, track)
        try:
            part = store.chain(ref, track, None if drops.drops or limit is None else 2 * limit)
        except (RecordError, NotFoundError, GitError) as error:
            problems.append(Problem(where=ref, reason=error.message))
            continue
        problems += part.problems
        for stored in part.items:
            if not drops.dropped(stored.id):
                found.setdefault(stored.id, replace(stored, foreign=True))
    items = sorted(found.values(), key=_age, reverse=True)
    return History(items=tuple(items[:limit]), problems=tuple(problems))


def apart(store: Chains, tracks: Mapping[str, Oid], known: Collection[Oid]) -> History:
    """The checkpoints that remotes have of tracks which exist here, too, with these tips, newest first, but for those
    ``known``: as far as they were fetched; all of them foreign, with the remotes in ``origins``. What was dropped anywhere is
    left out. As of the last listing."""
    problems: list[Problem] = []
    found: dict[Oid, Stored] = {}
    origins: dict[Oid, tuple[str, ...]] = {}
    elsewhere = store.elsewhere()
    for track, remote, oid in differing(tracks, elsewhere):
        if track in tracks:
            ref = fetched_ref(remote, track)
            try:
                drops = dropping(store, (remote,))
                more = [s for s in _not_here(store, track, oid) if s.id not in known and not drops.dropped(s.id)]
            except BatonError as error:
                problems.append(Problem(where=ref, reason=error.message))
                continue
            for stored in more:
                found.setdefault(stored.id, replace(stored, foreign=True))
                origins[stored.id] = (*origins.get(stored.id, ()), remote)
    items = sorted(found.values(), key=_age, reverse=True)
    return History(items=tuple(items), problems=tuple(problems), origins=origins)


def differing(tracks: Mapping[str, Oid], elsewhere: Mapping[str, list[tuple[str, Oid]]]) -> Iterator[tuple[str, str, Oid]]:
    """Track, remote and tip of each fetched chain that is not one of these tracks as it stands here."""
    return ((track, remote, oid) for track, chains in elsewhere.items() for remote, oid in chains if tracks.get(track) != oid)


def _not_here(store: Chains, track: str, oid: Oid) -> list[Stored]:
    """The checkpoints of a fetched chain whose commits the chain here lacks. Raises RecordError where it is broken."""
    own = store.objects.info(chain_ref(track))
    have = {store.root, *(store.objects.first_parents(own.oid) if own is not None else ())}
    above = [commit for commit in store.linked(oid) if commit not in have]
    read = zip(above, store.objects.read_many(above), strict=True)
    return [store.stored(item, track, commit) for commit, item in read]


def tip(store: Chains, track: str) -> Stored | None:
    """The newest checkpoint of a track that exists only as fetched; None where there is none. Raises RecordError."""
    chains = store.fetched().get(track)
    if not chains:
        return None
    found = _tips(store, {track: chains})
    if not found.items and found.problems:
        raise RecordError(f"'{found.problems[0].where}': {found.problems[0].reason}")
    return found.items[0] if found.items else None


def tips(store: Chains) -> History:
    """The newest checkpoint of every track that exists only as fetched, newest first, as of the last listing."""
    return _tips(store, store.strange())


def _tips(store: Chains, tracks: Mapping[str, list[tuple[str, Oid]]]) -> History:
    """Where a tip was dropped or cannot be read, what is below it is looked at; else no more than the tips."""
    problems: list[Problem] = []
    remotes = sorted({remote for chains in tracks.values() for remote, _ in chains})
    drops = _dropping(store, remotes, problems)
    oids = [oid for chains in tracks.values() for _, oid in chains]
    read = dict(zip(oids, store.objects.read_many(oids), strict=True))
    items: list[Stored] = []
    for track, chains in tracks.items():
        try:
            found = [store.stored(read[oid], track, oid) for _, oid in chains]
            whole = not any(drops.dropped(s.id) for s in found)
        except RecordError:
            found, whole = [], False
        if not whole:
            part = _history(store, track, [remote for remote, _ in chains], drops, [], 1)
            found = list(part.items)
            problems += part.problems
        items += [replace(s, foreign=True) for s in sorted(found, key=_age, reverse=True)[:1]]
    return History(items=tuple(sorted(items, key=_age, reverse=True)), problems=tuple(problems))


def _age(stored: Stored) -> tuple[datetime, Oid]:
    return stored.checkpoint.created, stored.id


def newer(store: Chains, elsewhere: Mapping[str, list[tuple[str, Oid]]], tips: Iterable[Stored], now: datetime) -> list[Newer]:
    """The remotes that have newer checkpoints of tracks than their ``tips`` here, as far as they were fetched and could be
    joined; what cannot be read is none. Costs one read of a tip that this repository does not have as its own."""
    found = []
    for mine in tips:
        track = mine.checkpoint.track
        for remote, oid in elsewhere.get(track, ()):
            if oid != mine.commit:
                count = _count(store, remote, track, oid, mine, now)
                found += [Newer(remote=remote, track=track, count=count)] if count else []
    return found


def _count(store: Chains, remote: str, track: str, oid: Oid, mine: Stored, now: datetime) -> int:
    try:
        theirs = store.stored(store.objects.read(oid), track, oid)
        ids: set[Oid] = set()
        for stored in store.newest(theirs) if theirs.checkpoint.created > mine.checkpoint.created else ():
            if stored.checkpoint.created <= mine.checkpoint.created or len(ids) == _MOST:
                break
            if stored.checkpoint.created <= now + SLACK:
                ids.add(stored.id)
        drops = dropping(store, (remote,)) if ids else meta.NOTHING
    except BatonError:
        return 0
    return sum(1 for one in ids if not drops.dropped(one))
