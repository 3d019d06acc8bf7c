"""``git baton agent doctor`` prints ok for nothing that cannot run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gitbaton.agents.install.levels import CLIENTS
from tests.kit import Sandbox


def rows(repo: Sandbox, path: str) -> tuple[int, dict[str, str]]:
    """The exit status, and what is said of each thing."""
    done = repo.baton("agent", "doctor", env={"PATH": path})
    return done.code, dict(row.split(": ", 1) for row in done.out.splitlines() if not row.startswith(" "))


def without(*programs: str) -> str:
    """PATH without the places that have one of these."""
    places = os.environ["PATH"].split(":")
    return ":".join(place for place in places if not any(os.path.exists(f"{place}/{name}") for name in programs))


def test_hooks_that_no_program_calls(repo: Sandbox) -> None:
    repo.ok("agent", "install", "claude", "codex")
    code, said = rows(repo, without("claude", "codex"))
    assert code == 0 and not any(name.startswith("ok   codex project trust") for name in said)
    for name in ("claude", "codex"):
        assert said[f"note {name} project program"] == f"'{name}' is not on PATH, so nothing calls these hooks from here"


def test_what_a_client_that_is_not_here_would_not_run_is_no_fault(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("agent", "install", "gemini", "copilot")
    code, said = rows(repo, without("gemini", "copilot"))
    trust = "does not trust this folder yet, and runs no hook of it"
    assert (code, said["note gemini project trust"]) == (0, f"gemini {trust}")
    (program := tmp_path / "bin/gemini").parent.mkdir()
    program.symlink_to("/bin/true")
    code, said = rows(repo, f"{program.parent}:{without('gemini', 'copilot')}")
    assert (code, said["MEND gemini project trust"]) == (1, f"gemini {trust}")
    assert said["note copilot project trust"] == f"copilot {trust}"


def test_where_no_agent_is_installed_nothing_is_a_fault(repo: Sandbox, tmp_path: Path) -> None:
    code, said = rows(repo, "/usr/bin:/bin")
    assert (code, said["note agents"]) == (0, "none is installed") and "note path" in said
    (program := tmp_path / "bin/codex").parent.mkdir()
    program.symlink_to("/bin/true")
    found = repo.baton("agent", "doctor", "--json", env={"PATH": f"{program.parent}:/usr/bin:/bin"})
    (row,) = [row for row in found.json["findings"] if row["name"] == "agents"]
    assert (found.code, row["ok"], row["remark"], row["mend"]) == (0, True, True, "git baton agent install codex")


def test_a_client_opened_above_its_repositories(tmp_path: Path) -> None:
    (above := Sandbox(tmp_path / "above")).path.mkdir()
    assert "workspace" not in above.ok("agent", "doctor").out
    for name in ("b b", "c"):
        Sandbox.init(above.path / name)
    said = "'b b', 'c' below it are repositories: hooks of a client that is opened here do nothing\n     cd 'b b'"
    assert f"note workspace: this folder is in no work tree, and {said}\n" in above.ok("agent", "doctor").out
    above.ok("agent", "install", "claude", "--user")
    found = above.baton("agent", "doctor")
    assert found.code == 1 and f"MEND workspace: this folder is in no work tree, and {said} && claude\n" in found.out
    given = json.dumps({"session_id": "s", "cwd": str(above.path), "hook_event_name": "Stop"})
    done = above.baton("hook", "claude", "Stop", stdin=given.encode())
    assert (done.code, done.out, done.err) == (0, "", "")
    assert "workspace" not in Sandbox(above.path / "c").baton("agent", "doctor").out
    Sandbox(above.path / "c").git("init", "-q", "--bare", str(tmp_path / "bare"))
    Sandbox.init(tmp_path / "bare/linked")
    said = "MEND workspace: this folder is in no work tree, and 'linked' below it is a repository: "
    assert said in Sandbox(tmp_path / "bare").baton("agent", "doctor").out


@pytest.mark.deep
def test_hooks_in_the_settings_of_a_folder_above(tmp_path: Path) -> None:
    (above := Sandbox(tmp_path / "above")).path.mkdir()
    (repo := Sandbox.init(above.path / "a")).ok("agent", "install", "claude")
    (repo.path / ".claude").rename(above.path / ".claude")
    found = above.baton("agent", "doctor")
    assert found.code == 1 and "MEND workspace: " in found.out and "     cd a && claude\n" in found.out


def test_no_client_is_found_says_what_was_looked_for(repo: Sandbox) -> None:
    done = repo.baton("agent", "install", "--all", env={"PATH": "/usr/bin:/bin"})
    assert done.code == 1 and not (repo.path / ".claude").exists()
    for client in CLIENTS:
        assert all(name in done.err for name in client.programs) and f"'~/{client.folder}'" in done.err
    assert done.err.endswith("hint: 'git baton agent install claude' installs for one that comes later\n")
    for level in ("--plugin", "--user"):
        said = repo.baton("agent", "install", "--all", level, env={"PATH": "/usr/bin:/bin"}).err
        assert said.endswith(f"hint: 'git baton agent install claude {level}' installs for one that comes later\n")
    assert repo.ok("agent", "install", "claude", env={"PATH": "/usr/bin:/bin"}).out.startswith("write the hooks of Claude Code")


def test_a_program_of_ours_that_does_not_run(repo: Sandbox) -> None:
    repo.ok("agent", "install", "claude")
    broken = repo.write("../moved/git-baton", "#!/gone/python\n")
    broken.chmod(0o755)
    code, said = rows(repo, f"{broken.parent}:{without('git-baton')}")
    text = f"a shell finds git-baton, '{broken}', which does not run, so every hook stays silent"
    assert (code, said["MEND path"]) == (1, text)


def test_hooks_that_an_older_version_did_not_know_are_named_and_added(repo: Sandbox) -> None:
    repo.ok("agent", "install", "claude", "codex")
    whole = {name: (repo.path / name).read_text() for name in (".claude/settings.json", ".codex/hooks.json")}
    for name, text in whole.items():
        older = json.loads(text)
        for event in ("PreToolUse", "SubagentStart", "SubagentStop"):
            older["hooks"].pop(event, None)
        repo.write(name, json.dumps(older, indent=2))
    said = rows(repo, without("claude", "codex"))[1]
    lacks = "lacks PreToolUse and SubagentStart and SubagentStop"
    assert said["MEND claude project"] == f"'.claude/settings.json' is not as this version writes it: it {lacks}"
    assert said["MEND codex project"].endswith("it lacks PreToolUse")
    done = repo.ok("agent", "install", "claude", "codex")
    assert "Codex: it runs no hook before you trust it, nor one that is new or changed" in done.err
    for name, text in whole.items():
        assert json.loads((repo.path / name).read_text())["hooks"].keys() == json.loads(text)["hooks"].keys()
    assert "is not as this version writes it" not in repo.baton("agent", "doctor").out
