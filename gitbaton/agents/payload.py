"""A payload's bytes to its top-level fields, and parts of it that any reader can take."""

from __future__ import annotations

import json
import re
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping

LARGE = 8 << 20  # bytes; beyond it only the head is read: small values by the million cost half a second
HEAD = 64 << 10  # every client names session and folder in its first kilobyte
MAX_WORD = 1024  # characters of a session id or a source; a longer one is not one
MAX_PATH = 4096  # bytes, PATH_MAX
_FILES = ("file_path", "notebook_path", "path")
PATCHED = r"(?m)^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$"
"""What names a path in a patch of ``apply_patch``."""


def fields_of(data: bytes) -> dict[str, object]:
    """The top-level fields of a payload; none where the bytes are not one JSON object, numbers as None.

    Of data over LARGE, cut anywhere after it or not, the fields that are complete in its head.
    """
    if len(data) > LARGE:
        return _head(_decoded(data[:HEAD]))
    try:
        found: object = _DECODER.decode(_decoded(data))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def word(value: object) -> str | None:
    """``value`` if it is a text that can be an id or a name: not empty, not over MAX_WORD, valid Unicode."""
    return valid(value) if isinstance(value, str) and 0 < len(value) <= MAX_WORD else None


def absolute(value: object) -> str | None:
    """``value`` if it is an absolute path that the system would take: no NUL, not over MAX_PATH, encodable."""
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        return None
    try:
        return value if len(value.encode("utf-8", "surrogateescape")) < MAX_PATH else None
    except UnicodeEncodeError:
        return None


def valid(text: str) -> str:
    """``text`` in valid Unicode: halves of surrogate pairs joined where they meet, else U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def edited_in(fields: Mapping[str, object], editors: Container[object]) -> tuple[str, ...]:
    """The paths that a tool edited, by the payload of a hook after it, as the client names them; none of one that is no
    editor."""
    if "tool_name" not in fields and "toolName" not in fields:  # the event itself is an edit
        given: object = {name: fields.get(name) for name in _FILES}
    elif (fields.get("tool_name") or fields.get("toolName")) in editors:
        given = fields.get("tool_input") or fields.get("toolArgs")
    else:
        return ()
    try:
        found: object = _DECODER.decode(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        found = given
    texts = found if isinstance(found, dict) else {"patch": found}
    named = [texts.get(name) for name in _FILES]
    patches = (text for text in texts.values() if isinstance(text, str) and text.lstrip().startswith("*** Begin Patch"))
    named += [path.strip() for patch in patches for path in re.findall(PATCHED, patch)]
    return tuple(dict.fromkeys(path for path in named if isinstance(path, str) and absolute(f"/{path}")))


def _no_number(_: str) -> None:
    """Numbers are of no use here, and one of 5,000 digits is an error in Python."""


_DECODER = json.JSONDecoder(parse_int=_no_number, parse_float=_no_number, parse_constant=_no_number, strict=False)


def _decoded(data: bytes) -> str:
    """The text of a payload; a path that is not UTF-8 keeps its bytes, as Python's own paths do."""
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _head(text: str) -> dict[str, object]:
    """The fields of an object that is cut off somewhere, up to the last that is complete."""
    found: dict[str, object] = {}
    at = _skip(text, 0, "{")
    with suppress(ValueError, RecursionError):
        while at:
            key, at = _DECODER.raw_decode(text, _skip(text, at))
            if not isinstance(key, str) or not (at := _skip(text, at, ":")):
                break
            found[key], at = _DECODER.raw_decode(text, _skip(text, at))
            at = _skip(text, at, ",")
    return found


def _skip(text: str, at: int, sign: str = "") -> int:
    """The place after blanks and ``sign``; 0 where something else stands."""
    while text[at : at + 1] in (" ", "\t", "\n", "\r"):
        at += 1
    return at + len(sign) if text.startswith(sign, at) else 0


def names_one(agent_id: object) -> bool:
    """Whether an id is a subagent's."""
    return isinstance(agent_id, str) and agent_id != ""
