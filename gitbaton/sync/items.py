"""Refs of an exchange: the item of each, which a remote has, which are broken here, and which names and options choose."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.codec import check_track, decode_track, in_quotes, plain
from gitbaton.errors import BatonError, GitError, GitTimeoutError, NotFoundError, RecordError, RemoteError, UsageError
from gitbaton.git.remotes import Connection, place_address
from gitbaton.journal.values import run_of
from gitbaton.model import Oid
from gitbaton.store import CHAINS, NOTES, Store
from gitbaton.store import meta as metas
from gitbaton.store.meta import Meta
from gitbaton.store.read import own_refs, torn_refs, unreadable_refs, user_tips
from gitbaton.store.refs import META, REMOTES, RUNS, SAFETY, TRANSCRIPTS, remote_ref, track_of
from gitbaton.sync.values import Choice, Item
from gitbaton.threads.names import LATE, THREADS, names_of, ref_of
from gitbaton.values import replace, value

OURS = "refs/baton/"
_OTHERS = (SAFETY, REMOTES)  # of no concern to anybody else, also where somebody mirrored them
_FETCHED = re.compile(r"refs/baton/remotes/[^/]+/(?:joined/[0-9a-f]{16}/(?=threads/|late/))?")
_TALK = re.compile(r"[a-z][a-z0-9_-]*/([^/]+)\Z")
_SHOWN = 100


def item_of(ref: str) -> Item | None:
    """The item that a ref of ours is of, here or at a remote; None for one that is of none, or is not as we write it."""
    if ref.startswith(CHAINS):
        track = track_of(ref)
        return ("track", track) if track is not None else None
    if ref.startswith(RUNS):
        run = run_of(ref.removeprefix(RUNS))
        return ("run", run) if run is not None else None
    if ref.startswith(TRANSCRIPTS):
        match = _TALK.match(ref.removeprefix(TRANSCRIPTS))
        return ("transcript", ref) if match is not None and decode_track(match[1]) is not None else None
    names = names_of(ref)
    return ("thread", *names) if names is not None else None


def own(ref: str) -> str:
    """The ref that one below refs/baton/remotes stands for; any other as it is."""
    return _FETCHED.sub(OURS, ref, count=1)


def here(remote: str, ref: str) -> str:
    """Where a ref of a remote lies once it is fetched."""
    return remote_ref(remote, "notes" if ref == NOTES else ref.removeprefix(OURS))


def room(line: Connection, place: str | None = None) -> str:
    """The folder of refs that say how threads stood when a remote and we had the same, after a join or a push: one for each
    address, since what is not at another one was not removed there."""
    shown = place_address(line.repo, place or line.remote.fetch)
    digest = hashlib.sha256(shown.encode("utf-8", "surrogateescape")).hexdigest()
    return remote_ref(line.remote.name, f"joined/{digest[:16]}/")


@value
class Seen:
    """The refs of a remote: all that were listed; the items of those that are of one; the tracks among them; and refs in our
    namespace that gitbaton does not write."""

    refs: Mapping[str, Oid]
    items: Mapping[str, Item]
    tracks: Mapping[str, Oid]
    strange: tuple[str, ...]

    def chosen(self, choice: Choice) -> dict[str, Item]:
        """The refs of items that a choice takes."""
        return {ref: item for ref, item in self.items.items() if choice.takes(item)}


def look(line: Connection, place: str | None = None, *, everything: bool = False) -> Seen:
    """Ask a remote, or one of its push addresses, for the refs in our rooms, or for all. Raises RemoteError."""
    refs = line.listed(*(() if everything else (OURS + "*", NOTES)), place=place)
    items = {ref: item for ref in refs if (item := item_of(ref)) is not None}
    tracks = {item[1]: refs[ref] for ref, item in items.items() if item[0] == "track"}
    ours = (ref for ref in refs if ref.startswith(OURS) and ref != META and not ref.startswith(_OTHERS))
    return Seen(refs=refs, items=items, tracks=tracks, strange=tuple(ref for ref in ours if ref not in items))


def said(store: Store, seen: Seen) -> Meta:
    """What a remote says is pinned and dropped. Raises RecordError where that cannot be read: then nothing may be exchanged."""
    try:
        return metas.read(store, seen.refs[META]) if META in seen.refs else metas.NOTHING
    except RecordError as error:
        raise RecordError(f"the remote's '{META}' cannot be used, and nothing is joined or pushed: {error.message}") from None


def require_meta(baton: Baton, what: str) -> None:
    """Raise RecordError that says ``what`` is not done where it cannot be read what is pinned and dropped here: that protects
    others, and so it is looked at before anything is written."""
    try:
        metas.read(baton.store)
    except RecordError as error:
        raise RecordError(f"nothing is {what}: {error.message}", *error.hints) from None


def broken_refs(baton: Baton, line: Connection, choice: Choice) -> dict[str, str]:
    """The refs here that are broken, each with why, but for those of tracks that a choice does not take. From now on git does
    not see them when it fetches."""
    found = unreadable_refs(baton.store, own_refs(baton.store))
    line.hidden |= found.keys()
    tracks = {ref: track_of(own(ref)) for ref in found}
    return {ref: why for ref, why in found.items() if (name := tracks[ref]) is None or choice.takes(("track", name))}


def more_broken_refs(baton: Baton, line: Connection, error: BatonError, there: Mapping[str, Oid]) -> dict[str, str]:
    """After an error that may come of it: the refs here, and those ``there`` whose objects are here, that lead to what cannot
    be read and were not known yet."""
    if isinstance(error, RemoteError):
        local = error.kind in ("other", "read-only")  # a pack that ends early is one that a server cannot unpack
    else:
        local = isinstance(error, GitError | RecordError) and not isinstance(error, GitTimeoutError)
    if not local:
        return {}
    store = baton.store
    known = {ref: oid for ref, oid in there.items() if store.objects.info(oid) is not None}
    refs = {ref: oid for ref, oid in {**known, **own_refs(store)}.items() if ref not in line.hidden}
    found = torn_refs(store, refs, user_tips(store))
    line.hidden |= found.keys()
    return found


def torn_notes(store: Store) -> dict[str, str]:
    """Our notes, where they lead to what cannot be read, with why."""
    return torn_refs(store, {ref: oid for ref, oid in own_refs(store).items() if ref == NOTES}, user_tips(store))


def flush(baton: Baton) -> None:
    """Bring into git what savers have in their log, one that was killed, too. Raises BatonError."""
    if pending(baton):
        from gitbaton.threads.store import ThreadStore

        with ThreadStore(baton.repo) as store:
            store.flush()


def pending(baton: Baton) -> bool:
    """Whether there is a log, so that there may be more than the refs say."""
    return os.path.isdir(os.path.join(baton.repo.shared_dir, "wal"))


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

    ``ours``: what is here counts, besides what was fetched; ``places``: the addresses that are looked at; one of several that
    gives no answer is passed over. With ``write`` what savers have in their log is flushed first. Raises NotFoundError for a
    name that is neither, RemoteError.
    """
    if not (names and choice.threads):
        return choice
    if ours and write:
        flush(baton)
    known = _items(baton.repo.objects.refs(*((THREADS, LATE) if ours else ()), remote_ref(line.remote.name)))
    known |= {("track", track) for track in baton.store.chains()[0]} if ours else set()
    meant = [_meant(name, known) for name in names]
    if any(item is None or item[0] != "track" for item in meant):
        for place in places:
            try:
                known |= _items(look(line, place).refs)
            except RemoteError:
                if len(places) == 1:
                    raise
        meant = [_meant(name, known) for name in names]
    for name, item in zip(names, meant, strict=True):
        if item is None:
            shown = plain(name if len(name) <= _SHOWN else name[:_SHOWN] + "...")
            where = " here or at" if ours else " at"
            hint = ("what savers have not flushed yet is not counted",) if ours and not write and pending(baton) else ()
            raise NotFoundError(
                f"there is no track and no thread {in_quotes(shown)}{where} {in_quotes(line.remote.shown)}", *hint
            )
    tracks = dict.fromkeys(item[1] for item in meant if item is not None and item[0] == "track")
    threads = frozenset(item[1] for item in meant if item is not None and item[0] == "thread")
    return replace(choice, tracks=tuple(tracks), named=threads or None)


def is_thread(baton: Baton, name: str) -> bool:
    """Whether the refs here have a thread of this name."""
    return _meant(name, _items(baton.repo.objects.refs(THREADS, LATE))) is not None


def _items(refs: Iterable[str]) -> set[Item]:
    """The items of refs here, fetched or at a remote, of threads without their namespaces."""
    return {item[:2] for ref in refs if (item := item_of(own(ref))) is not None}


def _meant(name: str, known: Collection[Item]) -> Item | None:
    """The track, else the thread, of those ``known`` that a name means; None where it means neither."""
    for kind in ("track", "thread"):
        try:
            item = ("track", check_track(name)) if kind == "track" else item_of(ref_of(name, ""))
        except UsageError:
            continue
        if item is not None and item[:2] in known:
            return item[:2]
    return None
