"""Crash-safe publishing: new objects go to disk as one kept pack, then the refs move and are fsynced, which git itself does not
do; and removal of the packs that killed processes kept or were making."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from gitbaton.base.errors import MENDS, CollectedError, GitError
from gitbaton.base.model import Oid
from gitbaton.base.system import groups
from gitbaton.base.system.files import closing_fd, read_regular, remove_folder, sweep, sync_paths
from gitbaton.base.system.process import begin
from gitbaton.base.values import TYPE_CHECKING, cast
from gitbaton.git.binary import SYNCED, BinaryObjects
from gitbaton.git.loose import FEW, FEW_BYTES, drop_torn, put_in
from gitbaton.git.objects import OID, NewObject, Objects, RefChange
from gitbaton.git.packfile import LARGE, New, deflated, plain, put_packs
from gitbaton.git.questions import FSYNC
from gitbaton.git.repo import Repo, clear_old, make_folder, sharer
from gitbaton.git.run import Git, unwritten

if TYPE_CHECKING:
    from typing import Literal

    Fsync = Literal["always", "ordered", "never"]
_MOST_REFS = 1 << 16
WORD = "gitbaton"  # how the text of a file that keeps a pack begins
WORKSHOP = "pack."  # prefix of the name of a folder where packs are made
ELSEWHERE = "baton-"  # before that, in an object store on another file system than our own folder
_DEAD = 60.0  # seconds after which a keep file of a dead process is stale
_FOREIGN = 86_400.0  # the same for one of another machine, or of before a reboot
_LEFTOVER = 3600.0  # seconds after which a folder where packs are made is stale
_ASKING = ("loose-object", "objects", "committed", "added", "all")  # words of core.fsync that ask for objects to be fsynced
_NO_PACK = "a pack cannot be written: "
_MUCH, _MUCH_BYTES = 256, 4 << 20
_ENDS = (".pack", ".idx")  # git knows a pack by its index, so that comes last
_FEW = 64  # files that are brought to disk one by one
_FAST = ("pack.threads=1", "pack.compression=1", "pack.writeReverseIndex=false", "pack.packSizeLimit=0")
# The C library gives a freed block of this size back at once, and gets it anew: git frees and asks for one an object, and the
# system's part of that takes up to twice as long as git's own. Where it is another C library's, nothing is said by these.
_HEAP = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "67108864", "MALLOC_TOP_PAD_": "4194304"}
_PARTIAL = ("--missing=allow-promisor", "--sparse")
# Objects of threads lie in the order in which they came, so each is much like the one before it of its kind and size. A read
# takes no more than eight steps.
_ALIKE = ("--window=1", "--depth=8", "--no-reuse-object")


def durable_door(repo: Repo, *, lasting: bool = False) -> BinaryObjects:
    """Return a reader and writer that fsyncs each object, and each ref before it replaces the old one. ``lasting``: one process
    moves all refs."""
    repo.settings()  # a writer must know the hooks to switch off
    layout = repo.layout
    return BinaryObjects(repo.git.changed({}, *SYNCED), layout.git_dir, layout.common_dir, layout.algorithm, lasting=lasting)


class Durable:
    """Durable ref updates of one repository, whichever door opened it. ``lasting``: one git process moves all refs; it ends
    when the repository is closed."""

    def __init__(self, repo: Repo, *, lasting: bool = False) -> None:
        self.repo, self._lasting = repo, lasting
        self._folders: dict[str, tuple[int, int]] = {}  # fsynced folders: inode, and mtime of the folder above
        self._fsynced: dict[str, Oid | None] = {}  # refs that this object has fsynced, and what they point at
        self._refs: Objects | None = None

    def update_all(self, *transactions: Sequence[RefChange], names: bool = True) -> None:
        """Move refs durably, as Objects.update. Without ``names`` only their bytes are fsynced: after a power cut each ref is
        whole, and may be the old one."""
        if self._refs is None:
            self._refs = durable_door(self.repo, lasting=self._lasting)
            if self._lasting:
                self.repo.at_close.append(self.close)
        changes = [change for changes in transactions for change in changes]
        for change in changes:
            self._fsynced.pop(change.name, None)
        self._refs.update(*transactions)
        if not names:
            return
        if not self._sync_reftable():
            self._sync_folders(os.path.dirname(self._file(change.name)) for change in changes)
            if any(change.new is None for change in changes):  # git writes packed-refs anew without it
                self._sync_packed_refs()
        self._remember(changes)

    def confirm(self, changes: Sequence[RefChange]) -> None:
        """Fsync refs that another process already moved, and may not have fsynced; those that this object moved cost nothing.
        Raises GitError."""
        due = [change for change in changes if self._fsynced.get(change.name) != change.new]
        if due and not self._sync_reftable():
            paths = [self._file(change.name) for change in due]
            self._sync(paths)
            self._sync_folders(map(os.path.dirname, paths))
            self._sync_packed_refs()  # some may stand there
        self._remember(due)

    def emptied(self, folders: Iterable[str]) -> None:
        """Fsync the removal of all refs below folders, by any process. Raises GitError."""
        if not self._sync_reftable():
            self._sync_folders(self._file(folder.rstrip("/")) for folder in folders)
            self._sync_packed_refs()

    def _sync_reftable(self) -> bool:
        """Fsync the reftable; whether the repository has one."""
        place = os.path.join(self.repo.layout.common_dir, "reftable")
        if not os.path.isdir(place):
            return False
        self._sync([*(os.path.join(place, name) for name in sorted(os.listdir(place))), place])
        return True

    def _sync_packed_refs(self) -> None:
        """Fsync packed-refs and its name."""
        common = self.repo.layout.common_dir
        self._sync([os.path.join(common, "packed-refs"), common])

    def _sync_folders(self, folders: Iterable[str]) -> None:
        """Fsync folders of refs, and those above them that this object has not fsynced as they are."""
        top = os.path.join(self.repo.layout.common_dir, "refs")
        met: dict[str, tuple[int, int] | None] = {}
        for folder in folders:
            while folder.startswith(top) and folder not in met:
                above = os.path.dirname(folder)
                met[folder] = None
                with suppress(OSError):  # one that is gone has no names
                    # Git removes one that is empty, and file systems give its number to the next.
                    met[folder] = (os.stat(folder).st_ino, os.stat(above).st_mtime_ns)
                if met[folder] is not None and self._folders.get(folder) == met[folder]:
                    break
                folder = above
        there = {folder: seen for folder, seen in met.items() if seen is not None}
        self._sync([*there])
        self._folders.update(there)

    def _file(self, ref: str) -> str:
        return os.path.join(self.repo.layout.common_dir, *ref.split("/"))

    def _remember(self, changes: Sequence[RefChange]) -> None:
        """Remember refs that are fsynced."""
        if len(self._fsynced) > _MOST_REFS:
            self._fsynced.clear()
        self._fsynced.update({change.name: change.new for change in changes})

    def _sync(self, paths: Sequence[str]) -> None:
        """Fsync files and folders; git may just have packed a ref away. Raises GitError."""
        try:
            sync_paths(paths, missing=True)
        except OSError as error:
            raise GitError(f"a ref cannot be brought to disk: {error.strerror}") from None

    def close(self) -> None:
        """Close the git process."""
        refs, self._refs = self._refs, None
        if refs is not None:
            refs.close()


def fsync(repo: Repo, *, automatic: bool = False) -> Fsync:
    """Return what a write waits for: ``baton.fsync``; unset, ``always``, and ``ordered`` for automatic checkpoints, unless
    ``core.fsync`` asks for objects."""
    values = repo.settings()
    chosen = values.get("baton.fsync", [""])[-1].lower()
    if chosen in FSYNC:
        return cast("Fsync", chosen)
    asked = values.get("core.fsync", [""])[-1].lower().split(",")
    return "ordered" if automatic and not any(word.strip() in _ASKING for word in asked) else "always"


def publish(repo: Repo, *transactions: Sequence[RefChange], new: Sequence[NewObject], automatic: bool = False) -> None:
    """Write objects that no ref reaches yet, then move refs to them, as Objects.update."""
    with stored(repo, new, automatic=automatic):
        move_refs(repo, *transactions, how=fsync(repo, automatic=automatic))


def publish_reachable(
    repo: Repo, *transactions: Sequence[RefChange], without: Iterable[Oid | None] = (), automatic: bool = False
) -> None:
    """Move refs, as Objects.update, once all that they will reach is on disk and safe from any ``git gc``; but for what they
    reach now, and what ``without`` reaches. Raises CollectedError, with nothing moved, where an object is missing or torn."""
    changes = [change for changes in transactions for change in changes]
    new = [change.new for change in changes if change.new is not None and change.new != change.old]
    how = fsync(repo, automatic=automatic)
    with kept_reachable(repo, new, (*(change.old for change in changes), *without), how=how):
        move_refs(repo, *transactions, how=how)


def publish_at_head(
    repo: Repo, base: Oid | None, *transactions: Sequence[RefChange], without: Iterable[Oid | None], automatic: bool = False
) -> None:
    """Publish as ``publish_reachable``, for refs that stand on ``base``, the commit of HEAD when the work tree was captured.
    Once HEAD has left it, ``base`` is stored, too, and only what other refs reach is left out."""
    there = base is None or _head(repo) == base
    publish_reachable(repo, *transactions, without=(base, *without) if there else _tips(repo), automatic=automatic)
    keep_base(repo, base, *transactions, how=fsync(repo, automatic=automatic))


def keep_base(repo: Repo, base: Oid | None, *transactions: Sequence[RefChange], how: Fsync) -> None:
    """Store ``base``, the commit of HEAD when the work tree was captured, where HEAD has left it while refs moved: a git that
    began to collect then has not seen them. Raises CollectedError, with the refs moved back, where it is gone."""
    if base is None or _head(repo) == base:
        return
    own = {change.new for changes in transactions for change in changes}
    try:
        with kept_reachable(repo, [base], [oid for oid in _tips(repo) if oid not in own], how=how):
            pass
    except CollectedError:
        back = [[RefChange(name=c.name, new=c.old, old=c.new) for c in changes] for changes in reversed(transactions)]
        move_refs(repo, *back, how=how)
        raise


def _head(repo: Repo) -> Oid | None:
    """Return the commit of HEAD; None also where it cannot be told."""
    try:
        return repo.objects.head().oid
    except GitError:
        return None


def _tips(repo: Repo) -> list[Oid | None]:
    """Return what all refs and HEAD point at now."""
    return [*repo.objects.refs("refs/").values(), _head(repo)]


def stored(repo: Repo, new: Sequence[NewObject], *, automatic: bool = False) -> AbstractContextManager[None]:
    """Write objects that no ref reaches yet; they are on disk, and safe from any ``git gc`` while the block runs."""
    repo.stow(new)
    return kept(repo, [item.oid for item in new], how=fsync(repo, automatic=automatic))


def quarantined(repo: Repo) -> list[Oid]:
    """Return the ids of all loose objects in the quarantine."""
    walk = os.walk(repo.quarantine())
    names = (os.path.basename(folder) + name for folder, _, files in walk for name in files)
    return sorted(filter(OID.match, names))


@contextmanager
def store_large(
    repo: Repo, trees: Sequence[Oid], without: Sequence[Oid | None], *, automatic: bool = False
) -> Iterator[Sequence[Oid]]:
    """Write large objects before taking the lock: where much is new below ``trees`` and not below ``without``, it is on disk
    and kept while the block runs. Gives the trees that were kept, to be left out later. Raises CollectedError."""
    if not _is_much(repo.quarantine()):
        yield ()
        return
    with kept_reachable(repo, trees, without, how=fsync(repo, automatic=automatic)):
        yield trees


def _is_much(place: str) -> bool:
    """Whether a folder of objects holds packs, or more than 256 objects or 4 MiB."""
    count = size = 0
    for folder, _, names in os.walk(place):
        count += len(names)
        size += sum(os.stat(os.path.join(folder, name)).st_size for name in names)
        if count > _MUCH or size > _MUCH_BYTES or any(name.endswith(".pack") for name in names):
            return True
    return False


def move_refs(repo: Repo, *transactions: Sequence[RefChange], how: Fsync, disk: Durable | None = None) -> None:
    """Move refs once their objects are on disk: with ``always`` the refs are fsynced when this returns; with ``ordered`` each
    is whole after a power cut, and may be the old one. ``disk``: that of a long process. Raises as Objects.update."""
    if how == "never":
        repo.objects.update(*transactions)
    else:
        (disk or Durable(repo)).update_all(*transactions, names=how == "always")


def flush(repo: Repo, paths: Sequence[str], root: str) -> None:
    """Fsync files below ``root`` and their folders; of many, the whole file system with one call. What is missing is passed
    over. Raises GitError."""
    if fsync(repo) != "always" or not paths or (len(paths) > _FEW and sync_all(repo, root)):
        return
    full = [os.path.join(root, path) for path in paths]
    above = {os.path.dirname(path) for path in full}
    try:
        files = [p for p in full if os.path.isfile(p) and not os.path.islink(p) and os.access(p, os.R_OK)]
        sync_paths([*files, *sorted(folder for folder in above if os.path.isdir(folder))])
    except OSError as error:
        raise GitError(f"files cannot be brought to disk: {error.strerror}") from None


def kept(repo: Repo, oids: Iterable[Oid], *, how: Fsync) -> AbstractContextManager[None]:
    """Keep these objects in a pack while the block runs; before it begins they are on disk, unless ``how`` is never.

    git prune removes loose objects only, and git repack only packs that it found when it began, less the kept ones: with a
    ref that names them when the block ends, they stay. Raises CollectedError.
    """
    return _kept(repo, list(dict.fromkeys(oids)), (), how)


def kept_reachable(
    repo: Repo, tips: Sequence[Oid], without: Iterable[Oid | None], *, how: Fsync, fresh: Sequence[NewObject] = ()
) -> AbstractContextManager[None]:
    """Keep, as ``kept``, all that ``tips`` reach and ``without``, as far as it is here, does not. ``fresh``: of the objects
    those that need not be in the store, or may be collected from it meanwhile."""
    known = [oid for oid in dict.fromkeys(without) if oid is not None and repo.objects.info(oid) is not None] if tips else []
    # Files of one capture are seldom alike. Git makes no deltas later within a pack, so elsewhere they are made now.
    return _kept(repo, [*tips, *(f"^{oid}" for oid in known)], ("--window=0", "--revs", *_PARTIAL), how, fresh)


def _kept(
    repo: Repo, words: Sequence[str], options: Sequence[str], how: Fsync, fresh: Sequence[NewObject] = ()
) -> AbstractContextManager[None]:
    return _keeping(_pack(repo, words, options, lambda folder: put_in(folder, fresh), how) if words else [])


def kept_whole(repo: Repo, objects: Sequence[NewObject], how: Fsync) -> AbstractContextManager[None]:
    """Keep, as ``kept``, these few objects, all given: git need not look for them in the store."""
    new = [(item.kind, bytes.fromhex(item.oid), item.data) for item in {item.oid: item for item in objects}.values()]
    return _keeping(_install(repo, lambda git, own: _write_packs(repo, own, new), how))


def packed(repo: Repo, objects: Sequence[New], pause: Callable[[], object]) -> AbstractContextManager[None]:
    """Keep, as ``kept``, new objects that are nowhere yet, in their order; always fsynced. ``pause`` is called now and then, so
    that other threads run. Raises GitError when they cannot be written."""
    given = {item[1]: item for item in objects}.values()
    large = [item for item in given if len(item[2]) >= LARGE]
    others = [item for item in given if len(item[2]) < LARGE]
    words = [item[1].hex() for item in others]

    def fill(folder: str) -> None:
        if len(others) <= FEW and sum(len(data) for _, _, data in others) <= FEW_BYTES:
            put_in(folder, [NewObject(oid=oid.hex(), kind=kind, data=data) for kind, oid, data in others])
            return
        drop_torn(repo.objects_dir, words)
        put_packs(os.path.join(folder, "pack"), repo.layout.algorithm, others, plain, pause)

    def also(own: str) -> list[str]:
        drop_torn(repo.objects_dir, [item[1].hex() for item in large])
        return _write_packs(repo, own, large, pause)

    try:
        return _keeping(_pack(repo, words, _ALIKE, fill, "always", also) if given else [])
    except GitError as error:
        raise GitError(_NO_PACK + error.message.removeprefix(_NO_PACK)) from None


def _write_packs(repo: Repo, own: str, objects: Sequence[New], pause: Callable[[], object] = int) -> list[str]:
    """Write packs into a folder of our own, without git; return their names."""
    names, share = put_packs(own, repo.layout.algorithm, objects, deflated, pause), sharer(repo)
    for name in names:
        for end in _ENDS:
            share(os.path.join(own, f"pack-{name}{end}"))
    return names


@contextmanager
def _keeping(keeps: Sequence[str]) -> Iterator[None]:
    """Remove keep files when the block ends."""
    try:
        yield
    finally:
        for path in keeps:
            with suppress(FileNotFoundError):
                os.unlink(path)


def _pack(
    repo: Repo,
    words: Sequence[str],
    options: Sequence[str],
    fill: Callable[[str], object],
    how: Fsync,
    also: Callable[[str], list[str]] = lambda own: [],
) -> list[str]:
    """Pack objects into the store; return the keep files. ``fill`` writes into a folder of objects those that need not be in
    the store; ``also`` makes packs of others in a folder, and returns their names."""

    def make(git: Git, own: str) -> list[str]:
        names = also(own)
        if not words:
            return names
        os.mkdir(os.path.join(own, "objects"))
        fill(os.path.join(own, "objects"))
        stdin = "".join(f"{word}\n" for word in words).encode()
        git = repo.apart(git, os.path.join(own, "objects"))
        result = git.run("pack-objects", "-q", *options, os.path.join(own, "pack"), stdin=stdin)
        if result.code != 0 and unwritten(result):
            raise GitError(_NO_PACK + result.fatal())
        if result.code != 0:
            raise CollectedError(f"an object is not here, or torn; nothing is recorded: {result.fatal()}", MENDS)
        return names + result.out.decode("ascii").split()

    return _install(repo, make, how)


def _install(repo: Repo, make: Callable[[Git, str], Sequence[str]], how: Fsync) -> list[str]:
    """Move the packs that ``make`` makes in a folder of our own into the object store; return the keep files."""
    repo.progress("storing objects", 0, 0)
    git = repo.git.changed(_HEAP, "core.fsync=none", *_FAST)  # git would wait for one file after the other
    try:
        with _workshop(repo) as own:
            return _rename_in(repo, own, make(git, own), sync=how != "never")
    except OSError as error:
        raise GitError(f"{_NO_PACK}{error.strerror}") from None


@contextmanager
def _workshop(repo: Repo) -> Iterator[str]:
    """Make a folder of our own on the file system of the object store, for the block. Raises OSError."""
    own = os.path.join(repo.own_dir, "tmp", f"{WORKSHOP}{os.getpid()}.{os.urandom(4).hex()}")
    try:
        make_folder(repo, own)
        if os.stat(own).st_dev != os.stat(repo.objects_dir).st_dev:  # git itself renames from there
            remove_folder(own)
            own = os.path.join(os.path.realpath(repo.objects_dir), ELSEWHERE + os.path.basename(own))
            os.mkdir(own)
        yield own
    finally:
        remove_folder(own)


def _rename_in(repo: Repo, own: str, made: Sequence[str], *, sync: bool) -> list[str]:
    """Rename packs into the store, each under a name of its own, since another writer may keep an equal one; return the keep
    files."""
    folder, keeps = os.path.join(repo.objects_dir, "pack"), []
    os.makedirs(folder, exist_ok=True)
    if sync:
        sync_paths(os.path.join(own, f"pack-{name}{end}") for name in made for end in _ENDS)
    for name in made:
        target = os.path.join(folder, f"pack-{os.urandom(len(name) // 2).hex()}")
        keeps.append(target + ".keep")
        with open(keeps[-1], "xb") as file:
            file.write(f"{WORD} {os.getpid()} {groups.mark(os.getpid())} {_pid_namespace()}\n".encode())
        for end in _ENDS:
            os.rename(os.path.join(own, f"pack-{name}{end}"), target + end)
    if sync:
        sync_paths([folder])
    return keeps


def sync_all(repo: Repo, place: str) -> bool:
    """Sync a whole file system; whether the system has a command for that."""
    try:
        return begin(["sync", "-f", "--", place], repo.git.env, repo.git.timeout).finish().code == 0
    except GitError:
        return False


def _pid_namespace() -> str:
    """Return the PID namespace; ``-`` where the system does not tell."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "-"


def remove_stale(repo: Repo) -> None:
    """Remove keep files and unfinished packs of dead writers. Never raises."""
    for path in stale_keeps(repo):
        whole = path.removesuffix(".keep")
        for gone in ([whole + ".pack"] if not os.path.exists(whole + ".idx") else []) + [path]:
            with suppress(OSError):
                os.unlink(gone)
    since = time.time() - _LEFTOVER
    clear_old(repo, os.path.join(repo.own_dir, "tmp"), lambda name, s: name.startswith(WORKSHOP) and s.st_mtime < since)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    with suppress(OSError), closing_fd(os.open(repo.objects_dir, flags)) as store:  # that may be on another file system
        sweep(store, lambda name, s: name.startswith(ELSEWHERE + WORKSHOP) and s.st_mtime < since)


def stale_keeps(repo: Repo) -> list[str]:
    """Return the keep files of processes that have ended. Never raises."""
    try:
        folder = os.path.join(repo.objects_dir, "pack")
        paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".keep")]
    except OSError:
        return []
    return sorted(path for path in paths if _is_stale(path))


def _is_stale(path: str) -> bool:
    """Whether this keep file belongs to a dead gitbaton process."""
    try:
        word, pid, start, where = read_regular(path, 512).decode("utf-8", "replace").split()
        age = time.time() - os.lstat(path).st_mtime
        if word != WORD or not pid.isdecimal():
            return False
        here = where == _pid_namespace() and start.rpartition(".")[2] == (groups.mark(os.getpid()) or "").rpartition(".")[2]
        return age > _FOREIGN if not here else age > _DEAD and groups.mark(int(pid)) != start
    except (OSError, ValueError):
        return False
