"""The log of threads in a bad hour: forks, a full disk, one that fails, no permission to write, threads that wait, hostile
files."""

from __future__ import annotations

import errno
import os
import random
import resource
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from gitbaton.errors import BatonError, GitError, RecordError, UsageError
from gitbaton.threads import log as module
from gitbaton.threads.log import Log
from tests.kit import examples
from tests.kit.processes import in_child
from tests.rooms.threads.test_threads_log import append, flush, kill, memory, read, small

__all__ = ["memory", "small"]


def test_a_forked_child_has_no_part_in_the_log_and_lets_go_of_no_lock(tmp_path: Path) -> None:
    wal, other = Log(str(tmp_path / "wal")), Log(str(tmp_path / "wal"))
    token = 0

    def work() -> None:
        for use in (partial(append, wal, b"child"), partial(read, wal)):
            with pytest.raises(UsageError, match=r"^the log of threads is closed$"):
                use()
        with pytest.raises(GitError, match="before a fork"):
            wal.sync(token)
        wal.close(lambda: os._exit(1))
        mine = Log(str(tmp_path / "wal"))
        with pytest.raises(GitError, match="is locked by another process"), mine.lock():
            pass

    with pytest.MonkeyPatch.context() as patch, wal.lock():
        patch.setattr(module, "LOCK_WAIT", 0.01)
        wal.read()
        token = wal.append(b"parent")
        with pytest.raises(GitError, match="locked"):
            Log(str(tmp_path / "wal"))  # it looks for an older log
        assert in_child(lambda: wal.lock().__exit__(None, None, None)) == 0
        with pytest.raises(GitError, match="is locked by another process"), other.lock():
            pass
        wal.append(b"more")
    assert read(other) == [b"parent", b"more"]
    wal.close()
    flush(other)
    other.close()
    assert not os.path.exists(tmp_path / "wal")


def test_the_last_one_flushes_and_nothing_is_left(tmp_path: Path) -> None:
    folder, asked = str(tmp_path / "a" / "wal"), list[str]()
    one, two, three = (Log(folder) for _ in range(3))
    append(one, b"a")
    append(three, b"b")
    kill(three)  # who was killed is not waited for
    one.close(lambda: asked.append("one"))
    one.close(lambda: asked.append("one again"))
    with pytest.raises(UsageError, match=r"^the log of threads is closed$"), one.lock():
        pass
    two.close(lambda: asked.extend(str(item) for item in flush(two)))
    assert asked == ["b'a'", "b'b'"] and not os.path.exists(folder)


def test_what_was_not_flushed_stays(tmp_path: Path) -> None:
    folder = str(tmp_path / "wal")

    def failing() -> None:
        raise GitError("no")

    for last in (failing, lambda: None):
        wal = Log(folder)
        append(wal, b"a")
        if last is failing:
            with pytest.raises(GitError, match=r"^no$"):
                wal.close(last)
        else:
            wal.close(last)
    wal = Log(folder)
    assert read(wal) == [b"a", b"a"]
    flush(wal)
    wal.close()
    assert not os.path.exists(folder)


def test_a_repository_that_is_removed_does_not_come_back(tmp_path: Path) -> None:
    wal = Log(str(tmp_path / "a" / "wal"))
    append(wal, b"a")
    (tmp_path / "a").rename(tmp_path / "b")
    wal.close()
    assert not (tmp_path / "a").exists()


def test_one_wait_for_the_disk_serves_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wal, waits, most, real = Log(str(tmp_path)), [0], 40, os.fdatasync
    written: set[int] = set()

    def slow(fd: int) -> None:
        waits[0] += 1
        time.sleep(0.002)
        real(fd)

    monkeypatch.setattr(module, "fdatasync", slow)

    def run() -> None:
        for _ in range(5):
            with wal.lock():
                token = wal.append(b"a" * 100)
            wal.sync(token)
            written.add(token)
            assert wal._synced >= token

    append(wal, b"first")
    threads = [threading.Thread(target=run) for _ in range(most // 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) == most and waits[0] < most * 3 // 4
    kill(wal)


def test_who_waits_for_the_disk_is_served_when_another_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path / "wal")
    wal, begun, leave = Log(folder), threading.Event(), threading.Event()
    append(wal, b"first")

    def slow(fd: int) -> None:
        begun.set()
        leave.wait(5)
        os.fdatasync(fd)

    monkeypatch.setattr(module, "fdatasync", slow)
    with wal.lock():
        tokens = [wal.append(b"a"), wal.append(b"b")]
    served: list[int] = []

    def serve(token: int) -> None:
        wal.sync(token)
        served.append(token)

    waiting = [threading.Thread(target=serve, args=(token,)) for token in tokens]
    for thread in waiting:
        thread.start()
    begun.wait(5)
    closing = threading.Thread(target=wal.close, args=(lambda: flush(wal),))
    closing.start()
    time.sleep(0.01)
    assert closing.is_alive()
    leave.set()
    for thread in (*waiting, closing):
        thread.join(5)
    assert sorted(served) == tokens and not os.path.exists(folder)
    wal.sync(tokens[-1])


def test_a_disk_that_fails_is_not_believed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wal = Log(str(tmp_path / "wal"))
    append(wal, b"first")

    def failing(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    said = r"^the log of threads cannot be brought to disk: Input/output error$"
    with wal.lock():
        token = wal.append(b"a")
    with monkeypatch.context() as patch, pytest.raises(GitError, match=said):
        patch.setattr(module, "fdatasync", failing)
        wal.sync(token)
    for _ in range(2):
        with pytest.raises(GitError, match=said):
            wal.sync(token)
        with wal.lock(), pytest.raises(GitError, match=said):
            wal.append(b"b")
    flush(wal)  # what is in git needs the log no more
    append(wal, b"c")
    wal.close(lambda: flush(wal))


def test_a_full_disk_is_said_and_the_log_goes_on(tmp_path: Path) -> None:
    wal = Log(str(tmp_path / "wal"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300 << 10, before[1]))
    try:
        append(wal, b"a")
        for _ in range(2):
            with wal.lock(), pytest.raises(GitError, match=r"^the log of threads cannot be written: File too large$"):
                wal.append(b"b" * (400 << 10))
        for number in range(10):  # the file cannot grow as it would
            append(wal, b"%d" % number * 20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    append(wal, b"b" * (400 << 10))
    found = read(Log(str(tmp_path / "wal")))
    assert [len(item) for item in found] == [1, *[20_000] * 10, 400 << 10]
    assert not list(tmp_path.glob("wal/log.*"))
    kill(wal)


def test_a_log_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    tmp_path.joinpath("file").write_bytes(b"")
    with pytest.raises(GitError, match=r"^the log of threads cannot be opened: Not a directory$"):
        Log(str(tmp_path / "file" / "wal"))


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be written any more."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Log, "_join", refused)


def test_who_may_not_write_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path / "wal")
    writer = Log(folder)
    append(writer, b"live")
    real = Log._join
    forbid(monkeypatch)
    reader = Log(folder)
    assert reader.readonly and not writer.readonly and reader.changed and read(reader) == [b"live"]
    append(writer, b"more")
    assert reader.changed and read(reader) == [b"more"]
    epoch = reader.epoch
    flush(writer)
    assert reader.changed and read(reader) == [] and reader.oldest == writer.oldest and reader.epoch > epoch
    for refused in (lambda: reader.append(b"a"), reader.rotate, reader.bump, lambda: reader.drop(0)):
        with reader.lock(), pytest.raises(GitError, match=r"^the log of threads cannot be written: no permission"):
            refused()
    with pytest.raises(GitError, match=r"no permission to write in the repository$"), reader.flushing(0):
        pass
    append(writer, b"left")
    kill(writer)
    dead = Log(folder)  # a log that nobody has open
    for log, found in ((dead, [b"left"]), (reader, [b"left"])):
        assert log.readonly and read(log) == found and not log.changed
    with dead.lock():
        dead.rewind()
        assert dead.changed and [payload for _, payload in dead.read()] == [b"left"]
    epoch = dead.epoch
    with monkeypatch.context() as patch:
        patch.setattr(Log, "_join", real)
        writer = Log(folder)
    assert read(writer) == [b"left"] and append(writer, b"new") == []
    assert dead.changed and read(dead) == [b"new"]
    writer.close(lambda: flush(writer))
    assert dead.changed and read(dead) == [] and dead.epoch > epoch and not dead.changed
    dead.close(lambda: pytest.fail("it cannot write"))
    nothing = Log(folder)
    assert read(nothing) == [] and not nothing.changed and not os.path.exists(folder)
    with monkeypatch.context() as patch:
        patch.setattr(Log, "_join", real)
        writer = Log(folder)
        append(writer, b"again")
    assert read(nothing) == [b"again"] and read(reader) == [b"again"]
    for log in (nothing, reader, writer):
        log.close(lambda: None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_stranger_reads_what_others_may_read() -> None:
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        wal = Log(f"{top}/wal")
        append(wal, b"a")

        def work() -> None:
            os.setuid(65534)
            for folder, seen in ((f"{top}/wal", [b"a"]), (f"{top}/none", [])):
                stranger = Log(folder)
                assert stranger.readonly and read(stranger) == seen
                stranger.close()

        assert in_child(work) == 0
        kill(wal)
        assert in_child(work) == 0
        assert read(Log(f"{top}/wal")) == [b"a"]


def test_files_that_others_scribbled_on_are_refused_or_read(memory: Path, small: None) -> None:
    chance, folder = random.Random(3), memory / "wal"
    wal = Log(str(folder))
    records = [b"%d" % number * 200 for number in range(12)]
    append(wal, *records)
    kill(wal)
    path, good = folder / "log", (folder / "log").read_bytes()
    for turn in range(examples(3000, 150)):
        path.write_bytes(good)
        live = Log(str(folder), sync=False) if turn % 2 else None
        for _ in range(chance.choice([1, 1, 3])):
            with path.open("r+b") as file:
                file.seek(chance.randrange(4096))
                file.write(chance.randbytes(chance.choice([1, 8, 64])))
        try:
            one = Log(str(folder), sync=False)
            found = read(one)
            assert all(item in records for item in found) and len(set(found)) == len(found)
            append(one, b"more")
            kill(one)
        except (GitError, RecordError) as error:
            assert "\n" not in error.message
        if live is not None:
            try:
                read(live)
            except BatonError:
                pass
            kill(live)


def test_waiting_for_a_lock_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = Log(str(tmp_path)), Log(str(tmp_path))
    monkeypatch.setattr(module, "LOCK_WAIT", 0.01)
    with one.lock(), pytest.raises(GitError, match=r"^the log of threads is locked by another process$"), two.lock():
        pass
    with one.flushing(0):
        with pytest.raises(UsageError, match=r"is in use by this very thread"), one.flushing(0):
            pass
        for wal, who in ((one, "thread"), (two, "process")):
            with ThreadPoolExecutor(1) as pool, pytest.raises(GitError) as failure:
                pool.submit(wal.flushing(0).__enter__).result()
            assert failure.value.message == f"the threads are being written to git by another {who}"
    with two.lock(), two.flushing(0):
        pass
    kill(one, two)


def test_an_idle_log_is_small_and_leaves_nothing(tmp_path: Path) -> None:
    wal = Log(str(tmp_path / "wal"))
    for number in range(3):
        append(wal, *[b"%d" % number * 7000 for _ in range(400 if number < 2 else 1)])
        with wal.flushing():
            with wal.lock():
                assert not wal.read()
                end = wal.rotate()
            with wal.prepared(end), wal.lock():
                wal.drop(end)
    assert sum(path.stat().st_size for path in tmp_path.glob("wal/*")) <= module.LARGE
    append(wal, b"a")
    with wal.lock():
        wal.rewind()
        assert wal.changed and [item for _, item in wal.read()] == [b"a"]
    wal.close(lambda: flush(wal))
    assert not os.path.exists(tmp_path / "wal")
