"""Push: what becomes public is shown and agreed to, secrets stay, and each remote gets what it lacks in the way it allows."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gitbaton.care.sync.items import Move
from gitbaton.care.sync.push import exposure
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit.clones import State
from tests.kit.far import CHAINS, META, NOTES, Far, forget, noted_steps, ok, snap, steps
from tests.kit.servers import REFUSES_REWRITING, bare, hook
from tests.kit.threads import put
from tests.kit.tiers import some

KEY = "AKIA" + "Q3EGRGTJ5XW2ZP7K"


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def refs(far: Far) -> set[str]:
    """The refs of the remote that are ours."""
    return {ref for ref in far.there().refs if not ref.startswith("refs/heads/")}


@pytest.mark.deep
def test_the_first_push_shows_what_becomes_public_and_waits_for_a_yes(far: Far) -> None:
    a = far.first
    a.commit("unpublished", b_txt="b\n")
    a.write("untracked one", "1")
    a.write("untracked two", "2")
    snap(a, "one")
    snap(a, "two")
    done = a.here("push")
    assert done.code == 1 and done.out == "" and refs(far) == set()
    said, counts, untracked, error, hint = done.err.splitlines()
    assert untracked == "  untracked: 'untracked one', 'untracked two'"
    assert said == "first push of 't' to origin; beyond what its refs hold this makes public:"
    assert counts.startswith("  2 checkpoints, 1 unpublished commit, 2 untracked files, ") and counts.endswith(" KiB")
    assert (error, hint[:12]) == ("error: nothing is pushed: nobody agreed to make it public", "hint: --yes ")
    assert ok(a, "push", "--yes").out.splitlines()[0] == (
        f"push 't': new, 2 checkpoints; 1 unpublished commit, 2 untracked files [{CHAINS}t]"
    )
    assert refs(far) == {CHAINS + "t", NOTES}
    snap(a, "three")
    assert ok(a, "push").err == ""  # the track is known there


@pytest.mark.deep
def test_baton_push_in_the_configuration(far: Far) -> None:
    a = far.first
    snap(a, "one")
    a.git("config", "baton.push", "perhaps")
    assert a.here("push").code == 129
    a.git("config", "baton.push", "false")
    done = a.here("push", "--yes")
    assert done.code == 1 and done.err == "fatal: nothing is pushed: baton.push is false\n" and refs(far) == set()
    a.git("config", "baton.push", "true")
    assert ok(a, "push").err == "" and steps(far.there()) == ["one"]


@some(("answer", "code"), [(b"y\n", 0), (b"\n", 1), (b"no\n", 1)])
def test_the_question_on_a_terminal(far: Far, answer: bytes, code: int) -> None:
    snap(far.first, "one")
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "gitbaton", "push"]
    with subprocess.Popen(words, cwd=far.first.path, stdin=slave, stdout=slave, stderr=slave) as child:
        os.close(slave)
        shown = b""
        while b"[y/N] " not in shown:
            shown += os.read(master, 4096)
        os.write(master, answer)
        assert child.wait(60) == code
    os.close(master)
    assert (CHAINS + "t" in refs(far)) == (code == 0)


@pytest.mark.deep
def test_sync_leaves_out_what_nobody_agreed_to(far: Far) -> None:
    a = far.first
    snap(a, "known")
    ok(a, "push", "--yes")
    snap(a, "private", "mine")
    snap(a, "more")
    done = a.here("sync")
    assert done.code == 1 and "not pushed: 'mine': nobody agreed" in done.err
    assert steps(far.there()) == ["known", "more"] and CHAINS + "mine" not in refs(far)
    assert "private" not in noted_steps(far.there())


def test_where_nobody_agrees_nothing_of_ours_appears(far: Far) -> None:
    forget(far.first, snap(far.first, "forgotten"))
    snap(far.first, "private")
    assert far.first.here("sync").code == far.first.here("push").code == 1 and refs(far) == set()


@pytest.mark.deep
def test_notes_of_private_tracks_never_leave(far: Far) -> None:
    a, b = far.first, far.clone()
    a.git("notes", "--ref=checkpoints", "add", "-m", "the user's own words", "HEAD")
    snap(a, "very private", "mine")
    snap(a, "public one")
    ok(a, "push", "--yes", "origin", "t")
    snap(a, "private as well", "mine")
    snap(a, "public two")
    ok(a, "push", "origin", "t")
    assert refs(far) == {CHAINS + "t", NOTES}
    raw = far.remote.run("git", "cat-file", "--batch-all-objects", "--batch", "--buffer").out
    assert "public two" in raw and "very private" not in raw and "private as well" not in raw and "own words" not in raw
    assert noted_steps(far.there()).count("checkpoint ") == 2
    theirs = snap(b, "of b")
    ok(b, "sync")
    ok(a, "sync", "origin", "t")
    assert [line for line in noted_steps(a.state()).splitlines() if line.startswith("step: ")] == [
        "step: of b",
        "step: public two",
        "step: private as well",
        "step: public one",
        "step: very private",
    ]
    assert theirs in noted_steps(far.there()) and far.there().refs[NOTES] != a.state().refs[NOTES]


@pytest.mark.deep
def test_a_secret_stops_the_push(far: Far) -> None:
    a = far.first
    a.write("settings.ini", f"x = 1\nkey = {KEY}\n")
    oid = snap(a, "one")
    done = a.here("push", "--yes")
    assert done.code == 1 and refs(far) == set()
    assert f"secret: checkpoint {oid[:10]} settings.ini:2: aws" in done.err and KEY not in done.err
    assert "error: nothing is pushed: 1 secret would leave" in done.err
    assert [row for row in done.err.splitlines() if "redactAllow" in row or "--no-scan" in row]
    a.write("other.txt", "x")
    later = snap(a, "has it, too")
    hint = f"hint: 'git baton forget --everywhere {oid[:10]} {later[:10]}' removes the 2 checkpoints that hold them"
    assert hint in a.here("push", "--yes").err.splitlines()
    hits = a.here("push", "--yes", "--json").json["places"][0]["hits"]
    assert [(hit["checkpoint"], hit["path"], hit["line"]) for hit in hits] == [(oid, "settings.ini", 2)]
    ok(a, "push", "--yes", "--no-scan")
    (a.path / "settings.ini").unlink()
    snap(a, "two")
    ok(a, "push")  # the remote has it: it does not leave once more


@pytest.mark.deep
def test_what_is_refused_is_not_called_nothing_to_push(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "one", "t")
    snap(a, "one", "u")
    ok(a, "push", "--yes")
    ok(b, "fetch", "origin")
    snap(b, "two", "t")
    ok(b, "push", "--yes")
    refused = "refused: origin has 1 checkpoint of 't' that is not here\nhint: git baton sync origin\n"
    for words in ((), ("--dry-run",), ("origin", "t")):
        done = a.here("push", *words)
        assert (done.code, done.out, done.err) == (1, "", refused)
    snap(a, "two", "u")
    done = a.here("push")
    assert done.code == 1 and done.err == refused and "nothing" not in done.out
    assert done.out.startswith(f"push 'u': forward, 1 checkpoint [{CHAINS}u]\n")
    ok(a, "sync")
    assert ok(a, "push").out == "nothing to push\n"


@pytest.mark.deep
def test_pins_and_tombstones_go_along(far: Far) -> None:
    a, b = far.first, far.clone()
    ids = [snap(a, f"step {n}") for n in range(3)]
    ok(a, "push", "--yes")
    forget(a, ids[0])
    done = ok(a, "push")
    assert done.out.splitlines()[0] == f"push 't': rewrite, 1 removed [{CHAINS}t]"
    assert steps(far.there()) == ["step 1", "step 2"] and "step 0" not in noted_steps(far.there())
    assert far.there().pins(META).forgotten == {ids[0]}
    ok(b, "sync")
    forget(b, ids[1])
    ok(b, "sync")
    snap(a, "step 3")
    ok(a, "sync")
    assert steps(a.state()) == steps(far.there()) == ["step 2", "step 3"]
    assert a.state().meta.forgotten == far.there().pins(META).forgotten == {ids[0], ids[1]}
    assert ok(a, "push").out == ok(b, "sync").out.splitlines()[-1] + "\n" == "nothing to push\n"


@pytest.mark.full
def test_a_server_that_refuses_rewriting_gets_it_on_top(far: Far) -> None:
    a, b = far.first, far.clone()
    hook(far.remote.path, "update", REFUSES_REWRITING)
    first = snap(a, "one")
    snap(b, "two")
    snap(a, "three")
    ok(a, "push", "--yes")
    done = ok(b, "sync")
    assert f"push 't': append, 1 checkpoint [{CHAINS}t]" in done.out.splitlines()
    assert steps(far.there()) == ["one", "three", "two", "three"]  # the newest is on top once more
    before = far.there().refs
    assert ok(b, "sync").out.splitlines()[-1] == "nothing to push"
    ok(a, "sync")
    assert far.there().refs == before and steps(a.state()) == steps(b.state()) == ["one", "two", "three"]
    assert a.state().refs[CHAINS + "t"] == b.state().refs[CHAINS + "t"]
    forget(a, first)
    for done in (a.here("sync"), a.here("push"), b.here("sync")):  # it is not gone, and everybody is told so
        said = "error: 'origin' keeps 1 forgotten checkpoint and notes of forgotten checkpoints: it refuses rewriting"
        assert done.code == 1 and said in done.err.splitlines() and far.there().pins(META).forgotten == {first}
    assert steps(b.state()) == ["two", "three"]
    snap(b, "four")
    assert b.here("sync").code == a.here("sync").code == 1
    assert steps(a.state()) == ["two", "three", "four"] and steps(far.there())[-1] == "four"
    (far.remote.path / "hooks/update").unlink()
    ok(a, "sync")
    assert steps(far.there()) == ["two", "three", "four"]
    for box in (a, b, far.remote):
        box.fsck()


@pytest.mark.deep
def test_json_and_the_choice_of_tracks(far: Far) -> None:
    a = far.first
    for track in ("t", "b c", "d"):
        snap(a, track, track)
    done = a.here("push", "--yes", "--json", "origin", "t", "d").json
    assert done["remote"] == "origin" and done["dry_run"] is False
    moves = {move["ref"]: move["action"] for move in done["places"][0]["moves"]}
    assert moves == {CHAINS + "t": "new", CHAINS + "d": "new", NOTES: "new"}
    assert done["places"][0]["first"]["checkpoints"] == 2 and done["places"][0]["first"]["tracks"] == ["d", "t"]
    assert a.here("push", "origin", "nothing").code == 2 and a.here("push", "t").code == 129
    (a.path / "b c").mkdir()  # a folder of that name is no remote either
    done = a.here("push", "b c")
    assert done.err == "fatal: 'b c' is a track and no remote\nhint: to push only that: git baton push --track 'b c'\n"
    for words in (("--timeout", "0"), ("--", "-x"), ("--timeout", "soon")):
        assert a.here("push", *words).code == 129


@pytest.mark.deep
def test_push_addresses_each_get_what_they_lack(far: Far, tmp_path: Path) -> None:
    a = far.first
    one, two = bare(tmp_path / "one.git"), bare(tmp_path / "two.git")
    snap(a, "one")
    a.git("remote", "set-url", "--push", "origin", str(one))
    ok(a, "push", "--yes")
    a.git("remote", "set-url", "--add", "--push", "origin", str(two))
    snap(a, "two")
    ok(a, "push", "--yes")
    assert steps(State(one)) == steps(State(two)) == ["one", "two"] and refs(far) == set()


@pytest.mark.deep
def test_conversations_go_only_when_asked_and_only_those_of_the_tracks(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "one")
    for name in ("claude/s1", "claude/s2"):
        a.git("update-ref", f"refs/baton/transcripts/{name}", a.head())
    ok(a, "push", "--yes", "--with-transcripts")
    assert refs(far) == {CHAINS + "t", NOTES}  # no checkpoint names them
    with ThreadStore.open(a.path, sync=False) as store:
        put(store, "x", "1")
    a.git("push", "-q", "origin", "refs/baton/threads/*:refs/baton/threads/*")
    for ref in ("transcripts/claude/s1", "transcripts/up/../s".replace("..", "d.")):
        far.remote.git("update-ref", f"refs/baton/{ref}", a.head())
    ok(b, "fetch")
    kinds = ["refs/baton/remotes/origin/transcripts/claude/s1", "refs/baton/remotes/origin/threads/=x/_"]
    assert not set(kinds) & set(b.state().refs)
    ok(b, "fetch", "--with-transcripts", "--threads")
    assert set(kinds) <= set(b.state().refs) and not [ref for ref in b.state().refs if ref.endswith("d./s")]


@pytest.mark.deep
def test_what_is_counted_before_a_first_push(far: Far) -> None:
    a = far.first
    a.write("staged.txt", "s")
    a.git("add", "staged.txt")
    a.write("loose.txt", "l")
    snap(a, "index and file")
    a.commit("later")
    snap(a, "nothing new")
    with a.open(door="binary") as baton:
        tip = a.state().refs[CHAINS + "t"]
        found = exposure(baton, [Move(ref=CHAINS + "t", item=("track", "t"), action="new", new=tip)], [])
        assert found is not None and (found.checkpoints, found.commits, found.untracked) == (2, 2, ("loose.txt", "staged.txt"))
        everything = sum(int(n) for n in a.git("cat-file", "--batch-all-objects", "--batch-check=%(objectsize:disk)").split())
        assert 0 < found.bytes <= everything
        forward = Move(ref=CHAINS + "t", item=("track", "t"), action="forward", new=tip)
        assert exposure(baton, [forward], [], {("track", "t")}) is None and exposure(baton, [forward], []) is not None


@pytest.mark.deep
def test_a_later_push_says_how_much_it_sends(tmp_path: Path) -> None:
    far = Far(tmp_path)
    snap(far.first, "one")
    first = far.first.here("push", "origin", "--yes")
    assert "sent" not in first.out and re.search(r", \d+(\.\d)? (bytes|KiB)$", first.err, re.M)
    (far.first.path / "noise").write_bytes(os.urandom(5000))
    snap(far.first, "two")
    assert re.search(r"^would send (5|6)\.\d KiB$", ok(far.first, "push", "origin", "-n").out, re.M)
    assert re.search(r"^sent (5|6)\.\d KiB$", ok(far.first, "push", "origin").out, re.M)
    assert ok(far.first, "push", "origin").out == "nothing to push\n"
