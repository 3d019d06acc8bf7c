"""Checkpoints that nobody asked for: when one is due, what it says of itself, and whose words it carries."""

from __future__ import annotations

import time

from gitbaton import transcripts
from gitbaton.agents.values import Event
from gitbaton.baton import Baton
from gitbaton.codec import first_line, parse_transcript, transcript_text
from gitbaton.errors import UnchangedError
from gitbaton.exchange import Request
from gitbaton.hooks.logbook import log
from gitbaton.hooks.sessions import Session
from gitbaton.model import Agent, Carried, Checkpoint, FileState, Stored
from gitbaton.store.safety import beside
from gitbaton.store.write import Draft
from gitbaton.values import replace

QUIET = 30  # seconds without a further checkpoint for events that come many times in a turn
_LEVEL = {"compact": 1, "request": 1, "turn": 2, "end": 2, "edit": 3}  # the least baton.auto at which a moment counts
_LEVELS = {"off": 0, "compact": 1, "turn": 2, "edit": 3}
_PROMPT = 200


def due(auto: str, event: Event, session: Session, now: float) -> bool:
    """Whether ``baton.auto`` wants a checkpoint at this event. Edits and requests to the model come in swarms: one in half a
    minute is enough, because the end of the turn follows."""
    least = _LEVEL.get(event.moment)
    if least is None or least > _LEVELS[auto]:
        return False
    return event.moment not in ("edit", "request") or not 0 <= now - session.taken < QUIET


def step(event: Event, session: Session) -> str:
    """What an automatic checkpoint says has happened."""
    if event.moment == "turn":
        said = first_line(session.prompt)[:_PROMPT]
        return f"turn ended: {said}" if said else "turn ended"
    words = {"compact": "before compaction (auto)", "request": "before a request to the model (auto)", "edit": "after an edit"}
    return words.get(event.moment, "session ended")


def take(baton: Baton, event: Event, session: Session, track: str) -> Session:
    """Record an automatic checkpoint, unless the newest one says and holds the same; the session afterwards.

    Turns that ended without a checkpoint are counted in the session, for the next one that is recorded. Raises BatonError.
    """
    tip = baton.store.tip(track)
    said, agent = step(event, session), _agent(baton, event, tip)
    plan = baton.plan(Request(track=track, step=said, kind="auto", agent=agent, set_current=baton.current() is None))
    ended, words = int(event.moment == "turn"), ""

    def follow(draft: Draft, newest: Stored | None) -> Checkpoint:
        """Called with the lock held, so that no word is older than the newest checkpoint's."""
        nonlocal words
        words = words_of(newest)
        turns = ended + (session.turns if session.words == words else 0)
        if newest is not None and _same(baton, draft, newest):
            raise UnchangedError("nothing is new since the newest checkpoint")
        return carry(draft.checkpoint, newest, turns) if newest else draft.checkpoint

    try:
        baton.apply(replace(plan, draft=replace(plan.draft, follow=follow)))
        return replace(session, turns=0, words=words)
    except UnchangedError:
        return replace(session, turns=ended + (session.turns if session.words == words else 0), words=words)


def words_of(stored: Stored | None) -> str:
    """The id of the manual checkpoint whose words a checkpoint has or carries; empty where there is none."""
    if stored is None:
        return ""
    carried = stored.checkpoint.carried
    return carried.id if carried else stored.id if stored.checkpoint.kind == "manual" else ""


def _agent(baton: Baton, event: Event, tip: Stored | None) -> Agent:
    """Who takes the checkpoint, and how far the conversation had come."""
    last = tip.checkpoint.agent if tip else None
    same = (
        tip is not None and not tip.foreign and last is not None and (last.name, last.session) == (event.agent, event.session)
    )
    before = parse_transcript(last.transcript) if last is not None and same else None
    found = transcripts.record(baton, event, baton.settings.transcripts, before, lambda text: log(baton.repo, text))
    return Agent(name=event.agent, session=event.session, transcript=transcript_text(found) if found else None)


def carry(checkpoint: Checkpoint, tip: Stored, turns: int) -> Checkpoint:
    """``checkpoint`` with the words of the manual checkpoint that is, or that stands behind, the tip of its track.

    ``turns``: how many turns have ended since the tip.
    """
    last = tip.checkpoint
    source = last.carried
    if last.kind == "manual":
        tree = last.files.tree if last.files else None
        source = Carried(
            id=tip.id,
            step=last.step,
            created=last.created,
            branch=last.branch,
            head=last.head,
            tree=tree,
            foreign=tip.foreign,
        )
    if source is None:
        return checkpoint
    return replace(
        checkpoint,
        note=last.note,
        next_cmd=last.next_cmd,
        validation=last.validation,
        decisions=last.decisions,
        extra=last.extra,
        carried=replace(source, turns=source.turns + turns, foreign=source.foreign or tip.foreign),
    )


def _same(baton: Baton, draft: Draft, tip: Stored) -> bool:
    """Whether the newest checkpoint holds the very files, index, HEAD and operation of a draft."""
    new, old = draft.checkpoint, tip.checkpoint
    if draft.tree != tip.tree or (new.branch, new.head) != (old.branch, old.head):
        return False
    if new.files is None or old.files is None:
        return new.files is old.files
    stages = draft.stages[-1].oid if draft.stages else None
    return _state(new.files) == _state(old.files) and stages == beside(baton.store, tip)


def _state(files: FileState) -> tuple[object, ...]:
    return files.index, files.operation, files.skipped, files.raw, files.worktree.created.replace(microsecond=0)


def now() -> int:
    """Seconds since 1970."""
    return int(time.time())
