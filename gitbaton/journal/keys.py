"""The key of a step: a digest of everything that its result is made from; and the idempotency key of its effect."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.journal.values import Record, Step
from gitbaton.model import Oid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.codec import Json

VERSION = 1


def key(document: Mapping[str, Json]) -> str:
    """The SHA-256, in hexadecimal, of a value as canonical compact JSON: keys sorted, no blanks, ASCII."""
    import hashlib
    import json

    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def key_of(step: Step, reads_tree: Oid | None, deps: Mapping[str, Oid], env: Mapping[str, str]) -> str:
    """A step's key. ``reads_tree``: of the files that it reads (None: it names none); ``deps``: the tree of outputs of each
    step that it comes after; ``env``: what Record.env says of each variable."""
    return key(
        _document(step.name, step.argv, step.cwd, reads_tree, deps, env, (step.extra, step.writes), step.verify),
    )


def recompute(record: Record) -> str | None:
    """The key that a record's fields give; None where it does not have them all as they were."""
    if record.step is None or not record.argv or record.cwd is None or record.redacted or record.argv_more:
        return None
    tree, globs = record.reads.tree if record.reads else None, record.writes.globs if record.writes else ()
    deps, env = dict(record.deps), dict(record.env)
    return key(_document(record.step, record.argv, record.cwd, tree, deps, env, (record.extra, globs), record.verify))


def _document(
    step: str,
    argv: tuple[str, ...],
    cwd: str,
    reads: Oid | None,
    deps: Mapping[str, Oid],
    env: Mapping[str, str],
    lists: tuple[tuple[str, ...], tuple[str, ...]],
    verify: str | None,
) -> dict[str, Json]:
    extra, writes = lists
    words: dict[str, Json] = {"v": VERSION, "step": step, "argv": list(argv), "cwd": cwd, "reads": reads}
    return words | {
        "deps": dict(deps),
        "env": dict(env),
        "extra": list(extra),
        "writes": list(writes),
        "verify": verify,
    }


def idem(lineage: str, step: str, key: str, undone: int = 0) -> str:
    """The idempotency key of a step's effect: the same for all attempts, another one as soon as the step's key is. ``undone``:
    how many effects of this key were compensated before; a service that remembers would not do it again under the same."""
    import hashlib

    text = "\0".join((lineage, step, key, *((str(undone),) if undone else ())))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
