"""Survey of our refs: which are sound, which are broken and why, and the checkpoints that lie about where one is.

Whoever removes, sends or takes in asks here which to leave alone, goes on with the others, and says so in the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

from gitbaton.errors import RecordError
from gitbaton.git import usage
from gitbaton.model import Oid, Stored
from gitbaton.store.chain import MAX_COMMIT, Chains
from gitbaton.store.refs import CHAINS, META, NOTES, REMOTES, RUNS, SAFETY, THREADS, TIPS, TRANSCRIPTS
from gitbaton.values import replace

OURS = ("refs/baton/", TIPS)
NONE: Mapping[str, str] = MappingProxyType({})
"""No broken refs."""
_COMMITS = (CHAINS, SAFETY, RUNS, THREADS, TRANSCRIPTS, META, NOTES)


def is_ours(ref: str) -> bool:
    """Whether a ref stands where only gitbaton writes."""
    return ref.startswith(OURS) or ref == NOTES


def own_refs(store: Chains) -> dict[str, Oid]:
    """Our refs and what they point at: chains, tips, notes, meta, and all else below ``refs/baton/``; zeros as in usage."""
    return {ref: oid for ref, oid in usage.refs(store.repo, *OURS, NOTES).items() if is_ours(ref)}


def broken(store: Chains, refs: Mapping[str, Oid]) -> dict[str, str]:
    """Those of ``refs``, which are ``own_refs``, that hold no id, or point at what cannot be read or at another kind of object
    than such a ref does, each with why. What lies below is not looked at: that is ``astray``."""
    found: dict[str, str] = {}
    for (ref, oid), item in zip(refs.items(), store.objects.read_many(list(refs.values()), MAX_COMMIT), strict=True):
        fetched = ref.startswith(REMOTES) and "/late/" not in ref
        kind = "blob" if ref.startswith(TIPS) else "commit" if ref.startswith(_COMMITS) or fetched else None
        if not oid.strip("0"):
            found[ref] = "it holds no id"
        elif item is None:
            found[ref] = f"it points at {oid}, which cannot be read"
        elif kind not in (None, item.kind):
            found[ref] = f"it points at a {item.kind}, {oid}"
    return found


def astray(store: Chains, refs: Mapping[str, Oid], without: Collection[Oid] = ()) -> dict[str, str]:
    """Those of ``refs`` that lead to what cannot be read and ``without`` do not reach, each with why. Every object is read, so
    this is for who has found that something is wrong; of many refs halves are asked until it is known which."""
    wrong = usage.unreadable(store.repo, refs.values(), without) if refs else ""
    if not wrong:
        return {}
    rows = list(refs.items())
    if len({oid for _, oid in rows}) == 1:
        return {ref: f"it leads to what cannot be read: {wrong}" for ref, _ in rows}
    half = len(rows) // 2
    return astray(store, dict(rows[:half]), without) | astray(store, dict(rows[half:]), without)


def theirs(store: Chains) -> list[Oid]:
    """Where the user's refs and HEAD begin, as far as git can read that much of them."""
    oids = {oid for ref, oid in store.objects.refs("refs/").items() if not is_ours(ref) and oid.strip("0")}
    head = store.objects.head().oid
    return list(store.present({*oids, head}, MAX_COMMIT))


def checkpoints(store: Chains, oids: Sequence[Oid]) -> Iterator[Stored]:
    """Those of some commits that can be read and are checkpoints, whichever chain they are of."""
    for oid, found in zip(oids, store.objects.read_many(oids, MAX_COMMIT), strict=True):
        try:
            yield store.stored(found, None, oid)
        except RecordError:
            continue


def newest(store: Chains, track: str) -> Stored | None:
    """The newest checkpoint of a track among all commits that lie here, reachable or not, for where its ref is broken; a
    foreign one where a remote has it. One look at every object. Raises GitError."""
    from gitbaton.git.damage import listed

    oids = [oid for oid, (kind, size) in listed(store.repo).items() if kind == "commit" and size <= MAX_COMMIT]
    found = (s for s in checkpoints(store, oids) if s.checkpoint.track == track and s.checkpoint.kind != "safety")
    last = max(found, key=lambda stored: (stored.checkpoint.created, stored.id), default=None)
    if last is None:
        return None
    known = store.stored(store.objects.read(last.commit, MAX_COMMIT), track, last.commit)
    strange = any(last.commit in store.objects.first_parents(tip) for _, tip in store.at_remotes(track))
    return replace(known, foreign=known.foreign or strange)
