"""The write-ahead log of threads: what is appended, who sees it, and what is left when processes or the power go."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gitbaton.errors import UsageError
from gitbaton.threads import log as module
from gitbaton.threads.log import Log
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
    """A file that a few records fill."""
    monkeypatch.setattr(module, "SMALL", 4096)
    monkeypatch.setattr(module, "LARGE", 8192)


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder where the disk is not waited for."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as top:
        yield Path(top)


def read(wal: Log) -> list[bytes]:
    with wal.lock():
        return [payload for _, payload in wal.read()]


def append(wal: Log, *payloads: bytes) -> list[bytes]:
    """Append and sync; what was read before."""
    with wal.lock():
        found = [payload for _, payload in wal.read()]
        token = [wal.append(payload) for payload in payloads][-1]
    wal.sync(token)
    return found


def flush(wal: Log) -> list[bytes]:
    """Drop everything; what was read before."""
    with wal.flushing(5), wal.lock():
        found = [payload for _, payload in wal.read()]
        wal.drop(wal.rotate())
    return found


def kill(*wals: Log) -> None:
    """As if their processes were killed: no thread of theirs goes on."""
    for wal in wals:
        wal._let_go()


def test_what_one_appends_the_other_reads_once(tmp_path: Path) -> None:
    one, two = Log(str(tmp_path / "wal")), Log(str(tmp_path / "wal"))
    assert one.changed and read(one) == [] and not one.changed  # the first read is due
    assert append(one, b"a", b"b" * 300_000) == []
    assert two.changed and append(two, b"c") == [b"a", b"b" * 300_000] and not two.changed
    assert one.changed and read(one) == [b"c"] and read(one) == []
    three = Log(str(tmp_path / "wal"))
    with three.lock():
        found = three.read()
    assert [len(payload) for _, payload in found] == [1, 300_000, 1] and found[2][0] == two.segment > found[1][0] > found[0][0]
    for wal in (one, two, three):
        kill(wal)


def test_a_rotated_log_is_dropped_up_to_there(tmp_path: Path) -> None:
    one, two = Log(str(tmp_path)), Log(str(tmp_path))
    append(one, b"a")
    with one.lock():
        cut = one.rotate()
        assert one.segment < cut == one.rotate()  # nothing was appended since
    append(one, b"b")
    with one.lock(), pytest.raises(UsageError, match=r"is not one at which the log of threads was rotated$"):
        one.drop(cut + 1)
    epoch = one.epoch
    with one.lock():
        one.drop(cut)
    assert one.epoch == epoch + 1 and one.oldest == cut == one.segment
    read(two)
    with two.lock():
        two.rewind()
        assert [payload for _, payload in two.read()] == [b"b"] and two.oldest == cut
        two.bump()
    before = one.epoch
    assert one.changed and read(one) == [] and one.epoch == before + 1
    kill(one, two)


def test_who_is_far_behind_reads_what_is_left(tmp_path: Path) -> None:
    one, two = Log(str(tmp_path)), Log(str(tmp_path))
    append(one, b"a")
    assert read(two) == [b"a"]
    append(one, b"b")
    for number in range(3):
        flush(one)
        append(one, b"%d" % number)
    epoch = two.epoch
    assert two.changed and read(two) == [b"2"] and two.epoch > epoch and two.oldest == one.oldest
    kill(one, two)


def test_the_lock_and_the_order_are_demanded(tmp_path: Path) -> None:
    one, two = Log(str(tmp_path)), Log(str(tmp_path))
    with pytest.raises(UsageError, match=r"^the log of threads is used without its lock$"):
        one.append(b"a")
    append(two, b"a")
    with one.lock(), pytest.raises(UsageError, match=r"^the log of threads is written to without having been read$"):
        one.append(b"b")
    with one.lock(), pytest.raises(UsageError, match=r"^the log of threads is written to without having been read$"):
        one.rotate()
    append(one, b"b")
    with one.lock(), pytest.raises(UsageError, match=r"^a record of 0 bytes does not go"):
        one.append(b"")
    assert read(two) == [b"b"]
    kill(one, two)


class Model:
    """What several users of one log should see."""

    def __init__(self, folder: str) -> None:
        self.folder, self.count = folder, 0
        self.live: list[tuple[int, bytes]] = []
        self.wals: dict[int, Log] = {}
        self.due: dict[int, list[bytes]] = {}

    def open(self, who: int) -> None:
        if who not in self.wals:
            self.wals[who] = Log(self.folder, sync=who == 1)
            self.due[who] = [payload for _, payload in self.live]
            assert self.wals[who].changed

    def after(self, who: int, count: int) -> None:
        """Append what comes while somebody flushes."""
        wal = self.wals[who]
        for _ in range(count):
            self.count += 1
            payload = b"%d " % self.count
            wal.append(payload)
            self.live.append((wal.segment, payload))
            for other in self.wals.keys() - {who}:
                self.due[other].append(payload)

    def see(self, who: int) -> Log:
        """What is read is what came since, but for what was dropped before it was read."""
        wal, due = self.wals[who], set(self.due[who])
        assert wal.read() == [item for item in self.live if item[1] in due]
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
            n = wal.rotate()
            assert all(number < n for number, _ in self.live)
            self.after(who, back)
            wal.drop(n)
            assert wal.oldest == n or not self.live
        self.live = [item for item in self.live if item[0] >= n]

    def flush(self, who: int, size: int) -> None:
        """As a flush does it: what is appended meanwhile is partly in the new file before the drop, and partly comes after."""
        with self.wals[who].lock():
            wal = self.see(who)
            n = wal.rotate()
        for other in list(self.wals):
            self.append(other, size)
        with wal.prepared(n):
            for other in list(self.wals):
                self.append(other, size)
            with wal.lock():
                self.see(who).drop(n)
        self.live = [item for item in self.live if item[0] >= n]

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
        if not self.wals:
            wal = self.wals[9] = Log(self.folder)
            with wal.lock():
                assert wal.read() == self.live
            self.due[9] = []

    def end(self) -> None:
        for who in list(self.wals):
            with self.wals[who].lock():
                self.see(who)
            self.close(who)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "read", "drop", "flush", "close", "kill", "bump"]),
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
                model.drop(who, size // 400 % 4)
            elif step == "flush":
                model.flush(who, size)
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
from gitbaton.threads.log import Log
wal, seen = Log(sys.argv[1]), []
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
wal.close(lambda: None)
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
    wal = Log(folder)
    found = read(wal)
    assert out == [b"1000 1000 %s\n" % hashlib.sha256(b",".join(found)).hexdigest().encode()] * 4
    flush(wal)
    wal.close()
    assert not os.path.exists(folder)


def test_who_waits_while_the_last_one_goes_begins_anew(tmp_path: Path) -> None:
    folder, opened = str(tmp_path / "wal"), list[Log]()
    first, thread = Log(folder), threading.Thread(target=lambda: opened.append(Log(folder)))

    def last() -> None:
        thread.start()
        time.sleep(0.02)

    first.close(last)
    thread.join()
    second = Log(folder)
    append(opened[0], b"a")
    assert read(second) == [b"a"]
    opened[0].close()
    second.close(lambda: flush(second))
    assert not os.path.exists(folder)
