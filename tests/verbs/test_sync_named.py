"""Threads that are named are exchanged, and no others; a name that is a track's is the track."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.langgraph.threads.names import ref_of
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit.clones import Clone
from tests.kit.far import CHAINS, Far, ok, snap
from tests.kit.threads import put


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def on(clone: Clone, *threads: str, id: str = "1", late: bool = False) -> None:
    """A checkpoint of each thread, with a write that came late to another."""
    with ThreadStore.open(clone.path, sync=False) as store:
        for thread in threads:
            put(store, thread, id, None)
            if late:
                store.put_writes(thread, "", "0", [("", "t", 0, "c", "str", b"w")], False)


def refs(where: Far | Clone) -> set[str]:
    """The threads and tracks that are there, late writes left out."""
    state = where.there() if isinstance(where, Far) else where.state()
    return {ref for ref in state.refs if ref.startswith(("refs/baton/threads/", CHAINS))}


def threads(*names: str) -> set[str]:
    return {ref_of(name, "") for name in names}


@pytest.mark.deep
def test_only_the_threads_that_are_named(far: Far) -> None:
    a, b = far.first, far.clone()
    odd = "caf\u00e9 / 1\n" + "x" * 1000  # more than a ref holds
    on(a, "demo", "other", odd, late=True)
    snap(a, "first")
    assert ok(a, "push", "--threads", "--yes", "origin", "demo").out.count("\n") == 2  # with its late writes
    assert refs(far) == threads("demo")
    assert ok(a, "push", "--threads", "--yes", "origin", odd, "t").code == 0
    assert refs(far) == threads("demo", odd) | {CHAINS + "t"}
    assert ok(a, "push", "--threads", "origin", "demo", "demo").out == "nothing to push\n"
    assert ok(a, "push", "--threads", "--yes").code == 0 and refs(far) == refs(a)
    assert ok(b, "fetch", "--threads", "origin", "demo").out == "thread 'demo': new, 1 checkpoint\n"
    fetched = {ref for ref in b.state().refs if "remotes/" in ref and ("threads" in ref or "tracks" in ref or "late" in ref)}
    assert len(fetched) == 2 and all("demo" in ref for ref in fetched)
    assert ok(b, "sync", "--threads", "--dry-run", "origin", "other").out.startswith("thread 'other': new, 1 checkpoint\n")
    assert ok(b, "sync", "--threads", "origin", "other").out.splitlines()[1:] == [
        "thread 'other': 1 joined",
        "nothing to push",
    ]
    assert refs(b) == threads("other")
    assert ok(b, "sync", "--threads", "origin", "t").code == 0 and refs(b) == refs(a)  # tracks alone: with all threads


@pytest.mark.deep
def test_what_is_not_named_stays_as_it_is_at_an_end_too(far: Far) -> None:
    a, b = far.first, far.clone()
    on(a, "demo", "other", late=True)
    ok(a, "push", "--threads", "--yes")
    ok(b, "sync", "--threads")
    with ThreadStore.open(a.path, sync=False) as store:
        store.delete("demo")
        store.delete("other")
    done = ok(a, "push", "--threads", "origin", "demo")
    assert "demo" in done.err and "other" not in done.err and refs(far) == threads("demo", "other")
    assert ok(a, "push", "--threads", "--prune", "origin", "demo").code == 0 and refs(far) == threads("other")
    ok(a, "push", "--threads", "--prune")
    before = b.state().refs
    assert ok(b, "fetch", "--threads", "--prune", "origin", "demo").out.startswith("thread 'demo': gone at origin")
    gone = before.keys() - b.state().refs.keys()
    assert len(gone) == 4 and all("demo" in ref and "remotes/" in ref for ref in gone)
    on(b, "more")
    assert ok(b, "push", "--threads", "--yes", "origin", "more").err.count("gone") == 0 and refs(far) == threads("more")


def test_a_name_is_a_track_first_and_nobody_guesses(far: Far) -> None:
    a, b = far.first, far.clone()
    on(a, "both", "t", "demo")
    snap(a, "first", "both")
    assert ok(a, "push", "--threads", "--yes", "origin", "both").code == 0  # the track, and as before all threads
    assert refs(far) == refs(a) == threads("both", "t", "demo") | {CHAINS + "both"}
    for verb, said in (("push", "here or at"), ("sync", "here or at"), ("fetch", "at")):
        done = b.here(verb, "--threads", "origin", "nowhere")
        assert done.code == 2 and done.err == f"fatal: there is no track and no thread 'nowhere' {said} 'origin'\n"
        assert b.here(verb, "origin", "demo").code == 2  # a thread counts only with --threads
        done = a.here(verb, "--threads", "demo")
        assert done.code == 129 and "'demo' is a thread and no remote" in done.err
        assert f"git baton {verb} --threads origin demo\n" in done.err
    assert b.here("push", "--threads", "origin", "demo").out == "nothing to push\n"


@pytest.mark.deep
def test_a_track_that_is_nowhere_is_said_with_what_helps(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "first")
    ok(a, "push", "--yes")
    for verb, said, hint in (
        ("push", "'nowhere'", "'git baton tracks' lists them"),
        ("fetch", "'nowhere' at 'origin'", "'git baton fetch --verbose origin' lists those that are there"),
        ("sync", "'nowhere' at 'origin'", "'git baton fetch --verbose origin' lists those that are there"),
    ):
        done = b.here(verb, "origin", "nowhere")
        assert (done.code, done.out, done.err) == (2, "", f"fatal: there is no track {said}\nhint: {hint}\n")
    assert ok(b, "fetch", "--verbose", "origin").out.startswith("t: new, 1 checkpoint")
    assert "t: same" in ok(b, "fetch", "--verbose", "origin").out
    ok(a, "snapshot", "--track", "lost", "--step", "one")
    ok(a, "tracks", "delete", "lost", "--yes")
    assert a.here("push", "origin", "lost").err.endswith(
        "hint: 'git baton tracks restore lost' brings back the one that was deleted\n"
    )
