"""Records of any kind with anything in them, for property tests."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from gitbaton.runs.journal.values import EFFECTS, TYPES, Cause, Output, Reads, Record, Undeclared, Writes

_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(str.strip)
_PATH = st.binary(max_size=8).map(lambda raw: os.fsdecode(raw.replace(b"\0", b"")))
_OID = st.sampled_from(["1" * 40, "a" * 64, "0" * 40])
_DIGEST = st.sampled_from(["0" * 64, "f" * 64])
_COUNT = st.integers(0, 1 << 50)
_TEXTS = st.lists(_PATH, max_size=3).map(tuple)
_MORE = st.sampled_from([0, 0, 3])
_TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


_WRITES = st.builds(
    Writes,
    globs=_TEXTS,
    pre=_OID,
    tree=_maybe(_OID),
    deleted=_TEXTS,
    digests=_TEXTS,
    deleted_more=_MORE,
    digests_more=_MORE,
    folders=_TEXTS,
    modes=st.dictionaries(_PATH, st.integers(0, 0o777), max_size=3).map(lambda found: tuple(sorted(found.items()))),
)
_OUTPUT = _maybe(st.builds(Output, oid=_OID, bytes=_COUNT, cut=st.booleans()))
_RUN_NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True)
RECORDS = st.builds(
    Record,
    type=st.sampled_from(TYPES),
    run=_RUN_NAMES,
    lineage=_RUN_NAMES,
    started=_TIMES,
    host=_PATH,
    pid=_COUNT,
    boot=_TEXT,
    seq=_COUNT,
    step=_NAME,
    attempt=_maybe(_COUNT),
    key=_maybe(_DIGEST),
    idem=_maybe(_DIGEST),
    argv=_TEXTS,
    argv_more=_MORE,
    cwd=_maybe(_PATH),
    reads=_maybe(st.builds(Reads, globs=_TEXTS, tree=_OID, n=_COUNT)),
    deps=st.dictionaries(_TEXT, _OID, max_size=2).map(lambda pairs: tuple(pairs.items())),
    writes=_maybe(_WRITES),
    env=st.dictionaries(_TEXT, st.just("sha256:" + "0" * 64), max_size=2).map(lambda pairs: tuple(pairs.items())),
    extra=_TEXTS,
    stable=_maybe(st.booleans()),
    undeclared=st.lists(st.builds(Undeclared, path=_PATH, before=_maybe(_OID), after=_maybe(_OID)), max_size=2).map(tuple),
    undeclared_more=_MORE,
    exit=_maybe(_COUNT),
    signal=_maybe(_TEXT),
    timeout=st.booleans(),
    duration_ms=_maybe(_COUNT),
    stdout=_OUTPUT,
    stderr=_OUTPUT,
    effect=_maybe(st.sampled_from(EFFECTS)),
    compensate=_maybe(_PATH),
    probe=_maybe(_PATH),
    verify=st.just("true"),
    verify_exit=_maybe(_COUNT),
    compensates=_maybe(_DIGEST),
    region=_TEXTS,
    region_more=_MORE,
    cause=_maybe(st.builds(Cause, kind=st.just("never-run"), path=_maybe(_PATH), old=_maybe(_TEXT), new=_maybe(_TEXT))),
    state=_maybe(st.sampled_from(["done", "undone", "approved", "rejected", "complete", "stopped"])),
    text=_maybe(_PATH),
    plan=_maybe(_PATH),
    isolation=_maybe(st.sampled_from(["none", "copy", "reflink"])),
    nondeterministic=st.booleans(),
    redacted=st.booleans(),
    tokens=_maybe(_COUNT),
    agent=_maybe(_PATH),
    worktree=_maybe(_PATH),
)
