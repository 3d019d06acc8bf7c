"""Keep rules, as restic and borg have them: which checkpoints of a track stay in a prune, and why; and pins, which always stay.

Rules of the command line go before those of a track in the configuration, and these before those of all tracks. The rules
are independent of each other, and what any of them keeps stays. Days and weeks are those of UTC, so that every clone decides
alike wherever it stands; ``within`` is measured back from the track's newest checkpoint, as restic does, so that a track that
rests for a year loses nothing by resting.
"""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from gitbaton.base.codec import in_quotes, means_else, plain
from gitbaton.base.errors import AmbiguousNameError, NoAnswerError, NotFoundError, UsageError
from gitbaton.base.model import Kind, Oid, Stored
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.checkpoints.store.meta import MOST_BYTES, MOST_TURNS, Meta
from gitbaton.checkpoints.store.refs import META
from gitbaton.checkpoints.store.revision import Revision

DAYS = 14  # for which automatic and safety checkpoints and conversations stay
AUTO_LAST = 200
_PARTS = re.compile(r"([0-9]{1,6})([hdwmy])")
KEYS = ("keepLast", "keepWithin", "keepDaily", "keepWeekly")
_ID = re.compile("[0-9a-f]{4,64}")


@value
class Duration:
    """A span of time, in months of the calendar and what is to come besides; ``text`` is how it was written."""

    text: str
    months: int
    rest: timedelta

    def before(self, moment: datetime) -> datetime:
        """Return the moment so long before another; a day that its month does not have is that month's last."""
        months = moment.year * 12 + moment.month - 1 - self.months
        if months < 12:
            return datetime.min.replace(tzinfo=UTC)
        year, month = divmod(months, 12)
        day = min(moment.day, calendar.monthrange(year, month + 1)[1])
        try:
            return moment.replace(year=year, month=month + 1, day=day) - self.rest
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)


@value
class KeepRules:
    """Rules for what stays of a track: the newest ``last``, those ``within`` a duration of the newest, and the newest of
    each of the last ``daily`` days and ``weekly`` ISO weeks that have a checkpoint (with fewer such days, the oldest
    checkpoint, too). None: no such rule."""

    last: int | None = None
    within: Duration | None = None
    daily: int | None = None
    weekly: int | None = None

    @property
    def given(self) -> bool:
        """Whether a rule is given."""
        return any(rule is not None for rule in (self.last, self.within, self.daily, self.weekly))


@value
class Wish:
    """Request of a prune. ``tracks``: only these, and nothing else; ``rules`` of the command line; without ``milestones``
    labelled checkpoints go like others; ``kind``: only checkpoints of it count and go; ``auto``: the automatic prune, by its
    own rule."""

    tracks: tuple[str, ...] = ()
    rules: KeepRules = KeepRules()
    milestones: bool = True
    kind: Kind | None = None
    auto: bool = False


@value
class RetentionItem:
    """Facts of a checkpoint that the rules look at. ``carried``: the manual checkpoint that it has its words from;
    ``pinned`` and ``run`` (an unfinished run needs it): it stays whatever the rules say."""

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
        raise UsageError(f"{what} is {in_quotes(text)}; it must be a duration like 24h, 14d, 8w, 6m, 1y or 2d12h")
    if not any(int(number) for number, _ in parts):
        raise UsageError(f"{what} is {in_quotes(text)}; it must be more than nothing")
    years, months, weeks, days, hours = (sum(int(number) for number, unit in parts if unit == one) for one in "ymwdh")
    return Duration(text=text, months=years * 12 + months, rest=timedelta(weeks=weeks, days=days, hours=hours))


def parse_count(text: str, what: str) -> int:
    """Parse a whole number of 1 or more. Raises UsageError that names ``what``."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise UsageError(f"{what} is {in_quotes(text)}; it must be a whole number of 1 or more")
    return int(text)


def parse_rules(
    name: Callable[[str], str], last: str | None, within: str | None, daily: str | None, weekly: str | None
) -> KeepRules:
    """Parse rules as they were written; ``name`` turns ``keepLast`` and the like into what the user calls it. Raises
    UsageError."""
    return KeepRules(
        last=None if last is None else parse_count(last, name("keepLast")),
        within=None if within is None else parse_duration(within, name("keepWithin")),
        daily=None if daily is None else parse_count(daily, name("keepDaily")),
        weekly=None if weekly is None else parse_count(weekly, name("keepWeekly")),
    )


def rules_of(settings: Mapping[str, Sequence[str]], track: str, given: KeepRules) -> KeepRules:
    """Return the rules for a track, each rule by itself: ``given``, else ``baton.<track>.keepLast``, else ``baton.keepLast``
    and so on. Raises UsageError that names a key with a value that cannot be understood."""
    found: dict[str, tuple[str, str]] = {}
    for key in KEYS:
        for name in (f"baton.{key}", f"baton.{track}.{key}"):
            if values := settings.get(f"{name.rpartition('.')[0]}.{key.lower()}"):
                found[key] = name, values[-1]
    configured = parse_rules(lambda key: found[key][0], *(found[key][1] if key in found else None for key in KEYS))
    return KeepRules(
        last=given.last or configured.last,
        within=given.within or configured.within,
        daily=given.daily or configured.daily,
        weekly=given.weekly or configured.weekly,
    )


def day(moment: datetime) -> str:
    """Return the day of a moment in UTC, as ``2026-11-20``."""
    return moment.astimezone(UTC).date().isoformat()


def week(moment: datetime) -> str:
    """Return the ISO week of a moment in UTC, as ``2026-W47``; early January may be in the last week of the year before."""
    year, number, _ = moment.astimezone(UTC).isocalendar()
    return f"{year}-W{number:02d}"


def keep(
    items: Sequence[RetentionItem],
    rules: KeepRules,
    *,
    milestones: bool = True,
    kind: Kind | None = None,
    now: datetime | None = None,
) -> dict[Oid, tuple[str, ...]]:
    """Return the checkpoints of a track that stay, each with its reasons; ``items`` are all of them, newest first. With
    ``kind`` the rules are about those of that kind alone, and all others stay. A newest one that a wrong clock made later than
    ``now`` counts as made then.

    The tip, the last manual one, pins, what an unfinished run needs, the one that a kept automatic one has its words from and,
    with ``milestones``, labelled ones stay without any rule.
    """
    chosen = [item for item in items if kind in (None, item.kind)]
    reasons: list[tuple[str, Sequence[RetentionItem]]] = [
        (item.kind, [item]) for item in items if kind not in (None, item.kind)
    ]
    if rules.last is not None:
        reasons.append(("last", chosen[: rules.last]))
    if rules.within is not None and items:
        newest = items[0].created
        least = rules.within.before(min(newest, now or newest))
        reasons.append((f"within {rules.within.text}", [item for item in chosen if item.created > least]))
    for name, count, bucket in (("daily", rules.daily, day), ("weekly", rules.weekly, week)):
        reasons += [(f"{name} {text}", [item]) for text, item in _newest(chosen, count or 0, bucket)]
    return _kept(items, reasons, milestones=milestones)


def keep_auto(items: Sequence[RetentionItem], now: datetime) -> dict[Oid, tuple[str, ...]]:
    """Return what stays in an automatic prune of a track: all but the automatic checkpoints that are older than 14 days and
    not among the newest 200."""
    least = now - timedelta(days=DAYS)
    young = [item for item in items if item.created > least]
    manual = [item for item in items if item.kind != "auto"]
    return _kept(items, [("last", items[:AUTO_LAST]), (f"within {DAYS}d", young), ("manual", manual)], milestones=True)


def _kept(
    items: Sequence[RetentionItem], reasons: Iterable[tuple[str, Sequence[RetentionItem]]], *, milestones: bool
) -> dict[Oid, tuple[str, ...]]:
    """Return the items that stay for these reasons or whatever the rules say; each with its reasons, in the order of these."""
    always = (
        ("pinned", [item for item in items if item.pinned]),
        ("run", [item for item in items if item.run]),
        ("labelled", [item for item in items if milestones and item.label]),
        ("tip", items[:1]),
        ("manual", [item for item in items if item.kind == "manual"][:1]),
    )
    found: dict[Oid, dict[str, None]] = {}
    for reason, those in (*reasons, *always):
        for item in those:
            found.setdefault(item.id, {})[reason] = None
    words: set[Oid | None] = set()
    for item in items:  # newest first: what is carried comes after who carries it
        if item.id in words:
            found.setdefault(item.id, {})["carried"] = None
        words |= {item.carried} if item.id in found else set()
    return {item.id: tuple(found[item.id]) for item in items if item.id in found}


def _newest(items: Sequence[RetentionItem], count: int, bucket: Callable[[datetime], str]) -> list[tuple[str, RetentionItem]]:
    """Return the newest checkpoint of each of the last ``count`` buckets that have one; where there are fewer, the oldest
    one of all, too, as restic and borg do: else a young track would lose its beginning."""
    chosen: dict[str, RetentionItem] = {}
    for item in items:
        name = bucket(item.created)
        if name not in chosen:
            if len(chosen) == count:
                break
            chosen[name] = item
    if len(chosen) < count and items and items[-1] not in chosen.values():
        chosen["oldest"] = items[-1]
    return list(chosen.items())


def set_pin(baton: Baton, name: str, *, pinned: bool, called: str | None = None) -> tuple[Stored, bool]:
    """Pin the checkpoint that a name means, and let it be ``called`` so, or take its pin and name back: the checkpoint, and
    whether that changed anything.

    Raises NotFoundError, AmbiguousNameError; RecordError when what is pinned cannot be read; UsageError for a safety
    checkpoint, which lies in no track, and for a name that cannot be one; NoAnswerError for one pinned too often, and where
    another checkpoint is called so.
    """
    stored = baton.resolve(name)
    if stored.checkpoint.kind == "safety":
        raise UsageError(f"'{baton.short(stored.id)}' is a safety checkpoint; they stay for 14 days and cannot be pinned")
    called = None if called is None else _free(baton, stored, called)
    with baton.repo.lock((META,)):
        baton.store.settle()
        stored = baton.resolve(stored.id)  # a sync may just have taken it away
        revision = Revision(baton.store)
        if called is not None and any(name == called and oid != stored.id for oid, name in revision.meta.names.items()):
            raise NoAnswerError(f"{in_quotes(called)} means another checkpoint")  # named just now, by somebody else
        if revision.meta.pinned(stored.id) == pinned and called in (None, revision.meta.names.get(stored.id)):
            return stored, False
        revision.meta = turned(revision.meta, stored.id, called)
        revision.apply()
    return stored, True


def turned(meta: Meta, oid: Oid, called: str | None = None) -> Meta:
    """Return the pins with one more turn for a checkpoint: a pin becomes none, and none a pin; where it is to be ``called``
    so, it is pinned afterwards. Pure. Raises NoAnswerError."""
    count = meta.pins.get(oid, 0) + (2 if called and meta.pinned(oid) else 1)
    if count > MOST_TURNS:
        raise NoAnswerError(f"checkpoint {oid} was pinned and unpinned too often: it stays as it is")
    names = {other: name for other, name in meta.names.items() if other != oid} | ({oid: called} if called else {})
    return replace(meta, pins={**meta.pins, oid: count}, names=names)


def _free(baton: Baton, stored: Stored, called: str) -> str:
    """Return a name as it is stored, for a checkpoint: no secret is in it, and no other checkpoint is called so."""
    name = unicodedata.normalize("NFC", baton.redactor.text(called.strip()))
    if not name.isprintable() or plain(name) != name or not 0 < len(name.encode("utf-8", "replace")) <= MOST_BYTES:
        raise UsageError(f"a name is one line of 1 to {MOST_BYTES} bytes")
    if means_else(name) or _ID.fullmatch(name):
        raise UsageError(f"a checkpoint cannot be called {in_quotes(name)}: that is read as something else")
    if name in baton.store.chains()[0] or name in baton.store.strange():
        raise NoAnswerError(f"{in_quotes(name)} is a track", f"to look: git baton log --track {in_shell(name)}")
    try:
        other = baton.lead(name)
    except NotFoundError:
        return name
    except AmbiguousNameError:
        raise NoAnswerError(f"{in_quotes(name)} means other checkpoints") from None
    if other.id != stored.id:
        raise NoAnswerError(
            f"{in_quotes(name)} means another checkpoint: {baton.short(other.id)}", f"to look: git baton show {in_shell(name)}"
        )
    return name
