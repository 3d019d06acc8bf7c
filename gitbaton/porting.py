"""Import of older, file-based checkpoint folders, and export of checkpoints as files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from gitbaton import mirror
from gitbaton.baton import Baton
from gitbaton.codec import check_track, encode, encode_track, entry, message, parse_note, timestamp
from gitbaton.errors import BatonError, UsageError
from gitbaton.git.objects import OID, new_object
from gitbaton.model import VALIDATIONS, Checkpoint, Oid, Stored, Validation
from gitbaton.render import checkpoint_markdown, exported_json
from gitbaton.values import replace, value

HISTORY = re.compile(r"context_checkpoint_(?P<time>[0-9TZ:_.+-]+?)_(?P<label>.*)\.json\Z")
_NEAR = {
    "step": ("step", "title", "current_step"),
    "note": ("note", "notes"),
    "next_cmd": ("next_cmd", "next", "next_command", "nextCmd"),
    "validation": ("validation", "validations", "validation_status"),
    "branch": ("branch", "git_branch"),
    "head": ("head", "commit", "sha", "git_head"),
    "label": ("label",),
    "timestamp": ("timestamp", "created", "created_at", "time", "date", "ts"),
    "extra": ("extra", "extras"),
    "track": ("track",),
}
_OURS = ("v", "id", "decisions", "kind", "agent", "files", "previous")
_GREEN = {"green", "pass", "passed", "passing", "ok", "success", "true"}
_FAILED = {"failed", "fail", "failing", "red", "error", "false"}
_COMPACT = ("%Y%m%dT%H%M%S%fZ", "%Y%m%dT%H%M%SZ", "%Y%m%d_%H%M%S", "%Y%m%d-%H%M%S", "%Y-%m-%d_%H-%M-%S", "%Y%m%d%H%M%S")
_KEY = re.compile(r"[^A-Za-z0-9._-]")


@value
class Old:
    """A record of an older folder: where it was read, the checkpoint it becomes, and the id it says it has."""

    source: str
    checkpoint: Checkpoint
    id: Oid | None


@value
class Imported:
    """What an import did: new checkpoints by track."""

    added: tuple[tuple[str, int], ...]
    current: str | None


def read_folder(folder: str) -> tuple[list[Old], str | None]:
    """The records of LATEST.json and context_checkpoint_*.json, and the folder's current track.

    Raises UsageError that names the first file which cannot be understood; nothing is written by then.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise UsageError(f"'{folder}' cannot be read: {error.strerror}") from None
    found: list[Old] = []
    current = None
    for name in names:
        match = HISTORY.match(name)
        if match:
            data = _load(folder, name)
            hint = _time(match.group("time"))
            found.append(_old(name, data, None, hint, match.group("label")))
    if "LATEST.json" in names:
        data = _load(folder, "LATEST.json")
        tracks = data.get("tracks")
        if not isinstance(tracks, dict):
            raise UsageError("'LATEST.json' has no map 'tracks'")
        said = data.get("current_track")
        current = said if isinstance(said, str) and said in tracks else None
        for track, record in tracks.items():
            if not isinstance(record, dict):
                raise UsageError(f"'LATEST.json': track '{track}' is not a record")
            found.append(_old("LATEST.json", record, track, _time(data.get("generated")), None))
    if not found:
        raise UsageError(f"'{folder}' holds no LATEST.json and no context_checkpoint_*.json")
    return found, current


def _load(folder: str, name: str) -> dict[str, Any]:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            data = json.loads(file.read(4 << 20).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"'{name}' is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise UsageError(f"'{name}' is not an object")
    return data


def _old(source: str, record: dict[str, Any], track: str | None, hint: datetime | None, label: str | None) -> Old:
    """One record as a checkpoint: fields by their own or a near name, everything else into ``extra``."""
    fields = {field: _pick(record, names) for field, names in _NEAR.items()}
    name = track if track is not None else fields["track"]
    if not isinstance(name, str):
        raise UsageError(f"'{source}' names no track")
    created = _time(fields["timestamp"]) or hint
    if created is None:
        raise UsageError(f"'{source}': track '{name}' has no timestamp that can be understood")
    said = _text(fields["label"]) or (label if label and label != "None" else "") or None
    step = _text(fields["step"]) or said or "(imported)"
    validation, more = _validation(fields["validation"])
    head = _text(fields["head"])
    extra = {**_extra(source, fields["extra"]), **more, **({"imported.head": head} if head and not OID.match(head) else {})}
    for key, item in record.items():
        if key not in _OURS and not any(key in names for names in _NEAR.values()):
            extra[_key(key)] = _text(item)
    decisions = record.get("decisions")
    checkpoint = Checkpoint(
        track=check_track(name),
        step=step,
        note=_text(fields["note"]),
        next_cmd=_text(fields["next_cmd"]),
        validation=validation,
        decisions=tuple(_text(d) for d in decisions) if isinstance(decisions, list) else (),
        label=said,
        branch=_text(fields["branch"]) or None,
        head=head if OID.match(head) else None,
        created=created,
        extra=tuple(extra.items()),
    )
    try:
        encode(checkpoint)
    except UsageError as error:
        raise UsageError(f"'{source}': {error.message}") from None
    own = record.get("id")
    return Old(source=source, checkpoint=checkpoint, id=own if isinstance(own, str) and OID.match(own) else None)


def _pick(record: dict[str, Any], names: Sequence[str]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _text(item: Any) -> str:
    if item is None:
        return ""
    if isinstance(item, str):
        return item
    return json.dumps(item, ensure_ascii=False)


def _key(key: str) -> str:
    return _KEY.sub("_", key)[:64].lstrip("._-") or "x"


def _extra(source: str, item: Any) -> dict[str, str]:
    if item is None:
        return {}
    if not isinstance(item, dict):
        raise UsageError(f"'{source}': 'extra' is not a map")
    return {_key(str(key)): _text(text) for key, text in item.items()}


def _validation(item: Any) -> tuple[Validation, dict[str, str]]:
    """green, pending or failed; words that are none of ours are kept in ``extra``."""
    text = _text(item).strip()
    word = text.lower()
    if word in VALIDATIONS:
        return next(v for v in VALIDATIONS if v == word), {}
    found: Validation = "green" if word in _GREEN else "failed" if word in _FAILED else "pending"
    return found, {"imported.validation": text} if text else {}


def _time(item: Any) -> datetime | None:
    """A moment in UTC from ISO 8601, a compact form or seconds since 1970; None when it is none of these."""
    if isinstance(item, bool) or item is None:
        return None
    try:
        if isinstance(item, (int, float)):
            return datetime.fromtimestamp(item, UTC)
        text = str(item).strip()
        for form in _COMPACT:
            try:
                return datetime.strptime(text, form).replace(tzinfo=UTC)
            except ValueError:
                continue
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def import_folder(baton: Baton, folder: str) -> Imported:
    """Put an older folder's checkpoints into tracks; a second time adds nothing. Raises BatonError, then nothing is done."""
    from gitbaton.store.join import insert

    records, current = read_folder(folder)
    by_track: dict[str, list[Checkpoint]] = {}
    for track, checkpoints in _by_track(baton, records):
        by_track[track] = checkpoints
    added = []
    with baton.repo.lock(()):
        for track, checkpoints in by_track.items():
            added.append((track, insert(baton.store, track, [_link(baton, c) for c in checkpoints])))
            _note(baton, checkpoints)
    if current is not None and baton.current() is None:
        baton.use(current)
    else:
        baton.refresh()
    return Imported(added=tuple(added), current=baton.current())


def _by_track(baton: Baton, records: list[Old]) -> Iterator[tuple[str, list[Checkpoint]]]:
    """New checkpoints of each track in the order of time; equal times are told apart by a microsecond."""
    tracks = sorted({r.checkpoint.track for r in records})
    existing = set(baton.store.chains()[0])
    for track in tracks:
        known = {s.id for s in baton.store.history(track).items} if track in existing else set()
        _refuse_twin(track, existing)
        chosen: dict[tuple[datetime, str], Checkpoint] = {}
        for record in records:
            c = record.checkpoint
            if c.track == track and record.id not in known:
                chosen.setdefault((c.created, c.step), c)
        result: list[Checkpoint] = []
        for c in sorted(chosen.values(), key=lambda c: (c.created, c.step)):
            late = result and c.created <= result[-1].created
            moment = result[-1].created + timedelta(microseconds=1) if late else c.created
            result.append(replace(c, created=moment, head=_known_head(baton, c.head)))
        yield track, result


def _refuse_twin(track: str, existing: set[str]) -> None:
    twin = next((t for t in existing if t != track and t.casefold() == track.casefold()), None)
    if twin is not None:
        raise UsageError(f"track '{track}' differs from the track '{twin}' only in case")


def _known_head(baton: Baton, head: Oid | None) -> Oid | None:
    found = baton.repo.objects.info(head) if head else None
    return head if found is not None and found.kind == "commit" else None


def _link(baton: Baton, checkpoint: Checkpoint) -> Any:
    from gitbaton.store.join import Link
    from gitbaton.store.write import NOBODY

    algorithm = baton.repo.layout.algorithm
    raw = encode(checkpoint)
    empty = new_object(algorithm, "tree", b"").oid
    return Link(
        id=new_object(algorithm, "blob", raw).oid,
        created=checkpoint.created,
        message=message(checkpoint.step, raw),
        tree=baton.store.tree_of(checkpoint.head) or empty,
        base=checkpoint.head,
        author=NOBODY + b" %d +0000" % int(checkpoint.created.timestamp()),
    )


def _note(baton: Baton, checkpoints: list[Checkpoint]) -> None:
    from gitbaton.store.notes import put_notes

    tree = baton.store.notes_tree()[1]
    notes: dict[Oid, bytes] = {}
    for c in checkpoints:
        if c.head is not None:
            oid = new_object(baton.repo.layout.algorithm, "blob", encode(c)).oid
            note = parse_note(notes.get(c.head) or baton.store.note(c.head, tree))
            if oid not in {known for known, _ in note.entries}:
                notes[c.head] = note.with_entry(oid, entry(oid, c)).render()
    if notes:
        put_notes(baton.store, notes)


def history_files(stored: Stored, taken: Container[str] = ()) -> tuple[tuple[str, bytes], ...]:
    """The two files of one exported checkpoint: their names, told apart from those ``taken``, and bytes."""
    c = stored.checkpoint
    moment = timestamp(c.created).replace("-", "").replace(":", "").replace(".", "")
    stem = f"context_checkpoint_{moment}_{encode_track(c.label or stored.id[:10])[:80]}"
    if stem + ".md" in taken:
        stem += f"_{stored.id}"
    return (stem + ".md", checkpoint_markdown(stored)), (stem + ".json", exported_json(stored))


def export(baton: Baton, *, history: bool) -> list[str]:
    """Write LATEST again and, with ``history``, two files a checkpoint; warnings come back. Raises BatonError."""
    where = baton.latest
    if where is None:
        raise BatonError("a bare repository has no work tree to export to", "name an absolute --checkpoint-dir")
    warnings = baton.refresh()
    if not history:
        return warnings
    found = baton.history(everything=True)
    files: dict[str, bytes] = {}
    for stored in found.items:
        for name, data in history_files(stored, files):
            files[name] = data
    with baton.repo.lock(()):
        return warnings + mirror.write_files(baton.repo, where, list(files.items()))
