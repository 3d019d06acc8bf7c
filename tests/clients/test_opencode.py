"""OpenCode, and Kilo, which is made of it: the baton is in the request after start, compaction and cold start."""

from __future__ import annotations

import pytest

from tests.clients.client_opencode import FULL, REGISTRY, OpenCode
from tests.clients.judge import BEFORE, SINCE, assert_checkpoints, assert_quiet, assert_told
from tests.clients.model import Reply


@pytest.fixture(params=["opencode", "kilo"])
def made(request: pytest.FixtureRequest) -> OpenCode:
    """Either of them, not yet started."""
    found: OpenCode = request.getfixturevalue(request.param)
    return found


def assert_at_peace(opencode: OpenCode) -> None:
    model = opencode.model
    model.strays = [stray for stray in model.strays if REGISTRY not in stray]
    assert_quiet(opencode.workshop, model)


def test_the_baton_is_there_after_start_compaction_and_cold_start(made: OpenCode) -> None:
    opencode, shop, model = made, made.workshop, made.model
    shop.install(made.name)
    model.will_say(opencode.writes("hello.txt"), Reply("Done."))
    opencode.ask("Create hello.txt")
    assert_told(model.turns[0], SINCE, "validation: green")
    shop.drift()
    model.will_say(opencode.writes("two.txt", used=FULL), Reply("Going on."))
    opencode.ask("And two.txt", "--continue")
    resumed, after = model.turns[2], model.turns[-1]
    assert resumed.number < model.summaries[0].number < after.number
    assert_told(resumed, "2 commits since")
    assert_told(model.summaries[0])
    assert_told(after, "2 commits since")
    shop.drift()
    opencode.ask("And anew", cwd=shop.repo.path / "src")
    assert_told(model.turns[-1], "3 commits since")
    found = [c["step"] for c in reversed(shop.checkpoints())][1:]
    expected = [BEFORE, "turn ended: Create hello.txt", BEFORE, "before compaction (auto)"]
    assert (found[:4], found[-2:]) == (expected, [BEFORE, "turn ended: And anew"])
    assert_checkpoints(shop, *found)
    assert_at_peace(opencode)


def test_the_baton_is_there_after_a_compaction_that_the_user_asks_for(opencode: OpenCode) -> None:
    shop, model = opencode.workshop, opencode.model
    shop.install("opencode")
    with opencode.server() as session:
        session.ask("one")
        session.compact()
        shop.drift()
        session.ask("two")
    first, *_, after = model.turns
    assert first.number < model.summaries[0].number < after.number
    assert_told(first, SINCE)
    assert_told(after, "2 commits since")
    assert_at_peace(opencode)
