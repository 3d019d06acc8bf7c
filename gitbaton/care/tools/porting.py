"""Import of older, file-based checkpoint folders, and export of checkpoints as files."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from gitbaton.base.codec import alike, check_new_track, check_track, encode, in_quotes, looks, message, plain, timestamp
from gitbaton.base.codec.older import Old, moment_of, older, unknown
from gitbaton.base.codec.text import unique
from gitbaton.base.errors import BatonError, RecordError, UsageError
from gitbaton.base.model import Checkpoint, Oid, Stored
from gitbaton.base.system.files import open_regular
from gitbaton.base.values import replace, value
from gitbaton.care.scanning.objects import is_clean
from gitbaton.checkpoints import mirror
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.mirror import EXPORTED
from gitbaton.checkpoints.render import checkpoint_markdown, exported_json
from gitbaton.checkpoints.store import NOTES, History, chain_ref, tip_ref
from gitbaton.checkpoints.store.join import Link
from gitbaton.checkpoints.store.revision import Revision
from gitbaton.checkpoints.store.write import NOBODY
from gitbaton.git.objects import new_object
from gitbaton.git.questions import came_with

HISTORY = re.compile(rf"{EXPORTED}(?P<stem>.+)\.json\Z", re.DOTALL)
_MAX_RECORD = 4 << 20
_MAX_LATEST = 64 << 20
_MAX_DEPTH = 32
_MAX_STEM = 100
_PREFIX = re.compile(r"[0-9a-f]{4,64}\Z")
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


@value
class OldRecord:
    """One record of a folder; ``source`` names it for people, ``latest`` says that LATEST.json repeats it, ``foreign`` that git
    tracks its file, so that it came with a repository."""

    source: str
    old: Old
    latest: bool
    foreign: bool = False


@value
class Imported:
    """Result of an import: new checkpoints by track, the track that became current (None when none did), warnings."""

    added: tuple[tuple[str, int], ...]
    current: str | None
    warnings: tuple[str, ...]


def read_folder(folder: str) -> tuple[list[OldRecord], str | None]:
    """Return the records of LATEST.json and context_checkpoint_*.json, and the track that the folder calls current; None where
    git tracks the file that says so.

    Raises UsageError for a folder that holds none, RecordError that names the first file which cannot be understood.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise UsageError(f"{in_quotes(folder)} cannot be read: {error.strerror}") from None
    found, latest = [name for name in names if HISTORY.match(name)], "LATEST.json"
    theirs = came_with(folder, [*found, latest])
    records = [replace(_history_record(folder, name), foreign=name in theirs) for name in found]
    current = None
    if latest in names:
        current, more = _latest_records(os.path.join(folder, latest))
        records += [replace(record, foreign=latest in theirs) for record in more]
        current = None if latest in theirs else current
    elif not records:
        raise UsageError(f"{in_quotes(folder)} holds no LATEST.json and no context_checkpoint_*.json")
    return records, current


def _history_record(folder: str, name: str) -> OldRecord:
    path = os.path.join(folder, name)
    data, _ = _load(path, _MAX_RECORD)
    try:
        created, label = _named(name)
        old = older(data, created=created, label=label)
    except RecordError as error:
        raise RecordError(f"{in_quotes(path)}: {error.message}") from None
    return OldRecord(source=in_quotes(path), old=old, latest=False)


def _named(name: str) -> tuple[datetime | None, str | None]:
    """Return the time and label that a file's name gives: the time is as long as it can be."""
    match = HISTORY.match(name)
    parts = match["stem"].split("_") if match else []
    for count in range(min(len(parts), 3), 0, -1):
        created = moment_of("_".join(parts[:count]))
        if created is not None:
            label = "_".join(parts[count:])
            return created, None if label.lower() in ("", "none", "null") else label
    return None, None


def _latest_records(path: str) -> tuple[str | None, list[OldRecord]]:
    data, written = _load(path, _MAX_LATEST)
    tracks, current = data.get("tracks"), data.get("current_track")
    if not isinstance(tracks, dict):
        raise RecordError(f"{in_quotes(path)} has no map 'tracks'")
    if current is not None and not isinstance(current, str):
        raise RecordError(f"{in_quotes(path)}: its 'current_track' is not text")
    times = [data.get(key) for key in ("generated", "timestamp", "updated", "updated_at")]
    records = []
    for track, record in tracks.items():
        source = f"{in_quotes(path)}, track {in_quotes(track[:80])}"
        if not isinstance(record, dict):
            raise RecordError(f"{source}: it is not a record")
        try:
            said = next((found for item in times if (found := moment_of(item)) is not None), written)
            old = older(record, track=track, created=said)
        except RecordError as error:
            raise RecordError(f"{source}: {error.message}") from None
        records.append(OldRecord(source=source, old=old, latest=not old.ours))
    return current, records


def _load(path: str, limit: int) -> tuple[dict[str, Any], datetime]:
    """Return the JSON object of a file that is neither a link nor a device, and its time."""
    try:
        with open(path, "rb", opener=lambda name, _: open_regular(name)) as file:
            state = os.fstat(file.fileno())
            if state.st_size > limit:
                raise RecordError(f"{in_quotes(path)} has {state.st_size} bytes; the limit is {limit}")
            raw = file.read(limit)
    except OSError as error:
        odd = "is not a file" if error.errno == errno.EINVAL else f"cannot be read: {error.strerror}"
        raise RecordError(f"{in_quotes(path)} {'is a symbolic link' if os.path.islink(path) else odd}") from None
    return _parsed(path, raw), datetime.fromtimestamp(int(state.st_mtime), UTC)


def _parsed(path: str, raw: bytes) -> dict[str, Any]:
    try:
        data = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{in_quotes(path)} is not JSON: {plain(str(error))[:100]}") from None
    if not isinstance(data, dict):
        raise RecordError(f"{in_quotes(path)} is not a JSON object")
    level: list[Any] = [data]
    for _ in range(_MAX_DEPTH):
        level = [
            part
            for item in level
            for part in (item.values() if isinstance(item, dict) else item)
            if isinstance(part, (dict, list))
        ]
    if level:
        raise RecordError(f"{in_quotes(path)} is nested deeper than {_MAX_DEPTH}")
    return data


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def import_folder(baton: Baton, folder: str) -> Imported:
    """Put an older folder's checkpoints into tracks; a second time adds nothing.

    All of it or none: raises UsageError or RecordError, naming the file, and ScanError before anything is written, and
    RefConflictError when another program moves our refs meanwhile.
    """
    records, meant = read_folder(folder)
    by_track = _checkpoints(baton, records)
    refs = [ref for track in by_track for ref in (chain_ref(track), tip_ref(track))]
    with baton.repo.lock((*refs, NOTES)):
        settled = baton.store.settle()
        plan = _Import(baton)
        plan.warnings += settled
        for track, items in sorted(by_track.items()):
            plan.track(track, items)
        plan.apply()
    current = check_track(meant) if meant and plan.knows(meant) else None
    if current is not None and baton.current() is None:
        return Imported(added=tuple(plan.added), current=current, warnings=(*plan.warnings, *baton.use(current)))
    return Imported(added=tuple(plan.added), current=None, warnings=(*plan.warnings, *baton.refresh()))


def _checkpoints(baton: Baton, records: Sequence[OldRecord]) -> dict[str, list[tuple[Checkpoint, OldRecord]]]:
    """Return the records as checkpoints by track, heads looked up, secrets redacted, each checked against the limits of a
    record."""
    heads = named_commits(baton, {record.old.head.lower() for record in records})
    result: dict[str, list[tuple[Checkpoint, OldRecord]]] = {}
    for record in records:
        c, said = record.old.checkpoint, record.old.head
        head = heads.get(said.lower())
        if said and head is None and "imported.head" not in dict(c.extra):
            c = replace(c, extra=(*c.extra, ("imported.head", said)))
        c = replace(c, head=head)
        try:
            encode(c)
            c = baton.redactor.checkpoint(c)
            encode(c)
        except UsageError as error:
            raise RecordError(f"{record.source}: {error.message}") from None
        result.setdefault(c.track, []).append((c, record))
    return result


def named_commits(baton: Baton, heads: Collection[str]) -> dict[str, Oid]:
    """Return the commits that whole or abbreviated ids name; one that is unknown or ambiguous is left out."""
    asked = sorted(head for head in heads if _PREFIX.match(head))
    lines = "".join(f"{head}^{{commit}}\n" for head in asked).encode()
    raw = baton.repo.git.out("cat-file", "--batch-check", "--buffer", stdin=lines) if asked else b""
    told = zip(asked, (line.split(" ") for line in raw.decode("utf-8", "replace").splitlines()), strict=True)
    # A branch may be called like an id: git would take it first.
    return {head: oid for head, (oid, *rest) in told if rest[:1] == ["commit"] and oid.startswith(head)}


class _Import:
    """Import in the making, track by track; nothing is written before ``apply``. Called with the lock held."""

    def __init__(self, baton: Baton) -> None:
        self.baton, self.store, self.algorithm = baton, baton.store, baton.repo.layout.algorithm
        self.revision = Revision(baton.store)
        tracks = self.store.chains()[0]
        self.tracks = {looks(track): track for track in tracks} | {track: track for track in tracks}
        self.added: list[tuple[str, int]] = []
        self.new: dict[Oid, Checkpoint] = {}
        self.warnings: list[str] = []
        self.trees: dict[Oid, Oid | None] = {}

    def knows(self, track: str) -> bool:
        """Whether a track exists or is about to."""
        return self.tracks.get(track) == track

    def track(self, track: str, items: Sequence[tuple[Checkpoint, OldRecord]]) -> None:
        """Plan one track. Raises RecordError for a name that looks like another's, and a broken chain."""
        twin = self.tracks.get(track) or self.tracks.get(looks(track), track)
        if twin != track:
            raise RecordError(f"{items[0][1].source}: {alike(track, twin)}")
        if track not in self.tracks:
            try:
                check_new_track(track, kept=True)
            except UsageError as error:
                raise RecordError(f"{items[0][1].source}: {error.message}") from None
        exists = self.store.objects.info(chain_ref(track)) is not None
        before = self.store.history(track).items if exists else ()
        known = [s.checkpoint for s in (*before, *self.baton.exported(before))]  # older versions stored words as they were
        new = {self._id(c): c for c in unknown([(c, r.latest, r.old.timed) for c, r in items], known)}
        own = {self._id(c) for c, record in items if not record.foreign}
        self.revision.join(track, [self._link(oid, c) for oid, c in new.items() if oid in own])
        plan = self.revision.join(track, [self._link(oid, c) for oid, c in new.items() if oid not in own], fetched=True)
        if exists or plan.added:
            self.tracks |= {looks(track): track, track: track}
        self.added.append((track, plan.added))
        self.new |= {link.id: new[link.id] for link in plan.fresh}

    def _id(self, checkpoint: Checkpoint) -> Oid:
        return new_object(self.algorithm, "blob", encode(checkpoint)).oid

    def _link(self, oid: Oid, checkpoint: Checkpoint) -> Link:
        empty = new_object(self.algorithm, "tree", b"").oid
        if checkpoint.head not in self.trees and checkpoint.head is not None:
            self.trees[checkpoint.head] = self.store.tree_of(checkpoint.head)
        return Link(
            id=oid,
            created=checkpoint.created,
            message=message(checkpoint.step, encode(checkpoint)),
            tree=(self.trees.get(checkpoint.head) if checkpoint.head else None) or empty,
            base=checkpoint.head,
            author=NOBODY + b" %d +0000" % int(checkpoint.created.timestamp()),
        )

    def apply(self) -> None:
        """Write everything: the objects, then all refs in one transaction."""
        self.revision.apply()
        self.warnings += self.revision.warnings
        lost = sum(1 for c in self.new.values() if c.head is None and "imported.head" in dict(c.extra))
        if lost:
            name = "checkpoint names" if lost == 1 else "checkpoints name"
            self.warnings.append(f"{lost} {name} a commit that is not here or not unique; it is kept as extra.imported.head")


def history_files(stored: Stored, taken: Collection[str] = (), *, written: bool = False) -> tuple[tuple[str, bytes], ...]:
    """Return the two files of one exported checkpoint: their names, told apart from those ``taken`` (in lower case), and
    bytes. ``written``: as ``exported_json`` has it."""
    return _told_apart(_made(stored, written), taken)


def _made(stored: Stored, written: bool) -> tuple[str, Oid, bytes, bytes]:
    """Return the two files with the beginning of their names, and the id that tells them apart from others."""
    c = stored.checkpoint
    stem = f"{EXPORTED}{re.sub('[-:.]', '', timestamp(c.created))}_{_slug(c.label) if c.label else stored.id[:10]}"
    return stem, stored.id, checkpoint_markdown(stored), exported_json(stored, written=written)


def _told_apart(made: tuple[str, Oid, bytes, bytes], taken: Collection[str]) -> tuple[tuple[str, bytes], ...]:
    stem, oid, *data = made
    for more in ("", f"_{oid[:10]}", f"_{oid}"):
        if (stem + more + ".md").lower() not in taken:
            stem += more
            break
    return tuple(zip((stem + ".md", stem + ".json"), data, strict=True))


def _slug(label: str) -> str:
    """Encode a label as a part of a file's name, as a track's name is, cut at a character."""
    result = ""
    for char in label:
        coded = char if char in _PLAIN else "".join(f"%{b:02X}" for b in char.encode("utf-8", "surrogatepass"))
        if len(result) + len(coded) > _MAX_STEM:
            break
        result += coded
    return result


def export(baton: Baton, *, history: bool) -> list[str]:
    """Write LATEST again and, with ``history``, two files a checkpoint; what was not written, and why, comes back.

    Raises BatonError where there is no place to write to, OSError for a disk that does not take them.
    """
    where = baton.latest
    if where is None:
        raise BatonError("a bare repository has no work tree to export to", "name an absolute --checkpoint-dir")
    warnings = baton.refresh()
    if not history:
        return warnings
    chains = baton.store.chains()[0]

    def everything(brief: bool) -> History:
        with baton.store.ahead([*chains.values()], brief=brief):
            return baton.store.everything(chains, chains)

    found = baton.store.surely(everything)
    warnings += [f"{in_quotes(problem.where)} is left out: {problem.reason}" for problem in found.problems]
    return warnings + mirror.write_files(baton.repo, where, _history(baton, found.items[::-1]))


def _history(baton: Baton, items: Sequence[Stored]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of checkpoints, as ``history_files``, with what ``baton`` redacts redacted."""
    redact, taken = baton.redactor, set[str]()

    def made(stored: Stored) -> tuple[str, Oid, bytes, bytes]:
        stored = baton.store.read(stored)
        return _made(stored, True) if is_clean(redact, stored) else _made(baton.exported([stored])[0], False)

    for files in baton.store.mapped(made, items, lambda s: (s,)):
        pair = _told_apart(files, taken)
        taken |= {name.lower() for name, _ in pair}
        yield from pair
