"""OpenCode's plugin, run by the real node: what it asks git-baton for, when, and that it never disturbs the session."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.destructive import REPORTED
from tests.kit.places import ROOT
from tests.promises.test_destructive import QUICK
from tests.rooms.agents.test_destructive import PATHS

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="no node on PATH: the plugin of OpenCode is not run")
PROGRAM = """#!/bin/sh
[ "$1 $2" = "hook opencode" ] || exit 9
{ printf '%s ' "$@"; cat; echo; } >>"$CALLS"
case "$3" in
context) cat "$CALLS.context" ;;
compacting) echo 'keep this' ;;
*) echo 'not for the model' ;;
esac
exit "${FAIL:-0}"
"""
DRIVER = """
import * as module from %(plugin)s
const steps = JSON.parse(process.env.STEPS)
const names = Object.keys(module)
if (names.length !== 1) throw new Error("every export is taken for a plugin: " + names)
const hooks = await module[names[0]]({ directory: %(place)s, worktree: "/", client: {}, project: {} })
const said = []
for (const [name, input, output] of steps) {
  const given = output === undefined ? undefined : structuredClone(output)
  await hooks[name](input, given)
  said.push(given ?? null)
}
console.log(JSON.stringify({ keys: Object.keys(hooks), said }))
"""

Step = tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], dict[str, Any]]


def event(kind: str, **properties: Any) -> Step:
    return "event", {"event": {"type": kind, "properties": properties}}


def busy(session: str) -> Step:
    return event("session.status", sessionID=session, status={"type": "busy"})


def idle(session: str) -> Step:
    return event("session.status", sessionID=session, status={"type": "idle"})


def request(session: str | None) -> Step:
    return "experimental.chat.system.transform", {"sessionID": session, "model": {}}, {"system": ["You are", "more"]}


class Session:
    """The plugin as installed, a script in place of git-baton, and a driver that calls hooks as OpenCode does."""

    def __init__(self, repo: Sandbox, tmp_path: Path, *words: str) -> None:
        repo.ok("agent", "install", "opencode", *words)
        self.repo, self.calls_file = repo, tmp_path / "calls"
        self.context = tmp_path / "calls.context"
        self.context.write_text("where things stand\n")
        self.program = tmp_path / "programs/git-baton"
        self.program.parent.mkdir()
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)
        self.driver = tmp_path / "driver.mjs"
        plugin = (repo.path / ".opencode/plugins/gitbaton.js").as_uri()
        shutil.copy(repo.path / ".opencode/plugins/gitbaton.js", tmp_path / "plugin.mjs")
        plugin = (tmp_path / "plugin.mjs").as_uri()
        self.driver.write_text(DRIVER % {"plugin": json.dumps(plugin), "place": json.dumps(str(repo.path))})

    def run(self, *steps: Step, **env: str) -> list[Any]:
        """What each step's output was afterwards."""
        path = f"{self.program.parent}:/usr/bin:/bin"
        told = {**os.environ, "PATH": path, "CALLS": str(self.calls_file), "STEPS": json.dumps(steps), **env}
        done = subprocess.run([str(NODE), str(self.driver)], env=told, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done
        return list(json.loads(done.stdout)["said"])

    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """The words and payloads that git-baton was called with."""
        rows = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        found = [row.partition(" {") for row in rows]
        return [(words.removeprefix("hook opencode "), json.loads("{" + data)) for words, _, data in found]

    def words(self) -> list[str]:
        return [words for words, _ in self.calls()]


@pytest.mark.deep
def test_what_stands_in_the_users_folder_as_a_plugin_says_so(repo: Sandbox, tmp_path: Path) -> None:
    session = Session(repo, tmp_path)
    shutil.copy(ROOT / "gitbaton/data/opencode/plugins/gitbaton-plugin.js", tmp_path / "plugin.mjs")
    session.run(request("s1"), idle("s1"))
    assert session.words() == ["context --plugin"]


@pytest.mark.deep
@pytest.mark.parametrize(("place", "acts"), [("", False), ("/other", True)])
def test_of_two_that_are_loaded_for_a_place_the_last_acts(repo: Sandbox, tmp_path: Path, place: str, acts: bool) -> None:
    session = Session(repo, tmp_path)
    another = f"await module[names[0]]({{ directory: {json.dumps(str(repo.path) + place)} }})\nconst said = []"
    session.driver.write_text(session.driver.read_text().replace("const said = []", another))
    (told,) = session.run(request("s1"))
    assert ("where things stand" in told["system"][0], session.words()) == (acts, ["context"] if acts else [])


@pytest.mark.deep
def test_a_session_from_start_to_end(repo: Sandbox, tmp_path: Path) -> None:
    session = Session(repo, tmp_path)
    message = {"message": {}, "parts": [{"type": "text", "text": "do it"}, {"type": "file"}, {"type": "text", "text": "now"}]}
    said = session.run(
        event("session.created", info={"id": "s1"}),
        ("chat.message", {"sessionID": "s1", "agent": "build"}, message),
        busy("s1"),
        request("s1"),
        ("tool.execute.after", {"tool": "edit", "sessionID": "s1", "callID": "c"}, {"output": ""}),
        ("tool.execute.after", {"tool": "read", "sessionID": "s1", "callID": "c"}, {"output": ""}),
        request("s1"),
        idle("s1"),
        event("session.idle", sessionID="s1"),
        busy("s1"),
        ("experimental.session.compacting", {"sessionID": "s1"}, {"context": ["theirs"]}),
        event("session.compacted", sessionID="s1"),
        request("s1"),
        request("s1"),
        event("session.idle", sessionID="s1"),
        event("session.deleted", info={"id": "s1"}),
    )
    assert session.words() == ["prompt", "context", "edited", "idle", "compacting", "compacted", "context", "idle", "ended"]
    assert all(data["sessionID"] == "s1" and data["directory"] == str(repo.path) for _, data in session.calls())
    assert session.calls()[0][1]["prompt"] == "do it\nnow" and "prompt" not in session.calls()[1][1]
    for place in (3, 6, 12, 13):
        assert said[place]["system"] == ["You are\n\nwhere things stand", "more"]
    assert said[10]["context"] == ["theirs", "keep this"]
    assert said[1] == message


def test_children_and_requests_without_a_session_are_skipped(repo: Sandbox, tmp_path: Path) -> None:
    session = Session(repo, tmp_path)
    said = session.run(
        event("session.created", info={"id": "child", "parentID": "s1"}),
        ("chat.message", {"sessionID": "child"}, {"parts": [{"type": "text", "text": "x"}]}),
        busy("child"),
        request("child"),
        request(None),
        ("tool.execute.after", {"tool": "write", "sessionID": "child"}, {}),
        ("experimental.session.compacting", {"sessionID": "child"}, {"context": []}),
        event("session.compacted", sessionID="child"),
        idle("child"),
        event("session.deleted", info={"id": "child"}),
        event("file.edited", file="x"),
        event("constructor"),
    )
    assert session.calls() == [] and said[3]["system"] == ["You are", "more"]


def test_the_agents_commands_know_their_session_and_a_terminal_of_the_users_does_not(repo: Sandbox, tmp_path: Path) -> None:
    session = Session(repo, tmp_path)
    said = session.run(
        ("shell.env", {"cwd": "/", "sessionID": "s1", "callID": "c"}, {"env": {"THEIRS": "1"}}),
        ("shell.env", {"cwd": "/"}, {"env": {}}),
    )
    assert said == [{"env": {"THEIRS": "1", "GIT_BATON_OPENCODE_SESSION": "s1"}}, {"env": {}}]


def test_a_command_that_may_be_destructive_is_told_before_it_runs(repo: Sandbox, tmp_path: Path) -> None:
    session = Session(repo, tmp_path)
    repo.git("config", "--add", "baton.guardCommand", "npm run format")

    def asked(text: str, session: str = "s1") -> Step:
        return "tool.execute.before", {"tool": "bash", "sessionID": session}, {"args": {"command": text}}

    long = "git branch submodule pull " * 1000
    told = ["npm run format -- --all", long, *REPORTED, *(f"true\n{line}" for line in REPORTED), *PATHS]
    said = session.run(
        event("session.created", info={"id": "child", "parentID": "s1"}),
        *map(asked, QUICK),
        ("tool.execute.before", {"tool": "write", "sessionID": "s1"}, {"args": {"content": "rm -rf x"}}),
        ("tool.execute.before", {"tool": "bash", "sessionID": "s1"}, {}),
        asked("rm -rf src", "child"),
        *map(asked, told),
    )
    calls = session.calls()
    assert [data["command"] for _, data in calls] == ["rm -rf src", *told] and set(session.words()) == {"command"}
    assert [data["child"] for _, data in calls[:2]] == [True, False]
    assert said[-1] == {"args": {"command": told[-1]}}, "it runs as it was"


def test_the_track_is_named(repo: Sandbox, tmp_path: Path) -> None:
    track = 'it\'s "x" ${y} \\ é'
    session = Session(repo, tmp_path, "--track", track)
    session.run(request("s"))
    assert session.words() == [f"context --track {track}"]


@pytest.mark.deep
def test_no_text_leaves_the_request_alone_and_is_not_asked_again_at_once(repo: Sandbox, tmp_path: Path) -> None:
    session = Session(repo, tmp_path)
    session.context.write_text("\n")
    said = session.run(request("s"), request("s"), request("t"))
    assert session.words() == ["context", "context"]
    assert all(out["system"] == ["You are", "more"] for out in said)
    session.context.write_text("text")
    empty: Step = ("experimental.chat.system.transform", {"sessionID": "s"}, {"system": []})
    assert session.run(empty)[0]["system"] == ["text"]


@pytest.mark.deep
def test_whatever_goes_wrong_the_session_goes_on(repo: Sandbox, tmp_path: Path) -> None:
    session = Session(repo, tmp_path)
    assert session.run(request("s"), FAIL="1")[0]["system"] == ["You are", "more"]
    odd: list[Step] = [
        ("chat.message", {"sessionID": "s"}, {"parts": [{"type": "text"}]}),
        ("experimental.chat.system.transform", {"sessionID": "s"}, {}),
        ("experimental.session.compacting", {"sessionID": "s"}, {}),
        ("event", {}),
        event("session.status", sessionID="s"),
        event("session.created"),
        event("session.deleted"),
    ]
    session.run(*odd)
    session.program.unlink()
    session.calls_file.unlink()
    assert session.run(request("s"), busy("s"), idle("s"))[0]["system"] == ["You are", "more"]
    assert session.calls() == []
