"""Globs: what is refused, what matches, and whether two of them can meet; judged by a matcher that tries every way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.errors import UsageError
from gitbaton.git import globs

NAME = st.text("ab.git[-", min_size=1, max_size=3)
PATH = st.lists(NAME.filter(lambda n: n not in (".", "..")), min_size=1, max_size=4).map("/".join)
PIECE = st.one_of(
    st.just("**"),
    st.lists(
        st.sampled_from(["a", "b", ".", "g", "*", "?", "[a-f]", "[!a]", "[]a-]", "\\[", "\\*", "\\a"]), min_size=1, max_size=4
    ).map("".join),
)
SHAPE = st.tuples(st.lists(PIECE, min_size=1, max_size=4).map("/".join), st.sampled_from(["", "", "/"])).map("".join)


def legal(shape: str) -> bool:
    try:
        return bool(globs.check(shape))
    except UsageError:
        return False


GLOB = SHAPE.filter(legal).map(globs.check)


def slow(glob: str, path: str) -> bool:
    """Whether the glob matches the path, by trying every way."""
    if any(name.lower() == ".git" for name in path.split("/")):
        return False
    pieces, names = glob.split("/"), path.split("/")
    if not re.sub(r"\\.", "", glob, flags=re.DOTALL).translate({ord(c): None for c in "*?["}) != re.sub(r"\\.", "", glob):
        whole = [re.sub(r"\\(.)", r"\1", piece) for piece in pieces]
        return names[: len(whole)] == whole
    return _names(pieces, names)


def _names(pieces: list[str], names: list[str]) -> bool:
    if not pieces or not names:
        return not pieces and not names
    if pieces[0] == "**":
        return len(pieces) == 1 or _names(pieces[1:], names) or _names(pieces, names[1:])
    return _chars(pieces[0], names[0]) and _names(pieces[1:], names[1:])


def _chars(piece: str, name: str) -> bool:
    if not piece:
        return not name
    if piece[0] == "*":
        return _chars(piece[1:], name) or (name != "" and _chars(piece, name[1:]))
    for text, allowed in (("[a-f]", "abcdef"), ("[]a-]", "]a-"), ("?", None), ("[!a]", None)):
        if piece.startswith(text):
            good = name[:1] in allowed if allowed else name[:1] != "" and (text == "?" or name[0] != "a")
            return name != "" and good and _chars(piece[len(text) :], name[1:])
    literal = piece.removeprefix("\\")
    return name[:1] == literal[0] and _chars(literal[1:], name[1:])


@given(st.lists(GLOB, max_size=3), PATH)
def test_a_path_matches_as_when_every_way_is_tried(some: list[str], path: str) -> None:
    assert globs.matcher(some)(path) == any(slow(glob, path) for glob in some)
