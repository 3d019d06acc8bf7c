"""``git baton branch``: a checkpoint as a normal branch, and nothing else moves."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitbaton.base.errors import BatonError, RecordError
from gitbaton.base.values import replace
from gitbaton.care.tools import branching
from gitbaton.git.objects import RefChange
from tests.kit import Sandbox
from tests.kit.doors import build
from tests.kit.tiers import some


def state(repo: Sandbox) -> tuple[object, ...]:
    """What a branch must not touch: HEAD, index, status, and the refs with what they are at."""
    index = repo.path / ".git/index"
    return (
        (repo.path / ".git/HEAD").read_bytes(),
        index.read_bytes() if index.exists() else b"",
        repo.git("status", "--porcelain=v2", "--branch"),
        repo.git("for-each-ref"),
    )


@pytest.fixture
def edited(repo: Sandbox) -> Sandbox:
    """A track with one checkpoint of an edited and an untracked file, and work done since."""
    repo.write("a.txt", "edited\n")
    repo.write("dir/new.txt", "new\n")
    repo.ok("snapshot", "--track", "t", "--step", "lexer done\nwith tests\n\nand more", "--note", "mind the \x1b[31mgap\nbelow")
    repo.write("a.txt", "later\n")
    repo.git("add", "a.txt")
    repo.write("stray.txt", "stray\n")
    return repo


@pytest.mark.deep
def test_the_branch_is_the_head_and_one_commit_of_the_files(edited: Sandbox) -> None:
    head = edited.head()
    done = edited.ok("branch", "rescue", "t")
    short = edited.git("rev-parse", "--short=10", "rescue")
    assert (done.out, done.err) == (f"made branch 'rescue' at {short} lexer done\n", "")
    assert edited.git("rev-list", "rescue").split() == [edited.git("rev-parse", "rescue"), head]
    assert edited.git("rev-parse", "rescue^{tree}") == edited.git("rev-parse", "refs/baton/tracks/t^{tree}")
    assert edited.git("show", "rescue:dir/new.txt") == "new"
    edited.fsck()


@pytest.mark.deep
def test_nothing_else_moves(edited: Sandbox) -> None:
    before = state(edited)
    edited.ok("branch", "rescue", "t")
    after = state(edited)
    assert after[:3] == before[:3]
    made = f"{edited.git('rev-parse', 'rescue')} commit\trefs/heads/rescue"
    assert sorted(str(after[3]).splitlines()) == sorted([*str(before[3]).splitlines(), made])
    assert not (edited.path / ".git/logs/refs/heads/rescue").exists()


@pytest.mark.deep
def test_the_message_holds_the_words_and_the_checkpoint(edited: Sandbox) -> None:
    edited.ok("branch", "rescue", "t")
    oid = edited.git("rev-parse", "refs/checkpoints/t")
    raw = edited.git("cat-file", "commit", "rescue")
    head, _, text = raw.partition("\n\n")
    assert text + "\n" == (f"lexer done\n\nwith tests\n\nand more\n\nmind the ?[31mgap\nbelow\n\ncheckpoint {oid}\n")
    lines = head.split("\n")
    assert lines[1] == f"parent {edited.head()}" and "gpgsig" not in head
    assert lines[2].startswith("author A U Thor <author@example.com> ") and lines[2].endswith(" +0000")
    assert lines[3] == "committer " + lines[2].removeprefix("author ")
    assert edited.git("log", "-1", "--format=%s", "rescue") == "lexer done"


def test_the_clock_dates_the_commit(edited: Sandbox) -> None:
    with edited.open(clock=lambda: datetime(2030, 1, 2, tzinfo=UTC)) as baton:
        at = branching.apply(baton, branching.plan(baton, "rescue", baton.resolve("t")))
    assert edited.git("log", "-1", "--format=%at %ct", at) == "1893542400 1893542400"


@pytest.mark.full
@some("name", ["-x", "a..b", "a b", "a~1", "", "HEAD", "x.lock", "a/", "new\nline", "@{-1}x"], 2)
def test_git_decides_on_names(edited: Sandbox, name: str) -> None:
    before = state(edited)
    done = edited.baton("branch", "--", name, "t")
    assert (done.code, done.out) == (129, "")
    assert done.err.startswith("fatal: '") and "is not a name that git takes for a branch" in done.err
    assert done.err.count("\n") == 1 and state(edited) == before


@pytest.mark.full
def test_names_that_git_takes(edited: Sandbox) -> None:
    for name in ("a/b", "ünïcode", "with'quote", os.fsdecode(b"latin\xe9"), "@"):
        edited.ok("branch", name, "t")
    names = edited.run("git", "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").out.splitlines()
    assert {"a/b", "ünïcode", "with'quote", os.fsdecode(b"latin\xe9"), "@"} < set(names)
    assert edited.ok("branch", os.fsdecode(b"x\xe9"), "t", "--json").json["branch"]["name"] == {"b64": "eOk="}


def check_refused(repo: Sandbox, name: str, *words: str) -> None:
    before = state(repo)
    for options in ((), ("--dry-run",)):
        done = repo.baton("branch", name, "t", *options)
        assert (done.code, done.out) == (128, "") and done.err.startswith("fatal: ") and done.err.count("\n") == 1
        assert all(word in done.err for word in words), done.err
    assert state(repo) == before


@pytest.mark.deep
def test_a_branch_that_exists_is_named_and_stays(edited: Sandbox) -> None:
    check_refused(edited, "main", "a branch 'main' exists already")
    edited.git("checkout", "-q", "-f", "-b", "side")
    check_refused(edited, "@{-1}", "a branch 'main' exists already")
    check_refused(edited, "side/x", "the branch 'side' is in the way")
    edited.git("branch", "deep/er")
    check_refused(edited, "deep", "the branch 'deep/er' is in the way")
    edited.git("pack-refs", "--all")
    check_refused(edited, "side", "a branch 'side' exists already")


@pytest.mark.deep
def test_what_is_no_plain_branch_is_not_written_over(edited: Sandbox) -> None:
    edited.git("symbolic-ref", "refs/heads/alias", "refs/heads/gone")
    check_refused(edited, "alias", "'alias' exists already")
    assert edited.git("symbolic-ref", "refs/heads/alias") == "refs/heads/gone"
    (edited.path / ".git/refs/heads/broken").write_bytes(b"")
    done = edited.baton("branch", "broken", "t")
    assert done.code == 128 and "'broken' exists already" in done.err
    assert (edited.path / ".git/refs/heads/broken").read_bytes() == b""


@pytest.mark.deep
def test_a_branch_made_meanwhile_is_the_others(edited: Sandbox) -> None:
    with edited.open() as baton:
        plan = branching.plan(baton, "rescue", baton.resolve("t"))
        edited.git("branch", "rescue", "main")
        with pytest.raises(BatonError, match="a branch 'rescue' exists already"):
            branching.apply(baton, plan)
    assert edited.git("rev-parse", "rescue") == edited.head()


@pytest.mark.deep
def test_an_unborn_branch_that_a_work_tree_stands_on_is_not_made(tmp_path: Path, repo: Sandbox) -> None:
    empty = Sandbox.init(tmp_path / "empty")
    empty.write("a.txt", "a\n")
    empty.ok("snapshot", "--track", "t", "--step", "s")
    check_refused(empty, "main", "'main'", "no commit yet")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    Sandbox(tmp_path / "linked").git("checkout", "-q", "--orphan", "newborn")
    check_refused(repo, "newborn", "'newborn'", "no commit yet")


@pytest.mark.deep
def test_without_a_commit_the_branch_begins_with_a_root(tmp_path: Path) -> None:
    empty = Sandbox.init(tmp_path / "empty")
    empty.write("a.txt", "a\n")
    empty.ok("snapshot", "--track", "t", "--step", "s")
    empty.ok("branch", "other", "t")
    assert len(empty.git("rev-list", "--parents", "other").split()) == 1
    assert list(empty.tree("other")) == ["a.txt"]
    assert empty.try_git("rev-parse", "--verify", "-q", "HEAD").code == 1


@pytest.mark.deep
def test_the_same_files_need_no_commit(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "s")
    done = repo.ok("branch", "same", "t")
    assert repo.git("rev-parse", "same") == repo.head()
    assert done.err == "the checkpoint's files are those of its head; no commit is added\n"
    assert repo.ok("branch", "same2", "t", "--json").json["branch"]["added"] is False


@pytest.mark.deep
def test_no_files(repo: Sandbox, tmp_path: Path) -> None:
    repo.write("a.txt", "edited\n")
    repo.ok("snapshot", "--track", "t", "--step", "s", "--no-files")
    done = repo.ok("branch", "bare", "t")
    assert repo.git("rev-parse", "bare") == repo.head() and "has no files" in done.err
    empty = Sandbox.init(tmp_path / "empty")
    empty.ok("snapshot", "--track", "t", "--step", "s", "--no-files")
    check_refused(empty, "x", "has no files and no head")


@pytest.mark.deep
def test_a_dry_run_writes_nothing(edited: Sandbox) -> None:
    def files() -> list[str]:
        return sorted(str(p) for p in (edited.path / ".git").rglob("*") if p.name != "flock")

    before, there = state(edited), files()
    done = edited.ok("branch", "rescue", "t", "--dry-run")
    short = edited.git("rev-parse", "--short=10", "HEAD")
    assert done.out == f"would make branch 'rescue': a commit of the files on {short}\n"
    plan = edited.ok("branch", "rescue", "t", "--dry-run", "--json").json["plan"]
    assert (plan["commit"], plan["parent"], plan["added"]) == (None, edited.head(), True)
    assert state(edited) == before and files() == there


@pytest.mark.deep
def test_json_says_what_was_made(edited: Sandbox) -> None:
    found = edited.ok("branch", "rescue", "t", "--json").json
    assert found["v"] == 1 and found["warnings"] == []
    assert found["branch"] == {
        "name": "rescue",
        "commit": edited.git("rev-parse", "rescue"),
        "parent": edited.head(),
        "added": True,
        "reason": "",
        "checkpoint": edited.git("rev-parse", "refs/checkpoints/t"),
    }


@pytest.mark.deep
def test_who_has_no_identity_gets_ours_and_a_warning(edited: Sandbox) -> None:
    edited.git("config", "--file", str(Path(os.environ["HOME"]) / ".gitconfig"), "--remove-section", "user")
    done = edited.ok("branch", "rescue", "t")
    assert done.err.startswith("warning: git knows no identity")
    assert edited.git("log", "-1", "--format=%an <%ae>|%cn", "rescue") == "gitbaton <gitbaton@localhost>|gitbaton"


def test_what_the_checkpoint_left_out_is_said(edited: Sandbox) -> None:
    edited.write("secret.pem", "key\n")
    edited.ok("snapshot", "--track", "t", "--step", "again")
    done = edited.ok("branch", "rescue", "t")
    assert "warning: 1 path is not on the branch as on disk at the checkpoint" in done.err
    assert "secret.pem" not in edited.tree("rescue")


@pytest.mark.deep
def test_no_hook_runs_and_nothing_is_signed(edited: Sandbox, tmp_path: Path) -> None:
    hook = edited.write(".git/hooks/reference-transaction", f"#!/bin/sh\necho ran >>'{tmp_path}/hooked'\n")
    hook.chmod(0o755)
    edited.git("config", "commit.gpgSign", "true")
    edited.git("config", "gpg.program", "false")
    edited.ok("branch", "rescue", "t")
    assert not (tmp_path / "hooked").exists()


@pytest.mark.deep
def test_objects_that_are_not_there_are_named(edited: Sandbox) -> None:
    gone = "1" * 40
    with edited.open() as baton:
        stored = baton.resolve("t")
        with pytest.raises(RecordError, match=f"the head {gone}, which is no commit here"):
            branching.plan(baton, "x", replace(stored, checkpoint=replace(stored.checkpoint, head=gone)))
        assert stored.checkpoint.files is not None
        files = replace(stored.checkpoint.files, tree=gone)
        with pytest.raises(RecordError, match=f"the tree {gone}, which is not here"):
            branching.plan(baton, "x", replace(stored, tree=gone, checkpoint=replace(stored.checkpoint, files=files)))


@pytest.mark.deep
def test_an_earlier_checkpoint_of_a_rewritten_branch(edited: Sandbox) -> None:
    old = edited.head()
    edited.ok("snapshot", "--track", "t", "--step", "second")
    edited.git("commit", "-q", "--amend", "-m", "rewritten")
    edited.git("reflog", "expire", "--expire=now", "--all")
    edited.git("gc", "-q", "--prune=now")
    edited.ok("branch", "rescue", "t~1")
    assert edited.git("rev-parse", "rescue^") == old
    edited.fsck()


@pytest.mark.deep
@pytest.mark.parametrize("name", ["sha256", "reftable", "libgit2"])
def test_in_every_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    repo = build(tmp_path / name, name, monkeypatch).sandbox
    repo.write("b.txt", "b\n")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    with repo.open() as baton:
        plan = branching.plan(baton, "rescue", baton.resolve("t"))
        at = branching.apply(baton, plan)
        assert repo.git("rev-parse", "rescue") == at
        with pytest.raises(BatonError, match="exists already"):
            branching.apply(baton, plan)
        baton.repo.objects.update([RefChange(name="refs/heads/rescue", new=None, old=at)])
    assert set(repo.tree(at)) == {"a.txt", "b.txt"}
