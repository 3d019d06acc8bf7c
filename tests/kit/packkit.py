"""What tests of packs share: objects as a saver makes them, and git as the judge of a store."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from gitbaton.git.objects import Kind
from gitbaton.git.packfile import New
from gitbaton.git.packs import Packs
from gitbaton.git.repo import discover
from gitbaton.langgraph.threads.codec import hasher
from tests.kit import Sandbox

__all__ = ["New"]


def opened(repo: Sandbox, **options: int) -> Packs:
    return Packs(discover(str(repo.path)), **options)


def oid_of(store: Packs, kind: Kind, data: bytes) -> bytes:
    """The id git gives to an object."""
    return hasher(store.algorithm)(kind, data)


def write(store: Packs, made: Iterable[New]) -> None:
    """Store objects that no ref names; any gc may remove them."""
    with store.written(made):
        return


def blobs(store: Packs, contents: Iterable[bytes]) -> list[New]:
    return [("blob", oid_of(store, "blob", data), data) for data in contents]


def trees(store: Packs, count: int, start: int = 0) -> list[New]:
    """A thread's objects as a saver makes them: of 8 channels one changes a step, and a list grows."""
    made: list[New] = []
    names = {f"c.{n}": oid_of(store, "blob", b"none") for n in range(8)}
    made += blobs(store, [b"none"])
    for step in range(start, start + count):
        one, grown = (
            f"value {step} ".encode() * 20,
            b"msgpack\0%05d" % step + b"".join(b"%05d" % n * 20 for n in range(step + 60)),
        )
        made += blobs(store, [one, grown])
        names |= {f"c.{step % 7}": oid_of(store, "blob", one), "c.7": oid_of(store, "blob", grown)}
        data = b"".join(b"100644 " + name.encode() + b"\0" + oid for name, oid in names.items())
        made.append(("tree", oid_of(store, "tree", data), data))
    return made


def commits(store: Packs, made: Sequence[New], parent: bytes | None = None) -> list[New]:
    """A chain of commits of the trees among the objects."""
    chain: list[New] = []
    for _, tree, _ in (item for item in made if item[0] == "tree"):
        above = b"parent " + parent.hex().encode() + b"\n" if parent else b""
        who = b"gitbaton <gitbaton@localhost> 1789000000 +0000"
        data = b"tree %b\n%bauthor %b\ncommitter %b\n\nstep\n" % (tree.hex().encode(), above, who, who)
        parent = oid_of(store, "commit", data)
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


def missing(store: Packs, oids: Sequence[bytes]) -> set[bytes]:
    """Those that are not in the repository, as its own door sees it."""
    found = store.repo.objects.read_many([oid.hex() for oid in oids], 0)
    return {oid for oid, item in zip(oids, found, strict=True) if item is None}


def use_new_git(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(request.getfixturevalue("new_git")) + os.pathsep + os.environ["PATH"])
