"""Swap of many files, all or none, for restore and undo: rolled back where one fails; what is written late is kept.

Git checks the new files out beside the work tree, filters and all. Then each old file is put aside and looked at once more,
and the new one is put into the free place; where one cannot be, all are rolled back.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from gitbaton.codec import in_quotes
from gitbaton.errors import BatonError, GitError, PathError, StaleError
from gitbaton.git.publish import flush
from gitbaton.git.repo import Repo, folder_of_ours, make_folder
from gitbaton.git.run import Git
from gitbaton.model import Oid
from gitbaton.system.files import Signature, open_below, read_regular, remove_folder
from gitbaton.worktree import swap
from gitbaton.worktree.checkout import Difference
from gitbaton.worktree.filetrees import parents
from gitbaton.worktree.index import PrivateIndex
from gitbaton.worktree.modes import Folders, Permits, without_group, without_list
from gitbaton.worktree.newfiles import UNWRITABLE, NewFiles, Raw, refused
from gitbaton.worktree.swap import Identity, identity, look_at

_MOVED = (errno.ENOTDIR, errno.ELOOP, errno.ENOENT)  # something else stands in the place of a folder
_LIST = "list"  # of what is aside: `inode mode size mtime TAB path NUL`, in the order of the names


class SwapAll:
    """Differences to be brought into a work tree; ``marks`` tell what each old file was when it was captured.

    ``raw`` gives the bytes of files that a checkout does not give back: git and its filters are not asked for them. ``began``
    is called before the first file moves; ``modes`` are those of files that a killed restore took away; ``permits`` says which
    permissions the new ones get. ``folder`` is a folder
    of ours on the file system of the work tree. ``git`` converts as the new files are to be; by default as now.
    """

    def __init__(
        self,
        index: PrivateIndex,
        root: str,
        folder: str,
        marks: Mapping[str, Signature | None],
        raw: Raw,
        began: Callable[[], None],
        modes: Mapping[str, int],
        permits: Permits,
        git: Git | None = None,
    ) -> None:
        self.index, self.root, self.marks, self.began, self.modes = index, root, marks, began, modes
        self.permits, self.folders = permits, Folders(root, permits)
        self.new, self.aside = os.path.join(folder, "new"), os.path.join(folder, "aside")
        self.places: dict[str, tuple[str, Identity]] = {}  # where a file is put aside, and which one it is
        self.moved: list[str] = []
        self.said: list[str] = []
        self.files = NewFiles(index, self.new, raw, git)
        self.keep = [""]  # folders that stay when they are empty; below the root, that where the user's shell stands
        with suppress(OSError):
            self.keep = [os.getcwd().removeprefix(os.path.join(root, ""))]
        os.makedirs(self.aside, exist_ok=True)

    def start(self, tree: Oid, changing: Sequence[Difference]) -> None:
        """Let git begin to check out while other things are done."""
        coming = [d for d in changing if d.then is not None]
        if coming:
            self.files.start(tree, coming)

    def stop(self) -> None:
        """End what was started and is not waited for."""
        self.files.stop()

    def run(self, tree: Oid, changing: Sequence[Difference]) -> list[str]:
        """Carry all of it out; what git said comes back.

        Raises StaleError where another process was there, PathError, GitError; files may then be on either side.
        """
        with self.folders.entered({d.path: d.then is not None for d in changing}):
            self._refuse_unwritable(changing)
            if changing:
                self._swap(tree, changing)
            for folder in dict.fromkeys(d.path.rpartition("/")[0] for d in changing if d.then is None):
                swap.prune(self.root, folder.split("/") if folder else (), keep=self.keep)
        return self.said + self._late()

    def _swap(self, tree: Oid, changing: Sequence[Difference]) -> None:
        coming = [d for d in changing if d.then is not None]
        self._check_out(tree, coming)
        self._refuse_touched(changing)
        going = {d.path: identity(old) for d in changing if d.now is not None and (old := self.marks.get(d.path))}
        self._list(going)
        self.began()
        most, moves, progress = max(len(going), len(coming)), len(going) + len(coming), self.index.repo.progress
        try:
            for done, path in enumerate(sorted(going, key=os.fsencode, reverse=True)):
                progress("replacing files", most * done // moves, most)
                self._put_aside(path)
            for done, d in enumerate(coming, len(going)):
                progress("replacing files", most * done // moves, most)
                self._put_new(d.path)
        except BaseException as error:
            self._roll_back()
            late = self._late()
            if isinstance(error, BatonError):
                error.hints = (*error.hints, *late)
            raise

    def _list(self, going: Mapping[str, Identity]) -> None:
        """Write down what is put aside where, for who finds it after a kill."""
        for path, old in going.items():
            self.places[path] = os.path.join(self.aside, str(len(self.places))), old
        rows = [" ".join(map(str, old)) + "\t" + path for path, (_, old) in self.places.items()]
        with open(os.path.join(self.aside, _LIST), "wb") as file:
            file.write(b"".join(os.fsencode(row) + b"\0" for row in rows))

    def _roll_back(self) -> None:
        """Put back what was put aside, where its place is free; the rest is what a safety checkpoint holds, or late."""
        for path in reversed(self.moved):
            place = self.places[path][0]
            try:
                with self._opened(path) as (folder, name):
                    if os.path.lexists(place):
                        swap.put(folder, place, name)
            except (BatonError, OSError):
                continue

    def _late(self) -> list[str]:
        """Keep what was written into files that had been put aside; what should be said about it."""
        late = [path for path in self.moved if _is_late(*self.places[path])]
        return [_keep(self.index.repo, path, self.places[path][0]) for path in late]

    def _refuse_touched(self, changing: Iterable[Difference]) -> None:
        for d in changing:
            found = look_at(os.path.join(self.root, d.path))
            if d.now is None and found and (stat.S_ISDIR(found[4]) or any(self.marks.get(p) for p in parents(d.path))):
                continue  # it makes room once it is empty; or a link above it goes first
            if found != (self.marks.get(d.path) if d.now is not None else None):
                raise StaleError(f"{in_quotes(d.path)} changed meanwhile; nothing is changed", paths=(d.path,))

    def _refuse_unwritable(self, changing: Iterable[Difference]) -> None:
        """Raise PathError that names all paths whose directories cannot be written."""
        folders: dict[str, bool] = {}
        denied = []
        for d in changing:
            folder = os.path.dirname(os.path.join(self.root, d.path))
            while folder not in folders and not os.path.isdir(folder):
                folder = os.path.dirname(folder)
            if folder not in folders:
                folders[folder] = os.access(folder, os.W_OK | os.X_OK)
            if not folders[folder]:
                denied.append(d.path)
        if denied:
            said = f"{in_quotes(denied[0])}: Permission denied"
            raise PathError(said, reasons=dict.fromkeys(denied, UNWRITABLE))

    def _check_out(self, tree: Oid, coming: Sequence[Difference]) -> None:
        """Wait until the new files are there, and finish them."""
        if not coming:
            return
        self.index.repo.progress("writing files", 0, len(coming))
        self.said += self.files.finish(tree, coming)
        for d in coming:
            self._finish(d.path)
        flush(self.index.repo, [d.path for d in coming], self.new)  # before an old file goes

    def _finish(self, path: str) -> None:
        """Give a new file its permissions: git's are those of the umask."""
        full = os.path.join(self.new, path)
        try:
            found = os.lstat(full)
        except OSError:
            raise GitError(f"{in_quotes(path)} was not checked out") from None
        if not stat.S_ISREG(found.st_mode):
            return
        seen = self.marks.get(path)
        old = without_list(os.path.join(self.root, path), seen[4] if seen is not None else self.modes.get(path, 0))
        if not self._give_group(path, full, found.st_gid):
            old = without_group(old)
        mode = self.permits.file(path, old, found.st_mode)
        if mode != stat.S_IMODE(found.st_mode):
            with suppress(PermissionError):  # a file system that knows one mode for all
                os.chmod(full, mode)

    def _give_group(self, path: str, full: str, group: int) -> bool:
        """The group of the file that is replaced, or of a setgid directory above: it was made in a directory of ours. Whether
        it has that."""
        at = path
        while True:
            try:
                found = os.lstat(os.path.join(self.root, at))
                break
            except OSError:
                at = os.path.dirname(at)
        wanted = found.st_gid if at == path or found.st_mode & stat.S_ISGID else group
        try:
            if wanted != group:
                os.chown(full, -1, wanted, follow_symlinks=False)
        except OSError:
            return False
        return True

    @contextmanager
    def _opened(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """A descriptor of a path's directory, reached through no symbolic link, and its name there."""
        *folders, name = path.split("/")
        try:
            folder = open_below(self.root, folders)
        except FileNotFoundError:
            if not make:
                raise StaleError(f"{in_quotes(path)} vanished meanwhile") from None
            ways = parents(path)
            note, mode = (lambda fd, depth: self.folders.made(ways[depth], fd)), (lambda depth: self.folders.mode(ways[depth]))
            try:
                folder = open_below(self.root, folders, note, mode)
            except OSError as error:
                if error.errno in _MOVED:
                    raise StaleError(f"{in_quotes(path)}: {error.strerror}", paths=(path,)) from None
                raise refused(path, error) from None
        except OSError as error:
            if error.errno in _MOVED:
                raise StaleError(f"{in_quotes(path)}: {error.strerror}", paths=(path,)) from None
            raise refused(path, error) from None
        try:
            yield folder, name
        finally:
            os.close(folder)

    def _put_aside(self, path: str) -> None:
        """Take an old file out of its place. Raises StaleError when it is not the one that was captured."""
        place, old = self.places[path]
        with self._opened(path) as (folder, name):
            self.moved.append(path)
            try:
                known = swap.put_aside(folder, name, place, lambda there: swap.is_same(there, old))
            except FileNotFoundError:
                raise StaleError(f"{in_quotes(path)} vanished meanwhile", paths=(path,)) from None
            except OSError as error:
                raise refused(path, error) from None
        if not known:
            raise StaleError(f"{in_quotes(path)} changed meanwhile", paths=(path,))

    def _put_new(self, path: str) -> None:
        """Put a new file into a place that is free, or that a directory without files makes free."""
        source = os.path.join(self.new, path)
        with self._opened(path, make=True) as (folder, name):
            try:
                done = swap.put(folder, source, name)
                if not done and stat.S_ISDIR(swap.mode_at(folder, name)):
                    self._make_room(path)
                    done = swap.put(folder, source, name)
            except OSError as error:
                raise refused(path, error) from None
        if not done:
            raise StaleError(f"{in_quotes(path)} appeared meanwhile", paths=(path,))

    def _make_room(self, path: str) -> None:
        """Remove a directory that holds nothing but directories."""
        for place, _, _ in os.walk(os.path.join(self.root, path), topdown=False):
            try:
                os.rmdir(place)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise StaleError(f"{in_quotes(path)} is a directory in use", paths=(path,)) from None
                raise refused(path, error) from None


def can_place(root: str, folder: str, paths: Iterable[str]) -> bool:
    """Whether files can be moved between a folder and the directories of paths below ``root``: one file system."""
    device = os.stat(folder).st_dev
    seen: set[str] = set()
    for path in paths:
        at = os.path.dirname(path)
        while at not in seen:
            seen.add(at)
            full = os.path.join(root, at)
            if os.path.isdir(full) and os.stat(full).st_dev != device:
                return False
            at = os.path.dirname(at)
    return True


def _is_late(place: str, expected: Identity) -> bool:
    """Whether a file that was put aside was written since."""
    return os.path.lexists(place) and not swap.is_same(place, expected)


def _keep(repo: Repo, path: str, place: str) -> str:
    """Keep a file under a name of its own; what should be said about it."""
    parent = os.path.join(repo.own_dir, "late")
    make_folder(repo, parent)
    kept = os.path.join(parent, f"{time.time_ns()}.{os.getpid()}.{os.path.basename(place)}")
    os.rename(place, kept)
    return f"{in_quotes(path)} was written while it was replaced; those bytes are in '{kept}'"


def rescue(repo: Repo) -> tuple[list[str], dict[str, int]]:
    """After a restore that was killed: keep what was written into files that it had put aside; what should be said, and the
    modes of the others.

    Only while no restore is at work in this work tree.
    """
    said, modes = list[str](), dict[str, int]()
    parent = os.path.join(repo.own_dir, "tmp")
    try:
        folders = sorted(os.listdir(parent))
    except OSError:
        return [], {}
    for folder in folders:
        aside = os.path.join(parent, folder, "aside")
        try:
            os.close(folder_of_ours(repo, aside))  # else it leads to what somebody else has put anywhere
            rows = os.fsdecode(read_regular(os.path.join(aside, _LIST))).split("\0")[:-1]
        except OSError:
            continue
        for number, row in enumerate(rows):
            numbers, _, path = row.partition("\t")
            place, seen = os.path.join(aside, str(number)), tuple(int(part) for part in numbers.split(" ") if part.isdecimal())
            if _is_late(place, seen):
                said.append(_keep(repo, path, place))
            elif os.path.lexists(place):
                modes[path] = seen[1]
        remove_folder(os.path.join(parent, folder))
    return said, modes
