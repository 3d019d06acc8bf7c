"""Turns: what happened from a prompt to its end, or to now where no end was heard, by chains and the states of sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice, takewhile
from math import inf

from gitbaton.base.codec import earlier_ids
from gitbaton.base.errors import GitError, RecordError
from gitbaton.base.model import (
    BEFORE_PROMPT,
    ENDED,
    LAST_PROMPT,
    NO_TOKENS,
    NOT_ENDED,
    TURN_ENDED,
    UNBORN,
    Agent,
    Checkpoint,
    Oid,
    Stored,
    Turn,
    TurnsUsage,
    at_prompt,
    is_turn,
    session_key,
)
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.checkpoints.store import sessions
from gitbaton.checkpoints.store.facts import Outline
from gitbaton.checkpoints.store.read import Store
from gitbaton.checkpoints.store.refs import safety_ref
from gitbaton.git.questions import committed_after

if TYPE_CHECKING:
    from gitbaton.base.clients import HookEvent
    from gitbaton.checkpoints.store.sessions import Session
    from gitbaton.git.worktree.untracked import CaptureRules

_TRACKS, _FAR = 20, 200  # tracks, and checkpoints of each, among which one is looked for that its own track does not have
_TURNS = (TURN_ENDED, NOT_ENDED)
_BOUNDARIES = (BEFORE_PROMPT, ENDED, *_TURNS)


@value
class Span:
    """A turn: of which ``session``, and the last ``prompt`` of the user in it.

    ``began``: the checkpoint that holds the state which it began from, None where none does, and ``before`` the tree of that
    state, None where it is not known any more. ``end``: the newest checkpoint of it, or the one that ended it, None where there
    is none, and ``after`` the tree that it left, None where it is ``open``: it goes on, or was cut short and nothing has ended
    it since, so that what it left is what is there now. ``since``: when it began, of one that only the state of its session
    tells of. ``edited``: the paths that the session's own tools are known to have edited in it. ``heard``: whether a hook heard
    its prompt; of one that none did only those paths are its own."""

    session: Agent | None
    prompt: str
    began: Stored | None
    end: Stored | None
    edited: frozenset[str]
    open: bool
    before: Oid | None = None
    after: Oid | None = None
    since: datetime | None = None
    heard: bool = True

    def owns(self, path: str) -> bool:
        """Whether a change of a path between its two ends is known to be the turn's."""
        return self.heard or path in self.edited

    def changed(self) -> bool:
        """Whether the turn can have changed anything, as far as its two ends tell."""
        return self.before != self.after and (self.heard or bool(self.edited))


@value
class UnderWay:
    """A turn that is open in a work tree, and the ``paths``, at least one, that differ now from its track's newest checkpoint:
    what it has changed so far, as far as no checkpoint holds it."""

    track: str
    span: Span
    paths: tuple[str, ...]


@value
class TurnEnding:
    """The end of a turn of which none was heard, and when, in seconds since 1970: ``made``, another session's or user's manual
    checkpoint, or else a commit, or the commit of a safety checkpoint. ``oid``: its id, ``tree``: what it holds."""

    at: float
    oid: Oid
    tree: Oid
    made: Stored | None = None


@value
class _Begun:
    """A turn with a beginning that is looked for down a chain. ``at``: when it began, in seconds since 1970, of one that only
    its session's state tells of, and ``ended`` when something ended that, None where nothing has. ``lost``: whether the state
    that it began from was not kept, because there was no time at its prompt: then no other state may be taken for it."""

    span: Span
    turn: Turn
    at: float = 0.0
    ended: float | None = None
    lost: bool = False


def turns(store: Store, track: str) -> Iterator[Span]:
    """Yield the turns of a track, the newest first, by when they ended: first those of this work tree that are open.

    A checkpoint that does not say what its turn began from, as those of versions before, has it from the nearest older one that
    was taken at a prompt, or at the end of a turn or session.
    """
    tip = store.before(track)
    own = [_of_state(store, tip, *one) for one in sessions.open_here(store.repo) if one[1].began_at]
    known = {_key(one.span.session, one.turn) for one in own}
    later = sorted((one for one in own if one.ended is not None), key=lambda one: one.ended or 0.0)
    waiting, last = [one for one in own if one.ended is None], None
    for stored in store.newest(tip) if tip is not None else ():
        while later and (later[-1].ended or 0.0) >= stored.checkpoint.created.timestamp():
            waiting.append(later.pop())
        yield from _settle(store, waiting, stored)
        last, one = stored, _recorded(store, stored)
        key = _key(one.span.session, one.turn) if one is not None else None
        if one is not None and (key is None or key not in known):
            known.add(key)
            waiting.append(one)
    whole = last is None or last.checkpoint.previous is None  # nothing below was removed
    for one in [*waiting, *later]:
        found = _without(store, one, whole=whole)
        if found is not None:
            yield found


def windows(store: Store, tips: Iterable[Stored]) -> dict[str, list[tuple[float, float]]]:
    """Return by track the times, in seconds since 1970, within which turns of it can have gone on, each from and until, by what
    is known of its records without reading them; of a track of which not enough is known, all of time."""
    always, found = [(-inf, inf)], dict[str, list[tuple[float, float]]]()
    opened = [(sessions.turn(one), one.began_at / 1000) for _, one, _ in sessions.open_here(store.repo) if _is_known(one)]
    for tip in tips:
        items = (store.kept or {}).get((tip.checkpoint.track, tip.commit), ())
        told = [known for one in items if (known := store.facts.turn(one)) is not None]
        if not items or len(told) < len(items):
            found[tip.checkpoint.track] = always
            continue
        created = {one.id: (one if isinstance(one, Outline) else one.checkpoint).created.timestamp() for one in items}
        recorded = [
            (created.get(began, -inf), inf if "e" in flags else created[one.id])
            for one, (flags, began) in zip(items, told, strict=True)
            if flags
        ]
        first = min(created.values())
        plain = all(store.facts.plain(one.commit) for one in items) if opened else True
        # What is open here began in this track, or before all that is there.
        own = any(turn.began in created or not plain if turn.began else at <= first for turn, at in opened)
        found[tip.checkpoint.track] = [*recorded, *(always if own else [])]
    return found


def under_way(store: Store, track: str, rules: Callable[[], CaptureRules]) -> UnderWay | None:
    """Return the turn of a track that is open in this work tree, where that has changed something that a capture under
    ``rules`` would take in. It costs a look at a folder where none is open."""
    span = open_turn(store, track)
    tip = store.own_tip(track) if span is not None else None
    files = tip.checkpoint.files if tip is not None else None
    if span is None or files is None:
        return None
    from gitbaton.git.worktree.filedrift import changed_paths

    kept, store.repo.listings = store.repo.listings, None  # of the capture that is to come
    try:
        paths = files.holding(changed_paths(store.repo, rules(), [files.tree]).get(files.tree, []))
    except GitError:
        return None
    finally:
        store.repo.listings = kept
    return UnderWay(track=track, span=span, paths=tuple(paths)) if paths else None


def open_turn(store: Store, track: str) -> Span | None:
    """Return the turn of a track that is open in this work tree, of several that of the newest prompt. It costs a look at a
    folder where none is."""
    known = any(_is_known(one[1]) for one in sessions.open_here(store.repo))
    here = takewhile(lambda span: span.open, turns(store, track)) if known else ()
    return next((span for span in here if span.before is not None), None)


def since(span: Span) -> float:
    """Return the moment from which on a turn can have changed something, in seconds since 1970."""
    return span.began.checkpoint.created.timestamp() if span.began is not None else 0.0


def until(span: Span) -> float:
    """Return when a turn had ended, as far as that is known."""
    return span.end.checkpoint.created.timestamp() if span.end is not None and not span.open else inf


def begun_at(store: Store, span: Span) -> Oid | None:
    """Return HEAD's commit when a turn began; None where it was unborn."""
    if span.began is not None:
        return span.began.checkpoint.head
    turn = span.end.checkpoint.turn if span.end is not None else None
    left = [s.began_head for of, s, _ in sessions.open_here(store.repo) if session_key(span.session) == (of.agent, of.session)]
    head = turn.head if turn is not None else next(iter(left), None)
    return None if head in (None, "", UNBORN) else head


def span_of(stored: Stored, spans: Iterable[Span]) -> Span | None:
    """Return the one of its track's turns, newest first, that a checkpoint ended, or was taken in by its session; None where it
    is of none of them."""
    at = stored.checkpoint.created.timestamp()
    found = list(takewhile(lambda span: until(span) >= at, spans))
    for belongs, among in ((_ends, found), (_is_in, found[::-1]), (_goes_on, found)):
        for span in among:
            if belongs(span, stored):
                return span
    return None


def _ends(span: Span, stored: Stored) -> bool:
    return span.end is not None and span.end.id == stored.id


def _is_in(span: Span, stored: Stored) -> bool:
    """Whether a checkpoint says that it is one of a turn."""
    turn = stored.checkpoint.turn
    if turn is None or session_key(span.session) != session_key(stored.checkpoint.agent):
        return False
    return span.began is not None and _is(span.began, turn.began) if turn.began else bool(turn.head) and span.began is None


def _goes_on(span: Span, stored: Stored) -> bool:
    """Whether a checkpoint was taken while a turn went on, and not by another session."""
    c = stored.checkpoint
    if at_prompt(c.kind, c.step) or c.turn is not None or not since(span) < c.created.timestamp() <= until(span):
        return False
    return c.agent is None or session_key(span.session) == session_key(c.agent)


def _is_known(session: Session) -> bool:
    """Whether a session's state tells what its turn began from."""
    return session.began_at > 0 and bool(session.began or session.began_head)


def turns_usage(items: Iterable[Stored]) -> TurnsUsage:
    """Return the tokens of the turns that some checkpoints are of, the newest first: each as its newest checkpoint has it."""
    known, found = set[object](), TurnsUsage()
    for stored in items:
        c = stored.checkpoint
        key, agent = turn_key(c) or stored.id, c.agent
        if c.turn is None or agent is None or key in known:
            continue
        known.add(key)
        told = agent.usage is not None
        found = TurnsUsage(
            usage=found.usage + (agent.usage or NO_TOKENS),
            turns=found.turns + told,
            untold=found.untold + (not told),
            models=tuple(dict.fromkeys((*found.models, *([agent.model] if agent.model else [])))),
        )
    return found


def turn_key(c: Checkpoint) -> tuple[str, str | None, Oid] | None:
    """Return the key of the turn that a checkpoint is of; None where it does not say."""
    return _key(c.agent, c.turn) if c.turn is not None else None


def _key(agent: Agent | None, turn: Turn) -> tuple[str, str | None, Oid] | None:
    """Return what the checkpoints of one turn have in common; None where they do not say."""
    began = turn.began or turn.head
    return (agent.name, agent.session, began) if agent is not None and began else None


def ending(store: Store, tip: Stored | None, agent: Agent, session: Session, said: float) -> TurnEnding | None:
    """Return the end of the open turn of an agent's session on the track of a ``tip``: the first commit or restore in this work
    tree, or manual checkpoint of another session or user, after which it ``said`` nothing more; None where there is none."""
    layout, found = store.repo.layout, list[TurnEnding]()
    commit = committed_after(store.repo, said, session.began_head)
    if commit is not None:
        found.append(TurnEnding(at=commit[0], oid=commit[1], tree=store.base_tree(commit[1])))
    made = [s for s in _since(store, tip, said) if s.checkpoint.kind == "manual" and not _is_of(s, agent)]
    found += [TurnEnding(at=s.checkpoint.created.timestamp(), oid=s.id, tree=s.tree, made=s) for s in made[-1:]]
    with suppress(RecordError, GitError):
        step = store.tip_at(safety_ref(layout.git_dir, layout.common_dir))
        steps = [s for s in _since(store, step, said) if not s.foreign]
        found += [TurnEnding(at=s.checkpoint.created.timestamp(), oid=s.commit, tree=s.tree) for s in steps[-1:]]
    return min(found, key=lambda one: one.at, default=None)


def _since(store: Store, tip: Stored | None, moment: float) -> list[Stored]:
    """Return a tip and the checkpoints below it that are later than a moment, the newest first."""
    found = store.newest(tip) if tip is not None else ()
    return list(takewhile(lambda s: s.checkpoint.created.timestamp() > moment, found))


def _is_of(stored: Stored, agent: Agent) -> bool:
    by = stored.checkpoint.agent
    return by is not None and (by.name, by.session) == (agent.name, agent.session)


def _of_state(store: Store, tip: Stored | None, of: HookEvent, session: Session, said: float) -> _Begun:
    """Return the turn that a session's state tells of, up to what has ended it since it ``said`` something last."""
    agent, root = Agent(name=of.agent, session=of.session), store.repo.layout.root or "/"
    turn = sessions.turn(session)
    edited = frozenset(sessions.inside(session.edited.split("\0"), root).values())
    since = datetime.fromtimestamp(session.began_at / 1000, UTC)
    span = Span(session=agent, prompt=session.prompt, began=None, end=None, edited=edited, open=True, since=since)
    begun = _Begun(span=span, turn=turn, at=session.began_at / 1000, lost=not _is_known(session))
    over = ending(store, tip, agent, session, said)
    if over is None:
        return begun
    return replace(begun, span=replace(span, end=over.made, after=over.tree, open=False), ended=over.at)


def _recorded(store: Store, stored: Stored) -> _Begun | None:
    """Return the turn that a checkpoint holds, up to there, if it holds one."""
    c = stored.checkpoint
    turn = c.turn or (Turn() if is_turn(c.kind, c.step) else None)
    if turn is None:
        return None
    commit = store.tree_of(turn.ended)
    span = Span(
        session=c.agent and replace(c.agent, transcript=None),
        prompt=_prompt(c),
        began=None,
        end=stored if turn.ended is None else None,
        edited=frozenset(turn.edited),
        open=False,
        after=stored.tree if turn.ended is None else commit,
        heard=not turn.unheard,
    )
    return _Begun(span=span, turn=turn, lost=c.turn is not None and not (turn.began or turn.head))


def _prompt(c: Checkpoint) -> str:
    """Return the last thing that the user said in the turn of a checkpoint, as its step or its client's records have it."""
    said = c.step.partition(": ")[2].rpartition(LAST_PROMPT)[2] if c.step.startswith(_TURNS) else ""
    if said:
        return said
    asked = [one.text for one in (c.observed.asked if c.observed is not None else ()) if not one.earlier]
    return asked[-1] if asked else ""


def _settle(store: Store, waiting: list[_Begun], stored: Stored) -> Iterator[Span]:
    """Yield the turns that are settled once a checkpoint is reached, down the chain, in their order; the others stay in
    ``waiting``."""
    for number, one in enumerate(waiting):
        if one.lost or one.span.before is not None or (one.span.end is not None and one.span.end.id == stored.id):
            continue
        turn, c = one.turn, stored.checkpoint
        begins = _is(stored, turn.began) or (
            not (turn.began or turn.head) and c.kind == "auto" and c.step.startswith(_BOUNDARIES)
        )
        if _is(stored, turn.ended):
            waiting[number] = one = replace(one, span=replace(one.span, end=stored, after=stored.tree))
        if begins:
            waiting[number] = replace(one, span=replace(one.span, began=stored, before=stored.tree))
        elif turn.head and not turn.began and not one.at:
            waiting[number] = replace(one, span=replace(one.span, before=_base(store, turn.head)))
    # What began before a checkpoint that is not its beginning began on another track.
    kept = [one for one in waiting if one.span.before or one.at <= stored.checkpoint.created.timestamp()]
    count = next((number for number, one in enumerate(kept) if one.span.before is None and not one.lost), len(kept))
    waiting[:] = kept[count:]
    for one in kept[:count]:
        yield one.span


def _is(stored: Stored, oid: Oid | None) -> bool:
    """Whether a checkpoint has an id, or had it before its track was renamed."""
    return oid is not None and (stored.id == oid or oid in earlier_ids(stored.raw))


def _base(store: Store, head: Oid | None) -> Oid:
    return store.base_tree(None if head == UNBORN else head)


def _without(store: Store, one: _Begun, *, whole: bool) -> Span | None:
    """Return a turn without its beginning in a chain, with what is known of the state that it began from; None where it is of
    another track."""
    if one.lost or one.span.before is not None:
        return one.span
    turn, end = one.turn, one.span.end
    if turn.began and not one.at:  # its track was another one then, or that was pruned
        near = (s for tip in islice(store.tips().items, _TRACKS) for s in islice(store.newest(tip), _FAR))
        began = next((stored for stored in near if _is(stored, turn.began)), None)
        return replace(one.span, began=began, before=began.tree) if began is not None else one.span
    if turn.began:
        return None
    if turn.head:
        return replace(one.span, before=_base(store, turn.head))
    return replace(one.span, before=_base(store, end.checkpoint.head)) if whole and end is not None else one.span
