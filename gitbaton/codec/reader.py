"""Checked reading of one JSON object, key by key: a wrong value is a RecordError that names the key; paths as JSON."""

from __future__ import annotations

import binascii
import os
import re
from datetime import datetime

from gitbaton.codec.text import Json, plain
from gitbaton.errors import RecordError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T", bound=str)

MAX_FIELD = 64 << 10
MAX_EXTRAS = 256
_OID = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z\Z")


class Reader:
    """One JSON object; ``where`` names it in errors."""

    def __init__(self, value: Json, where: str) -> None:
        if not isinstance(value, dict):
            raise RecordError(f"{where} is not an object")
        self.value = value
        self.where = where

    def bad(self, key: str) -> RecordError:
        """The error for a key."""
        return RecordError(f"{self.where}: '{plain(key)[:80]}' is missing or not what it must be")

    def text(self, key: str) -> str:
        """A text within the limit."""
        value = self.value.get(key)
        if not isinstance(value, str) or len(value) > MAX_FIELD or len(value.encode("utf-8", "replace")) > MAX_FIELD:
            raise self.bad(key)
        return value

    def one_of(self, key: str, allowed: tuple[T, ...]) -> T:
        """One of some words."""
        value = self.text(key)
        for word in allowed:
            if word == value:
                return word
        raise self.bad(key)

    def matching(self, key: str, form: re.Pattern[str]) -> str:
        """A text of a form."""
        value = self.text(key)
        if not form.match(value):
            raise self.bad(key)
        return value

    def maybe(self, key: str) -> str | None:
        """A text or null."""
        return None if self.value.get(key, 0) is None else self.text(key)

    def oid(self, key: str) -> str:
        """A full object id."""
        return self.matching(key, _OID)

    def maybe_oid(self, key: str) -> str | None:
        """A full object id or null."""
        return None if self.value.get(key, 0) is None else self.oid(key)

    def count(self, key: str, default: int | None = None) -> int:
        """A number from 0 on; ``default`` where the key is missing."""
        value = self.value.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
            raise self.bad(key)
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self.value.get(key)
        if not isinstance(value, bool):
            raise self.bad(key)
        return value

    def time(self, key: str) -> datetime:
        """RFC 3339 in UTC with microseconds."""
        text = self.text(key)
        try:
            if _TIME.match(text):
                return datetime.fromisoformat(text[:-1] + "+00:00")
        except ValueError:
            pass
        raise self.bad(key)

    def items(self, key: str, limit: int) -> list[Json]:
        """A list of at most ``limit`` values."""
        value = self.value.get(key)
        if not isinstance(value, list) or len(value) > limit:
            raise self.bad(key)
        return value

    def path(self, key: str) -> str:
        """A path: text, or base64 where its bytes are not UTF-8."""
        value = self.value.get(key)
        if isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str):
            try:
                return os.fsdecode(binascii.a2b_base64(value["b64"], strict_mode=True))
            except ValueError:
                raise self.bad(key) from None
        return self.text(key)

    def maybe_object(self, key: str) -> Reader | None:
        """An object or null."""
        value = self.value.get(key, 0)
        return None if value is None else Reader(value, f"{self.where}.{key}")

    def strings(self, key: str, *, paths: bool = False) -> tuple[tuple[str, str], ...]:
        """An object whose values are texts, or paths."""
        inner = Reader(self.value.get(key, 0), f"{self.where}.{key}")
        if len(inner.value) > MAX_EXTRAS:
            raise self.bad(key)
        return tuple((name, (inner.path if paths else inner.text)(name)) for name in inner.value)


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
