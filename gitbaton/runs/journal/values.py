"""Values of a run: its name and ref, a step as it is asked for, a plan, and the records of the journal. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from gitbaton.base.codec import decode_track, encode_track, in_quotes, plain
from gitbaton.base.errors import UsageError
from gitbaton.base.model import Oid
from gitbaton.base.values import TYPE_CHECKING, value
from gitbaton.checkpoints.store.refs import RUNS

if TYPE_CHECKING:
    from typing import Literal

    Effect = Literal["none", "idempotent", "once"]
    Isolate = Literal["auto", "tree", "none"]
    OnUndeclared = Literal["report", "restore", "fail"]
    Keep = Literal["all", "none"]
    Type = Literal[
        "begin",
        "end",
        "fail",
        "abort",
        "comp-begin",
        "comp-end",
        "comp-fail",
        "gate",
        "approve",
        "settle",
        "repair",
        "claim",
        "release",
    ]

EFFECTS: tuple[Effect, ...] = ("none", "idempotent", "once")
ISOLATES: tuple[Isolate, ...] = ("auto", "tree", "none")
ON_UNDECLARED: tuple[OnUndeclared, ...] = ("report", "restore", "fail")
KEEPS: tuple[Keep, ...] = ("all", "none")
TYPES: tuple[Type, ...] = (
    *("begin", "end", "fail", "abort"),
    *("comp-begin", "comp-end", "comp-fail"),
    *("gate", "approve", "settle", "repair", "claim", "release"),
)
# the subtrees that a record's commit may have
TREES = ("reads", "pre", "writes", "orphan", "undeclared", "undeclared-after")
PLAN = "plan.toml"  # the text of a plan
MAX_PLAN = 1 << 20  # bytes of a plan file
BLOBS = ("stdout", "stderr", PLAN)  # and its blobs, beside record.json


@value
class Backoff:
    """Wait before another attempt, in seconds: ``first``, then ``factor`` times as long, at most ``most``."""

    first: float = 1.0
    factor: float = 2.0
    most: float = 60.0
    jitter: bool = False


@value
class Step:
    """A step as it is asked for. ``argv``: a shell line is ``("sh", "-c", LINE)``. ``cwd``, ``reads`` and ``writes`` (see
    ``git.worktree.globs``) are relative to the top of the work tree. ``env``: names of variables; ``extra``: texts of --key.
    ``retry_on``: exit statuses as decimal text, or ``timeout``; empty means any failure. Seconds are floats. ``store`` none:
    outputs are recorded by digest only. ``checkpoint``: a track."""

    name: str
    argv: tuple[str, ...]
    cwd: str = "."
    after: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    effect: Effect = "none"
    compensate: str | None = None
    probe: str | None = None
    verify: str | None = None
    retries: int = 0
    backoff: Backoff = Backoff()
    retry_on: tuple[str, ...] = ()
    timeout: float | None = None
    grace: float = 10.0
    catch: str | None = None
    isolate: Isolate = "auto"
    on_undeclared: OnUndeclared = "report"
    gate: str | None = None
    cache: bool = True
    allow_empty: bool = False
    store: Keep = "all"
    checkpoint: str | None = None

    @property
    def cacheable(self) -> bool:
        """Whether a result can be served again: something says what it was made from."""
        return self.cache and bool(self.reads or self.extra)


@value
class Plan:
    """Steps in an order in which each comes after those it waits for. ``text`` and ``path``: of the file it was read from (None
    for a step of the command line). ``max_runs`` and ``max_wall`` (seconds) guard against loops."""

    steps: tuple[Step, ...]
    text: bytes | None = None
    path: str | None = None
    max_runs: int = 50
    max_wall: float = 7200.0

    def step(self, name: str) -> Step | None:
        """The step of that name."""
        return next((s for s in self.steps if s.name == name), None)


@value
class Reads:
    """Inputs of a step: the globs, the tree of the files that they matched, and how many."""

    globs: tuple[str, ...]
    tree: Oid
    n: int


@value
class Writes:
    """Write set of a step: the globs, the tree of what they matched before, the same afterwards (None: not known yet), what
    it deleted, which files are recorded by digest only, and, of a begin, which folders were empty. ``*_more``: how many
    more there were than a record can list. ``modes``: the permissions of files, and folders (with a slash), of ``tree``,
    else of ``pre``, that are narrower than git gives; with an empty path those of what is not listed."""

    globs: tuple[str, ...]
    pre: Oid
    tree: Oid | None = None
    deleted: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    deleted_more: int = 0
    digests_more: int = 0
    folders: tuple[str, ...] = ()
    modes: tuple[tuple[str, int], ...] = ()


@value
class Undeclared:
    """A path outside the write set that changed while a step ran; None where there was, or is, nothing."""

    path: str
    before: Oid | None
    after: Oid | None


@value
class Output:
    """Output stream as it is kept, redacted: the blob, how many bytes there were, whether only their tail was kept."""

    oid: Oid
    bytes: int
    cut: bool


@value
class Cause:
    """Why something is done again. ``kind``: ``input``, ``dep``, ``argv``, ``cwd``, ``env``, ``key``, ``writes``, ``verify``,
    ``output``, ``unstable``, ``failed``, ``named``, ``path``, ``since``, ``never-run``, ``not-cacheable``, ``compensated``,
    ``crashed``, ``widened``; ``lost`` where records of its run may be. ``path`` names the file, step or variable; ``old`` and
    ``new`` what it was and is (object ids or digests)."""

    kind: str
    path: str | None = None
    old: str | None = None
    new: str | None = None


@value
class Record:
    """One record of a journal; which fields are set depends on ``type`` (checkpoint_protocol.md). ``seq`` is given when it is
    appended. ``state`` says what a settle, approve or release came to: ``done``, ``undone``, ``approved``, ``rejected``,
    ``complete``, ``stopped``. ``isolation``: ``none``, ``copy``, ``reflink``. ``redacted``: a secret was taken out of its
    words, so that the key cannot be made again from the record. ``*_more``: how many more there were than a record can
    list."""

    type: Type
    run: str
    lineage: str
    started: datetime
    host: str
    pid: int
    boot: str
    seq: int = -1
    step: str | None = None
    attempt: int | None = None
    key: str | None = None
    idem: str | None = None
    argv: tuple[str, ...] = ()
    cwd: str | None = None
    reads: Reads | None = None
    deps: tuple[tuple[str, Oid], ...] = ()
    writes: Writes | None = None
    env: tuple[tuple[str, str], ...] = ()
    extra: tuple[str, ...] = ()
    stable: bool | None = None
    undeclared: tuple[Undeclared, ...] = ()
    undeclared_more: int = 0
    exit: int | None = None
    signal: str | None = None
    timeout: bool = False
    duration_ms: int | None = None
    stdout: Output | None = None
    stderr: Output | None = None
    effect: Effect | None = None
    compensate: str | None = None
    probe: str | None = None
    verify: str | None = None
    verify_exit: int | None = None
    compensates: str | None = None
    region: tuple[str, ...] = ()
    cause: Cause | None = None
    state: str | None = None
    text: str | None = None
    plan: str | None = None
    isolation: str | None = None
    nondeterministic: bool = False
    redacted: bool = False
    argv_more: int = 0
    region_more: int = 0
    tokens: int | None = None
    agent: str | None = None
    worktree: str | None = None

    @property
    def at(self) -> datetime:
        """The time of what it records: the end of an attempt is ``started`` when that began."""
        ends = self.type in ("end", "fail", "abort")
        return self.started + timedelta(milliseconds=(self.duration_ms or 0) if ends else 0)

    @property
    def named(self) -> dict[str, Oid]:
        """The blobs and trees that the record names."""
        pre, tree = (self.writes.pre, self.writes.tree) if self.writes else (None, None)
        found = {"reads": self.reads.tree if self.reads else None, "pre": pre, "writes": tree}
        found |= {name: output.oid for name, output in (("stdout", self.stdout), ("stderr", self.stderr)) if output}
        return {name: oid for name, oid in found.items() if oid is not None}


@value
class Logged:
    """A record in its place: the commit that holds it, the subtrees and blobs beside it by name, and whether it was fetched
    and nothing local follows it yet."""

    record: Record
    commit: Oid
    parts: Mapping[str, Oid]
    foreign: bool = False


RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_DOTS = 40  # each is three bytes in a ref


def check_run(name: str) -> str:
    """A run's name. Raises UsageError for one that is not letters, digits, ``.``, ``_`` and ``-``, or too long."""
    if not _fits(name):
        shown = plain(name)[:60]
        raise UsageError(
            f"{in_quotes(shown)} is not a run's name: up to 100 letters, digits, '.', '_', '-', a letter or digit first"
        )
    return name


def run_ref(run: str) -> str:
    """The ref of a run's chain."""
    return RUNS + encode_track(check_run(run))


def run_of(encoded: str) -> str | None:
    """The run that the last part of a ref names; None when it is not exactly what we write."""
    name = decode_track(encoded)
    return name if name is not None and _fits(name) else None


def _fits(name: str) -> bool:
    return RUN.match(name) is not None and name.count(".") <= _DOTS
