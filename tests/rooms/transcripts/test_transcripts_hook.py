"""What hooks keep of a conversation by default: its content, and of no key that was in it a single object holds a part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gitbaton.checkpoints.store.sessions import opening
from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.tiers import some
from tests.rooms.agents.test_conversation_formats import rows as lines
from tests.rooms.agents.test_conversation_formats import said

AWS = "AKIA" + "Q3EGZT7WJHX5PLKM"
GITHUB = "ghp_" + "x7Hq2LmZ9vRt4KpW8sNd3FgB6yCj5EuA1oTi"
JWT = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
    + "eyJzdWIiOiI5ODcwMTIzIn0" * 30
    + "."
    + "dBjftJeZ4CVPmB92K27uhbUJU1p1r_wW1gFWFOEjXk"
)
PROMPTS = (
    f"use {AWS} and go on",
    "x" * 285 + f" {GITHUB} is the token",  # over the place where the step is cut
    "y " * 480 + JWT,  # over the place where the prompt is cut
    "\n\n" + "z" * 995 + f" {AWS}",
)


def everything(box: Sandbox) -> bytes:
    """All that any object of the repository holds."""
    return box.run("git", "cat-file", "--batch-all-objects", "--batch").out.encode("utf-8", "surrogateescape")


@pytest.mark.full
@some("prompt", PROMPTS, ids=["short", "cut step", "cut prompt", "at the cut"])
def test_no_object_holds_a_key_of_a_prompt(repo: Sandbox, tmp_path: Path, prompt: str) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(lines(said("u1", None, "user", prompt), said("u2", "u1", "assistant", f"I use {AWS}")))
    repo.ok("snapshot", "--track", "t", "--step", "s")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt=prompt)
    repo.write("a.txt", "new\n")
    client.fire("turn", transcript_path=str(path), last_assistant_message=f"I use {AWS}")
    record = json.loads(repo.git("cat-file", "-p", "refs/checkpoints/t"))
    assert record["kind"] == "auto" and record["step"].startswith("turn ended: ") and len(record["step"]) <= 312
    stored = repo.git("rev-parse", f"refs/baton/transcripts/claude/{client.session}")
    assert record["agent"]["transcript"].endswith(f" stored={stored}")
    held = everything(repo)
    assert b"[redacted:aws-key]" in held
    for key in (AWS, GITHUB, JWT):
        parts = [key[n : n + 12].encode() for n in range(len(key) - 12)]
        assert not [part for part in parts if part in held]
    shown = repo.ok("transcript", "export", "t").out + repo.ok("transcript", "show", "t").out
    assert AWS not in shown and GITHUB not in shown and "[redacted:aws-key]" in shown
    repo.fsck()


def test_the_opening_of_a_prompt_is_cut_when_it_is_redacted() -> None:
    seen: list[str] = []

    def redact(text: str) -> str:
        seen.append(text)
        return text.replace("k" * 50, "[redacted:x]")

    assert opening("\n  short \nmore", redact) == "short" and not seen
    assert opening("password " + "k" * 50, redact) == "password [redacted:x]"  # a short one, too
    assert opening("a " * 499 + "k" * 50, redact) == "a " * 499 + "[r"
    assert opening("x" * 2_000_000, redact) == "x" * 1000 and len(seen[-1]) == 100_000
