"""The door of processes that do many small things: objects and refs through libgit2, where it can open the repository."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

import pygit2
from pygit2.enums import ObjectType

from gitbaton.errors import GitError, NotARepositoryError, RefConflictError
from gitbaton.git.objects import MAX_READ, OID, Algorithm, Kind, NewObject, Object, RefChange
from gitbaton.model import Head, Oid

_KIND: dict[int, Kind] = {
    ObjectType.COMMIT: "commit",
    ObjectType.TREE: "tree",
    ObjectType.BLOB: "blob",
    ObjectType.TAG: "tag",
}
_TYPE = {kind: number for number, kind in _KIND.items()}
_ERRORS = (pygit2.GitError, KeyError, ValueError, OSError, TypeError)
_LOCK_WAIT = 0.1  # core.filesRefLockTimeout's default, in seconds; libgit2 itself does not wait


class Libgit2Objects:
    """Objects and refs through one open ``pygit2.Repository``."""

    algorithm: Algorithm = "sha1"

    def __init__(self, git_dir: str) -> None:
        # Without this, libgit2 refuses a clone whose config names extensions.partialClone.
        pygit2.settings.set_extensions(["partialclone"])
        try:
            self.repository = pygit2.Repository(git_dir)
        except _ERRORS as error:
            raise NotARepositoryError(f"libgit2 does not open '{git_dir}': {error}") from None

    def info(self, spec: str) -> Object | None:
        """See Objects."""
        return self._find(spec, 0)

    def read(self, spec: str, limit: int = MAX_READ) -> Object | None:
        """See Objects."""
        return self._find(spec, limit)

    def _find(self, spec: str, limit: int) -> Object | None:
        oid = spec if OID.match(spec) else self._target(spec)
        if oid is None:
            return None
        try:
            number, size = self.repository.odb.read_header(oid)
            data = self.repository.odb.read(oid)[1] if size <= limit else None
        except _ERRORS:
            return None
        return Object(oid=oid, kind=_KIND[number], size=size, data=data)

    def _target(self, name: str) -> Oid | None:
        try:
            return str(self.repository.references[name].resolve().target)
        except _ERRORS:
            return None

    def read_many(self, oids: Sequence[Oid], limit: int = MAX_READ) -> Iterator[Object | None]:
        """See Objects."""
        return (self._find(oid, limit) for oid in oids)

    def write(self, objects: Iterable[NewObject]) -> None:
        """See Objects."""
        try:
            for item in objects:
                self.repository.odb.write(_TYPE[item.kind], item.data)
        except _ERRORS as error:
            raise GitError(f"cannot write an object: {error}") from None

    def refs(self, *prefixes: str) -> dict[str, Oid]:
        """See Objects."""
        try:
            found = self.repository.references.iterator()
            return dict(sorted((r.name, str(r.resolve().target)) for r in found if r.name.startswith(prefixes)))
        except _ERRORS as error:
            raise GitError(f"cannot list refs: {error}") from None

    def update(self, *transactions: Sequence[RefChange]) -> None:
        """See Objects."""
        for changes in transactions:
            deadline = time.monotonic() + _LOCK_WAIT
            while True:
                try:
                    self._transact(changes)
                    break
                except (pygit2.GitError, OSError) as error:
                    if time.monotonic() > deadline or "lock" not in str(error):
                        raise RefConflictError(f"cannot update a ref: {error}") from None
                    time.sleep(0.005)

    def _transact(self, changes: Sequence[RefChange]) -> None:
        transaction = self.repository.transaction()
        # A failed transaction keeps its lock files until it is freed, and a traceback would keep it: free it here.
        failure: BaseException | None = None
        try:
            for change in changes:
                transaction.lock_ref(change.name)
                if self._direct(change.name) != change.old:
                    raise RefConflictError(f"cannot update a ref: '{change.name}' has moved")
                if change.new is None:
                    transaction.remove(change.name)
                else:
                    transaction.set_target(change.name, change.new, None, None)
            transaction.commit()
        except BaseException as error:
            failure = error
            raise
        finally:
            transaction.__exit__(RuntimeError if failure else None, failure, None)

    def _direct(self, name: str) -> Oid | None:
        try:
            return str(self.repository.references[name].target)
        except _ERRORS:
            return None

    def symref(self, name: str) -> str | None:
        """See Objects."""
        try:
            target = self.repository.references[name].target
        except _ERRORS:
            return None
        return target if isinstance(target, str) else None

    def set_symref(self, name: str, target: str) -> None:
        """See Objects."""
        try:
            self.repository.references.create(name, target, force=True)
        except _ERRORS as error:
            raise GitError(f"cannot set '{name}': {error}") from None

    def head(self) -> Head:
        """See Objects."""
        ref = self.symref("HEAD")
        return Head(branch=ref.removeprefix("refs/heads/") if ref else None, oid=self._target("HEAD"))

    def first_parents(self, start: Oid, limit: int | None = None) -> list[Oid]:
        """See Objects."""
        result: list[Oid] = []
        at: Oid | None = start
        while at is not None and (limit is None or len(result) < limit):
            result.append(at)
            commit = self.repository.get(at)
            if not isinstance(commit, pygit2.Commit):
                raise GitError(f"object {at} cannot be read")
            parents = commit.parent_ids
            at = str(parents[0]) if parents else None
        return result

    def distance(self, here: Oid, there: Oid) -> tuple[int, int] | None:
        """See Objects."""
        try:
            if self.repository.merge_base(here, there) is None:
                return None
            ahead, behind = self.repository.ahead_behind(here, there)
        except _ERRORS as error:
            raise GitError(f"cannot compare {here} and {there}: {error}") from None
        return ahead, behind

    def count(self, start: Oid) -> int:
        """See Objects."""
        return sum(1 for _ in self.repository.walk(start))

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

    def close(self) -> None:
        """See Objects."""
        self.repository.free()
