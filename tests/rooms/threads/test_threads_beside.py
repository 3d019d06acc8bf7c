"""A store beside git's own commands, in other kinds of repository, with other owners; its memory, and its worker."""

from __future__ import annotations

import copy
import gc
import os
import threading
import time
from pathlib import Path

import pytest

from gitbaton.base.errors import BatonError, GitError, RecordError
from gitbaton.git.repo import discover
from gitbaton.langgraph.threads.log import Log
from gitbaton.langgraph.threads.names import ref_of
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.moments import at
from tests.kit.threads import (
    QUIET,
    Model,
    agree,
    git_called,
    ids,
    in_log,
    let_go,
    log_of,
    numbered,
    put,
    refused,
    row,
    rows,
    two,
    values,
)

REF = ref_of("t", "")


# ---- what others do to refs


def test_refs_that_git_moves_are_noticed(tmp_path: Path) -> None:
    one, two_, here, there = two(tmp_path)
    numbered(two_, 3, start=5)
    two_.put_writes("t", "", "001", [row("a", 0, b"x")], replace=False)
    two_.flush()
    assert len(ids(one)) == 5
    first = here.git("rev-parse", REF)
    here.git("fetch", "-q", str(there.path), "+refs/baton/*:refs/baton/*")
    assert one.latest("t", "").id == "007"  # type: ignore[union-attr]
    assert rows(one, "001") == [b"x"]
    here.git("pack-refs", "--all")
    assert len(ids(one)) == 8
    here.git("update-ref", REF, first)
    assert one.latest("t", "").id == "004"  # type: ignore[union-attr]
    assert one.entry("t", "", "006") is None
    here.git("update-ref", "-d", REF)
    assert one.latest("t", "") is None
    here.git("update-ref", REF, first)
    here.git("pack-refs", "--all")
    assert one.latest("t", "").id == "004"  # type: ignore[union-attr]
    one.close()
    two_.close()


@pytest.mark.deep
def test_a_flush_builds_on_a_ref_that_was_moved(tmp_path: Path) -> None:
    one, two_, here, there = two(tmp_path)
    numbered(two_, 3, start=5)
    two_.put_writes("t", "", "004", [row("theirs", 0, b"2")], replace=False)
    two_.close()
    put(one, "t", "0055", "005")
    one.put_writes("t", "", "004", [row("ours", 0, b"1")], replace=False)
    moved = list[str]()

    def between(_: object) -> None:
        """Somebody fetches between our look at the ref and our move of it."""
        if not moved:
            moved.append(here.git("fetch", "-q", str(there.path), "+refs/baton/*:refs/baton/*"))

    with at("os.posix_spawn", git_called("update-ref"), between):
        one.flush()
    assert moved
    assert ids(one) == ["007", "006", "0055", "005", "004", "003", "002", "001", "000"]
    assert rows(one, "004") == [b"1", b"2"]
    one.close()
    here.fsck()


def test_what_a_put_took_over_comes_back_when_its_ref_was_removed(bare: Sandbox, store: ThreadStore) -> None:
    put(store, "t", "1", channels={"c": ("str", b"c" * 5000)})
    store.flush()
    above = store.latest("t", "")
    assert above is not None
    assert values(store, above)
    put(store, "t", "2", "1", channels={"c": above.channels["c"]})
    bare.git("update-ref", "-d", REF)
    bare.git("gc", "-q", "--prune=now")
    assert ids(store) == ["2"]
    store.flush()
    bare.fsck()
    assert values(store, store.latest("t", "")) == {"c": ("str", b"c" * 5000)}  # type: ignore[arg-type]


def test_a_thread_that_cannot_be_read_harms_no_other_and_can_be_deleted(bare: Sandbox, store: ThreadStore) -> None:
    tree = bare.git("hash-object", "-t", "tree", "-w", "--stdin")
    bare.git("update-ref", REF, bare.git("commit-tree", tree, "-m", "hello"))
    with pytest.raises(RecordError):
        store.latest("t", "")
    put(store, "t", "1")
    put(store, "u", "1")
    with pytest.raises(RecordError):
        store.flush()
    assert bare.git("rev-parse", ref_of("u", ""))
    store.copy("u", "v")
    with pytest.raises(RecordError):
        store.copy("u", "t")
    store.delete("t")
    assert store.chains() == [("u", ""), ("v", "")]
    store.flush()


@pytest.mark.deep
def test_a_lock_that_a_killed_process_left_is_waited_out(bare: Sandbox, store: ThreadStore) -> None:
    numbered(store, 1)
    store.flush()
    lock = bare.path / f"{REF}.lock"
    lock.touch()
    os.utime(lock, (time.time() - 60, time.time() - 60))
    numbered(store, 1, start=1)
    store.flush()
    assert bare.git("rev-list", "--count", REF) == "2"


# ---- other kinds of repository, and of owner


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["--object-format=sha256", "--ref-format=reftable"])
def test_in_a_repository_that_libgit2_does_not_open(
    tmp_path: Path, new_git: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(new_git) + os.pathsep + os.environ["PATH"])
    bare, model = Sandbox.init(tmp_path / "r.git", "--bare", kind, git=new_git), Model()
    one, two_ = ThreadStore.open(bare.path, **QUIET), ThreadStore.open(bare.path, **QUIET)
    for number in range(6):
        model.put(("t", ""), f"{number}", put((one, two_)[number % 2], "t", f"{number}"))
        one.put_writes("t", "", f"{number}", [row("a", 0, b"1")], replace=False)
        model.writes(("t", ""), f"{number}", [row("a", 0, b"1")], replace=False)
        if number % 2:
            one.flush()
            agree(two_, model)
    one.copy("t", "u")
    model.copy("t", "u")
    agree(two_, model)
    two_.prune(["t"])
    model.prune("t")
    agree(one, model)
    bare.git("update-ref", "-d", ref_of("u", ""))
    model.delete("u")
    agree(one, model)
    one.close()
    two_.close()
    bare.fsck()
    assert bare.git("for-each-ref", "--format=%(refname)", "refs/baton/threads") == ref_of("t", "")


def test_a_copy_of_the_owner_shares_the_store_and_closing_twice_does_nothing(bare: Sandbox) -> None:
    class Owner:
        def __init__(self) -> None:
            self.store = ThreadStore.open(bare.path, **QUIET)

    owner = Owner()
    other = copy.copy(owner)
    assert copy.copy(owner.store) is other.store
    put(other.store, "t", "1")
    assert ids(owner.store) == ["1"]
    owner.store.close()
    other.store.close()
    for use in (lambda: owner.store.latest("t", ""), lambda: put(owner.store, "t", "2"), owner.store.flush, owner.store.chains):
        with pytest.raises(BatonError, match="closed"):
            use()


@pytest.mark.deep
def test_a_store_that_nobody_closed_is_closed_when_it_is_gone(bare: Sandbox) -> None:
    store, closed = ThreadStore.open(bare.path, **QUIET), threading.Event()
    put(store, "t", "1")
    with at("os.rmdir", lambda args: args[0] == str(log_of(bare.path)), lambda _: closed.set()):
        del store
        gc.collect()
        assert closed.wait(60)
    assert bare.git("rev-list", "--count", REF) == "1"


@pytest.mark.deep
def test_a_process_that_ends_flushes(bare: Sandbox) -> None:
    lines = "from gitbaton.langgraph.threads.store import ThreadStore; store = ThreadStore.open('.')"
    done = bare.run("python", "-c", f"{lines}; store.put('t', '', '1', None, b'{{}}', b'{{}}', {{}})")
    assert (done.code, done.err) == (0, "")
    assert bare.git("rev-list", "--count", REF) == "1"
    assert not (bare.path / "baton" / "wal").exists()


# ---- memory, threads, the worker


@pytest.mark.deep
def test_what_is_beyond_the_cache_is_read_from_git(bare: Sandbox) -> None:
    with ThreadStore.open(bare.path, **{**QUIET, "cache": 40_000}) as store:
        for number in range(200):
            put(store, "t", f"{number:03}", channels={"c": ("str", b"%d" % number * 300)})
            if number % 20 == 0:
                store.flush()
        store.flush()
        for entry in store.walk("t", ""):
            assert values(store, entry)["c"] == ("str", b"%d" % int(entry.id) * 300)
        assert in_log(bare.path) == 0


@pytest.mark.deep
def test_threads_put_side_by_side_while_the_worker_flushes(bare: Sandbox) -> None:
    wrong: list[BaseException] = []
    with ThreadStore.open(bare.path, every=16, idle=0.005) as store:

        def work(me: int) -> None:
            try:
                for number in range(60):
                    put(store, f"t{me % 2}", f"{number:03}-{me}")
                    store.put_writes(f"t{me % 2}", "", f"{number:03}-{me}", [row("a", 0, b"")], replace=False)
                    assert store.entry(f"t{me % 2}", "", f"{number:03}-{me}") is not None
                    assert len(list(store.walk(f"t{me % 2}", ""))) > number
                    assert rows(store, f"{number:03}-{me}", f"t{me % 2}") == [b""]
            except BaseException as error:
                wrong.append(error)

        helpers = [threading.Thread(target=work, args=(me,)) for me in range(4)]
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join()
        assert not wrong
        assert all(len(ids(store, f"t{thread}")) == 120 for thread in range(2))
    bare.fsck()


def test_the_log_is_flushed_when_many_wait_or_nothing_comes(bare: Sandbox) -> None:
    def flushed(store: ThreadStore, number: int) -> str:
        """How many git has when somebody flushes by himself after the next put."""
        with let_go(bare.path) as done:
            numbered(store, 1, start=number)
            assert done.wait(60)
        return bare.git("rev-list", "--count", REF)

    with ThreadStore.open(bare.path, sync=False, every=5, idle=1e6) as store:
        numbered(store, 4)
        assert flushed(store, 4) == "5"
    with ThreadStore.open(bare.path, sync=False, every=1 << 30, idle=0.01) as store:
        assert [flushed(store, 5), flushed(store, 6)] == ["6", "7"]


@pytest.mark.deep
def test_a_put_waits_where_the_log_is_far_behind(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nobody brings it into git in the background, since there can be no more threads."""

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    with ThreadStore.open(bare.path, **QUIET) as store:
        for number in range(20):
            put(store, "t", f"{number:03}", channels={"c": ("bytes", b"%3d " % number * (1 << 20))})
        assert 15 < int(bare.git("rev-list", "--count", REF)) < 20


def test_a_store_on_an_open_repository_leaves_it_to_its_owner(bare: Sandbox) -> None:
    repo = discover(str(bare.path))
    with ThreadStore(repo, **QUIET) as store:
        put(store, "t", "1")
    assert repo.objects.info(REF) is not None
    repo.close()


def test_maintain_leaves_one_pack(bare: Sandbox, store: ThreadStore) -> None:
    for number in range(4):
        put(store, "t", f"{number}")
        store.flush()
    lost = bare.git("commit-tree", "-m", "nobody refers to it", bare.git("mktree", stdin=b""))
    bare.git("repack", "-adk")
    store.maintain()
    assert bare.git("cat-file", "-t", lost) == "commit"
    assert len(list((bare.path / "objects" / "pack").glob("*.pack"))) == 1
    assert ids(store) == ["3", "2", "1", "0"]


def test_a_log_that_cannot_be_understood_is_kept(bare: Sandbox) -> None:
    """A record of another version: nothing is read past it, nothing is dropped, and every call says so."""
    with ThreadStore.open(bare.path, **QUIET) as store:
        put(store, "t", "1")
        log = Log(str(bare.path / "baton" / "wal"), sync=False)
        with log.lock():
            log.read()
            log.append(b"Z of tomorrow")
        for use in (lambda: store.latest("t", ""), lambda: put(store, "t", "2"), store.flush, lambda: store.delete("t")):
            with pytest.raises(RecordError, match="record of the log is malformed"):
                use()
        log.close()
        with pytest.raises(RecordError):
            store.close()
    log = Log(str(bare.path / "baton" / "wal"), sync=False)
    with log.lock():
        assert log.read()[-1][1] == b"Z of tomorrow"
    log.close()


def test_what_cannot_be_flushed_at_the_end_stays_in_the_log(bare: Sandbox) -> None:
    store = ThreadStore.open(bare.path, **QUIET)
    put(store, "t", "1")
    with refused(bare.path / "objects"), pytest.raises(GitError, match="Permission denied"):
        store.close()
    assert in_log(bare.path) == 1
    store.close()
    with ThreadStore.open(bare.path, **QUIET) as store:
        assert ids(store) == ["1"]
