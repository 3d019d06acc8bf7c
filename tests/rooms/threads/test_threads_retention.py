"""``git baton prune --threads``: what the rules keep, what delta channels need, and nothing else of anybody's goes."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import RecordError
from gitbaton.care.retention.rules import KeepRules, RetentionItem, keep, parse_duration
from gitbaton.care.retention.threads import apply, plan
from gitbaton.langgraph.threads.names import ref_of
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox, examples
from tests.kit.threads import QUIET

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNTERS = "counters_since_delta_snapshot"
Node = tuple[int | None, int, bool | None]
"""A checkpoint: its parent's number, minutes since the one before, and whether its delta channel has a value (None: it has no
such channel)."""


def moment(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def name(number: int) -> str:
    return f"id-{number:05}"


def put(store: ThreadStore, thread: str, number: int, node: Node, minutes: int, namespace: str = "") -> None:
    parent, _, whole = node
    ck = {"v": 4, "id": name(number), "ts": moment(minutes).isoformat()}
    md: dict[str, object] = {"source": "loop", "step": number}
    if whole is not None and parent is not None:
        md[COUNTERS] = {"log": [1, 1]}
    texts = [json.dumps(text, separators=(",", ":")).encode() for text in (ck, md)]
    channels = {"n": ("bytes", b"%d" % number), **({"log": ("bytes", b"all")} if whole else {})}
    store.put(thread, namespace, name(number), None if parent is None else name(parent), texts[0], texts[1], channels)
    store.put_writes(thread, namespace, name(number), [("", "task", 0, "log", "bytes", b"w%d" % number)], False)


def line(store: ThreadStore, count: int, thread: str = "t") -> None:
    for number in range(count):
        put(store, thread, number, (number - 1 if number else None, 1, None), number)


def ids(store: ThreadStore, thread: str = "t", namespace: str = "") -> list[str]:
    return [entry.id for entry in store.walk(thread, namespace)]


def whole(store: ThreadStore, thread: str, namespace: str = "") -> dict[str, object]:
    """Everything of each checkpoint that a reader sees."""
    found: dict[str, object] = {}
    for entry in store.walk(thread, namespace):
        values = {channel: store.blob(oid) for channel, oid in entry.channels.items()}
        found[entry.id] = (entry.parent, entry.ck, entry.md, values, store.rows(thread, namespace, entry))
    return found


@pytest.fixture
def store(repo: Sandbox) -> Iterator[ThreadStore]:
    with ThreadStore.open(repo.path, **QUIET) as opened:
        yield opened


nodes = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 900), st.sampled_from([None, None, True, False, False])),
    min_size=1,
    max_size=12,
)
rules = st.builds(
    KeepRules,
    last=st.none() | st.integers(1, 4),
    within=st.none() | st.sampled_from(["1h", "1d"]).map(lambda text: parse_duration(text, "x")),
    daily=st.none() | st.integers(1, 2),
)


def tree(drawn: list[tuple[int, int, bool | None]]) -> dict[int, Node]:
    """A thread in which each checkpoint follows one of the few before it; without a parent a delta channel is whole."""
    found: dict[int, Node] = {}
    for number, (back, minutes, delta) in enumerate(drawn):
        parent = number - 1 - back if number - 1 - back >= 0 else None
        found[number] = (parent, minutes, True if parent is None and delta is not None else delta)
        if parent is None or found[parent][2] is None:
            found[number] = (parent, minutes, None if delta is None else True)
        elif delta is None:
            found[number] = (parent, minutes, False)  # once there, a channel stays
    return found


def expected(made: Mapping[int, Node], times: Mapping[int, int], given: KeepRules) -> set[int]:
    """What must stay, worked out without any of the code that is tested but the rules."""
    order = sorted(made, reverse=True)
    items = [RetentionItem(id=name(number), created=moment(times[number]), kind="auto") for number in order]
    stays = {number for number in order if name(number) in keep(items, given if given.given else KeepRules(last=1))}
    for number in list(stays):
        at: int | None = number
        while at is not None and made[at][2] is False:
            at = made[at][0]
            assert at is not None
            stays.add(at)
    return stays


@pytest.mark.deep
@settings(max_examples=examples(200, 25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=nodes, given_rules=rules, flushed=st.booleans())
def test_what_stays_is_what_rules_and_delta_channels_need(
    store: ThreadStore, drawn: list[tuple[int, int, bool | None]], given_rules: KeepRules, flushed: bool
) -> None:
    store.delete("t")
    made, times, minutes = tree(drawn), dict[int, int](), 0
    for number, node in made.items():
        minutes += node[1]
        times[number] = minutes
        put(store, "t", number, node, minutes)
        if flushed and number % 3 == 0:
            store.flush()
    before, stays = whole(store, "t"), {name(number) for number in expected(made, times, given_rules)}
    planned = plan(store, ["t"], given_rules)
    (part,) = planned.parts
    assert {entry.id for entry, _ in part.keep} == stays and {entry.id for entry in part.remove} == before.keys() - stays
    done = apply(store, planned)
    assert done == planned
    assert whole(store, "t") == {id: content for id, content in before.items() if id in stays}
    assert plan(store, ["t"], given_rules).empty


@pytest.mark.deep
def test_nothing_of_a_thread_goes_unless_asked(repo: Sandbox, store: ThreadStore) -> None:
    line(store, 5)
    store.flush()
    repo.git("config", "baton.keepLast", "1")
    for number in range(3):
        repo.here("snapshot", "--track", "work", "--step", str(number), "--no-files")
    done = repo.here("prune", "--json")
    assert done.code == 0 and len(done.json["tracks"][0]["remove"]) == 2 and len(ids(store)) == 5
    repo.git("gc", "-q", "--prune=now")
    assert len(whole(store, "t")) == 5
    for words in (
        ("--threads", "--drop-milestones"),
        ("--threads", "--keep-last", "0"),
        ("--threads", "--keep-within", "soon"),
    ):
        assert repo.here("prune", *words).code == 129
    assert len(ids(store)) == 5


@pytest.mark.deep
def test_a_saver_at_work_is_no_hindrance_for_tracks(repo: Sandbox) -> None:
    for number in range(3):
        repo.here("snapshot", "--track", "work", "--step", str(number), "--no-files")
    from gitbaton.care.retention import pruning
    from gitbaton.care.retention.rules import Wish

    with repo.open(door="binary") as baton, ThreadStore.open(repo.path, **QUIET) as store:
        made = pruning.plan(baton, Wish(rules=KeepRules(last=1)))
        line(store, 2)
        store.flush()
        assert len(pruning.apply(baton, made).removed) == 2


@pytest.mark.deep
def test_by_itself_the_newest_of_each_namespace_stays(repo: Sandbox, store: ThreadStore) -> None:
    line(store, 4)
    line(store, 3, "other")
    for number in range(2):
        put(store, "t", number, (None, 0, None), number, "sub")
    kept = whole(store, "t")[name(3)]
    said = repo.here("prune", "--threads", "--dry-run", "t").out.splitlines()
    assert said[:2] == ["thread 't': 3 checkpoints to remove, 1 to keep", "keep    id-00003  2026-01-01  last, tip  loop 3"]
    assert [row.split() for row in said[2:5]] == [["remove", name(n), "2026-01-01", "loop", str(n)] for n in (2, 1, 0)]
    assert said[5] == "thread 't' namespace 'sub': 1 checkpoint to remove, 1 to keep"
    assert said[-1].endswith("would be free once git has collected garbage") and len(ids(store)) == 4
    assert repo.here("prune", "--threads", "t").out.splitlines() == [
        "thread 't': 3 checkpoints removed, 1 kept",
        "thread 't' namespace 'sub': 1 checkpoint removed, 1 kept",
        "'git gc' frees their bytes; git runs it in its own time",
    ]
    assert whole(store, "t") == {name(3): kept} and ids(store, "t", "sub") == [name(1)] and len(ids(store, "other")) == 3
    assert repo.here("prune", "--threads", "t").out == "nothing to remove\n"
    assert repo.here("prune", "--threads").out.startswith("thread 'other': 2 checkpoints removed, 1 kept\n")
    store.flush()
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert whole(store, "t") == {name(3): kept}
    repo.fsck()


def test_the_plan_as_json_is_what_is_done(repo: Sandbox, store: ThreadStore) -> None:
    line(store, 4)
    words = ("prune", "--threads", "t", "--keep-last", "2", "--json")
    planned, done = repo.here(*words, "--dry-run").json, repo.here(*words).json
    assert planned["dry_run"] and planned["bytes"] == 0 and done["bytes"] is None  # git has none of it yet
    assert (
        planned["threads"]
        == done["threads"]
        == [
            {
                "thread": "t",
                "namespace": "",
                "keep": [
                    {"id": name(3), "ts": "2026-01-01T00:03:00.000000Z", "reasons": ["last", "tip"]},
                    {"id": name(2), "ts": "2026-01-01T00:02:00.000000Z", "reasons": ["last"]},
                ],
                "remove": [
                    {"id": name(1), "ts": "2026-01-01T00:01:00.000000Z"},
                    {"id": name(0), "ts": "2026-01-01T00:00:00.000000Z"},
                ],
            }
        ]
    )


@pytest.mark.deep
def test_what_a_dry_run_says_is_about_what_git_frees(repo: Sandbox, store: ThreadStore) -> None:
    for number in range(6):
        value = {"n": ("bytes", os.urandom(20_000))}
        store.put("t", "", name(number), None, b'{"v":4}', b"{}", value)
    store.flush()
    repo.git("gc", "-q", "--prune=now")
    pack = repo.path / ".git/objects/pack"
    before = sum(file.stat().st_size for file in pack.iterdir())
    said = repo.here("prune", "--threads", "--keep-last", "2", "--dry-run", "--json").json["bytes"]
    repo.here("prune", "--threads", "--keep-last", "2")
    repo.git("gc", "-q", "--prune=now")
    freed = before - sum(file.stat().st_size for file in pack.iterdir())
    assert abs(said - freed) < 2_000 and freed > 80_000


def test_an_ancestor_that_is_missing_ends_it(repo: Sandbox, store: ThreadStore) -> None:
    put(store, "t", 1, (0, 1, False), 1)  # its parent never came
    put(store, "t", 2, (1, 1, False), 2)
    done = repo.here("prune", "--threads")
    assert done.code == 2 and "'id-00000' of thread 't' is not here" in done.err and len(ids(store)) == 2
    for words in (("x",), ("t", "x")):
        done = repo.here("prune", "--threads", *words)
        assert done.code == 2 and done.err.startswith("fatal: there is no thread 'x'\nhint: ") and len(ids(store)) == 2
    assert repo.here("prune", "--threads", "--dry-run").code == 2


def test_metadata_that_nobody_can_read_here_end_it(repo: Sandbox, store: ThreadStore) -> None:
    """They may name a delta channel, and then what goes would be missed."""
    line(store, 2)
    md = {"md": ("msgpack+aes", b"secret")}
    store.put("t", "", name(2), name(1), b'{"v":4,"id":"id-00002"}', b"", {}, md)
    for words in ((), ("--dry-run",)):
        done = repo.here("prune", "--threads", *words)
        assert done.code == 128 and "the metadata of checkpoint 'id-00002' cannot be read (msgpack+aes)" in done.err
    assert len(ids(store)) == 3


def packs(repo: Sandbox) -> int:
    return len(list((repo.path / ".git/objects/pack").glob("*.pack")))


def test_many_threads_are_pruned_in_one_pack_or_not_at_all(repo: Sandbox, store: ThreadStore) -> None:
    threads = [f"t{number:02}" for number in range(20)]
    for thread in threads:
        line(store, 3, thread)
    store.flush()
    before, refs = packs(repo), repo.git("for-each-ref", "refs/baton")
    made = plan(store, [], KeepRules())
    broken = repo.git("rev-parse", ref_of("t07", ""))
    repo.git("update-ref", ref_of("t07", ""), repo.git("commit-tree", "-m", "x", repo.git("write-tree")))
    with pytest.raises(RecordError, match="t07") as caught:
        apply(store, made)
    assert caught.value.hints[-1] == "nothing was removed, from no thread"
    repo.git("update-ref", ref_of("t07", ""), broken)
    assert repo.git("for-each-ref", "refs/baton") == refs
    done = apply(store, made)
    assert [len(part.remove) for part in done.parts] == [2] * 20 and packs(repo) == before + 1
    assert all(ids(store, thread) == [name(2)] for thread in threads)
    assert apply(store, done).empty and packs(repo) == before + 1


def test_what_comes_between_plan_and_deed_stays_and_so_does_what_it_needs(store: ThreadStore) -> None:
    put(store, "t", 0, (None, 1, True), 0)
    put(store, "t", 1, (0, 1, False), 1)
    put(store, "t", 2, (1, 1, True), 2)
    made = plan(store, [], KeepRules())
    assert [entry.id for entry in made.parts[0].remove] == [name(1), name(0)]
    put(store, "t", 3, (1, 1, False), 3)  # it goes on from one that is to go
    assert not apply(store, made).parts[0].remove and len(ids(store)) == 4
    line(store, 3, "u")
    made = plan(store, ["u"], KeepRules())
    store.delete("u")
    assert not apply(store, made).parts[0].remove and ids(store, "u") == []


@pytest.mark.deep
def test_beside_one_who_puts_all_the_time(repo: Sandbox) -> None:
    with ThreadStore.open(repo.path, sync=False) as store:
        line(store, 40)
        end, last = threading.Event(), [39]

        def work() -> None:
            while not end.wait(0.0005):
                last[0] += 1
                put(store, "t", last[0], (last[0] - 1, 1, None), last[0])

        thread = threading.Thread(target=work)
        thread.start()
        try:
            assert repo.here("prune", "--threads", "--keep-last", "3").code == 0
        finally:
            end.set()
            thread.join()
        found = ids(store)
        assert found[0] == name(last[0]) and len(found) >= 3 and name(36) not in found
        assert found == [name(number) for number in range(last[0], last[0] - len(found), -1)]
    repo.fsck()


@pytest.mark.deep
def test_refs_that_only_look_like_ours_stop_everything(repo: Sandbox, store: ThreadStore) -> None:
    line(store, 1)
    store.flush()
    for ref in ("threads/x/_", "threads/=u", "late/=u/=a%2f", "threads/=u/_/_", "late/=u/=%41"):
        repo.git("update-ref", f"refs/baton/{ref}", repo.head())
        done = repo.here("prune", "--keep-last", "1")
        assert done.code == 128 and f"'refs/baton/{ref}' is not a ref that gitbaton writes" in done.err
        repo.git("update-ref", "-d", f"refs/baton/{ref}")
    assert repo.here("prune", "--keep-last", "1").code == 0


@pytest.mark.deep
def test_du_counts_threads_late_writes_and_the_log(repo: Sandbox) -> None:
    with ThreadStore.open(repo.path, **QUIET) as store:
        line(store, 3)
        store.put_writes("t", "", "id-999", [("", "task", 0, "log", "bytes", os.urandom(9000))], False)
        rows = {row["kind"]: row for row in repo.here("du", "--json").json["parts"]}
        assert list(rows) == ["log"] and rows["log"]["own"] >= 9000
        assert any(row.endswith("log of threads") for row in repo.here("du").out.splitlines())
        store.flush()
        rows = {row["kind"]: row for row in repo.here("du", "--json").json["parts"]}
        assert list(rows) == ["threads", "log"] and rows["threads"]["own"] > 9000
    assert [row["kind"] for row in repo.here("du", "--json").json["parts"]] == ["threads"]


@pytest.mark.deep
def test_doctor_names_what_is_wrong_with_threads(repo: Sandbox) -> None:
    with ThreadStore.open(repo.path, **QUIET) as store:
        line(store, 3)
        line(store, 2, "whole")
        store.put_writes("t", "", "id-999", [("", "task", 0, "log", "bytes", b"x")], False)

    def found(start: str) -> list[tuple[bool, str]]:
        rows = repo.here("doctor", "--json").json["findings"]
        return [(row["ok"], row["text"]) for row in rows if row["name"] == start]

    assert found("threads") == [(True, "2 threads, 5 checkpoints")]
    middle = repo.git("rev-parse", f"{ref_of('t', '')}~1")
    raw = repo.git("cat-file", "commit", ref_of("t", "")).replace(f"parent {middle}", f"parent {repo.head()}")
    repo.git("update-ref", ref_of("t", ""), repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=f"{raw}\n".encode()))
    repo.git("update-ref", "refs/baton/late/=t/_", repo.head())
    rows = found("threads")
    assert [ok for ok, _ in rows] == [False, False, True]
    assert all(text.startswith("thread 't' cannot be read: ") for _, text in rows[:2])
    keep = repo.path / ".git/objects/pack/pack-dead.keep"
    for text, age, left in (
        ("gitbaton 1 0.0 pid:[1]\n", 2 * 86_400, 1),
        ("gitbaton 1 0.0 pid:[1]\n", 5, 0),
        ("mine\n", 1 << 20, 0),
    ):
        keep.write_text(text)
        os.utime(keep, (time.time() - age, time.time() - age))
        assert len(found("threads-packs")) == left
    assert Path(keep).exists()  # it only looks
