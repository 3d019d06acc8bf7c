"""Merge: our entries into the text of a client's settings, and out of it again. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gitbaton.agents.clients import KEYS, Client, entries, is_ours, lines, mentions, track_of
from gitbaton.agents.settings import Document, Edit, MalformedError, Node
from gitbaton.values import value

HOOKS, VERSION, TYPE = "hooks", "version", "type"
_READ = frozenset((HOOKS, "matcher", TYPE, *KEYS))


@value
class Merged:
    """New text. ``edits`` lead back from it; ``made`` names the containers that were not there before."""

    text: str
    edits: tuple[Edit, ...] = ()
    made: tuple[str, ...] = ()


@value
class Found:
    """What a file holds of ours: how many entries, for which tracks they were made, and what they are called, if anything.

    ``foreign``: command lines that name our hook, too, and that somebody else wrote.
    """

    count: int
    tracks: tuple[str | None, ...]
    names: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


def merge(text: str, client: Client, track: str | None) -> Merged:
    """The text with our entries in it, each once; the same text when they are all there. Raises MalformedError."""
    wanted, made = entries(client, track), []
    document = Document(text, comments=client.comments)
    if document.root is None:
        document.begin({})
        made = [HOOKS, *wanted]
    root = _root(document)
    if client.version and not root.members:
        document.put((), VERSION, 1)
        made += [VERSION]
    hooks = _hooks(document)
    if hooks is None:
        document.put((), HOOKS, {event: [item] for event, item in wanted.items()})
        made = [*dict.fromkeys([*made, HOOKS, *wanted])]
        return _merged(document, made)
    for event, item in wanted.items():
        node = document.at(HOOKS, event)
        if node is None:
            document.put((HOOKS,), event, [item])
            made.append(event)
        elif node.kind != "array":
            raise MalformedError(f"'hooks.{event}' is not a list")
        else:
            _one(document, client, event, item)
    for event in [member.key for member in hooks.members if member.key not in wanted]:
        _drop(document, client, event)
    return _merged(document, made)


def strip(text: str, client: Client, made: Collection[str] | None = None) -> Merged:
    """The text without our entries, and without the containers of ``made`` that are empty now; None: of any."""
    document = Document(text, comments=client.comments)
    if document.root is None or (hooks := _hooks(document)) is None:
        return Merged(text=text)
    for event in [member.key for member in hooks.members]:
        dropped = _drop(document, client, event)
        node = document.at(HOOKS, event)
        if dropped and node is not None and not node.members and (made is None or event in made):
            document.remove((HOOKS, event))
    left = document.at(HOOKS)
    if document.edits and left is not None and not left.members and (made is None or HOOKS in made):
        document.remove((HOOKS,))
    rest = document.at()
    if made is not None and VERSION in made and rest is not None and [m.key for m in rest.members] == [VERSION]:
        document.remove((VERSION,))
    return _merged(document, [])


def found(text: str, client: Client) -> Found:
    """What of ours the text holds. Raises MalformedError."""
    document = Document(text, comments=client.comments)
    hooks = _hooks(document) if document.root is not None else None
    if hooks is None:
        return Found(count=0, tracks=())
    handlers = [
        handler
        for event in hooks.members
        if event.node.kind == "array"
        for item in document.plain(event.node)
        for handler in _handlers(item)
    ]
    ours = [handler for handler in handlers if is_ours(handler, client)]
    foreign = [line for handler in handlers if not is_ours(handler, client) for line in mentions(handler)]
    return Found(
        count=len(ours),
        tracks=tuple(dict.fromkeys(track_of(lines(handler)[0]) for handler in ours)),
        names=tuple(handler["name"] for handler in ours if isinstance(handler.get("name"), str)),
        foreign=tuple(dict.fromkeys(foreign)),
    )


def is_empty(text: str, client: Client, made: Collection[str]) -> bool:
    """Whether nothing is left in the text, not even a comment, but what install put there beside our entries."""
    document = Document(text, comments=client.comments)
    left = document.plain(document.root) if document.root is not None else {}
    return not document.notes and (left == {} or (VERSION in made and left == {VERSION: 1}))


def _root(document: Document) -> Node:
    root = document.root
    if root is None or root.kind != "object":
        raise MalformedError("it is not an object")
    _unique(root, {HOOKS, VERSION})
    return root


def _hooks(document: Document) -> Node | None:
    _root(document)
    hooks = document.at(HOOKS)
    if hooks is None:
        return None
    if hooks.kind != "object":
        raise MalformedError("'hooks' is not an object")
    _unique(hooks, {member.key for member in hooks.members})
    for event in hooks.members:
        for item in event.node.members if event.node.kind == "array" else ():
            _unique(item.node, _READ)
            for group in [member.node for member in item.node.members if member.key == HOOKS]:
                for handler in group.members:
                    _unique(handler.node, _READ)
    return hooks


def _unique(node: Node, keys: Collection[str]) -> None:
    seen = [member.key for member in node.members if member.key in keys]
    if len(seen) != len(set(seen)):
        twice = next(key for key in seen if seen.count(key) > 1)
        raise MalformedError(f"the key '{twice}' stands twice")


def _handlers(item: Any) -> list[Any]:
    """The handlers of an item: those of a group, or the item itself."""
    group = item.get(HOOKS) if isinstance(item, dict) else None
    return group if isinstance(group, list) else [item]


def _ours(document: Document, client: Client, event: str) -> list[tuple[tuple[str | int, ...], Any]]:
    """Where the entries of ours in an event stand, and what they are."""
    node = document.at(HOOKS, event)
    found: list[tuple[tuple[str | int, ...], Any]] = []
    for at, item in enumerate(document.plain(node) if node is not None and node.kind == "array" else ()):
        inner = isinstance(item, dict) and isinstance(item.get(HOOKS), list)
        for place, handler in enumerate(_handlers(item)):
            if is_ours(handler, client):
                found.append(((HOOKS, event, at, HOOKS, place) if inner else (HOOKS, event, at), handler))
    return found


def _one(document: Document, client: Client, event: str, wanted: dict[str, Any]) -> None:
    """Let the event hold our entry once: in the place of one of ours, with its lines alone renewed, or at the end."""
    entry = _handlers(wanted)[0]
    written = {key: entry[key] for key in (TYPE, *KEYS) if key in entry}  # the rest may be set otherwise by the user
    depth = 5 if HOOKS in wanted else 3
    there = [one for one in _ours(document, client, event) if len(one[0]) == depth]
    if not there:
        _drop(document, client, event)
        document.append((HOOKS, event), wanted)
        return
    keep, handler = next((one for one in there if written.items() <= one[1].items()), there[0])
    for key, text in written.items():
        if key not in handler:
            document.put(keep, key, text)
        elif handler[key] != text:
            document.replace((*keep, key), text)
    _drop(document, client, event, keep)


def _drop(document: Document, client: Client, event: str, keep: tuple[str | int, ...] | None = None) -> bool:
    """Take our entries out of an event, but for ``keep``, and the groups that held nothing else; whether there were any."""
    gone = [path for path, _ in _ours(document, client, event) if path != keep]
    for path in reversed(gone):
        group = document.at(*path[:-1])
        alone = len(path) > 3 and group is not None and len(group.members) == 1
        document.remove(path[:3] if alone else path)
    return bool(gone)


def _merged(document: Document, made: list[str]) -> Merged:
    return Merged(text=document.text, edits=tuple(document.edits), made=tuple(made))
