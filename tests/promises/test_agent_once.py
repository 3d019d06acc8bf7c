"""Hooks of a plugin, of a project and of the user act once for an event, and a plugin begins a baton where its client works."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import PROGRAM, Client, autos, checkpoints, injected, log_of, steps, tracks
from tests.kit.tiers import some

PLUGIN = ("--plugin",)


@pytest.fixture
def used(repo: Sandbox) -> Sandbox:
    repo.commit("one")
    repo.ok("snapshot", "--track", "t", "--step", "S-manual")
    return repo


def heard(client: Client, event: str, *callers: Sequence[str], **fields: object) -> list[str]:
    """What each caller's hook says to one event, one after the other."""
    data = client.payload(event, **fields)
    return [injected(client.agent, event, client.send(event, data, *options)) for options in callers]


@pytest.mark.parametrize("agent", ["claude", "codex", "copilot", "gemini"])
def test_a_plugin_and_a_project_tell_and_keep_once(used: Sandbox, agent: str) -> None:
    client = Client(agent, used.path)
    first, second = heard(client, client.words["start"], PLUGIN, ())
    assert "S-manual" in first and second == ""
    used.write("work.txt", "one")
    heard(client, client.words["prompt"], (), PLUGIN, prompt="do it")
    used.write("work.txt", "two")
    heard(client, client.words["turn"], PLUGIN, ())
    assert steps(autos(used, "t")) == ["before a prompt (auto)", "turn ended: do it"]


def test_the_same_event_again_is_another_one_to_each_caller(used: Sandbox) -> None:
    client = Client("claude", used.path)
    for _ in range(3):  # killed and resumed: nothing in the payload tells it from the time before
        first, second = heard(client, "SessionStart", PLUGIN, (), source="resume")
        assert "S-manual" in first and second == ""
    (alone,) = heard(client, "SessionStart", (), source="resume")
    assert "S-manual" in alone, "the plugin was taken out"


def test_two_plugins_are_two_callers(used: Sandbox, tmp_path: Path) -> None:
    client, said = Client("claude", used.path), []
    data = client.payload("SessionStart")
    for name in ("one", "two"):
        done = client.send("SessionStart", data, *PLUGIN, env={"CLAUDE_PLUGIN_ROOT": str(tmp_path / name)})
        said.append(injected("claude", "SessionStart", done))
    assert "S-manual" in said[0] and said[1] == ""


@pytest.mark.parametrize(("agent", "both"), [("codex", True), ("copilot", True), ("claude", False)])
def test_equal_hooks_of_the_project_and_of_the_user_are_one(used: Sandbox, agent: str, both: bool) -> None:
    used.ok("agent", "install", agent)
    used.ok("agent", "install", agent, "--user")
    client = Client(agent, used.path, home=Path(os.environ["HOME"]))
    said = [bool(text) for _ in range(2) for text in heard(client, client.words["start"], (), ())]
    assert said == ([True, False] * 2 if both else [True] * 4), "Claude Code runs equal hooks once by itself"
    used.ok("agent", "uninstall", agent, "--user")
    assert all(heard(client, client.words["start"], (), ()))


def test_an_event_that_comes_again_is_another_one_also_without_a_home(used: Sandbox) -> None:
    client = Client("codex", used.path)
    words = ["env", "-u", "HOME", PROGRAM, "hook", "codex", "SessionStart"]
    data = json.dumps(client.payload("SessionStart", source="resume")).encode()
    said = [subprocess.run(words, input=data, capture_output=True, cwd=used.path, check=True).stdout for _ in range(3)]
    assert all(b"S-manual" in text for text in said) and log_of(used) == ""


def test_hooks_at_both_levels_are_no_fault_unless_their_tracks_differ(used: Sandbox) -> None:
    used.ok("agent", "install", "codex")
    assert "both levels" not in used.ok("agent", "install", "codex", "--user").err
    said = used.ok("agent", "install", "codex", "--track", "x").err
    assert "Codex is installed at both levels for different tracks, and either acts" in said


@pytest.mark.deep
def test_of_many_hooks_at_once_one_acts(used: Sandbox) -> None:
    client = Client("claude", used.path)
    roots = [{"CLAUDE_PLUGIN_ROOT": f"/{name}"} for name in range(8)]
    for source in ("startup", "resume", "startup", "compact", "resume"):
        data = client.payload("SessionStart", source=source)
        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(lambda env, data=data: client.send("SessionStart", data, *PLUGIN, env=env), roots))
        assert sum(bool(injected("claude", "SessionStart", one)) for one in done) == 1, source


def test_the_file_of_calls_is_not_written_through_a_link_of_a_stranger(used: Sandbox, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs\n")
    calls = used.path / ".git" / "baton" / "calls"
    for link in (os.link, os.symlink):
        calls.unlink(missing_ok=True)
        link(theirs, calls)
        assert all("S-manual" in text for text in heard(Client("claude", used.path), "SessionStart", PLUGIN, ()))
        assert theirs.read_text() == "theirs\n"


@pytest.mark.parametrize("junk", [b"", b"x\ty\n", b"9" * 5000 + b"\ta\tb\t1\n", b"\xff\0" * 99, b"1\ta b\tc\t" + b"1" * 5000])
def test_a_broken_file_of_calls_keeps_no_hook_back(used: Sandbox, junk: bytes) -> None:
    (used.path / ".git" / "baton" / "calls").write_bytes(junk)
    first, second = heard(Client("claude", used.path), "SessionStart", PLUGIN, ())
    assert "S-manual" in first and second == ""


@pytest.mark.parametrize(("value", "begins"), [(None, True), ("true", True), ("false", False)])
def test_a_plugin_begins_a_baton_unless_the_user_wants_otherwise(repo: Sandbox, value: str | None, begins: bool) -> None:
    if value is not None:
        repo.git("config", "--global", "baton.everywhere", value)
    repo.commit("one")
    repo.git("config", "baton.everywhere", "false")  # of the repository's own: it does not count
    client = Client("claude", repo.path, home=Path(os.environ["HOME"]))
    repo.write("work.txt", "one")
    client.turn("do it", *PLUGIN)
    assert tracks(repo) == (["main"] if begins else [])
    assert (repo.path / ".git" / "baton").exists() is begins


@pytest.mark.parametrize("above", [False, True])
def test_a_plugin_begins_none_in_the_home_folder(repo: Sandbox, above: bool) -> None:
    repo.commit("dot files")
    home = repo.path / "home" if above else repo.path
    home.mkdir(exist_ok=True)
    repo.write("work.txt", "one")
    Client("claude", repo.path, home=home).turn("do it", *PLUGIN)
    assert tracks(repo) == [] and not (repo.path / ".git" / "baton").exists()


def test_a_plugin_begins_none_in_another_repository_than_its_clients(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("one")
    other = Sandbox.init(tmp_path / "other")
    other.commit("one")
    other.write("work.txt", "one")
    client = Client("claude", repo.path)
    client.fire("prompt", *PLUGIN, prompt="do it", cwd=str(other.path))
    client.fire("turn", *PLUGIN, cwd=str(other.path))
    fields = {"tool_name": "Bash", "tool_input": {"command": f"git -C {other.path} reset --hard"}}
    client.send("PreToolUse", client.payload("PreToolUse", **fields), *PLUGIN)
    assert tracks(other) == [] and checkpoints(other, "main") == []
    assert not (other.path / ".git" / "baton").exists()


def aged(repo: Sandbox, seconds: int) -> None:
    """Let so many seconds pass for what is known of who heard of which event."""
    calls = repo.path / ".git" / "baton" / "calls"
    rows = [row.split("\t", 1) for row in calls.read_text().splitlines()]
    calls.write_text("".join(f"{int(at) - seconds * 1000}\t{rest}\n" for at, rest in rows))


@some(
    ("seconds", "callers"),
    [(40, [()]), (1, [()]), (59, [()]), (61, [()]), (25, [PLUGIN, ()]), (40, [PLUGIN, ()])],
)
def test_an_event_that_comes_again_and_again_is_never_lost(used: Sandbox, seconds: int, callers: list[Sequence[str]]) -> None:
    client = Client("opencode", used.path)  # which tells one end of a turn from another by nothing
    for number in range(4):
        used.write("work.txt", str(number))
        client.fire("prompt", prompt=f"do {number}")
        heard(client, "idle", *callers)
        aged(used, seconds)
    assert sum(step.startswith("turn ended: ") for step in steps(autos(used, "t"))) == 4


@pytest.mark.deep
def test_equal_hooks_of_which_one_is_not_called_lose_nothing(used: Sandbox) -> None:
    used.ok("agent", "install", "codex")  # a project that Codex does not trust
    used.ok("agent", "install", "codex", "--user")
    client = Client("codex", used.path, home=Path(os.environ["HOME"]))
    for _ in range(4):
        assert "S-manual" in heard(client, "SessionStart", (), source="resume")[0]
        aged(used, 12)
