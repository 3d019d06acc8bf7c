"""Push consent: what a push makes public, counted before anything is sent, and what somebody here has agreed to."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.codec import encode_track
from gitbaton.git.objects import Commit, new_object, parse_commit
from gitbaton.git.remotes import place_address
from gitbaton.git.repo import Repo, add, make_folder
from gitbaton.git.run import checked
from gitbaton.model import Oid
from gitbaton.sync.values import Exposure, Item, Move
from gitbaton.values import replace

_INDEX, _STAGES = "gitbaton index 1", "gitbaton stages 1"
_OURS = (_INDEX, _STAGES, "gitbaton root 1")
_HEADERS = re.compile(rb"\A(?:[0-9a-f]{40,64} [0-9a-f]{40,64}\n)+")
_ROOMS = {"track": "", "run": ".runs", "thread": ".threads"}  # no track's name: `.` is encoded


def agreed(repo: Repo, remote: str, place: str, items: Iterable[Item]) -> frozenset[Item]:
    """Those of the items that were pushed from here to that address of the remote after somebody had agreed."""
    items = list(items)
    shown = _line(repo, place) if items else ""
    return frozenset(item for item in items if shown in _addresses(_path(repo, remote, item)))


def remember(repo: Repo, remote: str, place: str, items: Iterable[Item]) -> None:
    """Note that these items were pushed there with somebody's agreement. What cannot be written is asked about again."""
    shown = _line(repo, place)
    for item in items:
        path = _path(repo, remote, item)
        if shown not in _addresses(path):
            try:
                make_folder(repo, os.path.dirname(path))
                add(repo, path, f"{shown}\n".encode("utf-8", "surrogateescape"))
            except OSError:
                continue


def _line(repo: Repo, place: str) -> str:
    return place_address(repo, place).replace("\n", " ")


def _path(repo: Repo, remote: str, item: Item) -> str:
    """The file that has the addresses for an item, one a line; what a thread is called may be long, and any text."""
    kind, name = item
    file = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest() if kind == "thread" else encode_track(name)
    return os.path.join(repo.shared_dir, "pushed", encode_track(remote), _ROOMS[kind], file)


def _addresses(path: str) -> frozenset[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return frozenset(file.read().split("\n")) - {""}
    except OSError:
        return frozenset()


def exposure(baton: Baton, moves: Sequence[Move], haves: Sequence[Oid], agreed: Collection[Item] = ()) -> Exposure | None:
    """What becomes public by those moves that need somebody's agreement; None where none does.

    Those that make a track known to the remote do. So do those of other tracks that nobody here has ``agreed`` to push, where
    they bring commits of the user's or untracked files that the remote has not; and those of every run and thread that nobody
    has ``agreed`` to push: it holds whatever its steps read, wrote and said. ``haves``: what the remote's refs point at; what
    of it is not here excludes nothing.
    """
    fresh = [move for move in moves if move.changes and move.new and move.item and move.asked not in agreed]
    threads = [move for move in fresh if move.kind == "thread"]
    runs = [move for move in fresh if move.kind == "run"]
    asked = [move for move in moves if move.kind == "track" and move.new and move.action == "new"]
    more = [move for move in fresh if move.kind == "track" and move.action != "new"]
    if more and any(_private(baton, more, haves)):
        asked += [move for move in more if any(_private(baton, [move], haves))]
    if not asked and not runs and not threads:
        return None
    tips = sorted({move.new for move in (*asked, *runs, *threads) if move.new})
    commits, untracked = _private(baton, asked, haves) if asked else (0, 0)
    known = {oid for move in asked if move.action == "new" and move.new for oid in baton.repo.objects.first_parents(move.new)}
    return Exposure(
        tracks=tuple(sorted({move.name for move in asked})),
        checkpoints=sum(move.count for move in asked if move.action != "new") + len(known - {baton.store.root}),
        commits=commits,
        untracked=untracked,
        bytes=weight(baton, tips, haves),
        runs=tuple(sorted(move.name for move in runs)),
        records=sum(move.count for move in runs),
        threads=tuple(sorted({move.name for move in threads})),
        states=sum(move.count for move in threads),
        observed=_observed(baton, [move.new for move in asked if move.new], haves) if asked else 0,
    )


def weight(baton: Baton, tips: Sequence[Oid], haves: Sequence[Oid]) -> int:
    """The bytes on disk here of what these reach and those do not."""
    return int(baton.repo.git.out("rev-list", "--disk-usage", "--objects", "--stdin", stdin=_range(tips, haves)))


def counted(baton: Baton, moves: Sequence[Move], haves: Sequence[Oid], public: Exposure | None) -> tuple[Move, ...]:
    """The same moves; those of tracks say how many of the user's commits and how many untracked files the remote gets by them
    that no ref of its holds. ``public``: what was counted already. Of what the remote's track had only its tip is looked at:
    the price is that of what is new."""
    found = []
    for move in moves:
        if move.kind != "track" or not move.new or not move.changes:
            found.append(move)
        elif public is not None and public.tracks == (move.name,):
            found.append(replace(move, commits=public.commits, untracked=public.untracked))
        else:
            chains, commits = _sent(baton, [move.new], haves)
            added = _added(baton, chains)
            tip = _read(baton, [move.seen]).get(move.seen) if added and move.seen else None
            added -= _added(baton, [[tip.tree, *tip.parents]]) if tip else set()
            found.append(replace(move, commits=commits, untracked=len({name for _, name in added})))
    return tuple(found)


def present(baton: Baton, oids: Sequence[Oid]) -> list[Oid]:
    """Those of the ids that are here and can be read."""
    asked = sorted(set(oids))
    return [oid for oid, found in zip(asked, baton.repo.objects.read_many(asked), strict=True) if found is not None]


def _private(baton: Baton, moves: Sequence[Move], haves: Sequence[Oid]) -> tuple[int, int]:
    """The user's commits and the untracked files that the remote gets by these moves and has not."""
    chains, commits = _sent(baton, sorted({move.new for move in moves if move.new}), haves)
    found = _added(baton, chains)
    seen = sorted({move.seen for move in moves if move.seen}) if found else []
    if seen:
        words = ("rev-list", "--first-parent", "--no-commit-header", "--stdin", "--format=%T %P")
        raw = baton.repo.git.out(*words, stdin=_range(seen, ()))
        found -= _added(baton, [row.split() for row in raw.decode("ascii").split("\n")])
    return commits, len({name for _, name in found})


def _observed(baton: Baton, tips: Sequence[Oid], haves: Sequence[Oid]) -> int:
    """How many of the checkpoints with these tips that the remote has not tell what an agent's client had on record."""
    words = ("rev-list", "--first-parent", "--count", "--basic-regexp", '--grep=^  "observed": ', "--stdin")
    return int(baton.repo.git.out(*words, stdin=_range(tips, haves)))


def _range(tips: Sequence[Oid], haves: Sequence[Oid]) -> bytes:
    return "".join([*(f"{oid}\n" for oid in tips), *(f"^{oid}\n" for oid in haves)]).encode()


def _sent(baton: Baton, tips: Sequence[Oid], haves: Sequence[Oid]) -> tuple[list[list[str]], int]:
    """What is sent of chains with these tips: tree and parents of each commit in them, and how many others are the user's."""
    words = ("rev-list", "--no-commit-header", "--stdin", "--format=%H %T %P%n%s")
    rows = baton.repo.git.out(*words, stdin=_range(tips, haves)).decode("utf-8", "replace").split("\n")[:-1]
    found = {row.split()[0]: (row.split()[1:], subject) for row, subject in zip(rows[::2], rows[1::2], strict=True)}
    chains = []
    for at in tips:
        while at in found:
            chains.append(found.pop(at)[0])
            at = chains[-1][1] if len(chains[-1]) > 1 else ""
    return chains, sum(1 for _, subject in found.values() if subject not in _OURS)


def _added(baton: Baton, rows: Sequence[Sequence[str]]) -> set[tuple[bytes, bytes]]:
    """Blobs and paths that the trees and indexes of checkpoints hold and the HEAD of each does not: nobody committed them. Each
    row has the tree and the parents of a commit in a chain."""
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
