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
Path = tuple[str | int, ...]  # names of tables and keys, and places in lists
_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\[^\n])*+"|'[^'\n]*+')"""
_NAMES = rf"[ \t]*+({_NAME}(?:[ \t]*+\.[ \t]*+{_NAME})*+)[ \t]*+"
_HEADER = re.compile(rf"[ \t]*+(\[\[?){_NAMES}\]")
_KEY = re.compile(rf"{_NAMES}=")
_TOKEN = re.compile(
    r""" "{3}(?:[^"\\]|\\[\s\S]|"(?!""))*+(?:"{3,5}|\Z) | '{3}(?:[^']|'(?!''))*+(?:'{3,5}|\Z)
    | "(?:[^"\\\n]|\\[^\n])*+"? | '[^'\n]*+'? | \#[^\n]*+ | [\[\]{}\n] """,
    re.VERBOSE,
)


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


def perhaps(word: str, known: Iterable[str], alike: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The hint that names what a misspelt word, or one that is ``alike`` elsewhere, may mean; none when nothing is near."""
    from difflib import get_close_matches

    if alike and word.lower() in alike:
        return (f"perhaps '{alike[word.lower()]}' is meant",)
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
    """``first``: by path (names, and places in lists of tables) the line in which each was first given, from 1. ``again``: by
    line, what was given there though it had been given before. ``tables``: the headers in order."""

    first: dict[Path, int]
    again: dict[int, Path]
    tables: list[tuple[int, Path]]

    def note(self, path: Path, line: int, *, again: bool) -> None:
        """A path is given in a line; ``again``: it was before. Raises TooDeepError."""
        if len(path) > DEEPEST:
            raise TooDeepError(line)
        if again:
            self.again.setdefault(line, path)
        for end in range(1, len(path) + 1):
            self.first.setdefault(path[:end], line)

    def line(self, path: Path) -> int:
        """The line of that path, or of the nearest above it that is known; 1 if none is."""
        while path and path not in self.first:
            path = path[:-1]
        return self.first.get(path, 1)

    def table(self, line: int) -> Path:
        """The table to which a line belongs; () before the first header."""
        return next((path for at, path in reversed(self.tables) if at <= line), ())


def find(text: str) -> Lines:
    """The lines of the headers of a TOML text, valid or not, and of the keys below them; what is inside a value has its key's.
    Raises TooDeepError."""
    lines, here, at, line = Lines(first={}, again={}, tables=[]), Path(), 0, 1
    counts: dict[Path, int] = {}  # of the lists of tables
    headed: set[Path] = set()
    while at < len(text):
        header = _HEADER.match(text, at)
        pair = None if header else _KEY.match(text, at)
        if header:
            here = _placed(_names(header[2]), counts)
            if header[1] == "[[":
                counts[here] = counts.get(here, -1) + 1
                here = (*here, counts[here])
            lines.note(here, line, again=here in headed)
            headed.add(here)
            lines.tables.append((line, here))
        elif pair:
            path = (*here, *_names(pair[1]))
            lines.note(path, line, again=path in lines.first)
        found = header or pair
        end = _end(text, found.end() if found else at, line)
        at, line = end, line + text.count("\n", at, end)
    return lines


def _names(text: str) -> Path:
    """The names of a dotted key."""
    import tomllib

    names: list[str] = []
    try:
        item: object = tomllib.loads(f"{text} = 0")
    except ValueError:  # an escape that means nothing; what reads the whole text says so
        return (text,)
    while isinstance(item, dict):
        name, item = next(iter(item.items()))
        names.append(name)
    return tuple(names)


def _placed(names: Path, counts: Mapping[Path, int]) -> Path:
    """A header's names, with the place of the newest table wherever one of a list of tables is meant."""
    path = Path()
    for name in names[:-1]:
        path = (*path, name)
        path = (*path, counts[path]) if path in counts else path
    return (*path, names[-1])


def _end(text: str, at: int, line: int) -> int:
    """Where the statement ends that is read up to there: after its last line. Raises TooDeepError."""
    deep, start = 0, at
    for token in _TOKEN.finditer(text, at):
        if token[0] == "\n" and deep <= 0:
            return token.end()
        deep += (token[0] in ("[", "{")) - (token[0] in ("]", "}"))
        if deep > DEEPEST:
            raise TooDeepError(line + text.count("\n", start, token.start()))
    return len(text)
