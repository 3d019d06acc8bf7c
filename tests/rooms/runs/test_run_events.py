"""What happens in a run, as lines for people and as JSON lines that a schema describes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from gitbaton.cli.commands.reporting import EventLines, JsonLines, because, document, sentence
from gitbaton.runs.context import KINDS, Event
from gitbaton.runs.journal.values import Cause
from tests.kit import Sandbox
from tests.kit.places import PACKAGE

SCHEMA = json.loads((PACKAGE / "data/run-event.schema.json").read_text())
KEY = "3f2a91c" + "0" * 57


def valid(text: str) -> list[dict[str, Any]]:
    """The events of a ``--json`` output, each held against the schema."""
    found = [json.loads(row) for row in text.splitlines()]
    for event in found:
        jsonschema.validate(event, SCHEMA, cls=jsonschema.Draft202012Validator)
    return found


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Event(kind="cached", step="build", key=KEY), "cached 3f2a91c"),
        (Event(kind="ok", step="build", seconds=8.12), "ok in 8.1 s"),
        (Event(kind="failed", step="build", code=2, number=1, total=3, seconds=1), "failed with 2, attempt 1 of 3"),
        (Event(kind="failed", step="build", code=2, number=1, total=1), "failed with 2"),
        (Event(kind="retry", step="build", seconds=2.0), "again in 2 s"),
        (Event(kind="gate", step="build", text="look at the notes"), "waits at the gate: look at the notes"),
        (Event(kind="start", step="build"), "runs"),
        (Event(kind="start", step="b", cause=Cause(kind="input", path="src/a", old="1", new="2")), "runs: 'src/a' changed"),
        (Event(kind="start", step="b", cause=Cause(kind="input", path="src/a", new="2")), "runs: 'src/a' is new"),
        (Event(kind="start", step="b", cause=Cause(kind="dep", path="lint")), "runs: the outputs of 'lint' changed"),
        (Event(kind="not-brought-back", step="b", text="a, r"), "changed in its copy and not brought back: a, r"),
        (Event(kind="isolation", step="b", text="reflink"), "runs in a copy of the work tree (reflink)"),
        (Event(kind="isolation", step="b", text="none"), ""),
        (Event(kind="undeclared", step="b", text="wip/x\x1b[2J\nbaton: b: ok"), "undeclared: wip/x?[2J baton: b: ok"),
    ],
)
def test_an_event_in_words(event: Event, words: str) -> None:
    assert sentence(event) == words


@pytest.mark.deep
def test_every_kind_of_event_fits_the_schema_and_has_a_sentence_or_none() -> None:
    for kind in KINDS:
        event = Event(kind=kind, step="s", text="t\n", code=1, seconds=0.5, attempt=1, key=KEY, number=1, total=2)
        assert "\n" not in sentence(event)
        if kind not in ("progress", "finished"):
            valid(json.dumps({"v": 1, "run": "r", **document(event)}))


def test_every_cause_has_words() -> None:
    kinds = ["input", "dep", "argv", "cwd", "env", "key", "writes", "verify", "output", "unstable", "failed", "named", "path"]
    kinds += ["since", "never-run", "not-cacheable", "compensated", "crashed", "widened"]
    said = {because(Cause(kind=kind, path="p", old="1", new="2")) for kind in kinds}
    said |= {because(Cause(kind=kind)) for kind in kinds}
    assert all(text and text not in kinds for text in said)


def test_the_schema_refuses_what_is_no_event() -> None:
    with pytest.raises(jsonschema.ValidationError):
        valid('{"v": 1, "run": "r", "event": "finished"}')
    with pytest.raises(jsonschema.ValidationError):
        valid('{"v": 1, "run": "r", "event": "ok", "step": "s", "seconds": 1.5}')


def test_json_lines_end_with_what_became_of_each_step(capfd: pytest.CaptureFixture[str]) -> None:
    show = JsonLines("r-1")
    for event in (Event(kind="plan", total=1), Event(kind="start", step="a\n"), Event(kind="progress", step="a", seconds=1)):
        show(event)
    show.output(1, b"not shown")
    show.finished(2, {"a": "failed"})
    found = valid(capfd.readouterr().out)
    assert [event["event"] for event in found] == ["plan", "start", "finished"]
    assert found[-1] == {"v": 1, "run": "r-1", "event": "finished", "code": 2, "states": {"a": "failed"}}


@pytest.fixture
def lines(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[EventLines]:
    """Lines for a terminal, whose two streams are one."""
    monkeypatch.setattr("os.isatty", lambda fd: True)
    monkeypatch.setenv("COLUMNS", "30")
    with repo.open() as baton:
        yield EventLines(baton, "r", live=True, colors={})


def test_the_status_line_goes_before_anything_else_is_written(lines: EventLines, capsys: pytest.CaptureFixture[str]) -> None:
    lines(Event(kind="plan", total=3))
    lines(Event(kind="start", step="build"))
    assert capsys.readouterr().err == "baton: run 'r': 3 steps\nbaton: build: runs\n"
    lines(Event(kind="progress", step="build"))
    lines(Event(kind="progress", step="build"))
    assert capsys.readouterr().err == "\r\x1b[K[1/3] build 0:00"  # the same line is not written again
    lines.output(1, b"com")
    assert capsys.readouterr().err == "\r\x1b[K"
    lines(Event(kind="progress", step="build"))
    assert capsys.readouterr().err == ""  # it would stand upon what the command wrote
    lines(Event(kind="ok", step="build", seconds=1))
    assert capsys.readouterr().err == "\nbaton: build: ok in 1.0 s\n"
    lines(Event(kind="progress", step="build"))
    assert capsys.readouterr().err == ""  # nothing is at work
    lines.close()
    assert capsys.readouterr().err == ""


def test_without_a_terminal_there_is_no_status_line(repo: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    with repo.open() as baton:
        show = EventLines(baton, "r", live=False, colors={})
        show(Event(kind="start", step="build"))
        show.output(1, b"com")
        show(Event(kind="progress", step="build"))
        show(Event(kind="ok", step="build", seconds=1))
        show.close()
    assert capsys.readouterr().err == "baton: build: runs\nbaton: build: ok in 1.0 s\n"
