"""Titles: words of checkpoints in lists, by their ids, in a file below the common directory that may be thrown away. In a
repository that is not shared its owner alone can read it. A record never changes, so that a list need not read it twice."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress

from gitbaton import __version__
from gitbaton.base.errors import BatonError
from gitbaton.base.model import Oid
from gitbaton.base.values import value
from gitbaton.checkpoints.store import meta
from gitbaton.checkpoints.store.chain import Chains
from gitbaton.checkpoints.store.sealed import MANY, discard, read_lines, sift, write_lines
from gitbaton.git.repo import Repo, clear_old

_HEADER, _MODE = f"gitbaton titles 1 {__version__}", 0o600
_NAME, _WRITTEN = "titles", "titles."  # and what stands before the number of a process while that writes it
_TABS = 4  # of a line
_LONG = 1000  # characters from which on words are sooner read again than kept


@value
class Title:
    """Words of a checkpoint in a list, without a line's end or a tab, its label and the state of its tests; and whether its
    step tells that a turn ended."""

    words: str
    label: str
    state: str
    ended: bool

    def line(self, oid: Oid) -> str:
        """Return it as a line of the file; empty where its words are too long for one."""
        text = "\t".join((oid, self.state, "e" if self.ended else "", self.label, self.words))
        return text if len(text) < _LONG else ""


class Titles:
    """The titles of one repository. Nothing is read before ``load``, and nothing written before ``keep``."""

    def __init__(self, store: Chains) -> None:
        self.store, self._path = store, _path(store.repo)
        self._lines: dict[Oid, str] = {}
        self._fresh = 0

    def load(self) -> None:
        """Read what is kept: nothing of a file that is not as it was written, or by another version of ours."""
        lines = (line for line in read_lines(self._path, _HEADER) if line.count("\t") == _TABS)
        self._lines = {line[: line.index("\t")]: line for line in lines}

    def get(self, oid: Oid) -> Title | None:
        """Return the title of a checkpoint; None where it is not known."""
        line = self._lines.get(oid)
        if line is None:
            return None
        _, state, ended, label, words = line.split("\t")
        return Title(words=words, label=label, state=state, ended=bool(ended))

    def learn(self, lines: Iterable[str]) -> None:
        """Note lines of titles."""
        for line in filter(None, lines):
            self._lines[line[: line.index("\t")]] = line
            self._fresh += 1

    def keep(self, ids: Collection[Oid] | None = None) -> None:
        """Write what was learned, if that is much, and of no other checkpoints than ``ids``, where they are given; a disk that
        does not take it keeps none. What was forgotten meanwhile is not written."""
        if self._fresh < MANY and (ids is None or self._lines.keys() <= {*ids}):
            return
        # Who forgets holds the lock, and looks here first: what is kept by then goes, and later the tombstone is seen.
        with suppress(OSError, BatonError), self.store.repo.lock((), 0):
            dropped = meta.read(self.store).dropped
            there = {*(self._lines if ids is None else ids)}
            kept = (line for oid, line in self._lines.items() if oid in there and not dropped(oid))
            write_lines(self.store.repo, self._path, _HEADER, kept, mode=_MODE)
        self._fresh = 0


def forget_titles(repo: Repo, ids: Collection[Oid] | None = None) -> None:
    """Keep nothing of these checkpoints; without any given nothing at all. Never raises."""
    gone = frozenset(ids or ())
    if ids is not None and not gone:
        return
    clear_old(repo, repo.shared_dir, lambda name, _: name.startswith(_WRITTEN))  # what a killed writer has left
    if ids is None:
        discard(repo, _path(repo))
    elif os.path.lexists(_path(repo)):
        sift(repo, _path(repo), _HEADER, lambda line: line.partition("\t")[0] not in gone, mode=_MODE)


def _path(repo: Repo) -> str:
    return os.path.join(repo.shared_dir, _NAME)
