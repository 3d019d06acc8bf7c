"""The redactor: finds secrets in words (keywords choose the rules, then their patterns are matched) and puts placeholders in
their place, the same ones each time; and what it redacted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set

from gitbaton.base.errors import ScanError, UsageError
from gitbaton.base.model import Checkpoint, Observed, Prompt, Ran, Standing, Told
from gitbaton.base.secrets.rules import CONTEXT_WORDS, LONG, PREFIXED, RULES, Needles, begun, compiled
from gitbaton.base.secrets.shipped import ENTROPY, SHIPPED
from gitbaton.base.values import TYPE_CHECKING, replace, value

if TYPE_CHECKING:
    from typing import Literal, TypeVar

    T = TypeVar("T")
    Match = tuple[int, int, int, str]  # start, end, the rule's place and the kind
    Mode = Literal["on", "off", "strict"]
else:
    Mode = str
Rows = tuple[int, ...]

_TABLE = (*RULES, *SHIPPED, *PREFIXED)
_FIRST = len(RULES) + len(SHIPPED)  # of the keys with a prefix, which are looked for all at once
_WORDS = (*(words for _, words, _, _ in _TABLE), *CONTEXT_WORDS)
_SMALL: dict[str, list[int]] = {}  # looked for in the text in lower case, where none can be missed
_EXACT: dict[str, list[int]] = {}
_BEGINS: dict[str, list[int]] = {}
for _place, _words in enumerate(_WORDS):
    for _word in _words:
        if _FIRST <= _place < len(_TABLE):
            _BEGINS.setdefault(_word, []).append(_place)
            continue
        (_SMALL if _word == _word.lower() else _EXACT).setdefault(_word, []).append(_place)
_spot_small, _spot_exact = Needles(_SMALL).within, Needles(_EXACT).within
_WORDLESS = [place for place, words in enumerate(_WORDS) if not words]
_INSIDE = 4
_RANDOM = r"(?<![A-Za-z0-9+/_=.-])[A-Za-z0-9+/_-]{20,512}={0,2}(?![A-Za-z0-9+/_=-])"
_PLACEHOLDER = r"\[redacted:[a-z][a-z0-9-]{1,30}\]"
_SHORT = ("pass", "pw", "pwd", "passcode")
_SHORT_KEY = r"(?is)(?:.{0,100}[_.-])?(?:pass|pw|pwd|passcode)"
_ROUNDS = 1000  # what is redacted can bring other secrets to light, each time in fewer words
_FITTING, _KNOWN = 4096, 4 << 20  # characters of a text that is known to hold no secret, and of all of them
_ENTRY = 200  # characters that one more costs
_VERSIONS = 100_000  # lines of files that are known to hold none
_ENDLESS = "nothing is recorded: the scanner for secrets failed: it comes to no end"
_MARK = "[redacted:"
_STRING = r'(?s)"([^"\\]*+(?:\\.[^"\\]*+)*+)"([ \t]{0,32}:)?'
_STRUCTURE = r"[\s{}\[\]:,0-9eE+.truefalsn-]*"
_ESCAPE = r"(?s)\\u[0-9a-fA-F]{4}|\\.|[^\\]"
_BACKSLASHED = r"(?s)\\u[0-9a-fA-F]{4}|\\."
_NAME, _VALUE, _LONGEST = ("name", "Name", "key", "Key"), ("value", "Value"), 64
_COLOUR = r"(?:\x1b|\\(?:u001[bB]|x1[bB]|033|e))\[[0-9;]{0,20}[mK]"
_COLOURED = ("\x1b[", "1b[", "1B[", "\\033[", "\\e[")
_ESCAPED = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\b": "\b", "\\f": "\f"}
_KIND = r"\[redacted:([a-z][a-z0-9-]{1,30})\]"


def rows(text: str) -> Rows:
    """Return the places of the rules that could find something in a text, the most particular first: cheap, and it misses
    none."""
    words = [_SMALL[word] for word in _spot_small(text.lower())]
    words += [_EXACT[word] for word in _spot_exact(text)]
    if len(text) >= LONG and _long(text):
        words.append(_WORDLESS)
    words += [_BEGINS[prefix] for prefix in begun(text)]
    return tuple(sorted({place for places in words for place in places}))


def scan(text: str, *, sure: bool, strict: bool, among: Rows = ()) -> Iterator[Match]:
    """Everything that a rule takes for a secret. ``among``: the ``rows`` of a text that this one is a part of."""
    for place in _still(text, among) if among else rows(text):
        if place >= len(_TABLE):
            if not sure:
                yield from _surrounded(text, place)
            continue
        kind, _, pattern, certain = _TABLE[place]
        if certain or not sure:
            for match in compiled(pattern).finditer(text):
                group = match.re.groups
                said = match.group(group)
                if "EXAMPLE" not in said and "xxxxxx" not in said.lower():  # documented, or a row of x
                    yield *match.span(group), place, kind
    if strict and not sure:
        yield from (
            (m.start(), m.end(), len(_WORDS), "entropy") for m in compiled(_RANDOM).finditer(text) if _random(m.group())
        )


def _still(text: str, among: Rows) -> Iterator[int]:
    """Return those of some rules that a part of their text may come under."""
    lower = text.lower()
    for place in among:
        words = _WORDS[place]
        if any(word in lower or word in text for word in words) if words else _long(text):
            yield place


def _surrounded(text: str, place: int) -> Iterator[Match]:
    """Secrets that only their surroundings give away."""
    from gitbaton.base.secrets.context import CONTEXT

    pattern, judge = CONTEXT[place - len(_TABLE)]
    match, inside = compiled(pattern).search(text), 0
    while match:
        start, end = match.span(match.lastgroup or 0)
        kind = judge(match)
        if kind:
            yield start, end, place, kind
        # What is none may hold one: ``the key is PASSWORD=...``; looked for a few times, so that no row of names is endless.
        inside = 0 if kind or inside == _INSIDE else inside + 1
        match = compiled(pattern).search(text, start if inside else match.end())


def _long(text: str) -> bool:
    return max(map(len, text.split()), default=0) >= LONG


def _random(text: str) -> bool:
    """Whether a word has more entropy than a name or a path; ids of git's and hashes in hexadecimal do not count."""
    if not text.strip("0123456789abcdef-") or text.startswith(("sha1-", "sha256-", "sha384-", "sha512-")):
        return False
    from math import log2

    size = len(text)
    counts = [text.count(char) for char in set(text)]
    return -sum(n / size * log2(n / size) for n in counts) >= ENTROPY


@value
class SecretMatch:
    """A secret in a text: ``kind`` is the placeholder's word, ``start`` and ``end`` are as in a slice."""

    kind: str
    start: int
    end: int


def _with(item: T, **changes: object) -> T:
    """Return a value with some fields changed; the very same one where they are as they were."""
    return item if all(getattr(item, name) == new for name, new in changes.items()) else replace(item, **changes)


class Redactor:
    """Finds secrets by the rules of this room.

    ``mode``: ``off`` finds nothing, ``strict`` also takes what merely looks random. ``allow``: regular expressions; a secret
    that one of them matches whole is none. Raises UsageError for an expression that is not one, ScanError, from every method,
    when the scanner itself fails: then nothing is known of the text.
    """

    def __init__(self, mode: Mode = "on", allow: tuple[str, ...] = ()) -> None:
        self.mode = mode
        self.allow = list[re.Pattern[str]]()
        self._clean, self._left = set[str](), _KNOWN  # texts without a secret, and the room for more
        self._lines: Set[bytes] = set()  # of files
        for pattern in allow:
            try:
                self.allow.append(re.compile(pattern))
            except (re.error, RecursionError, OverflowError) as error:
                said = f"baton.redactAllow is '{pattern[:100]}'; it must be a regular expression: {error}"
                raise UsageError(said) from None

    def text(self, text: str) -> str:
        """Return the text with ``[redacted:KIND]`` for each secret. What it gives it leaves alone a second time."""
        if text in self._clean:
            return text
        for _ in range(_ROUNDS):
            found = self.find(text, sure=False)
            if not found:
                self._remember(text)
                return text
            for finding in reversed(found):
                text = f"{text[: finding.start]}[redacted:{finding.kind}]{text[finding.end :]}"
        raise ScanError(_ENDLESS)

    def _remember(self, text: str) -> None:
        """Note that a text holds no secret: decisions are told right after, and by each checkpoint that carries them."""
        if len(text) <= _FITTING:
            self._left -= len(text) + _ENTRY
            if self._left < 0:
                self._clean, self._left = set(), _KNOWN
            self._clean.add(text)

    def leaves(self, texts: Set[str]) -> bool:
        """Whether texts hold nothing that would be redacted."""
        fresh = texts - self._clean
        # What no rule could find in all of them together it cannot find in one.
        if self.mode != "strict" and not (fresh and rows(_colourless("\n".join(fresh)))):
            for text in fresh:
                self._remember(text)
            return True
        return all(self.text(text) == text for text in fresh)

    def assigned(self, key: str, text: str) -> str:
        """Return the value of a pair; what it is called counts."""
        key = "password" if key.lower().endswith(_SHORT) and compiled(_SHORT_KEY).fullmatch(key) else key
        return self._whole(key, text) or "".join(self._units(list(text), f"{key}="))

    def _whole(self, key: str, text: str) -> str:
        """Return what stands for a value that is a secret from its first sign to its last; empty where it is none."""
        name = key.lower()
        if self.mode == "off" or _MARK in text or not any(word in name for word in CONTEXT_WORDS[-1]):
            return ""
        from gitbaton.base.secrets.context import named

        kind = named(key, text)
        allowed = any(pattern.fullmatch(text) for pattern in self.allow)
        return "" if not kind else text if allowed else f"[redacted:{kind}]"

    def _units(self, units: list[str], head: str = "") -> list[str]:
        """Return a text as the pieces of which each stands for one character, redacted as what follows ``head``."""
        for _ in range(_ROUNDS):
            text = head + "".join(map(_unescaped, units))
            found = [f for f in self.find(text, sure=False) if f.end > len(head)]
            if not found:
                return units
            for finding in reversed(found):
                start, end = max(finding.start - len(head), 0), finding.end - len(head)
                units[start:end] = f"[redacted:{finding.kind}]"
        raise ScanError(_ENDLESS)

    def checkpoint(self, c: Checkpoint) -> Checkpoint:
        """Return the checkpoint with all its words redacted; the very same one where there is nothing to redact."""
        if self.mode == "off":
            return c
        return _with(
            c,
            step=self.text(c.step),
            note=self.text(c.note),
            next_cmd=self.text(c.next_cmd),
            decisions=tuple(map(self.text, c.decisions)),
            label=None if c.label is None else self.text(c.label),
            extra=self._extra(c.extra),
            agent=c.agent and (_with(c.agent, model=self.text(c.agent.model)) if c.agent.model else c.agent),
            carried=c.carried and _with(c.carried, step=self.text(c.carried.step)),
            observed=c.observed and self.observed(c.observed),
            standing=c.standing and self._standing(c, c.standing),
            turn=c.turn and _with(c.turn, edited=self.paths(c.turn.edited)),
            imported=c.imported and _with(c.imported, prompt=self.text(c.imported.prompt), said=self.text(c.imported.said)),
        )

    def _standing(self, c: Checkpoint, s: Standing) -> Standing:
        """Return what stays of a checkpoint's words: its kept note, and the names of its kept extras as those are redacted."""
        names = dict(zip((key for key, _ in c.extra), (key for key, _ in self._extra(c.extra)), strict=True))
        return _with(s, note=self.text(s.note), extra=tuple(names.get(key, key) for key in s.extra))

    def observed(self, o: Observed) -> Observed:
        """Return what a client had on record, with all its words redacted."""
        plans = (
            _with(plan, title=self.text(plan.title), items=tuple(_with(i, text=self.text(i.text)) for i in plan.items))
            for plan in o.plans
        )
        tests = (
            _with(
                t,
                command=self.text(t.command),
                names=tuple(map(self.text, t.names)),
                edited=self.paths(t.edited),
                lacks=self.text(t.lacks),
            )
            for t in o.tests
        )
        asked = tuple(map(self.prompt, o.asked))
        return _with(o, plans=tuple(plans), tests=tuple(tests), asked=asked, edited=self.paths(o.edited))

    def paths(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Paths that are told, with what looks like a secret in them redacted; each once."""
        return tuple(dict.fromkeys(map(self.text, paths)))

    def prompt(self, one: Prompt) -> Prompt:
        """Return what the user said, with its words redacted."""
        return _with(one, text=self.text(one.text), about=self.text(one.about))

    def told(self, told: Told) -> Told:
        """Return what was said, with all its words redacted."""

        def ran(one: Ran) -> Ran:
            return replace(one, command=self.text(one.command), output=self.text(one.output))

        return replace(
            told,
            asked=tuple(map(self.prompt, told.asked)),
            latest=told.latest and self.prompt(told.latest),
            approved=told.approved and self.prompt(told.approved),
            listed=told.listed and self.prompt(told.listed),
            said=told.said and self.prompt(told.said),
            worked=told.worked and self.prompt(told.worked),
            texts=tuple(map(self.prompt, told.texts)),
            actions=tuple(replace(one, text=self.text(one.text), output=self.text(one.output)) for one in told.actions),
            commands=tuple(map(ran, told.commands)),
            checks=tuple(map(ran, told.checks)),
            error=told.error and ran(told.error),
            running=tuple(replace(one, text=self.text(one.text)) for one in told.running),
            read=self.paths(told.read),
            found=self.paths(told.found),
        )

    def gathered(self, observed: Observed, told: Told) -> tuple[Observed, Told]:
        """Return what a client had on record and what was said, with all words redacted."""
        return self.observed(observed), self.told(told)

    def _extra(self, pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """Return the pairs of a checkpoint; a name with a key in it becomes ``redacted.KIND``, with a number where that is
        taken."""
        result, taken = list[tuple[str, str]](), {key for key, _ in pairs}
        for key, text in pairs:
            found = self.find(key, sure=True)
            name = first = f"redacted.{found[0].kind}" if found else key
            number = 1
            while found and name in taken:
                number += 1
                name = f"{first}.{number}"
            taken.add(name)
            result.append((name, self.assigned(key, text)))
        return tuple(result)

    def line(self, raw: bytes, among: Rows = ()) -> bytes:
        """Return one line of JSON Lines, or of any text, redacted; valid JSON stays so, and what holds no secret stays as it
        is. ``among``: the ``rows`` of the line, where it is known to hold nothing but plain characters."""
        if b"\n" in raw[:-1]:
            return b"".join(map(self.line, raw.splitlines(keepends=True)))
        if self.mode == "off":
            return raw
        text = raw.decode("utf-8", "surrogateescape")
        body = text.rstrip("\r\n")
        said = compiled(_BACKSLASHED).sub(_told, body) if "\\u" in body or "\\/" in body else body
        among = among or rows(_colourless(said))
        if not among and self.mode != "strict":
            return raw
        new = (
            self._literals(body, among) if compiled(_STRUCTURE).fullmatch(compiled(_STRING).sub("", body)) else self.text(body)
        )
        return raw if new == body else (new + text[len(body) :]).encode("utf-8", "surrogateescape")

    def lines(self, raw: bytes) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield the lines that redaction changes: the number, from 1, the line, and what ``line`` makes of it."""
        text = raw.decode("utf-8", "surrogateescape")
        among, marks = rows(text), [mark for mark in ("\\u", "\\/", *_COLOURED) if mark in text]
        for number, said in enumerate(text.split("\n") if among or marks or self.mode == "strict" else (), 1):
            odd = any(mark in said for mark in marks)
            some = () if odd else tuple(_still(said, among))
            if some or odd or self.mode == "strict":
                line = said.encode("utf-8", "surrogateescape")
                new = self.line(line, some)
                if new != line:
                    yield number, line, new

    def suspects(self, files: Iterable[bytes]) -> bool:
        """Whether contents of files may hold what cannot be anything but a secret; a line that was looked at is passed over, as
        files come in many versions."""
        fresh = {line for data in files for line in data.split(b"\n")} - self._lines
        text = _colourless(b"\n".join(fresh).decode("latin-1"))
        sure = tuple(place for place in rows(text) if place < len(_TABLE) and _TABLE[place][3])
        if sure:
            fresh = {line for line in fresh if next(_still(_colourless(line.decode("latin-1")), sure), None) is None}
        self._lines = fresh if len(self._lines) > _VERSIONS else self._lines | fresh
        return bool(sure)

    def _literals(self, body: str, among: Rows) -> str:
        """Return a line of JSON, each of its strings redacted in place; a value counts with the name before it: that of a
        member, an option, or what ``{"name": NAME, "value": VALUE}`` calls it."""
        parts: list[str] = []
        done, key, name = 0, "", ""
        for match in compiled(_STRING).finditer(body):
            if match.group(2):
                key = match.group(1)
            old = match.group(1)
            called = name if name and key in _VALUE else key
            new = self._literal(old, "" if match.group(2) else called, among)
            if not match.group(2):
                name = old if key in _NAME else ""
                key = old if old.startswith("--") and len(old) <= _LONGEST else ""
            if new != old:
                parts += [body[done : match.start(1)], new]
                done = match.end(1)
        return "".join([*parts, body[done:]])

    def _literal(self, raw: str, key: str, among: Rows) -> str:
        """Return the inside of a JSON string; every escape but those within a secret stays as it was written."""
        head = f"{key}=" if key else ""
        text = head + (compiled(_BACKSLASHED).sub(_told, raw) if "\\" in raw else raw)
        whole = self._whole(key, text[len(head) :]) if key else ""
        if whole:
            return whole
        if "[" not in text and self.mode != "strict" and next(_still(text, among), None) is None:
            return raw  # no placeholder and no colour in it either, behind which a rule may find something
        if not any(found.end > len(head) for found in self._found(text, sure=False, among=among)):
            return raw
        units = compiled(_ESCAPE).findall(raw) if "\\" in raw else list(raw)
        return "".join(self._units(units, head))

    def find(self, text: str | bytes, *, sure: bool) -> list[SecretMatch]:
        """Return the secrets of a text, in order, none within another. ``sure``: only what cannot be anything else, for
        files."""
        if self.mode == "off":
            return []
        return self._found(text.decode("latin-1") if isinstance(text, bytes) else text, sure=sure)

    def _found(self, text: str, *, sure: bool, among: Rows = ()) -> list[SecretMatch]:
        try:
            return _merged(self._raw(text, sure, among))
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            MemoryError,
            RuntimeError,
            TypeError,
            ValueError,
            re.error,
        ) as error:
            said = " ".join(f"{type(error).__name__} {error}".split())[:200]
            raise ScanError(f"nothing is recorded: the scanner for secrets failed: {said}") from error

    def _raw(self, text: str, sure: bool, among: Rows) -> Iterator[tuple[int, int, int, str]]:
        """Start, end, rank and kind of everything that a rule takes for a secret."""
        if _MARK in text:
            text = compiled(_PLACEHOLDER).sub(lambda m: "\f" * len(m.group()), text)
        bare = _colourless(text)
        found = scan(bare, sure=sure, strict=self.mode == "strict", among=among)
        for start, end, rank, kind in found if bare is text else _placed(text, found):
            if text[start:end].strip("\f") and not any(pattern.fullmatch(text, start, end) for pattern in self.allow):
                yield start, end, rank, kind


def _colourless(text: str) -> str:
    """Return a text without the codes of terminals for colours: they stand within keys, too, where a search was shown."""
    return compiled(_COLOUR).sub("", text) if any(mark in text for mark in _COLOURED) else text


def _placed(text: str, found: Iterator[tuple[int, int, int, str]]) -> Iterator[tuple[int, int, int, str]]:
    """Return what was found in a text without colours, at its places in the text."""
    places, done = list[int](), 0
    for match in compiled(_COLOUR).finditer(text):
        places += range(done, match.start())
        done = match.end()
    places += range(done, len(text))
    for start, end, rank, kind in found:
        yield places[start], places[end - 1] + 1, rank, kind


def _merged(found: Iterator[tuple[int, int, int, str]]) -> list[SecretMatch]:
    """Merge what overlaps into one secret, of the kind of the most particular rule."""
    result: list[list[int]] = []
    kinds: list[str] = []
    for start, end, rank, kind in sorted(found):
        if result and start < result[-1][1]:
            last = result[-1]
            last[1] = max(last[1], end)
            if rank < last[2]:
                last[2], kinds[-1] = rank, kind
        else:
            result.append([start, end, rank])
            kinds.append(kind)
    return [SecretMatch(kind=kind, start=start, end=end) for kind, (start, end, _) in zip(kinds, result, strict=True)]


def _told(match: re.Match[str]) -> str:
    return _unescaped(match.group())


def _unescaped(unit: str) -> str:
    if unit[0] != "\\":
        return unit
    if unit[:2] == "\\u" and len(unit) == 6:
        return chr(int(unit[2:], 16))
    return _ESCAPED.get(unit, unit[-1])


@value
class Redacted:
    """One secret that a placeholder stands for now: the field that held it, and its kind."""

    field: str
    kind: str


def differences(old: Checkpoint, new: Checkpoint) -> tuple[Redacted, ...]:
    """Return the placeholders that ``new``, the redacted ``old``, has and ``old`` has not."""
    found = []
    for (said, before), (field, after) in zip(_fields(old), _fields(new), strict=True):
        if said != field:
            found.append(Redacted(field=field, kind=field.split(".")[2]))
        had = compiled(_KIND).findall(before)
        for kind in compiled(_KIND).findall(after):
            if kind in had:
                had.remove(kind)
            else:
                found.append(Redacted(field=field, kind=kind))
    return tuple(found)


def told(redacted: Sequence[Redacted]) -> str:
    """Return one line: how many secrets, in which fields and of which kinds."""
    count = "a secret" if len(redacted) == 1 else f"{len(redacted)} secrets"
    return f"redacted {count}: {', '.join(f'{r.field} ({r.kind})' for r in redacted)}"


def _fields(c: Checkpoint) -> Iterator[tuple[str, str]]:
    yield from (("step", c.step), ("note", c.note), ("next_cmd", c.next_cmd))
    yield from ((f"decision {number}", text) for number, text in enumerate(c.decisions, 1))
    yield "label", c.label or ""
    yield from ((f"extra.{key}", text) for key, text in c.extra)
    yield "carried.step", c.carried.step if c.carried else ""
