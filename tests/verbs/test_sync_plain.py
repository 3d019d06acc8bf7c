"""A thread of LangGraph's moves to another clone by plain git, and by gitbaton: the graph goes on there after its interrupt."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import pytest

from tests.kit.clones import Clone
from tests.kit.far import Far, ok

pytest.importorskip("langgraph")

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from gitbaton.langgraph import GitSaver
from tests.kit.tiers import some

THREADS = "refs/baton/threads/*:refs/baton/threads/*"
LATE = "refs/baton/late/*:refs/baton/late/*"
CONFIG: RunnableConfig = {"configurable": {"thread_id": "tea / 1"}}


class State(TypedDict, total=False):
    draft: str
    verdict: str


def graph(saver: GitSaver, did: list[str]) -> Any:
    """Write, and ask a human; then publish."""

    def write(state: State) -> State:
        did.append("write")
        return {"draft": "on tea"}

    def review(state: State) -> State:
        return {"verdict": interrupt({"publish?": state["draft"]})}

    def publish(state: State) -> State:
        did.append("publish")
        return {}

    made = StateGraph(State)
    made.add_node("write", write)
    made.add_node("review", review)
    made.add_node("publish", publish)
    for before, after in ((START, "write"), ("write", "review"), ("review", "publish"), ("publish", END)):
        made.add_edge(before, after)
    return made.compile(checkpointer=saver)


def begin(path: Path) -> None:
    """The graph up to its question."""
    did: list[str] = []
    with GitSaver(path, fsync=False) as saver:
        asked = graph(saver, did).invoke({}, CONFIG)
        assert did == ["write"] and asked["__interrupt__"][0].value == {"publish?": "on tea"}


def answer(saver: GitSaver, text: str) -> None:
    """The graph from its question to its end."""
    did: list[str] = []
    assert graph(saver, did).invoke(Command(resume=text), CONFIG) == {"draft": "on tea", "verdict": text}
    assert did == ["publish"]


@some("how", ["plain", "baton"])
def test_a_thread_moves_and_goes_on(tmp_path: Path, how: str) -> None:
    far = Far(tmp_path)
    begin(far.first.path)
    if how == "plain":
        far.first.git("push", "-q", "origin", THREADS, LATE)
        far.first.git("clone", "-q", str(far.remote.path), str(tmp_path / "b"))
        b = Clone(tmp_path / "b", far.clock)
        b.git("fetch", "-q", "origin", THREADS, LATE)
    else:
        ok(far.first, "push", "--threads", "--yes")
        b = far.clone()
        ok(b, "sync", "--threads")
    with GitSaver(b.path, fsync=False) as saver:
        assert graph(saver, []).get_state(CONFIG).next == ("review",)
        answer(saver, "yes")
    assert b.git("status", "--porcelain") == ""
    b.fsck()
    if how == "plain":
        b.git("push", "-q", "origin", "+" + THREADS, LATE)  # the answer was written into the newest checkpoint
        far.first.git("fetch", "-q", "origin", "+" + THREADS, LATE)
    else:
        ok(b, "push", "--threads", "--yes")
        ok(far.first, "sync", "--threads")
    with GitSaver(far.first.path, fsync=False) as saver:
        state = graph(saver, []).get_state(CONFIG)
        assert state.next == () and state.values == {"draft": "on tea", "verdict": "yes"}
        steps = [each.metadata["step"] for each in graph(saver, []).get_state_history(CONFIG)]
        assert steps == [3, 2, 1, 0, -1]


@pytest.mark.deep
def test_an_open_saver_sees_what_a_fetch_or_a_sync_moves(tmp_path: Path) -> None:
    far = Far(tmp_path)
    b = far.clone()
    with GitSaver(b.path, fsync=False) as saver:
        assert saver.get_tuple(CONFIG) is None
        begin(far.first.path)
        far.first.git("push", "-q", "origin", THREADS, LATE)
        b.git("fetch", "-q", "origin", THREADS, LATE)
        assert graph(saver, []).get_state(CONFIG).next == ("review",)
        with GitSaver(far.first.path, fsync=False) as other:
            answer(other, "no")
            ok(far.first, "push", "--threads", "--yes")  # of what an open saver has not flushed
            done = ok(b, "sync", "--threads").out
            assert "thread 'tea / 1': 2 joined, 1 changed (was " in done, done
            assert graph(saver, []).get_state(CONFIG).values["verdict"] == "no"
            other.prune(["tea / 1"])
            ok(far.first, "push", "--threads")
        ok(b, "sync", "--threads")
        assert len(list(saver.list(CONFIG))) == 1
        saver.delete_thread("tea / 1")
        assert "deleted here, and still at origin" in ok(b, "sync", "--threads").err and saver.get_tuple(CONFIG) is None
