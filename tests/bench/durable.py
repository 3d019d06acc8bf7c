"""Repair against restart: steps with faults, somebody else's work beside them, and a source that is corrected late."""

from __future__ import annotations

import hashlib
import json
import random
import resource
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.bench.harness import Row, pair

CALLS = 6  # how often a driver is called again before it has failed
STEP = r"""#!/bin/sh
# step.sh NAME SECONDS EFFECT PARENT...: what it does is told outside the repository, in $WORLD
name=$1 seconds=$2 effect=$3; shift 3
echo x >> "$WORLD/tries/$name"
fault=$(cat "$WORLD/faults/$name.$(wc -l < "$WORLD/tries/$name" | tr -d ' ')" 2> /dev/null)
echo "$name" >> "$WORLD/work"
sleep "$seconds"
digest=$({ cat "src/$name"; for p; do cat "out/$p/a" "out/$p/b" || exit 9; done; } | sha256sum | cut -c 1-16) || exit 9
key=${GIT_BATON_IDEMPOTENCY_KEY:-$name.$$}
if [ "$effect" = 1 ] && ! grep -q "^do $name $key " "$WORLD/effects"; then echo "do $name $key $digest" >> "$WORLD/effects"; fi
mkdir -p "out/$name"
case $fault in
  torn) echo torn > "out/$name/a"; echo junk > "out/$name/junk"; exit 1 ;;
  killed) echo torn > "out/$name/a"; kill -9 "-$(cat "$WORLD/driver")"; sleep 5 ;;
  empty) echo "$digest" > "out/$name/a"; rm -f "out/$name/b"; exit 0 ;;
  stray) echo scribble > theirs/open; exit 1 ;;
esac
echo "$digest a" > "out/$name/a"
echo "$digest b" > "out/$name/b"
"""
THEIRS = {"tracked": "base\nhalf written\n", "theirs/open": "base\nbeing edited\n", "theirs/new": "new\n"}


@dataclass(frozen=True)
class Step:
    """A step of the plan; ``cost`` in milliseconds."""

    name: str
    parents: tuple[str, ...]
    cost: int
    effect: bool

    @property
    def words(self) -> list[str]:
        return ["./step.sh", self.name, str(self.cost / 1000), str(int(self.effect)), *self.parents]


@dataclass(frozen=True)
class Case:
    """What a seed makes: steps in an order in which they can run, faults of first attempts, a source that is corrected when
    all is done, and one that is only touched."""

    steps: tuple[Step, ...]
    faults: Mapping[str, str]
    corrected: str
    touched: str

    def outputs(self, sources: Mapping[str, str]) -> dict[str, str]:
        """What a clean build of these sources makes, by path."""
        made: dict[str, str] = {}
        for step in self.steps:
            parts = [sources[step.name], *(made[f"out/{p}/{name}"] for p in step.parents for name in "ab")]
            digest = hashlib.sha256("".join(parts).encode()).hexdigest()[:16]
            made |= {f"out/{step.name}/{name}": f"{digest} {name}\n" for name in "ab"}
        return made

    def ideal(self) -> int:
        """Milliseconds of work when each step that is needed runs once."""
        again = {self.corrected}
        for step in self.steps:
            again |= {step.name} if again & {*step.parents} else set()
        return sum(s.cost * (1 + (s.name in again)) for s in self.steps)


@dataclass(frozen=True)
class Result:
    """What became of one seed under one driver."""

    outputs: bool
    theirs: bool
    effects: bool
    duplicates: int
    work: float
    seconds: float


def case(seed: int, count: int) -> Case:
    """The case of a seed: a layered graph of so many steps."""
    rng = random.Random(seed)
    steps: list[Step] = []
    for number in range(count):
        near = [s.name for s in steps[-4:]]
        parents = rng.sample(near, min(len(near), rng.choice((0, 1, 1, 1, 2, 2))))
        steps.append(Step(f"s{number}", tuple(sorted(parents)), rng.choice((10, 20, 30, 50)), rng.random() < 0.25))
    names = [s.name for s in steps]
    faults: dict[str, str] = {}
    for kind in ("torn", "killed", "empty", "stray"):
        if rng.random() < 0.67:
            faults.setdefault(rng.choice(names), kind)
    early = names[: count // 2]
    return Case(tuple(steps), faults, rng.choice(early), rng.choice(early))


def plan(steps: tuple[Step, ...]) -> str:
    """The steps as a plan file."""
    rows = []
    for s in steps:
        reads = [f"src/{s.name}", "step.sh", *(f"out/{p}/**" for p in s.parents)]
        rows += [f"[step.{s.name}]", f"argv = {json.dumps(s.words)}", f"reads = {json.dumps(reads)}"]
        rows += [f"writes = {json.dumps([f'out/{s.name}/{name}' for name in 'ab'])}", f"after = {json.dumps(s.parents)}"]
        rows += ["retries = 3", 'backoff = "10ms"', 'isolate = "tree"']
        undo = f'echo "undo {s.name} $GIT_BATON_COMPENSATES" >> "$WORLD/effects"'
        rows += ['effect = "idempotent"', f"compensate = {json.dumps(undo)}"] if s.effect else []
    return "\n".join(rows) + "\n"


def restart(steps: tuple[Step, ...]) -> str:
    """The steps as a script that begins anew each time it is called."""
    return "\n".join(["set -e", "rm -rf out", *(" ".join(s.words) for s in steps)]) + "\n"


class Scene:
    """A repository with a case in it, the world outside, and somebody else who goes on appending to a file."""

    def __init__(self, folder: Path, env: dict[str, str], case: Case) -> None:
        self.case, self.repo, self.world = case, folder / "repo", folder / "world"
        self.env = {**env, "WORLD": str(self.world)}
        self.sources = {s.name: f"{s.name} v1\n" for s in case.steps}
        for place in ("tries", "faults"):
            (self.world / place).mkdir(parents=True)
        for name, text in {
            "work": "",
            "effects": "",
            "baton.toml": plan(case.steps),
            "restart.sh": restart(case.steps),
        }.items():
            (self.world / name).write_text(text)
        for name, kind in case.faults.items():
            (self.world / "faults" / f"{name}.1").write_text(kind)
        self._write({"step.sh": STEP, **dict.fromkeys(THEIRS, "base\n"), **{f"src/{k}": v for k, v in self.sources.items()}})
        (self.repo / "step.sh").chmod(0o755)
        (self.repo / "theirs/new").unlink()
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first")):
            subprocess.run(("git", *words), cwd=self.repo, env=env, check=True)
        self._write(THEIRS)

    def _write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.repo / name).parent.mkdir(parents=True, exist_ok=True)
            (self.repo / name).write_text(text)

    def call(self, driver: list[str]) -> tuple[int, float]:
        """Call a driver once, as the leader of a process group; its exit status and the seconds it took."""
        begun = time.perf_counter()
        with subprocess.Popen(
            driver,
            cwd=self.repo,
            env=self.env,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as child:
            (self.world / "driver").write_text(str(child.pid))
        return child.returncode, time.perf_counter() - begun

    def run(self, driver: list[str]) -> Result:
        """Call the driver until all is done; correct a source and touch another; call it again."""
        written, stop = [0], threading.Event()
        other = threading.Thread(target=self._append, args=(written, stop))
        other.start()
        seconds, right = 0.0, True
        for phase in (1, 2):
            for _ in range(CALLS):
                code, spent = self.call(driver)
                seconds += spent
                if code == 0:
                    break
            right = right and code == 0 and self._made() == self.case.outputs(self.sources)
            if phase == 1:
                self.sources[self.case.corrected] = f"{self.case.corrected} v2\n"
                self._write({f"src/{name}": self.sources[name] for name in (self.case.corrected, self.case.touched)})
        stop.set()
        other.join()
        lines = (self.repo / "theirs/live").read_text().splitlines()
        kept = lines == [str(n) for n in range(written[0])]
        kept = kept and all((self.repo / name).read_text() == text for name, text in THEIRS.items())
        return self._judged(right, kept, seconds)

    def _append(self, written: list[int], stop: threading.Event) -> None:
        while not stop.is_set():
            with open(self.repo / "theirs/live", "a") as file:
                file.write(f"{written[0]}\n")
            written[0] += 1
            time.sleep(0.004)

    def _made(self) -> dict[str, str]:
        files = (p for p in (self.repo / "out").rglob("*") if p.is_file())
        return {str(p.relative_to(self.repo)): p.read_text() for p in files}

    def _judged(self, right: bool, kept: bool, seconds: float) -> Result:
        """What the world says: each effect is there once, from the final sources; what was worked beside the ideal."""
        live: dict[str, list[tuple[str, str]]] = {s.name: [] for s in self.case.steps if s.effect}
        for row in (self.world / "effects").read_text().splitlines():
            _, step, key, *digest = row.split()  # an undone one has no digest
            live[step] = [e for e in live[step] if e[0] != key] + [(key, text) for text in digest]
        want = self.case.outputs(self.sources)
        exactly = all([d for _, d in found] == [want[f"out/{s}/a"].split()[0]] for s, found in live.items())
        cost = {s.name: s.cost for s in self.case.steps}
        work = sum(cost[name] for name in (self.world / "work").read_text().split()) / self.case.ideal()
        return Result(right, kept, exactly, sum(max(0, len(f) - 1) for f in live.values()), work, seconds)


def main(folder: Path, env: dict[str, str], runs: int, seeds: int, count: int) -> tuple[list[Row], list[str]]:
    """The table of both drivers over the seeds, and what a step costs more than in a plain script."""
    results: dict[str, list[Result]] = {"restart": [], "git baton run": []}
    for seed in range(seeds):
        for name, found in results.items():
            place = folder / f"durable-{seed}-{len(name)}"
            scene = Scene(place, env, case(seed, count))
            ours = ["git-baton", "run", "--plan", str(scene.world / "baton.toml"), "--run", "bench"]
            found.append(scene.run(ours if name == "git baton run" else ["sh", str(scene.world / "restart.sh")]))
            shutil.rmtree(place, ignore_errors=True)  # git may be packing there in the background
    row, processor = overhead(folder / "durable-overhead", env, runs, count)
    each = f"a step costs {(row.ours - row.theirs) / count:.1f} ms more than in a plain script, git baton's start included;"
    return [row], [table(results), f"{each} {processor / count:.1f} ms more of the processor"]


def table(results: Mapping[str, list[Result]]) -> str:
    """The results of each driver in one row, as Markdown."""
    heads = ["driver", "success", "outputs right", "work in progress kept", "effects exactly once", "duplicates"]
    heads += ["work / ideal", "wall s"]
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, found in results.items():
        shares = [
            [r.outputs and r.theirs and r.effects for r in found],
            [r.outputs for r in found],
            [r.theirs for r in found],
            [r.effects for r in found],
        ]
        cells = [f"{100 * sum(share) / len(found):.0f} %" for share in shares]
        cells += [str(sum(r.duplicates for r in found)), f"{statistics.median(r.work for r in found):.2f}"]
        cells += [f"{statistics.median(r.seconds for r in found):.2f}"]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def overhead(folder: Path, env: dict[str, str], runs: int, count: int) -> tuple[Row, float]:
    """A plan without faults from its beginning, beside the same steps in a plain script; and how many more milliseconds of
    the processor it takes, which others on the machine change less."""
    shutil.rmtree(folder, ignore_errors=True)
    steps = tuple(Step(s.name, s.parents, 0, s.effect) for s in case(0, count).steps)
    scene = Scene(folder, env, Case(steps, {}, steps[0].name, steps[0].name))
    fresh = iter(range(1 << 30))
    marks: list[float] = []

    def before() -> None:
        """Other sources, so that no earlier run can serve a result."""
        marks.append(processor())
        number = next(fresh)
        shutil.rmtree(scene.repo / "out", ignore_errors=True)
        for name in scene.sources:
            (scene.repo / "src" / name).write_text(f"{name} {number}\n")
        (scene.world / "run").write_text(f"bench-{number}")

    ours = ("sh", "-c", f'exec git-baton run --plan "{scene.world}/baton.toml" --run "$(cat "{scene.world}/run")"')
    theirs = ("sh", str(scene.world / "restart.sh"))
    work = f"a plan of {count} steps, isolated"
    row = pair(work, ours, theirs, scene.repo, scene.env, runs=runs, before=before, yardstick="sh")
    spent = [after - begun for begun, after in pairwise([*marks, processor()])]
    return row, statistics.median(a - b for a, b in zip(spent[2::2], spent[3::2], strict=True))


def processor() -> float:
    """Milliseconds of the processor that the children of this process have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000
