"""Names that LangGraph gives and that are no plain text: numbers, Enums, other classes made from text, nothing at all."""

from __future__ import annotations

import enum
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.saverkit import checkpoint, config, ids, number, put
from tests.kit.threads import in_log

pytest.importorskip("langgraph.checkpoint.base")

from gitbaton.base.errors import UsageError
from gitbaton.langgraph import GitSaver
from gitbaton.langgraph.threads.codec import ThreadCheckpoint, encode_put, encode_writes


class Name(str, enum.Enum):  # noqa: UP042
    """Text that is written out as another one."""

    A = "a"
    ID = "1"


class Text(str):
    """Text of a class of its own, which says that it is another."""

    __slots__ = ()

    def __str__(self) -> str:
        return "other"


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[GitSaver]:
    with GitSaver(tmp_path / "threads.git", fsync=False) as opened:
        yield opened


def _put(saver: GitSaver, place: Any, id: Any = "1", values: Any = None) -> Any:
    made = checkpoint(id, values or {"a": 1})
    return saver.put(place, made, {"source": "loop", "step": 1}, made["channel_versions"])


TAKEN: dict[str, Callable[[GitSaver], object]] = {
    "id": lambda s: _put(s, config("p"), 5),
    "id-enum": lambda s: _put(s, config("p"), Name.ID),
    "id-text": lambda s: _put(s, config("p"), Text("q")),
    "parent": lambda s: _put(s, config("p", id=5)),  # type: ignore[arg-type]
    "parent-enum": lambda s: _put(s, config("p", id=Name.ID), "2"),
    "namespace": lambda s: _put(s, config("p", 5)),  # type: ignore[arg-type]
    "namespace-enum": lambda s: _put(s, config("p", Name.A)),
    "thread-enum": lambda s: _put(s, config(Name.A)),
    "thread": lambda s: _put(s, config(7)),
    "channel-enum": lambda s: _put(s, config("p"), "1", {Name.A: 1}),
    "channel-text": lambda s: _put(s, config("p"), "1", {Text("x"): 1}),
    "task": lambda s: s.put_writes(config("p", id="1"), [("a", 1)], 5),  # type: ignore[arg-type]
    "task-enum": lambda s: s.put_writes(config("p", id="1"), [("a", 1)], Name.A),
    "path": lambda s: s.put_writes(config("p", id="1"), [("a", 1)], "t", 5),  # type: ignore[arg-type]
    "write": lambda s: s.put_writes(config("p", id="1"), [(5, 1)], "t"),  # type: ignore[list-item]
    "write-enum": lambda s: s.put_writes(config("p", id="1"), [(Name.A, 1)], "t"),
    "write-id": lambda s: s.put_writes(config("p", id=5), [("a", 1)], "t"),  # type: ignore[arg-type]
}
REFUSED: dict[str, Callable[[GitSaver], object]] = {
    "id-none": lambda s: _put(s, config("p"), None),
    "id-list": lambda s: _put(s, config("p"), [1]),
    "channel": lambda s: _put(s, config("p"), "1", {5: 1}),
    "channel-none": lambda s: _put(s, config("p"), "1", {None: 1}),
    "task-none": lambda s: s.put_writes(config("p", id="1"), [("a", 1)], None),  # type: ignore[arg-type]
    "path-none": lambda s: s.put_writes(config("p", id="1"), [("a", 1)], "t", None),  # type: ignore[arg-type]
    "write-none": lambda s: s.put_writes(config("p", id="1"), [(None, 1)], "t"),  # type: ignore[list-item]
    "namespace": lambda s: _put(s, config("p", [1])),  # type: ignore[arg-type]
}


@pytest.mark.deep
def test_odd_names_are_taken(tmp_path: Path) -> None:
    """Each comes back as plain text from the log and from git, and nothing else is the worse for it."""
    for name, act in TAKEN.items():
        path = tmp_path / f"{name}.git"
        with GitSaver(path, fsync=False) as saver:
            act(saver)
            put(saver, number(1), {"a": 2}, thread="good")
            with GitSaver(path, fsync=False) as other:  # by way of the log
                assert len(ids(other.list(None))) == (1 if name.startswith(("task", "path", "write")) else 2), name
        with GitSaver(path, fsync=False) as saver:
            for thread, space in saver.store.chains():
                found = saver.get_tuple(config(thread, space))
                assert found is not None and found.checkpoint["id"] == found.config["configurable"]["checkpoint_id"]
                assert {type(key) for key in (thread, space, found.checkpoint["id"], *found.checkpoint["channel_values"])} == {
                    str
                }
            assert "good" in dict(saver.store.chains()), name


def test_enum_channel_is_the_text_itself(saver: GitSaver, tmp_path: Path) -> None:
    """What the tree of another thread is called does not depend on who was first."""
    _put(saver, config("p"), "1", {Name.A: 1})
    saver.put_writes(config("p", id="1"), [(Name.A, 1)], Name.A)
    put(saver, number(1), {"a": 1}, thread="good")
    saver.flush()
    where = ["git", "-C", str(tmp_path / "threads.git"), "ls-tree", "--name-only"]
    assert subprocess.run([*where, "refs/baton/threads/=good/_"], capture_output=True, text=True).stdout == "c.a\n"
    assert subprocess.run([*where, "refs/baton/threads/=p/_"], capture_output=True, text=True).stdout == "c.a\nr.ck\nw.a\n"
    found = saver.get_tuple(config(Name.A))
    assert found is None
    _put(saver, config(Name.A, Name.A), Name.ID)
    assert saver.get_tuple(config("a", "a", "1")) == saver.get_tuple(config(Name.A, Name.A, Name.ID)) is not None
    assert ids(saver.list(config("a", "a"))) == ids(saver.list(config(Name.A, Name.A, Name.ID))) == ["1"]


def test_what_is_no_name_is_refused(saver: GitSaver, tmp_path: Path) -> None:
    """With a message, and before anything is written."""
    put(saver, number(1), thread="good")
    pending = in_log(tmp_path / "threads.git")
    for name, act in REFUSED.items():
        with pytest.raises(UsageError, match="must be text, not"):
            act(saver)
        assert in_log(tmp_path / "threads.git") == pending, name
    assert ids(saver.list(None)) == [number(1)]


def test_the_log_takes_nothing_that_it_cannot_give_back() -> None:
    """Whoever calls: a name that is not plain text, or a checkpoint without its text, makes no record."""
    entry = ThreadCheckpoint("1", None, b"{}", b"{}", {})
    assert encode_put("t", "", entry, {})
    odd = (Name.A, 5, None, True, Text("x"))
    for bad in odd:
        for thread, namespace, id in ((bad, "", "1"), ("t", bad, "1"), ("t", "", bad)):
            with pytest.raises(UsageError):
                encode_put(thread, namespace, ThreadCheckpoint(id, None, b"{}", b"{}", {}), {})  # type: ignore[arg-type]
            with pytest.raises(UsageError):
                encode_writes(thread, namespace, id, [("p", "t", 0, "c", "null", b"")], False)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            encode_put("t", "", ThreadCheckpoint("1", None, b"{}", b"{}", {bad: b"x" * 20}), {})  # type: ignore[dict-item]
        for place in (0, 1, 3, 4, 5):
            row: list[Any] = ["p", "t", 0, "c", "null", b""]
            row[place] = bad
            with pytest.raises(UsageError):
                encode_writes("t", "", "1", [tuple(row)], False)
    for bad in (Name.A, 5, True):
        with pytest.raises(UsageError):
            encode_put("t", "", ThreadCheckpoint("1", bad, b"{}", b"{}", {}), {})  # type: ignore[arg-type]
    for ck, md, rest in ((b"", b"{}", {}), (b"{}", b"{}", {"ck": b"x" * 20}), (b"{}", b"{}", {"zz": b"x" * 20})):
        with pytest.raises(UsageError):
            encode_put("t", "", ThreadCheckpoint("1", None, ck, md, {}, rest=rest), {})


def test_metadata_that_only_json_can_carry(saver: GitSaver) -> None:
    """Integers beyond 64 bits beside NaN or something deep, as SqliteSaver stores them; and no name is too long to ask for."""
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    for thread, more in (("a", {"n": 1 << 70, "x": float("inf")}), ("b", {"n": -(1 << 70), "deep": deep})):
        put(saver, number(1), {"v": 1}, thread=thread, metadata=more)
        saver.flush()
        found = saver.get_tuple(config(thread))
        assert found is not None and more.items() <= dict(found.metadata).items()
    with pytest.raises(TypeError):
        put(saver, number(2), metadata={"n": 1 << 70, "x": object()})
    assert saver.get_tuple(config("a", id="9" * 5000)) is None and saver.get_tuple(config("9" * 5000)) is None
