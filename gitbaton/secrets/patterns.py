"""Lazily compiled patterns: most texts need none."""

from __future__ import annotations

import re

# Where a short prefix may begin: not within a word, but after an escape as in "\nAKIA" or "%3DAKIA".
BEGIN = r"(?:(?<![0-9A-Za-z])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2}))"
_LITERAL = r"(?:[A-Za-z0-9_/-]|\\\.)+(?![*+?{])"
_COMPILED: dict[str, re.Pattern[str]] = {}


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled once; what it calls a letter, a digit or a space is one in ASCII."""
    found = _COMPILED.get(pattern)
    if found is None:
        found = _COMPILED[pattern] = re.compile(_turned(pattern), re.ASCII)
    return found


def _turned(pattern: str) -> str:
    """The same pattern with its first letters before BEGIN, because only letters are looked for quickly."""
    rest = pattern.removeprefix(BEGIN)
    first = re.match(_LITERAL, rest) if rest != pattern else None
    if first is None:
        return pattern
    word = first.group()
    return word + BEGIN.replace(")|", f"{word})|").removesuffix("))") + f"{word}))" + rest[len(word) :]
