"""The names of threads, namespaces, channels and tasks, as git holds them in refs and trees."""

from __future__ import annotations

import re
from functools import lru_cache

from gitbaton.errors import UsageError

__all__ = ["LATE", "THREADS", "escape", "late_ref", "name_of", "names_of", "prefix_of", "ref_of", "tree_name", "unescape"]
THREADS = "refs/baton/threads/"
LATE = "refs/baton/late/"
_PART = 199  # bytes of a path component before its "%"; file systems take 255, and git adds ".lock"
_REF = 3500  # bytes of a ref; the kernel takes paths of 4,095
_NAME = 4000  # bytes of a name in a tree; git's fsck warns of more than 4,096
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_SAFE = re.compile(r"[A-Za-z0-9_-]*\Z")
_HEX = re.compile(rb"%([0-9A-F]{2})")


def escape(name: str) -> str:
    """``A-Z a-z 0-9 _ -`` as they are, every other byte of the UTF-8 form as ``%XX``; halves of surrogate pairs count as
    characters."""
    if _SAFE.match(name):
        return name
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


def ref_of(thread: str, namespace: str) -> str:
    """The ref of a thread's chain in a namespace. Raises UsageError when the names are too long for a ref."""
    return _ref(THREADS, thread, namespace)


def late_ref(thread: str, namespace: str) -> str:
    """The ref of the writes that came late to a thread in a namespace. Raises UsageError as ``ref_of`` does."""
    return _ref(LATE, thread, namespace)


def prefix_of(thread: str) -> tuple[str, str]:
    """What the refs of a thread begin with: those of its chains, and those of its late writes."""
    path = _path(thread)
    return f"{THREADS}{path}/", f"{LATE}{path}/"


def names_of(ref: str) -> tuple[str, str] | None:
    """The thread and namespace of a ref of either kind; None unless it is exactly what ``ref_of`` or ``late_ref`` gives."""
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
        name = "" if text == "_" else unescape(text[1:]) if text.startswith("=") else None
        if name is None or len(names) == 2:
            return None
        names.append(name)
        text = ""
    if len(names) != 2 or text:
        return None
    try:
        return (names[0], names[1]) if _ref(prefix, names[0], names[1]) == ref else None
    except UsageError:
        return None


def _ref(prefix: str, thread: str, namespace: str) -> str:
    ref = f"{prefix}{_path(thread)}/{_path(namespace)}"
    if len(ref) > _REF:
        raise UsageError(f"the ref of thread '{_path(thread)[1:61]}...' has {len(ref)} bytes; the limit is {_REF}")
    return ref


def _path(name: str) -> str:
    """A name as one path component, or as several of which each but the last ends in a lone ``%``: no whole name does, so no
    file ever stands where another name needs a folder."""
    text = "=" + escape(name) if name else "_"
    parts = []
    while len(text) > _PART + 1:
        cut = text.rfind("%", _PART - 2, _PART)  # a %XX that would be cut
        cut = cut if cut > 0 and cut + 3 > _PART else _PART
        parts.append(text[:cut] + "%")
        text = text[cut:]
    return "/".join((*parts, text))
