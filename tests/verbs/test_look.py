"""One look: ids, ages, colours and tables are the same in every list, fitted to the terminal, and plain where it must be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from gitbaton.base.values import replace
from gitbaton.cli.columns import width
from gitbaton.cli.look import Cell, Column, Look
from tests.kit import Sandbox
from tests.kit.state import snap
from tests.kit.tables import each

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ESC = "\x1b["
WIDE = "\u6f22\u5b57 " * 60


def looked(repo: Sandbox) -> Look:
    with repo.open(door="binary", clock=lambda: NOW) as baton:
        return Look(baton, {})


@each(
    "ago, shown",
    [
        (0, "now"),
        (-30, "now"),  # a clock that is a little behind
        (59, "now"),
        (61, "1m"),
        (3599, "59m"),
        (3600, "1h"),
        (86_400 * 2 + 5, "2d"),
        (86_400 * 99, "99d"),
        (86_400 * 100, "2025-11-21"),
        (-86_400, "2026-03-02"),
    ],
)
def test_ages(repo: Sandbox, ago: int, shown: str) -> None:
    assert looked(repo).age(NOW - timedelta(seconds=ago)) == shown


@pytest.mark.full
def test_an_id_has_as_many_digits_as_are_unique(repo: Sandbox) -> None:
    first, second = snap(repo, "one"), snap(repo, "two")
    assert f"  {first[:4]}  " in repo.ok("tracks").out
    for number in count():
        data = f"{number}".encode()
        oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        if oid[:5] == first[:5] and oid[5] != first[5]:
            break
    repo.git("hash-object", "-w", "--stdin", stdin=data)
    shown = repo.ok("tracks").out
    assert f"  {first[:6]}  " in shown and f"  {second[:6]}  " in shown, "all are of one length"
    coloured = repo.ok("--color", "tracks").out
    assert f"{ESC}1m{first[:6]}{ESC}m" in coloured and f"{ESC}1m{second[:4]}{ESC}m{second[4:6]}" in coloured
    assert repo.ok("show", first[:6]).out.startswith(f"one  {first[:6]}  ")
    repo.git("config", "core.abbrev", "12")
    assert f"  {first[:12]}  " in repo.ok("tracks").out


@pytest.mark.deep
def test_of_many_ids_each_says_which_of_them_it_is(repo: Sandbox) -> None:
    look = looked(repo)
    known = [hashlib.sha1(b"%d" % number).hexdigest() for number in range(2000)]
    known += [known[0][:9] + "x" * 31, known[1][:12] + "x" * 28]
    cells = dict[str, Cell]()
    cells |= look.ids(iter([*known, *known[:5]]))
    assert cells.keys() == set(known)
    for shown in (cells[oid] for oid in known[:200] + known[-2:]):
        bold, whole = shown[0][0], look.text(shown)
        assert len(whole) == 13 and sum(oid.startswith(bold) for oid in known) == 1
        assert len(bold) == 4 or sum(oid.startswith(bold[:-1]) for oid in known) > 1
    assert {len(look.text(cell)) for cell in look.ids(known[:1500]).values()} == {10}


@pytest.mark.full
def test_no_line_is_longer_than_the_terminal_is_wide(repo: Sandbox) -> None:
    snap(repo, "a-name-" * 12, WIDE)
    snap(repo, "\u30c8\u30e9\u30c3\u30af" * 5, "e\u0301" * 150)
    snap(repo, "short", "a step")
    assert max(map(width, repo.ok("tracks").out.splitlines())) > 200, "what is no terminal has no width"
    for columns in (20, 30, 60, 80, 120, 200):
        for env, end in (({}, "\u2026"), ({"LC_ALL": "C"}, "...")):
            rows = repo.ok("tracks", env={"COLUMNS": f"{columns}", **env}).out.splitlines()
            assert len(rows) == 3 and all(width(row) <= columns for row in rows), rows
            assert all(row.endswith(end) for row in rows[1:]), rows
            assert ("\u2026" in "".join(rows)) == (end != "..."), rows
        if columns >= 60:
            assert (
                len({width(row[: row.index(mark)]) for row, mark in zip(rows, ("a s", "e\u0301", "\u6f22"), strict=True)}) == 1
            )


def test_columns_go_by_their_rank(repo: Sandbox) -> None:
    look = looked(repo)
    columns = (Column(name="ONE"), Column(name="TWO", goes=1), Column(name="THREE", goes=2, right=True), Column(name="LAST"))
    rows = [("first", "second", "3", "the last one is what is cut at all widths"), ("1", "2", "3", "")]
    seen = {}
    for look.columns in (80, 50, 43, 36, None):
        seen[look.columns] = [*look.table(columns, rows, heading=True)]
    assert seen[80][:2] == ["ONE    TWO     THREE  LAST", "first  second      3  the last one is what is cut at all widths"]
    assert seen[80][2] == "1      2           3" and seen[None] == seen[80]
    heads = {most: rows[0].split() for most, rows in seen.items()}
    assert (
        heads[50] == ["ONE", "TWO", "THREE", "LAST"]
        and seen[50][1] == "first  second      3  the last one is what is cut\u2026"
    )
    assert heads[43] == ["ONE", "TWO", "LAST"] and heads[36] == ["ONE", "LAST"]
    assert all(width(row) <= (most or 999) for most, rows in seen.items() for row in rows)


@pytest.mark.deep
def test_a_slot_has_the_colour_that_git_is_told(repo: Sandbox) -> None:
    snap(repo, "t")
    assert f"* {ESC}1mt{ESC}m" in repo.ok("--color", "tracks").out
    repo.git("config", "color.baton.current", "blue reverse")
    repo.git("config", "color.baton.id", "normal")
    shown = repo.ok("--color", "tracks").out
    assert f"* {ESC}7;34mt{ESC}m" in shown and f"{ESC}1m" not in shown
    repo.git("config", "color.baton.id", "bluish")
    done = repo.baton("--color", "tracks")
    assert done.code == 129 and done.err.startswith("fatal: color.baton: invalid color value: bluish\nhint: ")
    assert repo.ok("tracks").out, "who wants no colour meets no wrong one"


@pytest.mark.deep
def test_what_is_not_coloured_asks_git_nothing_more(repo: Sandbox) -> None:
    snap(repo, "t")
    repo.git("config", "color.baton.id", "blue")
    trace = repo.path / ".git" / "trace"
    for words in (("tracks",), ("status",), ("log",)):
        repo.ok(*words, env={"GIT_TRACE": str(trace)})
    assert "color" not in trace.read_text().replace("color\\.baton", ""), trace.read_text()


def test_what_is_ours_has_not_the_colour_of_what_is_foreign(repo: Sandbox) -> None:
    with repo.open(door="binary") as baton:
        stored = baton.snapshot("one", track="t").stored
        look = Look(baton, {"foreign": "F", "home": "H"})
        assert look.text(look.words(stored, "one", "(turn 2)")) == "oneH (turn 2)\x1b[m"
        theirs = look.text(look.words(replace(stored, foreign=True), "one", "(foreign)"))
        assert theirs == "F> \x1b[moneF (foreign)\x1b[m"


def test_a_screen_gets_the_first_rows_while_others_are_made(repo: Sandbox) -> None:
    look, made = looked(repo), list[int]()

    def rows() -> Iterator[tuple[str, str, str]]:
        for number in range(2500):
            made.append(number)
            yield "x" * (9 if number == 1500 else 2), "y" if number == 2400 else "", "end"

    columns = (Column(), Column(), Column())
    look.columns = 80
    lines = look.table(columns, rows())
    assert next(lines) == "xx  end" and len(made) < 1500
    *rest, last = lines
    assert (rest[0], last, len(rest)) == ("xx  end", "xx            end", 2498)
    assert rest[1499] == "xxxxxxxxx  end" and rest[2399] == "xx         y  end"
    look.columns = None
    assert next(look.table(columns, rows())) == "xx            end"
    look.columns = 80
    assert list(look.table((Column(name="a"), Column(name="b")), [], heading=True)) == ["a  b"]
    assert list(look.table(columns, [])) == []


def test_what_is_made_already_stands_in_the_same_columns_from_the_first_row_to_the_last(repo: Sandbox) -> None:
    look = looked(repo)
    look.columns = 40
    names = ["x" * (38 if number == 1500 else 2) for number in range(2500)]
    heading, *rest = look.table(
        (Column(name="AGE", goes=1), Column(name="STEP")), [(name, "end") for name in names], heading=True
    )
    assert heading == "STEP" and {*rest} == {"end"}
    long = list(look.table((Column(), Column()), [(name[:9], "code") for name in names]))
    assert {line.index("code") for line in long} == {11}
