"""Nobody writes a word: what a session planned, ran, edited and said reaches the next request after a compaction, in a cold
start, and in another client."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.clients import hands as all_hands
from tests.clients.hands import Hands, Plan, offered, said
from tests.clients.judge import assert_quiet, told
from tests.clients.model import Reply, Request
from tests.clients.workshop import STEP

HALF = "def half(n):\n    return n // 2\n"
WRONG = "def half(n):\n    return n // 2 + 1\n"
RIGHT = "def half(n):\n    return -(-n // 2)\n"
DOCUMENTED = 'def half(n):\n    """Half of n, rounded up."""\n    return -(-n // 2)\n'
TESTS = "from half import half\n\n\ndef test_even():\n    assert half(4) == 2\n\n\ndef test_odd():\n    assert half(5) == 3\n"
PROMPT = "Make half() round up, and tell its users so in the changelog."
LAST = "It rounds up now; nobody has told the users."
PLAN: Plan = (
    ("read half and its tests", "done"),
    ("round up in half()", "doing"),
    ("write the changelog entry", "open"),
    ("tell the users of half()", "open"),
)
MAKERS: dict[str, Callable[..., Hands]] = {
    "claude": all_hands.ClaudeHands,
    "claude-list": all_hands.ClaudeListHands,
    "codex": all_hands.CodexHands,
    "codex-script": all_hands.CodexScriptHands,
    "gemini": all_hands.GeminiHands,
    "opencode": all_hands.OpenCodeHands,
    "copilot": all_hands.CopilotHands,
    "qwen": all_hands.QwenHands,
    "kilo": all_hands.OpenCodeHands,
    "droid": all_hands.DroidHands,
}
OTHERS = {
    "claude": ("codex", "opencode"),
    "codex": ("claude", "gemini"),
    "gemini": ("copilot", "codex"),
    "opencode": ("gemini", "claude"),
    "copilot": ("opencode", "claude"),
    "qwen": ("gemini", "claude"),
    "kilo": ("qwen", "opencode"),
    "droid": ("kilo", "codex"),
}


def hands_of(request: pytest.FixtureRequest, name: str, **options: bool) -> Hands:
    """A client in the test's workshop, with our hooks, in a project whose half() rounds down."""
    made = MAKERS[name](request.getfixturevalue(name.partition("-")[0]), **options)
    repo = made.workshop.repo
    if not (repo.path / "half.py").exists():
        for path, text in ((".gitignore", "__pycache__/\n.pytest_cache/\n"), ("half.py", HALF), ("test_half.py", TESTS)):
            repo.write(path, text)
        repo.commit("half of it")
    made.install()
    return made


@pytest.fixture(params=[name for name in MAKERS if name != "droid"])  # its models are offered no list
def hands(request: pytest.FixtureRequest) -> Hands:
    return hands_of(request, request.param)


def the_task(hands: Hands) -> list[Reply]:
    """A plan, a change that is wrong, a failing test, one that is right, a passing test, last words."""
    wrong, right = hands.changes("half.py", HALF, WRONG), hands.changes("half.py", WRONG, RIGHT)
    return [*hands.plans(PLAN), *wrong, *hands.runs("pytest -q"), *right, *hands.runs("pytest -q"), Reply(LAST)]


def assert_handed(request: Request, words: str, result: str = r"passed \(2 passed\), \d+ (seconds?|minutes?) ago$") -> None:
    """The request holds the plan, what is left of it first; the newest result of the tests; the last words; and the task."""
    text = told(request)
    assert text, f"request {request.number} holds no text of ours"
    places = [text.find(f"{state}: {item}") for state in ("doing", "open") for item, found in PLAN if found == state]
    assert -1 not in places and places == sorted(places), text
    done = [item for item, state in PLAN if state == "done"]
    assert f"{len(done)} done" in text and not any(f"done: {item}" in text for item in done), text
    assert re.search(rf"^tests: pytest -q: {result}", text, re.MULTILINE), text
    said = re.search(rf"^(last words, \d+ (seconds?|minutes?) ago|  said before it): {re.escape(words)}$", text, re.MULTILINE)
    assert said, text
    assert re.search(rf"ago( in a session before)?: {re.escape(PROMPT)}$", text, re.MULTILINE), text
    before = said[0].startswith("  ")  # the newest request is told with what it answers, first of all
    assert (said.start() < text.index("tests: ")) is before and text.index("tests: ") < text.index(f"step: {STEP}"), text
    assert said.start() < text.index(f"step: {STEP}"), text


def test_it_is_there_after_a_compaction_in_a_cold_start_and_in_other_clients(
    hands: Hands, request: pytest.FixtureRequest
) -> None:
    others = [hands_of(request, name) for name in OTHERS[hands.name]]
    said(hands, PROMPT, *the_task(hands))
    assert_handed(hands.compacted("Is that all?"), LAST)
    said(hands, "And the changelog?", Reply("That is open."), on=True)
    (cold,) = said(hands, "What is left?", Reply("The changelog is left."))
    assert_handed(cold, "That is open.")
    words = "The changelog is left."
    for other in others:
        (first,) = said(other, "What is left?", Reply(f"That is what {other.name} says."))
        assert_handed(first, words)
        words = f"That is what {other.name} says."
        assert_quiet(other.workshop, other.model)
    assert_quiet(hands.workshop, hands.model)


def test_a_further_edit_makes_the_result_stale_and_a_pipe_takes_nothing_away(hands: Hands) -> None:
    said(hands, PROMPT, *the_task(hands))
    said(hands, "Say so in its docstring.", *hands.changes("half.py", RIGHT, DOCUMENTED), Reply("It says so."), on=True)
    (cold,) = said(hands, "What is left?", Reply("Much."))
    assert_handed(cold, "It says so.", r"passed \(2 passed\), .* ago; stale: half.py changed since$")
    said(hands, "Look again.", *hands.runs("pytest -q | head -1"), Reply("I looked."))
    (cold,) = said(hands, "What is left?", Reply("Much."))
    assert_handed(cold, "I looked.", r"passed \(2 passed\), .* ago; stale: half.py changed since$")  # what is known says more
    wrong = hands.changes("half.py", DOCUMENTED, WRONG)
    said(hands, "Break it.", *wrong, *hands.runs("pytest -q | tail -1"), Reply("It is broken."))
    (cold,) = said(hands, "What is left?", Reply("Much."))
    assert_handed(cold, "It is broken.", r"failed \(1 failed, 1 passed\), .* ago$")
    assert_quiet(hands.workshop, hands.model)


def test_a_subagent_changes_nothing(hands: Hands) -> None:
    if not hands.delegates("Look around."):
        pytest.skip("this model is offered no subagents")
    own: Plan = (("the child's first", "doing"), ("the child's second", "open"))
    hands.model.child_will_say(PROMPT, *hands.plans(own), *hands.runs("pytest -q nowhere.py"), Reply("I am the child."))
    *work, last = the_task(hands)
    said(hands, PROMPT, *work, *hands.delegates("Look around."), last)
    (cold,) = said(hands, "What is left?", Reply("Much."))
    assert_handed(cold, LAST)
    assert "child" not in told(cold) and "nowhere" not in told(cold)
    assert_quiet(hands.workshop, hands.model)


@pytest.mark.parametrize("name", list(OTHERS))
def test_where_no_tool_for_plans_is_offered_nothing_is_claimed(name: str, request: pytest.FixtureRequest) -> None:
    hands = hands_of(request, name, planning=False)
    changed = hands.changes("half.py", HALF, RIGHT)
    (first, *_) = said(hands, PROMPT, *changed, *hands.runs("pytest -q"), Reply(LAST))
    assert not offered(first)
    (cold,) = said(hands, "What is left?", Reply("Much."))
    text = told(cold)
    assert "tests: pytest -q: passed (2 passed)" in text and f"ago: {LAST}" in text
    assert not re.search(r"^plan:|^ *(open|doing|done): |nothing (is )?(open|left)", text, re.MULTILINE), text
    assert_quiet(hands.workshop, hands.model)


def test_the_tool_for_plans_is_found_where_it_is_offered(hands: Hands) -> None:
    (first,) = said(hands, PROMPT, Reply(LAST))
    assert offered(first)
