"""Redaction of a record and its stored outputs, and their bounded size."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.errors import UsageError
from gitbaton.git.objects import NewObject
from gitbaton.journal.values import BLOBS, Output, Record
from gitbaton.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.secrets import Redactor

MAX_OUTPUT = 1 << 20
_STREAMS = ("stdout", "stderr")


def clean(record: Record, blobs: Mapping[str, bytes], redactor: Redactor | None) -> tuple[Record, dict[str, bytes]]:
    """The record and the blobs as they may be stored. Of an output the tail is kept, from a line's beginning. Raises
    UsageError for a blob that no record has, ScanError."""
    kept: dict[str, bytes] = {}
    for name, data in blobs.items():
        if name not in BLOBS:
            raise UsageError(f"a record has no part '{name}'")
        kept[name] = _tail(data, getattr(record, name)) if name in _STREAMS else data
    for name in _STREAMS:
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


def named(record: Record, made: Mapping[str, NewObject], contents: Mapping[str, bytes]) -> Record:
    """The record with the ids that its outputs have as they are stored."""
    changes = {name: replace(getattr(record, name), oid=made[name].oid) for name in _STREAMS if name in contents}
    return replace(record, **changes) if changes else record


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
        if items and (safe_items := _list(redactor, items)) != items:
            changes[name] = safe_items
    return replace(record, **changes, redacted=True) if changes else record


def _list(redactor: Redactor, items: tuple[str, ...]) -> tuple[str, ...]:
    """Each word, as itself and as what follows the word before it: ``--token abc``."""
    import json

    plain = [redactor.text(item) for item in items]
    raw = json.dumps(plain).encode("ascii")
    safe = redactor.line(raw)
    return tuple(plain if safe is raw else json.loads(safe))
