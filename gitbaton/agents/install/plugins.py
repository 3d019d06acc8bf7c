"""Plugins: what of ours a client takes as one, from a marketplace or from a folder; its hooks are those of ``levels``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from gitbaton import __version__
from gitbaton.agents.client import Client
from gitbaton.agents.install.levels import CLIENTS, HOOKS, VERSION, entries
from gitbaton.base.errors import BatonError
from gitbaton.base.system.files import DATA, shipped

NAME = "gitbaton"
ABOUT = "Hands work over inside git: checkpoints at every turn, and the next session is told where things stand."
AUTHOR = {"name": "the gitbaton authors"}
MARKETPLACE = ".claude-plugin/marketplace.json"
PLUGIN = "plugin"
OWN = ("README.md", "icon.png", "commands/baton.md")
"""Files of the folder ``plugin`` that are made from nothing."""
_FACTS = {"name": NAME, VERSION: __version__, "description": ABOUT}
_SKILL = "skills/gitbaton/SKILL.md"


def marketplace(folder: str) -> str:
    """The text of a marketplace with the plugin in a folder below it."""
    plugin = {"name": NAME, "source": f"./{folder}", "description": ABOUT}
    return _text({"name": NAME, "owner": AUTHOR, "metadata": {"description": ABOUT}, "plugins": [plugin]})


def made() -> dict[str, str]:
    """Return the files of our plugins that are made from others, by their path below ``data``."""
    asked, found = shipped(PLUGIN, "commands/baton.md"), dict[str, str]()
    for client in CLIENTS:
        of = client.plugin
        if of is None:
            continue
        if client.shape == "plugin":
            script = shipped("agents", "gitbaton.js").replace("const PLUGIN = false", "const PLUGIN = true")
            found |= {f"{of.folder}/{of.hooks}": script, f"{of.folder}/command/baton.md": asked}
            continue
        found[f"{of.folder}/{of.hooks}"] = _hooks(client)
        found[f"{of.folder}/{_SKILL}"] = shipped("agents", "SKILL.md")
        if of.folder == PLUGIN:
            found[f"{PLUGIN}/{of.manifest}"] = _text({**_FACTS, "author": AUTHOR, "license": "MIT", **(of.says or {})})
        else:
            found[f"{of.folder}/{of.manifest}"] = _text(_FACTS)
            found[f"{of.folder}/commands/baton.toml"] = _toml(asked)
    return found


def laid(client: Client) -> dict[str, str]:
    """Return the files of our plugin for a client, by their path below its folder, with the marketplace that it is taken from.
    Raises BatonError for one of them that is missing in this installation."""
    of = client.plugin
    if of is None:
        return {}
    found = {path.removeprefix(f"{of.folder}/"): text for path, text in made().items() if path.startswith(f"{of.folder}/")}
    found |= {name: _read(os.path.join(DATA, PLUGIN, name)) for name in OWN if of.folder == PLUGIN}
    below = {os.path.join(of.place, path): text for path, text in found.items()}
    market = {os.path.join(root, MARKETPLACE): marketplace(PLUGIN)} if (root := market_of(client)) else {}
    return {**below, **market}


def market_of(client: Client) -> str:
    """Return the folder, below the client's, of the marketplace from which it takes our plugin; empty where it needs none."""
    return os.path.dirname(client.plugin.place) if client.plugin is not None and client.plugin.add else ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except OSError as error:
        raise BatonError(f"'{path}' of this installation of gitbaton cannot be read: {error.strerror}") from None


def _hooks(client: Client) -> str:
    version = {VERSION: 1} if client.version else {}
    return _text({**version, HOOKS: {event: [entry] for event, entry in entries(client, plugin=True).items()}})


def _text(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _toml(asked: str) -> str:
    """The command in the form of Gemini CLI, which has another word for what was typed behind its name."""
    _, head, prompt = asked.split("---\n", 2)
    about = next(row for row in head.splitlines() if row.startswith("description: ")).removeprefix("description: ")
    return f"description = {json.dumps(about)}\nprompt = '''\n{prompt.lstrip().replace('$ARGUMENTS', '{{args}}')}'''\n"
