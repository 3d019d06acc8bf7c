"""What is recorded stays: over power cuts, full disks, many writers and git's garbage collection."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from gitbaton.base.errors import BatonError
from gitbaton.checkpoints.store.provenance import of_run
from gitbaton.git.repo import OURS, Door
from gitbaton.git.worktree.filesets import Files
from gitbaton.runs.journal.upkeep import verify
from gitbaton.runs.journal.values import Logged, run_ref
from tests.kit import Sandbox
from tests.kit.hurry import hurry
from tests.kit.journals import RUN, journal, record, step_of, tree
from tests.kit.moments import Args, at
from tests.kit.places import ROOT
from tests.kit.powercut import CALLS, Disk, replay
from tests.kit.threads import git_called
from tests.kit.tiers import FULL, some
from tests.promises.test_restore_room import disk, fill

__all__ = ["disk"]
DRIVER = """
import os, sys
from itertools import count
from pathlib import Path
from tests.kit import Sandbox
from tests.kit.journals import RUN, journal, record, step_of
box = Sandbox(Path(sys.argv[1]))
j = journal(box, door=sys.argv[2])
said = open(sys.argv[3], "ab", buffering=0)
for number in range(int(sys.argv[4])):
    logged = step_of(j, f"step{number}", f"text {number}")
    said.write(logged.commit.encode() + b"\\n")
"""


def traced(box: Sandbox, door: Door, said: Path, count: int) -> str:
    """The calls of a process that appends so many steps, as strace saw them."""
    trace = said.with_suffix(".trace")
    words = [sys.executable, "-c", DRIVER, str(box.path), door, str(said), str(count)]
    argv = ["strace", "-f", "-y", "-s", "200", "-e", f"trace={CALLS}", "-e", "signal=none", "-o", str(trace), *words]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT)
    if done.returncode and "ptrace" in done.stderr.lower():
        pytest.skip(f"nothing can be traced here: {done.stderr.strip()[:100]}")
    assert done.returncode == 0, done.stderr
    return trace.read_text(errors="replace")


def places(box: Sandbox) -> dict[str, list[list[str]]]:
    """By object of the repository the files that each hold it: its own, or a pack and its index."""
    folder = box.path.resolve() / ".git/objects"
    found: dict[str, list[list[str]]] = {}
    for path in folder.glob("[0-9a-f][0-9a-f]/*"):
        found.setdefault(path.parent.name + path.name, []).append([str(path)])
    for index in folder.glob("pack/*.idx"):
        for row in box.git("show-index", stdin=index.read_bytes()).splitlines():
            found.setdefault(row.split(" ")[1], []).append([str(index), str(index.with_suffix(".pack"))])
    return found


def cuts(box: Sandbox, trace: str, said: Path) -> tuple[list[tuple[str, set[str]]], list[str]]:
    """Each value that the run's ref may have after a power cut, with the objects that are sure to be there then; and what is
    wrong: a ref that may name what is not there, or what would not count as made here, or an acknowledged record that may be
    gone."""
    ref, drive, held = str(box.path.resolve() / ".git" / run_ref(RUN)), Disk(), places(box)
    ours = str(box.path.resolve() / ".git/baton" / OURS / of_run(RUN))
    values: list[tuple[str, set[str]]] = []
    wrong: list[str] = []
    for call, path in replay(trace, drive, str(box.path.resolve())):
        if call == "name" and path == ref:
            number = drive.now[ref]
            value = drive.text[number][:40]
            if number not in drive.clean:
                wrong.append(f"the ref may be empty when it should be {value}")
            if not drive.sure(ours) or value not in drive.text[drive.now[ours]]:
                wrong.append(f"{value} may be foreign")
            there = {p for p in drive.now if "/objects/" in p and drive.sure(p)}
            for oid in box.git("rev-list", "--objects", "--no-object-names", value).split("\n"):
                if not any(all(p in drive.now and drive.sure(p) for p in files) for files in held[oid]):
                    wrong.append(f"{value} may be without {oid}")
            values.append((value, there))
        elif call == "write" and path == str(said.resolve()):
            wrong += [] if drive.sure(ref) else [f"what was acknowledged may be gone: {drive.text[drive.now[ref]]}"]
    return values, wrong


@pytest.mark.full
@some("door", ["libgit2", "binary"])
def test_r19_a_power_cut_leaves_a_prefix(tmp_path: Path, door: Door) -> None:
    if shutil.which("strace") is None:
        pytest.skip("there is no strace to see what is brought to disk when")
    count = 3
    box, said = Sandbox.init(tmp_path / "box"), tmp_path / "said"
    trace = traced(box, door, said, count)
    values, wrong = cuts(box, trace, said)
    assert not wrong, wrong[:5]
    full = journal(box).records(RUN)
    assert [value for value, _ in values] == [logged.commit for logged in full] and len(full) == 2 * count
    assert said.read_text().split() == [logged.commit for logged in full[1::2]]
    for number, (value, there) in enumerate(values, 1):
        after_a_cut(tmp_path / f"cut{number}", box, value, there, full[:number])
    forgetful = "\n".join(line for line in trace.splitlines() if "/objects/" not in line or "fsync(" not in line)
    assert cuts(box, forgetful, said)[1], "the check can fail: for objects"
    late = "\n".join(line for line in trace.splitlines() if f"{run_ref(RUN)}.lock>" not in line or "fsync(" not in line)
    assert cuts(box, late, said)[1], "for the ref's bytes"
    lost = "\n".join(line for line in trace.splitlines() if "/refs/baton/runs>" not in line or "fsync(" not in line)
    assert cuts(box, lost, said)[1], "for its name"
    foreign = "\n".join(line for line in trace.splitlines() if f"/baton/{OURS}/" not in line or "sync(" not in line)
    assert {what.partition(" ")[2] for what in cuts(box, foreign, said)[1]} == {"may be foreign"}, "and for what made it"


def after_a_cut(path: Path, box: Sandbox, value: str, there: set[str], expected: tuple[Logged, ...]) -> None:
    """A repository with those objects only, the ref, and what says that the run was made here."""
    left = Sandbox.init(path)
    shutil.copytree(box.path / ".git/baton" / OURS, path / ".git/baton" / OURS)
    for name in there:
        if os.path.isfile(name):
            target = path / ".git" / os.path.relpath(name, box.path.resolve() / ".git")
            target.parent.mkdir(exist_ok=True)
            shutil.copy(name, target)
    (path / ".git/refs/baton/runs").mkdir(parents=True)
    (path / ".git" / run_ref(RUN)).write_text(value + "\n")
    j = journal(left)
    assert j.records(RUN) == expected
    assert verify(j, RUN).problems == ()


@pytest.mark.deep
@some("door", ["libgit2", "binary"])
def test_r20_the_disk_is_full_at_each_write(disk: Path, door: Door) -> None:
    box = Sandbox.init(disk / "box")
    j = journal(box, door=door)
    step_of(j, "first", "one")
    before, failed = j.records(RUN), 0
    for number, kilobytes in enumerate(range(0, 100, 4)):
        texts = {"stdout": f"{number}".encode() * 3000, "stderr": f"{number} err\n".encode()}
        orphan = tree(j.repo, {"x": f"orphan {number}"})
        filler = fill(disk, kilobytes << 10)
        try:
            j.append(RUN, record("gate", f"step{number}", text=f"{number}"), blobs=texts, trees={"orphan": orphan})
        except BatonError:
            failed += 1
        else:
            assert number, "there was no room at all"
            before = (*before, j.records(RUN)[-1])
        filler.unlink()
        fresh = journal(box, door=door)
        assert fresh.records(RUN) == before == j.records(RUN), f"{kilobytes}k"
    assert verify(fresh, RUN).problems == () and len(before) > 3 and failed > 2
    step_of(j, "last", "two")
    assert len(journal(box).records(RUN)) == len(before) + 2


WRITER = """
import sys
from itertools import count
from pathlib import Path
from tests.kit import Sandbox
from tests.kit.journals import RUN, journal, record
from tests.kit.tiers import FULL
j = journal(Sandbox(Path(sys.argv[1])), door=sys.argv[2])
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    print(j.append(RUN, record("gate", f"{sys.argv[4]}-{number}")).commit, flush=True)
"""


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A place where bringing something to disk costs nothing, if there is one."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place)


@pytest.mark.full
def test_r43_many_processes_append_to_one_run(memory: Path) -> None:
    processes, each = 8, 100 if FULL else 25
    box = Sandbox.init(memory / "box")
    running = []
    for number in range(processes):
        door = "binary" if number == 0 else "libgit2"
        words = [sys.executable, "-c", WRITER, str(box.path), door, str(each), f"p{number}"]
        running.append(subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for child in running:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [child.communicate()[0].split() for child in running]
    assert [child.returncode for child in running] == [0] * processes
    j = journal(box)
    records = j.records(RUN)
    assert [logged.record.seq for logged in records] == list(range(processes * each))
    assert {logged.commit for logged in records} == {commit for part in said for commit in part}
    for number, part in enumerate(said):
        own = [logged for logged in records if (logged.record.step or "").startswith(f"p{number}-")]
        assert [logged.commit for logged in own] == part, "in the order in which each was told"
    assert verify(j, RUN).problems == ()
    box.fsck()


@some("door", ["libgit2", "binary"])
@pytest.mark.parametrize("how", ["always", "never"])
def test_a_record_waits_for_the_disk_as_the_setting_says(
    memory: Path, monkeypatch: pytest.MonkeyPatch, how: str, door: Door
) -> None:
    box, waits = Sandbox.init(memory / "box"), list[int]()
    box.git("config", "baton.fsync", how)
    j = journal(box, door=door)
    monkeypatch.setattr(os, "fsync", waits.append)
    step_of(j, "a", "x")
    assert bool(waits) == (how == "always")
    assert [logged.record.type for logged in j.records(RUN)] == ["begin", "end"]


@pytest.mark.deep
def test_r43_many_threads_of_one_process(memory: Path) -> None:
    repo = Sandbox.init(memory / "box")
    j = journal(repo)

    def work(name: str) -> None:
        for number in range(20):
            step_of(j, f"{name}{number}", f"{name} {number}")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [logged.record.seq for logged in journal(repo).records(RUN)] == list(range(120))
    assert verify(j, RUN).problems == ()


@pytest.mark.full
@some("door", ["libgit2", "binary"])
def test_a_writer_killed_at_any_moment_leaves_a_prefix(memory: Path, door: Door) -> None:
    box, told = Sandbox.init(memory / "box"), memory / "told"
    times = random.Random(7)
    step_of(journal(box), "first", "x")
    told.touch()
    for number in count():
        if number >= 12 and len(told.read_text().split()) > 2:
            break  # some had time to write, however busy the machine is
        child = os.fork()
        if child == 0:
            with open(told, "ab", buffering=0) as said:
                j = journal(box, door=door)
                while True:
                    said.write(step_of(j, f"s{number}", os.urandom(4).hex()).commit.encode() + b"\n")
        time.sleep(times.uniform(0.01, 0.06 if door == "libgit2" else 0.15) * (1 + number // 12))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        j = journal(box)
        found = {logged.commit for logged in j.records(RUN)}
        assert not set(told.read_text().split()) - found, "what was acknowledged is there"
        assert verify(j, RUN).problems == ()
        j.append(RUN, record("gate", f"g{number}"))
    box.fsck()


@pytest.mark.deep
@pytest.mark.parametrize("door", ["libgit2", "binary"])
def test_r44_git_collects_garbage_between_any_two_records(repo: Sandbox, door: Door) -> None:
    j = journal(repo, door=door)
    for number in range(4):
        step_of(j, f"step{number}", f"text {number}")
        j.append(RUN, record("abort", "x"), trees={"orphan": tree(j.repo, {"torn": f"{number}"})})
        repo.git("gc", "-q", "--prune=now")
        if number == 2:
            repo.git("pack-refs", "--all", "--prune")
    for again in (j, journal(repo, door=door)):
        found = again.records(RUN)
        assert [logged.record.seq for logged in found] == list(range(12))
        assert verify(again, RUN).problems == ()
    first = j.records(RUN)[1]
    assert repo.git("cat-file", "-p", f"{first.parts['writes']}:out") == "text 0"
    repo.fsck()


@pytest.mark.deep
def test_a_lock_that_a_killed_process_left_is_waited_for_and_named(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch, pace=200)
    j = journal(repo)
    step_of(j, "a", "x")
    lock = repo.path / ".git" / f"{run_ref(RUN)}.lock"
    lock.touch()
    os.utime(lock, (time.time() + 3600, time.time() + 3600))  # it stays young
    with pytest.raises(BatonError, match="nothing is recorded: cannot update a ref"):
        j.append(RUN, record("gate", "b"))
    assert len(j.records(RUN)) == 2
    os.utime(lock, (1, 1))
    assert j.append(RUN, record("gate", "b")).record.seq == 2, "an old one is nobody's"


def test_a_record_and_what_it_names_are_one_pack_on_disk(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    j = journal(repo, door="binary")
    some = tree(j.repo, {"a": "text"})
    synced: list[str] = []
    fsync = os.fsync

    def noting(fd: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), (repo.path / ".git").resolve()))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noting)
    logged = j.append(RUN, record("gate", "a"), trees={"orphan": some})
    (pack,) = (repo.path / ".git/objects/pack").glob("*.idx")
    held = repo.git("show-index", stdin=pack.read_bytes())
    assert "objects/pack" in synced and all(oid in held for oid in (logged.commit, some, repo.git("rev-parse", f"{some}:a")))
    assert not (repo.path / ".git/objects" / logged.commit[:2] / logged.commit[2:]).exists()
    assert not list(pack.parent.glob("*.keep"))


@pytest.mark.deep
@pytest.mark.parametrize("door", ["libgit2", "binary"])
def test_r44_git_collects_while_the_ref_of_many_new_files_moves(repo: Sandbox, door: Door) -> None:
    """Without the ref git takes them for garbage, also those that lie in a pack, and at once."""
    for number in range(150):
        repo.write(f"d/{number}", str(number))
    with repo.open() as baton, closing(Files(baton.repo, os.fspath(repo.path))) as files:
        some = files.scan(["d/**"]).tree
    said = list[str]()

    def collected(_: Args) -> None:
        repo.git("repack", "-q", "-a", "-d")
        repo.git("prune", "--expire=now")
        said.append(repo.git("cat-file", "-t", some))

    for step in ("a", "b"):
        j = journal(repo, door=door)
        with at("os.posix_spawn", git_called("update-ref"), collected):
            j.append(RUN, record("gate", step), trees={"orphan": some})
        j.repo.close()
    assert said == ["tree", "tree"] and len(repo.tree(some)) == 150
    assert not list((repo.path / ".git/objects/pack").glob("*.keep"))
    repo.fsck()
