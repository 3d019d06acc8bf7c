"""The journal of runs: records are appended to a run's chain of commits, durably, and read back."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from gitbaton.codec import first_line
from gitbaton.errors import (
    AmbiguousNameError,
    CollectedError,
    GitError,
    NoAnswerError,
    NotFoundError,
    RecordError,
    UnreadableRunError,
    UsageError,
)
from gitbaton.git.loose import few_below, hold, lately
from gitbaton.git.maintenance import PACKS, tidy_packs
from gitbaton.git.objects import NewObject, RefChange, TreeEntry, author_at, commit_data, new_object, tree_data, zero
from gitbaton.git.publish import Durable, fsync, kept, kept_whole, move_refs, publish
from gitbaton.git.reffiles import lying, there
from gitbaton.git.repo import Repo
from gitbaton.journal import origins, redaction
from gitbaton.journal.codec import encode, fit
from gitbaton.journal.keys import idem
from gitbaton.journal.names import check_run, run_of, run_ref
from gitbaton.journal.reading import RECORD, Finder, read
from gitbaton.journal.values import BLOBS, TREES, Logged, Record
from gitbaton.model import Oid
from gitbaton.store.chain import RETRY_SECONDS, append_to, landed, root_objects
from gitbaton.store.refs import REMOTES, RUNS, remote_of
from gitbaton.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.git.publish import Fsync
    from gitbaton.secrets import Redactor

__all__ = ["Journal", "check_run", "chosen", "in_use", "remember", "remembered", "run_ref"]
LOCK = "lock/runs"
_STALE_SECONDS = 1.0  # whoever writes runs holds our lock, and git's pack-refs takes milliseconds
_PAUSE = 0.01
_COLLECTED = 3  # times that git may collect an object of a record before it is recorded
_SUBJECT_BYTES = 72
_NOTHING = "nothing is recorded"


class Journal:
    """The runs of one repository. ``author``: ``Name <email>``; ``redactor``: None leaves words as they are; ``clock``: gives
    the time of a record's commit, in UTC. Safe to use from several threads."""

    def __init__(self, repo: Repo, *, author: bytes, redactor: Redactor | None = None, clock: Callable[[], datetime]) -> None:
        self.repo, self.author, self.redactor, self.clock = repo, author, redactor, clock
        self.root = root_objects(repo.layout.algorithm)[-1].oid
        self._disk, self._packs = Durable(repo, lasting=True), 0
        self._read: dict[str, tuple[Oid, tuple[Logged, ...]]] = {}
        self._first: dict[str, Oid] = {}  # the first commit of each run that was seen
        self._held: dict[str, set[Oid]] = {}  # trees and blobs that each run is known to hold, with all below them
        self._made: set[str] = set()  # the names that were made here
        self._guard = threading.RLock()
        self._finder = Finder(self)

    def refs(self) -> dict[str, Oid]:
        """The local runs and their newest commits, of a broken ref the id of no object; names that are not ours are left
        out."""
        broken = dict.fromkeys(lying(self.repo, RUNS), zero(self.repo.layout.algorithm))
        found = ((run_of(ref.removeprefix(RUNS)), oid) for ref, oid in {**broken, **self.repo.objects.refs(RUNS)}.items())
        return {run: oid for run, oid in found if run is not None}

    def names(self) -> list[str]:
        """The local runs, by name."""
        return sorted(self.refs())

    def fetched(self) -> dict[str, list[tuple[str, Oid]]]:
        """The runs that remotes have, as they were fetched: for each the remotes and what they have."""
        found: dict[str, list[tuple[str, Oid]]] = {}
        for ref, oid in sorted(self.repo.objects.refs(REMOTES).items()):
            remote, rest = remote_of(ref) or ("", "")
            run = run_of(rest.removeprefix("runs/")) if rest.startswith("runs/") else None
            if run is not None and oid.strip("0"):
                found.setdefault(run, []).append((remote, oid))
        return found

    def tip(self, run: str) -> Oid | None:
        """The newest commit of a local run; None when there is none. Raises UnreadableRunError."""
        ref = run_ref(run)
        for _ in range(2):  # whoever begins it between the two looks has it whole by the second
            try:
                found = self.repo.objects.info(ref)
            except GitError:
                break
            if found is not None:
                return found.oid
            if not there(self.repo, ref):
                return None
        oid = self.refs().get(run, "")
        raise UnreadableRunError(run, f"commit {oid} cannot be read" if oid.strip("0") else f"'{ref}' holds no id")

    def new_name(self, now: datetime) -> str:
        """A name that no run has yet: ``r-YYYYMMDD-`` and four hexadecimal digits."""
        taken = {*self.refs(), *self.fetched()}
        for _ in range(1000):
            name = f"r-{now:%Y%m%d}-{os.urandom(2).hex()}"
            if name not in taken:
                self._made.add(name)
                return name
        raise GitError("no name is left for a run of today")

    def new_lineage(self, run: str) -> str:
        """A lineage for a run that is yet to begin: its name, where that was made at random here, or else that and something
        random, so that a name which is used again means other effects."""
        return run if run in self._made else f"{run[:91]}-{os.urandom(4).hex()}"

    def forget(self, run: str) -> None:
        """Know nothing of a run any more, which was dropped."""
        with self._guard:
            for known in (self._read, self._first, self._held):
                known.pop(run, None)

    def records(self, run: str) -> tuple[Logged, ...]:
        """The records of a run, oldest first; of one that was only fetched, all foreign. What was read before is not read
        again. Raises NotFoundError; UnreadableRunError, and RecordError where what was fetched is not as we write it."""
        tip = self.tip(run)
        if tip is not None:
            return self._local(run, tip)
        copies = self.fetched().get(run)
        if not copies:
            raise NotFoundError(f"there is no run '{run}'", *_listed(self.names(), ()))
        return tuple(replace(logged, foreign=True) for logged in self._longest(run, copies))

    def _longest(self, run: str, copies: list[tuple[str, Oid]]) -> tuple[Logged, ...]:
        """Of what remotes have of a run the copy with the most records. Raises RecordError when none can be read."""
        chains: list[tuple[Logged, ...]] = []
        for number, (_, oid) in enumerate(copies, 1):
            try:
                chains.append(read(self.repo.objects, self.root, run, oid, ()))
            except RecordError:
                if number == len(copies) and not chains:
                    raise
        return max(chains, key=len)

    def _local(self, run: str, tip: Oid) -> tuple[Logged, ...]:
        with self._guard:
            before = self._read.get(run)
            if before is not None and before[0] == tip:
                return before[1]
            try:
                found = read(self.repo.objects, self.root, run, tip, before[1] if before else ())
            except (GitError, RecordError) as error:
                raise UnreadableRunError(run, error.message) from None
            foreign = origins.until(self.repo, run) == tip
            found = tuple(item if item.foreign == foreign else replace(item, foreign=foreign) for item in found)
            self._read[run] = (tip, found)
            if found:
                self._first.setdefault(run, found[0].commit)
            return found

    def append(
        self,
        run: str,
        record: Record,
        *,
        trees: Mapping[str, Oid] | None = None,
        blobs: Mapping[str, bytes] | None = None,
        keep: Oid | None = None,
    ) -> Logged:
        """Put a record at the end of a run, which it makes where there is none; on disk when this returns.

        Its ``seq`` and the ids of its outputs are given here; secrets are taken out of its words, and lists that are too long
        cut. ``trees``: subtrees of TREES that the record itself does not name, or blobs of BLOBS that are stored already;
        ``blobs``: of BLOBS, of an output the last MiB is kept; ``keep``: a commit that is to stay reachable. Raises
        RefConflictError when others are in the way for eight seconds, GitError when an object is not here or the disk is full,
        UnreadableRunError, UsageError for a record over the limits or a run that was only fetched, ScanError. Then the journal
        is as it was.
        """
        ref = run_ref(run)
        record, contents = redaction.clean(replace(record, run=run), dict(blobs or {}), self.redactor)
        algorithm = self.repo.layout.algorithm
        made = {name: new_object(algorithm, "blob", data) for name, data in contents.items()}
        record = redaction.named(fit(record), made, contents)
        parts = _parts(record, trees or {}) | {name: item.oid for name, item in made.items()}

        def once(_: object) -> Logged:
            more: list[NewObject] = []
            for _ in range(_COLLECTED):
                try:
                    return self._append(run, ref, record, parts, keep, [*made.values()], more)
                except CollectedError:
                    more = lately()
            return self._append(run, ref, record, parts, keep, [*made.values()], more)

        with self._guard:
            return append_to(
                self.repo,
                (ref,),
                once,
                seconds=RETRY_SECONDS,
                lock=lambda: self.repo.lock((), RETRY_SECONDS, of=LOCK),
                pauses=(_PAUSE, _PAUSE),
                stale=_STALE_SECONDS,
                lost=(_NOTHING,),
            )

    def _append(
        self,
        run: str,
        ref: str,
        record: Record,
        parts: Mapping[str, Oid],
        keep: Oid | None,
        made: Sequence[NewObject],
        more: Sequence[NewObject],
    ) -> Logged:
        """One attempt, with the lock held; ``made`` are the parts that are not in the store, ``more`` is what may have been
        collected from it. Raises CollectedError."""
        tip, known = self.tip(run), self._first.get(run)
        if tip is None and run in self.fetched():
            raise UsageError(f"run '{run}' was fetched from elsewhere, and is not one of this repository yet")
        before = self._local(run, tip) if tip is not None else ()
        if known is not None and (not before or before[0].commit != known):
            raise GitError(f"'{ref}' was removed while run '{run}' was under way; {_NOTHING}")
        record = _of_lineage(replace(record, seq=len(before)), before[0].record.lineage if before else record.lineage)
        algorithm = self.repo.layout.algorithm
        raw = new_object(algorithm, "blob", encode(record))
        modes = {name: b"40000" if name in TREES else b"100644" for name in parts}
        entries = [TreeEntry(mode=modes[name], name=name.encode(), oid=oid) for name, oid in parts.items()]
        entries.append(TreeEntry(mode=b"100644", name=RECORD.encode(), oid=raw.oid))
        tree = new_object(algorithm, "tree", tree_data(entries))
        parents = (tip or self.root, *([keep] if keep is not None else []))
        data = commit_data(tree=tree.oid, parents=parents, author=author_at(self.author, self.clock()), message=subject(record))
        commit = new_object(algorithm, "commit", data)
        first: list[NewObject] = [] if tip else root_objects(algorithm)
        held, how = self._held.setdefault(run, set()), fsync(self.repo)
        named = {*parts.values()} - {item.oid for item in made}
        below = few_below(named, algorithm, held) if keep is None else None

        def move() -> None:
            new = [*first, *made, raw, tree, commit]
            with kept_whole(self.repo, [*below, *new], how) if below is not None else self._kept(tip, [*more, *new], how):
                move_refs(self.repo, [RefChange(name=ref, new=commit.oid, old=tip)], how=how, disk=self._disk)

        landed(move, lambda: self.tip(run), commit.oid)
        hold(parts.values(), algorithm, held)
        self._packs += 1
        if self._packs % PACKS == 0:
            tidy_packs(self.repo)
        logged = Logged(record=record, commit=commit.oid, parts=dict(parts))
        if before and before[-1].foreign:
            origins.clear(self.repo, run)
            before = tuple(replace(item, foreign=False) for item in before)
        self._read[run] = (commit.oid, (*before, logged))
        self._first.setdefault(run, commit.oid)
        return logged

    def _kept(self, tip: Oid | None, new: Sequence[NewObject], how: Fsync) -> AbstractContextManager[None]:
        """Keep a record's commit, the last of ``new``, with all that it reaches until its ref holds it: git looks what that is
        where it cannot be told from what was written lately. Raises CollectedError."""
        known = [oid for oid in (tip, self.repo.objects.head().oid) if oid is not None]
        words = [new[-1].oid, *(f"^{oid}" for oid in known if self.repo.objects.info(oid) is not None)]
        return kept(self.repo, words, walk=True, how=how, fresh=new)

    def adopt(self, run: str) -> None:
        """Make a run that was fetched a local one, or bring a local one up to what was fetched; its records stay foreign until
        a local one follows. Raises NotFoundError; NoAnswerError when both have gone on; RecordError when it is broken."""
        copies = self.fetched().get(check_run(run), [])
        if not copies:
            raise NotFoundError(f"no run '{run}' was fetched", *_listed((), sorted(self.fetched())))
        longest = self._longest(run, copies)
        held, oid = {logged.commit for logged in longest}, longest[-1].commit
        with self._guard, self.repo.lock((), of=LOCK):
            tip = self.tip(run)
            if tip is not None and tip not in held:
                if any(logged.commit == oid for logged in self._local(run, tip)):
                    return
                raise NoAnswerError(f"run '{run}' has gone on both here and elsewhere; it is left as it is")
            if tip == oid:
                return
            origins.note(self.repo, run, oid)
            publish(self.repo, [RefChange(name=run_ref(run), new=oid, old=tip)])

    def find(self, key: str, *, but: str) -> Logged | None:
        """The newest result with a key that can be served, among the other local runs: of a step without an effect, stable, not
        foreign. A run that cannot be read has none."""
        with self._guard:
            return self._finder.find(key, but)


def _of_lineage(record: Record, lineage: str) -> Record:
    """A record as one of a run whose first record came from another process, after this one looked: then its step is new."""
    if record.lineage == lineage:
        return record
    record = replace(record, lineage=lineage)
    if record.type != "begin" or record.idem is None or record.step is None or record.key is None:
        return record
    return replace(record, idem=idem(lineage, record.step, record.key))


def subject(record: Record) -> bytes:
    """The first line of a record's commit: the step, the type, and the first digits of its key, which ``find`` looks for."""
    name = (first_line(record.step or "") or "run").encode("utf-8", "replace")[:_SUBJECT_BYTES].decode("utf-8", "ignore")
    rest: list[str] = [record.type]
    rest += [f"attempt {record.attempt}"] if record.attempt and record.attempt > 1 else []
    rest += [f"exit {record.exit}"] if record.exit is not None else []
    rest += [record.state] if record.state else []
    rest += ["steps are open"] if record.type == "release" and record.text else []  # whoever reads no more must not miss it
    rest += [f"key {record.key[:12]}"] if record.key else []
    return f"{name.rstrip()}: {', '.join(rest)}\n".encode()


def _parts(record: Record, trees: Mapping[str, Oid]) -> dict[str, Oid]:
    """What lies beside a record: what it names itself, and what is given. Raises UsageError when they differ."""
    parts: dict[str, Oid] = {}
    if record.reads is not None:
        parts["reads"] = record.reads.tree
    if record.writes is not None:
        parts["pre"] = record.writes.pre
        parts |= {"writes": record.writes.tree} if record.writes.tree is not None else {}
    for name, output in (("stdout", record.stdout), ("stderr", record.stderr)):
        parts |= {name: output.oid} if output is not None else {}
    for name, oid in trees.items():
        if name not in (*TREES, *BLOBS):
            raise UsageError(f"a record has no part '{name}'")
        if parts.setdefault(name, oid) != oid:
            raise UsageError(f"the record names {parts[name]} as its '{name}', and {oid} is given")
    return parts


def _listed(local: list[str] | tuple[str, ...], fetched: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    rows = [*local, *(f"{name} (fetched)" for name in fetched)]
    return (f"runs: {', '.join(rows[:20])}{' ...' if len(rows) > 20 else ''}",) if rows else ()


def remembered(repo: Repo) -> str | None:
    """The run that this work tree used last."""
    return origins.line(os.path.join(repo.own_dir, "run"))


def in_use(repo: Repo) -> Iterator[str]:
    """The runs that the work trees of this repository used last."""
    common = repo.layout.common_dir
    linked = os.path.join(common, "worktrees")
    places = [common, *(os.path.join(linked, name) for name in (os.listdir(linked) if os.path.isdir(linked) else ()))]
    for place in places:
        run = origins.line(os.path.join(place, "baton", "run"))
        if run is not None:
            yield run


def remember(repo: Repo, run: str) -> None:
    """Note which run this work tree uses. What cannot be written is not remembered."""
    if remembered(repo) != run:
        origins.put(repo, os.path.join(repo.own_dir, "run"), run)


def chosen(journal: Journal, name: str | None = None) -> str:
    """The run that a command means: the one named, GIT_BATON_RUN, the one that this work tree used last, or the only one.

    Raises UsageError for a name that is none, NotFoundError when there is no run, AmbiguousNameError that lists them.
    """
    local, fetched = journal.names(), journal.fetched()
    given = name or os.environ.get("GIT_BATON_RUN") or None
    if given is not None:
        if check_run(given) not in local and given not in fetched:
            raise NotFoundError(f"there is no run '{given}'", *_listed(local, sorted(set(fetched) - set(local))))
        return given
    last = remembered(journal.repo)
    if last is not None and (last in local or last in fetched):
        return last
    names = local or sorted(fetched)
    if not names:
        raise NotFoundError("there is no run yet", "git baton run --step NAME -- CMD")
    if len(names) > 1:
        raise AmbiguousNameError("which run?", *_listed(local, sorted(set(fetched) - set(local))))
    return names[0]
