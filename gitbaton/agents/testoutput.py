"""Test output: the summary lines of test programs, what they count, and the failing tests that they name. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, islice

from gitbaton.base.values import TYPE_CHECKING, replace, value

if TYPE_CHECKING:
    from typing import Literal

    Result = Literal["passed", "failed", "none", ""]

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
    """The form of the summary of a family of programs.

    ``hints``: one of them is in every such summary. ``line``: the summary lines; ``how``: whether the last one is meant, the
    lines of the last block (a word comes twice, or one of ``opens``: a new block), all in sum, or each line is one test
    (tally). ``good``, ``bad``, ``torn``: lines that tell it without numbers; torn: it did not come to its end. ``well``: the
    program went well, whatever it tested. ``names``: failing tests, by the first pattern that finds some, below the last of its
    heading, which must be there.
    """

    hints: tuple[str, ...]
    line: str = ""
    how: Literal["last", "sum", "block", "tally"] = "last"
    opens: str = ""
    pairs: str = _NUMBER_FIRST
    good: str = ""
    well: str = ""
    bad: str = ""
    torn: str = ""
    names: tuple[tuple[str, str], ...] = ()


_FORMS = {
    "python": _Form(
        hints=(" in ", "Required test coverage", "Coverage failure", ":)", ":(", "commands failed", "nox > "),
        line=r"^(?:=+ )?(?:no tests (?:ran|collected)|\d+ [a-z]+(?: [a-z]+)?)(?:, \d+ [a-z]+(?: [a-z]+)?){0,12}"
        r" in \d+(?:\.\d+)?s(?: \(\d[^)]{0,20}\))?(?: =+)?$"
        r"|^Ran \d+ tests? in .*\n+(?:OK|FAILED|NO TESTS RAN)(?: \(.*\))?$",
        good=r"^ {2}\S+: OK\b|^nox > (?:Session .* was successful|\* .*: success)",
        well=r"^ *congratulations :\)",
        bad=r"^(?:FAIL Required test coverage|ERROR: Coverage failure)|^ *evaluation failed :\(|^ERROR: +\S+: commands failed"
        r"|^nox > (?:Session .* failed|\* .*: failed)",
        torn=r"^!{3,} ",
        names=(
            ("short test summary info", r"^(?:FAILED|ERROR) (?! )([^\[\n]{1,400}?(?:\[.{0,400}?\])?)(?= - |$)"),
            ("", r"^_{3,} (?:ERROR \w+ \w+ )?(\S.{0,300}?) _{3,}$"),
            ("", r"^(?:FAIL|ERROR): (\S+ \(.*)$"),
            ("", r"^ {2}(\S+): FAIL\b"),
            ("", r"^ERROR: +(\S+): commands failed"),
            ("", r"^nox > Session (\S.*?) failed"),
        ),
    ),
    "go": _Form(
        hints=("ok  \t", "FAIL", "--- PASS", "--- SKIP", "PASS\n"),
        line=r"^--- (PASS|FAIL|SKIP): ",
        how="tally",
        good=r"^ok  \t\S+\t(?:[\d.]+s|\(cached\))(?!.*no tests to run)|^PASS\n(?!ok  \t|coverage: )",
        bad=r"^FAIL(?:\t|$)|^ *--- FAIL: |^panic: ",
        names=(("", r"^ *--- FAIL: (\S+)"), ("", r"^FAIL\t(\S+)")),
    ),
    "cargo": _Form(
        hints=("test result: ", "error: ", " run: "),
        line=r"^test result: (?:ok|FAILED)\. .*$|^ *Summary \[ *[\d.]+s\] .*\d+ tests? run: .*$",
        how="sum",
        bad=r"^error: (?:test failed, to rerun|could not compile|\d+ targets? failed|test run failed)",
        names=(
            ("", r"^test (\S.*) \.\.\. FAILED$"),
            ("\nfailures:\n", r"^ {4}(\S.*)$"),
            ("", r"^ *(?:TRY \d+ )?(?:FAIL|SIG[A-Z]+|TIMEOUT) \[ *[\d.]+s\] (?:\( *\d+/\d+\) )?(\S.*)$"),
        ),
    ),
    "js": _Form(
        hints=("Tests: ", "Test Suites: ", "  Tests  ", " Test Files  ", " pass", " fail", "ℹ pass", "Executed "),
        line=r"^ *Tests: {2,}(?:\d+ [a-z]+, ){0,8}\d+ [a-z]+(?: \(\d+ assertions?\))?$"  # jest
        r"|^ +Tests {2,}(?:no tests|\d+ [a-z]+.*)$"  # vitest
        r"|^ {2,6}\d+ (?:passing|pending|failing)(?: \(.*\))?$"  # mocha
        r"|^ {2}\d+ (?:passed|failed|flaky|skipped|interrupted|did not run)(?: \(.*\))?$"  # playwright
        r"|^(?:ok|FAILED) \| \d+ passed.* \| \d+ failed.*$"  # deno
        r"|^ +\d+ (?:pass|fail|skip|todo)$"  # bun
        r"|^ℹ (?:pass|fail|skipped|todo) \d+$",  # node
        how="block",
        opens="passing pass failed",
        pairs=r"(?i)(\d{1,9}) ([a-z]{1,20})|(?<=ℹ )([a-z]{1,20}) (\d{1,9})",
        good=r"Executed [1-9]\d* of \d+ .*SUCCESS",
        bad=r"Executed \d+ of \d+ .*\(\d+ FAILED\)"
        r"|^Test Suites: .*\d+ failed|^ +Test Files {2,}.*\d+ failed|^ +Errors {2,}\d+ error",
        names=(
            ("", r"^ *● (\S.* › .*)$"),
            ("", r"^ *[✕⨯] (\S.*?)(?: \(\d.{0,12}s\))?$"),
            ("", r"^ *● (?!Console$)(\S.*)$"),
            ("", r"^ *FAIL +(?:\|[^|]{1,80}\| +)?(\S.*)$"),
            ("", r"^ *[×✗] (\S.*?)(?: \d+ms)?$"),
            (" failing\n", r"^  \d{1,5}\) ((?:.{1,200}\n {4,12}){0,6}?.{1,200}):$"),
            ("", r"^ {4}(\S.* › .*)$"),
            ("", r"^(\S.*?) \.\.\. .{0,20}FAILED \("),
            ("", r"^(?:\(fail\)|✗) (\S.*?)(?: \[[\d.]+m?s\])?$"),
            ("", r"^ *✖ (?!failing tests:)(\S.*?)(?: \([\d.]+ms\))?$"),
        ),
    ),
    "tap": _Form(
        hints=("# pass", "ok ", "# PASS", "Result: ", "Ok: "),
        line=r"^# (?:pass|fail|skip|skipped|todo|cancelled|PASS:|FAIL:|SKIP:|ERROR:) +\d+$"
        r"|^(?:Ok|Fail|Skipped|Timeout): +\d+$",  # meson
        how="block",
        opens="pass ok",
        pairs=_WORD_FIRST,
        good=r"^ok \d+(?!.*# (?i:skip))",
        well=r"^Result: PASS$",
        bad=r"^not ok \d+(?!.*# (?i:todo|skip))|^Result: FAIL$",
        names=(
            ("", r"^ *not ok \d+ (?:- )?(?!.*# (?i:todo|skip))(\S.*)$"),
            ("", r"^FAIL: (\S.*)$"),
            ("", r"^(\S+\.t) .*\(Wstat"),
        ),
    ),
    "jvm": _Form(
        hints=("Tests run: ", "BUILD ", " tests completed", "> Task :", "ed: Total "),
        line=r"^(?:\[\w+\] )?Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: \d+$"
        r"|^\d+ tests? completed, .*$"  # gradle
        r"|^\[\w+\] (?:Passed|Failed): Total \d+, Failed \d+, Errors \d+, Passed \d+.*$",  # sbt
        pairs=r"(?i)(\d{1,9}) ([a-z]{1,20})|([a-z]{1,20}):? {1,30}(\d{1,9})",
        good=r"^> Task :(?:[\w-]+:){0,9}(?:test|\w{1,60}Test)$",
        well=r"^\[INFO\] BUILD SUCCESS$|^BUILD SUCCESSFUL in ",
        bad=r"<<< (?:FAILURE|ERROR)!|There were failing tests",
        names=(
            ("", r"^\[ERROR\] (\S+) (?: |-- )Time elapsed: .*<<< (?:FAILURE|ERROR)!"),
            ("", r"^\[ERROR\] {1,4}(\w[\w.$]*\.\w+)(?:\([^)]{0,80}\))?:\d+"),
            ("", r"^((?!> )\S.* > .*) FAILED$"),
            ("", r"^\[error\] \t(\S+)$"),
        ),
    ),
    "dotnet": _Form(
        hints=("Failed: ", "summary: total: ", "Total tests: ", "\n  total: "),
        line=r"^(?:(?:Passed|Failed|Skipped)! +- |Test summary: total: \d+, ).*$"
        r"|^(?:Total tests| *Passed| *Failed| *Skipped|  total|  failed|  succeeded|  skipped): \d+$",
        how="sum",
        pairs=r"(?i)(\d{0})()([a-z]{1,20}): {1,9}(\d{1,9})",
        names=(
            ("", r"^ *Failed (\S.*?) \[[<\d].{0,20}\]$"),
            ("", r"^ *failed (\S.*?) \(\d.{0,20}\)$"),
            ("", r"^.* error TESTERROR: *(\S.*)$"),
        ),
    ),
    "phpunit": _Form(
        hints=("Assertions: ", "OK ("),
        line=r"^(?:(?:FAILURES|ERRORS|WARNINGS)!\n)?Tests: \d+, Assertions: \d+.*$|^OK \(\d+ tests?, \d+ assertions?\)$",
        pairs=r"(?i)(\d{1,9}) ([a-z]{1,20})|([a-z]{1,20}): {1,9}(\d{1,9})",
        names=(("", r"^\d{1,5}\) (\S+::\S.*)$"),),
    ),
    "counted": _Form(  # rspec, minitest, mix, bats, behave, gotestsum, testthat, dart, zig, gtest, leiningen
        hints=(
            " example",
            " assertion",
            " failure",
            "DONE ",
            " failed",
            "FAIL 0",
            " PASS",
            "tests passed",
            "PASSED",
            " tests from",
            "FAILED  ]",
            " Passed |",
            " scenario",
        ),
        line=r"^\d+ examples?, \d+ failures?(?:, \d+ pending)?(?:, \d+ errors? occurred outside of examples)?$"
        r"|^\d+ (?:runs|tests), \d+ assertions, \d+ failures, \d+ errors.*$"
        r"|^(?:\d+ \w+, ){0,3}\d+ tests?, \d+ failures?(?:, \d+ \w+){0,4}$"
        r"|^DONE (?:\d+ runs, )?\d+ tests.* in [\d.]+s$"
        r"|^\d+ scenarios? (?:passed, \d+ failed, \d+ skipped.*|\(.*\))$"
        r"|^(?:SUCCESS|FAIL)! -- \d+ Passed \| \d+ Failed \| .*$"  # ginkgo
        r"|^\[ FAIL \d+ \| WARN \d+ \| SKIP \d+ \| PASS \d+ \]$"
        r"|^Ran \d+ tests containing \d+ assertions\.\n\d+ failures, \d+ errors\.$",
        pairs=r"(?i)(\d{1,9}) (?:scenarios? )?([a-z]{1,20})|(FAIL|SKIP|PASS) (\d{1,9})",
        good=r"^\d\d:\d\d \+\d+.*: All tests passed!$|^All [1-9]\d* tests passed\.$|^\[  PASSED  \] [1-9]\d* tests?\.$",
        bad=r"^\d\d:\d\d \+\d+.*: Some tests failed\.$|^\[  FAILED  \] [1-9]",
        names=(
            ("", r"^rspec (\S.*)$"),
            ("", r"^ {0,4}(?:\d+\) )?(?:Failure|Error):\n(\S+)"),
            ("", r"^=== FAIL: (\S.*?)(?: \([\d.]+s\))?$"),
            ("", r"^\[  FAILED  \] ([\w/]+\.[\w/]+)"),
            ("", r"^ {2}\d{1,5}\) test (\S.*) \("),
            ("", r"^ ✗ (\S.*)$"),
        ),
    ),
    "swift": _Form(
        hints=("Executed ", "Test run with ", "** TEST "),
        line=r"^[ \t]*Executed (?P<total>\d+) tests?,"
        r" with (?:(?P<skipped>\d+) tests? skipped and )?(?P<failed>\d+) failures? .*$",
        good=r"^. Test run with [1-9].* passed after",
        well=r"^\*\* TEST SUCCEEDED \*\*",
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
        hints=("% tests passed",),
        line=r"^\d+% tests passed(?:, (?P<failed>\d+) tests? failed)? out of (?P<total>\d+)$",
        names=(("The following tests FAILED:", r"^[ \t]*\d+ - (\S.*?) \([A-Z]\w.*\)"),),
    ),
}
ANY = tuple(_FORMS)
_FORMS |= {
    "lint": _Form(
        hints=("",),
        well=r"^(?:.* )?0 issues\.$|^All checks passed!|(?i:\bno issues found)|^All matched files use |\b0 errors\b"
        r"|^\d+ files? (?:would be left unchanged|left unchanged|already formatted)|^Checked \d+ files? in .*No fixes",
        bad=r"^[1-9]\d* issues?[.:]|Found [1-9]\d* errors?\b|^✖ [1-9]\d* problem|(?i:\bwould (?:be )?reformat)"
        r"|^\[warn\] Code style issues",
    ),
    "build": _Form(
        hints=("",),
        well=r"BUILD SUCCESS|^Build succeeded|^ *Finished .*target|(?i:compiled successfully)|✓ built in |^Build complete!"
        r"|^INFO: Build completed successfully|\*\* BUILD SUCCEEDED|^ninja: no work to do|^\[100%\] Built target",
        bad=r"BUILD FAIL|^Build FAILED|(?i:\bfailed to compile)|^ninja: build stopped|\*\* BUILD FAILED|could not compile ",
    ),
}
_NOTHING = (
    r"(?im)\bno (?:test|spec)s? (?:(?:file|suite|case|module|task|project)s? )?(?:were )?"
    r"(?:to run|found|ran|run|executed|collected)"
    r"|\[no test files\]|\bno tests? (?:files|matche?s?|matching|is available|modules|suites|targets were)"
    r"|^[^\w\n]{0,9}(?:NX {1,9})?no tasks were (?:executed|run)"
    r"|^(?:make|gmake|task|ninja)\b.*(?:nothing to be done|is up to date|no work to do)|^collected 0 items|^running 0 tests"
    r"|\b0 (?:passing|examples|scenarios|pass|specs|total)\b|\b0 tests?\b(?! (?:failed|skipped|with))|^1\.\.0\b|out of 0$"
    r"|:(?:test|\w{1,60}Test) (?:NO-SOURCE|UP-TO-DATE|FROM-CACHE|SKIPPED)$|^\d+ actionable tasks?: (?!.*executed)"  # gradle
    # what is kept of an earlier run stands for one only where it is shown again, with its summary
    r"|^ *Cached: +(\d+) cached, \1 total$|for (\d+) out of \2 tasks\.$|^ *Tasks: (\d+) completed \(\3 cached\)$"
    r"|\(cached\): (?:surefire|failsafe):|Ran 0 scripts|sources up-to-date, skipping$"
    r"|^(?:nox > Session| ) *\S+(?:: SKIP\b| skipped: )|\bno stale tests$|^no tests defined"
    r"|tests are skipped|^zero tests|executed 0 of 0|couldn't find any files to test|^Result: NOTESTS|^[ℹ#] tests 0$"
)
_FAIL = r"^ *(?:--- |=== )?FAIL(?:ED|URE|URES)?\b|^panic: "
_SHOWS = (
    rf"(?m){_FAIL}"
    r"|^(?:[^\s:]{1,80}: )?(?:fatal )?(?i:error)(?:\[\w+\])?: "
    r"|^[^\s:]{1,200}:\d+:\d+:? |^[^\s:]{1,200}\(\d+,\d+\): error|^[^\s:]{1,200}:\d+: (?:error|undefined)"
    r"|^\w+(?:\[\d+\])?: \*\*\* "
    r"|^(?:\[\w+\] )?BUILD FAIL|^(?:\[[\w:.-]+\] )?ERROR (?:task failed|in )|^exit status [1-9]|^npm (?:ERR!|error) |^E {3}\S"
)


@value
class Summary:
    """The summary in a window of output: ``none``: that nothing was tested to an end; empty: no summary is seen.

    ``told``: the forms in which a failure may be named. ``empty``: it says that no test ran.
    """

    result: Result
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    told: tuple[str, ...] = ()
    empty: bool = False


def window(output: str) -> tuple[str, bool]:
    """The first and the last part of an output, without colours, its lines cut; whether something is left out."""
    cut = len(output) > _HEAD + _TAIL
    if cut:
        output = f"{output[:_HEAD]}\n{output[-_TAIL:].partition(chr(10))[2]}"
    if "\x1b" in output:
        output = re.sub(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[()][A-Z0-9])", "", output)
    lines = output.replace("\r", "\n").split("\n")
    return "\n" + "\n".join(line[:_LINE].rstrip() for line in lines), cut


def shows_failure(text: str, *, sure: bool) -> bool:
    """Whether a window has a line that a failed program prints, whatever program it is; ``sure``: one that no other prints."""
    return re.search(rf"(?m){_FAIL}" if sure else _SHOWS, text) is not None


def summary(text: str, forms: Sequence[str], *, cut: bool, tests: bool = True) -> Summary:
    """Return what all these forms together say of a window; the worst wins, and its numbers, else those that stand last.

    ``cut``: lines are left out, which may have told of failures; ``tests``: it is one of tests.
    """
    here = [name for name in forms if any(hint in text for hint in _FORMS[name].hints)]
    ones = [(place, one) for place, one in (_one(text, name, _FORMS[name], cut) for name in here) if one.result]
    results = {one.result for _, one in ones}
    nothing = tests and not {"passed", "failed"} & results and re.search(_NOTHING, text) is not None
    if not results and not nothing:
        well = any(_stands(_FORMS[name].well, text) for name in here)
        return Summary(result="passed" if well else "", told=tuple(forms))
    torn = any(one.result == "none" and one.passed for _, one in ones)
    result: Result = "failed" if "failed" in results else "passed" if "passed" in results and not torn else "none"
    rank = ("passed", "none", "failed")
    _, counts = max(
        ones,
        key=lambda item: (
            item[1].failed is not None,
            bool(item[1].passed or item[1].failed),
            rank.index(item[1].result),
            item[0],
        ),
        default=(0, Summary(result="")),
    )
    told = [one for _, one in ones if one.result == "failed"] or [one for _, one in ones]
    empty = result == "none" and not counts.passed and (nothing or not counts.skipped)
    return replace(counts, result=result, told=tuple(name for one in told for name in one.told), empty=empty)


def _stands(pattern: str, text: str) -> bool:
    return pattern != "" and re.search(pattern, text, re.M) is not None


def _one(text: str, name: str, form: _Form, cut: bool) -> tuple[int, Summary]:
    """Return what one form says of a window, and where its summary stands."""
    matches = list(re.finditer(form.line, text, re.M)) if form.line else []
    tally, several = form.how == "tally", form.how in ("sum", "tally")
    lines = [[(match[1].lower(), 1)] if tally else _pairs(match, form.pairs) for match in matches]
    if form.how == "block":
        block: dict[str, int] = {}
        for pairs in lines:
            block = dict(pairs) if {*block, *form.opens.split()} & dict(pairs).keys() else {**block, **dict(pairs)}
        lines = [list(block.items())]
    counts: dict[str, int] = {}
    for word, number in chain.from_iterable(lines[-1:] if form.how == "last" else lines):
        meaning = _MEANS.get(word.lower(), "")
        counts[meaning] = counts.get(meaning, 0) + number
    failed, skipped = counts.get("failed", 0), counts.get("skipped", 0)
    passed = counts.get("passed", None if tally else max(counts.get("total", 0) - failed - skipped, 0))
    bad = failed or any(re.search(_BAD, match[0]) for match in (matches if several else matches[-1:]))
    result: Result = "none" if matches else ""
    if bad or _stands(form.bad, text):
        result = "failed"
    elif _stands(form.torn, text):
        result = "none"
    elif (matches and passed) or counts.get("passed") or _stands(form.good, text):
        result = "" if cut and (several or not (matches and passed)) else "passed"
    if not matches or (cut and several):
        return matches[-1].end() if matches else 0, Summary(result=result, told=(name,))
    skips = skipped or (None if tally and passed is None else 0)
    return matches[-1].end(), Summary(result=result, passed=passed, failed=failed, skipped=skips, told=(name,))


def _pairs(match: re.Match[str], pattern: str) -> list[tuple[str, int]]:
    """The words of a summary line, each with its number."""
    if match.re.groupindex:
        return [(word, int(number)) for word, number in match.groupdict().items() if number]
    return [((b or c).lower(), int(a or d)) for a, b, c, d in re.findall(pattern, match[0])]


def failing(text: str, forms: Sequence[str]) -> tuple[str, ...]:
    """The failing tests that the first of these forms names that names any."""
    for heading, pattern in (pair for name in forms for pair in _FORMS[name].names):
        start = text.rfind(heading) if heading else 0
        matches = islice(re.compile(pattern, re.M).finditer(text, start), 500) if start >= 0 else ()
        if names := tuple(dict.fromkeys(name for match in matches if (name := _name(match[1]))))[:MAX_NAMES]:
            return names
    return ()


def _name(text: str) -> str:
    shown = "".join(c if c.isprintable() else " " for c in text.rstrip(" ─:"))
    return " ".join(shown.split())[:MAX_NAME].rstrip()
