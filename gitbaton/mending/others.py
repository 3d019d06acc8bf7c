"""Threads, conversations, pins and notes put together again from what can be read of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gitbaton.codec import counted, entry, parse_note
from gitbaton.errors import BatonError, RecordError
from gitbaton.git.notes import walk
from gitbaton.git.objects import Commit, NewObject, TreeEntry, commit_data
from gitbaton.mending.survey import LARGEST, Lost, Made, Reach, Survey
from gitbaton.model import Oid, Stored, Transcript
from gitbaton.store import NOTES
from gitbaton.store import meta as store_meta
from gitbaton.store.meta import MOST_BYTES, Meta, pin_of
from gitbaton.store.notes import plan_notes
from gitbaton.store.refs import THREADS
from gitbaton.store.write import NOBODY
from gitbaton.threads.build import rebuild
from gitbaton.threads.chain import Chain
from gitbaton.threads.codec import Entry
from gitbaton.threads.commits import AUTHOR, entry_of
from gitbaton.threads.health import reader
from gitbaton.threads.late import Batch, Late
from gitbaton.transcripts import layout
from gitbaton.values import replace

_META = b"gitbaton meta 1\n"
_PARTS = (b"pins", b"pruned", b"forgotten")
_NOTES = (b"checkpoint ", b"checkpoints ", b"notes ", b"Notes ")  # how the messages of their commits begin
_MESSAGE = b"notes mended\n"


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
    lost = [Lost(where=f"'{ref}': checkpoint {id}", what="values of it") for id in sorted(found.keys() - whole.keys())]
    top = max((made.seq for made in found.values()), default=-1)
    if len(found) <= top or (tip is not None and gone):
        lost.append(Lost(where=f"'{ref}'", what="a checkpoint or more"))
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
            entry_of(bytes.fromhex(oid), item.data if item and item.data else b"", None, survey.algorithm)
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
        lost.append(Lost(where=f"'{ref}'", what="writes that came late"))
    for id in ids:
        try:
            rows[id] = old.of(id)
        except BatonError:
            lost.append(Lost(where=f"'{ref}': checkpoint {id}", what="writes that came late"))
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
        return Made(new=None, lost=(Lost(where=f"'{ref}'", what="the conversation"),), said="nothing of it can be read")
    number, _, oid, whole, commit, kept = max(found, key=lambda item: item[:3])
    said, cut = f"{counted(number, 'part')} can be read", number < len(kept.chunks)
    if whole:
        ended = Lost(where=f"'{ref}'", what="the end of the conversation")
        return Made(new=oid, lost=() if oid == tip else (ended,), said=said)
    lost = (Lost(where=f"'{ref}'", what=f"the conversation from part {number + 1} on"),) if cut else ()
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
            rows = list(walk(survey, commit.tree))
        except BatonError:
            continue
        for target, blob in rows:
            found = survey.read(blob, LARGEST)
            if found is not None and found.kind == "blob" and found.data is not None:
                texts.setdefault(target, found.data)
    stored = sorted(said, key=lambda s: (s.checkpoint.created, s.id))
    chained = {s.id: s.checkpoint for s in stored}

    def full(oid: Oid, text: bytes) -> bytes:
        return entry(oid, chained[oid]) if oid in chained else text

    for target, raw in texts.items():
        note = parse_note(raw)
        entries = (item for item in note.entries if item[0] in chained or (dropped is not None and not dropped(item[0])))
        texts[target] = replace(note, entries=tuple(entries)).render(full)
    for one in stored:
        head = one.checkpoint.head
        if one.checkpoint.kind == "manual" and head is not None and survey.info(head) is not None:
            note = parse_note(texts.get(head, b""))
            if one.id not in {oid for oid, _ in note.entries}:
                texts[head] = note.with_entry(one.id, entry(one.id, one.checkpoint)).render()
    texts = {target: text for target, text in texts.items() if text}
    objects, change = plan_notes(survey.store, texts, NOBODY + b" 0 +0000", _MESSAGE)
    survey.add(objects)
    lost = (Lost(where="notes", what="older states of them"),)
    return Made(new=change.new if change is not None else None, lost=lost, said=f"{counted(len(texts), 'note')} written")
