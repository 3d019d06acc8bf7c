"""Damage in a repository: torn objects, and where else their bytes may still be (packs without an index, work trees, a remote);
refs as they lie on disk, and one put in the place of a broken one by git's own protocol."""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from glob import escape, glob

from gitbaton.base.errors import GitError, RefConflictError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import read_or_none, sync_paths
from gitbaton.base.system.groups import boot
from gitbaton.base.values import value
from gitbaton.git import reffiles
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.loose import STAMP, is_hollow
from gitbaton.git.objects import OID, digest, packed_refs
from gitbaton.git.repo import Repo, make_folder, put
from gitbaton.git.run import BORROWED, Git, base_environment, checked

BROKEN = "broken"  # in our folder of the common directory, by the time: what was moved away
_ASKED = ("commit", "tree", "blob", "tag")
_SHARED = ("GIT_OBJECT_DIRECTORY", BORROWED)
_PACKED = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64}) refs/[^\0-\x20\x7f]+\n|\^(?:[0-9a-f]{40}|[0-9a-f]{64})\n|#.*\n")
_LOG = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) [^\t]*> \d+ [-+]\d{4}(?:\t.*)?\Z")
_PSEUDO = ("HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")


def loose(repo: Repo) -> Iterator[tuple[Oid, str]]:
    """Yield the objects of this repository's own that have a file of their own, each with its path."""
    for folder in sorted(os.listdir(repo.objects_dir)):
        place = os.path.join(repo.objects_dir, folder)
        try:
            names = os.listdir(place) if len(folder) == 2 else []
        except (FileNotFoundError, NotADirectoryError):  # git has just removed a folder that it found empty
            continue
        yield from ((folder + name, os.path.join(place, name)) for name in names if OID.match(folder + name))


def torn(repo: Repo) -> dict[Oid, str]:
    """Return the loose objects with a file that does not hold them, each with its path: every file is read, its id computed."""
    return {oid: path for oid, path in loose(repo) if not _whole(repo, oid, path)}


def since_start(repo: Repo) -> Mapping[Oid, str]:
    """Return the loose objects that were torn before this machine was started. Those count that were written after the stamp of
    an earlier start; without one, of all those that one look finds hollow. Where there is none the stamp is of this start."""
    stamp = os.path.join(repo.shared_dir, STAMP)
    try:
        since: float | None = os.lstat(stamp).st_mtime
    except FileNotFoundError:
        since = None
    found: dict[Oid, str] = {}
    for oid, path in loose(repo):
        with suppress(FileNotFoundError):  # git has just collected it
            if is_hollow(path) if since is None else os.stat(path).st_mtime >= since and not _whole(repo, oid, path):
                found[oid] = path
    if not found:
        put(repo, stamp, boot().encode("ascii"), fresh=f".{os.getpid()}.{time.monotonic_ns()}")
    return found


def set_aside(repo: Repo, found: Mapping[Oid, str]) -> list[str]:
    """Move torn loose objects into a folder of ours, so that git writes them again; return a warning. Raises GitError."""
    place = os.path.join(repo.shared_dir, BROKEN, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), "objects")
    try:
        for oid, path in found.items():
            move(repo, path, os.path.join(place, oid))
    except OSError as error:
        raise GitError(f"torn objects cannot be moved away: {error.strerror}") from None
    what = "torn object" if len(found) == 1 else "torn objects"
    return [f"moved {len(found)} {what} into '{repo.shared_dir}/broken'"] if found else []


def _whole(repo: Repo, oid: Oid, path: str) -> bool:
    try:
        with open(path, "rb") as file:
            raw = zlib.decompress(file.read())
    except (PermissionError, FileNotFoundError):
        return True  # who cannot look does not know, and what git has just collected is not torn
    except (OSError, zlib.error):
        return False
    return digest(repo.layout.algorithm, raw).hex() == oid


def listed(repo: Repo) -> dict[Oid, tuple[str, int]]:
    """Return every object that git finds here, reachable or not, with its type and size. Raises GitError."""
    result = repo.git.run("cat-file", "--batch-check", "--batch-all-objects", "--unordered", "--buffer")
    raw = result.out
    if result.code != 0:  # it gives up at a pack that does not fit its index
        oids = {oid for oid, _ in loose(repo)} | {oid for path in _packs(repo) for oid in indexed(repo, path)}
        asked = "".join(f"{oid}\n" for oid in oids).encode()
        raw = repo.git.run("cat-file", "--batch-check", "--buffer", stdin=asked).out
    rows = (line.split(" ") for line in raw.decode("ascii", "replace").splitlines())
    return {row[0]: (row[1], int(row[2])) for row in rows if len(row) == 3 and row[1] in _ASKED}


def _packs(repo: Repo) -> list[str]:
    place = os.path.join(repo.objects_dir, "pack")
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    return [os.path.join(place, name) for name in names if name.endswith(".pack")]


def indexed(repo: Repo, pack: str) -> tuple[Oid, ...]:
    """Return the objects that the index of a pack names; none where there is no index."""
    index = _read(pack.removesuffix(".pack") + ".idx")
    rows = repo.git.run("show-index", f"--object-format={repo.layout.algorithm}", stdin=index).out.split(b"\n")
    return tuple(row.split(b" ")[1].decode("ascii") for row in rows if row.count(b" ") > 0)


def move(repo: Repo, path: str, target: str) -> None:
    """Move a file into a folder of ours, durably; where it is gone already, nothing. Raises OSError."""
    make_folder(repo, os.path.dirname(target))
    try:
        os.replace(path, target)
    except FileNotFoundError:
        return
    sync_paths(folder for folder in (os.path.dirname(target), os.path.dirname(path)) if os.path.isdir(folder))


def missing_alternates(repo: Repo) -> list[str]:
    """Return the object folders of other repositories that this one borrows from, and that are not there."""
    listed = _read(os.path.join(repo.objects_dir, "info", "alternates")).splitlines()
    rows = [os.fsdecode(row) for row in listed if row and not row.startswith(b"#")]
    return [row for row in rows if not os.path.isdir(os.path.join(repo.objects_dir, row))]


@value
class Pack:
    """A pack that git cannot use: whether it has an index, and which objects that names; whether all of it can be read."""

    path: str
    indexed: bool
    whole: bool
    oids: tuple[Oid, ...]


class Spare:
    """Objects beside the repository, in a folder of their own, read through ``door``: what packs, work trees and a remote still
    hold."""

    def __init__(self, repo: Repo, folder: str) -> None:
        self.repo, self.folder = repo, folder
        os.makedirs(os.path.join(folder, "pack"), exist_ok=True)
        env = {name: text for name, text in repo.git.env.items() if name not in _SHARED}
        self.git = Git(repo.git.directory, {**env, "GIT_OBJECT_DIRECTORY": folder}, config=repo.git.config)
        layout = repo.layout
        self.door = BinaryObjects(self.git, layout.git_dir, layout.common_dir, layout.algorithm)

    def oids(self) -> list[Oid]:
        """Return the objects that lie here."""
        raw = self.git.run("cat-file", "--batch-check=%(objectname)", "--batch-all-objects", "--unordered", "--buffer").out
        return raw.decode("ascii", "replace").split()

    def unpack(self) -> list[Pack]:
        """Take what can be read from packs that git cannot use: those without an index, and those that are damaged."""
        found: list[Pack] = []
        for path in _packs(self.repo):
            index = path.removesuffix(".pack") + ".idx"
            there = os.path.exists(index)
            if there and self.git.run("verify-pack", index).code == 0:
                continue
            with open(path, "rb") as file:
                whole = self.git.run("unpack-objects", "-q", "-r", stdin=file.read()).code == 0
            found.append(Pack(path=path, indexed=there, whole=whole, oids=indexed(self.repo, path)))
        return found

    def take(self, git_dir: str, root: str) -> None:
        """Take a work tree as it is on disk, tracked and untracked files, and the trees of its files and of its index."""
        index = os.path.join(self.folder, "index")
        place = {"GIT_DIR": git_dir, "GIT_WORK_TREE": root}
        git = Git(root, {**self.git.env, **place}, config=(*self.git.config, "core.safecrlf=false"))
        rows = git.run("ls-files", "-s", "-z").out
        git = git.changed({"GIT_INDEX_FILE": index})
        if git.run("update-index", "-z", "--index-info", stdin=rows).code == 0:
            git.run("write-tree", "--missing-ok")
        git.run("add", "-A", "--ignore-errors", "--sparse")
        git.run("write-tree", "--missing-ok")
        if os.path.exists(index):
            os.unlink(index)

    def fetch(self, remote: str) -> list[str]:
        """Take what a remote has of ours and of branches; the object folder is that of an empty repository that fetches it.
        What went wrong comes back."""
        url = self.repo.git.run("remote", "get-url", "--", remote)
        address = os.fsdecode(url.out).rstrip("\n") if url.code == 0 else remote
        bare = os.path.join(self.folder, "fetched")
        git = Git(self.folder, base_environment(strip_local=True), config=self.repo.git.config)
        checked(git.run("init", "-q", "--bare", f"--object-format={self.repo.layout.algorithm}", "--", bare), "init")
        fetching = Git(bare, {**git.env, "GIT_DIR": bare, "GIT_OBJECT_DIRECTORY": self.folder}, config=self.repo.git.config)
        said = fetching.run("fetch", "-q", "--no-tags", "--", address, "refs/baton/*:refs/baton/*", "refs/heads/*:refs/heads/*")
        notes = fetching.run("fetch", "-q", "--no-tags", "--", address, "refs/notes/checkpoints:refs/notes/checkpoints")
        return [] if said.code == 0 or notes.code == 0 else [f"'{remote}' gives nothing: {said.fatal()}"]


@value
class Lying:
    """A ref as it lies on disk. ``oid``: what it points at, None where it holds no id; ``raw``: its file's bytes, None where it
    is packed."""

    name: str
    oid: Oid | None
    raw: bytes | None = None


def lying(repo: Repo) -> dict[str, Lying]:
    """Return every ref below ``refs/`` that all work trees share, by name."""
    common = repo.layout.common_dir
    if os.path.isdir(os.path.join(common, "reftable")):
        refs = repo.objects.refs("refs/")
        return {name: Lying(name=name, oid=oid if oid.strip("0") else None) for name, oid in refs.items()}
    found: dict[str, Lying] = {}
    for line in packed_lines(repo):
        text, _, packed = os.fsdecode(line).rstrip("\n").partition(" ")
        if packed.startswith("refs/"):
            found[packed] = Lying(name=packed, oid=text if OID.match(text) else None)
    for name in sorted(reffiles.lying(repo, "refs")):
        path = os.path.join(common, name)
        if os.path.isfile(path):
            raw = _read(path)
            text = raw.decode("ascii", "replace").rstrip()
            found[name] = Lying(name=name, oid=text if OID.match(text) and text.strip("0") else None, raw=raw)
    return found


def _read(path: str) -> bytes:
    return read_or_none(path, follow=True) or b""


def packed_lines(repo: Repo) -> list[bytes]:
    """Return the lines of git's file of packed refs, with their ends."""
    return re.findall(rb"[^\n]*\n|[^\n]+\Z", packed_refs(repo.layout.common_dir))


def bad_lines(repo: Repo) -> list[bytes]:
    """Return the lines that git cannot read: with one of them there, git reads no ref at all."""
    return [line for line in packed_lines(repo) if not _PACKED.match(line)]


def lacks_end(line: bytes) -> bool:
    """Whether a bad line lacks only its newline, since the file was cut."""
    return not line.endswith(b"\n") and _PACKED.match(line + b"\n") is not None


def put_file(repo: Repo, name: str, data: bytes | None, expected: bytes | None = None) -> None:
    """Put bytes in the place of a file of git's in the common directory, or take it away (None), as git does it: under the lock
    beside it, whole or not at all, on disk. ``expected``: what it must hold. Raises RefConflictError, OSError."""
    path = os.path.join(repo.layout.common_dir, *name.split("/"))
    lock = path + ".lock"
    try:
        fd = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        raise RefConflictError(f"'{lock}' is there: another process writes it, or one was killed") from None
    if expected is not None and _read(path) != expected:
        os.close(fd)
        os.unlink(lock)
        raise RefConflictError(f"'{path}' was written meanwhile")
    with open(fd, "wb") as file:
        file.write(data or b"")
        file.flush()
        os.fsync(file.fileno())
    if data is not None:
        os.replace(lock, path)
    else:
        if os.path.lexists(path):
            os.unlink(path)
        os.unlink(lock)
    sync_paths([os.path.dirname(path)])


def log_of(repo: Repo, name: str) -> tuple[list[bytes], list[bytes]]:
    """Return the lines of a ref's log that are as git writes them, and the others."""
    lines = _read(os.path.join(repo.layout.common_dir, "logs", *name.split("/"))).splitlines()
    return [line for line in lines if _LOG.match(line)], [line for line in lines if not _LOG.match(line)]


def logged(line: bytes) -> list[Oid]:
    """Return the ids that a ref had before and after a line of its log."""
    found = _LOG.match(line)
    return [oid.decode() for oid in found.groups() if oid.strip(b"0")] if found is not None else []


def beside(repo: Repo, ours: Iterable[str]) -> Iterator[Oid]:
    """Yield the ids beside refs that keep objects of the user's: HEAD and its like in each work tree, and every log of refs but
    ``ours``."""
    common, own = repo.layout.common_dir, tuple(ours)
    for place in (common, *glob(os.path.join(escape(common), "worktrees", "*"))):
        for name in _PSEUDO:
            yield from re.findall(r"\b[0-9a-f]{40,64}\b", _read(os.path.join(place, name)).decode("ascii", "replace"))
        logs = os.path.join(place, "logs")
        for path in (os.path.join(folder, file_name) for folder, _, files in os.walk(logs) for file_name in files):
            if not os.path.relpath(path, logs).startswith(own):
                with open(path, "rb") as file:
                    yield from (oid for line in file.read().splitlines() for oid in logged(line))
