"""Codex's trust, against a program that speaks the protocol of its app server; and what doctor says of every client."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gitbaton.agents.install.levels import CLIENTS, SILENT
from tests.kit import Outcome, Sandbox
from tests.kit.places import program as script
from tests.kit.tiers import some
from tests.rooms.install.test_agent_install import both, home
from tests.rooms.install.test_agent_install_refused import expect_refusal

CODEX = next(client for client in CLIENTS if client.name == "codex")
SERVER = '''\
"""Speaks as `codex app-server` does: hooks of both files, trusted by hash, strict about the handshake."""
import hashlib, json, os, sys, time
home, mode = os.environ["HOME"] + "/.codex", os.environ.get("FAKE_CODEX", "")
store = home + "/trusted"
os.makedirs(home, exist_ok=True)
assert sys.argv[1:] == ["app-server"], sys.argv
def known():
    return json.load(open(store)) if os.path.exists(store) else {}
def hooks(cwd):
    layers = [(home + "/hooks.json", "user")]
    if mode != "untrusted-project":
        layers.append((os.path.realpath(cwd) + "/.codex/hooks.json", "project"))
    for path, source in layers:
        if not os.path.exists(path):
            continue
        for event, groups in json.load(open(path))["hooks"].items():
            for g, group in enumerate(groups):
                for h, hook in enumerate(group["hooks"]):
                    key = f"{path}:{event}:{g}:{h}"
                    digest = "sha256:" + hashlib.sha256(json.dumps([group, hook]).encode()).hexdigest()
                    kept = known().get(key, {}).get("trusted_hash")
                    status = "trusted" if kept == digest else "modified" if kept else "untrusted"
                    yield {"key": key, "command": hook["command"], "sourcePath": path, "source": source,
                           "currentHash": digest, "trustStatus": status}
ready = 0
print("a line that is not JSON", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params") or {}
    assert "jsonrpc" not in message
    if mode == "silent":
        time.sleep(60)
    if mode == "dies":
        sys.exit(3)
    if method == "initialize":
        assert params["clientInfo"]["name"] == "gitbaton" and "version" in params["clientInfo"]
        result, ready = {"userAgent": "x"}, 1
    elif method == "initialized":
        assert "id" not in message and ready == 1
        ready = 2
        continue
    elif ready != 2:
        result = None
    elif method == "hooks/list":
        print(json.dumps({"method": "configWarning", "params": {"summary": "noise"}}), flush=True)
        result = {"data": [{"cwd": cwd, "hooks": list(hooks(cwd)), "warnings": [], "errors": []} for cwd in params["cwds"]]}
    else:
        assert method == "config/batchWrite" and params["reloadUserConfig"] is True
        (edit,) = params["edits"]
        assert edit["keyPath"] == "hooks.state" and edit["mergeStrategy"] == "upsert"
        if mode != "forgets":
            json.dump({**known(), **edit["value"]}, open(store, "w"))
        result = None if mode == "refuses" else {"status": "ok"}
    answer = {"result": result} if result is not None else {"error": {"code": -1, "message": "not\\nallowed"}}
    print(json.dumps({"id": message["id"], **answer}), flush=True)
'''


@pytest.fixture
def codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `codex` on PATH; where it keeps what it trusts."""
    program = tmp_path / "programs/codex"
    program.parent.mkdir()
    program.write_text(script(SERVER))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return home() / ".codex/trusted"


def trusted(store: Path) -> dict[str, Any]:
    return dict(json.loads(store.read_text())) if store.exists() else {}


def findings(done: Outcome) -> dict[str, dict[str, Any]]:
    return {finding["name"]: finding for finding in done.json["findings"]}


def test_only_our_hooks_are_trusted(repo: Sandbox, codex: Path) -> None:
    mine = {"hooks": [{"type": "command", "command": "rm -rf /tmp/x; git-baton hooks"}]}
    alike = {"hooks": [{"type": "command", "command": "evil; git-baton hook codex Interrupt"}]}
    repo.write(".codex/hooks.json", json.dumps({"hooks": {"Stop": [mine], "Notify": [mine]}}))
    (home() / ".codex").mkdir()
    (home() / ".codex/hooks.json").write_text(json.dumps({"hooks": {"Interrupt": [alike]}}))
    done = repo.ok("agent", "install", "codex", "--trust", "--track", "it's")
    assert done.out.endswith("codex trusts our 7 hooks, 7 of them anew\n")
    keys = {key.removeprefix(f"{repo.path}/.codex/hooks.json:") for key in trusted(codex)}
    assert keys == {f"{hook.event}:{1 if hook.event == 'Stop' else 0}:0" for hook in CODEX.hooks}
    again = repo.ok("agent", "install", "codex", "--trust", "--track", "it's")
    assert again.out == "everything is in place\ncodex trusts our hooks already\n"
    (home() / ".codex/config.toml").write_text(f'[hooks.state."{repo.path}/.codex/hooks.json:stop:0:0"]\n')
    assert "'~/.codex/config.toml' still names these hooks" in repo.ok("agent", "uninstall", "codex").err


@pytest.mark.full
def test_another_track_is_trusted_anew(repo: Sandbox, codex: Path) -> None:
    repo.ok("agent", "install", "codex", "--trust", "--user")
    first = trusted(codex)
    assert len(first) == 7 and all(key.startswith(f"{home()}/.codex/hooks.json:") for key in first)
    assert repo.ok("agent", "doctor").out.count("codex trusts our 7 hooks") == 1
    repo.ok("agent", "install", "codex", "--user", "--track", "x")
    done = repo.baton("agent", "doctor", "--json")
    found = findings(done)["codex user trust"]
    assert done.code == 1 and found["text"] == "codex trusts 0 of our 7 hooks, and runs no other"
    assert found["mend"] == "git baton agent install codex --user --trust"
    assert repo.run("sh", "-c", found["mend"]).code == 0
    assert findings(repo.baton("agent", "doctor", "--json"))["codex user trust"]["ok"]


def test_without_codex_nothing_is_written(repo: Sandbox) -> None:
    path = f"{Path(repo.run('which', 'git').out.strip()).parent}"
    before = both(repo)
    done = repo.baton("agent", "install", "codex", "--trust", env={"PATH": path})
    assert done.code == 128 and done.err.startswith("fatal: --trust needs codex, and it is not on PATH\n")
    assert both(repo) == before


def test_a_dry_run_asks_nobody(repo: Sandbox, codex: Path) -> None:
    before = both(repo)
    done = repo.baton("agent", "install", "codex", "--trust", "-n", env={"FAKE_CODEX": "dies"})
    assert done.code == 0 and "would let codex trust our 7 hooks, through its app server\n" in done.out
    assert both(repo) == before


@some(
    ("mode", "reason"),
    [
        ("dies", "'codex' ended early: no answer"),
        ("refuses", "'codex' refused config/batchWrite: not allowed"),
        ("forgets", "codex was told to trust our hooks and still does not trust 7 of them"),
        ("untrusted-project", "codex lists 0 of our 7 hooks in '"),
    ],
)
def test_a_server_that_does_not_give_trust(repo: Sandbox, codex: Path, mode: str, reason: str) -> None:
    done = repo.baton("agent", "install", "codex", "--trust", env={"FAKE_CODEX": mode})
    assert done.code == 128 and f"fatal: {reason}" in done.err
    assert (repo.path / ".codex/hooks.json").is_file(), "the files are in place; trust can be given again"
    found = findings(repo.baton("agent", "doctor", "--json", env={"FAKE_CODEX": mode}))["codex project trust"]
    assert found["ok"] == (mode == "refuses")
    if mode == "untrusted-project":
        assert "start codex here once and accept" in done.err
        assert found["text"] == "codex lists 0 of our 7 hooks: it does not trust this project"


@pytest.mark.deep
def test_a_server_that_never_answers_is_stopped(
    repo: Sandbox, codex: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from gitbaton.agents.install.agentdoctor import Peer
    from gitbaton.base.errors import BatonError

    program = str(tmp_path / "programs/codex")
    with (
        pytest.raises(BatonError, match="'codex' did not answer in its time"),
        Peer([program, "app-server"], {**os.environ, "FAKE_CODEX": "silent"}, 0.2) as peer,
    ):
        peer.request("initialize", {})
    with pytest.raises(ProcessLookupError):
        os.kill(peer.pid, 0)


@pytest.mark.deep
def test_doctor_of_a_good_install_and_of_none(repo: Sandbox, tmp_path: Path) -> None:
    done = repo.ok("agent", "doctor")
    assert "note agents: none is installed\n     git baton agent install claude\n" in done.out
    repo.ok("agent", "install", "claude", "opencode", "cursor")
    for name in ("claude", "opencode", "cursor-agent"):
        repo.write(f"../programs/{name}", "#!/bin/sh\n").chmod(0o755)
    known = {"PATH": f"{repo.path.parent / 'programs'}:{os.environ['PATH']}"}
    done = repo.ok("agent", "doctor", "--json", env=known)
    assert done.json["ok"] and findings(done)["claude project"]["text"] == "in place in '.claude/settings.json'"
    lonely = Path(repo.run("which", "git").out.strip()).parent
    done = repo.baton("agent", "doctor", "--json", env={"PATH": str(lonely)})
    assert done.code == 1 and not findings(done)["path"]["ok"]
    assert findings(done)["path"]["text"] == "a shell does not find git-baton, so every hook stays silent"


@pytest.mark.deep
def test_doctor_of_what_would_not_run(repo: Sandbox) -> None:
    repo.ok("agent", "install", "claude", "gemini", "copilot")
    (repo.path / "sub").mkdir()
    done = repo.baton("agent", "doctor", "--json", cwd=repo.path / "sub")
    found = findings(done)
    assert (
        done.code == 1 and not found["claude start"]["ok"] and not found["gemini start"]["ok"] and "copilot start" not in found
    )
    assert "claude start" not in findings(repo.baton("agent", "doctor", "--json"))
    repo.ok("agent", "install", "claude", "--user")
    found = findings(repo.baton("agent", "doctor", "--json", cwd=repo.path / "sub"))
    assert "claude start" not in found and "levels" not in found
    settings = repo.path / ".claude/settings.json"
    settings.write_text(
        settings.read_text().replace("{\n", '{\n  "disableAllHooks": true,\n', 1).replace(json.dumps(SILENT)[1:-1], "")
    )
    found = findings(repo.baton("agent", "doctor", "--json"))
    assert found["claude project"]["mend"] == "git baton agent install claude --project"
    assert "'disableAllHooks'" in found["claude project hooks"]["text"]
    repo.ok("agent", "install", "gemini", "--user", "--track", "x")
    done = repo.baton("agent", "doctor", "--json")
    assert findings(done)["levels"]["mend"] == "git baton agent uninstall gemini --user"
    repo.write(".gemini/settings.json", "{ git-baton hook")
    assert "is not what it should be" in findings(repo.baton("agent", "doctor", "--json"))["gemini project"]["text"]


@pytest.mark.deep
def test_doctor_of_trusted_folders(repo: Sandbox) -> None:
    repo.ok("agent", "install", "gemini", "copilot")
    for program in ("gemini", "copilot"):
        repo.write(f"../programs/{program}", "#!/bin/sh\n").chmod(0o755)
    known = {"PATH": f"{repo.path.parent / 'programs'}:{os.environ['PATH']}"}

    def ok(name: str) -> bool:
        return bool(findings(repo.baton("agent", "doctor", "--json", env=known))[f"{name} project trust"]["ok"])

    assert not ok("gemini") and not ok("copilot")
    rules, config = home() / ".gemini/trustedFolders.json", home() / ".copilot/config.json"
    rules.parent.mkdir()
    config.parent.mkdir()
    for said, expected in (
        ({str(repo.path): "TRUST_FOLDER"}, True),
        ({str(repo.path): "DO_NOT_TRUST", str(repo.path.parent): "TRUST_FOLDER"}, False),
        ({str(repo.path.parent / "sibling"): "TRUST_PARENT"}, True),
        ({str(repo.path) + "-not": "TRUST_FOLDER"}, False),
        ([], False),
    ):
        rules.write_text(json.dumps(said))
        assert ok("gemini") == expected, said
    config.write_text(f'// written by copilot\n{{"trustedFolders": [1, {json.dumps(str(repo.path.parent))}]}}')
    assert ok("copilot")
    config.unlink()
    names = findings(repo.baton("agent", "doctor", "--json", env={"COPILOT_ALLOW_ALL": "true"}))
    assert "copilot project trust" not in names
    (home() / ".gemini/settings.json").write_text(
        '{"security": {"folderTrust": {"enabled": false}}, /* x */ "hooksConfig": {"enabled": false}}'
    )
    found = findings(repo.baton("agent", "doctor", "--json"))
    assert "gemini project trust" not in found and not found["gemini project hooks"]["ok"]


@pytest.mark.deep
def test_a_hostile_answer_is_no_trouble(repo: Sandbox, codex: Path, tmp_path: Path) -> None:
    program = tmp_path / "programs/codex"
    for answer in (
        '{"id": 1, "result": 5}',
        "[" * 3000,
        '{"id": 1, "error": "x"}',
        '{"id": 1, "result": {}}\\n{"id": 2, "result": {"data": [{"hooks": [1, {"key": 2}]}, 7]}}',
    ):
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' '{answer}' | sed 's/\\\\n/\\n/g'\n")
        expect = repo.baton("agent", "install", "codex", "--trust")
        assert expect.code == 128 and expect.err.count("fatal: ") == 1 and "bug" not in expect.err, expect.err
    expect_refusal(repo, "install", "claude", "--trust", reason="--trust is for codex", code=129)
