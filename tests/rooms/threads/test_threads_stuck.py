"""A thread that git cannot take harms no other; what is edited goes whole or not at all; nobody waits for who walks."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
from contextlib import ExitStack
from pathlib import Path

import pytest

from gitbaton.base.errors import GitError
from gitbaton.care.mending.doctor import examine
from gitbaton.checkpoints.baton import Baton
from gitbaton.langgraph.threads.names import ref_of
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.moments import always, at
from tests.kit.processes import in_child
from tests.kit.threads import QUIET, below, git_called, ids, in_log, killed, left_open, log_of, put, row, rows, unprivileged

REF = ref_of("t", "")


@pytest.fixture
def stuck(bare: Sandbox) -> Sandbox:
    """A repository whose log has a checkpoint of "bad" that holds what git has collected."""

    def fill() -> None:
        store = left_open(bare.path)
        put(store, "bad", "1", channels={"c": ("str", b"c" * 5000)})
        store.flush()
        above = store.latest("bad", "")
        assert above is not None
        put(store, "bad", "2", "1", channels={"c": above.channels["c"]})
        store.put_writes("bad", "", "2", [row("a", 0, b"first")], replace=False)
        store.put_writes("bad", "", "2", [row("a", 0, b"lost"), row("b", 0, b"b")], replace=False)
        store.put_writes("bad", "", "2", [row("b", 0, b"second")], replace=True)

    killed(fill)
    bare.git("update-ref", "-d", ref_of("bad", ""))
    bare.git("gc", "-q", "--prune=now")
    return bare


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.deep
def test_others_go_on_beside_a_thread_that_git_cannot_take(stuck: Sandbox) -> None:
    store = ThreadStore.open(stuck.path, **QUIET)
    for number in range(40):
        put(store, "good", f"{number:02}", channels={"c": ("bytes", os.urandom(6000))})
    for _ in range(2):
        with pytest.raises(GitError, match="thread 'bad' cannot be brought into git"):
            store.flush()
        put(store, "good", "99")
    store.put_writes("bad", "", "2", [row("a", 0, b"lost"), row("c", 0, b"c")], replace=False)
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
        assert in_log(stuck.path) < 10
        assert (ids(store, "bad"), rows(store, "2", "bad")) == (["2"], [b"first", b"second", b"c"])
        with pytest.raises(GitError, match="thread 'bad'"):
            for number in range(40):  # one who adds to what cannot be brought hears of it in the end
                store.put_writes("bad", "", "2", [row(f"{number}", 0, b"%3d " % number * (1 << 20))], replace=False)
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
    assert rows(store, "2", "bad") == [b"first", b"second"]
    store.close()
    with ThreadStore.open(stuck.path, **QUIET) as store:
        assert (ids(store, "bad"), rows(store, "2", "bad"), ids(store, "good")) == (["2"], [b"first", b"second"], ["1"])
    stuck.fsck()


@pytest.mark.deep
def test_a_killed_delete_leaves_a_thread_whole_or_not_at_all(bare: Sandbox) -> None:
    """At each file that it opens, moves or removes, and each git that it begins."""
    with ThreadStore.open(bare.path, **QUIET) as store:
        for number in "123":
            put(store, "t", number)
    shutil.copytree(bare.path, bare.path.parent / "before.git")
    said, step, code, gone = bare.path.parent / "said", 0, -signal.SIGKILL, False

    def delete() -> None:
        store, other, left = left_open(bare.path), left_open(bare.path), [step]
        put(store, "t", "4")

        def beside(_: object) -> None:
            if not said.exists():  # between the flush and the lock
                put(other, "t", "5")
                said.touch()

        def counted(_: object) -> None:
            left[0] -= 1
            if left[0] < 0:
                die()

        ours = below(bare.path)
        with ExitStack() as stack:
            stack.enter_context(at("os.posix_spawn", git_called("update-ref"), beside))
            stack.enter_context(at("os.posix_spawn", always, counted))
            for event in ("open", "os.rename", "os.remove"):
                stack.enter_context(at(event, lambda args: ours(args) and "/tmp/pack." not in os.fsdecode(args[0]), counted))
            store.delete("t")

    while code == -signal.SIGKILL:
        shutil.rmtree(bare.path)
        shutil.copytree(bare.path.parent / "before.git", bare.path)
        said.unlink(missing_ok=True)
        code = in_child(delete)
        with ThreadStore.open(bare.path, **QUIET) as store:
            found = ids(store, "t")
        assert found == ["5", "4", "3", "2", "1"][not said.exists() :] or found == []
        assert found == [] or not gone
        gone, step = found == [], step + 1
    assert code == 0 and gone and step > 15


def test_others_put_while_an_edit_is_made(bare: Sandbox) -> None:
    """They wait for none of it, and what they put is edited, too."""
    with ThreadStore.open(bare.path, **QUIET) as store, ThreadStore.open(bare.path, **QUIET) as other:
        for number in range(50):
            put(store, "t", f"{number:03}", run_id=f"r{number // 10}")
        put(store, "u", "1", run_id="r3")
        store.flush()
        met = list[int]()

        def beside(_: object) -> None:
            if not met:
                for id, run in (("050", "r3"), ("051", "r6"), ("048", "r3")):
                    put(other, "t", id, run_id=run)
                for id in ("049", "051"):
                    other.put_writes("t", "", id, [row("late", 0, id.encode())], replace=False)
            met.append(1)

        with at("os.posix_spawn", git_called("pack-objects"), beside):
            store.delete_runs(["r3"])
        assert met
        assert ids(store, "t") == sorted({*(f"{n:03}" for n in range(50) if n // 10 != 3 and n != 48), "051"}, reverse=True)
        assert [len(store.rows("t", "", entry)) for entry in store.walk("t", "")][:3] == [1, 1, 0]
        assert ids(other, "u") == []
    bare.fsck()


# ---- what is on disk before the log lets go


class Disk:
    """Which refs' files and folders this process brought to disk, and when the log let go."""

    def __init__(self, bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self.log, real, top = log_of(bare.path), os.fsync, os.path.realpath(bare.path)

        def fsync(fd: int) -> None:
            path = os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), top)
            self.seen += [path] * (path in (".", "packed-refs") or path.split(os.sep)[0] == "refs")
            real(fd)

        monkeypatch.setattr(os, "fsync", fsync)

    def flushed(self, store: ThreadStore) -> set[str]:
        """What was on disk before the log let go."""
        self.seen.clear()
        with at("os.rename", below(self.log), lambda _: self.seen.append("drop")):
            store.flush()
        return set(self.seen[: self.seen.index("drop")])


FOLDERS = {"refs", "refs/baton", "refs/baton/threads", "refs/baton/threads/=t"}


@pytest.mark.parametrize("alive", [True, False])
def test_what_others_wait_for_is_on_disk_before_it_is_dropped(
    bare: Sandbox, monkeypatch: pytest.MonkeyPatch, *, alive: bool
) -> None:
    """By a store that does not wait for the disk itself; also when the one that does was killed."""
    disk = Disk(bare, monkeypatch)
    store = ThreadStore.open(bare.path, **QUIET) if alive else None
    killed(lambda: put(left_open(bare.path, sync=True), "t", "1"))
    with store or ThreadStore.open(bare.path, **QUIET) as store:
        assert disk.flushed(store) >= FOLDERS
        put(store, "t", "2")
        assert disk.flushed(store) == {"refs/baton/threads/=t"}


@pytest.mark.parametrize("packed", [True, False])
def test_a_ref_that_a_killed_process_moved_is_brought_to_disk(
    bare: Sandbox, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    def move() -> None:
        store, real = left_open(bare.path, sync=True), os.fsync
        put(store, "t", "1")
        os.fsync = lambda fd: die() if "/refs/" in os.readlink(f"/proc/self/fd/{fd}") else real(fd)
        store.flush()

    assert in_child(move) == -signal.SIGKILL
    assert bare.git("rev-parse", REF)
    if packed:
        bare.git("pack-refs", "--all")
    disk = Disk(bare, monkeypatch)
    with ThreadStore.open(bare.path, **{**QUIET, "sync": True}) as store:
        assert disk.flushed(store) >= ({"packed-refs", ".", "refs"} if packed else {*FOLDERS, REF})
        put(store, "t", "2")
        assert len(disk.flushed(store)) <= 5
        store.delete("t")
        disk.seen.clear()
        store.delete("t")  # maybe of one who was killed
        assert {"refs/baton", "."} <= set(disk.seen)  # the lowest folder that is left


def test_a_ref_that_may_not_be_written_says_so_at_once(bare: Sandbox) -> None:
    code = (
        "import os, time; from gitbaton.base.errors import GitError; from gitbaton.langgraph.threads.store import ThreadStore\n"
        "store = ThreadStore.open('.', sync=False, idle=1e6)\n"
        "store.put('t', '', '2', None, b'{}', b'{}', {})\n"
        "os.chmod('refs/baton/threads/=t', 0o555)\n"
        "time.sleep = None  # it is not tried again\n"
        "try: store.flush()\n"
        "except GitError as error: print(error.message)\n"
        "os.chmod('refs/baton/threads/=t', 0o755)\n"
    )
    with ThreadStore.open(bare.path, **QUIET) as store:
        put(store, "t", "1")
    done = unprivileged(bare, code)
    assert (done.code, done.err) == (0, "") and "Permission denied" in done.out
    assert bare.git("rev-list", "--count", REF) == "2"  # at the exit


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
