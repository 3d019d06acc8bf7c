"""The plugin, the extension and the module in the repository are what the table of hooks makes."""

from __future__ import annotations

import json
import os
import re
import struct
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gitbaton import __version__
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


SEEN = {  # what a client writes below its folder in the user's home when it is given our plugin, and the line that switches it off
    "claude": (
        ".claude/settings.json",
        '{"enabledPlugins": {"gitbaton@gitbaton": true, "other@x": true}}',
        "true, ",
        "false, ",
    ),
    "codex": (".codex/config.toml", '[plugins."gitbaton@gitbaton"]\nenabled = true\n', "true", "false"),
    "copilot": (".copilot/settings.json", '{"enabledPlugins": {"gitbaton@gitbaton": true}}', "true", "false"),
    "gemini": (".gemini/extensions/gitbaton/gemini-extension.json", '{"name": "gitbaton", "version": "0.2.0"}', "", ""),
    "opencode": (".config/opencode/opencode.json", '{"plugin": ["file:///x/gitbaton-plugin.js"]}', "gitbaton", "other"),
}


@pytest.mark.parametrize("name", list(SEEN))
def test_list_and_doctor_see_the_plugin_of_a_client(repo: Sandbox, name: str) -> None:
    path, text, on, off = SEEN[name]
    file = Path(os.environ["HOME"], path)
    assert not seen(repo), "nothing is there yet"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    (row,) = seen(repo)
    assert (row["agent"], row["state"], row["file"]) == (name, "installed", str(file)), row
    assert re.search(
        rf"(?m)^{name} +plugin +installed +~/{re.escape(path)} \(not on PATH\), .*gitbaton", repo.ok("agent", "list").out
    )
    said = repo.baton("agent", "doctor").out
    assert f"{name} plugin: {row['plugin']} is on, in '~/{path}'" in said
    assert f"{name} plugin reach: a plugin acts in every repository in which its client works" in said
    assert "the hooks of" in repo.ok("status").out and "they take one at the end of a turn" in repo.ok("status").out
    repo.git("config", "--global", "baton.everywhere", "false")
    assert "they act here once there is one" in repo.ok("status").out
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
    (own := home / ".claude/skills/gitbaton/.claude-plugin/plugin.json").parent.mkdir(parents=True)
    own.write_text('{"name": "gitbaton"}')
    assert [(row["plugin"], row["state"]) for row in seen(repo)] == [("gitbaton@skills-dir", "installed")]
    repo.write(".claude/settings.local.json", '{"enabledPlugins": {"gitbaton@skills-dir": false, "gitbaton@gitbaton": true}}')
    found = {row["plugin"]: row["state"] for row in seen(repo)}
    assert found == {"gitbaton@skills-dir": "off", "gitbaton@gitbaton": "installed"}
    own.unlink()
    assert [row["plugin"] for row in seen(repo)] == ["gitbaton@gitbaton"]


@pytest.mark.parametrize("junk", ["", "[", '{"enabledPlugins": 3, "plugin": {}}', '{"enabledPlugins": {"gitbaton@x": "on"}}'])
def test_settings_that_say_nothing_of_plugins_are_none(repo: Sandbox, junk: str) -> None:
    for path, *_ in SEEN.values():
        (file := Path(os.environ["HOME"], path)).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(junk)
    assert [row["agent"] for row in seen(repo)] == (["gemini"] if "{" in junk else [])
