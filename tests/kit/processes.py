"""Many processes on one repository, and what they must leave behind."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.kit.forkserver import python
from tests.kit.repos import Sandbox

ROOT_SUBJECT = "gitbaton root 1"


@dataclass(frozen=True)
class Job:
    """One loop: snapshots of one track in one work tree, one after the other."""

    track: str
    place: Path
    name: str
    count: int
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ack:
    """What one snapshot said."""

    track: str
    step: str
    code: int
    id: str
    err: str
    seconds: float


def run_jobs(jobs: list[Job]) -> list[Ack]:
    """All loops at once, each snapshot a process of its own; what was acknowledged."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [ack for acks in pool.map(_loop, jobs) for ack in acks]


def _loop(job: Job) -> list[Ack]:
    return [_one(job, f"{job.name}.{number}") for number in range(job.count)]


def _one(job: Job, step: str) -> Ack:
    words = ["snapshot", "--track", job.track, "--step", step, "--porcelain", *job.options]
    began = time.monotonic()
    done = python(["-m", "gitbaton", *words], os.fspath(job.place), os.environ)
    rows = done.out.decode().splitlines()
    found = rows[-1].split("\t")[1] if done.code == 0 and rows else ""
    return Ack(job.track, step, done.code, found, done.err.decode(), time.monotonic() - began)


@contextmanager
def meanwhile(*works: Callable[[], None]) -> Iterator[None]:
    """Repeat each piece of work in a thread of its own until the block ends; what one raises fails the test."""
    stop, failures = threading.Event(), []

    def repeat(work: Callable[[], None]) -> None:
        while not stop.is_set():
            try:
                work()
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def chain(repo: Sandbox, encoded: str) -> list[dict[str, Any]]:
    """A track's checkpoints as plain git shows them, oldest first: the JSON, with ``id`` and ``commit`` added."""
    ref = f"refs/baton/tracks/{encoded}"
    raw = repo.git("log", "-z", "--first-parent", "--reverse", "--format=%H%n%B", ref)
    records = []
    for item in filter(None, raw.split("\0")):
        commit, subject, rest = item.split("\n", 2)
        if subject != ROOT_SUBJECT:
            text = rest.lstrip("\n")
            records.append({**json.loads(text), "commit": commit, "raw": text[: text.rindex("\n}\n") + 3]})
    ids = repo_ids(repo, [r["raw"] for r in records])
    return [{**record, "id": oid} for record, oid in zip(records, ids, strict=True)]


def repo_ids(repo: Sandbox, texts: Iterable[str]) -> list[str]:
    """The ids that git gives to texts as blobs."""
    folder = repo.path / ".git" / "ids-of-a-test"
    folder.mkdir(exist_ok=True)
    names = []
    for number, text in enumerate(texts):
        (folder / str(number)).write_bytes(text.encode("utf-8"))
        names.append(str(folder / str(number)))
    out = repo.git("hash-object", "--no-filters", "--stdin-paths", stdin="".join(f"{n}\n" for n in names).encode())
    for name in names:
        os.unlink(name)
    folder.rmdir()
    return out.split()


def noted(repo: Sandbox, commit: str) -> list[str]:
    """The checkpoint ids in a commit's note, newest first, as ``git notes show`` prints it."""
    done = repo.try_git("notes", "--ref=checkpoints", "show", commit)
    return [line.split(" ")[1] for line in done.out.splitlines() if line.startswith("checkpoint ")]


def assert_acknowledged(acks: list[Ack], repo: Sandbox) -> dict[str, list[dict[str, Any]]]:
    """Nobody failed, and every chain holds what was acknowledged, in order; the chains by track."""
    failed = [f"{a.step}: exit {a.code} after {a.seconds:.1f} s: {a.err}" for a in acks if a.code != 0]
    assert not failed, f"{len(failed)} failed; the first: {failed[0]}"
    by_track: dict[str, set[str]] = defaultdict(set)
    order: dict[str, list[str]] = defaultdict(list)
    for ack in acks:
        by_track[ack.track].add(ack.id)
        order[ack.step.rsplit(".", 1)[0]].append(ack.id)
    chains = {track: chain(repo, track) for track in by_track}
    for track, records in chains.items():
        assert {r["id"] for r in records} == by_track[track] and len(records) == len(by_track[track])
        assert all(a["created"] < b["created"] for a, b in pairwise(records))
        assert [r["previous"] for r in records] == [None, *(r["id"] for r in records)][: len(records)]
        assert repo.git("rev-parse", f"refs/checkpoints/{track}") == records[-1]["id"]
        place = {r["id"]: i for i, r in enumerate(records)}
        for name, ids in order.items():
            if ids[0] in place:
                assert [place[i] for i in ids] == sorted(place[i] for i in ids), f"loop {name} is out of order"
    return chains


def assert_noted(repo: Sandbox, chains: dict[str, list[dict[str, Any]]]) -> None:
    """Each checkpoint was put into its commit's note once, and the newest fifty are there, newest first."""
    heads = {r["id"]: r["head"] for records in chains.values() for r in records}
    written = [s.removeprefix("checkpoint ") for s in repo.git("log", "--format=%s", "refs/notes/checkpoints").splitlines()]
    assert sorted(written) == sorted(heads)
    for head in set(heads.values()):
        assert noted(repo, head) == [oid for oid in written if heads[oid] == head][:50]


def latest(place: Path) -> Any:
    """A work tree's LATEST.json, which must be whole; None before the first."""
    try:
        return json.loads((place / "runtime/checkpoints/LATEST.json").read_bytes())
    except FileNotFoundError:
        return None


def locks(repo: Sandbox) -> list[str]:
    """The lock files in the repository, by their path below ``.git``."""
    top = repo.path / ".git"
    return sorted(str(p.relative_to(top)) for p in top.rglob("*.lock"))


def in_child(work: Callable[[], object]) -> int:
    """Do something in a forked process, which tells what it raises; its exit status."""
    pid = os.fork()
    if not pid:
        code = 70
        try:
            work()
            code = 0
        except BaseException:
            os.write(2, traceback.format_exc().encode(errors="replace"))
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def git_log(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a git on PATH that writes down what it is asked."""
    real, log = shutil.which("git"), sandbox.path.parent / "asked"
    wrapper = sandbox.write("../bin/git", f'#!/bin/sh\nprintf "%s " "$@" >>"{log}"\necho >>"{log}"\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    return log
