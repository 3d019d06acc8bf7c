"""Deterministic cases of exchange between clones: each was a way to lose something, or to bring back what was dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.clones import Clock, Clone, State, copied, killed
from tests.kit.fleet import Fleet, exchange, ok, template
from tests.kit.world import agree, auto, check_one


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet") / "template"


@pytest.fixture
def fleet(source: Path, tmp_path: Path) -> Fleet:
    """Three clones whose clocks are right."""
    return Fleet(tmp_path / "run", source if source.exists() else template(source), [0.0, 0.0, 0.0])


def snap(clone: Clone, step: str, *more: str) -> str:
    """A manual checkpoint of ``work``; its id."""
    ok(clone, "snapshot", "--track", "work", "--step", step, "--note", f"note of {step}", "--no-files", *more)
    return clone.state().chains["work"][-1].id


def steps(clone: Clone, track: str = "work") -> list[str]:
    return [item.data["step"] for item in clone.state().chains.get(track, [])]


def whole(*clones: Clone) -> None:
    """A sync of each, twice, all of it accepted."""
    for _ in range(2):
        for clone in clones:
            assert exchange(clone, "sync").code == 0


def same(*clones: Clone) -> None:
    states = [clone.state() for clone in clones]
    assert len({str(sorted(s.refs.items())) for s in (only_shared(s) for s in states)}) == 1
    for clone in clones:
        clone.fsck()


def only_shared(state: State) -> State:
    kept = ("refs/baton/tracks/", "refs/baton/meta", "refs/checkpoints/")
    state.refs = {name: oid for name, oid in state.refs.items() if name.startswith(kept)}
    return state


def objects_with(repo: Sandbox, text: str) -> list[str]:
    """The objects that refs of a repository reach and that hold a text."""
    ids = [row.split(" ")[0] for row in repo.git("rev-list", "--objects", "--all").splitlines()]
    out = repo.run("git", "cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in ids).encode()).out
    return [text] if text in out else []


@pytest.mark.deep
def test_one_prunes_one_pins_one_goes_on(fleet: Fleet) -> None:
    a, b, c = fleet.clones
    ids = [snap(a, f"s{n}") for n in range(5)]
    whole(a, b, c)
    ok(a, "prune", "--keep-last", "1")
    ok(b, "pin", ids[1])
    newest = snap(c, "more")
    whole(c, a, b)
    assert steps(a) == ["s1", "s4", "more"] and a.state().chains["work"][-1].id == newest
    same(a, b, c)
    ok(c, "unpin", ids[1])
    whole(c, b, a)
    assert steps(a) == ["s4", "more"]
    same(a, b, c)


@pytest.mark.full
def test_what_is_forgotten_does_not_come_back_as_carried_words(fleet: Fleet) -> None:
    a, b, c = fleet.clones
    snap(a, "kept")
    secret = snap(a, "to be forgotten")
    whole(a, b, c)
    auto(b, "work")  # carries the words on, unseen by a
    ok(a, "forget", "--yes", secret)
    whole(a, b, c)
    for clone in (a, b, c):
        assert steps(clone) == ["kept"], clone.name
        assert not objects_with(Sandbox(clone.path), "note of to be forgotten")
    assert not objects_with(fleet.remote, "note of to be forgotten")
    same(a, b, c)


@pytest.mark.full
def test_a_track_forgotten_whole_and_continued_elsewhere(fleet: Fleet) -> None:
    a, b, c = fleet.clones
    ids = [snap(a, f"s{n}") for n in range(3)]
    whole(a, b, c)
    ok(a, "forget", "--yes", *ids)
    assert a.state().chains == {}
    after = snap(b, "after all")
    whole(a, b, c)
    assert steps(a) == ["after all"] and a.state().chains["work"][0].id == after
    same(a, b, c)
    ok(b, "forget", "--yes", after)
    whole(b, a, c)
    assert a.state().chains == {} and State(fleet.remote.path).chains == {}
    same(a, b, c)


@pytest.mark.deep
def test_a_track_forgotten_whole_is_pruned_at_the_remote_by_whoever_syncs_next(fleet: Fleet) -> None:
    a, b, _ = fleet.clones
    oid = snap(a, "only")
    whole(a, b)
    ok(a, "forget", "--yes", oid)
    exchange(a, "sync")
    assert "refs/baton/tracks/work" not in State(fleet.remote.path).refs
    exchange(b, "push")  # b does not know yet
    assert "refs/baton/tracks/work" not in State(fleet.remote.path).refs
    whole(b)
    assert b.state().chains == {} and b.state().tips == {}


@pytest.mark.deep
def test_two_clones_with_the_very_same_checkpoints(fleet: Fleet) -> None:
    a, b, c = fleet.clones
    for clone in (a, b):
        ok(clone, "import", str(fleet.place / "old0"))
    snap(a, "of a")
    snap(b, "of b")
    whole(a, b, c)
    assert steps(a) == ["old 0", "old 1", "old 2", "of a", "of b"]
    same(a, b, c)
    noted = [oid for ids in a.state().noted().values() for oid in ids]
    assert sorted(noted) == sorted(item.id for item in a.state().chains["work"])


@pytest.mark.deep
def test_what_was_pruned_or_forgotten_is_not_imported_again(fleet: Fleet) -> None:
    a, b, _ = fleet.clones
    ok(a, "import", str(fleet.place / "old0"))
    first, second, _ = a.state().chains["work"]
    ok(a, "forget", "--yes", first.id)
    ok(a, "prune", "--keep-last", "1", "--drop-milestones")
    ok(b, "import", str(fleet.place / "old0"))
    whole(a, b)
    ok(a, "import", str(fleet.place / "old0"))
    assert steps(a) == steps(b) == ["old 2"]
    assert (second.id in a.state().meta.pruned, first.id in a.state().meta.forgotten) == (True, True)


@pytest.mark.full
def test_a_clone_of_a_clone(fleet: Fleet) -> None:
    a, b, c = fleet.clones
    b.git("remote", "set-url", "origin", "../c0")
    c.git("remote", "set-url", "origin", "../c1")
    ids = [snap(a, "one"), snap(a, "two")]
    for clone in (b, c):
        assert exchange(clone, "sync").code == 0
    snap(c, "three")
    for clone in (c, b):
        assert exchange(clone, "sync").code == 0
    assert steps(a) == steps(b) == steps(c) == ["one", "two", "three"]
    a_state = a.state()
    ok(a, "resume", "--track", "work")  # what was pushed into it is derived from now
    assert a.state().tips["work"] == a_state.chains["work"][-1].id
    ok(c, "forget", "--yes", ids[0])
    for clone in (c, b):
        assert exchange(clone, "sync").code == 0
    ok(a, "resume", "--track", "work")
    assert steps(a) == ["two", "three"]
    assert ids[0] not in {oid for noted in a.state().noted().values() for oid in noted}
    same(a, b, c)


@pytest.mark.full
def test_a_clone_that_lost_its_refs_gets_all_back_and_nothing_dropped(fleet: Fleet) -> None:
    a, b, _ = fleet.clones
    ids = [snap(a, f"s{n}") for n in range(3)]
    ok(a, "pin", ids[1])
    ok(a, "forget", "--yes", ids[0])
    whole(a, b)
    before = a.state()
    clock = Clock()
    clock.now = fleet.clock()
    again = Clone(copied(fleet.place / "clone", fleet.place / "again"), clock, 0)
    ok(again, "fetch", "origin")
    newest = snap(again, "goes on")
    after = again.state()
    assert [item.id for item in after.chains["work"]] == [ids[1], ids[2], newest]
    assert after.chains["work"][1].commit == before.chains["work"][1].commit
    whole(again, a, b)
    same(again, a, b)
    assert a.state().meta.pinned(ids[1]) and steps(a) == ["s1", "s2", "goes on"]


@pytest.mark.deep
def test_checkpoints_from_the_future_wait_and_are_safe(fleet: Fleet) -> None:
    a, b, c = fleet.clones
    b.skew = 30
    snap(a, "now")
    late = snap(b, "half an hour ahead")
    exchange(b, "sync")
    exchange(a, "sync")
    assert late not in {item.id for item in a.state().chains["work"]}
    snap(a, "and on")
    said = exchange(a, "sync")
    assert (said.code, said.err.count("from the future"), "faster" in said.err) == (0, 1, False), said
    exchange(c, "sync")
    assert late in {item.id for item in State(fleet.remote.path).chains["work"]}
    fleet.settle()
    for clone in (a, b, c):
        fleet.model.saw(clone.state())
    agree([clone.state() for clone in fleet.clones], fleet.model)
    assert steps(a) == ["now", "and on", "half an hour ahead", "the last"]


@pytest.mark.deep
def test_whatever_follows_a_killed_change_finishes_it(fleet: Fleet) -> None:
    a, b, _ = fleet.clones
    ids = [snap(a, f"s{n}") for n in range(4)]
    ok(a, "pin", ids[1])
    whole(a, b)
    snap(b, "more")
    copied(a.path, fleet.place / "kept")
    for at in range(1, 400):
        assert killed(lambda: ok(a, "prune", "--keep-last", "1"), at)
        if (a.path / ".git/baton/revision").exists():
            break
        copied(fleet.place / "kept", a.path)
    copied(a.path, fleet.place / "kept")
    nexts = [["pin", ids[3]], ["unpin", ids[1]], ["prune", "--keep-last", "2"], ["forget", "--yes", "--force", ids[1]]]
    nexts += [["import", str(fleet.place / "old0")], ["snapshot", "--track", "work", "--step", "next"]]
    for words in (*nexts, ["push", "--yes"], ["sync", "--yes"]):
        ok(a, *words)
        assert a.leftovers() == [] and a.state().meta.pruned >= {ids[0], ids[2]}, words
        check_one(a.state())
        copied(fleet.place / "kept", a.path)
