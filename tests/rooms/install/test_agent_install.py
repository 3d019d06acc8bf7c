"""``git baton agent install`` and ``uninstall`` on real files: what is written, what is refused, what comes back."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from gitbaton.agents.install import agents
from gitbaton.agents.install.levels import CLIENTS, entries, place
from gitbaton.agents.install.plan import apply
from tests.kit import Sandbox
from tests.kit.tiers import some
from tests.rooms.install.test_settings_merge import TABLE

NAMES = [client.name for client in CLIENTS]
BY_NAME = {client.name: client for client in CLIENTS}
FILES = {client.name: client.project for client in CLIENTS}
SKILLS = (".agents/skills/gitbaton/SKILL.md", ".claude/skills/gitbaton/SKILL.md")


def state(folder: Path) -> dict[str, Any]:
    """Every file, link and folder below a folder, but for git's own."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.split("/")[0] == ".git" and name != ".git/baton":
            continue
        if path.is_symlink():
            found[name] = os.readlink(path)
        else:
            found[name] = (stat.S_IMODE(path.stat().st_mode), path.read_bytes() if path.is_file() else None)
    return found


def home() -> Path:
    return Path(os.environ["HOME"])


def both(repo: Sandbox) -> tuple[dict[str, Any], dict[str, Any]]:
    return state(repo.path), state(home())


@pytest.mark.deep
def test_every_client_in_a_project_and_back(repo: Sandbox) -> None:
    before = both(repo)
    done = repo.ok("agent", "install", *NAMES, "--agents-md")
    for name in NAMES:
        assert f"'{FILES[name]}'" in done.out
    for path in (*FILES.values(), *SKILLS, "AGENTS.md"):
        assert (repo.path / path).is_file(), path
    for name in NAMES:
        if BY_NAME[name].shape != "plugin":
            hooks = json.loads((repo.path / FILES[name]).read_text())["hooks"]
            assert hooks == {event: [item] for event, item in entries(BY_NAME[name]).items()}
    assert state(home()) == before[1], "nothing at the user's level"
    after = both(repo)
    again = repo.ok("agent", "install", *NAMES, "--agents-md")
    assert (again.out, again.err) == ("everything is in place\n", "")
    assert both(repo) == after
    gone = repo.ok("agent", "uninstall", *NAMES)
    assert gone.out.count("remove '") == len(NAMES) + 3
    assert both(repo) == before
    assert repo.ok("agent", "uninstall", "--all").out == "nothing of ours is installed\n"


@pytest.mark.deep
def test_every_client_of_a_user_and_back(tmp_path: Path) -> None:
    outside = Sandbox(tmp_path / "nowhere")
    outside.path.mkdir()
    before = state(home())
    done = outside.ok("agent", "install", *NAMES, "--user", "--track", "mine")
    places = [".claude/settings.json", ".codex/hooks.json", ".gemini/settings.json", ".config/opencode/plugins/gitbaton.js"]
    for name in [*places, ".copilot/hooks/gitbaton.json", ".cursor/hooks.json", *SKILLS]:
        assert (home() / name).is_file(), name
        assert f"'~/{name}'" in done.out
    assert "hooks at user level act only in a repository where gitbaton is used already" in done.err
    assert outside.ok("agent", "install", *NAMES, "--user", "--track", "mine").out == "everything is in place\n"
    outside.ok("agent", "uninstall", "--all", "--user")
    assert state(home()) == before


def test_the_clients_own_variables_are_heeded(repo: Sandbox, tmp_path: Path) -> None:
    moved = {name: str(tmp_path / name) for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME")}
    moved |= {name: str(tmp_path / name) for name in ("GEMINI_CLI_HOME", "QWEN_HOME", "FACTORY_HOME_OVERRIDE")}
    done = repo.baton("agent", "install", *NAMES, "--user", env=moved)
    assert done.code == 0, done.err
    for name in (
        "CLAUDE_CONFIG_DIR/settings.json",
        "CLAUDE_CONFIG_DIR/skills/gitbaton/SKILL.md",
        "CODEX_HOME/hooks.json",
        "COPILOT_HOME/hooks/gitbaton.json",
        "XDG_CONFIG_HOME/opencode/plugins/gitbaton.js",
        "XDG_CONFIG_HOME/kilo/plugins/gitbaton.js",
        "GEMINI_CLI_HOME/.gemini/settings.json",
        "QWEN_HOME/settings.json",
        "FACTORY_HOME_OVERRIDE/.factory/settings.json",
    ):
        assert (tmp_path / name).is_file(), name
    assert not [name for name in (".claude", ".codex", ".gemini", ".qwen", ".factory") if (home() / name).exists()]


@pytest.mark.full
@some("name", list(TABLE)[::2], 2)  # each of them is merged and stripped in test_settings_merge.py
def test_the_users_bytes_come_back(repo: Sandbox, name: str) -> None:
    file = repo.write(".claude/settings.json", TABLE[name])
    file.chmod(0o640)
    before = both(repo)
    repo.ok("agent", "install", "claude")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    repo.ok("agent", "install", "claude", "--track", "other")
    repo.ok("agent", "uninstall", "claude")
    assert both(repo) == before


@pytest.mark.deep
def test_what_the_user_writes_meanwhile_stays(repo: Sandbox) -> None:
    repo.ok("agent", "install", "claude", "gemini", "cursor")
    file = repo.path / ".claude/settings.json"
    file.write_text(file.read_text().replace('{\n  "hooks"', '{\n  "model": "opus",\n  "hooks"', 1))
    (repo.path / ".gemini/mine.txt").write_text("mine")
    cursor = repo.path / ".cursor/hooks.json"
    cursor.write_text(cursor.read_text() + "\n")
    repo.ok("agent", "install", "claude", "--track", "x")
    repo.ok("agent", "uninstall", "--all")
    assert file.read_text() == '{\n  "model": "opus"\n}\n'
    assert os.listdir(repo.path / ".gemini") == ["mine.txt"]
    assert not (repo.path / ".cursor").exists(), "only a blank line was added to the file that install made"


def test_uninstall_in_another_clone(repo: Sandbox, tmp_path: Path) -> None:
    repo.write(".gemini/settings.json", '{\n  // mine\n  "hooks": {}\n}\n')
    repo.ok("agent", "install", *NAMES, "--agents-md", "--track", "t")
    repo.commit("joined")
    clone = Sandbox(tmp_path / "clone")
    repo.git("clone", "-q", ".", str(clone.path))
    listed = clone.ok("agent", "list", "--json").json["agents"]
    assert {row["agent"] for row in listed if row["state"] == "installed" and row["tracks"] == ["t"]} == set(NAMES)
    clone.ok("agent", "uninstall", "--all")
    assert clone.git("ls-files", "-d").split() == sorted({*FILES.values(), *SKILLS, "AGENTS.md"} - {FILES["gemini"]})
    assert (clone.path / FILES["gemini"]).read_text() == "{\n  // mine\n}\n"
    assert sorted(os.listdir(clone.path)) == [".gemini", ".git", "a.txt"], "no empty folder stays"


@pytest.mark.deep
def test_another_track_takes_the_place_of_the_first(repo: Sandbox) -> None:
    track = 'it\'s $(touch x) "é" `b`'
    repo.ok("agent", "install", *NAMES)
    repo.ok("agent", "install", *NAMES, "--track", track)
    for row in repo.ok("agent", "list", "--json").json["agents"]:
        if row["level"] == "project":
            assert (row["state"], row["tracks"]) == ("installed", [track]), row
    script = repo.write("bin/git-baton", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    script.chmod(0o755)
    line = json.loads((repo.path / FILES["claude"]).read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    said = repo.run("sh", "-c", line, env={"PATH": f"{script.parent}:{os.environ['PATH']}"})
    assert said.out.splitlines() == ["hook", "claude", "Stop", "--track", track]
    silent = repo.run("/bin/sh", "-c", line, env={"PATH": str(repo.path)})
    assert (silent.code, silent.out, silent.err) == (0, "", "")
    shells = json.loads((repo.path / FILES["copilot"]).read_text())["hooks"]["sessionStart"][0]
    assert shells["powershell"].endswith("--track 'it''s $(touch x) \"é\" `b`' }")


def test_dry_run_prints_the_very_plan(repo: Sandbox) -> None:
    before = both(repo)
    would = repo.ok("agent", "install", "codex", "claude", "--agents-md", "--dry-run").out
    assert both(repo) == before
    done = repo.ok("agent", "install", "codex", "claude", "--agents-md").out
    assert would == "".join(f"would {line}\n" for line in done.splitlines())
    installed = both(repo)
    would = repo.ok("agent", "uninstall", "codex", "-n").out
    assert both(repo) == installed
    assert would == "would remove '.codex/hooks.json'\n", "the skill and the block still serve claude"


def test_all_means_found_here_and_installed_here(repo: Sandbox, tmp_path: Path) -> None:
    empty = {"PATH": f"{Path(repo.run('which', 'git').out.strip()).parent}"}
    none = repo.baton("agent", "install", "--all", env=empty)
    assert none.code == 1 and "no client of a coding agent is found" in none.err
    (home() / ".gemini").mkdir()
    program = tmp_path / "bin/codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    done = repo.baton("agent", "install", "--all", env={"PATH": f"{program.parent}:{empty['PATH']}"})
    assert "'.codex/hooks.json'" in done.out and "'.gemini/settings.json'" in done.out
    assert not (repo.path / ".claude/settings.json").exists()


@pytest.mark.deep
def test_it_says_what_the_client_asks_and_where_it_is_blind(repo: Sandbox) -> None:
    said = repo.ok("agent", "install", *NAMES).err
    for words in (
        "Claude Code: started in a subdirectory it does not see '.claude/settings.json'",
        "Gemini CLI: started in a subdirectory",
        "Codex: it reads the hooks of a trusted project only",
        "Codex: it runs no hook before you trust it",
        "Cursor: experimental",
        "only when they are committed",
        "'git baton agent doctor'",
    ):
        assert words in said, words
    assert "both levels" not in repo.ok("agent", "install", *NAMES, "--user").err
    differ = repo.ok("agent", "install", "claude", "--track", "x").err
    assert "warning: Claude Code is installed at both levels for different tracks, and either acts; keep one: git" in differ


def test_list(repo: Sandbox) -> None:
    repo.ok("agent", "install", "codex", "gemini")
    repo.write(
        FILES["gemini"],
        (repo.path / FILES["gemini"]).read_text().replace("command -v git-baton >/dev/null 2>&1 || exit 0; ", ""),
    )
    repo.write(FILES["cursor"], "[ git-baton hook")
    rows = {(r["agent"], r["level"]): r for r in repo.ok("agent", "list", "--json").json["agents"]}
    assert len(rows) == 2 * len(FILES)
    assert rows["codex", "project"]["state"] == "installed"
    assert rows["gemini", "project"]["state"] == "outdated"
    assert rows["cursor", "project"]["state"] == "unreadable"
    assert rows["claude", "user"] == {
        "agent": "claude",
        "level": "user",
        "file": str(home() / ".claude/settings.json"),
        "state": "not installed",
        "tracks": [],
        "client_on_path": False,
        "statusline": False,
        "reason": "",
    }
    assert all("~" not in row["file"] for row in repo.ok("agent", "list", "--json", env={"HOME": ""}).json["agents"])
    text = repo.ok("agent", "list").out.splitlines()
    assert text[2].split()[:5] == ["codex", "project", "installed", ".codex/hooks.json", "(not"]


def test_a_change_between_plan_and_apply_is_refused(repo: Sandbox) -> None:
    repo.write(FILES["claude"], "{}")
    with repo.open() as baton:
        layout = baton.repo.layout
        where = place("project", os.environ, layout.root, layout.git_dir, baton.repo.shared_dir)
        plan = agents.plan_install(where, CLIENTS)
        repo.write(FILES["cursor"], '{"version": 1}')
        before = both(repo)
        with pytest.raises(Exception, match=r"'\.cursor/hooks\.json' has just been changed by somebody else"):
            apply(plan)
    assert both(repo) == before
