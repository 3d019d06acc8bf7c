"""Push: what the remote lacks and no more; nothing that nobody agreed to make public, and no secret that was seen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack

from gitbaton import scanning
from gitbaton.baton import Baton
from gitbaton.errors import (
    MENDS,
    BatonError,
    CollectedError,
    GitError,
    GitTimeoutError,
    NoAnswerError,
    NotFoundError,
    RecordError,
    RemoteError,
)
from gitbaton.git.objects import NewObject, RefChange
from gitbaton.git.publish import fsync, move_refs, publish, stored
from gitbaton.git.remotes import Connection, Pushed
from gitbaton.model import Oid
from gitbaton.render import in_shell
from gitbaton.store import CHAINS, NOTES, chain_ref, intent
from gitbaton.store import meta as metas
from gitbaton.store.fetched import SLACK
from gitbaton.store.meta import Meta
from gitbaton.store.refs import META
from gitbaton.sync import threads
from gitbaton.sync.consent import agreed, counted, exposure, present, remember, weight
from gitbaton.sync.items import (
    OURS,
    Seen,
    broken_refs,
    flush,
    here,
    look,
    more_broken_refs,
    pending,
    require_meta,
    room,
    said,
    torn_notes,
)
from gitbaton.sync.logs import run_moves, talk_moves
from gitbaton.sync.notes import keeps, meta_move, notes_move
from gitbaton.sync.tracks import Comparison
from gitbaton.sync.values import Choice, Exposure, Item, Joining, Move, Pushing
from gitbaton.threads.names import LATE, THREADS, late_ref, ref_of
from gitbaton.values import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")
ATTEMPTS = 3
_ATOMIC = "atomic"
_AT_ONCE = 1000  # refs of one push: each stands on git's command line twice, and that has an end


@value
class Manner:
    """How to push. ``agree`` is asked whether something may become public; ``scan``: look for secrets first; ``write``: else
    only say what would be done; ``partly``: without agreement for new tracks still push the others."""

    agree: Callable[[Exposure], bool]
    scan: bool = True
    write: bool = True
    partly: bool = False


def push(
    baton: Baton,
    line: Connection,
    choice: Choice,
    manner: Manner,
    *,
    joining: Joining | None = None,
    seen: Seen | None = None,
    tries: int = 2,
) -> tuple[Pushing, ...]:
    """Push to every place of a remote. ``joining``: what was just joined, or would be, is pushed instead of what is here;
    ``seen``: all that the remote was just found to have, fetched. What savers have in their log is flushed first where threads
    are pushed. ``tries``: how often it is begun anew where git collects beside it.

    Raises RemoteError when it cannot be reached or refuses all; NotFoundError for a track that is nowhere; NoAnswerError where
    baton.push is false; RecordError where tombstones cannot be read; ScanError.
    """
    if baton.settings.push is False:
        raise NoAnswerError("nothing is pushed: baton.push is false")
    require_meta(baton, "pushed")
    if manner.write and intent.pending(baton.repo):
        with baton.repo.lock(()):
            baton.store.settle()
    if manner.write and choice.threads:
        flush(baton)
    left = broken_refs(baton, line, choice)
    found, problems = baton.store.chains()
    ours, mine = (found, metas.read(baton.store)) if joining is None else (joining.tips, joining.meta)
    places = [_Push(baton, line, place, choice, manner, ours, mine) for place in line.remote.push]
    for place in places:
        place.refs = joining.refs if joining is not None else None
        place.seen = seen if place.place == line.remote.fetch else None
        place.warnings = tuple(f"'{p.where}' is left out: {p.reason}" for p in problems if p.where not in left)
        place.left |= left
    try:
        done = (places[0].push(),) if len(places) == 1 else tuple(place.one_of_several() for place in places)
    except GitError as error:
        if not tries or isinstance(error, GitTimeoutError):
            raise
    else:
        broken = any(move.broken for part in done for move in part.moves)
        if not tries or not broken or baton.store.chains()[0] == found:
            return done
    # What was to be sent, or what the remote was known to have, is pruned here since, and git has collected it.
    if joining is not None and baton.store.chains()[0] != found:
        raise RemoteError("tracks here moved while they were pushed", kind="stale")
    return push(baton, line, choice, manner, joining=joining, seen=seen, tries=tries - 1)


class _Push:
    """A push to one address."""

    def __init__(
        self, baton: Baton, line: Connection, place: str, choice: Choice, manner: Manner, ours: Mapping[str, Oid], mine: Meta
    ) -> None:
        self.baton, self.line, self.place, self.choice, self.manner = baton, line, place, choice, manner
        self.ours, self.mine = ours, mine
        self.seen: Seen | None = None
        self.refs: Mapping[str, Oid] | None = None
        self.there: Mapping[str, Oid] = {}
        self.warnings: tuple[str, ...] = ()
        self.agreed: frozenset[Item] = frozenset()
        self.left: dict[str, str] = {}
        self.shown = line.remote.shown

    def push(self) -> Pushing:
        """Carry it out; where that fails because refs here lead to what cannot be read, once more without them."""
        try:
            done = self._push()
        except BatonError as error:
            # Tracks that are there may have to be written again, because something of them is dropped.
            there = {ref: oid for ref, oid in self.there.items() if ref.startswith(CHAINS)}
            more = more_broken_refs(self.baton, self.line, error, there)
            if not more:
                raise
            self.left |= more
            try:
                done = self._push()
            except BatonError as again:  # git itself asks what the remote has of it
                again.hints = (*again.hints, MENDS)
                raise
        told = {move.ref for move in done.moves if move.broken}
        return replace(done, apart={ref: why for ref, why in self.left.items() if ref not in told})

    def _push(self) -> Pushing:
        """Carry it out: first as it should be, then, where the server refuses rewriting, by adding only. What is written for an
        attempt stays until our refs of the remote's name it."""
        for rewriting in (True, False):
            with ExitStack() as keeping:
                done = self._attempt(keeping, rewriting=rewriting)
            if done is not None:
                break
        assert done is not None  # only rewriting can be refused so that another attempt is worth it
        return done

    def one_of_several(self) -> Pushing:
        """As ``push``; a place that cannot be pushed to keeps nothing from the others."""
        try:
            return self.push()
        except RemoteError as error:
            if error.kind == "stale":
                raise
            return Pushing(moves=(), failure=error.message)

    def _attempt(self, keeping: ExitStack, *, rewriting: bool) -> Pushing | None:
        """One attempt; None when rewriting is refused."""
        seen = self._look()
        self.there = seen.refs
        names = sorted(track for track in {*self.ours, *seen.tracks} if self.choice.takes(("track", track)))
        tracks = tuple(track for track in names if chain_ref(track) not in self.left)
        chosen = replace(self.choice, tracks=tracks) if self.left else self.choice
        made, objects = self.plan(seen, chosen, rewriting=rewriting)
        haves = _Haves(self.baton, seen, made.moves)
        keeping.enter_context(stored(self.baton.repo, objects))
        moving = {move.asked for move in made.moves if move.changes and move.item}
        known = agreed(self.baton.repo, self.line.remote.name, self.place, moving)
        planned = made.moves
        public = haves.ask(lambda oids: exposure(self.baton, planned, oids, known), lambda found: found is None)
        made = replace(made, exposure=public)
        if public is not None and not self._agree(public):
            if not self.manner.partly:
                return replace(made, declined=public.names, private=public.threads, keeps="")
            tracks = tuple(track for track in tracks if track not in public.tracks)
            rest = replace(self.choice, tracks=tracks, kept=frozenset(public.threads))
            made, objects = self.plan(seen, rest, rewriting=rewriting)
            keeping.enter_context(stored(self.baton.repo, objects))
            made = replace(made, exposure=public, declined=public.names, private=public.threads)
        sent = made.moves
        moves = haves.ask(
            lambda oids: counted(self.baton, sent, oids, public),
            lambda found: not any(move.commits or move.untracked for move in found),
        )
        made = replace(made, moves=moves)
        wants = [move.new for move in moves if move.changes and move.new is not None]
        if public is None and wants:
            made = replace(made, bytes=haves.ask(lambda oids: weight(self.baton, wants, oids), lambda found: not found))
        hits: Sequence[scanning.Hit] = ()
        if self.manner.scan and wants:
            fresh = [move.item[1:] for move in moves if move.kind == "thread" and move.action == "new"]
            named = {f"name of {threads.called(name)}": "\n".join(name) for name in fresh}
            hits = haves.ask(lambda oids: scanning.lacking(self.baton, wants, oids, named), lambda found: not found)
        if hits or not self.manner.write or not any(move.changes for move in moves):
            return replace(made, hits=tuple(hits))
        return self._send(made, {item.oid for item in objects}, rewriting=rewriting)

    def _look(self) -> Seen:
        """What the remote has, and its objects that a comparison needs; what is known already counts once."""
        known, self.seen = self.seen, None
        if known is not None:
            return known
        for _ in range(ATTEMPTS):
            seen = look(self.line, self.place, everything=True)
            for track in self.choice.tracks or ():
                if chain_ref(track) not in self.left and track not in self.ours and track not in seen.tracks:
                    raise NotFoundError(f"there is no track '{track}'")
            if self.line.fetch(dict.fromkeys(self._unknown(seen)), self.place, seen=seen.refs):
                return seen
        raise RemoteError(f"the refs of '{self.shown}' go while they are read", "try again", kind="stale")

    def _unknown(self, seen: Seen) -> list[str]:
        """Refs of the remote whose objects are needed, and no ref of ours holds them."""
        remote, objects = self.line.remote.name, self.baton.repo.objects
        known = self.baton.store.held(remote)
        mine = objects.refs(THREADS, LATE) if self.choice.threads else {}
        held = {*known.values(), *self.ours.values(), *mine.values()}
        wanted = [ref for ref in (META, NOTES) if ref in seen.refs]
        for ref, item in seen.chosen(self.choice).items():
            needed = True
            if item[0] == "track":
                needed = item[1] in self.ours or here(remote, ref) in known
                # What is forgotten may lie in a track that is only there.
                needed = needed or (self.mine.drops and objects.info(seen.refs[ref]) is None)
            elif item[0] == "thread":  # those that are nowhere here are not compared
                needed = ref_of(*item[1:]) in mine or late_ref(*item[1:]) in mine
            wanted += [ref] if needed else []
        return [ref for ref in wanted if seen.refs[ref] not in held]

    def plan(self, seen: Seen, choice: Choice, *, rewriting: bool) -> tuple[Pushing, list[NewObject]]:
        """What to move, and the objects that must be written for it. Raises RecordError where the remote's tombstones cannot be
        read."""
        store = self.baton.store
        both = metas.union(self.mine, said(store, seen))
        limit = self.baton.clock() + SLACK
        compared = Comparison(store, seen, self.ours, (self.mine, both), self.shown, limit, rewriting=rewriting)
        moves, objects, warnings, left = compared.moves(choice), compared.objects, list(self.warnings), ""
        ours = META in seen.refs or bool(seen.tracks)
        if ours or any(move.action != "refused" for move in moves):  # else nothing of ours is wanted there
            told, more = meta_move(store, seen, both)
            moves, objects = [*moves, *told], [*objects, *more]
        try:
            noted, more = notes_move(self.baton, compared, moves) if NOTES not in self.left else ([], [])
            left = keeps(store, compared, moves)
            moves, objects = [*moves, *noted], [*objects, *more]
        except RecordError as error:
            self.left |= torn_notes(store)
            warnings += [f"no notes are pushed: {error.message}"] if NOTES not in self.left else []
        public = {m.name: m.new for m in moves if m.kind == "track" and m.action not in ("delete", "refused") and m.new}
        moves += talk_moves(self.baton, seen, public, self.left) if choice.transcripts else []
        moves += run_moves(self.baton, seen, self.shown, self.left) if choice.runs else []
        if choice.threads:
            with threads.Trade(self.baton, self.line, seen, choice, place=self.place, refs=self.refs) as trade:
                traded = threads.Moves(trade, rewriting=rewriting, apart=self.left)
                moves, warnings = [*moves, *traded.all()], [*warnings, *traded.warnings]
            if not self.manner.write and pending(self.baton):
                warnings.append("what savers have not flushed yet is not counted")
        pruned = sum(move.dropped - move.forgotten for move in moves if not rewriting and move.action != "refused")
        if pruned:
            which = "a checkpoint that was" if pruned == 1 else f"{pruned} checkpoints that were"
            warnings.append(f"'{self.shown}' refuses rewriting and keeps {which} removed here")
        return Pushing(moves=tuple(moves), warnings=tuple(warnings), keeps=left), objects

    def _agree(self, public: Exposure) -> bool:
        """Whether that may become public. A dry run asks nobody."""
        if not self.manner.write or public.asked <= self.agreed or self.baton.settings.push:
            return True
        agrees = self.manner.agree(public)
        self.agreed = public.asked if agrees else self.agreed
        return agrees

    def _send(self, made: Pushing, written: Collection[Oid], *, rewriting: bool) -> Pushing | None:
        """Move the remote's refs; None where it refuses rewriting. ``written``: the objects that git keeps for it."""
        moves, rows = {move.ref: move for move in made.moves}, list[Pushed]()
        try:
            for part in _parts(made.moves):
                rows += self.line.push(part, self.place)
        finally:
            # Not after each part: git's time for the next one goes with the number of refs here.
            done = [moves[row.ref] for row in rows if not row.kind]
            self._remember(done, written)
            if made.exposure is not None and not (made.declined or made.private):
                sent = made.exposure.asked.intersection(move.asked for move in done)
                remember(self.baton.repo, self.line.remote.name, self.place, sorted(sent))
        failed = [row for row in rows if row.kind]
        if not failed:
            return made
        if any(row.kind == "stale" for row in failed):
            hint = threads.joins(self.shown) if self.choice.threads else f"git baton sync {in_shell(self.shown)}"
            raise RemoteError(f"somebody else pushed to '{self.shown}' meanwhile", hint, kind="stale")
        alone = [row for row in failed if row.kind in ("hook", "rewrite", "other") and _ATOMIC not in row.reason]
        if rewriting and any(moves[row.ref].action in ("rewrite", "delete") for row in alone):  # it may be that alone
            return None
        raise self._error(failed, len(done))

    def _error(self, failed: Sequence[Pushed], done: int) -> RemoteError:
        row = next((row for row in failed if _ATOMIC not in row.reason), failed[0])
        told = {
            "hook": f"a hook of '{self.shown}' refuses our refs: {row.reason}",
            "shallow": f"'{self.shown}' refuses what this shallow repository has: {row.reason}",
            "read-only": f"'{self.shown}' cannot be written: {row.reason}",
        }
        hints = [f"refs that were pushed all the same: {done:,}"] if done else []
        return RemoteError(told.get(row.kind, f"'{self.shown}' refuses '{row.ref}': {row.reason}"), *hints, kind=row.kind)

    def _remember(self, moves: Sequence[Move], written: Collection[Oid]) -> None:
        """Our refs of the remote's, as it has them now; of threads also what both sides have. ``written``: what git keeps."""
        remote, repo = self.line.remote.name, self.baton.repo
        refs = {here(remote, move.ref): move.new for move in moves}
        names = {move.item[1:] for move in moves if move.kind == "thread"}
        folder = room(self.line, self.place) if names else ""
        for ref in (ref for name in names for ref in (ref_of(*name), late_ref(*name))):
            refs[folder + ref.removeprefix(OURS)] = refs.get(here(remote, ref), self.there.get(ref))
        refs = {ref: new for ref, new in refs.items() if ref not in self.line.hidden}
        with repo.lock(tuple(refs)):
            known = self.baton.store.pointing((*refs, *(move.ref for move in moves)))
            changes = [RefChange(name=ref, new=new, old=known.get(ref)) for ref, new in refs.items() if new != known.get(ref)]
            safe = {None, *written, *known.values()}
            move_refs(repo, [change for change in changes if change.new in safe], how=fsync(repo))
            for change in changes:
                if change.new in safe:
                    continue
                try:
                    publish(repo, [change], held=tuple(known.values()))
                except CollectedError:  # it was pruned here while it was sent, and git has collected it: a fetch brings it
                    continue


def _parts(moves: Iterable[Move]) -> list[dict[str, tuple[Oid | None, Oid | None]]]:
    """The moves of the remote's refs, from what was seen to what it gets, as they are sent: all at once, but for threads that
    are too many for that; what is no thread's goes first."""
    sends: dict[str | None, dict[str, tuple[Oid | None, Oid | None]]] = {None: {}}
    for move in moves:
        if move.changes:
            sends.setdefault(move.name if move.kind == "thread" else None, {})[move.ref] = (move.seen, move.new)
    parts = [sends.pop(None)]
    for refs in sends.values():
        if len(parts[-1]) + len(refs) > _AT_ONCE:
            parts.append({})
        parts[-1] |= refs
    return [part for part in parts if part]


class _Haves:
    """What the remote's refs point at, as far as it is here. Git takes long with thousands of them, and those of tracks that
    stay as they are seldom matter: without them more looks new than is, so nothing new is nothing new."""

    def __init__(self, baton: Baton, seen: Seen, moves: Sequence[Move]) -> None:
        same = {move.ref for move in moves if move.action == "same"}
        self.baton, self.seen, self.same = baton, seen, same
        self._look()

    def _look(self) -> None:
        self.near = present(self.baton, [oid for ref, oid in self.seen.refs.items() if ref not in self.same])
        self._all: Sequence[Oid] | None = None if self.same else self.near

    def ask(self, question: Callable[[Sequence[Oid]], T], nothing: Callable[[T], bool]) -> T:
        """The answer to a question of what the remote has not; of all it has, where the answer is not ``nothing``."""
        try:
            return self._asked(question, nothing)
        except GitError:
            known = (self.near, self._all)
            self._look()
            if known == (self.near, self._all):
                raise
        return self._asked(question, nothing)  # git has collected meanwhile what no ref here holds any more

    def _asked(self, question: Callable[[Sequence[Oid]], T], nothing: Callable[[T], bool]) -> T:
        found = question(self.near)
        if nothing(found) or self._all is self.near:
            return found
        if self._all is None:
            self._all = present(self.baton, list(self.seen.refs.values()))
        return question(self._all)
