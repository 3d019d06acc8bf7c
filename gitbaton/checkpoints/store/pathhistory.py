"""History of a path: what it holds in trees, at which checkpoints of a chain that changed, and which of them count."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from gitbaton.base.errors import GitError, RecordError
from gitbaton.base.model import Oid, Stored
from gitbaton.base.values import value
from gitbaton.checkpoints.store.read import Store
from gitbaton.git.objects import is_oid, new_object, parse_tree
from gitbaton.git.treediff import TREES

Step = tuple[Oid, Oid]  # two trees, before and after
Contents = dict[str, str]  # by path: ``mode id``; empty for an absent path
_FEW_PATHS = 500
_FEW_BYTES = 64 << 10  # of paths on a command line
_UNREADABLE = "?"  # a content that no path has
NEWEST = 200  # of a track that is alone: how far back it is looked at first
FORMAT = ("--encoding=UTF-8", "--format=%H %T %at %P")  # i18n.logOutputEncoding may be UTF-16


def nothing(store: Store) -> Oid:
    """Return the empty tree."""
    return new_object(store.objects.algorithm, "tree", b"").oid


def tree_of(store: Store, commit: Oid | None) -> Oid | None:
    """Return the tree of a commit; None where it cannot be read."""
    try:
        return store.tree_of(commit) if commit and is_oid(store.objects.algorithm, commit) else None
    except (GitError, RecordError):
        return None


def changes(store: Store, steps: Iterable[Step], wanted: Contents) -> dict[Step, Contents]:
    """Return the new contents of the wanted paths that each step changes, by one process."""
    ordered = sorted({step for step in steps if step[0] != step[1]})
    if not ordered:
        return {}
    small = len(wanted) <= _FEW_PATHS and sum(len(os.fsencode(p)) for p in wanted) <= _FEW_BYTES
    specs = [f":(top,literal){path}" for path in wanted] if small else []
    stdin = "".join(f"{before} {after}\n" for before, after in ordered).encode()
    result = store.repo.git.run(*TREES, "--", *specs, stdin=stdin)
    found = _parsed(result.out, wanted) if result.code == 0 else {}
    # Git passes over a tree that is not there without failing.
    return found if len(found) == len(ordered) else _compared(store, ordered, wanted)


def _parsed(out: bytes, wanted: Contents) -> dict[Step, Contents]:
    """Parse ``diff-tree -z``: a line with two trees, then records that begin with a colon and their paths."""
    found: dict[Step, Contents] = {}
    names = {os.fsencode(path): path for path in wanted}
    contents: Contents = {}
    at = 0
    while at < len(out):
        if out[at] != 0x3A:
            end = out.index(b"\n", at)
            before, after = out[at:end].decode("ascii").split(" ")
            contents = found[before, after] = {}
            at = end + 1
            continue
        middle = out.index(b"\0", at)
        end = out.index(b"\0", middle + 1)
        path = names.get(out[middle + 1 : end])
        if path is not None:
            _, mode, _, oid, _ = out[at:middle].decode("ascii").split(" ")
            contents[path] = "" if mode == "000000" else f"{mode} {oid}"
        at = end + 1
    return found


def _compared(store: Store, steps: Iterable[Step], wanted: Contents) -> dict[Step, Contents]:
    """Return what ``_parsed`` does, where git cannot read every tree: a path behind an unreadable one has no content that
    counts."""
    trees: dict[Oid, dict[bytes, str] | None] = {nothing(store): {}}

    def entries(oid: Oid) -> dict[bytes, str] | None:
        if oid not in trees:
            try:
                found = store.objects.read(oid, 64 << 20)
                raw = found.data if found is not None and found.kind == "tree" else None
                rows = parse_tree(raw, store.objects.algorithm) if raw is not None else None
            except (GitError, RecordError):
                rows = None
            known = {e.name: f"{e.mode.decode('ascii', 'replace')} {e.oid}" for e in rows or ()}
            trees[oid] = known if rows is not None else None
        return trees[oid]

    def content(tree: Oid, path: str) -> str:
        *folders, name = os.fsencode(path).split(b"/")
        for folder in folders:
            rows = entries(tree)
            mode, _, tree = (rows or {}).get(folder, "").partition(" ")
            if mode != "40000":
                return "" if rows is not None else _UNREADABLE
        rows = entries(tree)
        found = (rows or {}).get(name, "")
        return _UNREADABLE if rows is None else "" if found.startswith("40000 ") else found

    found = {}
    for before, after in steps:
        pairs = ((path, content(before, path), content(after, path)) for path in wanted)
        found[before, after] = {path: new for path, old, new in pairs if new != old}
    return found


Run = tuple[int, int, str]  # from a place up to before another a path has one content


@value
class ChainCommit:
    """A commit as ``rev-list`` prints it."""

    oid: Oid
    tree: Oid
    seconds: int
    parent: Oid | None


@value
class PlacedCheckpoint:
    """A checkpoint at a place of a line; ``here``: taken in the work tree that it is asked for."""

    stored: Stored
    place: int
    here: bool
    skipped: frozenset[str]

    @property
    def track(self) -> str:
        """The track of the checkpoint; of a state before a restore that of the checkpoint that came back."""
        return self.stored.checkpoint.track

    @property
    def created(self) -> datetime:
        """The time at which the checkpoint was taken."""
        return self.stored.checkpoint.created


class ChainHistory:
    """A chain, oldest first; places in it count from 0. ``track`` is None for the states before each restore."""

    def __init__(self, track: str | None, links: list[ChainCommit]) -> None:
        self.track, self.links = track, links
        self.seen: dict[int, PlacedCheckpoint | None] = {}
        self.moves: dict[str, list[tuple[int, str]]] = {}
        self.start: Contents = {}
        self._after: dict[int, int] = {}
        self._recent: dict[int, int] = {}

    def steps(self, base: Oid) -> Iterable[Step]:
        """Return the steps from a tree to the oldest checkpoint's, and on to the newest one's."""
        after = [link.tree for link in self.links]
        return zip([base, *after[:-1]], after, strict=False)

    def follow(self, base: Oid, contents: Contents, changed: Mapping[Step, Contents]) -> None:
        """Note where a path gets another content; ``contents`` are those of the tree ``base``."""
        self.start = contents
        for place, step in enumerate(self.steps(base)):
            for path, content in changed.get(step, {}).items():
                self.moves.setdefault(path, []).append((place, content))

    def runs(self, path: str) -> list[Run]:
        """Return the contents of a path, one after the other."""
        moves = self.moves.get(path, [])
        starts = moves if moves and moves[0][0] == 0 else [(0, self.start.get(path, "")), *moves]
        ends = [place for place, _ in starts[1:]] + [len(self.links)]
        return [(start, end, content) for (start, content), end in zip(starts, ends, strict=True)]

    def recent(self, seconds: int) -> int:
        """Return the first place that is not dated before a time."""
        if seconds not in self._recent:
            places = (place for place, link in enumerate(self.links) if link.seconds >= seconds)
            self._recent[seconds] = next(places, len(self.links))
        return self._recent[seconds]

    def note(self, place: int, seen: PlacedCheckpoint | None) -> None:
        """Remember what stands at a place; None when it does not count."""
        self.seen[place] = seen
        if seen is None:
            self._after[place] = place + 1

    def next(self, place: int) -> int:
        """Return the first place from here on that counts or is not known yet."""
        start = place
        while place in self._after:
            place = self._after[place]
        while start != place:  # so that the next walk is short
            after, self._after[start] = self._after[start], place
            start = after
        return place


def read_lines(store: Store, chains: Mapping[str | None, Oid]) -> list[ChainHistory]:
    """Read chains as far as they can be read, by one process."""
    return _lines(store, chains, _walked(store, chains))


def newest_lines(store: Store, chains: Mapping[str | None, Oid], until: Oid) -> list[ChainHistory] | None:
    """Return the newest part of chains; None where a checkpoint is not in that."""
    found = _walked(store, chains, f"--max-count={NEWEST}")
    return _lines(store, chains, found) if until in found else None


def _walked(store: Store, chains: Mapping[str | None, Oid], *few: str) -> dict[Oid, ChainCommit]:
    tips = [tip for tip in chains.values() if is_oid(store.objects.algorithm, tip)]
    result = store.repo.git.run("rev-list", "--first-parent", *few, *FORMAT, "--end-of-options", *tips, "--")
    return listed(result.out) if result.code == 0 else _step_by_step(store, tips)


def _lines(store: Store, chains: Mapping[str | None, Oid], found: Mapping[Oid, ChainCommit]) -> list[ChainHistory]:
    return [
        ChainHistory(track, [k for k in first_parents(found, tip) if k.oid != store.root][::-1])
        for track, tip in chains.items()
    ]


def listed(out: bytes) -> dict[Oid, ChainCommit]:
    """Parse the output of ``rev-list``, by commit."""
    rows = (row.split(" ") for row in out.decode("ascii", "replace").splitlines() if not row.startswith("commit "))
    return {r[0]: ChainCommit(oid=r[0], tree=r[1], seconds=_number(r[2]), parent=r[3] or None) for r in rows}


def first_parents(found: Mapping[Oid, ChainCommit], start: Oid | None) -> Iterable[ChainCommit]:
    """Yield a commit and its first parents, as far as they are listed."""
    while start is not None and (item := found.get(start)) is not None:
        yield item
        start = item.parent


def _number(text: str) -> int:
    return int(text) if text.removeprefix("-").isdecimal() else 0


def _step_by_step(store: Store, tips: Sequence[Oid]) -> dict[Oid, ChainCommit]:
    """Return the commits that ``rev-list`` would list, up to one that is missing or corrupt."""
    found: dict[Oid, ChainCommit] = {}
    for tip in tips:
        at: Oid | None = tip
        while at is not None and at not in found:
            try:
                commit = store.commit(at)
            except (GitError, RecordError):
                commit = None
            if commit is None:
                break
            seconds = _number(commit.author.split(b" ")[-2].decode("ascii", "replace")) if b" " in commit.author else 0
            parent = commit.parents[0] if commit.parents else None
            found[at] = ChainCommit(oid=at, tree=commit.tree, seconds=seconds, parent=parent)
            at = parent
    return found
