"""LangGraph's savers side by side: each in a process of its own, all taking turns in slices on one disk."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.bench.harness import OLDER

SLICE = 50  # puts of a turn
CHANNELS = 8
NAMES = ("memory", "sqlite", "asqlite", "git")  # and "older": GitSaver of the version in GITBATON_BENCH_OLDER
MESSAGE = 400  # bytes
# What is asked of GitSaver beside SqliteSaver: at most (or, of a rate, at least) so many times as much. Growth is that of a put
# from the first half of a run to the second; a disk that others use moves both savers' alike.
GOALS = {"put/s": 1.0, "latest": 2.0, "by id": 3.0, "list 10": 2.0, "growth": 1.25}
SIZES = {2048: 1 / 4, 51200: 1 / 10}
READS = ("latest", "by id", "list 10", "page 10", "filter", "list all", "cold latest", "cold by id")
_WORDS = [hashlib.md5(str(n).encode()).hexdigest()[: 2 + n % 8] for n in range(4000)]
Config = dict[str, Any]


def text(rng: random.Random, length: int) -> str:
    """Words, which git and SQLite can both do something with."""
    found: list[str] = []
    while length > 0:
        found.append(_WORDS[rng.randrange(len(_WORDS))])
        length -= len(found[-1]) + 1
    return " ".join(found)


class States:
    """The checkpoints of one thread, the same for every saver: one of eight channels changes at each step, or one channel
    grows by a message."""

    def __init__(self, size: int, grows: bool) -> None:
        self.size, self.grows, self.step, self.rng = size, grows, 0, random.Random(11)
        names = ["messages"] if grows else [f"c{number}" for number in range(CHANNELS)]
        self.values: dict[str, Any] = {n: [] if grows else text(self.rng, size // CHANNELS) for n in names}
        self.versions: dict[str, int] = dict.fromkeys(names, 0)

    def next(self) -> tuple[Config, Config, dict[str, int]]:
        """A checkpoint, its metadata and the versions that are new in it."""
        from langgraph.checkpoint.base.id import uuid6

        step = self.step
        changed = list(self.values) if step == 0 else [list(self.values)[step % len(self.values)]]
        for name in changed:
            new: Any = text(self.rng, self.size // CHANNELS)
            if self.grows:
                new = [*self.values[name], {"type": "ai", "id": f"message-{step}", "content": text(self.rng, MESSAGE)}]
            self.values[name], self.versions[name] = new, step + 1
        self.step += 1
        checkpoint = {"v": 2, "id": str(uuid6(clock_seq=step)), "ts": "2026-11-20T00:00:00+00:00"}
        checkpoint |= {"channel_values": dict(self.values), "channel_versions": dict(self.versions)}
        checkpoint |= {"versions_seen": {"agent": dict(self.versions)}, "updated_channels": changed}
        metadata = {"source": "loop", "step": step, "parents": {}, "run_id": f"run-{step // 50}"}
        return checkpoint, metadata, {name: self.versions[name] for name in changed}


class Player:
    """A saver of a name below a folder, with blocking calls whatever its manner; times in microseconds."""

    def __init__(self, name: str, folder: str, count: int, size: int, grows: bool) -> None:
        self.name, self.folder, self.count = name, folder, count
        self.states, self.rng = States(size, grows), random.Random(5)
        self.ids: list[str] = []
        self.known: dict[str, str] = {}
        self.loop = asyncio.new_event_loop()
        self.tip = self.thread = self._config()
        self.open()

    @staticmethod
    def _config(id: str | None = None) -> Config:
        named = {"thread_id": "bench", "checkpoint_ns": ""}
        return {"configurable": named | ({"checkpoint_id": id} if id else {})}

    def open(self) -> None:
        """Open what is below the folder."""
        place = os.path.join(self.folder, "store.db")
        if self.name == "memory":
            from langgraph.checkpoint.memory import InMemorySaver

            self.saver: Any = InMemorySaver()
            self.close: Callable[[], Any] = lambda: None
        elif self.name == "sqlite":
            from langgraph.checkpoint.sqlite import SqliteSaver

            self.saver = SqliteSaver(sqlite3.connect(place, check_same_thread=False))
            self.close = self.saver.conn.close
        elif self.name == "asqlite":
            from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

            opened = AsyncSqliteSaver.from_conn_string(place)
            self.saver = self.loop.run_until_complete(opened.__aenter__())
            self.close = lambda: self.loop.run_until_complete(opened.__aexit__(None, None, None))
        else:
            from gitbaton.langgraph import GitSaver

            self.saver = GitSaver(os.path.join(self.folder, "store"))
            self.close = self.saver.close

    def call(self, method: str, *args: Any, **more: Any) -> Any:
        """A method of the saver; a list for what it yields."""
        if self.name == "asqlite" and method == "list":
            return self.loop.run_until_complete(self._collected(*args, **more))
        if self.name == "asqlite":
            return self.loop.run_until_complete(getattr(self.saver, "a" + method)(*args, **more))
        found = getattr(self.saver, method)(*args, **more)
        return list(found) if method == "list" else found

    async def _collected(self, *args: Any, **more: Any) -> list[Any]:
        return [found async for found in self.saver.alist(*args, **more)]

    def put(self, count: int) -> tuple[list[float], list[float]]:
        """So many more checkpoints, and two small writes with a part of them."""
        puts, writes = [], []
        every = max(1, self.count // 500)
        for checkpoint, metadata, versions in [self.states.next() for _ in range(count)]:
            begun = time.perf_counter()
            self.tip = self.call("put", self.tip, checkpoint, metadata, versions)
            puts.append((time.perf_counter() - begun) * 1e6)
            step = len(self.ids)
            self.ids.append(checkpoint["id"])
            if step % max(1, self.count // 50) == 0:
                self.known[checkpoint["id"]] = _digest(checkpoint["channel_values"])
            if step % every == 0:
                two = [("c0", "x" * 100), ("c1", {"a": 1})]
                begun = time.perf_counter()
                self.call("put_writes", self.tip, two, f"task-{step}", "~__pregel_pull, agent")
                writes.append((time.perf_counter() - begun) * 1e6)
        return puts, writes

    def together(self, threads: int, count: int) -> tuple[float, float]:
        """So many threads, each of which puts so many checkpoints of a thread of its own: when the last one was done, as
        ``time.time`` counts, and how long a put took at most, in milliseconds."""
        waits: list[float] = []

        def work(number: int) -> None:
            states, tip = States(self.states.size, grows=False), self._config()
            tip["configurable"]["thread_id"] = f"crowd-{os.getpid()}-{number}"
            for checkpoint, metadata, versions in [states.next() for _ in range(count)]:
                begun = time.perf_counter()
                tip = self.saver.put(tip, checkpoint, metadata, versions)
                waits.append((time.perf_counter() - begun) * 1e3)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return time.time(), max(waits)

    def spread(self, threads: int) -> None:
        """One checkpoint in each of so many threads."""
        states = States(self.states.size, grows=False)
        for number in range(threads):
            checkpoint, metadata, versions = states.next()
            named = {"thread_id": f"thread-{number}", "checkpoint_ns": ""}
            self.call("put", {"configurable": named}, checkpoint, metadata, versions)
        self.flush()

    def newest(self) -> tuple[float, float]:
        """Milliseconds of the ten newest checkpoints of all threads: by the clock, and of the processor's time."""
        begun, used = time.perf_counter(), time.process_time()
        assert len(self.call("list", None, limit=10)) == 10
        return (time.perf_counter() - begun) * 1e3, (time.process_time() - used) * 1e3

    def heavy(self, size: int, dense: bool) -> tuple[float, float]:
        """Seconds until a state of so many bytes, of words or of what cannot be made smaller, is put and nothing is left to be
        done: by the clock, and of the processor's time, with that of git."""
        rng = random.Random(7)
        value: Any = rng.randbytes(size) if dense else text(rng, 1 << 20) * (size >> 20)
        checkpoint, metadata, _ = States(8, grows=False).next()
        checkpoint |= {"channel_values": {"c0": value}, "channel_versions": {"c0": 1}}
        named = {"thread_id": f"heavy-{dense}", "checkpoint_ns": ""}
        begun, used = time.perf_counter(), sum(os.times()[:4])
        self.call("put", {"configurable": named}, checkpoint, metadata, {"c0": 1})
        if hasattr(self.saver, "flush"):
            self.saver.flush()
        return time.perf_counter() - begun, sum(os.times()[:4]) - used

    def flush(self) -> float:
        """Seconds until nothing is left to be done; what was put is read back and must be what it was."""
        begun = time.perf_counter()
        if hasattr(self.saver, "flush"):
            self.saver.flush()
        spent = time.perf_counter() - begun
        for id, digest in self.known.items():
            assert _digest(self.call("get_tuple", self._config(id)).checkpoint["channel_values"]) == digest, id
        return spent

    def read(self, what: str, count: int) -> list[float]:
        """The time of each of so many reads."""
        spent = []
        for _ in range(count):
            id = self.rng.choice(self.ids)
            if what.startswith("cold") and self.name != "memory":
                self.close()
            begun = time.perf_counter()
            if what.startswith("cold") and self.name != "memory":
                self.open()
            self._read(what, id)
            spent.append((time.perf_counter() - begun) * 1e6)
        return spent

    def _read(self, what: str, id: str) -> None:
        if what in ("latest", "cold latest"):
            assert self.call("get_tuple", self.thread).checkpoint["id"] == self.ids[-1]
        elif what in ("by id", "cold by id"):
            assert self.call("get_tuple", self._config(id)).checkpoint["id"] == id
        elif what == "list 10":
            assert len(self.call("list", self.thread, limit=10)) == min(10, len(self.ids))
        elif what == "page 10":
            self.call("list", self.thread, before=self._config(id), limit=10)
        elif what == "filter":
            assert len(self.call("list", self.thread, filter={"step": len(self.ids) // 2})) == 1
        else:
            assert len(self.call("list", self.thread)) == len(self.ids)

    def size(self, maintained: bool) -> tuple[int, int]:
        """Bytes on disk and files, perhaps after what the store has for upkeep; closed in between."""
        if self.name == "memory":
            return 0, 0
        if maintained and hasattr(self.saver, "maintain"):
            self.saver.maintain()
        self.close()
        if maintained and "sqlite" in self.name:
            with sqlite3.connect(os.path.join(self.folder, "store.db")) as opened:
                opened.execute("VACUUM")
            opened.close()
        found = [os.lstat(os.path.join(place, n)) for place, _, names in os.walk(self.folder) for n in names]
        self.open()
        return sum(each.st_blocks for each in found) * 512, len(found)


def _use_older() -> None:
    """Have this process import the version of the package that the older folder's Python has."""
    words = [f"{OLDER}/python", "-I", "-c", "import gitbaton; print(gitbaton.__file__)"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    sys.path.insert(0, os.path.dirname(os.path.dirname(said)))
    for name in [name for name in sys.modules if name.partition(".")[0] == "gitbaton"]:
        del sys.modules[name]


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha1(json.dumps(values, sort_keys=True).encode()).hexdigest()


def play(line: Connection, *about: Any) -> None:
    """Do what is asked on a line until None comes."""
    if about[0] == "older":
        _use_older()
    player = Player(*about)
    line.send(None)
    for method, args in iter(line.recv, None):
        line.send(getattr(player, method)(*args))
    player.close()


class Team:
    """A process for each saver. One works at a time, the others are stopped, their threads as well."""

    def __init__(self, folder: Path, names: Sequence[str], count: int, size: int, grows: bool = False) -> None:
        self.folder, self.names, self.about = folder, names, (count, size, grows)
        self.lines: dict[str, Connection] = {}
        self.processes: dict[str, Any] = {}
        for name in names:
            (folder / name).mkdir(parents=True)
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        for name in self.names:
            self.lines[name], theirs = context.Pipe()
            process = context.Process(target=play, args=(theirs, name, str(self.folder / name), *self.about), daemon=True)
            process.start()
            theirs.close()  # or nobody hears that a process has ended
            self.processes[name] = process
            self._answer(name)

    def _answer(self, name: str) -> Any:
        answer, id = self.lines[name].recv(), self.processes[name].pid
        assert id is not None
        _send(id, signal.SIGSTOP)
        return answer

    def turn(self, name: str, method: str, *args: Any) -> Any:
        """What a saver answers, in its turn."""
        id = self.processes[name].pid
        assert id is not None
        self.lines[name].send((method, args))
        _send(id, signal.SIGCONT)
        return self._answer(name)

    def _end(self) -> None:
        for name, process in self.processes.items():
            assert process.pid is not None
            self.lines[name].send(None)
            _send(process.pid, signal.SIGCONT)
            process.join()

    def restart(self) -> None:
        """Go on with new processes on what is there."""
        self._end()
        self._start()

    def close(self) -> None:
        """End all."""
        self._end()
        shutil.rmtree(self.folder)


def _send(process: int, number: int) -> None:
    """Signal a process and those that it started: none may work in another's turn."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread or a child that has just ended
        os.kill(process, number)
        for place in Path(f"/proc/{process}/task").glob("*"):
            with contextlib.suppress(FileNotFoundError):
                for child in (place / "children").read_text().split():
                    _send(int(child), number)


def rounds(names: Sequence[str], total: int, slice: int) -> Iterator[tuple[str, int]]:
    """Whose turn it is for how many; each round begins with another saver."""
    for number, done in enumerate(range(0, total, slice)):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            yield name, min(slice, total - done)


def measure(team: Team, count: int, reads: int) -> dict[str, dict[str, float]]:
    """The columns of each saver. Times are medians in microseconds."""
    puts: dict[str, list[float]] = {name: [] for name in team.names}
    writes: dict[str, list[float]] = {name: [] for name in team.names}
    for name, slice in rounds(team.names, count, SLICE):
        first, second = team.turn(name, "put", slice)
        puts[name] += first
        writes[name] += second
    found: dict[str, dict[str, float]] = {}
    tenth = max(1, count // 10)
    for name in team.names:
        begin, end, half = statistics.median(puts[name][:tenth]), statistics.median(puts[name][-tenth:]), count // 2
        growth = statistics.median(puts[name][half:]) / statistics.median(puts[name][:half])
        spent = sum(puts[name]) / 1e6 + team.turn(name, "flush")
        found[name] = {"put/s": count / spent, "put": statistics.median(puts[name]), "first tenth": begin}
        found[name] |= {"last tenth": end, "growth": growth, "put_writes": statistics.median(writes[name])}
    for what in READS:
        few = what in ("filter", "list all") or what.startswith("cold")
        total, slice = (5, 1) if few else (reads if what in ("latest", "by id") else max(20, reads // 10), 20)
        times: dict[str, list[float]] = {name: [] for name in team.names}
        for name, share in rounds(team.names, total, slice):
            times[name] += team.turn(name, "read", what, share)
        for name in team.names:
            found[name][what] = statistics.median(times[name])
    for name in team.names:
        for state in ("", " maintained"):
            size, files = team.turn(name, "size", bool(state))
            found[name] |= {f"MB{state}": size / 1e6, f"files{state}": files}
    return found


def table(found: Mapping[str, Mapping[str, float]], title: str) -> str:
    """A row for each saver, as Markdown."""
    heads = list(next(iter(found.values())))
    rows = [f"| {title} | " + " | ".join(heads) + " |", "|---" + "|---:" * len(heads) + "|"]
    for name, columns in found.items():
        cells = [f"{columns[head]:.2f}" if head.startswith(("MB", "growth")) else f"{columns[head]:,.0f}" for head in heads]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def verdicts(found: Mapping[str, Mapping[str, float]], size: int) -> str:
    """GitSaver beside SqliteSaver, with the goals."""
    if not {"git", "sqlite"} <= found.keys():
        return ""
    ours, theirs = found["git"], found["sqlite"]
    ratios = {what: ours[what] / theirs[what] for what in ours if theirs.get(what)}
    goals = GOALS | ({"MB": SIZES[size]} if size in SIZES else {})
    said = []
    for what, ratio in ratios.items():
        goal = goals.get(what)
        reached = goal is None or (ratio >= goal if what == "put/s" else ratio <= goal)
        asked = "" if goal is None else f" ({'>=' if what == 'put/s' else '<='} {goal:.3g} {'ok' if reached else 'MISSED'})"
        said.append(f"{what} {ratio:.2f}{asked}")
    return "git / sqlite: " + ", ".join(said)


def wide(folder: Path, names: Sequence[str], threads: int, size: int) -> list[str]:
    """The ten newest checkpoints of many threads, first in a process that knows none, then again; and one large state."""
    said = []
    if threads:
        team = Team(folder / "savers-threads", names, 1, 2048)
        for name in names:
            team.turn(name, "spread", threads)
        team.restart()
        first = {name: team.turn(name, "newest") for name in names}
        again: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for name, _ in rounds(names, 9, 1):
            again[name].append(team.turn(name, "newest"))
        team.close()
        found = {}
        for name in names:
            clock, used = (statistics.median(column) for column in zip(*again[name], strict=True))
            found[name] = {"first ms": first[name][0], "first cpu ms": first[name][1], "ms": clock, "cpu ms": used}
        said.append(table(found, f"10 newest of {threads} threads"))
    if size:
        team = Team(folder / "savers-heavy", names, 1, 2048)
        columns: dict[str, dict[str, float]] = {name: {} for name in names}
        for what, dense in (("words", False), ("dense", True)):
            for name in names:
                clock, used = team.turn(name, "heavy", size << 20, dense)
                columns[name] |= {f"{what} ms": clock * 1e3, f"{what} cpu ms": used * 1e3}
        for name in names:
            columns[name]["MB"] = team.turn(name, "size", False)[0] / 1e6
        team.close()
        said.append(table(columns, f"put and flush {size} MiB"))
    return said


def crowd(folder: Path, names: Sequence[str], count: int) -> str:
    """Puts of 2 KB a second and the longest one, of 8 threads with one saver, and of 4 processes with one store."""
    found: dict[str, dict[str, float]] = {}
    context = multiprocessing.get_context("spawn")
    for name in (name for name in names if name in ("sqlite", "older", "git")):
        found[name] = {}
        for what, processes, threads in (("8 threads", 1, 8), ("4 processes", 4, 1)):
            place = folder / f"crowd-{name}-{processes}"
            place.mkdir()
            lines = []
            for _ in range(processes):  # one after the other: each opens the store
                line, theirs = context.Pipe()
                about = (theirs, name, str(place), count, 2048, False)
                context.Process(target=play, args=about, daemon=True).start()
                theirs.close()
                line.recv()
                lines.append(line)
            begun = time.time()
            for line in lines:
                line.send(("together", (threads, count)))
            ends = [line.recv() for line in lines]
            for line in lines:
                line.send(None)
            found[name] |= {f"{what}, put/s": processes * threads * count / (max(end for end, _ in ends) - begun)}
            found[name] |= {f"{what}, longest put (ms)": max(wait for _, wait in ends)}
    return table(found, "together") if found else ""


def main(
    folder: Path,
    names: Sequence[str],
    counts: Sequence[int],
    sizes: Sequence[int],
    reads: int,
    steps: int,
    *,
    threads: int,
    large: int,
) -> list[str]:
    """Tables as Markdown: each count with each size of the state, a channel that grows by a message at each step, many threads,
    and one large state."""
    said = []
    for size in sizes:
        for count in counts:
            team = Team(folder / f"savers-{count}-{size}", names, count, size)
            found = measure(team, count, reads)
            team.close()
            said += [table(found, f"{count} x {size} bytes"), verdicts(found, size)]
    if steps:
        team = Team(folder / "savers-messages", names, steps, 0, grows=True)
        found = measure(team, steps, 100)
        team.close()
        said += [table(found, f"{steps} messages of {MESSAGE} bytes"), verdicts(found, 0)]
    said += wide(folder, [name for name in names if name != "memory"], threads, large)
    said.append(crowd(folder, names, 500))
    return said
