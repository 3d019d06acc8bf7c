"""Facts: what the records in commits of chains say, words apart, by commit, in a file below the common directory that may be
thrown away: a commit never changes, so that what is known of one needs not be read again."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from itertools import compress, repeat

from gitbaton import __version__
from gitbaton.base.codec import earlier_ids, is_canonical, known, payload
from gitbaton.base.errors import MENDS, BatonError, RecordError
from gitbaton.base.model import Agent, Carried, Checkpoint, FileState, Oid, Restore, Stored, WorktreeId, is_turn
from gitbaton.base.values import waiting, waiting_all, waits
from gitbaton.checkpoints.store.sealed import MANY, discard, read_lines, sift, write_lines
from gitbaton.git.objects import Object, digest, object_id
from gitbaton.git.repo import Repo

_HEADER = f"gitbaton facts 3 {__version__}"
LABEL = re.compile(rb'\n  "label": (?:null|"([^"\\]*)"),\n')
_HEAD = re.compile(rb'\n  "head": (?:null|"([0-9a-f]{40}|[0-9a-f]{64})"),\n')
# Of a row, after the commit.
_ID, _TREE, _BASE, _HEADS, _PREVIOUS, _BEGAN, _CARRIED, _SESSION, _CREATED, _PLACE, _CHANGED, _FLAGS = range(1, 13)
_KINDS = {"M": "manual", "A": "auto", "S": "safety", "I": "imported"}
_ABSENT = {"turn": "t", "restore": "r", "imported": "i", "label": "l"}  # fields that a record has only with a flag
_SAID = {"previous": _PREVIOUS, "carried": _CARRIED, "agent": _SESSION}  # and that have an empty place in the row without one
_SECOND = len("2026-01-01T00:00:00")  # early records have no more of a work tree's time
_IDS_ALONE = "-"  # in the place of the kind
_FIELDS = _FLAGS + 1
_BESIDE = "SI"  # kinds in no track's chain


class RecordFacts:
    """Facts of the records of one repository. Nothing is read before ``load``, and nothing written before ``keep``.

    A row has a commit, the checkpoint's id, the commit's tree and base, and the record's head, the checkpoint before it,
    that which its turn began from, that with the words that it carries, the digest of its agent's session, when it was
    created, when its work tree was met, and how many files it changed: none without files. Its flags: the kind, or ``-``
    where only the ids are known; ``w`` where its bytes are canonical, whoever wrote them; ``p`` where nothing but its id or
    its head can mean it; ``e`` where its turn was ended by another, ``s`` where only its step tells of a turn; ``f`` where
    the words that it carries are foreign; ``k`` where files are left out; and those of fields that not every record has.
    """

    def __init__(self, repo: Repo) -> None:
        self.repo, self._folder = repo, repo.shared_dir  # where they are read also once the repository is redirected
        self._path = os.path.join(self._folder, "facts")
        self._rows: dict[Oid, str] | None = None
        self._fresh = 0
        self._ahead: dict[Oid, bytes] = {}

    def kept(self) -> bool:
        """Whether rows are known, or there is a file of them."""
        return bool(self._rows) if self._rows is not None else os.path.exists(self._path)

    def load(self) -> int:
        """Read the file, and from now on learn; return how many rows are known. One that is not as it was written has none."""
        if self._rows is None:
            self._rows = {line[: line.index(" ")]: line for line in read_lines(self._path, _HEADER)}
        return len(self._rows)

    def _row(self, commit: Oid) -> list[str]:
        return (self._rows or {}).get(commit, "").split(" ")

    def _full(self, commit: Oid) -> list[str]:
        """Return the row of a commit; empty where none is known, or only its ids are."""
        row = self._row(commit)
        return row if row[1:] and row[_FLAGS][0] != _IDS_ALONE else []

    def vouches(self, commit: Oid, oid: Oid) -> bool:
        """Whether the record of a commit, with that id, is known to be canonical and to name its commit's tree."""
        row = self._row(commit)
        return row[1:2] == [oid] and "w" in row[_FLAGS]

    def plain(self, commit: Oid) -> tuple[Oid, Oid] | None:
        """Return the ids of a checkpoint that no other name can mean, and of its head, empty where there is none."""
        row = self._row(commit)
        return (row[_ID], row[_HEADS]) if row[1:] and "p" in row[_FLAGS] else None

    def id(self, commit: Oid) -> Oid | None:
        """Return the id of the checkpoint of a commit; None without a row."""
        return row[_ID] if (row := self._full(commit)) else None

    def turn(self, one: Stored | Outline) -> tuple[str, Oid] | None:
        """Return the flags ``t``, ``e`` and ``s`` of a checkpoint's row, which tell of a turn, and the checkpoint that the turn
        began from, empty where that is not said; None without a row."""
        row = one.row if isinstance(one, Outline) else self._full(one.commit)
        return (_turn_flags(row[_FLAGS]), row[_BEGAN]) if row else None

    def session(self, commit: Oid) -> str | None:
        """Return the ``session_digest`` of a record, empty where no agent took it; None without a row."""
        row = self._full(commit)
        return row[_SESSION] if row else None

    def has_files(self, commit: Oid) -> bool | None:
        """Whether the record of a commit is of files; None without a row."""
        row = self._full(commit)
        return bool(row[_PLACE]) if row else None

    def elsewhere(self, commits: Iterable[Oid], worktree: WorktreeId) -> bool:
        """Whether the records of all of some commits are known, and hold no files of a work tree."""
        second = worktree.created.isoformat()[:_SECOND]
        return all((row := self._full(oid)) and row[_PLACE][:_SECOND] != second for oid in commits)

    def learn(self, stored: Stored, checkpoint: Checkpoint, *, strict: bool) -> None:
        """Note a record that was read from its commit, if rows are loaded; ``checkpoint`` as its bytes have it, and whether
        they were read with nothing taken for granted."""
        if self._rows is None or (not strict and self._full(stored.commit)):
            return
        c, raw = checkpoint, stored.raw
        flags = (
            (c.kind[0].upper(), True),
            ("w", strict and is_canonical(raw, c)),
            ("p", _heads(raw) is not None),
            ("e", c.turn is not None and c.turn.ended is not None),
            ("s", c.turn is None and is_turn(c.kind, c.step)),
            ("f", c.carried is not None and c.carried.foreign),
            ("k", c.files is not None and bool(c.files.skipped)),
            *((flag, getattr(c, name) is not None) for name, flag in _ABSENT.items()),
        )
        row = (
            stored.commit,
            stored.id,
            stored.tree,
            stored.base or "",
            c.head or "",
            c.previous or "",
            (c.turn.began if c.turn is not None else None) or "",
            c.carried.id if c.carried is not None else "",
            session_digest(c.agent),
            c.created.isoformat(),
            c.files.worktree.created.isoformat() if c.files is not None else "",
            str(c.files.changed) if c.files is not None else "",
            "".join(flag for flag, holds in flags if holds),
        )
        self._note(row)

    def learn_ids(self, commit: Oid, oid: Oid, raw: bytes) -> None:
        """Note the id of a record that is not taken apart, and its head's, if rows are loaded, nothing is known of it, and
        nothing else can mean it."""
        if self._rows is None or commit in self._rows or (head := _heads(raw)) is None:
            return
        self._note((commit, oid, "", "", head, "", "", "", "", "", "", "", _IDS_ALONE + "p"))

    def follow(self, commit: Oid, oid: Oid, base: Oid | None) -> None:
        """Note that a record which is known at ``commit`` also stands, with the same tree, at the commit ``oid`` on a base."""
        row = self._full(commit)
        if row:
            self._note((oid, *row[1:_BASE], base or "", *row[_BASE + 1 :]))

    def _note(self, row: Sequence[str]) -> None:
        line = " ".join(row)
        if self._rows is not None:
            self._fresh += self._rows.get(row[0]) != line
            self._rows[row[0]] = line

    def keep(self, commits: Iterable[Oid] | None = None) -> None:
        """Write what was learned, if that is much, and of chains of tracks no other ``commits``, where they are given; a disk
        that does not take it keeps none. Of several writers one wins."""
        if self._rows is None or self._fresh < MANY or self._folder != self.repo.shared_dir:
            return
        there = {*(self._rows if commits is None else commits)}
        with suppress(OSError, BatonError):
            write_lines(
                self.repo,
                self._path,
                _HEADER,
                (row for commit, row in self._rows.items() if commit in there or row.rpartition(" ")[2][0] in _BESIDE),
            )
        self._fresh = 0

    def forget(self, ids: Collection[Oid]) -> None:
        """Keep no row that names one of these checkpoints; nothing where that cannot be written. Never raises."""
        self._rows, self._fresh, gone = None, 0, frozenset(ids)
        sift(self.repo, self._path, _HEADER, lambda row: gone.isdisjoint(row.split(" ")))

    def drop(self) -> None:
        """Remove what is kept. Never raises."""
        self._rows, self._fresh = None, 0
        discard(self.repo, self._path)

    def stored(self, track: str, commits: Iterable[Oid], ours: Collection[Oid], *, foreign: bool) -> dict[Oid, Stored]:
        """Return the checkpoints of commits in a track's chain, by these, of which the rest is read when it is asked for;
        ``foreign`` ones, and those where the id is not ``ours``. Left out is that of which nothing is known that holds for
        whoever wrote it. That a commit can be read is the caller's to know."""
        lines, columns = self._sure(commits, ours)
        strange = [foreign or oid not in ours for column in columns[_ID : _ID + 1] for oid in column]
        return {stored.commit: stored for stored in self._made(track, lines, columns, strange)}

    def outlines(self, track: str, commits: Iterable[Oid], ours: Collection[Oid], *, foreign: bool) -> dict[Oid, Outline]:
        """Return what ``stored`` does, in outline."""
        rows = zip(*self._sure(commits, ours)[1], strict=True)
        return {row[0]: Outline(self, track, row, foreign or row[_ID] not in ours) for row in rows}

    def _sure(self, commits: Iterable[Oid], ours: Collection[Oid]) -> tuple[list[str], list[list[str]]]:
        """Return the rows of commits that hold for whoever wrote them, as lines and in columns."""
        known = self._rows or {}
        lines = [known[oid] for oid in commits if oid in known]
        fields = " ".join(lines).split(" ")  # many together are sooner taken apart
        columns = [fields[at::_FIELDS] for at in range(_FIELDS if lines else 0)]
        told = zip(*columns[_ID : _ID + 1], *columns[_FLAGS:], strict=True)
        holds = [flags[0] != _IDS_ALONE and (oid in ours or "w" in flags) for oid, flags in told]
        if not all(holds):
            lines, *columns = ([*compress(column, holds)] for column in (lines, *columns))
        return lines, columns

    def _made(
        self, track: str, lines: Sequence[str], columns: Sequence[Sequence[str]], foreign: Sequence[bool]
    ) -> list[Stored]:
        if not lines:
            return []
        later = [_Later(self, line) for line in lines]
        files = waiting_all(FileState, [one.of_files for one in later], changed=[int(many or 0) for many in columns[_CHANGED]])
        checkpoints = waiting_all(
            Checkpoint,
            [one.field for one in later],
            track=repeat(track),
            kind=[_KINDS[flags[0]] for flags in columns[_FLAGS]],
            head=[head or None for head in columns[_HEADS]],
            created=map(datetime.fromisoformat, columns[_CREATED]),
            files=[one if place else None for one, place in zip(files, columns[_PLACE], strict=True)],
        )
        return waiting_all(
            Stored,
            [one.bytes for one in later],
            id=columns[_ID],
            commit=columns[0],
            tree=columns[_TREE],
            checkpoint=checkpoints,
            foreign=foreign,
        )

    def read_ahead(self, items: Iterable[Stored]) -> None:
        """Read at once what waits to be read of checkpoints; until this is called again they need not be read one by one."""
        wanted, self._ahead = {s.commit: s.id for s in items if waits(s)}, {}
        for (commit, oid), found in zip(wanted.items(), self.repo.objects.read_many([*wanted]), strict=True):
            with suppress(RecordError):  # it is said where the record is asked for
                self._ahead[commit] = self._record(commit, oid, found)

    def record(self, commit: Oid, oid: Oid) -> bytes:
        """Return the bytes of a commit's record of that id, which ``codec.known`` can read. Raises RecordError."""
        return self._ahead.get(commit) or self._record(commit, oid, self.repo.objects.read(commit))

    def _record(self, commit: Oid, oid: Oid, found: Object | None) -> bytes:
        data = found.data if found is not None and found.kind == "commit" else None
        raw = payload(data.partition(b"\n\n")[2]) if data else b""
        if object_id(self.repo.layout.algorithm, "blob", raw) != oid:
            self.drop()  # what it has become is told by the next command, which reads all
            raise RecordError(f"commit {commit} cannot be read", MENDS)
        return raw


class Outline:
    """A checkpoint in a track's chain as far as its row of facts tells: for those of which many are looked at, and few shown.
    ``place``: when its work tree was met, None without files."""

    __slots__ = ("_facts", "commit", "created", "foreign", "head", "id", "place", "previous", "row", "track", "tree")

    def __init__(self, facts: RecordFacts, track: str, row: tuple[str, ...], foreign: bool) -> None:
        self._facts, self.track, self.row, self.foreign = facts, track, row, foreign
        self.commit, self.id, self.tree, _, head, self.previous, _, _, _, created, place, _, _ = row
        self.head, self.created, self.place = head or None, datetime.fromisoformat(created), _met(place) if place else None

    @property
    def restore(self) -> Restore | None:
        """The record of the restore that it was taken before, if it was."""
        return self.stored().checkpoint.restore if _ABSENT["restore"] in self.row[_FLAGS] else None

    def stored(self) -> Stored:
        """Return the checkpoint, of which the rest is read when it is asked for."""
        return self._facts._made(self.track, [" ".join(self.row)], [[field] for field in self.row], [self.foreign])[0]


class _Later:
    """The record of a commit, of which a row is known: it is read when more is asked for."""

    __slots__ = ("facts", "full", "line")

    def __init__(self, facts: RecordFacts, line: str) -> None:
        self.facts, self.line = facts, line
        self.full: tuple[bytes, Checkpoint] | None = None

    @property
    def row(self) -> list[str]:
        """The row of the commit."""
        return self.line.split(" ")

    def _read(self) -> tuple[bytes, Checkpoint]:
        if self.full is None:
            commit, oid, _ = self.line.split(" ", 2)
            raw = self.facts.record(commit, oid)
            self.full = raw, known(raw)
        return self.full

    def bytes(self, name: str) -> object:
        """Return the record's bytes, or what else waits of a ``Stored``."""
        if name == "raw":
            return self._read()[0]
        return {"base": self.row[_BASE] or None, "restored": "", "back": None}[name]

    def field(self, name: str) -> object:
        """Return a field of the checkpoint."""
        row = self.row
        if name in _ABSENT and _ABSENT[name] not in row[_FLAGS]:
            return None
        said = row[_SAID[name]] if name in _SAID else None
        if name == "carried" and said:
            return waiting(Carried, self.of_carried, id=said)
        if said == "" or name == "previous":
            return said or None
        return getattr(self._read()[1], name)

    def of_carried(self, name: str) -> object:
        """Return a field of the words that it carries."""
        if name == "foreign":
            return "f" in self.row[_FLAGS]
        return getattr(self._read()[1].carried, name)

    def of_files(self, name: str) -> object:
        """Return a field of its file state."""
        if name == "worktree":
            return waiting(WorktreeId, self.of_worktree, created=_met(self.row[_PLACE]))
        if name == "skipped" and "k" not in self.row[_FLAGS]:
            return ()
        return self.row[_TREE] if name == "tree" else getattr(self._read()[1].files, name)

    def of_worktree(self, name: str) -> object:
        """Return a field of its work tree."""
        files = self._read()[1].files
        return getattr(files.worktree if files is not None else None, name)


@lru_cache(maxsize=256)
def _turn_flags(flags: str) -> str:
    return "".join(flag for flag in "tes" if flag in flags)


@lru_cache(maxsize=256)
def _met(text: str) -> datetime:
    """Return when a work tree was met: a repository has few."""
    return datetime.fromisoformat(text)


def session_digest(agent: Agent | None) -> str:
    """Return a digest of an agent's name and session, by which sessions can be told apart; empty without an agent."""
    return digest("sha1", ascii((agent.name, agent.session)).encode()).hex() if agent is not None else ""


def _heads(raw: bytes) -> str | None:
    """Return the head of a record that no label, no earlier id and no imported turn's commit can mean, empty where it has none;
    None of another."""
    label, heads = LABEL.search(raw), _HEAD.findall(raw)
    if label is None or label[1] is not None or len(heads) != 1 or b'"imported": {' in raw or earlier_ids(raw):
        return None
    return str(heads[0].decode("ascii"))
