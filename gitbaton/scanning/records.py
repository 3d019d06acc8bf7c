"""Texts of a checkpoint's JSON: what somebody said, and all else."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from gitbaton.codec import Json, parse, payload
from gitbaton.errors import RecordError

_WORDS = ("step", "note", "next_cmd", "label")
_DULL = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}Z)\Z")  # an id or a time


def record_in(text: bytes) -> tuple[bytes, dict[str, Json] | None]:
    """The JSON in a message and what it says; None where it is no checkpoint."""
    try:
        raw = payload(text)
        record = parse(raw)
    except RecordError:
        return b"", None
    return (raw, record) if isinstance(record, dict) and "track" in record and "step" in record else (b"", None)


def words(record: Mapping[str, Json]) -> Iterator[tuple[str, str, str]]:
    """What somebody wrote: a name, what it is called by where that counts, and the text."""
    carried = record.get("carried")
    texts: list[tuple[str, str, Json]] = [(name, "", record.get(name)) for name in _WORDS]
    texts.append(("carried.step", "", carried.get("step") if isinstance(carried, dict) else None))
    decisions, extra = record.get("decisions"), record.get("extra")
    texts += [("decision", "", text) for text in decisions] if isinstance(decisions, list) else []
    texts += [(f"extra.{key}", f"{key}=", text) for key, text in extra.items()] if isinstance(extra, dict) else []
    return ((name, head, text) for name, head, text in texts if isinstance(text, str) and text)


def others(record: Mapping[str, Json], said: Collection[str]) -> Iterator[tuple[str, str]]:
    """All other texts: names and paths, and what we do not know."""
    for key, item in record.items():
        yield from ((key, text) for text in (key, *_texts(item)) if text not in said and not _DULL.match(text))


def _texts(item: Json) -> Iterator[str]:
    if isinstance(item, str):
        yield item
    elif isinstance(item, dict):
        for key, inner in item.items():
            yield key
            yield from _texts(inner)
    elif isinstance(item, list):
        for inner in item:
            yield from _texts(inner)
