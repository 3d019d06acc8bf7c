"""Secrets in threads: ``git baton scan`` names the thread and the checkpoint, and ``git baton thread delete`` removes it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.threads import QUIET
from tests.verbs.test_threads_verbs import TASK, packed, put, write

KEY = "AKIA" + "Q3EGRZ7LNWT2XUVB"
SECRET = packed(f"the key is {KEY}, keep it")


@pytest.fixture
def told(repo: Sandbox) -> Sandbox:
    """A thread with a secret in one state of five, and one that has none."""
    with ThreadStore.open(repo.path, **QUIET) as store:
        for number in range(5):
            put(store, "my chat", number, channels={"a/b": SECRET if number == 2 else packed(number), "n": packed(number)})
            put(store, "other", number)
    return repo


@pytest.mark.deep
def test_the_thread_the_checkpoint_and_the_channel_are_named(told: Sandbox) -> None:
    for words in (("--threads",), ("--all",), ("--threads", "my chat"), ("--threads", '"my chat"', "other")):
        done = told.baton("scan", *words)
        assert (done.code, done.out) == (1, "thread 'my chat' id-0002 channel 'a/b': aws-key AKIA…\n"), done.err
        assert "'git baton thread delete THREAD'" in done.err and "baton.redactAllow" in done.err and "forget" not in done.err
    assert (told.baton("scan", "--threads", "other").code, told.baton("scan", "--threads", "other").out) == (0, "")
    found = told.baton("scan", "--threads", "--json").json
    (hit,) = found["hits"]
    assert found["checkpoints"] == 10
    assert hit["thread"] == {"remote": None, "name": "my chat", "namespace": "", "checkpoint": "id-0002"}
    assert (hit["checkpoint"], hit["path"], hit["line"], hit["kind"]) == (None, "c.a%2Fb", 1, "aws-key")
    assert told.git("show", "-s", "--format=%s", hit["commit"]) == "loop step 2: a/b, n"


@pytest.mark.deep
def test_what_git_does_not_hold_yet_is_looked_through(told: Sandbox) -> None:
    with ThreadStore.open(told.path, **QUIET) as store:
        put(store, "my chat", 5, namespace="sub|1", channels={"k": SECRET})
        write(store, "other", "id-0004", "k", SECRET)
        done = told.baton("scan", "--threads")
        assert done.code == 1 and sorted(done.out.splitlines()) == [
            "thread 'my chat' id-0002 channel 'a/b': aws-key AKIA…",
            "thread 'my chat' namespace 'sub|1' id-0005 channel 'k': aws-key AKIA…",
            f"thread 'other' id-0004 writes of task '{TASK}': aws-key AKIA…",
        ]
        assert store.latest("my chat", "sub|1") is not None


@pytest.mark.deep
def test_metadata_and_writes_that_came_late(repo: Sandbox) -> None:
    with ThreadStore.open(repo.path, **QUIET) as store:
        for number in range(60):
            put(store, "t" * 500, number, user=f"me {KEY}" if number == 7 else "me")
        store.flush()
        write(store, "t" * 500, "id-0003", "c", SECRET)
    done = repo.baton("scan", "--all")
    named = f"thread '{'t' * 200}...'"
    assert done.code == 1 and sorted(done.out.splitlines()) == [
        f"{named} id-0003 writes of task '{TASK}': aws-key AKIA…",
        f"{named} id-0007 message: aws-key AKIA…",
    ]


def test_a_source_that_looks_like_sizes_hides_no_secret(repo: Sandbox) -> None:
    with ThreadStore.open(repo.path, **QUIET) as store:
        put(store, "t", 0, source=',"size":[1,2],', url="postgres://u:s3cretPassw0rd@h/db", n=1)
    done = repo.baton("scan", "--threads")
    assert (done.code, done.out) == (1, "thread 't' id-0000 metadata: url-password\n")


@pytest.mark.deep
def test_a_log_that_cannot_be_brought_into_git_is_said(told: Sandbox) -> None:
    told.git("update-ref", "refs/baton/threads/=third", "HEAD")  # in the way of =third/_
    with ThreadStore.open(told.path, **QUIET) as store:
        put(store, "third", 0, channels={"k": SECRET})
        for words in (("--threads", "other"), ("--all",)):
            done = told.baton("scan", *words)
            assert done.code == (1 if "--all" in words else 128)
            assert "warning: 'the log of threads' is not scanned: " in done.err and KEY not in done.out + done.err
        told.git("update-ref", "-d", "refs/baton/threads/=third")
    assert "thread 'third' id-0000 channel 'k'" in told.baton("scan", "--threads").out


@pytest.mark.deep
def test_what_was_fetched_is_named_as_that(told: Sandbox, tmp_path: Path) -> None:
    bare = Sandbox.init(tmp_path / "r.git", "--bare")
    told.git("remote", "add", "origin", str(bare.path))
    refused = told.baton("push", "--threads", "--yes")
    assert refused.code == 1 and "secret: thread 'my chat' id-0002 channel 'a/b': aws-key AKIA" in refused.err
    assert "'git baton thread delete THREAD'" in refused.err and "forget" not in refused.err
    told.ok("push", "--threads", "--yes", "--no-scan")
    clone = Sandbox.init(tmp_path / "clone")
    clone.commit("first", a="a\n")
    clone.git("remote", "add", "origin", str(bare.path))
    clone.ok("fetch", "--threads")
    done = clone.baton("scan", "--all")
    assert (done.code, done.out) == (1, "thread 'my chat' fetched from 'origin' id-0002 channel 'a/b': aws-key AKIA…\n")
    assert clone.baton("scan", "--threads").code == 0
    wrong = clone.baton("scan", "--threads", "my chat")
    assert wrong.code == 2 and "there is no thread 'my chat'" in wrong.err and "git baton sync --threads origin" in wrong.err
    assert clone.baton("thread", "delete", "my chat").code == 2
    clone.ok("sync", "--threads")
    assert clone.baton("scan", "--all").out.startswith("thread 'my chat' id-0002")


@pytest.mark.full
def test_names_are_looked_at_and_no_secret_is_printed_whatever_is_set(repo: Sandbox) -> None:
    with ThreadStore.open(repo.path, **QUIET) as store:
        put(store, f"of {KEY}", 0)
        put(store, "y", 0, namespace=f"sub|{KEY}")
        write(store, "y", "id-0000", KEY, SECRET, namespace=f"sub|{KEY}")
        put(store, "n" * 300 + " " + KEY, 0)
        put(store, "n" * 300 + " ~", 0)
        for channel in range(130):
            put(store, f"same{channel:03}", 0, channels={"k": SECRET})
    for setting in ("on", "off"):
        repo.git("config", "baton.redact", setting)
        for words in (("--threads",), ("--all",), ("--all", "--json")):
            done = repo.baton("scan", *words)
            assert done.code == 1 and KEY not in done.out + done.err
        done = repo.baton("scan", "--threads", "y", f"of {KEY}")
        assert sorted(done.out.splitlines())[:2] == [
            "name of thread 'of [redacted:aws-key]': aws-key AKIA…",
            "name of thread 'y' (namespace 'sub|[redacted:aws-key]'): aws-key AKIA…",
        ]
        assert "'git baton thread delete THREAD'" in done.err
        assert f"name of thread '{'n' * 200}...': aws-key" in repo.baton("scan", "--threads").out
        assert repo.baton("scan", "--threads").out.count("channel 'k': aws-key") == 130


def test_what_cannot_be_read_is_named_and_the_rest_is_looked_at(told: Sandbox) -> None:
    with ThreadStore.open(told.path, **QUIET) as store:
        put(store, "third", 0, channels={"k": packed("one")})
        put(store, "third", 1, channels={"k": packed("two")})
        put(store, "fourth", 0, channels={"k": packed("three")})
    told.git("repack", "-adq")
    pack = next((told.path / ".git/objects/pack").glob("*.pack"))
    kept = pack.read_bytes()
    for path in (told.path / ".git/objects/pack").iterdir():
        path.unlink()
    subprocess.run(["git", "unpack-objects", "-q"], input=kept, cwd=told.path, check=True)
    gone = told.git("rev-parse", "refs/baton/threads/=third/_^{tree}:c.k")
    told.loose(gone).unlink()
    for words in (("--threads",), ("--all",)):
        done = told.baton("scan", *words)
        assert done.code == 1 and "thread 'my chat' id-0002 channel 'a/b': aws-key" in done.out
        assert "warning: 'refs/baton/threads/=third/_' is not scanned: " in done.err and "=fourth" not in done.err
    assert told.baton("scan", "--threads", "third").code == 128
    (told.path / ".git/refs/baton/threads/=broken").mkdir(parents=True)
    (told.path / ".git/refs/baton/threads/=broken/_").write_text("1" * 40 + "\n")
    assert told.baton("scan", "--threads", "broken").code == 128


@pytest.mark.deep
def test_what_does_not_go_together(repo: Sandbox) -> None:
    for words in ("--all --threads", "--files --threads", "--all x"):
        assert repo.baton("scan", *words.split()).code == 129
    for words in ("delete t x", "delete t --ns x", "delete t -n 1", "drop t"):
        assert repo.baton("thread", *words.split()).code == 129
    assert repo.baton("scan", "--threads").code == 0 and not (repo.path / ".git/baton/wal").exists()
    assert "there is no thread 'x'" in repo.baton("scan", "--threads", "x").err


@pytest.mark.deep
def test_a_thread_is_deleted_in_all_namespaces_and_nothing_else(told: Sandbox) -> None:
    with ThreadStore.open(told.path, **QUIET) as store:
        put(store, "my chat", 9, namespace="sub")
        before = told.git("for-each-ref", "refs/baton/threads/=other")
        done = told.ok("thread", "delete", "my chat")
        assert done.out == "thread 'my chat' deleted: 6 checkpoints\n" and done.err == ""
        assert store.chains("my chat") == [] and store.latest("my chat", "sub") is None
        assert len(list(store.walk("other", ""))) == 5
    assert told.git("for-each-ref", "refs/baton/threads", "refs/baton/late") == before
    assert told.baton("scan", "--all").code == 0
    again = told.baton("thread", "delete", "my chat")
    assert again.code == 2 and "there is no thread 'my chat'" in again.err
    assert told.ok("thread", "delete", "other", "--json").json == {"v": 1, "thread": "other", "deleted": 5, "remotes": []}
    told.fsck()


@pytest.mark.deep
def test_a_deleted_thread_is_deleted_elsewhere_when_that_is_asked_for(told: Sandbox, tmp_path: Path) -> None:
    bare = Sandbox.init(tmp_path / "r.git", "--bare")
    told.git("remote", "add", "origin", str(bare.path))
    told.ok("push", "--threads", "--yes", "--no-scan")
    done = told.ok("thread", "delete", "my chat")
    assert "'git baton push --threads --prune origin' deletes it there" in done.err
    told.ok("sync", "--threads")
    assert "my%20chat" not in told.git("for-each-ref", "refs/baton/threads") and "my%20chat" in bare.git("for-each-ref")
    told.ok("push", "--threads", "--prune", "origin")
    assert bare.git("for-each-ref", "--format=%(refname)") == "refs/baton/threads/=other/_"


@pytest.mark.deep
def test_a_thread_that_cannot_be_read_is_deleted_all_the_same(told: Sandbox) -> None:
    told.git("update-ref", "refs/baton/threads/=other/_", "HEAD")
    assert told.ok("thread", "delete", "other").out.startswith("thread 'other' deleted: at least 0 checkpoints")
    assert told.git("for-each-ref", "--format=%(refname)", "refs/baton/threads") == "refs/baton/threads/=my%20chat/_"
