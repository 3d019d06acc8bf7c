"""The asynchronous half waits for nobody else's threads: nodes that fill them, forks, closing, the interpreter's exit."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

import pytest

from gitbaton.base.errors import BatonError
from tests.kit.saverkit import chain, checkpoint, config, ids, number, plain, put

pytest.importorskip("langgraph.graph")

from langgraph.graph import START, StateGraph

from gitbaton.langgraph import GitSaver


class State(TypedDict):
    n: int


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[GitSaver]:
    with GitSaver(tmp_path / "threads.git", fsync=False) as opened:
        yield opened


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("gitbaton-aside")}


def ended(begun: set[threading.Thread]) -> bool:
    """Whether there are such threads, and each ends now."""
    for thread in begun:
        thread.join(5)
    return bool(begun) and not any(thread.is_alive() for thread in begun)


def test_synchronous_nodes_may_wait_for_an_asynchronous_graph(saver: GitSaver) -> None:
    """Four agents, asked from four synchronous nodes, with two threads for nodes."""

    async def answer(state: State) -> State:
        return {"n": state["n"] + 1}

    agent = StateGraph(State).add_node("answer", answer).add_edge(START, "answer").compile(checkpointer=saver)

    def asking(thread: str, loop: asyncio.AbstractEventLoop) -> Any:
        def ask(state: State) -> None:
            asked = asyncio.run_coroutine_threadsafe(agent.ainvoke({"n": 0}, config(thread, None)), loop)
            assert asked.result(timeout=5) == {"n": 1}

        return ask

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(2))
        graph = StateGraph(State)
        for name in "abcd":
            graph.add_node(name, asking(name, loop)).add_edge(START, name)
        await graph.compile(checkpointer=saver).ainvoke({"n": 0}, config("whole", None))

    asyncio.run(main())
    assert {thread for thread, _ in saver.store.chains()} == {"whole", *"abcd"}


Ask = Callable[[GitSaver], Awaitable[object]]


async def listed(saver: GitSaver) -> None:
    assert [item async for item in saver.alist(None)]


EACH: dict[str, Ask] = {
    "setup": lambda saver: saver.setup(),
    "asetup": lambda saver: saver.asetup(),
    "aget_tuple": lambda saver: saver.aget_tuple(config(id=number(0))),
    "alist": listed,
    "aput": lambda saver: saver.aput(config(), checkpoint(number(9)), {}, {}),
    "aput_writes": lambda saver: saver.aput_writes(config(id=number(1)), [("n", 1)], "task"),
    "aget_delta_channel_history": lambda saver: saver.aget_delta_channel_history(config=config(), channels=["n"]),
    "acopy_thread": lambda saver: saver.acopy_thread("t", "other"),
    "adelete_for_runs": lambda saver: saver.adelete_for_runs(["run"]),
    "aprune": lambda saver: saver.aprune(["t"]),
    "adelete_thread": lambda saver: saver.adelete_thread("t"),
    "__aexit__": lambda saver: saver.__aexit__(None, None, None),
}


def test_no_method_waits_for_the_threads_of_the_loop(tmp_path: Path) -> None:
    """They are all taken until the last method is done."""
    with GitSaver(tmp_path / "threads.git", fsync=False) as first:
        chain(first, 3)
        first.put_writes(config(id=number(0)), [("n", 1)], "task")
    saver = GitSaver(tmp_path / "threads.git", fsync=False)

    async def main() -> None:
        loop, done = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))
        taken = loop.run_in_executor(None, done.wait, 20)
        try:
            for ask in EACH.values():
                await asyncio.wait_for(ask(saver), 5)
        finally:
            done.set()
            await taken

    asyncio.run(main())
    assert {name for name, item in vars(GitSaver).items() if asyncio.iscoroutinefunction(item)} <= {
        *EACH,
        "__aenter__",
    }


@pytest.mark.deep
def test_many_at_once_are_all_done(saver: GitSaver) -> None:
    async def main() -> None:
        await asyncio.gather(*(saver.aput(config(f"t{n}"), checkpoint(number(n)), {}, {}) for n in range(200)))

    asyncio.run(main())
    assert len(list(saver.list(None))) == 200
    asyncio.run(main())  # another loop


def test_threads_end_when_the_saver_is_closed(tmp_path: Path) -> None:
    async def main(saver: GitSaver) -> None:
        before = threads()
        async with saver:
            await asyncio.gather(*(saver.aput(config(f"t{n}"), checkpoint(number(n)), {}, {}) for n in range(5)))
            begun = threads() - before
        assert ended(begun)
        with pytest.raises(BatonError, match="closed"):
            await saver.aput(config(), checkpoint(number(1)), {}, {})
        with pytest.raises(BatonError, match="closed"):
            await saver.with_allowlist([("a", "B")]).aput_writes(config(id=number(1)), [("n", 1)], "task")

    asyncio.run(main(GitSaver(tmp_path / "threads.git", fsync=False)))


@pytest.mark.full
def test_threads_end_with_a_saver_that_nobody_closes(tmp_path: Path) -> None:
    before = threads()
    saver = GitSaver(tmp_path / "threads.git", fsync=False)
    asyncio.run(saver.aput(config(), checkpoint(number(1)), {}, {}))
    begun = threads() - before
    del saver
    gc.collect()
    assert ended(begun)


def test_a_call_that_is_under_way_when_the_saver_is_closed_is_whole_or_refused(tmp_path: Path) -> None:
    saver = GitSaver(tmp_path / "threads.git", fsync=False)

    async def main() -> Any:
        puts = [asyncio.ensure_future(saver.aput(config(), checkpoint(number(n)), {}, {})) for n in range(50)]
        await puts[0]
        saver.close()
        return await asyncio.gather(*puts, return_exceptions=True)

    found = asyncio.run(main())
    acknowledged = [each["configurable"]["checkpoint_id"] for each in found if not isinstance(each, Exception)]
    assert number(0) in acknowledged and all(not isinstance(each, Exception) or isinstance(each, BatonError) for each in found)
    with GitSaver(tmp_path / "threads.git", fsync=False) as again:
        assert set(acknowledged) <= set(ids(again.list(config())))


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(saver: GitSaver) -> None:
    async def main(who: int) -> None:
        puts = (saver.aput(config(f"{who} {n}"), checkpoint(number(n)), {}, {}) for n in range(30))
        await asyncio.wait_for(asyncio.gather(*puts), 20)

    asyncio.run(main(0))
    children = []
    for who in (1, 2):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                asyncio.run(main(who))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    asyncio.run(main(3))
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    assert len(list(saver.list(None))) == 120


AT_EXIT = """
import asyncio, sys, threading, time
from gitbaton.langgraph import GitSaver
from tests.kit.saverkit import checkpoint, config, number

saver = GitSaver(sys.argv[1])

async def main():
    await saver.aput(config(), checkpoint(number(0)), {}, {})
    ready.set()
    while threading.main_thread().is_alive():
        await asyncio.sleep(0.001)
    await asyncio.gather(*(saver.aput(config(f"t{n}"), checkpoint(number(n)), {}, {}) for n in range(20)))
    assert len([item async for item in saver.alist(None)]) == 21
    print("done", flush=True)

ready = threading.Event()
threading.Thread(target=asyncio.run, args=(main(),), daemon=sys.argv[2] == "daemon").start()
ready.wait()
"""


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["thread", pytest.param("daemon", marks=pytest.mark.deep)])
def test_an_event_loop_may_outlive_the_main_thread(tmp_path: Path, kind: str) -> None:
    """The interpreter waits for the threads that are left, and what they put counts; those that it does not wait for hang
    nothing."""
    place = tmp_path / "threads.git"
    words = [sys.executable, "-W", "error", "-c", AT_EXIT, os.fspath(place), kind]
    done = subprocess.run(words, capture_output=True, timeout=60, cwd=Path(__file__).parents[3])
    assert done.returncode == 0 and (kind == "daemon" or (done.stdout, done.stderr) == (b"done\n", b"")), done
    with GitSaver(place) as saver:
        there = list(saver.list(None))
        assert len(there) == 21 or kind == "daemon"
        assert plain(saver.get_tuple(config(id=number(0)))) is not None


def swept() -> set[int]:
    """The savers among all objects that the collector knows."""
    return {id(each) for each in gc.get_objects() if isinstance(each, GitSaver)}


@pytest.mark.deep
def test_a_sweep_over_all_objects_meets_nothing_that_is_gone(tmp_path: Path) -> None:
    """As LangGraph's own tests do, and tools that count objects."""
    gc.collect()
    gc.disable()
    try:
        before = swept()
        with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
            put(saver, number(0), {"n": 1})
            assert swept() - before == {id(saver)}
        known = id(saver)
        del saver
        assert swept() - before <= {known}  # gone, or waiting for the collector
    finally:
        gc.enable()
