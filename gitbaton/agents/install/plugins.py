"""Plugins: what of ours a client takes as one, from a marketplace or from a folder; its hooks are those of ``levels``."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from gitbaton import __version__
from gitbaton.agents.client import Client, folder, inner
from gitbaton.agents.install.levels import (
    CLIENTS,
    HOOKS,
    LEVELS,
    NONE,
    VERSION,
    FoundEntries,
    Merged,
    Part,
    Place,
    Row,
    State,
    Target,
    entries,
    installed,
    row,
    settings_of,
    shown,
)
from gitbaton.agents.install.plan import look
from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import BatonError
from gitbaton.base.system.files import DATA, shipped
from gitbaton.base.system.process import begin

NAME = "gitbaton"
ABOUT = "Hands work over inside git: checkpoints at every turn, and the next session is told where things stand."
AUTHOR = {"name": "the gitbaton authors"}
MARKETPLACE = ".claude-plugin/marketplace.json"
PLUGIN = "plugin"
OWN = ("README.md", "icon.png", "commands/baton.md")
"""Files of the folder ``plugin`` that are made from nothing."""
_FACTS = {"name": NAME, VERSION: __version__, "description": ABOUT}
_SECONDS = 60.0
_MOST = 300  # characters of what a program says of its failure
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


class PluginFile(Part):
    """A file of a plugin, ours altogether: as we write it, or as another version did."""

    whole = True
    errors = "surrogateescape"

    def __init__(self, text: str) -> None:
        self.text = text

    def put(self, text: str) -> Merged:
        """The file."""
        return Merged(text=self.text)

    def take(self, text: str, made: Collection[str] | None) -> Merged:
        """Nothing is left."""
        return Merged(text="")

    def find(self, text: str) -> FoundEntries:
        """Return whether the file is ours: it names us."""
        return FoundEntries(count=1, tracks=(None,)) if text == self.text or "baton" in text else NONE

    def known(self, text: str) -> bool:
        """Whether the file is as this version writes it."""
        return text == self.text


def targets(where: Place, client: Client) -> Iterator[Target]:
    """Yield the files of our plugin for a client in the user's folder. Raises BatonError for one that is not read."""
    home, about = os.path.abspath(folder(client, where.env)), f"the plugin of {client.title}"
    for path, text in laid(client).items():
        full = os.path.join(home, path)
        yield Target(file=look(full, shown(where, full)), part=PluginFile(text), about=about)


def home(where: Place, client: Client) -> str:
    """Return the folder of our plugin for a client, and of the marketplace that it is taken from."""
    below = market_of(client) or (client.plugin.place if client.plugin is not None else "")
    return os.path.normpath(os.path.join(os.path.abspath(folder(client, where.env)), below))


def lines(where: Place, client: Client, *, gone: bool) -> list[list[str]]:
    """Return the words to a client's program by which it takes our plugin from its marketplace, or gives it up."""
    of, root = client.plugin, home(where, client)
    return [[word.replace("{}", root) for word in words] for words in ((of.drop if gone else of.add) if of is not None else ())]


def is_ours(client: Client, found: Row) -> bool:
    """Whether a plugin that a client has is called as one that install gave it."""
    return client.plugin is not None and found.names[0] == client.plugin.name


def is_known(where: Place, client: Client) -> bool:
    """Whether a client knows the marketplace of our plugin, which it may have switched off, or given up."""
    name, *keys = client.plugin.known if client.plugin is not None and client.plugin.known else ("",)
    return bool(keys) and inner(settings_of(os.path.join(folder(client, where.env), name)), *keys) is not None


def gone(where: Place, found: Row) -> str:
    """Return how the user takes away a plugin that no install gave: the line to type, or where it stands."""
    client, name = found.client, found.names[0]
    line = client.gone(installed(where, client, where.root), shlex.quote(name), found.path)
    if line and is_ours(client, found) and is_known(where, client):
        line = f"{line} && {typed(client, lines(where, client, gone=True)[-1:])}"
    return f"{client.title} still has {name}: {line or f'it stands in {in_quotes(found.file)}'}"


def plugin_rows(where: Place, root: str | None) -> Iterator[Row]:
    """Yield each plugin of ours that a client has, by the user's level and the work tree ``root``. Raises nothing."""
    for client in CLIENTS:
        for name, path, on in client.plugins(installed(where, client, root)):
            state: State = "off" if not on else "outdated" if _is_behind(where, client) else "installed"
            yield Row(client=client, level="plugin", file=shown(where, path), path=path, state=state, names=(name,))


def _untaken(where: Place, client: Client) -> Iterator[Row]:
    """Yield the plugin that install wrote for a client which does not have it yet, with what is to be typed so that it has."""
    words, path = lines(where, client, gone=False), home(where, client)
    with suppress(BatonError):
        if words and client.plugin is not None and any(target.file.data is not None for target in targets(where, client)):
            reason, name = f"its client takes it with: {typed(client, words)}", client.plugin.name
            yield Row(
                client=client,
                level="plugin",
                file=shown(where, path),
                path=path,
                state="not taken",
                names=(name,),
                reason=reason,
            )


def typed(client: Client, words: Iterable[Sequence[str]]) -> str:
    """Return the line that has a client's program do all that these words say."""
    return " && ".join(shlex.join([client.programs[0], *line]) for line in words)


def _is_behind(where: Place, client: Client) -> bool:
    """Whether files of a plugin that install wrote are others than it writes now."""
    with suppress(BatonError):
        files = [(target.file.data, target.part.put("").text) for target in targets(where, client)]
        there = any(data is not None for data, _ in files)
        return there and any(data != text.encode("utf-8", PluginFile.errors) for data, text in files)
    return False


def rows(places: Iterable[Place]) -> list[Row]:
    """Every client at every level given, and the plugins that it has, in the order of the clients."""
    known = sorted(places, key=lambda where: LEVELS.index(where.level))
    root = next((where.root for where in known if where.root is not None), None)
    user = [where for where in known if where.level == "user"]
    plugged = [found for where in user for found in plugin_rows(where, root)]
    of = {client.name: [found for found in plugged if found.client == client] for client in CLIENTS}
    for client in CLIENTS:
        if not any(is_ours(client, found) for found in of[client.name]):
            of[client.name] += [found for where in user for found in _untaken(where, client)]
    return [found for client in CLIENTS for found in (*(row(where, client) for where in known), *of[client.name])]


def tell(program: str, words: Sequence[str], env: Mapping[str, str], *, strict: bool, hints: Sequence[str] = ()) -> None:
    """Run a client's program. Raises BatonError, with these hints, where it fails and that matters (``strict``)."""
    done = begin([program, *words], env, _SECONDS).finish()
    if done.code and strict:
        said = " ".join(f"{os.fsdecode(done.out)} {done.err}".split())
        said = said.partition(" Stack backtrace:")[0]
        said = said[max(said.find("Error: "), 0) :]  # behind warnings that say nothing of it
        told = said if len(said) <= _MOST else f"{said[:_MOST].rpartition(' ')[0]} ..."
        raise BatonError(f"'{os.path.basename(program)} {' '.join(words)}' ended with {done.code}: {told}", *hints)


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
