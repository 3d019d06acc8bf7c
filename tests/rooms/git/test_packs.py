"""Packs of our own: git finds nothing wrong with them, and what is written is read in every kind of repository."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import GitError
from gitbaton.git import packfile
from gitbaton.git.objects import Kind, digest
from gitbaton.git.packfile import stream
from gitbaton.git.packs import Packs
from gitbaton.git.repo import Door, discover
from tests.kit import Sandbox, examples
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
from tests.kit.tiers import some

FORMATS = ("sha1", "sha256")


@pytest.mark.deep
@some("algorithm", FORMATS)
def test_git_reads_what_is_written(tmp_path: Path, algorithm: str) -> None:
    repo = Sandbox.init(tmp_path / "repo", f"--object-format={algorithm}")
    store = opened(repo)
    made = trees(store, 60)
    made += commits(store, made) + blobs(store, [b"", b"x", os.urandom(300_000), b"y" * 5_000_000])
    with store.written(made):
        read_all(store, made)
        judged(repo, made)
        (pack,) = folder(repo).glob("*.pack")
        lines = [line.split() for line in repo.git("verify-pack", "-v", str(pack)).splitlines()]
        depths = [words[5] for words in lines if len(words) == 7]
        assert len(depths) > 90 and {"1"} <= set(depths) <= {str(n) for n in range(9)}
        assert pack.stat().st_size < sum(len(d) for _, _, d in made[:-4]) / 10 + 320_000
        read_all(opened(repo), made)
        assert names(repo, ".keep") == [pack.with_suffix(".keep").name]
    assert names(repo, ".keep") == [] and oct(pack.stat().st_mode)[-3:] == "444"
    store.close()


@some("algorithm", FORMATS)
def test_what_is_large_is_deflated_once_or_not_at_all(tmp_path: Path, algorithm: Any) -> None:
    """In packs that git takes for its own, and goes on with."""
    repo = Sandbox.init(tmp_path / "repo", "--bare", f"--object-format={algorithm}")
    store = opened(repo)
    text = b" ".join(b"%d" % (number * number) for number in range(1 << 18))
    dense = [os.urandom((1 << 20) + number) for number in (0, 1, (1 << 20) + 7)]
    plain = [text, text[: 1 << 20], b"y" * (5 << 20), b"y"]
    made = blobs(store, [*dense, *plain])
    packs = packfile.put_packs(os.fspath(folder(repo)), algorithm, made, packfile.deflated, int, most=3 << 20)
    judged(repo, made)
    read_all(store, made)
    rows = [line.split() for name in packs for line in verified(repo, folder(repo) / f"pack-{name}.pack")]
    stored = {bytes.fromhex(row[0]): int(row[3]) for row in rows}
    assert len(packs) == 4 and stored.keys() == {oid for _, oid, _ in made} and {len(row) for row in rows} == {5}
    for (_, oid, data), is_dense in zip(made, [True] * 3 + [False] * 4, strict=True):
        assert len(data) < stored[oid] < len(data) + 1000 if is_dense else stored[oid] < 0.7 * len(data) + 20
    repo.git("repack", "-q", "-d", "-l", "--geometric=2")
    judged(repo, made)
    store.close()


@pytest.mark.deep
def test_what_is_large_has_a_pack_of_its_own(tmp_path: Path) -> None:
    """What is small beside it is packed by git, as a delta where it can; and all comes at once, or not."""
    repo = Sandbox.init(tmp_path / "repo", "--bare")
    store = opened(repo)
    made = blobs(store, [b"y" * packfile.LARGE, b"z" * (packfile.LARGE - 1)]) + trees(store, 40)
    with store.written(made):
        judged(repo, made)
        found = {path: len(verified(repo, path)) for path in folder(repo).glob("*.pack")}
        assert sorted(found.values()) == [1, len(made) - 1] and len(names(repo, ".keep")) == 2
    assert names(repo, ".keep") == [] and {oct(path.stat().st_mode)[-3:] for path in folder(repo).glob("pack-*")} == {"444"}
    with store.written(made[:1]):
        assert len(names(repo, ".pack")) == 3 and missing(store, [oid for _, oid, _ in made]) == set()
    store.close()


def verified(repo: Sandbox, pack: Path) -> list[str]:
    """What git says of each object of a pack."""
    return [line for line in repo.git("verify-pack", "-v", str(pack)).splitlines() if " blob " in line or " tree " in line]


@pytest.mark.parametrize("most", [1 << 18, 1])
def test_a_pack_of_a_moment_comes_in_several(tmp_path: Path, most: int) -> None:
    """Places in its index have 32 bits."""
    repo = Sandbox.init(tmp_path / "repo", "--bare")
    store = opened(repo)
    made = blobs(store, (b"%02d" % number * (10 << 10) for number in range(40)))
    packfile.put_packs(os.fspath(folder(repo)), "sha1", made, packfile.plain, int, most)
    assert len(names(repo, ".pack")) == (4 if most > 1 else 40)
    judged(repo, made)
    store.close()


@pytest.mark.full
def test_more_than_one_pack_of_a_moment_holds(tmp_path: Path) -> None:
    """Places in an index have 31 or 32 bits: what is more than 2 GiB comes in several packs."""
    repo = Sandbox.init(tmp_path / "repo", "--bare")
    store = opened(repo)
    made = blobs(store, (bytes([number]) * (3 << 28) for number in range(3)))
    write(store, made)
    assert len(names(repo, ".pack")) == 2
    assert missing(store, [oid for _, oid, _ in made]) == set()
    repo.fsck()
    store.close()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[Sandbox]:
    place = tmp_path_factory.mktemp("both")
    return [Sandbox.init(place / name, "--bare", f"--object-format={name}") for name in FORMATS]


pieces = st.lists(
    st.tuples(st.sampled_from(("blob", "tree")), st.integers(0, 3), st.binary(max_size=60), st.integers(0, 900)), max_size=40
)


@pytest.mark.deep
@settings(deadline=None, max_examples=examples(300, 12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces, st.booleans())
def test_what_is_written_is_read(both: list[Sandbox], some: list[tuple[Kind, int, bytes, int]], other: bool) -> None:
    repo = both[other]
    store = opened(repo)
    made: list[New] = []
    for kind, like, data, times in some:
        begin = made[like][2] if like < len(made) and made[like][0] == kind else b""
        whole = begin[: times * 8] + data * (times % 7) + begin[times * 8 :]
        if kind == "tree":
            whole = b"".join(
                b"100644 %04d\0" % n + oid_of(store, "blob", b"%d" % (n * (n != times % 50))) for n in range(len(data))
            )
        made.append((kind, oid_of(store, kind, whole), whole))
    with store.written(made):
        read_all(store, made)
        again = opened(repo)
        read_all(again, made)
        for pack in folder(repo).glob("*.pack") if made else ():
            repo.git("index-pack", "--verify", str(pack))
        assert missing(store, [item[1] for item in made]) == missing(again, [item[1] for item in made]) == set()
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
    with store.written(made):
        assert len(names(repo, ".keep")) == 1
        judged(repo, made)
    again = opened(repo)
    read_all(again, made)
    absent = oid_of(store, "blob", b"absent")
    for item in (store, again):
        assert missing(item, [absent, made[0][1]]) == {absent}
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
        write(store, made)
        theirs.git("index-pack", "--stdin", stdin=stream("sha1", made))
    finally:
        os.umask(old)
    ours = {path.suffix: path.stat().st_mode for path in folder(repo).iterdir() if path.suffix in (".pack", ".idx")}
    assert ours == {path.suffix: path.stat().st_mode for path in folder(theirs).iterdir() if path.suffix in (".pack", ".idx")}
    store.close()


def test_objects_elsewhere_are_read(tmp_path: Path, repo: Sandbox) -> None:
    loose = repo.git("rev-parse", "HEAD:a.txt")
    with_pack = opened(repo)
    made = trees(with_pack, 2)
    write(with_pack, made)
    repo.run("git", "clone", "-q", "--shared", str(repo.path), str(tmp_path / "clone"), cwd=tmp_path)
    store = opened(Sandbox(tmp_path / "clone"))
    read_all(store, [*made, ("blob", bytes.fromhex(loose), b"one\n")])
    assert missing(store, [bytes.fromhex(loose), made[0][1]]) == set()
    for item in (store, with_pack):
        item.close()


@pytest.mark.deep
@pytest.mark.parametrize("door", ["binary", "libgit2"])
def test_what_git_wrote_is_read(repo: Sandbox, door: Door) -> None:
    store = Packs(discover(str(repo.path), door=door), cache=0)
    made = trees(store, 30)
    repo.git("unpack-objects", "-q", stdin=stream("sha1", made))
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
    change = b"".join(_as_delta(data, base))  # of an object that is not in the pack
    size = bytes((7 << 4 | len(change) & 15 | 0x80, len(change) >> 4 & 0x7F | 0x80, len(change) >> 11))
    thin = b"PACK\0\0\0\2\0\0\0\1" + size + newest[1] + zlib.compress(change)
    repo.git("index-pack", "--fix-thin", "--stdin", stdin=thin + digest("sha1", thin))
    found: New = ("blob", oid_of(store, "blob", base), base)
    for item in (store, again, Packs(discover(str(repo.path), door=door), cache=0)):
        read_all(item, [found, *made])
        assert item.read(found[1]) == ("blob", base)
        item.close()


def _as_delta(base: bytes, data: bytes) -> Iterable[bytes]:
    """A delta that takes nothing but one byte of its base."""
    for size in (len(base), len(data)):
        yield b"".join(bytes((size >> shift & 0x7F | 0x80,)) for shift in (0, 7, 14)) + b"\0"
    yield from (bytes((100,)) + data[at : at + 100] for at in range(0, len(data), 100))


def test_the_cache_is_bounded_and_remembers(repo: Sandbox) -> None:
    """What is in no repository can only be read from memory."""
    store = opened(repo, cache=1 << 20)
    many = blobs(store, (os.urandom(10_000) for _ in range(300)))
    for kind, oid, data in many:
        store.remember(oid, kind, data)
    read_all(store, many[:-51:-1])
    large = ("blob", oid_of(store, "blob", b"x"), b"x" * (1 << 20))
    store.remember(large[1], "blob", large[2])
    for _, oid, _ in (many[0], many[-106], large):
        with pytest.raises(GitError):
            store.read(oid)
    store.close()
    with pytest.raises(GitError):
        store.read(many[-1][1])


def test_what_is_broken_is_an_error_of_ours(repo: Sandbox) -> None:
    store = opened(repo, cache=0)
    made = trees(store, 40)
    write(store, made)
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


def test_what_the_objects_raise_is_raised_and_nothing_is_stored(repo: Sandbox) -> None:
    store = opened(repo)
    made = trees(store, 20)

    def broken() -> Iterable[New]:
        yield from made[:40]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"), store.written(broken()):
        pytest.fail("the objects were not all there")
    assert not folder(repo).exists() or names(repo, "") == []
    write(store, made)
    judged(repo, made)
    store.close()
