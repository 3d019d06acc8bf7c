"""Journals of tests: records of every kind, as short as they can be said."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from gitbaton.git.objects import TreeEntry, new_object, tree_data
from gitbaton.git.repo import Door, Repo, discover
from gitbaton.journal.chain import Journal
from gitbaton.journal.keys import idem, recompute
from gitbaton.journal.values import EFFECTS, TYPES, Cause, Logged, Output, Reads, Record, Undeclared, Writes
from gitbaton.values import replace
from tests.support.repos import SOME_TIME, Sandbox, integer_clock

AUTHOR = b"A U Thor <author@example.com>"
RUN = "r-20260101-0001"


def journal(box: Sandbox, *, door: Door | None = "libgit2", redactor: Any = None) -> Journal:
    """The journal of a sandbox; its clock begins anew."""
    return Journal(discover(os.fspath(box.path), door=door), author=AUTHOR, redactor=redactor, clock=integer_clock())


def tree(repo: Repo, files: Mapping[str, str]) -> str:
    """The id of a stored tree of some files."""
    algorithm = repo.layout.algorithm
    blobs = {name: new_object(algorithm, "blob", text.encode()) for name, text in files.items()}
    entries = [TreeEntry(mode=b"100644", name=name.encode(), oid=blob.oid) for name, blob in blobs.items()]
    made = new_object(algorithm, "tree", tree_data(entries))
    repo.objects.write([*blobs.values(), made])
    return made.oid


def record(kind: str = "begin", step: str | None = "build", **fields: Any) -> Record:
    """A record with its key and idempotency key, where it can have them."""
    base: dict[str, Any] = {"type": kind, "run": RUN, "lineage": RUN, "step": step, "started": SOME_TIME}
    base |= {"host": "h", "pid": 1, "boot": "b", "cwd": "."} | ({"argv": ("make", step)} if step else {})
    made = Record(**(base | fields))
    if "key" not in fields and kind in ("begin", "end", "fail", "abort") and step is not None:
        made = replace(made, key=recompute(made))
        made = replace(made, idem=idem(made.lineage, step, made.key or ""))
    return made


def step_of(j: Journal, name: str, text: str, *, run: str = RUN, at: int = 0, **fields: Any) -> Logged:
    """A step that begins and ends, its output a file that holds ``text``; the record of its end."""
    reads = Reads(globs=("src/**",), tree=tree(j.repo, {"in": text}), n=1)
    began = Writes(globs=("out/**",), pre=tree(j.repo, {}))
    now = SOME_TIME + timedelta(seconds=at)
    more = {"lineage": run, "started": now, "reads": reads, "effect": "none", **fields}
    begin = record("begin", name, writes=began, **more)
    j.append(run, begin)
    ended = replace(began, tree=tree(j.repo, {"out": text}))
    end = replace(begin, type="end", writes=ended, exit=0, stable=True)
    return j.append(run, end, blobs={"stdout": f"{text}\n".encode(), "stderr": b""})


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
