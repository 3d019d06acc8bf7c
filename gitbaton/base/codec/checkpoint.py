"""Checkpoint <-> canonical JSON, version 1, with the limits that writers and readers share, and what was observed; its commit's
message; and the blob of what was said, beside the conversation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache, partial

from gitbaton.base.codec.text import (
    MAX_BYTES,
    MAX_EXTRAS,
    MAX_FIELD,
    Json,
    Reader,
    canonical,
    check_track,
    parse,
    path_document,
    subject,
    timestamp,
)
from gitbaton.base.codec.words import ODD_BLANKS, in_quotes, is_hidden
from gitbaton.base.errors import BatonError, RecordError, UsageError
from gitbaton.base.model import (
    KINDS,
    OPS,
    VALIDATIONS,
    Action,
    Agent,
    Carried,
    Checkpoint,
    ClientPlan,
    Decided,
    FileState,
    Flag,
    Here,
    ImportedTurn,
    IndexState,
    Observed,
    Operation,
    PlanItem,
    Prompt,
    Ran,
    Restore,
    Running,
    Skipped,
    Standing,
    TestRun,
    Told,
    Transcript,
    Turn,
    Usage,
    Withdrawn,
    WorktreeId,
)
from gitbaton.base.values import cast, waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOLD_VERSION = 1
STATES = ("open", "doing", "done", "dropped")
RESULTS = ("passed", "failed", "unknown")
SAID_AS = ("", "answer", "refused", "approved", "rejected")
MAX_LISTED = 50
"""Plan items, edited files."""
MAX_FEW = 20
"""Plans, test commands, names of failed tests, prompts."""
MAX_WITHDRAWN = 100
MAX_ABOUT = 20
"""Paths of one decision."""
MAX_NUMBER = 1_000_000
MAX_MADE = 1000
"""Commits of one turn."""
VERSION = 1
ROOT_MESSAGE = b"gitbaton root 1\n"
_SUBJECT_BYTES = 72
MAX_SKIPPED = 1000
"""Paths that are left out; paths that were edited in a turn."""
MAX_TRACK = 200
MAX_FLAGS = 1000
_MAX_PATHS = 256 << 10  # bytes of the skipped paths listed, so that no work tree can push a checkpoint over 1 MiB
_WAS = re.compile(rb'\n  "was": \[([^\]]*)\n  \]')
_ID = re.compile(rb'"([0-9a-f]{40}|[0-9a-f]{64})"')
EXTRA_KEY_FORM = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
EXTRA_KEY = re.compile(EXTRA_KEY_FORM + r"\Z")
_BITS = re.compile(r"a?s?i?\Z")
_REASON = re.compile(r"[a-z][a-z-]{0,39}\Z")
_FORM = re.compile(
    r"bytes=(0|[1-9][0-9]{0,14}) lines=(0|[1-9][0-9]{0,14})"
    r"(?: last=([A-Za-z0-9._:-]{1,128}))?(?: stored=([0-9a-f]{40}|[0-9a-f]{64}))?\Z"
)
_LAST = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")
_DIGEST = re.compile(r"[0-9a-f]{16}\Z")


def _given(**fields: Json) -> dict[str, Json]:
    """Return an object without the keys that are None."""
    return {key: found for key, found in fields.items() if found is not None}


def _time(at: datetime | None) -> str | None:
    return None if at is None else timestamp(at)


def observed_document(o: Observed) -> dict[str, Json]:
    """Return the JSON object, keys in the canonical order; what there is nothing of is left out."""
    return {
        **_given(
            plans=[_plan_document(plan) for plan in o.plans] or None,
            tests=[_test_document(run) for run in o.tests] or None,
            edited=_paths(o.edited, o.edited_more),
            asked=[_prompt_document(prompt) for prompt in o.asked] or None,
        ),
        **_given(turns=o.turns, said=o.said, milestone=_time(o.milestone), until=_time(o.until), partial=o.partial or None),
    }


def _prompt_document(prompt: Prompt) -> dict[str, Json]:
    more = _given(kind=prompt.kind or None, about=prompt.about or None, earlier=prompt.earlier or None)
    return {"text": prompt.text, "at": timestamp(prompt.at), **more}


def _maybe_prompt_document(prompt: Prompt | None) -> Json:
    return None if prompt is None else _prompt_document(prompt)


def _plan_document(plan: ClientPlan) -> Json:
    items: list[Json] = [{"text": item.text, "state": item.state} for item in plan.items]
    said: dict[str, Json] = {"agent": plan.agent, "session": plan.session, "changed": timestamp(plan.changed), "items": items}
    return {**said, **_given(more=plan.more or None, title=plan.title or None)}


def _test_document(run: TestRun) -> Json:
    return _given(
        command=run.command,
        result=run.result,
        passed=run.passed,
        failed=run.failed,
        skipped=run.skipped,
        names=list(run.names) or None,
        empty=run.empty or None,
        started=_time(run.started),
        ended=timestamp(run.ended),
        tree=run.tree,
        edited=_paths(run.edited, run.edited_more),
        exact=run.exact or None,
        lacks=run.lacks or None,
    )


def _paths(paths: tuple[str, ...], more: int) -> Json:
    """The JSON object of some paths; None where there are none."""
    return _given(paths=[path_document(path) for path in paths], more=more or None) if paths else None


def read_observed(r: Reader) -> Observed:
    """Return the value of a JSON object that any writer may have made. Raises RecordError."""
    return Observed(**{name: read(r) for name, read in _OBSERVED.items()})


_OBSERVED: dict[str, Callable[[Reader], Any]] = {
    "plans": lambda r: tuple(_plan(one) for one in _objects(r, "plans", MAX_FEW)),
    "tests": lambda r: tuple(_test(one) for one in _objects(r, "tests", MAX_FEW)),
    "edited": lambda r: _read_paths(r, "edited")[0],
    "edited_more": lambda r: _read_paths(r, "edited")[1],
    "asked": lambda r: tuple(map(_prompt, _objects(r, "asked", MAX_FEW))),
    "turns": lambda r: r.count("turns", 0),
    "said": lambda r: r.oid("said") if "said" in r.value else None,
    "milestone": lambda r: r.time("milestone") if "milestone" in r.value else None,
    "until": lambda r: r.time("until") if "until" in r.value else None,
    "partial": lambda r: r.flag("partial") if "partial" in r.value else False,
}
"""How each field of what was observed is read."""


def _objects(r: Reader, key: str, limit: int) -> list[Reader]:
    where = f"{r.where}.{key}"
    return [Reader(item, where) for item in r.items(key, limit)] if key in r.value else []


def _prompt(r: Reader) -> Prompt:
    """Read a prompt, which each checkpoint of a session names again."""
    fields = tuple(r.value.items())
    if all(isinstance(item, (str, bool)) for _, item in fields):
        return _prompt_of(fields, r.where)
    return _read_prompt(r)


@lru_cache(maxsize=4096)
def _prompt_of(fields: tuple[tuple[str, Json], ...], where: str) -> Prompt:
    return _read_prompt(Reader(dict(fields), where))


def _read_prompt(r: Reader) -> Prompt:
    return Prompt(
        text=r.text("text"),
        at=r.time("at"),
        kind=r.one_of("kind", SAID_AS) if "kind" in r.value else "",
        about=r.text("about") if "about" in r.value else "",
        earlier=r.flag("earlier") if "earlier" in r.value else False,
    )


def _plan(r: Reader) -> ClientPlan:
    items = tuple(PlanItem(text=i.text("text"), state=i.one_of("state", STATES)) for i in _objects(r, "items", MAX_LISTED))
    changed = r.time("changed")
    return ClientPlan(
        agent=r.text("agent"),
        session=r.maybe("session"),
        changed=changed,
        items=items,
        more=r.count("more", 0),
        title=r.text("title") if "title" in r.value else "",
    )


def _test(r: Reader) -> TestRun:
    edited, more = _read_paths(r, "edited")
    names = r.items("names", MAX_FEW) if "names" in r.value else []
    return TestRun(
        command=r.text("command"),
        result=r.one_of("result", RESULTS),
        passed=_maybe_count(r, "passed"),
        failed=_maybe_count(r, "failed"),
        skipped=_maybe_count(r, "skipped"),
        names=tuple(Reader({"name": name}, f"{r.where}.names").text("name") for name in names),
        empty=r.flag("empty") if "empty" in r.value else False,
        started=r.time("started") if "started" in r.value else None,
        ended=r.time("ended"),
        tree=r.oid("tree") if "tree" in r.value else None,
        edited=edited,
        edited_more=more,
        exact=r.flag("exact") if "exact" in r.value else False,
        lacks=r.text("lacks") if "lacks" in r.value else "",
    )


def _maybe_count(r: Reader, key: str) -> int | None:
    return r.count(key) if key in r.value else None


def _read_paths(r: Reader, key: str, limit: int = MAX_LISTED) -> tuple[tuple[str, ...], int]:
    if key not in r.value:
        return (), 0
    inner = Reader(r.value[key], f"{r.where}.{key}")
    found = [Reader({"path": item}, inner.where).path("path") for item in inner.items("paths", limit)]
    return tuple(found), inner.count("more", 0)


def told_bytes(told: Told) -> bytes:
    """Return what was said as canonical JSON."""
    return canonical(told_document(told))


def told_document(told: Told) -> dict[str, Json]:
    """Return what was said as a JSON object, keys in the canonical order; what came after the first form of it is left out
    where there is nothing of it."""
    first: dict[str, Json] = {
        "v": TOLD_VERSION,
        "asked": [_prompt_document(prompt) for prompt in told.asked],
        "listed": _maybe_prompt_document(told.listed),
        "said": _maybe_prompt_document(told.said),
        "commands": [_ran_document(ran) for ran in told.commands],
    }
    return first | _given(
        latest=_maybe_prompt_document(told.latest),
        worked=_maybe_prompt_document(told.worked),
        approved=_maybe_prompt_document(told.approved),
        texts=[_prompt_document(prompt) for prompt in told.texts] or None,
        actions=[_action_document(action) for action in told.actions] or None,
        checks=[_ran_document(ran) for ran in told.checks] or None,
        running=[{"text": one.text, "since": timestamp(one.since)} for one in told.running] or None,
        read=[path_document(path) for path in told.read] or None,
        found=[path_document(path) for path in told.found] or None,
        error=None if told.error is None else _ran_document(told.error),
    )


def _ran_document(ran: Ran) -> Json:
    times: dict[str, Json] = {"started": _time(ran.started), "ended": timestamp(ran.ended)}
    return {"command": ran.command, "status": ran.status, **times, "output": ran.output}


def _action_document(action: Action) -> Json:
    more = _given(count=action.count if action.count != 1 else None, status=action.status, output=action.output or None)
    return {"text": action.text, "at": timestamp(action.at), **more}


def read_told(raw: bytes) -> Told:
    """Read what was said from bytes that any writer may have made; what 0.2 wrote has one text of the turn that goes on. Raises
    RecordError."""
    r = Reader(parse(raw), "what was said")
    if r.count("v") != TOLD_VERSION:
        raise RecordError(f"what was said has format version {r.count('v')}; this gitbaton reads {TOLD_VERSION}")
    saying = _maybe_prompt(r, "saying")
    texts = tuple(map(_prompt, _objects(r, "texts", MAX_FEW))) or ((saying,) if saying else ())
    error = r.maybe_object("error") if "error" in r.value else None
    paths = {key: r.items(key, MAX_FEW) if key in r.value else [] for key in ("read", "found")}
    read, named = (tuple(Reader({"path": item}, f"{r.where}.{key}").path("path") for item in paths[key]) for key in paths)
    return Told(
        asked=tuple(map(_prompt, _objects(r, "asked", MAX_FEW))),
        latest=_maybe_prompt(r, "latest"),
        approved=_maybe_prompt(r, "approved"),
        listed=_maybe_prompt(r, "listed"),
        said=_maybe_prompt(r, "said"),
        worked=_maybe_prompt(r, "worked"),
        texts=texts,
        actions=tuple(map(_action, _objects(r, "actions", MAX_FEW))),
        commands=tuple(map(_ran, _objects(r, "commands", MAX_FEW))),
        checks=tuple(map(_ran, _objects(r, "checks", MAX_FEW))),
        error=_ran(error) if error else None,
        running=tuple(Running(text=one.text("text"), since=one.time("since")) for one in _objects(r, "running", MAX_FEW)),
        read=read,
        found=named,
    )


def _maybe_prompt(r: Reader, key: str) -> Prompt | None:
    found = r.maybe_object(key) if key in r.value else None
    return _prompt(found) if found else None


def _action(r: Reader) -> Action:
    return Action(
        text=r.text("text"),
        at=r.time("at"),
        count=r.count("count", 1),
        status=r.count("status") if "status" in r.value else None,
        output=r.text("output") if "output" in r.value else "",
    )


def _ran(r: Reader) -> Ran:
    return Ran(
        command=r.text("command"),
        status=None if r.value.get("status", 0) is None else r.count("status"),
        started=None if r.value.get("started", 0) is None else r.time("started"),
        ended=r.time("ended"),
        output=r.text("output"),
    )


def validate(checkpoint: Checkpoint) -> None:
    """Refuse with a UsageError what no writer may store: an empty step, text over 64 KiB or not UTF-8, bad extras."""
    c = checkpoint
    _check_text("track", c.track)
    check_track(c.track)
    texts = [
        ("step", c.step),
        ("note", c.note),
        ("next_cmd", c.next_cmd),
        ("validation", c.validation),
        ("kind", c.kind),
        *([("label", c.label)] if c.label is not None else []),
        *(("decision", text) for text in c.decisions),
    ]
    if c.agent is not None:
        who = [("agent's name", c.agent.name), ("agent's session", c.agent.session), ("agent's transcript", c.agent.transcript)]
        who.append(("agent's model", c.agent.model))
        texts += [(name, text) for name, text in who if text is not None]
    for name, text in texts:
        _check_text(name, text)
    _check_visible("step", c.step)
    if c.label is not None:
        _check_visible("label", c.label)
    for name, given, allowed in (("validation", c.validation, VALIDATIONS), ("kind", c.kind, KINDS)):
        if given not in allowed:
            raise UsageError(f"the {name} {in_quotes(given[:60])} is not one of {', '.join(allowed)}")
    _check_extra(c.extra)


def _check_extra(extra: tuple[tuple[str, str], ...]) -> None:
    if len(extra) > MAX_EXTRAS:
        raise UsageError(f"{len(extra)} extras are over the limit of {MAX_EXTRAS}")
    seen = set()
    for key, text in extra:
        _check_text("extra key", key)
        if not EXTRA_KEY.match(key):
            raise UsageError(f"the extra key '{key[:80]}' does not match {EXTRA_KEY_FORM}")
        if key in seen:
            raise UsageError(f"the extra key '{key}' is given twice")
        seen.add(key)
        _check_text(f"extra '{key}'", text)


def _check_text(name: str, text: str) -> None:
    if not isinstance(text, str):
        raise UsageError(f"the {name} is not text")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise UsageError(f"the {name} is not UTF-8") from None
    if size > MAX_FIELD:
        raise UsageError(f"the {name} has {size} bytes; the limit is {MAX_FIELD}")


def _check_visible(name: str, text: str) -> None:
    if not text.strip():
        raise UsageError(f"the {name} is empty")
    if all(is_hidden(c) or c in ODD_BLANKS or c.isspace() for c in text):
        raise UsageError(f"the {name} has no visible character")


def encode(checkpoint: Checkpoint) -> bytes:
    """The canonical bytes; their blob id is the checkpoint's id. Raises UsageError for what must not be stored."""
    validate(checkpoint)
    raw = canonical(document(checkpoint))
    if len(raw) > MAX_BYTES:
        raise UsageError(f"the checkpoint has {len(raw)} bytes; the limit is {MAX_BYTES}")
    return raw


def document(c: Checkpoint) -> dict[str, Json]:
    """Return the JSON object of a checkpoint, keys in the canonical order; only a safety checkpoint has ``restore``, only one
    that carries another's words ``carried``, only one that tells what a client had on record ``observed``, only one with words
    that are older than it, or are to stay, ``standing``, only one of an agent's turn ``turn``, and only one of a transcript's
    ``imported``."""
    agent: Json = None
    if c.agent is not None:
        agent = _agent_document(c.agent)
    words: dict[str, Json] = {
        "v": VERSION,
        "track": c.track,
        "step": c.step,
        "note": c.note,
        "next_cmd": c.next_cmd,
        "validation": c.validation,
        "decisions": list(c.decisions),
        "label": c.label,
        "kind": c.kind,
        "branch": None if c.branch is None else path_document(c.branch),
        "head": c.head,
        "created": timestamp(c.created),
        "extra": dict(c.extra),
        "agent": agent,
        "files": None if c.files is None else _files_document(c.files),
        "previous": c.previous,
    }
    return words | _given(
        restore=None if c.restore is None else _restore_document(c.restore),
        carried=None if c.carried is None else _carried_document(c.carried),
        observed=None if c.observed is None else observed_document(c.observed),
        standing=None if c.standing is None else _standing_document(c.standing),
        turn=None if c.turn is None else _turn_document(c.turn),
        imported=None if c.imported is None else _imported_document(c.imported),
    )


def _agent_document(agent: Agent) -> Json:
    usage = None if agent.usage is None else usage_document(agent.usage)
    who: dict[str, Json] = {"name": agent.name, "session": agent.session, "transcript": agent.transcript}
    return who | _given(model=agent.model, usage=usage)


def usage_document(usage: Usage) -> dict[str, Json]:
    """Return the JSON object of a number of tokens."""
    return {"input": usage.input, "output": usage.output, "cached": usage.cached}


def _restore_document(r: Restore) -> Json:
    done: dict[str, Json] = {"op": r.op, "from": r.origin, "to": r.target, "position": r.position, "index": r.index}
    return done | _given(tip=r.tip or None, before=_here_document(r.before), after=_here_document(r.after))


def _carried_document(w: Carried) -> Json:
    return {
        "id": w.id,
        "step": w.step,
        "created": timestamp(w.created),
        "branch": None if w.branch is None else path_document(w.branch),
        "head": w.head,
        "tree": w.tree,
        "turns": w.turns,
        "operation": w.operation,
        "foreign": w.foreign,
        **_given(restored=_here_document(w.restored)),
    }


def _here_document(here: Here | None) -> Json:
    return None if here is None else {"at": here.at, "top": here.top}


def _standing_document(s: Standing) -> dict[str, Json]:
    """The JSON object; what there is nothing of is left out."""
    return _given(
        decisions=[_decided_document(made) for made in s.decisions] or None,
        withdrawn=[_given(number=w.number, digest=w.digest, at=_time(w.at)) for w in s.withdrawn] or None,
        last=s.last or None,
        note=s.note or None,
        extra=list(s.extra) or None,
    )


def _decided_document(made: Decided) -> Json:
    about: list[Json] = [path_document(path) for path in made.about]
    return _given(number=made.number, made=_time(made.made), about=about or None, foreign=made.foreign or None)


def _turn_document(t: Turn) -> dict[str, Json]:
    """The JSON object; what there is nothing of is left out, and of many paths the last."""
    listed = listed_paths(list(t.edited))
    edited = [path_document(path) for path in t.edited[:listed]]
    more = t.edited_more + len(t.edited) - listed
    return _given(
        began=t.began or None,
        head=None if t.began else t.head or None,
        ended=t.ended or None,
        edited=_given(paths=edited, more=more or None) if t.edited else None,
        unheard=t.unheard or None,
    )


def _imported_document(t: ImportedTurn) -> Json:
    said: dict[str, Json] = {"since": timestamp(t.since), "prompt": t.prompt}
    return said | _given(said=t.said or None, commits=list(t.commits) or None)


def _files_document(files: FileState) -> Json:
    index, o, listed = files.index, files.operation, listed_paths([s.path for s in files.skipped])
    operation: Json = None
    if o is not None:
        refs: dict[str, Json] = {name: path_document(target) for name, target in o.refs}
        operation = {"kind": o.kind, "head": o.head, "onto": o.onto, "refs": refs}
    result: dict[str, Json] = {
        "tree": files.tree,
        "index": _given(
            tree=index.tree,
            flags=[{"path": path_document(f.path), "bits": f.bits} for f in index.flags[:MAX_FLAGS]],
            unmerged=index.unmerged,
            flags_more=index.flags_more + max(0, len(index.flags) - MAX_FLAGS) or None,
        ),
        "operation": operation,
        "changed": files.changed,
        "skipped": [{"path": path_document(s.path), "reason": s.reason} for s in files.skipped[:listed]],
        "worktree": {"path": path_document(files.worktree.path), "created": timestamp(files.worktree.created)},
    }
    skipped_more = files.skipped_more + len(files.skipped) - listed
    return result | _given(skipped_more=skipped_more or None, raw=files.raw or None, held=files.held or None)


def listed_paths(paths: list[str]) -> int:
    """Count the skipped paths that the JSON lists, from the first on."""
    size = 0
    for count, path in enumerate(paths[:MAX_SKIPPED]):
        size += len(canonical(path_document(path)))
        if size > _MAX_PATHS:
            return count
    return min(len(paths), MAX_SKIPPED)


def decode(raw: bytes) -> Checkpoint:
    """Read a checkpoint from canonical or any other JSON bytes of version 1. Unknown keys stay in ``raw`` alone.

    Raises RecordError for bytes that break the format: they may have been written by a stranger.
    """
    r = Reader(parse(raw), "record")
    version = r.count("v")
    if version != VERSION:
        raise RecordError(f"record has format version {version}; this gitbaton reads {VERSION}")
    found = {name: read(r) for name, read in _FIELDS.items()}
    if not all(EXTRA_KEY.match(key) for key, _ in found["extra"]):
        raise r.bad("extra")
    if not found["step"].strip():
        raise r.bad("step")
    if not 0 < len(found["track"]) <= MAX_TRACK:
        raise r.bad("track")
    standing = r.beside("standing")
    return Checkpoint(**found, standing=_standing(standing, len(found["decisions"])) if standing else None)


def is_canonical(raw: bytes, checkpoint: Checkpoint | None = None) -> bool:
    """Whether bytes are those that a checkpoint is stored as; ``checkpoint``: what they say, where that is known."""
    try:
        return canonical(document(checkpoint or decode(raw))) == raw
    except (ValueError, BatonError):
        return False


def known(raw: bytes, *, whole: bool = False) -> Checkpoint:
    """Read a checkpoint as ``decode`` does, most fields only when they are asked for, or with ``whole`` most of them at once;
    from canonical bytes that were written or decoded in this repository before, so that they are not broken.

    A canonical record has its own keys, and nothing else, two blanks from the margin, in one order.
    """
    head = _CANONICAL.match(raw)
    if head is None:
        return decode(raw)
    track, kind, oid, created = head.groups()
    return waiting(
        Checkpoint,
        partial(_later, raw),
        track=json.loads(track) if b"\\" in track else track[1:-1].decode("utf-8", "replace"),
        kind=kind.decode("ascii"),
        head=oid.decode("ascii") if oid else None,
        created=datetime.fromisoformat(f"{created.decode('ascii')}+00:00"),
        **(_at_once(raw) if whole else {}),
    )


def _at_once(raw: bytes) -> dict[str, object]:
    """Read what most verbs that tell all of a checkpoint ask for; nothing of bytes that are broken after all."""
    try:
        r = Reader(json.loads(raw.decode("utf-8")), "record")
        files, observed = r.maybe_object("files"), r.beside("observed")
        return {
            **{name: _FIELDS[name](r) for name in _TOLD},
            "files": files and waiting(FileState, partial(_later_files, raw), tree=files.oid("tree")),
            "observed": observed and _observed(raw, observed, observed),
        }
    except (ValueError, LookupError, RecordError):
        return {}


def _later(raw: bytes, name: str) -> object:
    """Read a field of a checkpoint from its canonical bytes."""
    try:
        if name in _TEXTS and b"\\" not in (line := _line(raw, name)):
            return line.decode("utf-8")
        if name in _REPEATED:
            piece = _piece(raw, name)
            return None if piece is None else _repeated(name, piece)
        if name == "carried":
            piece = _piece(raw, name)
            if piece is not None and (listed := _OF_CARRIED.search(piece)) is not None:  # what lists ask for
                tree, foreign = listed[1].decode("ascii") if listed[1] else None, listed[2] == b"true"
                return waiting(Carried, partial(_later_carried, piece), tree=tree, foreign=foreign)
        if name == "files" and (worktree := _WORKTREE.search(_piece(raw, name) or b"")) is not None:
            return waiting(FileState, partial(_later_files, raw), worktree=_worktree(worktree[0]))
        if name == "standing":
            piece, decisions = _piece(raw, name), _repeated("decisions", _piece(raw, "decisions") or b"")
            return None if piece is None else _stands(piece, len(cast("tuple[str, ...]", decisions)))
        r = _part(raw, name) if name != "observed" else _seen(raw)
        if r is None:
            return None
        if name == "observed":
            return _observed(raw, r, None)
        return _FIELDS[name](r)
    except (ValueError, LookupError, RecordError):
        return getattr(decode(raw), name)


def _later_carried(piece: bytes, name: str) -> object:
    """Read a field of the words that a checkpoint carries, by their bytes."""
    return getattr(_repeated("carried", piece), name)


def _observed(raw: bytes, r: Reader, kept: Reader | None) -> Observed:
    """Read what lists ask for of what a checkpoint observed; ``kept``: the JSON, where it is kept to read the rest."""
    return waiting(Observed, partial(_later_observed, raw, kept), asked=_OBSERVED["asked"](r), turns=r.count("turns", 0))


def _later_observed(raw: bytes, r: Reader | None, name: str) -> object:
    """Read a field of what a checkpoint observed."""
    try:
        return _OBSERVED[name](r or _seen(raw) or Reader(None, "record.observed"))
    except (ValueError, LookupError, RecordError):
        return getattr(decode(raw).observed, name)


@lru_cache(maxsize=4)  # whoever asks for one field asks for others
def _seen(raw: bytes) -> Reader | None:
    r = _part(raw, "observed")
    return Reader(r.value["observed"], "record.observed") if r is not None else None


def _later_files(raw: bytes, name: str) -> object:
    """Read a field of the file state of a checkpoint; those of lists without taking it apart."""
    try:
        if name in _LISTED and (found := _LISTED[name].search(_piece(raw, "files") or b"")) is not None:
            return int(found[1]) if name == "changed" else () if name == "skipped" else found[1].decode("ascii")
        return getattr(_read_files(raw), name)
    except (ValueError, LookupError, RecordError):
        return getattr(decode(raw).files, name)


@lru_cache(maxsize=4)  # whoever asks for one field asks for others
def _read_files(raw: bytes) -> FileState:
    r = _part(raw, "files")
    return _files(Reader(r.value["files"] if r else None, "record.files"))


@lru_cache(maxsize=256)
def _worktree(piece: bytes) -> WorktreeId:
    """Read the work tree from its bytes: a repository has few, and every checkpoint says its own."""
    r = Reader(json.loads(b"{" + piece + b"}")["worktree"], "record.files.worktree")
    return WorktreeId(path=r.path("path"), created=r.time("created"))


def _line(raw: bytes, name: str) -> bytes:
    """Return the bytes of a text that a canonical record has, between its quotes."""
    key = b'\n  "%s": "' % name.encode()
    start = raw.index(key) + len(key)
    return raw[start : raw.index(b"\n", start)].rstrip(b",")[:-1]


def _part(raw: bytes, name: str) -> Reader | None:
    """Return a canonical record's field, alone in its object; None of one that may be missing, and is."""
    piece = _piece(raw, name)
    return None if piece is None else Reader(json.loads((b"{" + piece + b"}").decode("utf-8")), "record")


def _piece(raw: bytes, name: str) -> bytes | None:
    """Return the bytes of a canonical record's field, as ``_part``."""
    start = raw.find(b'\n  "%s": ' % name.encode())
    if start < 0 and name in _ABSENT:
        return None
    end = raw.find(b'\n  "', start + 1)
    return raw[start : end if end > 0 else -2].rstrip(b",")


@lru_cache(maxsize=256)
def _stands(piece: bytes, count: int) -> Standing:
    return _standing(Reader(json.loads(b"{" + piece + b"}")["standing"], "record.standing"), count)


@lru_cache(maxsize=1024)
def _repeated(name: str, piece: bytes) -> object:
    return _FIELDS[name](Reader(json.loads((b"{" + piece + b"}").decode("utf-8")), "record"))


_LISTED = {
    "tree": re.compile(rb'\n    "tree": "([0-9a-f]{40,64})",'),
    "changed": re.compile(rb'\n    "changed": ([0-9]{1,15}),'),
    "skipped": re.compile(rb'\n    "skipped": \[\],'),
}
_WORKTREE = re.compile(rb'(?<=\n    )"worktree": \{.*?\n    \}', re.DOTALL)
_TEXTS = ("step", "note", "next_cmd", "validation")
_OF_CARRIED = re.compile(
    rb'\n    "tree": (?:null|"([0-9a-f]{40,64})"),\n    "turns": [0-9]+,\n    "operation": (?:null|"[^\n]*"),\n'
    rb'    "foreign": (true|false)[,\n]'
)
_TOLD = (*_TEXTS, "decisions", "label", "branch", "extra", "previous", "agent", "restore", "carried", "imported")
_REPEATED = ("agent", "label", "branch", "decisions", "extra")  # what one checkpoint after the other says in the same bytes
_FIELDS: dict[str, Callable[[Reader], Any]] = {
    "agent": lambda r: _agent(agent) if (agent := r.maybe_object("agent")) else None,
    "files": lambda r: _files(files) if (files := r.maybe_object("files")) else None,
    "track": lambda r: r.text("track"),
    "step": lambda r: r.text("step"),
    "note": lambda r: r.text("note"),
    "next_cmd": lambda r: r.text("next_cmd"),
    "validation": lambda r: r.one_of("validation", VALIDATIONS),
    "decisions": lambda r: tuple(
        Reader({"decisions": item}, r.where).text("decisions") for item in r.items("decisions", MAX_BYTES)
    ),
    "label": lambda r: r.maybe("label"),
    "kind": lambda r: r.one_of("kind", KINDS),
    "branch": lambda r: None if r.value.get("branch", 0) is None else r.path("branch"),
    "head": lambda r: r.maybe_oid("head"),
    "created": lambda r: r.time("created"),
    "extra": lambda r: r.strings("extra"),
    "previous": lambda r: r.maybe_oid("previous"),
    "restore": lambda r: _restore(restore) if (restore := r.beside("restore")) else None,
    "carried": lambda r: _carried(carried) if (carried := r.beside("carried")) else None,
    "observed": lambda r: read_observed(observed) if (observed := r.beside("observed")) else None,
    "turn": lambda r: _turn(turn) if (turn := r.beside("turn")) else None,
    "imported": lambda r: _imported(imported) if (imported := r.beside("imported")) else None,
}
"""How each field is read; what stands of the words comes after the decisions."""
_ABSENT = ("restore", "carried", "observed", "standing", "turn", "imported")
_TEXT = rb'"[^\n]*"'
_CANONICAL = re.compile(
    rb'\{\n  "v": 1,\n  "track": (%(text)s),\n  "step": %(text)s,\n  "note": %(text)s,\n  "next_cmd": %(text)s,\n'
    rb'  "validation": "[a-z]+",\n  "decisions": \[(?:\n    %(text)s,?)*(?:\n  )?\],\n  "label": (?:null|%(text)s),\n'
    rb'  "kind": "(manual|auto|safety|imported)",\n  "branch": (?:null|%(text)s),\n'
    rb'  "head": (?:null|"([0-9a-f]{40}|[0-9a-f]{64})"),\n  "created": "(\d{4}-\d\d-\d\dT[\d:]{8}\.\d{6})Z",\n  "extra": \{'
    % {b"text": _TEXT}
)


def _imported(r: Reader) -> ImportedTurn:
    oids = r.items("commits", MAX_MADE) if "commits" in r.value else []
    return ImportedTurn(
        since=r.time("since"),
        prompt=r.text("prompt"),
        said=r.text("said") if "said" in r.value else "",
        commits=tuple(Reader({"commit": oid}, f"{r.where}.commits").oid("commit") for oid in oids),
    )


def _agent(r: Reader) -> Agent:
    usage = r.maybe_object("usage") if "usage" in r.value else None
    return Agent(
        name=r.text("name"),
        session=r.maybe("session"),
        transcript=r.maybe("transcript"),
        model=r.maybe("model") if "model" in r.value else None,
        usage=Usage(input=usage.count("input"), output=usage.count("output"), cached=usage.count("cached")) if usage else None,
    )


def _turn(r: Reader) -> Turn:
    edited, more = _read_paths(r, "edited", MAX_SKIPPED)
    began, head, ended = (r.oid(key) if key in r.value else None for key in ("began", "head", "ended"))
    unheard = r.flag("unheard") if "unheard" in r.value else False
    return Turn(began=began, head=head, ended=ended, edited=edited, edited_more=more, unheard=unheard)


def _standing(r: Reader, count: int) -> Standing:
    """Read what stays of the words of a checkpoint with so many decisions. Raises RecordError."""
    decisions = tuple(_decided(one) for one in _objects(r, "decisions", MAX_BYTES))
    numbers = [made.number for made in decisions]
    if len(numbers) != (count if decisions else 0) or numbers != sorted(set(numbers)):
        raise r.bad("decisions")
    withdrawn = tuple(
        Withdrawn(
            number=_number(one, "number"),
            digest=one.matching("digest", _DIGEST),
            at=one.time("at") if "at" in one.value else None,
        )
        for one in _objects(r, "withdrawn", MAX_WITHDRAWN)
    )
    extra = r.items("extra", MAX_EXTRAS) if "extra" in r.value else []
    return Standing(
        decisions=decisions,
        withdrawn=withdrawn,
        last=_number(r, "last") if "last" in r.value else 0,
        note=r.text("note") if "note" in r.value else "",
        extra=tuple(Reader({"key": key}, f"{r.where}.extra").text("key") for key in extra),
    )


def _decided(r: Reader) -> Decided:
    about = r.items("about", MAX_ABOUT) if "about" in r.value else []
    return Decided(
        number=_number(r, "number"),
        made=r.time("made") if "made" in r.value else None,
        about=tuple(Reader({"path": item}, f"{r.where}.about").path("path") for item in about),
        foreign=r.flag("foreign") if "foreign" in r.value else False,
    )


def _number(r: Reader, key: str) -> int:
    number = r.count(key)
    if not 0 < number <= MAX_NUMBER:
        raise r.bad(key)
    return number


def _restore(r: Reader) -> Restore:
    return Restore(
        op=r.one_of("op", OPS),
        origin=r.maybe_oid("from"),
        target=r.oid("to"),
        position=r.count("position"),
        index=r.flag("index"),
        tip=r.maybe_oid("tip") if "tip" in r.value else None,
        before=_here(r, "before"),
        after=_here(r, "after"),
    )


def _here(r: Reader, key: str) -> Here | None:
    found = r.maybe_object(key) if key in r.value else None
    return Here(at=found.oid("at"), top=found.oid("top")) if found else None


def _carried(r: Reader) -> Carried:
    if not r.text("step").strip():
        raise r.bad("step")
    return Carried(
        id=r.oid("id"),
        step=r.text("step"),
        created=r.time("created"),
        branch=None if r.value.get("branch") is None else r.path("branch"),
        head=r.maybe_oid("head"),
        tree=r.maybe_oid("tree"),
        turns=r.count("turns"),
        operation=None if r.value.get("operation") is None else r.text("operation"),
        foreign=r.flag("foreign"),
        restored=_here(r, "restored"),
    )


def _files(r: Reader) -> FileState:
    index = Reader(r.value.get("index"), f"{r.where}.index")
    flags = [Reader(item, f"{index.where}.flags") for item in index.items("flags", MAX_FLAGS)]
    skipped = [Reader(item, f"{r.where}.skipped") for item in r.items("skipped", MAX_SKIPPED)]
    worktree = Reader(r.value.get("worktree"), f"{r.where}.worktree")
    operation = r.maybe_object("operation")
    return FileState(
        tree=r.oid("tree"),
        index=IndexState(
            tree=index.oid("tree"),
            flags=tuple(Flag(path=f.path("path"), bits=f.matching("bits", _BITS)) for f in flags),
            flags_more=index.count("flags_more", 0),
            unmerged=index.count("unmerged"),
        ),
        operation=_operation(operation) if operation else None,
        changed=r.count("changed"),
        skipped=tuple(Skipped(path=s.path("path"), reason=s.matching("reason", _REASON)) for s in skipped),
        skipped_more=r.count("skipped_more", 0),
        raw=r.count("raw", 0),
        held=r.count("held", 0),
        worktree=WorktreeId(path=worktree.path("path"), created=worktree.time("created")),
    )


def _operation(r: Reader) -> Operation:
    return Operation(
        kind=r.text("kind"), head=r.maybe_oid("head"), onto=r.maybe_oid("onto"), refs=r.strings("refs", paths=True)
    )


def transcript_text(transcript: Transcript) -> str:
    """The text of a position; an id of other characters than ``A-Za-z0-9._:-``, or of more than 128, is left out."""
    last = f" last={transcript.last}" if transcript.last and _LAST.match(transcript.last) else ""
    stored = f" stored={transcript.stored}" if transcript.stored else ""
    return f"bytes={transcript.size} lines={transcript.lines}{last}{stored}"


def parse_transcript(text: str | None) -> Transcript | None:
    """The position in such a text; None for any other text, which a stranger may have written."""
    match = _FORM.match(text or "")
    if match is None:
        return None
    size, lines, last, stored = match.groups()
    return Transcript(size=int(size), lines=int(lines), last=last, stored=stored)


def message(step: str, raw: bytes) -> bytes:
    """The commit message that carries a checkpoint's canonical bytes ``raw`` under the first line of its step."""
    return (subject(step, _SUBJECT_BYTES) or "?").encode("utf-8") + b"\n\n" + raw


def earlier_ids(raw: bytes) -> tuple[str, ...]:
    """The ids that the checkpoint of canonical bytes had before its track was renamed or brought back, the newest first."""
    found = _WAS.search(raw) if b'"was"' in raw else None
    return tuple(oid.decode("ascii") for oid in _ID.findall(found[1])) if found is not None else ()


def payload(text: bytes) -> bytes:
    """The canonical bytes inside a commit message: from the first empty line to the first ``}`` at column 0.

    Later paragraphs are reserved and not returned. Raises RecordError when there are none.
    """
    start = text.find(b"\n\n")
    end = text.find(b"\n}\n", start) if start >= 0 else -1
    if end < 0 or not text.startswith(b"{", start + 2):
        raise RecordError("commit message holds no checkpoint")
    if end - start > MAX_BYTES:
        raise RecordError(f"record of {end - start} bytes is over the limit of {MAX_BYTES}")
    return text[start + 2 : end + 3]
