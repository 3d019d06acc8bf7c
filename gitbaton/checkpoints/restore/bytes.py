"""Exact bytes in a restore: where trees agree and files do not, and what comes in place of git's checkout.

A checkpoint keeps such bytes of the files that it examined: in itself, or where it was taken, behind a stand-in. A tracked file
that git found unchanged was not examined; as long as it has not been written since, its bytes are those of then, and stay.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime

from gitbaton.base.errors import MENDS, RecordError
from gitbaton.base.model import Oid, Stored
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.restore.scene import PresentState
from gitbaton.checkpoints.store import Store
from gitbaton.checkpoints.store.chain import AFTER, beside, in_beside, paths_beside
from gitbaton.git.worktree.checkout import Difference, GitEntry, entry_at, readable_differences
from gitbaton.git.worktree.heldbytes import HeldOid, HeldStore, moved, read_held
from gitbaton.git.worktree.rawbytes import Conversion, blob_at, differing, entries, read_kept, read_raw
from gitbaton.git.worktree.staged import Scope
from gitbaton.git.worktree.untracked import ignored, regular

AFTER_RAW, AFTER_HELD, TOUCHED = b"after-raw", b"after-held", b"touched"
ONLY, APART, HIDDEN = b"index-only", b"index-apart", b"hidden"
LINKS, AFTER_LINKS = b"links", b"after-links"


class Bytes:
    """The exact bytes that were kept of what comes back, against those on disk. ``tree`` is what comes back; ``since``: a file
    written after it holds others than then (None: every file that differs does).

    ``away``: why those of a path do not come back, where its own bytes are not here; ``cleaned``: the same of paths of which a
    checkout gives what their filter made; ``conversion``: how one of then gave what it gave, where that is not as now."""

    def __init__(
        self,
        scene: PresentState,
        kept: Mapping[str, Oid],
        tree: Oid,
        since: datetime | None,
        conversion: Conversion | None = None,
    ) -> None:
        self.scene, self.tree, self.since, self.conversion = scene, tree, since, conversion
        self.converted: Mapping[str, GitEntry] = {}
        self.away, self.cleaned = absent(scene.baton.store, kept)
        self.then = {path: oid for path, oid in kept.items() if path not in self.cleaned}

    def differences(self, apart_in_trees: Sequence[Difference]) -> list[Difference]:
        """Return the paths at which the trees agree and the bytes do not."""
        apart = {d.path for d in apart_in_trees}
        turned = dict[str, GitEntry]()
        if self.conversion is not None:  # of which a checkout gave something else then than now
            same = [file for file in entries(self.scene.repo.git, self.tree) if file[0] not in apart]
            rows = self.conversion.turned(self.scene.index.git, same)
            turned = {path: GitEntry(mode=mode, oid=oid) for path, mode, oid in rows}
        # One that was not written since holds the bytes of then.
        asked = {p: e for p, e in turned.items() if p in self.then or self._examined(p, moved=True)}
        self.converted = {path: turned[path] for path in self._differing(asked)}
        found = [Difference(path=path, now=entry, then=entry) for path, entry in self.converted.items()]
        apart.update(turned)
        now = self.scene.keep_raw([path for path in self.then if path not in apart])
        for path in sorted({*self.then, *now} - apart, key=os.fsencode):
            there = entry_at(self.scene.baton.store.objects, self.tree, path)
            if there is None or not there.mode.startswith("100") or now.get(path) == self.then.get(path):
                continue
            if path in self.then or self._examined(path):
                found.append(Difference(path=path, now=there, then=there))
        return sorted(found, key=lambda d: os.fsencode(d.path))

    def arrived(self, apart_in_trees: Sequence[Difference]) -> set[str]:
        """Return the paths at which the trees do not agree, and where the bytes and the mode of then are on disk: git takes
        them for something else by what converts files now."""
        both = [d for d in apart_in_trees if d.now is not None and d.then is not None] if self.conversion is not None else []
        there = {d.path: d.then for d in both if d.then and d.now and d.now.mode == d.then.mode and d.then.mode[:3] == "100"}
        return there.keys() - self._differing(there)

    def _differing(self, files: Mapping[str, GitEntry]) -> set[str]:
        """Return the files that hold other bytes than those of then."""
        if self.conversion is None or not files:
            return set()
        scene, kept = self.scene, self.then.keys() & files.keys()
        plain = [(p, e.mode, e.oid) for p, e in files.items() if p not in kept]
        other = {*differing(self.conversion.git, scene.root, plain)}
        other |= {*moved(scene.repo, scene.root, {p: self.then[p] for p in kept if isinstance(self.then[p], HeldOid)})}
        raw = [path for path in kept if not isinstance(self.then[path], HeldOid)]
        return other.union(path for path in raw if blob_at(scene.repo, scene.root, path) != self.then[path])

    def _examined(self, path: str, *, moved: bool = False) -> bool:
        """Whether the bytes of a path that keeps none were looked at, or must have been others: it was written since, or
        ``moved`` there."""
        return self.since is None or self.scene.written_since(path, self.since, moved=moved)

    def wanted(self, changing: Sequence[Difference]) -> dict[str, Oid | None]:
        """Return what to write in place of git's checkout of the paths that change; None: what git would check out.

        The present bytes of all of them are in the capture afterwards.
        """
        now = self.scene.keep_raw([d.path for d in changing if d.now is not None])
        found: dict[str, Oid | None] = {}
        for d in changing:
            if d.then is None or not d.then.mode.startswith("100"):
                continue
            same = d.now is not None and d.now.oid == d.then.oid
            if d.path in self.then or d.now == d.then:
                found[d.path] = self.then.get(d.path)
            elif same and d.path in now and not self._examined(d.path):
                found[d.path] = now[d.path]
        return found


def kept_in(store: Store, stored: Stored) -> dict[str, Oid]:
    """Return the exact bytes that a checkpoint kept, by path. Raises RecordError."""
    files = stored.checkpoint.files
    tree = beside(store, stored) if files and (files.raw or files.held) else None
    return read_kept(store.objects, tree) if tree else {}


def absent(store: Store, kept: Mapping[str, Oid]) -> tuple[dict[str, str], dict[str, str]]:
    """Return, each by path with the reason, the kept bytes that are not here: those that did not pass their filter, and those
    of which the checkpoint has what the filter made."""
    away, cleaned, here = dict[str, str](), dict[str, str](), HeldStore(store.repo)
    for path, oid in kept.items():
        if isinstance(oid, HeldOid):
            held = read_held(store.objects, oid)
            if held is None:
                away[path] = "what stands for its bytes cannot be read"
            elif not here.has(held):
                (cleaned if held.cleaned else away)[path] = held.reason
    return away, cleaned


def held_ignored(baton: Baton, target: Stored) -> list[str]:
    """Return the files that a checkpoint holds from before a command that was to remove them, or that a restore was to write,
    and that are there and ignored now: where their bytes are others they are written over, so they are to be held first. One
    that is too large is left alone."""
    files, root = target.checkpoint.files, baton.repo.layout.root or ""
    side = beside(baton.store, target) if files is not None and (files.held or target.checkpoint.restore) else None
    there, rooms = list[str](), (b"held", AFTER_HELD)
    kept = [item for room in rooms for item in read_raw(baton.store.objects, side, room).items()] if side is not None else []
    for path, oid in dict(kept).items():
        full = os.path.join(root, path)
        if regular(full) and os.lstat(full).st_size <= baton.settings.max_file_size:
            held = read_held(baton.store.objects, oid)
            there += [path] if held is not None and not held.driver else []
    return [name.removeprefix("./") for name in ignored(baton.repo.git.changed({}, directory=root), there)] if there else []


def stepped(store: Store, safety: Stored) -> tuple[Oid, Oid, list[Difference]]:
    """Return the trees before and after a step, and the paths at which they differ; of a folder that cannot be read both sides
    are the same. Raises RecordError."""
    found = readable_differences(store.repo, safety.tree, in_beside(store, safety, AFTER))
    if "" in found.gone:
        raise RecordError(f"the files of a step are lost: {found.gone['']}", MENDS)
    return found.now, found.then, found.differences


def after_raw(store: Store, safety: Stored) -> dict[str, Oid]:
    """Return the bytes that a step was to write in place of git's checkout. Raises RecordError."""
    tree = beside(store, safety)
    return read_kept(store.objects, tree, b"after-") if tree else {}


def index_scope(store: Store, safety: Stored) -> Scope:
    """Return the index paths that a step brought back. Raises RecordError."""
    only, apart = paths_beside(store, safety, ONLY), paths_beside(store, safety, APART)
    return Scope(only=None if only is None else frozenset(only), apart=frozenset(apart or ()))
