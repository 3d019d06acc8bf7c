"""Very many threads: pushed some at a time, each as a whole, and what one hook refuses keeps no others back."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.langgraph.threads.names import late_ref, ref_of
from tests.kit.far import Far, ok, snap
from tests.kit.moments import at
from tests.kit.servers import hook
from tests.kit.threads import git_called
from tests.rooms.sync.test_sync_threads import on, puts, threads


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


@pytest.mark.deep
def test_very_many_threads_go_some_at_a_time_and_each_as_a_whole(far: Far) -> None:
    """A thousand refs at a time, for each stands on git's command line."""
    a, sent = far.first, list[str]()

    def part_of(ref: str) -> str:
        (found,) = [part for part in sent if f":{ref} " in part]
        return found

    snap(a, "one")
    on(a, puts(*map(str, range(40)), thread="t1"), puts("1", thread="t2"), puts("1", thread="t2", namespace="sub"))
    on(a, lambda store: store.put_writes("t1", "", "1", [("", "t", 0, "c", "str", b"w")], False))
    oid = a.git("rev-parse", ref_of("t2", ""))
    rows = "".join(f"create {ref_of(f'u{n:04}', '')} {oid}\n" for n in range(1000))
    a.git("update-ref", "--stdin", stdin=rows.encode())
    hook(far.remote.path, "update", f'case "$1" in {ref_of("u0999", "")}) exit 1;; esac')
    with at("os.posix_spawn", git_called("push"), lambda args: sent.append(" ".join(args[1]) + " ")):
        done = a.here("push", "--threads", "--yes", "--no-scan")
    assert "first push of 't', thread 't1', thread 't2', thread 'u0000'" in done.err
    assert "more threads to origin; " in done.err and len(sent) == 2
    assert part_of(ref_of("t1", "")) == part_of(late_ref("t1", ""))
    assert part_of(ref_of("t2", "")) == part_of(ref_of("t2", "sub"))
    assert done.code == 1 and "hint: refs that were pushed all the same: " in done.err
    there, here = threads(far.there().refs), threads(a.state().refs)
    assert {*here} - {*there} == {ref for ref in here if f":{ref} " in part_of(ref_of("u0999", ""))} != {*here}
    (far.remote.path / "hooks/update").unlink()
    ok(a, "push", "--threads", "--yes")
    assert threads(far.there().refs) == here
