"""A store of threads in trouble: collected under its feet, emptied while it is read, four at once, a full disk, a torn log."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gitbaton.base.errors import GitError
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox, examples
from tests.kit.moments import always, at
from tests.kit.processes import in_child
from tests.kit.saverjobs import fork
from tests.kit.threads import below, ids, killed, left_open, log_of, numbered, put, values

QUIET: dict[str, Any] = {"every": 1 << 30, "idle": 1e6}


@pytest.fixture
def bare(tmp_path: Path) -> Sandbox:
    """An empty bare repository."""
    sandbox = Sandbox.init(tmp_path / "r.git", "--bare")
    sandbox.git("config", "gc.auto", "0")  # `git fsck` stumbles over a repack beside it
    return sandbox


def whole(store: ThreadStore, wanted: set[str]) -> None:
    """All that was put is there, as it was put; ``w`` and an id stand for its writes."""
    found = set[str]()
    for entry in store.walk("t", ""):
        assert values(store, entry)["c"] == ("str", entry.id.encode())
        again = store.entry("t", "", entry.id)
        assert again is not None
        rows = store.rows("t", "", again)
        assert all(row[5] == entry.id.encode() for row in rows)
        found |= {entry.id, *(f"w{entry.id}" for _ in rows)}
    assert found == wanted


def steps(store: ThreadStore, count: int, flush: int, between: Callable[[], object] = lambda: None) -> set[str]:
    """Puts and writes; a channel stays the same for long and is taken over. What was acknowledged."""
    done, parent = set[str](), None
    for number in range(count):
        id = f"{number:05}"
        above = store.entry("t", "", parent) if parent else None
        channels: dict[str, Any] = {"c": ("str", id.encode()), "big": ("str", b"x" * 500)}
        if above is not None:
            channels["big"] = above.channels["big"]
        put(store, "t", id, parent, channels=channels)
        store.put_writes("t", "", id, [("", "task", 0, "c", "str", id.encode())], replace=False)
        done |= {id, f"w{id}"}
        parent = id
        between()
        if number % flush == flush - 1:
            store.flush()
    return done


def collect(bare: Sandbox) -> None:
    subprocess.run(["git", "gc", "-q", "--prune=now"], cwd=bare.path, check=True, capture_output=True)


def test_collected_at_every_step_of_a_flush(bare: Sandbox) -> None:
    """And after some of the puts, while a thread is copied, pruned and deleted."""
    runs, puts = list[str](), count()

    def now(event: str) -> None:
        runs.append(event)
        if event == "put" or len(runs) % 3 == 0:
            collect(bare)

    with ThreadStore.open(bare.path, **QUIET) as store, ExitStack() as stack:
        for event in ("os.rename", "os.remove", "os.posix_spawn", "os.link"):
            ours = below(bare.path) if event != "os.posix_spawn" else always
            stack.enter_context(at(event, ours, lambda _, event=event: now(event)))  # type: ignore[misc]
        done = steps(store, 14, 7, lambda: now("put") if next(puts) % 5 == 4 else None)
        whole(store, done)
        store.copy("t", "u")
        store.prune(["t"])
        put(store, "t", "9")
        store.delete("u")
        assert ids(store) == ["9", "00013"]
        store.put_writes("t", "", "00013", [("", "other", 0, "c", "str", b"00013")], replace=True)
    assert {"os.rename", "os.remove", "put"} <= {*runs} and len(runs) > 10
    with ThreadStore.open(bare.path, **QUIET) as store:
        whole(store, {"9", "00013", "w00013"})
    bare.fsck()


def test_collected_all_the_time(bare: Sandbox) -> None:
    """At least once for fifty puts."""
    done, collected, puts = threading.Event(), threading.Semaphore(0), count(1)

    def over_and_over() -> None:
        while not done.is_set():
            bare.try_git("gc", "-q", "--prune=now")
            bare.try_git("pack-refs", "--all", "--prune")
            collected.release()

    def paced() -> None:
        assert next(puts) % 50 or collected.acquire(timeout=60)

    helper = threading.Thread(target=over_and_over)
    helper.start()
    try:
        with ThreadStore.open(bare.path, sync=False, every=20, idle=0.01) as store:
            put_then = steps(store, examples(3000, 100), 11, paced)
    finally:
        done.set()
        helper.join()
    with ThreadStore.open(bare.path, **QUIET) as store:
        whole(store, put_then)
    bare.fsck()


@pytest.mark.parametrize("what", ["delete", "prune"])
def test_somebody_deletes_while_a_reader_walks(bare: Sandbox, what: str) -> None:
    def work() -> None:
        with ThreadStore.open(bare.path, **QUIET) as store:
            store.delete("t") if what == "delete" else store.prune(["t"])
        collect(bare)

    with ThreadStore.open(bare.path, **QUIET) as store:
        numbered(store, 40)
    with ThreadStore.open(bare.path, **QUIET) as store:
        walk = store.walk("t", "")
        found = [next(walk).id for _ in range(3)]
        assert in_child(work) == 0
        found += [entry.id for entry in walk]
        assert found == sorted(set(found), reverse=True) and found[:3] == ["039", "038", "037"]
        assert ids(store) == ([] if what == "delete" else ["039"])


def test_four_processes_put_into_one_thread(bare: Sandbox) -> None:
    """Each finds at once what another one has just told it of, and every put of each is there in the end."""
    puts, pairs = examples(250, 60), [os.pipe() for _ in range(4)]

    def work(me: int) -> None:
        told, tell = os.fdopen(pairs[me][0], "r"), pairs[(me + 1) % 4][1]
        with ThreadStore.open(bare.path, sync=False, every=64) as store:
            for number in range(puts):
                put(store, "t", f"{number:05}-{me}")
                os.write(tell, f"{number:05}-{me}\n".encode())
                other = told.readline().strip()
                assert store.entry("t", "", other) is not None, other
                newest = store.latest("t", "")
                assert newest is not None and newest.id >= other

    children = [fork(partial(work, me)) for me in range(4)]
    for pair in pairs:
        for fd in pair:
            os.close(fd)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    with ThreadStore.open(bare.path, **QUIET) as store:
        whole(store, {f"{number:05}-{me}" for number in range(puts) for me in range(4)})
    bare.fsck()


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
            assert len(ids(store)) == room + 1
        assert not (bare.path / "refs" / "baton").exists()
        store.flush()
        assert not list((bare.path / "objects" / "pack").glob("*.keep"))
    with ThreadStore.open(bare.path, **QUIET) as store:
        whole(store, {"0", "1", "2"})
    bare.fsck()


def test_a_log_that_is_torn_gives_all_that_comes_before(bare: Sandbox) -> None:
    """Cut off, zeros from somewhere on, or a bit that is another one: at many a byte of it."""
    ends = list[int]()
    for puts in range(1, 5):
        killed(lambda: numbered(left_open(bare.path), puts))  # noqa: B023
        (path,) = log_of(bare.path).glob("log*")
        good = path.read_bytes()
        ends.append(len(good.rstrip(b"\0")))
        if puts < 4:
            path.unlink()

    def read(then: int) -> None:
        found = [f"{number:03}" for number in range(then)][::-1]
        store = left_open(bare.path)
        assert ids(store) == found
        put(store, "t", "more")
        assert ids(store) == ids(left_open(bare.path)) == ["more", *found]

    for place in range(ends[0], ends[-1], examples(1, 17)):
        flipped = bytearray(good)
        flipped[place] ^= 1 << place % 8
        for raw in (good[:place], good[:place] + bytes(len(good) - place), bytes(flipped)):
            path.write_bytes(raw)
            killed(lambda: read(sum(end <= place for end in ends)))  # noqa: B023
