"""The look of every screen: ids, times, states and drift as cells, with a sign and a word each, and tables that fit."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count, islice

from gitbaton.base import terminal
from gitbaton.base.codec import Json, bare, counted, first_line, in_quotes, plain, timestamp
from gitbaton.base.model import NOT_ENDED, Live, Oid, Stored
from gitbaton.base.values import TYPE_CHECKING, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import leads, line, quoted, since_run, title, title_of, verdict
from gitbaton.cli.columns import brief, cut, screen, width

if TYPE_CHECKING:
    from gitbaton.checkpoints.store.turns import UnderWay

Cell = tuple[tuple[str, str], ...]
"""Pieces of text, each with the slot of its colour."""

TAKE_BACK = "'git baton revert' takes it back"
LEAST, _TIGHT = 28, 20  # columns of the screen that the last column of a table gets before others go, or are cut
_DIGITS, _NAME = 4, 12
_PART = 1000  # rows that a screen gets at a time
_MANY = 500  # ids of which git is not asked one by one whether they are unique
_STATES = {"green": "+", "passed": "+", "ok": "+", "failed": "x", "stale": "~", "pending": "."}
_UNITS = (("d", 86_400), ("h", 3600), ("m", 60))
_MOVES = {
    "branch-switched": "branch switched",
    "head-rewritten": "rewritten",
    "head-unrelated": "unrelated commit",
    "head-missing": "commit not here",
    "unborn": "no commit",
    "operation:none": "operation over",
}
_PLAIN = re.compile(" commits?(?= ahead| behind)|(?<=file|iles) changed")  # words that a column does without
_COUNTS = {"head-ahead": ("commit", " ahead"), "head-behind": ("commit", " behind"), "files-changed": ("file", " changed")}


@value
class Column:
    """A column of a table. ``goes``: where there is no room the one with the greatest number goes first, one with 0 never.
    ``named``: a user chose the names in it, and long ones are cut to a fifth of the screen."""

    name: str = ""
    goes: int = 0
    right: bool = False
    named: bool = False


class Look:
    """Look of one screen: ids, times, states and drift as cells, and tables that fit. ``columns`` and ``rows``: its size, each
    None where nothing limits it."""

    def __init__(self, baton: Baton, colors: Mapping[str, str], *, fd: int = 1) -> None:
        self.colors, self.now = colors, baton.clock()
        self.columns, self.rows = screen(fd)
        given = baton.repo.settings().get("core.abbrev", ["auto"])[-1].lower()
        self._short = baton.settings.short
        self._digits, self._commit = (_DIGITS, 7) if given == "auto" else (self._short, self._short)
        self._abbreviate = baton.repo.objects.abbreviate

    def paint(self, text: str, slot: str | None) -> str:
        """Return a text in the colour of a slot."""
        return terminal.paint(text, slot, on=self.colors)

    @property
    def narrow(self) -> bool:
        """Whether the screen is narrower than most: a line does with fewer words."""
        return self.columns is not None and self.columns < 80

    def ids(self, oids: Iterable[Oid]) -> Mapping[Oid, Cell]:
        """Return checkpoints' ids as cells of one length, four or more digits, as many as make each of them unique here; many
        are unique among each other, and as long as elsewhere, and each cell is made when it is asked for."""
        known = _Ids(oids, self._digits)
        if len(known) > _MANY:  # asking for each takes longer than the list
            known.shown = next(n for n in count(self._short) if len({oid[:n] for oid in known}) == len(known))
            return known
        unique = {oid: len(self._abbreviate(oid, known.unique(oid))) for oid in known}
        shown = max([self._digits, *unique.values()])
        return {oid: ((oid[:digits], "id"), (oid[digits:shown], "")) for oid, digits in unique.items()}

    def id(self, oid: Oid) -> str:
        """One checkpoint, as ``ids``."""
        return self.text(self.ids([oid])[oid])

    def name(self, oid: Oid) -> str:
        """The same without colours, for a command line."""
        return _text(self.ids([oid])[oid])

    def age(self, then: datetime | None) -> str:
        """Return an age: ``now``, ``4m``, ``3h``, ``2d``, after 99 days the date, as of the future; ``?`` for None."""
        seconds = (self.now - then).total_seconds() if then is not None else -1
        if then is None or not -60 < seconds < 100 * 86_400:
            return f"{then.astimezone():%Y-%m-%d}" if then is not None else "?"
        return self.lasting(seconds)

    def beside(self, then: datetime) -> str:
        """Return a moment as it is stored, and its age, but for ages that would be its date once more."""
        ago = self.age(then)
        return timestamp(then) + (f" ({ago})" if ago[-1].isalpha() else "")

    def lasting(self, seconds: float) -> str:
        """So many seconds: ``now``, ``4m``, ``3h``, ``2d``."""
        return next((f"{int(seconds // length)}{unit}" for unit, length in _UNITS if seconds >= length), "now")

    def ago(self, then: datetime) -> str:
        """Return an age in a sentence: ``4m ago``, ``just now``, ``on 2026-01-01``."""
        age = self.age(then)
        return "just now" if age == "now" else f"{age} ago" if age[-1].isalpha() else f"on {age}"

    def state(self, word: str, said: str = "") -> Cell:
        """Return the state of tests, by a verdict (``green``, ``failed``, ``stale``, ``pending``) or a run's result
        (``passed``, ...):"""
        sign = _STATES.get(word, "?")
        slot = {"+": "green", "x": "failed", "~": "stale"}.get(sign, "pending")
        return ((f"{sign} {said or ('-' if word == 'pending' else word)}", slot),)

    def drift(self, live: Live, *, short: bool = False) -> Cell:
        """Return a checkpoint's drift: ``= home``, ``= committed as 478c9d0``, or what moved, ``short`` in fewer words."""
        words = [w.word for w in live.drift.words]
        home = all(word.startswith("committed:") for word in words)
        said = ", ".join(self._move(word, live.head.oid) for word in words if home or not short or word[:9] != "committed")
        return ((f"= {said or 'home'}", "home") if home else (f"! {_PLAIN.sub('', said) if short else said}", "drift"),)

    def _move(self, word: str, head: Oid | None) -> str:
        """A word of drift for people."""
        kind, _, count = word.partition(":")
        if kind == "committed" and head:
            return f"committed as {self._abbreviate(head, self._commit)}"
        if kind in _COUNTS:
            noun, after = _COUNTS[kind]
            return counted(int(count), noun) + after
        return _MOVES.get(word) or (f"diverged {count}" if kind == "head-diverged" else f"{plain(count)} in progress")

    def kind(self, stored: Stored) -> Cell:
        """Return the sign of a checkpoint's kind: ``o`` manual, ``.`` automatic, ``<`` taken before a restore."""
        sign, slot = {"manual": ("o", "manual"), "safety": ("<", "restored")}.get(stored.checkpoint.kind, (".", ""))
        return ((sign, slot),)

    def mark(self, stored: Stored) -> Cell:
        """Return the mark before words of a checkpoint: ``>`` where they are foreign."""
        return (("> ", "foreign"),) if stored.foreign_words else ()

    def track(self, stored: Stored, *, current: bool) -> Cell:
        """Return the track of a checkpoint: ``*`` before the current one, ``>`` before one that is foreign."""
        return (
            ("* " if current else "  ", ""),
            *self.mark(stored),
            (plain(stored.checkpoint.track), "current" if current else ""),
        )

    def words(self, stored: Stored, text: str, after: str = "") -> Cell:
        """Return words of a checkpoint in one line, and ``after`` behind them; those that are foreign stand behind a ``>``."""
        return (*self.mark(stored), (brief(text), ""), (after and f" {after}", "foreign" if stored.foreign_words else "home"))

    def named(self, stored: Stored, step: str | None = None) -> Cell:
        """Return a checkpoint for a sentence: its id, and its step or title."""
        return (
            *self.ids([stored.id])[stored.id],
            (" ", ""),
            *self.words(stored, title(stored)[0] if step is None else step),
        )

    def short(self, name: str) -> str:
        """Shorten a user's name for a sentence, to at most a third of the screen."""
        return bare(self.cut(name))

    def quoted(self, name: str) -> str:
        """The same in quotes."""
        return in_quotes(self.cut(name))

    def cut(self, name: str) -> str:
        """A name, safe for a terminal, in at most a third of the screen."""
        return cut(plain(name), max(self.columns // 3, _NAME)) if self.columns is not None else plain(name)

    def fit(self, *pieces: Cell | str) -> str:
        """Return pieces as one line that is not longer than the screen is wide."""
        cell = tuple(piece for part in pieces for piece in (((part, ""),) if isinstance(part, str) else part))
        return self.text(_cut(cell, self.columns) if self.columns is not None else cell)

    def text(self, cell: Cell) -> str:
        """A cell in its colours."""
        return "".join(self.paint(text, slot) for text, slot in cell) if self.colors else _text(cell)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell | str]], *, heading: bool = False) -> Iterator[str]:
        """Yield rows in columns, one line each, none longer than the screen is wide: columns go where there is no room, then
        the last one is cut. A column without any text is left out. Of many rows that are still to be made a screen gets the
        first ones while others are: where these need more room, columns are wider, or go, from there on."""
        size = None if self.columns is None or isinstance(rows, Sequence) else _PART
        rows, natural = iter(rows), dict[int, int]()
        part, ends = list(islice(rows, size)), heading
        while part or ends:
            yield from self._part(columns, part, natural, heading=ends)
            part, ends = list(islice(rows, size)), False

    def _part(
        self, columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]], natural: dict[int, int], *, heading: bool
    ) -> Iterator[str]:
        """Yield a part of a table; ``natural``: the width of each column's texts so far, which this part adds to."""
        cells: list[Sequence[Cell]] = [[((c, ""),) if isinstance(c, str) else c for c in row] for row in rows]
        if heading:
            cells.insert(0, [((column.name, "heading"),) for column in columns])
        widths = [[width(_text(cell)) for cell in row] for row in cells]
        *shown, last = (
            n for n in range(len(columns)) if n in natural or any(_text(row[n]) for row in cells[heading:]) or not rows
        )
        natural |= {n: max(natural.get(n, 0), *(row[n] for row in widths)) for n in (*shown, last)}
        wide = dict(natural)
        if self.columns is not None:
            least = min(LEAST, wide[last])
            wide |= {n: min(wide[n], max(self.columns // 5, _NAME)) for n in shown if columns[n].named}
            for n in sorted(shown, key=lambda n: -columns[n].goes):
                give = sum(max(wide[m] - _NAME, 0) for m in shown if columns[m].named)
                if columns[n].goes and sum(wide[m] + 2 for m in shown) + least - give > self.columns:
                    shown.remove(n)
            while shown and (over := sum(wide[n] + 2 for n in shown) + least - self.columns) > 0:
                widest = max(shown, key=lambda n: (columns[n].named and wide[n] > _NAME, wide[n]))
                spare = columns[widest].named and wide[widest] > _NAME
                if not spare and (wide[widest] <= _DIGITS or over <= least - _TIGHT):
                    break
                wide[widest] -= 1
            wide[last] = max(self.columns - sum(wide[n] + 2 for n in shown), 1)
        for row, taken in zip(cells, widths, strict=True):
            parts = []
            for n in (*shown, last):
                cell, over = row[n], taken[n] - wide[n]
                if over > 0:
                    cell = _cut(cell, wide[n])
                    over = width(_text(cell)) - wide[n]
                blanks = " " * -over if n != last else ""
                parts.append(blanks + self.text(cell) if columns[n].right else self.text(cell) + blanks)
            yield "  ".join(parts).rstrip()


class _Ids(Mapping[Oid, Cell]):
    """Cells of many ids, each made when it is asked for, with ``shown`` digits; ``least``: digits that say which one it is."""

    def __init__(self, oids: Iterable[Oid], least: int) -> None:
        self.all, self.least, self.shown = sorted({*oids}), least, 0

    def unique(self, oid: Oid) -> int:
        """Return how many digits tell one of them from all the others."""
        at = bisect_left(self.all, oid)
        beside = (*self.all[max(at - 1, 0) : at], *self.all[at + 1 : at + 2])
        return max([self.least, *(_shared(oid, other) + 1 for other in beside)])

    def __getitem__(self, oid: Oid) -> Cell:
        digits = self.unique(oid)
        return (oid[:digits], "id"), (oid[digits : self.shown], "")

    def __iter__(self) -> Iterator[Oid]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)


def _shared(one: str, other: str) -> int:
    """Return the length of the common beginning of two ids."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)


def _text(cell: Cell) -> str:
    return cell[0][0] if len(cell) == 1 else "".join([text for text, _ in cell])


def _cut(cell: Cell, columns: int) -> Cell:
    """A cell in at most so many columns."""
    text = cut(_text(cell), columns)
    kept: list[tuple[str, str]] = []
    for piece, slot in cell:
        kept.append((text[: len(piece)], slot))
        text = text[len(piece) :]
    return (*kept, (text, ""))


def turn_step(one: UnderWay) -> str:
    """Return the title of an open turn, as of the checkpoint that would end it."""
    return f"{NOT_ENDED}: {brief(one.span.prompt)}" if one.span.prompt else NOT_ENDED


def turn_sentence(one: UnderWay, prompt: str) -> str:
    """Return an open turn with the beginning of its prompt, the number of changed files, and the command that takes it back."""
    said = f'{NOT_ENDED}: "{prompt}"' if prompt else NOT_ENDED
    return f"{said}, {counted(len(one.paths), 'file')} so far; {TAKE_BACK}"


def turn_document(one: UnderWay) -> dict[str, Json]:
    """Return an open turn for ``--json``."""
    session, since = one.span.session, one.span.since
    return {
        "track": one.track,
        "agent": session.name if session is not None else None,
        "session": session.session if session is not None else None,
        "prompt": one.span.prompt,
        "since": timestamp(since) if since is not None else None,
        "began": one.span.began.id if one.span.began is not None else None,
        "files": len(one.paths),
    }


def turn_header(one: UnderWay) -> str:
    """Return an open turn for ``--porcelain``: the track, how many files, and the prompt."""
    return f"# open-turn {quoted(one.track)}\t{len(one.paths)}\t{quoted(first_line(one.span.prompt))}"


def tests_of(stored: Stored, live: Live, look: Look) -> Cell:
    """Return the state of tests: the verdict of the words, or where that is older or missing, the newest observed run."""
    c, said = stored.checkpoint, verdict(stored, live.since)
    if c.observed is None or not c.observed.tests or not (leads(c) or said == "pending"):
        return look.state(said)
    run, tool = c.observed.tests[0], os.path.basename(line(c.observed.tests[0].command).split(" ")[0])
    ended = f"{run.failed or ''} {run.result}".lstrip()
    if since_run(run, live.tests[0]) != ():
        return look.state("stale", "stale" if run.result == "passed" else f"{ended}, stale")
    return look.state(run.result, f"{tool} {ended}")


def step_of(stored: Stored, look: Look) -> Cell:
    """Return the step of the words, or the newest prompt since."""
    c = stored.checkpoint
    if c.observed is not None and c.observed.asked and leads(c):
        return look.words(stored, title_of(c))
    return look.words(stored, c.headline)
