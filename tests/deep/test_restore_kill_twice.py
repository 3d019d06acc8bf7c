"""Restore killed in other places: the recovery itself, a linked work tree, the default and one path, with a conflict left."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.state import assert_same, snap, sound, stale_locks, state_of
from tests.kit.tiers import FULL
from tests.promises.test_restore_kill import RESTORE, Scene, driven, everything, names_of, run


def stride(some: int) -> int:
    return 1 if FULL else some


def test_t07_the_recovery_is_killed_too(repo: Sandbox) -> None:
    everything(repo)
    scene = Scene(repo)
    names = names_of(scene)
    twice = 0
    for at in range(1, len(names) + 1, stride(7)):
        for second in range(1, 200, stride(17)):
            scene.fresh()
            assert driven(repo, "named", at, scene.words).code == -signal.SIGKILL
            done = driven(repo, "event", second, ("status",))
            if done.code != -signal.SIGKILL:
                break
            twice += 1
            scene.check_recovery(second, f"killed at {names[at - 1]}, and its recovery at event {second}")
    assert twice > 3


def test_t07_killed_in_a_linked_work_tree(tmp_path: Path) -> None:
    repo = Sandbox.init(tmp_path / "top/repo")
    repo.commit("first", a_txt="one\n")
    linked = Sandbox(tmp_path / "top/linked")
    repo.git("worktree", "add", "-q", "-b", "side", str(linked.path))
    everything(linked)
    scene = Scene(linked, RESTORE, tmp_path / "top")
    at, seen = 1, set()
    main = state_of(repo).files
    while True:
        scene.fresh()
        done = driven(linked, "event", at, scene.words)
        if done.code == 0:
            break
        assert done.code == -signal.SIGKILL, done.err
        assert repo.baton("status").code == 0, "the other work tree is not disturbed"
        seen.add(scene.check_recovery(at, f"killed at event {at}"))
        assert state_of(repo).files == main
        at += stride(12)
    assert False in seen


@pytest.mark.parametrize(
    "words", [("restore", "goal"), ("restore", "goal", "--exact", "--", "d", "a.txt")], ids=["default", "paths"]
)
def test_t07_killed_without_the_whole_index(repo: Sandbox, words: tuple[str, ...]) -> None:
    everything(repo)
    shutil.rmtree(repo.path / "link")
    scene = Scene(repo, words)
    names = names_of(scene)
    for at in range(1, len(names) + 1, stride(2)):
        scene.fresh()
        assert driven(repo, "named", at, words).code == -signal.SIGKILL
        scene.check_recovery(at, f"killed at {names[at - 1]}")


def test_t07_killed_with_bytes_that_no_filter_gives_back(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "true")
    for number in range(3):
        repo.write(f"{number}.txt", b"x\r\nthen\n")
    snap(repo, "t", "s", "--label", "goal")
    for number in range(3):
        repo.write(f"{number}.txt", b"x\nnow\r\n")
    repo.write("0.txt", b"x\nthen\r\n")
    scene = Scene(repo)
    names = names_of(scene)
    for at in range(1, len(names) + 1, stride(2)):
        scene.fresh()
        assert driven(repo, "named", at, scene.words).code == -signal.SIGKILL
        scene.check_recovery(at, f"killed at {names[at - 1]}")


def test_t07_a_conflict_is_still_a_conflict_after_the_recovery(repo: Sandbox) -> None:
    repo.write("b.txt", "b\n")
    snap(repo, "t", "s", "--label", "goal")
    repo.write("b.txt", "A's work\n")
    snap(repo, "A", "s", "--no-set-current")
    repo.write("a.txt", "spoilt\n")
    before = state_of(repo)
    words = ("restore", "goal")
    at = 1
    while True:
        done = driven(repo, "named", at, words)
        if done.code == 1:
            break
        assert done.code == -signal.SIGKILL
        assert repo.baton("status").code == 0 and stale_locks(repo) == []
        now = state_of(repo)
        assert (repo.path / "b.txt").read_text() == "A's work\n"
        if now.files != before.files:
            repo.ok("undo")
        assert_same(before, state_of(repo), f"killed at step {at}")
        at += 1
    assert at >= 4
    sound(repo)


def test_t07_a_signal_that_asks_leaves_it_whole(repo: Sandbox) -> None:
    """Ctrl-C while files are written: the process ends in its own time, and the state is whole at once."""
    script = repo.path.parent / "smudge"
    script.write_text("#!/bin/sh\nkill -2 0\nexec cat\n")
    script.chmod(0o755)
    repo.write(".gitattributes", "*.k filter=k\n")
    for number in range(4):
        repo.write(f"{number}.k", "then\n")
    repo.commit("filtered")
    everything(repo)
    for number in range(4):
        repo.write(f"{number}.k", "now\n")
    scene = Scene(repo)
    scene.fresh()
    repo.git("config", "filter.k.smudge", os.fspath(script))
    done = run(repo, sys.executable, "-m", "gitbaton", *scene.words)
    assert done.code in (0, 1, 128, 130), f"{done.code}\n{done.err}"
    assert "Traceback" not in done.err
    repo.git("config", "--unset", "filter.k.smudge")
    repo.baton("status")
    assert state_of(repo).files in (scene.before.files, scene.after.files) and stale_locks(repo) == []
    sound(repo)
