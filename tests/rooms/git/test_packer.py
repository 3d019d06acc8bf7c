"""Packs that a process beside ours makes: the same packs, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gitbaton.git import packer as module
from gitbaton.git.packer import Packer
from gitbaton.git.packfile import Packing
from gitbaton.threads import store as storing
from gitbaton.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.packkit import New, blobs, folder, judged, opened, read_all, trees
from tests.kit.tiers import some

pytestmark = pytest.mark.skipif(not Packer.possible(), reason="there is one processor only")


def ended(pid: int) -> bool:
    """Whether a process is gone within some seconds; one that nobody has waited for is gone, too."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def objects(repo: Sandbox) -> list[New]:
    store = opened(repo)
    made = trees(store, 20) + blobs(store, [b"", b"x", os.urandom(3_000_000), b"y" * 100_000])
    store.close()
    return made


@pytest.mark.deep
def test_the_same_pack_is_made_again_and_again(repo: Sandbox) -> None:
    packer, made = Packer(), objects(repo)
    for _ in range(2):
        pack = packer.pack("sha1", [made])
        assert pack is not None
        here = Packing("sha1", made)
        assert b"".join(pack.parts()) == b"".join(here.parts())
        assert pack.index() == here.index() and pack.offsets == here.offsets
    pid = packer._pid
    packer.close()
    packer.close()
    assert packer.pack("sha1", [made]) is None  # who had it in hand begins no process that nobody would end
    assert not packer._pid
    assert ended(pid)


@pytest.mark.deep
def test_objects_that_come_in_parts_make_the_same_pack_and_more_than_fit_make_none(
    repo: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    packer, made, taken = Packer(), objects(repo), list[New]()

    def parts(size: int) -> Iterator[list[New]]:
        for at in range(0, len(made), size):
            taken.extend(made[at : at + size])
            yield [*made[at : at + size], made[0]]

    whole = b"".join(Packing("sha1", made).parts())
    for size in (1, 7):
        pack = packer.pack("sha1", parts(size))
        assert pack is not None and b"".join(pack.parts()) == whole
    taken.clear()
    monkeypatch.setattr(module, "_MOST", 100_000)
    assert packer.pack("sha1", parts(5)) is None and taken == made, "all are taken, for whoever makes the pack"
    monkeypatch.undo()
    assert packer.pack("sha1", parts(5)) is not None
    packer.close()


def test_what_the_objects_raise_is_raised_and_the_next_pack_is_whole(repo: Sandbox) -> None:
    store, made = opened(repo), objects(repo)
    store.hurry(True)

    def broken() -> Iterator[New]:
        yield from made[:60]
        raise ValueError("no more")

    before = sorted(os.listdir(folder(repo)))
    with pytest.raises(ValueError, match="no more"):
        store.write(broken())
    assert sorted(os.listdir(folder(repo))) == before
    store.write(made).release()
    judged(repo, made)
    store.close()


def test_git_reads_what_it_makes_and_it_goes_when_there_is_no_hurry(repo: Sandbox) -> None:
    store, made = opened(repo), objects(repo)
    store.hurry(True)
    store.write(made[:10]).release()
    packer = store._packer
    assert packer is not None and packer._pid
    pid = packer._pid
    store.hurry(True)
    kept = store.write(made)
    assert store._packer is packer and packer._pid == pid
    judged(repo, made)
    read_all(store, made)
    kept.release()
    store.hurry(False)
    assert ended(pid)
    store.close()


@some("how", ["killed", "hangs", "never begins", "says nonsense"])
def test_without_an_answer_the_pack_is_made_here(repo: Sandbox, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    store, made = opened(repo), objects(repo)
    if how == "never begins":
        monkeypatch.setattr(module, "_CODE", "raise SystemExit({!r})")
    elif how == "says nonsense":
        monkeypatch.setattr(module, "_CODE", "import sys, time; print('0' * 7 * 8, {!r}, flush=True); time.sleep(60)")
        monkeypatch.setattr(module, "_TIMEOUT", 0.2)
    store.hurry(True)
    packer = store._packer
    assert packer is not None
    if how in ("killed", "hangs"):
        assert packer.pack("sha1", [made]) is not None
        os.kill(packer._pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        monkeypatch.setattr(module, "_TIMEOUT", 0.2)
    pid = packer._pid
    store.write(made).release()
    judged(repo, made)
    read_all(store, made)
    assert packer._pid == 0 and (not pid or ended(pid))
    store.close()


def test_it_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    code = "import time; from gitbaton.git.packer import Packer; p = Packer(); p.pack('sha1', []); print(p._pid, flush=True)"
    child = subprocess.Popen([sys.executable, "-c", f"{code}; time.sleep(60)"], stdout=subprocess.PIPE, cwd=tmp_path)
    assert child.stdout is not None
    pid = int(child.stdout.readline())
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert ended(pid)


def test_a_forked_child_leaves_it_to_the_parent(repo: Sandbox) -> None:
    store, made = opened(repo), objects(repo)
    store.hurry(True)
    store.write(made[:5]).release()
    packer = store._packer
    assert packer is not None
    pid = os.fork()
    if pid == 0:
        store.close()
        os._exit(0 if store._packer is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert packer.pack("sha1", [made]) is not None
    packer.close()
    store.close()


@pytest.mark.parametrize("name", ["", "/usr/sbin/uwsgi", "/opt/app/agent"])
def test_only_a_python_is_started(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(sys, "executable", name)
    assert not Packer.possible()


def test_not_on_one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert not Packer.possible()


def waited(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not what() and time.monotonic() < deadline:
        time.sleep(0.01)
    return what()


@pytest.mark.deep
def test_a_store_that_is_filled_fast_has_one_until_it_rests(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "_BUSY", 0.2)
    with ThreadStore.open(bare.path, sync=False, every=8, idle=0.05) as store:
        packs, number = store._core.shelf.packs, 0

        def put() -> bool:
            nonlocal number
            number += 1
            store.put("t", "", f"{number:08}", None, b'{"id":"1"}', b"{}", {"c": ("bytes", b"%d" % number)})
            return packs._packer is not None

        assert waited(put)
        assert waited(lambda: packs._packer is None)
        store.flush()
        assert len(list(store.walk("t", ""))) == number
    assert bare.git("fsck", "--strict") == ""


def test_a_log_that_is_filled_fast_has_one_before_it_is_full(bare: Sandbox) -> None:
    with ThreadStore.open(bare.path, sync=False, every=1000, idle=2) as store:
        for number in range(300):
            store.put("t", "", f"{number:08}", None, b'{"id":"1"}', b"{}", {"c": ("bytes", b"%d" % number)})
        packs = store._core.shelf.packs
        assert waited(lambda: packs._packer is not None and packs._packer._pid > 0)
        store.flush()
        assert len(list(store.walk("t", ""))) == 300
    assert bare.git("fsck", "--strict") == ""


def test_a_store_that_is_filled_slowly_has_none(bare: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[object] = []
    monkeypatch.setattr(Packer, "_begin", began.append)
    with ThreadStore.open(bare.path, sync=False, every=1000, idle=0.02) as store:
        for number in range(5):
            store.put("t", "", f"{number}", None, b'{"id":"1"}', b"{}", {})
            time.sleep(0.06)
    assert began == [] and bare.git("rev-list", "--count", "refs/baton/threads/=t/_") == "5"
