"""The key of a step, and the key that makes its effect idempotent: digests of canonical texts. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from gitbaton.journal.values import Record
from gitbaton.model import Oid

VERSION = 1


def step_key(
    *,
    step: str,
    argv: tuple[str, ...],
    cwd: str,
    reads: Oid | None,
    deps: Iterable[tuple[str, Oid]],
    env: Iterable[tuple[str, str]],
    extra: tuple[str, ...],
    writes: tuple[str, ...],
    verify: str | None,
) -> str:
    """The key of a step: 64 hex digits. ``reads``: the tree of the files that it reads, None where it declares none; ``deps``:
    the tree of outputs of each step that it waits for; ``env``: digests (``env_digest``) of the variables that are set;
    ``writes``: the globs. The order of ``deps`` and ``env`` does not matter, that of everything else does."""
    return _digest(
        {
            "v": VERSION,
            "step": step,
            "argv": list(argv),
            "cwd": cwd,
            "reads": reads,
            "deps": dict(deps),
            "env": dict(env),
            "extra": list(extra),
            "writes": list(writes),
            "verify": verify,
        }
    )


def recorded_key(record: Record) -> str | None:
    """The key that a begin or end must have by what stands in it; None where a redactor took words out of it."""
    if record.redacted or record.step is None or record.cwd is None:
        return None
    return step_key(
        step=record.step,
        argv=record.argv,
        cwd=record.cwd,
        reads=record.reads.tree if record.reads else None,
        deps=record.deps,
        env=record.env,
        extra=record.extra,
        writes=record.writes.globs if record.writes else (),
        verify=record.verify,
    )


def idempotency_key(lineage: str, step: str, key: str, undone: int = 0) -> str:
    """What a step's command hands to a service so that its effect happens once: the same for all attempts. ``undone``: how many
    effects of this very key were compensated already; a service that remembers the key would not do it again under the same."""
    parts: list[object] = [lineage, step, key]
    return _digest([*parts, undone] if undone else parts)


def compensation_key(idem: str) -> str:
    """The idempotency key of the compensation of an effect: the same however often it is tried."""
    return _digest(["compensate", idem])


def env_digest(value: bytes) -> str:
    """What is recorded of an environment variable's value."""
    import hashlib

    return "sha256:" + hashlib.sha256(value).hexdigest()


def _digest(item: object) -> str:
    """SHA-256 of canonical JSON: sorted keys, no blanks, ASCII only (so that names that are not UTF-8 have a text, too)."""
    import hashlib
    import json

    return hashlib.sha256(json.dumps(item, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()
