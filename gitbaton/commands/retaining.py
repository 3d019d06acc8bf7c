"""What the verbs of retention share: amounts and counts in words, and what is pinned."""

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.errors import BatonError
from gitbaton.store.meta import NOTHING, Meta, read

_UNITS = ("KiB", "MiB", "GiB", "TiB")


def amount(count: int) -> str:
    """A number of bytes for people, as ``12.3 KiB``."""
    if count < 1024:
        return f"{count} bytes" if count != 1 else "1 byte"
    power = 1
    while count / 1024**power >= 1000 and power < len(_UNITS):
        power += 1
    return f"{count / 1024**power:.1f} {_UNITS[power - 1]}"


def counted(number: int, noun: str) -> str:
    """``1 checkpoint``, ``2 checkpoints``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def marked(baton: Baton) -> Meta:
    """What is pinned, for who only shows it: where that cannot be read, nothing, with a warning."""
    try:
        return read(baton.store)
    except BatonError as error:
        terminal.warn(f"what is pinned cannot be told: {error.message}")
        return NOTHING
