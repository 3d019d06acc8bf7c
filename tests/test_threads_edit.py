"""Edits of threads, and what git does to their refs; other kinds of repository, memory, and the worker."""

from __future__ import annotations

import copy
import gc
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitbaton.errors import BatonError, GitError, NotFoundError, RecordError, UsageError
from gitbaton.git.repo import discover
from gitbaton.threads import build, flush, worker
from gitbaton.threads import store as module
from gitbaton.threads.names import late_ref, ref_of
from gitbaton.threads.store import ThreadStore
from gitbaton.threads.values import Entry, Row
from tests.support import Sandbox
from tests.support.threads import Model, agree, put, text, values

QUIET: dict[str, Any] = {"sync": False, "every": 1 << 30, "idle": 1e6}
REF = ref_of("t", "")


@pytest.fixture
def bare(tmp_path: Path) -> Sandbox:
    """An empty bare repository."""
    return Sandbox.init(tmp_path / "r.git", "--bare")


@pytest.fixture
def store(bare: Sandbox) -> Iterator[ThreadStore]:
    with ThreadStore.open(bare.path, **QUIET) as opened:
        yield opened


def ids(store: ThreadStore, thread: str = "t", namespace: str = "") -> list[str]:
    """The checkpoints of a thread, newest first."""
    return [entry.id for entry in store.walk(thread, namespace)]


def row(task: str, index: int, data: bytes) -> Row:
    return ("", task, index, "c", "bytes", data)


def rows(store: ThreadStore, id: str, thread: str = "t") -> list[bytes]:
    entry = store.entry(thread, "", id)
    assert entry is not None
    return [each[5] for each in store.rows(thread, "", entry)]


def numbered(store: ThreadStore, count: int, thread: str = "t", start: int = 0) -> None:
    for number in range(start, start + count):
        put(store, thread, f"{number:03}", f"{number - 1:03}" if number else None)


# ---- prune and delta channels


def delta(store: ThreadStore, id: str, parent: str | None, *, held: str = "", counters: str = "") -> None:
    """A checkpoint with some of the channels x and y, whose metadata counts those of ``counters``."""
    channels = {name: ("str", id.encode()) for name in (*held, "c")}
    more: dict[str, Any] = {"counters_since_delta_snapshot": {name: [1, 1] for name in counters}} if counters else {}
    put(store, "t", id, parent, channels=channels, **more)
    store.put_writes("t", "", id, [row("task", 0, id.encode())], replace=False)


@pytest.mark.parametrize("flushed", [False, True])
def test_prune_keeps_what_delta_channels_are_put_together_from(store: ThreadStore, *, flushed: bool) -> None:
    delta(store, "1", None, counters="x")
    delta(store, "2", "1", held="x", counters="x")
    delta(store, "4", "2", held="y", counters="xy")
    delta(store, "3", "4", counters="xy")  # a parent with a greater id
    delta(store, "5", "1", counters="xy")  # of another branch
    delta(store, "6", "3", counters="xy")
    if flushed:
        store.flush()
    store.prune(["t"])
    assert ids(store) == ["6", "4", "3", "2"]
    assert all(rows(store, id) == [id.encode()] for id in ids(store))
    assert [entry.parent for entry in store.walk("t", "")] == ["3", "2", "4", "1"]
    store.prune(["t"])
    assert ids(store) == ["6", "4", "3", "2"]


def test_prune_keeps_to_the_root_what_no_ancestor_holds(store: ThreadStore) -> None:
    for id, parent in (("1", None), ("2", "1"), ("3", "2"), ("25", "1")):
        delta(store, id, parent, counters="x")
    store.prune(["t"])
    assert ids(store) == ["3", "2", "1"]


def test_prune_without_an_ancestor_says_which_and_changes_nothing(store: ThreadStore) -> None:
    delta(store, "1", "0", held="y")
    delta(store, "2", "1", counters="xy")
    numbered(store, 3, "other")
    for threads in (["t", "other"], ["other", "t"]):
        with pytest.raises(NotFoundError, match="checkpoint '0' of thread 't' is not here, and channel 'x' of '2'"):
            store.prune(threads)
    assert ids(store) == ["2", "1"]
    assert len(ids(store, "other")) == 3


def test_prune_goes_round_no_circle_of_parents(store: ThreadStore) -> None:
    delta(store, "1", "2", counters="x")
    delta(store, "2", "1", counters="x")
    store.prune(["t"])
    assert ids(store) == ["2", "1"]


def test_metadata_that_json_does_not_carry_is_asked_for(store: ThreadStore) -> None:
    def told(entry: Entry) -> Any:
        return json.loads(store.blob(entry.rest["md"])[1])

    for id, parent, run in (("1", None, "r1"), ("2", "1", "r2")):
        md = text({"run_id": run, "counters_since_delta_snapshot": {"x": [1, 1]}})
        store.put("t", "", id, parent, b"{}", b"", {"c": ("str", b"")}, {"md": ("odd", md)})
    numbered(store, 1, "other")
    store.prune(["t"], metadata=told)
    assert ids(store) == ["2", "1"]
    store.delete_runs(["r2"])
    assert ids(store) == ["2", "1"]
    store.delete_runs(["r2"], metadata=told)
    assert ids(store) == ["1"]


def test_prune_and_delete_of_what_is_not_there(bare: Sandbox, store: ThreadStore) -> None:
    numbered(store, 2)
    store.flush()
    before = bare.git("for-each-ref")
    store.prune(["none"])
    store.prune([])
    store.prune(["none"], "delete")
    store.delete("none")
    store.delete_runs([])
    store.delete_runs(["none"])
    store.copy("none", "t")
    store.copy("t", "t")
    assert bare.git("for-each-ref") == before
    with pytest.raises(UsageError, match="strategy 'all' is neither 'keep_latest' nor 'delete'"):
        store.prune(["t"], "all")


def test_prune_drops_late_writes_of_what_goes(bare: Sandbox, store: ThreadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "NEAR", 2)
    numbered(store, 8)
    store.flush()
    for id in ("001", "007", "0065", "008"):
        store.put_writes("t", "", id, [row("a", 0, id.encode())], replace=False)
    store.flush()
    assert bare.git("rev-parse", late_ref("t", ""))
    assert rows(store, "001") == [b"001"]
    store.prune(["t"])
    put(store, "t", "008", "007")
    put(store, "t", "001")
    put(store, "t", "0065")
    assert [rows(store, id) for id in ("001", "0065", "007", "008")] == [[], [], [b"007"], [b"008"]]
    store.prune(["t"], "delete")
    assert bare.git("for-each-ref") == ""


# ---- copy and join


def test_a_copy_into_a_thread_that_exists_is_a_union(store: ThreadStore) -> None:
    model = Model()
    for thread, names, mark in (("s", "124", b"s"), ("t", "235", b"t")):
        for id in names:
            model.put((thread, ""), id, put(store, thread, id, channels={"c": ("bytes", mark)}))
            for batch in ([row("both", 0, mark)], [row(thread, 0, mark)]):
                store.put_writes(thread, "", id, batch, replace=False)
                model.writes((thread, ""), id, batch, replace=False)
        for id in ("0", "9"):  # that are not here
            store.put_writes(thread, "", id, [row("both", 0, mark)], replace=False)
            model.writes((thread, ""), id, [row("both", 0, mark)], replace=False)
    store.copy("s", "t")
    model.copy("s", "t")
    for id in ("0", "9"):
        for thread in ("s", "t"):
            model.put((thread, ""), id, put(store, thread, id))
    agree(store, model)
    store.copy("s", "u")
    model.copy("s", "u")
    agree(store, model)


def test_a_copy_costs_refs_only(bare: Sandbox, store: ThreadStore) -> None:
    numbered(store, 5)
    put(store, "t", "1", namespace="sub")
    store.flush()
    before = bare.git("count-objects", "-v")
    store.copy("t", "u")
    assert bare.git("count-objects", "-v") == before
    assert bare.git("rev-parse", ref_of("u", "")) == bare.git("rev-parse", REF)
    assert store.chains() == [("t", ""), ("t", "sub"), ("u", ""), ("u", "sub")]


def two(tmp_path: Path, common: int = 5) -> tuple[ThreadStore, ThreadStore, Sandbox, Sandbox]:
    """A repository and its clone, both with a thread."""
    one = Sandbox.init(tmp_path / "one.git", "--bare")
    with ThreadStore.open(one.path, **QUIET) as store:
        numbered(store, common)
    shutil.copytree(one.path, tmp_path / "two.git")
    other = Sandbox(tmp_path / "two.git")
    return ThreadStore.open(one.path, **QUIET), ThreadStore.open(other.path, **QUIET), one, other


def fetched(store: ThreadStore, here: Sandbox, there: Sandbox) -> None:
    """Join what the other clone has, as sync does."""
    here.git("fetch", "-q", str(there.path), "+refs/baton/*:refs/theirs/*")
    found = dict(line.split(" ") for line in here.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines())
    tip = found["refs/theirs/" + REF.removeprefix("refs/baton/")]
    late = found.get("refs/theirs/" + late_ref("t", "").removeprefix("refs/baton/"))
    store.join("t", "", bytes.fromhex(tip), bytes.fromhex(late) if late else None)


def test_clones_that_join_each_other_come_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "NEAR", 3)
    one, two_, here, there = two(tmp_path, 12)
    for number, store in enumerate((one, two_)):
        put(store, "t", f"01{number + 3}", "011")
        put(store, "t", "0055", channels={"c": ("str", b"%d" % number)})  # in both, and different
        for id in ("002", "003"[: 3 - number], "010", "0055", "099"):
            store.put_writes("t", "", id, [row("both", 0, b"%d" % number), row(f"{number}", 0, b"")], replace=False)
        store.flush()
    fetched(one, here, there)
    fetched(two_, there, here)
    assert here.git("rev-parse", REF) == there.git("rev-parse", REF)
    assert ids(one) == ids(two_) == sorted([*(f"{n:03}" for n in range(12)), "013", "014", "0055"], reverse=True)
    for store in (one, two_):
        put(store, "t", "099")
        assert rows(store, "002") == rows(store, "010") == rows(store, "0055") == rows(store, "099") == [b"", b"", b"1"]
        assert rows(store, "003") == [b"", b"0"]
    one.close()
    two_.close()
    here.fsck()
    there.fsck()


def test_a_chain_that_goes_on_from_ours_is_taken_as_it_is(tmp_path: Path) -> None:
    one, two_, here, there = two(tmp_path)
    numbered(two_, 3, start=5)
    two_.flush()
    fetched(one, here, there)
    assert here.git("rev-parse", REF) == there.git("rev-parse", REF)
    fetched(two_, there, here)
    assert here.git("rev-parse", REF) == there.git("rev-parse", REF)
    numbered(one, 1, start=8)
    one.flush()
    tip = here.git("rev-parse", REF)
    fetched(one, here, there)
    assert here.git("rev-parse", REF) == tip
    one.close()
    two_.close()


def test_a_join_of_what_is_not_ours_changes_nothing(bare: Sandbox, store: ThreadStore) -> None:
    numbered(store, 3)
    store.flush()
    before = bare.git("for-each-ref")
    tree = bare.git("hash-object", "-t", "tree", "-w", "--stdin")
    stranger = bare.git("commit-tree", tree, "-m", "hello")
    for tip, late in ((stranger, None), (tree, None), (bare.git("rev-parse", REF), stranger)):
        with pytest.raises(RecordError):
            store.join("t", "", bytes.fromhex(tip), bytes.fromhex(late) if late else None)
    assert bare.git("for-each-ref") == before


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


def test_a_flush_builds_on_a_ref_that_was_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two_, here, there = two(tmp_path)
    numbered(two_, 3, start=5)
    two_.put_writes("t", "", "004", [row("theirs", 0, b"2")], replace=False)
    two_.close()
    put(one, "t", "0055", "005")
    one.put_writes("t", "", "004", [row("ours", 0, b"1")], replace=False)
    move, moved = flush._move, list[str]()

    def between(*args: Any) -> Any:
        """Somebody fetches between our look at the ref and our move of it."""
        if not moved:
            moved.append(here.git("fetch", "-q", str(there.path), "+refs/baton/*:refs/baton/*"))
        return move(*args)

    monkeypatch.setattr(flush, "_move", between)
    one.flush()
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
    with pytest.raises(RecordError):
        store.copy("u", "v")
    store.delete("t")
    assert store.chains() == [("u", "")]
    store.copy("u", "v")
    assert store.chains() == [("u", ""), ("v", "")]


def test_a_lock_that_a_killed_process_left_is_waited_out(
    bare: Sandbox, store: ThreadStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered(store, 1)
    store.flush()
    lock = bare.path / f"{REF}.lock"
    lock.touch()
    os.utime(lock, (time.time() - 60, time.time() - 60))
    numbered(store, 1, start=1)
    store.flush()
    assert bare.git("rev-list", "--count", REF) == "2"


# ---- other kinds of repository, and of owner


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


def test_a_repository_that_cannot_be_written_is_read(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadStore.open(bare.path, **QUIET) as store:
        numbered(store, 3)
    real = os.open

    def refuse(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and os.fsdecode(path).startswith(str(bare.path)):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest, **named)

    def refuse_folder(path: Any, *_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        patched.setattr(os, "mkdir", refuse_folder)
        patched.setattr(os, "makedirs", refuse_folder)
        with ThreadStore.open(bare.path, **QUIET) as store:
            assert ids(store) == ["002", "001", "000"]
            assert [values(store, entry)["c"][1] for entry in store.walk("t", "")] == [b"002", b"001", b"000"]
            store.flush()
            for change in (lambda: put(store, "t", "9"), lambda: store.delete("t"), lambda: store.prune(["t"])):
                with pytest.raises(GitError):
                    change()
    with ThreadStore.open(bare.path, **QUIET) as store:
        assert len(ids(store)) == 3


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


def test_a_store_that_nobody_closed_is_closed_when_it_is_gone(bare: Sandbox) -> None:
    store = ThreadStore.open(bare.path, **QUIET)
    put(store, "t", "1")
    del store
    gc.collect()
    end = time.monotonic() + 5
    while (bare.path / "baton" / "wal").exists() and time.monotonic() < end:
        time.sleep(0.005)
    assert bare.git("rev-list", "--count", REF) == "1"


def test_a_process_that_ends_flushes(bare: Sandbox) -> None:
    lines = "from gitbaton.threads.store import ThreadStore; store = ThreadStore.open('.')"
    done = bare.run("python", "-c", f"{lines}; store.put('t', '', '1', None, b'{{}}', b'{{}}', {{}})")
    assert (done.code, done.err) == (0, "")
    assert bare.git("rev-list", "--count", REF) == "1"
    assert not (bare.path / "baton" / "wal").exists()


# ---- memory, threads, the worker


def test_what_is_beyond_the_cache_is_read_from_git(bare: Sandbox) -> None:
    with ThreadStore.open(bare.path, **{**QUIET, "cache": 40_000}) as store:
        for number in range(200):
            put(store, "t", f"{number:03}", channels={"c": ("str", b"%d" % number * 300)})
            if number % 20 == 0:
                store.flush()
        store.flush()
        for entry in store.walk("t", ""):
            assert values(store, entry)["c"] == ("str", b"%d" % int(entry.id) * 300)
        core = store._core
        assert not core.table.blobs
        assert core.table.size == core.table.count == 0
        assert len(core.shelf.entries) < 30
        assert len(core.shelf.view(core.line("t", "")).known) < 30


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


def test_the_worker_flushes_when_many_wait_or_nothing_comes(bare: Sandbox) -> None:
    def flushed(store: ThreadStore) -> bool:
        end = time.monotonic() + 5
        while store._core.table.count and time.monotonic() < end:
            time.sleep(0.005)
        return not store._core.table.count

    with ThreadStore.open(bare.path, sync=False, every=5, idle=1e6) as store:
        numbered(store, 4)
        time.sleep(0.03)
        assert store._core.table.count == 4
        numbered(store, 1, start=4)
        assert flushed(store)
    with ThreadStore.open(bare.path, sync=False, every=1 << 30, idle=0.01) as store:
        numbered(store, 1, start=5)
        assert flushed(store)
        numbered(store, 1, start=6)
        assert flushed(store)
    assert bare.git("rev-list", "--count", REF) == "7"


def test_a_put_waits_where_the_log_is_far_behind(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEHIND", 10_000)
    monkeypatch.setattr(worker, "BYTES", 1 << 30)
    with ThreadStore.open(bare.path, **QUIET) as store:
        for number in range(30):
            put(store, "t", f"{number:03}", channels={"c": ("bytes", os.urandom(1000))})
            assert store._core.table.size < 12_000


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
    store.maintain()
    assert len(list((bare.path / "objects" / "pack").glob("*.pack"))) == 1
    assert ids(store) == ["3", "2", "1", "0"]
