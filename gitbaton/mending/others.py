"""Threads, conversations, pins and notes put together again from what can be read of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gitbaton.codec import counted, entry, parse_note
from gitbaton.errors import BatonError, RecordError
from gitbaton.git.notes import walk
from gitbaton.git.objects import Kind, NewObject, TreeEntry, commit_data, new_object, parse_commit, parse_tree
from gitbaton.mending.heap import LARGEST, Heap, Reach
from gitbaton.mending.pool import Pool
from gitbaton.mending.values import Lost, Made
from gitbaton.model import Oid, Stored, Transcript
from gitbaton.store import NOTES, Store
from gitbaton.store import meta as store_meta
from gitbaton.store.bundle import plan_notes
from gitbaton.store.meta import Meta
from gitbaton.store.write import NOBODY
from gitbaton.threads.build import rebuild
from gitbaton.threads.chain import Chain
from gitbaton.threads.codec import rows_of
from gitbaton.threads.commits import AUTHOR, entry_of
from gitbaton.threads.health import reader
from gitbaton.threads.late import Batch, Late
from gitbaton.threads.values import Entry, Id
from gitbaton.transcripts import layout
from gitbaton.values import replace

_META = b"gitbaton meta 1\n"
_PARTS = (b"pins", b"pruned", b"forgotten")
_MESSAGE = b"notes mended\n"
_SINCE = "what was said since the newest that can be read; of what was forgotten since, a sync may bring something back"


def thread(heap: Heap, pool: Pool, ref: str, tip: Oid | None, taken: Iterable[Oid], *, others: bool) -> Made:
    """The chain of a thread: each checkpoint that is whole, in the order of their ids. ``taken``: the commits of other threads'
    chains. A commit does not say whose it is, so where the newest one cannot be read, what lies about is taken only where it
    can be of this thread alone: not with ``others`` of which that is so, too."""
    read = reader(heap)
    chain = Chain(read, heap.algorithm, None)
    found: dict[str, Entry] = {}
    due = [tip] if tip is not None and heap.info(tip) is not None else _heads(heap, pool, set(taken))
    if due and due != [tip] and (others or len(due) > 1):
        return Made(new=None, left="its newest checkpoint cannot be read, and nobody knows which chain that lies about is its")
    while due:
        oid = due.pop(0)
        item = heap.read(oid, LARGEST)
        try:
            made = chain.entry(bytes.fromhex(oid)) if item is not None else None
        except BatonError:
            made = None
        if made is None or made.id in found:
            continue
        found[made.id] = made
        due += [jump[0].hex() for jump in made.jump] + ([made.up.hex()] if made.up is not None else [])
    whole = {id: made for id, made in found.items() if _whole(heap, made)}
    lost = [Lost(where=f"'{ref}': checkpoint {id}", what="values of it") for id in sorted(found.keys() - whole.keys())]
    top = max((made.seq for made in found.values()), default=-1)
    if len(found) <= top or (tip is not None and heap.info(tip) is None):
        lost.append(Lost(where=f"'{ref}'", what="a checkpoint or more"))
    names = next((made.names for made in whole.values()), b"")
    puts = {id: Entry(id, e.parent, e.ck, e.md, e.channels, rest=e.rest, names=e.names) for id, e in whole.items()}
    rows: dict[str, Sequence[Batch]] = {id: _rows(read, made) for id, made in whole.items() if made.written}
    built = rebuild(chain, puts, rows, Late(read, heap.algorithm, None), names=names)
    objects = tuple(NewObject(oid=oid.hex(), kind=kind, data=data) for kind, oid, data in built.objects)
    new = built.tip.hex() if built.tip is not None else None
    return Made(new=new, objects=objects, lost=tuple(lost), said=f"{counted(len(whole), 'checkpoint')} can be read")


def _heads(heap: Heap, pool: Pool, taken: set[Oid]) -> list[Oid]:
    """The commits of threads that lie about and that no other follows."""
    ours = {oid: c for oid, c in pool.commits.items() if oid not in taken and c.author.startswith(AUTHOR + b" ")}
    heads: list[Oid] = []
    for oid in ours:
        item = heap.read(oid, LARGEST)
        try:
            entry_of(bytes.fromhex(oid), item.data if item and item.data else b"", None, heap.algorithm)
        except RecordError:
            continue
        heads.append(oid)
    below = {parent for oid in heads for parent in ours[oid].parents}
    return [oid for oid in heads if oid not in below]


def _whole(heap: Heap, made: Entry) -> bool:
    try:
        oids = [*made.channels.values(), *made.rest.values(), *made.written.values()]
    except BatonError:
        return False
    found = heap.read_many([oid.hex() for oid in oids], LARGEST)
    return all(item is not None and item.data is not None for item in found)


def _rows(read: Callable[[Id], tuple[Kind, bytes]], made: Entry) -> list[Batch]:
    blobs = {task: read(oid)[1] for task, oid in made.written.items()}
    return [(tuple(row for task, data in blobs.items() for row in rows_of(data, task)), True)]


def late(heap: Heap, ref: str, tip: Oid | None) -> Made:
    """The writes that came late: those of each checkpoint that can be read."""
    read = reader(heap)
    rows: dict[str, Sequence[Batch]] = {}
    lost: list[Lost] = []
    old = Late(read, heap.algorithm, bytes.fromhex(tip) if tip is not None else None)
    try:
        ids = list(old.ids())
    except BatonError:
        ids = []
        lost.append(Lost(where=f"'{ref}'", what="writes that came late"))
    for id in ids:
        try:
            rows[id] = old.of(id)
        except BatonError:
            lost.append(Lost(where=f"'{ref}': checkpoint {id}", what="writes that came late"))
    new, objects = Late(read, heap.algorithm, None).changed((), rows)
    made = tuple(NewObject(oid=oid.hex(), kind=kind, data=data) for kind, oid, data in objects)
    return Made(new=new.hex() if new else None, objects=made, lost=tuple(lost), said=f"{counted(len(rows), 'checkpoint')}")


def conversation(heap: Heap, pool: Pool, ref: str, tip: Oid | None, agent: str, session: str) -> Made:
    """A conversation: the longest that is whole, else the beginning of the longest."""
    known = [tip] if tip is not None else []
    found: list[tuple[int, Oid, layout.Kept]] = []
    for oid in [*known, *pool.commits]:
        try:
            kept = layout.kept(heap, oid, agent, session)
        except BatonError:
            continue
        bad = Reach(heap, contents=True).walk(kept.chunks).bad
        if oid in pool.commits and Reach(heap).walk(pool.commits[oid].parents).bad:
            bad = {**bad, oid: b""}
        number = next((n for n, chunk in enumerate(kept.chunks) if chunk in bad), len(kept.chunks))
        found.append((number, oid, kept))
        if not bad and oid == tip:
            break
    if not found:
        return Made(new=None, lost=(Lost(where=f"'{ref}'", what="the conversation"),), said="nothing of it can be read")
    number, oid, kept = max(found, key=lambda item: (item[0], item[1] == tip, item[1]))
    if number == len(kept.chunks) and not Reach(heap, contents=True).walk([oid]).bad:
        lost = () if oid == tip else (Lost(where=f"'{ref}'", what="the end of the conversation"),)
        return Made(new=oid, lost=lost, said=f"{counted(number, 'part')} can be read")
    lost = (Lost(where=f"'{ref}'", what=f"the conversation from part {number + 1} on"),) if number < len(kept.chunks) else ()
    if number == 0:
        return Made(new=None, lost=lost, said="nothing of it can be read")
    blobs = [heap.read(chunk, LARGEST) for chunk in kept.chunks[:number]]
    data = b"".join(blob.data for blob in blobs if blob is not None and blob.data is not None)
    entries = [TreeEntry(mode=b"100644", name=b"%08d" % n, oid=chunk) for n, chunk in enumerate(kept.chunks[:number])]
    cut = number < len(kept.chunks)
    position = Transcript(size=len(data), lines=data.count(b"\n"), last=None) if cut else kept.position
    made = layout.frame(heap, entries, layout.meta(position, len(data), agent, session))
    item = heap.read(oid, LARGEST)
    commit = parse_commit(item.data if item is not None and item.data is not None else b"")
    text = commit_data(tree=made[-1].oid, parents=(), author=commit.author, message=commit.message)
    objects = (*made, new_object(heap.algorithm, "commit", text))
    return Made(new=objects[-1].oid, objects=objects, lost=lost, said=f"{counted(number, 'part')} can be read")


def meta(heap: Heap, store: Store, pool: Pool, tip: Oid | None, others: Iterable[Oid]) -> tuple[Made, Meta, bool]:
    """Pins and tombstones: what the newest says, as far as it can be read, and what older ones, and those of remotes, do; and
    whether that is anything. Whatever is united it says no less than any of them."""
    items = [item for oid in (tip, *others) if oid and (item := heap.read(oid)) and item.kind == "commit"]
    trees = [parse_commit(item.data).tree for item in items if item.data]
    trees += [commit.tree for commit in pool.commits.values() if commit.message == _META]
    said, whole = store_meta.NOTHING, False
    for tree in dict.fromkeys(trees):
        part, complete = _meta_of(heap, tree)
        said, whole = store_meta.union(said, part), whole or complete
    objects = tuple(store_meta.objects_for(store, said))
    lost = (Lost(where="pins and tombstones", what=_SINCE),)
    count = counted(len(said.pins), "pin")
    text = f"{count}, {counted(len(said.pruned) + len(said.forgotten), 'tombstone')} can be read"
    return Made(new=objects[-1].oid, objects=objects, lost=lost, said=text), said, whole


def _meta_of(heap: Heap, tree: Oid) -> tuple[Meta, bool]:
    """What of a meta's tree can be read, and whether that is all."""
    ids: dict[bytes, dict[Oid, Oid]] = {name: {} for name in _PARTS}
    top, whole = _entries(heap, tree)
    for folder in top:
        below, complete = _entries(heap, folder.oid)
        whole = whole and complete
        for spread in below:
            leaves, complete = _entries(heap, spread.oid)
            whole = whole and complete
            for leaf in leaves:
                ids.setdefault(folder.name, {})[(spread.name + leaf.name).decode("ascii", "replace")] = leaf.oid
    pins: dict[Oid, int] = {}
    for oid, blob in ids[b"pins"].items():
        found = heap.read(blob, 64)
        pins[oid] = int(found.data) if found is not None and found.data and found.data.strip().isdigit() else 1
    return Meta(pins=pins, pruned=frozenset(ids[b"pruned"]), forgotten=frozenset(ids[b"forgotten"])), whole


def _entries(heap: Heap, tree: Oid) -> tuple[list[TreeEntry], bool]:
    found = heap.read(tree, LARGEST)
    if found is None or found.kind != "tree" or found.data is None:
        return [], False
    return parse_tree(found.data, heap.algorithm), True


def notes(
    heap: Heap, store: Store, pool: Pool, tip: Oid | None, said: Iterable[Stored], dropped: Callable[[Oid], bool] | None
) -> Made:
    """The notes: the text of each that can be read, of older ones where not, and the entries of the checkpoints ``said``.
    ``dropped``: as of chains."""
    heap.pointing.pop(NOTES, None)
    texts: dict[Oid, bytes] = {}
    trees = [item for oid in (tip,) if oid and (item := heap.read(oid)) and item.kind == "commit" and item.data]
    roots = [parse_commit(item.data or b"").tree for item in trees]
    older = [c for c in pool.commits.values() if c.message.startswith((b"checkpoint ", b"checkpoints ", b"notes ", b"Notes "))]
    older.sort(key=lambda c: int(c.author.rsplit(b" ", 2)[1]), reverse=True)
    roots += [] if roots and not Reach(heap, contents=True).walk(roots).bad else [c.tree for c in older]
    for root in roots:
        for target, blob in _walk(heap, root):
            found = heap.read(blob, LARGEST)
            if found is not None and found.kind == "blob" and found.data is not None:
                texts.setdefault(target, found.data)
    stored = sorted(said, key=lambda s: (s.checkpoint.created, s.id))
    ids = {s.id for s in stored}
    for target, raw in texts.items():
        note = parse_note(raw)
        entries = (item for item in note.entries if item[0] in ids or (dropped is not None and not dropped(item[0])))
        texts[target] = replace(note, entries=tuple(entries)).render()
    for one in stored:
        head = one.checkpoint.head
        if one.checkpoint.kind == "manual" and head is not None and heap.info(head) is not None:
            note = parse_note(texts.get(head, b""))
            if one.id not in {oid for oid, _ in note.entries}:
                texts[head] = note.with_entry(one.id, entry(one.id, one.checkpoint)).render()
    texts = {target: text for target, text in texts.items() if text}
    objects, change = plan_notes(store, texts, NOBODY + b" 0 +0000", _MESSAGE)
    lost = (Lost(where="notes", what="older states of them"),)
    new = change.new if change is not None else None
    return Made(new=new, objects=tuple(objects), lost=lost, said=f"{counted(len(texts), 'note')} written")


def _walk(heap: Heap, root: Oid) -> list[tuple[Oid, Oid]]:
    try:
        return list(walk(heap, root))
    except BatonError:
        return []
