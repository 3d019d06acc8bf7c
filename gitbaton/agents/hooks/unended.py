"""Sessions that did not end: what their records hold beyond the newest checkpoint, and that checkpoint as it would be now."""

from __future__ import annotations

import time
from collections.abc import Mapping

from gitbaton.agents.hooks import auto
from gitbaton.agents.hooks.guard import log
from gitbaton.agents.transcripts import observing
from gitbaton.base.clients import HookEvent
from gitbaton.base.model import Agent, Checkpoint, Observed, Stored, Told
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store import sessions
from gitbaton.checkpoints.store.sessions import Session

_MOST = 3


@value
class Unended:
    """A session of this work tree that did not end: ``event`` names it and its conversation, ``session`` is what it left, open
    where a turn of it goes on by hooks or on record, ``seen`` what its records tell, and ``said`` when it said something last,
    in seconds since 1970. ``at_work``: it may still be, for it said something lately, or it is the one that starts."""

    event: HookEvent
    session: Session
    seen: observing.Seen
    said: float
    at_work: bool


def unended(baton: Baton, event: HookEvent, tip: Stored | None, *, read: bool = True) -> tuple[Unended, ...]:
    """Return the sessions that did not end and have records of more than a tip holds, the newest first; by what is known
    already where they are not ``read``. Never raises but for a deadline: a session with records that cannot be read is none of
    them."""
    settings = baton.settings
    if settings.observe == "none" or settings.auto not in ("turn", "edit"):
        return ()
    ours = tip if tip is not None and not tip.foreign else None
    found: list[Unended] = []
    for of, session, at in sessions.unended(baton.repo, event, ours):
        own = (of.agent, of.session) == (event.agent, event.session)
        if len(found) == _MOST:
            break
        try:
            seen = observing.look(baton, of, sessions.facts_path(baton.repo, of), auto.heard(session), own=own, read=read)
            if _is_new(baton, of, seen, ours, open=session.open):
                at_work = own or time.time() - at < sessions.AT_WORK
                session = replace(session, open=session.open or seen.facts.open)
                found.append(Unended(event=of, session=session, seen=seen, said=at, at_work=at_work))
        except Exception as error:  # a stranger's file
            log(baton.repo, f"what a session left is not read: {type(error).__name__}: {error}")
    return tuple(sorted(found, key=lambda one: one.seen.facts.until, reverse=True))


def _is_new(baton: Baton, of: HookEvent, seen: observing.Seen, tip: Stored | None, *, open: bool) -> bool:
    """Whether the facts of a session say more than a tip; where its turn is not ``open``, whether it did something, or its user
    asked for something or took it back: clients write down other things after the end of a turn."""
    if tip is None:
        return bool((open and seen.facts.asked) or seen.facts.deeds)
    old, told = tip.checkpoint.observed or Observed(), baton.told(tip) or Told()
    agent = Agent(name=of.agent, session=of.session)
    ground = observing.Ground(root=baton.repo.layout.root or "/", tree=None, changed=dict)
    tip = auto.by_whom(baton, tip) or tip
    now, said = baton.redactor.gathered(*observing.gather(baton.settings.observe, seen, agent, tip, told, ground))
    if not open and not seen.facts.deeds:
        asked = _times(now, said) - _times(old, told)
        return bool(asked) or observing.takes_back(seen, agent, tip, told)
    if said != told and baton.settings.transcripts == "full" and baton.settings.observe == "all":
        return True
    plain = (replace(auto.gist(each), edited=(), edited_more=0) for each in (now, old))
    return next(plain) != next(plain) or not set(now.edited) <= set(old.edited)


def _times(observed: Observed, told: Told) -> set[float]:
    """Return when the user asked for something."""
    found = (*observed.asked, *told.asked, *([told.latest] if told.latest is not None else []))
    return {round(one.at.timestamp(), 3) for one in found}


def as_taken(
    baton: Baton, found: tuple[Unended, ...], track: str, tip: Stored | None, changed: Mapping[str, float]
) -> tuple[Stored, Told]:
    """A track's tip as it would be with what some sessions left, the newest of them first, and what was said; its git state
    and file state are those of the tip, for the sessions did not see what came after them. ``changed``: files that are not
    committed, and when each was written."""
    root = baton.repo.layout.root
    assert root is not None  # else no session is here
    stored, told = tip or _nothing(baton, track), (baton.told(tip) if tip is not None else None) or Told()
    for one in reversed(found):
        agent = Agent(name=one.event.agent, session=one.event.session)
        ground = observing.Ground(root=root, tree=None, changed=lambda: changed)
        found_now = observing.gather(baton.settings.observe, one.seen, agent, auto.by_whom(baton, stored), told, ground)
        observed, told = baton.redactor.gathered(*found_now)
        step = auto.step(one.event, one.session)
        c = Checkpoint(
            track=track,
            step=auto.on_record(step, one.session, observed, one.seen) if baton.settings.observe == "all" else step,
            kind="auto",
            branch=stored.checkpoint.branch,
            head=stored.checkpoint.head,
            created=observing.moment(one.seen.facts.until),
            agent=agent,
            files=stored.checkpoint.files,
            observed=observed,
        )
        stored = replace(stored, checkpoint=auto.carry(c, stored, 0) if tip is not None else c)
    kept = baton.settings.observe == "all" and baton.settings.transcripts == "full"
    return stored, told if kept else Told()


def _nothing(baton: Baton, track: str) -> Stored:
    """Return what stands for the tip of a track that has none."""
    here = baton.repo.objects.head()
    c = Checkpoint(track=track, step="", branch=here.branch, head=here.oid, created=baton.clock())
    return Stored(id="", commit="", base=None, tree="", raw=b"", checkpoint=c)
