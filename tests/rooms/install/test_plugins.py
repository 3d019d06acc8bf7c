"""The plugin, the extension and the module in the repository are what the table of hooks makes."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gitbaton import __version__
from gitbaton.agents.codex import CLIENT as CODEX
from gitbaton.agents.install import plugins
from tests.kit import Sandbox
from tests.kit.icon import icon
from tests.kit.places import ROOT

DATA = ROOT / "gitbaton" / "data"
WRITE = "GITBATON_TEST_WRITE"


def test_what_is_committed_is_what_is_made() -> None:
    """GITBATON_TEST_WRITE=1 writes it anew."""
    wanted = {DATA / path: text.encode() for path, text in plugins.made().items()}
    wanted |= {ROOT / plugins.MARKETPLACE: plugins.marketplace(f"gitbaton/data/{plugins.PLUGIN}").encode()}
    if os.environ.get(WRITE):
        for path, data in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    folders = (DATA / name for name in ("plugin", "extension", "opencode"))
    lying = {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}
    lying[ROOT / plugins.MARKETPLACE] = (ROOT / plugins.MARKETPLACE).read_bytes()
    own = {DATA / plugins.PLUGIN / name for name in plugins.OWN}
    behind = {str(path.relative_to(ROOT)) for path in {*lying, *wanted} if lying.get(path) != wanted.get(path, lying.get(path))}
    assert not behind, f"{behind} are behind: {WRITE}=1 pytest {__name__} renews them"
    assert set(lying) == {*wanted, *own}, "a file that nothing makes"


@pytest.mark.deep
def test_the_icon_is_what_is_drawn() -> None:
    path = DATA / plugins.PLUGIN / "icon.png"
    if os.environ.get(WRITE):
        path.write_bytes(icon())
    assert path.read_bytes() == icon()


def test_each_client_finds_its_hooks_and_they_say_that_they_are_a_plugins() -> None:
    folder = DATA / plugins.PLUGIN
    for manifest in (".claude-plugin/plugin.json", ".codex-plugin/plugin.json", "plugin.json"):
        said = json.loads((folder / manifest).read_text())
        assert (said["name"], said["version"]) == ("gitbaton", __version__)
        text = (folder / (said.get("hooks", "hooks/hooks.json"))).read_text()
        assert text.count(" --plugin") >= 7 and text.count("git-baton hook") == text.count(" --plugin")
    market = json.loads((ROOT / plugins.MARKETPLACE).read_text())
    assert (ROOT / market["plugins"][0]["source"] / ".claude-plugin/plugin.json").is_file()


def test_the_directory_of_plugins_has_what_it_asks_for() -> None:
    folder = DATA / plugins.PLUGIN
    assert len((folder / "README.md").read_text().split()) >= 40
    data = (folder / "icon.png").read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert data.startswith(b"\x89PNG") and 512 <= width == height <= 2048 and len(data) < 2 << 20


def test_the_command_is_the_same_in_every_client() -> None:
    asked = (DATA / plugins.PLUGIN / "commands/baton.md").read_text()
    toml = tomllib.loads((DATA / "extension" / "commands/baton.toml").read_text())
    assert toml["prompt"].replace("{{args}}", "$ARGUMENTS") == asked.split("---\n", 2)[2]
    assert toml["description"] in asked and "$ARGUMENTS" in asked
    for verb in ("status", "resume --live", "revert --dry-run", "snapshot", "undo"):
        assert f"`git baton {verb}`" in asked


SEEN = {  # what a client writes into the user's home when it is given our plugin, and how it is switched off
    "claude": (
        ".claude/settings.json",
        '{"enabledPlugins": {"gitbaton@gitbaton": true, "other@x": true}}',
        "true, ",
        "false, ",
    ),
    "codex": (".codex/config.toml", '[plugins."gitbaton@gitbaton"]\nenabled = true\n', "true", "false"),
    "copilot": (
        ".copilot/settings.json",
        '{"extraKnownMarketplaces": {"gitbaton": {}}, "enabledPlugins": {"gitbaton@gitbaton": true}}',
        "true",
        "false",
    ),
    "gemini": (".gemini/extensions/gitbaton/gemini-extension.json", '{"name": "gitbaton", "version": "0.2.0"}', "", ""),
    "opencode": (".config/opencode/opencode.json", '{"plugin": ["file:///x/gitbaton-plugin.js"]}', "gitbaton", "other"),
}


@pytest.mark.parametrize("name", list(SEEN))
def test_list_and_doctor_see_the_plugin_of_a_client(repo: Sandbox, name: str) -> None:
    path, text, on, off = SEEN[name]
    file = Path(os.environ["HOME"], path)
    assert not seen(repo), "nothing is there yet"
    file.parent.parent.mkdir(parents=True, exist_ok=True)
    if name == "gemini":
        shutil.copytree(DATA / "extension", file.parent)
    else:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    (row,) = seen(repo)
    assert (row["agent"], row["state"], row["file"]) == (name, "installed", str(file)), row
    assert re.search(
        rf"(?m)^{name} +plugin +installed +~/{re.escape(path)} \(not on PATH\), .*gitbaton", repo.ok("agent", "list").out
    )
    said = repo.baton("agent", "doctor").out
    assert f"{name} plugin: {row['plugin']} is on, in '~/{path}'" in said
    assert "ok   plugin reach: a plugin acts in every repository in which its client works" in said
    assert "the hooks of" in repo.ok("status").out and "to act here at the end of a turn" in repo.ok("status").out
    repo.git("config", "--global", "baton.everywhere", "false")
    assert "to act here once there is one" in repo.ok("status").out
    repo.ok("agent", "install", name)
    assert "with the hooks in '" in repo.baton("agent", "doctor").out
    if on:
        file.write_text(text.replace(on, off, 1))
        assert [one["state"] for one in seen(repo)] == ([] if name == "opencode" else ["off"])


def seen(repo: Sandbox) -> list[dict[str, Any]]:
    """The rows of plugins in the list."""
    return [row for row in repo.ok("agent", "list", "--json").json["agents"] if row["level"] == "plugin"]


def test_what_the_work_trees_settings_say_of_the_plugin_of_claude_counts_there(repo: Sandbox) -> None:
    home = Path(os.environ["HOME"])
    own = home / ".claude/skills/gitbaton/.claude-plugin/plugin.json"
    shutil.copytree(DATA / "plugin", own.parent.parent)
    assert [(row["plugin"], row["state"]) for row in seen(repo)] == [("gitbaton@skills-dir", "installed")]
    repo.write(".claude/settings.local.json", '{"enabledPlugins": {"gitbaton@skills-dir": false, "gitbaton@gitbaton": true}}')
    found = {row["plugin"]: row["state"] for row in seen(repo)}
    assert found == {"gitbaton@skills-dir": "off", "gitbaton@gitbaton": "installed"}
    own.unlink()
    assert [row["plugin"] for row in seen(repo)] == ["gitbaton@gitbaton"]


@pytest.mark.deep
def test_where_hooks_act_is_said_once_and_as_it_is(repo: Sandbox, path: str) -> None:
    names, env = ("claude", "codex", "gemini"), {"PATH": path}
    for level in ("--plugin", "--user"):
        repo.ok("agent", "install", *names, level, env=env)
    for value, plugins_do, hooks_do in (("", "acts in every", "act only"), ("false", "acts only", "act only")):
        if value:
            repo.git("config", "--global", "baton.everywhere", value)
        rows = [row for row in repo.baton("agent", "doctor", "--json").json["findings"] if "reach" in row["name"]]
        assert [row["name"] for row in rows] == ["user reach", "plugin reach"] and all(row["ok"] for row in rows)
        assert hooks_do in rows[0]["text"] and plugins_do in rows[1]["text"], value
    (Path(os.environ["HOME"]) / ".claude/skills/gitbaton/plugin.json").unlink()
    assert "a plugin, too, acts only in a repository" in repo.ok("agent", "install", "claude", "--plugin").err


@pytest.mark.parametrize("junk", ["", "[", '{"enabledPlugins": 3, "plugin": {}}', '{"enabledPlugins": {"gitbaton@x": "on"}}'])
def test_settings_that_say_nothing_of_plugins_are_none(repo: Sandbox, junk: str) -> None:
    for path, *_ in SEEN.values():
        (file := Path(os.environ["HOME"], path)).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(junk)
    assert [row["agent"] for row in seen(repo)] == (["gemini"] if "{" in junk else [])


PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >> "$HOME/calls"
case "$0 $*" in
*codex*'add gitbaton@gitbaton') printf '[plugins."gitbaton@gitbaton"]\\nenabled = true\\n' > "$HOME/.codex/config.toml" ;;
*codex*'remove gitbaton@gitbaton') rm "$HOME/.codex/config.toml" ;;
esac
test -z "$FAIL" || printf 'Error: no\\n\\nStack backtrace:\\n%300s\\n' 'x' >&2
exit "${FAIL:-0}"
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """PATH with a codex that takes a plugin, and without the other clients."""
    (program := tmp_path / "programs/codex").parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return f"{program.parent}:{Path(sys.executable).parent}:/usr/bin:/bin"


def below(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder but our own records."""
    found = (path for path in folder.rglob("*") if ".local" not in path.parts)
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in found}


def test_install_writes_the_plugin_of_each_client_and_uninstall_takes_exactly_that_away(repo: Sandbox, path: str) -> None:
    home, env = Path(os.environ["HOME"]), {"PATH": path}
    for name in (".claude/skills", ".codex", ".gemini", ".config/opencode"):
        (home / name).mkdir(parents=True)
    (home / ".claude/settings.json").write_text("{}")
    before, own = below(home), below(repo.path)
    would = repo.ok("agent", "install", "--plugin", "--dry-run", env=env)
    assert below(home) == before
    done = repo.ok("agent", "install", "--plugin", env=env)
    assert would.out == "".join(f"would {line}\n" for line in done.out.splitlines()) and "a plugin acts in every" in done.err
    market = home / ".codex/gitbaton"
    assert (home / "calls").read_text().splitlines() == [
        f"codex plugin marketplace add {market}",
        "codex plugin add gitbaton@gitbaton",
    ]
    source = json.loads((market / plugins.MARKETPLACE).read_text())["plugins"][0]["source"]
    for folder in (market / source, home / ".claude/skills/gitbaton"):
        assert {name: data for name, data in below(folder).items() if data} == {
            name: data for name, data in below(DATA / "plugin").items() if data
        }
    assert below(home / ".gemini/extensions/gitbaton") == below(DATA / "extension")
    assert (home / ".config/opencode/command/baton.md").is_file()
    assert {row["agent"]: row["state"] for row in seen(repo)} == dict.fromkeys(
        ("claude", "codex", "gemini", "opencode"), "installed"
    )
    assert repo.ok("agent", "install", "--plugin", env=env).out == "everything is in place\n"
    repo.ok("agent", "uninstall", "--plugin", env=env)
    (home / "calls").unlink()
    assert below(home) == before and not seen(repo) and below(repo.path) == own


@pytest.mark.parametrize("left", ['[plugins."gitbaton@gitbaton"]\nenabled = false\n', ""])
def test_what_is_left_of_a_plugin_that_the_user_switched_off_or_gave_up_goes_too(repo: Sandbox, path: str, left: str) -> None:
    home = Path(os.environ["HOME"])
    (home / ".codex").mkdir()
    repo.ok("agent", "install", "codex", "--plugin", env={"PATH": path})
    (home / ".codex/config.toml").write_text(f'[marketplaces.gitbaton]\nsource = "{home}/.codex/gitbaton"\n{left}')
    (home / "calls").unlink()
    done = repo.ok("agent", "uninstall", "codex", "--plugin", env={"PATH": path, "FAIL": "" if left else "1"})
    calls = ["codex plugin remove gitbaton@gitbaton", "codex plugin marketplace remove gitbaton"]
    assert (home / "calls").read_text().splitlines() == calls and not (home / ".codex/gitbaton").exists()
    assert [line for line in done.out.splitlines() if line.startswith("run ")] == [f"run '{call}'" for call in calls]


TRUST = """
[hooks.state."gitbaton@gitbaton:hooks/codex.json:stop:0:0"]
trusted_hash = "sha256:1"
trusted_content_hash = "sha256:2"

[hooks.state."gitbaton@gitbaton:hooks/codex.json:pre_compact:0:0"]
trusted_hash = "sha256:3"
enabled = false
"""
NONE, OTHER = "\n[hooks.state]\n", '\n[hooks.state."/x/hooks.json:stop:0:0"]\ntrusted_hash = "4"\n'
KEEPS = """#!/bin/sh
cd "$HOME/.codex"
case "$*" in
*'add gitbaton@gitbaton')
    cp config.toml before
    printf '\\n[plugins."gitbaton@gitbaton"]\\nenabled = true\\n%s' "$KEPT" >> config.toml ;;
*'remove gitbaton@gitbaton') { cat before; printf %s "$KEPT"; } > config.toml; rm before ;;
esac
"""


@pytest.mark.deep
@pytest.mark.parametrize("theirs", ["", NONE + OTHER])
def test_the_trust_that_codex_keeps_in_the_hooks_of_a_plugin_goes_with_it(repo: Sandbox, path: str, theirs: str) -> None:
    Path(path.partition(":")[0], "codex").write_text(KEEPS)
    (config := Path(os.environ["HOME"], ".codex/config.toml")).parent.mkdir()
    config.write_text(before := f"# ä\nmodel = 1\n\n[tools]\n{theirs}")
    env = {"PATH": path, "KEPT": (TRUST if theirs else NONE + TRUST)}
    repo.ok("agent", "install", "codex", "--plugin", env=env)
    assert TRUST in config.read_text()
    done = repo.ok("agent", "uninstall", "codex", "--plugin", env=env)
    took = "take its trust in the plugin's hooks out of '~/.codex/config.toml'\n"
    assert took in done.out and config.read_text() == before
    config.write_text(before + env["KEPT"])
    assert repo.ok("agent", "uninstall", "codex", "--plugin", env=env).out == took, "left by an uninstall of formerly"
    assert config.read_text() == before


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (TRUST + OTHER, OTHER),
        (OTHER + TRUST, OTHER),
        (NONE + TRUST, ""),
        (NONE + TRUST + "\n[a]\nb = 1\n", "\n[a]\nb = 1\n"),
        (NONE + TRUST + OTHER, NONE + OTHER),
        (TRUST + "# mine\n\n[a]\n", "# mine\n\n[a]\n"),
        (TRUST.replace("\n", "\r\n") + "[a]\r\n", "[a]\r\n"),
        (TRUST.rstrip("\n"), ""),
        ("[[hooks.Stop]]\nhooks = []\n" + TRUST, "[[hooks.Stop]]\nhooks = []\n"),
        (NONE, None),  # that is nobody's
        (f"a = '''{TRUST}'''\n", None),  # a text
        (TRUST + "trusted_by = [\n1]\n", None),
        (TRUST + "[hooks.state.'gitbaton@gitbaton:x'.more]\na = 1\n", "[hooks.state.'gitbaton@gitbaton:x'.more]\na = 1\n"),
        (TRUST + "broken", None),
        ('hooks.state = {"gitbaton@gitbaton:x" = {trusted_hash = "1"}}\n', None),
        ("hooks = 3\n" + TRUST, None),
    ],
)
def test_nothing_else_in_the_configuration_of_codex_changes(text: str, after: str | None) -> None:
    assert CODEX.forgetting(text) == (text if after is None else after)


def test_a_plugin_that_is_behind_is_renewed_and_one_that_the_user_changed_stays(repo: Sandbox, path: str) -> None:
    home, env = Path(os.environ["HOME"]), {"PATH": path}
    repo.ok("agent", "install", "claude", "codex", "--plugin", env=env)
    for folder in (".claude/skills/gitbaton", ".codex/gitbaton/plugin"):
        (asked := home / folder / "commands/baton.md").write_text("git baton, but mine\n")
        (home / folder / "plugin.json").unlink()
    assert [row["state"] for row in seen(repo)] == ["outdated", "outdated"]
    said = repo.baton("agent", "doctor", env=env).out
    assert "MEND claude plugin: gitbaton@skills-dir is on, and not as this version writes it" in said
    assert "  git baton agent install claude --plugin" in said
    done = repo.ok("agent", "install", "claude", "codex", "--plugin", env=env)
    assert done.out.splitlines() == [
        "renew the plugin of Claude Code in '~/.claude/skills/gitbaton', 1 file",
        "renew the plugin of Codex in '~/.codex/gitbaton', 1 file",
        "run 'codex plugin add gitbaton@gitbaton'",
    ]
    changed = "baton.md' was changed since it was installed, and is left as it is"
    assert asked.read_text() == "git baton, but mine\n" and done.err.count(changed) == 2


def test_a_plugin_that_the_client_has_from_elsewhere_stays(repo: Sandbox, path: str) -> None:
    (file := Path(os.environ["HOME"], SEEN["codex"][0])).parent.mkdir()
    file.write_text(SEEN["codex"][1])
    left = "warning: Codex has gitbaton@gitbaton by '~/.codex/config.toml', not by an install, and it is left as it is"
    for act, nothing in (("install", "everything is in place"), ("uninstall", "there is nothing that an uninstall takes away")):
        done = repo.ok("agent", act, "codex", "--plugin", env={"PATH": path})
        assert (done.out, left in done.err) == (f"{nothing}\n", True)
    extension = Path(os.environ["HOME"], ".gemini/extensions/gitbaton")
    shutil.copytree(DATA / "extension", extension)  # as Gemini CLI itself installs it, with a file of its own
    (extension / ".gemini-extension-install.json").write_text("{}")
    before = below(extension)
    for act in ("install", "uninstall"):
        assert "Gemini CLI has gitbaton by '~/.gemini" in repo.ok("agent", act, "gemini", "--plugin").err
    assert below(extension) == before
    assert not (file.parent / "gitbaton").exists() and file.read_text() == SEEN["codex"][1]
    repo.ok("agent", "install", "codex", env={"PATH": path})
    said = repo.ok("agent", "uninstall", "codex", env={"PATH": path}).err
    assert "hint: Codex still has gitbaton@gitbaton: codex plugin remove gitbaton@gitbaton\n" in said


TAKEN_AWAY = {  # what the user types where no install gave it
    "claude": "claude plugin uninstall gitbaton@gitbaton",
    "codex": "codex plugin remove gitbaton@gitbaton",
    "copilot": "copilot plugin uninstall gitbaton@gitbaton && copilot plugin marketplace remove gitbaton",
    "gemini": "gemini extensions uninstall gitbaton",
    "opencode": "it stands in '~/.config/opencode/opencode.json'",
}


@pytest.mark.parametrize("name", list(TAKEN_AWAY))
def test_what_takes_away_a_plugin_that_no_install_gave_is_named(repo: Sandbox, name: str) -> None:
    path, text, *_ = SEEN[name]
    (file := Path(os.environ["HOME"], path)).parent.mkdir(parents=True)
    file.write_text(text)
    (row,) = seen(repo)
    hint = f" still has {row['plugin']}: {TAKEN_AWAY[name]}\n"
    for words in ((name,), (name, "--plugin"), (name, "--user")):
        done = repo.ok("agent", "uninstall", *words)
        assert done.out == "there is nothing that an uninstall takes away\n" and done.err.count(hint) == 1 == done.err.count(
            "hint: "
        ), words
    assert file.read_text() == text


def test_what_takes_it_away_is_of_its_own_scope_and_by_whom_it_came(repo: Sandbox) -> None:
    for name, scope in (("settings.json", "project"), ("settings.local.json", "local")):
        repo.write(f".claude/{name}", '{"enabledPlugins": {"gitbaton@x y": true}}')
        typed = f"hint: Claude Code still has gitbaton@x y: claude plugin uninstall 'gitbaton@x y' --scope {scope}\n"
        assert repo.ok("agent", "uninstall", "claude").err == typed
        (repo.path / ".claude" / name).unlink()
    repo.ok("agent", "install", "claude", "--plugin")
    (settings := Path(os.environ["HOME"], SEEN["claude"][0])).write_text(SEEN["claude"][1])
    said = repo.ok("agent", "uninstall", "claude").err
    assert "still has gitbaton@skills-dir: git baton agent uninstall claude --plugin\n" in said
    assert "still has gitbaton@gitbaton: claude plugin uninstall gitbaton@gitbaton\n" in said
    done = repo.ok("agent", "uninstall", "claude", "--plugin")
    assert done.out.startswith("remove the plugin of Claude Code in '~/.claude/skills/gitbaton', ")
    assert done.err.endswith("hint: Claude Code still has gitbaton@gitbaton: claude plugin uninstall gitbaton@gitbaton\n")
    assert settings.read_text() == SEEN["claude"][1] and [row["plugin"] for row in seen(repo)] == ["gitbaton@gitbaton"]
    shutil.copytree(DATA / "plugin", settings.parent / "skills/gitbaton")
    said = repo.ok("agent", "uninstall", "claude").err
    assert "still has gitbaton@skills-dir: it stands in '~/.claude/skills/gitbaton/.claude-plugin/plugin.json'\n" in said


def test_a_command_of_the_users_own_stays(repo: Sandbox, path: str) -> None:
    (theirs := Path(os.environ["HOME"], ".config/opencode/command/baton.md")).parent.mkdir(parents=True)
    theirs.write_text("twirl it\n")
    said = repo.ok("agent", "install", "opencode", "--plugin", env={"PATH": path})
    assert "'~/.config/opencode/command/baton.md' is not ours, and is left as it is" in said.err
    repo.ok("agent", "uninstall", "opencode", "--plugin")
    assert theirs.read_text() == "twirl it\n" and not (theirs.parent.parent / "plugins").exists()


def test_where_the_program_of_a_client_is_missing_or_fails_it_is_said(repo: Sandbox, path: str) -> None:
    said = repo.ok("agent", "install", "copilot", "--plugin", env={"PATH": "/usr/bin:/bin"})
    market = Path(os.environ["HOME"], ".copilot/gitbaton")
    line = f"copilot plugin marketplace add {market} && copilot plugin install gitbaton@gitbaton"
    assert f"warning: 'copilot' is not on PATH; where it is: {line}" in said.err
    failed = repo.baton("agent", "install", "codex", "--plugin", env={"PATH": path, "FAIL": "3"})
    assert failed.code == 128 and "'codex plugin marketplace add " in failed.err and "ended with 3: Error: no\n" in failed.err


def test_a_plugin_that_its_client_has_not_taken_is_seen_and_the_line_that_completes_it_works(repo: Sandbox, path: str) -> None:
    repo.ok("agent", "install", "codex", "--plugin", env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"})
    home = Path(os.environ["HOME"])
    typed = f"codex plugin marketplace add {home}/.codex/gitbaton && codex plugin add gitbaton@gitbaton"
    for env in ({}, {"PATH": path}):
        (row,) = seen(repo)
        assert (row["agent"], row["state"], row["plugin"]) == ("codex", "not taken", "gitbaton@gitbaton")
        assert f", gitbaton@gitbaton: its client takes it with: {typed}\n" in repo.ok("agent", "list", env=env).out
        done = repo.baton("agent", "doctor", env=env)
        mend = f"MEND codex plugin: it is written to '~/.codex/gitbaton', and Codex has not taken it\n     {typed}\n"
        assert done.code == 1 and mend in done.out and "none is installed" not in done.out
        assert "are installed" not in repo.ok("status").out
    subprocess.run(["sh", "-c", typed], env={**os.environ, "PATH": path}, check=True)
    assert [one["state"] for one in seen(repo)] == ["installed"]


MARKET = '[marketplaces.gitbaton]\nsource_type = "git"\nsource = "https://example.com/gitbaton"\n'
FAILS = f"""#!/bin/sh
echo 'WARNING: {"no aliases in a temporary folder " * 9}' >&2
echo 'Error: marketplace gitbaton is already added from another source {"so it was refused " * 20}' >&2
exit 1
"""


def test_a_marketplace_that_no_install_gave_is_named_where_it_stays_and_where_it_is_in_the_way(
    repo: Sandbox, path: str
) -> None:
    (config := Path(os.environ["HOME"], ".codex/config.toml")).parent.mkdir()
    config.write_text(f'{MARKET}\n[plugins."gitbaton@gitbaton"]\nenabled = true\n')
    gone = "codex plugin marketplace remove gitbaton"
    for words in (("--plugin",), ("codex", "--plugin"), ("codex",)):
        done = repo.ok("agent", "uninstall", *words, env={"PATH": path})
        assert done.out == "there is nothing that an uninstall takes away\n"
        assert f"hint: Codex still has gitbaton@gitbaton: codex plugin remove gitbaton@gitbaton && {gone}\n" in done.err
    config.write_text(MARKET)
    Path(path.partition(":")[0], "codex").write_text(FAILS)
    done = repo.baton("agent", "install", "codex", "--plugin", env={"PATH": path})
    said = re.search(r"ended with 1: (Error: marketplace .*) \.\.\.\n", done.err)
    assert done.code == 128 and said and f"{said[1]} " in FAILS
    assert done.err.endswith(f"hint: its marketplace gitbaton may be in the way: {gone}\n")


@pytest.mark.deep
@pytest.mark.parametrize("first", ["--plugin", "--user"])
@pytest.mark.parametrize("last", ["--plugin", "--user"])
def test_a_plugin_beside_hooks_and_their_skill_leaves_no_folder_whichever_goes_last(
    repo: Sandbox, first: str, last: str
) -> None:
    home, other = Path(os.environ["HOME"]), {"--plugin": "--user", "--user": "--plugin"}
    before = sorted(home.rglob("*"))
    for level in (first, other[first]):
        repo.ok("agent", "install", "claude", level)
    for level in (other[last], last):
        repo.ok("agent", "uninstall", "claude", level)
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("install", "cursor", "--plugin"), "Cursor has no plugins"),
        (("install", "claude", "--plugin", "--user"), "--user and --plugin exclude each other"),
        (("install", "claude", "--plugin", "--track", "x"), "--track is not for --plugin"),
        (("install", "claude", "--plugin", "--agents-md"), "--agents-md is for a project, not for --plugin"),
        (("install", "claude", "--plugin", "--all"), "takes the names of agents, or --all"),
        (("list", "--plugin"), "--plugin is not for 'list'"),
    ],
)
def test_what_a_plugin_does_not_take_is_refused(repo: Sandbox, words: tuple[str, ...], said: str) -> None:
    before = below(Path(os.environ["HOME"]))
    done = repo.baton("agent", *words)
    assert done.code == 129 and said in done.err and below(Path(os.environ["HOME"])) == before
