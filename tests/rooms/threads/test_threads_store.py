"""The store of threads: what was acknowledged is there, for every process, whatever happens to it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox, examples
from tests.kit.threads import QUIET, Kept, Model, agree, killed, left_open, text

THREADS, SPACES = st.sampled_from(["a", "b/ü"]), st.sampled_from(["", "sub:1"])
FIRST = [f"{number:02}" for number in range(10, 50)]  # so many that writes to some are far from the newest
IDS = st.one_of(st.integers(0, 20), st.integers(40, 60)).map(lambda n: f"{n:02}")
RUNS = st.sampled_from(["r1", "r2"])
VALUES = st.tuples(st.binary(max_size=4), st.sampled_from([1, 1, 1, 20_000])).map(lambda some: ("bytes", some[0] * some[1]))


class Machine(RuleBasedStateMachine):
    """Two stores on one repository take turns, and a plain dict says what must come of it."""

    folder: Path
    ended = 0

    @initialize()
    def begin(self) -> None:
        path = self.folder / "now.git"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.folder / "begun.git", path)
        self.sandbox, self.model = Sandbox(path), Model()
        for id in FIRST:
            self.model.put(("a", ""), id, Kept(None, text({"id": id}), b"{}", {}))
        self.stores = [ThreadStore.open(path, **QUIET) for _ in range(2)]

    @rule(who=st.integers(0, 1), thread=THREADS, space=SPACES, id=IDS, run=RUNS, value=VALUES, parent=IDS)
    def put(self, who: int, thread: str, space: str, id: str, run: str, value: tuple[str, bytes], parent: str) -> None:
        """All values are given, or as many as can be are taken over."""
        store, place = self.stores[who], (thread, space)
        ck, md = text({"v": 2, "id": id}), text({"run_id": run})
        above = store.entry(thread, space, parent)
        known = self.model.puts.get(place, {}).get(parent)
        assert (above is None) == (known is None)
        held = dict(above.channels) if above is not None else {}
        whole = {**(known.channels if known else {}), "c": value, run: ("str", id.encode())}
        given: dict[str, bytes | tuple[str, bytes]] = {**held, "c": value, run: ("str", id.encode())}
        assert store.put(thread, space, id, parent, ck, md, given)
        self.model.put(place, id, Kept(parent, ck, md, whole))

    @rule(who=st.integers(0, 1), thread=THREADS, space=SPACES, id=IDS)
    def nothing_is_taken_over_from_nobody(self, who: int, thread: str, space: str, id: str) -> None:
        assert not self.stores[who].put(thread, space, id, "none", b"{}", b"{}", {"c": b"\1" * 20})
        if id in self.model.puts.get((thread, space), {}):
            assert not self.stores[who].put(thread, space, "x", id, b"{}", b"{}", {"c": b"\1" * 20})

    @rule(
        who=st.integers(0, 1),
        thread=THREADS,
        space=SPACES,
        id=IDS,
        keys=st.lists(st.tuples(st.sampled_from(["t1", "t/2"]), st.integers(-2, 2)), max_size=3, unique=True),
        value=VALUES,
        replace=st.booleans(),
    )
    def writes(
        self, who: int, thread: str, space: str, id: str, keys: list[tuple[str, int]], value: Any, *, replace: bool
    ) -> None:
        rows = [("p", task, index, "c", *value) for task, index in keys]
        self.stores[who].put_writes(thread, space, id, rows, replace)
        self.model.writes((thread, space), id, rows, replace=replace)

    @rule(who=st.integers(0, 1))
    def flush(self, who: int) -> None:
        self.stores[who].flush()

    @rule(who=st.integers(0, 1))
    def reopen(self, who: int) -> None:
        self.stores[who].close()
        self.stores[who] = ThreadStore.open(self.sandbox.path, **QUIET)

    @rule(thread=THREADS, space=SPACES, id=IDS, value=VALUES)
    def somebody_is_killed(self, thread: str, space: str, id: str, value: tuple[str, bytes]) -> None:
        """After what he put was acknowledged."""
        killed(lambda: left_open(self.sandbox.path).put(thread, space, id, None, b"{}", b"{}", {"c": value}))
        self.model.put((thread, space), id, Kept(None, b"{}", b"{}", {"c": value}))

    @rule(who=st.integers(0, 1), thread=THREADS)
    def delete(self, who: int, thread: str) -> None:
        self.stores[who].delete(thread)
        self.model.delete(thread)

    @rule(who=st.integers(0, 1), source=THREADS, to=THREADS)
    def copy(self, who: int, source: str, to: str) -> None:
        self.stores[who].copy(source, to)
        self.model.copy(source, to)

    @rule(who=st.integers(0, 1), thread=THREADS)
    def prune(self, who: int, thread: str) -> None:
        self.stores[who].prune([thread])
        self.model.prune(thread)

    @rule(who=st.integers(0, 1), runs=st.lists(RUNS, max_size=1))
    def delete_runs(self, who: int, runs: list[str]) -> None:
        self.stores[who].delete_runs(runs)
        self.model.delete_runs(runs)

    @rule()
    def pack_refs(self) -> None:
        self.sandbox.git("pack-refs", "--all")

    @rule(who=st.integers(0, 1))
    def look(self, who: int) -> None:
        agree(self.stores[who], self.model)

    def teardown(self) -> None:
        for store in self.stores:
            agree(store, self.model)
        for store in self.stores:
            store.close()
        assert not (self.sandbox.path / "baton" / "wal").exists()
        with ThreadStore.open(self.sandbox.path, **QUIET) as store:
            agree(store, self.model)
        self.sandbox.fsck()
        type(self).ended += 1


@pytest.mark.deep
def test_the_store_does_what_a_dict_of_dicts_does(tmp_path: Path) -> None:
    Machine.folder = tmp_path
    with ThreadStore.open(Sandbox.init(tmp_path / "begun.git", "--bare").path, **QUIET) as store:
        for id in FIRST:
            store.put("a", "", id, None, text({"id": id}), b"{}", {})
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    chosen = settings(
        max_examples=examples(400, 12), stateful_step_count=40, deadline=None, suppress_health_check=checks, database=None
    )
    run_state_machine_as_test(Machine, settings=chosen)
    assert Machine.ended > 1
