"""What the first push of a track makes public, beyond what the remote's refs hold: counted before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.git.objects import Commit, new_object, parse_commit
from gitbaton.git.run import checked
from gitbaton.model import Oid
from gitbaton.sync.values import Exposure, Move
from gitbaton.values import replace

_INDEX, _STAGES = "gitbaton index 1", "gitbaton stages 1"
_OURS = (_INDEX, _STAGES, "gitbaton root 1")
_MORE = ("forward", "rewrite", "append")
_HEADERS = re.compile(rb"\A(?:[0-9a-f]{40,64} [0-9a-f]{40,64}\n)+")


def exposure(baton: Baton, moves: Sequence[Move], haves: Sequence[Oid], agreed: Collection[str] = ()) -> Exposure | None:
    """What becomes public by those moves that need somebody's agreement; None where none does.

    Those that make a track known to the remote do. So do those of other tracks that nobody here has ``agreed`` to push, where
    they bring commits of the user's or untracked files that the remote has not; and those of every run and thread that nobody
    has ``agreed`` (refs) to push: it holds whatever its steps read, wrote and said. ``haves``: what the remote's refs point at;
    what of it is not here excludes nothing.
    """
    threads = [move for move in moves if move.thread is not None and move.changes and move.new and move.ref not in agreed]
    runs = [move for move in moves if move.run is not None and move.changes and move.ref not in agreed]
    moves = [move for move in moves if move.track is not None and move.new]
    asked = [move for move in moves if move.action == "new"]
    more = [move for move in moves if move.action in _MORE and move.ref not in agreed]
    if more and any(_private(baton, more, haves)):
        asked += [move for move in more if any(_private(baton, [move], haves))]
    if not asked and not runs and not threads:
        return None
    tips = sorted({move.new for move in (*asked, *runs, *threads) if move.new})
    commits, untracked = _private(baton, asked, haves) if asked else (0, 0)
    return Exposure(
        tracks=tuple(sorted({move.track for move in asked if move.track is not None})),
        checkpoints=sum(move.count for move in asked if move.action != "new") + _new_ones(baton, asked),
        commits=commits,
        untracked=untracked,
        bytes=_bytes(baton, tips, haves),
        runs=tuple(sorted(move.run for move in runs if move.run is not None)),
        records=sum(move.count for move in runs),
        threads=tuple(sorted({move.thread for move in threads if move.thread is not None})),
        states=sum(move.count for move in threads),
    )


def counted(baton: Baton, moves: Sequence[Move], haves: Sequence[Oid], public: Exposure | None) -> tuple[Move, ...]:
    """The same moves; those of tracks say how many of the user's commits and how many untracked files the remote gets by them
    that no ref of its holds. ``public``: what was counted already."""
    found = []
    for move in moves:
        if move.track is None or not move.new or not move.changes:
            found.append(move)
        elif public is not None and public.tracks == (move.track,):
            found.append(replace(move, commits=public.commits, untracked=public.untracked))
        else:
            commits, untracked = _brought(baton, move.new, move.seen, haves)
            found.append(replace(move, commits=commits, untracked=untracked))
    return tuple(found)


def _brought(baton: Baton, new: Oid, seen: Oid | None, haves: Sequence[Oid]) -> tuple[int, int]:
    """As ``_private``, but of what the remote's track had only its tip is looked at: the price is that of what is new."""
    raw = baton.repo.git.out("rev-list", "--stdin", "--format=%T %P%n%s", stdin=_range([new], haves))
    rows = raw.decode("utf-8", "replace").split("\n")[:-1]
    lines = zip(rows[::3], rows[1::3], rows[2::3], strict=True)
    found = {head.removeprefix("commit "): (text.split(), subject) for head, text, subject in lines}
    chain, at = list[list[str]](), new
    while at in found:
        words = found.pop(at)[0]
        chain.append([word for word in words if word])
        at = words[1] if len(words) > 1 else ""
    commits = sum(1 for _, subject in found.values() if subject not in _OURS)
    added = _added(baton, chain)
    tip = _read(baton, [seen]).get(seen) if added and seen else None
    return commits, len({name for _, name in added - (_added(baton, [[tip.tree, *tip.parents]]) if tip else set())})


def _new_ones(baton: Baton, asked: Sequence[Move]) -> int:
    """The checkpoints of the tracks that the remote does not know."""
    return len({oid for m in asked if m.action == "new" and m.new for oid in _chain(baton, m.new)})


def _chain(baton: Baton, tip: Oid) -> set[Oid]:
    return set(baton.repo.objects.first_parents(tip)) - {baton.store.root}


def _private(baton: Baton, moves: Sequence[Move], haves: Sequence[Oid]) -> tuple[int, int]:
    """The user's commits and the untracked files that the remote gets by these moves and has not."""
    tips = sorted({move.new for move in moves if move.new})
    chains = {oid for tip in tips for oid in _chain(baton, tip)}
    found = _untracked(baton, tips, haves)
    seen = sorted({move.seen for move in moves if move.seen}) if found else []
    found -= _untracked(baton, seen, ()) if seen else set()
    return _commits(baton, tips, haves, chains), len({name for _, name in found})


def present(baton: Baton, oids: Sequence[Oid]) -> list[Oid]:
    """Those of the ids that are here and can be read."""
    asked = sorted(set(oids))
    return [oid for oid, found in zip(asked, baton.repo.objects.read_many(asked), strict=True) if found is not None]


def _range(tips: Sequence[Oid], haves: Sequence[Oid]) -> bytes:
    return "".join([*(f"{oid}\n" for oid in tips), *(f"^{oid}\n" for oid in haves)]).encode()


def _commits(baton: Baton, tips: Sequence[Oid], haves: Sequence[Oid], chains: set[Oid]) -> int:
    """The user's own commits among what is sent."""
    raw = baton.repo.git.out("rev-list", "--stdin", "--format=%s", stdin=_range(tips, haves))
    rows = raw.decode("utf-8", "replace").split("\n")[:-1]
    found = {row.removeprefix("commit "): subject for row, subject in zip(rows[::2], rows[1::2], strict=True)}
    return sum(1 for oid, subject in found.items() if oid not in chains and subject not in _OURS)


def _bytes(baton: Baton, tips: Sequence[Oid], haves: Sequence[Oid]) -> int:
    words = ("rev-list", "--disk-usage", "--objects", "--stdin")
    return int(baton.repo.git.out(*words, stdin=_range(tips, haves)))


def _untracked(baton: Baton, tips: Sequence[Oid], haves: Sequence[Oid]) -> set[tuple[bytes, bytes]]:
    """Blobs and paths that the checkpoints' trees and indexes hold and the HEAD of each does not: nobody committed them."""
    raw = baton.repo.git.out("rev-list", "--first-parent", "--stdin", "--format=%T %P", stdin=_range(tips, haves))
    return _added(baton, [row.split(" ") for row in raw.decode("ascii").split("\n")[:-1] if not row.startswith("commit ")])


def _added(baton: Baton, rows: Sequence[Sequence[str]]) -> set[tuple[bytes, bytes]]:
    """As ``_untracked``, of commits of chains of which each row has the tree and the parents."""
    empty = new_object(baton.repo.layout.algorithm, "tree", b"").oid
    heads, staged = _bases(baton, {row[2] for row in rows if len(row) == 3}, empty)
    pairs = {(heads.get(row[2], "") if len(row) == 3 else empty, row[0]) for row in rows if len(row) > 1}
    pairs |= {(heads[base], tree) for base, tree in staged.items()}
    lines = "".join(f"{head} {tree}\n" for head, tree in sorted(pairs) if head not in ("", tree))
    words = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-abbrev", "--diff-filter=A", "--no-renames")
    result = baton.repo.git.run(*words, stdin=lines.encode())
    fields = checked(result, "diff-tree").split(b"\0")
    return {(_HEADERS.sub(b"", data).split(b" ")[3], name) for data, name in zip(fields[::2], fields[1::2], strict=False)}


def _bases(baton: Baton, bases: Collection[Oid], empty: Oid) -> tuple[Mapping[Oid, Oid], Mapping[Oid, Oid]]:
    """The trees of the HEADs that bases stand for; and of those bases that are commits of an index, its trees."""
    found = _read(baton, bases)
    indexes = {oid: commit for oid, commit in found.items() if _is(commit, _INDEX)}
    below = _read(baton, {parent for commit in indexes.values() for parent in commit.parents})
    heads = {oid: commit.tree for oid, commit in found.items()}
    for oid, commit in indexes.items():
        parents = [below[parent] for parent in commit.parents if parent in below]
        heads[oid] = next((parent.tree for parent in parents if not _is(parent, _STAGES)), empty)
    return heads, {oid: commit.tree for oid, commit in indexes.items()}


def _is(commit: Commit, message: str) -> bool:
    return commit.message == f"{message}\n".encode()


def _read(baton: Baton, oids: Iterable[Oid]) -> dict[Oid, Commit]:
    """The commits of these that are here."""
    asked = sorted(set(oids))
    read = zip(asked, baton.repo.objects.read_many(asked), strict=True)
    return {oid: parse_commit(item.data) for oid, item in read if item is not None and item.kind == "commit" and item.data}
