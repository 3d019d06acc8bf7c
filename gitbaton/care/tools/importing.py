"""Import of clients' own transcripts: the sessions of this repository, planned; then their conversations, redacted, and a
record of each turn with the commits that its commands are seen to have made."""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import inf

from gitbaton.agents import transcripts
from gitbaton.agents.client import Client, client
from gitbaton.agents.records import MAX_LINE
from gitbaton.agents.transcripts import files, past
from gitbaton.agents.transcripts.past import PastSession, PastTurn, ShownCommit
from gitbaton.agents.transcripts.storing import Storing, stored_position
from gitbaton.base.clients import DATABASES, NAMES, HookEvent
from gitbaton.base.codec import counted, cut, encode, first_line, in_quotes, message, middle, transcript_text
from gitbaton.base.errors import BatonError
from gitbaton.base.model import BEFORE_PROMPT, TURN_ENDED, Agent, Checkpoint, ImportedTurn, Observed, Oid, Prompt, Stored, Turn
from gitbaton.base.values import replace, value
from gitbaton.care.tools.blaming import commits as commits_of
from gitbaton.care.tools.porting import named_commits
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store import imported, meta
from gitbaton.checkpoints.store.chain import append_to, root_objects
from gitbaton.checkpoints.store.join import Link, links, on_top
from gitbaton.checkpoints.store.provenance import IMPORTS
from gitbaton.checkpoints.store.sessions import inside
from gitbaton.checkpoints.store.write import NOBODY
from gitbaton.git import questions
from gitbaton.git.maintenance import tend
from gitbaton.git.objects import RefChange, new_object
from gitbaton.git.publish import publish

PART = 4 << 20  # bytes of a conversation that are stored at once, and then told of
_SLACK = 2.0  # seconds by which a commit's time, which is of whole ones, may differ from its command's
_AT_WORK = 900.0  # seconds since its last sign for which a session may be at work
_WORDS = (1500, 500)  # characters of a long text that are kept: of its beginning, of its end
_STEP = 300
_BEGUN = 60  # characters by which a prompt is known again
_EDITED = 1000


@value
class FoundTurn:
    """A turn that is to be recorded, with the ``commits`` that it made; ``instead``: the record of it that is there, made when
    it had not gone as far."""

    turn: PastTurn
    commits: tuple[Oid, ...] = ()
    instead: Oid | None = None


@value
class SessionImport:
    """Plan for one session: the ``turns`` to be recorded, how many are ``known`` already, and how many bytes of its transcript
    are stored. ``elsewhere``: the places in it between which stands what was said in other folders. ``grows``: some of it was
    imported before; ``going_on``: its last turn may not have ended, and is left out."""

    source: PastSession
    turns: tuple[FoundTurn, ...]
    known: int
    stored: int
    elsewhere: tuple[tuple[int, int], ...] = ()
    grows: bool = False
    going_on: bool = False

    @property
    def commits(self) -> int:
        """The number of commits that get their prompt."""
        return sum(len(one.commits) for one in self.turns)

    @property
    def fresh(self) -> int:
        """Bytes of its transcript that are to be stored."""
        return max(0, self.source.size - self.stored)


@value
class ImportPlan:
    """Plan of an import: the sessions with something new, oldest first; how many are ``there`` already, and how many were
    ``forgotten`` and stay so; how many of other folders were passed over; of how many the last turn may not have ended, and is
    left out; and what could not be read."""

    clients: tuple[str, ...]
    sessions: tuple[SessionImport, ...]
    there: int = 0
    forgotten: int = 0
    elsewhere: int = 0
    going_on: int = 0
    problems: tuple[str, ...] = ()


@value
class ImportResult:
    """Result of an import: the sessions that were taken in, with the turns, commits and bytes, and what was not."""

    sessions: int
    turns: int
    commits: int
    bytes: int
    problems: tuple[str, ...]


class _Places:
    """The folders of this repository: its work trees, those that are gone as far as git or a checkpoint knows, and others that
    were named."""

    def __init__(self, baton: Baton, named: Sequence[str]) -> None:
        layout = baton.repo.layout
        found = [
            layout.root or "",
            *(root for _, _, root in questions.worktrees(baton.repo)),
            *questions.gone_worktrees(baton.repo),
        ]
        found += [s.checkpoint.files.worktree.path for s in baton.store.tips().items if s.checkpoint.files and not s.foreign]
        found += map(os.path.abspath, named)
        both = (path for top in found if top for path in (os.path.normpath(top), os.path.realpath(top)))
        self.tops = tuple(dict.fromkeys(path for path in both if path != "/"))
        self.digests = {hashlib.sha256(os.fsencode(top)).hexdigest(): top for top in self.tops}
        self._known = dict[str, bool]()

    def within(self, place: str) -> bool:
        """Whether a folder is in this repository, and in no other one inside it."""
        if place not in self._known:
            self._known[place] = any(
                self._in(path) for path in dict.fromkeys((os.path.normpath(place), os.path.realpath(place)))
            )
        return self._known[place]

    def _in(self, path: str) -> bool:
        while path not in self.tops:
            if path == "/" or os.path.lexists(os.path.join(path, ".git")):
                return False
            path = os.path.dirname(path)
        return True


def clients_with_past() -> tuple[str, ...]:
    """Return the clients whose transcripts can be imported."""
    return tuple(name for name in NAMES if (of := client(name)) is not None and (of.files or name in DATABASES))


def plan(
    baton: Baton,
    clients: Iterable[str],
    env: Mapping[str, str],
    scratch: str,
    named: Sequence[str] = (),
    told: Callable[[int, int], None] = lambda done, total: None,
) -> ImportPlan:
    """Plan the import of what some clients have on record of this repository, in its work trees and in the folders ``named``.
    Stores nothing; what a client keeps in a database is written into the folder ``scratch``. ``told``: how many of the sessions
    were looked at.

    Raises BatonError where conversations, or what was asked, are not to be stored here, or the user's home is not known.
    """
    settings = baton.settings
    for key, given, wanted in (("transcripts", settings.transcripts, "full"), ("observe", settings.observe, "all")):
        if given != wanted:
            hint = f"'git -c baton.{key}={wanted} baton import --all --dry-run' shows what it would be"
            raise BatonError(f"nothing is imported: baton.{key} is {in_quotes(given)}", hint)
    if not env.get("HOME", "").startswith("/"):
        raise BatonError("HOME does not name a folder, so nobody knows where clients keep their transcripts")
    planning = _Planning(baton, _Places(baton, named), env, scratch)
    names = tuple(dict.fromkeys(clients))
    for name in names:
        of = client(name)
        assert of is not None
        found = list(past.find(of, env, planning.problems))
        for number, one in enumerate(found):
            told(number, len(found))
            planning.session(of, one)
    return planning.made(names)


class _Planning:
    """An import while it is planned, session by session."""

    def __init__(self, baton: Baton, places: _Places, env: Mapping[str, str], scratch: str) -> None:
        self.baton, self.places, self.env, self.scratch = baton, places, env, scratch
        self.problems, self.found = list[str](), list[SessionImport]()
        self.there = self.forgotten = self.elsewhere = self.going_on = 0
        self.now = baton.clock().timestamp()
        kept = baton.store.whole().items
        self.hooked = _hooked(s.checkpoint for s in kept)
        self.records = dict[tuple[str, str], list[Stored]]()
        self.told = dict[tuple[int, str], tuple[str, str]]()
        for stored in imported.records(baton.store).items:
            agent, turn = stored.checkpoint.agent, stored.checkpoint.imported
            if agent is not None and agent.session is not None and turn is not None and not stored.foreign:
                key = agent.name, agent.session
                self.records.setdefault(key, []).append(stored)
                self.told[_known_by(turn.since.timestamp(), turn.prompt)] = key
        for c in (s.checkpoint for s in kept if not s.foreign):
            for one in c.observed.asked if c.observed is not None else ():
                if c.agent is not None and c.agent.session is not None:
                    self.told.setdefault(_known_by(one.at.timestamp(), one.text), (c.agent.name, c.agent.session))

    def session(self, of: Client, one: PastSession) -> None:
        """Plan one session; what cannot be read is named, and stops no other."""
        try:
            placed = past.placed(of, one, self.places.tops, self.places.digests)
            if placed is None or (placed.folder and not self.places.within(placed.folder)):
                self.elsewhere += 1
            elif files.is_forgotten(self.baton.repo, transcripts.transcript_ref(placed.client, placed.session)):
                self.forgotten += 1
            else:
                self._read(of, placed if placed.path else self._written(of, placed))
        except (BatonError, OSError) as error:
            why = error.message if isinstance(error, BatonError) else error.strerror
            self.problems.append(f"session {in_quotes(one.session or one.path)} of {one.client} is left out: {why}")

    def _written(self, of: Client, one: PastSession) -> PastSession:
        path = os.path.join(self.scratch, f"{one.client}-{len(os.listdir(self.scratch))}")
        past.write_rows(of, one.session, self.env, path)
        return replace(one, path=path, size=os.stat(path).st_size)

    def _read(self, of: Client, one: PastSession) -> None:
        key, read = (one.client, one.session), past.turns(of, one, self.places.within)
        named = f"of session {in_quotes(one.session)} of {one.client}"
        if read.damaged:
            are = "is no record, and tells" if read.damaged == 1 else "are no records, and tell"
            self.problems.append(f"{counted(read.damaged, 'line')} {named} {are} nothing")
        if read.long:
            size = f"longer than {MAX_LINE >> 20} MiB, and"
            are = f"is {size} tells" if read.long == 1 else f"are {size} tell"
            self.problems.append(f"{counted(read.long, 'line')} {named} {are} nothing: no prompt, no edit, no answer")
        if not read.turns:
            self.elsewhere += bool(read.elsewhere)
            return
        known = {
            round(s.checkpoint.imported.since.timestamp(), 3): s for s in self.records.get(key, []) if s.checkpoint.imported
        }
        hooks, fresh, last = self.hooked.get(key, []), list[FoundTurn](), read.turns[-1]
        ends = [*(turn.since for turn in read.turns[1:]), inf]
        for turn, end in zip(read.turns, ends, strict=True):
            at = bisect_left(hooks, turn.since)
            said = self.baton.redactor.text(first_line(turn.prompt))
            whose = self.told.setdefault(_known_by(turn.since, said), key)
            if (at < len(hooks) and hooks[at] < end) or whose != key:
                continue
            record = known.get(round(turn.since, 3))
            if record is None or record.checkpoint.created.timestamp() < turn.until - 0.001:
                fresh.append(FoundTurn(turn=turn, instead=record.id if record is not None else None))
        going_on = bool(fresh) and fresh[-1].turn is last and self.now - last.until < _AT_WORK
        fresh = fresh[:-1] if going_on else fresh
        if not fresh:
            self.there += not going_on
            self.going_on += going_on
            return
        position = stored_position(self.baton, *key)
        self.found.append(
            SessionImport(
                source=one,
                turns=tuple(fresh),
                known=len(read.turns) - len(fresh) - going_on,
                stored=position.size if position is not None else 0,
                elsewhere=read.elsewhere,
                grows=bool(known),
                going_on=going_on,
            )
        )

    def made(self, names: tuple[str, ...]) -> ImportPlan:
        """Return the plan, the commits of all turns looked up at once."""
        shown = [shown for one in self.found for found in one.turns for shown in found.turn.commits]
        made, forgotten = _verified(self.baton, shown), meta.read(self.baton.store).forgotten
        sessions, claimed = list[SessionImport](), set[Oid]()
        for one in sorted(self.found, key=lambda one: one.turns[0].turn.since):
            rows = []
            for found in one.turns:
                oids = dict.fromkeys(oid for shown in found.turn.commits for oid in made.get(shown, ()) if oid not in claimed)
                claimed |= oids.keys()
                rows.append(replace(found, commits=tuple(oids)))
            one = replace(one, turns=tuple(rows))
            if forgotten:
                kept = [found for found, ids in _ids(self.baton, one) if forgotten.isdisjoint(ids)]
                self.there += not kept
                one = replace(one, turns=tuple(kept), known=one.known + len(rows) - len(kept))
            sessions += [one] if one.turns else []
        return ImportPlan(
            clients=names,
            sessions=tuple(sessions),
            there=self.there,
            forgotten=self.forgotten,
            elsewhere=self.elsewhere,
            going_on=self.going_on + sum(one.going_on for one in sessions),
            problems=tuple(self.problems),
        )


def _known_by(since: float, prompt: str) -> tuple[int, str]:
    """Return what tells a turn from all others, its prompt redacted: a session that was forked, or written back here, begins
    with a copy of another's, also of another client's. What is written back has its times cut to milliseconds."""
    return round(since * 1e6) // 1000, first_line(prompt)[:_BEGUN]


def _hooked(every: Iterable[Checkpoint]) -> dict[tuple[str, str], list[float]]:
    """Return when hooks took checkpoints in the turns of each session, ascending."""
    found: dict[tuple[str, str], list[float]] = {}
    for c in every:
        if c.kind == "auto" and c.step != BEFORE_PROMPT and c.agent is not None and c.agent.session is not None:
            found.setdefault((c.agent.name, c.agent.session), []).append(c.created.timestamp())
    return {key: sorted(times) for key, times in found.items()}


def _verified(baton: Baton, shown: Sequence[ShownCommit]) -> dict[ShownCommit, tuple[Oid, ...]]:
    """Return the commits here that commands made: of the same subject, and with the time of the command. One that was rewritten
    since keeps its subject and its author's time, and is known by these."""
    if not shown:
        return {}
    whole = named_commits(baton, {one.oid for one in shown})
    known = {one.oid: one for one in commits_of(baton, whole.values())}
    listed = _listed(baton, min(one.since for one in shown))
    found: dict[ShownCommit, tuple[Oid, ...]] = {}
    for one in shown:
        oid = whole.get(one.oid)
        same = known.get(oid or "")
        made = [] if same is None or same.summary != one.subject or not _in_time(one, same.created.timestamp()) else [same.oid]
        if not made or made[0] not in listed.oids:
            made += [oid for oid, at in listed.subjects.get(one.subject, ()) if _in_time(one, at) and oid not in made]
        found[one] = tuple(made)
    return found


def _in_time(one: ShownCommit, at: float) -> bool:
    return one.since - _SLACK <= at <= one.until + _SLACK


@value
class _Listed:
    """The commits of the user's refs: their ids, and by subject each with its author's time."""

    oids: frozenset[Oid]
    subjects: Mapping[str, Sequence[tuple[Oid, float]]]


def _listed(baton: Baton, since: float) -> _Listed:
    """Return the commits that the user's refs reach and that are not older."""
    ours = [f"--exclude={glob}" for glob in ("refs/baton/*", "refs/checkpoints/*", "refs/notes/*")]
    words = (
        "log",
        f"--since={int(since - _SLACK)}",
        "--encoding=UTF-8",
        "--no-color",
        "--no-show-signature",
        "--format=%H %at %s",
    )
    told = baton.repo.git.run(*words, *ours, "--all")
    subjects: dict[str, list[tuple[Oid, float]]] = {}
    oids: list[Oid] = []
    for row in told.out.decode("utf-8", "replace").split("\n") if told.code == 0 else ():
        oid, _, rest = row.partition(" ")
        at, _, subject = rest.partition(" ")
        if at.isdecimal():
            oids.append(oid)
            subjects.setdefault(subject, []).append((oid, float(at)))
    return _Listed(oids=frozenset(oids), subjects=subjects)


def apply(baton: Baton, made: ImportPlan) -> ImportResult:
    """Carry a plan out, session by session, the conversation before the records that name it; to be killed in between and
    called again comes to the same. What could not be taken in is told, and stops nothing else."""
    problems, total = list[str](), sum(one.fresh for one in made.sessions)
    sessions = turns = commits = done = 0
    for one in made.sessions:
        before = done

        def told(size: int, one: SessionImport = one, before: int = before) -> None:
            baton.repo.progress("storing bytes", before + size - one.stored, total)

        told(one.stored)
        try:
            problems += _store(baton, one, told)
            _record(baton, one)
        except (BatonError, OSError) as error:
            why = error.message if isinstance(error, BatonError) else error.strerror
            problems.append(f"session {in_quotes(one.source.session)} of {one.source.client} is not imported: {why}")
            continue
        finally:
            baton.repo.clear()  # what is published need not lie here a second time
        sessions, turns, commits, done = sessions + 1, turns + len(one.turns), commits + one.commits, before + one.fresh
    if sessions:
        tend(baton.repo)
    return ImportResult(sessions=sessions, turns=turns, commits=commits, bytes=done, problems=tuple(problems))


def _store(baton: Baton, one: SessionImport, told: Callable[[int], None]) -> list[str]:
    """Store the conversation of a session, redacted; what of it could not be. Raises ScanError."""
    said: list[str] = []
    event = HookEvent(
        agent=one.source.client, name="import", moment="other", session=one.source.session, transcript=one.source.path
    )
    transcripts.record(baton, event, "full", None, said.append, inf, Storing(part=PART, told=told, without=one.elsewhere))
    return [f"session {in_quotes(one.source.session)} of {one.source.client}: {text}" for text in said]


def _links(baton: Baton, one: SessionImport) -> Iterator[tuple[FoundTurn, Link]]:
    """Yield the turns of a session, each with its record, redacted; its id follows from transcript and commits alone."""
    algorithm, last = baton.repo.layout.algorithm, datetime.min.replace(tzinfo=UTC)
    tree = root_objects(algorithm)[0].oid
    for found in one.turns:
        c = baton.redactor.checkpoint(_checkpoint(baton, one.source, found, last))
        raw, last = encode(c), c.created
        oid, author = new_object(algorithm, "blob", raw).oid, NOBODY + b" %d +0000" % int(c.created.timestamp())
        yield found, Link(id=oid, created=c.created, message=message(c.step, raw), tree=tree, base=None, author=author)


def _ids(baton: Baton, one: SessionImport) -> Iterator[tuple[FoundTurn, tuple[Oid, Oid]]]:
    """Yield the turns of a session, each with the ids by which it may be known as forgotten."""
    algorithm, of = baton.repo.layout.algorithm, one.source
    for found, link in _links(baton, one):
        yield found, (link.id, imported.tombstone(algorithm, of.client, of.session, _time(found.turn.since)))


def _record(baton: Baton, one: SessionImport) -> None:
    """Record the turns of a session, in the order of time with those that are there."""
    store, source = baton.store, one.source
    ref, track = imported.imported_ref(source.client, source.session), imported.track_name(source.client)
    root, gone = root_objects(baton.repo.layout.algorithm), {found.instead for found in one.turns}
    fresh = [link for _, link in _links(baton, one)]

    def once(_: object) -> None:
        tip = store.objects.info(ref)
        there = [link for link in links(store, track, tip.oid) if link.id not in gone] if tip is not None else []
        ids = {link.id for link in there}
        rows = sorted((*there, *(link for link in fresh if link.id not in ids)), key=lambda link: link.created)
        objects, placed = on_top(baton.repo.layout.algorithm, store.root, root[0].oid, rows)
        store.ours.add(IMPORTS, [link.id for link in fresh])
        change = RefChange(name=ref, new=placed[-1].commit, old=tip.oid if tip is not None else None)
        if change.new != change.old:
            publish(baton.repo, [change], new=objects, automatic=True)

    append_to(baton.repo, (ref,), once, seconds=8.0, lock=lambda: baton.repo.lock((ref,)))


def _checkpoint(baton: Baton, source: PastSession, found: FoundTurn, after: datetime) -> Checkpoint:
    """Return the record of a turn, not redacted yet."""
    turn = found.turn
    since, until = _time(turn.since), max(_time(turn.until), after + timedelta(microseconds=1))
    said = cut(first_line(turn.prompt), _STEP)
    root = baton.repo.layout.root or baton.repo.layout.git_dir
    edited = tuple(dict.fromkeys(inside(turn.edited, root).values()))
    return Checkpoint(
        track=imported.track_name(source.client),
        step=f"{TURN_ENDED}: {said}" if said else TURN_ENDED,
        kind="imported",
        branch=turn.branch or None,
        head=found.commits[-1] if found.commits else None,
        created=until,
        agent=Agent(
            name=source.client,
            session=source.session,
            transcript=transcript_text(turn.end),
            model=turn.model or None,
            usage=turn.usage,
        ),
        observed=Observed(asked=(Prompt(text=said, at=since),), turns=turn.number, until=until),
        turn=Turn(edited=edited[:_EDITED], edited_more=max(0, len(edited) - _EDITED)) if edited else None,
        imported=ImportedTurn(
            since=since, prompt=middle(turn.prompt, *_WORDS), said=middle(turn.said, *_WORDS), commits=found.commits
        ),
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(max(0.0, min(seconds, 253402300799.0)), UTC)
