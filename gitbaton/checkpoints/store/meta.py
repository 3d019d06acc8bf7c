"""Pins and tombstones: a set that each clone may add to; their union is the same in all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import MENDS, GitError, GitTimeoutError, RecordError
from gitbaton.base.model import Oid
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.store.chain import Chains
from gitbaton.checkpoints.store.refs import META
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

_MESSAGE = b"gitbaton meta 1\n"
_AUTHOR = b"gitbaton <gitbaton@localhost> 0 +0000"
_PINS, _PRUNED, _FORGOTTEN = b"pins", b"pruned", b"forgotten"
MOST_TURNS = 10**9 - 1  # of one pin; what a remote says must not lead to more than can be read again
MOST_BYTES = 200  # of a pin's name
_PIN = re.compile(rb"([1-9][0-9]{0,8})\n(?:([^\n]+)\n)?\Z")
_FOLDER = re.compile(rb"[0-9a-f]{2}\Z")
_MAX_TREE = 64 << 20
_METAS = 3  # that a store keeps: ours, a remote's and both together


@value
class Meta:
    """Ids of checkpoints by what was said of them. ``pins``: how often one was pinned and unpinned, an odd number where it is
    pinned; ``names``: what those that are pinned are called; ``pruned`` and ``forgotten``: tombstones."""

    pins: Mapping[Oid, int] = MappingProxyType({})
    names: Mapping[Oid, str] = MappingProxyType({})
    pruned: frozenset[Oid] = frozenset()
    forgotten: frozenset[Oid] = frozenset()

    def pinned(self, oid: Oid) -> bool:
        """Whether a checkpoint is pinned."""
        return self.pins.get(oid, 0) % 2 == 1

    def document(self, oid: Oid) -> dict[str, str | bool]:
        """Return the fields of a checkpoint's pin for --json."""
        return {"pinned": self.pinned(oid), **({"name": self.names[oid]} if oid in self.names else {})}

    def dropped(self, oid: Oid) -> bool:
        """Whether a join leaves a checkpoint out: a pin made anywhere beats ``pruned``, nothing beats ``forgotten``."""
        return oid in self.forgotten or (oid in self.pruned and not self.pinned(oid))

    @property
    def drops(self) -> bool:
        """Whether the meta drops any checkpoint."""
        return bool(self.forgotten or self.pruned)


NOTHING = Meta()


def union(*metas: Meta) -> Meta:
    """Return all that any of them says; of two counts of one pin the higher, and of two names with one count the one that sorts
    last; what is forgotten has no name. Whatever the order and grouping, the same. Pure."""
    pins: dict[Oid, tuple[int, str]] = {}
    for meta in metas:
        for oid, count in meta.pins.items():
            pins[oid] = max((count, meta.names.get(oid, "")), pins.get(oid, (0, "")))
    pruned = frozenset[Oid]().union(*(meta.pruned for meta in metas))
    forgotten = frozenset[Oid]().union(*(meta.forgotten for meta in metas))
    names = {oid: name for oid, (_, name) in pins.items() if name and oid not in forgotten}
    return Meta(pins={oid: count for oid, (count, _) in pins.items()}, names=names, pruned=pruned, forgotten=forgotten)


def read(store: Chains, ref: str = META) -> Meta:
    """Return the meta that the commit at a ref holds; NOTHING where there is no such ref.

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
        raise RecordError(f"{in_quotes(ref)} is a {found.kind} and not a commit", MENDS)
    commit = parse_commit(found.data)
    if commit.message != _MESSAGE:
        raise RecordError(
            f"{in_quotes(ref)} is not what gitbaton writes: its commit does not say '{_MESSAGE.decode().strip()}'"
        )
    known: Meta | None = store.metas.get(commit.tree)
    return known or _remembered(store, commit.tree, _of_tree(store, ref, commit.tree))


def _remembered(store: Chains, tree: Oid, meta: Meta) -> Meta:
    store.metas = {**dict(list(store.metas.items())[1 - _METAS :]), tree: meta}
    return meta


def _of_tree(store: Chains, ref: str, tree: Oid) -> Meta:
    folders = {e.name: e for e in _entries(store, ref, "", tree)}
    for name, entry in folders.items():
        if name not in (_PINS, _PRUNED, _FORGOTTEN) or not entry.is_tree:
            raise _strange(ref, name.decode("utf-8", "backslashreplace"))
    ids = {name: _ids(store, ref, name.decode(), entry.oid) for name, entry in folders.items()}
    for name in ids.keys() & {_PRUNED, _FORGOTTEN}:
        _blobs(store, ref, name.decode(), ids[name], plain=True)
    pins = _blobs(store, ref, "pins", ids.get(_PINS, {}), plain=False)
    return Meta(
        pins={oid: count for oid, (count, _) in pins.items()},
        names={oid: name for oid, (_, name) in pins.items() if name},
        pruned=frozenset(ids.get(_PRUNED, ())),
        forgotten=frozenset(ids.get(_FORGOTTEN, ())),
    )


def pin_of(data: bytes) -> tuple[int, str] | None:
    """Return the count and the name, if it has one, that a pin's blob says; None where it is not as gitbaton writes it.
    Pure."""
    found = _PIN.match(data)
    if not data or found is None:
        return (1, "") if not data else None
    try:
        count, name = int(found[1]), (found[2] or b"").decode()
    except UnicodeDecodeError:
        return None
    well = count % 2 and len(name.encode()) <= MOST_BYTES and name.isprintable() if name else count > 1
    return (count, name) if well else None


def _strange(ref: str, path: str) -> RecordError:
    return RecordError(f"{in_quotes(ref)} is not what gitbaton writes: {in_quotes(path)}")


def _unreadable(ref: str, why: str) -> RecordError:
    return RecordError(f"{in_quotes(ref)} cannot be read: {why}", MENDS)


def _entries(store: Chains, ref: str, path: str, tree: Oid) -> list[TreeEntry]:
    found = store.objects.read(tree, _MAX_TREE)
    if found is None or found.kind != "tree" or found.data is None:
        raise _unreadable(ref, f"tree {in_quotes(path)}, {tree}")
    return parse_tree(found.data, store.objects.algorithm)


def _ids(store: Chains, ref: str, name: str, tree: Oid) -> dict[Oid, Oid]:
    """Return the checkpoints that a folder names, each with the blob beside it."""
    found: dict[Oid, Oid] = {}
    folders = _entries(store, ref, name, tree)
    read = store.objects.read_many([e.oid for e in folders], _MAX_TREE)
    for folder, below in zip(folders, read, strict=True):
        path = f"{name}/{folder.name.decode('utf-8', 'backslashreplace')}"
        if not folder.is_tree or not _FOLDER.match(folder.name):
            raise _strange(ref, path)
        if below is None or below.kind != "tree" or below.data is None:
            raise _unreadable(ref, f"tree {in_quotes(path)}, {folder.oid}")
        for entry in parse_tree(below.data, store.objects.algorithm):
            oid = (folder.name + entry.name).decode("utf-8", "backslashreplace")
            if entry.mode != b"100644" or not is_oid(store.objects.algorithm, oid):
                raise _strange(ref, f"{path}/{oid[2:]}")
            found[oid] = entry.oid
    return found


def _blobs(store: Chains, ref: str, name: str, ids: Mapping[Oid, Oid], *, plain: bool) -> dict[Oid, tuple[int, str]]:
    """Parse the blobs of a folder as ``pin_of`` does. With ``plain`` all must be empty."""
    said = {new_object(store.objects.algorithm, "blob", b"").oid: (1, "")}
    blobs = sorted(set(ids.values()) - said.keys())
    for blob, found in zip(blobs, store.objects.read_many(blobs, 16 + MOST_BYTES), strict=True):
        if found is None:
            raise _unreadable(ref, f"blob {blob}")
        pin = pin_of(found.data) if found.kind == "blob" and found.data and not plain else None
        said |= {blob: pin} if pin is not None else {}
    for oid, blob in ids.items():
        if blob not in said:
            raise _strange(ref, f"{name}/{oid[:2]}/{oid[2:]}")
    return {oid: said[blob] for oid, blob in ids.items()}


def objects_for(store: Chains, meta: Meta, parents: Iterable[Oid] = ()) -> list[NewObject]:
    """Return the objects to write for ``meta``; the last one is its commit.

    Without ``parents`` every clone that knows the same writes the same commit; with some it follows one that may not be
    replaced.
    """
    algorithm = store.objects.algorithm
    names = {oid: name for oid, name in meta.names.items() if oid not in meta.forgotten}
    said = {oid: (count, names.get(oid, "")) for oid, count in meta.pins.items() if count > 0}
    texts = {(n, name): f"{n}\n{name}\n" if name else f"{n}\n" if n > 1 else "" for n, name in {(1, ""), *said.values()}}
    blobs = {pin: new_object(algorithm, "blob", text.encode()) for pin, text in texts.items()}
    made, empty = [*blobs.values()], blobs[1, ""].oid
    pins = {oid: blobs[pin].oid for oid, pin in said.items()}
    folders = ((_PINS, pins), (_PRUNED, dict.fromkeys(meta.pruned, empty)), (_FORGOTTEN, dict.fromkeys(meta.forgotten, empty)))
    rows = ((f"{name.decode()}/{oid[:2]}/{oid[2:]}", "100644", blob) for name, ids in folders for oid, blob in ids.items())
    made += tree_objects(algorithm, rows)
    pinned, names = {oid: count for oid, (count, _) in said.items()}, {oid: name for oid, (_, name) in said.items() if name}
    _remembered(store, made[-1].oid, replace(meta, pins=pinned, names=names))
    data = commit_data(tree=made[-1].oid, parents=parents, author=_AUTHOR, message=_MESSAGE)
    return [*made, new_object(algorithm, "commit", data)]
