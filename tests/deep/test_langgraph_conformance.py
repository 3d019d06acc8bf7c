"""LangGraph's own conformance suite on GitSaver: every test of every capability, counted, asynchronous and synchronous."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.kit.saverkit import bridged, chain, config, number, put
from tests.kit.tiers import full

conformance = pytest.importorskip("langgraph.checkpoint.conformance")

from langgraph.checkpoint.base import BaseCheckpointSaver  # noqa: E402
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer  # noqa: E402

from gitbaton.langgraph import GitSaver  # noqa: E402

TESTS = dict(put=17, put_writes=10, get_tuple=10, list=16, delete_thread=5, delete_for_runs=7, copy_thread=8, prune=8)  # noqa: C408

OTHERS = [
    pytest.param(True, True, id="sync"),
    pytest.param(False, False, id="async, no fsync"),
    pytest.param(True, False, id="sync, no fsync"),
]


def report(cls: type[Any], folder: Path, **options: Any) -> Any:
    """What the suite says of a saver class, with a fresh repository for each capability."""
    numbers = itertools.count()

    async def factory() -> AsyncIterator[Any]:
        saver = cls(folder / f"{next(numbers)}.git", **options)
        yield saver
        saver.close()

    return asyncio.run(conformance.validate(conformance.checkpointer_test(name=cls.__name__)(factory)))


@pytest.mark.parametrize(
    ("sync", "fsync"),
    [pytest.param(False, True, id="async"), *(full(case) for case in OTHERS)],
)
def test_every_test_of_every_capability_passes(tmp_path: Path, sync: bool, fsync: bool) -> None:
    found = report(bridged(GitSaver) if sync else GitSaver, tmp_path, fsync=fsync).to_dict()["results"]
    assert {name: (r["detected"], r["passed"]) for name, r in found.items()} == dict.fromkeys(TESTS, (True, True))
    assert not [failure for r in found.values() for failure in r["failures"]]
    assert {name: r["tests_passed"] for name, r in found.items()} == TESTS
    assert sum(r["tests_failed"] + r["tests_skipped"] for r in found.values()) == 0
    assert sum(TESTS.values()) == 81 and len(TESTS) == 8


def test_the_count_can_fail(tmp_path: Path) -> None:
    """A saver that has half of it is called FULL by the suite; the numbers tell."""

    class Half(GitSaver):
        async def aget_tuple(self, config: Any) -> Any:
            return None

    found = report(Half, tmp_path, fsync=False).to_dict()["results"]
    assert found["get_tuple"]["tests_failed"] > 0 and found["put"]["tests_passed"] < TESTS["put"]


def histories(saver: GitSaver, where: Any, channels: list[str]) -> Mapping[str, Any]:
    """What both methods say; they must say the same."""
    now = saver.get_delta_channel_history(config=where, channels=channels)
    later = asyncio.run(saver.aget_delta_channel_history(config=where, channels=channels))
    slow = BaseCheckpointSaver.get_delta_channel_history(saver, config=where, channels=channels)
    assert now == later == slow
    return now


@pytest.fixture
def saver(tmp_path: Path) -> Any:
    with GitSaver(tmp_path / "threads.git", fsync=False) as opened:
        yield opened


def wrote(saver: GitSaver, n: int, *values: Any, channel: str = "d", task: str = "task", path: str = "") -> None:
    """Writes of one task at checkpoint number ``n``."""
    saver.put_writes(config(id=number(n)), [(channel, value) for value in values], task, path)


def test_delta_history_is_oldest_first(saver: GitSaver) -> None:
    chain(saver, 4)
    for n in (2, 0, 1):
        wrote(saver, n, f"{n}-late", task="z", path="~b")
        wrote(saver, n, f"{n}-a", f"{n}-b", task="y", path="~a")
    found = histories(saver, config(id=number(3)), ["d"])["d"]
    assert [value for _, _, value in found["writes"]] == [f"{n}-{x}" for n in range(3) for x in ("a", "b", "late")]
    assert {(task, channel) for task, channel, _ in found["writes"]} == {("y", "d"), ("z", "d")} and "seed" not in found


def test_delta_history_ends_at_the_nearest_seed(saver: GitSaver) -> None:
    for n in range(5):
        values = {"d": f"seed {n}"} if n in (0, 2) else {}
        put(saver, number(n), values, versions={"d": n}, parent=number(n - 1) if n else None)
        wrote(saver, n, n)
    found = histories(saver, config(id=number(4)), ["d"])["d"]
    assert found["seed"] == "seed 2" and [value for _, _, value in found["writes"]] == [2, 3]


def test_delta_history_leaves_out_the_targets_own_writes(saver: GitSaver) -> None:
    chain(saver, 3)
    for n in range(3):
        wrote(saver, n, n)
    for where in (config(id=number(2)), config()):
        assert [value for *_, value in histories(saver, where, ["d"])["d"]["writes"]] == [0, 1]


def test_delta_history_of_several_channels_ends_for_each_by_itself(saver: GitSaver) -> None:
    for n in range(4):
        values = {"d": "from 2"} if n == 2 else {"e": "from 0"} if n == 0 else {}
        put(saver, number(n), values, versions={"d": n, "e": n}, parent=number(n - 1) if n else None)
        saver.put_writes(config(id=number(n)), [("d", n), ("e", -n), ("f", "other")], "task")
    found = histories(saver, config(id=number(3)), ["d", "e"])
    assert found["d"] == {"seed": "from 2", "writes": [("task", "d", 2)]}
    assert found["e"] == {"seed": "from 0", "writes": [("task", "e", 0), ("task", "e", -1), ("task", "e", -2)]}
    assert sorted(found) == ["d", "e"]


def test_delta_history_of_nothing_is_empty(saver: GitSaver) -> None:
    assert histories(saver, config(), []) == {}
    assert histories(saver, config(), ["d"]) == {"d": {"writes": []}}
    chain(saver, 2)
    assert histories(saver, config(), ["d"]) == {"d": {"writes": []}}
    assert histories(saver, config(id="no such"), ["d"]) == {"d": {"writes": []}}


def test_delta_history_reaches_the_root(saver: GitSaver) -> None:
    chain(saver, 70)  # further back than writes are brought into the chain
    for n in range(70):
        wrote(saver, n, n)
    found = histories(saver, config(id=number(69)), ["d"])["d"]
    assert [value for *_, value in found["writes"]] == list(range(69)) and "seed" not in found


def test_delta_history_begins_at_a_plain_value_of_before(saver: GitSaver) -> None:
    """A thread that was written before the channel became a delta channel."""
    put(saver, number(0), {"d": ["plain"]})
    put(saver, number(1), {}, versions={"d": 2}, parent=number(0))
    put(saver, number(2), {}, versions={"d": 3}, parent=number(1))
    wrote(saver, 1, "after")
    assert histories(saver, config(), ["d"])["d"] == {"seed": ["plain"], "writes": [("task", "d", "after")]}


def test_delta_history_has_the_seeds_own_writes(saver: GitSaver) -> None:
    from langgraph.checkpoint.serde.types import _DeltaSnapshot

    put(saver, number(0), {}, versions={"d": 1})
    put(saver, number(1), {"d": _DeltaSnapshot([1, 2])}, versions={"d": 2}, parent=number(0))
    put(saver, number(2), {}, versions={"d": 3}, parent=number(1))
    wrote(saver, 0, "before the seed")
    wrote(saver, 1, "of the seed")
    found = histories(saver, config(), ["d"])["d"]
    assert found["seed"] == _DeltaSnapshot([1, 2]) and found["writes"] == [("task", "d", "of the seed")]


def test_delta_history_follows_parents_not_ids(saver: GitSaver) -> None:
    """A fork: what lies beside the way to the root does not count, whatever its id."""
    put(saver, number(0))
    put(saver, number(1), parent=number(0))
    put(saver, number(2), parent=number(0))
    put(saver, number(3), parent=number(1))
    for n in range(4):
        wrote(saver, n, n)
    assert [value for *_, value in histories(saver, config(id=number(3)), ["d"])["d"]["writes"]] == [0, 1]
    put(saver, number(4), parent=number(9))  # whose parent is not here
    assert histories(saver, config(id=number(4)), ["d"])["d"]["writes"] == []


def test_delta_history_decodes_nothing_else(tmp_path: Path) -> None:
    """The walk of the base class decodes whole checkpoints; ours what was asked for."""
    decoded = []

    class Counting(JsonPlusSerializer):
        def loads_typed(self, data: Any) -> Any:
            decoded.append(data)
            return super().loads_typed(data)

    with GitSaver(tmp_path / "threads.git", fsync=False, serde=Counting()) as saver:
        put(saver, number(0), {"big": "x" * 1000, "d": "seed"}, versions={"big": 0, "d": 0})
        for n in range(1, 50):
            put(saver, number(n), {"big": "x" * 1000}, versions={"big": n, "d": n}, parent=number(n - 1))
            saver.put_writes(config(id=number(n)), [("big", "other"), ("d", n)], "task")
        saver.flush()
        found = saver.get_delta_channel_history(config=config(), channels=["d"])["d"]
        assert found == {"seed": "seed", "writes": [("task", "d", n) for n in range(1, 49)]}
        assert len(decoded) == 49


def test_delta_history_of_parents_in_a_circle_ends(saver: GitSaver) -> None:
    put(saver, number(0), parent=number(1))
    put(saver, number(1), parent=number(0))
    wrote(saver, 0, "once")
    found = saver.get_delta_channel_history(config=config(), channels=["d"])
    assert found == {"d": {"writes": [("task", "d", "once")]}}
