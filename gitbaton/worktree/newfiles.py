"""Checkout into a folder of ours: git writes the new files there, filters and all; whatever it will not write is named, path by
path, with the reason."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from gitbaton.codec import in_quotes
from gitbaton.errors import GitError, PathError
from gitbaton.git.gone import unreadable
from gitbaton.git.run import Git
from gitbaton.model import Oid
from gitbaton.system.files import open_below
from gitbaton.system.process import Process, Result
from gitbaton.worktree.checkout import CHECKOUT_SECONDS, NO_ROOM, PLAIN, SMUDGE, Difference, index_of, rows_of
from gitbaton.worktree.filetrees import EXECUTABLE, LINK, is_safe, parents
from gitbaton.worktree.gate import LFS, MOST, filters, kept_by
from gitbaton.worktree.index import PrivateIndex, index_info
from gitbaton.worktree.swap import write

UNWRITABLE, FILTER_MISSING = "unwritable", "filter-missing"
_PATIENCE = 3  # files that a filter may fail on before it is not asked any more
_IN_ORDER = ("checkout.workers=1",)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)  # not the path's fault
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ETXTBSY)
Raw = Mapping[str, Callable[[], bytes]]


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
        """Those of the files that a filter does not make whose content git does not have, each with that."""
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
        """Those of the files whose objects cannot be read, each with that."""
        bad = unreadable(self.index.repo.objects, [d.then.oid for d in asked if d.then is not None])
        return {d.path: bad[d.then.oid] for d in asked if d.then is not None and d.then.oid in bad}

    def _reasons(self, absent: Sequence[Difference], said: str) -> dict[str, str]:
        """Why git did not write files and went on."""
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
        """The file at which git died without a word on which: the last one that is there, or the first one that is not."""
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
        write(folder, name, (0o777 if mode == EXECUTABLE else 0o666, False), (data,))
    finally:
        os.close(folder)


def refused(path: str, error: OSError) -> PathError:
    """The error of a path that the system does not let be written, moved or removed. Raises GitError where that is not the
    path's fault: it would be so with any other."""
    why = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        raise GitError(f"{in_quotes(path)}: {why}") from None
    reason = UNWRITABLE if error.errno in _DENIED else f"{UNWRITABLE}: {why}"
    return PathError(f"{in_quotes(path)}: {why}", reasons={path: reason})
