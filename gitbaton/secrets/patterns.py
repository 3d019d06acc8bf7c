"""Patterns, compiled when they are first needed: most texts need none."""

from __future__ import annotations

import re

_COMPILED: dict[str, re.Pattern[str]] = {}


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled once; what it calls a letter, a digit or a space is one in ASCII."""
    found = _COMPILED.get(pattern)
    if found is None:
        found = _COMPILED[pattern] = re.compile(pattern, re.ASCII)
    return found
