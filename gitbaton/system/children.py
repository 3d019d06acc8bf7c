"""User commands: each runs in its own process group; output is passed on and kept, time is limited, signals are relayed."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from gitbaton.system import ptys
from gitbaton.system.groups import Ending, alive, end, tell
from gitbaton.system.ptys import Turn
from gitbaton.system.starting import Begun, Command, Stream, begin
from gitbaton.values import value

__all__ = ["Command", "Ended", "alive", "end", "forward", "run", "signals"]

_TICK = 0.5
_TERMINAL = 0.1  # how often a stopped child and another size of the terminal are looked for
_BLIND = 0.01  # how often the end of a child is looked for where the kernel does not tell
_AFTER = 0.25  # seconds for which output is waited for after the command itself has ended
_STOPS = (signal.SIGTTIN, signal.SIGTTOU)
SAME = 0.25  # git passes a Ctrl-C on to us that we have got from the terminal, too
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@value
class Ended:
    """How a command ended. ``exit`` as a shell gives it: 128 and the signal's number when one ended it, 127 when there is no
    such program, 126 when it cannot be executed. ``signal``: that signal's name. ``timeout``: its time was over.
    ``interrupted``: somebody asked it, or this process, to end. ``out`` and ``err``: the last mebibyte of ``out_bytes`` and
    ``err_bytes``. ``lost``: 1 or 2 for each stream of ours whose reader went away, or was not waited for in the end;
    ``faults``: for people, which could not be written for another reason. ``asked``: the first signal by which it was asked to
    end, 0 for none."""

    exit: int
    signal: str | None
    timeout: bool
    interrupted: bool
    duration_ms: int
    out: bytes
    out_bytes: int
    err: bytes
    err_bytes: int
    lost: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()
    asked: int = 0


def run(
    command: Command,
    *,
    started: Callable[[int, str], None],
    tick: Callable[[float], None] | None = None,
    output: Callable[[int, bytes], None] | None = None,
    locks: Sequence[int] = (),
    begun: Callable[[], None] | None = None,
) -> Ended:
    """Run a command to its end. It waits at a gate until ``started`` (its process group and start mark) has returned, and
    never begins when this process dies, or ``started`` raises, before. ``begun`` is called when it has been let go.

    ``tick`` gets the seconds since the beginning after each half second without output; ``output`` gets the stream (1 or 2)
    and its bytes before they are passed on. The command inherits the descriptors ``locks`` and no other of ours. What it left
    running is ended when it failed, ran out of time or was interrupted, and left alone when it succeeded; whoever raises from
    a callback ends the command, too. Raises GitError when not even a shell can be started.
    """
    with signals():
        turn = Turn()
        child = begin(command, locks, output)
        return _Run(command, child, Group(child.pid, turn), turn, tick).all(started, begun)


class _Run:
    """One command under way."""

    def __init__(self, command: Command, child: Begun, group: Group, turn: Turn, tick: Callable[[float], None] | None) -> None:
        self.command, self.child, self.group, self.turn, self.tick = command, child, group, turn, tick
        self.streams: tuple[Stream, ...] = child.streams
        self.status: int | None = None
        self.timeout = self.foreground = self.wants = False
        self.ending: Ending | None = None
        self.began = self.heard = self.told = time.monotonic()
        self.ended_at, self.heeded = 0.0, 0
        group.ptys = child.ptys
        group.resize()

    def all(self, started: Callable[[int, str], None], begun: Callable[[], None] | None) -> Ended:
        enter(self.group)
        try:
            started(self.child.pid, self.child.mark)
            if self.command.stdin == "inherit":
                self.foreground = self.turn.give(self.child.pid)
            self.began = self.heard = self.told = time.monotonic()
            self.child.go()
            if begun is not None:
                begun()
            while not self._over():
                self._once()
            return self._told()
        finally:
            self._close()

    def _close(self) -> None:
        """Whatever happened: nothing is left half done, and the terminal is ours again."""
        self.child.never()
        if self.status is None:
            end(self.child.pid, self.child.mark, self.command.grace)
        leave(self.group)
        self.turn.take()
        self.child.reap()
        self.child.close()

    def _once(self) -> None:
        """Wait until something happens, and do what is to be done about it."""
        poll = select.poll()
        waited = {}
        for stream in self.streams:
            events = stream.events()
            if events is not None:
                poll.register(*events)
                waited[events[0]] = stream
        if self.child.pidfd is not None and self.status is None:
            poll.register(self.child.pidfd, select.POLLIN)
        ready = poll.poll(self._patience() * 1000)
        now = time.monotonic()
        for fd, _ in ready:
            if fd in waited and waited[fd].move():
                self.heard = self.told = now
        self._look(now)
        self._limits(now)
        if self.tick is not None and now - self.told >= _TICK and self.status is None:
            self.told = now
            self.tick(now - self.began)

    def _patience(self) -> float:
        now, least = time.monotonic(), _TICK
        if self.status is not None:
            return 0.02 if self.ending is not None else max(0.0, min(0.05, self.ended_at + _AFTER - now))
        if self.tick is not None:
            least = min(least, self.told + _TICK - now)
        if self.command.timeout is not None and not self.timeout:
            least = min(least, self._deadline() - now)
        if self.turn.fd is not None:
            least = min(least, _TERMINAL)
        if self.ending is not None:
            least = min(least, 0.02)
        elif self.group.signals:
            least = min(least, 0.05)
        if self.child.pidfd is None:
            least = min(least, _BLIND)
        return max(0.0, least)

    def _deadline(self) -> float:
        return self.began + (self.command.timeout or 0.0) + self.group.paused

    def _look(self, now: float) -> None:
        """Notice that the command has ended or was stopped."""
        if self.status is not None:
            return
        kind, number = self.child.look()
        if kind == "stopped":
            self._stopped(number)
        elif kind == "ended":
            self.status, self.ended_at, self.heeded = number, now, len(self.group.signals)
            for stream in self.streams:
                stream.owe()
            if self._exit() != 0 or self.timeout or self.group.signals:
                self.ending = self.ending or Ending(self.child.pid, self.child.mark, self.command.grace)
        if self.wants and not self.group.held:
            self._ask()
        self.group.resize()

    def _stopped(self, number: int) -> None:
        if self.turn.fd is None or self.group.held:
            return
        if number in _STOPS:
            self.wants = True
        elif number == signal.SIGTSTP:
            self._suspend()

    def _ask(self) -> None:
        """The command was stopped because it uses the terminal out of turn: give it its turn, after others of ours."""
        if self.turn.give(self.child.pid):
            self.foreground, self.wants = True, False
            tell(-self.child.pid, signal.SIGCONT)
        elif not among(self.turn.owner()):
            self.wants = False
            self._suspend()

    def _suspend(self) -> None:
        """The command was stopped at the terminal: stop with all of our own group, so that the shell sees it."""
        given = self.turn.given is not None
        began = time.monotonic()
        if signal.getsignal(signal.SIGTSTP) == signal.SIG_IGN:
            tell(-self.child.pid, signal.SIGCONT)
            return
        if handled():
            self.group.held = True
            os.kill(0, signal.SIGTSTP)  # the main thread does the rest
            return
        self.turn.take()
        os.kill(0, signal.SIGTSTP)
        if given:
            self.turn.give(self.child.pid)
        self.group.paused += time.monotonic() - began
        tell(-self.child.pid, signal.SIGCONT)

    def _limits(self, now: float) -> None:
        """Time that is over, and signals that were passed on and not heeded."""
        if self.status is None and self.ending is None:
            if self.command.timeout is not None and now >= self._deadline():
                self.timeout = True
            told = self.group.signals
            if self.timeout or len(told) > 1 or (told and now >= told[0][1] + self.command.grace):
                self.ending = Ending(self.child.pid, self.child.mark, self.command.grace)

    def _over(self) -> bool:
        ended = self.ending is None or self.ending.done()
        if self.status is None or not ended:
            return False
        if len(self.group.signals) > self.heeded:
            for stream in self.streams:  # somebody does not want to wait for the readers of our output
                stream.give_up()
        if all(not stream.open and not len(stream.pending) for stream in self.streams):
            return True
        return time.monotonic() >= self.ended_at + _AFTER and all(stream.settled() for stream in self.streams)

    def _exit(self) -> int:
        code = os.waitstatus_to_exitcode(self.status or 0)
        return 128 - code if code < 0 else code

    def _told(self) -> Ended:
        out, err = self.streams
        code = os.waitstatus_to_exitcode(self.status or 0)
        by_key = self.foreground and self._exit() in (128 + signal.SIGINT, 128 + signal.SIGQUIT)
        if by_key and not self.group.signals:
            leave(self.group)
            forward(signal.SIGINT)  # the terminal told only the group in its foreground
        return Ended(
            exit=self._exit(),
            signal=_name(-code) if code < 0 else None,
            timeout=self.timeout,
            interrupted=bool(self.group.signals) or by_key,
            asked=self.group.signals[0][0] if self.group.signals else signal.SIGINT if by_key else 0,
            duration_ms=int((self.ended_at - self.began) * 1000),
            out=out.kept,
            out_bytes=out.count,
            err=err.kept,
            err_bytes=err.count,
            lost=tuple(s.number for s in self.streams if s.sink is not None and s.sink.lost),
            faults=tuple(
                f"its {name} could not be written: {stream.sink.fault}"
                for name, stream in zip(("output", "error output"), self.streams, strict=True)
                if stream.sink is not None and stream.sink.fault
            ),
        )


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


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
        if forward(number):
            return
        handler = before[number]
        if callable(handler):
            handler(number, frame)
            return
        ours = signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, ours)

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
