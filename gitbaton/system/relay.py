"""Signal relay: signals to this process are passed on to the process groups of its children."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from gitbaton.system import ptys
from gitbaton.system.groups import tell

SAME = 0.25  # git passes a Ctrl-C on to us that we have got from the terminal, too
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Group:
    """A process group under way. ``signals``: what was passed on to it and when; ``paused``: seconds for which all was stopped;
    ``held``: it was stopped by us and goes on with us; ``ptys``: our ends of its pseudo-terminals and whose size each has."""

    def __init__(self, pgid: int, turn: ptys.Turn) -> None:
        self.pgid, self.turn = pgid, turn
        self.signals: list[tuple[int, float]] = []
        self.paused, self.held = 0.0, False
        self.ptys: list[tuple[int, int]] = []
        self._size = b""

    def resize(self) -> None:
        """Give its pseudo-terminals the size that our terminal has now, and say so when it is another one."""
        if not self.ptys:
            return
        now = ptys.size(self.ptys[0][1])
        if now == self._size:
            return
        told, self._size = self._size, now
        for ours, real in self.ptys:
            ptys.resize(ours, ptys.size(real))
        if told:
            tell(-self.pgid, signal.SIGWINCH)


_groups: dict[int, Group] = {}
_handling: list[Signals] = []


class Signals:
    """What arrived while signals were passed on: ``received``, the numbers in order."""

    def __init__(self) -> None:
        self.received: list[int] = []


def enter(group: Group) -> None:
    """From now on a group is told of signals."""
    _groups[group.pgid] = group


def leave(group: Group) -> None:
    """A group is told no more; to be called while its head has not been waited for, so that its number is still its own."""
    _groups.pop(group.pgid, None)


def among(pgid: int | None) -> bool:
    """Whether a process group is one of those that run."""
    return pgid in _groups


def forward(signum: int) -> int:
    """Pass a signal on to every group that ``run`` has under way in this process; how many there were."""
    groups = list(_groups.values())
    for group in groups:
        if signum in ENDING:
            group.signals.append((signum, time.monotonic()))
        tell(-group.pgid, signum)
    return len(groups)


@contextmanager
def signals() -> Iterator[Signals]:
    """For the main thread: while the block runs, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP and SIGWINCH are passed on to the
    groups that run, and SIGPIPE and SIGTTOU do nothing. A signal that finds no group does what it would have done without
    us. In another thread, or inside such a block, nothing is changed. Gives the Signals."""
    if _handling:
        yield _handling[0]
        return
    said = Signals()
    before = _install(said)
    if before:
        _handling.append(said)
    try:
        yield said
    finally:
        if before:
            _handling.clear()
            for number, handler in before.items():
                signal.signal(number, handler)


def handled() -> bool:
    """Whether the main thread is inside a ``signals`` block."""
    return bool(_handling)


def _install(said: Signals) -> dict[int, Callable[[int, FrameType | None], object] | int]:
    """Our handlers in place of those there, which are returned; none in another thread than the main one."""
    before: dict[int, Callable[[int, FrameType | None], object] | int] = {}
    last: dict[int, float] = {}

    def ending(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        twice, last[number] = now - last.get(number, 0.0) < SAME and number in said.received, now
        if twice:
            return
        said.received.append(number)
        if not forward(number):
            _as_before(number, before[number], frame)

    def stopping(_number: int, _frame: FrameType | None) -> None:
        suspend()

    def resizing(_number: int, _frame: FrameType | None) -> None:
        for group in list(_groups.values()):
            group.resize()

    wanted: dict[int, Callable[[int, FrameType | None], object] | int] = dict.fromkeys(ENDING, ending)
    wanted |= {signal.SIGTSTP: stopping, signal.SIGWINCH: resizing, signal.SIGPIPE: signal.SIG_IGN}
    wanted[signal.SIGTTOU] = signal.SIG_IGN  # a terminal may stop who writes to it while another group has its turn
    for number, handler in wanted.items():
        there = signal.getsignal(number)
        # What whoever started us has switched off stays off: nohup, or a shell's background job.
        if there is None or (there == signal.SIG_IGN and number != signal.SIGPIPE):
            continue
        try:
            signal.signal(number, handler)
        except ValueError:  # not the main thread
            return {}
        before[number] = there
    return before


def _as_before(number: int, handler: Callable[[int, FrameType | None], object] | int, frame: FrameType | None) -> None:
    if callable(handler):
        handler(number, frame)
        return
    ours = signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.signal(number, ours)


def suspend() -> None:
    """Stop the groups and then this process, as Ctrl-Z does; when it goes on they go on, too. Of the main thread only."""
    groups = list(_groups.values())
    for group in groups:
        group.held = True
        tell(-group.pgid, signal.SIGTSTP)
    began = time.monotonic()
    had = [group for group in groups if group.turn.given is not None]
    for group in had:
        group.turn.take()
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, handler)
    for group in had:
        group.turn.give(group.pgid)
    for group in groups:
        group.paused += time.monotonic() - began
        tell(-group.pgid, signal.SIGCONT)
        group.held = False
