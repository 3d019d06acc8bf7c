"""Two work trees, their people and agents do anything in any order and merge each other's work: what comes is what git makes of
the same three commits, of which the base is what was merged last; what does not merge is named until it is resolved, done
again a merge has nothing to do, and undo brings back every byte."""

from __future__ import annotations

import random
import re
import shutil
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from tests.kit import Sandbox
from tests.kit.state import actions, assert_same, differences, state_of
from tests.kit.tiers import sized

PATHS = ("a.txt", "text", "more", "d/x", "é w")
EVENTS = 30
OLDER = ("merge-base", "--is-ancestor")
Files = Mapping[str, str]


@dataclass(frozen=True)
class Step:
    """A merge that was done: when, where theirs stood, its files, what came here, the paths of theirs that were taken in, and
    those that both may have had anyhow."""

    time: int
    head: str
    theirs: Files
    came: Files
    taken: set[str]
    maybe: set[str]


@dataclass(frozen=True)
class Answer:
    """A merge of git's: its files, and the paths at which it stops."""

    files: Files
    stops: set[str]


def lines_of(name: str) -> str:
    """A text that git takes for no other file's."""
    return "".join(f"{name} line {number}\n" for number in range(60))


class World:
    """One history of two work trees."""

    def __init__(self, place: Path, dice: random.Random) -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        self.place, self.dice, self.time, self.merges = place, dice, 0, 0
        self.snapped = {"a": 0, "b": 0}
        self.steps: dict[str, list[Step]] = {"a": [], "b": []}
        self.repo = Sandbox.begun(place / "repo")
        for name in PATHS:
            self.repo.write(name, lines_of(name))
        self.repo.commit("begin")
        self.boxes = {}
        for name in ("a", "b"):
            self.repo.git("worktree", "add", "-q", str(place / name), "-b", name)
            self.boxes[name] = Sandbox(place / name)
            self.boxes[name].ok("snapshot", "begun", "--track", name)

    def go_on(self) -> None:
        self.time += 1
        name = self.dice.choice(("a", "b"))
        often = (self.edit, self.edit, self.edit, self.snapshot, self.merge)
        rarely = (self.commit, self.pull, self.sweep, self.move, self.settle)
        self.dice.choice((*often, *often, *rarely))(self.boxes[name])

    # What happens.

    def edit(self, box: Sandbox) -> None:
        path = box.path / self.dice.choice(PATHS)
        kind = self.dice.choice(("line", "line", "line", "line", "gone", "mode", "binary", "link"))
        if path.is_symlink() or (kind == "gone" and path.exists()):
            path.unlink()
            return
        path.parent.mkdir(exist_ok=True)
        text = path.read_bytes() if path.is_file() else lines_of(path.name).encode()
        if kind == "mode" and path.exists():
            path.chmod(path.stat().st_mode ^ 0o111)
        elif kind == "link":
            path.unlink(missing_ok=True)
            path.symlink_to(f"to-{self.dice.randrange(2)}")
        elif kind == "binary":
            path.write_bytes(b"\0%d" % self.dice.randrange(3))
        else:
            lines = text.split(b"\n")
            at = self.dice.randrange(max(1, len(lines) - 1))
            path.write_bytes(b"\n".join([*lines[:at], b"changed %d" % self.time, *lines[at + 1 :]]))

    def move(self, box: Sandbox) -> None:
        files = [path for path in PATHS if (box.path / path).is_file()]
        if files:
            (box.path / self.dice.choice(files)).rename(box.path / f"moved-{self.dice.randrange(2)}")

    def settle(self, box: Sandbox) -> None:
        """Resolve what has markers, with both sides or with neither."""
        for path in box.path.rglob("*"):
            if path.is_file() and not path.is_symlink() and b"\n=======\n" in path.read_bytes():
                rows = path.read_bytes().split(b"\n")
                path.write_bytes(b"\n".join(row for row in rows if row[:7] not in (b"<<<<<<<", b"=======", b">>>>>>>")))

    def snapshot(self, box: Sandbox) -> None:
        box.ok("snapshot", f"at {self.time}", "--track", box.path.name)
        self.snapped[box.path.name] = self.time

    def commit(self, box: Sandbox) -> None:
        box.git("add", "-A")
        box.git("commit", "-q", "--allow-empty", "-m", f"commit {self.time}")

    def pull(self, box: Sandbox) -> None:
        other = "b" if box.path.name == "a" else "a"
        self.commit(box)
        if box.try_git("merge", "-q", "--no-edit", other).code:
            box.git("merge", "--abort")

    def sweep(self, box: Sandbox) -> None:
        if self.dice.random() < 0.5:
            box.git("stash", "-u", "-q")
        else:
            box.git("checkout", "-q", "--", ".")

    # What must hold.

    def merge(self, box: Sandbox) -> None:
        other = "b" if box.path.name == "a" else "a"
        words = ("merge", other, *(["--merge"] if self.dice.random() < 0.4 else []), "--json")
        before, ours = state_of(box), self.tree(box)
        done = box.baton(*words)
        what = f"{self.time}: {box.path.name}: {words}: {done.out}{done.err}"
        assert done.code in (0, 1), what
        after, said = state_of(box), actions(done)
        told = {path for path, action in said.items() if action in ("conflict", "refuse", "keep")}
        marked = {one["path"] for one in done.json["paths"] if one["reason"] == "with conflict markers"}
        stopped = marked.union(path for path in told if said[path] != "keep")
        assert (done.code == 1) == bool(stopped), what
        assert (before.index, before.refs) == (after.index, after.refs), what
        changed = {p for p in {*before.files, *after.files} if before.files.get(p) != after.files.get(p)}
        assert changed == said.keys() - told, what
        self.judge(box, other, ours, {one["path"]: (one["action"], one["reason"]) for one in done.json["paths"]}, what)
        again = box.baton("merge", other, "--json")
        assert state_of(box).files == after.files, f"again: {what}\n{again.out}\n" + differences(
            after.files, state_of(box).files
        )
        assert (again.code == 1) >= bool(stopped), f"again: {what}\n{again.out}"
        if done.json["safety"] is not None:
            self.merges += 1
            for verb, state in (("undo", before), ("redo", after)):
                back = box.baton(verb)
                assert back.code == 0, f"{verb}: {what}{back.out}{back.err}"
                assert_same(state, state_of(box), f"{verb} of {what}")

    def judge(self, box: Sandbox, other: str, ours: str, said: Mapping[str, tuple[str, str]], what: str) -> None:
        """What came is what git makes of the same three commits, of which the base is what was merged last."""
        head = box.ok("show", other, "--json").json["checkpoint"]["head"]
        theirs = box.git("rev-parse", f"refs/baton/tracks/{other}^{{tree}}")
        fork = box.git("merge-base", "HEAD", head)
        then, here, after = entries(box, theirs), entries(box, ours), entries(box, self.tree(box))
        base = entries(box, fork)
        ways = [
            [one for one in steps if one.time < until and (one.head == fork or box.try_git(*OLDER, one.head, fork).code)]
            for steps, until in ((self.steps[box.path.name], self.time), (self.steps[other], self.snapped[other]))
        ]
        sure = all(
            any(files[path] == entry for path, entry in one.came.items())
            for files, steps in zip((here, then), ways, strict=True)
            for one in steps
        ) and all(any(here[path] == one.theirs[path] for path in one.taken) for one in ways[1])
        start, known = commit(box, fork + "^{tree}"), list[list[str]]()
        for steps in filter(None, ways):
            rows = [dict(base), dict(base)]
            for one in steps:
                rows[0] |= {path: one.theirs[path] for path in one.taken}
                rows[1] |= {path: one.theirs[path] for path in one.taken | one.maybe}
            known.append([commit(box, self.tree_of(box, row), start) for row in rows])
        parents = {*product(*known)} if known else set()
        if not sure or not known:
            parents |= {(one,) for way in known for one in way} | {()}
        answers = [
            merged(box, commit(box, ours, *(bases or (box.head(),))), commit(box, theirs, *(bases or (head,))))
            for bases in parents
        ]
        if () in parents:  # into HEAD first, and what is not committed on top of that
            into = box.try_git("merge-tree", "--write-tree", "-z", box.head(), commit(box, theirs, head)).out.split("\0")[0]
            answers.append(merged(box, commit(box, ours, box.head()), commit(box, into, box.head())))
        told = {path for path, (action, _) in said.items() if action in ("conflict", "refuse", "keep")}
        marked = {path for path, (_, reason) in said.items() if reason == "with conflict markers"}
        stops = set[str]().union(*(one.stops for one in answers))
        # Git tells of a file by the name that either side gave it, and we by the one that it has here.
        called = {old for tree in (ours, theirs) for old, new in renamed(box, fork, tree).items() if new in stops}
        for path in {*here, *after, *(path for one in answers for path in one.files)}:
            action, reason = said.get(path, ("", ""))
            below = any(path.startswith(f"{name}/") for name in told)
            assert action != "conflict" or path in stops | called or reason.startswith("conflict markers"), (
                f"{what}\nno conflict: {path}"
            )
            if path in told or below:
                ends = [here[path]]
            elif path in marked:
                ends = [after[path]] if path in stops else []
            else:  # of two names that a file was given only the one that it had is told
                ends = [here[path] if path in one.stops and told else one.files[path] for one in answers]
            assert after[path] in ends, f"{what}\n{path}: {after[path]} where git has {ends}"
        came = {path: after[path] for path in said.keys() - told}
        if came:
            changed = {path for path in {*base, *then} if base[path] != then[path]}
            left = stops - marked
            for tree in (ours, theirs):
                left |= {old for old, new in renamed(box, fork, tree).items() if new in left}
            taken = {path for path in changed if path in came or (then[path] == after[path] and path not in left)}
            taken |= {old for old, new in renamed(box, theirs, self.tree(box)).items() if new in came}
            step = Step(time=self.time, head=head, theirs=then, came=came, taken=taken, maybe=changed - taken - left)
            self.steps[box.path.name].append(step)

    def tree(self, box: Sandbox) -> str:
        """The tree of a work tree's files."""
        env = {"GIT_INDEX_FILE": str(self.place / "index")}
        box.git("read-tree", "HEAD", env=env)
        box.git("add", "-A", env=env)
        return box.git("write-tree", env=env)

    def tree_of(self, box: Sandbox, rows: Mapping[str, str]) -> str:
        """A tree of entries."""
        env = {"GIT_INDEX_FILE": str(self.place / "index")}
        box.git("read-tree", "--empty", env=env)
        stdin = "".join(f"{entry}\t{path}\0" for path, entry in rows.items() if entry).encode()
        box.git("update-index", "-z", "--index-info", env=env, stdin=stdin)
        return box.git("write-tree", env=env)


def entries(box: Sandbox, tree: str) -> defaultdict[str, str]:
    """The files of a tree: of each path ``MODE ID``, nothing where there is none."""
    rows = (row.split("\t") for row in box.git("ls-tree", "-r", "-z", tree).split("\0") if row)
    return defaultdict(str, {path: " ".join(what.split(" ")[::2]) for what, path in rows})


def commit(box: Sandbox, tree: str, *parents: str) -> str:
    return box.git("commit-tree", "-m", "x", *(word for one in parents for word in ("-p", one)), tree)


def renamed(box: Sandbox, old: str, new: str) -> dict[str, str]:
    words = iter(box.git("diff-tree", "-r", "-z", "-M", "--name-status", "--diff-filter=R", old, new).split("\0")[:-1])
    return {source: next(words) for _, source in zip(words, words, strict=False)}


def merged(box: Sandbox, ours: str, theirs: str) -> Answer:
    """What git's merge makes of two commits."""
    done = box.try_git("merge-tree", "--write-tree", "--name-only", "-z", ours, theirs)
    assert done.code in (0, 1), done.err
    tree, *rest = done.out.split("\0")
    names, messages = rest[: rest.index("")], rest[rest.index("") + 1 :] if done.code else []
    files = entries(box, tree)
    stops = {re.sub(r"~[0-9a-f]{40}(_\d+)?\Z", "", name) for name in names}
    at = 0
    while done.code and at < len(messages) and messages[at].isdigit():
        count = int(messages[at])
        stops |= {*messages[at + 1 : at + 1 + count]} if messages[at + 1 + count].startswith("CONFLICT") else set()
        at += count + 3
    for name in [path for path in files if re.search(r"~[0-9a-f]{40}(_\d+)?\Z", path)]:
        del files[name]
    return Answer(files=files, stops=stops)


@sized(0, 6, 200)
def test_a_merge_is_what_git_makes_of_the_same_commits(count: int, tmp_path: Path) -> None:
    merges = 0
    for seed in range(count):
        world = World(tmp_path / "world", random.Random(f"merge {seed}"))
        try:
            for _ in range(EVENTS):
                world.go_on()
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error
        merges += world.merges
    assert merges >= count
