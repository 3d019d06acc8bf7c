"""Facts for the text that a hook gives the model, gathered in the time there is: ``briefing`` words them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, islice

from gitbaton.agents.hooks.guard import DeadlineError, deadline
from gitbaton.base.clients import HookEvent
from gitbaton.base.codec import first_line
from gitbaton.base.errors import GitError
from gitbaton.base.model import (
    BEFORE_PROMPT,
    ENDED,
    NOT_ENDED,
    TURN_ENDED,
    Agent,
    Drift,
    Head,
    Live,
    Oid,
    Stored,
    Told,
)
from gitbaton.base.system.process import Process
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.briefing import UNSEEN, Briefing, brief, others, overview, reminder, stale_words
from gitbaton.checkpoints.config import load
from gitbaton.checkpoints.render import NO_CHANGES
from gitbaton.checkpoints.store import sessions
from gitbaton.checkpoints.store.read import within_reach
from gitbaton.checkpoints.store.sessions import has_ended, last, written
from gitbaton.checkpoints.survey import Surveyor
from gitbaton.git.repo import Repo, begun
from gitbaton.git.treediff import finished, started
from gitbaton.git.worktree.index import list_ahead
from gitbaton.runs.current import unfinished

if TYPE_CHECKING:
    from typing import TypeVar

    from gitbaton.agents.hooks.unended import Unended

    T = TypeVar("T")
    U = TypeVar("U")

_LOOKED = 10  # checkpoints that are looked at for other sessions
_OLD = 1800  # seconds after which words are old
_COMMITS, _MANY = 5, 1000
_TOLD = 200  # paths of which some may be told, and which are redacted
_STATUS = ("status", "--porcelain", "-z", "-uall", "--no-renames", "--ignore-submodules=none")
_SHARE = 0.6  # of the time there is, for sessions that did not end
_SECOND, _LEAST = 0.3, 0.05  # seconds for a look without files, and where there is no time left
_MORE, _LAST = 0.3, 0.2  # seconds after which it is told what is known by then, and for that
_UNTOLD = "git baton: the state recorded here was not read in time; 'git baton resume --live' shows it."
_LATE = "the changed files are not counted: there was no time for it"


@value
class _Known:
    """Facts that a text can be made of before all is known: the checkpoint as it is here, and the sessions that did not end."""

    baton: Baton
    track: str
    stored: Stored | None
    found: tuple[Unended, ...] = ()


def tell(
    repo: Repo,
    event: HookEvent,
    track: str | None,
    seconds: float,
    complain: Callable[[str], None],
    overlaps: tuple[str, ...] = (),
) -> tuple[str, bool]:
    """The text for an event; empty where there is no baton. What is not known within ``seconds`` is left out: files are not
    compared, records not read; at last it is what is recorded, and no more.

    With it comes whether there are sessions that did not end, of which it tells as if the checkpoint had been taken. Raises
    BatonError.
    """
    known: list[_Known] = []
    try:
        with deadline(max(seconds, 0) + _MORE):
            text, found = _tell(repo, event, track, seconds, complain, known, overlaps)
            return text, bool(found)
    except DeadlineError:
        repo.close()
        complain("what is told is what was recorded: there was no time for more")
        text = next(
            filter(None, (_in_time(repo, _LAST, partial(_recorded, one, event, overlaps), "") for one in reversed(known))), ""
        )
        text = text or (_UNTOLD if event.inject == "full" and begun(repo) else "")
        return text, bool(sessions.unended(repo, event, None))


def _recorded(known: _Known, event: HookEvent, overlaps: tuple[str, ...]) -> str:
    baton, stored, told = known.baton, known.stored, None
    if known.found:
        from gitbaton.agents.hooks.unended import as_taken

        stored, told = as_taken(baton, known.found, known.track, stored, {})
    if stored is None:
        return ""
    told = baton.told(stored) if told is None else told
    (stored,) = baton.exported([stored])
    live = Live(head=Head(branch=None, oid=None), drift=Drift(), uncounted=UNSEEN)
    scene = Briefing(
        stored=stored,
        live=live,
        now=baton.clock(),
        short="" if known.found else baton.short(stored.id),
        left=_standing(baton.repo, stored, known.found),
        unread=baton.store.unread.get(known.track, ""),
        told=told,
        overlaps=overlaps,
    )
    return reminder(scene) if event.inject == "short" else brief(scene)


def _tell(
    repo: Repo,
    event: HookEvent,
    track: str | None,
    seconds: float,
    complain: Callable[[str], None],
    known: list[_Known],
    overlaps: tuple[str, ...],
) -> tuple[str, tuple[Unended, ...]]:
    """Make the text as ``tell`` does; what is known on the way is left in ``known``."""
    until = time.monotonic() + seconds
    repo.prefetch_settings()
    list_ahead(repo)
    baton = Baton(repo=repo, settings=load(repo, complain))
    chosen = baton.chosen(track)
    tip = baton.store.readable(chosen) if baton.store.chains()[0] else None
    stored = baton.here(tip) if tip is not None else None
    known.append(_Known(baton=baton, track=chosen, stored=stored))
    found = _unended(baton, event, tip, seconds * _SHARE) if event.inject != "short" else ()
    known.append(replace(known[-1], found=found))
    if not found and (stored is None or (stored.checkpoint.kind == "auto" and stored.checkpoint.carried is None)):
        tips = _worded(baton)
        if tips and event.inject != "short":
            return overview(baton.exported(tips), baton.clock()), ()
    told = None
    marks: Mapping[str, str] | None = None
    if found:
        from gitbaton.agents.hooks.unended import as_taken

        marks = _in_time(repo, _room(until), partial(_marks, repo), {})
        stored, told = as_taken(baton, found, chosen, stored, _times(repo, marks))
    if stored is None:
        return "", ()
    (stored,) = baton.exported([stored])
    now = baton.clock()
    c, comparing = stored.checkpoint, None
    if marks is None and event.inject != "short" and c.observed is not None and c.files is not None:
        before = baton.store.base_tree(c.head)
        comparing = started(baton.repo, [(before, stored.tree)]) if before != stored.tree else None
    live = _live(baton, stored, until)
    scene = Briefing(
        stored=stored,
        live=replace(live, tests=tuple(None if paths is None else _redacted(baton, paths) for paths in live.tests)),
        now=now,
        short="" if found else baton.short(stored.id),
        unread=baton.store.unread.get(stored.checkpoint.track, ""),
        overlaps=overlaps,
    )
    if event.inject == "short":
        return reminder(scene), ()
    newest = islice(baton.store.newest(tip), _LOOKED) if tip is not None else ()
    active = others(chain([stored] if found else [], newest), event.session, now)
    seen = baton.exported([s for s in active if s.checkpoint.agent is None or not has_ended(repo, s.checkpoint.agent)])
    plans = c.observed.plans if c.observed else ()
    waiting = os.path.lexists(os.path.join(repo.own_dir, "restore"))
    own = c.agent is not None and (c.agent.name, c.agent.session) == (event.agent, event.session)
    scene = replace(
        scene,
        others=seen,
        waiting=waiting,
        runs=_in_time(repo, _room(until), partial(_runs, baton), ()),
        changes=_in_time(repo, _room(until), lambda: baton.decision_changes(stored), NO_CHANGES),
        left=_standing(repo, stored, found),
        own=own,
        ended=tuple(one.session for one in plans if has_ended(repo, Agent(name=one.agent, session=one.session))),
        told=told,
        root=f"{repo.layout.root}/" if repo.layout.root else "",
    )
    return brief(_more(baton, scene, comparing, marks, until) if stored.checkpoint.observed is not None else scene), found


def _unended(baton: Baton, event: HookEvent, tip: Stored | None, seconds: float) -> tuple[Unended, ...]:
    """Return the sessions that did not end and have records of more than the track holds; where there is no time to read them,
    as they are known."""
    if not sessions.unended(baton.repo, event, tip if tip is not None and not tip.foreign else None):
        return ()
    from gitbaton.agents.hooks.unended import unended  # with all that reads records

    found = _in_time(baton.repo, max(seconds, _SECOND), lambda: unended(baton, event, tip), None)
    return unended(baton, event, tip, read=False) if found is None else found


def _standing(repo: Repo, stored: Stored, found: tuple[Unended, ...]) -> str:
    """Return the state of the session of the newest turn, by its records where it did not end."""
    return "open" if found and found[0].session.open else _left(repo, stored)


def _room(until: float) -> float:
    """Seconds for a look that may be left out."""
    return max(min(_SECOND, until - time.monotonic()), _LEAST)


def _in_time(repo: Repo, seconds: float, look: Callable[[], T], instead: U) -> T | U:
    """Return what a look finds, or ``instead`` where that takes longer than so many seconds: its git processes are stopped."""
    try:
        with deadline(seconds):
            return look()
    except DeadlineError:
        repo.close()
        return instead


def _left(repo: Repo, stored: Stored) -> str:
    """Return the state of the session of the newest turn, a word of ``briefing.LEFT``: by what it left in its work tree, else
    by what its checkpoint says."""
    c = stored.checkpoint
    if c.kind != "auto" or c.agent is None or c.step == BEFORE_PROMPT:
        return ""
    found = None if stored.foreign else last(repo, c.agent)
    if found is not None:
        return "ended" if found[0].ended else "open" if found[0].open else "done"
    steps = {(ENDED,): "ended", (TURN_ENDED,): "done", (NOT_ENDED, "before ", "after an edit"): "open"}
    return next((left for begins, left in steps.items() if c.step.startswith(begins)), "")


def _more(baton: Baton, scene: Briefing, comparing: Process | None, marks: Mapping[str, str] | None, until: float) -> Briefing:
    """With what was said, what is not committed, and the commits since, where the time allows it."""
    try:
        with deadline(_room(until)):
            scene = scene if scene.told is not None else replace(scene, told=baton.told(scene.stored))
            scene = replace(scene, commits=_subjects(baton, scene))
            return replace(scene, uncommitted=_uncommitted(comparing, marks, baton))
    except DeadlineError:
        baton.repo.close()
    except GitError:
        pass
    return scene


def _subjects(baton: Baton, scene: Briefing) -> tuple[str, ...]:
    """Return the subjects of the newest commits that HEAD has and had not when the words were written; without words, of those
    made since the first request. None where they cannot be listed."""
    c, here = scene.stored.checkpoint, scene.live.head.oid
    if here is None:
        return ()
    since = [f"^{c.place.oid}"] if c.place.oid and c.place.oid != here else []
    if c.kind == "auto" and c.carried is None:
        asked = [one.at for one in (scene.told or Told()).asked if not one.earlier]
        known = _before(baton, scene.stored, asked[0]) if asked else []
        since = [f"--since={int(asked[0].timestamp()) + (not known)}", *known] if asked else since
    if not since:
        return ()
    raw = baton.repo.git.run("rev-list", "--format=%s", f"--max-count={_COMMITS + 1}", *since, here).out
    rows = [first_line(row) for row in raw.decode("utf-8", "replace").split("\n")[1::2]]
    return (*rows[:_COMMITS], "and more") if len(rows) > _COMMITS else tuple(rows)


def _before(baton: Baton, stored: Stored, asked: datetime) -> list[str]:
    """Return the words that leave out what HEAD had when something was asked; none where that is not recorded near. Git's times
    are of whole seconds."""
    chain = list(islice(baton.store.newest(stored), _LOOKED)) if stored.commit else []
    later = [one for one in chain if one.checkpoint.created > asked]
    if len(later) < len(chain):
        head = chain[len(later)].checkpoint.head
    else:
        head = baton.store.first_base(later[-1].checkpoint) if later and later[-1].checkpoint.previous is None else None
    return [f"^{head}"] if head and baton.store.commit(head) is not None else []


def _uncommitted(comparing: Process | None, marks: Mapping[str, str] | None, baton: Baton) -> tuple[tuple[str, str], ...]:
    """The paths in which a checkpoint's files differ from HEAD's, each with how, or those that have ``marks``: tracked ones
    before new ones, those that begin with a dot last. Redacted as far as they may be told."""
    if marks is None and comparing is not None:
        (changes,) = finished(comparing, 1)
        how = ((path, changes[path]) for path in changes)
        marks = {path: "new" if one.before is None else "deleted" if one.after is None else "changed" for path, one in how}
    found = marks or {}
    order = sorted(found, key=lambda path: (found[path] == "new", "/." in f"/{path}", path))
    return tuple(zip(_redacted(baton, order), (found[path] for path in order), strict=True))


def _redacted(baton: Baton, paths: Sequence[str]) -> tuple[str, ...]:
    """Paths, of which those that may be told have no secret in them."""
    return (*map(baton.redactor.text, paths[:_TOLD]), *paths[_TOLD:])


def _marks(repo: Repo) -> dict[str, str]:
    """The paths of the work tree that differ from HEAD, each with how."""
    rows = repo.git.run(*_STATUS).out.decode("utf-8", "surrogateescape").split("\0")[:-1]
    return {row[3:]: "new" if row[0] in "?A" else "deleted" if "D" in row[:2] else "changed" for row in rows}


def _times(repo: Repo, paths: Iterable[str]) -> dict[str, float]:
    """Return when files were written last, as far as they are there."""
    found = ((path, written(os.path.join(repo.layout.root or "", path))) for path in islice(paths, _MANY))
    return {path: at for path, at in found if at}


def nudge(repo: Repo, track: str | None, edited: float, complain: Callable[[str], None]) -> tuple[str, Oid]:
    """One line where the words of the track are older than half an hour and than an edit of the moment ``edited``, and the
    checkpoint that they are of; empty where they are not, or ``baton.nudge`` is off. Raises BatonError."""
    settings = load(repo, complain)
    baton = Baton(repo=repo, settings=settings)
    stored = baton.store.tip(baton.chosen(track)) if settings.nudge and baton.store.chains()[0] else None
    if stored is None or (stored.checkpoint.kind != "manual" and stored.checkpoint.carried is None):
        return "", ""
    stored = baton.here(stored)
    c = stored.checkpoint
    written, words = (c.carried.created, c.carried.id) if c.carried else (c.created, stored.id)
    now = baton.clock()
    if (now - written).total_seconds() < _OLD or written.timestamp() >= edited:
        return "", ""
    return stale_words(c.track, written, now), words


def _runs(baton: Baton) -> tuple[tuple[str, str, str], ...]:
    """The runs that are not finished."""
    return tuple((one.run, "; ".join(one.why), "; ".join(one.would)) for one in unfinished(baton))


def _live(baton: Baton, stored: Stored, until: float) -> Live:
    """The present, with files where the time allows it."""
    repo, short = baton.repo, baton.settings.short
    room = max(until - time.monotonic(), _LEAST)
    found = _in_time(repo, room, lambda: Surveyor(baton.store, short, baton.rules()).live(stored), None)
    if found is None:
        found = _in_time(repo, _room(until), lambda: Surveyor(baton.store, short).live(stored), None)
        found = found and replace(found, uncounted=_LATE)
    return found or Live(head=repo.objects.head(), drift=Drift(), uncounted=UNSEEN)


def _worded(baton: Baton) -> list[Stored]:
    """Return the tips of the tracks that could have been meant here and that hold words, newest first."""
    if baton.current() is not None:
        return []
    near = within_reach(baton.store)
    tips = (s for s in baton.store.tips().items if s.checkpoint.track in near)
    return [s for s in tips if s.checkpoint.kind == "manual" or s.checkpoint.carried is not None]
