"""Test verdicts: whether a shell command is a run of tests, and how it ended. An exit status alone is no test result. No I/O.

A command line is read as a shell reads it (``shell``), to know which exit status the shell's own status speaks of. Which
command is a test is in ``testcommands``, what its output says in ``testoutput``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gitbaton.agents.shell import (
    DEPTH,
    Chain,
    Group,
    Lexer,
    Parser,
    Pipe,
    Simple,
    UnreadableError,
    names_of,
    plain_words,
    unassigned,
)
from gitbaton.agents.testcommands import HINTS, Script, TestCommand, shown, test_of
from gitbaton.agents.testoutput import ANY, Summary, failing, summary, window
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Result = Literal["passed", "failed", "unknown"]
else:
    Result = str

RESULTS: tuple[Result, ...] = ("passed", "failed", "unknown")


@value
class Verdict:
    """How a run of tests ended.

    ``command``: the test program and its arguments, without wrappers, environment and values that look secret.
    ``passed``, ``failed``, ``skipped``: what the summary line counts, None where it does not say.
    ``names``: the failing tests as the output names them.
    """

    command: str
    result: Result
    passed: int | None
    failed: int | None
    skipped: int | None
    names: tuple[str, ...]


def verdict(command: str, status: int | None, output: str, own: Sequence[str] = ()) -> Verdict | None:
    """How the last test in a command line ended; None where the shell would run no test, or the line cannot be read.

    ``status``: the shell's exit status, None where nobody knows it. ``own``: the user's own test commands; each is what a
    command begins with. Evidence of a failure wins over evidence of success, whichever of status and summary tells it.

    A status of 0 says that the test passed if the whole line could not have it otherwise. Another one is the test's if nothing
    else could have failed: before it stand only a cd, an export and the like, after it only an echo. Where something before
    it could have failed, a summary shows that it did not. All else is for the summary, and ``unknown`` where there is none.
    """
    mine = tuple(words for text in own if (words := plain_words(text)))
    if not mine and not any(hint in command for hint in HINTS):
        return None
    try:
        runs = _Walk(mine).runs(command)
    except UnreadableError:
        return None
    if not runs:
        return None
    last = runs[-1]
    forms = last.test.forms
    if forms == ANY:  # a summary that another test of the line explains says nothing of this one
        others = {form for run in runs[:-1] if run.test.forms != ANY for form in run.test.forms}
        forms = tuple(form for form in forms if form not in others)
    text, cut = window(output)
    found = summary(text, forms, cut)
    result = _result(last, status, found, text)
    return Verdict(
        command=shown(last.test.words),
        result=result,
        passed=found.passed,
        failed=found.failed,
        skipped=found.skipped,
        names=failing(text, found.told) if result == "failed" else (),
    )


_KILLED = frozenset((124, 125, 126, 127, 129, 130, 131, 137, 141, 143))  # by timeout, not found, by a signal of another's
_NOTHING = {"pytest": (2, 5), "unittest": (5,), "bazel": (4, 8)}  # no tests, or interrupted, where no summary says more
_NOT_RUN = (
    r"(?im)No module named '?(?:pytest|tox|nox|nose2|coverage)\b|command not found"
    r"|Missing script:|No rule to make target|Failed to spawn|does not contain recipe|could not determine executable"
    r"|could not find `Cargo\.toml`"
    r"|go\.mod file not found|cannot find main module|there is no POM in this directory|no test files? found"
    r"|^No tests found, exiting|no test specified|Unknown command: \"?test"
)
_NO_PLACE = (
    r"(?im)^(?:-|/bin/|/usr/bin/)?(?:bash|sh|zsh|dash|ksh|\(eval\)|cd|pushd|source)(?=[: ]).*"
    r"(?:no such file or directory|not a directory|can't cd to|permission denied|cannot open|can't open)"
)


def _result(run: _Run, status: int | None, found: Summary, text: str) -> Result:
    if found.result == "failed":
        return "failed"
    told: Result = "passed" if found.result == "passed" else "unknown"
    if status is None:
        return told
    if status == 0:
        return "unknown" if found.result == "none" else "passed" if run.zero else told
    code = 128 - status if status < 0 else status
    seen = found.result != ""
    if run.nonzero == _OTHER or (run.nonzero == _AFTER and not seen):
        return told
    if code in _KILLED or any(code in _NOTHING.get(form, ()) for form in run.test.forms if run.test.forms != ANY):
        return "unknown"
    if not seen and (re.search(_NOT_RUN, text) or (run.placed and re.search(_NO_PLACE, text))):
        return "unknown"
    return "failed"


_OTHER, _AFTER, _OWN = range(3)
_QUIET = names_of(
    "cd pushd popd export source . set true : echo printf pwd unset shopt ulimit umask alias declare local readonly "
    "sleep clear hash date"
)  # before a test, these do not fail; after one, some of them do not
_LOUDLESS = frozenset(("echo", "printf", "true", ":", "pwd", "date", "unset", "popd"))
_FILTERS = frozenset(
    (
        "tail",
        "head",
        "tee",
        "cat",
        "less",
        "more",
        "cut",
        "tr",
        "sort",
        "uniq",
        "ts",
        "nl",
        "wc",
        "column",
        "sed",
        "ansi2txt",
        "fold",
    )
)
_PLACES = frozenset(("cd", "pushd", "source", "."))


@value
class _Run:
    """A test in its place. ``zero``: the shell's status 0 says that the test's was 0. ``nonzero``: what another status says:
    _OWN: it is the test's; _AFTER: it is, if the test has run; _OTHER: nothing. ``placed``: after a cd or the like."""

    test: TestCommand
    zero: bool
    nonzero: int
    placed: bool


class _Walk:
    """Finds the tests of a command line, in their order."""

    def __init__(self, own: tuple[tuple[str, ...], ...]) -> None:
        self.own = own
        self.found: list[_Run] = []
        self.placed = False

    def runs(self, text: str) -> list[_Run]:
        """All of them."""
        self.line(text, True, _OWN, _Options(), 0)
        return self.found

    def line(self, text: str, zero: bool, nonzero: int, options: _Options, depth: int) -> None:
        """A command line, which may stand in another."""
        if depth > DEPTH:
            raise UnreadableError
        tokens, _ = Lexer(text).tokens(0, depth, closing=False)
        self.chains(Parser(tokens).chains(depth), zero, nonzero, options, depth)

    def chains(self, chains: tuple[Chain, ...], zero: bool, nonzero: int, options: _Options, depth: int) -> None:
        """Chains one after another: the last one's status is theirs, but with ``set -e`` a failure ends them."""
        quiet = [_is_quiet(chain, _LOUDLESS) for chain in chains]
        quiet_after = list(_all_after(quiet))
        before = True
        for number, chain in enumerate(chains):
            last = number == len(chains) - 1
            errexit = options.errexit
            strict = errexit and len(chain.pipes) == 1
            here_zero = zero and (last or strict)
            here_nonzero = nonzero
            if not last:
                here_nonzero = nonzero if strict and quiet_after[number] else _OTHER
            if errexit and not before:
                here_nonzero = min(here_nonzero, _AFTER)
            if chain.background:
                here_zero, here_nonzero = False, _OTHER
            self.chain(chain, here_zero, here_nonzero, options, depth)
            before = before and (not errexit or _is_quiet(chain, _QUIET))

    def chain(self, chain: Chain, zero: bool, nonzero: int, options: _Options, depth: int) -> None:
        """Pipes joined by ``&&`` and ``||``: what a status of the whole says of each."""
        quiet_after = list(_all_after([_quiet_pipe(pipe, _LOUDLESS) for pipe in chain.pipes]))
        only_and_after = list(_all_after([operator != "||" for operator in chain.operators]))
        before = True
        for number, pipe in enumerate(chain.pipes):
            last = number == len(chain.pipes) - 1
            operator = chain.operators[number]
            here_zero = zero and operator != "||" and only_and_after[number]
            here_nonzero = nonzero if only_and_after[number] and quiet_after[number] else _OTHER
            if operator == "&&" and not before:
                here_nonzero = min(here_nonzero, _AFTER)
            self.pipe(pipe, here_zero, here_nonzero, options if last else options.deafened(), depth)
            before = (before and _quiet_pipe(pipe, _QUIET)) if operator != "||" else False

    def pipe(self, pipe: Pipe, zero: bool, nonzero: int, options: _Options, depth: int) -> None:
        """Commands joined by ``|``: the last one's status is theirs; with ``pipefail`` that of the last that failed."""
        if pipe.turned:
            zero, nonzero, options = False, _OTHER, options.deafened()
        several = len(pipe.parts) > 1
        harmless = [
            isinstance(part, Simple) and not part.loose and part.words[:1] != () and part.words[0] in (_FILTERS | _LOUDLESS)
            for part in pipe.parts
        ]
        after, before = list(_all_after(harmless)), True
        for number, part in enumerate(pipe.parts):
            here_zero, here_nonzero = zero, nonzero
            if number < len(pipe.parts) - 1:
                here_zero = zero and options.pipefail
                here_nonzero = nonzero if options.pipefail and after[number] else _OTHER
            if options.pipefail and not before:
                here_nonzero = min(here_nonzero, _OTHER)
            self.command(part, here_zero, here_nonzero, options.copied() if several else options, depth)
            before = before and harmless[number]

    def command(self, part: Simple | Group, zero: bool, nonzero: int, options: _Options, depth: int) -> None:
        """A command, and what is substituted in it."""
        if isinstance(part, Group):
            self.chains(part.chains, zero, nonzero, options.copied() if part.shell else options, depth)
            return
        if part.loose:
            zero, nonzero = False, _OTHER
        for tokens in part.inner:
            self.chains(Parser(tokens).chains(depth + 1), False, _OTHER, options.copied(), depth + 1)
        words = unassigned(part.words)
        if not words:
            return
        if words[0] == "set":
            options.set(words[1:])
            return
        self.placed = self.placed or words[0] in _PLACES
        seen = test_of(words, self.own)
        if seen is not None and seen.masked:
            zero, nonzero = False, _OTHER
        if isinstance(seen, TestCommand):
            self.found.append(_Run(test=seen, zero=zero, nonzero=nonzero, placed=self.placed))
        elif isinstance(seen, Script):
            inner = _Options()
            inner.set(seen.options)
            self.line(seen.text, zero, nonzero, options if seen.here else inner, depth + 1)


class _Options:
    """What ``set`` has set. ``deaf``: in a place where a failure ends nothing."""

    def __init__(self, flags: dict[str, bool] | None = None, *, deaf: bool = False) -> None:
        self.flags = {} if flags is None else flags
        self.deaf = deaf

    @property
    def errexit(self) -> bool:
        """Whether a failure ends the shell here."""
        return self.flags.get("errexit", False) and not self.deaf

    @property
    def pipefail(self) -> bool:
        """Whether a pipe fails with any part of it."""
        return self.flags.get("pipefail", False)

    def copied(self) -> _Options:
        """For a shell of its own."""
        return _Options(dict(self.flags), deaf=self.deaf)

    def deafened(self) -> _Options:
        """For a place in which a failure ends nothing; what is set there stays set."""
        return _Options(self.flags, deaf=True)

    def set(self, words: Sequence[str]) -> None:
        """Do what these words of ``set``, or options of a shell, say."""
        named = on = False
        for word in words:
            if named:
                self.flags[word] = on
                named = False
            elif word[:1] in ("-", "+") and not word.startswith("--"):
                on, named = word[0] == "-", "o" in word
                self.flags["errexit"] = on if "e" in word else self.flags.get("errexit", False)


def _all_after(flags: Sequence[bool]) -> Iterator[bool]:
    """For each, whether all that come after it are true."""
    found, so_far = [], True
    for flag in reversed(flags):
        found.append(so_far)
        so_far = so_far and flag
    return reversed(found)


def _is_quiet(chain: Chain, names: frozenset[str]) -> bool:
    return all(_quiet_pipe(pipe, names) for pipe in chain.pipes)


def _quiet_pipe(pipe: Pipe, names: frozenset[str]) -> bool:
    if len(pipe.parts) != 1 or pipe.turned:
        return False
    part = pipe.parts[0]
    if isinstance(part, Group) or part.loose:
        return False
    words = unassigned(part.words)
    return words[0] in names if words else not part.inner
