"""The names of runs, and the refs that hold them."""

from __future__ import annotations

import re

from gitbaton.codec import decode_track, encode_track, plain
from gitbaton.errors import UsageError
from gitbaton.store.refs import RUNS

RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_DOTS = 40  # each is three bytes in a ref


def check_run(name: str) -> str:
    """A run's name. Raises UsageError for one that is not letters, digits, ``.``, ``_`` and ``-``, or too long."""
    if not _fits(name):
        shown = plain(name)[:60]
        raise UsageError(f"'{shown}' is not a run's name: up to 100 letters, digits, '.', '_', '-', a letter or digit first")
    return name


def run_ref(run: str) -> str:
    """The ref of a run's chain."""
    return RUNS + encode_track(check_run(run))


def run_of(encoded: str) -> str | None:
    """The run that the last part of a ref names; None when it is not exactly what we write."""
    name = decode_track(encoded)
    return name if name is not None and _fits(name) else None


def _fits(name: str) -> bool:
    return RUN.match(name) is not None and name.count(".") <= _DOTS
