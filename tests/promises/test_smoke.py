"""The main job, once, from end to end."""

from __future__ import annotations

from gitbaton.cli.verbs import VERBS
from tests.kit import Sandbox


def test_snapshot_then_resume(repo: Sandbox) -> None:
    done = repo.ok("snapshot", "--track", "main", "--step", "parser done", "--next-cmd", "make test")
    assert done.out.startswith("main ") and done.out.endswith(" parser done\n")
    resumed = repo.ok("resume", "--porcelain", "--live").out
    assert "step=parser done\n" in resumed and "next_cmd=make test\n" in resumed and "drift=none\n" in resumed
    repo.fsck()


def test_each_verb_has_help(repo: Sandbox) -> None:
    for verb in VERBS:
        assert f"Usage: git baton {verb} " in repo.ok(*verb.split(), "-h").out
