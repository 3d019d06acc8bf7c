"""Registration of an isolated work tree: it follows the HEAD and the index of another.

By hand it takes a third of a millisecond, ``git worktree add`` three; reftable is left to git.
"""

from __future__ import annotations

import os

from gitbaton.errors import GitError
from gitbaton.git.objects import OID
from gitbaton.git.run import Git
from gitbaton.model import Oid
from gitbaton.system.files import READ, remove_folder, signature, write_atomic
from gitbaton.worktree.watcher import MARK, hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.system.files import Signature

_UNBORN = "refs/worktree/lane"  # a commit there makes no branch in the user's repository
_KEPT = ("HEAD", "commondir", "gitdir", "index", "config.worktree", "info", MARK)
_TRIES = 20
_TABLES = os.path.join("reftable", "tables.list")


class Registration:
    """A linked work tree at ``place`` under a name of its own, which follows the work tree whose git directory is ``source``;
    ``git_dir`` is its own. ``building`` is where it is made before anybody can see it."""

    def __init__(self, git: Git, source: str, common: str, name: str, place: str, index: str | None = None) -> None:
        self.source, self.common, self.name, self.place = source, common, name, place
        self.index = index or os.path.join(source, "index")
        self.git_dir = os.path.join(common, "worktrees", name)
        self.building = os.path.join(common, "baton", "lanes.new", name)
        env = {k: v for k, v in git.env.items() if k not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")}
        config = (*git.config, "worktree.useRelativePaths=false", "submodule.recurse=false")
        self._git = Git(common, env, config=config, timeout=git.timeout)
        self._reftable = os.path.isdir(os.path.join(common, "reftable"))
        self._head: tuple[object, Oid | None] | None = None
        self._at: Oid | None = None
        self._seen: tuple[Signature | None, Signature | None] | None = None
        self._tables: Signature | None = None
        self._wanted: str | None = None
        self._prepared = False

    def prepare(self) -> None:
        """Do what can be done before ``place`` is there. Never fails: ``make`` says what is wrong."""
        try:
            self._prepare()
        except OSError:
            return

    def _prepare(self) -> None:
        if self._prepared:
            return
        if self._reftable:
            _make_folder(os.path.dirname(self.building))
        else:
            _make_folder(self.building)
            _write(os.path.join(self.building, "commondir"), b"../..\n")
            _write(os.path.join(self.building, "gitdir"), os.fsencode(os.path.join(self.place, ".git")) + b"\n")
            self._write_head(self.building, self.head())
            self._settings(self.building)
        self._prepared = True

    def make(self) -> int:
        """Register; the descriptor that marks it as alive. The folder ``place`` is there. Raises GitError."""
        try:
            self._prepare()
            if self._reftable:
                return self._make_by_git()
            fd = hold(self.building)
            self.point()
            self._appear()
        except OSError as error:
            raise GitError(f"'{self.git_dir}' cannot be made: {error.strerror}") from None
        return fd

    def _appear(self) -> None:
        """Move into the place where git looks, all at once: ``git worktree prune`` never sees half of it."""
        for patience in range(_TRIES, -1, -1):
            _make_folder(os.path.dirname(self.git_dir))
            try:
                os.rename(self.building, self.git_dir)
                return
            except FileNotFoundError:  # the last other work tree went, and the folder with it
                if not patience:
                    raise

    def _make_by_git(self) -> int:
        head = self.head()
        what = (
            ["--detach", "--no-checkout", "--", self.building, head] if head else ["--orphan", "-b", self.name, self.building]
        )
        self._run(self.source, "worktree", "add", "-q", *what)
        if head is None:
            self._run(self.git_dir, "symbolic-ref", "HEAD", _UNBORN)
        self._settings(self.git_dir)
        fd = hold(self.git_dir)
        self.point()
        _write(os.path.join(self.git_dir, "gitdir"), os.fsencode(os.path.join(self.place, ".git")) + b"\n")
        remove_folder(self.building)
        self._tables = _signature(os.path.join(self.git_dir, _TABLES))
        return fd

    def point(self) -> None:
        """Make the ``.git`` file of the work tree lead here. Raises OSError."""
        path, wanted = os.path.join(self.place, ".git"), b"gitdir: " + os.fsencode(self.git_dir) + b"\n"
        try:
            fd = os.open(path, READ)
            try:
                if os.read(fd, len(wanted) + 1) == wanted:
                    return
            finally:
                os.close(fd)
        except OSError:
            pass
        if os.path.isdir(path) and not os.path.islink(path):
            remove_folder(path)
        elif os.path.lexists(path):
            os.unlink(path)
        _write(path, wanted)

    def follow(self) -> None:
        """Give it the HEAD and the index that the other work tree has now, and nothing else. Raises GitError."""
        try:
            self._tidy()
            self._follow_head()
            self._follow_index()
        except OSError as error:
            raise GitError(f"'{self.git_dir}' cannot be written: {error.strerror}") from None

    def _tidy(self) -> None:
        """Remove what a command left: locks, an operation under way, its own refs."""
        kept = (*_KEPT, "refs", "reftable") if self._reftable else _KEPT
        for name in os.listdir(self.git_dir):
            if name not in kept and not name.startswith("sharedindex."):
                path = os.path.join(self.git_dir, name)
                remove_folder(path)
                if os.path.lexists(path):
                    os.unlink(path)

    def head(self) -> Oid | None:
        """Where HEAD of the other work tree is; None when it is unborn. Asks git only when that may have changed."""
        text = _read(os.path.join(self.source, "HEAD"))
        if OID.match(text):
            return text
        ref = text.removeprefix("ref: ")
        loose = "" if self._reftable else _read(os.path.join(self.common, ref))
        if OID.match(loose) and ref.startswith("refs/heads/"):
            return loose
        names = ((self.source, _TABLES), (self.common, _TABLES)) if self._reftable else ((self.common, "packed-refs"),)
        seen = (text, loose, *(_signature(os.path.join(*name)) for name in names))
        if loose or self._head is None or self._head[0] != seen:  # a ref that leads to another may change unseen
            result = self._git.run("rev-parse", "-q", "--verify", "HEAD", env={"GIT_DIR": self.source})
            oid = result.out.decode("ascii", "replace").strip()
            self._head = (seen, oid if result.code == 0 and OID.match(oid) else None)
        return self._head[1]

    def left(self) -> Oid | None:
        """The commit that HEAD has come to since ``follow``, if no branch, tag or HEAD of the user's has it."""
        if self._reftable:
            moved = self._tables != _signature(os.path.join(self.git_dir, _TABLES))
        else:
            made = os.path.lexists(os.path.join(self.git_dir, _UNBORN))
            moved = made or _read(os.path.join(self.git_dir, "HEAD")) != (self._at or f"ref: {_UNBORN}")
        if not moved:
            return None
        own = {"GIT_DIR": self.git_dir}
        branch = self._git.run("symbolic-ref", "-q", "HEAD", env=own)
        found = self._git.run("rev-parse", "-q", "--verify", "HEAD^{commit}", env=own).out.decode("ascii", "replace").strip()
        if (branch.code == 0 and branch.out.strip() != _UNBORN.encode()) or not OID.match(found):
            return None
        known = ("--branches", "--tags", "--remotes", *([self._at] if self._at else []))
        return found if self._git.run("rev-list", "-n", "1", found, "--not", *known, "--", env=own).out.strip() else None

    def _follow_head(self) -> None:
        self._at = self.head()
        if not self._reftable:
            self._write_head(self.git_dir, self._at)
            return
        head, tables = self._at, os.path.join(self.git_dir, _TABLES)
        wanted = head or _UNBORN
        if self._tables == _signature(tables) and self._wanted == wanted:
            return
        if head is None:
            self._run(self.git_dir, "symbolic-ref", "HEAD", _UNBORN)
            self._run(self.git_dir, "update-ref", "-d", _UNBORN)
        else:
            self._run(self.git_dir, "update-ref", "--no-deref", "HEAD", head)
        self._tables, self._wanted = _signature(tables), wanted

    def _write_head(self, folder: str, head: Oid | None) -> None:
        path, wanted = os.path.join(folder, "HEAD"), head or f"ref: {_UNBORN}"
        if os.path.islink(path) or _read(path) != wanted:
            _write(path, wanted.encode("ascii") + b"\n")

    def _follow_index(self) -> None:
        own = os.path.join(self.git_dir, "index")
        theirs = _signature(self.index)
        if self._seen == (theirs, _signature(own)):
            return
        if theirs is None:
            if os.path.lexists(own):
                os.unlink(own)
        else:
            shared = [name for name in os.listdir(os.path.dirname(self.index)) if name.startswith("sharedindex.")]
            for name in shared:
                _copy(os.path.join(os.path.dirname(self.index), name), os.path.join(self.git_dir, name))
            _copy(self.index, own)
            self._sparse(self.git_dir)
        self._seen = (theirs, _signature(own))

    def _settings(self, folder: str) -> None:
        """What ``git worktree add`` takes along of a work tree's own settings."""
        own, theirs = os.path.join(folder, "config.worktree"), os.path.join(self.source, "config.worktree")
        if os.path.isfile(theirs):
            _copy(theirs, own)
            for key in ("core.worktree", "core.bare"):
                self._git.run("config", "-f", own, "--unset-all", key)
        self._sparse(folder)

    def _sparse(self, folder: str) -> None:
        name = os.path.join("info", "sparse-checkout")
        if os.path.isfile(os.path.join(self.source, name)):
            os.makedirs(os.path.join(folder, "info"), exist_ok=True)
            _copy(os.path.join(self.source, name), os.path.join(folder, name))

    def _run(self, git_dir: str, *args: str) -> None:
        self._git.changed({"GIT_DIR": git_dir}).out(*args)


def _make_folder(path: str) -> None:
    """Make a folder and those above it, even while somebody removes the empty ones. Raises OSError."""
    for patience in range(_TRIES, -1, -1):
        try:
            os.makedirs(path, exist_ok=True)
            return
        except FileNotFoundError:
            if not patience:
                raise


def _signature(path: str) -> Signature | None:
    try:
        return signature(os.stat(path))
    except OSError:
        return None


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read(4096)).strip()
    except OSError:
        return ""


def _write(path: str, data: bytes, times: tuple[int, int] | None = None) -> None:
    """Write a file anew, through no link that a command put in its place."""
    write_atomic(path, data, times=times)


def _copy(source: str, target: str) -> None:
    """Copy a small file with its time: git compares an index's with those of the files."""
    with open(source, "rb") as file:
        found = os.fstat(file.fileno())
        _write(target, file.read(), (found.st_atime_ns, found.st_mtime_ns))
