"""Files of a work tree put, seen and swapped by tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitbaton.git.objects import NewObject, new_object
from gitbaton.git.repo import Repo
from gitbaton.worktree.filesets import Entry, swap

STEP = 20_000_000
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


def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a file system keeps times in steps of 20 ms."""

    def seen(call: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def stat(*args: Any, **words: Any) -> os.stat_result:
            found = call(*args, **words)
            times = {name: getattr(found, name) // STEP * STEP for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")}
            return os.stat_result(tuple(found), times)

        return stat

    for name in ("lstat", "fstat"):
        monkeypatch.setattr(os, name, seen(getattr(os, name)))


class Kit:
    """Entries for contents, whose blobs are in the store."""

    def __init__(self, opened: Repo) -> None:
        self.opened, self.top = opened, Path(opened.layout.root or "")
        self.blobs: dict[bytes, NewObject] = {}

    def entry(self, path: str, what: tuple[str, bytes]) -> Entry:
        blob = self.blobs.get(what[1])
        if blob is None:
            blob = self.blobs[what[1]] = new_object("sha1", "blob", what[1])
            self.opened.objects.write([blob])
        return Entry(path=path, mode=what[0], oid=blob.oid)

    def entries(self, state: State) -> dict[str, Entry]:
        return {path: self.entry(path, what) for path, what in state.items()}

    def swap(self, changes: dict[str, tuple[str, bytes] | None], expect: State, **words: Any) -> tuple[str, ...]:
        wanted = {path: what and self.entry(path, what) for path, what in changes.items()}
        return swap(self.opened, os.fspath(self.top), wanted, self.entries(expect), **words)
