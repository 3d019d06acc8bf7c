"""A coding agent's client as hooks meet it: payload on standard input, the client's variables, a home without identity."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit.forkserver import PATIENT, python
from tests.kit.payloads import captured, opencode_events
from tests.kit.processes import chain
from tests.kit.repos import Outcome, Sandbox
from tests.kit.state import sound

PROGRAM = os.path.join(os.path.dirname(sys.executable), "git-baton")
PROJECT = "/home/dev/project"
HOME = "/home/dev"
LIMIT = 8_000
SHORT = 1_024
MOMENTS = ("start", "prompt", "edit", "compact", "turn", "end")
WORDS: dict[str, dict[str, str]] = {  # what a client calls these moments
    agent: dict(zip(MOMENTS, words.split(), strict=True))
    for agent, words in {
        "claude": "SessionStart UserPromptSubmit PostToolUse PreCompact Stop SessionEnd",
        "codex": "SessionStart UserPromptSubmit PostToolUse PreCompact Stop SessionEnd",
        "gemini": "SessionStart BeforeAgent AfterTool PreCompress AfterAgent SessionEnd",
        "copilot": "sessionStart userPromptSubmitted postToolUse preCompact agentStop sessionEnd",
        "opencode": "context prompt edited compacting idle ended",
        "cursor": "sessionStart beforeSubmitPrompt afterFileEdit preCompact stop sessionEnd",
        "droid": "SessionStart UserPromptSubmit PostToolUse PreCompact Stop SessionEnd",
        "kilo": "context prompt edited compacting idle ended",
        "qwen": "SessionStart UserPromptSubmit PostToolUse PreCompact Stop SessionEnd",
    }.items()
}
CLIENTS = tuple(WORDS)
SESSIONS = ("session_id", "sessionId", "sessionID", "conversation_id")


def path_without_us() -> str:
    """``PATH`` without the folders that hold a ``git-baton``."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(each for each in folders if not os.path.exists(os.path.join(each, "git-baton")))


@dataclass
class Client:
    """One session of a client that was started in ``place``; its home has no git identity."""

    agent: str
    place: Path
    session: str = "5e551011-0000-4000-8000-000000000001"
    home: Path = field(default=Path())

    def __post_init__(self) -> None:
        if self.home == Path():
            self.home = Path(os.environ["HOME"]).parent / "agent-home"
        self.home.mkdir(exist_ok=True)

    @property
    def words(self) -> dict[str, str]:
        return WORDS[self.agent]

    def payload(self, event: str, /, **fields: Any) -> dict[str, Any]:
        """What the client sends at an event: as captured, moved into the sandbox, with fields of the test's own."""
        found: dict[str, Any] = self.moved(_example(self.agent, event))
        for name in SESSIONS:
            if name in found:
                found[name] = self.session
        return {**found, **fields}

    def moved(self, value: Any) -> Any:
        """A captured value with the paths of the sandbox."""
        text = json.dumps(value).replace(PROJECT, str(self.place)).replace(HOME, str(self.home))
        return json.loads(text)

    def env(self) -> dict[str, str]:
        """What the hook inherits: GIT_DIR is unset by the seal."""
        found = {"HOME": str(self.home), "PWD": str(self.place)}
        if self.agent in ("claude", "copilot", "gemini"):
            found["CLAUDE_PROJECT_DIR"] = str(self.place)
        if self.agent == "droid":
            found["FACTORY_PROJECT_DIR"] = str(self.place)
        if self.agent == "qwen":
            found["QWEN_PROJECT_DIR"] = str(self.place)
        if self.agent == "copilot":
            found |= {"COPILOT_CLI": "1", "COPILOT_PROJECT_DIR": str(self.place)}
        return found

    def send(
        self,
        event: str,
        payload: Mapping[str, Any] | bytes,
        *options: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Outcome:
        """One call of the hook with this payload, whatever it is."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        return hook(self.agent, event, data, *options, env={**self.env(), **(env or {})}, cwd=cwd or self.place)

    def fire(self, event: str, /, *options: str, **fields: Any) -> str:
        """An event with its own payload: it ends well, in its own time, and says nothing but the client's own shape; the
        injected text."""
        name = self.words.get(event, event)
        done = self.send(name, self.payload(name, **fields), *options, env={PATIENT: "1"})
        return injected(self.agent, name, done)

    def asked(self, prompt: str, *options: str, **fields: Any) -> None:
        """The user's prompt, at which no checkpoint is taken: what a test wrote before counts as done in the turn."""
        quiet = {PATIENT: "1", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "baton.auto", "GIT_CONFIG_VALUE_0": "compact"}
        name = self.words["prompt"]
        injected(self.agent, name, self.send(name, self.payload(name, prompt=prompt, **fields), *options, env=quiet))

    def turn(self, prompt: str, *options: str) -> None:
        """A whole turn: the user's prompt, and its end."""
        self.asked(prompt, *options)
        self.fire("turn", *options, **({"prompt": prompt} if self.agent == "gemini" else {}))


def _example(agent: str, event: str) -> dict[str, Any]:
    """A captured payload of the event; for the two clients without a capture of hook calls, what their documents say."""
    if agent in ("opencode", "kilo"):
        seen = opencode_events()
        return {"sessionID": seen["session.compacting"]["i"]["sessionID"], "directory": PROJECT, "child": False}
    if agent == "cursor":
        return {"conversation_id": "c", "hook_event_name": event, "cursor_version": "2.1", "workspace_roots": [PROJECT]}
    found = [c.payload for c in captured(agent) if c.event == event]
    example = deepcopy(found[0]) if found else {**captured(agent)[0].payload, "hook_event_name": event}
    example.pop("submitted_prompt", None)  # it would hide the prompt of a test
    return example


def hook(agent: str, event: str, data: bytes, *options: str, env: Mapping[str, str], cwd: Path) -> Outcome:
    """``git-baton hook`` as a client calls it."""
    words = ["-m", "gitbaton", "hook", agent, event, *options]
    done = python(words, os.fspath(cwd), {**os.environ, **env}, data)
    return Outcome(done.code, done.out.decode("utf-8"), done.err.decode("utf-8", "replace"))


def injected(agent: str, event: str, done: Outcome) -> str:
    """The text that the client hands to the model; the hook ended well, and its output is the client's own shape or nothing."""
    assert done.code == 0, f"{agent} {event}: exit {done.code}\n{done.err}"
    assert "Traceback" not in done.err, done.err
    if not done.out:
        return ""
    text = _context(agent, event, done.out)
    assert isinstance(text, str) and text
    assert len(text) <= (SHORT if (agent, event) == ("gemini", "BeforeAgent") else LIMIT)
    return text


def _context(agent: str, event: str, out: str) -> Any:
    if agent in ("opencode", "kilo"):
        return out
    said = json.loads(out)
    if agent in ("copilot", "cursor"):
        key = "additionalContext" if agent == "copilot" else "additional_context"
        assert list(said) == [key], said
        return said[key]
    assert list(said) == ["hookSpecificOutput"], said
    inner = said["hookSpecificOutput"]
    assert sorted(inner) == ["additionalContext", "hookEventName"] and inner["hookEventName"] == event, said
    return inner["additionalContext"]


def checkpoints(box: Sandbox, track: str) -> list[dict[str, Any]]:
    """A track's checkpoints, oldest first, as plain git shows them; none where the track is not there."""
    ref = f"refs/baton/tracks/{track}"
    return chain(box, track) if box.try_git("rev-parse", "-q", "--verify", ref).code == 0 else []


def autos(box: Sandbox, track: str) -> list[dict[str, Any]]:
    """The automatic checkpoints of a track, oldest first."""
    return [c for c in checkpoints(box, track) if c["kind"] == "auto"]


def steps(records: Sequence[Mapping[str, Any]]) -> list[str]:
    return [r["step"] for r in records]


def tracks(box: Sandbox) -> list[str]:
    """The tracks that a repository has, by git's own listing."""
    return [r.removeprefix("refs/baton/tracks/") for r in ours(box, "refs/baton/tracks/")]


def ours(box: Sandbox, prefix: str = "refs/baton/") -> list[str]:
    return box.git("for-each-ref", "--format=%(refname)", prefix).splitlines()


def written_tree(box: Sandbox, place: Path | None = None) -> str:
    """What git says the work tree is, ignored files left out: by a private index of the test."""
    where = Sandbox(place or box.path)
    index = Path(os.environ["HOME"]) / "index-of-a-test"
    real = Path(where.path, where.git("rev-parse", "--git-path", "index"))
    index.unlink(missing_ok=True)
    if real.exists():
        index.write_bytes(real.read_bytes())
        os.utime(index, (1, 1))  # older than every file, so that git reads them; 0 would mean that it need not
    env = {"GIT_INDEX_FILE": str(index)}
    where.git("add", "-A", env=env)
    return where.git("write-tree", env=env)


def log_of(box: Sandbox) -> str:
    """The log in the common directory; empty where there is none."""
    path = box.path / box.git("rev-parse", "--git-common-dir") / "baton" / "log"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def untouched(box: Sandbox) -> tuple[str, bytes, str]:
    """What no hook may change: git's status with ignored files, the index file's bytes, every ref that is not ours."""
    index = box.path / box.git("rev-parse", "--git-path", "index")
    status = box.git("status", "--porcelain=v2", "--branch", "--ignored", "-uall", env={"GIT_OPTIONAL_LOCKS": "0"})
    refs = [
        row
        for row in box.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        if not row.startswith(("refs/baton/", "refs/checkpoints/"))
    ]
    head = box.try_git("symbolic-ref", "HEAD").out + "\n".join(refs)
    return status, index.read_bytes() if index.exists() else b"", head


def check_next(box: Sandbox, *, session: str = "next", words: str = "S-manual") -> None:
    """The next hook works as if nothing had been, and git finds nothing wrong."""
    box.write("next.txt", f"{time.monotonic_ns()}\n")
    client = Client("claude", box.path, session=session)
    before = len(checkpoints(box, "t"))
    client.turn("next")
    assert steps(checkpoints(box, "t"))[before:] == ["turn ended: next"], log_of(box)
    assert checkpoints(box, "t")[-1]["files"]["tree"] == written_tree(box)
    assert words in client.fire("start")
    sound(box)
