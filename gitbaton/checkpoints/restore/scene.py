"""Present state: work tree and index captured, with the private index that a checkout starts from."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import CollectedError, DamagedIndexError, GitError, StaleError
from gitbaton.base.model import IGNORED_HELD, KEPT, Head, Oid, Skipped, covered
from gitbaton.base.system.files import Signature
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Baton
from gitbaton.git.gone import Readable, missing, promised
from gitbaton.git.loose import index_anew
from gitbaton.git.objects import lookup
from gitbaton.git.run import Listings, checked, zsplit
from gitbaton.git.worktree.capture import capture, private_folder, with_modes, with_raw
from gitbaton.git.worktree.checkout import GITLINK, Difference, GitEntry, Guard, differences, take_in
from gitbaton.git.worktree.filetrees import parents
from gitbaton.git.worktree.gate import has_links
from gitbaton.git.worktree.heldbytes import exact_bytes, moved, read_held
from gitbaton.git.worktree.modes import Permits, narrow
from gitbaton.git.worktree.place import Placer
from gitbaton.git.worktree.rawbytes import Conversion, KeptBytes
from gitbaton.git.worktree.staged import refuse_changed
from gitbaton.git.worktree.swap import stat_signature
from gitbaton.git.worktree.untracked import ours

_FEW_PATHS = 20  # that git is asked for one by one: each is held against every path of the index


class PresentState:
    """One capture, as long as its folder is there."""

    def __init__(self, baton: Baton, folder: str, concerned: Sequence[Oid] = (), held: Sequence[str] = ()) -> None:
        root = baton.repo.layout.root
        if root is None:
            makes = "to have the files of a checkpoint in one of their own: git baton worktree PATH CHECKPOINT"
            raise GitError(f"'{baton.repo.layout.git_dir}' has no work tree", makes)
        self.baton, self.repo, self.folder, self.root = baton, baton.repo, folder, root
        self.head: Head = baton.head()[0]
        self.rules = replace(baton.rules(held=concerned), going=(held, ()), walk=True)
        kept = {baton.store.base_tree(self.head.oid)} if self.head.oid else set()
        self.captured, self.index, self.facts = capture(self.repo, folder, self.rules, kept)
        self.index.copy()
        if self.captured.warning and not os.access(self.repo.layout.index, os.R_OK):  # what is staged is there, whole
            said = f"the index cannot be read: {os.strerror(errno.EACCES)}"
            raise DamagedIndexError(said, index_anew(self.repo.layout.index))
        if self.captured.warning:  # git reads the index whatever it is asked, and stops at a damaged one
            self.repo.git = self.repo.git.changed({"GIT_INDEX_FILE": self.index.path})
        if not self.index.whole():  # what is staged was looked at before
            raise StaleError("the index changed meanwhile; nothing is changed")
        self.hidden: list[str] = []
        self.looking: Listings | None = None
        self.marks: dict[str, Signature | None] = {}
        self.modes: Mapping[str, int] = {}
        self.changing: list[Difference] = []
        self.folders: frozenset[str] = frozenset()  # that stay, empty, in the place of submodules
        self.unwelcome: Callable[[str], bool] | None = None
        self.said: list[str] = []  # of what is lost beside the files that are to come back
        self.gone: dict[str, str] = {}  # folders of what is to come back that cannot be read, with the reason
        self._compared: dict[tuple[Oid, Oid], list[Difference]] = {}
        self.within = False  # whether files may come back into what is a repository of its own by now
        self.skipped = {s.path: s.reason for s in self.captured.skipped if s.reason not in KEPT}

    def against(self, tree: Oid) -> list[Difference]:
        """Return the differences of the captured work tree and a tree. Raises CollectedError."""
        pair = self.tree, tree
        if pair not in self._compared:
            self._compared[pair] = differences(self.repo.git, *pair)
        return self._compared[pair]

    def readable(self, tree: Oid) -> Oid:
        """Return a tree that is to come back, or one in its place, in which folders that cannot be read are as they are now.
        Raises BatonError where nothing of it can be read."""
        try:
            self.against(tree)
            return tree
        except CollectedError:
            found = Readable(self.repo.objects, tree, self.tree)
            if not found.gone:
                raise
            if promised(self.repo, found.lost) and len(missing(self.repo.objects, found.lost)) < len(set(found.lost)):
                return self.readable(tree)
        self.repo.stow(found.new)
        self.gone |= found.gone
        return found.tree

    @property
    def tree(self) -> Oid:
        """The captured work tree."""
        return self.captured.tree

    def unsafe(self, path: str) -> str | None:
        """Return the reason for which the content at a path is not in the capture as it should be; None when it is."""
        return covered(path, self.skipped)

    def take_out(self, absent: Collection[str]) -> None:
        """Say that paths are not there which git was told to take for unchanged, and which are not on disk."""
        self.hidden = sorted(absent)
        if absent:
            self.index.forget(absent)
            self.captured = replace(self.captured, tree=self.index.write_tree())

    def take_in(self, made: Mapping[str, GitEntry]) -> list[str]:
        """Capture also files that a step made and that ignore rules hide, as far as they are what it made; return the
        others."""
        hidden = {p: e for p, e in made.items() if e.mode != GITLINK and os.path.lexists(os.path.join(self.root, p))}
        objects = self.baton.store.objects
        hidden = {p: e for p, e in hidden.items() if lookup(objects, self.tree, os.fsencode(p)) is None}
        if hidden:
            known = self.captured.modes
            fresh = narrow(self.root, hidden, rest=known.rest)
            modes = replace(known, listed={**known.listed, **fresh.listed})
            held = {p: e for p, e in hidden.items() if e.mode[:3] == "100" and read_held(self.repo.objects, e.oid) is not None}
            other = moved(self.repo, self.root, {p: e.oid for p, e in held.items()})
            same = {p: e for p, e in held.items() if p not in other}
            self.index.put({p: f"{e.mode} {e.oid}" for p, e in same.items()})
            tree = take_in(self.index, {p: e for p, e in hidden.items() if p not in held})
            kept = self.captured.kept | KeptBytes(held=tuple((p, e.mode, e.oid) for p, e in same.items()))
            named = *self.captured.skipped, *(Skipped(path=path, reason=IGNORED_HELD) for path in same)
            captured = replace(self.captured, tree=tree, kept=kept, shut=self.captured.shut.union(same), skipped=named)
            self.captured = with_modes(captured, self.index, self.facts, modes)
        return [p for p in hidden if lookup(objects, self.tree, os.fsencode(p)) is None]

    def keep_raw(self, paths: Collection[str]) -> dict[str, Oid]:
        """Capture also the bytes on disk of those of the paths that a checkout would not give back; return all that are
        captured."""
        if paths:
            self.captured = with_raw(self.captured, self.index, self.facts, paths)
        return self.captured.kept.oids

    def written_since(self, path: str, moment: datetime, *, moved: bool = False) -> bool:
        """Whether a file's content was written after a moment, as far as its time tells; or the file may have been ``moved``
        there."""
        try:
            seen = os.lstat(os.path.join(self.root, path))
        except OSError:
            return True
        found = max(seen.st_mtime_ns, seen.st_ctime_ns) if moved else seen.st_mtime_ns
        return found > int(moment.timestamp() * 1_000_000) * 1000

    def look_again(self) -> None:
        """Start looking whether what is to change has changed since the capture."""
        few = self.marks if len(self.marks) <= _FEW_PATHS and not self.unwelcome else ()
        if self.marks:
            self.looking = Listings(self.index.git, [f":(top,literal){path}" for path in few])

    def stop_looking(self) -> None:
        """Take no interest in it any more."""
        looking, self.looking = self.looking, None
        if looking is not None:
            looking.stop()

    def refuse_changes(self) -> None:
        """Raise StaleError when what is to change has changed between the capture and the look, or index or HEAD have.

        What else happens in the work tree is nothing to us.
        """
        moved = self._moved(self.looking) if self.looking is not None else ()
        if moved:
            raise StaleError(f"{in_quotes(moved[0])} changed meanwhile; nothing is changed", paths=moved)
        refuse_changed(self.index)
        if self.baton.head()[0] != self.head:
            raise StaleError("HEAD moved meanwhile; nothing is changed")

    def _moved(self, looking: Listings) -> tuple[str, ...]:
        """Return the paths that the look found at, above or below those that are to change, and that no capture holds; or the
        unwelcome ones."""
        self.looking, changed = None, looking.tracked()
        untracked = [p.rstrip("/") for p in zsplit(checked(looking.untracked(), "ls-files"))]
        names = zsplit(changed.out)[1::2] if changed.code == 0 else []
        new = [p for p in untracked if not ours(p, self.rules.never) and covered(p, self.skipped) is None]
        unwelcome, above = self.unwelcome or (lambda path: False), {folder for path in self.marks for folder in parents(path)}
        moved = [p for p in (*names, *new) if p in above or any(at in self.marks for at in (p, *parents(p)))]
        known = self.captured.shut.union(self.skipped)
        return tuple(p for p in moved if p not in known) or tuple(filter(unwelcome, new))

    def mark(self, changing: Iterable[Difference], unwelcome: Callable[[str], bool] | None = None) -> None:
        """Remember files as they are; to be done before it is looked whether they are as captured. ``unwelcome`` says of a path
        whether a file that appears there would have to go, too."""
        self.unwelcome = unwelcome
        self.changing = list(changing)
        self.marks = {d.path: stat_signature(os.path.join(self.root, d.path)) for d in self.changing}

    def placer(
        self,
        tree: Oid,
        raw: Mapping[str, Oid | None],
        permits: Permits,
        began: Callable[[], None],
        conversion: Conversion | None,
        links: Collection[str],
    ) -> Placer:
        """Return the placer that brings the marked paths to what ``tree`` holds there.

        ``raw`` are bytes that no checkout gives, by path (None: one gives them); ``permits`` says which permissions what comes
        back gets; ``began`` is called before the first file changes; ``conversion`` says how files are checked out, where that
        is not as now, ``links`` what becomes a symbolic link, whatever core.symlinks says.
        """
        kept = {path: oid for path, oid in raw.items() if oid}
        if not has_links(self.repo):
            kept |= {d.path: d.then.oid for d in self.changing if d.then is not None and d.path in links}
        asked = {path: functools.partial(exact_bytes, self.repo, path, oid) for path, oid in kept.items()}
        git = conversion.git if conversion is not None else None
        swap = Placer(
            self.index, self.root, self.folder, tree, self.changing, self.marks, asked, began, self.modes, permits, git
        )
        swap.keep += self.folders
        return swap

    def guard(self, held: Collection[str]) -> Guard:
        """Return the guard of what stands on disk in the way; ``held`` are the captured paths that could."""
        return Guard(self.root, held.__contains__, within=self.within)


@contextmanager
def looked(baton: Baton, concerned: Sequence[Oid] = (), held: Sequence[str] = ()) -> Iterator[PresentState]:
    """Capture the present; its folder goes when the block ends. What one of the trees ``concerned`` holds is taken in, also
    where it was ignored until now: it may be written over. So may the ignored files ``held``, which are held here. Raises
    GitError."""
    with private_folder(baton.repo) as folder:
        yield PresentState(baton, folder, concerned, held)
