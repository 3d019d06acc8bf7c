"""A disk with one repository on it, for commands that are recorded there and cut short."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.kit.plug import Recording, baton, needs_strace
from tests.kit.repos import Sandbox
from tests.kit.state import snap

THEN = {"a.txt": b"one\n", "b.txt": b"two\n", "d/c.txt": b"three\n" * 40}
WORK = {"a.txt": b"one, edited\n", "b.txt": b"two\n", "d/c.txt": b"three, edited\n" * 40, "new/e.txt": b"new\n"}


class Scene:
    """A main work tree, and perhaps a linked one, with a checkpoint unless it is a ``new`` track that is begun; all commands
    are given in ``box``."""

    def __init__(self, tmp_path: Path, *, linked: bool = False, new: bool = False) -> None:
        needs_strace()
        self.top = tmp_path / "disk"
        self.top.mkdir(exist_ok=True)
        self.main = self.box = Sandbox.begun(self.top / "repo")
        shutil.rmtree(self.box.path / ".git/hooks")
        if linked:
            self.box = Sandbox(self.top / "linked")
            self.main.git("worktree", "add", "-q", "-b", "side", str(self.box.path))
        self.write(THEN)
        self.box.commit("all")
        self.first = "" if new else snap(self.box, "t", "first")

    def write(self, files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            self.box.write(name, data)

    def run(self, *words: str, code: int = 0) -> Recording:
        """Record a command."""
        found = baton(self.top, self.box.path, *words)
        assert found.ended.code == code, found.ended
        return found
