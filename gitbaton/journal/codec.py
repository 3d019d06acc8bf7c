"""A record <-> canonical JSON, version 1: what is null, empty, false or none is left out."""

from __future__ import annotations

import re

from gitbaton.codec import Json, canonical, parse, path_document, timestamp
from gitbaton.codec.text import MAX_BYTES, MAX_FIELD, Reader
from gitbaton.errors import RecordError, UsageError
from gitbaton.journal.names import RUN
from gitbaton.journal.values import EFFECTS, TYPES, Cause, Output, Reads, Record, Undeclared, Writes
from gitbaton.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

VERSION = 1
MAX_LISTED = 1000
MAX_NAMES = 10_000
STATES = ("done", "undone", "approved", "rejected", "complete", "stopped")
ISOLATIONS = ("none", "copy", "reflink")
OF_A_PLAN = ("claim", "release", "repair")  # the types that need not name a step
_LIST_BYTES = 128 << 10  # of each list that may be cut, so that no step can push a record over 1 MiB
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_KIND = re.compile(r"[a-z][a-z-]{0,39}\Z")


def fit(record: Record) -> Record:
    """The record with its long lists and texts cut, and how much was cut counted; the same one where nothing is."""
    changes: dict[str, object] = {}
    for name in ("argv", "undeclared", "region"):
        items = getattr(record, name)
        kept = _kept([item.path if name == "undeclared" else item for item in items])
        if kept < len(items):
            changes |= {name: items[:kept], f"{name}_more": getattr(record, f"{name}_more") + len(items) - kept}
    if record.writes is not None:
        writes = _fit_writes(record.writes)
        changes |= {"writes": writes} if writes is not record.writes else {}
    if record.text is not None and len(record.text) > MAX_FIELD // 4:
        cut = record.text.encode("utf-8", "surrogateescape")[:MAX_FIELD].decode("utf-8", "ignore")
        changes |= {"text": cut} if cut != record.text else {}
    return replace(record, **changes) if changes else record


def _fit_writes(writes: Writes) -> Writes:
    deleted, digests, folders = _kept(writes.deleted), _kept(writes.digests), _kept(writes.folders)
    if (deleted, digests, folders) == (len(writes.deleted), len(writes.digests), len(writes.folders)):
        return writes
    return replace(
        writes,
        deleted=writes.deleted[:deleted],
        deleted_more=writes.deleted_more + len(writes.deleted) - deleted,
        digests=writes.digests[:digests],
        digests_more=writes.digests_more + len(writes.digests) - digests,
        folders=writes.folders[:folders],
    )


def _kept(items: list[str] | tuple[str, ...]) -> int:
    """How many of the first texts a record can list."""
    if len(items) < 100 and sum(map(len, items)) < MAX_FIELD // 8:
        return len(items)
    size = 0
    for count, item in enumerate(items[:MAX_LISTED]):
        length = len(canonical(path_document(item)))
        size += length + 64
        if size > _LIST_BYTES or length > MAX_FIELD // 2:
            return count
    return min(len(items), MAX_LISTED)


def encode(record: Record) -> bytes:
    """The canonical bytes of a record. Raises UsageError for one that ``decode`` would not give back."""
    raw = canonical(document(record))
    if len(raw) > MAX_BYTES:
        raise UsageError(f"the record of step '{record.step}' has {len(raw)} bytes; the limit is {MAX_BYTES}")
    try:
        decode(raw)
    except RecordError as error:
        raise UsageError(f"step '{record.step}' cannot be recorded: {error.message}") from None
    return raw


def document(r: Record) -> dict[str, Json]:
    """The JSON object of a record: ``v``, then the fields of Record in their order, those that say nothing left out."""
    result: dict[str, Json] = {
        "v": VERSION,
        "type": r.type,
        "run": r.run,
        "lineage": r.lineage,
        "started": timestamp(r.started),
        "host": path_document(r.host),
        "pid": r.pid,
        "boot": path_document(r.boot),
        "seq": r.seq,
    }
    return result | _pruned(_asked(r) | _came(r))


def _asked(r: Record) -> dict[str, Json]:
    """What a record says of what was to be done, and what the step found and left."""
    return {
        "step": _text(r.step),
        "attempt": r.attempt,
        "key": r.key,
        "idem": r.idem,
        "argv": _texts(r.argv),
        "argv_more": r.argv_more or None,
        "cwd": _text(r.cwd),
        "reads": None if r.reads is None else {"globs": _texts(r.reads.globs), "tree": r.reads.tree, "n": r.reads.n},
        "deps": dict(r.deps),
        "writes": _writes_document(r.writes),
        "env": dict(r.env),
        "extra": _texts(r.extra),
    }


def _came(r: Record) -> dict[str, Json]:
    """What it says of how that went, and the rest."""
    verify = None if r.verify is None else _pruned({"cmd": _text(r.verify), "exit": r.verify_exit})
    c, cause = r.cause, None
    if c is not None:
        cause = _pruned({"kind": c.kind, "path": _text(c.path), "old": c.old, "new": c.new})
    return {
        "stable": r.stable,
        "undeclared": [{"path": path_document(u.path), "before": u.before, "after": u.after} for u in r.undeclared],
        "undeclared_more": r.undeclared_more or None,
        "exit": r.exit,
        "signal": r.signal,
        "timeout": r.timeout or None,
        "duration_ms": r.duration_ms,
        "stdout": _output_document(r.stdout),
        "stderr": _output_document(r.stderr),
        "effect": r.effect,
        "compensate": _text(r.compensate),
        "probe": _text(r.probe),
        "verify": verify,
        "compensates": r.compensates,
        "region": _texts(r.region),
        "region_more": r.region_more or None,
        "cause": cause,
        "state": r.state,
        "text": _text(r.text),
        "plan": _text(r.plan),
        "isolation": r.isolation,
        "nondeterministic": r.nondeterministic or None,
        "redacted": r.redacted or None,
        "cost": None if r.tokens is None else {"tokens": r.tokens},
        "agent": _text(r.agent),
        "worktree": _text(r.worktree),
    }


def _pruned(items: dict[str, Json]) -> dict[str, Json]:
    """Without what is null or an empty list or object; an empty text says something."""
    return {key: item for key, item in items.items() if item is not None and item != [] and item != {}}


def _text(text: str | None) -> Json:
    return None if text is None else path_document(text)


def _texts(texts: tuple[str, ...]) -> Json:
    return [path_document(text) for text in texts]


def _writes_document(w: Writes | None) -> Json:
    if w is None:
        return None
    more = _pruned(
        {
            "tree": w.tree,
            "deleted": _texts(w.deleted),
            "deleted_more": w.deleted_more or None,
            "digests": _texts(w.digests),
            "digests_more": w.digests_more or None,
            "folders": _texts(w.folders),
        }
    )
    return {"globs": _texts(w.globs), "pre": w.pre} | more


def _output_document(output: Output | None) -> Json:
    return None if output is None else {"oid": output.oid, "bytes": output.bytes, "cut": output.cut}


def decode(raw: bytes) -> Record:
    """The record in JSON bytes of version 1 that anybody may have written. Unknown keys are not looked at.

    Raises RecordError for bytes that break the format.
    """
    r = Reader(parse(raw), "record")
    if r.count("v") != VERSION:
        raise RecordError(f"record has format version {r.count('v')}; this gitbaton reads {VERSION}")
    kind, has = r.one_of("type", TYPES), r.value.__contains__
    if not (has("step") or kind in OF_A_PLAN):
        raise r.bad("step")
    record = Record(
        type=kind,
        run=r.matching("run", RUN),
        lineage=r.matching("lineage", RUN),
        started=r.time("started"),
        host=r.path("host"),
        pid=r.count("pid"),
        boot=r.path("boot"),
        seq=r.count("seq"),
        **{name: _FIELDS[name](r, name) for name in r.value if name in _FIELDS},
    )
    verify, cost = r.maybe_object("verify") if has("verify") else None, r.maybe_object("cost") if has("cost") else None
    if verify is not None:
        code = verify.count("exit") if "exit" in verify.value else None
        record = replace(record, verify=verify.path("cmd"), verify_exit=code)
    return record if cost is None else replace(record, tokens=cost.count("tokens"))


def _named(r: Reader, key: str) -> str:
    """A step's name, or any other text that must say something."""
    value = r.path(key)
    if not value.strip():
        raise r.bad(key)
    return value


def _list(r: Reader, key: str, limit: int = MAX_NAMES) -> tuple[str, ...]:
    return tuple(item if type(item) is str and len(item) < 999 else _item(r, key, item) for item in r.items(key, limit))


def _item(r: Reader, key: str, item: Json) -> str:
    return Reader({key: item}, r.where).path(key)


def _pairs(r: Reader, key: str, *, oids: bool) -> tuple[tuple[str, str], ...]:
    inner = _inner(r, key)
    if len(inner.value) > MAX_NAMES:
        raise r.bad(key)
    return tuple((name, inner.oid(name) if oids else inner.text(name)) for name in inner.value)


def _inner(r: Reader, key: str) -> Reader:
    return Reader(r.value[key], f"{r.where}.{key}")


def _reads(r: Reader, key: str) -> Reads:
    i = _inner(r, key)
    return Reads(globs=_list(i, "globs"), tree=i.oid("tree"), n=i.count("n"))


def _writes(r: Reader, key: str) -> Writes:
    i = _inner(r, key)
    return Writes(
        globs=_list(i, "globs"),
        pre=i.oid("pre"),
        tree=i.oid("tree") if "tree" in i.value else None,
        deleted=_list(i, "deleted", MAX_LISTED) if "deleted" in i.value else (),
        digests=_list(i, "digests", MAX_LISTED) if "digests" in i.value else (),
        deleted_more=i.count("deleted_more", 0),
        digests_more=i.count("digests_more", 0),
        folders=_list(i, "folders", MAX_LISTED) if "folders" in i.value else (),
    )


def _undeclared(r: Reader, key: str) -> tuple[Undeclared, ...]:
    rows = [Reader(item, f"{r.where}.{key}") for item in r.items(key, MAX_LISTED)]
    return tuple(Undeclared(path=i.path("path"), before=i.maybe_oid("before"), after=i.maybe_oid("after")) for i in rows)


def _output(r: Reader, key: str) -> Output:
    i = _inner(r, key)
    return Output(oid=i.oid("oid"), bytes=i.count("bytes"), cut=i.flag("cut"))


def _cause(r: Reader, key: str) -> Cause:
    i = _inner(r, key)
    path = i.path("path") if "path" in i.value else None
    old, new = (i.text(name) if name in i.value else None for name in ("old", "new"))
    return Cause(kind=i.matching("kind", _KIND), path=path, old=old, new=new)


_FIELDS: dict[str, Callable[[Reader, str], Any]] = {
    "step": _named,
    "attempt": Reader.count,
    "key": lambda r, k: r.matching(k, _DIGEST),
    "idem": lambda r, k: r.matching(k, _DIGEST),
    "argv": _list,
    "argv_more": Reader.count,
    "cwd": Reader.path,
    "reads": _reads,
    "deps": lambda r, k: _pairs(r, k, oids=True),
    "writes": _writes,
    "env": lambda r, k: _pairs(r, k, oids=False),
    "extra": _list,
    "stable": Reader.flag,
    "undeclared": _undeclared,
    "undeclared_more": Reader.count,
    "exit": Reader.count,
    "signal": Reader.text,
    "timeout": Reader.flag,
    "duration_ms": Reader.count,
    "stdout": _output,
    "stderr": _output,
    "effect": lambda r, k: r.one_of(k, EFFECTS),
    "compensate": Reader.path,
    "probe": Reader.path,
    "compensates": lambda r, k: r.matching(k, _DIGEST),
    "region": _list,
    "region_more": Reader.count,
    "cause": _cause,
    "state": lambda r, k: r.one_of(k, STATES),
    "text": Reader.path,
    "plan": Reader.path,
    "isolation": lambda r, k: r.one_of(k, ISOLATIONS),
    "nondeterministic": Reader.flag,
    "redacted": Reader.flag,
    "agent": Reader.path,
    "worktree": Reader.path,
}
