"""A store in a program that runs for days: what is opened is closed, nothing piles up on the disk or among the processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pygit2
import pytest

from gitbaton.base.errors import GitError
from gitbaton.base.system.process import leave
from gitbaton.langgraph.threads.names import ref_of
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.commands import until
from tests.kit.moments import at
from tests.kit.threads import QUIET, put
from tests.kit.tiers import some
from tests.rooms.threads.test_threads_stuck import stuck

__all__ = ["stuck"]


@pytest.fixture
def limit() -> Iterator[None]:
    """How many packs libgit2 has open at a time is afterwards as it was."""
    before = pygit2.settings.mwindow_file_limit
    yield
    pygit2.settings.mwindow_file_limit = before


@pytest.mark.usefixtures("limit")
def test_packs_that_are_open_are_limited_and_who_set_their_number_keeps_it(bare: Sandbox) -> None:
    for given in (0, 7):
        pygit2.settings.mwindow_file_limit = given
        with bare.open(door="libgit2"):
            assert pygit2.settings.mwindow_file_limit == given or 0 == given < pygit2.settings.mwindow_file_limit < 500


def packs_open() -> int:
    """Packs, and what is left of them, that this process has open."""
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            found += "/objects/pack/" in os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:  # the folder that is being listed
            continue
    return found


def children() -> list[str]:
    """The states of our child processes."""
    said = subprocess.run(["ps", "-o", "pid=,stat=", "--ppid", str(os.getpid())], capture_output=True, text=True).stdout
    return [line.split()[1] for line in said.splitlines()]


@pytest.mark.full
@pytest.mark.usefixtures("limit")
@some("collects", [True, False])
def test_a_flush_leaves_no_file_open(bare: Sandbox, collects: bool) -> None:
    bare.git("config", "gc.auto", "6700" if collects else "0")
    before, pygit2.settings.mwindow_file_limit = packs_open(), 4
    with ThreadStore.open(bare.path, **QUIET) as store:
        for number in range(120):
            put(store, "t", f"{number:04}", f"{number - 1:04}" if number else None, channels={"c": ("bytes", b"%d" % number)})
            store.flush()
            if number % 40 == 39 and collects:
                until(lambda: len(list((bare.path / "objects/pack").glob("*.pack"))) < 40)
        assert packs_open() - before < 60
        assert [entry.id for entry in store.walk("t", "")] == [f"{number:04}" for number in range(119, -1, -1)]
        assert store.blob(next(store.walk("t", "")).channels["c"]) == ("bytes", b"119")
    bare.fsck()


@pytest.mark.full
def test_programs_that_nobody_waits_for_do_not_pile_up(tmp_path: Path) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    before = children().count("Z")
    for _ in range(5):
        ours, theirs = os.pipe()
        leave([sys.executable, "-c", ""], os.environ, null, theirs, null)
        os.close(theirs)
        assert os.read(ours, 1) == b""  # it has ended
        os.close(ours)
    os.close(null)
    assert children().count("Z") - before < 4


@pytest.mark.deep
def test_a_line_that_cannot_be_brought_writes_nothing_again_and_again(stuck: Sandbox) -> None:
    folder = stuck.path / "objects/pack"
    with ThreadStore.open(stuck.path, **QUIET) as store:
        put(store, "bad", "3", channels={"c": ("bytes", os.urandom(5000))})
        seen = set()
        for _ in range(4):
            with pytest.raises(GitError, match="thread 'bad'"):
                store.flush()
            seen.add(len(list(folder.glob("*.pack"))))
        put(store, "good", "1")
        with pytest.raises(GitError, match="thread 'bad'"):
            store.flush()
        assert stuck.git("rev-list", "--count", ref_of("good", "")) == "1" and len(seen) == 1
        store.delete("bad")


def test_a_log_that_never_rests_is_flushed_when_it_is_time(bare: Sandbox) -> None:
    flushes, main = threading.Event(), threading.main_thread()
    with (
        ThreadStore.open(bare.path, sync=False, every=1 << 20, idle=0.005) as store,
        at("fcntl.flock", lambda _: threading.current_thread() is not main, lambda _: flushes.set()),
    ):
        for number in range(10_000):  # these do not make it full
            put(store, "t", f"{number:06}")
            if flushes.is_set():
                break
        assert flushes.is_set()
