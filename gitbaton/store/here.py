"""Here: at which checkpoint of a track a work tree is, once a restore has brought one back and nothing has followed it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from gitbaton.codec import first_line
from gitbaton.errors import GitError, RecordError
from gitbaton.git.questions import met
from gitbaton.git.treediff import differences
from gitbaton.model import Back, Here, Observed, Oid, Prompt, Stored, Told, is_turn, prompt_in
from gitbaton.store.read import Store
from gitbaton.store.refs import safety_ref
from gitbaton.store.safety import AFTER, in_beside
from gitbaton.store.standing import LOOKED, Stands, again, at, shown
from gitbaton.values import replace, value

_STEPS = 5  # of the safety chain, among which that of a track is looked for
_FEW = 100  # characters by which a prompt is known, beside its time
_FAR = 1000  # checkpoints of a chain below its newest one among which the one that came back is looked for


@value
class Stance:
    """A track as it is in a work tree: ``stored`` is the checkpoint whose words and state are there, with what was asked and
    seen since that was not taken back, and ``back`` says where that is. ``step``: the restore, undo or redo that led there, or
    that brought other files, as its safety checkpoint; None where there was none, or a checkpoint followed. ``paths``: what
    the step brought back where not all did; ``came``: the checkpoint that came back below one that carries its words."""

    stored: Stored
    back: Back
    step: Stored | None = None
    paths: tuple[str, ...] = ()
    came: Stored | None = None


def last_steps(store: Store, track: str | None) -> tuple[Stored, ...]:
    """The newest steps of this work tree's safety chain, newest first; only one where that is of the ``track`` that is asked
    for. None where the newest is another work tree's."""
    layout = store.repo.layout
    try:
        step = store.tip_at(safety_ref(layout.git_dir, layout.common_dir))
    except (RecordError, GitError):
        return ()
    if step is None:
        return ()
    place, files = met(layout.git_dir, layout.root or ""), step.checkpoint.files
    if place is None or files is None or not files.worktree.same(place):
        return ()
    steps = (step,) if step.checkpoint.track == track else islice(store.newest(step), _STEPS)
    return tuple(s for s in steps if not s.foreign and s.checkpoint.restore is not None)


def stance(store: Store, tip: Stored, steps: Sequence[Stored]) -> Stance:
    """Where this work tree is on the track of its newest checkpoint ``tip``, after ``steps``, the newest first."""
    track, last = tip.checkpoint.track, steps[0] if steps else None
    own = next((s for s in steps if s.checkpoint.track == track), None)
    done = own.checkpoint.restore if own is not None else None
    here = Here(at=tip.id, top=tip.id)
    if done is not None and done.tip == tip.id:
        here = done.after or done.before or here
    led = last is not None and last is own and done is not None and done.tip == tip.id
    strange = last is not None and last is not own and last.checkpoint.restore and last.checkpoint.restore.origin == tip.id
    step = last if (led and (here.at != tip.id or (done and done.after is None))) or strange else None
    paths = _paths(store, step) if step is not None and step is own and done and done.after is None else ()
    stored, gone, left = _between(store, tip, here) if here.at != tip.id else (tip, (), ())
    stored = stored or _fetched(store, tip, here.at) or tip
    below = stored.checkpoint.carried.restored if stored.checkpoint.carried else None
    came: Stored | None = None
    if below is not None and stored is tip:  # what came back below an automatic checkpoint that carries its words
        came, gone, left = _between(store, tip, below)
        left = tuple(s for s in left if s.checkpoint.carried is None or s.checkpoint.carried.restored != below)
    newer, at = left if stored is not tip else (), came or stored
    back = Back(here=here, gone=gone, left=left, newer=newer, gone_asked=_asked(gone, at), left_asked=_asked(left, at))
    stored = _decided(store, _gone_on(stored, newer), tip)
    return Stance(stored=stored, back=back, step=step, paths=paths, came=came)


def _asked(items: Sequence[Stored], at: Stored) -> tuple[Prompt, ...]:
    """What the user said in some checkpoints and not in the one ``at`` which a work tree is, newest first."""
    had = {_key(one) for one in at.checkpoint.observed.asked} if at.checkpoint.observed else set[object]()
    found = dict[object, Prompt]()
    for c in (s.checkpoint for s in items if at.foreign_words >= s.foreign):
        asked = c.observed.asked if c.observed else ()
        text = prompt_in(c.step) if is_turn(c.kind, c.step) else ""
        if text and not any(first_line(one.text).startswith(text) for one in asked):  # it said little by itself
            asked = (*asked, Prompt(text=text, at=c.created))
        found |= {_key(one): one for one in asked if _key(one) not in had and _key(one) not in found}
    return tuple(sorted(found.values(), key=lambda one: one.at, reverse=True))


def _key(one: Prompt) -> tuple[float, str]:
    return round(one.at.timestamp(), 3), first_line(one.text)[:_FEW]


def _gone_on(stored: Stored, newer: Sequence[Stored]) -> Stored:
    """A checkpoint that came back with what clients had on record in newer ones that were not taken back."""
    if not newer:
        return stored
    observed = stored.checkpoint.observed
    for later in reversed([s.checkpoint.observed for s in newer if stored.foreign_words >= s.foreign]):
        observed = _both(observed, later) if observed is not None and later is not None else observed or later
    return replace(stored, checkpoint=replace(stored.checkpoint, observed=observed))


def _both(old: Observed, new: Observed) -> Observed:
    """What two records tell, of each plan and each test command the newest; of turns and words that the old one does."""
    plans = {(one.agent, one.session): one for one in sorted((*old.plans, *new.plans), key=lambda one: one.changed)}
    tests = {one.command: one for one in sorted((*old.tests, *new.tests), key=lambda one: one.ended)}
    return replace(
        old,
        plans=tuple(sorted(plans.values(), key=lambda one: one.changed, reverse=True)),
        tests=tuple(sorted(tests.values(), key=lambda one: one.ended, reverse=True)),
        edited=tuple(dict.fromkeys((*new.edited, *old.edited))),
        edited_more=max(old.edited_more, new.edited_more),
        asked=_all(old.asked, new.asked),
        milestone=max((at for at in (old.milestone, new.milestone) if at is not None), default=None),
        until=max((at for at in (old.until, new.until) if at is not None), default=None),
        partial=old.partial or new.partial,
    )


def _all(old: Sequence[Prompt], new: Sequence[Prompt]) -> tuple[Prompt, ...]:
    """All prompts in their order, those of sessions before first; an old one that a newer session knows is of one before."""
    marks = {_key(one): one.earlier for one in new}
    before = any(marks.get(_key(one), False) and not one.earlier for one in old)
    kept = [replace(one, earlier=one.earlier or before) for one in old if _key(one) not in marks]
    return tuple(sorted((*kept, *new), key=lambda one: (not one.earlier, one.at)))


def gone_on(told: Told, later: Told) -> Told:
    """Put together what was said around a checkpoint and around a newer one that was not taken back."""

    def newest(*said: Prompt | None) -> Prompt | None:
        return max((one for one in said if one is not None), key=lambda one: one.at, default=None)

    checks = {one.command: one for one in sorted((*told.checks, *later.checks), key=lambda one: one.ended)}
    return replace(
        later,
        asked=_all(told.asked, later.asked),
        latest=newest(told.latest, later.latest),
        approved=newest(told.approved, later.approved),
        listed=newest(told.listed, later.listed),
        said=newest(told.said, later.said),
        checks=tuple(sorted(checks.values(), key=lambda one: one.ended)),
        error=later.error or told.error,
        read=tuple(dict.fromkeys((*later.read, *told.read))),
    )


def _decided(store: Store, stored: Stored, tip: Stored) -> Stored:
    """The checkpoint that came back with what stands on its track: a restore takes files back, and withdraws nothing."""
    if stored.id == tip.id:
        return stored
    return replace(stored, checkpoint=shown(stored.checkpoint, stands(store, tip, stored)))


def stands(store: Store, tip: Stored, stored: Stored, limit: int | None = LOOKED) -> Stands:
    """What stands on a track of which a checkpoint is here: what does at its newest one, and what was withdrawn since and taken
    back. ``limit``: how many checkpoints of a joined track are looked at."""
    found = at(store, tip, limit)
    return again(found, at(store, stored, limit)) if stored.id != tip.id else found


def has_words(store: Store, tip: Stored, stored: Stored, here: Here) -> bool:
    """Whether a checkpoint has, or carries, the words that a step brought back: nobody has written others since."""
    found = _between(store, tip, here)[0]
    return found is not None and _words(found) == _words(stored)


def _words(stored: Stored) -> Oid:
    carried = stored.checkpoint.carried
    return carried.id if carried is not None else stored.id


def _between(store: Store, tip: Stored, here: Here) -> tuple[Stored | None, tuple[Stored, ...], tuple[Stored, ...]]:
    """The checkpoint that came back, where the chain still has it, what was taken back above it, and what is newer than that.
    Where the newest one that was taken back is pruned, what was written on top of it is newer."""
    above = list[Stored]()
    for stored in islice(store.newest(tip), _FAR):
        if stored.id == here.at:
            top = next((n for n, s in enumerate(above) if s.id == here.top), None)
            if top is None and here.top != here.at:
                top = next((n + 1 for n, s in enumerate(above) if s.checkpoint.previous == here.top), 0)
            top = len(above) if top is None else top
            return stored, tuple(above[top:]), tuple(above[:top])
        above.append(stored)
    return None, (), ()


def _fetched(store: Store, tip: Stored, oid: Oid) -> Stored | None:
    """A checkpoint of a track's chains at remotes."""
    for _, commit in store.at_remotes(tip.checkpoint.track):
        try:
            start = store.stored(store.objects.read(commit), tip.checkpoint.track, commit)
        except RecordError:
            continue
        found = next((s for s in islice(store.newest(start), _FAR) if s.id == oid), None)
        if found is not None:
            return found
    return None


def _paths(store: Store, step: Stored) -> tuple[str, ...]:
    """What a step that some paths were named for has touched, as far as that is known."""
    try:
        pair = (step.tree, in_beside(store, step, AFTER))
        return tuple(differences(store.repo, [pair])[pair])
    except (RecordError, GitError):
        return ()
