"""The text of a plan file as plain data, whose errors say the file, the line and the step."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping

from gitbaton.errors import UsageError
from gitbaton.running.tomllines import Lines, Path, TooDeepError, find

LARGEST = 1 << 20  # bytes of a plan file
_WHERE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)\Z")


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
            self.text = raw.decode("utf-8")
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
            raise self._at(number, self._step_at(number) + self._said(str(error)[: where.start()], number)) from None

    def _step_at(self, line: int) -> str:
        table = self.lines.table(line)
        return f"step '{table[1]}': " if len(table) > 1 and table[0] == "step" else ""

    def _said(self, words: str, line: int) -> str:
        """What the reader of TOML says; something that is there twice is named."""
        twice = self.lines.again.get(line)
        if twice and words.startswith(("Cannot declare", "Cannot overwrite", "Cannot mutate")):
            what = "declared" if len(twice) == 2 and twice[0] == "step" else f"'{twice[-1]}' is given"
            return f"{what} a second time, after line {self.lines.line(twice)}"
        return words[:1].lower() + words[1:].replace("\n", " ")

    def _at(self, line: int, message: str, *hints: str) -> UsageError:
        return UsageError(f"'{self.name}' line {line}: {message}", *hints)


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
