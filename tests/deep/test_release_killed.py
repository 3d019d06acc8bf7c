"""A release is killed at random moments: each effect happens once, and what lies there in the end is what a clean run gives."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.kit import Sandbox
from tests.kit.planned import toml
from tests.kit.steps import listing
from tests.kit.tiers import sized

KEY = "$GIT_BATON_IDEMPOTENCY_KEY"
UNDO = 'grep -q "^undo $GIT_BATON_COMPENSATES" ../log || echo "undo $GIT_BATON_COMPENSATES" >> ../log'


def once(name: str, after: str, **more: Any) -> dict[str, Any]:
    """A step that may happen only once, and can be asked about."""
    line = f'sleep 0.05; echo "{name} {KEY} $(cksum < report)" >> ../log; sleep 0.05'
    probe = f'grep -q "^{name} {KEY}" ../log'
    return {"run": line, "reads": ["report"], "after": [after], "effect": "once", "probe": probe, **more}


def shape(number: int) -> dict[str, Any]:
    out = f"out/{number}"
    line = f"mkdir -p {out}/empty; chmod 2775 {out}/empty; echo torn > {out}/a; sleep 0.05; sort -r data/{number} > {out}/a"
    return {"run": line, "reads": [f"data/{number}"], "writes": [f"{out}/**"], "after": ["fetch"], "retries": 1}


FETCH = "mkdir -p data/spool; for n in 1 2 3 4; do sed s/^/$n:/ src/list > data/$n; sleep 0.02; done"
TEST = "cat out/1/a out/2/a out/3/a out/4/a > report; test $(wc -l < report) = 12"
PLAN: Mapping[str, Mapping[str, Any]] = {
    "fetch": {"run": FETCH, "reads": ["src/**"], "writes": ["data/**"]},
    **{f"shape{number}": shape(number) for number in range(1, 5)},
    "test": {"run": TEST, "reads": ["out/**"], "writes": ["report"], "verify": "test -s report"},
    "deploy": once("deploy", "test", gate="release this?", compensate=UNDO),
    "notify": once("notify", "deploy"),
}
GO, OPEN = ("--plan", "plan.toml", "--run", "r", "--jobs", "4"), ("approve", "deploy", "--run", "r")
# What is done one after the other: up to the gate, through it, and both again after a correction.
STORY: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("one", GO, 75),
    ("", OPEN, 0),
    ("", GO, 0),
    ("two", GO, 75),
    ("", OPEN, 0),
    ("", GO, 0),
)


class Release:
    """A repository with the plan, and the world outside beside it."""

    def __init__(self, place: Path) -> None:
        place.mkdir()
        self.box = Sandbox.init(place / "repo")
        self.world = place / "log"
        self.world.touch()
        self.box.write("plan.toml", toml(PLAN))
        self.box.commit("plan")

    def does(self, words: tuple[str, ...]) -> subprocess.Popen[bytes]:
        """A command that is begun, in a process group of its own."""
        argv = [sys.executable, "-m", "gitbaton", "run", *words]
        null = subprocess.DEVNULL
        return subprocess.Popen(argv, cwd=self.box.path, stdout=null, stderr=null, start_new_session=True)

    def corrects(self, text: str) -> None:
        """Write the source anew, where there is anything to write."""
        if text:
            self.box.write("src/list", f"b {text}\na {text}\nc {text}\n")

    def goes_on(self, code: int) -> None:
        """The same line, and the answer to its question, until it comes to what it was to come to."""
        done = self.box.baton("run", *GO)
        assert done.code == code or (done.code, code) == (75, 0), done
        if done.code != code:
            self.box.ok("run", *OPEN)
            self.box.ok("run", *GO)

    def left(self) -> tuple[dict[str, bytes], dict[str, int], list[str]]:
        """The files, the permissions of all folders and files, and what happened outside."""
        place = self.box.path
        paths = [path for path in place.rglob("*") if path.relative_to(place).parts[0] != ".git"]
        modes = {str(path.relative_to(place)): path.stat().st_mode for path in paths}
        return listing(place), modes, self.world.read_text().splitlines()


def descendants(pid: int) -> list[int]:
    """A process and all that it started."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(place.parent.name)] = int(fields[1])
    found = [pid]
    for each in found:
        found += [child for child, above in parents.items() if above == each]
    return found


def kill(process: subprocess.Popen[bytes], how: str) -> None:
    """Kill a runner alone, its process group, or all that it started, too."""
    if how == "group":
        os.killpg(process.pid, signal.SIGKILL)
    for pid in descendants(process.pid) if how == "all" else [process.pid] if how == "alone" else []:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(60)


def effects(log: list[str]) -> list[str]:
    """What happened, without the keys."""
    return [" ".join(word for word in line.split() if len(word) < 64) for line in log]


@sized(0, 3, 50)
def test_a_release_that_is_killed_at_any_moment_ends_as_a_clean_one(tmp_path: Path, count: int) -> None:
    clean, seconds = Release(tmp_path / "clean"), list[float]()
    for text, argv, code in STORY:
        clean.corrects(text)
        began = time.monotonic()
        assert clean.does(argv).wait(120) == code
        seconds.append(time.monotonic() - began)
    files, modes, log = clean.left()
    happened = [line.split()[0] for line in log]
    assert happened == ["deploy", "notify", "undo", "deploy", "notify"] and modes["out/1/empty"] & 0o7777 == 0o2775
    killed, tries = dict.fromkeys(("alone", "group", "all"), 0), 0
    while sum(killed.values()) < count:  # one that ended before its moment came is no kill
        number, tries = tries, tries + 1
        assert tries <= 4 * count, killed
        draw = random.Random(number)
        part = draw.choices(range(len(STORY)), seconds)[0]
        moment, how = draw.uniform(0, 0.8 * seconds[part]), min(killed, key=killed.__getitem__)
        release = Release(tmp_path / str(number))
        for place, (text, argv, code) in enumerate(STORY):
            release.corrects(text)
            if place == part:
                process = release.does(argv)
                try:
                    process.wait(moment)
                except subprocess.TimeoutExpired:
                    kill(process, how)
                    killed[how] += 1
            if argv is GO:
                release.goes_on(code)
            elif place != part:
                release.box.ok("run", *argv)
        said = f"{number}: killed {how} {moment:.3f} s into command {part}"
        have = release.left()
        assert have[:2] == (files, modes), said
        assert effects(have[2]) == effects(log), said
        release.box.ok("run", "verify", "r")
        assert release.box.git("worktree", "list").count("\n") == 0, said
        assert "finished" in release.box.ok("run", "list").out and "not finished" not in release.box.ok("run", "list").out
        release.box.fsck()
    print(f"{killed} of {tries} releases; a clean one took {sum(seconds):.1f} s")
