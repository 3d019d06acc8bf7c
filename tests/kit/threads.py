"""A plain model of threads, and what tests of the store do with it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gitbaton.langgraph.threads.codec import Id, Row, ThreadCheckpoint, Typed
from gitbaton.langgraph.threads.health import waiting
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit.capturekit import without_privilege
from tests.kit.moments import Args, at
from tests.kit.places import ROOT
from tests.kit.processes import in_child
from tests.kit.repos import Outcome, Sandbox

Place = tuple[str, str]

QUIET: dict[str, Any] = {"sync": False, "every": 1 << 30, "idle": 1e6}


class Kept:
    """A checkpoint as the model has it."""

    def __init__(self, parent: str | None, ck: bytes, md: bytes, channels: Mapping[str, Typed]) -> None:
        self.parent, self.ck, self.md, self.channels = parent, ck, md, dict(channels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"Kept({vars(self)})"


class Model:
    """A dict of dicts that does what the store must do."""

    def __init__(self) -> None:
        self.puts: dict[Place, dict[str, Kept]] = {}
        self.rows: dict[Place, dict[str, dict[tuple[str, int], Row]]] = {}

    def put(self, place: Place, id: str, kept: Kept) -> None:
        self.puts.setdefault(place, {})[id] = kept

    def writes(self, place: Place, id: str, rows: Iterable[Row], *, replace: bool) -> None:
        held = self.rows.setdefault(place, {}).setdefault(id, {})
        for row in rows:
            if replace or row[2] < 0 or (row[1], row[2]) not in held:
                held[row[1], row[2]] = row

    def delete(self, thread: str) -> None:
        for place in [*self.puts, *self.rows]:
            if place[0] == thread:
                self.puts.pop(place, None)
                self.rows.pop(place, None)

    def delete_runs(self, runs: Iterable[str]) -> None:
        for place, puts in self.puts.items():
            for id in [id for id, kept in puts.items() if json.loads(kept.md).get("run_id") in runs]:
                del puts[id]
                self.rows.get(place, {}).pop(id, None)

    def copy(self, source: str, target: str) -> None:
        for (thread, namespace), puts in list(self.puts.items()):
            if thread == source:
                self.puts.setdefault((target, namespace), {}).update(puts)
        for (thread, namespace), rows in list(self.rows.items()):
            if thread == source:
                for id, held in rows.items():
                    self.rows.setdefault((target, namespace), {}).setdefault(id, {}).update(held)

    def prune(self, thread: str) -> None:
        for place, puts in self.puts.items():
            if place[0] == thread and puts:
                newest = max(puts)
                self.puts[place] = {newest: puts[newest]}
                rows = self.rows.get(place, {})
                self.rows[place] = {id: held for id, held in rows.items() if id >= newest}

    def chains(self) -> list[Place]:
        return sorted(place for place, puts in self.puts.items() if puts)


def values(store: ThreadStore, entry: ThreadCheckpoint) -> dict[str, Typed]:
    """All channels of a checkpoint."""
    return {name: store.blob(oid) for name, oid in entry.channels.items()}


def kept(store: ThreadStore, entry: ThreadCheckpoint) -> Kept:
    """A checkpoint of the store as the model has it."""
    return Kept(entry.parent, entry.ck, entry.md, values(store, entry))


def agree(store: ThreadStore, model: Model) -> None:
    """The store has exactly what the model has, whichever way it is read."""
    assert store.chains() == model.chains()
    for place in {*model.puts, *model.rows}:
        puts, rows = model.puts.get(place, {}), model.rows.get(place, {})
        entries = list(store.walk(*place))
        assert [entry.id for entry in entries] == sorted(puts, reverse=True)
        newest = store.latest(*place)
        assert (newest.id if newest else None) == max(puts, default=None)
        for entry in entries:
            assert kept(store, entry) == puts[entry.id]
            expected = tuple(sorted(rows.get(entry.id, {}).values()))
            assert store.rows(*place, entry) == expected
            again = store.entry(*place, entry.id)
            assert again is not None
            assert store.rows(*place, again) == expected
        assert store.entry(*place, "none") is None


def text(item: Any) -> bytes:
    """JSON as checkpoints have it."""
    return json.dumps(item, separators=(",", ":")).encode()


def put(
    store: ThreadStore,
    thread: str,
    id: str,
    parent: str | None = None,
    *,
    namespace: str = "",
    channels: Mapping[str, Id | Typed] | None = None,
    **metadata: Any,
) -> Kept:
    """Put a checkpoint that says who it is; what the model makes of it."""
    given: Mapping[str, Id | Typed] = {"c": ("str", id.encode())} if channels is None else channels
    ck, md = text({"v": 2, "ts": "2026-01-01T00:00:00+00:00", "id": id}), text({"source": "loop", **metadata})
    assert store.put(thread, namespace, id, parent, ck, md, given)
    return Kept(parent, ck, md, {name: each for name, each in given.items() if not isinstance(each, bytes)})


def ids(store: ThreadStore, thread: str = "t", namespace: str = "") -> list[str]:
    """The checkpoints of a thread, newest first."""
    return [entry.id for entry in store.walk(thread, namespace)]


def row(task: str, index: int, data: bytes) -> Row:
    """A write of a task."""
    return ("", task, index, "c", "bytes", data)


def rows(store: ThreadStore, id: str, thread: str = "t") -> list[bytes]:
    """What the writes of a checkpoint hold."""
    entry = store.entry(thread, "", id)
    assert entry is not None
    return [each[5] for each in store.rows(thread, "", entry)]


def numbered(store: ThreadStore, count: int, thread: str = "t", start: int = 0) -> None:
    for number in range(start, start + count):
        put(store, thread, f"{number:03}", f"{number - 1:03}" if number else None)


def two(tmp_path: Path, common: int = 5) -> tuple[ThreadStore, ThreadStore, Sandbox, Sandbox]:
    """A repository and its clone, both with a thread."""
    one = Sandbox.init(tmp_path / "one.git", "--bare")
    with ThreadStore.open(one.path, **QUIET) as store:
        numbered(store, common)
    shutil.copytree(one.path, tmp_path / "two.git")
    other = Sandbox(tmp_path / "two.git")
    return ThreadStore.open(one.path, **QUIET), ThreadStore.open(other.path, **QUIET), one, other


# ---- the log of a repository, from outside


def log_of(place: Path) -> Path:
    """The folder of the log in a bare repository."""
    return place / "baton" / "wal"


def in_log(place: Path) -> int:
    """How many records of a bare repository git has not yet."""
    return waiting(str(log_of(place)))


def below(place: Path) -> Callable[[Args], bool]:
    """Whether what an event is about lies in a folder."""
    start = f"{place}{os.sep}"
    return lambda args: any(isinstance(word, str | bytes) and os.fsdecode(word).startswith(start) for word in args[:2])


def git_called(word: str) -> Callable[[Args], bool]:
    """Whether a process that is begun is such a command of git."""
    return lambda args: word in args[1]


@contextmanager
def let_go(place: Path) -> Iterator[threading.Event]:
    """What is set when a thread in the background has the log go on without what it brought into git."""
    done, ours = threading.Event(), below(log_of(place))
    with at(
        "os.rename", lambda args: threading.current_thread() is not threading.main_thread() and ours(args), lambda _: done.set()
    ):
        yield done


@contextmanager
def refused(place: Path) -> Iterator[None]:
    """Within the block, nothing in a folder is written, made or removed by this process."""
    ours, writing = below(place), os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def refuse(args: Args) -> None:
        raise PermissionError(13, "Permission denied", args[0])

    with ExitStack() as stack:
        stack.enter_context(at("open", lambda args: bool(args[2] & writing) and ours(args), refuse))
        for event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir"):
            stack.enter_context(at(event, ours, refuse))
        yield


def unprivileged(box: Sandbox, code: str) -> Outcome:
    """Run a program that permissions bind, also when the tests run as root; where that cannot be had, the test is skipped."""
    words = without_privilege(sys.executable, "-c", code)
    if words is None:
        pytest.skip("root writes everywhere here, and setpriv is missing")
    return box.run(*words, env={"PYTHONPATH": str(ROOT)})


def left_open(place: Path, *, sync: bool = False) -> ThreadStore:
    """A store that nobody closes, in a process that will be killed."""
    _LEFT.append(ThreadStore.open(place, **{**QUIET, "sync": sync}))
    return _LEFT[-1]


_LEFT = list[ThreadStore]()


def killed(work: Callable[[], object]) -> None:
    """Do something in a process that is gone at its end: it closes nothing."""
    assert in_child(work) == 0


def with_disk(wait: Callable[[int], object], work: Callable[[], object]) -> None:
    """Do something in a process that has ``wait`` for the disk's part of ``os.fdatasync``. ``work`` imports what it uses: what
    is here has its own already."""

    def anew() -> None:
        os.fdatasync = wait  # type: ignore[assignment]
        for name in [name for name in sys.modules if name.startswith(("gitbaton.langgraph.threads", "gitbaton.langgraph"))]:
            del sys.modules[name]
        work()

    killed(anew)
