"""Width of the terminal and of texts: cut and filled up to fit."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from functools import cache

from gitbaton.base.codec import first_line, plain

LONGEST = 200  # columns of a stored text in a list or a sentence, for a terminal or not


def width(text: str) -> int:
    """Return the columns of a terminal that a text takes: East Asian wide characters two, marks that combine none."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):  # of the last only what joins emoji is left
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def cut(text: str, columns: int) -> str:
    """Return a text in at most so many columns; an ellipsis ends one that was cut."""
    if width(text) <= columns:
        return text
    end = ellipsis()
    kept, used = "", len(end)
    for char in text:
        used += _columns(char)
        if used > columns:
            break
        kept += char
    return plain(kept.rstrip()) + end[: max(columns, 0)]  # what joins emoji does not end a text


def brief(text: str) -> str:
    """Return the first line of a stored text for a list or a sentence, safe for a terminal, also where no screen limits it."""
    return cut(first_line(text), LONGEST)


def broken(text: str, columns: int | None, under: str = "  ") -> list[str]:
    """Break a text into lines of at most so many columns: those after the first are indented by ``under``. Words, and what is
    quoted, stay whole where a line can hold them."""
    lines = [""]
    for word in re.findall(r"\s*(?:'[^']*'\S*|\S+)", text):
        if columns is not None and lines[-1].strip() and width(lines[-1] + word) > columns:
            lines.append(under + word.lstrip())
        else:
            lines[-1] += word
    return lines


def padded(text: str, columns: int, *, right: bool) -> str:
    """Fill a text up with blanks to so many columns."""
    blanks = " " * (columns - width(text))
    return blanks + text if right else text + blanks


def fitted(text: str) -> str:
    """Cut a line of standard output to the width of the screen."""
    columns = screen()[0]
    return text if columns is None else cut(text, columns)


@cache
def ellipsis() -> str:
    """Return the mark of a cut text: one character, or three dots where the locale's charset is not UTF-8."""
    named = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    # Python itself sets LC_CTYPE so where the locale is plain C, and only then is in its UTF-8 mode unasked.
    forced = sys.flags.utf8_mode and named == "C.UTF-8" and not os.environ.get("LC_ALL") and "PYTHONUTF8" not in os.environ
    return "..." if forced or "utf" not in named.lower() else "\u2026"


def screen(fd: int = 1) -> tuple[int | None, int | None]:
    """Return the columns and rows that output may take: of COLUMNS and LINES, then of the terminal; None where it is no
    terminal. As git does, what is not for a terminal is not fitted to one, but where COLUMNS says so."""
    try:
        found = os.get_terminal_size(fd)
        columns, rows = found.columns or 80, found.lines or 24
    except OSError:
        columns, rows = None, None
    named = (os.environ.get(name, "") for name in ("COLUMNS", "LINES"))
    given = [int(text) if text.isdecimal() and len(text) < 6 else 0 for text in named]
    return given[0] or columns, given[1] or rows
