"""Plan a mend and carry it out: each broken ref of ours gets what is left of it, torn objects are put aside first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from tempfile import TemporaryDirectory

from gitbaton.base.codec import counted, decode, decode_track, in_quotes, os_error
from gitbaton.base.errors import BatonError, DamagedIndexError, GitError, RecordError, RefConflictError
from gitbaton.base.model import BESIDE, Checkpoint, Oid
from gitbaton.base.system.files import read_or_none, sync_paths
from gitbaton.base.values import replace
from gitbaton.care.mending import rebuild
from gitbaton.care.mending.rebuild import ChainMender, RunMender, way_out
from gitbaton.care.mending.survey import LARGEST, UNFINISHED, Lost, Made, Mend, Reach, RefMove, Survey, Theirs, brought_back
from gitbaton.care.retention.inventory import conversation_name, known
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store import CHAINS, NOTES, SAFETY, TIPS, chain_ref, state, tip_ref, track_of
from gitbaton.checkpoints.store import meta as store_meta
from gitbaton.checkpoints.store.join import marks
from gitbaton.checkpoints.store.provenance import record_of
from gitbaton.checkpoints.store.read import is_ours, readable_checkpoints
from gitbaton.checkpoints.store.refs import BEFORE_MENDS, IMPORTED, META, REMOTES, RUNS, THREADS, TRANSCRIPTS, signed_track
from gitbaton.git import questions
from gitbaton.git.binary import BinaryObjects, clear_stale_locks
from gitbaton.git.damage import (
    BROKEN,
    Lying,
    bad_lines,
    lacks_end,
    log_of,
    logged,
    missing_alternates,
    move,
    packed_lines,
    put_file,
)
from gitbaton.git.loose import FEW, index_anew
from gitbaton.git.objects import NewObject, RefChange
from gitbaton.git.publish import durable_door
from gitbaton.git.repo import Repo, put
from gitbaton.git.run import checked, quoted
from gitbaton.langgraph.threads.names import LATE
from gitbaton.runs.journal.chain import LOCK, read
from gitbaton.runs.journal.values import run_of

_LATEST = (b"<!-- written by git baton at ", b'{\n  "current_track": ')
_REFETCH = "'git fetch --refetch REMOTE' fetches it again where a remote has it"
_SINCE = "what was said since the newest that can be read; of what was forgotten since, a sync may bring something back"
_FETCH = Made(new=None, said="the next fetch brings it again")
_WAIT = 30.0


def plan(baton: Baton, remote: str | None = None) -> Mend:
    """Look at all of it. ``remote``: where to look, too, for what cannot be read here. Raises GitError where another
    repository that this one borrows objects from is not there: most would look lost, and is not."""
    away = missing_alternates(baton.repo)
    if away:
        text = f"this repository borrows objects from '{away[0]}', which is not there; nothing is mended"
        raise GitError(text, "bring it back, or take its line out of '.git/objects/info/alternates', then try again")
    with TemporaryDirectory(prefix="gitbaton-") as folder, closing(Survey(baton.repo)) as survey:
        return _MendPlanner(baton, survey).mend(survey.look(folder, remote))


class _MendPlanner:
    """The plan for each of our refs, made in order of need: pins and tombstones first, since what was removed stays away; then
    chains; notes are made from chains."""

    def __init__(self, baton: Baton, survey: Survey) -> None:
        self.baton, self.survey = baton, survey
        self.lost: list[Lost] = []
        self.left: list[Lost] = []
        self.moves: list[RefMove] = []
        self.settled: set[str] = set()
        self.ours: dict[str, tuple[Oid, ...]] = {}
        self.nowhere: list[str] = []  # the records of chains that are gone, and to be had nowhere

    def mend(self, warnings: list[str]) -> Mend:
        """Return the plan as one value: of the objects that were made only those that a ref leads to are written."""
        self._meta()
        self._chains()
        self._records()
        self._derived()
        survey = self.survey
        refs = [oid for name, oid in survey.pointing.items() if name in survey.ours or name in self.settled]
        wanted = Reach(survey, survey.theirs).walk(refs)
        objects = [item for oid, item in survey.made.items() if oid in wanted.good and survey.lies(oid) is None]
        left = {lost.where.strip("'") for lost in self.left}
        kept = Reach(survey, survey.theirs).walk(ref.oid for name, ref in survey.ours.items() if name in left and ref.oid)
        aside = {oid: path for oid, path in survey.torn.items() if oid not in survey.theirs and oid not in kept.bad}
        if not survey.their_all:  # what a torn tree or index of the user's led to may be his, too
            aside = {oid: path for oid, path in aside.items() if oid in survey.seen}
        files = tuple(self._files())
        moving = {oid for pack in survey.packs if pack.path in files for oid in pack.oids}
        for oid in sorted(moving & wanted.good - {item.oid for item in objects}):  # only a pack holds it which is put aside
            found = survey.read(oid, LARGEST)
            if found is not None and found.data is not None:
                objects.append(NewObject(oid=oid, kind=found.kind, data=found.data))
        bad = bad_lines(survey.repo)
        lines = tuple(line for line in bad if is_ours(line.rpartition(b" ")[2].rstrip(b"\n").decode("utf-8", "replace")))
        strangers = (in_quotes(name) for name, ref in survey.ours.items() if not known(name) and ref.oid is not None)
        self.left += (Lost(where=name, what="it is not a ref that gitbaton writes; move or rename it") for name in strangers)
        return Mend(
            torn=tuple(aside.items()),
            objects=tuple(objects),
            found=len({item.oid for item in objects} & survey.found),
            moves=tuple(self.moves),
            ours=self.ours,
            lines=lines,
            logs=tuple(self._logs()),
            packs=tuple(pack.path for pack in survey.packs if pack.whole and not pack.indexed),
            files=files,
            lost=tuple(self.lost),
            left=tuple(self.left),
            theirs=tuple(self._theirs(line for line in bad if line not in lines)),
            warnings=tuple(warnings),
            unfinished=survey.unfinished,
        )

    def _settle(self, name: str, made: Made) -> None:
        """Take over what became of one ref."""
        ref = self.survey.ours.get(name) or Lying(name=name, oid=None)
        self.settled.add(name)
        if made.left or (made.new is not None and self.survey.astray(made.new)):
            what = made.left or "what is left of it leads to what cannot be read"
            self.left.append(Lost(where=in_quotes(name), what=what))
            return
        self.lost += made.lost
        if made.new is None:
            self.survey.pointing.pop(name, None)
        else:
            self.survey.pointing[name] = made.new
        if made.ours and (place := record_of(name)):
            self.ours[place] = made.ours
        if made.new != ref.oid or (made.new is None and name in self.survey.ours):
            self.moves.append(RefMove(name=name, new=made.new, old=ref.oid, raw=ref.raw, said=made.said))
            kept = f"{BEFORE_MENDS}{name.removeprefix('refs/baton/')}/{ref.oid}"
            if made.keep and ref.oid is not None and kept not in self.survey.pointing:
                self.survey.pointing[kept] = ref.oid
                self.moves.append(RefMove(name=kept, new=ref.oid, old=None, raw=None, said="what it was stays"))

    def _meta(self) -> None:
        """Plan the ref of pins and tombstones."""
        fetched = (name for name in self.survey.pointing if name.startswith(REMOTES) and name.endswith("/meta"))
        copies = [self.survey.pointing[name] for name in fetched]
        sound = META in self.survey.ours and not self.survey.broken(META)
        self.said, whole = rebuild.meta(self.survey, self.survey.pointing.get(META), copies, older=not sound)
        if not sound and self.said.drops:  # what a track here has was not removed: that had failed
            here = self._here()
            self.said = replace(self.said, pruned=self.said.pruned - here, forgotten=self.said.forgotten - here)
        self.dropped: Callable[[Oid], bool] | None = self.said.dropped
        if META not in self.survey.ours and self.survey.missing and (self.said.pins or self.said.drops):
            self._settle(META, self._made_of_meta("it is gone, and an older one lies about"))
        if META not in self.survey.ours or sound:
            return
        lost = (Lost(where="pins and tombstones", what=_SINCE),)
        if not whole:
            self.dropped = None
        if not self.said.pins and not self.said.drops:
            self._settle(META, Made(new=None, lost=lost, said="nothing of it can be read"))
            return
        gone = counted(len(self.said.pruned) + len(self.said.forgotten), "tombstone")
        self._settle(META, self._made_of_meta(f"{counted(len(self.said.pins), 'pin')}, {gone} can be read", lost))

    def _here(self) -> set[Oid]:
        """Return the ids of the checkpoints of all tracks that can be read."""
        names = [name for name in self.survey.ours if name.startswith(CHAINS) and not self.survey.broken(name)]
        store, tips = self.survey.store, [self.survey.pointing[name] for name in names if name in self.survey.pointing]
        return {mark[1] for tip in tips for mark in marks(store, self.survey.first_parents(tip)) if mark is not None}

    def _made_of_meta(self, said: str, lost: tuple[Lost, ...] = ()) -> Made:
        objects = store_meta.objects_for(self.survey.store, self.said)
        self.survey.add(objects)
        return Made(new=objects[-1].oid, lost=lost, said=said)

    def _chains(self) -> None:
        """Plan the refs of tracks, fetched ones, too, and of the states before each restore."""
        survey, chains = self.survey, ChainMender(self.survey, self.dropped)
        names = [name for name in survey.ours if known(name)]
        orphans = [
            *(chain_ref(track) for name in names if (track := track_of(name)) and name.startswith(TIPS)),
            *(name for name in survey.missing if name.startswith(CHAINS)),
            *(SAFETY + prefix.rstrip("/") for prefix, _, _ in survey.worktrees if survey.missing),
        ]
        orphans = [name for name in orphans if name not in survey.ours and not state.pending(survey.repo)]
        for name in sorted({*names, *orphans}):
            fits, oid, fetched = self._fits(name), survey.pointing.get(name), name.startswith(REMOTES)
            sound = name in survey.ours and not survey.broken(name)
            if fits is None or (sound and chains.is_chain(oid, record_of(name), fetched=fetched)):
                continue
            track = track_of(name) if name.startswith(CHAINS) else None
            where = f"track {in_quotes(track)}" if track is not None else in_quotes(name)
            tip = survey.pointing.get(tip_ref(track)) if track is not None else None
            if fetched and (oid is None or not any(readable_checkpoints(survey.store, [oid]))):
                self._settle(name, replace(_FETCH, keep=chains.whole(oid)))
            else:
                made = chains.mended(where, oid, tip, fits, record_of(name))
                self._settle(name, made if made.new or name in survey.ours else self._absent(name, made))
        pins = {new: self.said.pins[oid] for oid, new in chains.renamed.items() if oid in self.said.pins}
        if pins:  # a pin holds for what is left of its checkpoint
            called = {new: self.said.names[oid] for oid, new in chains.renamed.items() if oid in self.said.names}
            self.said = store_meta.union(self.said, store_meta.Meta(pins=pins, names=called))
            self.moves = [move for move in self.moves if move.name != META]
            self._settle(META, self._made_of_meta("pins are of what is left of their checkpoints"))

    def _absent(self, name: str, made: Made) -> Made:
        """Say where a chain may be had that has no ref, and of which nothing is in this repository."""
        if name.startswith(SAFETY):  # there may have been none
            return replace(made, lost=())
        track = track_of(name) if name.startswith(CHAINS) else None
        ways = brought_back(self.survey.repo, track) if track is not None else []
        self.nowhere += [record_of(name)] if name in self.survey.missing and not ways else []
        return replace(made, lost=tuple(replace(lost, what="; ".join((lost.what, *ways))) for lost in made.lost))

    def _fits(self, name: str) -> Callable[[Checkpoint], bool] | None:
        """Return a test for whether an unreachable checkpoint is of a chain; None for a ref of another kind."""
        if name.startswith(SAFETY):
            places = {SAFETY + prefix.rstrip("/"): (git, root) for prefix, git, root in self.survey.worktrees}
            here = questions.met(*places[name]) if name in places else None
            return lambda c: c.kind == "safety" and (c.files is None or here is None or c.files.worktree.same(here))
        track = track_of(name) if name.startswith(CHAINS) else None
        if name.startswith(REMOTES) and "/tracks/" in name:
            track = decode_track(name.partition("/tracks/")[2])
        talk = conversation_name(name, IMPORTED) if name.startswith(IMPORTED) else None
        if talk is not None:
            return lambda c: c.imported is not None and c.agent is not None and (c.agent.name, c.agent.session) == talk
        return None if track is None else lambda c: c.kind not in BESIDE and c.track == track

    def _records(self) -> None:
        """Plan the refs of runs, threads, conversations, and of what else was fetched."""
        survey, runs = self.survey, RunMender(self.survey)
        gone = [name for name in survey.missing if name.startswith(RUNS)]
        for name in sorted(name for name in (*survey.ours, *gone) if name not in self.settled and known(name)):
            run = run_of(name.removeprefix(RUNS)) if name.startswith(RUNS) else None
            talk = conversation_name(name) if name.startswith(TRANSCRIPTS) else None
            tip = survey.pointing.get(name)
            broken = name not in survey.ours or survey.broken(name)
            if run is None and not broken:
                continue
            info = survey.info(tip) if tip is not None else None
            oid = tip if info is None or info.kind == "commit" else None
            if run is not None and broken:
                made = runs.mended(run, oid)
                if name not in survey.ours and not runs.about(run):
                    made = self._absent(name, replace(made, left="", lost=(Lost(where=f"run '{run}'", what="all records"),)))
                self._settle(name, made)
            elif run is not None:
                try:
                    read(survey, survey.store.root, run, tip or "", ())
                except RecordError as error:  # all its objects are here: nothing can be put in its place
                    self._settle(name, Made(new=None, left=f"{error.message}, so it stays unfinished; {way_out(run)}"))
            elif name.startswith(THREADS):
                self._settle(name, rebuild.thread(survey, name, oid))
            elif name.startswith(LATE):
                self._settle(name, rebuild.late(survey, name, tip))
            elif talk is not None:
                self._settle(name, rebuild.conversation(survey, name, oid, *talk))
            elif (track := signed_track(name)) is not None:
                there = name.removeprefix("refs/baton")
                copies = [oid for ref, oid in survey.pointing.items() if ref.startswith(REMOTES) and ref.endswith(there)]
                self._settle(name, rebuild.signatures(survey, oid, copies, self._ids(track)))
            elif name.startswith(REMOTES):
                self._settle(name, _FETCH)
            elif name.startswith(BEFORE_MENDS):
                self._settle(name, Made(new=None, said="a mend had kept it, and it cannot be read any more"))

    def _ids(self, track: str) -> frozenset[Oid]:
        """Return the checkpoints of a track, as it is to be."""
        try:
            return frozenset(stored.id for stored in self.survey.store.history(track).items)
        except BatonError:
            return frozenset()

    def _derived(self) -> None:
        """Plan the notes, and the refs of tips that show no checkpoint; a refresh makes those anew."""
        survey = self.survey
        if NOTES in survey.ours and survey.broken(NOTES):
            stored = survey.store.everything(survey.store.chains()[0]).items
            self._settle(NOTES, rebuild.notes(survey, survey.pointing.get(NOTES), stored, self.dropped))
        elif NOTES not in survey.ours and survey.missing:
            stored = survey.store.everything(survey.store.chains()[0]).items
            self._settle(NOTES, replace(rebuild.notes(survey, None, stored, self.dropped), lost=()))
        for name, ref in survey.ours.items():
            if not name.startswith(TIPS) or track_of(name) is None:
                continue
            found = survey.read(ref.oid) if ref.oid is not None and ref.oid not in survey.made else None
            try:
                decode(found.data if found is not None and found.kind == "blob" and found.data is not None else b"")
            except RecordError:
                self._settle(name, Made(new=None, said="it is made anew from its chain"))

    def _files(self) -> Iterator[str]:
        """Yield the other files of ours to move away: those at the places of refs that hold no id, damaged packs in which there
        is nothing of the user's, and files of LATEST that are empty or cut."""
        survey, where = self.survey, self.baton.latest
        yield from (os.path.join(survey.repo.shared_dir, "ours", *name.split("/")) for name in self.nowhere)
        for name, ref in survey.ours.items():
            if not known(name) and ref.oid is None and ref.raw is not None:
                yield os.path.join(survey.common_dir, *name.split("/"))
        for pack in survey.packs:
            if not pack.whole and survey.their_all and survey.theirs.isdisjoint(pack.oids):
                parts = (pack.path.removesuffix("pack") + end for end in ("pack", "idx", "rev", "bitmap", "keep"))
                yield from (path for path in parts if os.path.exists(path))
        try:
            if where is None or questions.tracked(survey.repo, where.paths()):
                return
        except DamagedIndexError:  # then nobody knows
            return
        for path in (os.path.join(where.root or "", path) for path in where.paths()):
            raw = read_or_none(path, 4096)
            if raw is not None and (not raw.strip(b"\0") or any(begin.startswith(raw) for begin in _LATEST)):
                yield path

    def _logs(self) -> Iterator[tuple[str, tuple[bytes, ...]]]:
        """Yield the logs of our refs that hold lines which git cannot read or follow, each with the lines that it can."""
        survey = self.survey
        for name in survey.ours:
            lines, bad = log_of(survey.repo, name)
            kept = [line for line in lines if not any(map(survey.astray, logged(line)))]
            if bad or len(kept) < len(lines):
                yield name, tuple(kept)

    def _theirs(self, lines: Iterable[bytes]) -> Iterator[Theirs]:
        """Yield the damage that is not ours to touch. ``lines``: the bad ones of packed refs."""
        survey = self.survey
        for line in lines:
            text = f"'packed-refs' has a line that git cannot read: {in_quotes(line[:80].decode('utf-8', 'replace').rstrip())}"
            way = f"echo >>'{survey.repo.layout.common_dir}/packed-refs'" if lacks_end(line) else "take it out with an editor"
            yield Theirs(text=text, hint=f"{way}; 'git show-ref' then lists what is there")
        for oid, path in list(survey.their_bad.items())[:20]:
            name = f" ({in_quotes(path.decode('utf-8', 'replace'))})" if path else ""
            aside = f"mv '{survey.torn[oid]}' '{survey.torn[oid]}.torn'; " if oid in survey.torn else ""
            own = f"'git hash-object -w -- PATH' writes it again where the file is as it was; {_REFETCH}"
            text = f"object {oid}{name}, of your own history, cannot be read"
            yield Theirs(text=text, hint=f"{aside}{own if path else _REFETCH}")
        for name, ref in survey.lying.items():
            if name not in survey.ours and ref.oid is None and ref.raw is not None and not ref.raw.startswith(b"ref: "):
                yield Theirs(text=f"{in_quotes(name)} holds no id", hint=self._pointed(name))
        for git_dir, root in survey.torn_indexes:
            if root:
                hint = index_anew(os.path.join(git_dir, "index"))
                yield Theirs(text=f"the index of {in_quotes(root)} cannot be read", hint=hint)

    def _pointed(self, name: str) -> str:
        """Return the command that mends a ref of the user's: to the newest commit in its log, or that a checkpoint of this
        branch stood on."""
        survey = self.survey
        oids = [oid for line in log_of(survey.repo, name)[0] for oid in logged(line)][::-1]
        tips = survey.store.tips().items if name.startswith("refs/heads/") else ()
        oids += (s.checkpoint.head or "" for s in tips if s.checkpoint.branch == name.removeprefix("refs/heads/"))
        known = next((oid for oid in oids if survey.commit(oid) is not None), None)
        path = quoted(os.path.join(survey.repo.layout.common_dir, name))
        return f"echo {known} >{path}" if known else "'git fsck --lost-found' lists the commits that no ref leads to"


def apply(baton: Baton, mend: Mend) -> list[str]:
    """Carry out a mend; what could not be done comes back. Raises BatonError, OSError.

    Everything that is replaced lies in ``baton/broken/<time>/`` first. Torn objects go before others come in their place, since
    git writes over no file that is there; refs move last, each to a commit all of which is on disk.
    """
    repo, common, marks, said = baton.repo, baton.repo.layout.common_dir, mend.unfinished, list[str]()
    if mend.changes:
        place = os.path.join(repo.shared_dir, BROKEN, baton.clock().strftime("%Y%m%dT%H%M%S.%fZ"))
        marks = (*marks, os.path.join(place, UNFINISHED))
        put(repo, marks[-1], b"", sync=True)
        with repo.lock(tuple(m.name for m in mend.moves), wait=_WAIT), repo.lock((), wait=_WAIT, of=LOCK):
            state.drop_newest(repo)
            if mend.lines:  # git reads no ref while they are there
                clear_stale_locks(common, ("packed-refs",))
                put(repo, os.path.join(place, "packed-refs"), b"".join(mend.lines), sync=True)
                packed = packed_lines(repo)
                kept = [line + b"\n" * lacks_end(line) for line in packed if line not in mend.lines or lacks_end(line)]
                put_file(repo, "packed-refs", b"".join(kept), expected=b"".join(packed))
            for pack in mend.packs:
                checked(repo.git.run("index-pack", pack), "index-pack")
            for oid, path in mend.torn:
                move(repo, path, os.path.join(place, "objects", oid))
            with closing(durable_door(repo)) as door:
                for start in range(0, len(mend.objects), FEW):  # as files: git may think that a torn pack has them
                    door.write(mend.objects[start : start + FEW])
                written = [os.path.join(repo.objects_dir, item.oid[:2], item.oid[2:]) for item in mend.objects]
                sync_paths([*written, *sorted({os.path.dirname(path) for path in written})], missing=True)
                for path in mend.files:  # those of LATEST lie outside
                    move(repo, path, os.path.join(place, os.path.relpath(path, common).lstrip("./")))
                for name, lines in mend.logs:
                    with open(os.path.join(common, "logs", name), "rb") as file:
                        put(repo, os.path.join(place, "logs", name), file.read(), sync=True)
                    put_file(repo, f"logs/{name}", b"".join(line + b"\n" for line in lines))
                for name, ids in mend.ours.items():
                    baton.store.ours.add(name, ids)
                for m in mend.moves:
                    said += _moved(repo, door, place, m)
    for mark in marks:
        if os.path.lexists(mark):
            os.unlink(mark)
    return said


def _moved(repo: Repo, door: BinaryObjects, place: str, m: RefMove) -> list[str]:
    """Move one ref; return why it could not be moved."""
    if m.raw is not None or m.old is not None:
        put(repo, os.path.join(place, m.name), m.raw if m.raw is not None else f"{m.old}\n".encode(), sync=True)
    try:
        if m.raw is not None and m.old is None:  # git neither reads nor moves a ref that holds no id
            put_file(repo, m.name, f"{m.new}\n".encode() if m.new is not None else None, m.raw)
        else:
            door.update([RefChange(name=m.name, new=m.new, old=m.old)])
    except (RefConflictError, GitError, OSError) as error:
        return [f"{in_quotes(m.name)} is not moved: {os_error(error)}"]
    return []
