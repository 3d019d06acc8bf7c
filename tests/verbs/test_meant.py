"""Words that people type: one that is no verb names the verb that does it; short options are as git has them."""

from __future__ import annotations

import pytest

from tests.kit import Sandbox
from tests.kit.state import snap


@pytest.mark.parametrize(
    ("word", "verb"),
    [
        *(("save", "snapshot"), ("commit", "snapshot"), ("keep", "pin"), ("rollback", "revert"), ("history", "log")),
        *(("cat", "show"), ("rename", "tracks"), ("rm", "tracks"), ("silence", "pause")),
    ],
)
def test_another_word_for_a_verb_is_led_to_it_and_nothing_is_done(repo: Sandbox, word: str, verb: str) -> None:
    done = repo.baton(word, "x")
    assert done.code == 129 and f"fatal: '{word}' is not a verb of git baton\n" in done.err and f"hint: '{verb}': " in done.err
    assert repo.git("for-each-ref", "refs/baton", "refs/checkpoints") == ""


def test_tracks_knows_gits_short_options(repo: Sandbox) -> None:
    snap(repo, "one", "S")
    assert repo.ok("tracks", "-m", "one", "two").out.startswith("track 'one' is 'two' now")
    assert repo.ok("tracks", "-d", "two", "--yes").out.startswith("track 'two' is gone with 1 checkpoint")
    assert repo.baton("tracks", "-d", "-m", "two").code == 129 and repo.baton("tracks", "-d").code == 129


def test_undo_of_a_certain_turn_leads_to_revert(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    done = repo.baton("undo", "@~1")
    assert done.code == 129 and "git baton revert" in done.err


def test_who_fears_a_clean_is_led_to_what_it_would_take(repo: Sandbox) -> None:
    done = repo.baton("clean", "-n")
    assert done.code == 129 and "hint: to see what 'git clean' would take: git baton status --at-risk\n" in done.err
