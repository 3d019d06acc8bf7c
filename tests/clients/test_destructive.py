"""A destructive command in the real clients: there is a checkpoint before it, and the command runs as it was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_claude import Claude
from tests.clients.client_codex import Codex
from tests.clients.client_copilot import Copilot
from tests.clients.client_gemini import Gemini
from tests.clients.client_opencode import OpenCode
from tests.clients.hands import said
from tests.clients.model import Reply
from tests.clients.test_handover import MAKERS
from tests.clients.workshop import TRACK, Workshop
from tests.kit import destructive

TYPED = "git -C src checkout -q -- . ; git clean -fdxq src *.db"
SHARES = 4
REFILL = """cd {repo} || exit
if diff -rq --exclude=.git --exclude=runtime --exclude=new-each-time.md {lived} . > /dev/null
then echo whole >> {log}
else echo spoilt >> {log}
fi
git checkout -qf main; git reset -q --hard {base}; git clean -ffdxq -e runtime; git branch -qD probe; git stash clear
printf 'staged\\n' > src/app.py; git add src/app.py
cp -a {lived}/. .
wc -l < {log} > new-each-time.md
"""
REFUSED = {  # by the client itself, after its hooks
    "claude": {"rm -rf *"},
    "codex": {
        *("rm -rf src", "rm -rf *", "rm -f notes.md data/app.db", "bash -c 'cd src && rm -rf -- *.py'"),
        *('BUILD=data; rm -rf "$BUILD"', "python3 -c 'print(1)' && rm -rf build/ data/"),
    },
}
HARMLESS = "git status --short && ls > /dev/null"


def lived_in(shop: Workshop) -> dict[str, bytes]:
    """Work that no commit holds; the files of the work tree."""
    shop.repo.write(".git/info/exclude", "*.db\n")
    shop.repo.write("src/lexer.py", "edited\n")
    shop.repo.write("src/new.py", "untracked\n")
    shop.repo.write("app.db", bytes(range(256)))
    return files(shop.repo.path)


def files(place: Path) -> dict[str, bytes]:
    found = (path for path in place.rglob("*") if path.is_file() and not {".git", "runtime"} & {*path.relative_to(place).parts})
    return {str(path.relative_to(place)): path.read_bytes() for path in found}


def assert_all_is_back(shop: Workshop, before: dict[str, bytes], event: str) -> None:
    """The command ran, its checkpoint is there, and brings all back; the harmless one started no process of ours."""
    assert not (shop.repo.path / "src/new.py").exists() and not (shop.repo.path / "app.db").exists(), "the command ran"
    assert len(shop.hooks(event)) == 1, [run.payload for run in shop.hooks(event)]
    told: list[dict[str, Any]] = [one for one in shop.checkpoints() if one["step"].startswith("before '")]
    assert [one["step"] for one in told] == ["before 'git -C src checkout -q -- .; git clean -fdxq src *.db'"]
    done = shop.repo.baton("restore", told[0]["id"], "--force")
    now = files(shop.repo.path)
    assert {name: now.get(name) for name in before} == before, done


def test_claude(claude: Claude) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    before = lived_in(shop)
    calls = [Reply("Running.", "Bash", {"command": text, "description": "run"}) for text in (HARMLESS, TYPED)]
    model.will_say(*calls, Reply("Done."))
    claude.ask("Clean up", "--allowedTools", "Bash")
    assert_all_is_back(shop, before, "PreToolUse")


def test_codex(codex: Codex) -> None:
    shop, model = codex.workshop, codex.model
    codex.install("--trust")
    before = lived_in(shop)
    model.will_say(*(Reply("Running.", "exec_command", {"cmd": text}) for text in (HARMLESS, TYPED)), Reply("Done."))
    codex.ask("Clean up")
    assert_all_is_back(shop, before, "PreToolUse")


def test_gemini(gemini: Gemini) -> None:
    shop, model = gemini.workshop, gemini.model
    shop.install("gemini")
    before = lived_in(shop)
    model.will_say(*(Reply("Running.", "run_shell_command", {"command": text}) for text in (HARMLESS, TYPED)), Reply("Done."))
    gemini.ask("Clean up")
    assert_all_is_back(shop, before, "BeforeTool")


def test_opencode(opencode: OpenCode) -> None:
    shop, model = opencode.workshop, opencode.model
    shop.install("opencode")
    before = lived_in(shop)
    calls = [Reply("Running.", "bash", {"command": text, "description": "run"}) for text in (HARMLESS, TYPED)]
    model.will_say(*calls, Reply("Done."))
    opencode.ask("Clean up")
    assert_all_is_back(shop, before, "command")


def test_copilot(copilot: Copilot) -> None:
    shop, model = copilot.workshop, copilot.model
    shop.install("copilot", "claude")
    before = lived_in(shop)
    calls = [Reply("Running.", "bash", {"command": text, "description": "run"}) for text in (HARMLESS, TYPED)]
    model.will_say(*calls, Reply("Done."))
    copilot.ask("Clean up")
    assert_all_is_back(shop, before, "preToolUse")


def test_a_subagent_of_claude_in_a_work_tree_of_its_own(claude: Claude) -> None:
    """It and its parent are answered in either order, so both are told the same."""
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    task = {"description": "docs", "prompt": "Write docs.md", "subagent_type": "general-purpose", "isolation": "worktree"}
    write = Reply("Writing.", "Bash", {"command": "echo hello > docs.md", "description": "write"})
    model.will_say(Reply("Delegating.", "Agent", task), write, write, Reply("Done."), Reply("Done."))
    claude.ask("Delegate it", "--allowedTools", "Bash,Agent")
    (track,) = (
        row for row in shop.repo.git("for-each-ref", "--format=%(refname)", "refs/baton/tracks/").split() if "%2F" in row
    )
    assert track == f"refs/baton/tracks/{TRACK}%2Fagent-1"
    (one,) = shop.repo.ok("log", f"{TRACK}/agent-1", "--json").json["checkpoints"]
    assert one["step"] == "subagent ended: Write docs.md"
    place = Path(one["files"]["worktree"]["path"])
    shop.repo.git("worktree", "remove", "--force", "--force", str(place))
    shop.repo.ok("worktree", "../back", f"{TRACK}/agent-1")
    assert (shop.repo.path.parent / "back/docs.md").read_text() == "hello\n"


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode", "copilot"])
def test_what_was_reported_comes_back(name: str, share: int, request: pytest.FixtureRequest) -> None:
    """The commands of public reports, one after the other; between two of them all is as it was before the first."""
    hands = MAKERS[name](request.getfixturevalue(name))
    hands.install("--user")  # some of the commands take what a project holds of a client
    shop, lived = hands.workshop, destructive.lived_in(hands.workshop.folder / "lived")
    shop.repo.git("fetch", "-q", str(lived.path), "main")
    base = shop.repo.git("rev-parse", "FETCH_HEAD")
    for key in ("user.name", "user.email"):
        shop.repo.git("config", key, "someone")
    shutil.rmtree(lived.path / ".git")
    shutil.rmtree(lived.path / "runtime", ignore_errors=True)
    script, log = shop.repo.path / ".git/refill", shop.repo.path / ".git/refills"
    script.write_text(REFILL.format(repo=shop.repo.path, lived=lived.path, log=log, base=base))
    refill, commands = f"cd {shop.repo.path} && sh .git/refill", destructive.REPORTED[share::SHARES]
    typed = [text for command in commands for text in (refill, command)]
    said(hands, "Clean up", *(reply for text in [*typed, refill] for reply in hands.runs(text)), Reply("Done."))
    told = [one for one in reversed(shop.checkpoints()) if one["step"].startswith("before '")]
    assert len(told) == len(commands), [one["step"] for one in told]
    ran = dict(zip(commands, log.read_text().splitlines()[1:], strict=True))
    assert {command for command in ran if ran[command] == "whole"} <= REFUSED.get(name, set())
    before = destructive.files(lived.path)
    for command, one in zip(commands, told, strict=True):
        done = shop.repo.baton("restore", one["id"], "--force")
        now = destructive.files(shop.repo.path)
        assert {name: now.get(name) for name in before} == before, f"{command}: {done}"
