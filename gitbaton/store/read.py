"""Tracks: what each holds here and, where it exists only as fetched, at remotes; the newest that can be read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from heapq import heappush, heappushpop

from gitbaton.codec import decode_track, encode_track, in_quotes, plain, timestamp
from gitbaton.errors import MENDS, BatonError, GitError, NotFoundError, RecordError
from gitbaton.git.reffiles import below
from gitbaton.git.repo import Repo
from gitbaton.model import Oid, Stored
from gitbaton.store import meta
from gitbaton.store.chain import Chains, History, Problem, newest_first
from gitbaton.store.newest import SHOWN, dated, read
from gitbaton.store.provenance import of_track
from gitbaton.store.refs import REMOTES, chain_ref, fetched_ref, remote_of, remote_ref
from gitbaton.values import replace, value

SLACK = timedelta(minutes=10)  # what is further in the future is listed and not joined
_MOST = 1000  # newer checkpoints that are counted


class Store(Chains):
    """The tracks of one repository."""

    def __init__(self, repo: Repo) -> None:
        super().__init__(repo)
        self.unread: dict[str, str] = {}  # the tracks of which ``readable`` could not show the newest, each with what to say

    def settle(self) -> list[str]:
        """Finish a change of several refs that a killed process had begun, and begin the record of what is ours where an
        earlier version kept none; what is in the way is said. Called with the lock held. It costs a look at two names."""
        with suppress(OSError):  # whoever adds to it says so
            self.ours.begin()
        if not os.path.lexists(os.path.join(self.repo.shared_dir, "revision")):
            return []
        from gitbaton.store import intent

        return intent.settle(self)

    def all_tips(self) -> History:
        """As ``tips``, and those of the tracks that exist only as fetched."""
        own = self.tips()
        if not self.strange():
            return own
        found = _tips(self, self.strange())
        return History(items=newest_first([*own.items, *found.items]), problems=(*own.problems, *found.problems))

    def tip(self, track: str) -> Stored | None:
        """The newest checkpoint of a track, a foreign one where the track exists only as fetched; None when there is no such
        track. Raises RecordError when it is broken."""
        stored = self.own_tip(track)
        chains = self.fetched().get(track) if stored is None and self.at_remotes(track) else None
        if not chains:
            return stored
        found = _tips(self, {track: chains})
        if not found.items and found.problems:
            raise RecordError(f"{in_quotes(found.problems[0].where)}: {found.problems[0].reason}")
        return found.items[0] if found.items else None

    def readable(self, track: str) -> Stored | None:
        """As ``tip``, for who only looks: where the newest checkpoint cannot be read, the newest that can, and ``unread`` says
        so. Raises RecordError when there is none."""
        try:
            return self.tip(track)
        except RecordError as error:
            from gitbaton.store import sound

            found = sound.newest(self, track)
            if found is None:
                raise RecordError(error.message, MENDS) from None
            said = "the newest checkpoint that can be read is shown"
            self.unread[track] = f"{error.message}; {said}, and '{MENDS}' goes on from what is left"
            return found

    def has(self, track: str) -> bool:
        """Whether there is a track, here or as fetched, also one whose newest checkpoint cannot be read."""
        return self._pointed(chain_ref(track)) is not None or bool(self.at_remotes(track))

    def is_foreign(self, track: str) -> bool:
        """Whether a track is here, or at remotes as far as they were fetched, and nothing of it was made here."""
        return not self.ours.knows(of_track(track)) and self.has(track)

    def made_here(self) -> list[str]:
        """The tracks of this repository of which anything was made here."""
        chains, known = self.chains()[0], self.ours.names("tracks")
        return [track for track in chains if encode_track(track) in known]

    def meant(self) -> list[str]:
        """The tracks that can be meant where none is named: those of here, if there are any, else those that came from
        elsewhere."""
        return self.made_here() or list(self.chains()[0]) or list(self.strange())

    def before(self, track: str) -> Stored | None:
        """As ``tip``, for what a snapshot can do without: where only a remote's copy is broken, there is none."""
        try:
            return self.tip(track)
        except RecordError:
            return self.own_tip(track)

    def history(self, track: str, limit: int | None = None) -> History:
        """A track's checkpoints, newest first; a broken one is named and left out. Raises NotFoundError."""
        try:
            return self.chain(chain_ref(track), track, limit)
        except NotFoundError:
            if track not in self.fetched():
                raise
        return self._fetched_history(track, limit)

    def _fetched_history(self, track: str, limit: int | None) -> History:
        """The checkpoints of a track that exists only as fetched, newest first, from all its remotes; all of them are foreign.

        What was dropped anywhere is left out. As of the last listing of the chains.
        """
        problems: list[Problem] = []
        remotes = [remote for remote, _ in self.strange()[track]]
        return _history(self, track, remotes, _dropping(self, remotes, problems), problems, limit)

    def everything(self, tracks: Iterable[str], limit: int | None = None) -> History:
        """All checkpoints of several tracks, or the newest of each, newest first."""
        items: list[Stored] = []
        problems: list[Problem] = []
        for track in tracks:
            try:
                found = self._fetched_history(track, limit) if self._is_strange(track) else self.history(track, limit)
            except (RecordError, NotFoundError, GitError) as error:
                problems.append(Problem(where=chain_ref(track), reason=error.message))
                continue
            items += found.items
            problems += found.problems
        return History(items=newest_first(items), problems=tuple(problems))

    def whole(self, limit: int | None = None) -> History:
        """All checkpoints of all tracks, newest first, also those that exist only as fetched."""
        if limit is not None:
            return _latest(self, limit)
        chains, broken = self.chains()
        own = self.everything([*chains, *self.strange()])
        own = replace(own, problems=(*broken, *own.problems))
        if not self.elsewhere():
            return own
        more = apart(self, chains, {s.id for s in own.items})
        items = newest_first([*own.items, *more.items])
        return History(items=items, problems=(*own.problems, *more.problems), origins=more.origins)


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
        return f"{remote} has {many} of track {in_quotes(self.track)}: 'git baton sync {remote}' joins them"


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
    return History(items=newest_first(found.values())[:limit], problems=tuple(problems))


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
    return History(items=newest_first(found.values()), problems=tuple(problems), origins=origins)


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


def _tips(store: Chains, tracks: Mapping[str, list[tuple[str, Oid]]]) -> History:
    """The newest checkpoint of each of these tracks, newest first. Where a tip was dropped or cannot be read, what is below it
    is looked at; else no more than the tips."""
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
        items += [replace(s, foreign=True) for s in newest_first(found)[:1]]
    return History(items=newest_first(items), problems=tuple(problems))


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


def _latest(store: Store, limit: int) -> History:
    """The newest checkpoints of all tracks, also of those that exist only as fetched: ``Store.whole`` cut to a number.

    Tracks are read in the order of their tips, until those that follow are all older than what was found.
    """
    known = read(store.repo) if limit <= SHOWN else None
    chains, broken = store.chains() if known is None or below(store.repo, REMOTES) else ({}, [])
    elsewhere = store.elsewhere() if chains or known is None else {}
    strangers = {(track, oid) for track, _, oid in differing(chains, elsewhere)}
    if known is not None:
        found = _merged(store, [*((row[0], row[3]) for row in known.rows), *_when(store, strangers)], chains, limit)
        if len(found.items) == limit:
            return found
        chains, broken = store.chains()
    found = _merged(store, _when(store, [*chains.items(), *strangers]), chains, limit)
    return replace(found, problems=(*broken, *found.problems))


def _when(store: Chains, tips: Iterable[tuple[str, Oid]]) -> list[tuple[str, str]]:
    """When the tips of tracks were taken, with the track; one that cannot be read counts as the newest, so that it is named."""
    listed, broken = sorted(tips), list[Problem]()
    times = {(track, oid): created for created, track, oid in dated(store, listed, broken)}
    return [(times.get(tip, "~"), tip[0]) for tip in listed]


def _merged(store: Store, tips: Sequence[tuple[str, str]], chains: Mapping[str, Oid], limit: int) -> History:
    """The newest checkpoints of tracks, read in the order of their tips."""
    items: dict[Oid, Stored] = {}
    times: list[datetime] = []  # of the newest so far, as a heap
    problems, origins, done = list[Problem](), dict[Oid, tuple[str, ...]](), set[str]()
    for created, track in sorted(tips, reverse=True):
        if len(times) >= limit and (not times or created < timestamp(times[0])):
            break
        for found in _of_track(store, track, chains, limit) if track not in done else ():
            for stored in found.items:
                if items.setdefault(stored.id, stored) is stored:
                    (heappush if len(times) < limit else heappushpop)(times, stored.checkpoint.created)
            problems += found.problems
            origins |= found.origins
        done.add(track)
    return History(items=newest_first(items.values())[:limit], problems=tuple(problems), origins=origins)


def _of_track(store: Store, track: str, chains: Mapping[str, Oid], limit: int) -> Iterator[History]:
    """The newest checkpoints of a track here, and those that only remotes have of it."""
    mine = {track: chains[track]} if track in chains else {}
    there = bool(mine) and any(True for _ in differing(mine, {track: store.elsewhere().get(track, [])}))
    own = store.everything([track], None if there else limit)
    yield own
    if there:
        yield apart(store, mine, {s.id for s in own.items})
