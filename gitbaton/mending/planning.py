"""What can be mended in a repository: everything of ours is looked at, and nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from glob import escape, glob
from tempfile import TemporaryDirectory

from gitbaton.baton import Baton
from gitbaton.codec import decode, decode_track, plain
from gitbaton.errors import BatonError, GitError, RecordError
from gitbaton.git import settings
from gitbaton.git.objects import NewObject, new_object, object_id
from gitbaton.git.torn import index_is_torn
from gitbaton.git.tornfiles import BROKEN, Pack, Spare, missing_alternates, torn
from gitbaton.git.tornrefs import Lying, bad_lines, beside, log_of, logged, lying
from gitbaton.journal.names import run_of
from gitbaton.journal.reading import read
from gitbaton.mending import others
from gitbaton.mending.chains import Chains
from gitbaton.mending.heap import LARGEST, Heap, Reach
from gitbaton.mending.pool import Pool
from gitbaton.mending.runs import Runs, way_out
from gitbaton.mending.values import UNFINISHED, Lost, Made, Mend, Move, Theirs
from gitbaton.model import Checkpoint, Oid
from gitbaton.retention.looking import conversation_name, known
from gitbaton.store import CHAINS, NOTES, SAFETY, TIPS, Store, chain_ref, intent, tip_ref, track_of
from gitbaton.store import meta as store_meta
from gitbaton.store.chain import root_objects
from gitbaton.store.refs import META, REMOTES, RUNS, THREADS, TRANSCRIPTS
from gitbaton.store.sound import OURS, kind_of
from gitbaton.threads.names import LATE

_LATEST = (b"<!-- written by git baton at ", b'{\n  "current_track": ')
_REFETCH = "'git fetch --refetch REMOTE' fetches it again where a remote has it"


def plan(baton: Baton, remote: str | None = None) -> Mend:
    """Look at all of it. ``remote``: where to look, too, for what cannot be read here. Raises GitError where another
    repository that this one borrows objects from is not there: most would look lost, and is not."""
    repo = baton.repo
    away = missing_alternates(repo)
    if away:
        text = f"this repository borrows objects from '{away[0]}', which is not there; nothing is mended"
        raise GitError(text, "bring it back, or take its line out of '.git/objects/info/alternates', then try again")
    with TemporaryDirectory(prefix="gitbaton-") as folder, _looking(baton) as look:
        return look.plan(folder, remote)


@contextmanager
def _looking(baton: Baton) -> Iterator[_Look]:
    look = _Look(baton)
    try:
        yield look
    finally:
        look.heap.close()
        for spare in look.heap.spares:
            spare.close()


class _Look:
    """One look at a repository."""

    def __init__(self, baton: Baton) -> None:
        repo = self.repo = baton.repo
        self.baton, self.bad_lines = baton, bad_lines(repo)
        self.lying = lying(repo)
        self.ours = {name: ref for name, ref in self.lying.items() if name.startswith(OURS) or name == NOTES}
        self.torn = torn(repo)
        pointing = {name: ref.oid for name, ref in self.lying.items() if ref.oid is not None}
        self.heap = Heap(repo, pointing, self.torn.keys())
        mended = copy(repo)
        mended.objects = self.heap
        self.store = Store(mended)
        self.ends = _shallow(repo.layout.common_dir)
        self.heap.promised = bool(settings.matching(repo, r"^remote\..*\.(promisor|partialclonefilter)$"))
        self.lost: list[Lost] = []
        self.left: list[Lost] = []
        self.moves: list[Move] = []
        self.warnings: list[str] = []
        self.settled: set[str] = set()
        self.packs: list[Pack] = []
        self.unfinished = tuple(glob(os.path.join(escape(repo.shared_dir), BROKEN, "*", UNFINISHED)))
        self.seen: set[Oid] = set()  # what of ours could not be read at first
        self.their_all = True  # whether all that the user's refs, indexes and logs reach is known

    def plan(self, folder: str, remote: str | None) -> Mend:
        """See ``plan`` above."""
        theirs = self._theirs()
        self.their_bad, self.their_all = theirs.bad, self.their_all and theirs.bad.keys() <= theirs.leaves
        self.theirs = frozenset(theirs.good | theirs.bad.keys())
        self.fine = set(self.theirs)
        ours = self._salvage(folder, remote)
        self.pool = Pool(self.heap, self.store, self.theirs)
        self._meta(ours)
        self._chains(ours)
        self._records(ours)
        self._derived(ours)
        return self._mend()

    def _theirs(self) -> Reach:
        """What the user's refs, HEADs, indexes and logs reach."""
        reach = Reach(self.heap, ends=self.ends)
        roots = {ref.oid: b"" for name, ref in self.lying.items() if name not in self.ours and ref.oid}
        roots |= {oid: b"" for oid in beside(self.repo, (*OURS, NOTES)) if name_of(oid, self.heap)}
        for _, git_dir, _ in settings.worktrees(self.repo):
            git = self.repo.git.changed({"GIT_DIR": git_dir, "GIT_INDEX_FILE": os.path.join(git_dir, "index")})
            if index_is_torn(os.path.join(git_dir, "index"), self.repo.layout.algorithm):
                self.their_all = False
                continue
            for row in git.run("ls-files", "-s", "-z").out.split(b"\0")[:-1]:
                facts, _, path = row.partition(b"\t")
                if not facts.startswith(b"160000"):
                    roots[facts.split(b" ")[1].decode("ascii")] = path
        roots.pop(object_id(self.heap.algorithm, "blob", b""), None)  # stands for what is only to be added
        return reach.walk(roots)

    def _roots(self) -> set[Oid]:
        return {ref.oid for name, ref in self.ours.items() if ref.oid is not None and known(name)}

    def _salvage(self, folder: str, remote: str | None) -> Reach:
        """Find elsewhere what of ours cannot be read, as long as more is found; what is still missing then is in ``bad``."""
        known = [*root_objects(self.heap.algorithm), new_object(self.heap.algorithm, "blob", b"")]
        self.heap.add(item for item in known if self.heap.info(item.oid) is None)
        reach = Reach(self.heap, self.theirs, self.ends, contents=True).walk(self._roots())
        if not reach.bad and not (self.torn.keys() - self.theirs) and not self.unfinished:
            return reach
        spare = Spare(self.repo, os.path.join(folder, "objects"))
        self.heap.spares.append(spare)
        self.packs = spare.unpack()
        self.heap.packed += [spare] if self.packs else []
        for _, git_dir, root in settings.worktrees(self.repo):
            if root:
                spare.take(git_dir, root)
        if remote is not None:
            self.warnings += spare.fetch(remote)
        self.seen = set(reach.bad)
        reach = Reach(self.heap, self.theirs, self.ends, contents=True).walk(self._roots())
        self.seen |= reach.bad.keys() | self.heap.found
        return reach

    def _broken(self, name: str, reach: Reach) -> bool:
        """Whether a ref of ours holds no id, or leads to what such a ref never does, or to what cannot be read and is not the
        user's."""
        ref = self.ours[name]
        if ref.oid is None or self._is_other(name):
            return True
        return bool(reach.bad) and self._astray(ref.oid)

    def _is_other(self, name: str) -> bool:
        """Whether a ref points at another kind of object than such a ref does."""
        found, kind = self.heap.info(self.ours[name].oid or ""), kind_of(name)
        return found is not None and kind is not None and found.kind != kind

    def _astray(self, oid: Oid) -> bool:
        """Whether an object leads to what cannot be read and is not the user's; what does not is not looked at again."""
        found = Reach(self.heap, self.fine, self.ends, contents=True).walk([oid])
        self.fine |= set() if found.bad else found.good
        return bool(found.bad)

    def _settle(self, name: str, made: Made) -> None:
        """Take over what became of one ref."""
        ref = self.ours.get(name) or Lying(name=name, oid=None)
        self.settled.add(name)
        if made.left:
            self.left.append(Lost(where=f"'{name}'", what=made.left))
            return
        self.heap.add(made.objects)
        if made.new is not None and self._astray(made.new):
            self.left.append(Lost(where=f"'{name}'", what="what is left of it leads to what cannot be read"))
            return
        self.lost += made.lost
        if made.new is None:
            self.heap.pointing.pop(name, None)
        else:
            self.heap.pointing[name] = made.new
        if made.new != ref.oid or made.new is None:
            self.moves.append(Move(name=name, new=made.new, old=ref.oid, raw=ref.raw, said=made.said))

    def _meta(self, reach: Reach) -> None:
        """Pins and tombstones come first: what was removed stays away."""
        copies = [oid for name, oid in self.heap.pointing.items() if name.startswith(REMOTES) and name.endswith("/meta")]
        self.meta: Callable[[Oid], bool] | None
        made, said, whole = others.meta(self.heap, self.store, self.pool, self.heap.pointing.get(META), copies)
        self.meta = said.dropped
        if META in self.ours and (self._broken(META, reach) or not self._is_commit(META)):
            self.meta = said.dropped if whole else None
            empty = not said.pins and not said.drops
            self._settle(META, Made(new=None, lost=made.lost, said="nothing of it can be read") if empty else made)
        self.said = said

    def _is_commit(self, name: str) -> bool:
        found = self.heap.info(name)
        return found is not None and found.kind == "commit"

    def _chains(self, reach: Reach) -> None:
        """Tracks, fetched ones, too, and the states before each restore."""
        chains = Chains(self.heap, self.store, self.pool, self.theirs, self.meta)
        names = [name for name in self.ours if known(name)]
        orphans = [chain_ref(track) for name in names if (track := track_of(name)) and name.startswith(TIPS)]
        orphans = [name for name in orphans if name not in self.ours and not intent.pending(self.repo)]
        for name in sorted([*names, *orphans]):
            fits = self._fits(name)
            if fits is None:
                continue
            tip = self._tip(name)
            oid = self.heap.pointing.get(name)
            if name in self.ours and not self._broken(name, reach) and self._is_chain(name):
                continue
            if name.startswith(REMOTES) and (oid is None or self.heap.info(oid) is None):
                self._settle(name, Made(new=None, said="the next fetch brings it again"))
                continue
            self._settle(name, chains.mended(_where(name), oid, tip, fits))
        self._renamed(chains.renamed)

    def _tip(self, name: str) -> Oid | None:
        """The id of a track's newest checkpoint as its tip's ref says it."""
        track = track_of(name) if name.startswith(CHAINS) else None
        return self.heap.pointing.get(tip_ref(track)) if track is not None else None

    def _is_chain(self, name: str) -> bool:
        oid = self.heap.pointing[name]
        try:
            self.store.stored(self.heap.read(oid), None, oid)
        except BatonError:
            return False
        return self.heap.first_parents(oid)[-1] == self.store.root

    def _fits(self, name: str) -> Callable[[Checkpoint], bool] | None:
        """Which checkpoints that lie about are of a chain; None for a ref of another kind."""
        if name.startswith(SAFETY):
            places = {SAFETY + prefix.rstrip("/"): (git, root) for prefix, git, root in settings.worktrees(self.repo)}
            here = settings.met(*places[name]) if name in places else None
            return lambda c: c.kind == "safety" and (c.files is None or here is None or c.files.worktree.same(here))
        track = track_of(name) if name.startswith(CHAINS) else None
        if name.startswith(REMOTES) and "/tracks/" in name:
            track = decode_track(name.partition("/tracks/")[2])
        return None if track is None else lambda c: c.kind != "safety" and c.track == track

    def _renamed(self, renamed: Mapping[Oid, Oid]) -> None:
        """A pin holds for what is left of its checkpoint."""
        pins = {renamed[oid]: count for oid, count in self.said.pins.items() if oid in renamed}
        if pins:
            self.said = store_meta.union(self.said, store_meta.Meta(pins=pins))
            objects = tuple(store_meta.objects_for(self.store, self.said))
            self.moves = [move for move in self.moves if move.name != META]
            self._settle(META, Made(new=objects[-1].oid, objects=objects, said="pins are of what is left of their checkpoints"))

    def _records(self, reach: Reach) -> None:
        """Runs, threads, conversations, and what else was fetched."""
        runs = Runs(self.heap, self.pool, self.theirs)
        for name in sorted(self.ours):
            if name in self.settled or not known(name):
                continue
            oid = self.heap.pointing.get(name) if not self._is_other(name) else None
            run = run_of(name.removeprefix(RUNS))
            if not self._broken(name, reach):
                if name.startswith(RUNS) and run is not None and oid is not None:
                    self._whole_run(name, run, oid)
                continue
            talk = conversation_name(name) if name.startswith(TRANSCRIPTS) else None
            if name.startswith(RUNS) and run is not None:
                self._settle(name, runs.mended(run, oid, torn=bool(self.torn.keys() - self.theirs) or bool(self.packs)))
            elif name.startswith(THREADS):
                beside_it = (o for n, o in self.heap.pointing.items() if n.startswith(THREADS) and n != name)
                taken = Reach(self.heap).walk(beside_it).good
                lost = [n for n in self.ours if n.startswith(THREADS) and n != name and self._is_lost(n)]
                self._settle(name, others.thread(self.heap, self.pool, name, oid, taken, others=bool(lost)))
            elif name.startswith(LATE):
                self._settle(name, others.late(self.heap, name, oid))
            elif talk is not None:
                self._settle(name, others.conversation(self.heap, self.pool, name, oid, *talk))
            elif name.startswith(REMOTES):
                self._settle(name, Made(new=None, said="the next fetch brings it again"))

    def _whole_run(self, name: str, run: str, oid: Oid) -> None:
        """Name a run whose objects are all here, and are not a journal as we write it: nothing can be put in its place."""
        try:
            read(self.store.objects, self.store.root, run, oid, ())
        except RecordError as error:
            self._settle(name, Made(new=None, left=f"{error.message}, so it stays unfinished; {way_out(run)}"))

    def _is_lost(self, name: str) -> bool:
        """Whether what a ref pointed at cannot be read, or is not known."""
        oid = self.ours[name].oid
        return oid is None or self.heap.info(oid) is None

    def _derived(self, reach: Reach) -> None:
        """The notes, and the refs of tips that show no checkpoint; a refresh makes those anew."""
        if NOTES in self.ours and (self._broken(NOTES, reach) or not self._is_commit(NOTES)):
            tracks = self.store.chains()[0]
            stored = self.store.everything(tracks).items
            oid = self.heap.pointing.get(NOTES)
            self._settle(NOTES, others.notes(self.heap, self.store, self.pool, oid, stored, self.meta))
        for name, ref in self.ours.items():
            if not name.startswith(TIPS) or track_of(name) is None:
                continue
            found = self.heap.read(ref.oid) if ref.oid is not None and ref.oid not in self.heap.made else None
            try:
                decode(found.data if found is not None and found.kind == "blob" and found.data is not None else b"")
            except RecordError:
                self._settle(name, Made(new=None, said="it is made anew from its chain"))

    def _mend(self) -> Mend:
        """All of it as one value: of what was made only what a ref leads to is written."""
        made = self.heap.made
        wanted = Reach(self.heap, self.theirs, self.ends).walk(
            oid for name, oid in self.heap.pointing.items() if name in self.ours or name in self.settled
        )
        objects = tuple(item for oid, item in made.items() if oid in wanted.good and self.heap.lying(oid) is None)
        left = {lost.where.strip("'") for lost in self.left}
        kept = Reach(self.heap, self.theirs, self.ends).walk(ref.oid for n, ref in self.ours.items() if n in left and ref.oid)
        aside = {oid: path for oid, path in self.torn.items() if oid not in self.theirs and oid not in kept.bad}
        if not self.their_all:  # what a torn tree or index of the user's led to may be his, too
            aside = {oid: path for oid, path in aside.items() if oid in self.seen}
        lines = tuple(line for line in self.bad_lines if _is_ours(line))
        files = tuple(self._files())
        moving = {oid for pack in self.packs if pack.path in files for oid in pack.oids}
        objects += tuple(self._copies(moving & wanted.good - {item.oid for item in objects}))
        return Mend(
            torn=tuple(aside.items()),
            objects=objects,
            found=len({item.oid for item in objects} & self.heap.found),
            moves=tuple(self.moves),
            lines=lines,
            logs=tuple(self._logs()),
            packs=tuple(pack.path for pack in self.packs if pack.whole and not pack.indexed),
            files=files,
            lost=tuple(self.lost),
            left=(*self.left, *self._strangers()),
            theirs=tuple(self._said(lines)),
            warnings=tuple(self.warnings),
            unfinished=self.unfinished,
        )

    def _copies(self, oids: Iterable[Oid]) -> Iterator[NewObject]:
        """Objects that only a pack holds which is put aside."""
        for oid in sorted(oids):
            found = self.heap.read(oid, LARGEST)
            if found is not None and found.data is not None:
                yield NewObject(oid=oid, kind=found.kind, data=found.data)

    def _files(self) -> Iterator[str]:
        """What else of ours is put aside: files that stand where only refs of ours may and hold no id, and damaged packs in
        which there is nothing of the user's."""
        for name, ref in self.ours.items():
            if not known(name) and ref.oid is None and ref.raw is not None:
                yield os.path.join(self.repo.layout.common_dir, *name.split("/"))
        for pack in self.packs:
            if not pack.whole and self.their_all and self.theirs.isdisjoint(pack.oids):
                parts = (pack.path.removesuffix("pack") + end for end in ("pack", "idx", "rev", "bitmap", "keep"))
                yield from (path for path in parts if os.path.exists(path))
        where = self.baton.latest
        for path in where.paths() if where is not None and not settings.tracked(self.repo, where.paths()) else ():
            yield from self._mirror(os.path.join(where.root or "", path)) if where is not None else ()

    def _mirror(self, path: str) -> Iterator[str]:
        """A file of LATEST that holds nothing, or only the beginning of what ours begin with."""
        try:
            with open(path, "rb") as file:
                raw = file.read(4096)
        except OSError:
            return
        if not raw.strip(b"\0") or any(begin.startswith(raw) for begin in _LATEST):
            yield path

    def _logs(self) -> Iterator[tuple[str, tuple[bytes, ...]]]:
        """The logs of our refs that hold lines which git cannot read or follow, each with the lines that it can."""
        for name in self.ours:
            lines, bad = log_of(self.repo, name)
            oids = {oid for line in lines for oid in logged(line) if oid.strip("0")}
            gone = Reach(self.heap, self.theirs, self.ends).walk(oids).bad if oids else {}
            kept = tuple(line for line in lines if not gone or not Reach(self.heap, self.theirs).walk(_logged(line)).bad)
            if bad or len(kept) < len(lines):
                yield name, kept

    def _strangers(self) -> Iterator[Lost]:
        for name, ref in self.ours.items():
            if not known(name) and ref.oid is not None:
                yield Lost(where=f"'{plain(name)}'", what="it is not a ref that gitbaton writes; move or rename it")

    def _said(self, lines: Iterable[bytes]) -> Iterator[Theirs]:
        """What is damaged and not ours."""
        for line in self.bad_lines:
            if line not in lines:
                text = f"'packed-refs' has a line that git cannot read: '{plain(line[:80].decode('utf-8', 'replace'))}'"
                yield Theirs(text=text, hint="take it out with an editor; 'git show-ref' then lists what is there")
        for oid, path in list(self.their_bad.items())[:20]:
            name = f" ('{plain(path.decode('utf-8', 'replace'))}')" if path else ""
            aside = f"mv '{self.torn[oid]}' '{self.torn[oid]}.torn'; " if oid in self.torn else ""
            own = f"'git hash-object -w -- PATH' writes it again where the file is as it was; {_REFETCH}"
            yield Theirs(
                text=f"object {oid}{name}, of your own history, cannot be read", hint=f"{aside}{own if path else _REFETCH}"
            )
        for _, git_dir, root in settings.worktrees(self.repo):
            if root and index_is_torn(os.path.join(git_dir, "index"), self.repo.layout.algorithm):
                text = f"the index of '{plain(root)}' cannot be read"
                yield Theirs(text=text, hint=f"mv '{git_dir}/index' '{git_dir}/index.torn' && git reset")


def name_of(oid: Oid, heap: Heap) -> bool:
    """Whether an id that stands in a file beside refs means an object; a log may name what is long collected."""
    return len(oid) in (40, 64) and (heap.info(oid) is not None or oid in heap.torn)


def _logged(line: bytes) -> list[Oid]:
    return [oid for oid in logged(line) if oid.strip("0")]


def _is_ours(line: bytes) -> bool:
    name = line.rpartition(b" ")[2].decode("utf-8", "replace")
    return name.startswith(OURS) or name == NOTES


def _where(name: str) -> str:
    track = track_of(name) if name.startswith(CHAINS) else None
    return f"track '{plain(track)}'" if track is not None else f"'{plain(name)}'"


def _shallow(common: str) -> frozenset[Oid]:
    try:
        with open(os.path.join(common, "shallow"), encoding="ascii") as file:
            return frozenset(file.read().split())
    except OSError:
        return frozenset()
