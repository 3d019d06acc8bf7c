"""Blame against a model: every line's origin, in a history of two tracks, commits, merges, renames and restores."""

from __future__ import annotations

import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gitbaton import Baton
from gitbaton.base.model import Stored
from gitbaton.care.tools.blaming import blame
from tests.kit import Sandbox
from tests.kit.tiers import sized

PLACES = ("main", "side")


class World:
    """A repository with a linked work tree, a track in each, and what the model knows of both."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        folder.mkdir()
        self.box = Sandbox.init(folder / "main")
        self.box.commit("first", name_txt="".join(f"base {n}\n" for n in range(30)))
        self.box.git("worktree", "add", "-q", "-b", "side", str(folder / "side"))
        self.folders = {name: folder / name for name in PLACES}
        self.file = dict.fromkeys(PLACES, "name.txt")
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.count = 0
        self.taken: dict[str, list[str]] = {name: [] for name in PLACES}
        self.batons = {name: Baton(self.folders[name], clock=lambda: self.now) for name in PLACES}
        self.first = {f"base {n}": self.git("main", "rev-parse", "HEAD") for n in range(30)}

    def git(self, place: str, *words: str) -> str:
        self.now += timedelta(seconds=1)
        date = f"{int(self.now.timestamp())} +0000"
        env = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        done = self.box.run("git", "-C", str(self.folders[place]), *words, env=env)
        assert done.code == 0 or words[0] == "merge", done.err
        return done.out.strip()

    def lines(self, place: str) -> list[str]:
        return (self.folders[place] / self.file[place]).read_text().splitlines()

    def head_lines(self, place: str) -> list[str]:
        name = self.git(place, "ls-tree", "--name-only", "HEAD")
        return self.git(place, "show", f"HEAD:{name}").splitlines()

    def edit(self, place: str) -> None:
        lines = self.lines(place)
        for _ in range(self.random.randint(1, 4)):
            at = self.random.randrange(len(lines) + 1)
            if self.random.random() < 0.7 or len(lines) < 30:
                self.count += 1
                lines.insert(at, f"{place} line {self.count} {self.random.random()}")
            else:
                del lines[at - 1]
        (self.folders[place] / self.file[place]).write_text("".join(f"{line}\n" for line in lines))

    def snapshot(self, place: str) -> None:
        self.now += timedelta(seconds=1)
        made = self.batons[place].snapshot("step", track=place)
        self.taken[place].append(made.stored.id)
        for line in set(self.lines(place)) - set(self.head_lines(place)):
            self.first.setdefault(line, made.stored.id)

    def commit(self, place: str) -> None:
        self.git(place, "commit", "-q", "--allow-empty", "-am", "work")
        for line in self.lines(place):
            self.first.setdefault(line, self.git(place, "rev-parse", "HEAD"))

    def merge(self, place: str) -> None:
        """Takes the other's commits; ours win where both changed."""
        self.commit(place)
        other = PLACES[1 - PLACES.index(place)]
        self.git(place, "merge", "-q", "-X", "ours", "--no-edit", other)
        if self.box.run("git", "-C", str(self.folders[place]), "ls-files", "-u").out:
            self.git(place, "merge", "--abort")
        self.file[place] = self.git(place, "ls-tree", "--name-only", "HEAD").splitlines()[0]

    def rename(self, place: str) -> None:
        self.commit(place)
        if self.file[place] == "name.txt":
            self.git(place, "mv", "name.txt", "other.txt")
            self.file[place] = "other.txt"
            self.git(place, "commit", "-q", "-am", "rename")

    def restore(self, place: str) -> None:
        if self.taken[place]:
            self.now += timedelta(seconds=1)
            self.box.run("git", "-C", str(self.folders[place]), "baton", "restore", self.random.choice(self.taken[place]))
            self.file[place] = "name.txt" if (self.folders[place] / "name.txt").exists() else "other.txt"
            if self.file[place] == "name.txt":  # a rename that was committed here is taken back, and its file was new then
                (self.folders[place] / "other.txt").unlink(missing_ok=True)
                self.git(place, "add", "-A", ".")

    def origins(self, place: str) -> list[tuple[str, str | None]]:
        """Each line of the file as it is, with the id of the checkpoint or commit that it came with."""
        with tempfile.TemporaryDirectory() as folder, Baton(self.folders[place], clock=lambda: self.now) as baton:
            found, warnings = blame(baton, self.file[place], folder)
        assert not warnings
        told = [None if o.origin is None else o.origin.id if isinstance(o.origin, Stored) else o.origin.oid for o in found]
        return [(line.text.decode(), oid) for line, oid in zip(found, told, strict=True)]

    def close(self) -> None:
        for baton in self.batons.values():
            baton.close()


@sized(0, 4, 400)
def test_every_line_has_its_origin(tmp_path: Path, count: int) -> None:
    for seed in range(count):
        world = World(tmp_path / str(seed), seed)
        acts = (
            [world.edit] * 5
            + [world.snapshot] * 5
            + [world.commit] * 2
            + [world.merge, world.rename, world.restore, world.restore]
        )
        try:
            for _ in range(25):
                world.random.choice(acts)(world.random.choice(PLACES))
            for place in PLACES:
                assert world.origins(place) == [(line, world.first.get(line)) for line in world.lines(place)]
        finally:
            world.close()
