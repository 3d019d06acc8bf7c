"""A document with code: a guide of five sections whose examples run, two of them written."""

from __future__ import annotations

import re
from pathlib import Path

from tests.clients.trials.stage import Detour, Session, Task, python, unittests
from tests.kit import Outcome

README = """# spans

Read and write spans of time, such as `1h 30m`: for time sheets.

There is no guide yet.

    python -m unittest       runs the tests
    python check_guide.py    runs the examples of docs/guide.md
"""
SPANS = '''"""Spans of time as people write them."""

import re

SECONDS = {"d": 86400, "h": 3600, "m": 60}
PART = re.compile(r"(\\d+)([dhm])")


def parse(text):
    """The seconds of a span such as 1h 30m."""
    parts = text.split()
    found = [PART.fullmatch(part) for part in parts]
    if not parts or None in found:
        raise ValueError(f"cannot read {text!r}")
    return sum(int(one[1]) * SECONDS[one[2]] for one in found)


def show(seconds):
    """A span as people write it."""
    parts = []
    for unit, size in SECONDS.items():
        if seconds >= size:
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
    return " ".join(parts) or "0m"
'''
CHECK = '''"""Run the examples of the guide."""

import doctest
import sys

failed, tried = doctest.testfile("docs/guide.md")
print(f"{tried} examples, {failed} failed")
sys.exit(1 if failed or not tried else 0)
'''
TESTS = '''"""What spans does."""

import unittest

import spans


class Spans(unittest.TestCase):
    def test_read(self):
        self.assertEqual(spans.parse("1h 30m"), 5400)
        self.assertRaises(ValueError, spans.parse, "soon")

    def test_write(self):
        self.assertEqual(spans.show(5400), "1h 30m")
'''
ADDING_TEST = """
    def test_add(self):
        self.assertEqual(spans.add("45m", "1h 30m"), "2h 15m")
"""
READING = """# A guide to spans

## Reading a span

A span is what you write on a time sheet: days, hours and minutes, each a number and a letter, with a blank between them.
`parse` reads one and tells you how many seconds it has.

    >>> from spans import parse
    >>> parse("1h 30m")
    5400

What it cannot read it refuses:

    >>> parse("soon")
    Traceback (most recent call last):
    ValueError: cannot read 'soon'
"""
WRITING = """
## Writing a span

`show` goes the other way. It leaves out what is nothing, and a span of nothing at all is `0m`.

    >>> from spans import show
    >>> show(5400)
    '1h 30m'
    >>> show(0)
    '0m'
"""
ADDING = """
## Adding spans

The hours of a week stand on several lines. `add` takes as many spans as you have and
"""
FIRST = """Write docs/guide.md, a guide for people who fill in time sheets (no programmers), with five sections: Reading a \
span, Writing a span, Adding spans, Limits, Words. All examples must run (python check_guide.py). Where the code is missing, \
write it with a test: add() for the third section, which takes any number of spans and gives their sum as text; and for \
Limits: nothing above 999 days, parse and add then raise ValueError with the words `a span is at most 999 days`. It is always \
a span, the word "duration" must not occur. README points to the guide when it is complete. Begin with the first section and \
stop, I want to see the tone."""
SECOND = """I like the tone. No section over 120 words, please, nobody reads more. And Words is a list at the end, one line \
each: `- **word**: what it means`, in alphabetical order. What you say about the minus: yes, refuse it in just those words."""
THIRD = "ok continue"
PLAN = (
    "Reading a span",
    "Writing a span",
    "Adding spans: section, add() with a test",
    "Limits: section, at most 999 days in parse and add, test",
    "a minus (parse('-5m')): ValueError 'a span has no sign', named under Limits",
    "Words: list, alphabetical",
    "README points to the guide",
)


def plan(session: Session, done: int, *skipped: int) -> None:
    """The plan with so many items done, and the one after them begun."""
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(PLAN)
    items = dict(zip(PLAN, states, strict=False))
    session.plan(**{text: state for number, (text, state) in enumerate(items.items()) if number not in skipped})


def play(session: Session) -> None:
    """Two sections, and the beginning of the third."""
    session.prompt(FIRST)
    session.run("cat spans.py check_guide.py")
    plan(session, 0, 4)
    session.edit("docs/guide.md", READING)
    session.run("python check_guide.py")
    session.run("git add -A && git commit -q -m 'guide: reading a span'")
    plan(session, 1, 4)
    session.words("guide: section 1 of 5 is written", next_cmd="python check_guide.py", validation="green")
    session.end(
        "The first section is written and committed, its examples run. While at it: `-5m` is refused as unreadable today. I"
        " would refuse it with words of its own, `a span has no sign`, so that people see what is wrong."
    )
    session.prompt(SECOND)
    plan(session, 1)
    session.edit("docs/guide.md", READING + WRITING)
    session.run("python check_guide.py")
    plan(session, 2)
    session.end("Writing a span is there, 43 words, its examples run. Not committed yet.")
    session.prompt(THIRD)
    session.edit("tests/test_spans.py", TESTS + ADDING_TEST)
    session.edit("docs/guide.md", READING + WRITING + ADDING)
    session.run("python -m unittest discover -s tests -t .")
    session.fresh(
        "guide: sections 1 (committed) and 2 (not committed) of 5 are written; begun: 3, the test of add() is written and"
        " fails",
        next_cmd="python check_guide.py && python -m unittest discover -s tests -t .",
        validation="failed",
        note="For people who fill in time sheets. No section over 120 words; always 'span', never the word duration. Left:\n"
        "3. Adding spans: finish the section; add() takes any number of spans and gives their sum as text\n"
        "4. Limits: nothing above 999 days, parse and add raise ValueError `a span is at most 999 days`; a minus (`-5m`) is"
        " refused with ValueError `a span has no sign`; tests\n"
        "5. Words, the last section: a list `- **word**: what it means`, alphabetical\n"
        "then README points to the guide",
    )
    session.end("The test of add() is written and fails; the section is begun. Next I write add() in spans.py.")


DETOUR = Detour(
    prompt="No, wait. Leave the limit at 99 days, call a minus `negative spans are not allowed`, and put the words into a table"
    " at the beginning. The sections may be as long as they like.",
    plan=("at most 99 days", "a minus: negative spans are not allowed", "a table of words at the beginning"),
    edited={
        "docs/guide.md": READING.replace("# A guide to spans\n", "# A guide to spans\n\n| word | meaning |\n|---|---|\n")
        + WRITING
    },
    said="The table of words is begun; `negative spans are not allowed` comes next.",
)

SOLVED_SPANS = SPANS.replace(
    "    parts = text.split()\n",
    '    if "-" in text:\n        raise ValueError("a span has no sign")\n    parts = text.split()\n',
).replace(
    "    return sum(int(one[1]) * SECONDS[one[2]] for one in found)\n",
    '    return bounded(sum(int(one[1]) * SECONDS[one[2]] for one in found))\n\n\ndef bounded(seconds):\n    """Not above the'
    ' limit."""\n    if seconds > 999 * 86400:\n        raise ValueError("a span is at most 999 days")\n'
    "    return seconds\n\n\n"
    'def add(*texts):\n    """The sum of spans, as text."""\n    return show(bounded(sum(parse(text) for text in texts)))\n',
)
SOLVED_GUIDE = (
    READING
    + WRITING
    + """
## Adding spans

The hours of a week stand on several lines. `add` takes as many spans as you have and gives you their sum.

    >>> from spans import add
    >>> add("45m", "1h 30m")
    '2h 15m'

## Limits

Nobody works for more than 999 days without a pause, and a span says how long, not which way.

    >>> parse("1000d")
    Traceback (most recent call last):
    ValueError: a span is at most 999 days
    >>> parse("-5m")
    Traceback (most recent call last):
    ValueError: a span has no sign

## Words

- **day**: 24 hours.
- **span**: how long something took.
- **unit**: a day, an hour or a minute.
"""
)


def guide(place: Path) -> str:
    """The guide."""
    return (place / "docs" / "guide.md").read_text()


def sections(place: Path) -> dict[str, str]:
    """Its sections, by title."""
    parts = re.split(r"^## +", guide(place), flags=re.M)[1:]
    return {part.partition("\n")[0].strip(): part.partition("\n")[2] for part in parts}


def spans(place: Path, code: str) -> Outcome:
    """What the module does."""
    return python(place, "-c", f"from spans import *\n{code}")


def refusal(place: Path, code: str) -> str:
    """The words with which something is refused."""
    done = spans(place, f"try:\n    {code}\nexcept ValueError as error:\n    print(error)\n")
    return done.out.strip()


def examples(place: Path) -> bool:
    """At least one more than the two sections had, and all run."""
    done = python(place, "check_guide.py")
    return done.code == 0 and guide(place).count(">>> ") > (READING + WRITING).count(">>> ")


def kept(place: Path) -> bool:
    """What was written stays."""
    found = sections(place)
    wanted = {"Reading a span": '    >>> parse("1h 30m")\n    5400\n', "Writing a span": "    >>> show(0)\n    '0m'\n"}
    return all(text in found[name] for name, text in wanted.items())


def adding(place: Path) -> bool:
    """The third section is finished."""
    text = sections(place)["Adding spans"]
    return ">>> add(" in text and "as many spans as you have and\n\n" not in text + "\n"


def readme(place: Path) -> bool:
    """It points to the guide."""
    text = (place / "README.md").read_text()
    return "no guide yet" not in text and text.count("docs/guide.md") >= 2


def any_number(place: Path) -> bool:
    """Whatever add is given: one, many, none too long."""
    done = spans(place, "print(add('5m'), add('1h', '1h', '1d'), add('59m', '1m'), sep=',')")
    return done.out.strip() == "5m,1d 2h,1h"


def limits(place: Path) -> bool:
    """A section of its own, after Adding spans, that names the limit."""
    found = sections(place)
    names = list(found)
    return names.index("Limits") > names.index("Adding spans") and "999" in found["Limits"]


def refused(place: Path) -> bool:
    """Above the limit, read or added; at the limit it is fine."""
    said = {refusal(place, code) for code in ("parse('1000d')", "parse('999d 1m')", "add('600d', '600d')")}
    return said == {"a span is at most 999 days"} and spans(place, "parse('999d')").code == 0


def words(place: Path) -> bool:
    """The last section: a sorted list."""
    name, text = list(sections(place).items())[-1]
    lines = [line for line in text.splitlines() if line.strip()]
    found = [match[1].lower() for line in lines if (match := re.match(r"- \*\*(.+?)\*\*: ", line))]
    return name == "Words" and len(found) >= 2 and found == sorted(found) and any("span" in word for word in found)


def short(place: Path) -> bool:
    """The five sections and no others, each of 120 words at most."""
    found = sections(place)
    wanted = ["Reading a span", "Writing a span", "Adding spans", "Limits", "Words"]
    return list(found) == wanted and all(len(text.split()) <= 120 for text in found.values())


TASK = Task(
    name="guide",
    files={
        "README.md": README,
        "spans.py": SPANS,
        "check_guide.py": CHECK,
        "tests/__init__.py": "",
        "tests/test_spans.py": TESTS,
        ".gitignore": "__pycache__/\n",
    },
    play=play,
    detour=DETOUR,
    solution={
        "spans.py": SOLVED_SPANS,
        "docs/guide.md": SOLVED_GUIDE,
        "README.md": README.replace("There is no guide yet.", "docs/guide.md is a guide."),
        "tests/test_spans.py": TESTS + ADDING_TEST,
    },
    facts={
        "the tests pass": unittests,
        "the examples run, and there are more": examples,
        "what was written is kept": kept,
        "Adding spans is finished": adding,
        "add() of the test": lambda p: spans(p, "print(add('45m', '1h 30m'))").out.strip() == "2h 15m",
        "add() of any number": any_number,
        "README points to the guide": readme,
        "a section Limits": limits,
        "at most 999 days": refused,
        "a span has no sign": lambda p: refusal(p, "parse('-5m')") == "a span has no sign",
        "Words: a sorted list at the end": words,
        "five sections, none over 120 words": short,
    },
    hidden=(
        "a section Limits",
        "at most 999 days",
        "a span has no sign",
        "Words: a sorted list at the end",
        "five sections, none over 120 words",
    ),
)
