"""The full-screen picker of ``git baton rewind``: checkpoints on the left, what is selected on the right. Needs textual."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any, ClassVar, TypeVar

from rich.style import Style as RichStyle
from rich.text import Text
from textual import events, on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip
from textual.style import Style
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import WorkerFailed

from gitbaton.base import terminal
from gitbaton.base.codec import plain
from gitbaton.base.errors import BatonError
from gitbaton.base.model import STEPPING, Oid, Op, Stored
from gitbaton.base.values import cast, replace
from gitbaton.care.tools import rewinding
from gitbaton.care.tools.rewinding import URGENT, RewindRow, counts
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import quoted
from gitbaton.checkpoints.restore.values import UNMERGED, Order, PathAction, RestorePlan
from gitbaton.checkpoints.store import Problem
from gitbaton.checkpoints.store.turns import UnderWay
from gitbaton.cli.columns import ellipsis, width
from gitbaton.cli.commands.pickerviews import Deeds, Offer, Offers, PickerView, ViewLine, Views, failed
from gitbaton.cli.look import Cell, Look

PANES = ("words", "plan", "diff", "conversation")
Key = tuple[str, str, str]
"""A key, what it does in a word or two, and the action; the footer has those that fit, help all of them."""
LIST_KEYS: tuple[Key, ...] = (
    *(("enter", "plan", "enter"), ("/", "filter", "ask('filter')"), ("tab", "track", "track(1)"), ("1-4", "view", "turn(1)")),
    *(("u", "undo", "step('undo')"), ("r", "redo", "step('redo')"), ("?", "keys", "help"), ("q", "quit", "leave")),
    *(("n", "branch", "ask('branch')"), ("w", "worktree", "ask('worktree')"), ("p", "pin", "pin")),
    *(("l", "label", "ask('label')"), ("y", "copy id", "copy")),
)
KEPT_KEYS = ("enter", "esc", "q", "?", "u", "tab", "/")
"""The keys that a narrow footer keeps, what matters most first."""
MORE_KEYS: tuple[tuple[str, str], ...] = (
    ("up down", "another one; also k and j"),
    ("enter", "the plan: take its turn back, or go back to it"),
    ("/", "words, ids, tests to look for"),
    ("tab", "another track; shift+tab back"),
    ("1 2 3 4", "what the right side shows"),
    ("3 or d", "again: the other diff"),
    ("f F", "next, last file or message"),
    ("space", "a page on; backspace: back"),
    ("J K", "a line on, back"),
    ("a", "all of what is long"),
    ("u r", "the plan of an undo, a redo"),
    ("n", "make a branch of it"),
    ("w", "check it out beside this one"),
    ("p", "pin it against prune, or not"),
    ("l", "label what is here now"),
    ("y", "copy its id"),
    ("m", "list more, where -n limits it"),
    ("ctrl+z", "stop; fg goes on"),
    ("q", "leave; also ctrl+c"),
    ("", ""),
    ("in a plan:", ""),
    ("enter", "do what is marked above it"),
    ("tab", "mark the other; also left, right"),
    ("c b", "the conversation, both"),
    ("space", "overwrite this conflict, too"),
    ("x", "remove what it does not hold"),
    ("esc", "back to the list"),
)

BINDINGS: list[BindingType] = [
    Binding("q", "leave"),
    Binding("ctrl+c", "interrupt", priority=True),
    Binding("ctrl+q", "leave", priority=True),
    Binding("ctrl+z", "stop", priority=True),
    Binding("slash", "ask('filter')"),
    Binding("tab", "track(1)", priority=True),
    Binding("shift+tab", "track(-1)", priority=True),
    *(Binding(str(number), f"view('{name}')") for number, name in enumerate(PANES, 1)),
    Binding("d", "view('diff')"),
    Binding("right", "turn(1)"),
    Binding("left", "turn(-1)"),
    Binding("j", "move(1)"),
    Binding("k", "move(-1)"),
    Binding("down", "move(1)"),
    Binding("up", "move(-1)"),
    Binding("f", "part(1)"),
    Binding("F", "part(-1)"),
    Binding("J", "scroll(1)"),
    Binding("K", "scroll(-1)"),
    Binding("backspace", "page(-1)"),
    Binding("a", "whole"),
    Binding("enter", "enter", priority=True),
    Binding("space", "space", priority=True),
    Binding("escape", "home", priority=True),
    Binding("x", "exact"),
    Binding("c", "deed('conversation')"),
    Binding("b", "deed('both')"),
    Binding("u", "step('undo')"),
    Binding("r", "step('redo')"),
    Binding("n", "ask('branch')"),
    Binding("w", "ask('worktree')"),
    Binding("l", "ask('label')"),
    Binding("p", "pin"),
    Binding("y", "copy"),
    Binding("m", "more"),
    Binding("question_mark", "help"),
]


FOLDED = 4_000  # characters from which a line is folded anywhere, and not between words
REVERSE, RESTING = RichStyle(reverse=True), RichStyle(reverse=True, dim=True)
CSS = """
Screen { background: ansi_default; color: ansi_default; }
Static { link-color: ansi_default; link-background: ansi_default; link-style: none; link-background-hover: ansi_default;
    link-color-hover: ansi_default; link-style-hover: underline; }
#tracks, #views, #said, #keys { height: 1; width: 1fr; text-wrap: nowrap; text-overflow: clip; }
#tracks, #keys, #said { padding: 0 1; }
#asking { height: 1; padding: 0 1; display: none; }
#question { width: auto; margin: 0 1 0 0; }
#answer { height: 1; width: 1fr; border: none; padding: 0; background: ansi_default; }
#middle { height: 1fr; }
#list, #right { height: 1fr; padding: 0; background: ansi_default; }
#list { width: 46%; max-width: 100; border: none; text-wrap: nowrap; text-overflow: clip; }
#right { width: 1fr; padding: 0 0 0 1; border-left: solid ansi_bright_black; }
#right.plain { border-left: ascii ansi_bright_black; }
#head, #offers { height: auto; max-height: 4; }
#offers { display: none; }
#details { height: 1fr; background: ansi_default; scrollbar-size-vertical: 1; overflow-x: hidden; }
#steps { height: 1fr; border: none; padding: 0; display: none; background: ansi_default; }
OptionList > .option-list--option { padding: 0; }
OptionList { scrollbar-size-vertical: 1; color: ansi_default; }
OptionList > .option-list--option-highlighted { background: ansi_default; color: ansi_default; text-style: bold; }
OptionList:focus > .option-list--option-highlighted {
    background: ansi_default; color: ansi_default; text-style: bold;
}
"""


class PlainBar(ScrollBarRender):
    """A scroll bar in characters that any terminal has."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "]


class Rows(OptionList):
    """Rows of which the selected one is reversed, in whatever colours a terminal has; ``resting``: without the focus, too."""

    resting = False

    def render_line(self, y: int) -> Strip:
        """A line on the screen."""
        strip = super().render_line(y)
        meta = next((segment.style.meta for segment in strip if segment.style and segment.style.meta), {})
        if self.highlighted is None or meta.get("option") != self.highlighted or not (self.has_focus or self.resting):
            return strip
        return strip.apply_style(REVERSE if self.has_focus else RESTING)


class Listing(Rows):
    """List of the checkpoints; a change of its size fits the rows anew."""

    resting = True

    def __init__(self, fit: Callable[[], None]) -> None:
        super().__init__(id="list", markup=False, compact=True)
        self.refit = fit

    def on_resize(self, _: events.Resize) -> None:
        """Another size."""
        self.refit()


class Pane(ScrollView, can_focus=False):
    """The right side: any number of lines, of which only those on the screen are drawn."""

    folded: Sequence[tuple[int, Text]] = ()
    starts: Sequence[int] = ()
    view = PickerView([])

    def __init__(self, style_of: Callable[[str], str]) -> None:
        super().__init__(id="details")
        self.style_of = style_of

    def show(self, view: PickerView) -> None:
        """Other lines, from their beginning, or from their end where that counts."""
        self.view = view
        self.fold()
        self.call_after_refresh(self.scroll_to, y=self.max_scroll_y if view.last else 0, animate=False, immediate=True)

    def on_resize(self, _: events.Resize) -> None:
        """Another size."""
        self.fold()

    def fold(self) -> None:
        """Fold the lines that are too long."""
        room, starts = max(self.scrollable_content_region.width, 1), list[int]()
        folded: list[tuple[int, Text]] = []
        for line in self.view.lines:
            indent = min(width(line.label), room // 2)
            text = Text(line.text, self.style_of(line.slot), end="")
            if width(line.text) <= room - indent:
                parts = [text]
            elif len(line.text) > FOLDED:
                parts = list(text.divide(range(room - indent, len(line.text), room - indent)))
            else:
                parts = list(text.wrap(self.app.console, room - indent))
            starts.append(len(folded))
            label = Text.assemble((line.label[:indent], self.style_of("heading")), parts[0], end="")
            folded += [(0, label), *((indent, part) for part in parts[1:])]
        self.folded, self.starts, self.virtual_size = folded, starts, Size(room, len(folded))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """A line on the screen."""
        at, room = self.scroll_offset.y + y, self.scrollable_content_region.width
        if at >= len(self.folded):
            return Strip.blank(room, self.rich_style)
        indent, text = self.folded[at]
        strip = Strip(Text(" " * indent).append_text(text).render(self.app.console)).apply_style(self.rich_style)
        return strip.adjust_cell_length(room, self.rich_style)

    def to_part(self, by: int) -> None:
        """The next part, or the one before."""
        places, here = [self.starts[at] for at in self.view.parts], self.scroll_offset.y
        found = [y for y in places if y > here] if by > 0 else [y for y in reversed(places) if y < here]
        self.scroll_to(y=found[0] if found else here, animate=False)


T = TypeVar("T")

PAGE = 200  # checkpoints that are read at once, after the first screenful
NEAR = 60  # rows before the end of the list at which more are read
PAUSE = 0.06  # seconds that a row is selected before its details are read
ALIVE = 1.0  # seconds after which is looked whether whoever started this still lives
INTERRUPTED = 130
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNS = {"conflict": "!", "refuse": "!", "remove": "-", "write": "~", "create": "+", "keep": "."}
SLOTS = {"conflict": "failed", "refuse": "failed", "remove": "failed", "write": "stale", "create": "green", "keep": "pending"}
OFFERED = {"revert": ("take this turn back", "take it back"), "restore": ("go back to here", "go back to here")}
DONE = {"restore": "restored", "revert": "taken back", "undo": "restored", "redo": "restored"}
UNTAKEN = "no checkpoint is taken of it yet; l takes one, with a label"
ASKED = {"filter": "filter", "branch": "new branch", "worktree": "work tree in", "label": "label for the files as they are now"}


class _Screen:
    """Stream to a terminal that may be gone: what is written then is lost. An error would end textual's thread that writes, and
    a caller that gives it more would wait for ever."""

    def __init__(self, file: Any) -> None:
        self._file, self.fileno = file, file.fileno

    def write(self, text: str) -> None:
        """Write a text, if there is a terminal."""
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        """Write what was kept back, if there is a terminal."""
        with suppress(OSError):
            self._file.flush()


class _Driver(LinuxDriver):
    """Textual's own, on such a stream."""

    def __init__(self, *given: Any, **words: Any) -> None:
        super().__init__(*given, **words)
        self._file = cast("Any", _Screen(self._file))


class Picker(App[int]):
    """The screen. ``deeds``: what was carried out, and what is to be said of it."""

    ENABLE_COMMAND_PALETTE = False
    CSS = CSS
    BINDINGS = BINDINGS

    def __init__(self, baton: Baton, order: Order, look: Look, tip: Stored, limit: int | None = None) -> None:
        super().__init__(_Driver)
        self.theme = "ansi-dark"
        self.baton, self.order, self.look, self.tip = baton, order, look, tip
        self.limit, self.most = limit, limit  # rows to list at once, and now
        self.views, self.deeds = Views(baton, look), Deeds(baton, look)
        self.problems: list[Problem] = []
        self.tracks: list[Stored] = [tip]
        self.rows: list[RewindRow] = []
        self.slots: dict[str, str] = {}
        self.fitted = 0  # columns of the list that its rows are made for
        self.going: UnderWay | None = None
        self.matched: list[RewindRow | UnderWay] = []
        self.after: Oid | None = None
        self.reading = False
        self.pane, self.now, self.whole, self.told = "words", True, False, ""
        self.sought, self.question = "", ""
        self.op: Op | None = None  # that was picked; else it is the one that the row is meant for
        self.shown: Offer | None = None
        self.offers = Offers(())
        self.meant, self.changed = order, ""
        self.ordered: list[PathAction] = []
        self.busy = False
        self.ending: int | None = None
        self.starter = os.getppid()
        self._one = Lock()
        self.listing = Listing(self.fit)
        self.steps = Rows(id="steps", markup=False, compact=True)
        self.details = Pane(self.style_of)
        self.answer = Input(id="answer", compact=True)
        if ellipsis() == "...":
            ScrollBar.renderer = PlainBar

    @property
    def failed(self) -> BaseException | None:
        """The mistake of ours that ended it, if any."""
        found = self._exception
        return found.error if isinstance(found, WorkerFailed) else found

    def _fatal_error(self) -> None:
        """End, so that the caller reports the error: textual would show every variable, and with it stored words."""
        self._close_messages_no_wait()

    # What is on the screen.

    def compose(self) -> ComposeResult:
        """The rows and panes of the screen."""
        yield Static(id="tracks", markup=False)
        with Horizontal(id="middle"):
            yield self.listing
            with Vertical(id="right", classes="plain" if ellipsis() == "..." else ""):
                yield Static(id="views", markup=False)
                yield Static(id="offers", markup=False)
                yield Static(id="head", markup=False)
                yield self.details
                yield self.steps
        yield Static(id="said", markup=False)
        with Horizontal(id="asking"):
            yield Static(id="question", markup=False)
            yield self.answer
        yield Static(id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin with the list; the tracks and what is selected follow."""
        loop = asyncio.get_running_loop()
        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self.action_interrupt)
        self.set_interval(ALIVE, self._check_parent)
        self.listing.focus()
        self._begin(self.tip)
        self._read_tracks()

    def on_resize(self, _: events.Resize) -> None:
        """Keys as there is room."""
        if self.query("#keys"):
            self._draw_frame()

    def _check_parent(self) -> None:
        """Interrupt when the parent process was killed."""
        if os.getppid() != self.starter:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # the terminal is somebody else's, and left as it was
            self.action_interrupt()

    def panic(self, *_: Any) -> None:
        """The terminal is gone."""
        self.action_interrupt()

    @property
    def selected(self) -> RewindRow | UnderWay | None:
        """The checkpoint, or the open turn, that is selected."""
        at = self.listing.highlighted
        return self.matched[at] if at is not None and at < len(self.matched) else None

    @property
    def chosen(self) -> RewindRow | None:
        """The checkpoint that is selected."""
        return found if isinstance(found := self.selected, RewindRow) else None

    @property
    def planning(self) -> bool:
        """Whether a plan is shown that Enter carries out."""
        return self.focused is self.steps

    def say(self, text: str, slot: str = "") -> None:
        """One line above the keys."""
        self.told = plain(" ".join(text.split()))
        self.query_one("#said", Static).update(Content.styled(self.told, self.style_of(slot)))

    def complain(self, error: BatonError) -> None:
        """Show an error in a line."""
        self.say("; ".join([error.message, *error.hints]), "failed")

    def style_of(self, slot: str) -> str:
        """The style of a slot, as the settings have it."""
        if slot and slot not in self.slots:
            spans = Text.from_ansi(self.look.paint("x", slot)).spans
            self.slots[slot] = str(spans[0].style) if spans else ""
        return self.slots.get(slot, "")

    def _text(self, cell: Cell) -> Text:
        return Text.assemble(*((text, self.style_of(slot)) for text, slot in cell), end="")

    def _draw_frame(self) -> None:
        """The lines above and below: tracks, views, keys."""
        tracks = [(f" {plain(s.checkpoint.track)} ", f"open({n})", s is self.tip) for n, s in enumerate(self.tracks)]
        room = self.query_one("#right").content_size.width
        whole = not room or sum(len(name) + 4 for name in PANES) <= room  # else only the one that is shown has its name
        views = [
            (f" {n} {name} " if whole or name == self.pane else f" {n} ", f"view('{name}')", name == self.pane)
            for n, name in enumerate(PANES, 1)
        ]
        for place, tabs in (("tracks", tracks), ("views", views)):
            parts = [(name, Style(reverse=on) + Style.from_meta({"@click": f"app.{act}"})) for name, act, on in tabs]
            self.query_one(f"#{place}", Static).update(Content.assemble(*parts))
        found: list[Any] = []
        for key, word, action in self.fitting():
            there = Style.from_meta({"@click": f"app.{action}"})
            found += [(key, Style(bold=True) + there), (f" {word}", there), "  "]
        self.query_one("#keys", Static).update(Content.assemble(*found))

    def fitting(self) -> Iterator[Key]:
        """The keys that the footer has room for, in their order; those of KEPT_KEYS get it first."""
        keys, room, kept = self.footer(), self.size.width, set[Key]()
        for key in sorted(keys, key=lambda key: KEPT_KEYS.index(key[0]) if key[0] in KEPT_KEYS else len(KEPT_KEYS)):
            columns = len(key[0]) + len(key[1]) + 3
            if columns <= room:
                room -= columns
                kept.add(key)
        return (key for key in keys if key in kept)

    def footer(self) -> Sequence[Key]:
        """The keys that do something now."""
        back: tuple[Key, ...] = (("esc", "back", "home"), ("q", "quit", "leave"))
        if self.question:
            return (("enter", "look" if self.question == "filter" else "do it", "enter"), ("esc", "back", "home"))
        if not self.planning:
            return LIST_KEYS
        if self.op in STEPPING:
            return (("enter", f"{self.op} it", "enter"), *back)
        op = self.shown.plan.op if self.shown else "restore"
        other: tuple[Key, ...] = tuple(
            ("tab", OFFERED[one.plan.op][0], "offer(1)") for one in self.offers.plans if one is not self.shown
        )
        if op == "revert" or other:
            back = (*other, *back)
        talk: tuple[Key, ...] = (("c", "conversation", "deed('conversation')"), ("b", "both", "deed('both')"))
        doubt: tuple[Key, ...] = (("space", "overwrite", "space"),)
        able = self.shown and self.shown.talk
        does = OFFERED[op][1] if op == "revert" or other else "restore files"
        steps = self.shown.plan.steps if self.shown and op == "restore" else ()
        may = self.meant.over or any(step.action == "conflict" and step.reason != UNMERGED for step in steps)
        rest: tuple[Key, ...] = (("x", "exact" if not self.meant.exact else "not exact", "exact"),)
        more = op == "restore" and bool(self.meant.exact or (self.shown and self.shown.plan.unknown))
        return (("enter", does, "enter"), *(talk if able else ()), *(doubt if may else ()), *(rest if more else ()), *back)

    def fit(self) -> None:
        """Rows as wide as the list is now."""
        if not self._gone() and self.fitted != self.listing.size.width:
            self._show_rows()
            self._draw_frame()

    def on_descendant_focus(self, _: events.DescendantFocus) -> None:
        """The keys are those of what has the focus."""
        self._draw_frame()

    async def _asked(self, question: Callable[[], T]) -> T:
        """Run a slow question in a thread; one at a time, and none that is not awaited any more."""
        wanted = asyncio.current_task()

        def answer() -> tuple[T, ...]:
            try:
                with self._one:
                    return () if wanted is not None and wanted.cancelling() else (question(),)
            except OSError as error:
                raise BatonError(f"{error.strerror or error}: '{error.filename or ''}'") from error

        found = await asyncio.to_thread(answer)
        if self._gone() or not found:
            raise asyncio.CancelledError
        return found[0]

    def _gone(self) -> bool:
        """Whether the screen is being taken down."""
        return not self.is_running or not self.screen_stack or not self.query("#steps")

    # The list.

    def _begin(self, tip: Stored, *, counted: bool = True) -> None:
        """List a track from a checkpoint on; ``counted``: say how many there are."""
        self.tip, self.rows, self.matched, self.after, self.most = tip, [], [], tip.commit, self.limit
        self.going = None
        self.listing.clear_options()
        self._draw_frame()
        self._load(max(self.size.height, 20), first=True, counted=counted)

    @work(exclusive=True, group="tracks")
    async def _read_tracks(self) -> None:
        try:
            found = await self._asked(self.baton.readable_tips)
        except BatonError as error:
            self.complain(error)
        else:
            self.tracks = [self.tip, *(s for s in found.items if s.checkpoint.track != self.tip.checkpoint.track)]
            self._draw_frame()

    @work(exclusive=True, group="list")
    async def _load(self, count: int, *, first: bool = False, counted: bool = True) -> None:
        """The next checkpoints of the track."""
        self.reading = True
        try:
            while self.after is not None and (first or self._wanting()) and not self._full():
                track, after, number = self.tip.checkpoint.track, self.after, len(self.rows) + 1
                some = count if self.most is None else min(count, self.most - len(self.rows))

                found = await self._asked(partial(self._page, track, after, some, number))
                if not self.rows:
                    self.going = await self._asked(partial(rewinding.going, self.baton, track))
                    self._add_open()
                self.rows += found.rows
                self.problems += found.problems
                self.after = found.after
                self._add(found.rows)
                if counted:
                    self._say_count()
                count, first = PAGE, first and not self.rows
        except BatonError as error:
            self.after = None
            self.complain(error)
        finally:
            self.reading = False
        if not self.rows:
            self.details.show(PickerView([ViewLine("no checkpoint of this track can be read")]))

    def _page(self, track: str, after: Oid, count: int, number: int) -> rewinding.RewindPage:
        """Read some checkpoints of a track, and the ids by which the list shows them."""
        found = rewinding.page(self.baton, track, after, count, number)
        self.views.names |= self.look.ids(row.stored.id for row in found.rows)
        return found

    def _full(self) -> bool:
        """Whether as many rows are listed as may be at once."""
        return self.most is not None and len(self.rows) >= self.most

    def _wanting(self) -> bool:
        """Whether more rows are needed: the end of the list is near, or the filter looks for something."""
        return bool(self.sought) or (self.listing.highlighted or 0) + NEAR >= len(self.matched)

    def _matches(self, row: RewindRow | UnderWay) -> bool:
        """Whether a row has all words that are looked for."""
        words = self.sought.lower().split()
        return not words or ((text := self.views.sought(row)) != "" and all(word in text for word in words))

    def _add_open(self) -> None:
        """The open turn, where there is one and it matches, at the head of the list."""
        if self.going is not None and self._matches(self.going):
            self.matched.append(self.going)
            room = max(self.listing.size.width - 1, 20)
            self.listing.add_option(Option(self._text(self.views.open_row(self.going, room))))
            self.listing.highlighted = 0

    def _add(self, rows: Sequence[RewindRow]) -> None:
        """Rows that match, at the end of the list."""
        more = [row for row in rows if self._matches(row)]
        room = max(self.listing.size.width - 1, 20)
        self.matched += more
        self.listing.add_options([Option(self._text(self.views.row(row, room)), id=row.stored.commit) for row in more])
        if self.listing.highlighted is None and self.matched:
            self.listing.highlighted = 0
        if not self.matched:
            self.details.show(PickerView([]))

    def _say_count(self) -> None:
        """Say how many checkpoints are listed, and by which filter."""
        if self.planning:
            return
        matched = sum(isinstance(row, RewindRow) for row in self.matched)
        many = f"{matched:,} of {len(self.rows):,}" if self.sought else f"{len(self.rows):,}"
        found = f"{many} checkpoint{'' if many == '1' else 's'}" + (f" with '{self.sought}'" if self.sought else "")
        more = "" if self.after is None else ", m lists more" if self._full() else ", more below"
        self.say(found + more, "pending")

    def _show_rows(self) -> None:
        """The list anew, with the selected row where it was if it still is there."""
        before, self.matched, self.fitted = self.selected, [], self.listing.size.width
        self.listing.clear_options()
        self._add_open()
        self._add(self.rows)
        at = next((n for n, row in enumerate(self.matched) if row is before), 0)
        if self.matched:
            self.listing.highlighted = at

    # What is selected.

    @on(OptionList.OptionHighlighted, "#list")
    def _selected(self, _: OptionList.OptionHighlighted) -> None:
        if self.busy:
            return
        if not self.planning:  # else it is the same one, in a list that was fitted anew
            self._forget_plan()
            self.whole = False
            self._refresh_details()
        if self.after is not None and not self.reading and self._wanting():
            self._load(PAGE)

    def _forget_plan(self) -> None:
        """Nothing is planned, nor picked of what is offered."""
        self.op, self.meant, self.shown, self.offers = None, self.order, None, Offers(())

    def _refresh_details(self) -> None:
        if self.selected is not None:
            self._read(self.selected, self.pane)

    @work(exclusive=True, group="details")
    async def _read(self, row: RewindRow | UnderWay, pane: str) -> None:
        """Read the details of a checkpoint, or of the open turn."""
        await asyncio.sleep(PAUSE)
        views, whole, now = self.views, self.whole, self.now
        try:
            if pane == "plan":
                op, order, stored, talk = self.op, self.meant, row.stored if isinstance(row, RewindRow) else None, self.planning
                if op is not None and op in STEPPING:
                    self._show_plan(await self._asked(lambda: self.deeds.shown(order, op)))
                    return
                self.offers = await self._asked(lambda: self.deeds.offered(order, stored, talk=talk))
                plans = self.offers.plans
                self._show_plan(next((one for one in plans if one.plan.op == op), plans[self.offers.first]))
                return
            question: dict[str, Callable[[], PickerView]] = {
                "words": lambda: views.words(row) if isinstance(row, RewindRow) else views.open_words(row),
                "diff": lambda: (
                    views.diff(row, now=now, whole=whole) if isinstance(row, RewindRow) else views.open_diff(row, whole=whole)
                ),
                "conversation": lambda: (
                    views.talk(row, whole=whole) if isinstance(row, RewindRow) else PickerView([ViewLine(UNTAKEN)])
                ),
            }
            self._show(await self._asked(question[pane]))
        except BatonError as error:
            self._show(failed(error))

    def _show(self, view: PickerView) -> None:
        """A view, and what stands above it."""
        self._swap(steps=False)
        self._draw_offers(())
        self._head(view.head + (f"; {view.more:,} lines more: a shows all" if view.more else ""))
        self.details.show(view)

    def _swap(self, *, steps: bool) -> None:
        self.steps.display, self.details.display = steps, not steps

    def _head(self, text: str) -> None:
        head = self.query_one("#head", Static)
        head.display = bool(text)
        head.update(Content.styled(text, self.style_of("heading")))

    # The plan, and the deed.

    def _show_plan(self, shown: Offer) -> None:
        """Show a plan: what stands above it, its name and doubts below, and a line for each path, those in doubt first."""
        at, self.shown = self.steps.highlighted, shown
        self._draw_plan_head(shown)
        self._say_plan(shown.plan)
        self.ordered = sorted(shown.plan.steps, key=lambda step: URGENT.index(step.action))
        self.steps.clear_options()
        self.steps.add_options([Option(self._step(step)) for step in self.ordered] or [Option(counts(shown.plan))])
        self._swap(steps=True)
        self.steps.highlighted = min(at or 0, self.steps.option_count - 1)
        self._draw_frame()

    def _draw_plan_head(self, shown: Offer) -> None:
        """Draw the offers of a row where one of them is a revert, else the verb and its changes; then what is said."""
        reverts = any(one.plan.op == "revert" for one in self.offers.plans)
        self._draw_offers(self.offers.plans if reverts else ())
        lines = [] if reverts else [f"{plain(shown.plan.op)}: {counts(shown.plan)}"]
        self._head("\n".join([*lines, *([f"conversation: {shown.spoken}"] if shown.spoken else [])]))

    def _say_plan(self, plan: RestorePlan) -> None:
        """Say the name of a plan and its doubts, after what has changed since one was shown; nothing where another pane has the
        focus and neither is there."""
        doubts = [*plan.warnings, *([f"its turn is not taken back: {self.offers.why}"] if self.offers.why else [])]
        if self.planning or self.changed or doubts:
            stale = bool(self.changed or doubts or not plan.complete)
            self.say(self.changed + "; ".join([plan.name, *doubts]), "stale" if stale else "")
        self.changed = ""

    def _draw_offers(self, plans: Sequence[Offer]) -> None:
        """Draw the offers of a row, each with its changes; the marked one reversed."""
        place, parts = self.query_one("#offers", Static), list[Any]()
        for number, one in enumerate(plans):
            click = Style.from_meta({"@click": f"app.offer({number - plans.index(self.shown) if self.shown in plans else 0})"})
            label = f"{OFFERED[one.plan.op][0]}: {counts(one.plan)}"
            parts += ["\n" if parts else "", (label, Style(reverse=one is self.shown) + click)]
        place.display = bool(plans)
        place.update(Content.assemble(*parts))

    def action_offer(self, by: int) -> None:
        """Mark another of what can be done at the row."""
        plans = self.offers.plans
        if self.busy or self.shown not in plans or len(plans) < 2:
            return
        self.op = plans[(plans.index(self.shown) + by) % len(plans)].plan.op
        self._show_plan(next(one for one in plans if one.plan.op == self.op))

    def _step(self, step: PathAction) -> Text:
        """A path of the plan: its sign, what becomes of it, and of a conflict whether it is to be overwritten, too."""
        text = Text.assemble((f"{SIGNS[step.action]} {step.action:<9}", self.style_of(SLOTS[step.action])))
        able = self.shown is not None and self.shown.plan.op == "restore"
        box = "" if not able else "[ ] " if step.action == "conflict" else "[x] " if step.path in self.meant.over else ""
        return text.append(box + quoted(step.path) + (f" ({plain(step.reason)})" if step.reason else ""))

    def action_enter(self) -> None:
        """Of a question the answer, of a checkpoint the plan, of a plan the deed."""
        if self.question:
            self._answered(self.answer.value)
        elif self.planning:
            self.action_deed("files")
        elif self.selected is not None and not self.busy:
            self._ask_plan(None if self.op in STEPPING else self.op)

    def _ask_plan(self, op: Op | None) -> None:
        self._forget_plan()
        self.op, self.meant = op, Order(force=self.order.force) if op in STEPPING else self.order
        self.pane = "plan"
        self.steps.clear_options()
        self._draw_offers(())
        self._head("")
        self._swap(steps=True)
        self.steps.focus()
        self._refresh_details()

    def action_deed(self, what: str) -> None:
        """Carry out the plan that is shown: files, the conversation, or both."""
        shown = self.shown
        if not self.planning or shown is None or self.busy or (what != "files" and shown.plan.op != "restore"):
            return
        if what != "files" and shown.talk is None:
            self.say(f"no conversation comes back: {shown.why}", "failed")
            return
        self.busy = True
        self._carry_out(shown, what)

    @work(group="deed")
    async def _carry_out(self, shown: Offer, what: str) -> None:
        """The plan that is shown, and no other; else the new one is shown."""
        self.say(f"{shown.plan.name}: at work", "stale")
        count = len(self.deeds.restored)
        try:
            files, talk = what != "conversation", what != "files"
            outcome = await self._asked(lambda: self.deeds.carry_out(shown, files=files, talk=talk))
        except BatonError as error:
            done = f"the files are {DONE[shown.plan.op]}; " if len(self.deeds.restored) > count else ""
            error.message = done + error.message
            self.complain(error)
            return
        finally:
            self._free()
        if outcome is not None and outcome.restored is None:
            self.meant = replace(self.meant, left=outcome.order.left)
            self.changed = "it is not what was shown any more, and nothing is changed; now it would be: "
            self._refresh_details()
            return
        said = [f"resume it with: {shown.talk.line(os.getcwd())}"] if talk and shown.talk else []
        if outcome is not None and outcome.restored is not None:
            done_plan = outcome.restored.plan
            actions = [step.action for step in done_plan.steps]
            told = ", ".join(f"{actions.count(a)} {a}" for a in URGENT[:-1] if a in actions)
            back = f"; {'r' if shown.plan.op == 'undo' else 'u'} takes it back"
            safe = outcome.restored.safety
            nothing = f"nothing {'has to change' if done_plan.complete else 'is changed'}: {done_plan.name}"
            said.insert(0, f"done: {done_plan.name}: {told}{back}" if safe else nothing)
        self.action_home()
        if self.going is not None:  # what was open has ended with it
            self._begin(self.tip, counted=False)
        self.say("; ".join(said), "green")

    def _free(self) -> None:
        """End a deed; leave if that was asked for meanwhile."""
        self.busy = False
        if self.ending is not None:
            self.exit(self.ending)

    def action_pin(self) -> None:
        """Pin the checkpoint, or take that back."""
        if self._taken() and (row := self.chosen) is not None:
            self._do(partial(self.deeds.pin, row.stored))

    def _taken(self) -> bool:
        """Whether a checkpoint is selected; of the open turn it is said that there is none."""
        if self.selected is self.going is not None and not self.planning:
            self.say(UNTAKEN, "failed")
        return self.chosen is not None

    def _do(self, deed: Callable[[], str], *, anew: bool = False) -> None:
        if not self.busy and not self.planning:
            self.busy = True
            self._doing(deed, anew)

    @work(group="deed")
    async def _doing(self, deed: Callable[[], str], anew: bool) -> None:
        """Something small; what it says, or why it could not be, is one line, and what was typed stays."""
        try:
            said = await self._asked(deed)
        except BatonError as error:
            self.complain(error)
            return
        finally:
            self._free()
        self.views.marks = None
        if self.question:
            self._end_question()
        if anew:
            self._begin(self.baton.tip(self.tip.checkpoint.track), counted=False)
        self._refresh_details()
        self.say(said, "green")

    def action_copy(self) -> None:
        """The checkpoint's id to the clipboard of the terminal, which may be far away."""
        if self._taken() and self.chosen is not None and not self.planning:
            oid = self.chosen.stored.id
            self.copy_to_clipboard(oid)
            terminal.copy_in_tmux(oid)
            self.say(f"copied: {oid}", "green")

    # Questions.

    def action_ask(self, what: str) -> None:
        """Ask for a name, or for what to look for."""
        row = self.chosen
        if self.busy or self.planning or self.question or (what not in ("filter", "label") and not self._taken()):
            return
        self.question = what
        root = self.baton.repo.layout.root or self.baton.repo.layout.git_dir
        beside = f"{os.path.relpath(root)}-{self.baton.short(row.stored.id)}" if row and what == "worktree" else ""
        if beside.startswith(".-"):
            beside = f"../{os.path.basename(root)}{beside[1:]}"
        self.query_one("#question", Static).update(Content(ASKED[what] + ":"))
        self.query_one("#asking").display, self.query_one("#said").display = True, what == "filter"
        self.answer.value = self.sought if what == "filter" else beside
        self.answer.cursor_position = len(self.answer.value)
        self.answer.focus()

    @on(Input.Changed, "#answer")
    def _typed(self, _: Input.Changed) -> None:
        self.query_one("#said").display = self.question == "filter"
        if self.question == "filter" and self.sought != self.answer.value:
            self.sought = self.answer.value
            self._show_rows()
            self._say_count()
            if self.after is not None and not self.reading and self.sought:
                self._load(PAGE)

    def _answered(self, text: str) -> None:
        """Do what a name was asked for."""
        if self.question == "filter":
            self._end_question()
            return
        self.query_one("#said").display = True
        if self.question == "label":
            self._do(partial(self.deeds.label, text), anew=True)
        elif self.chosen is not None:
            deed = self.deeds.branch if self.question == "branch" else self.deeds.worktree
            self._do(partial(deed, self.chosen.stored, text))

    def _end_question(self) -> None:
        self.question = ""
        self.query_one("#asking").display, self.query_one("#said").display = False, True
        self.listing.focus()

    # Keys.

    def action_leave(self) -> None:
        """End; what is being carried out is ended first."""
        self._end(0)

    def action_interrupt(self) -> None:
        """End on Ctrl-C or a signal."""
        self._end(INTERRUPTED)

    def _end(self, code: int) -> None:
        self.ending = code
        if not self.busy:
            self.exit(code)

    def action_stop(self) -> None:
        """Give the terminal back on Ctrl-Z, then stop the process group, git included; fg continues."""
        if not self.is_headless:
            with self.suspend():
                os.killpg(0, signal.SIGTSTP)

    def action_track(self, by: int) -> None:
        """The next track, or the one before; in a plan the other of what can be done."""
        if self.planning and len(self.offers.plans) > 1:
            self.action_offer(by)
        else:
            names = [s.checkpoint.track for s in self.tracks]
            self.action_open((names.index(self.tip.checkpoint.track) + by) % len(names))

    def action_open(self, number: int) -> None:
        """A track by its place above."""
        if not self.busy and not self.question and self.tracks[number].checkpoint.track != self.tip.checkpoint.track:
            self.action_home()
            self._begin(self.tracks[number])

    def action_view(self, name: str) -> None:
        """Show a view on the right side; the diff again is the other diff."""
        if self.busy or self.planning:
            return
        self.now = not self.now if name == self.pane == "diff" else self.now
        self._forget_plan()
        self.pane, self.whole = name, False
        self._draw_frame()
        self._refresh_details()

    def action_turn(self, by: int) -> None:
        """The next view, or the one before; in a plan the other of what can be done."""
        if self.planning:
            self.action_offer(by)
        else:
            self.action_view(PANES[(PANES.index(self.pane) + by) % len(PANES)])

    def action_move(self, by: int) -> None:
        """The next row of what has the focus, or the one before."""
        place = self.steps if self.planning else self.listing
        place.action_cursor_down() if by > 0 else place.action_cursor_up()

    def action_part(self, by: int) -> None:
        """The next file or message on the right side, or the one before."""
        self.details.to_part(by)

    def action_scroll(self, by: int) -> None:
        """A line further on the right side, or back."""
        self.details.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """A page further on the right side, or back."""
        self.details.scroll_relative(y=by * max(self.details.size.height - 1, 1), animate=False)

    def action_whole(self) -> None:
        """All of what is long."""
        if not self.planning and not self.whole:
            self.whole = True
            self._refresh_details()

    def action_more(self) -> None:
        """List as many rows again, where their number is limited."""
        if self._full() and self.most is not None and self.limit is not None and not self.reading:
            self.most += self.limit
            self._load(self.limit, first=True)

    def action_help(self) -> None:
        """All keys, on the right side."""
        if not self.planning:
            self._show(
                PickerView([ViewLine(text, label=f"{key:<10}") for key, text in MORE_KEYS], "keys; 1 to 4 show the checkpoint")
            )

    def action_space(self) -> None:
        """In a plan: overwrite this conflict, too, or not. Else a page further on the right side."""
        if self.question:
            self.answer.insert_text_at_cursor(" ")
            return
        if not self.planning:
            self.action_page(1)
            return
        at = self.steps.highlighted
        if self.shown is None or self.busy or at is None or at >= len(self.ordered):
            return
        step, over = self.ordered[at], self.meant.over
        if step.path in over:
            over = tuple(path for path in over if path != step.path)
        elif step.action == "conflict" and step.reason != UNMERGED and self.shown.plan.op == "restore":
            over = (*over, step.path)
        else:
            return
        self.meant = replace(self.meant, over=over)
        self._refresh_details()

    def action_exact(self) -> None:
        """In the plan of a restore: remove what the checkpoint does not hold, too, or not."""
        if self.planning and not self.busy and self.shown is not None and self.shown.plan.op == "restore":
            self.op, self.meant = "restore", replace(self.meant, exact=not self.meant.exact)
            self._refresh_details()

    def action_home(self) -> None:
        """From the plan or a question back to the list, and from the list what was looked for is given up."""
        if self.busy:
            return
        asked, self.question = self.question, self.question
        if asked or not self.planning:
            if self.sought and asked in ("", "filter"):
                self.sought = ""
                self._show_rows()
                self._say_count()
            self._end_question()
        else:
            self.pane = "words"
        self._forget_plan()
        self.listing.focus()
        self._draw_frame()
        self._refresh_details()

    def action_step(self, op: Op) -> None:
        """The plan of an undo or a redo."""
        if not self.busy and not self.planning:
            self._ask_plan(op)
