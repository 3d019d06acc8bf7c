"""Threads between clones: pushed when asked for, fetched, joined so that both sides have the same, and never brought back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.langgraph.threads.names import late_ref, ref_of
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit.clones import Clone, killed
from tests.kit.far import CHAINS, Far, ok, snap
from tests.kit.moments import Args, at
from tests.kit.servers import REFUSES_REWRITING, bare, hook
from tests.kit.threads import put
from tests.kit.tiers import FULL

KEY = "AKIA" + "Q3EGRGTJ5XW2ZP7K"
X, LATE_X = ref_of("x", ""), late_ref("x", "")
Work = Callable[[ThreadStore], object]


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def on(clone: Clone, *works: Work) -> None:
    """What a saver does in a clone, and is closed."""
    with ThreadStore.open(clone.path, sync=False) as store:
        for work in works:
            work(store)


def puts(*ids: str, thread: str = "x", namespace: str = "") -> Work:
    """Checkpoints, each the child of the one before."""

    def work(store: ThreadStore) -> None:
        for before, id in zip((None, *ids), ids, strict=False):
            put(store, thread, id, before, namespace=namespace)

    return work


def writes(id: str, task: str, text: str = "w", *, replace: bool = False) -> Work:
    """A write of a task to a checkpoint of x."""
    return lambda store: store.put_writes("x", "", id, [("", task, 0, "c", "str", text.encode())], replace)


def held(clone: Clone, thread: str = "x") -> dict[str, list[str]]:
    """The checkpoints of a thread with the texts of their writes, oldest first."""
    with ThreadStore.open(clone.path, sync=False) as store:
        entries = list(store.walk(thread, ""))[::-1]
        return {entry.id: [row[5].decode() for row in store.rows(thread, "", entry)] for entry in entries}


def threads(refs: dict[str, str]) -> dict[str, str]:
    """The refs of threads among some."""
    return {ref: oid for ref, oid in refs.items() if ref.startswith(("refs/baton/threads/", "refs/baton/late/"))}


def same(far: Far, *clones: Clone) -> None:
    """All clones have the very refs of the remote, and git finds nothing wrong with them."""
    there = threads(far.there().refs)
    for clone in clones:
        assert threads(clone.state().refs) == there
        clone.fsck()
    far.remote.fsck()


@pytest.mark.full
def test_the_first_push_asks_and_what_a_killed_saver_left_goes_too(far: Far) -> None:
    a = far.first
    child = os.fork()
    if child == 0:
        store = ThreadStore.open(a.path)
        puts("1", "2")(store)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9 and X not in a.state().refs
    done = a.here("push", "--threads")
    assert done.code == 1 and done.out == "" and not threads(far.there().refs)
    said, counts, error, hint = done.err.splitlines()
    assert said == "first push of thread 'x' to origin; beyond what its refs hold this makes public:"
    assert counts.startswith("  2 checkpoints of threads with all their values, ") and counts.endswith(("bytes", "KiB"))
    assert error == "error: nothing is pushed: nobody agreed to make it public" and hint.startswith("hint: --yes ")
    assert ok(a, "push").out == "nothing to push\n" and not threads(far.there().refs)
    assert ok(a, "push", "--threads", "--yes").out == f"push thread 'x': new, 2 checkpoints [{X}]\n"
    on(a, puts("3"), puts("1", namespace="inner:1"))
    done = ok(a, "push", "--threads")  # it was agreed to
    inner = ref_of("x", "inner:1")
    assert done.err == "" and done.out.splitlines()[:-1] == [
        f"push thread 'x': forward, 1 checkpoint [{X}]",
        f"push thread 'x' (namespace 'inner:1'): new, 1 checkpoint [{inner}]",
    ]
    assert ok(a, "push", "--threads").out == "nothing to push\n"
    assert set(far.there().refs) - {"refs/heads/main"} == {X, inner}
    same(far, a)


@pytest.mark.full
def test_fetch_says_what_is_new_and_sync_makes_it_ours(far: Far) -> None:
    a, b = far.first, far.clone()
    on(a, puts("1", "2"), puts("1", thread="caf\u00e9 / 1"))
    ok(a, "push", "--threads", "--yes")
    assert ok(b, "fetch").out == "'origin' has no tracks\n"
    assert not [ref for ref in b.state().refs if "threads" in ref]
    done = ok(b, "fetch", "--threads").out.splitlines()
    assert done == ["thread 'caf\u00e9 / 1': new, 1 checkpoint", "thread 'x': new, 2 checkpoints"]
    assert not threads(b.state().refs) and X.replace("baton/", "baton/remotes/origin/") in b.state().refs
    on(a, puts("3"))
    ok(a, "push", "--threads")
    rows = b.here("fetch", "--threads", "--json").json["threads"]
    assert [(row["thread"], row["state"], row["count"]) for row in rows] == [("caf\u00e9 / 1", "same", 0), ("x", "newer", 1)]
    assert ok(b, "sync", "--threads", "--dry-run").out.splitlines()[-1] == "nothing to push" and not threads(b.state().refs)
    done = ok(b, "sync", "--threads").out.splitlines()
    assert done == ["thread 'caf\u00e9 / 1': 1 joined", "thread 'x': 3 joined", "nothing to push"]
    same(far, a, b)
    assert held(b) == {"1": [], "2": [], "3": []}


@pytest.mark.full
def test_both_went_on(far: Far) -> None:
    a, b = far.first, far.clone()
    on(a, puts("1", "2"), writes("2", "t"))
    ok(a, "push", "--threads", "--yes")
    ok(b, "sync", "--threads")
    on(a, puts("3", "5"), writes("2", "of a"), writes("9", "too early", "waits"))
    on(b, puts("4"), writes("2", "of b"), writes("2", "t", "u", replace=True))
    ok(a, "push", "--threads")
    done = b.here("push", "--threads", "--yes")
    assert done.code == 1 and X in far.there().refs
    assert done.err.splitlines() == [
        "refused: origin has 2 checkpoints of thread 'x' that are not here",
        "hint: git baton sync --threads origin",
    ]
    before = far.there().refs
    dry = ok(b, "sync", "--threads", "--dry-run")
    assert far.there().refs == before and "thread 'x': 2 would be joined" in dry.out
    done = b.here("sync", "--threads")  # nobody has agreed here
    assert done.code == 1 and "not pushed: thread 'x': nobody agreed" in done.err and far.there().refs == before
    done = ok(b, "sync", "--threads", "--yes")
    assert f"push thread 'x': rewrite, 1 checkpoint [{X}]" in done.out.splitlines()
    ok(a, "sync", "--threads")
    same(far, a, b)
    assert held(a) == held(b) == {"1": [], "2": ["w", "w", "u"], "3": [], "4": [], "5": []}
    on(a, puts("9"))
    assert held(a)["9"] == ["waits"]
    ok(a, "sync", "--threads")
    ok(b, "sync", "--threads")
    same(far, a, b)
    assert LATE_X not in far.there().refs and held(b)["9"] == ["waits"]
    assert not [ref for ref in b.state().refs if "late" in ref], "nor is any of what was fetched and joined"
    assert "left alone" not in b.here("doctor").out, "what was fetched and joined are refs of ours"


@pytest.mark.deep
def test_what_was_removed_stays_away(far: Far) -> None:
    a, b = far.first, far.clone()
    on(a, puts("1", "2", "3"))
    ok(a, "push", "--threads", "--yes")
    ok(b, "sync", "--threads")
    on(a, lambda store: store.prune(["x"]))
    assert ok(a, "push", "--threads").out.splitlines()[0] == f"push thread 'x': rewrite, 2 removed [{X}]"
    on(b, puts("4"))
    done = ok(b, "sync", "--threads", "--yes").out
    assert "2 removed (was " in done and held(b) == {"3": [], "4": []}
    ok(a, "sync", "--threads")
    same(far, a, b)
    on(a, lambda store: store.prune(["x"]))
    on(b, puts("5"))
    ok(b, "push", "--threads")
    ok(a, "fetch", "--threads")  # only seen, not joined
    assert a.here("push", "--threads").code == 1
    ok(a, "sync", "--threads")
    assert held(a) == {"4": [], "5": []}
    ok(b, "sync", "--threads")
    same(far, a, b)


@pytest.mark.full
def test_what_each_of_two_removed_leaves_nothing_and_nothing_comes_back(far: Far) -> None:
    a, b = far.first, far.clone()
    on(a, *(lambda store, run=run: put(store, "x", run, run_id=run) for run in ("1", "2")))
    ok(a, "push", "--threads", "--yes")
    ok(b, "sync", "--threads", "--yes")
    on(a, lambda store: store.delete_runs(["1"]))
    on(b, lambda store: store.delete_runs(["2"]))
    ok(a, "push", "--threads")
    assert "thread 'x': 1 removed (was " in ok(b, "sync", "--threads").out
    assert held(b) == {} and X not in b.state().refs
    assert "thread 'x' is deleted here, and still at origin" in b.here("push", "--threads").err
    assert ok(b, "push", "--threads", "--prune").out == f"push thread 'x': delete, 1 removed [{X}]\n"
    assert not threads(far.there().refs)
    ok(b, "sync", "--threads")
    assert not threads(b.state().refs) and not threads(far.there().refs)


@pytest.mark.full
def test_what_a_delta_channel_is_put_together_from_stays(far: Far) -> None:
    a, b = far.first, far.clone()

    def delta(id: str, parent: str | None, **channels: str) -> Work:
        values = {name: ("str", text.encode()) for name, text in channels.items()}
        return lambda store: put(store, "x", id, parent, channels=values, counters_since_delta_snapshot={"d": [1, 1]})

    on(a, puts("1"), delta("2", "1", d="whole"), delta("3", "2"), delta("4", "3"))
    ok(a, "push", "--threads", "--yes")
    ok(b, "sync", "--threads")
    on(a, delta("5", "4"))
    on(b, delta("6", "4", d="whole"), lambda store: store.prune(["x"]))
    assert held(b) == {"6": []}
    ok(b, "push", "--threads", "--yes")
    ok(a, "sync", "--threads")
    ok(b, "sync", "--threads")
    same(far, a, b)
    assert list(held(b)) == ["2", "3", "4", "5", "6"], "5 reads them"


@pytest.mark.deep
def test_a_thread_that_was_deleted(far: Far) -> None:
    a, b = far.first, far.clone()
    on(a, puts("1", "2"), puts("1", thread="y"))
    ok(a, "push", "--threads", "--yes")
    ok(b, "sync", "--threads")
    on(a, lambda store: store.delete("x"))
    for verb in ("push", "sync"):
        done = ok(a, verb, "--threads")
        assert "thread 'x' is deleted here, and still at origin: 'git baton push --threads --prune origin' deletes" in done.err
        assert X in far.there().refs and X not in a.state().refs
    assert a.here("push", "--prune").code == 129
    assert ok(a, "push", "--threads", "--prune").out == f"push thread 'x': delete, 2 removed [{X}]\n"
    assert threads(far.there().refs).keys() == {ref_of("y", "")}
    done = ok(b, "sync", "--threads")  # it stays where nobody deleted it, and does not come back
    assert "thread 'x': gone at origin" in done.out and "thread 'x' is gone at origin, here all the same" in done.err
    assert held(b) == {"1": [], "2": []} and X not in far.there().refs
    on(b, puts("3"))
    done = b.here("push", "--threads", "--yes")
    assert done.code == 1 and "refused: thread 'x' is gone at origin, and went on here" in done.err
    assert "thread 'x': gone at origin, and what was fetched of it, too" in ok(b, "fetch", "--threads", "--prune").out
    assert ok(b, "push", "--threads", "--yes").out == f"push thread 'x': new, 3 checkpoints [{X}]\n"


@pytest.mark.deep
def test_a_thread_that_was_deleted_here_and_went_on_there_comes_back(far: Far) -> None:
    a, b = far.first, far.clone()
    on(a, puts("1", "2"))
    ok(a, "push", "--threads", "--yes")
    ok(b, "sync", "--threads")
    on(a, lambda store: store.delete("x"))
    on(b, puts("3"))
    ok(b, "push", "--threads", "--yes")
    done = a.here("push", "--threads", "--prune")
    assert done.code == 1 and "refused: thread 'x', which was deleted here, went on at origin" in done.err
    assert "thread 'x': 3 joined; it was deleted here, and went on there" in ok(a, "sync", "--threads").out.splitlines()
    same(far, a, b)


@pytest.mark.deep
def test_what_savers_do_while_a_sync_joins_is_joined_too(far: Far) -> None:
    a, b = far.first, far.clone()
    on(a, puts("1", "2"), puts("1", thread="y"))
    ok(a, "push", "--threads", "--yes")
    ok(b, "sync", "--threads")
    on(a, puts("3"), writes("2", "of a"), puts("2", thread="y"))
    ok(a, "push", "--threads")
    refs, late = b.state().refs, iter(range(99))

    def beside(_: Args) -> None:  # all was looked at, and nothing is joined yet
        if not next(late):
            on(b, puts("4"), writes("2", "of b"))
            b.git("update-ref", "-d", ref_of("y", ""))

    with at("os.mkdir", lambda args: str(args[0]).endswith("/baton/wal"), beside):
        done = ok(b, "sync", "--threads", "--yes").out.splitlines()
    assert [line.partition(" (was")[0] for line in done[2:4]] == [
        "thread 'x': 1 joined, 1 changed",
        "thread 'y': 2 joined; it was deleted here, and went on there",
    ]
    ok(a, "sync", "--threads")
    assert held(a) == held(b) == {"1": [], "2": ["w", "w"], "3": [], "4": []} and b.state().refs != refs
    same(far, a, b)


@pytest.mark.full
def test_what_is_not_at_another_address_was_not_removed(far: Far, tmp_path: Path) -> None:
    a, other = far.first, bare(tmp_path / "other.git")
    on(a, puts("1"))
    a.git("push", "-q", str(other), f"{X}:{X}")
    on(a, puts("2", "3"))
    ok(a, "push", "--threads", "--yes")
    a.git("remote", "set-url", "--push", "origin", str(other))
    assert ok(a, "push", "--threads", "--yes").out == f"push thread 'x': forward, 2 checkpoints [{X}]\n"
    on(a, lambda store: store.prune(["x"]))
    assert ok(a, "push", "--threads").out.splitlines()[0] == f"push thread 'x': rewrite, 2 removed [{X}]"
    assert ok(a, "sync", "--threads").out.endswith("nothing to push\n") and held(a) == {"3": []}
    assert len(far.there().refs) == 2 and far.there().refs[X] != a.state().refs[X]  # origin is only fetched from
    a.git("remote", "set-url", "origin", str(other))
    far.remote.git("push", "-q", "-f", str(other), f"{X}:{X}")
    ok(a, "sync", "--threads")
    assert held(a) == {"1": [], "2": [], "3": []}, "an older state of another repository takes nothing away"


@pytest.mark.full
def test_a_sync_that_is_killed_is_done_once_more(far: Far) -> None:
    a, b = far.first, far.clone()
    on(a, puts("00"))
    ok(a, "push", "--threads", "--yes")
    ok(b, "sync", "--threads", "--yes")
    want, died, at = {"00"}, True, 1 if FULL else 28
    while died and (at == 28 or FULL):
        on(a, puts(f"{at:03}a"), writes(min(want), "t", f"{at}", replace=True))
        on(b, puts(f"{at:03}b"))
        want |= {f"{at:03}a", f"{at:03}b"}
        ok(a, "push", "--threads")
        died = killed(lambda: b.here("sync", "--threads", "--yes"), at)
        for clone in (b, a):
            ok(clone, "sync", "--threads", "--yes")
        assert held(a).keys() == held(b).keys() == want and held(b)[min(want)] == [f"{at}"], at
        at += 1
    same(far, a, b)


@pytest.mark.deep
def test_what_is_broken_is_not_joined_and_not_pushed(far: Far) -> None:
    a, b = far.first, far.clone()
    on(a, puts("1", "2"), puts("1", thread="y"))
    ok(a, "push", "--threads", "--yes")
    far.remote.git("update-ref", ref_of("z", ""), a.head())
    far.remote.git("update-ref", late_ref("x", ""), a.head())
    far.remote.git("update-ref", "refs/baton/threads/x/_", a.head())  # no name of ours
    done = b.here("fetch", "--threads")
    assert done.code == 1 and "thread 'y': new, 1 checkpoint" in done.out
    assert "warning: thread 'x' of origin is left out: late writes are malformed" in done.err.splitlines()
    assert "warning: thread 'z' of origin is left out: commit is not a checkpoint of a thread" in done.err.splitlines()
    assert "warning: 'refs/baton/threads/x/_' of origin is left out: the name is not one that gitbaton writes" in done.err
    listed = b.here("thread", "list").out.splitlines()
    assert "> x  fetched from origin only: broken there: late writes are malformed" in listed
    assert "> y  fetched from origin only: 'git baton sync --threads origin' takes it in" in listed
    assert b.here("sync", "--threads").code == 1 and threads(b.state().refs).keys() == {ref_of("y", "")}
    on(a, puts("3"))
    done = a.here("push", "--threads")
    assert done.code == 1 and "refused: thread 'x' is broken at origin: late writes are malformed" in done.err
    b.git("update-ref", ref_of("y", ""), b.head())
    done = b.here("push", "--threads", "--yes")
    assert done.code == 1 and "refused: thread 'y' is broken here: commit is not a checkpoint of a thread" in done.err


def test_a_secret_in_a_value_or_a_write_stops_the_push(far: Far) -> None:
    a = far.first
    packed = b"\x82\xa4text\xd9" + bytes((len(KEY),)) + KEY.encode() + b"\xa1n\x01"
    on(a, puts("1"), lambda store: put(store, "x", "2", "1", channels={"c": ("msgpack", packed)}))
    on(a, lambda store: store.put_writes("x", "", "1", [("", "t", 0, "c", "msgpack", packed)], False))
    done = a.here("push", "--threads", "--yes")
    assert done.code == 1 and KEY not in done.err and not threads(far.there().refs)
    assert "error: nothing is pushed: 2 secrets would leave" in done.err
    places = [line.split(": ")[1] for line in done.err.splitlines() if line.startswith("secret: ")]
    assert places == ["thread 'x' 2 channel 'c'", "thread 'x' 1 writes of task 't'"], done.err
    ok(a, "push", "--threads", "--yes", "--no-scan")
    on(a, lambda store: put(store, "x", "3", "2", channels={"c": ("msgpack", b"\0" * 2000)}))
    a.git("config", "baton.maxFileSize", "1k")
    done = a.here("push", "--threads")
    assert done.code == 1 and "thread 'x' 3 channel 'c': not-scanned" in done.err, (
        "a value is no binary file that may be passed over"
    )


@pytest.mark.deep
def test_a_secret_in_a_name_or_in_metadata_stops_the_push(far: Far) -> None:
    a = far.first
    on(a, puts("1", thread=KEY), puts("1", thread="y", namespace=f"of {KEY}"), puts("1", thread=KEY))
    done = a.here("push", "--threads", "--yes")
    assert done.code == 1 and "error: nothing is pushed: 2 secrets would leave" in done.err and not threads(far.there().refs)
    assert "secret: name of thread '[redacted:aws-key]': aws-key" in done.err, done.err
    assert "secret: name of thread 'y' (namespace 'of [redacted:aws-key]'): aws-key" in done.err, done.err
    on(a, lambda store: store.delete(KEY), lambda store: store.delete("y"), puts("1"))
    ok(a, "push", "--threads", "--yes")
    secret = b'{"db":"postgres://u:s3cretPassw0rd@h/db","token_usage":{"password":17}}'
    on(a, lambda store: store.put("x", "", "2", "1", b'{"id":"2"}', secret, {}))
    done = a.here("push", "--threads", "--yes")
    assert done.code == 1 and "s3cret" not in done.err, done.err
    assert done.err.startswith("secret: thread 'x' 2 metadata: url-password\n") and done.err.count("secret: ") == 1, done.err


def test_of_a_thread_that_stays_the_namespace_is_named(far: Far) -> None:
    a = far.first
    on(a, puts("1"), puts("1", namespace="n"), puts("1", thread="y"), puts("1", thread="y", namespace="n"))
    ok(a, "push", "--threads", "--yes")
    a.git("update-ref", "-d", ref_of("x", "n"))
    on(a, lambda store: store.delete("y"))
    done = a.here("push", "--threads", "--yes")
    assert "thread 'x' (namespace 'n'), thread 'y' are deleted here, and still at origin" in done.err, done.err


@pytest.mark.deep
def test_a_dry_run_says_what_it_does_not_count(far: Far) -> None:
    a = far.first
    on(a, puts("1"))
    ok(a, "push", "--threads", "--yes")
    with ThreadStore.open(a.path, sync=False, idle=60.0) as store:
        put(store, "x", "2", "1")
        for verb in ("push", "sync"):
            assert "warning: what savers have not flushed yet is not counted" in ok(a, verb, "--threads", "-n").err, verb


@pytest.mark.deep
def test_a_server_that_refuses_rewriting(far: Far) -> None:
    a = far.first
    hook(far.remote.path, "update", REFUSES_REWRITING)
    on(a, puts("1"))
    ok(a, "push", "--threads", "--yes")
    on(a, puts("2"))
    snap(a, "one")
    ok(a, "push", "--threads", "--yes")
    on(a, writes("2", "t"))
    snap(a, "two")
    done = a.here("push", "--threads")
    assert done.code == 1 and "refused: origin refuses rewriting, and thread 'x' was rewritten here" in done.err
    assert f"push 't': forward, 1 checkpoint [{CHAINS}t]" in done.out
