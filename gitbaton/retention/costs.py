"""What each track, the conversations and the rest cost on disk: bytes that go with it alone, and bytes that it shares."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping

from gitbaton.baton import Baton
from gitbaton.codec import decode_track
from gitbaton.git import usage
from gitbaton.git.objects import parse_commit
from gitbaton.git.repo import Repo
from gitbaton.model import Oid
from gitbaton.retention.looking import existing
from gitbaton.store import CHAINS, NOTES, SAFETY, TIPS, Store, track_of
from gitbaton.store.refs import META, REMOTES, RUNS, THREADS, TRANSCRIPTS
from gitbaton.store.sound import own_refs
from gitbaton.threads.names import LATE
from gitbaton.values import value

_FIRST = ("track", "safety", "transcripts", "runs", "threads")
_ROOMS = (("safety", SAFETY), ("transcripts", TRANSCRIPTS), ("runs", RUNS), ("threads", THREADS), ("threads", LATE))


@value
class Cost:
    """What one part takes on disk. ``kind``: ``track``, ``safety``, ``transcripts``, ``runs``, ``threads``, ``log`` (of
    threads: what git does not have yet), ``notes``, ``fetched``; ``name``: the track, or the remote. ``own``: bytes that
    nothing else reaches; ``shared``: bytes that other parts of ours reach as well. What the user's own refs reach costs
    nothing and is in neither."""

    kind: str
    name: str
    own: int
    shared: int


def costs(baton: Baton) -> tuple[Cost, ...]:
    """What everything of ours costs: tracks by name, then the rest. Raises RecordError for what cannot be read."""
    store = baton.store
    parts = _parts(store)
    mine = {oid for oids in parts.values() for oid in oids}
    refs = own_refs(store)
    outside = {oid for ref, oid in store.objects.refs("refs/").items() if ref not in refs and oid.strip("0")}
    head = store.objects.head().oid
    others = existing(store, (outside | ({head} if head else set())) - mine)
    since = usage.reached(baton.repo, others, _first(store, parts)).keys()
    reached = {part: usage.reached(baton.repo, oids, others).keys() - since for part, oids in parts.items()}
    times = Counter(oid for oids in reached.values() for oid in oids)
    sizes = {oid: size.bytes for oid, size in usage.sizes(baton.repo, times.keys()).items()}

    def total(oids: Iterable[Oid], *, alone: bool) -> int:
        return sum(sizes.get(oid, 0) for oid in oids if (times[oid] == 1) == alone)

    found = [
        Cost(kind=kind, name=name, own=total(there, alone=True), shared=total(there, alone=False))
        for (kind, name), there in reached.items()
    ]
    log = _log(baton.repo)
    at = sum(cost.kind in _FIRST for cost in found)
    return (*found[:at], *([Cost(kind="log", name="", own=log, shared=0)] if log else []), *found[at:])


def _log(repo: Repo) -> int:
    """Bytes that the log of threads takes on disk; it goes when the last process that uses it has ended."""
    try:
        with os.scandir(os.path.join(repo.shared_dir, "wal")) as files:
            return sum(file.stat(follow_symlinks=False).st_blocks * 512 for file in files)
    except OSError:
        return 0


def _first(store: Store, parts: Mapping[tuple[str, str], list[Oid]]) -> list[Oid]:
    """What the first checkpoint of each chain stands on."""
    found: list[Oid] = []
    for (kind, _), tips in parts.items():
        for tip in tips if kind in ("track", "safety") else ():
            info = store.objects.info(tip)
            chain = store.objects.first_parents(tip) if info is not None and info.kind == "commit" else []
            first = store.objects.read(chain[-2]) if len(chain) > 1 else None
            found += parse_commit(first.data).parents[1:] if first is not None and first.data else ()
    return list(existing(store, found))


def _parts(store: Store) -> dict[tuple[str, str], list[Oid]]:
    """What each part's refs point at, in the order in which parts are shown."""
    found: dict[tuple[str, str], list[Oid]] = {}
    for ref, oid in existing_refs(store).items():
        found.setdefault(_part(ref), []).append(oid)
    order = {kind: place for place, kind in enumerate((*_FIRST, "notes"))}
    return dict(sorted(found.items(), key=lambda item: (order.get(item[0][0], len(order)), item[0])))


def existing_refs(store: Store) -> Mapping[str, Oid]:
    """Our refs, but for those that are broken: they cost nothing."""
    refs = own_refs(store)
    there = set(existing(store, (oid for oid in refs.values() if oid.strip("0"))))
    return {ref: oid for ref, oid in refs.items() if oid in there}


def _part(ref: str) -> tuple[str, str]:
    if ref.startswith((CHAINS, TIPS)):
        return "track", track_of(ref) or ref
    for kind, prefix in _ROOMS:
        if ref.startswith(prefix):
            return kind, ""
    if ref.startswith(REMOTES):
        remote = ref.removeprefix(REMOTES).partition("/")[0]
        return "fetched", decode_track(remote) or remote
    return ("notes", "") if ref in (META, NOTES) else ("other", ref)
