"""Objects that are gone or torn: which of some cannot be read, and a tree without the folders that cannot."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from gitbaton.base.errors import RecordError
from gitbaton.base.model import Oid
from gitbaton.git.objects import LARGEST, MAX_TREE, NewObject, Objects, TreeEntry, new_object, parse_tree, tree_data
from gitbaton.git.questions import matching
from gitbaton.git.repo import Repo

_SECONDS = 60.0
_FETCHING = ("fetch.negotiationAlgorithm=noop", "maintenance.auto=false", "gc.auto=0")
_FETCH = ("--no-tags", "--no-write-fetch-head", "--recurse-submodules=no", "--filter=blob:none", "--stdin")


def missing(objects: Objects, oids: Iterable[Oid]) -> dict[Oid, str]:
    """Return the ids that name no object here, each with a message."""
    return _without(objects, oids, 0)


def unreadable(objects: Objects, oids: Iterable[Oid]) -> dict[Oid, str]:
    """Return the ids of objects that are missing or torn, each with a message; each object is read to its end."""
    return _without(objects, oids, LARGEST)


def _without(objects: Objects, oids: Iterable[Oid], limit: int) -> dict[Oid, str]:
    asked = list(dict.fromkeys(oids))
    found = zip(asked, objects.read_many(asked, limit), strict=True)
    return {oid: said(oid) for oid, item in found if item is None}


def promised(repo: Repo, oids: Iterable[Oid]) -> list[str]:
    """Fetch objects that remotes have promised, as git does in a partial clone; return the remotes that were asked. There is no
    prompt for a password, and what does not come within a minute stays away."""
    names = [
        key[len("remote.") : -len(".promisor")] for key, text in matching(repo, r"^remote\..*\.promisor$") if text != "false"
    ]
    if not names:
        return []
    from gitbaton.git.bounded import Bounded, OutOfTimeError

    stdin = "".join(f"{oid}\n" for oid in oids).encode()
    git = Bounded(repo.git.changed({}, *_FETCHING), _SECONDS, prompts=False)
    repo.progress("fetching what is not here", 0, 0)
    for name in names:
        with suppress(OutOfTimeError):
            if git.run("fetch", name, *_FETCH, stdin=stdin).code == 0:
                break
    return names


def said(oid: Oid) -> str:
    """Return the words for an object that cannot be read."""
    return f"object {oid} is not here, or torn"


class Readable:
    """A tree of which every folder can be read: what cannot is in it as in ``other``, or not at all. ``gone`` are those
    folders, by path ("": the whole), with the reason, and ``lost`` their trees; ``new`` are those that were made for it."""

    def __init__(self, objects: Objects, tree: Oid, other: Oid) -> None:
        self.objects, self.gone, self.lost, self.new = objects, dict[str, str](), list[Oid](), list[NewObject]()
        self.tree = self._read("", tree, other) or other

    def _read(self, path: str, tree: Oid, other: Oid | None) -> Oid | None:
        """Return the tree that stands for one; None where nothing of it can be read."""
        if tree == other:
            return tree
        entries = self._entries(tree)
        if entries is None:
            self.gone[path] = said(tree)
            self.lost.append(tree)
            return other
        there = {e.name: e.oid for e in (self._entries(other) if other is not None else None) or () if e.is_tree}
        kept: list[TreeEntry] = []
        for entry in entries:
            oid: Oid | None = entry.oid
            if entry.is_tree:
                name = os.fsdecode(entry.name)
                oid = self._read(f"{path}/{name}" if path else name, entry.oid, there.get(entry.name))
            kept += [TreeEntry(mode=entry.mode, name=entry.name, oid=oid)] if oid is not None else []
        if kept == entries:
            return tree
        if not kept and path:
            return None
        made = new_object(self.objects.algorithm, "tree", tree_data(kept))
        self.new.append(made)
        return made.oid

    def _entries(self, tree: Oid) -> list[TreeEntry] | None:
        item = next(iter(self.objects.read_many([tree], MAX_TREE)))
        if item is None or item.kind != "tree" or item.data is None:
            return None
        try:
            return parse_tree(item.data, self.objects.algorithm)
        except RecordError:
            return None
