"""GitHub Copilot CLI: the baton is in the request after start, compaction and cold start, also beside Claude Code's hooks."""

from __future__ import annotations

import pytest

from tests.clients.client_copilot import FULL, Copilot
from tests.clients.judge import BEFORE, MOVED, assert_checkpoints, assert_once, assert_quiet, assert_told, told
from tests.clients.model import Reply, Request


def assert_moved(request: Request) -> None:
    """The request says that commits were made: as drift, or since the words where the hook of the prompt, which is called at
    the same time as that of the start, has taken a checkpoint already."""
    assert_told(request, "validation: green")
    assert MOVED in told(request) or "commit since" in told(request) or "commits since" in told(request)


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside claude"])
def test_the_baton_is_there_after_start_and_cold_start(copilot: Copilot, beside: bool) -> None:
    shop, model = copilot.workshop, copilot.model
    shop.install("copilot")
    if beside:
        shop.install("claude")
    model.will_say(copilot.writes("hello.txt"), Reply("Done."))
    copilot.ask("Create hello.txt")
    assert_moved(model.turns[0])
    assert_once(model.turns[0])
    shop.drift()
    copilot.ask("What next?", "--continue")
    assert_moved(model.turns[-1])
    shop.drift()
    copilot.ask("And anew", cwd=shop.repo.path / "src")
    assert_moved(model.turns[-1])
    task = "turn ended: Create hello.txt"
    assert_checkpoints(shop, BEFORE, task, BEFORE, f"{task}; last prompt: What next?", BEFORE, "turn ended: And anew")
    assert not any(run.out for run in shop.hooks() if run.agent == "claude")
    assert_quiet(shop, model)


def test_the_baton_is_there_after_an_automatic_compaction(copilot: Copilot) -> None:
    """The compaction goes on beside the turn: the next request may still hold the whole conversation."""
    shop, model = copilot.workshop, copilot.model
    shop.install("copilot")
    model.will_say(*(copilot.writes(f"{n}.txt", FULL) for n in range(3)), Reply("Done."))
    copilot.ask("Create three files")
    first, *others = model.turns
    assert_moved(first)
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
    assert_moved(model.turns[-1])
    assert_quiet(shop, model)


def test_on_a_terminal_the_status_line_is_shown(copilot: Copilot) -> None:
    shop = copilot.workshop
    shop.install("copilot", "--user", "--statusline")
    with shop.terminal(copilot.program, env=copilot.env) as screen:
        screen.until("work words now + green ! 1 ahead")
    assert not copilot.model.turns
