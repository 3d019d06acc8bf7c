"""The branch of a conversation, against a list of turns that is cut where the user takes one back; any story at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.agents import records as reading
from gitbaton.agents.client import Client, client
from gitbaton.agents.signs import Asked, Branch, CommandRun, Ended, RecordStep, Said
from tests.kit.tables import each
from tests.kit.tiers import model

WORDS = ("ask", "say", "calls", "aside", "command", "compact", "lost")
STORIES = st.lists(st.sampled_from(WORDS) | st.integers(0, 3), max_size=24)
Turn = list[str]


class Claude:
    """A transcript of Claude Code, and beside it what is on the branch: turns, each a list of what was said and run."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.turns: list[tuple[str | None, Turn]] = [(None, [])]
        self.last: str | None = None
        self.count = 0

    def write(self, kind: str, content: object, parent: object = "last", **more: object) -> str:
        self.count += 1
        key, at = f"u{self.count}", f"2026-11-22T13:47:13.{self.count:03}Z"
        above = self.last if parent == "last" else parent
        message = {"message": {"role": kind, "content": content}} if kind in ("user", "assistant") else {}
        self.records.append({"type": kind, "uuid": key, "parentUuid": above, "timestamp": at, **message, **more})
        return key

    def go(self, word: str | int) -> None:
        name = f"n{self.count + 1}"
        if isinstance(word, int):  # back to before one of the last prompts
            asked = [number for number, (before, _) in enumerate(self.turns) if number]
            if asked:
                number = asked[max(0, len(asked) - 1 - word)]
                self.last = self.turns[number][0]
                del self.turns[number:]
                self.ask(name)
        elif word == "ask":
            self.ask(name)
        elif word == "say":
            self.last = self.write("assistant", [{"type": "text", "text": name}])
            self.turns[-1][1].append(name)
        elif word == "calls":
            calls = []
            for number in range(2):
                block = {"type": "tool_use", "id": f"{name}.{number}", "name": "Bash", "input": {"command": f"{name}.{number}"}}
                self.last = self.write("assistant", [block])
                calls.append((self.last, f"{name}.{number}"))
            for above, key in calls:  # each result hangs on its own call, and the conversation goes on from the last
                self.last = self.write("user", [{"type": "tool_result", "tool_use_id": key, "content": "x"}], above)
            self.turns[-1][1].extend(key for _, key in calls)
        elif word == "aside":
            self.write("progress", "", data={})
        elif word == "command":
            key = self.write("user", "<command-name>/model</command-name>")
            self.write("user", "<local-command-stdout>x</local-command-stdout>", key)
        elif self.last is not None:
            before = self.last if word == "compact" else "gone"
            self.last = self.write("system", "", None, subtype="compact_boundary", logicalParentUuid=before)
            self.last = self.write("user", "so far", isCompactSummary=True)

    def ask(self, name: str) -> None:
        before = self.last
        self.last = self.write("user", name)
        self.turns.append((before, [name]))


def told(of: Client, records: list[dict[str, Any]]) -> list[str]:
    """What is said and run on the branch."""
    sifted = of.sift(records)
    kept = Branch([of.step(record) for record in sifted], above=False).kept
    signs = [sign for record, on in zip(sifted, kept, strict=True) if on for sign in reading.signs(of, record)]
    texts = [
        sign.command if isinstance(sign, CommandRun) else sign.text
        for sign in signs
        if isinstance(sign, (Asked, Said, CommandRun))
    ]
    ended = [sign.key for sign in signs if isinstance(sign, Ended)]
    assert ended == [sign.key for sign in signs if isinstance(sign, CommandRun)], "each call has its end"
    return texts


@model(200)
@given(story=STORIES)
def test_what_claudes_user_took_back_is_off_the_branch(story: list[str | int]) -> None:
    talk, of = Claude(), client("claude")
    assert of is not None
    for word in story:
        talk.go(word)
    expected = [text for _, turn in talk.turns for text in turn]
    found = told(of, talk.records)
    if any(record["parentUuid"] for record in talk.records):  # else nobody says what follows what
        assert found == expected
    raw = b"".join(json.dumps(record).encode() + b"\n" for record in talk.records)
    assert [m.text for m in reading.messages(of, raw) if m.who == "user" and m.text.startswith("n")] == [
        text for text in found if any(r.get("type") == "user" and r["message"]["content"] == text for r in talk.records)
    ]


@pytest.mark.deep
@model(200)
@given(story=st.lists(st.sampled_from(("ask", "say")) | st.integers(1, 3), max_size=24))
def test_what_codexs_user_rolled_back_is_off_the_branch(story: list[str | int]) -> None:
    records: list[dict[str, Any]] = []
    turns: list[Turn] = [[]]
    for number, word in enumerate(story):
        name, kind = f"n{number}", "UserMessage" if word == "ask" else "AgentMessage"
        if isinstance(word, int):
            records.append({"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": word}})
            turns = turns[: max(1, len(turns) - word)]
            continue
        item = {"type": kind, "id": name, "content": [{"type": "text", "text": name}]}
        records.append({"type": "event_msg", "payload": {"type": "item_completed", "item": item}})
        turns = [*turns, [name]] if word == "ask" else [*turns[:-1], [*turns[-1], name]]
    of = client("codex")
    assert of is not None and told(of, records) == [text for turn in turns for text in turn]


@each(
    "steps, kept",
    [
        ([], []),
        ([None, None], [True, True]),
        ([RecordStep(key="a", after="", prompt=True), RecordStep(key="b", after="", prompt=True)], [True, True]),
        (
            [
                RecordStep(key="a", after="", prompt=True),
                RecordStep(key="b", after="a"),
                RecordStep(key="c", after="", prompt=True),
            ],
            [False, False, True],
        ),
        ([RecordStep(key="a", after="zz", prompt=True), RecordStep(key="b", after="a")], [True, True]),
        ([RecordStep(back=3), RecordStep(prompt=True)], [False, True]),
        (
            [RecordStep(), RecordStep(prompt=True), RecordStep(), RecordStep(back=3), RecordStep()],
            [True, False, False, False, True],
        ),
        ([RecordStep(prompt=True), RecordStep(back=1)], [False, False]),
        ([RecordStep(key="a"), RecordStep(to="zz"), RecordStep(key="b")], [False, False, True]),
        (
            [
                RecordStep(key="a", prompt=True),
                RecordStep(key="b"),
                RecordStep(key="b"),
                RecordStep(to="b"),
                RecordStep(key="c"),
            ],
            [True, False, False, False, True],
        ),
    ],
)
def test_odd_ends_of_a_branch(steps: list[RecordStep | None], kept: list[bool]) -> None:
    assert Branch(steps, above=False).kept == kept


@each(
    "steps, goes_on, key",
    [
        ([], True, ""),
        ([RecordStep(), RecordStep(prompt=True)], True, ""),
        ([RecordStep(prompt=True), RecordStep(back=1), RecordStep()], True, ""),
        ([RecordStep(prompt=True), RecordStep(back=2), RecordStep()], False, ""),
        ([RecordStep(to="zz"), RecordStep()], False, ""),
        ([RecordStep(key="a", after="zz", prompt=True)], False, "zz"),
        ([RecordStep(key="p", after="yy", aside=True), RecordStep(key="a", after="zz")], False, "zz"),
        ([RecordStep(key="a", after="zz"), RecordStep(key="b", after="", prompt=True)], False, ""),
        ([RecordStep(key="s", after="zz", aside=True), RecordStep(key="a", after="s")], False, "zz"),
    ],
)
def test_whether_a_branch_goes_on_from_what_was_read(steps: list[RecordStep], goes_on: bool, key: str) -> None:
    found = Branch(steps, above=True)
    assert (found.goes_on, found.from_key) == (goes_on, key)
