"""Every shape an index can have, and what stands beside the files: flags, stages, sparse, split, submodules, special files."""

from __future__ import annotations

import os
import shutil
import socket

import pytest

from tests.kit import Sandbox
from tests.kit.capturekit import submodule
from tests.kit.state import actions, assert_same, snap, sound, state_of
from tests.kit.tiers import deep, full, some
from tests.promises.test_restore_shapes import Shape, check_round_trip, nothing

ORDINARY = {"d/b.txt": "b\n", "d/c.txt": "c\n", "e.txt": "e\n"}


def ordinary(box: Sandbox) -> None:
    for name, text in ORDINARY.items():
        box.write(name, text)
    box.commit("ordinary")


def work(box: Sandbox) -> None:
    """Work in progress: staged, staged then edited, deleted, new."""
    box.write("a.txt", "staged\n")
    box.write("added.txt", "added\n")
    box.git("add", "a.txt", "added.txt")
    box.write("a.txt", "edited\n")
    (box.path / "d/c.txt").unlink()
    box.write("new/untracked.txt", "u\n")


def mess(box: Sandbox) -> None:
    """What comes after the checkpoint."""
    box.write("a.txt", "spoilt\n")
    box.write("d/b.txt", "spoilt, and staged\n")
    box.write("stranger/x.txt", "x\n")
    box.git("add", "d/b.txt", "stranger/x.txt")
    box.write("d/b.txt", "spoilt, staged, and edited\n")
    box.git("rm", "-q", "-f", "e.txt")
    box.write("d/c.txt", "spoilt\n")
    shutil.rmtree(box.path / "new", ignore_errors=True)


def split_arrange(box: Sandbox) -> None:
    ordinary(box)
    box.git("config", "core.splitIndex", "true")
    box.git("update-index", "--split-index")


def four_arrange(box: Sandbox) -> None:
    ordinary(box)
    box.git("config", "index.version", "4")
    box.git("update-index", "--index-version", "4")


def sparse_arrange(box: Sandbox, *, index: bool = False) -> None:
    ordinary(box)
    box.write("in/x", "x\n")
    box.write("out/y", "y\n")
    box.write("out/deep/z", "z\n")
    box.commit("sides")
    cone = ("in", "d", "new", "stranger")
    box.git("sparse-checkout", "set", "--cone", "--sparse-index" if index else "--no-sparse-index", *cone)
    assert not (box.path / "out").exists()


def sparse_index_arrange(box: Sandbox) -> None:
    sparse_arrange(box, index=True)


def sparse_dirty(box: Sandbox) -> None:
    work(box)
    box.write("in/x", "edited\n")
    box.write("in/new", "new\n")
    box.write("out/y", "edited outside the cone\n")


def sparse_mess(box: Sandbox) -> None:
    mess(box)
    box.write("in/x", "spoilt\n")
    if (box.path / "out/y").exists():
        box.write("out/y", "spoilt outside the cone\n")


def skip_dirty(box: Sandbox) -> None:
    box.write("a.txt", "hidden edit\n")
    box.write("d/b.txt", "visible edit\n")


def skip_arrange(box: Sandbox) -> None:
    ordinary(box)
    box.git("update-index", "--skip-worktree", "a.txt", "e.txt")


def skip_mess(box: Sandbox) -> None:
    box.git("update-index", "--no-skip-worktree", "a.txt")
    box.git("update-index", "--skip-worktree", "d/c.txt")
    for name in ("a.txt", "d/b.txt", "d/c.txt", "e.txt"):
        box.write(name, "spoilt\n")


def assume_arrange(box: Sandbox) -> None:
    ordinary(box)
    box.git("update-index", "--assume-unchanged", "a.txt", "e.txt")


def assume_mess(box: Sandbox) -> None:
    box.git("update-index", "--no-assume-unchanged", "a.txt")
    box.git("update-index", "--assume-unchanged", "d/c.txt")
    for name in ("a.txt", "d/b.txt", "d/c.txt"):
        box.write(name, "spoilt\n")
    (box.path / "e.txt").unlink()


def intent_arrange(box: Sandbox) -> None:
    ordinary(box)
    box.write("intent.txt", "later\n")
    box.write("intent-empty.txt", "")
    box.git("add", "-N", "intent.txt", "intent-empty.txt")


def intent_mess(box: Sandbox) -> None:
    mess(box)
    box.git("add", "intent.txt")
    box.write("intent.txt", "spoilt\n")
    box.git("rm", "-q", "-f", "--cached", "intent-empty.txt")
    box.write("intent-too.txt", "new\n")
    box.git("add", "-N", "intent-too.txt")


def unmerged_arrange(box: Sandbox) -> None:
    ordinary(box)
    box.git("checkout", "-qb", "other")
    box.write("both", "other\n")
    (box.path / "d/b.txt").unlink()
    box.commit("theirs", a_txt="theirs\n")
    box.git("checkout", "-q", "main")
    box.write("both", "main\n")
    box.write("d/b.txt", "ours\n")
    box.commit("ours", a_txt="ours\n")
    assert box.try_git("merge", "other").code == 1


def unmerged_dirty(box: Sandbox) -> None:
    box.write("both", "half resolved\n")
    box.write("staged.txt", "staged\n")
    box.git("add", "staged.txt")


def unmerged_mess(box: Sandbox) -> None:
    box.write("a.txt", "resolved wrongly\n")
    box.write("both", "resolved wrongly\n")
    box.git("add", "a.txt", "both")
    box.git("rm", "-q", "-f", "d/b.txt")
    box.write("e.txt", "spoilt\n")


def unborn_arrange(box: Sandbox) -> None:
    box.git("checkout", "-q", "--orphan", "fresh")
    box.git("rm", "-rqf", "--cached", ".")


def unborn_dirty(box: Sandbox) -> None:
    box.write("a.txt", "staged\n")
    box.write("b.txt", "b\n")
    box.git("add", "a.txt", "b.txt")
    box.write("a.txt", "edited\n")


def unborn_mess(box: Sandbox) -> None:
    box.write("a.txt", "spoilt\n")
    box.write("c.txt", "c\n")
    box.git("add", "c.txt", "a.txt")
    (box.path / "b.txt").unlink(missing_ok=True)


def force_arrange(box: Sandbox) -> None:
    ordinary(box)
    box.write(".gitignore", "*.log\n")
    box.write("kept.log", "1\n")
    box.write("lost.log", "1\n")
    box.git("add", "-f", "kept.log")
    box.commit("forced")


def force_dirty(box: Sandbox) -> None:
    box.write("kept.log", "2\n")
    box.write("also.log", "forced\n")
    box.git("add", "-f", "also.log")


def force_mess(box: Sandbox) -> None:
    box.write("kept.log", "spoilt\n")
    box.write("lost.log", "ignored, and edited\n")
    box.write("stranger.log", "ignored, and new\n")


def ignored_directory_arrange(box: Sandbox) -> None:
    ordinary(box)
    box.commit("rules", _gitignore="/d/\n")
    box.write("d/new.txt", "ignored\n")


def ignored_directory_dirty(box: Sandbox) -> None:
    box.write("d/b.txt", "edited\n")
    (box.path / "d/c.txt").unlink()


def ignored_directory_mess(box: Sandbox) -> None:
    box.write("d/b.txt", "spoilt\n")
    box.write("d/new.txt", "ignored, and edited\n")
    box.write("a.txt", "spoilt\n")


def submodule_arrange(box: Sandbox) -> None:
    ordinary(box)
    submodule(box, "sub")


def submodule_dirty(box: Sandbox) -> None:
    Sandbox(box.path / "sub").commit("second", s_txt="two\n")
    box.write("sub/s.txt", "dirty\n")
    work(box)


def submodule_mess(box: Sandbox) -> None:
    mess(box)
    Sandbox(box.path / "sub").commit("third", s_txt="three\n")
    box.write("sub/s.txt", "dirty again\n")
    box.write("sub/new.txt", "new\n")


def submodule_staged_mess(box: Sandbox) -> None:
    submodule_mess(box)
    box.git("add", "sub")


def nested_arrange(box: Sandbox) -> None:
    ordinary(box)
    Sandbox.init(box.path / "nest").commit("first", n_txt="n\n")


def nested_dirty(box: Sandbox) -> None:
    box.write("nest/n.txt", "dirty\n")
    work(box)


def nested_mess(box: Sandbox) -> None:
    mess(box)
    box.write("nest/n.txt", "dirty again\n")
    Sandbox(box.path / "nest").commit("second", m_txt="m\n")


def special_arrange(box: Sandbox) -> None:
    ordinary(box)
    os.mkfifo(box.path / "fifo")
    os.chdir(box.path)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("d/socket")


def special_mess(box: Sandbox) -> None:
    mess(box)
    os.mkfifo(box.path / "later")
    (box.path / "fifo").unlink()


SPECIAL = ("fifo", "later", "d/socket")
SHAPES = {
    "split-index": Shape(split_arrange, work, mess),
    "index-v4": Shape(four_arrange, work, mess),
    "sparse-checkout": Shape(sparse_arrange, sparse_dirty, sparse_mess),
    "sparse-index": Shape(sparse_index_arrange, sparse_dirty, sparse_mess),
    "skip-worktree": Shape(skip_arrange, skip_dirty, skip_mess),
    "assume-unchanged": Shape(assume_arrange, skip_dirty, assume_mess),
    "intent-to-add": Shape(intent_arrange, work, intent_mess),
    "unmerged": Shape(unmerged_arrange, unmerged_dirty, unmerged_mess),
    "unborn-head": Shape(unborn_arrange, unborn_dirty, unborn_mess),
    "staged-then-edited": Shape(ordinary, work, mess),
    "force-added-ignored": Shape(force_arrange, force_dirty, force_mess, theirs=("lost.log", "stranger.log")),
    "tracked-directory-ignored": Shape(
        ignored_directory_arrange, ignored_directory_dirty, ignored_directory_mess, theirs=("d/new.txt",)
    ),
    "submodule": Shape(submodule_arrange, submodule_dirty, submodule_mess, theirs=("sub",)),
    "submodule-staged": Shape(submodule_arrange, submodule_dirty, submodule_staged_mess, theirs=("sub",)),
    "nested-repository": Shape(nested_arrange, nested_dirty, nested_mess, theirs=("nest",)),
    "fifo-and-socket": Shape(special_arrange, work, special_mess, theirs=SPECIAL),
}


@pytest.mark.parametrize("dirty", [full(False), deep(True)], ids=["clean", "dirty"])
@some("name", SHAPES, share={"sparse-index"})
def test_t24_an_index_goes_there_and_back(repo: Sandbox, name: str, dirty: bool) -> None:
    check_round_trip(repo, SHAPES[name], dirty=dirty)


@pytest.mark.full
@some("dirty", [False, True], ids=["clean", "dirty"])
def test_t24_an_empty_repository(repo: Sandbox, dirty: bool) -> None:
    empty = Sandbox.init(repo.path.parent / "empty")
    check_round_trip(empty, Shape(nothing, unborn_dirty, unborn_mess), dirty=dirty)


@pytest.mark.full
@some("dirty", [False, True], ids=["clean", "dirty"])
def test_t24_a_linked_work_tree(repo: Sandbox, dirty: bool) -> None:
    ordinary(repo)
    linked = Sandbox(repo.path.parent / "linked")
    repo.git("worktree", "add", "-q", "-b", "side", str(linked.path))
    before = state_of(repo).files
    check_round_trip(linked, Shape(nothing, work, mess), dirty=dirty)
    assert state_of(repo).files == before


@pytest.mark.full
@some("dirty", [False, True], ids=["clean", "dirty"])
def test_t24_sha256(repo: Sandbox, dirty: bool) -> None:
    box = Sandbox.init(repo.path.parent / "sha256", "--object-format=sha256")
    check_round_trip(box, Shape(ordinary, work, mess), dirty=dirty)


@pytest.mark.full
@some("dirty", [False, True], ids=["clean", "dirty"])
def test_t24_a_file_of_40_mib(repo: Sandbox, dirty: bool) -> None:
    def big(text: bytes) -> None:
        with (repo.path / "big.bin").open("wb") as file:
            file.truncate(40 << 20)
            file.seek(20 << 20)
            file.write(text)

    big(b"then")
    if not dirty:
        repo.commit("big")
    snap(repo)
    then = state_of(repo)
    big(b"spoilt")
    spoilt = state_of(repo)
    repo.ok("restore")
    assert_same(then, state_of(repo), "restored")
    repo.ok("undo")
    assert_same(spoilt, state_of(repo), "undone")
    repo.ok("redo")
    assert_same(then, state_of(repo), "redone")


@pytest.mark.full
@some("required", ["missing", "failing"])
@some("dirty", [False, True], ids=["clean", "dirty"])
def test_t24_a_required_filter_that_is_gone_spoils_nothing_else(repo: Sandbox, dirty: bool, required: str) -> None:
    repo.write(".gitattributes", "*.f filter=f\n")
    repo.git("config", "filter.f.clean", "sed s/secret/clean/")
    repo.git("config", "filter.f.smudge", "sed s/clean/secret/")
    repo.write("in.f", "secret\n")
    repo.commit("filtered")
    if dirty:
        repo.write("in.f", "secret two\n")
    snap(repo)
    then = state_of(repo)
    program = "no-such-program" if required == "missing" else "false"
    for key, setting in {"clean": program, "smudge": program, "required": "true"}.items():
        repo.git("config", f"filter.f.{key}", setting)
    repo.write("in.f", "secret spoilt\n")
    repo.write("a.txt", "two\n")
    done = repo.baton("restore", "--json")
    assert done.code == 1, done.out + done.err
    assert actions(done) == {"a.txt": "write", "in.f": "refuse"}
    assert (repo.path / "a.txt").read_text() == "one\n" and (repo.path / "in.f").read_text() == "secret spoilt\n"
    for key, setting in {"clean": "sed s/secret/clean/", "smudge": "sed s/clean/secret/", "required": "false"}.items():
        repo.git("config", f"filter.f.{key}", setting)
    repo.ok("restore")
    assert state_of(repo).files == then.files


@pytest.mark.deep
@some(
    ("dirty", "options"),
    [(False, ()), (True, ("--index",)), (True, ("--exact", "--index"))],
    ids=["clean", "dirty-index", "dirty-exact"],
    share=0,
)
def test_t12_an_index_lock_held_by_another_process(repo: Sandbox, dirty: bool, options: tuple[str, ...]) -> None:
    ordinary(repo)
    if dirty:
        work(repo)
    then = state_of(repo)
    snap(repo)
    mess(repo)
    spoilt = state_of(repo)
    lock = repo.path / ".git/index.lock"
    lock.write_bytes(b"somebody's")
    done = repo.baton("restore", *options)
    assert lock.read_bytes() == b"somebody's", "it is not ours to remove"
    assert done.code == 128 and done.err.startswith("fatal: "), done.out + done.err
    lock.unlink()
    assert_same(spoilt, state_of(repo), "refused as a whole")
    repo.ok("restore", *options)
    now = state_of(repo)
    assert now.files == then.files if "--exact" in options else then.files.items() <= now.files.items()
    repo.ok("undo")
    assert_same(spoilt, state_of(repo), "undone")
    sound(repo)
