"""What a user may call a checkpoint, and which one is meant; a name that could mean two is an error that lists them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from gitbaton.errors import AmbiguousNameError, NotFoundError, RecordError, UsageError
from gitbaton.git.objects import OID
from gitbaton.model import Stored
from gitbaton.render import candidate
from gitbaton.store import TIPS, History, Store, track_of

_BACK = re.compile(r"(.+)~([0-9]{0,9})\Z", re.DOTALL)
_AT = re.compile(r"(.+)@\{(.+)\}\Z", re.DOTALL)
_PREFIX = re.compile(r"[0-9a-f]{4,64}\Z")


def resolve(store: Store, name: str, short: int) -> Stored:
    """The checkpoint that a name means: ``TRACK``, ``TRACK~3``, ``TRACK@{2 hours ago}``, an id or a unique prefix of four
    or more, a label, a commit (the newest checkpoint its note names), ``@``.

    Raises NotFoundError, AmbiguousNameError, or UsageError for a time that cannot be understood.
    """
    if not name:
        raise UsageError("the checkpoint's name is empty")
    chains = store.chains()[0]
    found = {s.id: s for s in _by_track(store, name, set(chains))}
    everything = store.everything(chains)
    found |= {s.id: s for s in everything.items if s.checkpoint.label == name}
    if _PREFIX.match(name):
        found |= {s.id: s for s in everything.items if s.id.startswith(name)}
    found |= {s.id: s for s in _by_commit(store, name, everything)}
    if not found:
        raise NotFoundError(f"there is no checkpoint '{name}'", "see 'git baton log --all'")
    if len(found) > 1:
        lines = [candidate(s, lambda oid: oid[:short]) for s in found.values()]
        raise AmbiguousNameError(f"'{name}' could mean {len(found)} checkpoints", *lines)
    return next(iter(found.values()))


def _by_track(store: Store, name: str, tracks: set[str]) -> list[Stored]:
    """The checkpoints that a name means when it begins with a track."""
    found = []
    whole = track_of(name) if name.startswith(TIPS) else name
    if whole == "@":
        found += _current(store)
    if whole in tracks:
        found += _tip(store, whole)
    back, at = _BACK.match(name), _AT.match(name)
    for match in (back, at):
        if match is None:
            continue
        track = match.group(1)
        if track == "@":
            track = store.current() or ""
        if track in tracks:
            found += _back(store, track, match.group(2)) if match is back else _at(store, track, match.group(2))
    return found


def _current(store: Store) -> list[Stored]:
    track = store.current()
    if track is None:
        raise NotFoundError("no track is current in this work tree", "set one with 'git baton tracks use NAME'")
    return _tip(store, track)


def _tip(store: Store, track: str) -> list[Stored]:
    tip = store.tip(track)
    return [tip] if tip else []


def _back(store: Store, track: str, digits: str) -> list[Stored]:
    count = int(digits or "1")
    items = store.history(track, count + 1).items
    if len(items) <= count:
        raise NotFoundError(f"track '{track}' has only {len(items)} checkpoints")
    return [items[count]]


def _at(store: Store, track: str, text: str) -> list[Stored]:
    """The newest checkpoint at a time in git's words; git itself reads them."""
    if text.isdecimal() and len(text) < 8:
        return _back(store, track, text)
    asked = store.repo.git.changed({}, f"baton.moment={text}")
    result = asked.run("config", "--type=expiry-date", "--get", "baton.moment")
    if result.code != 0 or not result.out.strip().isdigit():
        raise UsageError(f"'{text}' is not a time that git understands")
    seconds = min(int(result.out), 253_402_300_799)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=999_999)
    for stored in store.history(track).items:
        if stored.checkpoint.created <= moment:
            return [stored]
    raise NotFoundError(f"track '{track}' has no checkpoint as old as '{text}'")


def _by_commit(store: Store, name: str, everything: History) -> list[Stored]:
    """The newest checkpoint that the note of a commit names."""
    result = store.repo.git.run("rev-parse", "--verify", "-q", "--end-of-options", f"{name}^{{commit}}")
    commit = result.out.decode("ascii", "replace").strip()
    if result.code != 0 or not OID.match(commit):
        return []
    try:
        ids = set(store.noted(commit, store.notes_tree()[1]))
    except RecordError:
        return []
    newest = [s for s in everything.items if s.id in ids]
    return newest[:1]
