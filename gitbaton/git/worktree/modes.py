"""Permissions that git does not keep: of what is captured those that are narrower than a checkout gives, as a list; and which
ones a file or folder gets when it comes back, never wider than it had."""

from __future__ import annotations

import json
import os
import stat
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType

from gitbaton.base.errors import RecordError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import READ, closing_fd, open_below, read_regular, umask
from gitbaton.base.values import value
from gitbaton.git.objects import Objects, lookup
from gitbaton.git.repo import Repo
from gitbaton.git.run import zsplit
from gitbaton.git.worktree.filetrees import EXECUTABLE, is_safe, parents
from gitbaton.git.worktree.gate import setting
from gitbaton.git.worktree.index import PrivateIndex, save_cache

ALL = 0o777
MODES, AFTER_MODES = b"modes", b"after-modes"
_CACHE = "modes"
_MANY = 1000  # paths that are listed before what most of them have is said once for all others
_MOST = 256 << 20
_ACL, _DEFAULT_ACL = "system.posix_acl_access", "system.posix_acl_default"
_GROUP = 4  # the tag of the owning group in it


@value
class Modes:
    """The most that may be done with a path that comes back (a folder's ends in a slash); ``rest``: with those not listed."""

    listed: Mapping[str, int] = MappingProxyType({})
    rest: int = ALL

    def __bool__(self) -> bool:
        return bool(self.listed) or self.rest != ALL

    def most(self, path: str) -> int:
        """Return the permission bits that a path may have."""
        return self.listed.get(path, self.rest)

    def encode(self) -> bytes:
        """Return the records of a list: four octal digits, a tab, the path and NUL; the first one without a path is
        ``rest``."""
        rest = {"": self.rest} if self.rest != ALL else {}
        return encode({path: f"{mode:04o}" for path, mode in {**rest, **self.listed}.items()})


NOTHING = Modes()


def encode(rows: Mapping[str, str]) -> bytes:
    """Return the records of paths, in the order of their bytes."""
    named = sorted((os.fsencode(path), said.encode("ascii")) for path, said in rows.items())
    return b"".join(said + b"\t" + path + b"\0" for path, said in named)


def decode(data: bytes) -> dict[str, tuple[int, int | None]]:
    """Return the permission bits of each path in a list, and the second ones where it has such. Raises RecordError."""
    found = {}
    for record in data.split(b"\0")[:-1]:
        said, tab, name = record.partition(b"\t")
        path, numbers = os.fsdecode(name), said.split(b" ")
        octal = len(numbers) <= 2 and all(len(n) == 4 and not n.strip(b"01234567") for n in numbers)
        if not (tab and octal and (path == "" or is_safe(path.removesuffix("/")))):
            raise RecordError("a list of permissions is malformed")
        mode, *before = (int(n, 8) & ALL for n in numbers)
        found[path] = mode, before[0] if before else None
    return found


def read(objects: Objects, beside: Oid | None, name: bytes = MODES) -> dict[str, tuple[int, int | None]]:
    """Return a list in the tree of an index commit's second parent; empty where there is none. Raises RecordError."""
    entry = lookup(objects, beside, name) if beside else None
    if entry is None:
        return {}
    found = objects.read(entry.oid, _MOST)
    if found is None or found.kind != "blob" or found.data is None:
        raise RecordError(f"the list of permissions '{name.decode()}' cannot be read")
    return decode(found.data)


def recorded(objects: Objects, beside: Oid | None) -> Modes:
    """Return the permissions that a checkpoint recorded. Raises RecordError."""
    found = {path: mode for path, (mode, _) in read(objects, beside).items()}
    return Modes(rest=found.pop("", ALL), listed=found)


def narrow(root: str, paths: Iterable[str], files: Mapping[str, int] = MappingProxyType({}), *, rest: int = ALL) -> Modes:
    """Return the permissions of files, of folders (with a slash) and of the folders above them that a checkout would make
    wider. ``files``: the modes of what was looked at already; what is no regular file, or not there, has none."""
    mask, listed = umask() & 0o022, {}
    folders = {f"{folder}/" for path in (*paths, *files) for folder in parents(path)}
    for path, mode in (*files.items(), *looked(root, {*paths, *folders})):
        if _is_odd(path, mode, rest, mask):
            listed[path] = without_list(os.path.join(root, path), mode & ALL)
    return Modes(listed=listed, rest=rest)


def looked(root: str, paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield paths with their modes: folders where one is asked for, else regular files."""
    for path in paths:
        try:
            mode = os.lstat(f"{root}/{path.rstrip('/')}").st_mode
        except OSError:
            continue
        if stat.S_ISDIR(mode) if path.endswith("/") else stat.S_ISREG(mode):
            yield path, mode


def _is_odd(path: str, mode: int, rest: int, mask: int) -> bool:
    """Whether a path must be listed: a checkout that gives it no more than ``rest`` would give it another mode."""
    full = ALL if path.endswith("/") or mode & 0o100 else 0o666
    return bool(full & rest & ~mask & ~mode) or (rest != ALL and bool(mode & full & ~rest))


def without_group(mode: int) -> int:
    """Return permissions in which the group has none but those that all others have."""
    return mode & ~0o070 | mode & (mode & 0o007) << 3


def inherit_list(folder: str, other: str) -> None:
    """Give a folder of ours the default access list of another, or none: what is made in it is as if it were made there."""
    with suppress(OSError, AttributeError):  # not every system has them
        try:
            rules = os.getxattr(other, _DEFAULT_ACL)
        except OSError:
            os.removexattr(folder, _DEFAULT_ACL)
        else:
            os.setxattr(folder, _DEFAULT_ACL, rules)


def without_list(full: str, mode: int) -> int:
    """Return a mode in which the group bits say what the group may do: with an access list they are its mask."""
    if not mode & 0o070 or not hasattr(os, "getxattr"):
        return mode
    try:
        rules = os.getxattr(full, _ACL, follow_symlinks=False)[4:]
    except OSError:
        return mode
    fields = [int.from_bytes(rules[at : at + 2], "little") for at in range(0, len(rules), 2)]
    group = next((bits for tag, bits in zip(fields[::4], fields[1::4], strict=False) if tag == _GROUP), 7)
    return mode & (~0o070 | group << 3)


def permissions(old: int, runs: bool | None) -> int:
    """Return the permissions of a file that comes in the place of one with the mode ``old``: its readers and writers stay.
    ``runs``: whether its readers may execute it; None where git does not look at that."""
    return old & 0o777 if runs is None else old & 0o666 | (old >> 2 & 0o111 if runs else 0)


class Permits:
    """Permissions of what comes back: at most those that were recorded (``most``), and those of what it replaces. ``taken``: by
    path what a step that is taken back left there, and what is to be there again where that still stands."""

    def __init__(self, repo: Repo, most: Modes = NOTHING, taken: Mapping[str, tuple[int, int]] = MappingProxyType({})) -> None:
        self.most, self._taken = most, taken
        self._heeded = repo.boolean("core.filemode", default=True)

    def file(self, path: str, old: int, new: int) -> int:
        """Return the permission bits of a regular file that git makes with the mode ``new``, in the place of one with the mode
        ``old`` (0: of none). The executable bits are git's, where git looks at them."""
        most = self.most.most(path)
        if not stat.S_ISREG(old):
            return new & most & ALL
        found, given = self._taken.get(path, (None, old))
        again = found is not None and (found ^ old) & 0o666 == 0
        kept = permissions(given if again else old, bool(new & 0o100) if self._heeded else None)
        return kept if again else kept & most

    def folder(self, path: str, old: int, *, coming: bool) -> int:
        """Return the permissions of a folder that has the mode ``old`` now; ``coming``: whether anything comes back into it."""
        found, given = self._taken.get(path + "/", (None, old))
        if found is not None and (found ^ old) & ALL == 0:
            return given & ALL
        return old & ALL & (self.most.most(path + "/") if coming else ALL)

    def changes(self, root: str, paths: Mapping[str, tuple[int, str | None]]) -> bytes:
        """Return the list of what becomes of permissions at paths, of which the mode now is known (0: nothing is there) and
        what git says of the file that comes (None: none does), and of the folders above them: those afterwards, and those of
        before."""
        rows: dict[str, str] = {}
        above: dict[str, bool] = {}
        for path, (old, then) in paths.items():
            above |= {folder: above.get(folder, False) or then is not None for folder in parents(path)}
            if then is None or not then.startswith("100"):
                continue
            made = stat.S_IFREG | (ALL if then == EXECUTABLE else 0o666)
            self._add(rows, path, old if stat.S_ISREG(old) else 0, self.file(path, old, made), 0o666)
        for folder, coming in above.items():
            found = _folder_mode(root, folder)
            after = self.folder(folder, found, coming=coming) if found else self.most.most(folder + "/")
            if found or coming:
                self._add(rows, folder + "/", found, after, ALL)
        return encode(rows)

    def _add(self, rows: dict[str, str], path: str, old: int, after: int, bits: int) -> None:
        if old and (old ^ after) & bits:
            rows[path] = f"{after:04o} {old & ALL:04o}"
        elif not old and self.most.most(path) != ALL:
            rows[path] = f"{self.most.most(path):04o}"


def step_back(repo: Repo, beside: Oid | None) -> Permits:
    """Return the permissions where the step of a safety checkpoint is taken back; ``beside``: the tree of its index commit's
    second parent. Raises RecordError."""
    taken = {p: (after, before) for p, (after, before) in read(repo.objects, beside, AFTER_MODES).items() if before is not None}
    return Permits(repo, recorded(repo.objects, beside), taken)


def step_on(repo: Repo, beside: Oid | None) -> Permits:
    """Return the permissions where that step is completed."""
    rows = read(repo.objects, beside, AFTER_MODES)
    taken = {path: (before, after) for path, (after, before) in rows.items() if before is not None}
    return Permits(repo, Modes(listed={path: after for path, (after, _) in rows.items()}), taken)


def _folder_mode(root: str, folder: str) -> int:
    """Return the mode of a folder; 0 where there is none, or something else."""
    try:
        mode = os.lstat(os.path.join(root, folder)).st_mode
    except OSError:
        return 0
    return mode if stat.S_ISDIR(mode) else 0


class Folders:
    """The folders that files come back into: they have their permissions before anything is in them that others must not see,
    but for the owner's, which are taken away, and what is given to others, at the end."""

    def __init__(self, root: str, permits: Permits) -> None:
        self.root, self.permits = root, permits
        self.fresh = set[str]()  # folders that were made
        self._later: dict[str, int] = {}
        self._before: dict[str, tuple[int, int]] = {}

    @contextmanager
    def entered(self, paths: Mapping[str, bool]) -> Iterator[None]:
        """While files are put below the folders above paths; where that fails, they are as before."""
        self.enter(paths)
        try:
            yield
        except BaseException:
            self._back()
            raise
        self.leave()

    def enter(self, paths: Mapping[str, bool]) -> None:
        """Look at the folders above paths; by path whether something comes there."""
        above: dict[str, bool] = {}
        for path, coming in paths.items():
            above |= {folder: above.get(folder, False) or coming for folder in parents(path)}
        for folder, coming in above.items():
            old = _folder_mode(self.root, folder)
            last = self.permits.folder(folder, old, coming=coming) if old else 0
            first = old & last & 0o077 | (old | last) & 0o700
            if old and first != old & ALL:
                give(self.root, {f"{folder}/": first})
                self._before[folder] = old, first
            if old and last != first:
                self._later[folder] = last

    @contextmanager
    def opened(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Yield a descriptor of a path's folder, reached through no symbolic link, and its name there; with ``make`` missing
        folders are made. Raises OSError."""
        *folders, name = path.split("/")
        try:
            fd = open_below(self.root, folders)
        except FileNotFoundError:
            if not make:
                raise
            ways = parents(path)

            def made(fd: int, depth: int) -> None:
                self.fresh.add(ways[depth])
                found, most = os.fstat(fd).st_mode, self.permits.most.most(ways[depth] + "/")
                if found & ALL & ~most:
                    self._later[ways[depth]] = found & ALL & most

            fd = open_below(self.root, folders, made, lambda depth: self.permits.most.most(ways[depth] + "/") | 0o700)
        with closing_fd(fd):
            yield fd, name

    def leave(self) -> None:
        """Give the folders what is left to give, the deepest first."""
        give(self.root, {f"{folder}/": mode for folder, mode in self._later.items()})

    def _back(self) -> None:
        """Undo what was done to those that were there, where it still stands."""
        still = {
            folder: old for folder, (old, first) in self._before.items() if not (_folder_mode(self.root, folder) ^ first) & ALL
        }
        give(self.root, {f"{folder}/": old for folder, old in still.items()})


def confine(root: str, most: Modes) -> None:
    """Take from the files and folders below ``root`` what is more than was recorded."""
    paths: Iterable[str] = most.listed
    if most.rest != ALL:
        names = ((os.path.relpath(at, root), files) for at, _, files in os.walk(root))
        paths = [path for at, files in names for path in (f"{at}/", *(os.path.join(at, name) for name in files))]
        paths = {path.removeprefix("./") for path in paths} - {"", ".git"}
    give(root, {path: mode & most.most(path) for path, mode in looked(root, paths)})


def give(root: str, modes: Mapping[str, int], bits: int = ALL) -> None:
    """Give files and folders (with a slash) those ``bits`` of their modes, through no symbolic link and as far as they are ours
    to change."""
    for path in sorted(modes, reverse=True):  # what is in a folder first, while it can be entered
        *folders, name = path.removesuffix("/").split("/")
        with (
            suppress(OSError),
            closing_fd(open_below(root, folders)) as above,
            closing_fd(os.open(name, READ, dir_fd=above)) as fd,
        ):
            found = os.fstat(fd).st_mode
            if (stat.S_ISDIR(found) if path.endswith("/") else stat.S_ISREG(found)) and (found ^ modes[path]) & bits:
                os.fchmod(fd, found & 0o7777 & ~bits | modes[path] & bits)


def prune(root: str, folders: Sequence[str], above: int = 0, keep: Collection[str] = ()) -> None:
    """Remove empty folders from the deepest up, as long as they are empty, deeper than ``above`` and none to ``keep``."""
    for depth in range(len(folders), above, -1):
        if keep and "/".join(folders[:depth]) in keep:
            return
        try:
            with closing_fd(open_below(root, folders[: depth - 1])) as parent:
                os.rmdir(folders[depth - 1], dir_fd=parent)
        except OSError:
            return


def arrange(root: str, want: Mapping[str, int], gone: Iterable[str], keep: Collection[str] = ()) -> None:
    """Bring the folders of a set to what they are to be, after its files: of those ``gone`` each goes that is empty and none to
    ``keep``; those wanted are made where they are not there, and have these permission bits, also those that pass their group
    on. Nothing is done through a symbolic link, nor where a file stands. Never raises."""
    for folder in sorted(gone, reverse=True):
        parts = folder.split("/")
        prune(root, parts, len(parts) - 1, keep)
    for folder in sorted(want):
        with suppress(OSError):
            os.close(open_below(root, folder.split("/"), lambda fd, depth: None))
    give(root, {f"{folder}/": mode for folder, mode in want.items()}, 0o2777)


def survey(index: PrivateIndex, root: str, touched: Collection[str] | None) -> Modes:
    """Return the permissions of what a capture takes in. ``touched``: the paths that are not as in the index, or not in it;
    None where git could not say.

    A change of a file's mode changes its ctime, by which git knows that it was touched: what it finds unchanged has those of
    the last look at the same index. Folders are looked at each time.
    """
    repo, mask, key = index.repo, umask() & 0o022, index.key()
    heeds_ctime = setting(repo, "core.checkstat") != "minimal" and repo.boolean("core.trustctime", default=True)
    key = f"{key} {mask:o} {root}" if key and touched is not None and heeds_ctime else ""
    known = _load(os.path.join(repo.layout.git_dir, "baton", _CACHE), key) if key else None
    if known is None:
        known, lasting = _scan(index, root, frozenset(touched or ()), mask)
        if key and lasting:
            data = {
                "key": key,
                "rest": known.modes.rest,
                "listed": dict(known.modes.listed),
                "folders": known.folders,
                "doubtful": known.doubtful,
            }
            save_cache(repo, os.path.join(repo.own_dir, _CACHE), index.path + ".modes", data)
    unsure = {*known.doubtful, *(touched or ())}
    fresh = narrow(root, [*unsure, *(f"{folder}/" for folder in known.folders)], rest=known.modes.rest)
    kept = {path: mode for path, mode in known.modes.listed.items() if path not in unsure}
    return Modes(listed={**kept, **fresh.listed}, rest=known.modes.rest)


@value
class _KnownModes:
    """The last look at an index: the permissions of its files, the folders that they are in, and the files that were not as in
    the index then, of which nothing is known later."""

    modes: Modes
    folders: tuple[str, ...]
    doubtful: tuple[str, ...]


def _scan(index: PrivateIndex, root: str, touched: Collection[str], mask: int) -> tuple[_KnownModes, bool]:
    """Look at all tracked files; and whether each change since must show: git compares whole seconds."""
    began, newest = time.time_ns(), 0
    modes: dict[str, int] = {}
    doubtful = []
    for path in dict.fromkeys(zsplit(index.git.out("ls-files", "-z"))):
        try:
            found = os.lstat(f"{root}/{path}")
        except OSError:
            continue
        if path in touched:
            doubtful.append(path)
        elif stat.S_ISREG(found.st_mode):
            modes[path] = found.st_mode
            if found.st_ctime_ns > newest:
                newest = found.st_ctime_ns
    odd, rest = _odd(modes, ALL, mask), ALL
    if len(odd) > _MANY:
        rest = Counter(mode & 0o666 | mode >> 2 & 0o111 for mode in odd.values()).most_common(1)[0][0]
        odd = _odd(modes, rest, mask)
    listed = {path: without_list(os.path.join(root, path), mode & ALL) for path, mode in odd.items()}
    folders = tuple(sorted({path[: path.rfind("/")] for path in modes if "/" in path}))
    known = _KnownModes(modes=Modes(listed=listed, rest=rest), folders=folders, doubtful=tuple(doubtful))
    return known, newest // 10**9 < began // 10**9


def _odd(modes: Mapping[str, int], rest: int, mask: int) -> dict[str, int]:
    """Return the files that must be listed; the modes of hundreds of thousands are but a few."""
    kinds = {mode for mode in set(modes.values()) if _is_odd("", mode, rest, mask)}
    return {path: mode for path, mode in modes.items() if mode in kinds} if kinds else {}


def _load(place: str, key: str) -> _KnownModes | None:
    try:
        data = json.loads(read_regular(place))
        if data["key"] != key:
            return None
        modes = Modes(listed=dict(data["listed"]), rest=int(data["rest"]))
        return _KnownModes(modes=modes, folders=tuple(data["folders"]), doubtful=tuple(data["doubtful"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
