"""A conversation that was written back is one that the real client resumes, and the baton is told in it."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_claude import Claude
from tests.clients.client_codex import PATCH, Codex
from tests.clients.client_gemini import Gemini
from tests.clients.client_opencode import OpenCode
from tests.clients.judge import assert_quiet, assert_told, told
from tests.clients.model import Reply, Request, strings
from tests.clients.workshop import Workshop
from tests.kit.spoken import COMMAND, PATH, PRINTED, RECORDS, SPOKEN, SUMMARY, TEXT, UNSAID, compacted, recorded, taken

SAID = "the answer is forty-two"
LATER = "the answer has changed"
THIRD = "Third: what is the answer?"
KINDS = pytest.mark.parametrize("gone", [False, True], ids=["position", "full and gone"])


def command(shop: Workshop, *words: str) -> str:
    """The line that resumes what ``restore --conversation-only`` wrote."""
    done = shop.run(str(shop.bin / "git-baton"), "restore", "--conversation-only", *words)
    assert done.code == 0, done
    return next(row.partition(": ")[2] for row in done.out.splitlines() if row.startswith("resume it with: "))


def restored(shop: Workshop, *words: str) -> str:
    """The new session that ``restore --conversation-only`` wrote."""
    return command(shop, *words).split()[-1]


def assert_resumed(request: Request) -> None:
    """The conversation up to then is there, and nothing that was said later, except that we tell of the newest checkpoint."""
    conversation = request.text.replace(told(request), "")
    for words in ("Create one.txt", SAID, "Create two.txt"):
        assert words in conversation, words
    assert LATER not in conversation
    assert_told(request)


@KINDS
def test_claude_resumes_what_was_written_back(claude: Claude, gone: bool) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    shop.repo.git("config", "baton.transcripts", "full" if gone else "position")
    for number, words in (("one", SAID), ("two", "Done."), ("three", LATER)):
        model.will_say(claude.writes(f"{number}.txt"), Reply(words))
        claude.ask(f"Create {number}.txt", *(["--continue"] if number != "one" else []))
    if gone:
        shutil.rmtree(shop.home / ".claude" / "projects")
    claude.ask("And what is the answer?", "--resume", restored(shop, shop.checkpoints()[1]["id"]))
    assert_resumed(model.turns[-1])
    assert_quiet(shop, model)


@KINDS
def test_codex_resumes_what_was_written_back(codex: Codex, gone: bool) -> None:
    shop, model = codex.workshop, codex.model
    codex.install("--trust")
    shop.repo.git("config", "baton.transcripts", "full" if gone else "position")
    for number, words in (("one", SAID), ("two", "Done."), ("three", LATER)):
        model.will_say(Reply("Writing.", "apply_patch", PATCH.format(name=f"{number}.txt")), Reply(words))
        codex.ask(f"Create {number}.txt", resume=number != "one")
    if gone:
        shutil.rmtree(shop.home / ".codex" / "sessions")
    codex.ask("And what is the answer?", session=restored(shop, shop.checkpoints()[1]["id"]))
    assert_resumed(model.turns[-1])
    assert_quiet(shop, model)


def test_the_last_words_of_a_turn_belong_to_its_checkpoint(claude: Claude) -> None:
    """Claude Code writes them to its file some 10 to 60 ms after it has called the hook for the end of the turn."""
    shop = claude.workshop
    shop.install("claude")
    for number in range(3):
        claude.model.will_say(claude.writes(f"{number}.txt"), Reply(f"{SAID}, {number}"))
        claude.ask(f"Create {number}.txt")
        shown = shop.run(str(shop.bin / "git-baton"), "transcript", "show")
        assert f"{SAID}, {number}" in shown.out, shown


def assert_holds(request: Request, conversation: Sequence[Mapping[str, Any]]) -> None:
    """The request holds every message, in its order and from its side, and none that no other client can have; the sides
    take turns, and a command has its result."""
    texts = [(str(row.get("role")), "\n".join(strings(row))) for row in conversation]
    places = []
    for side, words in SPOKEN:
        found = [place for place, (role, text) in enumerate(texts) if words in text]
        assert len(found) == 1, f"{words!r} stands {len(found)} times"
        assert texts[found[0]][0] in (side, {"assistant": "model"}.get(side)), texts[found[0]]
        places.append(found[0])
    assert places == sorted(places)
    for words in (COMMAND, PRINTED, PATH, TEXT):
        assert words in request.text, words
    for words in UNSAID:
        assert words not in request.text, words


@pytest.mark.parametrize("source", [name for name in RECORDS if name != "claude"])
def test_claude_goes_on_with_what_another_client_heard(claude: Claude, source: str, tmp_path: Path) -> None:
    shop, model = claude.workshop, claude.model
    taken(source, shop.repo, recorded(source, tmp_path))
    claude.ask(THIRD, "--resume", restored(shop, source, "--as", "claude"))
    rows = model.turns[-1].body["messages"]
    sides = [row["role"] for row in rows if row["role"] != "system"]
    assert all(one != other for one, other in pairwise(sides)), sides
    assert_holds(model.turns[-1], rows)


@pytest.mark.parametrize("source", [name for name in RECORDS if name != "codex"])
def test_codex_goes_on_with_what_another_client_heard(codex: Codex, source: str, tmp_path: Path) -> None:
    shop, model = codex.workshop, codex.model
    taken(source, shop.repo, recorded(source, tmp_path))
    codex.ask(THIRD, session=restored(shop, source, "--as", "codex"))
    assert_holds(model.turns[-1], model.turns[-1].body["input"])


@pytest.mark.parametrize("source", RECORDS)
def test_gemini_goes_on_with_what_another_client_heard(gemini: Gemini, source: str, tmp_path: Path) -> None:
    shop, model = gemini.workshop, gemini.model
    gemini.compresses(at=0.9)
    taken(source, shop.repo, recorded(source, tmp_path))
    line = shlex.split(command(shop, source, "--as", "gemini"))
    assert line[:2] == ["gemini", "--session-file"]
    gemini.ask(THIRD, *line[1:])
    assert_holds(model.turns[-1], model.turns[-1].body["contents"])


@pytest.mark.parametrize("source", RECORDS)
@pytest.mark.parametrize("used", [True, False], ids=["used before", "new"])
def test_opencode_goes_on_with_what_another_client_heard(opencode: OpenCode, source: str, used: bool, tmp_path: Path) -> None:
    shop, model = opencode.workshop, opencode.model
    if used:
        opencode.ask("Anything?")
    taken(source, shop.repo, recorded(source, tmp_path))
    line = shlex.split(command(shop, source, "--as", "opencode"))
    assert (line[:2], line[3:-1]) == (["opencode", "import"], ["&&", "opencode", "--session"])
    assert shop.run(opencode.program, *line[1:3], env=opencode.env).code == 0
    opencode.ask(THIRD, "--session", line[-1], *([] if used else ["--model", "scripted/model"]))
    assert_holds(model.turns[-1], model.turns[-1].body["messages"])


def assert_begins_anew(request: Request) -> None:
    """The request holds the summary and what was said after it, and nothing that the summary stands for."""
    for words in (SUMMARY, *(words for _, words in SPOKEN[3:])):
        assert request.text.count(words) == 1, words
    for words in (PRINTED, TEXT, *(words for _, words in SPOKEN[:3])):
        assert words not in request.text, words


def test_claude_is_sent_a_summary_for_what_is_above_it(claude: Claude, tmp_path: Path) -> None:
    shop = claude.workshop
    taken("codex", shop.repo, recorded("codex", tmp_path, compacted("codex")))
    claude.ask(THIRD, "--resume", restored(shop, "codex", "--as", "claude"))
    assert_begins_anew(claude.model.turns[-1])


def test_codex_is_sent_a_summary_for_what_is_above_it(codex: Codex, tmp_path: Path) -> None:
    shop = codex.workshop
    taken("claude", shop.repo, recorded("claude", tmp_path, compacted("claude")))
    codex.ask(THIRD, session=restored(shop, "claude", "--as", "codex"))
    assert_begins_anew(codex.model.turns[-1])


def test_gemini_is_sent_a_summary_for_what_is_above_it(gemini: Gemini, tmp_path: Path) -> None:
    shop = gemini.workshop
    gemini.compresses(at=0.9)
    taken("claude", shop.repo, recorded("claude", tmp_path, compacted("claude")))
    gemini.ask(THIRD, *shlex.split(command(shop, "claude", "--as", "gemini"))[1:])
    assert_begins_anew(gemini.model.turns[-1])


def test_opencode_is_sent_a_summary_for_what_is_above_it(opencode: OpenCode, tmp_path: Path) -> None:
    shop = opencode.workshop
    taken("claude", shop.repo, recorded("claude", tmp_path, compacted("claude")))
    line = shlex.split(command(shop, "claude", "--as", "opencode"))
    assert shop.run(opencode.program, *line[1:3], env=opencode.env).code == 0
    opencode.ask(THIRD, "--session", line[-1], "--model", "scripted/model")
    assert_begins_anew(opencode.model.turns[-1])
