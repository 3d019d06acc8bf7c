"""Checkpoint names: which checkpoint a user means; an ambiguous name is an error that lists the choices."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from gitbaton.base.codec import check_track, counted, earlier_ids, in_quotes, means_else, payload, timestamp
from gitbaton.base.errors import (
    MENDS,
    TAKE_ONE,
    AmbiguousNameError,
    BatonError,
    NotFoundError,
    RecordError,
    UsageError,
)
from gitbaton.base.model import BESIDE, ImportedTurn, Oid, Stored
from gitbaton.checkpoints.render import candidate, in_shell, title_of
from gitbaton.checkpoints.store import CHAINS, SAFETY, TIPS, Store, chain_ref, fetched_ref, imported, track_of
from gitbaton.checkpoints.store.chain import MAX_COMMIT, newest_first
from gitbaton.checkpoints.store.facts import LABEL
from gitbaton.checkpoints.store.meta import NOTHING, Meta
from gitbaton.checkpoints.store.read import dropping
from gitbaton.checkpoints.store.refs import META
from gitbaton.checkpoints.store.sealed import MANY
from gitbaton.git.objects import Object, object_id
from gitbaton.git.questions import commit_named
from gitbaton.git.reffiles import there

_BACK = re.compile(r"(.+?)((?:\^|~[0-9]{0,9})+)\Z", re.DOTALL)
_PARENT = re.compile(r"(.+)\^([2-9]|[1-9][0-9]{1,8})\Z", re.DOTALL)
_AT = re.compile(r"(.+)@\{(.+)\}\Z", re.DOTALL)
_TURN = re.compile(r"turn[ -]?([1-9][0-9]{0,5})\Z")
_PREFIX = re.compile(r"[0-9a-f]{4,64}\Z")
_CREATED = re.compile(rb'\n  "created": "([0-9TZ:.-]{27})",\n')
_ANY_LABEL = '"label"($|[^:]|:($|[^ ]| ($|[^n])))'  # whatever is not exactly `"label": null`
_CHUNK = 4096
_NO_TURN = ImportedTurn(since=datetime.min.replace(tzinfo=UTC), prompt="")
_FAR = 10**9  # no chain is as long, and git reads no greater number
WHEN = "as in 'TRACK@{2 hours ago}' or 'TRACK@{2026-01-31}'"
Later = Callable[[str], object]
Place = tuple[str | None, Oid]  # a track and a commit of its chain


def resolve(
    store: Store,
    name: str,
    short: int,
    at: str | None = None,
    *,
    notes: bool = True,
    later: Later | None = None,
) -> Stored:
    """Return the checkpoint that a name means: ``TRACK``, ``TRACK~3``, ``TRACK@{2 hours ago}``, ``TRACK@{turn 2}`` (the turn
    of that number), an id or a unique prefix of four or more, a label or a pin's name, a commit (the newest checkpoint on it,
    of the track ``at`` first; a branch by its full name alone), ``@`` (also ``@~3``, ``@{yesterday}``), or, where nothing else
    is called so, ``turn2``; ``@`` and ``turn2`` are of the track ``at``, by default the current one, or the only one.
    ``^`` after any of them is the one before, as ``~1``. Without ``notes`` no commit is looked for. ``later`` tells whether an
    open turn has changed files since the newest checkpoint of a track: it counts then, and ``TRACK~1`` is that checkpoint.

    What is spelled with a track is that track's, and not the commit that git would call so: a track may have a branch's name.
    Raises NotFoundError, AmbiguousNameError, or UsageError for a time that cannot be understood.
    """
    if not name:
        raise UsageError("the checkpoint's name is empty")
    if name == "@":
        return _tip(store, at or _current_track(store))
    own, broken = store.chains()
    chains = own | {track: remotes[0][1] for track, remotes in store.strange().items()}
    known = {*chains, *(track for problem in broken if (track := track_of(problem.where)) is not None)}
    whole = track_of(name) if name.startswith((TIPS, CHAINS)) else None
    if whole is not None:
        return _one(name, [_tip(store, whole)] if whole in known else [], short)
    reason: NotFoundError | None = None
    found: list[Stored] = []
    wanted = unicodedata.normalize("NFC", name)
    spelled = _spelled(store, wanted, known, at, short, later) or _fetched(store, wanted)
    odd = wanted in known and means_else(wanted)  # an old track of such a name: what it is read as is meant, too
    finders = [spelled, _spelled(store, wanted, known - {wanted}, at, short, later) if odd else None]
    for finder in filter(None, finders):
        try:
            found.append(finder())
        except NotFoundError as error:
            reason = error
    torn: set[str] = set()
    pins: Mapping[Oid, str] = {}
    try:
        pins = {} if spelled else _pins(store)  # a remote's pin hides no track
    except RecordError as error:
        reason = reason or NotFoundError(
            f"there is no checkpoint {in_quotes(name)} as far as can be read: {error.message}", *error.hints
        )
    pinned = {oid for oid, given in pins.items() if given == wanted}
    commit = commit_named(store.repo, name) if notes and (odd or not spelled) else None
    named, standing = _named(store, name, pinned, chains, commit, torn)
    branch = _branch(store, wanted) if standing and not odd else None
    if standing and not branch:
        first = at or store.current()
        named.append(min(standing, key=lambda s: (s.checkpoint.kind in BESIDE, s.checkpoint.track != first, s.foreign)))
    found += named
    if not found:
        found = _elsewhere(store, name) or _left(store, name, torn | (known - chains.keys()))
    if not found and (ends := parted(wanted, "..")) and ends[0] and not ends[1].startswith("/"):  # else it is a path
        first, last = ends[0], ends[1].removeprefix(".") or "@"
        for end in (first, last):
            resolve(store, end, short, at, later=later)
        raise NotFoundError(
            f"{in_quotes(name)} is a range, and one checkpoint is to be named",
            f"to compare its ends: git baton diff {in_shell(first)} {in_shell(last)}",
        )
    if not found and not reason and (back := _stepped(wanted)) is not None:
        found = _before(store, *back, short, at, later)
    if not found and reason:
        raise reason
    if not found and torn:
        said = f"there is no checkpoint {in_quotes(name)} as far as the chains can be read"
        names = map(in_shell, sorted(torn))
        raise NotFoundError(said, *(f"what cannot be read is said by: git baton log --track {name}" for name in names))
    if not found and not known:
        raise NotFoundError(unknown(name), *(comes_back(store, wanted) or [TAKE_ONE]))
    if not found and notes and (branch := branch or _branch(store, wanted)) is not None:
        raise _no_track(store, *branch, noted=bool(standing))
    if not found and (turn := _TURN.match(wanted)):
        return _one(f"turn {turn[1]}", _turns(store, at or _current_track(store), turn[1]), short)
    if not found:
        spelled_with = _BACK.match(wanted) or _AT.match(wanted)
        base = spelled_with[1] if spelled_with else wanted
        meant = near(base, [*known, *pins.values()])
        perhaps = comes_back(store, base) or ([f"perhaps {in_shell(meant)} is meant"] if meant else [])
        with suppress(BatonError):
            if _TURN.match(f"turn{wanted}") and _turns(store, at or _current_track(store), wanted):
                perhaps = [f"perhaps 'turn{wanted}' is meant"]
        if wanted == "turn":
            perhaps = ["a turn is named in one word, as in 'turn2'"]
        if parent := _PARENT.match(wanted):
            perhaps = [f"a checkpoint has one before it: perhaps {in_shell(f'{parent[1]}~{parent[2]}')} is meant"]
        raise NotFoundError(unknown(name), *perhaps, "see 'git baton log --all'")
    return _one(name, found, short)


def unknown(name: str) -> str:
    """Return the message of a name that means no checkpoint."""
    return f"there is no checkpoint {in_quotes(name)}"


def only_branch(name: str) -> str:
    """Return the message of a branch's name that is no track's."""
    return f"there is no track {in_quotes(name)}, only a branch of that name"


def comes_back(store: Store, track: str) -> list[str]:
    """Return the hint at how a deleted track comes back, or at the imported turns that a name like a track's stands for; none
    where no track of the name was deleted here, and nothing was imported."""
    from gitbaton.checkpoints.store.revision import find_deleted

    with suppress(RecordError, UsageError):
        if find_deleted(store.repo, check_track(track)):
            return [f"'git baton tracks restore {in_shell(track)}' brings back the one that was deleted"]
    if track.startswith(imported.track_name("")) and imported.commits(store, limit=1):
        return ["imported turns are of no track: git baton log --kind imported"]
    return []


def parted(name: str, mark: str) -> tuple[str, str] | None:
    """Split a name at the first ``mark`` that is in no braces, as in ``TRACK@{12:30}:a.txt``; None where there is none."""
    depth = 0
    for at, char in enumerate(name):
        depth += (char == "{") - (char == "}" and depth > 0)
        if not depth and name.startswith(mark, at):
            return name[:at], name[at + len(mark) :]
    return None


def _stepped(name: str) -> tuple[str, int] | None:
    """A name without the ``^`` and ``~3`` that it ends in, and how many checkpoints before it these mean; None without any."""
    match = _BACK.match(name)
    if match is None:
        return None
    steps = re.findall(r"\^|~[0-9]*", match[2])
    return match[1], min(sum(int(step[1:] or 1) for step in steps), _FAR)


def near(word: str, tracks: Iterable[str]) -> str | None:
    """Return the track or pin that a mistyped word may stand for; no other one of a row that is only numbered."""
    from difflib import get_close_matches

    plain = re.sub(r"[0-9]+", "", word)
    others = [track for track in tracks if track != word and re.sub(r"[0-9]+", "", track) != plain]
    return next(iter(get_close_matches(word[:200], others, n=1, cutoff=0.75)), None)


def _elsewhere(store: Store, name: str) -> list[Stored]:
    """The checkpoints of remotes, as far as they were fetched and are in none of our chains, with an id or its beginning."""
    if not _PREFIX.match(name) or not store.elsewhere():
        return []
    from gitbaton.checkpoints.store.read import apart

    chains = store.chains()[0]
    return [stored for stored in apart(store, chains, ()).items if stored.id.startswith(name)]


def _left(store: Store, name: str, broken: Collection[str]) -> list[Stored]:
    """Return what can be read of broken tracks and has an id or its beginning: it may be shown where such a track is."""
    if not broken or not _PREFIX.match(name):
        return []
    from gitbaton.checkpoints.store.read import anywhere

    return [
        store.stored(store.objects.read(found.commit, MAX_COMMIT), found.checkpoint.track, found.commit)
        for found in anywhere(store, broken)
        if found.id.startswith(name)
    ]


def _one(name: str, found: list[Stored], short: int) -> Stored:
    by_id = {s.id: s for s in reversed(found)}
    if not by_id:
        raise NotFoundError(unknown(name), "see 'git baton log --all'")
    if len(by_id) > 1:
        newest = sorted(by_id.values(), key=lambda s: s.checkpoint.created, reverse=True)
        lines = [candidate(s, lambda oid: oid[:short]) for s in newest[:20]] + (["..."] if len(newest) > 20 else [])
        raise AmbiguousNameError(f"{in_quotes(name)} could mean {len(by_id)} checkpoints", *lines)
    return found[0]


def _spelled(
    store: Store, name: str, chains: Collection[str], at: str | None, short: int, later: Later | None
) -> Callable[[], Stored] | None:
    """Return a finder for a name that is spelled with a track, or with ``@`` for the one ``at``, or the current one."""
    if name in chains:
        return partial(_tip, store, name)
    moment, back = _AT.match("@" + name if name.startswith("@{") else name), _stepped(name)
    if back is not None and back[0] in ("@", *chains):
        return lambda: _back(store, _track(store, back[0], at), back[1], later)
    if moment is not None and moment[1] in ("@", *chains):
        return lambda: _at(store, _track(store, moment[1], at), moment[2], short, later)
    return None


def _track(store: Store, spelled: str, at: str | None) -> str:
    return (at or _current_track(store)) if spelled == "@" else spelled


def _fetched(store: Store, name: str) -> Callable[[], Stored] | None:
    """Return a finder for a name that is spelled as a remote's track."""
    if "/" not in name or not store.elsewhere():
        return None
    from gitbaton.checkpoints.store.read import addresses, history_at

    there = addresses(store)
    back, at = _stepped(name), _AT.match(name)
    bases = (name, back[0] if back else name, at[1] if at else name)
    spelled = next((text for text in bases if text in there), None)
    if spelled is None:
        return None

    def found() -> Stored:
        fetched = history_at(store, *there[spelled])
        items = fetched.items
        if not items and fetched.problems:
            raise RecordError(f"{in_quotes(spelled)} cannot be read: {fetched.problems[0].reason}", MENDS)
        if not items:
            said = f"all that was fetched of {in_quotes(spelled)} was removed here"
            raise NotFoundError(said, *comes_back(store, there[spelled][1]))
        digits = "0" if spelled == name else str(back[1]) if back else at[2] if at else ""
        if digits.isascii() and digits.isdecimal() and len(digits) < 10:
            items = items[int(digits) :]
        elif digits == "manual":
            items = tuple(stored for stored in items if stored.checkpoint.kind == "manual")
        else:
            moment = moment_of(store, digits, WHEN).replace(microsecond=999_999)
            items = tuple(stored for stored in items if stored.checkpoint.created <= moment)
        if not items:
            raise NotFoundError(
                f"what was fetched of {in_quotes(spelled)} has no checkpoint {in_quotes(name)}",
                f"to list it: git baton log {in_shell(spelled)}",
            )
        return items[0]

    return found


def _current_track(store: Store) -> str:
    track = store.current()
    if track is None:
        tracks = store.meant()
        if not tracks:
            raise store.none()
        if len(tracks) > 1:
            raise NotFoundError("no track is current in this work tree", "set one with 'git baton tracks use NAME'")
        track = next(iter(tracks))
    return track


def _tip(store: Store, track: str) -> Stored:
    tip = store.readable(track)
    if tip is None:
        hints = comes_back(store, track) or ["'git baton tracks' lists them"]
        raise NotFoundError(f"there is no track {in_quotes(track)}", *hints)
    return tip


def _chain(store: Store, track: str, limit: int | None = None) -> list[Oid]:
    """The commits of a track's chain, newest first; its root may be the last."""
    start = store.objects.info(chain_ref(track))
    if start is None:  # one that exists only as fetched, or none
        return [stored.commit for stored in store.history(track, limit).items]
    if start.kind != "commit":
        raise RecordError(f"{in_quotes(chain_ref(track))} is a {start.kind} and not a chain of commits")
    return store.objects.first_parents(start.oid, limit)


def _back(store: Store, track: str, count: int, later: Later | None) -> Stored:
    """The checkpoint so many before the tip, or before the open turn that has changed files since; a broken one on the way
    counts."""
    count -= bool(count and later is not None and later(track))
    oids = _chain(store, track, count + 1)
    _refuse_torn(store, track, oids)
    found = store.objects.read(oids[-1], MAX_COMMIT)
    if len(oids) <= count or oids[-1] == store.root:
        total = len(oids) - (1 if oids[-1] == store.root else 0)
        raise NotFoundError(f"track {in_quotes(track)} has only {total} checkpoint{'' if total == 1 else 's'}", _listing(track))
    return store.stored(found, track, oids[-1])


def _before(store: Store, name: str, count: int, short: int, at: str | None, later: Later | None) -> list[Stored]:
    """The checkpoint so many before the one that a name means by itself, and no commit's: of that git counts the parents; none
    where the name means nothing. Raises NotFoundError where the chain is not that long."""
    try:
        start = resolve(store, name, short, at, notes=False, later=later)
    except NotFoundError:
        return []
    track = start.checkpoint.track
    oids = store.objects.first_parents(start.commit, count + 1)
    _refuse_torn(store, track, oids)
    if len(oids) <= count or oids[-1] == store.root:
        said = counted(len(oids) - (2 if oids[-1] == store.root else 1), "checkpoint")
        raise NotFoundError(f"{in_quotes(name)} has only {said} before it", f"to list them: git baton log {in_shell(name)}")
    alone = start.checkpoint.kind in BESIDE
    return [store.stored(store.objects.read(oids[-1], MAX_COMMIT), None if alone else track, oids[-1])]


def _listing(track: str) -> str:
    return f"to list them: git baton log --track {in_shell(track)}"


def _refuse_torn(store: Store, track: str, oids: list[Oid]) -> None:
    """Raise RecordError if a part of the chain cannot be read: the missing checkpoint may be there."""
    if torn := store.torn(track, oids):
        raise RecordError(torn, MENDS)


def _at(store: Store, track: str, text: str, short: int, later: Later | None) -> Stored:
    """The newest checkpoint at a time in git's words; git itself reads them."""
    if text.isascii() and text.isdecimal() and len(text) < 8:
        return _back(store, track, int(text), later)
    if text == "manual":
        return _manual(store, track)
    if turn := _TURN.match(text):
        return _one(f"turn {turn[1]}", _turns(store, track, turn[1]), short)
    moment = moment_of(store, text, WHEN).replace(microsecond=999_999)
    latest = timestamp(moment).encode()
    oids = _chain(store, track)
    for start in range(0, len(oids), _CHUNK):
        chunk = oids[start : start + _CHUNK]
        for oid, found in zip(chunk, list(store.objects.read_many(chunk, MAX_COMMIT)), strict=True):
            created = _CREATED.search(found.data or b"") if found else None
            if created and created.group(1) > latest:
                continue
            try:
                stored = store.stored(found, track, oid)
            except RecordError:
                continue
            if stored.checkpoint.created <= moment:
                return stored
    _refuse_torn(store, track, oids)
    raise NotFoundError(f"track {in_quotes(track)} has no checkpoint as old as {in_quotes(text)}", _listing(track))


def moment_of(store: Store, text: str, hint: str) -> datetime:
    """Parse a time in git's words to the second; 'today', which git does not know, is since midnight.

    Raises UsageError with a hint.
    """
    asked = store.repo.git.changed({}, f"baton.moment={'midnight' if text == 'today' else text.replace(chr(0), '?')}")
    result = asked.run("config", "--type=expiry-date", "--get", "baton.moment")
    if "\0" in text or result.code != 0 or not result.out.strip().isdigit():
        raise UsageError(f"{in_quotes(text)} is not a time that git understands", hint)
    return datetime.fromtimestamp(min(int(result.out), 253_402_300_799), UTC)


def _manual(store: Store, track: str) -> Stored:
    """Return the newest checkpoint of a track that no hook took: the one with the words that the automatic ones above it
    carry."""
    oids = _chain(store, track)
    for oid in oids:
        if oid == store.root:
            break
        try:
            stored = store.stored(store.objects.read(oid, MAX_COMMIT), track, oid)
        except RecordError:
            continue
        if stored.checkpoint.kind == "manual":
            return stored
    _refuse_torn(store, track, oids)
    raise NotFoundError(f"track {in_quotes(track)} has no manual checkpoint", _listing(track))


def _turns(store: Store, track: str, number: str) -> list[Stored]:
    """Return the checkpoints of a track whose title has the number of a turn: each session counts its own. Raises NotFoundError
    where there is none."""
    oids, found = _chain(store, track), list[Stored]()
    for _, one, raw in _records(store, [(track, oid) for oid in oids], set()):
        with suppress(RecordError):
            if f'"turns": {number}'.encode() in raw:
                stored = store.stored(one, track, one.oid)
                found += [stored] if title_of(stored.checkpoint).startswith(f"turn {number} ") else []
    if not found:
        _refuse_torn(store, track, oids)
        raise NotFoundError(f"track {in_quotes(track)} has no turn {number}", _listing(track))
    return found


def _noted(store: Store, commit: Oid | None) -> set[Oid]:
    """The ids of the checkpoints that the note of a commit names; git copies it to an amended one."""
    try:
        return set() if commit is None else set(store.noted(commit, store.notes_tree()[1]))
    except RecordError:
        return set()


def _branch(store: Store, name: str) -> tuple[str, str, str] | None:
    """Return the branch with which a name is spelled, its full name as git has it, and the rest; None without one."""
    short = re.split(r"[~^]|@\{", name)[0]
    if not short or "\0" in name or means_else(short) or short.startswith(("heads/", "remotes/")):
        return None
    full = os.fsdecode(
        store.repo.git.run("rev-parse", "-q", "--verify", "--symbolic-full-name", "--end-of-options", short).out
    ).strip()
    return (short, full, name[len(short) :]) if full.startswith(("refs/heads/", "refs/remotes/")) else None


def _no_track(store: Store, short: str, full: str, rest: str, *, noted: bool) -> NotFoundError:
    """Return the error at a branch's name that is no track's, with the track that was last on it."""
    there = [s for s in store.tips().items if s.checkpoint.branch == short]
    last = max((s.checkpoint for s in there), key=lambda c: c.created, default=None)
    track, checkpoint = last.track if last else "", full + rest
    return NotFoundError(
        only_branch(short),
        *([f"the track that was last on it: git baton resume {in_shell(track)}"] if track else []),
        *([f"what was taken on its commit: git baton show {in_shell(checkpoint)}"] if noted else []),
        "see 'git baton log --all'",
    )


def renamed(store: Store) -> Iterator[Stored]:
    """Yield the checkpoints of the tracks here that a renaming, or a return, wrote anew."""
    for track, found, raw in _records(store, _everything(store, store.chains()[0], set()), set()):
        if track is not None and earlier_ids(raw):
            with suppress(RecordError):
                yield store.stored(found, track, found.oid)


def _pins(store: Store) -> dict[Oid, str]:
    """Return the names that pins give to checkpoints."""
    if not there(store.repo, META):
        return {}
    from gitbaton.checkpoints.store.meta import read

    return {oid: unicodedata.normalize("NFC", name) for oid, name in read(store).names.items()}


def _named(
    store: Store, name: str, pinned: set[Oid], chains: Collection[str], commit: Oid | None, torn: set[str]
) -> tuple[list[Stored], list[Stored]]:
    """The ``pinned`` checkpoints, and those of all tracks with the label, the id or the id's beginning; where there are none,
    those that had such an id before their track was renamed. Beside them the newest of each track that stands on ``commit``,
    newest first. Tracks that cannot be read whole come into ``torn``."""
    prefix, noted = _PREFIX.match(name), _noted(store, commit)
    if not (prefix or commit or pinned):
        return _among(store, _labelled(store, chains, torn), name, pinned, noted, commit, torn)
    places = _everything(store, chains, torn)
    if len(places) >= MANY:
        store.facts.load()

    def may_be_meant(oid: Oid, head: Oid) -> bool:
        return (bool(prefix) and oid.startswith(name)) or oid in pinned or oid in noted or (head == commit and bool(commit))

    few = [place for place in places if (known := store.facts.plain(place[1])) is None or may_be_meant(*known)]
    found = _among(store, few, name, pinned, noted, commit, torn)
    if not any(found) and len(few) < len(places):  # what is kept is not relied on, nor is what cannot be read passed over
        found = _among(store, places, name, pinned, noted, commit, torn)
    store.facts.keep(oid for _, oid in places)
    return found


def _among(
    store: Store,
    places: list[Place],
    name: str,
    pinned: set[Oid],
    noted: set[Oid],
    commit: Oid | None,
    torn: set[str],
) -> tuple[list[Stored], list[Stored]]:
    """Return what ``_named`` does, of some places."""
    prefix = _PREFIX.match(name)
    named: list[Stored] = []
    standing: dict[str, Stored] = {}
    renamed: list[Stored] = []
    by_id = bool(prefix or commit or pinned)
    head = f'\n  "head": "{commit}",\n'.encode()
    strange, drops = store.strange() if by_id else {}, dict[str, Meta]()
    for track, found, raw in _records(store, places, torn):
        oid = object_id(store.objects.algorithm, "blob", raw) if by_id else ""
        if by_id:
            store.facts.learn_ids(found.oid, oid, raw)
        if track in strange:
            remote = strange[track][0][0]
            drops[remote] = drops.get(remote) or _drops(store, remote)
            if drops[remote].dropped(oid):
                continue
        meant = oid in pinned or (bool(prefix) and oid.startswith(name))
        earlier = bool(prefix) and any(was.startswith(name) for was in earlier_ids(raw))
        stands = track is not None and track not in standing and (oid in noted or head in raw)
        stands = stands or (track is None and commit is not None and b'"imported": {' in raw and commit.encode() in raw)
        if not (meant or earlier or stands or _may_be_labelled(raw, name)):
            continue
        try:
            stored = store.stored(found, track, found.oid)
        except RecordError:
            continue
        if meant or stored.checkpoint.label == name:
            named.append(stored)
        if stands and (track is not None or commit in (stored.checkpoint.imported or _NO_TURN).commits):
            standing[stored.checkpoint.track] = stored
        if earlier:
            renamed.append(stored)
    on_commit = newest_first(standing.values())
    return named or ([] if on_commit else renamed), list(on_commit)


def _drops(store: Store, remote: str) -> Meta:
    """Return what was dropped here or by a remote; nothing where that cannot be read."""
    try:
        return dropping(store, [remote])
    except RecordError:
        return NOTHING


def _may_be_labelled(raw: bytes, name: str) -> bool:
    """Whether a record must be taken apart to know that its label is another one."""
    found = LABEL.search(raw)
    return found is None or (found.group(1) is not None and found.group(1) == name.encode("utf-8", "surrogateescape"))


def _everything(store: Store, chains: Collection[str], torn: set[str]) -> list[Place]:
    """Track and commit of every link of every chain that can be walked; safety checkpoints and imported turns have no track's
    ref."""
    places: list[Place] = []
    own, strange = store.objects.refs(CHAINS), store.strange()
    tips = {track: tip for track in chains if (tip := own.get(chain_ref(track))) is not None}
    tips |= {track: remotes[0][1] for track, remotes in strange.items() if track not in tips and len(remotes) == 1}
    walked = store.objects.chains(tips.values())
    for track in chains:
        try:
            oids = walked.get(tips.get(track, ""), [])
            places += [(track, oid) for oid in (oids if oids[-1:] == [store.root] else _chain(store, track))]
        except BatonError:
            torn.add(track)
    for tip in store.objects.refs(SAFETY).values():
        try:
            places += [(None, oid) for oid in store.objects.first_parents(tip)]
        except BatonError:
            continue
    return [*places, *((None, oid) for oid in imported.commits(store))]


def _labelled(store: Store, chains: Collection[str], torn: set[str]) -> list[Place]:
    """Track and commit of what may have a label. It may stand anywhere, so git looks through all chains, in one process."""
    words = ("log", "--no-notes", "--no-decorate", "--no-color", "--first-parent", "--source", "--format=%H %S")
    refs = {chain_ref(track): track for track in chains}
    for strange, remotes in store.strange().items():
        del refs[chain_ref(strange)]
        refs |= {fetched_ref(remote, strange): strange for remote, _ in remotes}
    if not refs:
        return []
    git = store.repo.git.changed({"LC_CTYPE": "C"}, "log.showSignature=false")  # bytes match twice as fast as characters
    found = git.run(*words, "-E", f"--grep={_ANY_LABEL}", "--stdin", stdin="".join(f"{ref}\n" for ref in refs).encode())
    if found.code != 0:
        return _everything(store, chains, torn)
    rows = (line.split(" ", 1) for line in os.fsdecode(found.out).splitlines())
    return [(track, oid) for oid, ref in rows if (track := refs.get(ref)) is not None]


def _records(store: Store, places: list[Place], torn: set[str]) -> Iterator[tuple[str | None, Object, bytes]]:
    """Track, commit and JSON of every record that looks like one."""
    for (track, _), found in zip(places, store.objects.read_many([oid for _, oid in places], MAX_COMMIT), strict=True):
        if found is None and track is not None:
            torn.add(track)
        if found is None or found.kind != "commit" or found.data is None:
            continue
        try:
            yield track, found, payload(found.data.partition(b"\n\n")[2])
        except RecordError:
            continue
