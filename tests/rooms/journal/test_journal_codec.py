"""Records as JSON: the same value back, held by the schema, within the limits; and keys that their fields give."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gitbaton
from gitbaton.base.codec import canonical
from gitbaton.base.codec.text import MAX_BYTES
from gitbaton.base.errors import RecordError, UsageError
from gitbaton.base.values import replace
from gitbaton.runs.journal import codec
from gitbaton.runs.journal.codec import idem, key, key_of, recompute
from gitbaton.runs.journal.values import Reads, Record, Step, Undeclared, Writes
from tests.kit.anyrecord import RECORDS
from tests.kit.journals import record

OID = "1" * 40


@cache
def schema() -> jsonschema.Draft202012Validator:
    path = Path(gitbaton.__file__).parent / "data" / "run-record.schema.json"
    found = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


@cache
def told() -> jsonschema.Draft202012Validator:
    """The schema without leave for keys that it does not name."""
    return jsonschema.Draft202012Validator(_closed(schema().schema))


def _closed(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    found = {key: item if key == "if" else _closed(item) for key, item in part.items()}
    return {"additionalProperties": False, **found} if isinstance(part.get("properties"), dict) else found


@pytest.mark.full
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RECORDS)
def test_any_record_gives_back_its_value_and_its_bytes(r: Record) -> None:
    raw = codec.encode(r)
    told().validate(json.loads(raw))
    assert codec.decode(raw) == r
    assert codec.encode(codec.decode(raw)) == raw
    assert codec.fit(r) is r, "nothing of it is too long"


def test_a_record_says_only_what_there_is_to_say() -> None:
    said = json.loads(codec.encode(replace(record("claim", None), seq=0)))
    assert list(said) == ["v", "type", "run", "lineage", "started", "host", "pid", "boot", "seq", "cwd"]
    r = record(verify="true", verify_exit=3, tokens=5, seq=1)
    assert json.loads(codec.encode(r))["verify"] == {"cmd": "true", "exit": 3}
    assert json.loads(codec.encode(r))["cost"] == {"tokens": 5}


WRONG: list[tuple[str, Any]] = [
    ("v", 2),
    ("type", "start"),
    ("run", "../x"),
    ("run", "-x"),
    ("lineage", ""),
    ("seq", -1),
    ("seq", True),
    ("seq", None),
    ("started", "yesterday"),
    ("pid", "1"),
    ("step", " "),
    ("key", "abc"),
    ("argv", "make"),
    ("argv", [1]),
    ("reads", {"globs": [], "tree": "--output=x", "n": 0}),
    ("reads", {"globs": [], "tree": OID}),
    ("writes", {"globs": [], "pre": OID, "tree": "HEAD"}),
    ("writes", []),
    ("deps", {"a": "HEAD"}),
    ("undeclared", [{"path": "x", "before": "y", "after": None}]),
    ("undeclared", [{"path": "x"}] * 1001),
    ("stdout", {"oid": OID, "bytes": 1}),
    ("effect", "twice"),
    ("state", "perhaps"),
    ("isolation", "container"),
    ("cause", {"kind": "No Such"}),
    ("exit", -9),
    ("verify", {}),
    ("text", {"b64": "!"}),
    ("cost", {"tokens": -1}),
]


@pytest.mark.parametrize(("name", "item"), WRONG, ids=lambda item: str(item)[:20])
def test_what_no_record_says_is_refused(name: str, item: Any) -> None:
    good = json.loads(codec.encode(replace(record(), seq=0)))
    schema().validate(good)
    with pytest.raises(RecordError):
        codec.decode(canonical({**good, name: item}))


@given(st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_bytes_of_anybody_are_a_record_or_an_error(raw: bytes) -> None:
    with pytest.raises(RecordError):
        codec.decode(raw)


def test_a_record_without_its_step_is_refused_but_for_those_of_plans() -> None:
    good = json.loads(codec.encode(replace(record(), seq=0)))
    del good["step"]
    with pytest.raises(RecordError):
        codec.decode(canonical(good))
    with pytest.raises(jsonschema.ValidationError):
        schema().validate(good)
    assert codec.decode(canonical({**good, "type": "repair"})).step is None


def test_long_lists_are_cut_and_counted() -> None:
    many = tuple(f"{number:03}{'x' * 300}" for number in range(3000))
    writes = Writes(globs=("**",), pre=OID, tree=OID, deleted=many, digests=many)
    undeclared = tuple(Undeclared(path=path, before=OID, after=OID) for path in many)
    r = record(argv=many, undeclared=undeclared, region=many, text="t" * 100_000, writes=writes, key="0" * 64, seq=0)
    cut = codec.fit(r)
    assert len(codec.encode(cut)) < MAX_BYTES
    assert cut.writes is not None
    for kept, more in (
        (cut.argv, cut.argv_more),
        (cut.undeclared, cut.undeclared_more),
        (cut.region, cut.region_more),
        (cut.writes.deleted, cut.writes.deleted_more),
        (cut.writes.digests, cut.writes.digests_more),
    ):
        assert 0 < len(kept) <= 1000 and len(kept) + more == 3000
    assert cut.argv == many[: len(cut.argv)] and codec.fit(cut) is cut
    assert codec.decode(codec.encode(cut)) == cut
    assert recompute(cut) is None, "its key cannot be made again from a part of its words"


def test_one_word_of_a_megabyte_is_cut_too() -> None:
    cut = codec.fit(record(argv=("sh", "-c", "x" * (1 << 20)), key="0" * 64))
    assert (cut.argv, cut.argv_more) == (("sh", "-c"), 1)


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(UsageError, match="limit is 1048576"):
        codec.encode(record(extra=tuple("x" * 60_000 for _ in range(20)), seq=0))
    with pytest.raises(UsageError, match="'compensate' is"):  # nobody could read it
        codec.encode(record(compensate="x" * 70_000, seq=0))
    with pytest.raises(UsageError, match="'seq' is"):
        codec.encode(record())


STEP = Step(
    name="build", argv=("make", "all"), reads=("src/**",), writes=("out/**",), env=("CC",), extra=("v1",), verify="true"
)


def test_a_key_is_that_of_the_specification() -> None:
    import hashlib

    head = '{"argv":["make","all"],"cwd":".","deps":{"lint":"' + OID + '"},"env":{"CC":"sha256:00"},"extra":["v1"],'
    text = head + '"reads":"' + OID + '","step":"build","v":1,"verify":"true","writes":["out/**"]}'
    found = key_of(STEP, OID, {"lint": OID}, {"CC": "sha256:00"})
    assert found == hashlib.sha256(text.encode()).hexdigest()
    reads, writes = Reads(globs=("src/**",), tree=OID, n=1), Writes(globs=("out/**",), pre=OID)
    fields: dict[str, Any] = {"argv": STEP.argv, "extra": ("v1",), "verify": "true", "deps": (("lint", OID),)}
    r = record(env=(("CC", "sha256:00"),), reads=reads, writes=writes, **fields)
    assert recompute(r) == found
    assert recompute(replace(r, redacted=True)) is None


def test_a_key_differs_by_everything_that_it_is_made_from() -> None:
    changed = [
        (replace(STEP, name="b"), OID, {}, {}),
        (replace(STEP, argv=("make all",)), OID, {}, {}),
        (replace(STEP, cwd="sub"), OID, {}, {}),
        (replace(STEP, extra=()), OID, {}, {}),
        (replace(STEP, writes=("**",)), OID, {}, {}),
        (replace(STEP, verify=None), OID, {}, {}),
        (STEP, None, {}, {}),
        (STEP, OID, {"a": OID}, {}),
        (STEP, OID, {"a": "2" * 40}, {}),
        (STEP, OID, {}, {"CC": "x"}),
        (STEP, OID, {}, {}),
        (replace(STEP, argv=("make", "\udcff")), OID, {}, {}),
    ]
    keys = [key_of(step, tree, deps, env) for step, tree, deps, env in changed]
    assert len(set(keys)) == len(changed)
    same = (replace(STEP, retries=3), replace(STEP, timeout=1.0), replace(STEP, env=()), replace(STEP, after=("x",)))
    assert {key_of(step, OID, {}, {}) for step in same} == {keys[10]}
    assert key({"b": 1, "a": 2}) == key({"a": 2, "b": 1})
    assert len({idem("r", "s", keys[0]), idem("r2", "s", keys[0]), idem("r", "s2", keys[0]), idem("r", "s", keys[1])}) == 4
