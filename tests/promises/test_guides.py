"""Every example of every guide is run, in order, and shows what it prints."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.guides import GUIDES, block_with, blocks, check, play
from tests.kit.state import snap
from tests.kit.talks import Talk
from tests.kit.tiers import some

TITLES = {"langgraph": "LangGraph"}
NAMES = sorted(path.stem for path in GUIDES.glob("*.md"))
WHOLE = [name for name in NAMES if name != "langgraph"]  # test_langgraph_example.py has that one


def one_turn(repo: Sandbox, place: Path) -> None:
    """A client that was used here, a manual checkpoint, and a turn of an agent that edited, ran the tests and was compacted."""
    (Path(os.environ["HOME"]) / ".gemini").mkdir(exist_ok=True)
    repo.ok(
        "snapshot", "--track", "parser", "--step", "lexer done", "--next-cmd", "pytest tests/parser", "--validation", "green"
    )
    talk = Talk(repo, place / "talk.jsonl")
    talk.ask("now the error messages\nplease")
    talk.edit("parser.py", "1\n")
    talk.run("pytest -q", "1 failed, 2 passed in 0.10s", 1)
    talk.stop()
    repo.write("parser.py", "2\n")
    talk.fire("compact", trigger="auto")


def many_kinds(repo: Sandbox, place: Path) -> None:
    """Something of everything that is kept: an agent's turn, a run, a restore, a pin."""
    one_turn(repo, place)
    repo.ok("run", "--run", "nightly", "--step", "build", "--", "true")
    repo.ok("restore", "parser~1")
    repo.ok("snapshot", "parser begun")
    repo.ok("pin", "parser")


# What had happened when a guide begins.
BEFORE: dict[str, Callable[[Sandbox, Path], None]] = {"agents": one_turn, "storage": many_kinds}


@pytest.mark.full
@some("name", WHOLE, keep=2)
def test_the_examples_of_the_guide_do_what_it_shows(name: str, repo: Sandbox, tmp_path: Path) -> None:
    if name in BEFORE:
        BEFORE[name](repo, tmp_path)
    path = GUIDES / f"{name}.md"
    check(path, play(repo, path.read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_a_guide_is_plain_enough_for_a_pager(name: str) -> None:
    title, empty, sentence, *rest = (GUIDES / f"{name}.md").read_text().split("\n")
    assert title == f"# {TITLES.get(name, name.capitalize())}" and not empty and sentence and "## What is not covered" in rest
    fenced = False
    for row in rest:
        fenced ^= row.startswith("```")
        assert fenced or row.startswith("|") or len(row) <= 100, row
        assert fenced or not re.match(r"#{3}|\s*<|\s+[*-] |!\[", row), f"{row!r} is fancier than a pager"


# How a shell reads its settings and shows one prompt, without a terminal.
PROMPTS = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-c", "source -; emit fish_prompt"),
}


@pytest.mark.deep
@pytest.mark.parametrize("shell", PROMPTS)
def test_each_shell_shows_the_line_that_the_guide_sets(repo: Sandbox, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    snap(repo, "parser", "lexer done $(touch ../run) `touch ../run` %n \\u")
    (body,) = blocks((GUIDES / "prompts.md").read_text(), shell)
    for _ in range(2):
        done = repo.run(*PROMPTS[shell], stdin=(body if shell == "fish" else f"{body}true\nexit\n").encode())
        assert "parser  words now  . -  = home  lexer done $(touch ../run) `touch ../run` %n \\u\n" in done.out
    assert not (repo.path.parent / "run").exists()


def test_the_line_for_starship_is_a_module_of_its_own(repo: Sandbox) -> None:
    (body,) = blocks((GUIDES / "prompts.md").read_text(), "toml")
    snap(repo, "parser", "lexer done")
    module = tomllib.loads(body)["custom"]["baton"]
    done = repo.run(*module["shell"], stdin=module["command"].encode())  # as starship hands it over
    assert module["require_repo"] and module["when"] and done.out == "parser  words now  . -  = home  lexer done\n"


@pytest.mark.deep
def test_plain_git_shows_what_the_guide_to_storage_says(repo: Sandbox, tmp_path: Path) -> None:
    many_kinds(repo, tmp_path)
    lines = block_with((GUIDES / "storage.md").read_text(), "sh", "git cat-file").splitlines()
    told = ('"step": "parser begun"', "a.txt", "chunks/", "build: end", "restore", "", "pins/")
    for line, words in zip(lines, told, strict=True):
        done = repo.run("sh", "-c", line)
        assert done.code == 0 and words in done.out, (line, done)


@pytest.mark.deep
def test_what_a_console_shows_is_compared_but_for_ids_and_times(repo: Sandbox) -> None:
    def text(step: str) -> str:
        return f'# T\n\n```console\n$ cd ..; cd repo\n$ git baton snapshot "one"\nmain 0123456789 {step}\n```\n'

    assert play(repo, text("one")) == text("one")
    played = play(repo, text("two"))
    assert re.fullmatch(re.escape(text("one")).replace("0123456789", "[0-9a-f]{10}"), played), played
    with pytest.raises(AssertionError, match="no-such-command"):
        play(repo, "```sh\ntrue\nno-such-command\necho more\n```\n")
    with pytest.raises(AssertionError, match="run by nobody"):
        play(repo, "```ruby\nputs\n```\n")
