"""Texts as programs: the blocks of a guide or of the README, run in order, and what its consoles show now."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from tests.kit.places import ROOT
from tests.kit.repos import Sandbox

GUIDES = ROOT / "gitbaton/data/guides"
README = ROOT / "README.md"
WRITE = "GITBATON_TEST_WRITE"  # set: what shows something else is written anew ("all": whatever it showed), and the test fails
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w./-]+\.(?:py|sh|toml|json))\n")
SHELLS = ("bash", "zsh", "fish")
READERS: Mapping[str, Callable[[str], object]] = {
    "json": json.loads,
    "yaml": lambda text: import_module("yaml").safe_load(text),  # LangGraph brings it
}
MASKS = (
    (r"\b20\d\d-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?[+-]\d{4}|Z)?)?|\b\d\d:\d\d\b", "WHEN"),
    (r"\b\d+(\.\d+)? ?([KMG]i?B|bytes)\b", "SIZE"),
    (r"\br-\d{8}-[0-9a-f]{4}\b", "RUN"),
    (r"\b[0-9a-f]{4,64}\b", "ID"),
    (r"\b\d+ (second|minute|hour|day)s?( ago)?|\b\d+(\.\d+)? ?(ms|s|m|h|d)\b( ago\b)?|\b(just )?now\b", "AGO"),
    (r"[ \t]+", " "),
    (r" $", ""),
)


def blocks(text: str, *languages: str) -> list[str]:
    """The fenced blocks of a text in these languages."""
    return [block for language, block in BLOCK.findall(text) if language in languages]


def block_with(text: str, language: str, words: str) -> str:
    """The one block of a language that holds these words."""
    found = [block for block in blocks(text, language) if words in block]
    assert len(found) == 1, words
    return found[0]


def masked(text: str) -> str:
    """A text without what differs each time: ids, times, sizes and the widths that they make."""
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text


def play(repo: Sandbox, text: str) -> str:
    """Run every block of a text in order, from the top of a repository; the text with what its consoles show now.

    ``sh`` and ``python`` must end with 0. Each command of a ``console`` follows ``$ ``, and what it prints follows it. A block
    whose first line is a comment with a file's name is that file. ``json`` and ``yaml`` must be mappings. Other blocks
    (``text``, and what belongs into a shell's own settings) are for the reader. A ``cd`` holds for the blocks that follow.
    """
    place = repo.path

    def run(script: str, options: str) -> str:
        nonlocal place
        done = repo.run("sh", f"-{options}c", f"{{ {script.strip()}\n}} 2>&1\npwd >&2", cwd=place)
        assert done.code == 0 or "e" not in options, f"{script}\n{done.out}"
        place = Path(done.err.strip() or place)
        return done.out

    def block(match: re.Match[str]) -> str:
        language, body = match.groups()
        if named := FILE.match(body):
            (place / named[1]).parent.mkdir(parents=True, exist_ok=True)
            (place / named[1]).write_text(body)
        elif language == "sh":
            run(body, "e")
        elif language == "python":
            done = repo.run(sys.executable, "-c", body, cwd=place)
            assert done.code == 0, f"{body}\n{done.err}"
        elif language == "console":
            rows = [f"$ {part}" for part in body.removeprefix("$ ").split("\n$ ")]
            shown = [f"{row}\n{run(row[2:], '')}" for row in (part.partition("\n")[0] for part in rows)]
            if os.environ.get(WRITE) == "all" or masked("".join(shown)).split() != masked(body).split():
                return f"```console\n{''.join(shown)}```"
        elif language in READERS:
            assert isinstance(READERS[language](body), dict), f"not a file that a program reads:\n{body}"
        elif language not in SHELLS:
            assert language == "text", f"a block of {language!r} is run by nobody"
        return match[0]

    return BLOCK.sub(block, text)


def check(path: Path, made: str) -> None:
    """Fail where a file is not what its makers make now; write it anew where that was asked for."""
    there = path.read_text() if path.exists() else ""
    if made != there and os.environ.get(WRITE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(made)
    assert made == there, f"'{path.relative_to(ROOT)}' shows what was; the same test with {WRITE}=1 writes it anew"
