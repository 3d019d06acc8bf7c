"""Files of a work tree put, seen and swapped by tests."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gitbaton.git.objects import NewObject, new_object
from gitbaton.git.repo import Repo
from gitbaton.git.worktree.filesets import FileEntry, swap
from tests.kit.processes import in_child

CALLS = {"x86_64": {"linkat": 265, "renameat2": 316}, "aarch64": {"linkat": 37, "renameat2": 276}}
State = dict[str, tuple[str, bytes]]  # path -> mode and bytes; what is on disk, or is to be


def put(top: Path, path: str, what: tuple[str, bytes] | None) -> None:
    """Somebody's edit: in place or by rename; whatever is in its way goes."""
    full = top / path
    for above in [*full.relative_to(top).parents][-2::-1]:
        if (top / above).is_symlink() or (top / above).is_file():
            (top / above).unlink()
    if full.is_dir() and not full.is_symlink():
        shutil.rmtree(full)
    if what is None:
        full.unlink(missing_ok=True)
        return
    full.parent.mkdir(parents=True, exist_ok=True)
    if what[0] == "120000" or full.is_symlink():
        full.unlink(missing_ok=True)
    if what[0] == "120000":
        full.symlink_to(os.fsdecode(what[1]))
    else:
        full.write_bytes(what[1])
        full.chmod(0o755 if what[0] == "100755" else 0o644)


def disk(top: Path) -> State:
    found: State = {}
    for folder, folders, names in os.walk(top):
        folders[:] = [n for n in folders if n != ".git" and not os.path.islink(os.path.join(folder, n))]
        links = [n for n in os.listdir(folder) if os.path.islink(os.path.join(folder, n))]
        for name in {*names, *links}:
            full = Path(folder, name)
            path = os.fspath(full.relative_to(top))
            if full.is_symlink():
                found[path] = ("120000", os.fsencode(os.readlink(full)))
            else:
                mode = "100755" if full.stat().st_mode & 0o100 else "100644"
                found[path] = (mode, full.read_bytes())
    return found


class Coarse:
    """What ``os.scandir`` gives, or an entry of it, with coarse times."""

    def __init__(self, real: Any, stat: Callable[[os.stat_result], os.stat_result]) -> None:
        self.real, self.coarse = real, stat

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __iter__(self) -> Iterator[Coarse]:
        return (Coarse(entry, self.coarse) for entry in self.real)

    def __next__(self) -> Coarse:
        return Coarse(next(self.real), self.coarse)

    def __enter__(self) -> Coarse:
        return self

    def __exit__(self, *_: object) -> None:
        self.real.close()

    def stat(self, **words: Any) -> os.stat_result:
        return self.coarse(self.real.stat(**words))


def coarse(monkeypatch: pytest.MonkeyPatch, step: int = 20_000_000) -> None:
    """As where a file system keeps times in steps of so many nanoseconds; never a whole second, as where it keeps no others."""

    def seen(found: os.stat_result) -> os.stat_result:
        times = {name: getattr(found, name) // step * step + 1 for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")}
        return os.stat_result(tuple(found), times)

    lstat, fstat, scandir = os.lstat, os.fstat, os.scandir
    monkeypatch.setattr(os, "lstat", lambda *args, **words: seen(lstat(*args, **words)))
    monkeypatch.setattr(os, "fstat", lambda fd: seen(fstat(fd)))
    monkeypatch.setattr(os, "scandir", lambda *args: Coarse(scandir(*args), seen))


def without_calls(calls: Mapping[str, int], work: Callable[[], object]) -> int:
    """Do something in a process whose system calls are refused with an error, as where the system does not have them; its exit
    status, which is 0 where nothing was raised."""
    known = CALLS.get(os.uname().machine) if sys.platform == "linux" else None
    if known is None:
        pytest.skip("seccomp is Linux's, and the numbers of calls are known for x86_64 and aarch64")

    def inside() -> None:
        filters = [(0x20, 0, 0, 0)]  # look at the number of the call
        for name, error in calls.items():
            filters += [(0x15, 0, 1, known[name]), (0x06, 0, 0, 0x50000 | error)]
        filters.append((0x06, 0, 0, 0x7FFF0000))  # all others are allowed
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in filters))
        libc, all_of_it = ctypes.CDLL(None), struct.pack("HP", len(filters), ctypes.addressof(program))
        assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, all_of_it) == 0  # no new privileges; seccomp
        work()

    return in_child(inside)


class Kit:
    """Entries for contents, whose blobs are in the store."""

    def __init__(self, opened: Repo) -> None:
        self.opened, self.top = opened, Path(opened.layout.root or "")
        self.blobs: dict[bytes, NewObject] = {}

    def entry(self, path: str, what: tuple[str, bytes]) -> FileEntry:
        blob = self.blobs.get(what[1])
        if blob is None:
            blob = self.blobs[what[1]] = new_object("sha1", "blob", what[1])
            self.opened.objects.write([blob])
        return FileEntry(path=path, mode=what[0], oid=blob.oid)

    def entries(self, state: State) -> dict[str, FileEntry]:
        return {path: self.entry(path, what) for path, what in state.items()}

    def swap(self, changes: dict[str, tuple[str, bytes] | None], expect: State, **words: Any) -> tuple[str, ...]:
        wanted = {path: what and self.entry(path, what) for path, what in changes.items()}
        return swap(self.opened, os.fspath(self.top), wanted, self.entries(expect), **words)
