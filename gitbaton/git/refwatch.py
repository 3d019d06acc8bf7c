"""Ref watch: one stat tells whether anybody, git included, has moved a ref since the last look."""

from __future__ import annotations

import os
import threading
import time

from gitbaton.errors import GitError
from gitbaton.git.objects import OID
from gitbaton.git.repo import Repo
from gitbaton.model import Oid

Mark = tuple[int, ...]
"""What a ref's file looked like; another look that is equal means that nobody has moved it."""

_YOUNG = 12_000_000  # nanoseconds: a file system's clock may show the same time for two changes as near as this


class RefWatch:
    """The refs below ``refs/`` that all work trees of one repository share. Safe in several threads."""

    def __init__(self, repo: Repo) -> None:
        self.common = os.fsencode(repo.layout.common_dir)
        self.algorithm = repo.layout.algorithm
        tables = os.path.join(self.common, b"reftable", b"tables.list")
        self._tables = tables if os.path.exists(tables) else None
        self._packed = os.path.join(self.common, b"packed-refs")
        self._text: tuple[Mark, bytes] = ((), b"")
        self._repo = Repo(repo.layout, repo.git, "binary") if self._tables else repo
        self._own = threading.Lock()

    def path(self, name: str) -> bytes:
        """The file to look at for a ref, for ``mark``."""
        return self._tables or os.path.join(self.common, os.fsencode(name))

    def mark(self, path: bytes) -> Mark:
        """How the file of a ref looks now, or where it has none, the file of those without."""
        try:
            seen = os.stat(path)
        except FileNotFoundError:
            return self._other()
        except NotADirectoryError:
            return self._other()
        return (seen.st_mtime_ns, seen.st_ino, seen.st_size)

    def _other(self) -> Mark:
        try:
            seen = os.stat(self._packed)
        except FileNotFoundError:
            return (0,)
        return (1, seen.st_mtime_ns, seen.st_ino, seen.st_size)

    def look(self, name: str) -> tuple[Mark | None, Oid | None]:
        """A mark and what the ref points at, None where it is not there. The mark is older than the look, or None where the
        file is so young that a second change could look the same. Raises GitError when it cannot be read."""
        path = self.path(name)
        mark = self.mark(path)
        oid = self._table(name) if self._tables else self._file(name, path)
        when = mark[-3] if len(mark) > 1 else 0
        return (None if time.time_ns() - when < _YOUNG else mark), oid

    def _file(self, name: str, path: bytes) -> Oid | None:
        try:
            with open(path, "rb", buffering=0) as file:
                text = file.read(128).decode("ascii", "replace").strip()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return self._from_packed(name, path)
        except OSError as error:
            raise GitError(f"ref '{name}' cannot be read: {error.strerror}") from None
        if not OID.match(text):
            raise GitError(f"ref '{name}' holds no object id")
        return text

    def _from_packed(self, name: str, path: bytes) -> Oid | None:
        mark = self._other()
        if mark != self._text[0]:
            try:
                with open(self._packed, "rb") as file:
                    self._text = (mark, b"\n" + file.read())
            except FileNotFoundError:
                self._text = (mark, b"")
            except OSError as error:
                raise GitError(f"ref '{name}' cannot be read: {error.strerror}") from None
        text = self._text[1]
        at = text.find(b" " + os.fsencode(name) + b"\n")
        if at < 0:
            # It may have left that file for one of its own since it was looked for there.
            return self._file(name, path) if os.path.isfile(path) else None
        oid = text[text.rfind(b"\n", 0, at) + 1 : at].decode("ascii", "replace")
        if not OID.match(oid):
            raise GitError(f"ref '{name}' holds no object id")
        return oid

    def _table(self, name: str) -> Oid | None:
        with self._own:
            found = self._repo.objects.info(name)
            if found is not None:
                return found.oid
            return self._repo.objects.refs(name.rpartition("/")[0] + "/").get(name)

    def listing(self, *prefixes: str) -> dict[str, Oid]:
        """All refs below prefixes that end in ``/``; see Objects.refs."""
        with self._own:
            return self._repo.objects.refs(*prefixes)

    def close(self) -> None:
        """Let go of processes."""
        if self._tables:
            self._repo.close()
