"""Revision: a change of several tracks at once, planned whole and then written; records of deleted tracks."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

from gitbaton.base.codec import (
    Json,
    Note,
    alike,
    canonical,
    check_track,
    decode,
    encode_track,
    entry,
    in_quotes,
    known,
    looks,
    parse,
    parse_note,
    payload,
    timestamp,
    track_in,
)
from gitbaton.base.errors import GitError, RecordError, RefConflictError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import read_regular, remove
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.store import meta, signatures, state
from gitbaton.checkpoints.store.join import JoinPlan, Link, Places, joined, links, marks, merged_note, plan_notes
from gitbaton.checkpoints.store.provenance import of_track
from gitbaton.checkpoints.store.read import SLACK, Store, dropping
from gitbaton.checkpoints.store.refs import CURRENT, META, SIGNATURES, TIPS, chain_ref, signatures_ref, tip_ref
from gitbaton.checkpoints.store.signatures import Signed
from gitbaton.checkpoints.store.titles import forget_titles
from gitbaton.checkpoints.store.write import NOBODY
from gitbaton.git import questions
from gitbaton.git.objects import OID, NewObject, RefChange, TreeEntry, new_object
from gitbaton.git.reffiles import below
from gitbaton.git.repo import Repo, put


class Revision:
    """A change of several tracks, planned whole and then written.

    No ref moves before ``apply``; called with the lock held, or without it up to ``prepare``: then ``apply`` finds what moved
    meanwhile. ``tips``: the tracks as they were when it was begun; ``meta``: what is pinned and dropped afterwards; set that
    before the first join. ``noted``: whether the notes follow, which those that are broken cannot. ``warnings``: what should be
    said about it. Raises RecordError where what stands at refs/baton/meta is not what gitbaton writes.
    """

    def __init__(self, store: Store) -> None:
        self.warnings: list[str] = []
        self.noted = True
        self.store = store
        found = store.objects.info(META)
        self._meta_at = found.oid if found is not None else None
        self.meta = self._meta = meta.read(store)
        self._written: frozenset[Oid] = frozenset()
        self.changes: list[RefChange] = []  # what ``apply`` is to do, once that is prepared
        self.tips: Mapping[str, Oid] = store.chains()[0]
        self.places = Places(store, self.tips)
        self._names = {looks(track): track for track in self.tips} | {track: track for track in self.tips}
        self._more: dict[str, list[Link]] = {}
        self._keep: dict[str, frozenset[Oid]] = {}
        self._foreign: dict[str, set[Oid]] = {}
        self._plans: dict[str, JoinPlan] = {}
        self._notes: dict[Oid, bytes] = {}
        self._also: tuple[list[NewObject], list[RefChange]] = ([], [])
        self._drawn_notes: tuple[object, tuple[list[NewObject], RefChange | None]] | None = None
        self._signed: dict[str, list[Signed]] = {}

    def join(self, track: str, links: Iterable[Link], *, fetched: bool = False) -> JoinPlan:
        """Put links into a track that may not exist yet: the union with what is there, less what ``meta`` drops.

        ``links`` as ``join.links`` reads them, or ``join.news`` those that the track's chain lacks, which is sooner done. With
        ``fetched`` the new ones are foreign, else they are ours. Raises RecordError for a broken chain, and for a name that
        looks like another track's.
        """
        track = check_track(track)
        twin = self._names.get(track) or self._names.setdefault(looks(track), track)
        if twin != track:
            raise RecordError(alike(track, twin))
        before, links = self._more.get(track, []), list(links)
        self._more[track] = [*before, *links]
        try:
            made = self._plan(track)
        except RecordError:
            self._more[track] = before
            raise
        if fetched:
            self._foreign.setdefault(track, set()).update(link.id for link in links)
        return made

    def keep(self, track: str, ids: Collection[Oid]) -> JoinPlan:
        """Keep only these checkpoints of a track, in their order and with their bytes; without any it goes. Raises
        RecordError."""
        self._keep[track] = frozenset(ids)
        return self._plan(track)

    def _plan(self, track: str) -> JoinPlan:
        self._forget_carried(track)
        made = joined(self.store, track, self._more.get(track, ()), meta=self.meta, keep=self._keep.get(track))
        self._plans[track] = made
        return made

    def _forget_carried(self, track: str) -> None:
        """Forget checkpoints that had another id when that was forgotten, and automatic ones that carry their words."""
        forgotten = self.meta.forgotten
        if not forgotten:
            return
        here = [] if forgotten == self._meta.forgotten else links(self.store, track)
        all_of_it = (*here, *self._more.get(track, ()))
        named = {link.id for link in all_of_it if not forgotten.isdisjoint(link.earlier)}
        more = forgotten | named | {link.id for link in all_of_it if link.carries in forgotten | named}
        if more != forgotten:
            self.meta = replace(self.meta, forgotten=more)

    def notes(self, texts: Mapping[Oid, bytes]) -> None:
        """Merge fetched notes, by the commit they are for, with those that are here, entry by entry."""
        self._notes |= texts

    def signed(self, track: str, found: Signed) -> None:
        """Put fetched signatures beside those that are here; those of checkpoints that the track has afterwards stay."""
        self._signed.setdefault(track, []).append(found)

    def also(self, objects: Iterable[NewObject], changes: Iterable[RefChange]) -> None:
        """Move further refs in the same transaction, with the objects that they need."""
        self._also[0].extend(objects)
        self._also[1].extend(changes)

    @property
    def removed(self) -> frozenset[Oid]:
        """The ids that some track loses."""
        return frozenset(oid for plan in self._plans.values() for oid in plan.removed)

    def apply(self) -> None:
        """Write everything: objects; then chains, meta and notes in one transaction; then the tips' blobs.

        A kill leaves the state before, or one that the next writer finishes. Raises RefConflictError when another process moved
        a ref meanwhile, and RecordError when the notes cannot be read and something must be removed from them: nothing is
        changed.
        """
        if state.pending(self.store.repo):  # what is planned here was planned beside it
            self.warnings += self.store.settle()
            raise RefConflictError("a change that another process had begun was finished first", "try again")
        found = self.store.objects.info(META)
        if (found.oid if found is not None else None) != self._meta_at:  # what this drops may be pinned by now
            raise RefConflictError(f"{in_quotes(META)} moved meanwhile", "try again")
        objects, first, tips = self.drawn()
        if not first:
            return
        self.store.repo.stow([item for item in objects if item.oid not in self._written])
        plans, ours = {track: plan for track, plan in self._plans.items() if plan.change is not None}, self.store.ours
        begun = dict[str, list[Oid]]()
        for track, plan in plans.items():
            name, theirs = of_track(track), self._foreign.get(track, set())
            known_here = ours.among(name)
            fresh = [link.id for link in plan.fresh if link.id not in known_here]
            mine = begun[track] = [oid for oid in fresh if oid not in theirs]
            if plan.altered:  # what a restore of it brings may not be what was captured here
                ours.drop(name, plan.altered, mixed=True)
            if mine or (fresh and ours.knows(name)):
                ours.add(name, mine, mixed=len(mine) < len(fresh))
        for track, plan in plans.items():
            if plan.change is not None and plan.change.new is None and plan.change.old is not None:
                vouched = self.store.objects.info(signatures_ref(track))
                signed = vouched.oid if vouched is not None else None
                whole = Deleted(tip=plan.change.old, ours=ours.made_here(of_track(track)), signed=signed)
                note_deleted(self.store.repo, track, whole)
        forgotten = self.meta.forgotten - self._meta.forgotten  # of fetched chains, too
        # First: a kill before the refs move has removed nothing.
        forget_titles(self.store.repo, {*forgotten, *(oid for plan in plans.values() for oid in plan.removed)})
        try:
            state.carry_out(self.store, first, tips, [item.oid for item in objects])
        except (RefConflictError, GitError):
            self._unsay(begun)
            raise
        if forgotten:
            state.forget_words(self.store.repo)
        gone = {track for track, plan in plans.items() if plan.change is not None and plan.change.new is None}
        losing = [track for track, plan in plans.items() if plan.removed or track in gone]
        ours.drop_all({of_track(track): None if track in gone else plans[track].removed for track in losing})
        if not self.changes:
            self._know()
        self._follow()

    def _know(self) -> None:
        for place in (place for plan in self._plans.values() for place in plan.moved):
            self.store.facts.follow(*place)

    def _unsay(self, begun: Mapping[str, Collection[Oid]]) -> None:
        """Take back what was noted of tracks before their refs moved, which did not: else one would be missed that never was,
        and one be known as deleted that is here."""
        for track, ids in begun.items():
            change = self._plans[track].change
            if change is not None and change.old is None:
                self.store.ours.drop(of_track(track), ids)
            elif change is not None and change.new is None:
                with suppress(OSError, RecordError):
                    drop_deleted(self.store.repo, track, change.old)

    def _follow(self) -> None:
        """No work tree stays on a track that is gone, nor its sessions with ids that are: a renamed one they follow."""
        gone = {track: plan for track, plan in self._plans.items() if plan.change is not None and plan.change.new is None}
        fresh = [(track, link) for track, plan in self._plans.items() for link in plan.fresh]
        names = {oid: link.id for _, link in fresh for oid in link.earlier}
        heirs = {oid: track for track, link in fresh for oid in link.earlier}
        last = {
            tip_ref(track): next((heirs[oid] for oid in plan.removed[::-1] if oid in heirs), None)
            for track, plan in gone.items()
        }
        repo = self.store.repo
        for _, git_dir, _ in questions.worktrees(repo) if last or names else ():
            current = questions.current_ref(repo, git_dir, CURRENT)
            heir = last.get(current) if current is not None else None
            if heir is not None:
                questions.set_current(repo, git_dir, CURRENT, tip_ref(heir))
            elif current in last:
                questions.delete_current(repo, git_dir, CURRENT)
            if names:
                from gitbaton.checkpoints.store import sessions

                sessions.follow(repo, os.path.join(git_dir, "baton"), names)

    def prepare(self) -> None:
        """Write the objects ahead, without the lock: they take long, and without a ref they are nothing. ``apply`` then has
        little left to do. Raises as ``apply``."""
        objects, self.changes, _ = self.drawn()
        self.store.repo.stow(objects)
        self._written = frozenset(item.oid for item in objects)
        self._know()

    def drawn(self) -> tuple[list[NewObject], list[RefChange], list[RefChange]]:
        """Return what ``apply`` does: the objects, the moves of refs in one transaction, and those of the tips. Reads only."""
        plans = {track: plan for track, plan in self._plans.items() if plan.change is not None}
        objects = [*self._also[0], *(item for plan in plans.values() for item in plan.objects)]
        first = [*(plan.change for plan in plans.values() if plan.change is not None), *self._also[1]]
        if self.meta != self._meta:
            objects += meta.objects_for(self.store, self.meta)
            first.append(RefChange(name=META, new=objects[-1].oid, old=self._meta_at))
        made, signed = self._signatures()
        objects, first = [*objects, *made], [*first, *signed]
        made, change = self._noted(plans)
        objects += made
        first += [change] if change is not None else []
        return objects, first, self._tips(plans, objects)

    def _signatures(self) -> tuple[list[NewObject], list[RefChange]]:
        """Return the objects of signatures and the moves of their refs: what was fetched comes, and what a track loses goes."""
        signed = below(self.store.repo, SIGNATURES)
        losing = {track for track, plan in self._plans.items() if plan.removed and encode_track(track) in signed}
        objects, changes = list[NewObject](), list[RefChange]()
        for track in sorted(losing | self._signed.keys()):
            ref, plan = signatures_ref(track), self._plans.get(track, JoinPlan())
            found = self.store.objects.info(ref)
            old = found.oid if found is not None else None
            if plan.change is not None and plan.change.new is None:
                changes.append(RefChange(name=ref, new=None, old=old))
                continue
            try:
                there = signatures.read(self.store, ref)
                own = there.signed
                both = signatures.union(own, *self._signed.get(track, ()))
                ids = self._ids_after(track, both.keys() - own.keys())
            except (RecordError, GitError) as error:
                self.warnings.append(f"signatures stay as they are: {error.message}")
                continue
            left = {
                oid: blobs
                for oid, blobs in both.items()
                if oid in ids or (oid in own and not (oid in plan.removed or self.meta.dropped(oid)))
            }
            if left == own and not there.left:
                continue
            made = signatures.objects_for(self.store.objects.algorithm, left) if left else []
            objects += made
            changes.append(RefChange(name=ref, new=made[-1].oid if made else None, old=old))
        return objects, [change for change in changes if change.new != change.old]

    def _ids_after(self, track: str, asked: Collection[Oid]) -> frozenset[Oid]:
        """Return those of some checkpoints that a track has afterwards."""
        plan = self._plans.get(track, JoinPlan())
        if not asked:
            return frozenset()
        placed = {*plan.placed} if plan.change is not None else set()
        tip = self.store.objects.info(chain_ref(track)) if not placed.issuperset(asked) else None
        kept = marks(self.store, self.store.objects.first_parents(tip.oid)) if tip is not None else ()
        placed |= {mark[1] for mark in kept if mark is not None}.difference(plan.removed)
        return frozenset(oid for oid in asked if oid in placed and not self.meta.dropped(oid))

    def _tips(self, plans: Mapping[str, JoinPlan], objects: list[NewObject]) -> list[RefChange]:
        """Return the moves of the tips' refs; one that was behind before stays so: its repair also looks for lost notes."""
        shown = self.store.objects.refs(TIPS) if plans else {}
        changes = []
        for track, plan in plans.items():
            ref, change = tip_ref(track), plan.change
            old = shown.get(ref)
            raw = payload(plan.newest.message) if plan.newest else self._raw(change.new) if change else None
            new = new_object(self.store.objects.algorithm, "blob", raw) if raw is not None else None
            if old == (new.oid if new is not None else None):
                continue
            before = self._raw(change.old) if change else None
            was = new_object(self.store.objects.algorithm, "blob", before).oid if before is not None else None
            if new is None or old == was or old in plan.removed:
                objects += [new] if new is not None else []
                changes.append(RefChange(name=ref, new=new.oid if new else None, old=old))
        return changes

    def _raw(self, commit: Oid | None) -> bytes | None:
        """Return the stored bytes of the checkpoint at a commit that is there."""
        found = self.store.commit(commit)
        return payload(found.message) if found is not None else None

    def _noted(self, plans: Mapping[str, JoinPlan]) -> tuple[list[NewObject], RefChange | None]:
        """Return the notes' objects and the move of their ref. Where they cannot be read, what would be added is a warning."""
        if not self.noted:
            return [], None
        removed = self.removed
        try:
            asked = self.store.notes_tree(), self.meta, [*plans.values()], dict(self._notes)
            if self._drawn_notes is not None and self._drawn_notes[0] == asked:  # as they were drawn without the lock
                return self._drawn_notes[1]
            texts = self._texts(plans)
            times = [int(plan.newest.created.timestamp()) for plan in plans.values() if plan.newest is not None]
            author = NOBODY + b" %d +0000" % max(times, default=0)
            said = b"checkpoints removed\n" if removed else b"checkpoints joined\n"
            made = plan_notes(self.store, texts, author, said, removed, full=self.places.full, settle=self._settled)
            self._drawn_notes = asked, made
            return made
        except RecordError as error:
            if removed:
                raise RecordError(f"nothing is removed: {error.message}") from None
            self.warnings.append(f"no notes are written: {error.message}")
            return [], None

    def _texts(self, plans: Mapping[str, JoinPlan]) -> dict[Oid, bytes]:
        """Return the notes to write: with the entries of new manual checkpoints, and with what was fetched."""
        new: dict[Oid, dict[Oid, bytes]] = {oid: {} for oid in self._notes}
        times: dict[Oid, bytes] = {}
        for plan in plans.values():
            times |= {oid: timestamp(created).encode() for oid, created in plan.placed.items()}
            for link in plan.fresh:
                raw = payload(link.message)
                checkpoint = known(raw)  # it was read whole where the link was made
                if checkpoint.kind == "manual" and checkpoint.head is not None:
                    new.setdefault(checkpoint.head, {})[link.id] = entry(link.id, decode(raw))
        if not new:
            return {}
        tree = self.store.notes_tree()[1]
        rows = dict[Oid, list[TreeEntry]]()
        here = {commit: self.store.note(commit, tree, rows) for commit in new}
        raws = {commit: [raw, self._notes.get(commit, b"")] for commit, raw in here.items()}
        for commit, both in raws.items():
            for oid, text in (item for raw in both for item in parse_note(raw).entries if item[0] not in times):
                place = self.places.anywhere(oid, text)
                times |= {oid: place.created} if place is not None else {}
                if place is not None and place.track != track_in(text):  # an older version moved it below another's
                    new[commit][oid] = self.places.full(oid, text)
        dropped, full = self._dropped(), self.places.full
        texts = {
            commit: merged_note(both, new[commit], times, dropped, full, partial(self._settled, commit))
            for commit, both in raws.items()
        }
        return {commit: text for commit, text in texts.items() if text and text != here[commit]}

    def _settled(self, commit: Oid, note: Note) -> Note:
        """Return a note that had older entries, as the chains have it afterwards."""
        return self.places.settled(commit, note, self._dropped())

    def _dropped(self) -> Callable[[Oid], bool]:
        removed = self.removed
        return lambda oid: oid in removed or self.meta.dropped(oid)


def adopt(store: Store, track: str, now: datetime) -> list[str]:
    """Begin a track that exists only as fetched with what its remotes have of it, so that a snapshot can follow; called with
    the lock held, before its first local one. What of it could not be joined is said, and the track begins without it."""
    chains = store.fetched().get(track, [])
    if any(other != track and other.casefold() == track.casefold() for other in store.chains()[0]):
        return []
    warnings = store.settle()
    found: list[Link] = []
    drops = meta.NOTHING
    for remote, oid in chains:
        try:
            told = dropping(store, (remote,))
            found += [link for link in links(store, track, oid) if link.created <= now + SLACK]
            drops = meta.union(drops, told)
        except (RecordError, GitError) as error:
            warnings.append(f"what {in_quotes(remote)} has of track {in_quotes(track)} is not joined: {error.message}")
    if not found:
        return warnings
    revision = Revision(store)
    revision.meta = drops
    revision.join(track, found, fetched=True)
    revision.apply()
    return [*warnings, *revision.warnings]


_MOST_BYTES = 64 << 20
_FORMAT = 1
_MOST_DELETED = 20  # tracks of one name


@value
class Deleted:
    """A track that went whole: its newest commit, those of its checkpoints that were made here, and the commit of their
    signatures."""

    tip: Oid
    ours: frozenset[Oid]
    signed: Oid | None = None


def note_deleted(repo: Repo, track: str, gone: Deleted) -> None:
    """Note a track before it goes; what was deleted before under that name stays noted. Raises OSError."""
    known: list[Deleted] = []
    with suppress(RecordError):
        known = find_deleted(repo, track)
    _put_deleted(repo, track, [gone, *(one for one in known if one.tip != gone.tip)][:_MOST_DELETED])


def find_deleted(repo: Repo, track: str) -> list[Deleted]:
    """Return what ``note_deleted`` noted of the tracks of that name, the last one first. Raises RecordError."""
    path = _deleted_path(repo, track)
    try:
        said = parse(read_regular(path, _MOST_BYTES))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"{in_quotes(path)} cannot be read: {error.strerror}") from None
    known = said if isinstance(said, dict) and said.get("v") == _FORMAT else {}
    older, found = known.get("older", []), list[Deleted]()
    for one in (known, *(older if isinstance(older, list) else [None])):
        tip, ours, signed = (one.get("tip"), one.get("ours"), one.get("signed")) if isinstance(one, dict) else (None,) * 3
        if not (isinstance(tip, str) and OID.match(tip) and isinstance(ours, list)):
            raise RecordError(f"{in_quotes(path)} is not what gitbaton writes")
        signed = signed if isinstance(signed, str) and OID.match(signed) else None
        found.append(Deleted(tip=tip, ours=frozenset(oid for oid in ours if isinstance(oid, str)), signed=signed))
    return found


def drop_deleted(repo: Repo, track: str, tip: Oid | None) -> None:
    """Take the note of a track with this newest commit back: it is there again. Raises OSError, RecordError."""
    _put_deleted(repo, track, [one for one in find_deleted(repo, track) if one.tip != tip])


def _put_deleted(repo: Repo, track: str, found: Sequence[Deleted]) -> None:
    path, rows = _deleted_path(repo, track), list[dict[str, Json]]()
    for one in found:
        rows.append({"tip": one.tip, "ours": [*sorted(one.ours)], **({"signed": one.signed} if one.signed else {})})
    if not rows:
        return remove(path)
    return put(repo, path, canonical({"v": _FORMAT, **rows[0], **({"older": [*rows[1:]]} if rows[1:] else {})}), sync=True)


def _deleted_path(repo: Repo, track: str) -> str:
    return os.path.join(repo.shared_dir, "deleted", encode_track(track))
