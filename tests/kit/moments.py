"""What a test does at a moment of this process: just before a call that Python or the package announces as an audit event.

An exception that it raises there is what the call itself fails with: so a full disk, or a file that is refused, needs no
replaced function.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Args = tuple[Any, ...]
_WATCHED: dict[str, list[tuple[Callable[[Args], bool], Callable[[Args], object]]]] = {}
_busy = threading.local()  # what is done at a moment may raise events itself


def always(_: Args) -> bool:
    """Whether to act at an event, whatever its arguments."""
    return True


@contextmanager
def at(event: str, when: Callable[[Args], bool], act: Callable[[Args], object]) -> Iterator[None]:
    """Within the block, call ``act`` with the arguments of each such event, just before what it announces is done."""
    if not _WATCHED:  # the first one; an audit hook stays for ever
        sys.addaudithook(_hook)
    watched = _WATCHED.setdefault(event, [])
    entry = (when, act)
    watched.append(entry)
    try:
        yield
    finally:
        watched.remove(entry)


def _hook(event: str, args: Args) -> None:
    found = _WATCHED.get(event)
    if not found or getattr(_busy, "now", False):
        return
    for when, act in list(found):
        if when(args):
            _busy.now = True
            try:
                act(args)
            finally:
                _busy.now = False
