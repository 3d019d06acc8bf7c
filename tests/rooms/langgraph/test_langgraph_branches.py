"""Two runs of one thread at once, and a thread that is deleted while it runs: it goes as with LangGraph's in-memory saver, and
it is said; a branch that somebody asked for is not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest

from tests.kit.saverkit import config, ids, number, put

pytest.importorskip("langgraph.graph")

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from gitbaton.langgraph import GitSaver
from gitbaton.langgraph.branches import Branches

WHERE: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    n: int
    by: str


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings of ours."""
    return [item.getMessage() for item in caplog.records if item.name == "gitbaton.langgraph"]


def flow(saver: Any, name: str, meanwhile: Callable[[], object] = lambda: None) -> Any:
    """A graph of two nodes that count; in the second something else happens first, as if its process had been stopped."""

    def second(state: State) -> State:
        meanwhile()
        return {"n": state["n"] + 1, "by": name}

    graph = StateGraph(State).add_node("first", lambda state: {"n": state["n"] + 1, "by": name}).add_node("second", second)
    return graph.add_edge(START, "first").add_edge("first", "second").compile(checkpointer=saver)


def history(graph: Any) -> list[tuple[Any, ...]]:
    """What the checkpoints of the thread hold, newest first, and how far back that is which each follows."""
    states = list(graph.get_state_history(WHERE))
    found = [state.config["configurable"]["checkpoint_id"] for state in states]
    follows = [state.parent_config and found.index(state.parent_config["configurable"]["checkpoint_id"]) for state in states]
    return [
        (state.values, state.metadata["source"], state.metadata["step"], where and where - number)
        for number, (state, where) in enumerate(zip(states, follows, strict=True))
    ]


@pytest.mark.parametrize("known", [False, True])
def test_of_two_runs_at_once_the_last_to_put_is_the_newest_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, known: bool
) -> None:
    """In one process or, as far as the repository goes, in two: a saver of its own has nothing of the other's but its log."""
    seen = []
    for way in ("memory", "two savers", "one saver"):
        caplog.clear()
        with GitSaver(tmp_path / way, fsync=False) as one, GitSaver(tmp_path / way, fsync=False) as two:
            memory = InMemorySaver()
            first, second = {"memory": (memory, memory), "two savers": (one, two), "one saver": (one, one)}[way]
            if known:
                flow(first, "before").invoke({"n": 0}, WHERE, durability="sync")
            other = flow(second, "two")
            slow = flow(first, "one", lambda other=other: other.invoke({"n": 10}, WHERE, durability="sync"))  # type: ignore[misc]
            assert slow.invoke({"n": 0}, WHERE, durability="sync") == {"n": 2, "by": "one"}
            assert slow.get_state(WHERE).values == {"n": 2, "by": "one"}
            seen.append(history(slow))
            assert seen[-1][1][0] == {"n": 12, "by": "two"}
            if way == "memory":
                continue
            (said,) = told(caplog)
            both = [state.config["configurable"]["checkpoint_id"] for state in slow.get_state_history(WHERE, limit=2)]
            assert said.startswith("thread 't' has two branches: two runs of it went on at once.")
            assert all(repr(id) in said for id in both)
            named = said.split("name 'checkpoint_id': ")[1].split()[0].strip("'")
            assert named == both[1]
            back = other.invoke(None, {"configurable": {"thread_id": "t", "checkpoint_id": named}})
            assert back == {"n": 12, "by": "two"}
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("how", ["other", "same", "prune"])
def test_a_run_of_a_deleted_thread_brings_it_back_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """With all of its state, where the in-memory saver has lost what did not change since."""
    with GitSaver(tmp_path / "threads.git", fsync=False) as one, GitSaver(tmp_path / "threads.git", fsync=False) as two:
        memory = InMemorySaver()
        for saver in (memory, one):
            other = {"other": two, "same": one, "prune": two}[how] if saver is one else memory
            delete = (lambda: two.prune(["t"], strategy="delete")) if how == "prune" and saver is one else None
            slow = flow(saver, "one", delete or (lambda other=other: other.delete_thread("t")))  # type: ignore[misc]
            assert slow.invoke({"n": 0}, WHERE, durability="sync") == {"n": 2, "by": "one"}
            assert [state.metadata["step"] for state in slow.get_state_history(WHERE)] == [2]
        (said,) = told(caplog)
        found = two.get_tuple(config())
        assert found is not None and found.checkpoint["channel_values"] == {"n": 2, "by": "one"}
        assert said.startswith("thread 't' is there again: it was deleted while a run of it went on")
        assert repr(found.checkpoint["id"]) in said
        two.delete_thread("t")
        assert one.get_tuple(config()) is None


def test_nothing_is_said_of_a_branch_that_was_asked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        graph = flow(saver, "one")
        inner = flow(None, "inner")
        outer: Any = StateGraph(State).add_node("inner", inner).add_node("then", lambda state: {"n": state["n"] + 1})
        outer = outer.add_edge(START, "inner").add_edge("inner", "then").compile(checkpointer=saver)
        for each in (graph, outer):
            where: Any = {"configurable": {"thread_id": "outer" if each is outer else "t"}}
            each.invoke({"n": 0}, where)
            states = list(each.get_state_history(where))
            for old in states[1:]:
                for durability in ("sync", "async", "exit"):
                    each.invoke(None, old.config, durability=durability)
            each.invoke({"n": 5}, states[1].config)
            each.invoke(None, each.update_state(states[1].config, {"n": 7}))
            each.update_state(states[1].config, None, as_node="__copy__")
            asyncio.run(each.ainvoke({"n": 6}, states[2].config))
            each.invoke({"n": 1}, where)
            saver.delete_thread(where["configurable"]["thread_id"])
            each.invoke({"n": 1}, where)
        saver.copy_thread("t", "copy")
        graph.invoke({"n": 1}, config("copy"))
        assert told(caplog) == []


def test_nothing_is_said_to_who_copies_checkpoints(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With or without what each follows, the oldest or the newest first, and again."""
    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        for thread, follows, order in (("a", False, 1), ("b", True, 1), ("c", True, -1), ("a", False, 1), ("c", True, -1)):
            for n in range(4)[::order]:
                put(saver, number(n), {"a": n}, thread=thread, parent=number(n - 1) if follows and n else None)
        assert told(caplog) == [] and ids(saver.list(config("c"))) == [number(n) for n in (3, 2, 1, 0)]


def test_it_is_said_once_of_a_thread(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        for ns in ("", "x" * 400):
            for n in range(5):
                put(saver, number(n), ns=ns, parent=number(0) if n else None)
    first, second = told(caplog)
    assert "thread 't' has two branches" in first and "(namespace 'xxx" in second and len(second) < 1000


def test_what_is_remembered_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """What was told, or asked for, long ago is as if it had not been."""
    branches = Branches(most=8)
    branches.asked("t", "", "0")
    assert branches.watch("t", "", "2", "0") is None
    for n in range(20):
        branches.asked("t", "", f"a{n}")
        for _ in range(2):
            tell = branches.watch(f"t{n}", "", "2", "0")
            if tell is not None:
                tell("1")
    assert len(told(caplog)) == 20 and branches.watch("t19", "", "2", "0") is None
    for place in ("t", "t0"):
        again = branches.watch(place, "", "2", "0")
        assert again is not None
        again("1")
    assert len(told(caplog)) == 22
