"""A track that is at home in another work tree is taken over with a word, and no hint leads to it."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.kit import Sandbox


def test_a_track_of_another_work_tree_is_taken_over_with_a_word(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "one", "--track", "far")
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = Sandbox(tmp_path / "side")
    said = f"warning: track 'far' goes on here from now on; its newest checkpoint was taken in the work tree '{repo.path}'\n"
    assert side.ok("snapshot", "two", "--track", "far", "--dry-run").err == said
    assert side.ok("snapshot", "two", "--track", "far").err == said
    assert side.ok("snapshot", "three", "--track", "far").err == "", "it is at home here now"
    shutil.rmtree(side.path)
    assert repo.ok("snapshot", "four", "--track", "far").err == "", "the other one is gone"


def test_verify_leads_nobody_to_take_over_a_track_of_another_work_tree(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = Sandbox(tmp_path / "side")
    side.ok("snapshot", "one", "--track", "far")
    done = repo.baton("verify", "--track", "far")
    place = f"it was taken in the work tree '{side.path}'\n"
    assert done.code == 1 and done.err == f"hint: 'git baton diff far' shows what changed; {place}"
    repo.commit("two", b_txt="two\n")
    repo.write("a.txt", "new\n")
    hint = "hint: branch-switched,head-ahead:1 make the exit status 1; "
    assert repo.baton("verify", "--track", "far").err.replace(", ", ",").startswith(hint)
    shutil.rmtree(side.path)
    assert "git baton snapshot --track far" in repo.baton("verify", "--track", "far").err
