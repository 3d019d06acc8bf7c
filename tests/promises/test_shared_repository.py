"""core.sharedRepository: what one user leaves below ``.git/baton`` the others of the group can read, write and remove."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import Sandbox

SETS = [
    ("group", 0o660),
    pytest.param("all", 0o664, marks=pytest.mark.deep),
    pytest.param("0640", 0o640, marks=pytest.mark.deep),
]
RUN = "from gitbaton.agents.hooks import dispatch; dispatch(['claude', 'UserPromptSubmit'])"
HOOK = json.dumps({"session_id": "s", "cwd": ".", "prompt": "go on", "hook_event_name": "UserPromptSubmit"})


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """What somebody makes here nobody else can read, unless it is shared on purpose."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def make_shared(repo: Sandbox, value: str) -> None:
    """As ``git init --shared`` has it: also the folders that are there."""
    repo.git("config", "core.sharedRepository", value)
    for path in [repo.path / ".git", *(p for p in (repo.path / ".git").rglob("*") if p.is_dir())]:
        path.chmod(0o2770)


def here(repo: Sandbox, *words: str) -> None:
    done = repo.here(*words)
    assert done.code in (0, 1), f"{words}: {done.code}\n{done.out}{done.err}"


def tour(repo: Sandbox, far: Path) -> None:
    """Verbs that leave something of every kind."""
    Sandbox.init(far, "--bare")
    repo.git("remote", "add", "far", str(far))
    here(repo, "install")
    here(repo, "agent", "install", "claude")
    for step in ("one", "two"):
        repo.write("a.txt", step)
        here(repo, "snapshot", "--track", "t", "--step", step)
    here(repo, "restore", "t~1")
    here(repo, "run", "--step", "s", "--run", "r", "--", "true")
    here(repo, "push", "--yes", "--runs", "far")
    here(repo, "fetch", "far")
    here(repo, "forget", "t~1", "--yes")
    repo.run(sys.executable, "-c", f"import os; os.umask(0o077); {RUN}", stdin=HOOK.encode())
    repo.git("checkout", "-q", "--detach")
    repo.git("commit", "-q", "--allow-empty", "-m", "more")
    repo.git("commit", "-q", "--amend", "--allow-empty", "-m", "other")


def modes(repo: Sandbox) -> dict[str, int]:
    top = repo.path / ".git/baton"
    return {str(p.relative_to(top)): stat.S_IMODE(p.lstat().st_mode) for p in (top, *top.rglob("*"))}


@pytest.mark.full
@pytest.mark.parametrize(("value", "wanted"), SETS)
def test_all_of_it_has_the_modes_that_git_gives(repo: Sandbox, tmp_path: Path, value: str, wanted: int) -> None:
    make_shared(repo, value)
    before = set((repo.path / ".git/objects").rglob("*"))
    tour(repo, tmp_path / "far.git")
    found = modes(repo)
    for name in ("flock", "rewritten", "hooks/post-commit", "installed", "agents", "pushed/far/t", "lock/runs", "claims/lock"):
        assert name in found
    for name in ("expect", "restoring", "worktree", "tmp", "sessions/claude-s", "run", "quiet", "detached"):
        assert name in found
    for name, mode in found.items():
        folder = (repo.path / ".git/baton" / name).is_dir()
        asked = wanted & 0o666 if not folder else wanted | (wanted & 0o444) >> 2 | stat.S_ISGID
        asked &= 0o660 if name in ("quiet", "detached", "rewritten") else 0o7777  # sh makes them, for the group alone
        assert mode & asked == asked, f"{name}: {mode:o}"
        assert value != "0640" or not mode & 0o007, f"{name}: {mode:o}"
    for path in set((repo.path / ".git/objects").rglob("*")) - before:
        assert path.stat().st_mode & 0o040, "an object of ours is the group's, too, whichever library wrote it"


@pytest.mark.deep
def test_without_it_nothing_is_given_away(repo: Sandbox, tmp_path: Path) -> None:
    tour(repo, tmp_path / "far.git")
    assert not [name for name, mode in modes(repo).items() if mode & 0o022]


def test_what_was_made_before_is_given_its_mode_by_who_made_it(repo: Sandbox) -> None:
    here(repo, "snapshot", "--track", "t", "--step", "one")
    make_shared(repo, "group")
    (repo.path / ".git/baton").chmod(0o700)
    here(repo, "snapshot", "--track", "t", "--step", "two")
    found = modes(repo)
    assert found["."] & 0o2770 == 0o2770 and found["flock"] & 0o660 == 0o660


@pytest.mark.deep
@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/usr/bin/setpriv"), reason="only root can be two users")
def test_two_users_of_a_group(repo: Sandbox, tmp_path: Path) -> None:
    """The second one opens for writing, and replaces, whatever the first one has left."""
    make_shared(repo, "group")
    tour(repo, tmp_path / "far.git")
    group, top = 4321, repo.path / ".git/baton"
    for path in (repo.path, repo.path / ".git", top, *top.rglob("*")):
        os.chown(path, 4001, group)
    script = (
        'find "$1" -type f | while read -r f; do test -r "$f" && : >>"$f" || echo "$f"; done;'
        'find "$1" -type d | while read -r d; do { : >"$d/x" && rm "$d/x"; } 2>/dev/null || echo "$d"; done'
    )
    words = ("setpriv", "--reuid=4002", f"--regid={group}", "--clear-groups", "sh", "-c", script, "sh", ".")
    done = repo.run(*words, cwd=top)  # no folder above it lets that user in
    assert (done.code, done.out, done.err) == (0, "", "")
