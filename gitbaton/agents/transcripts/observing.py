"""Observed facts: a session's records (its client's transcript and databases) read on from where the last look ended, and what
a checkpoint then holds of them, with what the one before it held."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import islice
from zlib import crc32

from gitbaton.agents import facts as folding
from gitbaton.agents.client import Client, Query, client
from gitbaton.agents.facts import Command, End, Facts, Test
from gitbaton.agents.records import may_tell, record_of, signs
from gitbaton.agents.signs import Answered, Asked, Branch, CommandRun, Edited, Looked, Planned, Record, Sign
from gitbaton.agents.transcripts.files import blocks, is_forgotten, lines_back, opened
from gitbaton.agents.transcripts.layout import transcript_ref
from gitbaton.agents.turns import Deed, one_line
from gitbaton.base.clients import DATABASES, HookEvent
from gitbaton.base.codec import Json, canonical, cut, first_line, in_quotes, middle, parse
from gitbaton.base.errors import RecordError, UsageError
from gitbaton.base.model import Action, Agent, ClientPlan, Observed, Oid, PlanItem, Prompt, Ran, Running, Stored, TestRun, Told
from gitbaton.base.system.files import read_regular
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store.sessions import inside, written
from gitbaton.git.repo import Repo, drop, put

if TYPE_CHECKING:
    from sqlite3 import Row
    from typing import Any

    from gitbaton.checkpoints.config import Observe

VERSION = 4
MOST = 32 << 20
"""Bytes of a transcript that one look reads, from its end."""
SECONDS = 0.11
"""For which one look reads; what it found is folded in as long again, at most."""
_HEAD = 256 << 10  # bytes at the beginning, where the task stands, of a transcript that is not read whole
_MARK = 256
_MAX_STATE = 2 << 20
_WAIT = 0.05  # seconds for which a client's database is waited for
_ROWS = 5000
_PLANS = 3
_EDITED_AFTER = 10
_TAKEN = 50
_EVER = 1e11
_CLOCK = 0.001  # seconds; a moment is kept in thousandths of one
_APART, _TICK = 10.0, 0.002  # seconds between the record of a prompt and its hook; and in which a time may be rounded
_AT_ONCE = 5.0  # and of one that was taken back
_COARSE = 0.05  # and in which the clock of files goes on
_CUT_OFF = ("StopFailure", "Interrupt")  # events at which a turn ends in its midst
_FEW = 60  # characters by which a prompt is known again
NOTHING = Told()


@value
class Seen:
    """State of a session's records. ``file``: the device and the number of its transcript, up to ``at`` read, and ``mark``, the
    checksum of what stands before; of a database the time of its newest row, and how many messages it had. ``leaf``: the key of
    the newest record that was read, of the branch that counts; ``linked``: whether records name the ones that they follow;
    ``taken``: from when to when was done what the user took back. ``partial``: a beginning was not reached. ``later``: how many
    prompts came after the end of the turn that is recorded; that is not kept."""

    facts: Facts
    file: tuple[int, int] = (0, 0)
    at: int = 0
    mark: int = 0
    leaf: str = ""
    linked: bool = False
    taken: tuple[tuple[float, float], ...] = ()
    partial: bool = False
    later: int = 0


@value
class Heard:
    """Prompts that hooks have heard of a session: ``prompts``, the newest last; ``at``: when the event came, in seconds since
    1970, now where that is None; ``late``: its client has gone on since."""

    prompts: tuple[Asked, ...] = ()
    at: float | None = None
    late: bool = False


def look(
    baton: Baton,
    event: HookEvent,
    path: str,
    heard: Heard | None = None,
    seconds: float | None = None,
    *,
    own: bool = True,
    read: bool = True,
) -> Seen:
    """Read on in the records of an event's session; the state is left in the file ``path`` for the next look. It reads for so
    many ``seconds``, SECONDS where None are given. ``own``: the session itself looks; where no words are kept another's look
    leaves nothing, for of a command that goes on nothing would be left for its own. ``read``: else records are left unread, and
    it is what the last look left, with the prompts of hooks, which are left for the next look where there are no records.

    A transcript that was replaced is read anew. What cannot be read, or is no record, tells nothing; a prompt and last words
    that are on no record are those that hooks have ``heard``. Raises ScanError where a text cannot be redacted, OSError where
    the file cannot be written.
    """
    before, heard = load(path), heard or Heard()
    now = baton.clock().timestamp()
    seen = before or Seen(facts=Facts())
    seen, found = _read_on(event, seen, seconds or SECONDS) if read else (seen, [])
    found = _with_prompts(client(event.agent), seen, found, heard.prompts)
    found = [
        replace(sign, path=os.path.join(event.cwd or "", sign.path)) if isinstance(sign, (Edited, Looked)) else sign
        for sign in found
    ]
    found = [
        replace(sign, cwd=os.path.join(event.cwd or "", sign.cwd)) if isinstance(sign, CommandRun) and sign.cwd else sign
        for sign in found
    ]
    end = None
    if event.moment in ("turn", "end"):
        sure = event.moment == "turn" and event.name not in _CUT_OFF
        words = (event.said or "") if sure else ""
        at = now if heard.at is None else heard.at
        end = End(at=at, words=words, sure=sure, running=event.running, late=bool(words) or heard.late)
    facts = folding.fold(seen.facts, found, baton.redactor.text, baton.settings.tests, now, end)
    plan = _plan_of(event, facts.beside) if read else None
    if plan is not None and (facts.plan is None or plan.items != facts.plan):
        facts = folding.fold(facts, [plan], baton.redactor.text, (), now)
    settings = baton.settings
    whole = settings.observe == "all" and settings.transcripts == "full"
    # What was forgotten of a conversation is still in its client's records, and not to be told apart where these are read anew.
    anew = before is None and read and _was_forgotten(baton.repo, event)
    facts = facts if whole and not anew else folding.unsaid(facts, asked=settings.observe == "all" and not anew)
    after = replace(seen, facts=facts)
    alone = not written(event.transcript or "") and event.agent not in DATABASES  # no record will tell of a prompt
    if after != before and (read or alone) and (own or whole):
        put(baton.repo, path, canonical(_document(after)), fresh=f".{os.getpid()}", mode=0o600)
    return replace(after, later=max(0, facts.turns - facts.heard) if end is not None else 0)


def _was_forgotten(repo: Repo, event: HookEvent) -> bool:
    try:
        return is_forgotten(repo, transcript_ref(event.agent, event.session or ""))
    except UsageError:  # under such a name nothing is kept
        return False


def _with_prompts(of: Client | None, seen: Seen, found: list[Sign], prompts: Sequence[Asked]) -> list[Sign]:
    """The signs of records, and prompts that they do not have, each before what is later. Where there are records, the newest
    prompt may not be on one yet; an older one that is not was taken back, or is none. Where there are none, what is not newer
    than the newest that is known was taken in by an earlier look."""
    facts, recorded = seen.facts, bool(found) or seen.at > 0
    newest = facts.latest.at + _TICK if facts.latest is not None and not recorded else 0.0
    earlier = {_known_by(prompt.text) for prompt in prompts[:-1]}
    for prompt in prompts[-1:] if recorded else prompts:
        at = prompt.at or 0.0
        if at <= newest or any(since - _AT_ONCE <= at <= until for since, until in seen.taken):
            continue
        said = list(of.heard(prompt.at, prompt.text)) if of is not None else [prompt]
        if recorded:
            begun = {_known_by(sign.text) for sign in said if isinstance(sign, Asked)}
            known = [(one.at or 0.0, one.text) for one in found if isinstance(one, Asked)]
            known += [(one.at, one.text) for one in (*facts.asked, facts.latest, facts.approved) if one is not None]
            ended = facts.heard_at  # what is on record before the end of a turn is no prompt that came after it
            own = [(one, _known_by(text)) for one, text in known if _known_by(text) not in earlier - begun]
            near = any(abs(one - at) < _APART and not one <= ended < at for one, _ in own)
            if near or any(one > at for one, _ in known) or any(text in begun for _, text in own):
                continue
        place = next((n for n, sign in enumerate(found) if sign.at is not None and sign.at >= at), len(found))
        found = [*found[:place], *said, *found[place:]]
    return found


def _known_by(text: str) -> str:
    return " ".join(text.split())[:_FEW]


def load(path: str) -> Seen | None:
    """Return the state that the last look left; None where nothing readable is."""
    try:
        found: Any = parse(read_regular(path, _MAX_STATE))
        facts, (device, inode) = folding.read(found["facts"]), found["file"]
        if found["v"] != VERSION or facts is None:
            return None
        file_id = int(device), int(inode)
        at, mark, leaf = int(found["at"]), int(found["mark"]), str(found["leaf"])
        linked, partial = found["linked"] is True, found["partial"] is True
        taken = tuple((since / 1000, until / 1000) for since, until in found["taken"])
        return Seen(facts=facts, file=file_id, at=at, mark=mark, leaf=leaf, linked=linked, taken=taken, partial=partial)
    except (OSError, RecordError, KeyError, TypeError, ValueError):
        return None


def forget(repo: Repo, path: str, gone: Callable[[float], bool]) -> None:
    """Remove from a state the words and commands of moments that are ``gone``; one that cannot be read goes. Raises OSError."""
    seen = load(path)
    if seen is None:
        with suppress(FileNotFoundError):
            drop(repo, path)
    elif (facts := folding.without(seen.facts, gone)) != seen.facts:
        put(repo, path, canonical(_document(replace(seen, facts=facts))), fresh=f".{os.getpid()}", mode=0o600)


def _document(seen: Seen) -> dict[str, Json]:
    where: dict[str, Json] = {"v": VERSION, "file": list(seen.file), "at": seen.at, "mark": seen.mark}
    where |= {
        "leaf": seen.leaf,
        "linked": seen.linked,
        "taken": [[int(since * 1000), int(until * 1000)] for since, until in seen.taken],
    }
    return {**where, "partial": seen.partial, "facts": folding.document(seen.facts)}


def _read_on(event: HookEvent, before: Seen, seconds: float) -> tuple[Seen, list[Sign]]:
    """Return the state where the records go on, and the signs that are new."""
    of = client(event.agent)
    if of is None:
        return before, []
    if event.session is not None and of.rows(event.session, 0, os.environ, _ROWS) is not None:
        return _rows_after(of, event.session, before)
    fd = opened(event.transcript)
    if fd is not None:
        with open(fd, "rb"), suppress(OSError):
            return _lines_after(fd, of, before, seconds)
    return before, []


def _lines_after(fd: int, of: Client, before: Seen, seconds: float) -> tuple[Seen, list[Sign]]:
    stat = os.fstat(fd)
    fresh = Seen(facts=Facts(), file=(stat.st_dev, stat.st_ino))
    same = before.file == fresh.file and 0 <= before.at <= stat.st_size and _mark(fd, before.at) == before.mark
    found = _branch_after(fd, of, before if same else fresh, stat.st_size, seconds)
    return found or _branch_after(fd, of, fresh, stat.st_size, seconds) or (fresh, [])


def _branch_after(fd: int, of: Client, seen: Seen, size: int, seconds: float) -> tuple[Seen, list[Sign]] | None:
    """Return the state and the new signs on the branch that counts; None where that does not go on from what was seen:
    something was taken back."""
    records, end, reached = _backwards(fd, of, seen.at, size, seconds)
    branch = Branch([of.step(record) for record in records], above=seen.at > 0 or not reached, linked=seen.linked)
    if seen.at and reached:
        known = branch.goes_on or (branch.from_key != "" and _stays(fd, of, seen, branch.from_key))
        if not known or branch.linked != seen.linked:
            return None
    told = [(sign, kept) for record, kept in zip(records, branch.kept, strict=True) for sign in signs(of, record)]
    found, taken = [sign for sign, kept in told if kept], (*seen.taken, *_taken(told))[-_TAKEN:]
    if not reached:
        found = [*(_head(fd, of) if seen.at == 0 else ()), Answered(at=None, key=""), *found]
    leaf, partial = branch.last or seen.leaf, seen.partial or not reached
    return replace(seen, at=end, mark=_mark(fd, end), leaf=leaf, linked=branch.linked, taken=taken, partial=partial), found


def _taken(told: Iterable[tuple[Sign, bool]]) -> Iterator[tuple[float, float]]:
    """From when to when was done what does not count: until what counts again, for last words are as late as their hook."""
    since = None
    for sign, kept in told:
        if sign.at is not None and kept and since is not None:
            yield since, sign.at
            since = None
        elif sign.at is not None and not kept:
            since = sign.at if since is None else min(since, sign.at)  # the clocks of two records of one thing may differ
    if since is not None:
        yield since, _EVER


def _stays(fd: int, of: Client, seen: Seen, key: str) -> bool:
    """Whether a record that was seen belongs to the newest turn, so that nothing was taken back where one follows it."""
    if key == seen.leaf:
        return True
    late = time.monotonic() + SECONDS
    for line in lines_back(fd, 0, seen.at):
        record = record_of(line) if may_tell(of, line) else None
        step = of.step(record) if record is not None else None
        if step is not None and (step.key == key or step.prompt):
            return step.key == key
        if time.monotonic() > late:
            break
    return False


def _mark(fd: int, at: int) -> int:
    return crc32(os.pread(fd, min(at, _MARK), max(0, at - _MARK)))


def _backwards(fd: int, of: Client, start: int, size: int, seconds: float) -> tuple[Sequence[Record], int, bool]:
    """The records between two places that may tell something, in their order; where the last one ends; and whether all of them
    could be read in the time there is. Read from the end: the newest are what counts."""
    late, low = time.monotonic() + seconds, max(start, size - MOST)
    rows = lines_back(fd, low, size)
    end = size - len(next(rows, b""))  # the last line may be half written
    found: list[Record] = []
    reached = low == start
    for line in rows:
        if may_tell(of, line) and (record := record_of(line)) is not None:
            found.append(of.light(record))
        if time.monotonic() > late:
            reached = False
            break
    return of.sift(found[::-1]), end, reached


def _head(fd: int, of: Client) -> Iterator[Sign]:
    """Yield what the user asked for at the beginning of a transcript."""
    data = b"".join(blocks(fd, 0, _HEAD))
    lines = (line for line in data.split(b"\n")[:-1] if may_tell(of, line))
    records = of.sift([record for line in lines if (record := record_of(line)) is not None])
    branch = Branch([of.step(record) for record in records], above=False)
    for record, kept in zip(records, branch.kept, strict=True):
        yield from (sign for sign in signs(of, record) if kept and isinstance(sign, Asked))


def _plan_of(event: HookEvent, beside: Container[object]) -> Planned | None:
    """The plan as the client's own database has it now, without the items ``beside`` it; None where it has none, or none was
    ever written there."""
    of = client(event.agent)
    query = of.plan(event.session, event.transcript, os.environ, _ROWS) if of is not None else None
    rows = [found for row in (selected(query) if query is not None else ()) if (found := dict(row)).get("id") not in beside]
    return of.planned(rows) if of is not None and rows else None


def _rows_after(of: Client, session: str, before: Seen) -> tuple[Seen, list[Sign]]:
    """Return the state and the new signs of a session that is kept in a database; all of them, where some were taken back."""
    left = _left(of, session, before.at) if before.at > 0 else None
    back = left is not None and left < before.mark
    seen = Seen(facts=Facts(), taken=before.taken) if back else before
    query = of.rows(session, seen.at, os.environ, _ROWS)
    rows = selected(query) if query is not None else []
    found: list[Sign] = []
    newest = seen.at
    for row in reversed(rows):
        record, at = of.record(dict(row))
        newest = max(newest, at if isinstance(at, int) else 0)
        found += signs(of, record) if record is not None else ()
    if back:
        times = sorted(sign.at for sign in found if sign.at is not None)
        since = max((at for at in times if at <= before.at / 1000), default=0.0) + _CLOCK * 2
        until = min((at for at in times if at > before.at / 1000), default=_EVER)
        seen = replace(seen, taken=(*seen.taken, (since, until))[-_TAKEN:])
    if len(rows) >= _ROWS:
        seen, found = replace(seen, partial=True), [Answered(at=None, key=""), *found]
    number = _left(of, session, newest)
    return replace(seen, at=newest, mark=seen.mark if number is None else number), found


def _left(of: Client, session: str, until: int) -> int | None:
    """Count the messages of a database up to a time; None where it cannot be read."""
    query = of.left(session, until, os.environ)
    return next((int(row["number"]) for row in (selected(query) if query is not None else ())), None)


def selected(query: Query) -> list[Row]:
    """Rows of a client's database, which is only read; none where it cannot be."""
    if not os.path.isfile(query.path):
        return []
    import sqlite3
    from urllib.parse import quote

    try:
        with closing(sqlite3.connect(f"file:{quote(query.path)}?mode=ro", uri=True, timeout=_WAIT)) as database:
            database.row_factory = sqlite3.Row
            return database.execute(query.sql, query.values).fetchall()
    except sqlite3.Error:
        return []


def last_deed(event: HookEvent) -> float:
    """Return when a session said or did something last, in seconds since 1970, as its file tells; 0 where it does not. What the
    user says counts for nothing."""
    of, fd = client(event.agent), opened(event.transcript)
    if of is None or fd is None:
        return 0.0
    late = time.monotonic() + SECONDS
    with open(fd, "rb"), suppress(OSError):
        for line in lines_back(fd, max(0, os.fstat(fd).st_size - MOST), os.fstat(fd).st_size):
            record = record_of(line) if may_tell(of, line) else None
            told = signs(of, record) if record is not None else ()
            found = [sign.at for sign in told if not isinstance(sign, (Answered, Asked))]
            if times := [at for at in found if at is not None]:
                return max(times)
            if time.monotonic() > late:
                break
    return 0.0


def model_now(event: HookEvent) -> str:
    """Return the model at work in a session, as the newest record that names one tells; empty where none is found in the time
    that one look has."""
    of = client(event.agent)
    if of is None:
        return ""
    query = of.rows(event.session, 0, os.environ, _FEW) if event.session is not None else None
    if query is not None:
        records = (record for row in selected(query) if (record := of.record(dict(row))[0]) is not None)
        return next(filter(None, map(of.model, records)), "")
    fd = opened(event.transcript)
    if fd is None:
        return ""
    late = time.monotonic() + SECONDS
    with open(fd, "rb"), suppress(OSError):
        for line in lines_back(fd, max(0, os.fstat(fd).st_size - MOST), os.fstat(fd).st_size):
            record = record_of(line) if may_tell(of, line) else None
            if record is not None and (model := of.model(record)):
                return model
            if time.monotonic() > late:
                break
    return ""


def moment(at: float) -> datetime:
    """A time of a record."""
    return datetime.fromtimestamp(max(0.0, min(at, 253402300799.0)), UTC)


@value
class Ground:
    """The work tree that facts are held against: its ``root``, its captured ``tree`` (None where it was not), and ``changed``,
    which gives the paths that differ from the checkpoint before, and when each was written, in seconds since 1970. ``shared``:
    another session is at work there, and they may be its changes. ``moved``: why the captured files may not be those of a run
    that began and ended then, empty where they are."""

    root: str
    tree: Oid | None
    changed: Callable[[], Mapping[str, float]]
    shared: bool = False
    moved: Callable[[float, float], str] = lambda began, ended: "the files were not captured"


def gather(mode: Observe, seen: Seen, agent: Agent, before: Stored | None, told: Told, ground: Ground) -> tuple[Observed, Told]:
    """Return what a checkpoint is to hold, and what stays beside the conversation. ``before``: the checkpoint that it follows:
    its facts of other sessions continue, marked as earlier; ``told``: what was said until then. What a stranger's holds is left
    to it."""
    own = before if before is not None and not before.foreign else None
    old = own.checkpoint.observed if own else None
    old, told = (old, told) if old is not None else (Observed(), NOTHING)
    # what was asked before words with a label is done
    facts, c = seen.facts, own.checkpoint if own is not None else None
    since = c.created if c is not None and c.kind == "manual" and c.label is not None else old.milestone
    same = _same_session(facts, agent, own, old)
    if seen.taken and same:
        old, told = _not_taken_back(seen, agent, old, told)
    if not same:
        old, told = replace(old, asked=tuple(replace(one, earlier=True) for one in old.asked)), _said_before(told)
    over = max((at for at in (since, _worded(own)) if at is not None), default=None)
    asked = _asked(facts, told.asked or old.asked, since) if mode == "all" else ()
    changed = _changed(facts, ground)
    edited, more = _edited(changed, old, ground, same=same)
    observed = Observed(
        plans=_plans(facts, agent, old.plans, over),
        tests=_tests(facts.tests, old.tests, ground),
        edited=edited,
        edited_more=more,
        asked=tuple(replace(one, text=cut(first_line(one.text), folding.ITEM), about="") for one in asked),
        turns=max(0, facts.turns - seen.later),
        said=old.said,
        milestone=since,
        until=moment(facts.until) if facts.until else old.until,
        partial=seen.partial,
    )
    if mode != "all":
        return replace(observed, said=None), NOTHING
    fresh = Told(
        asked=asked,
        latest=_maybe(facts.latest) or told.latest,
        approved=_maybe(facts.approved) or (told.approved if same else _after(told.approved, over)),
        listed=_maybe(facts.listed) or _after(told.listed, since),
        said=told.said if told.said is not None and (told.said.earlier or not same) else _maybe(facts.said) or told.said,
        worked=_maybe(facts.worked) or told.worked,
        commands=tuple(map(_ran, facts.commands)) or told.commands,
        checks=_checks(facts, told.checks, ground.root),
        read=(read := tuple(dict.fromkeys([*_inside(facts.read, ground.root), *told.read]))[: folding.READ]),
        found=_found(facts.found, ground.root, {*edited, *read}),
    )
    if not (facts.asked or facts.plan or facts.commands or changed):
        # It was only told to go on: what another session said and was at still is what there is to do.
        return observed, replace(fresh, texts=told.texts, actions=told.actions, error=told.error)
    running = [
        Running(text=_here(one_line(one.text) if one.kind == "ran" else one.text, ground.root), since=moment(one.at))
        for one in facts.calls
        if one.running
    ]
    texts = tuple(replace(one, text=cut(first_line(one.text), folding.LINE)) for one in facts.texts[:-1])
    return observed, replace(
        fresh,
        said=_maybe(facts.said) or told.said,
        texts=tuple(map(_prompt, (*texts, *facts.texts[-1:]))),
        actions=tuple(_action(deed, ground.root) for deed in facts.deeds),
        error=_error(facts, ground.root),
        running=tuple(running[-folding.RUNNING :]),
    )


def _found(names: Iterable[str], root: str, known: Container[str]) -> tuple[str, ...]:
    """The files of the work tree among the names that searches and commands named, but for those that are known."""
    others = (path for path in _inside(names, root) if path not in known)
    return tuple(islice((path for path in others if os.path.isfile(os.path.join(root, path))), folding.NAMED))


def _same_session(facts: Facts, agent: Agent, before: Stored | None, old: Observed) -> bool:
    """Whether a checkpoint holds facts of a session: its client took it, or the user was known to have asked the same."""
    by = before.checkpoint.agent if before is not None else None
    if by is not None:
        return (by.name, by.session) == (agent.name, agent.session)
    times = {round(one.at, 3) for one in facts.asked}
    return any(round(one.at.timestamp(), 3) in times for one in old.asked)


def _said_before(told: Told) -> Told:
    """Return what was said as of an earlier session."""

    def earlier(one: Prompt | None) -> Prompt | None:
        return None if one is None else replace(one, earlier=True)

    return replace(
        told,
        asked=tuple(replace(one, earlier=True) for one in told.asked),
        latest=earlier(told.latest),
        approved=earlier(told.approved),
        listed=earlier(told.listed),
        said=earlier(told.said),
        worked=earlier(told.worked),
        texts=tuple(replace(one, earlier=True) for one in told.texts),
    )


def _worded(before: Stored | None) -> datetime | None:
    """Return when words were written last."""
    if before is None:
        return None
    c = before.checkpoint
    return c.created if c.kind == "manual" else c.carried.created if c.carried is not None else None


def _not_taken_back(seen: Seen, agent: Agent, old: Observed, told: Told) -> tuple[Observed, Told]:
    """Return what the checkpoint before tells, without what its session's user took back since."""

    def stays(at: datetime | None) -> bool:
        return at is None or not any(since - _CLOCK <= at.timestamp() <= until for since, until in seen.taken)

    def here(one: Prompt | None) -> Prompt | None:
        return one if one is not None and stays(one.at) else None

    def mine(plan: ClientPlan) -> bool:
        return (plan.agent, plan.session) == (agent.name, agent.session)

    observed = replace(
        old,
        plans=tuple(plan for plan in old.plans if not mine(plan) or stays(plan.changed)),
        tests=tuple(run for run in old.tests if stays(run.ended)),
        asked=tuple(filter(here, old.asked)),
        edited=(),
        edited_more=0,
    )
    return observed, replace(
        told,
        asked=tuple(filter(here, told.asked)),
        latest=here(told.latest),
        approved=here(told.approved),
        listed=here(told.listed),
        said=here(told.said),
        worked=here(told.worked),
        texts=tuple(filter(here, told.texts)),
        commands=tuple(run for run in told.commands if stays(run.ended)),
        checks=tuple(run for run in told.checks if stays(run.ended)),
        error=told.error if told.error is not None and stays(told.error.ended) else None,
    )


def takes_back(seen: Seen, agent: Agent, before: Stored, told: Told) -> bool:
    """Whether a session's user took back something that its own checkpoint, with what was ``told`` then, tells of."""
    old = before.checkpoint.observed or Observed()
    if not seen.taken or not _same_session(seen.facts, agent, before, old):
        return False
    kept, still = _not_taken_back(seen, agent, old, told)
    return (replace(kept, edited=old.edited, edited_more=old.edited_more), still) != (old, told)


def _changed(facts: Facts, ground: Ground) -> dict[str, float]:
    """The files that a session changed, and when: those that its tools edited, and what else was written since it began and
    the checkpoint before was taken, by a shell or a subagent, where the session is alone."""
    found: dict[str, float] = {}
    places = inside((touched.path for touched in facts.edited), ground.root)
    for touched in reversed(facts.edited):
        if touched.path in places:
            found[places[touched.path]] = touched.at
    for path, at in ground.changed().items() if facts.begun and not ground.shared else ():
        if at >= facts.begun - _COARSE:
            found[path] = max(at, found.get(path, 0.0))
    return found


def _edited(changed: Mapping[str, float], old: Observed, ground: Ground, *, same: bool) -> tuple[tuple[str, ...], int]:
    """The files that the session changed, the newest first, and how many more; those of the session before, while it has
    changed none."""
    if not changed:
        return old.edited, old.edited_more
    before = [path for path in old.edited if same and path not in changed]  # what a shell changed is in no record
    times = {**changed, **{path: written(os.path.join(ground.root, path)) for path in before}}
    edited = sorted(times, key=lambda path: times[path], reverse=True)
    return tuple(edited[: folding.EDITED]), max(0, len(edited) - folding.EDITED)


def _asked(facts: Facts, told: Iterable[Prompt], since: datetime | None) -> tuple[Prompt, ...]:
    """Return what the user asked for in earlier sessions, marked so, and in this one. A prompt that a hook had heard is on
    record a moment later."""
    prompts = {True: list[folding.KeptPrompt](), False: list(facts.asked)}
    for one in told:
        at = one.at.timestamp()
        if not any(abs(known.at - at) < _APART and _known_by(known.text) == _known_by(one.text) for known in facts.asked):
            same = folding.KeptPrompt(at=at, text=one.text, size=len(one.text), kind=one.kind, about=one.about)
            prompts[one.earlier].append(same)
    later = {mark: [one for one in of if since is None or one.at > since.timestamp()] for mark, of in prompts.items()}
    kept = [(one, folding.OTHERS, True) for one, _ in folding.kept(later[True])[-folding.PROMPTS :]]
    kept += [(one, size, False) for one, size in folding.kept(later[False])]
    return tuple(_prompt(replace(one, text=middle(one.text, *size)), earlier=mark) for one, size, mark in kept)


def _prompt(said: folding.KeptPrompt, *, earlier: bool = False) -> Prompt:
    return Prompt(text=said.text, at=moment(said.at), kind=said.kind, about=said.about, earlier=earlier)


def _maybe(said: folding.KeptPrompt | None) -> Prompt | None:
    return None if said is None else _prompt(said)


def _after(said: Prompt | None, since: datetime | None) -> Prompt | None:
    return said if said is not None and (since is None or said.at > since) else None


def _here(text: str, root: str, size: int = folding.LINE) -> str:
    """A command line as one in the work tree."""
    for top in dict.fromkeys((root.rstrip("/"), os.path.realpath(root).rstrip("/"))):
        text = text.replace(f"{top}/", "")
    return cut(text, size)


def _action(deed: Deed, root: str) -> Action:
    edited = deed.kind == "edited"
    text = next(iter(_inside([deed.text], root)), deed.text) if edited else _here(deed.text, root)
    return Action(
        text=f"edited {text}" if edited else text,
        at=moment(deed.at),
        count=deed.count,
        status=deed.status if deed.ended and deed.status is not None and deed.status >= 0 else None,
        output=deed.output,
    )


def _checks(facts: Facts, told: Iterable[Ran], root: str) -> tuple[Ran, ...]:
    """The newest run of each of the last test, build and lint commands."""
    newer = (replace(check, command=_here(check.command, root)) for check in map(_ran, facts.checks))
    found = {ran.command: ran for ran in (*told, *newer)}
    return tuple(sorted(found.values(), key=lambda ran: ran.ended)[-folding.CHECKS :])


def _error(facts: Facts, root: str) -> Ran | None:
    """The newest failure that nothing has mended."""
    if not facts.failures:
        return None
    ran = _ran(facts.failures[-1].ran)
    return replace(ran, command=_here(ran.command, root))


def _ran(command: Command) -> Ran:
    return Ran(
        command=command.command,
        status=command.status if command.status is None or command.status >= 0 else None,
        started=None if command.started is None else moment(command.started),
        ended=moment(command.ended),
        output=command.output,
    )


def _plans(facts: Facts, agent: Agent, old: Sequence[ClientPlan], over: datetime | None) -> tuple[ClientPlan, ...]:
    """This session's plan and those of others, the newest first. Of another session's nothing is left where words, or a
    milestone, came ``over`` it."""
    others = [plan for plan in old if (plan.agent, plan.session) != (agent.name, agent.session)]
    found = [plan for plan in others if over is None or plan.changed > over]
    if facts.plan is None:
        found += [plan for plan in old if plan not in others]
    elif facts.plan:
        items = tuple(PlanItem(text=item.text, state=item.state or "open") for item in facts.plan)
        mine = ClientPlan(
            agent=agent.name, session=agent.session, changed=moment(facts.planned), items=items, title=facts.title
        )
        found.append(replace(mine, more=facts.more))
    return tuple(sorted(found, key=lambda plan: plan.changed, reverse=True)[:_PLANS])


def _inside(paths: Iterable[str], root: str) -> list[str]:
    return list(dict.fromkeys(inside(paths, root).values()))


def _tests(found: Sequence[Test], old: Sequence[TestRun], ground: Ground) -> tuple[TestRun, ...]:
    """Return the newest run of each command, the newest first; one that was told of already is told of as it was. A failure
    that a later success has mended is none any more; the run before one of an unknown result says more."""
    from gitbaton.agents.testing import mends

    runs = {run.command: run for run in reversed(old)}
    for test in reversed(found):
        last = runs.get(_here(test.command, ground.root, folding.ITEM))
        if last is not None and moment(test.ended) <= last.ended:
            continue  # each look at all the files is dear
        run = _run(test, ground)
        if last is None or run.result != "unknown" or last.result == "unknown":
            runs.pop(run.command, None)
            runs[run.command] = run
    newest = sorted(runs.values(), key=lambda run: run.ended)[::-1]  # of one moment, what was told last comes first
    passed = [run for run in newest if run.result == "passed"]
    mended = {
        run.command
        for run in newest
        if run.result == "failed" and any(one.ended > run.ended and mends(one.command, run.command) for one in passed)
    }
    return tuple(run for run in newest if run.command not in mended)[: folding.TESTS]


def _run(test: Test, ground: Ground) -> TestRun:
    later = (path for path, at in ground.changed().items() if at > test.ended)
    changed = list(dict.fromkeys([*_inside(test.changed, ground.root), *later]))
    lacks = _lacks(test, changed, ground) if test.result == "passed" else ""
    return TestRun(
        command=_here(test.command, ground.root, folding.ITEM),
        result=test.result,
        passed=test.passed,
        failed=test.failed,
        skipped=test.skipped,
        names=test.names,
        empty=test.empty,
        started=None if test.started is None else moment(test.started),
        ended=moment(test.ended),
        tree=ground.tree,
        edited=tuple(changed[:_EDITED_AFTER]),
        edited_more=max(0, len(changed) - _EDITED_AFTER),
        exact=test.result == "passed" and not lacks,
        lacks=lacks,
    )


def _lacks(test: Test, changed: Sequence[str], ground: Ground) -> str:
    """Say why a run that passed does not prove that all tests do with the captured files; empty where it does."""
    if test.lacks or not test.place:
        return test.lacks or "the folder that it ran in is not known"
    if os.path.realpath(test.place) != os.path.realpath(ground.root):
        return f"it ran in {in_quotes(_here(test.place, ground.root, folding.ITEM))}"
    if changed or test.started is None:
        return "files changed after it" if changed else "when it began is not known"
    return ground.moved(test.started, test.ended)
