"""The budgets of part 1: resume, verify, snapshot, history, many writers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gitbaton import Baton
from tests.bench.harness import Row, environment, pair

HELLO = """import typer
app = typer.Typer(rich_markup_mode=None, add_completion=False)
@app.command()
def hello(name: str = "x"):
    print("hello", name)
app()
"""
SNAPSHOT = ("git-baton", "snapshot", "--track", "bench", "--step", "s")
STATUS = ("git", "status", "-uall")


def make(path: Path, files: int, env: dict[str, str]) -> Path:
    """A repository with ``files`` small files, a hundred a directory, committed."""
    if not path.exists():
        for i in range(files):
            name = path / f"d{i // 100}" / f"f{i}.txt"
            if i % 100 == 0:
                name.parent.mkdir(parents=True)
            name.write_text(f"file {i}\n" * 20)
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "bench"), ("status",)):
            subprocess.run(["git", *words], cwd=path, env=env, check=True, stdout=subprocess.DEVNULL)
    return path


def editor(path: Path, count: int, files: int) -> Callable[[], None]:
    """A function that changes ``count`` files, spread over the tree, to something new each time."""
    spread = [path / f"d{i // 100}" / f"f{i}.txt" for i in range(0, files, files // count)][:count]

    def edit() -> None:
        for name in spread:
            name.write_text(f"edited {time.time_ns()}\n" * 20)

    return edit


def reading(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """resume and verify beside a typer hello-world."""
    path = make(folder / "r1000", 1000, env)
    hello = folder / "hello.py"
    hello.write_text(HELLO)
    subprocess.run(SNAPSHOT, cwd=path, env=env, check=True, stdout=subprocess.DEVNULL)
    theirs = (sys.executable, str(hello))
    works = ("resume",), ("resume", "--live"), ("verify",)
    return [
        pair(" ".join(w), ("git-baton", *w), theirs, path, env, runs=runs, budget=1.5, yardstick="typer hello-world")
        for w in works
    ]


def clean(folder: Path, env: dict[str, str], sizes: list[int], runs: int) -> list[Row]:
    """A snapshot of a clean work tree beside ``git status -uall``."""
    budgets = {10_000: 7.0, 100_000: 1.8}
    rows = []
    for size in sizes:
        path = make(folder / f"r{size}", size, env)
        rows.append(pair(f"snapshot, clean {size:,}", SNAPSHOT, STATUS, path, env, runs=runs, budget=budgets.get(size)))
    return rows


def changed(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """A snapshot with 10 of 10,000 files changed, edited anew before each run, beside ``git stash create``."""
    path = make(folder / "r10000", 10_000, env)
    edit = editor(path, 10, 10_000)
    theirs = ("git", "stash", "create")
    row = pair("snapshot, 10 of 10,000 changed", SNAPSHOT, theirs, path, env, runs=runs, budget=2.5, before=edit)
    subprocess.run(["git", "checkout", "-q", "."], cwd=path, env=env, check=True)
    return [row]


def grown(folder: Path, env: dict[str, str], runs: int, history: int) -> list[Row]:
    """A snapshot after many others beside one after 200."""
    paths = []
    for count in (history, 200):
        path = make(folder / f"h{count}", 1000, env)
        with Baton(path) as baton:
            have = len(baton.store.history("bench").items) if baton.store.chains()[0] else 0
            for i in range(have, count):
                (path / "d0" / "f0.txt").write_text(f"{i}\n")
                baton.snapshot(f"step {i}", track="bench")
        paths.append(path)
    name = f"snapshot after {history:,} others"
    return [pair(name, SNAPSHOT, SNAPSHOT, paths[0], env, runs=runs, budget=1.2, their_cwd=paths[1], yardstick="after 200")]


def writers(folder: Path, env: dict[str, str], processes: int = 50, each: int = 40) -> str:
    """Many processes on one repository: how many checkpoints a second, and the slowest."""
    path = make(folder / f"writers{time.time_ns()}", 100, env)
    loop = (
        "import subprocess, sys, time\nworst = 0.0\n"
        f"for i in range({each}):\n"
        "    start = time.perf_counter()\n"
        "    subprocess.run(['git-baton', 'snapshot', '--track', sys.argv[1], '--step', str(i)],\n"
        "                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "    worst = max(worst, time.perf_counter() - start)\nprint(worst)\n"
    )
    start = time.perf_counter()
    started = [
        subprocess.Popen([sys.executable, "-c", loop, f"t{i % 8}"], cwd=path, env=env, stdout=subprocess.PIPE, text=True)
        for i in range(processes)
    ]
    worst = max(float(p.communicate()[0]) for p in started)
    spent = time.perf_counter() - start
    with Baton(path) as baton:
        kept = len(baton.history(everything=True).items)
    total = processes * each
    return f"{processes} processes x {each}: {kept} of {total} kept, {total / spent:.1f}/s, slowest {worst:.1f} s"


def prepare(folder: Path) -> dict[str, str]:
    """The environment of every measured command, with a home of its own."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text("[user]\n\tname = Bench\n\temail = bench@example.com\n")
    return environment(home)


def main(
    folder: Path, env: dict[str, str], sizes: list[int], runs: int, history: int, crowd: bool
) -> tuple[list[Row], list[str]]:
    """All rows of part 1."""
    rows = reading(folder, env, runs) + clean(folder, env, sizes, runs) + changed(folder, env, runs)
    if history:
        rows += grown(folder, env, runs, history)
    return rows, [writers(folder, env)] if crowd else []
