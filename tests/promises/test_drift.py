"""T19 as far as verify goes: the closed list of words, and every way in which git moves HEAD."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitbaton.base.model import Checkpoint, FileState, Head, IndexState, Operation, WorktreeId
from gitbaton.base.values import replace
from gitbaton.checkpoints.survey import DriftFacts, compare
from tests.kit import Outcome, Sandbox
from tests.kit.processes import noted
from tests.kit.tiers import some

A, B = "a" * 40, "b" * 40
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
THEN = Checkpoint(track="t", step="s", created=WHEN, branch="main", head=A)
MERGE = Operation(kind="merge", head=B)
SNAPSHOT = ("snapshot", "--track", "t", "--step", "s")


def words(then: Checkpoint = THEN, head: str | None = B, branch: str | None = "main", **ground: object) -> str:
    now = DriftFacts(head=Head(branch=branch, oid=head), **{"operation": None, **ground})  # type: ignore[arg-type]
    drift = compare(then, now, lambda oid: oid[:7])
    assert all(w.sentence and "\n" not in w.sentence for w in drift.words)
    assert drift.moved == (str(drift) != "none" and not str(drift).startswith(("operation", "files-changed")))
    return str(drift)


def during(kind: str) -> Checkpoint:
    place = WorktreeId(path="/w", created=WHEN)
    index = IndexState(tree=A)
    files = FileState(tree=A, index=index, operation=Operation(kind=kind), changed=0, skipped=(), worktree=place)
    return replace(THEN, files=files)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("none", words(head=A)),
        ("none", words(home=True)),
        ("branch-switched", words(head=A, branch="other")),
        ("branch-switched", words(head=A, branch=None)),
        ("head-ahead:3", words(distance=(3, 0))),
        ("head-behind:2", words(distance=(0, 2))),
        ("head-diverged:3/2", words(distance=(3, 2))),
        ("head-rewritten", words(rewritten=True)),
        ("head-ahead:1,head-rewritten", words(distance=(1, 0), rewritten=True)),
        ("head-behind:1,head-rewritten", words(distance=(0, 1), rewritten=True)),
        ("head-unrelated", words(distance=None)),
        ("head-rewritten,head-unrelated", words(distance=None, rewritten=True)),
        ("head-missing", words(exists=False, distance=None)),
        ("unborn", words(head=None)),
        ("none", words(replace(THEN, head=None), head=None)),
        ("head-ahead:4", words(replace(THEN, head=None), total=4)),
        ("operation:merge", words(head=A, operation=MERGE)),
        ("operation:none", words(during("rebase"), head=A)),
        ("none", words(during("merge"), head=A, operation=MERGE)),
        ("branch-switched,head-ahead:1,head-rewritten,operation:merge",
         words(branch=None, distance=(1, 0), rewritten=True, operation=MERGE)),
        ("branch-switched,unborn,operation:merge", words(head=None, branch="x", operation=MERGE)),
        ("files-changed:4", words(head=A, changed=("a", "b", "c", "d"))),
        ("unborn,operation:merge,files-changed:1", words(head=None, operation=MERGE, changed=("a",))),
    ],
)  # fmt: skip
def test_t19_the_words_of_the_closed_list_in_their_order(expected: str, found: str) -> None:
    assert found == expected


@pytest.fixture
def work(tmp_path: Path) -> Sandbox:
    """Four commits, the last one with a checkpoint, and git told to carry notes along."""
    repo = Sandbox.init(tmp_path / "work")
    repo.git("config", "notes.rewriteRef", "refs/notes/checkpoints*")
    for name in ("zero", "one", "two", "three"):
        repo.commit(name, **{f"{name}_txt": f"{name}\n"})
    repo.ok("snapshot", "--track", "t", "--step", "three is done")
    return repo


def verify(repo: Sandbox, *options: str) -> tuple[int, str]:
    """Exit status and words; ``resume --live`` must say the same."""
    done: Outcome = repo.baton("verify", *options)
    hinted = any(f"'git {words} " in done.err for words in ("baton diff", "log --oneline", "switch"))
    assert "hint: " in done.err and hinted if done.code == 1 else not done.err
    said = ",".join(row.split(": ")[0] for row in done.out.splitlines()) or "none"
    assert f"\ndrift={said}\n" in repo.ok("resume", "--porcelain", "--live").out
    return done.code, said


def files(repo: Sandbox, tree: str = "") -> str:
    """The word for what a clean work tree has beside the captured one, as git counts it; ``none`` for nothing."""
    then = tree or repo.git("rev-parse", "refs/baton/tracks/t^{tree}")
    count = len(repo.git("diff-tree", "-r", "--name-only", then, "HEAD^{tree}").splitlines())
    return f"files-changed:{count}" if count else "none"


def rebase(repo: Sandbox, script: str, base: str = "HEAD~2") -> None:
    """``git rebase -i`` whose todo list goes through a sed script."""
    repo.git("rebase", "-q", "-i", base, env={"GIT_SEQUENCE_EDITOR": f"sed -i '{script}'", "GIT_EDITOR": "true"})


def amend(repo: Sandbox) -> None:
    repo.git("commit", "-q", "--amend", "-m", "three, said better")


def several(repo: Sandbox) -> None:
    amend(repo)
    repo.git("commit", "-q", "--amend", "-m", "three, once more")
    rebase_all(repo)


def rebase_all(repo: Sandbox) -> None:
    repo.git("checkout", "-q", "-b", "base", "HEAD~2")
    repo.commit("below", below_txt="x\n")
    repo.git("checkout", "-q", "main")
    repo.git("rebase", "-q", "base")


def reorder_below(repo: Sandbox) -> None:
    rebase(repo, "1{h;d};2G", "HEAD~3")


def pull(repo: Sandbox) -> None:
    upstream = repo.path.parent / "upstream"
    repo.git("clone", "-q", "--bare", str(repo.path), str(upstream))
    other = Sandbox(repo.path.parent / "other")
    repo.git("clone", "-q", str(upstream), str(other.path))
    other.git("reset", "-q", "--hard", "HEAD~1")
    other.commit("theirs", theirs_txt="x\n")
    other.git("push", "-q", "-f", "origin", "main")
    repo.git("remote", "add", "origin", str(upstream))
    repo.git("fetch", "-q", "origin")
    repo.git("pull", "-q", "--rebase", "origin", "main")


@pytest.mark.full
@some(
    "move",
    [
        amend,
        rebase_all,
        reorder_below,
        pull,
        lambda r: rebase(r, "2s/^pick/squash/"),
        lambda r: rebase(r, "2s/^pick/fixup/"),
        several,
    ],
    ids=["amend", "rebase", "reorder", "pull", "squash", "fixup", "several"],
)
def test_t19_a_rewritten_commit_keeps_its_note_and_is_home(work: Sandbox, move: object) -> None:
    before = work.head()
    move(work)  # type: ignore[operator]
    assert work.head() != before
    assert verify(work) == (0, files(work))
    assert noted(work, "HEAD") == [work.git("rev-parse", "refs/checkpoints/t")]
    work.fsck()


@pytest.mark.full
def test_t19_fixup_of_two_checkpointed_commits_keeps_both_entries(work: Sandbox) -> None:
    work.commit("four", four_txt="4\n")
    work.ok("snapshot", "--track", "t", "--step", "four is done")
    rebase(work, "2s/^pick/fixup/")
    assert verify(work) == (0, "none")
    assert len(noted(work, "HEAD")) == 2
    work.ok("snapshot", "--track", "t", "--step", "five")
    assert len(noted(work, "HEAD")) == 3 and verify(work) == (0, "none")


@pytest.mark.deep
def test_t19_a_commit_on_top_of_a_rewritten_one_counts_from_there(work: Sandbox) -> None:
    amend(work)
    work.commit("four")
    assert verify(work) == (1, "head-ahead:1,head-rewritten")


@pytest.mark.deep
def test_t19_reorder_that_moves_the_checkpoint_down(work: Sandbox) -> None:
    rebase(work, "1{h;d};2G")
    assert verify(work) == (1, "head-ahead:1,head-rewritten")
    assert noted(work, "HEAD") == [] and len(noted(work, "HEAD~1")) == 1


def cherry_pick(repo: Sandbox) -> None:
    repo.git("checkout", "-q", "-b", "side", "HEAD~1")
    repo.git("cherry-pick", "main", env={"GIT_COMMITTER_DATE": "1767229200 +0000"})
    repo.git("branch", "-q", "-f", "main")
    repo.git("checkout", "-q", "main")


def reset_to_other(repo: Sandbox) -> None:
    repo.git("checkout", "-q", "-b", "side", "HEAD~2")
    other = repo.commit("side")
    repo.git("checkout", "-q", "main")
    repo.git("reset", "-q", "--hard", other)


@pytest.mark.full
@some(
    ("move", "expected"),
    [
        (lambda r: rebase(r, "2d"), "head-behind:1"),
        (cherry_pick, "head-diverged:1/1"),
        (reset_to_other, "head-diverged:1/2"),
        (lambda r: r.git("reset", "-q", "--hard", "HEAD~2"), "head-behind:2"),
        (lambda r: r.commit("four"), "head-ahead:1"),
        (lambda r: r.git("checkout", "-q", "-b", "other"), "branch-switched"),
        (lambda r: (r.git("checkout", "-q", "-b", "other"), r.commit("four")), "branch-switched,head-ahead:1"),
        (lambda r: r.git("checkout", "-q", "--detach"), "branch-switched"),
        (lambda r: r.git("checkout", "-q", "--orphan", "new"), "branch-switched,unborn"),
        (lambda r: (r.git("checkout", "-q", "--orphan", "new"), r.commit("x")), "branch-switched,head-unrelated"),
    ],
    ids=["drop", "cherry-pick", "reset", "reset-back", "commit", "branch", "branch-commit", "detach", "orphan", "unrelated"],
)
def test_t19_true_drift_exits_1_with_the_true_word(work: Sandbox, move: object, expected: str) -> None:
    move(work)  # type: ignore[operator]
    unborn = expected.endswith("unborn")  # then the files are still those of the checkpoint
    assert verify(work) == (1, ",".join(w for w in (expected, "none" if unborn else files(work)) if w != "none"))
    assert work.baton("verify", "--quiet").code == 1


def stage_something(repo: Sandbox) -> str:
    repo.write("three.txt", "changed\n")
    return repo.git("add", "-A")


def stash(repo: Sandbox) -> str:
    stage_something(repo)
    repo.ok("snapshot", "--track", "t", "--step", "three is changed")
    return repo.git("stash", "-q")


def squash_merge(repo: Sandbox) -> str:
    repo.git("checkout", "-q", "-b", "side", "HEAD~1")
    repo.commit("side", side_txt="x\n", two_txt="another two\n")
    repo.git("checkout", "-q", "main")
    return repo.git("merge", "-q", "--squash", "side")


@pytest.mark.full
@some(
    ("move", "expected"),
    [
        (stash, "files-changed:1"),
        (lambda r: (stash(r), r.git("stash", "pop", "-q")), "none"),
        (lambda r: (stage_something(r), r.git("stash", "-q")), "none"),
        (squash_merge, "files-changed:2"),
        (lambda r: (squash_merge(r), r.git("reset", "-q", "--hard")), "none"),
        (lambda r: (stage_something(r), r.git("reset", "-q", "--mixed", "HEAD")), "files-changed:1"),
        (lambda r: (stage_something(r), r.ok(*SNAPSHOT), r.git("reset", "-q", "--mixed", "HEAD")), "none"),
        (lambda r: (r.git("rm", "-q", "--cached", "one.txt"), r.git("reset", "-q")), "none"),
    ],
    ids=["stash", "pop", "stash-home", "squash", "squash-back", "mixed", "mixed-home", "mixed-again"],
)
def test_t19_what_does_not_move_head_is_home_and_says_which_files_differ(work: Sandbox, move: object, expected: str) -> None:
    before = work.head()
    move(work)  # type: ignore[operator]
    assert work.head() == before
    assert verify(work) == (0, expected)
    assert work.baton("verify", "--strict").code == (0 if expected == "none" else 1)


@pytest.mark.deep
def test_t19_operations_are_said_and_leave_the_exit_status(work: Sandbox) -> None:
    work.git("checkout", "-q", "-b", "side", "HEAD~1")
    work.commit("side", three_txt="another\n")
    work.git("checkout", "-q", "main")
    assert work.try_git("merge", "side").code != 0
    assert verify(work) == (0, "operation:merge,files-changed:1")
    assert verify(work, "--strict") == (1, "operation:merge,files-changed:1")
    work.ok("snapshot", "--track", "t", "--step", "in a merge")
    assert verify(work, "--strict") == (0, "none")
    work.git("merge", "--abort")
    assert verify(work) == (0, "operation:none,files-changed:1")
    assert work.try_git("rebase", "side").code != 0
    assert verify(work) == (1, "branch-switched,head-diverged:1/1,operation:rebase,files-changed:1")


def pairs(repo: Sandbox, *lines: str) -> None:
    repo.write(".git/baton/rewritten", "".join(f"{line}\n" for line in lines))


@pytest.mark.full
def test_t19_pairs_of_post_rewrite_lead_home_without_notes(work: Sandbox) -> None:
    work.git("config", "--unset", "notes.rewriteRef")
    first = work.head()
    amend(work)
    middle = work.head()
    work.git("commit", "-q", "--amend", "-m", "and better")
    last = work.head()
    assert verify(work) == (1, "head-diverged:1/1")
    pairs(work, f"{first} {middle}", f"{middle} {last}")
    assert verify(work) == (0, "none")
    work.git("reset", "-q", "--hard", middle)
    assert verify(work) == (0, "none")
    work.git("reset", "-q", "--hard", last)
    work.commit("four")
    assert verify(work) == (1, "head-ahead:1,head-rewritten")
    work.git("reset", "-q", "--hard", "HEAD~2")
    assert verify(work) == (1, "head-behind:1,head-rewritten,files-changed:1")


@pytest.mark.full
def test_t19_pairs_that_lead_nowhere_change_nothing(work: Sandbox) -> None:
    first = work.head()
    work.git("config", "--unset", "notes.rewriteRef")
    amend(work)
    for lines in (
        [f"{first} {B}"],
        [f"{first} {first}"],
        [f"{first} --output=x"],
        ["\x00\xff", "x y z", ""],
        [f"{first} {A}", f"{A} {first}"],
    ):
        pairs(work, *lines)
        assert verify(work) == (1, "head-diverged:1/1")
    last = work.head()
    pairs(work, *(f"{A} {B}" for _ in range(20_000)), f"{first} {last}")
    assert verify(work) == (0, "none")
    pairs(work, f"{first} {last}", *(f"{A} {B}" for _ in range(1000)))
    assert verify(work) == (1, "head-diverged:1/1")


@pytest.mark.deep
def test_t19_the_commit_of_a_checkpoint_that_is_gone(work: Sandbox) -> None:
    bare = Sandbox.init(work.path.parent / "elsewhere")
    bare.commit("other", other_txt="x\n")
    bare.git("fetch", "-q", str(work.path), "refs/baton/*:refs/baton/*")
    chain = bare.git("rev-parse", "refs/baton/tracks/t")
    text = bare.git("cat-file", "commit", chain).replace(work.head(), B, 2)
    lines = [line for line in text.split("\n") if line != f"parent {B}"]
    commit = bare.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=("\n".join(lines) + "\n").encode())
    bare.git("update-ref", "refs/baton/tracks/t", commit)
    done = bare.baton("verify", "--track", "t")
    assert done.code == 1 and done.out.startswith("head-missing: ")
