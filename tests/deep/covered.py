"""Which test covers which line, in every process that a test starts: ``python -m tests.deep.covered [PYTEST OPTIONS]``.

Runs pytest under coverage and writes what each test reached into one file, ``.coverage`` of this directory or what
COVERAGE_FILE names. ``python -m tests.deep.covered --show FILE [OTHER]`` says how many lines of the package that is, and which
lines of the first file the second one lacks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import coverage
import coverage.exceptions
import pytest

from tests.kit.places import PACKAGE, ROOT

CONFIG = """[run]
include = {package}/*
parallel = true
data_file = {data}
context = ${{PYTEST_CURRENT_TEST-none}}
patch =
    _exit
    fork
disable_warnings = no-data-collected, module-not-imported, module-not-measured, couldnt-parse, already-imported
"""

# A signal handler that raises while coverage holds its own lock never lets it go.
UNMEASURED = ("tests/rooms/threads/test_threads_interrupt.py", "tests/rooms/system/test_children.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What a worker itself does for a test is that test's, too."""
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        if measured is not None:
            measured.switch_context("")


def run(options: list[str], target: Path) -> int:
    """Run pytest with these options; the lines that each test reached go to ``target``. Pytest's exit status."""
    with tempfile.TemporaryDirectory() as folder:
        config, parts = Path(folder, "coverage.ini"), Path(folder, "data")
        parts.mkdir()
        config.write_text(CONFIG.format(package=PACKAGE, data=parts / "part"))
        env = {**os.environ, "COVERAGE_PROCESS_START": str(config)}
        env.pop("COVERAGE_FILE", None)  # it would be every process's
        left_out = [f"--deselect={name}" for name in UNMEASURED]
        words = [sys.executable, "-m", "pytest", "-p", "tests.deep.covered", *left_out, *options]
        done = subprocess.run(words, cwd=ROOT, env=env)
        found = coverage.CoverageData(str(target))
        found.erase()
        torn = 0
        for part in sorted(parts.iterdir()):
            data = coverage.CoverageData(str(part))
            try:
                data.read()
                found.update(data)
            except coverage.exceptions.CoverageException:  # of a process that was killed while it wrote it
                torn += 1
        print(f"{torn} processes left torn data", file=sys.stderr)
        found.write()
    return done.returncode


def lines(path: Path) -> dict[str, set[int]]:
    """The lines of each module of the package that were reached, by its path in the package."""
    data = coverage.CoverageData(str(path))
    data.read()
    return {_name(file): set(data.lines(file) or ()) for file in data.measured_files()}


def reached_by(path: Path, file: str, line: int) -> set[str]:
    """The tests that reached a line."""
    data = coverage.CoverageData(str(path))
    data.read()
    full = next(f for f in data.measured_files() if _name(f) == file)
    found = {part for context in data.contexts_by_lineno(full).get(line, []) for part in context.split("|")}
    return {name.rsplit(" (", 1)[0] if name.endswith(")") else name for name in found if "::" in name}


def statements() -> dict[str, set[int]]:
    """The lines of the package that could be reached."""
    reader = coverage.Coverage(data_file=None)
    return {str(p.relative_to(PACKAGE)): set(reader.analysis2(str(p))[1]) for p in sorted(PACKAGE.rglob("*.py"))}


def show(reached: Mapping[str, set[int]], other: Mapping[str, set[int]] | None) -> Iterator[str]:
    """Lines for a person."""
    able = statements()
    total = sum(map(len, able.values()))
    count = sum(len(able[name] & reached.get(name, set())) for name in able)
    yield f"{count} of {total} lines, {100 * count / total:.1f} %"
    if other is None:
        return
    lacks = {name: sorted(able[name] & reached.get(name, set()) - other.get(name, set())) for name in able}
    missing = sum(map(len, lacks.values()))
    yield f"{missing} of them the other does not reach: it has {100 * (count - missing) / count:.1f} % of these"
    yield from (f"{name}: {' '.join(map(str, found))}" for name, found in lacks.items() if found)


def _name(file: str) -> str:
    return file.rpartition("/gitbaton/")[2]


def main(words: list[str]) -> Any:
    """The command line."""
    if words[:1] == ["--show"]:
        files = [lines(Path(word)) for word in words[1:]]
        print("\n".join(show(files[0], files[1] if len(files) > 1 else None)))
        return 0
    return run(words, Path(os.environ.get("COVERAGE_FILE", ".coverage")).absolute())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
