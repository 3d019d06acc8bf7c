"""Logs that versions before left: taken in once and whole, never while such a version is at work."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitbaton.base.errors import GitError
from gitbaton.langgraph.threads import logfile
from gitbaton.langgraph.threads.health import waiting
from gitbaton.langgraph.threads.names import ref_of
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.places import unpacked
from tests.kit.processes import in_child
from tests.kit.threads import QUIET, left_open, put, refused, values

DATA = Path(__file__).parents[2] / "data" / "logs"
LEFT = sorted(path.name.removesuffix(".tar.xz") for path in DATA.glob("*.tar.xz"))


@pytest.fixture(params=LEFT)
def left(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A repository with the log of a version before, whose saver was killed, or in the middle of a flush."""
    unpacked(DATA / f"{request.param}.tar.xz", tmp_path)
    yield Sandbox(tmp_path / "r.git")


def whole(store: ThreadStore) -> None:
    """All that was acknowledged is there."""
    entries = list(store.walk("t", ""))
    assert [entry.id for entry in entries] == [f"{number:02}" for number in range(11, -1, -1)]
    for entry in entries:
        assert values(store, entry)["c"] == ("str", b"value %d" % int(entry.id))
        assert values(store, entry)["big"] == ("str", b"x" * 500)
        assert [row[5] for row in store.rows("t", "", entry)] == [b"write %d" % int(entry.id)]


def test_there_are_logs_of_both_kinds() -> None:
    assert len(LEFT) == 4 and {name.partition("-")[2] for name in LEFT} == {"killed", "midway"}


def test_it_is_taken_in_whole_and_once(left: Sandbox) -> None:
    folder = left.path / "baton/wal"
    assert logfile.old_names(str(folder)) and waiting(str(folder)) > 10
    with ThreadStore.open(left.path, **QUIET) as store:
        assert logfile.old_names(str(folder)) == [] and waiting(str(folder)) > 10
        with ThreadStore.open(left.path, **QUIET) as other:
            whole(other)
        whole(store)
        put(store, "t", "12", "11")
        store.delete("gone")
    assert not folder.exists() and left.git("rev-list", "--count", ref_of("t", "")) == "13"
    left.fsck()


@pytest.mark.full
def test_cut_short_at_any_step_it_is_taken_in_whole(left: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    step = 0

    def cut_short() -> None:
        count = [step]
        for name in ("pwrite", "fsync", "unlink", "rename"):
            monkeypatch.setattr(os, name, _deadly(getattr(os, name), count))
        left_open(left.path)

    while (code := in_child(cut_short)) == 9:
        step += 1
    assert code == 0 and step > 4 and logfile.old_names(str(left.path / "baton/wal")) == []
    with ThreadStore.open(left.path, **QUIET) as store:
        whole(store)
        store.flush()
        whole(store)
    left.fsck()


def _deadly(real: object, count: list[int]) -> object:
    def call(*args: object, **named: object) -> object:
        count[0] -= 1
        if count[0] < 0:
            os._exit(9)
        return real(*args, **named)  # type: ignore[operator]

    return call


def test_an_older_version_that_is_at_work_is_named_and_nothing_is_touched(left: Sandbox) -> None:
    folder = left.path / "baton/wal"
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith("seg-")}
    code = (
        "import fcntl, os, sys; f = os.open(sys.argv[1], os.O_RDWR); fcntl.flock(f, fcntl.LOCK_SH); print(); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code, str(folder / "state")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as living:
        assert living.stdin is not None and living.stdout is not None
        living.stdout.readline()
        who = str(living.pid) if os.path.exists("/proc/locks") else "."
        with pytest.raises(GitError, match=rf"{who} of an older gitbaton has the threads in .* open; end it first"):
            ThreadStore.open(left.path, **QUIET)
        assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith("seg-")} == before
        living.stdin.close()
    with ThreadStore.open(left.path, **QUIET) as store:
        whole(store)


def test_no_older_version_gets_in_beside_us(bare: Sandbox) -> None:
    """It locks the file `users` alone while it opens or closes its log."""
    with ThreadStore.open(bare.path, **QUIET) as store:
        put(store, "t", "1")
        fd = os.open(bare.path / "baton/wal/users", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(fd)


def test_who_may_not_write_reads_it(left: Sandbox) -> None:
    with refused(left.path):
        reader = ThreadStore.open(left.path, **QUIET)
        whole(reader)
    with reader, ThreadStore.open(left.path, **QUIET) as store:
        whole(store)
        whole(reader)
        put(store, "t", "12", "11")
        newest = reader.latest("t", "")
        assert newest is not None and newest.id == "12"
