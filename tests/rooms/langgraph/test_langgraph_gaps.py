"""What LangGraph's conformance suite does not check of a saver, checked here on GitSaver."""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.saverkit import chain, checkpoint, config, ids, number, plain, put
from tests.kit.threads import with_disk

pytest.importorskip("langgraph.checkpoint.sqlite")

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, SCHEDULED
from langgraph.checkpoint.sqlite import SqliteSaver

from gitbaton.base.errors import GitError, UsageError
from gitbaton.langgraph import GitSaver


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[GitSaver]:
    with GitSaver(tmp_path / "threads.git", fsync=False) as opened:
        yield opened


def test_gap_sync_methods(saver: GitSaver) -> None:
    """No synchronous method is the base class's, and each does what it says."""
    names = ("get_tuple", "list", "put", "put_writes", "delete_thread", "delete_for_runs", "copy_thread", "prune")
    for name in (*names, "get_delta_channel_history"):
        for method in (name, f"a{name}"):
            assert getattr(GitSaver, method) is not getattr(BaseCheckpointSaver, method)
    stored = put(saver, number(0), {"a": 1, "b": [b"x", None]}, metadata={"run_id": "r1"})
    assert stored == config(id=number(0)) and saver.get(stored) == checkpoint(number(0), {"a": 1, "b": [b"x", None]})
    put(saver, number(1), {"a": 2}, parent=number(0), metadata={"run_id": "r2"})
    saver.put_writes(config(id=number(1)), [("a", 3)], "task", "~path")
    saver.copy_thread("t", "copy")
    for thread in ("t", "copy"):
        found = list(saver.list(config(thread)))
        assert ids(found) == [number(1), number(0)] and found[0].pending_writes == [("task", "a", 3)]
        assert found[0].parent_config == config(thread, id=number(0)) and found[1].parent_config is None
    saver.delete_for_runs(["r1"])
    assert ids(saver.list(config())) == ids(saver.list(config("copy"))) == [number(1)]
    saver.delete_thread("t")
    assert saver.get_tuple(config()) is None and saver.get_tuple(config("copy")) is not None
    saver.prune(["copy"], strategy="delete")
    assert list(saver.list(None)) == []


@pytest.mark.parametrize("method", ["get_tuple", "put", "put_writes", "list"])
def test_gap_a_missing_thread_id_is_the_error_of_the_other_savers(saver: GitSaver, method: str) -> None:
    empty: Any = {"configurable": {"checkpoint_ns": "", "checkpoint_id": "x"}}
    words: dict[str, Any] = {"put": (checkpoint("x"), {}, {}), "put_writes": ([("a", 1)], "task")}
    with SqliteSaver.from_conn_string(":memory:") as other:
        for each in (saver, other):
            with pytest.raises(KeyError, match="thread_id"):
                list(getattr(each, method)(empty, *words.get(method, ())) or ())
    assert list(saver.list(None)) == []


def test_gap_a_thread_id_is_text(saver: GitSaver) -> None:
    put(saver, number(0), {"a": 1}, thread=7)  # type: ignore[arg-type]
    assert plain(saver.get_tuple(config(7))) == plain(saver.get_tuple(config("7")))
    assert plain(saver.get_tuple(config(7, None)))["places"][0] == ("7", "", number(0))
    saver.delete_thread(7)  # type: ignore[arg-type]
    assert saver.get_tuple(config("7")) is None


@pytest.mark.parametrize("flushed", [False, True])
def test_gap_order_of_pending_writes(saver: GitSaver, flushed: bool) -> None:
    """By task path, task and index, in whatever order they came and wherever they are."""
    put(saver, number(0))
    tasks = [(f"~{path}", f"task {task}") for path in "ba" for task in (10, 9, 2)]
    random.Random(5).shuffle(tasks)
    for path, task in tasks:
        saver.put_writes(
            config(id=number(0)), [("x", [path, task, 0]), (ERROR, [path, task, -1]), ("y", [path, task, 2])], task, path
        )
        if flushed:
            saver.flush()
    found = saver.get_tuple(config())
    assert found is not None and found.pending_writes is not None
    # (task, index) is the key: of the two paths of a task the first to come stays, and the last of a special channel
    first, last = {task: path for path, task in reversed(tasks)}, {task: path for path, task in tasks}
    stays = [[path, task, i] for i, paths in ((-1, last), (0, first), (2, first)) for task, path in paths.items()]
    assert [value for *_, value in found.pending_writes] == sorted(stays)


@pytest.mark.parametrize("when", ["", "between", "before the checkpoint"])
def test_gap_a_write_to_a_special_channel_replaces(saver: GitSaver, when: str) -> None:
    """As InMemorySaver has it, in whatever company it comes, and wherever the one before lies: a task that failed and then
    succeeds has no error left."""
    calls: list[list[tuple[str, Any]]] = [
        [("a", 1), ("b", 1)],
        [("a", 2), ("b", 2), ("c", 2)],
        [(ERROR, "old"), (RESUME, "old")],
        [(RESUME, "new"), (SCHEDULED, "new")],
        [],
        [("a", 3), (ERROR, "of a mixed call"), ("d", 3)],
        [(INTERRUPT, "first"), ("a", 4), (INTERRUPT, "second")],
    ]
    where, other = config(id=number(0)), InMemorySaver()
    for each in (saver, other):
        if when != "before the checkpoint":
            put(each, number(0))
        for call in calls:
            each.put_writes(where, call, "task")
            if when and each is saver:
                saver.flush()
        put(each, number(0))
    for _ in range(2):
        found, wanted = saver.get_tuple(config()), other.get_tuple(config())
        assert found is not None and wanted is not None and found.pending_writes == wanted.pending_writes
        saver.flush()
    kept = (found and found.pending_writes) or []
    assert ("task", ERROR, "of a mixed call") in kept and ("task", INTERRUPT, "second") in kept and len(kept) == 7


def test_gap_list_of_everything(saver: GitSaver) -> None:
    """Without a configuration: all threads and namespaces, newest first by id, as SqliteSaver has it."""
    places = [(thread, ns) for thread in ("t/1", "t 2", "ü") for ns in ("", "child:1", "child:1|sub:2")]
    with SqliteSaver.from_conn_string(":memory:") as other:
        for n, (thread, ns) in enumerate(places * 3):
            for each in (saver, other):
                put(each, number(n * 7 % 27), {"a": n}, thread=thread, ns=ns, metadata={"step": n % 3, "who": thread})
            if n == 13:
                saver.flush()
        queries: list[dict[str, Any]] = [
            {},
            {"limit": 4},
            {"filter": {"step": 1}},
            {"filter": {"step": 1, "who": "ü"}, "limit": 1},
            {"before": config(id=number(9))},
            {"before": config(id=number(20)), "filter": {"who": "t/1"}, "limit": 2},
        ]
        for where, query in itertools.product((None, config("t 2", None), config("ü", "child:1"), config("no", None)), queries):
            found, wanted = list(saver.list(where, **query)), list(other.list(where, **query))
            assert [plain(item) for item in found] == [plain(item) for item in wanted]
        for id in (number(5), "no such"):
            assert [plain(i) for i in saver.list(config("t 2", None, id))] == [
                plain(i) for i in other.list(config("t 2", None, id))
            ]
    assert list(saver.list(None, limit=0)) == [] and len(list(saver.list(None))) == 27
    assert list(saver.list(config("t 2", None, number(5)), before=config(id=number(5)))) == []


def test_gap_a_short_listing_goes_through_few_threads(saver: GitSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first, and no thread is gone through before it is its turn: in memory, in git, and in both."""
    for n in range(80):
        put(saver, number(n), thread=f"t{n * 7 % 40}")
        if n == 60:
            saver.flush()
    walk, gone = saver.store.walk, list[str]()

    def counted(thread: str, namespace: str, below: str | None = None) -> Any:
        gone.append(thread)
        return walk(thread, namespace, below)

    monkeypatch.setattr(saver.store, "walk", counted)
    for _ in range(2):
        assert ids(saver.list(None, limit=3)) == [number(79), number(78), number(77)] and len(gone) == 3
        assert ids(saver.list(None)) == [number(n) for n in reversed(range(80))]
        gone.clear()
        saver.flush()
    listing = saver.list(None)
    assert next(listing).config == config("t33", id=number(79))
    put(saver, number(99), thread="t0")
    saver.delete_thread("t1")
    assert ids(listing) == [number(n) for n in reversed(range(79)) if n * 7 % 40 != 1]


@pytest.mark.parametrize("limit", [1, None])
def test_gap_a_listing_says_what_it_cannot_read(tmp_path: Path, limit: int | None) -> None:
    """A thread that cannot be read may be the newest of all."""
    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        for n, thread in enumerate(("broken", "whole")):
            put(saver, number(n), thread=thread)
        saver.flush()
        (tmp_path / "threads.git/refs/baton/threads/=broken/_").write_text("1" * 40 + "\n")
        with pytest.raises(GitError, match="1111 is not here"):
            list(saver.list(None, limit=limit))
        assert ids(saver.list(config("whole", None))) == [number(1)]


def test_gap_filters_compare_values(saver: GitSaver) -> None:
    """Equality as Python has it, on what was stored, whatever it looks like as text."""
    odd = [1, True, 1.0, None, "1", "true", 'a"b', "a\\b", "ü\0", [1, 2], {"step": 5}, 10**20, -3, 0.5]
    for n, value in enumerate(odd):
        put(saver, number(n), metadata={"odd": value, "step": n})
    for value in odd:
        kept = ["ü" if v == "ü\0" else v for v in odd]  # LangGraph's own functions take NUL out
        wanted = [number(n) for n, v in reversed([*enumerate(kept)]) if v == value]
        assert ids(saver.list(config(), filter={"odd": value})) == wanted
    assert ids(saver.list(config(), filter={"step": 5})) == [number(5)]
    assert ids(saver.list(config(), filter={"nothing": None})) == [number(n) for n in reversed(range(len(odd)))]
    assert ids(saver.list(config(), filter={"odd": object()})) == []


def test_gap_ids_out_of_order(tmp_path: Path) -> None:
    """The newest is the greatest id, not the last put; git's chain is sorted, too."""
    place = tmp_path / "threads.git"
    order = [number(n) for n in range(60)]
    random.Random(1).shuffle(order)
    with GitSaver(place, fsync=False) as saver:
        for n, id in enumerate(order):
            put(saver, id, {"a": id, "same": "x"}, versions={"a": id, "same": 1}, parent=order[n - 1] if n else None, new=["a"])
            saver.put_writes(config(id=id), [("a", id)], "task")
            newest = saver.get_tuple(config())
            assert newest is not None and newest.checkpoint["id"] == max(order[: n + 1])
            if n % 17 == 5:
                saver.flush()
        found = list(saver.list(config()))
        assert ids(found) == sorted(order, reverse=True) and all(
            f.pending_writes == [("task", "a", f.checkpoint["id"])] for f in found
        )
        parents = {order[n]: order[n - 1] for n in range(1, 60)}
        assert {
            i: p and p["configurable"]["checkpoint_id"] for i, p in ((f.checkpoint["id"], f.parent_config) for f in found)
        } == {
            order[0]: None,
            **parents,
        }
        assert all(f.checkpoint["channel_values"] == {"a": f.checkpoint["id"], "same": "x"} for f in found)
    bare = Sandbox(place)
    bodies = bare.git("log", "--format=%b", "refs/baton/threads/=t/_").split()
    assert [json.loads(line)["id"] for line in bodies if line.startswith("{")] == sorted(order, reverse=True)
    bare.fsck()


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("behind", [0, 3, 50])
def test_gap_the_same_id_put_twice(saver: GitSaver, flushed: bool, behind: int) -> None:
    """All of it is replaced, but its writes stay; what follows keeps its own."""
    put(saver, number(0), {"old": 1})
    put(saver, number(1), {"a": 1, "b": "stays"}, parent=number(0), metadata={"step": 1})
    saver.put_writes(config(id=number(1)), [("a", "kept")], "task")
    for n in range(behind):
        put(saver, number(2 + n), {"a": 1, "b": "stays"}, parent=number(1), new=())
    if flushed:
        saver.flush()
    put(saver, number(1), {"b": 2, "c": 3}, metadata={"step": 9, "more": True})
    for _ in range(2):
        found = plain(saver.get_tuple(config(id=number(1))))
        assert found["checkpoint"]["channel_values"] == {"b": 2, "c": 3} and found["writes"] == [("task", "a", "kept")]
        assert found["metadata"] == {"source": "loop", "step": 9, "parents": {}, "more": True}
        assert found["places"] == [("t", "", number(1)), None] and len(list(saver.list(config()))) == 2 + behind
        for n in range(behind):
            later = saver.get(config(id=number(2 + n)))
            assert later is not None and later["channel_values"] == {"a": 1, "b": "stays"}
        saver.flush()
    put(saver, number(60), {"c": 3, "b": "mine"}, versions={"c": 1, "b": 1}, parent=number(1), new=["b"])
    last = saver.get(config())
    assert last is not None and last["channel_values"] == {"c": 3, "b": "mine"}


@pytest.mark.parametrize("flushed", [False, True])
def test_gap_writes_to_a_checkpoint_that_is_not_the_tip(saver: GitSaver, flushed: bool) -> None:
    """Near the tip, far from it, and before their checkpoint is there."""
    names = chain(saver, 60)
    if flushed:
        saver.flush()
    for id in (*names[::7], number(70)):
        saver.put_writes(config(id=id), [("a", id), ("b", id)], "task", "~p")
    if flushed:
        saver.flush()
    saver.put_writes(config(id=names[7]), [("a", "too late")], "task", "~p")
    saver.put_writes(config(id=names[7]), [("a", "other")], "other", "~o")
    assert saver.get_tuple(config(id=number(70))) is None and len(list(saver.list(config()))) == 60
    put(saver, number(70), parent=names[-1])
    for _ in range(2):
        own = {f.checkpoint["id"]: f.pending_writes for f in saver.list(config())}
        for id in [*names, number(70)]:
            wanted = [("task", "a", id), ("task", "b", id)] if id in (*names[::7], number(70)) else []
            assert own[id] == ([("other", "a", "other"), *wanted] if id == names[7] else wanted)
        saver.flush()


@pytest.mark.deep
def test_gap_threads(saver: GitSaver) -> None:
    """Many threads of Python at once: each sees its own put at once, and none is lost."""
    start = threading.Barrier(8)

    def work(number_: int) -> None:
        start.wait()
        for n in range(40):
            id, thread = number(n * 8 + number_), f"t{number_ % 3}"
            put(saver, id, {"n": n, "who": number_}, thread=thread, parent=number((n - 1) * 8 + number_) if n else None)
            saver.put_writes(config(thread, id=id), [("n", n)], f"task {number_}")
            found = saver.get_tuple(config(thread, id=id))
            assert found is not None and found.checkpoint["channel_values"] == {"n": n, "who": number_}
            assert found.pending_writes == [(f"task {number_}", "n", n)]
            if n % 16 == number_:
                saver.flush()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(list(saver.list(None))) == 320
    saver.flush()
    found = list(saver.list(None))
    assert ids(found) == sorted((number(n) for n in range(320)), reverse=True) and all(f.pending_writes for f in found)


@pytest.mark.parametrize("fsync", [True, False])
def test_gap_durability(tmp_path: Path, fsync: bool) -> None:
    """A put is on disk before it returns; test_one_wait_for_the_disk_serves_all (threads): of many at once a few waits serve
    all."""
    waits: list[int] = []

    def work() -> None:
        from gitbaton.langgraph import GitSaver

        with GitSaver(tmp_path / "threads.git", fsync=fsync) as saver:
            for n in range(10):
                before = len(waits)
                put(saver, number(n))
                assert len(waits) - before >= fsync
                saver.put_writes(config(id=number(n)), [("a", 1)], "task")
                assert len(waits) - before >= 2 * fsync
        assert bool(waits) == fsync

    with_disk(waits.append, work)


@pytest.mark.deep
def test_gap_size(tmp_path: Path) -> None:
    """At most a quarter of what SqliteSaver needs at 2 KB, and a tenth at 50 KB, for the same checkpoints."""

    def on_disk(folder: Path) -> int:
        return sum(os.lstat(os.path.join(top, name)).st_blocks * 512 for top, _, names in os.walk(folder) for name in names)

    for size, share in ((2048, 4), (51200, 10)):
        words, sizes = random.Random(3), {}
        text = [f"{words.randrange(16**8):x}"[: 2 + n % 6] for n in range(4000)]
        for name in ("git", "sqlite"):
            folder, rng = tmp_path / f"{name} {size}", random.Random(4)
            folder.mkdir()
            made = (
                GitSaver(folder / "threads.git", fsync=False)
                if name == "git"
                else SqliteSaver.from_conn_string(str(folder / "db"))
            )
            with made as each:
                if isinstance(each, SqliteSaver):
                    each.conn.execute("PRAGMA synchronous=OFF")
                values = {f"c{k}": " ".join(rng.choices(text, k=size // 42)) for k in range(8)}
                versions = dict.fromkeys(values, 0)
                for n in range(400):
                    one = f"c{n % 8}"
                    values[one], versions[one] = " ".join(rng.choices(text, k=size // 42)), n
                    put(
                        each,
                        number(n),
                        values,
                        versions=versions,
                        parent=number(n - 1) if n else None,
                        new=[one] if n else None,
                    )
            sizes[name] = on_disk(folder)
        assert sizes["git"] * share <= sizes["sqlite"], (size, sizes)


def test_gap_a_strategy_that_is_none_is_refused(saver: GitSaver) -> None:
    chain(saver, 3)
    with pytest.raises(UsageError, match="keep_everything"):
        saver.prune(["t"], strategy="keep_everything")
    assert len(list(saver.list(config()))) == 3
