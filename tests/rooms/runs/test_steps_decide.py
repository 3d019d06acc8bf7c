"""What is to be done with a step and its files, as pure functions: every state of an effect, every owner of a file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.base.values import replace
from gitbaton.git.worktree.filesets import FileEntry, FileSet
from gitbaton.git.worktree.filetrees import differences
from gitbaton.runs.attempt import tried_again, wait
from gitbaton.runs.decide import DECISIONS, Present, decide, hit, why
from gitbaton.runs.journal.state import EffectState, StepState
from gitbaton.runs.journal.values import Backoff, Cause, Logged, Reads, Record, Step, Writes
from gitbaton.runs.outputs import materials, sort_out

FACT_GATES = ("open", "gate", "rejected")
A, B, EMPTY = "a" * 64, "b" * 64, "4" * 40
STEP = Step(name="s", argv=("make",), reads=("src/**",))


def logged(type_: str, seq: int = 0, **fields: object) -> Logged:
    words = {"effect": "none", "key": A, "idem": A, "argv": ("make",), "cwd": ".", **fields}
    reads, writes = Reads(globs=("src/**",), tree=EMPTY, n=0), Writes(globs=(), pre=EMPTY, tree=EMPTY)
    record = Record(
        type=type_,  # type: ignore[arg-type]
        run="r",
        lineage="r",
        started=datetime(2026, 1, 1, tzinfo=UTC),
        host="h",
        pid=1,
        boot="",
        seq=seq,
        step="s",
        reads=reads,
        writes=writes,
        **words,  # type: ignore[arg-type]
    )
    return Logged(record=record, commit=f"{seq:040x}", parts={})


def now(key: str = A) -> Present:
    return Present(key=key, reads=Reads(globs=("src/**",), tree=EMPTY, n=0), deps=(), env=(), files={})


def ended(effect: str = "none", happened: str | None = None, **fields: object) -> StepState:
    """A step with one result; ``happened``: the state of its effect."""
    end = logged("end", 1, effect=effect, **fields)
    effects = (EffectState(idem=A, key=A, logged=end, state=happened),) if happened else ()  # type: ignore[arg-type]
    return StepState(name="s", end=end, ends=(end,), effects=effects, attempts=1)


def begun(effect: str, happened: str, **fields: object) -> StepState:
    """A step that has begun, and has no result."""
    begin = logged("begin", 1, effect=effect, **fields)
    made = EffectState(idem=A, key=A, logged=begin, state=happened)  # type: ignore[arg-type]
    return StepState(name="s", effects=(made,), attempts=1)


@pytest.mark.parametrize(
    ("state", "key", "what"),
    [
        (StepState(name="s"), A, "run"),
        (ended(), A, "hit"),
        (ended(), B, "run"),
        (ended(stable=False), A, "run"),
        (ended("idempotent", "live"), A, "hit"),
        (ended("idempotent", "undone"), A, "run"),
        (ended("once", "live"), A, "hit"),
        (begun("idempotent", "unknown"), A, "run"),
        (begun("idempotent", "unknown"), B, "probe"),
        (begun("once", "unknown"), A, "probe"),
        (begun("once", "unknown"), B, "probe"),
        (begun("once", "live"), A, "trust"),
        (begun("once", "live"), B, "run"),
        (begun("once", "undone"), A, "run"),
        (begun("idempotent", "live"), A, "run"),
        (begun("idempotent", "undoing"), A, "run"),
    ],
)
def test_what_is_done_in_every_state(state: StepState, key: str, what: str) -> None:
    assert decide(STEP, state, now(key)).what == what


FACTS = list(product(("yes", "no"), ("yes", "no"), ("no", "output", "again"), ("no", "undoable", "final"), FACT_GATES))


def spelt_out(unknown: str, result: str, forced: str, once: str, gate: str) -> str:
    """The table as one rule after the other."""
    if unknown == "yes":
        return "probe"
    if result == "yes" and forced == "no":
        return "hit"
    if once == "final" or (once == "undoable" and forced == "no"):
        return "hit" if result == "yes" and forced != "output" else "trust"
    return "run" if gate == "open" else gate


@pytest.mark.parametrize(("unknown", "result", "forced", "once", "gate"), FACTS)
def test_every_row_of_the_table(unknown: str, result: str, forced: str, once: str, gate: str) -> None:
    step = replace(STEP, gate=None if gate == "open" else "ok?", compensate="undo it" if once == "undoable" else None)
    state = ended() if result == "yes" else StepState(name="s")
    if once != "no":
        state = ended("once", "live") if result == "yes" else begun("once", "live")
    lost = EffectState(idem=B, key=B, logged=logged("begin", 0, effect="once", key=B), state="unknown")
    state = replace(state, effects=((lost,) if unknown == "yes" else ()) + state.effects, gate_key=A)
    state = replace(state, gate="rejected") if gate == "rejected" else state
    causes: dict[str, list[Cause | None]] = {
        "no": [None],
        "output": [Cause(kind="output")],
        "again": [Cause(kind="named"), Cause(kind="path")],
    }
    for cause in causes[forced]:
        found = decide(step, state, now(A), cause)
        assert found.what == spelt_out(unknown, result, forced, once, gate)
        assert (found.logged is not None) == (found.what == "hit" and result == "yes")
        assert (found.effect is lost) == (found.what == "probe")
        assert (found.undo != ()) == (found.what == "run" and once != "no")


def test_no_row_of_the_table_is_hidden_by_those_above_it() -> None:
    def first(facts: tuple[str, ...]) -> int:
        rows = [all(want in ("-", fact) for want, fact in zip(row, facts, strict=False)) for row in DECISIONS]
        return rows.index(True)

    assert {first(facts) for facts in FACTS} == set(range(len(DECISIONS)))
    assert all(DECISIONS[first(facts)][-1] == spelt_out(*facts) for facts in FACTS)


def test_what_is_undone_first() -> None:
    assert [e.key for e in decide(STEP, ended("idempotent", "live"), now(B)).undo] == [A]
    assert decide(STEP, begun("idempotent", "unknown"), now(A)).undo == ()
    assert len(decide(STEP, begun("idempotent", "undoing"), now(A)).undo) == 1
    assert decide(STEP, ended("idempotent", "live"), now(A), Cause(kind="path")).undo == ()
    assert len(decide(STEP, ended("idempotent", "live"), now(A), Cause(kind="named")).undo) == 1
    once = replace(STEP, effect="once", compensate="undo")
    assert len(decide(once, ended("once", "live"), now(A), Cause(kind="path")).undo) == 1
    assert decide(STEP, ended("once", "live"), now(A), Cause(kind="named")).what == "hit"  # nothing could undo it


def test_a_gate_is_for_one_key() -> None:
    gated = replace(STEP, gate="ok?")
    for gate, key, what in (("none", None, "gate"), ("waiting", A, "gate"), ("approved", A, "run"), ("approved", B, "gate")):
        state = StepState(name="s", gate=gate, gate_key=key)  # type: ignore[arg-type]
        assert decide(gated, state, now(A)).what == what
    assert decide(gated, StepState(name="s", gate="rejected", gate_key=A), now(A)).what == "rejected"
    assert decide(gated, ended(), now(A)).what == "hit"


def test_an_older_result_is_served_when_its_inputs_are_back() -> None:
    first, second = logged("end", 1), logged("end", 3, key=B)
    state = StepState(name="s", end=second, ends=(first, second), attempts=2)
    assert hit(STEP, state, A) is first and hit(STEP, state, B) is second
    failed = replace(state, failed=logged("fail", 5, exit=1))
    assert hit(STEP, failed, A) is None and hit(STEP, failed, B) is second


def test_why_says_the_first_difference() -> None:
    def cause(step: Step = STEP, state: StepState | None = None, key: str = B, **fields: Any) -> str:
        found = why(step, state or ended(**fields), now(key))
        assert found is not None
        return found.kind

    assert why(STEP, ended(), now(A)) is None
    assert cause(state=StepState(name="s")) == "never-run"
    assert cause(replace(STEP, argv=("cc",))) == "argv" and cause(replace(STEP, cwd="sub")) == "cwd"
    assert cause(deps=(("d", EMPTY),)) == "dep" and cause(env=(("HOME", "sha256:0"),)) == "env"
    assert cause(replace(STEP, extra=("v2",))) == "key" and cause(replace(STEP, writes=("x",))) == "writes"
    assert cause(replace(STEP, verify="true")) == "verify"
    assert cause(replace(STEP, cache=False), key=A) == "not-cacheable" and cause(key=A, stable=False) == "unstable"
    assert cause(state=ended("idempotent", "undone"), key=A) == "compensated"
    assert cause(state=replace(ended(), failed=logged("fail", 2, exit=1)), key=A) == "failed"
    assert cause(state=replace(ended(), begun=logged("begin", 2))) == "crashed"


PATHS = st.sampled_from(["a", "b", "c", "d"])
FILES = st.dictionaries(PATHS, st.integers(0, 5), max_size=4)


def files(numbers: Mapping[str, int]) -> dict[str, FileEntry]:
    return {path: FileEntry(path=path, mode="100644", oid=f"{n:040x}") for path, n in numbers.items()}


def applied(have: Mapping[str, FileEntry], want: Mapping[str, FileEntry | None]) -> dict[str, FileEntry]:
    result: dict[str, FileEntry | None] = {**have, **want}
    return {path: entry for path, entry in result.items() if entry is not None}


@pytest.mark.deep
@settings(max_examples=150, deadline=None)
@given(FILES, FILES, st.lists(FILES, max_size=3))
def test_serving_changes_only_what_is_ours(have: dict[str, int], result: dict[str, int], known: list[dict[str, int]]) -> None:
    ours = {path for path, number in have.items() if any(tree.get(path) == number for tree in (*known, result))}
    todo = materials(files(have), files(result), ours)
    after = applied(files(have), todo.want)
    for path, entry in files(have).items():
        if path not in ours:
            assert after[path] == entry  # what nobody of us wrote stays
            assert (path in todo.edited) == (path in result)
        else:
            assert after.get(path) == files(result).get(path)
    assert {p: e for p, e in after.items() if p in result and p not in todo.edited} == {
        p: e for p, e in files(result).items() if p not in todo.edited
    }


@pytest.mark.deep
@settings(max_examples=150, deadline=None)
@given(FILES, FILES, st.lists(FILES, max_size=3))
def test_a_command_finds_what_was_there_first_and_what_is_not_ours(
    have: dict[str, int], first: dict[str, int], known: list[dict[str, int]]
) -> None:
    ours = frozenset(path for path, number in have.items() if any(tree.get(path) == number for tree in (*known, first)))
    seen = frozenset(path for tree in (*known, first) for path in tree)
    found = sort_out(FileSet(tree=EMPTY, entries=files(have)), files(first), ours, seen)
    for path, entry in files(have).items():
        assert (path in found.others or path in found.edited) == (path not in ours)
        assert path not in found.edited or path in seen
        assert found.pre.get(path) == (files(first).get(path) if path in ours else entry)
    assert not found.others & set(found.edited)
    assert applied(files(have), differences(files(have), found.pre)) == found.pre


@given(st.floats(0.001, 100), st.floats(1, 10), st.integers(1, 2000), st.floats(0, 0.999))
def test_waits_never_pass_the_longest(first: float, factor: float, tries: int, chance: float) -> None:
    backoff = Backoff(first=first, factor=factor, most=200.0)
    seconds = wait(backoff, tries, lambda: chance)
    assert 0 < seconds <= 200.0 and seconds >= min(first, 200.0) * 0.999
    assert seconds / 2 <= wait(replace(backoff, jitter=True), tries, lambda: chance) <= seconds


def test_what_is_worth_another_attempt() -> None:
    some = replace(STEP, retry_on=("1", "timeout"))
    assert tried_again(STEP, 9, timeout=False) and tried_again(some, 1, timeout=False) and tried_again(some, 124, timeout=True)
    assert not tried_again(some, 124, timeout=False) and not tried_again(some, 2, timeout=False)
