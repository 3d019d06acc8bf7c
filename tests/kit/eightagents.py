"""A day of eight agents in eight work trees of a repository, by script: what each prompt tells, and what git merge says."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.kit.agents import Client
from tests.kit.pairs import insert, line
from tests.kit.repos import Sandbox

NAMES = ("api", "web", "auth", "docs", "jobs", "mail", "pay", "search")
FILES, LINES = 10, 60
_ROW = re.compile(r"(src/m\d+\.py)(?: lines? (\S[^:]*))?: track '(\w+)' (?:changed|removed|added)")


@dataclass(frozen=True)
class Said:
    """One prompt: who got it and in which turn, the lines about overlaps that it told, each (file, other track), and the
    (file, other track) that ``git merge`` stops at; ``commit``: the agent had committed, or merged that other one."""

    who: str
    turn: int
    rows: tuple[str, ...]
    told: frozenset[tuple[str, str]]
    judged: frozenset[tuple[str, str]]
    did: str


class Day:
    """The repository, and its agents."""

    def __init__(self, path: Path, home: Path, seed: int) -> None:
        self.chance, self.path = random.Random(seed), path
        path.mkdir(exist_ok=True)
        home.mkdir(exist_ok=True)
        self.repo = Sandbox.init(path / "repo")
        for n in range(FILES):
            self.repo.write(f"src/m{n}.py", "".join(f"row {n}.{m}\n" for m in range(1, LINES + 1)))
        self.repo.git("add", "-A")
        self.repo.git("commit", "-q", "-m", "base")
        self.repo.ok("snapshot", "begun", "--track", "main")
        self.judge = path / "judge"
        self.repo.git("worktree", "add", "-q", "--detach", str(self.judge))
        self.boxes, self.agents = dict[str, Sandbox](), dict[str, Client]()
        for name in NAMES:
            self.repo.git("worktree", "add", "-q", str(path / name), "-b", name)
            self.boxes[name] = Sandbox(path / name)
            self.agents[name] = Client("claude", path / name, session=f"day-{name}", home=home)

    def turns(self, count: int) -> Iterator[Said]:
        """So many turns, of whichever agent; each begins with a prompt."""
        for number in range(1, count + 1):
            who = self.chance.choice(NAMES)
            agent, box = self.agents[who], self.boxes[who]
            judged = self.conflicts(who)
            text = agent.fire("prompt", prompt=f"{who} turn {number}")
            rows = tuple(row for row in text.splitlines() if _ROW.match(row))
            told = frozenset((match[1], match[3]) for row in rows if (match := _ROW.match(row)))
            did = self.work(who, number)
            agent.fire("turn")
            yield Said(who=who, turn=number, rows=rows, told=told, judged=judged, did=did)
            assert box.path.exists()

    def work(self, who: str, number: int) -> str:
        """What an agent does in a turn: it edits a few lines; now and then it commits, or merges what another one committed."""
        box, did = self.boxes[who], list[str]()
        for _ in range(self.chance.randint(1, 3)):
            path, at = f"src/m{self.chance.randrange(FILES)}.py", self.chance.randrange(1, LINES - 2)
            if "<<<<<<<" in (box.path / path).read_text():
                continue
            (line(path, at, f"{who} {number}") if self.chance.random() < 0.8 else insert(path, at, f"{who} {number}"))(box.path)
            did.append(f"{path}:{at}")
        if self.chance.random() < 0.3:
            box.git("commit", "-qam", f"{who} {number}")
            other = self.chance.choice([name for name in NAMES if name != who])
            if box.try_git("merge", "-q", "--no-edit", other).code == 0:
                did.append(f"committed, merged {other}")
            else:
                box.git("merge", "--abort")
                did.append("committed")
        return ", ".join(did)

    def conflicts(self, who: str) -> frozenset[tuple[str, str]]:
        """What ``git merge`` stops at for the newest checkpoints of this track and each other one."""
        found = set[tuple[str, str]]()
        mine, box = self.commit(who), Sandbox(self.judge)
        for name in NAMES:
            theirs = self.commit(name) if name != who else None
            if mine is None or theirs is None:
                continue
            box.git("checkout", "-q", "-f", "--detach", mine)
            if box.try_git("merge", "-q", "--no-edit", theirs).code != 0:
                paths = {row.partition("\t")[2] for row in box.git("ls-files", "-u", "-z").split("\0")[:-1]}
                found |= {(path, name) for path in paths}
                box.git("merge", "--abort")
        return frozenset(found)

    def commit(self, name: str) -> str | None:
        """A commit of the newest checkpoint of a track, on the HEAD that it has; None where there is none."""
        chain = f"refs/baton/tracks/{name}"
        if self.repo.try_git("rev-parse", "-q", "--verify", chain).code != 0:
            return None
        head = self.repo.baton("show", name, "--json").json["checkpoint"]["head"]
        return self.repo.git("commit-tree", "-p", head, "-m", name, f"{chain}^{{tree}}")
