"""What is written down of a step: when it begins, and again as a result where one is taken over."""

from __future__ import annotations

from gitbaton.journal.values import Cause, Logged, Output, Record, Step, Writes
from gitbaton.running.context import Context
from gitbaton.running.decide import Present
from gitbaton.running.planfile import written
from gitbaton.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.system.children import Ended


def beginning(
    ctx: Context,
    step: Step,
    now: Present,
    *,
    idem: str,
    attempt: int,
    writes: Writes,
    isolation: str,
    cause: Cause | None,
) -> Record:
    """The begin of an attempt."""
    return ctx.record(
        "begin",
        step.name,
        attempt=attempt,
        key=now.key,
        idem=idem,
        argv=step.argv,
        cwd=step.cwd,
        reads=now.reads,
        deps=now.deps,
        writes=writes,
        env=now.env,
        extra=step.extra,
        effect=step.effect,
        compensate=step.compensate,
        probe=step.probe,
        verify=step.verify,
        isolation=isolation,
        cause=cause,
    )


def definition(ctx: Context, step: Step) -> dict[str, bytes]:
    """The blob beside the begin of a step of the command line that says all of it; none where a secret stands in it."""
    text = written(step) if step.name in ctx.defined else None
    redactor = ctx.journal.redactor
    clean = text is None or redactor is None or redactor.mode == "off" or redactor.text(said := text.decode()) == said
    return {"plan.toml": text} if text is not None and clean else {}


def ending(record: Record, ended: Ended) -> Record:
    """The record of an attempt's begin, with how its command ended; its type is still that of the begin."""
    return replace(
        record,
        seq=-1,
        exit=ended.exit,
        signal=ended.signal,
        timeout=ended.timeout,
        duration_ms=ended.duration_ms,
        stdout=Output(oid="", bytes=ended.out_bytes, cut=ended.out_bytes > len(ended.out)),
        stderr=Output(oid="", bytes=ended.err_bytes, cut=ended.err_bytes > len(ended.err)),
    )


def again(ctx: Context, record: Record, **changes: object) -> Record:
    """An earlier record of a step as this process writes it now."""
    now = ctx.record(record.type, record.step)
    mine = {name: getattr(now, name) for name in ("run", "lineage", "started", "host", "pid", "boot", "worktree", "seq")}
    return replace(record, **{**mine, **changes})


def taken_over(ctx: Context, logged: Logged, begin: Record, text: str, *, nondeterministic: bool = False) -> Logged:
    """Write an existing result down as the newest one: a begin and an end with its outputs. ``begin``: with the inputs
    of now."""
    result = logged.record
    begin = ctx.append(begin).record
    kept = {name: oid for name, oid in logged.parts.items() if name in ("stdout", "stderr")}
    tree = result.writes.tree if result.writes else None
    writes = begin.writes
    if writes is not None:
        digests = {*writes.digests, *(result.writes.digests if result.writes else ())}
        writes = replace(writes, tree=tree, digests=tuple(sorted(digests)))
    end = replace(
        begin,
        type="end",
        writes=writes,
        exit=0,
        duration_ms=0,
        stable=True,
        cause=None,
        stdout=result.stdout if "stdout" in kept else None,
        stderr=result.stderr if "stderr" in kept else None,
        text=text,
        nondeterministic=nondeterministic,
    )
    return ctx.append(end, trees=kept)
