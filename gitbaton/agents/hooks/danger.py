"""Targets of a destructive command: the work trees that are to be captured before it, and what of them goes. Only looks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from gitbaton.agents.destructive import Danger, shown
from gitbaton.base.system.files import read_regular
from gitbaton.base.values import value

_MOST = 5  # work trees that are captured before one command
_PATHS = 500  # of a pattern
_LINE = 8192  # bytes of a file with one path
_DEPTH, _ENTRIES = 3, 2000  # of folders that are looked at for repositories in them
_UNKNOWN = re.compile(r"[$`\ue000-\uf8ff]")


@value
class Spot:
    """A work tree, or a folder in one, that a command strikes. ``text``: what it is told to do there. ``paths``: what of the
    ignored files is at stake, seen from the top; none for all, None for nothing, and ``names`` and ``refs`` as Danger has
    them. ``over``: it counts only where one of these is a file that git sees."""

    place: str
    text: str
    paths: tuple[str, ...] | None
    names: tuple[str, ...]
    over: tuple[str, ...]
    refs: tuple[str, ...] = ()


class _Struck:
    """The dangers to one work tree, put together."""

    def __init__(self) -> None:
        self.dangers: list[Danger] = []
        self.paths: set[str] | None = None  # an empty text for all
        self.over: list[str] | None = []  # None: it counts whatever these are


def spots(found: Sequence[Danger], cwd: str, env: Mapping[str, str]) -> list[Spot]:
    """The work trees that destructive commands of a line strike, which runs in a folder. Raises nothing."""
    struck: dict[str, _Struck] = {}
    for danger in found:
        for place, paths in _places(danger, cwd, env):
            real = os.path.realpath(place)
            top = top_of(real)
            if top is None:
                continue
            one = struck.setdefault(top, _Struck())
            one.dangers.append(danger)
            inside = [os.path.relpath(os.path.join(real, os.path.relpath(path, place)), top) for path in paths]
            inside = [] if any(path == "." or path.startswith("..") for path in inside) else inside
            if danger.ignored:
                one.paths = {*(one.paths or ()), *(inside or [""])}
            one.over = None if one.over is None or not danger.over else [*one.over, *inside]
    return [_spot(top, one) for top, one in islice(struck.items(), _MOST)]


def _spot(top: str, one: _Struck) -> Spot:
    names = [danger.names for danger in one.dangers if danger.ignored]
    return Spot(
        place=top,
        text=shown(one.dangers),
        paths=None if one.paths is None else () if "" in one.paths else tuple(sorted(one.paths)),
        names=tuple(name for some in names for name in some) if all(names) else (),
        over=tuple(one.over or ()),
        refs=tuple(dict.fromkeys(ref for danger in one.dangers for ref in danger.refs)),
    )


def _places(danger: Danger, cwd: str, env: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the folders with a work tree that a command strikes, each with the paths that go in it; none for all of it."""
    for chain in danger.folders:
        base, known = _folder(cwd, chain, env)
        given = [_expanded(path, base, env) for path in danger.paths]
        if not known or None in given:
            yield base, []
            continue
        there = [path for some in given if some is not None for path in islice(_there(base, some), _PATHS)]
        there += [path for some in given if danger.below and some and "/" not in some for path in _linked(base, some)]
        there = [path for path in there if not (danger.over or danger.files) or _is_file(path)]
        if danger.whole:
            yield base, there
        for path in there:
            real = os.path.isdir(path) and not os.path.islink(path)
            if danger.below and real:
                yield from ((folder, []) for folder in _repositories(path))
            if not danger.whole:
                yield (path if real and os.path.lexists(os.path.join(path, ".git")) else os.path.dirname(path)), [path]


def _folder(cwd: str, chain: Sequence[str | None], env: Mapping[str, str]) -> tuple[str, bool]:
    """Return the folder of a command after changes of the folder, and whether each can be told; a shell stays where one is not
    there, and the folder is the last that is known."""
    here, known = cwd, True
    for word in chain:
        to = _expanded(word, here, env) if word is not None else None
        if to is None:
            known = False
        elif os.path.isdir(moved := os.path.normpath(os.path.join(here, to))):
            here = moved
    return here, known


def _expanded(word: str, base: str, env: Mapping[str, str]) -> str | None:
    """A word with its variables, as far as the environment has them; None where that does not tell what it is."""
    home = env.get("HOME", "")
    if home and (word == "~" or word.startswith("~/")):
        word = home + word[1:]
    known = {**env, "PWD": base}
    word = re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda match: known.get(match[1] or match[2]) or match[0], word)
    return None if _UNKNOWN.search(word) else word


def _there(base: str, word: str) -> Iterator[str]:
    """Yield the paths that are there for a word: the path itself, and what it matches as a pattern of the shell's."""
    path = os.path.join(base, word)
    if os.path.lexists(path):
        yield os.path.normpath(path)
    elif re.search(r"[*?\[{]", word):
        from glob import iglob  # late: nearly always a word is a path

        yield from map(os.path.normpath, iglob(re.sub(r"\{[^{}]*\}", "*", path)))


def _linked(base: str, name: str) -> Iterator[str]:
    """The linked work tree that git knows by the last part of its path."""
    from gitbaton.git.questions import linked

    common = os.path.join(top_of(base) or base, ".git")
    if os.path.lexists(os.path.join(base, name)):
        return
    with suppress(OSError):
        if os.path.isfile(common):
            common = os.path.dirname(os.path.dirname(os.fsdecode(read_regular(common, _LINE)).partition(": ")[2]))
        yield from (root for _, _, root in linked(common) if os.path.basename(root) == name)


def _is_file(path: str) -> bool:
    """Whether a file with something in it, or a link to one, is at a path."""
    try:
        return os.path.isfile(path) and os.stat(path).st_size > 0
    except OSError:
        return False


def top_of(place: str) -> str | None:
    """The work tree that a folder is in, by its ``.git``."""
    while not os.path.lexists(os.path.join(place, ".git")):
        above = os.path.dirname(place)
        if above == place or os.path.basename(place) == ".git":
            return None
        place = above
    return place


def _repositories(path: str) -> Iterator[str]:
    """The work trees below a folder, the nearest first."""
    level, seen = [path], 0
    for _ in range(_DEPTH):
        deeper = list[str]()
        for folder in level:
            try:
                with os.scandir(folder) as entries:
                    inside = [entry.path for entry in islice(entries, _ENTRIES) if entry.is_dir(follow_symlinks=False)]
            except OSError:
                continue
            seen += len(inside)
            if seen > _ENTRIES:
                return
            yield from (one for one in inside if os.path.lexists(os.path.join(one, ".git")))
            deeper += [one for one in inside if os.path.basename(one) not in (".git", "node_modules")]
        level = deeper
