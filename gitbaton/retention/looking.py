"""Everything of ours in a repository, read whole before anything is removed; what cannot be read or is a stranger's ends it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from gitbaton.agents.values import NAMES
from gitbaton.codec import decode, decode_track, plain
from gitbaton.errors import GitError, RecordError
from gitbaton.git import usage
from gitbaton.git.objects import parse_commit
from gitbaton.git.usage import Size
from gitbaton.journal.names import run_of
from gitbaton.model import Oid, Stored
from gitbaton.store import CHAINS, NOTES, SAFETY, TIPS, Store, tip_ref, track_of
from gitbaton.store.meta import Meta
from gitbaton.store.meta import read as read_meta
from gitbaton.store.refs import META, REMOTES, RUNS, THREADS, TRANSCRIPTS
from gitbaton.store.values import MAX_COMMIT
from gitbaton.threads.names import LATE, names_of
from gitbaton.transcripts.layout import kept
from gitbaton.values import value

OURS = ("refs/baton/", TIPS)
_MAX_TIP = 2 << 20


@value
class Chain:
    """A chain and its checkpoints, newest first; ``name`` is the track, or what follows ``refs/baton/safety/``."""

    ref: str
    name: str
    tip: Oid
    items: tuple[Stored, ...]


@value
class Conversation:
    """A stored conversation and when it last grew."""

    ref: str
    agent: str
    session: str
    tip: Oid
    newest: datetime


@value
class Found:
    """All that is ours. ``refs``: our refs, the notes' and the fetched ones, too; ``others``: where the user's refs and what
    was fetched begin; ``since``: what these reach and what was not there before the first checkpoint of each chain;
    ``objects``: what our own refs reach beyond that, each with a path; ``sizes``: what both take on disk; ``runs``: the commits
    that runs reach."""

    refs: Mapping[str, Oid]
    tracks: tuple[Chain, ...]
    safety: tuple[Chain, ...]
    conversations: tuple[Conversation, ...]
    meta: Meta
    others: tuple[Oid, ...]
    since: Mapping[Oid, bytes]
    objects: Mapping[Oid, bytes]
    sizes: Mapping[Oid, Size]
    runs: frozenset[Oid]


def look(store: Store) -> Found:
    """Read all of it. Raises RecordError that names the first ref, commit or object that is not as gitbaton writes it."""
    try:
        return _look(store)
    except GitError as error:
        raise RecordError(f"nothing is removed: {error.message}") from None
    except RecordError as error:
        raise RecordError(f"nothing is removed: {error.message}", *error.hints) from None


def own_refs(store: Store) -> dict[str, Oid]:
    """Our refs and what they point at: chains, tips, notes, meta, and all else below ``refs/baton/``."""
    found = usage.refs(store.repo, *OURS)
    note = store.objects.refs("refs/notes/").get(NOTES)
    return {**found, **({NOTES: note} if note is not None else {})}


def strange(store: Store, refs: Mapping[str, Oid]) -> Iterator[tuple[str, RecordError]]:
    """Those of ``refs``, which are ``own_refs``, on which everything that removes stops, each with what is wrong with it."""
    for ref, oid in refs.items():
        if not known(ref):
            hint = "'git for-each-ref refs/baton refs/checkpoints' shows it; move or rename it"
            yield ref, RecordError(f"'{plain(ref)}' is not a ref that gitbaton writes", hint)
        elif not oid.strip("0"):
            yield ref, RecordError(f"'{ref}' is broken: it holds no id")
    for ref, target in usage.symbolic(store.repo, *OURS, NOTES).items():  # what moves it might move the other
        yield ref, RecordError(f"'{ref}' is a symbolic ref, for '{plain(target)}'; gitbaton writes none there")


def _look(store: Store) -> Found:
    refs = own_refs(store)
    for _, error in strange(store, refs):
        raise error
    meta = read_meta(store)
    store.notes_tree()
    tracks = tuple(_chain(store, ref, track_of(ref), oid) for ref, oid in sorted(refs.items()) if ref.startswith(CHAINS))
    safety = tuple(_chain(store, ref, None, oid) for ref, oid in sorted(refs.items()) if ref.startswith(SAFETY))
    _check_tips(store, refs, {chain.name: chain.items[0] for chain in tracks if chain.items})
    conversations = tuple(conversation(store, ref, oid) for ref, oid in refs.items() if ref.startswith(TRANSCRIPTS))
    mine = [oid for ref, oid in refs.items() if not ref.startswith(REMOTES)]
    others = _others(store, refs)
    # A walk leaves out what commits at its edge hold, and not what they lead to: work that was committed after its checkpoint.
    first = [chain.items[-1].base for chain in (*tracks, *safety) if chain.items]
    since = usage.reached(store.repo, others, [oid for oid in first if oid])
    root = existing(store, [store.root])  # where there are only threads, nobody has made it
    reached = usage.reached(store.repo, [*root, *mine] if mine else [], others)
    objects = {oid: path for oid, path in reached.items() if oid not in since}
    sizes = usage.sizes(store.repo, reached.keys() | since.keys())
    for oid, path in {**since, **reached}.items():
        if oid not in sizes:
            named = f" ('{plain(path.decode('utf-8', 'replace'))}')" if path else ""
            raise RecordError(f"object {oid}{named} cannot be read")
    return Found(
        refs=refs,
        tracks=tracks,
        safety=safety,
        conversations=conversations,
        meta=meta,
        others=others,
        since=since,
        objects=objects,
        sizes=sizes,
        runs=_needed(store, refs, others),
    )


def known(ref: str) -> bool:
    """Whether a ref below ``refs/baton/`` or ``refs/checkpoints/`` has a name that gitbaton writes, or was fetched."""
    if ref.startswith((CHAINS, TIPS)):
        return track_of(ref) is not None
    if ref.startswith(SAFETY):
        rest = ref.removeprefix(SAFETY).split("/")
        return rest == ["main-worktree"] or (len(rest) == 2 and rest[0] == "worktrees")
    if ref.startswith(TRANSCRIPTS):
        return conversation_name(ref) is not None
    if ref.startswith(REMOTES):
        remote, _, below = ref.removeprefix(REMOTES).partition("/")
        return bool(below) and decode_track(remote) is not None
    if ref.startswith(RUNS):
        return run_of(ref.removeprefix(RUNS)) is not None
    if ref.startswith((THREADS, LATE)):
        return names_of(ref) is not None
    return ref in (META, NOTES)


def conversation_name(ref: str) -> tuple[str, str] | None:
    """The agent and the session that the ref of a stored conversation names; None for any other ref."""
    parts = ref.removeprefix(TRANSCRIPTS).split("/")
    session = decode_track(parts[1]) if len(parts) == 2 and parts[0] in NAMES else None
    return None if session is None else (parts[0], session)


def _chain(store: Store, ref: str, track: str | None, tip: Oid) -> Chain:
    """A chain, every commit of it, down to the root. Raises RecordError that names what is broken."""
    try:
        oids = store.objects.first_parents(tip)
    except GitError as error:
        raise RecordError(f"'{ref}': {error.message}") from None
    items: list[Stored] = []
    for oid, found in zip(oids, store.objects.read_many(oids, MAX_COMMIT), strict=True):
        if oid == store.root:
            return Chain(ref=ref, name=track if track is not None else ref.removeprefix(SAFETY), tip=tip, items=tuple(items))
        try:
            items.append(store.stored(found, track, oid))
        except RecordError as error:
            raise RecordError(f"'{ref}', commit {oid}: {error.message}") from None
    raise RecordError(f"'{ref}': its chain does not begin at the root")


def _check_tips(store: Store, refs: Mapping[str, Oid], newest: Mapping[str, Stored]) -> None:
    """A tip ref that does not show its chain's newest checkpoint shows an older one: the next command repairs it."""
    shown = {tip_ref(track): stored.id for track, stored in newest.items()}
    behind = [(ref, oid) for ref, oid in refs.items() if ref.startswith(TIPS) and shown.get(ref) != oid]
    read = store.objects.read_many([oid for _, oid in behind], _MAX_TIP)
    for (ref, oid), found in zip(behind, read, strict=True):
        if found is None or found.kind != "blob" or found.data is None:
            what = f"a {found.kind}" if found is not None else "an object that cannot be read"
            raise RecordError(f"'{ref}' points at {what}, {oid}, and not at a checkpoint")
        try:
            decode(found.data)
        except RecordError as error:
            raise RecordError(f"'{ref}': {error.message}") from None


def conversation(store: Store, ref: str, tip: Oid) -> Conversation:
    """A stored conversation. Raises RecordError for what is none."""
    name = conversation_name(ref)
    if name is None:
        raise RecordError(f"'{plain(ref)}' is not a ref that gitbaton writes")
    try:
        kept(store.objects, tip, *name)
        found = store.objects.read(tip)
        seconds = int(parse_commit(found.data if found and found.data else b"").author.rsplit(b" ", 2)[1])
        newest = datetime.fromtimestamp(seconds, UTC)
    except (RecordError, ValueError, IndexError, OverflowError) as error:
        raise RecordError(f"'{ref}': {error}") from None
    return Conversation(ref=ref, agent=name[0], session=name[1], tip=tip, newest=newest)


def _others(store: Store, refs: Mapping[str, Oid]) -> tuple[Oid, ...]:
    """Where everything else in the repository begins: the user's refs and HEAD, and what was fetched."""
    mine = {ref for ref in refs if not ref.startswith(REMOTES)}
    oids = {oid for ref, oid in store.objects.refs("refs/").items() if ref not in mine and oid.strip("0")}
    head = store.objects.head().oid
    return existing(store, oids | ({head} if head else set()))


def existing(store: Store, oids: Iterable[Oid]) -> tuple[Oid, ...]:
    """Those of some objects that are there."""
    asked = sorted(set(oids))
    return tuple(oid for oid, found in zip(asked, store.objects.read_many(asked, 0), strict=True) if found is not None)


def _needed(store: Store, refs: Mapping[str, Oid], others: Collection[Oid]) -> frozenset[Oid]:
    """The commits that runs reach: what they stand on must not go while they may go on. Threads stand on nothing of ours."""
    tips = [oid for ref, oid in refs.items() if ref.startswith(RUNS)]
    return frozenset(usage.commits(store.repo, tips, others)) if tips else frozenset()
