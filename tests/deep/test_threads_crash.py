"""A store whose process is killed, beside git's collection, beside others: nothing acknowledged is lost, nothing is torn."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gitbaton.errors import GitError
from gitbaton.git.binary import clear_stale_locks
from gitbaton.git.packs import Packs
from gitbaton.threads import flush
from gitbaton.threads.log import Log
from gitbaton.threads.store import ThreadStore
from gitbaton.threads.view import Shelf
from tests.kit import Sandbox, examples
from tests.kit.threads import put, values

POINTS: dict[str, tuple[type, str, bool]] = {
    "after-append": (Log, "append", True),
    "before-pack": (Packs, "written", False),
    "after-pack": (Shelf, "move", False),
    "after-refs": (Shelf, "move", True),
    "after-drop": (Log, "drop", True),
}
QUIET: dict[str, Any] = {"every": 1 << 30, "idle": 1e6}


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """An empty bare repository, in which locks that killed processes left are soon taken for that."""
    monkeypatch.setattr(flush, "clear_stale_locks", partial(clear_stale_locks, older=0.2))
    sandbox = Sandbox.init(tmp_path / "r.git", "--bare")
    sandbox.git("config", "gc.auto", "0")  # `git fsck` stumbles over a repack beside it
    return sandbox


def at(point: str, act: Callable[[], object]) -> None:
    """From now on ``act`` whenever this process comes to a point."""
    kind, name, after = POINTS[point]
    method = getattr(kind, name)

    def wrapped(*args: Any, **named: Any) -> Any:
        if not after:
            act()
        done = method(*args, **named)
        if after:
            act()
        return done

    setattr(kind, name, wrapped)


def child(work: Callable[[Callable[[str], None]], None]) -> tuple[int, int]:
    """A forked process that works, and a pipe on which it says what was acknowledged."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    code = 1
    try:
        os.close(reader)
        work(lambda text: (os.write(writer, f"{text}\n".encode()), None)[1])
        code = 0
    finally:
        os._exit(code)


def said(reader: int) -> list[str]:
    """What was acknowledged, up to the end of the process."""
    with os.fdopen(reader, encoding="ascii") as file:
        return file.read().split()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def whole(store: ThreadStore, acknowledged: list[str], thread: str = "t") -> set[str]:
    """All that was acknowledged is there, and all that is there is as it was put; the ids."""
    found = set()
    for entry in store.walk(thread, ""):
        assert values(store, entry)["c"] == ("str", entry.id.encode())
        again = store.entry(thread, "", entry.id)
        assert again is not None
        assert all(row[5] == entry.id.encode() for row in store.rows(thread, "", entry))
        found.add(entry.id)
        found.update(f"w{entry.id}" for _ in store.rows(thread, "", entry))
    assert set(acknowledged) <= found
    return found


def steps(store: ThreadStore, say: Callable[[str], None], count: int, start: int = 0, flush: int = 7) -> None:
    """Puts and writes, each said when it was acknowledged; a channel stays the same for long and is taken over."""
    parent = None
    for number in range(start, start + count):
        id = f"{number:05}"
        above = store.entry("t", "", parent) if parent else None
        channels: dict[str, Any] = {"c": ("str", id.encode()), "big": ("str", b"x" * 500)}
        if above is not None:
            channels["big"] = above.channels["big"]
        put(store, "t", id, parent, channels=channels)
        say(id)
        store.put_writes("t", "", id, [("", "task", 0, "c", "str", id.encode())], replace=False)
        say(f"w{id}")
        parent = id
        if number % flush == flush - 1:
            store.flush()


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_named_point(bare: Sandbox, point: str) -> None:
    for skip in range(examples(5, 2)):

        def work(say: Callable[[str], None], skip: int = skip) -> None:
            left = iter(range(skip + (10 if point == "after-append" else 0)))
            with ThreadStore.open(bare.path, **QUIET) as store:
                at(point, lambda: None if next(left, None) is not None else die())
                steps(store, say, 40, start=100 * skip)

        pid, reader = child(work)
        acknowledged = said(reader)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        with ThreadStore.open(bare.path, **QUIET) as store:
            found = whole(store, acknowledged)
            store.flush()
            assert whole(store, acknowledged) == found
        bare.fsck()


def test_killed_at_any_moment(bare: Sandbox) -> None:
    """Several processes, killed at random; the next ones go on where they were."""
    dice, acknowledged = random.Random(7), list[str]()
    for turn in range(examples(100, 5)):

        def work(say: Callable[[str], None], turn: int = turn, part: int = 0) -> None:
            store = ThreadStore.open(bare.path, every=9, idle=0.01)
            steps(store, say, 2000, start=turn * 4000 + part * 2000, flush=50)

        processes = [child(lambda say, part=part, work=work: work(say, part=part)) for part in range(2)]  # type: ignore[misc]
        for _, reader in processes:
            select.select([reader], [], [], 30)  # each has put something, however busy the machine is
        time.sleep(dice.uniform(0.0, 0.1))
        for pid, _ in processes:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for _, reader in processes:
            acknowledged += said(reader)
    assert len(acknowledged) >= 2 * examples(100, 5)
    with ThreadStore.open(bare.path, **QUIET) as store:
        found = whole(store, acknowledged)
    with ThreadStore.open(bare.path, **QUIET) as store:
        assert whole(store, acknowledged) == found
    bare.fsck()


def test_four_processes_put_into_one_thread(bare: Sandbox) -> None:
    count = 250
    pairs = [os.pipe() for _ in range(4)]

    def work(say: Callable[[str], None], me: int) -> None:
        """Puts, tells the next process, and finds what the one before told."""
        told, tell = os.fdopen(pairs[me][0], "r"), pairs[(me + 1) % 4][1]
        with ThreadStore.open(bare.path, sync=False, every=64) as store:
            for number in range(count):
                put(store, "t", f"{number:05}-{me}")
                os.write(tell, f"{number:05}-{me}\n".encode())
                other = told.readline().strip()
                assert store.entry("t", "", other) is not None, other
                newest = store.latest("t", "")
                assert newest is not None
                assert newest.id >= other
            say("ok")

    processes = [child(lambda say, me=me: work(say, me)) for me in range(4)]  # type: ignore[misc]
    for pid, reader in processes:
        assert said(reader) == ["ok"]
        assert os.waitpid(pid, 0)[1] == 0
    for pair in pairs:
        for fd in pair:
            os.close(fd)
    with ThreadStore.open(bare.path, **QUIET) as store:
        assert len(whole(store, [])) == 4 * count
    bare.fsck()


def test_collected_at_every_named_point(bare: Sandbox) -> None:
    def work(say: Callable[[str], None]) -> None:
        with ThreadStore.open(bare.path, **QUIET) as store:
            for point in POINTS:
                turn = iter(range(1 << 30))

                def collect(turn: Iterator[int] = turn, point: str = point) -> None:
                    if point != "after-append" or next(turn) % 10 == 5:
                        subprocess.run(["git", "gc", "-q", "--prune=now"], cwd=bare.path, check=True, capture_output=True)

                at(point, collect)
            steps(store, say, 21)
            store.copy("t", "u")
            store.prune(["t"])
            put(store, "t", "9")
            store.delete("u")
            assert [entry.id for entry in store.walk("t", "")] == ["9", "00020"]
            store.put_writes("t", "", "00020", [("", "other", 0, "c", "str", b"00020")], replace=True)

    pid, reader = child(work)
    assert len(said(reader)) == 42
    assert os.waitpid(pid, 0)[1] == 0
    with ThreadStore.open(bare.path, **QUIET) as store:
        assert whole(store, ["9", "00020", "w00020"])
    bare.fsck()


def test_collected_all_the_time(bare: Sandbox) -> None:
    done = threading.Event()
    runs = []

    def collect() -> None:
        while not done.is_set():
            runs.append(bare.try_git("gc", "-q", "--prune=now"))
            bare.try_git("pack-refs", "--all", "--prune")

    def work(say: Callable[[str], None]) -> None:
        with ThreadStore.open(bare.path, sync=False, every=20, idle=0.01) as store:
            steps(store, say, examples(3000, 150), flush=11)

    pid, reader = child(work)
    helper = threading.Thread(target=collect)
    helper.start()
    acknowledged = said(reader)
    code = os.waitpid(pid, 0)[1]
    done.set()
    helper.join()
    assert code == 0
    assert len(runs) > 2
    with ThreadStore.open(bare.path, **QUIET) as store:
        whole(store, acknowledged)
    bare.fsck()


def test_somebody_deletes_while_a_reader_walks(bare: Sandbox) -> None:
    def work(say: Callable[[str], None], what: str) -> None:
        with ThreadStore.open(bare.path, **QUIET) as store:
            store.delete("t") if what == "delete" else store.prune(["t"])
        subprocess.run(["git", "gc", "-q", "--prune=now"], cwd=bare.path, check=True, capture_output=True)

    for what in ("delete", "prune"):
        with ThreadStore.open(bare.path, **QUIET) as store:
            for number in range(40):
                put(store, "t", f"{number:03}")
        with ThreadStore.open(bare.path, **QUIET) as store:
            walk = store.walk("t", "")
            found = [next(walk).id for _ in range(3)]
            pid, reader = child(lambda say, what=what: work(say, what))  # type: ignore[misc]
            assert said(reader) == []
            assert os.waitpid(pid, 0)[1] == 0
            found += [entry.id for entry in walk]
            assert found == sorted(set(found), reverse=True)
            assert found[:3] == ["039", "038", "037"]
            assert [entry.id for entry in store.walk("t", "")] == ([] if what == "delete" else ["039"])


def test_a_forked_child_opens_the_store_anew(bare: Sandbox) -> None:
    with ThreadStore.open(bare.path, every=3, idle=0.01) as store:
        put(store, "t", "1")

        def work(say: Callable[[str], None]) -> None:
            assert store.latest("t", "").id == "1"  # type: ignore[union-attr]
            for number in range(10):
                put(store, "t", f"2{number}")
            store.flush()
            store.close()
            say("ok")

        pid, reader = child(work)
        assert said(reader) == ["ok"]
        assert os.waitpid(pid, 0)[1] == 0
        assert store.latest("t", "").id == "29"  # type: ignore[union-attr]
        put(store, "t", "3")
        pid, reader = child(lambda _: None)
        assert os.waitpid(pid, 0)[1] == 0
        os.close(reader)
        assert [entry.id for entry in store.walk("t", "")][:2] == ["3", "29"]


def test_the_disk_is_full(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever write of a flush fails: what was acknowledged stays, and is flushed when there is room."""
    with ThreadStore.open(bare.path, **QUIET) as store:
        real, left = os.write, [0]

        def full(fd: int, data: bytes) -> int:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            return real(fd, data)

        for room in range(3):
            put(store, "t", f"{room}")
            with monkeypatch.context() as patched:
                left[0] = room
                patched.setattr(os, "write", full)
                with pytest.raises(GitError, match="No space left"):
                    store.flush()
            assert len(list(store.walk("t", ""))) == room + 1
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", lambda *_: full(-1, b""))
            with pytest.raises(GitError, match="No space left"):
                put(store, "t", "3")
        assert store.entry("t", "", "3") is None
        assert not (bare.path / "refs" / "baton").exists()
        store.flush()
        assert not list((bare.path / "objects" / "pack").glob("*.keep"))
    with ThreadStore.open(bare.path, **QUIET) as store:
        assert whole(store, ["0", "1", "2"]) == {"0", "1", "2"}
    bare.fsck()
