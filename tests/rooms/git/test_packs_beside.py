"""Packs beside git and other processes: nothing is lost while git collects, a writer is killed or the disk is full."""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from gitbaton.base.errors import GitError
from gitbaton.git.objects import RefChange
from gitbaton.git.publish import remove_stale
from tests.kit import Sandbox, examples
from tests.kit.moments import always, at
from tests.kit.packkit import (
    New,
    blobs,
    commits,
    folder,
    judged,
    missing,
    names,
    oid_of,
    opened,
    read_all,
    trees,
    use_new_git,
    write,
)
from tests.kit.processes import in_child
from tests.kit.tiers import some


def busy(commands: Sequence[Sequence[str]], repo: Sandbox, stop: threading.Event) -> None:
    """Git at work all the time; two of its commands may well make each other fail."""
    while not stop.is_set():
        for command in commands:
            repo.try_git(*command)


@pytest.mark.full
@some("newer", [False, True])
def test_git_collects_and_packs_beside_us(
    tmp_path: Path, newer: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if newer:
        use_new_git(request, monkeypatch)
    repo = Sandbox.init(tmp_path / "repo", "--bare")
    store, stop = opened(repo), threading.Event()
    packing = (("repack", "-adq"), ("gc", "-q", "--prune=now"), ("repack", "-dq", "--geometric=2"))
    pruning = (("prune", "--expire=now"), ("pack-refs", "--all"))
    others = [threading.Thread(target=busy, args=(c, repo, stop)) for c in (packing, pruning)]
    for other in others:
        other.start()
    written: list[New] = []
    reader = opened(repo, cache=0)
    tip: bytes | None = None
    end = time.monotonic() + examples(20, 1)
    try:
        while time.monotonic() < end or len(written) <= 100:
            made = trees(store, 3, len(written) // 10)
            made += commits(store, made, tip)
            with store.written(made):
                old, tip = tip, made[-1][1]
                store.repo.objects.update([_moved(tip, old)])
            written += made
            read_all(reader, written[:: max(1, len(written) // 40)])
    finally:
        stop.set()
        for other in others:
            other.join()
    assert names(repo, ".keep") == [] and not any(re.match("tmp_[a-z]+_[0-9a-f]{12}$", n) for n in names(repo, ""))
    repo.git("gc", "-q", "--prune=now")
    judged(repo, written)
    read_all(reader, written)
    for item in (reader, store):
        item.close()


def _moved(new: bytes, old: bytes | None) -> RefChange:
    return RefChange(name="refs/baton/threads/t/_", new=new.hex(), old=old.hex() if old else None)


@pytest.mark.deep
@pytest.mark.parametrize("newer", [False, True])
def test_past_many_packs_git_makes_fewer_of_them(
    tmp_path: Path, newer: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if newer:
        use_new_git(request, monkeypatch)
    repo = Sandbox.init(tmp_path / "repo", "--bare")
    store, reader = opened(repo), opened(repo, cache=0)
    keeping = store.written(written := blobs(store, [b"0" * 9]))
    keeping.__enter__()
    for number in range(1, 34):
        made = blobs(store, [b"%d" % number * 9])
        write(store, made)
        written += made
        assert store.tidy() == (number == 33)
        read_all(reader, made)
    during = blobs(store, [b"during"])
    also = store.written(during)
    also.__enter__()
    lock = os.path.join(store.repo.shared_dir, "repacking")
    with store.repo.lock((), of="repacking"):
        assert os.path.exists(lock)
    assert len(names(repo, ".pack")) == 3 and len(names(repo, ".keep")) == 2
    fresh = opened(repo)
    for item in (store, reader, fresh):
        read_all(item, written + during)
    judged(repo, written + during)
    for block in (keeping, also):
        block.__exit__(None, None, None)
    for item in (store, reader, fresh):
        item.close()
    assert names(repo, ".keep") == []


def test_not_while_git_collects_nor_twice_at_once(repo: Sandbox) -> None:
    store = opened(repo)
    for number in range(33):
        write(store, blobs(store, [b"%d" % number]))
    (repo.path / ".git/gc.pid").write_text("1 here\n")
    assert not store.tidy()
    os.utime(repo.path / ".git/gc.pid", (1, 1))
    with store.repo.lock((), of="repacking"):
        assert not store.tidy()
    assert store.tidy()
    with store.repo.lock((), of="repacking"):
        assert len(names(repo, ".pack")) == 1
    store.close()


# -- processes that end, and disks that are full -----------------------------------------------------------------------------


@pytest.mark.deep
@some("many", [False, True], share=0)
def test_killed_at_every_step_nothing_stays_but_what_git_removes(tmp_path: Path, many: bool) -> None:
    repo = Sandbox.init(tmp_path / "repo", "--bare")
    store = opened(repo)
    made = trees(store, 20 if many else 2)

    def killed_at(step: int) -> int:
        left = [step]

        def count(_: object) -> None:
            left[0] -= 1
            if not left[0]:
                os._exit(9)

        def work() -> None:
            with ExitStack() as stack:
                for event in ("open", "os.rename", "os.mkdir", "os.remove", "os.posix_spawn"):
                    stack.enter_context(at(event, lambda args: str(repo.path) in repr(args), count))
                write(store, made)

        return in_child(work)

    step, ends = 1, []
    while (code := killed_at(step)) == 9:
        ends.append(tuple(sorted(path.suffix for path in folder(repo).iterdir() if path.suffix)))
        repo.fsck()
        for path in (*folder(repo).iterdir(), *(repo.path / "baton/tmp").glob("*")):
            os.utime(path, (time.time() - 7200,) * 2)  # nobody can be at work there any more
        remove_stale(store.repo)
        assert names(repo, ".keep") == [] and len(names(repo, ".pack")) == len(names(repo, ".idx"))
        assert list((repo.path / "baton/tmp").glob("*")) == []
        step += 1
    assert code == 0 and step > 9 and (".keep", ".pack") in ends
    repo.git("gc", "-q", "--prune=now")
    assert [path.name for path in folder(repo).iterdir()] == []
    store.close()


def test_what_another_process_keeps_stays_while_it_runs(repo: Sandbox) -> None:
    store = opened(repo)
    with store.written(blobs(store, [b"x"])):
        (ours,) = names(repo, ".keep")
        (folder(repo) / "pack-1.keep").write_text("a user's reason")
        for name in (ours, "pack-1.keep"):
            os.utime(folder(repo) / name, (1, 1))
        (folder(repo) / "pack-2.keep").write_text("gitbaton 1 2.3 pid:[4]\n")
        opened(repo).tidy()
        assert len(names(repo, ".keep")) == 3
        os.utime(folder(repo) / "pack-2.keep", (1, 1))
        opened(repo).tidy()
        assert names(repo, ".keep") == sorted((ours, "pack-1.keep"))
    store.close()


def test_a_forked_child_has_packs_of_its_own(tmp_path: Path) -> None:
    """Also when another thread is in the midst of a read at that moment."""
    repo = Sandbox.init(tmp_path / "repo", "--object-format=sha256")
    store, other = opened(repo, cache=0), opened(repo, cache=0)
    mine = blobs(store, [b"mine"])
    keeping = store.written(mine)
    keeping.__enter__()
    read_all(store, mine)  # its process of git's runs now
    begun, go_on = threading.Event(), threading.Event()
    reader = threading.Thread(target=read_all, args=(other, mine))

    def wait(_: object) -> None:
        begun.set()
        go_on.wait()

    def work() -> None:
        theirs = blobs(store, [b"theirs"])
        write(store, theirs)
        for item in (store, other):
            read_all(item, mine + theirs)
            item.close()

    with at("os.posix_spawn", lambda _: threading.current_thread() is reader, wait):
        reader.start()
        begun.wait()
        try:
            assert in_child(work) == 0
        finally:
            go_on.set()
            reader.join()
    assert len(names(repo, ".keep")) == 1
    read_all(other, [*mine, ("blob", oid_of(store, "blob", b"theirs"), b"theirs")])
    other.close()
    keeping.__exit__(None, None, None)
    store.close()
    assert names(repo, ".keep") == []


@pytest.mark.parametrize("count", [3, 40])
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    repo = Sandbox.init(tmp_path / "repo", "--bare")
    store = opened(repo)
    made = trees(store, count)

    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with (
        at("os.rename", lambda args: str(args[1]).endswith(".idx"), full),
        pytest.raises(GitError, match="a pack cannot be written: No space left on device"),
    ):
        write(store, made)
    assert [path for path in folder(repo).iterdir() if path.suffix == ".idx"] == []
    with pytest.raises(GitError):
        store.read(made[0][1])
    monkeypatch.setenv("PATH", str(_full_git(tmp_path)) + os.pathsep + os.environ["PATH"])
    full_store = opened(repo)
    with pytest.raises(GitError, match=r"a pack cannot be written: .*No space left on device"):
        write(full_store, made)
    monkeypatch.undo()
    assert list((repo.path / "baton/tmp").iterdir()) == []
    write(store, made)
    read_all(store, made)
    store.close()


def _full_git(place: Path) -> Path:
    """A folder with a git whose disk is full when it packs."""
    said = "echo 'fatal: write error: No space left on device' >&2; exit 128"
    made = place / "bin" / "git"
    made.parent.mkdir()
    made.write_text(f'#!/bin/sh\ncase " $* " in *" pack-objects "*) {said};; esac\nexec {shutil.which("git")} "$@"\n')
    made.chmod(0o755)
    return made.parent


@pytest.mark.parametrize("count", [3, 40])
def test_git_takes_away_what_is_under_way(repo: Sandbox, count: int) -> None:
    store, pruned = opened(repo), list[str]()
    made = trees(store, count)

    def prune(args: Sequence[object] = ("",)) -> None:
        pruned.append(str(args[0]))
        repo.git("prune", "--expire=now")

    with at("os.rename", always, prune), store.written(made):
        prune()
        judged(repo, made)
    assert len(pruned) > 2
    store.close()


@pytest.mark.deep
def test_many_threads_write_and_read(repo: Sandbox) -> None:
    store, wrong = opened(repo, cache=1 << 16), []

    def work(number: int) -> None:
        try:
            for turn in range(3):
                made = trees(store, 4, 50 * number + 10 * turn)
                with store.written(made):
                    read_all(store, made)
                assert missing(store, [oid for _, oid, _ in made]) == set()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and names(repo, ".keep") == [] and len(names(repo, ".pack")) == 12
    repo.fsck()
    store.close()
