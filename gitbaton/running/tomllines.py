"""Where the tables, keys and items of a TOML text stand: the line of each, which the standard reader does not tell. It judges
nothing but the depth; a text that is no TOML gives the lines of what could be made out."""

from __future__ import annotations

import re

from gitbaton.values import value

DEEPEST = 16  # tables and lists in each other, names of one key included
Path = tuple[str | int, ...]
_BLANK = re.compile(r"(?:[ \t\r]|#[^\n]*)*")
_BLANKS = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\[^\n])*+"')
_LITERAL = re.compile(r"'[^'\n]*'")
_LONG_BASIC = re.compile(r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*+"{3,5}')
_LONG_LITERAL = re.compile(r"'''(?:[^']|'(?!''))*+'{3,5}")
_SCALAR = re.compile(r"[^,\]}\n#]+")
_REST = re.compile(r"[^\n]*")


class TooDeepError(Exception):
    """Tables and lists stand in each other more than DEEPEST deep, in ``line``."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


@value
class Lines:
    """``first``: by path (keys by name, list items by place) the line in which each was first given, from 1. ``again``: by
    line, what was given there though it had been given before. ``tables``: the headers in order."""

    first: dict[Path, int]
    again: dict[int, Path]
    tables: tuple[tuple[int, Path], ...]

    def line(self, path: Path) -> int:
        """The line of that path, or of the nearest above it that is known; 1 if none is."""
        while path and path not in self.first:
            path = path[:-1]
        return self.first.get(path, 1)

    def table(self, line: int) -> Path:
        """The table to which a line belongs; () before the first header."""
        return next((path for at, path in reversed(self.tables) if at <= line), ())


def find(text: str) -> Lines:
    """The lines of a TOML text, valid or not. Raises TooDeepError."""
    return _Scan(text).lines()


class _Scan:
    """One pass over a text. Each method reads on from ``at`` and never stays where a character is left that it could take."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.first: dict[Path, int] = {}
        self.again: dict[int, Path] = {}
        self.tables: list[tuple[int, Path]] = []
        self.headed: set[Path] = set()
        self.counts: dict[Path, int] = {}
        self._line, self._counted = 1, 0

    def lines(self) -> Lines:
        here: Path = ()
        while True:
            self.skip(_BLANKS)
            if self.at >= len(self.text):
                return Lines(first=self.first, again=self.again, tables=tuple(self.tables))
            start = self.at
            if self.text[start] == "[":
                here = self.header()
            else:
                self.pair(here)
            self.skip(_BLANK)
            if self.text[self.at : self.at + 1] not in ("\n", ""):
                self.skip(_REST)

    def line(self) -> int:
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if not found:
            return ""
        self.at = found.end()
        return found[0]

    def note(self, path: Path, line: int, *, whole: bool) -> None:
        """``whole``: the path itself is given here, not only something below it."""
        if len(path) > DEEPEST:
            raise TooDeepError(line)
        if whole and path in self.first:
            self.again.setdefault(line, path)
        for end in range(1, len(path) + 1):
            self.first.setdefault(path[:end], line)

    def header(self) -> Path:
        line = self.line()
        several = self.text.startswith("[[", self.at)
        self.at += 1 + several
        path = self.within(self.key())
        if several:
            place = self.counts.get(path, 0)
            self.counts[path] = place + 1
            path = (*path, place)
        self.note(path, line, whole=path in self.headed)
        self.headed.add(path)
        self.tables.append((line, path))
        return path

    def within(self, names: Path) -> Path:
        """A header's names, with the place of the newest table wherever one of a list of tables is meant."""
        path: Path = ()
        for number, name in enumerate(names):
            path = (*path, name)
            if path in self.counts and number < len(names) - 1:
                path = (*path, self.counts[path] - 1)
        return path

    def key(self) -> Path:
        names: list[str | int] = []
        while True:
            self.skip(_BLANK if not names else _DOT)
            name = self.name()
            if name is None:
                return tuple(names)
            names.append(name)
            if len(names) > DEEPEST:
                raise TooDeepError(self.line())
            if not _DOT.match(self.text, self.at):
                self.skip(_BLANK)
                return tuple(names)

    def name(self) -> str | None:
        quoted = self.skip(_BASIC)
        if quoted:
            return _unquoted(quoted)
        return self.skip(_LITERAL)[1:-1] if _LITERAL.match(self.text, self.at) else self.skip(_BARE) or None

    def pair(self, here: Path) -> None:
        line, names = self.line(), self.key()
        if not names or self.text[self.at : self.at + 1] != "=":
            self.at += 1
            return
        path = (*here, *names)
        self.note(path, line, whole=True)
        self.at += 1
        self.skip(_BLANK)
        self.value(path)

    def value(self, path: Path) -> None:
        char = self.text[self.at : self.at + 1]
        if char == "[":
            self.items(path)
        elif char == "{":
            self.inline(path)
        elif char in ('"', "'") and char:
            if self.text.startswith(char * 3, self.at):
                if not self.skip(_LONG_BASIC if char == '"' else _LONG_LITERAL):
                    self.at = len(self.text)
            elif not self.skip(_BASIC if char == '"' else _LITERAL):
                self.skip(_REST)
        else:
            self.skip(_SCALAR)

    def items(self, path: Path) -> None:
        self.at += 1
        place = 0
        while True:
            self.skip(_BLANKS)
            char = self.text[self.at : self.at + 1]
            if char in ("", "]"):
                self.at += len(char)
                return
            if char == ",":
                self.at += 1
                continue
            start = self.at
            self.note((*path, place), self.line(), whole=False)
            self.value((*path, place))
            place += 1
            self.at += self.at == start

    def inline(self, path: Path) -> None:
        self.at += 1
        while True:
            self.skip(_BLANKS)
            char = self.text[self.at : self.at + 1]
            if char in ("", "}"):
                self.at += len(char)
                return
            start = self.at
            if char == ",":
                self.at += 1
            else:
                self.pair(path)
            self.at += self.at == start


def _unquoted(quoted: str) -> str:
    """The text of a name in double quotes; with its quotes where it is none."""
    import tomllib

    try:
        return next(iter(tomllib.loads(f"{quoted} = 0")))
    except ValueError:
        return quoted
