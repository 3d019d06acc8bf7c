"""The example of a LangGraph graph on git does what its docstring says, command by command, each in a process of its own."""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.places import ROOT

EXAMPLE = ROOT / "examples" / "langgraph_review.py"
TEA, JAM, ICED = (
    f"On {name}: {of} is old, and {of} is good." for name, of in (("tea",) * 2, ("jam",) * 2, ("iced-tea", "tea"))
)
# What each command of the example does, and what it says at its end.
DOES = {
    "start tea": (["research tea", "draft tea"], ["tea: next review", f"  asks {{'publish this?': '{TEA}'}}"]),
    "crash jam": (["research jam"], []),
    "resume jam": (["draft jam"], ["jam: next review", f"  asks {{'publish this?': '{JAM}'}}"]),
    "approve tea": (["review tea", "publish tea"], ["tea: done, approved"]),
    "replay tea": (["draft tea"], ["tea: next review", f"  asks {{'publish this?': '{TEA}'}}"]),
    "fork tea iced-tea": ([], ["iced-tea: next draft"]),
    "approve jam": (["review jam", "publish jam"], ["jam: done, approved"]),
    "resume iced-tea": (["draft iced-tea"], ["iced-tea: next review", f"  asks {{'publish this?': '{ICED}'}}"]),
}


def commands() -> list[list[str]]:
    """The commands that the docstring of the example gives, but for the installation."""
    text = ast.get_docstring(ast.parse(EXAMPLE.read_text()), clean=False) or ""
    lines = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("    ")]
    return [words for words in lines if words[0] != "pip"]


def run(words: list[str], place: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, *words[1:]] if words[0] == "python" else words
    return subprocess.run(words, cwd=place, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.mark.deep
def test_the_commands_of_the_example_do_what_it_says(tmp_path: Path) -> None:
    pytest.importorskip("langgraph")
    shutil.copy(EXAMPLE, tmp_path)
    place, ran = tmp_path, []
    for words in commands():
        if words[0] == "cd":
            place = Path(os.path.normpath(place / words[1]))
            continue
        done = run(words, place)
        if words[0] != "python":
            assert done.returncode == 0, (words, done.stderr)
            continue
        name = " ".join(words[2:])
        effects, end = DOES[name]
        assert done.returncode == (1 if words[2] == "crash" else 0), (name, done.stderr)
        assert done.stdout.splitlines() == [f"{words[2]} {words[3]}", *(f"  {effect}" for effect in effects), *end], name
        ran.append(name)
    assert ran == list(DOES)
    desk, laptop = (Sandbox(tmp_path / name) for name in ("desk", "laptop"))
    assert ledger(laptop) == [*DOES["approve jam"][0], *DOES["resume iced-tea"][0]]
    counted = Counter(ledger(desk) + ledger(laptop))
    assert counted.pop("draft tea") == 2, "once at first, once by the replay"
    assert set(counted.values()) == {1}, "what has finished never runs again"
    for clone in (desk, laptop):
        clone.fsck()
        assert clone.git("status", "--porcelain") == "?? effects.log"


def ledger(clone: Sandbox) -> list[str]:
    return (clone.path / "effects.log").read_text().splitlines()
