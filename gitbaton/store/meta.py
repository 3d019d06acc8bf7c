"""Pins and tombstones: a set that every clone may add to, and whose union is the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from gitbaton.errors import MENDS, GitError, GitTimeoutError, RecordError
from gitbaton.git.objects import (
    NewObject,
    TreeEntry,
    commit_data,
    is_oid,
    new_object,
    parse_commit,
    parse_tree,
    tree_objects,
)
from gitbaton.git.reffiles import there
from gitbaton.model import Oid
from gitbaton.store.chain import Chains
from gitbaton.store.refs import META
from gitbaton.values import value

_MESSAGE = b"gitbaton meta 1\n"
_AUTHOR = b"gitbaton <gitbaton@localhost> 0 +0000"
_PINS, _PRUNED, _FORGOTTEN = b"pins", b"pruned", b"forgotten"
MOST_TURNS = 10**9 - 1  # of one pin; what a remote says must not lead to more than can be read again
_COUNTER = re.compile(rb"(?:[2-9]|[1-9][0-9]{1,8})\n\Z")
_FOLDER = re.compile(rb"[0-9a-f]{2}\Z")
_MAX_TREE = 64 << 20


@value
class Meta:
    """Ids of checkpoints by what was said of them. ``pins``: how often one was pinned and unpinned, an odd number where it is
    pinned; ``pruned`` and ``forgotten``: tombstones."""

    pins: Mapping[Oid, int] = MappingProxyType({})
    pruned: frozenset[Oid] = frozenset()
    forgotten: frozenset[Oid] = frozenset()

    def pinned(self, oid: Oid) -> bool:
        """Whether a checkpoint is pinned."""
        return self.pins.get(oid, 0) % 2 == 1

    def dropped(self, oid: Oid) -> bool:
        """Whether a join leaves a checkpoint out: a pin made anywhere beats ``pruned``, nothing beats ``forgotten``."""
        return oid in self.forgotten or (oid in self.pruned and not self.pinned(oid))

    @property
    def drops(self) -> bool:
        """Whether any checkpoint may be dropped."""
        return bool(self.forgotten or self.pruned)


NOTHING = Meta()


def union(*metas: Meta) -> Meta:
    """All that any of them says; of two counts of one pin the higher. Whatever the order and grouping, the same. Pure."""
    pins: dict[Oid, int] = {}
    for meta in metas:
        for oid, count in meta.pins.items():
            pins[oid] = max(count, pins.get(oid, 0))
    pruned = frozenset[Oid]().union(*(meta.pruned for meta in metas))
    return Meta(pins=pins, pruned=pruned, forgotten=frozenset[Oid]().union(*(meta.forgotten for meta in metas)))


def read(store: Chains, ref: str = META) -> Meta:
    """What the commit at a ref says; NOTHING where there is no such ref.

    Raises RecordError that names the ref and what in it is not as gitbaton writes it: then nothing may be dropped or kept.
    """
    try:
        return _said(store, ref)
    except GitTimeoutError:
        raise
    except GitError as error:
        told = _unreadable(ref, error.message)
    except RecordError as error:
        told = error
    raise RecordError(told.message, *(told.hints if ref == META else ()))  # what is wrong at a remote is not mended here


def _said(store: Chains, ref: str) -> Meta:
    found = store.at(ref)
    if found is None and ref == META and there(store.repo, ref):
        found = store.at(ref)  # another writer may just have made it
        if found is None:
            raise _unreadable(ref, "it leads nowhere")
    if found is None:
        return NOTHING
    if found.kind != "commit" or found.data is None:
        raise RecordError(f"'{ref}' is a {found.kind} and not a commit", MENDS)
    commit = parse_commit(found.data)
    if commit.message != _MESSAGE:
        raise RecordError(f"'{ref}' is not what gitbaton writes: its commit does not say '{_MESSAGE.decode().strip()}'")
    folders = {e.name: e for e in _entries(store, ref, "", commit.tree)}
    for name, entry in folders.items():
        if name not in (_PINS, _PRUNED, _FORGOTTEN) or not entry.is_tree:
            raise _strange(ref, name.decode("utf-8", "backslashreplace"))
    ids = {name: _ids(store, ref, name.decode(), entry.oid) for name, entry in folders.items()}
    for name in ids.keys() & {_PRUNED, _FORGOTTEN}:
        _counters(store, ref, name.decode(), ids[name], plain=True)
    pins = _counters(store, ref, "pins", ids.get(_PINS, {}), plain=False)
    return Meta(pins=pins, pruned=frozenset(ids.get(_PRUNED, ())), forgotten=frozenset(ids.get(_FORGOTTEN, ())))


def _strange(ref: str, path: str) -> RecordError:
    return RecordError(f"'{ref}' is not what gitbaton writes: '{path}'")


def _unreadable(ref: str, why: str) -> RecordError:
    return RecordError(f"'{ref}' cannot be read: {why}", MENDS)


def _entries(store: Chains, ref: str, path: str, tree: Oid) -> list[TreeEntry]:
    found = store.objects.read(tree, _MAX_TREE)
    if found is None or found.kind != "tree" or found.data is None:
        raise _unreadable(ref, f"tree '{path}', {tree}")
    return parse_tree(found.data, store.objects.algorithm)


def _ids(store: Chains, ref: str, name: str, tree: Oid) -> dict[Oid, Oid]:
    """The checkpoints that a folder names, each with the blob beside it."""
    found: dict[Oid, Oid] = {}
    folders = _entries(store, ref, name, tree)
    read = store.objects.read_many([e.oid for e in folders], _MAX_TREE)
    for folder, below in zip(folders, read, strict=True):
        path = f"{name}/{folder.name.decode('utf-8', 'backslashreplace')}"
        if not folder.is_tree or not _FOLDER.match(folder.name):
            raise _strange(ref, path)
        if below is None or below.kind != "tree" or below.data is None:
            raise _unreadable(ref, f"tree '{path}', {folder.oid}")
        for entry in parse_tree(below.data, store.objects.algorithm):
            oid = (folder.name + entry.name).decode("utf-8", "backslashreplace")
            if entry.mode != b"100644" or not is_oid(store.objects.algorithm, oid):
                raise _strange(ref, f"{path}/{oid[2:]}")
            found[oid] = entry.oid
    return found


def _counters(store: Chains, ref: str, name: str, ids: Mapping[Oid, Oid], *, plain: bool) -> dict[Oid, int]:
    """What the blobs of a folder count: an empty one 1. With ``plain`` all must be empty."""
    counts = {new_object(store.objects.algorithm, "blob", b"").oid: 1}
    blobs = sorted(set(ids.values()) - counts.keys())
    for blob, found in zip(blobs, store.objects.read_many(blobs, 64), strict=True):
        if found is not None and found.kind == "blob" and _COUNTER.match(found.data or b"") and not plain:
            counts[blob] = int(found.data or b"")
        elif found is None:
            raise _unreadable(ref, f"blob {blob}")
    for oid, blob in ids.items():
        if blob not in counts:
            raise _strange(ref, f"{name}/{oid[:2]}/{oid[2:]}")
    return {oid: counts[blob] for oid, blob in ids.items()}


def objects_for(store: Chains, meta: Meta, parents: Iterable[Oid] = ()) -> list[NewObject]:
    """The objects to write so that the last one, a commit, says what ``meta`` says.

    Without ``parents`` everybody who knows the same writes the same commit; with some it follows one that may not be replaced.
    """
    algorithm = store.objects.algorithm
    made = [new_object(algorithm, "blob", b"")]
    empty = made[0].oid
    counts = {n: new_object(algorithm, "blob", b"%d\n" % n) for n in set(meta.pins.values()) if n > 1}
    made += counts.values()
    pins = {oid: counts[n].oid if n > 1 else empty for oid, n in meta.pins.items() if n > 0}
    folders = ((_PINS, pins), (_PRUNED, dict.fromkeys(meta.pruned, empty)), (_FORGOTTEN, dict.fromkeys(meta.forgotten, empty)))
    rows = ((f"{name.decode()}/{oid[:2]}/{oid[2:]}", "100644", blob) for name, ids in folders for oid, blob in ids.items())
    made += tree_objects(algorithm, rows)
    data = commit_data(tree=made[-1].oid, parents=parents, author=_AUTHOR, message=_MESSAGE)
    return [*made, new_object(algorithm, "commit", data)]
