"""``tracks rename`` and ``tracks restore``: what was recorded stays, here and in every clone that syncs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.checkpoints.store import chain_ref
from gitbaton.checkpoints.store.turns import turns
from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.clones import Clone, killed
from tests.kit.far import Far, ok, snap, steps
from tests.kit.tiers import some


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def tracks(clone: Clone) -> list[str]:
    return [row["checkpoint"]["track"] for row in ok(clone, "tracks", "--json").json["tracks"]]


def sync(*clones: Clone) -> None:
    for clone in clones:
        ok(clone, "sync", "--yes", "origin")


def said(repo: Sandbox, track: str) -> list[str]:
    return [row["step"] for row in repo.ok("log", track, "--json").json["checkpoints"]]


def turns_of(repo: Sandbox, track: str) -> list[dict[str, object]]:
    """The turns of a track, the newest first."""
    with Baton(repo.path) as baton:
        return [{"open": one.open, "prompt": one.prompt} for one in turns(baton.store, track)]


def healthy(repo: Sandbox) -> bool:
    """Whether nothing is wrong with what is recorded."""
    return repo.baton("doctor").code == 0


@pytest.fixture
def three(repo: Sandbox) -> Sandbox:
    for n in ("1", "2", "3"):
        repo.write("a.txt", n)
        repo.ok("snapshot", "--track", "old", f"step {n}", "--decision", f"d{n}")
    repo.ok("pin", "old~1", "second")
    return repo


def test_a_track_goes_on_under_another_name(three: Sandbox, tmp_path: Path) -> None:
    repo = three
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    other = Sandbox(tmp_path / "linked")
    other.ok("tracks", "use", "old")
    before = repo.ok("log", "old", "--json").json["checkpoints"]
    trees = repo.git("log", "--format=%T", "--first-parent", "refs/baton/tracks/old").split()
    done = repo.ok("tracks", "rename", "old", "a new name")
    assert done.out == "track 'old' is 'a new name' now, 3 checkpoints; other clones follow when they sync\n" and done.err == ""
    after = repo.ok("log", "a new name", "--json").json["checkpoints"]
    same = ("step", "created", "decisions", "head", "branch", "kind")
    assert [[row[key] for key in same] for row in after] == [[row[key] for key in same] for row in before]
    assert repo.git("log", "--format=%T", "--first-parent", "refs/baton/tracks/a%20new%20name").split() == trees
    for place in (repo, other):
        assert place.git("symbolic-ref", "BATON_HEAD").strip() == "refs/checkpoints/a%20new%20name"
        latest = (place.path / "runtime/checkpoints/LATEST.json").read_text()
        assert list(json.loads(latest)["tracks"]) == ["a new name"]
    raw = repo.git("cat-file", "blob", "refs/checkpoints/a%20new%20name")
    record = json.loads(raw)
    assert (record["track"], record["was"], record["previous"]) == ("a new name", [before[0]["id"]], after[1]["id"])
    assert repo.ok("show", "second", "--json").json["checkpoint"]["id"] == after[1]["id"]
    assert repo.baton("show", "old").code == 2 and "track 'old'" not in repo.git("notes", "--ref=checkpoints", "show")
    repo.ok("restore", "@~1")
    assert (repo.path / "a.txt").read_text() == "2"
    repo.ok("undo")
    repo.ok("snapshot", "it goes on")
    assert said(repo, "a new name") == ["it goes on", "step 3", "step 2", "step 1"]
    assert healthy(repo)
    repo.fsck()


@pytest.mark.deep
def test_an_undo_of_before_the_renaming_still_works(three: Sandbox) -> None:
    three.ok("restore", "old~2")
    three.ok("snapshot", "--track", "old", "from there")
    three.ok("tracks", "rename", "old", "new")
    three.ok("undo")
    assert (three.path / "a.txt").read_text() == "3"


@some(
    ("words", "code", "text"),
    [
        (("old", "taken"), 1, "fatal: there is a track 'taken'\nhint: to look: git baton log --track taken\n"),
        (("gone", "new"), 2, "fatal: there is no track 'gone' here\nhint: 'git baton tracks' lists them\n"),
        (("old", " "), 129, "fatal: "),
        (("old", "a..b"), 129, "fatal: a new track cannot be called 'a..b'"),
        (("old", "Old"), 129, "fatal: track 'Old' differs from the track 'old' only in case\n"),
        (("old",), 129, "fatal: 'rename old' is not understood"),
        (("old", "old"), 1, "fatal: there is a track 'old'\n"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(three: Sandbox, words: tuple[str, ...], code: int, text: str) -> None:
    three.ok("snapshot", "--track", "taken", "other", "--no-set-current")
    before = three.git("for-each-ref", "refs/baton", "refs/checkpoints", "refs/notes")
    done = three.baton("tracks", "rename", *words)
    assert done.code == code and done.err.startswith(text), done.err
    assert three.git("for-each-ref", "refs/baton", "refs/checkpoints", "refs/notes") == before


@pytest.mark.deep
def test_a_work_tree_that_a_restore_led_elsewhere_refuses_it(three: Sandbox) -> None:
    three.ok("restore", "old~2")
    done = three.baton("tracks", "rename", "old", "new")
    assert done.code == 1 and "stands on what a restore brought back of it" in done.err
    three.ok("snapshot", "what is done")
    three.ok("tracks", "rename", "old", "new")
    assert said(three, "new")[0] == "what is done"


@pytest.mark.deep
def test_an_unfinished_run_refuses_it(three: Sandbox) -> None:
    three.baton("run", "--run", "r", "--step", "s", "--checkpoint", "old", "--effect", "once", "--", "false")
    done = three.baton("tracks", "rename", "old", "new")
    assert done.code == 1 and "the unfinished run 'r' records on it" in done.err


@pytest.mark.deep
def test_other_clones_follow(far: Far) -> None:
    a, b = far.first, far.clone("b")
    for n in range(3):
        snap(a, f"words {n}", "old")
    sync(a, b)
    ok(a, "tracks", "rename", "old", "new")
    sync(a)
    assert list(far.there().chains) == ["new"]
    sync(b, a, b)
    for clone in (a, b):
        assert tracks(clone) == ["new"] and steps(clone.state(), "new") == [f"words {n}" for n in range(3)]
        clone.fsck()


@pytest.mark.deep
def test_there_and_back_again(three: Sandbox) -> None:
    three.ok("tracks", "rename", "old", "new")
    three.ok("tracks", "rename", "new", "old")
    assert said(three, "old") == ["step 3", "step 2", "step 1"] and healthy(three)


def test_a_deleted_track_comes_back(three: Sandbox) -> None:
    before = three.ok("log", "old", "--json").json["checkpoints"]
    done = three.ok("tracks", "delete", "old", "--yes", "--force")
    assert done.err == "hint: 'git baton tracks restore old' brings it back while git has it\n"
    done = three.ok("tracks", "restore", "old")
    assert (done.out, done.err) == (
        "track 'old' is back with 3 checkpoints\n",
        "hint: 'git baton tracks use old' makes it current\n",
    )
    after = three.ok("log", "old", "--json").json["checkpoints"]
    assert [row["step"] for row in after] == [row["step"] for row in before] and not any(row["pinned"] for row in after)
    assert {row["id"] for row in after}.isdisjoint(row["id"] for row in before)
    three.ok("tracks", "use", "old")
    three.ok("restore", "old~2")
    assert (three.path / "a.txt").read_text() == "1" and "foreign" not in three.ok("status").out
    done = three.baton("tracks", "restore", "old")
    assert (done.code, done.err.splitlines()[0]) == (1, "fatal: there is a track 'old'")
    assert healthy(three)
    three.fsck()


@pytest.mark.deep
def test_a_pushed_track_comes_back_by_the_hints_before_and_after_a_sync(far: Far) -> None:
    a, b = far.first, far.clone("b")
    snap(a, "words", "old")
    snap(a, "mine", "kept")
    sync(a, b)
    ok(b, "tracks", "use", "old")
    back = "'git baton tracks restore old' brings"
    assert f"hint: {back} it back" in ok(a, "tracks", "delete", "old", "--yes").err
    for words in (("log", "--track", "old"), ("log", "old"), ("tracks", "use", "old"), ("resume", "--track", "old")):
        done = a.baton(*words)  # what is fetched of it is no track any more
        assert done.code == 2 and back in done.err and not done.out, (words, done.err)
    ok(a, "push", "--yes")
    done = ok(b, "sync", "--yes")
    assert f"hint: {back} back what was deleted elsewhere" in done.err and tracks(b) == ["kept"]
    assert back in b.baton("log", "--track", "old").err
    assert "is back with 1 checkpoint" in ok(b, "tracks", "restore", "old").out
    ok(a, "tracks", "restore", "old")
    sync(a, b, a)
    for clone in (a, b):
        assert tracks(clone) == ["kept", "old"] and "words" in steps(clone.state(), "old")


@pytest.mark.deep
def test_deleted_tracks_of_one_name_all_come_back(three: Sandbox) -> None:
    three.ok("tracks", "delete", "old", "--yes", "--force")
    three.ok("snapshot", "--track", "old", "another")
    done = three.baton("tracks", "restore", "old")
    room = "hint: 'git baton tracks rename old old-2' makes room for another of that name that was deleted\n"
    assert (done.code, done.err) == (1, f"fatal: there is a track 'old'\n{room}")
    three.ok("tracks", "rename", "old", "old-2")
    assert "3 checkpoints" in three.ok("tracks", "restore", "old").out
    for name in ("old", "old-2"):
        three.ok("tracks", "delete", name, "--yes")
    three.ok("snapshot", "--track", "old", "a third")
    three.ok("tracks", "delete", "old", "--yes")
    assert three.ok("tracks", "restore", "old").err.endswith(room)
    assert said(three, "old") == ["a third"]
    three.ok("tracks", "rename", "old", "free")
    assert three.ok("tracks", "restore", "old").err == "hint: 'git baton tracks use old' makes it current\n"
    assert said(three, "old") == ["step 3", "step 2", "step 1"]
    assert three.baton("tracks", "restore", "old").err.endswith("hint: to look: git baton log --track old\n")
    three.ok("tracks", "restore", "old-2")
    assert said(three, "old-2") == ["another"] and healthy(three)


@pytest.mark.deep
def test_it_stays_back_when_clones_sync(far: Far) -> None:
    a, b = far.first, far.clone("b")
    snap(a, "words", "old")
    snap(a, "mine", "kept")
    sync(a, b)
    ok(a, "tracks", "delete", "old", "--yes")
    sync(a, b)
    assert tracks(b) == ["kept"]
    ok(b, "tracks", "restore", "old")
    sync(b, a)
    assert sorted(tracks(a)) == sorted(tracks(b)) == ["kept", "old"] and steps(a.state(), "old") == ["words"]


@pytest.mark.deep
def test_what_git_has_not_or_nobody_knows_does_not(three: Sandbox) -> None:
    done = three.baton("tracks", "restore", "never")
    assert (done.code, done.err.splitlines()[0]) == (2, "fatal: no deleted track 'never' is known here")
    three.ok("tracks", "delete", "old", "--yes", "--force")
    three.git("gc", "-q", "--prune=now")
    done = three.baton("tracks", "restore", "old")
    assert (done.code, done.err) == (2, "fatal: git does not have all of track 'old' any more\n")


@pytest.mark.deep
def test_what_is_forgotten_stays_forgotten(three: Sandbox) -> None:
    three.ok("forget", "--yes", "old~2")
    three.ok("tracks", "delete", "old", "--yes", "--force")
    three.ok("tracks", "restore", "old")
    assert said(three, "old") == ["step 3", "step 2"]


@pytest.mark.deep
def test_killed_at_any_step_it_is_the_one_or_the_other(three: Sandbox, tmp_path: Path) -> None:
    import shutil

    kept = tmp_path / "kept"
    shutil.copytree(three.path, kept, symlinks=True)
    at, seen = 1, set[str]()
    while True:
        shutil.rmtree(three.path)
        shutil.copytree(kept, three.path, symlinks=True)
        done = killed(lambda: three.here("tracks", "rename", "old", "new"), at)
        three.ok("status")
        three.baton("snapshot", "--track", "other", "writes")  # a writer ends what was begun
        names = [name for name in ("old", "new") if three.baton("log", name).code == 0]
        assert len(names) == 1 and said(three, names[0]) == ["step 3", "step 2", "step 1"]
        seen |= set(names)
        three.fsck()
        if not done:
            break
        at += 1
    assert seen == {"old", "new"}


@some("names", [("new",), ("new", "newer"), ("new", "old")])
def test_an_open_turn_goes_on_under_the_other_name(three: Sandbox, names: tuple[str, ...]) -> None:
    client = Client("claude", three.path, session="A")
    three.write("a.txt", "mine")
    client.fire("prompt", prompt="change it")
    three.write("a.txt", "4")
    client.fire("compact")
    three.write("b.txt", "new")
    before = [(row["open"], row["prompt"]) for row in turns_of(three, "old")]
    for old, new in zip(("old", *names), names, strict=False):
        three.ok("tracks", "rename", old, new)
    assert [(row["open"], row["prompt"]) for row in turns_of(three, names[-1])] == before
    three.ok("revert")
    assert (three.path / "a.txt").read_text() == "mine" and not (three.path / "b.txt").exists()
    three.ok("undo")
    client.fire("turn")
    assert [(row["open"], row["prompt"]) for row in turns_of(three, names[-1])] == [(False, "change it"), *before[1:]]


@pytest.mark.deep
def test_the_words_grow_older_over_a_renaming(three: Sandbox) -> None:
    client = Client("claude", three.path, session="A")
    for n in range(2):
        client.fire("prompt", prompt=f"ask {n}")
        three.write("a.txt", f"turn {n}")
        client.fire("turn")
        three.ok("tracks", "rename", ("old", "new")[n], ("new", "newer")[n])
    client.fire("prompt", prompt="ask")
    client.fire("turn")
    three.write("a.txt", "turn 3")
    client.fire("prompt", prompt="ask")
    assert three.ok("show", "newer", "--json").json["checkpoint"]["carried"]["turns"] == 3


@pytest.mark.deep
def test_a_clone_in_which_it_was_current_follows(far: Far) -> None:
    a, b = far.first, far.clone("b")
    snap(a, "words", "old")
    sync(a, b)
    for track in ("aside", "old"):
        snap(b, f"of {track}", track)
    ok(b, "tracks", "use", "old")
    sync(b, a)
    ok(a, "tracks", "rename", "old", "new")
    sync(a, b)
    assert ok(b, "tracks", "--json").json["current"] == "new"


@pytest.mark.deep
@pytest.mark.parametrize("names", [("new",), ("new", "newer")])
def test_what_is_forgotten_elsewhere_meanwhile_does_not_come_back(far: Far, names: tuple[str, ...]) -> None:
    a, b = far.first, far.clone("b")
    for n in range(3):
        snap(a, f"words {n}", "old")
    sync(a, b)
    for old, new in zip(("old", *names), names, strict=False):
        ok(a, "tracks", "rename", old, new)
    ok(b, "forget", "--yes", "old~1")
    sync(b, a, b)
    for clone in (a, b):
        assert steps(clone.state(), names[-1]) == ["words 0", "words 2"]


@pytest.mark.deep
def test_an_id_from_before_still_names_its_checkpoint(three: Sandbox) -> None:
    before = three.ok("log", "old", "--json").json["checkpoints"]
    three.ok("tracks", "rename", "old", "new")
    three.ok("tracks", "rename", "new", "newer")
    for row in before:
        for name in (row["id"], row["id"][:8]):
            assert three.ok("show", name, "--json").json["checkpoint"]["step"] == row["step"]
    assert three.ok("show", f"{before[0]['id']}~1:a.txt").out == "2"


@pytest.mark.deep
@pytest.mark.parametrize("linked", [False, True], ids=["main", "linked"])
def test_what_was_taken_back_stays_so_under_every_name(repo: Sandbox, tmp_path: Path, *, linked: bool) -> None:
    if linked:
        repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
        repo = Sandbox(tmp_path / "linked")
    client = Client("claude", repo.path)
    repo.write("a.txt", "0\n")
    repo.ok("snapshot", "--track", "t1", "begun")
    client.fire("prompt", prompt="do it")
    repo.write("a.txt", "1\n")
    client.fire("turn")
    repo.ok("revert")

    def told(track: str) -> list[str]:
        """The words of the restore in a log, and what a briefing says of it."""
        page = [line for line in repo.ok("resume", "--live", track).out.splitlines() if "taken back: " in line]
        rows = [
            line.partition("reverted")[1]
            for line in repo.ok("log", "--track", track).out.splitlines()
            if line.lstrip()[0] == "<"
        ]
        safety = repo.ok("log", "--all", "--kind", "safety", "--json").json["checkpoints"]
        graph = repo.ok("log", "--graph").out
        assert [row["track"] for row in safety] == [track] and graph.startswith(f"{track}\n") and "\n<  " in graph
        return [*rows, *page]

    before = told("t1")
    assert len(before) == 2 and before[0] == "reverted"
    for old, new in (("t1", "t2"), ("t2", "t3"), ("t3", "t1")):
        repo.ok("tracks", "rename", old, new)
        assert told(new) == before
    repo.ok("tracks", "delete", "t1", "--yes", "--force")
    repo.ok("tracks", "restore", "t1")
    assert told("t1") == before
    repo.ok("undo")
    assert (repo.path / "a.txt").read_text() == "1\n" and "taken back: " not in repo.ok("resume", "--live", "t1").out


@pytest.mark.deep
@pytest.mark.parametrize("name", ["HEAD", "-x", "@", "a~1"])
def test_a_deleted_track_with_a_name_of_earlier_versions_comes_back(repo: Sandbox, name: str) -> None:
    repo.ok("snapshot", "--track", "t", "one")
    repo.git("update-ref", chain_ref(name), "refs/baton/tracks/t")
    repo.ok("snapshot", "--track=" + name, "two")
    repo.ok("tracks", "delete", "--yes", "--", name)
    assert repo.baton("snapshot", "--track=" + name, "a new one").code == 129
    assert repo.ok("tracks", "restore", "--", name).out.startswith(f"track '{name}' is back with 2 checkpoints")
    assert "step=two\n" in repo.ok("resume", "--porcelain", "--track=" + name).out
