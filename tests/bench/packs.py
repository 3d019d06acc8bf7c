"""The bench of packs with ``gc.auto=0``: turns in a row, how many packs they leave, and what they and ``status`` take then."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gitbaton.git.maintenance import PACKS
from tests.bench.agents import hook, payload
from tests.bench.baton import make
from tests.bench.harness import once

TURNS, FILES, EDITS = 400, 100, 3


def turn(path: Path, env: dict[str, str], number: int) -> float:
    """What the end of a turn takes that changed some files."""
    said = payload(path.parent / "event.json", path, prompt=f"turn {number}")
    once(hook("UserPromptSubmit"), path, env, said)
    for place in range(EDITS):
        (path / f"turn-{place}.txt").write_text(f"{number} {place}\n")
    return once(hook("Stop"), path, env, said)


def main(folder: Path, env: dict[str, str], turns: int = TURNS) -> list[str]:
    """A line each for the first and the last turns, and how many packs there were at most."""
    path = make(folder / "packs", FILES, env)
    for words in (("git", "config", "gc.auto", "0"), ("git-baton", "snapshot", "begun")):
        subprocess.run(words, cwd=path, env=env, check=True, stdout=subprocess.DEVNULL)
    took, most = list[float](), 0
    for number in range(turns):
        took.append(turn(path, env, number))
        most = max(most, len([*(path / ".git/objects/pack").glob("*.pack")]))
    status = statistics.median(once(("git-baton", "status"), path, env) for _ in range(5))
    return [
        f"with gc.auto=0, {turns} turns of {EDITS} files each: at most {most} packs; more than {PACKS} of ours are gathered",
        f"the end of a turn: first ten {_median(took[:10])}, last ten {_median(took[-10:])}, slowest {max(took):.0f} ms",
        f"status after that: {status:.0f} ms",
    ]


def _median(took: Sequence[float]) -> str:
    return f"{statistics.median(took):.0f} ms"
