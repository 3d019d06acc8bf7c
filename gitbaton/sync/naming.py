"""What the names after a remote mean where threads are exchanged, too: tracks, and threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.codec import check_track, decode_track, plain
from gitbaton.errors import NotFoundError, RemoteError, UsageError
from gitbaton.git.remotes import Connection
from gitbaton.model import Oid
from gitbaton.store.refs import remote_ref
from gitbaton.sync.look import Seen, look, thread_of
from gitbaton.sync.threads import flush, pending
from gitbaton.sync.values import Choice
from gitbaton.threads.names import LATE, THREADS, ref_of
from gitbaton.values import replace

_SHOWN = 100


def named(
    baton: Baton,
    line: Connection,
    choice: Choice,
    names: Sequence[str],
    *,
    ours: bool = True,
    places: Sequence[str | None] = (None,),
    write: bool = True,
) -> Choice:
    """A choice of what these names mean: a track that is here or there, else a thread that is. With a thread among them it
    takes only the threads that are named, and only the tracks; with tracks alone these, and all threads.

    ``ours``: what is here counts, besides what was fetched; ``places``: the addresses that are looked at; with ``write`` what
    savers have in their log is flushed first. Raises NotFoundError for a name that is neither, RemoteError.
    """
    if not (names and choice.threads):
        return choice
    if ours and write:
        flush(baton)
    tracks, threads = _here(baton, line.remote.name, ours=ours)
    if any(_track(name) not in tracks for name in names):
        for seen in _there(line, places):
            tracks |= seen.tracks.keys()
            threads |= _threads(seen.others)
    chosen = [track for name in names if (track := _track(name)) in tracks and track is not None]
    rest = [name for name in names if _track(name) not in tracks]
    for name in rest:
        if _thread(name) not in threads:
            shown = plain(name if len(name) <= _SHOWN else name[:_SHOWN] + "...")
            where = " here or at" if ours else " at"
            hint = ("what savers have not flushed yet is not counted",) if ours and not write and pending(baton) else ()
            raise NotFoundError(f"there is no track and no thread '{shown}'{where} '{plain(line.remote.shown)}'", *hint)
    only = frozenset(thread for name in rest if (thread := _thread(name)) is not None)
    return replace(choice, tracks=tuple(dict.fromkeys(chosen)), named=only or None)


def is_thread(baton: Baton, name: str) -> bool:
    """Whether the refs here have a thread of this name."""
    return _thread(name) in _threads(baton.repo.objects.refs(THREADS, LATE))


def _here(baton: Baton, remote: str, *, ours: bool) -> tuple[set[str], set[str]]:
    """The tracks and threads that are known without asking anybody."""
    below = remote_ref(remote, "tracks/")
    refs = baton.repo.objects.refs(*((THREADS, LATE) if ours else ()), remote_ref(remote))
    found = (decode_track(ref.removeprefix(below)) for ref in refs if ref.startswith(below))
    tracks = {track for track in found if track is not None}
    return tracks | (set(baton.store.chains()[0]) if ours else set()), _threads(refs)


def _there(line: Connection, places: Sequence[str | None]) -> Iterable[Seen]:
    """What the remote has at each of its addresses; one of several that gives no answer is passed over."""
    for place in places:
        try:
            yield look(line, place)
        except RemoteError:
            if len(places) == 1:
                raise


def _threads(refs: Mapping[str, Oid]) -> set[str]:
    return {thread for ref in refs if (thread := thread_of(ref)) is not None}


def _track(name: str) -> str | None:
    try:
        return check_track(name)
    except UsageError:
        return None


def _thread(name: str) -> str | None:
    """A thread as its refs name it; None where no ref can."""
    try:
        return thread_of(ref_of(name, ""))
    except UsageError:
        return None
