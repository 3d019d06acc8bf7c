"""The README's pictures: sessions on a terminal, typed in a sandbox, each as an SVG."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.sax.saxutils import escape

from tests.kit.places import PYTHON, ROOT
from tests.kit.repos import Sandbox
from tests.kit.talks import Talk
from tests.kit.tmux import Tmux

SESSION, OVERVIEW, PICKER = (ROOT / f".github/{name}.svg" for name in ("session", "overview", "picker"))
WIDTH, SIZE, LINE, EDGE = 100, 14, 20, 20  # columns; pixels of a letter, a line and the margin
COLUMN = SIZE * 0.602  # pixels
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
STYLES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "turned"}
STYLES |= {
    base + n: name for base in (30, 90) for n, name in enumerate(("grey", "red", "green", "yellow", "blue", "magenta", "cyan"))
}


class Stage:
    """A repository, a clock that is set by hand, and what is typed and seen on a terminal, with its colours."""

    def __init__(self, place: Path) -> None:
        self.repo, self.lines = Sandbox.init(place / "parser"), list[str]()
        (place / "clock").mkdir()
        (place / "clock/sitecustomize.py").write_text(CLOCK)
        env = {"PYTHONPATH": str(place / "clock"), "COLUMNS": str(WIDTH), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        os.environ |= env | {"PYTHONDONTWRITEBYTECODE": "1", "TERM": "xterm-256color", "FORCE_COLOR": "1"}
        self.talk = Talk(self.repo, place / "talk.jsonl")
        self.talk.clock = lambda: self.talk.now

    def at(self, minutes: int) -> None:
        """So many minutes after all began."""
        now = BEGAN + timedelta(minutes=minutes)
        os.environ["GITBATON_PICTURE_NOW"] = now.isoformat()
        os.environ |= dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), now.isoformat())

    def typed(self, shown: str, command: str = "") -> None:
        """What is typed, and what that shows; ``command`` is what is run for it."""
        done = self.repo.run("sh", "-c", f"{command or shown} 2>&1")
        rows = "\n".join(f"\x1b[2m{'>' if n else '$'}\x1b[0m \x1b[1m{row}\x1b[0m" for n, row in enumerate(shown.split("\n")))
        self.lines.extend([*rows.split("\n"), *done.out.expandtabs().splitlines(), ""])

    def turn(
        self, minutes: int, prompt: str, name: str, text: str, ran: str, output: str, status: int = 0, *, heard: bool = False
    ) -> None:
        """A turn of an agent that ends then: it is asked, which a hook may have ``heard``, edits a file and runs a command."""
        if heard:
            self.at(minutes - 2)
            self.talk.fire("prompt", prompt=prompt)
        self.at(minutes)
        self.talk.now = BEGAN + timedelta(minutes=minutes - 1)
        self.talk.ask(prompt)
        self.talk.edit(name, text)
        os.utime(self.repo.path / name, (self.talk.now.timestamp(),) * 2)
        self.talk.run(ran, output, status)

    def shown(self) -> list[str]:
        """The lines, the same each time they are made."""
        return steady("\n".join(self.lines).rstrip("\n")).split("\n")


def overview(place: Path) -> list[str]:
    """How several tracks stand, where they write the same lines, what happened on them, and why a line is as it is."""
    stage = Stage(place)
    repo = stage.repo
    repo.git("config", "core.abbrev", "7")  # fewer digits are not unique each time
    stage.at(0)
    repo.write("num.py", "def half(n):\n    return n / 2\n")
    repo.commit("numbers: first version", api_py="from num import half\n")
    repo.git("worktree", "add", "-q", "-b", "docs", "../docs")
    stage.at(20)
    docs = Sandbox(place / "docs")
    docs.write("num.py", 'def half(n):\n    """Half of a number."""\n    return n / 2\n')
    docs.ok("snapshot", "--track", "docs", "numbers have docstrings", "--validation", "green")
    repo.git("config", "color.ui", "always")
    stage.at(40)
    repo.ok("snapshot", "--track", "parser", "lexer done; tokens carry positions", "--validation", "green")
    stage.at(45)
    repo.commit("lexer: positions", lexer_py="def tokens(): ...\n")
    ran = "pytest tests/num"
    stage.turn(52, "now the error messages", "errors.py", "class Wrong(Exception): ...\n", ran, "3 passed in 0.10s")
    stage.talk.stop()
    text = "def half(n):\n    return round(n / 2)\n"
    stage.turn(70, "half() rounds to even", "num.py", text, ran, "1 failed, 2 passed in 0.10s", 1)
    stage.talk.stop()
    stage.at(72)
    for command in ("git baton status", "git baton overlap", "git baton log --all --graph", "git baton why num.py:2"):
        stage.typed(command, command.replace("baton", "baton --color=always"))
    return stage.shown()


def session(place: Path) -> list[str]:
    """The next runner goes on where a compaction cut the agent off."""
    stage = Stage(place)
    repo, typed = stage.repo, stage.typed
    stage.at(0)
    repo.write("pytest.ini", "[pytest]\naddopts = -q --tb=no -p no:cacheprovider\npythonpath = .\n")
    repo.write("tests/parser/test_errors.py", TESTS)
    repo.commit("parser: begun", parser_py="")
    repo.git("checkout", "-q", "-b", "parser")
    repo.git("config", "color.ui", "always")
    repo.git("config", "core.abbrev", "7")  # fewer digits are not unique each time
    typed(f'git baton snapshot "lexer done; tokens carry positions" \\\n    --next-cmd "{NEXT}" --validation green')
    stage.turn(22, "now the error messages", "parser.py", PARSER, NEXT, "1 failed, 2 passed in 0.10s", 1)
    stage.talk.fire("compact", trigger="auto")
    stage.lines.extend(["\x1b[2m# The agent goes on; in the middle of a turn its context is full, and is compacted.\x1b[0m"])
    stage.at(23)
    typed("git baton", "git baton --color=always")
    typed("git baton resume", "git baton --color=always resume")
    typed(NEXT, f"{PYTHON} -m {NEXT} --color=yes")
    return stage.shown()


def picker(place: Path) -> list[str]:
    """The plan to take a bad turn back, in the picker, beside that of going back to it."""
    stage = Stage(place)
    repo, ran = stage.repo, "pytest tests/parser"
    repo.git("config", "core.abbrev", "7")  # fewer digits are not unique each time
    stage.at(0)
    repo.commit("parser: begun", parser_py="def line_of(error): ...\n", README_md="# parser\n")
    stage.at(4)
    repo.ok("snapshot", "--track", "parser", "lexer done; tokens carry positions", "--validation", "green", "--label", "lexer")
    for minutes, prompt, name, text, output in (
        (13, "now the error messages", "errors.py", "class Wrong(Exception): ...\n", "3 passed in 0.10s"),
        (28, "each names its line", "parser.py", PARSER, "4 passed in 0.10s"),
    ):
        stage.turn(minutes, prompt, name, text, ran, output)
        stage.talk.stop()
    stage.at(33)
    repo.write("README.md", "# parser\n\nAn error names its line.\n")
    with repo.open(clock=lambda: BEGAN + timedelta(minutes=33)) as baton:
        baton.snapshot("what an error says", track="docs", set_current=False, validation="green")
    stage.turn(
        51, "rewrite it as a table of messages", "table.py", "ROWS = []\n", ran, "2 failed, 2 passed in 0.10s", 1, heard=True
    )
    repo.write("errors.py", "TABLE: dict[str, str] = {}\n")
    stage.talk.stop()
    stage.at(53)
    repo.write("README.md", "# parser\n\nAn error names its line, from a table.\n")
    with Tmux(repo, place, (WIDTH, 13)) as tmux:
        tmux.type(f"LC_ALL=C.UTF-8 {PYTHON} -m gitbaton rewind", "Enter")
        tmux.until("5 checkpoints")
        tmux.type("Enter")
        tmux.until("remove   table.py")
        tmux.until("enter take it back")
        shown = tmux.shown("-e")
    rows, state = list[str](), ""
    for row in shown.rstrip("\n").split("\n"):  # what holds at the end of a row holds in the next
        rows.append(state + row)
        state = "".join(re.findall(r"\x1b\[[\d;]*m", rows[-1]))
        state = "\x1b[0" + state.rpartition("\x1b[0")[2] if "\x1b[0" in state else state
    return steady("\n".join(rows)).split("\n")


def steady(text: str) -> str:
    """A text with the same ids and durations each time it is made."""
    ids: dict[str, str] = {}

    def same(match: re.Match[str]) -> str:
        first = match[0][:7]
        return ids.setdefault(first, hashlib.sha256(str(len(ids)).encode()).hexdigest()[:40])[: len(match[0])]

    text = re.sub(r"(?<=\dm)[0-9a-f]{7}(?=[\x1b )])|(?<![\w;\[])[0-9a-f]{7,40}(?!\w)", same, text)
    return re.sub(r"\d+\.\d+s\b", "0.02s", text)


def runs(row: str) -> Iterator[tuple[list[str], str]]:
    """The parts of a terminal's line, each with its styles."""
    styles = list[str]()
    for part in re.split(r"(\x1b\[[\d;]*m|\x1b\[K)", row):
        if match := re.fullmatch(r"\x1b\[([\d;]*)m", part):
            for code in map(int, (match[1] or "0").split(";")):
                gone = {0: styles, 22: ("bold", "dim"), 39: COLOURS.keys() - {"dim"} | {"grey"}}.get(code, ())
                styles = [name for name in styles if name not in gone]
                styles += [STYLES[code]] if code in STYLES else []
        elif part and part != "\x1b[K":
            yield styles, part


def spans(row: str) -> str:
    """A line of a terminal as the parts of an SVG's text."""
    return "".join(
        f'<tspan class="{" ".join(styles).replace("grey", "dim")}">{escape(text)}</tspan>' if styles else escape(text)
        for styles, text in runs(row)
    )


def bars(row: str, y: int) -> Iterator[str]:
    """What lies behind the text that is reversed in a line."""
    at = 0
    for styles, text in runs(row):
        if "turned" in styles:
            place = f'x="{EDGE + at * COLUMN:.1f}" y="{y}" width="{len(text) * COLUMN:.1f}" height="{LINE}"'
            yield f'<rect class="bar{" dim" if "dim" in styles else ""}" {place}/>'
        at += len(text)


def folded(row: str) -> Iterator[str]:
    """A line as a terminal of WIDTH columns shows it, with its colours."""
    shown, at = "", 0
    for part in re.split(r"(\x1b\[[\d;]*[mK])", row):
        while not part.startswith("\x1b") and at + len(part) > WIDTH:
            yield shown + part[: WIDTH - at]
            part, shown, at = part[WIDTH - at :], "".join(re.findall(r"\x1b\[[\d;]*m", shown)), 0
        shown, at = shown + part, at + (0 if part.startswith("\x1b") else len(part))
    yield shown


def drawn(rows: list[str], title: str) -> str:
    """The SVG of a terminal that shows these lines; light or dark as the reader's screen is."""
    rows = [part for row in rows for part in folded(row)]
    wide, high = round(WIDTH * COLUMN) + 2 * EDGE, len(rows) * LINE + 2 * EDGE
    turned = any("turned" in styles for row in rows for styles, _ in runs(row))
    sheets = [
        (f".bar{{fill:{COLOURS['text'][dark]};stroke:none}}" if turned else "")
        + "".join(f".{name}{{fill:{pair[dark]}}}" for name, pair in COLOURS.items() if name not in ("paper", "frame", "text"))
        + (f".turned{{fill:{COLOURS['paper'][dark]}}}" if turned else "")
        + f"text{{fill:{COLOURS['text'][dark]}}}rect{{fill:{COLOURS['paper'][dark]};stroke:{COLOURS['frame'][dark]}}}"
        for dark in (0, 1)
    ]
    font = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" role="img">',
        f"<title>{title}</title>",
        f"<style>text{{font:{SIZE}px {font};white-space:pre}}.bold{{font-weight:bold}}.italic{{font-style:italic}}"
        f".underline{{text-decoration:underline}}{sheets[0]}@media(prefers-color-scheme:dark){{{sheets[1]}}}</style>",
        f'<rect x="0.5" y="0.5" width="{wide - 1}" height="{high - 1}" rx="8"/>',
    ]
    for number, row in enumerate(rows):
        lines += bars(row, EDGE + number * LINE)
        many = sum(len(text) for _, text in runs(row))
        fitted = f' textLength="{many * COLUMN:.1f}"' if turned else ""  # whatever the font, a bar lies behind its text
        if many:
            lines.append(f'<text x="{EDGE}" y="{EDGE + number * LINE + SIZE}"{fitted} xml:space="preserve">{spans(row)}</text>')
    return "\n".join([*lines, "</svg>", ""])


PICTURES: dict[Path, tuple[str, Callable[[Path], list[str]]]] = {
    SESSION: ("A session: a checkpoint, a compaction, resume, and the next command", session),
    PICKER: ("The picker of rewind: the checkpoints of a track, and the plan to take a bad turn back", picker),
    OVERVIEW: (
        "How every track stands, where two write the same lines, what happened on them, and why a line is as it is",
        overview,
    ),
}


def make(picture: Path, place: Path) -> str:
    """A picture, made in an empty folder, with the environment of a test."""
    title, play = PICTURES[picture]
    kept = dict(os.environ)
    try:
        return drawn(play(place), title)
    finally:
        os.environ.clear()
        os.environ |= kept
