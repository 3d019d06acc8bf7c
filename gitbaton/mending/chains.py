"""A chain of checkpoints put together again: what can be read above and below a tear, and what is left of each checkpoint."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

from gitbaton.codec import Json, canonical, counted, decode, document, encode, message, parse, payload
from gitbaton.errors import RecordError
from gitbaton.git.objects import Commit, TreeEntry, author_at, commit_data, object_id, tree_data
from gitbaton.git.questions import filtered_commits
from gitbaton.mending.survey import Lost, Made, Survey
from gitbaton.model import Checkpoint, FileState, Here, IndexState, Oid, Skipped, Stored
from gitbaton.store.chain import INDEX, MAX_COMMIT, ROOMS, STAGES, beside, root_objects
from gitbaton.store.join import Link, linked, on_top
from gitbaton.store.read import readable_checkpoints
from gitbaton.store.write import NOBODY
from gitbaton.values import replace

_LOST = "a checkpoint or more"
_ID = re.compile(rb"\b(?:[0-9a-f]{40}|[0-9a-f]{64})\b")
GAP = "gap: what was recorded here cannot be read any more"
_SHORT = 10
_LINK = b"160000"
Fits = Callable[[Checkpoint], bool]


class Chains:
    """Chains of one repository, one after the other: checkpoints that had to be kept with less are known to those that name
    them. ``dropped``: whether a checkpoint was pruned or forgotten; None where nobody can tell any more."""

    def __init__(self, survey: Survey, dropped: Callable[[Oid], bool] | None) -> None:
        self.survey, self.store, self.dropped = survey, survey.store, dropped
        self.renamed: dict[Oid, Oid] = {}
        self._anew: set[Oid] = set()  # checkpoints under which history was rewritten
        self._before = filtered_commits(survey.repo)
        self._trees: dict[Oid, tuple[Oid | None, tuple[bytes, ...]]] = {}

    def sound(self, tip: Oid, record: str) -> bool:
        """Whether all of a chain are checkpoints, down to the root, and none has another id than when it was made here."""
        oids = self.survey.first_parents(tip)
        found = list(readable_checkpoints(self.store, oids[:-1]))
        moved = (oid for s in found if (oid := self._original(s.raw)) != s.id and self.store.ours.has(record, oid))
        return oids[-1] == self.store.root and len(found) == len(oids) - 1 and not any(True for _ in moved)

    def mended(self, name: str, value: Oid | None, tip: Oid | None, fits: Fits, record: str) -> Made:
        """A chain whose ref points at ``value`` (None: nobody knows): of its checkpoints all that can be read. ``tip``: the id
        of its newest one, where something else says so; ``fits``: whether a checkpoint that lies about is one of its;
        ``record``: the file that says which of them are ours."""
        self._again: list[Oid] = []  # commits of which only the words were lost, and found
        items, holes = self._found(value, tip, fits)
        lost: list[Lost] = []
        for place, what in holes.items():
            hole = f"below {items[place - 1][1].id[:_SHORT]}" if place else f"above {items[0][1].id[:_SHORT]}" if items else ""
            lost.append(Lost(where=f"{name}: {hole or 'nothing of it can be read'}", what=what))
        links: list[Link] = []
        ours: list[Oid] = []
        for place in range(len(items), -1, -1):
            if place < len(items):
                oid = items[place][1].id
                was = self._original(items[place][1].raw)
                links.append(self._without(name, *items[place], lost))
                self.renamed |= {was: links[-1].id} if was != links[-1].id else {}
                ours += [links[-1].id] if self.store.ours.has(record, oid) or self.store.ours.has(record, was) else []
            if place in holes and place > 0:  # above the newest there is no gap, so that the newest words stay the newest
                links.append(self._gap(items[place - 1][1], items[place][1] if place < len(items) else None))
                ours += [links[-1].id] if self.store.ours.knows(record) else []
        tree, root = root_objects(self.survey.algorithm)
        made, placed = on_top(self.survey.algorithm, root.oid, tree.oid, links)
        self.survey.add(made)
        anew = sum(stored.id in self._anew or self._original(stored.raw) != stored.id for _, stored in items)
        said = f"history was rewritten, and {counted(anew, 'checkpoint')} with it: what it holds now counts; " if anew else ""
        said += f"{counted(len(items), 'checkpoint')} can be read"
        said += f", with {counted(len(holes), 'gap')}" if holes else ""
        said += f", the words of {len(self._again)} from where they stand alone" if self._again else ""
        new = placed[-1].commit if placed else None
        return Made(new=new, lost=tuple(lost), said=said, ours=tuple(ours), keep=self.whole(value))

    def whole(self, value: Oid | None) -> bool:
        """Whether a commit is none of the user's, and all that it leads to can be read."""
        if self.survey.commit(value) is None or value is None or value in self.survey.theirs:
            return False
        return not self.survey.astray(value)

    def _found(self, value: Oid | None, tip: Oid | None, fits: Fits) -> tuple[list[tuple[Link, Stored]], dict[int, str]]:
        """The checkpoints of a chain, newest first, and the places among them at which some are lost, each with what."""
        items: list[tuple[Link, Stored]] = []
        holes: dict[int, str] = {}
        seen: set[Oid] = set()
        at, due = value, tip
        while True:
            before = len(items)
            whole = at is not None and self._down(at, due, items, holes, seen, fits)
            if whole and items:
                return items, holes
            if len(items) > before:
                due = items[-1][1].checkpoint.previous
            found = self._next(items[-1][1] if items else None, due, seen, fits)
            if found is None:
                if not items or due is not None:
                    holes.setdefault(len(items), _LOST)
                return items, holes
            if found.id != due and (items or value is not None):
                holes.setdefault(len(items), _LOST)
            if found.commit:
                at = found.commit
                continue
            seen.add(found.id)
            link = self._of_text(found, items)
            items.append((link, replace(found, base=link.base, tree=link.tree)))
            at, due = None, found.checkpoint.previous

    def _down(
        self, at: Oid, due: Oid | None, items: list[tuple[Link, Stored]], holes: dict[int, str], seen: set[Oid], fits: Fits
    ) -> bool:
        """Take the checkpoints from a commit down to where it can be read; whether that is the root. ``due``: the id of the
        first of them, where it is known."""
        first = not items
        for oid in self.survey.first_parents(at):
            if oid == self.store.root:
                return True
            commit = self.survey.commit(oid)
            if commit is None:
                continue
            due = items[-1][1].checkpoint.previous if items else due
            try:
                stored = self.store.stored(self.survey.read(oid, MAX_COMMIT), None, oid)
                link = linked(self.store, stored.checkpoint.track, [oid])[0]
            except RecordError as error:
                taken = self._taken(oid, commit, due) if oid not in self.survey.theirs else None
                if taken is None:
                    if oid not in self.survey.theirs:
                        holes.setdefault(len(items), f"commit {oid}: {error.message}")
                    continue
                link, stored = taken
            if first and not fits(stored.checkpoint):
                return False
            if self._free(stored.id, seen):
                seen.add(stored.id)
                items.append((link, stored))
        return False

    def _taken(self, oid: Oid, commit: Commit, due: Oid | None) -> tuple[Link, Stored] | None:
        """A checkpoint whose commit holds another tree, or stands on another base, than its JSON says, since history was
        rewritten: with what the commit has now. Where it has no such JSON, with the one that is ``due`` and lies alone."""
        base = commit.parents[1] if len(commit.parents) == 2 else None
        below = self.survey.commit(base)
        if not 1 <= len(commit.parents) <= 2 or (base is not None and below is None):
            return None
        try:
            raw = payload(commit.message)
            checkpoint = decode(raw)
        except RecordError:
            known = self.survey.texts.get(due or "")
            if known is None or author_at(commit.author.rsplit(b" ", 2)[0], known.checkpoint.created) != commit.author:
                return None  # the tip may still show an older one
            raw, checkpoint = known.raw, known.checkpoint
            self._again.append(oid)
        index, head = (below.tree, base) if below is not None else (self._tree(None), None)
        if below is not None and below.message == INDEX:
            head = next((parent for parent in below.parents if (c := self.survey.commit(parent)) and c.message != STAGES), None)
            if below.parents == (head,) and self._tree(head) == below.tree:
                base = head  # it only stood in for HEAD, as the first parent was the same
        stored = Stored(
            id=object_id(self.survey.algorithm, "blob", raw),
            commit=oid,
            base=base,
            tree=commit.tree,
            raw=raw,
            checkpoint=checkpoint,
        )
        files = checkpoint.files
        if files is not None and files.tree != commit.tree:
            self._anew.add(stored.id)
            files = replace(files, tree=commit.tree, index=replace(files.index, tree=index))
            stored = replace(stored, checkpoint=replace(checkpoint, files=files, head=head))
        text = message(checkpoint.step, raw)
        link = Link(id=stored.id, created=checkpoint.created, message=text, tree=commit.tree, base=base, author=commit.author)
        return link, stored

    def _original(self, raw: bytes) -> Oid:
        """The id of a checkpoint before git-filter-repo wrote the new ids of commits into its JSON."""
        if self._before:
            raw = _ID.sub(lambda found: self._before.get(found[0], found[0]), raw)
        return object_id(self.survey.algorithm, "blob", raw)

    def _next(self, last: Stored | None, due: Oid | None, seen: Collection[Oid], fits: Fits) -> Stored | None:
        """The newest checkpoint below one that lies about: the one that it followed, else the newest older commit."""
        known, texts = self.survey.checkpoints, self.survey.texts
        if due is not None and self._free(due, seen) and (due in known or due in texts):
            return max(known[due], key=self._rank) if due in known else texts[due]
        if self.dropped is None and last is not None:
            return None  # what lies about may be what somebody removed
        found = [s for versions in known.values() for s in versions if fits(s.checkpoint) and self._free(s.id, seen)]
        if last is not None:
            found = [s for s in found if s.checkpoint.created < last.checkpoint.created]
        elif not found:
            found = [s for s in texts.values() if fits(s.checkpoint) and self._free(s.id, seen)]
        newest = max(((s.checkpoint.created, s.id) for s in found), default=None)
        return max((s for s in found if (s.checkpoint.created, s.id) == newest), key=self._rank, default=None)

    def _free(self, oid: Oid, seen: Collection[Oid]) -> bool:
        """Whether a checkpoint was not taken yet, nor removed by somebody."""
        return oid not in seen and not (self.dropped is not None and self.dropped(oid))

    def _rank(self, stored: Stored) -> tuple[bool, bool, int, Oid]:
        """Which of several commits of one checkpoint is taken: one on a chain without what was removed, down to the root."""
        oids = self.survey.first_parents(stored.commit) if stored.commit else [stored.id]
        clean = all(self._free(s.id, ()) for s in readable_checkpoints(self.store, oids))
        return clean, oids[-1] == self.store.root, len(oids), stored.commit

    def _of_text(self, stored: Stored, items: Sequence[tuple[Link, Stored]]) -> Link:
        """A checkpoint of which only the JSON is left, as it was, as far as the rest of its commit can be known."""
        c, commits = stored.checkpoint, self.survey.commits
        authors = [link.author for link, _ in items] or [s.author for s in commits.values() if s.message.endswith(b"}\n")]
        author = (authors[-1] if authors else NOBODY + b" 0 +0000").rsplit(b" ", 2)[0]
        author = author_at(author, c.created)
        base = self._head(c)
        tree = c.files.tree if c.files is not None else self._tree(base)
        if c.files is not None and c.files.index.tree != self._tree(base):
            staged = c.files.index.tree
            found = (oid for oid, s in commits.items() if (s.message, s.tree, s.author) == (INDEX, staged, author))
            base = next(found, None) or self._commit(staged, [base] if base else [], author, INDEX)
        text = message(c.step, stored.raw)
        return Link(id=stored.id, created=c.created, message=text, tree=tree, base=base, author=author)

    def _gap(self, above: Stored, below: Stored | None) -> Link:
        """The record that stands for what is lost between two checkpoints: an automatic one without files."""
        head = self._head(below.checkpoint) if below is not None else None
        lost = f"Checkpoint {above.checkpoint.previous}, or what it followed,"
        note = f"{lost} was on a damaged disk; doctor --mend left it out."
        created = above.checkpoint.created - timedelta(microseconds=1)
        raw = encode(Checkpoint(track=above.checkpoint.track, step=GAP, note=note, kind="auto", head=head, created=created))
        return Link(
            id=object_id(self.survey.algorithm, "blob", raw),
            created=created,
            message=message(GAP, raw),
            tree=self._tree(head),
            base=head,
            author=author_at(NOBODY, created),
        )

    def _without(self, name: str, link: Link, stored: Stored, lost: list[Lost]) -> Link:
        """The checkpoint without what cannot be read: such a path is skipped as unreadable, and has another id."""
        new, base, tree = stored.checkpoint, link.base, link.tree
        files, where = new.files, f"{name}: {stored.id[:_SHORT]}"
        bad = [oid for oid in (tree, base, files.index.tree if files else None) if oid and self.survey.astray(oid)]
        if bad:
            if files is not None and tree in self.survey.bad:
                lost.append(Lost(where=where, what="all its files"))
                new, files = replace(new, files=None, restore=None), None
            if files is None:
                base = self._head(new)
                tree = self._tree(base)
            else:
                left, unread = self._pruned(tree)
                tree, gone, staged = left or self._tree(None), list(unread), files.index.tree
                files, base, restorable = self._of_index(replace(files, tree=tree), link, stored, gone)
                if new.restore is not None and not restorable:
                    lost.append(Lost(where=where, what="what its restore did, so that it is no step of undo"))
                new = replace(new, files=files, restore=new.restore if restorable else None)
                lost += (Lost(where=where, what=os.fsdecode(path)) for path in gone)
                alone = (os.fsdecode(path) for path in self._pruned(staged)[1] if path not in gone)
                lost += (Lost(where=where, what=f"{path or 'all'} (staged)") for path in alone)
        words, done = new.carried, new.restore
        if words is not None:
            words = replace(words, id=self._now(words.id), restored=self._here(words.restored))
        if done is not None:
            tip = self._now(done.tip) if done.tip else None
            done = replace(done, tip=tip, before=self._here(done.before), after=self._here(done.after))
            done = replace(done, target=self._now(done.target))
        new = replace(new, carried=words, restore=done)
        anew = stored.id in self._anew or self._original(stored.raw) != stored.id
        if anew:
            new = replace(new, previous=self._now(new.previous) if new.previous else None)
        if new == stored.checkpoint and not anew:
            return replace(link, base=base, tree=tree)
        known = parse(stored.raw)
        was: list[Json] = [stored.id, *link.earlier]
        told = {**(known if isinstance(known, dict) else {}), **document(new), "was": was}
        raw = canonical({key: said for key, said in told.items() if key != "restore" or new.restore is not None})
        oid = self.renamed[stored.id] = object_id(self.survey.algorithm, "blob", raw)
        return replace(link, id=oid, message=message(new.step, raw), tree=tree, base=base, commit=None)

    def _now(self, oid: Oid) -> Oid:
        """What a checkpoint is called from now on."""
        return self.renamed.get(oid, oid)

    def _here(self, here: Here | None) -> Here | None:
        return Here(at=self._now(here.at), top=self._now(here.top)) if here is not None else None

    def _of_index(self, files: FileState, link: Link, stored: Stored, gone: list[bytes]) -> tuple[FileState, Oid | None, bool]:
        """The file state and the base of what is left of the index and of what lies beside it; whether a restore that the
        checkpoint was taken before can still be undone."""
        side = beside(self.store, stored) or self._side(link, stored)
        head = self._head(stored.checkpoint)
        index = self._pruned(files.index.tree)[0] or self._tree(head)
        left, unread = self._pruned(side) if side is not None else (None, ())
        inside = [path.partition(b"/")[2] for path in unread if path.partition(b"/")[0] in ROOMS]
        gone += (path for path in dict.fromkeys(inside) if path and path not in gone)
        if left is None or left == self._tree(None):
            left, state, raw, held = None, IndexState(tree=index), 0, 0
        else:
            state = replace(files.index, tree=index)
            raw, held = (
                max(0, count - sum(path.startswith(room) for path in unread))
                for count, room in ((files.raw, b"raw/"), (files.held, b"held/"))
            )
        base, parents = head, [head] if head else []
        if left is not None or index != self._tree(head):
            parents += [self._commit(left, (), link.author, STAGES)] if left is not None else []
            base = self._commit(index, parents, link.author, INDEX)
        there = {item.path for item in files.skipped}
        more = (Skipped(path=os.fsdecode(path), reason="unreadable") for path in gone if path)
        skipped = (*files.skipped, *(item for item in more if item.path not in there))
        safe = left is not None and any(e.name == b"after" for e in self.survey.entries(left) or ())
        return replace(files, index=state, raw=raw, held=held, skipped=skipped), base, safe

    def _side(self, link: Link, stored: Stored) -> Oid | None:
        """The tree beside the index of a checkpoint, where the commits that lead to it cannot be read: found by its commit's
        id, or by that commit."""
        base = self.survey.commit(stored.base)
        if base is None:
            commits = self.survey.commits.values()
            return next((c.tree for c in commits if c.message == STAGES and c.author == link.author), None)
        for tree in self.survey.sides:
            data = commit_data(tree=tree, parents=(), author=link.author, message=STAGES)
            if (object_id(self.survey.algorithm, "commit", data),) == base.parents[-1:]:
                return tree
        return None

    def _pruned(self, tree: Oid) -> tuple[Oid | None, tuple[bytes, ...]]:
        """A tree without what cannot be read, and the paths of that; None for one of which nothing is left."""
        if tree in self.survey.bad:
            return None, (b"",)
        if tree in self.survey.theirs:
            return tree, ()
        known = self._trees.get(tree)
        if known is not None:
            return known
        kept: list[TreeEntry] = []
        gone: list[bytes] = []
        for entry in self.survey.entries(tree) or ():
            if entry.is_tree:
                oid, below = self._pruned(entry.oid)
                gone += (entry.name + (b"/" + path if path else b"") for path in below)
                kept += [replace(entry, oid=oid)] if oid is not None else []
            elif entry.mode != _LINK and entry.oid in self.survey.bad:
                gone.append(entry.name)
            else:
                kept.append(entry)
        left = tree if not gone else self.survey.make("tree", tree_data(kept)) if kept else None
        self._trees[tree] = left, tuple(gone)
        return self._trees[tree]

    def _head(self, checkpoint: Checkpoint) -> Oid | None:
        """The commit that HEAD was at, where it can be read."""
        return checkpoint.head if self.survey.commit(checkpoint.head) is not None else None

    def _tree(self, commit: Oid | None) -> Oid:
        """The tree of a commit; the empty one where there is none."""
        return self.store.tree_of(commit) or self.survey.make("tree", b"")

    def _commit(self, tree: Oid, parents: Sequence[Oid], author: bytes, text: bytes) -> Oid:
        return self.survey.make("commit", commit_data(tree=tree, parents=parents, author=author, message=text))
