"""``git baton thread``: what is stored, as people and scripts see it."""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import ormsgpack
import pytest

from gitbaton.base.codec import is_control
from gitbaton.base.system.extras import adding
from gitbaton.langgraph.threads.codec import Typed
from gitbaton.langgraph.threads.names import ref_of
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.places import ROOT
from tests.kit.threads import QUIET

START = datetime(2026, 1, 1, tzinfo=UTC)
TASK = "0" * 8


def packed(content: object) -> Typed:
    return "msgpack", ormsgpack.packb(content)


def put(
    store: ThreadStore,
    thread: str,
    number: int,
    *,
    namespace: str = "",
    parent: int | None = -1,
    channels: dict[str, Typed] | None = None,
    id: str = "",
    **metadata: Any,
) -> str:
    """The checkpoint with a number: its id is ``id-000N``, one minute after the one before."""
    name, when = id or f"id-{number:04}", START + timedelta(minutes=number)
    values = {"step": packed(number)} if channels is None else channels
    versions = dict.fromkeys(values, f"{number:032}.0.7")
    ck = {"v": 4, "ts": when.isoformat(), "id": name, "channel_versions": versions, "versions_seen": {}}
    md = {"source": "loop", "step": number, "parents": {}, **metadata}
    above = parent if parent != -1 else number - 1 if number else None
    said, known = (json.dumps(text, separators=(",", ":")).encode() for text in (ck, md))
    assert store.put(thread, namespace, name, None if above is None else f"id-{above:04}", said, known, values)
    return name


def write(store: ThreadStore, thread: str, id: str, channel: str, value: Typed, index: int = 0, namespace: str = "") -> None:
    store.put_writes(thread, namespace, id, [("~path", TASK, index, channel, *value)], False)


@pytest.mark.parametrize("flushed", [True, False])
def test_what_a_run_writes_to_a_thread_that_was_deleted_is_deleted_too(repo: Sandbox, flushed: bool) -> None:
    """It is in no list: its checkpoint is gone."""
    with repo.open() as baton, ThreadStore(baton.repo, **QUIET) as store:
        put(store, "demo", 0)
        store.delete("demo")
        write(store, "demo", "id-0000", "n", packed("what the user said"))
        if flushed:
            store.flush()
        gone = repo.baton("thread", "delete", "other")
        assert (gone.code, "there is no thread 'other'" in gone.err) == (2, True)
        done = repo.ok("thread", "delete", "demo")
        assert done.out == "thread 'demo' deleted: writes but no checkpoint\n"
        assert repo.git("for-each-ref", "refs/baton") == "" and repo.baton("thread", "delete", "demo").code == 2


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_thread_that_cannot_be_read_whole_is_not_counted_as_if_it_were(repo: Sandbox, words: tuple[str, ...]) -> None:
    with ThreadStore.open(repo.path, **QUIET) as store:
        put(store, "demo", 0)
        put(store, "demo", 1)
        put(store, "demo", 2, namespace="child:x", parent=None)
        put(store, "whole", 0)
    repo.git("update-ref", ref_of("demo", "child:x"), "HEAD")
    done = repo.ok("thread", "delete", "demo", *words)
    if words:
        assert done.json == {"v": 1, "thread": "demo", "deleted": 2, "complete": False, "remotes": []}
        assert "complete" not in repo.ok("thread", "delete", "whole", "--json").json
    else:
        assert done.out == "thread 'demo' deleted: at least 2 checkpoints\n"
    assert repo.git("for-each-ref", ref_of("demo", "child:x")) == ""


@pytest.fixture
def told(repo: Sandbox) -> Sandbox:
    """A thread that forked and has a subgraph's namespace, and an older one that waits."""
    with ThreadStore.open(repo.path, **QUIET) as store:
        put(store, "old", 1, parent=None)
        write(store, "old", "id-0001", "__interrupt__", packed(["sure?"]), -3)
        for number in range(10, 14):
            put(store, "new/one", number, run_id="run-7", parent=None if number == 10 else 10 if number == 13 else -1)
        write(store, "new/one", "id-0012", "step", packed(99))
        put(store, "new/one", 12, namespace="child:x", parent=None, id="inner")
    return repo


def test_where_there_are_none_it_is_quiet_and_makes_nothing(repo: Sandbox) -> None:
    done = repo.here("thread", "list")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert repo.here("thread", "list", "--json").json == {"v": 1, "threads": [], "fetched": []}
    done = repo.here("thread", "log", "x")
    assert done.code == 2 and done.err.startswith("fatal: there is no thread 'x'")
    assert not (repo.path / ".git/baton/wal").exists()


def test_the_list_is_newest_first_and_says_who_waits(told: Sandbox) -> None:
    rows = told.here("thread", "list").out.splitlines()
    assert [re.split(r" {2,}", row) for row in rows] == [
        ["new/one", "2026-01-01", "4 checkpoints", "loop step 13"],
        ["new/one [child:x]", "2026-01-01", "1 checkpoint", "loop step 12"],
        ["old", "2026-01-01", "1 checkpoint", "! waits at an interrupt", "loop step 1"],
    ]
    found = told.here("thread", "list", "--json").json["threads"]
    assert [(row["thread"], row["namespace"], row["checkpoints"]) for row in found] == [
        ("new/one", "", 4),
        ("new/one", "child:x", 1),
        ("old", "", 1),
    ]
    assert found[2] == {
        "thread": "old",
        "namespace": "",
        "checkpoints": 1,
        "newest": "id-0001",
        "ts": "2026-01-01T00:01:00.000000Z",
        "source": "loop",
        "step": 1,
        "interrupt": True,
    }


def test_what_git_does_not_have_yet_is_there_too(repo: Sandbox) -> None:
    with ThreadStore.open(repo.path, **QUIET) as store:
        for number in (3, 1):
            put(store, "t", number)
        assert repo.git("for-each-ref", "refs/baton/threads") == ""
        assert "  2 checkpoints" in repo.here("thread", "list").out
        shown = repo.here("thread", "show", "t", "--json").json
        assert shown["commit"] is None and shown["id"] == "id-0003"
        assert "commit=not yet in git" in repo.here("thread", "show", "t").out
        store.flush()
        put(store, "t", 2)
        assert "  3 checkpoints" in repo.here("thread", "list").out  # one is between those that git has
        assert [row["id"] for row in repo.here("thread", "log", "t", "--json").json["checkpoints"]] == [
            *("id-0003", "id-0002", "id-0001"),
        ]


def killed(repo: Sandbox) -> None:
    """Have a process put checkpoint 7 of ``t``, and be killed."""
    script = (
        "import os, sys\nsys.path.insert(0, sys.argv[2])\n"
        "from gitbaton.langgraph.threads.store import ThreadStore\nfrom tests.verbs.test_threads_verbs import put\n"
        "put(ThreadStore.open(sys.argv[1], every=1 << 30, idle=1e6), 't', 7)\nos._exit(9)\n"
    )
    root = str(ROOT)
    assert repo.run(sys.executable, "-c", script, str(repo.path), root).code == 9


@pytest.mark.deep
def test_what_a_killed_process_left_is_shown_and_then_in_git(repo: Sandbox) -> None:
    killed(repo)
    assert repo.git("for-each-ref", "refs/baton/threads") == ""
    doctor = [row for row in repo.here("doctor").out.splitlines() if "threads-log" in row]
    assert len(doctor) == 1 and doctor[0].startswith("ok   threads-log: records of the log that git does not have yet: 1; ")
    assert repo.here("du", "--json").json["parts"][0]["kind"] == "log"
    assert "  1 checkpoint  " in repo.here("thread", "list").out
    assert repo.git("for-each-ref", "--format=%(refname)", "refs/baton") == ref_of("t", "")
    assert "threads-log" not in repo.here("doctor").out and not (repo.path / ".git/baton/wal").exists()
    repo.fsck()


def test_the_log_shows_forks_changes_writes_and_runs(told: Sandbox) -> None:
    rows = told.here("thread", "log", "new/one").out.splitlines()
    assert [row.split("  ")[0] for row in rows] == ["id-0013", "id-0012", "id-0011", "id-0010"]
    assert rows[0].endswith("loop 13  (from id-0010)  step  run run-7")
    assert rows[1].endswith("loop 12  step  1 write  run run-7") and "from" not in "".join(rows[1:])
    assert told.here("thread", "log", "new/one", "-n", "2").out.splitlines() == rows[:2]
    assert told.here("thread", "log", "new/one", "-n", "0").out == ""
    found = told.here("thread", "log", "new/one", "-n", "1", "--json").json
    assert found["checkpoints"] == [
        {
            "id": "id-0013",
            "parent": "id-0010",
            "commit": told.git("rev-parse", ref_of("new/one", "")),
            "ts": "2026-01-01T00:13:00.000000Z",
            "source": "loop",
            "step": 13,
            "run_id": "run-7",
            "changed": ["step"],
            "writes": 0,
            "interrupt": False,
            "fork": True,
        }
    ]
    assert "waits at an interrupt" in told.here("thread", "log", "old").out


def test_updated_channels_go_before_versions(repo: Sandbox) -> None:
    with ThreadStore.open(repo.path, **QUIET) as store:
        for name, said in (("a", {"updated_channels": ["y", "x"]}), ("b", {"updated_channels": None}), ("c", {})):
            ck = {"v": 4, "id": name, "channel_versions": {"x": 1, "y": 1 if name < "c" else 2}, **said}
            parent = {"a": None, "b": "a", "c": "b"}[name]
            store.put("t", "", name, parent, json.dumps(ck, separators=(",", ":")).encode(), b"{}", {})
    found = repo.here("thread", "log", "t", "--json").json["checkpoints"]
    assert [row["changed"] for row in found] == [["y"], [], ["x", "y"]]
    assert all(row["ts"] is None and row["source"] is None for row in found)
    assert repo.here("thread", "list").out.split() == ["t", "?", "3", "checkpoints"]


def test_a_checkpoint_is_shown_whole(repo: Sandbox) -> None:
    channels = {
        "messages": packed([{"role": "user", "content": "hi"}]),
        "secret": ("pickle", b"cposix\nsystem\n(S'touch pwned'\ntR."),
        "closed": ("msgpack+aes", b"xxxx"),
        "broken": ("msgpack", b"\xdd\xff\xff\xff\xff"),
        "nothing": ("null", b""),
        "raw": ("bytes", b"a\0b"),
        "api_key": packed("hunter2hunter2"),
    }
    with ThreadStore.open(repo.path, **QUIET) as store:
        put(store, "t", 1, parent=None, channels=channels, run_id="r-1", user="me", weight=0.5)
        write(store, "t", "id-0001", "out", packed("done"))
        write(store, "t", "id-0001", "__error__", packed("ValueError()"), -1)
    tip = repo.git("rev-parse", ref_of("t", ""))
    assert repo.here("thread", "show", "t").out.splitlines() == [
        *("checkpoint id-0001", "thread=t", "namespace=", "parent=", f"commit={tip}"),
        *(repo.here("thread", "show", "t").out.splitlines()[5], "source=loop", "step=1", "metadata.parents={}", "run_id=r-1"),
        *("metadata.user=me", "metadata.weight=0.5", "channels=7"),
        *("  api_key (msgpack, 15 bytes, version 1)", "    '[redacted:api-key]'"),
        "  broken (msgpack, 5 bytes, version 1, not msgpack, as its type says)",
        "  closed (msgpack+aes, 4 bytes, version 1, encrypted, not opened)",
        *("  messages (msgpack, 23 bytes, version 1)", "    [{'role': 'user', 'content': 'hi'}]"),
        *("  nothing (null, 0 bytes, version 1)", "    None"),
        *("  raw (bytes, 3 bytes, version 1)", "    b'a\\x00b'"),
        "  secret (pickle, 33 bytes, version 1, never opened)",
        *("writes=2", f"  task {TASK} ~path"),
        *("    __error__ (msgpack, 13 bytes, index -1)", "      'ValueError()'"),
        *("    out (msgpack, 5 bytes, index 0)", "      'done'"),
    ]
    _as_json(repo.here("thread", "show", "t", "--json").json)
    assert not list(repo.path.glob("**/pwned"))


def _as_json(found: dict[str, Any]) -> None:
    assert found["metadata"] == {"source": "loop", "step": 1, "parents": {}, "run_id": "r-1", "user": "me", "weight": 0.5}
    by_name = {row["name"]: row for row in found["channels"]}
    assert by_name["messages"]["value"] == [{"role": "user", "content": "hi"}] and "value" not in by_name["secret"]
    assert by_name["raw"]["value"] == {"$type": "bytes", "$value": "YQBi"} and by_name["nothing"]["value"] is None
    assert found["writes"][1] == {
        "task_path": "~path",
        "task_id": TASK,
        "index": 0,
        "channel": "out",
        "type": "msgpack",
        "size": 5,
        "value": "done",
    }


@pytest.mark.deep
def test_which_checkpoint_is_meant(told: Sandbox) -> None:
    def meant(*words: str) -> str:
        return str(told.here("thread", "show", "new/one", *words, "--json").json["id"])

    chain = told.git("rev-list", ref_of("new/one", "")).split()
    assert meant() == meant("@") == meant("@~0") == meant("id-0013") == meant(chain[0]) == "id-0013"
    assert meant("@~") == meant("@~1") == meant("id-0012") == meant(chain[1][:9]) == "id-0012"
    assert meant("--ns", "child:x") == meant("inne", "--ns", "child:x") == "inner"
    for words, code, said in (
        (("id-0",), 128, ["'id-0' could mean 4 checkpoints", "id-0013 loop 13", "id-0012 loop 12"]),
        (("id-0113",), 2, ["thread 'new/one' has no checkpoint 'id-0113'", "perhaps 'id-0013' is meant"]),
        (
            ("@~4",),
            2,
            ["thread 'new/one' has no checkpoint 4 before its newest", "they are listed by: git baton thread log new/one"],
        ),
        (("--ns", "child"), 2, ["thread 'new/one' has no namespace 'child'", "namespace ''", "namespace 'child:x'"]),
    ):
        done = told.here("thread", "show", "new/one", *words)
        rows = [row.partition(": ")[2] for row in done.err.splitlines()]
        assert (done.code, rows[: len(said)]) == (code, said)
    done = told.here("thread", "log", "new/onf")
    assert done.code == 2 and done.err.splitlines()[1:] == [
        "hint: perhaps 'new/one' is meant",
        "hint: 'git baton thread list' lists them",
    ]
    for wrong in ("look x", "log x y", "show x -n 1"):
        assert told.here("thread", *wrong.split()).code == 129


def test_a_thread_without_a_root_namespace(repo: Sandbox) -> None:
    with ThreadStore.open(repo.path, **QUIET) as store:
        put(store, "one", 1, namespace="n")
        for namespace in ("n1", "n2"):
            put(store, "two", 1, namespace=namespace)
    assert repo.here("thread", "show", "one", "--json").json["namespace"] == "n"
    done = repo.here("thread", "show", "two")
    assert done.code == 128 and "thread 'two' has 2 namespaces; name one with --ns" in done.err


def test_without_the_extra_types_and_sizes_are_shown(told: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ormsgpack", None)
    done = told.here("thread", "show", "new/one")
    assert done.code == 0 and "  step (msgpack, 1 byte, version 13, not read)" in done.out.splitlines()
    assert done.err == f"hint: to show values: {adding('langgraph')}\n"
    row = told.here("thread", "show", "new/one", "--json").json["channels"][0]
    assert row == {"name": "step", "type": "msgpack", "size": 1, "why": "not read", "version": f"{13:032}.0.7"}
    assert "  4 checkpoints  " in told.here("thread", "list").out


def test_what_json_could_not_carry_is_read(repo: Sandbox) -> None:
    ck = {"v": 4, "id": "a", "ts": START.isoformat(), "channel_versions": {"x": 5}, 1: 2}
    md = {"source": "fork", "step": 3, "odd": b"\xff"}
    raw = {
        name: ("msgpack", ormsgpack.packb(item, option=ormsgpack.OPT_NON_STR_KEYS)) for name, item in (("ck", ck), ("md", md))
    }
    with ThreadStore.open(repo.path, **QUIET) as store:
        store.put("t", "", "a", None, b"", b"", {"x": packed(1)}, raw)
    done = repo.here("thread", "show", "t").out
    assert "source=fork\nstep=3\nmetadata.odd=b'\\xff'\nchannels=1\n  x (msgpack, 1 byte, version 5)\n" in done
    assert "created=2026-01-01T00:00:00.000000Z" in done


def test_a_delta_channel_is_named_where_it_has_no_value(repo: Sandbox) -> None:
    with ThreadStore.open(repo.path, **QUIET) as store:
        put(store, "t", 1, parent=None, counters_since_delta_snapshot={"log": [1, 1], "step": [1, 1]})
    rows = repo.here("thread", "show", "t").out.splitlines()
    at = rows.index("channels=2")
    assert rows[at + 1 : at + 4] == [
        "  log (delta, 0 bytes, put together from writes of checkpoints before it)",
        "  step (msgpack, 1 byte, version 1)",
        "    1",
    ]


def test_metadata_that_is_a_trap_is_metadata(repo: Sandbox) -> None:
    deep = b"[" * 500 + b"]" * 500
    odd = b'{"source":["x"],"step":{"$type":"os.system","$value":1},"run_id":7,"parent":"id-9","n":1e999,"deep":%s}' % deep
    with ThreadStore.open(repo.path, **QUIET) as store:
        store.put("t", "", "a", None, b'{"ts":"9999-12-31T23:59:59-12:00","channel_versions":[],"updated_channels":7}', odd, {})
        store.put("u", "", "a", None, b'{"ts":true}', b"[1]", {})
    rows = repo.here("thread", "show", "t").out.splitlines()
    assert rows[3:6] == ["parent=", rows[4], "created="] and "metadata.parent=id-9" in rows and "metadata.n=inf" in rows
    assert "step={'$type': 'os.system', '$value': 1}" in rows and "source=['x']" in rows and "run_id=7" in rows
    assert any(row.startswith("metadata.deep=[[[[[[[[[") and "nested deeper than 12" in row for row in rows)
    for words in (
        "thread show u",
        "thread show t --json",
        "thread log t",
        "thread log u --json",
        "thread list",
        "thread list --json",
    ):
        assert repo.here(*words.split()).code == 0


def test_names_that_are_traps_drive_no_terminal(repo: Sandbox) -> None:
    bad = "x\x1b]0;t\x07\n\u202e\u2066y" + "z" * 300
    traps: dict[str, Any] = dict.fromkeys((bad, "source", "run_id"), bad)
    with ThreadStore.open(repo.path, **QUIET) as store:
        put(store, "t", 1, namespace=bad[:40], channels={bad: packed(bad)}, **traps)
        store.put_writes("t", bad[:40], "id-0001", [(bad, bad, 0, bad, *packed(bad))], False)
    for words in ("thread list", "thread log t", "thread show t", "thread show t --json"):
        done = repo.here(*words.split())
        assert done.code == 0 and not any(is_control(char) for char in done.out if char != "\n"), words


def test_threads_that_were_only_fetched_say_what_to_do(told: Sandbox) -> None:
    oid = told.git("rev-parse", ref_of("old", ""))
    for thread in ("far away", "old"):
        ref = ref_of(thread, "").replace("refs/baton/", "refs/baton/remotes/my%2Eorigin/")
        told.git("update-ref", ref, oid)
    rows = told.here("thread", "list").out.splitlines()
    assert rows[3:] == ["> \"far away\"  fetched from my.origin only: 'git baton sync --threads my.origin' takes it in"]
    fetched = told.here("thread", "list", "--json").json["fetched"]
    assert fetched == [{"thread": "far away", "namespace": "", "remotes": ["my.origin"]}]
    done = told.here("thread", "show", "far away")
    assert done.code == 2 and "hint: it was fetched from 'my.origin': 'git baton sync --threads my.origin'" in done.err


@pytest.mark.deep
def test_a_chain_that_is_not_ours_is_one_line(told: Sandbox) -> None:
    told.git("update-ref", ref_of("old", ""), told.head())
    done = told.here("thread", "list")
    assert done.code == 0 and len(done.out.splitlines()) == 2 and done.err.startswith("warning: 'old' is left out: ")
    for words in ("thread log old", "thread show old"):
        done = told.here(*words.split())
        assert done.code == 128 and done.err.startswith("fatal: ") and "Error" not in done.err
    assert told.here("thread", "show", "new/one").code == 0
    found = [row for row in told.here("doctor", "--json").json["findings"] if row["name"] == "threads"]
    assert [row["ok"] for row in found] == [False, True] and found[0]["text"].startswith("thread 'old' cannot be read: ")


@pytest.mark.deep
def test_in_a_repository_of_sha256(tmp_path: Path) -> None:
    repo = Sandbox.init(tmp_path / "r", "--object-format=sha256")
    with ThreadStore.open(repo.path, **QUIET) as store:
        put(store, "t", 1, parent=None)
    assert "  1 checkpoint  " in repo.here("thread", "list").out
    assert len(repo.here("thread", "show", "t", "--json").json["commit"]) == 64
    assert "threads: 1 thread, 1 checkpoint\n" in repo.here("doctor").out
    os.utime(repo.path)


def test_names_that_are_no_text_are_shown(repo: Sandbox) -> None:
    """What JSON could not carry may be named by anything that msgpack has."""
    import ormsgpack

    names = {b"x": 1, 5: 1, None: 1, float("nan"): 1, (1, 2): 1, "z": 1}
    versions = {"id": "id-0001", "channel_versions": names}
    stored = [("msgpack", ormsgpack.packb(each, option=ormsgpack.OPT_NON_STR_KEYS)) for each in (versions, names)]
    with ThreadStore.open(repo.path, **QUIET) as store:
        store.put("t", "", "id-0001", None, b"", b"", {}, dict(zip(("ck", "md"), stored, strict=True)))
    shown = [row for row in repo.here("thread", "show", "t").out.splitlines() if row.startswith("metadata.")]
    assert shown == [f"metadata.{name}=1" for name in ("b'x'", "5", "None", "nan", "[1, 2]", "z")]
    assert repo.here("thread", "show", "t", "--json").json["metadata"] == {row[9:-2]: 1 for row in shown}
    assert repo.here("thread", "log", "t", "--json").json["checkpoints"][0]["changed"] == ["z"]
