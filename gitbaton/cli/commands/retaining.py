"""Retention (prune, forget, tracks delete, log, du): amounts, pins, redacted output, the question before anything goes."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Optional, TypeVar

from gitbaton.base import terminal
from gitbaton.base.codec import Json
from gitbaton.base.errors import BatonError, NoAnswerError, RefConflictError, UsageError
from gitbaton.base.model import Oid, Stored
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import line, title
from gitbaton.checkpoints.store.meta import NOTHING, Meta, read
from gitbaton.cli.common import askable, confirmed, looking, paged
from gitbaton.cli.options import Invocation

if TYPE_CHECKING:
    from gitbaton.base.secrets import Redactor
    from gitbaton.cli.look import Look

NO_TERMINAL = "--dry-run prints the plan; --yes answers"
_Plan = TypeVar("_Plan")
_Done = TypeVar("_Done")


def freed(broken: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is said of the bytes of what went; nothing where something is ``broken``, for git then collects none."""
    return () if broken else ("'git gc' frees their bytes; git runs it in its own time",)


def marked(baton: Baton) -> Meta:
    """Return the pins to show; where they cannot be read, none, with a warning."""
    try:
        return read(baton.store)
    except BatonError as error:
        terminal.warn(f"what is pinned cannot be told: {error.message}")
        return NOTHING


def checkpoint_rows(baton: Baton, look: "Look", done: str, items: Sequence[tuple[Oid, Optional[Stored], str]]) -> Iterator[str]:
    """Yield a line for each checkpoint, as far as it is known, that something is, or would be, ``done`` to, with a mark
    each."""
    from gitbaton.cli.look import Column

    ids = look.ids(oid for oid, _, _ in items)
    cells = []
    for oid, stored, mark in items:
        step = baton.redactor.text(line(title(stored)[0])) if stored is not None else ""  # before it is cut
        words = look.words(stored, step) if stored is not None else "(removed before)"
        cells.append((done, ids[oid], look.age(stored.checkpoint.created) if stored is not None else "", mark, words))
    yield from look.table((Column(), Column(), Column(right=True, goes=1), Column(), Column()), cells)


@contextmanager
def discreet(baton: Baton) -> Iterator[None]:
    """Redact secrets from errors that are raised inside."""
    try:
        yield
    except BatonError as error:
        error.message = baton.redactor.text(error.message)
        error.hints = tuple(map(baton.redactor.text, error.hints))
        raise


def clean(baton: Baton, value: Json, redactor: "Redactor | None" = None) -> Json:
    """Redact the texts of a JSON value, as redaction is set or as ``redactor`` has it."""
    if isinstance(value, str):
        return (redactor or baton.redactor).text(value)
    if isinstance(value, (list, tuple)):
        return [clean(baton, item, redactor) for item in value]
    return {key: clean(baton, item, redactor) for key, item in value.items()} if isinstance(value, dict) else value


def laid_out(ctx: Invocation, baton: Baton, texts: "Callable[[Look], Iterable[str]]", *, json: bool = False) -> None:
    """Print a plan before the question: paged on a terminal; on standard error where standard output is for a program."""
    if json or not sys.stdout.isatty():
        for text in texts(looking(ctx, baton, fd=2)):
            terminal.tell(baton.redactor.text(text))
    else:
        with paged(ctx, baton) as look:
            terminal.say_lines(map(baton.redactor.text, texts(look)))


def consented(
    made: _Plan,
    again: Callable[[], _Plan],
    show: Callable[[_Plan], None],
    apply: Callable[[_Plan], _Done],
    question: str,
    permit: Callable[[_Plan], None] = lambda made: None,
) -> _Done:
    """Show a plan that ``permit`` lets pass, ask, and carry out that very plan; where something moved meanwhile, show what it
    would be now, and ask again. Raises NoAnswerError without a yes, and UsageError without a terminal."""
    while True:
        permit(made)
        if not askable():
            raise UsageError("nothing is removed without asking, and there is no terminal", NO_TERMINAL)
        show(made)
        if not confirmed(question):
            raise NoAnswerError("nothing is removed")
        try:
            return apply(made)
        except RefConflictError:
            terminal.warn("something was recorded meanwhile, and nothing is removed yet; now it would be:")
            made = again()
