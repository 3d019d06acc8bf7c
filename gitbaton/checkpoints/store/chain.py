"""Chains: commits of a track or of the states before restores, read from the newest down and appended to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from types import MappingProxyType

from gitbaton.base.codec import (
    ROOT_MESSAGE,
    decode,
    decode_track,
    decode_tracks,
    earlier_ids,
    in_quotes,
    known,
    parse_note,
    payload,
)
from gitbaton.base.errors import MENDS, BatonError, GitError, GitTimeoutError, NotFoundError, RecordError, RefConflictError
from gitbaton.base.model import BESIDE, STEPPING, UNBORN, Checkpoint, Oid, Stored
from gitbaton.base.values import TYPE_CHECKING, replace, value, waits
from gitbaton.checkpoints.store.facts import Outline, RecordFacts
from gitbaton.checkpoints.store.provenance import IMPORTS, STATES, Ours, of_track
from gitbaton.checkpoints.store.refs import (
    CHAINS,
    CURRENT,
    NOTES,
    REMOTES,
    TIPS,
    by_name,
    chain_ref,
    fetched_ref,
    fetched_signatures,
    signatures_ref,
    tip_ref,
    track_of,
)
from gitbaton.checkpoints.store.sealed import MANY
from gitbaton.git.binary import clear_stale_locks
from gitbaton.git.objects import (
    MAX_READ,
    Algorithm,
    NewObject,
    Object,
    RawCommit,
    RefChange,
    TreeEntry,
    commit_data,
    find_notes,
    lookup,
    new_object,
    object_id,
    parse_commit,
    read_notes,
)
from gitbaton.git.reffiles import below, there
from gitbaton.git.repo import Repo

if TYPE_CHECKING:
    from typing import Any, TypeVar

    R = TypeVar("R")
    T = TypeVar("T")
Guard = AbstractContextManager[None]
_decoded = lru_cache(maxsize=4)(decode)  # one command reads a track's newest checkpoint several times
INDEX, STAGES = b"gitbaton index 1\n", b"gitbaton stages 1\n"  # the messages of a commit of an index, and of what lies beside
MAX_COMMIT = 3 << 20  # bytes of a commit of ours that are read
RETRY_SECONDS = 8.0
STALE_SECONDS = 10.0  # after which a lock file beside a ref is that of a killed process
_MAX_BROKEN = 100
_FEW = 100  # refs that are sooner looked at one by one than in a listing of all

_AGE = attrgetter("checkpoint.created", "id")

KeptChains = dict[tuple[str | None, Oid], Sequence[Stored | Outline]]  # by the track and the tip


@value
class Problem:
    """Something in our namespace that is not ours or breaks the format; ``where`` is a ref or a commit id."""

    where: str
    reason: str


@value
class History:
    """Checkpoints, newest first, and what could not be read among them; ``origins``: the remotes of those that only they have
    of tracks that exist here, too. ``outlines``: further ones, in no order, where chains are read in brief and kept."""

    items: tuple[Stored, ...]
    problems: tuple[Problem, ...] = ()
    origins: Mapping[Oid, tuple[str, ...]] = MappingProxyType({})
    outlines: tuple[Outline, ...] = ()


def newest_first(items: Iterable[Stored]) -> tuple[Stored, ...]:
    """Sort checkpoints in the order of a history."""
    return tuple(sorted(items, key=_AGE, reverse=True))


def root_objects(algorithm: Algorithm) -> list[NewObject]:
    """Return the common root of all chains, after its tree: the same objects in every repository of one object format."""
    empty = new_object(algorithm, "tree", b"")
    data = commit_data(tree=empty.oid, parents=(), author=b"gitbaton <gitbaton@localhost> 0 +0000", message=ROOT_MESSAGE)
    return [empty, new_object(algorithm, "commit", data)]


class Chains:
    """The chains of one repository: those of its own tracks, and those that were fetched."""

    def __init__(self, repo: Repo) -> None:
        self.repo, self.objects = repo, repo.objects
        self.root = root_objects(repo.layout.algorithm)[-1].oid
        self.ours, self.facts = Ours(repo), RecordFacts(repo)
        self._mine: tuple[str | None, frozenset[Oid]] = None, frozenset()  # the track that is just read, and what is ours of it
        self._brief = False  # of commits only what is not known is read
        self._reading: list[Callable[[], bool]] = []  # what is under way to tell whether they can be
        self._listed: dict[str, Oid] | None = None  # what lies below REMOTES, as it was when the chains were last listed
        self._own: frozenset[str] | None = None  # the tracks that this repository has itself, as they were listed then
        self._elsewhere: dict[str, list[tuple[str, Oid]]] | None = None
        self._ahead: Mapping[Oid, list[Oid]] = {}
        self._recalled: Mapping[Oid, Stored] = {}
        self._places: dict[Oid, int] = {}
        self._stream: Iterator[Object | None] = iter(())
        self._next = 0
        self.rows: dict[tuple[str, Oid | bytes], Any] | None = None  # what ``join`` has read, by track and commit or message
        self.met: dict[Oid, Oid] = {}  # the ids of checkpoints that a join has compared, by their commits
        self.metas: Mapping[Oid, Any] = {}  # what ``meta`` has read, by its trees
        self.kept: KeptChains | None = None  # chains that were read, by their tips
        self.pick: Callable[[Sequence[Oid], int | None], dict[Oid, list[Oid]]] | None = None  # where only some are wanted

    def chains(self, listed: Mapping[str, Oid] | None = None) -> tuple[dict[str, Oid], list[Problem]]:
        """Return all tracks by name with their chains' tips, and refs in our namespace that are not ours. ``listed``: refs as
        they were just listed, these among them."""
        found: dict[str, Oid] = {}
        problems = []
        listed = self.objects.refs(CHAINS, REMOTES) if listed is None else listed  # what is fetched costs no listing of its own
        self._listed = {ref: oid for ref, oid in listed.items() if ref.startswith(REMOTES)}
        chains = [ref for ref in listed if ref.startswith(CHAINS)]
        for ref, track in zip(chains, decode_tracks([ref[len(CHAINS) :] for ref in chains]), strict=True):
            oid = listed[ref]
            if track is None:
                problems.append(Problem(where=ref, reason="the name is not one that gitbaton writes"))
            elif not oid.strip("0"):
                problems.append(Problem(where=ref, reason="the ref is broken: it holds no id"))
            else:
                found[track] = oid
        self._own, self._elsewhere = frozenset(found), None
        return found, problems

    def elsewhere(self) -> dict[str, list[tuple[str, Oid]]]:
        """Return the chains that were fetched, by track: each remote and what its chain's ref pointed at when the chains were
        last listed."""
        if self._listed is None:
            self.chains()
        if self._elsewhere is None:
            self._elsewhere = by_name(self._listed or {}, "tracks/", decode_track)
        return self._elsewhere

    def _is_strange(self, track: str) -> bool:
        """Whether a track exists only as fetched, as of the last listing; none is before the first."""
        return self._own is not None and track not in self._own and track in self.elsewhere()

    def at_remotes(self, track: str) -> list[tuple[str, Oid]]:
        """Return the chains of a track that were fetched, as ``elsewhere`` has them, without a listing of all."""
        names = [name for name in map(decode_track, sorted(below(self.repo, REMOTES))) if name is not None]
        asked = ((name, self._pointed(fetched_ref(name, track))) for name in names)
        return [(name, oid) for name, oid in asked if oid is not None and oid.strip("0")]

    def has_signatures(self, track: str) -> bool:
        """Whether signatures of a track's checkpoints are here, good or not; no process is started for it."""
        refs = (signatures_ref(track), *(fetched_signatures(remote, track) for remote, _ in self.at_remotes(track)))
        return any(there(self.repo, ref) for ref in refs)

    def signed(self, tracks: Iterable[str]) -> set[str]:
        """Return those of many tracks of which signatures are here, good or not."""
        remotes = [name for name in map(decode_track, below(self.repo, REMOTES)) if name is not None]
        own = {signatures_ref(track): track for track in tracks}
        fetched = {fetched_signatures(remote, track): track for track in own.values() for remote in remotes}
        return {{**own, **fetched}[ref] for ref in self.pointing([*own, *fetched])}

    def _pointed(self, ref: str) -> Oid | None:
        """Return the id that a ref holds, readable or not; None when there is no such ref."""
        found = self.objects.info(ref)
        if found is not None:
            return found.oid
        return self.objects.refs(ref.rpartition("/")[0] + "/").get(ref) if there(self.repo, ref) else None

    def pointing(self, refs: Sequence[str]) -> dict[str, Oid]:
        """Return the refs that are there with the ids that they hold, readable or not."""
        if len(refs) > _FEW:
            listed = self.objects.refs(*{ref.rpartition("/")[0] + "/" for ref in refs})
            return {ref: listed[ref] for ref in refs if ref in listed}
        return {ref: oid for ref in refs if (oid := self._pointed(ref)) is not None}

    def fetched(self) -> dict[str, list[tuple[str, Oid]]]:
        """Return the tracks that exist only as fetched, each with its remotes and their chains' tips."""
        self.chains()
        return self.strange()

    def strange(self) -> dict[str, list[tuple[str, Oid]]]:
        """Return what ``fetched`` does, as of the last listing of the chains, without a new one."""
        own = self._own
        return {} if own is None else {track: chains for track, chains in self.elsewhere().items() if track not in own}

    def origins(self, track: str) -> tuple[str, ...]:
        """Return the remotes that a track which exists only as fetched is from, as of the last listing; none of any other
        track."""
        return tuple(remote for remote, _ in self.elsewhere()[track]) if self._is_strange(track) else ()

    def tips(self) -> History:
        """Return the newest checkpoint of every track, newest first."""
        chains, problems = self.chains()
        found = self.tips_of(chains)
        return History(items=found.items, problems=(*problems, *found.problems))

    def tips_of(self, chains: Mapping[str, Oid]) -> History:
        """Return the newest checkpoints of tracks by their chains' tips, newest first."""
        known = {key: kept[0] for key in chains.items() if (kept := (self.kept or {}).get(key)) is not None}
        items = [one if isinstance(one, Stored) else one.stored() for one in known.values()]
        problems: list[Problem] = []
        asked = [key for key in chains.items() if key not in known]
        read = self.objects.read_many([oid for _, oid in asked], MAX_COMMIT)
        for (track, oid), found in zip(asked, read, strict=True):
            try:
                items.append(self.stored(found, track, oid))
            except RecordError as error:
                problems.append(Problem(where=chain_ref(track), reason=error.message))
        return History(items=newest_first(items), problems=tuple(problems))

    def own_tip(self, track: str) -> Stored | None:
        """Return the newest checkpoint of a track, only where this repository has it itself: a snapshot follows that."""
        return self.tip_at(chain_ref(track), track)

    def at(self, ref: str, limit: int = MAX_READ) -> Object | None:
        """Return the object at a ref; None when there is no such ref. Raises RecordError when it cannot be read."""
        try:
            found = self.objects.read(ref, limit)
        except GitTimeoutError:
            raise
        except GitError as error:
            raise RecordError(f"{in_quotes(ref)} cannot be read: {error.message}", MENDS) from None
        if found is None:
            oid = self._pointed(ref)
            if oid is None:
                return None
            found = self.objects.read(oid, limit)  # another writer may just have made the ref
            if found is None:
                said = f"points at {oid}, which cannot be read" if oid.strip("0") else "is broken: it holds no id"
                raise RecordError(f"{in_quotes(ref)} {said}", MENDS)
        return found

    def stored(self, found: Object | None, track: str | None, where: str) -> Stored:
        """Return a chain commit as a checkpoint. The ref's name wins over the stored track, unless it names none (None); the
        tree must be the stored one."""
        if found is None:
            raise RecordError(f"commit {where} cannot be read")
        if found.kind != "commit" or found.data is None:
            raise RecordError(f"{found.kind} {found.oid} of {found.size} bytes is not a checkpoint's commit")
        seen = self.recalled(found.oid)
        if seen is not None and seen.checkpoint.track == track and not waits(seen):
            return seen
        commit = parse_commit(found.data)
        if not 1 <= len(commit.parents) <= 2:
            raise RecordError(f"commit {found.oid} has {len(commit.parents)} parents")
        raw = payload(commit.message)
        oid = object_id(self.objects.algorithm, "blob", raw)
        ours = oid in self._mine[1] if track == self._mine[0] else track is not None and self.ours.has(of_track(track), oid)
        # What is ours was made or read here, byte for byte.
        told = ours and (b'\n  "files": {\n    "tree": "%s"' % commit.tree.encode() in raw or b'\n  "files": null' in raw)
        sure = told or self.facts.vouches(found.oid, oid)
        written = checkpoint = known(raw) if sure else _decoded(raw)
        if not sure and checkpoint.files is not None and checkpoint.files.tree != commit.tree:
            raise RecordError(f"commit {found.oid} does not hold the tree that it names")
        if track is not None and checkpoint.track != track:
            checkpoint = replace(checkpoint, track=track)
        base = commit.parents[1] if len(commit.parents) == 2 else None
        if track is None:
            ours = self.ours.has(IMPORTS if checkpoint.kind == "imported" else STATES, oid)
        foreign = not ours or (track is not None and self._is_strange(track))
        stored = Stored(id=oid, commit=found.oid, base=base, tree=commit.tree, raw=raw, checkpoint=checkpoint, foreign=foreign)
        self.facts.learn(stored, written, strict=not sure)
        return stored

    @contextmanager
    def reading(self, track: str | None) -> Iterator[None]:
        """Read commits of one track by ``stored``: what is ours of it is looked at once for all of them; None: of any track."""
        if track is not None:
            self._mine = track, self.ours.among(of_track(track))
        try:
            yield
        finally:
            self._mine = None, frozenset()

    def mark(self, track: str, ids: Iterable[Oid]) -> None:
        """Record that checkpoints of a track are foreign, whatever made them. Called with the lock held."""
        self.ours.drop(of_track(track), frozenset(ids), mixed=True)

    def present(self, oids: Iterable[Oid | None], limit: int = 0) -> tuple[Oid, ...]:
        """Return the objects that are there; with a limit, of the smaller ones only those that can be read."""
        asked = sorted({oid for oid in oids if oid})
        return tuple(oid for oid, found in zip(asked, self.objects.read_many(asked, limit), strict=True) if found is not None)

    def commit(self, oid: Oid | None) -> RawCommit | None:
        """Return a commit, taken apart; None when there is no such commit."""
        found = self.objects.read(oid) if oid else None
        return parse_commit(found.data) if found is not None and found.kind == "commit" and found.data else None

    def tree_of(self, commit: Oid | None) -> Oid | None:
        """Return the tree of a commit; None when there is no such commit."""
        found = self.commit(commit)
        return found.tree if found is not None else None

    def trees_of(self, commits: Sequence[Oid]) -> dict[Oid, Oid]:
        """Return the trees of those of many commits that can be read; by few processes."""
        found = zip(commits, self.objects.read_many(commits, MAX_COMMIT), strict=True)
        return {oid: parse_commit(o.data).tree for oid, o in found if o is not None and o.kind == "commit" and o.data}

    def base_tree(self, head: Oid | None) -> Oid:
        """Return the tree that files are counted against where no checkpoint came before: HEAD's; the empty tree where HEAD is
        unborn or its commit is not here."""
        return self.tree_of(head) or new_object(self.objects.algorithm, "tree", b"").oid

    def first_base(self, c: Checkpoint) -> Oid | None:
        """Return the commit that a track's first checkpoint is counted against: HEAD's when its turn began, where that is known
        and here, else its own; None where HEAD was unborn."""
        began = c.turn.head if c.turn is not None else None
        if began == UNBORN:
            return None
        return began if began != c.head and self.commit(began) is not None else c.head

    def behind(self, tips: Iterable[Stored]) -> list[Stored]:
        """Return the newest checkpoints that their tracks' tip refs do not show yet."""
        found = [(tip_ref(s.checkpoint.track), s) for s in tips]
        if len(found) > _FEW:
            shown = self.objects.refs(TIPS)
            return [s for ref, s in found if shown.get(ref) != s.id]
        asked = ((self.objects.info(ref), s) for ref, s in found)
        return [s for shown, s in asked if shown is None or shown.oid != s.id]

    def lagging(self) -> list[Stored]:
        """Return the newest checkpoints of all tracks that their tip refs do not show yet; no more of the others is read than
        gives their ids."""
        shown = self.objects.refs(CHAINS, REMOTES, TIPS)
        chains = self.chains(shown)[0]
        found = []
        for (track, oid), item in zip(chains.items(), self.objects.read_many([*chains.values()], MAX_COMMIT), strict=True):
            raw = payload_in(item.data) if item is not None and item.data is not None else b""
            if shown.get(tip_ref(track)) != object_id(self.objects.algorithm, "blob", raw):
                with suppress(RecordError):
                    found.append(self.stored(item, track, oid))
        return found

    def linked(
        self, starts: Sequence[Oid], limit: int | None = None, meanwhile: Callable[[], object] = lambda: None
    ) -> Mapping[Oid, list[Oid]]:
        """Return the commits of chains from each of these on, newest first, its root perhaps the last, as ``Objects.chains``
        does; with ``pick`` those that it picks."""
        if limit is None and self._ahead.keys() >= set(starts):
            return self._ahead
        return self.pick(starts, limit) if self.pick else self.objects.chains(starts, limit, meanwhile)

    @contextmanager
    def ahead(self, starts: Sequence[Oid], limit: int | None = None, *, brief: bool = False) -> Iterator[bool]:
        """Walk many chains at once, so that until the end of the block ``linked`` knows them; with a ``limit`` no more than the
        newest so many of all. Gives whether that is all there is. With ``brief`` checkpoints of which much is known are read
        no further than is asked of them: they count only where the store is ``sound``, which ``surely`` sees to."""
        before, asked = self._ahead, brief and limit is None and self.pick is None and self.facts.kept()
        self._reading += [self.objects.reading(starts)] if asked else []
        more = self.linked(starts, limit, self.facts.load) if asked else self.linked(starts, limit)
        self._ahead, self._brief = {**before, **more} if limit is None else more, asked
        try:
            yield limit is None or len({oid for oids in more.values() for oid in oids}) < limit
        finally:
            self._ahead, self._brief = before, False

    def sound(self) -> bool:
        """Whether every commit can be read of the chains that were walked in brief since this was asked; it is waited for
        here."""
        reading, self._reading = self._reading, []
        said = [read() for read in reading]  # none is left to itself
        return all(said)

    def surely(self, ask: Callable[[bool], T]) -> T:
        """Return what ``ask`` finds in brief, where that counts; else, since damage is to be told, what it finds otherwise."""
        try:
            found = ask(True)
            if self.sound():
                return found
        except BatonError:
            if self.sound():
                raise
        if self.kept:
            self.kept.clear()
        return ask(False)

    @contextmanager
    def recalling(self, items: Iterable[Stored]) -> Iterator[None]:
        """Take checkpoints, that were read from their commits, as they are until the end of the block."""
        self._recalled = {stored.commit: stored for stored in items}
        try:
            yield
        finally:
            self._recalled = {}

    def recalled(self, commit: Oid) -> Stored | None:
        """Return the checkpoint of a commit that needs not be read again to know its id and what a row of facts says."""
        return self._recalled.get(commit)

    @contextmanager
    def streaming(self, commits: Sequence[Oid]) -> Iterator[None]:
        """Read commits of chains by one process, so that until the end of the block ``commits`` has them where they are
        asked for in this order; some may be left out."""
        self._places = {oid: place for place, oid in enumerate(commits)}
        self._stream, self._next = self.objects.read_many([*self._places], MAX_COMMIT), 0
        try:
            yield
        finally:
            self._places, self._stream = {}, iter(())

    def commits(self, oids: Sequence[Oid]) -> Iterator[Object | None]:
        """Yield commits of chains, as ``Objects.read_many`` does."""
        streamed, last = list[bool](), self._next - 1
        for oid in oids:
            streamed.append(self._places.get(oid, -1) > last)
            last = self._places[oid] if streamed[-1] else last
        rest = self.objects.read_many([oid for oid, here in zip(oids, streamed, strict=True) if not here], MAX_COMMIT)
        for oid, here in zip(oids, streamed, strict=True):
            if here:
                found = [next(self._stream) for _ in range(self._next, self._places[oid] + 1)][-1]
                self._next = self._places[oid] + 1
            yield found if here else next(rest)

    def mapped(self, work: Callable[[T], R], things: Sequence[T], of: Callable[[T], Iterable[Stored]]) -> Iterator[R]:
        """Yield what ``work`` gives for each thing, as ``parallel.mapped``; the checkpoints ``of`` a thing are read with those
        of others before it, as far as they wait for that, and ``read`` has them then."""
        from gitbaton.base.system import parallel

        def before(some: Sequence[T]) -> None:
            self.facts.read_ahead(stored for thing in some for stored in of(thing))

        return parallel.mapped(work, things, parallel.MANY, before=before, forked=self.objects.forked)

    def read(self, stored: Stored) -> Stored:
        """Return a checkpoint that waits to be read as one that was read. Raises RecordError."""
        if not waits(stored):
            return stored
        raw = self.facts.record(stored.commit, stored.id)
        checkpoint, track = known(raw, whole=True), stored.checkpoint.track
        return Stored(
            id=stored.id,
            commit=stored.commit,
            base=stored.base,
            tree=stored.tree,
            raw=raw,
            checkpoint=checkpoint if checkpoint.track == track else replace(checkpoint, track=track),
            foreign=stored.foreign,
            restored=stored.restored,
            back=stored.back,
        )

    def walk(self, start: Oid) -> list[Oid]:
        """Return the commits of a chain from one on, newest first, its root perhaps the last."""
        return self._ahead.get(start) or self.objects.first_parents(start)

    def walks(self, starts: Sequence[Oid], limit: int | None = None) -> dict[Oid, list[Oid]]:
        """Return what ``walk`` does for each of several commits, or the first so many of each."""
        found = self.objects.chains(starts, None if limit is None else limit * len(starts))
        whole = {
            start: oids for start, oids in found.items() if limit is None or len(oids) >= limit or oids[-1:] == [self.root]
        }
        return {start: whole[start][:limit] if start in whole else self.objects.first_parents(start, limit) for start in starts}

    def chain(self, ref: str, track: str | None, limit: int | None = None) -> History:
        """Return the checkpoints of the chain at a ref, as ``history``; ``track`` as in ``stored``. Raises NotFoundError."""
        start = self.at(ref, MAX_COMMIT)
        if start is None:
            raise NotFoundError(
                f"there is no track {in_quotes(track)}" if track is not None else f"there is no ref {in_quotes(ref)}"
            )
        if start.kind != "commit":
            raise RecordError(f"{in_quotes(ref)} is a {start.kind} and not a chain of commits")
        most = None if limit is None else limit + 1
        oids = self.linked([start.oid], most)[start.oid][:most]
        return self._read(ref, track, oids, self.objects.read_many(oids, MAX_COMMIT), limit)

    def several(self, asked: Sequence[tuple[str, str | None, Oid]]) -> Iterator[History | BatonError]:
        """Yield ``chain`` of each ref, track and commit that the ref points at, or the error that it raises; all by a few
        processes."""
        links = self.linked([oid for _, _, oid in asked])
        listed = [links.get(oid, []) for _, _, oid in asked]
        if sum(map(len, listed)) >= MANY:
            import hashlib  # noqa: F401 - then objects are named by it, which is worth it for so many

            self.facts.load()
        known = self.outlines if self.kept is not None else self.in_brief
        brief = [known(track, oids) for (_, track, _), oids in zip(asked, listed, strict=True)]
        rest = [[o for o in oids if o not in of and o != self.root] for oids, of in zip(listed, brief, strict=True)]
        read = self.objects.read_many([o for left in rest for o in left], MAX_COMMIT)
        for (ref, track, oid), oids, of, left in zip(asked, listed, brief, rest, strict=True):
            alone = not left and len({one.id for one in of.values()}) == len(of)
            found = [] if alone else [of[one] if one in of else next(read) if one != self.root else None for one in oids]
            first = found[0] if found and oids[0] == oid else True
            try:
                if oid not in links or first is None or (isinstance(first, Object) and first.kind != "commit"):
                    yield self.chain(ref, track)
                elif alone:
                    yield self._told(track, oids, [*of.values()])
                else:
                    with self.reading(track):
                        history = self._read(ref, track, oids, iter(found))
                    yield history
            except (RecordError, NotFoundError, GitError) as error:
                yield error

    def in_brief(self, track: str | None, oids: Sequence[Oid]) -> dict[Oid, Stored]:
        """Return those checkpoints of a chain, by their commits, that need not be read now, as ``ahead`` says."""
        if track is None or not self._brief:
            return {}
        ours, strange = self.ours.among(of_track(track)), self._is_strange(track)
        return self.facts.stored(track, oids, ours, foreign=strange)

    def outlines(self, track: str | None, oids: Sequence[Oid]) -> dict[Oid, Outline]:
        """Return what ``in_brief`` does, in outline."""
        if track is None or not self._brief:
            return {}
        return self.facts.outlines(track, oids, self.ours.among(of_track(track)), foreign=self._is_strange(track))

    def _read(
        self,
        ref: str,
        track: str | None,
        oids: Sequence[Oid],
        found: Iterator[Object | Stored | Outline | None],
        limit: int | None = None,
    ) -> History:
        """Return the checkpoints of a chain at some of its commits."""
        walked = list(islice(self._walk(ref, track, oids, found), limit))
        known = [one for one in walked if not isinstance(one, Problem)]
        return self._told(track, oids, known, tuple(one for one in walked if isinstance(one, Problem)))

    def _told(
        self, track: str | None, oids: Sequence[Oid], known: Sequence[Stored | Outline], problems: tuple[Problem, ...] = ()
    ) -> History:
        if self.kept is not None and oids == [*(one.commit for one in known), self.root]:
            self.kept[track, oids[0]] = known
        items, outlines = parted(known)
        return History(items=tuple(items), problems=problems, outlines=tuple(outlines))

    def below(self, start: Stored, limit: int | None = None) -> History:
        """Return a checkpoint and those below it in its chain, as ``history``."""
        track, oids = start.checkpoint.track, self.linked([start.commit], limit)[start.commit][:limit]
        found = list(self._walk(chain_ref(track), _chain_of(start), oids, self.objects.read_many(oids, MAX_COMMIT)))
        items = [one for one in found if isinstance(one, Stored)]
        if start.foreign:  # what a remote's chain holds, and ours does not, came from there
            own = self.objects.info(chain_ref(track))
            have = set(self.objects.first_parents(own.oid)) if own is not None else set()
            items = [one if one.commit in have else replace(one, foreign=True) for one in items]
        return History(items=tuple(items), problems=tuple(one for one in found if isinstance(one, Problem)))

    def newest(self, tip: Stored, known: Mapping[Oid, Object] = MappingProxyType({})) -> Iterator[Stored]:
        """Yield a tip and the checkpoints below it, one by one: for the first few of a long chain. A broken record ends it.
        ``known``: commits that ``near`` has read."""
        kept = (self.kept or {}).get((_chain_of(tip), tip.commit))
        if kept is not None:
            yield from (one if isinstance(one, Stored) else one.stored() for one in kept)
            return
        yield tip
        found = known.get(tip.commit) or self.objects.read(tip.commit)
        while (below := self.under(found)) is not None:
            found = known.get(below) or self.objects.read(below, MAX_COMMIT)
            try:
                stored = self.stored(found, _chain_of(tip), below)
            except RecordError:
                return
            yield stored

    def near(self, tips: Iterable[Stored], limit: int) -> dict[Oid, Object]:
        """Return the commits of checkpoints and of so many right below each, read together."""
        known, asked = dict[Oid, Object](), [tip.commit for tip in tips]
        while asked and limit >= 0:
            found = [one for one in self.objects.read_many(asked, MAX_COMMIT) if one is not None]
            known |= {one.oid: one for one in found}
            asked, limit = [oid for one in found if (oid := self.under(one)) is not None and oid not in known], limit - 1
        return known

    def under(self, found: Object | None) -> Oid | None:
        """Return the commit below one of a chain; None below its first checkpoint, and where there is no such commit."""
        if found is None or found.kind != "commit" or found.data is None:
            return None
        below = next(iter(parse_commit(found.data).parents), None)
        return below if below != self.root else None

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep the chains that are read whole until the end of the block: ``newest`` does not read them again. Those that
        ``ahead`` reads in brief are known in outline."""
        kept: KeptChains = {}
        self.kept = kept
        try:
            yield
        finally:
            self.kept = None
            kept.clear()

    def tip_at(self, ref: str, track: str | None = None) -> Stored | None:
        """Return the newest checkpoint of the chain at a ref of any name; None when there is none. Raises RecordError."""
        found = self.at(ref, MAX_COMMIT)
        return None if found is None else self.stored(found, track, found.oid)

    def _walk(
        self, ref: str, track: str | None, oids: Sequence[Oid], read: Iterator[Object | Stored | Outline | None]
    ) -> Iterator[Stored | Outline | Problem]:
        """Yield the checkpoints of a chain; broken records in a row are one problem, and too many end the walk.

        An id that stands there twice counts where it is newest: a server that lets nothing be rewritten gets it again.
        """
        broken: list[Problem] = []
        seen: set[Oid] = set()
        for oid, found in zip(oids, read, strict=True):
            if oid == self.root:
                break
            try:
                stored = found if isinstance(found, (Stored, Outline)) else self.stored(found, track, oid)
            except RecordError as error:
                reason = error.message if found is not None else "it cannot be read, nor what lies below it"
                broken.append(Problem(where=f"{ref}, commit {oid}", reason=reason))
                if len(broken) == _MAX_BROKEN:
                    break
                continue
            if broken:
                yield from _merged(broken)
                broken = []
            if stored.id not in seen:
                seen.add(stored.id)
                yield stored
        yield from _merged(broken)

    def torn(self, track: str, oids: Sequence[Oid]) -> str:
        """Return a warning where the last of a chain's commits, newest first, cannot be read; empty where it can."""
        last = oids[-1]
        if last == self.root or next(iter(self.objects.read_many([last], 0))) is not None:
            return ""
        return f"the chain of track {in_quotes(track)} is torn: commit {last} cannot be read, nor what lies below it"

    def current(self) -> str | None:
        """Return the current track of this work tree."""
        target = self.objects.symref(CURRENT)
        return track_of(target) if target and target.startswith(TIPS) else None

    def notes_tree(self) -> tuple[Oid | None, Oid | None]:
        """Return the notes ref's commit and its tree. Raises RecordError when something else is there."""
        found = self.at(NOTES)
        if found is None:
            return None, None
        if found.kind != "commit" or found.data is None:
            raise RecordError(f"'{NOTES}' is a {found.kind} and not a commit")
        return found.oid, parse_commit(found.data).tree

    def note(self, commit: Oid, tree: Oid | None, known: dict[Oid, list[TreeEntry]] | None = None) -> bytes:
        """Return the note of a commit in a notes tree, empty when it has none; several blobs one after the other. ``known`` as
        in ``find_notes``.

        Raises RecordError for a note over 4 MiB: edited without having been read, it would be lost.
        """
        blobs = [self.objects.read(oid) for oid in find_notes(self.objects, tree, commit, known)]
        for blob in blobs:
            if blob is not None and blob.kind == "blob" and blob.data is None:
                raise RecordError(f"the note of {commit} has {blob.size} bytes and is left alone")
        return b"\n".join(b.data for b in blobs if b is not None and b.kind == "blob" and b.data is not None)

    def notes(self, commits: Collection[Oid], tree: Oid, known: dict[Oid, list[TreeEntry]]) -> dict[Oid, bytes]:
        """Return the notes of many commits, read together, as ``note`` does; but for those that are too large."""
        read_notes(self.objects, tree, commits, known)
        blobs = {commit: find_notes(self.objects, tree, commit, known) for commit in commits}
        asked = [oid for oids in blobs.values() for oid in oids]
        read = dict(zip(asked, self.objects.read_many(asked), strict=True))
        data = {oid: b.data for oid, b in read.items() if b is not None and b.kind == "blob"}
        whole = {commit: [data[oid] for oid in oids if oid in data] for commit, oids in blobs.items() if oids}
        return {commit: b"\n".join(filter(None, parts)) for commit, parts in whole.items() if None not in parts}

    def noted(self, commit: Oid, tree: Oid | None) -> list[Oid]:
        """Return the ids of the checkpoints that a commit's note names, newest first."""
        return [oid for oid, _ in parse_note(self.note(commit, tree)).entries]


def payload_in(data: bytes) -> bytes:
    """Return the JSON of a checkpoint's commit; empty where it has none."""
    try:
        return payload(data.partition(b"\n\n")[2])
    except RecordError:
        return b""


def parted(items: Collection[Stored | Outline]) -> tuple[list[Stored], list[Outline]]:
    """Part checkpoints in those that were read, or wait for it, and those that are known in outline."""
    read = [one for one in items if isinstance(one, Stored)]
    return read, [one for one in items if isinstance(one, Outline)] if len(read) < len(items) else []


def _chain_of(start: Stored) -> str | None:
    """Return the track of the chain that a checkpoint stands in; None for one that stands in none's."""
    return start.checkpoint.track if start.checkpoint.kind not in BESIDE else None


def _merged(broken: list[Problem]) -> list[Problem]:
    """Merge broken records in a row into one problem."""
    if len(broken) < 2:
        return broken
    count = f"{len(broken) - 1} more" if len(broken) < _MAX_BROKEN else "all"
    return [Problem(where=broken[0].where, reason=f"{broken[0].reason} (and {count} below it)")]


def append_to(
    repo: Repo,
    refs: tuple[str, ...],
    once: Callable[[Guard], T],
    *,
    seconds: float,
    lock: Callable[[], Guard] = nullcontext,
    ahead: int = 0,
    pauses: tuple[float, float] = (0.005, 0.5),
    stale: float = STALE_SECONDS,
    lost: tuple[str, ...] = (),
) -> T:
    """Append to the chain at ``refs``; what ``once`` gives. That is one attempt: it looks at the tip, builds the next commit
    upon it and moves the ref by compare-and-swap. While another writer is in the way it is made again, for some seconds.

    ``lock`` is held for each attempt; without one the caller holds its own all along. The first attempts that are ``ahead``
    build without it, and enter the guard that ``once`` is given to move the ref. ``pauses``: seconds between attempts, the
    first and the longest; ``stale``: seconds after which a lock file beside the refs is removed, by the second attempt or a
    later one. Raises RefConflictError, with ``lost`` before what it says and then as hints; and as ``once`` and ``lock``.
    """
    deadline, pause, number = time.monotonic() + seconds, pauses[0], 0
    while True:
        guard = _guard(repo, refs if number else (), lock, stale)
        try:
            if number < ahead:
                return once(guard)
            with guard:
                return once(nullcontext())
        except RefConflictError as error:
            if number >= ahead and time.monotonic() >= deadline:
                if not lost:
                    raise
                raise RefConflictError(f"{lost[0]}: {error.message}", *lost[1:]) from None
        time.sleep(pause)
        pause, number = min(pause * 2, pauses[1]), number + 1


@contextmanager
def _guard(repo: Repo, refs: tuple[str, ...], lock: Callable[[], Guard], stale: float) -> Iterator[None]:
    """Hold the lock of an attempt, under which alone a stale lock file may go."""
    with lock():
        clear_stale_locks(repo.layout.common_dir, refs, stale)
        yield


def landed(move: Callable[[], None], tip: Callable[[], Oid | None], commit: Oid) -> bool:
    """Move the ref of a chain to a commit; whether all went well. After an error a look at the ``tip`` tells whether the commit
    is recorded all the same: then it is False. Raises as ``move`` where it is not."""
    try:
        move()
    except (RefConflictError, GitError):
        if tip() != commit:
            raise
        return False
    return True


@value
class Steps:
    """The steps that can be undone and redone in a work tree, the next one last. ``undone``: the ids of the restores and
    reverts that were undone whole, and not redone; ``begun``: of an undo or redo the id of the one that it steps over."""

    undo: tuple[Stored, ...]
    redo: tuple[Stored, ...]
    undone: frozenset[Oid] = frozenset()
    begun: Mapping[Oid, Oid] = MappingProxyType({})


AFTER = b"after"  # in that tree: the work tree's tree afterwards
AFTER_ATTRIBUTES = b"after-attributes"  # in that tree: the attributes files by which files were checked out
INDEX_AFTER = b"index-after"  # in that tree: the index that the paths of a revert come from
INDEX_FLAGS = b"index-after-flags"  # and their bits, as a list
ROOMS = (b"raw", b"held", b"held-index", AFTER, b"after-raw", b"after-held", AFTER_ATTRIBUTES, INDEX_AFTER)
"""In that tree: folders of paths of the work tree."""
LEFT = b"left"  # the paths that a step left alone


def steps(store: Chains, ref: str) -> Steps:
    """Replay the chain at ``ref``: a restore can be undone and ends what could be redone; an undo can be redone."""
    try:
        entries = store.chain(ref, None).items
    except NotFoundError:
        return Steps(undo=(), redo=())
    return replay(store, entries)


def replay(store: Chains, entries: Sequence[Stored]) -> Steps:
    """Replay the checkpoints of such a chain, newest first. What was done in another repository is no step of ours."""
    undo: list[Stored] = []
    redo: list[Stored] = []
    begun: dict[Oid, Oid] = {}
    for entry in reversed(entries):
        done = entry.checkpoint.restore
        if done is None or entry.foreign:
            continue
        if done.op not in STEPPING:
            undo.append(entry)
            redo.clear()
            continue
        source, other = (undo, redo) if done.op == "undo" else (redo, undo)
        at = next((n for n, one in enumerate(source) if done.target in (one.id, *earlier_ids(one.raw))), len(source))
        if at < len(source):
            begun[entry.id] = begun.get(source[at].id, source[at].id)
        if not paths_beside(store, entry, LEFT):  # what was left alone can be asked for again
            del source[at:]  # and what lies above it, which cannot be carried out any more
        other.append(entry)
    there = {begun.get(one.id, one.id) for one in undo}
    undone = frozenset(begun.values()) - there
    return Steps(undo=tuple(undo), redo=tuple(redo), undone=undone, begun=begun)


def beside(store: Chains, stored: Stored) -> Oid | None:
    """Return the tree of the second parent of a checkpoint's index commit; None without one.

    It holds ``1/ 2/ 3/ flags modes`` and of ROOMS ``raw/ held/ held-index/``, and of a safety checkpoint the others and lists
    of paths.
    """
    files = stored.checkpoint.files
    commit = store.commit(stored.base) if files else None
    if files is None or commit is None or commit.message != INDEX or commit.tree != files.index.tree:
        return None
    second = store.commit(commit.parents[-1]) if commit.parents else None
    return second.tree if second is not None and second.message == STAGES else None


def in_beside(store: Chains, stored: Stored, name: bytes) -> Oid:
    """Return the id of a folder of that tree. Raises RecordError when there is none."""
    tree = beside(store, stored)
    entry = lookup(store.objects, tree, name) if tree else None
    if entry is None or not entry.is_tree:
        raise RecordError(f"safety checkpoint '{stored.id}' does not say what its restore did")
    return entry.oid


def paths_beside(store: Chains, stored: Stored, name: bytes) -> list[str] | None:
    """Return the paths that a blob of that tree lists, each ended by NUL; None where there is no such blob."""
    tree = beside(store, stored)
    entry = lookup(store.objects, tree, name) if tree else None
    found = store.objects.read(entry.oid, 256 << 20) if entry is not None else None
    if found is None or found.kind != "blob" or found.data is None:
        return None
    return [os.fsdecode(path) for path in found.data.split(b"\0")[:-1]]


def take_back(store: Chains, ref: str, commit: Oid, previous: Oid | None) -> None:
    """Remove the newest entry of a chain, since its restore has changed nothing. Raises RefConflictError."""
    store.objects.update([RefChange(name=ref, new=previous, old=commit)])
