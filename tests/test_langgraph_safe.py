"""GitSaver builds no class that nobody allowed, unpickles nothing, and opens what it is given."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import enum
import json
import os
import pickle
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton import Baton
from gitbaton.errors import BatonError, GitError, NotARepositoryError, UsageError
from tests.saverkit import chain, checkpoint, config, ids, number, plain, put
from tests.support import Sandbox, examples
from tests.support.forkserver import python

pytest.importorskip("langgraph.checkpoint.base")

from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from gitbaton.git.creating import create_bare
from gitbaton.langgraph import GitSaver
from gitbaton.langgraph.writing import Draft, Writer
from gitbaton.threads.codec import json_text


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


@settings(max_examples=examples(3000, 150), deadline=None)
@given(ANY, st.integers(0, 110))
def test_the_fast_way_to_json_is_the_slow_way(item: Any, depth: int) -> None:
    """What is stored as JSON does not depend on the check that says so."""
    for _ in range(depth):
        item = [item]

    class Serde:
        def dumps_typed(self, value: Any) -> tuple[str, bytes]:
            return "its own", b""

    writer = Writer(None, Serde(), {})  # type: ignore[arg-type]
    draft = Draft(config(), checkpoint("x"))
    assert (writer._text(draft, "md", item) or None) == json_text(item)
    assert (draft.rest == {}) == (json_text(item) is not None)


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


def test_what_is_opened(tmp_path: Path) -> None:
    """A bare repository is made where nothing is, and in an empty folder; else git's answer counts."""
    (tmp_path / "empty").mkdir()
    for name in ("new.git", "deep/er/new", "empty"):
        with GitSaver(tmp_path / name, fsync=False) as saver:
            chain(saver, 2)
        bare = Sandbox(tmp_path / name)
        assert bare.git("rev-parse", "--is-bare-repository") == "true" and not bare.git("for-each-ref", "refs/heads")
        assert bare.git("rev-list", "--count", "refs/baton/threads/=t/_") == "2"
        assert [p.name for p in (tmp_path / name).parent.iterdir() if p.name.endswith(".new")] == []
    repo = Sandbox.init(tmp_path / "work")
    repo.commit("first", a_txt="one\n")
    with GitSaver.from_conn_string(str(tmp_path / "work")) as saver:
        chain(saver, 2)
    with Baton(repo.path) as baton:
        with GitSaver(baton) as saver:
            assert len(list(saver.list(None))) == 2
        assert baton.repo.objects.head().oid == repo.head()  # not ours to close
    assert repo.git("status", "--porcelain") == "" and not (repo.path / ".git/baton/wal").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("x")
    for name in ("full", "full/file", "full/file/below"):
        with pytest.raises(NotARepositoryError):
            GitSaver(tmp_path / name)
    with pytest.raises(GitError, match="cannot create the repository"):
        GitSaver("/proc/no/such/place")


@pytest.mark.parametrize("options", [("--object-format=sha256",), ("--ref-format=reftable",), ("--bare",)], ids=str)
def test_any_kind_of_repository(
    tmp_path: Path, options: tuple[str, ...], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = request.getfixturevalue("new_git") if "reftable" in options[0] else "git"
    if git != "git":
        monkeypatch.setenv("PATH", os.path.dirname(git) + os.pathsep + os.environ["PATH"])
    repo = Sandbox.init(tmp_path / "repo", *options, git=git)
    for flushed in (False, True):
        with GitSaver(repo.path, fsync=False) as saver:
            names = [] if flushed else chain(saver, 5)
            saver.put_writes(config(id=number(2)), [("n", flushed)], f"task {flushed}")
            assert ids(saver.list(config())) == [number(n) for n in reversed(range(5))] and len(names) in (0, 5)
            found = asyncio.run(saver.aget_tuple(config(id=number(2))))
            assert found is not None and found.checkpoint["channel_values"] == {"n": 2}
            assert found.pending_writes == [("task False", "n", False), ("task True", "n", True)][: flushed + 1]
    assert repo.git("rev-list", "--count", "refs/baton/threads/=t/_") == "5"
    repo.fsck()


def test_a_new_repository_is_on_disk_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    create_bare(str(tmp_path / "a/b/new.git"), sync=False)
    assert synced == []
    create_bare(str(tmp_path / "c/d/new.git"))
    inside = [re.sub(r"^c/d/new[.]git[.][0-9a-f]+[.]new/?", "", name) for name in synced[:-3]]
    found = {
        os.path.relpath(os.path.join(top, name), tmp_path / "c/d/new.git")
        for top, *both in os.walk(tmp_path / "c/d/new.git")
        for names in both
        for name in names
    }
    assert sorted(inside) == sorted({*found, ""}) and {"HEAD", "config", "refs/heads"} <= found
    assert synced[-3:] == ["c/d", "c", "."]


def test_several_make_one_repository_at_once(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: create_bare(str(tmp_path / "new.git")), range(4)))
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["new.git"]
    Sandbox(tmp_path / "new.git").fsck()


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


def test_what_is_in_memory_does_not_leave_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nowhere(*_: object) -> None:
        raise AssertionError("a thread was asked")

    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        chain(saver, 3)
        saver.put_writes(config(id=number(1)), [("a", 1)], "task")
        for flushed in (False, True):
            wanted = [plain(saver.get_tuple(config(id=id))) for id in (None, number(1), number(0)) for _ in range(3)]
            with monkeypatch.context() as patch:
                patch.setattr("gitbaton.langgraph.aio._aside", nowhere)
                for place in (0, 8):
                    where = config(id=(None, number(0))[place // 8])
                    assert plain(asyncio.run(saver.aget_tuple(where))) == wanted[place]
                if flushed:  # its writes are in git
                    with pytest.raises(AssertionError, match="a thread was asked"):
                        asyncio.run(saver.aget_tuple(config(id=number(1))))
            saver.flush()
            time.sleep(0.03)  # a ref that is so young might be moved again unseen, and is looked at each time
        assert plain(asyncio.run(saver.aget_tuple(config(id=number(1))))) == wanted[4]


def test_versions_count_up_and_tell_branches_apart(tmp_path: Path) -> None:
    with GitSaver(tmp_path / "threads.git") as saver:
        following: Callable[[Any], str] = lambda current: saver.get_next_version(current, None)  # noqa: E731
        one = following(None)
        assert one.startswith("0" * 31 + "1.0.") and len(one.split(".")[0]) == 32
        assert following(one) > one and following(9).split(".")[0].endswith("10") and following(one) != following(one)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "sys.modules['langgraph'] = None\ntry: from gitbaton.langgraph import GitSaver\nexcept ImportError as e: print(e)",
            "GitSaver needs LangGraph, and there is no module 'langgraph.checkpoint': pip install 'gitbaton[langgraph]'\n",
        ),
        ("import gitbaton.langgraph; print('langgraph' in sys.modules)", "False\n"),
        ("import gitbaton.langgraph as it\ntry: it.other\nexcept AttributeError: print('no')", "no\n"),
    ],
    ids=["missing", "late", "other"],
)
def test_langgraph_is_imported_late_and_its_lack_is_told(code: str, said: str, tmp_path: Path) -> None:
    done = python(["-c", f"import sys\n{code}"], str(tmp_path), os.environ)
    assert (done.code, done.out.decode()) == (0, said), done.err
