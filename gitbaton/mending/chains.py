"""A chain of checkpoints put together again: what can be read above and below a tear, and what is left of each checkpoint."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

from gitbaton.codec import Json, canonical, counted, decode, document, encode, message, parse, payload
from gitbaton.errors import RecordError
from gitbaton.git.objects import TreeEntry, author_at, commit_data, object_id, tree_data
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
Row = tuple[Link, Stored] | str


class Chains:
    """Chains of one repository, one after the other: checkpoints that had to be kept with less are known to those that name
    them. ``dropped``: whether a checkpoint was pruned or forgotten; None where nobody can tell any more."""

    def __init__(self, survey: Survey, dropped: Callable[[Oid], bool] | None) -> None:
        self.survey, self.store, self.dropped = survey, survey.store, dropped
        self.renamed: dict[Oid, Oid] = {}
        self._anew: set[Oid] = set()  # checkpoints under which history was rewritten
        self._before = filtered_commits(survey.repo)
        self._trees: dict[Oid, tuple[Oid | None, tuple[bytes, ...]]] = {}

    def is_chain(self, tip: Oid | None, record: str, *, fetched: bool) -> bool:
        """Whether a commit and all below it are checkpoints, down to the root, each with the id that it was made with here; of
        what was fetched only the newest is read."""
        oids = self.survey.first_parents(tip) if tip is not None else [""]
        found = list(readable_checkpoints(self.store, oids[:1] if fetched else oids[:-1]))
        if not found or oids[-1] != self.store.root or not (fetched or len(found) == len(oids) - 1):
            return False
        return fetched or not any((oid := self._original(s.raw)) != s.id and self.store.ours.has(record, oid) for s in found)

    def mended(self, name: str, value: Oid | None, tip: Oid | None, fits: Fits, record: str) -> Made:
        """Join all checkpoints of a chain that can be read. ``value``: what its ref points at, None where that is unknown;
        ``tip``: the id of its newest one, where something else says so; ``fits``: whether an unreachable checkpoint is of this
        chain; ``record``: the file that says which of them are ours."""
        self._again: list[Oid] = []  # commits whose record was lost, and found elsewhere
        rows = self._rows(value, tip, fits)
        stored = [None if isinstance(row, str) else row[1] for row in rows]
        items, lost, links, ours = [s for s in stored if s], list[Lost](), list[Link](), list[Oid]()
        for place, row in enumerate(rows):
            if isinstance(row, str):
                above, below = stored[place - 1] if place else None, stored[place + 1] if place + 1 < len(rows) else None
                near = f"below {above.id[:_SHORT]}" if above else f"above {below.id[:_SHORT]}" if below else ""
                lost.append(Lost(where=f"{name}: {near or 'nothing of it can be read'}", what=row))
        for place, row in reversed(list(enumerate(rows))):
            if not isinstance(row, str):
                was = self._original(row[1].raw)
                links.append(self._without(name, *row, lost))
                self.renamed |= {was: links[-1].id} if was != links[-1].id else {}
                ours += [links[-1].id] if self.store.ours.has(record, row[1].id) or self.store.ours.has(record, was) else []
            elif (above := stored[place - 1] if place else None) is not None:  # so that the newest words stay the newest
                links.append(self._gap(above, stored[place + 1] if place + 1 < len(rows) else None))
                ours += [links[-1].id] if self.store.ours.knows(record) else []
        tree, root = root_objects(self.survey.algorithm)
        made, placed = on_top(self.survey.algorithm, root.oid, tree.oid, links)
        self.survey.add(made)
        anew = sum(s.id in self._anew or self._original(s.raw) != s.id for s in items)
        said = f"history was rewritten, and {counted(anew, 'checkpoint')} with it: what it holds now counts; " if anew else ""
        said += f"{counted(len(items), 'checkpoint')} can be read"
        said += f", with {counted(len(rows) - len(items), 'gap')}" if len(rows) > len(items) else ""
        said += f", the words of {len(self._again)} from where they stand alone" if self._again else ""
        new = placed[-1].commit if placed else None
        return Made(new=new, lost=tuple(lost), said=said, ours=tuple(ours), keep=self.whole(value))

    def whole(self, value: Oid | None) -> bool:
        """Whether a commit is none of the user's, and all that it leads to can be read."""
        if self.survey.commit(value) is None or value is None or value in self.survey.theirs:
            return False
        return not self.survey.astray(value)

    def _rows(self, value: Oid | None, tip: Oid | None, fits: Fits) -> list[Row]:
        """The checkpoints of a chain, newest first; where some are lost, a text that says what."""
        rows: list[Row] = []
        seen: set[Oid] = set()
        last: Stored | None = None
        at, due = value, tip

        def lose(what: str) -> None:
            if not rows or not isinstance(rows[-1], str):
                rows.append(what)

        while True:
            first = last is None
            for oid in self.survey.first_parents(at) if at is not None else ():
                if oid == self.store.root:
                    if last is not None:
                        return rows
                    break
                row = self._read(oid, due)
                if isinstance(row, str):
                    lose(row)
                elif row is not None and first and not fits(row[1].checkpoint):
                    break
                elif row is not None and self._free(row[1].id, seen):
                    rows.append(row)
                    last = row[1]
                    seen, due = {*seen, last.id}, last.checkpoint.previous
            found = self._next(last, due, seen, fits)
            if found is None:
                if last is None or due is not None:
                    lose(_LOST)
                return rows
            if found.id != due and (last is not None or value is not None):
                lose(_LOST)
            at = found.commit or None
            if at is None:
                link = self._of_text(found, rows)
                rows.append((link, replace(found, base=link.base, tree=link.tree)))
                last, seen, due = found, {*seen, found.id}, found.checkpoint.previous

    def _read(self, oid: Oid, due: Oid | None) -> Row | None:
        """A commit as a checkpoint of a chain, or why it is none; None where it cannot be read or is the user's. ``due``: the
        id that it should have, where that is known.

        Where history was rewritten, so that it holds another tree or stands on another base than its record says, it counts
        as it is now; where it has no record, with the one that is due, if a blob holds that."""
        commit = self.survey.commit(oid)
        if commit is None:
            return None
        try:
            stored = self.store.stored(self.survey.read(oid, MAX_COMMIT), None, oid)
            return linked(self.store, stored.checkpoint.track, [oid])[0], stored
        except RecordError as error:
            wrong = f"commit {oid}: {error.message}"
        base = commit.parents[1] if len(commit.parents) == 2 else None
        below = self.survey.commit(base)
        if oid in self.survey.theirs:
            return None
        if not 1 <= len(commit.parents) <= 2 or (base is not None and below is None):
            return wrong
        try:
            raw = payload(commit.message)
            checkpoint = decode(raw)
        except RecordError:
            known = self.survey.text(due)
            if known is None or author_at(commit.author.rsplit(b" ", 2)[0], known.checkpoint.created) != commit.author:
                return wrong  # the tip may still show an older one
            raw, checkpoint = known.raw, known.checkpoint
            self._again.append(oid)
        index, head = (below.tree, base) if below is not None else (self._tree(None), None)
        if below is not None and below.message == INDEX:
            head = next((parent for parent in below.parents if (c := self.survey.commit(parent)) and c.message != STAGES), None)
            if below.parents == (head,) and self._tree(head) == below.tree:
                base = head  # it only stood in for HEAD, as the first parent was the same
        oid_now, files = object_id(self.survey.algorithm, "blob", raw), checkpoint.files
        if files is not None and files.tree != commit.tree:
            self._anew.add(oid_now)
            files = replace(files, tree=commit.tree, index=replace(files.index, tree=index))
            checkpoint = replace(checkpoint, files=files, head=head)
        stored = Stored(id=oid_now, commit=oid, base=base, tree=commit.tree, raw=raw, checkpoint=checkpoint)
        text, created = message(checkpoint.step, raw), checkpoint.created
        return Link(id=oid_now, created=created, message=text, tree=commit.tree, base=base, author=commit.author), stored

    def _original(self, raw: bytes) -> Oid:
        """The id of a checkpoint before git-filter-repo wrote the new ids of commits into its JSON."""
        if self._before:
            raw = _ID.sub(lambda found: self._before.get(found[0], found[0]), raw)
        return object_id(self.survey.algorithm, "blob", raw)

    def _next(self, last: Stored | None, due: Oid | None, seen: Collection[Oid], fits: Fits) -> Stored | None:
        """The checkpoint below one: the one that it followed, else the newest older one that no ref reaches."""
        known, oid = self.survey.checkpoints, due
        text = self.survey.text(due)
        there = known[due][0] if due in known else text
        if there is None or due is None or not self._free(due, seen) or (last is None and not fits(there.checkpoint)):
            if self.dropped is None and last is not None:
                return None  # a user may have removed what no ref reaches
            below = last.checkpoint.created if last is not None else None
            found = (versions[0] for versions in known.values())
            found = (s for s in found if fits(s.checkpoint) and self._free(s.id, seen))
            older = (s for s in found if below is None or s.checkpoint.created < below)
            oid = max(((s.checkpoint.created, s.id) for s in older), default=(None, None))[1]
        return max(known[oid], key=self._rank) if oid in known else text if oid else None

    def _free(self, oid: Oid, seen: Collection[Oid]) -> bool:
        """Whether a checkpoint was not taken yet, nor removed by somebody."""
        return oid not in seen and not (self.dropped is not None and self.dropped(oid))

    def _rank(self, stored: Stored) -> tuple[bool, bool, int, Oid]:
        """Which of several commits of one checkpoint is taken: one on a chain without what was removed, down to the root."""
        oids = self.survey.first_parents(stored.commit) if stored.commit else [stored.id]
        clean = all(self._free(s.id, ()) for s in readable_checkpoints(self.store, oids))
        return clean, oids[-1] == self.store.root, len(oids), stored.commit

    def _of_text(self, stored: Stored, rows: Sequence[Row]) -> Link:
        """A checkpoint of which only the JSON is left, as it was, as far as the rest of its commit can be known."""
        c, commits = stored.checkpoint, self.survey.commits
        authors = [row[0].author for row in rows if not isinstance(row, str)] or [
            s.author for s in commits.values() if s.message.endswith(b"}\n")
        ]
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
