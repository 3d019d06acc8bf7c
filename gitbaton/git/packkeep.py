"""Pack keep: write a pack crash-safely, and protect it from gc until refs point to its objects."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from gitbaton.errors import GitError
from gitbaton.git.packer import Made
from gitbaton.git.packfile import Packing
from gitbaton.git.packread import Bases, Mapped
from gitbaton.git.publish import WORD, mark, space
from gitbaton.git.repo import Repo, sharer
from gitbaton.system import groups
from gitbaton.system.files import sync_paths, write_all

_ATTEMPTS = 8
_UNNAMED = getattr(os, "O_TMPFILE", 0)
_DEAD = 60.0  # seconds after which what a process that has ended kept is kept no longer
_FOREIGN = 86_400.0  # as much for one of another machine, or of another time of this one: nothing is known of it


class Kept:
    """A pack that git keeps, whatever refs say, until ``release``."""

    __slots__ = ("_all", "path")

    def __init__(self, path: str, all: set[Kept]) -> None:
        self.path, self._all = path, all
        if path:
            all.add(self)

    def release(self) -> None:
        """Let git have its way with the pack. Only when refs name all that shall stay. More calls do nothing."""
        path, self.path = self.path, ""
        self._all.discard(self)
        if path:
            _remove(path)

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Shelf:
    """The folder of a repository's packs."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.kept: set[Kept] = set()
        self.bases = Bases()
        self._share = sharer(repo.git)
        self._unnamed = bool(_UNNAMED)

    @property
    def folder(self) -> str:
        """Where it is; a dry run moves it."""
        return os.path.join(self.repo.objects_dir, "pack")

    def store(self, packing: Packing | Made) -> tuple[Mapped, Kept]:
        """Write a pack, its index and the file that keeps it, all on disk when this returns. Raises GitError."""
        unique = os.urandom(32 if packing.algorithm == "sha256" else 20).hex()
        path = os.path.join(self.folder, f"pack-{unique}")
        ends = [".pack", ".keep"]
        try:
            os.makedirs(self.folder, exist_ok=True)
            os.close(self._put(path + ".keep", lambda: [mark()]))
            fd = self._put(path + ".pack", packing.parts)
            try:
                mapped = Mapped(fd, path, self.bases)
            finally:
                os.close(fd)
            os.close(self._put(path + ".idx", lambda: [packing.index()]))
            # Git knows the pack now, and may have done away with other copies of its objects: from here on it stays.
            ends = [".keep"]
            sync_paths([self.folder])
        except BaseException as error:
            for end in ends:
                _remove(path + end)
            if isinstance(error, OSError):
                raise GitError(f"a pack cannot be written: {error.strerror}") from None
            raise
        return mapped, Kept(path + ".keep", self.kept)

    def _put(self, path: str, parts: Callable[[], Iterable[bytes]]) -> int:
        """A file, on disk before it has its name; its descriptor."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._place(path, parts())
            except FileNotFoundError:  # `git prune --expire=now` takes what is under way for what was left lying about
                continue
        return self._place(path, parts())

    def _place(self, path: str, parts: Iterable[bytes]) -> int:
        lasting = not path.endswith(".keep")  # the other one means nothing once its process has ended
        fd, fresh = self._begin(path, 0o444 if lasting else 0o644)
        try:
            self._share(fd)
            for part in parts:
                write_all(fd, part)
            if lasting:
                os.fsync(fd)
            if fresh:
                os.rename(fresh, path)
            else:
                self._link(fd, path)
        except BaseException:
            os.close(fd)
            _remove(fresh)
            raise
        return fd

    def _begin(self, path: str, mode: int) -> tuple[int, str]:
        """A new file and its name for now: none where the file system can do without, so that git finds nothing to prune."""
        if self._unnamed:
            try:
                return os.open(self.folder, os.O_RDWR | _UNNAMED | os.O_CLOEXEC, mode), ""
            except OSError:
                self._unnamed = False
        fresh = os.path.join(self.folder, f"tmp_{path.rpartition('.')[2]}_{os.urandom(6).hex()}")
        return os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), fresh

    def _link(self, fd: int, path: str) -> None:
        try:
            os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd)  # with a descriptor, Python follows that link
        except OSError as error:
            self._unnamed = False
            raise FileNotFoundError(error.errno, error.strerror) from None

    def clean(self) -> None:
        """Let go of packs whose writer has ended before it released them, and remove what it did not finish. Never raises."""
        for path in left(self.repo):
            whole = path.removesuffix(".keep")
            if not os.path.exists(whole + ".idx"):
                _remove(whole + ".pack")
            _remove(path)


def left(repo: Repo) -> list[str]:
    """The files that keep packs for processes that have ended. Never raises."""
    try:
        folder = Shelf(repo).folder
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
