"""What a record of a client's transcript says: what is shown of it, and signs, one value for each prompt, plan, command, edit
or message."""

from __future__ import annotations

from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    State = Literal["open", "doing", "done", "dropped"]
else:
    State = str

Record = dict[str, object]
STATES: tuple[State, ...] = ("open", "doing", "done", "dropped")


@value
class Shown:
    """What a record says to a reader. ``who``: ``user``, ``assistant``, ``system``, or ``tool`` with its ``name``: a call, or
    the ``answer`` to the call of that ``key``."""

    who: str
    content: object
    name: str = ""
    key: str = ""
    answer: bool = False


@value
class Step:
    """Where a record stands in its conversation.

    ``key``: its id. ``after``: that of the record that it follows; None: the one above it in the file; empty: none, with it the
    conversation begins. ``prompt``: the user said it. ``aside``: what stands below it in the file does not follow it, unless it
    says so. ``back``: here so many prompts are taken back, with all that followed; ``to``: what came from that record on."""

    key: str = ""
    after: str | None = None
    prompt: bool = False
    aside: bool = False
    back: int = 0
    to: str | None = None


@value
class Asked:
    """The user said something. ``at``, here and below: seconds since 1970, None where the record has no time. ``kind`` and
    ``about`` as in ``gitbaton.model.Prompt``: an answer, words at a refusal, a plan that was approved or rejected (its
    text)."""

    at: float | None
    text: str
    kind: str = ""
    about: str = ""


@value
class Said:
    """The agent said something to the user: no thoughts, no summary that a compaction asked for."""

    at: float | None
    text: str


POINT = "plan-"
"""How the key of an item begins that is a point of a plan which is a text: nothing changes one of them alone."""


@value
class Item:
    """One item of a plan; ``key`` names it in its list. In a change, an empty ``text`` or None as ``state`` is what it was."""

    key: str
    text: str
    state: State | None


@value
class Planned:
    """A plan as the agent wrote it: the ``whole`` list, an empty one where it was cleared, or changes of some items. ``title``:
    its heading, where it has one."""

    at: float | None
    items: tuple[Item, ...]
    whole: bool
    title: str = ""


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
class Looked:
    """A file was read by a tool of the client's own. The path is the client's."""

    at: float | None
    path: str


@value
class Found:
    """A search by a tool of the client's own has ended: ``text``, what it found, names files."""

    at: float | None
    text: str


@value
class Called:
    """Another tool was called of which the next one should know: a subagent with its task; ``key`` names the call, ``text`` is
    what is shown of it in one line."""

    at: float | None
    key: str
    text: str


@value
class Ended:
    """A call has ended. ``status``: the exit status of a command, 0 or 1 of an edit; None where nobody can say. ``running``: it
    goes on in the background: then another one follows under the same key. ``refused``: it never began, as the user, a rule or
    the client itself said no. ``output``: what it printed, as the client kept it."""

    at: float | None
    key: str
    status: int | None
    output: str = ""
    running: bool = False
    refused: bool = False


if TYPE_CHECKING:
    Sign = Asked | Said | Planned | Ran | Edited | Looked | Found | Called | Ended
