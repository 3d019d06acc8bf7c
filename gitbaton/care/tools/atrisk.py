"""At risk: what of a work tree no checkpoint and no commit holds, by which of git's commands, or the disk, would take it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from gitbaton.base.errors import BatonError, GitError
from gitbaton.base.model import INSIDE, KEPT, Oid, Stored, covered
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.config import names_secrets
from gitbaton.checkpoints.store import safety_ref
from gitbaton.checkpoints.store.chain import beside
from gitbaton.git.objects import lookup, object_id
from gitbaton.git.questions import inside, met
from gitbaton.git.repo import Repo
from gitbaton.git.run import checked, zsplit
from gitbaton.git.treediff import differences
from gitbaton.git.worktree.capture import Captured, capture, private_folder
from gitbaton.git.worktree.heldbytes import HeldStore, moved, read_held
from gitbaton.git.worktree.rawbytes import read_kept
from gitbaton.git.worktree.untracked import CaptureRules, ours, regular, special

CLEAN, CHECKOUT, DISK = "clean", "checkout", "disk"
TAKERS = (CLEAN, CHECKOUT, DISK)
_ALSO_TRACKED = ("unreadable", "unstable", *KEPT)
_FOLDED = 10  # files of one folder, for one reason, that have a row each
_NAMED = 300  # rows of which git is asked by name what checkpoints hold there; of more it tells of everything
ENTRIES = 500_000  # of folders that git ignores whole
_REPOSITORIES = 100  # that are looked into
_LOG = (
    "log",
    "--first-parent",
    "--diff-merges=first-parent",
    "--format=",
    "--raw",
    "-r",
    "-z",
    "--no-abbrev",
    "--no-renames",
    "--no-notes",
)


@value
class RiskRow:
    """A path at risk, a folder with a slash. ``by``: the first of TAKERS that would take it; ``files`` and ``size`` of what is
    at risk there, ``commits`` of a repository that no remote has; ``changed``: when the newest of it was written; ``whole``:
    whether all of it was looked at."""

    path: str
    reason: str
    by: str
    size: int = 0
    files: int = 1
    commits: int = 0
    changed: datetime | None = None
    whole: bool = True


@value
class AtRisk:
    """The rows, the largest first, and of one size the newest; ``worktrees``: linked work trees that lie in this one, which
    have checkpoints of their own."""

    rows: tuple[RiskRow, ...]
    worktrees: tuple[str, ...] = ()

    def taken(self, *takers: str) -> tuple[int, int, int]:
        """Return the files, bytes and commits that some takers would take, by default all of them."""
        rows = [row for row in self.rows if row.by in (takers or TAKERS)]
        return sum(row.files for row in rows), sum(row.size for row in rows), sum(row.commits for row in rows)


def at_risk(baton: Baton, folder: str, most: int = ENTRIES) -> AtRisk:
    """Find what only the work tree has; ``most``: how many entries of folders that git ignores whole are looked at. Nothing is
    written but into ``folder``, and the repository is redirected there afterwards. Raises BatonError without a work tree."""
    if baton.repo.layout.root is None:
        raise BatonError("there is no work tree here, and so nothing at risk")
    found = _RiskSearch(baton, folder, most)
    rows = sorted(found.rows(), key=lambda r: (-r.size, -r.commits, -(r.changed.timestamp() if r.changed else 0), r.path))
    return AtRisk(rows=tuple(rows), worktrees=tuple(sorted(found.worktrees)))


class _RiskSearch:
    """Search of a work tree; ``worktrees`` and ``nested`` are the repositories that were met on the way."""

    def __init__(self, baton: Baton, folder: str, most: int) -> None:
        self.baton, self.root, self.left = baton, baton.repo.layout.root or "", most
        self.worktrees, self.nested, self.known = list[str](), dict[str, None](), dict[str, Oid]()
        self.tips, self.tip = _tips(baton)
        self.head = baton.store.base_tree(baton.head()[0].oid)
        self.rules: CaptureRules = baton.rules(self.tip)
        baton.redirect(folder)
        self.repo: Repo = baton.repo
        with private_folder(self.repo) as private:
            self.bytes = HeldStore(self.repo)
            self.captured: Captured = capture(self.repo, private, self.rules, ())[0]

    def rows(self) -> Iterator[RiskRow]:
        """All rows, folders that hold many as one."""
        yield from self._not_held(_folded([*self._changed(), *self._left_out(), *self._ignored()]))
        yield from self._repositories()

    def _changed(self) -> Iterator[RiskRow]:
        """Yield files that differ from HEAD and from the newest checkpoint."""
        captured, tip = self.captured, self.tip.tree if self.tip is not None else self.head
        pairs = [(self.head, captured.tree), (tip, captured.tree), (captured.staged, captured.tree)]
        committed, recorded, staged = map(differences(self.repo, pairs).__getitem__, pairs)
        intents = {f.path for f in captured.flags if "i" in f.bits}
        if captured.unmerged:
            intents |= {row.partition("\t")[2] for row in zsplit(self.repo.git.out("ls-files", "-u", "-z"))}
        files = self.tip.checkpoint.files if self.tip is not None else None
        left = {s.path: s.reason for s in files.skipped} if files is not None else {}
        kept = {s.path for s in captured.skipped if s.reason in KEPT}
        for path, change in recorded.items():
            if path not in committed or path in kept or change.after is None or change.after.startswith("160000"):
                continue
            tracked = path in intents or path not in staged or staged[path].before is not None
            by = CLEAN if not tracked else CHECKOUT if path in staged else DISK  # what is staged, git checks out
            self.known[path] = change.after.split(" ")[1]
            reason = covered(path, left) if change.before is None else None
            yield from self._file(path, reason or ("new" if change.before is None else "changed"), by)

    def _left_out(self) -> Iterator[RiskRow]:
        """Yield paths that a snapshot leaves out."""
        paths = {s.path for s in self.captured.skipped if s.reason in KEPT}
        side = beside(self.baton.store, self.tip) if self.tip is not None and paths else None
        then = read_kept(self.repo.objects, side) if side is not None else {}
        kept = {path for path in paths & then.keys() if self._is_held(path, [then[path]])}  # its present bytes, by the tip
        for one in self.captured.skipped:
            if one.reason in INSIDE:
                self.nested[one.path.rstrip("/")] = None
            elif one.path not in kept:
                secret = one.reason == "excluded" and names_secrets(one.path)
                place = self.captured.staged, os.fsencode(one.path)
                tracked = one.reason in _ALSO_TRACKED and lookup(self.repo.objects, *place) is not None
                yield from self._at(one.path, "secret" if secret else one.reason, CHECKOUT if tracked else CLEAN)

    def _ignored(self) -> Iterator[RiskRow]:
        """Yield ignored paths, a folder that git ignores whole as one."""
        listed = zsplit(self.repo.git.out("ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z"))
        above = ""
        for path in sorted(listed):  # what lies in a folder that is listed may be so, too
            if above and path.startswith(above):
                continue
            above = path if path.endswith("/") else above
            yield from self._at(path, "ignored", CLEAN)

    def _at(self, path: str, reason: str, by: str) -> Iterator[RiskRow]:
        full = os.path.join(self.root, path)
        if os.path.isdir(full) and not os.path.islink(full):
            yield from self._walked(path.rstrip("/"), reason, by)
        else:
            yield from self._file(path, reason, by)

    def _file(self, path: str, reason: str, by: str) -> Iterator[RiskRow]:
        full = os.path.join(self.root, path)
        if ours(path, self.rules.never) or special(full):
            return
        try:
            found = os.lstat(full)
        except OSError:
            return
        yield RiskRow(path=path, reason=reason, by=by, size=found.st_size, changed=_moment(found.st_mtime))

    def _walked(self, folder: str, reason: str, by: str) -> Iterator[RiskRow]:
        """Yield a folder as one row, without the repositories in it."""
        size = files = 0
        newest, whole, waiting = 0.0, True, [folder]
        while waiting:
            at = waiting.pop()
            try:
                with os.scandir(os.path.join(self.root, at)) as listed:
                    entries = list(listed)
            except OSError:
                whole = False
                continue
            if any(entry.name == ".git" for entry in entries):
                self.nested[at] = None
                continue
            self.left -= len(entries)
            if self.left < 0:
                whole = False
                break
            for entry in entries:
                path = f"{at}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif (entry.is_file(follow_symlinks=False) or entry.is_symlink()) and not ours(path, self.rules.never):
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    files, size, newest = files + 1, size + found.st_size, max(newest, found.st_mtime)
        if files or not whole:
            moment = _moment(newest) if files else None
            yield RiskRow(path=f"{folder}/", reason=reason, by=by, size=size, files=files, changed=moment, whole=whole)

    def _not_held(self, rows: Sequence[tuple[RiskRow, tuple[str, ...]]]) -> Iterator[RiskRow]:
        """Yield the rows, each with the files that it stands for where they are known, less what checkpoints of this work
        tree's tracks, or HEAD, hold."""
        held = self._held([row.path for row, _ in rows])
        below: dict[str, list[str]] = {row.path: [] for row, paths in rows if not paths}
        for path in held:
            for at in (at for at, char in enumerate(path, 1) if char == "/"):
                if path[:at] in below:
                    below[path[:at]].append(path)
        asked = [[path for path in paths or below[row.path] if path in held] for row, paths in rows]
        oids = self._oids([path for paths in asked for path in paths])
        for (row, _), paths in zip(rows, asked, strict=True):
            safe = [path for path in paths if oids.get(path) in held[path] or self._is_held(path, held[path])]
            gone = sum(one.size for path in safe for one in self._file(path, "", DISK))
            if len(safe) < row.files or not row.whole:
                yield replace(row, files=row.files - len(safe), size=max(row.size - gone, 0)) if safe else row

    def _held(self, paths: Sequence[str]) -> Mapping[str, Collection[Oid]]:
        """Return the blob ids that checkpoints and HEAD hold at and below paths, or at all where these are many, by path."""
        found = dict[str, set[Oid]]()
        if not paths:
            return found
        few = [f":(top,literal){path.rstrip('/')}" for path in paths] if len(paths) <= _NAMED else []
        tips = "".join(f"{tip}\n" for tip in self.tips).encode()
        listed = self.repo.git.start("ls-tree", "-r", "-z", "--full-tree", self.head)
        users = self.repo.git.changed({}, "log.showSignature=false", "log.follow=false")
        logged = users.start(*_LOG, "--stdin", "--", *few, stdin=tips) if tips else None
        for field in zsplit(checked(listed.finish(), "ls-tree")):
            meta, _, path = field.partition("\t")
            found.setdefault(path, set()).add(meta.rpartition(" ")[2])
        fields = iter(zsplit(checked(logged.finish(), "log")) if logged is not None else [])
        for field in fields:
            if field.startswith(":"):
                found.setdefault(next(fields), set()).add(field.split(" ")[3])
        return found

    def _is_held(self, path: str, oids: Collection[Oid]) -> bool:
        """Whether the git directory holds a file's present bytes under one of these ids."""
        for oid in oids if path not in self.known else ():
            text = read_held(self.repo.objects, oid)
            if text is not None and self.bytes.has(text) and not moved(self.repo, self.root, {path: oid}):
                return True
        return False

    def _oids(self, paths: Sequence[str]) -> Mapping[str, Oid]:
        """Return the ids that files would have in a checkpoint, without what cannot be read."""
        found, asked = {path: self.known[path] for path in paths if path in self.known}, list[str]()
        for path in (path for path in paths if path not in found):
            full = os.path.join(self.root, path)
            if os.path.islink(full):
                found[path] = object_id(self.repo.layout.algorithm, "blob", os.fsencode(os.readlink(full)))
            elif "\n" not in path and regular(full):
                asked.append(path)
        while asked:
            # A line in quotes would be read as a path in C's notation.
            stdin = b"".join(b"./"[: 2 * path.startswith('"')] + os.fsencode(path) + b"\n" for path in asked)
            oids = self.repo.git.run("hash-object", "--stdin-paths", stdin=stdin).out.decode("ascii").split()
            found |= zip(asked, oids, strict=False)
            del asked[: len(oids) + 1]  # it stops at what it cannot read
        return found

    def _repositories(self) -> Iterator[RiskRow]:
        """Yield what only submodules and nested repositories have, those in them, too: files that are not committed, and
        commits that no remote has."""
        listed = self.repo.git.out("ls-tree", "-r", "-z", "--full-tree", self.captured.tree).split(b"\0")
        waiting = [os.fsdecode(row.partition(b"\t")[2]) for row in listed if row.startswith(b"160000 ")] + list(self.nested)
        seen, left = set[str](), _REPOSITORIES
        for path in waiting:  # which grows meanwhile
            place = os.path.join(self.root, path)
            if path in seen or os.path.islink(place) or not os.path.lexists(os.path.join(place, ".git")):
                continue
            seen.add(path)
            left -= 1
            found = None
            with suppress(GitError):  # it takes too long
                found = inside(self.repo, place) if left >= 0 else None
            if found is None:
                yield RiskRow(path=f"{path}/", reason="nested-repository", by=DISK, files=0, whole=False)
                continue
            if found.ours:
                self.worktrees.append(path)
                continue
            waiting += [f"{path}/{below}" for below in found.within]
            files = [row for below in found.changed for row in self._file(f"{path}/{below}", "uncommitted", DISK)]
            if files:
                newest = max((row.changed for row in files if row.changed), default=None)
                size = sum(row.size for row in files)
                yield RiskRow(path=f"{path}/", reason="uncommitted", by=DISK, size=size, files=len(files), changed=newest)
            if found.commits:
                yield RiskRow(path=f"{path}/", reason="unpushed", by=DISK, size=found.size, files=0, commits=found.commits)


def _tips(baton: Baton) -> tuple[list[Oid], Stored | None]:
    """Return the newest commits of this work tree's chains, the states before its restores included, and the checkpoint that it
    stands on."""
    layout, current = baton.repo.layout, baton.store.current()
    here = met(layout.git_dir, layout.root or "")
    found = [
        s
        for s in baton.readable_tips().items
        if (files := s.checkpoint.files) is not None
        and (s.checkpoint.track == current or (here is not None and files.worktree.same(here)))
    ]
    newest = next((s for s in found if s.checkpoint.track == current), found[0] if found else None)
    before = baton.repo.objects.info(safety_ref(layout.git_dir, layout.common_dir))
    states = [before.oid] if before is not None and before.kind == "commit" else []
    return [*(s.commit for s in found), *states], newest


def _folded(rows: Sequence[RiskRow]) -> list[tuple[RiskRow, tuple[str, ...]]]:
    """Fold many files of one folder into one row; each row comes with the files that it stands for, of a folder that was walked
    none."""
    groups: dict[tuple[str, str, str], list[RiskRow]] = {}
    for row in rows:
        folder = row.path if row.path.endswith("/") else f"{os.path.dirname(row.path) or '.'}/"
        groups.setdefault((folder, row.reason, row.by), []).append(row)
    found = list[tuple[RiskRow, tuple[str, ...]]]()
    for (folder, reason, by), group in groups.items():
        if len(group) <= _FOLDED:
            found += [(row, () if row.path.endswith("/") else (row.path,)) for row in group]
            continue
        newest = max((row.changed for row in group if row.changed), default=None)
        size = sum(row.size for row in group)
        row = RiskRow(path=folder, reason=reason, by=by, size=size, files=len(group), changed=newest)
        found.append((row, tuple(row.path for row in group)))
    return found


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
