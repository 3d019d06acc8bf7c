"""Shell command lines: split into words and put together as commands, pipes and chains, as a shell reads them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gitbaton.values import value

DEPTH = 12


def names_of(text: str) -> frozenset[str]:
    """The words of a list that is written as a text."""
    return frozenset(text.split())


class UnreadableError(Exception):
    """Not a command line that a shell would take."""


@value
class _Token:
    """An operator (``word`` None), or a word with the command lines that are substituted in it."""

    operator: str
    word: str | None
    inner: tuple[tuple[_Token, ...], ...]
    quoted: bool


_OPERATORS = (
    "&>>", "<<<", "<<-", ";;&", "&&", "||", ";;", ";&", "|&", "&>", "<<", ">>", ">|", "<>", "<&", ">&",
    "\n", ";", "|", "&", "(", ")", "<", ">",
)  # fmt: skip
_SIGNS = "&|;()<>\n"
_REDIRECTIONS = frozenset(("&>>", "<<<", "<<-", "&>", "<<", ">>", ">|", "<>", "<&", ">&", "<", ">"))
_BARE = r"[^ \t\r\n'\"\\$`|&;()<>]+"
_BLANK = r"(?:[ \t\r]|\\\r?\n)+"


class Lexer:
    """Splits a text as a shell does: quotes, substitutions, comments; the text of a here-document is no command."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bare, self.blank = re.compile(_BARE), re.compile(_BLANK)
        self.single = re.compile(r"'[^']*'")
        self.escaped = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.S)

    def tokens(self, at: int, depth: int, *, closing: bool) -> tuple[tuple[_Token, ...], int]:
        """The tokens from here to the end, or to the parenthesis that closes what was opened before; and where they end."""
        if depth > DEPTH:
            raise UnreadableError
        text, found, opened = self.text, list[_Token](), 0
        waiting: list[tuple[str, bool]] = []
        while at < len(text):
            blank = self.blank.match(text, at)
            if blank:
                at = blank.end()
                continue
            if text[at] == "#":
                end = text.find("\n", at)
                at = len(text) if end < 0 else end
                continue
            if text.startswith(("<(", ">("), at):
                inner, at = self.tokens(at + 2, depth + 1, closing=True)
                found.append(_Token(operator="", word="/dev/fd", inner=(inner,), quoted=True))
                continue
            operator = next((o for o in _OPERATORS if text.startswith(o, at)), None) if text[at] in _SIGNS else None
            if operator is None:
                token, at = self.word(at, depth)
                if found and found[-1].operator in ("<<", "<<-"):
                    waiting.append((token.word or "", found[-1].operator == "<<-"))
                elif token.word and token.word.isdigit() and not token.quoted and text[at : at + 1] in ("<", ">"):
                    continue
                found.append(token)
                continue
            at += len(operator)
            opened += {"(": 1, ")": -1}.get(operator, 0)
            if opened < 0:
                if closing:
                    return tuple(found), at
                opened = 0
            if operator == "\n":
                for delimiter, tabs in waiting:
                    at = self.after(at, delimiter, tabs)
                waiting = []
            found.append(_Token(operator=operator, word=None, inner=(), quoted=False))
        if closing:
            raise UnreadableError
        return tuple(found), at

    def after(self, at: int, delimiter: str, tabs: bool) -> int:
        """Where the line after a here-document begins."""
        end = re.compile(rf"^{'	*' if tabs else ''}{re.escape(delimiter)}$\n?", re.M).search(self.text, at)
        return end.end() if end else len(self.text)

    def word(self, at: int, depth: int) -> tuple[_Token, int]:
        """One word, without its quotes; what is substituted in it stays as it is written."""
        text, parts, inner, quoted = self.text, list[str](), list[tuple[_Token, ...]](), False
        double = False
        while at < len(text):
            c = text[at]
            if c == "\\":
                following = text[at + 1 : at + 2]
                keep = double and following not in ('"', "\\", "$", "`", "\n")
                parts.append("" if following == "\n" else c + following if keep else following)
                quoted, at = True, at + 2
            elif c == '"':
                quoted, double, at = True, not double, at + 1
            elif c == "$" and text.startswith("$((", at) and (end := text.find("))", at)) > 0:
                parts.append(text[at : end + 2])
                at = end + 2
            elif c == "$" and text.startswith("$(", at):
                tokens, end = self.tokens(at + 2, depth + 1, closing=True)
                inner.append(tokens)
                parts.append(text[at:end])
                at = end
            elif c == "$" and text.startswith("${", at):
                end = self.braced(at)
                parts.append(text[at:end])
                at = end
            elif c == "`":
                end = text.find("`", at + 1)
                if end < 0:
                    raise UnreadableError
                inner.append(Lexer(text[at + 1 : end]).tokens(0, depth + 1, closing=False)[0])
                parts.append(text[at : end + 1])
                at = end + 1
            elif double:
                parts.append(c)
                at += 1
            elif c == "'" or text.startswith("$'", at):
                match = (self.single if c == "'" else self.escaped).match(text, at)
                if not match:
                    raise UnreadableError
                parts.append(match[0][1 if c == "'" else 2 : -1])
                quoted, at = True, match.end()
            elif c == "$":
                parts.append(c)
                at += 1
            elif bare := self.bare.match(text, at):
                parts.append(bare[0])
                at = bare.end()
            else:
                break
        if double:
            raise UnreadableError
        return _Token(operator="", word="".join(parts), inner=tuple(inner), quoted=quoted), at

    def braced(self, at: int) -> int:
        """Where ``${...}`` ends."""
        opened = 0
        for match in re.compile(r"[{}]|\\.", re.S).finditer(self.text, at):
            opened += {"{": 1, "}": -1}.get(match[0], 0)
            if not opened:
                return match.end()
        raise UnreadableError


@value
class Simple:
    """One command. ``loose``: part of an if, a loop or a case, whose status is not its own."""

    words: tuple[str, ...]
    inner: tuple[tuple[_Token, ...], ...]
    loose: bool


@value
class Group:
    """A list in parentheses or braces. ``shell``: in a shell of its own."""

    chains: tuple[Chain, ...]
    shell: bool


@value
class Pipe:
    """Commands joined by ``|``; ``turned``: with ``!`` before them."""

    parts: tuple[Simple | Group, ...]
    turned: bool


@value
class Chain:
    """Pipes joined by ``&&`` and ``||``; ``operators``: the one before each, empty before the first."""

    pipes: tuple[Pipe, ...]
    operators: tuple[str, ...]
    background: bool


_OPENS = frozenset(("if", "for", "while", "until", "case", "select"))
_CLOSES = frozenset(("fi", "done", "esac"))
_GOES_ON = frozenset(("then", "elif", "else", "do"))
_HEADERS = frozenset(("for", "case", "select"))
_ASSIGNMENT = r"[A-Za-z_][A-Za-z0-9_]*\+?="


class Parser:
    """Puts the tokens of a command line together as commands, pipes and chains."""

    def __init__(self, tokens: tuple[_Token, ...]) -> None:
        self.rest = tokens
        self.at = 0
        self.inside = 0

    def next(self) -> str:
        """The operator that comes next; empty before a word, and at the end."""
        return self.rest[self.at].operator if self.at < len(self.rest) else ""

    def bare(self) -> str:
        """The word that comes next, if it is written without quotes."""
        token = self.rest[self.at] if self.at < len(self.rest) else None
        return token.word or "" if token and not token.quoted else ""

    def chains(self, depth: int, ends: str = "") -> tuple[Chain, ...]:
        """Chains up to the end, or up to what closes a group."""
        if depth > DEPTH:
            raise UnreadableError
        found = []
        while self.at < len(self.rest):
            if (ends == "}" and self.bare() == "}") or (ends == ")" and self.next() == ")"):
                self.at += 1
                break
            if self.next() in ("\n", ";", "&", ";;", ";&", ";;&", ")", "|", "|&", "&&", "||"):
                self.at += 1
                continue
            begun = self.at
            found.append(self.chain(depth))
            self.at += self.at == begun  # what no shell would read there
        return tuple(found)

    def chain(self, depth: int) -> Chain:
        """One chain, with the sign that ends it."""
        pipes, operators = [self.pipe(depth)], [""]
        while self.next() in ("&&", "||"):
            operators.append(self.next())
            self.at += 1
            self.lines()
            pipes.append(self.pipe(depth))
        return Chain(pipes=tuple(pipes), operators=tuple(operators), background=self.next() == "&")

    def lines(self) -> None:
        """A line may end after an operator."""
        while self.next() == "\n":
            self.at += 1

    def pipe(self, depth: int) -> Pipe:
        """One pipe."""
        turned = False
        while self.bare() == "!":
            turned, self.at = not turned, self.at + 1
        parts = [self.command(depth)]
        while self.next() in ("|", "|&"):
            self.at += 1
            self.lines()
            parts.append(self.command(depth))
        return Pipe(parts=tuple(parts), turned=turned)

    def command(self, depth: int) -> Simple | Group:
        """One command or group, with its redirections."""
        loose = self.inside > 0
        header = False
        while (word := self.bare()) in _OPENS or word in _CLOSES or word in _GOES_ON or (loose and word == "!"):
            self.inside = max(self.inside + (word in _OPENS) - (word in _CLOSES), 0)
            loose, header = True, word in _HEADERS
            self.at += 1
            if header:
                break
        group = {"{": "}"}.get(self.bare()) or {"(": ")"}.get(self.next())
        if group and not header:
            self.at += 1
            chains = self.chains(depth + 1, group)
            self.words()
            if loose:  # in the background of what is known: a status outside tells nothing of one inside
                chains = tuple(Chain(pipes=c.pipes, operators=c.operators, background=True) for c in chains)
            return Group(chains=chains, shell=group == ")")
        words, inner = self.words()
        if self.next() == "(" and words:  # a function, or a list as a value
            self.at += 1
            function = self.next() == ")" and not words[-1].endswith("=")
            self.chains(depth + 1, ")")
            if function:
                self.lines()
                self.command(depth + 1)
                words = ["true"]
            else:
                words, inner = [*words, *self.words()[0]], []
        return Simple(words=() if header else tuple(words), inner=tuple(inner), loose=loose)

    def words(self) -> tuple[list[str], list[tuple[_Token, ...]]]:
        """Words up to the next operator that is no redirection."""
        words: list[str] = []
        inner: list[tuple[_Token, ...]] = []
        while self.at < len(self.rest):
            token = self.rest[self.at]
            if token.word is None and token.operator not in _REDIRECTIONS:
                break
            self.at += 1
            if token.word is None:
                if self.at < len(self.rest) and self.rest[self.at].word is not None:
                    inner.extend(self.rest[self.at].inner)
                    self.at += 1
                continue
            words.append(token.word)
            inner.extend(token.inner)
        return words, inner


def unassigned(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command without the assignments before it."""
    count = 0
    while count < len(words) and re.match(_ASSIGNMENT, words[count]):
        count += 1
    return tuple(words[count:])


def plain_words(text: str) -> tuple[str, ...]:
    """The words of a user's own test command; none where it is not one simple command."""
    try:
        tokens, _ = Lexer(text).tokens(0, 0, closing=False)
    except UnreadableError:
        return ()
    return unassigned([token.word for token in tokens if token.word is not None])
