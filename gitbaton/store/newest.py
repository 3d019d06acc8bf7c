"""Cache of the newest tracks: a list that is valid while no ref of a track has moved.

It lies in ``<common dir>/baton/newest`` and holds names, ids and times only. Whoever moves refs of tracks takes it away first;
what git itself moves shows in the folders of the refs. Without it, all tracks are looked at, and it is made anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from gitbaton.codec import decode_track, encode_track, timestamp
from gitbaton.errors import RecordError
from gitbaton.git.objects import OID, digest
from gitbaton.git.reffiles import folders
from gitbaton.git.repo import Repo, put
from gitbaton.model import Oid, Stored
from gitbaton.store.chain import MAX_COMMIT, Chains, History, Problem
from gitbaton.store.refs import CHAINS, TIPS
from gitbaton.system.files import read_regular
from gitbaton.values import value

SHOWN = 100
_HEADER = "gitbaton newest 1"
_CREATED = re.compile(rb'\n  "created": "([0-9TZ:.-]{27})",\n')


@value
class Newest:
    """The newest tracks, at most SHOWN, the newest first: when, the id and commit of the tip, the track. ``count``: how many
    tracks there are."""

    rows: tuple[tuple[str, Oid, Oid, str], ...]
    count: int

    def after(self, tip: Stored, *, new: bool) -> Newest:
        """The same when a track has this tip now; ``new``: there was no such track before."""
        rows = [row for row in self.rows if row[3] != tip.checkpoint.track]
        return Newest(rows=_rows([tip], rows), count=self.count + new)


def _rows(tips: Iterable[Stored], more: Iterable[tuple[str, Oid, Oid, str]] = ()) -> tuple[tuple[str, Oid, Oid, str], ...]:
    own = [(timestamp(s.checkpoint.created), s.id, s.commit, s.checkpoint.track) for s in tips]
    return tuple(sorted([*own, *more], reverse=True)[:SHOWN])


def _path(repo: Repo) -> str:
    return os.path.join(repo.shared_dir, "newest")


def mark(repo: Repo, words: Iterable[str | None]) -> str:
    """What stays equal as long as no track has moved, none has become foreign or stopped being so, and ``words`` are the same;
    empty where that cannot be known."""
    moved = folders(repo, CHAINS, TIPS, "baton/ours/tracks")
    return "" if moved is None else digest("sha1", "\0".join((_HEADER, moved, *map(str, words))).encode()).hex()


def take(repo: Repo) -> Newest | None:
    """The list, where it holds; it is gone until ``keep``. Called with the lock held, before a ref of a track moves."""
    found = read(repo)
    drop(repo)
    return found


def drop(repo: Repo) -> None:
    """Take the list away: refs of tracks are about to move."""
    try:
        os.unlink(_path(repo))
    except OSError:
        return  # there is none, or the folder cannot be written, and then no ref can


def keep(repo: Repo, found: Newest) -> None:
    """Keep a list that is true now. Called with the lock held; a disk that does not take it leaves none."""
    if (moved := folders(repo, CHAINS, TIPS)) is None:
        return
    rows = [f"{created} {oid} {commit} {encode_track(track)}" for created, oid, commit, track in found.rows]
    try:
        put(repo, _path(repo), "\n".join((_HEADER, moved, str(found.count), *rows, "end\n")).encode("ascii"))
    except OSError:
        drop(repo)


def read(repo: Repo) -> Newest | None:
    """The list, where it holds."""
    try:
        header, moved, count, *rows, end, _ = read_regular(_path(repo), 1 << 20).decode("ascii", "replace").split("\n")
        if (header, end) != (_HEADER, "end") or moved != folders(repo, CHAINS, TIPS):
            return None
        parts = [row.split(" ") for row in rows]
        found = [(created, oid, commit, decode_track(name) or "") for created, oid, commit, name in parts]
        whole = all(OID.match(row[1]) and OID.match(row[2]) and row[3] for row in found)
        return Newest(rows=tuple(found), count=int(count)) if whole else None
    except (OSError, ValueError):
        return None


def shown(store: Chains, known: Newest | None = None) -> tuple[History, int]:
    """The newest checkpoints of the newest tracks, and how many other tracks there are. ``known`` is a list that is true now;
    where none holds, every track is looked at. Called with the lock held."""
    found = known or read(store.repo)
    if found is None:
        return _listed(store)
    return store.tips_of({track: commit for _, _, commit, track in found.rows}), found.count - len(found.rows)


def _listed(store: Chains) -> tuple[History, int]:
    """As ``shown``; where there are more tracks than are shown, of most only the time is read."""
    before = folders(store.repo, CHAINS, TIPS)
    chains, strange = store.chains()
    broken: list[Problem] = []
    near = chains if len(chains) <= SHOWN else _near(store, chains, broken)
    read = store.tips_of(near)
    broken += read.problems
    read = History(items=read.items[:SHOWN], problems=(*strange, *broken))
    if not read.problems and before == folders(store.repo, CHAINS, TIPS):
        keep(store.repo, Newest(rows=_rows(read.items), count=len(chains)))
    return read, len(chains) - len(broken) - len(read.items)


def _near(store: Chains, chains: Mapping[str, Oid], broken: list[Problem]) -> dict[str, Oid]:
    """The newest tracks, with those that are as new as the last of them."""
    times = [(created, track) for created, track, _ in dated(store, list(chains.items()), broken)]
    edge = max(sorted((created for created, _ in times), reverse=True)[SHOWN - 1 : SHOWN], default="")
    return {track: chains[track] for created, track in times if created >= edge}


def dated(store: Chains, tips: Sequence[tuple[str, Oid]], broken: list[Problem]) -> list[tuple[str, str, Oid]]:
    """When the checkpoints at tips of tracks were taken, with track and commit; no more of them is looked at."""
    times = []
    for (track, oid), found in zip(tips, store.objects.read_many([oid for _, oid in tips], MAX_COMMIT), strict=True):
        created = _CREATED.search(found.data) if found is not None and found.kind == "commit" and found.data else None
        try:
            when = created[1].decode() if created else timestamp(store.stored(found, track, oid).checkpoint.created)
        except RecordError as error:
            broken.append(Problem(where=CHAINS + encode_track(track), reason=error.message))
        else:
            times.append((when, track, oid))
    return times
