"""Words that people type: one that is no verb names the verb that does it; short options are as git has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client
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


@pytest.mark.parametrize("verb", ["restore", "revert"])
def test_a_path_without_its_dashes_is_led_to_them_from_the_directory_it_counts_from(
    repo: Sandbox, verb: str, tmp_path: Path
) -> None:
    repo.write("b.txt", "b\n")
    snap(repo, "t", "S")
    if verb == "revert":  # without a turn the line would lead nowhere
        assert "hint: see 'git baton log --all'\n" in repo.baton(verb, "b.txt").err
        client = Client("claude", repo.path)
        client.fire("prompt", prompt="do it")
        repo.write("b.txt", "two\n")
        client.fire("turn")
    (tmp_path / "outside").write_text("x\n")
    top = ("--repo-root", str(repo.path))
    for word, spelled in (("b.txt", "b.txt"), ("b.*", "'b.*'")):
        done = repo.baton(*top, verb, word, cwd=tmp_path)
        assert done.code == 2 and f"that path: git baton {verb} -- {spelled}\n" in done.err
    (repo.path / "sub").mkdir()
    above = repo.baton(verb, "../b.txt", cwd=repo.path / "sub")
    assert above.code == 2 and f"that path: git baton {verb} -- ../b.txt\n" in above.err
    outside = repo.baton(*top, verb, "outside", cwd=tmp_path)
    assert outside.code == 2 and "-- outside" not in outside.err and "git baton log --all" in outside.err


def test_the_hint_at_a_path_is_given_for_its_own_word_alone(repo: Sandbox) -> None:
    repo.write("@", "x\n")
    empty = repo.baton("restore")
    assert empty.code == 2 and "-- @" not in empty.err and "git baton snapshot" in empty.err
    snap(repo, "t", "S")
    repo.write("t", "a file of that name\n")
    of_none = repo.baton("revert", "t")
    assert of_none.code == 2 and "is of no turn" in of_none.err and "-- t" not in of_none.err
    talk = repo.baton("restore", "--conversation-only", "a.txt")
    assert talk.code == 2 and "-- a.txt" not in talk.err and "git baton log --all" in talk.err
