"""Records of the log and texts of threads: the same value back, nothing else believed, and yesterday's bytes read for ever."""

from __future__ import annotations

import collections
import enum
import json
import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gitbaton
from gitbaton.base.errors import RecordError, UsageError
from gitbaton.langgraph.threads import codec
from gitbaton.langgraph.threads.chain import LateWrites, commit_data, names_data, subject_of, tree_data
from gitbaton.langgraph.threads.codec import Put, PutWrites, Row, ThreadCheckpoint
from tests.kit.heaps import Heap, mutations
from tests.kit.tables import each

NAMES = st.text(st.characters(exclude_categories=()), max_size=12).filter(
    lambda text: text == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
IDS = st.binary(min_size=20, max_size=20)
CHANNELS = st.dictionaries(NAMES, IDS, max_size=9)
ROWS = st.lists(
    st.tuples(NAMES, NAMES, st.integers(-5, 1 << 40), NAMES, NAMES, st.binary(max_size=20)),
    max_size=6,
    unique_by=lambda row: row[1:3],
).map(tuple)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), NAMES),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)


@cache
def schema() -> jsonschema.Draft202012Validator:
    path = Path(gitbaton.__file__).parent / "data" / "thread-checkpoint.schema.json"
    found = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(JSON)
def test_json_gives_the_same_value_back(item: Any) -> None:
    raw = codec.json_text(item)
    assert raw is not None and raw.isascii() and b"\n" not in raw
    found = codec.loads(raw)
    assert found == item and repr(found) == repr(item) and codec.json_text(found) == raw


class Word(enum.StrEnum):
    A = "a"


class Number(enum.IntEnum):
    A = 1


class Pair(NamedTuple):
    one: int
    two: int


def deep(levels: int) -> Any:
    item: Any = 1
    for _ in range(levels):
        item = [item]
    return item


def circle() -> Any:
    item: dict[str, Any] = {}
    item["me"] = item
    return item


@each(
    "item",
    (
        *({1: 2}, {None: 1}, {True: 1}, {"a": {2.5: 1}}, {"a", "b"}, b"x", [b"x"], math.nan, {"a": [math.inf]}, object()),
        *(
            Word.A,
            [Number.A],
            {Word.A: 1},
            Pair(1, 2),
            [Pair(1, 2)],
            collections.OrderedDict(a=1),
            collections.defaultdict(int),
        ),
        *(deep(200), deep(100_000), circle(), "\ud83d\ude00", {"\ud83d\ude00": 1}, ["a", {"b": "\udbff\udfff"}], 10**5000, 1j),
    ),
)
def test_what_json_would_change_is_left_to_the_serialiser(item: Any) -> None:
    assert codec.json_text(item) is None


def test_tuples_are_lists_and_halves_of_surrogates_stay() -> None:
    assert codec.json_text((1, ("a",))) == b'[1,["a"]]'
    assert codec.loads(codec.json_text(["\ud83d", "\ude00\ud83d", "😀"]) or b"") == ["\ud83d", "\ude00\ud83d", "😀"]
    assert codec.loads(codec.json_text(deep(90)) or b"") == deep(90)


@pytest.mark.deep
@each("raw", [b"", b"{", b"NaN", b'{"a":Infinity}', b'"\xff"', b"[" * 100_000, b"9" * 5000, b"'a'", b"1 2"])
def test_text_that_is_not_json_is_refused(raw: bytes) -> None:
    with pytest.raises(RecordError, match=r"^stored text is not JSON$"):
        codec.loads(raw)


@pytest.mark.full
@settings(max_examples=150, deadline=None)
@given(NAMES, NAMES, NAMES, st.none() | NAMES, CHANNELS, st.binary(max_size=9), st.lists(st.binary(max_size=30), max_size=4))
def test_a_put_comes_back(
    thread: str, namespace: str, id: str, parent: str | None, channels: dict[str, bytes], ck: bytes, contents: list[bytes]
) -> None:
    heap = Heap()
    blobs = {heap.put("blob", data): data for data in contents}
    rest = {} if ck else {"ck": b"\1" * 20}
    raw = codec.encode_put(thread, namespace, ThreadCheckpoint(id, parent, ck, b"{}", channels, rest=rest), blobs)
    put = codec.decode(raw)
    assert isinstance(put, Put) and (put.thread, put.namespace, put.blobs) == (thread, namespace, blobs)
    entry = put.entry
    assert (entry.id, entry.parent, entry.ck, entry.md, entry.commit) == (id, parent, ck, b"{}", None)
    assert (entry.channels, entry.rest, entry.written) == (channels, rest, {})


@pytest.mark.full
@settings(max_examples=150, deadline=None)
@given(NAMES, NAMES, NAMES, ROWS, st.booleans())
def test_writes_come_back(thread: str, namespace: str, id: str, rows: tuple[Row, ...], replace: bool) -> None:
    raw = codec.encode_writes(thread, namespace, id, rows, replace)
    assert codec.decode(raw) == PutWrites(thread=thread, namespace=namespace, id=id, rows=rows, replace=replace)
    assert codec.rows_of(codec.rows_blob(rows)) == tuple(sorted(rows))
    assert codec.rows_blob(codec.rows_of(codec.rows_blob(reversed(rows)))) == codec.rows_blob(rows)


@given(NAMES.filter(lambda kind: "\0" not in kind), st.binary(max_size=30))
def test_a_value_comes_back_from_its_blob(kind: str, data: bytes) -> None:
    assert codec.typed_of(codec.blob_of((kind, data))) == (kind, data)


def test_what_cannot_be_stored_is_refused() -> None:
    with pytest.raises(UsageError, match="holds a NUL"):
        codec.blob_of(("a\0b", b""))
    for bad in (b"", b"no end", b"\xff\0x"):
        with pytest.raises(RecordError, match=r"^blob is not a stored value$"):
            codec.typed_of(bad)
    for entry in (
        ThreadCheckpoint("x" * 4001, None, b"{}", b"{}", {}),
        ThreadCheckpoint("x", None, b"{}", b"{}", {"é" * 700: b"\0" * 20}),
    ):
        with pytest.raises(UsageError, match=r"bytes in its encoded form; the limit is 4000$"):
            codec.encode_put("t", "", entry, {})
    row: Row = ("", "日" * 500, 0, "", "", b"")
    with pytest.raises(UsageError, match=r"^name '.*' has 4500 bytes in its encoded form; the limit is 4000$"):
        codec.encode_writes("t", "", "x", [row], False)
    with pytest.raises(UsageError, match="two halves of a surrogate pair"):
        codec.encode_put("\ud83d\ude00", "", ThreadCheckpoint("x", None, b"{}", b"{}", {}), {})
    with pytest.raises(RecordError, match=r"^stored writes are of another task$"):
        codec.rows_of(codec.rows_blob([("", "t", 0, "c", "x", b"")]), "u")


@pytest.mark.deep
def test_any_bytes_are_refused_or_read() -> None:
    heap, read = Heap(), 0
    data = codec.blob_of(("bytes", b"0123456789"))
    entry = ThreadCheckpoint("1ef", "1ee", b'{"v":1}', b"{}", {"a": heap.put("blob", data), "b": b"\2" * 20})
    put = codec.encode_put("t", "ns", entry, {heap.identify("blob", data): data})
    rows: tuple[Row, ...] = (("p", "t", 0, "c", "x", b"12"), ("p", "t", 1, "c", "x", b""))
    for raw in (put, codec.encode_writes("t", "ns", "1ef", rows, True)):
        for bad in mutations(raw, 4000):
            try:
                found = codec.decode(bad)
            except RecordError as error:
                assert error.message == "record of the log is malformed"
                continue
            read += 1
            if isinstance(found, Put):
                assert all(heap.identify("blob", content) == oid for oid, content in found.blobs.items())
                assert {len(oid) for oid in found.entry.channels.values()} <= {20, 32}
                again: Any = codec.decode(codec.encode_put(found.thread, found.namespace, found.entry, found.blobs))
                assert again.entry.channels == found.entry.channels
            else:
                assert (
                    codec.decode(codec.encode_writes(found.thread, found.namespace, found.id, found.rows, found.replace))
                    == found
                )
    assert read > 100


MD = b'{"source":"loop","step":-1,"parents":{},"\\u00e9":"\\u2028"}'
CK = (
    b'{"v":2,"ts":"2026-01-02T03:04:05.678901+00:00","id":"1ef","channel_versions":{"messages":"1.5","\\u00e9":2},'
    b'"versions_seen":{},"updated_channels":null}'
)
VALUES = {"messages": ("msgpack", b"\x91\xa2hi"), "branch:to:x": ("null", b""), "é": ("bytes", b"\0\xff")}
WROTE: tuple[Row, ...] = (
    ("", "task/1", -3, "__interrupt__", "msgpack", b"\x01"),
    ("~p, é", "task/1", 0, "messages", "json", b"[1]\n"),
)
ROWS_BLOB = b'[["","task/1",-3,"__interrupt__","msgpack",1],["~p, \\u00e9","task/1",0,"messages","json",4]]\n\x01[1]\n'
ROWS_ID = "ad2151f3981d16dd4e44d3c0ba8cf2f8c283fd1f"
IDS_OF = (
    "659b298b9ecdf33481f2a2d2ca0a5c52262e910e",
    "81883a5bff4a278c3e14b321374ba8b7b2229771",
    "5625b182ba925e418786dad745b9e72f286d9f34",
)
UP = "51b3861cad0535967b5932c3bac9a2c613421a1b"
TREE = b"".join(
    b"100644 %s\0%s" % (name, bytes.fromhex(oid))
    for name, oid in (
        (b"c.%C3%A9", IDS_OF[2]),
        (b"c.branch%3Ato%3Ax", IDS_OF[1]),
        (b"c.messages", IDS_OF[0]),
        (b"w.task%2F1", ROWS_ID),
    )
)
COMMIT = (
    b"tree 1fc9f0540d66f83bb5583e51dab95708073f5e41\nparent 51b3861cad0535967b5932c3bac9a2c613421a1b\n"
    b"author gitbaton <gitbaton@localhost> 1767323045 +0000\ncommitter gitbaton <gitbaton@localhost> 1767323045 +0000\n\n"
    b"loop step -1: branch:to:x, messages, ?\n\n"
    b'{"v":1,"id":"1ef","pid":"1ee \\"\\\\\\n","seq":5,"jump":[["1111111111111111111111111111111111111111","1e\\ud800",3],'
    b'["51b3861cad0535967b5932c3bac9a2c613421a1b","1e1",4]],"size":[150,58],"ck":' + CK + b',"md":' + MD + b"}\n"
)
COMMIT_ID = "4b29bf4729e3ab5aa8e4f602f32cde477e3c5774"
RECORD = (
    b'P["t \\u00e9","child:1","1ef",null,["messages","branch:to:x","\\u00e9"],["md"],20,[150,0,8]]\n'
    + CK
    + b"".join(map(bytes.fromhex, (*IDS_OF, ROWS_ID)))
    + b"bytes\0\0\xff"
)
RECORD_OF_WRITES = b'W["t \\u00e9","child:1","1ef",true,' + ROWS_BLOB.replace(b"\n", b"]\n", 1)
LATE_ID = "19953e8226d7f25f4d6bbf4ddd1b73b6161a6f23"


def test_a_commit_of_yesterday() -> None:
    heap = Heap()
    assert heap.put("commit", COMMIT).hex() == COMMIT_ID and heap.put("tree", TREE).hex() == COMMIT[5:45].decode()
    entry = heap.chain(bytes.fromhex(COMMIT_ID)).entry(bytes.fromhex(COMMIT_ID))
    assert (entry.id, entry.parent, entry.ck, entry.md, entry.seq) == ("1ef", '1ee "\\\n', CK, MD, 5)
    assert entry.up == bytes.fromhex(UP) and entry.jump == ((b"\x11" * 20, "1e\ud800", 3), (bytes.fromhex(UP), "1e1", 4))
    assert entry.channels == {name: heap.put("blob", codec.blob_of(typed)) for name, typed in VALUES.items()}
    assert [oid.hex() for oid in entry.channels.values()] == [*reversed(IDS_OF)] and not entry.rest
    assert {task: oid.hex() for task, oid in entry.written.items()} == {"task/1": ROWS_ID}
    assert heap.put("blob", ROWS_BLOB).hex() == ROWS_ID and codec.rows_of(ROWS_BLOB, "task/1") == WROTE
    assert commit_data(entry) == COMMIT and tree_data(entry) == TREE and codec.rows_blob(WROTE) == ROWS_BLOB
    assert subject_of(entry, None) == entry.subject
    schema().validate(json.loads(COMMIT.rpartition(b"\n\n")[2]))
    entry.names = names_data("t" * 500, "")
    said = json.loads(commit_data(entry).rpartition(b"\n\n")[2])
    assert (said["thread"], said["ns"]) == ("t" * 500, "")
    schema().validate(said)


def test_records_of_yesterday() -> None:
    found = codec.decode(RECORD)
    assert isinstance(found, Put) and (found.thread, found.namespace) == ("t é", "child:1")
    assert found.blobs == {bytes.fromhex(IDS_OF[2]): b"bytes\0\0\xff"}
    entry = found.entry
    assert (entry.id, entry.parent, entry.ck, entry.md) == ("1ef", None, CK, b"")
    assert [oid.hex() for oid in entry.channels.values()] == [*IDS_OF] and [*entry.channels] == [*VALUES]
    assert {name: oid.hex() for name, oid in entry.rest.items()} == {"md": ROWS_ID}
    assert codec.encode_put("t é", "child:1", entry, found.blobs) == RECORD
    writes = PutWrites(thread="t é", namespace="child:1", id="1ef", rows=WROTE, replace=True)
    assert codec.decode(RECORD_OF_WRITES) == writes
    assert codec.encode_writes("t é", "child:1", "1ef", WROTE, True) == RECORD_OF_WRITES


def test_late_writes_of_yesterday() -> None:
    heap = Heap()
    other: Row = ("", "z", 0, "c", "bytes", b"")
    weak = heap.put("blob", b'[["","z",0,"c","bytes",0]]\n')
    inner = heap.put("tree", b"100644 w.z\0" + weak + b"100644 x.task%2F1\0" + heap.put("blob", ROWS_BLOB))
    tree = heap.put("tree", b"40000 i.1ef\0" + inner)
    who = b"gitbaton <gitbaton@localhost> 0 +0000"
    message = b'late writes\n\n{"v":1}\n'
    tip = heap.put("commit", b"tree %s\nauthor %s\ncommitter %s\n\n%s" % (tree.hex().encode(), who, who, message))
    assert tip.hex() == LATE_ID
    late = heap.late(tip)
    assert [*late.ids()] == ["1ef"] and late.of("1ef") == (((other,), False), (WROTE, True)) and not late.of("1ee")
    made, objects = LateWrites(heap.read, "sha1", None).changed((), {"1ef": [(WROTE, True), ((other,), False)]})
    assert made == tip and {oid for _, oid, _ in objects} == {*heap.held}


@pytest.mark.parametrize(
    ("ts", "seconds"),
    (
        *(
            ("2026-01-02T03:04:05.678901+00:00", 1767323045),
            ("2026-01-02T03:04:05Z", 1767323045),
            ("2026-01-02 03:04:05", 1767323045),
        ),
        *(
            ("2026-01-02T05:04:05+02:00", 1767323045),
            ("2026-01-01T22:04:05-05:00", 1767323045),
            ("1970-01-01T00:00:00+05:00", 0),
        ),
        *(
            ("1969-12-31T23:59:59Z", 0),
            ("yesterday", 0),
            ("", 0),
            ("2026-13-01T00:00:00Z", 0),
            ("9999-12-31T23:59:59Z", 253402300799),
        ),
        ("1990-01-01\\", 0),
        *((5, 0), (None, 0), ("٢٠٢٦-01-02T03:04:05Z", 0), ("2026-01-02T03:04:05Z\n", 0), ("0000-00-00T00:00:00Z", 0)),
    ),
)
def test_a_commit_has_the_time_of_its_checkpoint(ts: object, seconds: int) -> None:
    for item in (
        {"v": 2, "ts": ts},
        {"v": 2, "id": "x", "ts": ts},
        {"v": 2, "id": 'a"b\\', "ts": ts},
        {"v": 2, "id": {"ts": "2001-01-01T00:00:00Z"}, "ts": ts},
        {"channel_versions": {"ts": "2001-01-01T00:00:00Z"}, "ts": ts},
    ):
        ck = codec.json_text(item)
        assert ck is not None
        data = commit_data(ThreadCheckpoint("x", None, ck, b"{}", {}, tree=b"\0" * 20, seq=0))
        assert data.count(b"gitbaton <gitbaton@localhost> %d +0000\n" % seconds) == 2


def test_subjects_are_one_plain_line() -> None:
    many = {f"channel number {n}": b"\0" * 20 for n in range(9)}
    below = ThreadCheckpoint("w", None, b"{}", b"{}", {"a": b"\1" * 20, "b": b"\2" * 20})
    for md, channels, subject in (
        (b'{"source":"loop","step":3}', {"a": b"\1" * 20, "b": b"\3" * 20}, b"loop step 3: b"),
        (b'{"source":"input","step":-1}', {"a": b"\1" * 20}, b"input step -1"),
        (b"{}", many, b"checkpoint: channel number 0, channel number 1 and 7 more"),
        (b'{"source":"a\\nb\\u001b[m\\u00e9","step":true}', {"x" * 99: b""}, b"a?b?[m?: 1 channel"),
        (b"[]", {}, b"checkpoint"),
        (b'{"source":["loop"],"step":99999999999999999999999999}', {"\n": b""}, b"checkpoint: ?"),
        (b"garbage", {}, b"checkpoint"),
        (b"", {}, b"checkpoint"),
    ):
        assert subject_of(ThreadCheckpoint("x", None, b"{}", md, channels), below) == subject


@pytest.mark.full
@given(JSON | st.text(max_size=5), JSON | st.integers(-(1 << 70), 1 << 70), st.dictionaries(NAMES, JSON, max_size=2))
def test_a_subject_is_the_same_wherever_its_fields_stand(source: Any, step: Any, more: dict[str, Any]) -> None:
    """The first fields of metadata are looked at without reading the rest where that gives the same."""
    said = set()
    for item in (
        {"source": source, "step": step, **more},
        {"step": step, "source": source, **more},
        {"source": source, "step": step},
    ):
        md = codec.json_text({**item, "source": source, "step": step})
        if md is not None:
            said.add(subject_of(ThreadCheckpoint("x", None, b"{}", md, {}), None))
    assert len(said) <= 1
