"""Capture fidelity: the captured tree is the one that git add -A makes on a private index, whatever the repository holds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.base.system.process import remove_later
from tests.kit import Sandbox
from tests.kit.capturekit import Expect, check, expected_tree, flags, git_files, snap, submodule, untouched
from tests.kit.commands import until
from tests.kit.tiers import some

PLAIN = Expect()


def clean(box: Sandbox) -> Expect:
    return PLAIN


def edited_deleted_and_new(box: Sandbox) -> Expect:
    box.write("a.txt", "two\n")
    (box.path / "d/b.txt").unlink()
    box.write("new/deep/file", "x")
    box.write("empty", "")
    (box.path / "hollow").mkdir()
    return PLAIN


def staged_then_edited(box: Sandbox) -> Expect:
    box.write("a.txt", "staged\n")
    box.write("n.txt", "staged\n")
    box.git("add", "-A")
    box.write("a.txt", "edited\n")
    (box.path / "n.txt").unlink()
    return PLAIN


def force_added_ignored_file(box: Sandbox) -> Expect:
    box.write(".gitignore", "*.log\n")
    box.write("kept.log", "1\n")
    box.write("lost.log", "1\n")
    box.git("add", "-f", "kept.log")
    box.write("kept.log", "2\n")
    return PLAIN


def tracked_directory_now_ignored(box: Sandbox) -> Expect:
    box.write(".gitignore", "/d/\n")
    box.write("d/b.txt", "edited\n")
    box.write("d/new.txt", "ignored\n")
    (box.path / "d/c.txt").unlink()
    return PLAIN


def file_mode_off(box: Sandbox) -> Expect:
    box.git("config", "core.fileMode", "false")
    (box.path / "a.txt").chmod(0o755)
    (box.path / "run.sh").chmod(0o644)
    box.write("new.sh", "x\n").chmod(0o755)
    return PLAIN


def chmod(box: Sandbox) -> Expect:
    (box.path / "a.txt").chmod(0o755)
    (box.path / "run.sh").chmod(0o600)
    return PLAIN


def links_new_changed_and_dangling(box: Sandbox) -> Expect:
    (box.path / "link").unlink()
    (box.path / "link").symlink_to("d/b.txt")
    (box.path / "dangling").symlink_to("no/where")
    (box.path / "to-directory").symlink_to("d")
    (box.path / "outside").symlink_to("/etc")
    return PLAIN


def link_becomes_file_and_file_link(box: Sandbox) -> Expect:
    (box.path / "link").unlink()
    box.write("link", "a file now\n")
    (box.path / "a.txt").unlink()
    (box.path / "a.txt").symlink_to("link")
    return PLAIN


def directory_swapped_for_a_link_outside(box: Sandbox) -> Expect:
    outside = box.path.parent / "outside"
    (box.path / "d").rename(outside)
    (outside / "b.txt").write_text("not ours\n")
    (outside / "stranger").write_text("not ours\n")
    (box.path / "d").symlink_to(outside)
    return PLAIN


def file_becomes_directory(box: Sandbox) -> Expect:
    (box.path / "a.txt").unlink()
    box.write("a.txt/in/side", "x\n")
    return PLAIN


def directory_becomes_file(box: Sandbox) -> Expect:
    (box.path / "d/b.txt").unlink()
    (box.path / "d/c.txt").unlink()
    (box.path / "d").rmdir()
    box.write("d", "a file now\n")
    return PLAIN


def file_becomes_directory_with_an_excluded_file(box: Sandbox) -> Expect:
    (box.path / "a.txt").unlink()
    box.write("a.txt/.env", "SECRET=1\n")
    box.write("a.txt/x", "x\n")
    return Expect(skipped={"a.txt/.env": "excluded"}, keep=["a.txt/.env"])


def file_becomes_directory_with_only_an_excluded_file(box: Sandbox) -> Expect:
    (box.path / "a.txt").unlink()
    box.write("a.txt/.env", "SECRET=1\n")
    return Expect(skipped={"a.txt/.env": "excluded"}, keep=["a.txt/.env"])


def tracked_file_that_the_rules_would_exclude(box: Sandbox) -> Expect:
    box.write(".env", "A=1\n")
    box.write("key.pem", "1\n")
    box.git("add", "-f", ".env", "key.pem")
    box.write(".env", "A=2\n")
    return PLAIN


def skip_worktree_with_and_without_the_file(box: Sandbox) -> Expect:
    box.git("update-index", "--skip-worktree", "a.txt", "d/b.txt", "d/c.txt")
    box.write("a.txt", "hidden edit\n")
    (box.path / "d/b.txt").unlink()
    return Expect(reveal=["a.txt", "d/c.txt"])


def assume_unchanged_edited_and_deleted(box: Sandbox) -> Expect:
    box.git("update-index", "--assume-unchanged", "a.txt", "d/b.txt", "d/c.txt")
    box.write("a.txt", "hidden edit\n")
    (box.path / "d/b.txt").unlink()
    return Expect(reveal=["a.txt", "d/b.txt", "d/c.txt"])


def intent_to_add(box: Sandbox) -> Expect:
    box.write("ita.txt", "later\n")
    box.write("ita-empty.txt", "")
    box.write("ita-gone.txt", "x")
    box.write("really-empty.txt", "")
    box.git("add", "-N", "ita.txt", "ita-empty.txt", "ita-gone.txt")
    box.git("add", "really-empty.txt")
    (box.path / "ita-gone.txt").unlink()
    return PLAIN


def split_index(box: Sandbox) -> Expect:
    box.git("config", "core.splitIndex", "true")
    box.git("update-index", "--split-index")
    box.write("a.txt", "two\n")
    box.git("add", "a.txt")
    box.write("a.txt", "three\n")
    return PLAIN


def index_version_4(box: Sandbox) -> Expect:
    box.git("update-index", "--index-version", "4")
    return edited_deleted_and_new(box)


def many_changes(box: Sandbox) -> Expect:
    for number in range(300):
        box.write(f"many/{number}", f"{number}\n")
    box.git("add", "-A")
    box.git("commit", "-qm", "many")
    for number in range(300):
        box.write(f"many/{number}", f"edited {number}\n")
        box.write(f"untracked/{number}", "new\n")
    box.write("untracked/.env", "SECRET=1\n")
    return Expect(skipped={"untracked/.env": "excluded"}, keep=["untracked/.env"])


def ignore_case_rename(box: Sandbox) -> Expect:
    box.git("config", "core.ignoreCase", "true")
    (box.path / "a.txt").rename(box.path / "A.TXT")
    (box.path / "d").rename(box.path / "D")
    return PLAIN


def sparse_cone(box: Sandbox, *, index: bool = False) -> Expect:
    box.write("in/x", "x\n")
    box.write("out/y", "y\n")
    box.write("out/deep/z", "z\n")
    box.git("add", "-A")
    box.git("commit", "-qm", "sides")
    box.git("sparse-checkout", "set", "--cone", "--sparse-index" if index else "--no-sparse-index", "in")
    assert not (box.path / "out").exists()
    box.write("in/x", "edited\n")
    box.write("out/y", "edited outside the cone\n")
    box.write("out/new", "new outside the cone\n")
    return PLAIN


def sparse_index(box: Sandbox) -> Expect:
    return sparse_cone(box, index=True)


def sparse_and_files_outside_expected(box: Sandbox) -> Expect:
    sparse_cone(box)
    (box.path / "out/y").unlink()
    box.git("config", "sparse.expectFilesOutsideOfPatterns", "true")
    box.write("out/deep/z", "hidden edit\n")
    return Expect(config=["sparse.expectFilesOutsideOfPatterns=false"])


def submodule_advanced(box: Sandbox) -> Expect:
    submodule(box, "sub").commit("second", s_txt="two\n")
    return PLAIN


def submodule_dirty(box: Sandbox) -> Expect:
    submodule(box, "sub").write("s.txt", "dirty\n")
    return Expect(skipped={"sub": "submodule-dirty"})


def submodule_with_an_untracked_file(box: Sandbox) -> Expect:
    submodule(box, "sub").write("u.txt", "untracked\n")
    return Expect(skipped={"sub": "submodule-dirty"})


def submodule_advanced_and_dirty(box: Sandbox) -> Expect:
    sub = submodule(box, "sub")
    sub.commit("second", s_txt="two\n")
    sub.write("s.txt", "dirty\n")
    box.write("a.txt", "two\n")
    return Expect(skipped={"sub": "submodule-dirty"})


def submodule_not_checked_out_with_files_in_its_place(box: Sandbox) -> Expect:
    submodule(box, "sub")
    box.git("submodule", "--quiet", "deinit", "-f", "sub")
    box.write("sub/stray", "git does not look here\n")
    os.mkfifo(box.path / "sub/fifo")
    return Expect(skipped={"sub": "nested-repository"})


def nested_repository_with_commits(box: Sandbox) -> Expect:
    Sandbox.init(box.path / "nest").commit("first", n_txt="n\n")
    return Expect(skipped={"nest": "nested-repository"})


def unborn(box: Sandbox) -> Expect:
    box.git("checkout", "-q", "--orphan", "fresh")
    box.git("rm", "-rqf", "--cached", ".")
    return PLAIN


def unborn_with_staged_files(box: Sandbox) -> Expect:
    box.git("checkout", "-q", "--orphan", "fresh")
    box.write("a.txt", "edited\n")
    return PLAIN


SCENARIOS: list[Callable[[Sandbox], Expect]] = [
    clean,
    edited_deleted_and_new,
    staged_then_edited,
    force_added_ignored_file,
    tracked_directory_now_ignored,
    file_mode_off,
    chmod,
    links_new_changed_and_dangling,
    link_becomes_file_and_file_link,
    directory_swapped_for_a_link_outside,
    file_becomes_directory,
    directory_becomes_file,
    file_becomes_directory_with_an_excluded_file,
    file_becomes_directory_with_only_an_excluded_file,
    tracked_file_that_the_rules_would_exclude,
    skip_worktree_with_and_without_the_file,
    assume_unchanged_edited_and_deleted,
    intent_to_add,
    split_index,
    index_version_4,
    many_changes,
    ignore_case_rename,
    sparse_cone,
    sparse_index,
    sparse_and_files_outside_expected,
    submodule_advanced,
    submodule_dirty,
    submodule_with_an_untracked_file,
    submodule_advanced_and_dirty,
    submodule_not_checked_out_with_files_in_its_place,
    nested_repository_with_commits,
    unborn,
    unborn_with_staged_files,
]


@pytest.fixture
def box(repo: Sandbox) -> Sandbox:
    """A repository with a few of everything."""
    repo.write("d/b.txt", "b\n")
    repo.write("d/c.txt", "c\n")
    repo.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (repo.path / "link").symlink_to("a.txt")
    repo.commit("more")
    return repo


@pytest.mark.deep
@some("arrange", SCENARIOS, 2, 6, ids=lambda f: f.__name__)
def test_t24_the_captured_tree_is_what_git_add_makes(box: Sandbox, arrange: Callable[[Sandbox], Expect]) -> None:
    expect = arrange(box)
    shared = set((box.path / ".git").glob("sharedindex.*"))
    first = check(box, expect)
    again = snap(box)
    assert again.tree == first.tree and again.checkpoint.files is not None and again.checkpoint.files.changed == 0
    assert set((box.path / ".git").glob("sharedindex.*")) == shared
    box.fsck()


def test_t24_the_staged_state_is_in_the_second_parent(box: Sandbox) -> None:
    staged_then_edited(box)
    staged = box.git("write-tree", env={"GIT_INDEX_FILE": str(copy_of_index(box))})
    stored = check(box)
    assert stored.checkpoint.files is not None and stored.checkpoint.files.index.tree == staged
    assert box.git("rev-parse", f"{stored.commit}^2^{{tree}}") == staged
    assert box.git("rev-parse", f"{stored.commit}^2^1") == box.head()


def copy_of_index(box: Sandbox) -> Path:
    target = box.path.parent / "copy"
    target.write_bytes((box.path / ".git/index").read_bytes())
    return target


def test_t24_hiding_bits_are_recorded(box: Sandbox) -> None:
    box.git("update-index", "--assume-unchanged", "a.txt", "d/b.txt")
    box.git("update-index", "--skip-worktree", "d/b.txt", "run.sh")
    box.write("ita.txt", "later\n")
    box.git("add", "-N", "ita.txt")
    assert flags(snap(box)) == {"a.txt": "a", "d/b.txt": "as", "ita.txt": "i", "run.sh": "s"}


@pytest.mark.deep
def test_t24_skip_worktree_of_a_sparse_checkout_is_no_flag(box: Sandbox) -> None:
    sparse_cone(box)
    assert flags(snap(box)) == {}


@pytest.mark.deep
def test_t24_unmerged_paths_keep_their_stages(box: Sandbox) -> None:
    box.git("checkout", "-qb", "other")
    box.write("both", "other\n")
    (box.path / "d/b.txt").unlink()
    box.commit("theirs", a_txt="theirs\n")
    box.git("checkout", "-q", "main")
    box.write("both", "main\n")
    box.write("d/b.txt", "ours\n")
    box.commit("ours", a_txt="ours\n")
    assert box.try_git("merge", "other").code == 1
    box.write("staged.txt", "beside the conflict\n")
    box.git("add", "staged.txt")
    stored = check(box)
    files = stored.checkpoint.files
    assert files is not None and files.index.unmerged == 3
    assert files.operation is not None and files.operation.kind == "merge"
    index, stages = f"{stored.commit}^2", f"{stored.commit}^2^2"
    assert set(box.tree(index)) == {"d/c.txt", "link", "run.sh", "staged.txt"}
    listed = (row.split("\t") for row in box.git("ls-files", "-u", "-z").split("\0") if row)
    wanted = {f"{meta.split()[2]}/{path}": " ".join(meta.split()[:2]) for meta, path in listed}
    assert box.tree(stages) == wanted
    assert box.git("show", f"{stages}:2/a.txt") == "ours" and box.git("show", f"{stages}:3/a.txt") == "theirs"
    box.git("reset", "-q", "--hard")
    box.git("reflog", "expire", "--expire=now", "--all")
    box.git("gc", "-q", "--prune=now")
    assert box.git("show", f"{stages}:3/both") == "other"


@pytest.mark.deep
def test_t23_unborn_and_empty(tmp_path: Path) -> None:
    empty = Sandbox.init(tmp_path / "empty")
    stored = check(empty)
    assert stored.base is None and empty.tree(stored.commit) == {}
    empty.write("first", "x\n")
    check(empty)
    empty.git("add", "first")
    assert check(empty).base is not None


@pytest.mark.full
def test_t24_a_large_file_is_captured(box: Sandbox) -> None:
    with (box.path / "big.bin").open("wb") as file:
        file.truncate(40 << 20)
        file.seek(20 << 20)
        file.write(os.urandom(1 << 16))
    check(box)


@pytest.mark.deep
def test_many_changes_are_taken_in_by_one_pack_and_nothing_of_it_is_left(repo: Sandbox, tmp_path: Path) -> None:
    repo.write(".gitattributes", "*.crlf text eol=crlf\n*.id ident\n")
    for number in range(300):
        repo.write(f"d/{number}{('', '.crlf', '.id')[number % 3]}", f"$Id$ {number}\r\n" if number % 3 else f"{number}\n")
    log, folder = tmp_path / "packs", tmp_path / "bin"
    folder.mkdir()
    real = shutil.which("git")
    look = f"ls '{repo.path}'/.git/baton/tmp/*/objects/pack/*.pack >>'{log}' 2>/dev/null"
    (folder / "git").write_text(f'#!/bin/sh\ncase " $* " in *" write-tree "*) {look};; esac\nexec "{real}" "$@"\n')
    (folder / "git").chmod(0o755)
    wanted = expected_tree(repo)
    repo.ok("snapshot", "--track", "t", "many", env={"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"})
    assert repo.git("rev-parse", "refs/baton/tracks/t^{tree}") == wanted
    assert len(log.read_text().splitlines()) == 1, "one pack, while it is taken in"
    until(lambda: not any((repo.path / ".git/baton/tmp").iterdir()))
    repo.fsck()


def test_many_files_are_removed_though_nobody_waits(tmp_path: Path) -> None:
    folder = tmp_path / "place" / "many"
    folder.mkdir(parents=True)
    for number in range(1000):
        (folder / str(number)).touch()
    remove_later(str(folder))
    assert not folder.exists(), "it is gone under its name at once"
    until(lambda: not any(folder.parent.iterdir()))


def test_the_judge_sees_an_edit_and_touches_nothing(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    before = git_files(repo)
    with untouched(repo):
        tree = expected_tree(repo)
    assert tree != repo.git("rev-parse", "HEAD^{tree}")
    assert git_files(repo) == before
