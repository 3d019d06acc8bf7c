"""From wherever a restore stopped to one of its two ends: the state before it, or the one after.

A path holds what it held before, what it was to hold, or nothing; or the beginning of a file that was just being written. What
is none of these somebody wrote since: it is left alone and named.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.errors import GitError, RecordError, StaleError
from gitbaton.git.objects import lookup
from gitbaton.git.putback import Difference, Entry, changed_tree, check_out, differences
from gitbaton.git.rawbytes import read_raw, write_raw
from gitbaton.git.staged import IndexLock, Restaging, read_staged, refuse_changed, signature
from gitbaton.model import Oid, Stored
from gitbaton.restore.bytes import AFTER, HIDDEN, TOUCHED, after_raw, index_scope
from gitbaton.restore.intent import Intent, reached
from gitbaton.restore.scene import Scene, looked
from gitbaton.store import Store
from gitbaton.store.safety import beside, in_beside, paths_beside


class Ends:
    """The two ends of an interrupted restore: what its safety checkpoint says of them."""

    def __init__(self, store: Store, intent: Intent) -> None:
        if intent.safety is None:
            raise RecordError("the interrupted restore has no safety checkpoint")
        self.store, self.intent = store, intent
        self.safety = _at(store, intent.safety)
        self.before, self.after = self.safety.tree, in_beside(store, self.safety, AFTER)
        self.touched = {d.path: d for d in differences(store.repo.git, self.before, self.after)}
        self.same = paths_beside(store, self.safety, TOUCHED) or []

    def raw(self, *, forward: bool) -> dict[str, Oid | None]:
        """The bytes to write over git's checkout at one end; None: what git would check out."""
        tree = beside(self.store, self.safety)
        back = read_raw(self.store.objects, tree) if tree and not forward else {}
        kept = after_raw(self.store, self.safety) if forward else back
        found: dict[str, Oid | None] = {path: oid for path, oid in kept.items() if path in self.touched}
        return found | {path: kept.get(path) for path in self.same}


def _at(store: Store, commit: Oid) -> Stored:
    return store.stored(store.objects.read(commit, 3 << 20), None, commit)


def go_on(baton: Baton, intent: Intent) -> list[str]:
    """Complete an interrupted restore; paths that were left alone come back. Raises GitError, RecordError."""
    ends = Ends(baton.store, intent)
    left = _settle(baton, ends, forward=True)
    _restage(baton, ends)
    return left


def roll_back(baton: Baton, intent: Intent) -> list[str]:
    """Bring back the state before an interrupted restore; as ``go_on``. The index is replaced last, so it is that of before,
    or the restore is complete."""
    return _settle(baton, Ends(baton.store, intent), forward=False)


def _settle(baton: Baton, ends: Ends, *, forward: bool) -> list[str]:
    """Bring every touched path to one end."""
    _drop_torn(baton, ends)
    with looked(baton) as scene:
        goal = ends.after if forward else ends.before
        wanted: dict[str, Entry | None] = {}
        apart = differences(baton.repo.git, scene.tree, goal)
        left = [d.path for d in apart if d.path in ends.same]
        open_paths = [d for d in apart if d.path in ends.touched]
        held = {d.path for d in apart if d.now is not None}
        guard = scene.guard(held)
        for d in open_paths:
            known = d.now is None or d.now in (ends.touched[d.path].now, ends.touched[d.path].then)
            stopped = scene.unsafe(d.path) or (guard.in_the_way(d.path) if d.then is not None and d.now is None else None)
            if known and not stopped:
                wanted[d.path] = d.then
            else:
                left.append(d.path)
        if wanted:
            tree = changed_tree(scene.index, wanted)
            scene.mark([d for d in open_paths if d.path in wanted], held)
            scene.look_again()
            scene.refuse_changes()
            scene.refuse_touched()
            check_out(scene.index, scene.tree, tree)
            scene.keep_modes()
        raw = {path: oid for path, oid in ends.raw(forward=forward).items() if path not in left}
        for path in raw:
            both = [oid for kept in (ends.raw(forward=True), ends.raw(forward=False)) if (oid := kept.get(path))]
            try:
                put_raw(baton.store, scene.root, goal, {path: raw[path]}, {path: both})
            except StaleError:
                left.append(path)
    return left


def _drop_torn(baton: Baton, ends: Ends) -> None:
    """Remove files of which git had written only a beginning when it was killed."""
    root = baton.repo.layout.root or ""
    with looked(baton) as scene:
        for d in differences(baton.repo.git, scene.tree, ends.after):
            then = ends.touched.get(d.path)
            if then is None or d.now is None or d.now in (then.now, then.then):
                continue
            if any(_is_torn(baton, scene, os.path.join(root, d.path), d, end) for end in (then.now, then.then)):
                reached("torn")
                os.unlink(os.path.join(root, d.path))


def _is_torn(baton: Baton, scene: Scene, full: str, d: Difference, whole: Entry | None) -> bool:
    """Whether a file on disk is the beginning of what a checkout of ``whole`` writes."""
    if whole is None or d.now is None or not d.now.mode.startswith("100") or os.path.islink(full):
        return False
    result = baton.repo.git.run("cat-file", "--filters", f"--path={d.path}", whole.oid)
    try:
        with open(full, "rb") as file:
            there = file.read(len(result.out) + 1)
    except OSError:
        return False
    return result.code == 0 and len(there) < len(result.out) and result.out.startswith(there)


def put_raw(store: Store, root: str, tree: Oid, raw: Mapping[str, Oid | None], known: Mapping[str, Sequence[Oid]]) -> None:
    """Write bytes that no filter gives back over what git checked out; None: what git would check out.

    ``known`` are bytes that may stand there, too, by path. Raises StaleError where something else does, GitError.
    """
    for path, oid in raw.items():
        entry = lookup(store.objects, tree, os.fsencode(path))
        if entry is None or not entry.mode.startswith(b"100"):
            continue
        plain = store.repo.git.out("cat-file", "--filters", f"--path={path}", entry.oid)
        data = _data(store, path, oid) if oid else plain
        with open(os.open(os.path.join(root, path), os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            there = file.read()
        if there == data:
            continue
        if there != plain and not any(there == _data(store, path, other) for other in known.get(path, ())):
            raise StaleError(f"'{path}' changed meanwhile")
        reached("raw")
        refused = write_raw(root, path, data, entry.mode.decode("ascii"))
        if refused:
            raise GitError(f"'{path}': {refused}")


def _data(store: Store, path: str, oid: Oid) -> bytes:
    found = store.objects.read(oid, 1 << 40)
    if found is None or found.kind != "blob" or found.data is None:
        raise GitError(f"'{path}': object {oid} cannot be read")
    return found.data


def _restage(baton: Baton, ends: Ends) -> None:
    """Bring the index back, where nobody has written it since: then it is still the one that the restore saw."""
    intent = ends.intent
    if not intent.index:
        return
    target = _at(baton.store, intent.target)
    files = target.checkpoint.files
    if files is None:
        raise RecordError(f"checkpoint '{target.id}' holds no files")
    with looked(baton) as scene:
        if tuple(str(part) for part in signature(scene.index)) != intent.seen:
            return
        hidden = paths_beside(baton.store, target, HIDDEN) or ()
        then = read_staged(baton.repo, files, beside(baton.store, target))
        work = Restaging(baton.repo, scene.facts, then, index_scope(baton.store, ends.safety), hidden)
        if not work:
            return
        lock = IndexLock(baton.repo.layout.index, intent.mark)
        lock.take()
        try:
            refuse_changed(scene.index)
            new = work.build(scene.folder)
            reached("rename")
            lock.replace(new)
        finally:
            lock.release()
