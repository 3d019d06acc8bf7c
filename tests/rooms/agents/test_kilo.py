"""Kilo Code: what our plugin in it says, and its tables, which are OpenCode's under another name."""

from __future__ import annotations

import json

from gitbaton.agents.client import read
from gitbaton.agents.kilo import CLIENT
from gitbaton.agents.records import signs
from gitbaton.agents.signs import Asked, Edited, Ended, Said
from tests.kit.payloads import FOLDER
from tests.kit.places import DATA

MOMENTS = [
    "prompt",
    "start",
    *["edit"] * 5,
    "turn",
    "prompt",
    "start",
    "edit",
    "compact",
    "start",
    "compacted",
    "start",
    "turn",
]


def test_every_event_that_the_plugin_told() -> None:
    told = json.loads((FOLDER / "kilo_events.json").read_text())
    found = []
    for one in told:
        agent, word = one["event"].split()
        event = read(agent, word, json.dumps(one["payload"]).encode(), {})
        assert event is not None and (event.agent, event.cwd) == ("kilo", "/home/dev/project")
        found.append(event)
    assert [event.moment for event in found] == MOMENTS and len({event.session for event in found}) == 1
    assert [event.prompt for event in found if event.prompt] == ["Do the release of half()", "continue please"]


def test_its_tables_tell_what_was_said_and_done() -> None:
    rows = [json.loads(line) for line in (DATA / "plans/kilo/db-rows.jsonl").read_bytes().splitlines()]
    columns = [
        {**row, **{name: json.dumps(row[name]) for name in ("data", "message")}} for row in rows if row["table"] == "part"
    ]
    records = [record for row in columns if (record := CLIENT.record(row)[0]) is not None]
    found = [sign for record in records for sign in signs(CLIENT, record)]
    assert [sign.text for sign in found if isinstance(sign, Asked)] == ["Do the release of half()", "continue please"]
    assert [sign.text for sign in found if isinstance(sign, Said)] == [
        "LAST-WORDS-1: the rounding bug is fixed; next is the changelog.",
        "LAST-WORDS-2: second turn, nothing to change.",
    ]
    assert {sign.path for sign in found if isinstance(sign, Edited)} == {"/repo/src/x.py"}
    assert [sign.status for sign in found if isinstance(sign, Ended)] == [0, 3, 1, 0, 0]
    plan = CLIENT.planned([row for row in rows if row["table"] == "todo"])
    assert plan is not None and [item.state for item in plan.items] == ["done", "done", "doing", "open"]


def test_its_database_is_its_own() -> None:
    assert CLIENT.database({"HOME": "/h"}) == "/h/.local/share/kilo/kilo.db"
    assert CLIENT.database({"HOME": "/h", "XDG_DATA_HOME": "/d"}) == "/d/kilo/kilo.db"
    query = CLIENT.plan("s", None, {"HOME": "/h"}, 5)
    assert query is not None and query.path == "/h/.local/share/kilo/kilo.db"
