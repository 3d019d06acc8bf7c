"""Restore out of room, and with a file of 16 MiB: on a full disk, against a limit, killed while it writes."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.killkit import Scene, driven, everything, names_of, run
from tests.kit.state import SAFETY, assert_same, snap, spoken, state_of
from tests.kit.tiers import FULL, full


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        os.chdir(tmp_path)
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path, leave: int) -> Path:
    """Leave so many bytes free."""
    found = os.statvfs(place)
    room = found.f_bavail * found.f_frsize
    assert room > leave
    filler = place / "filler"
    filler.write_bytes(b"x" * (room - leave))
    return filler


def full_of_noise(box: Sandbox) -> None:
    for number in range(16):
        box.write(f"{number}.bin", noise(number, 20_000))
    snap(box, "t", "s", "--label", "goal")
    for number in range(16):
        box.write(f"{number}.bin", noise(100 + number, 20_000))
    box.git("add", "3.bin")
    box.write("3.bin", noise(99, 20_000))


@pytest.mark.deep
def test_t07_the_disk_is_full_at_each_write(disk: Path) -> None:
    box = Sandbox.init(disk / "repo")
    full_of_noise(box)
    scene = Scene(box)
    some = (0, 4, 16, 64, 120, 200, 300, 360, 400, 480, 560, 700, 1400)
    kilobytes = range(0, 1412, 12) if FULL else some
    codes = []
    for turn, leave in enumerate(kilobytes):
        scene.fresh()
        filler = fill(disk, leave << 10)
        done = run(box, "-m", "gitbaton", *scene.words)
        codes.append(done.code)
        assert "Traceback" not in done.err and "this is a bug" not in done.err, done.err
        assert done.code == 0 or done.err, f"{leave}k: {done.code} without a word"
        filler.unlink()
        scene.check_recovery(turn, f"{leave}k free (exit {done.code}: {done.err.strip()})")
    assert codes[0] != 0 and codes[-1] == 0, codes


@pytest.mark.deep
def test_t07_what_a_full_disk_stops_says_what_was_not_written(disk: Path) -> None:
    box, told = Sandbox.init(disk / "repo"), set[str]()
    full_of_noise(box)
    snap(box, "t", "s")
    lines = ("snapshot --step n", "snapshot --no-files --step n", "pin t", "tracks rename t u", "prune --keep-last 1 --yes")
    for leave in range(0, 84, 12):
        for words in lines:
            filler = fill(disk, leave << 10)
            done = box.baton(*words.split())
            filler.unlink()
            if done.code == 0:
                break
            assert done.code == 128 and " torn" not in done.err and "doctor" not in done.err, f"{words}, {leave}k: {done.err}"
            first = done.err.splitlines()[0]
            assert re.match(r"fatal: .+: .*( space|diskspace|unable to write|couldn't write)", first), (words, leave, first)
            told.add(words)
    assert told >= {*lines[:3]}


@pytest.mark.deep
def test_t07_recovery_on_a_full_disk_loses_nothing(disk: Path) -> None:
    box = Sandbox.init(disk / "repo")
    full_of_noise(box)
    scene = Scene(box)
    for at in range(1, len(names_of(scene)) + 1, 2):
        scene.fresh()
        assert driven(box, "named", at, scene.words).code == -signal.SIGKILL
        filler = fill(disk, 0)
        box.baton("status")
        filler.unlink()
        scene.check_recovery(0, f"killed at step {at}, then no room")


@pytest.mark.deep
@pytest.mark.parametrize("size", [full(1 << 10), 16 << 10, full(1 << 20), 8 << 20], ids=["1k", "16k", "1m", "8m"])
def test_t07_a_file_of_16_mib_meets_a_limit(repo: Sandbox, size: int) -> None:
    """RLIMIT_FSIZE cuts the writing of the file in the midst, in whichever process writes it."""
    big_file(repo)
    scene = Scene(repo)
    scene.fresh()
    done = driven(repo, "limit", size, scene.words)
    assert done.code != 0 and "Traceback" not in done.err, done.err
    if done.code != 1:
        scene.check_recovery(size, f"a limit of {size} (exit {done.code}: {done.err.strip()})")
        return
    assert spoken(done)["big.bin"] == "refuse", "what does not fit into a safety checkpoint is refused; the rest is not"
    now, key = state_of(repo), "big.bin"
    assert now.files == {**scene.after.files, key: scene.before.files[key]}
    repo.ok("undo")
    assert_same(scene.before, state_of(repo), "undone")


def big_file(repo: Sandbox) -> None:
    repo.git("config", "core.compression", "0")  # what it holds cannot be made smaller, and trying takes seconds
    (repo.path / "big.bin").write_bytes(noise(1, 1 << 20) * 16)
    everything(repo)
    (repo.path / "big.bin").write_bytes(noise(2, 1 << 20) * 16)
    repo.write("c.txt", "spoilt, too\n")


@pytest.mark.deep
def test_t07_killed_while_a_file_of_16_mib_is_written(repo: Sandbox) -> None:
    big_file(repo)
    scene = Scene(repo)
    for turn in range(12 if FULL else 3):
        scene.fresh()
        child = subprocess.Popen(
            [sys.executable, "-m", "gitbaton", *scene.words],
            cwd=repo.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_until_it_writes(repo, child, turn)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        time.sleep(0.02)
        scene.check_recovery(turn, f"killed at moment {turn}")


def wait_until_it_writes(repo: Sandbox, child: subprocess.Popen[bytes], turn: int) -> None:
    """Until the safety checkpoint is there, or the process is over; then a moment more each turn."""
    ref = repo.path / ".git" / SAFETY
    old = ref.read_text() if ref.exists() else ""
    while child.poll() is None and (ref.read_text() if ref.exists() else "") == old:
        time.sleep(0.001)
    time.sleep(turn / 100)
