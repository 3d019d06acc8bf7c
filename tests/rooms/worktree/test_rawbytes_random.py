"""Random bytes under random conversions: a checkout and the kept bytes over it are what is on disk, and no more is kept."""

from __future__ import annotations

import random
import shutil

import pytest

from gitbaton.git.worktree.capture import capture, private_folder, with_raw
from gitbaton.git.worktree.untracked import CaptureRules
from tests.kit import Sandbox
from tests.kit.tiers import FULL
from tests.rooms.worktree.test_rawbytes import checked_out, git_bytes, held_bytes

ATTRIBUTES = (
    "* text=auto\n",
    "* text\n",
    "* text=auto eol=crlf\n",
    "* text eol=lf\n",
    "* -text\n",
    "* crlf\n",
    "* crlf=input\n*.b binary\n",
    "*.a ident\n*.b text\n",
    "*.a filter=lossy\n*.b text=auto filter=plain\n*.c filter=unknown\n",
    "*.a filter=lossy ident text eol=crlf\n",
    "*.a working-tree-encoding=UTF-16\n",
)
PIECES = (b"a\n", b"b\r\n", b"c\r", b"\0", b"$Id$\n", b"$Id: x $\n", b"secret\n", b"\xff\xfe", b"\xef\xbb\xbf", "ä\n".encode())
NAMES = tuple(f"{folder}{stem}.{end}" for folder in ("", "d/", "d/e/") for stem in "12" for end in "abc")


def configure(repo: Sandbox, dice: random.Random) -> None:
    """Filters, and perhaps line end settings and attributes in any of their places."""
    repo.git("config", "filter.lossy.clean", "sed -e /secret/d")
    repo.git("config", "filter.plain.clean", "cat")
    if dice.random() < 0.7:
        repo.git("config", "core.autocrlf", dice.choice(("true", "false", "input", "1", "yes")))
    if dice.random() < 0.3:
        repo.git("config", "core.eol", dice.choice(("crlf", "lf", "native")))
    if dice.random() < 0.7:
        repo.write(".gitattributes", dice.choice(ATTRIBUTES))
        repo.git("add", "-A")
    if dice.random() < 0.3:
        repo.write("d/.gitattributes", dice.choice(ATTRIBUTES))
    if dice.random() < 0.3:
        repo.git("config", "core.attributesFile", str(repo.write("../attributes", dice.choice(ATTRIBUTES))))


def check_everything_comes_back(repo: Sandbox) -> None:
    """Capture, with all paths examined: as bytes on disk, and nothing kept that a checkout gives back."""
    with repo.open() as baton, private_folder(baton.repo) as folder:
        captured, index, facts = capture(baton.repo, folder, CaptureRules(), set())
        objects = repo.path / ".git/objects"
        shutil.copytree(baton.repo.quarantine(), objects, dirs_exist_ok=True)  # where plain git finds them, too
        captured = with_raw(captured, index, facts, list(repo.tree(captured.tree)))
        shutil.copytree(baton.repo.quarantine(), objects, dirs_exist_ok=True)
    raw = {path: git_bytes(repo, "cat-file", "blob", oid) for path, _, oid in captured.kept.raw}
    held = {path: git_bytes(repo, "cat-file", "blob", oid) for path, _, oid in captured.kept.held}  # behind a filter
    raw |= {path: held_bytes(repo, stand_in) for path, stand_in in held.items()}
    there = checked_out(repo, captured.tree)
    for path, data in (there | raw).items():
        assert data == (repo.path / path).read_bytes(), path
    assert [path for path, data in raw.items() if there[path] == data] == []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(60 if FULL else 8))


@pytest.mark.full
def test_random_bytes(repo: Sandbox, seed: int) -> None:
    dice = random.Random(seed)
    configure(repo, dice)
    for _ in range(3):
        for name in NAMES:
            if dice.random() < 0.6:
                repo.write(name, b"".join(dice.choice(PIECES) for _ in range(dice.randrange(6))))
        if dice.random() < 0.4:
            repo.run("git", "add", "-A")  # may stop at an encoding that does not fit
        if dice.random() < 0.3:
            repo.run("git", "commit", "-qam", "more")
        check_everything_comes_back(repo)
