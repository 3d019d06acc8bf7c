"""What is read without typer is read as typer reads it."""

from __future__ import annotations

import os
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer

from gitbaton.cli.options import Argument, Declared, declared, main, read, read_leading
from gitbaton.cli.usage import CONTEXT, typed
from gitbaton.cli.verbs import VERBS, verb_function
from tests.kit import Sandbox
from tests.kit.tables import each

ODD = (
    "",
    "-",
    "--",
    "a",
    "a b",
    "-x",
    "--x",
    "é",
    "7",
    "-3",
    "+3",
    " 3",
    "1_0",
    "1e3",
    "--json",
    "-n",
    "x=y",
    "=",
    "-h",
    "-n3",
)


def parameters(verb: str) -> list[Declared]:
    return declared(verb_function(verb) if verb else main)


def by_typer(known: list[Declared]) -> Callable[[list[str]], dict[str, Any] | None]:
    """A function that gives what typer hands to a verb, None where it refuses or shows help."""
    seen: list[dict[str, Any]] = []

    def command(ctx: Any, **given: Any) -> int:
        seen.append(given)
        return 0

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command("x", context_settings=CONTEXT)(typed(command, known))

    def given(words: list[str]) -> dict[str, Any] | None:
        seen.clear()
        try:
            app(words, standalone_mode=False)
        except typer.TyperException:
            return None
        return seen[0] if seen else None

    return given


def typed_words(known: list[Declared], rng: random.Random) -> list[str]:
    """Words that mostly mean something."""
    options = [(p, name) for p in known if not isinstance(p.of, Argument) for name, _ in p.names()]
    words: list[str] = []
    for _ in range(rng.randrange(6)):
        if not options or rng.random() < 0.4:
            words.append(rng.choice(ODD))
            continue
        parameter, name = rng.choice(options)
        value = "3" if parameter.kind in (int, float) and rng.random() < 0.7 else rng.choice(ODD)
        if parameter.kind is bool:
            words.append(name if rng.random() < 0.9 else f"{name}={value}")
        else:
            joined = f"{name}={value}" if name.startswith("--") else name + value
            words += [joined] if rng.random() < 0.4 else [name, value]
    return words


@pytest.mark.deep
@each("verb", ["", *VERBS])
def test_a_line_is_read_as_typer_reads_it(verb: str) -> None:
    known, rng = parameters(verb), random.Random(verb)
    look, taken = by_typer(known), 0
    for _ in range(2000 if os.environ.get("GITBATON_TEST_FULL") else 100):
        words = typed_words(known, rng)
        try:
            found = read(known, words)
        except ValueError:
            found = None
        theirs = look(words)
        bundled = any(re.match("-[a-z]{2}", word) for word in words)  # several short switches in one word are left to typer
        assert found == theirs or (found is None and bundled), words
        taken += found is not None
    assert taken >= 4


def test_the_options_before_a_verb_end_at_the_verb() -> None:
    known = declared(main)
    assert read_leading(known, ["--repo-root", "x", "log", "--color"]) == (
        {"repo_root": "x", "checkpoint_dir": None, "color": "auto", "pager": True, "version": False},
        ["log", "--color"],
    )
    for words in (["--", "log"], ["--nope", "log"], ["-h"], ["--repo-root"]):
        with pytest.raises(ValueError):
            read_leading(known, words)


@pytest.mark.deep
def test_a_verb_is_carried_out_without_typer(repo: Sandbox) -> None:
    told = ["-X", "importtime", "-m", "gitbaton", "--no-pager", "snapshot", "-m", "x", "--track=t"]
    done = repo.run(sys.executable, *told)
    assert done.code == 0 and not re.search(r"\| +typer\b", done.err), done.err
