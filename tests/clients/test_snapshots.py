"""The model itself takes a checkpoint, in its shell or through our MCP server; the next session is told its words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.client_claude import Claude
from tests.clients.client_codex import PATCH, Codex
from tests.clients.judge import TITLE, assert_quiet, told
from tests.clients.model import Reply
from tests.clients.workshop import TRACK, Workshop

STEP = "the lexer is faster"
NEXT = "pytest -q tests/test_lexer.py"
WORDS = {"track": TRACK, "step": STEP, "next_cmd": NEXT, "validation": "green"}
TYPED = f"git baton snapshot --track {TRACK} --step '{STEP}' --next-cmd '{NEXT}' --validation green"


def assert_handed_on(shop: Workshop, text: str) -> None:
    """The model's own checkpoint is a manual one, the automatic ones after it carry it, and the next session was told."""
    *autos, own = newest_words(shop)
    assert (own["kind"], own["step"], own["next_cmd"], own["validation"]) == ("manual", STEP, NEXT, "green")
    assert autos
    for auto in autos:
        assert (auto["kind"], auto["carried"]["id"], auto["next_cmd"]) == ("auto", own["id"], NEXT)
    assert text.startswith(TITLE) and f"step: {STEP}" in text and f'next_cmd: "{NEXT}"' in text


def newest_words(shop: Workshop) -> list[dict[str, Any]]:
    """The checkpoints back to the newest that somebody wrote, newest first: a turn that a client has on record makes one."""
    found = shop.checkpoints()
    return found[: 1 + next(at for at, c in enumerate(found) if c["kind"] == "manual")]


def options(way: str) -> list[str]:
    """What lets the model take one without being asked."""
    server = {"mcpServers": {"gitbaton": {"type": "stdio", "command": "git-baton", "args": ["mcp"]}}}
    more = ["--strict-mcp-config", "--mcp-config", json.dumps(server)] if way == "mcp" else []
    return ["--allowedTools", "Bash,mcp__gitbaton", *more]


def replies(way: str) -> list[Reply]:
    """What the model does to take one."""
    if way == "shell":
        return [Reply("Recording.", "Bash", {"command": TYPED, "description": "record"})]
    search = Reply("Looking.", "ToolSearch", {"query": "select:mcp__gitbaton__snapshot", "max_results": 5})
    return [search, Reply("Recording.", "mcp__gitbaton__snapshot", WORDS)]


@pytest.mark.parametrize("way", ["shell", "mcp"])
def test_claude_takes_a_checkpoint(claude: Claude, way: str) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    model.will_say(*replies(way), claude.writes("hello.txt"), Reply("Done."))
    claude.ask("Record it, then create hello.txt", *options(way))
    claude.ask("And anew")
    assert_handed_on(shop, told(model.turns[-1]))
    assert_quiet(shop, model)


@pytest.mark.parametrize("way", ["shell", "mcp"])
def test_what_a_session_wrote_itself_is_not_another_sessions(claude: Claude, way: str) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    model.will_say(*replies(way), Reply("Done."))
    claude.converse("Record it", "/compact", "go on", options=options(way))
    assert newest_words(shop)[-1]["step"] == STEP
    text = told(model.turns[-1])
    assert f"step: {STEP}" in text
    assert "Another session" not in text
    claude.ask("And anew")
    assert told(model.turns[-1]) and "Another session" not in told(model.turns[-1]), "that one has ended"


def test_codex_takes_a_checkpoint(codex: Codex) -> None:
    shop, model = codex.workshop, codex.model
    codex.install("--trust")
    (shop.home / ".profile").write_text(f"PATH={shop.bin}:$PATH\n")  # its commands run in a login shell, hooks do not
    patch = PATCH.format(name="hello.txt")
    model.will_say(Reply("Recording.", "exec_command", {"cmd": TYPED}), Reply("Writing.", "apply_patch", patch), Reply("Done."))
    codex.ask("Record it, then create hello.txt")
    codex.ask("And anew")
    assert_handed_on(shop, told(model.turns[-1]))
    assert newest_words(shop)[-1]["agent"]["session"] == shop.hooks("Stop")[0].payload["session_id"]
    assert_quiet(shop, model)
