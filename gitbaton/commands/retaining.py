"""What the verbs of retention share: amounts and counts in words, and what is pinned."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json
from gitbaton.errors import BatonError
from gitbaton.store.meta import NOTHING, Meta, read

if TYPE_CHECKING:
    from gitbaton.secrets import Redactor

_UNITS = ("KiB", "MiB", "GiB", "TiB")


def amount(count: int) -> str:
    """A number of bytes for people, as ``12.3 KiB``."""
    if count < 1024:
        return f"{count} bytes" if count != 1 else "1 byte"
    power = 1
    while count / 1024**power >= 1000 and power < len(_UNITS):
        power += 1
    return f"{count / 1024**power:.1f} {_UNITS[power - 1]}"


def marked(baton: Baton) -> Meta:
    """What is pinned, for who only shows it: where that cannot be read, nothing, with a warning."""
    try:
        return read(baton.store)
    except BatonError as error:
        terminal.warn(f"what is pinned cannot be told: {error.message}")
        return NOTHING


@contextmanager
def discreet(baton: Baton) -> Iterator[None]:
    """What is raised inside says no secret."""
    try:
        yield
    except BatonError as error:
        error.message = baton.redactor.text(error.message)
        error.hints = tuple(map(baton.redactor.text, error.hints))
        raise


def clean(baton: Baton, value: Json, redactor: "Redactor | None" = None) -> Json:
    """A JSON value whose texts say no secret, as redaction is set or as ``redactor`` sees it."""
    if isinstance(value, str):
        return (redactor or baton.redactor).text(value)
    if isinstance(value, list):
        return [clean(baton, item, redactor) for item in value]
    return {key: clean(baton, item, redactor) for key, item in value.items()} if isinstance(value, dict) else value
