"""The bench of eight agents at once: work trees of two clones of one hub, all verbs at random, for some seconds.

What each verb took at most, how it ended, and whether what was acknowledged is still there.
"""

from __future__ import annotations

import json
import os
import random
import re
import statistics
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitbaton.base.codec import earlier_ids
from tests.kit.clones import State

CLONES, TREES = 2, 4  # eight agents
SHARED = ("main", "api", "docs", "pay")  # tracks that several write
VERBS = (
    *("snapshot",) * 10,
    *("sync",) * 5,
    *("push",) * 3,
    *("fetch",) * 3,
    *("status",) * 2,
    *("log", "resume", "verify", "diff", "commit"),
    *("tracks delete", "tracks delete", "tracks rename", "forget", "prune", "pin", "restore", "undo", "gc"),
)
# How a verb may end: 0, and 1 where the answer is no. 2 where what was named is gone; else never.
_LOST = re.compile(r"no track|no such|no checkpoint|is not a checkpoint|names no|there is no|nothing")


@dataclass(frozen=True)
class Done:
    """One verb, as it ended."""

    agent: int
    verb: str
    words: tuple[str, ...]
    seconds: float
    code: int
    out: str
    err: str

    @property
    def bad(self) -> bool:
        """Whether it failed as a whole where it should not."""
        exchanged = self.verb in ("sync", "push", "fetch")
        if self.code in (0, 1):
            return (exchanged and "fatal:" in self.err) or "cannot lock" in self.err
        return not (self.code == 2 and not exchanged and _LOST.search(self.err))


@dataclass
class Crowd:
    """Agents at work; ``acknowledged``: the track of each snapshot that was said to be taken, by its id."""

    folder: Path
    env: Mapping[str, str]
    seed: int = 0
    done: list[Done] = field(default_factory=list)
    acknowledged: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def hub(self) -> Path:
        return self.folder / "hub.git"

    def tree(self, agent: int) -> Path:
        """The work tree of an agent."""
        clone = self.folder / f"clone{agent // TREES}"
        return clone if agent % TREES == 0 else self.folder / f"tree{agent}"

    def git(self, cwd: Path, *words: str) -> str:
        """The output of a git command that must succeed."""
        return subprocess.run(["git", *words], cwd=cwd, env=dict(self.env), check=True, capture_output=True, text=True).stdout

    def prepare(self, files: int = 40) -> None:
        """The hub, its clones, and their work trees."""
        self.folder.mkdir(parents=True)
        self.git(self.folder, "init", "-q", "--bare", "-b", "main", str(self.hub))
        first = self.tree(0)
        self.git(self.folder, "clone", "-q", str(self.hub), str(first))
        self.git(first, "symbolic-ref", "HEAD", "refs/heads/main")
        for number in range(files):
            (first / f"f{number}.txt").write_text(f"file {number}\n" * 10)
        self.git(first, "add", "-A")
        self.git(first, "commit", "-q", "-m", "first")
        self.git(first, "push", "-q", "origin", "main")
        for number in range(1, CLONES):
            self.git(self.folder, "clone", "-q", str(self.hub), str(self.tree(number * TREES)))
        for agent in range(CLONES * TREES):
            if agent % TREES:
                clone = self.tree(agent // TREES * TREES)
                self.git(clone, "worktree", "add", "-q", "-b", f"agent{agent}", str(self.tree(agent)))
        for number in range(CLONES):
            self.git(self.tree(number * TREES), "config", "baton.push", "true")

    def baton(self, agent: int, verb: str, *words: str) -> Done:
        """Carry out a verb, and note how it ended."""
        began = time.monotonic()
        command = ("git-baton", *verb.split(), *words)
        found = subprocess.run(command, cwd=self.tree(agent), env=dict(self.env), capture_output=True, text=True)
        done = Done(agent, verb, words, time.monotonic() - began, found.returncode, found.stdout, found.stderr)
        with self.lock:
            self.done.append(done)
        return done

    def chains(self, agent: int) -> list[str]:
        """The tracks of an agent's clone."""
        raw = self.git(self.tree(agent), "for-each-ref", "--format=%(refname)", "refs/baton/tracks/")
        return [row.removeprefix("refs/baton/tracks/") for row in raw.split()]

    def ids(self, agent: int, track: str) -> list[str]:
        """The ids of a track's checkpoints, newest first."""
        found = subprocess.run(
            ["git-baton", "log", track, "--json"], cwd=self.tree(agent), env=dict(self.env), capture_output=True, text=True
        )
        try:
            return [row["id"] for row in json.loads(found.stdout)["checkpoints"]] if found.returncode == 0 else []
        except (KeyError, ValueError):
            return []

    def work(self, agent: int, until: float, count: int | None = None) -> None:
        """Be an agent until then, or for so many verbs."""
        chance, number = random.Random(self.seed * 100 + agent), 0
        while time.monotonic() < until and (count is None or number < count):
            number += 1
            self.step(agent, chance.choice(VERBS), chance, number)

    def step(self, agent: int, verb: str, chance: random.Random, number: int) -> None:
        """One verb of an agent."""
        tree, own = self.tree(agent), f"own{agent}-{number // 12}"
        track = chance.choice((own, own, *SHARED))
        if verb == "snapshot":
            (tree / f"f{chance.randrange(40)}.txt").write_text(f"{agent} {number} {time.time_ns()}\n")
            done = self.baton(agent, verb, "--track", track, "--json", f"step {number} of {agent}")
            if done.code == 0:
                with self.lock:
                    self.acknowledged[json.loads(done.out)["checkpoint"]["id"]] = track
        elif verb in ("sync", "push", "fetch"):
            some = [chance.choice(self.chains(agent) or SHARED)] if chance.random() < 0.15 else []
            self.baton(agent, verb, "origin", *some, *(["--yes"] if verb != "fetch" else []))
        elif verb == "commit":
            self.git(tree, "add", "-A")
            subprocess.run(["git", "commit", "-q", "-m", f"c{number}"], cwd=tree, env=dict(self.env), capture_output=True)
        elif verb == "gc":
            self.baton(agent, "doctor")
        elif verb in ("tracks delete", "tracks rename", "forget", "prune", "pin"):
            chains = [name for name in self.chains(agent) if name not in SHARED or verb != "tracks rename"]
            if not chains:
                return
            name = chance.choice(chains)
            if verb == "tracks delete":
                self.baton(agent, verb, name, "--yes")
            elif verb == "tracks rename":
                self.baton(agent, verb, name, f"{name}r{number}")
            elif verb == "prune":
                self.baton(agent, verb, name, "--keep-last", "5")
            elif ids := self.ids(agent, name):
                self.baton(agent, verb, chance.choice(ids), *(["--yes", "--force"] if verb == "forget" else []))
        elif verb in ("status", "verify", "resume", "log", "diff"):
            words = {"status": (), "log": ("--all", "-n", "20"), "diff": ()}.get(verb, ("--track", track))
            self.baton(agent, verb, *words)
        elif verb == "restore":
            self.baton(agent, verb, track, "--yes")
        else:
            self.baton(agent, verb)

    def run(self, seconds: float, count: int | None = None) -> None:
        """All agents at once, for so many seconds, or so many verbs each."""
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self.work, args=(agent, until, count)) for agent in range(CLONES * TREES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def bad(self) -> list[Done]:
        """Verbs that ended as none should."""
        return [done for done in self.done if done.bad]

    def lost(self) -> set[str]:
        """The ids of acknowledged snapshots that are in no chain and that nobody dropped."""
        states = [State(self.tree(number * TREES)) for number in range(CLONES)]
        items = [item for state in states for chain in state.chains.values() for item in chain]
        there = {oid for item in items for oid in (item.id, *earlier_ids(item.raw))}
        return {oid for oid in self.acknowledged if oid not in there and not any(s.meta.dropped(oid) for s in states)}

    def table(self) -> str:
        """What each verb took and how it ended, as Markdown."""
        lines = ["| verb | runs | median s | slowest s | exit codes | bad |", "|---|---:|---:|---:|---|---:|"]
        for verb in sorted({done.verb for done in self.done}):
            rows = [done for done in self.done if done.verb == verb]
            took = [done.seconds for done in rows]
            codes = {code: sum(done.code == code for done in rows) for code in sorted({done.code for done in rows})}
            said = ", ".join(f"{code}: {many}" for code, many in codes.items())
            bad = sum(done.bad for done in rows)
            lines.append(f"| {verb} | {len(rows)} | {statistics.median(took):.2f} | {max(took):.2f} | {said} | {bad} |")
        return "\n".join(lines)


def main(folder: Path, env: dict[str, str], seconds: float, seed: int) -> list[str]:
    """The table, and each verb that ended as none should."""
    crowd = Crowd(folder / f"crowd{seed}-{os.getpid()}", env, seed)
    crowd.prepare()
    crowd.run(seconds)
    lost = [f"{len(crowd.acknowledged)} snapshots acknowledged, {len(crowd.lost())} lost"]
    bad = [f"agent {d.agent}: {d.verb} {' '.join(d.words)}: exit {d.code}\n{d.out}{d.err}" for d in crowd.bad()]
    return [crowd.table(), *lost, *bad]
