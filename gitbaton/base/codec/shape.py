"""Shapes: a checkpoint's canonical bytes without what they say, by which many records are known at once to hold what they must
and nothing else; and the texts that stand in them."""

from __future__ import annotations

import json
import re
from itertools import groupby

from gitbaton.base.codec.checkpoint import is_canonical

_LARGE = 128 << 10  # bytes from which on the JSON may list fewer paths than there are
_LONG, _LINES = 400, 1 << 14  # bytes of a line that is remembered, and how many
_MOST = 1000  # shapes that are known at a time
_NO_PAIRS = b'  "extra": {},'
_KEY = rb' *(?:"(?!b64")[^"\\]*": )?'
# An id or a time, of which a part stays that no JSON holds, and the names by which it is no text.
_OWN = re.compile(rb'": "(?:[0-9a-f]{40}|[0-9a-f]{64}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z)"')
_MARKED = b'": \0'
_NAMES = rb"id|head|tree|previous|created|at|ended|started|began|until|made|changed|milestone|said"
# A text that is not empty, or a number but zero, with what stands around it; and a line without.
_SAYS = re.compile(rb'(%s)(?:"((?:[^"\\\x00-\x1f\x7f]|\\["\\nt])+)"|[1-9][0-9]{0,14})(,?)(?s:\Z)' % _KEY)
_SAYS_NOTHING = re.compile(
    rb'(?:(?:%s(?:""|0|null|true|false|\{\}|\[\]|[{}\[\]])| *"(?:%s)": \x00),?)?(?s:\Z)' % (_KEY, _NAMES)
)
_known: dict[tuple[bytes, ...], bool] = {}
_parts: dict[bytes, tuple[bytes, str]] = {}


def texts_in(raw: bytes) -> frozenset[str] | None:
    """Return the texts in a checkpoint's canonical bytes, ids and times apart; None of bytes that are not canonical, or of
    which it costs more to say so: with pairs of its own, with characters that cannot be seen.

    Reading and writing take each text and each number as it is, or refuse it; only which are there, and which of them are
    empty, decides on the form of a record. So of all records of one form the first alone is read and written to be compared.
    """
    if not raw.isascii():
        text = raw.decode("utf-8", "replace").replace("\n", "")
        if not text.isprintable() or "\ufffd" in text:
            return None
    if len(raw) > _LARGE or b"\0" in raw or b'"imported": {' in raw:
        return None
    lines = _OWN.sub(_MARKED, raw).split(b"\n")
    if _NO_PAIRS not in lines:
        return None
    parts = [*map(_parts.get, lines)]
    if None in parts:
        parts = [part or _part(line) for part, line in zip(parts, lines, strict=True)]
    forms, said = zip(*parts, strict=True)
    if b"" in forms[:-1]:
        return None
    is_whole = _known.get(forms)
    if is_whole is None:
        shape = tuple([form for form, _ in groupby(forms)])  # a list of many texts is one of two
        is_whole = _known.get(shape)
        if is_whole is None:
            is_whole = is_canonical(raw)
        if len(_known) >= _MOST:
            _known.clear()
        _known.update(dict.fromkeys((forms, shape), is_whole))
    return frozenset(said) if is_whole else None


def _part(line: bytes) -> tuple[bytes, str]:
    """Return the form of a line of canonical JSON, empty where it is of none, and its text, empty where it has none but an id
    or a time."""
    found = _SAYS.match(line)
    if found is None:
        part = line if _SAYS_NOTHING.match(line) else b"", ""
    else:
        before, text, after = found.groups(b"")
        part = before + b"." + after, json.loads(b'"%s"' % text) if b"\\" in text else text.decode("utf-8")
    if len(line) < _LONG:
        if len(_parts) >= _LINES:
            _parts.clear()
        _parts[line] = part
    return part
