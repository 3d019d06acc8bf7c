"""``git baton agent``: what is the user's stays the user's, in our own entries and files, too."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gitbaton.agents.install.levels import BEGIN, CLIENTS, END, Hooks, command, is_shipped, powershell, track_of
from gitbaton.base.system.files import shipped
from tests.kit import Sandbox
from tests.kit.tiers import some
from tests.rooms.install.test_agent_install import FILES, NAMES, SKILLS, both, home, state
from tests.rooms.install.test_agent_install_refused import SKILL, expect_refusal
from tests.rooms.install.test_settings_merge import found, merge, strip

BY_NAME = {client.name: client for client in CLIENTS}
CLAUDE, GEMINI, COPILOT = BY_NAME["claude"], BY_NAME["gemini"], BY_NAME["copilot"]
MINE = (
    "git-baton hook claude Stop; ./my-own-deploy.sh",
    "grep -q 'git-baton hook claude' f || ./warn.sh",
    "git-baton hook claude Stop && true",
    "git-baton hook claude Stop --track x",
    "git-baton hook claude Stop --track 'x' | tee log",
    "git-baton hook codex Stop",
    "/opt/bin/git-baton hook claude Stop",
    "command -v git-baton >/dev/null 2>&1 || exit 0; git-baton hook claude Stop\n",
)


def hooks_of(repo: Sandbox, name: str) -> dict[str, Any]:
    return dict(json.loads((repo.path / FILES[name]).read_text())["hooks"])


@some("line", MINE, 2)
def test_a_line_that_only_names_us_is_the_users(repo: Sandbox, line: str) -> None:
    handler = {"type": "command", "command": line}
    file = repo.write(FILES["claude"], json.dumps({"hooks": {"Stop": [{"hooks": [handler]}]}}, indent=1))
    before = file.read_text()
    done = repo.ok("agent", "install", "claude")
    assert "warning: '.claude/settings.json' has a line of your own that names our hook" in done.err
    assert hooks_of(repo, "claude")["Stop"][0] == {"hooks": [handler]} and len(hooks_of(repo, "claude")["Stop"]) == 2
    assert "has a line of your own" in repo.ok("agent", "uninstall", "--all").err
    assert file.read_text() == before
    assert "has a line of your own" in repo.ok("agent", "uninstall", "--all").err
    assert file.read_text() == before


def test_a_handler_that_is_ours_in_one_shell_only(repo: Sandbox) -> None:
    handler = {"type": "command", "bash": command("copilot", "agentStop"), "powershell": "./mine.ps1"}
    text = json.dumps({"version": 1, "hooks": {"agentStop": [handler]}})
    once = merge(text, COPILOT, None)
    assert json.loads(once.text)["hooks"]["agentStop"][0] == handler
    assert json.loads(strip(once.text, COPILOT).text)["hooks"]["agentStop"] == [handler]
    assert found(text, COPILOT).foreign == (handler["bash"],)


def test_every_form_that_we_write_is_ours() -> None:
    for track in (None, "x", "it's", "a' --track 'b", "\u2018\u2019\u201a\u201b", "'; rm -rf x; '"):
        handler = {"bash": command("copilot", "agentStop", track), "powershell": powershell("copilot", "agentStop", track)}
        text = json.dumps({"hooks": {"agentStop": [handler]}})
        assert found(text, COPILOT).count == 1 and found(text, COPILOT).tracks == (track,), track
        assert track_of(handler["bash"]) == track
    assert powershell("copilot", "e", "\u2018a'\u201b").endswith("--track '\u2018\u2018a''\u201b\u201b' }")


@pytest.mark.deep
def test_what_the_user_set_in_our_entries_stays(repo: Sandbox) -> None:
    repo.ok("agent", "install", "claude", "copilot", "gemini")
    edited = {}
    for name, key in (("claude", "Stop"), ("gemini", "AfterTool")):
        data = json.loads((repo.path / FILES[name]).read_text())
        group = data["hooks"][key][0]
        group |= {"matcher": "mine", "note": "n"}
        group["hooks"][0] |= {"timeout": 77, "statusMessage": "s", "async": True}
        edited[name] = json.dumps(data, indent=4)
        repo.write(FILES[name], edited[name])
    copilot = repo.path / FILES["copilot"]
    edited["copilot"] = copilot.read_text().replace('"timeoutSec": 30', '"timeoutSec": 31')
    copilot.write_text(edited["copilot"])
    assert repo.ok("agent", "install", "claude", "copilot", "gemini").out == "everything is in place\n"
    assert all((repo.path / FILES[name]).read_text() == text for name, text in edited.items())
    repo.ok("agent", "install", "claude", "--track", "t")
    (group,) = hooks_of(repo, "claude")["Stop"]
    assert (group["matcher"], group["hooks"][0]["timeout"], group["hooks"][0]["async"]) == ("mine", 77, True)
    assert group["hooks"][0]["command"] == command("claude", "Stop", "t")


@pytest.mark.deep
def test_the_track_stays_until_another_is_named(repo: Sandbox) -> None:
    repo.ok("agent", "install", "claude", "opencode", "--track", "A")
    assert "track" not in repo.ok("agent", "install", "claude", "opencode", "--agents-md").out
    tracks = {r["agent"]: r["tracks"] for r in repo.ok("agent", "list", "--json").json["agents"] if r["level"] == "project"}
    assert tracks["claude"] == tracks["opencode"] == ["A"]
    done = repo.ok("agent", "install", "claude", "--track", "B")
    texts = [f"the skill in '{path}'" for path in SKILLS] + ["the block for agents in 'AGENTS.md'"]
    assert done.out.splitlines() == [
        "renew the hooks of Claude Code in '.claude/settings.json', track 'B' instead of track 'A'",
        *(f"renew {text}" for text in texts),
    ]
    done = repo.ok("agent", "install", "claude", "opencode", "--track", "")
    assert "no track instead of track 'B'\n" in done.out and "no track instead of track 'A'\n" in done.out
    file = repo.path / FILES["claude"]
    file.write_text(file.read_text().replace("hook claude Stop", "hook claude Stop --track 'C'"))
    reason = "'.claude/settings.json' has hooks for more than one track"
    assert "hint: say which with --track" in expect_refusal(repo, "install", "claude", reason=reason, code=129)
    doctor = repo.baton("agent", "doctor")
    assert doctor.code == 1 and "git baton agent install claude --project --track NAME" in doctor.out


@pytest.mark.deep
def test_a_file_with_the_users_comments_stays(repo: Sandbox) -> None:
    repo.ok("agent", "install", "gemini")
    file = repo.path / FILES["gemini"]
    for text in ("// my notes\n" + file.read_text(), file.read_text().replace("{", "{ /* my notes */", 1)):
        file.write_text(text)
        repo.ok("agent", "uninstall", "gemini")
        assert "my notes" in file.read_text() and "git-baton" not in file.read_text()
        file.unlink()
        repo.ok("agent", "install", "gemini")
    assert Hooks(GEMINI, None).is_bare(" {}\n", ()) and not Hooks(GEMINI, None).is_bare("{} // x", ())


def test_what_a_client_adds_to_its_settings_by_itself_keeps_no_file(repo: Sandbox) -> None:
    """Qwen Code writes the number of their form into settings without one when it starts."""
    file = repo.path / ".qwen/settings.json"
    for more, stays in (({"$version": 4}, False), ({"$version": 4, "mine": 1}, True)):
        repo.ok("agent", "install", "qwen")
        file.write_text(json.dumps({**json.loads(file.read_text()), **more}, indent=2) + "\n")
        repo.ok("agent", "uninstall", "qwen")
        assert file.exists() is stays and file.parent.exists() is stays
    assert json.loads(file.read_text()) == {"$version": 4, "mine": 1}


@pytest.mark.deep
def test_own_files_that_were_changed_stay_in_a_clone(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("agent", "install", *NAMES, "--agents-md")
    changed = {name: (repo.path / name).read_bytes() + b"\n// mine\n" for name in (*SKILLS, FILES["opencode"])}
    changed["AGENTS.md"] = (repo.path / "AGENTS.md").read_bytes().replace(END.encode(), b"mine\n" + END.encode())
    for name, data in changed.items():
        (repo.path / name).write_bytes(data)
    repo.commit("changed")
    clone = Sandbox(tmp_path / "clone")
    repo.git("clone", "-q", ".", str(clone.path))
    for place in (clone, repo):
        for words in (("install", *NAMES, "--agents-md"), ("uninstall", "--all")):
            said = place.ok("agent", *words).err
            assert said.count("changed since it was installed") == 4, said
            assert {name: (place.path / name).read_bytes() for name in changed} == changed


def test_every_text_that_ships_is_in_the_list_and_older_ones_are_renewed(repo: Sandbox) -> None:
    rows = [row.split(" ") for row in shipped("agents", "shipped").splitlines()]
    assert {name for _, name in rows} == {"SKILL.md", "AGENTS.md", "gitbaton.js"}
    for name in ("SKILL.md", "AGENTS.md", "gitbaton.js"):
        digest = hashlib.sha256(shipped("agents", name).encode()).hexdigest()
        assert [digest, name] in rows, f"add '{digest} {name}' to gitbaton/data/agents/shipped"
        assert is_shipped(name, shipped("agents", name).replace("\n", "\r\n")) and not is_shipped(
            name, shipped("agents", name) + "x"
        )


@pytest.mark.deep
def test_a_shared_skill_is_kept_for_who_needs_it(repo: Sandbox) -> None:
    (repo.path / ".agents/skills").mkdir(parents=True)
    (repo.path / ".claude").mkdir()
    (repo.path / ".claude/skills").symlink_to("../.agents/skills")
    repo.ok("agent", "install", "claude", "codex")
    repo.ok("agent", "uninstall", "claude")
    assert (repo.path / SKILL).is_file()
    repo.ok("agent", "install", "gemini", "--agents-md")
    gemini = repo.path / FILES["gemini"]
    gemini.write_text(gemini.read_text() + "{")
    repo.ok("agent", "uninstall", "codex")
    assert (repo.path / SKILL).is_file() and BEGIN in (repo.path / "AGENTS.md").read_text()


def test_all_takes_skills_that_are_left_alone(repo: Sandbox) -> None:
    before = both(repo)
    repo.ok("agent", "install", "claude", "codex", "--agents-md")
    for name in ("claude", "codex"):
        (repo.path / FILES[name]).unlink()
    assert repo.ok("agent", "uninstall", "--all").out.count("remove '") == 3
    assert not any((repo.path / name).exists() for name in (*SKILLS, "AGENTS.md", ".agents"))
    (repo.path / ".claude").rmdir() if (repo.path / ".claude").exists() else None
    (repo.path / ".codex").rmdir() if (repo.path / ".codex").exists() else None
    assert both(repo)[1] == before[1]


@pytest.mark.deep
def test_two_installs_at_once_lose_no_record(repo: Sandbox) -> None:
    folder = repo.path / ".git/baton"
    repo.ok("agent", "install", "cursor", "--user")
    (home() / ".cursor/hooks.json").unlink()
    for level, folder in (("--project", repo.path / ".git/baton"), ("--user", home() / ".local/state/gitbaton")):
        folder.mkdir(exist_ok=True)
        held = os.open(folder, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        words = [sys.executable, "-m", "gitbaton", "agent", "install"]
        running = [
            subprocess.Popen([*words, name, level], cwd=repo.path, stdout=-3, stderr=-3) for name in ("gemini", "cursor")
        ]
        with pytest.raises(subprocess.TimeoutExpired):
            running[0].wait(0.5)  # it has read the records and waits to write them
        os.close(held)
        assert [one.wait() for one in running] == [0, 0]
        kept = json.loads((folder / "agents").read_text())["files"]
        base = repo.path if level == "--project" else home()
        assert all(
            str(base / f".{name}/{'settings' if name == 'gemini' else 'hooks'}.json") in kept for name in ("gemini", "cursor")
        )


@pytest.mark.deep
def test_a_state_folder_that_is_relative_is_ignored(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    repo.ok("agent", "install", "cursor", "--user")
    assert (home() / ".local/state/gitbaton/agents").exists() and not (repo.path / "state").exists()


@pytest.mark.deep
def test_a_home_folder_that_is_a_work_tree_keeps_nothing_of_ours() -> None:
    house = Sandbox.init(home())
    before = state(home())
    for there, back in (("--user", "--project"), ("--project", "--user")):
        house.ok("agent", "install", "codex", "cursor", there)
        house.ok("agent", "uninstall", "codex", "cursor", back)
        assert state(home()) == before
