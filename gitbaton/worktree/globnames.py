"""Globs of one name: parsed, as a regular expression, and intersected with another. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

STAR = None  # a token: any number of characters
_FORBIDDEN = ("", ".", "..", ".git")  # names that no file of a work tree has
_TELLING = ".gitGIT"
_WILD = re.compile(r"\\.|([*?\[])", re.DOTALL)

Ranges = tuple[tuple[int, int], ...]
Tokens = tuple[Ranges | None, ...]
# every character of a name: not NUL, not "/", and of the surrogates those that stand for bytes which are not UTF-8
_ANY: Ranges = ((1, 0x2E), (0x30, 0xD7FF), (0xDC80, 0xDCFF), (0xE000, 0x10FFFF))


def wild(glob: str) -> bool:
    """Whether a glob, or a name of one, has wildcards."""
    return any(found[1] for found in _WILD.finditer(glob))


def literal(piece: str) -> str | None:
    """A name without its quotes, or None when it has wildcards."""
    return None if wild(piece) else re.sub(r"\\(.)", r"\1", piece, flags=re.DOTALL)


def count(tokens: Tokens) -> int:
    """How many wildcards a name has."""
    return sum(token is STAR or len(token) != 1 or token[0][0] != token[0][1] for token in tokens)


@lru_cache(maxsize=1 << 14)
def tokens(piece: str) -> Tokens:
    """A name of a glob as the characters that it allows, one after the other. Raises ValueError that says what is wrong."""
    tokens: list[Ranges | None] = []
    at = 0
    while at < len(piece):
        char, at = piece[at], at + 1
        if char == "*":
            tokens += [STAR] if tokens[-1:] != [STAR] else []
        elif char == "?":
            tokens.append(_ANY)
        elif char == "[":
            ranges, at = _bracket(piece, at)
            tokens.append(ranges)
        else:
            if char == "\\":
                if at == len(piece):
                    raise ValueError("has a backslash that quotes nothing")
                char, at = piece[at], at + 1
            tokens.append(((ord(char), ord(char)),))
    return tuple(tokens)


def _bracket(piece: str, at: int) -> tuple[Ranges, int]:
    """The characters that ``[...]`` allows, and where it ends."""
    negated = piece[at : at + 1] in ("!", "^")
    at += negated
    first, found = at, []
    while at < len(piece) and (piece[at] != "]" or at == first):
        if piece.startswith(("[:", "[.", "[="), at):
            raise ValueError(f"has '{piece[at : at + 2]}' in brackets, which is not understood")
        low, at = _member(piece, at)
        high = low
        if piece[at : at + 1] == "-" and piece[at + 1 : at + 2] not in ("", "]"):
            high, at = _member(piece, at + 1)
        if low > high:
            raise ValueError(f"has the range '{chr(low)}-{chr(high)}', which is empty")
        found.append((low, high))
    if at >= len(piece):
        raise ValueError("has a '[' without a ']' in the same name")
    return _meet(_ANY, _complement(found) if negated else _tidy(found)), at + 1


def _member(piece: str, at: int) -> tuple[int, int]:
    at += piece[at] == "\\"
    if at == len(piece):
        raise ValueError("has a backslash that quotes nothing")
    return ord(piece[at]), at + 1


def _tidy(found: list[tuple[int, int]]) -> Ranges:
    """Ranges sorted and joined where they touch."""
    tidy: list[tuple[int, int]] = []
    for low, high in sorted(found):
        if tidy and low <= tidy[-1][1] + 1:
            tidy[-1] = (tidy[-1][0], max(high, tidy[-1][1]))
        else:
            tidy.append((low, high))
    return tuple(tidy)


def _complement(found: list[tuple[int, int]]) -> Ranges:
    ranges, start = [], 1
    for low, high in _tidy(found):
        ranges += [(start, low - 1)] if start < low else []
        start = high + 1
    return (*ranges, (start, 0x10FFFF)) if start <= 0x10FFFF else tuple(ranges)


def _meet(a: Ranges, b: Ranges) -> Ranges:
    """The characters of both."""
    return tuple((max(x[0], y[0]), min(x[1], y[1])) for x in a for y in b if max(x[0], y[0]) <= min(x[1], y[1]))


@lru_cache(maxsize=1 << 14)
def same_name(a: Tokens, b: Tokens) -> bool:
    """Whether some name that a file may have is one of both. ``said`` in a state is what was consumed, in lower case, as long
    as it may become one of the names that no file has."""
    start: tuple[int, int, str | None] = (0, 0, "")
    seen, todo = {start}, [start]
    while todo:
        i, j, said = todo.pop()
        if i == len(a) and j == len(b) and said not in _FORBIDDEN:
            return True
        star_a, star_b = i < len(a) and a[i] is STAR, j < len(b) and b[j] is STAR
        ways = [(i + 1, j, said)] * star_a + [(i, j + 1, said)] * star_b
        if i < len(a) and j < len(b):
            both = _meet(_chars(a[i]), _chars(b[j]))
            ways += [(i + (not star_a), j + (not star_b), now) for now in _said(said, both)]
        todo += [way for way in ways if way not in seen]
        seen.update(ways)
    return False


def _chars(token: Ranges | None) -> Ranges:
    return _ANY if token is STAR else token


def _said(said: str | None, chars: Ranges) -> list[str | None]:
    """What is said after one more of these characters."""
    if said is None:
        return [None] if chars else []
    telling = [char for char in _TELLING if any(low <= ord(char) <= high for low, high in chars)]
    longer = {said + char.lower() for char in telling}
    now: list[str | None] = [text if any(word.startswith(text) for word in _FORBIDDEN) else None for text in sorted(longer)]
    return [*now, None] if sum(high - low + 1 for low, high in chars) > len(telling) else now


@lru_cache(maxsize=1 << 14)
def name_matcher(tokens: Tokens) -> Callable[[str], object]:
    """What tells whether a name is one of these."""
    return re.compile(name_regex(tokens) + r"\Z", re.DOTALL).match


def name_regex(tokens: Tokens) -> str:
    """The names as a regular expression. Each stretch of characters after a ``*`` is taken where it first fits and never tried
    elsewhere (``(?>``): that is enough, and it keeps the time in proportion to the length. The end of the name must follow."""
    if tokens == (STAR,):
        return "[^/]+"
    parts = [""]
    for token in tokens:
        if token is STAR:
            parts.append("")
        else:
            parts[-1] += _char_regex(token)
    first, *rest = parts
    if not rest:
        return first
    return first + "".join(f"(?>[^/]*?{part})" for part in rest[:-1]) + f"[^/]*{rest[-1]}"


def _char_regex(ranges: Ranges) -> str:
    if ranges == _ANY:
        return "[^/]"
    if not ranges:
        return r"(?!)"
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return re.escape(chr(ranges[0][0]))
    return "[" + "".join(f"{re.escape(chr(low))}-{re.escape(chr(high))}" for low, high in ranges) + "]"
