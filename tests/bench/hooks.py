"""The budgets of part 2: hooks beside ``git rev-parse``, and git's own work with us and without us."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gitbaton.agents.install.levels import command
from tests.bench.baton import SNAPSHOT, make
from tests.bench.harness import Row, pair

REV_PARSE = ("git", "rev-parse", "HEAD")


def git(path: Path, env: dict[str, str], *args: str) -> str:
    """A git command of the preparation."""
    done = subprocess.run(["git", *args], cwd=path, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def installed(path: Path, env: dict[str, str]) -> Path:
    """A repository with our hooks and a checkpoint on its HEAD."""
    subprocess.run(["git-baton", "install"], cwd=path, env=env, check=True, capture_output=True)
    subprocess.run(SNAPSHOT, cwd=path, env=env, check=True, capture_output=True)
    return path


def scripts(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """Each hook as git calls it: with nothing to say, and with a drift to tell."""
    path = make(folder / "hooks1000", 1000, env)
    if not (path / ".git/hooks/post-merge").exists():
        git(path, env, "commit", "-q", "--allow-empty", "-m", "second")
        installed(path, env)
    git(path, env, "commit", "-q", "--allow-empty", "-m", "stamps the quiet")
    git(path, env, "reset", "-q", "--hard", "HEAD~1")
    head, before = git(path, env, "rev-parse", "HEAD"), git(path, env, "rev-parse", "HEAD~1")
    hook = str(path / ".git/hooks/post-")
    rows: list[tuple[str, Sequence[str], float | None]] = [
        ("post-checkout, quiet", (hook + "checkout", before, head, "1"), 1.5),
        ("post-merge, quiet", (hook + "merge", "0"), 1.5),
        ("post-commit, quiet", (hook + "commit",), 1.5),
        ("post-checkout, drift", (hook + "checkout", head, before, "1"), None),
    ]
    return [pair(name, ours, REV_PARSE, path, env, runs=runs, budget=budget) for name, ours, budget in rows]


def checkouts(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """Two checkouts of 10,000 files, to another branch of the same commit and back."""
    paths = []
    for name in ("with", "without"):
        path = make(folder / f"checkout-{name}", 10_000, env)
        if not (path / ".git/refs/heads/same").exists():
            git(path, env, "branch", "same")
        if name == "with":
            installed(path, env)
        paths.append(path)
    words = ("sh", "-c", "git checkout -q same && git checkout -q -")
    return [pair("two checkouts, 10,000 files", words, words, paths[0], env, runs=runs, budget=1.1, their_cwd=paths[1])]


def rebases(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """A rebase of 100 commits: git starts a shell for post-commit at each."""
    paths = []
    for name in ("with", "without"):
        path = folder / f"rebase-{name}"
        shutil.rmtree(path, ignore_errors=True)
        make(path, 100, env)
        git(path, env, "branch", "onto")
        for number in range(100):
            (path / "new.txt").write_text(f"{number}\n")
            git(path, env, "add", "new.txt")
            git(path, env, "commit", "-q", "-m", str(number))
        git(path, env, "branch", "work")
        git(path, env, "checkout", "-q", "onto")
        git(path, env, "commit", "-q", "--allow-empty", "-m", "onto")
        git(path, env, "checkout", "-q", "-B", "now", "work")
        if name == "with":
            installed(path, env)
        paths.append(path)
    words = ("sh", "-c", "git reset -q --hard work && git rebase -q onto")
    counted = max(3, runs // 3)
    return [pair("rebase of 100 commits", words, words, paths[0], env, runs=counted, their_cwd=paths[1])]


def commands(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """A tool's hook as a client's shell runs it: a harmless command beside a shell and 5 ms, one that only looks destructive,
    and a destructive one at 10,000 files of which one was edited, beside 150 ms."""
    path = make(folder / "guard", 10_000, env)
    if not (path / ".git/baton").exists():
        installed(path, env)
    line = ("sh", "-c", command("claude", "PreToolUse"))
    edited, rows = path / "edited.txt", []

    def edit() -> None:
        with edited.open("a") as file:
            file.write("more\n")

    for name, text, theirs, budget in (
        ("a harmless command", "npm test 2>&1 | tail -20", ("sh", "-c", "sleep 0.005"), 1.0),
        ("one that looks destructive", "git checkout -b other", ("python3", "-c", "pass"), None),
        ("a destructive one, 10,000 files", "git clean -fd", ("sleep", "0.15"), 1.0),
    ):
        stdin = folder / "guard.json"
        payload = {"session_id": "s", "cwd": str(path), "tool_name": "Bash", "tool_input": {"command": text}}
        stdin.write_text(json.dumps(payload))
        rows.append(pair(f"PreToolUse, {name}", line, theirs, path, env, runs=runs, budget=budget, before=edit, stdin=stdin))
    return rows


def main(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """All rows of part 2."""
    quiet = {**env, "PATH": env["PATH"], "GIT_CONFIG_GLOBAL": os.path.join(env["HOME"], ".gitconfig")}
    return [
        *scripts(folder, quiet, runs),
        *commands(folder, quiet, runs),
        *checkouts(folder, quiet, runs),
        *rebases(folder, quiet, runs),
    ]
