"""What was said, as its blob has it: all of it comes back, and so does what yesterday's version wrote."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gitbaton.base.codec import read_told, told_bytes
from gitbaton.base.errors import RecordError
from gitbaton.base.model import Action, Prompt, Ran, Running, Told

WHEN = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
RAN = Ran(command="make", status=2, started=None, ended=WHEN, output="error")
TOLD = Told(
    asked=(Prompt(text="one", at=WHEN, earlier=True), Prompt(text="Postgres", at=WHEN, kind="answer", about="Which?")),
    latest=Prompt(text="2", at=WHEN, about="1 or 2?"),
    approved=Prompt(text="# Plan", at=WHEN, kind="approved", about="Plan"),
    listed=Prompt(text="- a", at=WHEN),
    said=Prompt(text="done", at=WHEN),
    texts=(Prompt(text="first", at=WHEN), Prompt(text="newest\nwhole", at=WHEN + timedelta(seconds=1))),
    actions=(Action(text="edited a.py", at=WHEN, count=3, status=0), Action(text="Explore", at=WHEN, output="found")),
    commands=(RAN, Ran(command="ls", status=None, started=WHEN, ended=WHEN)),
    checks=(RAN,),
    error=RAN,
    running=(Running(text="npm start", since=WHEN),),
    read=("a.py", "\udcff.py"),
)
YESTERDAY = """{
  "v": 1,
  "asked": [{"text": "Port it", "at": "2026-01-02T03:04:05.678000Z"}],
  "listed": null,
  "said": {"text": "The parser is left.", "at": "2026-01-02T03:04:05.678000Z"},
  "saying": {"text": "Let me look.", "at": "2026-01-02T03:04:06.678000Z"},
  "commands": [{"command": "make", "status": null, "started": null, "ended": "2026-01-02T03:04:05.678000Z", "output": ""}]
}"""


def test_all_of_it_comes_back() -> None:
    assert read_told(told_bytes(TOLD)) == TOLD and read_told(told_bytes(Told())) == Told()
    assert TOLD.saying == TOLD.texts[-1] and Told().saying is None


def test_what_yesterdays_version_wrote_is_read() -> None:
    found = read_told(YESTERDAY.encode())
    assert found.saying is not None and found.saying.text == "Let me look." and len(found.texts) == 1
    assert (found.asked[0].text, found.asked[0].earlier, found.latest, found.running) == ("Port it", False, None, ())


@pytest.mark.parametrize(
    "wrong",
    [
        {"texts": [{"text": "x"}]},
        {"actions": [{"text": "x", "at": "2026-01-02T03:04:05.678000Z", "count": -1}]},
        {"running": "npm"},
        {"read": [1]},
        {"error": []},
        {"latest": {"text": "x", "at": "2026-01-02T03:04:05.678000Z", "kind": "order"}},
        {"checks": [{}] * 21},
    ],
)
def test_what_nobody_wrote_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        read_told(json.dumps({**json.loads(YESTERDAY), **wrong}).encode())
    assert read_told(YESTERDAY.encode())
