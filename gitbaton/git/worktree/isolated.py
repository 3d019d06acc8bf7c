"""Isolated work trees: linked ones that hold everything the user's has now, for commands that must not touch it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import Signature, read_or_none, remove, remove_folder, write_atomic
from gitbaton.base.system.groups import ChildProcess
from gitbaton.git import foreground
from gitbaton.git.objects import OID
from gitbaton.git.reffiles import detached, head_of
from gitbaton.git.repo import Repo, make_folder
from gitbaton.git.run import Git, in_worktree, zsplit
from gitbaton.git.worktree.crashmarker import Marker
from gitbaton.git.worktree.dirsync import Tree
from gitbaton.git.worktree.untracked import MAX_RULES


class Lane:
    """An isolated work tree, empty until ``sync``: a linked one at ``path``, outside the user's, registered with git, HEAD
    detached where the user's is (unborn where that is).

    ``how`` says how its files were made: ``reflink`` or ``copy``. ``left_out`` are files and folders that could not be read;
    sockets, pipes and devices are never taken. When it is closed, folder and registration are removed; if this process is
    killed before, by ``sweep``. Not thread-safe. Raises GitError.
    """

    def __init__(self, repo: Repo) -> None:
        if repo.layout.root is None:
            raise GitError(f"'{repo.layout.git_dir}' has no work tree")
        repo.settings()  # git must know the hooks to switch off
        layout, self._repo, self._root = repo.layout, repo, os.path.realpath(repo.layout.root)
        self._marker = Marker(repo, _beside(repo, self._root))
        self.path, self._name = self._marker.path, self._marker.name
        self._own = Registration(repo.git, layout.git_dir, layout.common_dir, self._name, self.path, index=layout.index)
        self.git_dir = self._own.git_dir
        self._nested: dict[str, Registration] = {}
        skip = {os.path.realpath(p) for p in (layout.git_dir, layout.common_dir, self.path)}
        self._tree = Tree(self._root, self.path, skip, self._adopt)
        try:
            self._register(self._own)
        except BaseException:
            self.close()
            raise

    @property
    def how(self) -> str:
        """``reflink`` where files share their blocks with the user's until one of them is written (small ones are read and
        written: that is sooner done), else ``copy``."""
        return "reflink" if self._tree.copier.cloned else "copy"

    @property
    def left_out(self) -> tuple[str, ...]:
        """The paths that could not be read by the last sync."""
        return tuple(self._tree.left_out)

    def sync(self) -> None:
        """Make files, HEAD and index equal to those of the user's work tree now. Raises GitError."""
        try:
            self._own.point()
            self._own.follow()
            self._tree.sync()
            for path, nested in self._nested.items():
                if os.path.isdir(os.path.join(self.path, path)):
                    nested.follow()
        except OSError as error:
            raise GitError(f"the lane {in_quotes(self.path)} cannot be filled: {error.strerror or error}") from None

    def changed(self, matches: Callable[[str], bool]) -> dict[str, tuple[Signature | None, bool]]:
        """Return what was changed in the lane since ``sync`` at paths that do not match, ignored files left out, in git's
        order: each with the signature of the user's file where that is as it was then, and whether one is in the lane now.
        Nothing where all of it is gone. Raises GitError."""
        if os.path.islink(self.path) or not os.path.isdir(self.path):
            return {}
        try:
            found = {path: both for path, both in self._tree.changed().items() if not matches(path)}
        except OSError as error:
            raise GitError(f"the lane {in_quotes(self.path)} cannot be read: {error.strerror or error}") from None
        ignored = self._ignored(list(found)) if found else set[str]()
        return {path: found[path] for path in sorted(found, key=os.fsencode) if path not in ignored}

    def commit(self) -> Oid | None:
        """Return the commit that was made in the lane since ``sync`` and is on no branch. Raises GitError."""
        return self._own.new_commit()

    @property
    def gone(self) -> bool:
        """Whether a command has removed the lane, or what git knows of it."""
        return os.path.islink(self.path) or not (os.path.isdir(self.path) and os.path.isdir(self.git_dir))

    def environment(self) -> dict[str, str]:
        """Return the environment of a command in the lane: git means the lane there, and a command that removes ``.git``
        does not end in a repository further up."""
        env, above = foreground.environment(self._repo, "beside"), os.path.dirname(self.path)
        ceilings = env.get("GIT_CEILING_DIRECTORIES")
        return env | {"GIT_CEILING_DIRECTORIES": above + (os.pathsep + ceilings if ceilings else "")}

    def runs(self, child: ChildProcess) -> None:
        """Record the command that runs in the lane: it is ended before the lane of a killed process is removed. Raises
        GitError."""
        self._marker.runs(child)

    def close(self) -> None:
        """Remove the lane. Raises GitError when something of it is left."""
        if not self._marker.remove():
            raise GitError(f"the lane {in_quotes(self.path)} could not be removed")

    def _register(self, registration: Registration) -> None:
        """Register a work tree of the lane, after the marker has named what is made. Raises GitError."""
        self._marker.add(registration.git_dir, registration.building)
        registration.make(self._marker.lock_fd)

    def _adopt(self, path: str, text: bytes) -> bool:
        """Register the nested work tree of a ``.git`` file with this ``text``, and return whether the file was written: what
        is done in the copy must not reach the index or the files of the original."""
        known = self._nested.get(path)
        target = os.path.join(self._root, path, os.fsdecode(text).removeprefix("gitdir: ").rstrip("\r\n"))
        source = os.path.realpath(target)
        if "\n" in source or not os.path.exists(os.path.join(source, "HEAD")) or self._within(source, text):
            return False
        if known is not None and known.source == source:
            known.point()
            return True
        shared = os.fsdecode(read_or_none(os.path.join(source, "commondir"), MAX_RULES) or b".").rstrip("\r\n")
        common = os.path.realpath(os.path.join(source, shared))
        name = f"{self._name}-{os.urandom(4).hex()}"
        made = Registration(self._repo.git, source, common, name, os.path.join(self.path, path))
        self._register(made)
        self._nested[path] = made
        return True

    def _within(self, source: str, text: bytes) -> bool:
        """Whether a ``.git`` file leads to what was copied along with it, by a path that fits there, too."""
        if os.path.isabs(os.fsdecode(text[len(b"gitdir: ") :])) or not source.startswith(self._root + os.sep):
            return False
        return not any(source == p or source.startswith(p + os.sep) for p in self._tree.skip)

    def _ignored(self, paths: list[str]) -> set[str]:
        """Return the paths that git ignores; none where it cannot say."""
        env = in_worktree(self._repo.git.env, self.git_dir, self.path)
        git = Git(self.path, env, config=self._repo.git.config)
        result = git.run("check-ignore", "-z", "--stdin", stdin=b"".join(os.fsencode(p) + b"\0" for p in paths))
        return set(zsplit(result.out)) if result.code == 0 else set()


def _beside(repo: Repo, root: str) -> str:
    """Return the folder to make a lane in: beside the work tree, where its files can be shared, ``../`` leads to the same
    places and tools that look for their settings further up find the same; but not in another work tree, nor in ``/``."""
    above = os.path.dirname(root)
    inside, at = False, above
    while not inside and at != os.path.dirname(at):
        inside, at = os.path.lexists(os.path.join(at, ".git")), os.path.dirname(at)
    same = os.stat(above).st_dev == os.stat(root).st_dev
    if above != os.sep and same and not inside and os.access(above, os.W_OK | os.X_OK):
        return above
    import tempfile

    temporary = os.path.realpath(tempfile.gettempdir())
    if temporary != root and not temporary.startswith(root + os.sep):
        return temporary
    folder = os.path.join(repo.shared_dir, "lanes")
    make_folder(repo, folder)
    return folder


_UNBORN = "refs/worktree/lane"  # a commit there makes no branch in the user's repository
_KEPT = ("HEAD", "commondir", "gitdir", "index", "config.worktree", "info")
_TABLES = ("refs", "reftable")
_TRIES = 4


class Registration:
    """A linked work tree at ``place`` under a name of its own, which follows the work tree of the git directory ``source``;
    ``git_dir`` is its own. Git makes it at ``building``: ``place`` may have files already."""

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
        """Register with git, which holds the lock ``lock_fd``, too: it may outlive us, and what it makes is not swept
        before. The folder ``place`` is there. Raises GitError."""
        try:
            head = self._oid(self.source, "HEAD") or self._nothing()
            above = os.path.dirname(self.building)
            for folder in (os.path.dirname(above), above):  # git follows a link that stands there
                with suppress(FileExistsError):
                    os.mkdir(folder)
                if not stat.S_ISDIR(os.lstat(folder).st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, f"{folder} is {os.strerror(errno.ENOTDIR).lower()}")
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
        """Let git register it; retry if the last other work tree went meanwhile, and the folder of all with it."""
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
        """Write a commit of no files, and return its id: before 2.42 git makes no work tree without one."""
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
            # A command may have left locks, an operation under way, and refs of its own; those that lie in tables stay.
            for name in os.listdir(self.git_dir):
                if not (name in _KEPT or name.startswith("sharedindex.") or (self._reftable and name in _TABLES)):
                    remove(os.path.join(self.git_dir, name))
            self._follow_head()
            self._follow_index()
        except OSError as error:
            raise GitError(f"'{self.git_dir}' cannot be written: {error.strerror}") from None

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

    def new_commit(self) -> Oid | None:
        """Return the commit that HEAD has come to since ``follow``, if no branch, tag or HEAD of the user's has it."""
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
        beside, rules = os.path.dirname(self.index), os.path.join(self.source, "info", "sparse-checkout")
        os.makedirs(os.path.join(self.git_dir, "info"), exist_ok=True)
        shared = [os.path.join(beside, name) for name in os.listdir(beside) if name.startswith("sharedindex.")]
        for path in (*shared, *([rules] if os.path.isfile(rules) else ())):
            _copy_file(path, os.path.join(self.git_dir, "info" if path == rules else "", os.path.basename(path)))
        _copy_file(self.index, own)

    def _oid(self, git_dir: str, name: str) -> Oid | None:
        """Return the object of a name; None where there is none."""
        result = self._git.run("rev-parse", "-q", "--verify", name, env={"GIT_DIR": git_dir})
        oid = result.out.decode("ascii", "replace").strip()
        return oid if result.code == 0 and OID.match(oid) else None

    def _run(self, git_dir: str, *args: str) -> None:
        self._git.changed({"GIT_DIR": git_dir}).out(*args)


def _copy_file(source: str, target: str) -> None:
    """Copy a small file with its time: git compares an index's with those of the files."""
    with open(source, "rb") as file:
        found = os.fstat(file.fileno())
        write_atomic(target, file.read(), times=(found.st_atime_ns, found.st_mtime_ns))
