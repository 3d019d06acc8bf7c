"""Notes stay short: below the newest three of a track an entry says its id and its step, and every clone says the same."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest

from gitbaton.base.codec import parse_note, track_in
from tests.kit.clones import Clone
from tests.kit.far import NOTES, Far, forget, ok, snap
from tests.kit.places import ROOT
from tests.kit.repos import Sandbox


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def many(clone: Clone, track: str, *numbers: int) -> list[str]:
    """Checkpoints with words, oldest first; their ids."""
    with clone.open() as baton:
        return [
            baton.snapshot(f"{track} {n}", track=track, note=f"words {n}", next_cmd="make", validation="green").stored.id
            for n in numbers
        ]


def told(clone: Sandbox, commit: str = "HEAD") -> str:
    return clone.git("notes", "--ref=checkpoints", "show", commit)


def whole(text: str) -> list[str]:
    """The words of the entries that have all of them, newest first."""
    return [line.removeprefix("note: words ") for line in text.splitlines() if line.startswith("note: ")]


def synced(*clones: Clone) -> bytes:
    """All sync twice; then they have the same note, and nothing is left to say."""
    for _ in range(2):
        for clone in clones:
            ok(clone, "sync", "--yes")
    found = [clone.state().notes for clone in clones]
    for notes in found[1:]:
        assert notes == found[0]
    before = {clone.name: clone.state().refs for clone in clones}
    for clone in clones:
        ok(clone, "sync", "--yes")
    assert {clone.name: clone.state().refs for clone in clones} == before
    return found[0][clones[0].head()]


@pytest.mark.full
def test_a_log_of_one_commit_stays_on_two_screens(far: Far) -> None:
    a = far.first
    ids = many(a, "t", *range(30))
    lines = a.git("log", "-1", "--notes=checkpoints").splitlines()
    assert len(lines) < 90 and whole(told(a)) == ["29", "28", "27"]
    assert told(a).endswith(f"checkpoint {ids[1]}\nstep: t 1\ncheckpoint {ids[0]}\nstep: t 0")
    assert [oid for oid, _ in parse_note(told(a).encode()).entries] == ids[::-1]
    # The commit under another id is still the checkpoint's, by whichever entry; and an id of any entry is found.
    a.git("config", "notes.rewriteRef", NOTES)
    a.git("commit", "-q", "--amend", "-m", "again")
    assert a.here("verify").code == 0 and told(a).count("checkpoint ") == 30
    many(a, "t", 30)
    assert whole(told(a)) == ["30", "29", "28"] and "t 0" in a.here("show", ids[0]).out


@pytest.mark.full
def test_what_is_among_the_newest_three_again_is_whole_again(far: Far) -> None:
    a, b = far.first, far.clone()
    ids = many(a, "t", *range(8))
    many(a, "u", *range(2))
    synced(a, b)
    forget(b, ids[7], ids[5])
    assert whole(told(b)) == ["1", "0", "6", "4", "3"] and "step: t 7" not in told(b)
    synced(a, b)
    assert whole(told(a)) == ["1", "0", "6", "4", "3"]
    ok(a, "prune", "t", "--keep-last", "2")
    assert whole(told(a)) == ["1", "0", "6", "4"]
    synced(b, a)
    remote = far.there().notes[a.head()].decode()
    assert whole(remote) == ["1", "0", "6", "4"] and "step: t 7" not in remote and "step: t 3" not in remote


@pytest.mark.full
def test_clones_that_went_apart_say_the_same(far: Far) -> None:
    a, b = far.first, far.clone(skew=5)
    many(a, "t", *range(5))
    many(b, "u", *range(5))
    synced(a, b)
    many(b, "t", 5, 6)
    many(a, "t", 7, 8)  # by a clock that is behind: below those of the other
    many(a, "u", 9)
    note = synced(b, a)
    assert whole(note.decode()).count("9") == 1 and len(whole(note.decode())) == 6
    assert len(parse_note(note).entries) == 15


@pytest.mark.deep
def test_a_track_that_stays_here_is_in_no_note_that_goes(far: Far) -> None:
    a, b = far.first, far.clone()
    many(a, "secret", *range(6))
    many(a, "t", *range(6))
    hidden = many(a, "secret", *range(6, 9))[-1]
    ok(a, "push", "--yes", "origin", "t")
    there = far.there().notes[a.head()].decode()
    assert there.count("checkpoint ") == 6 and "secret" not in there and whole(there) == ["5", "4", "3"]
    ok(b, "sync", "--yes", "origin", "t")
    assert b.state().notes[a.head()].decode() == there
    forget(a, a.state().chains["t"][-1].id)
    ok(a, "push", "--yes", "origin", "t")
    there = far.there().notes[a.head()].decode()
    assert whole(there) == ["4", "3", "2"] and "secret" not in there
    # Who writes the id of such a checkpoint into the remote's note is not told what it says.
    asked = there + f"\ncheckpoint {hidden}\ntrack: t\nstep: what?\n\ncheckpoint {hidden}\nstep: what?\n"
    far.remote.git("notes", "--ref=checkpoints", "add", "-f", "-m", asked, a.head())
    many(a, "t", 9)
    ok(a, "fetch")
    ok(a, "push", "--yes", "origin", "t")
    there = far.there().notes[a.head()].decode()
    assert "words 9" in there and "step: what?" in there and "secret" not in there and "words 8" not in there


@pytest.mark.full
def test_what_gits_sorted_merge_left_of_a_note_keeps_every_id(far: Far) -> None:
    a, b = far.first, far.clone()
    ids = many(a, "t", *range(6))
    synced(a, b)
    a.git("notes", "--ref=other", "add", "-f", "-m", "a word of mine", "HEAD")
    a.git("notes", "--ref=checkpoints", "merge", "-q", "-s", "cat_sort_uniq", "refs/notes/other")
    assert "\ncheckpoint " in told(a) and told(a).splitlines() == sorted(told(a).splitlines())
    assert {oid for oid, _ in parse_note(told(a).encode()).entries} == set(ids)
    more = many(a, "t", 6)
    ids += more
    assert a.here("verify").code == 0
    ok(a, "sync", "--yes")
    ok(b, "sync", "--yes")
    assert whole(told(b)) == ["6", "5", "4"]
    for clone in (a, b):
        found = parse_note(told(clone).encode()).entries
        assert {oid for oid, _ in found} == set(ids)


@pytest.mark.full
def test_a_note_is_shared_with_an_older_version(far: Far, tmp_path: Path) -> None:
    a, b = far.first, far.clone()
    far.clock.now = datetime.now(UTC)  # the older one has the true time
    done = subprocess.run(["git", "-C", str(ROOT), "archive", "5b105d9", "gitbaton"], capture_output=True)
    if done.returncode:
        pytest.skip("the history here does not hold 5b105d9")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(tmp_path / "older", filter="data")

    def older(*words: str) -> str:
        env = os.environ | {"PYTHONPATH": str(tmp_path / "older"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "gitbaton", *words]
        run = subprocess.run(command, cwd=b.path, env=env, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return run.stdout

    ids = many(a, "t", *range(6))
    ok(a, "push", "--yes")
    older("sync", "--yes")
    assert told(b).count("note: words") == 6  # it says all of each; it makes them from the chain
    for n in range(6, 9):
        older("snapshot", "--track", "t", "--step", f"t {n}", "--note", f"words {n}")
        older("snapshot", "--track", "u", "--step", f"u {n}", "--note", f"words {n}")
    older("sync", "--yes")
    ok(a, "sync")
    all_ids = {oid for oid, _ in parse_note(told(a).encode()).entries}
    assert len(all_ids) == 12 and {*ids} < all_ids and whole(told(a)) == ["8", "8", "7", "7", "6", "6"]
    older("sync", "--yes")
    before = far.there().refs
    for _ in range(2):  # nobody corrects the other
        older("sync", "--yes")
        ok(a, "sync")
    assert far.there().refs == before
    assert {oid for oid, _ in parse_note(far.there().notes[a.head()]).entries} == all_ids
    # The older one reads, adds to and takes from what this one wrote, in one clone.
    ok(b, "snapshot", "--track", "t", "--step", "t 9", "--note", "words 9")
    assert whole(told(b)) == ["9", "8", "8", "7", "7", "6"]
    older("verify", "--track", "t")
    older("snapshot", "--track", "u", "--step", "u 9", "--note", "words 9")
    older("sync", "--yes")
    found = parse_note(told(b).encode())
    assert len(found.entries) == 14 and {track_in(text) for _, text in found.entries} == {"t", "u"}
    forget(a, ids[0])
    for _ in range(2):
        ok(a, "sync")
        older("sync", "--yes")
    assert "step: t 0" not in told(b) + told(a) and "step: t 0" not in far.there().notes[a.head()].decode()
    assert synced(a, b) and snap(b, "later")
