"""A commit that an agent makes in its shell says so, in each client."""

from __future__ import annotations

import pytest

from tests.clients.hands import said
from tests.clients.judge import assert_quiet
from tests.clients.model import Reply
from tests.clients.test_handover import HALF, RIGHT, hands_of

TRAILERS = {
    "claude": "claude:claude-opus-5-5",
    "codex": "codex:gpt-5.5",
    "opencode": "opencode:scripted/model",
    "copilot": "copilot:scripted",
    "qwen": "qwen:scripted",
    "kilo": "kilo:scripted/model",
    "droid": "droid:custom:scripted-0",
}


@pytest.mark.parametrize("name", list(TRAILERS))
def test_a_commit_names_the_client_that_made_it_and_its_model(name: str, request: pytest.FixtureRequest) -> None:
    hands = hands_of(request, name, planning=False)
    repo = hands.workshop.repo
    repo.ok("install", "--trailers")
    for key, value in (("name", "A U Thor"), ("email", "author@example.com")):
        repo.git("config", f"user.{key}", value)
    commit = hands.runs(f"git -C {repo.path} commit -qam 'half rounds up'")
    said(hands, "Commit it.", *hands.changes("half.py", HALF, RIGHT), *commit, Reply("Done."))
    made = repo.git("log", "-1", "--format=%s|%(trailers:key=Assisted-by,valueonly)").strip()
    assert made == f"half rounds up|{TRAILERS[name]}"
    assert_quiet(hands.workshop, hands.model)
