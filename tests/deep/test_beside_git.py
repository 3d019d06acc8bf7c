"""Agents keep checkpoints while git commits, amends, rebases, stashes and collects: a model holds every byte, and 0 are lost.

``GITBATON_BESIDE=900`` makes it fifteen minutes.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.kit.beside import Agent, Collector, Linked, World, Writer, check, report, rounds, verbs

SECONDS = float(os.environ.get("GITBATON_BESIDE", "15"))
SEED = int(os.environ.get("GITBATON_BESIDE_SEED", "19"))


def test_beside_everything_that_git_does_nothing_is_lost(tmp_path: Path) -> None:
    world = World(tmp_path)
    agent = Agent(world, world.trees[0], SEED, ("main", "shared"))
    workers = (agent, Linked(world, SEED + 1), Writer(world, SEED + 2), Collector(world, SEED + 3))
    try:
        rounds(world, workers, SECONDS, each=min(30.0, SECONDS / 3))
    finally:
        print(report(world))
    check(world, every_byte=True)
    assert not world.unknown, "\n".join(world.unknown)
    assert verbs(world) == {}
    check(world, every_byte=True)
