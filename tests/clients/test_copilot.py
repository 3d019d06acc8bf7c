"""GitHub Copilot CLI: the baton is in the request after start, compaction and cold start, also beside Claude Code's hooks."""

from __future__ import annotations

import pytest

from tests.clients.client_copilot import FULL, Copilot
from tests.clients.judge import MOVED, assert_checkpoints, assert_once, assert_quiet, assert_told, told
from tests.clients.model import Reply


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside claude"])
def test_the_baton_is_there_after_start_and_cold_start(copilot: Copilot, beside: bool) -> None:
    shop, model = copilot.workshop, copilot.model
    shop.install("copilot")
    if beside:
        shop.install("claude")
    model.will_say(copilot.writes("hello.txt"), Reply("Done."))
    copilot.ask("Create hello.txt")
    assert_told(model.turns[0], MOVED, "validation: green")
    assert_once(model.turns[0])
    shop.drift()
    copilot.ask("What next?", "--continue")
    assert_told(model.turns[-1], MOVED)
    shop.drift()
    copilot.ask("And anew", cwd=shop.repo.path / "src")
    assert_told(model.turns[-1], MOVED)
    task = "turn ended: Create hello.txt"
    assert_checkpoints(shop, task, f"{task}; last prompt: What next?", "turn ended: And anew")
    assert not any(run.out for run in shop.hooks() if run.agent == "claude")
    assert_quiet(shop, model)


def test_the_baton_is_there_after_an_automatic_compaction(copilot: Copilot) -> None:
    """The compaction goes on beside the turn: the next request may still hold the whole conversation."""
    shop, model = copilot.workshop, copilot.model
    shop.install("copilot")
    model.will_say(*(copilot.writes(f"{n}.txt", FULL) for n in range(3)), Reply("Done."))
    copilot.ask("Create three files")
    first, *others = model.turns
    assert_told(first, MOVED)
    assert model.summaries
    compacted = [r for r in others if told(first) not in r.text]
    assert compacted, "nothing was compacted"
    for request in compacted:
        assert_told(request, "1 commit since")
    assert_quiet(shop, model)


def test_the_baton_is_there_after_a_compaction_that_the_user_asks_for(copilot: Copilot) -> None:
    """The next process calls the hooks for the start and for the prompt in either order: it may be told twice."""
    shop, model = copilot.workshop, copilot.model
    shop.install("copilot")
    copilot.ask("Remember this")
    copilot.ask("/compact", "--continue")
    assert len(model.summaries) == 1 and len(shop.hooks("preCompact")) == 1
    shop.drift()
    copilot.ask("go on", "--continue")
    assert_told(model.turns[-1], MOVED)
    assert_quiet(shop, model)
