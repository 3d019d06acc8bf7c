"""What the first push of a track makes public, beyond what the remote's refs hold: counted before anything is sent."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from gitbaton.baton import Baton
from gitbaton.git.objects import new_object
from gitbaton.git.run import checked
from gitbaton.model import Oid
from gitbaton.sync.values import Exposure, Move

_OURS = ("gitbaton index 1", "gitbaton stages 1", "gitbaton root 1")
_HEADERS = re.compile(rb"\A(?:[0-9a-f]{40,64} [0-9a-f]{40,64}\n)+")


def exposure(baton: Baton, moves: Sequence[Move], haves: Sequence[Oid]) -> Exposure | None:
    """What becomes public by those moves that make a track known to the remote; None where none does.

    ``haves``: what the remote's refs point at; what of it is not here excludes nothing.
    """
    new = {move.track: move.new for move in moves if move.action == "new" and move.track is not None and move.new}
    if not new:
        return None
    tips = sorted(set(new.values()))
    chains = {oid for tip in tips for oid in baton.repo.objects.first_parents(tip)} - {baton.store.root}
    return Exposure(
        tracks=tuple(sorted(new)),
        checkpoints=len(chains),
        commits=_commits(baton, tips, haves, chains),
        untracked=_untracked(baton, tips),
        bytes=_bytes(baton, tips, haves),
    )


def present(baton: Baton, oids: Sequence[Oid]) -> list[Oid]:
    """Those of the ids that are here."""
    asked = sorted(set(oids))
    return [oid for oid, found in zip(asked, baton.repo.objects.read_many(asked, 0), strict=True) if found is not None]


def _range(tips: Sequence[Oid], haves: Sequence[Oid]) -> bytes:
    return "".join([*(f"{oid}\n" for oid in tips), *(f"^{oid}\n" for oid in haves)]).encode()


def _commits(baton: Baton, tips: Sequence[Oid], haves: Sequence[Oid], chains: set[Oid]) -> int:
    """The user's own commits among what is sent."""
    raw = baton.repo.git.out("rev-list", "--stdin", "--format=%s", stdin=_range(tips, haves))
    rows = raw.decode("utf-8", "replace").split("\n")[:-1]
    found = {row.removeprefix("commit "): subject for row, subject in zip(rows[::2], rows[1::2], strict=True)}
    return sum(1 for oid, subject in found.items() if oid not in chains and subject not in _OURS)


def _bytes(baton: Baton, tips: Sequence[Oid], haves: Sequence[Oid]) -> int:
    words = ("rev-list", "--disk-usage", "--objects", "--stdin")
    return int(baton.repo.git.out(*words, stdin=_range(tips, haves)))


def _untracked(baton: Baton, tips: Sequence[Oid]) -> int:
    """How many paths the chains' trees hold that neither the commit nor the index that each stands on does."""
    raw = baton.repo.git.out("rev-list", "--first-parent", "--stdin", "--format=%T %P", stdin=_range(tips, ()))
    rows = [row.split(" ") for row in raw.decode("ascii").split("\n")[:-1] if not row.startswith("commit ")]
    bases = sorted({row[2] for row in rows if len(row) == 3})
    asked = "".join(f"{oid}^{{tree}}\n" for oid in bases).encode()
    listed = baton.repo.git.out("cat-file", "--batch-check=%(objectname)", stdin=asked).decode("ascii", "replace").split("\n")
    trees = dict(zip(bases, listed, strict=False))
    empty = new_object(baton.repo.layout.algorithm, "tree", b"").oid
    pairs = {(trees[row[2]] if len(row) == 3 else empty, row[0]) for row in rows if len(row) > 1}
    lines = "".join(f"{base} {tree}\n" for base, tree in sorted(pairs) if base != tree and " " not in base)
    words = ("diff-tree", "--stdin", "-r", "-z", "--name-only", "--diff-filter=A", "--no-renames")
    result = baton.repo.git.run(*words, stdin=lines.encode())
    names = (_HEADERS.sub(b"", name) for name in checked(result, "diff-tree").split(b"\0"))
    return len({os.fsdecode(name) for name in names if name})
