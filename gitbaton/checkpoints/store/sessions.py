"""Session state: a session of a client in its work tree, kept for its next hook."""

from __future__ import annotations

import os
import re
import time
from binascii import crc32
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import accumulate
from stat import S_ISREG

from gitbaton.base.clients import DATABASES, NAMES, HookEvent
from gitbaton.base.codec import Json, canonical, first_line, parse, parse_transcript
from gitbaton.base.errors import BatonError, RecordError
from gitbaton.base.model import Agent, Oid, Stored, Turn
from gitbaton.base.system.files import acquire, names_in, read_regular
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.git.repo import Repo, clear_old, has_folder, lock_file, put

if TYPE_CHECKING:
    from typing import Any

KEPT_SECONDS = 14 * 86_400
FACTS = ".facts"
"""What follows the name of a session's state, for the file of what is known of its work."""
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_MAX_BYTES = 64 << 10
_MAX_FACTS = 2 << 20
_OPENING, _ASKED, _LOOKED = 1000, 2000, 100_000
AT_WORK = 900
"""Seconds within which a session that is at work says something."""
_TICK = 2  # seconds in which what is noted of a session is no sign of life
_AFTER = 10  # seconds for which a client still writes after a turn
_GOES_ON = ("compact", "resume")  # why a session starts that was there before; some clients start one after its first prompt
_MAX_EDITED = 24 << 10  # bytes of the paths that were edited in a turn, as they are written
_CALL = re.compile(r"\d{1,15}(?:\t[\w ]+){2}\t\d{1,9}\Z", re.ASCII)
_CALLED = 60_000  # milliseconds for which it is known who heard of an event: longer than any client lets a hook run
_CALLS = 200  # of these
_BESIDE = 10_000  # milliseconds within which a client calls equal hooks of two levels; one of them it may not call at all
_MOST = 20  # sessions that are looked at
QUIET = 30  # seconds without a further checkpoint for events that come many times in a turn
# The least baton.auto at which a moment counts.
_LEVEL = {
    "compact": 1,
    "request": 1,
    "command": 1,
    "child-start": 2,
    "child-end": 2,
    "start": 2,
    "turn": 2,
    "prompt": 2,
    "end": 2,
    "edit": 3,
}
_LEVELS = {"off": 0, "compact": 1, "turn": 2, "edit": 3}
EDITS = 10
"""So many edits after the words make them old."""


@value
class Session:
    """State of one session of a client.

    ``task``: the first line of what the user said first, ``prompt``: of what they said last. ``compacted``: the window was
    compacted, and the model may not know the baton any more. ``ended``: the session has ended, and nothing came since.
    ``taken``: when a checkpoint was last thought of, in seconds since 1970. ``turns``: how many turns have ended without a
    checkpoint since one of the words of ``words``, the id of a manual checkpoint. ``nudged``: the one of which the agent
    was told that it is old. ``open``: a turn has begun, and its end was not heard of. ``transcript``: the file with its
    conversation, ``session`` its own id where the name of the file does not say it. ``recorded``: when another session recorded
    its turn.

    ``asked_first`` and ``asked_last``: what the user said first and last, whole or its first 2,000 characters, redacted, and
    ``..._at`` when, in milliseconds since 1970; nothing where ``baton.observe`` or ``baton.transcripts`` keeps no words.
    ``began_at``: when the turn began that has no recorded end, in milliseconds since 1970; ``began``: the checkpoint that
    was the track's newest once the prompt's own was kept, if there was one, and ``began_head``: HEAD then, or ``model.UNBORN``.
    Neither, where the state that it began from could not be kept. ``edited``: what its tools edited in it, as the client names
    the paths, newest first, with a NUL between. ``cwd``: where its client works. ``overlaps``: the overlaps of which it was
    told, a word each.
    """

    task: str = ""
    prompt: str = ""
    compacted: bool = False
    ended: bool = False
    taken: int = 0
    turns: int = 0
    words: str = ""
    nudged: str = ""
    open: bool = False
    transcript: str = ""
    asked_first: str = ""
    asked_first_at: int = 0
    asked_last: str = ""
    asked_last_at: int = 0
    session: str = ""
    recorded: int = 0
    began: str = ""
    began_head: str = ""
    began_at: int = 0
    edited: str = ""
    cwd: str = ""
    overlaps: str = ""


_LATER = (
    "nudged",
    "open",
    "transcript",
    "asked_first",
    "asked_first_at",
    "asked_last",
    "asked_last_at",
    "session",
    "recorded",
    "began",
    "began_head",
    "began_at",
    "edited",
    "cwd",
    "overlaps",
)  # fields that not every version knew: written where they say something
_NAMING = ("words", "nudged", "began")  # fields that hold the id of a checkpoint
UNASKED: dict[str, object] = {"asked_first": "", "asked_first_at": 0, "asked_last": "", "asked_last_at": 0}
"""The state of a session of which no words are kept."""
CLEARED: dict[str, object] = {"task": "", "prompt": "", **UNASKED}
"""And of one that begins anew."""
RECORDED: dict[str, object] = {"began": "", "began_head": "", "began_at": 0, "edited": ""}
"""And of one whose turn is recorded, up to its end."""
_KINDS = {name: type(getattr(Session(), name)) for name in Session.__annotations__}


def opening(prompt: str, redact: Callable[[str], str]) -> str:
    """Return the beginning of the first line of what the user said, redacted before it is cut: half a key could not be
    recognised. A prompt without any word of a secret is not given to ``redact``, which takes time."""
    from gitbaton.base.secrets.redactor import rows

    line = first_line(prompt)[:_LOOKED]
    return (redact(line) if len(line) > _OPENING or rows(line) else line)[:_OPENING]


def asked(session: Session, prompt: str, at: int, redact: Callable[[str], str]) -> dict[str, object]:
    """Return the changes of a session's state for a prompt at a moment: its words, redacted before they are cut."""
    from gitbaton.base.secrets.redactor import rows

    text = prompt.strip()[:_LOOKED]
    text = (redact(text) if len(text) > _ASKED or rows(text) else text)[:_ASKED]
    first: dict[str, object] = {} if session.asked_first else {"asked_first": text, "asked_first_at": at}
    return {**first, "asked_last": text, "asked_last_at": at} if text else {}


def load(repo: Repo, event: HookEvent) -> Session:
    """Read the state of an event's session; empty where nothing readable was left."""
    return _read(state_path(repo.own_dir, event.agent, event.session))


def last(repo: Repo, agent: Agent) -> tuple[Session, float] | None:
    """Return the state that an agent's session left in the work tree that it was in last, and when, in seconds since 1970; None
    where it left nothing, or that was pruned."""
    linked = os.path.join(repo.layout.common_dir, "worktrees")
    others = [os.path.join(linked, name, "baton") for name in names_in(linked)]
    paths = [state_path(folder, agent.name, agent.session) for folder in (repo.shared_dir, *others)]
    try:
        left = [(os.lstat(path).st_mtime, path) for path in paths if os.path.lexists(path)]
    except OSError:  # it was pruned meanwhile
        return None
    when, path = max(left, default=(0.0, ""))
    return (_read(path), when) if path else None


def at_work(repo: Repo, event: HookEvent) -> Iterator[tuple[HookEvent, Session, float]]:
    """Yield the other sessions of the same work tree with a turn that continues, or was cut short, as ``open_here`` has them:
    each said something lately, after another session recorded its turn, and no end of it was heard."""
    since = time.time() - AT_WORK
    others = (one for one in open_here(repo) if (one[0].agent, one[0].session) != (event.agent, event.session))
    return (one for one in others if one[2] > max(since, one[1].recorded + _TICK))


def open_here(repo: Repo) -> list[tuple[HookEvent, Session, float]]:
    """Return the sessions of a work tree with a turn of which no end was heard, that of the newest prompt first: an event that
    names each, its state, and when it said something last, in seconds since 1970."""
    return sorted((one for one in _known(repo, None) if one[1].open), key=lambda one: one[1].began_at, reverse=True)


def known(repo: Repo) -> list[tuple[HookEvent, Session, float]]:
    """Return the sessions of a work tree, also those that have ended, as ``open_here`` has them, the newest first."""
    return _known(repo, None, ended=True)


def unended(repo: Repo, event: HookEvent, tip: Stored | None) -> list[tuple[HookEvent, Session, float]]:
    """Return the sessions of a work tree that did not end and may have said more than a tip knows: an event that names each,
    what it left, and when it said something last, in seconds since 1970. That of an event first, if it goes on; the newest
    first."""
    own, goes_on = (event.agent, event.session), event.source in _GOES_ON
    found = [] if event.source == "clear" else _known(repo, event)
    return [one for one in found if (goes_on or (one[0].agent, one[0].session) != own) and _may_be_new(repo, *one, tip)]


def _may_be_new(repo: Repo, of: HookEvent, session: Session, at: float, tip: Stored | None) -> bool:
    """Whether a session said something after a tip was taken, or after the newest record that it knows of; or took something
    back."""
    if tip is None:
        return True
    c = tip.checkpoint
    if c.agent is not None and (c.agent.name, c.agent.session) == (of.agent, of.session):
        return session.open or _unread(repo, of, c.agent) or at > c.created.timestamp() + _AFTER
    return at > (c.observed.until if c.observed is not None and c.observed.until is not None else c.created).timestamp()


def _known(repo: Repo, event: HookEvent | None, *, ended: bool = False) -> list[tuple[HookEvent, Session, float]]:
    """Return the sessions of a work tree that did not end, or all, that of an event first, the others the newest first."""
    own, found = event and state_path(repo.own_dir, event.agent, event.session), []
    for path, when in _left(os.path.join(repo.layout.git_dir, "baton", "sessions")):
        session = _read(path)
        agent, _, name = os.path.basename(path).partition("-")
        if (session.ended and not ended) or agent not in NAMES:
            continue
        of = HookEvent(
            agent=agent,
            name="",
            moment="other",
            session=session.session or name,
            cwd=session.cwd or None,
            transcript=session.transcript or None,
        )
        found.append((of, session, max(when, written(session.transcript))))
    return sorted(found, key=lambda one: (state_path(repo.own_dir, one[0].agent, one[0].session) == own, one[2]), reverse=True)


def _left(folder: str) -> list[tuple[str, float]]:
    """Return the newest files that sessions have left in a folder, and when they were written."""
    try:  # no name of a session has a dot
        found = [(entry.path, entry.stat().st_mtime) for entry in os.scandir(folder) if "." not in entry.name]
    except OSError:  # nothing was left, or it was pruned meanwhile
        return []
    return sorted(found, key=lambda one: one[1], reverse=True)[:_MOST]


def written(path: str) -> float:
    """Return the time at which a file was last written, in seconds since 1970; 0 where there is none."""
    try:
        return os.lstat(path).st_mtime if path else 0.0
    except OSError:
        return 0.0


def due(auto: str, event: HookEvent, session: Session, now: float) -> bool:
    """Whether ``baton.auto`` wants a checkpoint at this event. Edits and requests to the model come in swarms: one in half a
    minute is enough, because the end of the turn follows."""
    least = _LEVEL.get(event.moment)
    if least is None or least > _LEVELS[auto]:
        return False
    return event.moment not in ("edit", "request") or not 0 <= now - session.taken < QUIET


def has_ended(repo: Repo, agent: Agent) -> bool:
    """Whether an agent's session has ended."""
    found = last(repo, agent)
    return found is not None and found[0].ended


def _read(path: str) -> Session:
    try:
        found = parse(read_regular(path, _MAX_BYTES))
    except (OSError, RecordError):
        return Session()
    known = {name: item for name, item in found.items() if name in _KINDS} if isinstance(found, dict) else {}
    return replace(Session(), **{name: item for name, item in known.items() if type(item) is _KINDS[name]})


def claim(repo: Repo, event: HookEvent, payload: bytes, caller: str, copies: Callable[[], int]) -> bool:
    """Note that a caller's hook heard of an event, and return whether none was before it: a client runs those of each of its
    levels and plugins, with one payload. A caller that hears the same once more than it has ``copies`` hears of another event.
    Raises OSError."""
    now, key = round(time.time() * 1000), f"{event.agent} {event.name} {len(payload)} {crc32(payload):x}"
    fd = lock_file(repo, os.path.join(repo.own_dir, "calls"))
    try:
        if os.fstat(fd).st_nlink > 1:  # a stranger's, too
            return True
        acquire(fd, None)
        found = [row for row in os.pread(fd, _MAX_BYTES, 0).decode("ascii", "replace").splitlines() if _CALL.match(row)]
        rows = [row.split("\t") for row in found if abs(now - int(row.partition("\t")[0])) < _CALLED][-_CALLS:]
        before = [row for row in rows if row[1] == key]
        newest = max((int(row[3]) for row in before), default=0)
        own = [row for row in before if row[2] == caller]
        ends = not own or now - int(own[-1][0]) > _BESIDE or sum(row[3] == own[-1][3] for row in own) >= copies()
        number = max(int(own[-1][3]) + ends if own else 1, newest)  # rows go with time, and their numbers go on
        data = "".join("\t".join(row) + "\n" for row in [*rows, [str(now), key, caller, str(number)]]).encode()
        os.ftruncate(fd, os.pwrite(fd, data, 0))  # a file that is emptied first costs 2 ms
        return number > newest
    finally:
        os.close(fd)


def note(repo: Repo, event: HookEvent, **changes: object) -> None:
    """Leave what another session has found out of one: that is no sign of life of it. Raises OSError."""
    path = state_path(repo.own_dir, event.agent, event.session)
    with suppress(OSError):
        found = os.lstat(path)
        save(repo, event, **changes)
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)


def follow(repo: Repo, folder: str, names: Mapping[Oid, Oid]) -> None:
    """Rename checkpoints in the states of sessions, by the ``folder`` of their work tree; that is no sign of life of them. A
    state that cannot be written stays: a checkpoint knows its earlier ids."""
    for path, _ in _left(os.path.join(folder, "sessions")):
        session = _read(path)
        now = {name: names[was] for name in _NAMING if (was := getattr(session, name)) in names}
        if now:
            with suppress(OSError, BatonError):
                found = os.lstat(path)
                _write(repo, path, replace(session, **now))
                os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)


def forget(repo: Repo, path: str, gone: Callable[[float], bool], lines: Mapping[str, float]) -> None:
    """Remove from a state what the user said at moments that are ``gone``, in seconds since 1970, and first ``lines`` that they
    had not said again after such a moment; that is no sign of life of it. Raises OSError and BatonError."""
    session = _read(path)
    changes: dict[str, object] = {}
    for name, line in (("asked_first", "task"), ("asked_last", "prompt")):
        at: float = getattr(session, f"{name}_at") / 1000
        if (at and gone(at)) or at <= lines.get(getattr(session, line), -1):
            changes |= {name: "", f"{name}_at": 0, line: ""}
    if changes and session != (left := replace(session, **changes)):
        found = os.lstat(path)
        _write(repo, path, left)
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns), follow_symlinks=False)


def heard(repo: Repo, event: HookEvent) -> float:
    """Return the time of a session's last hook, in seconds since 1970; 0 where nothing was left."""
    return written(state_path(repo.own_dir, event.agent, event.session))


def with_edited(session: Session, paths: Iterable[str]) -> str:
    """Return the paths that the tools of a session edited, with some more."""
    found = [path for path in dict.fromkeys((*paths, *session.edited.split("\0"))) if path and path.isprintable()]
    sizes = accumulate(len(path.encode()) + len(r"\u0000") for path in found)
    return "\0".join(path for path, size in zip(found, sizes, strict=True) if size <= _MAX_EDITED)


def inside(paths: Iterable[str], root: str) -> dict[str, str]:
    """Return the paths of a client that lie in the work tree, also where it names them through a link, each with its path from
    the root."""
    tops = dict.fromkeys(top.rstrip("/") + "/" for top in (root, os.path.realpath(root)))
    resolved = cache(os.path.realpath)
    found: dict[str, str] = {}

    def below(there: str) -> str:
        return next((there[len(top) :] for top in tops if there.startswith(top)), "")

    for path in paths:
        if not path or "\0" in path:
            continue
        there = os.path.normpath(os.path.join(root, path))
        within = below(there) or below(os.path.join(resolved(os.path.dirname(there)), os.path.basename(there)))
        if within and within != ".git" and not within.startswith(".git/"):
            found[path] = within
    return found


def save(repo: Repo, event: HookEvent, **changes: object) -> Session:
    """Write changes of a session's state, beside what other hooks of it wrote meanwhile; return the new state. Only the user
    can read it, and those that the repository is shared with. Raises OSError."""
    before = load(repo, event)
    after = replace(before, **changes)
    path = state_path(repo.own_dir, event.agent, event.session)
    if after != before:
        _write(repo, path, after)
    else:
        with suppress(OSError):
            if has_folder(repo, os.path.dirname(path)) and os.lstat(path).st_nlink == 1:
                os.utime(path, follow_symlinks=False)  # its time says in which work tree the session was last
    return after


def _write(repo: Repo, path: str, session: Session) -> None:
    document: dict[str, Json] = {
        name: getattr(session, name) for name in _KINDS if name not in _LATER or getattr(session, name)
    }
    put(repo, path, canonical(document), fresh=f".{os.getpid()}", mode=0o600)


def facts_path(repo: Repo, event: HookEvent) -> str:
    """Return the file with what is known of the work of an event's session."""
    return state_path(repo.own_dir, event.agent, event.session) + FACTS


def _unread(repo: Repo, of: HookEvent, agent: Agent) -> bool:
    """Whether the records of a session are others than its checkpoint knows of, as far as that can be said without reading
    them. Those in a client's database may be."""
    if of.transcript is None:
        return of.agent in DATABASES
    try:
        known, size = parse_transcript(agent.transcript), os.stat(of.transcript).st_size
        if known is not None:
            return size != known.size
        found: Any = parse(read_regular(facts_path(repo, of), _MAX_FACTS))
        return bool(size != found["at"])
    except (OSError, RecordError, LookupError, TypeError, ValueError):
        return False


def tenth_edit(repo: Repo, event: HookEvent) -> float:
    """Return the time of the tenth-newest edit of an event's session, in seconds since 1970; 0 where there were fewer."""
    try:
        found: Any = parse(read_regular(facts_path(repo, event), _MAX_FACTS))
        edits = found["facts"]["edits"]
        return int(edits[0]) / 1000 if len(edits) >= EDITS else 0.0
    except (OSError, RecordError, LookupError, TypeError, ValueError):
        return 0.0


def prune(repo: Repo) -> None:
    """Remove what sessions of two weeks ago left. Never raises."""
    since = time.time() - KEPT_SECONDS
    clear_old(repo, os.path.join(repo.own_dir, "sessions"), lambda _, found: S_ISREG(found.st_mode) and found.st_mtime < since)


def turn(session: Session) -> Turn:
    """Return the beginning of a session's turn, as its checkpoints record it."""
    return Turn(began=session.began or None, head=None if session.began else session.began_head or None)


def is_plain(session: str) -> bool:
    """Whether a session's id is the name of its file."""
    return _PLAIN.match(session) is not None


def state_path(folder: str, agent: str, session: str | None) -> str:
    """Return the file with the state of a session, in our ``folder`` of a work tree's git directory."""
    session = session or "none"
    if not is_plain(session):
        import hashlib

        session = hashlib.sha256(session.encode("utf-8", "surrogateescape")).hexdigest()[:40]
    return os.path.join(folder, "sessions", f"{agent}-{session}")
