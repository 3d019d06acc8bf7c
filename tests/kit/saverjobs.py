"""What processes do with a GitSaver that are killed at it, or forked from one that has it open."""

from __future__ import annotations

import hashlib
import json
import operator
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, TypedDict


def digest(values: Any) -> str:
    """What tells the values of a checkpoint from any others."""
    ordered = [
        (name, sorted(value) if isinstance(value, (set, frozenset)) else value) for name, value in sorted(values.items())
    ]
    return hashlib.sha1(repr(ordered).encode()).hexdigest()


def fork(job: Callable[[], object]) -> int:
    """A child that does the job and nothing else."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            job()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


class Ledger:
    """Lines in a file: what a process knew before it died."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self.lock = threading.Lock()  # of two appends at once, no trace tells which came first

    def note(self, *words: object) -> None:
        with self.lock:
            os.write(self.fd, (json.dumps(words) + "\n").encode())


def noting(ledger: Ledger) -> Any:
    """A saver class that notes what was acknowledged, after it was."""
    from gitbaton.langgraph import GitSaver

    class Noting(GitSaver):
        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            values = dict(checkpoint["channel_values"])
            result = super().put(config, checkpoint, metadata, new_versions)
            ledger.note("put", checkpoint["id"], digest(values))
            return result

        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            super().put_writes(config, writes, task_id, task_path)
            ledger.note("writes", config["configurable"]["checkpoint_id"], task_id, len(writes))

    return Noting


class State(TypedDict):
    n: int
    log: Annotated[list[str], operator.add]


def counting(steps: int, ledger: Ledger, saver: Any) -> Any:
    """A graph that counts, with two nodes side by side in each round; each run of a node is noted, as its effect."""
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph import END, START, StateGraph

    def node(name: str) -> Any:
        def act(state: State, config: RunnableConfig) -> dict[str, Any]:
            ledger.note("ran", name, state["n"], config["configurable"]["__pregel_task_id"])
            return {"log": [f"{name}{state['n']}"]} if name != "join" else {"n": state["n"] + 1}

        return act

    graph = StateGraph(State)
    for name in ("left", "right", "join"):
        graph.add_node(name, node(name))
    graph.add_edge(["left", "right"], "join")
    for side in ("left", "right"):
        graph.add_edge(START, side)
    graph.add_conditional_edges("join", lambda state: ["left", "right"] if state["n"] < steps else END)
    return graph.compile(checkpointer=saver)


def count(place: str, ledger: str, steps: int) -> None:
    """Begin the counting graph, or go on with it."""
    noted = Ledger(ledger)
    with noting(noted)(place) as saver:
        graph = counting(steps, noted, saver)
        config: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 10_000}
        begun = graph.get_state(config).values  # its ``next`` is empty where all tasks wait to be applied
        graph.invoke(None if begun else {"n": 0, "log": []}, config, durability="sync")
        noted.note("done")


def probe(place: str, ledger: str, mode: str) -> None:
    """Three nodes in a row; the process dies when the checkpoint after the second is put. ``mode`` says in which order that put
    and the second node's writes come, as threads may have it, and which of them is acknowledged."""
    from gitbaton.langgraph import GitSaver

    noted, wrote, stored = Ledger(ledger), threading.Event(), threading.Event()

    class Probe(GitSaver):
        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            second = mode and metadata["step"] == 2
            if second and mode in ("writes first", "neither"):
                assert mode == "neither" or wrote.wait(60)
                os.kill(os.getpid(), signal.SIGKILL)
            result = super().put(config, checkpoint, metadata, new_versions)
            if second:
                stored.set()
                time.sleep(60)
            return result

        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            second = mode and ("log", ["b"]) in writes
            if second and mode == "neither":
                time.sleep(60)
            if second and mode != "writes first":
                assert stored.wait(60)
            if not second or mode != "put only":
                super().put_writes(config, writes, task_id, task_path)
            if second:
                wrote.set()
            if second and mode != "writes first":
                os.kill(os.getpid(), signal.SIGKILL)

    with Probe(place) as saver:
        in_a_row(noted, saver, "abc")


def in_a_row(noted: Ledger, saver: Any, names: Sequence[str]) -> None:
    """Run, or go on with, nodes that follow one another."""
    from langgraph.graph import START, StateGraph

    graph = StateGraph(State)

    def node(name: str) -> Any:
        def act(state: State) -> dict[str, Any]:
            noted.note(name)
            return {"log": [name]}

        return act

    for before, name in zip((START, *names), names, strict=False):
        graph.add_node(name, node(name))
        graph.add_edge(before, name)
    app: Any = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    app.invoke(None if app.get_state(config).values else {"n": 0, "log": []}, config, durability="sync")
    noted.note("done", *app.get_state(config).values["log"])


def early(place: str, id: str) -> None:
    """Writes to a checkpoint that is not there, and the end."""
    from gitbaton.langgraph import GitSaver
    from tests.kit.saverkit import config

    saver = GitSaver(place)
    saver.put_writes(config(id=id), [("a", "early")], "task")
    os.kill(os.getpid(), signal.SIGKILL)


def forking(place: str) -> None:
    """A saver that is open while its process forks: parent and child go on with it, side by side."""
    from gitbaton.langgraph import GitSaver
    from tests.kit.saverkit import config, ids, number, put

    with GitSaver(place) as saver:
        put(saver, number(0), {"who": "parent"})
        children = [fork(partial(_forked, saver, who)) for who in (1, 2)]
        for n in range(20):
            put(saver, number(10 * n + 10), {"who": "parent"}, parent=number(0), new=())
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
        found = list(saver.list(config()))
        wanted = [number(0), *(number(10 * n + 10 + who) for n in range(20) for who in range(3))]
        assert ids(found) == sorted(wanted, reverse=True)
        assert all(item.checkpoint["channel_values"] == {"who": "parent"} for item in found)


def _forked(saver: Any, who: int) -> None:
    from tests.kit.saverkit import config, number, put

    for n in range(20):
        put(saver, number(10 * n + 10 + who), {"who": "parent"}, parent=number(0), new=())
        assert saver.get(config(id=number(10 * n + 10 + who))) is not None
        if n == 10:
            saver.flush()
    if who == 2:
        saver.close()
