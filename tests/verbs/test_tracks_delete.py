"""``tracks delete``: a track goes whole, here and in every clone that syncs, and nothing that is held back goes unasked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gitbaton.base.errors import RefConflictError
from gitbaton.care.retention.pruning import apply_deletion, delete, deletion
from gitbaton.checkpoints.baton import Baton, Request
from tests.kit import Sandbox
from tests.kit.clones import Clone
from tests.kit.far import CHAINS, Far, noted_steps, ok, snap, steps
from tests.kit.terminals import Terminal


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def tracks(clone: Clone) -> list[str]:
    return [row["checkpoint"]["track"] for row in ok(clone, "tracks", "--json").json["tracks"]]


def sync(*clones: Clone) -> None:
    for clone in clones:
        ok(clone, "sync", "--yes", "origin")


@pytest.mark.full
def test_a_deleted_track_is_gone_here_and_nothing_else_is(repo: Sandbox, tmp_path: Path) -> None:
    for n in range(3):
        repo.ok("snapshot", "--track", "gone", "--step", f"words {n}", *(["--label", "kept"] if n == 1 else []))
    repo.ok("snapshot", "--track", "stays", "--step", "mine", "--no-set-current")
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    other = Sandbox(tmp_path / "linked")
    other.ok("tracks", "use", "gone")
    plan = repo.ok("tracks", "delete", "gone", "-n").out.splitlines()
    assert [row[:12] for row in plan] == ["would remove"] * 3 + ["track 'gone'"]
    assert len(repo.ok("log", "gone", "--json").json["checkpoints"]) == 3
    done = repo.ok("tracks", "delete", "gone", "--yes")
    assert done.out.startswith("track 'gone' is gone with 3 checkpoints; other clones drop it when they sync\n")
    assert done.err == ""
    assert repo.git("for-each-ref", "--format=%(refname)", "refs/baton/tracks", "refs/checkpoints").split() == [
        "refs/baton/tracks/stays",
        "refs/checkpoints/stays",
    ]
    for place in (repo, other):
        assert place.try_git("symbolic-ref", "-q", "BATON_HEAD").code == 1
        latest = (place.path / "runtime/checkpoints/LATEST.json").read_text()
        assert list(json.loads(latest)["tracks"]) == ["stays"]
    assert "words" not in repo.git("notes", "--ref=checkpoints", "show") and repo.ok("resume").out.count("mine") >= 1
    assert repo.baton("tracks", "delete", "gone", "--yes").code == 2
    repo.ok("snapshot", "--track", "gone", "--step", "a track of its own")
    assert [row["step"] for row in repo.ok("log", "gone", "--json").json["checkpoints"]] == ["a track of its own"]
    repo.fsck()


@pytest.mark.full
def test_it_is_gone_in_every_clone_that_syncs(far: Far) -> None:
    a, b, c = far.first, far.clone("b"), far.clone("c")
    for n in range(3):
        snap(a, f"words {n}", "old")
    snap(a, "mine", "kept")
    sync(a, b, c)
    ok(b, "tracks", "use", "old")
    ok(b, "fetch", "origin")
    ok(a, "tracks", "delete", "old", "--yes")
    assert tracks(a) == ["kept"]  # though its copy of the remote still has it
    sync(a)
    assert list(far.there().chains) == ["kept"] and "words" not in noted_steps(far.there())
    sync(b, c, a, b)
    for clone in (a, b, c):
        assert tracks(clone) == ["kept"] and list(clone.state().chains) == ["kept"] and list(clone.state().tips) == ["kept"]
        assert "words" not in noted_steps(clone.state()) and clone.leftovers() == []
        assert "old" not in [ref.rpartition("/")[2] for ref in clone.state().refs]
        clone.fsck()
    assert b.try_git("symbolic-ref", "-q", "BATON_HEAD").code == 1
    assert "kept" in ok(b, "resume").out
    assert list(far.there().chains) == ["kept"]


@pytest.mark.deep
def test_what_somebody_adds_elsewhere_is_a_track_of_its_own(far: Far) -> None:
    a, b = far.first, far.clone("b")
    snap(a, "first", "old")
    sync(a, b)
    snap(b, "second", "old")
    with b.open() as baton:
        baton.apply(baton.plan(Request(step="a turn", track="old", kind="auto")))
    ok(a, "tracks", "delete", "old", "--yes")
    sync(a)
    assert list(far.there().chains) == []
    sync(b, a)
    for state in (a.state(), b.state(), far.there()):
        assert steps(state, "old") == ["second", "a turn"]
    assert "a turn" in ok(a, "resume", "--track", "old").out
    snap(a, "third", "old")
    sync(a, b)
    assert steps(b.state(), "old") == ["second", "a turn", "third"]
    b.fsck()


@pytest.mark.deep
def test_a_track_that_was_only_fetched_goes_as_well(far: Far) -> None:
    a, b = far.first, far.clone("b")
    snap(a, "one", "old")
    snap(a, "mine", "kept")
    sync(a)
    ok(b, "fetch", "origin")
    snap(b, "here", "here")
    assert "old" in tracks(b)
    ok(b, "tracks", "delete", "old", "--yes")
    assert sorted(tracks(b)) == ["here", "kept"]
    sync(b, a)
    assert sorted(far.there().chains) == ["here", "kept"] == sorted(a.state().chains)


@pytest.mark.deep
def test_a_pin_refuses_it_and_with_force_goes_everywhere(far: Far) -> None:
    a, b = far.first, far.clone("b")
    pinned, _ = snap(a, "one", "old"), snap(a, "two", "old")
    ok(a, "pin", pinned)
    sync(a, b)
    for words in (("--yes",), ("-n",), ()):
        done = b.here("tracks", "delete", "old", *words)
        assert done.code == 1 and done.err == (
            "fatal: track 'old' is not deleted: 1 checkpoint of it is pinned\n"
            f"hint: 'git baton unpin {pinned[:10]}' takes the pin back\n"
        )
    assert steps(b.state(), "old") == ["one", "two"]
    assert ok(b, "tracks", "delete", "old", "--yes", "--force", "--json").json["pinned"] == [pinned]
    sync(b, a)
    assert tracks(a) == tracks(b) == [] and far.there().chains == {}
    a.fsck()


@pytest.mark.deep
def test_a_pin_that_somebody_set_elsewhere_meanwhile_keeps_its_checkpoint(far: Far) -> None:
    a, b = far.first, far.clone("b")
    kept, _ = snap(a, "one", "old"), snap(a, "two", "old")
    sync(a, b)
    ok(b, "pin", kept)
    ok(a, "tracks", "delete", "old", "--yes")
    sync(a, b, a)
    assert steps(a.state(), "old") == steps(b.state(), "old") == ["one"]


@pytest.mark.deep
def test_an_unfinished_run_refuses_it(repo: Sandbox) -> None:
    repo.write("baton.toml", '[step.a]\nrun = "true"\ncheckpoint = "work"\n[step.b]\nrun = "exit 3"\nafter = ["a"]\n')
    repo.baton("run", "--plan", "baton.toml", "--run", "r")
    assert [row["step"] for row in repo.ok("log", "work", "--json").json["checkpoints"]] == ["r: a ok"]
    done = repo.baton("tracks", "delete", "work", "--yes")
    assert (done.code, done.err) == (
        1,
        "fatal: track 'work' is not deleted: the unfinished run 'r' records on it\n"
        "hint: 'git baton run --continue r' goes on with it\n",
    )
    repo.ok("snapshot", "--track", "other", "--step", "s")
    commit = repo.git("rev-parse", "refs/baton/tracks/other")
    repo.git("update-ref", "refs/baton/runs/x", repo.git("commit-tree", "-p", commit, "-m", "record", "HEAD^{tree}"))
    done = repo.baton("tracks", "delete", "other", "--yes")
    said = "a run stands on 1 checkpoint of it, run 'x' cannot be read"
    assert done.code == 1 and done.err == f"fatal: track 'other' is not deleted: {said}\nhint: git baton doctor --mend\n"
    repo.git("update-ref", "-d", "refs/baton/runs/x")
    repo.ok("tracks", "delete", "other", "--yes")
    repo.ok("tracks", "delete", "work", "--yes", "--force")
    assert repo.baton("log", "work").code == 2


@pytest.mark.full
@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 1)])
def test_it_asks(repo: Sandbox, answer: bytes, code: int) -> None:
    for n in range(2):
        repo.ok("snapshot", "--track", "t", "--step", f"step {n}", "--no-files")
    done = repo.baton("tracks", "delete", "t", stdin=b"y\n")
    assert done.code == 129 and "hint: --dry-run prints the plan; --yes answers" in done.err
    with Terminal(repo.path, "--no-pager", "tracks", "delete", "t") as screen:
        screen.until(b"delete for good? [y/N] ")
        assert b"step 0" in screen.shown and b"step 1" in screen.shown
        screen.press(answer)
        assert screen.end() == code
    assert (repo.baton("log", "t").code == 2) == (code == 0)


@pytest.mark.full
@pytest.mark.parametrize("asked", [True, False])
def test_files_that_were_lost_are_written_anew(repo: Sandbox, asked: bool) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one")
    repo.ok("snapshot", "--track", "stays", "--step", "two")
    latest = repo.path / "runtime/checkpoints/LATEST.json"
    shutil.rmtree(latest.parent)
    if asked:
        with Terminal(repo.path, "--no-pager", "tracks", "delete", "t") as screen:
            screen.until(b"delete for good? [y/N] ")
            screen.press(b"y\n")
            assert screen.end() == 0
    else:
        repo.ok("tracks", "delete", "t", "--yes")
    assert list(json.loads(latest.read_text())["tracks"]) == ["stays"]


@pytest.mark.deep
def test_where_it_was_current_and_is_gone_every_verb_says_how_it_comes_back(far: Far) -> None:
    a, b = far.first, far.clone("b")
    for track in ("docs", "web", "old"):
        snap(a, f"words of {track}", track)
    sync(a, b)
    ok(b, "tracks", "use", "old")
    ok(a, "tracks", "delete", "old", "--yes")
    back = "hint: 'git baton tracks restore old' brings back the one that was deleted\n"
    for words in ("log old", "log --track old", "show old", "resume old", "diff old"):
        done = a.baton(*words.split())
        assert done.code == 2 and back in done.err, (words, done.err)  # the remote has it still
    done = a.baton("log", "origin/old")
    assert done.err == f"fatal: all that was fetched of 'origin/old' was removed here\n{back}"
    sync(a)
    for words in ("log old", "show old~1", "log --track old", "resume old"):
        assert back in a.baton(*words.split()).err, words
    assert "hint: 'old' was the current track; another one: " in ok(b, "sync", "--yes", "origin").err
    for words in ("log", "resume", "show"):
        done = b.baton(words)
        assert done.code == 128 and "hint: the tracks are 'docs', 'web'\n" in done.err, (words, done.err)
    ok(b, "tracks", "delete", "web", "--yes")
    assert "words of docs" in ok(b, "log").out, "the only one is meant"
    ok(b, "tracks", "delete", "docs", "--yes")
    for words in ("log", "resume", "status"):
        assert ok(b, words).out.startswith("No checkpoints here yet."), words


@pytest.mark.deep
def test_words_that_are_none(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "s", "--no-files")
    for words in (("delete",), ("delete", "t", "u"), ("--yes",), ("use", "t", "--force"), ("drop", "t")):
        done = repo.baton("tracks", *words)
        assert done.code == 129 and done.err.count("\nhint: ") <= 1, words
    done = repo.baton("tracks", "delete", "nothing", "--yes")
    assert (done.code, done.err) == (2, "fatal: there is no track 'nothing'\nhint: 'git baton tracks' lists them\n")
    assert repo.ok("log", "t").out


def test_one_who_records_meanwhile_loses_nothing_unseen(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one", "--no-files")
    with repo.open() as baton, Baton(repo.path) as other:
        made = deletion(baton, "t")
        other.snapshot("two", track="t", files=False)
        with pytest.raises(RefConflictError, match="moved meanwhile"):
            apply_deletion(baton, made)
        assert len(repo.ok("log", "t", "--json").json["checkpoints"]) == 2
        done, _ = delete(baton, made, force=False)
        assert [stored.checkpoint.step for stored in done.items] == ["two", "one"]
    assert CHAINS + "t" not in repo.git("for-each-ref")


def test_a_run_that_begins_meanwhile_is_not_passed_over(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one", "--no-files")
    with repo.open() as baton:
        made = deletion(baton, "t")
        repo.ok("run", "--step", "s", "--run", "r", "--", "true")
        with pytest.raises(RefConflictError, match="moved meanwhile"):
            apply_deletion(baton, made)
    assert repo.ok("log", "t").out
