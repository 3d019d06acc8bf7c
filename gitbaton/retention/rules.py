"""Keep rules, as restic and borg have them: which checkpoints of a track stay, and why. Pure.

The rules are independent of each other, and what any of them keeps stays. Days and weeks are those of UTC, so that every
clone decides alike wherever it stands; ``within`` is measured back from the track's newest checkpoint, as restic does, so
that a track that rests for a year loses nothing by resting.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta

from gitbaton.errors import UsageError
from gitbaton.model import Kind, Oid
from gitbaton.values import value

AUTO_DAYS = 14
AUTO_LAST = 200
_PARTS = re.compile(r"([0-9]{1,6})([hdwmy])")
_MOST = 1_000_000_000


@value
class Duration:
    """A span of time in calendar units; ``text`` is how it was written."""

    text: str
    years: int = 0
    months: int = 0
    weeks: int = 0
    days: int = 0
    hours: int = 0

    def before(self, moment: datetime) -> datetime:
        """The moment so long before another; a day that its month does not have is that month's last."""
        months = moment.year * 12 + moment.month - 1 - self.years * 12 - self.months
        if months < 12:
            return datetime.min.replace(tzinfo=UTC)
        year, month = divmod(months, 12)
        day = min(moment.day, calendar.monthrange(year, month + 1)[1])
        try:
            return moment.replace(year=year, month=month + 1, day=day) - timedelta(
                weeks=self.weeks, days=self.days, hours=self.hours
            )
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)


@value
class Rules:
    """What stays of a track: the newest ``last``, those ``within`` a duration of the newest, and the newest of each of the
    last ``daily`` days and ``weekly`` ISO weeks that have a checkpoint (with fewer such days, the oldest checkpoint, too).
    None: no such rule."""

    last: int | None = None
    within: Duration | None = None
    daily: int | None = None
    weekly: int | None = None

    @property
    def given(self) -> bool:
        """Whether there is any rule."""
        return any(rule is not None for rule in (self.last, self.within, self.daily, self.weekly))


@value
class Item:
    """What the rules look at in a checkpoint. ``carried``: the manual checkpoint whose words it takes along; ``pinned`` and
    ``run`` (an unfinished run needs it): it stays whatever the rules say."""

    id: Oid
    created: datetime
    kind: Kind = "manual"
    label: str | None = None
    carried: Oid | None = None
    pinned: bool = False
    run: bool = False


def parse_duration(text: str, what: str) -> Duration:
    """``2d12h``, ``6m``, ``1y``: hours, days, weeks, months, years, each unit once. Raises UsageError that names ``what``."""
    parts = _PARTS.findall(text)
    units = [unit for _, unit in parts]
    whole = "".join(number + unit for number, unit in parts)
    if not parts or whole != text or len(set(units)) != len(units):
        raise UsageError(f"{what} is '{text}'; it must be a duration like 24h, 14d, 8w, 6m, 1y or 2d12h")
    if not any(int(number) for number, _ in parts):
        raise UsageError(f"{what} is '{text}'; it must be more than nothing")
    count = {unit: int(number) for number, unit in parts}
    names = {"h": "hours", "d": "days", "w": "weeks", "m": "months", "y": "years"}
    return Duration(text=text, **{names[unit]: number for unit, number in count.items()})


def parse_count(text: str, what: str) -> int:
    """A whole number of 1 or more. Raises UsageError that names ``what``."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= _MOST:
        raise UsageError(f"{what} is '{text}'; it must be a whole number of 1 or more")
    return int(text)


def day(moment: datetime) -> str:
    """The day of a moment in UTC, as ``2026-11-20``."""
    return moment.astimezone(UTC).date().isoformat()


def week(moment: datetime) -> str:
    """The ISO week of a moment in UTC, as ``2026-W47``; early January may be in the last week of the year before."""
    year, number, _ = moment.astimezone(UTC).isocalendar()
    return f"{year}-W{number:02d}"


def keep(items: Sequence[Item], rules: Rules, *, milestones: bool = True) -> dict[Oid, tuple[str, ...]]:
    """The checkpoints of a track that stay, each with its reasons; ``items`` are all of them, newest first.

    The tip, the last manual one, pins, what an unfinished run needs, the one whose words a kept automatic one carries and,
    with ``milestones``, labelled ones stay without any rule.
    """
    found = _Reasons()
    if rules.last is not None:
        found.add("last", items[: rules.last])
    if rules.within is not None and items:
        least = rules.within.before(items[0].created)
        found.add(f"within {rules.within.text}", [item for item in items if item.created > least])
    for name, count, bucket in (("daily", rules.daily, day), ("weekly", rules.weekly, week)):
        for text, item in _newest(items, count or 0, bucket):
            found.add(f"{name} {text}", [item])
    return _always(found, items, milestones=milestones)


def keep_auto(items: Sequence[Item], now: datetime) -> dict[Oid, tuple[str, ...]]:
    """What stays of a track that is pruned by itself: all but the automatic checkpoints that are older than 14 days and not
    among the newest 200."""
    found = _Reasons()
    found.add("last", items[:AUTO_LAST])
    least = now - timedelta(days=AUTO_DAYS)
    found.add(f"within {AUTO_DAYS}d", [item for item in items if item.created > least])
    found.add("manual", [item for item in items if item.kind != "auto"])
    return _always(found, items, milestones=True)


def _always(found: _Reasons, items: Sequence[Item], *, milestones: bool) -> dict[Oid, tuple[str, ...]]:
    found.add("pinned", [item for item in items if item.pinned])
    found.add("run", [item for item in items if item.run])
    found.add("labelled", [item for item in items if milestones and item.label])
    found.add("tip", items[:1])
    found.add("manual", [item for item in items if item.kind == "manual"][:1])
    words: set[Oid | None] = set()
    for item in items:  # newest first: what is carried comes after who carries it
        found.add("carried", [item] if item.id in words else [])
        words |= {item.carried} if item.id in found.by_id else set()
    return {item.id: tuple(found.by_id[item.id]) for item in items if item.id in found.by_id}


class _Reasons:
    """Why each checkpoint stays, by id, in the order in which the reasons came."""

    def __init__(self) -> None:
        self.by_id: dict[Oid, list[str]] = {}

    def add(self, reason: str, items: Collection[Item]) -> None:
        """One more reason for some of them."""
        for item in items:
            reasons = self.by_id.setdefault(item.id, [])
            if reason not in reasons:
                reasons.append(reason)


def _newest(items: Sequence[Item], count: int, bucket: Callable[[datetime], str]) -> list[tuple[str, Item]]:
    """The newest checkpoint of each of the last ``count`` buckets that have one; where there are fewer, the oldest one of all,
    too, as restic and borg do: else a young track would lose its beginning."""
    chosen: dict[str, Item] = {}
    for item in items:
        name = bucket(item.created)
        if name not in chosen:
            if len(chosen) == count:
                break
            chosen[name] = item
    if len(chosen) < count and items and items[-1] not in chosen.values():
        chosen["oldest"] = items[-1]
    return list(chosen.items())
