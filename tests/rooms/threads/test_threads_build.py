"""A chain built over many rebuilds, against a plain dict; and git as the judge of what was built."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.git.objects import Algorithm
from gitbaton.langgraph.threads.build import NEAR, Built
from gitbaton.langgraph.threads.chain import Batch, merged
from gitbaton.langgraph.threads.codec import Id, Row, ThreadCheckpoint, rows_of, typed_of
from gitbaton.langgraph.threads.names import late_ref, ref_of
from tests.kit import Sandbox, examples
from tests.kit.heaps import Heap

CHANNELS = ("a", "messages", "branch:to:x", "é/ü")
TASKS = ("t1", "task/2")
IDS = st.one_of(st.sampled_from((0, 7, 9)), st.integers(0, 70)).map(lambda n: f"1ef{n:03}")
VALUES = st.dictionaries(st.sampled_from(CHANNELS), st.binary(max_size=2), max_size=4)
KEYS = st.lists(st.tuples(st.sampled_from(TASKS), st.integers(-1, 1)), min_size=1, max_size=3, unique=True)
WRITES = st.tuples(st.just("rows"), IDS, KEYS, st.binary(max_size=3), st.booleans())
PUTS = st.tuples(st.just("put"), IDS, VALUES, st.integers(0, 9))
DROPS = st.tuples(st.just("drop"), IDS)
BATCHES = st.lists(st.lists(st.one_of(PUTS, PUTS, WRITES, WRITES, DROPS), max_size=6), max_size=6)


def rows(keys: Sequence[tuple[str, int]], payload: bytes = b"x", path: str = "~p") -> tuple[Row, ...]:
    return tuple((path + str(index % 2), task, index, "c", "bytes", payload) for task, index in keys)


class Model:
    """What a thread holds as a dict, beside the chain that holds it in git."""

    def __init__(self, heap: Heap) -> None:
        self.heap = heap
        self.tip: Id | None = None
        self.late: Id | None = None
        self.entries: dict[str, ThreadCheckpoint] = {}
        self.writes: dict[str, dict[tuple[str, int], Row]] = {}

    def batch(self, ops: Sequence[Any]) -> Built:
        """One rebuild: first what is removed and put, then the writes in their order."""
        puts: dict[str, ThreadCheckpoint | None] = {}
        written: dict[str, list[Batch]] = {}
        for op in ops:
            if op[0] == "put":
                puts[op[1]] = self.heap.entry(op[1], op[2], step=op[3], parent=f"p{op[3]}" if op[3] else None)
            elif op[0] == "drop":
                puts[op[1]] = None
            else:
                written.setdefault(op[1], []).append((rows(op[2], op[3]), op[4]))
        for id, entry in puts.items():
            if entry is None:
                self.entries.pop(id, None)
                self.writes.pop(id, None)
            else:
                self.entries[id] = entry
        for id, batches in written.items():
            held = self.writes.setdefault(id, {})
            for more, replace in batches:
                for row in more:
                    if replace or row[2] < 0 or (row[1], row[2]) not in held:
                        held[(row[1], row[2])] = row
        built = self.heap.rebuild(self.tip, puts, written, self.late)
        self.tip, self.late = built.tip, built.late_tip
        return built

    def own(self, entry: ThreadCheckpoint) -> list[Row]:
        return [row for task, oid in entry.written.items() for row in rows_of(self.heap.held[oid][1], task)]

    def check(self) -> None:
        chain, late = self.heap.chain(self.tip), self.heap.late(self.late)
        walked = list(chain.walk())
        assert [entry.id for entry in walked] == sorted(self.entries, reverse=True)
        assert len(chain.verify()) == len(walked)
        for entry in walked:
            put = self.entries[entry.id]
            assert (entry.parent, entry.ck, entry.md) == (put.parent, put.ck, put.md)
            assert dict(entry.channels) == dict(put.channels) and not entry.rest
            assert all(typed_of(self.heap.held[oid][1])[0] == "bytes" for oid in entry.channels.values())
            self.check_writes(entry.id, self.own(entry))
            assert (found := chain.find(entry.id)) is not None and found.commit == entry.commit
        for id in {*self.writes, *late.ids()} - self.entries.keys():
            self.check_writes(id, [])
        for id in ("", "1ef", "1ef0355", "1ef070a", *self.entries):
            assert (chain.find(id) is not None) == (id in self.entries)
            assert [entry.id for entry in chain.walk(id)] == sorted((x for x in self.entries if x < id), reverse=True)

    def check_writes(self, id: str, own: list[Row]) -> None:
        late = self.heap.late(self.late)
        assert merged(own, late.of(id)) == tuple(sorted(self.writes.get(id, {}).values()))

    def scratch(self) -> Id | None:
        """The tip of a chain of the same content that is built at once."""
        puts = {entry.id: self.entries[entry.id] for entry in self.heap.chain(self.tip).walk()}
        written = {entry.id: [(tuple(self.own(entry)), False)] for entry in self.heap.chain(self.tip).walk()}
        return self.heap.rebuild(None, puts, written).tip


@pytest.mark.full
@settings(max_examples=examples(2000, 150), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 60), BATCHES)
def test_a_chain_is_what_a_dict_would_be(first: int, batches: list[list[Any]]) -> None:
    model = Model(Heap())
    model.batch([("put", f"1ef{n:03}", {"a": b"%d" % n}, n % 10) for n in range(5, 5 + first)])
    for ops in batches:
        model.batch(ops)
    model.check()
    assert model.scratch() == model.tip, "equal content has equal ids, whatever the way"


@pytest.mark.full
@settings(max_examples=examples(300, 25), deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_batches_do_not_show_when_ids_arrive_in_order(sizes: list[int], rng: random.Random) -> None:
    ops: list[Any] = []
    for n in range(sum(sizes)):
        ops.append(("put", f"1ef{n:03}", {"a": b"%d" % n, "messages": b"%d" % (n // 5)}, n % 10))
        for _ in range(rng.randrange(3)):
            keys = [(rng.choice(TASKS), rng.randrange(-2, 3))]
            ops.append(("rows", f"1ef{n:03}", keys, rng.randbytes(2), rng.random() < 0.5))
    whole, parts = Model(Heap()), Model(Heap())
    whole.batch(ops)
    while ops:
        cut = rng.randrange(1, 40)
        parts.batch(ops[:cut])
        del ops[:cut]
    assert parts.tip == whole.tip is not None and parts.late is whole.late is None


def test_writes_near_the_tip_become_part_of_their_checkpoint_and_others_stay_apart() -> None:
    model = Model(Heap())
    model.batch([("put", f"1ef{n:03}", {"a": b"%d" % n}, 1) for n in range(100)])
    before = model.tip
    built = model.batch([("rows", f"1ef{100 - NEAR:03}", [("t1", 0)], b"near", False)])
    assert built.late_tip is None and built.tip != before and len(model.heap.anew(built)) == NEAR
    near = built.tip
    built = model.batch(
        [("rows", f"1ef{99 - NEAR:03}", [("t1", 0)], b"far", False), ("rows", "zz", [("t1", 0)], b"new", False)]
    )
    assert built.tip == near and [kind for kind, _, _ in built.objects].count("commit") == 1 and not model.heap.anew(built)
    assert sorted(model.heap.late(built.late_tip).ids()) == [f"1ef{99 - NEAR:03}", "zz"]
    model.check()
    built = model.batch([("put", "zz", {}, 1)])
    assert sorted(model.heap.late(built.late_tip).ids()) == [f"1ef{99 - NEAR:03}"] and len(model.heap.anew(built)) == 1
    built = model.batch([("put", "1ef000", {"a": b"again"}, 1)])
    assert built.late_tip is None and len(model.heap.anew(built)) == 101, "what is written anew anyhow takes its late writes in"
    model.check()


def test_a_batch_of_puts_is_within_reach_of_its_own_writes() -> None:
    model = Model(Heap())
    model.batch([("put", f"1ef{n:03}", {}, 1) for n in range(50)])
    built = model.batch(
        [("put", f"1ef{n:03}", {}, 1) for n in range(50, 70)]
        + [("rows", f"1ef{n:03}", [("t1", 0)], b"", True) for n in (37, 38)]
    )
    assert sorted(model.heap.late(built.late_tip).ids()) == ["1ef037"] and min(model.heap.anew(built)) == "1ef038"
    model.check()
    late = [
        ("put", "1ef069", {"a": b"again"}, 2),
        ("rows", "1ef038", [("t1", 1)], b"", True),
        ("rows", "1ef037", [("t1", 1)], b"", True),
    ]
    built = model.batch(late)
    assert sorted(model.heap.late(built.late_tip).ids()) == ["1ef037"] and min(model.heap.anew(built)) == "1ef038", (
        "one of them is put again"
    )


def test_the_last_word_among_late_writes() -> None:
    for first, then, last in ((False, False, b"1"), (False, True, b"2"), (True, False, b"1"), (True, True, b"2")):
        for at_once in (True, False):
            model = Model(Heap())
            one, two = (("rows", "x", [("t1", 0)], payload, replace) for payload, replace in ((b"1", first), (b"2", then)))
            model.batch([one])
            model.batch([two, ("put", "x", {}, 1)] if at_once else [two])
            model.batch([("put", "x", {}, 1)])
            model.check()
            entry = model.heap.chain(model.tip).head()
            assert entry is not None and [row[5] for row in model.own(entry)] == [last] and model.late is None


def test_only_what_changed_is_written() -> None:
    model = Model(Heap())
    model.batch([("put", f"1ef{n:03}", {"a": b"%d" % n}, 1) for n in range(60)])
    tip = model.tip
    for ops in ([], [("drop", "none")], [("put", "1ef030", {"a": b"30"}, 1)], [("put", "1ef059", {"a": b"59"}, 1)]):
        built = model.batch(ops)
        assert built.tip == tip and not built.objects
    built = model.batch([("put", "1ef060", {"a": b"59"}, 1)])
    assert [kind for kind, _, _ in built.objects] == ["tree", "commit"] and [*model.heap.anew(built)] == ["1ef060"]
    built = model.batch([("drop", "1ef050")])
    assert {kind for kind, _, _ in built.objects} == {"commit"} and len(model.heap.anew(built)) == 10, "their trees stay"
    model.batch([("drop", f"1ef{n:03}") for n in range(61)])
    assert model.tip is None
    model.check()


def test_a_subject_follows_what_lies_below() -> None:
    model = Model(Heap())
    model.batch([("put", "b", {"a": b"1"}, 1), ("put", "c", {"a": b"1", "messages": b"2"}, 2)])
    for op, subjects in (
        (("put", "a", {"a": b"1"}, 0), (b"loop step 2: messages", b"loop step 1", b"loop step 0: a")),
        (("drop", "b"), (b"loop step 2: messages", b"loop step 0: a")),
        (("put", "a", {"messages": b"2"}, 0), (b"loop step 2: a", b"loop step 0: messages")),
        (("drop", "a"), (b"loop step 2: a, messages",)),
    ):
        model.batch([op])
        assert tuple(entry.subject for entry in model.heap.chain(model.tip).walk()) == subjects
        assert model.scratch() == model.tip


def test_removed_with_all_its_writes() -> None:
    model = Model(Heap())
    model.batch([("put", f"1ef{n:03}", {}, 1) for n in range(80)])
    model.batch([("rows", "1ef001", [("t1", 0)], b"late", True), ("rows", "1ef079", [("t1", 0)], b"own", True)])
    built = model.batch([("drop", "1ef001"), ("drop", "1ef079")])
    assert built.late_tip is None
    model.batch([("put", "1ef001", {}, 1), ("put", "1ef079", {}, 1)])
    model.check()
    assert not any(model.own(entry) for entry in model.heap.chain(model.tip).walk())


@pytest.mark.deep
@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_git_finds_nothing_wrong_with_what_was_built(tmp_path: Path, algorithm: Algorithm) -> None:
    heap, rng = Heap(algorithm), random.Random(7)
    refs: dict[str, Id | None] = {}
    for number in range(6):
        model = Model(heap)
        model.batch([("put", f"1ef{n:03}", {"a": b"%d" % n}, n) for n in range(number * 12)])
        for _ in range(5):
            ops: list[Any] = []
            for _ in range(rng.randrange(6)):
                id = rng.choice((f"1ef{rng.randrange(70):03}", "é\n\0", "\ud800", "x/../.git", ""))
                values = {
                    name: rng.randbytes(3) for name in (*CHANNELS, "", "\n", ".git", "..", "\udfff") if rng.random() < 0.5
                }
                ops.append(
                    rng.choice([("put", id, values, rng.randrange(99)), ("rows", id, [("", 1), ("é\0", 2)], b"\0", True)])
                )
            model.batch(ops)
        model.check()
        refs |= {ref_of("t", f"{number}"): model.tip, late_ref("t", f"{number}"): model.late}
    repo = Sandbox.init(tmp_path / "made", f"--object-format={algorithm}")
    heap.lay(repo, refs)
    assert any(refs[ref] for ref in refs if "/late/" in ref)
    repo.fsck()
    for ref, tip in refs.items():
        if tip is not None and "/late/" not in ref:
            listed = repo.git("rev-list", "--first-parent", ref).split("\n")
            assert listed == [(entry.commit or b"").hex() for entry in heap.chain(tip).walk()]
