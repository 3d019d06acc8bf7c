"""Scope of a test run: what leaves tests out, runs elsewhere, or could have told another program's end for its own. No I/O.

What is not known to be harmless counts as a doubt: a run in doubt proves nothing, and a test that is run again costs little.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gitbaton.agents.shell import Segment, UnreadableError, names_of, segments
from gitbaton.agents.testcommands import Check, check_in, hinted
from gitbaton.agents.testoutput import ANY, summary, window
from gitbaton.agents.turns import actions
from gitbaton.base.values import value


@value
class _Scope:
    """The options of a program that leave no test out: ``flags`` alone, ``valued`` with a value; ``rest``: operands that mean
    all. ``needs``: the operand without which it is not all. ``built``: it runs what was built before."""

    flags: str = ""
    valued: str = ""
    rest: str = r"\.|\./"
    needs: str = ""
    built: bool = False


_JS = r"--(?:ci|coverage|verbose|silent|runInBand|no-?colors?|colors?|watch(?:All)?=false|no-watch|run|forceExit|no-cache)|-i"
_JEST = _JS + (
    r"|--(?:coverage.*|maxWorkers=.+|reporters=.+|no-coverage|cache|bail(?:=\d+)?|detectOpenHandles|expand|logHeapUsage|json"
    r"|errorOnDeprecated|testTimeout=.+|passWithNoTests|useStderr|workerThreads)|-[be]"
)
_VITEST = _JS + r"|--(?:coverage.*|reporter=.+|pool=.+|(?:max|min)Workers=.+|bail=\d+|logHeapUsage|retry=\d+|passWithNoTests)"
_MAVEN = (
    r"-B|-e|-X|-U|-o|-V|-T\S+|-ntp|-ff|-fae|-C|-am|--(?:batch-mode|errors|debug|offline|no-transfer-progress|fail-fast|fail-at-end"
    r"|show-version|update-snapshots|strict-checksums)"
    r"|-D(?:style\.color|surefire\.useFile|org\.slf4j\S*|maven\.repo\.local|trimStackTrace|java\.awt\.headless)(?:=.*)?"
)
_TASK = r"(?:clean|c?lean[A-Z]?\w*|assemble|build|install|compile|package|test|tests|check|spec|verify|allTests|ci)"
_ASKS = r"run|run-script|rum|urn|r|tasks?|nextest|\+[\w.-]+"  # words before a task, or a toolchain
_ALL_TASK = r"(?:test|tests|check|spec|specs|ci|verify|all[-_:]?tests?|tests?[-_:](?:all|ci)|allTests|build|install|package)\Z"
_CALM = r"-v|--verbose|-q|--quiet|--ci|--(?:no-)?colou?rs?(?:=\w+)?"
_SCOPES = {
    "pytest": _Scope(
        flags=r"-[vqsxlb]+|-r[a-zA-Z]*|-n\S+|-W\S+|--(?:verbose|quiet|exitfirst|strict(?:-\w+)?|no-header|no-summary|showlocals"
        r"|ff|failed-first|nf|new-first|cache-clear|full-trace|disable-(?:pytest-)?warnings|no-cov(?:-on-fail)?|color=\w+|tb=\w+"
        r"|cov(?:-[\w-]+)?(?:=.*)?|durations(?:-min)?=.+|junit-?xml=.+|maxfail=\d+|dist=\w+|timeout(?:-method)?=.+|capture=\w+"
        r"|import-mode=\w+|log-[\w-]+=.+|show-capture=\w+|verbosity=\d|numprocesses=\w+|randomly-seed=\w+|html=.+)|-p(?:no:(?!python)\S+)",
        valued="-n -W --tb --color --durations --maxfail --cov --cov-report --dist --timeout --junitxml --junit-xml --capture",
    ),
    "python": _Scope(  # -m unittest
        flags=r"-[vqbfc]+|--(?:verbose|quiet|buffer|failfast|catch|locals|durations=\d+)|-[st]\.",
        valued="--durations",
        rest=r"\.|discover",
    ),
    "tox": _Scope(
        flags=r"-[qvr]+|-p(?:auto|all|\d+)?|--(?:recreate|parallel(?:=\w+)?|quiet|verbose)", rest="run|r|p|run-parallel|auto"
    ),
    "nox": _Scope(flags=r"-[rvR]+|--(?:reuse-existing-virtualenvs|verbose|no-color|error-on-missing-interpreters)"),
    "jest": _Scope(flags=_JEST, valued="--maxWorkers -w --reporters --testTimeout --coverageDirectory --coverageReporters"),
    "vitest": _Scope(flags=_VITEST, valued="--reporter --pool --maxWorkers --minWorkers --bail --retry", rest=r"run|\."),
    "mocha": _Scope(
        flags=r"-[bcpC]+|-R\S+|--(?:exit|parallel|bail|recursive|check-leaks|full-trace|forbid-only|forbid-pending|no-?colors?|colors?"
        r"|reporter=.+|timeout=.+|jobs=.+|require=.+|slow=.+|retries=\d+)",
        valued="-R --reporter -t --timeout -j --jobs -r --require -s --slow --retries",
        rest=r"(?!)",
    ),
    "go": _Scope(
        flags=r"-(?:v|race|cover|failfast|trimpath|benchmem|a|x|work)|-(?:coverprofile|covermode|coverpkg|count|timeout|parallel|p|cpu"
        r"|shuffle|vet|mod|json)(?:=.*)?",
        valued="-coverprofile -covermode -coverpkg -count -timeout -parallel -p -cpu -shuffle",
        rest=r"\./\.\.\.",
        needs="./...",
    ),
    "gotestsum": _Scope(
        flags=r"--(?:format|junitfile|jsonfile|packages)=.+|-race|-count=\d+|-v",
        valued="--format -f --junitfile --jsonfile",
        rest=r"\./\.\.\.",
    ),
    "cargo": _Scope(
        flags=r"-[rvq]+|-j\S+|--(?:release|locked|offline|frozen|verbose|quiet|no-fail-fast|workspace|all|all-features|all-targets"
        r"|nocapture|no-capture|show-output|test-threads=\d+|color=\w+|message-format=.+|jobs=\d+|profile=\w+)",
        valued="-j --jobs --color --profile --message-format --test-threads",
        rest=r"(?!)",
    ),
    "rspec": _Scope(
        flags=r"-[bwcp]+|-f\S+|--(?:colou?r|force-colou?r|no-colou?r|fail-fast|backtrace|warnings|profile|format=.+|order=.+|seed=.+)",
        valued="-f --format --order --seed -r --require -o --out",
        rest=r"spec/?|\.",
    ),
    "phpunit": _Scope(
        flags=r"-[vpd]+|--(?:testdox|colors(?:=\w+)?|no-progress|no-coverage|coverage-[\w-]+(?:=.+)?|stop-on-[\w-]+|verbose|debug|parallel"
        r"|display-[\w-]+|fail-on-[\w-]+|do-not-cache-result|cache-result|compact|ci|no-interaction|log-junit=.+|order-by=.+|strict-\w+)",
        valued="--log-junit --coverage-html --coverage-clover --coverage-text --order-by --processes",
        rest=r"(?!)",
    ),
    "mvn": _Scope(
        flags=_MAVEN, valued="-T --threads", rest="clean|test|verify|integration-test|package|install|compile|test-compile"
    ),
    "gradle": _Scope(
        flags=r"-[is]|--(?:info|stacktrace|full-stacktrace|no-daemon|daemon|rerun-tasks|continue|parallel|offline|scan|no-scan"
        r"|build-cache|no-build-cache|no-parallel|console=\w+|warning-mode=\w+|no-configuration-cache|configuration-cache)",
        valued="--console --warning-mode",
        rest=rf":?{_TASK}",
    ),
    "dotnet": _Scope(
        flags=r"--(?:no-build|no-restore|nologo|blame|tl:\w+|configuration=.+|verbosity=.+|logger=.+|collect=.+)|-[vcl]=.+|/?-?-?nologo"
        r"|[-/]v(?:erbosity)?:\w+|--(?:logger|collect):.+",
        valued="-c --configuration -v --verbosity -l --logger --collect --results-directory",
        rest=r"\.|[\w.-]+\.slnx?",
    ),
    "ctest": _Scope(
        flags=r"-V{1,2}|-j\d*|--(?:output-on-failure|verbose|extra-verbose|progress|stop-on-failure|schedule-random|parallel(?:=\d+)?"
        r"|no-tests=\w+|test-dir=.+|timeout=.+|no-compress-output|output-junit=.+)",
        valued="--test-dir -j --parallel -C --build-config --timeout --output-junit",
        rest=r"(?!)",
        built=True,
    ),
    "npm": _Scope(
        flags=rf"{_JEST}|-s|-ws|-r|--(?:workspaces|recursive|loglevel=\w+|reporter=.+|exit|run|if-present)",
        valued="--reporter --loglevel",
        rest=r"(?!)",
    ),
    "make": _Scope(
        flags=r"-[skB]+|-j\d*|--(?:silent|jobs=\d+|no-print-directory|keep-going|always-make)",
        valued="-j --jobs",
        rest=rf"{_TASK}|V=\d|VERBOSE=\d",
    ),
}
_ALIKE = {
    **dict.fromkeys(("py.test",), "pytest"),
    **dict.fromkeys(("mvnw", "mvnd"), "mvn"),
    **dict.fromkeys(("gradlew",), "gradle"),
    **dict.fromkeys(names_of("pest paratest simple-phpunit artisan"), "phpunit"),
    **dict.fromkeys(names_of("pnpm yarn bun"), "npm"),
    **dict.fromkeys(names_of("gmake ninja just task go-task mage rake"), "make"),
}
_NAMED_TASKS = names_of(
    "npm pnpm yarn bun make gmake ninja just task go-task mage rake poe inv invoke composer nx turbo mise deno"
)
_PATHS = (
    r"(?:\S*/)?(?:\.?bin|Scripts)/[^/]+\Z|(?:\./|[A-Z]:)?(?:gradlew|mvnw|pants)\Z|\./(?:rails|artisan)\Z"
    r"|\S*/(?:python|php|ruby|node)[\d.]*\Z"
)
_ELSEWHERE = names_of(
    "docker podman docker-compose ssh vagrant kubectl oc nerdctl xargs parallel chroot unshare wsl uvx pipx earthly sudo doas"
)
_AWAY = r"(?:-C|-D|-rp|--(?:directory|cwd|chdir|prefix|project|working-directory|dir|rootdir|manifest-path|package))(?:=|\Z)"
_TELLING = (  # variables that may choose tests, or put another program in their place
    r"(?:PATH|SHELL|BASH_ENV|LD_\w+|DYLD_\w+|IFS|SPEC|TESTS?|\w*(?:FLAGS|OPTS|OPTIONS|ARGS|FILTERS?|ONLY|SKIP|PATTERN|SHARD)\w*"
    r"|PYTHONSTARTUP|PYTHONHOME|RUBYOPT|PERL5OPT|MAKE\w*|\w+_TESTS?|CI_NODE_\w+)\Z"
)
_SET = r"(?:\A|\s)([A-Za-z_]\w*)\+?="
_CALM_NAMES = names_of("cd pushd true : pwd date sleep mkdir which type hash wait clear ulimit umask time nproc")
_PREPARING = names_of(
    "npm pnpm yarn pip pip3 uv poetry pdm bundle composer cargo dotnet go cmake corepack nvm rustup mvn gradle gradlew"
)
_STILL = names_of("add commit push fetch status diff log show branch tag rev-parse describe config")
_ACTIVATES = r"(?:source|\.)\s+\S*(?:/bin/activate|/nvm\.sh|/\.cargo/env|/\.?asdf\.sh)\Z"
_REDEFINED = r"[\w-]+\s*\(\)|(?:\A|[\s;&|(])(?:alias|unalias|function|eval|trap|enable|builtin|hash\s+-p|BASH_FUNC)\b"
_SHOWN = names_of("tee cat tail ts ansi2txt")  # filters that leave a summary whole
_OTHERS = r"(?m)^\s*(?:[>$%#+]+ *)?@?(?:echo|printf|cat)\s+(.*)$"
_SCRIPT = r"(?m)^(?:> |\$ )(?!\S+@\S+ )(?!Task :)(\S.*)$"  # a line with which a package manager shows what it runs
_RECIPES = 60  # lines of an output among which make and its like show what they run
_LEFT_OUT = (
    r"(?m)\b[1-9]\d* (?:deselected|filtered out)\b|^Ran all test suites (?:matching|related|with tests)"
    r"|^Run options: (?:in|ex)clude"
    r"|^Note: Google Test filter = (?!\*$)|^run-last-failure:|^\(\d+ tests? skipped by filter\)|Reusing configuration.*--tests"
)


def doubt_of_line(text: str) -> str:
    """Say what makes it doubtful that the programs of a line are those that their names say; empty where nothing does."""
    return "the line gives commands another meaning" if re.search(_REDEFINED, text) else ""


def doubt_of_place(parts: Sequence[Segment], number: int, check: Check | None, own: Sequence[tuple[str, ...]]) -> str:
    """Say what makes a command doubtful that stands so in a line: what starts it, what is set for it, and its neighbours.
    ``own``: what the user calls all of the tests."""
    try:
        return _doubt_of_start(parts, number, check, own) or _doubt_of_neighbours(parts, number)
    except UnreadableError:
        return "the line cannot be read"


def _doubt_of_start(parts: Sequence[Segment], number: int, check: Check | None, own: Sequence[tuple[str, ...]]) -> str:
    part = parts[number]
    words = part.words
    size = max(1, len(words) - len(check.words) + 1) if check is not None else 1
    mine = check is not None and check.words in own
    for word in words[: size - mine]:
        name = word.rpartition("/")[2]
        if "/" in word and "=" not in word and word[:1] not in "-@" and not re.match(_PATHS, word):
            return f"nobody knows what '{word}' is"
        if name in _ELSEWHERE or re.match(_AWAY, word):
            return f"'{name}' may run it elsewhere"
    front = part.text[: part.text.find(words[0])] if words else ""
    for name in re.findall(_SET, f"{front} {' '.join(words[:size])}"):
        if re.match(_TELLING, name):
            return f"'{name}' may choose what runs"
    stale = check is not None and (_scope(check).built or "--no-build" in words)
    if stale and not any(
        isinstance(one := check_in(other.words, ()), Check) and one.kind == "build" for other in parts[:number]
    ):
        return "what it runs may have been built of other files"
    return ""


def _doubt_of_neighbours(parts: Sequence[Segment], number: int) -> str:
    piped = False
    for at, other in enumerate(parts):
        piped = (piped and other.before == "|") or (at == number + 1 and other.before == "|")
        if at != number and (found := _doubt_of(other, before=at < number, piped=piped)):
            return found
    return ""


def _doubt_of(part: Segment, *, before: bool, piped: bool) -> str:
    """Say what a neighbour does to a test: empty where it changes neither files, nor what is shown, nor which tests run."""
    name, said = part.name, part.text
    if piped:
        return "" if name in _SHOWN else f"'{name}' may hide what it printed"
    if part.inner:
        return "the line runs other commands within"
    if name in ("echo", "printf"):
        return f"'{name}' prints what a test prints" if _like_a_summary(said) else ""
    if name in ("source", "."):
        return "" if re.search(_ACTIVATES, said) else f"'{name}' may change what commands mean"
    if name in ("export", "set", "unset", "declare", "local", "shopt", ""):
        chosen = next((one for one in re.findall(_SET, said) if re.match(_TELLING, one)), "")
        return f"'{chosen}' may choose what runs" if chosen else ""
    if name in _CALM_NAMES:
        return ""
    words = said.split()
    verb = next((word for word in words[1:] if word[:1] != "-"), "")
    if name == "git":
        return "" if before or verb in _STILL else f"'git {verb}' may have changed files after it"
    if name in _PREPARING or words[1:3] == ["-m", "pip"]:
        return ""
    seen = check_in(part.words, ())
    return "" if isinstance(seen, Check) and not seen.guessed else f"'{name}' beside it may change files or what is shown"


def doubt_beside(line: str) -> str:
    """Say what another command line does to a test that runs at the same time; empty where it changes no file."""
    try:
        parts = [part for text in actions(line) for part in segments(text)]
        return next(filter(None, (_doubt_of(part, before=False, piped=False) for part in parts)), "")
    except UnreadableError:
        return "another command ran beside it"


def _like_a_summary(text: str) -> bool:
    bare = re.sub(r"\A(?:echo|printf)\s+(?:-\w+\s+)*|['\"]", "", text).replace("\\n", "\n").replace("\\t", "\t")
    return (
        summary(window(bare)[0], ANY, cut=False).result != ""
        or re.search(r"(?i)\d+ (?:pass|ok|test|example)|\bpassed\b", bare) is not None
    )


def _scope(check: Check) -> _Scope:
    return _SCOPES.get(_ALIKE.get(check.words[0], check.words[0]), _Scope(flags=_CALM, rest=r"(?!)"))


def left_out(check: Check, own: Sequence[tuple[str, ...]]) -> str:
    """Return the word of a test command that leaves tests out, or may; empty where all are asked for. ``own``: what the user
    calls all of them."""
    words = check.words
    if words in own:
        return ""
    if check.guessed:
        return words[check.head - 1]
    name, scope = _ALIKE.get(words[0], words[0]), _scope(check)
    nextest = words.index("nextest") + 2 if "nextest" in words[1:3] else 1  # what it is to do comes after it
    head = max(check.head, 3 if words[:2] == ("python", "-m") else nextest)
    if words[0] in _NAMED_TASKS and head > 1:
        task = words[head - 1].rpartition("=")[2]
        if not re.match(_ALL_TASK, task) and task not in ("t", "tst", "it", "cit", "install-test"):
            return task
    valued, rest, asked = scope.valued.split(), iter(enumerate(words[1:], 1)), False
    for place, word in rest:
        if word == "--" or (name not in ("mvn", "gradle") and (place == head - 1 or (place < head and name == "python"))):
            continue
        if word in valued or (name == "python" and word in ("-s", "-t")):
            given = next(rest, (0, ""))[1]
            if name == "python" and word in ("-s", "-t") and given not in (".", "./"):
                return f"{word} {given}"
        elif word[:1] == "-" and word != "-":
            if not re.fullmatch(scope.flags, word):
                return word
        elif place < head and (name == "make" or re.fullmatch(_ASKS, word)):
            continue  # tasks beside that of the tests, too
        elif not re.fullmatch(scope.rest, word):
            return word
        asked = asked or word == scope.needs
    return f"no {scope.needs}" if scope.needs and not asked else ""


def scripts(check: Check, text: str) -> list[str]:
    """Return the command lines that a task's output shows as what it runs."""
    shown = [one[1] for one in re.finditer(_SCRIPT, text)]
    if _ALIKE.get(check.words[0], check.words[0]) == "make":
        shown += [re.sub(r"\Atask: \[\S+\] ", "", line) for line in text.split("\n", _RECIPES)[:_RECIPES] if hinted(line)]
    return shown


def doubt_of_output(text: str, *, whole: bool) -> str:
    """Say what an output shows that makes it doubtful that all tests ran, or that tests ran at all. ``whole``: what ran are all
    of them, the user says."""
    if not whole and (found := re.search(_LEFT_OUT, text)):
        return f"the output says '{found[0].strip()[:60]}'"
    for one in re.finditer(_OTHERS, text):
        if _like_a_summary(one[1]):
            return "the output shows that a command printed the words of a summary"
    return ""
