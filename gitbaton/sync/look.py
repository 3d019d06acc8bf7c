"""What a remote has: its refs sorted into rooms, and those that gitbaton does not write, which nobody uses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gitbaton.codec import decode_track, encode_track
from gitbaton.errors import RecordError
from gitbaton.git.remotes import Connection
from gitbaton.journal.names import run_of
from gitbaton.model import Oid
from gitbaton.store import CHAINS, NOTES, Store
from gitbaton.store import meta as metas
from gitbaton.store.meta import Meta
from gitbaton.store.refs import META, REMOTES, RUNS, SAFETY, TRANSCRIPTS, remote_ref, track_of
from gitbaton.sync.values import Choice
from gitbaton.threads.names import LATE, THREADS, names_of
from gitbaton.values import replace, value

_OURS = "refs/baton/"
_OTHERS = (SAFETY, REMOTES)  # of no concern to anybody else, also where somebody mirrored them
_THREAD = re.compile(r"refs/baton/(?:remotes/[^/]+/(?:joined/[0-9a-f]{16}/)?)?((?:threads|late)/.+)")
_TALK = re.compile(r"[a-z][a-z0-9_-]*/([^/]+)\Z")


@value
class Seen:
    """The refs of a remote: all that were listed; the tracks among them; conversations, threads and runs by ref; and refs
    in our namespace that gitbaton does not write."""

    refs: Mapping[str, Oid]
    tracks: Mapping[str, Oid]
    others: Mapping[str, Oid]
    strange: tuple[str, ...]

    @property
    def meta(self) -> Oid | None:
        """What the remote says is pinned and dropped."""
        return self.refs.get(META)

    @property
    def notes(self) -> Oid | None:
        """The remote's notes."""
        return self.refs.get(NOTES)


def look(line: Connection, place: str | None = None, *, everything: bool = False) -> Seen:
    """Ask a remote, or one of its push addresses, for the refs in our rooms, or for all. Raises RemoteError."""
    return sort(line.listed(*(() if everything else (_OURS + "*", NOTES)), place=place))


def sort(refs: Mapping[str, Oid]) -> Seen:
    """Refs of a remote put into their rooms. Pure."""
    tracks: dict[str, Oid] = {}
    others: dict[str, Oid] = {}
    strange = []
    for ref, oid in refs.items():
        if ref.startswith(CHAINS):
            track = track_of(ref)
            if track is None:
                strange.append(ref)
            else:
                tracks[track] = oid
        elif _is_other(ref):
            others[ref] = oid
        elif ref.startswith(_OURS) and ref != META and not ref.startswith(_OTHERS):
            strange.append(ref)
    return Seen(refs=refs, tracks=tracks, others=others, strange=tuple(strange))


def _is_other(ref: str) -> bool:
    if ref.startswith(TRANSCRIPTS):
        match = _TALK.match(ref.removeprefix(TRANSCRIPTS))
        return match is not None and decode_track(match.group(1)) is not None
    if ref.startswith(RUNS):
        return run_of(ref.removeprefix(RUNS)) is not None
    return names_of(ref) is not None


def thread_of(ref: str) -> str | None:
    """The thread, as its refs name it, that a ref is of: here, at a remote, or where what is known of one lies; None for any
    other ref."""
    found = _THREAD.fullmatch(ref)
    name = names_of(_OURS + found[1]) if found is not None else None
    return name[0] if name is not None else None


def taken(refs: Mapping[str, Oid], choice: Choice) -> Mapping[str, Oid]:
    """Refs without those of threads that a choice does not take."""
    if choice.named is None:
        return refs
    kept = {None, *choice.named}
    return {ref: oid for ref, oid in refs.items() if thread_of(ref) in kept}


def narrowed(seen: Seen, choice: Choice) -> Seen:
    """A remote as if the threads that a choice does not take were of no concern."""
    return replace(seen, others=taken(seen.others, choice)) if choice.named is not None else seen


def said(store: Store, seen: Seen) -> Meta:
    """What a remote says is pinned and dropped. Raises RecordError where that cannot be read: then nothing may be exchanged."""
    try:
        return metas.read(store, seen.meta) if seen.meta is not None else metas.NOTHING
    except RecordError as error:
        raise RecordError(f"the remote's '{META}' cannot be used, and nothing is joined or pushed: {error.message}") from None


def chosen(seen: Seen, choice: Choice) -> dict[str, Oid]:
    """The refs of a remote that a choice takes: tracks, what is said of them, and by its options the rest."""
    found = {CHAINS + encode_track(track): oid for track, oid in seen.tracks.items() if choice.takes(track)}
    found |= {ref: oid for ref, oid in ((META, seen.meta), (NOTES, seen.notes)) if oid is not None}
    return found | besides(seen, choice)


def besides(seen: Seen, choice: Choice) -> dict[str, Oid]:
    """The refs of a remote, besides those of tracks, that a choice takes by its options."""
    asked = ((TRANSCRIPTS, choice.transcripts), (THREADS, choice.threads), (LATE, choice.threads), (RUNS, choice.runs))
    rooms = tuple(room for room, wanted in asked if wanted)
    return {ref: oid for ref, oid in seen.others.items() if rooms and ref.startswith(rooms)}


def here(remote: str, ref: str) -> str:
    """Where a ref of a remote lies once it is fetched."""
    rest = "notes" if ref == NOTES else ref.removeprefix(_OURS)
    return remote_ref(remote, rest)
