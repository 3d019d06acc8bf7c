"""Random runs with effects: edits, failures, repairs and kills in any order; in the end each effect happened exactly once."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.base.values import value
from gitbaton.runs.context import POINTS
from tests.kit import Sandbox
from tests.kit.planned import Planned
from tests.kit.tiers import model, sized

SIZE = 5


@value
class Made:
    """A step: it puts its source and what its parents made together, without comments where it strips. ``effect`` as in a
    plan, with a probe."""

    parents: tuple[int, ...]
    strip: bool
    effect: str
    isolate: str


@value
class Deed:
    """What happens: ``edit`` or ``comment`` a source, ``fail`` or ``mend`` a step, ``go``, ``repair`` it, ``gone`` (its output
    is removed), or ``kill`` a run, or a repair of it, at a ``point``."""

    kind: str
    step: int
    point: str


@st.composite
def dags(draw: st.DrawFn) -> tuple[Made, ...]:
    found: list[Made] = []
    for n in range(draw(st.integers(2, SIZE))):
        parents = draw(st.lists(st.integers(0, n - 1), unique=True, max_size=2)) if n else []
        effect = draw(st.sampled_from(["none", "idempotent", "once"]))
        isolate = draw(st.sampled_from(["none", "none", "tree"]))
        found.append(Made(parents=tuple(sorted(parents)), strip=draw(st.booleans()), effect=effect, isolate=isolate))
    return tuple(found)


KINDS = ("edit", "edit", "comment", "fail", "mend", "go", "go", "repair", "gone", "kill", "kill-repair")
DEEDS = st.builds(Deed, kind=st.sampled_from(KINDS), step=st.integers(0, SIZE - 1), point=st.sampled_from(POINTS))


class World:
    """The repository, its plan, and what the outside saw."""

    def __init__(self, dag: tuple[Made, ...], folder: Path) -> None:
        self.dag, self.box = dag, Sandbox.init(folder / "repo")
        self.ledger = folder / "effects"
        self.ledger.touch()
        self.sources = [f"source {n}\n# comment\n" for n in range(len(dag))]
        self.count = 0
        for n in range(len(dag)):
            self._write(n)
        self.run = Planned(self.box, {f"s{n}": self._step(n) for n in range(len(dag))})
        assert self.run.plan.steps

    def _write(self, n: int) -> None:
        self.box.write(f"src/{n}.txt", self.sources[n])

    def _step(self, n: int) -> dict[str, Any]:
        made, key = self.dag[n], "$GIT_BATON_IDEMPOTENCY_KEY"
        inputs = " ".join([f"src/{n}.txt", *(f"out/{p}" for p in made.parents)])
        filtered = "| grep -v '^#' " if made.strip else ""
        line = f"test ! -e $EFFECTS.fail.{n} || exit 3; mkdir -p out; cat {inputs} {filtered}> out/{n}"
        step: dict[str, Any] = {"reads": inputs.split(), "writes": [f"out/{n}"]}
        if made.effect != "none":
            there = f"grep -q '^do {n} '{key}' ' $EFFECTS"
            # once: whoever does it again does it twice
            guard = f"{there} || " if made.effect == "idempotent" else ""
            line += f"; {guard}echo do {n} {key} $(cat {inputs} | cksum | tr ' ' .) >> $EFFECTS"
            step |= {"effect": made.effect, "probe": there}
            step["compensate"] = f"echo undo {n} $GIT_BATON_COMPENSATES >> $EFFECTS"
        return {**step, "run": line, "isolate": made.isolate}

    def do(self, deed: Deed) -> None:
        n = deed.step % len(self.dag)
        flag = Path(f"{self.ledger}.fail.{n}")
        self.count += 1
        if deed.kind in ("edit", "comment"):
            self.sources[n] += f"{'# ' if deed.kind == 'comment' else ''}{self.count}\n"
            self._write(n)
        elif deed.kind == "fail":
            flag.touch()
        elif deed.kind == "mend":
            flag.unlink(missing_ok=True)
        elif deed.kind == "gone":
            (self.box.path / f"out/{n}").unlink(missing_ok=True)
        elif deed.kind == "go":
            assert self.go() in (0, 3)
        elif self.run.journal.names() or deed.kind == "kill":
            self._repair_or_kill(deed, n)

    def go(self) -> int:
        """Bring the plan to its end; where an effect happened whose outputs are lost or torn, somebody has it undone."""
        while (outcome := self.run.go()).code == 76:
            lost = outcome.states[-1].step
            assert lost.effect == "once" and "happened, but " in outcome.states[-1].text
            assert self.box.baton("compensate", lost.name, "--run", "r1").code == 0
        return outcome.code

    def _repair_or_kill(self, deed: Deed, n: int) -> None:
        if deed.kind == "repair":
            assert self.run.repair(f"s{n}")[1].code in (0, 3, 76)
            return
        plan = os.fspath(self.box.path.parent / "baton.toml")
        argv = ("repair", "--step", f"s{n}", "r1") if deed.kind == "kill-repair" else ("run", "--plan", plan, "--run", "r1")
        done = self.box.baton(*argv, env={"GIT_BATON_CRASH_AT": deed.point})
        assert done.code in (-9, 0, 3, 76), done.err

    def outputs(self) -> list[str]:
        """What a clean build gives."""
        found: list[str] = []
        for n, made in enumerate(self.dag):
            text = self.sources[n] + "".join(found[p] for p in made.parents)
            found.append("".join(row for row in text.splitlines(True) if not (made.strip and row.startswith("#"))))
        return found

    def check(self) -> None:
        """Bring it to its end, and look at all of it."""
        for flag in self.box.path.parent.glob("effects.fail.*"):
            flag.unlink()
        assert self.go() == 0, [(event.kind, event.step, event.text) for event in self.run.events]
        for n, text in enumerate(self.outputs()):
            assert (self.box.path / f"out/{n}").read_text() == text
        standing: dict[int, list[tuple[str, str]]] = {n: [] for n, made in enumerate(self.dag) if made.effect != "none"}
        undone: set[str] = set()
        for row in self.ledger.read_text().splitlines():
            word, number, key, *rest = row.split()
            n = int(number)
            if word == "do":
                assert key not in undone, "a service that remembers the key would not have done it"
                standing[n].append((key, rest[0]))
            else:
                undone.add(key)
                standing[n] = [item for item in standing[n] if item[0] != key]
        for n, items in standing.items():
            inputs = self.sources[n] + "".join(self.outputs()[p] for p in self.dag[n].parents)
            want = self.box.run("cksum", stdin=inputs.encode()).out.split()
            assert [item[1] for item in items] == [".".join(want)]
        assert self.run.go().code == 0 and not self.run.ran()
        assert self.run.journal.records("r1")[-1].record.state == "complete"


@sized(0, 3, 150)
def test_each_effect_happens_exactly_once_from_the_last_inputs(count: int, monkeypatch: pytest.MonkeyPatch) -> None:

    @model(count)
    @given(dags(), st.lists(DEEDS, min_size=2, max_size=7))
    def examples(dag: tuple[Made, ...], deeds: list[Deed]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            monkeypatch.setenv("EFFECTS", os.path.join(folder, "effects"))
            world = World(dag, Path(folder))
            with world.run:
                for deed in deeds:
                    world.do(deed)
                world.check()

    examples()
