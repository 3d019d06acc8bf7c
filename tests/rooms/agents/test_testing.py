"""Whether a command line is a run of tests, and how it ended: lines as agents write them, outputs as programs print them."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.agents import testcommands, testoutput
from gitbaton.agents.testcommands import MAX_COMMAND
from gitbaton.agents.testing import CheckVerdict, mends, outcomes
from gitbaton.agents.testoutput import MAX_NAME, MAX_NAMES
from tests.kit.tables import each
from tests.kit.tiers import examples, model


def verdict(command: str, status: int | None, output: str, own: tuple[str, ...] = ()) -> CheckVerdict | None:
    """How the last test in a command line ended; None where the shell would run no test."""
    return next((one for one in reversed(outcomes(command, status, output, own)) if one.kind == "test"), None)


PASSED, FAILED, UNKNOWN = "passed", "failed", "unknown"
OK = "...                                                    [100%]\n3 passed in 0.12s\n"
NOT_OK = """.FFs                                                                     [100%]
=================================== FAILURES ===================================
___________________________________ T.test_b ___________________________________

>   def test_b(self): self.fail()
E   AssertionError: None

test_u.py:4: AssertionError
----------------------------- Captured stdout call -----------------------------
ERROR of my own - not a test
=========================== short test summary info ============================
FAILED test_u.py::T::test_b - AssertionError: None
FAILED test_u.py::test_c[a - b] - assert [1] == [2]
2 failed, 1 passed, 1 skipped in 1.01s
"""
COLLECTION = """==================================== ERRORS ====================================
_______________________ ERROR collecting tests/test_x.py _______________________
E   ModuleNotFoundError: No module named 'nope'
=========================== short test summary info ============================
ERROR tests/test_x.py
!!!!!!!!!!!!!!!!!!!! Interrupted: 1 error during collection !!!!!!!!!!!!!!!!!!!!
=============================== 1 error in 0.07s ===============================
"""
STOPPED = "!!!!!!!!!!!!!!! KeyboardInterrupt !!!!!!!!!!!!!!!\n========= 3 passed in 4.02s =========\n"
UNITTEST = """.FEs
======================================================================
ERROR: test_c (test_u.T.test_c)
----------------------------------------------------------------------
ZeroDivisionError: division by zero

======================================================================
FAIL: test_b (test_u.T.test_b)
----------------------------------------------------------------------
AssertionError: None

----------------------------------------------------------------------
Ran 4 tests in 0.001s

FAILED (failures=1, errors=1, skipped=1)
"""
UNITTEST_OK = "....\n------------\nRan 5 tests in 0.001s\n\nOK (skipped=1)\n"
GO = """--- FAIL: TestBreaks (0.00s)
    --- FAIL: TestBreaks/deep (0.00s)
        a_test.go:9: no
FAIL
FAIL\texample.com/a\t0.003s
ok  \texample.com/b\t0.002s
FAIL
"""
GO_V = """=== RUN   TestAdds
--- PASS: TestAdds (0.00s)
=== RUN   TestLater
--- SKIP: TestLater (0.00s)
PASS
ok  \texample.com/a\t0.003s
"""
CARGO = """running 3 tests
test tests::adds ... ok
test tests::later ... ignored
test tests::breaks ... FAILED

failures:

---- tests::breaks stdout ----
thread 'tests::breaks' panicked at src/lib.rs:5:69

failures:
    tests::breaks

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.12s

error: test failed, to rerun pass `--lib`
"""
CARGO_OK = """running 2 tests
..
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests lab

running 1 test
test src/lib.rs - f (line 1) ... ok

test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
"""
NEXTEST = """        FAIL [   0.004s] (2/5) lab tests::breaks
────────────
     Summary [   0.005s] 5 tests run: 4 passed, 1 failed, 2 skipped
        FAIL [   0.004s] (2/5) lab tests::breaks
error: test run failed
"""
JEST = """FAIL j/sum.test.js
  maths
    ✓ adds (2 ms)
    ✕ breaks (3 ms)
    ○ skipped later

  ● maths › breaks

    expect(received).toBe(expected) // Object.is equality

Test Suites: 1 failed, 1 total
Tests:       1 failed, 1 skipped, 1 passed, 3 total
Snapshots:   0 total
Time:        0.415 s
Ran all test suites.
"""
JEST_OK = "PASS j/sum.test.js\n\nTest Suites: 1 passed, 1 total\nTests:       2 passed, 2 total\nSnapshots:   0 total\n"
JEST_BROKEN = "FAIL j/a.test.js\n  ● Test suite failed to run\n\nTest Suites: 1 failed, 1 total\nTests:       0 total\n"
VITEST = """
\x1b[1m\x1b[46m RUN \x1b[49m\x1b[22m \x1b[36mv4.1.12 \x1b[39m

\x1b[41m\x1b[1m FAIL \x1b[22m\x1b[49m v/sum.test.mjs\x1b[2m > \x1b[22mmaths\x1b[2m > \x1b[22mbreaks
\x1b[31mAssertionError: expected 1 to be 2\x1b[39m

\x1b[2m Test Files \x1b[22m \x1b[1m\x1b[31m1 failed\x1b[39m\x1b[22m\x1b[90m (1)\x1b[39m
\x1b[2m      Tests \x1b[22m 1 failed\x1b[2m | \x1b[22m\x1b[32m1 passed\x1b[39m\x1b[2m | \x1b[22m1 skipped\x1b[39m (3)\x1b[39m
\x1b[2m   Start at \x1b[22m 19:52:26
"""
VITEST_OK = " Test Files  1 passed (1)\n      Tests  2 passed (2)\n   Start at  19:52:26\n"
MOCHA = """
  maths
    ✔ adds
    1) breaks
    - later


  1 passing (4ms)
  1 pending
  2 failing

  1) maths
       breaks:
     Error: no
      at Context.<anonymous> (t.mocha.js:1:76)

  2) maths
       deep
         breaks too:
     Error: no

"""
PLAYWRIGHT = """Running 4 tests using 1 worker
  1) [chromium] › a.spec.ts:3:5 › breaks ───────────────────────────────────────

  1 failed
    [chromium] › a.spec.ts:3:5 › breaks ───────────────────────────────────────
  1 skipped
  2 passed (5.1s)
"""
RSPEC = """Finished in 0.01 seconds (files took 0.1 seconds to load)
5 examples, 1 failure, 1 pending

Failed examples:

rspec ./spec/a_spec.rb:3 # Sum breaks
"""
MINITEST = """  1) Failure:
SumTest#test_breaks [test/sum_test.rb:9]:
Expected: 1

5 runs, 7 assertions, 1 failures, 0 errors, 1 skips
"""
PHPUNIT = """There was 1 failure:

1) Tests\\SumTest::testBreaks
Failed asserting that 2 matches expected 1.

FAILURES!
Tests: 5, Assertions: 7, Failures: 1.
"""
MAVEN = """[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.05 s -- in a.FineTest
[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1, Time elapsed: 0.04 s <<< FAILURE! -- in a.SumTest
[ERROR] a.SumTest.breaks -- Time elapsed: 0.01 s <<< FAILURE!
[INFO] Results:
[ERROR] Failures:
[ERROR]   SumTest.breaks:12 expected: <1> but was: <2>
[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 1
[INFO] BUILD FAILURE
"""
MAVEN_OK = "[INFO] Tests run: 5, Failures: 0, Errors: 0, Skipped: 0\n[INFO]\n[INFO] BUILD SUCCESS\n"
GRADLE = """> Task :test FAILED

SumTest > breaks() FAILED
    org.opentest4j.AssertionFailedError at SumTest.java:9

5 tests completed, 1 failed, 1 skipped

FAILURE: Build failed with an exception.

BUILD FAILED in 2s
"""
GRADLE_OK = "BUILD SUCCESSFUL in 1s\n3 actionable tasks: 1 executed, 2 up-to-date\n"
DOTNET = """  Failed Ns.SumTest.Breaks [12 ms]
  Error Message:
   Assert.Equal() Failure

Failed!  - Failed:     1, Passed:     4, Skipped:     0, Total:     5, Duration: 12 ms - A.dll (net8.0)
"""
DOTNET_OK = """Passed!  - Failed:     0, Passed:     4, Skipped:     1, Total:     5, Duration: 12 ms - A.dll (net8.0)
Passed!  - Failed:     0, Passed:     2, Skipped:     0, Total:     2, Duration: 12 ms - B.dll (net8.0)
"""
SWIFT = """Test Case '-[Lab.SumTests testBreaks]' failed (0.002 seconds).
Test Suite 'All tests' failed at 2024-01-01 10:00:00.000.
\t Executed 5 tests, with 1 failure (0 unexpected) in 0.010 (0.012) seconds
"""
BAZEL = """//a:fine_test                                                     PASSED in 0.1s
//a:sum_test                                                      FAILED in 0.1s
  /x/testlogs/a/sum_test/test.log

Executed 3 out of 3 tests: 2 tests pass and 1 fails locally.
"""
CTEST = """Test project /x/build
    Start 1: good
1/2 Test #1: good .............................   Passed    0.01 sec
    Start 2: bad
2/2 Test #2: bad ..............................***Failed    0.00 sec

50% tests passed, 1 tests failed out of 2

Total Test time (real) =   0.01 sec

The following tests FAILED:
\t  2 - bad (Failed)
Errors while running CTest
"""
NODE_TAP = """TAP version 13
# Subtest: breaks
not ok 2 - breaks
  ---
  ...
ok 3 - later # SKIP
1..3
# tests 3
# suites 0
# pass 1
# fail 1
# cancelled 0
# skipped 1
# todo 0
# duration_ms 166.90917
"""
NODE_SPEC = (
    "✔ adds (1.0ms)\n✖ breaks (0.6ms)\nℹ tests 2\nℹ pass 1\nℹ fail 1\nℹ skipped 0\n\n✖ failing tests:\n\n✖ breaks (0.6ms)\n"
)
DENO = "breaks ... FAILED (3ms)\n\n FAILURES \n\nbreaks => ./a_test.ts:3:6\n\nFAILED | 1 passed | 1 failed (5ms)\n"
BUN = "(fail) maths > breaks [0.12ms]\n\n 3 pass\n 1 skip\n 1 fail\n 2 expect() calls\nRan 5 tests across 1 file. [10ms]\n"
TOX = "  py311: OK (1.20=setup[1.00] seconds)\n  py312: FAIL code 1 (0.40 seconds)\n  evaluation failed :( (1.30 seconds)\n"
TOX_OK = OK + "  py311: OK (1.20 seconds)\n  congratulations :) (1.30 seconds)\n"
NOX = "nox > Running session tests-3.11\nnox > Command pytest failed with exit code 1\nnox > Session tests-3.11 failed.\n"
AUTOMAKE = """PASS: a
FAIL: b
============
Testsuite summary for lab 1.0
# TOTAL: 2
# PASS:  1
# SKIP:  0
# XFAIL: 0
# FAIL:  1
# XPASS: 0
# ERROR: 0
"""
TURBO = " Tasks:    2 successful, 2 total\nCached:    2 cached, 2 total\n  Time:    20ms >>> FULL TURBO\n"
NX = "Nx read the output from the cache instead of running the command for 2 out of 2 tasks.\n"
NO_CD = "bash: line 1: cd: nope: No such file or directory\n"

# Command line, status, output; the result, what is counted, the names, the command shown (empty: the line as it is).
Row = tuple[str, int | None, str, str, tuple[int | None, int | None, int | None], tuple[str, ...], str]
NONE3 = (None, None, None)
OK3 = (3, 0, 0)
BAD_NAMES = ("test_u.py::T::test_b", "test_u.py::test_c[a - b]")


def row(
    command: str, status: int | None, output: str, result: str, counts: Any = NONE3, names: Any = (), shown: str = ""
) -> Row:
    return command, status, output, result, counts, names, shown or command


PROGRAMS = [
    row("pytest", 0, OK, PASSED, OK3),
    row("pytest -x tests/a.py", 1, NOT_OK, FAILED, (1, 2, 1), BAD_NAMES),
    row("pytest", 2, COLLECTION, FAILED, (0, 1, 0), ("tests/test_x.py",)),
    row("pytest", 2, STOPPED, UNKNOWN, OK3),
    row("pytest", 130, STOPPED, UNKNOWN, OK3),
    row("pytest", 5, "no tests ran in 0.01s\n", UNKNOWN, (0, 0, 0)),
    row("pytest", 0, "==== 2 passed, 1 xfailed, 2 warnings, 3 subtests passed in 61.20s (0:01:01) ====\n", PASSED, (2, 0, 0)),
    row("pytest", 0, "2 skipped in 0.01s\n", UNKNOWN, (0, 0, 2)),
    row("pytest", 0, "1 failed, 2 passed in 0.1s\n", FAILED, (2, 1, 0)),
    row("pytest", 1, OK, FAILED, OK3),
    row("pytest --cov", 1, OK + "FAIL Required test coverage of 80% not reached. Total coverage: 50.00%\n", FAILED, OK3),
    row("pytest", 3, "INTERNALERROR> x\n", FAILED),
    row("pytest nope.py", 4, "ERROR: file or directory not found: nope.py\n\nno tests ran in 0.00s\n", FAILED, (0, 0, 0)),
    row("pytest -q", 0, "", PASSED),
    row("pytest -q", None, "", UNKNOWN),
    row("pytest -q", None, OK, PASSED, OK3),
    row("pytest -q", None, NOT_OK, FAILED, (1, 2, 1), BAD_NAMES),
    row("pytest", 124, "", UNKNOWN),
    row("pytest", 137, "Killed\n", UNKNOWN),
    row("pytest", -9, "", UNKNOWN),
    row("pytest", -11, "Segmentation fault\n", FAILED),
    row("pytest", 127, "bash: pytest: command not found\n", UNKNOWN),
    row("pytest", 126, "", UNKNOWN),
    row("pytest", 1, "___________ test_b ___________\n1 failed in 0.1s\n", FAILED, (0, 1, 0), ("test_b",)),
    row("python -m unittest -v", 1, UNITTEST, FAILED, (1, 2, 1), ("test_c (test_u.T.test_c)", "test_b (test_u.T.test_b)")),
    row("python -m unittest", 0, UNITTEST_OK, PASSED, (4, 0, 1)),
    row("python -m unittest", 5, "\nRan 0 tests in 0.000s\n\nNO TESTS RAN\n", UNKNOWN, (0, 0, 0)),
    row("python manage.py test app", 0, UNITTEST_OK, PASSED, (4, 0, 1)),
    row("go test ./...", 1, GO, FAILED, (None, 1, None), ("TestBreaks", "TestBreaks/deep")),
    row("go test -v ./...", 0, GO_V, PASSED, (1, 0, 1)),
    row("go test ./...", 0, "ok  \ta\t(cached)\n?   \tb\t[no test files]\n", PASSED),
    row("go test ./...", 2, "# b\n./b.go:3: undefined: x\nFAIL\tb [build failed]\nFAIL\n", FAILED, NONE3, ("b",)),
    row("cargo test", 101, CARGO, FAILED, (1, 1, 1), ("tests::breaks",)),
    row("cargo test --workspace", 0, CARGO_OK, PASSED, (3, 0, 1)),
    row("cargo +nightly t", 101, "error: could not compile `lab` (lib test) due to 1 previous error\n", FAILED),
    row("cargo nextest run", 100, NEXTEST, FAILED, (4, 1, 2), ("lab tests::breaks",)),
    row("npm test", 1, JEST, FAILED, (1, 1, 1), ("maths › breaks",)),
    row("jest", 0, JEST_OK, PASSED, (2, 0, 0)),
    row("jest", 1, JEST_BROKEN, FAILED, (0, 0, 0), ("Test suite failed to run",)),
    row("jest", 1, "No tests found, exiting with code 1\n", UNKNOWN),
    row("vitest run", 1, VITEST, FAILED, (1, 1, 1), ("v/sum.test.mjs > maths > breaks",)),
    row("pnpm test", 0, VITEST_OK, PASSED, (2, 0, 0)),
    row("mocha t.js", 2, MOCHA, FAILED, (1, 2, 1), ("maths breaks", "maths deep breaks too")),
    row("mocha", 0, "\n\n  3 passing (4ms)\n\n", PASSED, OK3),
    row("playwright test", 1, PLAYWRIGHT, FAILED, (2, 1, 1), ("[chromium] › a.spec.ts:3:5 › breaks",)),
    row("rspec", 1, RSPEC, FAILED, (3, 1, 1), ("./spec/a_spec.rb:3 # Sum breaks",)),
    row("rake test", 1, MINITEST, FAILED, (3, 1, 1), ("SumTest#test_breaks",)),
    row("rails test", 0, "5 runs, 7 assertions, 0 failures, 0 errors, 0 skips\n", PASSED, (5, 0, 0)),
    row("ruby -Itest test/sum_test.rb", 1, MINITEST, FAILED, (3, 1, 1), ("SumTest#test_breaks",)),
    row("phpunit", 1, PHPUNIT, FAILED, (4, 1, 0), ("Tests\\SumTest::testBreaks",)),
    row("phpunit", 0, "OK (5 tests, 7 assertions)\n", PASSED, (5, 0, 0)),
    row("mvn -q test", 1, MAVEN, FAILED, (3, 1, 1), ("a.SumTest.breaks",)),
    row("mvn clean verify", 0, MAVEN_OK, PASSED, (5, 0, 0)),
    row("mvnw integration-test", 0, "", PASSED),
    row("gradle test --tests SumTest", 1, GRADLE, FAILED, (3, 1, 1), ("SumTest > breaks()",)),
    row("gradlew :app:testDebugUnitTest", 0, GRADLE_OK, PASSED),
    row("gradle clean check", 0, GRADLE_OK, PASSED),
    row("dotnet test", 1, DOTNET, FAILED, (4, 1, 0), ("Ns.SumTest.Breaks",)),
    row("dotnet test A.sln", 0, DOTNET_OK, PASSED, (6, 0, 1)),
    row("dotnet test", 1, "Total tests: 5\n     Passed: 4\n     Failed: 1\n Total time: 1.0 Seconds\n", FAILED, (4, 1, 0)),
    row("swift test", 1, SWIFT, FAILED, (4, 1, 0), ("Lab.SumTests testBreaks",)),
    row("bazel test //...", 3, BAZEL, FAILED, (2, 1, 0), ("//a:sum_test",)),
    row("bazel test //a:all", 0, "Executed 0 out of 3 tests: 3 tests pass.\n", PASSED, OK3),
    row("bazel test //a:all", 4, "", UNKNOWN),
    row("ctest --output-on-failure", 8, CTEST, FAILED, (1, 1, 0), ("bad",)),
    row("ctest", 0, "100% tests passed, 0 tests failed out of 2\n", PASSED, (2, 0, 0)),
    row("ctest", 0, "No tests were found!!!\n", UNKNOWN),
    row("node --test a.mjs", 1, NODE_TAP, FAILED, (1, 1, 1), ("breaks",)),
    row("node --test", 1, NODE_SPEC, FAILED, (1, 1, 0), ("breaks",)),
    row("deno test -A", 1, DENO, FAILED, (1, 1, 0), ("breaks",)),
    row("bun test", 1, BUN, FAILED, (3, 1, 1), ("maths > breaks",)),
    row("tox", 1, TOX, FAILED, NONE3, ("py312",)),
    row("tox -e py311", 0, TOX_OK, PASSED, OK3),
    row("nox -s tests", 1, NOX, FAILED, NONE3, ("tests-3.11",)),
    row("make check", 2, AUTOMAKE + "make: *** [check] Error 1\n", FAILED, (1, 1, 0), ("b",)),
    row("mix test", 2, "3 doctests, 5 tests, 1 failure\n", FAILED, (7, 1, 0)),
    row("bats a.bats", 0, "ok 1 a\nok 2 b\n\n2 tests, 0 failures\n", PASSED, (2, 0, 0)),
    row(
        "meson test -C build",
        1,
        "Ok:                 3\nFail:               1\nSkipped:            0\nTimeout:            0\n",
        FAILED,
        (3, 1, 0),
    ),
    row("prove -r t", 0, "All tests successful.\nFiles=1, Tests=3\nResult: PASS\n", PASSED),
    row("make test", 2, NOT_OK + "make: *** [Makefile:2: test] Error 1\n", FAILED, (1, 2, 1), BAD_NAMES),
    row("make test", 2, "make: *** No rule to make target 'test'.  Stop.\n", UNKNOWN),
    row("npm test", 1, 'npm error Missing script: "test"\n', UNKNOWN),
    row("npm test", 1, "sh: 1: jest: not found\nnpm error code 127\n", FAILED),
    row("just test", 0, "", PASSED),
]

THROUGH = [  # command line; what is shown
    ("uv run pytest -q", "pytest -q"),
    ("uv run --with x --group dev -- pytest", "pytest"),
    ("uv run -m pytest -q", "pytest -q"),
    ("uvx --with tox-uv tox -e py311", "tox -e py311"),
    ("uv tool run pytest@8 -q", "pytest -q"),
    ("poetry run pytest", "pytest"),
    ("pipenv run pytest", "pytest"),
    ("pipenv run test", "pipenv run test"),
    ("hatch run test", "hatch run test"),
    ("hatch run py3.11:pytest -q", "pytest -q"),
    ("hatch test -a", "hatch test -a"),
    ("hatch -e test run pytest", "pytest"),
    ("rye test", "rye test"),
    ("rye run pytest", "pytest"),
    ("pdm run pytest", "pytest"),
    ("python -m pytest -q", "pytest -q"),
    (".venv/bin/python -X dev -m pytest", "pytest"),
    ("python3.12 -m tox", "tox"),
    ("python3 -m nox", "nox"),
    ("python3 -m unittest discover -s tests", "python -m unittest discover -s tests"),
    ("python -W error -m unittest", "python -m unittest"),
    ("python -m coverage run -m pytest", "pytest"),
    ("coverage run --source x -m pytest -q", "pytest -q"),
    ("coverage run -m unittest a", "python -m unittest a"),
    ("sudo -u me pytest", "pytest"),
    ("time pytest", "pytest"),
    ("/usr/bin/time -f %e pytest", "pytest"),
    ("nice -n 5 pytest", "pytest"),
    ("nohup pytest", "pytest"),
    ("xvfb-run -a npx playwright test", "playwright test"),
    ("stdbuf -oL pytest", "pytest"),
    ("script -qec 'pytest -q' /dev/null", "pytest -q"),
    ("timeout 60 pytest", "pytest"),
    ("timeout -k 5 --signal=INT 2m pytest -x", "pytest -x"),
    ("env -u C A=b pytest", "pytest"),
    ("API_TOKEN=hunter2 A=1 pytest", "pytest"),
    ("cd x && pytest", "pytest"),
    ("cd x; pytest", "pytest"),
    ("cd x\npytest", "pytest"),
    ("set -e; pytest", "pytest"),
    ("source .venv/bin/activate && pytest", "pytest"),
    ("export A=b && pytest", "pytest"),
    (". .env && pytest", "pytest"),
    ("(cd x && pytest)", "pytest"),
    ("{ pytest; }", "pytest"),
    ("bash -c 'cd x && pytest -q'", "pytest -q"),
    ("bash -lc 'pytest'", "pytest"),
    ("sh -c \"pytest -k 'a b'\"", "pytest -k 'a b'"),
    ("bash -eo pipefail -c 'pytest | tail'", "pytest"),
    ('eval "pytest -q"', "pytest -q"),
    ("npx jest --ci", "jest --ci"),
    ("npx --yes vitest@1 run", "vitest run"),
    ("npm exec -- jest", "jest"),
    ("pnpm exec vitest run", "vitest run"),
    ("pnpm dlx mocha", "mocha"),
    ("pnpm vitest run", "vitest run"),
    ("yarn jest", "jest"),
    ("yarn exec jest", "jest"),
    ("yarn run jest", "jest"),
    ("bunx vitest", "vitest"),
    ("bundle exec rspec spec/a_spec.rb:3", "rspec spec/a_spec.rb:3"),
    ("bin/rspec", "rspec"),
    ("./vendor/bin/phpunit --filter x", "phpunit --filter x"),
    ("php vendor/bin/phpunit", "phpunit"),
    ("php artisan test", "artisan test"),
    ("bundle exec rake spec", "rake spec"),
    ("bin/rails test:system", "rails test:system"),
    ("dotenv -e .env -- npm test", "npm test"),
    ("npx cross-env A=b mocha", "mocha"),
    ("npx nyc --reporter=text mocha", "mocha"),
    ("node --experimental-vm-modules node_modules/jest/bin/jest.js --ci", "jest --ci"),
    ("conda run -n x pytest", "pytest"),
    ("./gradlew test", "gradlew test"),
    ("./mvnw -q verify", "mvnw -q verify"),
    ("npm t", "npm t"),
    ("npm run test:unit", "npm run test:unit"),
    ("npm run-script test", "npm run-script test"),
    ("npm --prefix web test -- --ci", "npm --prefix web test -- --ci"),
    ("yarn workspace x test", "yarn workspace x test"),
    ("yarn test:e2e", "yarn test:e2e"),
    ("pnpm -r test", "pnpm -r test"),
    ("pnpm --filter x test", "pnpm --filter x test"),
    ("bun run test", "bun run test"),
    ("deno task test", "deno task test"),
    ("make -C a -j4 test", "make -C a -j4 test"),
    ("make test-unit", "make test-unit"),
    ("task test", "task test"),
    ("turbo run test --filter=x", "turbo run test --filter=x"),
    ("nx run-many -t test", "nx run-many -t test"),
    ("pytest 2>&1", "pytest"),
    ("pytest > log.txt 2>&1", "pytest"),
    ("pytest &> log.txt", "pytest"),
    ("pytest < /dev/null", "pytest"),
    ("pytest # as ever", "pytest"),
    ("pytest \\\n  -q", "pytest -q"),
    ("\"pytest\" '-q'", "pytest -q"),
    ("ruff check . && pytest", "pytest"),
    ("pytest && npm test", "npm test"),
    ("pytest && echo ok", "pytest"),
    ("cat > a.py <<'EOF'\nprint(\"don't\")\nEOF\npytest -q", "pytest -q"),
    ("git commit -qm \"$(cat <<'EOF'\nfix: don't run jest\nEOF\n)\" && pytest -q", "pytest -q"),
    ("f() { jest; }; pytest", "pytest"),
    ("echo $((1<<4)); pytest", "pytest"),
    ("pytest 'tests/a.py::test[x]'", "pytest 'tests/a.py::test[x]'"),
    ("pytest --token=abc --password hunter2 -p no:x -k a", "pytest --token=... --password ... -p no:x -k a"),
    ("pytest --url https://me:pw@example.com/x", "pytest --url https://...@example.com/x"),
    ("pytest --k ghp_16C7e42F292c6912E7710c838347Ae178B4a", "pytest --k ghp_..."),
    ("make test DB_PASSWORD=hunter2", "make test DB_PASSWORD=..."),
    ("pytest tests/unit/test_abcdefghijklmnopqrst2.py", "pytest tests/unit/test_abcdefghijklmnopqrst2.py"),
]

NO_TEST = """git commit -m "run pytest"|echo pytest|grep pytest x|pip install pytest|cat test.log|vim pytest.ini|which pytest
man pytest|pytest --collect-only|pytest --co -q|pytest --help|pytest -h|pytest --version
cargo test --no-run|go test -list .|go test -list=.|npm test --help|jest --listTests|ctest -N|make -n test
mvn -DskipTests verify|mvn test -DskipTests=true|make check-format|make lint|make build|npm run lint|npm run test:lint
npm install jest|npm run check|watch pytest|apt-get install ctest|go vet ./...|cargo build|cargo check|dotnet build
bazel build //a:a_test|playwright install|tox -l|nox --list|tox -e lint|nox -s lint|tox -e docs,lint|gradle build -x test
gradle assemble|gradle testClasses|swift build|rails db:test:prepare|yarn add jest|pnpm add -D vitest|deno run test.ts
bun install test|node a.js --test|python -c 'import pytest'|python -m pip install pytest|uv pip install pytest
uv add pytest|uv sync --extra test|poetry add pytest|coverage report --fail-under 90 tests|docker build -t test .|ls tests
cd tests|test -f x|[ -f test ]|cat <<EOF\\npytest\\nEOF|git log --grep pytest|sed -i s/pytest/x/ a|ssh box test
f() { pytest; }|# pytest|echo "a && pytest"|bash -n test.sh|command -v pytest|type pytest|rm -rf tests && ls
export A=pytest|A=pytest|make test-clean|echo 'pytest|xargs|npx|uv run|env A=test|sudo|timeout 5|npm exec|python -m
python -m venv test|hatch run lint|mix compile test|just build test|cmake --build . --target tests_all|helm test-x
gh run list --workflow test.yml|kubectl get test|rspec --dry-run|jest --version|mvn package"""

PLACES = [  # command line, status, output; result
    ("pytest | tail -3", 0, OK, PASSED),
    ("pytest | tail -3", 0, "", UNKNOWN),
    ("pytest 2>&1 | tail -1", 0, "2 failed, 1 passed in 0.1s\n", FAILED),
    ("pytest |& tee log", 1, "", UNKNOWN),
    ("pytest | grep -c x", 1, "", UNKNOWN),
    ("set -o pipefail; pytest | tail", 0, "", PASSED),
    ("set -o pipefail; pytest | tail", 1, "", FAILED),
    ("set -euo pipefail\npytest | tail", 1, "", FAILED),
    ("set -o pipefail; pytest | grep FAILED", 1, "", UNKNOWN),
    ("set -o pipefail; make x | pytest", 2, "", UNKNOWN),
    ("set -o pipefail && pytest | tee log", 1, "", FAILED),
    ("bash -o pipefail -c 'pytest | tail'", 1, "", FAILED),
    ("bash -c 'pytest | tail'", 1, "", UNKNOWN),
    ("echo y | pytest", 1, "", FAILED),
    ("pytest && echo ok", 0, "ok\n", PASSED),
    ("pytest && echo ok", 1, "", FAILED),
    ("pytest && ./deploy", 0, "", PASSED),
    ("pytest && ./deploy", 1, "", UNKNOWN),
    ("pytest && ./deploy", 1, OK, PASSED),
    ("pytest && ./deploy", 1, NOT_OK, FAILED),
    ("cd x && pytest", 1, "", FAILED),
    ("cd x && pytest", 1, NO_CD, UNKNOWN),
    ("cd nope && pytest", 1, "(eval):cd:1: no such file or directory: nope\n", UNKNOWN),
    ("cd nope; pytest", 1, NO_CD + NOT_OK, FAILED),
    ("ruff check . && pytest", 0, "", PASSED),
    ("ruff check . && pytest", 1, "Found 1 error.\n", UNKNOWN),
    ("ruff check . && pytest", 1, NOT_OK, FAILED),
    ("ruff check . && pytest", 1, OK, FAILED),
    ("A=b && pytest", 1, "", FAILED),
    ("ruff check .; pytest", 1, "", FAILED),
    ("pytest; echo done", 0, "done\n", UNKNOWN),
    ("pytest; echo done", 0, OK + "done\n", PASSED),
    ("pytest; echo done", 0, NOT_OK + "done\n", FAILED),
    ("pytest\necho $?", 0, "1\n", UNKNOWN),
    ("set -e; pytest; echo done", 0, "", PASSED),
    ("set -e; pytest; echo done", 1, "", FAILED),
    ("set -e; pytest; ./deploy", 1, "", UNKNOWN),
    ("set -e; pytest; ./deploy", 0, "", PASSED),
    ("set -e; ./build; pytest", 1, "", UNKNOWN),
    ("set -e; set +e; pytest; echo done", 0, "", UNKNOWN),
    ("set -e; pytest && a; echo done", 0, "", UNKNOWN),
    ("bash -ec 'pytest; echo done'", 0, "", PASSED),
    ("(set -e; pytest; echo done) && echo ok", 0, "", UNKNOWN),
    ("pytest || true", 0, "", UNKNOWN),
    ("pytest || true", 0, OK, PASSED),
    ("pytest || true", 0, NOT_OK, FAILED),
    ("pytest || exit 1", 1, "", UNKNOWN),
    ("./a || pytest", 0, "", UNKNOWN),
    ("./a || pytest", 1, "", FAILED),
    ("./a || ./b && pytest", 0, "", PASSED),
    ("! pytest", 0, "", UNKNOWN),
    ("! pytest", 0, NOT_OK, FAILED),
    ("! pytest", 1, OK, PASSED),
    ("pytest &", 0, "", UNKNOWN),
    ("pytest & wait", 0, "", UNKNOWN),
    ("(pytest) | tail", 0, "", UNKNOWN),
    ("(cd x && pytest) && echo ok", 0, "", PASSED),
    ("if pytest; then echo a; fi", 0, "", UNKNOWN),
    ("for i in 1 2; do pytest; done", 0, "", UNKNOWN),
    ("for i in 1 2; do pytest; done", 0, OK, PASSED),
    ("for i in 1 2; do (pytest); done", 1, "", UNKNOWN),
    ("while ! pytest; do sleep 1; done", 0, "", UNKNOWN),
    ("for i in 1 2; do echo $i; done; pytest", 0, "", PASSED),
    ("case x in a) pytest;; esac", 0, "", UNKNOWN),
    ("x=$(pytest -q)", 0, "", UNKNOWN),
    ("f() { if a; then { pytest; }; fi; }; f", 0, "", UNKNOWN),
    ("python -c 'main()' && pytest", 0, "", PASSED),
    ('echo "$(pytest -q | tail -1)"', 0, OK, PASSED),
    ("echo `pytest -q`", 0, "", UNKNOWN),
    ("diff <(pytest a) <(pytest b)", 0, "", UNKNOWN),
    ("git ls-files | xargs pytest", 0, "", UNKNOWN),
    ("script -qc pytest /dev/null", 0, "", UNKNOWN),
    ("script -qec pytest /dev/null", 0, "", PASSED),
    ("pytest > log; tail -1 log", 0, OK, PASSED),
    ("pytest > log", 1, "", FAILED),
    ("timeout 5 pytest", 124, OK, UNKNOWN),
    ("timeout 5 pytest | tail", 124, "", UNKNOWN),
    ("python -m pytest", 1, "/usr/bin/python: No module named pytest\n", UNKNOWN),
    ("uv run pytest", 2, "error: Failed to spawn: `pytest`\n", UNKNOWN),
    ("pytest; npm test", 0, NOT_OK + JEST_OK, PASSED),
    ("pytest && npm test", 1, OK + JEST, FAILED),
    ("pytest | tail; exit ${PIPESTATUS[0]}", 1, "", UNKNOWN),
]


NOTHING = [  # command line, status, output: no test ran
    ("go test ./... -run XXX", 0, "ok  \tm/a\t0.003s [no tests to run]\n"),
    ("go test ./...", 0, "?   \ta\t[no test files]\n?   \tb\t[no test files]\n"),
    ("go test -v ./...", 0, "testing: warning: no tests to run\nPASS\nok  \tm/a\t0.003s [no tests to run]\n"),
    ("go test -cover .", 0, "testing: warning: no tests to run\nPASS\ncoverage: 0.0%\nok  \tm/a\t0.1s [no tests to run]\n"),
    ("go test ./... | tail -3", 0, "ok  \tm/a\t0.003s [no tests to run]\n"),
    ("gotestsum ./...", 0, "DONE 0 tests in 0.200s\n"),
    ("ginkgo -r", 0, "Found no test suites\n"),
    ("npx jest --passWithNoTests", 0, "No tests found, exiting with code 0\n"),
    ("jest", 1, "No tests found, exiting with code 1\n"),
    ("npx vitest run --passWithNoTests", 0, "No test files found, exiting with code 0\n"),
    ("vitest run", 1, "No test files found, exiting with code 1\n"),
    ("mocha", 0, "\n\n  0 passing (1ms)\n\n"),
    ("playwright test x", 1, "Error: No tests found\n"),
    ("cypress run", 1, "Can't run because no spec files were found.\n"),
    ("karma start --single-run", 1, "Executed 0 of 0 ERROR\n"),
    ("node --test", 0, "ℹ tests 0\nℹ pass 0\nℹ fail 0\nℹ skipped 0\n"),
    ("deno test", 1, "error: No test modules found\n"),
    ("deno test", 0, "\nok | 0 passed | 0 failed (0ms)\n"),
    ("bun test", 1, 'error: 0 test files matching **{.test} in --cwd="/x"\n'),
    ("bun test -t x", 0, " 0 pass\n 3 skip\n 0 fail\n"),
    ("npm test", 0, "> x@1.0.0 test\n> vitest run --passWithNoTests\n\nNo test files found, exiting with code 0\n"),
    ("nx run-many -t test", 0, " NX   No tasks were run\n"),
    ("turbo run test", 0, "No tasks were executed as part of this run.\n"),
    ("make test", 0, "make: Nothing to be done for 'test'.\n"),
    ("make check", 0, "make[1]: 'check' is up to date.\n"),
    ("task test", 0, 'task: Task "test" is up to date\n'),
    ("mise run test", 0, "[test] $ go test ./...\n?   \ta\t[no test files]\n"),
    ("./x test", 0, "collected 0 items\n"),
    ("dotnet test --filter Nope", 0, "No test matches the given testcase filter Nope in /r/T.dll\n"),
    ("dotnet test", 8, "Zero tests ran - failed: 0, passed: 0\n"),
    ("vendor/bin/phpunit --filter nope", 0, "No tests executed!\n"),
    ("mvn test", 0, "[INFO] No tests to run.\n[INFO] BUILD SUCCESS\n"),
    ("mvn test", 0, "[INFO] Tests run: 0, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS\n"),
    ("mvn test", 0, "[INFO] Tests are skipped.\n[INFO] BUILD SUCCESS\n"),
    ("mvn test -Dtest=No", 1, '[ERROR] No tests matching pattern "No" were executed!\n[INFO] BUILD FAILURE\n'),
    ("gradle test", 0, "> Task :compileTestJava NO-SOURCE\n> Task :test NO-SOURCE\n\nBUILD SUCCESSFUL in 1s\n"),
    ("gradle test", 0, "> Task :test UP-TO-DATE\n> Task :it:test NO-SOURCE\n\nBUILD SUCCESSFUL in 1s\n"),
    ("gradle test", 0, "> Task :test FROM-CACHE\n\nBUILD SUCCESSFUL in 1s\n2 actionable tasks: 1 executed, 1 from cache\n"),
    ("gradlew check", 0, "> Task :app:testDebugUnitTest SKIPPED\n\nBUILD SUCCESSFUL in 1s\n"),
    ("gradle test | tail -3", 0, "\nBUILD SUCCESSFUL in 1s\n3 actionable tasks: 3 up-to-date\n"),
    ("gradle test", 0, "BUILD SUCCESSFUL in 1s\n3 actionable tasks: 2 from cache, 1 up-to-date\n"),
    ("gradle test --tests No", 1, "> No tests found for given includes: [No](--tests filter)\n\nBUILD FAILED in 1s\n"),
    ("sbt test", 0, "[info] No tests were executed.\n[success] Total time: 1 s\n"),
    (
        "sbt test",
        0,
        "[info] Passed: Total 0, Failed 0, Errors 0, Passed 0\n[info] No tests to run for Test / test\n[success]\n",
    ),
    ("mvn test", 0, "[INFO] Skipping plugin execution (cached): surefire:test\n[INFO] BUILD SUCCESS\n"),
    ("turbo run test", 0, "web:test: cache hit, suppressing logs 1a2b\n" + TURBO),
    ("nx run-many -t test", 0, "   ✔  nx run a:test  [local cache]\n" + NX),
    ("moon run :test", 0, "Tasks: 2 completed (2 cached)\n Time: 10ms\n"),
    ("npm test", 0, "> x@1 test\n> wireit\n\n✅ Ran 0 scripts and skipped 4 in 0.1s.\n"),
    ("mise run test", 0, "[test] sources up-to-date, skipping\n"),
    ("ninja test", 0, "ninja: no work to do.\n"),
    ("meson test", 0, "No tests defined.\n"),
    ("ctest", 0, "100% tests passed, 0 tests failed out of 0\n"),
    ("tox", 0, "  py39: SKIP (0.01 seconds)\n  congratulations :) (0.10 seconds)\n"),
    ("nox", 0, "nox > Session tests-3.9 skipped: Python interpreter 3.9 not found.\n"),
    ("mix test --stale", 0, "No stale tests\n"),
    ("go test ./... -run XXX", 0, "ok  \tm/a\t(cached) [no tests to run]\n"),
    ("dotnet test", 0, "No test is available in /r/A.dll. Make sure that test discoverer is registered.\n"),
    ("cargo test", 0, "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out\n"),
    ("cargo nextest run x", 4, "     Summary [   0.000s] 0 tests run: 0 passed, 3 skipped\nerror: no tests to run\n"),
    ("rspec", 0, "No examples found.\n\n0 examples, 0 failures\n"),
    ("rake test", 0, "0 runs, 0 assertions, 0 failures, 0 errors, 0 skips\n"),
    ("bats t", 0, "1..0\n"),
    ("prove", 0, "Files=0, Tests=0,  0 wallclock secs\nResult: NOTESTS\n"),
    ("swift test", 0, "\t Executed 0 tests, with 0 failures (0 unexpected) in 0.000 (0.001) seconds\n"),
    ("swift test", 0, "✔ Test run with 0 tests passed after 0.001 seconds.\n"),
    ("mix test", 0, "There are no tests to run\n"),
    ("mix test", 0, "0 tests, 0 failures\n"),
    ("Rscript -e 'devtools::test()'", 0, "[ FAIL 0 | WARN 0 | SKIP 0 | PASS 0 ]\n"),
    ("behave", 0, "0 features passed, 0 failed, 0 skipped\n0 scenarios passed, 0 failed, 0 skipped\n"),
    ("ctest", 0, "Test project /x\nNo tests were found!!!\n"),
    ("bazel test //x", 4, "INFO: No test targets were found, yet testing was requested\n"),
    ("pytest", 5, "collected 0 items\n\n===== no tests ran in 0.01s =====\n"),
    ("pytest -k x | tail -2", 0, "3 deselected in 0.01s\n"),
    ("python -m unittest", 0, "\n----\nRan 0 tests in 0.000s\n\nOK\n"),
]

SOME = [  # what speaks of nothing where something ran
    ("go test ./...", 0, "?   \ta\t[no test files]\nok  \tb\t0.1s\n", PASSED),
    ("go test ./...", 1, "?   \ta\t[no test files]\nFAIL\tb\t0.1s\nFAIL\n", FAILED),
    ("cargo test", 0, "running 0 tests\n\ntest result: ok. 0 passed; 0 failed\n\n" + CARGO_OK, PASSED),
    ("gradle test", 0, "> Task :a:test NO-SOURCE\n> Task :b:test\n\nBUILD SUCCESSFUL in 1s\n", PASSED),
    ("gradle test", 0, "> Task :a:test UP-TO-DATE\n> Task :b:integrationTest\n\nBUILD SUCCESSFUL in 1s\n", PASSED),
    # what these tools say of a result that they have kept is what they say of a run: the same inputs passed
    ("go test ./...", 0, "ok  \ta\t(cached)\n", PASSED),
    ("bazel test //a:t", 0, "//a:t (cached) PASSED in 0.1s\n\nExecuted 0 out of 1 test: 1 test passes.\n", PASSED),
    ("turbo run test", 0, "web:test: cache hit, replaying logs 1a2b\nweb:test:  Tests  3 passed (3)\n" + TURBO, PASSED),
    ("nx test app", 0, JEST_OK + NX, PASSED),
    ("turbo run test", 0, TURBO.replace("2 cached", "1 cached"), PASSED),
    ("nx run-many -t test", 0, NX.replace("2 out of 2", "1 out of 2"), PASSED),
    (
        "swift test",
        0,
        "\t Executed 0 tests, with 0 failures in 0.0 s\n✔ Test run with 3 tests passed after 0.001 seconds.\n",
        PASSED,
    ),
    (
        "swift test",
        0,
        "\t Executed 2 tests, with 0 failures in 0.0 s\n✔ Test run with 0 tests passed after 0.001 seconds.\n",
        PASSED,
    ),
    ("tox", 0, "  py311: OK (1.20 seconds)\n  py39: SKIP (0.01 seconds)\n  congratulations :) (1.30 seconds)\n", PASSED),
    ("nox", 0, "nox > Session a was successful.\nnox > Session b skipped: no python3.9.\n", PASSED),
    (
        "sbt test",
        0,
        "[info] No tests to run for a / Test / test\n[info] Passed: Total 2, Failed 0, Errors 0, Passed 2\n",
        PASSED,
    ),
    ("dotnet test", 0, "No test is available in /r/A.dll.\n" + DOTNET_OK, PASSED),
    ("meson test", 0, "Ok:                 3   \nFail:               0   \n", PASSED),
    ("mvn test", 0, "[INFO] No tests to run.\n[INFO] Tests run: 5, Failures: 0, Errors: 0, Skipped: 0\n", PASSED),
    ("make test", 0, "make[1]: Nothing to be done for 'all'.\n3 passed in 0.1s\n", PASSED),
    ("pytest nope.py", 4, "ERROR: file or directory not found: nope.py\n\nno tests ran in 0.00s\n", FAILED),
    ("pytest", 0, "2 skipped in 0.01s\n", UNKNOWN),
    ("sbt test", 1, "[error] Failed: Total 5, Failed 1, Errors 0, Passed 4\n", FAILED),
    ("flutter test", 0, "00:02 +3: All tests passed!\n", PASSED),
    ("flutter test | tail", 0, "00:02 +2 -1: Some tests failed.\n", FAILED),
    ("zig build test | cat", 0, "All 3 tests passed.\n", PASSED),
    ("./build/unit_tests", 1, "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] Sum.Breaks\n", FAILED),
    ("lein test | tail", 0, "Ran 3 tests containing 5 assertions.\n1 failures, 0 errors.\n", FAILED),
    ("ginkgo -r | tail", 0, "FAIL! -- 2 Passed | 1 Failed | 0 Pending | 0 Skipped\n", FAILED),
    ("Rscript -e 'testthat::test_local()' | tail", 0, "[ FAIL 1 | WARN 0 | SKIP 0 | PASS 4 ]\n", FAILED),
]

PIPED = [  # command line, output, result: the status is that of another
    ("go test ./... 2>&1 | head -50", "ok  \ta\t0.1s\n--- FAIL: TestB (0.00s)\n", FAILED),
    ("go test ./... 2>&1 | tail -1", "FAIL\n", FAILED),
    ("go test ./... 2>&1 | tail -5", "ok  \ta\t0.1s\nok  \tb\t0.1s\n", PASSED),
    ("go test ./... 2>&1 | head -2", "ok  \ta\t0.1s\nok  \tb\t0.1s\n", UNKNOWN),  # what comes after may have failed
    ("go test ./... 2>&1 | head -20", "ok  \ta\t0.1s\nok  \tb\t0.1s\n", PASSED),
    ("go test ./... 2>&1 | grep ok", "ok  \ta\t0.1s\n", UNKNOWN),
    ("go test ./... 2>&1 | grep -E '^(ok|FAIL)'", "ok  \ta\t0.1s\n", PASSED),
    ("go test ./... 2>&1 | grep -v 'no test files'", "ok  \ta\t0.1s\n", PASSED),
    ("go test ./... 2>&1 | grep -v FAIL", "ok  \ta\t0.1s\n", UNKNOWN),
    ("go test ./... | grep -c ok", "3\n", UNKNOWN),
    ("go test ./... | tee log | tail -3", "panic: boom\n\ngoroutine 1 [running]:\n", FAILED),
    ("go test ./... 2>&1 | grep -v ok", "./b.go:3:7: undefined: x\n", FAILED),
    ("go test ./... |& sed 's/^/  /' | head", "", UNKNOWN),
    ("cargo test 2>&1 | grep error", "error[E0425]: cannot find value `x` in this scope\n", FAILED),
    ("cargo test 2>&1 | head -3", "running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored\n", PASSED),
    ("cargo test 2>&1 | head -2", "running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored\n", UNKNOWN),
    ("npx tsc --noEmit && npx jest 2>&1 | tail -20", JEST, FAILED),
    ("npm test 2>&1 | tail -4", JEST_OK, PASSED),
    ("make test 2>&1 | tail -2", "make: *** [Makefile:2: test] Error 1\n", FAILED),
    ("mise run test 2>&1 | tail -30", "[test] ERROR task failed\n", FAILED),
    ("mise run test:ci 2>&1 | tail -30", "ok  \ta\t0.1s\nFAIL\tb [build failed]\nFAIL\n", FAILED),
    ("just test | cat", OK, PASSED),
    ("nx test app | cat", JEST, FAILED),
    ("turbo run test | cat", VITEST_OK, PASSED),
    ("turbo run test | cat", "web:test: Tests:       3 passed, 3 total\nweb:test: Time: 1 s\n", PASSED),
    ("turbo run test | cat", "api:test:  FAIL  src/a.test.ts > adds\nweb:test: Tests:       3 passed, 3 total\n", FAILED),
    ("mise run test | cat", "[test:unit] ok  \ta\t0.1s\n[test:e2e] FAIL\tb\t0.1s\n", FAILED),
    ("pnpm -r test | cat", "packages/web test: Tests:       3 passed, 3 total\n", PASSED),
    ("make test | cat", "src/a.c:3: error: x\n", FAILED),
    ("bazel test //... | tail -3", BAZEL, FAILED),
    ("npm run test:unit | tail", "npm error Lifecycle script `test` failed\n", FAILED),
    ("pytest | grep passed", "1 failed, 3 passed in 0.1s\n", FAILED),
    ("pytest -q 2>&1 | tail -3", "E   AssertionError\n", FAILED),
    ("pytest -q 2>&1 | tail -3", "....\n", UNKNOWN),
    ("tox | tail -1", "  congratulations :) (1.30 seconds)\n", PASSED),
    ("./test.sh | tail", NOT_OK, FAILED),
    ("cd a && timeout 60 go test ./... 2>/dev/null | tail -3 ; echo done", "FAIL\tb\t0.1s\nFAIL\ndone\n", FAILED),
]

LINES = """
go test ./... 2>&1 | tail -5 => test go test ./...
cd web && CI=1 timeout 60 npx eslint --fix src > log 2>&1 | head => lint eslint --fix src
golangci-lint run ./... => lint golangci-lint run ./...
mise run lint 2>&1 => lint mise run lint
mise lint => lint mise lint
mise exec -- go build ./... => build go build ./...
mise x -- golangci-lint run => lint golangci-lint run
go vet ./... => lint go vet ./...
go build -o x ./cmd/x => build go build -o x ./cmd/x
go test -c ./a => build go test -c ./a
go run gotest.tools/gotestsum@latest ./... => test gotestsum ./...
gofmt -l . => lint gofmt -l .
cargo build --release => build cargo build --release
cargo check => build cargo check
cargo clippy -- -D warnings => lint cargo clippy -- -D warnings
cargo fmt --check => lint cargo fmt --check
npm run build && npm test => test npm test
npm run build; npm run lint => build npm run build
npm run typecheck => lint npm run typecheck
npm run eslint => lint npm run eslint
npm run jest -- --ci => test npm run jest -- --ci
cargo +nightly -v t => test cargo +nightly -v t
tox -e check => test tox -e check
npm run lint:fix => lint npm run lint:fix
pnpm build => build pnpm build
yarn tsc --noEmit => build tsc --noEmit
bun run format => lint bun run format
npx biome check . => lint biome check .
prettier --check . => lint prettier --check .
ruff check . && mypy . => lint mypy .
uv run pyright => lint pyright
poetry run black --check . => lint black --check .
python -m flake8 a => lint flake8 a
python -m build => build python -m build
tox -e lint => lint tox -e lint
pre-commit run -a => lint pre-commit run -a
shellcheck a/*.sh => lint shellcheck a/*.sh
go test $PKGS -run 'A|B' => test go test $PKGS -run 'A|B'
pwsh -NoProfile -Command "npm test" => test npm test
cmd /c npm run build => build npm run build
make => build make
make -C x -j4 => build make -C x -j4
make build lint => build make build lint
make fmt => lint make fmt
cmake --build build => build cmake --build build
cmake --build build --target test => test cmake --build build --target test
mvn -q package => build mvn -q package
mvn -DskipTests verify => build mvn -DskipTests verify
gradlew assembleDebug => build gradlew assembleDebug
gradle lintDebug => lint gradle lintDebug
dotnet build => build dotnet build
swift build => build swift build
bazel build //... => build bazel build //...
just fmt => lint just fmt
task build => build task build
nx lint app => lint nx lint app
nx run app:build => build nx run app:build
rake lint => lint rake lint
docker compose exec -T web pytest -q => test pytest -q
docker run --rm -v a:b image npm test => test npm test
./x test => test ./x test
./dev lint => lint ./dev lint
bash scripts/test.sh -v => test bash scripts/test.sh -v
python scripts/build.py => build python scripts/build.py
for f in *; do shellcheck a; done => lint shellcheck a
if go build ./...; then go test ./...; fi => test go test ./...
go run ./cmd/x => None
make install => None
make clean => None
npm run dev => None
npm ci => None
docker compose up test => None
ls build lint => None
cat test.sh => None
git commit -m 'fix: lint' => None
chmod +x scripts/test.sh => None
./entire status => None
gh pr checks => None
"""

SEVERAL = [  # command line, status, output; what each of its commands is, and how it ended
    ("go build ./... && go test ./...", 0, "ok  \ta\t0.1s\n", "build passed, test passed"),
    ("go build ./... && go test ./...", 1, "FAIL\ta\t0.1s\nFAIL\n", "build passed, test failed"),
    ("go build ./... && go test ./...", 1, "# a\n./a.go:3:4: undefined: x\n", "build failed, test unknown"),
    ("go build ./... && go test ./... 2>&1 | tail -3", 0, "FAIL\n", "build passed, test failed"),
    ("go build ./... && go vet ./... 2>&1 | head", 0, "", "build passed, lint passed"),
    ("go build ./... 2>&1 | head -20", 0, "", "build passed"),  # it prints nothing where all is well
    ("go build ./... 2>&1 | grep x", 0, "", "build unknown"),
    ("go build ./... 2>&1 | head -20", 0, "# a\na/b.go:3:4: undefined: x\n", "build failed"),
    ("go build ./... && ./a list | head", 0, "a: error: none\n", "build passed"),
    ("tsc --noEmit | head", 0, "src/a.ts(3,4): error TS2322: no\n", "build failed"),
    ("golangci-lint run", 0, "", "lint passed"),
    ("golangci-lint run", 1, "a.go:3:4: unused (deadcode)\n1 issues:\n", "lint failed"),
    ("golangci-lint run", 127, "bash: golangci-lint: command not found\n", "lint unknown"),
    ("golangci-lint run | tail -3", 0, "0 issues.\n", "lint passed"),
    ("mise run lint | tail -3", 0, "[lint:go] a/b.go:3:4: no (unused)\n[lint:go] 3 issues:\n", "lint failed"),
    ("ruff format --check . | tail -2", 0, "Would reformat: a.py\n1 file would be reformatted\n", "lint failed"),
    ("npm run lint:nope | cat", 0, 'npm error Missing script: "lint:nope"\n', "lint unknown"),
    ("golangci-lint run | tail -3", 0, "3 issues:\n* errcheck: 3\n", "lint failed"),
    ("ruff check . | tail -1", 0, "Found 2 errors.\n", "lint failed"),
    ("ruff check . | tail -1", 0, "All checks passed!\n", "lint passed"),
    ("ruff check . && pytest", 1, "Found 1 error.\n", "lint failed, test unknown"),
    ("ruff check . && pytest", 1, NOT_OK, "lint passed, test failed"),
    ("gofmt -l .", 0, "a.go\n", "lint failed"),  # it lists what is wrong, and its status is 0
    ("gofmt -l .", 0, "", "lint passed"),
    ("gofmt -w .", 0, "", "lint passed"),
    ("gofmt -w . && golangci-lint run", 1, "2 issues:\n", "lint unknown, lint failed"),
    (
        "mise run fmt && mise run lint",
        1,
        "[lint] ERROR task failed\n1 issues:\n[fmt] $ gofmt -w .\n",
        "lint passed, lint failed",
    ),
    ("mise run fmt && mise run lint | tail", 0, "[lint] $ golangci-lint run\n0 issues.\n", "lint passed, lint passed"),
    ("mise run lint && mise run test", 1, "[lint] $ golangci-lint run\n1 issues:\n", "lint failed, test unknown"),
    ("mise run test && mise run lint", 1, "[test] $ go test\nFAIL\ta\t0.1s\nFAIL\n", "test failed, lint unknown"),
    ("make build && make test", 2, "a.c:3:4: error: x\nmake: *** [a.o] Error 1\n", "build failed, test unknown"),
    ("npm run build | tail -3", 0, "✓ built in 1.20s\n", "build passed"),
    ("npm run build | tail -3", 0, "Failed to compile.\n", "build failed"),
    ("make build", 0, "make: Nothing to be done for 'build'.\n", "build passed"),
    ("pytest; npm test", 0, NOT_OK + JEST_OK, "test failed, test passed"),
    ("git pull && go build ./... | head", 0, "Already up to date.\n", "build unknown"),
    ("x=$(go test ./...)", 0, "", "test unknown"),
    ("ls", 0, "", ""),
]

MENDS = """
go test ./a -run TestCache -v | go test ./a -run TestCache_Drops
pytest -k cache | pytest -q -k cache_drops
go test ./... | go test ./pkg/a
go test ./... | go test ./pkg/a -run TestX -v -count=1
go test -v ./pkg/... | go test ./pkg/a
go test ./pkg/a -count=1 | go test ./pkg/a
go test . | go test
go test ./a ./b | go test ./a
go test -tags=integration ./... | go test -tags=integration ./a -run X
go build ./... | go build -o x ./cmd/x
golangci-lint run | golangci-lint run ./...
golangci-lint run ./... | golangci-lint run ./pkg/a/...
pytest | pytest tests/a.py::t
pytest -q | pytest -x tests
pytest tests | pytest tests/a.py
pytest tests/a.py | pytest tests/a.py::t
pytest tests/a | pytest tests/a/b.py tests/a/c.py
pytest --lf | pytest
cargo test | cargo test foo
cargo test --workspace | cargo test -p a
npm test | npm test -- --testNamePattern x
vitest run | vitest run src/x.test.ts -t name
mise run test:integration | mise run test:integration -- -run TestX -v
ruff check . | ruff check src
mypy . | mypy src/a.py
mvn test | mvn test -Dtest=Foo
gradle test | gradle test --tests Foo
rspec | rspec spec/a_spec.rb:3
bazel test //... | bazel test //a:b
./x test | ./x test
"""
MENDS_NOT = """
go test ./a -run TestCache_Drops | go test ./a -run TestCache
go test ./a -run 'Test(A|B)' | go test ./a -run TestA
go test ./a -skip TestA | go test ./a -skip TestAB
go test ./pkg/a | go test ./...
go test ./pkg/b | go test ./pkg/a
go test ./pkg/a | go test ./pkg/ab
go test | go test ./pkg/a
go test ./... | go test -tags=integration ./...
go test ./... -run X | go test ./...
go test -short ./... | go test ./...
go vet ./... | go test ./...
pytest -k x | pytest
pytest -k x | pytest -k y
pytest tests/a.py::t | pytest
pytest tests/a.py::t | pytest tests/a.py::tt
pytest tests | pytest
pytest tests/a.py | pytest tests/ab.py
cargo test | cargo test --workspace
cargo test foo | cargo test bar
npm run test:unit | npm test
mise run test | mise run test:ci
mise run lint | mise run test
ls | ls -a
"""


@each("command, status, output, result, counts, names, shown", PROGRAMS)
def test_every_program_in_its_own_words(
    command: str,
    status: int | None,
    output: str,
    result: str,
    counts: tuple[int | None, ...],
    names: tuple[str, ...],
    shown: str,
) -> None:
    found = verdict(command, status, output)
    assert found is not None
    assert (found.result, (found.passed, found.failed, found.skipped), found.names) == (result, counts, names)
    assert found.command == shown


@each("command, shown", THROUGH)
def test_what_stands_before_a_test_is_looked_through(command: str, shown: str) -> None:
    found = verdict(command, 0, "")
    assert found is not None
    assert found.command == shown
    again = verdict(shown, 0, "")
    assert again is not None
    assert again.command == shown


@each("command", [line.replace("\\n", "\n") for row in NO_TEST.split("\n") for line in row.split("|")])
def test_what_only_speaks_of_tests_is_none(command: str) -> None:
    assert verdict(command, 0, OK) is None


@each("command, status, output, result", PLACES)
def test_a_status_counts_only_where_it_is_the_tests(command: str, status: int, output: str, result: str) -> None:
    found = verdict(command, status, output)
    assert found is not None
    assert found.result == result


@each("command, status, output", NOTHING)
def test_a_run_in_which_nothing_was_tested_is_unknown(command: str, status: int, output: str) -> None:
    found = verdict(command, status, output)
    assert found is not None
    assert (found.result, found.empty, found.names) == ("unknown", True, ())


@each("command, status, output, result", SOME)
def test_a_run_that_tested_something_is_not_called_empty(command: str, status: int, output: str, result: str) -> None:
    found = verdict(command, status, output)
    assert found is not None
    assert (found.result, found.empty) == (result, False)


@each("command, output, result", PIPED)
def test_behind_a_pipe_what_is_shown_decides(command: str, output: str, result: str) -> None:
    found = verdict(command, 0, output)
    assert found is not None
    assert found.result == result


@each("command, wanted", [row.split(" => ") for row in LINES.strip().split("\n")])
def test_what_a_line_does_and_how_it_is_shown(command: str, wanted: str) -> None:
    found = sorted(outcomes(command, 0, OK), key=lambda one: ("lint", "build", "test").index(one.kind))
    assert (f"{found[-1].kind} {found[-1].command}" if found else "None") == wanted


@each("command, status, output, wanted", SEVERAL)
def test_each_command_of_a_line_has_its_own_end(command: str, status: int, output: str, wanted: str) -> None:
    assert ", ".join(f"{one.kind} {one.result}" for one in outcomes(command, status, output)) == wanted


@each("later, earlier", [row.split(" | ") for row in MENDS.strip().split("\n")])
def test_a_success_of_the_same_or_of_more_mends_a_failure(later: str, earlier: str) -> None:
    assert mends(later, earlier)
    assert mends(earlier, earlier)


@each("later, earlier", [row.split(" | ") for row in MENDS_NOT.strip().split("\n")])
def test_a_success_of_less_or_of_something_else_mends_nothing(later: str, earlier: str) -> None:
    assert not mends(later, earlier)


@each(
    "command",
    [
        "pytest 'a",
        'pytest && echo "',
        "pytest \\",
        "go test ./... $(",
        "cd x; go test `",
        "set -o pipefail; pytest |",
        "pytest &&",
    ],
)
def test_a_line_that_cannot_be_read_is_unknown(command: str) -> None:
    for status, output in ((0, OK), (1, NOT_OK), (0, ""), (None, "")):
        found = verdict(command, status, output)
        assert found is None or found.result == "unknown"


@each(
    "command, own, shown",
    [
        ("./run_tests.sh a", ("./run_tests.sh",), "./run_tests.sh a"),
        ("cd x && A=b ./run_tests.sh", ("C=d ./run_tests.sh",), "./run_tests.sh"),
        ("docker compose run --rm app pytest -q", ("docker compose run", "x"), "docker compose run --rm app pytest -q"),
        ("timeout 9 python tests/test_x.py", ("python tests/test_x.py",), "python tests/test_x.py"),
        ("pytest -q", ("pytest",), "pytest -q"),
        ("./run_tests.sh --help", ("./run_tests.sh",), None),
        ("./run_tests.sh", ("./run_tests.sh fast", "'", ""), None),
        ("cat run_tests.sh", ("./run_tests.sh",), None),
    ],
)
def test_commands_of_ones_own(command: str, own: tuple[str, ...], shown: str | None) -> None:
    found = verdict(command, 0, "", own)
    assert (found and found.command) == shown


def test_a_command_of_ones_own_may_print_any_summary() -> None:
    for output in (
        NOT_OK,
        UNITTEST,
        GO,
        CARGO,
        NEXTEST,
        JEST,
        VITEST,
        MOCHA,
        PLAYWRIGHT,
        RSPEC,
        MINITEST,
        PHPUNIT,
        MAVEN,
        GRADLE,
    ):
        alone = verdict("./t.sh | tail", 0, output, ("./t.sh",))
        assert alone is not None
        assert alone.result == "failed"
        assert alone.names
    for output in (DOTNET, SWIFT, BAZEL, CTEST, NODE_TAP, NODE_SPEC, DENO, BUN, TOX, NOX, AUTOMAKE):
        alone = verdict("make test | tail", 0, output)
        assert alone is not None
        assert alone.result == "failed", output
    for output in (OK, UNITTEST_OK, GO_V, CARGO_OK, JEST_OK, VITEST_OK, MAVEN_OK, GRADLE_OK, DOTNET_OK, TOX_OK):
        alone = verdict("make test | tail", 0, output)
        assert alone is not None
        assert alone.result == "passed", output


def test_a_form_is_looked_for_only_where_its_program_runs() -> None:
    found = verdict("cargo test | tail", 0, NOT_OK + JEST)
    assert found is not None
    assert (found.result, found.failed, found.names) == ("unknown", None, ())


def test_long_outputs_are_read_at_their_ends() -> None:
    noise = "a line that says nothing\n" * 50_000
    found = verdict("pytest | cat", 0, noise + NOT_OK)
    assert found is not None
    assert (found.result, found.failed) == ("failed", 2)
    middle = verdict("cargo test --no-fail-fast | cat", 0, CARGO_OK + noise + CARGO + noise + CARGO_OK)
    assert middle is not None
    assert (middle.result, middle.passed) == ("unknown", None)  # what is left out may have failed
    ends = verdict("cargo test", 0, CARGO_OK + noise + CARGO_OK)
    assert ends is not None
    assert (ends.result, ends.passed) == ("passed", None)


def test_names_are_few_and_short() -> None:
    lines = "".join(f"FAILED a.py::test_{n}{'x' * 300}\n" for n in range(30))
    found = verdict("pytest", 1, f"= short test summary info =\n{lines}30 failed in 1s\n")
    assert found is not None
    assert len(found.names) == MAX_NAMES
    assert max(map(len, found.names)) == MAX_NAME
    assert verdict("pytest " + "a" * 500, 0, "") is not None


@pytest.mark.deep
def test_the_worst_outputs_come_to_an_end() -> None:
    pieces = (
        "a",
        " ",
        "1 ",
        "a b ",
        "a::b ",
        "1 passed, ",
        "Tests: 1 failed, ",
        " › ",
        "=",
        "--- FAIL: ",
        "not ok 1 ",
        "\x1b[",
        "\n",
        "  1) a\n",
        "Ran 1 tests in\n",
        "[ERROR] a",
        "a:1:",
        "no tests ",
        "make: ",
        "> Task :a:",
        "Executed 1 of 1 ",
        "0 tests",
        "NX ",
    )
    for piece in pieces:
        for joined in (piece, piece + "\n"):
            output = joined * (1_000_000 // len(joined))
            window, cut = testoutput.window(output)
            assert cut
            assert len(window) < 70_000 and max(map(len, window.split("\n"))) <= 400
            assert verdict("make test | cat", 0, output) is not None


@pytest.mark.deep
def test_the_worst_command_lines_come_to_an_end() -> None:
    for piece in (
        "(",
        "$(",
        "`",
        "'",
        '"',
        "{ ",
        "pytest;",
        "pytest &&",
        "pytest | ",
        "<<A ",
        "if ",
        "test ",
        "${",
        "a=(",
        "env ",
        "!",
        "\\",
        "f() ",
        "for (",
        "a\x0b",
        "$((",
    ):
        found = verdict("pytest;" + piece * (20_000 // len(piece)), 0, "")
        assert found is None or found.command.startswith(("pytest", "test"))


ODD = (
    "pytest jest npm test run make && || | ; ( ) { } ! & \n # ' \" \\ $( ) ` <<A A > < 2>&1 if then fi do done for x= -c sh"
    " -m python env cd timeout uv run set -e pipefail -o coverage - -- xargs eval script npx exec"
)
WORDS = st.sampled_from(ODD.split(" "))
ANY_LINES = st.one_of(st.text(), st.lists(WORDS, max_size=20).map(" ".join), st.lists(WORDS, max_size=20).map("".join))


@pytest.mark.deep
@model(examples(1000, 60))
@given(
    ANY_LINES,
    st.none() | st.integers(-20, 300),
    st.text() | st.lists(st.sampled_from((OK, NOT_OK, GO, JEST, "\x1b", "\r"))).map("".join),
    ANY_LINES,
)
def test_no_text_is_too_odd(command: str, status: int | None, output: str, mine: str) -> None:
    for text in (command, f"pytest {command}", f"{command} pytest"):
        found = verdict(text, status, output, (mine,))
        if found is not None:
            assert isinstance(found, CheckVerdict)
            assert len(found.command) <= MAX_COMMAND
            assert found.command.isprintable()
            assert found.result in ("passed", "failed", "unknown")


@pytest.mark.deep
@model(examples(1000, 60))
@given(ANY_LINES, st.integers(0, 255), st.sampled_from([shown for _, shown in THROUGH]))
def test_before_a_pipe_no_status_is_a_test_that_passed(before: str, status: int, test: str) -> None:
    for line in (f"{test} | tail", f"({test}) | tail", f"{test} || true", f"{test}; echo {before!r}"):
        found = verdict(line, status, "")
        assert found is None or found.result == "unknown"


@pytest.mark.deep
@model(examples(1000, 60))
@given(st.lists(st.text(max_size=60) | st.from_regex(r"--[a-z]{1,9}=?[A-Za-z0-9]{0,40}", fullmatch=True), max_size=6))
def test_a_shown_command_is_shown_as_it_is(arguments: list[str]) -> None:
    shown = testcommands.shown(("pytest", *arguments))
    found = verdict(shown, 0, "")
    assert found is None or found.command == shown
    assert len(shown) <= MAX_COMMAND


BEFORE = ("cd .", "./deploy", "echo y", "set -e", "set -o pipefail", "set +e", "export A=b", "true", "false", "! true", "A=b")
RUN = (
    *("pytest", "(pytest)", "{ pytest; }", "bash -c 'pytest'", "bash -ec 'pytest; echo a'", "! pytest", "env A=b pytest"),
    *("if pytest; then echo a; fi", "for i in 1; do pytest; done", "echo $(pytest)", "eval pytest", "pytest 2>&1 >/dev/null"),
)
AFTER = ("echo done", "./deploy", "true", "exit 1", "tail -1", "cat", "grep x", "head -1")
SIGNS = st.sampled_from(("&&", ";", "||", "|", "\n"))
AROUND = st.sampled_from(("{}", "{}", "{}", "( {} ) | tail", "( {} ) && echo ok", "set -e; {}", 'bash -c "{}"'))


@pytest.mark.deep
@model(examples(400, 30))
@given(
    st.lists(st.tuples(st.sampled_from(BEFORE), SIGNS), max_size=3),
    st.sampled_from(RUN),
    st.lists(st.tuples(SIGNS | st.just("&"), st.sampled_from(AFTER)), max_size=3),
    AROUND,
    st.booleans(),
    st.booleans(),
)
def test_what_a_status_says_is_what_the_shell_did(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[str, str]],
    run: str,
    after: list[tuple[str, str]],
    around: str,
    test_fails: bool,
    other_fails: bool,
) -> None:
    """The shell itself is the judge: with nothing printed, no test is said to have passed or failed that did not."""
    folder = tmp_path_factory.mktemp("shell")
    log = folder / "log"
    for name, text in (("pytest", f"echo ran >>{log}\nexit {int(test_fails)}\n"), ("deploy", f"exit {int(other_fails)}\n")):
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    line = around.replace(
        "{}", " ".join([*(part for pair in before for part in pair), run, *(p for pair in after for p in pair)])
    )
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    found = verdict(line, done.returncode, "")
    if "syntax error" not in done.stderr:
        truth = ("failed" if test_fails else "passed") if log.exists() else "not run"
        assert found is None or found.result in ("unknown", truth), line
