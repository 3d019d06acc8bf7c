"""A chain of checkpoints, read: few reads, and no lie in it is believed."""

from __future__ import annotations

import math
import random
from functools import cache, partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import BatonError, GitError, RecordError
from gitbaton.langgraph.threads.chain import Entries, ThreadChain, commit_data, entry_of, jump_numbers, tree_data, tree_parts
from gitbaton.langgraph.threads.codec import Id, Jump, ThreadCheckpoint, rows_of
from tests.kit.heaps import Heap, mutations
from tests.kit.tables import each

ROW = ("~p", "t1", 0, "c", "bytes", b"x")


def name(n: int) -> str:
    return f"1ef{n:06}"


@cache
def long(count: int) -> tuple[Heap, Id]:
    heap, tip = Heap(), None
    for start in range(0, count, 500):
        puts = {name(n): heap.entry(name(n), {"a": b"%d" % n}) for n in range(start, min(count, start + 500))}
        tip = heap.rebuild(tip, puts).tip
    assert tip is not None
    return heap, tip


def tip_of(heap: Heap, tip: Id, count: int) -> Id:
    head = heap.chain(tip).head()
    assert head is not None
    return heap.chain(tip).at(head, count - 1).commit or b""


@pytest.mark.full
def test_an_id_is_found_with_few_reads() -> None:
    heap, whole = long(10_000)
    for count in (1, 2, 3, 33, 1000, 1023, 1024, 6000, 10_000):
        tip = tip_of(heap, whole, count)
        worst = 0
        for n in {0, count - 1, *random.Random(count).sample(range(count), min(count, 150))}:
            chain = heap.chain(tip)
            heap.reads.clear()
            found = chain.find(name(n))
            assert found is not None and found.id == name(n) and found.seq == n
            worst = max(worst, len(heap.reads))
            assert set(heap.reads) == {"commit"}
        assert worst <= max(3, 2 * math.log2(count)), count
        heap.reads.clear()
        assert heap.chain(tip).find(name(count) + "x") is None and heap.chain(tip).find("1") is None
        assert len(heap.reads) <= max(3, 2 * math.log2(count)) + 1


@pytest.mark.deep
def test_a_walk_reads_a_commit_an_entry_and_no_trees() -> None:
    heap, tip = long(10_000)
    chain = heap.chain(tip)
    heap.reads.clear()
    walked = list(chain.walk(name(9000)))[:2000]
    assert [entry.id for entry in walked] == [name(n) for n in range(8999, 6999, -1)]
    assert heap.reads.count("commit") <= 9000 + 2 * math.log2(10_000) and "tree" not in heap.reads
    heap.reads.clear()
    assert all(dict(entry.channels) and not entry.rest and not entry.written for entry in walked[:10])
    assert heap.reads == ["tree"] * 10, "one each, when it is asked for"


@given(st.integers(0, 1 << 40))
def test_jumps_are_myers(seq: int) -> None:
    def jump(n: int) -> int:
        low, here = 0, n
        while here:  # the canonical form: greatest terms first
            term = max(2**k - 1 for k in range(1, 42) if 2**k - 1 <= here)
            low, here = low + (term if here != term else 0), here - term
        return low

    expected = {jump(seq), jump(seq - 1)} - {seq - 1} if seq > 1 else set()
    assert jump_numbers(seq) == tuple(sorted(expected))


def test_entries_are_shared_and_bounded() -> None:
    heap, tip = long(1000)
    entries = Entries(limit=100 * 2300)
    one, other = (ThreadChain(heap.read, "sha1", tip, entries) for _ in range(2))
    assert len(list(one.walk())) == 1000 and 50 < len(entries) <= 115
    few = Entries()
    one, other = (ThreadChain(heap.read, "sha1", tip, few) for _ in range(2))
    assert one.head() is other.head() is not None
    assert len(list(ThreadChain(heap.read, "sha1", tip, Entries(limit=0)).walk())) == 1000


@cache
def two() -> tuple[Heap, Id, Id]:
    """Two chains of the same ids and different content."""
    heap, tips = Heap(), []
    for mark in (b"ours", b"other"):
        tips.append(heap.rebuild(None, {name(n): heap.entry(name(n), {"a": mark}) for n in range(60)}).tip or b"")
    return heap, tips[0], tips[1]


def forged(heap: Heap, entry: ThreadCheckpoint, jump: tuple[Jump, ...], **fields: object) -> ThreadCheckpoint:
    """An entry with other jumps, as a commit of its own."""
    made = ThreadCheckpoint(
        **{"id": entry.id, "parent": entry.parent, "ck": entry.ck, "md": entry.md, "channels": entry.channels}
        | {"up": entry.up, "seq": entry.seq, "jump": jump, "tree": entry.tree, "subject": b"forged"}
        | fields  # type: ignore[arg-type]
    )
    made.commit = heap.put("commit", commit_data(made))
    return made


def lies(heap: Heap, ours: Id, other: Id) -> list[tuple[Jump, ...]]:
    head, there = heap.chain(ours).head(), heap.chain(other).head()
    assert head is not None and there is not None
    twenty = heap.chain(other).find(name(20))
    assert twenty is not None and twenty.commit is not None and head.tree is not None
    blob = heap.put("blob", b"bytes\0x")
    foreign = heap.put("commit", b"tree %s\nauthor a <b> 0 +0000\ncommitter a <b> 0 +0000\n\nx\n" % head.tree.hex().encode())
    return [
        ((twenty.commit, name(30), 30),),
        ((twenty.commit, name(20), 30),),
        ((twenty.commit, name(30), 20),),
        ((ours, name(59), 59),),
        ((ours, name(70), 70),),
        ((ours, name(20), 20),),
        ((blob, name(20), 20), (head.tree, name(30), 30)),
        ((b"\x11" * 20, name(20), 20),),
        ((foreign, name(20), 20),),
        ((twenty.commit, name(20), 999_999_999),),
        ((ours, name(10), 10), (other, name(40), 40), (blob, name(50), 50)),
    ]


def test_a_jump_that_lies_is_not_followed() -> None:
    heap, ours, other = two()
    head = heap.chain(ours).head()
    assert head is not None
    truth = {entry.id: entry.commit for entry in heap.chain(ours).walk()}
    for number, lie in enumerate(lies(heap, ours, other)):
        top = forged(heap, head, lie)
        chain = heap.chain(top.commit)
        truth[top.id] = top.commit
        for id, commit in truth.items():
            found = chain.find(id)
            assert found is not None and found.id == id and found.commit == commit, (number, id)
        assert chain.find(name(20) + "x") is None and chain.find("") is None
        assert [entry.commit for entry in chain.walk(name(21))] == [truth[name(n)] for n in range(20, -1, -1)]
        with pytest.raises(RecordError, match="points at what is not below it"):
            chain.verify()


def test_a_jump_into_a_chain_of_the_same_ids_is_seen_by_verify() -> None:
    heap, ours, other = two()
    head, twenty = heap.chain(ours).head(), heap.chain(other).find(name(31))
    assert head is not None and twenty is not None and twenty.commit is not None
    numbers = [entry.seq for entry in heap.chain(ours).walk() if entry.seq in jump_numbers(59)]
    targets = [heap.chain(other).find(name(n)) for n in sorted(numbers)]
    top = forged(heap, head, tuple((found.commit or b"", found.id, found.seq) for found in targets if found is not None))
    with pytest.raises(RecordError):
        heap.chain(top.commit).verify()
    assert len(heap.chain(ours).verify()) == 60


def test_a_chain_that_is_not_sorted_is_refused() -> None:
    heap, ours, _ = two()
    head = heap.chain(ours).head()
    assert head is not None
    for wrong in (name(58), name(57), "1"):
        chain = heap.chain(forged(heap, head, (), id=wrong).commit)
        with pytest.raises(RecordError, match="chain is out of order"):
            list(chain.walk())
        if wrong > name(3):
            with pytest.raises(RecordError, match="chain is out of order"):
                chain.find(name(3))


@each("limit", [1 << 20, 0])
def test_circles_end(limit: int) -> None:
    """An object store that gives other bytes than the id says: even then there is an end."""
    heap, ours, _ = two()
    entries = list(heap.chain(ours).walk())
    for bottom, target in ((at, to) for at in entries[37:45] for to in (entries[0], entries[30], at)):
        jump = (target.commit or b"", target.id, target.seq)
        bent = Heap()
        bent.held = dict(heap.held)
        bent.held[bottom.commit or b""] = heap.held[forged(heap, bottom, (jump,), up=target.commit).commit or b""]
        chain = ThreadChain(bent.read, "sha1", ours, Entries(limit))
        for act in (lambda chain=chain: list(chain.walk()), lambda chain=chain: chain.verify()):
            with pytest.raises(RecordError, match="chain is out of order"):
                act()
        for entry in entries[::3]:
            try:
                found = chain.find(entry.id)
                assert found is not None and found.commit == entry.commit
            except RecordError:
                assert entry.id < bottom.id


def test_a_chain_of_others_is_refused() -> None:
    heap, tip, _ = two()
    data = heap.held[tip][1]
    blob = heap.put("blob", b"x")
    signed = data.replace(b"\n\n", b"\ngpgsig x\n\n", 1)
    others = [signed, data.replace(b"gitbaton@localhost", b"a@b"), data.replace(b"tree ", b"tree x"), data + b"\n", b""]
    others += [
        data.replace(b'"seq":59', b'"seq":0'),
        data.replace(b"\nparent ", b"\nparent " + tip.hex().encode() + b"\nparent "),
    ]
    others += [
        data.replace(b'"size":[', b'"size":[1'),
        data.replace(b"loop step", b"l\xc3\xa9op step"),
        data.replace(b"+0000", b"+0100"),
    ]
    for other in others:
        with pytest.raises(RecordError, match=r"^commit is not a checkpoint of a thread$"):
            heap.chain(heap.put("commit", other)).head()
    with pytest.raises(RecordError, match=r"^thread has format version 2; this gitbaton reads 1$"):
        heap.chain(heap.put("commit", data.replace(b'{"v":1', b'{"v":2'))).head()
    for wrong in (blob, bytes.fromhex(data[5:45].decode())):
        with pytest.raises(RecordError, match=r"^object is not a checkpoint of a thread$"):
            heap.chain(wrong).head()
    with pytest.raises(GitError):
        heap.chain(b"\x22" * 20).head()
    foreign = heap.put("commit", b"tree %s\nauthor a <b> 0 +0000\ncommitter a <b> 0 +0000\n\nx\n" % data[5:45])
    entry = heap.chain(tip).head()
    assert entry is not None
    chain = heap.chain(forged(heap, entry, (), up=foreign).commit)
    assert chain.head() is not None and chain.find(entry.id) is not None
    for act in (lambda: list(chain.walk()), lambda: chain.find(name(3))):
        with pytest.raises(RecordError, match=r"^commit is not a checkpoint of a thread$"):
            act()


def test_any_bytes_are_refused_or_read() -> None:
    heap, tip, _ = two()
    built = heap.rebuild(tip, {}, {name(59): [((ROW,), False)]})
    entry = heap.chain(built.tip).head()
    assert entry is not None and entry.commit is not None and entry.tree is not None
    commit, tree = heap.held[entry.commit][1], heap.held[entry.tree][1]
    rows = heap.held[entry.written["t1"]][1]
    read = refused = 0
    for bad in mutations(commit, 3000):
        try:
            found = entry_of(entry.commit, bad, "sha1", None)
            assert type(found.id) is str and found.seq >= 0 and type(found.ck) is bytes
            assert entry_of(entry.commit, commit_data(found), "sha1", None).id == found.id
            read += 1
        except RecordError:
            refused += 1
    for bad in mutations(tree, 2000, 2):
        try:
            found = entry_of(entry.commit, commit, "sha1", partial(tree_parts, bad, 20))
            assert tree_data(found) == bad and found.channels.keys() | found.written.keys() is not None
            read += 1
        except RecordError:
            refused += 1
    for bad in mutations(rows, 2000, 3):
        try:
            assert all(row[1] == "t1" for row in rows_of(bad, "t1"))
            read += 1
        except RecordError:
            refused += 1
    assert read > 300 and refused > 3000, (read, refused)


def test_late_writes_that_are_not_ours_are_refused() -> None:
    heap, tip, _ = two()
    built = heap.rebuild(tip, {}, {name(3): [((ROW,), False)], "x": [((ROW,), True)]})
    assert built.late_tip is not None and [*heap.late(built.late_tip).ids()] == [name(3), "x"]
    objects = [oid for _, oid, _ in built.objects]
    for oid in objects:
        kind, data = heap.held[oid]
        for bad in mutations(data, 200):
            bent = Heap()
            bent.held = {**heap.held, oid: (kind, bad)}
            late = bent.late(built.late_tip)
            try:
                assert all(rows_ for id in late.ids() for rows_, _ in late.of(id))
            except BatonError:
                continue
    for wrong in (tip, objects[0]):
        with pytest.raises(RecordError, match=r"^late writes are malformed$"):
            heap.late(wrong).ids()


@pytest.mark.deep
@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.binary(min_size=20, max_size=20), max_size=9), st.text(max_size=9))
def test_any_names_stand_in_a_tree_and_a_message(channels: dict[str, bytes], id: str) -> None:
    entry = ThreadCheckpoint(
        id, id + "p", b"{}", b"", channels, rest={"md": b"\x01" * 20}, written=channels, seq=0, tree=b"\x02" * 20
    )
    entry.subject = b"x"
    found = entry_of(b"\x03" * 20, commit_data(entry), "sha1", partial(tree_parts, tree_data(entry), 20))
    assert (found.id, found.parent, found.ck, found.md) == (id, id + "p", b"{}", b"")
    assert dict(found.channels) == channels == dict(found.written) and dict(found.rest) == {"md": b"\x01" * 20}
    with pytest.raises(RecordError):
        tree_parts(tree_data(entry), 20, ThreadCheckpoint(id, None, b"", b"", {}))
