"""Commands that are killed, interrupted, or lose their git, each by a real signal at a known moment."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.killkit import DRIVER, MERGE, REVERT, Scene, age_locks, apart, driven, everything, killed, run, turned
from tests.kit.processes import chain, locks
from tests.kit.state import sound, stale_locks
from tests.kit.tiers import first

SMUDGE = """#!/bin/sh
# The third file ends git, or presses Ctrl-C.
count=$(($(cat "$COUNT") + 1))
echo $count >"$COUNT"
[ $count != 3 ] || case $HOW in
git) kill -9 $PPID ;;
keys) kill -2 0 ;;
esac
exec cat
"""


def test_a_snapshot_that_is_killed_is_not_there_and_the_next_one_is(repo: Sandbox) -> None:
    """What it leaves at each moment: ``deep/test_cut_short.py``."""
    repo.ok("snapshot", "--track", "t", "--step", "old")
    repo.write("b.txt", "work in progress\n")
    assert killed(repo, ["-c", DRIVER, "20", "snapshot", "--track", "t", "--step", "new"])
    assert [record["step"] for record in chain(repo, "t")] in (["old"], ["old", "new"])
    age_locks(repo)
    repo.ok("snapshot", "--track", "t", "--step", "next")
    assert chain(repo, "t")[-1]["step"] == "next" and locks(repo) == []
    assert repo.git("show", "refs/baton/tracks/t:b.txt") == "work in progress"
    repo.fsck()


@pytest.mark.parametrize("step", first([5, 1, 3]))
def test_a_restore_that_is_killed_is_ended_by_the_next_command(repo: Sandbox, step: int) -> None:
    everything(repo)
    scene = Scene(repo)
    scene.fresh()
    assert driven(repo, "named", step, scene.words).code == -signal.SIGKILL
    scene.check_recovery(step, f"killed at its step {step}")


@pytest.mark.parametrize("step", first([7, 1, 2, 3, 4, 5, 6, 8, 9], share={1, 3, 5, 9}))
def test_a_revert_that_is_killed_is_ended_by_the_next_command(repo: Sandbox, step: int) -> None:
    turned(repo)
    scene = Scene(repo, REVERT)
    scene.fresh()
    assert driven(repo, "named", step, scene.words).code == -signal.SIGKILL
    scene.check_recovery(step, f"killed at its step {step}")


@pytest.mark.parametrize("step", first([4, 1, 2, 3, 5], share={1, 5}))
def test_a_merge_that_is_killed_is_ended_by_the_next_command(repo: Sandbox, step: int) -> None:
    apart(repo)
    scene = Scene(repo, MERGE)
    scene.fresh()
    assert driven(repo, "named", step, scene.words).code == -signal.SIGKILL
    scene.check_recovery(step, f"killed at its step {step}")


@pytest.fixture
def filtered(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Files that go through a filter, which may do harm while they are written."""
    script, counter = tmp_path / "smudge", tmp_path / "count"
    script.write_text(SMUDGE)
    script.chmod(0o755)
    monkeypatch.setenv("COUNT", os.fspath(counter))
    repo.git("config", "filter.k.smudge", os.fspath(script))
    repo.git("config", "filter.k.clean", "cat")
    repo.write(".gitattributes", "*.k filter=k\n")
    for number in range(4):
        repo.write(f"{number}.k", "then\n")
    counter.write_text("0\n")
    repo.commit("filtered")
    everything(repo)
    for number in range(4):
        repo.write(f"{number}.k", "now\n")
    scene = Scene(repo)
    scene.fresh()
    counter.write_text("0\n")
    return scene


@pytest.mark.deep
def test_a_restore_whose_git_is_killed_in_the_midst_of_writing_is_whole_or_undone(filtered: Scene) -> None:
    done = run(filtered.repo, "-m", "gitbaton", *filtered.words, env={"HOW": "git"})
    assert int(Path(os.environ["COUNT"]).read_text()) >= 3
    assert filtered.check_recovery(0, f"git killed: {done.err}") or done.code != 0


@pytest.mark.deep
def test_a_restore_that_is_interrupted_in_the_midst_is_whole_at_once(filtered: Scene) -> None:
    """Ctrl-C while files are written: the process ends in its own time."""
    done = run(filtered.repo, "-m", "gitbaton", *filtered.words, env={"HOW": "keys"})
    assert int(Path(os.environ["COUNT"]).read_text()) >= 3
    assert done.code in (0, 1, 128, 130), f"{done.code}\n{done.err}"
    assert "Traceback" not in done.err
    filtered.repo.baton("status")
    assert not filtered.torn() and stale_locks(filtered.repo) == []
    sound(filtered.repo)


def test_what_killed_processes_left_goes_after_an_hour(repo: Sandbox) -> None:
    folder = repo.path / ".git/baton/tmp"
    old, young = folder / "4194305.1", folder / "2.2"  # no process has so large a number
    alive = folder / f"{os.getpid()}.3"  # of a run, whose step may take longer
    for place, seconds in ((old, 3700), (young, 60), (alive, 3700)):
        place.mkdir(parents=True)
        (place / "index.0").write_bytes(b"x")
        os.utime(place, (time.time() - seconds, time.time() - seconds))
    repo.ok("snapshot", "--track", "t", "--step", "s")
    assert {*folder.iterdir()} == {young, alive}
