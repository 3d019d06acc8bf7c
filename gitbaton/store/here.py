"""Here: at which checkpoint of a track a work tree is, once a restore has brought one back and nothing has followed it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from gitbaton.errors import GitError, RecordError
from gitbaton.git.questions import met
from gitbaton.git.treediff import differences
from gitbaton.model import Here, Oid, Stored
from gitbaton.store.read import Store
from gitbaton.store.refs import safety_ref
from gitbaton.store.safety import AFTER, in_beside
from gitbaton.store.standing import at, shown
from gitbaton.values import replace, value

_STEPS = 5  # of the safety chain, among which that of a track is looked for
_FAR = 1000  # checkpoints of a chain below its newest one among which the one that came back is looked for


@value
class Stance:
    """A track as it is in a work tree: ``stored`` is the checkpoint whose words and state are there, ``here`` says where that
    is. ``step``: the restore, undo or redo that led there, or that brought other files, as its safety checkpoint; None where
    there was none, or a checkpoint followed. ``gone``: what was taken back to come there, newest first; ``paths``: what the
    step brought back where not all did; ``came``: the checkpoint that came back below one that carries its words."""

    stored: Stored
    here: Here
    step: Stored | None = None
    gone: tuple[Stored, ...] = ()
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
    stored, gone = _between(store, tip, here) if here.at != tip.id else (tip, ())
    stored = stored or _fetched(store, tip, here.at) or tip
    below = stored.checkpoint.carried.restored if stored.checkpoint.carried else None
    came: Stored | None = None
    if below is not None and stored is tip:  # what came back below an automatic checkpoint that carries its words
        came, gone = _between(store, tip, below)
    return Stance(stored=_decided(store, stored, tip), here=here, step=step, gone=gone, paths=paths, came=came)


def _decided(store: Store, stored: Stored, tip: Stored) -> Stored:
    """The checkpoint that came back with what stands on its track: a restore takes files back, and withdraws nothing."""
    if stored.id == tip.id:
        return stored
    return replace(stored, checkpoint=shown(stored.checkpoint, at(store, tip)))


def has_words(store: Store, tip: Stored, stored: Stored, here: Here) -> bool:
    """Whether a checkpoint has, or carries, the words that a step brought back: nobody has written others since."""
    found = _between(store, tip, here)[0]
    return found is not None and _words(found) == _words(stored)


def _words(stored: Stored) -> Oid:
    carried = stored.checkpoint.carried
    return carried.id if carried is not None else stored.id


def _between(store: Store, tip: Stored, here: Here) -> tuple[Stored | None, tuple[Stored, ...]]:
    """The checkpoint that came back, where the chain still has it, and what was taken back above it."""
    gone: list[Stored] | None = None
    for stored in islice(store.newest(tip), _FAR):
        if stored.id == here.top:
            gone = []
        if stored.id == here.at:
            return stored, tuple(gone or ())
        if gone is not None:
            gone.append(stored)
    return None, ()


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
