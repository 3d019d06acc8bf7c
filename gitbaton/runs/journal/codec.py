"""Codec of a record: canonical JSON, version 1, the keys that its fields give, and what of it may be stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gitbaton.base.codec import Json, canonical, in_quotes, parse, path_document, timestamp
from gitbaton.base.codec.text import MAX_BYTES, MAX_FIELD, Reader
from gitbaton.base.errors import RecordError, UsageError
from gitbaton.base.model import Oid
from gitbaton.base.values import TYPE_CHECKING, replace
from gitbaton.runs.journal.values import BLOBS, EFFECTS, RUN, TYPES, Cause, Output, Reads, Record, Step, Undeclared, Writes

if TYPE_CHECKING:
    from typing import Any

    from gitbaton.base.secrets import Redactor


VERSION = 1
MAX_LISTED = 1000
MAX_NAMES = 10_000
STATES = ("done", "undone", "approved", "rejected", "complete", "stopped")
ISOLATIONS = ("none", "copy", "reflink")
OF_A_PLAN = ("claim", "release", "repair")  # the types that need not name a step
_LIST_BYTES = 128 << 10  # of each list that may be cut, so that no step can push a record over 1 MiB
MAX_OUTPUT = 1 << 20  # bytes of a stream that are kept
STREAMS = ("stdout", "stderr")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_MODE = re.compile(r"[02][0-7]{3}\Z")
_KIND = re.compile(r"[a-z][a-z-]{0,39}\Z")


def fit(record: Record) -> Record:
    """The record with its long lists and texts cut, and how much was cut counted; the same one where nothing is."""
    changes = _cut(record, "argv", "undeclared", "region")
    if record.writes is not None and (
        fewer := _cut(record.writes, "deleted", "digests", "folders") | _fewer_modes(record.writes)
    ):
        changes["writes"] = replace(record.writes, **fewer)
    if record.text is not None and len(record.text) > MAX_FIELD // 4:
        cut = record.text.encode("utf-8", "surrogateescape")[:MAX_FIELD].decode("utf-8", "ignore")
        changes |= {"text": cut} if cut != record.text else {}
    return replace(record, **changes) if changes else record


def _cut(of: Record | Writes, *names: str) -> dict[str, object]:
    """Return the lists that are too long, cut, and how many more there were."""
    changes: dict[str, object] = {}
    for name in names:
        items = getattr(of, name)
        kept = _kept([item.path if isinstance(item, Undeclared) else item for item in items])
        if kept < len(items):
            changes[name] = items[:kept]
            if name != "folders":
                changes[f"{name}_more"] = getattr(of, f"{name}_more") + len(items) - kept
    return changes


def _fewer_modes(writes: Writes) -> dict[str, object]:
    """Return the permissions that a record can list, if not all: the others get what those left out have in common."""
    kept = _kept([path for path, _ in writes.modes])
    if kept == len(writes.modes):
        return {}
    rest = 0o777
    for _, mode in (*(row for row in writes.modes if not row[0]), *writes.modes[kept:]):
        rest &= mode
    return {"modes": (("", rest), *(row for row in writes.modes[:kept] if row[0]))}


def _kept(items: list[str]) -> int:
    """Return how many of the first texts a record can list."""
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
        raise UsageError(f"the record of step {in_quotes(record.step or '')} has {len(raw)} bytes; the limit is {MAX_BYTES}")
    try:
        decode(raw)
    except RecordError as error:
        raise UsageError(f"step {in_quotes(record.step or '')} cannot be recorded: {error.message}") from None
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
    for name, (write, _) in _FIELDS.items():
        item = getattr(r, "tokens" if name == "cost" else name)
        result |= _pruned({name: write(item) if item is not None else None})
    if r.verify is not None and r.verify_exit is not None:
        result["verify"] = {"cmd": path_document(r.verify), "exit": r.verify_exit}
    return result


def _pruned(items: dict[str, Json]) -> dict[str, Json]:
    """Without what is null or an empty list or object; an empty text says something."""
    return {key: item for key, item in items.items() if item is not None and item != [] and item != {}}


def _texts(texts: tuple[str, ...]) -> Json:
    return [path_document(text) for text in texts]


def _writes_document(w: Writes) -> Json:
    modes = sorted({mode for _, mode in w.modes})
    more = _pruned(
        {
            "tree": w.tree,
            "deleted": _texts(w.deleted),
            "deleted_more": w.deleted_more or None,
            "digests": _texts(w.digests),
            "digests_more": w.digests_more or None,
            "folders": _texts(w.folders),
            "modes": {f"{mode:04o}": _texts(tuple(p for p, m in w.modes if m == mode)) for mode in modes},
        }
    )
    return {"globs": _texts(w.globs), "pre": w.pre} | more


def _modes(r: Reader, key: str) -> tuple[tuple[str, int], ...]:
    i = _inner(r, key)
    if not all(map(_MODE.match, i.value)):
        raise r.bad(key)
    return tuple(sorted((path, int(mode, 8)) for mode in i.value for path in _list(i, mode, MAX_LISTED + 1)))


def _cause_document(c: Cause) -> Json:
    path = path_document(c.path) if c.path is not None else None
    return _pruned({"kind": c.kind, "path": path, "old": c.old, "new": c.new})


def decode(raw: bytes) -> Record:
    """Return the record in untrusted JSON bytes of version 1. Unknown keys are ignored.

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
        **{name: _FIELDS[name][1](r, name) for name in r.value if name in _FIELDS and name not in ("verify", "cost")},
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
    return tuple(
        item if type(item) is str and len(item) < 999 else Reader({key: item}, r.where).path(key)
        for item in r.items(key, limit)
    )


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
        modes=_modes(i, "modes") if "modes" in i.value else (),
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


def _as_it_is(item: Json) -> Json:
    return item


def _if_any(item: Json) -> Json:
    return item or None


_PATH = (path_document, Reader.path)
_COUNT, _MORE, _FLAG = (_as_it_is, Reader.count), (_if_any, Reader.count), (_if_any, Reader.flag)
_OF_DIGEST = (_as_it_is, lambda r, k: r.matching(k, _DIGEST))
_OF_OUTPUT = (lambda o: {"oid": o.oid, "bytes": o.bytes, "cut": o.cut}, _output)
_FIELDS: dict[str, tuple[Callable[[Any], Json], Callable[[Reader, str], Any]]] = {
    "step": (path_document, _named),
    "attempt": _COUNT,
    "key": _OF_DIGEST,
    "idem": _OF_DIGEST,
    "argv": (_texts, _list),
    "argv_more": _MORE,
    "cwd": _PATH,
    "reads": (lambda reads: {"globs": _texts(reads.globs), "tree": reads.tree, "n": reads.n}, _reads),
    "deps": (dict, lambda r, k: _pairs(r, k, oids=True)),
    "writes": (_writes_document, _writes),
    "env": (dict, lambda r, k: _pairs(r, k, oids=False)),
    "extra": (_texts, _list),
    "stable": (_as_it_is, Reader.flag),
    "undeclared": (
        lambda found: [{"path": path_document(u.path), "before": u.before, "after": u.after} for u in found],
        _undeclared,
    ),
    "undeclared_more": _MORE,
    "exit": _COUNT,
    "signal": (_as_it_is, Reader.text),
    "timeout": _FLAG,
    "duration_ms": _COUNT,
    "stdout": _OF_OUTPUT,
    "stderr": _OF_OUTPUT,
    "effect": (_as_it_is, lambda r, k: r.one_of(k, EFFECTS)),
    "compensate": _PATH,
    "probe": _PATH,
    "verify": (lambda line: {"cmd": path_document(line)}, Reader.maybe_object),
    "compensates": _OF_DIGEST,
    "region": (_texts, _list),
    "region_more": _MORE,
    "cause": (_cause_document, _cause),
    "state": (_as_it_is, lambda r, k: r.one_of(k, STATES)),
    "text": _PATH,
    "plan": _PATH,
    "isolation": (_as_it_is, lambda r, k: r.one_of(k, ISOLATIONS)),
    "nondeterministic": _FLAG,
    "redacted": _FLAG,
    "cost": (lambda tokens: {"tokens": tokens}, Reader.maybe_object),
    "agent": _PATH,
    "worktree": _PATH,
}


def key(document: Mapping[str, Json]) -> str:
    """The SHA-256, in hexadecimal, of a value as canonical compact JSON: keys sorted, no blanks, ASCII."""
    import hashlib
    import json

    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def key_of(step: Step, reads_tree: Oid | None, deps: Mapping[str, Oid], env: Mapping[str, str]) -> str:
    """A step's key. ``reads_tree``: of the files that it reads (None: it names none); ``deps``: the tree of outputs of each
    step that it comes after; ``env``: what Record.env says of each variable."""
    words: dict[str, Json] = {"v": VERSION, "step": step.name, "argv": list(step.argv), "cwd": step.cwd, "reads": reads_tree}
    words |= {"deps": dict(deps), "env": dict(env), "extra": list(step.extra), "writes": list(step.writes)}
    return key({**words, "verify": step.verify})


def recompute(record: Record) -> str | None:
    """The key that a record's fields give; None where it does not have them all as they were."""
    if record.step is None or not record.argv or record.cwd is None or record.redacted or record.argv_more:
        return None
    globs = record.writes.globs if record.writes else ()
    step = Step(name=record.step, argv=record.argv, cwd=record.cwd, writes=globs, extra=record.extra, verify=record.verify)
    return key_of(step, record.reads.tree if record.reads else None, dict(record.deps), dict(record.env))


def idem(lineage: str, step: str, key: str, undone: int = 0) -> str:
    """The idempotency key of a step's effect: the same for all attempts, another one as soon as the step's key is. ``undone``:
    how many effects of this key were compensated before; a service that remembers would not do it again under the same."""
    import hashlib

    text = "\0".join((lineage, step, key, *((str(undone),) if undone else ())))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def clean(record: Record, blobs: Mapping[str, bytes], redactor: Redactor | None) -> tuple[Record, dict[str, bytes]]:
    """The record and the blobs as they may be stored. Of an output the tail is kept, from a line's beginning. Raises
    UsageError for a blob that no record has, ScanError."""
    kept: dict[str, bytes] = {}
    for name, data in blobs.items():
        if name not in BLOBS:
            raise UsageError(f"a record has no part {in_quotes(name)}")
        kept[name] = _tail(data, getattr(record, name)) if name in STREAMS else data
    for name in STREAMS:
        if name in blobs:
            said: Output | None = getattr(record, name)
            size, cut = len(blobs[name]), len(kept[name]) < len(blobs[name])
            output = Output(oid="", bytes=size, cut=cut) if said is None else replace(said, cut=said.cut or cut)
            record = replace(record, **{name: output})
    if redactor is None or redactor.mode == "off":
        return record, kept
    safe = {name: _redacted(redactor, data) for name, data in kept.items()}
    return _words(redactor, record), safe


def _tail(data: bytes, said: Output | None) -> bytes:
    """At most the last MiB; what is cut, here or before, from the beginning of a line where there is one: no redactor knows
    half a secret."""
    if len(data) <= MAX_OUTPUT and not (said is not None and said.cut):
        return data
    rest = data[-MAX_OUTPUT:]
    return rest[rest.find(b"\n") + 1 :] or rest


def _redacted(redactor: Redactor, data: bytes) -> bytes:
    text = data.decode("utf-8", "surrogateescape")
    safe = redactor.text(text)
    return data if safe == text else safe.encode("utf-8", "surrogateescape")


def _words(redactor: Redactor, record: Record) -> Record:
    """The same record where there is nothing to redact."""
    changes: dict[str, object] = {}
    for name in ("compensate", "probe", "verify", "text"):
        said = getattr(record, name)
        if said is not None and (safe := redactor.text(said)) != said:
            changes[name] = safe
    for name in ("argv", "extra"):
        items = getattr(record, name)
        if items and (safe_items := _each_word(redactor, items)) != items:
            changes[name] = safe_items
    return replace(record, **changes, redacted=True) if changes else record


def _each_word(redactor: Redactor, items: tuple[str, ...]) -> tuple[str, ...]:
    """Each word, as itself and as what follows the word before it: ``--token abc``."""
    import json

    plain = [redactor.text(item) for item in items]
    raw = json.dumps(plain).encode("ascii")
    safe = redactor.line(raw)
    return tuple(plain if safe is raw else json.loads(safe))
