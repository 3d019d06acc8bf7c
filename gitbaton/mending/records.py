"""Runs, threads, conversations, pins and notes put together again from what can be read of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from gitbaton.codec import Note, counted, entry, in_quotes, timestamp
from gitbaton.codec.text import MAX_BYTES
from gitbaton.errors import BatonError, RecordError, UsageError
from gitbaton.git.objects import Commit, NewObject, TreeEntry, author_at, commit_data, tree_data, walk_notes
from gitbaton.journal.chain import RECORD, subject
from gitbaton.journal.codec import decode, encode
from gitbaton.journal.state import is_mark
from gitbaton.journal.values import TREES, Cause, Reads, Record
from gitbaton.mending.survey import LARGEST, Lost, Made, Reach, Survey
from gitbaton.model import Oid, Stored, Transcript
from gitbaton.store import NOTES
from gitbaton.store import meta as store_meta
from gitbaton.store.chain import root_objects
from gitbaton.store.join import merged_note, plan_notes
from gitbaton.store.meta import MOST_BYTES, Meta, pin_of
from gitbaton.store.provenance import of_run
from gitbaton.store.refs import THREADS, remote_of
from gitbaton.store.write import NOBODY
from gitbaton.threads.build import rebuild
from gitbaton.threads.chain import AUTHOR, Batch, Chain, Late, entry_of
from gitbaton.threads.codec import Entry
from gitbaton.threads.health import reader
from gitbaton.transcripts import layout
from gitbaton.values import replace, value

_META = b"gitbaton meta 1\n"
_PARTS = (b"pins", b"pruned", b"forgotten")
_NOTES = (b"checkpoint ", b"checkpoints ", b"notes ", b"Notes ")  # how the messages of their commits begin
_MESSAGE = b"notes mended\n"
_CLOSES = re.compile(r": (end|fail|abort)(,|\Z)")
_LATEST = 3600  # seconds after a step began in which its record is sought


def thread(survey: Survey, ref: str, tip: Oid | None) -> Made:
    """The chain of a thread: each checkpoint that is whole, in the order of their ids. A commit does not say whose it is, so
    where the newest one cannot be read, what lies about and no other thread reaches is taken only where it can be of this
    thread alone: not where another has lost its newest one, too."""
    read, algorithm = reader(survey), survey.algorithm
    chain = Chain(read, algorithm, None)
    found: dict[str, Entry] = {}
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
    built = rebuild(chain, puts, rows, Late(read, algorithm, None), names=names)
    survey.add(NewObject(oid=oid.hex(), kind=kind, data=data) for kind, oid, data in built.objects)
    new = built.tip.hex() if built.tip is not None else None
    return Made(new=new, lost=tuple(lost), said=f"{counted(len(whole), 'checkpoint')} can be read")


def _heads(survey: Survey, taken: set[Oid]) -> list[Oid]:
    """The commits of threads that lie about and that no other follows."""
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


def _whole(survey: Survey, made: Entry) -> bool:
    try:
        oids = [*made.channels.values(), *made.rest.values(), *made.written.values()]
    except BatonError:
        return False
    found = survey.read_many([oid.hex() for oid in oids], LARGEST)
    return all(item is not None and item.data is not None for item in found)


def late(survey: Survey, ref: str, tip: Oid | None) -> Made:
    """The writes that came late: those of each checkpoint that can be read."""
    read = reader(survey)
    rows: dict[str, Sequence[Batch]] = {}
    lost: list[Lost] = []
    old = Late(read, survey.algorithm, bytes.fromhex(tip) if tip is not None else None)
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
    new, objects = Late(read, survey.algorithm, None).changed((), rows)
    survey.add(NewObject(oid=oid.hex(), kind=kind, data=data) for kind, oid, data in objects)
    return Made(new=new.hex() if new else None, lost=tuple(lost), said=f"{counted(len(rows), 'checkpoint')}")


def conversation(survey: Survey, ref: str, tip: Oid | None, agent: str, session: str) -> Made:
    """A conversation: the longest that is whole, else the beginning of the longest."""
    found: list[tuple[int, bool, Oid, bool, Commit, layout.Kept]] = []
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


def meta(survey: Survey, tip: Oid | None, others: Iterable[Oid]) -> tuple[Meta, bool]:
    """Pins and tombstones: what the newest says, as far as it can be read, and what older ones, and those of remotes, do; and
    whether one of them can be read whole. Whatever is united it says no less than any of them."""
    trees = [commit.tree for commit in map(survey.commit, (tip, *others)) if commit is not None]
    trees += [commit.tree for commit in survey.commits.values() if commit.message == _META]
    found = [_meta_of(survey, tree) for tree in dict.fromkeys(trees)]
    return store_meta.union(*(said for said, _ in found)), any(whole for _, whole in found)


def _meta_of(survey: Survey, tree: Oid) -> tuple[Meta, bool]:
    """What of a meta's tree can be read, and whether that is all."""
    ids: dict[bytes, dict[Oid, Oid]] = {name: {} for name in _PARTS}
    top = survey.entries(tree)
    whole = top is not None
    for folder in top or ():
        below = survey.entries(folder.oid)
        whole = whole and below is not None
        for spread in below or ():
            leaves = survey.entries(spread.oid)
            whole = whole and leaves is not None
            for leaf in leaves or ():
                ids.setdefault(folder.name, {})[(spread.name + leaf.name).decode("ascii", "replace")] = leaf.oid
    pins: dict[Oid, tuple[int, str]] = {}
    for oid, blob in ids[b"pins"].items():
        found = survey.read(blob, 64 + MOST_BYTES)
        pins[oid] = (pin_of(found.data) if found is not None and found.data else None) or (1, "")
    counts, names = {oid: n for oid, (n, _) in pins.items()}, {oid: name for oid, (_, name) in pins.items() if name}
    return Meta(pins=counts, names=names, pruned=frozenset(ids[b"pruned"]), forgotten=frozenset(ids[b"forgotten"])), whole


def notes(survey: Survey, tip: Oid | None, said: Iterable[Stored], dropped: Callable[[Oid], bool] | None) -> Made:
    """The notes: the text of each that can be read, of older ones where not, and the entries of the checkpoints ``said``.
    ``dropped``: as of chains."""
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
    stored = sorted(said, key=lambda s: (s.checkpoint.created, s.id))
    chained = {s.id: s.checkpoint for s in stored}

    times = {s.id: timestamp(s.checkpoint.created).encode() for s in stored}
    new: dict[Oid, dict[Oid, bytes]] = {target: {} for target in texts}
    for one in stored:
        head = one.checkpoint.head
        if one.checkpoint.kind == "manual" and head is not None and survey.info(head) is not None:
            new.setdefault(head, {})[one.id] = entry(one.id, one.checkpoint)

    def gone(oid: Oid) -> bool:
        return oid not in chained and (dropped is None or dropped(oid))

    def full(oid: Oid, text: bytes) -> bytes:
        return entry(oid, chained[oid]) if oid in chained else text

    def settled(note: Note) -> Note:
        return replace(note, older=False)  # the chains say what there is

    texts = {target: merged_note([texts.get(target, b"")], more, times, gone, full, settled) for target, more in new.items()}
    texts = {target: text for target, text in texts.items() if text}
    objects, change = plan_notes(survey.store, texts, NOBODY + b" 0 +0000", _MESSAGE)
    survey.add(objects)
    lost = (Lost(where="notes", what="older states of them"),)
    return Made(new=change.new if change is not None else None, lost=lost, said=f"{counted(len(texts), 'note')} written")


@value
class Held:
    """A record as it can be read, with what lies beside it, the author of its commit and the commit that it keeps."""

    record: Record
    parts: Mapping[str, Oid]
    author: bytes
    keeps: tuple[Oid, ...] = ()
    message: bytes = b""


class Runs:
    """The runs of one repository."""

    def __init__(self, survey: Survey) -> None:
        self.survey, self.root = survey, survey.store.root

    def mended(self, run: str, tip: Oid | None) -> Made:
        """A run whose ref points at ``tip`` (None: nobody knows). Where a record is gone of which nobody can say what it was,
        the run stays as it is: whoever began it afresh might do for a second time what must not be done twice. Where nobody
        knows which record is the newest, it could be anything here that cannot be read; else a mark on top of the run says that
        more may have followed."""
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

    def _ends(self, tip: Oid | None, kept: Sequence[Held]) -> bool:
        """Whether the newest record is among those that were found: its commit can be read, or they come to its very id."""
        if tip is None or self.survey.info(tip) is not None:
            return True
        parent = self.root
        for held in kept[:-1]:
            parent = self._commit(held, parent)
        who, start = kept[-1].author.rsplit(b" ", 2)[0], int(kept[-1].record.started.timestamp() // 1)
        dates = (who + b" %d +0000" % second for second in range(start - 1, start + _LATEST))
        return any(self._commit(replace(kept[-1], author=author), parent) == tip for author in dates)

    def _chain(self, run: str, tip: Oid | None) -> tuple[dict[int, Held], dict[int, str], int | None]:
        """The records that can be read from the newest commit down; of those that cannot, and by their subject closed a step
        that had begun, that subject; and the number of the newest, where it is known."""
        oids = self.survey.first_parents(tip) if tip is not None else []
        found: dict[int, Held] = {}
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

    def _held(self, run: str, commit: Commit) -> Held | None:
        names = {e.name.decode("utf-8", "replace"): e.oid for e in self.survey.entries(commit.tree) or ()}
        record = self._record(run, names.pop(RECORD, ""))
        if record is None:
            return None
        return Held(record=record, parts=names, author=commit.author, keeps=commit.parents[1:], message=commit.message)

    def _record(self, run: str, oid: Oid) -> Record | None:
        item = self.survey.read(oid, MAX_BYTES) if oid else None
        try:
            record = decode(item.data) if item is not None and item.kind == "blob" and item.data else None
        except RecordError:
            return None
        return record if record is not None and record.run == run else None

    def about(self, run: str) -> list[Held]:
        """The records of a run that lie about: in commits, or only as text."""
        held = filter(None, (self._held(run, commit) for commit in self.survey.commits.values()))
        found = {encode(one.record): one for one in held}
        who = next((one.author.rsplit(b" ", 2)[0] for one in found.values()), NOBODY)
        bare = (Commit(tree=tree, parents=(), author=b"", message=b"") for tree in self.survey.run_trees)
        records = filter(None, (self._record(run, oid) for oid in self.survey.records))
        texts = [*filter(None, (self._held(run, commit) for commit in bare))]
        for one in (*texts, *(Held(record=record, parts=record.named, author=b"") for record in records)):
            if encode(one.record) not in found:
                author = author_at(who, one.record.started)
                found[encode(one.record)] = replace(one, author=author)
        return list(found.values())

    def _with_whole_parts(self, run: str, held: Held, lost: list[Lost]) -> Held:
        """The record without what lies beside it and cannot be read; then its result is not served, and its key not made
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

    def _commit(self, held: Held, parent: Oid) -> Oid:
        """Put a record on top of a commit; the same record in the same place is the same commit."""
        try:
            raw = self.survey.make("blob", encode(held.record))
        except UsageError as error:
            raise RecordError(error.message) from None
        parts = [(b"40000" if name in TREES else b"100644", name, oid) for name, oid in held.parts.items()]
        entries = [TreeEntry(mode=mode, name=name.encode(), oid=oid) for mode, name, oid in (*parts, (b"100644", RECORD, raw))]
        tree = self.survey.make("tree", tree_data(entries))
        text = held.message or subject(held.record)
        data = commit_data(tree=tree, parents=(parent, *held.keeps), author=held.author, message=text)
        return self.survey.make("commit", data)


def way_out(run: str) -> str:
    """What a person may do about a run that stays unreadable."""
    return f"when you know that nothing of it would be done twice: git baton run prune {run} --force"


def _mark(last: Held, seq: int) -> Held:
    """The record that says that more may have followed."""
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
    return Held(record=record, parts={}, author=last.author)
