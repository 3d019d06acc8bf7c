"""Scratch work tree: linked, in the system's temporary directory, and removed afterwards, also after a kill."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from gitbaton.errors import GitError, GitTimeoutError
from gitbaton.git.objects import OID
from gitbaton.git.repo import Repo
from gitbaton.git.run import LOCAL_ENV, Git, base_environment, checked
from gitbaton.model import Oid
from gitbaton.system.files import memory_file
from gitbaton.system.process import Process, spawn
from gitbaton.worktree.watcher import TELL, dismiss, hold, new_path, sweep, tell, watch

_POLITE_SECONDS = 2.0
# A child names itself to the watcher before it becomes the command, so there is no moment in which nobody knows it.
_CHILD = f"""
printf '%s\\n' "$1$$" >&{TELL} && exec {TELL}>&- || exit 128
cd -- "$2" || exit 128
shift 2
exec "$@"
"""


class Scratch:
    """A scratch work tree at ``path``; see ``scratch``."""

    def __init__(self, repo: Repo) -> None:
        repo.settings()  # git must know the hooks to switch off
        self.path = new_path()
        parent = os.path.join(repo.layout.common_dir, "worktrees")
        self.git_dir = os.path.join(parent, os.path.basename(self.path))
        config = ("submodule.recurse=false", "worktree.useRelativePaths=false", *repo.git.config)
        self._common = repo.git.changed({}, *config[:2])
        self._own = Git(self.path, _environment(repo, self.git_dir, self.path), config=config, timeout=repo.git.timeout)
        self._mark: int | None = None
        # A command that stands in the terminal's foreground must stay there, or reading from it would stop it.
        self._group = not _is_terminal(0)
        self._pipe, self._watcher = watch(self.path, self.git_dir)

    def make(self, commit: Oid) -> None:
        """Register the work tree, without files yet. Raises GitError."""
        self._git(self._common, "worktree", "add", "-q", "--detach", "--no-checkout", "--", self.path, _checked(commit))
        if not os.path.isdir(self.git_dir):
            raise GitError(f"git made no '{self.git_dir}' for the scratch work tree")
        self._mark = hold(self.git_dir)

    def move(self, commit: Oid) -> None:
        """Put the files of a commit into the work tree, over what a command changed in them; what it left beside them stays,
        as with ``git bisect run``. Raises GitError."""
        words = ("checkout", "-q", "--force", "--detach", _checked(commit))
        try:
            self._git(self._own, *words)
        except GitTimeoutError:
            raise
        except GitError:  # even forced, it leaves a file alone that a command told git to take for unchanged
            self._git(self._own, "read-tree", "HEAD")
            self._git(self._own, *words)

    def _git(self, git: Git, *args: str) -> bytes:
        """A git command that the watcher knows."""
        reader, writer = os.pipe()
        err, null = memory_file(), os.open(os.devnull, os.O_RDONLY)
        argv = git.argv(*args)
        try:
            pid = self._start(argv, git.env, null, writer, err)
        except BaseException:
            os.close(reader)
            os.close(err)
            raise
        finally:
            os.close(writer)
            os.close(null)
        result = Process(argv, pid, reader, err, time.monotonic() + git.timeout).finish()
        tell(self._pipe, "")
        return checked(result, args[0])

    def run(self, argv: Sequence[str], *, out: int = 1) -> int:
        """Run a command at the top of the work tree, with the user's environment less what names a repository, its standard
        output on ``out``; its exit status as a shell gives it (128 and the signal's number when one ended it)."""
        env = {k: v for k, v in os.environ.items() if k not in LOCAL_ENV}
        pid = self._start(argv, env, 0, out, 2)
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except BaseException:
            _stop(pid, self._target(pid))
            raise
        tell(self._pipe, "")
        return 128 - code if code < 0 else code

    def _start(self, argv: Sequence[str], env: Mapping[str, str], stdin: int, out: int, err: int) -> int:
        words = ["sh", "-c", _CHILD, "sh", "-" if self._group else "", self.path, *argv]
        return spawn(words, env, stdin, out, err, {self._pipe: TELL}, group=self._group)

    def _target(self, pid: int) -> int:
        return -pid if self._group else pid

    def close(self) -> bool:
        """Let the watcher remove the work tree and wait for it; whether nothing is left."""
        return dismiss(self._pipe, self._watcher, self._mark, self.path, self.git_dir)


@contextmanager
def scratch(repo: Repo, commit: Oid) -> Iterator[Scratch]:
    """A scratch work tree registered at a commit, without files yet. No hook runs. When the block ends, and also when this
    process is killed, what runs in it is ended, and folder and registration are removed. Raises GitError."""
    sweep(repo.layout.common_dir)
    place = Scratch(repo)
    gone = True
    try:
        place.make(commit)
        yield place
    finally:
        gone = place.close()
    if not gone:
        raise GitError(f"the scratch work tree '{place.path}' could not be removed")


def _environment(repo: Repo, git_dir: str, path: str) -> dict[str, str]:
    """For our git calls in the work tree: it is named, so that nothing a command does to its ``.git`` leads git elsewhere."""
    places = ("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")
    env = base_environment(strip_local=True) | {k: v for k, v in repo.git.env.items() if k in places}
    return env | {"GIT_DIR": git_dir, "GIT_WORK_TREE": path}


def _checked(commit: Oid) -> Oid:
    if not OID.match(commit):
        raise GitError(f"'{commit}' is not an object id")
    return commit


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def _stop(pid: int, target: int) -> None:
    """End a command of ours: politely, then not."""
    for number, patience in ((signal.SIGTERM, _POLITE_SECONDS), (signal.SIGKILL, 60.0)):
        _kill(target, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                return
            time.sleep(0.02)


def _kill(target: int, number: signal.Signals) -> None:
    try:
        os.kill(target, number)
    except ProcessLookupError:
        pass
