"""Random edits and kills: whatever the order, going on ends as a clean run does, and each effect stands once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

from gitbaton.runs.context import POINTS, Done
from gitbaton.runs.effects import settle
from gitbaton.runs.journal.values import Step
from tests.kit import Sandbox
from tests.kit.steps import Runner, listing, sh
from tests.kit.tiers import sized

NAMES = "abc"
SAY = "do $GIT_BATON_STEP $GIT_BATON_IDEMPOTENCY_KEY"
DO = f'grep -qsx "{SAY}" "$X/log" || echo "{SAY}" >> "$X/log"'
UNDO = 'echo "undo $GIT_BATON_STEP $GIT_BATON_COMPENSATES" >> "$X/log"'
PROBE = f'touch "$X/log"; grep -qx "{SAY}" "$X/log"'


def made(name: str, kind: str, isolate: str, after: tuple[str, ...]) -> Step:
    """A step that writes two files, not at once, and has an effect in between."""
    inputs = [f"src/{name}", *(f"out/{a}/x" for a in after)]
    cat = f"cat {' '.join(inputs)}"
    do = DO if kind != "none" else ":"
    line = f"mkdir -p out/{name}; echo torn > out/{name}/x; {do}; {cat} > out/{name}/x; echo y > out/{name}/y"
    effect: dict[str, str] = {} if kind == "none" else {"effect": kind, "compensate": UNDO, "probe": PROBE}
    if kind == "once":
        effect["verify"] = f'test "$({cat})" = "$(cat out/{name}/x)" -a -e out/{name}/y'
    return sh(name, line, reads=inputs, writes=f"out/{name}/**", after=after, isolate=isolate, **effect)


class World:
    """A repository with a chain of three steps, and what happens to it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        repo = Sandbox.init(folder / "repo")
        repo.commit("first", a_txt="one\n")
        repo.write("out/b/theirs", "keep\n")
        for name in NAMES:
            repo.write(f"src/{name}", f"{name} 0\n")
        self.run = Runner(repo)
        self.kinds = {name: self.chance.choice(["none", "idempotent", "once"]) for name in NAMES}

    def steps(self) -> list[Step]:
        isolate = self.chance.choice(["none", "tree", "auto"])
        return [made(n, self.kinds[n], isolate, tuple(NAMES[:i][-1:])) for i, n in enumerate(NAMES)]

    def happen(self) -> None:
        """An edit now and then, and a run that is killed, at a point or at any time."""
        if self.chance.random() < 0.4:
            name = self.chance.choice(NAMES)
            self.run.repo.write(f"src/{name}", f"{name} {self.chance.randint(0, 2)}\n")
        point = self.chance.choice(POINTS) if self.chance.random() < 0.6 else "never"
        pid = os.fork()
        if pid == 0:
            try:
                os.environ["GIT_BATON_CRASH_AT"] = point
                self.run.go(*self.steps())
            finally:
                os._exit(0)
        if point == "never":
            time.sleep(self.chance.uniform(0, 0.12))
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def finish(self) -> Done:
        """Go on to the end; where nobody knows, a person undoes the effect and says so."""
        done = self.run.go(*self.steps())
        while done.state == "unknown":
            assert done.logged is not None
            log = self.run.outside / "log"
            log.write_text("".join(f"{line}\n" for line in self.run.lines("log") if str(done.logged.record.idem) not in line))
            with self.run.open() as ctx:
                settle(ctx, done.step, False)
            done = self.run.go(*self.steps())
        return done

    def standing(self) -> Counter[str]:
        """How many effects of each step stand."""
        keys: dict[str, set[str]] = {name: set() for name in NAMES}
        for verb, step, key in (line.split() for line in self.run.lines("log")):
            (keys[step].add if verb == "do" else keys[step].discard)(key)
        return Counter({name: len(found) for name, found in keys.items()})


@sized(0, 4, 150)
def test_whatever_happens_it_ends_as_a_clean_run(count: int, tmp_path: Path) -> None:
    for seed in range(count):
        world = World(tmp_path / str(seed), seed)
        for _ in range(world.chance.randint(2, 5)):
            world.happen()
        done = world.finish()
        assert done.good, (seed, done)
        run, text = world.run, ""
        wanted = {"a.txt": b"one\n", "out/b/theirs": b"keep\n"}
        for name in NAMES:
            source = run.read(f"src/{name}")
            text = source + text
            wanted |= {f"src/{name}": source.encode(), f"out/{name}/x": text.encode(), f"out/{name}/y": b"y\n"}
        assert listing(run.repo.path) == wanted, seed
        assert world.standing() == {name: int(world.kinds[name] != "none") for name in NAMES}, seed
        assert [run.go(step).state for step in world.steps()] == ["cached"] * 3, seed
        assert [path.name for path in (tmp_path / str(seed)).iterdir() if path.name.startswith("gitbaton")] == []
        run.checked()
