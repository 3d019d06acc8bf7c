"""Claude Code: killed in mid-turn, with a subagent, in a second work tree, on a terminal; and what it reads beside hooks."""

from __future__ import annotations

import json

import pytest

from tests.clients.client_claude import Claude
from tests.clients.judge import BEFORE, MOVED, TITLE, assert_checkpoints, assert_once, assert_quiet, assert_told, skill, told
from tests.clients.model import Reply
from tests.kit import Sandbox


def test_killed_in_mid_turn_the_next_one_knows_what_was_edited(claude: Claude) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    shop.repo.git("config", "baton.auto", "edit")
    model.will_say(claude.writes("hello.txt"), Reply(never=True))
    with shop.talk(claude.program, "-p", "Create hello.txt", "--permission-mode", "acceptEdits", env=claude.env):
        model.await_turns(2)
    assert_checkpoints(shop, BEFORE, "after an edit")
    assert "hello.txt" in shop.repo.tree("refs/baton/tracks/work")
    shop.drift()
    claude.ask("What now?", "--continue")
    assert_told(model.turns[-1], MOVED, "cut in the midst of a turn", ": Create hello.txt", "edited hello.txt")
    assert_quiet(shop, model)


def test_a_subagent_leaves_its_parents_baton_alone(claude: Claude) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    shop.repo.git("config", "baton.auto", "edit")
    task = {"description": "write it", "prompt": "Write hello.txt", "subagent_type": "general-purpose"}
    model.will_say(Reply("Delegating.", "Agent", {**task, "run_in_background": False}))
    model.will_say(claude.writes("hello.txt"), Reply("Written."), Reply("All done."))
    claude.ask("Delegate it")
    edits = [run.payload for run in shop.hooks("PostToolUse")]
    assert [bool(payload.get("agent_id")) for payload in edits] == [True]
    assert_checkpoints(shop, BEFORE, "turn ended: Delegate it")
    assert "hello.txt" in shop.repo.tree("refs/baton/tracks/work")
    assert_quiet(shop, model)


def test_in_a_second_work_tree_it_writes_a_track_of_its_own(claude: Claude) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude", "--user")
    second = Sandbox(shop.folder / "second")
    shop.repo.git("worktree", "add", "-q", "-b", "feature", str(second.path))
    before = shop.repo.git("rev-parse", "refs/baton/tracks/work")
    path = str(second.path / "hello.txt")
    model.will_say(Reply("Writing.", "Write", {"file_path": path, "content": "hello\n"}), Reply("Done."))
    claude.ask("Create hello.txt", cwd=second.path)
    assert not told(model.turns[0])
    assert shop.repo.git("rev-parse", "refs/baton/tracks/work") == before
    made = second.ok("log", "feature", "--json").json["checkpoints"]
    assert [(c["kind"], c["step"]) for c in made] == [("auto", "turn ended: Create hello.txt")]
    assert_quiet(shop, model)


@pytest.mark.parametrize("instructions", [False, True], ids=["hooks", "with AGENTS.md"])
def test_the_skill_and_the_instructions_are_offered(claude: Claude, instructions: bool) -> None:
    shop = claude.workshop
    shop.install("claude", *(["--agents-md"] if instructions else []))
    claude.ask("hello")
    text = claude.model.turns[0].text
    assert skill(shop, ".claude/skills") in text
    block = shop.repo.path / "AGENTS.md"
    assert block.exists() == instructions
    if instructions:  # the client leaves out the comments that mark the block
        assert block.read_text().split("-->\n")[1].split("<!--")[0].strip() in text


def test_where_git_baton_is_not_on_path_nothing_happens(claude: Claude) -> None:
    shop = claude.workshop
    shop.install("claude")
    (shop.bin / "git-baton").unlink()
    node = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    done = shop.run(claude.program, "-p", "hello", env={**claude.env, **node})
    assert (done.code, done.err) == (0, "")
    assert TITLE not in claude.model.turns[0].text
    assert len(shop.checkpoints()) == 1


def test_on_a_terminal_it_is_told_after_clear_and_after_compact(claude: Claude) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    claude.trusts_the_folder()
    with shop.terminal(claude.program, env=claude.env) as screen:
        screen.until("❯")
        screen.type("first words")
        shop.await_hook("Stop")
        screen.type("/compact")
        shop.await_hook("SessionStart", 2)
        screen.type("second words")
        shop.await_hook("Stop", 2)
        screen.type("/clear")
        shop.await_hook("SessionStart", 3)
        shop.drift()
        screen.type("third words")
        shop.await_hook("Stop", 3)
        screen.type("/exit")
        screen.ended()
    first, second, third = model.turns
    assert_told(first, MOVED)
    assert_told(second, "1 commit since")
    assert_once(second)
    assert_told(third)
    assert_once(third)
    sources = [run.payload["source"] for run in shop.hooks("SessionStart")]
    assert sources == ["startup", "compact", "clear"]
    assert json.dumps(shop.checkpoints()[0]).count("turn ended: third words") >= 1
    assert_quiet(shop, model)


def test_on_a_terminal_the_status_line_is_shown(claude: Claude) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude", "--statusline")
    claude.trusts_the_folder()
    model.will_say(Reply("Fine.", used=850_000))
    with shop.terminal(claude.program, env=claude.env) as screen:
        screen.until("work words now + green ! 1 ahead")
        screen.type("first words")
        shop.await_hook("Stop")
        screen.until("compaction is near: hand over")
        screen.type("/exit")
        screen.ended()
    assert len(model.turns) == 1 and "hand over" not in model.turns[0].text  # it is for the user alone
