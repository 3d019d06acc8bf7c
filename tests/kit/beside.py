"""One repository in which agents keep checkpoints while git commits, rewrites and collects, and a model of every byte."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.kit.agents import Client
from tests.kit.forkserver import python
from tests.kit.processes import chain
from tests.kit.repos import Outcome, Sandbox
from tests.kit.state import stale_locks

NAMES = ("a.txt", "b.txt", "d/x", "d/y", "d/e/z", "new", "né w", "run.sh", "link")
IGNORED = "kept.log"
EPOCH = 1767225600
HUNG = 180.0
# What one of our commands may say when it refuses, and the exit status that goes with it.
REFUSALS: Mapping[str, tuple[int, str]] = {
    "nothing to undo or redo": (1, r"fatal: there is nothing to (undo|redo) in this work tree"),
    "of a work tree that is gone": (
        1,
        r"fatal: the next step to (undo|redo) is not known to be of this work tree: another work ",
    ),
    "a conflict is named and left": (1, r"(?m)^(conflict|refuse) "),
    "HEAD has left the checkpoint": (1, r"(?m)^(branch-switched|head-|unborn|committed:)"),
    "somebody else pushed meanwhile": (1, r"fatal: somebody else pushed to 'far' meanwhile"),
    "a step failed, its input being gone": (1, r"baton: s\d: failed"),
    "LATEST or a tip is behind for a moment": (1, r"(?m)^MEND (latest|derived): "),
    "not there yet, or pruned meanwhile": (2, r"fatal: there is no (checkpoint|track)"),
    "no track is current in a new work tree": (128, r"fatal: no track is current in this work tree"),
    "git holds the index": (128, r"index\.lock"),
    "work tree, index or HEAD moved meanwhile": (128, r"fatal: the (work tree|index|.*HEAD).* (changed|moved) meanwhile"),
    "git collected what was just being read": (
        128,
        r"fatal: (nothing is removed: )?(not every object|object \w+) can(not)? be read|nothing is recorded: bad tree object"
        r"|'git diff-tree' failed: bad object",
    ),
}
# What git itself may say when it does not do what it was asked to.
GIT_REFUSALS: Mapping[str, str] = {
    "we hold the index": r"Unable to create '.*index\.lock'|unable to write( new)? index|could not (write|lock) index",
    "files are in the way": r"would be (overwritten|removed)|could not restore untracked files",
    "a conflict": r"CONFLICT|[Cc]onflict|needs merge|unmerged",
    "an operation is in progress": r"already a rebase-merge directory|could not read '.*rebase-merge",
    "no stash": r"No stash entries found",
    "nothing to rewrite": r"nothing to amend|invalid upstream|No local changes",
}

Files = dict[str, tuple[str, bytes]]


def files_in(root: Path) -> Files:
    """Every file and link of a work tree that is ours to keep, with git's mode and its bytes."""
    found: Files = {}
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name != ".git" and not os.path.islink(os.path.join(folder, name))]
        links = [name for name in os.listdir(folder) if os.path.islink(os.path.join(folder, name))]
        for name in {*names, *links}:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, root)
            if short == ".git" or short.startswith("runtime/checkpoints/LATEST."):
                continue
            if name in links:
                found[short] = ("120000", os.fsencode(os.readlink(path)))
            else:
                with open(path, "rb") as file:
                    mode = "100755" if os.fstat(file.fileno()).st_mode & stat.S_IXUSR else "100644"
                    found[short] = (mode, file.read())
    return found


def kept(files: Files) -> Files:
    """Those that a checkpoint holds."""
    return {name: entry for name, entry in files.items() if name != IGNORED}


def blob(data: bytes) -> str:
    """The id that git gives to bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclass(frozen=True)
class Held:
    """A checkpoint that was acknowledged: its track, and the files that it must hold for ever."""

    track: str
    files: Files


@dataclass
class Tree:
    """A work tree. ``files`` is held while files change or must not; ``git`` while git works in it; ``moves`` counts git's
    changes of its index, before and after each."""

    box: Sandbox
    name: str
    files: threading.Lock = field(default_factory=threading.Lock)
    git: threading.Lock = field(default_factory=threading.Lock)
    moves: int = 0


class World:
    """What is there, and what must be: ``held`` by id, ``owed`` the bytes that a command of ours took off the disk."""

    def __init__(self, top: Path) -> None:
        self.top, self.box = top, Sandbox.init(top / "repo")
        self.box.commit("first", a_txt="one\n", _gitignore="*.log\n")
        self.box.git("branch", "other")
        for number in range(3):
            self.box.commit(f"more {number}", b_txt=f"{number}\n")
        Sandbox.init(top / "far.git", "--bare")
        self.box.git("remote", "add", "far", os.fspath(top / "far.git"))
        self.box.git("config", "gc.autoDetach", "false")
        self.box.ok("install")
        self.trees = [Tree(self.box, "main")]
        self.storing = threading.Lock()  # git's own writers and its collecting do not bear each other
        self.lock = threading.Lock()
        self.held: dict[str, Held] = {}
        self.pruned: set[str] = set()
        self.owed: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.unknown: list[str] = []  # what failed, and nobody knows why
        self.passing: list[str] = []  # what failed in other words, once: git was collecting just then
        self.clock = EPOCH
        self.slowest: dict[str, float] = {}

    def count(self, what: str, seconds: float = 0.0) -> None:
        with self.lock:
            self.counts[what] += 1
            self.slowest[what] = max(self.slowest.get(what, 0.0), seconds)

    def hold(self, oid: str, track: str, files: Files) -> None:
        with self.lock:
            self.held[oid] = Held(track, files)

    def owe(self, gone: Mapping[str, str]) -> None:
        with self.lock:
            self.owed.update(gone)

    def baton(self, tree: Tree, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Outcome:
        """One of our commands; it ends in time. Where it refuses it says why in words that are known, or the next one works."""
        for _ in range(3):
            done, said = self._baton(tree, *words, stdin=stdin, env=env)
            text = done.out + done.err
            why = next((w for w, (code, part) in REFUSALS.items() if done.code == code and re.search(part, text)), None)
            if done.code == 0 or why is not None or "Traceback" in text:
                break
            with self.lock:
                self.passing.append(said)
        if "Traceback" in text:
            self.unknown.append(said)
        elif done.code != 0:
            self.refuse(words[0], why, said)
        return done

    def _baton(self, tree: Tree, *words: str, stdin: bytes, env: Mapping[str, str] | None) -> tuple[Outcome, str]:
        began = time.monotonic()
        done = python(
            ["-m", "gitbaton", *words],
            os.fspath(tree.box.path),
            {**os.environ, "GIT_BATON_TRACE": "1", **(env or {})},
            stdin,
            seconds=HUNG,
        )
        ended = Outcome(done.code, done.out.decode("utf-8", "replace"), done.err.decode("utf-8", "replace"))
        self.count(f"baton {words[0]}", time.monotonic() - began)
        said = f"{tree.name}: {words}: {ended.code}\n{ended.out}\n{ended.err}"
        return ended, said

    def git(self, tree: Tree, *words: str, name: str = "") -> Outcome:
        """One of git's; what it refuses is one of the usual things."""
        with self.lock:
            self.clock += 1
            dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"{self.clock} +0000")
        began = time.monotonic()
        done = tree.box.try_git(*words, env={**dates, "GIT_EDITOR": "true", "GIT_SEQUENCE_EDITOR": "true"})
        self.count(f"git {name or words[0]}", time.monotonic() - began)
        if done.code != 0:
            said = f"{tree.name}: git {words}: {done.code}\n{done.out}\n{done.err}"
            why = next((why for why, text in GIT_REFUSALS.items() if re.search(text, done.out + done.err)), None)
            self.refuse(f"git {words[0]}", why, said)
        return done

    def refuse(self, name: str, why: str | None, said: str) -> None:
        with self.lock:
            if why is None:
                self.unknown.append(said)
            else:
                self.refused[f"{name}: {why}"] += 1


class Agent:
    """Edits files of a work tree and keeps checkpoints of it."""

    def __init__(self, world: World, tree: Tree, seed: int, tracks: Sequence[str]) -> None:
        self.world, self.tree, self.tracks = world, tree, tracks
        self.random = random.Random(seed)
        self.box = tree.box
        self.runs = 0

    def step(self) -> None:
        """Some edits, and one verb."""
        verbs: dict[Callable[[], None], int] = {
            self.snapshot: 30, self.hook: 12, self.restore: 18, self.restore_paths: 8, self.over: 8, self.look: 8,
            self.run: 6, self.push: 5, self.sync: 2, self.prune: 3, self.dry: 4, self.mend: 1,
        }  # fmt: skip
        verb = self.random.choices(list(verbs), list(verbs.values()))[0]
        with self.tree.files:
            for _ in range(self.random.choice((0, 1, 1, 2, 4))):
                self.edit()
            verb()

    # What its user does.

    def edit(self) -> None:
        name = self.random.choice((*NAMES, IGNORED))
        path = self.box.path / name
        if path.is_dir() and not path.is_symlink():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if name != IGNORED and self.random.random() < 0.15:
            path.unlink(missing_ok=True)
        elif name == "link":
            path.unlink(missing_ok=True)
            path.symlink_to(self.random.choice(("a.txt", "nowhere", "d")))
        else:
            path.write_bytes(self.random.randbytes(self.random.choice((1, 8, 200, 5000))))
            path.chmod(0o755 if self.random.random() < 0.1 else 0o644)

    # What the agent does; ``files`` of the work tree is held.

    def ours(self, *words: str) -> tuple[Outcome, Files, Files]:
        """A verb that may change files: what it took away is owed, what is ignored stays."""
        moves = self.tree.moves
        before, staged = files_in(self.box.path), self.staged()
        done = self.world.baton(self.tree, *words)
        after = files_in(self.box.path)
        assert before.get(IGNORED) == after.get(IGNORED), f"{words}: what is ignored was touched"
        gone = {blob(data): f"{words}: {name}" for name, (_, data) in before.items() if after.get(name) != before[name]}
        now = self.staged()
        if moves == self.tree.moves and moves % 2 == 0:
            gone |= {oid: f"{words}: staged {name}" for name, oid in staged.items() if now.get(name) != oid}
        self.world.owe(gone)
        return done, before, after

    def staged(self) -> dict[str, str]:
        """The blobs of the index, by path."""
        rows = self.box.run("git", "--no-optional-locks", "ls-files", "-s", "-z").out.split("\0")
        return {row.split("\t", 1)[1]: row.split(" ")[1] for row in rows if row}

    def snapshot(self) -> None:
        track = self.random.choice(self.tracks)
        files = kept(files_in(self.box.path))
        words = ["snapshot", "--track", track, "--step", "s", "--porcelain", *self.random.choice(((), ("--no-set-current",)))]
        done = self.world.baton(self.tree, *words)
        assert files == kept(files_in(self.box.path))
        if done.code == 0:
            row = done.out.splitlines()[-1].split("\t")
            self.world.hold(row[1], track, files)
            assert self.held_at(row[4]) == files, f"{row}: it does not hold what was there"

    def held_at(self, commit: str) -> Files:
        """The files of a commit, as git gives them."""
        return stored(self.box, [commit]).get(commit, {})

    def hook(self) -> None:
        """The end of a turn; where the hook has kept the state, it is acknowledged."""
        track, client = f"hooks-{self.tree.name}", Client("claude", self.box.path, session=f"5e551011-{self.tree.name}")
        files = kept(files_in(self.box.path))
        payload = json.dumps(client.payload("Stop")).encode()
        done = self.world.baton(self.tree, "hook", "claude", "Stop", "--track", track, stdin=payload, env=client.env())
        assert (done.code, done.out) == (0, ""), done
        commit = self.box.try_git("rev-parse", "-q", "--verify", f"refs/baton/tracks/{track}").out.strip()
        if commit and self.held_at(commit) == files:
            self.world.hold(self.id_of(commit), track, files)
            self.world.count("hook has kept the state")

    def id_of(self, commit: str) -> str:
        raw = self.box.run("git", "log", "-1", "--format=%B", commit).out.split("\n", 2)[2].lstrip("\n")
        return blob(raw[: raw.rindex("\n}\n") + 3].encode())

    def target(self) -> str | None:
        with self.world.lock:
            there = [oid for oid in self.world.held if oid not in self.world.pruned]
        return self.random.choice(there[-40:]) if there else None

    def restore(self) -> None:
        """An older state, and perhaps back again: byte for byte."""
        target = self.target()
        if target is None:
            return
        exact = self.random.random() < 0.5
        more = [*(["--exact"] if exact else []), *(["--index"] if self.random.random() < 0.2 else [])]
        done, before, after = self.ours("restore", target, "--force", *more)
        if done.code == 0:
            due = self.world.held[target].files
            wrong = {name for name, entry in due.items() if after.get(name) != entry}
            wrong |= {name for name in kept(after) if exact and name not in due}
            assert not wrong, f"restore {target} {more}: {wrong}\n{done.out}"
        else:
            assert done.code == 1 or before == after, f"{done}: refused, and yet changed"
        if done.code == 0 and before != after and self.random.random() < 0.6:
            back, _, now = self.ours("undo")
            assert back.code != 0 or now == before, f"undo of {target} {more}: {differing(before, now)}\n{back.out}"

    def restore_paths(self) -> None:
        target = self.target()
        if target is None:
            return
        due = self.world.held[target].files
        names = self.random.sample(sorted(due), min(2, len(due)))
        done, _, after = self.ours("restore", target, "--", *names)
        if done.code == 0:
            assert {name: after.get(name) for name in names} == {name: due[name] for name in names}, (target, done.out)

    def over(self) -> None:
        self.ours(self.random.choice(("undo", "redo")))

    def run(self) -> None:
        """A step of a run, whose outputs replace what stands there."""
        self.runs += 1
        line = f"mkdir -p out && cp a.txt out/{self.tree.name} 2>/dev/null; date +%N > out/at-{self.runs % 3}"
        words = ["--run", f"job-{self.tree.name}", "--step", f"s{self.runs % 4}", "--reads", "a.txt", "--writes", "out/**"]
        self.ours("run", *words, "--take", "ours", "--", "sh", "-c", line)

    def look(self) -> None:
        words = self.random.choice(
            (("status",), ("log", "--all"), ("resume",), ("diff", "--stat"), ("verify",), ("tracks",), ("du",), ("doctor",))
        )
        before = files_in(self.box.path)
        self.world.baton(self.tree, *words)
        assert before == files_in(self.box.path)

    def push(self) -> None:
        self.world.baton(self.tree, "push", "far", "--yes", *self.random.choice(((), ("--runs",))))

    def sync(self) -> None:
        self.world.baton(self.tree, "sync", "far", "--yes")

    def dry(self) -> None:
        self.world.baton(self.tree, "prune", "--keep-last", "3", "--dry-run")

    def mend(self) -> None:
        done = self.world.baton(self.tree, "doctor", "--mend", "--dry-run")
        assert done.out == "nothing is damaged\n", done

    def prune(self) -> None:
        track = self.random.choice(self.tracks)
        done = self.world.baton(self.tree, "prune", track, "--keep-last", "12", "--yes", "--json")
        if done.code == 0:
            with self.world.lock:
                self.world.pruned |= {row["id"] for part in done.json["tracks"] for row in part["remove"]}


class Linked:
    """An agent in linked work trees that come and go."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed, self.number, self.left = world, seed, 0, 0
        self.random = random.Random(seed)
        self.agent: Agent | None = None

    def step(self) -> None:
        if self.agent is None:
            self.agent, self.left = self.begin(), self.random.randint(4, 16)
        elif self.left:
            self.left -= 1
            self.agent.step()
        else:
            self.end(self.agent)
            self.agent = None

    def begin(self) -> Agent:
        self.number += 1
        name = f"linked{self.number % 3}"
        path = self.world.top / name
        main = self.world.trees[0]
        with self.world.storing:  # git would collect the commit that the new work tree is about to stand on
            self.world.git(main, "worktree", "add", "-q", "-f", "-B", f"branch-{name}", os.fspath(path), "HEAD")
        tree = Tree(Sandbox(path), name)
        with self.world.lock:
            self.world.trees.append(tree)
        return Agent(self.world, tree, self.random.randrange(1 << 30), ("linked", "shared"))

    def end(self, agent: Agent) -> None:
        """The work tree goes with all that lies in it; what was kept there stays."""
        with self.world.lock:
            self.world.trees.remove(agent.tree)
        with agent.tree.git, agent.tree.files:
            self.world.git(self.world.trees[0], "worktree", "remove", "--force", "--force", os.fspath(agent.box.path))
            shutil.rmtree(agent.box.path, ignore_errors=True)


class Writer:
    """A human who commits, amends, rebases, stashes and switches branches, in any of the work trees."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.random = world, random.Random(seed)

    def step(self) -> None:
        with self.world.lock:
            tree = self.random.choice(self.world.trees)
        quiet = self.random.choice((self.commit, self.commit, self.amend))
        loud = self.random.choice((self.rebase, self.rebase_onto, self.stash, self.stash, self.switch))
        still = self.random.random() < 0.6
        with ExitStack() as locks:
            locks.enter_context(tree.git)
            if not tree.box.path.exists():
                return
            if not still:  # what changes files does not do so while the model reads them
                locks.enter_context(tree.files)
            locks.enter_context(self.world.storing)
            tree.moves += 1
            (quiet if still else loud)(tree)
            tree.moves += 1
        time.sleep(self.random.random() * 0.1)

    def git(self, tree: Tree, *words: str, name: str = "") -> Outcome:
        return self.world.git(tree, *words, name=name)

    def commit(self, tree: Tree) -> None:
        if self.random.random() < 0.5:
            self.git(tree, "add", "-A")
        self.git(tree, "commit", "-q", "-a", "--allow-empty", "-m", f"c {self.world.clock}")

    def amend(self, tree: Tree) -> None:
        self.git(tree, "commit", "-q", "-a", "--amend", "--allow-empty", "-m", f"amended {self.world.clock}", name="amend")

    def rebase(self, tree: Tree) -> None:
        """The newest commits, written anew."""
        self.tidy(tree)
        self.git(tree, "rebase", "-q", "--autostash", "--force-rebase", "HEAD~2")
        self.settle(tree)

    def rebase_onto(self, tree: Tree) -> None:
        """Onto what a colleague has committed meanwhile."""
        data = self.random.randbytes(20)
        oid = tree.box.git("hash-object", "-w", "--stdin", stdin=data)
        base = tree.box.git("rev-parse", "other")
        rows = tree.box.git("ls-tree", base) + f"\n100644 blob {oid}\ttheirs-{self.random.randrange(4)}\n"
        last = {row.split("\t")[1]: row for row in rows.splitlines() if row}
        made = tree.box.git("mktree", stdin="".join(f"{row}\n" for row in last.values()).encode())
        new = tree.box.git("commit-tree", "-m", f"colleague {self.world.clock}", "-p", base, made)
        tree.box.git("update-ref", "refs/heads/other", new)
        self.tidy(tree)
        self.git(tree, "rebase", "-q", "--autostash", "other")
        self.settle(tree)

    def tidy(self, tree: Tree) -> None:
        """Often all is committed first: else what is not tracked is in git's way."""
        if self.random.random() < 0.7:
            self.git(tree, "add", "-A")
            self.git(tree, "commit", "-q", "--allow-empty", "-m", f"first {self.world.clock}")

    def settle(self, tree: Tree) -> None:
        """Take back what did not work out."""
        left = Path(tree.box.git("rev-parse", "--absolute-git-dir")) / "rebase-merge"
        if left.exists() and self.git(tree, "rebase", "--abort").code != 0:
            shutil.rmtree(left)  # as git says
        if tree.box.git("ls-files", "-u"):
            self.git(tree, "reset", "-q")

    def stash(self, tree: Tree) -> None:
        self.git(tree, "stash", "push", "-q", *self.random.choice(((), ("-u",))))
        if self.random.random() < 0.7:
            self.git(tree, "stash", "pop", "-q", name="stash pop")
            if tree.box.git("ls-files", "-u"):
                self.git(tree, "reset", "-q")

    def switch(self, tree: Tree) -> None:
        """Another branch, and back: in the linked work trees a detached HEAD."""
        if tree.name == "main":
            here = tree.box.git("symbolic-ref", "--short", "HEAD")
            there = "side" if here == "main" else "main"
            known = tree.box.try_git("rev-parse", "-q", "--verify", f"refs/heads/{there}").code == 0
            self.git(tree, "checkout", "-q", *([] if known else ["-b"]), there)
        else:
            self.git(tree, "checkout", "-q", "--detach", "HEAD~1")


class Collector:
    """Git's housekeeping, the sharpest there is; reflogs are old, so nothing but refs and indexes keeps an object."""

    WORDS = (
        ("gc", "-q", "--prune=now"),
        ("repack", "-q", "-a", "-d"),
        ("prune", "--expire=now"),
        ("gc", "-q", "--prune=now", "--aggressive"),
        ("pack-refs", "--all"),
        ("worktree", "prune", "--expire=now"),
        ("reflog", "expire", "--expire=now", "--all"),
    )

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.random = world, random.Random(seed)

    def step(self) -> None:
        words = self.random.choices(self.WORDS, (5, 4, 4, 1, 2, 1, 2))[0]
        with self.world.storing:
            self.world.git(self.world.trees[0], *words)
        time.sleep(self.random.random() * 0.3)


def stored(box: Sandbox, commits: Sequence[str]) -> dict[str, Files]:
    """The files of some commits, every byte as ``git cat-file`` gives it."""
    listed: dict[str, dict[str, tuple[str, str]]] = {}
    for commit in commits:
        rows = [row.split("\t", 1) for row in box.run("git", "ls-tree", "-r", "-z", commit).out.split("\0") if row]
        listed[commit] = {name: (meta.split(" ")[0], meta.split(" ")[2]) for meta, name in rows}
    oids = sorted({oid for rows in listed.values() for _, oid in rows.values()})
    data = contents(box, oids)
    return {c: {name: (mode, data.get(oid, b"<gone>")) for name, (mode, oid) in rows.items()} for c, rows in listed.items()}


def contents(box: Sandbox, oids: Sequence[str]) -> dict[str, bytes]:
    """The bytes of blobs; what is not there is left out."""
    asked = "".join(f"{oid}\n" for oid in oids).encode()
    out = box.run("git", "cat-file", "--batch", stdin=asked).out.encode("utf-8", "surrogateescape")
    found: dict[str, bytes] = {}
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        words = out[at:end].decode().split(" ")
        at = end + 1
        if len(words) == 3 and words[1] == "blob":
            size = int(words[2])
            found[words[0]] = out[at : at + size]
            at += size + 1
    return found


def differing(one: Files, other: Files) -> list[str]:
    """The names at which two states are not the same."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def rounds(world: World, workers: Sequence[Agent | Linked | Writer | Collector], seconds: float, *, each: float) -> None:
    """Let all of them work at once, a round after the other, and look at everything in between."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        until = min(ends, time.monotonic() + each)
        failures: list[BaseException] = []
        threads = [threading.Thread(target=partial(_work, worker, until, failures)) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        check(world)
        world.count("round")


def _work(worker: Agent | Linked | Writer | Collector, until: float, failures: list[BaseException]) -> None:
    while time.monotonic() < until and not failures:
        try:
            worker.step()
        except BaseException as error:
            failures.append(error)


def check(world: World, *, every_byte: bool = False) -> None:
    """What was acknowledged is there, and what was taken away; git and ``doctor`` find nothing wrong."""
    box = world.box
    quiet(world)
    # git gc writes its graph of commits, and git prune takes commits that stand in it.
    fsck = box.try_git("-c", "core.commitGraph=false", "fsck", "--connectivity-only", "--no-dangling")
    assert (fsck.code, fsck.out) == (0, ""), fsck
    names = box.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/baton/tracks").split()
    chains = {name: chain(box, name) for name in names}
    found = {(track, row["id"]): row for track, rows in chains.items() for row in rows}
    due = {oid: held for oid, held in world.held.items() if oid not in world.pruned}
    lost = {oid: held.track for oid, held in due.items() if (held.track, oid) not in found}
    assert not lost, f"acknowledged, and gone: {lost}"
    commits = {oid: found[held.track, oid]["commit"] for oid, held in due.items()}
    if every_byte:
        states = stored(box, list(commits.values()))
        wrong = {oid: differing(states[commits[oid]], held.files) for oid, held in due.items()}
        assert not any(wrong.values()), {oid: names for oid, names in wrong.items() if names}
    reachable = {row.split(" ", 1)[0] for row in box.git("rev-list", "--objects", "--all", "--indexed-objects").splitlines()}
    gone = {oid: why for oid, why in world.owed.items() if oid not in reachable}
    assert not gone, f"{len(gone)} that stood in files are nowhere: {gone}"
    mend = world.box.ok("doctor", "--mend", "--dry-run")
    assert mend.out == "nothing is damaged\n", mend
    for tree in world.trees:
        tree.box.ok("export")
    box.ok("doctor")
    far = Sandbox(world.top / "far.git").try_git("fsck", "--connectivity-only", "--no-dangling")
    assert (far.code, far.out) == (0, ""), far


def quiet(world: World, seconds: float = 30.0) -> None:
    """Wait until what a hook went on with in the background has ended; then no lock is left."""
    ends = time.monotonic() + seconds
    while left := [*stale_locks(world.box), *world.box.path.glob(".git/objects/pack/*.keep")]:
        assert time.monotonic() < ends, f"left behind: {left}"
        time.sleep(0.1)


VERBS: Mapping[str, tuple[str, ...]] = {
    **{" ".join(words): words for words in (("status",), ("log", "--all"), ("tracks",), ("du",), ("steps", "job-main"))},
    **{" ".join(words): words for words in (("resume", "main"), ("show", "main"), ("diff", "main"), ("scan", "--all"))},
    "journal verify": ("journal", "verify", "job-main"),
    "snapshot": ("snapshot", "--track", "main", "--step", "after"),
    "restore": ("restore", "main~1", "--force"),
    "undo": ("undo",),
    "run": ("run", "--run", "job-main", "--step", "look", "--", "true"),
    "pin": ("pin", "main~1"),
    "sync": ("sync", "far", "--yes"),
    "push": ("push", "far", "--yes", "--runs"),
    "export": ("export",),
    "doctor": ("doctor",),
}


def verbs(world: World) -> dict[str, int]:
    """What verbs answer in the end, but for those that answer 0."""
    world.box.write("last.txt", f"{world.clock}\n")
    world.box.ok("snapshot", "--track", "main", "--step", "before the last")  # else that restore may have nothing to change
    world.box.write("last.txt", "changed\n")
    done = {name: world.box.baton(*words) for name, words in VERBS.items()}
    return {f"{name}: {ended.out}{ended.err}": ended.code for name, ended in done.items() if ended.code}


def report(world: World) -> str:
    """What was done, how often, and what was refused."""
    lines = [f"{len(world.held)} checkpoints held, {len(world.pruned)} pruned, {len(world.owed)} states of files owed"]
    for name, count in sorted(world.counts.items()):
        lines.append(f"{count:6} {name} (the slowest {world.slowest.get(name, 0.0):.1f} s)")
    lines += [f"{count:6} refused: {why}" for why, count in sorted(world.refused.items())]
    return "\n".join([*lines, *(f"refused once: {said}" for said in world.passing)])
