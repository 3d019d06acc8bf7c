"""The write-ahead log of threads: what is appended, who sees it, and what is left when processes or the power go."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gitbaton.errors import UsageError
from gitbaton.threads import walfile
from gitbaton.threads.wal import Wal
from tests.kit import examples
from tests.kit.forkserver import python

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
QUICK = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that a few records fill."""
    monkeypatch.setattr(walfile, "SMALL", 4096)
    monkeypatch.setattr(walfile, "LARGE", 8192)


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder where the disk is not waited for."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as top:
        yield Path(top)


def read(wal: Wal) -> list[bytes]:
    with wal.lock():
        return [payload for _, payload in wal.read()]


def append(wal: Wal, *payloads: bytes) -> list[bytes]:
    """Append and sync; what was read before."""
    with wal.lock():
        found = [payload for _, payload in wal.read()]
        token = [wal.append(payload) for payload in payloads][-1]
    wal.sync(token)
    return found


def flush(wal: Wal) -> list[bytes]:
    """Drop everything; what was read before."""
    with wal.flushing(5), wal.lock():
        found = [payload for _, payload in wal.read()]
        wal.drop(wal.rotate())
    return found


def kill(*wals: Wal) -> None:
    """As if their processes were killed: no thread of theirs goes on."""
    for wal in wals:
        wal._tail.rest()
        wal._let_go()


def in_child(work: Callable[[], object]) -> int:
    """Do something in a forked process; its exit status."""
    pid = os.fork()
    if not pid:
        code = 70
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_what_one_appends_the_other_reads_once(tmp_path: Path) -> None:
    one, two = Wal(str(tmp_path / "wal")), Wal(str(tmp_path / "wal"))
    assert one.changed and read(one) == [] and not one.changed  # the first read is due
    assert append(one, b"a", b"b" * 300_000) == [] and one.segment == 2  # a long one begins a segment of its own
    assert two.changed and append(two, b"c") == [b"a", b"b" * 300_000] and not two.changed
    assert one.changed and read(one) == [b"c"] and read(one) == []
    three = Wal(str(tmp_path / "wal"))
    with three.lock():
        assert [(n, len(payload)) for n, payload in three.read()] == [(1, 1), (2, 300_000), (2, 1)]
    for wal in (one, two, three):
        kill(wal)


def test_a_rotated_log_is_dropped_up_to_there(tmp_path: Path) -> None:
    one, two = Wal(str(tmp_path)), Wal(str(tmp_path))
    append(one, b"a")
    with one.lock():
        assert one.rotate() == 1 and one.rotate() == 1  # nothing was appended since
    append(one, b"b")
    with one.lock(), pytest.raises(UsageError, match=r"^segment 2 of the log of threads is not sealed$"):
        one.drop(2)
    epoch = one.epoch
    with one.lock():
        one.drop(1)
    assert one.epoch == epoch + 1 and one.oldest == 2 and one.segment == 2
    assert read(two) == [b"b"] and (two.oldest, two.epoch, two.segment) == (2, one.epoch, 2)
    with two.lock():
        two.bump()
    assert one.changed and read(one) == [] and one.epoch == epoch + 2
    kill(one, two)


def test_the_lock_and_the_order_are_demanded(tmp_path: Path) -> None:
    one, two = Wal(str(tmp_path)), Wal(str(tmp_path))
    with pytest.raises(UsageError, match=r"^the log of threads is used without its lock$"):
        one.append(b"a")
    append(two, b"a")
    with one.lock(), pytest.raises(UsageError, match=r"^the log of threads is written to without having been read$"):
        one.append(b"b")
    with one.lock(), pytest.raises(UsageError, match=r"^the log of threads is written to without having been read$"):
        one.rotate()
    append(one, b"b")
    for wrong in (b"", memoryview(b"").cast("B")):
        with one.lock(), pytest.raises(UsageError, match=r"^a record of 0 bytes does not go"):
            one.append(wrong)  # type: ignore[arg-type]
    assert read(two) == [b"b"]
    kill(one, two)


def test_a_recycled_file_gives_nothing_of_its_former_use(tmp_path: Path) -> None:
    wal, folder = Wal(str(tmp_path)), str(tmp_path)
    for turn in range(4):
        append(wal, b"the same", b"%d" % turn)
        flush(wal)
    append(wal, b"the same")
    assert len(list(tmp_path.glob("seg-*"))) + len(list(tmp_path.glob("free-*"))) == 1
    kill(wal)
    wal = Wal(folder)
    assert read(wal) == [b"the same"]
    kill(wal)


class Model:
    """What several users of one log should see."""

    def __init__(self, folder: str) -> None:
        self.folder, self.count = folder, 0
        self.live: list[tuple[int, bytes]] = []
        self.wals: dict[int, Wal] = {}
        self.due: dict[int, list[bytes]] = {}

    def open(self, who: int) -> None:
        if who not in self.wals:
            self.wals[who] = Wal(self.folder, sync=who == 1)
            self.due[who] = [payload for _, payload in self.live]
            assert self.wals[who].changed

    def see(self, who: int) -> Wal:
        wal = self.wals[who]
        found = wal.read()
        assert [payload for _, payload in found] == self.due[who]
        assert found == [item for item in self.live if item[1] in set(self.due[who])]
        assert not wal.changed and wal.read() == []
        self.due[who] = []
        return wal

    def append(self, who: int, size: int) -> None:
        self.count += 1
        payload = b"%d " % self.count * (1 + size)
        with self.wals[who].lock():
            wal = self.see(who)
            token = wal.append(payload)
            self.live.append((wal.segment, payload))
        wal.sync(token)
        for other in self.wals:
            if other != who:
                self.due[other].append(payload)
                assert self.wals[other].changed

    def drop(self, who: int, back: int) -> None:
        with self.wals[who].lock():
            wal = self.see(who)
            n, epoch = wal.rotate() - back, wal.epoch
            assert all(number <= n + back for number, _ in self.live)
            wal.drop(n)
            assert wal.epoch == epoch + 1
        gone = {payload for number, payload in self.live if number <= n}
        self.live = [item for item in self.live if item[0] > n]
        self.due = {other: [item for item in due if item not in gone] for other, due in self.due.items()}

    def close(self, who: int) -> None:
        asked = []
        wal = self.wals.pop(who)
        wal.close(lambda: asked.append(flush(wal)))
        assert len(asked) == (not self.wals)
        if asked:
            self.live = []
            assert not os.path.exists(self.folder)

    def kill(self, who: int) -> None:
        kill(self.wals.pop(who))
        if not self.wals:  # who comes next seals what is there, and all numbers are looked up anew
            wal = self.wals[9] = Wal(self.folder)
            with wal.lock():
                found = wal.read()
            assert [payload for _, payload in found] == [payload for _, payload in self.live]
            self.live, self.due[9] = found, []

    def end(self) -> None:
        for who in list(self.wals):
            with self.wals[who].lock():
                self.see(who)
            self.close(who)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "read", "drop", "close", "kill", "bump"]),
        st.integers(0, 3),
        st.sampled_from([0, 3, 40, 400, 3000]),
    ),
    max_size=30,
)


@settings(QUICK, max_examples=examples(1500, 60))
@given(steps=STEPS)
def test_every_user_sees_what_the_model_says(steps: list[tuple[str, int, int]], small: None) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as top:
        model = Model(os.path.join(top, "a", "wal"))
        for step, who, size in steps:
            model.open(who)
            if step == "append":
                model.append(who, size)
            elif step == "read":
                with model.wals[who].lock():
                    model.see(who)
            elif step == "drop":
                model.drop(who, size // 400)
            elif step == "close":
                model.close(who)
            elif step == "kill":
                model.kill(who)
            else:
                with model.wals[who].lock():
                    model.see(who).bump()
        model.end()
        assert not model.wals and not os.path.exists(model.folder)


PROCESS = """
import hashlib, sys
from gitbaton.threads.wal import Wal
from gitbaton.threads.walopen import Tail
wal, seen = Wal(sys.argv[1]), []
for number in range(250):
    payload = b"%s %d" % (sys.argv[2].encode(), number)
    with wal.lock():
        seen += [item for _, item in wal.read()]
        token = wal.append(payload)
        seen.append(payload)
    wal.sync(token)
while len(seen) < 1000:
    if wal.changed:
        with wal.lock():
            seen += [item for _, item in wal.read()]
print(len(seen), len(set(seen)), hashlib.sha256(b",".join(seen)).hexdigest())
kept = wal.close(lambda: None)
"""


@pytest.mark.deep
def test_four_processes_see_a_thousand_in_one_order(tmp_path: Path) -> None:
    folder, out = str(tmp_path / "wal"), list[bytes]()

    def run(name: int) -> None:
        done = python(["-c", PROCESS, folder, str(name)], str(tmp_path), dict(os.environ))
        assert done.code == 0, done.err
        out.append(done.out)

    threads = [threading.Thread(target=run, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wal = Wal(folder)
    found = read(wal)
    assert out == [b"1000 1000 %s\n" % hashlib.sha256(b",".join(found)).hexdigest().encode()] * 4
    flush(wal)
    wal.close()
    assert not os.path.exists(folder)


def test_who_waits_while_the_last_one_goes_begins_anew(tmp_path: Path) -> None:
    folder, opened = str(tmp_path / "wal"), list[Wal]()
    first, thread = Wal(folder), threading.Thread(target=lambda: opened.append(Wal(folder)))

    def last() -> None:
        thread.start()
        time.sleep(0.02)

    first.close(last)
    thread.join()
    second = Wal(folder)
    append(opened[0], b"a")
    assert read(second) == [b"a"]
    opened[0].close()
    second.close(lambda: flush(second))
    assert not os.path.exists(folder)
