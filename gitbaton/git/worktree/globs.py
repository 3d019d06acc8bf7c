"""Globs: normalized, matched against paths, and tested for overlap. No I/O.

``**`` as a whole name stands for any number of folders, ``*``, ``?``, ``[a-z]`` and ``[!a]`` for characters of one name, hidden
names included; ``\\`` quotes the next character. A glob without wildcards means the file of that path, or all files below the
folder of that path; one that ends in ``/`` means all files below. A file below ``.git``, in any case, never matches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from gitbaton.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STAR = None  # a token: any number of characters
_ANY = "[^/]"  # a token: one character of a name
_FORBIDDEN = ("", ".", "..", ".git")  # names that no file of a work tree has
_WILD = re.compile(r"\\.|([*?\[])", re.DOTALL)
_TOKEN = re.compile(r"\\(.)|(\*+)|(\?)|\[([!^]?+)(\]?+(?:\\.|[^]\\])*+)\]|([\[\\])|(.)", re.DOTALL)
_MEMBER = re.compile(r"\\?(.)(?:-\\?(.))?", re.DOTALL)

Tokens = tuple[str | None, ...]  # regular expressions, each of one character, and STAR


def is_wild(glob: str) -> bool:
    """Whether a glob, or a name of one, has wildcards."""
    return any(found[1] for found in _WILD.finditer(glob))


def literal_of(piece: str) -> str | None:
    """Return a name without its quotes, or None when it has wildcards."""
    return None if is_wild(piece) else re.sub(r"\\(.)", r"\1", piece, flags=re.DOTALL)


@lru_cache(maxsize=1 << 14)
def tokens_of(piece: str) -> Tokens:
    """Return a name of a glob as the characters that it allows, one after the other. Raises ValueError that says what is
    wrong."""
    tokens: list[str | None] = []
    for found in _TOKEN.finditer(piece):
        quoted, star, any_char, negated, listed, lone, char = found.groups()
        if lone:
            odd = (len(piece) - len(piece.rstrip("\\"))) % 2
            raise ValueError("has a backslash that quotes nothing" if odd else "has a '[' without a ']' in the same name")
        if listed:
            tokens.append(f"[^/{_members(listed)}]" if negated else f"(?!/)[{_members(listed)}]")
        else:
            tokens.append(STAR if star else _ANY if any_char else re.escape(quoted or char))
    return tuple(tokens)


def _members(listed: str) -> str:
    """Return a class between brackets as a regular expression has it."""
    ranges = ""
    for found in _MEMBER.finditer(listed):
        low, high = found[1], found[2] or found[1]
        if listed.startswith(("[:", "[.", "[="), found.start()):
            raise ValueError(f"has '{listed[found.start() : found.start() + 2]}' in brackets, which is not understood")
        if low > high:
            raise ValueError(f"has the range '{low}-{high}', which is empty")
        ranges += f"{re.escape(low)}-{re.escape(high)}"
    return ranges


@lru_cache(maxsize=1 << 14)
def same_name(a: Tokens, b: Tokens) -> bool:
    """Whether a name that a file may have matches both."""
    return bool(_joint(a, b, "", _spelt).difference(_FORBIDDEN))


def _joint(
    a: Sequence[Any], b: Sequence[Any], start: str | None, follow: Callable[[Any, Any, str | None], Iterable[str | None]]
) -> set[str | None]:
    """Return the states in which two sequences can end together. None in one stands for any number of elements; ``follow``
    returns the states after an element of both."""
    seen, todo = {(0, 0, start)}, [(0, 0, start)]
    while todo:
        i, j, state = todo.pop()
        many_a, many_b = i < len(a) and a[i] is None, j < len(b) and b[j] is None
        ways = [(i + 1, j, state)] * many_a + [(i, j + 1, state)] * many_b
        if i < len(a) and j < len(b):
            ways += [(i + (not many_a), j + (not many_b), now) for now in follow(a[i], b[j], state)]
        todo += [way for way in ways if way not in seen]
        seen.update(ways)
    return {state for i, j, state in seen if i == len(a) and j == len(b)}


def _spelt(a: str | None, b: str | None, said: str | None) -> set[str | None]:
    """Return what is spelt in lower case after a character of both, None where that is no beginning of a forbidden name."""
    longer = {said if said is None else said + char for char in _common(a or _ANY, b or _ANY)}
    return {text if text and any(word.startswith(text) for word in _FORBIDDEN) else None for text in longer}


@lru_cache(maxsize=1 << 14)
def _common(a: str, b: str) -> frozenset[str]:
    """Return characters, in lower case, that two tokens allow: of each range that both have, those at its ends at least."""
    near = {max(1, min(ord(char) + by, 0x10FFFF)) for char in f"{a}{b}x.git" for by in range(-2, 3)}
    one, other = re.compile(a, re.DOTALL).match, re.compile(b, re.DOTALL).match
    return frozenset(char.lower() for char in map(chr, near) if one(char) and other(char))


def name_regex(tokens: Tokens) -> str:
    """Return the names as a regular expression. Each stretch of characters after a ``*`` is taken where it first fits and
    never tried elsewhere (``(?>``): that is enough, and it keeps the time in proportion to the length. The end of the name
    must follow."""
    if tokens == (STAR,):
        return "[^/]+"
    parts = [""]
    for token in tokens:
        if token is STAR:
            parts.append("")
        else:
            parts[-1] += token
    first, *rest = parts
    if not rest:
        return first
    return first + "".join(f"(?>[^/]*?{part})" for part in rest[:-1]) + f"[^/]*{rest[-1]}"


LONGEST, LONGEST_NAME = 4096, 255  # what Linux allows of a path and of a name
MOST_NAMES, MOST_WILD = 128, 64  # names in a glob, wildcards in a name: so that no comparison takes long
_DEEP = None  # an element of a path: any number of names
_BRACES = re.compile(r"\\.|(\{(?:[^{}\\]|\\.)*,(?:[^{}\\]|\\.)*\})", re.DOTALL)

Elements = tuple[Tokens | None, ...]


def check(glob: str) -> str:
    """Return the glob in its normal form, relative to the top of the work tree: without ``.``, ``..`` and doubled slashes,
    ``folder/`` as ``folder/**``. Raises UsageError when it is empty, absolute or malformed, begins with ``!``, has braces, or
    names something outside or in ``.git``."""
    if not glob:
        raise UsageError("a glob is empty", "'.' means every file of the work tree")
    if "\0" in glob or len(glob) > LONGEST:
        raise UsageError("a glob has a NUL" if "\0" in glob else f"a glob is longer than {LONGEST} characters")
    if glob[0] == "/":
        hint = "globs are relative: in a plan file to the top of the work tree, on a command line to the current directory"
        raise UsageError(f"glob '{glob}' is absolute", hint)
    if glob[0] == "!":
        raise UsageError(f"glob '{glob}' begins with '!'", "globs do not exclude; quote a real one as '\\!'")
    if any(found[1] for found in _BRACES.finditer(glob)):
        raise UsageError(f"glob '{glob}' has braces, which do not expand", "write one glob for each; quote real ones as '\\{'")
    names: list[str] = []
    pieces = glob.split("/")
    for piece in pieces:
        if piece not in ("", "."):
            _add(names, piece, glob)
    if literal_of(pieces[-1]) in ("", ".", "..") and names[-1:] != ["**"]:
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
        tokens, literal = tokens_of(piece), literal_of(piece)
    except ValueError as error:
        raise UsageError(f"glob '{glob}' {error}", "a backslash before a character takes its meaning away") from None
    if sum(token is not STAR for token in tokens) > LONGEST_NAME:
        raise UsageError(f"glob '{glob[:80]}...' has a name longer than {LONGEST_NAME} characters")
    if sum(token is STAR or len(token) > 2 for token in tokens) > MOST_WILD:
        raise UsageError(f"glob '{glob[:80]}...' has a name with more than {MOST_WILD} wildcards")
    if literal == "..":
        if not names:
            raise UsageError(f"glob '{glob}' leaves the work tree")
        if literal_of(names[-1]) is None:
            raise UsageError(f"glob '{glob}' has '..' after a wildcard")
        names.pop()
    elif literal is not None and literal.lower() == ".git":
        raise UsageError(f"glob '{glob}' names '.git'", "what is below '.git' is no file of the work tree")
    elif literal != ".":
        names.append(piece)


def relative(glob: str, prefix: str) -> str:
    """Return the normal form of a glob that was given in folder ``prefix`` (relative to the top, '' for the top itself).
    Raises UsageError as check()."""
    if not prefix or not glob or glob[0] in "/!":
        return check(glob)
    whole = f"{quote(prefix)}/{glob}"
    try:
        return check(whole)
    except UsageError as error:
        raise UsageError(error.message.replace(whole, glob), *error.hints) from None


def quote(path: str) -> str:
    """Return a glob for exactly that path and what is below it."""
    return re.sub(r"([\\*?\[{]|^!)", r"\\\1", path)


@lru_cache(maxsize=1 << 14)
def fixed(glob: str) -> str:
    """Return the path that everything which a glob in its normal form matches is, or is below: the names before its first
    wildcard, unquoted; '' for the top."""
    names: list[str] = []
    for piece in glob.split("/"):
        literal = literal_of(piece)
        if literal is None:
            break
        names.append(literal)
    return "/".join(names)


def roots(globs: Sequence[str]) -> tuple[str, ...]:
    """Return the paths to look at for all files that globs in their normal form match, none below another, sorted: folders,
    but those of globs without wildcards may be files, and need not exist. '' is the top."""
    found = {fixed(glob) for glob in globs}
    if "" in found:
        return ("",)
    return tuple(sorted(path for path in found if not any(folder in found for folder in above(path))))


def matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    """Return a predicate: whether a path ('/'-separated, relative to the top, surrogateescape) matches one of these globs in
    their normal form."""
    plain = frozenset(fixed(glob) for glob in globs if not is_wild(glob))
    wild = [_path_regex(_elements(glob)) for glob in dict.fromkeys(globs) if is_wild(glob)]
    search = re.compile("|".join(wild), re.DOTALL).match if wild else None

    def matches(path: str) -> bool:
        if not (path in plain or (search and search(path)) or (plain and any(folder in plain for folder in above(path)))):
            return False
        return not _within_git(path)

    return matches


def below(globs: Sequence[str]) -> Callable[[str], bool]:
    """Return a predicate: whether files below a folder ('' for the top) can match one of these globs in their normal form."""
    ways = [_way(glob) for glob in dict.fromkeys(globs)]

    def enter(folder: str) -> bool:
        names = folder.split("/") if folder else []
        return not _within_git(folder) and any(
            (deep or len(names) <= len(lead)) and all(fits(name) for fits, name in zip(lead, names, strict=False))
            for lead, deep in ways
        )

    return enter


@lru_cache(maxsize=1 << 14)
def _way(glob: str) -> tuple[tuple[Callable[[str], object], ...], bool]:
    """Return matchers of the folders' names on the way to what a glob matches, and whether any others may follow."""
    elements = _elements(glob)
    deep = _DEEP in elements or not is_wild(glob)
    lead = elements[: elements.index(_DEEP)] if _DEEP in elements else elements if deep else elements[:-1]
    return tuple(re.compile(name_regex(name) + r"\Z", re.DOTALL).match for name in lead if name is not _DEEP), deep


def overlap(a: Sequence[str], b: Sequence[str]) -> tuple[str, str] | None:
    """Return the first glob of ``a`` and the first of ``b`` (in their normal forms) that some path matches both of; None
    when no path can. Exact, whatever files there are."""
    return next(((one, other) for one in a for other in b if meet(one, other)), None)


def meet(a: str, b: str) -> bool:
    """Whether a path can match both of two globs in their normal form."""
    (lead_a, tail_a), (lead_b, tail_b) = _ends(a), _ends(b)
    leads = lead_a.startswith(lead_b) or lead_b.startswith(lead_a)
    tails = tail_a.endswith(tail_b) or tail_b.endswith(tail_a)
    return leads and tails and any(_cross(x, y) for x in _variants(a) for y in _variants(b))


@lru_cache(maxsize=1 << 14)
def _ends(glob: str) -> tuple[str, str]:
    """Return what every path that matches begins with, and what it ends with, as far as a glance shows."""
    if not is_wild(glob):
        return fixed(glob), ""
    return fixed(glob), re.split(r"[]*?\\]", glob)[-1].lstrip("/")


def _within_git(path: str) -> bool:
    """Whether a name of a path is ``.git``."""
    lower = path.lower()
    return ".git" in lower and ".git" in lower.split("/")


def above(path: str) -> Iterator[str]:
    """Yield the folders above a path, the top not among them."""
    at = path.find("/")
    while at > 0:
        yield path[:at]
        at = path.find("/", at + 1)


def _elements(glob: str) -> Elements:
    return tuple(_DEEP if piece == "**" else tokens_of(piece) for piece in glob.split("/"))


@lru_cache(maxsize=1 << 14)
def _variants(glob: str) -> tuple[Elements, ...]:
    """Return the plain sequences of names that a glob means together; one that ends in ``**`` asks for a name at least."""
    elements = _elements(glob)
    if elements[-1] is _DEEP:
        return ((*elements, (STAR,)),)
    return (elements,) if is_wild(glob) else (elements, (*elements, _DEEP, (STAR,)))


@lru_cache(maxsize=1 << 14)
def _cross(a: Elements, b: Elements) -> bool:
    """Whether a path can match both sequences of names."""
    return bool(_joint(a, b, None, lambda one, other, _: [None] if same_name(one or (STAR,), other or (STAR,)) else []))


def _path_regex(elements: Elements) -> str:
    """Return the paths as a regular expression. Each stretch of names after a ``**`` is taken where it first fits and never
    tried elsewhere (``(?>``): that is enough, and it keeps the time in proportion to the length of the path."""
    parts: list[list[str]] = [[]]
    for element in elements:
        if element is _DEEP:
            parts.append([])
        else:
            parts[-1].append(name_regex(element))
    first, *rest = ["/".join(part) for part in parts]
    if not rest:
        return rf"{first}\Z"
    middle = "".join(rf"(?>(?:[^/]+/)*?{part}/)" for part in rest[:-1])
    last = rf"(?:[^/]+/)*{rest[-1]}\Z" if rest[-1] else r".+\Z"
    return (f"{first}/" if first else "") + middle + last
