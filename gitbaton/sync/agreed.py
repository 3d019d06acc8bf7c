"""What somebody here has agreed to make public: for each remote and track, run or thread, the addresses it may be pushed to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from gitbaton.codec import encode_track
from gitbaton.git.remotes import place_address
from gitbaton.git.repo import Repo, add, make_folder

RUN_ROOM, THREAD_ROOM = ".runs", ".threads"  # no track's name: `.` is encoded


def _folder(repo: Repo, remote: str, room: str) -> str:
    return os.path.join(repo.shared_dir, "pushed", encode_track(remote), room)


def _file(room: str, name: str) -> str:
    """The name of the file that stands for a track, run or thread; what a thread is called may be long, and any text."""
    if room == THREAD_ROOM:
        return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return encode_track(name)


def _addresses(path: str) -> frozenset[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return frozenset(file.read().split("\n")) - {""}
    except OSError:
        return frozenset()


def agreed(repo: Repo, remote: str, place: str, tracks: Iterable[str], *, room: str = "") -> frozenset[str]:
    """Those of the tracks, of the runs with RUN_ROOM, or of the threads with THREAD_ROOM, that were pushed from here to that
    address of the remote after somebody had agreed."""
    tracks = list(tracks)
    folder, shown = _folder(repo, remote, room), _line(repo, place) if tracks else ""
    return frozenset(track for track in tracks if shown in _addresses(os.path.join(folder, _file(room, track))))


def remember(repo: Repo, remote: str, place: str, tracks: Iterable[str], *, room: str = "") -> None:
    """Note that these tracks, runs or threads were pushed there with somebody's agreement. What cannot be written is asked
    about again."""
    folder, shown = _folder(repo, remote, room), _line(repo, place)
    for track in tracks:
        path = os.path.join(folder, _file(room, track))
        if shown in _addresses(path):
            continue
        try:
            make_folder(repo, folder)
            add(repo, path, f"{shown}\n".encode("utf-8", "surrogateescape"))
        except OSError:
            return


def _line(repo: Repo, place: str) -> str:
    return place_address(repo, place).replace("\n", " ")
