"""Text scan: keywords choose the rules, then their patterns are matched."""

from __future__ import annotations

from gitbaton.secrets.rules import CONTEXT_WORDS, LONG, RULES, compiled
from gitbaton.secrets.shipped import ENTROPY, SHIPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Match = tuple[int, int, int, str]  # start, end, the rule's place and the kind
Rows = tuple[int, ...]

_TABLE = (*RULES, *SHIPPED)
_WORDS = (*(words for _, words, _, _ in _TABLE), *CONTEXT_WORDS)
_SMALL: dict[str, list[int]] = {}  # looked for in the text in lower case, where none can be missed
_EXACT: dict[str, list[int]] = {}
for _place, _words in enumerate(_WORDS):
    for _word in _words:
        (_SMALL if _word == _word.lower() else _EXACT).setdefault(_word, []).append(_place)
_WORDLESS = [place for place, words in enumerate(_WORDS) if not words]
_INSIDE = 4
_RANDOM = r"(?<![A-Za-z0-9+/_=.-])[A-Za-z0-9+/_-]{20,512}={0,2}(?![A-Za-z0-9+/_=-])"


def rows(text: str) -> Rows:
    """The places of the rules that could find something in a text, the most particular first: cheap, and it misses none."""
    lower = text.lower()
    words = [_SMALL[word] for word in _SMALL if word in lower]
    words += [_EXACT[word] for word in _EXACT if word in text]
    if len(text) >= LONG and _long(text):
        words.append(_WORDLESS)
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
    """Those of some rules that a part of their text may come under."""
    lower = text.lower()
    for place in among:
        words = _WORDS[place]
        if any(word in lower or word in text for word in words) if words else _long(text):
            yield place


def _surrounded(text: str, place: int) -> Iterator[Match]:
    """Secrets that only their surroundings give away."""
    from gitbaton.secrets.context import CONTEXT

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
    return any(len(word) >= LONG for word in text.split())


def _random(text: str) -> bool:
    """Whether a word has more entropy than a name or a path; ids of git's and hashes in hexadecimal do not count."""
    if not text.strip("0123456789abcdef-") or text.startswith(("sha1-", "sha256-", "sha384-", "sha512-")):
        return False
    from math import log2

    size = len(text)
    counts = [text.count(char) for char in set(text)]
    return -sum(n / size * log2(n / size) for n in counts) >= ENTROPY
