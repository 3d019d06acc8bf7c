"""What the capture tests share: git's own answer to what a work tree holds, and proof that the index was left alone."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gitbaton.base.model import Stored
from tests.kit import Sandbox

TRACK = "t"
CHAIN = f"refs/baton/tracks/{TRACK}"


@dataclass(frozen=True)
class Expect:
    """How a scenario is to be judged: what is skipped, and what the reference does beside a plain ``git add -A``.

    ``config`` are settings for it, ``reveal`` paths whose hiding bits it takes off, ``keep`` paths whose entries stay
    as they are staged, ``code`` its exit status. What is skipped as ``unfiltered`` is not held against the reference: a tracked
    file's entry is as it is staged, and any other's a stand-in.
    """

    skipped: Mapping[str, str] = field(default_factory=dict)
    config: Sequence[str] = ()
    reveal: Sequence[str] = ()
    keep: Sequence[str] = ()
    code: int = 0


def index_path(sandbox: Sandbox) -> Path:
    return sandbox.path / sandbox.git("rev-parse", "--git-path", "index")


def expected_tree(sandbox: Sandbox, expect: Expect = Expect(), *, source: Path | None = None) -> str:
    """The tree that ``git add -A`` makes on a private copy of the index; its objects go elsewhere and help nobody."""
    folder = sandbox.path.parent / f"reference-{len(list(sandbox.path.parent.iterdir()))}"
    objects = folder / "objects"
    objects.mkdir(parents=True)
    env = {
        "GIT_INDEX_FILE": str(folder / "index"),
        "GIT_OBJECT_DIRECTORY": str(objects),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": sandbox.git("rev-parse", "--path-format=absolute", "--git-path", "objects"),
        "GIT_OPTIONAL_LOCKS": "0",
    }
    for number, setting in enumerate(("core.splitIndex=false", *expect.config)):
        env[f"GIT_CONFIG_KEY_{number}"], env[f"GIT_CONFIG_VALUE_{number}"] = setting.split("=", 1)
        env["GIT_CONFIG_COUNT"] = str(number + 1)
    original = source or index_path(sandbox)
    if original.exists():
        shutil.copy2(original, folder / "index")
    staged = {path: sandbox.run("git", "ls-files", "-s", "-z", "--", f":(literal){path}", env=env).out for path in expect.keep}
    for path in expect.reveal:
        sandbox.git("update-index", "--no-assume-unchanged", "--", path, env=env)
        sandbox.git("update-index", "--no-skip-worktree", "--", path, env=env)
    done = sandbox.run("git", "add", "-A", "--ignore-errors", "--sparse", env=env)
    assert done.code == expect.code, done.err
    for path, entry in staged.items():
        gone = f"0 {'0' * len(sandbox.git('hash-object', '--stdin'))}\t{path}\0"
        sandbox.git("update-index", "-z", "--index-info", env=env, stdin=os.fsencode(gone + entry))
    take_out(sandbox, env, {path for path, reason in expect.skipped.items() if reason == "unfiltered"})
    return sandbox.git("write-tree", env=env)


def take_out(sandbox: Sandbox, env: Mapping[str, str], paths: Collection[str]) -> None:
    """Remove paths from an index."""
    none = "0" * len(sandbox.git("hash-object", "--stdin"))
    rows = "".join(f"0 {none}\t{path}\0" for path in paths)
    sandbox.git("update-index", "-z", "--index-info", env=env, stdin=os.fsencode(rows))


def without(sandbox: Sandbox, tree: str, paths: Collection[str]) -> str:
    """A tree without some paths."""
    env = {"GIT_INDEX_FILE": str(sandbox.path.parent / f"without-{len(list(sandbox.path.parent.iterdir()))}")}
    sandbox.git("read-tree", tree, env=env)
    take_out(sandbox, env, paths)
    return sandbox.git("write-tree", env=env)


def state(index: Path) -> tuple[bytes, int, int] | None:
    if not index.exists():
        return None
    found = index.stat()
    return index.read_bytes(), found.st_ino, found.st_mtime_ns


def git_files(sandbox: Sandbox) -> set[str]:
    top = sandbox.path / sandbox.git("rev-parse", "--git-dir")
    return {str(p.relative_to(top)) for p in top.rglob("*")}


@contextmanager
def untouched(sandbox: Sandbox) -> Iterator[None]:
    """The index keeps its bytes, inode and mtime, and nothing named like it or its lock is made meanwhile."""
    index = index_path(sandbox)
    before = state(index)
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    created_or_moved_in = 0x100 | 0x80
    assert libc.inotify_add_watch(watch, os.fsencode(index.parent), created_or_moved_in) >= 0
    try:
        yield
        try:
            events = os.read(watch, 1 << 16)
        except BlockingIOError:
            events = b""
    finally:
        os.close(watch)
    assert b"index" not in events, events
    assert state(index) == before


def snap(sandbox: Sandbox, **words: Any) -> Stored:
    """A snapshot, during which nothing of the index changes; what the chain holds is what the JSON says."""
    with untouched(sandbox), sandbox.open() as baton:
        stored = baton.snapshot("step", track=TRACK, **words).stored
    assert sandbox.git("rev-parse", CHAIN) == stored.commit
    assert sandbox.git("rev-parse", f"{CHAIN}^{{tree}}") == stored.tree
    return stored


def skipped(stored: Stored) -> dict[str, str]:
    assert stored.checkpoint.files is not None
    return {s.path: s.reason for s in stored.checkpoint.files.skipped}


def flags(stored: Stored) -> dict[str, str]:
    assert stored.checkpoint.files is not None
    return {f.path: f.bits for f in stored.checkpoint.files.index.flags}


def difference(sandbox: Sandbox, one: str, other: str) -> str:
    return sandbox.run("git", "diff-tree", "-r", "--no-renames", one, other).out


def check(sandbox: Sandbox, expect: Expect = Expect()) -> Stored:
    """Take a snapshot and hold it against git; the object store must be whole afterwards."""
    held = {path for path, reason in expect.skipped.items() if reason == "unfiltered"}
    wanted = expected_tree(sandbox, expect)
    stored = snap(sandbox)
    if held:
        assert without(sandbox, stored.tree, held) == wanted
        for path in held:
            row = sandbox.run("git", "ls-files", "-s", "-z", "--", f":(literal){path}").out
            text = sandbox.run("git", "cat-file", "blob", f"{stored.commit}:{path}").out
            there = sandbox.git("rev-parse", f"{stored.commit}:{path}")
            assert (row and row.split()[1] == there) or text.startswith("gitbaton held 1\n"), (path, text)
    else:
        assert stored.tree == wanted, difference(sandbox, wanted, stored.tree) or sandbox.git("ls-tree", "-r", stored.tree)
    assert skipped(stored) == dict(expect.skipped)
    sandbox.git("rev-list", "--objects", CHAIN, "--not", "--branches")
    return stored


def submodule(sandbox: Sandbox, name: str) -> Sandbox:
    """A submodule, committed; its own repository beside the sandbox."""
    upstream = Sandbox.init(sandbox.path.parent / f"{name}-upstream")
    upstream.commit("first", s_txt="one\n")
    sandbox.git("submodule", "--quiet", "add", str(upstream.path), name)
    sandbox.git("commit", "-qm", "submodule")
    return Sandbox(sandbox.path / name)


def without_privilege(*argv: str) -> list[str] | None:
    """A command line that permissions bind, also when the tests run as root; None where that cannot be had."""
    if os.geteuid() != 0:
        return list(argv)
    lesser = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
    try:
        probe = subprocess.run([*lesser, "true"], capture_output=True)
    except OSError:
        return None
    return [*lesser, *argv] if probe.returncode == 0 else None


@contextmanager
def git_elsewhere(sandbox: Sandbox) -> Iterator[None]:
    """Let the git directory be on another file system than the work tree; the test is skipped where there is only one."""
    here = sandbox.path.stat().st_dev
    others = (Path(name) for name in ("/dev/shm", "/var/tmp", "/tmp") if os.access(name, os.W_OK))
    place = next((p for p in others if p.stat().st_dev != here), None)
    if place is None:
        pytest.skip("one file system for all")
    top = place / f"gitbaton-elsewhere-{os.getpid()}"
    try:
        shutil.move(sandbox.path / ".git", top)
        sandbox.write(".git", f"gitdir: {top}\n")
        yield
    finally:
        shutil.rmtree(top, ignore_errors=True)
