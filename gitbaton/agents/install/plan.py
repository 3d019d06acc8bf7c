"""Plan and apply: the steps of an install or uninstall, told before they are done, the files that they change, and the
manifests that remember what was done to them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any, Literal

from gitbaton.agents.settings import Edit
from gitbaton.base.errors import BatonError
from gitbaton.base.system.files import NO_FILE, acquire, open_regular, read_regular, sync_paths, umask, write_atomic
from gitbaton.base.values import replace, value
from gitbaton.git.repo import Repo, has_folder, shared

MAX_BYTES = 4 << 20


@value
class InstallStep:
    """One change that a plan makes: what to tell, and the function that does it; ``check`` raises when it must not any more."""

    text: str
    run: Callable[[], object]
    check: Callable[[], object]


@value
class InstallPlan:
    """Steps in their order. ``notices`` always matter; ``remarks`` are for when something is done.

    ``locked`` keeps other installs out meanwhile; ``folders`` go at the end, if they are empty then; ``changed``: the files
    that were there before and get something of ours.
    """

    steps: tuple[InstallStep, ...]
    notices: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    locked: Callable[[], AbstractContextManager[None]] = nullcontext
    folders: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class Draft:
    """A plan in the making."""

    def __init__(self) -> None:
        self.steps: list[InstallStep] = []
        self.notices: list[str] = []

    def step(self, text: str, run: Callable[[], object], check: Callable[[], object] = lambda: None) -> None:
        """Plan a step."""
        self.steps.append(InstallStep(text=text, run=run, check=check))

    def plan(self) -> InstallPlan:
        """The plan."""
        return InstallPlan(steps=tuple(self.steps), notices=tuple(dict.fromkeys(self.notices)))


def apply(plan: InstallPlan, done: Callable[[str], object] | None = None) -> None:
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


def refuse_others(repo: Repo, *folders: str) -> None:
    """Raise BatonError where something else is in the place of a folder of ours: a link would lead us to another user's
    files."""
    for folder in folders:
        if os.path.lexists(folder) and not has_folder(repo, folder):
            raise BatonError(f"'{folder}' is no folder of ours, and nothing is installed or taken back", "git baton doctor")


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
        return read_regular(path, limit, follow=True)
    except (OSError, ValueError):
        return None


def digest(data: bytes) -> str:
    """Return the digest of a file's bytes that a manifest remembers."""
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
        return File(shown=shown, real=real, data=None, mode=0o666 & ~umask())
    data, entry = found
    mode, owner = stat.S_IMODE(entry.st_mode), (entry.st_uid, entry.st_gid)
    return File(shown=shown, real=real, data=data, mode=mode, owner=owner, links=entry.st_nlink)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def _read_plain(path: str, shown: str) -> tuple[bytes, os.stat_result] | None:
    """A plain file of no great size, whole; None where there is none. Raises BatonError for what cannot be read."""
    try:
        with open(path, "rb", opener=lambda name, _: open_regular(name)) as file:
            found, data = os.fstat(file.fileno()), file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in NO_FILE:
            raise BatonError(f"'{shown}' is {'a directory' if os.path.isdir(path) else 'not a plain file'}") from None
        raise BatonError(f"'{shown}' cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise BatonError(f"'{shown}' is over {MAX_BYTES >> 20} MiB")
    return data, found


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
    """Remove folders that we made, unless something is in them."""
    for folder in sorted(set(folders), key=len, reverse=True):
        with suppress(OSError):
            os.rmdir(folder)


@value
class InstallRecord:
    """Memory of what install did to a file. ``digest`` of its bytes then; ``edits`` lead back from them, None where none do
    exactly.

    ``made``: the containers that were not there before, None where that is not known. ``created``: the file itself was not
    there. ``folders``: those that were made for it.
    """

    digest: str
    edits: tuple[Edit, ...] | None = None
    made: tuple[str, ...] | None = ()
    created: bool = False
    folders: tuple[str, ...] = ()


class Manifest:
    """Memory of what install wrote at one level: files, folders that were made, values of git's configuration.

    ``kind`` is the format. ``hooks``: what git's hooks need, a digest a file, readable for all users of a shared repository.
    ``files``: what went into files of agents, how it leads back, for the user alone; gone with its last file. ``lost``: no
    manifest can be read, and what is ours is told by its marks alone.
    """

    def __init__(self, path: str, kind: Literal["hooks", "files"]) -> None:
        self.path, self.kind = path, kind
        self.load()

    def load(self) -> None:
        """Take up what is in the file; nothing where it cannot be read."""
        self.lost = True
        self.config: list[tuple[str, str]] = []
        self.files: dict[str, InstallRecord] = {}
        self.folders: list[str] = []
        try:
            data = json.loads((read(self.path) or b"").decode("utf-8", "surrogateescape"))
            config = [(str(key), str(text)) for key, text in (data["config"] if self.kind == "hooks" else ())]
            folders = [str(folder) for folder in data["folders"]]
            self.files = {str(name): _record(item) for name, item in data[self.kind].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return
        self.config, self.folders, self.lost = config, folders, False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other writers out, and read again what they have left. Raises OSError."""
        folder = os.path.dirname(self.path)
        made: list[str] = []
        while True:
            made += make_folders(folder)
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with suppress(OSError):  # a file system without locks
                    acquire(fd, None)
                if not os.path.isdir(folder) or not os.path.samestat(os.stat(folder), os.fstat(fd)):
                    continue  # who held it was the last, and took the folder away
                self.load()
                self.folders = list(dict.fromkeys([*self.folders, *made]))
                try:
                    yield
                finally:
                    if not self.files:
                        drop_folders(self.folders)
                return
            finally:
                os.close(fd)

    def put(self, name: str, record: InstallRecord | None) -> None:
        """Remember a file, or forget it. Raises OSError."""
        if record is not None:
            self.files[name] = record
        elif (gone := self.files.pop(name, None)) is None:
            return
        else:
            for folder in gone.folders:  # goes with the last file in it
                heir = next((other for other in self.files if other.startswith(os.path.join(folder, ""))), None)
                if heir is not None:
                    self.files[heir] = replace(self.files[heir], folders=(*self.files[heir].folders, folder))
        self.save()

    def put_value(self, key: str, text: str, *, here: bool) -> None:
        """Remember a value of git's configuration, or forget it. Raises OSError."""
        if ((key, text) in self.config) == here:
            return
        if here:
            self.config.append((key, text))
        else:
            self.config.remove((key, text))
        self.save()

    def save(self) -> None:
        """Write the file. Raises OSError."""
        if self.kind == "hooks":
            digests = {name: record.digest for name, record in self.files.items()}
            document = {"v": 1, "config": self.config, "hooks": digests, "folders": self.folders}
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            write(self.path, json.dumps(document, indent=2).encode("utf-8", "surrogateescape"), 0o644)
        elif self.files:
            document = {"v": 1, "folders": self.folders, "files": {name: _fields(r) for name, r in self.files.items()}}
            write(self.path, json.dumps(document).encode("utf-8", "surrogateescape"), 0o600)
        elif os.path.lexists(self.path):
            os.unlink(self.path)


def _fields(record: InstallRecord) -> dict[str, Any]:
    edits = None if record.edits is None else [[e.start, e.length, e.old] for e in record.edits]
    fields = {"made": record.made, "created": record.created, "folders": record.folders}
    return {"digest": record.digest, "edits": edits, **fields}


def _record(data: str | dict[str, Any]) -> InstallRecord:
    if isinstance(data, str):
        return InstallRecord(digest=data)
    edits, made = data["edits"], data["made"]
    return InstallRecord(
        digest=str(data["digest"]),
        edits=None if edits is None else tuple(Edit(start=int(s), length=int(n), old=str(old)) for s, n, old in edits),
        made=None if made is None else tuple(map(str, made)),
        created=data["created"] is True,
        folders=tuple(map(str, data["folders"])),
    )


class Manifests:
    """Manifests of agents' files: of the level that is changed, then of others that may know the same files, because a home
    folder can be a work tree."""

    def __init__(self, own: str, *others: str) -> None:
        self.own, self.all = own, [Manifest(path, "files") for path in (own, *others)]

    def of(self, file: File) -> InstallRecord | None:
        """Return what is remembered of a file."""
        return next((manifest.files[file.real] for manifest in self.all if file.real in manifest.files), None)

    def exact(self, file: File) -> InstallRecord | None:
        """Return what is remembered of a file that has not changed since."""
        record = self.of(file)
        return record if record and file.data is not None and record.digest == digest(file.data) else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other installs out, and read again what they have left. Raises OSError."""
        known = {manifest.path: manifest for manifest in self.all if manifest.path == self.own or manifest.files}
        with ExitStack() as stack:
            for path in sorted(known):  # in one order, so that no two wait for each other
                stack.enter_context(known[path].locked())
            yield

    def put(self, name: str, record: InstallRecord | None) -> None:
        """Remember a file at the level that is changed alone, or forget it everywhere; only while locked. Raises OSError."""
        for manifest in self.all:
            manifest.put(name, record if manifest.path == self.own else None)
