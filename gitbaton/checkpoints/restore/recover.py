"""Finish or roll back an interrupted restore: the next command ends it, and says how.

A path holds what it held before, what it was to hold, or nothing. What is none of these was written since: it is left alone and
named.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from gitbaton.base.codec import Json, canonical, in_quotes, os_error, parse, path_document, path_of
from gitbaton.base.errors import BatonError, GitError, PathError, RecordError, StaleError
from gitbaton.base.model import COMPOSED, OPS, STEPPING, Head, Oid, Op, Stored, covered
from gitbaton.base.system.files import acquire, read_regular, release
from gitbaton.base.values import cast, replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.restore.bytes import (
    AFTER_LINKS,
    HIDDEN,
    LINKS,
    TOUCHED,
    after_raw,
    held_ignored,
    index_scope,
    stepped,
)
from gitbaton.checkpoints.restore.goal import conversion_of_step, staged_by
from gitbaton.checkpoints.restore.scene import PresentState, looked
from gitbaton.checkpoints.store import Store, safety_ref
from gitbaton.checkpoints.store.chain import (
    AFTER_ATTRIBUTES,
    MAX_COMMIT,
    beside,
    paths_beside,
    take_back,
)
from gitbaton.git.objects import OID, lookup, object_id, parse_commit
from gitbaton.git.repo import Repo, lock_file, put
from gitbaton.git.worktree.checkout import GITLINK, Difference, changed_tree, differences, entry_at
from gitbaton.git.worktree.filetrees import LINK
from gitbaton.git.worktree.heldbytes import exact_bytes
from gitbaton.git.worktree.index import PrivateIndex
from gitbaton.git.worktree.modes import Permits, confine, step_back, step_on
from gitbaton.git.worktree.place import rescue
from gitbaton.git.worktree.rawbytes import Conversion, attributes_at, blob_at, conversion_of, differing, read_kept
from gitbaton.git.worktree.staged import IndexLock, Restaging, refuse_changed, signature
from gitbaton.git.worktree.untracked import regular

LOCK_WAIT = 10.0
_FORMAT = 1


@value
class Intent:
    """The record of a restore. ``target``: the chain commit of which the files come back. ``previous``: the commit of the
    safety chain before; ``safety``: its new commit, from the moment on at which files may have changed. ``index``: whether
    entries of the index come back, ``seen``: the signature of that index. ``mark``: the text of our lock file. ``root``: the
    work tree."""

    op: Op
    target: Oid
    previous: Oid | None
    safety: Oid | None
    index: bool
    seen: tuple[str, ...]
    mark: str
    root: str


def seen(index: PrivateIndex) -> tuple[str, ...]:
    """Return the signature of an index as a record holds it."""
    return tuple(map(str, signature(index)))


def intent_path(repo: Repo) -> str:
    """Return the path of the record of a work tree's restore."""
    return os.path.join(repo.own_dir, "restore")


def write_intent(repo: Repo, intent: Intent) -> None:
    """Write the record, whole or not at all."""
    document = canonical(
        {
            "v": _FORMAT,
            "op": intent.op,
            "target": intent.target,
            "previous": intent.previous,
            "safety": intent.safety,
            "index": intent.index,
            "seen": list(intent.seen),
            "mark": intent.mark,
            "root": path_document(intent.root),
        }
    )
    put(repo, intent_path(repo), document, sync=True)


def read_intent(repo: Repo) -> Intent | None:
    """Return the record of a restore that is under way or was interrupted. Raises RecordError for one that cannot be read."""
    try:
        found = parse(read_regular(intent_path(repo), 1 << 20))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(f"'{intent_path(repo)}' cannot be read: {error.strerror}") from None
    if not isinstance(found, dict) or found.get("v") != _FORMAT:
        raise RecordError(f"{in_quotes(intent_path(repo))} is not a record of this gitbaton")
    op = next((name for name in OPS if name == found.get("op")), None)
    index, seen, mark, root = (found.get(key) for key in ("index", "seen", "mark", "root"))
    ids = (found.get(key) for key in ("target", "previous", "safety"))
    target, previous, safety = (oid if isinstance(oid, str) and OID.match(oid) else None for oid in ids)
    whole = isinstance(index, bool) and isinstance(seen, list) and isinstance(mark, str) and root is not None
    if op is None or target is None or not whole:
        raise RecordError(f"{in_quotes(intent_path(repo))} is malformed")
    words = tuple(str(word) for word in cast(list[Json], seen))
    return Intent(
        op=op,
        target=target,
        previous=previous,
        safety=safety,
        index=bool(index),
        seen=words,
        mark=str(mark),
        root=path_of(cast(Json, root)),
    )


def remove_intent(repo: Repo) -> None:
    """Remove the record: the restore is over."""
    with suppress(FileNotFoundError):
        os.unlink(intent_path(repo))


def set_intent_aside(repo: Repo) -> str:
    """Move a record that cannot be read out of the way; where it is then."""
    other = intent_path(repo) + ".bad"
    os.replace(intent_path(repo), other)
    return other


def reached(name: str) -> None:
    """Say that a write step of a restore comes next: the audit event ``gitbaton.restore``, with the step's name."""
    sys.audit("gitbaton.restore", name)


@contextmanager
def alone(repo: Repo, wait: float = LOCK_WAIT) -> Iterator[None]:
    """Be the only restore in this work tree. The lock goes with the last process that holds it, so that a git which outlives
    us still counts. Raises GitError when another one holds it for ``wait`` seconds."""
    fd = lock_file(repo, os.path.join(repo.own_dir, "restoring"))
    try:
        if not acquire(fd, wait):
            raise GitError("another restore is at work in this work tree; nothing is changed")
        os.set_inheritable(fd, True)
        try:
            yield
        finally:
            release(fd)  # a git of ours that waits for questions has it, too
    finally:
        os.close(fd)


WRITTEN = "it was written since"
_PATIENCE = 1000


def recover(baton: Baton) -> list[str]:
    """Bring an interrupted restore of this work tree to an end; what should be said about it. Raises nothing of git's.

    One that is still at work is waited for, ten seconds at most, and left alone.
    """
    repo = baton.repo
    if not os.path.lexists(intent_path(repo)):
        return []
    if repo.listings is not None:  # they were begun before the files are as they will be
        repo.listings.stop()
        repo.listings = None
    try:
        with alone(repo):
            try:
                intent = read_intent(repo)
            except RecordError as error:
                IndexLock(repo.layout.index, "").release_any()
                place = set_intent_aside(repo)
                hint = "the state before the restore is in its safety checkpoint; see 'git baton undo --dry-run'"
                return [f"{error}; it is set aside as {in_quotes(place)}: {hint}"]
            if intent is not None and intent.root != (repo.layout.root or ""):
                return [f"a restore was interrupted in another work tree, {in_quotes(intent.root)}; it is left as it is"]
            late, modes = rescue(repo)
            return [*late, *(_end(baton, intent, modes) if intent is not None else [])]
    except (BatonError, OSError) as error:
        return [f"an interrupted restore waits for the next command: {os_error(error)}"]


def _end(baton: Baton, intent: Intent, modes: Mapping[str, int]) -> list[str]:
    lock = IndexLock(baton.repo.layout.index, intent.mark)
    reached("recover")
    lock.release()
    if intent.safety is None:
        _forget(baton, intent)
        return [f"an interrupted {intent.op} was rolled back; no file had been changed"]
    begun, target = _begun(baton, intent)
    if begun is not None and baton.head()[0] != begun:
        remove_intent(baton.repo)
        again = f"'git baton restore {target}' does it, " if intent.op == "restore" else ""
        moved = f"an interrupted {intent.op} is left as it is, because HEAD has moved since"
        return [f"{moved}; {again}'git baton undo' takes back what it changed"]
    try:
        ends = Ends(baton.store, intent, modes)
        left = _finish(baton, ends, forward=True) | _restage(baton, ends)
    except (BatonError, OSError) as error:
        if intent.index and not index_is_of_before(baton, intent):
            raise GitError(f"it cannot be completed yet: {os_error(error)}") from None
        try:
            left = roll_back(baton, intent, modes)
        except RecordError as second:  # what it needs is gone for good
            place = set_intent_aside(baton.repo)
            return [f"an interrupted {intent.op} cannot be ended: {second}; its record is set aside as {in_quotes(place)}"]
        if left:
            remove_intent(baton.repo)
        else:
            _forget(baton, intent)
        return [
            f"an interrupted {intent.op} was rolled back, because it could not be completed: {os_error(error)}",
            *told(left),
        ]
    reached("done")
    remove_intent(baton.repo)
    more = f" ({target})" if intent.op == "restore" else ""
    more += "; 'git baton undo' takes it back" if intent.op not in STEPPING else ""
    return [f"an interrupted {intent.op} was completed{more}", *told(left)]


def _begun(baton: Baton, intent: Intent) -> tuple[Head | None, str]:
    """Return HEAD as it was when a restore began, None where that is not known any more, and the checkpoint of which the files
    come back."""
    try:
        safety = _at(baton.store, intent.safety or "")
    except (BatonError, OSError):
        return None, baton.short(intent.target)
    done = safety.checkpoint.restore
    target = done.target if done is not None else intent.target
    return Head(branch=safety.checkpoint.branch, oid=safety.checkpoint.head), baton.short(target)


def _forget(baton: Baton, intent: Intent) -> None:
    """Take the safety checkpoint back, if the restore came so far: nothing needs it."""
    ref = safety_ref(baton.repo.layout.git_dir, baton.repo.layout.common_dir)
    with baton.repo.lock((ref,)):
        found = baton.store.objects.read(ref)
        if found is not None and found.data is not None and found.oid != intent.previous:
            first = parse_commit(found.data).parents[:1]
            if first != ((intent.previous or baton.store.root),):
                raise GitError(f"{in_quotes(ref)} is not where the interrupted {intent.op} left it")
            reached("take-back")
            take_back(baton.store, ref, found.oid, intent.previous)
    remove_intent(baton.repo)


class Ends:
    """The two ends of an interrupted restore: what its safety checkpoint says of them. ``modes``: of what it took away."""

    def __init__(self, store: Store, intent: Intent, modes: Mapping[str, int]) -> None:
        if intent.safety is None:
            raise RecordError("the interrupted restore has no safety checkpoint")
        self.store, self.intent, self.modes = store, intent, modes
        self.safety = _at(store, intent.safety)
        self.before, self.after, apart = stepped(store, self.safety)
        self.touched = {d.path: d for d in apart}
        self.same = paths_beside(store, self.safety, TOUCHED) or []
        self._raw: dict[bool, dict[str, Oid | None]] = {}

    def raw(self, *, forward: bool) -> dict[str, Oid | None]:
        """Return the bytes to write in place of git's checkout at one end; None: what git would check out."""
        if forward not in self._raw:
            tree = beside(self.store, self.safety)
            back = read_kept(self.store.objects, tree) if tree and not forward else {}
            kept = after_raw(self.store, self.safety) if forward else back
            found: dict[str, Oid | None] = {path: oid for path, oid in kept.items() if path in self.touched}
            self._raw[forward] = found | {path: kept.get(path) for path in self.same}
        return self._raw[forward]

    def conversion(self, scene: PresentState, *, forward: bool) -> Conversion | None:
        """Return the conversion of files at one end; None where it is as now."""
        side = beside(self.store, self.safety)
        if side is None or lookup(self.store.objects, side, AFTER_ATTRIBUTES) is None:
            return None
        if not forward:
            local = attributes_at(self.store.repo, self.safety.checkpoint.created)
            return conversion_of(self.store.repo, scene.folder, self.before, self.after, local)
        target = _at(self.store, self.intent.target) if self.intent.op not in COMPOSED else None
        return conversion_of_step(scene, self.safety, target)

    def is_at(self, root: str, path: str, conversions: Mapping[bool, Conversion | None], *, forward: bool) -> bool:
        """Whether a regular file holds the bytes of one end, whatever git takes them for by attributes that may be those of the
        other; ``conversions``: those of before, and of afterwards."""
        repo, conversion = self.store.repo, conversions[forward]
        entry = entry_at(self.store.objects, self.after if forward else self.before, path)
        there, oid = blob_at(repo, root, path), self.raw(forward=forward).get(path)
        if entry is None or entry.mode[:3] != "100" or there is None:
            return False
        if oid:
            data = exact_bytes(repo, path, oid)
        elif conversion is not None:
            data = conversion.content(path, entry.oid)
        else:
            data = repo.git.out("cat-file", "--filters", f"--path={path}", entry.oid)
        return there == object_id(repo.layout.algorithm, "blob", data)

    def turned_links(self, root: str, tree: Oid, links: Collection[str]) -> list[Difference]:
        """Return the paths at which only that changes, and that are not as at the end with this tree."""
        found = {path: entry_at(self.store.objects, tree, path) for path in self.same}
        there = {
            path: e
            for path, e in found.items()
            if e is not None and e.mode == LINK and os.path.lexists(os.path.join(root, path))
        }
        wrong = [path for path in there if os.path.islink(os.path.join(root, path)) != (path in links)]
        return [Difference(path=path, now=there[path], then=there[path]) for path in wrong]


def _at(store: Store, commit: Oid) -> Stored:
    return store.stored(store.objects.read(commit, MAX_COMMIT), None, commit)


def roll_back(baton: Baton, intent: Intent, modes: Mapping[str, int]) -> dict[str, str]:
    """Bring back the files of before an interrupted restore; return what was left alone, with the reason. Only while the index
    is that of before. Raises GitError, RecordError."""
    return _finish(baton, Ends(baton.store, intent, modes), forward=False)


def index_is_of_before(baton: Baton, intent: Intent) -> bool:
    """Whether the index was not written since the restore began, by the restore itself neither."""
    with looked(baton) as scene:
        return seen(scene.index) == intent.seen


def _finish(baton: Baton, ends: Ends, *, forward: bool) -> dict[str, str]:
    """Bring every touched path to one end; those that cannot be brought there, and why."""
    unwritable: dict[str, str] = {}
    while True:
        try:
            return unwritable | _finish_once(baton, ends, unwritable, forward=forward)
        except PathError as error:
            if not error.reasons.keys() - unwritable.keys() or len(unwritable) > _PATIENCE:
                raise
            unwritable |= error.reasons


def _finish_once(baton: Baton, ends: Ends, unwritable: Mapping[str, str], *, forward: bool) -> dict[str, str]:
    with looked(baton, (ends.before, ends.after), held_ignored(baton, ends.safety)) as scene:
        scene.within = ends.intent.op in STEPPING or not forward
        goal = ends.after if forward else ends.before
        apart = differences(baton.repo.git, scene.tree, goal)
        scene.folders = frozenset(d.path for d in apart if d.then is not None and d.then.mode == GITLINK)
        apart = [d for d in apart if all(entry is None or entry.mode != GITLINK for entry in (d.now, d.then))]
        aside = {d.path for d in apart if d.path in ends.same and d.now is None}  # taken away, and not put back yet
        known = {*ends.touched, *ends.same}.difference(unwritable)
        conversions = {way: ends.conversion(scene, forward=way) for way in (forward, not forward)}
        asked = [d.path for d in apart if d.path in known and d.path not in aside]
        ways = (forward, not forward) if any(conversions.values()) else ()
        held = {path for path in asked if any(ends.is_at(scene.root, path, conversions, forward=way) for way in ways)}
        aside |= held.intersection(ends.same)
        # The symbolic links at this end, whatever core.symlinks says.
        links = paths_beside(baton.store, ends.safety, AFTER_LINKS if forward else LINKS) or ()
        there, raw, left = {d.path for d in apart}, ends.raw(forward=forward), dict[str, str]()
        turned = [d for d in ends.turned_links(scene.root, goal, links) if d.path not in there]
        there |= _converted(baton.store, scene.root, goal, raw, conversions[forward])
        for path in [p for p in raw if p not in there and not covered(p, unwritable)]:  # the trees agree, the bytes may not
            entry = entry_at(baton.store.objects, goal, path)
            if entry is None or entry.mode[:3] != "100" or ends.is_at(scene.root, path, conversions, forward=forward):
                continue
            if ends.is_at(scene.root, path, conversions, forward=not forward):
                held.add(path)
                turned.append(Difference(path=path, now=entry, then=entry))
            else:
                left[path] = WRITTEN
        apart += turned
        aside |= {d.path for d in turned}
        left |= {d.path: WRITTEN for d in apart if d.path in ends.same and d.path not in aside}
        open_paths = [d for d in apart if (d.path in ends.touched or d.path in aside) and not covered(d.path, unwritable)]
        as_ends = {(d.path, end) for d in ends.touched.values() for end in (d.now, d.then)}
        ours = [d for d in open_paths if d.now is None or d.path in held or d in turned or (d.path, d.now) in as_ends]
        guard = scene.guard({d.path for d in ours if d.now is not None})
        changing = []
        for d in open_paths:
            stopped = (scene.unsafe(d.path) if d.path not in held else None) or (
                guard.in_the_way(d.path) if d.then is not None and d.now is None else None
            )
            if d not in ours or stopped:
                left[d.path] = stopped if stopped and stopped != "ignored" else WRITTEN
            else:
                changing.append(d)
        scene.modes = ends.modes
        permits = (step_on if forward else step_back)(baton.repo, beside(baton.store, ends.safety))
        said = _check_out(baton, scene, changing, raw, permits, conversions[forward], links)
        left |= {"": "; ".join(said)} if said else {}
        if forward:  # folders that were to get their last permissions when all files are there
            confine(scene.root, replace(permits.most, listed={p: m for p, m in permits.most.listed.items() if p not in left}))
    return left


def _converted(store: Store, root: str, tree: Oid, raw: Mapping[str, Oid | None], conversion: Conversion | None) -> set[str]:
    """Return the files that hold what a conversion gives already, looked at all at once: one by one each costs a process."""
    if conversion is None:
        return set()
    found = ((path, entry_at(store.objects, tree, path)) for path, oid in raw.items() if oid is None)
    files = [(path, e.mode, e.oid) for path, e in found if e is not None and regular(os.path.join(root, path))]
    return {path for path, _, _ in files}.difference(differing(conversion.git, root, files))


def _check_out(
    baton: Baton,
    scene: PresentState,
    changing: Sequence[Difference],
    raw: Mapping[str, Oid | None],
    permits: Permits,
    conversion: Conversion | None,
    links: Collection[str],
) -> list[str]:
    """Write some of the differences, and nothing else; what should be said about it."""
    if not changing:
        return []
    tree = changed_tree(scene.index, {d.path: d.then for d in changing})
    more = {d.path for d in differences(baton.repo.git, scene.tree, tree)} - {d.path for d in changing}
    if more:
        raise StaleError(f"{in_quotes(min(more))} is in the way")
    scene.mark(changing)
    scene.look_again()
    try:
        scene.refuse_changes()
    finally:
        scene.stop_looking()
    return scene.placer(tree, raw, permits, lambda: reached("files"), conversion, links).run()


def told(paths: Mapping[str, str]) -> list[str]:
    """Return sentences on what was left alone."""
    said = []
    for path, reason in paths.items():
        if reason in ("filter-missing", "unwritable"):
            said.append(f"{in_quotes(path)} cannot be written ({reason}); what it held before is in the safety checkpoint")
        else:
            said.append(f"{in_quotes(path)} is left as it is: {reason}" if path else reason)
    return said


def _restaging(scene: PresentState, intent: Intent, safety: Stored) -> Restaging:
    """Return what brings the captured index to what an interrupted restore brings back. Raises RecordError."""
    store = scene.baton.store
    target = _at(store, intent.target) if intent.op not in COMPOSED else None
    hidden = paths_beside(store, target, HIDDEN) if target is not None else None
    return Restaging(scene.repo, scene.facts, staged_by(scene, safety, target), index_scope(store, safety), hidden or ())


def _restage(baton: Baton, ends: Ends) -> dict[str, str]:
    """Bring the index back if it was not written since: then it is still the one that the restore saw."""
    intent = ends.intent
    if not intent.index:
        return {}
    with looked(baton) as scene:
        written = seen(scene.index) != intent.seen
        try:
            work = _restaging(scene, intent, ends.safety)
        except BatonError:
            if written:
                return {}
            raise
        if not work:
            return {}
        if written:
            return {"": "the index was written since and is left as it is"}
        lock = IndexLock(baton.repo.layout.index, intent.mark)
        lock.take()
        try:
            refuse_changed(scene.index)
            new = work.build(scene.folder)
            reached("rename")
            lock.replace(new)
        finally:
            lock.release()
    return {}
