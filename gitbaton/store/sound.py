"""Refs of ours that lead to what can be read, and those that do not: a broken one stops nothing but itself.

Whoever removes, sends or takes in asks here which to leave alone, goes on with the others, and says so in the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from gitbaton.git import usage
from gitbaton.model import Oid
from gitbaton.store.read import Store
from gitbaton.store.refs import CHAINS, META, NOTES, REMOTES, RUNS, SAFETY, THREADS, TIPS, TRANSCRIPTS
from gitbaton.store.values import MAX_COMMIT

OURS = ("refs/baton/", TIPS)
NONE: Mapping[str, str] = MappingProxyType({})
"""No broken refs."""
_COMMITS = (CHAINS, SAFETY, RUNS, THREADS, TRANSCRIPTS, META, NOTES)


def own_refs(store: Store) -> dict[str, Oid]:
    """Our refs and what they point at: chains, tips, notes, meta, and all else below ``refs/baton/``; zeros as in usage."""
    found = usage.refs(store.repo, *OURS, NOTES)
    return {ref: oid for ref, oid in found.items() if ref.startswith(OURS) or ref == NOTES}


def kind_of(ref: str) -> str | None:
    """The kind of object that a ref of ours points at; None where that may be any."""
    if ref.startswith(TIPS):
        return "blob"
    fetched = ref.startswith(REMOTES) and "/late/" not in ref
    return "commit" if ref.startswith(_COMMITS) or fetched else None


def broken(store: Store, refs: Mapping[str, Oid]) -> dict[str, str]:
    """Those of ``refs``, which are ``own_refs``, that hold no id, or point at what cannot be read or at another kind of object
    than such a ref does, each with why. What lies below is not looked at: that is ``astray``."""
    found: dict[str, str] = {}
    for (ref, oid), item in zip(refs.items(), store.objects.read_many(list(refs.values()), MAX_COMMIT), strict=True):
        kind = kind_of(ref)
        if not oid.strip("0"):
            found[ref] = "it holds no id"
        elif item is None:
            found[ref] = f"it points at {oid}, which cannot be read"
        elif kind is not None and item.kind != kind:
            found[ref] = f"it points at a {item.kind}, {oid}"
    return found


def astray(store: Store, refs: Mapping[str, Oid], without: Collection[Oid] = ()) -> dict[str, str]:
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


def theirs(store: Store) -> list[Oid]:
    """Where the user's refs and HEAD begin, as far as git can read that much of them."""
    refs = store.objects.refs("refs/")
    oids = {oid for ref, oid in refs.items() if not ref.startswith(OURS) and ref != NOTES and oid.strip("0")}
    head = store.objects.head().oid
    asked = sorted(oids | ({head} if head else set()))
    return [oid for oid, item in zip(asked, store.objects.read_many(asked), strict=True) if item is not None]
