"""Observed facts <-> JSON: the key ``observed`` of a checkpoint, and the blob beside the conversation."""

from __future__ import annotations

from gitbaton.codec.reader import Reader, path_document
from gitbaton.codec.text import Json, canonical, parse, timestamp
from gitbaton.errors import RecordError
from gitbaton.model import ClientPlan, Observed, PlanItem, Prompt, Ran, TestRun, Told

TOLD_VERSION = 1
STATES = ("open", "doing", "done", "dropped")
RESULTS = ("passed", "failed", "unknown")
MAX_LISTED = 50
"""Plan items, edited files."""
MAX_FEW = 20
"""Plans, test commands, names of failed tests, prompts."""


def observed_document(o: Observed) -> dict[str, Json]:
    """The JSON object, keys in the canonical order; what there is nothing of is left out."""
    result: dict[str, Json] = {}
    if o.plans:
        result["plans"] = [_plan_document(plan) for plan in o.plans]
    if o.tests:
        result["tests"] = [_test_document(test) for test in o.tests]
    if o.edited:
        result["edited"] = _paths(o.edited, o.edited_more)
    if o.asked:
        result["asked"] = [_prompt_document(prompt) for prompt in o.asked]
    result["turns"] = o.turns
    if o.said is not None:
        result["said"] = o.said
    if o.milestone is not None:
        result["milestone"] = timestamp(o.milestone)
    if o.until is not None:
        result["until"] = timestamp(o.until)
    if o.partial:
        result["partial"] = True
    return result


def _prompt_document(prompt: Prompt) -> Json:
    return {"text": prompt.text, "at": timestamp(prompt.at)}


def _plan_document(plan: ClientPlan) -> Json:
    items: list[Json] = [{"text": item.text, "state": item.state} for item in plan.items]
    said: dict[str, Json] = {"agent": plan.agent, "session": plan.session, "changed": timestamp(plan.changed), "items": items}
    return {**said, **({"more": plan.more} if plan.more else {})}


def _test_document(run: TestRun) -> Json:
    result: dict[str, Json] = {"command": run.command, "result": run.result}
    counts = (("passed", run.passed), ("failed", run.failed), ("skipped", run.skipped))
    result |= {key: count for key, count in counts if count is not None}
    if run.names:
        result["names"] = list(run.names)
    if run.started is not None:
        result["started"] = timestamp(run.started)
    result["ended"] = timestamp(run.ended)
    if run.tree is not None:
        result["tree"] = run.tree
    if run.edited:
        result["edited"] = _paths(run.edited, run.edited_more)
    return result


def _paths(paths: tuple[str, ...], more: int) -> Json:
    found: list[Json] = [path_document(path) for path in paths]
    return {"paths": found, **({"more": more} if more else {})}


def read_observed(r: Reader) -> Observed:
    """The value of a JSON object, whoever wrote it. Raises RecordError."""
    edited, more = _read_paths(r, "edited")
    return Observed(
        plans=tuple(_plan(one) for one in _objects(r, "plans", MAX_FEW)),
        tests=tuple(_test(one) for one in _objects(r, "tests", MAX_FEW)),
        edited=edited,
        edited_more=more,
        asked=tuple(map(_prompt, _objects(r, "asked", MAX_FEW))),
        turns=r.count("turns", 0),
        said=r.oid("said") if "said" in r.value else None,
        milestone=r.time("milestone") if "milestone" in r.value else None,
        until=r.time("until") if "until" in r.value else None,
        partial=r.flag("partial") if "partial" in r.value else False,
    )


def _objects(r: Reader, key: str, limit: int) -> list[Reader]:
    return [Reader(item, f"{r.where}.{key}") for item in r.items(key, limit)] if key in r.value else []


def _prompt(r: Reader) -> Prompt:
    return Prompt(text=r.text("text"), at=r.time("at"))


def _plan(r: Reader) -> ClientPlan:
    items = tuple(PlanItem(text=i.text("text"), state=i.one_of("state", STATES)) for i in _objects(r, "items", MAX_LISTED))
    changed = r.time("changed")
    return ClientPlan(agent=r.text("agent"), session=r.maybe("session"), changed=changed, items=items, more=r.count("more", 0))


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
        started=r.time("started") if "started" in r.value else None,
        ended=r.time("ended"),
        tree=r.oid("tree") if "tree" in r.value else None,
        edited=edited,
        edited_more=more,
    )


def _maybe_count(r: Reader, key: str) -> int | None:
    return r.count(key) if key in r.value else None


def _read_paths(r: Reader, key: str) -> tuple[tuple[str, ...], int]:
    if key not in r.value:
        return (), 0
    inner = Reader(r.value[key], f"{r.where}.{key}")
    found = [Reader({"path": item}, inner.where).path("path") for item in inner.items("paths", MAX_LISTED)]
    return tuple(found), inner.count("more", 0)


def told_bytes(told: Told) -> bytes:
    """What was said, as canonical JSON."""
    return canonical(told_document(told))


def told_document(told: Told) -> dict[str, Json]:
    """What was said as a JSON object, keys in the canonical order."""
    commands: list[Json] = [
        {
            "command": ran.command,
            "status": ran.status,
            "started": None if ran.started is None else timestamp(ran.started),
            "ended": timestamp(ran.ended),
            "output": ran.output,
        }
        for ran in told.commands
    ]
    return {
        "v": TOLD_VERSION,
        "asked": [_prompt_document(prompt) for prompt in told.asked],
        "listed": None if told.listed is None else _prompt_document(told.listed),
        "said": None if told.said is None else _prompt_document(told.said),
        **({} if told.saying is None else {"saying": _prompt_document(told.saying)}),
        "commands": commands,
    }


def read_told(raw: bytes) -> Told:
    """What was said, whoever wrote it. Raises RecordError."""
    r = Reader(parse(raw), "what was said")
    if r.count("v") != TOLD_VERSION:
        raise RecordError(f"what was said has format version {r.count('v')}; this gitbaton reads {TOLD_VERSION}")
    listed, said = r.maybe_object("listed"), r.maybe_object("said")
    saying = r.maybe_object("saying") if "saying" in r.value else None
    return Told(
        asked=tuple(map(_prompt, _objects(r, "asked", MAX_FEW))),
        listed=_prompt(listed) if listed else None,
        said=_prompt(said) if said else None,
        saying=_prompt(saying) if saying else None,
        commands=tuple(map(_ran, _objects(r, "commands", MAX_FEW))),
    )


def _ran(r: Reader) -> Ran:
    return Ran(
        command=r.text("command"),
        status=None if r.value.get("status", 0) is None else r.count("status"),
        started=None if r.value.get("started", 0) is None else r.time("started"),
        ended=r.time("ended"),
        output=r.text("output"),
    )
