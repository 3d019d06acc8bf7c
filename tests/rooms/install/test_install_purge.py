"""``uninstall --purge``: everything of ours is named, asked for and gone; nothing else is touched (T17)."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.servers import bare
from tests.kit.tiers import some


@pytest.fixture
def full(repo: Sandbox, tmp_path: Path) -> Sandbox:
    """Two work trees with a current track each, exports, a user's note, a stranger's ref."""
    repo.git("worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
    repo.git("notes", "add", "-m", "mine")
    repo.git("notes", "--ref=checkpoints-other", "add", "-m", "mine, too")
    repo.ok("install")
    repo.ok("snapshot", "--track", "one two", "--step", "s", "--label", "l")
    repo.ok("export", "--history")
    Sandbox(tmp_path / "linked").ok("snapshot", "--track", "b", "--step", "s")
    repo.write("runtime/keep.txt", "the user's\n")
    repo.git("update-ref", "refs/baton/tracks/not a name".replace(" ", "."), "HEAD")
    repo.git("symbolic-ref", "refs/baton/link", "refs/heads/main")
    repo.git("tag", "baton")
    return repo


def everything(repo: Sandbox) -> list[str]:
    return repo.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()


def ours(name: str) -> bool:
    return name.startswith(("refs/baton/", "refs/checkpoints/", "refs/notes/checkpoints ")) or "BATON" in name


@pytest.mark.deep
def test_purge_names_all_and_leaves_nothing_of_ours(full: Sandbox, tmp_path: Path) -> None:
    before = everything(full)
    plan = full.ok("uninstall", "--purge", "--dry-run").out
    assert everything(full) == before
    for line in before:
        assert (f"delete the ref '{line.split(' ')[0]}'" in plan) == ours(line), line
    for name in ("LATEST.md", "LATEST.json", "context_checkpoint_", "BATON_HEAD", "worktrees/linked/BATON_HEAD"):
        assert name in plan
    done = full.ok("uninstall", "--purge", "--yes")
    assert plan == "".join(f"would {line}\n" for line in done.out.splitlines())
    assert everything(full) == [line for line in before if not ours(line)]
    left = [
        str(p.relative_to(tmp_path))
        for p in tmp_path.rglob("*")
        if (p.is_file() and "baton" in p.name.lower()) or "LATEST" in p.name
    ]
    assert left == ["repo/.git/refs/tags/baton"]
    assert (full.path / "runtime/keep.txt").exists() and not (full.path / "runtime/checkpoints").exists()
    assert not (tmp_path / "linked/runtime").exists()
    assert full.git("notes", "show") == "mine"
    assert full.git("status", "--porcelain") == "?? runtime/"
    full.fsck()
    assert (
        "No checkpoints here yet." in full.baton("resume").out
        and full.ok("uninstall", "--purge", "--yes").out == "nothing of ours is installed\n"
    )


@pytest.mark.deep
def test_purge_from_a_linked_work_tree(full: Sandbox, tmp_path: Path) -> None:
    Sandbox(tmp_path / "linked").ok("uninstall", "--purge", "--yes")
    assert not any(ours(line) for line in everything(full))
    assert not (full.path / ".git/BATON_HEAD").exists() and not (full.path / ".git/baton").exists()
    assert not (full.path / "runtime/checkpoints").exists()


@pytest.mark.deep
def test_purge_says_that_what_was_pushed_stays(repo: Sandbox, tmp_path: Path) -> None:
    far = bare(tmp_path / "far.git")
    repo.git("remote", "add", "origin", str(far))
    repo.ok("snapshot", "--track", "t", "--step", "s")
    assert "pushed" not in repo.ok("uninstall", "--purge", "--dry-run").err, "nothing is known to be there"
    repo.ok("push", "--yes")
    there = repo.git("ls-remote", "origin")
    for option in ("--dry-run", "--yes"):
        assert repo.ok("uninstall", "--purge", option).err == "warning: what was pushed stays at 'origin'\n"
    assert repo.git("ls-remote", "origin") == there and "refs/baton/tracks/t" in there
    assert repo.ok("uninstall", "--purge", "--yes").err == ""


def test_purge_leaves_what_git_tracks(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "s")
    repo.git("add", "-f", "runtime/checkpoints/LATEST.md")
    repo.ok("uninstall", "--purge", "--yes")
    assert (repo.path / "runtime/checkpoints/LATEST.md").exists()
    assert not (repo.path / "runtime/checkpoints/LATEST.json").exists()


@pytest.mark.deep
def test_purge_without_a_terminal_is_refused(full: Sandbox) -> None:
    before = everything(full)
    done = full.baton("uninstall", "--purge", stdin=b"yes\n")
    assert done.code == 129 and "hint: --dry-run prints the plan; --yes answers" in done.err
    assert everything(full) == before and (full.path / ".git/hooks/post-merge").exists()


@some(("answer", "code"), [("yes", 0), ("no", 1), ("y", 1), ("", 1)])
def test_purge_asks_on_a_terminal(repo: Sandbox, answer: str, code: int) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "s")
    screen, child = pty.openpty()
    argv = [sys.executable, "-m", "gitbaton", "uninstall", "--purge"]
    process = subprocess.Popen(argv, cwd=repo.path, stdin=child, stdout=subprocess.DEVNULL, stderr=child)
    os.close(child)
    seen = b""
    while b"Type 'yes': " not in seen:
        assert select.select([screen], [], [], 20)[0], seen
        seen += os.read(screen, 4096)
    assert b"would delete the ref 'refs/baton/tracks/t'" in seen
    os.write(screen, answer.encode() + b"\n")
    assert process.wait(60) == code
    os.close(screen)
    assert bool([line for line in everything(repo) if ours(line)]) == (code != 0)


@pytest.mark.deep
def test_t17_a_ref_that_moved_meanwhile_is_not_deleted(repo: Sandbox) -> None:
    from gitbaton.agents.install import githooks as install
    from gitbaton.agents.install.plan import apply
    from gitbaton.base.errors import BatonError

    repo.ok("snapshot", "--track", "t", "--step", "s")
    with repo.open() as baton:
        plan = install.plan_uninstall(baton, purge=True)
        repo.ok("snapshot", "--track", "t", "--step", "newer")
        with pytest.raises(BatonError):
            apply(plan)
    assert "refs/baton/tracks/t" in "".join(everything(repo))
