"""What goes along with tracks to a remote: pins and tombstones, notes of public checkpoints only, conversations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.codec import Note, encode_track, parse_note
from gitbaton.errors import RecordError
from gitbaton.git.objects import NewObject
from gitbaton.model import Oid
from gitbaton.store import NOTES, Store
from gitbaton.store import meta as metas
from gitbaton.store.bundle import plan_notes
from gitbaton.store.join import marks
from gitbaton.store.meta import Meta
from gitbaton.store.refs import META, TRANSCRIPTS
from gitbaton.store.write import NOBODY
from gitbaton.sync.join import note_blobs, note_text
from gitbaton.sync.look import Seen, said
from gitbaton.sync.moves import Comparison
from gitbaton.sync.values import Choice, Move
from gitbaton.transcripts.layout import sessions_of


class _There(Store):
    """This repository with the notes of a remote in the place of its own."""

    notes: Oid | None = None

    def notes_tree(self) -> tuple[Oid | None, Oid | None]:
        """The remote's commit of notes and its tree."""
        return self.notes, self.tree_of(self.notes)


def meta_move(store: Store, seen: Seen, both: Meta) -> tuple[Move | None, list[NewObject]]:
    """What the remote is told of pins and tombstones: all that both sides know, on top of what it has."""
    if both == said(store, seen):
        return None, []
    objects = metas.objects_for(store, both, (seen.meta,) if seen.meta is not None else ())
    action = "forward" if seen.meta is not None else "new"
    return Move(ref=META, action=action, seen=seen.meta, new=objects[-1].oid), objects


def keeps(store: Store, compared: Comparison, moves: Sequence[Move]) -> str:
    """What is forgotten and stays on a remote that lets nothing be rewritten, in words; empty for nothing."""
    if compared.rewriting or not compared.both.forgotten:
        return ""
    count, there = sum(move.forgotten for move in moves), _There(store.repo)
    there.notes = compared.seen.notes
    noted = plan_notes(there, {}, b"", b"", compared.both.forgotten)[1] if there.notes_tree()[1] else None
    parts = [f"{count} forgotten checkpoint{'' if count == 1 else 's'}"] if count else []
    parts += ["notes of forgotten checkpoints"] if noted else []
    return " and ".join(parts)


def notes_move(baton: Baton, compared: Comparison, moves: Sequence[Move]) -> tuple[Move | None, list[NewObject]]:
    """The remote's notes with the entries of our public checkpoints, and without those of dropped ones.

    Our own notes, whose history names tracks that stay here, never go. Where an entry must go, the commit has no parent; where
    the server refuses rewriting, it stays.
    """
    seen, store = compared.seen, _There(baton.repo)
    store.notes = seen.notes
    if seen.notes is not None and store.notes_tree()[1] is None:
        raise RecordError("the remote's notes are no commit")
    public = {m.track: m for m in moves if m.track and m.track in compared.ours and m.action not in ("delete", "refused")}
    texts = dict(_texts(baton.store, compared, public))
    both = compared.both
    removed = (both.forgotten | both.pruned) if compared.rewriting else frozenset[Oid]()
    removed = frozenset(oid for oid in removed if both.dropped(oid))
    author = NOBODY + b" %d +0000" % int(baton.clock().timestamp())
    objects, change = plan_notes(store, texts, author, b"checkpoints pushed\n", removed)
    if change is None or change.new is None:
        return None, []
    action = "new" if seen.notes is None else "forward" if b"\nparent " in objects[-1].data else "rewrite"
    return Move(ref=NOTES, action=action, seen=seen.notes, new=change.new), objects


def _texts(store: Store, compared: Comparison, public: Mapping[str, Move]) -> Iterable[tuple[Oid, bytes]]:
    """The remote's notes as they must be, as far as they lack an entry of ours."""
    ours, theirs = note_blobs(store, store.notes_tree()[0]), note_blobs(store, compared.seen.notes)
    ids = _Public(store, compared, public)
    for target, blobs in ours.items():
        if blobs == theirs.get(target):
            continue
        note, there = parse_note(note_text(store, blobs)), parse_note(note_text(store, theirs.get(target, [])))
        have = dict(there.entries)
        more = {oid for oid, text in note.entries if oid not in have and ids.holds(oid, text)}
        if more:
            kept = {oid: text for oid, text in have.items() if not (compared.rewriting and compared.both.dropped(oid))}
            own = tuple((oid, kept.get(oid, text)) for oid, text in note.entries if oid in more or oid in kept)
            rest = tuple(item for item in kept.items() if item[0] not in dict(own))
            yield target, Note(preamble=there.preamble, entries=(*own, *rest), older=there.older).render()


class _Public:
    """The checkpoints of tracks that the remote has or gets."""

    def __init__(self, store: Store, compared: Comparison, moves: Mapping[str, Move]) -> None:
        self.store, self.compared = store, compared
        self.lines = {b"\ntrack: " + track.encode() + b"\n": track for track in moves}
        self.fresh: dict[str, frozenset[Oid]] = {}
        self.known: dict[str, frozenset[Oid]] = {}

    def holds(self, oid: Oid, text: bytes) -> bool:
        """Whether an entry is that of a public checkpoint that nobody dropped."""
        if self.compared.both.dropped(oid):
            return False
        start = text.find(b"\ntrack: ")
        track = self.lines.get(text[start : text.find(b"\n", start + 1) + 1]) if start >= 0 else None
        if track is None:
            return False
        if track not in self.fresh:
            added = self.compared.added.get(track, [])
            self.fresh[track] = frozenset(mark[1] for mark in marks(self.store, added) if mark is not None)
        if oid not in self.fresh[track] and track not in self.known:  # what the remote has already is seldom asked for
            self.known[track] = frozenset(self.compared.ids(track, self.compared.ours[track]))
        return oid in self.fresh[track] or oid in self.known[track]


def other_moves(baton: Baton, seen: Seen, choice: Choice, tracks: Mapping[str, Oid], apart: Collection[str] = ()) -> list[Move]:
    """Conversations that checkpoints of these tracks name, as the options want them, but for refs that are ``apart``."""
    objects = baton.repo.objects
    found = objects.refs(TRANSCRIPTS) if choice.transcripts else {}
    wanted = _conversations(baton, tracks) if found else set()
    found = {ref: oid for ref, oid in found.items() if ref in wanted and ref not in apart}
    return [move for ref, oid in sorted(found.items()) if (move := _other(baton, ref, oid, seen.others.get(ref))) is not None]


def _conversations(baton: Baton, tracks: Mapping[str, Oid]) -> set[str]:
    """The refs of the conversations that checkpoints name."""
    agents = {s.checkpoint.agent for tip in tracks.values() for s in baton.store.chain(tip, None).items}
    known = {(a.name, a.session) for a in agents if a is not None and a.session}
    return {f"{TRANSCRIPTS}{name}/{encode_track(one)}" for name, session in known for one in sessions_of(session)}


def _other(baton: Baton, ref: str, oid: Oid, seen: Oid | None) -> Move | None:
    """One conversation: it only grows."""
    if seen == oid:
        return None
    if seen is None:
        return Move(ref=ref, action="new", new=oid)
    apart = baton.repo.objects.distance(oid, seen) if baton.repo.objects.info(seen) is not None else None
    if apart is not None and apart[0] == 0:
        return None
    if apart is not None and apart[1] == 0:
        return Move(ref=ref, action="forward", seen=seen, new=oid)
    return Move(ref=ref, action="refused", seen=seen, reason="there is another one there")
