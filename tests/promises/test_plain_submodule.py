"""A plain folder where the index has a submodule: its files are taken in, told of and brought back like any others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.state import actions, assert_same, files_of, snap, state_of


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    lib = Sandbox.init(tmp_path / "lib")
    lib.commit("lib", x="x\n")
    made = Sandbox.init(tmp_path / "work")
    made.commit("one", a_txt="a\n")
    made.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(lib.path), "sub")
    made.git("commit", "-qm", "sub")
    made.git("submodule", "deinit", "-q", "-f", "sub")
    return made


def test_its_files_are_taken_in_and_come_back(box: Sandbox) -> None:
    snap(box, "t", "empty")
    box.write("sub/mine", "mine\n")
    box.write("sub/deep/er", "deep\n")
    before = state_of(box)
    snap(box)
    assert "sub/deep/er" in box.git("ls-tree", "-r", "--name-only", "refs/baton/tracks/t")
    assert "skipped" not in box.ok("show", "--porcelain", "@").out and box.baton("verify", "--strict").code == 0
    box.write("sub/mine", "edited\n")
    assert box.ok("resume", "--porcelain", "--live").out.count("drift=files-changed:1") == 1
    box.ok("restore", "@")
    assert_same(before, state_of(box), "restored")
    box.ok("restore", "@~1", "--exact")
    assert list((box.path / "sub").iterdir()) == [], "the folder stays, for the submodule"
    box.ok("undo")
    assert_same(before, state_of(box), "undone")


def test_a_folder_of_ignored_files_alone_changes_nothing(box: Sandbox) -> None:
    box.write(".gitignore", "*.o\n")
    box.write("sub/x.o", "object\n")
    snap(box)
    assert "160000 commit" in box.git("ls-tree", "refs/baton/tracks/t", "sub")
    assert box.baton("verify", "--strict").code == 0


@pytest.mark.deep
def test_files_of_then_do_not_go_into_a_repository_of_now(box: Sandbox) -> None:
    box.write("sub/mine", "mine\n")
    snap(box)
    (box.path / "sub/mine").unlink()
    box.git("-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init")
    before = files_of(box.path)
    done = box.baton("restore", "@", "--exact", "--json")
    assert done.code == 1 and set(actions(done).values()) == {"refuse"}
    assert files_of(box.path) == before
