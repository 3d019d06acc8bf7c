"""Carry out a restore: plan, safety checkpoint, files, index; rolled back on failure, retried where files moved meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, suppress

from gitbaton.base.codec import in_quotes, os_error
from gitbaton.base.errors import BatonError, CollectedError, GitError, PathError, RecordError, StaleError
from gitbaton.base.model import STEPPING, Checkpoint, Here, Op, Restore, Stored
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.restore.bytes import AFTER_HELD, AFTER_LINKS, AFTER_RAW, APART, HIDDEN, ONLY, TOUCHED
from gitbaton.checkpoints.restore.checkpointgoal import planned
from gitbaton.checkpoints.restore.goal import FREE
from gitbaton.checkpoints.restore.recover import (
    Intent,
    alone,
    intent_path,
    reached,
    read_intent,
    recover,
    remove_intent,
    roll_back,
    seen,
    told,
    write_intent,
)
from gitbaton.checkpoints.restore.stepgoal import stepping
from gitbaton.checkpoints.restore.values import Order, Restored, RestorePlan
from gitbaton.checkpoints.store import safety_ref
from gitbaton.checkpoints.store.chain import AFTER, AFTER_ATTRIBUTES, INDEX_AFTER, INDEX_FLAGS, LEFT, take_back
from gitbaton.checkpoints.store.standing import has_words, last_steps, stance
from gitbaton.checkpoints.store.write import SnapshotDraft, append_safety, contents
from gitbaton.git.gone import unreadable
from gitbaton.git.objects import Algorithm, NewObject, TreeEntry, new_object, parse_tree, tree_data, tree_objects
from gitbaton.git.publish import flush
from gitbaton.git.worktree.heldbytes import HeldOid
from gitbaton.git.worktree.locks import MARK
from gitbaton.git.worktree.modes import AFTER_MODES
from gitbaton.git.worktree.rawbytes import remember_attributes
from gitbaton.git.worktree.staged import IndexLock, Restaging, refuse_changed

_MOVED = 3
_UNWRITABLE = 20


def carry_out(
    baton: Baton, op: Op, order: Order, permit: Callable[[RestorePlan], None] = lambda plan: None
) -> tuple[Restored, list[str]]:
    """Restore, revert, merge, undo or redo, what ``permit`` does not refuse by raising; what recovering an interrupted one had
    to say comes along.

    A file that cannot be written or removed, or that is never still, is left alone, and the rest comes back. No other restore
    of this work tree is at work from the look to the last file. Raises BatonError.
    """
    said = recover(baton)
    moved, rounds, collected, left = 0, 0, 0, dict(order.left)
    while True:
        try:
            with open_plan(baton, op, replace(order, left=tuple(left.items())), alone(baton.repo)) as plan:
                permit(plan)
                return apply(plan), said
        except CollectedError:  # git has just collected what the index named that was read; the next look reads another
            collected += 1
            if collected == _MOVED:
                raise
            if collected > 1:
                from gitbaton.git.damage import set_aside, torn  # late: hardly ever

                said += set_aside(baton.repo, torn(baton.repo))  # so that the next look stores anew what the files hold
        except StaleError as error:
            said += error.hints  # what was written late, and where it is kept
            moved += 1
            if moved >= _MOVED:
                if moved == _UNWRITABLE or not set(error.paths).difference(left):
                    raise
                left |= dict.fromkeys(error.paths, "unstable")
        except PathError as error:
            said += error.hints
            rounds += 1
            if rounds == _UNWRITABLE or not error.reasons.keys() - left.keys():
                raise
            left |= error.reasons


def open_plan(
    baton: Baton, op: Op, order: Order, lock: AbstractContextManager[None] = FREE
) -> AbstractContextManager[RestorePlan]:
    """Return the plan of a restore, a revert, a merge, an undo or a redo, good until the block ends; with the lock it can be
    applied."""
    if op == "merge":
        from gitbaton.checkpoints.restore.mergegoal import merging

        return merging(baton, order, lock)
    if op == "revert":
        from gitbaton.checkpoints.restore.turngoal import reverting

        return reverting(baton, order, lock)
    return planned(baton, order, lock) if op == "restore" else stepping(baton, op, order, lock)


def apply(plan: RestorePlan) -> Restored:
    """Bring the files of a plan back, and the index entries that belong to them. It was made with the lock held.

    What is overwritten or removed is in a safety checkpoint first. Raises StaleError when the plan was made against another
    state, RefConflictError or GitError when something is in the way; then everything is as it was, unless the message says
    that the next command goes on.
    """
    work = _Restoring(plan)
    if not plan.wanted and not work.restaging and (plan.op not in STEPPING or not plan.complete):
        return Restored(plan=plan, safety=None, warnings=plan.warnings)
    if read_intent(plan.scene.repo) is not None:
        said = "an interrupted restore could not be ended yet; nothing is changed"
        raise GitError(said, f"its record is {in_quotes(intent_path(plan.scene.repo))}")
    return work.run()


class _Restoring:
    """One plan under way."""

    def __init__(self, plan: RestorePlan) -> None:
        self.plan, self.scene = plan, plan.scene
        self.baton, self.repo = self.scene.baton, self.scene.repo
        self.ref = safety_ref(self.repo.layout.git_dir, self.repo.layout.common_dir)
        self.restaging = Restaging(self.repo, self.scene.facts, plan.staged, plan.scope, plan.hidden)
        self.lock = IndexLock(self.repo.layout.index, f"{MARK}{os.getpid()} {plan.digest}\n")
        self.placer = self.scene.placer(plan.tree, plan.raw, plan.permits, self._begin, plan.conversion, plan.links)
        self.safety: Stored | None = None
        self.begun = self.finished = False

    def run(self) -> Restored:
        """Every write step in its order, each announced."""
        self.lock.wait()
        self.scene.look_again()  # while the state before is kept
        self.placer.start()
        try:
            intent = self._prepare()
        except BaseException:
            self.placer.stop()
            raise
        finally:
            self.scene.stop_looking()
        try:
            said = self._change()
        except BaseException as error:  # Ctrl-C, too
            if self.finished:
                self.lock.release()
                remove_intent(self.repo)
            elif self.begun:
                self._take_back(intent, error)
            else:
                self._forget(intent)
            self.placer.stop()
            raise
        flush(self.repo, tuple(self.plan.wanted), self.scene.root)
        reached("done")
        remove_intent(self.repo)
        done = self.safety.checkpoint.restore if self.safety else None
        if done is not None and (done.after is None or done.after != done.before):  # the words are others, or a line is told
            said += self.baton.refresh(only_existing=True, track=self.plan.track)
        return Restored(plan=self.plan, safety=self.safety, warnings=(*self.plan.warnings, *said))

    def _prepare(self) -> Intent:
        """Write down what is to come, and keep the state before; what fails here leaves nothing behind."""
        draft = self._draft()
        previous = self.baton.store.objects.info(self.ref)
        reached("intent")
        intent = Intent(
            op=self.plan.op,
            target=self.plan.target.commit,
            previous=previous.oid if previous else None,
            safety=None,
            index=bool(self.restaging),
            seen=seen(self.scene.index),
            mark=self.lock.mark,
            root=self.scene.root,
        )
        write_intent(self.repo, intent)
        try:
            self._keep(draft)
            self.scene.refuse_changes()
            reached("begin")
            intent = replace(intent, safety=self.safety.commit if self.safety else None)
            write_intent(self.repo, intent)
        except BaseException:
            self._forget(intent)
            raise
        return intent

    def _keep(self, draft: SnapshotDraft) -> None:
        """Take git's lock of the index where it is needed, and record the state before."""
        if self.restaging:
            reached("lock")
            self.lock.take()
            refuse_changed(self.scene.index)
        reached("safety")
        try:
            with contents(self.baton.store, draft) as ready, self.repo.lock((self.ref,)):
                self.safety = append_safety(self.baton.store, self.ref, ready)
        except CollectedError:
            self._refuse_torn()
            raise
        with suppress(OSError):  # then a later restore takes what counts now for what counted then
            remember_attributes(self.repo, self.safety.checkpoint.created)
        self._refuse_pruned()

    def _refuse_torn(self) -> None:
        """Raise PathError that names the paths of which an object, then or now, cannot be read to its end."""
        ends = [(d.path, end.oid) for d in self.scene.changing for end in (d.now, d.then) if end is not None]
        ends += [(path, oid) for path, oid in self.plan.raw.items() if oid is not None and not isinstance(oid, HeldOid)]
        bad = unreadable(self.baton.store.objects, [oid for _, oid in ends])
        reasons = {path: bad[oid] for path, oid in ends if oid in bad}
        if reasons:
            path, why = next(iter(reasons.items()))
            raise PathError(f"{in_quotes(path)}: {why}", reasons=reasons)

    def _refuse_pruned(self) -> None:
        """Raise CollectedError if 'git prune' took what the capture wrote: nothing tells that it ran."""
        before = {d.path: d.now.oid for d in self.scene.changing if d.now is not None}
        oids = [self.scene.tree, self.plan.tree, *([self.plan.staged.tree] if self.plan.composed else []), *before.values()]
        for oid, found in zip(oids, self.baton.store.objects.read_many(oids, 0), strict=True):
            if found is None:
                raise CollectedError(f"object {oid} was removed while the {self.plan.op} began; nothing is changed")

    def _draft(self) -> SnapshotDraft:
        """Return the safety checkpoint: the captured state, and beside its stages what no filter gives back and the tree to
        come."""
        plan, scene = self.plan, self.scene
        author, _ = self.baton.author()
        captured = scene.captured
        stages = _with_after(captured.stages, self._beside(), self.repo.layout.algorithm)
        files = self.baton.file_state(captured)
        current = self.baton.store.current()
        tip = self.baton.store.readable(current) if current else None
        checkpoint = Checkpoint(
            track=plan.track,
            step=self.baton.redactor.text(f"before {plan.name}"),
            kind="safety",
            branch=scene.head.branch,
            head=scene.head.oid,
            created=self.baton.clock(),
            files=files,
            restore=self._moves(
                Restore(
                    op=plan.op,
                    origin=tip.id if tip else None,
                    target=plan.target.id,
                    position=plan.position,
                    index=plan.index,
                )
            ),
        )
        changed = len(plan.wanted)
        return SnapshotDraft(
            checkpoint=checkpoint,
            author=author,
            tree=scene.tree,
            stages=stages,
            count_changed=lambda before, after: changed,
        )

    def _moves(self, done: Restore) -> Restore:
        """Add the work tree's place on the target's track before and after. The words of a step that is taken back come back,
        too, unless newer ones were written meanwhile."""
        target, store = self.plan.target, self.baton.store
        with suppress(RecordError):  # nobody's words come back where they cannot be read
            tip = store.tip(self.plan.track)
            if tip is None:
                return done
            now = stance(store, tip, last_steps(store, tip.checkpoint.track))
            after, led = None, target.checkpoint.restore
            if done.op not in STEPPING:
                came = Here(at=target.id, top=tip.id) if led is None else led.before
                after = came if self.plan.whole else None
            elif led is not None and led.after is not None:
                after = led.before if has_words(store, tip, now.stored, led.after) else None
            return replace(done, tip=tip.id, before=now.back.here, after=after)
        return done

    def _beside(self) -> list[TreeEntry | NewObject]:
        """Return the tree to come, the bytes to be written over its checkout, and the paths of which only bytes change."""
        plan, algorithm = self.plan, self.repo.layout.algorithm
        found: list[TreeEntry | NewObject] = [TreeEntry(mode=b"40000", name=AFTER, oid=plan.tree)]
        kept = [(p, e.mode, oid) for p, oid in plan.raw.items() if oid and (e := plan.wanted[p]) is not None]
        rooms = ((AFTER_RAW, False), (AFTER_HELD, True))
        rows = {name: [row for row in kept if isinstance(row[2], HeldOid) == held] for name, held in rooms}
        folders = {name: tree_objects(algorithm, those) for name, those in rows.items() if those}
        if plan.conversion is not None:
            folders[AFTER_ATTRIBUTES] = plan.conversion.tree()
        for name, trees in folders.items():
            found += [*trees, TreeEntry(mode=b"40000", name=name, oid=trees[-1].oid)]
        lists: dict[bytes, Collection[str]] = {
            TOUCHED: plan.same,
            APART: plan.scope.apart,
            HIDDEN: self.scene.hidden,
            AFTER_LINKS: plan.links,
            LEFT: [step.path for step in plan.steps if step.action in ("conflict", "refuse")],
        }
        files = {name: _listed(map(os.fsencode, paths)) for name, paths in lists.items() if paths}
        if plan.scope.only is not None:  # none at all is another thing than all
            files[ONLY] = _listed(map(os.fsencode, plan.scope.only))
        if plan.composed:  # no checkpoint holds the index to come
            found.append(TreeEntry(mode=b"40000", name=INDEX_AFTER, oid=plan.staged.tree))
            files[INDEX_FLAGS] = _listed(f"{b}\t".encode() + os.fsencode(path) for path, b in plan.staged.flags.items())
        was = {path: mark[4] if mark is not None else 0 for path, mark in self.scene.marks.items()}
        ends = {d.path: (was.get(d.path, 0), d.then.mode if d.then is not None else None) for d in self.scene.changing}
        if modes := plan.permits.changes(self.scene.root, ends):
            files[AFTER_MODES] = modes
        for name, data in files.items():
            blob = new_object(algorithm, "blob", data)
            found += [blob, TreeEntry(mode=b"100644", name=name, oid=blob.oid)]
        return found

    def _change(self) -> list[str]:
        """Write the files and the index; return what should be said about them."""
        plan = self.plan
        said: list[str] = []
        if plan.wanted:
            reached("files")
            said += self.placer.run()
        if self.restaging:
            self.begun = True
            reached("index")
            new = self.restaging.build(self.scene.folder)
            said += [f"what was staged at {in_quotes(path)} stays: {why}" for path, why in self.restaging.gone.items()]
            reached("rename")
            self.lock.replace(new)
            self.finished = True
            reached("unlock")
            self.lock.release()
        return said

    def _begin(self) -> None:
        """Note that files may have changed from here on."""
        self.begun = True

    def _forget(self, intent: Intent) -> None:
        """Leave nothing behind: nothing was changed."""
        self.lock.release()
        if self.safety is not None:
            with self.repo.lock((self.ref,)):
                take_back(self.baton.store, self.ref, self.safety.commit, intent.previous)
        remove_intent(self.repo)

    def _take_back(self, intent: Intent, error: BaseException) -> None:
        """Put everything back as it was; where even that fails, the next command finishes. Raises GitError then."""
        self.repo.progress("putting files back", 0, 0)
        late = error.hints if isinstance(error, BatonError) else ()  # what was written late, and where it is kept
        try:
            left = roll_back(self.baton, intent, {})
        except (BatonError, OSError) as second:
            self.lock.release()
            hint = "the next 'git baton' command tries to complete it; the state before is in the safety checkpoint"
            said = (
                f"the {self.plan.op} stopped halfway: {error or 'interrupted'}; and taking it back failed: {os_error(second)}"
            )
            raise GitError(said, *late, hint) from None
        if not left:
            return self._forget(intent)
        self.lock.release()
        remove_intent(self.repo)
        short = self.baton.short(self.safety.id) if self.safety else ""
        said = f"the {self.plan.op} is taken back, but not all of it: {error or 'interrupted'}"
        raise GitError(said, *late, *told(left), f"the state before is in safety checkpoint '{short}'")


def _listed(rows: Iterable[bytes]) -> bytes:
    """Return the rows of a list in a checkpoint, sorted, each with its NUL."""
    return b"".join(sorted(row + b"\0" for row in rows))


def _with_after(
    stages: tuple[NewObject, ...], more: list[TreeEntry | NewObject], algorithm: Algorithm
) -> tuple[NewObject, ...]:
    """Return the objects beside an index commit, with what says where the restore leads."""
    new = {e.name: e for e in more if isinstance(e, TreeEntry)}
    old = parse_tree(stages[-1].data, algorithm) if stages else []
    entries = {e.name: e for e in old} | new
    blobs = [e for e in more if isinstance(e, NewObject)]
    return (*stages[:-1], *blobs, new_object(algorithm, "tree", tree_data(entries.values())))
