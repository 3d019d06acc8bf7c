"""Rebuilding of refs of ours: each chain, run, thread, conversation, the pins and the notes from what of them can be read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta

from gitbaton.agents.transcripts import layout
from gitbaton.base.codec import (
    Json,
    canonical,
    counted,
    decode,
    document,
    encode,
    in_quotes,
    message,
    parse,
    parse_note,
    payload,
)
from gitbaton.base.codec.text import MAX_BYTES
from gitbaton.base.errors import BatonError, RecordError, UsageError
from gitbaton.base.model import Checkpoint, FileState, Here, IndexState, Oid, Skipped, Stored, Transcript
from gitbaton.base.values import replace, value
from gitbaton.care.mending.survey import LARGEST, Lost, Made, Reach, Survey
from gitbaton.checkpoints.store import NOTES
from gitbaton.checkpoints.store import meta as store_meta
from gitbaton.checkpoints.store.chain import INDEX, MAX_COMMIT, ROOMS, STAGES, beside, root_objects
from gitbaton.checkpoints.store.join import Link, Places, linked, on_top, plan_notes
from gitbaton.checkpoints.store.meta import MOST_BYTES, Meta, pin_of
from gitbaton.checkpoints.store.provenance import of_run
from gitbaton.checkpoints.store.read import readable_checkpoints
from gitbaton.checkpoints.store.refs import THREADS, remote_of
from gitbaton.checkpoints.store.signatures import SET, objects_for, signed_id
from gitbaton.checkpoints.store.write import NOBODY
from gitbaton.git.objects import NewObject, RawCommit, TreeEntry, author_at, commit_data, object_id, tree_data, walk_notes
from gitbaton.git.questions import filtered_commits
from gitbaton.git.signing import MAX_SIGNED
from gitbaton.langgraph.threads.build import rebuild
from gitbaton.langgraph.threads.chain import AUTHOR, Batch, LateWrites, ThreadChain, entry_of
from gitbaton.langgraph.threads.codec import ThreadCheckpoint
from gitbaton.langgraph.threads.health import reader
from gitbaton.runs.journal.chain import RECORD, subject
from gitbaton.runs.journal.codec import decode as decode_record
from gitbaton.runs.journal.codec import encode as encode_record
from gitbaton.runs.journal.state import is_mark
from gitbaton.runs.journal.values import TREES, Cause, Reads, Record

_LOST = "a checkpoint or more"
_ID = re.compile(rb"\b(?:[0-9a-f]{40}|[0-9a-f]{64})\b")
GAP = "gap: what was recorded here cannot be read any more"
_SHORT = 10
_LINK = b"160000"
_META = b"gitbaton meta 1\n"
_PARTS = (b"pins", b"pruned", b"forgotten")
_NOTES = (b"checkpoint ", b"checkpoints ", b"notes ", b"Notes ")  # how the messages of their commits begin
_MESSAGE = b"notes mended\n"
_CLOSES = re.compile(r": (end|fail|abort)(,|\Z)")
_LATEST = 3600  # seconds after a step began in which its record is sought
Fits = Callable[[Checkpoint], bool]
Row = tuple[Link, Stored] | str


class ChainMender:
    """Rebuilder of the chains of one repository: where a checkpoint has to be kept with less, and so has another id, those that
    name it follow. ``dropped``: whether a checkpoint was pruned or forgotten; None where that is not known any more."""

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
            elif (above := stored[place - 1] if place else None) is not None and above.checkpoint.imported is None:
                # so that the newest words stay the newest
                links.append(self._gap(above, stored[place + 1] if place + 1 < len(rows) else None))
                ours += [links[-1].id] if self.store.ours.knows(record) else []
        tree, root = root_objects(self.survey.algorithm)
        made, placed = on_top(self.survey.algorithm, root.oid, tree.oid, links)
        self.survey.add(made)
        anew = sum(s.id in self._anew or self._original(s.raw) != s.id for s in items)
        said = f"history was rewritten, and {counted(anew, 'checkpoint')} with it: what it holds now counts; " if anew else ""
        said += f"{counted(len(items), 'checkpoint')} can be read"
        said += f", with {counted(len(links) - len(items), 'gap')}" if len(links) > len(items) else ""
        said += f", the words of {len(self._again)} from where they stand alone" if self._again else ""
        new = placed[-1].commit if placed else None
        return Made(new=new, lost=tuple(lost), said=said, ours=tuple(ours), keep=self.whole(value))

    def whole(self, value: Oid | None) -> bool:
        """Whether a commit is none of the user's, and all that it leads to can be read."""
        survey = self.survey
        return value is not None and survey.commit(value) is not None and not (value in survey.theirs or survey.astray(value))

    def _rows(self, value: Oid | None, tip: Oid | None, fits: Fits) -> list[Row]:
        """Return the checkpoints of a chain, newest first; where some are lost, a text that says what."""
        rows: list[Row] = []
        seen: set[Oid] = set()
        tried: set[Oid] = set()  # a commit may turn out to be no checkpoint's
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
            found = self._next(last, due, seen | tried, fits)
            if found is None:
                if last is None or due is not None:
                    lose(_LOST)
                return rows
            if found.id != due and (last is not None or value is not None):
                lose(_LOST)
            tried.add(found.id)
            at = found.commit or None
            if at is None:
                link = self._of_text(found, rows)
                rows.append((link, replace(found, base=link.base, tree=link.tree)))
                last, seen, due = found, {*seen, found.id}, found.checkpoint.previous

    def _read(self, oid: Oid, due: Oid | None) -> Row | None:
        """Read a commit as a checkpoint of a chain, or say why it is none; None where it cannot be read or is the user's.
        ``due``: the id that it should have, where that is known.

        Where history was rewritten, so that it holds another tree or stands on another base than its record says, it counts as
        it is now; where it has no record, with the one that is due, if a blob holds that.
        """
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
        """Return the id of a checkpoint before git-filter-repo wrote the new ids of commits into its JSON."""
        if self._before:
            raw = _ID.sub(lambda found: self._before.get(found[0], found[0]), raw)
        return object_id(self.survey.algorithm, "blob", raw)

    def _next(self, last: Stored | None, due: Oid | None, seen: Collection[Oid], fits: Fits) -> Stored | None:
        """Return the checkpoint below one: the one that it followed, else the newest older one that no ref reaches."""
        known, oid = self.survey.checkpoints, due
        text = self.survey.text(due)
        there = known[due][0] if due in known else text
        if there is None or due is None or not self._free(due, seen) or (last is None and not fits(there.checkpoint)):
            if self.dropped is None and last is not None:
                return None  # a user may have removed what no ref reaches
            below = last.checkpoint.created if last is not None else None
            found = [s for s, *_ in known.values() if fits(s.checkpoint) and self._free(s.id, seen)]
            if last is None and not found:  # without a commit, and named by nothing
                texts = filter(None, map(self.survey.text, self.survey.records))
                found = [s for s in texts if fits(s.checkpoint) and self._free(s.id, seen)]
            older = (s for s in found if below is None or s.checkpoint.created < below)
            oid = max(((s.checkpoint.created, s.id) for s in older), default=(None, None))[1]
        return max(known[oid], key=self._rank) if oid in known else self.survey.text(oid)

    def _free(self, oid: Oid, seen: Collection[Oid]) -> bool:
        """Whether a checkpoint was neither taken yet nor removed by a user."""
        return oid not in seen and not (self.dropped is not None and self.dropped(oid))

    def _rank(self, stored: Stored) -> tuple[bool, bool, int, Oid]:
        """Return a key that prefers, of several commits of one checkpoint, one on a chain without removed ones, down to the
        root."""
        oids = self.survey.first_parents(stored.commit) if stored.commit else [stored.id]
        clean = all(self._free(s.id, ()) for s in readable_checkpoints(self.store, oids))
        return clean, oids[-1] == self.store.root, len(oids), stored.commit

    def _of_text(self, stored: Stored, rows: Sequence[Row]) -> Link:
        """Rebuild a checkpoint of which only the JSON is left, as far as the rest of its commit can be known."""
        c, commits = stored.checkpoint, self.survey.commits
        authors = [s.author for s in commits.values() if s.message.endswith(b"}\n")] or [NOBODY + b" 0 +0000"]
        near = [row[0].author for row in rows if not isinstance(row, str)]
        author = author_at((near or authors)[-1].rsplit(b" ", 2)[0], c.created)
        base = self._head(c)
        tree = c.files.tree if c.files is not None else self._tree(base)
        if c.files is not None and c.files.index.tree != self._tree(base):
            staged = c.files.index.tree
            found = (oid for oid, s in commits.items() if (s.message, s.tree, s.author) == (INDEX, staged, author))
            base = next(found, None) or self._commit(staged, [base] if base else [], author, INDEX)
        text = message(c.step, stored.raw)
        return Link(id=stored.id, created=c.created, message=text, tree=tree, base=base, author=author)

    def _gap(self, above: Stored, below: Stored | None) -> Link:
        """Return the record that stands for what is lost between two checkpoints: an automatic one without files."""
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
        """Return the checkpoint without what cannot be read: such a path is skipped as unreadable, and has another id."""
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
            tip, before, after = done.tip and self._now(done.tip), self._here(done.before), self._here(done.after)
            done = replace(done, tip=tip, before=before, after=after, target=self._now(done.target))
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
        """Return the id that a checkpoint has from now on."""
        return self.renamed.get(oid, oid)

    def _here(self, here: Here | None) -> Here | None:
        return Here(at=self._now(here.at), top=self._now(here.top)) if here is not None else None

    def _of_index(self, files: FileState, link: Link, stored: Stored, gone: list[bytes]) -> tuple[FileState, Oid | None, bool]:
        """Return the file state and the base of what is left of the index and of what lies beside it; whether a restore that
        the checkpoint was taken before can still be undone."""
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
            rooms = ((files.raw, b"raw/"), (files.held, b"held/"))
            raw, held = (max(0, count - sum(path.startswith(room) for path in unread)) for count, room in rooms)
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
        """Return the tree beside the index of a checkpoint, where the commits that lead to it cannot be read: found by its
        commit's id, or by that commit."""
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
        """Return a tree without what cannot be read, and the paths of that; None for one of which nothing is left."""
        if tree in self.survey.bad:
            return None, (b"",)
        if tree in self.survey.theirs:
            return tree, ()
        known = self._trees.get(tree)
        if known is not None:
            return known
        kept: list[TreeEntry] = []
        gone: list[bytes] = []
        for item in self.survey.entries(tree) or ():
            if item.is_tree:
                oid, below = self._pruned(item.oid)
                gone += (item.name + (b"/" + path if path else b"") for path in below)
                kept += [replace(item, oid=oid)] if oid is not None else []
            elif item.mode != _LINK and item.oid in self.survey.bad:
                gone.append(item.name)
            else:
                kept.append(item)
        left = tree if not gone else self.survey.make("tree", tree_data(kept)) if kept else None
        self._trees[tree] = left, tuple(gone)
        return self._trees[tree]

    def _head(self, checkpoint: Checkpoint) -> Oid | None:
        """Return the commit that HEAD was at, where it can be read."""
        return checkpoint.head if self.survey.commit(checkpoint.head) is not None else None

    def _tree(self, commit: Oid | None) -> Oid:
        """Return the tree of a commit; the empty one where there is none."""
        return self.store.tree_of(commit) or self.survey.make("tree", b"")

    def _commit(self, tree: Oid, parents: Sequence[Oid], author: bytes, text: bytes) -> Oid:
        return self.survey.make("commit", commit_data(tree=tree, parents=parents, author=author, message=text))


def thread(survey: Survey, ref: str, tip: Oid | None) -> Made:
    """Rebuild the chain of a thread: each checkpoint that is whole, in the order of their ids.

    A commit does not say which thread it is of. So where the newest one cannot be read, unreachable commits are taken only
    where they can be of this thread alone: not where another thread has lost its newest one, too.
    """
    read, algorithm = reader(survey), survey.algorithm
    chain = ThreadChain(read, algorithm, None)
    found: dict[str, ThreadCheckpoint] = {}
    due = [tip] if tip is not None and survey.info(tip) is not None else []
    gone = not due
    if gone:
        others = [name for name in survey.ours if name.startswith(THREADS) and name != ref]
        due = _heads(survey, Reach(survey).walk(survey.pointing[name] for name in others if name in survey.pointing).good)
        unknown = any(survey.info(survey.ours[name].oid or "") is None for name in others)
        if due and (unknown or len(due) > 1):
            left = "its newest checkpoint cannot be read, and nobody knows which chain that lies about is its"
            return Made(new=None, left=left)
    while due:
        oid = due.pop(0)
        try:
            made = chain.entry(bytes.fromhex(oid)) if survey.read(oid, LARGEST) is not None else None
        except BatonError:
            continue
        if made is not None and made.id not in found:
            found[made.id] = made
            due += [jump[0].hex() for jump in made.jump] + ([made.up.hex()] if made.up is not None else [])
    whole = {id: made for id, made in found.items() if _whole(survey, made)}
    lost = [Lost(where=f"{in_quotes(ref)}: checkpoint {id}", what="values of it") for id in sorted(found.keys() - whole.keys())]
    top = max((made.seq for made in found.values()), default=-1)
    if len(found) <= top or (tip is not None and gone):
        lost.append(Lost(where=in_quotes(ref), what="a checkpoint or more"))
    names = next((made.names for made in whole.values()), b"")
    puts = {id: made.bare() for id, made in whole.items()}
    rows: dict[str, Sequence[Batch]] = {id: [(chain.rows(made), True)] for id, made in whole.items() if made.written}
    built = rebuild(chain, puts, rows, LateWrites(read, algorithm, None), names=names)
    survey.add(NewObject(oid=oid.hex(), kind=kind, data=data) for kind, oid, data in built.objects)
    new = built.tip.hex() if built.tip is not None else None
    return Made(new=new, lost=tuple(lost), said=f"{counted(len(whole), 'checkpoint')} can be read")


def _heads(survey: Survey, taken: set[Oid]) -> list[Oid]:
    """Return the unreachable commits of threads that no other one follows."""
    ours = {oid: c for oid, c in survey.commits.items() if oid not in taken and c.author.startswith(AUTHOR + b" ")}
    heads: list[Oid] = []
    for oid in ours:
        item = survey.read(oid, LARGEST)
        try:
            entry_of(bytes.fromhex(oid), item.data if item and item.data else b"", survey.algorithm, None)
        except RecordError:
            continue
        heads.append(oid)
    below = {parent for oid in heads for parent in ours[oid].parents}
    return [oid for oid in heads if oid not in below]


def _whole(survey: Survey, made: ThreadCheckpoint) -> bool:
    try:
        oids = [*made.channels.values(), *made.rest.values(), *made.written.values()]
    except BatonError:
        return False
    found = survey.read_many([oid.hex() for oid in oids], LARGEST)
    return all(item is not None and item.data is not None for item in found)


def late(survey: Survey, ref: str, tip: Oid | None) -> Made:
    """Rebuild the writes that came late: those of each checkpoint that can be read."""
    read = reader(survey)
    rows: dict[str, Sequence[Batch]] = {}
    lost: list[Lost] = []
    old = LateWrites(read, survey.algorithm, bytes.fromhex(tip) if tip is not None else None)
    try:
        ids = list(old.ids())
    except BatonError:
        ids = []
        lost.append(Lost(where=in_quotes(ref), what="writes that came late"))
    for id in ids:
        try:
            rows[id] = old.of(id)
        except BatonError:
            lost.append(Lost(where=f"{in_quotes(ref)}: checkpoint {id}", what="writes that came late"))
    new, objects = LateWrites(read, survey.algorithm, None).changed((), rows)
    survey.add(NewObject(oid=oid.hex(), kind=kind, data=data) for kind, oid, data in objects)
    return Made(new=new.hex() if new else None, lost=tuple(lost), said=f"{counted(len(rows), 'checkpoint')}")


def conversation(survey: Survey, ref: str, tip: Oid | None, agent: str, session: str) -> Made:
    """Rebuild a conversation: the longest that is whole, else the beginning of the longest."""
    found: list[tuple[int, bool, Oid, bool, RawCommit, layout.StoredConversation]] = []
    for oid in [*([tip] if tip is not None else []), *survey.commits]:
        try:
            kept, commit = layout.kept(survey, oid, agent, session), survey.commit(oid)
        except BatonError:
            continue
        if commit is None:
            continue
        bad = Reach(survey, contents=True).walk([oid]).bad
        number = next((n for n, chunk in enumerate(kept.chunks) if chunk in bad), len(kept.chunks))
        found.append((number, oid == tip, oid, not bad, commit, kept))
        if not bad and oid == tip:
            break
    if not found:
        return Made(new=None, lost=(Lost(where=in_quotes(ref), what="the conversation"),), said="nothing of it can be read")
    number, _, oid, whole, commit, kept = max(found, key=lambda item: item[:3])
    said, cut = f"{counted(number, 'part')} can be read", number < len(kept.chunks)
    if whole:
        ended = Lost(where=in_quotes(ref), what="the end of the conversation")
        return Made(new=oid, lost=() if oid == tip else (ended,), said=said)
    lost = (Lost(where=in_quotes(ref), what=f"the conversation from part {number + 1} on"),) if cut else ()
    if number == 0:
        return Made(new=None, lost=lost, said="nothing of it can be read")
    blobs = [survey.read(chunk, LARGEST) for chunk in kept.chunks[:number]]
    data = b"".join(blob.data for blob in blobs if blob is not None and blob.data is not None)
    entries = [TreeEntry(mode=b"100644", name=b"%08d" % n, oid=chunk) for n, chunk in enumerate(kept.chunks[:number])]
    position = Transcript(size=len(data), lines=data.count(b"\n"), last=None) if cut else kept.position
    made = layout.frame(survey, entries, layout.meta(position, len(data), agent, session))
    survey.add(made)
    data = commit_data(tree=made[-1].oid, parents=(), author=commit.author, message=commit.message)
    return Made(new=survey.make("commit", data), lost=lost, said=said)


def meta(survey: Survey, tip: Oid | None, others: Iterable[Oid], *, older: bool) -> tuple[Meta, bool]:
    """Return the union of the pins and tombstones of the newest meta, as far as it can be read, of remotes' copies, and with
    ``older`` of all that lie about, to which no ref may ever have led; and whether one of them can be read whole."""
    trees = [
        *(commit.tree for commit in map(survey.commit, (tip, *others)) if commit is not None),
        *(commit.tree for commit in survey.commits.values() if older and commit.message == _META),
    ]
    found = [_meta_of(survey, tree) for tree in dict.fromkeys(trees)]
    return store_meta.union(*(said for said, _ in found)), any(whole for _, whole in found)


def _meta_of(survey: Survey, tree: Oid) -> tuple[Meta, bool]:
    """Return what can be read of a meta's tree, and whether that is all."""
    ids: dict[bytes, dict[Oid, Oid]] = {name: {} for name in _PARTS}
    whole, folders = True, [(b"", tree)]
    while folders:
        path, oid = folders.pop()
        entries = survey.entries(oid)
        whole = whole and entries is not None
        folders += [(path + item.name + b"/", item.oid) for item in entries or () if item.is_tree]
        for item in (item for item in entries or () if not item.is_tree):
            part, _, name = (path + item.name).partition(b"/")
            ids.setdefault(part, {})[name.replace(b"/", b"").decode("ascii", "replace")] = item.oid
    pins: dict[Oid, tuple[int, str]] = {}
    for oid, blob in ids[b"pins"].items():
        found = survey.read(blob, 64 + MOST_BYTES)
        pins[oid] = (pin_of(found.data) if found is not None and found.data else None) or (1, "")
    counts, names = {oid: n for oid, (n, _) in pins.items()}, {oid: name for oid, (_, name) in pins.items() if name}
    return Meta(pins=counts, names=names, pruned=frozenset(ids[b"pruned"]), forgotten=frozenset(ids[b"forgotten"])), whole


def signatures(survey: Survey, tip: Oid | None, others: Iterable[Oid], ids: Collection[Oid]) -> Made:
    """Rebuild the signatures of a track with these checkpoints: those that can be read, of older sets and remotes' copies,
    too."""
    sets = [commit for commit in map(survey.commit, (tip, *others)) if commit is not None]
    sets += [commit for commit in survey.commits.values() if commit.message == SET]
    folders = [entry for commit in sets for entry in survey.entries(commit.tree) or ()]
    named = [(folder.name, entry) for folder in folders for entry in survey.entries(folder.oid) or ()]
    found: dict[Oid, set[Oid]] = {}
    for name, entry in named:
        oid = signed_id(survey.algorithm, name, entry)
        if oid in ids and oid is not None and survey.read(entry.oid, MAX_SIGNED) is not None:
            found.setdefault(oid, set()).add(entry.oid)
    if not found:
        return Made(new=None, said="no signature can be read")
    objects = objects_for(survey.algorithm, found)
    survey.add(objects)
    return Made(new=objects[-1].oid, said=f"signatures of {counted(len(found), 'checkpoint')} can be read")


def notes(survey: Survey, tip: Oid | None, said: Iterable[Stored], dropped: Callable[[Oid], bool] | None) -> Made:
    """Rebuild the notes: the text of each that can be read, of older ones where not, and the entries of the checkpoints
    ``said``. ``dropped``: as of chains."""
    survey.pointing.pop(NOTES, None)
    texts: dict[Oid, bytes] = {}
    last = survey.commit(tip)
    older = [c for c in survey.commits.values() if c.message.startswith(_NOTES)]
    older.sort(key=lambda c: int(c.author.rsplit(b" ", 2)[1]), reverse=True)
    if last is not None and not Reach(survey, contents=True).walk([last.tree]).bad:
        older = []
    for commit in ([last] if last is not None else []) + older:
        try:
            rows = list(walk_notes(survey, commit.tree))
        except BatonError:
            continue
        for target, blob in rows:
            found = survey.read(blob, LARGEST)
            if found is not None and found.kind == "blob" and found.data is not None:
                texts.setdefault(target, found.data)
    places = Places(survey.store)

    def gone(oid: Oid) -> bool:
        return places.anywhere(oid, b"") is None and (dropped is None or dropped(oid))

    heads = (s.checkpoint.head for s in said if s.checkpoint.kind == "manual")
    for target in sorted({*texts, *(head for head in heads if head is not None and survey.info(head) is not None)}):
        note = parse_note(texts.get(target, b""))
        note = replace(note, entries=tuple(item for item in note.entries if not gone(item[0])))
        texts[target] = places.settled(target, note, gone).render(places.full)  # the chains say what there is
    texts = {target: text for target, text in texts.items() if text}
    objects, change = plan_notes(survey.store, texts, NOBODY + b" 0 +0000", _MESSAGE)
    survey.add(objects)
    return Made(
        new=change.new if change is not None else None,
        lost=(Lost(where="notes", what="older states of them"),),
        said=f"{counted(len(texts), 'note')} written",
    )


@value
class FoundRecord:
    """A record as it can be read, with what lies beside it, the author of its commit and the commit that it keeps."""

    record: Record
    parts: Mapping[str, Oid]
    author: bytes
    keeps: tuple[Oid, ...] = ()
    message: bytes = b""


class RunMender:
    """The runs of one repository."""

    def __init__(self, survey: Survey) -> None:
        self.survey, self.root = survey, survey.store.root

    def mended(self, run: str, tip: Oid | None) -> Made:
        """Rebuild a run from ``tip``, its ref; None where that is unknown.

        Where a record is lost and it is not known what it was, the run stays as it is: begun afresh, it might do again what
        must not be done twice. Where it is not known which record is the newest, it could be any object here that cannot be
        read; else a mark on top of the run says that more may have followed.
        """
        out = way_out(run)
        found, closed, last = self._chain(run, tip)
        lineages = {held.record.lineage for held in found.values()}
        for held in self.about(run):
            if not lineages or held.record.lineage in lineages:
                found.setdefault(held.record.seq, held)
        torn = bool(self.survey.torn.keys() - self.survey.theirs) or bool(self.survey.packs)
        known = len({held.record.lineage for held in found.values()}) == 1 and (tip is not None or not torn)
        if not found:
            return Made(new=None, left=f"nothing of it can be read, so it stays unfinished; {out}")
        last = max(found) if last is None else last
        unknown = [seq for seq in range(last + 1) if seq not in found and seq not in closed]
        kept = [found[seq] for seq in sorted(found) if seq <= last or tip is None]
        if unknown or not known or not self._ends(tip, kept):
            said = "a record cannot be read, and nobody knows what it began, so the run stays unfinished"
            return Made(new=None, left=f"{said}; {out}")
        lost = [Lost(where=f"run '{run}': record {seq}", what=said) for seq, said in closed.items() if seq not in found]
        said = f"{counted(len(kept), 'record')} can be read"
        ours = self.survey.store.ours
        theirs = not ours.knows(of_run(run))
        if tip is None and not theirs:  # nothing was recorded here of a run that was fetched
            kept += [] if is_mark(kept[-1].record) else [_mark(kept[-1], len(kept))]
            said += ", and nobody knows whether more followed"
        parent = self.root
        for seq, held in enumerate(kept):
            whole = self._with_whole_parts(run, replace(held, record=replace(held.record, seq=seq)), lost)
            parent = self._commit(whole, parent)
        copies = (oid for name, oid in self.survey.pointing.items() if (remote_of(name) or ("", ""))[1] == of_run(run))
        if theirs and parent not in (tip, *copies):
            return Made(new=None, left=f"what can be read of it is not what was fetched; {out}")
        self.survey.add(root_objects(self.survey.algorithm))
        mine = not theirs and (tip is None or ours.has(of_run(run), tip))
        return Made(new=parent, lost=tuple(lost), said=said, ours=(parent,) if mine else ())

    def _ends(self, tip: Oid | None, kept: Sequence[FoundRecord]) -> bool:
        """Whether the newest record is among those that were found: its commit can be read, or they come to its very id."""
        if tip is None or self.survey.info(tip) is not None:
            return True
        parent = self.root
        for held in kept[:-1]:
            parent = self._commit(held, parent)
        who, start = kept[-1].author.rsplit(b" ", 2)[0], int(kept[-1].record.started.timestamp() // 1)
        dates = (who + b" %d +0000" % second for second in range(start - 1, start + _LATEST))
        return any(self._commit(replace(kept[-1], author=author), parent) == tip for author in dates)

    def _chain(self, run: str, tip: Oid | None) -> tuple[dict[int, FoundRecord], dict[int, str], int | None]:
        """Return the records that can be read from the newest commit down; of those that cannot, and by their subject closed a
        step that had begun, that subject; and the number of the newest, where it is known."""
        oids = self.survey.first_parents(tip) if tip is not None else []
        found: dict[int, FoundRecord] = {}
        subjects: dict[int, bytes] = {}
        first = oids.index(self.root) - 1 if self.root in oids else None  # where the newest would be if the last is number 0
        for place, oid in enumerate(oids):
            commit = self.survey.commit(oid) if oid != self.root else None
            if commit is None:
                continue
            held = self._held(run, commit)
            if held is None:
                subjects[place] = commit.message
            else:
                found[held.record.seq] = held
                first = held.record.seq + place
        if first is None:
            return found, {}, None
        said = {first - place: text.decode("utf-8", "replace").strip() for place, text in subjects.items()}
        return found, {seq: text for seq, text in said.items() if _CLOSES.search(text)}, first

    def _held(self, run: str, commit: RawCommit) -> FoundRecord | None:
        names = {e.name.decode("utf-8", "replace"): e.oid for e in self.survey.entries(commit.tree) or ()}
        record = self._record(run, names.pop(RECORD, ""))
        if record is None:
            return None
        return FoundRecord(record=record, parts=names, author=commit.author, keeps=commit.parents[1:], message=commit.message)

    def _record(self, run: str, oid: Oid) -> Record | None:
        item = self.survey.read(oid, MAX_BYTES) if oid else None
        try:
            record = decode_record(item.data) if item is not None and item.kind == "blob" and item.data else None
        except RecordError:
            return None
        return record if record is not None and record.run == run else None

    def about(self, run: str) -> list[FoundRecord]:
        """Return the unreachable records of a run: in commits, or only as text."""
        held = filter(None, (self._held(run, commit) for commit in self.survey.commits.values()))
        found = {encode_record(one.record): one for one in held}
        who = next((one.author.rsplit(b" ", 2)[0] for one in found.values()), NOBODY)
        bare = (RawCommit(tree=tree, parents=(), author=b"", message=b"") for tree in self.survey.run_trees)
        records = filter(None, (self._record(run, oid) for oid in self.survey.records))
        texts = (FoundRecord(record=record, parts=record.named, author=b"") for record in records)
        for one in (*filter(None, (self._held(run, commit) for commit in bare)), *texts):
            found.setdefault(encode_record(one.record), replace(one, author=author_at(who, one.record.started)))
        return list(found.values())

    def _with_whole_parts(self, run: str, held: FoundRecord, lost: list[Lost]) -> FoundRecord:
        """Return the record without what lies beside it and cannot be read; then its result is not served, and its key not made
        again."""
        record, parts, gone = held.record, dict(held.parts), list[str]()
        for name, oid in held.parts.items():
            bad = Reach(self.survey, self.survey.theirs, contents=True).walk([oid]).bad
            if bad:
                del parts[name]
                gone.append(name)
                paths = ", ".join(sorted(path.decode("utf-8", "replace") for path in bad.values() if path))
                lost.append(Lost(where=f"run '{run}': record {record.seq}", what=f"{name} {paths}".strip()))
        keeps = tuple(oid for oid in held.keeps if not Reach(self.survey, self.survey.theirs, contents=True).walk([oid]).bad)
        if not gone:
            return replace(held, keeps=keeps)
        empty = self.survey.make("tree", b"")
        changes: dict[str, object] = {"redacted": True}
        if record.reads is not None and "reads" in gone:
            changes["reads"] = Reads(globs=record.reads.globs, tree=empty, n=0)
            parts["reads"] = empty
        if record.writes is not None and {"pre", "writes"} & set(gone):
            pre = empty if "pre" in gone else record.writes.pre
            tree = empty if "writes" in gone else record.writes.tree
            listed = {"deleted": (), "digests": (), "deleted_more": 0, "digests_more": 0}  # of a tree that is gone
            changes["writes"] = replace(record.writes, pre=pre, tree=tree, **listed)
            parts |= {"pre": pre} | ({"writes": tree} if tree is not None else {})
        changes |= {"stable": False} if record.stable else {}
        changes |= {name: None for name in ("stdout", "stderr") if name in gone}
        changes |= {"undeclared": ()} if {"undeclared", "undeclared-after"} & set(gone) else {}
        return replace(held, record=replace(record, **changes), parts=parts, keeps=keeps)

    def _commit(self, held: FoundRecord, parent: Oid) -> Oid:
        """Put a record on top of a commit; the same record in the same place is the same commit."""
        try:
            raw = self.survey.make("blob", encode_record(held.record))
        except UsageError as error:
            raise RecordError(error.message) from None
        parts = [(b"40000" if name in TREES else b"100644", name, oid) for name, oid in held.parts.items()]
        entries = [TreeEntry(mode=mode, name=name.encode(), oid=oid) for mode, name, oid in (*parts, (b"100644", RECORD, raw))]
        tree = self.survey.make("tree", tree_data(entries))
        text, parents = held.message or subject(held.record), (parent, *held.keeps)
        return self.survey.make("commit", commit_data(tree=tree, parents=parents, author=held.author, message=text))


def way_out(run: str) -> str:
    """Return what a user may do about a run that stays unreadable."""
    return f"when you know that nothing of it would be done twice: git baton run prune {run} --force"


def _mark(last: FoundRecord, seq: int) -> FoundRecord:
    """Return the record that says that more may have followed."""
    old, text = last.record, "the ref of the run was lost, and perhaps records that followed"
    record = Record(
        type="release",
        run=old.run,
        lineage=old.lineage,
        started=old.at,
        host=old.host,
        pid=old.pid,
        boot=old.boot,
        seq=seq,
        state="stopped",
        cause=Cause(kind="lost"),
        text=text,
    )
    return FoundRecord(record=record, parts={}, author=last.author)
