"""Import of one record of an older, file-based checkpoint folder. Pure; no word of a record is dropped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from gitbaton.base.codec.checkpoint import EXTRA_KEY, decode
from gitbaton.base.codec.text import check_track
from gitbaton.base.errors import RecordError, UsageError
from gitbaton.base.model import Checkpoint, Validation
from gitbaton.base.values import replace, value

_NEAR = {
    "track": ("track", "track_name"),
    "step": ("step", "current_step", "title"),
    "note": ("note", "notes"),
    "next_cmd": ("next_cmd", "next_command", "nextCmd", "next"),
    "validation": ("validation", "validations", "validation_status"),
    "decisions": ("decisions", "decision"),
    "branch": ("branch", "git_branch"),
    "head": ("head", "git_head", "commit", "sha"),
    "label": ("label",),
    "timestamp": ("timestamp", "created", "created_at", "time", "date", "ts"),
    "extra": ("extra", "extras"),
}
_OURS = {"v", "kind", "created", "files"}
_GREEN = {"green", "pass", "passed", "passes", "passing", "ok", "success", "succeeded", "true", "done"}
_FAILED = {"failed", "fail", "fails", "failing", "failure", "red", "error", "broken", "false"}
_VERDICT = ("status", "result", "validation", "state", "outcome")
_EPOCH = re.compile(r"([0-9]{9,10})(?:\.([0-9]{1,9}))?\Z")
_EPOCH_MS = re.compile(r"([0-9]{10})([0-9]{3})\Z")
_MOMENT = re.compile(
    r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})(?:[Tt _-]?([0-9]{2})[:.-]?([0-9]{2})(?:[:.-]?([0-9]{2})(?:[.,]?([0-9]{1,9}))?)?)?"
    r" ?(Z|z|UTC|([+-])([0-9]{2}):?([0-9]{2})?)?\Z"
)


@value
class Old:
    """A record of an older folder as a checkpoint without head; ``head`` is what it says there, ``timed`` whether it says
    when, ``ours`` whether gitbaton wrote it."""

    checkpoint: Checkpoint
    head: str
    timed: bool
    ours: bool


def older(
    record: Mapping[str, Any], *, track: str | None = None, created: datetime | None = None, label: str | None = None
) -> Old:
    """The checkpoint that a record tells of. What is given here counts where the record is silent; a ``track`` always.

    Raises RecordError for a record that names no track or no time, or holds what cannot be understood.
    """
    try:
        return _ours(record, track) if record.keys() >= _OURS else _theirs(record, track, created, label)
    except UsageError as error:
        raise RecordError(error.message) from None


def _ours(record: Mapping[str, Any], track: str | None) -> Old:
    """A record that ``git baton export`` or LATEST.json wrote: its words to the letter, without the files' state."""
    c = decode(json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    known = replace(c, track=check_track(track or c.track), created=_sane(c.created), head=None, files=None, previous=None)
    return Old(checkpoint=known, head=c.head or "", timed=True, ours=True)


def _theirs(record: Mapping[str, Any], track: str | None, created: datetime | None, label: str | None) -> Old:
    left = dict(record)
    fields = {field: _take(left, names) for field, names in _NEAR.items()}
    name = track if track is not None else fields["track"]
    if not isinstance(name, str):
        raise RecordError("it names no track")
    moment = moment_of(fields["timestamp"])
    if moment is None and fields["timestamp"] not in (None, ""):
        raise RecordError(f"its time {_text(fields['timestamp'])[:60]!r} cannot be understood")
    if moment is None and created is None:
        raise RecordError("it does not say when it was taken")
    said = label if "label" not in record and label is not None else _text(fields["label"]).strip()
    validation, words = verdict(fields["validation"])
    checkpoint = Checkpoint(
        track=check_track(name),
        step=_text(fields["step"]).strip() or said or "(imported)",
        note=_text(fields["note"]),
        next_cmd=_text(fields["next_cmd"]),
        validation=validation,
        decisions=_decisions(fields["decisions"]),
        label=said or None,
        branch=_text(fields["branch"]) or None,
        created=moment or _sane(created or datetime.min),
        extra=_extra(fields["extra"], left, words),
    )
    return Old(checkpoint=checkpoint, head=_text(fields["head"]).strip(), timed=moment is not None, ours=False)


def _take(left: dict[str, Any], names: Iterable[str]) -> Any:
    """Return the first of several near names that says something, taken out with those that say nothing or the same; the
    others stay. An empty list or map is taken where no other says more."""
    there = {name: left[name] for name in names if left.get(name) not in (None, "")}
    first = next((name for name, item in there.items() if item not in ([], {})), next(iter(there), ""))
    found = there.get(first)
    for name in names:
        if left.get(name) in (None, "", [], {}) or _text(left[name]) == _text(found):
            left.pop(name, None)
    return found


def _text(item: Any) -> str:
    """A text as it is, a list of texts as its lines, anything else as JSON."""
    if item is None:
        return ""
    if isinstance(item, str):
        return item
    if isinstance(item, list) and item and all(isinstance(part, str) for part in item):
        return "\n".join(item)
    return json.dumps(item, ensure_ascii=False)


def _decisions(item: Any) -> tuple[str, ...]:
    if item is None:
        return ()
    return tuple(_text(part) for part in item) if isinstance(item, list) else (_text(item),)


def _extra(item: Any, left: Mapping[str, Any], validation: str) -> tuple[tuple[str, str], ...]:
    """The record's extras and what else it says; keys that cannot be ours go together under ``imported.extra``."""
    if item is not None and not isinstance(item, dict):
        raise RecordError("its 'extra' is not a map")
    result: dict[str, str] = {}
    others: dict[str, Any] = {}
    for where, pairs in (("", item or {}), ("record.", left)):
        for key, said in pairs.items():
            if EXTRA_KEY.match(key) and key not in result:
                result[key] = _text(said)
            elif result.get(key) != _text(said):
                others[where + key] = said
    if validation:
        result.setdefault("imported.validation", validation)
    if others:
        result["imported.extra"] = json.dumps(others, ensure_ascii=False)
    return tuple(result.items())


def verdict(item: Any) -> tuple[Validation, str]:
    """green, pending or failed for what a validation says, a list or map of several included; and its words, where they
    say more than that."""
    words = _verdicts(item)
    found: Validation = "pending"
    if "failed" in words:
        found = "failed"
    elif words and words <= {"green"}:
        found = "green"
    text = _text(item).strip() if item not in ([], {}) else ""
    return found, "" if text == found else text


def _verdicts(item: Any) -> set[Validation]:
    if isinstance(item, dict):
        named = [item[key] for key in _VERDICT if key in item]
        return {word for part in named or item.values() for word in _verdicts(part)}
    if isinstance(item, list):
        return {word for part in item for word in _verdicts(part)}
    text = _text(item).strip().lower()
    if not text:
        return set()
    for word in (text, *re.split(r"[:=]", text)[-1:]):
        if word.strip() in _GREEN:
            return {"green"}
        if word.strip() in _FAILED:
            return {"failed"}
    return {"pending"}


def moment_of(item: Any) -> datetime | None:
    """A moment in UTC from ISO 8601, a compact form of it, or seconds or milliseconds since 1970; None when it is none of
    these. Without a zone it is taken for UTC. Raises RecordError for one before 1970 or after 2099."""
    if isinstance(item, bool) or not isinstance(item, (int, float, str)):
        return None
    text = item.strip() if isinstance(item, str) else repr(item)
    epoch = _EPOCH_MS.match(text) or _EPOCH.match(text)
    if epoch:
        return _sane(datetime.fromtimestamp(int(epoch[1]), UTC).replace(microsecond=_micro(epoch[2])))
    found = _MOMENT.match(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    try:
        when = datetime(year, month, day, hour, minute, second, _micro(found[7]), UTC)
    except ValueError:
        return None
    return _sane(when - _offset(found))


def _micro(digits: str | None) -> int:
    return int((digits or "0").ljust(6, "0")[:6])


def _offset(found: re.Match[str]) -> timedelta:
    if not found[9]:
        return timedelta()
    offset = timedelta(hours=int(found[10]), minutes=int(found[11] or 0))
    return -offset if found[9] == "-" else offset


def _sane(moment: datetime) -> datetime:
    if not 1970 <= moment.year <= 2099:
        raise RecordError(f"its time {moment.isoformat()} is before 1970 or after 2099")
    return moment


def unknown(items: Iterable[tuple[Checkpoint, bool, bool]], known: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return the checkpoints of a folder that a track does not have: by time, label and words, not by id, because a head that
    was unknown may be known by now.

    Each comes with whether LATEST.json repeats it, which then adds only what says more than the same words elsewhere, and
    whether its time is its own.
    """
    items = list(items)
    there = {_key(c) for c in known}
    new = [c for c, latest, _ in items if not latest and _key(c) not in there]
    twins: dict[object, list[Checkpoint]] = {}
    for c in (*known, *new):
        twins.setdefault(_words(c), []).append(c)
    for c, latest, timed in items:
        repeats = any(_covers(twin, c, timed) for twin in twins.get(_words(c), ()))
        if latest and not repeats and _key(c) not in there:
            new.append(c)
    return new


def _key(c: Checkpoint) -> tuple[object, ...]:
    return c.created, c.label, _words(c)


def _words(c: Checkpoint) -> tuple[object, ...]:
    return c.step, c.note, c.next_cmd, c.validation, c.decisions


def _covers(twin: Checkpoint, c: Checkpoint, timed: bool) -> bool:
    """Whether ``twin``, which has the same words, says all that ``c`` says; times count to the second."""
    same = not timed or twin.created.replace(microsecond=0) == c.created.replace(microsecond=0)
    pairs = ((c.label, twin.label), (c.branch, twin.branch), (c.head, twin.head))
    return same and all(mine in (None, theirs) for mine, theirs in pairs) and set(c.extra) <= set(twin.extra)
