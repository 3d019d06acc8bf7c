"""Check commands: which command tests, builds or lints, through which wrappers, and how it is shown. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from gitbaton.agents.shell import DEPTH, names_of, unassigned
from gitbaton.agents.testoutput import ANY
from gitbaton.base.values import TYPE_CHECKING, replace, value

if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["test", "build", "lint"]
else:
    Kind = str

MAX_COMMAND = 200


@value
class Check:
    """A command that tests, builds or lints: its own words, how many of them (``head``) name the program and what it is to do,
    and the forms that its summary may have. ``masked``: its status is not told by the command that runs it; ``silent``:
    it prints nothing where all is well; ``listing``: what it prints is what is wrong; ``fixing``: it puts right what it finds;
    ``guessed``: only its output can tell that it is one."""

    kind: Kind
    words: tuple[str, ...]
    head: int
    forms: tuple[str, ...]
    masked: bool = False
    silent: bool = False
    listing: bool = False
    fixing: bool = False
    guessed: bool = False


@value
class Script:
    """Another command line in a command. ``options``: of its shell; ``masked``: its status is not told."""

    text: str
    options: tuple[str, ...]
    masked: bool = False


@value
class _Tool:
    """The way a program is called. Of ``test``, ``build`` and ``lint``: the words that ask for it, before any other one (or
    ``anywhere``); ``.``: it does so without one. ``tasks``: after one of these words comes the name of a task. ``runs``: after
    one of these, and so many other ``places``, comes another command. ``valued``: options that take a value; ``idle``: words
    with which it does none of it; ``chosen``: options that choose a task by its name. ``forms``: of the tests' summary.
    ``check``: a task of that name tests."""

    test: str = ""
    build: str = ""
    lint: str = ""
    tasks: str = ""
    runs: str = ""
    places: int = 0
    valued: str = ""
    idle: str = ""
    chosen: str = ""
    forms: tuple[str, ...] = ANY
    anywhere: bool = False
    several: bool = False
    check: bool = False
    silent: bool = False


_UV = (
    "--with --with-editable --with-requirements --extra --group --only-group --no-group --no-extra --package --directory"
    " --project -p --python --env-file --index --default-index --index-url -i --extra-index-url -f --find-links"
    " --config-file --cache-dir --color --link-mode -P --upgrade-package --python-platform --from -w"
)
_JS_VALUED = (
    "--prefix -C --dir --cwd --filter -F -w --workspace --loglevel --registry --reporter --workspace-concurrency --include"
    " --exclude --from -j -p --package"
)
_PYTHON = ("python",)
_PYTEST = _Tool(
    test=".",
    forms=_PYTHON,
    idle="--collect-only --co -V --fixtures --funcargs --markers --setup-plan --setup-only --cache-show --fixtures-per-test",
)
_PHPUNIT = _Tool(
    test=".", forms=("phpunit", "js"), idle="--list-tests --list-groups --list-suites --generate-configuration --list-tests-xml"
)
_UNTESTED = names_of("-v -DskipTests -DskipTests=true -Dmaven.test.skip -Dmaven.test.skip=true")
_MAVEN = _Tool(
    test="test verify integration-test surefire:test failsafe:integration-test failsafe:verify",
    build="compile test-compile package install",
    lint="checkstyle:check spotless:check spotless:apply spotbugs:check",
    forms=("jvm",),
    anywhere=True,
    idle="-v",
    valued="-pl --projects -f --file -P -s --settings -T --threads -rf",
)
_BAZEL = _Tool(
    test="test coverage", build="build", forms=("bazel",), idle="--nobuild", valued="--bazelrc --output_base --output_user_root"
)
_MAKE = _Tool(
    build=".",
    tasks=".",
    several=True,
    check=True,
    valued="-C --directory -f --file --makefile -I --include-dir -o -W -O",
    idle="-n --dry-run --just-print --recon -q --question -p -v",
)
_LINT, _SILENT = _Tool(lint="."), _Tool(lint=".", silent=True)
_PLAIN = _Tool(runs=".")
_NPX = _Tool(runs=".", valued="-p --package -w --workspace --registry --cache --prefix")
_COVER = _Tool(runs=".", valued="-r --reporter --reports-dir --report-dir -x --exclude -n --include -t --temp-dir")
_TIMEOUT = _Tool(runs=".", valued="-s -k --signal --kill-after", places=1)
_CONTAINER = _Tool(
    runs="exec run",
    places=1,
    valued="-e --env --env-file -u --user -w --workdir -v --volume --name --network -p --publish --entrypoint --index --mount"
    " --platform -f --file --profile --project-name --project-directory",
)
_TOOLS: dict[str, _Tool] = {
    # tests
    **dict.fromkeys(("pytest", "py.test"), _PYTEST),
    "tox": _Tool(
        test=". run r p run-parallel",
        forms=_PYTHON,
        idle="l list c config d devenv e exec q quickstart -l --listenvs -a --listenvs-all --showconfig --notest -n",
        chosen="-e --env",
    ),
    "nox": _Tool(
        test=".", forms=_PYTHON, idle="-l --list --list-sessions --install-only", chosen="-s -e --session --sessions -k -t"
    ),
    **dict.fromkeys(("nose2", "nosetests"), _Tool(test=".", forms=_PYTHON)),
    **dict.fromkeys(names_of("trial behave cucumber ginkgo"), _Tool(test=".", idle="--help-reporters -d --dry-run")),
    "gotestsum": _Tool(test=".", forms=("counted", "go"), idle="tool"),
    "jest": _Tool(test=".", forms=("js",), idle="--listTests --showConfig --init --clearCache -v"),
    "vitest": _Tool(test="run watch .", forms=("js",), idle="list init bench -v"),
    "mocha": _Tool(test=".", forms=("js",), idle="--list-files --list-reporters --list-interfaces --dry-run -V"),
    "playwright": _Tool(test="test", forms=("js",), idle="--list -V"),
    "cypress": _Tool(test="run", forms=("js",)),
    "ava": _Tool(test="."),
    "karma": _Tool(test="start run"),
    "rspec": _Tool(test=".", forms=("counted",), idle="--dry-run --init -v"),
    "minitest": _Tool(test=".", forms=("counted",)),
    **dict.fromkeys(names_of("phpunit paratest pest simple-phpunit"), _PHPUNIT),
    "artisan": _Tool(test="test", forms=("phpunit", "js")),
    "bats": _Tool(test=".", forms=("counted", "tap"), idle="-c --count -v"),
    "prove": _Tool(test=".", forms=("tap",), idle="-D --dry -V"),
    "ctest": _Tool(test=".", forms=("ctest",), idle="-N --show-only --show-only=json-v1 --print-labels"),
    # languages, with builds and linters of their own
    "go": _Tool(
        test="test",
        build="build install",
        lint="vet fmt",
        runs="run",
        forms=("go",),
        idle="-list -help",
        valued="-C",
        silent=True,
    ),
    "cargo": _Tool(
        test="test t nextest",
        build="build b check c",
        lint="clippy fmt",
        forms=("cargo",),
        idle="--no-run --list list archive show-config",
        valued="--color -C",
    ),
    "mvn": _MAVEN,
    "mvnw": _MAVEN,
    "mvnd": _MAVEN,
    "dotnet": _Tool(test="test vstest", build="build publish", lint="format", forms=("dotnet",), idle="--list-tests -t -lt -?"),
    "swift": _Tool(test="test", build="build", lint="format", forms=("swift",), idle="list --list-tests -l"),
    "xcodebuild": _Tool(
        test="test test-without-building",
        build="build",
        anywhere=True,
        forms=("swift",),
        idle="-dry-run -n -list",
        valued="-scheme -project -workspace -configuration -sdk -destination",
    ),
    **dict.fromkeys(names_of("bazel bazelisk blaze"), _BAZEL),
    "meson": _Tool(test="test", build="compile", forms=("tap",), idle="--list"),
    "mix": _Tool(test="test", build="compile", lint="format credo dialyzer", forms=("counted",)),
    "deno": _Tool(test="test", lint="lint fmt check", tasks="task", forms=("js",), idle="--no-run"),
    "zig": _Tool(test="test", tasks="build", build="build", forms=("counted",)),
    **dict.fromkeys(names_of("sbt stack cabal dune lein"), _Tool(test="test", build="build compile", idle="--no-run-tests")),
    **dict.fromkeys(("flutter", "dart"), _Tool(test="test", build="build compile", lint="analyze format")),
    **dict.fromkeys(names_of("cmake R Rscript"), _Tool()),
    "tsc": _Tool(build=".", silent=True, idle="--init --showConfig --watch -w"),
    "vue-tsc": _Tool(build=".", silent=True),
    "webpack": _Tool(build=".", idle="serve"),
    "vite": _Tool(build="build"),
    "next": _Tool(build="build", lint="lint"),
    "rollup": _Tool(build="."),
    "docker-compose": replace(_CONTAINER, build="build"),
    **dict.fromkeys(("docker", "podman"), replace(_CONTAINER, build="build buildx")),
    # linters
    "golangci-lint": _Tool(lint="run fmt", idle="linters"),
    **dict.fromkeys(names_of("gofmt goimports gofumpt shellcheck eslint shfmt hadolint yamllint luacheck"), _SILENT),
    **dict.fromkeys(
        names_of(
            "staticcheck revive mypy pyright basedpyright flake8 pylint black isort prettier stylelint rubocop standardrb "
            "phpstan psalm ktlint detekt swiftlint clang-format clang-tidy actionlint markdownlint markdownlint-cli2 xo "
            "standard svelte-check oxlint pyflakes bandit codespell djlint sqlfluff tflint dprint knip "
            "php-cs-fixer pint rustfmt"
        ),
        _LINT,
    ),
    "ruff": _Tool(lint="check format ."),
    "biome": _Tool(lint="check lint format ci"),
    "pre-commit": _Tool(lint="run"),
    "terraform": _Tool(lint="validate fmt"),
    # tasks by name
    **dict.fromkeys(("make", "gmake"), _MAKE),
    "ninja": _Tool(build=".", tasks=".", several=True, check=True, valued="-C -f -j -k -l", idle="-n -t"),
    **dict.fromkeys(
        ("gradle", "gradlew"),
        _Tool(
            tasks=".",
            several=True,
            check=True,
            forms=("jvm",),
            idle="-m --dry-run -? -v tasks",
            valued="-x --exclude-task --tests -p --project-dir -b -c -I -g",
        ),
    ),
    "just": _Tool(
        tasks=".",
        check=True,
        valued="-f --justfile -d --working-directory --shell --dotenv-path",
        idle="-n --dry-run -l --list -s --show -V --summary --choose -e --edit",
    ),
    **dict.fromkeys(
        ("task", "go-task"),
        _Tool(
            tasks=".",
            several=True,
            check=True,
            valued="-d --dir -t --taskfile -o --output -C --concurrency",
            idle="-n --dry -l --list -a --list-all --summary --status",
        ),
    ),
    "mage": _Tool(tasks=".", several=True, check=True, valued="-d -w -t", idle="-l"),
    **dict.fromkeys(
        ("inv", "invoke"),
        _Tool(tasks=".", several=True, check=True, valued="-c -r -f --collection --search-root", idle="-l --list -R --dry -V"),
    ),
    "poe": _Tool(tasks=".", check=True, valued="-C --directory", idle="-d --dry-run"),
    "rake": _Tool(tasks=".", several=True, valued="-f --rakefile -I -r -C", idle="-n --dry-run -T --tasks -P -D -W -V"),
    "rails": _Tool(tasks=".", idle="-n"),
    "composer": _Tool(tasks="run run-script .", valued="-d --working-dir"),
    "turbo": _Tool(tasks="run .", several=True, check=True, valued="--filter -F --cwd", idle="--dry-run --dry"),
    "nx": _Tool(
        tasks="run run-many affected .",
        valued="-p --projects -c --configuration",
        idle="--graph",
        chosen="-t --target --targets",
    ),
    "lerna": _Tool(tasks="run", valued="--scope"),
    "ng": _Tool(tasks="."),
    "mise": _Tool(tasks="run r tasks .", runs="exec x", check=True, valued="-C --cd -E --env -j --jobs -o --output"),
    **dict.fromkeys(names_of("earthly dagger moon pants buck2 please plz wireit lage"), _Tool(tasks="run call .")),
    "npm": _Tool(tasks="run run-script rum urn", test="test t tst it install-test cit", runs="exec x", valued=_JS_VALUED),
    "pnpm": _Tool(tasks="run run-script .", test="test t tst it install-test", runs="exec dlx run .", valued=_JS_VALUED),
    "yarn": _Tool(tasks="run .", test="test", runs="exec dlx run .", valued=_JS_VALUED),
    "bun": _Tool(tasks="run .", test="test", build="build", runs="exec x run .", valued=_JS_VALUED, forms=("js",)),
    # what runs another command
    "sudo": _Tool(runs=".", valued="-u -g -h -p -C -D -r -t -T -U --user --group --host --prompt --chdir"),
    "doas": _Tool(runs=".", valued="-u -C"),
    "env": _Tool(runs=".", valued="-u -C --unset --chdir"),
    **dict.fromkeys(("timeout", "gtimeout"), _TIMEOUT),
    "time": _Tool(runs=".", valued="-f -o --format --output"),
    "nice": _Tool(runs=".", valued="-n --adjustment"),
    "ionice": _Tool(runs=".", valued="-c -n -t --class --classdata"),
    "taskset": _Tool(runs=".", places=1),
    "flock": _Tool(runs=".", valued="-w -E --timeout --wait", places=1),
    **dict.fromkeys(
        names_of("nohup setsid command builtin unbuffer caffeinate chronic dbus-run-session spring cross-env busybox noglob"),
        _PLAIN,
    ),
    "exec": _Tool(runs=".", valued="-a"),
    "stdbuf": _Tool(runs=".", valued="-i -o -e --input --output --error"),
    "xvfb-run": _Tool(runs=".", valued="-n -s -e -f -p -w --server-num --server-args --error-file --auth-file"),
    "uv": _Tool(runs="run", valued=_UV),
    "uvx": _Tool(runs=".", valued=_UV),
    "pipx": _Tool(runs="run", valued="--spec --python --pip-args"),
    "poetry": _Tool(runs="run", build="build", valued="-C -P --directory --project"),
    "pipenv": _Tool(runs="run", tasks="run", check=True, valued="--python --pypi-mirror"),
    "rye": _Tool(
        runs="run",
        tasks="run",
        check=True,
        test="test",
        lint="lint fmt",
        forms=_PYTHON,
        idle="--collect-only --co",
        valued="--pyproject -f",
    ),
    "pdm": _Tool(runs="run", tasks="run", check=True, valued="-p --project --venv"),
    "hatch": _Tool(
        runs="run",
        tasks="run",
        check=True,
        test="test",
        build="build",
        lint="fmt",
        forms=_PYTHON,
        idle="--collect-only --co -s --show",
        valued="-e --env -p --project --data-dir --cache-dir --config",
    ),
    "pixi": _Tool(runs="run", tasks="run", check=True, valued="-e --environment --manifest-path"),
    **dict.fromkeys(names_of("conda mamba micromamba"), _Tool(runs="run", valued="-n -p --name --prefix --cwd")),
    "bundle": _Tool(runs="exec"),
    "direnv": _Tool(runs="exec", places=1),
    "asdf": _Tool(runs="exec"),
    "dotenv": _Tool(runs="run .", valued="-e -f -v -p --file"),
    "dotenvx": _Tool(runs="run", valued="-f -e -fk"),
    "doppler": _Tool(runs="run", valued="-p -c --project --config"),
    "op": _Tool(runs="run", valued="--env-file"),
    "env-cmd": _Tool(runs=".", valued="-f -e -r --file"),
    **dict.fromkeys(names_of("npx bunx pnpx"), _NPX),
    "nyc": _COVER,
    "c8": _COVER,
    "coverage": _Tool(runs="run", valued="--source --omit --include --rcfile --data-file --context --concurrency"),
    "xargs": _Tool(
        runs=".",
        valued="-n -I -L -P -d -a -s -E --max-args --max-procs --delimiter --arg-file --max-lines --max-chars",
    ),
    "parallel": _Tool(runs=".", valued="-j --jobs -a --arg-file -d --delimiter -N"),
    "python": _Tool(runs=".", valued="-W -X --check-hash-based-pycs -m"),
    "php": _Tool(runs=".", valued="-d -c"),
    "ruby": _Tool(runs=".", valued="-I -r -C"),
    **dict.fromkeys(
        ("node", "tsx"), _Tool(runs=".", valued="-r --require --import --loader --experimental-loader -C --conditions")
    ),
}
_MODULES = names_of(
    "pytest tox nox coverage nose2 behave mypy ruff black flake8 isort pylint pyright pre_commit build compileall unittest"
    " unittest.main django bandit"
)
_MODULAR = ("python", "coverage", "uv")  # that run a module
_FILES = frozenset(("node", "tsx", "php", "python", "ruby"))  # that run a file
_JS = frozenset(("npm", "pnpm", "yarn", "bun"))
_FETCHING = _JS | names_of("npx bunx pnpx uvx pipx uv go")  # what may name a version
_LISTING = names_of("gofmt goimports gofumpt")
_SHELLS = names_of("sh bash zsh dash ksh fish ash pwsh powershell")
_SCRIPTING = _SHELLS | names_of("eval cmd script")
_RULES: dict[str, tuple[tuple[str, Kind | Literal[""], tuple[str, ...]], ...]] = {
    # what a line of a program that begins so does; the words that match say so. Empty: none of it
    "go": ((r"go .*-list(?:=|\Z| )", "", ()), (r"go test(?= .*-c(?: |\Z))", "build", ())),
    "cmake": (
        (r"cmake (?=.*--build).*--target (?:test|check)(?: .*|\Z)", "test", ANY),
        (r"cmake (?=.*--build).*", "build", ()),
    ),
    **dict.fromkeys(("R", "Rscript"), ((r".*\b(?:test(?:_\w+|that)?|check)\b.*", "test", ("counted",)),)),
    **dict.fromkeys(("node", "tsx"), ((r"\w+ --test(?:=\S+)?(?!\S)", "test", ("tap", "js")),)),
    "ruby": ((r"ruby(?= (?:\S*/)?(?:test_\w+|\w+_test)\.rb(?: |\Z))", "test", ("counted",)),),
    "python": (
        (r"python -m unittest(?:\.main)?(?!\S)(?!.* -h(?: |\Z))", "test", _PYTHON),
        (r"python -m (?:build|compileall)(?!\S)", "build", ()),
        (r"python -m django test(?!\S)", "test", _PYTHON),
        (r"python (?:\S*/)?(?:manage|setup)\.py test(?!\S)", "test", _PYTHON),
    ),
}
_KINDS: tuple[Kind, ...] = ("test", "build", "lint")
_FIXES = names_of("-w --write --fix fmt format fix")
_HELP = names_of("-h --help --version")

_TEST_WORDS = names_of(
    "test tests testing unittest unittests spec specs e2e unit units pytest jest vitest mocha playwright cypress "
    "testall testacc"
)
_LINT_WORDS = names_of(
    "lint linting lints format fmt types typing typecheck mypy pyright flake8 ruff black isort eslint prettier style vet tsc "
    "clippy biome golangci precommit spotless checkstyle detekt ktlint"
)
_BUILD_WORDS = names_of("build compile dist bundle assemble classes")
_OTHER_WORDS = names_of(
    "doc docs release clean deps dep dependencies package publish install setup prepare results result report "
    "reports image images fixtures data db env up down server list help init generate gen commit "
    "security audit spelling spell links license licenses code type"
)
HARMLESS = names_of(  # options that change nothing of what is checked, nor how
    "-v -vv -vvv -q -qq -s -x -l -ra -rA -race -count -json -cover -coverprofile -covermode -coverpkg -timeout "
    "-parallel -failfast -o -j -n -w --verbose --quiet --ci --silent --exitfirst --color --colour --no-color --tb "
    "--maxfail --lf --last-failed --ff --failed-first --no-header --nocapture --runInBand --bail --coverage "
    "--no-coverage --cov --cov-report --no-cov --durations --output-on-failure --no-fail-fast --fail-fast --reporter "
    "--reporters --parallel --max-workers --maxWorkers --timeout --info --stacktrace --console --no-daemon "
    "--rerun-tasks --fix --continue --jobs --watch"
)
WIDE = names_of("--workspace --all --recursive -r --all-targets --all-files")  # that take more in
NARROW = names_of(  # that leave something out
    "-run -skip -short -k -m -t -g -e -R -L -p --grep --filter --tests --test --package --testNamePattern "
    "--testPathPattern --only --deselect --ignore --project --session --example --lib --bins --doc -Dtest "
    "--onlyChanged --changed --new-from-rev --tag"
)
NAMED = names_of("-run -k -t --grep --filter --testNamePattern")  # that take what has a text in its name
VALUED = names_of(  # after which a value comes as a word of its own
    "-run -skip -k -m -t -g -e -R -L -p -o -n -j -w -count -timeout -parallel -tags -coverprofile --grep --filter "
    "--tests --test --package --testNamePattern --testPathPattern --tb --maxfail --reporter --timeout --project "
    "--session --example --tag --config -c --jobs"
)
_CHECK_WORDS = names_of("check checks verify")
_WORDS = _TEST_WORDS | _LINT_WORDS | _BUILD_WORDS
_HINTS = (
    _WORDS
    | _MODULES
    | names_of("cmake check verify manage.py setup.py --test t")
    | {n for n in _TOOLS if _TOOLS[n].runs != "."}
)
_SCRIPTS = r"(?i)(?:test|spec|lint|build|unit|e2e|fmt|format|check)\w*\.(?:sh|bash|py|rb|[cm]?[jt]s)\b"


def hinted(command: str) -> bool:
    """Whether a command line may check something: it has a word that one does."""
    return not _HINTS.isdisjoint(re.split(r"[\s;&|()'\"`<>$=@:/\\]+", command)) or re.search(_SCRIPTS, command) is not None


def _parts(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()))


def _base(word: str) -> str:
    """A program's name without its folder and its ending, and ``python`` for every version of it."""
    name = re.sub(r"\.(?:exe|cmd|bat)\Z", "", re.split(r"[/\\]", word.rstrip("/\\"))[-1])
    return "python" if re.fullmatch(r"(?:python|pypy)[\d.]*|py", name) else name


def _operands(words: Sequence[str], valued: str, at: int = 1) -> list[int]:
    """Return the places of the words that are neither options nor values of some."""
    takes, found, places = valued.split(), list[int](), iter(range(at, len(words)))
    for place in places:
        word = words[place]
        if word[:1] != "-" or word == "-":
            found.append(place)
        elif word == "--":
            return [*found, *places]
        elif word in takes:
            next(places, None)
    return found


def _kind_of(name: str, *, check: bool) -> Kind | Literal["other", ""]:
    """Return what a task of that name does: tests, builds, lints, or something other that is known. ``check``: one that is
    called check tests."""
    parts = _parts(name)
    if parts & _OTHER_WORDS and not parts & _LINT_WORDS:
        return "other"
    checks: Kind = "test" if check else "lint"
    known: dict[Kind, frozenset[str]] = {"lint": _LINT_WORDS, "build": _BUILD_WORDS, "test": _TEST_WORDS}
    known["build"] |= names_of("all") & {name}
    return next((kind for kind, words in known.items() if parts & words), checks if parts & _CHECK_WORDS else "")


def check_in(words: tuple[str, ...], own: Sequence[tuple[str, ...]]) -> Check | Script | None:
    """Return the check in a command, after all that is looked through; None where it checks nothing."""
    masked = False
    for _ in range(DEPTH):
        words = unassigned(words)
        if not words:
            return None
        name, mine = _base(words[0]), any(words[: len(one)] == one for one in own)
        if name in ("docker", "podman") and words[1:2] == ("compose",) and not mine:
            words, name = ("docker-compose", *words[2:]), "docker-compose"
        tool, found = _TOOLS.get(name), None
        words = _unoptioned(tool, words) if tool is not None and name == "python" and not mine else words
        if not _HELP & set(words[1:]):
            found = _check(name, tool, words)
            if mine and not (isinstance(found, Check) and found.kind == "test" and not found.guessed):
                found = Check(kind="test", words=words, head=len(words), forms=ANY)
        if found is not None:
            return replace(found, masked=found.masked or masked)
        masked = masked or name == "xargs"
        words = _through(name, tool, words) if tool is not None and tool.runs else ()
    return None


def _unoptioned(tool: _Tool, words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a program that runs a file or a module, from that on; with ``--test`` before it from there."""
    words = tuple(part for word in words for part in ((word[:2], word[2:]) if re.match(r"-m\w", word) else (word,)))
    first = next(iter(_operands(words, tool.valued)), len(words))
    return (_base(words[0]), *words[next((i for i in range(1, first) if re.match(r"-m\Z|--test\b", words[i])), first) :])


def _script(name: str, words: Sequence[str]) -> Script | Check | None:
    """The command line that a shell, ``eval`` or ``script`` is given; or the file, where its name says what it does."""
    if name in ("eval", "cmd"):
        return Script(text=" ".join(word for word in words[1:] if word.lower() != "/c"), options=())
    end = next(iter(_operands(words, "-o -O -eo -euo -uo")), 0)
    options = words[1:end]
    given = "".join(option for option in options if option[:2] != "--")
    if end and ("c" in given or {"--command", "-Command"} & set(options)):
        own = name != "script"
        return Script(text=words[end], options=tuple(options) if own else (), masked=not own and "e" not in given)
    return _file(words, end) if end and name in _SHELLS and "n" not in given else None


def _through(name: str, tool: _Tool, words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of the command that a wrapper runs; none where it runs none."""
    if name == "command" and words[1:2] in (("-v",), ("-V",)):
        return ()
    if name == "uv" and "tool" in words[1:3]:
        return _through("pipx", _TOOLS["pipx"], words[words.index("tool") :])
    places = _after(name, words, tool.valued)
    at = places[0] if places else len(words)
    if places and words[at] in tool.runs.split() and words[at] != ".":
        places = _operands(words, tool.valued, at + 1)
    elif "." not in tool.runs.split():
        return ()
    at = places[0] if places else len(words)
    for option in range(1, at) if name in _MODULAR else ():
        if words[option] in ("-m", "--module"):
            inner = ("python", "-m", *words[option + 1 :])
            named = (inner[2].replace("_", "-"), *inner[3:]) if set(inner[2:3]) & _MODULES else ()
            return inner if name != "python" else named
    if name == "mise" and "--" in words:
        at = words.index("--") + 1
    inner = words[at + tool.places :]
    if not inner:
        return ()
    first = inner[0]
    if name in _FETCHING and "@" in first[1:]:
        first = _base(first[: first.index("@", 1)])
    if name in _FILES or name == "go":
        first = re.sub(r"\.[cm]?js$", "", _base(first))
        return (first, *inner[1:]) if first in _TOOLS else ()
    return (first.rpartition(":")[2] if name == "hatch" else first, *inner[1:])


def started(words: Sequence[str]) -> tuple[str, ...]:
    """The words of the command that another one starts (``sudo``, ``timeout 5``, ``npx``, ``uv run``); none where it starts
    none. What a package manager runs by a name alone is its own, or a script."""
    name = _base(words[0])
    tool = _TOOLS.get(name)
    if tool is None or not tool.runs:
        return ()
    return _through(name, replace(tool, runs=tool.runs.removesuffix(" .")), tuple(words))


def _after(name: str, words: Sequence[str], valued: str) -> list[int]:
    """Return the places of the operands of a command; of a package manager those after its workspaces."""
    places = _operands(words, valued)
    while name in _JS and places and words[places[0]] in ("workspace", "workspaces", "foreach", "recursive", "multi"):
        places = places[2 if words[places[0]] == "workspace" else 1 :]
    return places


def _file(words: Sequence[str], at: int) -> Check | None:
    """A script that is called by its path, where its name or its first word says what it does."""
    if not re.match(r"(?!/(?:s?bin|usr|opt)/)(?=.*[/.])[\w./~${}-]+\Z", words[at]):
        return None
    for end, word in enumerate((re.sub(r"\.\w{1,4}\Z", "", _base(words[at])), *words[at + 1 : at + 2]), at + 1):
        if _parts(word) & _WORDS and (end == at + 1 or re.fullmatch(r"[a-z][\w:-]*", word)):
            kind = _kind_of(word, check=True)
            guessed = kind == "test"
            return _made(kind, tuple(words), end, guessed=guessed) if kind != "other" and kind else None
    return None


def _made(kind: Kind, words: tuple[str, ...], head: int, forms: tuple[str, ...] = ANY, **more: bool) -> Check:
    return Check(kind=kind, words=words, head=head, forms=forms if kind == "test" else (kind,), **more)


def _check(name: str, tool: _Tool | None, words: tuple[str, ...]) -> Check | Script | None:
    """Return what these words check by themselves."""
    if tool is None:
        return _script(name, words) if name in _SCRIPTING else _file(words, 0)
    words = (name, *words[1:])
    own = words[: words.index("--")] if "--" in words else words
    if any(word in tool.idle.split() for word in own[1:]):
        return None
    bare = _unoptioned(tool, words) if name in _FILES else words
    line = " ".join(word.replace(" ", "\0") for word in bare)
    for pattern, kind, forms in _RULES.get(name, ()):
        if begins := re.match(pattern, line):
            return _made(kind, words, begins[0].count(" ") + 1, forms, silent=tool.silent) if kind else None
    if name in _FILES:
        known = "." not in "".join(bare[1:2]) or re.sub(r"\.[cm]?js$", "", _base(bare[1])) in _TOOLS
        return None if known else _file(words, len(words) - len(bare) + 1)
    kind, head = _does(name, tool, words, own)
    if kind == "test" and "jvm" in tool.forms and set(own) & _UNTESTED:
        kind = "build" if name[:2] != "mv" or "verify" in own else ""
    if not kind:
        return None
    fixing = kind == "lint" and bool(_FIXES & {*own[1:], *_parts(words[head - 1])}) and "--check" not in own
    forms = ANY if name == "bun" and head > 2 else tool.forms
    found = _made(kind, words, head, forms, fixing=fixing, silent=tool.silent and kind != "test")
    found = replace(found, forms=()) if fixing else found
    return replace(found, listing=name in _LISTING and bool({"-l", "-d"} & set(own)))


def _does(name: str, tool: _Tool, words: Sequence[str], own: Sequence[str]) -> tuple[Kind | Literal[""], int]:
    """Return what the words of a program ask for, a test before all else, and where they end that say so."""
    places, options, after = _after(name, words, tool.valued), tool.chosen.split(), tool.tasks.split()
    chosen = [at + 1 for at, word in enumerate(words[:-1]) if word in options]
    chosen += [at for at, word in enumerate(words) if "=" in word and word.partition("=")[0] in options]
    by = next((words[at] for at in places[:1] if words[at] in after and words[at] != "."), ".")
    named = [at for at in places[by != "." :] if "=" not in words[at]] if by in after else []
    found = list[tuple[Kind, int]]()
    for at in chosen if after and chosen and by in after else named if tool.several else named[:1]:
        task = words[at].rpartition("=")[2]
        task = task.rpartition(":")[2] if name in ("nx", "hatch") else task
        if not re.search(r"[/\\.]\w", task) and not (by in tool.runs.split() and task in _TOOLS):
            does = _kind_of(task, check=tool.check)
            found += [(does, at + 1)] if does and does != "other" else []
    if found:
        return min(found, key=lambda one: _KINDS.index(one[0]))
    places = [at for at in places if words[at][:1] != "+"]
    names = [name for at in chosen for name in re.split(r"[,\s]+", words[at].rpartition("=")[2])]
    kinds = [_kind_of(one, check=True) for one in names]
    for kind in _KINDS:
        needs = {"test": tool.test, "build": tool.build, "lint": tool.lint}[kind].split()
        among = [at for at in places if at < len(own)] if tool.anywhere else places[:1]
        head = next((at + 1 for at in among if words[at] in needs and words[at] != "."), 0)
        if head or ("." in needs and not named):
            other = kind == "test" and kinds and not {"test", ""} & set(kinds)  # of what is chosen nothing may be a test
            return next((one for one in kinds if one != "other" and one), "") if other else kind, head or 1
    return "", 0


_SECRET = r"(?i)(?:token|passw(?:or)?d|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key|credential|auth(?![a-z]))"


def shown(words: Sequence[str]) -> str:
    """A command on one line, values that look secret left out, quoted so that a shell would read the same words."""
    shown: list[str] = []
    length, hidden = 0, False
    for word in words[:MAX_COMMAND]:
        word = word[: 4 * MAX_COMMAND]
        text = " ".join((word if word.isprintable() else "".join(c if c.isprintable() else " " for c in word)).split())
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


def _without_secrets(text: str) -> str:
    name, sign, _ = text.partition("=")
    if sign and re.search(_SECRET, name):
        return f"{name}=..."
    text = re.sub(r"://[^/\s@]+@", "://...@", text)
    return re.sub(r"[A-Za-z0-9]{20,}", lambda match: "..." if _looks_random(match[0]) else match[0], text)


def _looks_random(text: str) -> bool:
    """Whether letters and digits of a text change so often, and are so many, that they were not chosen."""
    changes = sum(a.isdigit() != b.isdigit() for a, b in pairwise(text))
    return changes >= 4 and len(set(text)) >= 8


def _quoted(text: str) -> str:
    if text and re.fullmatch(r"(?:[\w@%+=:,./~^*?-]|\$\w)+", text, re.ASCII) and not text.startswith("~"):
        return text
    return "'" + text.replace("'", "'\\''") + "'"
