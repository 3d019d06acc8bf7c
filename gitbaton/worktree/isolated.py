"""Isolated work trees: linked ones that hold everything the user's has now, for commands that must not touch it."""

from __future__ import annotations

import os
from collections.abc import Callable

from gitbaton.codec import in_quotes
from gitbaton.errors import GitError
from gitbaton.git import foreground
from gitbaton.git.repo import Repo, make_folder
from gitbaton.git.run import Git, in_worktree, zsplit
from gitbaton.model import Oid
from gitbaton.system.files import open_below
from gitbaton.system.groups import Child
from gitbaton.worktree.crashmarker import Marker
from gitbaton.worktree.dirsync import Tree
from gitbaton.worktree.filetrees import Reader
from gitbaton.worktree.filewatch import Stray
from gitbaton.worktree.gate import Gate
from gitbaton.worktree.registration import Registration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.system.files import Signature


class Lane:
    """A lane of a repository, empty until ``sync``: a linked work tree at ``path``, outside the user's, registered with git,
    HEAD detached where the user's is (where that is unborn, so is this one).

    ``how`` says how its files were made: ``reflink`` or ``copy``. ``left_out`` are files and folders that could not be read;
    sockets, pipes and devices are never taken. When it is closed, folder and registration are removed; where this process is
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
        """What could not be read when the lane was last synced."""
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

    def changed(self, matches: Callable[[str], bool]) -> tuple[Stray, ...]:
        """What was changed in the lane since ``sync`` at paths that do not match, ignored files left out, by path, with blob
        ids (of objects that were not written; over 100 MiB that of the digest's text). ``before`` is also None where the user
        has changed the file meanwhile. Nothing where all of it is gone. Raises GitError."""
        if os.path.islink(self.path) or not os.path.isdir(self.path):
            return ()
        try:
            paths = [path for path in self._tree.changed() if not matches(path)]
            if not paths:
                return ()
            ignored = self._ignored(paths)
            here, there = self._reader(self._root, paths), self._reader(self.path, paths)
            strays = [self._stray(path, here, there) for path in sorted(paths, key=os.fsencode) if path not in ignored]
        except OSError as error:
            raise GitError(f"the lane {in_quotes(self.path)} cannot be read: {error.strerror or error}") from None
        return tuple(s for s in strays if s is not None)

    def commit(self) -> Oid | None:
        """The commit that was made in the lane since ``sync`` and is on no branch. Raises GitError."""
        return self._own.left()

    @property
    def gone(self) -> bool:
        """Whether a command has removed the lane, or what git knows of it."""
        return os.path.islink(self.path) or not (os.path.isdir(self.path) and os.path.isdir(self.git_dir))

    def environment(self) -> dict[str, str]:
        """The environment of a command in the lane: git means the lane there, and a command that removes ``.git`` does not end
        in a repository further up."""
        env, above = foreground.environment(self._repo, "beside"), os.path.dirname(self.path)
        ceilings = env.get("GIT_CEILING_DIRECTORIES")
        return env | {"GIT_CEILING_DIRECTORIES": above + (os.pathsep + ceilings if ceilings else "")}

    def runs(self, child: Child) -> None:
        """Say which command runs in the lane: it is ended before the lane of a killed process is removed. Raises GitError."""
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
        """Register the nested work tree whose ``.git`` file says ``text``: what is done in the copy must not reach the index
        or the files of the original. Whether the file has been written."""
        known = self._nested.get(path)
        target = os.path.join(self._root, path, os.fsdecode(text).removeprefix("gitdir: ").rstrip("\r\n"))
        source = os.path.realpath(target)
        if "\n" in source or not os.path.exists(os.path.join(source, "HEAD")):
            return False
        if self._within(source, text):
            return False
        if known is not None and known.source == source:
            known.point()
            return True
        common = os.path.realpath(os.path.join(source, _first_line(os.path.join(source, "commondir")) or "."))
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
        """The paths that git ignores; none where it cannot say."""
        env = in_worktree(self._repo.git.env, self.git_dir, self.path)
        git = Git(self.path, env, config=self._repo.git.config)
        result = git.run("check-ignore", "-z", "--stdin", stdin=b"".join(os.fsencode(p) + b"\0" for p in paths))
        return set(zsplit(result.out)) if result.code == 0 else set()

    def _reader(self, root: str, paths: list[str]) -> Reader:
        gate = Gate(self._repo, root)
        gate.ask(paths)
        return Reader(self._repo.layout.algorithm, filemode=True, gate=gate)

    def _stray(self, path: str, here: Reader, there: Reader) -> Stray | None:
        """What a path that seems changed is and was; None where it is the same."""
        known = self._tree.known(path)
        after = _image(self.path, path, there)
        before = _image(self._root, path, here) if known is not None else None
        if before is not None and before[1] != known:
            before = None
        elif before == after or (before and after and (before[0], before[1][4]) == (after[0], after[1][4])):
            return None
        return Stray(path=path, before=before[0] if before else None, after=after[0] if after else None)


def _image(root: str, path: str, reader: Reader) -> tuple[Oid, Signature] | None:
    """The blob id and the signature of a file or symbolic link below ``root``, reached through no link; None where there is
    none to be read."""
    *folders, name = path.split("/")
    try:
        above = open_below(root, folders)
    except OSError:
        return None
    try:
        read = reader.read(name, path, digest=False, folder=above)
    except GitError:
        return None
    finally:
        os.close(above)
    return (reader.oid(read), read.signature) if read is not None else None


def _first_line(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.readline(8192)).rstrip("\r\n")
    except OSError:
        return ""


def _beside(repo: Repo, root: str) -> str:
    """Where a lane lies: beside the work tree, where its files can be shared, ``../`` leads to the same places and tools that
    look for their settings further up find the same; but not in another work tree, nor in ``/``."""
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
