"""Turns to take back: which ones a name, a range or a session means, and which turns of other sessions overlap them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile

from gitbaton.base.codec import first_line, in_double_quotes, in_quotes
from gitbaton.base.errors import AmbiguousNameError, BatonError, NoAnswerError, NotFoundError, UsageError
from gitbaton.base.model import Stored, session_key
from gitbaton.base.values import replace, value
from gitbaton.checkpoints import names
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.checkpoints.restore.values import Order
from gitbaton.checkpoints.store import safety_ref
from gitbaton.checkpoints.store.sessions import open_here
from gitbaton.checkpoints.store.turns import Span, since, span_of, turns, until

_LISTS = "'git baton log --all' lists the turns"


@value
class Taken:
    """A turn that is to be taken back, and the turns of other sessions of its work tree that overlap it in time."""

    span: Span
    rivals: tuple[Span, ...]


def chosen(baton: Baton, order: Order) -> tuple[Taken, ...]:
    """Return the turns that an order means, newest first; of a bare one all from which the newest that changed something must
    be picked. Raises BatonError where there is none, NoAnswerError where no turn is on record at all."""
    found = _named(baton, order) if order.checkpoint else _of_session(baton, order) if order.session else _newest(baton, order)
    for span in found:
        if span.end is not None and span.end.foreign and not order.foreign and baton.repo.layout.root is not None:
            short = baton.short(span.end.id)
            hint = f"'git baton diff {short}' shows what it holds; --foreign takes it back all the same"
            raise BatonError(f"checkpoint '{short}' was fetched from elsewhere", hint)
        if span.before is None:
            said = f"what the turn of {told(span)} began from is not on record any more"
            hint = "'git baton restore CHECKPOINT' brings back the files of a checkpoint"
            raise NoAnswerError(said, hint)
    tracks = [span.end.checkpoint.track for span in found if span.end is not None]
    there = _everywhere(baton, tracks or [_track(baton, order)], min(map(since, found)))
    return tuple(Taken(span=span, rivals=tuple(other for other in there if _overlaps(span, other))) for span in found)


def told(span: Span) -> str:
    """Return the session of a turn, in words, and what the user said."""
    said = f" ({in_double_quotes(first_line(span.prompt)[:60])})" if span.prompt else ""
    whose = f"session {in_quotes(span.session.session or span.session.name)}" if span.session else "a session"
    return f"{whose}{said}"


def turns_here(baton: Baton, track: str) -> Iterator[Span]:
    """Yield the turns of a track, newest first; one that a restore cut off ends with the state before that."""
    for span in turns(baton.store, track):
        if span.open or span.end is not None or span.after is None:
            yield span
            continue
        step = baton.store.tip_at(safety_ref(baton.repo.layout.git_dir, baton.repo.layout.common_dir))
        states = baton.store.newest(step) if step is not None else ()
        yield replace(span, end=next((s for s in states if s.tree == span.after and not s.foreign), None))


def _newest(baton: Baton, order: Order) -> list[Span]:
    """Return the open turns of the track, and the newest other one of this work tree that changed something."""
    found, idle, here = list[Span](), list[Span](), baton.repo.worktree_id()
    for span in turns_here(baton, _track(baton, order)):
        end = span.end.checkpoint.files if span.end is not None else None
        if end is not None and not end.worktree.same(here):
            continue
        if span.before is None:  # it is the newest, and nobody knows what it changed
            return found or [span]
        if span.open:
            found.append(span)
        elif span.before != span.after:  # also one that is known to have changed nothing itself, and may have
            return [*found, span]
        else:
            idle.append(span)
    if not found and not idle:
        clients = "'git baton agent list' says which clients tell of theirs"
        raise NoAnswerError("no turn of an agent is on record here", *_back(baton, order.track or "@"), clients)
    return found or idle[:1]


def _instead(baton: Baton, track: str, name: str) -> tuple[str, ...]:
    """Return the hint at the list of a track's turns; where it has none, at what goes back by checkpoints."""
    return _back(baton, name) if next(turns_here(baton, track), None) is None else (_LISTS,)


def _back(baton: Baton, name: str) -> tuple[str, ...]:
    """Return the hint at the restore of the checkpoint before ``name``, else of that one; none where no files are."""
    for before in ("~1", ""):
        with suppress(BatonError):
            stored = baton.resolve(f"{name}{before}")
            if stored.checkpoint.files is not None and not stored.foreign:
                return (f"to have the files back as a checkpoint has them: git baton restore {in_shell(name)}{before}",)
    return ()


def _track(baton: Baton, order: Order) -> str:
    if order.track:
        return baton.tip(order.track).checkpoint.track
    if baton.current() is None and not baton.store.meant():
        return baton.chosen(automatic=True)  # that of the first turn, of which no checkpoint is there yet
    return baton.tip().checkpoint.track


def _named(baton: Baton, order: Order) -> list[Span]:
    """Return the turns of a range, or the one that a checkpoint belongs to."""
    ends = names.parted(order.checkpoint, "..")
    if ends is None:
        return [_of(baton, baton.resolve(order.checkpoint, order.track or None))]
    first, last = (baton.resolve(end or "@", order.track or None) for end in ends)
    track = last.checkpoint.track
    if first.checkpoint.track != track:
        tracks = f"tracks {in_quotes(first.checkpoint.track)} and {in_quotes(track)}"
        raise UsageError(f"{in_quotes(order.checkpoint)} names checkpoints of {tracks}; a range is of one")
    above, most = (stored.checkpoint.created.timestamp() for stored in (first, last))
    after = takewhile(lambda span: until(span) > above, turns_here(baton, track))
    found = [span for span in after if (not ends[1] or until(span) <= most) and _is_of(span, order.session)]
    if not found:
        of = f" of session {in_quotes(order.session)}" if order.session else ""
        if ends[0] and ends[1] and above > most:
            turn = in_shell(f"{ends[1]}..{ends[0]}")
            between = any(most < until(span) <= above and _is_of(span, order.session) for span in turns_here(baton, track))
            other = (f"the other way round: git baton revert {turn}",) if between else _instead(baton, track, ends[1])
            raise NoAnswerError(f"{in_quotes(ends[0])} is newer than {in_quotes(ends[1])}, and no turn lies between", *other)
        said = f"no turn{of} ended after {in_quotes(ends[0] or '@')} up to {in_quotes(ends[1] or 'now')}"
        raise NoAnswerError(said, *_instead(baton, track, ends[1] or "@"))
    return found


def _of(baton: Baton, stored: Stored) -> Span:
    """Return the turn that a checkpoint belongs to. Raises NotFoundError where it is of none."""
    c, at = stored.checkpoint, stored.checkpoint.created.timestamp()
    later = list(takewhile(lambda span: until(span) >= at, turns_here(baton, c.track)))
    found = span_of(stored, later)
    if found is not None:
        return found
    said = f"checkpoint {in_quotes(baton.short(stored.id))} is of no turn of an agent"
    after = [span.end for span in later if span.end is not None and since(span) >= at]
    short = baton.short(after[-1].id if after else stored.id)
    next_one = (f"the turn after it: git baton revert {short}",)
    raise NotFoundError(said, *(next_one if after else _instead(baton, c.track, short)))


def _of_session(baton: Baton, order: Order) -> list[Span]:
    """Return all turns of a session in this work tree."""
    there = _everywhere(baton, [order.track] if order.track else [], 0.0)
    found = [span for span in there if _is_of(span, order.session) and span.changed()]
    sessions = dict.fromkeys(session_key(span.session) for span in found)
    if len(sessions) > 1:
        those = (f"session {in_quotes(session or name)} of {name}" for name, session in sessions)
        raise AmbiguousNameError(f"{in_quotes(order.session)} could mean {len(sessions)} sessions", *those)
    if not found:
        said = f"no turn of a session {in_quotes(order.session)} that changed something is on record"
        raise NotFoundError(said, *((_LISTS,) if there else _back(baton, order.track or "@")))
    return found


def _is_of(span: Span, session: str) -> bool:
    """Whether a turn is of the session of which an id, or its beginning, is given."""
    return not session or (session_key(span.session)[1] or "").startswith(session)


def _everywhere(baton: Baton, tracks: Sequence[str], moment: float) -> list[Span]:
    """Return the turns of these and all other tracks that were made in this work tree and did not end before a moment, the
    newest first."""
    store, here = baton.store, baton.repo.worktree_id()
    begun = {session.began for _, session, _ in open_here(baton.repo)}
    tips = [tip for tip in store.all_tips().items if tip.id in begun or tip.checkpoint.created.timestamp() >= moment]
    found: dict[object, Span] = {}
    for track in dict.fromkeys([*tracks, *(tip.checkpoint.track for tip in tips)]):
        for span in takewhile(lambda span: until(span) > moment, turns_here(baton, track)):
            files = span.end.checkpoint.files if span.end is not None else None
            if span.before is not None and (files is None or files.worktree.same(here)):
                found.setdefault((session_key(span.session), span.began and span.began.id, span.end and span.end.id), span)
    return sorted(found.values(), key=until, reverse=True)


def _overlaps(span: Span, other: Span) -> bool:
    """Whether two turns of different sessions overlap in time."""
    if session_key(other.session) == session_key(span.session):
        return False
    first, second = sorted((span, other), key=since)
    return since(second) < until(first) and first.after != second.before
