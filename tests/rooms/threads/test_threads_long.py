"""Threads and namespaces whose names are too long for a ref: all that works with others works with them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gitbaton.base.errors import RecordError
from gitbaton.langgraph.threads.names import late_ref, names_of, prefix_of, ref_of
from gitbaton.langgraph.threads.reports import threads
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.far import Far, ok
from tests.kit.threads import QUIET, put
from tests.kit.tiers import some

LONG = "\u62a5" * 5000
DEEP = "|".join(f"child{n}:6f1c2c1e-9b0a-4a58-8f6e-0d9c5b7a1e2f" for n in range(30))
OTHER = LONG + "x"


def fill(store: ThreadStore, thread: str, namespace: str = "", count: int = 3) -> None:
    for number in range(count):
        put(store, thread, f"{number:03}", f"{number - 1:03}" if number else None, namespace=namespace)
        store.put_writes(thread, namespace, f"{number:03}", [("", "t", 0, "c", "bytes", b"%d" % number)], replace=False)
    store.put_writes(thread, namespace, "999", [("", "t", 0, "c", "bytes", b"late")], replace=False)


def held(store: ThreadStore, thread: str, namespace: str = "") -> dict[str, list[bytes]]:
    found = list(store.walk(thread, namespace))
    return {entry.id: [row[5] for row in store.rows(thread, namespace, entry)] for entry in found}


def listed(box: Sandbox) -> list[str]:
    return box.git("for-each-ref", "--format=%(refname)").split("\n")


FULL = {f"{number:03}": [b"%d" % number] for number in (2, 1, 0)}


@pytest.mark.deep
def test_a_long_name_is_kept_flushed_listed_and_read_again(bare: Sandbox) -> None:
    for _ in range(3):  # what a second flush finds is what jammed
        with ThreadStore.open(bare.path, **QUIET) as store:
            fill(store, LONG)
            fill(store, "t", DEEP)
            put(store, "short", "1", None)
            store.flush()
            fill(store, OTHER, DEEP)
    with ThreadStore.open(bare.path, **QUIET) as store:
        assert store.chains() == sorted([(LONG, ""), ("t", DEEP), ("short", ""), (OTHER, DEEP)])
        assert store.chains(LONG) == [(LONG, "")] and store.chains("t") == [("t", DEEP)]
        assert held(store, LONG) == held(store, "t", DEEP) == held(store, OTHER, DEEP) == FULL
        rows, wrong = threads(store)
        assert {(row.thread, row.namespace) for row in rows} == {*store.chains()} and not wrong
    bare.git("fsck", "--strict")
    assert max(map(len, listed(bare))) < 725
    said = json.loads(bare.git("cat-file", "commit", ref_of(LONG, "")).split("\n")[-1])
    assert (said["v"], said["thread"], said["ns"]) == (1, LONG, "")
    assert "thread" not in json.loads(bare.git("cat-file", "commit", ref_of("short", "")).split("\n")[-1])
    assert "cannot be read" not in bare.here("doctor").out


@pytest.mark.deep
@some(("source", "target"), [(LONG, "b"), ("a", LONG), (LONG, OTHER), ("a", "b")], ids=["from", "to", "both", "namespace"])
@some("there", [False, True], share=0, ids=["new", "there"])
def test_copy_to_and_from_long_names(store: ThreadStore, bare: Sandbox, source: str, target: str, *, there: bool) -> None:
    for namespace in ("", DEEP):
        fill(store, source, namespace)
        if there:
            fill(store, target, namespace, count=1)
    store.copy(source, target)
    store.copy(source, target)
    for thread in (source, target):
        assert store.chains(thread) == [(thread, ""), (thread, DEEP)]
        assert held(store, thread) == held(store, thread, DEEP) == FULL
        put(store, thread, "999", None)
        assert held(store, thread) == {"999": [b"late"], **FULL}
    store.flush()
    for thread in (source, target):
        assert held(store, thread) == {"999": [b"late"], **FULL}
    if target == "b":
        assert '"thread":' not in bare.git("cat-file", "commit", ref_of("b", ""))
    bare.git("fsck", "--strict")


@pytest.mark.full
def test_delete_prune_runs_and_remove(store: ThreadStore, bare: Sandbox) -> None:
    for thread in (LONG, OTHER, LONG[:-1]):
        fill(store, thread)
        fill(store, thread, DEEP)
    store.flush()
    store.delete(LONG[:-1])
    assert not store.chains(LONG[:-1]) and len(store.chains()) == 4
    store.prune([LONG])
    assert [*held(store, LONG)] == [*held(store, LONG, DEEP)] == ["002"] and held(store, OTHER) == FULL
    assert store.remove({(OTHER, DEEP): ["000", "002"]}) == {(OTHER, DEEP): {"000"}}
    assert [*held(store, OTHER, DEEP)] == ["002", "001"]
    store.prune([OTHER], strategy="delete")
    assert store.chains() == [(LONG, ""), (LONG, DEEP)]
    assert not [ref for ref in listed(bare) if ref.startswith(prefix_of(OTHER))]


def test_a_ref_that_does_not_say_its_name_stands_in_nobodys_way(store: ThreadStore, bare: Sandbox) -> None:
    fill(store, "t")
    store.flush()
    tip = bare.git("rev-parse", ref_of("t", ""))
    bare.git("update-ref", ref_of(LONG, ""), tip)
    rows, wrong = threads(store)
    assert [row.thread for row in rows] == ["t"]
    assert [(str(name[0]), reason) for name, reason in wrong.items()] == [
        (ref_of(LONG, "").split("/")[3], f"ref '{ref_of(LONG, '')}': its newest commit does not say whose it is")
    ]
    assert held(store, "t") == FULL and "it does not say its name" in bare.here("doctor").out
    name = names_of(ref_of(LONG, ""))
    assert name is not None
    with pytest.raises(RecordError, match="does not say whose it is"):
        store.latest(*name)


@some("folded", [False, True], ids=["loose", "packed"])
def test_a_ref_longer_than_libgit2_takes_jams_no_other(bare: Sandbox, *, folded: bool) -> None:
    with ThreadStore.open(bare.path, **QUIET) as store:
        fill(store, "t")
    ref = "refs/baton/threads/=" + "%/".join(["x" * 199] * 6) + "/_"
    assert len(ref) > 1023
    bare.git("update-ref", ref, bare.git("rev-parse", ref_of("t", "")))
    if folded:
        bare.git("pack-refs", "--all")
    with ThreadStore.open(bare.path, **QUIET) as store:
        fill(store, "u")
        store.flush()
        fill(store, LONG)
        store.copy("t", "v")
        store.prune(["u"])
        store.delete("t")
        assert store.chains() == sorted([("u", ""), ("v", ""), (LONG, "")])
    done = bare.here("threads")
    assert done.code == 0 and re.search(r"^v .* 3 checkpoints ", done.out, re.MULTILINE)


@pytest.mark.full
def test_long_names_travel(far: Far) -> None:
    a = far.first
    with ThreadStore.open(a.path, sync=False) as store:
        fill(store, LONG)
        fill(store, "t", DEEP)
    assert ok(a, "push", "--threads", "--yes").out
    b = far.clone("b")
    assert LONG[:50] in ok(b, "fetch", "--threads").out
    said = ok(b, "threads").out
    assert "fetched from origin only" in said and LONG[:100] in said and DEEP[:100] in said
    ok(b, "sync", "--threads", "--yes")
    with ThreadStore.open(b.path, sync=False) as store:
        assert held(store, LONG) == held(store, "t", DEEP) == FULL
        put(store, LONG, "003", "002")
    with ThreadStore.open(a.path, sync=False) as store:
        put(store, LONG, "004", "002")
        store.delete("t")
    ok(b, "sync", "--threads", "--yes")
    assert LONG[:50] in ok(a, "sync", "--threads", "--yes").out
    ok(b, "sync", "--threads", "--yes")
    for clone in (a, b):
        with ThreadStore.open(clone.path, sync=False) as store:
            assert [*held(store, LONG)] == ["004", "003", "002", "001", "000"]
    assert a.state().refs[ref_of(LONG, "")] == b.state().refs[ref_of(LONG, "")] == far.there().refs[ref_of(LONG, "")]
    assert a.state().refs[late_ref(LONG, "")] == b.state().refs[late_ref(LONG, "")]
    with ThreadStore.open(a.path, sync=False) as store:
        store.delete(LONG)
    assert ok(a, "push", "--threads", "--prune").code == 0 and LONG[:50] in ok(b, "fetch", "--threads", "--prune").out


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


@pytest.mark.deep
def test_one_long_name_travels_alone(far: Far) -> None:
    a, b = far.first, far.clone("b")
    with ThreadStore.open(a.path, sync=False) as store:
        fill(store, LONG)
        fill(store, OTHER)
    ok(a, "push", "--threads", "--yes", "origin", LONG)
    assert [ref for ref in far.there().refs if "/threads/" in ref] == [ref_of(LONG, "")]
    ok(b, "sync", "--threads", "--yes", "origin", LONG)
    with ThreadStore.open(b.path, sync=False) as store:
        assert held(store, LONG) == FULL
