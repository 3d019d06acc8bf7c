"""Any story of prompts, rewinds and compactions, looked at whenever: what is told in the end is what one look would tell."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.kit import Sandbox
from tests.kit.agents import Client, log_of
from tests.kit.tiers import examples, model
from tests.rooms.agents.test_branches import WORDS, Claude

STORIES = st.lists(st.sampled_from((*WORDS, "ask", "say", "look", "look")) | st.integers(0, 2), min_size=6, max_size=20)
NUMBERS = itertools.count(1)


@model(examples(300, 12))
@given(story=STORIES)
def test_what_is_told_in_the_end_is_what_one_look_tells(repo: Sandbox, tmp_path: Path, story: list[str | int]) -> None:
    number = next(NUMBERS)
    box = Sandbox(tmp_path / f"r{number}")
    box.path.mkdir()
    box.git("init", "-q")
    box.ok("snapshot", "--track", "t", "words")
    talk, path, written = Claude(), tmp_path / f"talk{number}.jsonl", 0
    client = Client("claude", box.path, session=f"5e551011-0000-4000-8000-{number:012}")
    path.touch()
    for word in (*story, "ask", "say", "look"):
        if word != "look":
            talk.go(word)
            continue
        with path.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in talk.records[written:])
        written = len(talk.records)
        client.fire("turn", transcript_path=str(path), last_assistant_message=None)
    found: dict[str, Any] = json.loads(box.ok("resume", "--json").out)["told"]
    prompts = [turn[0] for before, turn in talk.turns[1:]]
    newest = prompts[-5:]
    asked = [one["text"] for one in found["asked"]]
    assert asked[-len(newest) :] == newest and set(asked) <= set(prompts) and not log_of(box), (asked, prompts)
    assert found["said"]["text"] == talk.turns[-1][1][-1]
