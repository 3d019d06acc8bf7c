"""Join: merge what was fetched into what is here; tracks, pins and tombstones, and notes planned whole, then written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

from gitbaton.baton import Baton
from gitbaton.codec import decode_track, entry, track_in
from gitbaton.errors import GitError, RecordError
from gitbaton.git.objects import RefChange
from gitbaton.git.remotes import Connection
from gitbaton.model import Oid
from gitbaton.store import NOTES, chain_ref, intent, tip_ref
from gitbaton.store import meta as metas
from gitbaton.store.fetched import SLACK
from gitbaton.store.join import Link, marks, news
from gitbaton.store.refs import META, remote_ref
from gitbaton.store.revision import Revision
from gitbaton.sync import threads
from gitbaton.sync.items import Seen, said
from gitbaton.sync.notes import more_notes
from gitbaton.sync.values import Choice, Gathered, Joined, Joining, Late
from gitbaton.values import replace


def join(baton: Baton, line: Connection, seen: Seen, gathered: Gathered, choice: Choice, *, write: bool) -> Joining:
    """Make one of what a remote has, whose objects are here, and of what is here. Without ``write`` only say what it would be.

    A chain that is broken, a name that differs only in case, and checkpoints from the future are listed and left out, and so
    are those of which a ref here is apart, because it is broken; the rest goes on. Raises RecordError where tombstones cannot
    be read: then nothing is joined.
    """
    tracks = {track: oid for track, oid in seen.tracks.items() if choice.takes(("track", track))}
    refs = [ref for track in tracks for ref in (chain_ref(track), tip_ref(track))]
    held = write or intent.pending(baton.repo)
    with baton.repo.lock((*refs, META, NOTES)) if held else nullcontext():
        said = baton.store.settle() if write else []  # before anything is planned on what it moves
        planned = _Plan(baton, seen, gathered.apart)
        planned.warnings += said
        planned.gone(line.remote.name, choice)
        for track, oid in sorted(tracks.items()):
            planned.track(track, oid)
        planned.rest()
        planned.notes()
        if write:
            planned.revision.apply()
        done = planned.result(write=write)
    if not choice.threads:
        return done
    sound = {row.item for row in gathered.rows if row.state != "broken"}
    told, after = threads.join(baton, line, seen, choice, sound=sound, write=write)
    return replace(done, rows=(*done.rows, *told), refs=None if write else after)


class _Plan:
    """A join in the making. Called with the lock held."""

    def __init__(self, baton: Baton, seen: Seen, apart: Mapping[str, str]) -> None:
        self.store, self.seen, self.apart = baton.store, seen, apart
        self.limit = baton.clock() + SLACK
        self.revision = Revision(self.store)
        self.revision.noted = NOTES not in apart
        before = self.revision.meta
        self.revision.meta = metas.union(before, said(self.store, seen))
        self.drops = self.revision.meta != before
        self.tips = dict(self.store.chains()[0])
        self.rows: list[Joined] = []
        self.warnings: list[str] = []
        self.fresh: set[Oid] = set()

    def track(self, track: str, oid: Oid) -> None:
        """Plan the join of one fetched track."""
        if self._is_apart(track):
            self.rows.append(Joined(item=("track", track), problem="it is broken here"))
            return
        try:
            found = news(self.store, track, oid)
        except (RecordError, GitError) as error:
            self.rows.append(Joined(item=("track", track), problem=error.message))
            return
        late = tuple(Late(id=link.id, created=link.created) for link in found if link.created > self.limit)
        if found:
            self._join(track, [link for link in found if link.created <= self.limit], late)

    def _is_apart(self, track: str) -> bool:
        names = (chain_ref(track), tip_ref(track))
        return any(ref == name or ref.startswith(name + "/") for ref in self.apart for name in names)

    def _join(self, track: str, links: list[Link], late: tuple[Late, ...]) -> None:
        try:
            made = self.revision.join(track, links, fetched=True)
        except (RecordError, GitError) as error:
            self.rows.append(Joined(item=("track", track), late=late, problem=error.message))
            return
        self.fresh.update(link.id for link in made.fresh)
        if made.change is not None:
            self.tips[track] = made.change.new or ""
        was = made.change.old if made.change is not None and made.removed else None
        row = Joined(item=("track", track), added=made.added, removed=len(made.removed), was=was, late=late)
        if row.added or row.removed or late:
            self.rows.append(row)

    def gone(self, remote: str, choice: Choice) -> None:
        """What was fetched of tracks that the remote has no more goes where everything in it is dropped."""
        below = remote_ref(remote, "tracks/")
        for ref, oid in self.store.objects.refs(below).items() if self.revision.meta.drops else ():
            track = decode_track(ref.removeprefix(below))
            if track is not None and choice.takes(("track", track)) and track not in self.seen.tracks and ref not in self.apart:
                oids = self.store.objects.first_parents(oid)
                found = list(marks(self.store, oids[:-1]))
                if oids[-1] == self.store.root and all(mark and self.revision.meta.dropped(mark[1]) for mark in found):
                    self.revision.also([], [RefChange(name=ref, new=None, old=oid)])

    def rest(self) -> None:
        """What the remote's tombstones drop from tracks that nothing was joined to."""
        done = {row.item[1] for row in self.rows if not row.problem}
        for track in sorted(self.store.chains()[0].keys() - done) if self.drops else ():
            if not self._is_apart(track):
                self._join(track, [], ())

    def notes(self) -> None:
        """Text in the remote's notes that ours do not have; where it cannot be read, a warning."""
        theirs = self.seen.refs.get(NOTES)
        if theirs is None or NOTES in self.apart:
            return
        try:
            self.revision.notes(more_notes(self.store, theirs, self._entry))
        except RecordError as error:
            self.warnings.append(f"the remote's notes are left out: {error.message}")

    def _entry(self, target: Oid, oid: Oid, text: bytes) -> bytes | None:
        """The entry of a checkpoint in one of our chains, for the note of its own HEAD; None for all else.

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
        """What it came to. A plan that is not carried out puts its objects where a dry run leaves nothing."""
        if not write:
            self.store.objects.write(self.revision.drawn()[0])
        tips = {track: oid for track, oid in self.tips.items() if oid}
        warnings = (*self.warnings, *self.revision.warnings)
        return Joining(rows=tuple(self.rows), tips=tips, meta=self.revision.meta, warnings=warnings)
