"""Nothing here runs a client unless ``--clients`` is given; then the time that our hooks took is shown at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.clients.workshop import Workshop

TIMES: dict[tuple[str, str], list[float]] = defaultdict(list)


@pytest.fixture
def workshop(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Workshop]:
    """A place for a client to work in; the test is skipped, and the skip is shown, without ``--clients``."""
    if not pytestconfig.getoption("--clients"):
        pytest.skip("drives a real client: give --clients")
    shop = Workshop(tmp_path / "w")
    yield shop
    for run in shop.hooks():
        TIMES[run.agent, run.event].append(run.seconds)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A table: nothing is judged by it."""
    if not TIMES:
        return
    terminalreporter.section("our hooks in the real clients, in ms")
    for (agent, event), times in sorted(TIMES.items()):
        row = f"{agent:9} {event:20} n {len(times):3}   median {median(times) * 1000:4.0f}   most {max(times) * 1000:4.0f}"
        terminalreporter.write_line(row)
