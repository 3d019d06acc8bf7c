"""What the picker shows of a checkpoint: its line in the list, its words, its changes file by file, its conversation."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gitbaton import transcripts
from gitbaton.baton import Baton
from gitbaton.cli.columns import cut, padded, width
from gitbaton.cli.look import Cell, Look
from gitbaton.codec import counted, plain
from gitbaton.commands import underway
from gitbaton.commands.transcript import blocks
from gitbaton.errors import BatonError
from gitbaton.model import NOT_ENDED, Oid
from gitbaton.render import age, line, observed_pairs, quoted, quoting, title, verdict
from gitbaton.store.meta import Meta, read
from gitbaton.store.turns import UnderWay
from gitbaton.survey import tests_then
from gitbaton.tools import rewinding
from gitbaton.tools.rewinding import Row

MANY = 2_000  # lines of a patch or a conversation that are shown at once
LONGEST = 1_000  # characters of one of them
WIDE = 60  # columns of the list from which tests and files are words
LABEL = 9  # columns before what a label names
FILE = re.compile(r"^diff --git (?:a/(.+) b/\1|.*)\n", re.M)
NAME = re.compile(r'^(?:rename to |\+\+\+ (?="?b/)|--- (?="?a/))("?)(?:[ab]/)?(.*?)\1\t?$', re.M)
KEPT = ("old mode", "new mode", "rename from", "Binary files")
HUNK = {"@": "restored", "+": "green", "-": "failed", "\\": "pending"}


class Line(NamedTuple):
    """A line of the right side in a slot's colour; where it is too long, what follows stands below what follows its label."""

    text: str
    slot: str = ""
    label: str = ""


class Shown(NamedTuple):
    """A view: its lines, what stands above them, where its parts begin, how many lines are left out; ``last``: what counts is
    at the end."""

    lines: Sequence[Line]
    head: str = ""
    parts: Sequence[int] = ()
    more: int = 0
    last: bool = False


def failed(error: BatonError) -> Shown:
    """Why there is nothing to show."""
    return Shown([Line(plain(error.message)), *(Line(plain(hint), label="hint: ") for hint in error.hints)])


class Views:
    """What can be seen of a repository's checkpoints. ``names``: the ids as the list shows them."""

    def __init__(self, baton: Baton, look: Look) -> None:
        self.baton, self.look = baton, look
        self.names: dict[Oid, Cell] = {}
        self.marks: Meta | None = None

    def row(self, row: Row, room: int) -> Cell:
        """A checkpoint in one line of the list: id, sign, age, tests, words; where there is room, the files, too."""
        look, stored, c, wide = self.look, row.stored, row.stored.checkpoint, room >= WIDE
        step, ran = title(stored)
        step = line(step) + (f" (after: {line(c.headline)})" if c.carried and step == c.step else "")
        ((tests, slot),) = look.state(ran.result if ran else verdict(stored))
        files = counted(row.changes.files, "file") if row.changes else ""
        parts: list[tuple[str, str]] = [*self.names[stored.id], (" ", ""), *look.kind(stored)]
        files = f" {files:>{18 - len(tests)}} " if wide else " "
        parts += [(f" {look.age(c.created):>4} ", ""), (tests if wide else tests[:1], slot), (files, "")]
        parts += [*look.mark(stored), *([(f"[{cut(line(c.label), room // 3)}] ", "manual")] if c.label else [])]
        used = sum(width(text) for text, _ in parts)
        return (*parts, (cut(step, max(room - used, 1)), ""))

    def open_row(self, one: UnderWay, room: int) -> Cell:
        """The open turn in a line of the list, in the columns of the others, without an id."""
        look, wide = self.look, room >= WIDE
        ((tests, slot),) = look.state("pending")
        blank = " " * max((sum(width(text) for text, _ in name) for name in self.names.values()), default=4)
        files = f" {counted(len(one.paths), 'file'):>{18 - len(tests)}} " if wide else " "
        parts = [(f"{blank} . {look.age(one.span.since) if one.span.since else '':>4} ", "")]
        parts += [(tests if wide else tests[:1], slot), (files, "")]
        used = sum(width(text) for text, _ in parts)
        return (*parts, (cut(underway.step(one), max(room - used, 1)), ""))

    def open_words(self, one: UnderWay) -> Shown:
        """What the open turn was asked for, whose it is, and what it has changed since the newest checkpoint."""
        agent, since = one.span.session, one.span.since
        parts = [
            NOT_ENDED,
            *([age(since, self.baton.clock())] if since else []),
            *([f"by {line(agent.name)}"] if agent else []),
        ]
        found = [Line(", ".join(parts), "pending"), Line("")]
        found += [Line(text, "manual") for text in plain(one.span.prompt, keep="\n\t").strip("\n").split("\n")]
        found += [Line(""), *(Line(quoted(path), label="changed ".ljust(LABEL)) for path in one.paths[:MANY])]
        return Shown([*found, Line(""), Line(underway.TAKE_BACK)], more=max(len(one.paths) - MANY, 0))

    def sought(self, row: Row | UnderWay) -> str:
        """What the filter looks at."""
        if isinstance(row, UnderWay):
            return "\n".join([underway.step(row), row.span.session.name if row.span.session else "", *row.paths]).lower()
        c = row.stored.checkpoint
        prompts = [one.text for one in c.observed.asked] if c.observed else []
        fields = (row.stored.id, c.kind, verdict(row.stored), c.step, c.note, c.next_cmd, c.label or "", row.agent or "")
        return "\n".join([*fields, *prompts]).lower()

    def words(self, row: Row) -> Shown:
        """What somebody wrote, and what was seen; whether it is pinned, and what is newer than it."""
        stored, c, baton = row.stored, row.stored.checkpoint, self.baton
        if self.marks is None:
            self.marks = read(baton.store)
        step, ran = title(stored)
        parts = [c.kind, ran.result if ran else verdict(stored), age(c.created, baton.clock())]
        parts += [f"by {line(row.agent)}"] if row.agent else []
        found = [Line(stored.id, "id"), Line(", ".join(parts), "pending"), Line(""), *self._pair("", step, row, "manual")]
        given = [("after", c.headline if c.carried and c.headline != step else ""), ("note", c.note), ("next", c.next_cmd)]
        given += [*(("decision", text) for text in c.decisions), *c.extra]
        seen = observed_pairs(c.observed, tests_then(baton.store, stored), baton.told(stored), self.look.age)
        told = [part for key, text in (*given, *seen) if text for part in self._pair(key, text, row)]
        place = f"{c.branch or 'HEAD'} at {baton.abbreviate(c.head)}" if c.head else c.branch or ""
        newer = rewinding.newer(baton, stored)
        changes = row.changes
        facts = [("label", c.label or ""), ("pinned", "no prune removes it" if self.marks.pinned(stored.id) else "")]
        facts += [("branch", place)]
        facts += [("changed", f"{counted(changes.files, 'file')} +{changes.added} -{changes.removed}")] if changes else []
        facts += [("newer", f"{counted(newer, 'checkpoint')} of the track, which stay")] if newer else []
        known = [part for key, text in facts if text for part in self._pair(key, text, row)]
        return Shown([*found, Line(""), *told, *([Line("")] if told else []), *known])

    def _pair(self, key: str, text: str, row: Row, slot: str = "") -> Iterator[Line]:
        """A name and its text, which can forge no other."""
        label = f"{line(key):<{LABEL - 1}} " if key else ""
        for number, part in enumerate(plain(text, keep="\n\t").strip("\n").split("\n")):
            yield Line(part, slot, quoting(row.stored) + (" " * len(label) if number else label))

    def diff(self, row: Row, *, now: bool, whole: bool) -> Shown:
        """What changed since a checkpoint, or in it, against the one before; file by file, its beginning where it is long."""
        if now:
            patch, warnings = rewinding.since(self.baton, row.stored)
            said = "since it, until now"
        else:
            patch, warnings, said = rewinding.within(self.baton, row.stored), [], "in it, against the checkpoint before"
        return self._by_file(patch, warnings, said, whole=whole)

    def open_diff(self, one: UnderWay, *, whole: bool) -> Shown:
        """What the open turn has changed since the newest checkpoint, file by file."""
        patch, warnings = rewinding.since(self.baton, self.baton.tip(one.track))
        return self._by_file(patch, warnings, "since the newest checkpoint, until now", whole=whole)

    def _by_file(self, patch: bytes, warnings: Sequence[str], said: str, *, whole: bool) -> Shown:
        files, lines, parts, more = list(_files(patch)), [Line(text, "stale") for text in warnings], [], 0
        if len(files) > 1:
            wide = min(max(width(file.name) for file in files), 60)
            lines += [Line(f"{f.sign} {padded(f.name, wide, right=False)}  {f.changed}", f.slot) for f in files] + [Line("")]
        for file in files:
            kept = file.rows if whole else file.rows[: max(MANY - len(lines), 0)]
            more += len(file.rows) - len(kept)
            if kept or not more:
                parts.append(len(lines))
                lines += [Line(f"{file.sign} {file.name}  {file.changed}", "manual"), *_coloured(kept, whole=whole), Line("")]
        return Shown(lines, f"{counted(len(files), 'file') if files else 'no file'} changed {said}", parts, more)

    def talk(self, row: Row, *, whole: bool) -> Shown:
        """The conversation up to a checkpoint, as far as it is stored here or its client keeps it; its end where it is long."""
        stored, baton = row.stored, self.baton
        try:
            found = blocks(baton, stored, transcripts.read(baton, stored, os.environ))
        except BatonError as error:
            told = baton.told(stored)
            kept = [("asked", one) for one in told.asked] if told else []
            kept += [("said", one) for one in (told.said, told.saying) if one] if told else []
            around = [part for key, one in kept for part in self._pair(key, one.text, row)]
            return Shown([*failed(error).lines, Line(""), *around], "what was said around it" if around else "")
        mark = quoting(stored)
        rows = list[Line]()
        for who, said in found:
            rows += [Line(who, "manual", mark), *(Line(text, label=f"{mark}    ") for text in said), Line("", label=mark)]
        shown = rows[:-1] if whole else rows[-MANY - 1 : -1]
        lines = [row._replace(text=_short(row.text.expandtabs(4), whole=whole)) for row in shown]
        parts = [at for at, row in enumerate(shown) if row.slot]
        return Shown(lines, f"{counted(len(found), 'message')}, up to it", parts, len(rows) - 1 - len(shown), last=True)


def _short(text: str, *, whole: bool) -> str:
    return text if whole else cut(text, LONGEST)


class File(NamedTuple):
    """A file of a patch: what became of it, its name, the lines added and removed, and its hunks."""

    sign: str
    name: str
    changed: str
    slot: str
    rows: list[str]


def _files(patch: bytes) -> Iterator[File]:
    """The files of a patch, without what only programs read."""
    text = patch.decode("utf-8", "surrogateescape")
    starts = [*FILE.finditer(text)]
    for start, end in zip(starts, [*(match.start() for match in starts[1:]), len(text)], strict=False):
        head, at, rest = text[start.end() : end].partition("\n@@")
        names = {match[0][:3]: match[2] for match in NAME.finditer(f"{head}\n")}
        name = plain(start[1] or names.get("ren") or names.get("+++") or names.get("---") or start[0])
        sign = "+" if head.startswith("new file") else "-" if head.startswith("deleted") else "~"
        rows = (at + rest).strip("\n").split("\n") if at else []
        counts = {mark: sum(row[:1] == mark for row in rows) for mark in "+-"}
        rows = [row for row in head.split("\n") if row.startswith(KEPT)] + rows
        count = " ".join(f"{mark}{many}" for mark, many in counts.items() if many)
        yield File(sign, name, count, {"+": "green", "-": "failed"}.get(sign, "stale"), rows)


def _coloured(rows: Sequence[str], *, whole: bool) -> Iterator[Line]:
    for row in rows:
        yield Line(_short(plain(row, keep="\t").expandtabs(4), whole=whole), HUNK.get(row[:1], ""))
