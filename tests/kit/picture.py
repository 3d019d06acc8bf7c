"""The README's picture: a session on a terminal, typed in a sandbox, as an SVG."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import escape

from tests.kit.places import ROOT
from tests.kit.repos import Sandbox
from tests.kit.talks import Talk

PICTURE = ROOT / ".github/session.svg"
WIDTH, SIZE, LINE, EDGE = 100, 14, 20, 20  # columns; pixels of a letter, a line and the margin
BEGAN = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
# What a Python process takes for the present: GITBATON_PICTURE_NOW, as every process of the session sees it.
CLOCK = """import datetime, os
class At(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat(os.environ["GITBATON_PICTURE_NOW"]).astimezone(tz)
datetime.datetime = At
"""
PARSER = "def line_of(error):\n    return error - 1\n"
TESTS = """from parser import line_of
def test_tokens(): pass
def test_positions(): pass
def test_an_error_names_its_line(): assert line_of(3) == 3
"""
NEXT = "pytest tests/parser"
COLOURS = {  # light, dark
    "text": ("#1f2328", "#e6edf3"),
    "paper": ("#f6f8fa", "#0d1117"),
    "frame": ("#d1d9e0", "#3d444d"),
    "dim": ("#656d76", "#8d96a0"),
    "red": ("#cf222e", "#ff7b72"),
    "green": ("#116329", "#7ee787"),
    "yellow": ("#7d4e00", "#e3b341"),
    "blue": ("#0550ae", "#79c0ff"),
    "magenta": ("#8250df", "#d2a8ff"),
    "cyan": ("#1b7c83", "#76e3ea"),
}
STYLES = {1: "bold", 2: "dim", 3: "italic", 4: "underline"}
STYLES |= {
    base + n: name for base in (30, 90) for n, name in enumerate(("dim", "red", "green", "yellow", "blue", "magenta", "cyan"))
}


def session(place: Path) -> list[str]:
    """The lines of the session, with the colours of a terminal."""
    repo, lines = Sandbox.init(place / "parser"), list[str]()
    (place / "clock").mkdir()
    (place / "clock/sitecustomize.py").write_text(CLOCK)
    env = {"PYTHONPATH": str(place / "clock"), "COLUMNS": str(WIDTH), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    env |= {"PYTHONDONTWRITEBYTECODE": "1", "TERM": "xterm-256color", "FORCE_COLOR": "1"}
    os.environ |= env

    def at(minutes: int) -> None:
        os.environ["GITBATON_PICTURE_NOW"] = (BEGAN + timedelta(minutes=minutes)).isoformat()

    def typed(shown: str, command: str = "") -> None:
        done = repo.run("sh", "-c", f"{command or shown} 2>&1")
        rows = "\n".join(f"\x1b[2m{'>' if n else '$'}\x1b[0m \x1b[1m{row}\x1b[0m" for n, row in enumerate(shown.split("\n")))
        lines.extend([*rows.split("\n"), *done.out.expandtabs().splitlines(), ""])

    at(0)
    repo.write("pytest.ini", "[pytest]\naddopts = -q --tb=no -p no:cacheprovider\npythonpath = .\n")
    repo.write("tests/parser/test_errors.py", TESTS)
    repo.commit("parser: begun", parser_py="")
    repo.git("checkout", "-q", "-b", "parser")
    repo.git("config", "color.ui", "always")
    typed(f'git baton snapshot "lexer done; tokens carry positions" \\\n    --next-cmd "{NEXT}" --validation green')
    talk = Talk(repo, place / "talk.jsonl")
    at(22)
    talk.now = BEGAN + timedelta(minutes=21)
    talk.clock = lambda: talk.now
    talk.ask("now the error messages")
    talk.edit("parser.py", PARSER)
    os.utime(repo.path / "parser.py", (talk.now.timestamp(),) * 2)
    talk.run(NEXT, "1 failed, 2 passed in 0.10s", 1)
    talk.fire("compact", trigger="auto")
    lines.extend(["\x1b[2m# The agent goes on; in the middle of a turn its context is full, and is compacted.\x1b[0m"])
    at(23)
    typed("git baton", "git baton --color=always")
    typed("git baton resume")
    typed(NEXT, f"{sys.executable} -m {NEXT} --color=yes")
    return steady("\n".join(lines).rstrip("\n")).split("\n")


def steady(text: str) -> str:
    """A text with the same ids and durations each time it is made."""
    ids: dict[str, str] = {}

    def same(match: re.Match[str]) -> str:
        first = match[0][:7]
        return ids.setdefault(first, hashlib.sha256(str(len(ids)).encode()).hexdigest()[:40])[: len(match[0])]

    text = re.sub(r"(?<![\w;\[])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?!\w)", same, text)
    return re.sub(r"\d+\.\d+s\b", "0.02s", text)


def spans(row: str) -> str:
    """A line of a terminal as the parts of an SVG's text."""
    made, styles = "", list[str]()
    for part in re.split(r"(\x1b\[[\d;]*m|\x1b\[K)", row):
        if match := re.fullmatch(r"\x1b\[([\d;]*)m", part):
            for code in map(int, filter(None, match[1].split(";"))):
                styles = [*styles, STYLES[code]] if code in STYLES else {0: [], 22: [], 39: []}[code]
            styles = styles if match[1] else []
        elif part and part != "\x1b[K":
            text = escape(part)
            made += f'<tspan class="{" ".join(styles)}">{text}</tspan>' if styles else text
    return made


def folded(row: str) -> Iterator[str]:
    """A line as a terminal of WIDTH columns shows it, with its colours."""
    shown, at = "", 0
    for part in re.split(r"(\x1b\[[\d;]*[mK])", row):
        while not part.startswith("\x1b") and at + len(part) > WIDTH:
            yield shown + part[: WIDTH - at]
            part, shown, at = part[WIDTH - at :], "".join(re.findall(r"\x1b\[[\d;]*m", shown)), 0
        shown, at = shown + part, at + (0 if part.startswith("\x1b") else len(part))
    yield shown


def drawn(rows: list[str]) -> str:
    """The SVG of a terminal that shows these lines; light or dark as the reader's screen is."""
    rows = [part for row in rows for part in folded(row)]
    wide, high = round(WIDTH * SIZE * 0.602) + 2 * EDGE, len(rows) * LINE + 2 * EDGE
    sheets = [
        "".join(f".{name}{{fill:{pair[dark]}}}" for name, pair in COLOURS.items() if name not in ("paper", "frame", "text"))
        + f"text{{fill:{COLOURS['text'][dark]}}}rect{{fill:{COLOURS['paper'][dark]};stroke:{COLOURS['frame'][dark]}}}"
        for dark in (0, 1)
    ]
    font = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" role="img">',
        "<title>A session: a checkpoint, a compaction, resume, and the next command</title>",
        f"<style>text{{font:{SIZE}px {font};white-space:pre}}.bold{{font-weight:bold}}.italic{{font-style:italic}}"
        f".underline{{text-decoration:underline}}{sheets[0]}@media(prefers-color-scheme:dark){{{sheets[1]}}}</style>",
        f'<rect x="0.5" y="0.5" width="{wide - 1}" height="{high - 1}" rx="8"/>',
    ]
    for number, row in enumerate(rows):
        if row:
            lines.append(f'<text x="{EDGE}" y="{EDGE + number * LINE + SIZE}" xml:space="preserve">{spans(row)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def make(place: Path) -> str:
    """The picture, made in an empty folder, with the environment of a test."""
    kept = dict(os.environ)
    try:
        return drawn(session(place))
    finally:
        os.environ.clear()
        os.environ |= kept
