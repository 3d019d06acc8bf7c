"""Nothing here runs a client unless ``--clients`` is given; then the time that our hooks took is shown at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.clients.client_claude import Claude
from tests.clients.client_codex import Codex
from tests.clients.client_copilot import Copilot
from tests.clients.client_droid import Droid
from tests.clients.client_gemini import Gemini
from tests.clients.client_kilo import Kilo
from tests.clients.client_opencode import OpenCode
from tests.clients.client_qwen import Qwen, Summing
from tests.clients.model import serving
from tests.clients.speech_anthropic import Messages
from tests.clients.speech_chat import Chat
from tests.clients.speech_gemini import Generate
from tests.clients.speech_responses import Responses
from tests.clients.workshop import Workshop, client

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


@pytest.fixture
def claude(workshop: Workshop, tmp_path: Path) -> Iterator[Claude]:
    """Claude Code, not yet started."""
    with serving(Messages(), tmp_path / "requests-claude") as model:
        yield Claude(client("claude"), workshop, model)


@pytest.fixture
def codex(workshop: Workshop, tmp_path: Path) -> Iterator[Codex]:
    """Codex, not yet started."""
    with serving(Responses(), tmp_path / "requests-codex") as model:
        yield Codex(client("codex"), workshop, model)


@pytest.fixture
def gemini(workshop: Workshop, tmp_path: Path) -> Iterator[Gemini]:
    """Gemini CLI, not yet started."""
    with serving(Generate(), tmp_path / "requests-gemini") as model:
        yield Gemini(client("gemini"), workshop, model)


@pytest.fixture
def opencode(workshop: Workshop, tmp_path: Path) -> Iterator[OpenCode]:
    """OpenCode, not yet started."""
    with serving(Chat("anchored summary"), tmp_path / "requests-opencode") as model:
        yield OpenCode(client("opencode"), workshop, model)


@pytest.fixture
def kilo(workshop: Workshop, tmp_path: Path) -> Iterator[Kilo]:
    """Kilo Code, not yet started."""
    with serving(Chat("anchored summary"), tmp_path / "requests-kilo") as model:
        yield Kilo(client("kilo"), workshop, model)


@pytest.fixture
def copilot(workshop: Workshop, tmp_path: Path) -> Iterator[Copilot]:
    """Copilot CLI, not yet started."""
    with serving(Chat("detailed summary"), tmp_path / "requests-copilot") as model:
        yield Copilot(client("copilot"), workshop, model)


@pytest.fixture
def qwen(workshop: Workshop, tmp_path: Path) -> Iterator[Qwen]:
    """Qwen Code, not yet started."""
    with serving(Summing(), tmp_path / "requests-qwen") as model:
        yield Qwen(client("qwen"), workshop, model)


@pytest.fixture
def droid(workshop: Workshop, tmp_path: Path) -> Iterator[Droid]:
    """Factory's droid, not yet started."""
    with serving(Messages(), tmp_path / "requests-droid") as model:
        yield Droid(client("droid"), workshop, model)
