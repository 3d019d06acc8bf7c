"""Plan and apply: the steps of an install or uninstall, told before they are done, and the files that they change."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

from gitbaton.errors import BatonError
from gitbaton.git.repo import Repo, shared
from gitbaton.system.files import sync_paths, write_atomic
from gitbaton.values import value

MAX_BYTES = 4 << 20


@value
class Step:
    """One change that a plan makes: what to tell, and the function that does it; ``check`` raises when it must not any more."""

    text: str
    run: Callable[[], object]
    check: Callable[[], object]


@value
class Plan:
    """Steps in their order. ``notices`` always matter; ``remarks`` are for when something is done.

    ``locked`` keeps other installs out meanwhile; ``folders`` go at the end, if they are empty then.
    """

    steps: tuple[Step, ...]
    notices: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    locked: Callable[[], AbstractContextManager[None]] = nullcontext
    folders: tuple[str, ...] = ()


class Draft:
    """A plan in the making."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.notices: list[str] = []

    def step(self, text: str, run: Callable[[], object], check: Callable[[], object] = lambda: None) -> None:
        """Plan a step."""
        self.steps.append(Step(text=text, run=run, check=check))

    def plan(self) -> Plan:
        """The plan."""
        return Plan(steps=tuple(self.steps), notices=tuple(dict.fromkeys(self.notices)))


def apply(plan: Plan, done: Callable[[str], object] | None = None) -> None:
    """Carry out a plan, unless a check fails: then nothing is changed. ``done`` is told each step after it.

    Raises BatonError; what was done by then stays, and the next run goes on from there.
    """
    if not plan.steps:
        return
    about, count = "the records of what is installed cannot be written", 0
    try:
        with plan.locked():
            for step in plan.steps:
                step.check()
            for step in plan.steps:
                about = step.text
                step.run()
                if done is not None:
                    done(step.text)
                    count += 1
    except OSError as error:
        stays = [f"{count} of {len(plan.steps)} steps are done and stay; run it again for the rest"] if count else []
        raise BatonError(f"{about}: {error.strerror or error}", *stays) from None
    drop_folders(plan.folders)


def share(repo: Repo) -> None:
    """Let the others of a shared repository read, change and take back what was installed for all of it."""
    hooks = os.path.join(repo.shared_dir, "hooks")
    scripts = [os.path.join(hooks, name) for name in os.listdir(hooks)] if os.path.isdir(hooks) else []
    for path in (repo.shared_dir, *(os.path.join(repo.shared_dir, name) for name in ("installed", "agents")), hooks, *scripts):
        if os.path.lexists(path):
            shared(repo, path)


@value
class File:
    """A file as it was looked at. ``shown`` is its name for the user, ``real`` where its bytes are; None: it is not there.

    ``owner``: its user and group; ``links``: how many names it has.
    """

    shown: str
    real: str
    data: bytes | None
    mode: int
    owner: tuple[int, int] | None = None
    links: int = 1


def read(path: str, limit: int = MAX_BYTES) -> bytes | None:
    """The first bytes of a file, at most ``limit`` (-1: all); None when it is not there or cannot be read."""
    try:
        with open(path, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK)) as file:  # waits for no pipe
            return file.read(limit)
    except (OSError, ValueError):
        return None


def digest(data: bytes) -> str:
    """What a manifest remembers of a file's bytes."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def look(path: str, shown: str, *, inside: str | None = None, git_dir: str | None = None) -> File:
    """A file that may be changed, symbolic links followed; ``inside``: it must not lead out of that directory.

    Raises BatonError in one line for what is not read: a directory, a device, a file that is too large or not ours to read,
    a link that leads out of the work tree or into ``git_dir``.
    """
    real = os.path.realpath(path)
    if inside is not None and not _below(real, os.path.realpath(inside)):
        raise BatonError(f"'{shown}' leads out of the work tree, to '{real}'")
    if git_dir is not None and _below(real, os.path.realpath(git_dir)):
        raise BatonError(f"'{shown}' leads into the repository's own directory")
    found = _read_plain(real, shown)
    if found is None:
        mask = os.umask(0o022)
        os.umask(mask)
        return File(shown=shown, real=real, data=None, mode=0o666 & ~mask)
    data, entry = found
    mode, owner = stat.S_IMODE(entry.st_mode), (entry.st_uid, entry.st_gid)
    return File(shown=shown, real=real, data=data, mode=mode, owner=owner, links=entry.st_nlink)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def _read_plain(path: str, shown: str) -> tuple[bytes, os.stat_result] | None:
    """A plain file of no great size, whole; None where there is none. Raises BatonError for what cannot be read."""
    try:
        _check_plain(os.stat(path), shown)
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())  # another one may stand there by now
            _check_plain(found, shown)
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BatonError(f"'{shown}' cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise BatonError(f"'{shown}' is over {MAX_BYTES >> 20} MiB")
    return data, found


def _check_plain(found: os.stat_result, shown: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise BatonError(f"'{shown}' is {'a directory' if stat.S_ISDIR(found.st_mode) else 'not a plain file'}")


def check_unchanged(file: File, after: bytes | None) -> bool:
    """Whether the file has the bytes it is to have already. Raises BatonError when it is not what it was, either."""
    found = _read_plain(file.real, file.shown)
    now = found[0] if found else None
    if now not in (file.data, after):
        raise BatonError(f"'{file.shown}' has just been changed by somebody else, and is left as it is", "run it again")
    return now == after


def check_writable(file: File, *, gone: bool) -> None:
    """Raise BatonError when a file cannot be written (``gone``: removed) or would not stay what it is."""
    folder = os.path.dirname(file.real)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise BatonError(f"'{file.shown}' cannot be written: '{folder}' is not a directory")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BatonError(f"'{file.shown}' cannot be written: '{folder}' may not be changed")
    if file.data is None:
        return
    if not file.mode & 0o222 or not os.access(file.real, os.W_OK):
        raise BatonError(f"'{file.shown}' is read-only, and is left as it is")
    if gone:
        return
    if file.links > 1:
        raise BatonError(f"'{file.shown}' is one of {file.links} names of a file (hard links), and is left as it is")
    if file.owner is not None and os.geteuid() != 0:
        user, group = file.owner
        if user != os.geteuid() or group not in (os.getegid(), *os.getgroups()):
            raise BatonError(f"'{file.shown}' belongs to somebody else, and is left as it is")


def write(path: str, data: bytes, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Write a file whole or not at all, with its mode and owner, and on disk. Raises OSError."""

    def made(fd: int) -> None:
        found = os.fstat(fd)
        if owner is not None and owner != (found.st_uid, found.st_gid):
            os.fchown(fd, *owner)
        os.fchmod(fd, mode)

    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    write_atomic(path, data, temporary=temporary, mode=mode & 0o600, sync=True, made=made)


def keep(path: str, kept: str) -> None:
    """Let a hook have a second name before ours takes its place, so that it runs at every moment. Raises OSError."""
    try:
        os.link(path, kept, follow_symlinks=False)
    except OSError:  # a file system without hard links
        os.rename(path, kept)
    sync_paths([os.path.dirname(kept)])


def make_folders(folder: str) -> list[str]:
    """Make a folder and those above it; the ones that were not there. Raises OSError."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    made = []
    for path in reversed(missing):
        try:
            os.mkdir(path)
        except FileExistsError:  # somebody else was faster
            continue
        made.append(path)
    return made


def drop_folders(folders: Iterable[str]) -> None:
    """Remove folders that we made, unless somebody has put something into them."""
    for folder in sorted(set(folders), key=len, reverse=True):
        try:
            os.rmdir(folder)
        except OSError:
            continue
