"""Globs: normalized, matched against paths, and tested for overlap. No I/O.

``**`` as a whole name stands for any number of folders, ``*``, ``?``, ``[a-z]`` and ``[!a]`` for characters of one name, hidden
names included; ``\\`` quotes the next character. A glob without wildcards means the file of that path, or all files below the
folder of that path; one that ends in ``/`` means all files below. A file below ``.git``, in any case, never matches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from gitbaton.errors import UsageError
from gitbaton.worktree import globnames
from gitbaton.worktree.globnames import STAR, Tokens

LONGEST, LONGEST_NAME = 4096, 255  # what Linux allows of a path and of a name
MOST_NAMES, MOST_WILD = 128, 64  # names in a glob, wildcards in a name: so that no comparison takes long
_DEEP = None  # an element of a path: any number of names
_BRACES = re.compile(r"\\.|(\{(?:[^{}\\]|\\.)*,(?:[^{}\\]|\\.)*\})", re.DOTALL)

Elements = tuple[Tokens | None, ...]


def check(glob: str) -> str:
    """The glob in its normal form, relative to the top of the work tree: without ``.``, ``..`` and doubled slashes, ``folder/``
    as ``folder/**``. Raises UsageError when it is empty, absolute, malformed, or names something outside or in ``.git``."""
    if not glob:
        raise UsageError("a glob is empty", "'.' means every file of the work tree")
    if glob[0] == "/":
        hint = "globs are relative: in a plan file to the top of the work tree, on a command line to the current directory"
        raise UsageError(f"glob '{glob}' is absolute", hint)
    if glob[0] == "!":
        raise UsageError(f"glob '{glob}' begins with '!'", "globs do not exclude; quote a real one as '\\!'")
    if "\0" in glob or len(glob) > LONGEST:
        raise UsageError("a glob has a NUL" if "\0" in glob else f"a glob is longer than {LONGEST} characters")
    if any(found[1] for found in _BRACES.finditer(glob)):
        raise UsageError(f"glob '{glob}' has braces, which do not expand", "write one glob for each; quote real ones as '\\{'")
    names: list[str] = []
    pieces = glob.split("/")
    for piece in pieces:
        if piece not in ("", "."):
            _add(names, piece, glob)
    if pieces[-1] in ("", ".", "..") and names[-1:] != ["**"]:
        names.append("**")
    if len(names) > MOST_NAMES:
        raise UsageError(f"glob '{glob[:80]}...' has more than {MOST_NAMES} names")
    return "/".join(names)


def _add(names: list[str], piece: str, glob: str) -> None:
    """Put one more name of a glob in its place among those before it."""
    if piece == "**":
        if names[-1:] != ["**"]:
            names.append(piece)
        return
    try:
        tokens, literal = globnames.tokens(piece), globnames.literal(piece)
    except ValueError as error:
        raise UsageError(f"glob '{glob}' {error}", "a backslash before a character takes its meaning away") from None
    if sum(token is not STAR for token in tokens) > LONGEST_NAME:
        raise UsageError(f"glob '{glob[:80]}...' has a name longer than {LONGEST_NAME} characters")
    if globnames.count(tokens) > MOST_WILD:
        raise UsageError(f"glob '{glob[:80]}...' has a name with more than {MOST_WILD} wildcards")
    if literal == "..":
        if not names:
            raise UsageError(f"glob '{glob}' leaves the work tree")
        if globnames.literal(names[-1]) is None:
            raise UsageError(f"glob '{glob}' has '..' after a wildcard")
        names.pop()
    elif literal is not None and literal.lower() == ".git":
        raise UsageError(f"glob '{glob}' names '.git'", "what is below '.git' is no file of the work tree")
    elif literal != ".":
        names.append(piece)


def relative(glob: str, prefix: str) -> str:
    """The normal form of a glob that was given in folder ``prefix`` (relative to the top, '' for the top itself). Raises
    UsageError as check()."""
    if not prefix or not glob or glob[0] in "/!":
        return check(glob)
    whole = f"{quote(prefix)}/{glob}"
    try:
        return check(whole)
    except UsageError as error:
        raise UsageError(error.message.replace(whole, glob), *error.hints) from None


def quote(path: str) -> str:
    """A glob for exactly that path and what is below it."""
    return re.sub(r"([\\*?\[{]|^!)", r"\\\1", path)


@lru_cache(maxsize=1 << 14)
def fixed(glob: str) -> str:
    """The path that everything which a glob in its normal form matches is, or is below: the names before its first wildcard,
    unquoted; '' for the top."""
    names: list[str] = []
    for piece in glob.split("/"):
        literal = globnames.literal(piece)
        if literal is None:
            break
        names.append(literal)
    return "/".join(names)


def roots(globs: Sequence[str]) -> tuple[str, ...]:
    """The paths to look at for all files that globs in their normal form match, none below another, sorted: folders, but
    those of globs without wildcards may be files, and need not exist. '' is the top."""
    found = {fixed(glob) for glob in globs}
    if "" in found:
        return ("",)
    return tuple(sorted(path for path in found if not any(above in found for above in _above(path))))


def matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    """Whether one of these globs, in their normal form, matches a path: '/'-separated, relative to the top, surrogateescape."""
    plain = frozenset(fixed(glob) for glob in globs if not globnames.wild(glob))
    wild = [_path_regex(_elements(glob)) for glob in dict.fromkeys(globs) if globnames.wild(glob)]
    search = re.compile("|".join(wild), re.DOTALL).match if wild else None

    def matches(path: str) -> bool:
        if not (path in plain or (search and search(path)) or (plain and any(above in plain for above in _above(path)))):
            return False
        return ".git" not in path.lower() or ".git" not in path.lower().split("/")

    return matches


def below(globs: Sequence[str]) -> Callable[[str], bool]:
    """Whether files below a folder ('' for the top) can match one of these globs in their normal form; answers are kept, so a
    walk that asks for each folder after the one above it pays little."""
    paths = [path for glob in globs for path in _variants(glob)]
    known: dict[str, frozenset[tuple[int, int]]] = {"": _closed(paths, {(number, 0) for number in range(len(paths))})}

    def states(folder: str) -> frozenset[tuple[int, int]]:
        if folder not in known:
            above, _, name = folder.rpartition("/")
            known[folder] = _after(paths, states(above), name) if name.lower() != ".git" else frozenset()
        return known[folder]

    return lambda folder: any(at < len(paths[number]) for number, at in states(folder))


def overlap(a: Sequence[str], b: Sequence[str]) -> tuple[str, str] | None:
    """The first glob of ``a`` and the first of ``b`` (in their normal forms) that some path matches both of; None when no path
    can. Exact, whatever files there are."""
    return next(((one, other) for one in a for other in b if meet(one, other)), None)


def meet(a: str, b: str) -> bool:
    """Whether some path can match both of two globs in their normal form."""
    (lead_a, tail_a), (lead_b, tail_b) = _ends(a), _ends(b)
    if not (lead_a.startswith(lead_b) or lead_b.startswith(lead_a)):
        return False
    if not (tail_a.endswith(tail_b) or tail_b.endswith(tail_a)):
        return False
    return any(_cross(x, y) for x in _variants(a) for y in _variants(b))


@lru_cache(maxsize=1 << 14)
def _ends(glob: str) -> tuple[str, str]:
    """What every path that matches begins with, and what it ends with, as far as a glance shows."""
    if not globnames.wild(glob):
        return fixed(glob), ""
    return fixed(glob), re.split(r"[]*?\\]", glob)[-1].lstrip("/")


def _above(path: str) -> Iterator[str]:
    """The folders above a path, the top not among them."""
    at = path.find("/")
    while at > 0:
        yield path[:at]
        at = path.find("/", at + 1)


def _elements(glob: str) -> Elements:
    return tuple(_DEEP if piece == "**" else globnames.tokens(piece) for piece in glob.split("/"))


@lru_cache(maxsize=1 << 14)
def _variants(glob: str) -> tuple[Elements, ...]:
    """The plain sequences of names that a glob means together; one that ends in ``**`` asks for a name at least."""
    elements = _elements(glob)
    if elements[-1] is _DEEP:
        return ((*elements, (STAR,)),)
    return (elements,) if globnames.wild(glob) else (elements, (*elements, _DEEP, (STAR,)))


@lru_cache(maxsize=1 << 14)
def _cross(a: Elements, b: Elements) -> bool:
    """Whether some path is one of both."""
    seen, todo = {(0, 0)}, [(0, 0)]
    while todo:
        i, j = todo.pop()
        if i == len(a) and j == len(b):
            return True
        deep_a, deep_b = i < len(a) and a[i] is _DEEP, j < len(b) and b[j] is _DEEP
        ways = [(i + 1, j)] * deep_a + [(i, j + 1)] * deep_b
        if i < len(a) and j < len(b) and not (deep_a and deep_b) and globnames.same_name(_name(a[i]), _name(b[j])):
            ways.append((i + (not deep_a), j + (not deep_b)))
        todo += [way for way in ways if way not in seen]
        seen.update(ways)
    return False


def _name(element: Tokens | None) -> Tokens:
    return (STAR,) if element is _DEEP else element


def _closed(paths: Sequence[Elements], states: set[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """With the states that are reached when a ``**`` stands for nothing."""
    todo = list(states)
    while todo:
        number, at = todo.pop()
        if at < len(paths[number]) and paths[number][at] is _DEEP and (number, at + 1) not in states:
            states.add((number, at + 1))
            todo.append((number, at + 1))
    return frozenset(states)


def _after(paths: Sequence[Elements], states: frozenset[tuple[int, int]], name: str) -> frozenset[tuple[int, int]]:
    reached = set()
    for number, at in states:
        element = paths[number][at] if at < len(paths[number]) else ()
        if element is _DEEP:
            reached.add((number, at))
        elif element and globnames.name_matcher(element)(name):
            reached.add((number, at + 1))
    return _closed(paths, reached)


def _path_regex(elements: Elements) -> str:
    """Each stretch of names after a ``**`` is taken where it first fits and never tried elsewhere (``(?>``): that is enough,
    and it keeps the time in proportion to the length of the path."""
    parts: list[list[str]] = [[]]
    for element in elements:
        if element is _DEEP:
            parts.append([])
        else:
            parts[-1].append(globnames.name_regex(element))
    first, *rest = ["/".join(part) for part in parts]
    if not rest:
        return rf"{first}\Z"
    middle = "".join(rf"(?>(?:[^/]+/)*?{part}/)" for part in rest[:-1])
    last = rf"(?:[^/]+/)*{rest[-1]}\Z" if rest[-1] else r".+\Z"
    return (f"{first}/" if first else "") + middle + last
