"""Overlaps: where the newest trees of two live tracks do not merge, known before either is done.

Nothing is claimed and nothing is locked: the trees of all work trees are in one object store, so any two can be merged in
memory (``git.mergetree``). What was found of a pair stays in ``<common dir>/baton/overlaps``, which may be thrown away.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import combinations

from gitbaton.base.codec import cut, first_line, in_quotes, quotable, timestamp
from gitbaton.base.errors import BatonError, GitError, GitTimeoutError, RecordError
from gitbaton.base.model import Oid, Stored
from gitbaton.base.system.files import read_or_none
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.checkpoints.store import state
from gitbaton.checkpoints.store.chain import MAX_COMMIT
from gitbaton.checkpoints.store.provenance import of_track
from gitbaton.checkpoints.store.refs import REMOTES
from gitbaton.git.objects import digest
from gitbaton.git.reffiles import below
from gitbaton.git.repo import Repo, put

if TYPE_CHECKING:
    from typing import Any

    from gitbaton.checkpoints.baton import Baton
    from gitbaton.git.mergetree import Conflict, MergeSide
    from gitbaton.git.objects import NewObject

MOST = 50  # tracks that are compared
FEW = 20  # pairs that are merged for a screen
_AT_ONCE = 25  # pairs that one process merges
_SECONDS, _BRIEF, _LONGEST = 60.0, 1.0, 10.0  # for all pairs; for those of a screen; for one
_FILES = 200  # of one pair that are kept
_KEPT, _BYTES = 2000, 8 << 20  # pairs that are known, and bytes of them
_WORDS, _RANGES = 60, 3  # characters of what a track is at, and ranges of lines, that are told
_HEADER = "gitbaton overlaps 3"
_COMMITS = 10_000  # of one track's history among which another's tree is looked for
_BEHIND = 200  # checkpoints below a track's newest among which a remote's is looked for


@value
class LiveTrack:
    """A track that has moved in the last day. ``name``: REMOTE/TRACK where it was fetched and is not here as it is there.
    ``place``: its work tree; empty where it is not on this machine. ``side``: what is merged of it."""

    name: str
    stored: Stored
    place: str
    side: MergeSide


_Pair = tuple[LiveTrack, LiveTrack]


@value
class OverlapSide:
    """A file in one of two trees: its path, the 1-based ranges of lines that both changed, and its ``MODE ID``, None where the
    track has removed it."""

    path: str
    lines: tuple[tuple[int, int], ...]
    entry: str | None


@value
class OverlapFile:
    """A file in which two tracks do not merge: as ``mine`` has it and the ``other`` one, and git's word for the reason."""

    mine: OverlapSide
    other: OverlapSide
    reason: str


@value
class Overlap:
    """Two live tracks that do not merge, and where. ``more``: how many further files there are."""

    mine: LiveTrack
    other: LiveTrack
    files: tuple[OverlapFile, ...]
    more: int = 0

    def turned(self) -> Overlap:
        """Return the same as seen from the other track."""
        files = tuple(replace(one, mine=one.other, other=one.mine) for one in self.files)
        return Overlap(mine=self.other, other=self.mine, files=files, more=self.more)


@value
class Overlaps:
    """Overlaps of some tracks, the newest first; the pairs that were not looked at yet, and those that cannot be merged,
    because an object is not here, or no commit is in both histories."""

    found: tuple[Overlap, ...] = ()
    waiting: tuple[tuple[str, str], ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()

    def of(self, name: str) -> tuple[Overlap, ...]:
        """Return those of a track, as seen from it."""
        return tuple(
            one if one.mine.name == name else one.turned() for one in self.found if name in (one.mine.name, one.other.name)
        )


def live(baton: Baton, named: Collection[str] = (), most: int | None = MOST) -> list[LiveTrack]:
    """Return the live tracks of a repository, and of clones as far as they were fetched: those with a checkpoint of files in
    the last day, those of this machine first and then the newest, at most so many; and those ``named``, however old. Raises
    NotFoundError, RecordError."""
    from gitbaton.git.mergetree import MergeSide

    here = baton.repo.layout.root or ""
    head = baton.repo.objects.head().oid
    held = baton.store.tree_of(head)
    moved = _moved(baton)[:most]
    found = []
    for name, stored in [*moved, *_named(baton, set(named) - {name for name, _ in moved})]:
        c = stored.checkpoint
        if c.files is None:
            continue
        place = "" if stored.foreign and not os.path.isdir(c.files.worktree.path) else c.files.worktree.path
        # A commit of just what was captured is the newer base.
        base = head if place == here and held == c.files.tree else c.head
        found.append(LiveTrack(name=name, stored=stored, place=place, side=MergeSide(tree=stored.tree, head=base)))
    return found


def _named(baton: Baton, names: Collection[str]) -> list[tuple[str, Stored]]:
    """The newest checkpoints of tracks by their names. Raises NotFoundError, RecordError."""
    return [(name, baton.store.tip(name) or baton.tip(name)) for name in sorted(names)]  # which says what there is instead


def _moved(baton: Baton) -> list[tuple[str, Stored]]:
    """The tracks that have moved in the last day, with their newest checkpoints: those of this machine first, which no clock
    or number of others crowds out; the newest first."""
    store, now = baton.store, baton.clock()
    newest, since = state.read_newest(baton.repo), timestamp(now - state.LIVE)
    if newest is not None and (len(newest.rows) == newest.count or newest.rows[-1][0] < since):
        near = {track: commit for created, _, commit, track in newest.rows if created >= since}
    else:
        chains, broken = store.chains()
        near = {
            track: commit for created, track, commit in state.dated(store, list(chains.items()), broken) if created >= since
        }
    found = [(s.checkpoint.track, s) for s in store.tips_of(near).items]
    found += _fetched(baton, since) if below(baton.repo, REMOTES) else []
    return sorted(found, key=lambda one: (not one[1].foreign, one[1].checkpoint.created, one[0]), reverse=True)


def _fetched(baton: Baton, since: str) -> Iterator[tuple[str, Stored]]:
    """The tips that remotes have of tracks, where they are not here."""
    from gitbaton.checkpoints.store.read import differing, dropping

    store = baton.store
    chains, broken = store.chains()
    apart = [(remote, track, oid) for track, remote, oid in differing(chains, store.elsewhere())]
    times = state.dated(store, [(track, oid) for _, track, oid in apart], broken)
    near = {(track, oid) for created, track, oid in times if created >= since}
    for remote, track, oid in apart:
        if (track, oid) not in near:
            continue
        if track in chains and oid in store.objects.first_parents(chains[track], _BEHIND):
            continue  # what was pushed before
        with suppress(BatonError):
            stored = store.stored(store.objects.read(oid, MAX_COMMIT), track, oid)
            made_here = store.ours.has(of_track(track), stored.id)  # a prune has made the chain anew
            if not made_here and not dropping(store, (remote,)).dropped(stored.id):
                yield f"{remote}/{track}", replace(stored, foreign=True)


def overlaps(
    baton: Baton,
    tracks: Sequence[LiveTrack],
    of: Collection[str] | None = None,
    *,
    most: int | None = None,
    seconds: float = _SECONDS,
) -> Overlaps:
    """Return where live tracks do not merge, of all pairs or of those with a track whose name is among ``of``. What is known is
    taken from before; of other pairs at most ``most`` are merged, in so many seconds or little more. Raises GitError, also
    where git is older than 2.38."""
    pairs = [
        pair
        for pair in combinations(tracks, 2)
        if (of is None or pair[0].name in of or pair[1].name in of) and not _one_place(*pair) and pair[0].side != pair[1].side
    ]
    if not pairs:
        return Overlaps()
    known = _load(baton.repo)
    missing = [pair for pair in pairs if _key(*pair) not in known]
    new = _in_time(baton, missing[:most], seconds)
    if new:
        lasting = {key: row for key, row in new.items() if row is not _GONE}
        _save(baton.repo, known, lasting, {_key(*pair) for pair in pairs})
    rows = {**known, **new}
    found, waiting, unknown = list[Overlap](), list[tuple[str, str]](), list[tuple[str, str]]()
    over = _taken(baton, [pair for pair in pairs if (row := rows.get(_key(*pair))) and row.files]) if most != 0 else {}
    for mine, other in pairs:
        key, names = _key(mine, other), (mine.name, other.name)
        row = rows.get(key)
        if row is not None and key in over:
            row = row.only(over[key])
        if row is None or row is _GONE:
            (unknown if key in rows else waiting).append(names)
        elif row.files:
            first, second = _ordered(mine, other)
            one = Overlap(mine=first, other=second, files=row.files, more=row.more)
            found.append(one if first is mine else one.turned())
    return Overlaps(found=tuple(found), waiting=tuple(waiting), unknown=tuple(unknown))


def at_hand(baton: Baton, of: Collection[str] | None = None) -> Overlaps:
    """Return what ``overlaps`` does, of few pairs that are not known yet and in little time, for a screen that shows them
    beside other things; nothing where git cannot say it."""
    try:
        may = state.may_overlap(baton.repo, baton.clock())
        return overlaps(baton, live(baton), of, most=FEW, seconds=_BRIEF) if may else Overlaps()
    except GitError:
        return Overlaps()


def _one_place(mine: LiveTrack, other: LiveTrack) -> bool:
    """Whether two tracks are of one work tree."""
    files = mine.stored.checkpoint.files, other.stored.checkpoint.files
    return files[0] is not None and files[1] is not None and files[0].worktree.same(files[1].worktree)


def _ordered(mine: LiveTrack, other: LiveTrack) -> tuple[LiveTrack, LiveTrack]:
    """A pair in the order in which it is known, whichever of them asks."""
    words = [(one.side.tree, one.side.head or "") for one in (mine, other)]
    return (mine, other) if words[0] <= words[1] else (other, mine)


def _key(mine: LiveTrack, other: LiveTrack) -> str:
    words = " ".join(f"{one.side.tree} {one.side.head}" for one in _ordered(mine, other))
    return digest("sha1", words.encode()).hex()


@value
class _Row:
    """Overlap of a pair as it is kept, in its order."""

    files: tuple[OverlapFile, ...] = ()
    more: int = 0

    def only(self, paths: Collection[str]) -> _Row:
        """Return the same of some paths alone."""
        return _Row(files=tuple(one for one in self.files if one.mine.path in paths or one.other.path in paths))


@value
class _Own:
    """A track's work as it may be committed: ``trees``, what was captured, and that less ``paths``, which were neither in HEAD
    nor staged; ``side``: the side with the least of them, and ``made`` what is new of its tree. ``base``: HEAD's tree."""

    side: MergeSide
    trees: tuple[Oid, ...]
    paths: frozenset[str]
    made: tuple[NewObject, ...]
    base: Oid


_GONE = _Row()  # of a pair of which an object is not here, and may come


def _own(baton: Baton, tracks: Iterable[LiveTrack]) -> dict[MergeSide, _Own]:
    """Return the work of tracks as it may be committed. Raises GitError."""
    from gitbaton.git.mergetree import MergeSide, without
    from gitbaton.git.treediff import differences

    asked, found = {one.side: one.stored.checkpoint.files for one in tracks}, dict[MergeSide, _Own]()
    bases = {side: baton.store.base_tree(side.head) for side in asked}
    pairs = [(of, side.tree) for side, files in asked.items() for of in (bases[side], files.index.tree if files else "") if of]
    try:
        apart = differences(baton.repo, pairs)
    except GitError:  # an index's tree is not here
        apart = {}
    for side, files in asked.items():
        paths = frozenset[str]()
        if files is not None and apart:
            ways = (apart[bases[side], side.tree], apart[files.index.tree, side.tree])
            fresh = [{path for path, change in way.items() if change.before is None} for way in ways]
            paths = frozenset(fresh[0] & fresh[1] - {flag.path for flag in files.index.flags if "i" in flag.bits})
        made = tuple(without(baton.store.objects, side.tree, map(os.fsencode, paths))) if paths else ()
        less = made[-1].oid if made else side.tree
        trees = tuple(dict.fromkeys((side.tree, less)))
        found[side] = _Own(side=MergeSide(tree=less, head=side.head), trees=trees, paths=paths, made=made, base=bases[side])
    return found


def _taken(baton: Baton, pairs: Sequence[tuple[LiveTrack, LiveTrack]]) -> dict[str, frozenset[str]]:
    """Return, of the pairs of which a branch or another work tree has both sides' work, what is in no commit of either: only
    that can overlap yet. What is known of a pair does not tell, for a branch moves while they stay."""
    from gitbaton.git.mergetree import BranchCommits

    found, heads = dict[str, frozenset[str]](), {one.side.head for pair in pairs for one in pair if one.side.head}
    if not pairs:
        return found
    with suppress(GitError):
        branches = BranchCommits(baton.repo, heads)
        later = {_key(*pair): branches.beyond(one.side.head for one in pair if one.side.head) for pair in pairs}
        pairs = [pair for pair in pairs if later[_key(*pair)]]
        own = _own(baton, [one for pair in pairs for one in pair])
        for pair in pairs:
            both, known, key = (own[pair[0].side], own[pair[1].side]), dict[Oid, int](), _key(*pair)
            for bit, one in enumerate(both):
                known[one.side.head or ""] = known.get(one.side.head or "", 0) | (one.base in one.trees) << bit
            if branches.together(later[key], known, (both[0].trees, both[1].trees)):
                found[key] = both[0].paths | both[1].paths
    return found


def _in_time(baton: Baton, pairs: Sequence[_Pair], seconds: float) -> dict[str, _Row | None]:
    """Merge pairs, some at once, until the time is over; None of one that takes longer than any may: whoever may push can make
    such trees."""
    until, groups = time.monotonic() + seconds, [pairs[at : at + _AT_ONCE] for at in range(0, len(pairs), _AT_ONCE)]
    found = dict[str, _Row | None]()
    while groups and (left := until - time.monotonic()) > 0:
        group = groups.pop(0)
        try:
            found |= _merged(baton, group, min(left, _LONGEST))
        except GitTimeoutError:
            if len(group) > 1:
                groups[:0] = [[pair] for pair in group]
            elif left >= _LONGEST:
                found[_key(*group[0])] = None
    return found


def _merged(baton: Baton, pairs: Sequence[_Pair], seconds: float) -> dict[str, _Row | None]:
    """Merge pairs, and with those that do not merge each track's own commits: where they hold what the other one has, or one of
    them is what the other one has, it is done with, whatever has become of its lines since."""
    from gitbaton.git.loose import put_in
    from gitbaton.git.mergetree import MergeAsk, MergeSide, merged
    from gitbaton.git.worktree.capture import private_folder

    if not pairs:
        return {}
    ordered = {_key(*pair): _ordered(*pair) for pair in pairs}
    with private_folder(baton.repo) as folder:
        asks = [MergeAsk(ours=mine.side, theirs=other.side) for mine, other in ordered.values()]
        answers = dict(zip(ordered, merged(baton.repo, asks, folder, seconds=seconds), strict=True))
        later: list[tuple[str, Oid, MergeAsk]] = []
        done = dict[str, frozenset[str]]()
        apart = [ordered[key] for key, answer in answers.items() if answer is not None and not answer.clean]
        apart = [pair for pair in apart if pair[0].side.head != pair[1].side.head]
        strangers = {_key(*pair) for pair in apart if _strange(baton.repo, *pair)}  # all would seem to be added by both
        apart = [pair for pair in apart if _key(*pair) not in strangers]
        own = _own(baton, [one for pair in apart for one in pair])
        put_in(folder, list({made.oid: made for one in own.values() for made in one.made}.values()))
        left = {_key(*pair): own[pair[0].side].paths | own[pair[1].side].paths for pair in apart}
        for mine, other in apart:
            key = _key(mine, other)
            for side, beside in ((mine, other), (other, mine)):
                if _committed(baton, own[beside.side], side.side.head):
                    done[key] = left[key]
                tree = baton.store.tree_of(side.side.head)
                if tree is not None:
                    at_head = MergeSide(tree=tree, head=side.side.head)
                    later.append((key, tree, MergeAsk(ours=at_head, theirs=own[beside.side].side)))
        held = merged(baton.repo, [ask for _, _, ask in later], folder, seconds=seconds)
    same = [key for (key, tree, _), answer in zip(later, held, strict=True) if answer and answer.clean and answer.tree == tree]
    done |= {key: left[key] for key in same}
    rows = {key: _row(answer.conflicts.values()) if answer is not None else _GONE for key, answer in answers.items()}
    return {key: None if key in strangers else row.only(done[key]) if key in done else row for key, row in rows.items()}


def _strange(repo: Repo, mine: LiveTrack, other: LiveTrack) -> bool:
    """Whether two tracks stand on commits that have none in common, in a history that is cut short, say: neither ``git merge``
    nor ours merges these."""
    from gitbaton.git.mergetree import common_commit

    with suppress(GitError):
        ends = mine.side.head, other.side.head
        return ends[0] is not None and ends[1] is not None and common_commit(repo, ends[0], ends[1]) is None
    return False


def _committed(baton: Baton, own: _Own, head: Oid | None) -> bool:
    """Whether a commit in the history of ``head``, since that on which a track stands, has just its tree."""
    if head is None:
        return False
    since = [f"^{own.side.head}"] if own.side.head else []
    words = ("rev-list", "--no-commit-header", "--format=%T", f"--max-count={_COMMITS}", head, *since, "--")
    return not {*own.trees}.isdisjoint(baton.repo.git.run(*words).out.decode("ascii").split())


def _row(conflicts: Iterable[Conflict]) -> _Row:
    files: dict[tuple[str, str], OverlapFile] = {}
    for one in conflicts:
        base, ours, theirs = one.stages
        if one.reason == "rename/rename" and base is None:  # told by the name that it had
            continue
        file = overlapping(one)
        mine, other, key = file.mine, file.other, (file.mine.path, file.reason)
        before = files.get(key)
        if before is not None:  # git tells of a link and of the file in its place one by one
            mine, other = replace(mine, entry=ours or before.mine.entry), replace(other, entry=theirs or before.other.entry)
        files[key] = replace(file, mine=mine, other=other)
    rows = [files[key] for key in sorted(files)]
    return _Row(files=tuple(rows[:_FILES]), more=max(len(rows) - _FILES, 0))


def overlapping(one: Conflict) -> OverlapFile:
    """Return the file in which two tracks do not merge."""
    base, ours, theirs = one.stages
    return OverlapFile(
        mine=OverlapSide(path=one.here, lines=one.lines, entry=ours),
        other=OverlapSide(path=one.there, lines=one.their_lines, entry=theirs),
        reason="add/add" if one.reason == "contents" and base is None and ours and theirs else one.reason,
    )


# What the other track did with a file, by git's word for the reason.
_DID = {
    "add/add": "added it too, otherwise",
    "binary": "changed it too, and it cannot be merged as text",
    "rename/rename": "renamed it too, otherwise",
    "file/directory": "has a folder where a file is here, or a file where a folder is",
    "distinct modes": "has another kind of file there",
    "distinct types": "has another kind of file there",
    "submodule": "has another commit there",
    "file location": "renamed the folder, or has a file in a folder that is renamed here",
    "directory rename": "renamed the folder, or has a file in a folder that is renamed here",
}


def sentence(one: OverlapFile, other: LiveTrack, now: datetime) -> str:
    """Return one line about a file in which a track overlaps, of which the other one is told in its own words, quoted."""
    from gitbaton.checkpoints.render import age, path_in_line

    where = path_in_line(one.mine.path) + (f" {_lines(one.mine.lines)}" if one.mine.lines else "")
    words = said(other)
    return f"{where}: track {in_quotes(other.name)} {_did(one)}, {age(other.stored.checkpoint.created, now)}" + (
        f', "{words}"' if words else ""
    )


BOTH = ("changed it too", "changed them too", "added it too, otherwise")
"""How the reason ends why two texts do not merge, of which both sides can stand in the file."""


def why(one: OverlapFile, track: str) -> str:
    """Return why a file does not merge, in words; ``track``: the other one, in words."""
    return (f"{_lines(one.mine.lines)}: " if one.mine.lines else "") + f"{track} {_did(one)}"


def _did(one: OverlapFile) -> str:
    """The other track's deed with a file, in words."""
    did = next((text for word, text in _DID.items() if one.reason.startswith(word)), "")
    if did:
        return did
    if one.other.entry is None:
        return "removed it"
    if one.mine.entry is None:
        return "changed it, which is removed here"
    lines = sum(last - first + 1 for first, last in one.mine.lines)
    return f"changed {'them' if lines > 1 else 'it'} too"


def said(one: LiveTrack) -> str:
    """Return the newest request of a track, or its words where these are newer; to be put in double quotes."""
    from gitbaton.checkpoints.render import leads, title_of

    c = one.stored.checkpoint
    asked = c.observed.asked if c.observed is not None and leads(c) else ()
    return quotable(cut(first_line(asked[-1].text if asked else title_of(c) if leads(c) else c.headline), _WORDS))


def _lines(lines: Sequence[tuple[int, int]]) -> str:
    """Ranges of lines in words; of many the whole that they span."""
    if len(lines) > _RANGES:
        return f"lines {lines[0][0]}-{lines[-1][1]}, in {len(lines)} places"
    each = [str(first) if first == last else f"{first}-{last}" for first, last in lines]
    return f"line{'s' * (len(lines) > 1 or '-' in each[0])} {', '.join(each)}"


def _header(repo: Repo) -> str:
    """Return the first words of the file: what is known counts with a history that is cut short where it was then."""
    cut_at = read_or_none(os.path.join(repo.layout.common_dir, "shallow"), follow=True)
    return f"{_HEADER} {digest('sha1', cut_at).hex()}" if cut_at else _HEADER


def _load(repo: Repo) -> dict[str, _Row | None]:
    """The pairs that are known; none of a file that is not as we write it."""
    try:
        raw: Any = json.loads(read_or_none(state.overlaps_file(repo), _BYTES) or b"{}")
        return {key: _decoded(row) for key, row in raw["pairs"].items()} if raw["format"] == _header(repo) else {}
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, RecordError):
        return {}


def _decoded(row: Any) -> _Row | None:
    if row is None:
        return None
    files = tuple(
        OverlapFile(mine=_side(mine), other=_side(other), reason=_word(reason)) for mine, other, reason in row["files"]
    )
    return _Row(files=files, more=int(row["more"]))


def _side(row: Any) -> OverlapSide:
    path, lines, entry = row
    return OverlapSide(
        path=_word(path),
        lines=tuple((int(first), int(last)) for first, last in lines),
        entry=None if entry is None else _word(entry),
    )


def _word(text: Any) -> str:
    if not isinstance(text, str):
        raise RecordError("a word is expected")
    return text


def _save(repo: Repo, known: Mapping[str, _Row | None], new: Mapping[str, _Row | None], asked: Collection[str]) -> None:
    """Keep what is known, the newest last; a disk that does not take it knows nothing. Of several writers one wins."""
    rows = {
        **{key: row for key, row in known.items() if key not in asked},
        **{k: r for k, r in known.items() if k in asked},
        **new,
    }
    kept = list(rows.items())[-_KEPT:]
    document = {"format": _header(repo), "pairs": {key: _encoded(row) for key, row in kept}}
    with suppress(OSError, BatonError):
        put(repo, state.overlaps_file(repo), json.dumps(document, separators=(",", ":")).encode(), fresh=f".{os.getpid()}")


def _encoded(row: _Row | None) -> object:
    if row is None:
        return None
    sides = [[[s.path, s.lines, s.entry] for s in (one.mine, one.other)] + [one.reason] for one in row.files]
    return {"files": sides, "more": row.more}
