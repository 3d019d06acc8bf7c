"""State files of ours in the common directory: crash marker of a change of several refs, cache of the newest tracks, pause.

The marker, ``<common dir>/baton/revision``, is written before the change, so that the next command can finish it. The cache,
``<common dir>/baton/newest``, holds names, ids and times only; a writer removes it before it moves a ref of a track, and what
git itself moves shows in the folders of the refs. Without it all tracks are read, and it is made anew. While
``<common dir>/baton/paused`` says so, all hooks are silent.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from gitbaton.base.codec import decode_track, encode_track, in_quotes, os_error, timestamp
from gitbaton.base.errors import BatonError, GitError, GitTimeoutError, RecordError, RefConflictError
from gitbaton.base.model import DoctorFinding, Oid, Stored
from gitbaton.base.system.files import names_in, read_or_none, read_regular, remove
from gitbaton.base.values import value
from gitbaton.checkpoints.store.chain import MAX_COMMIT, Chains, History, Problem
from gitbaton.checkpoints.store.refs import CHAINS, REMOTES, TIPS
from gitbaton.git import places, questions
from gitbaton.git.objects import OID, RefChange, digest, is_ref
from gitbaton.git.reffiles import below, folders
from gitbaton.git.repo import Repo, drop, put

SHOWN = 100
LIVE = timedelta(days=1)
"""For which a track is live that has not moved."""
_NEWEST = "gitbaton newest 1"
_CREATED = re.compile(rb'\n  "created": "([0-9TZ:.-]{27})",\n')


@value
class Newest:
    """The newest tracks, at most SHOWN, the newest first: when, the id and commit of the tip, the track. ``count``: how many
    tracks there are."""

    rows: tuple[tuple[str, Oid, Oid, str], ...]
    count: int

    def after(self, tip: Stored, *, new: bool) -> Newest:
        """Return the same when a track has this tip now; ``new``: there was no such track before."""
        rows = [row for row in self.rows if row[3] != tip.checkpoint.track]
        return Newest(rows=_rows([tip], rows), count=self.count + new)


def _rows(tips: Iterable[Stored], more: Iterable[tuple[str, Oid, Oid, str]] = ()) -> tuple[tuple[str, Oid, Oid, str], ...]:
    own = [(timestamp(s.checkpoint.created), s.id, s.commit, s.checkpoint.track) for s in tips]
    return tuple(sorted([*own, *more], reverse=True)[:SHOWN])


def _newest_path(repo: Repo) -> str:
    return os.path.join(repo.shared_dir, "newest")


def mark(repo: Repo, words: Iterable[str | None]) -> str:
    """Return a text that stays equal as long as no track has moved, none has become foreign or stopped being so, and ``words``
    are the same; empty where that cannot be known."""
    moved = folders(repo, CHAINS, TIPS, "baton/ours/tracks")
    return "" if moved is None else digest("sha1", "\0".join((_NEWEST, moved, *map(str, words))).encode()).hex()


def may_overlap(repo: Repo, now: datetime) -> bool:
    """Whether a track of another place may have moved in the last day: one look at a few names, for a hook. Never raises."""
    linked = bool(names_in(os.path.join(repo.layout.common_dir, "worktrees")))
    with suppress(BatonError, OSError):
        if below(repo, REMOTES):
            return True
        newest = read_newest(repo) if linked else None
        return linked and (newest is None or (newest.count > 1 and newest.rows[0][0] >= timestamp(now - LIVE)))
    return False


def take_newest(repo: Repo) -> Newest | None:
    """Return the list, where it holds; it is gone until ``keep_newest``. Called with the lock held, before a ref of a track
    moves."""
    found = read_newest(repo)
    drop_newest(repo)
    return found


def drop_newest(repo: Repo) -> None:
    """Take the list away: refs of tracks are about to move."""
    with suppress(OSError):  # there is none, or the folder cannot be written, and then no ref can
        os.unlink(_newest_path(repo))


def keep_newest(repo: Repo, found: Newest) -> None:
    """Keep a list that is true now. Called with the lock held; a disk that does not take it leaves none."""
    if not found.count or (moved := folders(repo, CHAINS, TIPS)) is None:
        return
    rows = [f"{created} {oid} {commit} {encode_track(track)}" for created, oid, commit, track in found.rows]
    try:
        put(repo, _newest_path(repo), "\n".join((_NEWEST, moved, str(found.count), *rows, "end\n")).encode("ascii"))
    except OSError:
        drop_newest(repo)


def read_newest(repo: Repo) -> Newest | None:
    """Return the list, where it holds."""
    try:
        header, moved, count, *rows, end, _ = read_regular(_newest_path(repo), 1 << 20).decode("ascii", "replace").split("\n")
        if (header, end) != (_NEWEST, "end") or moved != folders(repo, CHAINS, TIPS):
            return None
        parts = [row.split(" ") for row in rows]
        found = [(created, oid, commit, decode_track(name) or "") for created, oid, commit, name in parts]
        whole = all(OID.match(row[1]) and OID.match(row[2]) and row[3] for row in found)
        return Newest(rows=tuple(found), count=int(count)) if whole else None
    except (OSError, ValueError):
        return None


def show_newest(store: Chains, known: Newest | None = None) -> tuple[History, int]:
    """Return the newest checkpoints of the newest tracks, and how many other tracks there are. ``known`` is a list that is true
    now; where none holds, every track is looked at. Called with the lock held."""
    found = known or read_newest(store.repo)
    if found is None:
        return _listed(store)
    return store.tips_of({track: commit for _, _, commit, track in found.rows}), found.count - len(found.rows)


def _listed(store: Chains) -> tuple[History, int]:
    """Return what ``show_newest`` does; where there are more tracks than are shown, of most only the time is read."""
    before = folders(store.repo, CHAINS, TIPS)
    chains, strange = store.chains()
    broken: list[Problem] = []
    near = chains if len(chains) <= SHOWN else _near(store, chains, broken)
    read = store.tips_of(near)
    broken += read.problems
    read = History(items=read.items[:SHOWN], problems=(*strange, *broken))
    if not read.problems and before == folders(store.repo, CHAINS, TIPS):
        keep_newest(store.repo, Newest(rows=_rows(read.items), count=len(chains)))
    return read, len(chains) - len(broken) - len(read.items)


def _near(store: Chains, chains: Mapping[str, Oid], broken: list[Problem]) -> dict[str, Oid]:
    """Return the newest tracks, with those that are as new as the last of them."""
    times = [(created, track) for created, track, _ in dated(store, list(chains.items()), broken)]
    edge = max(sorted((created for created, _ in times), reverse=True)[SHOWN - 1 : SHOWN], default="")
    return {track: chains[track] for created, track in times if created >= edge}


def dated(store: Chains, tips: Sequence[tuple[str, Oid]], broken: list[Problem]) -> list[tuple[str, str, Oid]]:
    """Return the times of the checkpoints at tips of tracks, with track and commit; no more of them is looked at."""
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


_HEADER = b"gitbaton revision 1\n"
_END = b"end\n"


def _path(repo: Repo) -> str:
    return os.path.join(repo.shared_dir, "revision")


def pending(repo: Repo) -> bool:
    """Whether a change of several refs was begun and not ended: one look at a file's name."""
    return os.path.lexists(_path(repo))


def carry_out(store: Chains, first: Sequence[RefChange], last: Sequence[RefChange], new: Sequence[Oid]) -> None:
    """Carry out ``first`` wholly or not at all, then ``last``, which are derived from it; ``new`` are the objects that no ref
    reaches yet. Called with the lock held.

    After a kill ``settle`` does what is left. Raises RefConflictError and GitError where nothing was changed.
    """
    from gitbaton.git.publish import fsync, kept, move_refs  # late: a reader needs none of it

    free = [RefChange(name=c.name, new=c.old, old=c.old) for c in last if c.old is not None]
    how = fsync(store.repo)
    with kept(store.repo, new, how=how):
        rows = [f"{c.name} {c.old or '-'} {c.new or '-'}\n" for c in (*first, *last)]
        put(store.repo, _path(store.repo), _HEADER + os.fsencode("".join(rows)) + _END, sync=True)
        drop_newest(store.repo)
        try:
            move_refs(store.repo, [*first, *free], *([last] if last else []), how=how)
        except (RefConflictError, GitError):
            found = store.objects.info(first[0].name)
            if (found.oid if found is not None else None) != first[0].new:
                _forget(store)
                raise
            return  # the rest waits for the next command
    _forget(store)


def settle(store: Chains) -> list[str]:
    """Finish what a killed process had begun; what is in the way is said, and tried again the next time.

    A ref that has moved on since stays where it is, and so does one that can never be moved. Called with the lock held.
    """
    if not pending(store.repo):
        return []
    from gitbaton.git.binary import clear_stale_locks

    said: list[str] = []
    try:
        changes = _kept_changes(store)
        clear_stale_locks(store.repo.layout.common_dir, tuple(change.name for change in changes))
        for change in changes:
            found = store.objects.info(change.name)
            if (found.oid if found is not None else None) == change.old != change.new:
                said += _move_one(store, change)
        _forget(store)
    except (BatonError, OSError) as error:
        return [f"a change that was begun is not finished yet: {os_error(error)}"]
    return said


def _move_one(store: Chains, change: RefChange) -> list[str]:
    """Move one ref; why it cannot be, where trying again cannot help. Raises RefConflictError, GitTimeoutError."""
    from gitbaton.git.publish import fsync, move_refs

    try:
        if change.new is not None and store.objects.info(change.new) is None:
            raise GitError(f"object {change.new} does not exist any more")
        move_refs(store.repo, [change], how=fsync(store.repo))
    except GitTimeoutError:
        raise
    except GitError as error:
        return [f"a change that was begun could not be finished: {in_quotes(change.name)}: {error.message}"]
    return []


def _kept_changes(store: Chains) -> list[RefChange]:
    """Return the changes of the file; none of a file that is not whole, as after a power loss."""
    raw = read_regular(_path(store.repo), 64 << 20)
    if not raw.startswith(_HEADER) or not raw.endswith(_END):
        return []
    rows = [row.split(" ") for row in os.fsdecode(raw[len(_HEADER) : -len(_END)]).splitlines()]
    ids = [tuple(None if oid == "-" else oid for oid in row[1:]) for row in rows]
    if not all(len(row) == 3 and is_ref(row[0]) for row in rows) or not all(o is None or OID.match(o) for p in ids for o in p):
        return []
    return [RefChange(name=row[0], old=pair[0], new=pair[1]) for row, pair in zip(rows, ids, strict=True)]


def _forget(store: Chains) -> None:
    if pending(store.repo):
        os.unlink(_path(store.repo))


_OLD = 600.0  # seconds after which a search index is to follow the refs


def search_index(repo: Repo) -> str:
    """Return the path of the file in which what was said is looked up."""
    return os.path.join(repo.shared_dir, "search.sqlite")


def drop_search_index(repo: Repo) -> None:
    """Remove the search index, with all that it holds; the next search makes it anew. Never raises."""
    for tail in ("", "-wal", "-shm", "-journal"):
        with suppress(OSError):
            drop(repo, search_index(repo) + tail)


def overlaps_file(repo: Repo) -> str:
    """Return the path of the file that keeps what is known of tracks that overlap."""
    return os.path.join(repo.shared_dir, "overlaps")


def forget_words(repo: Repo) -> None:
    """Remove what is kept for the next look, in every work tree, as words may stand in it: the search index, overlaps, status
    lines. Never raises."""
    drop_search_index(repo)
    with suppress(OSError):
        drop(repo, overlaps_file(repo))
    with suppress(OSError):
        for _, git_dir, _ in questions.worktrees(repo):
            with suppress(OSError):
                drop(repo, os.path.join(git_dir, "baton", places.STATUS_LINE))


def follow_later(repo: Repo, *, begin: bool = False) -> None:
    """Let a detached process bring the search index up to date where it is old, or, with ``begin``, also where there is none: a
    search does that. Raises OSError and GitError."""
    try:
        age = time.time() - os.lstat(search_index(repo)).st_mtime
    except FileNotFoundError:
        age = 0.0
    if begin or age > _OLD:
        from gitbaton.base.system.process import leave_to_verb

        leave_to_verb(repo.layout.root or repo.layout.git_dir, "search", "-n", "1", "baton")


_PAUSED = re.compile(rb"gitbaton paused 1\nuntil (-|[0-9]{1,12})\nsince ([0-9]{1,12})\n")  # hook scripts read its second line


@value
class Pause:
    """A pause of the hooks: its begin and its end; None: until it is ended by hand."""

    since: datetime
    until: datetime | None


def paused(repo: Repo, now: datetime) -> Pause | None:
    """Return the pause of a repository that goes on at a moment; None where its hooks act. A file that cannot be read silences
    nothing. Never raises."""
    found = _PAUSED.fullmatch(read_or_none(_pause_path(repo), 1 << 10) or b"")
    if found is None:
        return None
    until = None if found[1] == b"-" else _moment(found[1])
    return Pause(since=_moment(found[2]), until=until) if until is None or until > now else None


def pause(repo: Repo, now: datetime, until: datetime | None) -> Pause:
    """Silence the hooks of a repository from now on, in all its work trees; a pause before this one ends. Raises OSError."""
    ends = "-" if until is None else int(until.timestamp())
    put(repo, _pause_path(repo), f"gitbaton paused 1\nuntil {ends}\nsince {int(now.timestamp())}\n".encode())
    return Pause(since=now, until=until)


def end_pause(repo: Repo, now: datetime) -> Pause | None:
    """Let the hooks act again; the pause that ended, None where there was none. Raises OSError."""
    before = paused(repo, now)
    remove(_pause_path(repo))
    return before


def told_pause(pause: Pause) -> str:
    """Return a pause in words; its end as a local time."""
    until = "until somebody ends it" if pause.until is None else f"until {pause.until.astimezone():%Y-%m-%d %H:%M}"
    return f"the hooks of this repository are silent {until}"


def silence(repo: Repo, now: datetime) -> list[DoctorFinding]:
    """Return the remark that the hooks of a repository are paused; none where they act."""
    pause = paused(repo, now)
    text = told_pause(pause) if pause is not None else ""
    return [DoctorFinding(name="paused", ok=True, text=text, mend="git baton pause --end", remark=True)] if text else []


def _pause_path(repo: Repo) -> str:
    return os.path.join(repo.shared_dir, "paused")


def _moment(seconds: bytes) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)
