"""Many tracks: LATEST names the newest hundred, and nothing that a command does not show is read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.checkpoints.store import chain_ref, tip_ref
from gitbaton.checkpoints.store.read import own_refs, unreadable_refs
from tests.kit import Sandbox
from tests.kit.manytracks import many_tracks, track
from tests.kit.repos import loose
from tests.kit.yesterday import unpack

COUNT = 120


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with more tracks than LATEST names."""
    box = Sandbox.begun(tmp_path_factory.mktemp("many") / "repo")
    many_tracks(box.path, COUNT)
    return box.path


@pytest.fixture
def many(model: Path, tmp_path: Path) -> Sandbox:
    shutil.copytree(model, tmp_path / "repo", symlinks=True)
    return Sandbox(tmp_path / "repo")


def latest(box: Sandbox) -> tuple[list[str], int, str]:
    """The tracks that LATEST.json names, how many more it counts, and LATEST.md below its first line."""
    folder = box.path / "runtime/checkpoints"
    found = json.loads((folder / "LATEST.json").read_text())
    return list(found["tracks"]), found.get("tracks_more", 0), (folder / "LATEST.md").read_text().partition("\n")[2]


def asked(box: Sandbox, *words: str) -> str:
    """The git commands that a command runs."""
    trace = box.path.parent / "trace"
    trace.unlink(missing_ok=True)
    box.ok(*words, env={"GIT_TRACE": str(trace)})
    return trace.read_text()


@pytest.mark.deep
def test_latest_names_the_newest_hundred_and_the_current_one_and_counts_the_others(many: Sandbox) -> None:
    many.ok("resume", "--track", track(7))
    named, more, text = latest(many)
    assert named == [*(track(n) for n in reversed(range(20, COUNT))), track(0)] and more == COUNT - 101
    assert text.endswith("\n19 older tracks not named here: 'git baton tracks' lists them all.\n")
    assert f"## {track(20)}\n" in text and f"## {track(19)}\n" not in text
    many.ok("snapshot", "--track", track(7), "--step", "again")
    named, more, text = latest(many)
    assert named == [track(7), *(track(n) for n in reversed(range(21, COUNT)))] and more == COUNT - 100
    many.ok("snapshot", "--track", "another", "--step", "new", "--no-set-current")
    assert latest(many)[0][:2] == ["another", track(7)] and latest(many)[1] == COUNT - 99
    with many.open() as baton:
        assert not baton.latest_is_stale() and baton.refresh() == [] and not baton.latest_is_stale()


@pytest.mark.deep
def test_only_what_is_shown_is_read(many: Sandbox) -> None:
    many.ok("resume", "--track", track(7))
    for words in (
        ("resume", "--track", track(7)),
        ("snapshot", "--track", track(7), "--step", "again"),
        ("snapshot", "--track", "another", "--step", "new"),
        ("resume",),
        ("log", "--all", "-n", "5"),
    ):
        assert "for-each-ref" not in asked(many, *words), words
    assert "--batch " not in asked(many, "resume"), "LATEST is as it was left"


@pytest.mark.deep
def test_what_plain_git_moves_is_seen(many: Sandbox) -> None:
    many.ok("resume", "--track", track(7))
    many.git("update-ref", "-d", f"refs/baton/tracks/{track(100)}")
    many.git("update-ref", "-d", f"refs/checkpoints/{track(101)}")
    many.ok("resume", "--track", track(7))
    named, more, _ = latest(many)
    assert track(100) not in named and track(19) in named and more == COUNT - 1 - 101
    assert many.git("rev-parse", "--verify", f"refs/checkpoints/{track(101)}"), "it was repaired"
    many.git("update-ref", f"refs/baton/tracks/{track(119)}", f"refs/baton/tracks/{track(119)}~1")
    many.git("pack-refs", "--all")
    many.ok("resume", "--track", track(7))
    assert latest(many)[0][0] == track(118) and track(119) not in latest(many)[0]


@pytest.mark.deep
def test_a_latest_that_somebody_wrote_into_is_written_again(many: Sandbox) -> None:
    many.ok("resume", "--track", track(7))
    before = latest(many)
    (many.path / "runtime/checkpoints/LATEST.md").write_text("mine\n")
    many.ok("resume", "--track", track(7))
    assert latest(many) == before
    many.git("config", "baton.redactAllow", "x+")
    assert "--batch " in asked(many, "resume"), "what may stand there is asked anew"


@pytest.mark.deep
def test_a_list_that_was_tampered_with_is_made_anew(many: Sandbox) -> None:
    many.ok("resume", "--track", track(7))
    before, path = latest(many), many.path / ".git/baton/newest"
    for text in ("", "gitbaton newest 2\n", path.read_text()[:-9], path.read_text().replace(track(110), "%ZZ")):
        path.write_text(text)
        (many.path / "runtime/checkpoints/LATEST.md").unlink()
        many.ok("resume", "--track", track(7))
        assert latest(many) == before


def newest(baton: Baton, limit: int | None = None) -> list[str]:
    """The ids of the newest checkpoints of all tracks."""
    return [stored.id for stored in baton.history(everything=True, limit=limit).items]


@pytest.mark.deep
@pytest.mark.parametrize("listed", [False, True])
def test_the_newest_of_all_are_those_of_the_whole_log(many: Sandbox, listed: bool) -> None:
    with many.open() as baton:
        if listed:
            baton.resume(track(7))
        whole = newest(baton)
        assert len(whole) == 2 * COUNT
        for count in (0, 1, 5, 99, 101, COUNT + 3, 1000):
            assert newest(baton, count) == whole[:count]


def test_also_of_what_was_fetched_pruned_and_broken(tmp_path: Path) -> None:
    box = Sandbox(unpack(tmp_path, "whole"))
    with box.open() as baton:
        whole = newest(baton)
        assert len(whole) > 10 and all(newest(baton, count) == whole[:count] for count in range(len(whole) + 2))
    box.git("update-ref", "refs/baton/tracks/odd", "HEAD")
    done = box.ok("log", "--all", "-n", "2")
    assert "refs/baton/tracks/odd" in done.err and len(done.out.splitlines()) == 2


@pytest.mark.deep
def test_a_commit_that_an_unchanged_track_brought_is_public_there(many: Sandbox, tmp_path: Path) -> None:
    Sandbox.init(tmp_path / "far.git", "--bare")
    many.git("remote", "add", "origin", str(tmp_path / "far.git"))
    many.git("push", "-q", "origin", "HEAD:refs/heads/main")
    many.ok("push", "--yes", "origin", track(1), track(2))
    many.commit("nobody pushed it", b_txt="b\n")
    for name, said in ((track(1), "1 unpublished commit"), (track(2), "")):
        many.ok("snapshot", "--track", name, "--step", "on it")
        done = many.ok("push", "--yes", "origin", track(1), track(2)).out
        assert ("unpublished" in done) == bool(said) and said in done


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["half", "gone"])
def test_one_torn_object_among_many_is_named_and_the_rest_is_pushed(many: Sandbox, tmp_path: Path, kind: str) -> None:
    """Git stops at a torn object when it is asked for many: what comes after it is no less whole."""
    remote = Sandbox.init(tmp_path / "remote", "--bare")
    many.git("remote", "add", "origin", str(remote.path))
    many.ok("push", "--yes")
    many.ok("snapshot", "--track", track(3), "--step", "torn")
    many.ok("snapshot", "--track", track(5), "--step", "whole")
    ref = f"refs/baton/tracks/{track(3)}"
    oid = many.git("rev-parse", ref)
    path = loose(many.path, oid)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2]) if kind == "half" else path.unlink()
    done = many.baton("push")
    assert done.code == 1 and f"'{ref}' " in done.err, done.err
    assert done.err.count("cannot be read") == 1 and f"push '{track(5)}': forward" in done.out
    assert remote.git("rev-parse", f"refs/baton/tracks/{track(5)}") == many.git("rev-parse", f"refs/baton/tracks/{track(5)}")


@pytest.mark.deep
def test_a_push_lists_the_tracks_no_more_often_the_longer_a_note_is(many: Sandbox, tmp_path: Path) -> None:
    """A note that is full leaves entries out: whether there are more is known without a look at each track."""
    Sandbox.init(tmp_path / "far.git", "--bare")
    many.git("remote", "add", "origin", str(tmp_path / "far.git"))
    many.ok("push", "--yes")
    for number in range(52):
        many.ok("snapshot", "--track", track(3), "--step", f"step {number}")
    many.ok("push", "--yes")
    many.ok("snapshot", "--track", track(3), "--step", "one more")
    trace = asked(many, "push", "--yes")
    assert trace.count("for-each-ref") < 12 and trace.count("rev-list --first-parent") < 12


@pytest.mark.deep
@pytest.mark.parametrize("borrows", [False, True])
def test_a_remote_of_this_machine_lists_its_refs_once_while_it_takes_a_push(many: Sandbox, borrows: bool) -> None:
    """What it borrows from other repositories it still counts as there."""
    hub, words = many.path.parent / "hub.git", ("--shared",) if borrows else ()
    many.git("clone", "-q", "--bare", *words, str(many.path), str(hub))
    many.git("remote", "add", "hub", str(hub))
    trace = many.path.parent / "trace"
    many.ok("push", "hub", track(7), "--yes", env={"GIT_TRACE2": str(trace)})
    assert ("'--format=%(objectname)'" in trace.read_text()) == borrows
    assert (b"core.alternateRefsCommand=true" in trace.read_bytes()) != borrows
    assert Sandbox(hub).git("rev-parse", chain_ref(track(7))) == many.git("rev-parse", chain_ref(track(7)))


@pytest.mark.deep
def test_refs_at_what_is_not_there_or_of_another_kind_are_found_among_many(many: Sandbox) -> None:
    with many.open() as baton:
        refs = own_refs(baton.store)
        assert unreadable_refs(baton.store, refs, 10) == unreadable_refs(baton.store, refs) == {}
        wrong = {chain_ref(track(3)): refs[tip_ref(track(3))], tip_ref(track(4)): "1" * 40, tip_ref(track(5)): "0" * 40}
        late = {"refs/baton/remotes/origin/late/x/y": refs[tip_ref(track(3))]}  # of which no kind is known
        assert unreadable_refs(baton.store, {**refs, **late}, 10) == {}
        found = unreadable_refs(baton.store, {**refs, **late, **wrong}, 10)
        assert found == unreadable_refs(baton.store, {**refs, **wrong}) and found.keys() == wrong.keys()
