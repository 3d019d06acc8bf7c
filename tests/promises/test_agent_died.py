"""A session that died, without an end of its turn: what it was asked is there from the moment it was said, and its records are
read again at the next start."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, autos, log_of, steps
from tests.kit.state import snap
from tests.kit.talks import Talk

TASK = "Mend the parser of dates"
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def left(repo: Sandbox) -> dict[str, Any]:
    """What the only session has left."""
    folder = repo.path / ".git" / "baton" / "sessions"
    (path,) = [each for each in folder.iterdir() if "." not in each.name]
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def test_what_is_asked_is_kept_from_the_moment_it_is_said(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt=f"{TASK}\nwith the key {KEY}, and more: {'word ' * 600}")
    client.fire("prompt", prompt="and its tests")
    found = left(repo)
    assert found["asked_first"].startswith(f"{TASK}\nwith the key [redacted:") and len(found["asked_first"]) == 2000
    assert found["asked_last"] == "and its tests" and found["asked_last_at"] >= found["asked_first_at"] > 0
    assert found["transcript"] == client.payload("UserPromptSubmit")["transcript_path"] and KEY not in json.dumps(found)
    client.fire("start", source="clear")
    assert "asked_first" not in left(repo) and log_of(repo) == ""


@pytest.mark.parametrize(
    ("key", "word"), [("observe", "tests"), ("observe", "none"), ("transcripts", "position"), ("transcripts", "off")]
)
def test_no_words_are_kept_where_none_are_wanted(repo: Sandbox, key: str, word: str) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt=TASK)
    repo.git("config", f"baton.{key}", word)
    client.fire("prompt", prompt=f"{TASK}\nsecond line")
    assert not any(name.startswith("asked") for name in left(repo)) and log_of(repo) == ""


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    """A session in a repository where gitbaton was used, and that has no checkpoint yet."""
    repo.commit("first", **{"x.py": "one\n", "y.py": "one\n"})
    (repo.path / ".git/baton").mkdir()
    return Talk(repo, tmp_path / "talk.jsonl")


def begun(talk: Talk, task: str = TASK, idle: float = 0) -> None:
    """A turn in whose midst the process dies."""
    talk.clock = lambda: datetime.now(UTC) - timedelta(seconds=idle)
    talk.now = talk.clock()
    talk.fire("start")
    talk.fire("prompt", prompt=task)
    talk.ask(task)
    talk.plan(**{"find the bug": "completed", "mend it": "in_progress"})
    talk.edit("x.py", "two\n")
    talk.say("The bug is in half(), and I mend it now.")


def long_ago(talk: Talk, seconds: float = 3600) -> None:
    """What the session left is as old as after a reboot, or a night."""
    then = time.time() - seconds
    for path in (*(talk.repo.path / ".git/baton/sessions").iterdir(), talk.path):
        if path.is_file():
            os.utime(path, (then, then))


def told(talk: Talk, agent: str = "claude", place: Path | None = None, **fields: Any) -> str:
    """What a new session of a client is told."""
    return Client(agent, place or talk.repo.path, session="5e551011-0000-4000-8000-00000000000f").fire("start", **fields)


@pytest.mark.parametrize("idle", [0, 3600])
def test_a_session_that_died_in_its_first_turn_is_told(talk: Talk, idle: int) -> None:
    begun(talk, idle=idle)
    long_ago(talk, idle)
    text = told(talk)
    assert TASK in text and "mend it" in text and "The bug is in half()" in text and "x.py" in text
    assert steps(autos(talk.repo, "main")) == [f"turn not ended: {TASK}"]
    assert "mend it" in talk.repo.ok("resume").out and log_of(talk.repo) == ""
    assert ("may still be at work" in text) == (not idle)


def test_the_same_with_what_other_turns_recorded(talk: Talk) -> None:
    talk.now = datetime.now(UTC) - timedelta(seconds=7200)
    talk.clock = lambda: talk.now
    talk.fire("prompt", prompt="Read it first")
    talk.ask("Read it first")
    talk.edit("y.py", "two\n")
    talk.say("Read.")
    talk.stop()
    begun(talk, idle=3600)
    text = told(talk)
    assert text.index(TASK) < text.index("Read it first") and "The bug is in half()" in text and "x.py" in text
    assert len(autos(talk.repo, "main")) == 1, "it may be at work still: its end is its own"
    long_ago(talk)
    again = told(talk)
    assert "The bug is in half()" in again and "at work" not in again
    assert steps(autos(talk.repo, "main"))[1:] == [f"turn not ended: Read it first; last prompt: {TASK}"]
    assert "The bug is in half()" in told(talk), "and all readers know it now"
    assert len(autos(talk.repo, "main")) == 2 and log_of(talk.repo) == ""
