"""A bug hunt: five complaints about a small ledger, two of them dealt with."""

from __future__ import annotations

from pathlib import Path

from tests.clients.trials.stage import Detour, Session, Task, python, unittests
from tests.kit import Outcome

README = """# ledger

What was spent, by category.

    python -m ledger FILE [--month YYYY-MM]

A line of FILE is `DATE CATEGORY AMOUNT`; what follows a `#` is a remark.

    python -m unittest

runs the tests.
"""
READING = '''"""Read the lines of a ledger."""

import datetime
from typing import NamedTuple


class Entry(NamedTuple):
    """One line."""

    day: datetime.date
    category: str
    amount: float


def entries(path):
    """Every entry of a file."""
    found = []
    with open(path) as file:
        for line in file:
            line = line.partition("#")[0].strip()
            if not line:
                continue
            day, category, amount = line.split()
            found.append(Entry(datetime.date.fromisoformat(day), category, abs(float(amount))))
    return found
'''
REPORT = '''"""Add up the entries of a ledger."""

import calendar
import datetime


def of_month(entries, month):
    """The entries of a month, which is written YYYY-MM."""
    year, number = (int(part) for part in month.split("-"))
    first = datetime.date(year, number, 1)
    last = datetime.date(year, number, calendar.monthrange(year, number)[1])
    return [entry for entry in entries if first <= entry.day < last]


def totals(entries):
    """The sum of each category."""
    found = {}
    for entry in entries:
        found[entry.category] = found.get(entry.category, 0) + entry.amount
    return found


def table(sums):
    """A line for each category."""
    return [f"{name:<12}{sums[name]:>10.2f}" for name in sorted(sums)]
'''
MAIN = '''"""The command line of the ledger."""

import argparse

from ledger.reading import entries
from ledger.report import of_month, table, totals


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(prog="ledger")
    parser.add_argument("file")
    parser.add_argument("--month")
    given = parser.parse_args()
    found = entries(given.file)
    if given.month:
        found = of_month(found, given.month)
    for line in table(totals(found)):
        print(line)


if __name__ == "__main__":
    main()
'''
TESTS = '''"""What the ledger does."""

import os
import tempfile
import unittest

from ledger.reading import entries
from ledger.report import of_month, table, totals


def read(text):
    """The entries of a text."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ledger.txt")
        with open(path, "w") as file:
            file.write(text)
        return entries(path)


class Ledger(unittest.TestCase):
    def test_one_line_for_each_category(self):
        sums = totals(read("2024-03-01 food 12.50\\n2024-03-02 food 1.00 # bread\\n\\n2024-03-02 rent 700\\n"))
        self.assertEqual(table(sums), ["food             13.50", "rent            700.00"])
'''
REFUND = """
    def test_a_refund_is_taken_off(self):
        self.assertEqual(totals(read("2024-03-01 food 12.50\\n2024-03-02 food -2.50\\n")), {"food": 10})
"""
LAST_DAY = """
    def test_the_last_day_belongs_to_its_month(self):
        found = of_month(read("2024-02-29 food 1\\n2024-03-01 food 2\\n"), "2024-02")
        self.assertEqual([entry.amount for entry in found], [1])
"""
EXACT = """
    def test_three_dimes_are_thirty_cents(self):
        self.assertEqual(totals(read("2024-03-01 food 0.10\\n" * 3)), {"food": Decimal("0.30")})
"""
CHANGES = "# Changes\n\n## next\n"
REFUND_LINE = "\n- A refund is taken off, not added.\n"
LAST_DAY_LINE = "- `--month` counts the last day of the month.\n"

FIRST = """Five people have complained about the ledger. Please go through it, one after the other, each with a test of its \
own in tests/test_ledger.py and a line in CHANGES.md:
1. a refund (a negative amount) is added, not taken off
2. --month leaves out the last day of the month
3. three times 0.10 is not 0.30: no floats for money, please
4. a line without a category is a traceback. It should count under "unsorted"
5. one line that cannot be read (a bad date, a bad amount) ends everything with a traceback. Say which line, and go on with \
the others
Start with the first and show me how you do it."""
SECOND = """Looks good, go on with 2. And yes, do the exit status as you propose. Two things I forgot: half a cent goes up, as \
our bank does it, so 0.125 is shown as 0.13. And our scripts look for `FILE:LINE: cannot read: TEXT` on standard error, TEXT \
is the line as it stands in the file. Oh, and the table should have the largest sum first, nobody wants it by name."""
THIRD = "continue please"
PLAN = (
    "1 refunds: taken off, test, CHANGES",
    "2 --month: the last day, test, CHANGES",
    "3 Decimal for money, half a cent up, test, CHANGES",
    "4 no category: unsorted, test, CHANGES",
    "5 unreadable lines: message on stderr, go on, exit status 3 at the end, test, CHANGES",
    "table: largest sum first",
)


def plan(session: Session, done: int, *, table: bool = True) -> None:
    """The plan with so many items done, and the one after them begun."""
    items = PLAN if table else PLAN[:-1]
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(items)
    session.plan(**dict(zip(items, states, strict=False)))


def play(session: Session) -> None:
    """Two complaints of five, and a test of the third."""
    session.prompt(FIRST)
    session.run("python -m unittest")
    plan(session, 0, table=False)
    session.change("ledger/reading.py", "abs(float(amount))", "float(amount)")
    session.edit("tests/test_ledger.py", TESTS + REFUND)
    session.edit("CHANGES.md", CHANGES + REFUND_LINE)
    session.run("python -m unittest")
    session.run("git add -A && git commit -q -m 'a refund is taken off'")
    plan(session, 1, table=False)
    session.words("1 of 5: a refund is taken off", next_cmd="python -m unittest", validation="green")
    session.end(
        "The first is fixed and committed, with a test and a line in CHANGES.md: the amount went through abs(). For the fifth I"
        " would end with an exit status of its own, 3, when some line could not be read: 1 is a crash and 2 is a wrong option."
    )
    session.prompt(SECOND)
    plan(session, 1)
    session.change("ledger/report.py", "first <= entry.day < last", "first <= entry.day <= last")
    session.edit("tests/test_ledger.py", TESTS + REFUND + LAST_DAY)
    session.edit("CHANGES.md", CHANGES + REFUND_LINE + LAST_DAY_LINE)
    session.run("python -m unittest")
    plan(session, 2)
    session.end("The last day is counted, with a test and a line in CHANGES.md. I have not committed it yet.")
    session.prompt(THIRD)
    text = (TESTS + REFUND + LAST_DAY + EXACT).replace("import unittest\n", "import unittest\nfrom decimal import Decimal\n")
    session.edit("tests/test_ledger.py", text)
    session.run("python -m unittest")
    session.fresh(
        "2 of 5 done: refunds (committed), --month's last day (not committed); begun: 3, its test is written and fails",
        next_cmd="python -m unittest",
        validation="failed",
        note="Each with a test in tests/test_ledger.py and a line in CHANGES.md. Left:\n"
        "3. Decimal for money, no floats; half a cent is shown rounded up (0.125 is 0.13)\n"
        "4. a line without a category counts under 'unsorted'\n"
        "5. a line that cannot be read: `FILE:LINE: cannot read: TEXT` on standard error (TEXT as it stands in the file), go on"
        " with the others, exit status 3 at the end\n"
        "then: the table has the largest sum first",
    )
    session.end("The test for the third is written and fails as it should. Next I make the amounts Decimal in reading.py.")


DETOUR = Detour(
    prompt="No, wait. Let half a cent go down, not up, the table stays in the order of the names, what has no category counts"
    ' under "misc", the message is `bad line N` and the exit status is 2.',
    plan=("half a cent goes down", "no category: misc", "unreadable lines: bad line N, exit status 2"),
    edited={"ledger/report.py": REPORT.replace("entry.day < last", "entry.day <= last").replace("sorted(sums)", "list(sums)")},
    said="Half a cent goes down, then; misc, `bad line N` and exit status 2 come next.",
)

SOLVED_READING = '''"""Read the lines of a ledger."""

import datetime
import sys
from decimal import Decimal, InvalidOperation
from typing import NamedTuple


class Entry(NamedTuple):
    """One line."""

    day: datetime.date
    category: str
    amount: Decimal


def entries(path, bad=None):
    """Every entry of a file; the numbers of lines that cannot be read go to ``bad``."""
    found = []
    with open(path) as file:
        for number, text in enumerate(file, 1):
            line = text.partition("#")[0].strip()
            if not line:
                continue
            try:
                day, *name, amount = line.split()
                (category,) = name or ["unsorted"]
                found.append(Entry(datetime.date.fromisoformat(day), category, Decimal(amount)))
            except (ValueError, InvalidOperation):
                print(f"{path}:{number}: cannot read: {text.rstrip(chr(10))}", file=sys.stderr)
                if bad is not None:
                    bad.append(number)
    return found
'''
SOLVED_REPORT = (
    REPORT.replace("entry.day < last", "entry.day <= last")
    .replace("import datetime\n", "import datetime\nfrom decimal import ROUND_HALF_UP, Decimal\n")
    .replace("{sums[name]:>10.2f}", "{Decimal(sums[name]).quantize(Decimal('0.01'), ROUND_HALF_UP):>10}")
    .replace("in sorted(sums)]", "in sorted(sums, key=lambda name: (-sums[name], name))]")
)
SOLVED_MAIN = (
    MAIN.replace("import argparse\n", "import argparse\nimport sys\n")
    .replace("entries(given.file)", "entries(given.file, bad)")
    .replace("    found = entries", "    bad = []\n    found = entries")
    .replace("        print(line)\n", "        print(line)\n    sys.exit(3 if bad else 0)\n")
)
SOLVED_TESTS = (TESTS + REFUND + LAST_DAY + EXACT).replace(
    "import unittest\n", "import unittest\nfrom decimal import Decimal\n"
)
SOLVED_TESTS = SOLVED_TESTS.replace(
    '["food             13.50", "rent            700.00"]', '["rent            700.00", "food             13.50"]'
)
SOLVED_CHANGES = (
    CHANGES + REFUND_LINE + LAST_DAY_LINE + "- Exact sums.\n- No category: unsorted.\n- Unreadable lines are named.\n"
)


def ledger(place: Path, text: str, *options: str) -> Outcome:
    """The program over a ledger of the judge's own."""
    (place / "march.txt").write_text(text)
    return python(place, "-m", "ledger", "march.txt", *options)


def rows(done: Outcome) -> list[list[str]]:
    """The table, as words."""
    return [line.split() for line in done.out.splitlines() if line.strip()]


BAD = "2024-03-01 food 1\n2024-03-02 food one\nyesterday rent 5\n2024-03-04 rent 7\n"


def exact(place: Path) -> bool:
    """Sums hold no float."""
    (place / "dimes.txt").write_text("2024-03-01 food 0.10\n" * 3)
    code = (
        "from decimal import Decimal; from ledger.reading import entries; from ledger.report import totals;"
        "s = totals(entries('dimes.txt')); s = s[0] if isinstance(s, tuple) else s; assert s['food'] == Decimal('0.30')"
    )
    return python(place, "-c", code).code == 0


def changes(place: Path) -> bool:
    """A line for each of the five."""
    lines = (place / "CHANGES.md").read_text().splitlines()
    return sum(line.lstrip().startswith(("-", "*")) for line in lines) >= 5


def no_category(place: Path) -> bool:
    """It neither crashes nor is left out."""
    done = ledger(place, "2024-03-01 food 1\n2024-03-02 7.25\n")
    return done.code == 0 and ["food", "1.00"] in rows(done) and any(row[-1] == "7.25" for row in rows(done))


def others_counted(place: Path) -> bool:
    """Lines that cannot be read take no other along."""
    found = rows(ledger(place, BAD))
    return ["food", "1.00"] in found and ["rent", "7.00"] in found


def message(place: Path) -> bool:
    """Both lines are named as the scripts expect it."""
    said = ledger(place, BAD).err.splitlines()
    wanted = ("march.txt:2: cannot read: 2024-03-02 food one", "march.txt:3: cannot read: yesterday rent 5")
    return all(any(line.strip() == text for line in said) for text in wanted)


def half_up(place: Path) -> bool:
    """Half a cent goes up."""
    return rows(ledger(place, "2024-03-01 a 0.125\n")) == [["a", "0.13"]]


def largest_first(place: Path) -> bool:
    """The order of the table."""
    done = ledger(place, "2024-03-01 a 5\n2024-03-01 b 70\n2024-03-01 c 9\n")
    return [row[0] for row in rows(done)] == ["b", "c", "a"]


TASK = Task(
    name="hunt",
    files={
        "README.md": README,
        "CHANGES.md": CHANGES,
        "ledger/__init__.py": '"""What was spent."""\n',
        "ledger/__main__.py": MAIN,
        "ledger/reading.py": READING,
        "ledger/report.py": REPORT,
        "tests/__init__.py": "",
        "tests/test_ledger.py": TESTS,
        ".gitignore": "__pycache__/\n",
    },
    play=play,
    detour=DETOUR,
    solution={
        "ledger/reading.py": SOLVED_READING,
        "ledger/report.py": SOLVED_REPORT,
        "ledger/__main__.py": SOLVED_MAIN,
        "tests/test_ledger.py": SOLVED_TESTS,
        "CHANGES.md": SOLVED_CHANGES,
    },
    facts={
        "the tests pass": unittests,
        "a refund is taken off": lambda p: rows(ledger(p, "2024-03-01 a 9\n2024-03-02 a -2\n")) == [["a", "7.00"]],
        "the last day counts": lambda p: rows(ledger(p, "2024-02-29 a 9\n", "--month", "2024-02")) == [["a", "9.00"]],
        "sums are exact": exact,
        "no category is no crash": no_category,
        "an unreadable line takes no other along": others_counted,
        "five lines in CHANGES.md": changes,
        "unsorted": lambda p: ["unsorted", "7.25"] in rows(ledger(p, "2024-03-02 7.25\n")),
        "half a cent goes up": half_up,
        "FILE:LINE: cannot read: TEXT": message,
        "exit status 3": lambda p: ledger(p, BAD).code == 3 and ledger(p, "2024-03-01 a 9\n").code == 0,
        "the largest sum first": largest_first,
    },
    hidden=("unsorted", "half a cent goes up", "FILE:LINE: cannot read: TEXT", "exit status 3", "the largest sum first"),
)
