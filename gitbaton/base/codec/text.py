"""Canonical JSON: the same bytes for the same value; one JSON object read key by key, each checked, paths as JSON; track names,
and their encoded form in refs and file names."""

from __future__ import annotations

import binascii
import json
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from gitbaton.base.codec.words import ODD_BLANKS, in_quotes, is_hidden, plain
from gitbaton.base.errors import RecordError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T", bound=str)


Json = None | bool | int | str | Sequence["Json"] | Mapping[str, "Json"]

MAX_BYTES = 1 << 20
MAX_DEPTH = 8
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPECIAL = re.compile(r"[^ !#-\[\]-~]")
_CONTROL = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
MAX_ENCODED = 200
_SAFE_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_PLAIN = frozenset(_SAFE_BYTES)
_HEX = re.compile(rb"%([0-9A-F]{2})")
_SAFE = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_ENCODED}}}\Z")  # these stand for themselves
# Names that are read as something else where a checkpoint is named: options, '@', ranges, steps back, times, git's refs, ids.
_TAKEN = re.compile(r"[-@].*|.*(?:[~^]|@\{|\.\.).*|\.|refs/.*|(?:[A-Z]+_)*HEAD|[0-9a-f]{40}|[0-9a-f]{64}", re.DOTALL)
_ENCODED = re.compile(r"(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+\Z")
MAX_FIELD = 64 << 10
_NESTED = frozenset({dict, list})
_SHORT = MAX_FIELD // 4  # characters that are no more bytes than that, whatever they are
MAX_EXTRAS = 256
NAMES = "'git baton help files' says how checkpoints are named"
_OID = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z\Z")


def is_control(char: str) -> bool:
    """Whether canonical JSON escapes a character: Unicode categories Cc, Cf, Zl, Zp and Cs. What is stored stays so for good;
    ``words`` says what is shown."""
    return unicodedata.category(char) in _CONTROL


def subject(text: str, size: int) -> str:
    """Return the first line of a text that is not blank as the subject of a commit, in ``size`` bytes at most. This rule stays,
    too: a commit that is written again is the same one."""
    first = next((line for line in map(str.strip, text.split("\n")) if line), "")
    safe = first if first.isprintable() else "".join("?" if is_control(c) else c for c in first)
    return safe.encode("utf-8", "replace")[:size].decode("utf-8", "ignore").rstrip()


def canonical(value: Json) -> bytes:
    """The canonical bytes of a JSON value: key order as given, two-space indent, UTF-8, one newline at the end."""
    return (_dump(value, "\n") + "\n").encode("utf-8")


def _dump(value: Json, newline: str) -> str:
    if isinstance(value, str):
        return _string(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    inner = newline + "  "
    if isinstance(value, dict):
        items = [f"{_string(k)}: {_string(v) if type(v) is str else _dump(v, inner)}" for k, v in value.items()]
        opening, closing = "{", "}"
    else:
        items = [_dump(v, inner) for v in value]
        opening, closing = "[", "]"
    return opening + inner + ("," + inner).join(items) + newline + closing if items else opening + closing


def _string(text: str) -> str:
    # What is printable holds nothing that is escaped in another way than JSON's own encoder, which is written in C, does it.
    return json.encoder.encode_basestring(text) if text.isprintable() else '"' + _SPECIAL.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    if char in '"\\':
        return "\\" + char
    if char == "\n":
        return "\\n"
    if char == "\t":
        return "\\t"
    if not is_control(char):
        return char
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def parse(raw: bytes) -> Json:
    """Parse JSON bytes that any writer may have made.

    Raises RecordError when they are over 1 MiB, not UTF-8, not JSON, deeper than 8, or hold a float, a key twice or half of a
    surrogate pair.
    """
    if len(raw) > MAX_BYTES:
        raise RecordError(f"record of {len(raw)} bytes is over the limit of {MAX_BYTES}")
    try:
        value: Json = json.loads(
            raw.decode("utf-8"), object_pairs_hook=unique, parse_float=_no_number, parse_constant=_no_number
        )
    except (ValueError, RecursionError) as error:
        raise RecordError(f"record is not JSON: {plain(str(error))[:100]}") from None
    _check(value, deep=b"\\u" in raw)
    return value


def unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """The object of some pairs of JSON. Raises ValueError for a key that stands twice."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result


def _no_number(text: str) -> Json:
    raise ValueError(f"number {text[:20]} is not an integer")


def _check(value: Json, *, deep: bool) -> None:
    """Refuse what is nested too deep, and ``deep``, where anything was escaped, text that no UTF-8 can hold."""
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH + 2):
        inside = [part for part in level if type(part) in _NESTED]
        if not inside:
            return
        level = [item for part in inside for item in (part.values() if type(part) is dict else part)]
        if deep:
            texts = (item for part in (level, *(p for p in inside if type(p) is dict)) for item in part)
            if any(isinstance(item, str) and not item.isprintable() and _SURROGATE.search(item) for item in texts):
                raise RecordError("record holds half of a surrogate pair")
    raise RecordError(f"record is nested deeper than {MAX_DEPTH}")


def counted(number: int, noun: str) -> str:
    """``1 checkpoint``, ``2 checkpoints``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def digest(text: str) -> str:
    """Return the digest that stands for the text of a decision that was withdrawn."""
    from hashlib import sha256  # OpenSSL is slow to load, and nearly no command needs it

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def timestamp(value: datetime) -> str:
    """RFC 3339 in UTC with microseconds."""
    here = value if value.tzinfo is UTC else value.astimezone(UTC)
    return here.isoformat(timespec="microseconds")[:-6] + "Z"


def check_track(name: str) -> str:
    """The NFC form of a track name. Raises UsageError when it is empty, has control characters or is too long."""
    name = unicodedata.normalize("NFC", name)
    if not name.strip():
        raise UsageError("a track name cannot be empty")
    if any(is_control(c) for c in name):
        raise UsageError(f"track name {in_quotes(name)} has a control or format character")
    if len(_encode(name)) > MAX_ENCODED:
        raise UsageError(f"track name {in_quotes(name[:60] + '...')} is longer than {MAX_ENCODED} bytes in its encoded form")
    return name


def means_else(name: str) -> bool:
    """Whether a name is read as something else where a checkpoint is named, as ``HEAD``, ``-x`` and ``a~1`` are."""
    return _TAKEN.fullmatch(name) is not None


def check_new_track(name: str, *, kept: bool = False) -> str:
    """Check the name of a track that is made here, as ``check_track`` does. Raises UsageError also for a name that looks like
    another one: with what cannot be seen, with blanks other than spaces, or with blanks around it; and for one that is read as
    something else, unless it is ``kept`` from elsewhere."""
    name = check_track(name)
    if name != name.strip():
        raise UsageError(f"a new track cannot be called {in_quotes(name)}: a blank stands at its beginning or end")
    if any(is_hidden(c) or c in ODD_BLANKS for c in name):
        raise UsageError(
            f"a new track cannot be called {in_quotes(name)}: a character of it cannot be seen, or is taken for a space"
        )
    if means_else(name) and not kept:
        why = "'..' stands between the two ends of a range" if ".." in name else "that is read as something else"
        raise UsageError(f"a new track cannot be called {in_quotes(name)}: {why}", NAMES)
    return name


def looks(name: str) -> str:
    """Return what a track name looks like, the same for names that can be taken for each other: without case, without what
    cannot be seen, any blanks as one space."""
    if _SAFE.match(name):
        return name.casefold()
    seen = "".join(c for c in name if not is_hidden(c))
    return " ".join("".join(" " if c in ODD_BLANKS else c for c in seen).split()).casefold()


def alike(name: str, other: str) -> str:
    """Half a sentence: how little tells two track names apart that look the same."""
    less = "case" if name.casefold() == other.casefold() else "case, or what cannot be seen"
    return f"track {in_quotes(name)} differs from the track {in_quotes(other)} only in {less}"


def encode_track(name: str) -> str:
    """A name as one ref component: ``A-Z a-z 0-9 _ -`` as they are, every other byte of its NFC UTF-8 form as ``%XX``."""
    return name if _SAFE.match(name) else _encode(check_track(name))


def _encode(name: str) -> str:
    return "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in name.encode("utf-8", "surrogatepass"))


def decode_track(encoded: str) -> str | None:
    """The name that ``encoded`` stands for, or None when it is not exactly what ``encode_track`` gives for any name."""
    if _SAFE.match(encoded):
        return encoded
    if not _ENCODED.match(encoded):
        return None
    try:
        name = _HEX.sub(lambda m: bytes.fromhex(m.group(1).decode()), encoded.encode()).decode("utf-8")
        return name if encode_track(name) == encoded else None
    except (UnicodeDecodeError, UsageError):
        return None


def decode_tracks(encoded: Sequence[str]) -> list[str | None]:
    """Return what ``decode_track`` does for each of many names, sooner where they all stand for themselves."""
    rest, lengths = "\n".join(encoded).encode("ascii", "replace").translate(None, _SAFE_BYTES), {*map(len, encoded)}
    safe = rest == b"\n" * (len(encoded) - 1) and lengths and min(lengths) and max(lengths) <= MAX_ENCODED
    return [*encoded] if safe else [*map(decode_track, encoded)]


class Reader:
    """One JSON object; ``where`` names it in errors."""

    def __init__(self, value: Json, where: str) -> None:
        if not isinstance(value, dict):
            raise RecordError(f"{where} is not an object")
        self.value = value
        self.where = where

    def bad(self, key: str) -> RecordError:
        """The error for a key."""
        return RecordError(f"{self.where}: {in_quotes(key[:80])} is missing or not what it must be")

    def text(self, key: str) -> str:
        """A text within the limit."""
        value = self.value.get(key)
        if not isinstance(value, str) or (len(value) > _SHORT and len(value.encode("utf-8", "replace")) > MAX_FIELD):
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

    def beside(self, key: str) -> Reader | None:
        """An object; None where the key is missing."""
        return Reader(self.value[key], f"{self.where}.{key}") if key in self.value else None

    def strings(self, key: str, *, paths: bool = False) -> tuple[tuple[str, str], ...]:
        """Return an object's texts, or paths, by name."""
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
