"""The parts of the picker's screen: rows to select from, lines of any number, and how they lie. Needs textual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip
from textual.widgets import OptionList

from gitbaton.cli.columns import width
from gitbaton.commands.pickerviews import Shown

FOLDED = 4_000  # characters from which a line is folded anywhere, and not between words
REVERSE, RESTING = Style(reverse=True), Style(reverse=True, dim=True)
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
    """The checkpoints; whoever changes the size has the rows fitted."""

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
    view = Shown([])

    def __init__(self, style_of: Callable[[str], str]) -> None:
        super().__init__(id="details")
        self.style_of = style_of

    def show(self, view: Shown) -> None:
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
        places = [self.starts[at] for at in self.view.parts]
        here = self.scroll_offset.y
        found = [y for y in places if y > here] if by > 0 else [y for y in reversed(places) if y < here]
        self.scroll_to(y=found[0] if found else here, animate=False)
