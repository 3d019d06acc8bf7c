"""What happens while steps are carried out, as the values that whoever shows it is given. No I/O."""

from __future__ import annotations

from gitbaton.journal.values import Cause, Logged
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

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
    Kind = str

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
