"""Journals of tests: records of every kind, as short as they can be said."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from gitbaton.base.values import replace
from gitbaton.git.objects import TreeEntry, new_object, tree_data
from gitbaton.git.repo import Door, Repo, discover
from gitbaton.runs.journal.chain import Journal
from gitbaton.runs.journal.codec import idem, recompute
from gitbaton.runs.journal.values import Logged, Reads, Record, Writes
from tests.kit.repos import SOME_TIME, Sandbox, integer_clock

AUTHOR = b"A U Thor <author@example.com>"
RUN = "r-20260101-0001"


def journal(box: Sandbox, *, door: Door | None = "libgit2", redactor: Any = None) -> Journal:
    """The journal of a sandbox; its clock begins anew."""
    opened = discover(os.fspath(box.path), door=door)
    made = Journal(opened, author=AUTHOR, redactor=redactor, clock=integer_clock())
    weakref.finalize(made, opened.close)
    return made


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
