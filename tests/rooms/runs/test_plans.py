"""Plan files: what they mean, what is refused and where, and the order in which steps go."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.base.errors import UsageError
from gitbaton.base.values import replace
from gitbaton.runs import graph, plans
from gitbaton.runs.journal.state import NOTHING
from gitbaton.runs.journal.values import Backoff, Plan, Step
from tests.kit import Sandbox
from tests.kit.tables import each

PLAN = """\
max-wall = 90
[step.pub]
argv = ["./pub", "--now"]
after = ["build"]
effect = "once"
probe = "seen"
compensate = "undo"
gate = "go?"
retry-on = "1, 075,timeout,1"
checkpoint = "main"

[step.build]
run = '''
make x
'''
reads = ["./src//**", "lock"]
writes = ["dist/"]
env = ["CC"]
key = ["v1"]
cwd = "a/../src/"
timeout = "1h30m"
grace = 0.5
backoff = "10ms,x3,jitter"
no-cache = true
allow-empty = true
store = "none"
isolate = "tree"
on-undeclared = "fail"
verify = "v"
catch = "c"

[step.lint]
run = "lint"
reads = ["src/*.c"]
retries = 2
"""


def read(text: str | bytes) -> Plan:
    return plans.read(text if isinstance(text, bytes) else text.encode(), "/top")


def refusal(text: str | bytes) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read(text)
    return caught.value


def test_a_plan_says_what_the_command_line_says() -> None:
    plan = read(PLAN)
    assert [step.name for step in plan.steps] == ["build", "pub", "lint"]
    assert plan.text == PLAN.encode() and plan.path is None and (plan.max_runs, plan.max_wall) == (50, 90.0)
    lint, pub, build = plan.step("lint"), plan.step("pub"), plan.step("build")
    assert lint == Step(name="lint", argv=("sh", "-c", "lint"), reads=("src/*.c",), retries=2)
    assert pub and replace(pub, probe=None, compensate=None) == Step(
        name="pub",
        argv=("./pub", "--now"),
        after=("build",),
        effect="once",
        gate="go?",
        retry_on=("1", "75", "timeout"),
        checkpoint="main",
    )
    assert build == Step(
        name="build",
        argv=("sh", "-c", "make x\n"),
        cwd="src",
        reads=("src/**", "lock"),
        writes=("dist/**",),
        env=("CC",),
        extra=("v1",),
        verify="v",
        backoff=Backoff(first=0.01, factor=3.0, most=60.0, jitter=True),
        timeout=5400.0,
        grace=0.5,
        catch="c",
        isolate="tree",
        on_undeclared="fail",
        cache=False,
        allow_empty=True,
        store="none",
    )


def test_a_plan_file_is_named_by_its_place_in_the_work_tree(tmp_path: Path) -> None:
    inside, outside = tmp_path / "top" / "sub" / "b.toml", tmp_path / "o.toml"
    inside.parent.mkdir(parents=True)
    for file in (inside, outside):
        file.write_text('[step.a]\nrun = "x"\n')
    top = str(tmp_path / "top")
    assert plans.read(str(inside), top).path == "sub/b.toml" and plans.read(str(outside), top).path == str(outside)
    outside.write_text('[step.a]\nrum = "x"\n')
    with pytest.raises(UsageError, match=re.escape(f"'{outside}' line 2: step 'a': unknown key 'rum'")):
        plans.read(str(outside), top)
    for missing, words in ((tmp_path / "no", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(UsageError, match=f"cannot read '{missing}': {words}"):
            plans.read(str(missing), top)
    with pytest.raises(UsageError, match=r"cannot read '.*': embedded null byte"):
        plans.read("a\0b", top)


def test_r25_a_plan_that_cannot_be_carried_out_is_refused_before_anything_runs(repo: Sandbox) -> None:
    """Its steps would leave files; it is called as it was typed."""
    good, circle = '[step.a]\nrun = "touch ran"\n', 'run = "touch ran"\nafter = ["{}"]\n'
    refused = {
        good
        + "[step.b]\n"
        + circle.format("c")
        + "[step.c]\n"
        + circle.format("b"): "line 5: step 'b': a cycle: 'b' waits for",
        good + "[step.b]\n" + circle.format("gone"): "line 5: step 'b': waits for 'gone', which is no step here",
        good
        + 'writes = ["x/**"]\n[step.b]\nrun = "touch ran"\nwrites = ["*/y"]\n': "line 6: step 'b': writes '*/y', and step 'a'",
        good + '[step.b]\nrun = "touch ran"\nreads = ["a/../../x"]\n': "line 5: step 'b': reads: glob 'a/../../x' leaves",
    }
    for text, words in refused.items():
        repo.write("p.toml", text)
        before = {path: path.read_bytes() for path in repo.path.rglob("*") if path.is_file()}
        done = repo.here("run", "--plan", "p.toml", "--run", "r")
        assert done.code == 129 and done.err.startswith(f"fatal: 'p.toml' {words}"), done
        assert {path: path.read_bytes() for path in repo.path.rglob("*") if path.is_file()} == before


def test_r25_a_cycle_is_named_in_full() -> None:
    text = '[step.{}]\nrun = "x"\nafter = ["{}"]\n'
    circle = "".join(text.format(*pair) for pair in ("ab", "bc", "ca", "da"))
    assert refusal(circle).message == "'baton.toml' line 3: step 'a': a cycle: 'a' waits for 'b' waits for 'c' waits for 'a'"
    assert refusal(text.format("a", "a")).message == "'baton.toml' line 3: step 'a': it waits for itself"
    implied = '[step.a]\nrun = "x"\nreads = ["y",\n "out/*"]\n[step.b]\nrun = "x"\nafter = ["a"]\nwrites = ["out/b"]\n'
    error = refusal(implied)
    assert error.message == "'baton.toml' line 3: step 'a': a cycle: 'a' waits for 'b' waits for 'a'"
    assert error.hints == ("'a' reads 'out/*', and 'b' writes 'out/b'",) and error.exit_code == 129


A = '[step.a]\nrun = "x"\n'
REFUSED: list[tuple[str | bytes, int, str, str]] = [
    ("", 1, "there is no step in it", "[step.NAME]"),
    ("step = 3", 1, "there is no step in it", ""),
    ("[step]\n\na = 3", 3, "step 'a': it is 3; it must be a table", ""),
    (b"# \xc3\xa9\n\xff", 2, "not UTF-8", ""),
    ("x = 1\n" + "\n" * (1 << 20), (1 << 20) - 4, "larger than 1 MiB", ""),
    ("\n\na = " + "[" * 40, 3, "too deep", ""),
    ("\n" + ".".join("a" * 40) + " = 1", 2, "too deep", ""),
    (A + "retries = " + "9" * 5000, 3, "too long", ""),
    ("\n[step.a]\nrun = \n", 3, "step 'a': invalid value", ""),
    ('[step.a]\nrun = """\n', 2, "step 'a': ", ""),
    ("[steps.a]\nrun = 1", 1, "unknown table 'steps'", "perhaps 'step' is meant"),
    ("[build]\nrun = 1", 1, "unknown table 'build'", "[step.NAME]"),
    (A + "\nraeds = []", 4, "step 'a': unknown key 'raeds'", "perhaps 'reads' is meant"),
    (A + "\ninputs = []", 4, "step 'a': unknown key 'inputs'", "perhaps 'reads' is meant"),
    (A + "\n[step.a.b]\nrun = 'x'", 4, "step 'a': unknown key 'b'", '[step."a.b"]'),
    (A + "\n" + A, 4, "step 'a': declared a second time, after line 1", ""),
    (A + 'run = "y"', 3, "step 'a': 'run' is given a second time, after line 2", ""),
    (A + 'argv = ["y"]', 3, "step 'a': both 'run' and 'argv'", "list"),
    ('[step.a]\nreads = ["y"]', 1, "step 'a': nothing to run", "list"),
    ("[step.a]\nargv = []", 2, "step 'a': argv names no command", ""),
    ('[step.a]\nargv = [""]', 2, "step 'a': argv names no command", ""),
    ('[step.a]\nargv = ["x",\n "a\\u0000b"]', 2, "step 'a': argv has a NUL", ""),
    ('[step.a]\nargv = ["x",\n 3]', 2, "step 'a': argv has 3; it must be a list of texts", ""),
    ('[step.a]\nrun = " "', 2, "step 'a': run is empty", ""),
    ('[step.a]\nrun = "\\u0000"', 2, "step 'a': argv has a NUL", ""),
    (A + 'reads = "x"', 3, "step 'a': reads is 'x'; it must be a list of texts", "['x']"),
    (A + 'reads = [\n"x", # "\n"../x"]', 3, "step 'a': reads: glob '../x' leaves the work tree", ""),
    (A + 'writes = ["/x"]', 3, "step 'a': writes: glob '/x' is absolute", "relative"),
    (A + 'writes = ["x/.git/y"]', 3, "step 'a': writes: glob 'x/.git/y' names '.git'", ""),
    (A + 'writes = ["b",\n"a/x"]\nreads = ["a/*"]', 3, "step 'a': reads 'a/*' and writes 'a/x', which meet", "done"),
    (
        A + 'writes = ["o/*"]\n[step.b]\nrun = "x"\nwrites = ["p",\n"**/y"]',
        6,
        "step 'b': writes '**/y', and step 'a' writes 'o/*'",
        "",
    ),
    (
        A + 'writes = ["o"]\n[step.b]\nrun = "x"\nafter = ["a"]\nwrites = ["o/x"]',
        7,
        "step 'b': writes 'o/x', and step 'a'",
        "one step",
    ),
    ('[step."a b"]\nrun = "x"', 1, "step 'a b': it is no name", ""),
    ('[step."../a"]\nrun = "x"', 1, "step '../a': it is no name", ""),
    ('[step."a..b"]\nrun = "x"', 1, "step 'a..b': it is no name", ""),
    (f'[step.{"a" * 101}]\nrun = "x"', 1, "it is no name", ""),
    ('[step."a\\n"]\nrun = "x"', 1, "it is no name", ""),
    (A + 'after = ["b", "a b"]', 3, "step 'a': waits for 'a b', which is no name", ""),
    (
        A + '[step.build]\nrun = "x"\nafter = ["a",\n"bulid"]\n',
        5,
        "step 'build': waits for 'bulid', which is no step here",
        "'build'",
    ),
    (A + "retries = true", 3, "step 'a': retries is true; it must be a whole number", ""),
    (A + "retries = 1.0", 3, "step 'a': retries is 1.0", ""),
    (A + "retries = -1", 3, "step 'a': retries is -1; it must be 0 to 1000", ""),
    (A + "timeout = nan", 3, "step 'a': timeout is nan", ""),
    (A + "timeout = inf", 3, "step 'a': timeout is inf", ""),
    (A + "timeout = 0", 3, "step 'a': timeout must be more than nothing", ""),
    (A + 'timeout = "0s"', 3, "step 'a': timeout must be more than nothing", ""),
    (A + 'timeout = "-1s"', 3, "step 'a': timeout is '-1s'; it must be a duration", ""),
    (A + "timeout = false", 3, "step 'a': timeout is false", ""),
    (A + "timeout = 1979-05-27", 3, "step 'a': timeout is 1979-05-27", ""),
    (A + "grace = -1", 3, "step 'a': grace is -1", ""),
    (A + 'backoff = "1s,x0"', 3, "step 'a': backoff is '1s,x0'", ""),
    (A + 'backoff = "1s,x2,x3"', 3, "step 'a': backoff is", ""),
    (A + 'backoff = "9s,max=1s"', 3, "step 'a': backoff is '9s,max=1s'; its max is shorter", ""),
    (A + 'retry-on = "0"', 3, "step 'a': retry-on is '0'", ""),
    (A + 'retry-on = ""', 3, "step 'a': retry-on is ''", ""),
    (A + 'isolate = "tre"', 3, "step 'a': isolate is 'tre'; it can be 'auto', 'tree' or 'none'", "perhaps 'tree'"),
    (A + "effect = 1", 3, "step 'a': effect is 1; it must be a text", ""),
    (A + 'compensate = "u"', 3, "step 'a': compensate is given, but the step has no effect", "once"),
    (A + 'probe = "u"\neffect = "none"', 3, "step 'a': probe is given", "once"),
    (A + 'gate = ""', 3, "step 'a': gate is empty", ""),
    (A + 'no-cache = "yes"', 3, "step 'a': no-cache is 'yes'; it must be true or false", ""),
    (A + 'env = ["A=1"]', 3, "step 'a': env has 'A=1'", ""),
    (A + 'cwd = "../x"', 3, "step 'a': cwd is '../x', which leaves", ""),
    (A + 'cwd = "/x"', 3, "step 'a': cwd is '/x', which leaves", ""),
    (A + 'cwd = "x/.Git"', 3, "step 'a': cwd is 'x/.Git', which names '.git'", ""),
    (A + f'checkpoint = "{"t" * 201}"', 3, "step 'a': checkpoint is", ""),
    ("max-runs = 0\n" + A, 1, "max-runs is 0; it must be 1 to", ""),
    ("max-runs = true\n" + A, 1, "max-runs is true; it must be a whole number", ""),
    ("max-wall = 0\n" + A, 1, "max-wall must be more than nothing", ""),
    ("max-walls = 0\n" + A, 1, "unknown key 'max-walls'", "'max-wall'"),
    ("[step]\n" + "".join(f"a{n}.run = 'x'\n" for n in range(1001)), 1002, "more than 1000 steps", ""),
]


@pytest.mark.parametrize(("text", "line", "words", "hint"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_carried_out_is_refused_with_its_line(text: str | bytes, line: int, words: str, hint: str) -> None:
    error = refusal(text)
    assert error.message.startswith(f"'baton.toml' line {line}: ") and words in error.message, error.message
    assert error.exit_code == 129 and hint in " ".join(error.hints), error.hints
    windows = text.replace(b"\n", b"\r\n") if isinstance(text, bytes) else text.replace("\n", "\r\n")
    if len(windows) < 1000 and '"""' not in str(text):
        assert refusal(windows).message == error.message


def test_a_step_of_the_command_line_passes_the_same_checks() -> None:
    step = Step(name="a", argv=("x",), reads=("./a/",), writes=("b",), cwd="./")
    assert plans.checked(step) == replace(step, reads=("a/**",), cwd=".")
    wrong: list[Mapping[str, Any]] = [
        {"name": "-a"},
        {"argv": ()},
        {"reads": ("b/x",)},
        {"retries": -1},
        {"timeout": float("nan")},
    ]
    wrong += [{"effect": "twice"}, {"after": ("a",)}]
    wrong += [{"store": "some"}, {"cwd": ""}, {"extra": ("\0",)}, {"probe": "x"}, {"catch": " "}, {"writes": ("",)}]
    for fields in wrong:
        with pytest.raises(UsageError, match=r"^step '-?a': ") as caught:
            plans.checked(replace(step, **fields))
        assert caught.value.exit_code == 129


STEPS = st.lists(st.tuples(st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)), st.booleans()), min_size=1, max_size=8).map(
    lambda given: tuple(
        Step(
            name=f"s{n}",
            argv=("x",),
            after=tuple(f"s{m}" for m in sorted(after)),
            reads=tuple(f"out/{m}{'/**' if deep else '/a'}" for m in sorted(reads - {n})),
            writes=(f"out/{n}/a", f"out/{n}/b"),
        )
        for n, (after, reads, deep) in enumerate(given)
    )
)


@pytest.mark.full
@given(STEPS)
def test_steps_come_after_what_they_wait_for_or_a_cycle_is_named(steps: tuple[Step, ...]) -> None:
    waits = {
        step.name: {
            n for n in (*step.after, *(f"s{read.split('/')[1]}" for read in step.reads)) if n in {s.name for s in steps}
        }
        for step in steps
    }
    assert {name: set(above) for name, above in graph.edges(steps).items()} == waits
    try:
        ordered = [step.name for step in graph.order(steps)]
    except graph.StepError as error:
        circle = re.findall(r"'(s\d)'", error.message.partition("cycle: ")[2])
        assert circle[0] == circle[-1] == error.step and len(set(circle)) == len(circle) - 1
        assert all(other in waits[name] for name, other in itertools.pairwise(circle))
        return
    ready: list[str] = []
    while len(ready) < len(steps):
        ready.append(next(s.name for s in steps if s.name not in ready and waits[s.name] <= set(ready)))
        assert ordered[: len(ready)] == ready
    for name in waits:
        known = graph.graph(steps, NOTHING, lambda tree: ())
        assert {*known.ancestors({name})} == {name, *waits[name], *known.ancestors(waits[name])}
        assert name not in known.ancestors(waits[name])


@pytest.mark.deep
def test_a_long_plan_is_read_at_once() -> None:
    made = [f'[step.s{n}]\nrun = "x"\nreads = ["src/s{n}.c", "out/s{n - 1}/**"]\nwrites = ["out/s{n}/*"]\n' for n in range(300)]
    began = time.process_time()
    assert [step.name for step in read("".join(reversed(made))).steps] == [f"s{n}" for n in range(300)]
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5s", 1.5),
        ("500ms", 0.5),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("0", 0),
        ("10ms", 0.01),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert plans.duration(text) == seconds


@each("text", ["", " 1s", "1 s", "-1", "1s1s", "1x", "s", "1e3", "1.s", "9999d", "1\n", "1h30", "\u0661s", "1.5.5s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--timeout is "):
        plans.duration(text, "--timeout")


def test_backoffs() -> None:
    assert plans.backoff("1s,x2,max=60s,jitter") == Backoff(first=1, factor=2, most=60, jitter=True)
    assert plans.backoff("5m") == Backoff(first=300, most=300) and plans.backoff("0") == Backoff(first=0)
    for text in ("", "x2", "1s,", "1s,y", "1s,max=", "1s,jitter,jitter", "1s,x1001", "1s,first", "1s,x2,x2"):
        with pytest.raises(UsageError, match="backoff is "):
            plans.backoff(text)
