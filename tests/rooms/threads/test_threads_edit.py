"""Edits of threads: delete, copy, prune, join."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gitbaton.base.errors import NotFoundError, RecordError, UsageError
from gitbaton.git.repo import discover
from gitbaton.langgraph.threads.build import Side, apart
from gitbaton.langgraph.threads.chain import LateWrites, ThreadChain
from gitbaton.langgraph.threads.codec import ThreadCheckpoint
from gitbaton.langgraph.threads.health import reader
from gitbaton.langgraph.threads.names import late_ref, ref_of
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.threads import Model, agree, ids, numbered, put, row, rows, text, two

REF = ref_of("t", "")


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
    def told(entry: ThreadCheckpoint) -> Any:
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


def test_prune_drops_late_writes_of_what_goes(bare: Sandbox, store: ThreadStore) -> None:
    numbered(store, 60)
    store.flush()
    late = ("001", "059", "0585", "060")
    for id in late:
        store.put_writes("t", "", id, [row("a", 0, id.encode())], replace=False)
    store.flush()
    assert bare.git("rev-parse", late_ref("t", ""))
    assert rows(store, "001") == [b"001"]
    store.prune(["t"])
    put(store, "t", "060", "059")
    put(store, "t", "001")
    put(store, "t", "0585")
    assert [rows(store, id) for id in ("001", "0585", "059", "060")] == [[], [], [b"059"], [b"060"]]
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
    assert [entry.id for entry in store.walk("t", "")] == list("9543210")


def test_a_copy_costs_refs_only(bare: Sandbox, store: ThreadStore) -> None:
    numbered(store, 5)
    put(store, "t", "1", namespace="sub")
    store.flush()
    before = bare.git("count-objects", "-v")
    store.copy("t", "u")
    assert bare.git("count-objects", "-v") == before
    assert bare.git("rev-parse", ref_of("u", "")) == bare.git("rev-parse", REF)
    assert store.chains() == [("t", ""), ("t", "sub"), ("u", ""), ("u", "sub")]


def fetched(store: ThreadStore, here: Sandbox, there: Sandbox) -> None:
    """Join what the other clone has, as sync does."""
    here.git("fetch", "-q", str(there.path), "+refs/baton/*:refs/theirs/*")
    found = dict(line.split(" ") for line in here.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines())
    tip = found["refs/theirs/" + REF.removeprefix("refs/baton/")]
    late = found.get("refs/theirs/" + late_ref("t", "").removeprefix("refs/baton/"))
    joined(store, here, tip, late)


def joined(store: ThreadStore, here: Sandbox, tip: str, late: str | None) -> None:
    """Take in another chain of the thread, and its late writes."""
    with closing(discover(str(here.path))) as repo:
        of = (reader(repo.objects), repo.layout.algorithm)
        theirs = Side(ThreadChain(*of, bytes.fromhex(tip)), LateWrites(*of, bytes.fromhex(late) if late else None))
        store.join("t", "", lambda ours: apart(ours, theirs, None).made(ours, theirs))


@pytest.mark.deep
def test_clones_that_join_each_other_come_to_the_same(tmp_path: Path) -> None:
    one, two_, here, there = two(tmp_path, 50)
    for number, store in enumerate((one, two_)):
        put(store, "t", f"05{number + 1}", "049")
        put(store, "t", "0055", channels={"c": ("str", b"%d" % number)})  # in both, and different
        for id in ("002", "003"[: 3 - number], "048", "0055", "099"):
            store.put_writes("t", "", id, [row("both", 0, b"%d" % number), row(f"{number}", 0, b"")], replace=False)
        store.flush()
    fetched(one, here, there)
    fetched(two_, there, here)
    assert here.git("rev-parse", REF) == there.git("rev-parse", REF)
    assert ids(one) == ids(two_) == sorted([*(f"{n:03}" for n in range(50)), "051", "052", "0055"], reverse=True)
    for store in (one, two_):
        put(store, "t", "099")
        assert rows(store, "002") == rows(store, "048") == rows(store, "0055") == rows(store, "099") == [b"", b"", b"1"]
        assert rows(store, "003") == [b"", b"0"]
    one.close()
    two_.close()
    here.fsck()
    there.fsck()


@pytest.mark.deep
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
            joined(store, bare, tip, late)
    assert bare.git("for-each-ref") == before


@pytest.mark.deep
def test_hundreds_of_threads_move_at_once(bare: Sandbox, store: ThreadStore) -> None:
    for number in range(200):
        put(store, f"t{number}", "1")
    store.flush()
    assert len(store.chains()) == 200
    for number in range(0, 200, 2):
        put(store, f"t{number}", "2")
    store.prune([f"t{number}" for number in range(200)], "delete")
    assert store.chains() == []
    assert bare.git("for-each-ref") == ""
