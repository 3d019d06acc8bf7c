"""Views of the picker (a checkpoint's line, words, changes, conversation), and its deeds."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from gitbaton.agents import transcripts
from gitbaton.base import terminal
from gitbaton.base.clients import agent_of
from gitbaton.base.codec import counted, in_quotes, plain
from gitbaton.base.errors import BatonError, UsageError
from gitbaton.base.model import NOT_ENDED, Oid, Op, Stored, is_turn
from gitbaton.base.values import replace
from gitbaton.care.retention.rules import set_pin
from gitbaton.care.tools import branching, conversations, rewinding
from gitbaton.care.tools.rewinding import RewindRow
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import age, decision_texts, line, observed_pairs, quoted, quoting, title, verdict
from gitbaton.checkpoints.restore.values import Order, Restored, RestorePlan
from gitbaton.checkpoints.store.meta import Meta, read
from gitbaton.checkpoints.store.turns import UnderWay
from gitbaton.checkpoints.survey import tests_then
from gitbaton.cli.columns import cut, padded, width
from gitbaton.cli.commands.restore import plan_conversation, show_plan, tell_written
from gitbaton.cli.commands.transcript import blocks
from gitbaton.cli.common import warn_all
from gitbaton.cli.look import TAKE_BACK, Cell, Look, turn_step
from gitbaton.cli.view import KINDS, NOTHING

MANY = 2_000  # lines of a patch or a conversation that are shown at once
LONGEST = 1_000  # characters of one of them
WIDE = 60  # columns of the list from which tests and files are words
LABEL = 9  # columns before what a label names
FILE = re.compile(r"^diff --git (?:a/(.+) b/\1|.*)\n", re.M)
NAME = re.compile(r'^(?:rename to |\+\+\+ (?="?b/)|--- (?="?a/))("?)(?:[ab]/)?(.*?)\1\t?$', re.M)
KEPT = ("old mode", "new mode", "rename from", "Binary files")
HUNK = {"@": "restored", "+": "green", "-": "failed", "\\": "pending"}


class ViewLine(NamedTuple):
    """A line of the right side in a slot's colour; where it is too long, what follows stands below what follows its label."""

    text: str
    slot: str = ""
    label: str = ""


class PickerView(NamedTuple):
    """A view: its lines, what stands above them, where its parts begin, how many lines are left out; ``last``: what counts is
    at the end."""

    lines: Sequence[ViewLine]
    head: str = ""
    parts: Sequence[int] = ()
    more: int = 0
    last: bool = False


def failed(error: BatonError) -> PickerView:
    """Return the error in place of a view."""
    return PickerView([ViewLine(plain(error.message)), *(ViewLine(plain(hint), label="hint: ") for hint in error.hints)])


class Views:
    """Views of a repository's checkpoints. ``names``: the ids as the list shows them."""

    def __init__(self, baton: Baton, look: Look) -> None:
        self.baton, self.look = baton, look
        self.names: dict[Oid, Cell] = {}
        self.marks: Meta | None = None

    def row(self, row: RewindRow, room: int) -> Cell:
        """A checkpoint in one line of the list: id, sign, age, tests, words; where there is room, the files, too."""
        look, stored, c, wide = self.look, row.stored, row.stored.checkpoint, room >= WIDE
        step, ran = title(stored)
        step = line(step) + (f" (after: {line(c.headline)})" if c.carried and step == c.step else "")
        ((tests, slot),) = look.state(ran.result if ran else verdict(stored))
        files = counted(row.changes.files, "file") if row.changes else ""
        parts = [
            *self.names[stored.id],
            (" ", ""),
            *look.kind(stored),
            (f" {look.age(c.created):>4} ", ""),
            (tests if wide else tests[:1], slot),
            (f" {files:>{18 - len(tests)}} " if wide else " ", ""),
            *look.mark(stored),
            *([(f"[{cut(line(c.label), room // 3)}] ", "manual")] if c.label else []),
        ]
        return _filled(parts, step, room)

    def open_row(self, one: UnderWay, room: int) -> Cell:
        """The open turn in a line of the list, in the columns of the others, without an id."""
        look, wide = self.look, room >= WIDE
        ((tests, slot),) = look.state("pending")
        blank = " " * max((sum(width(text) for text, _ in name) for name in self.names.values()), default=4)
        parts = [
            (f"{blank} . {look.age(one.span.since) if one.span.since else '':>4} ", ""),
            (tests if wide else tests[:1], slot),
            (f" {counted(len(one.paths), 'file'):>{18 - len(tests)}} " if wide else " ", ""),
        ]
        return _filled(parts, turn_step(one), room)

    def open_words(self, one: UnderWay) -> PickerView:
        """Return the prompt of the open turn, its agent, and the paths changed since the newest checkpoint."""
        agent, since = one.span.session, one.span.since
        parts = [
            NOT_ENDED,
            *([age(since, self.baton.clock())] if since else []),
            *([f"by {line(agent.name)}"] if agent else []),
        ]
        found = [
            ViewLine(", ".join(parts), "pending"),
            ViewLine(""),
            *(ViewLine(text, "manual") for text in plain(one.span.prompt, keep="\n\t").strip("\n").split("\n")),
            ViewLine(""),
            *(ViewLine(quoted(path), label="changed ".ljust(LABEL)) for path in one.paths[:MANY]),
            ViewLine(""),
            ViewLine(TAKE_BACK),
        ]
        return PickerView(found, more=max(len(one.paths) - MANY, 0))

    def sought(self, row: RewindRow | UnderWay) -> str:
        """Return the text that the filter searches."""
        if isinstance(row, UnderWay):
            return "\n".join([turn_step(row), row.span.session.name if row.span.session else "", *row.paths]).lower()
        c = row.stored.checkpoint
        prompts = [one.text for one in c.observed.asked] if c.observed else []
        fields = (row.stored.id, c.kind, verdict(row.stored), c.step, c.note, c.next_cmd, c.label or "", row.agent or "")
        return "\n".join([*fields, *prompts]).lower()

    def words(self, row: RewindRow) -> PickerView:
        """Return the words and observations of a checkpoint; whether it is pinned, and how many are newer."""
        stored, c, baton = row.stored, row.stored.checkpoint, self.baton
        if self.marks is None:
            self.marks = read(baton.store)
        step, ran = title(stored)
        said = ran.result if ran else verdict(stored)
        parts = [
            KINDS.get(c.kind, c.kind),
            f"tests: {NOTHING}" if said == "pending" else said,
            age(c.created, baton.clock()),
            *([f"by {line(row.agent)}"] if row.agent else []),
        ]
        found = [
            ViewLine(baton.short(stored.id), "id"),
            ViewLine(", ".join(parts), "pending"),
            ViewLine(""),
            *self._pair("", step, row, "manual"),
        ]
        given = [("after", c.headline if c.carried and c.headline != step else ""), ("note", c.note), ("next", c.next_cmd)]
        seen = observed_pairs(c.observed, tests_then(baton.store, stored), baton.told(stored), self.look.age)
        pairs = (*given, *(("decision", text) for text in decision_texts(stored)), *c.extra, *seen)
        told = [part for key, text in pairs if text for part in self._pair(key, text, row)]
        newer, changes = rewinding.newer(baton, stored), row.changes
        facts = [
            ("label", c.label or ""),
            ("pinned", "no prune removes it" if self.marks.pinned(stored.id) else ""),
            ("branch", f"{c.branch or 'HEAD'} at {baton.abbreviate(c.head)}" if c.head else c.branch or ""),
            ("changed", f"{counted(changes.files, 'file')} +{changes.added} -{changes.removed}" if changes else ""),
            ("newer", f"{counted(newer, 'checkpoint')} of the track, which stay" if newer else ""),
        ]
        known = [part for key, text in facts if text for part in self._pair(key, text, row)]
        return PickerView([*found, ViewLine(""), *told, *([ViewLine("")] if told else []), *known])

    def _pair(self, key: str, text: str, row: RewindRow, slot: str = "") -> Iterator[ViewLine]:
        """A name and its text, which can forge no other."""
        label = f"{line(key):<{LABEL - 1}} " if key else ""
        for number, part in enumerate(plain(text, keep="\n\t").strip("\n").split("\n")):
            yield ViewLine(part, slot, quoting(row.stored) + (" " * len(label) if number else label))

    def diff(self, row: RewindRow, *, now: bool, whole: bool) -> PickerView:
        """Return the changes since a checkpoint, or in it, against the one before; file by file, its beginning where it is
        long."""
        if not now:
            patch = rewinding.within(self.baton, row.stored)
            return self._by_file(patch, [], "in it, against the checkpoint before", whole=whole)
        return self._by_file(*rewinding.since(self.baton, row.stored), "since it, until now", whole=whole)

    def open_diff(self, one: UnderWay, *, whole: bool) -> PickerView:
        """Return the changes of the open turn since the newest checkpoint, file by file."""
        changes = rewinding.since(self.baton, self.baton.tip(one.track))
        return self._by_file(*changes, "since the newest checkpoint, until now", whole=whole)

    def _by_file(self, patch: bytes, warnings: Sequence[str], said: str, *, whole: bool) -> PickerView:
        files, lines, parts, more = list(_files(patch)), [ViewLine(text, "stale") for text in warnings], [], 0
        if len(files) > 1:
            wide = min(max(width(file.name) for file in files), 60)
            lines += [ViewLine(f"{f.sign} {padded(f.name, wide, right=False)}  {f.changed}", f.slot) for f in files] + [
                ViewLine("")
            ]
        for file in files:
            kept = file.rows if whole else file.rows[: max(MANY - len(lines), 0)]
            more += len(file.rows) - len(kept)
            if kept or not more:
                parts.append(len(lines))
                lines += [
                    ViewLine(f"{file.sign} {file.name}  {file.changed}", "manual"),
                    *_coloured(kept, whole=whole),
                    ViewLine(""),
                ]
        return PickerView(lines, f"{counted(len(files), 'file') if files else 'no file'} changed {said}", parts, more)

    def talk(self, row: RewindRow, *, whole: bool) -> PickerView:
        """The conversation up to a checkpoint, as far as it is stored here or its client keeps it; its end where it is long."""
        stored, baton = row.stored, self.baton
        try:
            found = blocks(baton, stored, transcripts.read(baton, stored, os.environ))
        except BatonError as error:
            told = baton.told(stored)
            kept = [
                *(("asked", one) for one in (told.asked if told else ())),
                *(("said", one) for one in (told.spoken if told else ())),
            ]
            around = [part for key, one in kept for part in self._pair(key, one.text, row)]
            return PickerView([*failed(error).lines, ViewLine(""), *around], "what was said around it" if around else "")
        mark = quoting(stored)
        rows = list[ViewLine]()
        for who, said in found:
            texts = (ViewLine(text, label=f"{mark}    ") for text in said)
            rows += [ViewLine(who, "manual", mark), *texts, ViewLine("", label=mark)]
        shown = rows[:-1] if whole else rows[-MANY - 1 : -1]
        lines = [row._replace(text=_short(row.text.expandtabs(4), whole=whole)) for row in shown]
        parts = [at for at, row in enumerate(shown) if row.slot]
        return PickerView(lines, f"{counted(len(found), 'message')}, up to it", parts, len(rows) - 1 - len(shown), last=True)


def _filled(parts: Sequence[tuple[str, str]], words: str, room: int) -> Cell:
    """Return a line of the list: its cells, and as much of the words as has room behind them."""
    return (*parts, (cut(words, max(room - sum(width(text) for text, _ in parts), 1)), ""))


def _short(text: str, *, whole: bool) -> str:
    return text if whole else cut(text, LONGEST)


class PatchFile(NamedTuple):
    """A file of a patch: what became of it, its name, the lines added and removed, and its hunks."""

    sign: str
    name: str
    changed: str
    slot: str
    rows: list[str]


def _files(patch: bytes) -> Iterator[PatchFile]:
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
        yield PatchFile(sign, name, count, {"+": "green", "-": "failed"}.get(sign, "stale"), rows)


def _coloured(rows: Sequence[str], *, whole: bool) -> Iterator[ViewLine]:
    for row in rows:
        yield ViewLine(_short(plain(row, keep="\t").expandtabs(4), whole=whole), HUNK.get(row[:1], ""))


class Offer(NamedTuple):
    """Plan that is shown. ``talk``: how the conversation would be written back; else ``why`` it cannot be."""

    order: Order
    plan: RestorePlan
    talk: conversations.ConversationPlan | None = None
    why: str = ""

    @property
    def spoken(self) -> str:
        """Summary of the conversation that would be written back, or why not."""
        lines = self.talk.data.count(b"\n") if self.talk else 0
        return f"{counted(lines, 'line')}, as a new session of {in_quotes(self.talk.agent)}" if self.talk else self.why


class Offers(NamedTuple):
    """Offers at a row: ``plans``, of which the one at ``first`` is meant until another is picked; ``why`` a turn cannot be
    taken back, in words."""

    plans: tuple[Offer, ...]
    first: int = 0
    why: str = ""


class Deeds:
    """Deeds of the picker, in their order: ``restored``, with what was said of each, and ``told``, functions that print all of
    it when the screen is gone. Every method raises BatonError."""

    def __init__(self, baton: Baton, look: Look) -> None:
        self.baton, self.look = baton, look
        self.restored: list[tuple[Restored, tuple[str, ...]]] = []
        self.told: list[Callable[[], None]] = []

    def shown(self, order: Order, op: Op, stored: Stored | None = None) -> Offer:
        """The plan of a restore, revert, undo or redo; with ``stored`` also what its conversation could become."""
        plan = rewinding.preview(self.baton, order, op)
        if stored is None:
            return Offer(order, plan)
        try:
            return Offer(order, plan, plan_conversation(self.baton, stored, foreign=order.foreign))
        except BatonError as error:
            return Offer(order, plan, why=plain(error.message))

    def offered(self, order: Order, stored: Stored | None, *, talk: bool) -> Offers:
        """To take back the turn of a checkpoint, or the open one, where it is of one, and to go back to it; with ``talk`` also
        what its conversation could become."""
        back = rewinding.of_turn(order, stored)
        if stored is None:
            return Offers((self.shown(back, "revert"),))
        there = self.shown(replace(order, checkpoint=stored.id), "restore", stored if talk else None)
        plan, why = rewinding.turn_back(self.baton, back)
        plans = (*([Offer(back, plan)] if plan else []), there)
        return Offers(plans, 0 if is_turn(stored.checkpoint.kind, stored.checkpoint.step) else len(plans) - 1, why)

    def carry_out(self, shown: Offer, *, files: bool, talk: bool) -> rewinding.RewindOutcome | None:
        """Restore files, write the conversation, or both, just as shown; None for a conversation alone. Where the files would
        become something else now neither happens."""
        outcome = rewinding.carry_out(self.baton, shown.order, shown.plan.op, shown.plan.digest) if files else None
        done = outcome.restored if outcome else None
        if outcome and done:
            said = (*outcome.said, *done.warnings)
            self.restored.append((done, said))
            self.told.append(partial(show_plan, done.plan, done.safety, said, dry_run=False, json=False))
        if talk and shown.talk and (done or not files):
            conversations.apply(shown.talk)
            self.told.append(partial(tell_written, shown.talk, shown.plan.target, dry_run=False))
        return outcome

    def branch(self, stored: Stored, name: str) -> str:
        """A branch of a checkpoint, as 'git baton branch' makes it."""
        plan = branching.plan(self.baton, name, stored)
        at = branching.apply(self.baton, plan)
        what = self.look.named(stored) if plan.commit else ((plan.reason, ""),)
        return self._said(f"branch {in_quotes(plan.name)} at {self.baton.abbreviate(at)}: ", what, plan.warnings)

    def worktree(self, stored: Stored, place: str) -> str:
        """A work tree of a checkpoint, as 'git baton worktree' makes it."""
        directory = os.path.expanduser(place)
        plan = branching.plan_worktree(self.baton, stored, directory)
        branching.apply_worktree(self.baton, plan)
        return self._said(f"checked out in {in_quotes(directory)}: ", self.look.named(stored), plan.warnings)

    def pin(self, stored: Stored) -> str:
        """A pin set, or the one there is taken back."""
        pinned = set_pin(self.baton, stored.id, pinned=True)[1]
        if not pinned:
            set_pin(self.baton, stored.id, pinned=False)
        return self._said("pinned " if pinned else "no longer pinned ", self.look.named(stored), ())

    def label(self, name: str) -> str:
        """A checkpoint of now with a label, of the current track, as 'git baton snapshot --label' takes it."""
        if not name.strip():
            raise UsageError("the label is empty")
        done = self.baton.snapshot(label=name, agent=agent_of(os.environ))
        return self._said(f"{plain(done.stored.checkpoint.track)} ", self.look.named(done.stored), done.warnings)

    def _said(self, text: str, what: Cell, warnings: Sequence[str]) -> str:
        """Return the text of a deed, and keep it to be said again when the screen is gone."""
        self.told += [partial(terminal.say, self.look.fit(text, what)), partial(warn_all, list(warnings))]
        return "; ".join(["".join([text, *(piece for piece, _ in what)]), *map(plain, warnings)])
