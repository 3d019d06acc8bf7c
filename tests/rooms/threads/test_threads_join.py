"""Two clones of a thread that both go on, prune and sync in any order: nothing that nobody removed is lost, and they agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import BatonError
from gitbaton.care.sync.threads import NamespaceState
from gitbaton.langgraph.threads.build import Side, apart
from gitbaton.langgraph.threads.codec import Id, Row, ThreadCheckpoint, blob_of
from gitbaton.langgraph.threads.health import unusable
from tests.kit import examples
from tests.kit.heaps import Heap, mutations
from tests.kit.tables import each

IDS = st.integers(0, 45).map(lambda n: f"1ef{n:03}")
VALUES = st.dictionaries(st.sampled_from(("a", "b")), st.binary(max_size=1), max_size=2)
KEYS = st.lists(st.tuples(st.sampled_from(("t1", "t2")), st.integers(-1, 1)), min_size=1, max_size=2, unique=True)
PUT = st.tuples(st.just("put"), st.booleans(), IDS, VALUES)
WRITE = st.tuples(st.just("write"), st.booleans(), IDS, KEYS, st.binary(max_size=1), st.booleans())
DROP = st.tuples(st.just("drop"), st.booleans(), IDS)
SYNC = st.tuples(st.just("sync"), st.booleans())
OPS = st.lists(st.one_of(PUT, PUT, WRITE, DROP, SYNC, SYNC), max_size=24)
Whole = dict[str, tuple[Any, dict[tuple[str, int], Row]]]


class Peer:
    """A clone: where its thread stands, and how it stood when it last had the same as the hub."""

    def __init__(self, heap: Heap) -> None:
        self.heap, self.place, self.base = heap, NamespaceState(), NamespaceState()

    def build(self, puts: Mapping[str, ThreadCheckpoint | None], rows: Mapping[str, Any] | None = None) -> None:
        tip, late = self.place.ids
        self.place = place(self.heap.rebuild(tip, puts, rows or {}, late))

    def whole(self) -> Whole:
        """Everything that it has, by the checkpoint's id."""
        return whole(self.heap, self.place)


def place(made: Any) -> NamespaceState:
    return NamespaceState(tip=made.tip.hex() if made.tip else None, late=made.late_tip.hex() if made.late_tip else None)


def side(heap: Heap, at: NamespaceState) -> Side:
    tip, late = at.ids
    return Side(heap.chain(tip), heap.late(late))


def broken(found: Side) -> str:
    return unusable(found.chain, found.late)


def whole(heap: Heap, at: NamespaceState) -> Whole:
    read = side(heap, at)
    ids = {*(entry.id for entry in read.chain.walk()), *read.late.ids()}
    found: Whole = {}
    for id in ids:
        entry = read.chain.find(id)
        said = (entry.parent, entry.ck, entry.md, dict(entry.channels)) if entry else None
        found[id] = (said, dict(read.rows(id, entry)))
    return found


def joined(heap: Heap, mine: NamespaceState, there: NamespaceState, base: NamespaceState) -> NamespaceState:
    """What a sync makes of three."""
    if there == base or mine == there:
        return mine
    ours, theirs = side(heap, mine), side(heap, there)
    tip, late, objects = apart(ours, theirs, side(heap, base) if base else None).made(ours, theirs)
    for kind, oid, data in objects:
        assert heap.put(kind, data) == oid
    return NamespaceState(tip=tip.hex() if tip else None, late=late.hex() if late else None)


def expected(mine: Whole, there: Whole, before: Whole) -> Whole:
    """The same, of what the sides hold."""
    result: Whole = {}
    for id in {*mine, *there}:
        one, two, old = mine.get(id), there.get(id), before.get(id)
        if one == two or two == old:
            chosen = one
        elif one == old or one is None or two is None:
            chosen = two if one == old or one is None else one
        else:
            said = two[0] if one[0] == (old[0] if old else None) else one[0]
            said = said if one[0] in (two[0], old[0] if old else None) or two[0] == (old[0] if old else None) else None
            rows = {**two[1], **one[1]}
            for name in one[1].keys() & two[1].keys():
                own, other, was = one[1][name], two[1][name], old[1].get(name) if old else None
                rows[name] = other if own == was else own if other == was else max(own, other)
            clash = said is None and None not in (one[0], two[0])
            chosen = (result_of(one[0], two[0]) if clash else said or one[0] or two[0], rows)
        if chosen is not None:
            result[id] = chosen
    return result


def result_of(one: Any, two: Any) -> Any:
    """Of two that both were put anew: the one that sorts last, all that it says in its order."""
    return max(one, two, key=lambda said: (said[1], said[2], sorted(said[3].items()), said[0] is not None, said[0] or ""))


@pytest.mark.full
@settings(max_examples=examples(3000, 120), deadline=None, suppress_health_check=list(HealthCheck))
@given(OPS)
def test_two_clones_agree_and_lose_nothing(ops: list[Any]) -> None:
    heap = Heap()
    a, b, hub = Peer(heap), Peer(heap), NamespaceState()
    made: set[str] = set()
    dropped: set[str] = set()
    for step, op in enumerate([*ops, ("sync", True), ("sync", False), ("sync", True)]):
        peer = a if op[1] else b
        if op[0] == "put":
            peer.build({op[2]: heap.entry(op[2], op[3], step=step, parent=f"p{step}")})
            made.add(op[2])
        elif op[0] == "write":
            peer.build({}, {op[2]: [(tuple(("~", task, n, "c", "bytes", op[4]) for task, n in op[3]), op[5])]})
        elif op[0] == "drop":
            peer.build({op[2]: None})
            dropped.add(op[2])
        else:
            want = peer.whole()
            if hub != peer.base:
                want = expected(peer.whole(), whole(heap, hub), whole(heap, peer.base))
            peer.place = joined(heap, peer.place, hub, peer.base)
            assert peer.whole() == want
            hub = peer.base = peer.place
    assert a.place == b.place == hub
    assert {id for id in made - dropped if id not in {e.id for e in side(heap, hub).chain.walk()}} == set()
    assert broken(side(heap, hub)) == ""


def test_what_was_removed_on_one_side_goes_and_what_came_meanwhile_stays() -> None:
    heap = Heap()
    a, b = Peer(heap), Peer(heap)
    a.build({id: heap.entry(id, {"a": id.encode()}) for id in "123"})
    b.place = a.base = b.base = a.place
    a.build({"1": None, "2": None})
    b.build({"4": heap.entry("4", {})}, {"1": [((("", "t", 0, "c", "bytes", b""),), False)]})
    both = {joined(heap, one.place, two.place, one.base) for one, two in ((a, b), (b, a))}
    assert len(both) == 1 and sorted(whole(heap, both.pop())) == ["1", "3", "4"], "1 was written to after it was last the same"


@pytest.mark.parametrize("aside", [False, True], ids=["JSON", "a blob"])
def test_what_a_delta_channel_is_made_of_stays(*, aside: bool) -> None:
    heap = Heap()
    a, b = Peer(heap), Peer(heap)
    made = heap.entry("2", {}, parent="1")
    md = b'{"counters_since_delta_snapshot":{"log":[1,1]}}'
    rest = {"md": heap.put("blob", blob_of(("json", md)))} if aside else {}
    delta = ThreadCheckpoint("2", "1", made.ck, b"" if aside else md, {}, rest=rest)
    a.build({"1": heap.entry("1", {"log": b"all"}), "2": delta})
    b.place = a.base = b.base = a.place
    a.build({"1": None})
    b.build({"3": heap.entry("3", {})})
    both = {joined(heap, one.place, two.place, one.base) for one, two in ((a, b), (b, a))}
    assert len(both) == 1 and sorted(whole(heap, both.pop())) == ["1", "2", "3"]


def test_whatever_is_changed_in_an_object_is_found_or_harmless() -> None:
    """A chain from elsewhere is taken only as we write it: no change of a byte leads to anything but a RecordError."""
    heap = Heap()
    a = Peer(heap)
    entries = {id: heap.entry(id, {"a": id.encode()}) for id in "1234"}
    a.build(entries, {"4": [((("", "t", 0, "c", "bytes", b"x"),), False)], "9": [((("", "t", 0, "c", "bytes", b""),), True)]})
    assert broken(side(heap, a.place)) == ""
    kinds: set[str] = set()
    for oid, (kind, data) in list(heap.held.items()):
        for number, changed in enumerate(mutations(data, 25)):
            if changed != data and (kind != "commit" or number % 7 == 0):
                heap.held[oid] = (kind, changed)
                if broken(side(heap, a.place)):
                    kinds.add(kind)
        heap.held[oid] = (kind, data)
    assert kinds == {"blob", "tree", "commit"}


def test_a_pointer_into_another_chain_is_found() -> None:
    heap = Heap()
    a, other = Peer(heap), Peer(heap)
    a.build({f"{n:02}": heap.entry(f"{n:02}", {}) for n in range(9)})
    other.build({f"{n:02}": heap.entry(f"{n:02}", {"a": b"else"}) for n in range(9)})
    theirs = {entry.id: entry.commit for entry in side(heap, other.place).chain.walk()}
    tip = next(side(heap, a.place).chain.walk())
    assert tip.commit is not None and tip.jump
    jump: Id = tip.jump[0][0]
    data = heap.held[tip.commit][1].replace(jump.hex().encode(), (theirs[tip.jump[0][1]] or b"").hex().encode())
    a.place = NamespaceState(tip=heap.put("commit", data).hex())
    assert "points at what is not below it" in broken(side(heap, a.place))


@each("text", [b"[]", b"[1", b"null,"])
def test_a_checkpoint_that_holds_no_object_is_found(text: bytes) -> None:
    heap = Heap()
    a = Peer(heap)
    entry = heap.entry("1", {})
    a.build({"1": ThreadCheckpoint("1", None, text, entry.md, entry.channels)})
    assert broken(side(heap, a.place))


def test_a_value_without_a_type_is_found() -> None:
    heap = Heap()
    a = Peer(heap)
    entry = heap.entry("1", {})
    a.build({"1": ThreadCheckpoint("1", None, entry.ck, entry.md, {"a": heap.put("blob", b"no type")})})
    assert "not a stored value" in broken(side(heap, a.place))
    a.build({"1": ThreadCheckpoint("1", None, entry.ck, entry.md, {"a": heap.put("blob", blob_of(("bytes", b"")))})})
    assert broken(side(heap, a.place)) == ""
    with pytest.raises(BatonError):
        heap.read(b"x" * 20)


def test_what_a_saver_refuses_is_found() -> None:
    """A checkpoint that says that it is another, or says it in a form that JSON has not and that is no map."""
    heap = Heap()
    a = Peer(heap)
    entry = heap.entry("1", {})
    for text in (b'{"id":"2"}', b'{"id":null}', b"{}"):
        a.build({"1": ThreadCheckpoint("1", None, text, entry.md, entry.channels)})
        assert "'1' says that it is another" in broken(side(heap, a.place))
    for kind, typed, reason in (
        ("ck", ("json", b'{"id":"1"}'), ""),
        ("md", ("json", b"{}"), ""),
        ("ck", ("json", b'{"id":"2"}'), "says that it is another"),
        ("ck", ("json", b"[]"), "checkpoint '1' holds no JSON object where its content should be"),
        ("md", ("null", b""), "checkpoint '1' holds no JSON object where its metadata should be"),
        ("md", ("json", b"{"), "is not JSON, as its type says"),
        ("md", ("msgpack+aes", b"anything"), ""),
    ):
        texts = {"ck": entry.ck, "md": entry.md, kind: b""}
        made = ThreadCheckpoint("1", None, texts["ck"], texts["md"], {}, rest={kind: heap.put("blob", blob_of(typed))})
        a.build({"1": made})
        found = broken(side(heap, a.place))
        assert found.endswith(reason) and bool(found) == bool(reason), (kind, typed, found)
