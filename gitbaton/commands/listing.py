"""The list of rewind: one line a checkpoint, as wide as the terminal is."""

from collections.abc import Callable, Sequence

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.columns import cut, padded, width
from gitbaton.render import age, line, quoting, verdict
from gitbaton.rewinding import Changes, Row

MIN_STEP, MAX_AGENT = 18, 8
NARROWER = ("agent", "kind", "id", "added", "removed", "files", "age", "verdict")  # what goes first where there is no room
TO_THE_RIGHT = ("number", "age", "files", "added", "removed")


def counted_files(changes: Changes) -> str:
    """How many files, in words."""
    return f"{changes.files} file{'' if changes.files == 1 else 's'}"


def _cells(baton: Baton, row: Row) -> dict[str, str]:
    """What a line of the list says, by column; the step last."""
    c, changes, quote = row.stored.checkpoint, row.changes, quoting(row.stored)
    said = line(c.step) + (f" (after: {line(c.headline)})" if c.carried else "")
    label = f" [{line(c.label)}]" if c.label else ""
    counted = counted_files(changes) if changes else ("? files" if c.files else "no files")
    return {
        "number": str(row.number),
        "id": baton.short(row.stored.id),
        "age": age(c.created, baton.clock()).removesuffix(" ago"),
        "kind": c.kind,
        "verdict": verdict(row.stored),
        "files": counted,
        "added": f"+{changes.added}" if changes else "",
        "removed": f"-{changes.removed}" if changes else "",
        "agent": cut(line(row.agent or ""), MAX_AGENT),
        "step": f"{quote}{said}{label}",
    }


def table(baton: Baton, rows: Sequence[Row], columns: int, *, colored: bool) -> list[str]:
    """The list, one line a checkpoint and none longer than so many columns; what is least needed goes where it is narrow."""
    cells = [_cells(baton, row) for row in rows]
    widths = {name: max(width(cell[name]) for cell in cells) for name in cells[0]} if cells else {}
    shown = [name for name, most in widths.items() if most and name != "step"]
    for name in NARROWER:
        if columns - sum(widths[n] + 1 for n in shown) < MIN_STEP and name in shown:
            shown.remove(name)
    paint = _painter(colored)
    lines = []
    for cell in cells:
        texts = [paint(name, padded(cell[name], widths[name], right=name in TO_THE_RIGHT), cell) for name in shown]
        room = columns - sum(widths[name] + 1 for name in shown)
        lines.append(" ".join([*texts, cut(cell["step"], room)]).rstrip())
    return lines


def _painter(colored: bool) -> Callable[[str, str, dict[str, str]], str]:
    def paint(name: str, text: str, cell: dict[str, str]) -> str:
        color = {"id": "id", "verdict": cell["verdict"]}.get(name)
        return terminal.paint(text, color, on=colored)

    return paint
