"""Carrying a mend out: put aside, write, then move refs; after a kill at any step the next mend goes on from what it finds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing

from gitbaton.baton import Baton
from gitbaton.errors import GitError, RefConflictError
from gitbaton.git.binary import BinaryObjects, clear_stale_locks
from gitbaton.git.loose import FEW, write_few
from gitbaton.git.objects import RefChange
from gitbaton.git.repo import Repo, put
from gitbaton.git.run import checked
from gitbaton.git.tornfiles import BROKEN, move
from gitbaton.git.tornrefs import lacks_end, packed_lines, put_file
from gitbaton.journal.chain import LOCK
from gitbaton.mending.values import UNFINISHED, Mend, Move
from gitbaton.store import newest
from gitbaton.system.files import sync_paths

_WAIT = 30.0


def apply(baton: Baton, mend: Mend) -> list[str]:
    """Carry out a mend; what could not be done comes back. Raises BatonError, OSError.

    Everything that is replaced lies in ``baton/broken/<time>/`` first. Torn objects go before others come in their place, since
    git writes over no file that is there; refs move last, each to a commit all of which is on disk.
    """
    repo, common, marks, said = baton.repo, baton.repo.layout.common_dir, mend.unfinished, list[str]()
    if mend.changes:
        place = os.path.join(repo.shared_dir, BROKEN, baton.clock().strftime("%Y%m%dT%H%M%S.%fZ"))
        marks = (*marks, os.path.join(place, UNFINISHED))
        put(repo, marks[-1], b"", sync=True)
        with repo.lock(tuple(m.name for m in mend.moves), wait=_WAIT), repo.lock((), wait=_WAIT, of=LOCK):
            newest.drop(repo)
            if mend.lines:  # git reads no ref while they are there
                clear_stale_locks(common, ("packed-refs",))
                put(repo, os.path.join(place, "packed-refs"), b"".join(mend.lines), sync=True)
                packed = packed_lines(repo)
                kept = [line + b"\n" * lacks_end(line) for line in packed if line not in mend.lines or lacks_end(line)]
                put_file(repo, "packed-refs", b"".join(kept), expected=b"".join(packed))
            for pack in mend.packs:
                checked(repo.git.run("index-pack", pack), "index-pack")
            for oid, path in mend.torn:
                move(repo, path, os.path.join(place, "objects", oid))
            git = repo.git.changed({}, "core.fsync=all", "core.fsyncMethod=fsync")
            with closing(BinaryObjects(git, repo.layout.git_dir, common, repo.layout.algorithm)) as door:
                for start in range(0, len(mend.objects), FEW):  # as files: git may think that a torn pack has them
                    write_few(door, mend.objects[start : start + FEW])
                written = [os.path.join(repo.objects_dir, item.oid[:2], item.oid[2:]) for item in mend.objects]
                sync_paths([*written, *sorted({os.path.dirname(path) for path in written})], missing=True)
                for path in mend.files:  # those of LATEST lie outside
                    move(repo, path, os.path.join(place, os.path.relpath(path, common).lstrip("./")))
                for name, lines in mend.logs:
                    with open(os.path.join(common, "logs", name), "rb") as file:
                        put(repo, os.path.join(place, "logs", name), file.read(), sync=True)
                    put_file(repo, f"logs/{name}", _joined(lines))
                for m in mend.moves:
                    said += _moved(repo, door, place, m)
    for mark in marks:
        if os.path.lexists(mark):
            os.unlink(mark)
    return said


def _moved(repo: Repo, door: BinaryObjects, place: str, m: Move) -> list[str]:
    """Move one ref; what is in the way comes back."""
    if m.raw is not None or m.old is not None:
        put(repo, os.path.join(place, m.name), m.raw if m.raw is not None else f"{m.old}\n".encode(), sync=True)
    try:
        if m.raw is not None and m.old is None:  # git neither reads nor moves a ref that holds no id
            put_file(repo, m.name, f"{m.new}\n".encode() if m.new is not None else None, m.raw)
        else:
            door.update([RefChange(name=m.name, new=m.new, old=m.old)])
    except (RefConflictError, GitError, OSError) as error:
        return [f"'{m.name}' is not moved: {error}"]
    return []


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)
