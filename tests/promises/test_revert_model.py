"""Two sessions, a user and a committer do anything in one work tree; "revert" of any turn is the three-way merge of each of its
paths, nothing else changes, and undo brings back every byte."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.state import Entry, actions, assert_same, differences, files_of, snap, state_of
from tests.kit.tiers import sized

Disk = dict[str, Entry]
LINES = "".join(f"line {number}\n" for number in range(12))
PATHS = ("a.txt", "text", "more", "d/x", "d/y", "é w")
SESSIONS = ("A", "B")
EVENTS = 16


@dataclass
class Turn:
    """A turn of the model: what was there at its two ends, and what its session's own tools edited."""

    session: str
    began: int
    before: Disk
    edited: set[str] = field(default_factory=set)
    after: Disk = field(default_factory=dict)
    ended: int = 1 << 30
    name: str = ""

    @property
    def paths(self) -> set[str]:
        return {path for path in {*self.before, *self.after} if self.before.get(path) != self.after.get(path)}


class World:
    """One history, told to real hooks and to the model."""

    def __init__(self, place: Path, dice: random.Random) -> None:
        shutil.rmtree(place, ignore_errors=True)
        self.repo, self.dice, self.time = Sandbox.begun(place), dice, 0
        for name in PATHS[1:4]:
            self.repo.write(name, LINES)
        self.repo.commit("begin")
        snap(self.repo, "t", "start")
        self.open: dict[str, Turn] = {}
        self.turns: list[Turn] = []

    def disk(self) -> Disk:
        return files_of(self.repo.path)

    def tip(self) -> str:
        return self.repo.git("rev-parse", "refs/checkpoints/t")

    # What happens.

    def go_on(self) -> None:
        self.time += 1
        often = (self.prompt, self.tool, self.write, self.stop)
        self.dice.choice((*often, *often, *often, self.commit, self.stage, self.snapshot))()

    def prompt(self) -> None:
        session = self.dice.choice(SESSIONS)
        before = self.disk()
        Client("claude", self.repo.path, session=session).fire("prompt", prompt=f"do {self.time}")
        if session in self.open:
            self.close(session, before)
        self.open[session] = Turn(session=session, began=self.time, before=before)

    def stop(self) -> None:
        if self.open:
            session = self.dice.choice(sorted(self.open))
            Client("claude", self.repo.path, session=session).fire("turn")
            self.close(session, self.disk())

    def close(self, session: str, after: Disk) -> None:
        self.turns.append(replace(self.open.pop(session), after=after, ended=self.time, name=self.tip()))

    def tool(self) -> None:
        """A session's own tool writes a file."""
        if self.open:
            self.live(self.dice.choice(sorted(self.open)), self.change())

    def live(self, session: str, path: str) -> None:
        place = str(self.repo.path / path)
        Client("claude", self.repo.path, session=session).fire("edit", tool_name="Write", tool_input={"file_path": place})
        self.open[session].edited.add(path)

    def write(self) -> None:
        """Somebody changes a file, and nobody hears of it: the user, or a command of a session."""
        self.change()

    def change(self) -> str:
        path, full = self.dice.choice(PATHS), self.repo.path
        kind, full = self.dice.choice(("line", "line", "line", "short", "binary", "link", "mode", "gone")), full / path
        text = full.read_bytes() if full.is_file() and not full.is_symlink() else LINES.encode()
        if full.is_symlink() or (kind == "gone" and full.exists()):
            full.unlink()
        if kind == "gone":
            return path
        full.parent.mkdir(exist_ok=True)
        if kind == "link":
            full.unlink(missing_ok=True)
            full.symlink_to(f"to-{self.dice.randrange(3)}")
        elif kind == "mode" and full.exists():
            full.chmod(full.stat().st_mode ^ 0o111)
        elif kind == "line":
            lines = text.split(b"\n")
            at = self.dice.randrange(max(1, len(lines) - 1))
            full.write_bytes(b"\n".join([*lines[:at], b"changed %d" % self.time, *lines[at + 1 :]]))
        else:
            full.write_bytes(self.dice.choice((b"0\n", b"1\n")) if kind == "short" else b"\0%d" % self.dice.randrange(3))
        return path

    def commit(self) -> None:
        self.repo.git("add", "-A")
        self.repo.git("commit", "-q", "--allow-empty", "-m", f"commit {self.time}")
        self.signs()

    def stage(self) -> None:
        self.repo.git("add", "-A")

    def snapshot(self) -> None:
        snap(self.repo, "t", f"mine {self.time}")
        self.signs()

    def signs(self) -> None:
        """Sessions that go on say something after what would end the turn of one that was dead."""
        for session in self.open:
            self.live(session, "a.txt")

    # What must hold.

    def check(self) -> None:
        now = self.disk()
        self.turns += [replace(turn, after=now) for turn in self.open.values()]
        for turn in self.turns:
            if turn.name:
                self.check_revert([turn.name], [turn], now)
        for session in SESSIONS:
            own = [turn for turn in self.turns if turn.session == session and turn.paths]
            if own:
                self.check_revert(["--session", session], own[::-1], now)

    def check_revert(self, words: list[str], turns: list[Turn], now: Disk) -> None:
        """``turns`` are the newest first."""
        merge = self.dice.random() < 0.3
        before, (wanted, said) = state_of(self.repo), self.model(turns, now, merge=merge)
        done = self.repo.baton("revert", *words, "--json", *(["--merge"] if merge else []))
        what = f"revert {words} merge={merge}: {done.out}{done.err}"
        assert done.code == int(any(action != "keep" for action in said.values())), what
        assert self.disk() == wanted, f"{what}\n" + differences(wanted, self.disk())
        told = {path: action for path, action in actions(done).items() if action in ("conflict", "keep", "refuse")}
        assert told == {path: action for path, action in said.items() if action != "marked"}, what
        after = state_of(self.repo)
        touched = {path for path in {*wanted, *now} if wanted.get(path) != now.get(path)}
        assert {p for p in {*before.index, *after.index} if before.index.get(p) != after.index.get(p)} <= touched, what
        assert before.refs == after.refs, what
        if done.json["safety"] is not None:
            assert self.repo.baton("undo").code == 0
            assert_same(before, state_of(self.repo), f"undo of {what}")

    def model(self, turns: Collection[Turn], now: Disk, *, merge: bool) -> tuple[Disk, dict[str, str]]:
        """What the work tree is to be, and what is left of the turns' paths, with the action that names it."""
        ends: dict[str, list[tuple[Entry | None, Entry | None]]] = {}
        said: dict[str, str] = {}
        for turn in turns:
            for path in turn.paths:
                rivals = [other for other in self.turns if overlap(turn, other) and path in other.paths]
                mine, theirs = path in turn.edited, any(path in other.edited for other in rivals)
                if not rivals or (mine and not theirs):
                    ends.setdefault(path, []).append((turn.before.get(path), turn.after.get(path)))
                elif said.get(path) != "conflict":
                    said[path] = "keep" if theirs and not mine else "conflict"
        wanted = dict(now)
        for path, rows in ends.items():
            if said.get(path) == "conflict":
                continue
            state, fate = now.get(path), ""
            for before, after in joined(rows):
                state, fate = three_way(self.repo, state, after, before, merge=merge)
                if fate:
                    break
            if fate != "conflict":
                wanted.pop(path, None)
                wanted |= {path: state} if state is not None else {}
            if fate:
                said[path] = fate
            elif state != now.get(path):
                said.pop(path, None)  # the step says what was done
        return wanted, said


def overlap(one: Turn, other: Turn) -> bool:
    """Whether something can have changed while both went on."""
    first, second = sorted((one, other), key=lambda turn: turn.began)
    return one.session != other.session and second.began < first.ended and first.after != second.before


def joined(rows: list[tuple[Entry | None, Entry | None]]) -> list[tuple[Entry | None, Entry | None]]:
    """Changes, the newest first; what follows upon another without a gap is one."""
    found: list[tuple[Entry | None, Entry | None]] = []
    for before, after in rows:
        if found and found[-1][0] == after:
            found[-1] = before, found[-1][1]
        else:
            found.append((before, after))
    return [(before, after) for before, after in found if before != after]


def three_way(
    repo: Sandbox, now: Entry | None, after: Entry | None, before: Entry | None, *, merge: bool
) -> tuple[Entry | None, str]:
    """A path with a change taken back: its entry, and how it is left where it does not merge."""
    if now == after:
        return before, ""
    if now == before:
        return now, ""
    if now is None or after is None or before is None or {now[0], after[0], before[0]} != {"file"}:
        return now, "conflict"
    runs = before[1] if now[1] == after[1] else now[1]
    if now[2] == after[2]:
        return ("file", runs, before[2]), ""
    if before[2] in (after[2], now[2]):
        return ("file", runs, now[2]), ""
    names = [repo.path.parent / f"side-{number}" for number in range(3)]
    for name, entry in zip(names, (now, after, before), strict=True):
        name.write_bytes(entry[2])
    labels = ["-L", "now", "-L", "x", "-L", "before the turn"]
    done = subprocess.run(["git", "merge-file", "-p", *labels, *map(str, names)], capture_output=True, check=False)
    if done.returncode > 127 or (done.returncode and not merge):
        return now, "conflict"
    return ("file", runs, done.stdout), "marked" if done.returncode else ""


@sized(1, 10, 2000)
def test_a_turn_is_taken_back_and_nothing_else(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.kit.state.SHORT", 1 << 20)  # whole bytes, which are merged
    checked = 0
    for seed in range(count):
        world = World(tmp_path / "repo", random.Random(f"revert {seed}"))
        try:
            for _ in range(EVENTS):
                world.go_on()
            world.check()
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error
        checked += len(world.turns)
    assert checked >= count
