"""Random DAGs of shell steps: what runs again is what changed and what hangs on it, and the result is that of a clean build."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gitbaton.base.values import replace, value
from tests.kit import Sandbox
from tests.kit.planned import Planned
from tests.kit.tiers import model, sized


@value
class Made:
    """A step of the model: it puts its source and what its parents made together; ``strip`` leaves comments out. ``tied``:
    whether it names its parents with ``after``, or only reads what they write."""

    parents: tuple[int, ...]
    strip: bool
    tied: bool
    isolate: str
    salt: int = 0


@value
class Change:
    """What happens between two calls: to a source (``text``, ``comment``, ``touch``), a command (``salt``) or an output
    (``gone``, removed by hand)."""

    kind: str
    step: int


@st.composite
def dags(draw: st.DrawFn) -> tuple[Made, ...]:
    made: list[Made] = []
    for n in range(draw(st.integers(2, 6))):
        parents = draw(st.lists(st.integers(0, n - 1), unique=True, max_size=3)) if n else []
        kind = draw(st.sampled_from(["none", "none", "none", "tree", "auto"]))
        made.append(Made(parents=tuple(sorted(parents)), strip=draw(st.booleans()), tied=draw(st.booleans()), isolate=kind))
    return tuple(made)


CHANGES = st.builds(Change, kind=st.sampled_from(["text", "comment", "touch", "salt", "gone"]), step=st.integers(0, 5))


class Model:
    """What the files must be, and which inputs each step has had."""

    def __init__(self, dag: tuple[Made, ...], box: Sandbox) -> None:
        self.dag, self.box = list(dag), box
        self.sources = [f"source {n}\n# comment 0\n" for n in range(len(dag))]
        self.known: list[set[tuple[object, ...]]] = [set() for _ in dag]
        self.count = 0
        for n in range(len(dag)):
            self._write(n)

    def _write(self, n: int) -> None:
        self.box.write(f"src/{n}.txt", self.sources[n])

    def apply(self, change: Change) -> set[int]:
        """Carry a change out; the step whose inputs it touches."""
        n = change.step % len(self.dag)
        self.count += 1
        if change.kind == "text":
            self.sources[n] = self.sources[n].replace("source", f"source' {self.count}")
        elif change.kind == "comment":
            self.sources[n] += f"# comment {self.count}\n"
        elif change.kind == "salt":
            self.dag[n] = replace(self.dag[n], salt=self.count)
        elif change.kind == "gone":
            shutil.rmtree(self.box.path / f"out/{n}", ignore_errors=True)
            return set()
        self._write(n)
        return {n} if change.kind != "touch" else set()

    def steps(self) -> dict[str, dict[str, Any]]:
        """The plan."""
        found: dict[str, dict[str, Any]] = {}
        for n, made in enumerate(self.dag):
            inputs = " ".join([f"src/{n}.txt", *(f"out/{p}/o" for p in made.parents)])
            filtered = "| grep -v '^#' " if made.strip else ""
            found[f"s{n}"] = {
                "run": f"mkdir -p out/{n}; echo {made.salt} > out/{n}/salt; cat {inputs} {filtered}> out/{n}/o || :",
                "reads": [f"src/{n}.txt", *(f"out/{p}/o" for p in made.parents)],
                "writes": [f"out/{n}/"],
                "after": [f"s{p}" for p in made.parents] if made.tied else [],
                "isolate": made.isolate,
            }
        return found

    def outputs(self) -> list[str]:
        """What a clean build gives."""
        found: list[str] = []
        for n, made in enumerate(self.dag):
            text = self.sources[n] + "".join(found[p] for p in made.parents)
            found.append("".join(row for row in text.splitlines(True) if not (made.strip and row.startswith("#"))))
        return found

    def expected(self) -> set[str]:
        """The steps that must run now, exactly: those whose inputs they never had."""
        out, run = self.outputs(), set()
        for n, made in enumerate(self.dag):
            given_ = tuple(out[p] for p in made.parents)
            above = tuple((p, self.dag[p].salt) for p in made.parents) if made.tied else ()
            key = (made.salt, self.sources[n], given_, above)
            if key not in self.known[n]:
                self.known[n].add(key)
                run.add(f"s{n}")
        return run

    def below(self, changed: set[int]) -> set[str]:
        """The steps that hang on any of these, themselves included."""
        found = set(changed)
        for n, made in enumerate(self.dag):
            if found & set(made.parents):
                found.add(n)
        return {f"s{n}" for n in found}


def check(folder: Path, dag: tuple[Made, ...], rounds: list[list[Change]], jobs: int) -> None:
    box = Sandbox.init(folder / "repo")
    model = Model(dag, box)
    with Planned(box) as run:
        changed = set(range(len(dag)))
        for changes in [[], *rounds]:
            for change in changes:
                changed |= model.apply(change)
            run.steps = model.steps()
            outcome = run.go(jobs=jobs)
            assert outcome.code == 0, run.events
            ran = run.ran()
            assert len(ran) == len(set(ran))
            assert set(ran) <= model.below(changed)
            assert set(ran) == model.expected()
            for n, text in enumerate(model.outputs()):
                assert (box.path / f"out/{n}/o").read_text() == text
            changed = set()
        before = len(run.records())
        assert run.go(jobs=jobs).code == 0 and not run.ran()
        assert len(run.records()) == before


@sized(0, 4, 200)
def test_r24_random_dags_run_what_changed_and_give_a_clean_build(count: int) -> None:

    @model(count)
    @given(dags(), st.lists(st.lists(CHANGES, min_size=1, max_size=2), min_size=1, max_size=3), st.sampled_from([1, 1, 4]))
    def examples(dag: tuple[Made, ...], rounds: list[list[Change]], jobs: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(Path(folder), dag, rounds, jobs)

    examples()
