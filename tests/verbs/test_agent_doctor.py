"""``git baton agent doctor`` prints ok for nothing that cannot run."""

from __future__ import annotations

import json
import os

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
    assert code == 1 and not any(name.startswith("ok   codex project trust") for name in said)
    for name in ("claude", "codex"):
        assert said[f"MEND {name} project program"] == f"'{name}' is not on PATH, so nothing calls these hooks from here"


def test_a_program_of_ours_that_does_not_run(repo: Sandbox) -> None:
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
