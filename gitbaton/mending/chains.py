"""A chain of checkpoints put together again: what can be read above and below a tear, and what is left of each checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

from gitbaton.codec import canonical, counted, document, encode, message, parse
from gitbaton.errors import BatonError
from gitbaton.git.objects import NewObject, TreeEntry, commit_data, new_object, object_id, parse_commit, parse_tree, tree_data
from gitbaton.mending.heap import LARGEST, Heap, Reach
from gitbaton.mending.pool import Pool
from gitbaton.mending.values import Lost, Made
from gitbaton.model import Checkpoint, FileState, IndexState, Oid, Skipped, Stored
from gitbaton.store import Store
from gitbaton.store.chain import root_objects
from gitbaton.store.join import Link, linked, on_top
from gitbaton.store.safety import beside
from gitbaton.store.values import MAX_COMMIT
from gitbaton.store.write import NOBODY
from gitbaton.values import replace

GAP = "gap: what was recorded here cannot be read any more"
_INDEX, _STAGES = b"gitbaton index 1\n", b"gitbaton stages 1\n"
_SHORT = 10
_LINK = b"160000"
_SIDES = (b"raw", b"after", b"after-raw")
Fits = Callable[[Checkpoint], bool]


class Chains:
    """Chains of one repository, one after the other: checkpoints that had to be kept with less are known to those that name
    them. ``dropped``: whether a checkpoint was pruned or forgotten; None where nobody can tell any more."""

    def __init__(self, heap: Heap, store: Store, pool: Pool, theirs: Collection[Oid], dropped: Callable[[Oid], bool] | None):
        self.heap, self.store, self.pool, self.theirs, self.dropped = heap, store, pool, theirs, dropped
        self.renamed: dict[Oid, Oid] = {}
        self._trees: dict[Oid, tuple[Oid | None, tuple[bytes, ...]]] = {}
        self._whole, self._fine = Reach(heap, theirs, contents=True), set(theirs)

    def mended(self, name: str, value: Oid | None, tip: Oid | None, fits: Fits) -> Made:
        """A chain whose ref points at ``value`` (None: nobody knows): of its checkpoints all that can be read. ``tip``: the id
        of its newest one, where something else says so; ``fits``: whether a checkpoint that lies about is one of its."""
        items, holes = self._found(name, value, tip, fits)
        lost = [Lost(where=f"{name}: {hole}", what="a checkpoint or more") for hole in holes.values()]
        links: list[Link] = []
        self.made: list[NewObject] = []
        for place in range(len(items) - 1, -1, -1):
            link, stored = items[place]
            links.append(self._without(name, link, stored, lost))
            if place in holes:
                links += self._gap(items, place)
        if len(items) in holes and items:
            links[:0] = self._gap(items, len(items))
        tree, root = root_objects(self.heap.algorithm)
        made, placed = on_top(self.heap.algorithm, root.oid, tree.oid, links)
        new = placed[-1].commit if placed else None
        said = f"{counted(len(items), 'checkpoint')} can be read"
        said += f", with {counted(len(holes), 'gap')}" if holes else ""
        return Made(new=new, objects=(*self.made, *made), lost=tuple(lost), said=said)

    def _found(
        self, name: str, value: Oid | None, tip: Oid | None, fits: Fits
    ) -> tuple[list[tuple[Link, Stored]], dict[int, str]]:
        """The checkpoints of a chain, newest first, and the places among them at which some are lost."""
        items: list[tuple[Link, Stored]] = []
        holes: dict[int, str] = {}
        seen: set[Oid] = set()
        at, due = value, tip
        while True:
            before = len(items)
            whole = at is not None and self._down(at, items, seen, fits, first=not items)
            if whole and items:
                return items, holes
            if len(items) > before:
                due = items[-1][1].checkpoint.previous
            found = self._next(items[-1][1] if items else None, due, seen, fits)
            if found is None:
                if not items or due is not None:
                    holes[len(items)] = f"below {items[-1][1].id[:_SHORT]}" if items else "nothing of it can be read"
                return items, holes
            if found.id != due and (items or value is not None):
                holes[len(items)] = f"below {items[-1][1].id[:_SHORT]}" if items else f"above {found.id[:_SHORT]}"
            if found.commit:
                at = found.commit
                continue
            seen.add(found.id)
            link = self._of_text(found, items)
            items.append((link, replace(found, base=link.base, tree=link.tree)))
            at, due = None, found.checkpoint.previous

    def _down(self, at: Oid, items: list[tuple[Link, Stored]], seen: set[Oid], fits: Fits, *, first: bool) -> bool:
        """Take the checkpoints from a commit down to where it can be read; whether that is the root."""
        for oid in self.heap.first_parents(at):
            if oid == self.store.root:
                return True
            found = self.heap.read(oid, MAX_COMMIT)
            try:
                stored = self.store.stored(found, None, oid)
                if found is None or (first and not fits(stored.checkpoint)):
                    return False
                link = linked(self.store, stored.checkpoint.track, [oid])[0]
            except BatonError:
                continue
            if stored.id not in seen and not self._is_dropped(stored.id):
                seen.add(stored.id)
                items.append((link, stored))
        return False

    def _next(self, last: Stored | None, due: Oid | None, seen: Collection[Oid], fits: Fits) -> Stored | None:
        """The newest checkpoint below one that lies about: the one that it followed, else the newest older commit."""

        def free(oid: Oid) -> bool:
            return oid not in seen and not self._is_dropped(oid)

        if due is not None and free(due):
            known = self.pool.checkpoints.get(due)
            if known is not None:
                return max(known, key=self._rank)
            text = self.pool.texts.get(due)
            if text is not None:
                return Stored(id=due, commit="", base=None, tree="", raw=text[1], checkpoint=text[0])
        if self.dropped is None and last is not None:
            return None  # what lies about may be what somebody removed
        found = [s for versions in self.pool.checkpoints.values() for s in versions if fits(s.checkpoint) and free(s.id)]
        if last is not None:
            found = [s for s in found if s.checkpoint.created < last.checkpoint.created]
        elif not found:
            texts = ((oid, text) for oid, text in self.pool.texts.items() if fits(text[0]) and free(oid))
            found = [Stored(id=oid, commit="", base=None, tree="", raw=raw, checkpoint=c) for oid, (c, raw) in texts]
        newest = max((s.checkpoint.created, s.id) for s in found) if found else None
        return max((s for s in found if (s.checkpoint.created, s.id) == newest), key=self._rank, default=None)

    def _rank(self, stored: Stored) -> tuple[bool, bool, int, Oid]:
        """Which of several commits of one checkpoint is taken: one on a chain without what was removed, down to the root."""
        oids = self.heap.first_parents(stored.commit) if stored.commit else [stored.id]
        read = [self.heap.read(oid, MAX_COMMIT) for oid in oids]
        ids = []
        for oid, found in zip(oids, read, strict=True):
            try:
                ids.append(self.store.stored(found, None, oid).id)
            except BatonError:
                continue
        return not any(map(self._is_dropped, ids)), oids[-1] == self.store.root, len(oids), stored.commit

    def _is_dropped(self, oid: Oid) -> bool:
        return self.dropped is not None and self.dropped(oid)

    def _of_text(self, stored: Stored, items: Sequence[tuple[Link, Stored]]) -> Link:
        """A checkpoint of which only the JSON is left, as it was, as far as the rest of its commit can be known."""
        c = stored.checkpoint
        authors = [link.author for link, _ in items] or [
            s.author for s in self.pool.commits.values() if s.message.endswith(b"}\n")
        ]
        author = (authors[-1] if authors else NOBODY + b" 0 +0000").rsplit(b" ", 2)[0]
        author += b" %d +0000" % int(c.created.timestamp() // 1)
        base = c.head if self._is(c.head, "commit") else None
        head_tree = self.store.tree_of(base)
        tree = c.files.tree if c.files is not None else head_tree or self._empty()
        if c.files is not None and c.files.index.tree != (head_tree or self._empty()):
            parents = (base,) if base else ()
            index = [oid for oid, s in self.pool.commits.items() if s.message == _INDEX and s.tree == c.files.index.tree]
            index = [oid for oid in index if self.pool.commits[oid].author == author]
            data = commit_data(tree=c.files.index.tree, parents=parents, author=author, message=_INDEX)
            base = index[0] if index else self._made("commit", data)
        text = message(c.step, stored.raw)
        return Link(id=stored.id, created=c.created, message=text, tree=tree, base=base, author=author)

    def _gap(self, items: Sequence[tuple[Link, Stored]], place: int) -> list[Link]:
        """The record that stands for what is lost between two checkpoints: an automatic one without files. What is lost above
        the newest has none, so that the newest words stay the newest."""
        if place == 0:
            return []
        stored = items[place - 1][1]
        below = items[place][1].checkpoint if place < len(items) else None
        head = below.head if below is not None and self._is(below.head, "commit") else None
        note = (
            f"Checkpoint {stored.checkpoint.previous}, or what it followed, was on a damaged disk; doctor --mend left it out."
        )
        created = stored.checkpoint.created - timedelta(microseconds=1)
        gap = Checkpoint(track=stored.checkpoint.track, step=GAP, note=note, kind="auto", head=head, created=created)
        raw = encode(gap)
        tree = self.store.tree_of(head) or self._empty()
        seconds = int(created.timestamp() // 1)
        return [
            Link(
                id=object_id(self.heap.algorithm, "blob", raw),
                created=created,
                message=message(GAP, raw),
                tree=tree,
                base=head,
                author=NOBODY + b" %d +0000" % seconds,
            )
        ]

    def _without(self, name: str, link: Link, stored: Stored, lost: list[Lost]) -> Link:
        """The checkpoint without what cannot be read: such a path is skipped as unreadable, and has another id."""
        new, base, tree = stored.checkpoint, link.base, link.tree
        roots = [oid for oid in (tree, base, new.files.index.tree if new.files else None) if oid and oid not in self.theirs]
        self._whole.walk(roots)
        where = f"{name}: {stored.id[:_SHORT]}"
        if any(self._bad(oid) for oid in roots):
            files = new.files
            if files is not None and self._pruned(tree)[0] is None and self._bad_here(tree):
                lost.append(Lost(where=where, what="all its files"))
                new, files = replace(new, files=None, restore=None), None
            if files is None or stored.checkpoint.files is None:
                base = new.head if self._is(new.head, "commit") else None
                tree = self.store.tree_of(base) or self._empty()
            else:
                gone = list(self._pruned(tree)[1])
                tree = self._pruned(tree)[0] or self._empty()
                files, base, restorable = self._of_index(replace(files, tree=tree), link, stored, gone)
                if new.restore is not None and not restorable:
                    lost.append(Lost(where=where, what="what its restore did, so that it is no step of undo"))
                new = replace(new, files=files, restore=new.restore if restorable else None)
                lost += (Lost(where=where, what=os.fsdecode(path)) for path in gone)
                staged = (os.fsdecode(path) for path in self._pruned(stored.checkpoint.files.index.tree)[1] if path not in gone)
                lost += (Lost(where=where, what=f"{path or 'all'} (staged)") for path in staged)
        if new.carried is not None and new.carried.id in self.renamed:
            new = replace(new, carried=replace(new.carried, id=self.renamed[new.carried.id]))
        if new.restore is not None and new.restore.target in self.renamed:
            new = replace(new, restore=replace(new.restore, target=self.renamed[new.restore.target]))
        if new == stored.checkpoint:
            return replace(link, base=base, tree=tree)
        known = parse(stored.raw)
        told = {**(known if isinstance(known, dict) else {}), **document(new)}
        raw = canonical({key: said for key, said in told.items() if key != "restore" or new.restore is not None})
        oid = object_id(self.heap.algorithm, "blob", raw)
        self.renamed[stored.id] = oid
        return replace(link, id=oid, message=message(new.step, raw), tree=tree, base=base, commit=None)

    def _of_index(self, files: FileState, link: Link, stored: Stored, gone: list[bytes]) -> tuple[FileState, Oid | None, bool]:
        """The file state and the base of what is left of the index and of what lies beside it; whether a restore that the
        checkpoint was taken before can still be undone."""
        side = beside(self.store, stored) or self._side(link, stored)
        head = stored.checkpoint.head if self._is(stored.checkpoint.head, "commit") else None
        index = self._pruned(files.index.tree)[0] or self.store.tree_of(head) or self._empty()
        state = replace(files.index, tree=index)
        left, beside_gone = self._pruned(side) if side is not None else (None, ())
        names = {path for path in beside_gone if path.partition(b"/")[0] in _SIDES}
        gone += [inside for path in names if (inside := path.partition(b"/")[2]) and inside not in gone]
        rest = bool(left) and left != self._empty()
        if not rest:
            state, files = IndexState(tree=index), replace(files, raw=0)
        elif any(path.startswith(b"raw/") for path in beside_gone):
            files = replace(files, raw=max(0, files.raw - sum(path.startswith(b"raw/") for path in beside_gone)))
        base = self._base(link, head, index, left if rest else None)
        skipped = tuple(Skipped(path=os.fsdecode(path), reason="unreadable") for path in gone if path)
        there = {item.path for item in files.skipped}
        skipped = (*files.skipped, *(item for item in skipped if item.path not in there))
        safe = b"after" in {e.name for e in self._entries(left)} if left else False
        return replace(files, index=state, skipped=skipped), base, safe

    def _side(self, link: Link, stored: Stored) -> Oid | None:
        """The tree beside the index of a checkpoint, where the commits that lead to it cannot be read: found by its commit's
        id, or by that commit."""
        found = self.heap.read(stored.base, MAX_COMMIT) if stored.base else None
        if found is None or found.data is None:
            commits = self.pool.commits.values()
            return next((c.tree for c in commits if c.message == _STAGES and c.author == link.author), None)
        due = parse_commit(found.data).parents[-1:]
        for tree in self.pool.sides:
            data = commit_data(tree=tree, parents=(), author=link.author, message=_STAGES)
            if (object_id(self.heap.algorithm, "commit", data),) == due:
                return tree
        return None

    def _base(self, link: Link, head: Oid | None, index: Oid, side: Oid | None) -> Oid | None:
        """The commit that a checkpoint stands on, for what is left of its index."""
        if side is None and index == (self.store.tree_of(head) or self._empty()):
            return head
        parents = [head] if head else []
        if side is not None:
            parents.append(self._made("commit", commit_data(tree=side, parents=(), author=link.author, message=_STAGES)))
        return self._made("commit", commit_data(tree=index, parents=parents, author=link.author, message=_INDEX))

    def _bad(self, oid: Oid) -> bool:
        """Whether an object, or something that it leads to, cannot be read and is not the user's."""
        if not self._whole.bad:
            return False
        found = Reach(self.heap, self._fine, contents=True).walk([oid])
        self._fine |= set() if found.bad else found.good
        return bool(found.bad)

    def _bad_here(self, oid: Oid) -> bool:
        return oid in self._whole.bad

    def _pruned(self, tree: Oid | None) -> tuple[Oid | None, tuple[bytes, ...]]:
        """A tree without what cannot be read, and the paths of that; None for one of which nothing is left."""
        if tree is None or self._bad_here(tree):
            return None, (b"",)
        if tree in self.theirs:
            return tree, ()
        known = self._trees.get(tree)
        if known is not None:
            return known
        kept: list[TreeEntry] = []
        gone: list[bytes] = []
        for entry in self._entries(tree):
            if entry.is_tree:
                oid, below = self._pruned(entry.oid)
                gone += (entry.name + (b"/" + path if path else b"") for path in below)
                kept += [replace(entry, oid=oid)] if oid is not None else []
            elif entry.mode != _LINK and self._bad_here(entry.oid):
                gone.append(entry.name)
            else:
                kept.append(entry)
        found = (tree if not gone else self._made("tree", tree_data(kept)) if kept else None), tuple(gone)
        self._trees[tree] = found
        return found

    def _entries(self, tree: Oid) -> list[TreeEntry]:
        found = self.heap.read(tree, LARGEST)
        return parse_tree(found.data, self.heap.algorithm) if found is not None and found.kind == "tree" and found.data else []

    def _is(self, oid: Oid | None, kind: str) -> bool:
        found = self.heap.info(oid) if oid else None
        return found is not None and found.kind == kind

    def _empty(self) -> Oid:
        return self._made("tree", b"")

    def _made(self, kind: str, data: bytes) -> Oid:
        item = new_object(self.heap.algorithm, kind, data)  # type: ignore[arg-type]
        self.made.append(item)
        self.heap.add([item])
        return item.oid
