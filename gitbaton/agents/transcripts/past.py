"""Past conversations: the sessions that a client has on record on this machine, where each worked, and the turns of one."""

from __future__ import annotations

import json
import os
import re
import stat
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import escape, iglob
from math import inf

from gitbaton.agents.client import Client, folder
from gitbaton.agents.records import MAX_LINE, may_tell, record_of
from gitbaton.agents.signs import Answered, Asked, Branch, CommandRun, Edited, Ended, Record, Said, Shown, Sign
from gitbaton.agents.transcripts.files import blocks, lines, measure, opened
from gitbaton.agents.transcripts.observing import selected
from gitbaton.base.errors import BatonError
from gitbaton.base.model import NO_TOKENS, Transcript, Usage
from gitbaton.base.system.files import kind_of, read_regular
from gitbaton.base.values import replace, value

_LINE = "baton.line"  # in a record while it is read: the number of its line
_CWD = b'"cwd"'
_MOST = 1_000_000  # rows of a database
_HEAD = 1 << 20  # bytes at the beginning of a transcript, in which it says whose it is
_MAX_PATH = 8192
_LONG = 64 << 10  # characters of one text that are held
_COMMITTING = re.compile(r"(?s)\bgit\b.*\b(?:commit|cherry-pick|revert|merge|rebase|am|pull)\b")
_COMMITTED = re.compile(r"(?m)^\[(?:[^\]\n]* )?([0-9a-f]{4,64})\] (.*)$")


@value
class PastSession:
    """A session that a client has on record: ``path`` is its file, empty where it is in a database; ``folder`` where it worked,
    as far as something beside its records says so; ``size``: bytes of its file."""

    client: str
    session: str
    path: str = ""
    folder: str = ""
    size: int = 0


@value
class ShownCommit:
    """A commit as ``git commit`` told of it in a command's output: the beginning of its id, and its subject; the command ran
    from ``since`` to ``until``, in seconds since 1970."""

    oid: str
    subject: str
    since: float
    until: float


@value
class PastTurn:
    """A turn of a past session. ``number`` counts the session's prompts from 1; ``since`` and ``until``: seconds since 1970;
    ``said``: the agent's last words in it; ``end``: how far the transcript had come; ``edited``: the paths that the client's
    own tools edited, as it names them, newest first; ``commits``: those that its commands told of; ``model``: the one that
    answered last, and ``usage``: the tokens of all requests, None where one does not tell."""

    number: int
    prompt: str
    since: float
    until: float
    said: str
    end: Transcript
    branch: str
    edited: tuple[str, ...]
    commits: tuple[ShownCommit, ...]
    model: str = ""
    usage: Usage | None = None


@value
class PastTurns:
    """The turns of a session in the folders that were asked for. ``elsewhere``: the places in its transcript between which
    others stand; ``position``: how far it goes; ``damaged``: lines that are no record; ``long``: those that
    are too long to be read as one."""

    turns: tuple[PastTurn, ...]
    elsewhere: tuple[tuple[int, int], ...]
    position: Transcript | None
    damaged: int
    long: int = 0


Within = Callable[[str], bool]


def find(of: Client, env: Mapping[str, str], problems: list[str]) -> Iterator[PastSession]:
    """Yield the sessions that a client has on record for this user. A link out of its folder is not followed, and only regular
    files are opened; what is left out for that is told to ``problems``."""
    query = of.sessions(env)
    for row in selected(query) if query is not None else ():
        yield PastSession(client=of.name, session=str(row["id"]), folder=str(row["folder"] or ""))
    top = folder(of, env)
    inside, known = os.path.realpath(top) + "/", set[str]()
    for pattern in of.files:
        for path in sorted(iglob(f"{escape(top)}/{pattern.format('*', '*')}")):
            real = os.path.realpath(path)
            if not real.startswith(inside):
                problems.append(f"'{path}' leads out of the client's folder, and is not followed")
                continue
            try:
                found = os.lstat(real)
            except OSError:
                continue
            if not stat.S_ISREG(found.st_mode):
                problems.append(f"'{path}' is {kind_of(found.st_mode)}, and no transcript")
            elif real not in known:
                known.add(real)
                yield PastSession(client=of.name, session=_named(pattern, path, top), path=real, size=found.st_size)


def _named(pattern: str, path: str, top: str) -> str:
    """Return the session that a file is named after; empty where its name has only the beginning of one."""
    form = re.escape(pattern).replace(r"\*", "[^/]*").replace(r"\{0\}", "([A-Za-z0-9_-]{36}|[A-Za-z0-9_-]{1,128})")
    match = re.fullmatch(re.sub(r"\\\[(.*?)\\\]", r"[\1]", form).replace(r"\{1\}", "[^/]*"), os.path.relpath(path, top))
    return match[1] if match and match.groups() else ""


def placed(of: Client, one: PastSession, tops: Sequence[str], digests: Mapping[str, str]) -> PastSession | None:
    """Return a session with what the beginning of its file says of it, where it may have worked below one of some folders; None
    where it has not, or is a subagent's. ``digests``: the folders by the digests of their paths. Its whole file is searched for
    the folders' names, and nothing of it taken apart. Raises OSError."""
    if not one.path:
        return one
    fd = opened(one.path)
    if fd is None:
        raise OSError(0, "it is not a file, or cannot be read")
    with open(fd, "rb"):
        located = of.located(_first(fd))
        if located.child or os.path.basename(one.path).startswith("agent-"):
            return None
        one = replace(one, session=located.session or one.session)
        if of.rooted:
            return replace(one, folder=_rooted(of, one.path) or digests.get(located.digest, ""))
        names = {name for top in tops for name in (json.dumps(top)[1:-1], json.dumps(top, ensure_ascii=False)[1:-1])}
        return one if names and _mentions(fd, [name.encode("utf-8", "surrogatepass") for name in names]) else None


def _rooted(of: Client, path: str) -> str:
    try:
        beside = os.path.join(os.path.dirname(os.path.dirname(path)), of.rooted)
        return os.fsdecode(read_regular(beside, _MAX_PATH)).strip("\n")
    except OSError:
        return ""


def _first(fd: int) -> Record:
    return record_of(next(lines(fd, 0, _HEAD), b"")) or {}


def _mentions(fd: int, names: Sequence[bytes]) -> bool:
    """Whether a file holds any of some names."""
    longest, rest = max(map(len, names), default=0), b""
    for block in blocks(fd, 0, os.fstat(fd).st_size):
        data = rest + block
        if any(name in data for name in names):
            return True
        rest = data[-longest:]
    return False


def row_lines(of: Client, session: str, env: Mapping[str, str], until: float = inf) -> Iterator[bytes]:
    """Yield what a database holds of a session, up to a time in seconds since 1970: its records, one a line."""
    query = of.rows(session, 0, env, _MOST)
    for row in reversed(selected(query)) if query is not None else ():
        (record, _), at = of.record(dict(row)), row["time_created"]
        if record is not None and not (isinstance(at, (int, float)) and at > until * 1000):
            yield json.dumps(record, separators=(",", ":")).encode() + b"\n"


def write_rows(of: Client, session: str, env: Mapping[str, str], path: str) -> None:
    """Write what a database holds of a session into a new file. Raises OSError."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.writelines(row_lines(of, session, env))


def turns(of: Client, one: PastSession, within: Within) -> PastTurns:
    """Return the turns of a session in which it worked ``within`` some folder. Raises BatonError where its file cannot be read
    or is too large."""
    fd = opened(one.path)
    if fd is None:
        raise BatonError("it is not a file, or cannot be read")
    with open(fd, "rb"):
        position = measure(fd, of.name, None)
        if position is None:
            return PastTurns(turns=(), elsewhere=(), position=None, damaged=0)
        reading = _Reading(of, one.folder, os.fstat(fd).st_mtime)
        reading.read(fd, position.size)
    return reading.turns(position, within)


class _TurnRead:
    """A turn while it is read: where it begins, and what was seen in it."""

    def __init__(self, number: int, line: int, text: str, at: float) -> None:
        self.number, self.line, self.text, self.since, self.until = number, line, text, at, at
        self.said = ""
        self.edited = dict[str, None]()
        self.commits: list[ShownCommit] = []
        self.model, self.answers = "", dict[str, Usage | None]()

    def used(self) -> Usage | None:
        """The tokens of its requests; None where they are not known of all."""
        known = [usage for usage in self.answers.values() if usage is not None]
        return sum(known, NO_TOKENS) if known and len(known) == len(self.answers) else None


def _bounded(found: object) -> object:
    """Return a part of a record with the middle cut out of long texts: images and whole files, and all records are held."""
    if isinstance(found, dict):
        return {key: _bounded(item) for key, item in found.items()}
    if isinstance(found, list):
        return [_bounded(item) for item in found]
    return found[: _LONG // 2] + found[-_LONG // 2 :] if isinstance(found, str) and len(found) > _LONG else found


class _Reading:
    """A transcript while it is read: where its lines end, the places and branches that it tells of, by line, its records."""

    def __init__(self, of: Client, place: str, written: float) -> None:
        self.of, self.damaged, self.long, self.written = of, 0, 0, written
        self.ends = array("q", [0])
        self.places: list[tuple[int, str]] = [(0, place)] if place else []
        self.branches: list[tuple[int, str]] = []
        self.records: list[Record] = []

    def read(self, fd: int, size: int) -> None:
        for number, line in enumerate(lines(fd, 0, size)):
            self.ends.append(self.ends[-1] + len(line))
            tells = may_tell(self.of, line)
            if not (tells or _CWD in line):
                continue
            record = record_of(line)
            if record is None:
                self.damaged += len(line) <= MAX_LINE
                self.long += len(line) > MAX_LINE
                continue
            located = self.of.located(record)
            if located.folder and not (self.places and self.places[-1][1] == located.folder):
                self.places.append((number, located.folder))
            if located.branch and not (self.branches and self.branches[-1][1] == located.branch):
                self.branches.append((number, located.branch))
            if tells:
                light = self.of.light(record)
                try:
                    bounded = light if len(line) <= _LONG else {key: _bounded(found) for key, found in light.items()}
                except RecursionError:
                    self.damaged += 1
                    continue
                self.records.append({**bounded, _LINE: number})

    def _signs(self) -> Iterator[tuple[int, Sign]]:
        """Yield the signs on the branch that counts, each with the number of its line; a prompt's is that of the first line
        that shows it, for some clients write it twice."""
        records = self.of.sift(self.records)
        self.records, line = [], 0
        first: int | None = None
        kept = Branch([self.of.step(record) for record in records], above=False).kept
        for record, counts in zip(records, kept, strict=True):
            found = record.get(_LINE)
            line = found if isinstance(found, int) else line
            for part in self.of.read(record) if counts else ():
                if isinstance(part, Shown):
                    first = line if part.who == "user" and first is None else first
                else:
                    yield line if first is None or not isinstance(part, Asked) else first, part
                    first = None

    def turns(self, position: Transcript, within: Within) -> PastTurns:
        found: list[_TurnRead] = []
        runs: dict[str, CommandRun] = {}
        last, first = self.written, True
        for line, sign in self._signs():
            at = sign.at if sign.at is not None else (self.written if first else last)
            last, first = at, False
            if isinstance(sign, Asked) and (not sign.kind or not found):
                if found and (found[-1].text, found[-1].since) == (sign.text, at):
                    continue  # a history that was written again
                found.append(_TurnRead(len(found) + 1, line, sign.text, at))
            elif found:
                found[-1].until = max(found[-1].until, at)
                self._seen(found[-1], sign, at, runs)
        ends = [*(turn.line for turn in found), len(self.ends) - 1][1:]
        made, elsewhere = list[PastTurn](), list[tuple[int, int]]()
        for turn, end in zip(found, ends, strict=True):
            if self._is_within(turn.line, end, within):
                made.append(self._turn(turn, end, position))
            else:
                elsewhere.append((self.ends[turn.line], self.ends[end]))
        return PastTurns(turns=tuple(made), elsewhere=tuple(elsewhere), position=position, damaged=self.damaged, long=self.long)

    @staticmethod
    def _seen(turn: _TurnRead, sign: Sign, at: float, runs: dict[str, CommandRun]) -> None:
        if isinstance(sign, Said):
            turn.said = sign.text
        elif isinstance(sign, Edited):
            turn.edited.pop(sign.path, None)
            turn.edited[sign.path] = None
        elif isinstance(sign, Answered):
            was = turn.answers.get(sign.key)
            turn.model = sign.model or turn.model
            turn.answers[sign.key] = was if sign.usage is None else sign.usage.most(was or NO_TOKENS)
        elif isinstance(sign, CommandRun):
            runs[sign.key] = sign
        elif isinstance(sign, Ended) and sign.key in runs and not sign.running:
            run = runs.pop(sign.key)
            if _COMMITTING.search(run.command):
                rows = _COMMITTED.findall(sign.output)
                since = run.at if run.at is not None else turn.since
                turn.commits += (ShownCommit(oid=oid, subject=text, since=since, until=at) for oid, text in rows)

    def _is_within(self, start: int, end: int, within: Within) -> bool:
        """Whether a session worked there in some of its lines."""
        before = [place for line, place in self.places if line <= start][-1:]
        return any(within(place) for place in dict.fromkeys([*before, *(p for n, p in self.places if start < n < end)]))

    def _turn(self, turn: _TurnRead, end: int, position: Transcript) -> PastTurn:
        size = self.ends[end]
        branch = next((name for line, name in reversed(self.branches) if line <= end), "")
        return PastTurn(
            number=turn.number,
            prompt=turn.text,
            since=turn.since,
            until=turn.until,
            said=turn.said,
            end=position if size == position.size else Transcript(size=size, lines=end),
            branch=branch,
            edited=tuple(reversed(turn.edited)),
            commits=tuple(turn.commits),
            model=turn.model,
            usage=turn.used(),
        )
