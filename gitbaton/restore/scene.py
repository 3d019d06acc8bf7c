"""The present: the work tree and index captured, with the private index that git's checkout starts from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from gitbaton.baton import Baton
from gitbaton.errors import GitError, StaleError
from gitbaton.git.index import Facts, PrivateIndex, start_listings
from gitbaton.git.putback import Guard
from gitbaton.git.run import Process, checked, zsplit
from gitbaton.git.staged import refuse_changed
from gitbaton.git.untracked import ours
from gitbaton.git.worktree import Captured, capture_with_index, private_folder
from gitbaton.model import Head, Oid

# Their content is not in the capture; of the other reasons it is, in one form or another.
_HELD = ("filter-missing",)


class Scene:
    """One capture, as long as its folder is there."""

    def __init__(self, baton: Baton, folder: str) -> None:
        root = baton.repo.layout.root
        if root is None:
            raise GitError(f"'{baton.repo.layout.git_dir}' has no work tree")
        self.baton, self.repo, self.folder, self.root = baton, baton.repo, folder, root
        self.seen = self.repo.object_store()
        self.head: Head = self.repo.objects.head()
        self.rules = baton.rules()
        kept = {baton.base_tree(self.head)} if self.head.oid else set()
        found = capture_with_index(self.repo, folder, self.rules, kept)
        self.captured: Captured = found[0]
        self.index: PrivateIndex = found[1]
        self.facts: Facts = found[2]
        self.index.copy()

    @property
    def tree(self) -> Oid:
        """The captured work tree."""
        return self.captured.tree

    def unsafe(self, path: str) -> str | None:
        """Why the content at a path is not in the capture; None when it is."""
        return covered(path, {s.path: s.reason for s in self.captured.skipped if s.reason not in _HELD})

    def look_again(self) -> tuple[Process, Process]:
        """Start looking whether anything has changed since the capture."""
        return start_listings(self.index.git)

    def refuse_changes(self, looking: tuple[Process, Process]) -> None:
        """Raise StaleError when something has changed since the capture."""
        tracked, others = looking
        try:
            changed = tracked.finish()
            untracked = zsplit(checked(others.finish(), "ls-files"))
        except BaseException:
            others.stop()
            raise
        names = zsplit(changed.out)[1::2] if changed.code == 0 else []
        known = {s.path for s in self.captured.skipped}
        new = [p for p in untracked if p.rstrip("/") not in known and not ours(p, self.rules.never)]
        moved = [p for p in names if p not in known] + [
            p for p in new if covered(p.rstrip("/"), dict.fromkeys(known, "x")) is None
        ]
        if moved:
            raise StaleError(f"'{moved[0]}' changed meanwhile; nothing is changed")
        refuse_changed(self.index)

    def guard(self, held: frozenset[str] | set[str]) -> Guard:
        """What stands on disk in the way; ``held`` are the captured paths that could."""
        return Guard(self.root, held.__contains__)


def covered(path: str, left: dict[str, str]) -> str | None:
    """The reason in ``left`` of a path or of a directory above it."""
    at = path
    while at:
        if at in left:
            return left[at]
        at = at.rpartition("/")[0]
    return None


@contextmanager
def looked(baton: Baton) -> Iterator[Scene]:
    """Capture the present; its folder goes when the block ends. Raises GitError."""
    with private_folder(baton.repo) as folder:
        yield Scene(baton, folder)


def inside(root: str, directory: str | None) -> str:
    """A directory of the user's if it is in the work tree, else its top."""
    if directory is None:
        return root
    place, top = os.path.realpath(directory), os.path.realpath(root)
    return place if place == top or place.startswith(top.rstrip("/") + "/") else root
