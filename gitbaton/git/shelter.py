"""A git directory without some refs, gone afterwards: git fetches nothing beside a ref that leads to what cannot be read.

Its objects and all settings are the repository's. What is fetched lies there as refs, until whoever asked moves those here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from gitbaton.git.objects import RefChange
from gitbaton.git.publish import fsync, move_refs
from gitbaton.git.repo import Repo
from gitbaton.git.run import checked
from gitbaton.git.usage import refs as refs_of

_OWN = (b"core.repositoryformatversion", b"core.bare", b"core.worktree")


class Shelter:
    """Such a directory; ``env`` makes it git's."""

    def __init__(self, repo: Repo, folder: str, hidden: Collection[str]) -> None:
        self.repo, self.place = repo, os.path.join(folder, "git")
        words = ("init", "-q", "--bare", "--template=", f"--object-format={repo.layout.algorithm}")
        checked(repo.git.run(*words, "--", self.place, env={"GIT_DEFAULT_REF_FORMAT": "files", "GIT_DIR": self.place}), "init")
        settings = os.path.join(folder, "settings")
        with open(settings, "wb") as file:
            file.write(_settings(repo))
        self.env = {
            "GIT_DIR": self.place,
            "GIT_CONFIG_GLOBAL": settings,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_OBJECT_DIRECTORY": repo.git.env.get("GIT_OBJECT_DIRECTORY", repo.objects_dir),
        }
        shallow = os.path.join(repo.layout.common_dir, "shallow")
        if os.path.isfile(shallow):
            shutil.copyfile(shallow, os.path.join(self.place, "shallow"))
        self.before = {name: oid for name, oid in refs_of(repo, "refs/").items() if name not in hidden and oid.strip("0")}
        with open(os.path.join(self.place, "packed-refs"), "wb") as file:
            file.write(b"".join(f"{oid} ".encode() + os.fsencode(name) + b"\n" for name, oid in self.before.items()))

    def take(self, names: Collection[str]) -> None:
        """Move refs of the repository to where they are here. Raises RefConflictError, GitError."""
        raw = self.repo.git.out("for-each-ref", "--format=%(objectname) %(refname)", env=self.env)
        rows = (line.partition(" ") for line in os.fsdecode(raw).split("\n")[:-1])
        now = {name: oid for oid, _, name in rows if name in names}
        changes = [RefChange(name=name, new=oid, old=self.before.get(name)) for name, oid in now.items()]
        changes = [change for change in changes if change.new != change.old]
        if changes:
            move_refs(self.repo, changes, how=fsync(self.repo))


@contextmanager
def sheltered(repo: Repo, hidden: Collection[str]) -> Iterator[Shelter]:
    """A shelter from the refs that are ``hidden``. Raises GitError."""
    with TemporaryDirectory(prefix="gitbaton-") as folder:
        yield Shelter(repo, folder, hidden)


def _settings(repo: Repo) -> bytes:
    """All settings as git sees them in the repository, as one file: includes may depend on the place, and are read there."""
    raw = repo.git.out("config", "--list", "--show-scope", "--includes", "-z")
    fields = raw.split(b"\0")[:-1]
    rows = []
    for scope, item in zip(fields[::2], fields[1::2], strict=True):
        key, given, text = item.partition(b"\n")
        room, _, name = key.rpartition(b".")
        section, dot, rest = room.partition(b".")
        if scope == b"command" or section == b"extensions" or key in _OWN:
            continue  # those come with each call; these say what the directory itself is
        if section in (b"include", b"includeif"):
            continue
        head = b"[" + section + (b' "' + _escaped(rest) + b'"' if dot else b"") + b"]\n\t" + name
        rows.append(head + (b' = "' + _escaped(text).replace(b"\n", b"\\n") + b'"' if given else b"") + b"\n")
    return b"".join(rows)


def _escaped(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
