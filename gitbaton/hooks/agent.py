"""What a coding agent's client calls: tell the model where things stand, and take the checkpoints that nobody asks for."""

from __future__ import annotations

import os
import sys

from gitbaton import terminal
from gitbaton.agents.translate import answer, read
from gitbaton.agents.values import Event
from gitbaton.errors import BatonError, NotARepositoryError
from gitbaton.hooks.deadline import DeadlineError, deadline
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.git.repo import Repo
    from gitbaton.hooks.sessions import Session

SECONDS = 2.0
LATE_SECONDS = 120.0
LATE = "GIT_BATON_LATE"
MAX_PAYLOAD = 64 << 20
_PATIENCE = 1.5  # seconds that one git call may take, so that the rest can still be said
_KEPT = ("compact", "request", "edit", "turn", "end")  # moments at which a checkpoint may be due
_ENDS = ("compact", "turn", "end")  # and at these one nearly always is
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
    seconds = LATE_SECONDS if late else SECONDS
    data, event, repo = b"", None, None
    try:
        with deadline(seconds):
            data = terminal.read_input(MAX_PAYLOAD)
            event = read(call.agent, call.event, data, os.environ)
            repo = _open(event) if event is not None else None
            if event is not None and repo is not None:
                _attend(repo, event, call, late=late)
    except DeadlineError:
        _log(repo, words, f"not done after {seconds:.0f} s")
        if event is not None and event.moment in _KEPT and not late:
            _go_on(words, data)
    except Exception as error:
        _log(repo, words, f"{type(error).__name__}: {error}")


def _log(repo: Repo | None, words: list[str], text: str) -> None:
    from gitbaton.hooks.logbook import log

    if repo is not None:
        log(repo, f"hook {' '.join(words)}: {text}")


def _open(event: Event) -> Repo | None:
    """The repository in which an event happened; None where there is none, or where nobody uses gitbaton."""
    if event.child or event.moment in ("other", "compacted") or (event.cwd is not None and not os.path.isdir(event.cwd)):
        return None

    from gitbaton.git.ahead import begin

    here = event.cwd or os.getcwd()
    says = event.inject in ("full", "short")  # first, even where a checkpoint follows
    ahead = begin(here, "look" if says else "capture" if event.moment in _ENDS else "nothing")
    from gitbaton.git.repo import discover  # and much besides, while git works

    _import_for(event)
    try:
        repo = discover(here if ahead else event.cwd, door="binary", ahead=ahead)
    except NotARepositoryError:
        return None
    root = repo.layout.root
    if root is None or not (os.path.isdir(repo.shared_dir) or _used(repo) or _wanted(root, event.agent)):
        return None
    repo.git.timeout = LATE_SECONDS if event.moment in _KEPT else _PATIENCE
    return repo


def _import_for(event: Event) -> None:
    """Import what an event needs, now that git is at work."""
    import gitbaton.hooks.sessions

    if event.inject in ("full", "short"):
        import gitbaton.briefing
        import gitbaton.git.filedrift
        import gitbaton.hooks.tracks
    elif event.moment in _ENDS:
        import gitbaton.git.worktree
        import gitbaton.hooks.auto  # noqa: F401


def _used(repo: Repo) -> bool:
    """Whether there is a track, though our own folder is gone."""
    return bool(repo.git.run("for-each-ref", "--count=1", "--format=x", "refs/baton/tracks/").out)


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


def _attend(repo: Repo, event: Event, call: Call, *, late: bool) -> None:
    """Say first, keep then: the client can have its text while the checkpoint is still being taken."""
    from gitbaton.hooks import sessions

    session = sessions.load(repo, event)
    if not late:
        session = _said(repo, event, call, session)
    if event.moment in _KEPT:
        _keep(repo, event, call, session, late=late)
    elif event.moment == "start":
        sessions.prune(repo)


def _said(repo: Repo, event: Event, call: Call, session: Session) -> Session:
    """Print what the model should know, if anything; the session as it is afterwards."""
    from gitbaton.codec import first_line
    from gitbaton.hooks import sessions

    flagged = event.inject == "flagged" and session.compacted
    if event.inject in ("full", "short") or flagged:
        text = _text(repo, event, call)
        terminal.emit(answer(event, text) if text else b"")
    if event.moment == "start":
        return sessions.save(repo, event, session, compacted=False)
    if event.moment == "compact":
        return sessions.save(repo, event, session, compacted=True)
    if event.moment == "prompt":
        prompt = first_line(event.prompt or "")[:500]
        return sessions.save(repo, event, session, prompt=prompt, compacted=session.compacted and not flagged)
    return session


def _text(repo: Repo, event: Event, call: Call) -> str:
    """The baton of this work tree's track as text; empty where there is none."""
    repo.prefetch_settings()
    from gitbaton.git import filedrift

    filedrift.list_ahead(repo)
    from gitbaton.baton import Baton
    from gitbaton.briefing import Scene, brief, reminder
    from gitbaton.ground import Surveyor
    from gitbaton.hooks.tracks import choose

    baton = Baton(repo=repo)
    stored = baton.store.tip(choose(baton, call.track))
    if stored is None:
        return ""
    live = Surveyor(baton.store, baton.settings.short, baton.rules()).live(stored)
    scene = Scene(
        stored=stored,
        live=live,
        now=baton.clock(),
        short=baton.short(stored.id),
        short_head=baton.abbreviate(stored.checkpoint.place.oid),
        session=event.session,
    )
    return reminder(scene) if event.inject == "short" else brief(scene)


def _keep(repo: Repo, event: Event, call: Call, session: Session, *, late: bool) -> None:
    """Take the checkpoint that is due, if one is."""
    from gitbaton.config import load
    from gitbaton.hooks import auto, sessions

    repo.prefetch_settings()
    now = auto.now()
    if not late and not auto.due(load(repo).auto, event, session, now):
        return
    from gitbaton.git.index import list_ahead

    list_ahead(repo)
    from gitbaton.baton import Baton
    from gitbaton.hooks.tracks import choose

    if not late:
        session = sessions.save(repo, event, session, taken=now)
    baton = Baton(repo=repo)
    after = auto.take(baton, event, session, choose(baton, call.track))
    sessions.save(repo, event, session, turns=after.turns, words=after.words)


def _go_on(words: list[str], data: bytes) -> None:
    """Take the checkpoint without anybody waiting for it. Never raises."""
    from gitbaton.git.run import detach

    try:
        if os.path.isfile(sys.argv[0]):
            detach([sys.executable, sys.argv[0], "hook", *words], {**os.environ, LATE: "1"}, data)
    except (BatonError, OSError):
        pass
