"""The full-screen picker of ``git baton rewind``: checkpoints on the left, what is selected on the right, the plan before the
deed. Needs textual."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, ClassVar, TypeVar

from rich.text import Text
from textual import events, on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.style import Style
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from gitbaton.baton import Baton
from gitbaton.codec import counted, plain
from gitbaton.commands.columns import cut, padded, width
from gitbaton.commands.look import Look
from gitbaton.errors import BatonError
from gitbaton.model import Oid, Op, Stored
from gitbaton.observed import pairs, title
from gitbaton.render import age, line, quote, quoted, resume_lines, verdict
from gitbaton.restore.values import UNMERGED, Order, Plan, Restored, Step
from gitbaton.store import Problem
from gitbaton.survey import tests_then
from gitbaton.tools import comparing, rewinding
from gitbaton.tools.rewinding import Row
from gitbaton.values import replace

T = TypeVar("T")

PANES = ("words", "plan", "now", "before")
PAGE = 200  # checkpoints that are read at once, after the first screenful
NEAR = 60  # rows before the end of the list at which more are read
PAUSE = 0.06  # seconds that a row is selected before its details are read
LARGEST = 2_000  # lines of a patch that are shown
WIDE = 60  # columns of the list from which tests and files are words
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
URGENT = ("conflict", "refuse", "remove", "write", "create", "keep")
SIGNS = {"conflict": "!", "refuse": "!", "remove": "-", "write": "~", "create": "+", "keep": "."}
SLOTS = {"conflict": "failed", "refuse": "failed", "remove": "failed", "write": "stale", "create": "green", "keep": "pending"}
PATCH = (("diff --git", "heading"), ("@@", "restored"), ("+++", "manual"), ("---", "manual"), ("+", "green"), ("-", "failed"))
LIST_KEYS = (
    *(("enter", "plan", "enter"), ("/", "filter", "filter"), ("tab", "track", "track(1)"), ("1-4", "view", "turn(1)")),
    *(("space", "page", "space"), ("u", "undo", "step('undo')"), ("r", "redo", "step('redo')"), ("q", "quit", "leave")),
)
BACK = (("esc", "back", "home"), ("q", "quit", "leave"))


class Listing(OptionList):
    """The checkpoints; whoever changes the size has the rows fitted."""

    def on_resize(self, _: events.Resize) -> None:
        """Another size."""
        assert isinstance(self.app, Picker)
        self.app.fit()


class Picker(App[int]):
    """The screen. ``deeds``: what was carried out, and what was said of it, in order."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    #tracks, #views, #said, #keys { height: 1; width: 1fr; text-wrap: nowrap; text-overflow: clip; }
    #tracks, #keys { padding: 0 1; }
    #said { padding: 0 1; }
    #filter { height: 1; border: none; padding: 0 1; display: none; background: ansi_default; }
    #middle { height: 1fr; }
    #list, #right { height: 1fr; padding: 0; background: ansi_default; }
    #list { width: 46%; max-width: 100; border: none; text-wrap: nowrap; text-overflow: clip; }
    #right { width: 1fr; padding: 0 0 0 1; }
    #details { height: 1fr; background: ansi_default; scrollbar-size-vertical: 1; }
    #text { width: 1fr; height: auto; }
    #steps { height: 1fr; border: none; padding: 0; display: none; background: ansi_default; }
    OptionList > .option-list--option { padding: 0; }
    OptionList { scrollbar-size-vertical: 1; color: ansi_default; }
    OptionList > .option-list--option-highlighted { background: ansi_default; color: ansi_default; text-style: reverse; }
    OptionList:focus > .option-list--option-highlighted {
        background: ansi_default; color: ansi_default; text-style: reverse bold;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave"),
        Binding("ctrl+c", "interrupt", priority=True),
        Binding("ctrl+q", "leave", priority=True),
        Binding("slash", "filter"),
        Binding("tab", "track(1)", priority=True),
        Binding("shift+tab", "track(-1)", priority=True),
        Binding("1", "view('words')"),
        Binding("2", "view('plan')"),
        Binding("3", "view('now')"),
        Binding("4", "view('before')"),
        Binding("right", "turn(1)"),
        Binding("left", "turn(-1)"),
        Binding("enter", "enter", priority=True),
        Binding("space", "space", priority=True),
        Binding("escape", "home", priority=True),
        Binding("u", "step('undo')"),
        Binding("r", "step('redo')"),
    ]

    def __init__(self, baton: Baton, order: Order, look: Look, tip: Stored) -> None:
        super().__init__()
        self.theme = "ansi-dark"
        self.baton, self.order, self.look, self.tip = baton, order, look, tip
        self.deeds: list[tuple[Restored, tuple[str, ...]]] = []
        self.problems: list[Problem] = []
        self.tracks: list[Stored] = [tip]
        self.rows: list[Row] = []
        self.names: dict[Oid, Text] = {}
        self.slots: dict[str, str] = {}
        self.fitted = 0  # columns of the list that its rows are made for
        self.matched: list[Row] = []
        self.after: Oid | None = None
        self.reading = False
        self.pane = "words"
        self.op: Op = "restore"
        self.plan: Plan | None = None
        self.meant = order
        self.busy = False
        self.ending: int | None = None
        self._one = Lock()

    # What is on the screen.

    def compose(self) -> ComposeResult:
        """The rows and panes of the screen."""
        yield Static(id="tracks")
        yield Input(id="filter", placeholder="words, ids, tests", compact=True)
        with Horizontal(id="middle"):
            yield Listing(id="list", markup=False, compact=True)
            with Vertical(id="right"):
                yield Static(id="views")
                with VerticalScroll(id="details", can_focus=False):
                    yield Static(id="text", markup=False)
                yield OptionList(id="steps", markup=False, compact=True)
        yield Static(id="said", markup=False)
        yield Static(id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin with the list; the tracks and what is selected follow."""
        loop = asyncio.get_running_loop()
        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self.action_interrupt)
        self.listing.focus()
        self._draw_frame()
        self._begin(self.tip)
        self._read_tracks()

    @property
    def listing(self) -> OptionList:
        """The checkpoints."""
        return self.query_one("#list", OptionList)

    @property
    def steps(self) -> OptionList:
        """The paths of the plan."""
        return self.query_one("#steps", OptionList)

    @property
    def chosen(self) -> Row | None:
        """The checkpoint that is selected."""
        at = self.listing.highlighted
        return self.matched[at] if at is not None and at < len(self.matched) else None

    def say(self, text: str, slot: str = "") -> None:
        """One line above the keys."""
        self.query_one("#said", Static).update(Content.styled(plain(" ".join(text.split())), self._style(slot)))

    def _style(self, slot: str) -> str:
        """The style of a slot, as the settings have it."""
        if slot and slot not in self.slots:
            spans = Text.from_ansi(self.look.paint("x", slot)).spans
            self.slots[slot] = str(spans[0].style) if spans else ""
        return self.slots.get(slot, "")

    def _draw_frame(self) -> None:
        """The lines above and below: tracks, views, keys."""
        parts: list[Any] = []
        for number, stored in enumerate(self.tracks):
            name = f" {plain(stored.checkpoint.track)} "
            here = stored.checkpoint.track == self.tip.checkpoint.track
            parts.append((name, Style(reverse=here) + Style.from_meta({"@click": f"app.open({number})"})))
        self.query_one("#tracks", Static).update(Content.assemble(*parts))
        parts = []
        for number, name in enumerate(PANES, 1):
            shown = Style(reverse=name == self.pane) + Style.from_meta({"@click": f"app.view('{name}')"})
            parts.append((f" {number} {name} ", shown))
        self.query_one("#views", Static).update(Content.assemble(*parts))
        keys: Sequence[tuple[str, str, str]] = LIST_KEYS
        if self.focused is self.steps:
            keys = (("enter", "restore files" if self.op == "restore" else f"{self.op} it", "enter"), *BACK)
            if self.op == "restore" and self._in_doubt():
                keys = (*keys[:1], ("space", "this conflict, too", "space"), *keys[1:])
        parts = []
        for key, word, action in keys:
            there = Style.from_meta({"@click": f"app.{action}"})
            parts += [(key, Style(bold=True) + there), (f" {word}", there), "  "]
        self.query_one("#keys", Static).update(Content.assemble(*parts))

    def _in_doubt(self) -> bool:
        """Whether there is a conflict that may be overwritten, or is to be."""
        steps = self.plan.steps if self.plan else ()
        return bool(self.meant.over) or any(step.action == "conflict" and step.reason != UNMERGED for step in steps)

    def fit(self) -> None:
        """Rows as wide as the list is now."""
        if not self._gone() and self.fitted != self.listing.size.width:
            self._show_rows()

    def on_descendant_focus(self, _: events.DescendantFocus) -> None:
        """The keys are those of what has the focus."""
        self._draw_frame()

    async def _asked(self, question: Callable[[], T]) -> T:
        """What takes its time, beside the screen; one question at a time, and none that nobody waits for any more."""
        wanted = asyncio.current_task()

        def answer() -> tuple[T, ...]:
            with self._one:
                return () if wanted is not None and wanted.cancelling() else (question(),)

        found = await asyncio.to_thread(answer)
        if self._gone() or not found:
            raise asyncio.CancelledError
        return found[0]

    def _gone(self) -> bool:
        """Whether the screen is being taken down."""
        return not self.is_running or not self.screen_stack or not self.query("#steps")

    # The list.

    def _begin(self, tip: Stored) -> None:
        """List a track from a checkpoint on."""
        self.tip, self.rows, self.matched, self.after = tip, [], [], tip.commit
        self.listing.clear_options()
        self._draw_frame()
        self._load(max(self.size.height, 20), first=True)

    @work(exclusive=True, group="tracks")
    async def _read_tracks(self) -> None:
        try:
            found = await self._asked(self.baton.readable_tips)
        except BatonError as error:
            self.say(error.message)
            return
        mine = self.tip.checkpoint.track
        others = [s for s in found.items if s.checkpoint.track != mine]
        self.tracks = [self.tip, *others]
        self._draw_frame()

    @work(exclusive=True, group="list")
    async def _load(self, count: int, *, first: bool = False) -> None:
        """The next checkpoints of the track."""
        self.reading = True
        try:
            while self.after is not None:
                track, after, number = self.tip.checkpoint.track, self.after, len(self.rows) + 1

                def page(track: str = track, after: Oid = after, count: int = count, number: int = number) -> rewinding.Page:
                    found = rewinding.page(self.baton, track, after, count, number)
                    ids = self.look.ids(row.stored.id for row in found.rows)
                    self.names |= {oid: Text.from_ansi(self.look.text(cell)) for oid, cell in ids.items()}
                    return found

                found = await self._asked(page)
                self.rows += found.rows
                self.problems += found.problems
                self.after = found.after
                self._add(found.rows)
                count = PAGE
                if not first and not self._wanting():
                    break
                first = False
        except BatonError as error:
            self.after = None
            self.say(error.message, "failed")
        finally:
            self.reading = False
        if not self.rows:
            self._details("no checkpoint of this track can be read")

    def _wanting(self) -> bool:
        """Whether somebody looks at the end of what was read, or looks for something."""
        return bool(self._words()) or (self.listing.highlighted or 0) + NEAR >= len(self.matched)

    def _words(self) -> Sequence[str]:
        return self.query_one("#filter", Input).value.lower().split()

    def _add(self, rows: Sequence[Row]) -> None:
        """Rows that match, at the end of the list."""
        words = self._words()
        more = [row for row in rows if all(word in self._sought(row) for word in words)]
        self.matched += more
        self.listing.add_options([Option(self._line(row), id=row.stored.commit) for row in more])
        if self.listing.highlighted is None and self.matched:
            self.listing.highlighted = 0
        many = f"{len(self.matched):,} of {len(self.rows):,}" if words else f"{len(self.rows):,}"
        if self.focused is not self.steps:
            self.say(f"{many} checkpoint{'' if many == '1' else 's'}{'' if self.after is None else ', more below'}", "pending")
        if not self.matched:
            self._details("")

    def _show_rows(self) -> None:
        """The list anew, with the selected row where it was if it still is there."""
        before, self.matched, self.fitted = self.chosen, [], self.listing.size.width
        self.listing.clear_options()
        self._add(self.rows)
        at = next((n for n, row in enumerate(self.matched) if before and row.stored.commit == before.stored.commit), 0)
        if self.matched:
            self.listing.highlighted = at

    def _sought(self, row: Row) -> str:
        """What the filter looks at."""
        c = row.stored.checkpoint
        prompts = [one.text for one in c.observed.asked] if c.observed else []
        fields = (row.stored.id, c.kind, verdict(row.stored), c.step, c.note, c.next_cmd, c.label or "", row.agent or "")
        return "\n".join([*fields, *prompts]).lower()

    def _line(self, row: Row) -> Text:
        """A checkpoint in one line of the list: id, sign, age, tests, words; where there is room, the files, too."""
        look, stored, c = self.look, row.stored, row.stored.checkpoint
        step, ran = title(stored)
        step += f" (after: {line(c.headline)})" if c.carried and step == c.step else ""
        room = max(self.listing.size.width - 1, 20)
        wide = room >= WIDE
        state = look.state(ran.result) if ran else look.state(verdict(stored))
        ((tests, slot),) = state
        shown = padded(tests, 9, right=False) if wide else tests[:1]
        changes = row.changes
        files = padded(counted(changes.files, "file") if changes else "", 9, right=True) if wide else ""
        label = f"[{line(c.label)}] " if c.label else ""
        text, parts = self.names[stored.id].copy(), [look.kind(stored), ((f"{look.age(c.created):>4}", ""),), ((shown, slot),)]
        for piece, colour in (part for cell in (*parts, ((files, ""),), look.mark(stored)) for part in cell if part[0]):
            text.append(f" {piece.rstrip() if piece == '> ' else piece}", self._style(colour))
        return text.append(cut(f" {label}{line(step)}", max(room - width(text.plain), 8)))

    # What is selected.

    @on(OptionList.OptionHighlighted, "#list")
    def _selected(self, _: OptionList.OptionHighlighted) -> None:
        if self.busy:
            return
        self.plan = None
        if self.focused is not self.steps:  # else it is the same one, in a list that was fitted anew
            self.op, self.meant = "restore", self.order
        self._refresh_details()
        if self.after is not None and not self.reading and self._wanting():
            self._load(PAGE)

    def _refresh_details(self) -> None:
        row = self.chosen
        if row is not None:
            self._read(row, self.pane)

    @work(exclusive=True, group="details")
    async def _read(self, row: Row, pane: str) -> None:
        """What the right side shows of a checkpoint."""
        await asyncio.sleep(PAUSE)
        try:
            if pane == "plan":
                op = self.op
                order = self.meant = replace(self.meant, checkpoint=row.stored.id) if op == "restore" else self.meant
                self._show_plan(await self._asked(lambda: rewinding.preview(self.baton, order, op)))
                return
            question = {"words": self._told, "now": self._since, "before": self._in_it}[pane]
            self._details(await self._asked(lambda: question(row)))
        except BatonError as error:
            self._details("\n".join([plain(error.message), *(f"hint: {plain(hint)}" for hint in error.hints)]))

    def _details(self, text: str | Text) -> None:
        self.steps.display = False
        self.query_one("#details").display = True
        self.query_one("#text", Static).update(Text(text) if isinstance(text, str) else text)
        self.query_one("#details", VerticalScroll).scroll_home(animate=False)

    def _told(self, row: Row) -> Text:
        """The words of a checkpoint, and what is newer than it."""
        stored, c, baton = row.stored, row.stored.checkpoint, self.baton
        found = Text.from_ansi(self.look.text(((stored.id, "id"),)))
        parts = [c.kind, verdict(stored), age(c.created, baton.clock())] + ([f"by {line(row.agent)}"] if row.agent else [])
        said = [", ".join(parts)]
        if row.changes is not None:
            said.append(f"changed in it: {counted(row.changes.files, 'file')} +{row.changes.added} -{row.changes.removed}")
        newer = rewinding.newer(baton, stored)
        said += [f"newer: {counted(newer, 'checkpoint')} of the track, which stay"] if newer else []
        said += [f"label: {line(c.label)}"] if c.label else []
        seen = pairs(c.observed, tests_then(baton.store, stored), baton.told(stored))
        rows = [text for text in resume_lines(c, c.place.oid or "", None, "", observed=seen) if not text.endswith("=")]
        return found.append("\n" + "\n".join([*said, "", *quote(rows, stored)]).expandtabs(4))

    def _since(self, row: Row) -> Text:
        """What changed since a checkpoint."""
        patch, warnings = rewinding.since(self.baton, row.stored)
        name = self.baton.short(row.stored.id)
        head = "since it, until now:" if patch else "the files are as they were then"
        return self._patch(patch, [head, *warnings], f"git baton diff {name}")

    def _in_it(self, row: Row) -> Text:
        """What a checkpoint changed against the one before."""
        words = ["-p", "--color=never"]
        patch = next(comparing.changes(self.baton, [row.stored], words, [], self.baton.repo.layout.git_dir, None))
        name = self.baton.short(row.stored.id)
        head = "against the checkpoint before:" if patch else "it changed no file"
        return self._patch(patch, [head], f"git baton log -n 1 -p {name}")

    def _patch(self, patch: bytes, head: Sequence[str], lists: str) -> Text:
        """A patch in colours, its beginning where it is long."""
        found = Text("\n".join(map(plain, head)) + "\n")
        lines = patch.decode("utf-8", "surrogateescape").split("\n")
        for text in lines[:LARGEST]:
            slot = next((slot for start, slot in PATCH if text.startswith(start)), "")
            found.append(plain(text[:1000], keep="\t").expandtabs(4) + "\n", self._style(slot))
        if len(lines) > LARGEST:
            found.append(f"and {len(lines) - LARGEST:,} more lines: {lists}")
        return found

    # The plan, and the deed.

    def _show_plan(self, plan: Plan) -> None:
        """A plan, a line for each path; the paths that are in doubt first."""
        at = self.steps.highlighted
        self.plan = plan
        actions = [step.action for step in plan.steps]
        counts = ", ".join(f"{actions.count(action)} {action}" for action in URGENT if action in actions)
        self._ordered = sorted(plan.steps, key=lambda step: URGENT.index(step.action))
        self.steps.clear_options()
        head = f"{counts or 'nothing has to change'}: {plan.name}"
        self.say("; ".join([head, *plan.warnings]), "stale" if not plan.complete or plan.warnings else "")
        self.steps.add_options([Option(self._step(step)) for step in self._ordered] or [Option("nothing has to change")])
        self.query_one("#details").display = False
        self.steps.display = True
        self.steps.highlighted = min(at or 0, self.steps.option_count - 1)
        self._draw_frame()

    def _step(self, step: Step) -> Text:
        """A path of the plan: its sign, what becomes of it, and of a conflict whether it is to be overwritten, too."""
        text = Text(f"{SIGNS[step.action]} {step.action:<9}", self._style(SLOTS[step.action]))
        box = "[ ] " if step.action == "conflict" else "[x] " if step.path in self.meant.over else ""
        return text.append(box + quoted(step.path) + (f" ({plain(step.reason)})" if step.reason else ""))

    def action_enter(self) -> None:
        """Of a checkpoint the plan, of a plan the deed."""
        if self.focused is self.steps:
            if self.plan is not None and not self.busy:
                self.busy = True
                self._carry_out(self.plan, self.meant)
        elif self.focused is self.listing and self.chosen is not None and not self.busy:
            self._ask_plan("restore")
        else:
            self.listing.focus()

    def _ask_plan(self, op: Op) -> None:
        self.op, self.meant, self.plan = op, self.order if op == "restore" else Order(force=self.order.force), None
        self.pane = "plan"
        self.steps.clear_options()
        self.steps.display = True
        self.query_one("#details").display = False
        self.steps.focus()
        self._refresh_details()

    @work(group="deed")
    async def _carry_out(self, shown: Plan, order: Order) -> None:
        """The plan that is shown, and no other; else the new one is shown."""
        self.say(f"{shown.name}: at work", "stale")
        try:
            outcome = await self._asked(lambda: self._done(shown, order))
        except BatonError as error:
            self.say("; ".join([error.message, *error.hints]), "failed")
            return
        finally:
            self.busy = False
            if self.ending is not None:
                self.exit(self.ending)
        self.meant = outcome.order
        done = outcome.restored
        if done is None:
            self.notify("it is not what was shown any more, and nothing is changed; this is the plan now", timeout=6)
            self._refresh_details()
            return
        counts = [step.action for step in done.plan.steps]
        told = ", ".join(f"{counts.count(a)} {a}" for a in ("write", "create", "remove", "conflict", "refuse") if a in counts)
        back = "r takes it back" if shown.op == "undo" else "u takes it back"
        self.action_home()
        self.say(
            f"done: {done.plan.name}: {told}; {back}" if done.safety else f"nothing has to change: {done.plan.name}", "green"
        )

    def _done(self, shown: Plan, order: Order) -> rewinding.Outcome:
        outcome = rewinding.carry_out(self.baton, order, shown)
        if outcome.restored is not None:
            self.deeds.append((outcome.restored, (*outcome.said, *outcome.restored.warnings)))
        return outcome

    # Keys.

    def action_leave(self) -> None:
        """End; what is being carried out is ended first."""
        self._end(0)

    def action_interrupt(self) -> None:
        """Ctrl-C, or somebody else ends it."""
        self._end(130)

    def _end(self, code: int) -> None:
        self.ending = code
        if not self.busy:
            self.exit(code)

    def action_filter(self) -> None:
        """Type what to look for."""
        self.action_home()
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    @on(Input.Changed, "#filter")
    def _filtered(self, _: Input.Changed) -> None:
        self._show_rows()
        if self.after is not None and not self.reading and self._words():
            self._load(PAGE)

    @on(Input.Submitted, "#filter")
    def _found(self, _: Input.Submitted) -> None:
        self.listing.focus()

    def action_track(self, by: int) -> None:
        """The next track, or the one before."""
        names = [s.checkpoint.track for s in self.tracks]
        at = names.index(self.tip.checkpoint.track)
        self.action_open((at + by) % len(names))

    def action_open(self, number: int) -> None:
        """A track by its place above."""
        if not self.busy and self.tracks[number].checkpoint.track != self.tip.checkpoint.track:
            self.action_home()
            self._begin(self.tracks[number])

    def action_view(self, name: str) -> None:
        """What the right side shows."""
        if self.busy or self.focused is self.steps:
            return
        self.pane, self.op, self.meant, self.plan = name, "restore", self.order, None
        self._draw_frame()
        self._refresh_details()

    def action_turn(self, by: int) -> None:
        """The next view, or the one before."""
        self.action_view(PANES[(PANES.index(self.pane) + by) % len(PANES)])

    def action_space(self) -> None:
        """In a plan: overwrite this conflict, too, or not. Else a page further on the right side."""
        field = self.query_one("#filter", Input)
        if self.focused is field:
            field.insert_text_at_cursor(" ")
            return
        if self.focused is not self.steps:
            self.query_one("#details", VerticalScroll).scroll_page_down(animate=False)
            return
        at = self.steps.highlighted
        if self.plan is None or self.busy or at is None or at >= len(self._ordered):
            return
        step, over = self._ordered[at], self.meant.over
        if step.path in over:
            over = tuple(path for path in over if path != step.path)
        elif step.action == "conflict" and step.reason != UNMERGED and self.op == "restore":
            over = (*over, step.path)
        else:
            return
        self.meant = replace(self.meant, over=over)
        self._refresh_details()

    def action_home(self) -> None:
        """From the plan or the filter to the list."""
        if self.busy:
            return
        field = self.query_one("#filter", Input)
        if self.focused is not self.steps and field.display:
            field.display = False
            field.value = ""
        if self.focused is self.steps:
            self.pane = "words"
        self.op, self.meant, self.plan = "restore", self.order, None
        self.listing.focus()
        self._draw_frame()
        self._refresh_details()

    def action_step(self, op: Op) -> None:
        """The plan of an undo or a redo."""
        if not self.busy and self.focused is not self.steps:
            self._ask_plan(op)
