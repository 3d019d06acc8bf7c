"""What a hook tells the model: the baton of this work tree's track, with what is known of the ground in the time there is."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice

from gitbaton.agents.values import Event
from gitbaton.baton import Baton
from gitbaton.briefing import Scene, brief, others, overview, reminder
from gitbaton.choosing import within_reach
from gitbaton.config import load
from gitbaton.git import filedrift
from gitbaton.git.repo import Repo
from gitbaton.ground import Surveyor
from gitbaton.hooks.deadline import DeadlineError, deadline
from gitbaton.hooks.sessions import has_ended
from gitbaton.model import Drift, Live, Stored
from gitbaton.running.current import unfinished
from gitbaton.values import replace

_LOOKED = 10  # checkpoints that are looked at for other sessions
_SECOND = 0.3  # seconds for a look without files
_NOTHING = "nothing is compared: there was no time for it"
_LATE = "the changed files are not counted: there was no time for it"


def tell(repo: Repo, event: Event, track: str | None, seconds: float, complain: Callable[[str], None]) -> str:
    """The text for an event; empty where there is no baton. Files are compared only if that is done within ``seconds``.

    Raises BatonError.
    """
    repo.prefetch_settings()
    filedrift.list_ahead(repo)
    baton = Baton(repo=repo, settings=load(repo, complain))
    if baton.current() is None and not baton.store.chains()[0]:
        return ""
    stored = baton.store.tip(baton.chosen(track))
    if stored is None or (stored.checkpoint.kind == "auto" and stored.checkpoint.carried is None):
        known = _worded(baton)
        if known and event.inject != "short":
            return overview(baton.exported(known), baton.clock())
    if stored is None:
        return ""
    (stored,) = baton.exported([stored])
    now = baton.clock()
    scene = Scene(
        stored=stored,
        live=_live(baton, stored, seconds),
        now=now,
        short=baton.short(stored.id),
        short_head=baton.abbreviate(stored.checkpoint.place.oid),
    )
    if event.inject == "short":
        return reminder(scene)
    active = others(islice(baton.store.newest(stored), _LOOKED), event.session, now)
    seen = baton.exported([s for s in active if s.checkpoint.agent is None or not has_ended(repo, s.checkpoint.agent)])
    return brief(replace(scene, others=seen, waiting=_waits(repo), runs=_runs(baton)))


def _runs(baton: Baton) -> tuple[tuple[str, str, str], ...]:
    """The runs that are not finished, where the time allows it."""
    try:
        with deadline(_SECOND):
            return tuple((one.run, "; ".join(one.why), "; ".join(one.would)) for one in unfinished(baton))
    except DeadlineError:
        baton.repo.close()
        return ()


def _live(baton: Baton, stored: Stored, seconds: float) -> Live:
    """The present, with files where the time allows it."""
    try:
        with deadline(max(seconds, 0.05)):
            return Surveyor(baton.store, baton.settings.short, baton.rules()).live(stored)
    except DeadlineError:
        baton.repo.close()  # what was under way; whatever is asked next begins anew
    try:
        with deadline(_SECOND):
            return replace(Surveyor(baton.store, baton.settings.short).live(stored), uncounted=_LATE)
    except DeadlineError:
        baton.repo.close()
        return Live(head=baton.repo.objects.head(), drift=Drift(), uncounted=_NOTHING)


def _worded(baton: Baton) -> list[Stored]:
    """The tips of the tracks that could have been meant here and that hold somebody's words, newest first."""
    if baton.current() is not None:
        return []
    near = within_reach(baton.store)
    tips = (s for s in baton.store.tips().items if s.checkpoint.track in near)
    return [s for s in tips if s.checkpoint.kind == "manual" or s.checkpoint.carried is not None]


def _waits(repo: Repo) -> bool:
    return os.path.lexists(os.path.join(repo.own_dir, "restore"))
