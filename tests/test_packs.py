"""Packs of our own: git finds nothing wrong with them, what is written is read, by any process, whatever git does meanwhile."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.errors import GitError
from gitbaton.git import keeping, maintenance, packfile, packs
from gitbaton.git.libgit2 import Libgit2Objects
from gitbaton.git.objects import Kind, RefChange
from gitbaton.git.packdelta import apply, delta
from gitbaton.git.packs import Packs
from gitbaton.git.repo import Door, discover
from gitbaton.git.run import write_all
from tests.support import Sandbox, examples

FORMATS = ("sha1", "sha256")
New = tuple[Kind, bytes, bytes]


def opened(repo: Sandbox, **options: int) -> Packs:
    return Packs(discover(str(repo.path)), **options)


def blobs(store: Packs, contents: Iterable[bytes]) -> list[New]:
    return [("blob", store.id("blob", data), data) for data in contents]


def trees(store: Packs, count: int, start: int = 0) -> list[New]:
    """A thread's objects as a saver makes them: of 8 channels one changes a step, and a list grows."""
    made: list[New] = []
    names = {f"c.{n}": store.id("blob", b"none") for n in range(8)}
    made += blobs(store, [b"none"])
    for step in range(start, start + count):
        one, grown = (
            f"value {step} ".encode() * 20,
            b"msgpack\0%05d" % step + b"".join(b"%05d" % n * 20 for n in range(step + 60)),
        )
        made += blobs(store, [one, grown])
        names |= {f"c.{step % 7}": store.id("blob", one), "c.7": store.id("blob", grown)}
        data = b"".join(b"100644 " + name.encode() + b"\0" + oid for name, oid in names.items())
        made.append(("tree", store.id("tree", data), data))
    return made


def commits(store: Packs, made: Sequence[New], parent: bytes | None = None) -> list[New]:
    """A chain of commits of the trees among the objects."""
    chain: list[New] = []
    for _, tree, _ in (item for item in made if item[0] == "tree"):
        above = b"parent " + parent.hex().encode() + b"\n" if parent else b""
        who = b"gitbaton <gitbaton@localhost> 1789000000 +0000"
        data = b"tree %b\n%bauthor %b\ncommitter %b\n\nstep\n" % (tree.hex().encode(), above, who, who)
        parent = store.id("commit", data)
        chain.append(("commit", parent, data))
    return chain


def folder(repo: Sandbox) -> Path:
    return Path(repo.git("rev-parse", "--path-format=absolute", "--git-path", "objects/pack"))


def names(repo: Sandbox, end: str) -> list[str]:
    return sorted(path.name for path in folder(repo).glob(f"*{end}"))


def judged(repo: Sandbox, made: Sequence[New]) -> None:
    """Git finds nothing wrong, and reads what was written."""
    repo.fsck()
    asked = "".join(f"{oid.hex()}\n" for _, oid, _ in made).encode()
    said = subprocess.run([repo.program, "cat-file", "--batch"], cwd=repo.path, input=asked, capture_output=True).stdout
    assert said == b"".join(b"%b %b %d\n%b\n" % (o.hex().encode(), k.encode(), len(d), d) for k, o, d in made)
    for pack in folder(repo).glob("pack-*.pack"):
        repo.git("index-pack", "--verify", str(pack))
        repo.git("verify-pack", "-v", str(pack))


def read_all(store: Packs, made: Sequence[New]) -> None:
    for kind, oid, data in made:
        assert store.read(oid) == (kind, data)


def use_new_git(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(request.getfixturevalue("new_git")) + os.pathsep + os.environ["PATH"])


@pytest.mark.parametrize("algorithm", FORMATS)
def test_git_reads_what_is_written(tmp_path: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packfile, "_FAR", 5000)  # as if the pack had more than 2 GiB
    repo = Sandbox.init(tmp_path / "repo", f"--object-format={algorithm}")
    store = opened(repo)
    made = trees(store, 60)
    made += commits(store, made) + blobs(store, [b"", b"x", os.urandom(300_000), b"y" * 5_000_000])
    kept = store.write(made)
    read_all(store, made)
    judged(repo, made)
    (pack,) = folder(repo).glob("*.pack")
    depths = [line.split()[5] for line in repo.git("verify-pack", "-v", str(pack)).splitlines() if len(line.split()) == 7]
    assert len(depths) > 90 and {"1", "31", "32"} <= set(depths)
    assert pack.stat().st_size < sum(len(d) for _, _, d in made[:-4]) / 10 + 320_000
    read_all(opened(repo), made)
    assert names(repo, ".keep") == [pack.with_suffix(".keep").name]
    kept.release()
    kept.release()
    assert names(repo, ".keep") == [] and oct(pack.stat().st_mode)[-3:] == "444"
    store.close()


kinds_of_change = st.lists(st.tuples(st.integers(0, 12_000), st.integers(0, 300), st.binary(max_size=300)), max_size=4)


@settings(deadline=None, max_examples=examples(1000, 60))
@given(st.binary(max_size=200), st.integers(1, 300), kinds_of_change)
def test_a_delta_makes_what_it_was_made_of(seed: bytes, times: int, changes: list[tuple[int, int, bytes]]) -> None:
    base = b"".join(b"%d" % n + seed for n in range(times))
    data = base
    for at, gone, new in changes:
        data = data[:at] + new + data[at + gone :]
    made = delta(base, data)
    assert made is None or (apply(base, made) == data and len(made) <= len(data) / 2)
    if not changes and len(base) > 20:
        assert made is not None
    for broken in (made or b"\x05\x05\x90", (made or b"")[:-1], base):
        with pytest.raises((ValueError, IndexError)):
            apply(base + b"!", broken)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[Sandbox]:
    place = tmp_path_factory.mktemp("both")
    return [Sandbox.init(place / name, "--bare", f"--object-format={name}") for name in FORMATS]


pieces = st.lists(
    st.tuples(st.sampled_from(("blob", "tree")), st.integers(0, 3), st.binary(max_size=60), st.integers(0, 900)), max_size=12
)


@settings(deadline=None, max_examples=examples(300, 12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces, st.booleans(), st.booleans())
def test_what_is_written_is_read(
    both: list[Sandbox], some: list[tuple[Kind, int, bytes, int]], named: bool, other: bool
) -> None:
    repo = both[other]
    store = opened(repo)
    made: list[tuple[Kind, bytes, bytes, bytes | None]] = []
    for kind, like, data, times in some:
        begin = made[like][2] if like < len(made) and made[like][0] == kind else b""
        whole = begin[: times * 8] + data * (times % 7) + begin[times * 8 :]
        base = made[like][1] if named and like < len(made) else None
        if kind == "tree":
            whole = b"".join(b"100644 %04d\0" % n + store.id("blob", b"%d" % (n * (n != times % 50))) for n in range(len(data)))
        made.append((kind, store.id(kind, whole), whole, base))
    with store.write(made):
        read_all(store, [item[:3] for item in made])
        again = opened(repo)
        read_all(again, [item[:3] for item in made])
        for pack in folder(repo).glob("*.pack") if made else ():
            repo.git("index-pack", "--verify", str(pack))
        assert store.has([item[1] for item in made]) == again.has([item[1] for item in made]) == set()
    for path in folder(repo).iterdir():
        path.unlink()
    for item in (store, again):
        item.close()


@pytest.mark.parametrize("shape", ["bare", "linked", "reftable", "libgit2-closed"])
def test_every_kind_of_repository(
    tmp_path: Path, shape: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shape == "reftable":
        use_new_git(request, monkeypatch)
        repo = Sandbox.init(tmp_path / "repo", "--ref-format=reftable")
    else:
        repo = Sandbox.init(tmp_path / "repo", *(["--bare"] if shape == "bare" else []))
    if shape == "linked":
        repo.commit("one", a="a")
        repo.git("worktree", "add", "-q", "../linked")
        repo = Sandbox(tmp_path / "linked")
    store = Packs(discover(str(repo.path), door="binary")) if shape == "libgit2-closed" else opened(repo)
    made = trees(store, 3)
    with store.write(made):
        assert len(names(repo, ".keep")) == 1
        judged(repo, made)
    again = opened(repo)
    read_all(again, made)
    absent = store.id("blob", b"absent")
    for item in (store, again):
        assert item.has([absent, made[0][1]]) == {absent}
        with pytest.raises(GitError, match=absent.hex()):
            item.read(absent)
        item.close()


@pytest.mark.parametrize("shared", ["group", "0640", "0666", "world", "false"])
def test_files_have_the_modes_that_git_gives_them(tmp_path: Path, shared: str) -> None:
    old = os.umask(0o077)
    try:
        repo = Sandbox.init(tmp_path / "repo", "--bare")
        repo.git("config", "core.sharedRepository", shared)
        theirs = Sandbox.init(tmp_path / "theirs", "--bare")
        theirs.git("config", "core.sharedRepository", shared)
        store = opened(repo)
        made = blobs(store, [b"x"])
        store.write(made)
        packing = packfile.Packing("sha1", made)
        theirs.git("index-pack", "--stdin", stdin=b"".join(packing.parts()))
    finally:
        os.umask(old)
    ours = {path.suffix: path.stat().st_mode for path in folder(repo).iterdir() if path.suffix in (".pack", ".idx")}
    assert ours == {path.suffix: path.stat().st_mode for path in folder(theirs).iterdir() if path.suffix in (".pack", ".idx")}
    store.close()


def test_objects_elsewhere_are_read(tmp_path: Path, repo: Sandbox) -> None:
    loose = repo.git("rev-parse", "HEAD:a.txt")
    with_pack = opened(repo)
    made = trees(with_pack, 2)
    with_pack.write(made).release()
    repo.run("git", "clone", "-q", "--shared", str(repo.path), str(tmp_path / "clone"), cwd=tmp_path)
    store = opened(Sandbox(tmp_path / "clone"))
    read_all(store, [*made, ("blob", bytes.fromhex(loose), b"one\n")])
    assert store.has([bytes.fromhex(loose), made[0][1]]) == set()
    for item in (store, with_pack):
        item.close()


@pytest.mark.parametrize("door", ["binary", "libgit2"])
def test_what_git_wrote_is_read(repo: Sandbox, door: Door) -> None:
    store = Packs(discover(str(repo.path), door=door), cache=0)
    made = trees(store, 30)
    packing = packfile.Packing("sha1", made)
    repo.git("unpack-objects", "-q", stdin=b"".join(packing.parts()))
    read_all(store, made)  # loose ones
    wanted = "".join(f"{oid.hex()}\n" for _, oid, _ in made).encode()
    repo.git("pack-objects", "-q", "--no-reuse-delta", ".git/objects/pack/pack", stdin=wanted)
    repo.git("prune-packed")
    read_all(store, made)
    (index,) = (path for path in folder(repo).glob("*.idx"))
    index.chmod(0o644)
    repo.git("index-pack", "--index-version=1", "-o", str(index) + ".1", str(index.with_suffix(".pack")))
    os.replace(str(index) + ".1", index)
    again = Packs(discover(str(repo.path), door=door), cache=0)
    read_all(again, made)
    newest = next(item for item in reversed(made) if item[0] == "blob" and len(item[2]) > 5000)
    base, data = made[0][2] * 1000, newest[2]
    thin = b"PACK\0\0\0\2\0\0\0\1" + packfile.head(7, len(change := b"".join(_as_delta(data, base))))
    thin += newest[1] + packfile.deflate(change)
    repo.git("index-pack", "--fix-thin", "--stdin", stdin=thin + packfile.hasher("sha1")(thin).digest())
    found: New = ("blob", store.id("blob", base), base)
    for item in (store, again, Packs(discover(str(repo.path), door=door), cache=0)):
        read_all(item, [found, *made])
        item.close()


def _as_delta(base: bytes, data: bytes) -> Iterable[bytes]:
    """A delta that takes nothing but one byte of its base."""
    for size in (len(base), len(data)):
        yield b"".join(bytes((size >> shift & 0x7F | 0x80,)) for shift in (0, 7, 14)) + b"\0"
    yield from (bytes((100,)) + data[at : at + 100] for at in range(0, len(data), 100))


def test_the_cache_is_bounded_and_remembers(repo: Sandbox) -> None:
    store = opened(repo, cache=1 << 20)
    many = blobs(store, (os.urandom(10_000) for _ in range(300)))
    for kind, oid, data in many:
        store.remember(oid, kind, data)
    here = [oid for _, oid, _ in many if oid in store._young or oid in store._old]
    assert 50 < len(here) < 105 and store.read(many[-1][1]) == ("blob", many[-1][2])
    with pytest.raises(GitError):
        store.read(many[0][1])
    store.remember(many[0][1], "blob", b"x" * (1 << 20))  # larger than may be kept
    assert many[0][1] not in store._young
    store.close()
    with pytest.raises(GitError):
        store.read(many[-1][1])


def test_what_is_broken_is_an_error_of_ours(repo: Sandbox) -> None:
    store = opened(repo, cache=0)
    made = trees(store, 40)
    store.write(made)
    (pack,) = folder(repo).glob("*.pack")
    pack.chmod(0o644)
    with open(pack, "r+b") as file:
        for at in range(12, pack.stat().st_size - 20, 31):
            file.seek(at)
            file.write(b"\xff")
    for kind, oid, data in made:
        try:
            assert store.read(oid) == (kind, data)
        except GitError as error:
            assert oid.hex() in error.message
    store.close()


# -- beside git ------------------------------------------------------------------------------------------------------------


def busy(commands: Sequence[Sequence[str]], repo: Sandbox, stop: threading.Event, wrong: list[str]) -> None:
    while not stop.is_set():
        for command in commands:
            done = repo.try_git(*command)
            if done.code:
                wrong.append(f"{command}: {done.err}")


@pytest.mark.parametrize("newer", [False, True])
def test_git_collects_and_packs_beside_us(
    tmp_path: Path, newer: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if newer:
        use_new_git(request, monkeypatch)
    repo = Sandbox.init(tmp_path / "repo", "--bare")
    store, stop = opened(repo), threading.Event()
    wrong: list[str] = []
    packing = (("repack", "-adq"), ("gc", "-q", "--prune=now"), ("repack", "-dq", "--geometric=2"))
    pruning = (("prune", "--expire=now"), ("pack-refs", "--all"))
    others = [threading.Thread(target=busy, args=(c, repo, stop, wrong)) for c in (packing, pruning)]
    for other in others:
        other.start()
    written: list[New] = []
    reader = opened(repo, cache=0)
    tip: bytes | None = None
    end = time.monotonic() + examples(20, 1)
    try:
        while time.monotonic() < end:
            made = trees(store, 3, len(written) // 10)
            made += commits(store, made, tip)
            with store.write(made):
                old, tip = tip, made[-1][1]
                store.repo.objects.update([_moved(tip, old)])
            written += made
            read_all(reader, written[:: max(1, len(written) // 40)])
    finally:
        stop.set()
        for other in others:
            other.join()
    assert len(written) > 100
    assert names(repo, ".keep") == [] and not any(re.match("tmp_[a-z]+_[0-9a-f]{12}$", n) for n in names(repo, ""))
    repo.git("gc", "-q", "--prune=now")
    judged(repo, written)
    read_all(reader, written)
    for item in (reader, store):
        item.close()


def _moved(new: bytes, old: bytes | None) -> RefChange:
    return RefChange(name="refs/baton/threads/t/_", new=new.hex(), old=old.hex() if old else None)


@pytest.mark.parametrize("newer", [False, True])
def test_past_many_packs_git_makes_fewer_of_them(
    tmp_path: Path, newer: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if newer:
        use_new_git(request, monkeypatch)
    repo = Sandbox.init(tmp_path / "repo", "--bare")
    store, reader = opened(repo), opened(repo, cache=0)
    written: list[New] = []
    for number in range(34):
        made = blobs(store, [b"%d" % number * 9])
        kept = store.write(made)
        if number:
            kept.release()
        written += made
        assert store.tidy() == (number == 33)
        read_all(reader, made)
    during = blobs(store, [b"during"])
    store.write(during)
    lock = os.path.join(store.repo.shared_dir, "repacking")
    with store.repo.lock((), of="repacking"):
        assert os.path.exists(lock)
    assert len(names(repo, ".pack")) == 3 and len(names(repo, ".keep")) == 2
    fresh = opened(repo)
    for item in (store, reader, fresh):
        read_all(item, written + during)
    judged(repo, written + during)
    for item in (store, reader, fresh):
        item.close()
    assert names(repo, ".keep") == []


def test_not_where_the_user_wants_no_packing(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "PACKS", 2)
    store = opened(repo)
    repo.git("config", "gc.auto", "0")
    for number in range(4):
        store.write(blobs(store, [b"%d" % number])).release()
    assert not store.tidy() and len(names(repo, ".pack")) == 4
    repo.git("config", "--unset", "gc.auto")
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


def test_killed_at_every_step_nothing_stays_but_what_git_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_DEAD", -1.0)
    repo = Sandbox.init(tmp_path / "repo", "--bare")
    store = opened(repo)
    made = trees(store, 5)

    def killed_at(step: int) -> int:
        left = [step]

        def counted(function: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object, **options: object) -> object:
                left[0] -= 1
                if not left[0]:
                    os._exit(9)
                return function(*args, **options)

            return call

        def work() -> None:
            for name in ("open", "rename", "fsync", "unlink"):
                setattr(os, name, counted(getattr(os, name)))
            monkeypatch.setattr(keeping, "write_all", counted(write_all))
            store.write(made)
            os._exit(0)

        return in_child(work)

    step, ends = 1, []
    while (code := killed_at(step)) == 9:
        ends.append(tuple(sorted(path.suffix for path in folder(repo).iterdir())))
        repo.fsck()
        again = opened(repo)
        assert names(repo, ".keep") == [] and len(names(repo, ".pack")) == len(names(repo, ".idx"))
        again.close()
        step += 1
    assert code == 0 and step > 9 and (".keep", ".pack") in [tuple(s for s in e if s) for e in ends]
    opened(repo).close()
    repo.git("gc", "-q", "--prune=now")
    assert [path.name for path in folder(repo).iterdir()] == []
    store.close()


def test_what_another_process_keeps_stays_while_it_runs(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_DEAD", -1.0)
    store = opened(repo)
    kept = store.write(blobs(store, [b"x"]))
    (folder(repo) / "pack-1.keep").write_text("a user's reason")
    (folder(repo) / "pack-2.keep").write_text("gitbaton 1 2.3 pid:[4]\n")
    opened(repo).close()
    assert len(names(repo, ".keep")) == 3
    os.utime(folder(repo) / "pack-2.keep", (1, 1))
    opened(repo).close()
    assert len(names(repo, ".keep")) == 2 and "pack-1.keep" in names(repo, ".keep")
    kept.release()
    store.close()


def test_a_forked_child_has_packs_of_its_own(tmp_path: Path) -> None:
    repo = Sandbox.init(tmp_path / "repo", "--object-format=sha256")
    store = opened(repo, cache=0)
    mine = blobs(store, [b"mine"])
    store.write(mine)
    other = opened(repo, cache=0)
    read_all(other, mine)  # its process of git's runs now

    def work() -> None:
        with other._lock:
            read_all(other, mine)
        theirs = blobs(store, [b"theirs"])
        store.write(theirs)
        read_all(store, mine + theirs)
        read_all(other, theirs)
        store.close()
        other.close()

    with store._lock, other._lock:
        assert in_child(work) == 0
    assert len(names(repo, ".keep")) == 1
    read_all(other, [*mine, ("blob", store.id("blob", b"theirs"), b"theirs")])
    other.close()
    store.close()
    assert names(repo, ".keep") == []


@pytest.mark.parametrize("at", range(1, 5))
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    repo = Sandbox.init(tmp_path / "repo", "--bare")
    store = opened(repo)
    made, left, real = trees(store, 3), [at], write_all

    def full(fd: int, data: bytes) -> None:
        left[0] -= 1
        if not left[0]:
            os.write(fd, data[:7])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(fd, data)

    monkeypatch.setattr(keeping, "write_all", full)
    if at < 4:
        with pytest.raises(GitError, match="a pack cannot be written: No space left on device"):
            store.write(made)
        assert list(folder(repo).iterdir()) == []
        with pytest.raises(GitError):
            store.read(made[0][1])
    store.write(made).release()
    read_all(store, made)
    store.close()


def test_git_takes_away_what_is_under_way(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(repo)
    made, real, left = trees(store, 3), os.fsync, [3]

    def pruned(fd: int) -> None:
        real(fd)
        if left[0]:
            left[0] -= 1
            repo.git("prune", "--expire=now")

    monkeypatch.setattr(os, "fsync", pruned)
    with store.write(made):
        judged(repo, made)
    store.close()


def test_many_threads_write_and_read(repo: Sandbox) -> None:
    store, wrong = opened(repo, cache=1 << 16), []

    def work(number: int) -> None:
        try:
            for turn in range(3):
                made = trees(store, 4, 50 * number + 10 * turn)
                with store.write(made):
                    read_all(store, made)
                assert store.has([oid for _, oid, _ in made]) == set()
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


def test_packs_past_those_that_are_known_are_read_too(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "_KNOWN", 20)
    store = opened(repo, cache=0)
    assert isinstance(store.repo.objects, Libgit2Objects)
    made = trees(store, 20)
    for number in range(0, len(made), 10):
        store.write([*made[number : number + 10], made[0]]).release()
    assert len(store._own) <= 20
    read_all(store, made)
    repo.git("gc", "-q", "--prune=now")
    read_all(store, made[-10:])  # git has done away with their files
    store.close()
