"""Pack keeps: what killed processes left of packs that they kept, or were making."""

from __future__ import annotations

import os
import time

from gitbaton.git.publish import ELSEWHERE, WORD, WORKSHOP, space
from gitbaton.git.repo import Repo
from gitbaton.system import groups
from gitbaton.system.files import remove_folder

_DEAD = 60.0  # seconds after which what a process that has ended kept is kept no longer
_FOREIGN = 86_400.0  # as much for one of another machine, or of another time of this one: nothing is known of it
_LEFTOVER = 3600.0  # seconds after which nobody works in a folder where packs are made


def clean(repo: Repo) -> None:
    """Let go of packs whose writer has ended before it released them, and remove what it did not finish. Never raises."""
    for path in left(repo):
        whole = path.removesuffix(".keep")
        if not os.path.exists(whole + ".idx"):
            _remove(whole + ".pack")
        _remove(path)
    for parent, start in ((os.path.join(repo.own_dir, "tmp"), WORKSHOP), (repo.objects_dir, ELSEWHERE + WORKSHOP)):
        try:
            for name in os.listdir(parent):
                path = os.path.join(parent, name)
                if name.startswith(start) and time.time() - os.stat(path).st_mtime > _LEFTOVER:
                    remove_folder(path)
        except OSError:
            continue


def left(repo: Repo) -> list[str]:
    """The files that keep packs for processes that have ended. Never raises."""
    try:
        folder = os.path.join(repo.objects_dir, "pack")
        paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".keep")]
    except OSError:
        return []
    return sorted(path for path in paths if _left(path))


def _left(path: str) -> bool:
    """Whether a file that keeps a pack is ours, and nobody's any more."""
    try:
        with open(path, "rb") as file:
            word, pid, start, where = file.read(512).decode("utf-8", "replace").split()
            age = time.time() - os.fstat(file.fileno()).st_mtime
        if word != WORD or not pid.isdecimal():
            return False
        here = where == space() and start.rpartition(".")[2] == (groups.mark(os.getpid()) or "").rpartition(".")[2]
        return age > _FOREIGN if not here else age > _DEAD and groups.mark(int(pid)) != start
    except (OSError, ValueError):
        return False


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
