"""Clones of one repository with clocks of their own, what lies in them as git has it, and commands that are killed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pygit2

from gitbaton import Baton
from gitbaton.cli.main import call
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.libgit2 import Libgit2Objects
from tests.kit.repos import SOME_TIME, Outcome, Sandbox

CHAINS, TIPS = "refs/baton/tracks/", "refs/checkpoints/"
META, NOTES = "refs/baton/meta", "refs/notes/checkpoints"
OURS = ("refs/baton/", TIPS, NOTES)
_ENTRY = re.compile(rb"^checkpoint ([0-9a-f]{40})$", re.MULTILINE)
_WRITING = ("os.rename", "os.remove", "os.mkdir", "os.posix_spawn", "subprocess.Popen", "os.symlink", "os.link")
KILLED = 9


@dataclass(frozen=True)
class Item:
    """One checkpoint of a chain; ``raw`` is its JSON as it is stored, ``id`` is worked out from that."""

    id: str
    commit: str
    raw: bytes
    tree: str
    base: str | None
    data: Any = field(repr=False)

    @property
    def place(self) -> tuple[str, str]:
        return self.data["created"], self.id

    @property
    def carries(self) -> str | None:
        """The manual checkpoint whose words it takes along."""
        return cast(str | None, (self.data.get("carried") or {}).get("id"))


@dataclass(frozen=True)
class Pins:
    """What refs/baton/meta says."""

    pins: dict[str, int]
    pruned: frozenset[str]
    forgotten: frozenset[str]

    def pinned(self, oid: str) -> bool:
        return self.pins.get(oid, 0) % 2 == 1

    def dropped(self, oid: str) -> bool:
        return oid in self.forgotten or (oid in self.pruned and not self.pinned(oid))


class State:
    """All of ours in a repository, read without gitbaton."""

    def __init__(self, path: Path) -> None:
        self.repo = pygit2.Repository(str(path))
        self.refs = {name: str(self.repo.references[name].target) for name in self.repo.references}
        self.tips = {name.removeprefix(TIPS): oid for name, oid in self.refs.items() if name.startswith(TIPS)}

    @cached_property
    def chains(self) -> dict[str, list[Item]]:
        return self.below(CHAINS)

    @cached_property
    def meta(self) -> Pins:
        return self.pins(META)

    @cached_property
    def notes(self) -> dict[str, bytes]:
        return dict(self._notes(NOTES))

    def below(self, prefix: str) -> dict[str, list[Item]]:
        """The chains below a prefix, oldest checkpoint first."""
        found = {name: oid for name, oid in self.refs.items() if name.startswith(prefix)}
        return {name.removeprefix(prefix): self.chain(oid) for name, oid in found.items()}

    def ids(self, prefix: str = CHAINS) -> dict[str, frozenset[str]]:
        chains = self.chains if prefix == CHAINS else self.below(prefix)
        return {track: frozenset(item.id for item in items) for track, items in chains.items()}

    def chain(self, commit: str) -> list[Item]:
        """A chain whose links are as the law has them, oldest first."""
        items: list[Item] = []
        while True:
            head, _, message = self.read(commit).partition(b"\n\n")
            lines = head.decode().split("\n")
            parents = [line[7:] for line in lines if line.startswith("parent ")]
            if not parents:
                assert message == b"gitbaton root 1\n" and lines[0] == "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904"
                return items[::-1]
            assert len(parents) <= 2 and len(set(parents)) == len(parents), f"the parents of {commit}: {parents}"
            raw = message.partition(b"\n\n")[2].partition(b"\n}\n")[0] + b"\n}\n"
            oid = hashlib.sha1(b"blob %d\0" % len(raw) + raw).hexdigest()
            base = parents[1] if len(parents) == 2 else None
            items.append(Item(oid, commit, raw, lines[0][5:], base, json.loads(raw)))
            commit = parents[0]

    def read(self, oid: str) -> bytes:
        return self.repo.odb.read(oid)[1]

    def tree(self, oid: str) -> Iterator[tuple[str, str, int]]:
        """The entries of a tree: name, id, and 1 for a tree."""
        for entry in cast(pygit2.Tree, self.repo[oid]):
            yield cast(str, entry.name), str(entry.id), int(entry.type_str == "tree")

    def pins(self, ref: str) -> Pins:
        found: dict[str, dict[str, int]] = {"pins": {}, "pruned": {}, "forgotten": {}}
        if ref in self.refs:
            for name, oid, _ in self.tree(str(cast(pygit2.Commit, self.repo[self.refs[ref]]).tree_id)):
                for two, folder, _ in self.tree(oid):
                    for rest, blob, _ in self.tree(folder):
                        found[name][two + rest] = int(self.read(blob).split(b"\n")[0] or b"1")
        return Pins(found["pins"], frozenset(found["pruned"]), frozenset(found["forgotten"]))

    def _notes(self, ref: str) -> Iterator[tuple[str, bytes]]:
        todo = [("", str(cast(pygit2.Commit, self.repo[self.refs[ref]]).tree_id))] if ref in self.refs else []
        while todo:
            spent, oid = todo.pop()
            for name, below, folder in self.tree(oid):
                if folder:
                    todo.append((spent + name, below))
                else:
                    yield spent + name, self.read(below)

    def noted(self) -> dict[str, list[str]]:
        """The ids that the note of each commit names."""
        return {commit: [m.decode() for m in _ENTRY.findall(text)] for commit, text in self.notes.items()}

    def theirs(self) -> dict[str, str]:
        """The refs that are the user's."""
        return {name: oid for name, oid in self.refs.items() if not name.startswith(OURS)}


class Clock:
    """The true time; it goes on a little each time it is asked, and clones are wrong by their skew."""

    def __init__(self) -> None:
        self.now = SOME_TIME + timedelta(days=30)

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now


class Clone(Sandbox):
    """A repository whose clock is wrong by ``skew`` minutes."""

    def __init__(self, path: Path, clock: Clock, skew: float = 0) -> None:
        super().__init__(path)
        self.true, self.skew = clock, skew

    @property
    def name(self) -> str:
        return self.path.name

    def clock(self) -> datetime:
        return self.true() + timedelta(minutes=self.skew)

    def open(self, **options: Any) -> Baton:
        return super().open(**{"clock": self.clock, **options})

    def state(self) -> State:
        return State(self.path)

    def here(self, *words: str) -> Outcome:
        """``git baton`` in this process, with this clone's clock."""
        out, err = io.StringIO(), io.StringIO()
        defaults = cast(dict[str, Any], Baton.__init__.__kwdefaults__)
        before, place = defaults["clock"], os.getcwd()
        defaults["clock"] = self.clock
        os.chdir(self.path)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = call(list(words))
        finally:
            defaults["clock"] = before
            os.chdir(place)
        return Outcome(code, out.getvalue(), err.getvalue())

    def mine(self) -> dict[str, object]:
        """What is the user's: branches, HEAD, index and files."""
        git = self.path / ".git"
        files = [p for p in self.path.rglob("*") if p.is_file() and ".git" not in p.parts and "checkpoints" not in p.parts]
        names = ("HEAD", "index", "config", "packed-refs")
        return {
            **State(self.path).theirs(),
            **{name: (git / name).read_bytes() for name in names[:3] if (git / name).exists()},
            **{str(p.relative_to(self.path)): p.read_bytes() for p in files},
        }

    def leftovers(self) -> list[str]:
        """Files that only a killed process leaves."""
        git = self.path / ".git"
        locks = [p for p in git.rglob("*.lock") if p.parent.name != "lock"]
        ours = [p for p in (git / "baton").rglob("*") if p.name.endswith(".new") or p.name == "revision"]
        return [str(p.relative_to(git)) for p in (*locks, *ours)]


def copied(template: Path, target: Path) -> Path:
    """A copy of a folder in the place of what is there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(template, target, symlinks=True)
    return target


class _Killer:
    """Ends this process, without a chance to clean up, before the n-th step that writes something."""

    def __init__(self, at: int) -> None:
        self.left, self.quiet = at, False

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os._exit(KILLED)

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.quiet and (event in _WRITING or (event == "open" and isinstance(args[1], str) and args[1][:1] in "wax")):
            self.step()

    def watch(self, kind: type[Any]) -> None:
        """Objects are written one by one, and refs move one by one, when the kill comes between them."""
        write, update = kind.write, kind.update

        def slow_write(objects: Any, items: Any) -> None:
            self.step()
            write(objects, items)

        def slow_update(objects: Any, *transactions: Sequence[Any]) -> None:
            for changes in transactions:
                if 0 < self.left <= len(changes):
                    self.quiet = True
                    for change in changes[: self.left - 1]:
                        update(objects, [change])
                    os._exit(KILLED)
                self.left -= len(changes)
                self.quiet = True  # it is one step, whatever git does in it
                update(objects, changes)
                self.quiet = False

        kind.write, kind.update = slow_write, slow_update


def killed(work: Callable[[], object], at: int) -> bool:
    """Carry ``work`` out in a child process that dies before its ``at``-th step that writes; whether it died.

    Comes back when git's own processes, which live on, have ended. What ``work`` raises fails the test.
    """
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            killer = _Killer(at)
            for kind in (Libgit2Objects, BinaryObjects):
                killer.watch(kind)
            sys.addaudithook(killer.audit)
            work()
            code = 0
        except BaseException:
            os.write(writer, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(writer)
    said = b""
    while chunk := os.read(reader, 1 << 16):
        said += chunk
    os.close(reader)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, KILLED), f"exit {status}: {said.decode()}"
    return status == KILLED
