"""Signs, one value for each prompt, plan, command, edit or message that a record of a transcript tells; what of it is shown;
and the branch of a conversation that its last record stands on."""

from __future__ import annotations

from collections.abc import Sequence

from gitbaton.base.values import TYPE_CHECKING, value

if TYPE_CHECKING:
    from typing import Literal

    from gitbaton.base.model import Usage

    State = Literal["open", "doing", "done", "dropped"]

Record = dict[str, object]
STATES: tuple[State, ...] = ("open", "doing", "done", "dropped")


@value
class Shown:
    """A record's part that a reader sees: of the ``user``, the ``assistant``, the ``system``, or a ``tool`` with its ``name``:
    a call, or the ``answer`` to the call of that ``key``. ``summary``: the client wrote it in a compaction, and the model sees
    it in the place of what is above. A ``thought`` is a part that no reader sees."""

    who: str
    content: object
    name: str = ""
    key: str = ""
    answer: bool = False
    summary: bool = False


@value
class Message:
    """A message: of the ``user``, the ``assistant``, the ``system``, or a ``tool`` with its ``name``, and its text.

    As one that any client could have said: also the ``summary`` of a compaction, which stands for all above it, and a
    ``command`` line; of this and of a ``tool`` the text is the call, ``answer`` what it gave. ``at``: seconds since 1970."""

    who: str
    text: str
    name: str = ""
    answer: str = ""
    at: float = 0.0


@value
class RecordStep:
    """The place of a record in its conversation.

    ``key``: its id. ``after``: that of the record that it follows; None: the one above it in the file; empty: it names none
    and follows the one above, too, unless it is a prompt in a conversation whose records are linked, and not aside: that begins
    anew. ``prompt``: the user said it. ``aside``: what stands below it in the file does not follow it, unless it says so.
    ``back``: here so many prompts are taken back, with all that followed; ``to``: what came from that record on.
    """

    key: str = ""
    after: str | None = None
    prompt: bool = False
    aside: bool = False
    back: int = 0
    to: str | None = None


@value
class Asked:
    """The user said something. ``at``, here and below: seconds since 1970, None where the record has no time. ``kind`` and
    ``about`` as in ``gitbaton.base.model.Prompt``: an answer, words at a refusal, a plan that was approved or rejected (its
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
class Named:
    """Items of the plan that the client keeps in a table were named, by their ``keys``: by the session itself, or ``beside`` it
    by a subagent of it."""

    at: float | None
    keys: tuple[str, ...]
    beside: bool


@value
class CommandRun:
    """A shell command was begun; ``key`` names the call. ``cwd``: the folder in which, absolute or from where the client works;
    None where the record does not tell."""

    at: float | None
    key: str
    command: str
    cwd: str | None = None


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
class Searched:
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
    """A call has ended. ``status``: the exit status of a command, 0 or 1 of an edit; None where it is unknown. ``running``: it
    goes on in the background: then another one follows under the same key. ``refused``: it never began, as the user, a rule or
    the client itself said no. ``output``: what it printed, as the client kept it."""

    at: float | None
    key: str
    status: int | None
    output: str = ""
    running: bool = False
    refused: bool = False


@value
class Answered:
    """A request was answered by the ``model``, empty where the record does not say which, with the ``usage`` of that request,
    None where it does not tell. ``key`` names the request: a client that writes an answer down in parts, or again when it
    grows, tells of it each time, and the most counts. Without one: requests before this are not known."""

    at: float | None
    key: str
    model: str = ""
    usage: Usage | None = None


Sign = Answered | Asked | Said | Planned | Named | CommandRun | Edited | Looked | Searched | Called | Ended


_ABOVE, _NOTHING = -1, -2  # stand for what is above the records, and for a conversation's beginning
_ASIDE = RecordStep(aside=True)


class Branch:
    """The branch through some records, given as their steps.

    ``above``: whether there are records above them that are not here. ``kept``: whether each is on the branch; ``goes_on``:
    whether the branch goes on from the last record above, as far as can be said from here; else ``from_key`` names the one that
    it goes on from, empty where it begins anew or takes back more than is here. ``last``: the key of its last record;
    ``linked``: whether its records name the ones that they follow.
    """

    def __init__(self, steps: Sequence[RecordStep | None], *, above: bool, linked: bool = False) -> None:
        self._steps = [step or _ASIDE for step in steps]
        self._above = above
        self._at: dict[str, int] = {}
        self._after: list[int] = []
        self._foreign: dict[int, str] = {}  # those that follow one that is not here
        self.linked = linked or any(step.after for step in self._steps)
        head, beyond = _ABOVE, False
        for number, step in enumerate(self._steps):
            if step.back or step.to is not None:
                found = self._taken_back(head, step)
                head, beyond = (found, beyond) if found is not None else (_ABOVE if above else _NOTHING, True)
            after = self._place(number, step, head)
            self._after.append(after)
            if step.key:
                self._at[step.key] = number
            if not (step.aside or step.back or step.to is not None):
                head = number
        self._settle(head, beyond=beyond)

    def _place(self, number: int, step: RecordStep, head: int) -> int:
        """Return the record that a record follows: the one that it names; _ABOVE where that is not here and may be above;
        _NOTHING for a prompt that names none in a linked conversation and is not aside; else ``head``, the one above it."""
        if step.after is None or (step.after == "" and not self.linked):
            return head
        if step.after == "":
            return head if step.aside or not step.prompt else _NOTHING
        found = self._at.get(step.after)
        if found is not None:
            return found
        if self._above and (head == _ABOVE or not step.aside):
            self._foreign[number] = step.after
            return _ABOVE
        return head

    def _taken_back(self, head: int, step: RecordStep) -> int | None:
        """The record after which the conversation goes on; None where that is not here."""
        left, found, last = step.back, None, head
        while head >= 0 and (left or step.to is not None):
            here = self._steps[head]
            if here.key == step.to or (step.to is None and here.prompt):
                found, left = self._after[head], left - 1  # of one that was written again, the first
            head = self._after[head]
        if step.to is None and left and not self._above:
            return last if found is None else found  # what comes before all prompts is not theirs
        return None if step.to is None and left else found

    def _settle(self, head: int, *, beyond: bool) -> None:
        chain, key = set[int](), self._steps[head].key if head >= 0 else ""
        self.last, self.from_key, first = key, "", head
        while head >= 0:
            chain.add(head)
            first, head = head, self._after[head]
        chain.add(head)
        self.goes_on = head == _ABOVE and not beyond and first not in self._foreign
        self.from_key = self._foreign.get(first, "") if head == _ABOVE and not beyond else ""
        firm: dict[int, int] = {_ABOVE: _ABOVE, _NOTHING: _NOTHING}
        for number, step in enumerate(self._steps):
            own = step.prompt or (step.after is None and not step.aside)
            firm[number] = number if own else firm[self._after[number]]
        self.kept = [firm[number] in chain for number in range(len(self._steps))]
