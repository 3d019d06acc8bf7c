"""Test output: the summary lines of test programs, what they count, and the failing tests that they name. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

MAX_NAMES = 10
MAX_NAME = 200
_HEAD, _TAIL, _LINE = 4096, 65536, 400
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
ANY = tuple(_FORMS)


@value
class Summary:
    """What a window of output tells: ``none``: that nothing was tested to an end; empty: no summary is seen.

    ``told``: the forms in which a failure may be named."""

    result: Literal["passed", "failed", "none", ""]
    passed: int | None
    failed: int | None
    skipped: int | None
    told: tuple[str, ...]


def window(output: str) -> tuple[str, bool]:
    """The first and the last part of an output, without colours, its lines cut; whether something is left out."""
    cut = len(output) > _HEAD + _TAIL
    if cut:
        output = f"{output[:_HEAD]}\n{output[-_TAIL:].partition(chr(10))[2]}"
    if "\x1b" in output:
        output = re.sub(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[()][A-Z0-9])", "", output)
    lines = output.replace("\r", "\n").split("\n")
    return "\n" + "\n".join(line[:_LINE].rstrip() for line in lines), cut


def summary(text: str, forms: Sequence[str], cut: bool) -> Summary:
    """What all these forms together say of a window; the worst wins, and its numbers, else those that stand last."""
    whole: list[tuple[int, str, Summary]] = []
    for name in forms:
        form = _FORMS[name]
        if any(hint in text for hint in form.hints):
            place, one = _one(text, name, form, cut)
            if one.result:
                whole.append((place, name, one))
    if not whole:
        return Summary(result="", passed=None, failed=None, skipped=None, told=tuple(forms))
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
    return Summary(result=result, passed=counts.passed, failed=counts.failed, skipped=counts.skipped, told=told)


def _one(text: str, name: str, form: _Form, cut: bool) -> tuple[int, Summary]:
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
    return place, Summary(result=result, passed=passed, failed=failed, skipped=skipped, told=(name,))


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


def failing(text: str, forms: Sequence[str]) -> tuple[str, ...]:
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
