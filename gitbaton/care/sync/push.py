"""Push: what the remote lacks and no more; no secret that was seen, and nothing private without agreement."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial

from gitbaton.agents.transcripts.layout import told_session
from gitbaton.base.codec import encode_track, in_quotes
from gitbaton.base.errors import (
    MENDS,
    BatonError,
    CollectedError,
    GitError,
    GitTimeoutError,
    NoAnswerError,
    NotFoundError,
    RecordError,
    RefConflictError,
    RemoteError,
)
from gitbaton.base.model import Oid
from gitbaton.base.system.files import read_or_none
from gitbaton.base.system.process import Process
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.care.sync.items import (
    OURS,
    TRIES,
    Choice,
    Exposure,
    Item,
    Joining,
    Move,
    OwnRefs,
    Pushing,
    RemoteRefs,
    called,
    flush,
    here,
    joins,
    look,
    looked_at,
    more_broken_refs,
    patiently,
    pending,
    require_meta,
    room,
    said,
)
from gitbaton.care.sync.kinds import ChainComparison, keeps, meta_move, notes_move, run_moves, signature_moves, talk_moves
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.config import names_secrets
from gitbaton.checkpoints.render import first_few, in_shell, kept_here, path_in_quotes, some
from gitbaton.checkpoints.store import CHAINS, NOTES, chain_ref, state
from gitbaton.checkpoints.store import meta as metas
from gitbaton.checkpoints.store.chain import INDEX, MAX_COMMIT, STAGES
from gitbaton.checkpoints.store.read import SLACK, own_refs, readable_kinds, torn_refs, user_tips
from gitbaton.checkpoints.store.refs import IMPORTED, META, TRANSCRIPTS, remote_ref
from gitbaton.git import objectlists
from gitbaton.git.bounded import with_words
from gitbaton.git.damage import set_aside, torn
from gitbaton.git.objectlists import contents, reachable, sizes
from gitbaton.git.objects import NewObject, RawCommit, RefChange, new_object, parse_commit
from gitbaton.git.publish import fsync, move_refs, publish_reachable, stored
from gitbaton.git.questions import matching
from gitbaton.git.remotes import Connection, Pushed
from gitbaton.git.repo import Repo, add, make_folder
from gitbaton.git.run import checked
from gitbaton.git.worktree.gate import ANNEX, DVC, LFS, MOST, OTHER, kept_by, lfs_oid
from gitbaton.langgraph.threads.names import LATE, THREADS, late_ref, ref_of

if TYPE_CHECKING:
    from typing import TypeVar

    from gitbaton.care.scanning import Hit

    T = TypeVar("T")
_ATOMIC = "atomic"
_NAMED = 10  # files that are named
_AT_ONCE = 1000  # refs of one push: each stands on git's command line twice, and that has an end
_MANY = 200  # refs of a remote from which on a question is asked without most of them first
_LENIENT = ("--ignore-missing", "--stdin")  # what a remote has need not be here
_OURS = ("gitbaton index 1", "gitbaton stages 1", "gitbaton root 1")
_HEADERS = re.compile(rb"\A(?:[0-9a-f]{40,64} [0-9a-f]{40,64}\n)+")
_ROOMS = {"track": "", "run": ".runs", "thread": ".threads"}  # no track's name: `.` is encoded


@value
class Manner:
    """Options of a push. ``agree`` is asked whether something may become public; ``scan``: look for secrets first;
    ``write``: else only say what would be done; ``partly``: without agreement for new tracks still push the others."""

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
    seen: RemoteRefs | None = None,
    listed: OwnRefs | None = None,
) -> tuple[Pushing, ...]:
    """Push to every place of a remote, again where another process is faster. ``joining``: what was just joined, or would be,
    is pushed instead of what is here; ``seen``: all that the remote was just found to have, fetched; ``listed``: our refs as
    they were just looked at. What savers have in their log is flushed first where threads are pushed.

    Raises RemoteError when it cannot be reached or refuses all, and, with ``joining``, where another process is faster;
    NotFoundError for a track that is nowhere; NoAnswerError where baton.push is false; RecordError where tombstones cannot be
    read; ScanError.
    """
    if baton.settings.push is False:
        raise NoAnswerError("nothing is pushed: baton.push is false")
    require_meta(baton, "pushed")
    if manner.write and state.pending(baton.repo):
        with baton.repo.lock(()):
            baton.store.settle()
    if manner.write and choice.threads:
        flush(baton)
    course = _Course({*(choice.tracks or ())} if joining is None else set(), listed)
    for last in (False, False, True):
        course.parts.clear()
        once = partial(_once, baton, line, choice, manner, joining, seen, course)
        try:
            once() if joining is not None else patiently(once)
        except GitError as error:
            if last or isinstance(error, GitTimeoutError):
                raise
        else:
            broken = any(move.broken for part in course.parts.values() for move in part.moves)
            if last or not broken or baton.store.chains()[0] == course.tips:
                break
        # What was to be sent, or what the remote was known to have, is pruned here since, and git has collected it.
        course.listed = None
        if joining is not None and baton.store.chains()[0] != course.tips:
            raise RemoteError("tracks here moved while they were pushed", kind="stale")
    return tuple(course.parts[at] for at in line.remote.push)


class _Course:
    """State of a push that lasts over its tries. ``named``: the tracks that must be somewhere, until that is looked at;
    ``agreed``: what may become public; ``parts``: the result for each place that is done; ``listed``: our refs here, and
    ``tips``: the tracks, as the last try found them."""

    def __init__(self, named: set[str], listed: OwnRefs | None) -> None:
        self.named, self.agreed, self.parts, self.listed = named, set[Item](), dict[str, Pushing](), listed
        self.tips: Mapping[str, Oid] = {}


def _once(
    baton: Baton,
    line: Connection,
    choice: Choice,
    manner: Manner,
    joining: Joining | None,
    seen: RemoteRefs | None,
    course: _Course,
) -> None:
    """Push as ``push`` to the places that are not done."""

    def look_here() -> None:
        course.listed = looked_at(baton, line, choice, course.listed)

    asked, places = None, line.remote.push
    if len(places) != 1 or (seen is not None and places[0] == line.remote.fetch):  # of several one that fails stops none
        look_here()
    else:
        asked = look(line, places[0], everything=True, meanwhile=look_here)
    assert course.listed is not None
    refs, left = course.listed.refs, course.listed.left
    course.tips, problems = baton.store.chains(refs)
    ours = joining or Joining(rows=(), tips=dict(course.tips), meta=metas.read(baton.store))
    warnings = tuple(f"{in_quotes(p.where)} is left out: {p.reason}" for p in problems if p.where not in left)
    for at in (at for at in line.remote.push if at not in course.parts):
        known = seen if at == line.remote.fetch else None
        place = _Push(baton, line, at, choice, manner, ours, refs, known, asked, warnings, left, course)
        course.parts[at] = place.push() if len(line.remote.push) == 1 else place.one_of_several()


class _Push:
    """A push to one address: of ``ours``, but for the refs that are ``left`` out, each with why. ``listed``: our refs here;
    ``seen``: all that is there, where that was just found; ``asked``: where it was just asked for, and nothing was fetched."""

    def __init__(
        self,
        baton: Baton,
        line: Connection,
        place: str,
        choice: Choice,
        manner: Manner,
        ours: Joining,
        listed: Mapping[str, Oid],
        seen: RemoteRefs | None,
        asked: RemoteRefs | None,
        warnings: tuple[str, ...],
        left: Mapping[str, str],
        course: _Course,
    ) -> None:
        self.asked = asked
        self.baton, self.line, self.place, self.choice, self.manner = baton, line, place, choice, manner
        self.ours, self.mine, self.refs, self.course = ours.tips, ours.meta, ours.refs, course
        self.seen, self.warnings, self.left, self.shown = seen, warnings, dict(left), line.remote.shown
        self.listed = listed
        self.compared: ChainComparison
        self.there: Mapping[str, Oid] = {}
        self.notes: Oid | None = None  # those of the remote now, where others have moved nothing else of what was to go
        self.sends: Sequence[str] = ()
        self.hooked = False

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
            if self.manner.write:
                self._put_aside()
            try:
                done = self._push()
            except BatonError as again:  # git itself asks what the remote has of it
                again.hints = (*again.hints, MENDS)
                raise
        told = {move.ref for move in done.moves if move.broken}
        return replace(done, apart={ref: why for ref, why in self.left.items() if ref not in told})

    def _put_aside(self) -> None:
        """Move torn objects of ours out of the way: git tells itself what the remote has, and stops at one of these, but not at
        one that is not there."""
        repo = self.baton.repo
        try:
            theirs = objectlists.reached(repo, user_tips(self.baton.store))
            ours = {oid: path for oid, path in torn(repo).items() if oid not in theirs}
        except (RecordError, OSError):  # then git says what is in its way
            return
        with suppress(GitError):  # as above
            self.warnings += tuple(set_aside(repo, ours))

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
        """Push as ``push`` does; a place that cannot be pushed to keeps nothing from the others."""
        try:
            return self.push()
        except RemoteError as error:
            if error.kind == "stale":
                raise
            return Pushing(moves=(), failure=error.message)

    def _attempt(self, keeping: ExitStack, *, rewriting: bool) -> Pushing | None:
        """Make one attempt; None when rewriting is refused."""
        seen = self._look()
        self.there = seen.refs
        chosen = self._without(self.left, seen) if self.left else self.choice
        made, objects = self.plan(seen, chosen, rewriting=rewriting)
        haves = _Haves(self.baton, seen, made, self.left)
        keeping.enter_context(stored(self.baton.repo, objects))
        moving = [move for move in made.moves if move.changes]
        known = agreed(self.line, self.place, {move.asked for move in moving if move.item})
        answers = _Asked(self.baton.repo)
        public = haves.ask(lambda oids: exposure(self.baton, moving, oids, known, answers), lambda found: found is None)
        made = replace(made, exposure=public)
        if public is not None and not self._agree(public):
            if not self.manner.partly:
                return replace(made, declined=public.names, private=public.threads, keeps="")
            rest = self._without({*self.left, *map(chain_ref, public.tracks)}, seen)
            rest = replace(rest, kept=frozenset(public.threads))
            made, objects = self.plan(seen, rest, rewriting=rewriting)
            keeping.enter_context(stored(self.baton.repo, objects))
            made = replace(made, exposure=public, declined=public.names, private=public.threads)
        sent = made.moves
        moves = haves.ask(
            lambda oids: counted(self.baton, sent, oids, public, answers),
            lambda found: not any(move.commits or move.untracked for move in found),
        )
        made, moving = replace(made, moves=moves), [move for move in moves if move.changes]
        wants = [move.new for move in moving if move.new is not None]
        weighing = _weighing(self.baton, wants, haves.all) if public is None and wants else None
        try:
            hits, files = self._hits(haves, moving, wants) if wants else ([], [])
        finally:
            told = weighing.finish() if weighing is not None else None
        if told is not None:
            weighed = int(told.out) if told.code == 0 else haves.ask(lambda oids: weight(self.baton, wants, oids))
            made = replace(made, bytes=weighed)
        made = replace(made, warnings=(*made.warnings, *_by_name(files, in_quotes(self.shown))))
        tips = [move.new for move in moving if move.kind in ("track", "run") and move.new is not None]
        found: Sequence[Pointer] = ()
        if tips:  # a note, and a state of a thread, is no file, and holds ids that look like a pointer's
            found = haves.ask(lambda oids: pointers(self.baton, tips, oids), lambda found: not found)
        self.sends = sendable(self.baton, found)
        self.hooked = any(pointer.keeper == OTHER for pointer in found) and bool(self.line.push_hook())
        refs = [move.ref for move in moving if move.kind and move.new]
        stays = staying(found, self.sends, self.shown, refs, hooked=self.hooked)
        made = replace(made, warnings=(*made.warnings, *stays), contents=len(self.sends))
        if hits or not self.manner.write or not moving:
            return replace(made, hits=tuple(hits))
        for left in reversed(range(TRIES)):
            try:
                return self._send(made, {item.oid for item in objects}, rewriting=rewriting)
            except RemoteError as error:
                if not left or self.notes is None:
                    raise
                try:
                    made, more = self._noted_anew(made, self.notes)
                except RecordError:  # the next look says what is wrong with them
                    raise error from None
                keeping.enter_context(stored(self.baton.repo, more))
                objects += more
        raise AssertionError

    def _noted_anew(self, made: Pushing, notes: Oid) -> tuple[Pushing, list[NewObject]]:
        """Return the push with its entries in the commit of notes that the remote has now, which every push moves, and the
        objects for that: no more has to be done before another push is faster again."""
        self.there = {**self.there, NOTES: notes}
        if not self.line.fetch({NOTES: None}, self.place, seen={NOTES: notes}):
            raise RemoteError(f"the notes of {in_quotes(self.shown)} go while they are read", "try again", kind="stale")
        self.compared.seen = replace(self.compared.seen, refs=self.there)
        noted, objects = notes_move(self.baton, self.compared, made.moves)
        moves = (move for old in made.moves for move in (noted if old.ref == NOTES else (old,)))
        return replace(made, moves=tuple(moves)), objects

    def _without(self, left: Collection[str], seen: RemoteRefs) -> Choice:
        """Return the choice of tracks, here and there, but for those whose refs are ``left`` out."""
        names = sorted(track for track in {*self.ours, *seen.tracks} if self.choice.takes(("track", track)))
        return replace(self.choice, tracks=tuple(track for track in names if chain_ref(track) not in left))

    def _hits(self, haves: _Haves, moves: Sequence[Move], wants: Sequence[Oid]) -> tuple[list[Hit], list[str]]:
        """Return what must not leave of what the remote lacks, and the files with names that say that they hold secrets."""
        from gitbaton.care import scanning

        found: Sequence[Hit]
        if self.manner.scan:
            fresh = [move.item[1:] for move in moves if move.kind == "thread" and move.action == "new"]
            named = {f"name of {called(name)}": "\n".join(name) for name in fresh}
            found = haves.ask(lambda oids: scanning.lacking(self.baton, wants, oids, named), lambda found: not found)
        else:
            found = haves.ask(lambda oids: scanning.ungated(self.baton, wants, oids), lambda found: not found)
        files = dict.fromkeys(hit.path for hit in found if hit.kind == scanning.NAMED)
        return [hit for hit in found if hit.kind != scanning.NAMED], [*files]

    def _look(self) -> RemoteRefs:
        """Return what the remote has, with the objects that a comparison needs; what is known already counts once."""
        known, self.seen = self.seen, None
        if known is not None:
            return known
        seen, self.asked = self.asked or look(self.line, self.place, everything=True), None
        for track in sorted(self.course.named):
            if chain_ref(track) not in self.left and track not in self.ours and track not in seen.tracks:
                from gitbaton.checkpoints.names import comes_back

                hints = comes_back(self.baton.store, track) or ["'git baton tracks' lists them"]
                raise NotFoundError(f"there is no track {in_quotes(track)}", *hints)
        self.course.named.clear()  # one that goes later is left out
        if not self.line.fetch(dict.fromkeys(self._unknown(seen)), self.place, seen=seen.refs):
            raise RemoteError(f"the refs of {in_quotes(self.shown)} go while they are read", "try again", kind="stale")
        return seen

    def _unknown(self, seen: RemoteRefs) -> list[str]:
        """Return the refs of the remote with objects that are needed and that no ref of ours holds."""
        remote, objects = self.line.remote.name, self.baton.repo.objects
        below = remote_ref(remote)
        known = {ref: oid for ref, oid in self.listed.items() if ref.startswith(below)}
        mine = objects.refs(THREADS, LATE) if self.choice.threads else {}
        held = {*known.values(), *self.ours.values(), *mine.values()}
        wanted = [ref for ref in (META, NOTES) if ref in seen.refs]
        for ref, item in seen.items.items():
            if seen.refs[ref] in held or not self.choice.takes(item):
                continue
            needed = True
            if item[0] == "track":
                needed = item[1] in self.ours or here(remote, ref) in known
                # What is forgotten may lie in a track that is only there.
                needed = needed or (self.mine.drops and objects.info(seen.refs[ref]) is None)
            elif item[0] == "thread":  # those that are nowhere here are not compared
                needed = ref_of(*item[1:]) in mine or late_ref(*item[1:]) in mine
            wanted += [ref] if needed else []
        return [ref for ref in wanted if seen.refs[ref] not in held]

    def plan(self, seen: RemoteRefs, choice: Choice, *, rewriting: bool) -> tuple[Pushing, list[NewObject]]:
        """Return what to move, and the objects that must be written for it. Raises RecordError where the remote's tombstones
        cannot be read."""
        store = self.baton.store
        both = metas.union(self.mine, said(store, seen))
        limit = self.baton.clock() + SLACK
        compared = self.compared = ChainComparison(
            store, seen, self.ours, (self.mine, both), self.shown, limit, rewriting=rewriting
        )
        moves, objects, warnings, left = compared.moves(choice), compared.objects, list(self.warnings), ""
        ours = META in seen.refs or bool(seen.tracks)
        if ours or any(move.action != "refused" for move in moves):  # else nothing of ours is wanted there
            told, more = meta_move(store, seen, both)
            moves, objects = [*moves, *told], [*objects, *more]
        told, more, said_too = signature_moves(compared, moves)
        moves, objects, warnings = [*moves, *told], [*objects, *more], [*warnings, *said_too]
        try:
            noted, more = notes_move(self.baton, compared, moves) if NOTES not in self.left else ([], [])
            left = keeps(store, compared, moves)
            moves, objects = [*moves, *noted], [*objects, *more]
        except RecordError as error:
            notes = {ref: oid for ref, oid in own_refs(store).items() if ref == NOTES}
            self.left |= torn_refs(store, notes, user_tips(store))
            warnings += [f"no notes are pushed: {error.message}"] if NOTES not in self.left else []
        if choice.transcripts:
            public = {m.name: m.new for m in moves if m.kind == "track" and m.action not in ("delete", "refused") and m.new}
            moves += talk_moves(self.baton, seen, {**compared.same, **public}, self.left, past=choice.tracks is None)
        moves += run_moves(self.baton, seen, self.shown, self.left) if choice.runs else []
        if choice.threads:
            from gitbaton.care.sync import threads

            with threads.Trade(self.baton, self.line, seen, choice, place=self.place, refs=self.refs) as trade:
                traded = threads.Moves(trade, rewriting=rewriting, apart=self.left)
                moves, warnings = [*moves, *traded.all()], [*warnings, *traded.warnings]
            if not self.manner.write and pending(self.baton):
                warnings.append("what savers have not flushed yet is not counted")
        pruned = sum(move.dropped - move.forgotten for move in moves if not rewriting and move.action != "refused")
        if pruned:
            which = "a checkpoint that was" if pruned == 1 else f"{pruned} checkpoints that were"
            warnings.append(f"{in_quotes(self.shown)} refuses rewriting and keeps {which} removed here")
        return Pushing(moves=tuple(moves), same=compared.same, warnings=tuple(warnings), keeps=left), objects

    def _agree(self, public: Exposure) -> bool:
        """Whether ``public`` may become public. A dry run does not ask."""
        if not self.manner.write or public.asked <= self.course.agreed or self.baton.settings.push:
            return True
        self.line.close()  # nobody waits for the answer
        agrees = self.manner.agree(public)
        self.course.agreed |= public.asked if agrees else set()
        return agrees

    def _send(self, made: Pushing, written: Collection[Oid], *, rewriting: bool) -> Pushing | None:
        """Move the remote's refs; None where it refuses rewriting. ``written``: the objects that git keeps for it."""
        moves, rows, self.notes = {move.ref: move for move in made.moves}, list[Pushed](), None
        send_contents(self.line, self.sends, self.place)
        try:
            for part in _parts(made.moves):
                with self.line.turn(self.place):
                    rows += self.line.push(part, self.place, hooked=self.hooked)
        finally:
            # Not after each part: git's time for the next one goes with the number of refs here.
            done = [moves[row.ref] for row in rows if not row.kind]
            with suppress(RefConflictError):  # whoever moves them all the time fetches: then they say as much
                patiently(partial(self._remember, done, written))
            if made.exposure is not None and not (made.declined or made.private):
                sent = made.exposure.asked.intersection(move.asked for move in done)
                remember(self.line, self.place, sorted(sent))
        failed = [row for row in rows if row.kind]
        if not failed:
            self.line.close()
            return made
        if late := [row for row in failed if row.kind == "stale"]:
            raise self._overtaken(late, nothing=not done)
        alone = [row for row in failed if row.kind in ("hook", "rewrite", "other") and _ATOMIC not in row.reason]
        if rewriting and any(moves[row.ref].action in ("rewrite", "delete") for row in alone):  # it may be that alone
            return None
        raise self._error(failed, len(done))

    def _overtaken(self, rows: Sequence[Pushed], *, nothing: bool) -> RemoteError:
        """Return why refs did not move from where they were seen: another process moved them, or, where a second look shows
        nothing new, what git says of it. ``nothing``: whether none has moved."""
        shown, first = in_quotes(self.shown), rows[0]
        self.line.hold(self.place)
        refs = [row.ref for row in rows]
        now = self.line.listed(*refs, META, place=self.place)
        moved = {ref for ref in (*refs, META) if now.get(ref) != self.there.get(ref)}
        self.notes = now.get(NOTES) if moved == {NOTES} and nothing else None
        if not moved.isdisjoint(refs):
            hint = joins(self.shown) if self.choice.threads else f"git baton sync {in_shell(self.shown)}"
            return RemoteError(f"somebody else pushed to {shown} meanwhile", hint, kind="stale")
        said = f"{shown} does not move {in_quotes(first.ref)}, which nobody else moved: {with_words(first.reason, first.words)}"
        if "stale info" not in first.reason:  # a lock, which may be free in a moment
            return RemoteError(said, kind="stale")
        why = "what is read there is not what is written, or the server hides the ref (transfer.hideRefs)"
        return RemoteError(f"{said}: {why}", kind="other")

    def _error(self, failed: Sequence[Pushed], done: int) -> RemoteError:
        row = next((row for row in failed if _ATOMIC not in row.reason), failed[0])
        told = {
            "hook": f"a hook of {in_quotes(self.shown)} refuses our refs: {row.reason}",
            "shallow": f"{in_quotes(self.shown)} refuses what this shallow repository has: {row.reason}",
            "read-only": f"{in_quotes(self.shown)} cannot be written: {with_words(row.reason, row.words)}",
        }
        hints = ["the whole history makes it possible: git fetch --unshallow"] if row.kind == "shallow" else []
        hints += [f"refs that were pushed all the same: {done:,}"] if done else []
        return RemoteError(
            told.get(row.kind, f"{in_quotes(self.shown)} refuses {in_quotes(row.ref)}: {with_words(row.reason, row.words)}"),
            *hints,
            kind=row.kind,
        )

    def _remember(self, moves: Sequence[Move], written: Collection[Oid]) -> None:
        """Set our refs of the remote's to what it has now; of threads also what both sides have. ``written``: what git
        keeps."""
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
                if change.new not in safe:
                    with suppress(CollectedError):  # pruned here while it was sent, and collected by git: a fetch brings it
                        publish_reachable(repo, [change], without=known.values())


def _by_name(paths: Sequence[str], there: str) -> list[str]:
    """Return warnings of files that go public with names that say that they hold secrets, though no secret was found in
    them."""
    told = [f"{path_in_quotes(path)} goes to {there}: its name says that it holds secrets" for path in paths[:_NAMED]]
    return told + ([f"and {len(paths) - _NAMED} more files of such names"] if len(paths) > _NAMED else [])


def _parts(moves: Iterable[Move]) -> list[dict[str, tuple[Oid | None, Oid | None]]]:
    """Return the moves of the remote's refs, from what was seen to what it gets, as they are sent: all at once, but for
    threads that are too many for that; what is no thread's goes first."""
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


class _Asked:
    """Git's answers to questions of objects, which never change: each question is asked once."""

    def __init__(self, repo: Repo) -> None:
        self.repo, self.known = repo, dict[tuple[tuple[str, ...], bytes], bytes]()

    def out(self, *words: str, stdin: bytes) -> bytes:
        """Return the output of a command. Raises GitError."""
        asked = words, stdin
        if asked not in self.known:
            self.known[asked] = self.repo.git.out(*words, stdin=stdin)
        return self.known[asked]


class _Haves:
    """Objects that the remote's refs name, but for refs that are ``left`` out; those that are not here exclude nothing. Git
    takes long with thousands of them, and those of tracks that stay as they are seldom matter: without them more looks new than
    is, so nothing new is nothing new."""

    def __init__(self, baton: Baton, seen: RemoteRefs, made: Pushing, left: Collection[str]) -> None:
        self.baton = baton
        there = {ref: oid for ref, oid in seen.refs.items() if ref not in left}
        same = {*map(chain_ref, made.same)} if len(there) > _MANY else set[str]()
        self.all = [*dict.fromkeys(there.values())]
        self._near = sorted({oid for ref, oid in there.items() if ref not in same}) if same else self.all

    def ask(self, question: Callable[[Sequence[Oid]], T], nothing: Callable[[T], bool] | None = None) -> T:
        """Return the answer to a question of what the remote has not: of all it has, where the answer is not ``nothing``."""
        try:
            return self._asked(question, nothing)
        except GitError:  # git stops at one that is torn
            before = self._near, self.all
            found = readable_kinds(self.baton.store, self.all)
            self._near, self.all = ([oid for oid in oids if oid in found] for oids in before)
            if before == (self._near, self.all):
                raise
        return self._asked(question, nothing)

    def _asked(self, question: Callable[[Sequence[Oid]], T], nothing: Callable[[T], bool] | None) -> T:
        if nothing is not None:
            found = question(self._near)
            if nothing(found) or self._near == self.all:
                return found
        return question(self.all)


def agreed(line: Connection, place: str, items: Iterable[Item]) -> frozenset[Item]:
    """Return those of the items that were pushed from here to that address of the remote by agreement."""
    items = list(items)
    shown = _shown(line, place) if items else ""
    return frozenset(item for item in items if shown in _addresses(_path(line, item)))


def remember(line: Connection, place: str, items: Iterable[Item]) -> None:
    """Note that these items were pushed there by agreement. What cannot be written is asked about again."""
    shown, repo = _shown(line, place), line.repo
    for item in items:
        path = _path(line, item)
        if shown not in _addresses(path):
            with suppress(OSError):
                make_folder(repo, os.path.dirname(path))
                add(repo, path, f"{shown}\n".encode("utf-8", "surrogateescape"))


def _shown(line: Connection, place: str) -> str:
    return line.remote.address(place).replace("\n", " ")


def _path(line: Connection, item: Item) -> str:
    """Return the file that has the addresses for an item, one a line; what a thread is called may be long, and any text."""
    kind, name = item
    file = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest() if kind == "thread" else encode_track(name)
    return os.path.join(line.repo.shared_dir, "pushed", encode_track(line.remote.name), _ROOMS[kind], file)


def _addresses(path: str) -> frozenset[str]:
    return frozenset((read_or_none(path) or b"").decode("utf-8", "surrogateescape").split("\n")) - {""}


def exposure(
    baton: Baton,
    moves: Sequence[Move],
    haves: Sequence[Oid],
    agreed: Collection[Item] = (),
    answers: _Asked | None = None,
) -> Exposure | None:
    """Return what becomes public by those moves that need agreement; None where none does.

    Those that make a track known to the remote do. So do those of other tracks that are not ``agreed`` on, where they bring
    commits of the user's or untracked files that the remote has not; and those of every run and thread that is not ``agreed``
    on: it holds whatever its steps read, wrote and said. ``haves``: what the remote's refs point at; what of it is not here
    excludes nothing.
    """
    fresh = [move for move in moves if move.changes and move.new and move.item and move.asked not in agreed]
    threads = [move for move in fresh if move.kind == "thread"]
    runs = [move for move in fresh if move.kind == "run"]
    asked = [move for move in moves if move.kind == "track" and move.new and move.action == "new"]
    more = [move for move in fresh if move.kind == "track" and move.action != "new"]
    private = partial(_private, baton, answers or _Asked(baton.repo), haves)

    if more and any(private(more)):
        asked += [move for move in more if any(private([move]))]
    if not asked and not runs and not threads:
        return None
    talks = [move for move in moves if move.changes and move.new and move.ref.startswith((TRANSCRIPTS, IMPORTED))]
    tips = sorted({move.new for move in (*asked, *runs, *threads, *talks) if move.new})
    commits, untracked = private(asked) if asked else (0, ())
    fresh_chains = baton.store.walks([move.new for move in asked if move.action == "new" and move.new])
    known = {oid for oids in fresh_chains.values() for oid in oids}
    return Exposure(
        tracks=tuple(sorted({move.name for move in asked})),
        checkpoints=sum(move.count for move in asked if move.action != "new") + len(known - {baton.store.root}),
        commits=commits,
        untracked=untracked,
        bytes=weight(baton, tips, haves),
        runs=tuple(sorted(move.name for move in runs)),
        records=sum(move.count for move in runs),
        threads=tuple(sorted({move.name for move in threads})),
        states=sum(move.count for move in threads),
        observed=_observed(baton, [move.new for move in asked if move.new], haves) if asked else 0,
        conversations=sum(
            move.ref.startswith(TRANSCRIPTS) and not move.ref.endswith(encode_track(told_session("s"))[1:]) for move in talks
        ),
        secret_files=tuple(filter(names_secrets, sorted(map(os.fsdecode, {*reachable(baton.repo, tips, haves).values()})))),
        kept=tuple(_kept(baton, [move for move in asked if move.new])),
    )


def _kept(baton: Baton, moves: Sequence[Move]) -> Iterator[str]:
    """Yield what of the newest checkpoint of each track stays here, because it passed no filter, in words."""
    tips = [move.new or "" for move in moves]
    for move, tip, found in zip(moves, tips, baton.repo.objects.read_many(tips, MAX_COMMIT), strict=True):
        stored = baton.store.stored(found, None, tip)
        if said := kept_here(stored.checkpoint.files):
            yield f"{in_quotes(move.name)}: {said}"


def weight(baton: Baton, tips: Sequence[Oid], haves: Sequence[Oid]) -> int:
    """Return the bytes on disk here of what these reach and those do not."""
    return int(checked(_weighing(baton, tips, haves).finish(), "rev-list"))


def _weighing(baton: Baton, tips: Sequence[Oid], haves: Sequence[Oid]) -> Process:
    return baton.repo.git.start("rev-list", "--disk-usage", "--objects", *_LENIENT, stdin=_range(tips, haves))


def counted(
    baton: Baton, moves: Sequence[Move], haves: Sequence[Oid], public: Exposure | None, answers: _Asked
) -> tuple[Move, ...]:
    """Return the same moves; those of tracks say how many of the user's commits and how many untracked files the remote gets
    by them that no ref of its holds. ``public``: what was counted already. Of what the remote's track had only its tip is
    looked at: the price is that of what is new."""
    found = dict[str, Move]()
    asked = [move for move in moves if move.kind == "track" and move.new and move.changes]
    if public is not None and len(public.tracks) == 1:
        counts = {"commits": public.commits, "untracked": len(public.untracked)}
        found = {move.ref: replace(move, **counts) for move in asked if move.name == public.tracks[0]}
    asked = [move for move in asked if move.ref not in found]
    sent = _sent(answers, [[move.new] for move in asked if move.new], haves)
    added = _added(baton, answers, [chains for chains, _ in sent])
    old = [move.seen if new and move.seen else "" for move, new in zip(asked, added, strict=True)]
    tips = _read(baton, filter(None, old))
    had = _added(baton, answers, [[[tips[oid].tree, *tips[oid].parents]] if oid in tips else [] for oid in old])
    for move, (_, commits), new, before in zip(asked, sent, added, had, strict=True):
        found[move.ref] = replace(move, commits=commits, untracked=len({name for _, name in new - before}))
    return tuple(found.get(move.ref, move) for move in moves)


def _private(baton: Baton, answers: _Asked, haves: Sequence[Oid], moves: Sequence[Move]) -> tuple[int, tuple[str, ...]]:
    """Return how many of the user's commits, and which untracked files, the remote gets by these moves and has not."""
    [(chains, commits)] = _sent(answers, [sorted({move.new for move in moves if move.new})], haves)
    [found] = _added(baton, answers, [chains])
    seen = sorted({move.seen for move in moves if move.seen}) if found else []
    if seen:
        words = ("rev-list", "--first-parent", "--no-commit-header", "--stdin", "--format=%T %P")
        raw = answers.out(*words, stdin=_range(seen, ()))
        found -= _added(baton, answers, [[row.split() for row in raw.decode("ascii").split("\n")]])[0]
    return commits, tuple(sorted({os.fsdecode(name) for _, name in found}))


def _observed(baton: Baton, tips: Sequence[Oid], haves: Sequence[Oid]) -> int:
    """Return how many of the checkpoints below these tips that the remote lacks tell what an agent's client had on record."""
    words = ("rev-list", "--first-parent", "--count", "--basic-regexp", '--grep=^  "observed": ', *_LENIENT)
    return int(baton.repo.git.out(*words, stdin=_range(tips, haves)))


def _range(tips: Sequence[Oid], haves: Sequence[Oid]) -> bytes:
    return "".join([*(f"{oid}\n" for oid in tips), *(f"^{oid}\n" for oid in haves)]).encode()


def _sent(answers: _Asked, groups: Sequence[Sequence[Oid]], haves: Sequence[Oid]) -> list[tuple[list[list[str]], int]]:
    """Return what is sent of chains with these tips, for each group of them: tree and parents of each commit in them, and how
    many others are the user's."""
    words = ("rev-list", "--no-commit-header", *_LENIENT, "--format=%H %T %P%n%s")
    tips = [oid for group in groups for oid in group]
    raw = answers.out(*words, stdin=_range(tips, haves)).decode("utf-8", "replace") if tips else ""
    rows = raw.split("\n")[:-1]
    found = {row.split()[0]: (row.split()[1:], subject) for row, subject in zip(rows[::2], rows[1::2], strict=True)}
    return [_sent_of(found, group) for group in groups]


def _sent_of(found: Mapping[Oid, tuple[list[str], str]], tips: Sequence[Oid]) -> tuple[list[list[str]], int]:
    chains, left, met, commits = list[list[str]](), list[Oid](), set[Oid](), 0
    for at in tips:
        while at in found and at not in met:
            met.add(at)
            chains.append(found[at][0])
            left += chains[-1][2:]
            at = chains[-1][1] if len(chains[-1]) > 1 else ""
    while left:
        if (at := left.pop()) in found and at not in met:
            met.add(at)
            left += found[at][0][1:]
            commits += found[at][1] not in _OURS
    return chains, commits


def _added(baton: Baton, answers: _Asked, groups: Sequence[Sequence[Sequence[str]]]) -> list[set[tuple[bytes, bytes]]]:
    """Return the blobs and paths that trees and indexes of checkpoints hold and the HEAD of each does not: they are
    uncommitted. Each row of a group has the tree and the parents of a commit in a chain."""
    empty = new_object(baton.repo.layout.algorithm, "tree", b"").oid
    heads, staged = _bases(baton, {row[2] for rows in groups for row in rows if len(row) == 3}, empty)
    asked = []
    for rows in groups:
        pairs = {(heads.get(row[2], "") if len(row) == 3 else empty, row[0]) for row in rows if len(row) > 1}
        pairs |= {(heads[row[2]], staged[row[2]]) for row in rows if len(row) == 3 and row[2] in staged}
        asked.append({f"{head} {tree}" for head, tree in pairs if head not in ("", tree)})
    lines = "".join(f"{pair}\n" for pair in sorted({pair for pairs in asked for pair in pairs}))
    words = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-abbrev", "--diff-filter=A", "--no-renames")
    fields = answers.out(*words, stdin=lines.encode()).split(b"\0") if lines else []
    found, pair = dict[str, set[tuple[bytes, bytes]]](), ""
    for data, name in zip(fields[::2], fields[1::2], strict=False):
        head = _HEADERS.match(data)
        pair = head[0].split(b"\n")[-2].decode("ascii") if head else pair
        found.setdefault(pair, set()).add((data[head.end() if head else 0 :].split(b" ")[3], name))
    return [{row for pair in pairs for row in found.get(pair, ())} for pairs in asked]


def _bases(baton: Baton, bases: Collection[Oid], empty: Oid) -> tuple[Mapping[Oid, Oid], Mapping[Oid, Oid]]:
    """Return the trees of the HEADs that bases stand for; and of those bases that are commits of an index, its trees."""
    found = _read(baton, bases)
    indexes = {oid: commit for oid, commit in found.items() if commit.message == INDEX}
    below = _read(baton, {parent for commit in indexes.values() for parent in commit.parents})
    heads = {oid: commit.tree for oid, commit in found.items()}
    for oid, commit in indexes.items():
        parents = [below[parent] for parent in commit.parents if parent in below]
        heads[oid] = next((parent.tree for parent in parents if parent.message != STAGES), empty)
    return heads, {oid: commit.tree for oid, commit in indexes.items()}


def _read(baton: Baton, oids: Iterable[Oid]) -> dict[Oid, RawCommit]:
    """Return the commits of these that are here."""
    asked = sorted(set(oids))
    read = zip(asked, baton.repo.objects.read_many(asked), strict=True)
    return {oid: parse_commit(item.data) for oid, item in read if item is not None and item.kind == "commit" and item.data}


_REFS = 5  # that a line names
_CRYPT = "git-crypt"  # its content is in git, and may look like anything


@value
class Pointer:
    """A file in what is sent that has its content outside of git: what keeps it, as in gitbaton.git.worktree.gate, the filter
    that it stands behind, if any, and git-lfs' id of it."""

    path: str
    keeper: str
    driver: str = ""
    oid: str = ""


def pointers(baton: Baton, wants: Sequence[Oid], haves: Sequence[Oid]) -> list[Pointer]:
    """Return the pointers that are reachable from ``wants`` and not from ``haves``. Raises GitError."""
    objects = baton.repo.objects
    paths = {oid: path for oid, path in reachable(baton.repo, wants, haves).items() if path}
    small = [item for item in sizes(objects, list(paths)) if item.kind == "blob" and item.size <= MOST]
    found = [(paths[item.oid], kept_by(paths[item.oid], data), data) for item, data in contents(objects, small)]
    found = [row for row in found if row[1]]
    asked = sorted({os.fsdecode(path) for path, keeper, _ in found if keeper in (LFS, OTHER)})
    drivers: Mapping[str, str] = {}
    if asked:
        from gitbaton.care.scanning.objects import behind

        drivers = behind(baton.repo, asked, wants)
    rows = []
    for path, keeper, data in found:
        name = os.fsdecode(path)
        driver = drivers.get(name, "")
        if keeper in (ANNEX, DVC) or (driver and not driver.startswith(_CRYPT)):
            rows.append(Pointer(path=name, keeper=keeper, driver=driver, oid=lfs_oid(data)))
    return rows


def sendable(baton: Baton, found: Sequence[Pointer]) -> list[str]:
    """Return the ids of what git-lfs has here, where there is one that may send it."""
    skips = os.environ.get("GIT_LFS_SKIP_PUSH", "").lower() in ("1", "true", "t", "yes", "on")
    if skips or not any(pointer.oid for pointer in found):
        return []
    import shutil

    if shutil.which("git-lfs") is None:
        return []
    place = ([text for _, text in matching(baton.repo, r"^lfs\.storage$")] or ["lfs"])[-1]
    folder = os.path.join(baton.repo.layout.common_dir, place, "objects")
    oids = dict.fromkeys(pointer.oid for pointer in found if pointer.oid)
    return [oid for oid in oids if os.path.isfile(os.path.join(folder, oid[:2], oid[2:4], oid))]


def send_contents(line: Connection, oids: Sequence[str], place: str) -> None:
    """Send contents by git-lfs to where the refs are to go. Raises RemoteError, which says how to do without."""
    said = line.send_lfs(oids, place) if oids else ""
    if said:
        hint = f"GIT_LFS_SKIP_PUSH=1 git baton push {in_shell(line.remote.shown)} leaves it here"
        raise RemoteError(
            f"nothing is pushed: git-lfs does not send the content of files to {in_quotes(line.remote.shown)}: {said}", hint
        )


def staying(found: Sequence[Pointer], oids: Sequence[str], there: str, refs: Sequence[str], *, hooked: bool) -> list[str]:
    """Return warnings that name the files of which the content is not sent, and what sends it. ``refs``: those that are
    sent; ``hooked``: a pre-push hook of the user's sees to what other filters keep."""
    words = " ".join(map(in_shell, (there, *refs[:_REFS])))
    told = {
        ANNEX: f"git-annex keeps it; 'git annex copy --to {in_shell(there)}' sends it",
        DVC: "DVC keeps it; 'dvc push' sends it",
        LFS: f"git-lfs keeps it, and it is not sent: 'git lfs push {words}' sends what is here",
    }
    groups: dict[str, list[str]] = {}
    for pointer in found:
        if pointer.oid in oids or (hooked and pointer.keeper == OTHER):
            continue
        why = told.get(pointer.keeper, f"the filter '{pointer.driver}' seems to keep it elsewhere")
        groups.setdefault(why, []).append(pointer.path)
    return [f"the content of {some(len(paths), first_few(paths))} does not go along: {why}" for why, paths in groups.items()]
