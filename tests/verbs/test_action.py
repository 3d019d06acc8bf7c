"""The composite action: the proof of a commit, and one comment of the pull request that is found again and changed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import PROGRAM

TOP = Path(__file__).parents[2]
ACTION = TOP / ".github/actions/proof"
GH = """#!/bin/sh
printf '%s\\n' "$*" >>"$GH_LOG"
case "$*" in *-X*) test ! -e "$GH_FOUND.forbidden" || exit 1 ;; esac
case "$*" in *--paginate*) cat "$GH_FOUND" ;; esac
for word; do case $word in body=@*) cp "${word#body=@}" "$GH_BODY" ;; esac; done
"""


@pytest.mark.deep
def test_one_comment_is_made_and_then_changed(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", **{"x.py": "one\n"})
    repo.ok("snapshot", "--track", "t", "done; $(touch forged) `touch forged` ``` <!-- x -->")
    hub = tmp_path / "hub.git"
    repo.git("init", "-q", "--bare", str(hub))
    repo.git("remote", "add", "origin", str(hub))
    repo.git("push", "-q", "origin", "HEAD:main")
    repo.ok("push", "origin", "t", "--yes")
    repo.git("clone", "-q", "-b", "main", str(hub), str(tmp_path / "clone"))
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "gh").write_text(GH)
    (tools / "gh").chmod(0o755)
    log, body, found = tmp_path / "log", tmp_path / "body", tmp_path / "found"
    env = {**os.environ, "PATH": f"{tools}:{os.path.dirname(PROGRAM)}:{os.environ['PATH']}", "GH_LOG": str(log)}
    env |= {"GH_BODY": str(body), "GH_FOUND": str(found), "GH_REPO": "o/r", "BATON_REF": repo.git("rev-parse", "HEAD").strip()}
    env |= {"BATON_REMOTE": "origin", "BATON_TRACK": "t", "BATON_PULL": "7", "BATON_REQUIRE": "false"}
    for number, call in (
        ("", "api -X POST repos/o/r/issues/7/comments"),
        ("41\n", "api -X PATCH repos/o/r/issues/comments/41"),
    ):
        found.write_text(number)
        log.unlink(missing_ok=True)
        done = subprocess.run(["sh", str(ACTION / "proof.sh")], cwd=tmp_path / "clone", env=env, capture_output=True, text=True)
        assert done.returncode == 0, done
        assert log.read_text().splitlines()[1].startswith(call)
        assert body.read_text().startswith("<!-- git-baton summary -->\n") and "not seen green" in body.read_text()
    Path(f"{found}.forbidden").touch()
    done = subprocess.run(["sh", str(ACTION / "proof.sh")], cwd=tmp_path / "clone", env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "warning: the comment was not written" in done.stderr, "as of a fork"
    assert not list(tmp_path.rglob("forged"))
    env["BATON_REQUIRE"] = "true"
    done = subprocess.run(["sh", str(ACTION / "proof.sh")], cwd=tmp_path / "clone", env=env, capture_output=True, text=True)
    assert done.returncode == 1


def test_what_comes_from_outside_reaches_the_shell_as_a_variable_alone() -> None:
    text = (ACTION / "action.yml").read_text()
    lines = [line.strip() for line in text.split("run: ")[1:]]
    assert lines == ['sh "$GITHUB_ACTION_PATH/proof.sh"'] and "${{" in text
    assert "\t" not in text and all(re.match(r" *(?:- )?[\w-]+:(?: |$)", line) for line in text.splitlines() if line.strip())
    hooks = (TOP / ".pre-commit-hooks.yaml").read_text()
    assert re.search(r"(?m)^  entry: git-baton verify --ci$", hooks) and "pass_filenames: false" in hooks
