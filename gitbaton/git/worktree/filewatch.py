"""Stray writes: what changes outside a write set while a command runs, with images of what was there before."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from gitbaton.base.system.files import settled, signature
from gitbaton.base.values import value
from gitbaton.git.run import OTHERS, checked, zsplit
from gitbaton.git.treediff import records
from gitbaton.git.worktree.filesets import TEMPORARY, Files
from gitbaton.git.worktree.filetrees import EXECUTABLE, FILE, LARGE, LINK, FileEntry, is_safe
from gitbaton.git.worktree.gate import folders_of
from gitbaton.git.worktree.index import PrivateIndex, modified
from gitbaton.git.worktree.modes import NOTHING, Modes, survey
from gitbaton.git.worktree.rawbytes import conversions
from gitbaton.git.worktree.untracked import excludes, ignored_by

_TRACKED = ("diff-files", "-z", "--raw", "--no-renames", "--no-abbrev", "--ita-invisible-in-index", "--ignore-submodules=all")
_MODES = (FILE, EXECUTABLE, LINK)

MOST_ANEW = 64 << 20  # bytes that are stored of what is modified and untracked, each time it is looked at

Clean = dict[str, FileEntry]  # tracked files that were as in the index, as the index has them


@value
class Strays:
    """The paths outside a write set that changed. ``before`` and ``after`` are the images that are kept; ``unkept`` are the
    paths with content of which there is no image: too large, unreadable, or no file. ``modes``: the permission bits that were
    seen before; ``most``: those of all other files and of folders, where git gives more."""

    found: tuple[str, ...]
    before: Mapping[str, FileEntry]
    after: Mapping[str, FileEntry]
    unkept: tuple[str, ...]
    modes: Mapping[str, int] = MappingProxyType({})
    most: Modes = NOTHING


@value
class _Seen:
    """A path when it was looked at; ``entry`` is None where its bytes were not kept."""

    stat: os.stat_result | None
    entry: FileEntry | None
    sure: bool


class Watch:
    """A watch of everything tracked, and untracked but not ignored, outside a write set (``matches``), from when this is made.

    Ignored files are not watched, also where the rules go meanwhile, nor what is in nested repositories and submodules. What is
    modified or untracked is stored, but for files over ``max_size`` bytes; of what was not read before at most ``MOST_ANEW``
    bytes are, the smallest files first: the others are noticed by their stat. The image of what is as in the index is the
    index's blob. ``folder`` is for a private copy of the index. Raises GitError.
    """

    def __init__(self, files: Files, matches: Callable[[str], bool], folder: str, *, max_size: int) -> None:
        self._files, self._matches, self._limit = files, matches, min(max_size, LARGE)
        self._index = PrivateIndex(files.repo, files.repo.layout.index, os.path.join(folder, "index"))
        self._index.copy()
        flags = self._index.git.start("ls-files", "-v", "-z")
        paths, _, touched = self._listed()
        self._most = survey(self._index, files.root, touched)
        # Those of a sparse checkout, too: where a file is missing as it should be, its entry is not what stood there.
        hidden = (row[2:] for row in zsplit(checked(flags.finish(), "ls-files")) if row[0].islower() or row[0] == "S")
        self._before = self._look({*paths, *(p for p in hidden if self._watched(p))})
        self._folder, self._excludes = folder, excludes(files.repo)

    def _watched(self, path: str) -> bool:
        # A nested repository ends in a slash.
        return is_safe(path) and not TEMPORARY.match(path.rpartition("/")[2]) and not self._matches(path)

    def _listed(self) -> tuple[set[str], Clean, list[str] | None]:
        """Return the paths that may differ from the index, and those among them that are tracked, as the index has them; and
        all that differ, watched or not, None where git could not say."""
        git = self._index.git
        tracked, others = git.start(*_TRACKED), git.start(*OTHERS)
        result = tracked.finish()
        listing = modified(git, *_TRACKED[1:]) if result.code else result
        changed = _entries(listing.out, filemode=self._files.reader.filemode)
        paths = [*changed, *zsplit(checked(others.finish(), "ls-files"))]
        clean = {p: e for p, e in changed.items() if e is not None}
        return {p for p in paths if self._watched(p)}, clean, None if result.code else paths

    def _look(self, paths: Iterable[str]) -> dict[str, _Seen]:
        """Look at paths, and store what is there."""
        import time

        now = time.time_ns()
        stats = {path: _stat(os.path.join(self._files.root, path)) for path in paths}
        kept = self._affordable([(p, s) for p, s in stats.items() if s is not None and self._keeps(p, s)])
        entries = self._files.take(kept)
        return {p: _Seen(stat=s, entry=entries.get(p), sure=s is None or settled(signature(s), now)) for p, s in stats.items()}

    def _affordable(self, found: list[tuple[str, os.stat_result]]) -> list[tuple[str, os.stat_result]]:
        """Return those files that were read before, and the smallest others."""
        if sum(s.st_size for _, s in found) <= MOST_ANEW:
            return found
        kept, left = [], MOST_ANEW
        for path, seen in sorted(found, key=lambda item: item[1].st_size):
            if self._files.known(path, seen) is None:
                left -= seen.st_size
                if left < 0:
                    continue
            kept.append((path, seen))
        return kept

    def _keeps(self, path: str, found: os.stat_result) -> bool:
        fits = stat.S_ISREG(found.st_mode) and found.st_size <= self._limit
        return stat.S_ISLNK(found.st_mode) or (fits and os.access(os.path.join(self._files.root, path), os.R_OK))

    def changed(self) -> Strays:
        """Return what is different now, and store what is there now. Raises GitError."""
        listed, clean, _ = self._listed()
        listed -= self._uncovered(listed, clean)
        # What was untracked may be ignored by now.
        suspects = {p for p in {*listed, *self._before} if self._moved(p)}
        after = self._look(suspects)
        before = {p: self._before.get(p) or _Seen(stat=None, entry=clean.get(p), sure=True) for p in suspects}
        same = {p for p in suspects if _equal(before[p], after[p])}
        same |= self._same_to_git({p: e for p, e in clean.items() if p in suspects - same and p not in self._before}, after)
        return self._strays({p: (before[p], after[p]) for p in sorted(suspects - same, key=os.fsencode)})

    def _uncovered(self, listed: Collection[str], clean: Clean) -> set[str]:
        """Return the untracked paths that are seen only now because ignore rules are gone which covered them: they were not
        watched."""
        new = [p for p in listed if p not in self._before and p not in clean]
        repo, rules = self._files.repo, [os.path.join(folder, ".gitignore") for folder in folders_of(new)]
        then = self._excludes if new and self._excludes != excludes(repo) else None
        moved = [p for p in rules if p in clean or (p in self._before and self._moved(p))]
        if not new or (then is None and not moved):
            return set()
        before = {p: seen.entry if (seen := self._before.get(p)) else clean.get(p) for p in moved}
        stats = [(p, s) for p in rules if p not in before and p not in new and (s := _stat(os.path.join(self._files.root, p)))]
        entries = {**self._files.take(stats), **{p: e for p, e in before.items() if e is not None}}
        return ignored_by(repo, self._folder, self._files.tree(entries), new, then)

    def _moved(self, path: str) -> bool:
        """Whether the stat of a path may be that of another content than before."""
        seen = self._before.get(path)
        if seen is None or not seen.sure:
            return True
        now = _stat(os.path.join(self._files.root, path))
        if now is None or seen.stat is None:
            return now is not seen.stat
        return signature(now) != signature(seen.stat)

    def _same_to_git(self, clean: Clean, after: Mapping[str, _Seen]) -> set[str]:
        """Return the files that were only touched, though their bytes are not those in the index: git converts them."""
        there = [p for p in clean if after[p].entry is not None and "\n" not in p]
        asked = [p for p in conversions(self._files.repo, self._files.root, there, self._index.git) if clean[p].mode != LINK]
        if not asked:
            return set()
        names = b"".join(os.fsencode(p) + b"\n" for p in asked)
        result = self._index.git.run("hash-object", "--stdin-paths", stdin=names)
        if result.code != 0:  # a filter that fails: nobody knows
            return set()
        pairs = zip(asked, result.out.decode("ascii").split(), strict=True)
        modes = {p: e.mode for p in asked if (e := after[p].entry) is not None}
        return {p for p, oid in pairs if oid == clean[p].oid and modes[p] == clean[p].mode}

    def _strays(self, changes: Mapping[str, tuple[_Seen, _Seen]]) -> Strays:
        before = {p: e for p, (seen, _) in changes.items() if (e := seen.entry) is not None}
        after = {p: e for p, (_, seen) in changes.items() if (e := seen.entry) is not None}
        blind = [p for p, pair in changes.items() if any(seen.stat is not None and seen.entry is None for seen in pair)]
        return Strays(
            found=tuple(changes),
            before=before,
            after=after,
            unkept=tuple(blind),
            modes={p: seen.stat.st_mode & 0o777 for p, (seen, _) in changes.items() if seen.stat is not None},
            most=self._most,
        )


def _equal(before: _Seen, after: _Seen) -> bool:
    """Whether a path holds the same on both sides, as far as it was looked into."""
    blind = any(seen.entry is None and seen.stat is not None for seen in (before, after))
    if blind or before.entry is None or after.entry is None:
        if before.stat is None or after.stat is None:
            return before.stat is after.stat and before.entry is after.entry
        return signature(before.stat) == signature(after.stat)
    return (before.entry.mode, before.entry.oid) == (after.entry.mode, after.entry.oid)


def _stat(path: str) -> os.stat_result | None:
    """Return the stat of a path; None where there is nothing, and for a folder: its files are paths of their own."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return None if stat.S_ISDIR(found.st_mode) else found


def _entries(listing: bytes, *, filemode: bool) -> dict[str, FileEntry | None]:
    """Return the paths of a raw listing, with the entries of the index; none for one in conflict, which comes twice."""
    found: dict[str, FileEntry | None] = {}
    for change in records(listing)[0][1]:
        mode, _, oid = (change.before or "").partition(" ")
        if mode == "160000":
            continue
        mode = mode if filemode or mode != EXECUTABLE else FILE
        known = mode in _MODES and oid.strip("0") and change.path not in found
        found[change.path] = FileEntry(path=change.path, mode=mode, oid=oid) if known else None
    return found
