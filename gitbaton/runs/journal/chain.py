"""Chain of a run's records: appended as commits, durably, read back against the format, and found by their keys."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from gitbaton.base.codec import in_quotes, os_error, plain
from gitbaton.base.codec.text import MAX_BYTES
from gitbaton.base.codec.text import subject as first_words
from gitbaton.base.errors import (
    AmbiguousNameError,
    BatonError,
    CollectedError,
    GitError,
    NoAnswerError,
    NotFoundError,
    RecordError,
    UnreadableRunError,
    UsageError,
)
from gitbaton.base.model import Oid
from gitbaton.base.system.files import read_regular
from gitbaton.base.values import TYPE_CHECKING, replace
from gitbaton.checkpoints.store.chain import RETRY_SECONDS, append_to, landed, root_objects
from gitbaton.checkpoints.store.provenance import Ours, of_run
from gitbaton.checkpoints.store.refs import REMOTES, RUNS, by_name
from gitbaton.git import repo as git
from gitbaton.git.loose import few_below, hold, lately
from gitbaton.git.maintenance import PACKS, tidy_packs
from gitbaton.git.objects import (
    MAX_READ,
    NewObject,
    Object,
    Objects,
    RefChange,
    TreeEntry,
    author_at,
    commit_data,
    new_object,
    parse_commit,
    parse_tree,
    tree_data,
    zero,
)
from gitbaton.git.publish import Durable, fsync, kept_reachable, kept_whole, move_refs, publish_reachable
from gitbaton.git.reffiles import lying, there
from gitbaton.git.repo import Repo
from gitbaton.runs.journal.codec import STREAMS, clean, decode, encode, fit, idem
from gitbaton.runs.journal.values import BLOBS, TREES, Logged, Record, check_run, run_of, run_ref

if TYPE_CHECKING:
    from gitbaton.base.secrets import Redactor

LOCK = "lock/runs"
_STALE_SECONDS = 1.0  # whoever writes runs holds our lock, and git's pack-refs takes milliseconds
_PAUSE = 0.01
_COLLECTED = 3  # times that git may collect an object of a record before it is recorded
_SUBJECT_BYTES = 72
_NOTHING = "nothing is recorded"
_LINE = 200  # bytes of a file of one line that are read
RECORD = "record.json"
MAX_RECORDS = 100_000
_STEPS = 64  # records after which the rest of a chain is listed at once
_MODES = {name.encode(): b"40000" for name in TREES} | {name.encode(): b"100644" for name in (*BLOBS, RECORD)}
_END = re.compile(r": end[ ,].*key ([0-9a-f]{12})\Z")


class Journal:
    """The runs of one repository. ``author``: ``Name <email>``; ``redactor``: None leaves words as they are; ``clock``: gives
    the time of a record's commit, in UTC. Safe to use from several threads."""

    def __init__(self, repo: Repo, *, author: bytes, redactor: Redactor | None = None, clock: Callable[[], datetime]) -> None:
        self.repo, self.author, self.redactor, self.clock = repo, author, redactor, clock
        self.root, self.ours = root_objects(repo.layout.algorithm)[-1].oid, Ours(repo)
        self._disk, self._packs = Durable(repo, lasting=True), 0
        self._read: dict[str, tuple[Oid, tuple[Logged, ...]]] = {}
        self._first: dict[str, Oid] = {}  # the first commit of each run that was seen
        self._held: dict[str, set[Oid]] = {}  # trees and blobs that each run is known to hold, with all below them
        self._made: set[str] = set()  # the names that were made here
        self._guard = threading.RLock()
        self._seen: dict[str, Oid] = {}  # the tips of the runs whose ends ``find`` knows
        self._ends: dict[str, set[Oid]] = {}  # their commits, by the first digits of their keys

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
        return by_name(self.repo.objects.refs(REMOTES), "runs/", run_of)

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
        raise UnreadableRunError(run, f"commit {oid} cannot be read" if oid.strip("0") else f"{in_quotes(ref)} holds no id")

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
            last = next((n for n in reversed(range(len(found))) if self.ours.has(of_run(run), found[n].commit)), -1)
            theirs = ((item, number > last) for number, item in enumerate(found))
            found = tuple(item if item.foreign == foreign else replace(item, foreign=foreign) for item, foreign in theirs)
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
        record, contents = clean(replace(record, run=run), dict(blobs or {}), self.redactor)
        algorithm = self.repo.layout.algorithm
        made = {name: new_object(algorithm, "blob", data) for name, data in contents.items()}
        outputs = {name: replace(getattr(record, name), oid=made[name].oid) for name in STREAMS if name in made}
        record = replace(fit(record), **outputs)
        parts = _parts(record, trees or {}) | {name: item.oid for name, item in made.items()}

        def once(_: object) -> Logged:
            more, left = list[NewObject](), _COLLECTED
            while True:
                try:
                    return self._append(run, ref, record, parts, keep, [*made.values()], more)
                except CollectedError:
                    if not left:
                        raise
                    more, left = lately(), left - 1

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
            raise GitError(f"{in_quotes(ref)} was removed while run '{run}' was under way; {_NOTHING}")
        record = _of_lineage(replace(record, seq=len(before)), before[0].record.lineage if before else record.lineage)
        algorithm = self.repo.layout.algorithm
        raw = new_object(algorithm, "blob", encode(record))
        beside = {**parts, RECORD: raw.oid}
        entries = [TreeEntry(mode=_MODES[name.encode()], name=name.encode(), oid=oid) for name, oid in beside.items()]
        tree = new_object(algorithm, "tree", tree_data(entries))
        parents = (tip or self.root, *([keep] if keep is not None else []))
        data = commit_data(tree=tree.oid, parents=parents, author=author_at(self.author, self.clock()), message=subject(record))
        commit = new_object(algorithm, "commit", data)
        first: list[NewObject] = [] if tip else root_objects(algorithm)
        held, how = self._held.setdefault(run, set()), fsync(self.repo)
        named = {*parts.values()} - {item.oid for item in made}
        below = few_below(named, algorithm, held) if keep is None else None

        self.note_ours(run, commit.oid)

        def move() -> None:
            new = [*first, *made, raw, tree, commit]
            # Git looks what the commit reaches, where that cannot be told from what was written lately.
            with (
                kept_whole(self.repo, [*below, *new], how)
                if below is not None
                else kept_reachable(self.repo, [commit.oid], (tip, self.repo.objects.head().oid), how=how, fresh=[*more, *new])
            ):
                move_refs(self.repo, [RefChange(name=ref, new=commit.oid, old=tip)], how=how, disk=self._disk)

        try:
            landed(move, lambda: self.tip(run), commit.oid)
        except BatonError:
            if tip is None:  # else the run would be missed, which was never here
                self.ours.drop(of_run(run), [commit.oid])
            raise
        hold(parts.values(), algorithm, held)
        self._packs += 1
        if self._packs % PACKS == 0:
            tidy_packs(self.repo)
        logged = Logged(record=record, commit=commit.oid, parts=dict(parts))
        if before and before[-1].foreign:
            before = tuple(replace(item, foreign=False) for item in before)
        self._read[run] = (commit.oid, (*before, logged))
        self._first.setdefault(run, commit.oid)
        return logged

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
            if tip is None:  # what stood here once is gone, and this one came from elsewhere
                self.ours.drop(of_run(run))
            publish_reachable(self.repo, [RefChange(name=run_ref(run), new=oid, old=tip)])

    def is_foreign(self, run: str) -> bool:
        """Whether the newest record of a run came from elsewhere; of one that cannot be read, whether none is from here."""
        try:
            return self.records(run)[-1].foreign
        except (UnreadableRunError, RecordError):
            return not self.ours.knows(of_run(run))

    def note_ours(self, run: str, commit: Oid) -> None:
        """Say that a record is ours, and with it all below: a run goes on only where that was allowed. Before its ref moves.
        Raises GitError."""
        try:
            self.ours.add(of_run(run), [commit], sync=fsync(self.repo) != "never")
        except OSError as error:
            raise GitError(f"what this machine does cannot be noted: {os_error(error)}; {_NOTHING}") from None

    def find(self, key: str, *, but: str) -> Logged | None:
        """The newest result with a key that can be served, among the other local runs: of a step without an effect, stable, not
        foreign. A run that cannot be read has none."""
        with self._guard:
            refs = {run: oid for run, oid in self.refs().items() if run != but}
            new = {run: oid for run, oid in refs.items() if self._seen.get(run) != oid}
            try:
                self._list(new, refs)
            except GitError:  # a run that cannot be read hides no other
                for run, oid in new.items():
                    with suppress(GitError):
                        self._list({run: oid}, refs)
            commits, found = self._ends.get(key[:12], set()), list[Logged]()
            for run in refs if commits else ():
                with suppress(BatonError):  # a run that is broken, or was dropped meanwhile, has nothing to serve
                    found += [logged for logged in self.records(run) if logged.commit in commits and _servable(logged, key)]
            return max(found, key=lambda logged: logged.record.started, default=None)

    def _list(self, new: Mapping[str, Oid], refs: Mapping[str, Oid]) -> None:
        """Take in the ends that came since the last question."""
        if not new:
            return
        lines = [*new.values(), *(f"^{oid}" for run, oid in self._seen.items() if refs.get(run) == oid)]
        stdin = "".join(f"{line}\n" for line in lines).encode()
        raw = self.repo.git.out("rev-list", "--first-parent", "--stdin", "--format=%s", stdin=stdin)
        rows = raw.decode("utf-8", "replace").split("\n")[:-1]
        for commit, text in zip(rows[::2], rows[1::2], strict=False):
            if match := _END.search(text):
                self._ends.setdefault(match[1], set()).add(commit.removeprefix("commit "))
        self._seen |= new


def read(objects: Objects, root: Oid, run: str, tip: Oid, known: Sequence[Logged]) -> tuple[Logged, ...]:
    """The records of a chain, oldest first, from its root to its tip; ``known``: those of its beginning that were read
    before, if they still are its beginning. The ref's name wins over the stored run.

    Raises RecordError that names the first commit that is not as we write them.
    """
    places = {logged.commit: number for number, logged in enumerate(known, 1)}
    commits, below = _commits(objects, root, tip, places)
    kept = known[: places[below]] if below in places else ()
    trees = objects.read_many([commit[1] for commit in commits], MAX_READ)
    parts = [_beside(oid, tree, objects) for (oid, _), tree in zip(commits, trees, strict=True)]
    raws = objects.read_many([part[RECORD] for part in parts], MAX_BYTES)
    result = list(kept)
    for (oid, _), names, raw in zip(reversed(commits), reversed(parts), reversed(list(raws)), strict=True):
        result.append(_logged(run, oid, names, raw, len(result)))
    if not result:  # a rewriting of history took them out
        raise RecordError(f"the chain at {tip} holds no record")
    return tuple(result)


def _commits(objects: Objects, root: Oid, tip: Oid, known: Collection[Oid]) -> tuple[list[tuple[Oid, Oid]], Oid]:
    """Each commit with its tree, newest first, down to the root or to one that is known; and that one."""
    found: list[tuple[Oid, Oid]] = []
    ahead: Iterator[Object | None] = iter(())
    at = tip
    while at != root and at not in known:
        if len(found) == MAX_RECORDS:
            raise RecordError(f"the chain at {tip} has more than {MAX_RECORDS} records")
        if len(found) == _STEPS:
            rest = objects.first_parents(at)
            ahead = objects.read_many(rest)
        item = next(ahead if len(found) >= _STEPS else objects.read_many([at]), None)
        if item is None or item.oid != at or item.kind != "commit" or item.data is None:
            raise RecordError(f"commit {at} of a run cannot be read")
        commit = parse_commit(item.data)
        if len(commit.parents) not in (1, 2):  # the second one is a commit that is to stay reachable
            raise RecordError(f"commit {at} has {len(commit.parents)} parents and is not a record of a run")
        found.append((at, commit.tree))
        at = commit.parents[0]
    return found, at


def _beside(oid: Oid, tree: Object | None, objects: Objects) -> dict[str, Oid]:
    """Return the parts beside a record, and the record itself, by name. Raises RecordError."""
    if tree is None or tree.kind != "tree" or tree.data is None:
        raise RecordError(f"the tree of commit {oid} cannot be read")
    parts: dict[str, Oid] = {}
    for entry in parse_tree(tree.data, objects.algorithm):
        name = entry.name.decode("utf-8", "replace")
        if _MODES.get(entry.name) != entry.mode or name in parts:
            raise RecordError(f"commit {oid} holds {in_quotes(plain(name)[:60])}, which no record has")
        parts[name] = entry.oid
    if RECORD not in parts:
        raise RecordError(f"commit {oid} holds no {RECORD}")
    return parts


def _logged(run: str, oid: Oid, names: dict[str, Oid], raw: Object | None, seq: int) -> Logged:
    if raw is None or raw.kind != "blob" or raw.data is None:
        raise RecordError(f"the record of commit {oid} cannot be read, or is over the limit of {MAX_BYTES} bytes")
    try:
        record = decode(raw.data)
    except RecordError as error:
        raise RecordError(f"commit {oid}: {error.message}") from None
    if record.seq != seq:
        raise RecordError(f"commit {oid} has number {record.seq} where {seq} is due")
    if record.run != run:
        record = replace(record, run=run)
    return Logged(record=record, commit=oid, parts={name: part for name, part in names.items() if name != RECORD})


def _servable(logged: Logged, key: str) -> bool:
    """Whether a record is a result with that key that another run may serve."""
    r = logged.record
    return (
        r.type == "end"
        and r.key == key
        and r.effect in (None, "none")
        and r.stable is not False
        and not logged.foreign
        and r.writes is not None
        and r.writes.tree is not None
    )


def _of_lineage(record: Record, lineage: str) -> Record:
    """Return the record with the lineage of a run that another process began meanwhile: then its step is new."""
    if record.lineage == lineage:
        return record
    record = replace(record, lineage=lineage)
    if record.type != "begin" or record.idem is None or record.step is None or record.key is None:
        return record
    return replace(record, idem=idem(lineage, record.step, record.key))


def subject(record: Record) -> bytes:
    """The first line of a record's commit: the step, the type, and the first digits of its key, which ``find`` looks for."""
    name = first_words(record.step or "", _SUBJECT_BYTES) or "run"
    rest: list[str] = [record.type]
    rest += [f"attempt {record.attempt}"] if record.attempt and record.attempt > 1 else []
    rest += [f"exit {record.exit}"] if record.exit is not None else []
    rest += [record.state] if record.state else []
    rest += ["steps are open"] if record.type == "release" and record.text else []  # whoever reads no more must not miss it
    rest += [f"key {record.key[:12]}"] if record.key else []
    return f"{name}: {', '.join(rest)}\n".encode()


def _parts(record: Record, trees: Mapping[str, Oid]) -> dict[str, Oid]:
    """Return the parts of a record: those that it names itself, and those given. Raises UsageError when they differ."""
    parts = record.named
    for name, oid in trees.items():
        if name not in (*TREES, *BLOBS):
            raise UsageError(f"a record has no part {in_quotes(name)}")
        if parts.setdefault(name, oid) != oid:
            raise UsageError(f"the record names {parts[name]} as its {in_quotes(name)}, and {oid} is given")
    return parts


def _listed(local: list[str] | tuple[str, ...], fetched: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    rows = [*local, *(f"{name} (fetched)" for name in fetched)]
    return (f"the runs are {', '.join(rows[:20])}{' ...' if len(rows) > 20 else ''}",) if rows else ()


def remembered(repo: Repo) -> str | None:
    """The run that this work tree used last."""
    return _line(os.path.join(repo.own_dir, "run"))


def in_use(repo: Repo) -> Iterator[str]:
    """The runs that the work trees of this repository used last."""
    common = repo.layout.common_dir
    linked = os.path.join(common, "worktrees")
    places = [common, *(os.path.join(linked, name) for name in (os.listdir(linked) if os.path.isdir(linked) else ()))]
    for place in places:
        run = _line(os.path.join(place, "baton", "run"))
        if run is not None:
            yield run


def remember(repo: Repo, run: str) -> None:
    """Note which run this work tree uses. What cannot be written is not remembered."""
    if remembered(repo) != run:
        with suppress(OSError, UnicodeEncodeError):
            git.put(repo, os.path.join(repo.own_dir, "run"), f"{run}\n".encode("ascii"), fresh=f".{os.getpid()}.new")


def chosen(journal: Journal, name: str | None = None) -> str:
    """The run that a command means: the one named, GIT_BATON_RUN, the one that this work tree used last, or the only one.

    Raises UsageError for a name that is none, NotFoundError when there is no run, AmbiguousNameError that lists them.
    """
    local, fetched = journal.names(), journal.fetched()
    given = name or os.environ.get("GIT_BATON_RUN") or None
    if given is not None:
        if check_run(given) not in local and given not in fetched:
            raise NotFoundError(f"there is no run {in_quotes(given)}", *_listed(local, sorted(set(fetched) - set(local))))
        return given
    last = remembered(journal.repo)
    if last is not None and (last in local or last in fetched):
        return last
    names = local or sorted(fetched)
    if not names:
        begins = ["git baton run --step NAME -- CMD"] if journal.repo.layout.root is not None else []
        raise NotFoundError("there is no run yet", *begins)
    if len(names) > 1:
        raise AmbiguousNameError(
            "there are several runs, and this work tree has used none of them",
            *_listed(local, sorted(set(fetched) - set(local))),
        )
    return names[0]


def _line(path: str) -> str | None:
    """The one line of a file; None where there is none."""
    try:
        return read_regular(path, _LINE).decode("ascii", "replace").strip() or None
    except OSError:
        return None
