"""What is put stands in the log of threads until git has it: who sees it, and what is left in a bad hour: forks, kills, a full
disk, one that fails, no permission to write, files that others scribbled on."""

from __future__ import annotations

import os
import random
import resource
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest

from gitbaton.base.errors import BatonError, GitError
from gitbaton.langgraph.threads.names import ref_of
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox, examples
from tests.kit.commands import until
from tests.kit.hurry import hurry
from tests.kit.moments import at
from tests.kit.threads import (
    QUIET,
    below,
    git_called,
    ids,
    in_log,
    killed,
    left_open,
    log_of,
    numbered,
    put,
    refused,
    unprivileged,
    values,
    with_disk,
)

REF = ref_of("t", "")
DURABLE = {**QUIET, "sync": True}


@pytest.fixture
def other(bare: Sandbox) -> Iterator[ThreadStore]:
    """A store that has the log open beside the first, as another process would."""
    with ThreadStore.open(bare.path, **QUIET) as opened:
        yield opened


# ---- who sees what


def test_who_was_away_while_others_put_and_flushed_sees_what_is_there(store: ThreadStore, other: ThreadStore) -> None:
    put(store, "t", "0", channels={"c": ("bytes", b"b" * 300_000)})
    assert values(other, next(other.walk("t", "")))["c"] == ("bytes", b"b" * 300_000)
    for number in range(1, 4):
        put(store, "t", f"{number}")
        store.flush()
        put(store, "t", f"{number}a")
    assert ids(other) == ["3a", "3", "2a", "2", "1a", "1", "0"]


@pytest.mark.parametrize("command", ["pack-objects", "update-ref"])
def test_what_is_put_while_another_flushes_stays(bare: Sandbox, store: ThreadStore, other: ThreadStore, command: str) -> None:
    """Whoever puts does not wait for who flushes; a second one who flushes does, and not for ever."""
    numbered(store, 3)
    met = list[int]()

    def beside(_: object) -> None:
        met.append(1)
        numbered(other, 2, start=3)
        with pytest.MonkeyPatch.context() as patch:
            hurry(patch, pace=1000)
            with pytest.raises(GitError, match="the threads are being written to git by another process"):
                other.flush()

    with at("os.posix_spawn", git_called(command), beside):
        store.flush()
    assert met == [1] and bare.git("rev-list", "--count", REF) == "3"
    assert ids(store) == ids(other) == ["004", "003", "002", "001", "000"]
    other.flush()
    assert bare.git("rev-list", "--count", REF) == "5" and in_log(bare.path) == 0


def test_waiting_for_the_log_has_an_end_and_a_forked_child_lets_go_of_no_lock(
    bare: Sandbox, store: ThreadStore, other: ThreadStore
) -> None:
    """While another process, or the parent, is in the middle of something: also one that leaves that."""
    put(other, "t", "1")

    class Child(Exception):
        pass

    def beside(_: object) -> None:
        for each in (other, store):
            killed(lambda each=each: refuse(each))  # type: ignore[misc]
        child = os.fork()
        if not child:
            raise Child
        assert os.waitpid(child, 0)[1] == 0
        refuse(other)

    def refuse(each: ThreadStore) -> None:
        with pytest.MonkeyPatch.context() as patch:
            hurry(patch, pace=1000)
            with pytest.raises(GitError, match="the log of threads is locked by another process"):
                put(each, "t", "2")

    try:
        with at("open", below(log_of(bare.path)), beside):  # it looks at the log, locked
            assert ids(store) == ["1"]
    except Child:
        os._exit(0)
    put(other, "t", "2")
    assert ids(store) == ["2", "1"]


# ---- who comes and goes


def test_the_last_one_flushes_and_nothing_is_left(bare: Sandbox) -> None:
    one, two = ThreadStore.open(bare.path, **QUIET), ThreadStore.open(bare.path, **QUIET)
    put(one, "t", "1")
    killed(lambda: put(left_open(bare.path), "t", "2"))  # who was killed is not waited for
    one.close()
    one.close()
    assert in_log(bare.path) == 2 and not bare.git("for-each-ref")
    assert ids(two) == ["2", "1"]
    two.close()
    assert not log_of(bare.path).exists() and bare.git("rev-list", "--count", REF) == "2"


@pytest.mark.parametrize("flushed", [True, False])
def test_a_log_that_was_removed_with_its_repository_does_not_come_back(bare: Sandbox, tmp_path: Path, *, flushed: bool) -> None:
    store = ThreadStore.open(bare.path, **QUIET)
    put(store, "t", "1")
    if flushed:
        store.flush()
    bare.path.rename(tmp_path / "away.git")
    with nullcontext() if flushed else pytest.raises(GitError):
        store.close()
    assert not (bare.path if flushed else log_of(bare.path)).exists()
    with ThreadStore.open(tmp_path / "away.git", **QUIET) as store:
        assert ids(store) == ["1"]


def test_who_comes_while_the_last_one_goes_begins_anew(bare: Sandbox) -> None:
    opened, asked = list[ThreadStore](), threading.Event()
    late = threading.Thread(target=lambda: opened.append(ThreadStore.open(bare.path, **QUIET)))

    def come(_: object) -> None:
        if late.ident is None:
            late.start()
            assert asked.wait(60)

    def tried(_: object) -> None:
        asked.set()

    first = ThreadStore.open(bare.path, **QUIET)
    put(first, "t", "1")
    with (
        at("fcntl.flock", lambda _: threading.current_thread() is late, tried),
        at("os.remove", below(log_of(bare.path)), come),
    ):
        first.close()
        late.join()
    with ThreadStore.open(bare.path, **QUIET) as second:
        put(opened[0], "t", "2")
        assert ids(second) == ["2", "1"]
        opened[0].close()
        assert in_log(bare.path) == 1  # it was not the last one
    assert not log_of(bare.path).exists()


# ---- the disk


def test_one_wait_for_the_disk_serves_all(bare: Sandbox) -> None:
    waits, many = list[int](), 8

    def disk(_: int) -> None:
        waits.append(1)
        if in_log(bare.path) > 1:
            until(lambda: in_log(bare.path) == 1 + many)

    def work() -> None:
        from gitbaton.langgraph.threads.store import ThreadStore

        with ThreadStore.open(bare.path, **DURABLE) as store, ThreadPoolExecutor(many) as pool:
            put(store, "t", "0")
            assert waits
            waits.clear()
            list(pool.map(lambda number: put(store, "t", f"{number}"), range(1, 1 + many)))
            assert len(waits) <= 2

    with_disk(disk, work)
    assert bare.git("rev-list", "--count", REF) == "9"


def test_who_waits_for_the_disk_is_served_when_another_closes(bare: Sandbox) -> None:
    leave = threading.Event()

    def work() -> None:
        from gitbaton.langgraph.threads.store import ThreadStore

        store = ThreadStore.open(bare.path, **DURABLE)
        closing = threading.Thread(target=store.close)
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(put, store, "t", f"{number}") for number in range(2)]
            until(lambda: in_log(bare.path) == 2)
            with at("fcntl.flock", lambda _: threading.current_thread() is closing, lambda _: leave.set()):
                closing.start()
                closing.join()
            assert all(each.result() for each in waiting)
        assert not log_of(bare.path).exists()

    with_disk(lambda _: leave.wait(60), work)
    assert bare.git("rev-list", "--count", REF) == "2"


def test_a_disk_that_fails_is_not_believed_again(bare: Sandbox) -> None:
    failing = list[int]()

    def disk(_: int) -> None:
        if failing:
            raise OSError(5, "Input/output error")

    def work() -> None:
        from gitbaton.langgraph.threads.store import ThreadStore

        with ThreadStore.open(bare.path, **DURABLE) as store:
            put(store, "t", "1")
            failing.append(1)
            for _ in range(2):
                with pytest.raises(GitError, match=r"^the log of threads cannot be brought to disk: Input/output error$"):
                    put(store, "t", "2")
                failing.clear()
            store.flush()  # what is in git needs the log no more
            put(store, "t", "3")

    with_disk(disk, work)
    assert int(bare.git("rev-list", "--count", REF)) >= 2


def test_a_full_disk_is_said_and_the_log_goes_on(store: ThreadStore, other: ThreadStore) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = {"c": ("bytes", b"b" * (400 << 10))}
    resource.setrlimit(resource.RLIMIT_FSIZE, (300 << 10, before[1]))
    try:
        put(store, "t", "000")
        for _ in range(2):
            with pytest.raises(GitError, match=r"^the log of threads cannot be written: File too large$"):
                put(store, "t", "large", channels=large)
        for number in range(1, 11):  # the file cannot grow as it would
            put(store, "t", f"{number:03}", channels={"c": ("bytes", b"%d" % number * 10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    put(store, "t", "large", channels=large)
    assert ids(other) == ["large", *(f"{number:03}" for number in range(10, -1, -1))]


def test_a_log_is_small_when_git_has_it_all(bare: Sandbox, store: ThreadStore) -> None:
    for turn in range(2):
        for number in range(12):
            put(store, "t", f"{turn}{number:02}", channels={"c": ("bytes", b"%d" % number * 300_000)})
        store.flush()
    put(store, "t", "3")
    store.flush()
    assert sum(path.stat().st_size for path in log_of(bare.path).iterdir()) < 5 << 20


def test_a_log_that_cannot_be_opened_says_so(bare: Sandbox) -> None:
    (bare.path / "baton").write_bytes(b"")
    with pytest.raises(GitError, match=r"^the log of threads cannot be opened: Not a directory$"):
        ThreadStore.open(bare.path, **QUIET)


# ---- who may not write, and who wrote what is none


def test_who_may_not_write_reads_what_others_put(bare: Sandbox) -> None:
    def reader() -> ThreadStore:
        with refused(bare.path):
            return ThreadStore.open(bare.path, **QUIET)

    none = reader()
    assert ids(none) == [] and not log_of(bare.path).exists()
    writer = ThreadStore.open(bare.path, **QUIET)
    put(writer, "t", "1")
    live = reader()
    assert ids(live) == ids(none) == ["1"]
    put(writer, "t", "2")
    assert ids(live) == ["2", "1"]
    writer.flush()
    live.flush()  # nothing is left to do
    put(writer, "t", "3")
    changes: list[Callable[[], object]] = [lambda: put(live, "t", "4"), live.flush, lambda: live.delete("t")]
    for change in changes:
        with pytest.raises(GitError, match=r"no permission to write in the repository|cannot be written"):
            change()
    writer.close()
    killed(lambda: put(left_open(bare.path), "t", "4"))  # a log that nobody has open
    for each in (none, live, reader()):
        assert ids(each) == ["4", "3", "2", "1"]
        each.close()
    assert in_log(bare.path) == 1


def test_a_repository_that_cannot_be_written_is_read(bare: Sandbox) -> None:
    """By the permissions of its folders and files."""
    code = (
        "from gitbaton.base.errors import BatonError; from gitbaton.langgraph.threads.store import ThreadStore\n"
        "store = ThreadStore.open('.')\n"
        "print([(entry.id, store.blob(entry.channels['c'])[1]) for entry in store.walk('t', '')])\n"
        "changes = {'put': ('t', '', '9', None, b'{}', b'{}', {}), 'delete': ('t',), 'prune': (['t'],)}\n"
        "for change, words in changes.items():\n"
        "    try: getattr(store, change)(*words)\n"
        "    except BatonError as error: print('refused')\n"
        "store.close()\n"
    )
    with ThreadStore.open(bare.path, **QUIET) as store:
        numbered(store, 2)
    places = [bare.path, *bare.path.rglob("*")]
    before = [place.stat().st_mode for place in places]
    try:
        for place, mode in zip(places, before, strict=True):
            place.chmod(mode & ~0o222)
        done = unprivileged(bare, code)
    finally:
        for place, mode in zip(places, before, strict=True):
            place.chmod(mode)
    assert (done.out, done.err) == ("[('001', b'001'), ('000', b'000')]\n" + "refused\n" * 3, "")


@pytest.mark.full
def test_a_log_that_others_scribbled_on_is_refused_or_read(bare: Sandbox) -> None:
    """What is found was put; what is put after that is found, too."""
    chance = random.Random(3)
    killed(lambda: numbered(left_open(bare.path), 12))
    (path,) = log_of(bare.path).glob("log*")
    good, whole = path.read_bytes(), [f"{number:03}" for number in range(12)]

    def scribbled(*, live: bool) -> None:
        stores = [left_open(bare.path)] if live else []
        for _ in range(chance.choice([1, 1, 3])):
            with path.open("r+b") as file:
                file.seek(chance.randrange(4096))
                file.write(chance.randbytes(chance.choice([1, 8, 64])))
        for each in (left_open(bare.path), *stores):
            try:
                found = ids(each)
                assert found == whole[: len(found)][::-1]
                put(each, "u", "more")
                assert ids(each, "u") == ["more"]
            except BatonError as error:
                assert "\n" not in error.message

    for turn in range(examples(1000, 60)):
        path.write_bytes(good)
        chance.seed(turn)
        killed(lambda turn=turn: scribbled(live=bool(turn % 2)))  # type: ignore[misc]
