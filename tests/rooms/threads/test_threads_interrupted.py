"""A store of threads whose work is cut short anywhere, and readers beside it: nothing is lost, no state that never was is
seen."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gitbaton.errors import RecordError
from gitbaton.threads import codec
from gitbaton.threads.codec import Row
from gitbaton.threads.core import Core
from gitbaton.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.threads import QUIET, Model, agree, put
from tests.kit.tiers import some

PLACE = ("t", "")
FILES = ("core", "view", "flush", "log", "logfile")


@pytest.fixture
def other(bare: Sandbox) -> Iterator[ThreadStore]:
    """A store that has the log open beside the first, as another process would."""
    with ThreadStore.open(bare.path, **QUIET) as opened:
        yield opened


def row(task: str, data: bytes = b"x") -> Row:
    return ("", task, 0, "c", "bytes", data)


def written(store: ThreadStore, id: str) -> list[bytes]:
    entry = store.entry(*PLACE, id)
    assert entry is not None
    return [each[5] for each in store.rows(*PLACE, entry)]


def cut_short(work: Callable[[], object], number: int) -> bool:
    """Do something until Python could raise KeyboardInterrupt for the ``number``-th time, where a function of the store begins
    or one in C returns to it; whether it came so far."""
    left = number

    def profile(frame: FrameType, event: str, arg: object) -> None:
        nonlocal left
        name, function = Path(frame.f_code.co_filename), frame.f_code.co_name
        ours = name.parent.name == "threads" and name.stem in FILES and function != "locked"  # locks have tests of their own
        if event in ("call", "c_return") and ours:
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


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_reading_that_is_cut_short_anywhere_loses_nothing(store: ThreadStore, other: ThreadStore) -> None:
    model = Model()
    for number in itertools.count(1):
        id = f"{number:04}"
        model.put(PLACE, id, put(other, "t", id))
        for task in "ab":
            other.put_writes(*PLACE, id, [row(task)], replace=False)
            model.writes(PLACE, id, [row(task)], replace=False)
        if number % 7 == 0:
            other.flush()
        more = cut_short(lambda: store.latest(*PLACE), number)
        if number % 10 == 0:
            store.flush()
        newest = store.latest(*PLACE)
        assert newest is not None
        assert newest.id == id
        assert written(store, id) == [b"x", b"x"]
        if number % 7 and not more:
            break
    agree(other, model)
    agree(store, model)
    assert number > 30


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_putting_that_is_cut_short_anywhere_is_done_or_not_for_all(store: ThreadStore, other: ThreadStore) -> None:
    for number in itertools.count(1):
        id = f"{number:04}"
        more = cut_short(lambda id=id: put(store, "t", id), number)  # type: ignore[misc]
        newest, there = store.latest(*PLACE), other.latest(*PLACE)
        assert (newest and newest.id) == (there and there.id)
        put(store, "t", id)
        again = cut_short(lambda id=id: store.put_writes(*PLACE, id, [row("a")], replace=False), number)  # type: ignore[misc]
        assert written(store, id) == written(other, id)
        if not more and not again:
            assert written(store, id) == [b"x"]
            break
    assert number > 15
    assert [entry.id for entry in store.walk(*PLACE)] == [f"{each:04}" for each in range(number, 0, -1)]


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_flush_that_is_cut_short_anywhere_loses_nothing(bare: Sandbox, store: ThreadStore, other: ThreadStore) -> None:
    model, number = Model(), 1
    while True:
        id = f"{number:04}"
        model.put(PLACE, id, put(store, "t", id))
        other.put_writes(*PLACE, id, [row("a")], replace=False)
        model.writes(PLACE, id, [row("a")], replace=False)
        more = cut_short(store.flush, number)
        assert written(store, id) == written(other, id) == [b"x"]
        for each in (store, other)[:: 1 - 2 * (number % 2)]:
            each.flush()
        assert written(store, id) == written(other, id) == [b"x"]
        assert store._core.table.count == other._core.table.count == 0
        if not more:
            break
        number += 1
    agree(store, model)
    agree(other, model)
    assert number > 30
    bare.fsck()


def test_who_reads_beside_one_who_reads_the_log_waits_for_the_table(
    store: ThreadStore, other: ThreadStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "t", "00")
    for number in range(1, 6):
        put(other, "t", f"{number:02}")
    take, inside, go_on = Core._take_in, threading.Event(), threading.Event()

    def slow(self: Core, *args: Any) -> None:
        take(self, *args)
        inside.set()
        assert go_on.wait(5)

    monkeypatch.setattr(Core, "_take_in", slow)
    found: list[str] = []
    uses = [lambda: store.latest(*PLACE).id, lambda: next(iter(store.walk(*PLACE))).id]  # type: ignore[union-attr]
    helpers = [threading.Thread(target=lambda use=use: found.append(use())) for use in (uses[0], *uses)]
    helpers[0].start()
    assert inside.wait(5)
    assert store.ready(*PLACE) is None
    for helper in helpers[1:]:
        helper.start()
    time.sleep(0.02)
    assert not found
    go_on.set()
    for helper in helpers:
        helper.join()
    assert found == ["05"] * 3


def test_a_stack_that_is_too_deep_is_not_the_logs_fault(store: ThreadStore, other: ThreadStore) -> None:
    for number in range(20):
        put(other, "t", f"{number:02}")
        other.put_writes(*PLACE, f"{number:02}", [row("a")], replace=False)

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
    assert [entry.id for entry in store.walk(*PLACE)] == [f"{number:02}" for number in reversed(range(20))]
    assert written(store, "03") == [b"x"]
    store.flush()


@some(
    ("use", "good"),
    [
        (codec.loads, b'{"a":"[[[["}'),
        (codec.decode, codec.encode_writes("t", "", "1", [row("a")], False)),
        (codec.rows_of, codec.rows_blob([row("a")])),
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
    for number in range(40):
        store.put_writes(*PLACE, f"{number:02}", [row("a")], replace=False)
    if "a" in flushed:
        store.flush()
    for number in range(40):
        store.put_writes(*PLACE, f"{number:02}", [row("b")], replace=False)
    if "late" in flushed:
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
    assert not store._core.walks
