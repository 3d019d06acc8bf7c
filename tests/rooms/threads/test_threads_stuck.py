"""A thread that git cannot take harms no other; what is edited goes whole or not at all; nobody waits for who walks."""

from __future__ import annotations

import os
import re
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gitbaton.baton import Baton
from gitbaton.errors import GitError
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import RefChange
from gitbaton.git.publish import Durable
from gitbaton.mending.doctor import examine
from gitbaton.threads import edit
from gitbaton.threads import store as storing
from gitbaton.threads.build import rebuild
from gitbaton.threads.flush import drain
from gitbaton.threads.log import Log
from gitbaton.threads.names import ref_of
from gitbaton.threads.store import ThreadStore
from gitbaton.threads.view import Shelf
from tests.kit import Sandbox
from tests.kit.threads import QUIET, put

REF = ref_of("t", "")


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


@pytest.mark.deep
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


def test_doctor_names_a_thread_that_git_cannot_take(stuck: Sandbox) -> None:
    with Baton(stuck.path) as baton:
        found = [each for each in examine(baton) if each.name == "threads-log"]
    assert [each.ok for each in found] == [True, False]
    assert re.match("thread 'bad' cannot be brought into git: object [0-9a-f]{40} is missing; the log keeps", found[1].text)


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
            store, move = ThreadStore.open(bare.path, **QUIET), Shelf.move

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

            for where, name, what in ((edit, "drain", drained), (Shelf, "move", killed)):
                setattr(where, name, what)
            store.delete("t")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    with ThreadStore.open(bare.path, **QUIET) as store:
        assert ids(store, "t") == ([] if after else ["4", "3", "2", "1"])


class Work:
    """What an edit walks and builds, each with whether the log is locked; ``beside`` is called when one is drafted."""

    def __init__(self, store: ThreadStore, monkeypatch: pytest.MonkeyPatch, beside: Callable[[], None]) -> None:
        self.walked: list[bool] = []
        self.built: list[tuple[bool, int]] = []
        kind, once, wal = type(store._core.shelf.chain(None)), edit.Draft.once, store._core.wal
        walk = kind.walk

        def counted(chain: Any, below: str | None = None) -> Iterator[Any]:
            for entry in walk(chain, below):
                self.walked.append(wal._appends.mine)
                yield entry

        def rebuilt(*args: Any, **named: Any) -> Any:
            made = rebuild(*args, **named)
            self.built.append((wal._appends.mine, sum(kind == "commit" for kind, _, _ in made.objects)))
            return made

        def drafted(draft: Any, names: Any, *rest: Any) -> None:
            once(draft, names, *rest)
            if names == ("t", "") and not wal._appends.mine:
                beside()

        monkeypatch.setattr(kind, "walk", counted)
        monkeypatch.setattr(edit, "rebuild", rebuilt)
        monkeypatch.setattr(edit.Draft, "once", drafted)


def test_others_put_while_an_edit_walks(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the walk nor what is built of it is done under the lock, but for what came since."""
    with ThreadStore.open(bare.path, **QUIET) as store, ThreadStore.open(bare.path, **QUIET) as other:
        for number in range(450):
            put(store, "t", f"{number:03}", run_id=f"r{number // 100}")
        put(store, "u", "1", run_id="r3")
        store.flush()

        def beside() -> None:
            for id, run in (("450", "r3"), ("451", "r6"), ("448", "r3")):
                put(other, "t", id, run_id=run)
            for id in ("449", "451"):
                other.put_writes("t", "", id, [row("late", id.encode())], replace=False)

        with monkeypatch.context() as patched:
            work = Work(store, patched, beside)
            store.delete_runs(["r3"])
        assert sum(work.walked) < 300 < 450 <= work.walked.count(False)
        assert [held for held, _ in work.built] == [False, False, True]
        assert work.built[-1][1] < 5 < 40 < work.built[0][1]
        assert ids(store, "t") == sorted({*(f"{n:03}" for n in range(450) if n // 100 != 3 and n != 448), "451"}, reverse=True)
        assert [len(store.rows("t", "", entry)) for entry in store.walk("t", "")][:3] == [1, 1, 0]
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

        drop = Log.drop

        def dropped(wal: Log, number: int) -> None:
            self.seen.append("drop")
            drop(wal, number)

        monkeypatch.setattr(Durable, "_flush", flushed)
        monkeypatch.setattr(Log, "drop", dropped)

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
        try:
            put(ThreadStore.open(bare.path, **{**QUIET, "sync": True}), "t", "1")
        finally:
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
        try:
            store = ThreadStore.open(bare.path, **{**QUIET, "sync": True})
            Durable._up = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
            put(store, "t", "1")
            store.flush()
        finally:
            os._exit(1)
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
        assert {"refs/baton", "."} <= set(disk.seen)  # the lowest folder that is left


def test_a_ref_that_may_not_be_written_says_so_at_once(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    said = f"'{bare.path}/{REF}.lock': Permission denied"

    def refuse(*_: object) -> None:
        raise GitError(f"cannot update a ref: {said}")

    with ThreadStore.open(bare.path, **QUIET) as store:
        put(store, "t", "1")
        began = time.monotonic()
        with monkeypatch.context() as patched, pytest.raises(GitError, match="Permission denied"):
            patched.setattr(BinaryObjects, "update", refuse)
            store.flush()
        assert time.monotonic() - began < 1
    assert bare.git("rev-list", "--count", REF) == "1"
    wrong = SimpleNamespace(code=128, err=f"fatal: cannot lock ref: Unable to create {said}", fatal=lambda: said)
    git: Any = SimpleNamespace(run=lambda *_, **__: wrong)
    door = BinaryObjects(git, str(bare.path), str(bare.path), "sha1")
    with pytest.raises(GitError, match="Permission denied"):
        door.update([RefChange(name=REF, new=None, old="0" * 39 + "1")])


@pytest.mark.parametrize(("said", "modes"), [("group", (0o2775, 0o664)), ("0640", (0o2750, 0o640)), ("false", (0o755, 0o644))])
@pytest.mark.parametrize("sync", [True, False])
def test_refs_have_the_modes_that_a_shared_repository_asks_for(
    bare: Sandbox, said: str, modes: tuple[int, int], *, sync: bool
) -> None:
    bare.git("config", "core.sharedRepository", said)
    with ThreadStore.open(bare.path, **{**QUIET, "sync": sync}) as store:
        put(store, "t", "1")
    found = [stat.S_IMODE((bare.path / path).stat().st_mode) for path in (Path(REF).parent, "refs/baton", REF)]
    assert found == [modes[0], modes[0], modes[1]]
