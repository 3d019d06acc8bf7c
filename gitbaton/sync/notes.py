"""Notes of an exchange, and pins and tombstones: what a push tells a remote of them, and which of its notes ours lack."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.codec import Note, parse_note, track_in
from gitbaton.errors import RecordError
from gitbaton.git.notes import walk
from gitbaton.git.objects import NewObject, author_at
from gitbaton.model import Oid
from gitbaton.store import NOTES, Store
from gitbaton.store import meta as metas
from gitbaton.store.join import marks
from gitbaton.store.meta import Meta
from gitbaton.store.notes import Places, plan_notes
from gitbaton.store.refs import META
from gitbaton.store.write import NOBODY
from gitbaton.sync.items import Seen, said
from gitbaton.sync.tracks import Comparison
from gitbaton.sync.values import Move


def meta_move(store: Store, seen: Seen, both: Meta) -> tuple[list[Move], list[NewObject]]:
    """What the remote is told of pins and tombstones: all that both sides know, on top of what it has."""
    if both == said(store, seen):
        return [], []
    old = seen.refs.get(META)
    objects = metas.objects_for(store, both, (old,) if old is not None else ())
    return [Move(ref=META, action="forward" if old is not None else "new", seen=old, new=objects[-1].oid)], objects


def keeps(store: Store, compared: Comparison, moves: Sequence[Move]) -> str:
    """What is forgotten and stays on a remote that lets nothing be rewritten, in words; empty for nothing."""
    if compared.rewriting or not compared.both.forgotten:
        return ""
    count, theirs = sum(move.forgotten for move in moves), compared.seen.refs.get(NOTES)
    onto = (theirs, store.tree_of(theirs))
    noted = plan_notes(store, {}, b"", b"", compared.both.forgotten, onto)[1] if onto[1] else None
    parts = [f"{count} forgotten checkpoint{'' if count == 1 else 's'}"] if count else []
    parts += ["notes of forgotten checkpoints"] if noted else []
    return " and ".join(parts)


def notes_move(baton: Baton, compared: Comparison, moves: Sequence[Move]) -> tuple[list[Move], list[NewObject]]:
    """The remote's notes with the entries of our public checkpoints, and without those of dropped ones.

    Our own notes, whose history names tracks that stay here, never go. Where an entry must go, the commit has no parent; where
    the server refuses rewriting, it stays.
    """
    store, old = baton.store, compared.seen.refs.get(NOTES)
    tree = store.tree_of(old)
    if old is not None and tree is None:
        raise RecordError("the remote's notes are no commit")
    public = {
        m.name: m for m in moves if m.kind == "track" and m.name in compared.ours and m.action not in ("delete", "refused")
    }
    texts = dict(_texts(store, compared, public))
    both = compared.both
    removed = (both.forgotten | both.pruned) if compared.rewriting else frozenset[Oid]()
    removed = frozenset(oid for oid in removed if both.dropped(oid))
    author = author_at(NOBODY, baton.clock())
    objects, change = plan_notes(store, texts, author, b"checkpoints pushed\n", removed, (old, tree))
    if change is None or change.new is None:
        return [], []
    action = "new" if old is None else "forward" if b"\nparent " in objects[-1].data else "rewrite"
    return [Move(ref=NOTES, action=action, seen=old, new=change.new)], objects


def _texts(store: Store, compared: Comparison, public: Collection[str]) -> Iterable[tuple[Oid, bytes]]:
    """The remote's notes as they must be, as far as they are not: with our entries in the ``public`` tracks, in the order of
    time where that is known of all, and each whole or short as its place says."""
    if not public:
        return
    both, places = compared.both, Places(store)
    fresh: dict[str, frozenset[Oid]] = {}
    known: dict[str, frozenset[Oid]] = {}

    def is_public(oid: Oid, text: bytes) -> bool:
        track = track_in(text)
        if both.dropped(oid) or track not in public:
            return False
        if track not in fresh:
            found = marks(store, compared.added.get(track, []))
            fresh[track] = frozenset(mark[1] for mark in found if mark is not None)
        if oid not in fresh[track] and track not in known:  # what the remote has already is seldom asked for
            known[track] = frozenset(compared.ids(track, compared.ours[track]))
        return oid in fresh[track] or oid in known[track]

    for target, ours, theirs in _differing(store, store.notes_tree()[0], compared.seen.refs.get(NOTES)):
        note, there = parse_note(ours), parse_note(theirs)
        have, said = dict(there.entries), dict(note.entries)
        kept = {oid: text for oid, text in have.items() if not (compared.rewriting and both.dropped(oid))}
        more = {oid for oid, text in note.entries if oid not in have and is_public(oid, text)}
        own = {oid: kept.get(oid, text) for oid, text in note.entries if oid in more or oid in kept}
        rest = {oid: text for oid, text in kept.items() if oid not in own}
        texts = own | rest if more else kept
        entries = tuple(texts.items())
        if (more and rest) or _apart(note, there):
            found = {oid: places.anywhere(oid, text) for oid, text in entries}
            order = sorted(((place.created, oid) for oid, place in found.items() if place is not None), reverse=True)
            if len(order) == len(found):
                entries = tuple((oid, texts[oid]) for _, oid in order)

        def full(oid: Oid, text: bytes, said: Mapping[Oid, bytes] = said) -> bytes:
            own = said.get(oid, text)
            return own if own != text and is_public(oid, own) else text

        text = Note(preamble=there.preamble, entries=entries, older=there.older).render(full)
        if entries and parse_note(text) != there:
            yield target, text


def _apart(one: Note, other: Note) -> bool:
    """Whether two notes have what is in both in another order."""
    both = dict(one.entries).keys() & dict(other.entries).keys()
    return [oid for oid, _ in one.entries if oid in both] != [oid for oid, _ in other.entries if oid in both]


def more_notes(store: Store, commit: Oid, entry_of: Callable[[Oid, Oid, bytes], bytes | None]) -> Mapping[Oid, bytes]:
    """The notes of a commit of notes as far as ours say less; an entry that we have in that note is as we have it, and each
    other one is what ``entry_of`` makes of it, from the object that the note is for, the id, and the text. A note of ours that
    only has another order, or is longer than it must be, is among them with nothing."""
    result = {}
    for target, theirs, ours in _differing(store, commit, store.notes_tree()[0]):
        fetched, known = parse_note(theirs), parse_note(ours)
        have = {oid for oid, _ in known.entries}
        made = [(oid, entry_of(target, oid, text)) for oid, text in fetched.entries if oid not in have]
        entries = tuple((oid, text) for oid, text in made if text is not None)
        if entries or fetched.preamble:
            result[target] = Note(preamble=fetched.preamble, entries=entries, older=fetched.older).render()
        elif _apart(known, fetched) or known.render() != ours:
            result[target] = b""
    return result


def _differing(store: Store, *commits: Oid | None) -> Iterator[tuple[Oid, bytes, bytes]]:
    """The notes of the first of two commits of notes that are not the second's, each with the object that it is for, and beside
    the other's. Raises RecordError for what is none, or cannot be read."""
    notes: list[dict[Oid, list[Oid]]] = []
    for commit in commits:
        tree = store.tree_of(commit)
        if commit is not None and tree is None:
            raise RecordError(f"{commit} is not a commit of notes")
        found: dict[Oid, list[Oid]] = {}
        for target, blob in walk(store.objects, tree) if tree else ():
            found.setdefault(target, []).append(blob)
        notes.append(found)
    for target, blobs in notes[0].items():
        others = notes[1].get(target, [])
        if blobs != others:
            yield target, _raw(store, blobs), _raw(store, others)


def _raw(store: Store, blobs: Sequence[Oid]) -> bytes:
    """A note's text, whose blobs these are. Raises RecordError for one that cannot be read."""
    read = [found.data for found in store.objects.read_many(blobs) if found is not None and found.kind == "blob"]
    if len(read) != len(blobs) or None in read:
        raise RecordError("a note cannot be read")
    return b"\n".join(data for data in read if data is not None)
