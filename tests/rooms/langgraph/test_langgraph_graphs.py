"""Real graphs on GitSaver, opened anew for each step as new processes would, do what they do on InMemorySaver."""

from __future__ import annotations

import asyncio
import itertools
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from gitbaton.base.errors import NotFoundError
from tests.kit import Sandbox
from tests.kit.saverkit import Saver, config

pytest.importorskip("langgraph.graph")

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from gitbaton.langgraph import GitSaver
from tests.kit.tiers import some

Sessions = Callable[[], Any]
WHERE: Any = config("thread", None)


class Text(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    draft: str
    answer: Any


class Cipher:
    """Turns every byte around."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "turned", bytes(b ^ 0xFF for b in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return bytes(b ^ 0xFF for b in ciphertext)


def git(place: Path, **options: Any) -> Sessions:
    """A saver on the same repository, opened anew and closed each time."""
    return lambda: GitSaver(place, fsync=False, **options)


def memory() -> Sessions:
    saver = InMemorySaver()

    @contextmanager
    def session() -> Iterator[Saver]:
        yield saver

    return session


def said(state: Any) -> Any:
    """A state without what differs from run to run."""
    interrupts = sorted(str(i.value) for t in state.tasks for i in t.interrupts)
    meta = {k: v for k, v in (state.metadata or {}).items() if k in ("source", "step")}
    return state.values, state.next, interrupts, meta, bool(state.parent_config)


def words(item: object) -> str:
    """Anything as text, without the ids of interrupts."""
    return re.sub(r"id='[0-9a-f]{32}'", "id", str(item))


def history(graph: Any, where: Any = WHERE) -> list[Any]:
    return [said(state) for state in graph.get_state_history(where)]


def same(scenario: Callable[[Sessions], list[Any]], place: Path, **options: Any) -> list[Any]:
    """What a scenario sees on GitSaver, which must be what it sees on InMemorySaver; git finds nothing wrong."""
    found = scenario(git(place, **options))
    assert found == scenario(memory())
    Sandbox(place).fsck()
    return found


def reviewed(saver: Saver) -> Any:
    """Write, ask a person, publish."""

    def write(state: Text) -> Text:
        return {"draft": f"draft {len(state['log'])}", "log": ["write"]}

    def review(state: Text) -> Text:
        answer = interrupt({"publish": state["draft"]})
        return {"answer": answer, "log": [f"review {answer}"]}

    graph = StateGraph(Text)
    graph.add_node("write", write).add_node("review", review)
    graph.add_node("publish", lambda state: {"log": ["publish"]})
    graph.add_edge(START, "write").add_edge("write", "review").add_edge("publish", END)
    graph.add_conditional_edges("review", lambda state: "publish" if state["answer"] == "yes" else "write")
    return graph.compile(checkpointer=saver)


@pytest.mark.deep
@some("durability", ["sync", "async", "exit"])
@some("encrypted", [False, True])
def test_a_person_is_asked_and_answers_in_another_process(tmp_path: Path, durability: Any, encrypted: bool) -> None:
    def scenario(sessions: Sessions) -> list[Any]:
        seen: list[Any] = []
        inputs: list[Any] = [{"log": []}, Command(resume="no"), Command(resume="yes"), None]
        for given in inputs:
            with sessions() as saver:
                graph = reviewed(saver)
                seen += [*graph.stream(given, WHERE, durability=durability, stream_mode=["updates", "values"])]
                seen.append(said(graph.get_state(WHERE)))
        with sessions() as saver:
            return [*map(words, seen), *history(reviewed(saver))]

    serde = EncryptedSerializer(Cipher(), JsonPlusSerializer())
    found = same(scenario, tmp_path / "threads.git", **({"serde": serde} if encrypted else {}))
    assert found[-1][0].get("log") in ([], ["write"]) and "publish" in str(found)


@pytest.mark.deep
def test_time_travel_and_forks(tmp_path: Path) -> None:
    """An older checkpoint is replayed, and changed; the thread goes on from there, and the old way stays."""

    def scenario(sessions: Sessions) -> list[Any]:
        seen = []
        with sessions() as saver:
            graph = reviewed(saver)
            graph.invoke({"log": []}, WHERE)
            graph.invoke(Command(resume="yes"), WHERE)
        with sessions() as saver:
            graph = reviewed(saver)
            asked = next(s for s in graph.get_state_history(WHERE) if s.next == ("review",))
            seen.append(graph.invoke(None, asked.config))
            seen.append(graph.invoke(Command(resume="no"), asked.config))
        with sessions() as saver:
            graph = reviewed(saver)
            changed = graph.update_state(asked.config, {"draft": "another", "log": ["changed"]})
            seen.append(said(graph.get_state(changed)))
            seen.append(said(graph.get_state(asked.config)))
            seen.append(graph.invoke(None, changed)["draft"])
        with sessions() as saver:
            graph = reviewed(saver)
            seen.append(graph.invoke(Command(resume="yes"), WHERE))
            graph.update_state(WHERE, {"log": ["as if"]}, as_node="write")
            return [*map(words, seen), *history(graph), said(graph.get_state(asked.config))]

    found = same(scenario, tmp_path / "threads.git")
    assert "another" in found[4] and "'changed'" in found[5]


def test_a_thread_that_was_copied_goes_its_own_way(tmp_path: Path) -> None:
    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        graph = reviewed(saver)
        graph.invoke({"log": []}, WHERE)
        before = history(graph)
        saver.copy_thread("thread", "copy")
        copy = config("copy", None)
        assert history(graph, copy) == before
        assert graph.invoke(Command(resume="yes"), copy)["log"] == ["write", "review yes", "publish"]
        assert history(graph) == before and graph.get_state(WHERE).next == ("review",)
        assert graph.invoke(Command(resume="no"), WHERE)["__interrupt__"]


def nested(saver: Saver) -> Any:
    """A graph in a graph in a graph, the innermost of which asks; and tasks by Send."""

    def ask(state: Text) -> Text:
        return {"log": [f"inner {interrupt('inner?')}"]}

    inner = StateGraph(Text)
    inner.add_node("before", lambda state: {"log": ["before"]}).add_node("ask", ask)
    inner.add_edge(START, "before").add_edge("before", "ask")
    middle = StateGraph(Text)
    middle.add_node("inner", inner.compile())
    middle.add_edge(START, "inner")
    outer = StateGraph(Text)
    outer.add_node("middle", middle.compile()).add_node("part", lambda given: {"log": [f"part {given['draft']}"]})
    outer.add_conditional_edges("middle", lambda state: [Send("part", {"draft": str(n)}) for n in range(3)])
    outer.add_edge(START, "middle")
    return outer.compile(checkpointer=saver)


@pytest.mark.deep
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_graphs_in_graphs_have_namespaces(tmp_path: Path, durability: Any) -> None:
    place = tmp_path / "threads.git"

    def scenario(sessions: Sessions) -> list[Any]:
        seen = []
        with sessions() as saver:
            seen.append(nested(saver).invoke({"log": ["start"]}, WHERE, durability=durability))
        with sessions() as saver:
            state = nested(saver).get_state(WHERE, subgraphs=True)
            seen.append([said(state), said(state.tasks[0].state), said(state.tasks[0].state.tasks[0].state)])
            names = {item.config["configurable"]["checkpoint_ns"] for item in saver.list(WHERE)}
            seen.append(sorted("|".join(part.split(":")[0] for part in name.split("|")) for name in names))
        with sessions() as saver:
            graph = nested(saver)
            seen.append(graph.invoke(Command(resume="yes"), WHERE, durability=durability))
            return [*map(words, seen), *history(graph)]

    assert same(scenario, place)[2] == "['', 'middle', 'middle|inner']"
    refs = Sandbox(place).git("for-each-ref", "--format=%(refname)", "refs/baton/threads").splitlines()
    assert len(refs) == 3 and refs[-1] == "refs/baton/threads/=thread/_"


@pytest.mark.deep
def test_the_functional_api_does_not_repeat_finished_tasks(tmp_path: Path) -> None:
    def scenario(sessions: Sessions) -> list[Any]:
        ran: list[str] = []

        @task
        def step(name: str) -> str:
            ran.append(name)
            if name == "fails" and ran.count("fails") == 1:
                raise RuntimeError("once")
            return name.upper()

        def flow(saver: Saver) -> Any:
            @entrypoint(checkpointer=saver)
            def work(names: list[str], *, previous: Any = None) -> Any:
                found = [step(name).result() for name in names]
                answer = interrupt(f"{found}?")
                return entrypoint.final(value=[*found, answer], save=(previous or 0) + 1)

            return work

        seen: list[Any] = []
        with sessions() as saver, pytest.raises(RuntimeError, match="once"):
            flow(saver).invoke(["a", "b", "fails"], WHERE, durability="sync")
        inputs: list[Any] = [None, Command(resume="yes"), ["c"], Command(resume="no")]
        for given in inputs:
            with sessions() as saver:
                seen.append(flow(saver).invoke(given, WHERE, durability="sync"))
        with sessions() as saver:
            seen.append(saver.get_tuple(WHERE).checkpoint["channel_values"]["__previous__"])
        return [*map(words, seen), ran]

    assert same(scenario, tmp_path / "threads.git")[-1] == ["a", "b", "fails", "fails", "c"]


@pytest.mark.deep
def test_asynchronous_graphs(tmp_path: Path) -> None:
    """Many threads at once, on one event loop; what they leave a synchronous graph reads."""

    async def main(saver: Saver) -> list[Any]:
        graph = reviewed(saver)

        async def one(thread: str) -> list[Any]:
            where: Any = config(thread, None)
            seen: list[Any] = [await graph.ainvoke({"log": []}, where, durability="sync")]
            async for part in graph.astream(Command(resume="no"), where):
                seen.append(part)
            seen.append(await graph.ainvoke(Command(resume="yes"), where, durability="exit"))
            return [*map(words, seen), *[said(state) async for state in graph.aget_state_history(where)]]

        return [*await asyncio.gather(*(one(f"thread {n}") for n in range(8)))]

    async def whole(place: Path) -> list[Any]:
        async with GitSaver(place, fsync=False) as saver:
            return await main(saver)

    def clean(found: list[Any]) -> list[Any]:
        return [[part for part in one if "Interrupt" not in part] for one in found]

    found = asyncio.run(whole(tmp_path / "threads.git"))
    assert clean(found) == clean(asyncio.run(main(InMemorySaver())))
    with GitSaver(tmp_path / "threads.git") as saver:
        for n in range(8):
            left = history(reviewed(saver), config(f"thread {n}", None))
            assert len(left) > 5 and found[n][-len(left) :] == left


def joined(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *itertools.chain(*writes)]


class Delta(TypedDict, total=False):
    messages: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=5)]
    n: int


def growing(saver: Saver) -> Any:
    graph = StateGraph(Delta)
    graph.add_node("grow", lambda state: {"messages": [f"{state['n']}"], "n": state["n"] + 1})
    graph.add_edge(START, "grow").add_conditional_edges("grow", lambda state: END if state["n"] % 7 == 0 else "grow")
    return graph.compile(checkpointer=saver)


@pytest.mark.deep
@some("durability", ["sync", "async", "exit"])
def test_gap_prune_with_delta_channels(tmp_path: Path, durability: Any) -> None:
    """What a delta channel is rebuilt from stays; all else goes, and the thread goes on as if nothing had been pruned."""
    place = tmp_path / "threads.git"

    def scenario(sessions: Sessions) -> list[Any]:
        seen = []
        for n in range(4):
            with sessions() as saver:
                result = growing(saver).invoke({"messages": [], "n": 7 * n}, WHERE, durability=durability)
                assert result["messages"] == [str(m) for m in range(7 * n + 7)]
            with sessions() as saver:
                if isinstance(saver, GitSaver):
                    saver.prune(["thread"])
                seen.append(said(growing(saver).get_state(WHERE))[:3])
                assert seen[-1][0] == result
        return seen

    assert same(scenario, place)[-1][0]["n"] == 28
    with GitSaver(place) as saver:
        holds = ["messages" in item.checkpoint["channel_values"] for item in saver.list(WHERE)]
        assert holds == [False] * (len(holds) - 1) + [True] and (len(holds) > 1 or durability == "exit")


def ids_of(saver: Saver) -> list[str]:
    return [item.checkpoint["id"] for item in saver.list(WHERE)]


def test_gap_prune_refuses_where_an_ancestor_is_missing(tmp_path: Path) -> None:
    """What a delta channel is rebuilt from was deleted: pruning would hide that, and leaves everything as it is."""
    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        for run in ("r1", "r2"):
            where = {**WHERE, "metadata": {"run_id": run}}
            growing(saver).invoke({"messages": [], "n": 0 if run == "r1" else 7}, where)
        saver.delete_for_runs(["r2"])
        assert growing(saver).get_state(WHERE).values["messages"] == [str(n) for n in range(7)]
        middle = list(saver.list(WHERE))[1]
        before = ids_of(saver)
        assert middle.metadata.get("counters_since_delta_snapshot")
        saver.copy_thread("thread", "copy")
        lost = config("thread", "", "gone")
        saver.put(lost, {**middle.checkpoint, "id": "9" + middle.checkpoint["id"][1:]}, middle.metadata, {})
        with pytest.raises(NotFoundError, match="gone"):
            saver.prune(["copy", "thread"])
        assert ids_of(saver)[1:] == before and len(list(saver.list(config("copy", None)))) == len(before)
