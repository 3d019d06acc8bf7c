"""Session events, parsed from a client's records: one value a prompt, plan, command, edit or message. No I/O."""

from __future__ import annotations

from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    State = Literal["open", "doing", "done", "dropped"]
else:
    State = str

STATES: tuple[State, ...] = ("open", "doing", "done", "dropped")


@value
class Asked:
    """The user said something. ``at``, here and below: seconds since 1970, None where the record has no time."""

    at: float | None
    text: str


@value
class Said:
    """The agent said something to the user: no thoughts, no summary that a compaction asked for."""

    at: float | None
    text: str


@value
class Item:
    """One item of a plan; ``key`` names it in its list. In a change, an empty ``text`` or None as ``state`` is what it was."""

    key: str
    text: str
    state: State | None


@value
class Planned:
    """A plan as the agent wrote it: the ``whole`` list, an empty one where it was cleared, or changes of some items."""

    at: float | None
    items: tuple[Item, ...]
    whole: bool


@value
class Ran:
    """A shell command was begun; ``key`` names the call."""

    at: float | None
    key: str
    command: str


@value
class Edited:
    """A tool of the client's own was called to write, move or delete a file; ``key`` names the call. The path is the client's:
    absolute, or from where it works."""

    at: float | None
    key: str
    path: str


@value
class Ended:
    """A call has ended. ``status``: the exit status of a command, 0 or 1 of an edit; None where nobody can say, or it goes on
    in the background: then another one follows under the same key. ``output``: what it printed, as the client kept it."""

    at: float | None
    key: str
    status: int | None
    output: str = ""


if TYPE_CHECKING:
    Sign = Asked | Said | Planned | Ran | Edited | Ended
