"""The scan: which rules a text can come under at all, found by plain words, and what their patterns then match in it."""

from __future__ import annotations

import re

from gitbaton.secrets.rules import LONG, RULES
from gitbaton.secrets.shipped import ENTROPY, SHIPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLE = (*RULES, *SHIPPED)
_PATTERNS: dict[str, re.Pattern[str]] = {}
_NEEDLES: dict[tuple[str, ...], list[tuple[str, bool]]] = {}
_RANDOM = r"(?<![A-Za-z0-9+/_=.-])[A-Za-z0-9+/_-]{20,512}={0,2}(?![A-Za-z0-9+/_=-])"
_CONTEXT = (
    "://",
    "curl",
    "mysql",
    "sshpass",
    "authorization",
    "earer",
    "--",
    "pass",
    "pwd",
    "key",
    "secret",
    "token",
    "credential",
)


def may_hold(text: str, *, strict: bool) -> bool:
    """Whether any rule could find something in a text: cheap, and never wrong when it says no."""
    lower = text.lower()
    if strict or any(word in lower for word in _CONTEXT):
        return True
    return any(_applies(needles, text, lower) for _, needles, _, _ in _TABLE)


def scan(text: str, *, sure: bool, strict: bool) -> Iterator[tuple[int, int, int, str]]:
    """Start, end, rank and kind of everything that a rule takes for a secret; the lower the rank, the more particular."""
    from gitbaton.secrets import context

    lower = text.lower()
    rank = 0
    for kind, needles, pattern, certain in _TABLE:
        rank += 1
        if (certain or not sure) and _applies(needles, text, lower):
            for match in _compiled(pattern).finditer(text):
                group = 1 if match.re.groups else 0
                if not _example(match.group(group)):
                    yield *match.span(group), rank, kind
    if sure:
        return
    for needles, pattern, judge in context.CONTEXT:
        rank += 1
        if _applies(needles, text, lower):
            for match in _compiled(pattern).finditer(text):
                kind = judge(match)
                if kind:
                    yield *match.span(match.lastgroup or 0), rank, kind
    if strict:
        yield from ((m.start(), m.end(), rank + 1, "entropy") for m in _compiled(_RANDOM).finditer(text) if _random(m.group()))


def _applies(needles: tuple[str, ...], text: str, lower: str) -> bool:
    if not needles:
        return len(text) >= LONG and any(len(word) >= LONG for word in text.split())
    split = _NEEDLES.get(needles)
    if split is None:  # one look for each: a word in lower case cannot be missed there, and any other stands only in the text
        split = _NEEDLES[needles] = [(needle, needle == needle.lower()) for needle in needles]
    for needle, small in split:  # noqa: SIM110 - asked of every rule, and any() over a generator takes twice as long
        if needle in (lower if small else text):
            return True
    return False


def _compiled(pattern: str) -> re.Pattern[str]:
    found = _PATTERNS.get(pattern)
    if found is None:
        found = _PATTERNS[pattern] = re.compile(pattern, re.ASCII)
    return found


def _example(text: str) -> bool:
    """A documented example or a row of x."""
    return "EXAMPLE" in text or "xxxxxx" in text.lower()


def _random(text: str) -> bool:
    """Whether a word has more entropy than a name or a path; ids of git's and hashes in hexadecimal do not count."""
    if re.fullmatch(r"[0-9a-f-]{7,128}", text) or text.startswith(("sha1-", "sha256-", "sha384-", "sha512-")):
        return False
    from math import log2

    size = len(text)
    counts = [text.count(char) for char in set(text)]
    return -sum(n / size * log2(n / size) for n in counts) >= ENTROPY
