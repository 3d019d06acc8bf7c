"""What a coding agent's client calls: tell the model where things stand, and take the checkpoints that nobody asks for."""

from __future__ import annotations

import os
import sys

from gitbaton import terminal
from gitbaton.agents.translate import answer, read
from gitbaton.agents.values import Event
from gitbaton.baton import Baton
from gitbaton.codec import first_line
from gitbaton.errors import BatonError, NotARepositoryError
from gitbaton.git.repo import discover
from gitbaton.hooks import sessions
from gitbaton.hooks.deadline import DeadlineError, deadline
from gitbaton.hooks.logbook import log
from gitbaton.values import value

SECONDS = 2.0
LATE_SECONDS = 120.0
LATE = "GIT_BATON_LATE"
MAX_PAYLOAD = 64 << 20
_PATIENCE = 1.5  # seconds that one git call may take, so that the rest can still be said
_KEPT = ("compact", "request", "edit", "turn", "end")  # moments at which a checkpoint may be due
# Where a client's project settings lie: a repository that has our hooks in them wants checkpoints from the first turn on.
_SETTINGS = {
    "claude": (".claude/settings.json", ".claude/settings.local.json"),
    "codex": (".codex/hooks.json", ".codex/config.toml"),
    "gemini": (".gemini/settings.json",),
    "opencode": (".opencode/plugins/gitbaton.js",),
    "copilot": (".github/hooks/gitbaton.json",),
    "cursor": (".cursor/hooks.json",),
}


@value
class Call:
    """A hook's command line."""

    agent: str
    event: str
    track: str | None


def parse_call(words: list[str]) -> Call | None:
    """``AGENT EVENT [--track NAME]`` in any order of the option; None for anything else."""
    rest: list[str] = []
    track: str | None = None
    at = 0
    while at < len(words):
        if words[at] == "--track" and at + 1 < len(words):
            track, at = words[at + 1], at + 1
        elif words[at].startswith("--track="):
            track = words[at].removeprefix("--track=")
        else:
            rest.append(words[at])
        at += 1
    return Call(agent=rest[0], event=rest[1], track=track or None) if len(rest) == 2 else None


def run(words: list[str]) -> None:
    """``git baton hook AGENT EVENT``: the payload is on standard input, the answer goes to standard output.

    Never raises, and ends within two seconds; what went wrong is in ``<common dir>/baton/log``. A checkpoint that takes
    longer is begun anew by a process of its own, which nobody waits for.
    """
    call = parse_call(words)
    if call is None or os.environ.get("GIT_BATON") == "0":
        return
    late = LATE in os.environ
    name, data, baton, event = f"hook {' '.join(words)}", b"", None, None
    try:
        with deadline(LATE_SECONDS if late else SECONDS):
            data = terminal.read_input(MAX_PAYLOAD)
            event = read(call.agent, call.event, data, os.environ)
            baton = _open(event) if event is not None else None
            if event is not None and baton is not None:
                _attend(baton, event, call, late=late)
    except DeadlineError:
        if baton is not None:
            log(baton, f"{name}: not done after {LATE_SECONDS if late else SECONDS:.0f} s")
        if event is not None and event.moment in _KEPT and not late:
            _go_on(words, data)
    except Exception as error:
        if baton is not None:
            log(baton, f"{name}: {type(error).__name__}: {error}")


def _open(event: Event) -> Baton | None:
    """The repository in which an event happened; None where there is none, or where nobody uses gitbaton."""
    if event.child or event.moment in ("other", "compacted") or (event.cwd is not None and not os.path.isdir(event.cwd)):
        return None
    try:
        repo = discover(event.cwd, door="binary")
    except NotARepositoryError:
        return None
    root = repo.layout.root
    if root is None or not (os.path.isdir(repo.shared_dir) or _wanted(root, event.agent)):
        return None
    repo.git.timeout = _PATIENCE
    if event.moment in _KEPT:
        repo.git.timeout = LATE_SECONDS
    return Baton(repo=repo)


def _wanted(root: str, agent: str) -> bool:
    """Whether the project's own settings call us."""
    for name in _SETTINGS[agent]:
        try:
            with open(os.path.join(root, name), "rb") as file:
                if b"git-baton" in file.read(1 << 20):
                    return True
        except OSError:
            continue
    return False


def _attend(baton: Baton, event: Event, call: Call, *, late: bool) -> None:
    """Say first, keep then: the client can have its text while the checkpoint is still being taken."""
    session = sessions.load(baton.repo, event)
    if not late:
        session = _said(baton, event, call, session)
    if event.moment in _KEPT:
        _keep(baton, event, call, session, late=late)
    elif event.moment == "start":
        sessions.prune(baton.repo)


def _said(baton: Baton, event: Event, call: Call, session: sessions.Session) -> sessions.Session:
    """Print what the model should know, if anything; the session as it is afterwards."""
    flagged = event.inject == "flagged" and session.compacted
    if event.inject in ("full", "short") or flagged:
        text = _text(baton, event, call)
        terminal.emit(answer(event, text) if text else b"")
    if event.moment == "start":
        return sessions.save(baton.repo, event, session, compacted=False)
    if event.moment == "compact":
        return sessions.save(baton.repo, event, session, compacted=True)
    if event.moment == "prompt":
        prompt = first_line(event.prompt or "")[:500]
        return sessions.save(baton.repo, event, session, prompt=prompt, compacted=session.compacted and not flagged)
    return session


def _text(baton: Baton, event: Event, call: Call) -> str:
    """The baton of this work tree's track as text; empty where there is none."""
    from gitbaton.briefing import Scene, brief, reminder
    from gitbaton.ground import Surveyor
    from gitbaton.hooks.tracks import choose

    stored = baton.store.tip(choose(baton, call.track))
    if stored is None:
        return ""
    live = Surveyor(baton.store, baton.settings.short, baton.rules()).live(stored)
    scene = Scene(
        stored=stored,
        live=live,
        now=baton.clock(),
        short=baton.short(stored.id),
        short_head=baton.abbreviate(stored.checkpoint.head),
        session=event.session,
    )
    return reminder(scene) if event.inject == "short" else brief(scene)


def _keep(baton: Baton, event: Event, call: Call, session: sessions.Session, *, late: bool) -> None:
    """Take the checkpoint that is due, if one is."""
    from gitbaton.hooks import auto
    from gitbaton.hooks.tracks import choose

    now = auto.now()
    if not late and not auto.due(baton.settings.auto, event, session, now):
        return
    from gitbaton.git.index import list_ahead

    list_ahead(baton.repo)
    if not late:
        session = sessions.save(baton.repo, event, session, taken=now)
    auto.take(baton, event, session, choose(baton, call.track))


def _go_on(words: list[str], data: bytes) -> None:
    """Take the checkpoint without anybody waiting for it. Never raises."""
    from gitbaton.git.run import detach

    try:
        if os.path.isfile(sys.argv[0]):
            detach([sys.executable, sys.argv[0], "hook", *words], {**os.environ, LATE: "1"}, data)
    except (BatonError, OSError):
        pass
