"""The budgets of part 4: each event of a client's hook beside `python -c pass` and `git status -uall`, by history."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gitbaton import Baton
from tests.bench.baton import STATUS, editor, make
from tests.bench.harness import Row, pair

PASS = (sys.executable, "-c", "pass")
FILES = 10_000


def hook(event: str) -> tuple[str, ...]:
    """The command line that the client's settings hold."""
    return ("git-baton", "hook", "claude", event)


def prepared(folder: Path, env: dict[str, str], count: int) -> Path:
    """A repository of 10,000 files and one track of ``count`` checkpoints, the newest a manual one with files."""
    path = make(folder / f"agents{count}", FILES, env)
    with Baton(path) as baton:
        have = len(baton.store.history("bench").items) if baton.store.chains()[0] else 0
        for number in range(have, count - 1):
            baton.snapshot(f"step {number}", track="bench", files=False)
        if have < count:
            subprocess.run(["git", "repack", "-q", "-a", "-d"], cwd=path, env=env, check=True)
            baton.snapshot("parser done", track="bench", next_cmd="pytest", validation="green")
    return path


def payload(path: Path, cwd: Path) -> Path:
    """The payload that every event gets: what the client says of its session."""
    words = {"session_id": "bench", "cwd": str(cwd), "prompt": "Go on\nplease", "source": "startup", "trigger": "auto"}
    path.write_text(json.dumps(words))
    return path


def quiet(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """What costs a client that has nothing to say to us, and a repository that has nothing to say to it."""
    outside = payload(folder / "outside.json", folder)
    empty = make(folder / "agents-empty", 100, env)
    (empty / ".git/baton").mkdir(exist_ok=True)
    nothing = payload(folder / "empty.json", empty)
    words = {"runs": runs, "budget": 5.0, "yardstick": "python -c pass"}
    return [
        pair("SessionStart, no repository", hook("SessionStart"), PASS, folder, env, stdin=outside, **words),  # type: ignore
        pair("SessionStart, no track", hook("SessionStart"), PASS, empty, env, stdin=nothing, **words),  # type: ignore
    ]


def events(folder: Path, env: dict[str, str], runs: int, count: int) -> list[Row]:
    """The events of a session in a repository of 10,000 files."""
    path = prepared(folder, env, count)
    stdin = payload(folder / f"agents{count}.json", path)
    subprocess.run(["git", "checkout", "-q", "."], cwd=path, env=env, check=True)
    rows = []
    told: list[tuple[str, tuple[str, ...], float, Callable[[], None]]] = [
        ("UserPromptSubmit", PASS, 5.0, lambda: None),
        ("PostToolUse", PASS, 5.0, lambda: None),
        ("SessionStart", PASS, 5.0, lambda: None),
        ("Stop, nothing new", STATUS, 4.5, lambda: None),
        ("Stop, 10 files changed", STATUS, 4.5, editor(path, 10, FILES)),
        ("PreCompact, 10 files changed", STATUS, 4.5, editor(path, 10, FILES)),
    ]
    for name, theirs, budget, before in told:
        words = hook(name.split(",")[0])
        yardstick = "python -c pass" if theirs is PASS else " ".join(theirs)
        title = f"{name}, {count:,} checkpoints"
        rows.append(
            pair(title, words, theirs, path, env, runs=runs, budget=budget, before=before, yardstick=yardstick, stdin=stdin)
        )
    return rows


def main(folder: Path, env: dict[str, str], runs: int, histories: list[int]) -> list[Row]:
    """All rows of part 4."""
    return [*quiet(folder, env, runs), *(row for count in histories for row in events(folder, env, runs, count))]
