"""Very many threads: pushed some at a time, each as a whole, and what one hook refuses keeps no others back."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gitbaton.git.remotes import Connection
from gitbaton.threads.names import late_ref, ref_of
from tests.kit.far import Far, ok, snap
from tests.kit.servers import hook
from tests.rooms.sync.test_sync_threads import held, on, puts, threads


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def part_of(sent: list[list[str]], ref: str) -> list[str]:
    (found,) = [part for part in sent if ref in part]
    return found


@pytest.mark.deep
def test_very_many_threads_go_some_at_a_time_and_each_as_a_whole(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("gitbaton.sync.push"), "_AT_ONCE", 4)
    monkeypatch.setattr("gitbaton.commands.exchanging._NAMED", 3)
    a, sent = far.first, list[list[str]]()
    push = Connection.push

    def counted(line: Connection, moves: Mapping[str, Any], place: str) -> Any:
        sent.append([*moves])
        return push(line, moves, place)

    monkeypatch.setattr(Connection, "push", counted)
    snap(a, "one")
    on(a, *(puts(*(f"{n:02}" for n in range(40)), thread=f"t{n}") for n in range(7)))
    on(a, puts("01", thread="t2", namespace="sub"))
    on(a, *(lambda store, n=n: store.put_writes(f"t{n}", "", "01", [("", "t", 0, "c", "str", b"w")], False) for n in (1, 5)))
    done = ok(a, "push", "--threads", "--yes", "--no-scan")
    assert done.err.startswith("first push of 't', thread 't0', thread 't1', thread 't2' and 4 more threads to origin; ")
    assert len(sent) > 2 and sum(map(len, sent)) == len(far.there().refs.keys() & a.state().refs.keys()) - 1
    for n, ref in ((1, late_ref("t1", "")), (5, late_ref("t5", "")), (2, ref_of("t2", "sub"))):
        assert ref in part_of(sent, ref_of(f"t{n}", ""))
    assert threads(far.there().refs) == threads(a.state().refs)
    on(a, *(puts("99", thread=f"t{n}") for n in range(7)))
    hook(far.remote.path, "update", f'case "$1" in {ref_of("t4", "")}) exit 1;; esac')
    sent.clear()
    done = a.here("push", "--threads")
    assert done.code == 1 and "hint: refs that were pushed all the same: " in done.err and len(sent) > 1
    there = threads(far.there().refs)
    assert {ref for ref, oid in threads(a.state().refs).items() if there[ref] != oid} == {*part_of(sent, ref_of("t4", ""))}
    (far.remote.path / "hooks/update").unlink()
    ok(a, "push", "--threads")
    assert threads(far.there().refs) == threads(a.state().refs)
    b = far.clone()
    ok(b, "sync", "--threads")
    assert [*held(b, "t5")] == [*(f"{n:02}" for n in range(40)), "99"] and held(b, "t5")["01"] == ["w"]
