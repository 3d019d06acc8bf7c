"""A signal handler that raises, or closes, at any moment: no lock is held afterwards, neither here nor for other processes."""

from __future__ import annotations

import errno
import os
import random
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from gitbaton.errors import GitError, UsageError
from gitbaton.system.files import sync_paths
from gitbaton.threads import walfile, walopen
from gitbaton.threads.store import _OPEN, ThreadStore
from gitbaton.threads.wal import Wal
from tests.kit import Sandbox, examples
from tests.kit.tiers import some
from tests.rooms.threads.test_threads_wal import append, flush, kill, read

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of __del__


class Interrupt(Exception):
    """What a handler raises."""


def interrupted(work: Callable[[], object], least: float, most: float) -> None:
    """Do something again and again until a handler raises."""
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(least, most), 0.2)  # once more: __del__ swallows it
            while True:
                work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupt:
        pass


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Alarms raise; and nobody waits long for a lock."""

    def handle(*_: object) -> None:
        raise Interrupt

    monkeypatch.setattr(walopen, "LOCK_WAIT", 1.0)
    before = signal.signal(signal.SIGALRM, handle)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def free(wal: Wal) -> bool:
    """Whether no thread of this process has a lock of the log for long, and this one none."""
    for mutex in (wal._appends.mutex, wal._flushes.mutex, wal._tail._guard):
        if mutex._is_owned() or not mutex.acquire(timeout=5):  # type: ignore[attr-defined]
            return False
        mutex.release()
    return True


@pytest.mark.deep
def test_what_a_handler_raises_leaves_no_lock_of_the_log(tmp_path: Path, handler: None) -> None:
    wal, other = Wal(str(tmp_path / "wal"), sync=False), Wal(str(tmp_path / "wal"), sync=False)
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
            wal = Wal(folder, sync=False)
            append(wal, b"a record")
            wal.close(lambda: flush(wal))

        interrupted(work, 0.00001, 0.001)
        wal = Wal(folder, sync=False)
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


def test_what_cannot_be_prepared_fails_no_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wal, refused = Wal(str(tmp_path / "wal")), list[str]()

    def full(folder: str, oldest: int) -> list[tuple[int, str]]:
        refused.append(folder)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    append(wal, b"a")
    monkeypatch.setattr(walfile, "spare", full)
    room = wal._tail.room
    with wal.lock():
        while wal._place[6] < room - 2000:
            wal.append(b"b" * 1000)
        assert refused
        with pytest.raises(GitError, match=r"^the log of threads cannot be written: Too many open files$"):
            wal.append(b"c" * 3000)
    monkeypatch.undo()
    assert len(read(Wal(str(tmp_path / "wal")))) == wal._place[5]
    kill(wal)


def test_segments_that_pile_up_are_dropped_some_at_a_time(tmp_path: Path) -> None:
    wal = Wal(str(tmp_path / "wal"), sync=False)
    for number in range(60):
        append(wal, b"%d" % number)
        with wal.lock():
            sealed = wal.rotate()
    assert sum(path.stat().st_blocks * 512 for path in tmp_path.glob("wal/seg-*")) < 20 * walfile.SMALL
    assert read(Wal(str(tmp_path / "wal"))) == [b"%d" % number for number in range(60)]
    most, real = [0], os.open

    def counted(*args: Any, **more: Any) -> int:
        fd = real(*args, **more)
        most[0] = max(most[0], fd)
        return fd

    before = most[0] = os.dup(0)
    os.close(before)
    with pytest.MonkeyPatch.context() as patch, wal.lock():
        patch.setattr(os, "open", counted)
        wal.drop(sealed)
    assert most[0] < before + 40 and len(list(tmp_path.glob("wal/*"))) < 30
    kill(wal)


def test_a_segment_that_another_named_is_on_disk_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path / "wal")
    wal, synced = Wal(folder), list[str]()
    real = sync_paths

    def noted(folders: Iterable[str]) -> None:
        synced.extend(folders)
        real(folders)

    monkeypatch.setattr(walfile, "sync_paths", noted)
    for name, due in (("seg-00000001", True), ("loose-a", True), ("free-a", False)):
        walfile.make(folder, os.path.join(folder, name), walfile.SMALL, sync=False)
        synced.clear()
        append(wal, b"a")
        assert (folder in synced) is due, name
        flush(wal)
        for path in (*tmp_path.glob("wal/free-*"), *tmp_path.glob("wal/loose-*")):
            path.unlink()
    append(wal, b"b")
    kill(wal)
    (path,) = tmp_path.glob("wal/seg-*")
    path.rename(path.with_name("new-1-abcd"))  # as a power cut may leave it
    wal = Wal(folder)
    assert read(wal) == [b"b"]
    kill(wal)


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
            store._core.wal._tail.rest()
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (wal.parent, wal, *wal.iterdir())}
    finally:
        os.umask(umask)
    assert modes.pop("baton") == modes.pop("wal") == folder
    assert set(modes.values()) == {file} and len(modes) > 5
