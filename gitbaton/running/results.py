"""What became of a step, the output that its record keeps, and the events on the way. No I/O but for that output."""

from __future__ import annotations

from gitbaton.git.objects import Objects
from gitbaton.journal.values import Cause, Logged, Record, Step
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    State = Literal["ok", "cached", "failed", "gate", "unknown", "conflict", "compensation-failed", "rejected", "interrupted"]
    Kind = Literal[
        "start",
        "cached",
        "attempt",
        "ok",
        "failed",
        "retry",
        "gate",
        "unknown",
        "recovered",
        "orphan",
        "undeclared",
        "not-brought-back",
        "compensate",
        "compensated",
        "compensation-failed",
        "settled",
        "catch",
        "wait",
        "conflict",
        "isolation",
        "progress",
        "plan",
        "finished",
        "warning",
    ]
else:
    State = str
    Kind = str

GATE, UNKNOWN, UNDO_FAILED, CONFLICT, GUARD, TIMEOUT, OUTPUTS = 75, 76, 77, 78, 79, 124, 125
MAX_OUTPUT = 4 << 20


def settling(name: str) -> str:
    """The two commands that decide whether the effect of a step happened."""
    return f"'git baton run settle {name} --done' or 'git baton run settle {name} --undone'"


@value
class Done:
    """What became of a step: ``code`` is the exit status that the command line ends with (0 for ``ok`` and ``cached``, else the
    command's own, 75 to 78, 124, 125, or 1 for a rejected gate); ``logged`` the record that says so; ``cause`` why it ran;
    ``hint`` what a person can do about it."""

    step: Step
    state: State
    code: int = 0
    logged: Logged | None = None
    cause: Cause | None = None
    text: str = ""
    hint: str = ""

    @property
    def good(self) -> bool:
        """Whether what waits for this step may go on."""
        return self.state in ("ok", "cached")


def exit_of(record: Record) -> int | None:
    """The exit status that an attempt was said to end with: of a failure never 0."""
    if record.type != "fail" or record.exit is None:
        return record.exit
    return TIMEOUT if record.timeout else record.exit or OUTPUTS


def output(objects: Objects, logged: Logged) -> tuple[bytes, bytes]:
    """What is kept of a step's standard output and standard error, at most their tails; empty where nothing is kept."""

    def part(name: str) -> bytes:
        oid = logged.parts.get(name)
        found = objects.read(oid, MAX_OUTPUT) if oid else None
        return found.data if found is not None and found.kind == "blob" and found.data is not None else b""

    return part("stdout"), part("stderr")


KINDS: tuple[Kind, ...] = (
    *("start", "cached", "attempt", "ok", "failed", "retry", "gate", "unknown", "recovered", "orphan", "undeclared"),
    *("not-brought-back", "compensate", "compensated", "compensation-failed", "settled", "catch", "wait", "conflict"),
    *("isolation", "progress", "plan", "finished", "warning"),
)


@value
class Event:
    """One thing that happened to ``step`` (empty: to the whole run). ``text`` is for people; ``code`` an exit status;
    ``seconds`` a duration, or with ``retry`` the time until the next attempt; ``key`` the step's; ``number`` of ``total`` its
    place in a plan, with ``retry`` how many of the attempts there can be were made; ``logged`` the record of a ``cached`` or
    ``ok`` step, whose output results.output gives."""

    kind: Kind
    step: str = ""
    text: str = ""
    code: int | None = None
    seconds: float | None = None
    attempt: int | None = None
    key: str | None = None
    number: int | None = None
    total: int | None = None
    cause: Cause | None = None
    logged: Logged | None = None


@value
class Outcome:
    """What a run came to: the exit status, what became of each step in the order in which they ended, and the steps that did
    not begin."""

    code: int
    states: tuple[Done, ...] = ()
    run: str = ""
    left: tuple[str, ...] = ()
