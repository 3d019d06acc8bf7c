"""What is said in the middle of git's own command: a merge that is committed is no operation any more."""

from __future__ import annotations

import pytest

from tests.kit import Sandbox
from tests.kit.state import snap
from tests.promises.test_hooks import install, spoken


def test_a_finished_merge_is_no_operation(repo: Sandbox) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("theirs", b_txt="b\n")
    repo.git("checkout", "-q", "main")
    install(repo)
    snap(repo)
    lines = spoken(repo, "merge", "-q", "--no-ff", "-m", "m", "side")
    assert len(lines) == 3 and lines[1].endswith(": head-ahead:2")


def test_a_hook_of_the_users_records_no_merge_that_is_over(repo: Sandbox) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("theirs", b_txt="b\n")
    repo.git("checkout", "-q", "main")
    hook = repo.write(".git/hooks/post-merge", "#!/bin/sh\nGIT_BATON=1 git baton snapshot --track t --step merged\n")
    hook.chmod(0o755)
    repo.git("merge", "-q", "--no-ff", "-m", "m", "side")
    assert repo.ok("show", "--json").json["checkpoint"]["files"]["operation"] is None
    assert repo.baton("verify", "--strict").code == 0


@pytest.mark.deep
def test_a_merge_that_waits_is_one(repo: Sandbox) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("theirs", b_txt="b\n")
    repo.git("checkout", "-q", "main")
    snap(repo)
    repo.git("merge", "-q", "--no-ff", "--no-commit", "side")
    assert "operation:merge: a merge is in progress\n" in repo.ok("verify").out
    repo.git("commit", "-q", "-m", "m")
    assert "operation" not in repo.baton("verify").out
