"""Work of sessions, for restores: which paths a turn of another session wrote last, since the checkpoint that comes back."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from math import inf

from gitbaton.baton import Baton
from gitbaton.codec import first_line, in_double_quotes, in_quotes
from gitbaton.errors import NotFoundError, RecordError
from gitbaton.model import Agent, Oid, Stored, session_key
from gitbaton.restore.values import UNDECIDED
from gitbaton.store.chain import AFTER, in_beside
from gitbaton.store.pathhistory import changes
from gitbaton.store.standing import last_steps
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.store.turns import Span

LONGEST = 60  # that is told of a prompt


@value
class Work:
    """``theirs``: of the paths that another session wrote last whose they are, in words; ``own``: those that changed after the
    newest checkpoint, which is not the one that comes back, and outside of any turn."""

    theirs: Mapping[str, str]
    own: Collection[str]


@value
class _Moment:
    """A state on the way from the checkpoint to now, and when it was there."""

    at: float
    tree: Oid


def session_work(baton: Baton, then: Stored, now: Oid, paths: Collection[str]) -> Work:
    """Who of the sessions on a checkpoint's track wrote the paths last since it, by the checkpoints of this work tree; ``now``
    is the tree of the present state. Reads only.

    The checkpoint's own session is not another one; where that did nothing since, the one whose turn came first is not."""
    if not paths:
        return Work(theirs={}, own=())
    store, start, here = baton.store, then.checkpoint.created.timestamp(), baton.repo.worktree_id()
    tip = _tip(baton, then.checkpoint.track)
    chain = takewhile(lambda s: s.checkpoint.created.timestamp() > start, store.newest(tip) if tip is not None else ())
    taken = [s for s in chain if s.checkpoint.files is not None and s.checkpoint.files.worktree.same(here)][::-1]
    states = [_Moment(at=start, tree=then.tree)]
    states += [_Moment(at=s.checkpoint.created.timestamp(), tree=s.tree) for s in taken]
    spans = _turns_since(baton, then, taken)
    last = _last_changes(baton, [*states, _Moment(at=inf, tree=now)], paths)
    ours, theirs, own = _ours(then.checkpoint.agent, spans), dict[str, str](), list[str]()
    several = any(session_key(span.session) != ours for span in spans)
    fresh = [path for path, places in last.items() if places[-1] == len(states)]
    put_back = _put_back(baton, states[-1], fresh, now) if fresh and (several or taken) else set()
    for path, places in last.items():
        for place in reversed(places):
            after = states[place].at if place < len(states) else inf
            writers = [span for span in spans if _goes_on(span, states[place - 1].at, after)]
            if place == len(states) and (path in put_back or not writers):
                if path in put_back:
                    break
                own.append(path)
                continue  # an edit upon what another session wrote is not worth less than that
            whose = _whose(path, writers, ours) if several else ""
            if whose:
                theirs[path] = whose
            break
    return Work(theirs=theirs, own=[path for path in own if taken and path not in theirs])


def _tip(baton: Baton, track: str) -> Stored | None:
    """A track's newest checkpoint that can be read; None where it is not here, or none can."""
    try:
        return baton.store.own_tip(track)
    except RecordError:
        with suppress(RecordError, NotFoundError):
            return baton.store.readable(track)
        return None


def _turns_since(baton: Baton, then: Stored, taken: Sequence[Stored]) -> list[Span]:
    """The turns of its track that did not end before a checkpoint. Nothing is loaded where no agent was."""
    there = os.path.isdir(os.path.join(baton.repo.layout.git_dir, "baton", "sessions"))
    if not there and all(s.checkpoint.kind == "manual" for s in taken):
        return []
    from gitbaton.restore.turnchoice import turns_here, until

    start = then.checkpoint.created.timestamp()
    try:
        return list(takewhile(lambda span: until(span) > start, turns_here(baton, then.checkpoint.track)))
    except RecordError:  # of a track that cannot be read to its end no turns are known
        return []


def _goes_on(span: Span, start: float, end: float) -> bool:
    """Whether a turn went on between two moments."""
    from gitbaton.restore.turnchoice import since, until

    return since(span) < end and until(span) > start


def _last_changes(baton: Baton, states: Sequence[_Moment], paths: Collection[str]) -> dict[str, list[int]]:
    """By path the places of the states that changed it, in order."""
    steps = [(a.tree, b.tree) for a, b in pairwise(states)]
    found, changed = dict[str, list[int]](), changes(baton.store, steps, dict.fromkeys(paths, ""))
    for place, step in enumerate(steps, 1):
        for path in changed.get(step, {}):
            found.setdefault(path, []).append(place)
    return found


def _put_back(baton: Baton, newest: _Moment, paths: Collection[str], now: Oid) -> set[str]:
    """The paths that are as a restore wrote them, after the newest checkpoint."""
    found = set[str]()
    for step in last_steps(baton.store, None):
        if step.checkpoint.created.timestamp() <= newest.at:
            break
        after = in_beside(baton.store, step, AFTER)
        pairs = (step.tree, after), (after, now)
        changed = changes(baton.store, pairs, dict.fromkeys(paths, ""))
        found |= changed.get(pairs[0], {}).keys() - changed.get(pairs[1], {}).keys()
    return found


def _ours(agent: Agent | None, spans: Sequence[Span]) -> tuple[str, str | None]:
    """The session whose work a restore takes back: the checkpoint's, or where that did nothing since, whose turn ended
    first."""
    active = [span for span in spans if span.open or span.before != span.after]
    if agent is not None and any(session_key(span.session) == session_key(agent) for span in active):
        return session_key(agent)
    return session_key(active[-1].session) if active else session_key(agent)


def _whose(path: str, writers: Sequence[Span], ours: tuple[str, str | None]) -> str:
    """Whose work a change is that was made while some turns went on, where it is not ours, in words; else nothing."""
    named = [span for span in writers if path in span.edited] or writers
    strangers = [span for span in named if session_key(span.session) != ours]
    if not strangers:
        return ""
    mine = next((span for span in named if session_key(span.session) == ours), None)
    return _told(strangers[0]) if mine is None else f"{_told(mine)}, or {_told(strangers[0])}: {UNDECIDED}"


def _told(span: Span) -> str:
    whose = f"session {in_quotes(span.session.session or span.session.name)}" if span.session else "a session"
    return f"{whose}, {in_double_quotes(first_line(span.prompt)[:LONGEST])}" if span.prompt else whose
