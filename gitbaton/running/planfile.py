"""Plan files as plain data: TOML whose errors say the file, the line and the step."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping

from gitbaton.errors import UsageError
from gitbaton.journal.values import Step
from gitbaton.values import value

LARGEST = 1 << 20  # bytes of a plan file
PLAN = "plan.toml"  # what a journal calls its text
_DEFAULT = Step(name="", argv=())
_LISTS = {"argv": "argv", "after": "after", "reads": "reads", "writes": "writes", "env": "env", "key": "extra"}
_PLAIN = ("cwd", "effect", "compensate", "probe", "verify", "retries", "timeout", "grace", "catch", "isolate", "on_undeclared")
_WHERE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)\Z")
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


def load(path: str) -> bytes:
    """What a plan's file holds, at most one byte more than a plan may have. Raises OSError, and ValueError for a path that is
    none or a file that is not a regular one: opening that could wait for ever."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise ValueError("is a directory" if stat.S_ISDIR(mode) else "it is not a regular file")
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):  # it has just become something else
            raise ValueError("it is not a regular file")
        return file.read(LARGEST + 1)


class PlanFile:
    """The bytes of a plan file that errors call ``name``, and the ``data`` that they mean. Raises UsageError."""

    def __init__(self, raw: bytes, name: str) -> None:
        self.name = name
        if len(raw) > LARGEST:
            raise self._at(raw.count(b"\n", 0, LARGEST) + 1, f"the file is larger than {LARGEST >> 20} MiB")
        try:
            self.text = raw.decode("utf-8-sig")  # some editors write a mark first
        except UnicodeDecodeError as error:
            raise self._at(raw.count(b"\n", 0, error.start) + 1, "a byte that is not UTF-8") from None
        try:
            self.lines: Lines = find(self.text)
        except TooDeepError as error:
            raise self._at(error.line, "tables and lists stand in each other too deep") from None
        self.data: Mapping[str, object] = self._parsed()

    def error(self, path: Path, message: str, *hints: str) -> UsageError:
        """The error that says what is wrong with what stands at that path."""
        return self._at(self.lines.line(path), message, *hints)

    def _parsed(self) -> Mapping[str, object]:
        import tomllib

        try:
            return tomllib.loads(self.text)
        except ValueError as error:
            where = _WHERE.search(str(error))
            lines = self.text.replace("\r\n", "\n").split("\n")
            if where is None:  # int() refuses what has too many digits, and does not know where it stood
                number = next((at for at, line in enumerate(lines, 1) if re.search(r"[0-9_]{4301}", line)), 1)
                raise self._at(number, "a number that is too long") from None
            number = int(where[1]) if where[1] else max(len(lines) - (not lines[-1]), 1)
            table = self.lines.table(number)
            step = f"step '{table[1]}': " if len(table) > 1 and table[0] == "step" else ""
            raise self._at(number, step + self._said(str(error)[: where.start()], number)) from None

    def _said(self, words: str, line: int) -> str:
        """What the reader of TOML says; something that is there twice is named."""
        twice = self.lines.again.get(line)
        if twice and words.startswith(("Cannot declare", "Cannot overwrite", "Cannot mutate")):
            what = "declared" if len(twice) == 2 and twice[0] == "step" else f"'{twice[-1]}' is given"
            return f"{what} a second time, after line {self.lines.line(twice)}"
        return words[:1].lower() + words[1:].replace("\n", " ")

    def _at(self, line: int, message: str, *hints: str) -> UsageError:
        return UsageError(f"'{self.name}' line {line}: {message}", *hints)


def written(step: Step) -> bytes | None:
    """A step as the text of a plan file, which ``plans.read`` gives back equal; None for one that no such text can hold."""
    rows = [f"[step.{_quoted(step.name)}]", *(f"{key} = {item}" for key, item in _rows(step))]
    try:
        text = "\n".join((*rows, "")).encode()
    except UnicodeEncodeError:  # a word of the command line that is not UTF-8
        return None
    return text if len(text) <= LARGEST else None


def _rows(step: Step) -> Iterator[tuple[str, str]]:
    """The keys of a step that are not as by default, and their items as TOML."""
    for key, field in _LISTS.items():
        if words := getattr(step, field):
            yield key, f"[{', '.join(map(_quoted, words))}]"
    for field in (*_PLAIN, "gate", "store", "checkpoint"):
        item = getattr(step, field)
        if item != getattr(_DEFAULT, field):
            yield field.replace("_", "-"), _quoted(item) if isinstance(item, str) else repr(item)
    if step.backoff != _DEFAULT.backoff:
        back = step.backoff
        spec = f"{_decimal(back.first)}s,x{_decimal(back.factor)},max={_decimal(back.most)}s{',jitter' * back.jitter}"
        yield "backoff", _quoted(spec)
    if step.retry_on:
        yield "retry-on", _quoted(",".join(step.retry_on))
    yield from (("no-cache", "true"),) * (not step.cache)
    yield from (("allow-empty", "true"),) * step.allow_empty


def _decimal(number: float) -> str:
    return f"{number:.9f}".rstrip("0").rstrip(".")


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def perhaps(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """The hint that names what a misspelt word may mean; none when nothing is near."""
    from difflib import get_close_matches

    return tuple(f"perhaps '{near}' is meant" for near in get_close_matches(word[:100].lower(), list(known), n=1))


def shown(item: object) -> str:
    """An item of a plan file as an error shows it."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        return f"'{item[:60]}...'" if len(item) > 60 else f"'{item}'"
    if isinstance(item, list):
        return "a list"
    return "a table" if isinstance(item, dict) else str(item)[:60]


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
            import tomllib

            try:
                return next(iter(tomllib.loads(f"{quoted} = 0")))
            except ValueError:
                return quoted
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
