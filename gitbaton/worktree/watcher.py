"""Watcher process: removes a scratch work tree and its registration when its owner ends, even killed."""

from __future__ import annotations

import os
import time

from gitbaton.errors import GitError
from gitbaton.system.files import acquire
from gitbaton.system.process import spawn
from gitbaton.worktree.crashmarker import remove

PREFIX = "gitbaton-"
TELL = 9  # a child's end of the watcher's pipe; a jobserver of make may have 3 and 4
MARK = "baton-scratch"
_OUTLIVED = 600.0  # seconds after which nobody marks what has no mark

# Makes the folder, then reads lines: the process id of what runs, an empty one when it has ended. When nobody holds the pipe
# any more, who runs is killed (a negative id: its whole group) and the places are removed.
# A killed process may still write a moment.
_WATCHER = r"""
trap '' HUP INT TERM QUIT PIPE
cd / && exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-
(umask 077 && mkdir -- "$1") || exit 2
echo
exec >/dev/null
child=
while IFS= read -r line; do child=$line; done
test -z "$child" || kill -s KILL -- "$child"
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  left=
  for place do test ! -e "$place" -a ! -L "$place" || left=1; done
  test -n "$left" || break
  rm -rf -- "$@" && continue
  for place do test ! -e "$place" || test -L "$place" || chmod -R u+rwx -- "$place"; done
  sleep 0.1
done
shift
for place do
  shift
  test ! -d "${place%/*}" || set -- "$@" "${place%/*}"
done
test $# = 0 || rmdir -- "$@"
test -z "$left"
"""


def new_path(folder: str | None = None) -> str:
    """Where a scratch folder may be made: a name of its own below ``folder``, or the system's temporary directory."""
    if folder is None:
        import tempfile

        folder = tempfile.gettempdir()
    return os.path.join(os.path.realpath(folder), PREFIX + os.urandom(8).hex())


def watch(path: str, *places: str) -> tuple[int, int]:
    """Start a watcher, which makes the folder ``path``, and removes it and the other places (and the folders that these were
    in, where they are empty) when our end of its pipe is closed: that end, and the watcher's process id. Raises GitError."""
    reader, pipe = os.pipe()
    answer, said = os.pipe()
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        words = ["sh", "-c", _WATCHER, "gitbaton-watcher", path, *places]
        pid = spawn(words, os.environ, reader, said, null, group=True)
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


def tell(pipe: int, text: str) -> None:
    """Tell a watcher who runs (a process id, negative for a group, or nothing). Raises GitError."""
    try:
        os.write(pipe, os.fsencode(text) + b"\n")
    except BrokenPipeError:
        raise GitError("the process that watches over the scratch work tree was ended") from None


def dismiss(pipe: int, pid: int, mark: int | None, *places: str) -> bool:
    """Let the watcher remove its places and wait for it; whether nothing is left."""
    os.close(pipe)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if mark is not None:
        os.close(mark)
    if code < 0:  # somebody ended the watcher
        remove(*places)
    return not any(os.path.lexists(place) for place in places)


def hold(git_dir: str) -> int:
    """Mark a registration as that of a living process; the descriptor to keep. Raises OSError."""
    mark = os.path.join(git_dir, MARK)
    fd = os.open(mark + ".new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    acquire(fd, None)
    os.rename(mark + ".new", mark)  # nobody sees it unlocked
    return fd


def sweep(common_dir: str) -> None:
    """Remove what is left of scratch work trees whose owner and watcher were killed: nobody holds their mark, or set one."""
    parent = os.path.join(common_dir, "worktrees")
    try:
        names = [name for name in os.listdir(parent) if name.startswith(PREFIX)]
    except OSError:
        return
    for name in names:
        git_dir = os.path.join(parent, name)
        try:
            fd = os.open(os.path.join(git_dir, MARK), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            _sweep_unmarked(common_dir, git_dir)
            continue
        except OSError:
            continue
        try:
            if not acquire(fd):
                continue
            with open(os.path.join(git_dir, "gitdir"), "rb") as file:
                path = os.path.dirname(os.fsdecode(file.read()).rstrip("\n"))
            more = [place for place in os.fsdecode(os.read(fd, 1 << 20)).split("\0") if place]
            if all(os.path.basename(place).startswith(name) for place in (path, *more)):
                remove(path, *more, git_dir)
        except OSError:
            continue
        finally:
            os.close(fd)


def _sweep_unmarked(common_dir: str, git_dir: str) -> None:
    """Remove what a git made that outlived its owner: nobody has marked it, and nobody will."""
    name = os.path.basename(git_dir)
    try:
        if time.time() - os.stat(git_dir).st_mtime < _OUTLIVED:
            return
        with open(os.path.join(git_dir, "gitdir"), "rb") as file:
            path = os.path.dirname(os.fsdecode(file.read()).rstrip("\n"))
    except OSError:
        return
    if os.path.basename(path) == name:
        remove(path, os.path.join(common_dir, "baton", "lanes.new", name), git_dir)
