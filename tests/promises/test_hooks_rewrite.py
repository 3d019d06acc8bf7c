"""Rewriting history: silence on the way, and afterwards the checkpoint has followed where it should (T19)."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.tiers import some

ZERO_CONTEXT = ("-c", "advice.mergeConflict=false")


@pytest.fixture
def work(repo: Sandbox) -> Sandbox:
    """main: first, base2; topic: one, two, three on first; our hooks; a checkpoint on topic; HEAD there."""
    repo.git("checkout", "-q", "-b", "topic")
    for name in ("one", "two", "three"):
        repo.commit(name, **{f"{name}_txt": f"{name}\n"})
    repo.git("checkout", "-q", "main")
    repo.commit("base2", base_txt="2\n")
    repo.git("checkout", "-q", "topic")
    repo.ok("install")
    repo.ok("snapshot", "--track", "t", "--step", "three is done")
    return repo


def noted(repo: Sandbox) -> dict[str, str]:
    """Subject of every commit with a note of ours that a branch reaches, with the note's first line."""
    raw = repo.git("log", "--branches", "--format=%s%x09%N", "--notes=checkpoints")
    rows = (line.split("\t", 1) for line in raw.splitlines() if "\t" in line)
    return {subject: note for subject, note in rows if note.startswith("checkpoint ")}


def drift(repo: Sandbox) -> tuple[int, str]:
    """The exit status of verify, and the words about HEAD: a rebase may change files, too."""
    done = repo.baton("resume", "--porcelain", "--live")
    line = next(line for line in done.out.splitlines() if line.startswith("drift="))
    words = [word for word in line.removeprefix("drift=").split(",") if not word.startswith("files-changed:")]
    return repo.baton("verify", "--quiet").code, ",".join(words) or "none"


def todo(repo: Sandbox, script: str) -> dict[str, str]:
    """The environment in which ``rebase -i`` takes a todo list edited by a sed script."""
    return {"GIT_SEQUENCE_EDITOR": f"sed -i {shlex.quote(script)}", "GIT_EDITOR": "true"}


def check_run(repo: Sandbox, *args: str, **env: str) -> None:
    """A git command that must succeed, and of which our hooks say nothing."""
    done = repo.run("git", *args, env=env)
    assert done.code == 0, done.err
    words = ("warning:", "hint:", "checkpoint", "git-baton")
    assert [line for line in done.err.splitlines() if any(w in line for w in words)] == []


@pytest.mark.full
@some("warn", ["head", "always"])
def test_t19_amend_and_rebase_take_the_checkpoint_along(work: Sandbox, warn: str) -> None:
    work.git("config", "baton.warn", warn)
    check_run(work, "commit", "-q", "--amend", "-m", "three, again")
    assert list(noted(work)) == ["three, again"] and drift(work) == (0, "none")
    for backend in ("--merge", "--apply"):
        work.git("branch", "-f", "before")
        check_run(work, "rebase", "-q", backend, "main")
        assert next(iter(noted(work))) == "three, again" and drift(work) == (0, "none"), backend
        check_run(work, "rebase", "-q", backend, "--onto", "main~1", "main")
    assert drift(work) == (0, "none")
    expect = (work.path / ".git/baton/expect").read_text().strip()
    assert expect == work.head()


@pytest.mark.full
@some(
    ("script", "subject"),
    [
        ("3s/^pick/squash/", "two"),
        ("3s/^pick/fixup/", "two"),
        ("1{h;d};2G", "three"),  # reorder: two, one, three
        ("3s/^pick/reword/", "three"),
        ("1s/^pick/drop/", "three"),  # an earlier one
    ],
)
def test_t19_interactive_rebase_keeps_the_note(work: Sandbox, script: str, subject: str) -> None:
    check_run(work, "rebase", "-q", "-i", "main~1", **todo(work, script))
    assert list(noted(work)) == [subject] and drift(work) == (0, "none")
    assert noted(work)[subject].startswith("checkpoint ")


@pytest.mark.deep
def test_t19_squash_of_two_noted_commits_keeps_both_entries(repo: Sandbox) -> None:
    repo.ok("install")
    for name in ("one", "two"):
        repo.commit(name, **{f"{name}_txt": name})
        repo.ok("snapshot", "--track", name, "--step", f"{name} is done")
    check_run(repo, "rebase", "-q", "-i", "HEAD~2", **todo(repo, "2s/^pick/squash/"))
    note = repo.git("notes", "--ref=checkpoints", "show", "HEAD")
    assert note.count("checkpoint ") == 2 and "step: one is done" in note and "step: two is done" in note
    repo.ok("verify", "--track", "one")
    repo.ok("verify", "--track", "two")


def test_t19_drop_is_drift_and_no_note_moves(work: Sandbox) -> None:
    old = work.head()
    check_run(work, "rebase", "-q", "-i", "main~1", **todo(work, "3s/^pick/drop/"))
    assert noted(work) == {} and drift(work) == (1, "head-behind:1")
    assert "three is done" in work.git("notes", "--ref=checkpoints", "show", old)


@pytest.mark.deep
def test_t19_pull_rebase_takes_it_along(work: Sandbox, tmp_path: Path) -> None:
    work.git("init", "-q", "--bare", str(tmp_path / "up.git"))
    work.git("remote", "add", "origin", str(tmp_path / "up.git"))
    work.git("push", "-q", "origin", "main:topic")
    work.git("branch", "-q", "-r", "--list")
    work.git("fetch", "-q")
    work.git("branch", "-q", "--set-upstream-to=origin/topic")
    work.write("a.txt", "dirty\n")
    check_run(work, "pull", "-q", "--rebase", "--autostash")
    assert list(noted(work)) == ["three"] and drift(work)[0] == 0
    assert work.git("status", "--porcelain") == " M a.txt"


@pytest.mark.deep
def test_t19_cherry_pick_and_revert_are_true_drift(work: Sandbox) -> None:
    for warn in ("head", "always"):
        work.git("config", "baton.warn", warn)
        work.git("checkout", "-q", "-B", "picks", "main", env={"GIT_BATON": "0"})
        check_run(work, "cherry-pick", "topic")
        check_run(work, "cherry-pick", "topic~2", "topic~1")
        check_run(work, "revert", "--no-edit", "HEAD")
    assert drift(work) == (1, "branch-switched,head-diverged:5/3")
    assert list(noted(work)) == ["three"]
    assert work.run("git", "notes", "--ref=checkpoints", "show", "picks~3").code == 1


@pytest.mark.full
def test_t19_reset_is_drift_and_mixed_reset_to_head_is_none(work: Sandbox) -> None:
    work.write("three.txt", "staged\n")
    work.git("add", "-A")
    check_run(work, "reset", "-q")
    assert drift(work)[0] == 0
    check_run(work, "reset", "-q", "--hard", "HEAD~2")
    assert drift(work)[0] == 1 and drift(work)[1].startswith("head-behind:2")
    check_run(work, "reset", "-q", "--hard", "main")
    assert drift(work)[0] == 1 and drift(work)[1].startswith("head-diverged:1/3")


@pytest.mark.deep
def test_t19_stash_and_merge_squash_do_not_move_head(work: Sandbox) -> None:
    work.write("three.txt", "changed\n")
    check_run(work, "stash", "-q")
    assert drift(work)[0] == 0
    check_run(work, "stash", "pop", "-q")
    assert drift(work)[0] == 0
    check_run(work, "checkout", "-q", ".")
    check_run(work, "merge", "-q", "--squash", "main")
    assert drift(work)[0] == 0 and list(noted(work)) == ["three"]


@pytest.mark.deep
def test_bisect_clone_worktree_and_am_are_silent(work: Sandbox, tmp_path: Path) -> None:
    work.git("config", "baton.warn", "always")
    check_run(work, "bisect", "start", "HEAD", "HEAD~3")
    check_run(work, "bisect", "run", "test", "!", "-e", "two.txt")
    check_run(work, "bisect", "reset")
    check_run(work, "clone", "-q", ".", str(tmp_path / "clone"))
    check_run(work, "worktree", "add", "-q", str(tmp_path / "linked"))
    patch = work.git("format-patch", "-1", "--stdout", "main")
    (tmp_path / "p").write_text(patch + "\n")
    check_run(work, "am", "-q", str(tmp_path / "p"))


@pytest.mark.deep
def test_a_rebase_that_stops_is_silent_until_its_end(work: Sandbox) -> None:
    work.git("config", "baton.warn", "always")
    work.commit("clash", base_txt="mine\n")
    work.ok("snapshot", "--track", "t", "--step", "clash")
    done = work.run("git", *ZERO_CONTEXT, "rebase", "main")
    assert done.code == 1 and "checkpoint" not in done.err
    work.write("base.txt", "both\n")
    work.git("add", "-A")
    check_run(work, "-c", "core.editor=true", "rebase", "--continue", GIT_EDITOR="true")
    assert drift(work) == (0, "none") and list(noted(work)) == ["clash", "three"]
    check_run(work, "rebase", "-q", "-i", "HEAD~2", **todo(work, "1s/^pick/edit/"))
    check_run(work, "commit", "-q", "--amend", "-m", "edited")
    check_run(work, "rebase", "--continue")
    assert drift(work) == (0, "none") and list(noted(work)) == ["clash", "edited"]


@pytest.mark.deep
@some("how", ["no rewriteRef", "told not to", "the variable"])
def test_notes_are_carried_where_git_did_not(work: Sandbox, how: str) -> None:
    env = {}
    if how == "no rewriteRef":
        work.git("config", "--unset-all", "notes.rewriteRef")
    elif how == "told not to":
        work.git("config", "notes.rewrite.amend", "False")
        work.git("config", "notes.rewrite.rebase", "off")
    else:
        env = {"GIT_NOTES_REWRITE_REF": "refs/notes/other"}
        work.git("notes", "--ref=other", "add", "-m", "somebody's")
    work.git("notes", "--ref=checkpoints", "append", "-m", "a hand-written line", env={"GIT_EDITOR": "true"})
    check_run(work, "commit", "-q", "--amend", "-m", "three, again", **env)
    assert "step: three is done" in work.git("notes", "--ref=checkpoints", "show", "HEAD")
    check_run(work, "rebase", "-q", "main", **env)
    note = work.git("notes", "--ref=checkpoints", "show", "HEAD")
    assert note.count("checkpoint ") == 1 and "a hand-written line" in note
    stamp = int(work.git("log", "-1", "--format=%ct", "refs/notes/checkpoints"))
    assert stamp > 1_700_000_000
    assert drift(work) == (0, "none")
    work.fsck()


@pytest.mark.deep
def test_the_users_hook_gets_the_very_same_bytes(repo: Sandbox, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    hook = repo.path / ".git/hooks/post-rewrite"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\n{{ printf "%s|" "$0" "$@"; cat; }} >>"{seen}"\nexit 3\n')
    hook.chmod(0o755)
    repo.commit("more")
    repo.git("commit", "-q", "--amend", "--allow-empty", "-m", "plain")
    plain = seen.read_text()
    seen.unlink()
    repo.ok("install")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    repo.git("commit", "-q", "--amend", "--allow-empty", "-m", "with us")
    rows = [text.split("|")[1:] for text in (plain, seen.read_text())]
    assert rows[0][0] == rows[1][0] == "amend"
    assert [len(r[1]) for r in rows] == [82, 82] and rows[1][1].endswith(f" {repo.head()}\n")
    raw = b"%040d %040d extra words\n" % (1, 2) * 3
    seen.unlink()
    done = repo.run(str(hook), "rebase", stdin=raw)
    assert (done.code, done.out, done.err) == (3, "", "")
    assert seen.read_text().split("|")[2].encode() == raw


@pytest.mark.deep
def test_a_hook_that_reads_nothing_harms_nobody(repo: Sandbox) -> None:
    hook = repo.path / ".git/hooks/post-rewrite"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexec <&-\nexit 0\n")
    hook.chmod(0o755)
    repo.ok("install")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    raw = b"%040d %040d\n" % (1, 2) * 20_000
    done = repo.run(str(hook), "rebase", stdin=raw)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (repo.path / ".git/baton/rewritten").read_text().count("\n") == 20_000
    repo.git("commit", "-q", "--amend", "--allow-empty", "-m", "x")
    repo.ok("verify")
    repo.ok("doctor", "--fix")
    assert (repo.path / ".git/baton/rewritten").read_text().count("\n") == 1000


def test_a_circle_of_rewrites_ends(repo: Sandbox) -> None:
    repo.ok("install")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    first = repo.head()
    repo.git("commit", "-q", "--amend", "-m", "other")
    repo.git("commit", "-q", "--amend", "-m", "first")
    assert repo.head() == first  # one clock, so the very same commit
    repo.ok("resume")
    assert (repo.path / ".git/baton/expect").read_text().strip() == first
    repo.ok("verify")
