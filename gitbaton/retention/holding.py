"""Held bytes that no checkpoint names any more: found by what all refs and reflogs reach, and removed."""

from __future__ import annotations

from gitbaton.baton import Baton
from gitbaton.codec import plain
from gitbaton.errors import BatonError
from gitbaton.worktree.heldbytes import LONGEST, HeldStore, parse_held

_LEAST = 90  # bytes of a stand-in


def sweep(baton: Baton) -> list[str]:
    """Remove held bytes once checkpoints are gone that named them; what should be said. Without proof, and while somebody is
    just recording, nothing goes."""
    store = HeldStore(baton.repo)
    try:
        store.sweep(lambda: named(baton))
    except (BatonError, OSError) as error:
        return [f"what passed no filter is still kept in '{store.folder}': {plain(str(error))}"]
    return []


def named(baton: Baton) -> set[str]:
    """The tokens of all stand-ins that anything reaches. Raises GitError where that cannot be seen."""
    git = baton.repo.git
    listed = git.out("rev-list", "--objects", "--no-object-names", "--missing=allow-promisor", "--all", "--reflog")
    sizes = git.out("cat-file", "--batch-check=%(objecttype) %(objectsize) %(objectname)", "--buffer", stdin=listed)
    rows = [row.split(" ") for row in sizes.decode("ascii", "replace").split("\n")[:-1]]
    small = [row[2] for row in rows if len(row) == 3 and row[0] == "blob" and _LEAST <= int(row[1]) <= LONGEST]
    found = set()
    for item in baton.repo.objects.read_many(small, LONGEST):
        held = parse_held(item.data) if item is not None and item.data is not None else None
        found |= {held.token} if held is not None else set()
    return found
