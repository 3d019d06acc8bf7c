"""Automatic checkpoints: when one is due, its words and those that it carries; also of subagents in work trees of their own, on
a track below their parent's."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from itertools import islice, takewhile

from gitbaton.agents import transcripts
from gitbaton.agents.client import client
from gitbaton.agents.hooks.guard import CAME_AT, LATE, AgainError, log
from gitbaton.agents.records import record_of
from gitbaton.base.clients import HookEvent
from gitbaton.base.codec import Json, document, first_line, idle, in_quotes, parse_transcript, transcript_text
from gitbaton.base.errors import GitError, RefConflictError, ScanError, UnchangedError
from gitbaton.base.model import (
    BEFORE_PROMPT,
    ENDED,
    LAST_PROMPT,
    NOT_ENDED,
    TURN_ENDED,
    UNBORN,
    Agent,
    Carried,
    Checkpoint,
    Here,
    Observed,
    Oid,
    Stored,
    Told,
    Turn,
    is_turn,
    session_key,
)
from gitbaton.base.system.files import acquire, read_regular, release
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.checkpoints.baton import Baton, Request, SnapshotPlan
from gitbaton.checkpoints.store import CURRENT, sessions, track_of
from gitbaton.checkpoints.store.chain import beside
from gitbaton.checkpoints.store.read import DETACHED, makes_current, valid_name
from gitbaton.checkpoints.store.sessions import Session, facts_path, opening, written
from gitbaton.checkpoints.store.turns import TurnEnding, ending
from gitbaton.checkpoints.store.write import SnapshotDraft
from gitbaton.git.questions import current_ref, worktrees
from gitbaton.git.repo import Repo, lock_file

_STEP = len(f"{TURN_ENDED}: ") + 300
_COMMAND = 200
_TASK = 200  # characters of it where a later prompt is told, too
_TRIES = 4
_BELOW = 50  # checkpoints that may tell of the same
_FAR = 200  # and among which one is looked for that is older than a prompt
_LONG, _READING = 60.0, 5.0  # seconds for which a conversation is stored and records are read where nobody waits for less
_WAITING = 20.0  # and for which others are waited for there
_MANY, _FEW = 1000, 20  # paths that are looked at for who changed them; and after HEAD has moved
_HARMLESS = ("ignored", "ignored-held", "special-file")  # paths left out that a test run cannot be told from
_HEAD = 256 << 10  # bytes of a subagent's records in which its task stands
if TYPE_CHECKING:
    from gitbaton.agents.hooks.danger import Spot
    from gitbaton.agents.transcripts.observing import Heard, Seen
_NOW = ("command", "child-start", "child-end")  # moments at which nobody waits for what is on record


@value
class Child:
    """A subagent's work tree, which gets a track of its own unless it holds what its parent's ``head`` does."""

    head: Oid | None


Whose = tuple[HookEvent, Session] | None  # names it, and what it left
Track = Callable[[], str]  # asked anew each time, because another work tree may have taken the name


def step(event: HookEvent, session: Session) -> str:
    """Return the step of an automatic checkpoint; it is cut when it has been redacted: half a key is not known as one."""
    if event.moment == "turn" or (event.moment not in ("compact", "request", "edit", "end") and session.open):
        began = f"{TURN_ENDED if event.moment == 'turn' else NOT_ENDED}: "
        last = first_line(session.prompt)
        task = first_line(session.task) or last
        more = f"{LAST_PROMPT}{last}" if last not in ("", task) else ""
        task = _begun(task, _TASK) if more else task
        return f"{began}{task}{more}" if task else began.rstrip(": ")
    words = {"compact": "before compaction (auto)", "request": "before a request to the model (auto)", "edit": "after an edit"}
    return BEFORE_PROMPT if event.moment == "prompt" else words.get(event.moment, ENDED)


def before(command: str, commits: Mapping[str, str]) -> str:
    """Return the step of a checkpoint before a destructive command, with the names of ``commits`` that no ref will name."""
    named = ", ".join(f"{name} is {oid}" for name, oid in commits.items())
    return f"before '{command if len(command) <= _COMMAND else command[: _COMMAND - 3] + '...'}'" + (
        f"; {named}" if named else ""
    )


def _begun(text: str, size: int) -> str:
    """The beginning of a text in so many characters, where it can to the end of a sentence: half a one would be waited for."""
    if len(text) <= size:
        return text
    begun = text[: size - 4]
    end = max(begun.rfind(mark) for mark in (". ", "! ", "? "))
    return f"{begun[: end + 1]} ..." if end > size * 2 // 3 else text[: size - 3] + "..."


@contextmanager
def alone(repo: Repo, *, late: bool) -> Iterator[bool]:
    """Whether the process may continue: of detached ones, one at a time works in a work tree and one waits for it, so that the
    last state is recorded, too."""
    if not late:
        yield True
        return
    work, turn = (lock_file(repo, os.path.join(repo.own_dir, name)) for name in ("late-hook", "late-hook-waits"))
    try:
        free = acquire(work)
        if not free and acquire(turn):  # the only one that waits; the deadline bounds it
            acquire(work, None)
            release(turn)
            free = True
        yield free
    finally:
        os.close(work)
        os.close(turn)


def unended(baton: Baton, event: HookEvent, session: Session, track: Track, heard: float) -> tuple[Whose, TurnEnding | None]:
    """Return the session with the turn that changes before a prompt belong to: another session's that continues, where the own
    one has none; and what has ended the own one before a prompt or the end of the session, since its hooks were ``heard`` of
    last."""
    if event.moment not in ("prompt", "end"):
        return None, None
    ended = over(baton, track(), event, session, heard) if session.open else None
    if ended is not None:
        from gitbaton.agents.transcripts.observing import last_deed  # with all that reads records

        deed = last_deed(event)
        ended = over(baton, track(), event, session, deed) if deed > heard else ended  # the file is written anew at the prompt
    begins = event.moment == "prompt" and (ended is not None or not session.open)
    return at_work(baton, event, track) if begins else None, ended


def at_work(baton: Baton, event: HookEvent, track: Track) -> Whose:
    """Return the other session of the work tree that is at work, with a turn that has not ended."""
    others = ((of, left) for of, left, at in sessions.at_work(baton.repo, event) if not over(baton, track(), of, left, at))
    return next(others, None)


def over(baton: Baton, track: str, of: HookEvent, session: Session, said: float) -> TurnEnding | None:
    """Return what has ended a session's open turn without its hooks, since it ``said`` something last."""
    agent = Agent(name=of.agent, session=of.session)
    begun = session.open and session.began_at  # what goes on by its records alone has begun in no state that is known
    return ending(baton.store, baton.store.before(track), agent, session, said) if begun else None


def take(
    baton: Baton,
    event: HookEvent,
    session: Session,
    track: Track,
    said: str,
    of: Whose = None,
    *,
    ended: TurnEnding | None = None,
    spot: Spot | None = None,
    child: Child | None = None,
) -> Session:
    """Record an automatic checkpoint with the step ``said``, unless the newest one holds the same; return the session
    afterwards. ``of``: the session of the turn, where that is not the event's; ``ended``: what has ended that turn before;
    ``spot``: what a command is about to strike; ``child``: the subagent of this work tree.

    It never follows a checkpoint that was recorded while it was taken: that one may hold newer files, so the work tree is
    looked at again. Turns that ended without a checkpoint are counted in the session, for the next one. Raises BatonError.
    """
    occasion = _Occasion(event=event, session=session, said=said, of=of, ended=ended, spot=spot, child=child)
    for left in reversed(range(_TRIES)):
        try:
            return _take_once(baton, occasion, track())
        except AgainError:
            if not left:
                raise
    return session


@value
class _Occasion:
    """Occasion of an automatic checkpoint; its parts are those of ``take``."""

    event: HookEvent
    session: Session
    said: str
    of: Whose
    ended: TurnEnding | None
    spot: Spot | None
    child: Child | None

    def begins(self) -> bool:
        """Whether the checkpoint holds the state in which a turn begins."""
        return self.of is None and (self.event.moment == "prompt" or self.said == BEFORE_PROMPT)

    def of_turn(self) -> tuple[HookEvent, Session]:
        """Return the event and the session that the turn belongs to."""
        return self.of or (self.event, self.session)


@value
class _Due:
    """A capture on top of the newest checkpoint, ``tip``, which is ``here`` as it is in this work tree. ``kept``: the session
    where nothing is recorded; ``turns``: how many ended since the words were written; ``turn``: the one to be recorded, which
    ``ends`` or goes on."""

    plan: SnapshotPlan
    tip: Stored | None
    here: Stored | None
    kept: Session
    turns: int
    turn: Turn | None
    ends: bool


class _EndKnownError(UnchangedError):
    """Nothing is new, and the newest checkpoint tells of the end of the turn already."""


def _take_once(baton: Baton, occasion: _Occasion, track: str) -> Session:
    """Take the checkpoint on top of the newest one that there is now. Raises AgainError where another one comes before it."""
    due = _due(baton, occasion, track)
    head, child = due.plan.draft.checkpoint.head, occasion.child
    nothing = (occasion.begins() and not due.ends) or (child is not None and due.tip is None and head == child.head)
    if nothing and not _moved(baton, due.plan.draft, due.tip):
        return due.kept
    due, checkpoint, news = _with_records(baton, occasion, due)
    tip = due.tip

    def follow(draft: SnapshotDraft, newest: Stored | None) -> Checkpoint:
        """Called with the lock held, so that no word is older than the newest checkpoint's."""
        unjoined = newest is None and tip is not None and tip.foreign
        if (newest and newest.id) != (tip and tip.id) and not unjoined:
            raise AgainError(f"track {in_quotes(track)} has moved {_TRIES} times while an automatic checkpoint was taken")
        if newest is None:
            return draft.checkpoint
        told = due.ends and _tells_of(newest.checkpoint, draft.checkpoint)
        names = occasion.spot is not None and bool(occasion.spot.refs) and draft.checkpoint.step != newest.checkpoint.step
        if not (news or names or (due.ends and not told)) and _same(baton, draft, newest, records=occasion.spot is None):
            raise (_EndKnownError if told else UnchangedError)("nothing is new since the newest checkpoint")
        return baton.redactor.checkpoint(carry(draft.checkpoint, baton.here(newest), due.turns, newest))

    try:
        done = baton.apply(replace(due.plan, draft=replace(due.plan.draft, checkpoint=checkpoint, follow=follow)))
    except _EndKnownError:
        return replace(due.kept, turns=0)
    except UnchangedError:
        return due.kept
    return replace(due.kept, turns=0, began=done.stored.id)


def _due(baton: Baton, occasion: _Occasion, track: str) -> _Due:
    """Capture the work tree, and tell which turn is recorded with it."""
    event, spot = occasion.event, occasion.spot
    tip = baton.store.before(track)
    here = baton.here(tip) if tip is not None else None  # after a restore the words are those of the state that is here
    going, names = (spot.paths, spot.names) if spot is not None else (None, ())
    current = occasion.child is not None or makes_current(baton.store, track)
    asked = Request(track=track, step=occasion.said, kind="auto", set_current=current, going=going, going_names=names)
    plan, carried, whose = baton.plan(asked), words_of(here), occasion.of_turn()[1]
    turns = int(event.moment == "turn") + (occasion.session.turns if occasion.session.words == carried else 0)
    newer = 0 < _came_at() < whose.began_at  # a later turn has begun since
    recorded = whose.began_at and not newer and (whose.open or event.moment in ("turn", "end"))
    turn = sessions.turn(whose) if recorded else None
    closes = occasion.ended is not None or (occasion.of is None and event.moment in ("turn", "end", "prompt"))
    head, began = plan.draft.checkpoint.head, tip.id if tip else ""
    kept = replace(occasion.session, turns=turns, words=carried, began=began, began_head=head or UNBORN)
    return _Due(plan=plan, tip=tip, here=here, kept=kept, turns=turns, turn=turn, ends=turn is not None and closes)


def _with_records(baton: Baton, occasion: _Occasion, due: _Due) -> tuple[_Due, Checkpoint, bool]:
    """Return what is due and the checkpoint by what the client has on record, and whether that alone is worth one."""
    (event, whose), here = occasion.of_turn(), due.here
    draft = replace(due.plan.draft, checkpoint=replace(due.plan.draft.checkpoint, turn=due.turn))
    agent = _agent(baton, event, due.tip)  # last: the client may still be writing
    news, seen = False, None
    now = occasion.begins() or occasion.event.moment in _NOW  # what is on record now may be of the turn that begins
    if now and (due.turn is None or not _is_of(baton, here, agent)):
        observed = here.checkpoint.observed if here is not None and not here.foreign else None
    elif now:
        observed, *_ = _observed(baton, event, whose, agent, here, draft, read=False)
    else:
        observed, news, seen = _observed(baton, event, whose, agent, here, draft)
    step = draft.checkpoint.step
    if seen is not None and baton.settings.observe == "all":
        step = on_record(step, whose, observed, seen)
    if seen is not None and seen.later > 0 and seen.facts.open:  # the end is that of a turn before the one that goes on
        due = replace(due, kept=replace(due.kept, open=True), turn=None, ends=False)
    if due.turn is not None and seen is not None and not now:
        from gitbaton.agents.facts import usage_of

        until = occasion.ended.at if occasion.ended is not None else float("inf")
        model, usage = usage_of(seen.facts, whose.began_at / 1000, until, seen.later)
        agent = replace(agent, model=model, usage=usage)
    turn = due.turn
    if turn is not None:
        until = occasion.ended.at if occasion.ended is not None else float("inf")
        edited = _edited(baton, whose, seen, whose.began_at / 1000, until)
        turn = replace(turn, edited=edited, ended=occasion.ended.oid if occasion.ended is not None else None)
    elif is_turn(draft.checkpoint.kind, step):
        turn = _unheard(baton, due, whose, seen, agent)
    return due, replace(draft.checkpoint, step=_begun(step, _STEP), agent=agent, observed=observed, turn=turn), news


def _came_at() -> int:
    """Return when the event came, in milliseconds since 1970; 0 where that is unknown."""
    at = os.environ.get(CAME_AT, "")
    return int(at) if at.isdecimal() else 0


def _edited(baton: Baton, session: Session, seen: Seen | None, since: float, until: float) -> tuple[str, ...]:
    """Return what a session's own tools edited in its turn, as its hooks and its records between two moments tell."""
    told = [one.path for one in (seen.facts.edited if seen else ()) if since <= one.at <= until]
    found = sessions.inside([*session.edited.split("\0"), *told], baton.repo.layout.root or "/").values()
    return tuple(dict.fromkeys(found))


def _unheard(baton: Baton, due: _Due, session: Session, seen: Seen | None, agent: Agent) -> Turn:
    """Return a turn whose prompt no hook heard. It began from the newest checkpoint that is older than the prompt on record, or
    holds the end of the session's turn before; where the prompt is on no record, from the newest that is not in its midst."""
    asked = seen.facts.since[-1] if seen is not None and seen.facts.since and not seen.later else 0.0
    came, began, head, here = _came_at(), None, None, baton.repo.worktree_id()
    for stored in islice(baton.store.newest(due.tip), _FAR) if due.tip is not None else ():
        c, own = stored.checkpoint, session_key(stored.checkpoint.agent) == session_key(agent)
        if c.files is None:
            continue
        if stored.foreign or not c.files.worktree.same(here):
            break  # what was here then is not known
        edge = c.step.startswith((BEFORE_PROMPT, ENDED, TURN_ENDED, NOT_ENDED)) if c.kind == "auto" else not own
        if c.created.timestamp() <= asked or (edge and (not asked or (own and c.kind == "auto"))):
            began, asked = stored.id, max(asked, c.created.timestamp())
            break
    else:
        whole = due.tip is None or stored.checkpoint.previous is None
        head = (due.plan.draft.checkpoint.head or UNBORN) if whole else None
    edited = _edited(baton, session, seen, asked, came / 1000 if came else float("inf"))
    return Turn(began=began, head=head, edited=edited, unheard=True)


def _observed(
    baton: Baton,
    event: HookEvent,
    session: Session,
    agent: Agent,
    tip: Stored | None,
    draft: SnapshotDraft,
    *,
    read: bool = True,
) -> tuple[Observed | None, bool, Seen | None]:
    """Return what the client has on record, with what was said stored beside the conversation, None where nothing is wanted or
    known; whether that alone is worth a checkpoint; and what was read. Where records are not ``read``, it is what is known of
    them with the prompts of hooks, and nothing is stored. Raises ScanError, AgainError; whatever else goes wrong is noted, and
    the checkpoint is taken all the same."""
    mode, root = baton.settings.observe, baton.repo.layout.root
    if mode == "none" or root is None:
        return None, False, None
    from gitbaton.agents.transcripts import observing

    old = tip.checkpoint.observed if tip is not None else None
    long = os.environ.get(LATE) is not None or event.moment == "compact"
    try:
        seconds, of = _READING if long else None, facts_path(baton.repo, event)
        seen = observing.look(baton, event, of, heard(session), seconds, read=read)
        beside = (baton.told(tip) if tip is not None else None) or Told()
        shared = at_work(baton, event, lambda: draft.checkpoint.track) is not None
        changed = cache(lambda: _changed(baton, root, tip, draft))
        moved = partial(_moved_since, baton, root, draft)
        ground = observing.Ground(root=root, tree=draft.tree, changed=changed, shared=shared, moved=moved)
        found, said = baton.redactor.gathered(*observing.gather(mode, seen, agent, by_whom(baton, tip), beside, ground))
        if not read:
            pass
        elif mode == "all" and baton.settings.transcripts == "full":
            kept = found.said if said == beside else _kept(baton, agent, said) if said != Told() else None
            found = replace(found, said=kept)
        else:
            found, said = replace(found, said=None), beside
    except (ScanError, AgainError):
        raise
    except Exception as error:  # a stranger's file: whatever it does, the checkpoint is taken
        log(baton.repo, f"what the client has on record is not read: {type(error).__name__}: {error}")
        return (old if tip is not None and not tip.foreign else None), False, None
    words = [one.said and one.said.text for one in (said, beside)]
    lost = event.moment in ("compact", "end", "start", "other")  # what is not recorded then is lost
    news = words[0] != words[1] if event.moment == "turn" else lost and said != beside
    return (found if gist(found) != Observed() or found.said is not None else None), news, seen


def by_whom(baton: Baton, tip: Stored | None) -> Stored | None:
    """Return a checkpoint with the agent of the records that it tells of: one before a prompt or a command took over what the
    one below it tells, which may be another session's."""
    c = tip.checkpoint if tip is not None else None
    if tip is None or c is None or c.observed is None or not c.step.startswith(("before ", NOT_ENDED)):
        return tip
    below = takewhile(lambda one: one.checkpoint.observed == c.observed, islice(baton.store.newest(tip), _BELOW))
    *_, first = (tip, *below)
    return replace(tip, checkpoint=replace(c, agent=first.checkpoint.agent))


def _is_of(baton: Baton, here: Stored | None, agent: Agent) -> bool:
    """Whether the records that a checkpoint tells of are those of an agent's session, or there are none."""
    of = by_whom(baton, here)
    return of is None or of.checkpoint.observed is None or session_key(of.checkpoint.agent) == session_key(agent)


def _kept(baton: Baton, agent: Agent, said: Told) -> Oid | None:
    """Store what was said. Raises AgainError where that cannot be done now, and a detached process may wait."""
    from gitbaton.agents.transcripts.storing import keep_told

    late = os.environ.get(LATE) is not None
    try:
        return keep_told(baton, agent, said, _WAITING if late else 0.0)
    except (GitError, RefConflictError) as error:
        if late:
            raise
        raise AgainError(f"what was said is not stored yet: {error.message}") from None


def on_record(said: str, session: Session, observed: Observed | None, seen: Seen) -> str:
    """Return the step by the prompts on record where the hooks have heard of none, or of others: of some that the user took
    back, that came after the end of the turn, or before it, the hook that heard of its own having been killed."""
    begun, _, rest = said.partition(": ")
    unheard = not rest and not session.prompt and not seen.later
    missed = begun == TURN_ENDED and rest != "" and not (session.began_at or seen.later)
    if begun not in (TURN_ENDED, NOT_ENDED) or not (unheard or missed or (rest and (seen.taken or seen.later))):
        return said
    prompts = [first_line(one.text) for one in (observed.asked if observed else ()) if not (one.earlier or one.kind)]
    newest = first_line(session.prompt)

    def of_turn(text: str, instead: str) -> str:
        if seen.later and _same_line(text, newest):
            return seen.facts.heard_of
        gone = seen.taken and not idle(text) and not any(_same_line(text, one) for one in prompts)
        return instead if gone or unheard else text

    first, _, last = rest.rpartition(LAST_PROMPT)
    first = of_turn(first or last, next(iter(prompts), ""))
    asked = next(reversed(prompts), "")
    last = asked if missed and asked and not _same_line(asked, newest) else of_turn(last, asked)
    more = f"{LAST_PROMPT}{last}" if last not in ("", first) else ""
    first = _begun(first, _TASK) if more and (unheard or missed) else first
    return f"{begun}: {first}{more}" if first else begun


def _same_line(one: str, other: str) -> bool:
    """Whether two lines are the same, as far as they were not cut."""
    one, other = (line.removesuffix("...").rstrip() for line in (one, other))
    return one.startswith(other) or other.startswith(one)


def heard(session: Session) -> Heard:
    """Tell what hooks have heard of a session: what the user said first and last, and when the event came."""
    from gitbaton.agents.signs import Asked
    from gitbaton.agents.transcripts.observing import Heard

    said = dict.fromkeys(((session.asked_first_at, session.asked_first), (session.asked_last_at, session.asked_last)))
    came = _came_at()
    return Heard(
        prompts=tuple(Asked(at=at / 1000, text=text) for at, text in said if at),
        at=came / 1000 if came else None,
        late=os.environ.get(LATE) is not None,
    )


def _changed(baton: Baton, root: str, tip: Stored | None, draft: SnapshotDraft) -> dict[str, float]:
    """Return the paths in which the draft differs from the checkpoint before, or else from HEAD when the turn began, and when
    each was written: a move of HEAD brings many that were not written here."""
    head = tip.checkpoint.head if tip is not None else baton.store.first_base(draft.checkpoint)
    before = tip.tree if tip is not None else baton.store.base_tree(head)
    most = _MANY if draft.checkpoint.head == head else _FEW
    changed = baton.changed_paths(before, draft.tree, most)
    return {path: at for path in changed if (at := written(os.path.join(root, path)))}


def _moved_since(baton: Baton, root: str, draft: SnapshotDraft, began: float, ended: float) -> str:
    """Say why the files of a draft may not be those of a test run that began and ended then; empty where they are."""
    from gitbaton.git.worktree.filedrift import written_since

    files = draft.checkpoint.files
    left = next((s.path for s in files.skipped if s.reason not in _HARMLESS), None) if files is not None else ""
    if left is not None:
        return f"{in_quotes(left)} is not in the checkpoint" if left else "the files were not captured"
    path = written_since(baton.repo, root, draft.tree, began, ended)
    return f"{in_quotes(path or '.')} was written since it began" if path is not None else ""


def words_of(stored: Stored | None) -> str:
    """Return the id of the manual checkpoint with the words that a checkpoint has or carries; empty where there is none."""
    if stored is None:
        return ""
    carried = stored.checkpoint.carried
    return carried.id if carried else stored.id if stored.checkpoint.kind == "manual" else ""


def _agent(baton: Baton, event: HookEvent, tip: Stored | None) -> Agent:
    """Return the agent that takes the checkpoint, and how far the conversation had come."""
    last = tip.checkpoint.agent if tip and not tip.foreign else None
    same = last is not None and (last.name, last.session) == (event.agent, event.session)
    if event.moment in _NOW:  # it waits, and the next checkpoint says how far the conversation has come
        return Agent(name=event.agent, session=event.session, transcript=last.transcript if last and same else None)
    before = parse_transcript(last.transcript) if last is not None and same else None
    seconds = _LONG if os.environ.get(LATE) is not None else None  # None: somebody waits
    found = transcripts.record(baton, event, baton.settings.transcripts, before, lambda text: log(baton.repo, text), seconds)
    return Agent(name=event.agent, session=event.session, transcript=transcript_text(found) if found else None)


def carry(checkpoint: Checkpoint, here: Stored, turns: int, newest: Stored | None = None) -> Checkpoint:
    """``checkpoint`` with the words of the manual checkpoint that is, or that stands behind, the one at which this work tree
    is: the ``newest`` of its track, or the one below it that a restore brought back.

    ``turns``: how many turns have ended since.
    """
    last = here.checkpoint
    source = last.carried
    if last.kind == "manual":
        tree = last.files.tree if last.files else None
        source = Carried(
            id=here.id,
            step=last.step,
            created=last.created,
            branch=last.branch,
            head=last.head,
            tree=tree,
            operation=last.files.operation.kind if last.files and last.files.operation else None,
            foreign=here.foreign,
        )
    if source is None:
        return checkpoint
    back = source.restored
    if newest is not None and here.id != newest.id:
        back = here.back.here if here.back is not None else Here(at=here.id, top=newest.id)
        turns += sum(_ends(s.checkpoint) for s in here.back.newer) if here.back is not None else 0
    return replace(
        checkpoint,
        note=last.note,
        next_cmd=last.next_cmd,
        validation=last.validation,
        decisions=last.decisions,
        extra=last.extra,
        standing=last.standing,
        carried=replace(source, turns=source.turns + turns, foreign=source.foreign or here.foreign, restored=back),
    )


def _same(baton: Baton, draft: SnapshotDraft, tip: Stored, *, records: bool) -> bool:
    """Whether the newest checkpoint holds the very files, index, HEAD and operation of a draft, and tells the same of a
    client's ``records``, where these count."""
    new, old = draft.checkpoint, tip.checkpoint
    if draft.tree != tip.tree or (new.branch, new.head) != (old.branch, old.head):
        return False
    if new.files is None or old.files is None:
        return new.files is old.files
    stages = draft.stages[-1].oid if draft.stages else None
    said, before = (c.observed.said if c.observed else None for c in (new, old))
    if _ends(new) and old.kind == "auto" and not _ends(old) and said != before:
        return False  # the end of a turn in whose midst the newest checkpoint was taken
    if records and gist(new.observed) != gist(old.observed):
        return False
    same = new.files.worktree.same(old.files.worktree) and _told(new) == _told(old)
    return same and stages == beside(baton.store, tip)


def _tells_of(newest: Checkpoint, new: Checkpoint) -> bool:
    """Whether the newest checkpoint tells of the end that a new one does: its process was cut off, and another went on."""
    if newest.turn is None or new.turn is None or newest.agent is None or new.agent is None:
        return False
    same = (newest.agent.name, newest.agent.session) == (new.agent.name, new.agent.session)
    return same and (newest.turn.began, newest.turn.head, newest.step) == (new.turn.began, new.turn.head, new.step)


def _ends(c: Checkpoint) -> bool:
    return c.step.startswith(TURN_ENDED)


def _moved(baton: Baton, draft: SnapshotDraft, tip: Stored | None) -> bool:
    """Whether files, branch or HEAD are others than in the newest checkpoint; without one, whether any file is not HEAD's."""
    new = draft.checkpoint
    if tip is None:
        return draft.tree != baton.store.base_tree(new.head)
    return draft.tree != tip.tree or (new.branch, new.head) != (tip.checkpoint.branch, tip.checkpoint.head)


def gist(observed: Observed | None) -> Observed:
    """Return what a client has on record without times, and without the last words, which are others at each turn."""
    if observed is None:
        return Observed()
    never = datetime.fromtimestamp(0, UTC)
    return replace(
        observed,
        plans=tuple(replace(plan, changed=never) for plan in observed.plans),
        tests=tuple(
            replace(run, started=None, ended=never, tree=run.tree if run.exact else None, edited=(), edited_more=0, lacks="")
            for run in observed.tests
        ),
        asked=tuple(replace(prompt, at=never, earlier=False) for prompt in observed.asked),
        turns=0,
        said=None,
        milestone=None,
        until=None,
        partial=False,
    )


def _told(c: Checkpoint) -> dict[str, Json]:
    """Return what a checkpoint tells of its files, as it is stored: long lists are cut there."""
    files = document(c)["files"]
    assert isinstance(files, dict)
    return {key: item for key, item in files.items() if key not in ("changed", "worktree")}


def keep_subagent(baton: Baton, event: HookEvent, project: str) -> None:
    """Take a checkpoint of a subagent's work tree at its start or its end; none of one that holds what the parent's HEAD does,
    nor in another repository than that of ``project``, the work tree of its parent. Raises BatonError."""
    repo, top = baton.repo, os.path.realpath(project)
    found = next((git_dir for _, git_dir, root in worktrees(repo) if root and os.path.realpath(root) == top), None)
    if found is None:
        return
    branch = current_ref(repo, found, "HEAD").removeprefix("refs/heads/")
    track = track_of(current_ref(repo, found, CURRENT)) or branch or DETACHED
    head = repo.git.run("rev-parse", "-q", "--verify", "HEAD", env={"GIT_DIR": found}).out.decode("ascii", "replace").strip()
    child = Child(head=head or None)
    kind = event.who or "subagent"
    begun = event.moment == "child-start"
    task = "" if begun else _task(event)
    said = f"subagent {'started' if begun else 'ended'}: {opening(task or kind, baton.redactor.text)}"
    take(baton, event, Session(), lambda: _track(baton, track), said, child=child)


def _track(baton: Baton, parent: str) -> str:
    """The track of this work tree, else the next one below the parent's."""
    current = baton.store.current()
    if current is not None:
        return current
    parent = valid_name(parent)
    mine = re.compile(rf"{re.escape(parent)}/agent-([1-9][0-9]{{0,8}})")
    numbers = (int(found[1]) for name in baton.store.chains()[0] if (found := mine.fullmatch(name)))
    return f"{parent}/agent-{max(numbers, default=0) + 1}"


def _task(event: HookEvent) -> str:
    """The first line of what a subagent was told, as its own records have it; empty where they do not."""
    of = client(event.agent)
    try:
        data = read_regular(event.transcript or "", _HEAD, follow=True)
    except (OSError, ValueError):
        return ""
    for line in data.split(b"\n")[:20]:
        record = record_of(line)
        if of is not None and record is not None and (task := first_line(of.task(record))):
            return task
    return ""
