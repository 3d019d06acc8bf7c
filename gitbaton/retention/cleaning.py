"""Rewriting safety checkpoints without what is forgotten, so that undo and redo still bring back everything else."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from gitbaton.codec import canonical, document, message, parse
from gitbaton.errors import RecordError
from gitbaton.git.objects import (
    Kind,
    NewObject,
    Objects,
    TreeEntry,
    commit_data,
    lookup,
    new_object,
    object_id,
    parse_commit,
    parse_tree,
    tree_data,
)
from gitbaton.model import FileState, Oid, Skipped, Stored
from gitbaton.retention.inventory import Chain
from gitbaton.retention.removing import Trimmed, rebuilt
from gitbaton.store import Store
from gitbaton.store.join import Link, links
from gitbaton.store.safety import beside, paths_beside
from gitbaton.values import replace

_SHORT = 10
_TOUCHED, _ONLY, _APART = b"touched", b"index-only", b"index-apart"  # lists of paths beside the stages
_INDEX = b"gitbaton index 1\n"
_SIDES = (b"raw", b"after", b"after-raw")
_STAGES = (b"1", b"2", b"3")
_MAX_TREE = 64 << 20
_DEEPEST = 400
_GITLINK = b"160000"


def cleaned(store: Store, chain: Chain, gone: Collection[Oid], blobs: Collection[Oid]) -> Trimmed | None:
    """The chain without the words of the checkpoints ``gone`` and without ``blobs``; None when it has neither.

    Raises RecordError.
    """
    work = _Cleaner(store, gone, blobs)
    made = [
        work.link(link, stored) for link, stored in zip(links(store, chain.name, chain.tip), chain.items[::-1], strict=True)
    ]
    if not work.rewritten:
        return None
    objects, change = rebuilt(store, chain, made)
    return Trimmed(
        chain=chain,
        remove=(),
        rewritten=tuple(work.rewritten[::-1]),
        taken=work.taken,
        objects=(*work.sieve.made, *objects),
        change=change,
    )


class _Cleaner:
    """The links of one chain, oldest first: later ones name the earlier ones by their new ids."""

    def __init__(self, store: Store, gone: Collection[Oid], blobs: Collection[Oid]) -> None:
        self.store = store
        self.sieve = Sieve(store.objects, blobs)
        self.said = [f"restore of {oid[:_SHORT]}" for oid in gone]
        self.renamed: dict[Oid, Oid] = {}
        self.rewritten: list[Stored] = []
        self.taken: dict[Oid, tuple[str, ...]] = {}

    def link(self, link: Link, stored: Stored) -> Link:
        """The checkpoint as it is to be."""
        new, base = stored.checkpoint, link.base
        if any(text in new.step for text in self.said):
            before, name, _ = new.step.partition("restore of ")
            new = replace(new, step=f"{before}{name}a forgotten checkpoint")
        if new.files is not None:
            files, base = self._without(stored, new.files, link.base)
            new = replace(new, files=files)
        if new != stored.checkpoint or base != link.base:
            self.rewritten.append(stored)
        done = new.restore
        if done is not None and done.target in self.renamed:
            new = replace(new, restore=replace(done, target=self.renamed[done.target]))
        if new.previous in self.renamed:
            new = replace(new, previous=self.renamed[new.previous])
        if new == stored.checkpoint and base == link.base:
            return link
        known = parse(stored.raw)
        raw = canonical({**(known if isinstance(known, dict) else {}), **document(new)})
        oid = object_id(self.store.objects.algorithm, "blob", raw)
        self.renamed[stored.id] = oid
        tree = new.files.tree if new.files is not None else link.tree
        return replace(link, id=oid, message=message(new.step, raw), tree=tree, base=base)

    def _without(self, stored: Stored, files: FileState, base: Oid | None) -> tuple[FileState, Oid | None]:
        """The captured state without the blobs. A path whose content went is left alone by undo and redo."""
        side = beside(self.store, stored)
        lost = {path for path, _ in self.sieve.places(stored.tree)}
        staged = {path for path, _ in self.sieve.places(files.index.tree)}
        apart = {path for path, _ in self.sieve.places(side)}
        conflicts = {path.partition(b"/")[2] for path in apart if path.partition(b"/")[0] in _STAGES}
        if not (lost or staged or apart):
            return files, base
        drop: dict[bytes, TreeEntry | None] = dict.fromkeys(apart)
        drop |= {room + b"/" + path: None for room in _SIDES for path in lost}
        drop |= {room + b"/" + path: None for room in _STAGES for path in conflicts}
        index = self.sieve.changed(files.index.tree, {path: self._of_head(stored, path) for path in staged})
        lists = self._lists(stored, lost, staged | conflicts) if side else {}
        left = self.sieve.changed(side, {**drop, **lists}, stays=(b"after",)) if side else None
        raw = {path for path in drop if path.startswith(b"raw/") and side and lookup(self.store.objects, side, path)}
        names = sorted(lost | conflicts | {p.removeprefix(b"raw/") for p in raw})
        only = [f"{os.fsdecode(path)} (staged)" for path in sorted(staged.difference(names))]
        if names or only:
            self.taken[stored.id] = (*map(os.fsdecode, names), *only)
        there = {skipped.path for skipped in files.skipped}
        new = tuple(Skipped(path=p, reason="excluded") for p in map(os.fsdecode, names) if p not in there)
        state = replace(files.index, tree=index, unmerged=max(0, files.index.unmerged - len(conflicts)))
        tree = self.sieve.changed(stored.tree, dict.fromkeys(lost))
        made = replace(files, tree=tree, index=state, skipped=(*files.skipped, *new), raw=max(0, files.raw - len(raw)))
        return made, self._base(base, index, left)

    def _of_head(self, stored: Stored, path: bytes) -> TreeEntry | None:
        """What a path of the index is to be: as HEAD has it."""
        tree = self.store.tree_of(stored.checkpoint.head)
        entry = lookup(self.store.objects, tree, path) if tree else None
        return entry if entry is not None and not entry.is_tree and entry.oid not in self.sieve.blobs else None

    def _lists(self, stored: Stored, lost: Collection[bytes], staged: Collection[bytes]) -> dict[bytes, TreeEntry | None]:
        """The lists beside the stages that no longer name the paths that are left alone."""
        found = (paths_beside(self.store, stored, name) for name in (_TOUCHED, _ONLY, _APART))
        touched, only, apart = (None if paths is None else set(map(os.fsencode, paths)) for paths in found)
        wanted: dict[bytes, set[bytes]] = {}
        if touched is not None and not touched.isdisjoint(lost):
            wanted[_TOUCHED] = touched.difference(lost)
        if only is not None and not only.isdisjoint(staged):
            wanted[_ONLY] = only.difference(staged)
        if only is None and staged:
            wanted[_APART] = (apart or set()).union(staged)
        texts = {name: b"".join(path + b"\0" for path in sorted(paths)) for name, paths in wanted.items()}
        return {name: TreeEntry(mode=b"100644", name=name, oid=self.sieve.add("blob", data)) for name, data in texts.items()}

    def _base(self, base: Oid | None, index: Oid, side: Oid | None) -> Oid | None:
        """The index commit for another index and another tree beside it."""
        found = self.store.objects.read(base) if base is not None else None
        commit = parse_commit(found.data) if found is not None and found.data is not None else None
        if commit is None or commit.message != _INDEX:
            return base
        parents = commit.parents
        if side is not None:
            second = self.store.objects.read(parents[-1])
            if second is None or second.data is None:
                raise RecordError(f"commit {parents[-1]} cannot be read")
            stages = parse_commit(second.data)
            data = commit_data(tree=side, parents=(), author=stages.author, message=stages.message)
            parents = (*parents[:-1], self.sieve.add("commit", data))
        data = commit_data(tree=index, parents=parents, author=commit.author, message=commit.message)
        return self.sieve.add("commit", data)


class Sieve:
    """Where trees hold some of ``blobs``, each tree read once; the objects that were written again are in ``made``."""

    def __init__(self, objects: Objects, blobs: Collection[Oid]) -> None:
        self.objects, self.blobs = objects, blobs
        self.made: list[NewObject] = []
        self._seen: dict[Oid, tuple[tuple[bytes, Oid], ...]] = {}

    def places(self, tree: Oid | None, depth: int = 0) -> tuple[tuple[bytes, Oid], ...]:
        """Each path of a tree that holds one of the blobs, and which; what is not here holds none. Raises RecordError."""
        if tree is None or not self.blobs:
            return ()
        known = self._seen.get(tree)
        if known is not None:
            return known
        if depth > _DEEPEST:
            raise RecordError(f"tree {tree} lies more than {_DEEPEST} folders deep")
        found: list[tuple[bytes, Oid]] = []
        for entry in self._entries(tree):
            if entry.is_tree:
                found += ((entry.name + b"/" + path, oid) for path, oid in self.places(entry.oid, depth + 1))
            elif entry.oid in self.blobs and entry.mode != _GITLINK:
                found.append((entry.name, entry.oid))
        self._seen[tree] = tuple(found)
        return self._seen[tree]

    def changed(self, tree: Oid, wanted: Mapping[bytes, TreeEntry | None], stays: Collection[bytes] = ()) -> Oid:
        """The tree with what ``wanted`` has at some paths, None for nothing; a folder left empty goes, but for those at
        its top that ``stays`` names, and none is made."""
        return (self._changed(tree, wanted, stays) if wanted else tree) or self.add("tree", b"")

    def _changed(self, tree: Oid, wanted: Mapping[bytes, TreeEntry | None], stays: Collection[bytes] = ()) -> Oid | None:
        below: dict[bytes, dict[bytes, TreeEntry | None]] = {}
        for path, new in wanted.items():
            name, _, rest = path.partition(b"/")
            below.setdefault(name, {})[rest] = new
        before = self._entries(tree)
        after: list[TreeEntry] = []
        for entry in before:
            inside = below.pop(entry.name, {})
            if entry.is_tree:
                deeper = {path: new for path, new in inside.items() if path}
                oid = self._changed(entry.oid, deeper) if deeper else entry.oid
                oid = oid or (self.add("tree", b"") if entry.name in stays else None)
                after += [replace(entry, oid=oid)] if oid else []
            elif (new := inside.get(b"", entry)) is not None:
                after.append(replace(entry, mode=new.mode, oid=new.oid))
        after += [new for inside in below.values() if (new := inside.get(b"")) is not None]
        if after == before:
            return tree
        return self.add("tree", tree_data(after)) if after else None

    def add(self, kind: Kind, data: bytes) -> Oid:
        """The id of an object that is to be written."""
        self.made.append(new_object(self.objects.algorithm, kind, data))
        return self.made[-1].oid

    def _entries(self, tree: Oid) -> list[TreeEntry]:
        found = self.objects.read(tree, _MAX_TREE)
        if found is None:
            return []
        if found.kind != "tree" or found.data is None:
            raise RecordError(f"object {tree} cannot be read as a tree")
        return parse_tree(found.data, self.objects.algorithm)
