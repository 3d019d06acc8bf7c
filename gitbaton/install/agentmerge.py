"""Our entries into the text of a client's settings, and out of it again. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import Any

from gitbaton.agents.clients import Client, entries, is_ours, lines
from gitbaton.agents.settings import Document, Edit, MalformedError, Node
from gitbaton.values import value

HOOKS, VERSION = "hooks", "version"


@value
class Merged:
    """New text. ``edits`` lead back from it; ``made`` names the containers that were not there before."""

    text: str
    edits: tuple[Edit, ...] = ()
    made: tuple[str, ...] = ()


@value
class Found:
    """What settings hold of ours: how many entries, and for which tracks they were made."""

    count: int
    tracks: tuple[str | None, ...]


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
            _one(document, event, item)
    for event in [member.key for member in hooks.members if member.key not in wanted]:
        _drop(document, event, None)
    return _merged(document, made)


def strip(text: str, client: Client, made: Collection[str] | None = None) -> Merged:
    """The text without our entries, and without the containers of ``made`` that are empty now; None: of any."""
    document = Document(text, comments=client.comments)
    if document.root is None or (hooks := _hooks(document)) is None:
        return Merged(text=text)
    for event in [member.key for member in hooks.members]:
        dropped = _drop(document, event, None)
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
        if is_ours(handler)
    ]
    tracks = [_track(line) for handler in handlers for line in lines(handler)[:1]]
    return Found(count=len(handlers), tracks=tuple(dict.fromkeys(tracks)))


def is_empty(text: str, client: Client, made: Collection[str]) -> bool:
    """Whether nothing is left in the text but what install put there beside our entries."""
    document = Document(text, comments=client.comments)
    left = document.plain(document.root) if document.root is not None else {}
    return left == {} or (VERSION in made and left == {VERSION: 1})


def _track(line: str) -> str | None:
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    return words[words.index("--track") + 1] if "--track" in words[:-1] else None


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


def _pure(item: Any) -> bool:
    handlers = _handlers(item)
    return bool(handlers) and all(map(is_ours, handlers))


def _one(document: Document, event: str, wanted: dict[str, Any]) -> None:
    """Let the event hold our entry once: as it is, in the place of another one of ours, or at the end."""
    node = document.at(HOOKS, event)
    items = document.plain(node) if node is not None else []
    whole = [at for at, item in enumerate(items) if _pure(item)]
    keep = next((at for at in whole if items[at] == wanted), whole[0] if whole else None)
    if keep is not None and items[keep] != wanted:
        document.replace((HOOKS, event, keep), wanted)
    if keep is None:
        keep = _shared(document, event, items, wanted)
    _drop(document, event, keep)
    if keep is None:
        document.append((HOOKS, event), wanted)


def _shared(document: Document, event: str, items: list[Any], wanted: dict[str, Any]) -> int | None:
    """A group that holds other handlers beside ours, for the same matcher: ours may stay in it."""
    for at, item in enumerate(items):
        places = [i for i, handler in enumerate(_handlers(item)) if is_ours(handler)]
        if len(places) == 1 and HOOKS in wanted and HOOKS in item and item.get("matcher") == wanted.get("matcher"):
            if item[HOOKS][places[0]] != wanted[HOOKS][0]:
                document.replace((HOOKS, event, at, HOOKS, places[0]), wanted[HOOKS][0])
            return at
    return None


def _drop(document: Document, event: str, keep: int | None) -> bool:
    """Take our entries out of an event, but for the item ``keep``; whether there were any."""
    node = document.at(HOOKS, event)
    if node is None or node.kind != "array":
        return False
    before = len(document.edits)
    for at, item in reversed(list(enumerate(document.plain(node)))):
        if at == keep:
            continue
        if _pure(item):
            document.remove((HOOKS, event, at))
            continue
        handlers = _handlers(item)
        for place in reversed([i for i, handler in enumerate(handlers) if is_ours(handler)]):
            document.remove((HOOKS, event, at, HOOKS, place))
    return len(document.edits) > before


def _merged(document: Document, made: list[str]) -> Merged:
    return Merged(text=document.text, edits=tuple(document.edits), made=tuple(made))
