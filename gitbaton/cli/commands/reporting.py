"""Progress of a run: events as lines on standard error, a status line on a terminal, or JSON lines."""

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, plain
from gitbaton.base.system.files import write_all
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import path_in_quotes
from gitbaton.cli.columns import cut, screen, width
from gitbaton.cli.common import picked
from gitbaton.cli.waiting import ERASE, spent
from gitbaton.runs.context import Event
from gitbaton.runs.journal.values import Cause
from gitbaton.runs.plans import output

LEAST = 12  # columns below which a status line says nothing useful
KEY = 7  # digits of a step's key in a line
CAUSE = ("kind", "path", "old", "new")  # what JSON has of why a step is run

CAUSES = {
    "input": "its inputs changed",
    "dep": "what it needs changed",
    "env": "a variable changed",
    "path": "it reads what is named",
    "since": "its inputs changed since",
    "argv": "its command is another",
    "cwd": "it runs in another directory",
    "key": "its --key is another",
    "writes": "it declares other outputs",
    "verify": "its check is another",
    "output": "its outputs are not here as they were recorded",
    "unstable": "its inputs changed while it ran",
    "failed": "it failed",
    "named": "it is named",
    "never-run": "it has no result",
    "not-cacheable": "nothing says what its result depends on",
    "compensated": "its effect was undone",
    "crashed": "it was interrupted",
    "lost": "records of its run may be lost",
    "widened": "the repair was widened",
}


def because(cause: Cause) -> str:
    """Return why a step is run, as half a sentence."""
    name = path_in_quotes(cause.path) if cause.path else ""
    if cause.kind in ("input", "env") and name:
        word = "is new" if cause.old is None else "is gone" if cause.new is None else "changed"
        return f"{name} {word}"
    named = {"dep": "the outputs of {} changed", "path": "it reads {}", "since": "{} changed since"}
    if cause.kind in named and name:
        return named[cause.kind].format(name)
    return CAUSES.get(cause.kind, plain(cause.kind)) + (f": {name}" if name and cause.kind in ("output", "widened") else "")


SILENT = ("attempt", "progress", "plan", "finished")
WORDS = {
    "gate": "waits at the gate",
    "unknown": "outcome unknown",
    "not-brought-back": "changed in its copy and not brought back",
    "compensate": "undoes its effect",
    "compensation-failed": "compensation failed",
}


def sentence(event: Event) -> str:
    """Return an event in words, without the name of its step; empty for an event without words."""
    text = plain(" ".join(event.text.split("\n")))
    if event.kind == "start":
        return "runs" if event.cause is None or event.cause.kind == "never-run" else f"runs: {because(event.cause)}"
    if event.kind == "cached":
        return f"cached {event.key[:KEY]}" if event.key else "cached"
    if event.kind == "failed":
        said = f"failed with {event.code}" if event.code is not None else "failed"
        said += f" ({text})" if text and text != f"exit {event.code}" else ""
        more = event.number is not None and event.total and event.total > 1
        return said + (f", attempt {event.number} of {event.total}" if more else "")
    if event.kind == "retry":
        return f"again in {pause(event.seconds or 0)}"
    if event.kind == "plan" and event.total:
        return f"{event.total} step{'' if event.total == 1 else 's'}"
    if event.kind == "isolation":
        return f"runs in a copy of the work tree ({text})" if text != "none" else ""
    if event.kind in SILENT:
        return ""
    told = event.kind in ("settled", "wait", "warning", "conflict", "recovered", "orphan") and text
    if told or (event.kind == "gate" and event.code == 1):
        return text
    start = WORDS.get(event.kind, event.kind)
    if event.kind in ("ok", "compensated") and event.seconds is not None:
        start += f" in {spent(event.seconds)}"
    return f"{start}: {text}" if text else start


def pause(seconds: float) -> str:
    """Return a pause of so many seconds: ``2 s``, ``0.25 s``, ``2 min 5 s``."""
    return f"{max(seconds, 0):.3g} s" if seconds < 60 else spent(seconds)


def ticking(seconds: float) -> str:
    """Return a duration so far, of so many seconds: ``0:12``, ``1:02:03``."""
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """Progress of a run: ``total`` steps, those that are done, those of them that were served, those at work."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.cached = 0
        self._done: set[str] = set()
        self._since: dict[str, float] = {}

    @property
    def done(self) -> int:
        """Number of the steps that have ended."""
        return len(self._done)

    def begin(self, step: str, now: float) -> None:
        """A step is at work from ``now`` on, in seconds of any clock; a further attempt goes on with the same one."""
        self._done.discard(step)  # a step of the region is done again
        self._since.setdefault(step, now)

    def end(self, step: str, *, cached: bool = False) -> None:
        """A step has ended; ``cached``: its recorded result was served."""
        self.leave(step)
        if step not in self._done:
            self._done.add(step)
            self.cached += cached

    def leave(self, step: str) -> None:
        """A step is not at work any more, and has no result."""
        self._since.pop(step, None)

    def line(self, now: float, columns: int) -> str:
        """``[3/12] build 0:12, 2 cached`` in less than so many columns, the names cut first; empty where nothing is at work
        or there is no room."""
        if not self._since or columns < LEAST:
            return ""
        room = columns - 1  # a full last column makes some terminals begin another line
        total = max(self.total, self.done + len(self._since))
        head = f"[{self.done + len(self._since)}/{total}] " if total > 1 else ""
        tail = f", {self.cached} cached" if self.cached else ""
        works = [(plain(step), " " + ticking(now - since)) for step, since in self._since.items()]
        for end in (tail, ""):
            shown = _fitted(works, room - width(head) - width(end))
            if shown:
                return head + shown + end
        return cut(head.rstrip(), room)


def _fitted(works: list[tuple[str, str]], room: int) -> str:
    """The steps at work in so many columns: all of them, the first ones and how many more, or one with its name cut."""
    for count in range(len(works), 0, -1):
        more = len(works) - count
        text = ", ".join(name + time for name, time in works[:count]) + (f" and {more} more" if more else "")
        if width(text) <= room:
            return text
    name, time = works[0]
    time += f" and {len(works) - 1} more" if len(works) > 1 else ""
    left = room - width(time)
    return cut(name, left) + time if left >= 4 else ""


class EventLines:
    """Events as lines on standard error. ``live``: standard error is a terminal that can erase a line; then what is under way
    is said, too, while it is silent. Safe to use from several threads."""

    def __init__(self, baton: Baton, run: str, *, live: bool, colors: Mapping[str, str]) -> None:
        self.baton, self.run, self.live, self.colors = baton, run, live, colors
        self.progress = Progress(1)
        self._lock = threading.RLock()
        self._shown = ""
        self._held: dict[str, Event] = {}  # failures of which the pause until the next attempt is not known yet
        self._tried: dict[str, Event] = {}  # the newest failure after which another attempt followed
        self._apart: set[str] = set()  # the steps of which it was said that they run in a copy
        self._open = False  # what a command wrote last on the terminal has no end of line yet
        self._terminals = {fd for fd in (1, 2) if live and os.isatty(fd)}

    def __call__(self, event: Event) -> None:
        """Show an event."""
        with self._lock:
            if event.kind == "progress":
                self._flush()
                self._status()
                return
            self._follow(event)
            faults = self._replay(event) if event.kind == "cached" else []
            if event.kind == "failed":
                self._held[event.step] = event
                return
            said = sentence(event)
            failure = self._held.pop(event.step, None) if event.kind == "retry" else None
            if failure is not None:
                failure = replace(failure, number=event.number, total=event.total)
                self._tried[event.step] = failure
                event, said = failure, f"{sentence(failure)}; {said}"
            self._flush()
            if said and not (event.kind == "isolation" and event.step in self._apart):
                self._tell(event, said)
            if said and event.kind == "isolation":
                self._apart.add(event.step)
            for fault in faults:
                self._tell(replace(event, kind="warning"), fault)

    def _replay(self, event: Event) -> list[str]:
        """Write what a recorded step wrote; what could not be written, for people."""
        faults = []
        for fd, data in enumerate(output(self.baton.repo.objects, event.logged) if event.logged is not None else (), 1):
            self.output(fd, data)
            try:
                sys.stdout.flush()
                sys.stderr.flush()
                write_all(fd, data)  # the bytes as they are, at once
            except BrokenPipeError:
                raise
            except OSError as error:
                faults.append(f"its {('output', 'error output')[fd - 1]} could not be written: {error.strerror}")
        return faults

    def output(self, fd: int, data: bytes) -> None:
        """A command is about to write to a stream of ours."""
        with self._lock:
            self._flush()
            self._erase()
            if data and fd in self._terminals:
                self._open = not data.endswith((b"\n", b"\r"))

    def close(self) -> None:
        """Leave the terminal without a status line."""
        with self._lock:
            self._flush()
            self._erase()

    def _flush(self) -> None:
        """Show the failures after which nothing is tried again."""
        held, self._held = self._held, {}
        for step, failure in held.items():
            self.progress.leave(step)
            before = self._tried.pop(step, None)
            if before is not None and before.number is not None:
                failure = replace(failure, number=before.number + 1, total=before.total)
            self._tell(failure, sentence(failure))

    def _follow(self, event: Event) -> None:
        if event.kind == "start":
            self._apart.discard(event.step)
        if event.kind == "plan" and event.total is not None:
            self.progress.total = event.total
        elif event.kind in ("start", "attempt") and event.step:
            self.progress.begin(event.step, time.monotonic())
        elif event.kind in ("ok", "cached", "gate", "unknown", "conflict"):
            self.progress.end(event.step, cached=event.kind == "cached")

    def _tell(self, event: Event, said: str) -> None:
        self._erase()
        start = "\n" if self._open else ""
        self._open = False
        color = {"ok": "green", "cached": "green", "failed": "failed", "gate": "waiting"}.get(event.kind)
        shown = terminal.paint(said, color, on=self.colors)
        subject = plain(event.step) if event.step else f"run '{self.run}'"
        terminal.tell(f"{start}baton: {subject}: {shown}")
        sys.stderr.flush()

    def _status(self) -> None:
        if not self.live or self._open:
            return
        line = self.progress.line(time.monotonic(), screen(2)[0] or 80)
        if line and line != self._shown:
            sys.stderr.write(ERASE + line)
            sys.stderr.flush()
            self._shown = line

    def _erase(self) -> None:
        if self._shown:
            self._shown = ""
            sys.stderr.write(ERASE)
            sys.stderr.flush()


class JsonLines:
    """Events as JSON objects, one a line, on standard output. Safe to use from several threads."""

    def __init__(self, run: str) -> None:
        self.run: Optional[str] = run  # None: one that was refused and never began
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Print an event."""
        if event.kind not in ("progress", "finished"):
            self._print(document(event))

    def output(self, fd: int, data: bytes) -> None:
        """A command's output is not shown."""

    def finished(self, code: int, states: Mapping[str, str]) -> None:
        """Print the last event: the exit status and what became of each step."""
        self._print({"event": "finished", "code": code, "states": dict(states)})

    def close(self) -> None:
        """Nothing is left to do."""

    def _print(self, fields: dict[str, Json]) -> None:
        with self._lock:
            terminal.say(json.dumps({"v": 1, "run": self.run, **fields}))
            sys.stdout.flush()


def document(event: Event) -> dict[str, Json]:
    """The JSON object of an event: its kind, and what is known of it."""
    fields: dict[str, Any] = {
        "event": event.kind,
        "step": event.step or None,
        "text": event.text or None,
        **picked(event, "code", "attempt", "key", "number", "total"),
    }
    if event.seconds is not None:
        fields["wait_ms" if event.kind == "retry" else "duration_ms"] = round(event.seconds * 1000)
    if event.cause is not None:
        fields["cause"] = picked(event.cause, *CAUSE)
    fields["record"] = event.logged.commit if event.logged else None
    return {name: item for name, item in fields.items() if item is not None}
