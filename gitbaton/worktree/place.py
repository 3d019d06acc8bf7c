"""Place files in the work tree: swapped in one by one, never written over.

Git checks the new files out beside the work tree, filters and all. Then each old file is moved aside and looked at once more,
and the new one is linked into the free place. What another process wrote in between is found: it was moved, not overwritten,
or it stands where the link is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence

from gitbaton.errors import BatonError, GitError, PathError, StaleError
from gitbaton.git.publish import flush
from gitbaton.model import Oid
from gitbaton.system.files import open_below
from gitbaton.system.process import Process, Result
from gitbaton.worktree.aside import LIST, Mark, is_late, keep, mark, permissions, put, seen
from gitbaton.worktree.conversions import filters
from gitbaton.worktree.index import PrivateIndex
from gitbaton.worktree.putback import CHECKOUT_SECONDS, PLAIN, Difference, failure, index_info, parents

_ATTRIBUTES = ".gitattributes"
_IMMOVABLE = (errno.EPERM, errno.EACCES, errno.EBUSY, errno.EXDEV, errno.EROFS, errno.ETXTBSY)


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
        self.places: dict[str, str] = {}
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
        first = _with_room([d for d in changing if d.path.rpartition("/")[2] == _ATTRIBUTES], changing)
        then = {d.path for d in first}
        for part in (first, [d for d in changing if d.path not in then]):
            if part:
                self._part(tree, part)
        return self.said + self._late()

    def _part(self, tree: Oid, changing: Sequence[Difference]) -> None:
        coming = [d for d in changing if d.then is not None]
        self._check_out(tree, coming)
        self._refuse_touched(changing)
        going = [d.path for d in changing if d.now is not None and self.marks.get(d.path)]
        self._list(going)
        self.began()
        try:
            for path in sorted(going, key=os.fsencode, reverse=True):
                self._move_aside(path)
            for d in coming:
                self._link(d.path)
        except BaseException as error:
            self._return()
            late = self._late()
            if isinstance(error, BatonError):
                error.hints = (*error.hints, *late)
            raise
        for d in changing:
            if d.then is None:
                self._prune(d.path)

    def _list(self, going: Sequence[str]) -> None:
        """Write down what is moved where, for who finds it after a kill."""
        for path in going:
            self.places[path] = os.path.join(self.aside, str(len(self.places)))
        rows = [" ".join(map(str, self._expected(p))) + "\t" + p for p in self.places]
        with open(os.path.join(self.aside, LIST), "wb") as file:
            file.write(b"".join(os.fsencode(row) + b"\0" for row in rows))

    def _return(self) -> None:
        """Put back what was moved, where its place is free; the rest is what a safety checkpoint holds, or late."""
        for path, place in reversed(self.moved.items()):
            try:
                folder = self._folder(path)
            except BatonError:
                continue
            try:
                if os.path.lexists(place):
                    put(place, path.rpartition("/")[2], folder)
            except OSError:
                pass
            finally:
                os.close(folder)

    def _late(self) -> list[str]:
        """Keep what was written into files that had been moved aside; what should be said about it."""
        repo = self.index.repo
        return [keep(repo, path, place) for path, place in self.moved.items() if is_late(place, self._expected(path))]

    def _refuse_touched(self, changing: Iterable[Difference]) -> None:
        for d in changing:
            found = mark(self.root, d.path)
            if d.now is None and found and (stat.S_ISDIR(found[1]) or any(self.marks.get(p) for p in parents(d.path))):
                continue  # it makes room once it is empty; or a link above it goes first
            if found != (self.marks.get(d.path, ()) if d.now is not None else ()):
                raise StaleError(f"'{d.path}' changed meanwhile; nothing is changed", paths=(d.path,))

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
        facts = self.index.known_facts()
        skipped = facts is None or any("s" in f.bits for f in facts.flags)
        if skipped or self.index.repo.boolean("core.sparsecheckout"):  # attributes may be in the index alone
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
            raise self._failure(result, coming)
        rows = result.err.splitlines()
        self.said += [row.partition(": ")[2] for row in rows if row.startswith(("error: ", "warning: "))]
        for d in coming:
            self._finish(d.path)
        flush(self.index.repo, [d.path for d in coming], self.new)  # before an old file goes

    def _failure(self, result: Result, coming: Sequence[Difference]) -> GitError:
        """The error of a checkout, with the paths that go through the filter that failed."""
        error = failure(result)
        if isinstance(error, PathError) and error.reason == "filter-missing":
            drivers = filters(self.index.repo.git, [d.path for d in coming])
            wanted = drivers.get(error.paths[0])
            error.alike = tuple(path for path, driver in drivers.items() if driver == wanted)
        return error

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
        self._give_group(path, full, found.st_gid)
        old = self.marks.get(path)
        if old and stat.S_ISREG(old[1]):
            os.chmod(full, permissions(old[1], found.st_mode, self.index.repo))

    def _give_group(self, path: str, full: str, group: int) -> None:
        """The group of the file that is replaced, or of a setgid directory above: it was made in a directory of ours."""
        at = path
        while True:
            try:
                found = os.lstat(os.path.join(self.root, at))
                break
            except OSError:
                at = os.path.dirname(at)
        wanted = found.st_gid if at == path or found.st_mode & stat.S_ISGID else group
        if wanted != group:
            try:
                os.chown(full, -1, wanted, follow_symlinks=False)
            except OSError:
                return

    def _folder(self, path: str, *, make: bool = False) -> int:
        """A descriptor of a path's directory, reached through no symbolic link."""
        folders = path.split("/")[:-1]
        try:
            return open_below(self.root, folders)
        except FileNotFoundError:
            if not make:
                raise StaleError(f"'{path}' vanished meanwhile") from None
        except OSError as error:
            raise StaleError(f"'{path}': {error.strerror}") from None
        return open_below(self.root, folders, lambda _fd, _depth: None)

    def _move_aside(self, path: str) -> None:
        """Take an old file out of its place. Raises StaleError when it is not the one that was captured."""
        place, name = self.places[path], path.rpartition("/")[2]
        folder = self._folder(path)
        try:
            os.rename(name, place, src_dir_fd=folder)
        except FileNotFoundError:
            raise StaleError(f"'{path}' vanished meanwhile", paths=(path,)) from None
        except OSError as error:
            if error.errno not in _IMMOVABLE:
                raise
            raise PathError(f"'{path}': {error.strerror}", paths=(path,), reason="unwritable") from None
        finally:
            os.close(folder)
        self.moved[path] = place
        if seen(place) != self._expected(path):
            raise StaleError(f"'{path}' changed meanwhile", paths=(path,))

    def _link(self, path: str) -> None:
        """Put a new file into a place that is free."""
        source, name = os.path.join(self.new, path), path.rpartition("/")[2]
        folder = self._folder(path, make=True)
        try:
            try:
                put(source, name, folder)
            except FileExistsError:
                self._make_room(path, name, folder)
                put(source, name, folder)
        except FileExistsError:
            raise StaleError(f"'{path}' appeared meanwhile", paths=(path,)) from None
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


def _with_room(first: Sequence[Difference], changing: Sequence[Difference]) -> list[Difference]:
    """The differences that go first, after what makes room for them."""
    if not first:
        return []
    above = {folder for d in first if d.then is not None for folder in parents(d.path)}
    below = tuple(d.path + "/" for d in first if d.then is not None)
    room = [d for d in changing if d.then is None and (d.path in above or d.path.startswith(below or ("/",)))]
    known = {d.path for d in first}
    return [*(d for d in room if d.path not in known), *first]


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


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
