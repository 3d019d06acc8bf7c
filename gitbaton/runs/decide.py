"""Decision on a step: served, asked about, waited for at its gate, or run, and why. It looks, and changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping

from gitbaton.base.model import Oid
from gitbaton.base.values import TYPE_CHECKING, cast, value
from gitbaton.git.objects import new_object
from gitbaton.git.repo import secret_key
from gitbaton.git.worktree import globs
from gitbaton.git.worktree.filetrees import FileEntry, same
from gitbaton.runs.context import Context
from gitbaton.runs.journal.codec import key_of
from gitbaton.runs.journal.state import EffectState, StepState
from gitbaton.runs.journal.values import Cause, Logged, Reads, Record, Step
from gitbaton.runs.plans import exit_of

_KEYED = "hmac-sha256:"
if TYPE_CHECKING:
    from typing import Literal

    What = Literal["hit", "probe", "trust", "gate", "rejected", "run"]


@value
class Present:
    """A step's key now, and what it was made from: ``files`` are those it reads, by path; ``missing`` the steps it waits for
    that have no result; ``unmatched`` the globs that it reads and that match nothing. ``older``: the key with digests that an
    older version made of the variables, where that is another."""

    key: str
    reads: Reads | None
    deps: tuple[tuple[str, Oid], ...]
    env: tuple[tuple[str, str], ...]
    files: Mapping[str, FileEntry]
    missing: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    older: str | None = None


@value
class Verdict:
    """Decision on a step. ``hit``: ``logged`` is served. ``probe``: the outcome of ``effect`` is unknown and must be
    settled first. ``trust``: ``effect`` happened for these very inputs, but there is no result: what lies there counts if
    it holds. ``gate``, ``rejected``: it must not run. ``run``: the effects ``undo`` are compensated, then it runs, for
    ``cause``."""

    what: What
    logged: Logged | None = None
    effect: EffectState | None = None
    undo: tuple[EffectState, ...] = ()
    cause: Cause | None = None


def present(
    ctx: Context,
    step: Step,
    *,
    state: Callable[[str], StepState] | None = None,
    changed: Mapping[str, FileEntry | None] | None = None,
) -> Present:
    """A step's key now: the files that it reads are looked at, those that changed are read. ``state`` and ``changed``: as if
    the journal said this of the steps, and these paths had become so. Raises GitError."""
    found = ctx.files.scan(step.reads, follow=True) if step.reads else None
    files, unmatched = (found.entries, found.unmatched) if found is not None else ({}, ())
    matches = globs.matcher(step.reads) if changed else None
    other = {path: entry for path, entry in (changed or {}).items() if matches is not None and matches(path)}
    if other:
        files = {path: entry for path, entry in sorted({**files, **other}.items()) if entry is not None}
    tree = (ctx.tree_of(files) if other else found.tree) if found is not None else None
    if tree is not None:
        ctx.know(tree, files)
    reads = Reads(globs=step.reads, tree=tree, n=len(files)) if tree is not None else None
    ends = {name: (state or ctx.step_state)(name).end for name in step.after}
    empty = new_object(ctx.objects.algorithm, "tree", b"").oid  # it stands for the outputs of a step that has none
    deps = tuple((n, (end.record.writes.tree if end.record.writes else None) or empty) for n, end in ends.items() if end)
    missing = tuple(name for name, end in ends.items() if end is None)
    given = {name: os.fsencode(os.environ[name]) for name in sorted(set(step.env)) if name in os.environ}
    env, older = tuple[tuple[str, str], ...](), None
    if given:
        known = {pair for logged in (state or ctx.step_state)(step.name).records for pair in logged.record.env}
        env, bare = _digests(given, secret_key(ctx.repo, make=state is None), known)
        older = key_of(step, tree, dict(deps), bare) if bare != dict(env) else None
    key = key_of(step, tree, dict(deps), dict(env))
    return Present(key=key, reads=reads, deps=deps, env=env, files=files, missing=missing, unmatched=unmatched, older=older)


def _digests(
    given: Mapping[str, bytes], key: bytes, known: Collection[tuple[str, str]]
) -> tuple[tuple[tuple[str, str], ...], dict[str, str]]:
    """Return what is recorded of each variable that is set, in the order of their names, and what an older version
    recorded.

    Values are never stored. A keyed digest is recorded, behind a mark of the key: of a bare one a short value is found by
    trying. Where the step's own records have the bare one of this very value, it stays, so that nothing looks changed.
    """
    import hashlib
    import hmac

    bare = {name: f"sha256:{hashlib.sha256(value).hexdigest()}" for name, value in given.items()}
    mark = hmac.digest(key, b"", "sha256").hex()[:8]
    keyed = {n: f"{_KEYED}{mark}:{hmac.digest(key, os.fsencode(n) + bytes(1) + v, 'sha256').hex()}" for n, v in given.items()}
    return tuple((name, bare[name] if (name, bare[name]) in known else keyed[name]) for name in given), bare


def _incomparable(was: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether two records of variables differ only in digests that were made with different keys: these cannot be compared."""
    apart = [(text, now.get(name, "")) for name, text in was.items() if text != now.get(name)]
    keyed = all(old.startswith(_KEYED) and new.startswith(_KEYED) for old, new in apart)
    return was.keys() == now.keys() and bool(apart) and keyed and all(_mark(old) != _mark(new) for old, new in apart)


def _mark(text: str) -> str:
    return text.removeprefix(_KEYED).partition(":")[0]


def hit(step: Step, state: StepState, key: str) -> Logged | None:
    """Return the newest result that stands for this key in this run: not one whose inputs moved meanwhile, whose effect was
    undone, or after which the same key failed."""
    failed = state.failed.record if state.failed else None
    for logged in reversed(state.ends):
        record = logged.record
        if record.key != key or record.stable is False:
            continue
        if failed is not None and failed.key == key and failed.seq > record.seq:
            return None
        if (record.effect or "none") == "none":
            # What it did then nobody declared, but it did it: as long as it was not declared later and undone, it stands.
            later = any(e.key == key and e.logged.record.seq > record.seq for e in state.effects)
            if (step.cacheable or step.effect == "once") and not (later and step.effect != "none"):
                return logged
        elif _stands(state, record) and (step.cacheable or record.effect == "once"):
            return logged  # a `once` that happened is not done again, whatever its inputs are declared to be
    return None


def _stands(state: StepState, record: Record) -> bool:
    newest = next((e for e in reversed(state.effects) if e.idem == record.idem), None)
    return newest is not None and newest.state == "live"


# What is to be done: the first row that holds. unknown: an effect is, and must be asked for; result: one can be served; forced:
# by which cause (again: all but output); once: an effect that may happen only once stands for these inputs (final: nothing
# undoes it); gate.
_DECISIONS = """
    unknown  result  forced  once      gate      what
    yes      -       -       -         -         probe
    -        yes     no      -         -         hit
    -        -       no      undoable  -         trust
    -        no      -       final     -         trust
    -        -       output  final     -         trust
    -        -       -       final     -         hit
    -        -       -       -         rejected  rejected
    -        -       -       -         gate      gate
    -        -       -       -         -         run
"""
DECISIONS = tuple(tuple(row.split()) for row in _DECISIONS.strip().split("\n")[1:])


def decide(step: Step, state: StepState, present: Present, force: Cause | None = None) -> Verdict:
    """Decide by the table what is to be done with a step of which the journal says ``state``. ``force``: run it even where
    its key says that nothing changed; where the cause is ``named`` its effect is undone first."""
    effects, key, named = state.effects, present.key, force is not None and force.kind == "named"
    unsure = (e for e in reversed(effects) if e.key != key or e.logged.record.effect != "idempotent")  # else it is repeated
    unknown = next((e for e in unsure if e.state == "unknown"), None)
    found = hit(step, state, key)
    once = [e for e in effects if e.key == key and e.state == "live" and e.logged.record.effect == "once"]
    forced = "no" if force is None else "output" if force.kind == "output" else "again"
    undoable = step.compensate or any(e.logged.record.compensate for e in once)
    standing = "no" if not once else "undoable" if undoable else "final"
    facts = ("yes" if unknown else "no", "yes" if found else "no", forced, standing, _gate(step, state, key))
    row = next(row for row in DECISIONS if all(want in ("-", fact) for want, fact in zip(row, facts, strict=False)))
    what = cast("What", row[-1])
    if what == "run":
        undo = [e for e in effects if e.state == "undoing" or (e.state == "live" and (named or e.key != key or e in once))]
        undo = [e for e in undo if e is effects[-1] or step.compensate or e.logged.record.compensate]
        return Verdict(what=what, undo=tuple(undo), cause=force or why(step, state, present))
    effect = unknown if what == "probe" else once[-1] if what == "trust" or (what == "hit" and force) else None
    return Verdict(what=what, logged=found if what == "hit" else None, effect=effect)


def may_be_lost(ctx: Context, step: Step, state: StepState, now: Present) -> bool:
    """Whether a step that may happen only once may have happened for these inputs though no record says so: an attempt may be
    among the records that its run has lost, as it has not begun since a mend said that some may be; or it happened in another
    repository, with variables that only that one can compare with those of now."""
    if step.effect != "once":
        return False
    lost = ctx.state().lost
    if lost is not None and not any(e.logged.record.seq > lost.record.seq for e in state.effects):
        return True
    if not now.env or any(effect.key == now.key for effect in state.effects):
        return False
    tree, deps = now.reads.tree if now.reads else None, dict(now.deps)
    records = [(e.key, dict(e.logged.record.env)) for e in state.effects if e.state == "live"]
    return any(_incomparable(env, dict(now.env)) and key_of(step, tree, deps, env) == key for key, env in records)


def borrowed(ctx: Context, now: Present) -> Logged | None:
    """The newest result of another run of this repository for these inputs."""
    found = ctx.journal.find(now.key, but=ctx.run)
    return found if found is not None or now.older is None else ctx.journal.find(now.older, but=ctx.run)


def may_borrow(step: Step, verdict: Verdict) -> bool:
    """Whether a step that is to run, without being forced to, might as well be served from another run of this repository."""
    failed = verdict.cause is not None and verdict.cause.kind in ("failed", "unstable")
    return verdict.what == "run" and not failed and not verdict.undo and step.effect == "none" and step.cacheable


def _gate(step: Step, state: StepState, key: str) -> str:
    """Return ``rejected``, ``gate`` where it waits to be approved, or ``open``."""
    if state.gate == "rejected" and state.gate_key == key:
        return "rejected"
    return "open" if step.gate is None or (state.gate == "approved" and state.gate_key == key) else "gate"


def why(
    step: Step, state: StepState, present: Present, tree: Callable[[Oid], Mapping[str, FileEntry]] | None = None
) -> Cause | None:
    """Why a step would run now; None where it would be served. ``tree`` gives the files of a stored tree; without it, which
    file changed is not said."""
    if not (state.ends or state.failed or state.begun):
        return Cause(kind="never-run")
    if state.begun is not None:
        return Cause(kind="crashed")
    if hit(step, state, present.key) is not None:
        return None
    if state.failed is not None and state.failed.record.key == present.key:
        return Cause(kind="failed", old=str(exit_of(state.failed.record)))
    last = state.end or (state.ends[-1] if state.ends else None) or state.failed
    if last is None:
        return Cause(kind="failed")
    difference = next(key_differences(step, last.record, present, tree), None)
    if difference is not None:
        return difference
    if last.record.stable is False:  # and else it is not served although its key is that of now
        return Cause(kind="unstable")
    if not step.cacheable:
        return Cause(kind="not-cacheable")
    return Cause(kind="compensated" if (last.record.effect or "none") != "none" else "key")


def key_differences(
    step: Step, record: Record, now: Present, tree: Callable[[Oid], Mapping[str, FileEntry]] | None
) -> Iterator[Cause]:
    """Everything of a key in which a record differs from now, the most telling first; ``tree`` as for ``why``."""
    words = (("argv", record.argv, step.argv), ("cwd", (record.cwd or "",), (step.cwd,)))
    apart = (row for row in words if row[1] != row[2] and not (row[0] == "argv" and record.redacted))
    yield from (Cause(kind=kind, old=" ".join(old), new=" ".join(new)) for kind, old, new in apart)
    yield from _inputs(record.reads.tree if record.reads else None, now, tree)
    for kind, was, is_ in (("dep", dict(record.deps), dict(now.deps)), ("env", dict(record.env), dict(now.env))):
        for name in sorted(was.keys() | is_.keys()):
            if was.get(name) != is_.get(name):
                yield Cause(kind=kind, path=name, old=was.get(name), new=is_.get(name))
    if record.extra != step.extra and not record.redacted:
        yield Cause(kind="key", old=" ".join(record.extra), new=" ".join(step.extra))
    written = record.writes.globs if record.writes is not None else ()
    if written != step.writes:
        yield Cause(kind="writes", old=" ".join(written), new=" ".join(step.writes))
    if record.verify != step.verify and not record.redacted:
        yield Cause(kind="verify", old=record.verify, new=step.verify)


def _inputs(old: Oid | None, now: Present, tree: Callable[[Oid], Mapping[str, FileEntry]] | None) -> Iterator[Cause]:
    """The paths in which two sets of inputs differ, each with its old and new object; their trees where it is not known."""
    new = now.reads.tree if now.reads else None
    if old == new:
        return
    before = {} if old is None else tree(old) if tree is not None else None
    paths = [] if before is None else [p for p in before.keys() | now.files.keys() if not same(before.get(p), now.files.get(p))]
    for path in sorted(paths):
        was, is_ = (before or {}).get(path), now.files.get(path)
        yield Cause(kind="input", path=path, old=_shown(was, is_), new=_shown(is_, was))
    if not paths:
        yield Cause(kind="input", old=old, new=new)


def _shown(entry: FileEntry | None, other: FileEntry | None) -> str | None:
    """A file's blob; with its mode before it where only that differs."""
    if entry is None:
        return None
    return f"{entry.mode} {entry.oid}" if other is not None and other.oid == entry.oid else entry.oid
