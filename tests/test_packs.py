"""Packs of our own: git finds nothing wrong with them, what is written is read, and git's collecting loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.errors import GitError
from gitbaton.git.packs import Packs
from gitbaton.git.repo import discover
from tests.support import Sandbox

FORMATS = ("sha1", "sha256")


@pytest.mark.parametrize("algorithm", FORMATS)
def test_what_is_written_is_read_by_us_and_by_git(tmp_path: Path, algorithm: str) -> None:
    repo = Sandbox.init(tmp_path / "repo", f"--object-format={algorithm}")
    packs = Packs(discover(str(repo.path)))
    contents = [b"", b"x", b"tree" * 5000, *(b"%d" % n for n in range(300))]
    objects = [("blob", packs.id("blob", data), data) for data in contents]
    kept = packs.write(objects)
    for _, oid, data in objects:
        assert packs.read(oid) == ("blob", data)

    repo.fsck()
    (pack,) = (repo.path / ".git/objects/pack").glob("*.pack")
    repo.git("index-pack", "--verify", str(pack))
    repo.git("verify-pack", "-v", str(pack))
    assert pack.with_suffix(".keep").exists()
    kept.release()
    assert not pack.with_suffix(".keep").exists()
    with pytest.raises(GitError):
        packs.read(b"x" * len(objects[0][1]))
    assert packs.has([objects[0][1], b"x" * len(objects[0][1])]) == {b"x" * len(objects[0][1])}
    packs.close()
