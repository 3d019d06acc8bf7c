"""Paths and names of refs as JSON: text, or base64 where their bytes are not UTF-8."""

from __future__ import annotations

import binascii
import os

from gitbaton.codec.reader import Reader
from gitbaton.codec.text import Json


def path_document(path: str) -> Json:
    """A path or a ref's name as JSON: text, or ``{"b64": ...}`` where its bytes are not UTF-8."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return {"b64": binascii.b2a_base64(os.fsencode(path), newline=False).decode()}
    return path


def path_of(value: Json) -> str:
    """The path of a JSON value that ``path_document`` made. Raises RecordError for another one."""
    return Reader({"path": value}, "record").path("path")
