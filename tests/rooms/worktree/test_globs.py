"""Globs: what is refused, what matches, and whether two of them can meet; judged by a matcher that tries every way."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.base.errors import UsageError
from gitbaton.git.worktree import globs

NAME = st.sampled_from(["a", "b", "ab", ".a", "[", "*a", "a-", ".git", "{a,b}"])
PATH = st.lists(NAME, min_size=1, max_size=3).map("/".join)
PIECE = st.one_of(
    st.just("**"),
    st.lists(
        st.sampled_from(["a", "b", ".", "g", "*", "?", "[a-f]", "[!a]", "[]a-]", "\\[", "\\*", "\\a"]), min_size=1, max_size=2
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
    names, pieces = path.split("/"), glob.split("/")
    if any(name.lower() == ".git" for name in names):
        return False
    if not set(re.sub(r"\\.", "", glob)) & set("*?["):
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


@pytest.mark.deep
def test_a_name_matches_as_when_every_way_is_tried() -> None:
    names = ["".join(chars) for n in range(1, 4) for chars in itertools.product("ab", repeat=n)] + [
        "]",
        "-",
        "a-",
        "[",
        "*",
        ".a",
    ]
    shapes = [*itertools.product("a*", repeat=4), *itertools.product("a*", repeat=5)]
    for n in (1, 2, 3):
        shapes += itertools.product(["a", "*", "?", "[!a]", "\\*"], repeat=n)
    for tokens in shapes:
        glob = "".join(tokens)
        if glob != "**":
            matches = globs.matcher([glob])
            assert [name for name in names if matches(name)] == [name for name in names if slow(glob, name)], glob


@pytest.mark.deep
def test_a_path_matches_as_when_every_way_is_tried() -> None:
    paths = ["/".join(names) for n in range(1, 6) for names in itertools.product("ab", repeat=n)]
    for pieces in (p for n in range(1, 6) for p in itertools.product(["a", "*", "**"], repeat=n)):
        glob = globs.check("/".join(pieces))
        matches = globs.matcher([glob])
        assert [path for path in paths if matches(path)] == [path for path in paths if slow(glob, path)], glob


@pytest.mark.parametrize(
    ("glob", "chars"),
    [
        ("[a-ce]", "abce"),
        ("[]a-]", "]a-"),
        ("[!a-fc-d]", "ghxyz"),
        ("[^a-yb]", "z"),
        ("[c-da-e]", "abcde"),
        ("[\\]-]", "]-"),
        ("[a\\-c]", "a-c"),
    ],
)
def test_brackets(glob: str, chars: str) -> None:
    matches = globs.matcher([glob])
    assert {char for char in "abcdefghxyz]-" if matches(char)} == set(chars) | (set("]-") if glob[1] in "!^" else set())
    assert all(globs.meet(glob, globs.quote(char)) == matches(char) for char in "abcdefghxyz]-\\!^")


@pytest.mark.deep
@given(st.lists(GLOB, max_size=3), PATH)
def test_several_globs_match_as_when_every_way_is_tried(some: list[str], path: str) -> None:
    assert globs.matcher(some)(path) == any(slow(glob, path) for glob in some)


@pytest.mark.deep
@given(st.lists(GLOB, min_size=1, max_size=3), PATH)
def test_a_walk_that_is_led_finds_every_match(some: list[str], path: str) -> None:
    above = ["", *itertools.accumulate(path.split("/")[:-1], "{}/{}".format)]
    assert all(globs.check(glob) == glob for glob in some)
    if globs.matcher(some)(path):
        assert all(map(globs.below(some), above))
        assert any(root == "" or f"{path}/".startswith(f"{root}/") for root in globs.roots(some))


@pytest.mark.deep
@given(SHAPE.filter(legal), PATH, PATH)
def test_a_glob_of_a_folder_means_the_same_there(glob: str, folder: str, path: str) -> None:
    if ".git" in folder.split("/"):
        return
    there = globs.relative(glob, folder)
    assert globs.matcher([there])(f"{folder}/{path}") == globs.matcher([globs.check(glob)])(path)


@pytest.mark.deep
@given(PATH, PATH)
def test_a_quoted_path_means_that_path(path: str, other: str) -> None:
    if ".git" not in path.split("/"):
        matches = globs.matcher([globs.check(globs.quote(path))])
        assert matches(path) and matches(other) == (f"{other}/".startswith(f"{path}/") and ".git" not in other.split("/"))


@pytest.mark.deep
def test_two_globs_meet_exactly_where_a_path_matches_both() -> None:
    """Every pair of short globs, against every path that is long enough to tell."""
    names = ["".join(chars) for n in (1, 2) for chars in itertools.product("ab.", repeat=n)]
    names = [name for name in names if name not in (".", "..")] + [".gia", ".gib", ".git", ".GIT"]
    paths = ["/".join(path) for n in (1, 2, 3) for path in itertools.product(names, repeat=n)]
    pieces = ["a", "b", "a*", "*b", "?", "[!a]", "*", "**", ".*", ".gi?", ".[gG]it", "[.]", "[^b]?"]
    shapes = dict.fromkeys(globs.check("/".join(shape)) for n in (1, 2) for shape in itertools.product(pieces, repeat=n))
    matched = {glob: set(filter(globs.matcher([glob]), paths)) for glob in shapes}
    for one, other in itertools.combinations_with_replacement(shapes, 2):
        both = matched[one] & matched[other]
        assert globs.overlap([one], [other]) == ((one, other) if both else None), (one, other, both)
        assert globs.meet(other, one) == bool(both)
    assert globs.overlap(["x*", "a/*"], ["y", "**/b"]) == ("a/*", "**/b")


def test_a_led_walk_leaves_out_what_cannot_match() -> None:
    below = globs.below(["src/*/x.c", "doc", "*.json"])
    asked = ["", "src", "src/a", "doc", "doc/deep/er", "lib", "src/a/b", "doc/.git", ".git"]
    assert [folder for folder in asked if below(folder)] == ["", "src", "src/a", "doc", "doc/deep/er"]
    assert globs.roots(["src/*/x.c", "src/y", "doc/a", "doc"]) == ("doc", "src")
    assert globs.roots(["src/x", "*.json"]) == ("",) and globs.roots([]) == ()


def test_names_that_are_not_utf8_match() -> None:
    name = b"d/\xff\n.c".decode("utf-8", "surrogateescape")
    assert globs.matcher(["d/??.c"])(name) and globs.matcher(["d/[!a]*"])(name) and globs.meet(globs.quote(name), "**/?\n*")


@pytest.mark.parametrize(
    ("glob", "words"),
    [
        ("/" + "a" * 4096, "longer than 4096"),
        *[("", "is empty"), ("/x", "absolute"), ("../x", "leaves"), ("a/../../x", "leaves"), ("a/\\.\\./../x/../..", "leaves")],
        *[("a/*/../x", "after a wildcard"), ("**/..", "after a wildcard"), (".git", "'.git'"), ("a/.GIT/x", "'.git'")],
        *[("\\.git/x", "'.git'"), ("[a", "without a ']'"), ("[a/b]", "without a ']'"), ("a\\", "quotes nothing")],
        *[
            ("[\\", "quotes nothing"),
            ("[[:alpha:]]", "not understood"),
            ("[z-a]", "is empty"),
            ("*.{c,h}", "braces"),
            ("!x", "'!'"),
        ],
        *[
            ("a\0", "NUL"),
            ("a" * 4097, "4096"),
            ("/" + "a" * 4096, "4096"),
            ("a" * 256, "255"),
            ("?" * 65, "64 wildcards"),
            ("a/" * 129, "128 names"),
        ],
    ],
)
def test_what_names_no_file_of_the_work_tree_is_refused(glob: str, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        globs.check(glob)
    if words != "leaves":
        with pytest.raises(UsageError, match=re.escape(words)):
            globs.relative(glob, "sub")


def test_normal_forms() -> None:
    given = {"./a//b": "a/b", ".": "**", "a/": "a/**", "a/.": "a/**", "a/b/..": "a/**", "a/../b": "b", "**/**/x": "**/x"}
    given |= {"a/**/": "a/**", "./": "**", "\\{a,b}": "\\{a,b}", "[id].c": "[id].c", ".github": ".github", "a/*/": "a/*/**"}
    given |= {"\\.": "**", "a/\\.\\.": "**", "a/b/\\.\\.": "a/**", "a/\\.": "a/**"}
    assert {glob: globs.check(glob) for glob in given} == given
    assert globs.relative("../x", "sub") == "x" and globs.relative(".", "a[1]/*") == "a\\[1]/\\*/**"
    with pytest.raises(UsageError, match=re.escape("glob '../../x' leaves the work tree")):
        globs.relative("../../x", "sub")


def test_no_glob_takes_long() -> None:
    """Who tries every way in turn does not come to an end."""
    assert not globs.matcher([globs.check("*a" * 64 + "c")])("a" * 250 + "b")
    assert not globs.matcher([globs.check("**/a/*a*/" * 40 + "b")])("a/" * 2000 + "c")
    assert not globs.meet(globs.check("**/" + "*/" * 126 + "x"), globs.check("**/" + "*/" * 120 + "y*"))
    assert not globs.meet("*" + "[a-z]" * 62, "*" + "[a-y]" * 61 + "[0-9]")
    assert globs.meet("*" + "?" * 62, "*" + "?" * 62 + "*")
