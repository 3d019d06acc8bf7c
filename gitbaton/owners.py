"""Whose work a path's present content is: ours, another track's, or that of a commit made since."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime

from gitbaton.codec import timestamp
from gitbaton.errors import GitError, RecordError
from gitbaton.git.objects import is_oid, new_object, parse_commit, parse_tree
from gitbaton.model import Oid, Stored, WorktreeId
from gitbaton.store import Store
from gitbaton.values import value

_FEW_PATHS = 500
_FEW_BYTES = 64 << 10  # of paths on a command line
_AHEAD = 50  # how much further each round of reading looks
_MAX_COMMIT = 3 << 20
_FORMAT = ("--encoding=UTF-8", "--format=%H %T %at %P")  # i18n.logOutputEncoding may be UTF-16
_UNREADABLE = "?"  # a content that no path has

Step = tuple[Oid, Oid]  # two trees, before and after
Contents = dict[str, str]  # by path: ``mode id``; empty for an absent path
Spans = Sequence[tuple[int, int]]


@value
class Present:
    """One path as it is now: a blob's id and its mode ("100644", "100755", "120000"), or None and "" when it is absent."""

    path: str
    oid: Oid | None
    mode: str


@value
class Owner:
    """Who brought a path's present content: the other ``track`` (None: a commit did) and the id of that checkpoint or
    commit."""

    path: str
    track: str | None
    where: Oid


@value
class _Seen:
    """What counts of a checkpoint of this work tree."""

    id: Oid
    created: datetime
    skipped: frozenset[str]


@value
class _Listed:
    """A commit as ``rev-list`` prints it."""

    oid: Oid
    tree: Oid
    seconds: int
    parent: Oid | None


def others(store: Store, then: Stored, head: Oid | None, worktree: WorktreeId, present: Sequence[Present]) -> dict[str, Owner]:
    """Those of the paths whose present content is somebody else's work, by path; what is absent from it is ours.

    ``present`` are paths that differ from the checkpoint ``then`` now; ``head`` is HEAD's commit now. A path is another's
    when the earliest checkpoint of this work tree that holds its present content is of another track, or when a commit
    on HEAD's first-parent line since ``then`` brought it. For a path that is absent, and for one that is as the commit
    has it that ``then`` stands on, only checkpoints after ``then`` count. Reads only.
    """
    wanted = {p.path: f"{p.mode} {p.oid}" if p.oid else "" for p in present}
    chains = store.chains()[0] if wanted else {}
    track = then.checkpoint.track
    if chains.keys() <= {track}:
        chains = {}
    lines = _lines(store, chains) if chains else []
    commits = _commits(store, then.checkpoint.head, head) if wanted else []
    if not lines and not commits:
        return {}
    nothing = new_object(store.objects.algorithm, "tree", b"").oid
    base = (_tree(store, then.checkpoint.head) or nothing) if lines else nothing
    steps = {(nothing, base), *(step for line in lines for step in line.steps(base)), *(step for _, step in commits)}
    changed = _changes(store, [s for s in steps if s[0] != s[1]], wanted)
    found = {path: Owner(path=path, track=None, where=oid) for oid, path in _brought(commits, changed, wanted)}
    held = _Search(store, then, worktree, wanted, changed.get((nothing, base), {}))
    return found | {owner.path: owner for owner in held.owners(lines, base, changed)}


def _commits(store: Store, since: Oid | None, head: Oid | None) -> list[tuple[Oid, Step]]:
    """HEAD's first-parent line since a commit, newest first, with the trees of each one's first parent and its own.

    Empty where it cannot be told.
    """
    if head is None or head == since or (since is not None and not _tree(store, since)):
        return []
    until = [] if since is None else [f"^{since}"]
    result = store.repo.git.run("rev-list", "--first-parent", *_FORMAT, "--end-of-options", head, *until, "--")
    if result.code != 0:
        return []
    line = list(_first_parents(_listed(result.out), head))
    trees = [*(item.tree for item in line[1:]), *([_tree_before(store, line[-1].oid)] if line else [])]
    return [(item.oid, (before, item.tree)) for item, before in zip(line, trees, strict=True) if before]


def _tree_before(store: Store, oid: Oid) -> Oid | None:
    """The tree of a commit's first parent, the empty one when it has none; None when that is not there (a shallow clone)."""
    try:
        found = store.objects.read(oid)
        commit = parse_commit(found.data) if found is not None and found.data is not None else None
    except (GitError, RecordError):
        return None
    if commit is None or commit.parents:
        return _tree(store, commit.parents[0]) if commit else None
    return new_object(store.objects.algorithm, "tree", b"").oid


def _tree(store: Store, commit: Oid | None) -> Oid | None:
    try:
        return store.tree_of(commit) if commit and is_oid(store.objects.algorithm, commit) else None
    except (GitError, RecordError):
        return None


def _listed(out: bytes) -> dict[Oid, _Listed]:
    rows = (row.split(" ") for row in out.decode("ascii", "replace").splitlines() if not row.startswith("commit "))
    return {r[0]: _Listed(oid=r[0], tree=r[1], seconds=_number(r[2]), parent=r[3] or None) for r in rows}


def _number(text: str) -> int:
    return int(text) if text.removeprefix("-").isdecimal() else 0


def _first_parents(listed: Mapping[Oid, _Listed], start: Oid | None) -> Iterable[_Listed]:
    """A commit and its first parents, as far as they are listed."""
    while start is not None and (item := listed.get(start)) is not None:
        yield item
        start = item.parent


def _brought(
    commits: Iterable[tuple[Oid, Step]], changed: Mapping[Step, Contents], wanted: Contents
) -> Iterable[tuple[Oid, str]]:
    """The commits that brought paths their present content, oldest first, with the path."""
    for oid, step in reversed(list(commits)):
        yield from ((oid, path) for path, content in changed.get(step, {}).items() if content == wanted[path])


class _Line:
    """The chain of one track, oldest first; places in it count from 0."""

    def __init__(self, track: str, links: list[_Listed]) -> None:
        self.track, self.links = track, links
        self.seen: dict[int, _Seen | None] = {}
        self._after: dict[int, int] = {}

    def steps(self, base: Oid) -> Iterable[Step]:
        """From a tree to the oldest checkpoint's, and on to the newest one's."""
        after = [link.tree for link in self.links]
        return zip([base, *after[:-1]], after, strict=False)

    def spans(self, base: Oid, contents: Contents, changed: Mapping[Step, Contents], wanted: Contents) -> dict[str, Spans]:
        """Where each path has its wanted content: from a place up to before another. ``contents`` are those of ``base``."""
        since = {path: 0 for path, content in wanted.items() if contents.get(path, "") == content}
        found: dict[str, list[tuple[int, int]]] = {path: [] for path in wanted}
        for place, step in enumerate(self.steps(base)):
            for path, content in changed.get(step, {}).items():
                if content == wanted[path]:
                    since.setdefault(path, place)
                elif path in since:
                    found[path].append((since.pop(path), place))
        for path, place in since.items():
            found[path].append((place, len(self.links)))
        return {path: spans for path, spans in found.items() if spans}

    def recent(self, seconds: int) -> int:
        """The first place that is not dated before a time."""
        return next((place for place, link in enumerate(self.links) if link.seconds >= seconds), len(self.links))

    def note(self, place: int, seen: _Seen | None) -> None:
        """Remember what stands at a place; None when it does not count."""
        self.seen[place] = seen
        if seen is None:
            self._after[place] = place + 1

    def next(self, place: int) -> int:
        """The first place from here on that counts or is not known yet."""
        start = place
        while place in self._after:
            place = self._after[place]
        while start != place:  # so that the next walk is short
            after, self._after[start] = self._after[start], place
            start = after
        return place


def _lines(store: Store, chains: Mapping[str, Oid]) -> list[_Line]:
    """All chains as far as they can be read, by one process."""
    tips = [tip for tip in chains.values() if is_oid(store.objects.algorithm, tip)]
    result = store.repo.git.run("rev-list", "--first-parent", *_FORMAT, "--end-of-options", *tips, "--")
    listed = _listed(result.out) if result.code == 0 else _step_by_step(store, tips)
    found = []
    for track, tip in chains.items():
        links = [link for link in _first_parents(listed, tip) if link.oid != store.root]
        found.append(_Line(track, links[::-1]))
    return found


def _step_by_step(store: Store, tips: Iterable[Oid]) -> dict[Oid, _Listed]:
    """As ``rev-list`` would list them, up to what is missing or corrupt."""
    listed: dict[Oid, _Listed] = {}
    for tip in tips:
        at: Oid | None = tip
        while at is not None and at not in listed:
            try:
                found = store.objects.read(at, _MAX_COMMIT)
                commit = parse_commit(found.data) if found and found.kind == "commit" and found.data else None
            except (GitError, RecordError):
                commit = None
            if commit is None:
                break
            seconds = _number(commit.author.split(b" ")[-2].decode("ascii", "replace")) if b" " in commit.author else 0
            parent = commit.parents[0] if commit.parents else None
            listed[at] = _Listed(oid=at, tree=commit.tree, seconds=seconds, parent=parent)
            at = parent
    return listed


def _changes(store: Store, steps: Iterable[Step], wanted: Contents) -> dict[Step, Contents]:
    """What each step makes of the wanted paths that it changes, by one process."""
    ordered = sorted(steps)
    if not ordered:
        return {}
    small = len(wanted) <= _FEW_PATHS and sum(len(os.fsencode(p)) for p in wanted) <= _FEW_BYTES
    specs = [f":(top,literal){path}" for path in wanted] if small else []
    options = ("--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none", "--", *specs)
    stdin = "".join(f"{before} {after}\n" for before, after in ordered).encode()
    result = store.repo.git.run("diff-tree", *options, stdin=stdin)
    found = _parsed(result.out, wanted) if result.code == 0 else {}
    # Git passes over a tree that is not there without failing.
    return found if len(found) == len(ordered) else _compared(store, ordered, wanted)


def _parsed(out: bytes, wanted: Contents) -> dict[Step, Contents]:
    """``diff-tree -z``: a line with two trees, then records that begin with a colon and their paths."""
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
    """As ``_parsed``, where git cannot read every tree: what lies behind an unreadable one has no content that counts."""
    trees: dict[Oid, dict[bytes, str] | None] = {}

    def entries(oid: Oid) -> dict[bytes, str] | None:
        if oid not in trees:
            try:
                found = store.objects.read(oid, 64 << 20)
                raw = found.data if found is not None and found.kind == "tree" else None
                rows = parse_tree(raw, store.objects.algorithm) if raw is not None else None
            except (GitError, RecordError):
                rows = None
            empty = oid == new_object(store.objects.algorithm, "tree", b"").oid
            known = {e.name: f"{e.mode.decode('ascii', 'replace')} {e.oid}" for e in rows or ()}
            trees[oid] = known if rows is not None or empty else None
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


class _Search:
    """Looks in chains for the earliest checkpoints that hold the wanted contents, reading as few records as it can."""

    def __init__(self, store: Store, then: Stored, worktree: WorktreeId, wanted: Contents, base: Contents) -> None:
        self.store, self.then, self.worktree, self.wanted, self.base = store, then, worktree, wanted, base
        self.seconds = int(then.checkpoint.created.timestamp() // 1)

    def owners(self, lines: Sequence[_Line], tree: Oid, changed: Mapping[Step, Contents]) -> Iterable[Owner]:
        """The paths whose earliest holder is of another track; ``tree`` is where the contents of the base were read."""
        searches = []
        for line in lines:
            recent = line.recent(self.seconds)
            for path, spans in line.spans(tree, self.base, changed, self.wanted).items():
                late = self.wanted[path] in ("", self.base.get(path, ""))
                spans = [(max(start, recent), end) for start, end in spans] if late else spans
                searches.append((line, path, self._look(line, spans, self._fits(path, late))))
        ours, best = self.then.checkpoint.track, dict[str, tuple[datetime, bool, Oid, str]]()
        for line, path, seen in self._carry_out(searches):
            rank = seen.created, line.track != ours, seen.id, line.track
            best[path] = min(rank, best.get(path, rank))
        return [Owner(path=p, track=track, where=oid) for p, (_, other, oid, track) in best.items() if other]

    def _fits(self, path: str, late: bool) -> Callable[[_Seen], bool]:
        """Whether a checkpoint that has the content counts for a path. One that had to skip it does not know it absent."""
        parts = path.split("/")
        above = {"/".join(parts[:n]) for n in range(1, len(parts) + 1)} if not self.wanted[path] else set()
        created = self.then.checkpoint.created
        return lambda seen: not (late and seen.created <= created) and above.isdisjoint(seen.skipped)

    @staticmethod
    def _look(line: _Line, spans: Spans, fits: Callable[[_Seen], bool]) -> Generator[int, None, _Seen | None]:
        """Yields a place that must be read before it can go on; returns the first one that fits."""
        for start, end in spans:
            place = line.next(start)
            while place < end:
                if place not in line.seen:
                    yield place
                seen = line.seen[place]
                if seen is not None and fits(seen):
                    return seen
                place = line.next(place + 1)
        return None

    def _carry_out(
        self, searches: list[tuple[_Line, str, Generator[int, None, _Seen | None]]]
    ) -> Iterable[tuple[_Line, str, _Seen]]:
        """Run all searches side by side: each round reads what they ask for, and further ahead than the one before."""
        ahead = 1
        while searches:
            waiting, asked = [], dict[_Line, set[int]]()
            for search in searches:
                line, path, steps = search
                try:
                    place = next(steps)
                except StopIteration as end:
                    if end.value is not None:
                        yield line, path, end.value
                    continue
                waiting.append(search)
                asked.setdefault(line, set()).update(range(place, min(place + ahead, len(line.links))))
            self._read([(line, place) for line, places in asked.items() for place in sorted(places - line.seen.keys())])
            searches, ahead = waiting, ahead * _AHEAD

    def _read(self, places: Sequence[tuple[_Line, int]]) -> None:
        oids = [line.links[place].oid for line, place in places]
        born = timestamp(self.worktree.created).encode()
        for (line, place), found in zip(places, self.store.objects.read_many(oids, _MAX_COMMIT), strict=True):
            if found is not None and found.data is not None and born not in found.data:  # decoding is what costs
                line.note(place, None)
                continue
            try:
                stored = self.store.stored(found, line.track, line.links[place].oid)
            except RecordError:
                line.note(place, None)
                continue
            files = stored.checkpoint.files
            mine = files is not None and files.worktree.same(self.worktree)
            skipped = frozenset(s.path.rstrip("/") for s in files.skipped) if files else frozenset()
            seen = _Seen(id=stored.id, created=stored.checkpoint.created, skipped=skipped)
            line.note(place, seen if mine else None)
