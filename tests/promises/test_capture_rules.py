"""Capture and its rules: what is left out and why, what is never taken in, and a dry run that leaves nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gitbaton.checkpoints.baton import Request
from tests.kit import Sandbox
from tests.kit.capturekit import CHAIN, Expect, check, git_files, skipped, snap, state

LATEST = ("runtime/checkpoints/LATEST.md", "runtime/checkpoints/LATEST.json")


def excluded(stored_skips: dict[str, str]) -> set[str]:
    assert set(stored_skips.values()) <= {"excluded"}
    return set(stored_skips)


def test_t25_secrets_are_left_out_by_default(repo: Sandbox) -> None:
    secret = [".env", ".env.local", "d/.env", "key.pem", "d/key.p12", "id_rsa", "deep/er/id_ed25519", ".envrc"]
    fine = ["env", "a.env", "key.pem.txt", "my_id_rsa", "id_rsa.pub", "environment/x"]
    for name in (*secret, *fine):
        repo.write(name, f"{name} MARK\n")
    stored = snap(repo)
    assert excluded(skipped(stored)) == set(secret)
    assert set(repo.tree(stored.commit)) == {"a.txt", *fine}
    every = repo.run("git", "cat-file", "--batch-all-objects", "--batch").out
    assert all(f"\n{name} MARK" not in every for name in secret) and "\nenv MARK" in every


def test_exclude_is_gitignore_syntax_with_negation_and_directories(repo: Sandbox) -> None:
    for pattern in ("*.tmp", "!keep.tmp", "/top.txt", "build/", "docs/*.md", "**/cache/**", "\\!bang", "with\\ ", "#comment"):
        repo.git("config", "--add", "baton.exclude", pattern)
    out = ["x.tmp", "d/y.tmp", "top.txt", "build/a", "d/build/b/c", "docs/a.md", "d/cache/e/f", "!bang", "with "]
    kept = ["keep.tmp", "d/keep.tmp", "d/top.txt", "docs/deep/a.md", "e/build", "#comment", "bang", "with", ".env"]
    for name in (*out, *kept):
        repo.write(name, "x\n")
    stored = snap(repo)
    assert excluded(skipped(stored)) == set(out)
    assert set(repo.tree(stored.commit)) == {"a.txt", *kept}


def test_an_empty_exclude_clears_the_default(repo: Sandbox) -> None:
    repo.git("config", "baton.exclude", "")
    repo.write(".env", "A=1\n")
    check(repo)


def test_exclude_names_a_nested_repository(repo: Sandbox) -> None:
    repo.git("config", "baton.exclude", "nest/")
    Sandbox.init(repo.path / "nest").commit("first", n_txt="n\n")
    repo.write("other", "x\n")
    assert skipped(check(repo, Expect(skipped={"nest": "excluded"}, keep=["nest"]))) == {"nest": "excluded"}


@pytest.mark.parametrize("where", [".gitignore", ".git/info/exclude", "global"])
def test_no_ignore_file_overrules_exclude(repo: Sandbox, where: str) -> None:
    text = "!.env\n!*.pem\n"
    if where == "global":
        (repo.path.parent / "ignore").write_text(text)
        repo.git("config", "core.excludesFile", str(repo.path.parent / "ignore"))
    else:
        repo.write(where, text)
    repo.write(".env", "A=1\n")
    repo.write("d/x.pem", "x\n")
    stored = snap(repo)
    assert skipped(stored) == {".env": "excluded", "d/x.pem": "excluded"}


def test_exclude_follows_ignore_case(repo: Sandbox) -> None:
    repo.git("config", "core.ignoreCase", "true")
    repo.write(".ENV", "A=1\n")
    assert skipped(snap(repo)) == {".ENV": "excluded"}


def test_t15_a_file_over_the_limit_is_left_out(repo: Sandbox) -> None:
    repo.git("config", "baton.maxFileSize", "1k")
    repo.write("just", b"x" * 1024)
    repo.write("over", b"x" * 1025)
    repo.write("a.txt", b"x" * 5000)
    (repo.path / "link").symlink_to("over")
    check(repo, Expect(skipped={"over": "too-large"}, keep=["over"]))


@pytest.mark.deep
def test_untracked_none_takes_in_tracked_edits_only(repo: Sandbox) -> None:
    repo.git("config", "baton.untracked", "none")
    repo.write("a.txt", "two\n")
    repo.write("ita", "x\n")
    repo.git("add", "-N", "ita")
    repo.write("new", "x\n")
    repo.write(".env", "x\n")
    repo.write("ignored", "x\n")
    repo.write(".git/info/exclude", "ignored\n")
    Sandbox.init(repo.path / "nest")
    left = {"new": "untracked", ".env": "untracked", "nest": "untracked"}
    check(repo, Expect(skipped=left, keep=["new", ".env"], code=1))


def test_untracked_none_where_a_file_became_a_directory(repo: Sandbox) -> None:
    repo.git("config", "baton.untracked", "none")
    (repo.path / "a.txt").unlink()
    repo.write("a.txt/new", "x\n")
    stored = snap(repo)
    assert repo.tree(stored.commit) == {} and skipped(stored) == {"a.txt/new": "untracked"}


@pytest.mark.full
@pytest.mark.parametrize("changes", [1, 600])
def test_more_than_a_thousand_are_left_out(repo: Sandbox, changes: int) -> None:
    names = [f"secrets/{number:04d}.pem" for number in range(1300)]
    for name in names:
        repo.write(name, "x\n")
    for number in range(changes):
        repo.write(f"new/{number}", f"{number}\n")
    stored = snap(repo)
    assert excluded(skipped(stored)) == set(names)
    assert len(repo.tree(stored.commit)) == changes + 1
    files = json.loads(repo.git("cat-file", "-p", "refs/checkpoints/t"))["files"]
    assert len(files["skipped"]) == 1000 and files["skipped_more"] == 300


@pytest.mark.deep
def test_t25_latest_is_never_captured(repo: Sandbox) -> None:
    for number in range(3):
        repo.write("new", f"{number}\n")
        assert not set(LATEST) & set(repo.tree(snap(repo).commit))
    assert all((repo.path / name).exists() for name in LATEST)
    assert repo.git("status", "--porcelain") == "?? new"


@pytest.mark.deep
@pytest.mark.parametrize("changes", [1, 600])
def test_t25_latest_is_not_captured_where_an_ignore_file_shows_it(repo: Sandbox, changes: int) -> None:
    repo.write(".gitignore", "!LATEST.*\n")
    snap(repo)
    for number in range(changes):
        repo.write(f"runtime/checkpoints/{number}", f"{number}\n")
    repo.write("runtime/checkpoints/.LATEST.md.new", "half written by another process")
    stored = snap(repo)
    found = set(repo.tree(stored.commit))
    assert not found & {*LATEST, "runtime/checkpoints/.LATEST.md.new"} and skipped(stored) == {}
    assert len(found) == changes + 2


@pytest.mark.deep
def test_t25_latest_is_not_captured_where_its_directory_was_a_tracked_file(repo: Sandbox) -> None:
    repo.write("runtime", "a file\n")
    repo.write(".gitignore", "!LATEST.*\n")
    repo.commit("runtime")
    (repo.path / "runtime").unlink()
    snap(repo)
    assert (repo.path / LATEST[0]).exists()
    assert set(repo.tree(snap(repo).commit)) == {".gitignore", "a.txt"}


def test_t25_a_tracked_latest_is_the_users(repo: Sandbox) -> None:
    repo.write(LATEST[0], "theirs\n")
    repo.commit("tracks it")
    repo.write(LATEST[0], "their edit\n")
    check(repo)
    assert (repo.path / LATEST[0]).read_text() == "their edit\n"


def test_no_files_captures_nothing(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    repo.write("new", "x\n")
    before = state(repo.path / ".git/index")
    done = repo.ok("snapshot", "--track", "t", "--step", "s", "--no-files")
    assert done.code == 0 and state(repo.path / ".git/index") == before
    assert json.loads(repo.git("cat-file", "-p", "refs/checkpoints/t"))["files"] is None
    assert repo.git("rev-parse", f"{CHAIN}^{{tree}}") == repo.git("rev-parse", "HEAD^{tree}")
    blob = repo.git("hash-object", "new")
    assert repo.try_git("cat-file", "-e", blob).code != 0


@pytest.mark.deep
def test_a_dry_run_leaves_nothing(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    repo.write("new", "x\n")
    repo.git("update-index", "--assume-unchanged", "a.txt")
    before, index = git_files(repo), state(repo.path / ".git/index")
    objects = repo.git("count-objects", "-v")
    files = {p for p in repo.path.rglob("*") if ".git" not in p.parts}
    with repo.open() as baton:
        plan = baton.dry_run(Request(track="t", step="s"))
    assert git_files(repo) == before and state(repo.path / ".git/index") == index
    assert repo.git("count-objects", "-v") == objects
    assert {p for p in repo.path.rglob("*") if ".git" not in p.parts} == files
    planned = plan.checkpoint.files
    assert planned is not None
    stored = snap(repo)
    assert planned.tree == stored.tree


@pytest.mark.deep
def test_a_dry_run_after_a_snapshot_leaves_nothing_either(repo: Sandbox) -> None:
    snap(repo)
    repo.write("new", "x\n")
    before = {p: p.lstat().st_mtime_ns for p in repo.path.rglob("*")}
    done = repo.ok("snapshot", "--track", "t", "--step", "s", "--dry-run")
    assert done.code == 0
    assert {p: p.lstat().st_mtime_ns for p in repo.path.rglob("*")} == before


GONE = 1 << 30  # no system has a process of that number


def test_what_a_killed_process_left_goes_after_an_hour(repo: Sandbox) -> None:
    place: Path = repo.path / ".git/baton/tmp"
    old, young, others = f"{GONE}.1", f"{GONE}.2", "somebody's"  # as snapshots call theirs, by their process
    for name in (old, young, others):
        (place / name).mkdir(parents=True)
        (place / name / "index.0").write_text("left over")
    for name in (old, others):
        os.utime(place / name, (1, 1))
    snap(repo)
    assert {p.name for p in place.iterdir()} == {young, others}


@pytest.mark.full
def test_t15_a_file_of_5_gb_and_a_directory_of_16000_files(repo: Sandbox) -> None:
    huge = repo.path / "huge.bin"
    with open(huge, "wb") as file:
        file.truncate(5 << 30)
    state = huge.stat()
    folder = repo.path / "many"
    folder.mkdir()
    for number in range(16_000):
        (folder / f"f{number}").write_bytes(b"%d\n" % number)
    done = repo.ok("snapshot", "--track", "t", "--step", "one", "--json")
    assert done.json["checkpoint"]["files"]["skipped"] == [{"path": "huge.bin", "reason": "too-large"}]
    assert len(repo.tree("refs/baton/tracks/t")) > 16_000
    for number in range(0, 16_000, 1000):
        (folder / f"f{number}").unlink()
    repo.write("a.txt", "changed\n")
    repo.ok("restore", "t")
    assert sorted(p.name for p in folder.iterdir()) == sorted(f"f{n}" for n in range(16_000))
    after = huge.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (state.st_ino, state.st_size, state.st_mtime_ns)
