"""Shell command lines: cut into simple commands at the signs that join them; ``shlex`` splits those into words. No I/O.

This is no parser of a shell: what it cannot read raises, what is inside loops and functions is marked as loose, and a
here-document's text is no command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gitbaton.base.values import replace, value

DEPTH = 8
LONGEST = 1 << 15
"""Characters of a line that are worth reading."""
_MANY = 500  # commands in a line, and substitutions


def names_of(text: str) -> frozenset[str]:
    """The words of a list that is written as a text."""
    return frozenset(text.split())


class UnreadableError(Exception):
    """Not a command line that can be read here."""


@value
class Segment:
    """One simple command. ``text``: without redirections; ``redirected``: with them. ``before``, ``after``: the sign that joins
    it to its neighbours (``&&``, ``||``, ``;``, ``|``, ``&``), empty at the ends. ``loose``: part of a loop, a condition or a
    function; ``turned``: with ``!`` before it; ``grouped``: in parentheses or braces. ``hidden``: what is substituted in the
    line, as written and as a command line. ``files``: what its output is written over."""

    text: str
    redirected: str
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
        signs = re.findall(_HIDDEN, self.text) if self.hidden else ()
        return tuple(line for sign in signs if (line := self.hidden[ord(sign) - _FIRST][1]))

    def written(self, *, redirected: bool) -> str:
        """Return the command in one line, with its redirections or without."""
        return " ".join(_restored(self.redirected if redirected else self.text, self.hidden).split())


_FIRST = 0xE000  # of the signs that stand for what is substituted
_HIDDEN = r"[\ue000-\uf8ff]"
_HERE = r"(?ms)(?<!<)<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1([^\n]*)(?:\n(?:.*?\n)??[ \t]*\2[ \t]*(?=\)|$)|(?:\n.*)?\Z)"
_FUNCTION = r"(?<![\w-])[\w-]+[ \t]*\(\)\s*\{([^{}]*)\}"
_FED = (
    r"(?:\A|[;&|(])\s*(?:sudo\s+)?(?:\S*/)?(?:ba|da|k|z)?sh(?:\s+-\w*)*\s*(?:[;&|)]|--|\d?[<>]|\Z)"  # a shell without a script
)
_DEFINED = r"\(\)\s*[({]"  # a function that holds more than commands
_INNER = r"'[^']*'|\$\(\([^()\n]*\)\)|(?:[$<>]|(?<=\w=))\(([^()]*)\)|`([^`]*)`"
_PIECES = r"""(?xs)
  (?P<comment>(?<![^\s;&|(])\#[^\n]*)
| (?P<redirect>(?:(?<!\S)\d(?=&?[<>]))?&?(?:<<<|>>|>\||>&|<&|<>|[<>])[ \t]*(?:'[^']*'|"(?:[^"\\]|\\.)*"|[^\s;&|()<>'"]+)?)
| (?P<sign>\n|&&|\|\||\|&|;;&?|;&|[;&|()])
| (?P<kept>\$?'[^']*'|"(?:[^"\\]|\\.)*"|\\.|\$\{[^{}'"\\]*\}|(?:(?!(?<!\S)\d&?[<>])[^'"\\`;&|()<>\n\#\$])+|[\#\$])
| (?P<broken>.)"""
_SIGNS = {"|&": "|", "\n": ";", ";;": ";", ";;&": ";", ";&": ";", "(": ";", ")": ";"}
_OPENS, _CLOSES = names_of("if for while until case select"), names_of("fi done esac")
_KEYWORDS = _OPENS | _CLOSES | names_of("then elif else do { } ! function")
_EMPTIED = _CLOSES | names_of("for case select function }")


def segments(text: str) -> tuple[Segment, ...]:
    """The commands of a line, in their order; raises UnreadableError."""
    text = re.sub(_FUNCTION, ":", re.sub(r"\\\r?\n", " ", re.sub(_HERE, r"\3", text)))
    text, hidden = _hide(text)
    found, inside, before, level, depth = list[Segment](), re.search(_DEFINED, text) is not None, "", 0, 0
    parts, written, files = list[str](), list[str](), list[str]()
    for match in [*re.finditer(_PIECES, text), None]:
        if match is not None and match.lastgroup != "sign":
            if match.lastgroup == "broken" or len(found) > _MANY:
                raise UnreadableError
            parts += [match[0]] if match.lastgroup == "kept" else []
            written += [match[0]] if match.lastgroup != "comment" else []
            if match.lastgroup == "redirect" and (over := re.match(r"\d?&?>\|?[ \t]*(?![>&])(\S.*)", match[0], re.S)):
                files.append(_unquoted(_restored(over[1], hidden)))
            continue
        said, whole, turned, loose = "".join(parts).strip(), "".join(written).strip(), False, inside or level > 0
        while said and (word := said.split(None, 1)[0]) in _KEYWORDS:
            level = max(level + (word in _OPENS) - (word in _CLOSES), 0)
            depth = max(depth + (word == "{") - (word == "}"), 0)
            turned, loose = turned != (word == "!"), loose or level > 0
            said = "" if word in _EMPTIED else said[len(word) :].strip()
            whole = whole[len(word) :].strip()
        sign = "" if match is None else _SIGNS.get(match[0], match[0])
        if said or files:
            found.append(
                Segment(
                    text=said,
                    redirected=whole,
                    before=before,
                    after=sign,
                    loose=loose,
                    turned=turned,
                    grouped=depth > 0,
                    hidden=tuple(hidden),
                    files=tuple(files),
                )
            )
        elif sign == ";":
            sign = before  # a line may end after a sign
        elif found and found[-1].after == ";":
            found[-1] = replace(found[-1], after=sign)  # the sign after a group is that of its last command
        before, parts, written, files = sign, [], [], []
        depth = max(depth + (match is not None and match[0] == "(") - (match is not None and match[0] == ")"), 0)
    if level or depth or (found and found[-1].after in ("|", "&&", "||")):
        raise UnreadableError
    return (*found[:-1], replace(found[-1], after=found[-1].after.removesuffix(";"))) if found else ()


def scripts(text: str) -> Iterator[str]:
    """The command lines of a line that are in it as a text: those of functions, and of here-documents that a shell is given."""
    for match in re.finditer(_HERE, text):
        around = f"{text[text.rfind(chr(10), 0, match.start()) + 1 : match.start()]} {match[3]}"
        if re.search(_FED, around):
            yield match[0].partition("\n")[2]
    yield from (match[1] for match in re.finditer(_FUNCTION, re.sub(_HERE, r"\3", text)))


def _hide(text: str) -> tuple[str, list[tuple[str, str]]]:
    """A line with one sign for each substitution in it, from the innermost out: as it is written, and as a command line."""
    text, hidden = re.sub(_HIDDEN, "?", text), list[tuple[str, str]]()

    def hide(match: re.Match[str]) -> str:
        whole, line = match[0], match[1] or match[2] or ""
        if whole[0] == "'" or len(hidden) >= _MANY:
            return whole
        hidden.append((_restored(whole, hidden), "" if whole[0] == "(" else _restored(line, hidden)))
        return chr(_FIRST + len(hidden) - 1)

    for _ in range(DEPTH):
        known = len(hidden)
        text = re.sub(_INNER, hide, text)
        if len(hidden) == known:
            break
    return text, hidden


def _restored(text: str, hidden: Sequence[tuple[str, str]]) -> str:
    """Put back what was written where the signs stand."""
    return re.sub(_HIDDEN, lambda match: hidden[ord(match[0]) - _FIRST][0], text) if hidden else text


def _unquoted(text: str) -> str:
    """A word as a shell reads it; as it is written where that cannot be told."""
    try:
        return " ".join(split(text))
    except UnreadableError:
        return text


def split(text: str) -> list[str]:
    """The words of a simple command; raises UnreadableError."""
    if not re.search(r"['\"\\]", text):
        return text.split()
    from shlex import split as posix  # only where something is quoted

    try:
        return posix(text)
    except ValueError:
        raise UnreadableError from None


def words_of(text: str) -> tuple[str, ...]:
    """The words of a simple command without the assignments before it; none where they cannot be told."""
    try:
        return unassigned(split(text))
    except UnreadableError:
        return ()


def pieces(text: str) -> list[str]:
    """Cut a line that cannot be read at the signs between commands, also at those in a text that is quoted."""
    return [piece for part in re.split(r"&&|\|\|?|;|\n", text)[:100] if (piece := part.strip())]


def unassigned(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command without the assignments before it."""
    count = next((place for place, word in enumerate(words) if not re.match(r"[A-Za-z_]\w*\+?=", word)), len(words))
    return tuple(words[count:])
