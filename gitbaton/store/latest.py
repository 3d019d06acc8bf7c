"""The newest checkpoints of all tracks, of which only those are read that can be among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import heappush, heappushpop

from gitbaton.codec import timestamp
from gitbaton.git.reffiles import below
from gitbaton.model import Oid, Stored
from gitbaton.store import fetched
from gitbaton.store.chain import Chains
from gitbaton.store.newest import SHOWN, dated, read
from gitbaton.store.refs import REMOTES
from gitbaton.store.values import History, Problem
from gitbaton.values import replace

Everything = Callable[[Iterable[str], int | None], History]


def latest(store: Chains, limit: int, everything: Everything) -> History:
    """The newest checkpoints of all tracks, also of those that exist only as fetched: ``Store.whole`` cut to a number.

    ``everything``: ``Store.everything``.

    Tracks are read in the order of their tips, until those that follow are all older than what was found.
    """
    known = read(store.repo) if limit <= SHOWN else None
    chains, broken = store.chains() if known is None or below(store.repo, REMOTES) else ({}, [])
    elsewhere = store.elsewhere() if chains or known is None else {}
    apart = {(track, oid) for track, _, oid in fetched.differing(chains, elsewhere)}
    if known is not None:
        found = _merged(store, [*((row[0], row[3]) for row in known.rows), *_when(store, apart)], chains, limit, everything)
        if len(found.items) == limit:
            return found
        chains, broken = store.chains()
    found = _merged(store, _when(store, [*chains.items(), *apart]), chains, limit, everything)
    return replace(found, problems=(*broken, *found.problems))


def _when(store: Chains, tips: Iterable[tuple[str, Oid]]) -> list[tuple[str, str]]:
    """When the tips of tracks were taken, with the track; one that cannot be read counts as the newest, so that it is named."""
    listed, broken = sorted(tips), list[Problem]()
    times = {(track, oid): created for created, track, oid in dated(store, listed, broken)}
    return [(times.get(tip, "~"), tip[0]) for tip in listed]


def _merged(
    store: Chains, tips: Sequence[tuple[str, str]], chains: Mapping[str, Oid], limit: int, everything: Everything
) -> History:
    """The newest checkpoints of tracks, read in the order of their tips."""
    items: dict[Oid, Stored] = {}
    times: list[datetime] = []  # of the newest so far, as a heap
    problems, origins, done = list[Problem](), dict[Oid, tuple[str, ...]](), set[str]()
    for created, track in sorted(tips, reverse=True):
        if len(times) >= limit and (not times or created < timestamp(times[0])):
            break
        for found in _of_track(store, track, chains, limit, everything) if track not in done else ():
            for stored in found.items:
                if items.setdefault(stored.id, stored) is stored:
                    (heappush if len(times) < limit else heappushpop)(times, stored.checkpoint.created)
            problems += found.problems
            origins |= found.origins
        done.add(track)
    newest = sorted(items.values(), key=lambda s: (s.checkpoint.created, s.id), reverse=True)
    return History(items=tuple(newest[:limit]), problems=tuple(problems), origins=origins)


def _of_track(store: Chains, track: str, chains: Mapping[str, Oid], limit: int, everything: Everything) -> Iterator[History]:
    """The newest checkpoints of a track here, and those that only remotes have of it."""
    mine = {track: chains[track]} if track in chains else {}
    there = bool(mine) and any(True for _ in fetched.differing(mine, {track: store.elsewhere().get(track, [])}))
    own = everything([track], None if there else limit)
    yield own
    if there:
        yield fetched.apart(store, mine, {s.id for s in own.items})
