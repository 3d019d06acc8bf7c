"""Put files into the work tree without ever writing over one.

Git checks the new files out beside the work tree, filters and all. Then each old file is moved aside and looked at once more,
and the new one is linked into the free place. What another process wrote in between is found: it was moved, not overwritten,
or it stands where the link is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence

from gitbaton.errors import GitError, PathError, StaleError
from gitbaton.git.conversions import open_folder
from gitbaton.git.index import PrivateIndex
from gitbaton.git.putback import CHECKOUT_SECONDS, PLAIN, Difference, failure, index_info, parents
from gitbaton.git.run import Process
from gitbaton.model import Oid

Mark = tuple[int, ...]
_ATTRIBUTES = ".gitattributes"


class Placing:
    """Differences to be brought into a work tree; ``marks`` tell what each old file was when it was captured.

    ``raw`` gives the bytes of files that no filter gives back; ``began`` is called before the first file moves. ``folder`` is
    a folder of ours on the file system of the work tree.
    """

    def __init__(
        self,
        index: PrivateIndex,
        root: str,
        folder: str,
        marks: Mapping[str, Mark],
        raw: Mapping[str, Callable[[], bytes]],
        began: Callable[[], None],
    ) -> None:
        self.index, self.root, self.marks, self.raw, self.began = index, root, marks, raw, began
        self.new, self.aside = os.path.join(folder, "new"), os.path.join(folder, "aside")
        self.moved: dict[str, str] = {}
        self.here = _here()  # the user's shell stands there
        self.said: list[str] = []
        self.process: Process | None = None
        os.makedirs(self.aside, exist_ok=True)

    def start(self, tree: Oid, changing: Sequence[Difference]) -> None:
        """Let git begin to check out while other things are done; only where no attributes are among the changes."""
        coming = [d for d in changing if d.then is not None]
        if coming and not any(d.path.rpartition("/")[2] == _ATTRIBUTES for d in changing):
            self.process = self._start(tree, coming)

    def stop(self) -> None:
        """End what was started and is not waited for."""
        if self.process is not None:
            self.process.stop()
            self.process = None

    def run(self, tree: Oid, changing: Sequence[Difference]) -> list[str]:
        """Carry all of it out; what git said comes back. Attributes go first: they say how the rest is checked out.

        Raises StaleError where another process was there, PathError, GitError; files may then be on either side.
        """
        self._refuse_unwritable(changing)
        first = [d for d in changing if d.path.rpartition("/")[2] == _ATTRIBUTES]
        for part in (first, [d for d in changing if d not in first] if first else changing):
            if part:
                self._part(tree, part)
        late = [path for path, place in self.moved.items() if _seen(place) != self._expected(path)]
        return self.said + [self._keep_late(path) for path in late]

    def _part(self, tree: Oid, changing: Sequence[Difference]) -> None:
        coming = [d for d in changing if d.then is not None]
        self._check_out(tree, coming)
        self._refuse_touched(changing)
        self.began()
        for d in sorted(changing, key=lambda d: os.fsencode(d.path), reverse=True):
            if d.now is not None and self.marks.get(d.path):
                self._move_aside(d.path)
        for d in changing:
            if d.then is None:
                self._prune(d.path)
        for d in coming:
            self._link(d.path)

    def _refuse_touched(self, changing: Iterable[Difference]) -> None:
        for d in changing:
            found = mark(self.root, d.path)
            if d.now is None and found and (stat.S_ISDIR(found[1]) or any(self.marks.get(p) for p in parents(d.path))):
                continue  # it makes room once it is empty; or a link above it goes first
            if found != (self.marks.get(d.path, ()) if d.now is not None else ()):
                raise StaleError(f"'{d.path}' changed meanwhile; nothing is changed")

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
            raise PathError(f"'{denied[0]}': Permission denied", paths=tuple(denied), reason="unwritable")

    def _start(self, tree: Oid, coming: Sequence[Difference]) -> Process:
        """Let git write the new files below a folder of ours."""
        place = self.index.path + ".new"
        git = self.index.git.changed({"GIT_INDEX_FILE": place}, *PLAIN)
        git.timeout = CHECKOUT_SECONDS
        width = self.index.width * 2
        if os.path.exists(place):
            os.unlink(place)
        if "core.sparsecheckout" in self.index.repo.settings():  # attributes that are not on disk are read from the index
            git.out("read-tree", tree)
        else:
            git.out("update-index", "-z", "--index-info", stdin=index_info({d.path: d.then for d in coming}, width))
        stdin = b"".join(os.fsencode(d.path) + b"\0" for d in coming)
        return git.start("checkout-index", "-f", "-z", "--stdin", f"--prefix={self.new}/", stdin=stdin)

    def _check_out(self, tree: Oid, coming: Sequence[Difference]) -> None:
        """Wait until git has written the new files, and finish them."""
        if not coming:
            return
        process, self.process = self.process or self._start(tree, coming), None
        result = process.finish()
        if result.code != 0:
            raise failure(result)
        rows = result.err.splitlines()
        self.said += [row.partition(": ")[2] for row in rows if row.startswith(("error: ", "warning: "))]
        for d in coming:
            self._finish(d.path)

    def _finish(self, path: str) -> None:
        """Give a new file its raw bytes, and the permissions of the one that it replaces: git's are those of the umask."""
        full = os.path.join(self.new, path)
        try:
            found = os.lstat(full)
        except OSError:
            raise GitError(f"'{path}' was not checked out") from None
        if not stat.S_ISREG(found.st_mode):
            return
        if path in self.raw:
            with open(full, "r+b") as file:
                file.truncate()
                file.write(self.raw[path]())
        old = self.marks.get(path)
        if old and stat.S_ISREG(old[1]):
            kept = old[1] & 0o666
            os.chmod(full, kept | (kept >> 2 & 0o111 if found.st_mode & 0o100 else 0))

    def _folder(self, path: str, *, make: bool = False) -> int:
        """A descriptor of a path's directory, reached through no symbolic link."""
        folders = path.split("/")[:-1]
        try:
            return open_folder(self.root, folders)
        except FileNotFoundError:
            if not make:
                raise
        at = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in folders:
            try:
                try:
                    os.mkdir(part, dir_fd=at)
                except FileExistsError:
                    pass
                deeper = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            finally:
                os.close(at)
            at = deeper
        return at

    def _move_aside(self, path: str) -> None:
        """Take an old file out of its place; if it is not the one that was captured it goes back."""
        place, name = os.path.join(self.aside, str(len(self.moved))), path.rpartition("/")[2]
        folder = self._folder(path)
        try:
            os.rename(name, place, src_dir_fd=folder)
            self.moved[path] = place
            if _seen(place) != self._expected(path):
                self._give_back(place, name, folder)
                raise StaleError(f"'{path}' changed meanwhile")
        except FileNotFoundError:
            raise StaleError(f"'{path}' vanished meanwhile") from None
        finally:
            os.close(folder)

    def _give_back(self, place: str, name: str, folder: int) -> None:
        try:
            os.link(place, name, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            return  # somebody else's is there already; this one stays where it was moved
        os.unlink(place)

    def _link(self, path: str) -> None:
        """Put a new file into a place that is free."""
        source, name = os.path.join(self.new, path), path.rpartition("/")[2]
        folder = self._folder(path, make=True)
        try:
            try:
                os.link(source, name, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                self._make_room(path, name, folder)
                os.link(source, name, dst_dir_fd=folder, follow_symlinks=False)
            os.unlink(source)
        except FileExistsError:
            raise StaleError(f"'{path}' appeared meanwhile") from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            os.rename(source, name, dst_dir_fd=folder)  # a file system without hard links
        finally:
            os.close(folder)

    def _make_room(self, path: str, name: str, folder: int) -> None:
        """Remove a directory that holds nothing but directories."""
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise FileExistsError
        for place, _, _ in os.walk(os.path.join(self.root, path), topdown=False):
            try:
                os.rmdir(place)
            except OSError:
                raise StaleError(f"'{path}' is a directory in use") from None

    def _prune(self, path: str) -> None:
        """Remove the directories that a removed file leaves empty, as git does."""
        at = os.path.dirname(path)
        while at and os.path.join(self.root, at) != self.here:
            try:
                os.rmdir(os.path.join(self.root, at))
            except OSError:
                return
            at = os.path.dirname(at)

    def _expected(self, path: str) -> Mark:
        """What of a mark stays when a file is moved."""
        return self.marks[path][:4]

    def _keep_late(self, path: str) -> str:
        """Keep bytes that somebody wrote into a file that had been moved aside."""
        parent = os.path.join(self.index.repo.own_dir, "late")
        os.makedirs(parent, exist_ok=True)
        place = os.path.join(parent, f"{os.getpid()}.{os.path.basename(self.moved[path])}")
        os.replace(self.moved[path], place)
        return f"'{path}' was written while it was replaced; those bytes are in '{place}'"


def mark(root: str, path: str) -> Mark:
    """What tells a file from what it is after it was written; empty where there is none."""
    try:
        found = os.lstat(os.path.join(root, path))
    except OSError:
        return ()
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _seen(place: str) -> Mark:
    found = os.lstat(place)
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


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
