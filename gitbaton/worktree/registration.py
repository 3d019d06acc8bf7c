"""Registration of an isolated work tree by git, which then follows the HEAD and the index of another."""

from __future__ import annotations

import os

from gitbaton.errors import GitError
from gitbaton.git.objects import OID
from gitbaton.git.reffiles import detached, head_of
from gitbaton.git.run import Git
from gitbaton.model import Oid
from gitbaton.system.files import remove, remove_folder, write_atomic

_UNBORN = "refs/worktree/lane"  # a commit there makes no branch in the user's repository
_KEPT = ("HEAD", "commondir", "gitdir", "index", "config.worktree", "info")
_TABLES = ("refs", "reftable")
_TRIES = 4


class Registration:
    """A linked work tree at ``place`` under a name of its own, which follows the work tree whose git directory is ``source``;
    ``git_dir`` is its own. ``building`` is where git makes it: ``place`` may have files already."""

    def __init__(self, git: Git, source: str, common: str, name: str, place: str, index: str | None = None) -> None:
        self.source, self.name, self.place, self._common = source, name, place, common
        self.index = index or os.path.join(source, "index")
        self.git_dir = os.path.join(common, "worktrees", name)
        self.building = os.path.join(common, "baton", "lanes.new", name)
        env = {k: v for k, v in git.env.items() if k not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")}
        config = (*git.config, "worktree.useRelativePaths=false", "submodule.recurse=false")
        self._git = Git(common, env, config=config, timeout=git.timeout)
        self._reftable = os.path.isdir(os.path.join(common, "reftable"))
        self._at: Oid | None = None

    def make(self, lock_fd: int) -> None:
        """Register; git holds the lock ``lock_fd``, too: it may outlive us, and what it makes is not swept before. The folder
        ``place`` is there. Raises GitError."""
        try:
            head = self._oid(self.source, "HEAD") or self._nothing()
            os.set_inheritable(lock_fd, True)
            try:
                self._add(head)
            finally:
                os.set_inheritable(lock_fd, False)
            self.point()
            write_atomic(os.path.join(self.git_dir, "gitdir"), os.fsencode(os.path.join(self.place, ".git")) + b"\n")
        except OSError as error:
            raise GitError(f"'{self.git_dir}' cannot be made: {error.strerror}") from None
        remove_folder(self.building)

    def _add(self, head: Oid) -> None:
        """Let git make it; again where the last other work tree went meanwhile, and the folder of all with it."""
        for patience in range(_TRIES, 0, -1):
            try:
                self._run(self.source, "worktree", "add", "-q", "--detach", "--no-checkout", "--", self.building, head)
                return
            except GitError as error:
                remove_folder(self.git_dir)
                remove_folder(self.building)
                if patience == 1 or "No such file" not in error.message:
                    raise

    def _nothing(self) -> Oid:
        """A commit of no files: before 2.42 git makes no work tree without one."""
        git = self._git.changed({"GIT_DIR": self.source})
        tree = git.out("hash-object", "-t", "tree", "-w", "--stdin", stdin=b"")
        who = b"gitbaton <gitbaton@localhost> 0 +0000"
        commit = b"tree %s\nauthor %s\ncommitter %s\n\nno files\n" % (tree.strip(), who, who)
        return git.out("hash-object", "-t", "commit", "-w", "--stdin", stdin=commit).decode("ascii").strip()

    def point(self) -> None:
        """Make the ``.git`` file of the work tree lead here. Raises OSError."""
        path = os.path.join(self.place, ".git")
        remove(path)  # a command may have made it a repository
        write_atomic(path, b"gitdir: " + os.fsencode(self.git_dir) + b"\n")

    def follow(self) -> None:
        """Give it the HEAD and the index that the other work tree has now, and nothing else. Raises GitError."""
        try:
            self._tidy()
            self._follow_head()
            self._follow_index()
        except OSError as error:
            raise GitError(f"'{self.git_dir}' cannot be written: {error.strerror}") from None

    def _tidy(self) -> None:
        """Remove what a command left: locks, an operation under way, its own refs (not those that lie in tables)."""
        for name in os.listdir(self.git_dir):
            path = os.path.join(self.git_dir, name)
            if name in _KEPT or name.startswith("sharedindex.") or (self._reftable and name in _TABLES):
                continue
            remove(path)

    def _follow_head(self) -> None:
        self._at = head_of(self.source, self._common) or self._oid(self.source, "HEAD")
        if self._stays():
            return
        if not self._reftable:  # what a command made of it may be no HEAD by which git knows a git directory
            write_atomic(os.path.join(self.git_dir, "HEAD"), b"ref: %s\n" % _UNBORN.encode())
        if self._at is not None:
            self._run(self.git_dir, "update-ref", "--no-deref", "HEAD", self._at)
        else:
            self._run(self.git_dir, "symbolic-ref", "HEAD", _UNBORN)
            self._run(self.git_dir, "update-ref", "-d", _UNBORN)

    def _stays(self) -> bool:
        """Whether HEAD is detached where ``follow`` put it."""
        return self._at is not None and detached(self.git_dir) == self._at

    def left(self) -> Oid | None:
        """The commit that HEAD has come to since ``follow``, if no branch, tag or HEAD of the user's has it."""
        if self._stays():
            return None
        found = self._oid(self.git_dir, "HEAD^{commit}")
        if found in (None, self._at):
            return None
        own = {"GIT_DIR": self.git_dir}
        branch = self._git.run("symbolic-ref", "-q", "HEAD", env=own)
        if branch.code == 0 and branch.out.strip() != _UNBORN.encode():
            return None
        known = ("--branches", "--tags", "--remotes", *([self._at] if self._at else []))
        return found if self._git.run("rev-list", "-n", "1", found or "", "--not", *known, "--", env=own).out.strip() else None

    def _follow_index(self) -> None:
        own = os.path.join(self.git_dir, "index")
        if not os.path.exists(self.index):
            remove(own)
            return
        shared = [name for name in os.listdir(os.path.dirname(self.index)) if name.startswith("sharedindex.")]
        for name in shared:
            _copy(os.path.join(os.path.dirname(self.index), name), os.path.join(self.git_dir, name))
        _copy(self.index, own)
        rules = os.path.join("info", "sparse-checkout")
        if os.path.isfile(os.path.join(self.source, rules)):
            os.makedirs(os.path.join(self.git_dir, "info"), exist_ok=True)
            _copy(os.path.join(self.source, rules), os.path.join(self.git_dir, rules))

    def _oid(self, git_dir: str, name: str) -> Oid | None:
        """The object of a name; None where there is none."""
        result = self._git.run("rev-parse", "-q", "--verify", name, env={"GIT_DIR": git_dir})
        oid = result.out.decode("ascii", "replace").strip()
        return oid if result.code == 0 and OID.match(oid) else None

    def _run(self, git_dir: str, *args: str) -> None:
        self._git.changed({"GIT_DIR": git_dir}).out(*args)


def _copy(source: str, target: str) -> None:
    """Copy a small file with its time: git compares an index's with those of the files."""
    with open(source, "rb") as file:
        found = os.fstat(file.fileno())
        write_atomic(target, file.read(), times=(found.st_atime_ns, found.st_mtime_ns))
