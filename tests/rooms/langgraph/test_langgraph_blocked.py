"""What GitSaver says of a class that it does not build, and what ``allow`` takes."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any, TypedDict

import pytest

from gitbaton.base.errors import UsageError
from tests.kit.saverkit import config, number, put

pytest.importorskip("langgraph.graph")

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from pydantic import BaseModel

from gitbaton.langgraph import GitSaver


class Plan(BaseModel):
    name: str = "x"


class Brought(Plan):
    pass


class Wanted(Plan):
    pass


@dataclasses.dataclass
class Other:
    x: int


class State(TypedDict):
    v: Wanted


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    """What is told once in a process: each test has classes of its own."""
    caplog.set_level(logging.WARNING)


def _class(name: str, module: str = "theirs") -> type[Plan]:
    return type(name, (Plan,), {"__module__": module})


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings of ours."""
    return [item.getMessage() for item in caplog.records if item.name == "gitbaton.langgraph" and item.levelname == "WARNING"]


def line(kind: type) -> str:
    """What a user is to write."""
    return f"GitSaver(..., allow=[({kind.__module__!r}, {kind.__name__!r})])"


def test_each_class_that_is_not_built_is_told_once_with_the_line_to_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "threads.git"
    with GitSaver(place, fsync=False) as saver:
        put(saver, number(0), {"a": Plan(), "b": [Plan(name="y")]})
        saver.put_writes(config(id=number(0)), [("a", Other(1))], "task")
        assert not told(caplog)
        for _ in range(4):  # by its parts, and joined
            assert saver.get(config())["channel_values"] == {"a": {"name": "x"}, "b": [{"name": "y"}]}  # type: ignore[index]
        first, second = told(caplog)
        assert line(Plan) in first and line(Other) in second and "'Plan' of the module" in first
        assert "LANGGRAPH_STRICT_MSGPACK=true" in first and "If it is a class of yours" in first
    with GitSaver(place, fsync=False) as saver:  # another one says it no more
        assert saver.get(config()) and len(told(caplog)) == 2
        more = saver.with_allowlist([("no", "Such")])
        put(saver, number(1), {"a": [Plan(), _class("Third")()]})
        assert more.get(config()) and len(told(caplog)) == 3 and "'Third'" in told(caplog)[2]


def test_who_brings_a_serialiser_is_told_nothing_of_allow(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = tmp_path / "threads.git"
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    with GitSaver(place, fsync=False) as ours, GitSaver(place, fsync=False, serde=strict) as theirs:
        put(ours, number(0), {"a": Brought()})
        for _ in range(4):
            assert theirs.get(config())["channel_values"] == {"a": {"name": "x"}}  # type: ignore[index]
        assert strict.loads_typed(strict.dumps_typed(Brought())) == {"name": "x"} and not told(caplog)
        assert ours.get(config()) and len(told(caplog)) == 1
        assert strict.loads_typed(strict.dumps_typed(_class("Fourth")())) == {"name": "x"} and len(told(caplog)) == 1


def test_what_a_stranger_names_is_one_line_and_not_without_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        odd = [_class(name, "os\n\x1b[31m") for name in ("a\nb", "x" * 9999)]
        put(saver, number(0), {"a": [kind() for kind in odd]})
        assert saver.get(config())
    (only,) = told(caplog)
    assert only.isprintable() and r"allow=[('os\n\x1b[31m', 'a\nb')]" in only


@pytest.mark.parametrize("wrong", ["a.b", b"a", Plan, ("m", "Name"), [["m", "Name"]], [("m",)], [("m", "")], True, None, [1]])
def test_allow_takes_classes_and_pairs_and_nothing_else(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(UsageError, match="'allow' takes a list of classes and of pairs of module and name, not ") as found:
        GitSaver(tmp_path / "x", allow=wrong)
    assert found.value.hints == ("GitSaver(..., allow=[MyClass, ('my_module', 'MyClass')])",)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("way", ["nothing", "allow", "strict"])
def test_a_graph_gets_its_own_types_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """After an interrupt; with LANGGRAPH_STRICT_MSGPACK, which LangGraph reads when it is imported, nothing need be allowed."""
    monkeypatch.setattr("langgraph._internal._serde.STRICT_MSGPACK_ENABLED", way == "strict")
    with GitSaver(tmp_path / "x", fsync=False, allow=[Wanted] if way == "allow" else ()) as saver:
        graph = StateGraph(State).add_node("a", lambda state: {"v": state["v"].model_copy()}).add_edge(START, "a")
        app = graph.compile(checkpointer=saver, interrupt_before=["a"])
        app.invoke({"v": Wanted()}, config())
        if way == "nothing":
            with pytest.raises(AttributeError):
                app.invoke(None, config())
            assert [line(Wanted) in text for text in told(caplog)] == [True]
        else:
            assert app.invoke(None, config()) == {"v": Wanted()} and not told(caplog)
