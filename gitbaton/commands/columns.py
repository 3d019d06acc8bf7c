"""Columns of a terminal: how wide a text is there, cut and filled up to fit. Pure."""

from __future__ import annotations

import unicodedata


def width(text: str) -> int:
    """How many columns of a terminal a text takes: East Asian wide characters two, marks that combine none."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def cut(text: str, columns: int) -> str:
    """A text in at most so many columns; ``..`` ends one that was cut."""
    if width(text) <= columns:
        return text
    kept, used = "", 0
    for char in text:
        used += _columns(char)
        if used > columns - 2:
            break
        kept += char
    return kept + ".."[: max(columns, 0)]


def padded(text: str, columns: int, *, right: bool) -> str:
    """A text filled up with blanks to so many columns."""
    blanks = " " * (columns - width(text))
    return blanks + text if right else text + blanks
