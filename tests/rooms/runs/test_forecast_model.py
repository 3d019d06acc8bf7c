"""Random plans under random edits: what is foretold of each step (run, served, undone before) is what then happens."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gitbaton.base.values import value
from gitbaton.checkpoints.baton import Baton
from gitbaton.runs.engine import Engine
from gitbaton.runs.journal.chain import Journal
from gitbaton.runs.report import Forecast
from tests.kit import Sandbox
from tests.kit.planned import Planned
from tests.kit.tiers import model, sized

TEXTS = ["a1", "a2", "b1"]  # of which a step that strips sees the letter only


@value
class Made:
    """A step of the model: what it reads besides its own source, whether it says so with ``after``, and its effect."""

    parents: tuple[int, ...]
    strip: bool
    tied: bool
    effect: str
    undoes: bool
    cache: bool = True


@st.composite
def dags(draw: st.DrawFn) -> tuple[Made, ...]:
    made: list[Made] = []
    for n in range(draw(st.integers(2, 5))):
        parents = draw(st.lists(st.integers(0, n - 1), unique=True, min_size=1, max_size=2)) if n else []
        effect = draw(st.sampled_from(["none", "none", "once", "idempotent"]))
        undoes, cache = effect != "none" and draw(st.integers(0, 3)) > 0, draw(st.integers(0, 9)) > 0
        strip, tied = draw(st.booleans()), draw(st.booleans())
        made.append(Made(parents=tuple(sorted(parents)), strip=strip, tied=tied, effect=effect, undoes=undoes, cache=cache))
    return tuple(made)


CHANGES = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([*TEXTS, "gone", "touch"])), min_size=1, max_size=2)


def steps(dag: tuple[Made, ...]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for n, made in enumerate(dag):
        inputs = [f"src/{n}", *(f"out/{p}" for p in made.parents)]
        found[f"s{n}"] = {
            "run": f"mkdir -p out; cat {' '.join(inputs)} {'| tr -d 0-9 ' if made.strip else ''}> out/{n}",
            "reads": inputs,
            "writes": [f"out/{n}"],
            "after": [f"s{p}" for p in made.parents] if made.tied else [],
            "effect": made.effect,
            "no_cache": not made.cache,
            **({"compensate": "true"} if made.undoes else {}),
        }
    return found


def foretold(run: Planned) -> dict[str, Forecast]:
    with Baton(run.box.path) as other:
        journal = Journal(other.repo, author=b"A <a@b>", clock=other.clock)
        return {item.step.name: item for item in Engine(other, journal).dry_run(run.plan, run.run)}


def happened(run: Planned) -> dict[str, tuple[str, ...]]:
    """The steps that ran, each with those whose effects were undone before."""
    found: dict[str, tuple[str, ...]] = {}
    undone: list[str] = []
    for event in run.events:
        if event.kind == "compensated":
            undone.append(event.step)
        elif event.kind == "attempt":
            found[event.step], undone = tuple(dict.fromkeys(undone)), []
    assert not undone
    return found


def check(folder: Path, dag: tuple[Made, ...], rounds: list[list[tuple[int, str]]]) -> None:
    box = Sandbox.init(folder / "repo")
    for n in range(len(dag)):
        box.write(f"src/{n}", "a1\n")
    with Planned(box, steps(dag)) as run:
        for changes in [[], *rounds]:
            for number, text in changes:
                n = number % len(dag)
                if text == "gone":
                    (box.path / f"out/{n}").unlink(missing_ok=True)
                else:
                    path = box.path / f"src/{n}"
                    path.write_text(path.read_text() if text == "touch" else f"{text}\n")
            said = foretold(run)
            code = run.go().code
            judge(
                said,
                happened(run),
                code,
                [event.step for event in run.events if event.kind in ("cached", "attempt", "unknown")],
            )


def judge(said: dict[str, Forecast], ran: dict[str, tuple[str, ...]], code: int, reached: list[str]) -> None:
    for name, item in said.items():
        if code and name not in reached:
            continue  # an earlier one stopped the run
        if item.would == "run":
            assert ran.get(name) in ((item.undo, ()) if item.on else (item.undo,)), (item, ran)
            assert not item.on or any(on in ran for on in above(said, item))
        elif item.would == "depends":
            assert any(said[on].would in ("run", "depends", "trust") for on in item.on), item
            assert any(on in ran for on in above(said, item)) or code, (item, ran)
        elif item.would == "trust":
            assert code == 76 and name not in ran, item
        else:
            assert item.would == "cached" and name not in ran, (item, ran)


def above(said: dict[str, Forecast], item: Forecast) -> set[str]:
    return {*item.on}.union(*(above(said, said[on]) for on in item.on))


@sized(0, 3, 400)
def test_what_is_foretold_of_random_plans_happens(count: int) -> None:

    @model(count)
    @given(dags(), st.lists(CHANGES, min_size=2, max_size=4))
    def examples(dag: tuple[Made, ...], rounds: list[list[tuple[int, str]]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(Path(folder), dag, rounds)

    examples()


def test_an_edit_back_is_foretold_with_what_it_undoes(tmp_path: Path) -> None:
    """`build` is served, and by that `o` changes, which `pub` reads."""
    box = Sandbox.init(tmp_path / "repo")
    box.write("a", "a\n")
    build = {"run": "cp a o", "reads": ["a"], "writes": ["o"]}
    pub = {"run": "true", "reads": ["o"], "effect": "once", "compensate": "true"}
    with Planned(box, {"build": build, "pub": pub}) as run:
        for text in ("a\n", "b\n"):
            box.write("a", text)
            assert run.go().code == 0
        box.write("a", "a\n")
        said = foretold(run)
        assert (said["build"].would, said["pub"].would, said["pub"].undo) == ("cached", "run", ("pub",))
        lines = run.look()
        assert lines["build"].moved == ("o",) and lines["pub"].state == "stale"
        assert run.go().code == 0 and happened(run) == {"pub": ("pub",)}
    told = box.here("repair", "--step", "build", "-n").out
    assert "pub: would run if build gives something else; undone before: pub" in told
