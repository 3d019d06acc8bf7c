"""Agents' hooks: automatic checkpoints, and the context that a session is told, in little time and without ever failing."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime

from gitbaton.agents.client import OURS, answer, client, folder, line_of, read
from gitbaton.agents.hooks.guard import CAME_AT, LATE, AgainError, DeadlineError, deadline, log
from gitbaton.base import terminal
from gitbaton.base.clients import KNOWN, HookEvent
from gitbaton.base.errors import BatonError, NotARepositoryError
from gitbaton.base.values import TYPE_CHECKING, replace, value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gitbaton.agents.hooks.danger import Spot
    from gitbaton.checkpoints.baton import Baton
    from gitbaton.checkpoints.config import Settings
    from gitbaton.checkpoints.store.sessions import Session
    from gitbaton.git.repo import Repo
    from gitbaton.git.run import Prefetched

SECONDS = 2.0
LATE_SECONDS = 120.0
TELLING_SECONDS = 1.2  # after so many the text goes out without what is not known yet
GUARD_SECONDS = 8.0  # before a destructive command; clients wait for ten
MARGIN = 2.0  # seconds before a client's own time is over
STORE_SECONDS = 60.0
STORE = "GIT_BATON_STORE"  # the session whose conversation is to be stored, in the process that does
MAX_PAYLOAD = 64 << 20
_KEPT = ("compact", "request", "edit", "turn", "end", "prompt")  # moments at which a checkpoint may be due
_LOOKS = ("compact", "turn", "end", "prompt", "command", "child-start", "child-end")  # and at these the work tree is looked at


@value
class HookCall:
    """A hook's command line. ``plugin``: it is that of a plugin, and not of a project's or the user's settings."""

    agent: str
    event: str
    track: str | None
    plugin: bool


def parse_call(words: list[str]) -> HookCall | None:
    """``AGENT EVENT [--track NAME] [--plugin]`` in any order of the options; None for anything else."""
    rest: list[str] = []
    track: str | None = None
    plugin = False
    at = 0
    while at < len(words):
        if words[at] == "--track" and at + 1 < len(words):
            track, at = words[at + 1], at + 1
        elif words[at].startswith("--track="):
            track = words[at].removeprefix("--track=")
        elif words[at] == "--plugin":
            plugin = True
        else:
            rest.append(words[at])
        at += 1
    return HookCall(agent=rest[0], event=rest[1], track=track or None, plugin=plugin) if len(rest) == 2 else None


class _Work:
    """State of a hook's process: the event, the repository, and the checkpoint that is due."""

    def __init__(self, call: HookCall, words: list[str]) -> None:
        self.call, self.words, self.late, self.begun = call, words, os.environ.get(LATE), time.monotonic()
        self.data, self.due = b"", self.late
        self.event: HookEvent | None = None
        self.prefetched: Prefetched | None = None
        self.repo: Repo | None = None
        self.heard, self.open = 0.0, False  # when the session's hooks were heard of before, and whether its turn was open

    def log(self, text: str) -> None:
        """A line in the log of the repository, where one was found."""
        if self.repo is not None:
            log(self.repo, f"hook {self.call.agent} {self.call.event}: {text}")

    def close(self) -> None:
        """Release what is under way. Never raises."""
        with suppress(OSError):
            if self.repo is not None:
                self.repo.close()
            elif self.prefetched is not None:
                self.prefetched.drop()


def run(words: list[str]) -> None:
    """Run ``git baton hook AGENT EVENT``: the payload is on standard input, the answer goes to standard output.

    Never raises, and ends within two seconds, or before a compaction in the time for which the client waits; what went wrong is
    in ``<common dir>/baton/log``. A checkpoint that takes longer is begun anew by a detached process, which has two minutes.
    """
    call = parse_call(words)
    if call is None or os.environ.get("GIT_BATON") == "0":
        return
    work = _Work(call, words)
    if work.late is None:
        os.environ[CAME_AT] = str(round(time.time() * 1000))
    seconds = _seconds(call) if work.late is None else LATE_SECONDS
    try:
        with deadline(seconds):
            work.data = terminal.read_input(MAX_PAYLOAD)
            work.event = _placed(read(call.agent, call.event, work.data, os.environ))
            if work.event is not None and work.event.moment == "start" and work.late is None:
                _introduce(work.event, work.data)
            if work.event is not None and work.event.moment == "command":
                _guard(work, work.event)
            elif work.event is not None and work.event.moment in ("child-start", "child-end"):
                _delegated(work, work.event)
            elif work.event is not None and _opened(work, work.event):
                _attend(work, work.event)
    except DeadlineError:
        work.log(f"not done after {seconds:.0f} s")
        _go_on(work)
        work.close()
    except AgainError as error:
        work.log(error.message)
        _go_on(work)
    except Exception as error:
        work.log(f"{type(error).__name__}: {error}")
    finally:
        if work.repo is not None:
            work.repo.clear()


def _placed(event: HookEvent | None) -> HookEvent | None:
    """An event, as a subagent's where the session is one's: some clients say so nowhere but in its transcript."""
    of = client(event.agent) if event is not None else None
    if event is None or of is None or not of.part or event.child:
        return event
    from gitbaton.agents.transcripts.files import BLOCK, opened

    fd = opened(event.transcript)
    if fd is None:
        return event
    with open(fd, "rb") as file:
        return replace(event, child=re.search(of.part, file.readline(BLOCK)) is not None)


def _introduce(event: HookEvent, data: bytes) -> None:
    """Have a client that takes variables from its hooks name the session to the commands that it runs. Never raises."""
    of, session = client(event.agent), event.session or ""
    if of is None or not of.exports or not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", session) or not os.environ.get("HOME"):
        return
    from gitbaton.agents.payload import absolute, fields_of
    from gitbaton.base.system.files import closing_fd, open_below, write_all

    home = folder(of, os.environ)
    *above, name = os.path.relpath(absolute(fields_of(data).get(of.exports)) or "/", home).split(os.sep)
    if above and ".." not in (*above, name):  # what the client did not lay in its own folder is not written
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with (
            suppress(OSError),
            closing_fd(open_below(home, above)) as at,
            closing_fd(os.open(name, flags, 0o600, dir_fd=at)) as fd,
        ):
            write_all(fd, f'export {KNOWN[event.agent].session}="{session}"\n'.encode())


def _seconds(call: HookCall) -> float:
    """For how long a hook may take: before a compaction as long as its client waits, before a destructive command nearly so.
    (Those that say so count in seconds.)"""
    of = client(call.agent)
    moment = of.events.get(call.event, ("other", "no"))[0] if of is not None else "other"
    if of is None or moment != "compact":
        return GUARD_SECONDS if moment == "command" else SECONDS
    return max(SECONDS, next((hook.timeout - MARGIN for hook in of.hooks if hook.event == call.event), 0))


def _opened(work: _Work, event: HookEvent) -> bool:
    """Find the repository in which an event happened; False where there is none, or where gitbaton is not used."""
    if event.child or event.moment in ("other", "compacted"):
        return False
    # the payload's directory, else the agent's project, where that one is gone or has no baton
    told = [place for place in (event.cwd, os.environ.get(f"{event.agent.upper()}_PROJECT_DIR")) if place]
    return any(_opened_at(work, event, place) for place in dict.fromkeys(told or [os.getcwd()]) if os.path.isdir(place))


def _guard(work: _Work, event: HookEvent) -> None:
    """Take a checkpoint of each work tree that a destructive command is about to strike. It says nothing, and the command runs
    whatever happens here."""
    from gitbaton.agents.destructive import dangers
    from gitbaton.agents.hooks.danger import spots

    cwd, command = event.cwd or os.getcwd(), event.command or ""
    found = dangers(command)
    if not found:
        from gitbaton.git.questions import values_at

        found = dangers(command, values_at(cwd, "baton.guardCommand"))
    for spot in spots(found, cwd, os.environ):
        work.close()
        work.prefetched = work.repo = None
        if _opened_at(work, event, spot.place) and work.repo is not None:
            from gitbaton.checkpoints.store import sessions, state

            try:
                paused = state.paused(work.repo, datetime.now(UTC))
                if not paused and (not spot.over or _seen_by_git(work.repo, spot.over)) and _is_first(work, event):
                    _keep(work, event, sessions.load(work.repo, event), spot)
            except BatonError as error:  # of one work tree; there may be others
                work.log(f"{type(error).__name__}: {error}")


def _delegated(work: _Work, event: HookEvent) -> None:
    """Take a checkpoint where a subagent starts or ends in a work tree of its own; one in its parent's is the parent's turn."""
    from gitbaton.agents.hooks.danger import top_of

    of = client(event.agent)
    project = next((os.environ[name] for name in (of.places if of is not None else ()) if os.environ.get(name)), None)
    place, top = top_of(event.cwd) if event.cwd else None, top_of(project) if project else None
    if place is None or top is None or os.path.realpath(place) == os.path.realpath(top):
        return
    if not _opened_at(work, event, place) or work.repo is None:
        return
    from gitbaton.agents.hooks import auto
    from gitbaton.checkpoints.baton import Baton
    from gitbaton.checkpoints.store import sessions, state

    repo, settings = work.repo, _settings(work.repo)
    if not sessions.due(settings.auto, event, sessions.Session(), 0) or state.paused(repo, datetime.now(UTC)):
        return
    if not _is_first(work, event):
        return
    if os.path.lexists(os.path.join(repo.own_dir, "restore")):
        work.log("no checkpoint is taken while a restore is under way or waits to be ended")
        return
    auto.keep_subagent(Baton(repo=repo, settings=settings), event, top)


def _seen_by_git(repo: Repo, paths: Sequence[str]) -> bool:
    """Whether git tracks, or would track, a file at one of some paths."""
    specs = [f":(top,literal){path}" for path in paths]
    return bool(repo.git.run("ls-files", "-z", "-c", "-o", "--exclude-standard", "--", *specs).out)


def _opened_at(work: _Work, event: HookEvent, place: str) -> bool:
    from gitbaton.git.run import prefetch

    says = event.inject in ("full", "short")  # first, even where a checkpoint follows
    work.prefetched = prefetch(place, "look" if says else "capture" if event.moment in _LOOKS else "nothing")
    import gitbaton.checkpoints.store.sessions  # and much besides, while git works
    from gitbaton.git.repo import discover

    if says:
        import gitbaton.checkpoints.briefing
        import gitbaton.git.worktree.filedrift
    elif event.moment in _LOOKS:
        import gitbaton.agents.hooks.auto
        import gitbaton.git.worktree.capture  # noqa: F401

    try:
        repo = discover(place if work.prefetched or event.cwd else None, door="binary", prefetched=work.prefetched, bare=False)
    except NotARepositoryError:
        return False
    root = repo.layout.root
    used = root is not None and (
        os.path.isdir(repo.shared_dir)
        or bool(repo.git.run("for-each-ref", "--count=1", "--format=x", "refs/baton/tracks/").out)  # our folder is gone
        or _wanted(repo, root, event, plugin=work.call.plugin)
    )
    if not used:
        repo.close()
        return False
    work.repo = repo
    return True


def _wanted(repo: Repo, root: str, event: HookEvent, *, plugin: bool) -> bool:
    """Whether checkpoints are wanted from the first turn on: the project's own settings call us, the user wants us everywhere,
    or the client works here with a plugin of ours and the user does not want otherwise."""
    if repo.boolean("baton.everywhere"):
        return True
    of = client(event.agent)
    if of is None:
        return False
    if plugin and repo.boolean("baton.everywhere", default=True):
        from gitbaton.agents.hooks.danger import top_of

        # a project can bring a plugin along: it is not to act in another one that the agent has gone to
        at = next((os.environ[name] for name in of.places if os.environ.get(name)), event.cwd)
        top, real = top_of(at) if at else None, os.path.realpath(root)
        home = os.path.join(os.path.realpath(os.path.expanduser("~")), "")
        # a repository of dot files would take in all that the user has
        if top is not None and os.path.realpath(top) == real and not home.startswith(os.path.join(real, "")):
            return True
    said = _read_settings(os.path.join(root, of.project))
    return bool(said) and (of.shape == "plugin" or f"{OURS} {event.agent}".encode() in said)


def _is_first(work: _Work, event: HookEvent) -> bool:
    """Whether no other hook of ours was before: those of plugins, a project and the user hear of one event each."""
    from binascii import crc32
    from json import dumps

    from gitbaton.checkpoints.store import sessions

    call, repo, of = work.call, work.repo, client(event.agent)
    assert repo is not None and of is not None
    if work.late is not None:
        return True
    root = os.environ.get("CLAUDE_PLUGIN_ROOT", "") if call.plugin else ""

    def copies() -> int:
        if call.plugin or not of.twice:
            return 1
        line = dumps(line_of(call.agent, call.event, call.track), ensure_ascii=False)[1:].encode("utf-8", "surrogateescape")
        paths = {os.path.realpath(path) for path in (f"{repo.layout.root}/{of.project}", f"{folder(of, os.environ)}/{of.user}")}
        return max(1, sum(line in _read_settings(path) for path in paths))

    try:
        caller = crc32("\0".join((str(call.plugin), root, call.track or "")).encode("utf-8", "surrogateescape"))
        return sessions.claim(repo, event, work.data, f"{caller:x}", copies)
    except OSError as error:  # a checkpoint too many is better than none
        work.log(f"{type(error).__name__}: {error}")
        return True


def _read_settings(path: str) -> bytes:
    """A client's settings; nothing where they cannot be read."""
    from gitbaton.base.system.files import read_regular

    try:
        return read_regular(path, 1 << 20, follow=True)
    except OSError:
        return b""


def _attend(work: _Work, event: HookEvent) -> None:
    """Say first, keep then: the client can have its text while the checkpoint is still being taken."""
    from gitbaton.checkpoints.store import sessions, state

    assert work.repo is not None
    if STORE in os.environ:
        _store(work, work.repo)
        return
    if not _is_first(work, event):
        return
    repo, session = work.repo, sessions.load(work.repo, event)
    work.heard, work.open = sessions.heard(repo, event), session.open
    if silent := state.paused(repo, datetime.now(UTC)):
        if work.late is None:
            if event.moment == "start":
                terminal.emit(answer(event, f"gitbaton: {state.told_pause(silent)}; 'git baton pause --end' ends that"))
            _noted(repo, event, session, told=False)
            if event.moment in ("turn", "end"):  # it is on no record, and nothing later is it
                sessions.save(repo, event, **sessions.RECORDED)
        return
    before, left = session, work.late is not None and event.moment == "start"
    if work.late is None:
        flagged = event.inject == "flagged" and (session.compacted or _compacted(event))
        again = event.moment == "start" or flagged
        rows, told = _overlapping(work, event, "" if again else session.overlaps)
        if event.inject in ("full", "short") or flagged:
            try:
                from gitbaton.agents.hooks.telling import tell

                until = work.begun + TELLING_SECONDS - time.monotonic()
                text, unended = tell(repo, event, work.call.track, until, work.log, rows)
                left = event.moment == "start" and unended
                terminal.emit(answer(event, text))
            except Exception as error:  # what cannot be said must not keep a checkpoint back
                work.log(f"{type(error).__name__}: {error}")
        elif event.inject == "nudge" or rows:
            session = _nudged(work, event, session, rows)
        if told != session.overlaps:
            session = sessions.save(repo, event, overlaps=told)
        session = _noted(repo, event, session, told=flagged)
    if event.moment in _KEPT or left:
        _keep(work, event, before if event.moment == "prompt" else session)  # what is there came before the prompt
    if event.moment == "start":
        sessions.prune(repo)
    if event.moment in ("start", "end"):
        _look_up(work, repo)
    if event.moment in ("turn", "end"):
        _merge_later(work, repo)


def _look_up(work: _Work, repo: Repo) -> None:
    """Let the search index follow, where there is one that is old. Never raises."""
    from gitbaton.checkpoints.store.state import follow_later

    try:
        follow_later(repo)
    except (BatonError, OSError) as error:
        work.log(f"{type(error).__name__}: {error}")


def _compacted(event: HookEvent) -> bool:
    """Whether its client's transcript says that the window was compacted, of one that calls no hook then."""
    of = client(event.agent)
    if of is None or not of.compacts:
        return False
    from gitbaton.agents.transcripts.files import compacted

    return compacted(event)


def _noted(repo: Repo, event: HookEvent, session: Session, *, told: bool) -> Session:
    """Note in the session what the event means for it."""
    from gitbaton.checkpoints.store import sessions

    changes: dict[str, object] = {"ended": event.moment == "end" or event.source == "clear"}
    if event.session is not None and not sessions.is_plain(event.session):
        changes["session"] = event.session
    if event.transcript and event.transcript.isprintable():  # of another kind there is none that a client has named so
        changes["transcript"] = event.transcript
    if event.cwd and event.cwd.isprintable():
        changes["cwd"] = event.cwd
    if event.moment in ("start", "compact"):
        changes["compacted"] = event.moment == "compact"
        changes |= sessions.CLEARED if event.source == "clear" else {}
    if event.moment in ("prompt", "turn", "end"):
        changes["open"] = event.moment == "prompt"
    if event.edited and _settings(repo).observe != "none":
        changes["edited"] = sessions.with_edited(session, event.edited)
    if event.moment == "prompt":
        now = round(time.time() * 1000)
        prompt = sessions.opening(event.prompt or "", lambda text: _redacted(repo, text))
        changes |= {"task": session.task or session.prompt or prompt, "prompt": prompt}
        changes |= {**sessions.RECORDED, "began_at": now}  # where it began from is known once that is kept
        settings = _settings(repo)
        if settings.observe == "all" and settings.transcripts == "full":
            changes |= sessions.asked(session, event.prompt or "", now, lambda text: _redacted(repo, text))
        else:
            changes |= sessions.UNASKED
        changes |= {"compacted": False} if told else {}
    return sessions.save(repo, event, **changes)


def _nudged(work: _Work, event: HookEvent, session: Session, rows: tuple[str, ...]) -> Session:
    """Say once that the words are old, where they are, and where other tracks overlap. Never raises: a prompt goes on without
    it."""
    from gitbaton.checkpoints.store import sessions

    assert work.repo is not None
    try:
        edited = sessions.tenth_edit(work.repo, event) if event.inject == "nudge" else 0
        if not (edited or rows):
            return session
        from gitbaton.agents.hooks.telling import nudge
        from gitbaton.checkpoints.briefing import beside

        text, words = nudge(work.repo, work.call.track, edited, work.log) if edited else ("", "")
        if words == session.nudged:
            text = ""
        if said := "\n\n".join(filter(None, (text, beside(rows)))):
            terminal.emit(answer(event, said))
        return sessions.save(work.repo, event, nudged=words) if text else session
    except Exception as error:
        work.log(f"{type(error).__name__}: {error}")
        return session


def _overlapping(work: _Work, event: HookEvent, told: str) -> tuple[tuple[str, ...], str]:
    """Return the lines about overlaps that are to be told, and a word for each that was told then. Never raises."""
    from gitbaton.checkpoints.store import state

    assert work.repo is not None
    if event.moment not in ("start", "prompt") or event.inject == "no" or not state.may_overlap(work.repo, datetime.now(UTC)):
        return (), told
    try:
        from gitbaton.agents.hooks.overlapping import overlapping

        rows, after, late = overlapping(work.repo, work.call.track, told, work.log)
        if late:
            _merge_later(work, work.repo)
        return rows, after
    except Exception as error:
        work.log(f"{type(error).__name__}: {error}")
        return (), told


def _merge_later(work: _Work, repo: Repo) -> None:
    """Let a detached process see what does not merge, where other tracks are live; the next prompt tells of it. Never
    raises."""
    from gitbaton.checkpoints.store import state

    try:
        if state.may_overlap(repo, datetime.now(UTC)) and _settings(repo).overlap:
            from gitbaton.base.system.process import leave_to_verb

            leave_to_verb(repo.layout.root or repo.layout.git_dir, "overlap", "--json")
    except (BatonError, OSError) as error:
        work.log(f"{type(error).__name__}: {error}")


def _settings(repo: Repo) -> Settings:
    from gitbaton.checkpoints.config import load

    return load(repo, lambda _: None)


def _redacted(repo: Repo, text: str) -> str:
    """A text without its secrets. Raises ScanError."""
    from gitbaton.base.secrets import Redactor

    settings = _settings(repo)
    return Redactor(settings.redact, settings.redact_allow).text(text)


def _keep(work: _Work, event: HookEvent, session: Session, spot: Spot | None = None) -> None:
    """Take the checkpoint that is due, if one is and no restore is under way. ``spot``: what a command is about to strike."""
    from gitbaton.base.model import BEFORE_PROMPT
    from gitbaton.checkpoints.config import load
    from gitbaton.checkpoints.store import sessions
    from gitbaton.git.questions import commits_of

    repo, now = work.repo, int(time.time())
    assert repo is not None
    repo.prefetch_settings()
    settings = load(repo, work.log)
    if not work.late and not sessions.due(settings.auto, event, session, now):
        return
    from gitbaton.agents.hooks import auto
    from gitbaton.checkpoints.baton import Baton

    baton = Baton(repo=repo, settings=settings)

    def track() -> str:
        return baton.chosen(work.call.track, automatic=True)

    other, over = auto.unended(baton, event, replace(session, open=work.open), track, work.heard)
    if spot is not None:
        shown = sessions.opening(spot.text, lambda text: _redacted(repo, text))
        commits = commits_of(repo, spot.refs) if spot.refs else {}
        work.due, spot = auto.before(shown, commits), replace(spot, refs=tuple(commits))
    else:
        work.due = work.late or auto.step(event, other[1] if other else replace(session, open=False) if over else session)
    if os.path.lexists(os.path.join(repo.own_dir, "restore")):
        work.log("no checkpoint is taken while a restore is under way or waits to be ended")
        return
    with auto.alone(repo, late=work.late is not None) as free:
        if not free:
            work.log("two processes are at it already, and this one gives up")
            return
        from gitbaton.git.worktree.index import list_ahead

        list_ahead(repo)
        # A subagent has no state of its own, and a session none in a work tree that it does not work in.
        nobody = (event.child or spot is not None) and session == sessions.Session()
        if work.late is None and event.moment != "prompt" and not nobody:
            session = sessions.save(repo, event, taken=now)
        if event.moment == "start":
            _keep_unended(work, baton, event, track)
            return
        if over is not None and event.moment == "end":  # what was changed later is not its turn's
            auto.take(baton, event, replace(session, began_at=0), track, BEFORE_PROMPT)
        after = auto.take(baton, event, session, track, work.due, other, ended=over, spot=spot)
        changes: dict[str, object] = {"turns": after.turns, "words": after.words}
        changes |= {"open": True} if after.open and not session.open else {}
        if event.moment == "prompt":
            changes |= {"began": after.began, "began_head": after.began_head}
        elif event.moment in ("turn", "end") and not after.open and sessions.load(repo, event).began_at == session.began_at:
            changes |= sessions.RECORDED  # else the user has said something meanwhile
        if not nobody:
            sessions.save(repo, event, **changes)
        if other is not None:
            sessions.note(repo, other[0], recorded=int(time.time()))
    if spot is None:
        _leave_to_store(work, baton, other[0] if other else event)


def _keep_unended(work: _Work, baton: Baton, event: HookEvent, track: Callable[[], str]) -> None:
    """Take the checkpoint of each session that did not end, the oldest first; that of one which may still be at work is its
    own, but for the first of all."""
    from gitbaton.agents.hooks import auto
    from gitbaton.agents.hooks.unended import unended
    from gitbaton.base.model import BEFORE_PROMPT
    from gitbaton.checkpoints.store import sessions

    tip = baton.store.before(track())
    for one in reversed(unended(baton, event, tip)):
        if one.at_work and tip is not None:
            continue
        session = one.session
        over = auto.over(baton, track(), one.event, one.session, one.said)
        if over is not None:  # what was changed later is not its turn's
            auto.take(baton, event, replace(session, began_at=0), track, BEFORE_PROMPT)
        after = auto.take(baton, event, session, track, auto.step(one.event, session), (one.event, session), ended=over)
        ends: dict[str, object] = {"recorded": int(time.time())} if one.at_work else {"open": False, "ended": True}
        sessions.note(baton.repo, one.event, turns=after.turns, words=after.words, **ends)
        _leave_to_store(work, baton, one.event)


def _leave_to_store(work: _Work, baton: Baton, event: HookEvent) -> None:
    """Let a detached process store what is new of a conversation, where that is much."""
    from gitbaton.agents.transcripts import behind
    from gitbaton.base.codec import canonical
    from gitbaton.base.system.process import detach

    if baton.settings.transcripts == "full" and behind(baton, event) and os.path.isfile(sys.argv[0]):
        whose = canonical({"agent": event.agent, "session": event.session, "transcript": event.transcript}).decode()
        command = [sys.executable, sys.argv[0], "hook", *work.words]
        detach(command, {**os.environ, LATE: "", STORE: whose}, work.data)


def _store(work: _Work, repo: Repo) -> None:
    """Store what is new of the conversation of the session that the environment names. Raises BatonError."""
    from gitbaton.agents.hooks import auto
    from gitbaton.agents.transcripts import record
    from gitbaton.base.codec import parse
    from gitbaton.checkpoints.baton import Baton
    from gitbaton.checkpoints.config import load

    whose = parse(os.environ[STORE].encode())
    names = {name: text for name, text in whose.items() if isinstance(text, str)} if isinstance(whose, dict) else {}
    event = HookEvent(name="", moment="other", agent=names["agent"], session=names["session"], transcript=names["transcript"])
    with auto.alone(repo, late=True) as free:
        if free:
            baton = Baton(repo=repo, settings=load(repo, work.log))
            record(baton, event, baton.settings.transcripts, None, work.log, STORE_SECONDS)


def _go_on(work: _Work) -> None:
    """Let a detached process take the checkpoint; the one that is due already is not asked for again. Never raises."""
    from gitbaton.base.system.process import detach

    if work.event is None or work.event.moment not in (*_KEPT, "start") or work.late is not None:
        return
    if work.event.moment == "prompt":  # the agent is at work by then, and its edits are the turn's
        return
    try:
        if os.path.isfile(sys.argv[0]):
            detach([sys.executable, sys.argv[0], "hook", *work.words], {**os.environ, LATE: work.due or ""}, work.data)
    except (BatonError, OSError) as error:
        work.log(f"{type(error).__name__}: {error}")
