"""A rule per kind of ref: what a fetch has brought of it, and what a push does with it. Threads have a file of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from itertools import islice

from gitbaton.agents.transcripts.layout import sessions_of
from gitbaton.base.codec import Note, alike, counted, encode_track, in_quotes, looks, parse_note, timestamp, track_in
from gitbaton.base.codec.notes import MAX_ENTRIES
from gitbaton.base.errors import MENDS, BatonError, GitError, RecordError
from gitbaton.base.model import Oid
from gitbaton.base.values import replace
from gitbaton.care.sync.items import Choice, Fetched, FutureCheckpoint, Move, RemoteRefs, here, item_of, said
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.checkpoints.store import NOTES, Store, chain_ref, signatures
from gitbaton.checkpoints.store import meta as metas
from gitbaton.checkpoints.store.chain import MAX_COMMIT, root_objects
from gitbaton.checkpoints.store.join import Link, Mark, Places, links, marks, merged, on_top, plan_notes
from gitbaton.checkpoints.store.meta import Meta
from gitbaton.checkpoints.store.read import SLACK
from gitbaton.checkpoints.store.refs import IMPORTED, META, RUNS, SIGNATURES, TRANSCRIPTS, fetched_ref, signatures_ref
from gitbaton.checkpoints.store.signatures import SignatureSet
from gitbaton.checkpoints.store.write import NOBODY
from gitbaton.git.objects import NewObject, Object, TreeEntry, author_at, find_notes, read_notes, walk_notes
from gitbaton.git.reffiles import below
from gitbaton.runs.journal.chain import read


def fetched_tracks(
    baton: Baton,
    remote: str,
    seen: RemoteRefs,
    before: Mapping[str, Oid],
    choice: Choice,
    own: Mapping[str, Oid],
    met: Mapping[Oid, Mark],
) -> list[Fetched]:
    """Return what became of each chosen track of a remote by a fetch; ``before``: what lay here; ``own``: the tracks here, by
    their tips; ``met``: the places of commits that were read since. A chain that cannot be one is broken, and nothing uses
    it."""
    store, limit = baton.store, baton.clock() + SLACK
    chosen = sorted((track, oid) for track, oid in seen.tracks.items() if choice.takes(("track", track)))
    olds = {track: before.get(fetched_ref(remote, track)) for track, _ in chosen}
    asked = [oid for track, oid in chosen if not own.get(track) == olds[track] == oid]  # else it is as it was joined
    chains = store.objects.chains(asked)
    fresh = {track: _above(chains[oid], olds[track]) for track, oid in chosen if oid in chains}
    unknown = [oid for oid in dict.fromkeys(oid for oids in fresh.values() for oid in oids) if oid not in met]
    places = {**met, **dict(zip(unknown, marks(store, unknown), strict=True))}
    read = store.objects.read_many([oid for _, oid in chosen], MAX_COMMIT)
    found = []
    for (track, oid), tip in zip(chosen, read, strict=True):
        more = [places[oid] for oid in fresh.get(track, ())]
        try:
            step = store.stored(tip, track, oid).checkpoint.step
            if chains.get(oid, [store.root])[-1] != store.root:
                raise RecordError("its chain does not begin at the root")
            found.append(_fetched_track(store, track, olds[track], chains.get(oid, [oid]), more, step, limit))
        except (RecordError, GitError) as error:
            found.append(Fetched(item=("track", track), state="broken", reason=error.message))
    return found


def _above(oids: Sequence[Oid], old: Oid | None) -> Sequence[Oid]:
    """Return the commits of a chain, newest first, above one of them; where that is none of them, all but the root."""
    return oids[: oids.index(old)] if old in oids else oids[:-1]


def _fetched_track(
    store: Store,
    track: str,
    old: Oid | None,
    oids: Sequence[Oid],
    found: Sequence[Mark | None],
    step: str,
    limit: datetime,
) -> Fetched:
    """Return what became of a track; ``found``: the places of the first of its commits, which are new."""
    new, state = oids[0], "new" if old is None else "newer" if old in oids else "rewritten"
    if old == new:
        return Fetched(item=("track", track), state="same", step=step)
    known = _ids_below(store, old) if old is not None and state == "rewritten" else set()
    more = [(oid, mark) for oid, mark in zip(oids, found, strict=False) if mark is None or mark[1] not in known]
    text = timestamp(limit).encode()
    future = [oid for oid, mark in more if mark is not None and mark[0] > text]
    read = [store.stored(item, track, oid) for oid, item in zip(future, store.objects.read_many(future), strict=True)]
    late = tuple(FutureCheckpoint(id=stored.id, created=stored.checkpoint.created) for stored in read)
    return Fetched(item=("track", track), state=state, count=len(more), step=step, late=late)


def _ids_below(store: Store, tip: Oid) -> set[Oid]:
    """Return the ids of the checkpoints of a chain, as far as it can be read."""
    try:
        oids = store.objects.first_parents(tip) if store.objects.info(tip) is not None else []
    except GitError:
        return set()
    return {mark[1] for mark in marks(store, oids) if mark is not None}


class ChainComparison:
    """Our chains beside those of a remote; all their objects are here. Reads only.

    ``ours``: the tips of our chains; ``said``: our pins and tombstones, and those together with the remote's; ``shown``: what
    the remote is called; ``limit``: what is later is from the future, and stays there unjoined. Where not ``rewriting``, the
    remote's chains are only added to. ``objects``: what must be written for the moves; ``same``: the chosen tracks with one tip
    on both sides, which nothing moves; ``added``: by track, the commits that a step forward adds.
    """

    def __init__(
        self,
        store: Store,
        seen: RemoteRefs,
        ours: Mapping[str, Oid],
        said: tuple[Meta, Meta],
        shown: str,
        limit: datetime,
        *,
        rewriting: bool,
    ) -> None:
        self.store, self.seen, self.ours, self.shown, self.rewriting = store, seen, ours, shown, rewriting
        (self.mine, self.both), self.limit = said, limit
        self.objects: list[NewObject] = []
        self.same: Mapping[str, Oid] = {}
        self.added: dict[str, list[Oid]] = {}
        self._ids: dict[Oid, list[Oid]] = {}

    def moves(self, choice: Choice) -> list[Move]:
        """Return a move for each chosen track, but for the ``same``, that we have, or of which the remote has what was dropped:
        a new ref, a step forward, a rewriting, more on top, an end, nothing, or a refusal."""
        ours, theirs = self.ours, self.seen.tracks
        same = {track: tip for track, tip in ours.items() if theirs.get(track) == tip}
        self.same = {track: tip for track, tip in same.items() if choice.takes(("track", track))}
        found, others = list[Move](), (track for track in {*ours, *theirs} if track not in same)
        tracks = sorted(track for track in others if choice.takes(("track", track)))
        ends = (oid for track in tracks for oid in (self.ours.get(track), self.seen.tracks.get(track)))
        with self.store.ahead(self.store.present(ends)):
            for track in tracks:
                try:
                    move = self._move(track)
                except BatonError as error:
                    move = self._refused(track, error.message)
                found += [move] if move is not None else []
        return found

    def ids(self, track: str, tip: Oid) -> list[Oid]:
        """Return the ids of the checkpoints of a chain, oldest first. Raises RecordError where it is broken."""
        if tip not in self._ids:
            oids = self.store.walk(tip)
            if oids[-1] != self.store.root:
                raise RecordError(f"the chain at {tip} does not begin at the root")
            found, met = oids[-2::-1], self.store.met
            unknown = [oid for oid in found if oid not in met]
            met |= {oid: mark[1] for oid, mark in zip(unknown, marks(self.store, unknown), strict=True) if mark is not None}
            known = [met[oid] for oid in found if oid in met]
            self._ids[tip] = known if len(known) == len(found) else [link.id for link in links(self.store, track, tip)]
        return self._ids[tip]

    @cached_property
    def _twins(self) -> Mapping[str, str]:
        """The remote's tracks by what they look like."""
        return {looks(name): name for name in reversed([*self.seen.tracks])}

    def _refused(
        self, track: str, reason: str, *, count: int = 0, forgotten: int = 0, hint: str = "", broken: bool = False
    ) -> Move:
        return Move(
            ref=chain_ref(track),
            item=("track", track),
            action="refused",
            seen=self.seen.tracks.get(track),
            reason=reason,
            count=count,
            forgotten=forgotten,
            hint=hint,
            broken=broken,
        )

    def _move(self, track: str) -> Move | None:
        tip, seen = self.ours.get(track), self.seen.tracks.get(track)
        if tip is None:
            return self._only_there(track, seen) if seen is not None else None
        path = self.store.walk(tip)
        if path[-1] != self.store.root:
            reason = f"track {in_quotes(track)} is broken here: its chain does not begin at the root"
            return self._refused(track, self.store.torn(track, path) or reason, broken=True, hint=MENDS)
        try:
            self.store.stored(self.store.objects.read(tip, MAX_COMMIT), track, tip)
        except RecordError as error:
            reason = f"track {in_quotes(track)} is broken here: commit {tip}: {error.message}"
            return self._refused(track, reason, broken=True, hint=MENDS)
        if self.both != self.mine and (gone := sum(1 for oid in self.ids(track, tip) if self.both.dropped(oid))):
            return self._refused(
                track,
                f"{counted(gone, 'checkpoint')} of {in_quotes(track)} removed by others {_be(gone)} still here",
                count=gone,
            )
        twin = self._twins.get(looks(track), track) if seen is None else track
        if twin != track:
            reason = f"{self.shown} has another: {alike(track, twin)}"
            return self._refused(track, reason, hint="go on under another name: git baton snapshot --track NAME STEP")
        if seen is None or seen in path:
            action, count = ("new", len(path) - 1) if seen is None else ("forward", path.index(seen))
            self.added[track] = path[:count]
            return Move(ref=chain_ref(track), item=("track", track), action=action, seen=seen, new=tip, count=count)
        return self._apart(track, tip, seen)

    def _only_there(self, track: str, seen: Oid) -> Move | None:
        """Plan for a track that is not here: what is dropped goes from it, and where that is everything it ends."""
        if not self.both.drops or self.store.objects.info(seen) is None:
            return None
        ids = set(self.ids(track, seen))
        dropped = {oid for oid in ids if self.both.dropped(oid)}
        if not dropped:
            return None
        forgotten = len(dropped & self.both.forgotten)
        if not self.rewriting and dropped == ids:
            reason = f"{self.shown} refuses rewriting and keeps {in_quotes(track)}, which was removed here"
            return self._refused(track, reason, forgotten=forgotten)
        new = None
        if self.rewriting and dropped != ids:
            new = self._put(merged((k for k in links(self.store, track, seen) if k.id not in dropped), ()))[-1].commit
        action = "same" if not self.rewriting else "rewrite" if new else "delete"
        return Move(
            ref=chain_ref(track),
            item=("track", track),
            action=action,
            seen=seen,
            new=new,
            dropped=len(dropped),
            forgotten=forgotten,
        )

    def _apart(self, track: str, tip: Oid, seen: Oid) -> Move:
        """Plan for a chain that has left ours, or has lost its beginning."""
        have, there = self.ids(track, tip), self.ids(track, seen)
        own: list[Link] = []
        missing = {oid for oid in set(there).difference(have) if not self.both.dropped(oid)}
        if missing:
            late = [link for link in links(self.store, track, seen) if link.id in missing and link.created > self.limit]
            number = len(missing.difference(link.id for link in late))
            if number:
                reason = f"{self.shown} has {counted(number, 'checkpoint')} of {in_quotes(track)} that {_be(number)} not here"
                return self._refused(track, reason, count=number)
            # Our chain as it will be for all once the remote's checkpoints from the future have come to be joined.
            own = self._put(merged(links(self.store, track, tip), late))
            tip, have = own[-1].commit or tip, [link.id for link in own]
        lacks, gone = set(have).difference(there), set(there).difference(have)
        move = Move(
            ref=chain_ref(track),
            item=("track", track),
            action="same",
            seen=seen,
            new=seen,
            dropped=len(gone),
            count=len(lacks),
            forgotten=len(gone & self.both.forgotten),
        )
        if not lacks and there[-1:] == have[-1:] and not (gone and self.rewriting):
            return move
        if self.rewriting:
            return replace(move, action="rewrite", new=tip)
        own = own or links(self.store, track, tip)
        more = [link for link in own if link.id in lacks]
        if not more or more[-1].id != own[-1].id:  # our newest once more, so that it is the last
            more.append(own[-1])
        return replace(move, action="append", new=self._put(more, seen)[-1].commit or seen)

    def _put(self, union: Iterable[Link], seen: Oid | None = None) -> list[Link]:
        """Write a chain of these as any join of them does: of nothing else, or on top of the remote's tip ``seen``."""
        empty, root = root_objects(self.store.objects.algorithm)
        tree = self.store.tree_of(seen) if seen is not None else empty.oid
        if tree is None:
            raise RecordError(f"commit {seen} cannot be read")
        objects, put = on_top(self.store.objects.algorithm, seen or root.oid, tree, union)
        self.objects += objects
        return put


def _be(number: int) -> str:
    return "is" if number == 1 else "are"


def run_moves(baton: Baton, seen: RemoteRefs, shown: str, apart: Mapping[str, str]) -> list[Move]:
    """Return what a push to the remote ``shown`` does with each run that is here. A broken one stays here, and so does one
    of which a ref is ``apart``, with why."""
    found = []
    for ref, oid in sorted(baton.repo.objects.refs(RUNS).items()):
        item, old = item_of(ref), seen.refs.get(ref)
        if item is None or old == oid:
            continue
        move = Move(ref=ref, item=item, action="refused", seen=old)
        try:
            if ref in apart:
                raise RecordError(apart[ref])
            records = read(baton.repo.objects, baton.store.root, item[1], oid, ())
        except BatonError as error:
            reason = f"run '{item[1]}' is broken here: {error.message}"
            found.append(replace(move, reason=reason, broken=True, hint=MENDS))
            continue
        numbers = {logged.commit: number for number, logged in enumerate(records, 1)}
        at = numbers.get(old) if old is not None else 0
        if at is not None:
            found.append(replace(move, action="forward" if at else "new", new=oid, count=len(records) - at))
        else:
            reason = f"run '{item[1]}' has records there that are not here"
            found.append(replace(move, reason=reason, hint=f"git baton fetch --runs {in_shell(shown)}"))
    return found


def fetched_runs(baton: Baton, remote: str, seen: RemoteRefs, before: Mapping[str, Oid]) -> list[Fetched]:
    """Return what a fetch has brought of each run of a remote; ``before``: what lay here. One that is not as we write it is
    broken, and nothing uses it."""
    rows = []
    for ref, item in sorted((ref, item) for ref, item in seen.items.items() if item[0] == "run"):
        old, oid = before.get(here(remote, ref)), seen.refs[ref]
        try:
            records = read(baton.repo.objects, baton.store.root, item[1], oid, ())
        except BatonError as error:
            rows.append(Fetched(item=item, state="broken", reason=error.message))
            continue
        known = next((number for number, logged in enumerate(records, 1) if logged.commit == old), 0)
        state = "same" if old == oid else "new" if old is None else "newer" if known else "rewritten"
        rows.append(Fetched(item=item, state=state, count=len(records) - known))
    return rows


def talk_moves(
    baton: Baton, seen: RemoteRefs, tracks: Mapping[str, Oid], apart: Collection[str], *, past: bool = False
) -> list[Move]:
    """Return what a push does with each conversation that checkpoints of these tracks name, but for refs that are ``apart``;
    with ``past`` also with those that were imported, and with their turns."""
    objects = baton.repo.objects
    found = objects.refs(TRANSCRIPTS, IMPORTED)
    agents = {s.checkpoint.agent for tip in tracks.values() for s in baton.store.chain(tip, None).items} if found else set()
    known = {(a.name, a.session) for a in agents if a is not None and a.session}
    wanted = {f"{TRANSCRIPTS}{name}/{encode_track(one)}" for name, session in known for one in sessions_of(session)}
    turns = [ref for ref in found if past and ref.startswith(IMPORTED)]
    wanted |= {*turns, *(TRANSCRIPTS + ref.removeprefix(IMPORTED) for ref in turns)}
    moves = []
    for ref, oid in sorted(found.items()):
        old = seen.refs.get(ref)
        if ref not in wanted or ref in apart or old == oid:
            continue
        ahead, behind = objects.distance(oid, old) or (1, 1) if old is not None and objects.info(old) is not None else (1, 1)
        if old is None:
            moves.append(Move(ref=ref, action="new", new=oid))
        elif behind == 0:
            moves.append(Move(ref=ref, action="forward", seen=old, new=oid))
        elif ahead and ref.startswith(IMPORTED) and _goes_on(baton.store, oid, old):
            moves.append(Move(ref=ref, action="rewrite", seen=old, new=oid))
        elif ahead:
            moves.append(Move(ref=ref, action="refused", seen=old, reason="there is another one there"))
    return moves


def _goes_on(store: Store, oid: Oid, old: Oid) -> bool:
    """Whether a chain of imported turns has every turn of another one, which had not gone as far."""

    def begun(tip: Oid) -> set[datetime]:
        rows = store.objects.read_many([one for one in store.objects.first_parents(tip) if one != store.root])
        turns = (store.stored(found, None, tip).checkpoint.imported for found in rows)
        return {turn.since for turn in turns if turn is not None}

    try:
        return store.objects.info(old) is not None and begun(old) <= begun(oid)
    except BatonError:
        return False


def meta_move(store: Store, seen: RemoteRefs, both: Meta) -> tuple[list[Move], list[NewObject]]:
    """Return what the remote gets of pins and tombstones: all that both sides know, on top of what it has."""
    if both == said(store, seen):
        return [], []
    old = seen.refs.get(META)
    objects = metas.objects_for(store, both, (old,) if old is not None else ())
    return [Move(ref=META, action="forward" if old is not None else "new", seen=old, new=objects[-1].oid)], objects


def signatures_left(track: str, found: SignatureSet) -> str:
    """Return what is left out of the signatures that a remote has of a track, in words."""
    return f"of the remote's signatures of track {in_quotes(track)}, {found.said}, and left out"


def signature_moves(compared: ChainComparison, moves: Sequence[Move]) -> tuple[list[Move], list[NewObject], list[str]]:
    """Return what the remote gets of the signatures of tracks that go there: those of both sides, less those of what is
    dropped; with the objects, and warnings. What must go does so where the server lets a ref be rewritten."""
    store, found, objects, warnings = compared.store, list[Move](), list[NewObject](), list[str]()
    here = below(store.repo, SIGNATURES)
    if not (here or any(ref.startswith(SIGNATURES) for ref in compared.seen.refs)):
        return found, objects, warnings
    actions = {**dict.fromkeys(compared.same, "same"), **{move.name: move.action for move in moves if move.kind == "track"}}
    for track, action in sorted(actions.items()):
        ref = signatures_ref(track)
        old = compared.seen.refs.get(ref)
        if action == "refused" or (old is None and encode_track(track) not in here):
            continue
        if action == "delete":
            found += [Move(ref=ref, action="delete", seen=old)] if old is not None else []
            continue
        try:
            own = signatures.read(store, ref).signed if track in compared.ours else {}
            there = signatures.read_remote(store, old, own) if old is not None else signatures.NO_SIGNATURES
            mine = signatures.sound(store, own, there.signed)
        except BatonError as error:
            warnings.append(f"the signatures of track {in_quotes(track)} are not pushed: {error.message}")
            continue
        warnings += [signatures_left(track, there)] if there.left else []
        both = {oid: blobs for oid, blobs in signatures.union(mine, there.signed).items() if not compared.both.dropped(oid)}
        going = bool(there.signed.keys() - both.keys() or (there.left and there.seen))
        tagged = old != there.commit  # or no commit at all: nothing can go on from there
        if (both == there.signed and not there.left) or not (compared.rewriting or (both and not tagged)):
            continue
        if not both:
            found += [Move(ref=ref, action="delete", seen=old)] if there.seen else []
            continue
        anew = old is None or ((going or tagged) and compared.rewriting)
        parents = (there.commit,) if there.commit is not None and not (going and compared.rewriting) else ()
        made = signatures.objects_for(store.objects.algorithm, both, parents)
        how = "new" if old is None else "rewrite" if anew else "forward"
        found.append(Move(ref=ref, action=how, seen=old, new=made[-1].oid))
        objects += made
    return found, objects, warnings


def keeps(store: Store, compared: ChainComparison, moves: Sequence[Move]) -> str:
    """Return what is forgotten and stays on a remote that lets nothing be rewritten, in words; empty for nothing."""
    if compared.rewriting or not compared.both.forgotten:
        return ""
    count, theirs = sum(move.forgotten for move in moves), compared.seen.refs.get(NOTES)
    onto = (theirs, store.tree_of(theirs))
    noted = plan_notes(store, {}, b"", b"", compared.both.forgotten, onto)[1] if onto[1] else None
    parts = [f"{count} forgotten checkpoint{'' if count == 1 else 's'}"] if count else []
    parts += ["notes of forgotten checkpoints"] if noted else []
    return " and ".join(parts)


def notes_move(baton: Baton, compared: ChainComparison, moves: Sequence[Move]) -> tuple[list[Move], list[NewObject]]:
    """Return the remote's notes with the entries of our public checkpoints, and without those of dropped ones.

    Our own notes never go: their history names tracks that stay here. Where an entry must go, the commit has no parent; where
    the server refuses rewriting, it stays.
    """
    store, old = baton.store, compared.seen.refs.get(NOTES)
    tree = store.tree_of(old)
    if old is not None and tree is None:
        raise RecordError("the remote's notes are no commit")
    moved = {m.name for m in moves if m.kind == "track" and m.name in compared.ours and m.action not in ("delete", "refused")}
    texts = dict(_texts(store, compared, moved | compared.same.keys()))
    both = compared.both
    removed = frozenset(oid for oid in both.forgotten | both.pruned if compared.rewriting and both.dropped(oid))
    author = author_at(NOBODY, baton.clock())
    objects, change = plan_notes(store, texts, author, b"checkpoints pushed\n", removed, (old, tree))
    if change is None or change.new is None:
        return [], []
    action = "new" if old is None else "forward" if b"\nparent " in objects[-1].data else "rewrite"
    return [Move(ref=NOTES, action=action, seen=old, new=change.new)], objects


class _Public:
    """Ids of the checkpoints in public tracks; a chain is read where it is asked for."""

    def __init__(self, store: Store, compared: ChainComparison, tracks: Collection[str]) -> None:
        self.store, self.compared, self.tracks = store, compared, tracks
        self._added: dict[str, frozenset[Oid]] = {}
        self._all: dict[str, frozenset[Oid]] = {}

    def has(self, oid: Oid, text: bytes) -> bool:
        """Whether an entry of a note is that of a checkpoint in one of the tracks, and is not dropped."""
        track, compared = track_in(text), self.compared
        if compared.both.dropped(oid) or track not in self.tracks:
            return False
        if track not in self._added:
            found = marks(self.store, compared.added.get(track, []))
            self._added[track] = frozenset(mark[1] for mark in found if mark is not None)
        if oid not in self._added[track] and track not in self._all:  # what the remote has already is seldom asked for
            self._all[track] = frozenset(compared.ids(track, compared.ours[track]))
        return oid in self._added[track] or oid in self._all[track]

    def whole(self, ours: Mapping[Oid, bytes], oid: Oid, text: bytes) -> bytes:
        """Return the text of an entry that is to stand there: of a public checkpoint ours."""
        own = ours.get(oid, text)
        return own if own != text and self.has(oid, own) else text


def _texts(store: Store, compared: ChainComparison, tracks: Collection[str]) -> Iterator[tuple[Oid, bytes]]:
    """Yield the remote's notes as they must be, as far as they are not: with our entries in the public ``tracks``, in the order
    of time where that is known of all, and each whole or short as its place says."""
    public, places = _Public(store, compared, tracks), Places(store, compared.ours)
    for target, mine, theirs in _differing(store, store.notes_tree()[0], compared.seen.refs.get(NOTES)) if tracks else ():
        note, there = parse_note(mine), parse_note(theirs)
        ours, had = dict(note.entries), dict(there.entries)
        texts = {oid: text for oid, text in had.items() if not (compared.rewriting and compared.both.dropped(oid))}
        added = {oid for oid, text in note.entries if oid not in had and public.has(oid, text)}
        mixed = bool(added and texts.keys() - ours.keys())
        if added:  # ours in our order, then theirs
            texts = {oid: texts.get(oid, text) for oid, text in note.entries if oid in texts or oid in added} | texts
        if mixed or _apart(note, there):
            found = [(places.anywhere(oid, text), oid) for oid, text in texts.items()]
            order = sorted(((place.created, oid) for place, oid in found if place is not None), reverse=True)
            texts = {oid: texts[oid] for _, oid in order} if len(order) == len(found) else texts
        older = there.older
        few = (note.older or older) and len(texts) <= MAX_ENTRIES
        if few and not compared.seen.tracks.keys() - compared.ours.keys():  # else some may be in what is not here
            older = any(oid not in texts and not compared.both.dropped(oid) for oid, _ in places.noted(target, tracks))
        made = Note(preamble=there.preamble, entries=tuple(texts.items()), older=older)
        text = made.render(partial(public.whole, ours))
        if texts and parse_note(text) != there:
            yield target, text


def _apart(one: Note, other: Note) -> bool:
    """Whether two notes have what is in both in another order."""
    both = dict(one.entries).keys() & dict(other.entries).keys()
    return [oid for oid, _ in one.entries if oid in both] != [oid for oid, _ in other.entries if oid in both]


def more_notes(store: Store, commit: Oid, entry_of: Callable[[Oid, Oid, bytes], bytes | None]) -> Mapping[Oid, bytes]:
    """Return the notes of a commit of notes as far as ours say less; an entry that we have in that note is as we have it,
    and each other one is what ``entry_of`` makes of it, from the object that the note is for, the id, and the text. A note
    of ours that only has another order, is longer than it must be or says that it had older entries is among them with
    nothing."""
    result = {}
    for target, theirs, ours in _differing(store, commit, store.notes_tree()[0]):
        fetched, known = parse_note(theirs), parse_note(ours)
        have = {oid for oid, _ in known.entries}
        made = [(oid, entry_of(target, oid, text)) for oid, text in fetched.entries if oid not in have]
        entries = tuple((oid, text) for oid, text in made if text is not None)
        if entries or fetched.preamble:
            result[target] = Note(preamble=fetched.preamble, entries=entries, older=fetched.older).render()
        elif _apart(known, fetched) or known.render() != ours or (known.older and not fetched.older):
            result[target] = b""
    return result


def _differing(store: Store, *commits: Oid | None) -> Iterator[tuple[Oid, bytes, bytes]]:
    """Yield the notes of the first of two commits of notes that are not the second's, each with the object that it is for,
    and beside the other's. Raises RecordError for what is none, or cannot be read."""
    first, second = (store.tree_of(commit) for commit in commits)
    for commit, tree in zip(commits, (first, second), strict=True):
        if commit is not None and tree is None:
            raise RecordError(f"{commit} is not a commit of notes")
    found = [target for target, _ in walk_notes(store.objects, first, second)] if first else []
    known = dict[Oid, list[TreeEntry]]()
    for tree in (first, second):
        if tree is not None:
            read_notes(store.objects, tree, found, known)
    rows = list[tuple[Oid, list[Oid], list[Oid]]]()
    for target in dict.fromkeys(found):
        blobs, others = (find_notes(store.objects, tree, target, known) for tree in (first, second))
        rows += [(target, blobs, others)] if blobs != others else []
    read = store.objects.read_many([oid for _, blobs, others in rows for oid in (*blobs, *others)])
    for target, blobs, others in rows:
        yield target, _raw(islice(read, len(blobs)), len(blobs)), _raw(islice(read, len(others)), len(others))


def _raw(blobs: Iterable[Object | None], count: int) -> bytes:
    """Return the text of a note with so many blobs. Raises RecordError for one that cannot be read."""
    read = [found.data for found in blobs if found is not None and found.kind == "blob"]
    if len(read) != count or None in read:
        raise RecordError("a note cannot be read")
    return b"\n".join(data for data in read if data is not None)
