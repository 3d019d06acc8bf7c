"""A session that died, without an end of its turn: what it was asked is there from the moment it was said, and its records are
read again at the next start."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, log_of
from tests.kit.state import snap

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
