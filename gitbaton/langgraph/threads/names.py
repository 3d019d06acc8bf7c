"""The names of threads, namespaces, channels and tasks, as git holds them in refs and trees."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from gitbaton.base.errors import UsageError

THREADS = "refs/baton/threads/"
LATE = "refs/baton/late/"
_PART = 199  # bytes of a path component before its "%"; file systems take 255, and git adds ".lock"
# Bytes of what stands in a ref for a thread and for a namespace. Together less than 1,023, which is what libgit2 takes, by
# what stands before them where a remote's threads are noted (``refs/baton/remotes/<remote>/joined/<16>/threads/``).
_LONGEST, _DEEPEST = 400, 300
_START = 40  # bytes of a longer name, for people
_CUT = re.compile(r"\+((?:[A-Za-z0-9_-]|%[0-9A-F]{2}){1,40})\+[0-9a-f]{64}\Z")
_NAME = 4000  # bytes of a name in a tree; git's fsck warns of more than 4,096
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_SAFE = re.compile(r"[A-Za-z0-9_-]*\Z")
_HEX = re.compile(rb"%([0-9A-F]{2})")


def escape(name: str) -> str:
    """``A-Z a-z 0-9 _ -`` as they are, every other byte of the UTF-8 form as ``%XX``; halves of surrogate pairs count as
    characters."""
    if _SAFE.match(name):
        return str.__str__(name)  # of a class made from str, the text itself
    return "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in name.encode("utf-8", "surrogatepass"))


def unescape(text: str) -> str | None:
    """The name that ``escape`` gives exactly this text for; None when there is none."""
    if _SAFE.match(text):
        return text
    try:
        raw = _HEX.sub(lambda m: bytes((int(m.group(1), 16),)), text.encode("ascii"))
        name = raw.decode("utf-8", "surrogatepass")
    except UnicodeError:
        return None
    return name if escape(name) == text else None


@lru_cache(4096)
def tree_name(name: str) -> str:
    """A channel's, task's or checkpoint's name as it stands in a tree. Raises UsageError for one that is too long."""
    text = escape(name)
    if len(text) > _NAME:
        raise UsageError(f"name '{text[:60]}...' has {len(text)} bytes in its encoded form; the limit is {_NAME}")
    return text


def name_of(raw: bytes) -> str | None:
    """The name that stands in a tree in this form; None when ``tree_name`` gives it for none."""
    return unescape(raw.decode("ascii", "replace")) if len(raw) <= _NAME else None


class Cut(str):
    """A name of which a ref holds only the beginning and a SHA-256, because it is too long: what stands in the ref for it. The
    chain's commits say the name itself. Equal to no other text."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cut) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Cut, str(self)))


def ref_of(thread: str, namespace: str) -> str:
    """The ref of a thread's chain in a namespace; a Cut stands for the name that it is of."""
    return f"{THREADS}{_path(thread, _LONGEST)}/{_path(namespace, _DEEPEST)}"


def late_ref(thread: str, namespace: str) -> str:
    """The ref of the writes that came late to a thread in a namespace."""
    return f"{LATE}{_path(thread, _LONGEST)}/{_path(namespace, _DEEPEST)}"


def cut(ref: str) -> bool:
    """Whether a ref of ours, or what stands in one for a name, does not hold all of it."""
    return "+" in ref


def prefix_of(thread: str) -> tuple[str, str]:
    """Return the prefixes of a thread's refs: those of its chains, and those of its late writes."""
    path = _path(thread, _LONGEST)
    return f"{THREADS}{path}/", f"{LATE}{path}/"


@lru_cache(1 << 14)
def names_of(ref: str, *known: str) -> tuple[str, str] | None:
    """The thread and namespace of a ref of either kind; None unless it is exactly what ``ref_of`` or ``late_ref`` gives. A name
    that the ref does not hold whole is a Cut, or the one of ``known`` that it stands for."""
    prefix = THREADS if ref.startswith(THREADS) else LATE
    if not ref.startswith(prefix):
        return None
    names: list[str] = []
    text = ""
    for part in ref[len(prefix) :].split("/"):
        if part.endswith("%"):
            text += part[:-1]
            continue
        text += part
        name = _name(text, known)
        if name is None or len(names) == 2:
            return None
        names.append(name)
        text = ""
    if len(names) != 2 or text:
        return None
    own = ref_of(*names) if prefix == THREADS else late_ref(*names)
    return (names[0], names[1]) if own == ref else None


def _name(text: str, known: tuple[str, ...]) -> str | None:
    if text == "_":
        return ""
    if text.startswith("="):
        return unescape(text[1:])
    found = _CUT.match(text)
    if found is None or _start(found[1]) != found[1]:
        return None
    return next((name for name in known if _hashed(escape(name)) == text), Cut(text))


def _path(name: str, most: int) -> str:
    """A name as one path component, or as several of which each but the last ends in a lone ``%``: no whole name does, so no
    file ever stands where another name needs a folder. One of more than ``most`` bytes is cut."""
    if isinstance(name, Cut):
        return str(name)
    escaped = escape(name)
    text = "=" + escaped if name else "_"
    parts = []
    while len(text) > _PART + 1:
        at = text.rfind("%", _PART - 2, _PART)  # a %XX that would be cut
        at = at if at > 0 and at + 3 > _PART else _PART
        parts.append(text[:at] + "%")
        text = text[at:]
    path = "/".join((*parts, text))
    return path if len(path) <= most else _hashed(escaped)


def _hashed(escaped: str) -> str:
    return f"+{_start(escaped)}+{hashlib.sha256(escaped.encode('ascii'), usedforsecurity=False).hexdigest()}"


def _start(escaped: str) -> str:
    """The beginning of a name, no %XX cut."""
    at = escaped.rfind("%", _START - 2, _START)
    return escaped[: at if at >= 0 and at + 3 > _START else _START]
