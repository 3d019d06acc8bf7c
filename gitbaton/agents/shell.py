"""Shell command lines: cut into simple commands at the signs that join them; ``shlex`` splits those into words. No I/O.

This is no parser of a shell: what it cannot read raises, what is inside loops and functions is marked as loose, and a
here-document's text is no command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gitbaton.values import replace, value

DEPTH = 8
_MANY = 500  # commands in a line, and substitutions


def names_of(text: str) -> frozenset[str]:
    """The words of a list that is written as a text."""
    return frozenset(text.split())


class UnreadableError(Exception):
    """Not a command line that can be read here."""


@value
class Segment:
    """One simple command. ``before``, ``after``: the sign that joins it to its neighbours (``&&``, ``||``, ``;``, ``|``,
    ``&``), empty at the ends. ``loose``: part of a loop, a condition or a function; ``turned``: with ``!`` before it;
    ``grouped``: in parentheses or braces. ``hidden``: what is substituted in the line, as written and as a command line.
    ``files``: what its output is written over."""

    text: str
    before: str
    after: str
    loose: bool
    turned: bool
    grouped: bool
    hidden: tuple[tuple[str, str], ...]
    files: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The first word after assignments, as it is written."""
        match = re.match(r"(?:[A-Za-z_]\w*\+?=[^\s'\"]*(?:\s+|\Z))*(\S*)", self.text)
        return match[1] if match else ""

    @property
    def words(self) -> tuple[str, ...]:
        """Its words, without assignments before them; raises UnreadableError."""
        return unassigned([_restored(word, self.hidden) for word in split(self.text)])

    @property
    def inner(self) -> tuple[str, ...]:
        """Command lines that are substituted in it."""
        signs = re.findall(r"[\ue000-\uf8ff]", self.text) if self.hidden else ()
        return tuple(line for sign in signs if (line := self.hidden[ord(sign) - _FIRST][1]))


_FIRST = 0xE000  # of the signs that stand for what is substituted
_HERE = r"(?ms)(?<!<)<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1([^\n]*)(?:\n(?:.*?\n)??[ \t]*\2[ \t]*(?=\)|$)|(?:\n.*)?\Z)"
_FUNCTION = r"(?<![\w-])[\w-]+[ \t]*\(\)\s*\{[^{}]*\}"
_INNER = r"'[^']*'|\$\(\([^()\n]*\)\)|(?:[$<>]|(?<=\w=))\(([^()]*)\)|`([^`]*)`"
_PIECES = r"""(?xs)
  (?P<comment>(?<![^\s;&|(])\#[^\n]*)
| (?P<redirect>&?(?:<<<|>>|>\||>&|<&|<>|[<>])[ \t]*(?:'[^']*'|"(?:[^"\\]|\\.)*"|[^\s;&|()<>'"]+)?)
| (?P<sign>\n|&&|\|\||\|&|;;&?|;&|[;&|()])
| (?P<kept>\$?'[^']*'|"(?:[^"\\]|\\.)*"|\\.|\$\{[^{}'"\\]*\}|[^'"\\`;&|()<>\n\#\$]+|[\#\$])
| (?P<broken>.)"""
_SIGNS = {"|&": "|", "\n": ";", ";;": ";", ";;&": ";", ";&": ";", "(": ";", ")": ";"}
_OPENS, _CLOSES = names_of("if for while until case select"), names_of("fi done esac")
_KEYWORDS = _OPENS | _CLOSES | names_of("then elif else do { } ! function")
_EMPTIED = _CLOSES | names_of("for case select function }")


class _Cut:
    """The commands of a line while it is cut."""

    def __init__(self, text: str, hidden: tuple[tuple[str, str], ...]) -> None:
        self.found: list[Segment] = []
        self.before, self.level, self.depth = "", 0, 0
        self.files = list[str]()
        self.loose, self.hidden = "()" in text, hidden

    def close(self, text: str, piece: str) -> None:
        """Put a command that has ended to the others."""
        text, sign, turned = text.strip(), _SIGNS.get(piece, piece), False
        loose = self.loose or self.level > 0
        while text and (word := text.split(None, 1)[0]) in _KEYWORDS:
            self.level = max(self.level + (word in _OPENS) - (word in _CLOSES), 0)
            self.depth = max(self.depth + (word == "{") - (word == "}"), 0)
            turned, loose = turned != (word == "!"), loose or self.level > 0
            text = "" if word in _EMPTIED else text[len(word) :].strip()
        if text or self.files:
            self.found.append(
                Segment(
                    text=text,
                    before=self.before,
                    after=sign,
                    loose=loose,
                    turned=turned,
                    grouped=self.depth > 0,
                    hidden=self.hidden,
                    files=tuple(self.files),
                )
            )
            self.files = []
        elif sign == ";":
            sign = self.before  # a line may end after a sign
        elif self.found and self.found[-1].after == ";":
            self.found[-1] = replace(self.found[-1], after=sign)  # the sign after a group is that of its last command
        self.before = sign
        self.depth = max(self.depth + (piece == "(") - (piece == ")"), 0)


def segments(text: str) -> tuple[Segment, ...]:
    """The commands of a line, in their order; raises UnreadableError."""
    if "<<" in text:
        text = re.sub(_HERE, r"\3", text)
    text = re.sub(r"\\\r?\n", " ", text)
    if "()" in text:
        text = re.sub(_FUNCTION, ":", text)
    text, hidden = _hide(text)
    cut, parts = _Cut(text, hidden), list[str]()
    for match in re.finditer(_PIECES, text):
        if match.lastgroup == "broken" or len(cut.found) > _MANY:
            raise UnreadableError
        if match.lastgroup == "kept":
            parts.append(match[0])
        elif match.lastgroup == "sign":
            cut.close("".join(parts), match[0])
            parts = []
        elif match.lastgroup == "redirect":
            if over := re.match(r"&?>\|?[ \t]*(?![>&])(\S.*)", match[0], re.S):
                cut.files += split(_restored(over[1], hidden))
            if parts and parts[-1][-1:].isdigit():
                parts[-1] = re.sub(r"(?<!\S)\d\Z", "", parts[-1])
    cut.close("".join(parts), "")
    if cut.level or cut.depth:
        raise UnreadableError
    if cut.found and cut.found[-1].after == ";":
        cut.found[-1] = replace(cut.found[-1], after="")
    return tuple(cut.found)


def _hide(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A line with one sign for each substitution in it, from the innermost out."""
    text, hidden = re.sub(r"[\ue000-\uf8ff]", "?", text), list[tuple[str, str]]()

    def hide(match: re.Match[str]) -> str:
        whole, line = match[0], match[1] or match[2] or ""
        if whole[0] == "'" or len(hidden) >= _MANY:
            return whole
        hidden.append((_restored(whole, hidden), "" if whole[0] == "(" else _restored(line, hidden)))
        return chr(_FIRST + len(hidden) - 1)

    for _ in range(DEPTH):
        if "`" not in text and "(" not in text:
            break
        known = len(hidden)
        text = re.sub(_INNER, hide, text)
        if len(hidden) == known:
            break
    return text, tuple(hidden)


def _restored(text: str, hidden: Sequence[tuple[str, str]]) -> str:
    """What was written where the signs stand."""
    return re.sub(r"[\ue000-\uf8ff]", lambda match: hidden[ord(match[0]) - _FIRST][0], text) if hidden else text


def split(text: str) -> list[str]:
    """The words of a simple command; raises UnreadableError."""
    if not re.search(r"['\"\\]", text):
        return text.split()
    from shlex import split as words_of  # only where something is quoted

    try:
        return words_of(text)
    except ValueError:
        raise UnreadableError from None


def unassigned(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command without the assignments before it."""
    count = 0
    while count < len(words) and re.match(r"[A-Za-z_]\w*\+?=", words[count]):
        count += 1
    return tuple(words[count:])
