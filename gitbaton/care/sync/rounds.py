"""Sync: fetch the refs of a remote, join what came into what is here, push; retry after a lost race."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import takewhile

from gitbaton.base.codec import entry, in_quotes, timestamp, track_in
from gitbaton.base.errors import GitError, NoAnswerError, NotFoundError, RecordError, RefConflictError, RemoteError
from gitbaton.base.model import Oid
from gitbaton.base.values import replace
from gitbaton.care.sync.items import (
    OURS,
    Choice,
    Fetched,
    FutureCheckpoint,
    Gathered,
    Item,
    Joined,
    Joining,
    OwnRefs,
    Pushing,
    RemoteRefs,
    Synced,
    here,
    in_order,
    item_of,
    jitter,
    look,
    looked_at,
    more_broken_refs,
    own,
    patiently,
    require_meta,
    room,
    said,
)
from gitbaton.care.sync.kinds import fetched_runs, fetched_tracks, more_notes, signatures_left
from gitbaton.care.sync.push import Manner, push
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.checkpoints.store import CHAINS, NOTES, chain_ref, signatures, state, tip_ref
from gitbaton.checkpoints.store import meta as metas
from gitbaton.checkpoints.store.join import Link, Mark, apart, having, marks, news, reading_ahead
from gitbaton.checkpoints.store.read import SLACK
from gitbaton.checkpoints.store.refs import META, fetched_ref, remote_ref, signatures_ref
from gitbaton.checkpoints.store.revision import Revision
from gitbaton.checkpoints.store.sealed import MANY
from gitbaton.git.objects import RefChange
from gitbaton.git.remotes import Connection, typed
from gitbaton.langgraph.threads.names import LATE

ROUNDS = 8
PAUSE = 0.25  # seconds, at most, times the number of the round, half of them at most


def fetch(
    baton: Baton,
    line: Connection,
    choice: Choice,
    *,
    prune: bool = False,
    ours: Collection[str] | None = None,
    write: bool = True,
) -> tuple[RemoteRefs, Gathered]:
    """Fetch; what the remote has, and what that brought. Nothing outside ``refs/baton/remotes/`` changes.

    Without ``write`` only objects come, and no ref of ours moves. Raises RemoteError; NotFoundError for a chosen track that is
    neither there nor one of ``ours``, the tracks here: with these a push follows, and all refs of the remote are looked at.
    """
    listed = looked_at(baton, line, choice)
    seen, left, under_way = _fetched(baton, line, choice, listed, prune=prune, ours=ours, write=write)
    return seen, under_way.told(seen, left, baton.store.chains(listed.refs)[0], {})


def _fetched(
    baton: Baton,
    line: Connection,
    choice: Choice,
    listed: OwnRefs,
    *,
    prune: bool = False,
    ours: Collection[str] | None,
    write: bool,
) -> tuple[RemoteRefs, Mapping[str, str], _Fetch]:
    """Fetch as ``fetch``; what the remote has, the refs that were left out, and the fetch, which tells what it brought.
    ``listed``: our refs here."""
    left, below = dict(listed.left), remote_ref(line.remote.name)
    before = {ref: oid for ref, oid in listed.refs.items() if ref.startswith(below)}
    under_way = _Fetch(baton, line, choice, before, prune=prune, ours=ours, write=write)
    try:
        seen = patiently(under_way.once)
    except RefConflictError as error:
        raise RemoteError(f"not all is fetched: {error.message}", *error.hints, kind="stale") from None
    except RemoteError as error:
        more = more_broken_refs(baton, line, error, {})
        if not more:
            raise
        left |= more
        seen = under_way.once()
    return seen, left, under_way


class _Fetch:
    """A fetch in the making. What came is told beside what lay here ``first``; what is named must be somewhere then."""

    def __init__(
        self,
        baton: Baton,
        line: Connection,
        choice: Choice,
        first: Mapping[str, Oid],
        *,
        prune: bool,
        ours: Collection[str] | None,
        write: bool,
    ) -> None:
        self.baton, self.line, self.choice, self.prune, self.ours, self.write = baton, line, choice, prune, ours, write
        self.first, self.begun = first, False
        self.beside: Sequence[Fetched] = ()  # what became of all that is no track
        self.others = 0

    def once(self) -> RemoteRefs:
        """Look and fetch. Raises RefConflictError where others move refs here, RemoteError that is stale where refs of the
        remote go meanwhile."""
        baton, line, remote = self.baton, self.line, self.line.remote.name
        seen = look(line, everything=self.ours is not None)
        before = baton.repo.objects.refs(remote_ref(remote)) if self.begun else self.first
        if not self.begun:
            self._require_named(seen, before)
            self.begun = True
        wanted = [ref for ref in (*seen.chosen(self.choice), META, NOTES) if ref in seen.refs]
        moves = {ref: here(remote, ref) for ref in wanted if before.get(here(remote, ref)) != seen.refs[ref]}
        with baton.repo.lock(tuple(moves.values()) if self.write else ()):
            pass  # what a killed fetch left locked is free now
        if not line.fetch(moves if self.write else dict.fromkeys(moves), seen=seen.refs):
            said = f"the refs of {in_quotes(line.remote.shown)} go while they are fetched"
            raise RemoteError(said, "try again", kind="stale")
        gone, lost = _gone(line, seen, self.choice, before, prune=self.prune)
        drops = [RefChange(name=ref, new=None, old=before[ref]) for ref in before if ref in lost - line.hidden]
        if drops and self.write:
            with baton.repo.lock(tuple(change.name for change in drops)):
                baton.repo.objects.update(drops)
        ended = [Fetched(item=item, state="pruned" if self.prune else "gone") for item in gone]
        self.others = sum(1 for ref in moves if not ref.startswith(CHAINS))
        self.beside = _beside(baton, line, seen, self.choice, self.first, ended)
        return seen

    def told(self, seen: RemoteRefs, left: Mapping[str, str], own: Mapping[str, Oid], met: Mapping[Oid, Mark]) -> Gathered:
        """Return what the fetch brought, beside refs that were ``left`` out; ``own``: the tracks here, by their tips; ``met``:
        places of commits that were read since, so that they are not read again."""
        tracks = fetched_tracks(self.baton, self.line.remote.name, seen, self.first, self.choice, own, met)
        return Gathered(rows=in_order([*tracks, *self.beside]), strange=seen.strange, others=self.others, apart=left)

    def _require_named(self, seen: RemoteRefs, before: Mapping[str, Oid]) -> None:
        """Raise NotFoundError for a named track that is nowhere; one that goes later is left out."""
        remote = self.line.remote
        for track in self.choice.tracks or ():
            if track not in seen.tracks and fetched_ref(remote.name, track) not in before and track not in (self.ours or ()):
                hint = f"'git baton fetch --verbose {in_shell(remote.shown)}' lists those that are there"
                raise NotFoundError(f"there is no track {in_quotes(track)} at {in_quotes(remote.shown)}", hint)


def _gone(
    line: Connection, seen: RemoteRefs, choice: Choice, before: Mapping[str, Oid], *, prune: bool
) -> tuple[list[Item], set[str]]:
    """Return the items that the remote has no more, and the refs of ours that go: those of these items where it is to
    ``prune``."""
    remote = line.remote.name
    fetched = {ref: item for ref in before if (item := item_of(own(ref))) is not None and choice.takes(item)}
    joined = room(line) if choice.threads else here(remote, OURS)  # of what stood at another address nothing is gone here
    at = (item for ref, item in fetched.items() if ref == here(remote, own(ref)) or ref.startswith(joined))
    gone = {item for item in at if item[0] != "transcript"}.difference(seen.items.values())
    # Late writes that are there no more are in the chain by now, and go in any case.
    lost = {ref for ref in fetched if ref.startswith(here(remote, LATE)) and own(ref) not in seen.refs}
    return sorted(gone), lost | {ref for ref, item in fetched.items() if prune and item in gone}


def _beside(
    baton: Baton, line: Connection, seen: RemoteRefs, choice: Choice, before: Mapping[str, Oid], gone: Sequence[Fetched]
) -> list[Fetched]:
    """Return what came of each run and thread where they were asked for, and what is gone."""
    lost = [row for row in gone if row.item[0] == "thread"]
    rows = [
        *(fetched_runs(baton, line.remote.name, seen, before) if choice.runs else []),
        *(row for row in gone if row not in lost),
    ]
    if choice.threads:
        from gitbaton.care.sync import threads

        rows += threads.fetched(baton, line, seen, before, choice, lost)
    return rows


def join(
    baton: Baton,
    line: Connection,
    seen: RemoteRefs,
    left: Mapping[str, str],
    beside: Sequence[Fetched],
    choice: Choice,
    met: dict[Oid, Mark],
    *,
    write: bool,
) -> Joining:
    """Join what a remote has, and was fetched, to what is here. Without ``write`` only say what it would be. ``left``: the refs
    here that are broken; ``beside``: what came of threads; into ``met`` go the places of the commits that are read.

    A chain that is broken, a name that differs only in case, and checkpoints from the future are listed and left out, and so
    are those of which a ref here is apart, because it is broken; the rest goes on. Raises RecordError where tombstones cannot
    be read: then nothing is joined.
    """
    tracks = {track: oid for track, oid in seen.tracks.items() if choice.takes(("track", track))}
    refs = [ref for track in tracks for ref in (chain_ref(track), tip_ref(track))]
    held = write or state.pending(baton.repo)
    with baton.repo.lock((*refs, META, NOTES)) if held else nullcontext():
        said = baton.store.settle() if write else []  # before anything is planned on what it moves
        planned = _JoinPlan(baton, seen, left, met)
        planned.warnings += said
        planned.gone(line.remote.name, choice)
        with planned.ahead(tracks):
            planned.all(tracks)
            planned.rest()
            planned.notes()
            if write:
                planned.revision.apply()
        done = planned.result(write=write)
    if not choice.threads:
        return done
    from gitbaton.care.sync import threads

    sound = {row.item for row in beside if row.state != "broken"}
    told, after = threads.join(baton, line, seen, choice, sound=sound, write=write)
    return replace(done, rows=(*done.rows, *told), refs=None if write else after)


class _JoinPlan:
    """A join in the making, with the lock held where it is to be written."""

    def __init__(self, baton: Baton, seen: RemoteRefs, apart: Mapping[str, str], met: dict[Oid, Mark]) -> None:
        self.store, self.seen, self.apart, self.met = baton.store, seen, apart, met
        self.limit = baton.clock() + SLACK
        self.revision = Revision(self.store)
        self.revision.noted = NOTES not in apart
        before = self.revision.meta
        self.revision.meta = metas.union(before, said(self.store, seen))
        self.meta_grew, self.forgotten = self.revision.meta != before, before.forgotten
        self.tips = dict(self.revision.tips)
        self.rows: list[Joined] = []
        self.warnings: list[str] = []
        self.fresh: set[Oid] = set()

    @contextmanager
    def ahead(self, tracks: Mapping[str, Oid]) -> Iterator[None]:
        """Walk the chains of the fetched tracks that differ from ours, and these, at once, and read what came."""
        both = [(track, oid, self.tips.get(track)) for track, oid in sorted(tracks.items()) if oid != self.tips.get(track)]
        with (
            self.store.ahead([oid for _, *pair in both for oid in pair if oid is not None]),
            reading_ahead(self.store, (self._above(*row) for row in both)),
        ):
            order = [at for _, oid, tip in both if tip is not None for at in self._compared(oid, tip)]
            with self.store.streaming(order if len(order) >= MANY else []):
                yield

    def _compared(self, oid: Oid, tip: Oid) -> list[Oid]:
        """Return the commits of a fetched chain and ours that are compared in this order, where nothing but a prune is seen."""
        if not self.revision.meta.drops:
            return []
        with suppress(GitError):  # it is said where the track is joined
            mine, more = apart(self.store, self.store.walk(tip)[-2::-1], self.store.walk(oid))
            return [*mine, *more] if mine else []
        return []

    def _above(self, track: str, oid: Oid, tip: Oid | None) -> tuple[str, Sequence[Oid]]:
        """Return a track, and the commits of its fetched chain that ours has not; all but the root where it has none of it."""
        try:
            own = frozenset(self.store.walk(tip)) - {self.store.root} if tip is not None else frozenset()
            more = [*takewhile(lambda one: one not in own, self.store.walk(oid))]
        except GitError:  # it is said where the track is joined
            return track, ()
        apart = more[-1:] == [self.store.root]
        if apart and own and self.revision.meta.drops and not self.meta_grew:
            return track, ()  # a chain that was pruned here is seldom read
        return track, more[:-1] if apart else more

    def all(self, tracks: Mapping[str, Oid]) -> None:
        """Plan the join of the fetched tracks, by their tips there."""
        for track, oid in sorted(tracks.items()):
            self._track(track, oid)

    def _track(self, track: str, oid: Oid) -> None:
        """Plan the join of one fetched track."""
        if self._is_apart(track):
            self.rows.append(Joined(item=("track", track), problem="it is broken here"))
            return
        self._signatures(track)
        if oid == self.tips.get(track):
            return
        try:
            found = news(self.store, track, oid, self.revision.meta)
        except (RecordError, GitError) as error:
            self.rows.append(Joined(item=("track", track), problem=error.message))
            return
        self.met |= {link.commit: (timestamp(link.created).encode(), link.id) for link in found if link.commit}
        late = tuple(FutureCheckpoint(id=link.id, created=link.created) for link in found if link.created > self.limit)
        if found:
            self._join(track, [link for link in found if link.created <= self.limit], late)

    def _signatures(self, track: str) -> None:
        """Plan to take in the signatures of one fetched track; where they cannot be read, a warning."""
        ref = signatures_ref(track)
        theirs = self.seen.refs.get(ref)
        own = self.store.objects.info(ref) if theirs is not None else None
        if theirs is None or ref in self.apart or (own is not None and own.oid == theirs):
            return
        try:
            mine = signatures.read(self.store, ref) if own is not None else signatures.NO_SIGNATURES
            found = signatures.read_remote(self.store, theirs, mine.signed)
            self.revision.signed(track, found.signed)
            self.warnings += [signatures_left(track, found)] if found.left else []
        except (RecordError, GitError) as error:
            self.warnings.append(f"the remote's signatures are left out: {error.message}")

    def _is_apart(self, track: str) -> bool:
        names = (chain_ref(track), tip_ref(track))
        return any(ref == name or ref.startswith(name + "/") for ref in self.apart for name in names)

    def _join(self, track: str, links: list[Link], late: tuple[FutureCheckpoint, ...]) -> None:
        try:
            made = self.revision.join(track, links, fetched=True)
        except (RecordError, GitError) as error:
            self.rows.append(Joined(item=("track", track), late=late, problem=error.message))
            return
        self.fresh.update(link.id for link in made.fresh)
        new = track not in self.tips
        if made.change is not None:
            self.tips[track] = made.change.new or ""
        was = made.change.old if made.change is not None and made.removed else None
        row = Joined(item=("track", track), added=made.added, removed=len(made.removed), was=was, late=late, new=new)
        if row.added or row.removed or late:
            self.rows.append(row)

    def gone(self, remote: str, choice: Choice) -> None:
        """Drop what was fetched of tracks that the remote has no more, where everything in it is dropped."""
        fetched = self.store.elsewhere() if self.revision.meta.drops else {}
        gone = [track for track in fetched if choice.takes(("track", track)) and track not in self.seen.tracks]
        tips = {fetched_ref(name, track): oid for track in gone for name, oid in fetched[track] if name == remote}
        left = {ref: oid for ref, oid in tips.items() if ref not in self.apart}
        walked = self.store.linked([*left.values()])
        for ref, oid in left.items():
            oids = walked.get(oid, [oid])
            found = list(marks(self.store, oids[:-1]))
            if oids[-1] == self.store.root and all(mark and self.revision.meta.dropped(mark[1]) for mark in found):
                self.revision.also([], [RefChange(name=ref, new=None, old=oid)])

    def rest(self) -> None:
        """Drop what the remote's tombstones name from tracks that nothing was joined to."""
        done = {row.item[1] for row in self.rows if not row.problem}
        left = {track: oid for track, oid in self.tips.items() if track not in done and not self._is_apart(track)}
        fresh = self.revision.meta.forgotten - self.forgotten
        with self.store.ahead([*left.values()] if self.meta_grew else []):
            for track in having(self.store, left, self.revision.meta, fresh) if self.meta_grew else ():
                self._join(track, [], ())

    def notes(self) -> None:
        """Take in the text in the remote's notes that ours do not have; where it cannot be read, a warning."""
        theirs = self.seen.refs.get(NOTES)
        if theirs is None or NOTES in self.apart:
            return
        try:
            self.revision.notes(more_notes(self.store, theirs, self._entry))
        except RecordError as error:
            self.warnings.append(f"the remote's notes are left out: {error.message}")

    def _entry(self, target: Oid, oid: Oid, text: bytes) -> bytes | None:
        """Return the entry of a checkpoint in one of our chains, for the note of its own HEAD; None for all else.

        Of what a remote wrote only the id and the track's name are used. On another commit its entry would make that one pass
        for the checkpoint's HEAD under a new id; where a rewriting copied it, it stays in the repository that rewrote.
        """
        if oid in self.fresh:  # which get theirs as they are joined
            return None
        track = track_in(text)
        place = self.revision.places.find(oid, track) if not self._is_apart(track) else None
        checkpoint = self.revision.places.checkpoint(place) if place is not None else None
        if checkpoint is None or checkpoint.kind != "manual" or checkpoint.head != target:
            return None
        return entry(oid, checkpoint)

    def result(self, *, write: bool) -> Joining:
        """Return the result. A plan that is not carried out puts its objects where a dry run leaves nothing."""
        if not write:
            self.store.objects.write(self.revision.drawn()[0])
        tips = {track: oid for track, oid in self.tips.items() if oid}
        warnings = (*self.warnings, *self.revision.warnings)
        return Joining(rows=tuple(self.rows), tips=tips, meta=self.revision.meta, warnings=warnings)


def sync(
    baton: Baton, line: Connection, choice: Choice, manner: Manner, *, pause: Callable[[float], None] = time.sleep
) -> Synced:
    """Fetch, join and push; retry after a lost race, seven times at most. What was fetched is joined whatever becomes of the
    push; a bundle is not pushed to.

    Raises RemoteError when nothing could be fetched, RecordError where tombstones, the remote's or ours, cannot be read, and
    what ``push`` raises besides RemoteError.
    """
    require_meta(baton, "joined or pushed")
    done: Synced | None = None
    before, faster = dict[str, Oid](), False
    for number in range(1, ROUNDS + 1):
        listed = looked_at(baton, line, choice)
        named = choice.tracks or () if number > 1 else ()  # one of these may end meanwhile
        ours = {*baton.store.chains(listed.refs)[0], *named}
        seen, left, fetched = _fetched(baton, line, choice, listed, ours=ours, write=manner.write)
        met = dict[Oid, Mark]()
        joining = patiently(partial(join, baton, line, seen, left, fetched.beside, choice, met, write=manner.write))
        done = _after(done, fetched.told(seen, left, joining.tips, met), joining, number)
        same, before = number > 1 and seen.refs == before, dict(seen.refs)
        faster = faster or (number > 1 and not same)
        if not line.remote.push:
            return done
        try:
            pushing = push(baton, line, choice, manner, joining=joining, seen=seen, listed=listed)
        except RemoteError as error:
            done = replace(done, failure=error.message)
            if error.kind != "stale":
                return done
        except NoAnswerError as error:
            return replace(done, failure=error.message.removeprefix("nothing is pushed: "))
        else:
            if not _behind(pushing, joining) or not manner.write:
                return replace(done, pushing=pushing, failure="")
            if same and line.remote.exact:
                return replace(done, pushing=pushing, failure=_apart(line, pushing))
            done = replace(done, pushing=pushing, failure=f"{in_quotes(line.remote.shown)} has got more meanwhile")
        if not line.holds:
            pause(jitter(PAUSE * min(number, ROUNDS // 2)))
    assert done is not None
    return replace(done, failure=f"somebody else was faster {ROUNDS} times: {done.failure}" if faster else done.failure)


def _apart(line: Connection, pushing: Sequence[Pushing]) -> str:
    """Return why what a push-only address has cannot be joined: it is not there where the remote is read."""
    place = typed(next(at for at, part in zip(line.remote.push, pushing, strict=True) if part.refused))
    what = f"{in_quotes(line.remote.shown)} lacks checkpoints where it is read that it has where it is written"
    return f"{what}; 'git baton sync {in_shell(place)}' joins them"


def _behind(pushing: tuple[Pushing, ...], joining: Joining) -> bool:
    """Whether the remote has checkpoints that came after the fetch; those of a track or thread that cannot be joined came
    before."""
    apart = {row.item for row in joining.rows if row.problem}
    moves = [move for part in pushing for move in part.moves if move.action == "refused" and move.count]
    return any(move.kind in ("track", "thread") and move.item not in apart for move in moves)


def _after(before: Synced | None, gathered: Gathered, joining: Joining, number: int) -> Synced:
    """Add one more round to what the first ones brought."""
    if before is None:
        return Synced(gathered=gathered, joining=joining)
    news = {row.item: row for row in gathered.rows if row.state != "same"}
    rows = [*(row for row in before.gathered.rows if row.item not in news), *news.values()]
    gathered = replace(gathered, rows=in_order(rows))
    joining = replace(joining, rows=in_order([*before.joining.rows, *joining.rows]))
    return Synced(gathered=gathered, joining=joining, rounds=number)
