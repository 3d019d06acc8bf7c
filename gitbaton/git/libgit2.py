"""Object and ref reading through libgit2, for processes that do many small things; all else is git's."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import pygit2
from pygit2.enums import ObjectType

from gitbaton.base.errors import MENDS, GitError, NotARepositoryError
from gitbaton.base.model import Head, Oid
from gitbaton.base.system.files import mode_of
from gitbaton.git.binary import GitObjects
from gitbaton.git.objects import LONGEST, MAX_READ, Algorithm, Kind, Object, check_size, is_oid, is_ref, linked_ref
from gitbaton.git.run import Git

_KIND: dict[int, Kind] = {
    ObjectType.COMMIT: "commit",
    ObjectType.TREE: "tree",
    ObjectType.BLOB: "blob",
    ObjectType.TAG: "tag",
}
_TYPE = {kind: number for number, kind in _KIND.items()}
_ERRORS = (pygit2.GitError, KeyError, ValueError, OSError, TypeError)
_FILES = 128  # packs that are open at a time
_FIRST = 8192  # bytes of a loose object's file that are read first: most need no more


def _settle() -> None:
    """Set options of libgit2 that hold for this whole process."""
    # Without this, it refuses a clone whose config names extensions.partialClone.
    pygit2.settings.set_extensions(["partialclone"])
    if pygit2.settings.mwindow_file_limit == 0:  # unless somebody has set it: it never closes a pack, not even one that is gone
        pygit2.settings.mwindow_file_limit = _FILES


class Libgit2Objects(GitObjects):
    """Objects and refs read through one open ``pygit2.Repository``."""

    def __init__(self, git: Git, git_dir: str, common_dir: str, algorithm: Algorithm) -> None:
        _settle()
        super().__init__(git, git_dir, common_dir, algorithm)
        try:
            self.repository = pygit2.Repository(git_dir)
            config = self.repository.config
            storage = next(iter(config.get_multivar("extensions.refstorage")), "files")
            self.shared = mode_of(next(iter(config.get_multivar("core.sharedrepository")), None) or "")
        except _ERRORS as error:
            raise NotARepositoryError(f"libgit2 does not open '{git_dir}': {error}") from None
        self.objects_dir = os.path.join(common_dir, "objects")
        if storage != "files":  # with repositoryformatversion 0, libgit2 would read refs that git does not see
            raise NotARepositoryError(f"libgit2 does not know the ref storage '{storage}' of '{git_dir}'")

    def info(self, spec: str) -> Object | None:
        """See Objects."""
        return self.read(spec, -1)

    def read(self, spec: str, limit: int = MAX_READ) -> Object | None:
        """See Objects."""
        oid = spec if is_oid(self.algorithm, spec) else self._target(spec)
        if oid is None:
            return None
        try:
            found = self._loose(oid, limit) if limit >= 0 else None
            if found is not None:
                return found
            number, size = self.repository.odb.read_header(oid)
            data = self.repository.odb.read(oid)[1] if size <= limit else None
        except KeyError:
            return None
        except _ERRORS:
            whole = packed(self.objects_dir)(bytes.fromhex(oid))  # of what a power cut left torn a pack may have all
            if whole is not None:
                kind, data = whole
                return Object(oid=oid, kind=kind, size=len(data), data=data if len(data) <= limit else None)
            raise GitError(f"object {oid} cannot be read", MENDS) from None
        return Object(oid=oid, kind=_KIND[number], size=size, data=data)

    def _loose(self, oid: Oid, limit: int) -> Object | None:
        """Return a loose object, inflated here: at a truncated one, libgit2 goes round for ever. None where there is no such
        file."""
        try:
            with open(os.path.join(self.objects_dir, oid[:2], oid[2:]), "rb") as file:
                inflate = zlib.decompressobj()
                start, _, data = inflate.decompress(file.read(_FIRST), _FIRST).partition(b"\0")
                kind, _, size = start.decode("ascii").partition(" ")
                if kind not in _TYPE:
                    raise ValueError("it is of no known kind")
                if int(size) > limit:
                    return Object(oid=oid, kind=kind, size=int(size), data=None)
                if not inflate.eof:
                    data += inflate.decompress(inflate.unconsumed_tail + file.read(), int(size) - len(data) + 1)
        except FileNotFoundError:
            return None
        except zlib.error as error:
            raise ValueError(str(error)) from None
        if not inflate.eof or len(data) != int(size):
            raise ValueError("it is cut short")
        return Object(oid=oid, kind=kind, size=len(data), data=data)

    def _target(self, name: str) -> Oid | None:
        try:
            return str(self._reference(name).resolve().target)
        except _ERRORS:
            return None

    def _reference(self, name: str) -> pygit2.Reference:
        """Return a ref by its full name; libgit2 takes a name that is not UTF-8 as bytes, and no link for a symbolic ref."""
        if not is_ref(name):
            raise KeyError(name)
        linked = linked_ref(self.git_dir, name) if not name.startswith("refs/") else None
        return self.repository.references[linked or name]

    def read_many(self, oids: Sequence[Oid], limit: int = MAX_READ) -> Iterator[Object | None]:
        """See Objects."""
        for oid in oids:
            try:
                yield self.read(oid, limit) if is_oid(self.algorithm, oid) else None
            except GitError:
                yield None

    def refs(self, *prefixes: str) -> dict[str, Oid]:
        """See Objects."""
        try:
            names = (os.fsdecode(name) for name in self.repository.raw_listall_references())
            found = ((name, self._target(name)) for name in sorted(names) if name.startswith(prefixes))
            return {name: oid or "0" * 40 for name, oid in found if oid or not self._is_symbolic(name)}
        except _ERRORS as error:
            raise GitError(f"cannot list refs: {error}") from None

    def _is_symbolic(self, name: str) -> bool:
        try:
            return isinstance(self._reference(name).raw_target, bytes)
        except _ERRORS:
            return False

    def head(self) -> Head:
        """See Objects. Its commit is not looked at: of a work tree in which a power cut tore it a checkpoint is taken all the
        same."""
        ref = self.symref("HEAD")
        return Head(branch=ref.removeprefix("refs/heads/") if ref else None, oid=self._target("HEAD"))

    def first_parents(self, start: Oid, limit: int | None = None) -> list[Oid]:
        """See Objects."""
        result: list[Oid] = []
        at: Oid | None = start
        while at is not None and (limit is None or len(result) < limit):
            result.append(at)
            try:
                commit = self.repository.get(at) if is_oid(self.algorithm, at) else None
            except _ERRORS:
                commit = None
            if not isinstance(commit, pygit2.Commit):
                raise GitError(f"object {at} cannot be read", MENDS)
            parents = commit.parent_ids
            at = str(parents[0]) if parents else None
        return result

    def abbreviate(self, oid: Oid, length: int) -> str:
        """See Objects."""
        while length < len(oid):
            try:
                self.repository.expand_id(oid[:length])
                break
            except pygit2.AmbiguousError:
                length += 1
            except _ERRORS:
                break
        return oid[:length]

    def borrow(self, store: str, env: Mapping[str, str]) -> None:
        """See Objects."""
        self.repository.odb.add_disk_alternate(store)
        super().borrow(store, env)

    def give_back(self) -> None:
        """See Objects."""
        super().give_back()
        self.repository = pygit2.Repository(self.git_dir)  # it knows folders by inode, and the next one may have this one's

    def close(self) -> None:
        """See Objects."""
        self.repository.free()


def packed(objects_dir: str) -> Callable[[bytes], tuple[Kind, bytes] | None]:
    """Return a reader of packed objects by their raw ids, never of a loose one, at which libgit2 may hang. It gives None for
    what is in no pack, or cannot be read, and raises GitError for what is too large."""
    _settle()
    packs, name, kinds, folder, seen = pygit2.OdbBackendPack(objects_dir), pygit2.Oid, _KIND, f"{objects_dir}/pack", [-1]
    owner = pygit2.Odb()
    owner.add_backend(packs, 1)  # closes its files when it is let go; pygit2 never does so for one by itself

    def read(key: pygit2.Oid) -> tuple[Kind, bytes]:
        number, size = packs.read_header(key)
        if size > LONGEST:
            check_size(str(key), kinds[number], size)
        number, data = packs.read(key)
        return kinds[number], data

    def find(oid: bytes, _: object = owner) -> tuple[Kind, bytes] | None:
        try:
            return read(name(oid))
        except _ERRORS:
            return again(oid)

    def again(oid: bytes) -> tuple[Kind, bytes] | None:
        """Try again with the packs of now: they may be newer than the last look."""
        try:
            changed = os.stat(folder).st_mtime_ns
            if changed == seen[0]:
                return None
            packs.refresh()
            seen[0] = changed
            return read(name(oid))
        except _ERRORS:
            return None

    return find
