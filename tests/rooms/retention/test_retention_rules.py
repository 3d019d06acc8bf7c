"""The keep rules: pure, by examples that restic's and borg's documents give, and by properties."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import UsageError
from gitbaton.care.retention.rules import (
    Duration,
    KeepRules,
    RetentionItem,
    day,
    keep,
    keep_auto,
    parse_count,
    parse_duration,
    rules_of,
    week,
)
from tests.kit.tables import each

NOON = datetime(2026, 3, 31, 12, tzinfo=UTC)


def hourly(count: int, hours: int = 1) -> list[RetentionItem]:
    """Automatic checkpoints, one in so many hours, newest first; the last one is the oldest."""
    return [RetentionItem(id=f"{n:040x}", created=NOON - timedelta(hours=hours * n), kind="auto") for n in range(count)]


def numbers(kept: dict[str, tuple[str, ...]]) -> list[int]:
    return [int(oid, 16) for oid in kept]


def test_last() -> None:
    assert numbers(keep(hourly(10), KeepRules(last=3))) == [0, 1, 2]
    assert keep(hourly(10), KeepRules(last=2))[f"{1:040x}"] == ("last",)
    assert numbers(keep(hourly(2), KeepRules(last=9))) == [0, 1]
    assert keep([], KeepRules(last=1)) == {}


def test_within_is_measured_from_the_newest_as_restic_does_and_its_end_is_out() -> None:
    within = parse_duration("5h", "x")
    assert numbers(keep(hourly(10), KeepRules(within=within))) == [0, 1, 2, 3, 4]
    assert keep(hourly(10), KeepRules(within=within))[f"{4:040x}"] == ("within 5h",)


def test_within_of_a_newest_that_a_wrong_clock_made_is_measured_from_now() -> None:
    rules, later = KeepRules(within=parse_duration("5h", "x")), timedelta(days=400)
    rows = [RetentionItem(id="f" * 40, created=NOON + later, kind="auto"), *hourly(10)]
    assert len(keep(rows, rules, now=NOON)) == 6
    assert numbers(keep(hourly(10), rules, now=NOON + later)) == [0, 1, 2, 3, 4]  # a track that rests loses nothing by it


def test_daily_is_the_newest_of_each_day_that_has_one() -> None:
    found = keep(hourly(30, hours=12), KeepRules(daily=3))  # 31 March 12:00 and 00:00, 30 March 12:00 ...
    assert numbers(found) == [0, 2, 4]
    assert found[f"{2:040x}"] == ("daily 2026-03-30",) and "daily 2026-03-31" in found[f"{0:040x}"]
    gaps = [replace_time(item, NOON - timedelta(days=40 * n)) for n, item in enumerate(hourly(5))]
    assert numbers(keep(gaps, KeepRules(daily=3))) == [0, 1, 2]


def test_where_there_are_fewer_days_or_weeks_the_oldest_stays_too() -> None:
    found = keep(hourly(30, hours=12), KeepRules(daily=90))
    assert numbers(found) == [*range(0, 30, 2), 29] and found[f"{29:040x}"] == ("daily oldest",)
    assert numbers(keep(hourly(30, hours=12), KeepRules(daily=15))) == list(range(0, 30, 2))  # every one was wanted
    assert numbers(keep(hourly(5), KeepRules(weekly=2))) == [0, 4] and numbers(keep(hourly(1), KeepRules(weekly=2))) == [0]


def replace_time(item: RetentionItem, created: datetime) -> RetentionItem:
    return RetentionItem(id=item.id, created=created, kind=item.kind)


def test_weekly_goes_by_iso_weeks() -> None:
    days = [replace_time(item, datetime(2027, 1, 5, 12, tzinfo=UTC) - timedelta(days=n)) for n, item in enumerate(hourly(12))]
    found = keep(days, KeepRules(weekly=2))  # Tuesday 5 January; Sunday the 3rd is in week 53 of the year before
    assert numbers(found) == [0, 2] and found[f"{2:040x}"] == ("weekly 2026-W53",)
    assert week(datetime(2027, 1, 3, tzinfo=UTC)) == "2026-W53" and week(datetime(2027, 1, 4, tzinfo=UTC)) == "2027-W01"


def test_days_and_weeks_are_those_of_utc() -> None:
    tokyo = datetime.fromisoformat("2026-03-31T08:59:59+09:00")
    assert day(tokyo) == "2026-03-30" and week(datetime.fromisoformat("2026-03-30T08:59:59+09:00")) == "2026-W13"


def test_rules_add_up_and_each_gives_its_reason() -> None:
    found = keep(hourly(100), KeepRules(last=2, daily=1, within=parse_duration("2h", "x")))
    assert found == {f"{0:040x}": ("last", "within 2h", "daily 2026-03-31", "tip"), f"{1:040x}": ("last", "within 2h")}


def test_what_stays_without_any_rule() -> None:
    rows = hourly(8)
    rows[2] = RetentionItem(id=rows[2].id, created=rows[2].created, kind="auto", carried=rows[5].id)
    rows[3] = RetentionItem(id=rows[3].id, created=rows[3].created, kind="manual")
    rows[4] = RetentionItem(id=rows[4].id, created=rows[4].created, kind="auto", label="v1")
    rows[5] = RetentionItem(id=rows[5].id, created=rows[5].created, kind="manual")
    rows[6] = RetentionItem(id=rows[6].id, created=rows[6].created, kind="auto", pinned=True)
    rows[7] = RetentionItem(id=rows[7].id, created=rows[7].created, kind="auto", run=True)
    found = keep(rows, KeepRules(last=3))
    assert {int(oid, 16): reasons for oid, reasons in found.items()} == {
        0: ("last", "tip"),
        1: ("last",),
        2: ("last",),
        3: ("manual",),
        4: ("labelled",),
        5: ("carried",),
        6: ("pinned",),
        7: ("run",),
    }
    assert 4 not in numbers(keep(rows, KeepRules(last=3), milestones=False))
    assert 5 not in numbers(keep(rows, KeepRules(last=1)))  # nothing that stays carries its words


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("24h", datetime(2026, 3, 30, 12, tzinfo=UTC)),
        ("2d12h", datetime(2026, 3, 29, tzinfo=UTC)),
        ("12h2d", datetime(2026, 3, 29, tzinfo=UTC)),
        ("1m", datetime(2026, 2, 28, 12, tzinfo=UTC)),
        ("1y1m", datetime(2025, 2, 28, 12, tzinfo=UTC)),
        ("2w", datetime(2026, 3, 17, 12, tzinfo=UTC)),
        ("9999y", datetime.min.replace(tzinfo=UTC)),
        ("999999d", datetime.min.replace(tzinfo=UTC)),
    ],
)
def test_durations(text: str, before: datetime) -> None:
    assert parse_duration(text, "x").before(NOON) == before


@each("text", ["", "0", "0h", "24", "h", "1x", "1h1h", "1 h", "-1h", "1.5h", "1H", "9999999h", "1h\n"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="--keep-within is "):
        parse_duration(text, "--keep-within")


@each("text", ["0", "", "-1", "x", "1.0", " 1", "1\n", "10000000000", "1_0"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(UsageError, match="it must be a whole number of 1 or more"):
        parse_count(text, "--keep-last")


def test_a_track_s_own_rule_beats_that_of_all_and_the_command_line_both() -> None:
    said = {"baton.keeplast": ["5"], "baton.Big one.keeplast": ["7", "9"], "baton.keepwithin": ["1d"]}
    assert rules_of(said, "x", KeepRules()) == KeepRules(last=5, within=Duration(text="1d", months=0, rest=timedelta(days=1)))
    assert rules_of(said, "Big one", KeepRules()).last == 9 and rules_of(said, "big one", KeepRules()).last == 5
    assert rules_of(said, "Big one", KeepRules(last=2, daily=4)) == KeepRules(
        last=2, daily=4, within=Duration(text="1d", months=0, rest=timedelta(days=1))
    )
    with pytest.raises(UsageError, match=r"baton\.Big one\.keepDaily is 'x'"):
        rules_of({"baton.Big one.keepdaily": ["x"]}, "Big one", KeepRules())


ITEMS = st.lists(
    st.tuples(
        st.integers(0, 90 * 24 * 60), st.sampled_from(["manual", "auto"]), st.booleans(), st.booleans(), st.integers(0, 60)
    ),
    max_size=40,
)
RULES = st.builds(
    KeepRules,
    last=st.none() | st.integers(1, 12),
    within=st.none() | st.builds(lambda n: Duration(text=f"{n}h", months=0, rest=timedelta(hours=n)), st.integers(1, 1000)),
    daily=st.none() | st.integers(1, 12),
    weekly=st.none() | st.integers(1, 12),
)


def built(rows: Sequence[tuple[int, str, bool, bool, int]]) -> list[RetentionItem]:
    """A track: times that grow, some of them close together; an automatic one carries one that is older."""
    rows = sorted(rows, key=lambda row: row[0])
    return [
        RetentionItem(
            id=f"{n:040x}",
            created=NOON - timedelta(minutes=at, microseconds=n),
            kind="manual" if kind == "manual" else "auto",
            label="l" if labelled and n % 3 == 0 else None,
            carried=f"{n + 1 + back:040x}" if kind == "auto" else None,
            pinned=pinned and n % 4 == 0,
        )
        for n, (at, kind, labelled, pinned, back) in enumerate(rows)
    ]


@pytest.mark.deep
@settings(max_examples=120, deadline=None)
@given(rows=ITEMS, rules=RULES, milestones=st.booleans())
def test_any_rules_on_any_track(rows: list[tuple[int, str, bool, bool, int]], rules: KeepRules, milestones: bool) -> None:
    items = built(rows)
    found = keep(items, rules, milestones=milestones)
    assert [i.id for i in items if i.id in found] == list(found) and all(found.values())
    always = {i.id for i in items if i.pinned or (milestones and i.label)} | {i.id for i in items[:1]}
    always |= {i.id for i in [i for i in items if i.kind == "manual"][:1]}
    always |= {i.carried or "" for i in items if i.id in found} & {i.id for i in items}
    assert always <= found.keys()
    wanted = set(always) | {i.id for i in items[: rules.last or 0]}
    if rules.within is not None and items:
        wanted |= {i.id for i in items if items[0].created - i.created < rules.within.rest}
    for count, name in ((rules.daily, day), (rules.weekly, week)):
        names = sorted({name(i.created) for i in items}, reverse=True)[: count or 0]
        wanted |= {max((i for i in items if name(i.created) == n), key=lambda i: i.created).id for n in names}
        wanted |= {i.id for i in items[-1:] if len(names) < (count or 0)}
    while more := {i.carried for i in items if i.id in wanted and i.carried} & {i.id for i in items} - wanted:
        wanted |= {oid for oid in more if oid}
    assert found.keys() <= wanted
    again = [i for i in items if i.id in found]
    assert keep(again, rules, milestones=milestones).keys() == found.keys()  # a second time removes nothing


@pytest.mark.deep
@settings(max_examples=60, deadline=None)
@given(rows=ITEMS, one=RULES, other=RULES)
def test_more_rules_keep_more(rows: list[tuple[int, str, bool, bool, int]], one: KeepRules, other: KeepRules) -> None:
    items = built(rows)
    both = KeepRules(last=one.last, within=one.within, daily=other.daily, weekly=other.weekly)
    first, second = KeepRules(last=one.last, within=one.within), KeepRules(daily=other.daily, weekly=other.weekly)
    assert keep(items, both).keys() == keep(items, first).keys() | keep(items, second).keys()


def test_by_itself_only_old_automatic_ones_beyond_the_last_two_hundred_go() -> None:
    rows = hourly(500)
    rows[480] = RetentionItem(id=rows[480].id, created=rows[480].created, kind="manual")
    assert numbers(keep_auto(rows, NOON)) == [*range(336), 480]  # 14 days are 336 hours
    assert numbers(keep_auto(rows, NOON + timedelta(days=90))) == [*range(200), 480]
    assert numbers(keep_auto(rows[:150], NOON + timedelta(days=90))) == list(range(150))


def test_the_worked_example_of_the_man_page() -> None:
    said = ("mon 9", "mon 12", "mon 17", "tue 10", "thu 8", "thu 9")
    days = {"mon": 2, "tue": 3, "thu": 5}  # of March 2026
    times = {name: datetime(2026, 3, days[name[:3]], int(name[4:]), tzinfo=UTC) for name in said}
    items = [RetentionItem(id=name, created=times[name], kind="auto") for name in reversed(said)]
    assert set(keep(items, KeepRules(daily=2))) == {"thu 9", "tue 10"}
    assert set(keep(items, KeepRules(last=3, daily=3))) == {"thu 9", "thu 8", "tue 10", "mon 17"}
