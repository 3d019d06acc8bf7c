"""Inventory: all refs of ours, read whole before anything is removed; and the bytes on disk that each part of it takes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from zlib import compress

from gitbaton.agents.transcripts.layout import ahead, kept
from gitbaton.base.clients import NAMES
from gitbaton.base.codec import decode, decode_track, in_quotes
from gitbaton.base.errors import BatonError, GitError, RecordError
from gitbaton.base.model import Oid, Stored
from gitbaton.base.values import value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store import CHAINS, NOTES, SAFETY, TIPS, Store, tip_ref, track_of
from gitbaton.checkpoints.store.chain import MAX_COMMIT, History, payload_in
from gitbaton.checkpoints.store.meta import Meta
from gitbaton.checkpoints.store.meta import read as read_meta
from gitbaton.checkpoints.store.read import NONE, PREFIXES, own_refs, torn_refs, unreadable_refs, user_tips
from gitbaton.checkpoints.store.refs import (
    BEFORE_MENDS,
    IMPORTED,
    META,
    REMOTES,
    RUNS,
    SIGNATURES,
    THREADS,
    TRANSCRIPTS,
    remote_of,
    signed_track,
)
from gitbaton.git import objectlists
from gitbaton.git.damage import loose, torn
from gitbaton.git.objects import NewObject, Object, Objects, RefChange, object_id, parse_commit, parse_tree
from gitbaton.git.repo import Repo
from gitbaton.git.worktree.heldbytes import HeldStore
from gitbaton.langgraph.threads.names import LATE, names_of
from gitbaton.runs.journal.values import run_of

_MAX_TIP = 2 << 20
_LOOKS = 4


def conversation_name(ref: str, room: str = TRANSCRIPTS) -> tuple[str, str] | None:
    """Return the agent and the session that the ref of a stored conversation, or one below another ``room``, names; None for
    any other ref."""
    parts = ref.removeprefix(room).split("/")
    session = decode_track(parts[1]) if len(parts) == 2 and parts[0] in NAMES else None
    return None if session is None else (parts[0], session)


def _remote(ref: str) -> str | None:
    remote, below = remote_of(ref) or ("", "")
    return remote if below else None


_KINDS: tuple[tuple[str, str, Callable[[str], object]], ...] = (  # a kind of refs, how they begin, what one of them names
    ("track", CHAINS, track_of),
    ("track", TIPS, track_of),
    ("track", SIGNATURES, signed_track),
    ("safety", SAFETY, re.compile(re.escape(SAFETY) + "(?:main-worktree|worktrees/[^/]*)").fullmatch),
    ("transcripts", TRANSCRIPTS, conversation_name),
    ("imported", IMPORTED, lambda ref: conversation_name(ref, IMPORTED)),
    ("runs", RUNS, lambda ref: run_of(ref.removeprefix(RUNS))),
    ("threads", THREADS, names_of),
    ("threads", LATE, names_of),
    ("fetched", REMOTES, _remote),
    ("broken", BEFORE_MENDS, re.compile(".*/(?:[0-9a-f]{40}|[0-9a-f]{64})").fullmatch),
)


def kind_of(ref: str) -> tuple[str, object]:
    """Return the kind of a ref of ours, and what it names; None where its name is not one that gitbaton writes, nor was
    fetched."""
    for kind, prefix, named in _KINDS:
        if ref.startswith(prefix):
            return kind, named(ref)
    return ("notes", ref) if ref in (META, NOTES) else ("other", None)


def known(ref: str) -> bool:
    """Whether a ref below ``refs/baton/`` or ``refs/checkpoints/`` has a name that gitbaton writes, or was fetched."""
    return kind_of(ref)[1] is not None


@value
class CheckpointChain:
    """A chain and its checkpoints, newest first; ``name`` is the track, or what follows ``refs/baton/safety/`` or
    ``refs/baton/imported/``."""

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
class FetchedChain:
    """The chain of a track as it was fetched: its checkpoints, newest first; ``whole``: whether all of them can be read."""

    ref: str
    remote: str
    items: tuple[Stored, ...]
    whole: bool


@value
class Inventory:
    """Refs of ours and all that they reach. ``refs``: our refs, the notes' and the fetched ones, too; ``others``: where the
    user's refs and what was fetched begin; ``objects``: what our own refs reach beyond that; ``runs``: the commits that runs
    reach. ``broken``: the refs that lead to what cannot be read, each with why, and of which nothing else here is; ``unknown``:
    the refs of runs of which it is unknown what they reach."""

    refs: Mapping[str, Oid]
    tracks: tuple[CheckpointChain, ...]
    safety: tuple[CheckpointChain, ...]
    imported: tuple[CheckpointChain, ...]
    conversations: tuple[Conversation, ...]
    meta: Meta
    others: tuple[Oid, ...]
    objects: frozenset[Oid]
    runs: frozenset[Oid]
    broken: Mapping[str, str] = NONE
    unknown: tuple[str, ...] = ()

    @property
    def torn(self) -> bool:
        """Whether a chain is broken, so that what it mentions is unknown."""
        return any(ref.startswith((CHAINS, TIPS, SAFETY, IMPORTED, REMOTES)) for ref in self.broken)


def look(store: Store, wanted: Collection[str] | None = None) -> Inventory:
    """Read all of it; a broken ref of ours is left out and named. Raises RecordError where ``meta`` cannot be read, a ref is a
    stranger's, or what cannot be read is the user's. ``wanted``: refs of chains, where only these are to be read: then nothing
    is known of what lies below the other refs, nor of the size of anything.

    What is wrong counts when two looks say the same: between our looks at refs and at objects others may move the ones and git
    collect the others.
    """
    before: object = None
    for _ in range(_LOOKS):
        try:
            found: Inventory | BatonError = _look(store, wanted)
        except (GitError, RecordError) as error:
            found = error
        wrong = found.message if isinstance(found, BatonError) else dict(found.broken)
        if not wrong or wrong == before:
            break
        before = wrong
    if isinstance(found, BatonError):
        raise RecordError(f"nothing is removed: {found.message}", *found.hints)
    return found


def strange(store: Store, refs: Mapping[str, Oid]) -> Iterator[tuple[str, RecordError]]:
    """Yield those of ``refs``, which are ``own_refs``, that stop every removal, each with what is wrong with it."""
    for ref, oid in refs.items():
        if not known(ref) and oid.strip("0"):
            hint = "'git for-each-ref refs/baton refs/checkpoints' shows it; move or rename it"
            yield ref, RecordError(f"{in_quotes(ref)} is not a ref that gitbaton writes", hint)
    for ref, target in objectlists.symbolic(store.repo, *PREFIXES, NOTES).items():  # what moves it might move the other
        yield ref, RecordError(f"{in_quotes(ref)} is a symbolic ref, for {in_quotes(target)}; gitbaton writes none there")


def _look(store: Store, wanted: Collection[str] | None) -> Inventory:
    refs = own_refs(store)
    for _, error in strange(store, refs):
        raise error
    meta = read_meta(store)
    broken = unreadable_refs(store, refs)
    try:
        return _found(store, refs, meta, broken, wanted)
    except (RecordError, GitError):
        rest = {ref: oid for ref, oid in _asked(refs, wanted).items() if ref not in broken}
        more = torn_refs(store, rest, user_tips(store))
        if not more:
            raise
    return _found(store, refs, meta, {**broken, **more}, wanted)


def _asked(refs: Mapping[str, Oid], wanted: Collection[str] | None) -> Mapping[str, Oid]:
    """Return the refs that are looked into: the chains that are ``wanted`` with their tips, and the runs; or all."""
    if wanted is None:
        return refs
    tips = {tip_ref(track) for ref in wanted if (track := track_of(ref)) is not None}
    return {ref: oid for ref, oid in refs.items() if ref in wanted or ref in tips or ref.startswith(RUNS)}


def _found(
    store: Store, refs: Mapping[str, Oid], meta: Meta, broken: dict[str, str], wanted: Collection[str] | None
) -> Inventory:
    """Return all of it with what it reaches, but for what is ``broken``; refs that turn out to be are added to that. Raises
    RecordError, GitError where something of that cannot be read."""
    asked = _asked(refs, wanted)
    chains, amiss = store.surely(lambda brief: _chains(store, asked, broken, brief=brief))
    broken |= amiss
    conversations: list[Conversation] = []
    named = [(ref, oid, name) for ref, oid in sorted(asked.items()) if ref not in broken and (name := conversation_name(ref))]
    reader = ahead(store.objects, (oid for _, oid, _ in named))
    for ref, oid, name in named:
        try:
            conversations.append(_conversation(reader, ref, oid, *name))
        except (RecordError, GitError) as error:
            broken[ref] = error.message
    tips = {tip_ref(chain.name): chain for ref, chain in chains.items() if ref.startswith(CHAINS)}
    _check_tips(store, asked, {tip: chain.items[0].id for tip, chain in tips.items() if chain.items}, broken)
    for tip in tips.keys() & broken.keys():  # a track moves with its tip, or not at all
        del chains[tips[tip].ref]

    whole = {ref: oid for ref, oid in refs.items() if ref not in broken}
    mine = [oid for ref, oid in whole.items() if not ref.startswith(REMOTES)]
    others = store.present([*user_tips(store), *(oid for ref, oid in whole.items() if ref.startswith(REMOTES))])
    objects = _reach(store, whole, chains.values(), mine, others) if wanted is None else frozenset[Oid]()
    below = [oid for ref, oid in asked.items() if ref not in broken] if wanted is not None else []
    if below and (wrong := objectlists.unreadable(store.repo, below, user_tips(store))):
        raise RecordError(wrong)
    runs, unknown = _needed(store, refs, broken, others)
    return Inventory(
        refs=refs,
        tracks=tuple(chain for ref, chain in chains.items() if ref.startswith(CHAINS)),
        safety=tuple(chain for ref, chain in chains.items() if ref.startswith(SAFETY)),
        imported=tuple(chain for ref, chain in chains.items() if ref.startswith(IMPORTED)),
        conversations=tuple(conversations),
        meta=meta,
        others=others,
        objects=objects,
        runs=runs,
        broken=broken,
        unknown=unknown,
    )


def _chains(
    store: Store, refs: Mapping[str, Oid], broken: Collection[str], *, brief: bool
) -> tuple[dict[str, CheckpointChain], dict[str, str]]:
    """Return the chains at some refs, and those that are broken, each with why; ``brief`` as for ``store.surely``."""
    chains, wrong = dict[str, CheckpointChain](), dict[str, str]()
    begin = {ref: oid for ref, oid in sorted(refs.items()) if ref not in broken and ref.startswith((CHAINS, SAFETY, IMPORTED))}
    with store.ahead([*begin.values()], brief=brief):
        walked = store.linked([*begin.values()])
        listed = {ref: walked.get(oid, []) for ref, oid in begin.items()}
        known = {ref: store.in_brief(track_of(ref) if ref.startswith(CHAINS) else None, oids) for ref, oids in listed.items()}
        read = store.objects.read_many([at for ref, oids in listed.items() for at in oids if at not in known[ref]], MAX_COMMIT)
        for ref, oids in listed.items():
            commits = [(at, known[ref][at] if at in known[ref] else next(read)) for at in oids]
            try:
                chains[ref] = _chain(store, ref, begin[ref], commits)
            except (RecordError, GitError) as error:
                wrong[ref] = error.message
    return chains, wrong


def _reach(
    store: Store, whole: Collection[str], chains: Iterable[CheckpointChain], mine: Sequence[Oid], others: Sequence[Oid]
) -> frozenset[Oid]:
    """Return what ``mine`` reach and ``others`` do not. Raises RecordError where something of that, or of what these reach
    since the first checkpoints, cannot be read."""
    # A walk leaves out what commits at its edge hold, and not what they lead to: work committed after its checkpoint.
    first = [chain.items[-1].base for chain in chains if chain.items]
    ends = [oid for oid in first if oid]
    # Where there are only threads, nobody has made the root.
    root = store.present([store.root]) if any(ref.startswith((CHAINS, SAFETY, IMPORTED, RUNS)) for ref in whole) else ()
    tips = [*root, *mine] if mine else []
    since, reached = objectlists.ids_reached_together(store.repo, (others, ends), (tips, others))
    if lacking := objectlists.lacking(store.repo, since | reached):
        named = {**objectlists.reached(store.repo, others, ends), **objectlists.reached(store.repo, tips, others)}
        oid, path = next((oid, path) for oid, path in named.items() if oid in lacking)
        said = f" ({in_quotes(path.decode('utf-8', 'replace'))})" if path else ""
        raise RecordError(f"object {oid}{said} cannot be read")
    if bad := torn(store.repo).keys() & reached:
        raise RecordError(f"object {min(bad)} is torn")
    return frozenset(reached - since)


def _chain(store: Store, ref: str, tip: Oid, commits: Sequence[tuple[Oid, Object | Stored | None]]) -> CheckpointChain:
    """Return a chain, every commit of it, down to the root. Raises RecordError that says what is broken, GitError."""
    track = track_of(ref) if ref.startswith(CHAINS) else None
    items: list[Stored] = []
    for oid, found in commits:
        if oid == store.root:
            return CheckpointChain(
                ref=ref, name=track or ref.removeprefix(SAFETY).removeprefix(IMPORTED), tip=tip, items=tuple(items)
            )
        try:
            items.append(found if isinstance(found, Stored) else store.stored(found, track, oid))
        except RecordError as error:
            raise RecordError(error.message if oid in error.message else f"commit {oid}: {error.message}") from None
    raise RecordError("its chain does not begin at the root")


def _check_tips(store: Store, refs: Mapping[str, Oid], shown: Mapping[str, Oid], broken: dict[str, str]) -> None:
    """Check the tips: a ref that does not show its chain's newest checkpoint shows an older one: the next command repairs
    it. What shows none is broken."""
    behind = [(ref, oid) for ref, oid in refs.items() if ref.startswith(TIPS) and shown.get(ref) != oid and ref not in broken]
    read = store.objects.read_many([oid for _, oid in behind], _MAX_TIP)
    for (ref, _), found in zip(behind, read, strict=True):
        try:
            decode(found.data if found is not None and found.data is not None else b"")
        except RecordError as error:
            broken[ref] = error.message


def _conversation(objects: Objects, ref: str, tip: Oid, agent: str, session: str) -> Conversation:
    """Read a stored conversation. Raises RecordError for what is none."""
    try:
        kept(objects, tip, agent, session)
        commit = objects.read(tip)
        author = parse_commit(commit.data).author if commit is not None and commit.data else b""
        seconds = int(author.rsplit(b" ", 2)[1])
        newest = datetime.fromtimestamp(seconds, UTC)
    except (RecordError, ValueError, IndexError, OverflowError) as error:
        raise RecordError(str(error)) from None
    return Conversation(ref=ref, agent=agent, session=session, tip=tip, newest=newest)


def copies(
    store: Store, found: Inventory, track: str | None = None, among: Collection[str] | None = None
) -> Iterator[FetchedChain]:
    """Yield the chains that were fetched, of one track or of all, but for the refs that are broken; of these perhaps only those
    ``among`` some."""
    own = dict[str | None, dict[Oid, int]]()
    own |= {chain.name: {s.commit: at for at, s in enumerate(chain.items)} for chain in found.tracks}
    items_of = {chain.name: chain.items for chain in found.tracks}
    asked = list[tuple[str, str, str | None]]()
    for ref in found.refs if among is None else filter(among.__contains__, found.refs):
        remote, _, below = ref.removeprefix(REMOTES).partition("/")
        room, _, encoded = below.partition("/")
        name = decode_track(encoded)
        if ref.startswith(REMOTES) and room == "tracks" and ref not in found.broken and track in (None, name):
            asked.append((ref, decode_track(remote) or remote, name))
    rest: list[tuple[str, str | None, Oid]] = [
        (ref, name, found.refs[ref]) for ref, _, name in asked if found.refs[ref] not in own.get(name, ())
    ]

    def several(brief: bool) -> list[History | BatonError]:
        with store.ahead([oid for _, _, oid in rest], brief=brief):
            return [*store.several(rest)]

    found_there = iter(store.surely(several))
    for ref, remote, name in asked:
        at = own.get(name, {}).get(found.refs[ref])
        if at is not None:  # what ours holds was read, down to the root
            once = dict[Oid, Stored]()
            for stored in items_of[name or ""][at:]:
                once.setdefault(stored.id, stored)
            items, whole = tuple(once.values()), True
        else:
            history = next(found_there)
            if isinstance(history, GitError):
                raise history
            items, whole = (history.items, not history.problems) if isinstance(history, History) else ((), False)
        yield FetchedChain(ref=ref, remote=remote, items=items, whole=whole)


def _needed(
    store: Store, refs: Mapping[str, Oid], broken: Collection[str], others: Collection[Oid]
) -> tuple[frozenset[Oid], tuple[str, ...]]:
    """Return the commits that runs reach, which must stay while a run may continue; and the runs of which they are unknown.
    Threads stand on nothing of ours."""
    tips = [oid for ref, oid in refs.items() if ref.startswith(RUNS) and ref not in broken]
    found = objectlists.commits_between(store.repo, tips, others) if tips else set[Oid]()
    unknown: list[str] = []
    for ref in sorted(ref for ref in broken if ref.startswith(RUNS)):
        try:
            if not all(item is not None and item.kind == "commit" for item in store.objects.read_many([refs[ref]], 0)):
                raise RecordError("it leads to no record")
            found |= objectlists.commits_between(store.repo, [refs[ref]], others)
        except RecordError:
            unknown.append(ref)
    return frozenset(found), tuple(unknown)


_ORDER = ("track", "safety", "transcripts", "imported", "runs", "threads", "log", "held", "notes", "fetched", "other")
_ATTEMPTS = 3
_ENTRY = {"sha1": 28, "sha256": 40}  # bytes of a pack's index for each object


@value
class Cost:
    """Bytes that one part takes on disk. ``kind``: ``track``, ``safety``, ``transcripts``, ``imported``, ``runs``, ``threads``,
    ``log`` (of threads: what git does not have yet), ``held`` (what passed no filter, in files), ``notes``, ``fetched``;
    ``name``: the track, or the remote. ``own``: bytes that nothing else reaches; ``shared``: bytes that other parts of ours
    reach as well. What the user's own refs reach costs nothing and is in neither."""

    kind: str
    name: str
    own: int
    shared: int


def costs(baton: Baton) -> tuple[Cost, ...]:
    """Return what everything of ours takes on disk: tracks by name, then the rest. Raises RecordError for what cannot be
    read."""
    store = baton.store
    refs = own_refs(store)
    there = set(store.present(oid for oid in refs.values() if oid.strip("0")))  # what is broken costs nothing
    parts: dict[tuple[str, str], list[Oid]] = {}
    for ref, oid in refs.items():
        if oid in there:
            kind, named = kind_of(ref)
            name = (named if isinstance(named, str) else ref) if kind in ("track", "fetched", "other") else ""
            parts.setdefault((kind, name), []).append(oid)
    others = set(user_tips(store)) - {oid for oids in parts.values() for oid in oids}
    counted = objectlists.disk_bytes_by(baton.repo, [*parts.values()], others, _first(store, parts))
    own, shared = [0] * len(parts), [0] * len(parts)
    for places, size in counted.items():
        for place in places:
            (own if len(places) == 1 else shared)[place] += size
    found = [Cost(kind=kind, name=name, own=own[n], shared=shared[n]) for n, (kind, name) in enumerate(parts)]
    if log := _log(baton.repo):
        found.append(Cost(kind="log", name="", own=log, shared=0))
    if held := sum(HeldStore(baton.repo).names().values()):
        found.append(Cost(kind="held", name="", own=held, shared=0))
    return tuple(sorted(found, key=lambda cost: (_ORDER.index(cost.kind), cost.name)))


def _log(repo: Repo) -> int:
    """Return the bytes that the log of threads takes on disk; the last process that uses it removes it."""
    try:
        with os.scandir(os.path.join(repo.shared_dir, "wal")) as files:
            return sum(file.stat(follow_symlinks=False).st_blocks * 512 for file in files)
    except OSError:
        return 0


def _first(store: Store, parts: Mapping[tuple[str, str], list[Oid]]) -> list[Oid]:
    """Return the commits that the first checkpoint of each chain stands on."""
    tips = [oid for (kind, _), oids in parts.items() if kind in ("track", "safety") for oid in oids]
    chains = store.objects.chains(tip for tip in tips if (found := store.objects.info(tip)) and found.kind == "commit")
    first = [oids[-2] for oids in chains.values() if len(oids) > 1]
    items = (parse_commit(item.data) for item in store.objects.read_many(first, MAX_COMMIT) if item is not None and item.data)
    return list(store.present(oid for commit in items for oid in commit.parents[1:]))


def freed(store: Store, found: Inventory, objects: Sequence[NewObject], changes: Sequence[RefChange]) -> int:
    """Return about how many bytes ``git gc --prune=now`` frees after ``changes``, for which ``objects`` are written; 0 where it
    would grow.

    These are the bytes on disk of what nothing reaches then, less those of what takes its place: a checkpoint that stays takes
    as many where it is put, and an object that was stored as a difference to what goes is stored whole. What else git gains by
    packing anew is not counted, nor what waits to be collected, but for what gitbaton itself left behind.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(GitError):  # where git packs anew beside us, it is asked again
            return _freed(store, found, objects, changes)
    return _freed(store, found, objects, changes)


def _freed(store: Store, found: Inventory, objects: Sequence[NewObject], changes: Sequence[RefChange]) -> int:
    new = {item.oid: item for item in objects if item.oid not in found.objects}
    after = {**found.refs, **{change.name: change.new for change in changes}}
    tips = [oid for ref, oid in after.items() if oid is not None and not ref.startswith(REMOTES)]
    raws = ((item.oid, payload_in(item.data)) for item in new.values() if item.kind == "commit")
    records = {oid: object_id(store.objects.algorithm, "blob", raw) for oid, raw in raws if raw}
    there = {s.id: s.commit for chain in (*found.tracks, *found.safety) for s in chain.items}
    # The JSON of checkpoints that were once a track's newest: git has them as blobs, and nothing refers to them.
    gone = found.objects.union(there).difference(_reached(store, found, tips, new))
    before = {oid: there[record] for oid, record in records.items() if record in there}
    sizes, built = objectlists.weighed(store.repo, gone, gone.union(before.values()))
    apart, entry = {oid for oid, _ in loose(store.repo)}, _ENTRY[store.objects.algorithm]
    freed = sum(sizes[oid] + (entry if oid not in apart else 0) for oid in gone & sizes.keys()) + sum(built.values())
    moved = {oid: sizes[commit] for oid, commit in before.items() if commit in sizes}
    return max(freed - sum(_taking(store, moved, new, built)) - entry * len(new), 0)


def _taking(store: Store, moved: Mapping[Oid, int], new: Mapping[Oid, NewObject], built: Collection[Oid]) -> Iterator[int]:
    """Yield about how many bytes each new object takes on disk, and each of those that are stored whole then. ``moved``: what
    those take now that only get another place."""
    for item in new.values():
        yield moved[item.oid] if item.oid in moved else len(compress(item.data))
    for whole in store.objects.read_many([*built]):
        yield 0 if whole is None else whole.size if whole.data is None else len(compress(whole.data))


def _reached(store: Store, found: Inventory, tips: Collection[Oid], new: Mapping[Oid, NewObject]) -> set[Oid]:
    """Return the objects of ours that are reached afterwards. New commits and trees are not written yet: what they name is
    asked for."""
    wanted: set[Oid] = set()
    todo, seen = list(tips), set()
    while todo:
        oid = todo.pop()
        if oid in seen:
            continue
        seen.add(oid)
        item = new.get(oid)
        if item is None:
            wanted.add(oid)
        elif item.kind == "commit":
            commit = parse_commit(item.data)
            todo += [commit.tree, *commit.parents]
        elif item.kind == "tree":
            todo += [entry.oid for entry in parse_tree(item.data, store.objects.algorithm) if entry.mode != b"160000"]
    ours = [oid for oid in wanted if oid in found.objects]  # what others reach as well need not be walked
    return objectlists.ids_reached(store.repo, ours, found.others, logs=True)
