"""Runs of tests as agents start them and programs print them: whole and green ones, and what only looks like one."""

from __future__ import annotations

PYTEST = """============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-8.3.3, pluggy-1.5.0
rootdir: /w
collected 12 items

tests/test_a.py ............                                             [100%]

============================== 12 passed in 0.31s ==============================
"""
PYTEST_Q = "............                                                             [100%]\n12 passed in 0.28s\n"
UNITTEST = "....\n----------------------------------------------------------------------\nRan 4 tests in 0.003s\n\nOK\n"
JEST = """PASS src/sum.test.js
PASS src/app.test.js

Test Suites: 2 passed, 2 total
Tests:       7 passed, 7 total
Snapshots:   0 total
Time:        1.214 s
Ran all test suites.
"""
VITEST = """
 RUN  v2.1.4 /w

 ✓ src/a.test.ts (3 tests) 4ms
 ✓ src/b.test.ts (2 tests) 3ms

 Test Files  2 passed (2)
      Tests  5 passed (5)
   Start at  10:00:00
   Duration  312ms (transform 40ms, setup 0ms, collect 50ms, tests 7ms, environment 0ms, prepare 90ms)

"""
MOCHA = "\n\n  sum\n    ✔ adds\n    ✔ takes away\n\n\n  2 passing (6ms)\n\n"
GO = "ok  \texample.com/m/a\t0.004s\nok  \texample.com/m/b\t0.005s\n?   \texample.com/m/cmd\t[no test files]\n"
CARGO = """   Compiling m v0.1.0 (/w)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.61s
     Running unittests src/lib.rs (target/debug/deps/m-1a2b3c4d5e6f7a8b)

running 2 tests
test tests::adds ... ok
test tests::takes ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests m

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

"""
NEXTEST = "    Starting 3 tests\n     Summary [   0.005s] 3 tests run: 3 passed, 0 skipped\n"
RSPEC = ".....\n\nFinished in 0.00812 seconds (files took 0.07 seconds to load)\n5 examples, 0 failures\n\n"
MAVEN = """[INFO] -------------------------------------------------------
[INFO]  T E S T S
[INFO] -------------------------------------------------------
[INFO] Running com.example.AppTest
[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.041 s -- in com.example.AppTest
[INFO]
[INFO] Results:
[INFO]
[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0
[INFO]
[INFO] ------------------------------------------------------------------------
[INFO] BUILD SUCCESS
[INFO] ------------------------------------------------------------------------
"""
GRADLE = "> Task :compileJava\n> Task :test\n\nBUILD SUCCESSFUL in 3s\n3 actionable tasks: 3 executed\n"
DOTNET = """  Determining projects to restore...
  All projects are up-to-date for restore.
Test run for /w/bin/Debug/net8.0/App.Tests.dll (.NETCoreApp,Version=v8.0)
Starting test execution, please wait...
A total of 1 test files matched the specified pattern.

Passed!  - Failed:     0, Passed:     4, Skipped:     0, Total:     4, Duration: 9 ms - App.Tests.dll (net8.0)
"""
CTEST = """[100%] Built target t
Test project /w/build
    Start 1: adds
1/2 Test #1: adds .............................   Passed    0.00 sec
    Start 2: takes
2/2 Test #2: takes ............................   Passed    0.00 sec

100% tests passed, 0 tests failed out of 2

Total Test time (real) =   0.01 sec
"""
PHPUNIT = """PHPUnit 10.5.20 by Sebastian Bergmann and contributors.

Runtime:       PHP 8.3.6

.....                                                               5 / 5 (100%)

Time: 00:00.010, Memory: 8.00 MB

OK (5 tests, 9 assertions)
"""


def _npm(script: str, output: str) -> str:
    return f"\n> m@1.0.0 test\n> {script}\n\n{output}"


GENUINE: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "pytest",
        (
            "pytest",
            "pytest -v",
            "python -m pytest",
            "uv run pytest",
            ".venv/bin/pytest --tb=short",
            "poetry run pytest -x",
            "pytest -ra",
        ),
        PYTEST,
    ),
    (
        "pytest",
        ("pytest -q", "python3 -m pytest -q -n 4", "set -o pipefail; pytest -q 2>&1 | tee /tmp/log", "CI=1 pytest -q"),
        PYTEST_Q,
    ),
    (
        "pytest",
        ("pytest -q && git add -A && git commit -qm work", ". .venv/bin/activate && pytest -q", "ruff check . && pytest -q"),
        PYTEST_Q,
    ),
    (
        "unittest",
        (
            "python -m unittest",
            "python3 -m unittest discover",
            "python -m unittest -v",
            "python -m unittest discover -v",
            "python3 -m unittest -b -f",
            "uv run python -m unittest",
            "PYTHONPATH=src python -m unittest",
            "timeout 60 python -m unittest",
        ),
        UNITTEST,
    ),
    (
        "jest",
        (
            "npx jest",
            "npx jest --ci",
            "jest --runInBand",
            "yarn jest --coverage",
            "node_modules/.bin/jest --silent",
            "pnpm exec jest",
            "npx jest --maxWorkers=2 --verbose",
            "npm ci && npx jest",
        ),
        JEST,
    ),
    ("jest", ("npm test", "npm run test", "CI=true npm test -- --watchAll=false"), _npm("jest", JEST)),
    (
        "vitest",
        (
            "npx vitest run",
            "npx vitest --run",
            "pnpm vitest run",
            "vitest run --coverage",
            "npx vitest run --reporter=verbose",
            "bunx vitest run",
            "npx vitest run --no-color",
        ),
        VITEST,
    ),
    ("vitest", ("npm test", "npm run test -- --run"), _npm("vitest run", VITEST)),
    (
        "mocha",
        (
            "npx mocha",
            "mocha --exit",
            "npx mocha --reporter spec",
            "yarn mocha --recursive",
            "npx mocha --parallel",
            "npx nyc mocha",
        ),
        MOCHA,
    ),
    ("mocha", ("npm t",), _npm("mocha", MOCHA)),
    (
        "go",
        (
            "go test ./...",
            "go test -v ./...",
            "go test -race ./...",
            "go test ./... -count=1",
            "go test -cover -timeout 60s ./...",
            "go vet ./... && go test ./...",
            "CGO_ENABLED=0 go test ./...",
            "go build ./... && go test ./...",
        ),
        GO,
    ),
    (
        "cargo",
        (
            "cargo test",
            "cargo test --workspace",
            "cargo test --all-features",
            "cargo test --release --locked",
            "RUST_BACKTRACE=1 cargo test",
            "cargo test -- --nocapture",
            "cargo test --no-fail-fast",
            "cargo build && cargo test",
        ),
        CARGO,
    ),
    ("cargo", ("cargo nextest run", "cargo +nightly nextest run --no-fail-fast"), NEXTEST),
    ("make", ("make test", "make -s lint test", "make -j4 check"), f"pytest -q\n{PYTEST_Q}"),
    (
        "rspec",
        (
            "bundle exec rspec",
            "rspec",
            "rspec --format progress",
            "bin/rspec",
            "bundle exec rspec --order rand",
            "bundle exec rspec -fp --color",
            "RAILS_ENV=test bundle exec rspec",
        ),
        RSPEC,
    ),
    (
        "maven",
        (
            "mvn test",
            "mvn -B verify",
            "./mvnw clean test",
            "mvn -B -ntp clean verify",
            "mvn -T1C test",
            "mvn --batch-mode test",
        ),
        MAVEN,
    ),
    (
        "gradle",
        (
            "./gradlew test",
            "gradle clean test",
            "./gradlew check",
            "./gradlew test --rerun-tasks",
            "./gradlew build --no-daemon",
        ),
        GRADLE,
    ),
    (
        "dotnet",
        (
            "dotnet test",
            "dotnet test --nologo",
            "dotnet test -c Release",
            "dotnet test App.sln",
            "dotnet restore && dotnet test --no-restore",
            "dotnet build && dotnet test --no-build",
            "dotnet test --verbosity quiet",
        ),
        DOTNET,
    ),
    (
        "ctest",
        (
            "cmake --build build && ctest --test-dir build",
            "cmake -S . -B build && cmake --build build -j4 && ctest --test-dir build --output-on-failure",
            "make -j4 && ctest --output-on-failure",
            "cmake --build build && ctest --test-dir build -j 4",
            "ninja -C build && ctest --test-dir build",
        ),
        CTEST,
    ),
    (
        "phpunit",
        (
            "vendor/bin/phpunit",
            "./vendor/bin/phpunit --testdox",
            "php vendor/bin/phpunit",
            "vendor/bin/phpunit --colors=never",
            "composer install && vendor/bin/phpunit",
        ),
        PHPUNIT,
    ),
)
"""The framework, command lines that run all of its tests, and what it prints; each ends with 0."""

_PLAIN = (
    (
        "pytest -q",
        PYTEST_Q,
        "tests/test_a.py -k,half --lf --ff=x -m,slow --deselect=a --ignore=b --sw --stepwise -p,x tests::b --rootdir=/o",
    ),
    ("python -m unittest", UNITTEST, "tests.test_a -k,half tests/test_a.py test_a.T.test_b"),
    (
        "npx jest",
        JEST,
        "src/sum.test.js -t,adds --onlyChanged -o --testPathPattern=sum --findRelatedTests,a.js --shard=1/2 --lastCommit",
    ),
    ("npx vitest run", VITEST, "src/a.test.ts -t,adds --changed --shard=1/2 --project=web --dir=src --exclude=b"),
    ("npx mocha", MOCHA, "test/a.js -g,adds --grep=adds -f,adds --spec=a.js"),
    ("go test ./...", GO, "-run=TestA -short -skip=TestB -list=. -tags=x"),
    ("cargo test", CARGO, "adds --lib -p,m --test=it --bin=m --doc --exclude=n"),
    ("bundle exec rspec", RSPEC, "spec/a_spec.rb -e,adds --tag=fast --only-failures spec/a_spec.rb:12 --next-failure"),
    ("mvn test", MAVEN, "-Dtest=AppTest -pl,core -Dgroups=fast -Dmaven.test.failure.ignore=true -fn"),
    ("./gradlew test", GRADLE, "--tests=AppTest -x,integrationTest :core:test"),
    ("dotnet test", DOTNET, "--filter=Name=A tests/A.csproj --no-build"),
    ("ctest", CTEST, "-R,adds -E,takes -L,fast --rerun-failed -I,1,1"),
    ("vendor/bin/phpunit", PHPUNIT, "tests/ATest.php --filter=adds --group=fast --testsuite=unit --exclude-group=slow"),
)
_AROUND = (
    "echo '{}'",
    "printf '{}\\n'",
    "cat old.log",
    "true # pytest -q",
    "pytest -q || true",
    "pytest -q; true",
    "pytest -q | head -5",
    "pytest -q | tail -1",
    "pytest -q | grep passed",
    "! pytest -q",
    "pytest -q --collect-only",
    "pytest --version; echo '{}'",
    "pytest -q > /dev/null; echo '{}'",
    "pytest -q >/dev/null && echo '{}'",
    "pytest() {{ echo '{}'; }}; pytest",
    "alias pytest=true; pytest -q",
    "PATH=/tmp/fake:$PATH pytest -q",
    "export PATH=/tmp/fake:$PATH && pytest -q",
    "PYTEST_ADDOPTS='-k half' pytest -q",
    "/tmp/fake/pytest -q",
    "cd /tmp/other && pytest -q",
    "git stash && pytest -q && git stash pop",
    "pytest -q && sed -i s/a/b/ x.py",
    "cp good.py x.py && pytest -q && rm x.py",
    "docker run image pytest -q",
    "ssh host pytest -q",
    "bash -c 'pytest -q || true'",
    "python -c \"print('{}')\"",
    "eval 'echo {}'",
    "grep -r '{}' .",
    "git log -1 --format=%B",
    "pytest -q &",
    "if pytest -q; then echo '{}'; fi",
)


def forgeries() -> list[tuple[str, str]]:
    """Command lines that end with 0 and what they print, of which none is a run of all tests that is known to be green."""
    found = [(f"{one} {more.replace(',', ' ', 1)}", output) for one, output, rest in _PLAIN for more in rest.split(" ")]
    found += [(line.format("12 passed in 0.28s"), PYTEST_Q) for line in _AROUND]
    found += [
        ("ctest --test-dir build", CTEST),
        ("go test", GO),
        ("npm test", _npm("echo 'Tests:       7 passed, 7 total'", JEST)),
        ("npm test", _npm("jest src/sum.test.js", JEST)),
        ("npm test", _npm("jest || true", JEST)),
        ("npm run test:unit", _npm("jest", JEST)),
        ("make test-fast", f"pytest -q -m fast\n{PYTEST_Q}"),
        ("make test", "echo '12 passed in 0.28s'\n12 passed in 0.28s\n"),
        ("make test", f"pytest -q tests/unit\n{PYTEST_Q}"),
        ("just test", f"pytest -q -k half\n{PYTEST_Q}"),
        ("task test", f"task: [test] pytest -q -m fast\n{PYTEST_Q}"),
        *((line, PYTEST_Q) for line in ("make -C sub test", "make --directory=sub test", "make -f other.mk test")),
        *((line, JEST) for line in ("npm --prefix sub test", "yarn workspace a test", "pnpm --filter a test")),
        ("go -C sub test ./...", GO),
        *((line, PYTEST_Q) for line in ("bash test.sh", "sh scripts/run_tests.sh", "python run_tests.py")),
        ("pytest -q", PYTEST_Q.replace("12 passed", "12 passed, 3 deselected")),
        ("npx jest", JEST.replace("Ran all test suites.", "Ran all test suites matching /sum/i.")),
        ("cargo test", CARGO.replace("0 filtered out", "9 filtered out")),
        ("bundle exec rspec", f"Run options: include {{:focus=>true}}\n{RSPEC}"),
        ("./gradlew test", GRADLE.replace("> Task :test", "> Task :test UP-TO-DATE")),
        ("pytest -q", "\nno tests ran in 0.01s\n"),
    ]
    return found
