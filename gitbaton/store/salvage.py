"""What can still be read of a track whose newest checkpoint cannot: the newest of those that lie in the repository."""

from __future__ import annotations

from gitbaton.errors import RecordError
from gitbaton.git.tornfiles import listed
from gitbaton.model import Stored
from gitbaton.store.chain import Chains
from gitbaton.store.values import MAX_COMMIT
from gitbaton.values import replace


def newest(store: Chains, track: str) -> Stored | None:
    """The newest checkpoint of a track among all commits that lie here, reachable or not; a foreign one where a remote has it.
    One look at every object. Raises GitError."""
    strange = {oid for _, tip in store.at_remotes(track) for oid in store.objects.first_parents(tip)}
    oids = [oid for oid, (kind, size) in listed(store.repo).items() if kind == "commit" and size <= MAX_COMMIT]
    found: list[Stored] = []
    for oid, read in zip(oids, store.objects.read_many(oids, MAX_COMMIT), strict=True):
        if read is None or read.data is None or b'"track": ' not in read.data:
            continue
        try:
            stored = store.stored(read, None, oid)
        except RecordError:
            continue
        if stored.checkpoint.track == track and stored.checkpoint.kind != "safety":
            known = store.stored(read, track, oid)
            found.append(replace(known, foreign=known.foreign or oid in strange))
    return max(found, key=lambda stored: (stored.checkpoint.created, stored.id), default=None)
