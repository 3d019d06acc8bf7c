"""What many files cost beside git's own look at them: ``git status`` of the same work tree, with and without git's daemon."""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from tests.bench.baton import SNAPSHOT, STATUS
from tests.bench.harness import Command, once

SIZES = [10_000, 60_000, 200_000]
_WATCH = ("core.fsmonitor", "core.untrackedCache")
_LOOK = ("git", "status")
_BUDGET = 1.5  # of what the smallest size costs beyond git's own look


def planted(path: Path, files: int, env: dict[str, str]) -> Path:
    """A repository with so many small files, a hundred a directory, committed."""
    if not path.exists():
        path.mkdir(parents=True)
        rows = [b"commit refs/heads/main\ncommitter Bench <bench@example.com> 1767225600 +0000\ndata 5\nbench\n"]
        for i in range(files):
            data = f"file {i}\n".encode() * 20
            rows.append(b"M 100644 inline d%d/f%d.txt\ndata %d\n%s\n" % (i // 100, i, len(data), data))
        _git(path, env, "init", "-q", "-b", "main")
        subprocess.run(["git", "fast-import", "--quiet"], cwd=path, env=env, check=True, input=b"".join(rows))
        for words in (("reset", "-q", "--hard"), ("status",)):
            _git(path, env, *words)
    return path


def _git(path: Path, env: dict[str, str], *words: str) -> None:
    subprocess.run(["git", *words], cwd=path, env=env, check=True, stdout=subprocess.DEVNULL)


def spent(command: Command, path: Path, env: dict[str, str], stdin: Path) -> tuple[float, float]:
    """Milliseconds of one run: by the clock, and of the processor with all children."""
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = once(command, path, env, stdin)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, 1000 * (ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime)


def main(folder: Path, env: dict[str, str], runs: int, sizes: Sequence[int]) -> Iterator[str]:
    """The lines of a table: medians of each work, what of it is beyond ``git status``, and that beside the first size."""
    build = subprocess.run(["git", "version", "--build-options"], capture_output=True, text=True).stdout
    yield "| files | git's daemon | work | wall ms | processor ms | beyond `git status` | to the first size |"
    yield "|---:|---|---|---:|---:|---:|---|"
    first = dict[tuple[bool, str], float]()
    for size in sizes:
        path, stdin = planted(folder / f"files{size}", size, env), folder / "files.json"
        stdin.write_text(json.dumps({"session_id": "bench", "cwd": str(path), "prompt": "Go on", "source": "startup"}))
        subprocess.run(SNAPSHOT, cwd=path, env=env, check=True, stdout=subprocess.DEVNULL)
        for watched in (False, True) if "feature: fsmonitor--daemon" in build else (False,):
            for key in _WATCH if watched else ():
                _git(path, env, "config", key, "true")
            try:
                yield from _rows(path, env, runs, stdin, size, watched, first)
            finally:
                if watched:
                    _git(path, env, "fsmonitor--daemon", "stop")
                for key in _WATCH if watched else ():
                    _git(path, env, "config", "--unset", key)


def _rows(
    path: Path, env: dict[str, str], runs: int, stdin: Path, size: int, watched: bool, first: dict[tuple[bool, str], float]
) -> Iterator[str]:
    hook = ("git-baton", "hook", "claude")
    works: dict[str, Command] = {
        "snapshot": SNAPSHOT,
        "status": ("git-baton", "status"),
        "resume": ("git-baton", "resume", "--live"),
    }
    works |= {"UserPromptSubmit": (*hook, "UserPromptSubmit"), "Stop": (*hook, "Stop")}
    times = dict[str, list[tuple[float, float]]]()
    for count in range(runs + 1):
        for name, words in {"git status": _LOOK, "git status -uall": STATUS, **works}.items():
            if name in works:
                once(_LOOK, path, env)  # the user's own, after which nothing is new to git
            found = spent(words, path, env, stdin)
            times.setdefault(name, []).extend([found] if count else [])  # the first one warms up
    look = median(cpu for _, cpu in times["git status"])
    for name, taken in times.items():
        wall, cpu = median(one for one, _ in taken), median(one for _, one in taken)
        beyond = cpu - look
        ratio = beyond / first.setdefault((watched, name), beyond) if name in works else 0
        verdict = f"{ratio:.2f} {'ok' if ratio <= _BUDGET else 'MISSED'}" if ratio else ""
        yield f"| {size:,} | {'yes' if watched else 'no'} | {name} | {wall:.1f} | {cpu:.1f} | {beyond:.1f} | {verdict} |"
