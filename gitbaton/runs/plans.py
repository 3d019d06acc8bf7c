"""Plans and steps: read from TOML with errors that say the line, checked, and as the records of a run tell them."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import RecordError, RunError, UsageError
from gitbaton.base.model import Oid
from gitbaton.base.values import cast, replace, value
from gitbaton.checkpoints.render import in_shell
from gitbaton.git.objects import Objects
from gitbaton.git.worktree import globs
from gitbaton.runs import graph
from gitbaton.runs.context import OUTPUTS, TIMEOUT, UNKNOWN, Context
from gitbaton.runs.graph import StepError
from gitbaton.runs.journal.state import RunState, StepState
from gitbaton.runs.journal.values import (
    EFFECTS,
    ISOLATES,
    KEEPS,
    MAX_PLAN,
    ON_UNDECLARED,
    PLAN,
    Backoff,
    Logged,
    Plan,
    Record,
    Step,
)

_DEFAULT = Step(name="", argv=())
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
    """Return the bytes of a plan's file, at most one byte more than a plan may have. Raises OSError, and ValueError for a
    path that is none or a file that is not a regular one: opening that could wait for ever."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise ValueError("is a directory" if stat.S_ISDIR(mode) else "it is not a regular file")
    with open(path, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK)) as file:  # if it is a pipe by now
        return file.read(MAX_PLAN + 1)


class PlanFile:
    """The bytes of a plan file that errors call ``name``, and the ``data`` that they mean. Raises UsageError."""

    def __init__(self, raw: bytes, name: str) -> None:
        self.name = name
        if len(raw) > MAX_PLAN:
            raise self._at(raw.count(b"\n", 0, MAX_PLAN) + 1, f"the file is larger than {MAX_PLAN >> 20} MiB")
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
        """Return what the TOML parser says; what is given twice is named."""
        twice = self.lines.again.get(line)
        if twice and words.startswith(("Cannot declare", "Cannot overwrite", "Cannot mutate")):
            what = "declared" if len(twice) == 2 and twice[0] == "step" else f"'{twice[-1]}' is given"
            return f"{what} a second time, after line {self.lines.line(twice)}"
        return words[:1].lower() + words[1:].replace("\n", " ")

    def _at(self, line: int, message: str, *hints: str) -> UsageError:
        return UsageError(f"{in_quotes(self.name)} line {line}: {message}", *hints)


def written(step: Step) -> bytes | None:
    """A step as the text of a plan file, which ``read`` gives back equal; None for one that no such text can hold."""
    rows = [f"[step.{_quoted(step.name)}]"]
    for key, (field, _) in _KEYS.items():
        item = getattr(step, field)
        if item != getattr(_DEFAULT, field) and key != "run":
            rows.append(f"{key} = {_item(key, item)}")
    try:
        text = "\n".join((*rows, "")).encode()
    except UnicodeEncodeError:  # a word of the command line that is not UTF-8
        return None
    return text if len(text) <= MAX_PLAN else None


def _item(key: str, item: object) -> str:
    """Return as TOML what a step has for a key."""
    if isinstance(item, Backoff):
        item = f"{_decimal(item.first)}s,x{_decimal(item.factor)},max={_decimal(item.most)}s{',jitter' * item.jitter}"
    if isinstance(item, tuple):
        return _quoted(",".join(item)) if key == "retry-on" else f"[{', '.join(map(_quoted, item))}]"
    if isinstance(item, bool):
        return "true"
    return _quoted(item) if isinstance(item, str) else repr(item)


def _decimal(number: float) -> str:
    return f"{number:.9f}".rstrip("0").rstrip(".")


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def perhaps(word: str, known: Iterable[str], alike: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The hint that names what a misspelt word, or one that is ``alike`` elsewhere, may mean; none when nothing is near."""
    from difflib import get_close_matches

    if alike and word.lower() in alike:
        return (f"perhaps {in_quotes(alike[word.lower()])} is meant",)
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
    """Return where the statement ends that is read up to there: after its last line. Raises TooDeepError."""
    deep, start = 0, at
    for token in _TOKEN.finditer(text, at):
        if token[0] == "\n" and deep <= 0:
            return token.end()
        deep += (token[0] in ("[", "{")) - (token[0] in ("]", "}"))
        if deep > DEEPEST:
            raise TooDeepError(line + text.count("\n", start, token.start()))
    return len(text)


MOST_STEPS, MOST_RETRIES, MOST_RUNS = 1000, 1000, 1_000_000
_STEP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}\Z", re.ASCII)
_TRACK = 200  # characters of a track's name
LONGEST = 366 * 86400.0  # seconds; more than a year is a slip
TIMED_OUT = "timeout"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_PART = re.compile(rf"({_NUMBER})(ms|[smhd])", re.ASCII)
_DURATION = re.compile(rf"(?:{_NUMBER}|(?:{_NUMBER}(?:ms|[smhd]))+)\Z", re.ASCII)
_FACTOR = re.compile(rf"x({_NUMBER})\Z", re.ASCII)
_STATUS = re.compile(r"[0-9]{1,3}\Z", re.ASCII)


def duration(text: str, what: str = "duration") -> float:
    """Seconds of ``90``, ``1.5s``, ``500ms``, ``10m``, ``2h``, ``1d``, ``1h30m``, each unit once. Raises UsageError that names
    ``what``."""
    parts = _PART.findall(text)
    if not _DURATION.match(text) or len({unit for _, unit in parts}) != len(parts):
        raise UsageError(f"{what} is {in_quotes(text)}; it must be a duration like 500ms, 10s, 1h30m or 1d")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else float(text)
    if seconds > LONGEST:
        raise UsageError(f"{what} is {in_quotes(text)}; it can be a year at most")
    return round(seconds, 9)


def backoff(text: str, what: str = "backoff") -> Backoff:
    """``1s,x2,max=60s,jitter``: the first wait, and in any order the factor, the longest wait, and whether each is shortened by
    chance; what is left out is as in Backoff. Raises UsageError that names ``what``."""
    first, *rest = (part.strip() for part in text.split(","))
    given: dict[str, float] = {"first": duration(first, what)}
    for part in rest:
        factor = _FACTOR.match(part)
        if factor:
            name, number = "factor", float(factor[1])
        elif part.startswith("max="):
            name, number = "most", duration(part.removeprefix("max="), f"max of {what}")
        else:
            name, number = part, 1.0
        if name not in ("factor", "most", "jitter") or name in given or (name == "factor" and not 1 <= number <= 1000):
            raise UsageError(f"{what} is {in_quotes(text)}; it must be like 1s,x2,max=60s,jitter, with a factor of 1 to 1000")
        given[name] = number
    most = given.get("most", max(Backoff().most, given["first"]))
    if most < given["first"]:
        raise UsageError(f"{what} is {in_quotes(text)}; its max is shorter than its first wait")
    factor_given = given.get("factor", Backoff().factor)
    return Backoff(first=given["first"], factor=factor_given, most=most, jitter="jitter" in given)


def retry_on(text: str, what: str = "retry-on") -> tuple[str, ...]:
    """``1,75,timeout``: exit statuses of 1 to 255 and the word ``timeout``, each once, in the order given. Raises UsageError
    that names ``what``."""
    found: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if part != TIMED_OUT and not (_STATUS.match(part) and 1 <= int(part) <= 255):
            raise UsageError(
                f"{what} is {in_quotes(text)}; it must be exit statuses of 1 to 255, or 'timeout', with commas between"
            )
        found.append(part if part == TIMED_OUT else str(int(part)))
    return tuple(dict.fromkeys(found))


def read(source: str | bytes, top: str, *, name: str | None = None, alone: bool = False) -> Plan:
    """The plan of a file, or of the bytes of one; ``top`` is the top of the work tree, and errors call the file ``name``, by
    default its path or ``baton.toml``. Its steps come in an order in which they can run. ``alone``: they may wait for steps
    that are not in it. Raises UsageError that names the file, the line and the step."""
    if isinstance(source, str):
        name = name or source
        try:
            raw, path = load(source), path_of(source, top)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise UsageError(f"cannot read {in_quotes(name)}: {(reason or str(error)).lower()}") from None
    else:
        raw, path = source, None
    file = PlanFile(raw, name or "baton.toml")
    try:
        return replace(_plan(file, alone=alone), text=raw, path=path)
    except StepError as error:
        raise _located(file, error) from None


def checked(step: Step) -> Step:
    """The step with its globs and ``cwd`` in their normal form. Raises StepError that says what cannot be carried out."""
    _check_name(step.name, step.name, None)
    if not step.argv or not step.argv[0]:
        raise StepError(step.name, "argv names no command", key="argv")
    if step.argv[:2] == ("sh", "-c") and len(step.argv) == 3 and not step.argv[2].strip():
        raise StepError(step.name, "run is empty", key="argv")
    _check_words(step)
    _check_choices(step)
    for place, name in enumerate(step.after):
        _check_name(step.name, name, place)
    found = within(step)
    graph.disjoint((found,))
    return found


def within(step: Step) -> Step:
    """The step with its globs and ``cwd`` in their normal form. Raises StepError where they leave the work tree."""
    reads, writes = _globs(step, "reads", step.reads), _globs(step, "writes", step.writes)
    return replace(step, cwd=_folder(step), reads=reads, writes=writes)


def path_of(path: str, top: str) -> str:
    """A path relative to the top of the work tree, or absolute when it is elsewhere."""
    absolute, top = os.path.realpath(path), os.path.realpath(top)
    return os.path.relpath(absolute, top) if absolute.startswith(top.rstrip("/") + "/") else absolute


def _located(file: PlanFile, error: StepError) -> UsageError:
    table = cast(dict[str, object], file.data["step"]).get(error.step)
    key = "run" if error.key == "argv" and isinstance(table, dict) and "argv" not in table else error.key
    path: tuple[str | int, ...] = ("step", error.step)
    if key is not None:
        path = (*path, key) if error.place is None else (*path, key, error.place)
    return file.error(path, error.message, *error.hints)


def _plan(file: PlanFile, *, alone: bool) -> Plan:
    for key in file.data:
        if key not in ("step", "max-runs", "max-wall"):
            table = isinstance(file.data[key], dict)
            hints = perhaps(key, ("step", "max-runs", "max-wall")) or ("a step is a table [step.NAME]",) * table
            raise file.error((key,), f"unknown {'table' if table else 'key'} '{key}'", *hints)
    tables = file.data.get("step", {})
    if not isinstance(tables, dict) or not tables:
        raise file.error(("step",), "there is no step in it", "a step is a table [step.NAME]")
    if len(tables) > MOST_STEPS:
        raise file.error(("step", list(tables)[MOST_STEPS]), f"there are more than {MOST_STEPS} steps")
    steps = tuple(checked(_step(name, table)) for name, table in tables.items())
    for step in steps:
        for place, name in enumerate(step.after):
            if name not in tables and not alone:
                hints = perhaps(name, tables)
                raise StepError(
                    step.name, f"waits for {in_quotes(name)}, which is no step here", *hints, key="after", place=place
                )
    graph.disjoint(steps)
    return replace(Plan(steps=graph.order(steps)), **_guards(file))


def _guards(file: PlanFile) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, field, take in (("max-runs", "max_runs", _whole), ("max-wall", "max_wall", _seconds)):
        if key in file.data:
            try:
                number = cast(float, take(key, file.data[key]))
            except UsageError as error:
                raise file.error((key,), error.message, *error.hints) from None
            if not 0 < number <= MOST_RUNS and key == "max-runs":
                raise file.error((key,), f"{key} is {shown(number)}; it must be 1 to {MOST_RUNS}")
            if not number:
                raise file.error((key,), f"{key} must be more than nothing")
            found[field] = number
    return found


def _step(name: str, table: object) -> Step:
    """The step that a table asks for; only the types of its values are looked at here."""
    if not isinstance(table, dict):
        raise StepError(name, f"it is {shown(table)}; it must be a table [step.NAME]")
    _check_name(name, name, None)
    fields: dict[str, object] = {"name": name}
    for key, item in table.items():
        if key not in _KEYS:
            hints = perhaps(key, _KEYS, _ALIKE)
            if isinstance(item, dict):
                hints = (f"""a name with dots stands in quotes: [step."{name}.{key}"]""",)
            raise StepError(name, f"unknown key {in_quotes(key)}", *hints, key=key)
        field, take = _KEYS[key]
        try:
            fields[field] = take(key, item)
        except _ItemError as error:
            raise StepError(name, error.message, *error.hints, key=key, place=error.place) from None
        except UsageError as error:
            raise StepError(name, error.message, *error.hints, key=key) from None
    if "run" in table and "argv" in table:
        raise StepError(name, "both 'run' and 'argv' are given", "'run' is a line for the shell, 'argv' a list", key="argv")
    if "argv" not in fields:
        raise StepError(name, "nothing to run", "'run' is a line for the shell, 'argv' a list")
    return Step(**fields)  # type: ignore[arg-type]


class _ItemError(UsageError):
    """An item of a list is wrong."""

    def __init__(self, place: int, message: str) -> None:
        super().__init__(message)
        self.place = place


def _text(key: str, item: object) -> str:
    if not isinstance(item, str):
        raise UsageError(f"{key} is {shown(item)}; it must be a text")
    return item


def _words(key: str, item: object) -> tuple[str, ...]:
    if not isinstance(item, list):
        hints = (f"[{shown(item)}] is a list of one",) if isinstance(item, str) else ()
        raise UsageError(f"{key} is {shown(item)}; it must be a list of texts", *hints)
    for place, word in enumerate(item):
        if not isinstance(word, str):
            raise _ItemError(place, f"{key} has {shown(word)}; it must be a list of texts")
    return tuple(item)


def _flag(key: str, item: object) -> bool:
    if not isinstance(item, bool):
        raise UsageError(f"{key} is {shown(item)}; it must be true or false")
    return item


def _whole(key: str, item: object) -> int:
    if not isinstance(item, int) or isinstance(item, bool):
        raise UsageError(f"{key} is {shown(item)}; it must be a whole number")
    return item


def _seconds(key: str, item: object) -> float:
    if isinstance(item, str):
        return duration(item, key)
    if not isinstance(item, (int, float)) or isinstance(item, bool):
        raise UsageError(f"{key} is {shown(item)}; it must be a duration like '10m', or a number of seconds")
    if not 0 <= item <= LONGEST:
        raise UsageError(f"{key} is {shown(item)}; it must be 0 to {LONGEST:.0f} seconds")
    return float(item)


_ALIKE = {  # what other tools call it
    **dict.fromkeys(("input", "inputs", "sources", "src", "watch"), "reads"),
    **dict.fromkeys(("output", "outputs", "artifacts", "targets", "produces"), "writes"),
    **dict.fromkeys(("needs", "deps", "depends", "depends_on", "depends-on", "dependencies", "requires", "before"), "after"),
    **dict.fromkeys(("cmd", "command", "commands", "script", "exec"), "run"),
    **dict.fromkeys(("dir", "directory", "workdir", "working-directory"), "cwd"),
    **dict.fromkeys(("environment", "variables"), "env"),
    **dict.fromkeys(("retry", "attempts", "max-attempts"), "retries"),
    **dict.fromkeys(("undo", "rollback"), "compensate"),
    **dict.fromkeys(("check", "test"), "verify"),
    **dict.fromkeys(("approval", "approve", "confirm"), "gate"),
    "cache": "no-cache",
}
_KEYS: dict[str, tuple[str, Callable[[str, object], object]]] = {
    "run": ("argv", lambda key, item: ("sh", "-c", _text(key, item))),
    "argv": ("argv", _words),
    "cwd": ("cwd", _text),
    "after": ("after", _words),
    "reads": ("reads", _words),
    "writes": ("writes", _words),
    "env": ("env", _words),
    "key": ("extra", _words),
    "effect": ("effect", _text),
    "compensate": ("compensate", _text),
    "probe": ("probe", _text),
    "verify": ("verify", _text),
    "retries": ("retries", _whole),
    "backoff": ("backoff", lambda key, item: backoff(_text(key, item), key)),
    "retry-on": ("retry_on", lambda key, item: retry_on(_text(key, item), key)),
    "timeout": ("timeout", _seconds),
    "grace": ("grace", _seconds),
    "catch": ("catch", _text),
    "isolate": ("isolate", _text),
    "on-undeclared": ("on_undeclared", _text),
    "gate": ("gate", _text),
    "no-cache": ("cache", lambda key, item: not _flag(key, item)),
    "allow-empty": ("allow_empty", _flag),
    "store": ("store", _text),
    "checkpoint": ("checkpoint", _text),
}


def _check_name(step: str, name: str, place: int | None) -> None:
    """The name of a step, or that in a place of what it waits for."""
    key = None if place is None else "after"
    if not _STEP_NAME.match(name) or ".." in name:
        message = "it is no name for a step" if place is None else f"waits for {shown(name)}, which is no name for a step"
        hint = "a name has letters, digits, '.', '_', '/' and '-', begins with a letter or digit, has no '..' and 100 at most"
        raise StepError(step, message, hint, key=key, place=place)
    if place is not None and step == name:
        raise StepError(step, "it waits for itself", key=key, place=place)


def _check_words(step: Step) -> None:
    """Texts that a process or a record could not take."""
    lists = {"argv": step.argv, "env": step.env, "key": step.extra, "after": step.after}
    for key, words in lists.items():
        for place, word in enumerate(words):
            if "\0" in word:
                raise StepError(step.name, f"{key} has a NUL", key=key, place=place)
            if key == "env" and (not word or "=" in word):
                raise StepError(step.name, f"env has {shown(word)}, which is no name of a variable", key=key, place=place)
    texts = {"cwd": step.cwd, "gate": step.gate, "catch": step.catch, "compensate": step.compensate}
    texts |= {"probe": step.probe, "verify": step.verify, "checkpoint": step.checkpoint}
    for key, text in texts.items():
        if text is not None and (not text.strip() or "\0" in text):
            raise StepError(step.name, f"{key} {'has a NUL' if text.strip() else 'is empty'}", key=key)
    if step.checkpoint is not None and len(step.checkpoint) > _TRACK:
        raise StepError(step.name, f"checkpoint is a track's name, of {_TRACK} characters at most", key="checkpoint")


def _check_choices(step: Step) -> None:
    """Numbers, and words of which there are few; durations are as they were read."""
    if not 0 <= step.retries <= MOST_RETRIES:
        raise StepError(step.name, f"retries is {step.retries}; it must be 0 to {MOST_RETRIES}", key="retries")
    if step.timeout is not None and not step.timeout > 0:
        raise StepError(step.name, "timeout must be more than nothing", key="timeout")
    for key, word, words in (
        ("effect", step.effect, EFFECTS),
        ("isolate", step.isolate, ISOLATES),
        ("on-undeclared", step.on_undeclared, ON_UNDECLARED),
        ("store", step.store, KEEPS),
    ):
        if word not in words:
            others = ", ".join(in_quotes(other) for other in words[:-1])
            text = f"{key} is {shown(word)}; it can be {others} or {in_quotes(words[-1])}"
            raise StepError(step.name, text, *perhaps(word, words), key=key)
    for key, line in (("compensate", step.compensate), ("probe", step.probe)):
        if line is not None and step.effect == "none":
            hint = "effect can be 'idempotent' or 'once'"
            raise StepError(step.name, f"{key} is given, but the step has no effect", hint, key=key)


def _folder(step: Step) -> str:
    names: list[str] = []
    for name in step.cwd.split("/"):
        if name == ".." and names:
            names.pop()
        elif name == ".." or step.cwd[0] == "/":
            raise StepError(step.name, f"cwd is {in_quotes(step.cwd)}, which leaves the work tree", key="cwd")
        elif name.lower() == ".git":
            raise StepError(step.name, f"cwd is {in_quotes(step.cwd)}, which names '.git'", key="cwd")
        elif name not in ("", "."):
            names.append(name)
    return "/".join(names) or "."


def _globs(step: Step, key: str, given: tuple[str, ...]) -> tuple[str, ...]:
    found = []
    for place, glob in enumerate(given):
        try:
            found.append(globs.check(glob))
        except UsageError as error:
            raise StepError(step.name, f"{key}: {error.message}", *error.hints, key=key, place=place) from None
    return tuple(found)


def step_of(record: Record) -> Step:
    """Return the step that a record of it tells of. What no record holds (retries, times, --catch) is as if it was not
    asked for, and so are lines that a secret was taken out of. Raises RecordError for one that names files outside the work
    tree: records are untrusted."""
    step = Step(
        name=record.step or "",
        argv=record.argv,
        cwd=record.cwd or ".",
        after=tuple(name for name, _ in record.deps),
        reads=record.reads.globs if record.reads else (),
        writes=record.writes.globs if record.writes else (),
        env=tuple(name for name, _ in record.env),
        extra=record.extra,
        effect=record.effect or "none",
        compensate=in_full(record, record.compensate),
        probe=in_full(record, record.probe),
        verify=in_full(record, record.verify),
    )
    try:
        return within(step)
    except UsageError as error:
        raise RecordError(f"record {record.seq} of run '{record.run}': {error.message}") from None


def in_full(record: Record, line: str | None) -> str | None:
    """A shell line of a record; None where a secret was taken out of it: what is left must never run."""
    return None if record.redacted and line is not None and "[redacted:" in line else line


def newest(state: StepState) -> Logged | None:
    """The record that tells best what a step is: how its newest attempt began, or ended."""
    told = (state.last, state.end, *state.ends[-1:], *(effect.logged for effect in state.effects[-1:]))
    found = [logged for logged in told if logged is not None]
    return max(found, key=lambda logged: logged.record.seq, default=None)


def defined(state: StepState, objects: Objects | None) -> Step | None:
    """A step of the command line as it was asked for, all of it; None where no record says so."""
    logged, plan = newest(state), _stored(objects, state.defined, alone=True) if objects is not None else None
    if logged is None or plan is None or len(plan.steps) != 1:
        return None
    step, record = plan.steps[0], logged.record
    same = step.name == state.name and (step.argv == record.argv or record.argv_more > 0)
    return step if same and not record.redacted else None


def steps_of(state: RunState, objects: Objects | None = None) -> tuple[Step, ...]:
    """All steps of a run, in the order in which they first began; with ``objects`` all that was asked for."""
    known = [(one, logged.record) for one in state.steps.values() if (logged := newest(one)) is not None]
    return tuple(defined(one, objects) or step_of(record) for one, record in known)


def kept_plan(state: RunState, objects: Objects) -> Plan | None:
    """The plan that a run follows, as its journal keeps it; None without one, and where it cannot be read."""
    return _stored(objects, state.plan.parts.get(PLAN)) if state.plan is not None and not state.over else None


def _stored(objects: Objects, oid: Oid | None, *, alone: bool = False) -> Plan | None:
    """Return the plan in a blob beside a record, ``alone`` as for read; None where it cannot be read."""
    found = objects.read(oid, MAX_PLAN) if oid is not None else None
    try:
        return read(found.data, "", alone=alone) if found is not None and found.data is not None else None
    except (UsageError, ValueError):
        return None


def whole(plan: Plan | None, state: RunState, objects: Objects | None = None) -> Plan:
    """A plan with the recorded steps that it does not name, after its own; ``objects`` as for ``steps_of``."""
    named = {step.name for step in plan.steps} if plan else set()
    others = tuple(step for step in steps_of(state, objects) if step.name not in named)
    if plan is None:
        return Plan(steps=others)
    return replace(plan, steps=(*plan.steps, *others)) if others else plan


def rebuilt(state: StepState, objects: Objects | None = None) -> Step:
    """The step of an unfinished beginning, ready to be carried out. Raises RunError 76 where its words are not all there."""
    step = defined(state, objects)
    if step is not None:
        return step
    logged = state.begun or newest(state)
    if logged is None or logged.record.redacted or logged.record.argv_more or not logged.record.argv:
        raise RunError(
            f"step {in_quotes(state.name)} cannot be taken up: its command is not recorded in full (a secret, or too long)",
            "run it again with the line that it was begun with",
            code=UNKNOWN,
        )
    return step_of(logged.record)


MAX_OUTPUT = 4 << 20


def exit_of(record: Record) -> int | None:
    """The exit status that an attempt was said to end with: of a failure never 0."""
    if record.type != "fail" or record.exit is None:
        return record.exit
    return TIMEOUT if record.timeout else record.exit or OUTPUTS


def output(objects: Objects, logged: Logged) -> tuple[bytes, bytes]:
    """Return what is kept of a step's standard output and standard error, at most their tails; empty where nothing is kept."""
    kept = [objects.read(logged.parts[name], MAX_OUTPUT) if name in logged.parts else None for name in ("stdout", "stderr")]
    out, err = ((found.data or b"") if found is not None and found.kind == "blob" else b"" for found in kept)
    return out, err


def everything(ctx: Context, plan: Plan | None = None, *, strict: bool = True) -> tuple[Plan, tuple[str, ...]]:
    """All steps of a run, those of its plan (the one given, or the one that the journal keeps) and those that are only
    recorded; and the names of those that belong to it still. Where the plan cannot be had: raises UsageError, or without
    ``strict`` warns, and then all recorded steps belong to it."""
    state = ctx.state()
    if plan is None and state.plan is not None:
        try:
            plan = opened(ctx, state.plan)
        except UsageError as error:
            if strict:
                raise
            ctx.emit("warning", text=error.message)
    of = whole(plan, state, ctx.objects)
    return of, tuple(step.name for step in (plan or of).steps)


def opened(ctx: Context, claim: Logged) -> Plan:
    """The plan that a run follows, as the journal keeps it; where a secret was taken out of its text, the file that it was
    read from, if it is still the same. Raises UsageError."""
    record = claim.record
    oid, name = claim.parts.get(PLAN), record.plan or PLAN
    found = ctx.objects.read(oid, MAX_PLAN) if oid else None
    text = found.data if found is not None else None
    path = record.plan if not claim.foreign else None  # what somebody else's record names is not opened
    there = _file(ctx, path, record.key)
    if text is None or (record.key is not None and hashlib.sha256(text).hexdigest() != record.key):
        text = there
    if text is None:
        raise UsageError(
            f"run '{ctx.run}' does not keep the text of its plan {in_quotes(name)}, and the file is not there as it was",
            "name the plan: git baton run --plan FILE",
        )
    if path is not None and there is None and os.path.exists(os.path.join(ctx.root, path)):
        said = f"{in_quotes(name)} is another plan now; run '{ctx.run}' follows the one that it was begun with"
        ctx.emit("warning", text=f"{said} ('git baton run --plan {in_shell(path)} --run {ctx.run}' takes up the new one)")
    return replace(read(text, ctx.root, name=name), path=record.plan)


def digest(plan: Plan) -> str | None:
    """The digest of a plan's text, by which a claim names it; None of a plan without one."""
    return hashlib.sha256(plan.text).hexdigest() if plan.text is not None else None


def _file(ctx: Context, path: str | None, key: str | None) -> bytes | None:
    """Return the bytes of a plan's file, if they are as when it was taken up."""
    if path is None or key is None:
        return None
    try:
        text = load(os.path.join(ctx.root, path))
    except (OSError, ValueError):
        return None
    return text if hashlib.sha256(text).hexdigest() == key else None
