"""files-changed: what drift counts is what git's own comparison with a second snapshot finds, and counting leaves no trace."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.base.model import FileState
from gitbaton.git.repo import discover
from gitbaton.git.worktree.filedrift import changed_paths
from gitbaton.git.worktree.untracked import CaptureRules
from tests.kit import Sandbox
from tests.kit.capturekit import index_path, state
from tests.kit.tiers import some

Change = Callable[[Sandbox], object]


def build(path: Path, *options: str) -> Sandbox:
    """Files of many kinds: staged, edited, untracked, in a nest of folders, with names that no shell likes."""
    repo = Sandbox.init(path / "work", *options)
    (path / "lib").mkdir()
    library = Sandbox.init(path / "lib" / "library")
    library.commit("one", lib_txt="1\n")
    for name in ("a.txt", "b.txt", "d/e/f.txt", "d/g.txt", "line\nbreak", "run.sh", "same.txt", "empty", 'q"uote', ":colon"):
        repo.write(name, f"content of {name}\n" if name != "empty" else "")
    repo.write(os.fsdecode(b"latin-\xe9"), "x\n")
    (repo.path / "link").symlink_to("a.txt")
    repo.write(".gitignore", "*.log\n")
    repo.git("submodule", "--quiet", "add", str(library.path), "sub")
    repo.commit("first")
    repo.write("b.txt", "edited before the checkpoint\n")
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    repo.write("untracked.txt", "never added\n")
    repo.write("new folder/un\ttracked", "never added, either\n")
    return repo


@pytest.fixture
def repo(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """A copy of what ``build`` makes, with a checkpoint."""
    template = tmp_path_factory.getbasetemp() / "filedrift"
    if not template.exists():
        build(template)
    shutil.copytree(template, tmp_path / "made", symlinks=True)
    repo = Sandbox(tmp_path / "made" / "work")
    repo.git("status")  # the copies have another inode: let the index know them
    snapshot(repo, "t")
    return repo


def snapshot(repo: Sandbox, track: str) -> FileState:
    with repo.open(door="binary") as baton:
        files = baton.snapshot("s", track=track).stored.checkpoint.files
    assert files is not None
    return files


def truth(repo: Sandbox) -> list[str]:
    """What git finds between the captured tree and that of a second snapshot, less what the first one left out."""
    with repo.open(door="binary") as baton:
        old = baton.tip("t").checkpoint.files
    assert old is not None
    new = snapshot(repo, "another")
    skipped = {s.path for s in old.skipped}
    raw = repo.run("git", "diff-tree", "-r", "-z", "--no-renames", "--name-only", old.tree, new.tree).out
    return [p for p in raw.split("\0")[:-1] if p not in skipped]


def said(repo: Sandbox) -> tuple[int, tuple[str, ...]]:
    """The count that drift says, and all its words."""
    with repo.open(door="binary") as baton:
        drift = baton.verify("t")[1].drift
    words = tuple(w.word for w in drift.words)
    return sum(int(w.partition(":")[2]) for w in words if w.startswith("files-changed:")), words


def verify_drift(repo: Sandbox) -> int:
    """The count must be git's; index, objects and refs must stay as they are. The count."""
    index = index_path(repo)
    before = state(index), repo.git("count-objects", "-v"), repo.git("for-each-ref")
    count = said(repo)[0]
    assert (state(index), repo.git("count-objects", "-v"), repo.git("for-each-ref")) == before
    expected = truth(repo)
    assert count == len(expected), expected
    return count


def edit(name: str, text: str = "edited\n") -> Change:
    return lambda r: r.write(name, text)


def git(*words: str) -> Change:
    return lambda r: r.git(*words)


def every(*changes: Change) -> Change:
    return lambda r: [change(r) for change in changes]


def remove(name: str) -> Change:
    return lambda r: (r.path / name).unlink()


def link(name: str, target: str) -> Change:
    """A symbolic link, whatever file stood there."""

    def make(repo: Sandbox) -> None:
        (repo.path / name).unlink(missing_ok=True)
        (repo.path / name).symlink_to(target)

    return make


def mode(name: str, bits: int) -> Change:
    return lambda r: (r.path / name).chmod(bits)


def drop(name: str) -> Change:
    return lambda r: shutil.rmtree(r.path / name)


def touch(name: str) -> Change:
    return lambda r: os.utime(r.path / name, (1, 1))


def rewrite(name: str) -> Change:
    return lambda r: ((r.path / name).write_bytes(data := (r.path / name).read_bytes()), len(data))


def nest(name: str, *, commit: bool = True) -> Change:
    def make(repo: Sandbox) -> None:
        nested = Sandbox.init(repo.path / name)
        if commit:
            nested.commit("inside", x_txt="x\n")

    return make


def advance(name: str) -> Change:
    return lambda r: Sandbox(r.path / name).commit("more", more_txt="more\n")


CHANGES: dict[str, tuple[int, Change]] = {
    "nothing": (0, lambda r: None),
    "edit": (1, edit("a.txt")),
    "edit-of-same-size": (1, edit("same.txt", "content of same.tx_\n")),
    "edit-again": (1, edit("b.txt")),
    "edit-back": (1, git("checkout", "-q", "b.txt")),
    "rewritten": (0, every(rewrite("a.txt"), rewrite("untracked.txt"), rewrite("b.txt"))),
    "touch": (0, every(touch("a.txt"), touch("b.txt"), touch("untracked.txt"))),
    "chmod": (1, mode("run.sh", 0o755)),
    "chmod-untracked": (1, mode("untracked.txt", 0o755)),
    "chmod-no-matter": (0, mode("run.sh", 0o600)),
    "delete": (1, remove("a.txt")),
    "delete-untracked": (1, remove("untracked.txt")),
    "delete-empty": (1, remove("empty")),
    "delete-folder": (2, drop("d")),
    "new": (2, every(edit("new.txt"), edit("deep/er/new.txt"))),
    "new-empty": (1, edit("nothing", "")),
    "ignored": (0, edit("x.log")),
    "ignored-now": (1, every(edit(".git/info/exclude", "untracked.txt\n"))),
    "no-longer-ignored": (1, every(edit("x.log"), edit(".gitignore", ""))),
    "link": (1, link("link", "b.txt")),
    "link-dangling-new": (1, link("lost", "nowhere")),
    "link-for-file": (1, link("a.txt", "b.txt")),
    "file-for-link": (1, every(remove("link"), edit("link"))),
    "link-for-folder": (3, every(drop("d"), link("d", "new folder"))),
    "newline": (1, edit("line\nbreak")),
    "newline-untracked": (1, edit("an\nother")),
    "not-utf-8": (1, edit(os.fsdecode(b"latin-\xe9"))),
    "not-utf-8-untracked": (1, edit(os.fsdecode(b"new-\xff"))),
    "odd-names": (2, every(edit('q"uote'), edit(":colon"))),
    "odd-untracked": (1, edit("new folder/un\ttracked")),
    "stage": (0, git("add", "-A")),
    "unstage": (0, git("reset", "-q")),
    "staged-only": (0, every(edit("a.txt"), git("add", "a.txt"), git("restore", "--source=HEAD", "--worktree", "a.txt"))),
    "untracked-again": (0, git("rm", "-q", "--cached", "a.txt")),
    "removed": (1, git("rm", "-q", "a.txt")),
    "renamed": (2, git("mv", "a.txt", "moved.txt")),
    "intent-to-add": (0, git("add", "-N", "untracked.txt")),
    "intent-to-add-edited": (1, every(git("add", "-N", "untracked.txt"), edit("untracked.txt"))),
    "intent-to-add-gone": (1, every(git("add", "-N", "untracked.txt"), remove("untracked.txt"))),
    "intent-to-add-new-gone": (0, every(edit("n"), git("add", "-N", "n"), remove("n"))),
    "assume-unchanged": (1, every(git("update-index", "--assume-unchanged", "a.txt", "same.txt"), edit("a.txt"))),
    "skip-worktree": (1, every(git("update-index", "--skip-worktree", "a.txt", "same.txt"), edit("a.txt"))),
    "skip-worktree-gone": (0, every(git("update-index", "--skip-worktree", "a.txt"), remove("a.txt"))),
    "assume-unchanged-gone": (1, every(git("update-index", "--assume-unchanged", "a.txt"), remove("a.txt"))),
    "sparse": (0, git("sparse-checkout", "set", "--cone", "d")),
    "sparse-present": (1, every(git("sparse-checkout", "set", "--cone", "new folder"), edit("d/g.txt"))),
    "file-for-folder": (3, every(drop("d"), edit("d"))),
    "folder-for-file": (2, every(remove("a.txt"), edit("a.txt/inside"))),
    "folder-for-untracked": (2, every(remove("untracked.txt"), edit("untracked.txt/inside"))),
    "submodule-moved": (1, advance("sub")),
    "submodule-dirty": (0, edit("sub/dirty.txt")),
    "submodule-gone": (1, drop("sub")),
    "nested": (1, nest("nested")),
    "nested-without-commit": (0, nest("nested", commit=False)),
    "nested-for-file": (1, every(remove("a.txt"), nest("a.txt"))),
    "excluded": (0, every(edit(".env.local"), edit("deep/key.pem"))),
    "excluded-now": (1, git("config", "baton.exclude", "untracked.txt")),
    "too-large": (0, every(git("config", "baton.maxFileSize", "64"), edit("big.bin", "x" * 65))),
    "too-large-now": (1, git("config", "baton.maxFileSize", "15")),
    "no-untracked": (2, git("config", "baton.untracked", "none")),
    "fifo": (0, lambda r: os.mkfifo(r.path / "fifo")),
    "fifo-for-file": (1, every(remove("untracked.txt"), lambda r: os.mkfifo(r.path / "untracked.txt"))),
    "commit": (0, lambda r: r.commit("second")),
    "mode-off": (0, every(git("config", "core.fileMode", "false"), mode("a.txt", 0o755), mode("untracked.txt", 0o755))),
    "mode-off-edit": (1, every(git("config", "core.fileMode", "false"), mode("run.sh", 0o755), edit("run.sh"))),
    "split": (1, every(git("update-index", "--split-index"), edit("a.txt"))),
    "attributes": (1, edit(".gitattributes", "*.txt text=auto eol=crlf\n")),
    "ident": (3, every(edit(".gitattributes", "same.txt ident\n"), edit("same.txt", "$Id: x$\n"), edit("b.txt"))),
    "everything": (19, lambda r: [r.write(p, "new\n") for p in (*r.git("ls-files", "*.txt").split(), *map(str, range(13)))]),
}  # fmt: skip


@pytest.mark.deep
@some("name", CHANGES, 2, share={"sparse", "submodule-gone", "intent-to-add-new-gone", "everything"})
def test_the_count_is_what_a_second_snapshot_differs_by(repo: Sandbox, name: str) -> None:
    expected, change = CHANGES[name]
    change(repo)
    assert verify_drift(repo) == expected


@pytest.mark.deep
def test_a_dirty_work_tree_is_the_one_that_was_captured(repo: Sandbox) -> None:
    assert repo.git("status", "--porcelain") != "" and said(repo) == (0, ())


@pytest.mark.full
def test_random_changes_in_random_order(repo: Sandbox) -> None:
    rng = random.Random(20260101)
    names = [
        n for n in CHANGES if not n.startswith(("sparse", "nested", "folder", "file-for", "submodule", "fifo", "link-for"))
    ]
    for _ in range(25):
        try:
            CHANGES[rng.choice(names)][1](repo)
        except (OSError, AssertionError):
            continue  # what it works on is gone
        verify_drift(repo)


@pytest.mark.full
def test_many_trees_cost_one_comparison_with_the_index(repo: Sandbox, tmp_path: Path) -> None:
    trees = []
    for number, name in enumerate(
        ("edit", "delete-folder", "newline-untracked", "chmod", "intent-to-add", "commit", "removed")
    ):
        CHANGES[name][1](repo)
        trees.append(snapshot(repo, f"track {number}").tree)
    CHANGES["link"][1](repo)
    now = snapshot(repo, "now").tree
    found = changed_paths(discover(str(repo.path)), CaptureRules(exclude=(".env*",)), [*trees, trees[0], now])
    for tree in {*trees, now}:
        raw = repo.run("git", "diff-tree", "-r", "-z", "--no-renames", "--name-only", tree, now).out
        assert found[tree] == raw.split("\0")[:-1]
    assert len({len(paths) for paths in found.values()}) > 3 and found[now] == []
    shown = {row["checkpoint"]["track"]: row["live"]["files_changed"] for row in repo.ok("status", "--json").json["tracks"]}
    assert shown.pop("now") == 0 and shown.pop("t") == len(truth(repo))
    assert shown == {f"track {number}": len(found[tree]) for number, tree in enumerate(trees)}


def state_of(repo: Sandbox) -> str:
    return repo.git("rev-parse", "refs/baton/tracks/t^{tree}")


@pytest.mark.deep
def test_latest_and_what_is_left_out_do_not_count(repo: Sandbox) -> None:
    repo.write(".git/info/exclude", "")
    assert repo.git("status", "--porcelain", "--", "runtime") == "?? runtime/"
    assert said(repo) == (0, ())
    repo.write("big.bin", b"x" * 65)
    repo.git("config", "baton.maxFileSize", "64")
    assert snapshot(repo, "t").skipped[0].path == "big.bin"
    repo.git("config", "--unset", "baton.maxFileSize")
    assert said(repo) == (0, ())


@pytest.mark.full
def test_without_files_or_work_tree_nothing_is_counted(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "bare words", "--step", "s", "--no-files")
    repo.write("new", "new")
    rows = {row["checkpoint"]["track"]: row["live"]["files_changed"] for row in repo.ok("status", "--json").json["tracks"]}
    assert rows == {"t": 1, "bare words": None}
    assert repo.ok("verify", "--strict").out == ""
    bare = Sandbox(tmp_path / "bare")
    repo.git("clone", "-q", "--mirror", str(repo.path), str(bare.path))
    assert bare.ok("verify", "--track", "t", "--strict", "--json").json["live"]["files_changed"] is None
    assert "drift=none\n" in bare.ok("resume", "--porcelain", "--track", "t", "--live").out


@pytest.mark.full
def test_strict_makes_changed_files_a_no(repo: Sandbox) -> None:
    assert [repo.baton("verify", *o).code for o in ((), ("--strict",), ("--quiet", "--strict"))] == [0, 0, 0]
    for number in range(4):
        repo.write(f"new {number}\x1b[2J\u202e", "x")
    assert [repo.baton("verify", *o).code for o in ((), ("--strict",), ("--quiet", "--strict"))] == [0, 1, 1]
    name = '"new {}\\033[2J\\342\\200\\256"'
    shown = ", ".join(name.format(number) for number in range(3))
    sentence = f"4 paths differ from the captured work tree: {shown} and 1 more"
    assert repo.ok("verify").out == f"files-changed:4: {sentence}\n"
    done = repo.ok("resume", "--live", "--json")
    assert done.json["live"]["files_changed"] == 4 and done.err == sentence + "\n"
    assert "files_changed" not in str(repo.ok("resume", "--json").json)


def test_hooks_count_no_files(repo: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    repo.commit("more", more_txt="not captured\n")
    repo.write("new", "x")
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    done = repo.ok("hook", "git", "post-checkout", "0", "1", "1")
    assert "head-ahead:1" in done.out and "files-changed" not in done.out
    assert "diff-files" not in (tmp_path / "trace").read_text()
