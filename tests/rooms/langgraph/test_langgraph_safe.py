"""GitSaver builds no class that nobody allowed, unpickles nothing, and opens what it is given."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import enum
import json
import os
import pickle
import subprocess
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import BatonError, RecordError, UsageError
from tests.kit import Sandbox, examples
from tests.kit.saverkit import chain, checkpoint, config, ids, number, plain, put

pytest.importorskip("langgraph.checkpoint.base")

from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from gitbaton.langgraph import GitSaver
from gitbaton.langgraph.branches import Branches
from gitbaton.langgraph.threads.codec import Parts, ThreadCheckpoint, json_text
from gitbaton.langgraph.writing import Writer


@dataclasses.dataclass
class Custom:
    """A class of the user's."""

    x: int
    built = 0

    def __post_init__(self) -> None:
        Custom.built += 1


class Trap:
    """What a pickle may do when it is read."""

    sprung = 0

    def __reduce__(self) -> Any:
        return _spring, ()


def _spring() -> str:
    Trap.sprung += 1
    return "sprung"


class Xor:
    """A cipher that is none, but tells its results from the plain ones."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "xor", bytes(b ^ 0x5A for b in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "xor"
        return bytes(b ^ 0x5A for b in ciphertext)


def value(saver: Any, name: str = "a") -> Any:
    """The channel of the newest checkpoint, read three times: by its parts, again, and joined."""
    found = [saver.get(config())["channel_values"][name] for _ in range(3)]
    assert found[0] == found[1] == found[2] and {type(each) for each in found} == {type(found[0])}
    return found[0]


@pytest.mark.parametrize("allow", [Custom, (Custom.__module__, "Custom")], ids=["class", "pair"])
def test_a_class_is_built_only_when_it_is_allowed(tmp_path: Path, allow: Any) -> None:
    place = tmp_path / "threads.git"
    with GitSaver(place) as saver:
        put(saver, number(0), {"a": Custom(5), "b": [{1, 2}, b"x"]})
        saver.put_writes(config(id=number(0)), [("a", Custom(6))], "task")
        built = Custom.built
        assert value(saver) == {"x": 5} and value(saver, "b") == [{1, 2}, b"x"]
        found = saver.get_tuple(config())
        assert found is not None and found.pending_writes == [("task", "a", {"x": 6})]
        assert Custom.built == built
    with GitSaver(place, allow=[allow]) as saver:
        assert value(saver) == Custom(5) and type(value(saver)) is Custom
        found = saver.get_tuple(config())
        assert found is not None and found.pending_writes == [("task", "a", Custom(6))]


def test_a_copy_with_a_longer_list_shares_the_store(tmp_path: Path) -> None:
    with GitSaver(tmp_path / "threads.git") as saver:
        put(saver, number(0), {"a": Custom(5)})
        more = saver.with_allowlist([(Custom.__module__, "Custom")])
        assert more is not saver and isinstance(more, GitSaver) and more.store is saver.store
        assert value(more) == Custom(5) and value(saver) == {"x": 5} and value(more) == Custom(5)
        put(more, number(1), {"a": "later"}, parent=number(0))
        saver.put_writes(config(id=number(1)), [("a", 1)], "task")
        twin = copy.copy(saver)
        assert plain(more.get_tuple(config())) == plain(saver.get_tuple(config())) == plain(twin.get_tuple(config()))
        assert twin.store is saver.store and saver.with_allowlist([]) is saver
        asyncio.run(more.aput(config(), checkpoint(number(2)), {}, {}))
        assert ids(twin.list(config())) == [number(2), number(1), number(0)]
    with pytest.raises(BatonError):
        more.get_tuple(config())  # closed with it


def test_nothing_is_unpickled_unless_it_was_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "threads.git"
    asked = JsonPlusSerializer(pickle_fallback=True)
    with GitSaver(place, serde=asked) as saver:
        put(saver, number(0), {"a": Trap(), "b": 1})
        assert asked.dumps_typed(Trap())[0] == "pickle" and pickle.loads(asked.dumps_typed(Trap())[1]) == "sprung"
        Trap.sprung = 0
        assert value(saver) == "sprung" and Trap.sprung == 3
    with GitSaver(place) as saver:
        with pytest.raises(RuntimeError, match="type: pickle"):
            saver.get_tuple(config())
        with pytest.raises(RuntimeError, match="type: pickle"):
            list(saver.list(config()))
        with pytest.raises(TypeError):
            put(saver, number(1), {"a": Trap()})
        assert Trap.sprung == 3 and len(list(saver.store.walk("t", ""))) == 1


def test_a_serialiser_of_the_users_own_is_used_for_everything(tmp_path: Path) -> None:
    place = tmp_path / "threads.git"
    secret = EncryptedSerializer(Xor(), JsonPlusSerializer())
    odd, nan = {"odd": {1: "one"}}, float("nan")
    with GitSaver(place, serde=secret) as saver:
        put(saver, number(0), {"a": "the password", "b": None}, versions={"a": 1, "b": nan}, metadata=odd)
        put(saver, number(1), {"a": "the password", "b": 2}, versions={"a": 1, "b": 2}, parent=number(0), new=["b"])
        saver.put_writes(config(id=number(1)), [("a", "the password")], "task")
        assert value(saver) == "the password" and list(saver.list(config(), filter=odd))
        saver.maintain()
        found = saver.get_tuple(config())
        assert found is not None and found.pending_writes == [("task", "a", "the password")]
    bare = Sandbox(place)
    objects = bare.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)").splitlines()
    asked = [["git", "cat-file", *line.split()[::-1]] for line in objects]
    texts = [subprocess.run(words, cwd=place, capture_output=True).stdout for words in asked]
    assert len(texts) > 5 and not any(b"the password" in text for text in texts)
    with GitSaver(place) as saver, pytest.raises(RuntimeError, match=r"turned|xor"):
        saver.get_tuple(config())


def test_either_a_serialiser_or_a_list(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not both"):
        GitSaver(tmp_path / "x", serde=JsonPlusSerializer(), allow=[Custom])
    assert not (tmp_path / "x").exists()


ODD: list[dict[str, Any]] = [
    {"int keys": {1: {2: 3}}},
    {"huge": 10**30, "tiny": -(10**30)},
    {"half": "\ud800", "pair": "\U0001f600"},
    {"nan": [1.5, float("inf")]},
    {"deep": json.loads("[" * 250 + "]" * 250)},
    {"bytes": b"\0\xff", "set": {1, 2}},
    {"long": "x" * 70_000, "many": list(range(2000))},
    {f"key {n}": n for n in range(40)},
]


@pytest.mark.deep
@pytest.mark.parametrize("odd", ODD, ids=[next(iter(odd)) for odd in ODD])
def test_what_json_cannot_carry_comes_back_as_it_is(tmp_path: Path, odd: dict[str, Any]) -> None:
    """In the metadata, in the checkpoint and as channels, by whichever way it is read."""
    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        lone = any("\ud800" <= c <= "\udfff" for text in odd.values() if isinstance(text, str) for c in text)
        values = {} if lone or "huge" in odd else odd  # LangGraph's serialiser itself does not carry these
        saver.put(config(), checkpoint(number(0), values, more=odd), odd, dict.fromkeys(values, 1))  # type: ignore[arg-type]
        for n in range(6):
            found = saver.get_tuple(config())
            assert found is not None and found.checkpoint == checkpoint(number(0), values, more=odd)
            assert found.metadata == odd
            found.checkpoint["channel_values"].clear()  # what is given is the caller's own
            found.metadata["step"] = 99
            if n == 3:
                saver.flush()


class Kind(enum.Enum):
    A = "a"


class Word(str):
    pass


ANY = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters()), st.binary(max_size=3)),
        st.sampled_from([Kind.A, Word("x"), Custom(1), 1j, 2**64, -(2**70), "\ud800", "\ud83d\ude00"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers(), st.sampled_from([None, Word("k")])), inner, max_size=3),
    ),
    max_leaves=8,
)


@pytest.mark.deep
@settings(max_examples=examples(3000, 150), deadline=None)
@given(ANY, st.integers(0, 110))
def test_the_fast_way_to_json_is_the_slow_way(item: Any, depth: int) -> None:
    """What is stored as JSON does not depend on the check that says so."""
    for _ in range(depth):
        item = [item]

    class Serde:
        def dumps_typed(self, value: Any) -> tuple[str, bytes]:
            return "its own", b""

    made = checkpoint("x", more=item)
    draft = Writer(None, Serde(), {}, Branches()).draft(config(), made, {}, {}, lambda *_: None)  # type: ignore[arg-type]
    body = {key: value for key, value in made.items() if key != "channel_values"}
    assert (draft.ck or None) == json_text(body)
    assert ("ck" in draft.rest) == (json_text(body) is None)


def _no_map(raw: bytes) -> bytes:
    start, end = raw.index(b'"ck":') + 5, raw.index(b',"md":')
    return raw[:start] + b"[" + b"1" * (end - start - 2) + b"]" + raw[end:]


@pytest.mark.parametrize(
    ("forge", "said", "value"),
    [
        (_no_map, "its 'ck' is no map", 7),
        (lambda raw: raw.replace(b'"md":{', b'"md":"'), "stored text is not JSON", 1),
        (lambda raw: raw.replace(b'{"v":4,"id":"1ef', b'{"v":4,"id":"2ef'), "it says that it is another", 1),
    ],
    ids=["list", "broken", "other"],
)
def test_a_forged_checkpoint_is_refused_and_can_be_followed(
    tmp_path: Path, forge: Callable[[bytes], bytes], said: str, value: int
) -> None:
    place, ref = tmp_path / "threads.git", "refs/baton/threads/=t/_"
    with GitSaver(place, fsync=False) as saver:
        chain(saver, 2)
    bare = Sandbox(place)
    raw = subprocess.run(["git", "cat-file", "commit", ref], cwd=place, capture_output=True).stdout
    assert forge(raw) != raw
    bare.git("update-ref", ref, bare.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=forge(raw)))
    with GitSaver(place, fsync=False) as saver:
        for _ in range(2):
            with pytest.raises(RecordError, match=said):
                saver.get_tuple(config())
        with pytest.raises(RecordError, match=said):
            list(saver.list(config()))
        put(saver, number(2), {"n": 7}, versions={"n": 1}, parent=number(1), new=())
        found = saver.get_tuple(config())  # the parent's value, where its version can be told to be the same
        assert found is not None and found.checkpoint["channel_values"] == {"n": value}


def test_metadata_lose_nul_as_with_the_other_savers(tmp_path: Path) -> None:
    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        where = config()
        where["configurable"] |= {"user": "a\0b", "n": 5, "__pregel_x": 1, "object": object()}
        where["metadata"] = {"from": "meta\0data", "langgraph_step": 9, "n": 6}
        saver.put(where, checkpoint(number(0)), {"source": "in\0put", "step": 1}, {})  # type: ignore[typeddict-item]
        found = saver.get_tuple(config())
        assert found is not None
        assert found.metadata == {"source": "input", "step": 1, "from": "metadata", "n": 6, "user": "ab"}
        assert found.config == config(id=number(0))


def test_asynchronous_and_synchronous_see_the_same(tmp_path: Path) -> None:
    """What the caller changes after ``aput`` was called is not in it."""

    async def main(saver: GitSaver) -> None:
        values = {"a": [0]}
        made = checkpoint(number(0), values)
        task = asyncio.ensure_future(saver.aput(config(), made, {"step": 0}, {"a": 1}))
        await asyncio.sleep(0)
        values["a"].append(1)
        made["id"] = "other"
        assert await task == config(id=number(0))
        await saver.aput_writes(config(id=number(0)), [("a", 2)], "task", "~p")
        await asyncio.gather(*(saver.aput(config(f"t{n % 5}"), checkpoint(number(n + 1)), {}, {}) for n in range(100)))
        found = await saver.aget_tuple(config())
        assert found is not None and found.checkpoint["channel_values"] == {"a": [0]}
        assert found.pending_writes == [("task", "a", 2)] and plain(found) == plain(saver.get_tuple(config()))
        assert await saver.aget(config(id="no such")) is None
        listed = [item async for item in saver.alist(None)]
        assert [plain(i) for i in listed] == [plain(i) for i in saver.list(None)] and len(listed) == 101
        assert [plain(i) async for i in saver.alist(None, limit=3)] == [plain(i) for i in listed[:3]]

    async def whole() -> None:
        async with GitSaver.from_conn_string(str(tmp_path / "threads.git")) as saver:
            await main(saver)

    asyncio.run(whole())


def older(place: Path) -> None:
    """Refs are as if they had been moved a while ago: one that is young might be moved again unseen, and is looked at each
    time."""
    for path in (place / "threads.git/refs/baton").rglob("_"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 60))


def test_the_event_loop_reads_no_tree(tmp_path: Path) -> None:
    """What is known of a checkpoint, and not yet read whole, is read aside."""
    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        chain(saver, 3)
    older(tmp_path)
    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        entry = saver.store.latest("t", "")
        assert entry is not None and entry.load is not None and saver.store.ready("t", "") is entry
        load, where = entry.load, list[int]()

        def told(given: ThreadCheckpoint) -> Parts:
            where.append(threading.get_ident())
            return load(given)

        entry.load = told
        assert asyncio.run(saver.aget_tuple(config())) is not None
        assert where and threading.get_ident() not in where


@pytest.mark.deep
def test_what_is_in_memory_does_not_leave_the_event_loop(tmp_path: Path) -> None:
    async def here(where: Any) -> Any:
        def nowhere(*_: object) -> None:
            raise AssertionError("a thread was asked")

        asyncio.get_running_loop().run_in_executor = nowhere  # type: ignore[method-assign,assignment]
        return plain(await saver.aget_tuple(where))

    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        chain(saver, 3)
        saver.put_writes(config(id=number(1)), [("a", 1)], "task")
        for flushed in (False, True):
            wanted = [plain(saver.get_tuple(config(id=id))) for id in (None, number(1), number(0)) for _ in range(3)]
            for place in (0, 8):
                assert asyncio.run(here(config(id=(None, number(0))[place // 8]))) == wanted[place]
            if flushed:  # its writes are in git
                with pytest.raises(AssertionError, match="a thread was asked"):
                    asyncio.run(here(config(id=number(1))))
            saver.flush()
            older(tmp_path)
        assert plain(asyncio.run(saver.aget_tuple(config(id=number(1))))) == wanted[4]


def test_versions_count_up_and_tell_branches_apart(tmp_path: Path) -> None:
    with GitSaver(tmp_path / "threads.git") as saver:
        following: Callable[[Any], str] = lambda current: saver.get_next_version(current, None)  # noqa: E731
        one = following(None)
        assert one.startswith("0" * 31 + "1.0.") and len(one.split(".")[0]) == 32
        assert following(one) > one and following(9).split(".")[0].endswith("10") and following(one) != following(one)


@pytest.mark.parametrize("flushed", [False, True])
def test_what_metadata_say_counts_where_they_are_no_json(tmp_path: Path, *, flushed: bool) -> None:
    about = {"run_id": "run-1", "counters_since_delta_snapshot": {"log": [1, 1]}, "id": uuid.UUID(int=1)}
    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        for n in range(4):
            parent = number(n - 1) if n > 1 else None
            put(saver, number(n), {"log": [n]} if n < 2 else {}, parent=parent, metadata=about if n > 1 else {})
        if flushed:
            saver.flush()
        saver.prune(["t"])
        assert ids(saver.list(config())) == [number(3), number(2), number(1)], "its delta channel is put together from them"
        saver.delete_for_runs(["run-1"])
        assert ids(saver.list(config())) == [number(1)]
