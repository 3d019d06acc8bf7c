"""The hermetic seal: no test sees the developer's HOME, git configuration, GIT_* variables or editor."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from gitbaton.threads.store import ThreadStore
from tests.kit import Sandbox, find_new_git
from tests.kit.places import ROOT
from tests.kit.threads import QUIET
from tests.kit.tiers import FULL

# The same examples each time, but at full size: who changed nothing sees no new failure.
hypothesis.settings.register_profile("gitbaton", derandomize=not FULL)
hypothesis.settings.load_profile("gitbaton")

DEEP = ROOT / "tests" / "deep"
MEMORY, ROOM = "/dev/shm", 8 << 30
CLIENTS = ("CLAUDE", "CODEX", "GEMINI", "OPENCODE", "COPILOT", "CURSOR")  # what a client sets for its hooks
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


# What takes longest, the worst first: of several workers each begins with its share, so that none is left alone at last.
LONGEST = (
    "test_nothing_unsaved_is_ever_gone",
    "test_t18_fifty_processes_some_snapshots_each",
    "test_t07_killed_at_each_writing_event",
    "test_t18_killed_at_every_step_of_python",
    "test_t07_the_recovery_is_killed_too",
    "test_t07_the_disk_is_full_at_each_write",
    "test_t07_killed_in_a_linked_work_tree",
    "test_t18_a_fresh_lock_of_the_chain_is_waited_for_and_then_named",
    "test_a_late_process_heeds_that_checkpoints_are_off",
    "test_the_walk_over_everything_agrees",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clients", action="store_true", help="drive the real clients in tests/clients, too")


def pytest_configure() -> None:
    """What tests write lies in memory where there is room: they need not wait for a disk.

    A shell's background job ignores what a terminal sends, and so would every process that a test starts and interrupts.
    """
    if _has_room(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def _has_room(folder: str) -> bool:
    try:
        free = min(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), shutil.disk_usage(folder).free)
    except (OSError, ValueError):
        return False
    return free > ROOM and os.access(folder, os.W_OK)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What lies in ``tests/deep`` is deep; each worker of xdist's worksteal begins with one of as many equal parts."""
    for item in items:
        if DEEP in item.path.parents:
            item.add_marker("deep")
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers < 2:
        return
    names = {name: place for place, name in enumerate(LONGEST)}
    first = [item for item in items if getattr(item, "originalname", "") in names]
    first.sort(key=lambda item: names[item.originalname])  # type: ignore[attr-defined]
    rest = [item for item in items if getattr(item, "originalname", "") not in names]
    ends = [len(rest) * number // workers for number in range(workers + 1)]
    items[:] = [item for n in range(workers) for item in (*first[n::workers], *rest[ends[n] : ends[n + 1]])]


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
