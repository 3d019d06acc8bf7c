"""The storage law, commit by commit, read with plain git; and records that strangers wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.hurry import hurry
from tests.kit.processes import chain, repo_ids
from tests.kit.tiers import deep, some

CHAIN = "refs/baton/tracks/t"
EMPTY = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}


@pytest.fixture(params=["sha1", deep("sha256")])
def law(request: pytest.FixtureRequest, tmp_path: Path) -> Sandbox:
    """A repository of each object format with one commit."""
    repo = Sandbox.init(tmp_path / "repo", f"--object-format={request.param}")
    repo.commit("first", a_txt="one\n")
    return repo


def snap(repo: Sandbox, step: str = "s", *options: str) -> str:
    """A snapshot of track ``t``; the chain's new commit."""
    repo.ok("snapshot", "--track", "t", "--step", step, *options)
    return repo.git("rev-parse", CHAIN)


def parents(repo: Sandbox, commit: str) -> list[str]:
    return repo.git("rev-list", "--no-walk", "--parents", commit).split()[1:]


def stored(repo: Sandbox, commit: str = CHAIN) -> Any:
    return json.loads(repo.git("cat-file", "commit", commit).split("\n\n", 2)[2])


@pytest.mark.deep
def test_the_root_is_the_same_object_in_every_repository(law: Sandbox, tmp_path: Path) -> None:
    algorithm = law.git("rev-parse", "--show-object-format")
    other = Sandbox.init(tmp_path / "other", f"--object-format={algorithm}")
    other.git("config", "user.name", "Somebody Else")
    roots = {repo.git("rev-list", "--first-parent", "--max-parents=0", CHAIN) for repo in (law, other) if snap(repo)}
    assert len(roots) == 1
    raw = law.run("git", "cat-file", "commit", roots.pop()).out
    who = "gitbaton <gitbaton@localhost> 0 +0000"
    assert raw == f"tree {EMPTY[algorithm]}\nauthor {who}\ncommitter {who}\n\ngitbaton root 1\n"


@pytest.mark.deep
def test_parents_tree_and_message_of_each_commit(law: Sandbox) -> None:
    first = snap(law, "one")
    law.write("new.txt", "new\n")
    second = snap(law, "two\nwith more")
    assert parents(law, first)[1:] == [law.head()] and parents(law, second) == [first, law.head()]
    assert law.tree(second) == {**law.tree("HEAD"), "new.txt": law.tree(second)["new.txt"]}
    raw = law.run("git", "cat-file", "commit", second).out
    head, subject, text = raw.split("\n\n", 1)[0], *raw.split("\n\n", 1)[1].split("\n\n", 1)
    assert subject == "two" and text.endswith("\n}\n") and json.loads(text)["step"] == "two\nwith more"
    record = stored(law, second)
    seconds = law.git("log", "-1", "--format=%ad", "--date=format-local:%Y-%m-%dT%H:%M:%S", second)
    assert record["created"].startswith(seconds + ".") and re.search(
        r"\nauthor A U Thor <author@example.com> \d+ \+0000\n", head
    )
    assert re.sub("author", "committer", head.split("\n")[-2], count=1) == head.split("\n")[-1]
    oid = repo_ids(law, [text])[0]
    assert oid == law.git("rev-parse", "refs/checkpoints/t") and law.run("git", "cat-file", "-p", oid).out == text
    assert (
        record["previous"]
        == repo_ids(law, [law.run("git", "cat-file", "commit", first).out.split("\n\n", 1)[1].split("\n\n", 1)[1]])[0]
    )
    assert record["files"]["tree"] == law.git("rev-parse", f"{second}^{{tree}}")
    assert law.git("diff", "--name-only", f"{CHAIN}~1", CHAIN) == "new.txt"
    law.fsck()


@pytest.mark.deep
def test_an_unborn_head_with_an_empty_index_has_no_base(tmp_path: Path) -> None:
    repo = Sandbox.init(tmp_path / "unborn")
    repo.write("a.txt", "a\n")
    assert len(parents(repo, snap(repo))) == 1
    repo.git("add", "a.txt")
    base = parents(repo, snap(repo))[1]
    assert parents(repo, base) == [] and repo.tree(base) == repo.tree(CHAIN)
    assert repo.git("log", "-1", "--format=%B", base) == "gitbaton index 1\n"
    repo.fsck()


def staged(repo: Sandbox) -> None:
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")


def intent(repo: Sandbox) -> None:
    repo.write("soon.txt", "x\n")
    repo.git("add", "-N", "soon.txt")


def assumed(repo: Sandbox) -> None:
    repo.git("update-index", "--assume-unchanged", "a.txt")


def removed(repo: Sandbox) -> None:
    repo.git("rm", "-q", "--cached", "a.txt")


@pytest.mark.deep
@some("change", [staged, intent, assumed, removed], 2)
def test_an_index_commit_stands_for_what_head_does_not_say(law: Sandbox, change: Callable[[Sandbox], object]) -> None:
    change(law)
    base = parents(law, snap(law))[1]
    assert base != law.head() and parents(law, base) == [law.head()]
    assert law.git("rev-parse", f"{base}^{{tree}}") == stored(law)["files"]["index"]["tree"] == law.git("write-tree")
    dates = {law.git("log", "-1", "--format=%an <%ae> %at %cn <%ce> %ct", c) for c in (base, CHAIN)}
    assert len(dates) == 1
    law.fsck()


def test_an_edit_that_is_not_staged_needs_no_index_commit(law: Sandbox) -> None:
    law.write("a.txt", "edited\n")
    assert parents(law, snap(law))[1] == law.head()


def conflict(repo: Sandbox) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("theirs", a_txt="theirs\n")
    repo.git("checkout", "-q", "main")
    repo.commit("ours", a_txt="ours\n")
    assert repo.try_git("merge", "side").code == 1


@pytest.mark.deep
def test_unmerged_stages_are_kept_beside_the_index_commit(law: Sandbox) -> None:
    conflict(law)
    stages = law.git("ls-files", "-u").splitlines()
    base = parents(law, snap(law))[1]
    head, beside = parents(law, base)
    assert head == law.head() and parents(law, beside) == []
    kept = {path: entry.split(" ")[1] for path, entry in law.tree(beside).items()}
    assert kept == {f"{line.split()[2]}/a.txt": line.split()[1] for line in stages}
    assert law.git("log", "-1", "--format=%B", beside) == "gitbaton stages 1\n"
    assert stored(law)["files"]["index"]["unmerged"] == 1 and "a.txt" not in law.tree(base)
    law.fsck()


@pytest.mark.deep
def test_head_on_the_chain_itself_makes_an_index_commit(law: Sandbox) -> None:
    law.git("checkout", "-q", "--detach", snap(law))
    for step in ("two", "three"):
        before = law.git("rev-parse", CHAIN)
        first, base = parents(law, snap(law, step))
        assert first == before and base != first
        assert (parents(law, base) == [law.head()]) == (law.head() == first)
        law.git("checkout", "-q", "--detach", CHAIN)
    law.fsck()


@pytest.mark.deep
def test_never_more_than_two_parents_and_only_checkpoints_on_the_first(law: Sandbox) -> None:
    snap(law, "one")
    conflict(law)
    snap(law, "two")
    law.git("merge", "--abort")
    intent(law)
    snap(law, "three", "--no-files")
    counts = [len(line.split()) - 1 for line in law.git("rev-list", "--parents", CHAIN).splitlines()]
    assert max(counts) == 2
    subjects = law.git("log", "--first-parent", "--format=%s", CHAIN).splitlines()
    assert subjects == ["three", "two", "one", "gitbaton root 1"]


@pytest.mark.deep
def test_without_files_the_tree_is_the_bases(law: Sandbox, tmp_path: Path) -> None:
    law.write("new.txt", "x\n")
    commit = snap(law, "s", "--no-files")
    assert law.tree(commit) == law.tree("HEAD") and stored(law)["files"] is None
    unborn = Sandbox.init(tmp_path / "unborn")
    assert unborn.tree(snap(unborn, "s", "--no-files")) == {}
    bare = Sandbox(tmp_path / "bare.git")
    law.git("clone", "-q", "--bare", str(law.path), str(bare.path))
    commit = snap(bare)
    assert bare.tree(commit) == bare.tree("HEAD") and parents(bare, commit)[1] == bare.head()


@some("name", ["Foo Jr.", "  ,Odd; \"Name'", "Zoë Ünï", "a.b:c", "Tab\tbed"], 3)
@pytest.mark.parametrize("key", ["", "user", "author"])
def test_the_author_is_gits_own_byte_for_byte(repo: Sandbox, name: str, key: str) -> None:
    env = {} if key else {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": "x+y@example.com"}
    if key:
        repo.git("config", f"{key}.name", name)
        repo.git("config", f"{key}.email", "x+y@example.com")
    ident = repo.git("var", "GIT_AUTHOR_IDENT", env=env).rsplit(" ", 2)[0]
    repo.ok("snapshot", "--track", "t", "--step", "s", env=env)
    rows = repo.git("cat-file", "commit", CHAIN).split("\n\n")[0].split("\n")
    assert [row.rsplit(" ", 2)[0] for row in rows[-2:]] == [f"author {ident}", f"committer {ident}"]
    repo.fsck()


@pytest.mark.deep
def test_nothing_is_lost_by_gc_after_the_branch_was_rebased_away(law: Sandbox) -> None:
    conflict(law)
    law.write("loose.txt", "untracked\n")
    law.write("staged.txt", "staged\n")
    law.git("add", "staged.txt")
    snap(law, "one")
    objects = law.git("rev-list", "--objects", "--no-object-names", CHAIN).split()
    stages = law.git("ls-files", "-u").split()[1::4]
    law.git("merge", "--abort")
    law.git("reset", "-q", "--hard", "HEAD~1")
    law.git("branch", "-D", "side")
    law.git("reflog", "expire", "--expire=now", "--all")
    law.git("-c", "gc.auto=1", "gc", "-q", "--prune=now")
    for oid in {*objects, *stages}:
        law.git("cat-file", "-e", oid)
    assert law.git("show", f"{CHAIN}:loose.txt") == "untracked"
    law.fsck()


@pytest.mark.deep
def test_names_that_differ_only_in_case_are_refused(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "Work", "--step", "s")
    done = repo.baton("snapshot", "--track", "wORK", "--step", "s")
    assert done.code == 129 and "'Work'" in done.err and done.err.startswith("fatal: ")
    assert repo.git("for-each-ref", "--format=%(refname)", "refs/baton", "refs/checkpoints").split() == [
        "refs/baton/tracks/Work",
        "refs/checkpoints/Work",
    ]


def refs(repo: Sandbox) -> dict[str, str]:
    rows = repo.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return {row.split(" ")[0]: row.split(" ")[1] for row in rows}


@pytest.mark.full
def test_the_chain_is_moved_before_the_note_and_the_tip(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch, pace=20)
    snap(repo, "one")
    for held, moved in (
        ("refs/baton/tracks/t", set()),
        ("refs/notes/checkpoints", {CHAIN}),
        ("refs/checkpoints/t", {CHAIN, "refs/notes/checkpoints"}),
    ):
        before = refs(repo)
        lock = repo.write(f".git/{held}.lock")
        assert held + ".lock" in repo.here("snapshot", "--track", "t", "--step", "s").err
        assert {name for name, oid in refs(repo).items() if before.get(name) != oid} == moved
        lock.unlink()
        repo.ok("resume")
        assert repo.git("rev-parse", "refs/checkpoints/t") == chain(repo, "t")[-1]["id"]
