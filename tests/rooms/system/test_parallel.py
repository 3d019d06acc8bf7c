"""Parallel work: a map is the same as a map, whatever becomes of the copy that does a part of it; and work beside a block."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from gitbaton.base.system.parallel import beside, mapped

TWO = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1
ITEMS = list(range(2000))


def told(number: int) -> tuple[int, bytes]:
    return number, b"x" * number


def begun() -> set[str]:
    """Processes that this one has begun."""
    tasks = [task / "children" for task in Path("/proc/self/task").iterdir()]
    return {pid for task in tasks if task.exists() for pid in task.read_text().split()}


def test_each_is_told_in_its_order() -> None:
    before = begun()
    assert list(mapped(told, ITEMS, 10)) == list(map(told, ITEMS))
    assert begun() == before, "and nothing runs on"


class Gate:
    """Work of which the copy has done something before this process goes on."""

    def __init__(self, folder: Path) -> None:
        self.path, self.mine = folder / "gate", os.getpid()
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDWR)

    def __call__(self, number: int) -> tuple[int, bytes]:
        if os.getpid() == self.mine and number == 0:
            os.read(self.fd, 1)
        elif os.getpid() != self.mine and number < 200:
            self.path.write_bytes(b"x")
        return os.getpid(), b"x" * 2000


@pytest.mark.skipif(not TWO, reason="one processor")
def test_a_copy_does_a_part_of_many_and_nothing_of_few(tmp_path: Path) -> None:
    assert {*mapped(lambda _: os.getpid(), ITEMS[:5], 10)} == {os.getpid()}
    gate = Gate(tmp_path)
    try:
        found = {pid for pid, _ in mapped(gate, ITEMS, 10)}
    finally:
        os.close(gate.fd)
    assert len(found - {os.getpid()}) == 1  # where we were slow, all is its


@pytest.mark.skipif(not TWO, reason="one processor")
def test_a_copy_holds_no_pipe_open_of_which_the_end_is_waited_for(tmp_path: Path) -> None:
    end, held = os.pipe()
    gate = Gate(tmp_path)
    some = mapped(gate, ITEMS, 10)  # more than it may be ahead: until we take that, it stays
    try:
        next(some)
        os.close(held)
        os.set_blocking(end, False)
        assert os.read(end, 1) == b""
    finally:
        some.close()  # type: ignore[attr-defined]
        os.close(end)
        os.close(gate.fd)


@pytest.mark.parametrize("least", [10, 10_000])
def test_what_comes_next_is_said_before_it_is_done(least: int) -> None:
    mine, next_ones, copied = os.getpid(), list[int](), list[int]()

    def before(some: Sequence[int]) -> None:
        next_ones[:] = some

    def work(number: int) -> tuple[bool, bool]:
        return number in next_ones, bool(copied) == (os.getpid() != mine)

    found = list(mapped(work, ITEMS, least, before=before, forked=lambda: copied.append(1)))
    assert found == [(True, True)] * len(ITEMS) and not copied


def test_beside_threads_all_is_done_here() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert {*mapped(lambda _: os.getpid(), ITEMS, 10)} == {os.getpid()}
    finally:
        done.set()
        thread.join()


@pytest.mark.deep
def test_the_smallest_pipes_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = os.pipe

    def small() -> tuple[int, int]:
        ends = pipe()
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)  # as for a user who has many
        return ends

    monkeypatch.setattr(os, "pipe", small)
    assert sum(mapped(lambda number: number, range(300_001), 10)) == 300_000 * 300_001 // 2


def test_what_the_copy_does_not_give_is_done_here() -> None:
    mine = os.getpid()

    def dies(number: int) -> int:
        if os.getpid() != mine and number >= 64:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    def fails(number: int) -> int:
        if os.getpid() != mine:
            raise ValueError("only there")
        return number

    def odd(number: int) -> object:
        return number if os.getpid() == mine else object()

    for work in (dies, fails, odd):
        assert list(mapped(work, ITEMS, 10)) == ITEMS


def test_an_error_is_raised_and_who_stops_early_leaves_nothing() -> None:
    before = begun()

    def wrong(number: int) -> int:
        if number == 999:
            raise ValueError("999")
        return number

    found = mapped(wrong, ITEMS, 10)
    with pytest.raises(ValueError, match="999"):
        assert list(found)
    some = mapped(told, ITEMS, 10)
    assert next(some) == told(0)
    some.close()  # type: ignore[attr-defined]
    assert begun() == before


def test_where_no_process_can_be_made_all_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refused)
    assert list(mapped(told, ITEMS, 10)) == list(map(told, ITEMS))


@pytest.mark.skipif(not TWO, reason="one processor")
def test_work_beside_a_block_is_done_at_its_end_and_stops_with_its_error(tmp_path: Path) -> None:
    before, done, gate = begun(), tmp_path / "done", tmp_path / "gate"
    os.mkfifo(gate)

    def work() -> None:
        gate.read_bytes()
        done.write_text(str(os.getpid()))

    with beside(work):
        assert not done.exists()
        gate.write_bytes(b"x")
    assert int(done.read_text()) != os.getpid()
    done.unlink()
    with pytest.raises(KeyError), beside(work):  # which waits for ever
        raise KeyError
    assert not done.exists() and begun() == before


def test_work_beside_a_block_fails_alone_and_is_left_where_no_process_can_be_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused() -> int:
        raise BlockingIOError

    with beside(lambda: 1 // 0):
        pass
    monkeypatch.setattr(os, "fork", refused)
    with beside((tmp_path / "done").touch):
        pass
    assert not (tmp_path / "done").exists()
