"""Refs of ours that git removed, as a fetch that prunes a mirror does: what is missing, and where it may be had."""

from __future__ import annotations

import json

import pytest

from tests.kit import Sandbox

PLACES = ("refs/baton", "refs/checkpoints", "refs/notes/checkpoints")


@pytest.fixture
def mirror(repo: Sandbox) -> Sandbox:
    """A repository that fetches all refs of ``far``, with two tracks, a pin, what was forgotten, a run and a restore."""
    far = repo.path.parent / "far.git"
    repo.git("init", "-q", "--bare", str(far))
    repo.git("remote", "add", "far", str(far))
    repo.git("push", "-q", "far", "main")
    repo.git("config", "remote.far.fetch", "+refs/*:refs/*")
    repo.git("checkout", "-q", "--detach")
    with repo.open() as baton:
        for number in range(3):
            repo.write("a.txt", f"{number}\n")
            baton.snapshot(f"step {number}", track="t", label=f"L{number}")
        baton.snapshot("other", track="u", files=False)
    repo.ok("pin", "t~1")
    repo.ok("forget", "t~2", "--yes")
    repo.ok("run", "--run", "job", "--step", "look", "--", "true")
    repo.ok("restore", "t~1", "--force")
    return repo


def listed(repo: Sandbox) -> dict[str, str]:
    rows = repo.git("for-each-ref", "--format=%(refname) %(objectname)", *PLACES).split("\n")
    return dict(row.split(" ", 1) for row in rows if row)


def test_what_a_fetch_pruned_is_missed_and_comes_back(mirror: Sandbox) -> None:
    before, shown = listed(mirror), mirror.ok("log", "--all").out
    mirror.git("fetch", "-q", "--prune", "far")
    assert listed(mirror) == {}
    found = [row for row in mirror.baton("doctor", "--json").json["findings"] if row["name"] == "refs"]
    assert [row["text"].partition(" ")[0] for row in found] == [
        *("'refs/baton/tracks/t'", "'refs/baton/tracks/u'", "'refs/baton/runs/job'"),
    ]
    assert all("is gone, and nobody removed it by gitbaton" in row["text"] and not row["ok"] for row in found)
    plan = mirror.baton(*found[0]["mend"].split()[2:])
    done = mirror.ok("doctor", "--mend")
    assert plan.out == done.out and "lost: " not in done.out
    after = listed(mirror)
    same = {ref for ref in before if ref.startswith(("refs/baton/tracks", "refs/baton/safety", "refs/checkpoints"))}
    assert after.keys() == before.keys() and {ref: after[ref] for ref in same} == {ref: before[ref] for ref in same}
    assert mirror.ok("log", "--all").out == shown and "(pinned)" in shown and "step 0" not in shown
    assert mirror.ok("doctor", "--mend").out == "nothing is damaged\n"
    mirror.ok("undo")
    assert (mirror.path / "a.txt").read_text() == "2\n" and "look" in mirror.ok("run", "show", "job").out


@pytest.mark.deep
def test_what_a_removal_that_failed_left_about_removes_nothing(repo: Sandbox) -> None:
    """Its tombstones were written, and no ref ever led to them."""
    box = repo
    for number in range(3):
        box.ok("snapshot", f"step {number}", "--track", "t")
    box.ok("snapshot", "other", "--track", "u")
    lock = box.path / ".git/refs/baton/meta.lock"
    lock.touch()
    assert box.baton("prune", "--keep-last", "1", "--yes").code == 128
    lock.unlink()
    before = listed(box)
    for ref in ("tracks/u", "meta"):
        box.git("update-ref", "-d", f"refs/baton/{ref}")
    box.ok("doctor", "--mend")
    assert listed(box) == before
    far = box.path.parent / "other.git"
    box.git("clone", "-q", "--bare", str(box.path), str(far))
    box.git("remote", "add", "origin", str(far))
    box.ok("sync", "--yes")
    assert box.ok("log", "t").out.count("step ") == 3


def test_what_git_has_collected_since_is_named_with_the_remote_that_has_it(mirror: Sandbox) -> None:
    mirror.ok("push", "far", "--track", "t", "--yes")
    ids = [row["id"] for row in json.loads(mirror.ok("log", "t", "--json").out)["checkpoints"]]
    for ref in listed(mirror):
        mirror.git("update-ref", "-d", ref)
    mirror.git("reflog", "expire", "--expire=now", "--all")
    mirror.git("gc", "-q", "--prune=now")
    way = "'git baton sync far' brings back what was pushed there"
    assert way in mirror.baton("doctor").out
    done = mirror.baton("doctor", "--mend")
    assert done.code == 1 and f"lost: track 't': nothing of it can be read: a checkpoint or more; {way}\n" in done.out
    assert "lost: track 'u': nothing of it can be read: a checkpoint or more\n" in done.out
    assert "lost: run 'job': all records\n" in done.out
    again = mirror.baton("doctor", "--mend").out.splitlines()
    assert [row for row in again if "track 'u'" in row or "job" in row] == [], "what is to be had nowhere is said once"
    mirror.ok("sync", "far", "--yes")
    assert [row["id"] for row in json.loads(mirror.ok("log", "t", "--json").out)["checkpoints"]] == ids
    assert mirror.ok("doctor", "--mend").out == "nothing is damaged\n"


def test_what_was_deleted_is_not_missed(mirror: Sandbox) -> None:
    mirror.ok("tracks", "delete", "u", "--yes")
    mirror.ok("undo")
    mirror.ok("tracks", "rename", "t", "new")
    mirror.ok("run", "prune", "job", "--force")
    found = [row for row in mirror.baton("doctor", "--json").json["findings"] if row["name"] == "refs"]
    assert [row["ok"] for row in found] == [True] and mirror.ok("doctor", "--mend").out == "nothing is damaged\n"
