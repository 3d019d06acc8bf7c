"""A client that is killed in the midst of a turn: the next start is told the request that was cut, and what was done for it."""

from __future__ import annotations

import pytest

from tests.clients.client_codex import FREE
from tests.clients.hands import said
from tests.clients.judge import assert_quiet, told
from tests.clients.model import Reply
from tests.clients.test_handover import HALF, PROMPT, WRONG, hands_of

WORDS = {  # one process, one prompt
    "claude": ("-p", PROMPT, "--permission-mode", "acceptEdits", "--allowedTools", "Bash,Read,Edit"),
    "codex": ("exec", FREE, PROMPT),
    "gemini": ("--approval-mode", "yolo", "-m", "gemini-2.5-pro", "-p", PROMPT),
    "opencode": ("run", PROMPT),
    "copilot": ("-p", PROMPT),
}


@pytest.mark.parametrize("name", list(WORDS))
def test_the_start_after_a_kill_holds_the_request_that_was_cut(name: str, request: pytest.FixtureRequest) -> None:
    hands = hands_of(request, name)
    shop, model = hands.workshop, hands.model
    said(hands, "Look at half().", Reply("It rounds down."))
    work = [*hands.changes("half.py", HALF, WRONG), *hands.runs("pytest -q"), Reply(never=True)]
    model.will_say(*work)
    count = len(model.turns)
    with shop.talk(hands.client.program, *WORDS[name], env=hands.client.env) as client:
        client.hang_up()
        model.await_turns(count + len(work))
        shop.await_words(b"1 failed, 1 passed")
    text = told(said(hands, "What now?", Reply("I go on."))[0])
    assert "in the midst of a turn" in text.splitlines()[0], text
    assert f": {PROMPT}" in text.split("\n\n")[1], text
    assert "tests: pytest -q: failed (1 failed, 1 passed), " in text, text
    assert "half.py*" in text, text
    assert_quiet(shop, model)
