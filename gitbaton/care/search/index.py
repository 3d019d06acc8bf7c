"""The search index: an SQLite file below the common directory, of what checkpoints and stored conversations say. It follows the
refs, and is made anew where it is damaged or gone."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from gitbaton.agents.client import client
from gitbaton.agents.records import passages
from gitbaton.agents.transcripts.layout import kept
from gitbaton.agents.transcripts.storing import clean
from gitbaton.base.codec import decode_track, document, parse_transcript
from gitbaton.base.errors import BatonError, GitError, RecordError
from gitbaton.base.model import Oid, Stored, is_turn, prompt_in
from gitbaton.base.system.parallel import beside
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store.chain import MAX_COMMIT, Problem
from gitbaton.checkpoints.store.meta import NOTHING, Meta
from gitbaton.checkpoints.store.read import dropping
from gitbaton.checkpoints.store.refs import CHAINS, IMPORTED, META, REMOTES, TRANSCRIPTS, remote_of, track_of
from gitbaton.checkpoints.store.selection import own_prompt, own_words
from gitbaton.checkpoints.store.state import drop_search_index, search_index
from gitbaton.git.objects import RefChange
from gitbaton.git.repo import lock_file, silent

if TYPE_CHECKING:
    from typing import Any

WORDS, PROMPT, USER, AGENT, CALL, OUTPUT, OTHER = range(7)
"""Kinds of passages: the words of a checkpoint, its prompt; of a conversation the user's words, the agent's, a tool's call, its
answer, and all else."""
VERSION = 2
WAIT = 60.0  # seconds for which another builder is waited for
_PART = 16_000  # characters of a passage; all words that are looked for are in one
_PART_OF_OUTPUT = 4000
_BATCH = 500  # checkpoints that are written at once
_FEW = 8  # refs that are sooner walked one by one
_NEAR = 64  # commits below a tip among which the newest known one is looked for first
_SHARED = 200  # characters
_SMALL = 200  # bytes that are sooner kept as they are
_LARGE = 1 << 20  # bytes of an index from which on it pays to follow the refs beside other work
_SCHEMA = """
CREATE TABLE ref (name TEXT PRIMARY KEY, oid TEXT) WITHOUT ROWID;
CREATE TABLE turn (id INTEGER PRIMARY KEY, oid TEXT UNIQUE, track TEXT, at INTEGER, session TEXT, lines INTEGER);
CREATE INDEX turn_session ON turn (session, lines);
CREATE TABLE link (oid TEXT PRIMARY KEY, turn INTEGER) WITHOUT ROWID;
CREATE INDEX link_turn ON link (turn);
CREATE TABLE talk (id INTEGER PRIMARY KEY, ref TEXT UNIQUE, session TEXT);
CREATE INDEX talk_session ON talk (session);
CREATE TABLE mark (id INTEGER PRIMARY KEY, at INTEGER, kind INTEGER, turn INTEGER, talk INTEGER, line INTEGER, sum INTEGER);
CREATE INDEX mark_turn ON mark (turn);
CREATE INDEX mark_talk ON mark (talk, line);
CREATE TABLE body (id INTEGER PRIMARY KEY, data BLOB);
CREATE TABLE problem (ref TEXT, place TEXT, reason TEXT);
"""
_TEXTS = "CREATE VIRTUAL TABLE ft USING fts5(text, content='', detail=none, tokenize='trigram')"


class SearchIndex:
    """An open index. ``narrow``: whether SQLite has what makes it fast; ``note``: why it is not the file of the repository, or
    slow; empty where all is well."""

    def __init__(self, database: sqlite3.Connection, note: str = "") -> None:
        self.database, self.note = database, note
        self.narrow = bool(self.all("SELECT 1 FROM sqlite_master WHERE name = 'ft'"))
        self._optimize = False

    def all(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a question."""
        return self.database.execute(sql, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the index alone, and write all of a block or nothing. Raises sqlite3.Error."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        self.database.execute("COMMIT")

    def put(self, rows: Iterable[tuple[int, str]], *, turn: int = 0, at: int = 0, talk: int = 0, line: int = 0) -> None:
        """Add passages, each with what it is."""
        for kind, text in rows:
            data = text.encode()
            values = (at, kind, turn, talk, line, zlib.crc32(data))
            sql = "INSERT INTO mark (at, kind, turn, talk, line, sum) VALUES (?, ?, ?, ?, ?, ?)"
            number = self.database.execute(sql, values).lastrowid
            packed = b"\1" + zlib.compress(data, 3) if len(data) > _SMALL else b"\0" + data
            self.database.execute("INSERT INTO body VALUES (?, ?)", (number, packed))
            if self.narrow:
                self.database.execute("INSERT INTO ft (rowid, text) VALUES (?, ?)", (number, _padded(text)))

    def text(self, number: int) -> str:
        """Return a passage. Raises sqlite3.DatabaseError where it is damaged."""
        try:
            [(data,)] = self.database.execute("SELECT data FROM body WHERE id = ?", (number,))
            return (zlib.decompress(data[1:]) if data[:1] == b"\1" else data[1:]).decode()
        except (TypeError, ValueError, zlib.error) as error:
            raise sqlite3.DatabaseError(f"passage {number} is damaged") from error

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove passages, and with them what the index knows of their words."""
        if self.narrow:
            rows = ((number, _padded(self.text(number))) for number in numbers)
            self.database.executemany("INSERT INTO ft (ft, rowid, text) VALUES ('delete', ?, ?)", rows)
        for table in ("body", "mark"):
            self.database.executemany(f"DELETE FROM {table} WHERE id = ?", ((number,) for number in numbers))
        self._optimize = self._optimize or bool(numbers)

    def settle(self) -> None:
        """Write anew what still mentions passages that were removed."""
        if self._optimize and self.narrow:
            with self.writing():
                self.database.execute("INSERT INTO ft (ft) VALUES ('optimize')")
        self._optimize = False

    def starting(self, text: str, most: int) -> list[str] | None:
        """Return the three letters in the index that begin with a shorter text; None where they are too many."""
        sql = "SELECT term FROM terms WHERE term >= ? AND term < ? LIMIT ?"
        found = [str(term) for (term,) in self.all(sql, text, text + "\U0010ffff", most + 1)]
        return found if len(found) <= most else None

    def problems(self) -> list[Problem]:
        """Return what could not be read, and is not in the index."""
        found = self.all("SELECT DISTINCT place, reason FROM problem ORDER BY place")
        return [Problem(where=str(place), reason=str(reason)) for place, reason in found]


def _padded(text: str) -> str:
    return text + "  "  # so that the last characters begin a trigram, too


FAULTS = (sqlite3.Error, UnicodeDecodeError)  # a damaged name in a message of SQLite


def is_damaged(error: BaseException) -> bool:
    """Whether an error of SQLite tells of damage, not of a full disk or another process."""
    return not isinstance(error, sqlite3.OperationalError) or "no such" in str(error)


@contextmanager
def opened_index(baton: Baton, note: str = "") -> Iterator[SearchIndex]:
    """Open the index of a repository, made where there is none, and made anew where it is damaged or of another version; one in
    memory where none can be written, or a ``note`` says why not. Never raises for the index itself."""
    index = None
    try:
        index = _open(baton) if not note else None
    except (OSError, *FAULTS) as error:
        note = str(error)
    if index is None:
        index = SearchIndex(_made(sqlite3.connect(":memory:", isolation_level=None)), f"{note}; all is read anew")
    with closing(index.database):
        yield index


def _open(baton: Baton) -> SearchIndex:
    path = search_index(baton.repo)
    for last in (False, True):
        os.close(lock_file(baton.repo, path))
        os.chmod(path, 0o600)
        database = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
        try:
            return SearchIndex(_made(database))
        except FAULTS as error:
            database.close()
            if last or not is_damaged(error):
                raise
            drop_search_index(baton.repo)
    raise AssertionError


def _made(database: sqlite3.Connection) -> sqlite3.Connection:
    """Return an index with its tables. Raises sqlite3.DatabaseError for a file that is none of this version."""
    database.execute("PRAGMA secure_delete = ON")
    [(found,)] = database.execute("PRAGMA user_version")
    if not found:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN IMMEDIATE")
        [(found,)] = database.execute("PRAGMA user_version")
        if not found:
            if database.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise sqlite3.DatabaseError("it is no index of gitbaton")
            for sql in _SCHEMA.split(";\n"):
                database.execute(sql)
            with suppress(sqlite3.OperationalError):  # a library without FTS5, or older than 3.34
                database.execute(_TEXTS)
                database.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(ft, row)")
            database.execute(f"PRAGMA user_version = {VERSION}")
            found = VERSION
        database.execute("COMMIT")
    if found != VERSION:
        raise sqlite3.DatabaseError("it is an index of another version")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("SELECT count(*) FROM ref").fetchone()
    return database


def update(baton: Baton, index: SearchIndex, soon: Mapping[str, Oid] | None = None) -> int:
    """Bring an index up to date with the refs, or with what they will be ``soon``; return how many of them it could not follow,
    because another process writes it. Raises sqlite3.DatabaseError where it is damaged, GitError."""
    refs = wanted_refs(baton) if soon is None else soon
    known = dict(index.database.execute("SELECT name, oid FROM ref"))
    amiss = {str(ref) for (ref,) in index.all("SELECT DISTINCT ref FROM problem")}  # it may be readable by now
    if refs == known and not amiss:
        return 0
    if known.get(META) != refs[META] and index.all("SELECT 1 FROM link WHERE turn = 0 LIMIT 1"):
        amiss |= {ref for ref in refs if ref.startswith(REMOTES)}  # what was dropped may be so no more
    moved = sorted(ref for ref, oid in refs.items() if known.get(ref) != oid or ref in amiss)
    return _Update(baton, index, refs, amiss, META if soon is None else refs[META]).run(moved)


@contextmanager
def following(baton: Baton, seen: Mapping[str, Oid], changes: Iterable[RefChange]) -> Iterator[None]:
    """Update a large search index beside the block, which makes these changes to the refs that were ``seen``; their objects
    are written. ``follow`` has little left to do then, and what comes to be otherwise it mends, as does every search."""
    moves = {META: "", **seen, **{change.name: change.new or "" for change in changes}}
    soon = {ref: oid for ref, oid in moves.items() if ref == META or (oid and _is_wanted(ref))}
    with ExitStack() as busy:
        with suppress(OSError):
            if os.lstat(search_index(baton.repo)).st_size >= _LARGE:
                busy.enter_context(beside(partial(_follow_silently, baton, soon), forked=baton.store.objects.forked))
        yield


def _follow_silently(baton: Baton, soon: Mapping[str, Oid]) -> None:
    baton.repo.progress = silent
    follow(baton, soon)


def follow(baton: Baton, soon: Mapping[str, Oid] | None = None) -> None:
    """Bring the index up to date, where there is one, so that nothing stays in it that the refs dropped; ``soon`` as for
    ``update``. Never raises."""
    if os.path.lexists(search_index(baton.repo)):
        try:
            with opened_index(baton) as index:
                update(baton, index, soon)
        except FAULTS:
            drop_search_index(baton.repo)
        except BatonError:
            pass  # the next search says so


def wanted_refs(baton: Baton) -> dict[str, Oid]:
    """Return the refs that an index follows, with what they hold; META's is empty where there is none."""
    refs = baton.store.objects.refs(CHAINS, TRANSCRIPTS, IMPORTED, REMOTES)
    meta = baton.store.objects.refs(META.rpartition("/")[0] + "/").get(META)
    return {META: meta or "", **{ref: oid for ref, oid in refs.items() if _is_wanted(ref)}}


def _is_wanted(ref: str) -> bool:
    return ref.startswith(CHAINS) or _is_talk(ref) or _is_imported(ref) or _remote_track(ref) is not None


def _is_imported(ref: str) -> bool:
    return ref.startswith(IMPORTED) or (remote_of(ref) or ("", ""))[1].startswith("imported/")


def _is_talk(ref: str) -> bool:
    return _session(ref) is not None


def _session(ref: str) -> tuple[str, str] | None:
    """Return the agent and the session of a stored conversation's ref; None for any other, and for what was said beside one."""
    rest = ref.removeprefix(TRANSCRIPTS) if ref.startswith(TRANSCRIPTS) else (remote_of(ref) or ("", ""))[1]
    rest = rest.removeprefix("transcripts/") if ref.startswith(REMOTES) and rest.startswith("transcripts/") else rest
    if ref.startswith(REMOTES) and "/transcripts/" not in ref:
        return None
    agent, _, name = rest.partition("/")
    session = decode_track(name) if name else None
    return (agent, session) if session is not None and not session.endswith(".told") else None


def _remote_track(ref: str) -> str | None:
    rest = (remote_of(ref) or ("", ""))[1]
    return decode_track(rest.removeprefix("tracks/")) if rest.startswith("tracks/") else None


class _Update:
    """An update of an index to ``refs``; what was read of one ref is written at once, so that what is cut short goes on.
    ``again``: chains of which all that the index does not hold is read, however far down; ``meta``: where what was dropped here
    stands."""

    def __init__(self, baton: Baton, index: SearchIndex, refs: Mapping[str, Oid], again: Collection[str], meta: str) -> None:
        self.baton, self.index, self.refs, self.db, self.again = baton, index, refs, index.database, again
        self.meta = meta
        self.sessions = set[str]()
        self.sweep = False
        self.walked = dict[Oid, list[Oid]]()
        self.later = list[tuple[str, Oid, dict[Oid, int]]]()  # refs of which nothing had to be read, written together

    def run(self, moved: Sequence[str]) -> int:
        """Read what is new at the refs that moved, the tracks first, and take out what none has any more."""
        if len(moved) > _FEW:
            self._walk_ahead(ref for ref in moved if ref != META and not _is_talk(ref))
        for number, ref in enumerate(sorted(moved, key=_is_talk)):
            self.baton.repo.progress(
                "indexing for search conversations" if _is_talk(ref) else "indexing for search tracks", number, len(moved)
            )
            try:
                self._follow(ref)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) and "busy" not in str(error):
                    raise
                return len(moved) - number + len(self.later)
        with self.index.writing():
            for ref, tip, known in self.later:
                self._link(ref, tip, known)
            gone = {str(ref) for (ref,) in self.index.all("SELECT name FROM ref")} - self.refs.keys()
            for ref in gone:
                self._forget(ref)
            if self.sweep or not all(map(_is_talk, gone)):
                self._sweep()
            for session in self.sessions:
                self._place(session)
        self.index.settle()
        return 0

    def _walk_ahead(self, refs: Iterable[str]) -> None:
        """Walk the chains at several refs at once."""
        self.walked |= self.baton.store.objects.chains({self.refs[ref] for ref in refs} - self.walked.keys())

    def _walk(self, tip: Oid, limit: int | None = None) -> list[Oid]:
        """Return the commits of a chain, newest first. Raises GitError where the first cannot be read."""
        found = self.walked.get(tip, [])
        whole = found[-1:] == [self.baton.store.root]
        return found[:limit] if whole else self.baton.store.objects.first_parents(tip, limit)

    def _follow(self, ref: str) -> None:
        tip = self.refs[ref]
        if ref == META:
            self.sweep = bool(self.index.all("SELECT 1 FROM ref LIMIT 1"))
            with self.index.writing():
                self._note(ref, tip)
            return
        try:
            if (session := _session(ref)) is not None:
                self._talk(ref, tip, *session)
            else:
                known = self.index.all("SELECT oid FROM ref WHERE name = ?", ref)
                self._chain(ref, tip, str(known[0][0]) if known else None)
        except (RecordError, GitError) as error:
            with self.index.writing():
                self._note(ref, tip, [Problem(where=ref, reason=error.message)])

    def _note(self, ref: str, tip: Oid, problems: Iterable[Problem] = ()) -> None:
        """Note what was read of a ref, and what could not be."""
        self.db.execute("DELETE FROM problem WHERE ref = ?", (ref,))
        for problem in problems:
            self.db.execute("INSERT INTO problem VALUES (?, ?, ?)", (ref, problem.where, problem.reason))
        self.db.execute("INSERT OR REPLACE INTO ref VALUES (?, ?)", (ref, tip))

    def _chain(self, ref: str, tip: Oid, before: Oid | None) -> None:
        """Read the checkpoints of a chain that are not in the index yet, the oldest first: of one that was read whole before
        those above the newest known one."""
        store, fetched = self.baton.store, _remote_track(ref)
        track = fetched if fetched is not None else track_of(ref)
        strange = track is None and not _is_imported(ref)
        if strange or not tip.strip("0"):
            raise RecordError("the name is not one that gitbaton writes" if strange else "the ref is broken: it holds no id")
        whole = before is None or ref in self.again
        fresh, met = list[Oid](), None
        for limit in (None,) if whole else (_NEAR, None):
            fresh, met = [], None
            oids = self._walk(tip, limit)
            for oid in oids:
                has = self.index.all("SELECT turn FROM link WHERE oid = ?", oid)
                if oid == store.root or (has and not whole):
                    met = oid
                    break
                fresh += [oid] if not has or not has[0][0] else []
            if met is not None or len(oids) < (limit or 0):
                break
        self.sweep = self.sweep or (before is not None and before not in oids)
        drops = dropping(store, [remote], self.meta) if (remote := (remote_of(ref) or ("",))[0]) else NOTHING
        problems = list[Problem]()
        fresh.reverse()
        known = {oid: number for oid in fresh if (number := self._written_again(oid, drops))}
        unread = [oid for oid in fresh if oid not in known]
        if not unread:
            self.later.append((ref, tip, known))
        for start in range(0, len(unread), _BATCH):
            part = unread[start : start + _BATCH]
            read = list(store.objects.read_many(part, MAX_COMMIT))
            with self.index.writing():
                for oid, found in zip(part, read, strict=True):
                    try:
                        stored: Stored | None = store.stored(found, track, oid)
                    except RecordError as error:
                        problems.append(Problem(where=f"{ref}, commit {oid}", reason=error.message))
                        stored = None
                    if stored is not None:
                        turn = self._turn(stored, track) if not drops.dropped(stored.id) else 0
                        self.db.execute("INSERT OR REPLACE INTO link VALUES (?, ?)", (oid, turn))
                if start + _BATCH >= len(unread):
                    self._link(ref, tip, known, problems)

    def _link(self, ref: str, tip: Oid, known: Mapping[Oid, int], problems: Iterable[Problem] = ()) -> None:
        """Note that commits of a ref's chain are checkpoints that the index has, and that all of the ref was read."""
        self.db.executemany("INSERT OR REPLACE INTO link VALUES (?, ?)", known.items())
        self._note(ref, tip, problems)

    def _written_again(self, commit: Oid, drops: Meta) -> int:
        """Return the number of the checkpoint of a commit that this process has written again, or read; 0 where that is not
        known, or not in the index."""
        oid = self.baton.store.facts.id(commit)
        if oid is None or drops.dropped(oid):
            return 0
        return next((int(number) for (number,) in self.db.execute("SELECT id FROM turn WHERE oid = ?", (oid,))), 0)

    def _turn(self, stored: Stored, track: str | None) -> int:
        """Add a checkpoint, unless it is there by another ref; return its number."""
        c = stored.checkpoint
        for (number,) in self.db.execute("SELECT id FROM turn WHERE oid = ?", (stored.id,)):
            return int(number)
        place = parse_transcript(c.agent.transcript) if c.agent and c.agent.session else None
        session = f"{c.agent.name}/{c.agent.session}" if c.agent and place else None
        at = int(c.created.timestamp() * 1000)
        values = (stored.id, track, at, session, place.lines if place else None)
        sql = "INSERT INTO turn (oid, track, at, session, lines) VALUES (?, ?, ?, ?, ?)"
        number = self.db.execute(sql, values).lastrowid or 0
        self.index.put(_words(self.baton, stored, whole=place is None or place.stored is None), turn=number, at=at)
        if session is not None:
            self.sessions.add(session)
        return number

    def _talk(self, ref: str, tip: Oid, agent: str, session: str) -> None:
        """Read a conversation; of what is known of it, what is said there still stays."""
        of, objects = client(agent), self.baton.repo.objects
        talk = kept(objects, tip, agent, session)
        parts = list(objects.read_many(talk.chunks))
        if any(part is None or part.kind != "blob" or part.data is None for part in parts):
            raise RecordError(f"commit {tip} does not hold the chunks of a conversation")
        raw = b"".join(part.data for part in parts if part is not None and part.data is not None)
        raw = clean(self.baton.redactor, raw) if talk.exact else raw  # earlier versions stored it as it was
        rows = [
            (one.line, kind, text)
            for one in (passages(of, raw) if of is not None else ())
            for kind, text in _parts(one.who, one.text)
        ]
        commit = self.baton.store.commit(tip)
        at = int(commit.author.split()[-2]) * 1000 if commit is not None else 0
        with self.index.writing():
            sql = "INSERT INTO talk (ref, session) VALUES (?, ?) ON CONFLICT (ref) DO UPDATE SET session = excluded.session"
            self.db.execute(sql, (ref, f"{agent}/{session}"))
            [(number,)] = self.db.execute("SELECT id FROM talk WHERE ref = ?", (ref,))
            known = self.index.all("SELECT id, line, kind, sum FROM mark WHERE talk = ? ORDER BY id", number)
            same = 0
            for (_, *have), (line, kind, text) in zip(known, rows, strict=False):
                if have != [line, kind, zlib.crc32(text.encode())]:
                    break
                same += 1
            self.index.remove([row[0] for row in known[same:]])
            for line, kind, text in rows[same:]:
                self.index.put([(kind, text)], at=at, talk=number, line=line)
            self._note(ref, tip)
        self.sessions.add(f"{agent}/{session}")

    def _place(self, session: str) -> None:
        """Give each passage of a session the turn that it is in: the first checkpoint that goes as far."""
        talks = [row[0] for row in self.index.all("SELECT id FROM talk WHERE session = ?", session)]
        turns = self.index.all("SELECT id, at, lines FROM turn WHERE session = ? ORDER BY lines, at, id", session)
        below = 0
        sql = "UPDATE mark SET turn = ?, at = ? WHERE talk = ? AND line > ? AND line <= ? AND turn != ?"
        for turn, at, lines in turns if talks else ():
            for talk in talks if lines > below else ():
                self.db.execute(sql, (turn, at, talk, below, lines, turn))
            below = max(below, lines)
        for talk in talks:
            self.db.execute("UPDATE mark SET turn = 0 WHERE talk = ? AND line > ? AND turn != 0", (talk, below))

    def _forget(self, ref: str) -> None:
        """Take out a ref that is gone, and the conversation at it; checkpoints go with the commits that no chain has."""
        for number, session in self.index.all("SELECT id, session FROM talk WHERE ref = ?", ref):
            self.index.remove([row[0] for row in self.index.all("SELECT id FROM mark WHERE talk = ?", number)])
            self.db.execute("DELETE FROM talk WHERE id = ?", (number,))
            self.sessions.add(session)
        for table, column in (("ref", "name"), ("problem", "ref")):
            self.db.execute(f"DELETE FROM {table} WHERE {column} = ?", (ref,))

    def _sweep(self) -> None:
        """Take out the checkpoints that no chain has any more, or that were dropped."""
        store, chains = self.baton.store, {ref: oid for ref, oid in self.refs.items() if ref != META and not _is_talk(ref)}
        self._walk_ahead(chains)
        live = {ref: self._walk(oid) for ref, oid in chains.items() if oid.strip("0")}
        torn = [ref for ref, oids in live.items() if oids[-1] != store.root]  # to be read again: it may be mended by then
        self.db.executemany("DELETE FROM ref WHERE name = ?", [(ref,) for ref in torn])
        live |= {ref: live[ref][:-1] for ref in torn}
        own = {oid for ref, oids in live.items() if not ref.startswith(REMOTES) for oid in oids}
        drops = dropping(store, sorted({found[0] for ref in chains if (found := remote_of(ref)) is not None}), self.meta)
        there = {oid for oids in live.values() for oid in oids}
        gone = [row for row in self.db.execute("SELECT oid FROM link") if row[0] not in there]
        self.db.executemany("DELETE FROM link WHERE oid = ?", gone)
        linked = self.db.execute("SELECT turn.oid, link.oid FROM turn JOIN link ON turn = turn.id")
        left = [(commit,) for oid, commit in linked if drops.dropped(str(oid)) and commit not in own]
        self.db.executemany("UPDATE link SET turn = 0 WHERE oid = ?", left)
        gone_turns = "FROM turn WHERE NOT EXISTS (SELECT 1 FROM link WHERE turn = turn.id)"
        marks = self.index.all(f"SELECT id FROM mark WHERE talk = 0 AND turn IN (SELECT id {gone_turns})")
        self.index.remove([row[0] for row in marks])
        self.sessions |= {str(session) for (session,) in self.index.all(f"SELECT DISTINCT session {gone_turns}") if session}
        self.db.execute(f"DELETE {gone_turns}")


def _words(baton: Baton, stored: Stored, *, whole: bool) -> Iterator[tuple[int, str]]:
    """Yield the words of a checkpoint, and what was asked in its turn; with ``whole`` also what is kept beside it of the
    conversation, where that is not stored."""
    item = document(stored.checkpoint)
    asked, words, c = own_prompt(item), own_words(item), stored.checkpoint
    if asked:
        words.remove(asked)
    if is_turn(c.kind, c.step):  # its step is the session's first prompt, and its last
        words.remove(c.step)
        asked = asked or prompt_in(c.step)
    if asked:
        yield from _split(PROMPT, asked)
    if text := "\n".join(text for text in words if text.strip()):
        yield from _split(WORDS, text)
    observed = c.observed
    told = baton.told(stored) if whole and observed is not None and observed.said is not None else None
    if told is not None:
        for kind, one in ((PROMPT, told.latest or (*told.asked, None)[-1]), (AGENT, told.said)):
            if one is not None and not one.earlier and one.text.strip():
                yield from _split(kind, one.text)


def _parts(who: str, text: str) -> Iterator[tuple[int, str]]:
    kind = {"user": USER, "assistant": AGENT, "call": CALL, "tool": OUTPUT}.get(who, OTHER)
    return _split(kind, text)


def _split(kind: int, text: str) -> Iterator[tuple[int, str]]:
    """Yield a text in parts, cut at the ends of lines; of a line that is longer than one the parts share some words."""
    text = text.replace("\0", " ").encode("utf-8", "replace").decode()
    most = _PART_OF_OUTPUT if kind in (CALL, OUTPUT, OTHER) else _PART
    while len(text) > most + most // 4:
        end = text.rfind("\n", most // 2, most) + 1
        yield kind, text[: end or most]
        text = text[end or most - _SHARED :]
    yield kind, text
