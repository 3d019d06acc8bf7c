"""Lock files of git's that a killed process left: they are said to be that, with their age, and stay for the user to remove."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from gitbaton.care.mending.doctor import examine
from tests.kit import Sandbox
from tests.kit.tiers import some

CRASHED = "a git process may have crashed in this repository earlier: remove the file manually to continue"


def lock(repo: Sandbox, name: str, hours: float = 2) -> Path:
    """A lock file of so many hours ago."""
    path = repo.path / ".git" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    then = time.time() - hours * 3600
    os.utime(path, (then, then))
    return path


def changed(repo: Sandbox) -> None:
    """A checkpoint, and a change after it."""
    repo.commit("first")
    repo.ok("snapshot", "s")
    (repo.path / "a.txt").write_text("changed\n")


def test_a_restore_says_that_nobody_holds_the_lock_and_how_old_it_is(repo: Sandbox) -> None:
    changed(repo)
    path = lock(repo, "index.lock")
    done = repo.baton("restore", "@", "--yes")
    assert done.code == 128 and path.exists()
    told = f"fatal: '{path}' is 2 hours old, and no process here holds it; nothing is changed"
    assert done.err.splitlines() == [told, f"hint: {CRASHED}"]
    assert (repo.path / "a.txt").read_text() == "changed\n"
    found = repo.baton("doctor")
    assert found.code == 1 and f"MEND locks: '{path}' is 2 hours old, and no process here holds it\n" in found.out
    assert CRASHED in found.out
    repo.baton("doctor", "--fix")
    assert path.exists()
    path.unlink()
    repo.ok("restore", "@", "--yes")
    assert "ok   locks: no stale locks" in repo.baton("doctor").out


@pytest.mark.parametrize("how", ["open", pytest.param("at work", marks=pytest.mark.deep)])
def test_a_process_that_holds_the_lock_is_named(repo: Sandbox, how: str) -> None:
    changed(repo)
    path = repo.path / ".git/index.lock"
    opener = ["sh", "-c", 'exec 9>"$0"; echo; read -r _', str(path)]
    words = opener if how == "open" else ["git", "hash-object", "--stdin"]  # 'git commit' waits for the editor with it closed
    with subprocess.Popen(words, cwd=repo.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        if how == "open":
            assert holder.stdout is not None and holder.stdout.readline() == b"\n"
        else:
            path.touch()
        done = repo.baton("restore", "@", "--yes")
        assert "no stale locks" in repo.baton("doctor").out
        holder.communicate(b"\n")
    assert done.code == 128
    first, hint = done.err.splitlines()
    assert first.startswith(f"fatal: '{path}' is held by process {holder.pid} (") and words[0] in first.partition("(")[2]
    assert hint == "hint: wait until that process has ended"


@pytest.mark.deep
def test_a_lock_of_ours_is_held_by_the_process_that_it_names_while_that_lives(repo: Sandbox, tmp_path: Path) -> None:
    changed(repo)
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    with subprocess.Popen(["sh", "-c", "echo; read -r _"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"\n"
        path = repo.path / ".git/index.lock"
        path.write_text(f"gitbaton {holder.pid} 0123\n")
        far = lock(repo, "worktrees/linked/index.lock", 0)
        far.write_text(path.read_text())
        done = repo.baton("restore", "@", "--yes")
        assert done.code == 128 and f"'{path}' is held by process {holder.pid} ('sh -c " in done.err
        assert "wait until that process has ended" in done.err
        holder.communicate(b"\n")
    then = time.time() - 7200
    os.utime(far, (then, then))
    assert f"MEND locks: '{far}' is 2 hours old, and no process here holds it" in repo.baton("doctor").out


@pytest.mark.deep
def test_where_processes_cannot_be_seen_nobody_is_told_that_git_crashed(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lock(repo, "index.lock")
    real = os.listdir

    def hidden(path: str | int = ".") -> list[str]:
        if path == "/proc":
            raise PermissionError(path)
        return real(path)

    monkeypatch.setattr(os, "listdir", hidden)
    with repo.open() as baton:
        (row,) = (row for row in examine(baton) if row.name == "locks")
    assert not row.ok and row.text == f"'{path}' is 2 hours old"
    assert row.mend == f"another git process seems to be running in this repository; if none is, {CRASHED}"


@pytest.mark.deep
def test_a_commit_whose_hook_asks_holds_the_lock(repo: Sandbox) -> None:
    changed(repo)
    hook = repo.path / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nunset GIT_INDEX_FILE\ngit baton restore @ --yes\nexit 1\n")
    hook.chmod(0o755)
    done = repo.run("git", "commit", "-qam", "two")
    assert done.code == 1 and " is held by process " in done.err and "('git commit " in done.err


@pytest.mark.deep
@pytest.mark.parametrize("looks", [True, False])
def test_a_git_that_only_looks_holds_no_lock(repo: Sandbox, looks: bool) -> None:
    changed(repo)
    words = ["git", "-c", "a.b=c", "cat-file", "--batch"] if looks else ["git", "hash-object", "--path", "log", "--stdin"]
    with subprocess.Popen(words, cwd=repo.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        path = repo.path / ".git/index.lock"
        path.touch()
        assert ("and no process here holds it" in repo.baton("restore", "@", "--yes").err) == looks
        holder.communicate(b"")


@pytest.mark.deep
def test_the_lock_of_all_refs_at_once_is_named(tmp_path: Path, new_git: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(new_git).parent}{os.pathsep}{os.environ['PATH']}")
    repo = Sandbox.init(tmp_path / "box", "--ref-format=reftable")
    repo.write("a.txt", "one\n")
    changed(repo)
    path = lock(repo, "reftable/tables.list.lock")
    told = f"'{path}' is 2 hours old, and no process here holds it"
    for words in (("snapshot", "s"), ("restore", "@", "--yes"), ("tracks", "rename", "main", "u")):
        done = repo.baton(*words)
        first, hint = done.err.splitlines()
        assert done.code == 128 and first.startswith("fatal: ") and first.endswith(f": Unable to create '{path}': File exists")
        assert hint == f"hint: {told}; {CRASHED}"
    assert f"MEND locks: {told}\n" in repo.baton("doctor").out and path.exists()
    path.unlink()
    repo.ok("snapshot", "s")


@some(
    "words",
    ["tracks rename t u", "tracks delete t --yes", "snapshot s --track u", "run --run u -- true"],
    share={"tracks rename t u"},
)
def test_what_a_lock_stopped_is_missed_by_nobody(repo: Sandbox, words: str) -> None:
    changed(repo)
    repo.ok("snapshot", "s", "--track", "t")
    refs, sets = repo.git("for-each-ref"), {path.name for path in (repo.path / ".git/baton/ours/tracks").iterdir()}
    name = {"tracks": "packed-refs", "snapshot": "refs/baton/tracks/u", "run": "refs/baton/runs/u"}[words.partition(" ")[0]]
    path = lock(repo, f"{name}.lock", 0)
    done = repo.baton(*words.split())
    assert done.code == 128 and f"Unable to create '{path}': File exists" in done.err and "\nhint: " in done.err, done.err
    if name == "packed-refs":
        told = done.err.splitlines()[1]
        assert told.startswith(f"hint: '{path}' is ") and told.endswith(f" old, and no process here holds it; {CRASHED}")
    path.unlink()
    assert repo.git("for-each-ref") == refs and not [*(repo.path / ".git/baton").glob("deleted/*")]
    assert {path.name for path in (repo.path / ".git/baton/ours/tracks").iterdir()} == sets
    assert "refs: 2 tracks, every ref in our namespace is ours" in repo.baton("doctor").out
    assert repo.ok("doctor", "--mend").out == "nothing is damaged\n"
    repo.ok(*words.split())


@some("name", ["HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock", "refs/heads/main.lock", "refs/tags/a/b.lock"])
def test_doctor_names_locks_beside_every_file_of_git(repo: Sandbox, name: str) -> None:
    repo.commit("first")
    path = lock(repo, name, 50)
    found = repo.baton("doctor")
    assert f"MEND locks: '{path}' is 2 days old, and no process here holds it\n" in found.out
    lock(repo, name, 0)
    assert "no stale locks" in repo.baton("doctor").out  # somebody may be at work


@pytest.mark.deep
def test_doctor_names_the_lock_of_a_linked_work_tree(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first")
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    path = lock(repo, "worktrees/linked/index.lock")
    assert f"MEND locks: '{path}' is 2 hours old" in repo.baton("doctor").out
