"""A scratch work tree: linked, below the system's temporary directory, and gone afterwards, whatever ends us."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from gitbaton.errors import GitError
from gitbaton.git.objects import OID
from gitbaton.git.repo import Repo
from gitbaton.git.run import LOCAL_ENV, Git, Process, base_environment, checked, memory_file
from gitbaton.model import Oid

PREFIX = "gitbaton-"
_MARK = "baton-scratch"
_POLITE_SECONDS = 2.0
_TELL = 9  # the child's end of the watcher's pipe; a jobserver of make may have 3 and 4

# Makes the folder, then reads the process ids of what runs, one a line, an empty one when it has ended. When nobody holds the
# pipe any more, who runs is killed (a negative id: its whole group) and the work tree removed. A killed process may still
# write a moment.
_WATCHER = r"""
trap '' HUP INT TERM QUIT
cd / && exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-
(umask 077 && mkdir -- "$1") || exit 2
echo && exec >/dev/null
child=
while IFS= read -r line; do child=$line; done
test -z "$child" || kill -s KILL -- "$child"
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  rm -rf -- "$1" "$2" && ! test -e "$1" && ! test -e "$2" && { rmdir -- "${2%/*}"; exit 0; }
  test -L "$1" || chmod -R u+rwx -- "$1"
  sleep 0.1
done
exit 1
"""
# A child names itself to the watcher before it becomes the command, so there is no moment in which nobody knows it.
_CHILD = f"""
printf '%s\\n' "$1$$" >&{_TELL} && exec {_TELL}>&- || exit 128
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
        mark = os.path.join(self.git_dir, _MARK)
        self._mark = os.open(mark + ".new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._mark, fcntl.LOCK_EX)
        os.rename(mark + ".new", mark)  # nobody sees it unlocked

    def move(self, commit: Oid) -> None:
        """Put the files of a commit into the work tree, over what a command changed in them; what it left beside them stays,
        as with ``git bisect run``. Raises GitError."""
        self._git(self._own, "checkout", "-q", "--force", "--detach", _checked(commit))

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
        self._tell("")
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
        self._tell("")
        return 128 - code if code < 0 else code

    def _start(self, argv: Sequence[str], env: Mapping[str, str], stdin: int, out: int, err: int) -> int:
        words = ["sh", "-c", _CHILD, "sh", "-" if self._group else "", self.path, *argv]
        return _spawn(words, env, {0: stdin, 1: out, 2: err, _TELL: self._pipe}, group=self._group)

    def _target(self, pid: int) -> int:
        return -pid if self._group else pid

    def _tell(self, text: str) -> None:
        try:
            os.write(self._pipe, text.encode() + b"\n")
        except BrokenPipeError:
            raise GitError("the process that watches over the scratch work tree was ended") from None

    def close(self) -> bool:
        """Let the watcher remove the work tree and wait for it; whether nothing is left."""
        os.close(self._pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(self._watcher, 0)[1])
        if self._mark is not None:
            os.close(self._mark)
        if code < 0:  # somebody ended the watcher
            _remove(self.path, self.git_dir)
        return not os.path.lexists(self.path) and not os.path.lexists(self.git_dir)


@contextmanager
def scratch(repo: Repo, commit: Oid) -> Iterator[Scratch]:
    """A scratch work tree registered at a commit, without files yet. No hook runs. When the block ends, and also when this
    process is killed, what runs in it is ended, and folder and registration are removed. Raises GitError."""
    _sweep(repo.layout.common_dir)
    place = Scratch(repo)
    gone = True
    try:
        place.make(commit)
        yield place
    finally:
        gone = place.close()
    if not gone:
        raise GitError(f"the scratch work tree '{place.path}' could not be removed")


def new_path() -> str:
    """Where a scratch folder may be made: a name of its own below the system's temporary directory."""
    import tempfile

    return os.path.join(os.path.realpath(tempfile.gettempdir()), PREFIX + os.urandom(8).hex())


def watch(path: str, git_dir: str) -> tuple[int, int]:
    """Start a watcher, which makes the folder, and removes both when our end of its pipe is closed: that end, and the
    watcher's process id. Raises GitError."""
    reader, pipe = os.pipe()
    answer, said = os.pipe()
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        words = ["sh", "-c", _WATCHER, "gitbaton-watcher", path, git_dir]
        pid = _spawn(words, os.environ, {0: reader, 1: said, 2: null}, group=True)
    except BaseException:
        os.close(pipe)
        os.close(answer)
        raise
    finally:
        for fd in (reader, said, null):
            os.close(fd)
    try:
        made = os.read(answer, 1)
    finally:
        os.close(answer)
    if not made:
        os.close(pipe)
        os.waitpid(pid, 0)
        raise GitError(f"the folder '{path}' cannot be made")
    return pipe, pid


def _spawn(argv: Sequence[str], env: Mapping[str, str], streams: Mapping[int, int], *, group: bool) -> int:
    """Start a program with descriptors at given numbers, perhaps as the head of a process group; its process id."""
    copies = {target: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for target, fd in streams.items() if fd != target}
    actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in copies.items()]
    try:
        if group:
            return os.posix_spawnp(argv[0], list(argv), env, file_actions=actions, setpgroup=0, setsigdef=[signal.SIGPIPE])
        return os.posix_spawnp(argv[0], list(argv), env, file_actions=actions, setsigdef=[signal.SIGPIPE])
    except (OSError, ValueError) as error:
        raise GitError(f"'{argv[0]}' cannot be started: {error}") from None
    finally:
        for fd in copies.values():
            os.close(fd)


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


def _sweep(common_dir: str) -> None:
    """Remove what is left of scratch work trees whose owner and watcher were both killed: nobody holds their mark."""
    parent = os.path.join(common_dir, "worktrees")
    try:
        names = [name for name in os.listdir(parent) if name.startswith(PREFIX)]
    except OSError:
        return
    for name in names:
        git_dir = os.path.join(parent, name)
        try:
            fd = os.open(os.path.join(git_dir, _MARK), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with open(os.path.join(git_dir, "gitdir"), "rb") as file:
                path = os.path.dirname(os.fsdecode(file.read()).rstrip("\n"))
            if os.path.basename(path) == name:
                _remove(path, git_dir)
        except OSError:
            continue
        finally:
            os.close(fd)


def _remove(path: str, git_dir: str) -> None:
    """A work tree and its registration, also where a command took its own permissions away."""

    def open_up(retry: Callable[[str], object], name: str, _: object) -> None:
        os.chmod(os.path.dirname(name), 0o700)
        if not os.path.islink(name) and os.path.isdir(name):
            os.chmod(name, 0o700)
        retry(name)

    for place in (path, git_dir):
        try:
            shutil.rmtree(place, onerror=open_up)
        except OSError:
            continue
    try:
        os.rmdir(os.path.dirname(git_dir))
    except OSError:
        pass
