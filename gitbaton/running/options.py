"""The small languages of a step's options: durations, backoffs, and what is worth another attempt."""

from __future__ import annotations

import re

from gitbaton.errors import UsageError
from gitbaton.journal.values import Backoff

LONGEST = 366 * 86400.0  # seconds; more than a year is a slip
TIMEOUT = "timeout"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_PART = re.compile(rf"({_NUMBER})(ms|[smhd])", re.ASCII)
_DURATION = re.compile(rf"(?:{_NUMBER}|(?:{_NUMBER}(?:ms|[smhd]))+)\Z", re.ASCII)
_FACTOR = re.compile(rf"x({_NUMBER})\Z", re.ASCII)
_STATUS = re.compile(r"[0-9]{1,3}\Z", re.ASCII)


def duration(text: str, what: str = "duration") -> float:
    """Seconds of ``90``, ``1.5s``, ``500ms``, ``10m``, ``2h``, ``1d``, ``1h30m``, each unit once. Raises UsageError that names
    ``what``."""
    parts = _PART.findall(text)
    if not _DURATION.match(text) or len({unit for _, unit in parts}) != len(parts):
        raise UsageError(f"{what} is '{text}'; it must be a duration like 500ms, 10s, 2m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else float(text)
    if seconds > LONGEST:
        raise UsageError(f"{what} is '{text}'; it can be a year at most")
    return round(seconds, 9)


def backoff(text: str, what: str = "backoff") -> Backoff:
    """``1s,x2,max=60s,jitter``: the first wait, and in any order the factor, the longest wait, and whether each is shortened by
    chance; what is left out is as in Backoff. Raises UsageError that names ``what``."""
    first, *rest = (part.strip() for part in text.split(","))
    given: dict[str, float] = {"first": duration(first, what)}
    for part in rest:
        factor = _FACTOR.match(part)
        if factor:
            name, number = "factor", float(factor[1])
        elif part.startswith("max="):
            name, number = "most", duration(part.removeprefix("max="), f"max of {what}")
        else:
            name, number = part, 1.0
        if name not in ("factor", "most", "jitter") or name in given or (name == "factor" and not 1 <= number <= 1000):
            raise UsageError(f"{what} is '{text}'; it must be like 1s,x2,max=60s,jitter, with a factor of 1 to 1000")
        given[name] = number
    most = given.get("most", max(Backoff().most, given["first"]))
    if most < given["first"]:
        raise UsageError(f"{what} is '{text}'; its max is shorter than its first wait")
    factor_given = given.get("factor", Backoff().factor)
    return Backoff(first=given["first"], factor=factor_given, most=most, jitter="jitter" in given)


def retry_on(text: str, what: str = "retry-on") -> tuple[str, ...]:
    """``1,75,timeout``: exit statuses of 1 to 255 and the word ``timeout``, each once, in the order given. Raises UsageError
    that names ``what``."""
    found: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if part != TIMEOUT and not (_STATUS.match(part) and 1 <= int(part) <= 255):
            raise UsageError(f"{what} is '{text}'; it must be exit statuses of 1 to 255, or 'timeout', with commas between")
        found.append(part if part == TIMEOUT else str(int(part)))
    return tuple(dict.fromkeys(found))
