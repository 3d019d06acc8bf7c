"""A repository seen through one of the two doors, in one of git's formats."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitbaton.git.binary import BinaryObjects
from gitbaton.git.libgit2 import Libgit2Objects
from gitbaton.git.objects import Kind, Objects, commit_data, new_object
from gitbaton.git.repo import Door, discover
from tests.kit import Sandbox, find_new_git

AUTHOR = b"A U Thor <author@example.com> 1767225600 +0000"
FORMATS = ("binary", "libgit2", "sha256", "reftable")


class Place:
    """A repository with two commits, a door to it, and git as the judge."""

    def __init__(self, sandbox: Sandbox, door: Door) -> None:
        self.sandbox, self.door = sandbox, door
        self.objects: Objects = self.open()

    def open(self) -> Objects:
        """Another door of the same kind, as another process has it."""
        return discover(str(self.sandbox.path), door=self.door).objects

    def put(self, kind: Kind, data: bytes) -> str:
        item = new_object(self.objects.algorithm, kind, data)
        self.objects.write([item])
        return item.oid

    def blob(self, text: str) -> str:
        return self.put("blob", text.encode())

    def commit(self, message: str, *parents: str, author: bytes = AUTHOR) -> str:
        tree = self.put("tree", b"")
        return self.put("commit", commit_data(tree=tree, parents=parents, author=author, message=message.encode()))

    def at(self, ref: str) -> str | None:
        """Where git says that a ref is."""
        done = self.sandbox.try_git("for-each-ref", "--format=%(objectname)", ref)
        return done.out.strip() or None


def build(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    options: tuple[str, ...] = ()
    if name == "sha256":
        options = ("--object-format=sha256",)
    if name == "reftable":
        git = find_new_git()
        if git is None:
            pytest.skip("no git of 2.45 or newer: set GITBATON_TEST_GIT")
        if os.path.isabs(git):
            monkeypatch.setenv("PATH", os.path.dirname(git) + os.pathsep + os.environ["PATH"])
        options = ("--ref-format=reftable",)
    if name == "bare of templates":
        options = ("--template=",)
    sandbox = Sandbox.init(path, *options)
    sandbox.commit("first", a_txt="one\n")
    sandbox.commit("second", a_txt="two\n")
    place = Place(sandbox, "libgit2" if name == "libgit2" else "binary")
    assert isinstance(place.objects, Libgit2Objects if name == "libgit2" else BinaryObjects)
    return place
