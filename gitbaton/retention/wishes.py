"""Which rules a prune goes by: those of the command line, over those of a track in the configuration, over those of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gitbaton.errors import UsageError
from gitbaton.retention.rules import Rules, parse_count, parse_duration
from gitbaton.values import value

KEYS = ("keepLast", "keepWithin", "keepDaily", "keepWeekly")


@value
class Wish:
    """What a prune is asked for. ``tracks``: only these, and nothing else; ``rules`` of the command line; without
    ``milestones`` labelled checkpoints go like others; ``auto``: the prune that nobody asked for, by its own rule."""

    tracks: tuple[str, ...] = ()
    rules: Rules = Rules()
    milestones: bool = True
    auto: bool = False


def parse_rules(
    name: Callable[[str], str], last: str | None, within: str | None, daily: str | None, weekly: str | None
) -> Rules:
    """Rules as they were written; ``name`` turns ``keepLast`` and the like into what the user calls it. Raises UsageError."""
    return Rules(
        last=None if last is None else parse_count(last, name("keepLast")),
        within=None if within is None else parse_duration(within, name("keepWithin")),
        daily=None if daily is None else parse_count(daily, name("keepDaily")),
        weekly=None if weekly is None else parse_count(weekly, name("keepWeekly")),
    )


def rules_of(settings: Mapping[str, Sequence[str]], track: str, given: Rules) -> Rules:
    """The rules for a track, each rule by itself: ``given``, else ``baton.<track>.keepLast``, else ``baton.keepLast`` and so
    on. Raises UsageError that names a key whose value cannot be understood."""
    found: dict[str, tuple[str, str]] = {}
    for key in KEYS:
        for name in (f"baton.{track}.{key}", f"baton.{key}"):
            values = settings.get(f"{name.rpartition('.')[0]}.{key.lower()}")
            if values:
                found[key] = name, values[-1]
                break
    last, within, daily, weekly = (found[key][1] if key in found else None for key in KEYS)
    configured = parse_rules(lambda key: found[key][0], last, within, daily, weekly)
    return Rules(
        last=given.last or configured.last,
        within=given.within or configured.within,
        daily=given.daily or configured.daily,
        weekly=given.weekly or configured.weekly,
    )


def no_rule(tracks: Sequence[str]) -> UsageError:
    """The error where nothing says what is to stay."""
    where = f" for track '{tracks[0]}'" if len(tracks) == 1 else ""
    return UsageError(
        f"no rule says what to keep{where}; nothing is removed",
        "give --keep-last N, --keep-within 24h, --keep-daily N or --keep-weekly N",
        "or set baton.keepLast, baton.keepWithin, baton.keepDaily or baton.keepWeekly, or baton.<track>.keepLast and so on",
    )
