"""Whether a shell command is a run of tests, and how it ended: an exit status alone is not a test result. No I/O.

What is a test is in the tables below: wrappers that are looked through, programs, names of tasks, and the summary lines of
each. A command line is read as a shell reads it, to know which exit status the shell's own status speaks of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

from gitbaton.values import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Result = Literal["passed", "failed", "unknown"]
else:
    Result = str

RESULTS: tuple[Result, ...] = ("passed", "failed", "unknown")
MAX_COMMAND = 200
MAX_NAMES = 10
MAX_NAME = 200
_HEAD, _TAIL, _LINE = 4096, 65536, 400
_DEPTH = 12


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


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
    mine = tuple(words for text in own if (words := _plain(text)))
    if not mine and not any(hint in command for hint in _HINTS):
        return None
    try:
        runs = _Walk(mine).runs(command)
    except _UnreadableError:
        return None
    if not runs:
        return None
    last = runs[-1]
    forms = last.test.forms
    if forms == _ANY:  # a summary that another test of the line explains says nothing of this one
        others = {form for run in runs[:-1] if run.test.forms != _ANY for form in run.test.forms}
        forms = tuple(form for form in forms if form not in others)
    text, cut = _window(output)
    found = _found(text, forms, cut)
    result = _result(last, status, found, text)
    return Verdict(
        command=_shown(last.test.words),
        result=result,
        passed=found.passed,
        failed=found.failed,
        skipped=found.skipped,
        names=_names(text, found.told) if result == "failed" else (),
    )


# What the status says.

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


def _result(run: _Run, status: int | None, found: _Found, text: str) -> Result:
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
    if code in _KILLED or any(code in _NOTHING.get(form, ()) for form in run.test.forms if run.test.forms != _ANY):
        return "unknown"
    if not seen and (re.search(_NOT_RUN, text) or (run.placed and re.search(_NO_PLACE, text))):
        return "unknown"
    return "failed"


# What the output says.

_BAD = r"FAILED\b|FAILURES!|ERRORS!|Failed!"
_MEANS = {
    word: meaning
    for meaning, words in (
        ("passed", "passed pass passing succeeded ok"),
        ("failed", "failed fail failing failure failures error errors timed timeout errored fails"),
        ("skipped", "skipped skip skips pending ignored todo incomplete disabled"),
        ("total", "tests test runs run examples example total doctests doctest properties property"),
    )
    for word in words.split()
}
_NUMBER_FIRST = r"(?i)(\d{1,9}) ([a-z]{1,20})|([a-z]{1,20})=(\d{1,9})"
_WORD_FIRST = r"(?i)(\d{0})()([a-z]{1,20}):? {1,30}(\d{1,9})"


@value
class _Form:
    """How the summary of a program looks.

    ``hints``: one of them is in every such summary. ``line``: the summary lines; ``how``: whether the last one is meant, all
    in sum, the lines of the last block (a word comes twice, or the word ``opens`` comes: a new block), or each line is one
    test (tally). ``good``, ``bad``, ``torn``: lines that tell it without numbers; torn: it did not come to its end.
    ``names``: failing tests, by the first pattern that finds some, below the last of its heading, which must be there.
    """

    hints: tuple[str, ...]
    line: str = ""
    how: Literal["last", "sum", "block", "tally"] = "last"
    opens: str = ""
    pairs: str = _NUMBER_FIRST
    good: str = ""
    bad: str = ""
    torn: str = ""
    names: tuple[tuple[str, str], ...] = ()


_FORMS = {
    "pytest": _Form(
        hints=(" in ", "Required test coverage", "Coverage failure"),
        line=r"^(?:=+ )?(?:no tests (?:ran|collected)|\d+ [a-z]+(?: [a-z]+)?)(?:, \d+ [a-z]+(?: [a-z]+)?){0,12}"
        r" in \d+(?:\.\d+)?s(?: \(\d[^)]{0,20}\))?(?: =+)?$",
        bad=r"^(?:FAIL Required test coverage|ERROR: Coverage failure)",
        torn=r"^!{3,} ",
        names=(
            ("short test summary info", r"^(?:FAILED|ERROR) (?! )([^\[\n]{1,400}?(?:\[.{0,400}?\])?)(?= - |$)"),
            ("", r"^_{3,} (?:ERROR \w+ \w+ )?(\S.{0,300}?) _{3,}$"),
        ),
    ),
    "unittest": _Form(
        hints=("\nRan ",),
        line=r"^Ran \d+ tests? in .*\n+(?:OK|FAILED|NO TESTS RAN)(?: \(.*\))?$",
        names=(("", r"^(?:FAIL|ERROR): (\S.*)$"),),
    ),
    "go": _Form(
        hints=("ok  \t", "FAIL"),
        line=r"^--- (PASS|FAIL|SKIP): ",
        how="tally",
        good=r"^ok  \t\S+\t(?:[\d.]+s|\(cached\))(?!.*no tests to run)",
        bad=r"^FAIL(?:\t|$)|^--- FAIL: ",
        names=(("", r"^ *--- FAIL: (\S+)"), ("", r"^FAIL\t(\S+)")),
    ),
    "gotestsum": _Form(hints=("DONE ",), line=r"^DONE (?:\d+ runs, )?\d+ tests.* in [\d.]+s$"),
    "cargo": _Form(
        hints=("test result: ", "error: "),
        line=r"^test result: (?:ok|FAILED)\. .*$",
        how="sum",
        bad=r"^error: (?:test failed, to rerun|could not compile|\d+ targets? failed)",
        names=(("", r"^test (\S.*) \.\.\. FAILED$"), ("\nfailures:\n", r"^ {4}(\S.*)$")),
    ),
    "nextest": _Form(
        hints=(" run: ",),
        line=r"^ *Summary \[ *[\d.]+s\] .*\d+ tests? run: .*$",
        names=(("", r"^ *(?:TRY \d+ )?(?:FAIL|SIG[A-Z]+|TIMEOUT) \[ *[\d.]+s\] (?:\( *\d+/\d+\) )?(\S.*)$"),),
    ),
    "jest": _Form(
        hints=("Tests: ", "Test Suites: "),
        line=r"^ *Tests: {2,}(?:\d+ [a-z]+, ){0,8}\d+ [a-z]+(?: \(\d+ assertions?\))?$",
        bad=r"^Test Suites: .*\d+ failed",
        names=(
            ("", r"^ *● (\S.* › .*)$"),
            ("", r"^ *[✕⨯] (\S.*?)(?: \(\d.{0,12}s\))?$"),
            ("", r"^ *● (?!Console$)(\S.*)$"),
            ("", r"^FAIL +(\S+)"),
        ),
    ),
    "vitest": _Form(
        hints=("  Tests  ", " Test Files  "),
        line=r"^ +Tests {2,}(?:no tests|\d+ [a-z]+.*)$",
        bad=r"^ +Test Files {2,}.*\d+ failed|^ +Errors {2,}\d+ error",
        names=(("", r"^ *FAIL +(?:\|[^|]{1,80}\| +)?(\S.*)$"), ("", r"^ *[×✗] (\S.*?)(?: \d+ms)?$")),
    ),
    "mocha": _Form(
        hints=(" passing", " failing"),
        line=r"^ {2,6}\d+ (?:passing|pending|failing)(?: \(.*\))?$",
        how="block",
        opens="passing",
        names=((" failing\n", r"^  \d{1,5}\) ((?:.{1,200}\n {4,12}){0,6}?.{1,200}):$"),),
    ),
    "playwright": _Form(
        hints=("  ",),
        line=r"^ {2}\d+ (?:passed|failed|flaky|skipped|interrupted|did not run)(?: \(.*\))?$",
        how="block",
        opens="failed",
        names=(("", r"^ {4}(\S.* › .*)$"),),
    ),
    "rspec": _Form(
        hints=(" example",),
        line=r"^\d+ examples?, \d+ failures?(?:, \d+ pending)?(?:, \d+ errors? occurred outside of examples)?$",
        names=(("", r"^rspec (\S.*)$"),),
    ),
    "minitest": _Form(
        hints=(" assertion",),
        line=r"^\d+ (?:runs|tests), \d+ assertions, \d+ failures, \d+ errors.*$",
        names=(("", r"^ {0,4}(?:\d+\) )?(?:Failure|Error):\n(\S+)"),),
    ),
    "counted": _Form(hints=(" failure",), line=r"^(?:\d+ \w+, ){0,3}\d+ tests?, \d+ failures?(?:, \d+ \w+){0,4}$"),
    "phpunit": _Form(
        hints=("Assertions: ",),
        line=r"^(?:(?:FAILURES|ERRORS|WARNINGS)!\n)?Tests: \d+, Assertions: \d+.*$",
        pairs=_WORD_FIRST,
        names=(("", r"^\d{1,5}\) (\S+::\S.*)$"),),
    ),
    "phpunit-ok": _Form(hints=("OK (",), line=r"^OK \(\d+ tests?, \d+ assertions?\)$"),
    "maven": _Form(
        hints=("Tests run: ", "BUILD "),
        line=r"^(?:\[\w+\] )?Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: \d+$",
        pairs=_WORD_FIRST,
        good=r"^\[INFO\] BUILD SUCCESS$",
        bad=r"^\[(?:INFO|ERROR)\] BUILD FAILURE$|<<< (?:FAILURE|ERROR)!",
        names=(
            ("", r"^\[ERROR\] (\S+) (?: |-- )Time elapsed: .*<<< (?:FAILURE|ERROR)!"),
            ("", r"^\[ERROR\] {1,4}(\w[\w.$]*\.\w+)(?:\([^)]{0,80}\))?:\d+"),
        ),
    ),
    "gradle": _Form(
        hints=("BUILD ", " tests completed"),
        line=r"^\d+ tests? completed, .*$",
        good=r"^BUILD SUCCESSFUL in ",
        bad=r"^BUILD FAILED in |There were failing tests",
        names=(("", r"^((?!> )\S.* > .*) FAILED$"),),
    ),
    "dotnet": _Form(
        hints=("Failed: ", "summary: total: "),
        line=r"^(?:(?:Passed|Failed|Skipped)! +- |Test summary: total: \d+, ).*$",
        how="sum",
        pairs=r"(?i)(\d{0})()([a-z]{1,20}): {1,9}(\d{1,9})",
        names=(
            ("", r"^ *Failed (\S.*?) \[[<\d].{0,20}\]$"),
            ("", r"^ *failed (\S.*?) \(\d.{0,20}\)$"),
            ("", r"^.* error TESTERROR: *(\S.*)$"),
        ),
    ),
    "dotnet-long": _Form(
        hints=("Total tests: ", "\n  total: "),
        line=r"^(?:Total tests| *Passed| *Failed| *Skipped|  total|  failed|  succeeded|  skipped): \d+$",
        how="block",
        pairs=_WORD_FIRST,
        names=(("", r"^ *Failed (\S.*?) \[[<\d].{0,20}\]$"), ("", r"^ *failed (\S.*?) \(\d.{0,20}\)$")),
    ),
    "swift": _Form(
        hints=("Executed ", "Test run with ", "** TEST "),
        line=r"^[ \t]*Executed (?P<total>\d+) tests?,"
        r" with (?:(?P<skipped>\d+) tests? skipped and )?(?P<failed>\d+) failures? .*$",
        good=r"^. Test run with [1-9].* passed after|^\*\* TEST SUCCEEDED \*\*",
        bad=r"^. Test run with .* failed after|^\*\* TEST FAILED \*\*",
        names=(("", r"^Test Case '(?:-\[)?([^'\]]{1,300})\]?' failed"), ("", r"^✘ Test (?!run with )(\S.*) failed after")),
    ),
    "bazel": _Form(
        hints=("Executed ",),
        line=r"^Executed \d+ out of (?P<total>\d+) tests?: (?:(?P<passed>\d+) tests? pass(?:es)?)?"
        r"(?:[,. ].*?)??(?:(?P<failed>\d+) (?:tests? )?fails?\b.*)?$",
        names=(("", r"^(//\S+) +(?:\(cached\) )?(?:FAILED|TIMEOUT|NO STATUS)"),),
    ),
    "ctest": _Form(
        hints=("% tests passed", "No tests were found"),
        line=r"^\d+% tests passed(?:, (?P<failed>\d+) tests? failed)? out of (?P<total>\d+)$",
        torn=r"^No tests were found",
        names=(("The following tests FAILED:", r"^[ \t]*\d+ - (\S.*?) \([A-Z]\w.*\)"),),
    ),
    "meson": _Form(
        hints=("Expected Fail: ", "Ok: "),
        line=r"^(?:Ok|Fail|Skipped|Timeout): +\d+$",
        how="block",
        opens="ok",
        pairs=_WORD_FIRST,
    ),
    "tap": _Form(
        hints=("# pass", "not ok ", "# PASS"),
        line=r"^# (?:pass|fail|skip|skipped|todo|cancelled|PASS:|FAIL:|SKIP:|ERROR:) +\d+$",
        how="block",
        opens="pass",
        pairs=_WORD_FIRST,
        bad=r"^not ok \d+(?!.*# (?i:todo|skip))",
        names=(("", r"^ *not ok \d+ (?:- )?(?!.*# (?i:todo|skip))(\S.*)$"), ("", r"^FAIL: (\S.*)$")),
    ),
    "node": _Form(
        hints=("ℹ pass",),
        line=r"^ℹ (?:pass|fail|skipped|todo) \d+$",
        how="block",
        opens="pass",
        pairs=_WORD_FIRST,
        names=(("", r"^ *✖ (?!failing tests:)(\S.*?)(?: \([\d.]+ms\))?$"),),
    ),
    "prove": _Form(hints=("Result: ",), good=r"^Result: PASS$", bad=r"^Result: FAIL$", names=(("", r"^(\S+\.t) .*\(Wstat"),)),
    "deno": _Form(
        hints=(" passed",),
        line=r"^(?:ok|FAILED) \| \d+ passed.* \| \d+ failed.*$",
        names=(("", r"^(\S.*?) \.\.\. .{0,20}FAILED \("),),
    ),
    "bun": _Form(
        hints=(" pass", " fail"),
        line=r"^ +\d+ (?:pass|fail|skip|todo)$",
        how="block",
        opens="pass",
        names=(("", r"^(?:\(fail\)|✗) (\S.*?)(?: \[[\d.]+m?s\])?$"),),
    ),
    "tox": _Form(
        hints=("congratulations :)", "evaluation failed :(", "commands failed"),
        good=r"^ *congratulations :\)",
        bad=r"^ *evaluation failed :\(|^ERROR: +\S+: commands failed",
        names=(("", r"^ {2}(\S+): FAIL\b"), ("", r"^ERROR: +(\S+): commands failed")),
    ),
    "nox": _Form(
        hints=("nox > ",),
        good=r"^nox > (?:Session .* was successful|\* .*: success)",
        bad=r"^nox > (?:Session .* failed|\* .*: failed)",
        names=(("", r"^nox > Session (\S.*?) failed"),),
    ),
}
_ANY = tuple(_FORMS)


@value
class _Found:
    """What a window of output tells: ``none``: that nothing was tested to an end; empty: no summary is seen.

    ``told``: the forms in which a failure may be named."""

    result: Literal["passed", "failed", "none", ""]
    passed: int | None
    failed: int | None
    skipped: int | None
    told: tuple[str, ...]


def _window(output: str) -> tuple[str, bool]:
    """The first and the last part of an output, without colours, its lines cut; whether something is left out."""
    cut = len(output) > _HEAD + _TAIL
    if cut:
        output = f"{output[:_HEAD]}\n{output[-_TAIL:].partition(chr(10))[2]}"
    if "\x1b" in output:
        output = re.sub(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[()][A-Z0-9])", "", output)
    lines = output.replace("\r", "\n").split("\n")
    return "\n" + "\n".join(line[:_LINE].rstrip() for line in lines), cut


def _found(text: str, forms: Sequence[str], cut: bool) -> _Found:
    """What all these forms together say of a window; the worst wins, and its numbers, else those that stand last."""
    whole: list[tuple[int, str, _Found]] = []
    for name in forms:
        form = _FORMS[name]
        if any(hint in text for hint in form.hints):
            place, one = _one(text, name, form, cut)
            if one.result:
                whole.append((place, name, one))
    if not whole:
        return _Found(result="", passed=None, failed=None, skipped=None, told=tuple(forms))
    rank = ("passed", "none", "failed")
    results = [one.result for _, _, one in whole]
    torn = any(one.result == "none" and one.passed for _, _, one in whole)
    result: Literal["passed", "failed", "none"] = (
        "failed" if "failed" in results else "passed" if "passed" in results and not torn else "none"
    )
    counts = max(
        whole,
        key=lambda item: (
            item[2].failed is not None,
            bool(item[2].passed or item[2].failed),
            rank.index(item[2].result),
            item[0],
        ),
    )[2]
    told = tuple(name for _, name, one in whole if one.result == "failed") or tuple(name for _, name, _ in whole)
    return _Found(result=result, passed=counts.passed, failed=counts.failed, skipped=counts.skipped, told=told)


def _one(text: str, name: str, form: _Form, cut: bool) -> tuple[int, _Found]:
    """What one form says of a window, and where its summary stands."""
    matches = list(re.finditer(form.line, text, re.M)) if form.line else []
    several = form.how in ("sum", "tally")
    counts: dict[str, int] = {}
    if form.how == "tally":
        for match in matches:
            _add(counts, [(match[1], 1)])
    elif form.how == "block":
        for match in matches:
            pairs = _pairs(match, form.pairs)
            if any(word in counts or word == form.opens for word, _ in pairs):
                counts = {}
            counts.update(pairs)
        words, counts = counts, {}
        _add(counts, words.items())
    else:
        for match in matches if several else matches[-1:]:
            _add(counts, _pairs(match, form.pairs))
    passed, failed, skipped = _totals(counts, tally=form.how == "tally") if matches else (None, None, None)
    bad = bool(failed) or any(re.search(_BAD, match[0]) for match in (matches if several else matches[-1:]))
    good = bool(passed) or (bool(form.good) and re.search(form.good, text, re.M) is not None)
    if cut and several:
        passed = failed = skipped = None
    result: Literal["passed", "failed", "none", ""] = ""
    if bad or (form.bad and re.search(form.bad, text, re.M)):
        result = "failed"
    elif form.torn and re.search(form.torn, text, re.M):
        result = "none"
    elif good:
        result = "" if cut and several else "passed"
    elif matches:
        result = "none"
    place = matches[-1].end() if matches else 0
    return place, _Found(result=result, passed=passed, failed=failed, skipped=skipped, told=(name,))


def _pairs(match: re.Match[str], pattern: str) -> list[tuple[str, int]]:
    """The words of a summary line, each with its number."""
    if match.re.groupindex:
        return [(word, int(number)) for word, number in match.groupdict().items() if number]
    return [((b or c).lower(), int(a or d)) for a, b, c, d in re.findall(pattern, match[0])]


def _add(counts: dict[str, int], pairs: Iterable[tuple[str, int]]) -> None:
    for word, number in pairs:
        meaning = _MEANS.get(word.lower())
        if meaning:
            counts[meaning] = counts.get(meaning, 0) + number


def _totals(counts: dict[str, int], *, tally: bool) -> tuple[int | None, int | None, int | None]:
    failed, skipped, passed = counts.get("failed", 0), counts.get("skipped", 0), counts.get("passed")
    if passed is None and tally:
        return None, failed, skipped or None
    if passed is None:
        passed = max(counts.get("total", 0) - failed - skipped, 0)
    return passed, failed, skipped


def _names(text: str, forms: Sequence[str]) -> tuple[str, ...]:
    """The failing tests that the first of these forms names that names any."""
    for name in forms:
        for heading, pattern in _FORMS[name].names:
            start = text.rfind(heading) if heading else 0
            if start < 0:
                continue
            names = dict.fromkeys(_name(match[1]) for match in islice(re.compile(pattern, re.M).finditer(text, start), 500))
            names.pop("", None)
            if names:
                return tuple(names)[:MAX_NAMES]
    return ()


def _name(text: str) -> str:
    shown = "".join(c if c.isprintable() else " " for c in text.rstrip(" ─:"))
    return " ".join(shown.split())[:MAX_NAME].rstrip()


# What a shell would run.


class _UnreadableError(Exception):
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


class _Lexer:
    """Splits a text as a shell does: quotes, substitutions, comments; the text of a here-document is no command."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bare, self.blank = re.compile(_BARE), re.compile(_BLANK)
        self.single = re.compile(r"'[^']*'")
        self.escaped = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.S)

    def tokens(self, at: int, depth: int, *, closing: bool) -> tuple[tuple[_Token, ...], int]:
        """The tokens from here to the end, or to the parenthesis that closes what was opened before; and where they end."""
        if depth > _DEPTH:
            raise _UnreadableError
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
            raise _UnreadableError
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
                    raise _UnreadableError
                inner.append(_Lexer(text[at + 1 : end]).tokens(0, depth + 1, closing=False)[0])
                parts.append(text[at : end + 1])
                at = end + 1
            elif double:
                parts.append(c)
                at += 1
            elif c == "'" or text.startswith("$'", at):
                match = (self.single if c == "'" else self.escaped).match(text, at)
                if not match:
                    raise _UnreadableError
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
            raise _UnreadableError
        return _Token(operator="", word="".join(parts), inner=tuple(inner), quoted=quoted), at

    def braced(self, at: int) -> int:
        """Where ``${...}`` ends."""
        opened = 0
        for match in re.compile(r"[{}]|\\.", re.S).finditer(self.text, at):
            opened += {"{": 1, "}": -1}.get(match[0], 0)
            if not opened:
                return match.end()
        raise _UnreadableError


@value
class _Simple:
    """One command. ``loose``: part of an if, a loop or a case, whose status is not its own."""

    words: tuple[str, ...]
    inner: tuple[tuple[_Token, ...], ...]
    loose: bool


@value
class _Group:
    """A list in parentheses or braces. ``shell``: in a shell of its own."""

    chains: tuple[_Chain, ...]
    shell: bool


@value
class _Pipe:
    """Commands joined by ``|``; ``turned``: with ``!`` before them."""

    parts: tuple[_Simple | _Group, ...]
    turned: bool


@value
class _Chain:
    """Pipes joined by ``&&`` and ``||``; ``operators``: the one before each, empty before the first."""

    pipes: tuple[_Pipe, ...]
    operators: tuple[str, ...]
    background: bool


_OPENS = frozenset(("if", "for", "while", "until", "case", "select"))
_CLOSES = frozenset(("fi", "done", "esac"))
_GOES_ON = frozenset(("then", "elif", "else", "do"))
_HEADERS = frozenset(("for", "case", "select"))
_ASSIGNMENT = r"[A-Za-z_][A-Za-z0-9_]*\+?="


class _Parser:
    """Puts the tokens of a command line together as commands, pipes and chains."""

    def __init__(self, tokens: tuple[_Token, ...]) -> None:
        self.rest = tokens
        self.at = 0
        self.inside = 0
        self.assignment = re.compile(_ASSIGNMENT)

    def next(self) -> str:
        """The operator that comes next; empty before a word, and at the end."""
        return self.rest[self.at].operator if self.at < len(self.rest) else ""

    def bare(self) -> str:
        """The word that comes next, if it is written without quotes."""
        token = self.rest[self.at] if self.at < len(self.rest) else None
        return token.word or "" if token and not token.quoted else ""

    def chains(self, depth: int, ends: str = "") -> tuple[_Chain, ...]:
        """Chains up to the end, or up to what closes a group."""
        if depth > _DEPTH:
            raise _UnreadableError
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

    def chain(self, depth: int) -> _Chain:
        """One chain, with the sign that ends it."""
        pipes, operators = [self.pipe(depth)], [""]
        while self.next() in ("&&", "||"):
            operators.append(self.next())
            self.at += 1
            self.lines()
            pipes.append(self.pipe(depth))
        return _Chain(pipes=tuple(pipes), operators=tuple(operators), background=self.next() == "&")

    def lines(self) -> None:
        """A line may end after an operator."""
        while self.next() == "\n":
            self.at += 1

    def pipe(self, depth: int) -> _Pipe:
        """One pipe."""
        turned = False
        while self.bare() == "!":
            turned, self.at = not turned, self.at + 1
        parts = [self.command(depth)]
        while self.next() in ("|", "|&"):
            self.at += 1
            self.lines()
            parts.append(self.command(depth))
        return _Pipe(parts=tuple(parts), turned=turned)

    def command(self, depth: int) -> _Simple | _Group:
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
            return _Group(chains=() if loose and not chains else _loosened(chains) if loose else chains, shell=group == ")")
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
        return _Simple(words=() if header else tuple(words), inner=tuple(inner), loose=loose)

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


def _loosened(chains: tuple[_Chain, ...]) -> tuple[_Chain, ...]:
    """The same in the background of what is known: a status outside tells nothing of one inside."""
    return tuple(_Chain(pipes=c.pipes, operators=c.operators, background=True) for c in chains)


# Whose status the shell's own is.

_OTHER, _AFTER, _OWN = range(3)
_QUIET = _words(
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
class _Test:
    """A command that runs tests: its own words, and the forms that its summary may have."""

    words: tuple[str, ...]
    forms: tuple[str, ...]


@value
class _Run:
    """A test in its place. ``zero``: the shell's status 0 says that the test's was 0. ``nonzero``: what another status says:
    _OWN: it is the test's; _AFTER: it is, if the test has run; _OTHER: nothing. ``placed``: after a cd or the like."""

    test: _Test
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
        if depth > _DEPTH:
            raise _UnreadableError
        tokens, _ = _Lexer(text).tokens(0, depth, closing=False)
        self.chains(_Parser(tokens).chains(depth), zero, nonzero, options, depth)

    def chains(self, chains: tuple[_Chain, ...], zero: bool, nonzero: int, options: _Options, depth: int) -> None:
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

    def chain(self, chain: _Chain, zero: bool, nonzero: int, options: _Options, depth: int) -> None:
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

    def pipe(self, pipe: _Pipe, zero: bool, nonzero: int, options: _Options, depth: int) -> None:
        """Commands joined by ``|``: the last one's status is theirs; with ``pipefail`` that of the last that failed."""
        if pipe.turned:
            zero, nonzero, options = False, _OTHER, options.deafened()
        several = len(pipe.parts) > 1
        harmless = [_is_filter(part) for part in pipe.parts]
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

    def command(self, part: _Simple | _Group, zero: bool, nonzero: int, options: _Options, depth: int) -> None:
        """A command, and what is substituted in it."""
        if isinstance(part, _Group):
            self.chains(part.chains, zero, nonzero, options.copied() if part.shell else options, depth)
            return
        if part.loose:
            zero, nonzero = False, _OTHER
        for tokens in part.inner:
            self.chains(_Parser(tokens).chains(depth + 1), False, _OTHER, options.copied(), depth + 1)
        words = _unassigned(part.words)
        if not words:
            return
        if words[0] == "set":
            options.set(words[1:])
            return
        self.placed = self.placed or words[0] in _PLACES
        seen = _seen(words, self.own)
        if isinstance(seen, _Test):
            self.found.append(_Run(test=seen, zero=zero, nonzero=nonzero, placed=self.placed))
        elif isinstance(seen, _Masked):
            self.found.append(_Run(test=seen.test, zero=False, nonzero=_OTHER, placed=self.placed))
        elif isinstance(seen, _Script):
            if seen.masked:
                zero, nonzero = False, _OTHER
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


def _unassigned(words: Sequence[str]) -> tuple[str, ...]:
    count = 0
    while count < len(words) and re.match(_ASSIGNMENT, words[count]):
        count += 1
    return tuple(words[count:])


def _is_quiet(chain: _Chain, names: frozenset[str]) -> bool:
    return all(_quiet_pipe(pipe, names) for pipe in chain.pipes)


def _quiet_pipe(pipe: _Pipe, names: frozenset[str]) -> bool:
    if len(pipe.parts) != 1 or pipe.turned:
        return False
    part = pipe.parts[0]
    if isinstance(part, _Group) or part.loose:
        return False
    words = _unassigned(part.words)
    return words[0] in names if words else not part.inner


def _is_filter(part: _Simple | _Group) -> bool:
    return isinstance(part, _Simple) and not part.loose and part.words[:1] != () and part.words[0] in (_FILTERS | _LOUDLESS)


def _plain(text: str) -> tuple[str, ...]:
    """The words of a user's own test command; none where it is not one simple command."""
    try:
        tokens, _ = _Lexer(text).tokens(0, 0, closing=False)
    except _UnreadableError:
        return ()
    return _unassigned([token.word for token in tokens if token.word is not None])


# Which command is a test.

_HINTS = (
    *(
        "test",
        "spec",
        "tox",
        "nox",
        "nose",
        "jest",
        "mocha",
        "check",
        "verify",
        "phpunit",
        "playwright",
        "cypress",
        "e2e",
        "unit",
    ),
    *("npm t", "npm it", "cargo t", "cargo +", "prove", "bats", "behave", "ava", "karma", "pest", "trial", "TEST"),
)


@value
class _Script:
    """Another command line in a command. ``here``: read by this shell; ``masked``: its status is not told."""

    text: str
    options: tuple[str, ...]
    here: bool = False
    masked: bool = False


@value
class _Masked:
    """A test whose status is not told by the command that runs it."""

    test: _Test


@value
class _Wrapper:
    """A command that runs another one: after these subcommands, its options (those with a value), so many other words."""

    subcommands: str = ""
    valued: str = ""
    places: int = 0
    scripts: bool = False


_UV = (
    "--with --with-editable --with-requirements --extra --group --only-group --no-group --no-extra --package --directory"
    " --project -p --python --env-file --index --default-index --index-url -i --extra-index-url -f --find-links"
    " --config-file --cache-dir --color --link-mode -P --upgrade-package --python-platform --from -w"
)
_CONDA = _Wrapper(subcommands="run", valued="-n -p --name --prefix --cwd")
_NPX = _Wrapper(valued="-p --package -w --workspace --registry --cache --prefix")
_COVER = _Wrapper(valued="-r --reporter --reports-dir --report-dir -x --exclude -n --include -t --temp-dir")
_WRAPPERS = {
    "sudo": _Wrapper(valued="-u -g -h -p -C -D -r -t -T -U --user --group --host --prompt --chdir"),
    "doas": _Wrapper(valued="-u -C"),
    "env": _Wrapper(valued="-u -C --unset --chdir"),
    "timeout": _Wrapper(valued="-s -k --signal --kill-after", places=1),
    "gtimeout": _Wrapper(valued="-s -k --signal --kill-after", places=1),
    "time": _Wrapper(valued="-f -o --format --output"),
    "nice": _Wrapper(valued="-n --adjustment"),
    "ionice": _Wrapper(valued="-c -n -t --class --classdata"),
    "taskset": _Wrapper(places=1),
    "flock": _Wrapper(valued="-w -E --timeout --wait", places=1),
    **dict.fromkeys(
        ("nohup", "setsid", "command", "builtin", "unbuffer", "caffeinate", "chronic", "dbus-run-session"), _Wrapper()
    ),
    "exec": _Wrapper(valued="-a"),
    "stdbuf": _Wrapper(valued="-i -o -e --input --output --error"),
    "xvfb-run": _Wrapper(valued="-n -s -e -f -p -w --server-num --server-args --error-file --auth-file"),
    "uv": _Wrapper(subcommands="run", valued=_UV),
    "uvx": _Wrapper(valued=_UV),
    "pipx": _Wrapper(subcommands="run", valued="--spec --python --pip-args"),
    "poetry": _Wrapper(subcommands="run", valued="-C -P --directory --project"),
    "pipenv": _Wrapper(subcommands="run", valued="--python --pypi-mirror", scripts=True),
    "rye": _Wrapper(subcommands="run", valued="--pyproject -f", scripts=True),
    "pdm": _Wrapper(subcommands="run", valued="-p --project --venv", scripts=True),
    "hatch": _Wrapper(subcommands="run", valued="-e --env -p --project --data-dir --cache-dir --config", scripts=True),
    "pixi": _Wrapper(subcommands="run", valued="-e --environment --manifest-path", scripts=True),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _CONDA),
    "bundle": _Wrapper(subcommands="exec"),
    "spring": _Wrapper(),
    "direnv": _Wrapper(subcommands="exec", places=1),
    "mise": _Wrapper(subcommands="exec x", valued="-C --cd -E --env -j"),
    "asdf": _Wrapper(subcommands="exec"),
    "dotenv": _Wrapper(valued="-e -f -v -p --file"),
    "dotenvx": _Wrapper(subcommands="run", valued="-f -e -fk"),
    "doppler": _Wrapper(subcommands="run", valued="-p -c --project --config"),
    "op": _Wrapper(subcommands="run", valued="--env-file"),
    "cross-env": _Wrapper(),
    "env-cmd": _Wrapper(valued="-f -e -r --file"),
    **dict.fromkeys(("npx", "bunx", "pnpx"), _NPX),
    "nyc": _COVER,
    "c8": _COVER,
    "coverage": _Wrapper(subcommands="run", valued="--source --omit --include --rcfile --data-file --context --concurrency"),
    "xargs": _Wrapper(valued="-n -I -L -P -d -a -s -E --max-args --max-procs --delimiter --arg-file"),
    "python": _Wrapper(valued="-W -X --check-hash-based-pycs"),
    "php": _Wrapper(valued="-d -c"),
    "ruby": _Wrapper(valued="-I -r -C"),
    "node": _Wrapper(valued="-r --require --import --loader --experimental-loader -C --conditions"),
}
_MODULES = {"pytest": "pytest", "tox": "tox", "nox": "nox", "coverage": "coverage", "nose2": "nose2", "behave": "behave"}


@value
class _Program:
    """A program that runs tests. ``needs``: one of these words, before any other word if ``first``; ``idle``: words with which
    it runs none; ``chosen``: options that choose what to run by name, which may be no test at all."""

    forms: tuple[str, ...]
    needs: str = ""
    first: bool = True
    idle: str = ""
    valued: str = ""
    chosen: str = ""


_HELP = " -h --help --version"
_PYTHON_TESTS = ("pytest", "unittest")
_MAVEN = _Program(
    forms=("maven",),
    needs="test verify integration-test surefire:test failsafe:integration-test failsafe:verify",
    first=False,
    idle="-v -DskipTests -DskipTests=true -Dmaven.test.skip -Dmaven.test.skip=true",
    valued="-pl --projects -f --file -P -s --settings -T --threads -rf",
)
_PHPUNIT = _Program(
    forms=("phpunit", "phpunit-ok", "jest"),
    idle="--list-tests --list-groups --list-suites --generate-configuration --list-tests-xml",
)
_PYTEST = _Program(
    forms=("pytest",),
    idle="--collect-only --co -V --fixtures --funcargs --markers --setup-plan --setup-only --cache-show --fixtures-per-test",
)
_BAZEL = _Program(
    forms=("bazel",), needs="test coverage", idle="--nobuild", valued="--bazelrc --output_base --output_user_root"
)
_PROGRAMS = {
    "pytest": _PYTEST,
    "py.test": _PYTEST,
    "tox": _Program(
        forms=(*_PYTHON_TESTS, "tox"),
        idle="l list c config d devenv e exec q quickstart -l --listenvs -a --listenvs-all --showconfig --notest -n",
        chosen="-e --env",
    ),
    "nox": _Program(
        forms=(*_PYTHON_TESTS, "nox"),
        idle="-l --list --list-sessions --install-only",
        chosen="-s -e --session --sessions -k -t",
    ),
    **dict.fromkeys(("nose2", "nosetests"), _Program(forms=("unittest",))),
    **dict.fromkeys(("trial", "behave"), _Program(forms=_ANY, idle="--help-reporters -d --dry-run")),
    "go": _Program(forms=("go",), needs="test", idle="-list -c -help", valued="-C"),
    "gotestsum": _Program(forms=("gotestsum", "go"), idle="tool"),
    "cargo": _Program(
        forms=("cargo", "nextest"), needs="test t nextest", idle="--no-run --list list archive show-config", valued="--color -C"
    ),
    "jest": _Program(forms=("jest",), idle="--listTests --showConfig --init --clearCache -v"),
    "vitest": _Program(forms=("vitest",), idle="list init bench -v"),
    "mocha": _Program(forms=("mocha",), idle="--list-files --list-reporters --list-interfaces --dry-run -V"),
    "playwright": _Program(forms=("playwright",), needs="test", idle="--list -V"),
    "cypress": _Program(forms=("mocha",), needs="run"),
    "ava": _Program(forms=_ANY),
    "karma": _Program(forms=_ANY, needs="start run"),
    "rspec": _Program(forms=("rspec",), idle="--dry-run --init -v"),
    "minitest": _Program(forms=("minitest",)),
    **dict.fromkeys(("phpunit", "paratest", "pest", "simple-phpunit"), _PHPUNIT),
    "artisan": _Program(forms=("jest", "phpunit", "phpunit-ok"), needs="test"),
    "mvn": _MAVEN,
    "mvnw": _MAVEN,
    "mvnd": _MAVEN,
    "dotnet": _Program(forms=("dotnet", "dotnet-long"), needs="test vstest", idle="--list-tests -t -lt -?"),
    "swift": _Program(forms=("swift",), needs="test", idle="list --list-tests -l"),
    "xcodebuild": _Program(forms=("swift",), needs="test test-without-building", first=False, idle="-dry-run -n -list"),
    **dict.fromkeys(("bazel", "bazelisk", "blaze"), _BAZEL),
    "ctest": _Program(forms=("ctest",), idle="-N --show-only --show-only=json-v1 --print-labels"),
    "meson": _Program(forms=("meson",), needs="test", idle="--list"),
    "deno": _Program(forms=("deno",), needs="test", idle="--no-run"),
    "mix": _Program(forms=("counted",), needs="test"),
    "bats": _Program(forms=("counted", "tap"), idle="-c --count -v"),
    "prove": _Program(forms=("prove",), idle="-D --dry -V"),
    "rye": _Program(forms=("pytest",), needs="test", idle="--collect-only --co"),
    "hatch": _Program(forms=("pytest",), needs="test", idle="--collect-only --co -s --show", valued="-e --env -p --project"),
    **dict.fromkeys(
        ("sbt", "stack", "cabal", "dune", "flutter", "dart", "lein"), _Program(forms=_ANY, needs="test", idle="--no-run-tests")
    ),
}


@value
class _Tasks:
    """A program that runs tasks by name. ``first``: only its first word names one; ``check``: one so named tests."""

    valued: str = ""
    idle: str = ""
    first: bool = False
    check: bool = False
    skipped: str = ""


_MAKE = _Tasks(
    valued="-C --directory -f --file --makefile -I --include-dir -o -W -O",
    idle="-n --dry-run --just-print --recon -q --question -p -v",
    check=True,
)
_INVOKE = _Tasks(valued="-c -r -f --collection --search-root", idle="-l --list -R --dry -V", check=True)
_TASKS = {
    "make": _MAKE,
    "gmake": _MAKE,
    "ninja": _Tasks(valued="-C -f -j -k -l", idle="-n -t", check=True),
    "just": _Tasks(
        valued="-f --justfile -d --working-directory --shell --dotenv-path",
        idle="-n --dry-run -l --list -s --show -V --summary --choose -e --edit",
        first=True,
        check=True,
    ),
    **dict.fromkeys(
        ("task", "go-task"),
        _Tasks(
            valued="-d --dir -t --taskfile -o --output -C --concurrency",
            idle="-n --dry -l --list -a --list-all --summary --status",
            check=True,
        ),
    ),
    "mage": _Tasks(valued="-d -w -t", idle="-l", check=True),
    **dict.fromkeys(("inv", "invoke"), _INVOKE),
    "poe": _Tasks(valued="-C --directory", first=True, check=True, idle="-d --dry-run"),
    "rake": _Tasks(valued="-f --rakefile -I -r -C", idle="-n --dry-run -T --tasks -P -D -W -V"),
    "rails": _Tasks(first=True, idle="-n"),
    "composer": _Tasks(valued="-d --working-dir", first=True, skipped="run run-script"),
    "turbo": _Tasks(valued="--filter -F --cwd", idle="--dry-run --dry", skipped="run"),
    "nx": _Tasks(skipped="run run-many affected", valued="-p --projects -c --configuration", idle="--graph"),
    "lerna": _Tasks(skipped="run", first=True, valued="--scope"),
    "ng": _Tasks(first=True),
}
_TEST_WORDS = _words(
    "test tests testing unittest unittests spec specs e2e unit units pytest jest vitest mocha playwright cypress "
    "testall testacc"
)
_OTHER_WORDS = _words(
    "lint format fmt fix doc docs type types typing typecheck mypy pyright flake8 ruff black isort eslint prettier "
    "style build release clean deps dep dependencies package publish install setup prepare results result report "
    "reports image images fixtures data db env up down server watch list help init generate gen commit precommit "
    "security audit spelling spell links license licenses coverage-report code format-check"
)
_GRADLE_IDLE = _words("-m --dry-run -h --help -? --version -v tasks")
_JS = frozenset(("npm", "pnpm", "yarn", "bun"))
_JS_VALUED = _words(
    "--prefix -C --dir --cwd --filter -F -w --workspace --loglevel --registry --reporter --workspace-concurrency"
)
_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "fish", "ash"))


def _base(word: str) -> str:
    """A program's name without its folder and its ending, and ``python`` for every version of it."""
    name = word.replace("\\", "/").rstrip("/").rpartition("/")[2]
    for ending in (".exe", ".cmd", ".bat"):
        name = name.removesuffix(ending)
    return "python" if re.fullmatch(r"(?:python|pypy)[\d.]*|py", name) else name


def _options_end(words: Sequence[str], valued: Iterable[str], at: int = 1) -> int:
    """Where the options of a command end."""
    takes = frozenset(valued)
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            return at + 1
        at += 2 if words[at] in takes else 1
    return at


def _seen(words: tuple[str, ...], own: Sequence[tuple[str, ...]]) -> _Test | _Masked | _Script | None:
    """The test that a command runs, after all that is looked through; None where it runs none."""
    masked = False
    for _ in range(_DEPTH):
        words = _unassigned(words)
        if not words:
            return None
        test = _test(words) or _own_test(words, own)
        if test is not None:
            return _Masked(test=test) if masked else test
        name = _base(words[0])
        if name in _SHELLS or name in ("eval", "script"):
            script = _script(name, words)
            return replace(script, masked=True) if script and masked else script
        masked = masked or name == "xargs"
        inner = _through(name, words)
        if inner is None:
            return None
        words = inner
    return None


def _own_test(words: tuple[str, ...], own: Sequence[tuple[str, ...]]) -> _Test | None:
    if any(word in ("--help", "--version") for word in words):
        return None
    return _Test(words=words, forms=_ANY) if any(words[: len(mine)] == mine for mine in own) else None


def _script(name: str, words: Sequence[str]) -> _Script | None:
    """The command line that a shell, ``eval`` or ``script`` is given."""
    if name == "eval":
        return _Script(text=" ".join(words[1:]), options=(), here=True)
    for at, word in enumerate(words[1:], 1):
        if name == "script" and word.startswith("--command="):
            return _Script(text=word.partition("=")[2], options=(), masked="--return" not in words)
        if not word.startswith(("-", "+")):
            if words[at - 1] in ("-o", "+o", "-eo", "-euo", "-uo"):
                continue
            return None
        if word == "--command" or ("c" in word and not word.startswith("--")):
            end = _options_end(words, ("-o", "-O"), at + 1)
            if end >= len(words):
                return None
            masked = name == "script" and not any(w == "--return" or (w[:1] == "-" != w[1:2] and "e" in w) for w in words[:end])
            options = tuple(words[1:at]) + ((word,) if name != "script" else ())
            return _Script(text=words[end], options=() if name == "script" else options, masked=masked)
    return None


def _through(name: str, words: Sequence[str]) -> tuple[str, ...] | None:
    """The words of the command that a wrapper runs; None where it is no wrapper."""
    if name in _JS:
        at = _js_at(words)
        word = words[at] if at < len(words) else ""
        if word in ("exec", "x", "dlx"):
            return tuple(words[_options_end(words, (*_JS_VALUED, "-p", "--package"), at + 1) :])
        if word in ("run", "run-script") and name != "npm":
            at = _options_end(words, _JS_VALUED, at + 1)
        return tuple(words[at:]) if name != "npm" and at < len(words) and _base(words[at]) in _PROGRAMS else None
    if name == "command" and words[1:2] in (("-v",), ("-V",)):
        return None
    if name == "uv" and "tool" in words[1:3]:
        words, name = words[words.index("tool") :], "pipx"
    wrapper = _WRAPPERS.get(name)
    if wrapper is None:
        return None
    at = _options_end(words, wrapper.valued.split())
    if wrapper.subcommands:
        if at >= len(words) or words[at] not in wrapper.subcommands.split():
            return None
        at = _options_end(words, wrapper.valued.split(), at + 1)
    elif name == "dotenv" and words[at : at + 1] == ("run",):
        at = _options_end(words, (), at + 1)
    module = next((i for i in range(1, at) if words[i] in ("-m", "--module")), 0) if name in ("python", "coverage", "uv") else 0
    glued = next((i for i in range(1, at) if re.match(r"-m\w", words[i])), 0) if name == "python" and not module else 0
    if glued:
        words = (*words[:glued], "-m", words[glued][2:], *words[glued + 1 :])
        module = glued
    if module:
        chosen = words[module + 1] if module + 1 < len(words) else ""
        return (
            (_MODULES[chosen], *words[module + 2 :])
            if chosen in _MODULES
            else ("python", "-m", *words[module + 1 :])
            if name != "python"
            else None
        )
    if name == "mise" and "--" in words:
        at = words.index("--") + 1 if isinstance(words, tuple) else at
    inner = list(words[at + wrapper.places :])
    if not inner:
        return None
    if name in ("npx", "bunx", "pnpx", "uvx", "pipx", "uv"):
        head, sign, _ = inner[0].partition("@")
        inner[0] = head if sign and head else inner[0]
    if name in ("node", "php", "python", "ruby"):
        inner[0] = _base(inner[0].removesuffix(".js").removesuffix(".mjs").removesuffix(".cjs"))
        return tuple(inner) if inner[0] in _PROGRAMS or inner[0] in _TASKS or inner[0] == "coverage" else None
    if name == "hatch" and ":" in inner[0]:
        inner[0] = inner[0].rpartition(":")[2]
    return tuple(inner)


def _js_at(words: Sequence[str]) -> int:
    """Where a package manager's own command stands, after workspaces and options."""
    at = _options_end(words, _JS_VALUED)
    while at < len(words) and words[at] in ("workspace", "workspaces", "foreach", "recursive", "multi"):
        at = _options_end(
            words, (*_JS_VALUED, "--include", "--exclude", "--from", "-j"), at + (2 if words[at] == "workspace" else 1)
        )
    return at


def _test(words: Sequence[str]) -> _Test | None:
    """The test that these words run by themselves."""
    name, arguments = _base(words[0]), list(words[1:])
    if any(word in ("--help", "--version") for word in arguments):
        return None
    if name in _JS:
        return _js_test(name, words)
    if name == "python":
        return _python_test(words)
    if name in ("gradle", "gradlew"):
        return _gradle_test(name, arguments)
    if name in ("node", "tsx"):
        options = words[1 : _options_end(words, _WRAPPERS["node"].valued.split())]
        return (
            _Test(words=(name, *arguments), forms=("tap", "node"))
            if any(w.partition("=")[0] == "--test" for w in options)
            else None
        )
    if name == "ruby":
        at = _options_end(words, _WRAPPERS["ruby"].valued.split())
        file = _base(words[at]) if at < len(words) else ""
        return (
            _Test(words=(name, *arguments), forms=("minitest",)) if re.fullmatch(r"(?:test_\w+|\w+_test)\.rb", file) else None
        )
    if name == "cmake" and "--build" in words and "--target" in words[:-1]:
        target = words[list(words).index("--target") + 1]
        return _Test(words=(name, *arguments), forms=_ANY) if target in ("test", "check") else None
    if name == "deno" and arguments[:1] == ["task"]:
        return _Test(words=(name, *arguments), forms=_ANY) if _is_task(arguments[1:2], check=False) else None
    program = _PROGRAMS.get(name)
    if program and _runs(program, words):
        return _Test(words=(name, *arguments), forms=program.forms)
    wrapper = _WRAPPERS.get(name)
    if wrapper and wrapper.scripts:
        at = _options_end(words, wrapper.valued.split())
        if words[at : at + 1] == ("run",):
            at = _options_end(words, wrapper.valued.split(), at + 1)
            task = words[at] if at < len(words) and _base(words[at].rpartition(":")[2]) not in _PROGRAMS else ""
            return _Test(words=(name, "run", *words[at:]), forms=_ANY) if _is_task((task,), check=True) else None
    tasks = _TASKS.get(name)
    return _Test(words=(name, *arguments), forms=_ANY) if tasks and _names_task(tasks, words) else None


def _runs(program: _Program, words: Sequence[str]) -> bool:
    """Whether a program of the table tests with these arguments."""
    own = words[: words.index("--")] if "--" in words else words
    idle = f"{program.idle}{_HELP}".split()
    if any(word in idle or word.partition("=")[0] == "-list" for word in own[1:]) or (
        words[0] == "cargo" and "--list" in words
    ):
        return False
    if program.chosen:
        chosen = [w for i, word in enumerate(words) if word in program.chosen.split() for w in words[i + 1 : i + 2]]
        chosen += [word.partition("=")[2] for word in words if word.partition("=")[0] in program.chosen.split() and "=" in word]
        names = [name for word in chosen for name in re.split(r"[,\s]+", word)]
        if names and all(_OTHER_WORDS & set(_parts(name)) for name in names):
            return False
    if not program.needs:
        return True
    needs, valued = program.needs.split(), program.valued.split()
    if not program.first:
        return any(word in needs for i, word in enumerate(own[1:], 1) if own[i - 1] not in valued)
    at = _options_end(words, valued)
    if at < len(words) and words[at].startswith("+"):
        at += 1
    return at < len(words) and words[at] in needs


def _names_task(tasks: _Tasks, words: Sequence[str]) -> bool:
    """Whether a program that runs tasks is asked for a test."""
    idle, valued = f"{tasks.idle}{_HELP}".split(), tasks.valued.split()
    if any(word in idle for word in words[1:]):
        return False
    skipped = tasks.skipped.split()
    named = [
        word.partition("=")[2] if word.startswith(("--target=", "--targets=")) else word
        for i, word in enumerate(words[1:], 1)
        if words[i - 1] not in valued
        and (
            word.startswith(("--target=", "--targets="))
            or (not word.startswith("-") and "=" not in word and word not in skipped)
        )
    ]
    return _is_task(named[:1] if tasks.first else named, check=tasks.check)


def _parts(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _is_task(names: Iterable[str], *, check: bool) -> bool:
    """Whether one of these names is that of a task that tests."""
    for name in names:
        parts = set(_parts(name))
        if (parts & _TEST_WORDS or (check and parts & {"check", "checks"})) and not parts & _OTHER_WORDS - {"watch"}:
            return True
    return False


def _js_test(name: str, words: Sequence[str]) -> _Test | None:
    at = _js_at(words)
    word = words[at] if at < len(words) else ""
    if "-h" in words:
        return None
    if name == "bun" and word == "test":
        return _Test(words=(name, *words[1:]), forms=("bun",))
    if word in ("test", "t", "tst", "it", "install-test", "cit") and (word == "test" or name in ("npm", "pnpm")):
        return _Test(words=(name, *words[1:]), forms=_ANY)
    if word in ("run", "run-script", "rum", "urn"):
        at = _options_end(words, _JS_VALUED, at + 1)
    elif name == "npm" or word in (
        "add",
        "remove",
        "install",
        "why",
        "info",
        "create",
        "up",
        "upgrade",
        "exec",
        "dlx",
        "x",
        "link",
    ):
        return None
    task = words[at] if at < len(words) else ""
    if not _is_task((task,), check=False) or (task in _PROGRAMS and name != "npm"):
        return None
    return _Test(words=(name, *words[1:]), forms=_ANY)


def _python_test(words: Sequence[str]) -> _Test | None:
    at = _options_end(words, (*_WRAPPERS["python"].valued.split(), "-m"))
    module = next((words[i + 1] for i in range(1, min(at, len(words) - 1)) if words[i] == "-m"), "")
    if not module and "-munittest" in words[1:at]:
        module = "unittest"
    if module in ("unittest", "unittest.main"):
        rest = words[list(words).index(module) + 1 :] if module in words else words[at:]
        return None if "-h" in rest else _Test(words=("python", "-m", "unittest", *rest), forms=("unittest",))
    if module == "django":
        at = list(words).index("django")
    elif module:
        return None
    script = words[at] if at < len(words) else ""
    if (module == "django" or _base(script) in ("manage.py", "setup.py")) and words[at + 1 : at + 2] == ("test",):
        head = ("python", "-m", "django") if module else ("python", script)
        return _Test(words=(*head, *words[at + 1 :]), forms=("unittest", "pytest"))
    return None


def _gradle_test(name: str, arguments: Sequence[str]) -> _Test | None:
    if any(word in _GRADLE_IDLE for word in arguments):
        return None
    valued = ("-x", "--exclude-task", "--tests", "-p", "--project-dir", "-b", "-c", "-I", "-g")
    for i, word in enumerate(arguments):
        if (i == 0 or arguments[i - 1] not in valued) and re.fullmatch(
            r"(?:[\w.:-]*:)?(?:test|check|(?!compile)\w+Tests?|allTests|test(?!Classes$)[A-Z]\w*|connected(?:\w+Test|Check))",
            word,
        ):
            return _Test(words=(name, *arguments), forms=("gradle",))
    return None


# How a command is shown.

_SECRET = r"(?i)(?:token|passw(?:or)?d|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key|credential|auth(?![a-z]))"


def _shown(words: Sequence[str]) -> str:
    """A command on one line, values that look secret left out, quoted so that a shell would read the same words."""
    shown: list[str] = []
    length, hidden = 0, False
    for word in words[:MAX_COMMAND]:
        text = _one_line(word)
        if hidden and not text.startswith("-"):
            text = "..."
        hidden = text.startswith("-") and "=" not in text and re.search(_SECRET, text) is not None
        text = _quoted(_without_secrets(text)[:MAX_COMMAND])
        if length + len(text) > MAX_COMMAND - 4:
            shown.append("..." if shown else text[: MAX_COMMAND - 4].strip("'"))
            break
        shown.append(text)
        length += len(text) + 1
    return " ".join(shown)


def _one_line(word: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in word[: 4 * MAX_COMMAND]).split())


def _without_secrets(text: str) -> str:
    name, sign, _ = text.partition("=")
    if sign and re.search(_SECRET, name):
        return f"{name}=..."
    text = re.sub(r"://[^/\s@]+@", "://...@", text)
    return re.sub(r"[A-Za-z0-9]{20,}", lambda match: "..." if _looks_random(match[0]) else match[0], text)


def _looks_random(text: str) -> bool:
    """Whether letters and digits change so often, and are so many, that nobody chose them."""
    changes = sum(a.isdigit() != b.isdigit() for a, b in pairwise(text))
    return changes >= 4 and len(set(text)) >= 8


def _quoted(text: str) -> str:
    if text and re.fullmatch(r"[\w@%+=:,./~^-]+", text, re.ASCII) and not text.startswith("~"):
        return text
    return "'" + text.replace("'", "'\\''") + "'"
