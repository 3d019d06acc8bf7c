"""``git baton agent``: files that cannot stay what they are, odd homes, odd answers, failures half-way, hooks switched off."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitbaton.agents.install import agentdoctor, agents, levels, plugins
from gitbaton.agents.install.levels import CLIENTS
from gitbaton.agents.install.plan import MAX_BYTES, File, apply, check_writable, look, read, write
from gitbaton.agents.settings import MalformedError
from gitbaton.base.errors import BatonError
from tests.kit import Outcome, Sandbox
from tests.rooms.install.test_agent_install import FILES, home
from tests.rooms.install.test_agent_install_refused import expect_refusal

CLAUDE = next(client for client in CLIENTS if client.name == "claude")


def findings(done: Outcome) -> dict[str, dict[str, Any]]:
    return {finding["name"]: finding for finding in done.json["findings"]}


@pytest.mark.deep
def test_files_that_would_not_stay_what_they_are(repo: Sandbox) -> None:
    file = repo.write(FILES["claude"], "{}")
    file.chmod(0o444)
    expect_refusal(repo, "install", "gemini", "claude", reason="'.claude/settings.json' is read-only, and is left as it is")
    file.chmod(0o644)
    os.link(file, repo.path / "backup")
    expect_refusal(repo, "install", "claude", reason="'.claude/settings.json' is one of 2 names of a file (hard links)")
    (repo.path / "backup").unlink()
    repo.ok("agent", "install", "claude")
    file.chmod(0o444)
    rows = {(r["agent"], r["level"]): r["state"] for r in repo.ok("agent", "list", "--json").json["agents"]}
    assert rows["claude", "project"] == "installed", "reading it is another matter"
    expect_refusal(repo, "uninstall", "claude", reason="'.claude/settings.json' is read-only")


def test_a_file_keeps_its_owner(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    file = repo.write(FILES["claude"], "{}")
    if os.geteuid() == 0:
        os.chown(file, 4321, 5432)
    owner = (file.stat().st_uid, file.stat().st_gid)
    repo.ok("agent", "install", "claude")
    assert (file.stat().st_uid, file.stat().st_gid) == owner
    seen = look(str(file), "f")
    assert seen.owner == owner
    monkeypatch.setattr(os, "geteuid", lambda: owner[0] + 1)
    with pytest.raises(BatonError, match="'f' belongs to somebody else, and is left as it is"):
        check_writable(seen, gone=False)
    monkeypatch.setattr(os, "fchown", lambda *args: (_ for _ in ()).throw(PermissionError(1, "no")))
    before = file.read_bytes()
    with pytest.raises(PermissionError):
        write(str(file), b"new", 0o644, (owner[0] + 7, owner[1]))
    assert file.read_bytes() == before and sorted(os.listdir(file.parent)) == ["settings.json", "skills"]


@pytest.mark.full
def test_the_size_is_limited_wherever_something_is_read(repo: Sandbox) -> None:
    repo.ok("agent", "install", "claude", "gemini")
    big = " " * (5 << 20) + '{"disableAllHooks": true, "hooksConfig": {"enabled": false}}'
    for name in (".claude/settings.json", ".gemini/settings.json", ".codex/config.toml"):
        (home() / name).parent.mkdir(exist_ok=True)
        (home() / name).write_text(big)
    found = findings(repo.baton("agent", "doctor", "--json"))
    assert "claude project hooks" not in found and "gemini project hooks" not in found
    assert len(read(str(home() / ".claude/settings.json")) or b"") == MAX_BYTES


def test_nothing_is_read_behind_a_link_that_is_refused(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{ git-baton hook")
    (repo.path / ".claude").mkdir()
    (repo.path / FILES["claude"]).symlink_to(outside)
    opened: list[str] = []
    real = os.open

    def watched(path: Any, *rest: Any, **more: Any) -> int:
        opened.append(str(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", watched)
    with repo.open() as baton:
        layout = baton.repo.layout
        where = levels.place("project", os.environ, layout.root, layout.git_dir, baton.repo.shared_dir)
        row = next(row for row in plugins.rows([where]) if row.client.name == "claude")
    assert row.state == "not installed" and "leads out of the work tree" in row.reason
    assert not any("outside" in path for path in opened)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": ' + "1" * 5000 + "}", "line 1, column 7: a number of too many digits"),
        ('{"hooks": {"Stop": [{"hooks": [], "hooks": []}]}}', "the key 'hooks' stands twice"),
        ('{"hooks": {"Stop": [{"matcher": "a", "matcher": "b", "hooks": []}]}}', "the key 'matcher' stands twice"),
        ('{"hooks": {"Stop": [{"hooks": [{"command": "a", "command": "b"}]}]}}', "the key 'command' stands twice"),
    ],
)
def test_settings_that_are_ambiguous_or_too_long(repo: Sandbox, text: str, reason: str) -> None:
    with pytest.raises(MalformedError, match=reason):
        levels.Hooks(CLAUDE, None).put(text)
    repo.write(FILES["claude"], text)
    expect_refusal(
        repo, "install", "claude", reason=f"'.claude/settings.json' is not what it should be, and is left as it is: {reason}"
    )
    assert "bug" not in repo.baton("agent", "doctor").err


@pytest.mark.parametrize("place", ["", "relative/home"])
def test_a_home_that_is_none(repo: Sandbox, place: str) -> None:
    for action in ("install", "uninstall"):
        done = repo.baton("agent", action, "codex", "--user", env={"HOME": place})
        assert done.code == 128 and done.out == "", done
        assert done.err == f"fatal: HOME is '{place}' and not the path of a home folder, so there is no user level\n"
    assert not (repo.path / "relative").exists() and not (repo.path / ".codex").exists()
    levels = {row["level"] for row in repo.ok("agent", "list", "--json", env={"HOME": place}).json["agents"]}
    assert levels == {"project"}
    assert repo.baton("agent", "install", "codex", env={"HOME": place}).code == 0
    assert (repo.path / FILES["codex"]).is_file()


@pytest.mark.deep
def test_a_failure_half_way_names_what_was_done(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real = os.replace

    def failing(source: str, target: str, **below: int | None) -> None:
        if "cursor" in target:
            raise OSError(28, "No space left on device")
        real(source, target, **below)

    with repo.open() as baton:
        layout = baton.repo.layout
        where = levels.place("project", os.environ, layout.root, layout.git_dir, baton.repo.shared_dir)
        plan = agents.plan_install(where, [c for c in CLIENTS if c.name in ("claude", "cursor")])
        monkeypatch.setattr(os, "replace", failing)
        with pytest.raises(BatonError, match=r"to '\.cursor/hooks\.json': No space left on device") as error:
            apply(plan, done.append)
        monkeypatch.undo()
    assert error.value.hints == ("1 of 4 steps are done and stay; run it again for the rest",)
    assert done == ["write the hooks of Claude Code to '.claude/settings.json'"]
    assert sorted(os.listdir(repo.path / ".cursor")) == []
    repo.ok("agent", "install", "claude", "cursor")
    repo.ok("agent", "uninstall", "--all")
    assert not (repo.path / ".cursor").exists() and not (repo.path / ".git/baton").exists()


def test_steps_are_printed_as_they_are_done(repo: Sandbox) -> None:
    repo.write(".github", "a file where a folder is needed")
    repo.ok("agent", "install", "claude")
    would = repo.ok("agent", "uninstall", "claude", "-n").out
    assert repo.ok("agent", "uninstall", "claude").out == would.replace("would ", "")


SWITCHES: tuple[tuple[dict[str, Any], str, bool | None], ...] = (
    ({"home": {"disableAllHooks": True}}, "claude", False),
    ({"project": {"disableAllHooks": True}}, "claude", False),
    ({"local": {"disableAllHooks": True}}, "claude", False),
    ({"home": {"disableAllHooks": True}, "local": {"disableAllHooks": False}}, "claude", None),
    ({"home": {"hooksConfig": {"enabled": False}}}, "gemini", False),
    ({"home": {"hooksConfig": {"disabled": ["gitbaton-AfterAgent", "else"]}}}, "gemini", False),
    ({"project": {"hooksConfig": {"disabled": ["gitbaton-AfterAgent"]}}}, "gemini", False),
    ({"home": {"hooksConfig": {"disabled": ["else"], "enabled": True}}}, "gemini", None),
)


@pytest.mark.deep
def test_hooks_that_are_switched_off(repo: Sandbox) -> None:
    for level in ("--user", "--project"):
        repo.ok("agent", "install", "claude", "gemini", level)
    for said, name, expected in SWITCHES:
        paths = {place: folder / f".{name}/settings.json" for place, folder in (("home", home()), ("project", repo.path))}
        paths["local"] = repo.path / f".{name}/settings.local.json"
        before = {path: path.read_text() for path in paths.values() if path.exists()}
        for place, more in said.items():
            path = paths[place]
            path.write_text(json.dumps({**json.loads(before.get(path, "{}")), **more}))
        found = findings(repo.baton("agent", "doctor", "--json"))
        for level in ("user", "project"):
            finding = found.get(f"{name} {level} hooks")
            assert (finding["ok"] if finding else None) == expected, (said, level)
        for path in paths.values():
            path.unlink(missing_ok=True)
        for path, text in before.items():
            path.write_text(text)


@pytest.mark.deep
@pytest.mark.parametrize(
    "odd",
    [
        {"command": ["a"]},
        {"command": {}, "sourcePath": 1},
        {"sourcePath": "a\0b"},
        {"sourcePath": "\ud800"},
        {"sourcePath": None},
        {"key": 1},
        {"currentHash": []},
        {"trustStatus": ["trusted"]},
    ],
)
def test_an_odd_hook_in_an_answer_is_not_ours(repo: Sandbox, tmp_path: Path, odd: dict[str, Any]) -> None:
    program = tmp_path / "programs/codex"
    program.parent.mkdir()
    hook = {"key": "k", "currentHash": "h", "command": "x", "sourcePath": "/x", "trustStatus": "trusted", **odd}
    (tmp_path / "answer").write_text(
        '{"id": 1, "result": {}}\n' + json.dumps({"id": 2, "result": {"data": [{"hooks": [hook]}]}}) + "\n"
    )
    program.write_text(f"#!/bin/sh\ncat '{tmp_path}/answer'\ncat >/dev/null\n")
    program.chmod(0o755)
    of = agentdoctor.Question(program=str(program), env=os.environ, cwd=str(repo.path), path="/y", wanted=frozenset(("x",)))
    assert agentdoctor.trusts(of) == []
    if "key" not in odd:
        return  # the verbs once
    path = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = repo.baton("agent", "install", "codex", "--trust", env=path)
    assert done.code == 128 and "fatal: codex lists 0 of our 7 hooks" in done.err
    assert "it runs no hook before you trust it" not in done.err
    assert "Codex: it runs no hook before" in (repo.ok("agent", "install", "codex", "--track", "x").err)
    assert not findings(repo.baton("agent", "doctor", "--json", env=path))["codex project trust"]["ok"]


@pytest.fixture(autouse=True)
def readable_again(tmp_path: Path) -> Iterator[None]:
    """Modes that a test took away are given back, so that its folder can be removed."""
    yield
    for path in tmp_path.rglob("settings.json"):
        if path.is_file() and not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o600)


def test_a_new_file_has_no_owner_to_keep(tmp_path: Path) -> None:
    file = look(str(tmp_path / "new/x"), "x")
    assert file == File(shown="x", real=str(tmp_path / "new/x"), data=None, mode=file.mode)
    check_writable(file, gone=False)
