"""Anything may be done to GitSaver, InMemorySaver and SqliteSaver side by side: they give the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.saverkit import Saver, checkpoint, config, number, plain
from tests.kit.threads import in_log
from tests.kit.tiers import model, sized

pytest.importorskip("langgraph.checkpoint.sqlite")

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from langgraph.checkpoint.sqlite import SqliteSaver

from gitbaton.langgraph import GitSaver

THREADS, SPACES, CHANNELS = ("t", "u/%1"), ("", "child:1|é"), ("a", "b", "c.d/é")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.binary(max_size=12),
    st.lists(st.integers(0, 9), max_size=3),
    st.dictionaries(st.text("xyz", max_size=2), st.integers(-(2**63), 2**63), max_size=3),
    st.sets(st.integers(0, 9), max_size=3),
)
PLACE = (THREADS[0], SPACES[0])
PLACES = st.tuples(st.sampled_from(THREADS), st.sampled_from(SPACES))
IDS = st.integers(0, 7)
CHANGES = st.dictionaries(st.sampled_from(CHANNELS), st.one_of(st.just("gone"), st.tuples(VALUES)), max_size=3)
TAGS = st.one_of(st.integers(-2, 2), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4))
ABOUT = st.dictionaries(st.sampled_from(["step", "who", "run_id", "odd"]), TAGS, max_size=3)
REGULAR = st.lists(st.tuples(st.sampled_from(CHANNELS), VALUES), min_size=1, max_size=3)
MARKS = (ERROR, INTERRUPT, RESUME)
SPECIAL = st.lists(st.tuples(st.sampled_from(MARKS), VALUES), min_size=1, max_size=3)
MIXED = st.lists(st.tuples(st.sampled_from([*CHANNELS, *MARKS]), VALUES), min_size=2, max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("put"), PLACES, IDS, st.one_of(st.none(), IDS), CHANGES, ABOUT),
    st.tuples(st.just("put"), PLACES, IDS, st.one_of(st.none(), IDS), CHANGES, ABOUT),
    st.tuples(
        # mostly to the same checkpoint: what replaces what is seen there
        *(st.just("writes"), st.one_of(st.just(PLACE), PLACES), st.one_of(st.just(0), IDS), st.one_of(REGULAR, SPECIAL, MIXED)),
        *(st.sampled_from("vw"), st.sampled_from(["", "~a", "~b"])),
    ),
    st.tuples(st.just("delete"), st.sampled_from(THREADS)),
    st.tuples(st.just("flush")),
    st.tuples(st.just("reopen")),
)


class Side:
    """The three savers, and what the channels of each checkpoint are, as a graph would know them."""

    def __init__(self, place: Path, memory: InMemorySaver, sqlite: SqliteSaver, prefix: str) -> None:
        self.place, self.prefix = place, prefix
        self.git = GitSaver(place, fsync=False)
        self.others: tuple[Saver, ...] = (memory, sqlite)
        self.states: dict[tuple[str, str, int], tuple[dict[str, Any], dict[str, Any]]] = {}
        self.versions = itertools.count(1)

    def all(self) -> Iterator[Saver]:
        yield from (self.git, *self.others)

    def put(self, where: tuple[str, str], id: int, parent: int | None, changes: dict[str, Any], about: dict[str, Any]) -> None:
        """As LangGraph does: the parent's state, with new versions where something changed."""
        state = self.states.get((*where, parent if parent is not None else -1), ({}, {}))
        values, versions = dict(state[0]), dict(state[1])
        new: Any = {}
        for name, change in changes.items():
            if change == "gone":
                values.pop(name, None)
            else:
                values[name] = change[0]
            versions[name] = new[name] = f"{next(self.versions):04}.{id}"
        self.states[(*where, id)] = values, versions
        made = checkpoint(number(id), values, versions, versions_seen={"node": dict(versions)})
        metadata: Any = {"source": "loop", "parents": {}, **about}
        from_ = config(self.prefix + where[0], where[1], None if parent is None else number(parent))
        given = [saver.put(from_, made, metadata, new) for saver in self.all()]
        assert given[0] == given[1] == given[2]

    def do(self, step: tuple[Any, ...]) -> None:
        name, *words = step
        if name == "put":
            self.put(*words)
        elif name == "writes":
            (thread, ns), id, writes, task, path = words
            for saver in self.all():
                saver.put_writes(config(self.prefix + thread, ns, number(id)), writes, task, path)
            marks = [write for write in writes if write[0] in MARKS]
            if marks:  # SqliteSaver replaces none where there are others with it
                self.others[1].put_writes(config(self.prefix + thread, ns, number(id)), marks, task, path)
        elif name == "delete":
            for saver in self.all():
                saver.delete_thread(self.prefix + words[0])
            self.states = {key: state for key, state in self.states.items() if key[0] != words[0]}
        elif name == "flush":
            self.git.flush()
        else:
            self.git.close()
            self.git = GitSaver(self.place, fsync=False)

    def compare(self, about: dict[str, Any], before: int, limit: int) -> None:
        """Everything that can be asked for, three times."""
        for thread, ns in itertools.product(THREADS, SPACES):
            for id in (None, *map(number, range(8))):
                self.ready(self.prefix + thread, ns, id)
                self.same([saver.get_tuple(config(self.prefix + thread, ns, id)) for saver in self.all()])
            queries: list[dict[str, Any]] = [{}, {"filter": about}, {"before": config(id=number(before)), "limit": limit}]
            for query in queries:
                where = config(self.prefix + thread, ns)
                found = [list(saver.list(where, **query)) for saver in self.all()]
                assert len({len(some) for some in found}) == 1
                for some in zip(*found, strict=True):
                    self.same(list(some))
        for where in (None, *(config(self.prefix + thread, None) for thread in THREADS)):
            lists = [[plain(item) for item in saver.list(where)] for saver in self.all()]
            lists = [[item for item in some if item["places"][0][0].startswith(self.prefix)] for some in lists]
            assert [item["places"][0][2] for item in lists[0]] == [item["places"][0][2] for item in lists[2]]
            for some in lists:
                some.sort(key=lambda item: str(item["places"][0]))
            assert lists[0] == lists[1] == lists[2]

    def ready(self, thread: str, ns: str, id: str | None) -> None:
        """What is said to be in memory is what is there."""
        store = self.git.store
        found = store.ready(thread, ns, id)
        wanted = store.latest(thread, ns) if id is None else store.entry(thread, ns, id)
        if found is not None:
            assert wanted is not None
            assert all(
                getattr(found, name) == getattr(wanted, name) for name in ("id", "parent", "ck", "md", "channels", "rest")
            )

    def same(self, found: list[Any]) -> None:
        assert plain(found[0]) == plain(found[1]) == plain(found[2])


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("model"), itertools.count(), InMemorySaver()


@sized(1, 10, 400)
def test_the_three_savers_give_the_same(places: Any, count: int) -> None:
    folder, counter, memory = places

    @model(count)
    @given(st.lists(STEPS, min_size=3, max_size=25), ABOUT.filter(bool), IDS, st.integers(1, 4))
    def run(steps: list[Any], about: dict[str, Any], before: int, limit: int) -> None:
        with SqliteSaver.from_conn_string(":memory:") as sqlite:
            side = Side(folder / "threads.git", memory, sqlite, f"{next(counter)}-")
            try:
                for step in steps:
                    side.do(step)
                side.compare(about, before, limit)
                side.git.flush()
                side.compare(about, before, limit)
                assert in_log(side.place) == 0  # what was compared last came from git
            finally:
                for thread in THREADS:
                    side.git.delete_thread(side.prefix + thread)
                side.git.close()

    run()
