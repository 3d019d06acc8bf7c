"""Capture while the ground moves: files and the index change under it, and what is remembered of an index is never stale."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitbaton.git.repo import discover
from gitbaton.git.worktree.index import PrivateIndex
from tests.kit import Sandbox
from tests.kit.capturekit import CHAIN, TRACK, Expect, check, expected_tree, flags, index_path, skipped, snap
from tests.kit.tiers import some

SECONDS = 1.5


@contextmanager
def meanwhile(action: Callable[[], None]) -> Iterator[None]:
    """Repeat something in a thread until the body is done."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.is_set():
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def another_process(script: str, place: Path) -> Iterator[None]:
    """A shell that repeats a script in a directory until the body is done."""
    process = subprocess.Popen(["sh", "-c", f"while [ -e ../go ]; do {script}; done"], cwd=place, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        (place.parent / "go").unlink()
        process.wait(60)


def rewrite(path: Path, chance: random.Random) -> None:
    try:
        if chance.random() < 0.4:
            path.unlink()
        else:
            path.write_bytes(b"x" * chance.choice((0, 10, 40_000, 400_000)))
    except FileNotFoundError:
        pass


@pytest.mark.full
@some("tracked", [True, False])
def test_t08_files_that_vanish_and_shrink_never_fail_a_snapshot(repo: Sandbox, tracked: bool) -> None:
    files = [repo.path / f"moving/{number}" for number in range(6)]
    repo.write("moving/still", "still\n")
    for file in files:
        file.write_bytes(b"x" * 400_000)
    if tracked:
        repo.commit("moving")
    chance = random.Random(1)
    until = time.monotonic() + SECONDS
    with meanwhile(lambda: rewrite(chance.choice(files), chance)):
        while time.monotonic() < until:
            with repo.open() as baton:
                stored = baton.snapshot("step", track=TRACK).stored
            assert "moving/still" in repo.tree(stored.tree)
            assert set(skipped(stored).values()) <= {"unstable", "unreadable"}
    check(repo)
    repo.fsck()


@pytest.mark.deep
def test_t08_directories_that_come_and_go_never_fail_a_snapshot(repo: Sandbox) -> None:
    place = repo.path / "coming"

    def come_and_go() -> None:
        (place / "deep").mkdir(parents=True, exist_ok=True)
        for name in ("deep/a", "deep/b", ".env"):
            (place / name).write_text("x\n")
        shutil.rmtree(place)
        place.write_text("a file\n")
        place.unlink()

    until = time.monotonic() + SECONDS
    with meanwhile(come_and_go):
        while time.monotonic() < until:
            repo.write("a.txt", f"{time.monotonic()}\n")
            with repo.open() as baton:
                stored = baton.snapshot("step", track=TRACK).stored
            found = repo.tree(stored.tree)
            assert "coming/.env" not in found
            assert repo.git("show", f"{CHAIN}:a.txt") == (repo.path / "a.txt").read_text().strip()
    repo.fsck()


@pytest.mark.deep
def test_what_is_never_stored_stays_out_where_it_comes_beside_what_git_cannot_add(repo: Sandbox) -> None:
    repo.git("config", "filter.late.clean", "mkdir -p coming && echo TOKEN=1 >coming/.env && cat")
    repo.git("config", "filter.late.required", "true")
    repo.write(".gitattributes", "*.late filter=late\n*.enc working-tree-encoding=UTF-16\n")
    repo.write("good.late", "good\n")
    repo.write("bad.enc", b"\xff\xfeodd")
    stored = snap(repo)
    assert (repo.path / "coming/.env").exists() and "good.late" in repo.tree(stored.tree)
    assert "coming/.env" not in repo.tree(stored.tree)
    assert skipped(stored) == {"bad.enc": "unreadable", "coming/.env": "excluded"}


@pytest.mark.deep
@some("script", ["git add a.txt new; git reset -q", "git add a.txt; git rm -q --cached b.txt; git reset -q"])
def test_t18_index_writers_never_tear_a_snapshot(repo: Sandbox, script: str) -> None:
    for number in range(40):
        repo.write(f"d/{number}", f"{number}\n")
    repo.write("b.txt", "b\n")
    repo.commit("base")
    repo.write("a.txt", "edited\n")
    repo.write("new", "n\n")
    states = {repo.git("rev-parse", "HEAD^{tree}")}
    wanted = expected_tree(repo)
    for step in script.split("; "):
        repo.git(*step.split()[1:])
        scratch = repo.path.parent / "scratch-index"
        shutil.copy2(index_path(repo), scratch)
        states.add(repo.git("write-tree", env={"GIT_INDEX_FILE": str(scratch)}))
    (repo.path.parent / "go").touch()
    until, count = time.monotonic() + SECONDS, 0
    with another_process(script, repo.path):
        while time.monotonic() < until:
            with repo.open() as baton:
                stored = baton.snapshot("step", track=TRACK).stored
            count += 1
            assert stored.tree == wanted and skipped(stored) == {}
            assert stored.checkpoint.files is not None and stored.checkpoint.files.index.tree in states
    assert count > 5
    check(repo)


@pytest.mark.full
def test_the_facts_of_an_index_are_never_stale(repo: Sandbox) -> None:
    repo.write("b.txt", "b\n")
    repo.commit("b")
    facts = repo.path / ".git/baton/index-facts"
    check(repo)
    for words in (
        ("update-index", "--assume-unchanged", "a.txt"),
        ("update-index", "--no-assume-unchanged", "a.txt"),
        ("update-index", "--skip-worktree", "b.txt"),
        ("update-index", "--no-skip-worktree", "b.txt"),
        ("rm", "-q", "--cached", "b.txt"),
        ("add", "b.txt"),
        ("update-index", "--chmod=+x", "a.txt"),
        ("reset", "-q"),
        ("read-tree", "--empty"),
        ("read-tree", "HEAD"),
    ):
        repo.git(*words)
        copy = repo.path.parent / "index-copy"
        shutil.copy2(index_path(repo), copy)
        staged = repo.git("write-tree", env={"GIT_INDEX_FILE": str(copy)})
        stored = snap(repo)
        assert stored.checkpoint.files is not None and stored.checkpoint.files.index.tree == staged
        kept = facts.read_bytes()
        again = snap(repo)
        assert again.checkpoint.files == stored.checkpoint.files or again.checkpoint.files is not None
        assert flags(again) == flags(stored) and again.tree == stored.tree and facts.read_bytes() == kept


@pytest.mark.deep
def test_what_a_status_keeps_of_an_index_is_what_a_snapshot_would(repo: Sandbox) -> None:
    repo.write("b.txt", "b\n")
    repo.commit("b")
    check(repo)
    facts = repo.path / ".git/baton/index-facts"
    kept = set()
    for words in (
        ("update-index", "--assume-unchanged", "a.txt"),
        ("update-index", "--skip-worktree", "b.txt"),
        ("update-index", "--no-skip-worktree", "b.txt"),
        ("rm", "-q", "--cached", "b.txt"),
        ("commit", "-qm", "without b"),
        ("add", "-N", "b.txt"),
        ("add", "b.txt"),
        ("commit", "-qm", "with b"),
    ):
        repo.git(*words)
        facts.unlink(missing_ok=True)
        first = repo.here("status").out
        kept.add(words if facts.exists() else None)
        assert repo.here("status").out == first
        stored = snap(repo)
        facts.unlink(missing_ok=True)
        again = snap(repo)
        assert flags(again) == flags(stored) and again.tree == stored.tree, words
        assert again.checkpoint.files is not None and stored.checkpoint.files is not None
        assert again.checkpoint.files.index.tree == stored.checkpoint.files.index.tree
    assert None in kept and len(kept) > 2, "what is in no tree yet is not kept"


@pytest.mark.deep
@some("version", ["2", "3", "4", "sha256"])
def test_the_facts_of_an_index_stand_while_its_entries_do(tmp_path: Path, version: str) -> None:
    """Git writes an index anew for what it has cached in it: that makes nothing to read again."""
    repo = Sandbox.init(tmp_path / "repo", *(["--object-format=sha256"] if version == "sha256" else []))
    for name in ("a.txt", "TREE", "deep/" * 40 + "x", "q" * 200, "deep/b.txt"):
        repo.write(name, f"{name}\n")
    repo.commit("first")
    if version in "34":
        repo.git("update-index", "--index-version", "4" if version == "4" else "2")
        repo.git("update-index", "--skip-worktree", "TREE")
        repo.write("intent", "")
        repo.git("add", "-N", "intent")
    facts = repo.path / ".git/baton/index-facts"
    snap(repo)
    kept, seen = facts.read_bytes(), {index_path(repo).read_bytes()}
    for words in (("--untracked-cache",), ("--no-untracked-cache",), ("--force-untracked-cache",), ("--force-write-index",)):
        repo.git("update-index", *words)
        seen.add(index_path(repo).read_bytes())
        snap(repo)
        assert facts.read_bytes() == kept
    assert len(seen) > 1
    repo.git("update-index", "--split-index")  # entries are elsewhere
    snap(repo)
    assert facts.read_bytes() != kept
    repo.write("a.txt", "a.TXT\n")
    os.utime(repo.path / "a.txt", (1, 1))
    repo.git("update-index", "--no-split-index", "a.txt")
    check(repo, Expect(reveal=["TREE"] if version in "34" else []))


@pytest.mark.deep
def test_facts_of_a_sparse_checkout_are_not_those_of_a_full_one(repo: Sandbox) -> None:
    repo.git("update-index", "--skip-worktree", "a.txt")
    assert flags(snap(repo)) == {"a.txt": "s"}
    repo.git("config", "core.sparseCheckout", "true")
    repo.write(".git/info/sparse-checkout", "/*\n")
    (repo.path / "a.txt").unlink()
    assert flags(snap(repo)) == {}
    repo.git("config", "core.sparseCheckout", "false")
    assert flags(snap(repo)) == {"a.txt": "s"}


@pytest.mark.deep
def test_facts_whose_tree_was_collected_are_read_again(repo: Sandbox) -> None:
    repo.write("staged", "only in the index\n")
    repo.git("add", "staged")
    first = snap(repo)
    assert first.checkpoint.files is not None
    staged = first.checkpoint.files.index.tree
    for ref in ("refs/baton/tracks/t", "refs/checkpoints/t", "refs/notes/checkpoints"):
        repo.git("update-ref", "-d", ref)
    repo.git("gc", "-q", "--prune=now")
    assert repo.try_git("cat-file", "-e", staged).code != 0
    assert (repo.path / ".git/baton/index-facts").exists()
    again = check(repo)
    assert again.checkpoint.files is not None and again.checkpoint.files.index.tree == staged
    repo.fsck()


@pytest.mark.deep
@some("content", [b"", b"{", b"[]", b"{}", b'{"key": 1}', bytes(range(64))], 3)
def test_facts_that_are_damaged_are_read_again(repo: Sandbox, content: bytes) -> None:
    snap(repo)
    (repo.path / ".git/baton/index-facts").write_bytes(content)
    check(repo)


@pytest.mark.deep
@pytest.mark.parametrize("tree", [["a list"], 7, "", "HEAD"])
def test_facts_that_name_no_tree_are_read_again(repo: Sandbox, tree: object) -> None:
    snap(repo)
    facts = repo.path / ".git/baton/index-facts"
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"tree": tree}))
    tip = repo.git("rev-parse", "refs/baton/tracks/t").strip()
    for n in range(6):
        repo.git("update-ref", f"refs/baton/tracks/t{n}", tip)
    assert repo.ok("status", "--all").err == ""
    check(repo)


def test_facts_hold_names_of_any_bytes(repo: Sandbox) -> None:
    name = os.path.join(os.fsencode(repo.path), b"\xff\n")
    with open(name, "wb") as file:
        file.write(b"x\n")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "odd")
    repo.run("git", "ls-files", "-z")
    subprocess.run([b"git", b"update-index", b"--assume-unchanged", b"\xff\n"], cwd=repo.path, check=True)
    assert flags(snap(repo)) == flags(snap(repo)) == {os.fsdecode(b"\xff\n"): "a"}


@pytest.mark.full
def test_t18_snapshots_side_by_side_leave_no_private_index(repo: Sandbox) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "gitbaton", "snapshot", "--track", f"t{number}", "--step", "s"],
            cwd=repo.path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for number in range(8)
    ]
    assert [(p.communicate()[1], p.returncode) for p in started] == [(b"", 0)] * 8
    assert list((repo.path / ".git/baton/tmp").iterdir()) == []
    wanted = expected_tree(repo)
    assert {repo.git("rev-parse", f"refs/baton/tracks/t{n}^{{tree}}") for n in range(8)} == {wanted}


def test_t24_an_edit_that_only_the_time_of_the_index_tells_of_is_seen(repo: Sandbox) -> None:
    """The file is as it was by size, times and number; git looks into it since the index is no newer."""
    file, then = repo.path / "a.txt", (1_767_225_600, 1_767_225_600)  # git compares whole seconds
    repo.git("config", "core.trustctime", "false")
    os.utime(file, then)
    repo.git("update-index", "--refresh")
    repo.write("a.txt", "two\n")
    for path in (file, repo.path / ".git/index"):
        os.utime(path, then)
    assert repo.git("show", f"{snap(repo).commit}:a.txt") == "two"


@pytest.mark.full
def test_t24_an_edit_in_the_second_of_git_add_is_seen(repo: Sandbox) -> None:
    for number in range(12):
        repo.write("a.txt", f"{number:04d} one\n")
        repo.git("add", "a.txt")
        repo.write("a.txt", f"{number:04d} two\n")
        stored = snap(repo)
        assert repo.git("show", f"{stored.commit}:a.txt") == f"{number:04d} two"


@pytest.mark.full
def test_t24_a_racy_edit_beside_another_change_is_seen(repo: Sandbox) -> None:
    for number in range(6):
        repo.write("a.txt", f"{number:04d} one\n")
        repo.git("add", "a.txt")
        repo.write("a.txt", f"{number:04d} two\n")
        repo.write("d/b.txt", f"{number}\n")
        check(repo)


def test_a_lock_that_a_killed_git_left_on_the_copy_is_in_nobodys_way(repo: Sandbox, tmp_path: Path) -> None:
    found = discover(str(repo.path), door="binary")
    index = PrivateIndex(found, found.layout.index, str(tmp_path / "copy"))
    index.copy()
    (tmp_path / "copy.lock").touch()
    assert index.write_tree() == repo.git("rev-parse", "HEAD^{tree}")
    found.close()
