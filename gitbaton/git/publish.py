"""Move refs crash-safely: new objects in one kept pack on disk, then the refs and their names, which git itself does not sync,
then git may collect as it likes; and clear away the packs that killed processes kept, or were making."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from gitbaton.errors import MENDS, CollectedError, GitError
from gitbaton.git.binary import SYNCED, BinaryObjects
from gitbaton.git.loose import FEW, FEW_BYTES, drop_torn, put_in
from gitbaton.git.objects import OID, NewObject, Objects, RefChange
from gitbaton.git.packfile import LARGE, New, put_large, put_pack, stream
from gitbaton.git.questions import FSYNC
from gitbaton.git.repo import Repo, clear_old, make_folder, sharer
from gitbaton.git.run import BORROWED, Git, checked
from gitbaton.model import Oid
from gitbaton.system import groups
from gitbaton.system.files import read_regular, remove_folder, sweep, sync_paths
from gitbaton.system.process import begin
from gitbaton.values import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Fsync = Literal["always", "ordered", "never"]
_MOST_REFS = 1 << 16
WORD = "gitbaton"  # how the text of a file that keeps a pack begins
WORKSHOP = "pack."  # how the name of a folder begins where packs are made
ELSEWHERE = "baton-"  # what stands before that in an object store on another file system than our own folder
_DEAD = 60.0  # seconds after which what a process that has ended kept is kept no longer
_FOREIGN = 86_400.0  # as much for one of another machine, or of another time of this one: nothing is known of it
_LEFTOVER = 3600.0  # seconds after which nobody works in a folder where packs are made
_ASKING = ("loose-object", "objects", "committed", "added", "all")  # of core.fsync: who writes one has every object on disk
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
    """A git whose objects are on disk when they are written, and a ref before it takes the old one's place. ``lasting``: one
    process for all refs."""
    repo.settings()  # who writes must know the hooks to switch off
    layout = repo.layout
    return BinaryObjects(repo.git.changed({}, *SYNCED), layout.git_dir, layout.common_dir, layout.algorithm, lasting=lasting)


class Durable:
    """The refs of one repository, moved durably whichever door it was opened with. ``lasting``: by one process, for
    who moves one ref after the other; it ends with the repository's."""

    def __init__(self, repo: Repo, *, lasting: bool = False) -> None:
        self.repo, self._lasting = repo, lasting
        self._folders: dict[str, tuple[int, int]] = {}  # those whose names are on disk: number, and when a name beside it moved
        self._settled: dict[str, Oid | None] = {}  # refs that this object has on disk, and what they point at
        self._refs: Objects | None = None

    def update_all(self, *transactions: Sequence[RefChange], names: bool = True) -> None:
        """Move refs, durably; as Objects.update. Without ``names`` only their bytes are waited for: a ref is whole, and may be
        the one of before."""
        if self._refs is None:
            self._refs = durable_door(self.repo, lasting=self._lasting)
            if self._lasting:
                self.repo.at_close.append(self.close)
        changes = [change for changes in transactions for change in changes]
        for change in changes:
            self._settled.pop(change.name, None)
        self._refs.update(*transactions)
        if not names:
            return
        if not self._tables():
            self._up(os.path.dirname(self._file(change.name)) for change in changes)
            if any(change.new is None for change in changes):  # git writes packed-refs anew without it
                self._packed()
        self._settle(changes)

    def confirm(self, changes: Sequence[RefChange]) -> None:
        """Have on disk that refs are where they are to be already, by whoever moved them: it may have been killed before it had
        them there. Those that were brought there by this object cost nothing. Raises GitError."""
        due = [change for change in changes if self._settled.get(change.name) != change.new]
        if due and not self._tables():
            paths = [self._file(change.name) for change in due]
            self._flush(paths)
            self._up(map(os.path.dirname, paths))
            self._packed()  # some may stand there
        self._settle(due)

    def emptied(self, folders: Iterable[str]) -> None:
        """Have on disk that refs below folders are gone, by whoever removed them. Raises GitError."""
        if not self._tables():
            self._up(self._file(folder.rstrip("/")) for folder in folders)
            self._packed()

    def _tables(self) -> bool:
        """Have the tables of refs on disk, where the repository has such."""
        place = os.path.join(self.repo.layout.common_dir, "reftable")
        if not os.path.isdir(place):
            return False
        self._flush([*(os.path.join(place, name) for name in sorted(os.listdir(place))), place])
        return True

    def _packed(self) -> None:
        """Have git's file of packed refs on disk, and its name."""
        common = self.repo.layout.common_dir
        self._flush([os.path.join(common, "packed-refs"), common])

    def _up(self, folders: Iterable[str]) -> None:
        """Have on disk which refs folders have, and where this object does not know that, that they are there."""
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
        self._flush([*there])
        self._folders.update(there)

    def _file(self, ref: str) -> str:
        return os.path.join(self.repo.layout.common_dir, *ref.split("/"))

    def _settle(self, changes: Sequence[RefChange]) -> None:
        """Remember where refs are on disk."""
        if len(self._settled) > _MOST_REFS:
            self._settled.clear()
        self._settled.update({change.name: change.new for change in changes})

    def _flush(self, paths: Sequence[str]) -> None:
        """Have files and folders on disk; git may just have packed a ref. Raises GitError."""
        try:
            sync_paths(paths, missing=True)
        except OSError as error:
            raise GitError(f"a ref cannot be brought to disk: {error.strerror}") from None

    def close(self) -> None:
        """Let go of handles."""
        refs, self._refs = self._refs, None
        if refs is not None:
            refs.close()


def fsync(repo: Repo, *, automatic: bool = False) -> Fsync:
    """What a write waits for: ``baton.fsync``; unset, ``always``, and ``ordered`` for automatic checkpoints, unless
    ``core.fsync`` asks for objects."""
    values = repo.settings()
    chosen = values.get("baton.fsync", [""])[-1].lower()
    if chosen in FSYNC:
        return cast("Fsync", chosen)
    asked = values.get("core.fsync", [""])[-1].lower().split(",")
    return "ordered" if automatic and not any(word.strip() in _ASKING for word in asked) else "always"


def publish(
    repo: Repo,
    *transactions: Sequence[RefChange],
    new: Sequence[NewObject] | None = None,
    held: Sequence[Oid | None] = (),
    base: Oid | None = None,
    automatic: bool = False,
    also: bool = False,
) -> None:
    """Move refs, as Objects.update, after everything that they will reach is on disk and safe from any ``git gc``.

    ``new``: the objects that no ref reaches yet, written here. None: all that the refs will reach and that what they hold now
    and ``held`` do not. ``base``: the commit at which HEAD was when the work tree was looked at; once HEAD has left it, it is
    stored, too, and ``held`` does not count. ``also``: all that lies in the quarantine, since what others hold is torn. Raises
    CollectedError when one of these is not here, or torn; nothing has moved then.
    """
    how = fsync(repo, automatic=automatic)
    changes = [change for changes in transactions for change in changes]
    if new is None:
        names = [change.new for change in changes if change.new is not None and change.new != change.old]
        stands = base is None or _head(repo) == base
        known = [oid for oid in (*(change.old for change in changes), *_holding(repo, held, base, stands)) if oid is not None]
        words = [*names, *(f"^{oid}" for oid in dict.fromkeys(known) if repo.objects.info(oid) is not None)] if names else []
    else:
        repo.stow(new)
        words = list(dict.fromkeys(item.oid for item in new))
    place = repo.quarantine() if also else ""
    folders = [folder for folder in os.listdir(place) if len(folder) == 2] if also else []
    lying = [folder + name for folder in folders for name in os.listdir(os.path.join(place, folder))]
    anew = sorted(filter(OID.match, lying))
    with kept(repo, anew, walk=False, how=how), kept(repo, words, walk=new is None, how=how):
        if changes:
            move_refs(repo, *transactions, how=how)
    if base is not None and _head(repo) != base:
        _look_again(repo, transactions, base, how)


def _head(repo: Repo) -> Oid | None:
    """What HEAD is now; None also where nothing tells."""
    try:
        return repo.objects.head().oid
    except GitError:
        return None


def _holding(repo: Repo, held: Sequence[Oid | None], base: Oid | None, stands: bool) -> Iterator[Oid | None]:
    """What need not be stored: where HEAD has left ``base``, only what refs hold now."""
    if stands:
        yield base
        yield from held
    else:
        yield from repo.objects.refs("refs/").values()
        yield _head(repo)


def _look_again(repo: Repo, transactions: Sequence[Sequence[RefChange]], base: Oid, how: Fsync) -> None:
    """Somebody has moved HEAD meanwhile, and a git that began to collect then has not seen our refs: store ``base``, too. Where
    it is gone, take back what has moved and raise CollectedError."""
    own = {None, *(change.new for changes in transactions for change in changes)}
    others = {oid for oid in _holding(repo, (), base, stands=False) if oid not in own}
    words = [base, *(f"^{oid}" for oid in others if oid is not None and repo.objects.info(oid) is not None)]
    try:
        with kept(repo, words, walk=True, how=how):
            pass
    except CollectedError:
        back = [[RefChange(name=c.name, new=c.old, old=c.new) for c in changes] for changes in reversed(transactions)]
        move_refs(repo, *back, how=how)
        raise


def stored(repo: Repo, new: Sequence[NewObject]) -> AbstractContextManager[None]:
    """New objects that no ref reaches yet: on disk, and safe from any ``git gc`` while the block runs."""
    repo.stow(new)
    return kept(repo, list(dict.fromkeys(item.oid for item in new)), walk=False, how=fsync(repo))


@contextmanager
def ahead(repo: Repo, trees: Sequence[Oid], held: Sequence[Oid | None], *, automatic: bool = False) -> Iterator[Sequence[Oid]]:
    """Before the lock: where much is new, have it on disk and kept while the block runs, so that nobody waits for it under
    the lock. ``held`` are trees that refs hold. What was kept comes back, to be named as held. Raises CollectedError."""
    if not _is_much(repo.quarantine()):
        yield ()
        return
    words = [*trees, *(f"^{oid}" for oid in held if oid is not None and repo.objects.info(oid) is not None)]
    with kept(repo, words, walk=True, how=fsync(repo, automatic=automatic)):
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
    """Move refs whose objects are on disk: with ``always`` they are there, too, when this returns; with ``ordered`` each is
    whole, and may be the one of before. ``disk``: of a long process, it knows which folders are there. Raises as
    Objects.update."""
    if how == "never":
        repo.objects.update(*transactions)
    else:
        (disk or Durable(repo)).update_all(*transactions, names=how == "always")


def flush(repo: Repo, paths: Sequence[str], root: str) -> None:
    """Have files and links below ``root`` on disk, and which names their folders have; of many, the whole file system with one
    call. What is not there has gone. Raises GitError."""
    if fsync(repo) != "always" or not paths:
        return
    if len(paths) > _FEW and sync_all(repo, root):
        return
    full = [os.path.join(root, path) for path in paths]
    above = {os.path.dirname(path) for path in full}
    try:
        files = [p for p in full if os.path.isfile(p) and not os.path.islink(p) and os.access(p, os.R_OK)]
        sync_paths([*files, *sorted(folder for folder in above if os.path.isdir(folder))])
    except OSError as error:
        raise GitError(f"files cannot be brought to disk: {error.strerror}") from None


def kept(
    repo: Repo, words: Sequence[str], *, walk: bool, how: Fsync, fresh: Sequence[NewObject] = ()
) -> AbstractContextManager[None]:
    """While the block runs objects lie in a pack that git keeps; before it begins they are on disk, unless ``how`` is never.

    git prune removes loose objects only, and git repack only packs that it found when it began, less the kept ones: with a
    ref that names them when the block ends, they stay. ``fresh``: of the objects those that need not be in the store, or may
    be collected from it meanwhile. Raises CollectedError.
    """
    # Files of one capture are seldom alike. Git makes no deltas later within a pack, so elsewhere they are made now.
    options = ("--window=0", "--revs", *_PARTIAL) if walk else ()
    return _until_done(_collect(repo, words, options, lambda folder: put_in(folder, fresh), how) if words else [])


def kept_whole(repo: Repo, objects: Sequence[NewObject], how: Fsync) -> AbstractContextManager[None]:
    """As ``kept``, of these few objects and no others: git need not look for any, nor at the store."""
    objects, name = list({item.oid: item for item in objects}.values()), objects[-1].oid

    def make(git: Git, own: str) -> list[str]:
        git = git.changed({"GIT_OBJECT_DIRECTORY": own, BORROWED: ""})
        pack = stream(repo.layout.algorithm, [(item.kind, bytes.fromhex(item.oid), item.data) for item in objects])
        checked(git.run("index-pack", "--stdin", os.path.join(own, f"pack-{name}.pack"), stdin=pack), "index-pack")
        return [name]

    return _until_done(_brought(repo, make, how))


def packed(repo: Repo, objects: Sequence[New], pause: Callable[[], object]) -> AbstractContextManager[None]:
    """As ``kept``, of new objects that are nowhere yet, in the order in which they came; always on disk. ``pause`` is called
    now and then, for whoever shares the interpreter. Raises GitError when they cannot be written."""
    given = {item[1]: item for item in objects}.values()
    large = [item for item in given if len(item[2]) >= LARGE]
    others = [item for item in given if len(item[2]) < LARGE]
    words = [item[1].hex() for item in others]

    def fill(folder: str) -> None:
        if len(others) <= FEW and sum(len(data) for _, _, data in others) <= FEW_BYTES:
            put_in(folder, [NewObject(oid=oid.hex(), kind=kind, data=data) for kind, oid, data in others])
            return
        drop_torn(repo.objects_dir, words)
        put_pack(os.path.join(folder, "pack"), repo.layout.algorithm, others, pause)

    def also(own: str) -> list[str]:
        drop_torn(repo.objects_dir, [item[1].hex() for item in large])
        names, mode = put_large(own, repo.layout.algorithm, large, pause), sharer(repo)
        for name in names:
            for end in _ENDS:
                mode(os.path.join(own, f"pack-{name}{end}"))
        return names

    try:
        return _until_done(_collect(repo, words, _ALIKE, fill, "always", also) if given else [])
    except GitError as error:
        raise GitError(f"a pack cannot be written: {error.message}") from None


@contextmanager
def _until_done(keeps: Sequence[str]) -> Iterator[None]:
    """Files that keep packs, for as long as the block runs."""
    try:
        yield
    finally:
        for path in keeps:
            with suppress(FileNotFoundError):
                os.unlink(path)


def _collect(
    repo: Repo,
    words: Sequence[str],
    options: Sequence[str],
    fill: Callable[[str], object],
    how: Fsync,
    also: Callable[[str], list[str]] = lambda own: [],
) -> list[str]:
    """The packs of some objects in the object store; the files that keep them. ``fill`` writes into a folder of objects those
    that need not be in the store; ``also`` makes packs of others in a folder, and gives their names."""

    def make(git: Git, own: str) -> list[str]:
        names = also(own)
        if not words:
            return names
        os.mkdir(os.path.join(own, "objects"))
        fill(os.path.join(own, "objects"))
        stdin = "".join(f"{word}\n" for word in words).encode()
        git = repo.apart(git, os.path.join(own, "objects"))
        result = git.run("pack-objects", "-q", *options, os.path.join(own, "pack"), stdin=stdin)
        if result.code != 0:
            raise CollectedError(f"an object is not here, or torn; nothing is recorded: {result.fatal()}", MENDS)
        return names + result.out.decode("ascii").split()

    return _brought(repo, make, how)


def _brought(repo: Repo, make: Callable[[Git, str], Sequence[str]], how: Fsync) -> list[str]:
    """Bring the packs that ``make`` makes in a folder of our own into the object store; the files that keep them."""
    repo.progress("storing objects", 0, 0)
    git = repo.git.changed(_HEAP, "core.fsync=none", *_FAST)  # git would wait for one file after the other
    try:
        with _workshop(repo) as own:
            return _store(repo, own, make(git, own), sync=how != "never")
    except OSError as error:
        raise GitError(f"a pack cannot be written: {error.strerror}") from None


@contextmanager
def _workshop(repo: Repo) -> Iterator[str]:
    """A folder of our own on the file system of the object store, where packs are made. Raises OSError."""
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


def _store(repo: Repo, own: str, made: Sequence[str], *, sync: bool) -> list[str]:
    """Bring packs to where git looks for them, each under a name of its own: another writer may keep an equal one."""
    folder, keeps = os.path.join(repo.objects_dir, "pack"), []
    os.makedirs(folder, exist_ok=True)
    if sync:
        sync_paths(os.path.join(own, f"pack-{name}{end}") for name in made for end in _ENDS)
    for name in made:
        target = os.path.join(folder, f"pack-{os.urandom(len(name) // 2).hex()}")
        keeps.append(target + ".keep")
        with open(keeps[-1], "xb") as file:
            file.write(mark())
        for end in _ENDS:
            os.rename(os.path.join(own, f"pack-{name}{end}"), target + end)
    if sync:
        sync_paths([folder])
    return keeps


def sync_all(repo: Repo, place: str) -> bool:
    """Have a whole file system on disk, where the system has a command for that."""
    try:
        return begin(["sync", "-f", "--", place], repo.git.env, repo.git.timeout).finish().code == 0
    except GitError:
        return False


def mark() -> bytes:
    """What says whose a file is: process, its start, and the namespace of its number."""
    return f"{WORD} {os.getpid()} {groups.mark(os.getpid())} {space()}\n".encode()


def space() -> str:
    """The namespace of process numbers; ``-`` where nothing tells."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "-"


def clean(repo: Repo) -> None:
    """Let go of packs whose writer has ended before it released them, and remove what it did not finish. Never raises."""
    for path in left(repo):
        whole = path.removesuffix(".keep")
        for gone in ([whole + ".pack"] if not os.path.exists(whole + ".idx") else []) + [path]:
            with suppress(OSError):
                os.unlink(gone)
    since = time.time() - _LEFTOVER
    clear_old(repo, os.path.join(repo.own_dir, "tmp"), lambda name, s: name.startswith(WORKSHOP) and s.st_mtime < since)
    with suppress(OSError):  # where that is another file system than the store
        store = os.open(repo.objects_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # a link may lead to a store
        try:
            sweep(store, lambda name, s: name.startswith(ELSEWHERE + WORKSHOP) and s.st_mtime < since)
        finally:
            os.close(store)


def left(repo: Repo) -> list[str]:
    """The files that keep packs for processes that have ended. Never raises."""
    try:
        folder = os.path.join(repo.objects_dir, "pack")
        paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".keep")]
    except OSError:
        return []
    return sorted(path for path in paths if _is_left(path))


def _is_left(path: str) -> bool:
    """Whether a file that keeps a pack is ours, and nobody's any more."""
    try:
        word, pid, start, where = read_regular(path, 512).decode("utf-8", "replace").split()
        age = time.time() - os.lstat(path).st_mtime
        if word != WORD or not pid.isdecimal():
            return False
        here = where == space() and start.rpartition(".")[2] == (groups.mark(os.getpid()) or "").rpartition(".")[2]
        return age > _FOREIGN if not here else age > _DEAD and groups.mark(int(pid)) != start
    except (OSError, ValueError):
        return False
