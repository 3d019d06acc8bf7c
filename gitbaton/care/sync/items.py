"""Exchange with a remote: the items of refs, which names and options choose them, and the values that go in and come out."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import MappingProxyType

from gitbaton.base.codec import check_track, decode_track, decode_tracks, in_quotes, plain
from gitbaton.base.errors import (
    BatonError,
    GitError,
    GitTimeoutError,
    NotFoundError,
    RecordError,
    RefConflictError,
    RemoteError,
    UsageError,
)
from gitbaton.base.model import Oid
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.checkpoints.store import CHAINS, NOTES, Store
from gitbaton.checkpoints.store import meta as metas
from gitbaton.checkpoints.store.meta import Meta
from gitbaton.checkpoints.store.read import NONE, own_refs, torn_refs, unreadable_refs, user_tips
from gitbaton.checkpoints.store.refs import (
    IMPORTED,
    META,
    REMOTES,
    RUNS,
    SAFETY,
    SIGNATURES,
    TRANSCRIPTS,
    remote_ref,
    signed_track,
    track_of,
)
from gitbaton.git.remotes import Connection
from gitbaton.langgraph.threads.names import LATE, THREADS, names_of, ref_of
from gitbaton.runs.journal.values import run_of

if TYPE_CHECKING:
    from typing import TypeVar

    from gitbaton.care.scanning import Hit

    R = TypeVar("R", "Fetched", "Joined")
    T = TypeVar("T")
Item = tuple[str, ...]
"""One thing to exchange, its kind first: ``track`` and its name, ``run`` and its name, ``thread``, its name and a namespace,
``transcript`` and its ref."""
KINDS = ("track", "run", "thread")  # in the order in which they are told


def in_order(rows: Iterable[R]) -> tuple[R, ...]:
    """Return what was fetched or joined, in the order of KINDS, else as it is."""
    return tuple(sorted(rows, key=lambda row: KINDS.index(row.item[0])))


@value
class Choice:
    """Choice of what to exchange: these tracks (None: all), and conversations, threads and runs besides. ``named``: only
    these threads, as their refs name them; ``kept``: threads that stay here all the same; ``prune``: threads that were
    deleted here are to be deleted there."""

    tracks: tuple[str, ...] | None = None
    transcripts: bool = False
    threads: bool = False
    runs: bool = False
    named: frozenset[str] | None = None
    kept: frozenset[str] = frozenset()
    prune: bool = False

    def takes(self, item: Item) -> bool:
        """Whether an item is among them."""
        if item[0] == "track":
            return self.tracks is None or item[1] in self.tracks
        if item[0] == "thread":
            return self.threads and (self.named is None or item[1] in self.named)
        return {"run": self.runs, "transcript": self.transcripts}[item[0]]


@value
class FutureCheckpoint:
    """A checkpoint that says it is from the future."""

    id: Oid
    created: datetime


@value
class Fetched:
    """One item of a remote after a fetch: a track, a run, or a namespace of a thread, by its name for people.

    ``state``: ``new``, ``newer``, ``same``, ``rewritten``, ``gone`` (it is there no more), ``pruned`` (nor here), or ``broken``
    with the ``reason``. ``count``: checkpoints that were not here, of a run its records. Of a track only, ``step``: of the
    newest, as a stranger wrote it; ``late``: from the future.
    """

    item: Item
    state: str
    count: int = 0
    step: str = ""
    reason: str = ""
    late: tuple[FutureCheckpoint, ...] = ()


@value
class Gathered:
    """Result of a fetch: the items, in the order of KINDS, and refs of the remote with names that gitbaton does not write.
    ``others``: other refs that moved here; ``apart``: the refs here that are broken and were left alone, each with why."""

    rows: tuple[Fetched, ...]
    strange: tuple[str, ...]
    others: int = 0
    apart: Mapping[str, str] = NONE

    @property
    def broken(self) -> bool:
        """Whether an item of the remote, or a ref here, is broken."""
        return any(row.state == "broken" for row in self.rows) or bool(self.apart)


@value
class Joined:
    """Result of joining one track or one namespace of a thread: checkpoints that are new here, that have gone because they
    were dropped or removed there, and, of a thread, that say something else now; why it was not joined (empty when it was).
    ``was``: where its chain stood before some went or changed; until git collects its garbage they can be had from there.
    ``late``: those of a track that are left out because they are from the future. ``back``: a thread was deleted here, and
    went on there; ``new``: a track was not here."""

    item: Item
    added: int = 0
    removed: int = 0
    changed: int = 0
    was: Oid | None = None
    late: tuple[FutureCheckpoint, ...] = ()
    back: bool = False
    new: bool = False
    problem: str = ""


@value
class Joining:
    """Result of a join, in the order of KINDS; ``tips`` are the chains of all tracks afterwards, ``meta`` what is pinned and
    dropped; ``refs``: those of threads afterwards, where it was only planned."""

    rows: tuple[Joined, ...]
    tips: dict[str, Oid]
    meta: Meta
    warnings: tuple[str, ...] = ()
    refs: Mapping[str, Oid] | None = None

    @property
    def broken(self) -> bool:
        """Whether the join left out an item that should have been joined."""
        return any(row.problem for row in self.rows)


@value
class Exposure:
    """Public parts of the first push of tracks, runs and threads, beyond what the remote's refs hold. ``observed``: how many
    of the checkpoints tell what an agent's client had on record; ``conversations``: those that go along; ``states``: the
    checkpoints of threads; ``kept``: what of
    the newest ones stays here, in words; ``untracked``: the paths of the untracked files; ``secret_files``: those of files with
    names that say that they hold secrets."""

    tracks: tuple[str, ...]
    checkpoints: int
    commits: int
    untracked: tuple[str, ...]
    bytes: int
    runs: tuple[str, ...] = ()
    records: int = 0
    threads: tuple[str, ...] = ()
    states: int = 0
    observed: int = 0
    conversations: int = 0
    secret_files: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The tracks and the runs."""
        return (*self.tracks, *self.runs)

    @property
    def asked(self) -> frozenset[Item]:
        """Items that need agreement; threads without their namespaces."""
        kinds = (("track", self.tracks), ("run", self.runs), ("thread", self.threads))
        return frozenset((kind, name) for kind, names in kinds for name in names)


@value
class Move:
    """Move of one ref of the remote by a push.

    ``action``: ``new``, ``forward``, ``rewrite``, ``append``, ``delete``, ``refused`` with the ``reason``, or ``same`` where it
    stays though the two sides differ. ``count``: checkpoints that the remote lacks; ``dropped``: those that it has and that are
    dropped; ``forgotten``: how many of these are to be nowhere. ``commits`` and ``untracked``: the user's commits and untracked
    files that become public with it. ``item``: the track, the run (``count`` counts its records), or the thread by its name for
    people, also of the writes that came late to it; empty for conversations, and what is said of tracks. ``hint``: what can be
    done about a refusal; ``broken``: the item here is.
    """

    ref: str
    action: str
    seen: Oid | None = None
    new: Oid | None = None
    item: Item = ()
    count: int = 0
    dropped: int = 0
    forgotten: int = 0
    commits: int = 0
    untracked: int = 0
    reason: str = ""
    hint: str = ""
    broken: bool = False

    @property
    def kind(self) -> str:
        """The item's kind; empty where it is of none."""
        return self.item[0] if self.item else ""

    @property
    def name(self) -> str:
        """The item's name; empty where it is of none."""
        return self.item[1] if self.item else ""

    @property
    def asked(self) -> Item:
        """Item that needs agreement, as in Exposure, of a thread without its namespace."""
        return self.item[:2]

    @property
    def changes(self) -> bool:
        """Whether the remote's ref moves."""
        return self.action not in ("same", "refused")


@value
class Pushing:
    """Result of a push, or of a dry run: every move; what was found that must not leave (then nothing was sent); what became
    public; ``same``: the tracks with the tip that both sides have; ``bytes``: what that which the remote lacks takes here,
    where no agreement was asked for; ``declined``: tracks and runs that are not agreed on to become public, and ``private``
    such threads; ``failure``: why one of several places was not pushed to; ``keeps``: what is forgotten and stays there all
    the same, because nothing can be rewritten there; ``apart``: as in Gathered, also what leads to what cannot be read, where
    that was in the way; ``contents``: how many files' contents git-lfs sends."""

    moves: tuple[Move, ...]
    same: Mapping[str, Oid] = MappingProxyType({})
    hits: tuple[Hit, ...] = ()
    exposure: Exposure | None = None
    bytes: int | None = None
    declined: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    failure: str = ""
    keeps: str = ""
    apart: Mapping[str, str] = NONE
    contents: int = 0

    @property
    def refused(self) -> bool:
        """Whether an item did not reach the remote that should have."""
        stayed = self.hits or self.declined or self.private or self.failure or self.keeps or self.apart
        return bool(stayed) or any(move.action == "refused" for move in self.moves)


@value
class Synced:
    """Result of a sync. ``pushing`` has one part for each place that the remote is pushed to; ``failure`` is why the last
    one was refused as a whole."""

    gathered: Gathered
    joining: Joining
    pushing: tuple[Pushing, ...] = ()
    failure: str = ""
    rounds: int = 1

    @property
    def apart(self) -> Mapping[str, str]:
        """The refs here that are broken and were left alone, each with why."""
        return {**self.gathered.apart, **{ref: why for part in self.pushing for ref, why in part.apart.items()}}


OURS = "refs/baton/"
TRIES, PAUSE = 6, 0.05  # seconds after the first try, at most; twice as many after each further one
_OTHERS = (SAFETY, REMOTES)  # of no concern to anybody else, also where somebody mirrored them
_FETCHED = re.compile(r"refs/baton/remotes/[^/]+/(?:joined/[0-9a-f]{16}/(?=threads/|late/))?")
_TALK = re.compile(r"[a-z][a-z0-9_-]*/([^/]+)\Z")
_SHOWN = 100  # characters of a name
_CLOSELY = 2000  # objects at refs that are read whole; of more the headers, and what is sent or needed is read then


def item_of(ref: str) -> Item | None:
    """Return the item that a ref of ours is of, here or at a remote; None for one that is of none, or is not as we write it."""
    if ref.startswith(CHAINS):
        track = decode_track(ref[len(CHAINS) :])
        return ("track", track) if track is not None else None
    if ref.startswith(SIGNATURES):  # which go where their track goes
        track = signed_track(ref)
        return ("track", track) if track is not None else None
    if ref.startswith(RUNS):
        run = run_of(ref.removeprefix(RUNS))
        return ("run", run) if run is not None else None
    if ref.startswith((TRANSCRIPTS, IMPORTED)):
        match = _TALK.match(ref.removeprefix(TRANSCRIPTS).removeprefix(IMPORTED))
        return ("transcript", ref) if match is not None and decode_track(match[1]) is not None else None
    names = names_of(ref)
    return ("thread", *names) if names is not None else None


def called(name: Sequence[str]) -> str:
    """Return a namespace of a thread in words."""
    thread, namespace = (plain(part if len(part) <= _SHOWN else part[: _SHOWN - 3] + "...") for part in name)
    return f"thread {in_quotes(thread)}" + (f" (namespace {in_quotes(namespace)})" if namespace else "")


def joins(shown: str) -> str:
    """Return the command that takes in what a remote has of threads."""
    return f"git baton sync --threads {in_shell(shown)}"


def own(ref: str) -> str:
    """Return the ref that one below refs/baton/remotes stands for; any other as it is."""
    return _FETCHED.sub(OURS, ref, count=1)


def here(remote: str, ref: str) -> str:
    """Return the ref that a ref of a remote is fetched to."""
    return remote_ref(remote, "notes" if ref == NOTES else ref.removeprefix(OURS))


def room(line: Connection, place: str | None = None) -> str:
    """Return the folder of refs that say how threads stood when a remote and we had the same, after a join or a push: one
    for each address, since what is not at another one was not removed there."""
    shown = line.remote.address(place or line.remote.fetch)
    digest = hashlib.sha256(shown.encode("utf-8", "surrogateescape")).hexdigest()
    return remote_ref(line.remote.name, f"joined/{digest[:16]}/")


@value
class RemoteRefs:
    """The refs of a remote: all that were listed; the items of those that are of one; the tracks among them; and refs in our
    namespace that gitbaton does not write."""

    refs: Mapping[str, Oid]
    items: Mapping[str, Item]
    tracks: Mapping[str, Oid]
    strange: tuple[str, ...]

    def chosen(self, choice: Choice) -> dict[str, Item]:
        """Return the refs of items that a choice takes."""
        return {ref: item for ref, item in self.items.items() if choice.takes(item)}


def jitter(most: float) -> float:
    """Return a random time of at most so many seconds."""
    import random  # late: nearly always nobody is in the way

    return random.uniform(0, most)


def patiently(once: Callable[[], T], pause: Callable[[float], None] = time.sleep) -> T:
    """Return what ``once`` does; it is done again, some times, while another process moves the same refs, here or at the
    remote. Raises RefConflictError, or RemoteError that is stale, where that does not end."""
    for number in range(TRIES - 1):
        try:
            return once()
        except (RefConflictError, RemoteError) as error:
            if isinstance(error, RemoteError) and error.kind != "stale":
                raise
        pause(jitter(PAUSE * 2**number))
    return once()


def look(
    line: Connection,
    place: str | None = None,
    *,
    everything: bool = False,
    meanwhile: Callable[[], object] = lambda: None,
) -> RemoteRefs:
    """Ask a remote, or one of its push addresses, for the refs in our rooms, or for all; ``meanwhile`` is done while it
    answers. Raises RemoteError."""
    refs = line.listed(*(() if everything else (OURS + "*", NOTES)), place=place, meanwhile=meanwhile)
    chains = [ref for ref in refs if ref.startswith(CHAINS)]
    names = zip(chains, decode_tracks([ref[len(CHAINS) :] for ref in chains]), strict=True)
    known = {ref: ("track", name) for ref, name in names if name is not None}
    items = {ref: item for ref in refs if (item := known.get(ref) or item_of(ref)) is not None}
    tracks = {track: refs[ref] for ref, (_, track) in known.items()}
    others = refs.keys() - items.keys() - {META}
    strange = sorted(ref for ref in others if ref.startswith(OURS) and not ref.startswith(_OTHERS))
    return RemoteRefs(refs=refs, items=items, tracks=tracks, strange=tuple(strange))


def said(store: Store, seen: RemoteRefs) -> Meta:
    """Return what a remote says is pinned and dropped. Raises RecordError where that cannot be read: then nothing may be
    exchanged."""
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


@value
class OwnRefs:
    """Our refs here, as they were listed and looked at; and those of them that are broken and of no track that a choice does
    not take, each with why."""

    refs: Mapping[str, Oid]
    left: Mapping[str, str]


def looked_at(baton: Baton, line: Connection, choice: Choice, before: OwnRefs | None = None) -> OwnRefs:
    """List our refs here and look at each, at thousands less closely; one that is where it was ``before`` is as it was. From
    now on git does not see those that are broken when it fetches."""
    refs, known = own_refs(baton.store), before or OwnRefs(refs={}, left={})
    fresh = {ref: oid for ref, oid in refs.items() if known.refs.get(ref) != oid} if known.refs else refs
    found = unreadable_refs(baton.store, fresh, _CLOSELY)
    line.hidden |= found.keys()
    tracks = {ref: track_of(own(ref)) or signed_track(own(ref)) for ref in found}
    left = {ref: why for ref, why in found.items() if (name := tracks[ref]) is None or choice.takes(("track", name))}
    return OwnRefs(refs=refs, left={ref: why for ref, why in known.left.items() if ref in refs and ref not in fresh} | left)


def more_broken_refs(baton: Baton, line: Connection, error: BatonError, there: Mapping[str, Oid]) -> dict[str, str]:
    """Return, after an error that may come of it, the refs here, and those ``there`` with objects that are here, that lead
    to what cannot be read and were not known yet."""
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


def flush(baton: Baton) -> None:
    """Bring into git what savers have in their log, one that was killed, too. Raises BatonError."""
    if pending(baton):
        from gitbaton.langgraph.threads.store import ThreadStore

        with ThreadStore(baton.repo) as store:
            store.flush()


def pending(baton: Baton) -> bool:
    """Whether savers have a log, so that there may be more than the refs say."""
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
    """Return a choice of what these names mean: a track that is here or there, else a thread that is. With a thread among them
    it takes only the threads that are named, and only the tracks; with tracks alone these, and all threads.

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
    """Return the items of refs here, fetched or at a remote, of threads without their namespaces."""
    return {item[:2] for ref in refs if (item := item_of(own(ref))) is not None}


def _meant(name: str, known: Collection[Item]) -> Item | None:
    """Return the track, else the thread, of those ``known`` that a name means; None where it means neither."""
    with suppress(UsageError):
        if (track := ("track", check_track(name))) in known:
            return track
    with suppress(UsageError):
        if (item := item_of(ref_of(name, ""))) is not None and item[:2] in known:
            return item[:2]
    return None
