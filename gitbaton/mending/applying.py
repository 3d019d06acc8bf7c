"""Carrying a mend out: put aside, write, then move refs; after a kill at any step the next mend goes on from what it finds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime

from gitbaton.baton import Baton
from gitbaton.errors import GitError, RefConflictError
from gitbaton.git.binary import BinaryObjects, clear_stale_locks
from gitbaton.git.loose import FEW, write_few
from gitbaton.git.objects import RefChange
from gitbaton.git.repo import Repo
from gitbaton.git.tornfiles import BROKEN, index_pack, keep_copy, move, sync_objects
from gitbaton.git.tornrefs import put_log, put_ref, without_lines
from gitbaton.journal.chain import LOCK
from gitbaton.mending.values import UNFINISHED, Mend, Move
from gitbaton.store import newest

_WAIT = 30.0


def folder_of(repo: Repo, now: datetime) -> str:
    """Where what is put aside at a moment lies."""
    return os.path.join(repo.shared_dir, BROKEN, now.strftime("%Y%m%dT%H%M%S.%fZ"))


def apply(baton: Baton, mend: Mend) -> list[str]:
    """Carry out a mend; what could not be done comes back. Raises BatonError, OSError.

    Everything that is replaced lies in ``baton/broken/<time>/`` first. Torn objects go before others come in their place, since
    git writes over no file that is there; refs move last, each to a commit all of which is on disk.
    """
    repo = baton.repo
    if not mend.changes:
        _end(mend.unfinished)
        return []
    place = folder_of(repo, baton.clock())
    mark = os.path.join(place, UNFINISHED)
    keep_copy(repo, mark, b"")
    names = tuple(m.name for m in mend.moves)
    with repo.lock(names, wait=_WAIT), repo.lock((), wait=_WAIT, of=LOCK):
        newest.drop(repo)
        if mend.lines:  # git reads no ref while they are there
            clear_stale_locks(repo.layout.common_dir, ("packed-refs",))
            keep_copy(repo, os.path.join(place, "packed-refs"), b"".join(line + b"\n" for line in mend.lines))
            without_lines(repo, mend.lines)
        for pack in mend.packs:
            index_pack(repo, pack)
        for oid, path in mend.torn:
            move(path, os.path.join(place, "objects", oid))
        common = repo.layout.common_dir
        git = repo.git.changed({}, "core.fsync=all", "core.fsyncMethod=fsync")
        door = BinaryObjects(git, repo.layout.git_dir, common, repo.layout.algorithm)
        try:
            for start in range(0, len(mend.objects), FEW):  # as files, also where a damaged pack makes git think they are there
                write_few(door, mend.objects[start : start + FEW])
            sync_objects(repo, [item.oid for item in mend.objects])
            for path in mend.files:
                move(path, os.path.join(place, os.path.relpath(path, common)))
            for name, lines in mend.logs:
                _put_log(repo, place, name, lines)
            said = [text for m in mend.moves for text in _moved(repo, door, place, m)]
            _end((*mend.unfinished, mark))
            return said
        finally:
            door.close()


def _end(marks: Iterable[str]) -> None:
    """Take the marks of mends away that were begun and are ended."""
    for mark in marks:
        if os.path.lexists(mark):
            os.unlink(mark)


def _put_log(repo: Repo, place: str, name: str, lines: tuple[bytes, ...]) -> None:
    path = os.path.join(repo.layout.common_dir, "logs", *name.split("/"))
    with open(path, "rb") as file:
        keep_copy(repo, os.path.join(place, "logs", *name.split("/")), file.read())
    put_log(repo, name, lines)


def _moved(repo: Repo, door: BinaryObjects, place: str, m: Move) -> list[str]:
    """Move one ref; what is in the way comes back."""
    kept = m.raw if m.raw is not None else f"{m.old}\n".encode() if m.old is not None else b""
    if m.raw is not None or m.old is not None:
        keep_copy(repo, os.path.join(place, *m.name.split("/")), kept)
    try:
        if m.raw is not None and m.old is None:  # git neither reads nor moves a ref that holds no id
            put_ref(repo, m.name, m.new, m.raw)
        else:
            door.update([RefChange(name=m.name, new=m.new, old=m.old)])
    except (RefConflictError, GitError, OSError) as error:
        return [f"'{m.name}' is not moved: {error}"]
    return []
