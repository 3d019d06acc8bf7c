"""Find torn loose objects, as a power cut leaves them, and move them out of git's way: git takes any file for the object."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress

from gitbaton.git.ownfiles import make_folder
from gitbaton.git.repo import Repo

PLACE = "broken"  # in our folder of the common directory, in a folder by the time: what was moved away
_CHUNK = 1 << 20
_HEX = frozenset("0123456789abcdef")


def torn(repo: Repo) -> Iterator[str]:
    """The paths of loose objects that are not whole: empty, cut short, or no zlib stream of the size they name."""
    for folder in sorted(os.listdir(repo.objects_dir)):
        if len(folder) == 2 and _HEX.issuperset(folder):
            for name in sorted(os.listdir(os.path.join(repo.objects_dir, folder))):
                path = os.path.join(repo.objects_dir, folder, name)
                if _HEX.issuperset(name) and not is_whole(path):
                    yield path


def is_whole(path: str) -> bool:
    """Whether a loose object's file holds as many bytes as it says; also where there is none, or it may not be read."""
    try:
        with open(path, "rb") as file:
            inflate, size, wanted = zlib.decompressobj(), 0, -1
            while data := inflate.unconsumed_tail or file.read(_CHUNK):
                part = inflate.decompress(data, _CHUNK)
                if wanted < 0:
                    head, _, part = part.partition(b"\0")
                    wanted = int(head.rpartition(b" ")[2])
                size += len(part)
                if inflate.eof:
                    break
            return inflate.eof and size == wanted
    except (zlib.error, ValueError):
        return False
    except OSError:
        return True


def set_aside(repo: Repo) -> list[str]:
    """Move torn loose objects into a folder of ours, so that what writes them again is not told that they are there; the ids.
    Raises OSError."""
    place = os.path.join(repo.shared_dir, PLACE, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), "objects")
    moved = []
    for path in torn(repo):
        folder, name = path.split(os.sep)[-2:]
        make_folder(repo, os.path.join(place, folder))
        with suppress(FileNotFoundError):
            os.rename(path, os.path.join(place, folder, name))
            moved.append(folder + name)
    return moved
