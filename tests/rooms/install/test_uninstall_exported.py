"""Uninstall names what it un-hides: LATEST and exported history, in whichever folder they were written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.kit import Sandbox


@pytest.fixture
def exported(repo: Sandbox, tmp_path: Path) -> Sandbox:
    """History exported to two folders, of which one is not the configured one, and in a linked work tree."""
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    repo.ok("snapshot", "--track", "t", "--step", "s")
    repo.ok("export", "--history")
    repo.ok("export", "--history", "--checkpoint-dir", "odd [name]/*")
    Sandbox(tmp_path / "linked").ok("export", "--history", "--checkpoint-dir", "third")
    assert repo.git("status", "--porcelain") == ""
    return repo


def files(repo: Sandbox) -> set[str]:
    return {p.name for p in repo.path.parent.rglob("context_checkpoint_*")} | {
        p.name for p in repo.path.parent.rglob("LATEST*")
    }


@pytest.mark.deep
def test_purge_names_and_removes_all_of_it_before_it_unhides(exported: Sandbox, tmp_path: Path) -> None:
    plan = exported.ok("uninstall", "--purge", "--dry-run").out.splitlines()
    paths = [*exported.path.parent.rglob("context_checkpoint_*"), *exported.path.parent.rglob("LATEST*")]
    assert len(paths) == 12
    unhidden = next(n for n, row in enumerate(plan) if row.startswith("would remove our lines from "))
    for path in paths:
        assert plan.index(f"would remove '{path}'") < unhidden, path
    exported.ok("uninstall", "--purge", "--yes")
    assert files(exported) == set() and exported.git("status", "--porcelain") == ""
    assert not (exported.path / "odd [name]").exists() and not (tmp_path / "linked/third").exists()
    assert b"LATEST" not in (exported.path / ".git/info/exclude").read_bytes()


@pytest.mark.deep
def test_a_purge_that_fails_half_way_leaves_what_is_left_hidden(exported: Sandbox) -> None:
    from gitbaton.agents.install import githooks as install
    from gitbaton.agents.install.plan import apply
    from gitbaton.base.errors import BatonError

    with exported.open() as baton:
        plan = install.plan_uninstall(baton, purge=True)
        exported.ok("snapshot", "--track", "t", "--step", "newer")
        with pytest.raises(BatonError):
            apply(plan)
    assert exported.git("status", "--porcelain") == ""


def test_without_purge_it_says_what_shows_from_now_on(exported: Sandbox) -> None:
    done = exported.ok("uninstall")
    rows = [row for row in done.err.splitlines() if "show" in row]
    assert rows[0] == "warning: the LATEST files stay and show as untracked from now on; the next snapshot hides them again"
    assert rows[1].startswith("warning: exported history stays and shows as untracked from now on: '")
    assert rows[1].endswith(" and 5 more") and "context_checkpoint_" in rows[1]
    shown = exported.git("status", "--porcelain", "-uall")
    assert shown.count("context_checkpoint_") == 4 and shown.count("LATEST") == 4


@pytest.mark.deep
def test_no_file_is_said_to_show_that_does_not(repo: Sandbox) -> None:
    for hide in ("gone", "ignored", "tracked", "never"):
        if hide != "never":
            repo.ok("snapshot", "one")
        if hide == "gone":
            shutil.rmtree(repo.path / "runtime")
        if hide == "ignored":
            repo.write(".gitignore", "/runtime/\n")
        if hide == "tracked":
            (repo.path / ".gitignore").unlink()
            repo.git("add", "-f", "runtime")
        done = repo.ok("uninstall")
        assert done.err == "" and "?? runtime" not in repo.git("status", "--porcelain", "-uall"), hide
        repo.git("reset", "-q")
        shutil.rmtree(repo.path / "runtime", ignore_errors=True)


@pytest.mark.deep
def test_what_git_tracks_and_what_somebody_else_wrote_stays(exported: Sandbox) -> None:
    mine = next((exported.path / "runtime/checkpoints").glob("context_checkpoint_*.md"))
    exported.git("add", "-f", str(mine))
    exclude = exported.path / ".git/info/exclude"
    exclude.write_text(exclude.read_text() + "/docs/LATEST.md\n")
    for name in ("LATEST.md", "LATEST.json"):
        (exported.path / "odd [name]/*" / name).write_text("somebody's\n")
    exported.ok("uninstall", "--purge", "--yes")
    assert mine.exists() and (exported.path / "odd [name]/*/LATEST.md").read_text() == "somebody's\n"
    assert len(list(exported.path.rglob("context_checkpoint_*"))) == 1
    assert exclude.read_text().endswith("/docs/LATEST.md\n")


def test_history_outside_the_work_tree_is_named_and_stays(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("config", "baton.checkpointDir", str(tmp_path / "out"))
    repo.ok("snapshot", "--track", "t", "--step", "s")
    repo.ok("export", "--history")
    done = repo.ok("uninstall", "--purge", "--yes")
    assert f"warning: exported history outside the work tree stays: 2 files in '{tmp_path / 'out'}'" in done.err
    assert sorted(p.name.partition("_")[0] for p in (tmp_path / "out").iterdir()) == ["context", "context"]
