"""A journal dates what has ended with its end."""

from __future__ import annotations

from datetime import timedelta

from gitbaton.runs.journal import upkeep
from tests.kit import Sandbox
from tests.kit.journals import RUN, journal, record, step_of
from tests.kit.repos import SOME_TIME


def test_what_has_ended_is_dated_with_its_end(repo: Sandbox) -> None:
    j = journal(repo)
    for number, kind in enumerate(("end", "fail", "abort")):
        began = SOME_TIME + timedelta(seconds=60 * number)
        j.append(RUN, record("begin", kind, started=began))
        j.append(RUN, record(kind, kind, started=began, duration_ms=59_000))
    undone = SOME_TIME + timedelta(seconds=300)  # what a compensation writes at its end
    j.append(RUN, record("comp-end", "pub", started=undone, duration_ms=5_000, key="a" * 64, compensates="b" * 64))
    rows = [row.split() for row in repo.here("run", "show", "--records").out.splitlines()]
    assert [row[1] for row in rows] == [
        *("00:00:00", "00:00:59"),
        *("00:01:00", "00:01:59"),
        *("00:02:00", "00:02:59"),
        "00:05:00",
    ]


def test_a_run_is_as_old_as_its_end(repo: Sandbox) -> None:
    j = journal(repo)
    step_of(j, "long", "x", duration_ms=3_600_000)
    now = SOME_TIME + timedelta(seconds=3_700)
    assert upkeep.plan_prune(j, keep=0, older=1_000.0, now=now).drops == ()
    assert [d.run for d in upkeep.plan_prune(j, keep=0, older=50.0, now=now).drops] == [RUN]
