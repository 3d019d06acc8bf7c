"""Survey of damage: readable objects, what the user's refs reach, broken refs of ours, and what can replace them.

The values of a mend stand here, too.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from copy import copy
from functools import cached_property
from glob import escape, glob
from types import MappingProxyType

from gitbaton.base.codec import decode, decode_track, encode_track
from gitbaton.base.errors import GitError, GitTimeoutError, RecordError
from gitbaton.base.model import Oid, Stored
from gitbaton.base.system.files import names_in, read_or_none
from gitbaton.base.values import value
from gitbaton.care.retention.inventory import known
from gitbaton.checkpoints.render import in_shell
from gitbaton.checkpoints.store import CHAINS, NOTES, Store
from gitbaton.checkpoints.store.chain import MAX_COMMIT, root_objects
from gitbaton.checkpoints.store.provenance import Ours
from gitbaton.checkpoints.store.read import PREFIXES, is_ours, readable_checkpoints, unreadable_refs
from gitbaton.checkpoints.store.refs import RUNS
from gitbaton.git import questions
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.damage import BROKEN, Pack, Spare, beside, listed, lying, torn
from gitbaton.git.loose import index_is_torn
from gitbaton.git.objects import (
    MAX_READ,
    Kind,
    NewObject,
    Object,
    RawCommit,
    TreeEntry,
    is_oid,
    new_object,
    object_id,
    parse_commit,
    parse_tree,
)
from gitbaton.git.repo import Repo, has_folder

LARGEST = 256 << 20
_BATCH = 2000
_TREE, _LINK = b"40000", b"160000"
_JSON = b'{\n  "v": 1,\n'
UNFINISHED = "unfinished"  # the file in the folder of what is put aside, while a mend is carried out


def missing(ours: Ours, refs: Collection[str]) -> list[str]:
    """Return the refs of tracks and runs made here that are not among ``refs``, though gitbaton has not removed them."""
    tracks, runs = ({ref.removeprefix(prefix) for ref in refs if ref.startswith(prefix)} for prefix in (CHAINS, RUNS))
    found = [*(CHAINS + name for name in ours.missing("tracks", tracks)), *(RUNS + name for name in ours.missing("runs", runs))]
    return [ref for ref in found if known(ref)]


def brought_back(repo: Repo, track: str) -> list[str]:
    """Return the commands that bring back a track that is gone: one for each remote it was pushed to."""
    place, name = os.path.join(repo.shared_dir, "pushed"), encode_track(track)
    remotes = [decode_track(remote) or "" for remote in sorted(names_in(place))]
    there = [remote for remote in remotes if remote and os.path.lexists(os.path.join(place, encode_track(remote), name))]
    return [f"'git baton sync {in_shell(remote)}' brings back what was pushed there" for remote in there]


class Survey(BinaryObjects):
    """A repository as if it were mended, as a door: objects of ``made`` are there, torn ones are not, and refs point where
    ``pointing`` says. ``store`` reads through it.

    ``ours``: our refs as they are on disk; ``found``: those of ``made`` that were found elsewhere; ``theirs``: what the user's
    refs, HEADs, indexes and logs reach, of which ``their_bad`` cannot be read, each with a path; ``their_all``: whether that is
    known to be all; ``bad``: what of ours cannot be read, ``seen``: what could not at first; ``ends``: commits without their
    parents, in a shallow clone; ``promised``: whether a remote promised what is missing, as to a partial clone; ``unfinished``:
    the marks of mends that were killed; ``missing``: refs of chains made here that are gone, and that we did not remove.
    """

    def __init__(self, repo: Repo) -> None:
        super().__init__(repo.git, repo.layout.git_dir, repo.layout.common_dir, repo.layout.algorithm)
        self.repo, self.torn, self.lying = repo, torn(repo), lying(repo)
        self.ours = {name: ref for name, ref in self.lying.items() if is_ours(name)}
        self.pointing = {name: ref.oid for name, ref in self.lying.items() if ref.oid is not None}
        mended = copy(repo)
        mended.objects = self
        self.store = Store(mended)
        self.missing = missing(self.store.ours, self.lying)
        self.made: dict[Oid, NewObject] = {}
        self.found: set[Oid] = set()
        self.bad: dict[Oid, bytes] = {}
        self.spare: Spare | None = None
        self.packs: list[Pack] = []
        self.promised = bool(questions.matching(repo, r"^remote\..*\.(promisor|partialclonefilter)$"))
        marks = glob(os.path.join(escape(repo.shared_dir), BROKEN, "*", UNFINISHED))
        self.unfinished = tuple(mark for mark in marks if has_folder(repo, os.path.dirname(mark)))
        self.worktrees = questions.worktrees(repo)
        places = ((git_dir, root) for _, git_dir, root in self.worktrees)
        self.torn_indexes = [at for at in places if index_is_torn(os.path.join(at[0], "index"), self.algorithm)]
        shallow = read_or_none(os.path.join(repo.layout.common_dir, "shallow"), follow=True) or b""
        self.ends = frozenset(shallow.decode("ascii", "replace").split())

    def look(self, folder: str, remote: str | None) -> list[str]:
        """Walk from the user's refs, then from ours; find elsewhere what of ours cannot be read: in packs that git cannot use,
        work trees and ``remote``, unpacked into ``folder``. What went wrong comes back. Called once, before anything else."""
        theirs = Reach(self).walk(self._their_roots())
        self.their_bad, self.theirs = theirs.bad, frozenset(theirs.good | theirs.bad.keys())
        self.their_all = not self.torn_indexes and theirs.bad.keys() <= theirs.leaves
        items = [*root_objects(self.algorithm), new_object(self.algorithm, "blob", b"")]
        self.add(item for item in items if self.info(item.oid) is None)
        roots = [ref.oid for name, ref in self.ours.items() if ref.oid is not None and known(name)]
        reach = Reach(self, self.theirs, contents=True).walk(roots)
        warnings: list[str] = []
        seen = set(reach.bad)
        if reach.bad or self.torn.keys() - self.theirs or self.unfinished:
            spare = self.spare = Spare(self.repo, os.path.join(folder, "objects"))
            self.packs = spare.unpack()
            for _, git_dir, root in self.worktrees:
                if root:
                    spare.take(git_dir, root)
            warnings += spare.fetch(remote) if remote is not None else []
            reach = Reach(self, self.theirs, contents=True).walk(roots)
        self.bad, self.seen = reach.bad, frozenset(seen | reach.bad.keys() | self.found)
        self._fine = {*self.theirs, *(() if reach.bad else reach.good)}
        return warnings

    def _their_roots(self) -> dict[Oid, bytes]:
        """Return the objects that the user's refs, HEADs, indexes and logs name, each with its path where that is known."""
        roots = {ref.oid: b"" for name, ref in self.lying.items() if name not in self.ours and ref.oid}
        logged = set(beside(self.repo, (*PREFIXES, NOTES)))  # a log may name what is long collected
        roots |= {oid: b"" for oid in logged if self.info(oid) is not None or oid in self.torn}
        for _, git_dir, root in self.worktrees:
            if (git_dir, root) in self.torn_indexes:
                continue
            git = self.repo.git.changed({"GIT_DIR": git_dir, "GIT_INDEX_FILE": os.path.join(git_dir, "index")})
            for row in git.run("ls-files", "-s", "-z").out.split(b"\0")[:-1]:
                facts, _, path = row.partition(b"\t")
                if not facts.startswith(_LINK):
                    roots[facts.split(b" ")[1].decode("ascii")] = path
        roots.pop(object_id(self.algorithm, "blob", b""), None)  # stands for what is only to be added
        return roots

    def close(self) -> None:
        """See Objects."""
        super().close()
        if self.spare is not None:
            self.spare.door.close()

    def broken(self, name: str) -> bool:
        """Whether a ref of ours holds no id, leads to what such a ref never does, or to what cannot be read and is not the
        user's."""
        oid = self.ours[name].oid
        return oid is None or bool(unreadable_refs(self.store, {name: oid})) or self.astray(oid)

    def astray(self, oid: Oid) -> bool:
        """Whether an object leads to what cannot be read and is not the user's; what does not is not looked at again."""
        found = Reach(self, self._fine, contents=True).walk([oid])
        self.bad |= found.bad
        self._fine |= set() if found.bad else found.good
        return bool(found.bad)

    def add(self, objects: Iterable[NewObject]) -> None:
        """Have objects here that are to be written."""
        for item in objects:
            self.made[item.oid] = item
            self.bad.pop(item.oid, None)

    def make(self, kind: Kind, data: bytes) -> Oid:
        """Have an object here that is to be written; its id."""
        item = new_object(self.algorithm, kind, data)
        self.add([item])
        return item.oid

    def find(self, wanted: Iterable[Oid]) -> int:
        """Look for objects that are not here among the spare ones; how many were found."""
        oids, items = list(wanted), list[NewObject]()
        for oid, found in zip(oids, self.spare.door.read_many(oids, LARGEST), strict=True) if self.spare is not None else ():
            if found is not None and found.data is not None and object_id(self.algorithm, found.kind, found.data) == oid:
                items.append(NewObject(oid=oid, kind=found.kind, data=found.data))
        self.add(items)
        self.found |= {item.oid for item in items}
        return len(items)

    def info(self, spec: str) -> Object | None:
        """See Objects."""
        return self.read(spec, 0)

    def read(self, spec: str, limit: int = MAX_READ) -> Object | None:
        """See Objects; what is torn is not there."""
        oid = spec if is_oid(self.algorithm, spec) else self.pointing.get(spec)
        if oid is None:
            return None
        if oid not in self.made:
            found = self.lies(oid, limit)
            if found is not None or not self.find([oid]):
                return found
        made = self.made[oid]
        size = len(made.data)
        return Object(oid=oid, kind=made.kind, size=size, data=made.data if size <= limit else None)

    def lies(self, oid: Oid, limit: int = 0) -> Object | None:
        """Read an object of the repository itself, as ``read``."""
        try:
            found = super().info(oid)
            if found is not None and (found.size <= limit or oid in self.torn):
                found = self._ask().contents(found)
        except GitTimeoutError:
            raise
        except GitError:
            return None
        if found is not None and oid in self.torn and object_id(self.algorithm, found.kind, found.data or b"") != oid:
            return None
        return found

    def read_many(self, oids: Sequence[Oid], limit: int = MAX_READ) -> Iterator[Object | None]:
        """See Objects."""
        apart = {oid for oid in oids if oid in self.made or oid in self.torn}
        rest = super().read_many([oid for oid in oids if oid not in apart], limit)
        for oid in oids:
            found = None if oid in apart else next(rest)
            yield self.read(oid, limit) if found is None else found

    def refs(self, *prefixes: str) -> dict[str, Oid]:
        """See Objects."""
        return {name: oid for name, oid in self.pointing.items() if name.startswith(prefixes)}

    def first_parents(self, start: Oid, limit: int | None = None) -> list[Oid]:
        """See Objects."""
        return self._step_by_step(start, limit)

    def commit(self, oid: Oid | None) -> RawCommit | None:
        """Return a commit, taken apart; None for what cannot be read, or is none."""
        found = self.read(oid, LARGEST) if oid else None
        try:
            return parse_commit(found.data) if found is not None and found.kind == "commit" and found.data is not None else None
        except RecordError:
            return None

    def entries(self, tree: Oid) -> list[TreeEntry] | None:
        """Return the entries of a tree; None for one that cannot be read, or is none."""
        found = self.read(tree, LARGEST)
        try:
            return parse_tree(found.data, self.algorithm) if found and found.kind == "tree" and found.data is not None else None
        except RecordError:
            return None

    @cached_property
    def _listed(self) -> dict[Oid, tuple[str, int]]:
        """The objects that lie here, reachable or not, but those of the user's; each with its type and size."""
        found = listed(self.repo)
        if self.packs and self.spare is not None:
            self.find(oid for oid in self.spare.oids() if oid not in found)
        found |= {oid: (item.kind, len(item.data)) for oid, item in self.made.items()}
        return {oid: what for oid, what in found.items() if oid not in self.theirs}

    def _of(self, kind: Kind) -> Iterator[tuple[Oid, bytes]]:
        oids = [oid for oid, (is_, size) in self._listed.items() if is_ == kind and size <= MAX_COMMIT]
        for oid, found in zip(oids, self.read_many(oids, MAX_COMMIT), strict=True):
            if found is not None and found.data is not None:
                yield oid, found.data

    @cached_property
    def commits(self) -> dict[Oid, RawCommit]:
        """Every commit that lies here and is not the user's, taken apart."""
        found: dict[Oid, RawCommit] = {}
        for oid, data in self._of("commit"):
            with suppress(RecordError):
                found[oid] = parse_commit(data)
        return found

    @cached_property
    def run_trees(self) -> tuple[Oid, ...]:
        """Every such tree that could be that of a record of a run."""
        return tuple(oid for oid, data in self._of("tree") if b" record.json\0" in data)

    @cached_property
    def sides(self) -> tuple[Oid, ...]:
        """Every such tree that could lie beside the index of a checkpoint."""
        lists = (b" flags\0", b" modes\0", b" touched\0")
        names = (b" after\0", b" raw\0", b" held\0", *lists, b"40000 1\0", b"40000 2\0", b"40000 3\0")
        return tuple(oid for oid, data in self._of("tree") if any(name in data for name in names))

    @cached_property
    def records(self) -> dict[Oid, bytes]:
        """Every such blob that begins as a record of ours does."""
        return {oid: data for oid, data in self._of("blob") if data.startswith(_JSON)}

    @cached_property
    def checkpoints(self) -> dict[Oid, list[Stored]]:
        """Every such commit that is a checkpoint, by the checkpoint's id: one that was written again has several."""
        found: dict[Oid, list[Stored]] = {}
        for stored in readable_checkpoints(self.store, list(self.commits)):
            found.setdefault(stored.id, []).append(stored)
        return found

    def text(self, oid: Oid | None) -> Stored | None:
        """Return a checkpoint of which a blob holds the record, without a commit; None where there is no such blob."""
        found = self.read(oid, MAX_COMMIT) if oid else None
        raw = found.data if found is not None and found.kind == "blob" and found.data is not None else b""
        try:
            return Stored(id=oid or "", commit="", base=None, tree="", raw=raw, checkpoint=decode(raw))
        except RecordError:
            return None


class Reach:
    """The objects that some lead to: ``good`` can be read, ``bad`` cannot, each with a path at which it was met. ``stop``:
    objects that are known already, with all that they lead to. With ``contents`` blobs are read, too, and not only looked
    up."""

    def __init__(self, survey: Survey, stop: Set[Oid] = frozenset(), *, contents: bool = False) -> None:
        self.survey, self.stop, self.contents = survey, stop, contents
        self.good: set[Oid] = set()
        self.bad: dict[Oid, bytes] = {}
        self.leaves: set[Oid] = set()  # those of the bad ones that are files, and lead to nothing

    def walk(self, roots: Iterable[Oid] | Mapping[Oid, bytes]) -> Reach:
        """Go on from some objects, each with its path where that is known."""
        deeper: list[tuple[Oid, bytes]]
        deeper = list(roots.items()) if isinstance(roots, Mapping) else [(oid, b"") for oid in roots]
        blobs: dict[Oid, bytes] = {}
        while deeper:
            level = {oid: path for oid, path in deeper if self._new(oid)}
            deeper, oids = [], list(level)
            for start in range(0, len(oids), _BATCH):
                part = oids[start : start + _BATCH]
                for oid, found in zip(part, self.survey.read_many(part, LARGEST), strict=True):
                    self._take(oid, found, level[oid])
                    deeper += self._below(oid, found, level[oid], blobs)
        asked = [oid for oid in blobs if self._new(oid)]
        for oid, found in zip(asked, self.survey.read_many(asked, LARGEST if self.contents else 0), strict=True):
            self._take(oid, found, blobs[oid])
            self.leaves |= {oid} & self.bad.keys()
        return self

    def _new(self, oid: Oid) -> bool:
        return oid not in self.good and oid not in self.bad and oid not in self.stop

    def _take(self, oid: Oid, found: Object | None, path: bytes) -> None:
        if found is None and (oid in self.survey.torn or not self.survey.promised):
            self.bad[oid] = path
        else:
            self.good.add(oid)

    def _below(self, oid: Oid, found: Object | None, path: bytes, blobs: dict[Oid, bytes]) -> list[tuple[Oid, bytes]]:
        """Return the commits and trees that an object leads to; files go into ``blobs``."""
        if found is None or found.data is None:
            return []
        try:
            if found.kind == "commit":
                commit = parse_commit(found.data)
                parents = commit.parents if oid not in self.survey.ends else ()
                return [(commit.tree, path), *((parent, path) for parent in parents)]
            if found.kind == "tag":
                return [(found.data[7 : found.data.index(b"\n")].decode("ascii", "replace"), path)]
            entries = parse_tree(found.data, self.survey.algorithm) if found.kind == "tree" else []
        except (RecordError, ValueError):
            self.good.discard(oid)
            self.bad[oid] = path
            return []
        inside = path + b"/" if path else b""
        for entry in entries:
            if entry.mode not in (_TREE, _LINK):
                blobs.setdefault(entry.oid, inside + entry.name)
        return [(entry.oid, inside + entry.name) for entry in entries if entry.is_tree]


@value
class Lost:
    """A loss of ours: ``where`` names the checkpoint, run or thread, ``what`` a path, or what else of it cannot be read any
    more."""

    where: str
    what: str


@value
class RefMove:
    """A ref that is to point elsewhere. ``old``: what it points at now, None where it holds no id; ``raw``: its file's bytes,
    as they are put aside; ``new``: None where nothing is left for it to point at; ``said``: why, for people."""

    name: str
    new: Oid | None
    old: Oid | None
    raw: bytes | None
    said: str


@value
class Theirs:
    """Damage that is not ours to touch: what, and the command of git's that helps."""

    text: str
    hint: str


@value
class Mend:
    """A plan of a mend.

    ``torn``: objects with the file that is moved away; ``objects``: what is written, ``found`` of it elsewhere;
    ``moves``: refs; ``ours``: of what is written anew what was made here, by the file that records it; ``lines``: what goes
    from git's file of packed refs; ``logs``: logs of refs that are written anew without the lines that cannot be read;
    ``packs``: those that only lack an index; ``files``: what else of ours is moved away; ``lost``: what is gone for good;
    ``left``: what is ours and stays as it is, and why; ``theirs``: what is not ours; ``unfinished``: the marks of mends that
    were killed.
    """

    torn: tuple[tuple[Oid, str], ...] = ()
    objects: tuple[NewObject, ...] = ()
    found: int = 0
    moves: tuple[RefMove, ...] = ()
    ours: Mapping[str, tuple[Oid, ...]] = MappingProxyType({})
    lines: tuple[bytes, ...] = ()
    logs: tuple[tuple[str, tuple[bytes, ...]], ...] = ()
    packs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    lost: tuple[Lost, ...] = ()
    left: tuple[Lost, ...] = ()
    theirs: tuple[Theirs, ...] = ()
    warnings: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the mend has anything to do."""
        return bool(self.torn or self.objects or self.moves or self.lines or self.logs or self.packs or self.files)


@value
class Made:
    """A rebuilt ref: where it is to point (None: nowhere), and what is lost. ``said``: why, for people; ``left``: why it stays
    as it is instead; ``ours``: of what is written anew, the ids of what was made here; ``keep``: whether what the ref pointed
    at can be read, so that it stays reachable."""

    new: Oid | None
    lost: tuple[Lost, ...] = ()
    said: str = ""
    left: str = ""
    ours: tuple[Oid, ...] = ()
    keep: bool = False
