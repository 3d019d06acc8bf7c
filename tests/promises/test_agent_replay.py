"""Captured sessions of real clients, replayed through ``git-baton hook``: every checkpoint and every injected text."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gitbaton.base.codec.checkpoint import parse_transcript
from tests.kit import Sandbox
from tests.kit.agents import (
    CLIENTS,
    Client,
    autos,
    checkpoints,
    injected,
    log_of,
    steps,
    tracks,
    untouched,
    written_tree,
)
from tests.kit.payloads import captured, opencode_events
from tests.kit.state import snap
from tests.kit.tiers import some

WORDS = ("--note", "n1", "--next-cmd", "make check", "--validation", "green")
HELLO = "hello from the stub model\n"
PROMPTS = {"qwen": "Do the release of half()", "droid": "one"}


@dataclass(frozen=True)
class Step:
    """One event of a session: what it is to us, its payload, and the edits made before it."""

    event: str
    moment: str
    payload: dict[str, Any]
    env: dict[str, str]
    edits: bool = False


MOMENTS = {
    "SessionStart": "start",
    "sessionStart": "start",
    "Stop": "turn",
    "AfterAgent": "turn",
    "agentStop": "turn",
    "PreCompact": "compact",
    "preCompact": "compact",
    "SessionEnd": "end",
    "sessionEnd": "end",
    "BeforeAgent": "short",
}


def session(client: Client) -> list[Step]:
    """The captured session, moved into the sandbox."""
    if client.agent in ("opencode", "kilo"):
        return _opencode(client)
    found, written = [], False
    for call in captured(client.agent):
        tool = str(call.payload.get("tool_name", call.payload.get("toolName", "")))
        edits = not written and bool(tool) and call.event in ("PostToolUse", "AfterTool", "postToolUse")
        written = written or edits
        env = {k: v for k, v in client.moved(call.env).items() if k != "CODEX_HOME"}
        found.append(Step(call.event, MOMENTS.get(call.event, ""), client.moved(call.payload), env, edits))
    return found


def _opencode(client: Client) -> list[Step]:
    """OpenCode's session as our plugin tells it."""
    seen = opencode_events()
    base = client.moved({"sessionID": seen["session.compacting"]["i"]["sessionID"], "directory": "/home/dev/project"})
    said = {**base, "prompt": "Create hello.txt"}
    rows = [("prompt", "", said), ("context", "start", base), ("edited", "", base), ("compacting", "compact", base)]
    rows += [("context", "start", base), ("idle", "turn", base)]
    return [Step(name, moment, {**payload, "child": False}, {}, name == "edited") for name, moment, payload in rows]


def transcript(step: Step) -> Path | None:
    """The conversation's file, one line longer at every event."""
    name = step.payload.get("transcript_path", step.payload.get("transcriptPath"))
    if not name:
        return None
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps({"type": "user", "uuid": "u-1", "message": {"role": "user", "content": step.event}}) + "\n")
    return path


def check_text(text: str, event: str) -> None:
    """What a model must find in it."""
    for needed in ("S-manual", "make check", "drift", "'t'"):
        assert needed in text, f"{event}: {needed!r} is not in\n{text}"


def check_checkpoint(repo: Sandbox, record: dict[str, Any], step: Step, client: Client, session_id: str) -> None:
    """Everything that an automatic checkpoint says, with git as the judge."""
    assert record["kind"] == "auto" and record["label"] is None
    assert record["agent"]["name"] == client.agent and record["agent"]["session"] == session_id
    assert record["branch"] == repo.git("symbolic-ref", "--short", "HEAD") and record["head"] == repo.head()
    tree = written_tree(repo)
    assert record["files"]["tree"] == tree == repo.git("rev-parse", f"{record['commit']}^{{tree}}"), step.event
    author = repo.git("log", "-1", "--format=%an <%ae>|%cn <%ce>", record["commit"])
    assert author == "|".join(["gitbaton <gitbaton@localhost>"] * 2)
    assert record["carried"]["step"] == "S-manual" and record["next_cmd"] == "make check" and record["note"] == "n1"
    if step.moment == "turn":
        assert record["step"] == f"turn ended: {PROMPTS.get(client.agent, 'Create hello.txt')}"
    if step.moment == "compact":
        assert record["step"].startswith("before compaction (")
        assert step.payload.get("trigger") != "auto" or record["step"] == "before compaction (auto)"
    file = transcript_size(step)
    if file is not None:
        position = parse_transcript(record["agent"]["transcript"])
        assert position is not None and (position.size, position.lines) == file
        assert position.stored == repo.git("rev-parse", f"refs/baton/transcripts/{client.agent}/{session_id}")


def transcript_size(step: Step) -> tuple[int, int] | None:
    name = step.payload.get("transcript_path", step.payload.get("transcriptPath"))
    data = Path(name).read_bytes() if name else None
    return (len(data), data.count(b"\n")) if data is not None else None


def replay(repo: Sandbox, client: Client, *, churn: bool, cwd: Path | None = None) -> list[tuple[Step, bool]]:
    """The whole session in order; ``churn`` edits a file before every event. Which events stored a checkpoint."""
    told = []
    for number, step in enumerate(session(client)):
        if step.edits:
            repo.write("hello.txt", HELLO)
        if churn:
            repo.write("churn.txt", f"{number}\n")
        transcript(step)
        before, state = len(checkpoints(repo, "t")), untouched(repo)
        payload = {k: str(cwd) if cwd and k in ("cwd", "directory") else v for k, v in step.payload.items()}
        done = client.send(step.event, payload, env=step.env, cwd=cwd)
        text = injected(client.agent, step.event, done)
        if step.moment in ("start", "short"):
            check_text(text, step.event) if step.moment == "start" else None
        assert state == untouched(repo), f"{step.event} changed something of the user's"
        records = checkpoints(repo, "t")
        assert len(records) in (before, before + 1)
        identity = next(step.payload[k] for k in ("session_id", "sessionId", "sessionID") if k in step.payload)
        if len(records) > before:
            check_checkpoint(repo, records[-1], step, client, identity)
        told.append((step, len(records) > before))
    return told


def gist(record: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint holds of the client's records, but for times and the last words."""
    seen = record.get("observed", {})
    plans = [plan["items"] for plan in seen.get("plans", ())]
    tests = [(run["command"], run["result"]) for run in seen.get("tests", ())]
    asked = [prompt["text"] for prompt in seen.get("asked", ())]
    return {"plans": plans, "tests": tests, "asked": asked, "edited": seen.get("edited")}


REPLAYED = [agent for agent in CLIENTS if agent != "cursor"]


@pytest.mark.full
@some("agent", REPLAYED)
def test_a_captured_session(repo: Sandbox, agent: str) -> None:
    snap(repo, "t", "S-manual", *WORDS)
    told = replay(repo, Client(agent, repo.path), churn=False)
    assert [s.event for s, stored in told if stored], "no checkpoint at all"
    assert checkpoints(repo, "t")[-1]["files"]["tree"] == written_tree(repo)
    taken = [(c["files"]["tree"], gist(c), c["step"].startswith("turn ended")) for c in autos(repo, "t")]
    assert all(one != after for one, after in pairwise(taken)), steps(autos(repo, "t"))
    assert log_of(repo) == ""
    repo.fsck()


@pytest.mark.full
@some("agent", REPLAYED)
def test_a_session_with_an_edit_before_every_event(repo: Sandbox, agent: str) -> None:
    snap(repo, "t", "S-manual", *WORDS)
    told = replay(repo, Client(agent, repo.path), churn=True)
    for step, stored in told:
        if step.moment in ("turn", "compact", "end", "prompt") and step.event != "PreCompress":
            assert stored, f"{step.event} stored nothing"
        if step.moment == "start" or "Tool" in step.event or step.event == "edited":
            assert not stored, f"{step.event} stored a checkpoint"


@pytest.mark.full
@some("agent", ["claude", "gemini", "opencode"])
def test_started_in_a_subdirectory(repo: Sandbox, agent: str) -> None:
    repo.commit("second", **{"deep/down/b_txt": "b\n"})
    snap(repo, "t", "S-manual", *WORDS)
    client = Client(agent, repo.path)
    replay(repo, client, churn=True, cwd=repo.path / "deep" / "down")
    assert "churn.txt" in repo.tree(autos(repo, "t")[-1]["commit"])


@pytest.mark.full
def test_cursor_as_documented(repo: Sandbox) -> None:
    snap(repo, "t", "S-manual", *WORDS)
    client = Client("cursor", repo.path)
    check_text(client.fire("start"), "sessionStart")
    client.fire("prompt", prompt="Do it\nall")
    repo.write("hello.txt", HELLO)
    client.fire("edit")
    client.fire("compact", trigger="auto")
    repo.write("hello.txt", "2\n")
    client.fire("turn", status="completed", loop_count=0)
    assert steps(autos(repo, "t")) == ["before compaction (auto)", "turn ended: Do it"]
    assert [a["agent"]["name"] for a in autos(repo, "t")] == ["cursor", "cursor"]
    assert autos(repo, "t")[-1]["files"]["tree"] == written_tree(repo)


@pytest.mark.full
def test_each_turn_has_its_own_prompt_beside_the_task(repo: Sandbox) -> None:
    snap(repo, "t", "S-manual")
    client, other = Client("claude", repo.path), Client("claude", repo.path, session="other")
    prompts = ["first thing\nmore", "\n\n  second thing  \n", "third \x1b[31m\u202ething", "x" * 70_000, "", "sechst\u00e9"]
    for number, prompt in enumerate(prompts):
        client.fire("prompt", prompt=prompt)
        other.fire("prompt", prompt="not this")
        repo.write("hello.txt", f"{number}\n")
        client.fire("turn")
    said, task = steps(autos(repo, "t")), "turn ended: first thing"
    assert said[0] == said[4] == task and said[1].strip() == f"{task}; last prompt: second thing"
    assert said[2].startswith(f"{task}; last prompt: third ") and said[3].startswith(f"{task}; last prompt: xxx")
    assert said[5] == f"{task}; last prompt: sechst\u00e9" and len(said) == 6
    assert not any("not this" in s or "\n" in s for s in said)
    assert log_of(repo) == ""


@pytest.mark.full
@some(
    ("value", "moments"),
    [
        ("off", ""),
        ("compact", "compact"),
        ("turn", "prompt compact turn end"),
        (None, "prompt compact turn end"),
        ("edit", "prompt edit compact turn end"),
    ],
)
@some("agent", ["claude", "opencode"])
def test_when(repo: Sandbox, agent: str, value: str | None, moments: str) -> None:
    snap(repo, "t", "S-manual", *WORDS)
    if value:
        repo.git("config", "baton.auto", value)
    client, stored = Client(agent, repo.path), []
    for number, moment in enumerate(("start", "prompt", "edit", "compact", "start", "turn", "end")):
        repo.write("churn.txt", f"{number}\n")
        before = len(checkpoints(repo, "t"))
        text = client.fire(moment, **({"prompt": "p"} if moment == "prompt" else {}))
        if moment == "start":
            check_text(text, moment)
        if len(checkpoints(repo, "t")) > before:
            stored.append(moment)
    assert stored == moments.split()


@pytest.mark.full
@some("agent", ["claude", "gemini"])
def test_edits_are_debounced_and_none_is_lost_for_long(repo: Sandbox, agent: str) -> None:
    snap(repo, "t", "S-manual", *WORDS)
    repo.git("config", "baton.auto", "edit")
    client = Client(agent, repo.path)
    for number in range(5):
        repo.write("churn.txt", f"{number}\n")
        client.fire("edit")
    assert len(autos(repo, "t")) == 1, steps(autos(repo, "t"))
    client.fire("turn")
    assert len(autos(repo, "t")) == 2
    assert autos(repo, "t")[-1]["files"]["tree"] == written_tree(repo)


@pytest.mark.full
def test_gemini_tells_of_a_compression_before_every_request(repo: Sandbox) -> None:
    snap(repo, "t", "S-manual", *WORDS)
    client = Client("gemini", repo.path)
    for number in range(6):
        repo.write("churn.txt", f"{number}\n")
        assert client.fire("PreCompress") == ""
    assert len(autos(repo, "t")) <= 1, steps(autos(repo, "t"))
    client.turn("go")
    assert steps(autos(repo, "t"))[-1] == "turn ended: go"
    assert autos(repo, "t")[-1]["files"]["tree"] == written_tree(repo)


@pytest.mark.full
@some("agent", CLIENTS)
def test_the_same_tree_and_words_make_no_new_checkpoint(repo: Sandbox, agent: str) -> None:
    snap(repo, "t", "S-manual", *WORDS)
    repo.write("hello.txt", HELLO)
    client = Client(agent, repo.path)
    client.asked("p")
    for _ in range(5):
        client.fire("turn", prompt="p")
    client.fire("compact")
    client.fire("end")
    assert len(autos(repo, "t")) == 1, steps(autos(repo, "t"))


@pytest.mark.full
def test_five_hooks_at_once_make_one_checkpoint(repo: Sandbox) -> None:
    snap(repo, "t", "S-manual", *WORDS)
    client = Client("claude", repo.path)
    for number in range(4):
        repo.write("hello.txt", f"{number}\n")
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(lambda _: client.fire("turn"), range(5)))
        assert len(autos(repo, "t")) == number + 1, steps(autos(repo, "t"))
    assert log_of(repo) == ""


@pytest.mark.full
def test_a_commit_alone_makes_a_new_checkpoint(repo: Sandbox) -> None:
    snap(repo, "t", "S-manual", *WORDS)
    repo.write("hello.txt", HELLO)
    client = Client("claude", repo.path)
    client.turn("one")
    repo.commit("two")
    client.turn("two")
    assert [a["head"] for a in autos(repo, "t")][-1] == repo.head() and len(autos(repo, "t")) == 2


@pytest.mark.deep
def test_in_a_merge_that_stopped(repo: Sandbox) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("theirs", a_txt="theirs\n")
    repo.git("checkout", "-q", "main")
    repo.commit("ours", a_txt="ours\n")
    snap(repo, "t", "S-manual", *WORDS)
    assert repo.try_git("merge", "side").code != 0
    client, state = Client("codex", repo.path), untouched(repo)
    assert "operation:merge" in client.fire("start")
    client.turn("merge it")
    assert untouched(repo) == state
    (record,) = autos(repo, "t")
    assert record["files"]["operation"]["kind"] == "merge" and record["files"]["index"]["unmerged"] == 1
    assert "<<<<<<<" in repo.git("show", f"{record['commit']}:a.txt")


@some("value", ["sometimes", "", "TURN ", "edit,turn", "-1"], share=0)
def test_an_unknown_value_of_baton_auto(repo: Sandbox, value: str) -> None:
    snap(repo, "t", "S-manual", *WORDS)
    repo.git("config", "baton.auto", value)
    client = Client("claude", repo.path)
    repo.write("hello.txt", HELLO)
    done = client.send("Stop", client.payload("Stop"))
    assert (done.code, done.out) == (0, "")
    assert "baton.auto" in log_of(repo)
    client.fire("start")


@pytest.mark.full
def test_in_a_repository_without_a_baton_nothing_happens(repo: Sandbox) -> None:
    repo.write("hello.txt", HELLO)
    state = untouched(repo)
    for agent in CLIENTS:
        client = Client(agent, repo.path)
        for moment in ("start", "prompt", "edit", "compact", "turn", "end"):
            assert client.fire(moment, prompt="p") == ""
    assert tracks(repo) == [] and state == untouched(repo) and log_of(repo) == ""
    assert not (repo.path / "runtime").exists()
