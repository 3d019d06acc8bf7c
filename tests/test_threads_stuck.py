"""A thread that git cannot take harms no other; what is edited goes whole or not at all; nobody waits for who walks."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitbaton.errors import GitError
from gitbaton.git.durable import Durable
from gitbaton.threads import editing
from gitbaton.threads import store as storing
from gitbaton.threads.names import ref_of
from gitbaton.threads.store import ThreadStore
from gitbaton.threads.view import Shelf
from gitbaton.threads.wal import Wal
from tests.support import Sandbox
from tests.support.threads import put

QUIET: dict[str, Any] = {"sync": False, "every": 1 << 30, "idle": 1e6}
REF = ref_of("t", "")


@pytest.fixture
def bare(tmp_path: Path) -> Sandbox:
    """An empty bare repository."""
    return Sandbox.init(tmp_path / "r.git", "--bare")


@pytest.fixture
def stuck(bare: Sandbox) -> Sandbox:
    """A repository whose log has a checkpoint of "bad" that holds what git has collected."""
    with ThreadStore.open(bare.path, **QUIET) as store:
        put(store, "bad", "1", channels={"c": ("str", b"c" * 5000)})
        store.flush()
        above = store.latest("bad", "")
        assert above is not None
        put(store, "bad", "2", "1", channels={"c": above.channels["c"]})
        store.put_writes("bad", "", "2", [row("a", b"first")], replace=False)
        store.put_writes("bad", "", "2", [row("a", b"lost"), row("b", b"b")], replace=False)
        store.put_writes("bad", "", "2", [row("b", b"second")], replace=True)
        bare.git("update-ref", "-d", ref_of("bad", ""))
        with pytest.raises(GitError, match="another process"), Locked(store):
            store.close()
    bare.git("gc", "-q", "--prune=now")
    return bare


class Locked:
    """While somebody else flushes, a store that is closed leaves all in the log."""

    def __init__(self, store: ThreadStore) -> None:
        self.core = store._core

    def __enter__(self) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise GitError("the threads are being written to git by another process")

        self.core.wal.flushing = refuse  # type: ignore[method-assign,assignment]

    def __exit__(self, *_: object) -> None:
        return


def row(task: str, data: bytes) -> Any:
    return ("", task, 0, "c", "bytes", data)


def ids(store: ThreadStore, thread: str) -> list[str]:
    return [entry.id for entry in store.walk(thread, "")]


def written(store: ThreadStore) -> list[bytes]:
    entry = store.latest("bad", "")
    assert entry is not None
    return [each[5] for each in store.rows("bad", "", entry)]


def test_others_go_on_beside_a_thread_that_git_cannot_take(stuck: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "BEHIND", 1 << 16)
    store = ThreadStore.open(stuck.path, **QUIET)
    for number in range(40):
        put(store, "good", f"{number:02}", channels={"c": ("bytes", os.urandom(6000))})
    for _ in range(2):
        with pytest.raises(GitError, match="thread 'bad' cannot be brought into git"):
            store.flush()
        put(store, "good", "99")
    store.put_writes("bad", "", "2", [row("a", b"lost"), row("c", b"c")], replace=False)
    put(store, "good", "98")
    store.copy("good", "new")
    assert len(ids(store, "new")) == len(ids(store, "good")) == 42
    store.delete("new")
    store.prune(["good"])
    assert stuck.git("rev-list", "--count", ref_of("good", "")) == "1"
    with pytest.raises(GitError, match="thread 'bad'"):
        store.copy("bad", "new")
    with pytest.raises(GitError, match="thread 'bad'"):
        store.close()
    with ThreadStore.open(stuck.path, **QUIET) as store:
        assert store._core.table.size < 20_000
        assert (ids(store, "bad"), written(store)) == (["2"], [b"first", b"second", b"c"])
        for number in range(12):
            put(store, "good", f"a{number}", channels={"c": ("bytes", os.urandom(8000))})
        with pytest.raises(GitError, match="thread 'bad'"):
            while True:  # one who adds to what cannot be brought hears of it in the end
                store.put_writes("bad", "", "2", [row(os.urandom(8).hex(), os.urandom(8000))], replace=False)
        put(store, "good", "b")
        assert store.latest("good", "").id == "b"  # type: ignore[union-attr]
        store.delete("bad")
        assert store.chains() == [("good", "")]
    assert not (stuck.path / "baton" / "wal").exists()
    stuck.fsck()


def test_a_thread_that_was_stuck_is_brought_when_it_can_be(stuck: Sandbox) -> None:
    store = ThreadStore.open(stuck.path, **QUIET)
    put(store, "good", "1")
    for _ in range(2):
        with pytest.raises(GitError, match="thread 'bad'"):
            store.flush()
    stuck.git("hash-object", "-w", "--stdin", stdin=b"str\0" + b"c" * 5000)
    store.flush()
    assert written(store) == [b"first", b"second"]
    store.close()
    with ThreadStore.open(stuck.path, **QUIET) as store:
        assert (ids(store, "bad"), written(store), ids(store, "good")) == (["2"], [b"first", b"second"], ["1"])
    stuck.fsck()


@pytest.mark.parametrize("after", [False, True])
def test_a_killed_delete_leaves_a_thread_whole_or_not_at_all(bare: Sandbox, *, after: bool) -> None:
    with ThreadStore.open(bare.path, **QUIET) as store:
        for number in "123":
            put(store, "t", number)
    pid = os.fork()
    if not pid:
        try:
            store, drain, move = ThreadStore.open(bare.path, **QUIET), editing.drain, Shelf.move

            def drained(*args: Any) -> Any:
                done = drain(*args)
                put(store, "t", "4")  # between the flush and the lock
                return done

            def killed(self: Shelf, changes: Any) -> None:
                gone = all(change.new is None for change in changes)
                if after or not gone:
                    move(self, changes)
                if gone:
                    os.kill(os.getpid(), signal.SIGKILL)

            editing.drain, Shelf.move = drained, killed  # type: ignore[assignment,method-assign]
            store.delete("t")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    with ThreadStore.open(bare.path, **QUIET) as store:
        assert ids(store, "t") == ([] if after else ["4", "3", "2", "1"])


def test_others_put_while_an_edit_walks(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the walk nor what is built of it is done under the lock, but for what came since."""
    with ThreadStore.open(bare.path, **QUIET) as store, ThreadStore.open(bare.path, **QUIET) as other:
        for number in range(60):
            put(store, "t", f"{number:02}", run_id=f"r{number // 10}")
        put(store, "u", "1", run_id="r3")
        store.flush()
        plan, walked = editing.Draft.once, list[tuple[bool, int]]()
        chain = type(store._core.shelf.chain(None))
        walk = chain.walk

        def counted(self: Any, below: str | None = None) -> Iterator[Any]:
            for entry in walk(self, below):
                walked.append((store._core.wal._held, 1))
                yield entry

        def beside(self: Any, names: Any, *rest: Any) -> None:
            plan(self, names, *rest)
            if names == ("t", "") and not store._core.wal._held:
                put(other, "t", "60", run_id="r3")
                put(other, "t", "61", run_id="r6")

        monkeypatch.setattr(chain, "walk", counted)
        monkeypatch.setattr(editing.Draft, "once", beside)
        helper = threading.Thread(target=store.delete_runs, args=(["r3"],))
        helper.start()
        helper.join(20)
        assert not helper.is_alive()
        assert sum(held for held, _ in walked) < 10 < sum(not held for held, _ in walked)
        monkeypatch.undo()
        assert ids(store, "t") == sorted({*(f"{n:02}" for n in range(60) if n // 10 != 3), "61"}, reverse=True)
        assert ids(other, "u") == []
    bare.fsck()


# ---- what is on disk before the log lets go


class Disk:
    """Which files and folders were brought to disk, and when the log's files were."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        flush = Durable._flush

        def flushed(durable: Durable, paths: Any) -> None:
            self.seen += [os.path.relpath(path, durable.repo.layout.common_dir) for path in paths if os.path.exists(path)]
            flush(durable, paths)

        drop = Wal.drop

        def dropped(wal: Wal, number: int) -> None:
            self.seen.append("drop")
            drop(wal, number)

        monkeypatch.setattr(Durable, "_flush", flushed)
        monkeypatch.setattr(Wal, "drop", dropped)

    def before(self) -> set[str]:
        """What was on disk before the log let go."""
        found = set(self.seen[: self.seen.index("drop")])
        self.seen.clear()
        return found


FOLDERS = {"refs", "refs/baton", "refs/baton/threads", "refs/baton/threads/=t"}


@pytest.mark.parametrize("alive", [True, False])
def test_what_others_wait_for_is_on_disk_before_it_is_dropped(
    bare: Sandbox, monkeypatch: pytest.MonkeyPatch, *, alive: bool
) -> None:
    """By a store that does not wait for the disk itself; also when the one that does was killed."""
    disk = Disk(monkeypatch)
    store = ThreadStore.open(bare.path, **QUIET) if alive else None
    pid = os.fork()
    if not pid:
        strict = ThreadStore.open(bare.path, **{**QUIET, "sync": True})
        put(strict, "t", "1")
        os._exit(0)
    os.waitpid(pid, 0)
    with store or ThreadStore.open(bare.path, **QUIET) as store:
        store.flush()
        assert disk.before() >= FOLDERS
        put(store, "t", "2")
        store.flush()
        assert disk.before() == {"refs/baton/threads/=t"}


@pytest.mark.parametrize("packed", [True, False])
def test_a_ref_that_a_killed_process_moved_is_brought_to_disk(
    bare: Sandbox, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    pid = os.fork()
    if not pid:
        store = ThreadStore.open(bare.path, **{**QUIET, "sync": True})
        Durable._named = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,method-assign]
        put(store, "t", "1")
        store.flush()
    os.waitpid(pid, 0)
    assert bare.git("rev-parse", REF)
    if packed:
        bare.git("pack-refs", "--all")
    disk = Disk(monkeypatch)
    with ThreadStore.open(bare.path, **{**QUIET, "sync": True}) as store:
        store.flush()
        assert disk.before() >= ({"packed-refs", ".", "refs"} if packed else {*FOLDERS, REF})
        put(store, "t", "2")
        store.flush()
        assert len(disk.before()) <= 5
        store.delete("t")
        disk.seen.clear()
        store.delete("t")  # maybe of one who was killed
        assert {"refs", "."} <= set(disk.seen)
