"""A signal handler that raises, or closes, at any moment: no lock is held afterwards, neither here nor for other processes."""

from __future__ import annotations

import os
import random
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gitbaton.errors import UsageError
from gitbaton.threads import log as module
from gitbaton.threads.log import Log
from gitbaton.threads.store import _OPEN, ThreadStore
from tests.kit import Sandbox, examples
from tests.kit.tiers import some
from tests.rooms.threads.test_threads_log import append, flush, kill

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of __del__


class Interrupt(Exception):
    """What a handler raises."""


def interrupted(work: Callable[[], object], least: float, most: float) -> None:
    """Do something again and again until a handler raises."""
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(least, most), 0.05)  # once more: __del__ swallows it
            while True:
                work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupt:
        pass


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Alarms raise in what is tested, and not in the tests themselves or what pytest does in between; nobody waits long for a
    lock."""

    def handle(_: int, frame: FrameType | None) -> None:
        while frame is not None and not frame.f_globals["__name__"].startswith("_pytest."):
            if frame.f_code.co_name == "work":
                raise Interrupt
            frame = frame.f_back

    monkeypatch.setattr(module, "LOCK_WAIT", 1.0)
    before = signal.signal(signal.SIGALRM, handle)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def free(wal: Log) -> bool:
    """Whether no thread of this process has a lock of the log for long, and this one none."""
    for mutex in (wal._appends.mutex, wal._flushes.mutex, wal._guard):
        if mutex._is_owned() or not mutex.acquire(timeout=5):  # type: ignore[attr-defined]
            return False
        mutex.release()
    return True


@pytest.mark.deep
def test_what_a_handler_raises_leaves_no_lock_of_the_log(tmp_path: Path, handler: None) -> None:
    wal, other = Log(str(tmp_path / "wal"), sync=False), Log(str(tmp_path / "wal"), sync=False)
    end = time.monotonic() + examples(20, 1)

    def work() -> None:
        with wal.flushing(1), wal.lock():
            wal.read()
            wal.append(b"a record")
        wal.sync(1)

    turns = 0
    while time.monotonic() < end:
        interrupted(work, 0.00001, 0.0005)
        turns += 1
        assert free(wal)
        with other.lock(), other.flushing(0):
            other.read()
    assert turns > 100
    flush(other)
    kill(wal, other)


# CPython: a thread that has begun while Thread.start() is interrupted takes itself off a list from which start() took it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.deep
@some("sync", [False, True])
def test_what_a_handler_raises_leaves_a_store_usable(bare: Sandbox, handler: None, *, sync: bool) -> None:
    end, number = time.monotonic() + examples(20, 1), 0
    with ThreadStore.open(bare.path, sync=sync, idle=0.05, every=64) as store:

        def work() -> None:
            nonlocal number
            number += 1
            store.put("t", "", f"{number:08}", None, b"{}", b"{}", {})

        while time.monotonic() < end:
            interrupted(work, 0.0001, 0.003)
            work()
            assert free(store._core.wal)
        store.flush()
        found = {entry.id for entry in store.walk("t", "")}
    assert f"{number:08}" in found


@pytest.mark.deep
def test_a_close_that_is_cut_short_locks_nobody_out(tmp_path: Path, handler: None) -> None:
    folder, end = str(tmp_path / "wal"), time.monotonic() + examples(50, 2) / 4
    while time.monotonic() < end:

        def work() -> None:
            wal = Log(folder, sync=False)
            append(wal, b"a record")
            wal.close(lambda: flush(wal))

        interrupted(work, 0.00001, 0.001)
        wal = Log(folder, sync=False)
        with wal.lock(), wal.flushing(0):
            assert os.path.exists(folder)
        kill(wal)


def test_a_close_in_a_handler_leaves_it_to_the_exit(bare: Sandbox) -> None:
    store = ThreadStore.open(bare.path, sync=True, idle=60)
    closed = list[bool]()

    def handle(*_: object) -> None:
        store.close()
        closed.append(store._core not in _OPEN)
        with store._core.wal.lock():
            pass

    before = signal.signal(signal.SIGALRM, handle)
    try:
        real, store._core.catch_up = store._core.catch_up, lambda: signal.raise_signal(signal.SIGALRM)  # type: ignore[method-assign]
        store._core.unsure = True
        with pytest.raises(UsageError, match="in use by this very thread"):
            store.latest("t", "")
        store._core.catch_up = real  # type: ignore[method-assign]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert closed == [False]
    store.close()
    assert store._core not in _OPEN


def test_a_worker_that_cannot_begin_is_asked_for_again(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with ThreadStore.open(bare.path, sync=False, idle=0.01) as store:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", none)
            store.put("t", "", "1", None, b"{}", b"{}", {})
        store.put("t", "", "2", None, b"{}", b"{}", {})
        end = time.monotonic() + 5
        while store._core.table.count and time.monotonic() < end:
            time.sleep(0.005)
        assert not store._core.table.count


def test_what_a_handler_raises_while_the_worker_begins_comes_out_as_it_was(
    bare: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "_start_joinable_thread" if sys.version_info >= (3, 13) else "_start_new_thread"
    begin, held = getattr(threading, name), threading._limbo  # type: ignore[attr-defined]

    def interrupt(*args: Any, **more: Any) -> None:
        begin(*args, **more)
        while held:  # the thread takes itself off the list, and so does start()
            time.sleep(0.001)
        raise Interrupt

    with ThreadStore.open(bare.path, sync=False, idle=0.01) as store:
        with monkeypatch.context() as patch, pytest.raises(Interrupt):
            patch.setattr(threading, name, interrupt)
            store.put("t", "", "1", None, b"{}", b"{}", {})
        store.put("t", "", "2", None, b"{}", b"{}", {})
    assert bare.git("rev-list", "--count", "refs/baton/threads/=t/_") == "2"


@pytest.mark.parametrize(
    ("said", "file", "folder"), [("group", 0o664, 0o2775), ("0640", 0o640, 0o2750), ("false", 0o644, 0o755)]
)
def test_the_log_has_the_modes_of_a_shared_repository(bare: Sandbox, said: str, file: int, folder: int) -> None:
    bare.git("config", "core.sharedRepository", said)
    umask = os.umask(0o022)
    try:
        with ThreadStore.open(bare.path, sync=False, idle=60) as store:
            store.put("t", "", "1", None, b"{}", b"{}", {"x": ("bytes", b"a" * 200_000)})
            store.put("t", "", "2", None, b"{}", b"{}", {"x": ("bytes", b"a" * 1000)})
            wal = Path(store._core.folder)
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (wal.parent, wal, *wal.iterdir())}
    finally:
        os.umask(umask)
    assert modes.pop("baton") == modes.pop("wal") == folder
    assert set(modes.values()) == {file} and len(modes) == 4
