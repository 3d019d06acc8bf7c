"""Work that is cut short at any moment, and readers beside it: nothing is lost, no lock is held afterwards, and no state that
never was is seen."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gitbaton.base.errors import RecordError, UsageError
from gitbaton.langgraph.threads import codec
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox, examples
from tests.kit.moments import at
from tests.kit.threads import QUIET, Model, agree, below, ids, in_log, let_go, log_of, put, row, rows
from tests.kit.tiers import some
from tests.rooms.threads.test_threads_log import other

__all__ = ["other"]
PLACE = ("t", "")

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


# ---- at each step of Python, one after the other


def cut_short(work: Callable[[], object], number: int) -> bool:
    """Do something until Python could raise KeyboardInterrupt for the ``number``-th time, where a function of the store begins
    or one in C returns to it; whether it came so far."""
    left = number

    def profile(frame: FrameType, event: str, arg: object) -> None:
        nonlocal left
        if event in ("call", "c_return") and Path(frame.f_code.co_filename).parent.name == "threads":
            left -= 1
            if not left:
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return left <= 0


def steps() -> Iterator[int]:
    """Each of the first steps, then fewer and fewer of them."""
    number = 1
    while True:
        yield number
        number += 1 + number // 50


@pytest.mark.deep
def test_reading_that_is_cut_short_anywhere_loses_nothing(store: ThreadStore, other: ThreadStore) -> None:
    model = Model()
    for turn, number in enumerate(steps()):
        id = f"{turn:04}"
        model.put(PLACE, id, put(other, "t", id))
        for task in "ab":
            other.put_writes(*PLACE, id, [row(task, 0, b"x")], replace=False)
            model.writes(PLACE, id, [row(task, 0, b"x")], replace=False)
        if turn % 7 == 0:
            other.flush()
        more = cut_short(lambda: store.latest(*PLACE), number)
        if turn % 10 == 0:
            store.flush()
        newest = store.latest(*PLACE)
        assert newest is not None and newest.id == id
        assert rows(store, id) == [b"x", b"x"]
        if turn % 7 and not more:
            break
    agree(other, model)
    agree(store, model)
    assert turn > 30


def test_putting_that_is_cut_short_anywhere_is_done_or_not_for_all(store: ThreadStore, other: ThreadStore) -> None:
    for turn, number in enumerate(steps()):
        id = f"{turn:04}"
        more = cut_short(lambda id=id: put(store, "t", id), number)  # type: ignore[misc]
        newest, there = store.latest(*PLACE), other.latest(*PLACE)
        assert (newest and newest.id) == (there and there.id)
        put(store, "t", id)
        again = cut_short(lambda id=id: store.put_writes(*PLACE, id, [row("a", 0, b"x")], replace=False), number)  # type: ignore[misc]
        assert rows(store, id) == rows(other, id)
        if not more and not again:
            assert rows(store, id) == [b"x"]
            break
    assert turn > 15
    assert ids(store) == [f"{each:04}" for each in range(turn, -1, -1)]


@pytest.mark.deep
def test_a_flush_that_is_cut_short_anywhere_loses_nothing(bare: Sandbox, store: ThreadStore, other: ThreadStore) -> None:
    bare.git("config", "gc.auto", "0")  # `git fsck` stumbles over a repack beside it
    model = Model()
    for turn, number in enumerate(steps()):
        id = f"{turn:04}"
        model.put(PLACE, id, put(store, "t", id))
        other.put_writes(*PLACE, id, [row("a", 0, b"x")], replace=False)
        model.writes(PLACE, id, [row("a", 0, b"x")], replace=False)
        more = cut_short(store.flush, number)
        assert rows(store, id) == rows(other, id) == [b"x"]
        for each in (store, other)[:: 1 - 2 * (turn % 2)]:
            each.flush()
        assert rows(store, id) == rows(other, id) == [b"x"]
        assert in_log(bare.path) == 0
        if not more:
            break
    agree(store, model)
    agree(other, model)
    assert turn > 30
    bare.fsck()


# ---- by a signal handler that raises, or closes


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
def handler() -> Iterator[None]:
    """Alarms raise in what is tested, and not in the tests themselves or what pytest does in between."""

    def handle(_: int, frame: FrameType | None) -> None:
        # A hook of audit events is Python within the system's calls, where there is none without it.
        while frame is not None and not frame.f_globals["__name__"].startswith(("_pytest.", "tests.kit.moments")):
            if frame.f_code.co_name == "work":
                raise Interrupt
            frame = frame.f_back

    before = signal.signal(signal.SIGALRM, handle)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


# CPython: a thread that has begun while Thread.start() is interrupted takes itself off a list from which start() took it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.deep
@some("sync", [False, True], share=0)
def test_what_a_handler_raises_leaves_a_store_usable(bare: Sandbox, other: ThreadStore, handler: None, *, sync: bool) -> None:
    """By this thread, by another one, and by another process."""
    bare.git("config", "gc.auto", "0")  # `git fsck` stumbles over a repack beside it
    number = itertools.count()
    with ThreadStore.open(bare.path, sync=sync, idle=0.05, every=64) as store, ThreadPoolExecutor(1) as pool:

        def work() -> None:
            put(store, "t", f"{next(number):08}")
            if random.random() < 0.02:
                store.flush()

        for _ in range(examples(2000, 80)):
            interrupted(work, 0.0001, 0.004)
            work()
            last = f"{next(number):08}"
            pool.submit(put, store, "t", last).result()
            assert other.entry("t", "", last) is not None
            other.flush()
        store.flush()
        assert ids(store)[0] == last
    bare.fsck()


@pytest.mark.deep
def test_an_opening_or_a_close_that_is_cut_short_locks_nobody_out(bare: Sandbox, handler: None) -> None:
    def work() -> None:
        with ThreadStore.open(bare.path, **QUIET) as store:
            put(store, "t", "cut")

    for number in range(examples(1000, 40)):
        interrupted(work, 0.0001, 0.02)
        with ThreadStore.open(bare.path, **QUIET) as store:
            put(store, "t", f"{number}")
            store.flush()
    with ThreadStore.open(bare.path, **QUIET) as store:
        assert {f"{each}" for each in range(number + 1)} <= set(ids(store))


def test_a_handler_in_the_middle_of_a_call_can_neither_close_nor_put(
    bare: Sandbox, store: ThreadStore, other: ThreadStore
) -> None:
    """The call that it came into goes on, and the store stays open."""
    put(store, "t", "1")
    other.flush()
    put(other, "t", "2")
    met = list[int]()

    def handle(*_: object) -> None:
        met.append(1)
        store.close()
        with pytest.raises(UsageError, match="in use by this very thread"):
            put(store, "t", "3")

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with at("open", below(log_of(bare.path)), lambda _: signal.raise_signal(signal.SIGALRM)):  # it looks at the log, locked
            assert ids(store) == ["2", "1"]
    finally:
        signal.signal(signal.SIGALRM, before)
    put(store, "t", "3")
    store.flush()
    assert met and ids(store) == ids(other) == ["3", "2", "1"]
    other.close()
    store.close()
    assert not log_of(bare.path).exists()


# ---- the thread in the background


def test_a_worker_that_cannot_begin_is_asked_for_again(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with ThreadStore.open(bare.path, sync=False, idle=0.01) as store:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", none)
            put(store, "t", "1")
        with let_go(bare.path) as flushed:
            put(store, "t", "2")
            assert flushed.wait(60)
    assert bare.git("rev-list", "--count", "refs/baton/threads/=t/_") == "2"


def test_what_a_handler_raises_while_the_worker_begins_comes_out_as_it_was(
    bare: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "_start_joinable_thread" if sys.version_info >= (3, 13) else "_start_new_thread"
    begin, held = getattr(threading, name), threading._limbo  # type: ignore[attr-defined]
    before = len(held)  # one whose start was interrupted stays there

    def interrupt(*args: Any, **more: Any) -> None:
        begin(*args, **more)
        while len(held) > before:  # the thread takes itself off the list, and so does start()
            os.sched_yield()
        raise Interrupt

    with ThreadStore.open(bare.path, sync=False, idle=0.01) as store:
        with monkeypatch.context() as patch, pytest.raises(Interrupt):
            patch.setattr(threading, name, interrupt)
            put(store, "t", "1")
        put(store, "t", "2")
    assert bare.git("rev-list", "--count", "refs/baton/threads/=t/_") == "2"


# ---- readers beside others, and deep stacks


def test_who_reads_beside_one_who_reads_the_log_waits_for_it(bare: Sandbox, store: ThreadStore, other: ThreadStore) -> None:
    put(store, "t", "00")
    other.flush()
    for number in range(1, 6):
        put(other, "t", f"{number:02}")
    ours = below(log_of(bare.path))
    inside, go_on, asked, found = threading.Event(), threading.Event(), threading.Semaphore(0), list[str]()

    def look(use: Callable[[], str]) -> None:
        def profile(_: FrameType, event: str, arg: object) -> None:
            if event == "c_call" and getattr(arg, "__name__", "") == "acquire":
                asked.release()

        sys.setprofile(profile)
        found.append(use())
        sys.setprofile(None)
        asked.release()

    def stop(_: object) -> None:
        inside.set()
        assert go_on.wait(60)

    uses: list[Callable[[], str]] = [lambda: ids(store)[0], lambda: store.latest(*PLACE).id]  # type: ignore[union-attr]
    first = threading.Thread(target=lambda: found.append(uses[0]()))
    helpers = [threading.Thread(target=look, args=(use,)) for use in uses]
    with at("open", lambda args: threading.current_thread() is first and ours(args), stop):
        first.start()
        assert inside.wait(60)
        assert store.ready(*PLACE) is None
        for helper in helpers:
            helper.start()
            assert asked.acquire(timeout=60)
        assert not found
        go_on.set()
        for helper in (first, *helpers):
            helper.join()
    assert found == ["05"] * 3


def test_a_stack_that_is_too_deep_is_not_the_logs_fault(store: ThreadStore, other: ThreadStore) -> None:
    for number in range(20):
        put(other, "t", f"{number:02}")
        other.put_writes(*PLACE, f"{number:02}", [row("a", 0, b"x")], replace=False)

    def deep(depth: int) -> object:
        return deep(depth - 1) if depth else store.latest(*PLACE)

    met = 0
    for depth in range(sys.getrecursionlimit(), 0, -1):
        try:
            deep(depth)
            break
        except RecursionError:
            met += 1
    assert met > 10
    assert ids(store) == [f"{number:02}" for number in reversed(range(20))]
    assert rows(store, "03") == [b"x"]
    store.flush()


@some(
    ("use", "good"),
    [
        (codec.loads, b'{"a":"[[[["}'),
        (codec.decode, codec.encode_writes("t", "", "1", [row("a", 0, b"x")], False)),
        (codec.rows_of, codec.rows_blob([row("a", 0, b"x")])),
    ],
)
def test_what_is_nested_too_deep_is_told_from_a_stack_that_is_too_deep(use: Callable[[bytes], object], good: bytes) -> None:
    def deep(depth: int, data: bytes) -> object:
        return deep(depth - 1, data) if depth else use(data)

    met = set()
    for depth in range(sys.getrecursionlimit(), 0, -1):
        try:
            assert deep(depth, good) == use(good) or use is codec.decode
            break
        except RecursionError:
            met.add(depth)
    assert met
    text = b"[" * 100_000
    for data in (text, json.dumps("[{" * 9).encode() + text, b"W" + text + b"\n", text + b"\n"):
        with pytest.raises(RecordError):
            use(data)


@pytest.mark.deep
@pytest.mark.parametrize("flushed", [(), ("put",), ("put", "a"), ("put", "a", "late")])
@pytest.mark.parametrize("how", ["prune", "delete"])
def test_a_walk_beside_a_prune_has_each_checkpoint_with_its_writes(
    store: ThreadStore, other: ThreadStore, flushed: tuple[str, ...], how: str
) -> None:
    for number in range(40):
        put(store, "t", f"{number:02}", f"{number - 1:02}" if number else None)
    if "put" in flushed:
        store.flush()
    for task in "ab":
        for number in range(40):
            store.put_writes(*PLACE, f"{number:02}", [row(task, 0, b"x")], replace=False)
        if ("a" if task == "a" else "late") in flushed:
            store.flush()
    walk, met = store.walk(*PLACE), 1
    assert next(walk).id == "39"
    if how == "prune":
        other.prune(["t"])
    else:
        other.delete("t")
    for entry in walk:
        assert [each[1] for each in store.rows(*PLACE, entry)] == ["a", "b"]
        met += 1
    assert met == 40
    assert len(list(store.walk(*PLACE))) == (how == "prune")


@pytest.mark.parametrize(
    ("said", "file", "folder"), [("group", 0o664, 0o2775), ("0640", 0o640, 0o2750), ("false", 0o644, 0o755)]
)
def test_the_log_has_the_modes_of_a_shared_repository(bare: Sandbox, said: str, file: int, folder: int) -> None:
    bare.git("config", "core.sharedRepository", said)
    umask = os.umask(0o022)
    try:
        with ThreadStore.open(bare.path, **QUIET) as store:
            put(store, "t", "1", channels={"x": ("bytes", b"a" * 200_000)})
            put(store, "t", "2", channels={"x": ("bytes", b"a" * 1000)})
            top = log_of(bare.path)
            modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (top.parent, top, *top.iterdir())}
    finally:
        os.umask(umask)
    assert modes.pop(top.parent) == modes.pop(top) == folder
    assert set(modes.values()) == {file} and modes
