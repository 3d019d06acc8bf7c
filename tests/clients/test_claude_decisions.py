"""Claude Code: what the user took back, approved and refused, as the next session is told it."""

from __future__ import annotations

import os
import re

from tests.clients.client_claude import Claude
from tests.clients.judge import assert_quiet, told
from tests.clients.model import Reply

PLAN = "# A cache for the lexer\n\n1. Measure the lexer\n2. Keep 1024 positions\n"
KEEP = "Keep the README, somebody reads it."
UP, ENTER, CLEAR = b"\x1b[A", b"\r", b"\x15"


def next_one(claude: Claude) -> str:
    """What a new session is told."""
    claude.ask("What is left?")
    return told(claude.model.turns[-1])


def test_what_was_rewound_is_told_to_nobody(claude: Claude) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    claude.trusts_the_folder()
    model.will_say(claude.writes("one.txt"), Reply("One is there."), Reply("Two is harder."))
    with shop.terminal(claude.program, "--permission-mode", "acceptEdits", env=claude.env) as screen:
        screen.until("\u276f")
        screen.type("Create one.txt")
        shop.await_hook("Stop")
        screen.type("Think about two.txt")
        shop.await_hook("Stop", 2)
        screen.type("/rewind")
        screen.until("Enter to continue")
        os.write(screen.master, UP)
        screen.until("\u276f Think about two.txt\r(current)")
        os.write(screen.master, ENTER)
        screen.until("1. Restore conversation")
        since = len(screen.raw)
        os.write(screen.master, ENTER)
        screen.until("Restore conversation\u2714", since)
        screen.until("two.txt", since)  # the words of that prompt stand there again
        os.write(screen.master, CLEAR)
        screen.type("Create three.txt")
        shop.await_hook("Stop", 3)
        screen.type("/exit")
        screen.ended()
    text = next_one(claude)
    assert "Create one.txt" in text and ": Create three.txt" in text, text
    assert "Think about two.txt" not in text and "Two is harder." not in text, text
    shown = shop.run(str(shop.bin / "git-baton"), "transcript", "show").out
    assert "Create three.txt" in shown and "Think about two.txt" not in shown, shown
    assert_quiet(shop, model)


def test_a_plan_that_was_approved_is_the_plan(claude: Claude) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    model.will_say(Reply("How many positions?"))
    with claude.deciding(lambda tool: None, "--permission-mode", "plan") as ask:
        ask("Plan a cache")
        path = re.search(r"/\S+/\.claude/plans/[\w-]+\.md", model.turns[0].text)
        assert path, "the client names no file for the plan"
        model.will_say(Reply("Writing.", "Write", {"file_path": path[0], "content": PLAN}))
        model.will_say(Reply("Planned.", "ExitPlanMode", {}), Reply("I begin."))
        ask("1024 are enough")
    text = next_one(claude)
    request = text.split("\n\n")[1]
    assert "by approving it" in request and "A cache for the lexer" in request, text
    assert all(step in text for step in ("Measure the lexer", "Keep 1024 positions")), text
    assert_quiet(shop, model)


def test_a_tool_that_was_refused_did_nothing_and_the_words_count(claude: Claude) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    model.will_say(Reply("Removing.", "Bash", {"command": "rm README", "description": "remove"}), Reply("Then not."))
    with claude.deciding(lambda tool: KEEP, "--permission-mode", "default") as ask:
        ask("Tidy up")
    assert (shop.repo.path / "README").exists()
    text = next_one(claude)
    assert KEEP in text and ": Tidy up" in text, text
    assert not re.search(r"^ *(done[^:]*|not mended): rm README", text, re.MULTILINE), text
    assert "ran=rm README" not in shop.run(str(shop.bin / "git-baton"), "resume", "--porcelain", "--live").out
    assert_quiet(shop, model)
