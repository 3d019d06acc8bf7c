"""The hermetic seal: no test sees the developer's HOME, git configuration, GIT_* variables or editor."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox, find_new_git
from tests.kit.places import ROOT
from tests.kit.threads import QUIET
from tests.kit.tiers import FULL

# The same examples each time, but at full size: who changed nothing sees no new failure.
hypothesis.settings.register_profile("gitbaton", derandomize=not FULL)
hypothesis.settings.load_profile("gitbaton")

DEEP = ROOT / "tests" / "deep"
DURATIONS, LONG = ROOT / "tests" / "data" / "durations.txt", 2.0  # seconds
MEMORY, ROOM = "/dev/shm", 8 << 30
CLIENTS = (
    "CLAUDE",
    "CODEX",
    "GEMINI",
    "OPENCODE",
    "COPILOT",
    "CURSOR",
    "QWEN",
    "KILO",
    "FACTORY",
    "DROID",
)  # what a client sets for its hooks
GITCONFIG = """[user]
\tname = A U Thor
\temail = author@example.com
[init]
\tdefaultBranch = main
[advice]
\tdetachedHead = false
[protocol "file"]
\tallow = always
"""


# A machine that keeps Python from writing bytecode would have pytest rewrite each file in every worker, each time.
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clients", action="store_true", help="drive the real clients in tests/clients, too")
    parser.addoption("--record-durations", action="store_true", help=f"write {DURATIONS.name} anew: how long tests take")


def pytest_configure(config: pytest.Config) -> None:
    """What tests write lies in memory where there is room: they need not wait for a disk.

    A shell's background job ignores what a terminal sends, and so would every process that a test starts and interrupts; of
    ``nohup`` only these are to know nothing.
    """
    if FULL and config.option.markexpr == "not deep":
        config.option.markexpr = ""
    if _has_room(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGHUP, lambda *_: None),  # what a process starts has the default then, and it goes on itself
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    if config.option.record_durations and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder())


def _has_room(folder: str) -> bool:
    try:
        rows = dict(row.split(":") for row in Path("/proc/meminfo").read_text().splitlines())
        free = min(int(rows["MemAvailable"].split()[0]) << 10, shutil.disk_usage(folder).free)  # what is cached gives way
    except (OSError, KeyError, ValueError):
        return False
    return free > ROOM and os.access(folder, os.W_OK)


class _Recorder:
    """Notes how long each test takes; at the end what is there of before stays for tests that did not run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        known = {name: seconds for name, seconds in recorded().items() if name not in self.seconds}
        rows = sorted((-seconds, name) for name, seconds in (known | self.seconds).items() if seconds >= LONG)
        DURATIONS.write_text("".join(f"{-seconds:.1f} {name}\n" for seconds, name in rows), "utf-8")


def recorded() -> dict[str, float]:
    """The seconds of the tests that took long when ``--record-durations`` was last given."""
    rows = (row.partition(" ") for row in DURATIONS.read_text("utf-8").splitlines())
    return {name: float(seconds) for seconds, _, name in rows}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of ``tests/deep`` where nothing of it runs or was named: it takes a second in each worker."""
    named = any("deep" in word for word in config.args)
    return True if collection_path == DEEP and config.option.markexpr == "not deep" and not named else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What lies in ``tests/deep`` is deep, and so is what is full; that runs only where it is asked for.

    Each worker of xdist's worksteal begins with one of as many equal parts, and with its share of what takes longest, so that
    none is left alone with it at last.
    """
    full = {item for item in items if item.get_closest_marker("full")}
    for item in items:
        if item in full or DEEP in item.path.parents:
            item.add_marker("deep")
    if not FULL and "full" not in config.option.markexpr:
        config.hook.pytest_deselected(items=[*full])
        items[:] = [item for item in items if item not in full]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers < 2:
        return
    long = recorded()
    first = sorted((item for item in items if item.nodeid in long), key=lambda item: (-long[item.nodeid], item.nodeid))
    rest = [item for item in items if item.nodeid not in long]
    ends = [len(rest) * number // workers for number in range(workers + 1)]
    items[:] = [item for n in range(workers) for item in (*first[n::workers], *rest[ends[n] : ends[n + 1]])]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end: nothing looks for garbage in it, then or in any test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def hermetic_seal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    keep = {k: v for k, v in os.environ.items() if k.startswith("GITBATON_TEST")}
    for name in list(os.environ):
        if (
            name.startswith(("GIT_", "GIT", "BATON", "LESS", "PAGER", "EDITOR", "VISUAL", "XDG_", *CLIENTS))
            and name not in keep
        ):
            monkeypatch.delenv(name)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # else each process compiles the package anew
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(GITCONFIG)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_EDITOR", "false")
    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "0")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "1767225600 +0000")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "1767225600 +0000")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("GIT_PROGRESS_DELAY", "600")  # on a slow machine a quick command would say how far it is
    for name in (
        "COLUMNS",
        "LINES",
        "NO_COLOR",
        "FORCE_COLOR",
        "PY_COLORS",
        "CI",
        "BUILD_NUMBER",
        "PYTEST_ADDOPTS",
    ):  # pytest itself heeds the last three
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    monkeypatch.chdir(tmp_path)
    yield


@pytest.fixture
def repo(tmp_path: Path) -> Sandbox:
    """A repository with one commit that holds ``a.txt``."""
    return Sandbox.begun(tmp_path / "repo")


@pytest.fixture
def bare(tmp_path: Path) -> Sandbox:
    """An empty bare repository."""
    return Sandbox.init(tmp_path / "r.git", "--bare")


@pytest.fixture
def store(bare: Sandbox) -> Iterator[ThreadStore]:
    """The threads of the bare repository; nothing is flushed by itself."""
    with ThreadStore.open(bare.path, **QUIET) as opened:
        yield opened


@pytest.fixture
def new_git() -> str:
    """A git that knows reftable; the test is skipped, and the skip is shown, where there is none."""
    found = find_new_git()
    if found is None:
        pytest.skip("no git of 2.45 or newer: set GITBATON_TEST_GIT")
    return found
