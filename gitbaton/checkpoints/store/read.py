"""Tracks: checkpoints here and, of those only fetched, at remotes; the default track of a work tree; broken refs of ours."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import takewhile
from types import MappingProxyType

from gitbaton.base.codec import (
    check_new_track,
    check_track,
    decode_track,
    encode_track,
    in_quotes,
    looks,
    means_else,
    plain,
)
from gitbaton.base.errors import (
    MENDS,
    NO_TRACK,
    BatonError,
    GitError,
    NoCheckpointError,
    NotFoundError,
    RecordError,
    UsageError,
)
from gitbaton.base.model import BESIDE, Oid, Stored
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.store import meta
from gitbaton.checkpoints.store.chain import MAX_COMMIT, Chains, History, Problem, newest_first, parted
from gitbaton.checkpoints.store.facts import Outline
from gitbaton.checkpoints.store.provenance import of_track
from gitbaton.checkpoints.store.refs import (
    CHAINS,
    CURRENT,
    IMPORTED,
    META,
    NOTES,
    REMOTES,
    RUNS,
    SAFETY,
    SIGNATURES,
    THREADS,
    TIPS,
    TRANSCRIPTS,
    chain_ref,
    fetched_ref,
    remote_of,
    remote_ref,
    tip_ref,
    track_of,
)
from gitbaton.checkpoints.store.sealed import MANY
from gitbaton.checkpoints.store.state import SHOWN, read_newest, settle
from gitbaton.git import objectlists, questions
from gitbaton.git.objects import Object
from gitbaton.git.reffiles import below
from gitbaton.git.repo import Repo

SLACK = timedelta(minutes=10)  # what is further in the future is listed and not joined
_NEAR = 200  # checkpoints below a tip among which a remote's is looked for first
_FEW = 3  # of these so many are read for all tips together


class Store(Chains):
    """The tracks of one repository."""

    def __init__(self, repo: Repo) -> None:
        super().__init__(repo)
        self.unread: dict[str, str] = {}  # the tracks of which ``readable`` could not show the newest, each with what to say

    def settle(self) -> list[str]:
        """Finish a change of several refs that a killed process had begun, and begin the record of what is ours where an
        earlier version kept none; what is in the way is said. Called with the lock held. It costs a look at two names."""
        with suppress(OSError):  # whoever adds to it says so
            self.ours.begin()
        return settle(self)

    def all_tips(self) -> History:
        """Return the newest checkpoint of every track, those that exist only as fetched included."""
        own = self.tips()
        if not self.strange():
            return own
        found = _tips(self, self.strange())
        return History(items=newest_first([*own.items, *found.items]), problems=(*own.problems, *found.problems))

    def tip(self, track: str) -> Stored | None:
        """Return the newest checkpoint of a track, a foreign one where the track exists only as fetched; None when there is no
        such track. Raises RecordError when it is broken."""
        stored = self.own_tip(track)
        chains = self.fetched().get(track) if stored is None and self.at_remotes(track) else None
        if not chains:
            return stored
        found = _tips(self, {track: chains})
        if not found.items and found.problems:
            raise RecordError(f"{in_quotes(found.problems[0].where)}: {found.problems[0].reason}")
        return found.items[0] if found.items else None

    def readable(self, track: str) -> Stored | None:
        """Return the newest checkpoint of a track that can be read, for a verb that only looks; where that is not its newest,
        ``unread`` says so. Raises RecordError when there is none."""
        try:
            return self.tip(track)
        except RecordError as error:
            found = newest_anywhere(self, track)
            if found is None:
                raise RecordError(error.message, MENDS) from None
            said = "the newest checkpoint that can be read is shown"
            self.unread[track] = f"{error.message}; {said}, and '{MENDS}' goes on from what is left"
            return found

    def has(self, track: str) -> bool:
        """Whether a track exists, here or as fetched, also one of which the newest checkpoint cannot be read."""
        return self._pointed(chain_ref(track)) is not None or bool(self.at_remotes(track))

    def is_foreign(self, track: str) -> bool:
        """Whether a track is here, or at remotes as far as they were fetched, and nothing of it was made here."""
        return not self.ours.knows(of_track(track)) and self.has(track)

    def made_here(self) -> list[str]:
        """Return the tracks of this repository of which anything was made here."""
        chains, known = self.chains()[0], self.ours.names("tracks")
        return [track for track in chains if encode_track(track) in known]

    def meant(self) -> list[str]:
        """Return the tracks that can be meant where none is named: those of here, if there are any, else those that came from
        elsewhere."""
        own = self.made_here() or list(self.chains()[0])
        if own:
            return own
        found = _tips(self, self.strange())  # all of one may have been removed here
        return [*self.strange()] if found.problems else [s.checkpoint.track for s in found.items]

    def none(self) -> BatonError:
        """Return the error for a repository in which no track can be meant: there is none yet, or none that can be read."""
        return RecordError(NO_TRACK, MENDS) if self.all_tips().problems else NoCheckpointError()

    def before(self, track: str) -> Stored | None:
        """Return the newest checkpoint of a track, as ``tip``, for a snapshot, which can do without: where only a remote's copy
        is broken, None."""
        try:
            return self.tip(track)
        except RecordError:
            return self.own_tip(track)

    def history(self, track: str, limit: int | None = None) -> History:
        """Return a track's checkpoints, newest first; a broken one is named and left out. Raises NotFoundError."""
        try:
            return self.chain(chain_ref(track), track, limit)
        except NotFoundError:
            if track not in self.fetched():
                raise
        found = self._fetched_history(track, limit)
        if not (found.items or found.problems) and self.tip(track) is None:  # all of it was removed here
            raise NotFoundError(f"there is no track {in_quotes(track)}")
        return found

    def _fetched_history(self, track: str, limit: int | None) -> History:
        """Return the checkpoints of a track that exists only as fetched, newest first, from all its remotes; all of them are
        foreign.

        What was dropped anywhere is left out. As of the last listing of the chains.
        """
        problems: list[Problem] = []
        remotes = [remote for remote, _ in self.elsewhere()[track]]
        return _history(self, track, remotes, _dropping(self, remotes, problems), problems, limit)

    def everything(self, tracks: Iterable[str], tips: Mapping[str, Oid] | None = None) -> History:
        """Return all checkpoints of several tracks, newest first; ``tips``: what their chains' refs point at, if that is
        known."""
        items, outlines = list[Stored](), list[Outline]()
        problems: list[Problem] = []
        tracks = list(tracks)
        strange = {track: self.elsewhere()[track] for track in tracks if self._is_strange(track)}
        if tips is None:
            refs = {chain_ref(track): track for track in tracks if track not in strange}
            tips = {refs[ref]: oid for ref, oid in self.pointing([*refs]).items()}
        asked = [(chain_ref(track), track, tips[track]) for track in tracks if track in tips]
        asked += [(fetched_ref(remote, track), track, oid) for track, chains in strange.items() for remote, oid in chains]
        found = dict(zip([ref for ref, _, _ in asked], self.several(asked), strict=True))
        drops: dict[tuple[str, ...], tuple[meta.Meta, list[Problem]]] = {}
        for track in tracks:
            part: History | BatonError
            try:
                if track in strange:
                    remotes = tuple(remote for remote, _ in strange[track])
                    if remotes not in drops:
                        wrong: list[Problem] = []
                        drops[remotes] = _dropping(self, remotes, wrong), wrong
                    dropped, wrong = drops[remotes]
                    part = _history(self, track, remotes, dropped, [*wrong], None, found)
                else:
                    part = found.get(chain_ref(track)) or self.history(track)
            except (RecordError, NotFoundError, GitError) as error:
                part = error
            if isinstance(part, BatonError):
                problems.append(Problem(where=chain_ref(track), reason=part.message))
            else:
                items += part.items
                outlines += part.outlines
                problems += part.problems
        return History(items=newest_first(items), problems=tuple(problems), outlines=tuple(outlines))

    def whole(self, limit: int | None = None, *, brief: bool = False) -> History:
        """Return all checkpoints of all tracks, newest first, also those that exist only as fetched; or the newest so many.
        ``brief``: as ``ahead`` has it, where little is asked of each; so it counts by ``surely`` alone.

        A checkpoint is newer than the one before it, so that the newest of all stand in the commits that git lists first.
        """
        known = read_newest(self.repo) if limit and limit <= SHOWN and not below(self.repo, REMOTES) else None
        if known is not None and known.count > SHOWN:  # those of the newest tracks
            chains, broken = {track: commit for _, _, commit, track in known.rows}, list[Problem]()
        else:
            chains, broken = self.chains()
            if limit and len(chains) > MANY:  # else each would be taken apart
                self.facts.load()
            broken = [*broken, *(self.tips_of(chains).problems if limit else ())]  # also those of no new commit
            self.facts.keep()
        elsewhere = self.elsewhere() if self._own is not None else {}
        tips, most = [*chains.values(), *(oid for _, _, oid in differing(chains, elsewhere))], limit
        while limit != 0:
            with self.ahead(tips, most, brief=brief) as is_all:
                own = self.everything([*chains, *self.strange()], chains)
                here: list[Stored | Outline] = [*own.items, *own.outlines]
                more = apart(self, chains, {one.id for one in here}) if elsewhere else History(items=())
            if most is None:
                self.facts.keep(one.commit for one in (*here, *more.items))
            items = own.items
            if limit is not None:
                items = newest_first({s.id: s for s in reversed((*more.items, *own.items))}.values())[:limit]
            elif more.items:
                items = newest_first((*own.items, *more.items))
            if is_all or most is None or len(items) == limit:
                problems = dict.fromkeys((*broken, *own.problems, *more.problems))
                return History(items=items, problems=tuple(problems), origins=more.origins, outlines=own.outlines)
            most *= 4
        return History(items=(), problems=tuple(broken))


@value
class Newer:
    """A remote that has checkpoints of a track which are not here: how many, and whether one is older than the newest here."""

    remote: str
    track: str
    count: int
    older: bool

    @property
    def sentence(self) -> str:
        """The warning about it."""
        one = self.count == 1
        many = f"{self.count}{'' if self.older else ' newer'} checkpoint{'' if one else 's'}"
        remote, apart = plain(self.remote), (" that is not here" if one else " that are not here") if self.older else ""
        return f"{remote} has {many} of track {in_quotes(self.track)}{apart}: 'git baton sync {remote}' joins them"


def strays(store: Chains) -> list[Problem]:
    """Return the refs below refs/baton/remotes with a name that gitbaton does not write."""
    return [
        Problem(where=ref, reason="the name is not one that gitbaton writes")
        for ref in store.objects.refs(REMOTES)
        if not _is_ours(ref)
    ]


def _is_ours(ref: str) -> bool:
    rest = (remote_of(ref) or ("", ""))[1]
    kind, _, name = rest.partition("/")
    if kind in ("tracks", "runs", "signatures"):
        return decode_track(name) is not None
    if kind == "joined":  # how threads stood when both sides had the same, by a digest of the address
        kind, _, name = name.partition("/")[2].partition("/")
        return kind in ("threads", "late") and bool(name)
    return rest in ("notes", "meta") or (kind in ("transcripts", "imported", "threads", "late") and bool(name))


def dropping(store: Chains, remotes: Iterable[str], own: str = META) -> meta.Meta:
    """Return the union of the pins and tombstones of this repository, which stand at the ref or commit ``own``, and of remotes.
    Raises RecordError."""
    refs = [remote_ref(remote, "meta") for remote in remotes]
    return meta.union(meta.read(store, own) if own else meta.NOTHING, *(meta.read(store, ref) for ref in refs))


def addresses(store: Chains) -> dict[str, tuple[str, str]]:
    """Return the remote and the track that ``REMOTE/TRACK`` means, of each chain that was fetched, as of the last listing."""
    return {f"{remote}/{track}": (remote, track) for track, chains in store.elsewhere().items() for remote, _ in chains}


def history_at(store: Chains, remote: str, track: str, limit: int | None = None) -> History:
    """Return the checkpoints that one remote has of a track, newest first, as far as they were fetched; all of them are
    foreign. What was dropped anywhere is left out."""
    problems: list[Problem] = []
    found = _history(store, track, [remote], _dropping(store, [remote], problems), problems, limit)
    return replace(found, origins={stored.id: (remote,) for stored in found.items})


def _dropping(store: Chains, remotes: Iterable[str], problems: list[Problem]) -> meta.Meta:
    """Return what ``dropping`` does; a meta that cannot be read is a problem, and leaves nothing out."""
    try:
        return dropping(store, remotes)
    except RecordError as error:
        problems.append(Problem(where=REMOTES.rstrip("/"), reason=error.message))
        return meta.NOTHING


def _history(
    store: Chains,
    track: str,
    remotes: Iterable[str],
    drops: meta.Meta,
    problems: list[Problem],
    limit: int | None,
    read: Mapping[str, History | BatonError] = MappingProxyType({}),
) -> History:
    """Return the checkpoints that some remotes have of a track; ``read``: chains of theirs that were read already."""
    found: dict[Oid, Stored | Outline] = {}
    for remote in remotes:
        ref = fetched_ref(remote, track)
        try:
            part = read.get(ref) or store.chain(ref, track, None if drops.drops or limit is None else 2 * limit)
        except (RecordError, NotFoundError, GitError) as error:
            part = error
        if isinstance(part, BatonError):
            problems.append(Problem(where=ref, reason=part.message))
            continue
        problems += part.problems
        both: list[Stored | Outline] = [*part.items, *part.outlines]
        for one in both:
            if not drops.dropped(one.id):
                found.setdefault(one.id, one if one.foreign else replace(one, foreign=True))
    items, outlines = parted(found.values())
    return History(items=newest_first(items)[:limit], problems=tuple(problems), outlines=tuple(outlines))


def apart(store: Chains, tracks: Mapping[str, Oid], known: Collection[Oid]) -> History:
    """Return the checkpoints that remotes have of tracks which exist here, too, with these tips, newest first, but for those
    ``known``: as far as they were fetched; all of them foreign, with the remotes in ``origins``. What was dropped anywhere is
    left out. As of the last listing."""
    problems: list[Problem] = []
    found: dict[Oid, Stored] = {}
    origins: dict[Oid, tuple[str, ...]] = {}
    elsewhere = store.elsewhere()
    for track, remote, oid in differing(tracks, elsewhere):
        if track in tracks:
            ref = fetched_ref(remote, track)
            try:
                drops = dropping(store, (remote,))
                more = [s for s in _not_here(store, track, oid) if s.id not in known and not drops.dropped(s.id)]
            except BatonError as error:
                problems.append(Problem(where=ref, reason=error.message))
                continue
            for stored in more:
                found.setdefault(stored.id, replace(stored, foreign=True))
                origins[stored.id] = (*origins.get(stored.id, ()), remote)
    return History(items=newest_first(found.values()), problems=tuple(problems), origins=origins)


def differing(tracks: Mapping[str, Oid], elsewhere: Mapping[str, list[tuple[str, Oid]]]) -> Iterator[tuple[str, str, Oid]]:
    """Yield track, remote and tip of each fetched chain that is not one of these tracks as it stands here."""
    return ((track, remote, oid) for track, chains in elsewhere.items() for remote, oid in chains if tracks.get(track) != oid)


def _not_here(store: Chains, track: str, oid: Oid) -> list[Stored]:
    """Return the checkpoints of a fetched chain that the chain here lacks. Raises RecordError where it is broken."""
    above = store.linked([oid]).get(oid, [oid])
    own = store.objects.info(chain_ref(track)) if above else None
    have = {store.root, *(store.linked([own.oid]).get(own.oid, ()) if own is not None else ())}
    above = [commit for commit in above if commit not in have]
    read = zip(above, store.objects.read_many(above), strict=True)
    return [store.stored(item, track, commit) for commit, item in read]


def _tips(store: Chains, tracks: Mapping[str, list[tuple[str, Oid]]]) -> History:
    """Return the newest checkpoint of each of these tracks, newest first. Where a tip was dropped or cannot be read, what is
    below it is looked at; else no more than the tips."""
    problems: list[Problem] = []
    remotes = sorted({remote for chains in tracks.values() for remote, _ in chains})
    drops = _dropping(store, remotes, problems)
    oids = [oid for chains in tracks.values() for _, oid in chains]
    read = dict(zip(oids, store.objects.read_many(oids), strict=True))
    items: list[Stored] = []
    for track, chains in tracks.items():
        try:
            found = [store.stored(read[oid], track, oid) for _, oid in chains]
            whole = not any(drops.dropped(s.id) for s in found)
        except RecordError:
            found, whole = [], False
        if not whole:
            part = _history(store, track, [remote for remote, _ in chains], drops, [], 1)
            found = list(part.items)
            problems += part.problems
        items += [replace(s, foreign=True) for s in newest_first(found)[:1]]
    return History(items=newest_first(items), problems=tuple(problems))


def newer(store: Chains, elsewhere: Mapping[str, list[tuple[str, Oid]]], tips: Iterable[Stored], now: datetime) -> list[Newer]:
    """Return the remotes that have checkpoints of tracks which are not below their ``tips`` here, as far as they were fetched
    and could be joined; what cannot be read is none. Costs a walk from a tip here to that of the remote."""
    found = []
    tips = [mine for mine in tips if any(oid != mine.commit for _, oid in elsewhere.get(mine.checkpoint.track, ()))]
    known = store.near(tips, _FEW)
    for mine in tips:
        track = mine.checkpoint.track
        for remote, oid in elsewhere[track]:
            if not _is_near(store, mine.commit, oid, known):
                lacks = _lacking(store, remote, track, oid, mine, now)
                older = any(s.checkpoint.created <= mine.checkpoint.created for s in lacks)
                found += [Newer(remote=remote, track=track, count=len(lacks), older=older)] if lacks else []
    return found


def _is_near(store: Chains, start: Oid, wanted: Oid, known: Mapping[Oid, Object]) -> bool:
    """Whether a commit is one of the first few of a chain, of which some are ``known``: without a process."""
    at: Oid | None = start
    for _ in range(_NEAR):
        if at in (None, wanted):
            break
        at = store.under(known.get(at) or store.objects.read(at, MAX_COMMIT))
    return at == wanted


def _lacking(store: Chains, remote: str, track: str, oid: Oid, mine: Stored, now: datetime) -> list[Stored]:
    try:
        listed = store.repo.git.out("rev-list", "--first-parent", oid, f"^{mine.commit}", "--").decode("ascii").split()
        above = [commit for commit in listed if commit != store.root]
        read = (store.stored(item, track, commit) for commit, item in zip(above, store.objects.read_many(above), strict=True))
        theirs = [s for s in read if s.checkpoint.created <= now + SLACK]
        first = min((s.checkpoint.created for s in theirs), default=now + SLACK)
        # A join that was not pushed has what it took under other commits.
        have = {s.id for s in takewhile(lambda s: s.checkpoint.created >= first, store.newest(mine))}
        drops = dropping(store, (remote,)) if theirs else meta.NOTHING
    except BatonError:
        return []
    return [s for s in theirs if s.id not in have and not drops.dropped(s.id)]


DETACHED = "detached"


def choose(store: Store, configured: str | None, given: str | None = None, *, automatic: bool = False) -> str:
    """Choose the track: the one given, GIT_BATON_TRACK, the current one, the only one of here, the one ``configured``
    (baton.track), or one named after the branch.

    But for GIT_BATON_TRACK and the current one, it is never one that belongs to another work tree of this repository, nor one
    that looks like a track of another name, nor in a bare repository one that is there and was not named, nor for a hook
    (``automatic``) a foreign one that is not given: then the name of this work tree's directory is added. Raises UsageError for
    a given name that cannot be one.
    """
    named, current = os.environ.get("GIT_BATON_TRACK"), store.current()
    told = check_track(asked) if (asked := given or named) else None
    if told and means_else(told) and not store.has(told):
        told = valid_name(told)  # a hook of which the settings say so does not fail
    if told and not given:
        return told
    wanted = told or current
    if wanted is not None and wanted == current:
        return current
    others, chains = _Others(store), store.chains()[0]
    own = store.made_here() if wanted is None else []
    wanted = wanted or (own[0] if len(own) == 1 else None)
    if wanted is not None and not others.have(wanted):
        return wanted
    asked = given or configured
    free = asked or store.objects.head().branch or DETACHED
    new = asked is None and store.repo.layout.root is None  # what is in a bare repository is there from others
    return _own_name(store, chains, free, others, automatic=automatic and not given, new=new)


def makes_current(store: Store, track: str) -> bool:
    """Whether a hook may make its track current: none is, and no other one of ours could have been meant in this work tree;
    never a foreign one."""
    if store.current() is not None or store.is_foreign(track):
        return False
    return all(other == track or store.is_foreign(other) for other in within_reach(store))


def within_reach(store: Store) -> set[str]:
    """Return the tracks that do not belong to another work tree."""
    others, tips = _Others(store), store.tips()
    unread = {track for problem in tips.problems if (track := track_of(problem.where)) is not None}
    near = {s.checkpoint.track for s in tips.items if not others.own(s.checkpoint.track, s)}
    return near | {track for track in unread if not others.own(track, None)}


def _own_name(store: Store, chains: dict[str, str], wanted: str, others: _Others, *, automatic: bool, new: bool) -> str:
    """Return a name of this work tree's own, as near to the one wanted as can be; ``new``: of no track that is there."""
    name, layout = valid_name(wanted), store.repo.layout
    folder = os.path.basename(layout.root or layout.git_dir)
    for candidate in (name, valid_name(f"{name} {folder}"), *(f"{name} {n}" for n in range(2, 1000))):
        twin = candidate if candidate in chains else next((t for t in chains if looks(t) == looks(candidate)), None)
        ours = twin is None or (twin == candidate and not new and not others.have(twin))
        if ours and not (automatic and store.is_foreign(candidate)):
            return candidate
    raise UsageError(f"no name is free for a track of this work tree beside {in_quotes(name)}")


def valid_name(name: str) -> str:
    """Return a new track's name as near to ``name`` as can be."""
    try:
        return check_new_track(name)
    except UsageError:
        kept = "".join(c for c in name if c.isascii() and (c.isalnum() or c in "-_./ "))
        kept = re.sub(r"\.{2,}", ".", kept.strip(" -")[:100].strip(" -")) or DETACHED
        return check_new_track(f"track {kept}" if means_else(kept) else kept)


class _Others:
    """The other work trees of this repository that still exist: their current tracks, and what checkpoints call them."""

    def __init__(self, store: Store) -> None:
        self.store, repo = store, store.repo
        places = questions.others(repo)
        self.currents = {questions.current_ref(repo, git_dir, CURRENT) for git_dir, _ in places}
        self.met = [place for _, place in places if place is not None]
        self.here = repo.worktree_id() if places else None

    def have(self, track: str) -> bool:
        """Whether a track belongs to one of them."""
        try:
            return self.own(track, self.store.tip(track))
        except RecordError:
            return True  # it cannot be written, either

    def own(self, track: str, tip: Stored | None) -> bool:
        """Whether a track is current in one of them, or its newest checkpoint was taken there."""
        if tip_ref(track) in self.currents:
            return True
        taken = tip.checkpoint.files.worktree if tip and tip.checkpoint.files else None
        if taken is None or self.here is None or taken.same(self.here):
            return False
        return any(taken.same(place) for place in self.met)


PREFIXES = ("refs/baton/", TIPS)
NONE: Mapping[str, str] = MappingProxyType({})
"""No broken refs."""
_MANY = 200  # objects that are worth a process of their own
_COMMITS = (CHAINS, SAFETY, RUNS, THREADS, TRANSCRIPTS, IMPORTED, META, NOTES, SIGNATURES)


def is_ours(ref: str) -> bool:
    """Whether a ref stands where only gitbaton writes."""
    return ref.startswith(PREFIXES) or ref == NOTES


def own_refs(store: Chains) -> dict[str, Oid]:
    """Return our refs and the ids that they hold: chains, tips, notes, meta, and all else below ``refs/baton/``; zeros as in
    usage."""
    listed, below = objectlists.all_refs(store.repo, *PREFIXES, NOTES), NOTES + "/"
    return {ref: oid for ref, oid in listed.items() if not ref.startswith(below)}


def readable_kinds(store: Chains, oids: Iterable[Oid], most: int | None = None) -> dict[Oid, str]:
    """Return the kind of each of some objects that can be read; many are read by one process. Of more than ``most`` only the
    headers are read."""
    asked = [oid for oid in {*oids} if oid.strip("0")]
    if most is not None and len(asked) > most:
        found = objectlists.headers(store.repo, asked)
    else:
        found = objectlists.kinds(store.repo, asked) if len(asked) > _MANY else {}
    rest = [oid for oid in asked if oid not in found]
    items = zip(rest, store.objects.read_many(rest, MAX_COMMIT), strict=True)
    return found | {oid: item.kind for oid, item in items if item is not None}


def unreadable_refs(store: Chains, refs: Mapping[str, Oid], most: int | None = None) -> dict[str, str]:
    """Return the ``refs`` of ours that hold no id, or point at an object that cannot be read or is of another kind than such a
    ref has, each with why; ``most`` as in ``readable_kinds``. The objects below are not looked at: see ``torn_refs``."""
    if most is not None and len(refs) > most:  # nearly always all is well
        names = _by_kind(refs)
        if objectlists.are_of_kinds(store.repo, {kind: {refs[ref] for ref in names[kind]} for kind in ("blob", "commit")}):
            refs = {ref: refs[ref] for ref in names[None]}
    found, known = dict[str, str](), readable_kinds(store, refs.values(), most)
    for ref, oid in refs.items():
        if not oid.strip("0"):
            found[ref] = "it holds no id"
        elif oid not in known:
            found[ref] = f"it points at {oid}, which cannot be read"
        elif _kind_at(ref) not in (None, known[oid]):
            found[ref] = f"it points at a {known[oid]}, {oid}"
    return found


def _by_kind(refs: Iterable[str]) -> dict[str | None, list[str]]:
    """Return refs of ours by the kind of the object at each; among None those of which it may be of any."""
    folders, found = dict[str, list[str]](), dict[str | None, list[str]]({"blob": [], "commit": [], None: []})
    for ref in refs:
        folders.setdefault(ref.rpartition("/")[0], []).append(ref)
    for folder, names in folders.items():  # nearly always one has all that lie in it
        kind = _kind_at(f"{folder}/")
        for name in names if kind is None else ():
            found[_kind_at(name)].append(name)
        found[kind] += names if kind is not None else []
    return found


def _kind_at(ref: str) -> str | None:
    """Return the kind of the object at a ref of ours; None where it may be of any."""
    if ref.startswith(TIPS):
        return "blob"
    # Of a remote's signatures whoever reads them says what they are, and the next push replaces what is none.
    fetched = ref.startswith(REMOTES) and "/late/" not in ref and "/signatures/" not in ref
    return "commit" if fetched or ref.startswith(_COMMITS) else None


def torn_refs(store: Chains, refs: Mapping[str, Oid], without: Collection[Oid] = ()) -> dict[str, str]:
    """Return the ``refs`` that lead to objects that cannot be read and that ``without`` do not reach, each with why. Every
    object is read, so call it only once damage is known; of many refs halves are asked until it is known which."""
    wrong = objectlists.unreadable(store.repo, refs.values(), without) if refs else ""
    if not wrong:
        return {}
    rows = list(refs.items())
    if len({oid for _, oid in rows}) == 1:
        return {ref: f"it leads to what cannot be read: {wrong}" for ref, _ in rows}
    half = len(rows) // 2
    return torn_refs(store, dict(rows[:half]), without) | torn_refs(store, dict(rows[half:]), without)


def user_tips(store: Chains) -> list[Oid]:
    """Return the commits of the user's refs and HEAD, as far as git can read them."""
    oids = {oid for ref, oid in store.objects.refs("refs/").items() if not is_ours(ref) and oid.strip("0")}
    head = store.objects.head().oid
    return [*readable_kinds(store, {*oids, head or ""})]


def readable_checkpoints(store: Chains, oids: Sequence[Oid]) -> Iterator[Stored]:
    """Yield those of some commits that can be read and are checkpoints, of any chain."""
    for oid, found in zip(oids, store.objects.read_many(oids, MAX_COMMIT), strict=True):
        with suppress(RecordError):
            yield store.stored(found, None, oid)


def anywhere(store: Chains, tracks: Collection[str]) -> Iterator[Stored]:
    """Yield the checkpoints of tracks among all commits that lie here, reachable or not, for where their refs are broken. One
    look at every object. Raises GitError."""
    from gitbaton.git.damage import listed

    oids = [oid for oid, (kind, size) in listed(store.repo).items() if kind == "commit" and size <= MAX_COMMIT]
    for found in readable_checkpoints(store, oids):
        if found.checkpoint.track in tracks and found.checkpoint.kind not in BESIDE:
            yield found


def newest_anywhere(store: Chains, track: str) -> Stored | None:
    """Return the newest of ``anywhere``; a foreign one where a remote has it. Raises GitError."""
    last = max(anywhere(store, (track,)), key=lambda stored: (stored.checkpoint.created, stored.id), default=None)
    if last is None:
        return None
    known = store.stored(store.objects.read(last.commit, MAX_COMMIT), track, last.commit)
    strange = any(last.commit in store.objects.first_parents(tip) for _, tip in store.at_remotes(track))
    return replace(known, foreign=known.foreign or strange)
