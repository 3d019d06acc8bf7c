"""Placer of a restore's files, all or none: rolled back where one fails; what is written late is kept.

Git checks the new files out beside the work tree, filters and all; whatever it will not write is named, path by path, with the
reason. Then each old file is moved aside and looked at once more, and the new one is put into the free place. Both are in a
folder of ours on the file system of their path.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import BatonError, GitError, PathError, StaleError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import Signature, mount_points, open_below, read_regular, remove_folder
from gitbaton.base.system.process import Process, Result
from gitbaton.git.gone import unreadable
from gitbaton.git.publish import flush
from gitbaton.git.repo import Repo, folder_of_ours, make_folder
from gitbaton.git.run import Git
from gitbaton.git.worktree import swap
from gitbaton.git.worktree.checkout import CHECKOUT_SECONDS, NO_ROOM, PLAIN, SMUDGE, Difference, index_of, rows_of
from gitbaton.git.worktree.filetrees import EXECUTABLE, LINK, is_safe, parents
from gitbaton.git.worktree.gate import LFS, MOST, filters, kept_by
from gitbaton.git.worktree.index import PrivateIndex, index_info
from gitbaton.git.worktree.modes import Folders, Permits, inherit_list, prune, without_group, without_list
from gitbaton.git.worktree.swap import Identity, identity, stat_signature

_MOVED = (errno.ENOTDIR, errno.ELOOP, errno.ENOENT)  # something else stands in the place of a folder
_NEW, _ASIDE = "new", "aside"
# Of what is aside: `inode mode size mtime TAB path NUL`, in the order of the names; then, without numbers, what only comes.
_LIST = "list"
UNWRITABLE, FILTER_MISSING = "unwritable", "filter-missing"
_PATIENCE = 3  # files that a filter may fail on before it is not asked any more
_IN_ORDER = ("checkout.workers=1",)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)  # not the path's fault
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ETXTBSY)
Raw = Mapping[str, Callable[[], bytes]]


class Placer:
    """Differences to be brought into a work tree; ``marks`` tell what each old file was when it was captured.

    ``tree`` holds what they lead to. ``raw`` gives the bytes of files that a checkout does not give back: git and its filters
    are not asked for them. ``began`` is called before the first file moves; ``modes`` are those of files that a killed restore
    took away; ``permits`` says which permissions the new ones get. ``folder`` is one of ours in the git directory. ``git``
    converts as the new files are to be; by default as now.
    """

    def __init__(
        self,
        index: PrivateIndex,
        root: str,
        folder: str,
        tree: Oid,
        changing: Sequence[Difference],
        marks: Mapping[str, Signature | None],
        raw: Raw,
        began: Callable[[], None],
        modes: Mapping[str, int],
        permits: Permits,
        git: Git | None = None,
    ) -> None:
        self.index, self.root, self.marks, self.began, self.modes = index, root, marks, began, modes
        self.tree, self.changing, self.coming = tree, changing, [d for d in changing if d.then is not None]
        self.permits, self.folders, self.stages = permits, Folders(root, permits), Stages(root, folder)
        self.places: dict[str, tuple[str, Identity]] = {}  # where a file is moved aside, and which one it is
        self.moved: list[str] = []
        self.said: list[str] = []
        self.files = NewFiles(index, os.path.join(folder, _NEW), raw, git)
        self.keep = [""]  # folders that stay when they are empty; below the root, that where the user's shell stands
        with suppress(OSError):
            self.keep = [os.getcwd().removeprefix(os.path.join(root, ""))]

    def start(self) -> None:
        """Let git begin to check out while other things are done."""
        if self.coming:
            self.files.start(self.tree, self.coming)

    def stop(self) -> None:
        """End what was started and is not waited for."""
        self.files.stop()

    def run(self) -> list[str]:
        """Carry all of it out; what git said comes back.

        Raises StaleError where another process was there, PathError, GitError; files may then be on either side.
        """
        try:
            with self.folders.entered({d.path: d.then is not None for d in self.changing}):
                self._list()
                self._refuse_unwritable()
                self._swap()
                for folder in dict.fromkeys(d.path.rpartition("/")[0] for d in self.changing if d.then is None):
                    prune(self.root, folder.split("/") if folder else (), keep=self.keep)
            return self.said + self._late()
        finally:
            self.stages.remove()

    def _swap(self) -> None:
        self._check_out()
        self._refuse_touched()
        self.began()
        going, coming, progress = self.places, self.coming, self.index.repo.progress
        most, moves = max(len(going), len(coming)), len(going) + len(coming)
        try:
            for done, path in enumerate(sorted(going, key=os.fsencode, reverse=True)):
                progress("replacing files", most * done // moves, most)
                self._move_aside(path)
            for done, d in enumerate(coming, len(going)):
                progress("replacing files", most * done // moves, most)
                self._put_new(d.path)
        except BaseException as error:
            self._roll_back()
            late = self._late()
            if isinstance(error, BatonError):
                error.hints = (*error.hints, *late)
            raise

    def _list(self) -> None:
        """Write down what is moved aside where, for the command that finds it after a kill."""
        for d in self.changing:
            old = self.marks.get(d.path)
            if d.now is not None and old is not None:
                self.places[d.path] = self.stages.aside(d.path, len(self.places)), identity(old)
        rows = [" ".join(map(str, old)) + "\t" + path for path, (_, old) in self.places.items()]
        rows += ["\t" + d.path for d in self.coming if self.stages.of(d.path) != self.stages.folder]
        place = os.path.join(self.stages.folder, _ASIDE)
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, _LIST), "wb") as file:
            file.write(b"".join(os.fsencode(row) + b"\0" for row in rows))

    def _roll_back(self) -> None:
        """Put back what was moved aside, where its place is free; the rest is what a safety checkpoint holds, or late."""
        for path in reversed(self.moved):
            place = self.places[path][0]
            try:
                with self._opened(path) as (folder, name):
                    if os.path.lexists(place):
                        swap.put(folder, place, name)
            except (BatonError, OSError):
                continue

    def _late(self) -> list[str]:
        """Keep what was written into files that had been moved aside; return what should be said about it."""
        late = [path for path in self.moved if _is_late(*self.places[path])]
        return [_keep(self.index.repo, path, self.places[path][0]) for path in late]

    def _refuse_touched(self) -> None:
        for d in self.changing:
            found = stat_signature(os.path.join(self.root, d.path))
            if d.now is None and found and (stat.S_ISDIR(found[4]) or any(self.marks.get(p) for p in parents(d.path))):
                continue  # it makes room once it is empty; or a link above it goes first
            if found != (self.marks.get(d.path) if d.now is not None else None):
                raise StaleError(f"{in_quotes(d.path)} changed meanwhile; nothing is changed", paths=(d.path,))

    def _refuse_unwritable(self) -> None:
        """Make the folders of ours. Raises PathError that names all paths with directories in which nothing can be written,
        GitError where there is no room."""
        folders: dict[str, bool] = {}
        denied = []
        for d in self.changing:
            folder = os.path.dirname(os.path.join(self.root, d.path))
            while folder not in folders and not os.path.isdir(folder):
                folder = os.path.dirname(folder)
            if folder not in folders:
                folders[folder] = os.access(folder, os.W_OK | os.X_OK)
                try:
                    if folders[folder]:
                        self.stages.make(d.path)
                except OSError as error:
                    refused(d.path, error)
                    folders[folder] = False
            if not folders[folder]:
                denied.append(d.path)
        if denied:
            said = f"{in_quotes(denied[0])}: Permission denied"
            raise PathError(said, reasons=dict.fromkeys(denied, UNWRITABLE))

    def _check_out(self) -> None:
        """Wait until the new files are there, and finish them."""
        if not self.coming:
            return
        self.index.repo.progress("writing files", 0, len(self.coming))
        self.said += self.files.finish(self.tree, self.coming)
        staged: dict[str, list[str]] = {}
        for d in self.coming:
            staged.setdefault(self.stages.of(d.path), []).append(d.path)
            self._finish(d.path)
        for stage, paths in staged.items():
            flush(self.index.repo, paths, os.path.join(stage, _NEW))  # before an old file goes

    def _finish(self, path: str) -> None:
        """Bring a new file to the file system of its path, and give it its permissions: git's are those of the umask."""
        try:
            full = self.stages.bring(path)
            found = os.lstat(full)
        except (FileNotFoundError, NotADirectoryError):
            raise GitError(f"{in_quotes(path)} was not checked out") from None
        except OSError as error:
            raise refused(path, error) from None
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
        """Give a new file the group of the file that it replaces, or of a setgid directory above: it was made in a directory
        of ours. Return whether it has that."""
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
        """Yield a descriptor of a path's directory, reached through no symbolic link, and its name there."""
        try:
            with self.folders.opened(path, make=make) as found:
                yield found
        except OSError as error:
            if error.errno not in _MOVED:
                raise refused(path, error) from None
            said = " vanished meanwhile" if error.errno == errno.ENOENT else f": {error.strerror}"
            raise StaleError(f"{in_quotes(path)}{said}", paths=(path,)) from None

    def _move_aside(self, path: str) -> None:
        """Take an old file out of its place. Raises StaleError when it is not the one that was captured."""
        place, old = self.places[path]
        with self._opened(path) as (folder, name):
            self.moved.append(path)
            try:
                known = swap.move_aside(folder, name, place, lambda there: swap.is_same(there, old))
            except FileNotFoundError:
                raise StaleError(f"{in_quotes(path)} vanished meanwhile", paths=(path,)) from None
            except OSError as error:
                raise refused(path, error) from None
        if not known:
            raise StaleError(f"{in_quotes(path)} changed meanwhile", paths=(path,))

    def _put_new(self, path: str) -> None:
        """Put a new file into a place that is free, or that a directory without files makes free."""
        source = self.stages.new(path)
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
        if self.stages.below(path):  # what is mounted there stays
            raise refused(path, OSError(errno.EBUSY, os.strerror(errno.EBUSY)))
        for place, _, _ in os.walk(os.path.join(self.root, path), topdown=False):
            try:
                os.rmdir(place)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise StaleError(f"{in_quotes(path)} is a directory in use", paths=(path,)) from None
                raise refused(path, error) from None


class Stages:
    """The places where old and new files of paths below ``root`` wait, each on the file system of its path: below ``folder``,
    or in a folder of ours at the top of what is mounted there."""

    def __init__(self, root: str, folder: str) -> None:
        self.root, self.folder, self._mounts = os.path.realpath(root), folder, mount_points()
        self._name = f".baton-{os.path.basename(folder).replace('.', '')[-16:]:0>16}.new"
        self._found: dict[str, str] = {}
        self._home = self._where(os.path.realpath(folder))

    def _where(self, folder: str) -> tuple[int, str]:
        """Return the device of a folder and the mount that it is in: the same device may be mounted at several places."""
        at = folder
        while at not in self._mounts and at != os.path.dirname(at):
            at = os.path.dirname(at)
        return os.stat(folder).st_dev, at

    def of(self, path: str) -> str:
        """Return the folder of ours for a path; no symbolic link leads to it."""
        above = path.rpartition("/")[0]
        if above not in self._found:
            top, where = self.root, self._where(self.root)
            for at in (f"{self.root}/{folder}" for folder in parents(path)):
                seen = stat_signature(at)
                if seen is None or not stat.S_ISDIR(seen[4]):
                    break
                there = os.stat(at).st_dev, at if at in self._mounts else where[1]
                if there != where or not os.access(top, os.W_OK | os.X_OK):
                    top, where = at, there
            self._found[above] = self.folder if where == self._home else os.path.join(top, self._name)
        return self._found[above]

    def make(self, path: str) -> None:
        """Make the folder of ours for a path. Raises OSError."""
        stage = self.of(path)
        for place in (stage, os.path.join(stage, _ASIDE)):
            with suppress(FileExistsError):
                os.mkdir(place, 0o700)
        if stage != self.folder:  # neither git nor a capture is to take it for the user's
            os.chmod(stage, 0o700)  # without the bit that gives the group of the folder above to what is made here
            with open(os.path.join(stage, ".gitignore"), "w", encoding="ascii") as file:
                file.write("*\n")

    def new(self, path: str) -> str:
        """Return where the new file of a path is."""
        return os.path.join(self.of(path), _NEW, path)

    def aside(self, path: str, number: int) -> str:
        """Return where the old file of a path is put, one of that number."""
        return os.path.join(self.of(path), _ASIDE, str(number))

    def bring(self, path: str) -> str:
        """Move a new file from ``folder`` to where it is to be; that comes back. Raises OSError."""
        stage = self.of(path)
        place = os.path.join(stage, _NEW, path)
        if stage != self.folder:
            import shutil

            os.makedirs(os.path.dirname(place), exist_ok=True)
            own = next((at for at in reversed(parents(path)) if os.path.isdir(os.path.join(self.root, at))), "")
            inherit_list(os.path.dirname(place), os.path.join(self.root, own))
            shutil.move(os.path.join(self.folder, _NEW, path), place, copy_function=shutil.copy)
        return place

    def below(self, path: str) -> bool:
        """Whether a folder of ours is at or below a path."""
        return any(stage.startswith(f"{self.root}/{path}/") for stage in self._found.values())

    def remove(self) -> None:
        """Remove what is elsewhere than below ``folder``. Never raises."""
        for stage in {*self._found.values()} - {self.folder}:
            remove_folder(stage)


def _is_late(place: str, expected: Identity) -> bool:
    """Whether a file that was moved aside was written since."""
    return os.path.lexists(place) and not swap.is_same(place, expected)


def _keep(repo: Repo, path: str, place: str) -> str:
    """Keep a file under a name of its own; what should be said about it."""
    parent = os.path.join(repo.own_dir, "late")
    make_folder(repo, parent)
    kept = os.path.join(parent, f"{time.time_ns()}.{os.getpid()}.{os.path.basename(place)}")
    import shutil

    shutil.move(place, kept)
    return f"{in_quotes(path)} was written while it was replaced; those bytes are in '{kept}'"


def rescue(repo: Repo) -> tuple[list[str], dict[str, int]]:
    """After a restore that was killed: keep what was written into files that it had moved aside; what should be said, and the
    modes of the others.

    Only while no restore is at work in this work tree.
    """
    said, modes = list[str](), dict[str, int]()
    parent = os.path.join(repo.own_dir, "tmp")
    try:
        folders = sorted(os.listdir(parent))
    except OSError:
        return [], {}
    for folder in (os.path.join(parent, name) for name in folders):
        aside = os.path.join(folder, _ASIDE)
        try:
            os.close(folder_of_ours(repo, aside))  # else it leads to what somebody else has put anywhere
            rows = os.fsdecode(read_regular(os.path.join(aside, _LIST))).split("\0")[:-1]
        except OSError:
            continue
        stages = Stages(repo.layout.root or folder, folder)
        for number, row in enumerate(rows):
            numbers, _, path = row.partition("\t")
            place, seen = stages.aside(path, number), tuple(int(part) for part in numbers.split(" ") if part.isdecimal())
            if _is_late(place, seen):
                said.append(_keep(repo, path, place))
            elif os.path.lexists(place):
                modes[path] = seen[1]
        stages.remove()
        remove_folder(folder)
    return said, modes


class NewFiles:
    """New files below ``folder``, checked out with a private index. ``raw`` gives the bytes of those that no checkout gives:
    git and its filters are not asked for them. ``git`` converts as the files are to be; by default as now."""

    def __init__(self, index: PrivateIndex, folder: str, raw: Raw, git: Git | None = None) -> None:
        self.index, self.folder, self.raw, self.git = index, folder, raw, git
        self._process: Process | None = None

    def start(self, tree: Oid, coming: Sequence[Difference]) -> None:
        """Let git begin, while other things are done."""
        self._process = self._begin(tree, coming)

    def stop(self) -> None:
        """End what was begun and is not waited for."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def finish(self, tree: Oid, coming: Sequence[Difference]) -> list[str]:
        """Wait until all files are there; what git said comes back. Raises PathError that names all which cannot be made."""
        process, self._process = self._process or self._begin(tree, coming), None
        result = process.finish()
        asked = [d for d in coming if d.path not in self.raw]
        reasons = self._left_out(tree, asked, result) if result.code or self._absent(asked) else {}
        for d in coming:
            if d.path in self.raw and d.then is not None:
                reasons |= self._make(d.path, d.then.mode)
        if reasons:
            failed = [d for d in asked if reasons.get(d.path) == FILTER_MISSING]
            reasons |= self._pointed(failed) if failed else {}
            path, why = next(iter(reasons.items()))
            raise PathError(f"{in_quotes(path)} cannot be written: {why}", reasons=reasons)
        rows = result.err.splitlines()
        return [row.partition(": ")[2] for row in rows if row.startswith(("error: ", "warning: "))]

    def _pointed(self, failed: Sequence[Difference]) -> dict[str, str]:
        """Return the files that a filter does not make and of which git does not have the content, each with that reason."""
        import shutil

        there = [(d.path, d.then.oid) for d in failed if d.then is not None]
        read = self.index.repo.objects.read_many([oid for _, oid in there], MOST)
        found = dict[str, str]()
        for (path, _), item in zip(there, read, strict=True):
            keeper = kept_by(os.fsencode(path), item.data) if item is not None and item.data is not None else ""
            if keeper == LFS and shutil.which("git-lfs") is not None:
                found[path] = "its content is not here: git lfs fetch"
            elif keeper not in ("", LFS):
                found[path] = "its content is not here: its filter fails"
        return found

    def _begin(self, tree: Oid, coming: Sequence[Difference], *settings: str) -> Process:
        place = self.index.path + ".new"
        git = (self.git or self.index.git).changed({"GIT_INDEX_FILE": place}, *PLAIN, *settings)
        git.timeout = CHECKOUT_SECONDS
        if os.path.exists(place):
            os.unlink(place)
        facts = self.index.known_facts()
        skipped = facts is None or any("s" in f.bits for f in facts.flags) or self.index.repo.boolean("core.sparsecheckout")
        if self.git is None and skipped:  # attributes may be in the index alone
            index_of(git, tree)
        else:
            lines = index_info(rows_of({d.path: d.then for d in coming}), self.index.width)
            git.out("update-index", "-z", "--index-info", stdin=lines)
        stdin = b"".join(os.fsencode(d.path) + b"\0" for d in coming if d.path not in self.raw)
        return git.start("checkout-index", "-f", "-z", "--stdin", f"--prefix={self.folder}/", stdin=stdin)

    # What git does not write. It goes on after a file that cannot be written, and stops where a required filter fails or an
    # object cannot be read; a file of which nothing could be read may be there all the same, without its bytes.

    def _left_out(self, tree: Oid, asked: Sequence[Difference], result: Result) -> dict[str, str]:
        reasons = dict[str, str]()
        failed = dict[str, list[str]]()
        drivers: dict[str, str] | None = None
        rest, ordered = asked, self.index.repo.settings().get("checkout.workers", ["1"])[-1] == "1"
        while True:
            absent = self._absent(rest)
            if result.code in (0, 1):
                return reasons | self._reasons(absent, result.err)
            found = self._torn(rest)
            smudge = SMUDGE.search(result.err)
            if smudge is not None and smudge.group(1) in {d.path for d in rest}:
                path, driver = smudge.group(1), smudge.group(2)
                failed.setdefault(driver, []).append(path)
                found[path] = FILTER_MISSING
                if len(failed[driver]) == _PATIENCE:
                    drivers = filters(self.git or self.index.repo.git, [d.path for d in asked]) if drivers is None else drivers
                    alike = {drivers.get(p) for p in failed[driver]} - {None}
                    found |= {d.path: FILTER_MISSING for d in absent if drivers.get(d.path) in alike}
            if not found:
                found = self._culprit(tree, rest, absent, result.err)
            reasons |= found
            there = [d for d in rest if d not in absent]
            again = there[-1:] if ordered else there  # that one may be torn; of several at once any
            rest = [d for d in (*again, *absent) if d.path not in reasons]
            if not rest:
                return reasons
            self._remove([*rest, *(d for d in asked if d.path in found)])
            result, ordered = self._begin(tree, rest, *_IN_ORDER).finish(), True

    def _absent(self, asked: Collection[Difference]) -> list[Difference]:
        return [d for d in asked if not os.path.lexists(os.path.join(self.folder, d.path))]

    def _torn(self, asked: Sequence[Difference]) -> dict[str, str]:
        """Return the files of which objects cannot be read, each with that reason."""
        bad = unreadable(self.index.repo.objects, [d.then.oid for d in asked if d.then is not None])
        return {d.path: bad[d.then.oid] for d in asked if d.then is not None and d.then.oid in bad}

    def _reasons(self, absent: Sequence[Difference], said: str) -> dict[str, str]:
        """Return the reasons for which git did not write files and went on."""
        torn = self._torn(absent)
        rows, found = said.splitlines(), dict[str, str]()
        for d in absent:
            places = [os.path.join(self.folder, name) for name in (d.path, *reversed(parents(d.path)))]
            row = next((row for place in places for row in rows if f"{place}: " in row or f"'{place}'" in row), "")
            reason = row.rpartition(": ")[2]
            if reason in NO_ROOM or "unable to write file" in row:
                raise GitError(f"'git checkout-index' failed: {row}")
            found[d.path] = torn.get(d.path) or (f"{UNWRITABLE}: {reason}" if reason else UNWRITABLE)
        return found

    def _culprit(self, tree: Oid, rest: Sequence[Difference], absent: Sequence[Difference], said: str) -> dict[str, str]:
        """Return the file at which git died without a word: the last one that is there, or the first one that is not."""
        there = [d for d in rest if d not in absent][-1:]
        for d in (*there, *absent[:1]):
            self._remove([d])
            if self._begin(tree, [d], *_IN_ORDER).finish().code:
                return {d.path: UNWRITABLE}
        if absent:
            return {absent[0].path: UNWRITABLE}
        raise GitError(f"'git checkout-index' failed: {said.strip()}")

    def _remove(self, files: Sequence[Difference]) -> None:
        for d in files:
            with suppress(OSError):
                os.unlink(os.path.join(self.folder, d.path))

    def _make(self, path: str, mode: str) -> dict[str, str]:
        """Write a new file that no checkout gives, with the mode that git would give it; why it cannot be made."""
        try:
            data = self.raw[path]()
        except GitError as error:
            return {path: error.message.removeprefix(f"{in_quotes(path)}: ")}
        try:
            os.makedirs(self.folder, exist_ok=True)
            make_file(self.folder, path, mode, data)
        except OSError as error:
            return {path: refused(path, error).reasons[path]}
        return {}


def make_file(root: str, path: str, mode: str, data: bytes) -> None:
    """Write a file below a folder of ours, in the place of one that is there, through no symbolic link: as git would make it,
    or a symbolic link where the file system has them. Raises OSError."""
    *folders, name = path.split("/")
    if not is_safe(path):
        raise OSError(errno.EINVAL, "it is no path of a file")
    folder = open_below(root, folders, lambda fd, depth: None)
    try:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        if mode == LINK:
            with suppress(OSError):
                return os.symlink(data, os.fsencode(name), dir_fd=folder)
        swap.write(folder, name, (0o777 if mode == EXECUTABLE else 0o666, False), (data,))
    finally:
        os.close(folder)


def refused(path: str, error: OSError) -> PathError:
    """Return the error of a path that the system does not let be written, moved or removed. Raises GitError where that is not
    the path's fault: it would be so with any other."""
    why = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        raise GitError(f"{in_quotes(path)}: {why}") from None
    reason = UNWRITABLE if error.errno in _DENIED else f"{UNWRITABLE}: {why}"
    return PathError(f"{in_quotes(path)}: {why}", reasons={path: reason})
