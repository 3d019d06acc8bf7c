"""Test commands: which command runs tests, through which wrappers, and how it is shown. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from gitbaton.agents.shell import DEPTH, names_of, unassigned
from gitbaton.agents.testoutput import ANY
from gitbaton.values import replace, value

MAX_COMMAND = 200


@value
class TestCommand:
    """A command that runs tests: its own words, and the forms that its summary may have. ``masked``: its status is not told by
    the command that runs it."""

    words: tuple[str, ...]
    forms: tuple[str, ...]
    masked: bool = False


HINTS = (
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
class Script:
    """Another command line in a command. ``here``: read by this shell; ``masked``: its status is not told."""

    text: str
    options: tuple[str, ...]
    here: bool = False
    masked: bool = False


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
    **dict.fromkeys(("trial", "behave"), _Program(forms=ANY, idle="--help-reporters -d --dry-run")),
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
    "ava": _Program(forms=ANY),
    "karma": _Program(forms=ANY, needs="start run"),
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
        ("sbt", "stack", "cabal", "dune", "flutter", "dart", "lein"), _Program(forms=ANY, needs="test", idle="--no-run-tests")
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
_TEST_WORDS = names_of(
    "test tests testing unittest unittests spec specs e2e unit units pytest jest vitest mocha playwright cypress "
    "testall testacc"
)
_OTHER_WORDS = names_of(
    "lint format fmt fix doc docs type types typing typecheck mypy pyright flake8 ruff black isort eslint prettier "
    "style build release clean deps dep dependencies package publish install setup prepare results result report "
    "reports image images fixtures data db env up down server watch list help init generate gen commit precommit "
    "security audit spelling spell links license licenses coverage-report code format-check"
)
_GRADLE_IDLE = names_of("-m --dry-run -h --help -? --version -v tasks")
_JS = frozenset(("npm", "pnpm", "yarn", "bun"))
_JS_VALUED = names_of(
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


def test_of(words: tuple[str, ...], own: Sequence[tuple[str, ...]]) -> TestCommand | Script | None:
    """The test that a command runs, after all that is looked through; None where it runs none."""
    masked = False
    for _ in range(DEPTH):
        words = unassigned(words)
        if not words:
            return None
        test = _test(words)
        told = any(word in ("--help", "--version") for word in words)
        if test is None and not told and any(words[: len(mine)] == mine for mine in own):
            test = TestCommand(words=words, forms=ANY)
        if test is not None:
            return replace(test, masked=masked)
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


def _script(name: str, words: Sequence[str]) -> Script | None:
    """The command line that a shell, ``eval`` or ``script`` is given."""
    if name == "eval":
        return Script(text=" ".join(words[1:]), options=(), here=True)
    for at, word in enumerate(words[1:], 1):
        if name == "script" and word.startswith("--command="):
            return Script(text=word.partition("=")[2], options=(), masked="--return" not in words)
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
            return Script(text=words[end], options=() if name == "script" else options, masked=masked)
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


def _test(words: Sequence[str]) -> TestCommand | None:
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
            TestCommand(words=(name, *arguments), forms=("tap", "node"))
            if any(w.partition("=")[0] == "--test" for w in options)
            else None
        )
    if name == "ruby":
        at = _options_end(words, _WRAPPERS["ruby"].valued.split())
        file = _base(words[at]) if at < len(words) else ""
        return (
            TestCommand(words=(name, *arguments), forms=("minitest",))
            if re.fullmatch(r"(?:test_\w+|\w+_test)\.rb", file)
            else None
        )
    if name == "cmake" and "--build" in words and "--target" in words[:-1]:
        target = words[list(words).index("--target") + 1]
        return TestCommand(words=(name, *arguments), forms=ANY) if target in ("test", "check") else None
    if name == "deno" and arguments[:1] == ["task"]:
        return TestCommand(words=(name, *arguments), forms=ANY) if _is_task(arguments[1:2], check=False) else None
    program = _PROGRAMS.get(name)
    if program and _runs(program, words):
        return TestCommand(words=(name, *arguments), forms=program.forms)
    wrapper = _WRAPPERS.get(name)
    if wrapper and wrapper.scripts:
        at = _options_end(words, wrapper.valued.split())
        if words[at : at + 1] == ("run",):
            at = _options_end(words, wrapper.valued.split(), at + 1)
            task = words[at] if at < len(words) and _base(words[at].rpartition(":")[2]) not in _PROGRAMS else ""
            return TestCommand(words=(name, "run", *words[at:]), forms=ANY) if _is_task((task,), check=True) else None
    tasks = _TASKS.get(name)
    return TestCommand(words=(name, *arguments), forms=ANY) if tasks and _names_task(tasks, words) else None


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


def _js_test(name: str, words: Sequence[str]) -> TestCommand | None:
    at = _js_at(words)
    word = words[at] if at < len(words) else ""
    if "-h" in words:
        return None
    if name == "bun" and word == "test":
        return TestCommand(words=(name, *words[1:]), forms=("bun",))
    if word in ("test", "t", "tst", "it", "install-test", "cit") and (word == "test" or name in ("npm", "pnpm")):
        return TestCommand(words=(name, *words[1:]), forms=ANY)
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
    return TestCommand(words=(name, *words[1:]), forms=ANY)


def _python_test(words: Sequence[str]) -> TestCommand | None:
    at = _options_end(words, (*_WRAPPERS["python"].valued.split(), "-m"))
    module = next((words[i + 1] for i in range(1, min(at, len(words) - 1)) if words[i] == "-m"), "")
    if not module and "-munittest" in words[1:at]:
        module = "unittest"
    if module in ("unittest", "unittest.main"):
        rest = words[list(words).index(module) + 1 :] if module in words else words[at:]
        return None if "-h" in rest else TestCommand(words=("python", "-m", "unittest", *rest), forms=("unittest",))
    if module == "django":
        at = list(words).index("django")
    elif module:
        return None
    script = words[at] if at < len(words) else ""
    if (module == "django" or _base(script) in ("manage.py", "setup.py")) and words[at + 1 : at + 2] == ("test",):
        head = ("python", "-m", "django") if module else ("python", script)
        return TestCommand(words=(*head, *words[at + 1 :]), forms=("unittest", "pytest"))
    return None


def _gradle_test(name: str, arguments: Sequence[str]) -> TestCommand | None:
    if any(word in _GRADLE_IDLE for word in arguments):
        return None
    valued = ("-x", "--exclude-task", "--tests", "-p", "--project-dir", "-b", "-c", "-I", "-g")
    for i, word in enumerate(arguments):
        if (i == 0 or arguments[i - 1] not in valued) and re.fullmatch(
            r"(?:[\w.:-]*:)?(?:test|check|(?!compile)\w+Tests?|allTests|test(?!Classes$)[A-Z]\w*|connected(?:\w+Test|Check))",
            word,
        ):
            return TestCommand(words=(name, *arguments), forms=("gradle",))
    return None


_SECRET = r"(?i)(?:token|passw(?:or)?d|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key|credential|auth(?![a-z]))"


def shown(words: Sequence[str]) -> str:
    """A command on one line, values that look secret left out, quoted so that a shell would read the same words."""
    shown: list[str] = []
    length, hidden = 0, False
    for word in words[:MAX_COMMAND]:
        text = " ".join("".join(c if c.isprintable() else " " for c in word[: 4 * MAX_COMMAND]).split())
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
    """Whether letters and digits change so often, and are so many, that nobody chose them."""
    changes = sum(a.isdigit() != b.isdigit() for a, b in pairwise(text))
    return changes >= 4 and len(set(text)) >= 8


def _quoted(text: str) -> str:
    if text and re.fullmatch(r"[\w@%+=:,./~^-]+", text, re.ASCII) and not text.startswith("~"):
        return text
    return "'" + text.replace("'", "'\\''") + "'"
