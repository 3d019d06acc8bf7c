"""Track names and their encoded form in refs and file names."""

from __future__ import annotations

import re
import unicodedata

from gitbaton.codec.text import is_control, plain
from gitbaton.errors import UsageError

MAX_ENCODED = 200
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_HEX = re.compile(rb"%([0-9A-F]{2})")
_SAFE = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_ENCODED}}}\Z")  # these stand for themselves
_ENCODED = re.compile(r"(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+\Z")


def check_track(name: str) -> str:
    """The NFC form of a track name. Raises UsageError when it is empty, has control characters or is too long."""
    name = unicodedata.normalize("NFC", name)
    if not name.strip():
        raise UsageError("a track name cannot be empty")
    if any(is_control(c) for c in name):
        raise UsageError(f"track name '{plain(name)}' has a control or format character")
    if len(_encode(name)) > MAX_ENCODED:
        raise UsageError(f"track name '{name[:60]}...' is longer than {MAX_ENCODED} bytes in its encoded form")
    return name


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
