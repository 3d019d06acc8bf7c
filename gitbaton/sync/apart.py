"""Broken refs beside an exchange: which there are, and what is left of a choice without them."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.baton import Baton
from gitbaton.errors import BatonError, GitError, GitTimeoutError, RecordError, RemoteError
from gitbaton.git.remotes import Connection
from gitbaton.model import Oid
from gitbaton.store import NOTES, Store, chain_ref, meta, sound
from gitbaton.store.meta import Meta
from gitbaton.store.refs import track_of
from gitbaton.sync.look import own
from gitbaton.sync.values import Choice
from gitbaton.values import replace


def require_meta(baton: Baton, what: str) -> Meta:
    """What is pinned and dropped here. Raises RecordError that says ``what`` is not done where that cannot be read: it protects
    others, and so it is looked at before anything is written."""
    try:
        return meta.read(baton.store)
    except RecordError as error:
        raise RecordError(f"nothing is {what}: {error.message}", *error.hints) from None


def apart(baton: Baton, line: Connection, choice: Choice) -> dict[str, str]:
    """The refs here that are broken, each with why, but for those of tracks that a choice does not take. From now on git does
    not see them when it fetches."""
    found = sound.broken(baton.store, sound.own_refs(baton.store))
    line.hidden |= found.keys()
    tracks = {ref: track_of(own(ref)) for ref in found}
    return {ref: why for ref, why in found.items() if (name := tracks[ref]) is None or choice.takes(("track", name))}


def more_apart(baton: Baton, line: Connection, error: BatonError, there: Mapping[str, Oid] = sound.NONE) -> dict[str, str]:
    """After an error that may come of it: the refs here, and those ``there`` whose objects are here, that lead to what cannot
    be read and were not known yet."""
    if isinstance(error, RemoteError):
        local = error.kind in ("other", "read-only")  # a pack that ends early is one that a server cannot unpack
    else:
        local = isinstance(error, GitError | RecordError) and not isinstance(error, GitTimeoutError)
    if not local:
        return {}
    store = baton.store
    known = {ref: oid for ref, oid in there.items() if store.objects.info(oid) is not None}
    refs = {ref: oid for ref, oid in {**known, **sound.own_refs(store)}.items() if ref not in line.hidden}
    found = sound.astray(store, refs, sound.theirs(store))
    line.hidden |= found.keys()
    return found


def torn_notes(store: Store) -> dict[str, str]:
    """Our notes, where they lead to what cannot be read, with why."""
    return sound.astray(store, {ref: oid for ref, oid in sound.own_refs(store).items() if ref == NOTES}, sound.theirs(store))


def without(choice: Choice, tracks: Mapping[str, object], left: Mapping[str, str]) -> Choice:
    """A choice of some tracks without those whose chain is broken."""
    return replace(choice, tracks=tuple(sorted(t for t in tracks if choice.takes(("track", t)) and chain_ref(t) not in left)))
