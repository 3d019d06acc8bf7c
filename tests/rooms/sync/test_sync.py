"""Fetch, join and sync between clones: everything arrives, in any order, and nothing of the user's moves."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from gitbaton.base.model import Carried
from gitbaton.care.sync import Choice, sync
from gitbaton.care.sync.push import Manner
from gitbaton.checkpoints.baton import Request
from gitbaton.git.remotes import Connection, find
from tests.kit.clones import Clone
from tests.kit.far import CHAINS, META, NOTES, Far, elsewhere, forget, noted_steps, ok, snap, steps
from tests.kit.moments import at
from tests.kit.repos import Sandbox
from tests.kit.threads import git_called


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def is_free(folder: Path) -> bool:
    """Whether nobody has locked a folder."""
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(place)
    return True


def equal(*clones: Clone) -> None:
    """The clones hold the same tracks, commit for commit, and the newest is on top."""
    states = [clone.state() for clone in clones]
    for state in states:
        assert {n: o for n, o in state.refs.items() if n.startswith(CHAINS)} == {
            n: o for n, o in states[0].refs.items() if n.startswith(CHAINS)
        }
        for items in state.chains.values():
            assert [i.place for i in items] == sorted(i.place for i in items)
            assert state.tips[items[-1].data["track"].replace(" ", "%20")] == items[-1].id


@pytest.mark.deep
def test_t20_a_plain_fetch_neither_destroys_nor_breaks(far: Far) -> None:
    a, b = far.first, far.clone()
    ok(a, "install", "--fetch")
    mine = snap(a, "unpushed")
    for _ in range(2):
        assert a.try_git("fetch").code == 0 and a.try_git("pull", "-q").code == 0  # the remote has nothing of ours
    theirs = snap(b, "of the other clone")
    forget(b, snap(b, "to be forgotten"))
    ok(b, "push", "--yes")
    before = a.state()
    done = a.try_git("fetch")
    assert done.code == 0 and a.try_git("pull", "-q").code == 0, done.err
    after = a.state()
    assert after.chains == before.chains and after.notes == before.notes and after.tips == before.tips
    assert after.ids("refs/baton/remotes/origin/tracks/") == {"t": frozenset({theirs})}
    assert {"refs/baton/remotes/origin/meta", "refs/baton/remotes/origin/notes"} <= set(after.refs)
    ok(a, "sync")
    assert {i.id for i in a.state().chains["t"]} == {mine, theirs} and noted_steps(a.state()).count("step:") == 2


@pytest.mark.deep
def test_t20_install_fetch_is_taken_back_exactly(far: Far) -> None:
    a = far.first
    a.git("remote", "add", "up/stream", str(far.remote.path))
    before = (a.path / ".git/config").read_bytes()
    for remembered in (True, False):
        for words in (("--fetch",), ("--fetch", "up/stream"), ("--fetch",)):
            ok(a, "install", *words)
        assert a.git("config", "--get-all", "remote.up/stream.fetch").splitlines()[1:] == [
            "+refs/baton/tracks/*:refs/baton/remotes/up%2Fstream/tracks/*",
            "+refs/baton/meta*:refs/baton/remotes/up%2Fstream/meta*",
            "+refs/notes/checkpoints*:refs/baton/remotes/up%2Fstream/notes*",
            "+refs/baton/signatures/*:refs/baton/remotes/up%2Fstream/signatures/*",
        ]
        assert len(a.git("config", "--get-all", "remote.origin.fetch").splitlines()) == 5
        assert a.try_git("config", "remote.origin.push").code == 1
        manifest = a.path / ".git/baton/installed"
        assert {key for key, _ in json.loads(manifest.read_bytes())["config"]} >= {"notes.rewriteRef", "remote.origin.fetch"}
        if not remembered:
            manifest.unlink()
        ok(a, "uninstall")
        assert (a.path / ".git/config").read_bytes().replace(b"[notes]\n", b"") == before
    assert a.here("install", "--fetch", "nowhere").code == a.here("install", "origin").code == 129


@pytest.mark.full
def test_t21_two_clones_offline_then_synced_in_any_order(tmp_path: Path) -> None:
    chains = set()
    for number, order in enumerate(itertools.permutations("ab")):
        far = Far(tmp_path / str(number))
        a, b = far.first, far.clone()
        clones = {"a": a, "b": b}
        ids = [snap(clones[name], f"{name} {n}") for n, name in enumerate("abbaab")]
        mine = [clone.mine() for clone in (a, b)]
        for name in (*order, *order):
            ok(clones[name], "sync", "--yes")
        equal(a, b)
        assert [item.id for item in a.state().chains["t"]] == ids == [item.id for item in far.there().chains["t"]]
        assert noted_steps(a.state()) == noted_steps(b.state()) == noted_steps(far.there())
        assert [clone.mine() for clone in (a, b)] == mine
        for box in (a, b, far.remote):
            box.fsck()
        again = [{**clone.state().refs} for clone in (a, b)]
        assert ok(a, "sync").out == ok(b, "sync").out == "nothing to push\n"
        assert [{**clone.state().refs} for clone in (a, b)] == again
        chains.add(tuple(item.raw for item in a.state().chains["t"]))


@pytest.mark.deep
def test_what_carries_forgotten_words_elsewhere_does_not_come_back(far: Far) -> None:
    """Another clone's automatic checkpoint took over the words before they were forgotten here."""
    a, b = far.first, far.clone()
    said = snap(a, "SECRET")
    ok(a, "push", "--yes")
    ok(b, "sync", "--yes")
    with b.open() as baton:
        c = baton.resolve("t").checkpoint
        carried = Carried(id=said, step=c.step, created=c.created, branch=c.branch, head=c.head, tree=baton.resolve("t").tree)
        baton.apply(baton.plan(Request(step="turn", track="t", kind="auto", note="SECRET", carried=carried)))
    ok(b, "sync")
    ok(a, "forget", "--yes", said)
    for clone in (a, b, a):
        ok(clone, "sync")
        assert clone.state().chains.get("t", []) == []
    assert far.there().chains.get("t", []) == []


@pytest.mark.deep
def test_t21_an_interrupted_sync_is_repeated(far: Far) -> None:
    a, b = far.first, far.clone()
    ids = {snap(a, "of a"), snap(b, "of b")}
    ok(a, "push", "--yes")

    place, away = far.remote.path, far.place / "away"
    with at("os.posix_spawn", git_called("push"), lambda _: place.rename(away)):
        done = b.here("sync")
    away.rename(place)
    assert done.code == 1 and done.err.startswith("error: not pushed: 'origin' ")
    assert {i.id for i in b.state().chains["t"]} == ids
    ok(b, "sync")
    ok(a, "sync")
    equal(a, b)


@pytest.mark.full
def test_two_syncs_that_race(far: Far) -> None:
    clones = [far.first, far.clone("b"), far.clone("c")]
    for clone in clones:
        ok(clone, "snapshot", "--track", "t", "--step", clone.name)
    with ThreadPoolExecutor(len(clones)) as pool:
        done = list(pool.map(lambda clone: clone.baton("sync", "--yes"), clones))
    assert [d.code for d in done] == [0, 0, 0], "\n".join(d.err for d in done)
    assert sorted(steps(far.there())) == ["a", "b", "c"]
    for clone in clones:
        ok(clone, "sync")
    equal(*clones)


@pytest.mark.deep
def test_rounds_are_bounded(far: Far) -> None:
    a, b = far.first, far.clone()
    elsewhere(a, b)
    snap(a, "mine")
    pauses: list[float] = []

    def faster(seconds: float) -> None:
        pauses.append(seconds)

    class Hasty(Connection):
        """Before each of our pushes the other clone pushes."""

        def push(self, *words: object, **more: object) -> object:  # type: ignore[override]
            snap(b, f"number {len(pauses)}")
            ok(b, "sync", "--yes")
            return super().push(*words, **more)  # type: ignore[arg-type]

    with a.open() as baton:
        line = Hasty(baton.repo, find(baton.repo, None, "."), 60)
        done = sync(baton, line, Choice(), Manner(agree=lambda _: True), pause=faster)
    assert done.rounds == len(pauses) == 8 and "8 times" in done.failure
    ok(a, "sync")
    ok(b, "sync")
    equal(a, b)


@pytest.mark.deep
def test_who_was_too_late_keeps_others_on_this_machine_from_pushing_until_it_has(far: Far) -> None:
    a, b, free = far.first, far.clone(), list[bool]()
    snap(a, "mine")

    class Hasty(Connection):
        """Before our first look comes to our first push the other clone pushes the same track."""

        def fetch(self, *words: object, **more: object) -> bool:
            done = super().fetch(*words, **more)  # type: ignore[arg-type]
            free.append(is_free(far.remote.path))
            if len(free) == 1:
                snap(b, "theirs")
                ok(b, "push", "--yes")
            return done

    with a.open() as baton, closing(Hasty(baton.repo, find(baton.repo, None, "."), 60)) as line:
        done = sync(baton, line, Choice(), Manner(agree=lambda _: True), pause=lambda _: pytest.fail("it waits"))
        assert (done.failure, done.rounds, free) == ("", 2, [True, False])
    assert is_free(far.remote.path) and steps(far.there()) == ["mine", "theirs"]
    ok(b, "sync")
    equal(a, b)


@pytest.mark.deep
@pytest.mark.parametrize(("times", "rounds"), [(1, 1), (4, 1), (6, 2)])
def test_where_others_have_moved_the_notes_alone_these_are_written_anew(far: Far, times: int, rounds: int) -> None:
    """As every push does, of whatever track; a round is begun anew where that goes on."""
    a, b = far.first, far.clone()
    elsewhere(a, b)
    mine, theirs, looks = snap(a, "mine"), list[str](), list[object]()

    class Hasty(Connection):
        """Before our first pushes the other clone pushes another track."""

        def push(self, *words: object, **more: object) -> object:  # type: ignore[override]
            if len(theirs) < times:
                theirs.append(snap(b, f"number {len(theirs)}", "of-b"))
                ok(b, "push", "--yes")
            return super().push(*words, **more)  # type: ignore[arg-type]

        def listed(self, *patterns: str, **more: object) -> dict[str, str]:
            looks.append(patterns)
            return super().listed(*patterns, **more)  # type: ignore[arg-type]

    with a.open() as baton:
        line = Hasty(baton.repo, find(baton.repo, None, "."), 60)
        done = sync(baton, line, Choice(), Manner(agree=lambda _: True), pause=lambda _: None)
    assert (done.failure, done.rounds) == ("", rounds)
    assert len(looks) == rounds + times, "and otherwise the remote is looked at once a round"
    there = far.there()
    assert {i.id for i in there.chains["t"]} == {mine} and len(there.chains["of-b"]) == times
    assert all(oid in noted_steps(there) for oid in (mine, *theirs))
    for clone in (b, a, b):
        ok(clone, "sync")
    equal(a, b)


@pytest.mark.deep
def test_notes_are_not_written_anew_where_others_have_dropped_something_meanwhile(far: Far) -> None:
    a, b = far.first, far.clone()
    gone = snap(b, "dropped", "of-b")
    ok(b, "push", "--yes")
    ok(a, "sync")
    elsewhere(a, b)
    mine, pushes = snap(a, "mine"), list[object]()

    class Hasty(Connection):
        """Before our first push the other clone forgets, and pushes that."""

        def push(self, *words: object, **more: object) -> object:  # type: ignore[override]
            pushes.append(words)
            if len(pushes) == 1:
                ok(b, "forget", "--yes", gone)
                ok(b, "push")
            return super().push(*words, **more)  # type: ignore[arg-type]

    with a.open() as baton:
        line = Hasty(baton.repo, find(baton.repo, None, "."), 60)
        done = sync(baton, line, Choice(), Manner(agree=lambda _: True), pause=lambda _: None)
    assert (done.failure, done.rounds, len(pushes)) == ("", 2, 2)
    there = far.there()
    assert mine in noted_steps(there) and gone not in noted_steps(there) and "of-b" not in there.chains


@pytest.mark.deep
def test_a_track_that_is_rewritten_between_the_look_and_the_fetch_is_looked_at_again(far: Far) -> None:
    a, b, c = far.first, far.clone(), far.clone("c")
    for clone, step in ((b, "dropped"), (c, "other"), (a, "mine")):
        snap(clone, step)
    ok(b, "push", "--yes")
    looks = []

    class Late(Connection):
        """What was listed first has gone from the remote when it is fetched."""

        def fetch(self, *words: object, **more: object) -> bool:
            looks.append(words)
            if len(looks) == 1:
                c.git("push", "-q", "--force", str(far.remote.path), f"{CHAINS}t:{CHAINS}t")
            return super().fetch(*words, **more)  # type: ignore[arg-type]

    with a.open() as baton:
        line = Late(baton.repo, find(baton.repo, None, "."), 60)
        done = sync(baton, line, Choice(), Manner(agree=lambda _: True), pause=lambda _: None)
    assert done.failure == "" and [(row.state, row.count) for row in done.gathered.rows] == [("new", 1)]
    assert len(looks) > 1 and steps(far.there()) == ["other", "mine"]


@pytest.mark.full
def test_fetch_says_what_is_new_and_touches_nothing_else(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "one")
    snap(a, "other", "b c")
    ok(a, "push", "--yes")
    before = b.mine()
    assert ok(b, "fetch").out == "b c: new, 1 checkpoint: > other\nt: new, 1 checkpoint: > one\n"
    assert b.state().chains == {} and b.mine() == before
    snap(a, "two\x1b[31m\nmore")
    snap(a, "three")
    ok(a, "push")
    done = ok(b, "fetch", "--json", "origin", "t").json
    assert [(row["track"], row["state"], row["count"], row["step"]) for row in done["tracks"]] == [("t", "newer", 2, "three")]
    assert ok(b, "fetch").out == "b c: same\nt: same\n"
    ids = [item.id for item in a.state().chains["t"]]
    forget(a, ids[0])
    ok(a, "push")
    assert ok(b, "fetch", "origin", "b c").out == "b c: same\n"
    assert ok(b, "fetch").out.splitlines()[1].startswith("t: rewritten, 0 newer: > ")
    far.remote.git("update-ref", "-d", CHAINS + "b%20c")
    assert "b c: gone at origin\n" in ok(b, "fetch").out
    assert "b c: gone at origin, and" in ok(b, "fetch", "--prune").out and "b c" not in ok(b, "fetch").out
    assert b.here("fetch", "origin", "nothing").code == 2


@pytest.mark.deep
def test_what_is_not_ours_on_the_remote_is_listed_and_left(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "one")
    ok(a, "push", "--yes")
    head = a.head()
    blob = far.remote.git("hash-object", "-w", "--stdin", stdin=b"x")
    for ref in ("tracks/a b".replace(" ", "."), "tracks/x/y", "else/where", "tracks/Ta%67", "safety/main-worktree", "runs/r1"):
        far.remote.git("update-ref", "refs/baton/" + ref, head)
    far.remote.git("update-ref", CHAINS + "blob", blob)
    far.remote.git("update-ref", CHAINS + "commit", head)
    done = b.here("fetch")
    assert done.code == 1 and done.out == "t: new, 1 checkpoint: > one\n"
    assert sum("is left out: the name is not" in row for row in done.err.splitlines()) == 4
    assert sum(row.startswith("warning: track '") for row in done.err.splitlines()) == 2
    fetched = {ref for ref in b.state().refs if ref.startswith("refs/baton/")}
    assert fetched == {f"refs/baton/remotes/origin/{rest}" for rest in ("tracks/t", "tracks/blob", "tracks/commit", "notes")}
    done = b.here("sync")
    assert done.code == 1 and steps(b.state()) == ["one"] and list(b.state().chains) == ["t"]


def test_tombstones_that_cannot_be_read_stop_everything(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "one")
    ok(a, "push", "--yes")
    far.remote.git("update-ref", META, a.head())
    snap(b, "mine")
    before, there = b.state().chains, far.remote.git("for-each-ref")
    for verb in ("sync", "push"):
        done = b.here(verb, "--yes")
        assert done.code == 128 and done.err.startswith(f"fatal: the remote's '{META}' cannot be used, and nothing is")
    assert b.state().chains == before and far.remote.git("for-each-ref") == there and b.state().meta.forgotten == frozenset()


@pytest.mark.deep
def test_names_that_differ_only_in_case(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "of a", "Docs")
    snap(a, "one")
    snap(b, "of b", "docs")
    ok(a, "push", "--yes")
    done = b.here("sync", "--yes")
    assert done.code == 1 and "'Docs' differs from the track 'docs' only in case" in done.err
    assert set(b.state().chains) == {"docs", "t"} and set(far.there().chains) == {"Docs", "t"}


@pytest.mark.deep
def test_a_checkpoint_from_the_future_waits(far: Far) -> None:
    a, b = far.clone("fast", skew=11), far.clone("right", skew=0)
    late = snap(a, "ahead")
    ok(a, "push", "--yes")
    done = ok(b, "fetch")
    assert f"checkpoint {late} of 't' is from the future" in done.err
    done = b.here("sync")
    assert late in done.err and b.state().chains == {}
    mine = snap(b, "on time", "u")
    far.clock.now += timedelta(minutes=2)
    ok(b, "sync", "--yes")
    assert {t: [i.id for i in c] for t, c in b.state().chains.items()} == {"t": [late], "u": [mine]}


@pytest.mark.deep
def test_a_sync_tells_of_what_came_as_a_fetch_does(far: Far) -> None:
    """A sync tells it after the join, of places that the join read; a fetch reads them for that."""
    a, fetching, syncing = far.clone("fast", skew=11), far.clone("fetching", skew=0), far.clone("syncing", skew=0)
    ok(a, "snapshot", "--track", "soon", "in time")
    far.clock.now -= timedelta(minutes=11)
    for track, count in (("t", 2), ("u", 1), ("soon", 1)):
        for n in range(count):
            snap(a, f"{track} {n}", track)
    for _ in range(2):
        far.clock.now += timedelta(minutes=1)
        late = snap(a, "ahead", "soon")
        ok(a, "push", "--yes")
        told = [json.loads(clone.here(verb, "--json").out) for clone, verb in ((fetching, "fetch"), (syncing, "sync"))]
        rows = [told[0]["tracks"], told[1]["fetched"]["tracks"]]
        assert rows[0] == rows[1] and {row["track"] for row in rows[0]} == {"soon", "t", "u"}
        assert late in {item["id"] for row in rows[0] for item in row["future"]}
        snap(a, "more", "t")


@pytest.mark.full
def test_what_was_removed_stays_removed(far: Far) -> None:
    a, b = far.first, far.clone()
    ids = [snap(a, f"step {n}") for n in range(4)]
    ok(a, "push", "--yes")
    ok(b, "sync")
    forget(b, ids[1])
    snap(b, "later")
    ok(b, "sync")
    assert steps(far.there()) == ["step 0", "step 2", "step 3", "later"] and "step 1" not in noted_steps(far.there())
    assert not far.remote.try_git("log", "-p", NOTES, "refs/baton/meta").out.count("step 1")
    done = a.here("push")
    assert done.code == 1 and "hint: git baton sync" in done.err
    ok(a, "sync")
    assert steps(a.state()) == steps(far.there()) and a.state().meta.forgotten == {ids[1]}
    equal(a, b)
    forget(a, *(item.id for item in a.state().chains["t"]))
    ok(a, "sync")
    ok(b, "sync")
    assert far.there().chains == a.state().chains == b.state().chains == {} and META in far.there().refs
    for clone in (a, b):
        clone.git("reflog", "expire", "--expire=now", "--all")
        clone.git("gc", "-q", "--prune=now")
        raw = clone.run("git", "cat-file", "--batch-all-objects", "--batch", "--buffer").out
        assert "refs/baton/remotes/origin/tracks/t" not in clone.state().refs and "step 2" not in raw


@pytest.mark.deep
def test_notes_come_with_their_checkpoints_and_never_alone(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "of t")
    other = snap(a, "of the other", "other")
    a.commit("amended", a_txt="one\n")
    kept = snap(a, "kept")
    a.git("notes", "--ref=checkpoints", "append", "-m", "the user's words", "HEAD")
    a.git("commit", "-q", "--amend", "--allow-empty", "-m", "other words")
    a.git("notes", "--ref=checkpoints", "copy", a.state().chains["t"][-1].base or "", "HEAD")  # as rewriting does
    ok(a, "push", "--yes")
    ok(b, "sync", "origin", "t")
    said = noted_steps(b.state())  # a copy on another commit stays where git made it: anybody could write one
    assert said.count(kept) == 1 and other not in said
    forget(a, other)
    ok(a, "push")
    ok(b, "sync")
    assert other not in noted_steps(b.state()) and "kept" in noted_steps(b.state())


@pytest.mark.deep
def test_fetched_checkpoints_are_foreign_until_followed(far: Far) -> None:
    a, b = far.first, far.clone()
    theirs = snap(a, "of a")
    ok(a, "push", "--yes")
    ok(b, "sync")
    assert ok(b, "show", "--json", theirs).json["checkpoint"]["foreign"] is True
    snap(b, "of b")
    assert ok(b, "show", "--json", theirs).json["checkpoint"]["foreign"] is False
    assert ok(a, "show", "--json", theirs).json["checkpoint"]["foreign"] is False


def test_a_bundle_is_fetched_and_joined(far: Far, tmp_path: Path) -> None:
    a, b = far.first, far.clone()
    theirs, mine = snap(a, "of a"), snap(b, "of b")
    path = str(tmp_path / "over.bundle")
    a.git("bundle", "create", "-q", path, CHAINS + "t", NOTES)
    assert ok(b, "fetch", path).out == "t: new, 1 checkpoint: > of a\n"
    ok(b, "sync", path)
    assert [item.id for item in b.state().chains["t"]] == [theirs, mine]
    assert b.here("push", path).code == 129
    a.git("bundle", "create", "-q", path, CHAINS + "t", "^" + a.head())
    other = Clone(tmp_path / "empty", far.clock)
    Sandbox.init(other.path)
    done = other.here("fetch", path)
    assert done.code == 1 and len(done.err.splitlines()) == 1 and other.state().refs == {}


@pytest.mark.full
def test_a_dry_run_writes_nothing_at_either_end(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "of a")
    ok(a, "push", "--yes")
    snap(b, "of b")

    def everything() -> list[tuple[Path, int]]:
        files = (p for box in (b.path / ".git", far.remote.path) for p in box.rglob("*") if p.is_file())
        # git itself renews the time of an object that it finds there
        return sorted((p, 0 if "objects" in p.parts else p.stat().st_mtime_ns) for p in files)

    before = everything()
    done = ok(b, "sync", "--dry-run")
    assert done.out.splitlines()[1:3] == ["t: 1 would be joined", f"would push 't': forward, 1 checkpoint [{CHAINS}t]"]
    assert b.here("push", "--dry-run").code == 1
    assert everything() == before
    ok(b, "sync")
    assert steps(far.there()) == ["of a", "of b"]


@pytest.mark.deep
def test_a_track_that_went_on_at_both_sides_is_said_to_have(far: Far) -> None:
    """Its newest checkpoint has the files of one side alone."""
    a, b = far.first, far.clone()
    snap(a, "base")
    ok(a, "push", "--yes")
    assert "both sides" not in ok(b, "sync").err
    (b.path / "only-b").write_text("b\n")
    snap(b, "b goes on")
    ok(b, "push", "--yes")
    assert "both sides" not in ok(a, "fetch").err and "newer" in ok(a).err
    (a.path / "only-a").write_text("a\n")
    snap(a, "a goes on")
    said = ok(a, "sync", "--yes").err
    assert "hint: 't' went on at both sides: " in said
    diff = said.partition("; 'git baton diff ")[2].partition("'")[0].split()
    assert a.git("baton", "diff", *diff, "--name-status") == "A\tonly-a\nD\tonly-b"
    branch = said.partition("'git baton branch ")[2].partition("'")[0].split()
    ok(a, "branch", *branch)
    assert a.git("show", "other-side:only-b") == "b"
    assert "both sides" not in ok(a, "sync", "--yes").err


@pytest.mark.deep
def test_who_begins_a_track_beside_one_that_was_fetched_hears_of_that(far: Far) -> None:
    a, b, c, d = far.first, far.clone(), far.clone("c"), far.clone("d")
    snap(a, "base", "parser")
    ok(a, "push", "--yes")
    ok(b, "sync")
    assert snap(b, "named", "lexer") and ok(b, "snapshot", "goes on where it is").err == ""
    ok(c, "fetch")
    hint = "hint: 'git baton tracks use parser' goes on with that one\n"
    assert ok(c, "snapshot", "went on").err == f"warning: track 'main' is new; there is 'parser', too\n{hint}"
    assert ok(c, "snapshot", "and on").err == ""
    ok(c, "tracks", "use", "parser")
    assert ok(c, "snapshot", "went on").out.startswith("parser ")
    assert ok(c, "log", "parser", "-1", "--json").json["checkpoints"][0]["step"] == "went on"
    ok(d, "fetch")
    assert snap(d, "named", "lexer") and ok(d, "snapshot", "--track", "parsr", "x").err.endswith("there is 'parser', too\n")
    d.git("update-ref", "--no-deref", "-d", "BATON_HEAD")
    d.git("config", "baton.track", "chosen")
    assert ok(d, "snapshot", "by configuration").out.startswith("chosen ") and "parser" not in ok(d, "snapshot", "x").err
