"""A name given afterwards: every verb knows the checkpoint by it, prune keeps it, clones hear of it, unpin takes it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.checkpoints.store.refs import META
from tests.kit import Sandbox
from tests.kit.far import Far, forget, ok, snap


@pytest.fixture
def three(repo: Sandbox) -> Sandbox:
    for n in ("1", "2", "3"):
        repo.write("a.txt", n)
        repo.ok("snapshot", "--track", "parser", f"step {n}")
    return repo


def id_of(repo: Sandbox, name: str) -> str:
    return str(repo.ok("show", name, "--json").json["checkpoint"]["id"])


def test_an_old_checkpoint_is_named_and_known_by_it(three: Sandbox) -> None:
    second = id_of(three, "@~1")
    assert three.ok("pin", "@~1", "before-rewrite").out == f"pinned as before-rewrite: {second[:4]} step 2\n"
    assert three.ok("pin", "@~1", "before-rewrite").out == f"pinned already: {second[:4]} step 2\n"
    assert three.ok("pin", "@~1").out.startswith("pinned already")
    assert id_of(three, "before-rewrite") == second
    assert "[before-rewrite] (pinned) step 2" in three.ok("log").out
    shown = three.ok("show", "--porcelain", "before-rewrite").out.splitlines()
    assert shown[1:3] == ["pinned=yes", "name=before-rewrite"]
    rows = three.ok("log", "--json").json["checkpoints"]
    assert [(row["pinned"], row.get("name")) for row in rows] == [(False, None), (True, "before-rewrite"), (False, None)]
    assert "before-rewrite\ta pin\n" in three.ok("complete", "restore", "bef").out
    three.ok("diff", "before-rewrite")
    three.ok("restore", "before-rewrite")
    assert (three.path / "a.txt").read_text() == "2"
    assert "kept 2" not in three.ok("prune", "--keep-last", "1").out and id_of(three, "before-rewrite") == second


@pytest.mark.full
def test_another_name_replaces_it_and_unpin_takes_it_back(three: Sandbox) -> None:
    first = id_of(three, "@~2")
    three.ok("pin", "@~2", "first light")
    three.ok("pin", "first light", "begin")
    assert id_of(three, "begin") == first and three.baton("show", "first light").code == 2
    assert three.ok("unpin", "begin").out == f"no longer pinned {first[:4]} step 1\n"
    assert three.baton("show", "begin").code == 2 and three.ok("log", "--json").json["checkpoints"][2].get("name") is None
    three.ok("pin", "@~2")
    three.ok("pin", "@~2", "again")
    assert three.git("show", f"{META}:pins/{first[:2]}/{first[2:]}") == "7\nagain"


@pytest.mark.deep
def test_what_is_no_name_is_refused(three: Sandbox) -> None:
    for name in ("", "  ", "a\nb", "@", "x~1", "x@{1}", "beef", "n" * 201):
        done = three.baton("pin", "@~1", name)
        assert done.code == 129 and done.err.startswith("fatal: ") and done.err.count("\n") == 1, name
    assert three.try_git("rev-parse", "-q", "--verify", META).code == 1


@pytest.mark.deep
def test_a_name_that_means_another_checkpoint_is_refused(three: Sandbox) -> None:
    three.ok("pin", "@~2", "begin")
    done = three.baton("pin", "@~1", "begin")
    assert done.code == 1 and "'begin' means another checkpoint: " in done.err
    assert "hint: to look: git baton show begin\n" in done.err
    for place in ("@", "@~1"):  # the newest of the track is another one tomorrow
        done = three.baton("pin", place, "parser")
        assert done.code == 1 and "'parser' is a track\nhint: to look: git baton log --track parser\n" in done.err
    assert not three.ok("log", "--json").json["checkpoints"][1]["pinned"]


@pytest.mark.full
def test_a_secret_is_no_name(three: Sandbox) -> None:
    three.ok("pin", "@", "ghp_" + "Ab3dE5fG7h" * 3 + "Ab3dE5")
    assert three.ok("log", "--json").json["checkpoints"][0]["name"] == "[redacted:github-token]"


@pytest.mark.deep
def test_where_pins_cannot_be_read_a_name_is_not_said_to_be_unknown(three: Sandbox) -> None:
    three.ok("pin", "@~1", "begin")
    three.git("update-ref", META, "HEAD")
    done = three.baton("show", "begin")
    assert done.code == 2 and "there is no checkpoint 'begin' as far as can be read: 'refs/baton/meta' is not" in done.err
    assert "step 3" in three.ok("show", "parser").out


@pytest.mark.full
def test_clones_hear_of_a_name_and_of_two_the_later_count_holds(tmp_path: Path) -> None:
    far = Far(tmp_path)
    a, b = far.first, far.clone("b")
    one = snap(a, "one")
    snap(a, "two")
    ok(a, "pin", "@~1", "begin")
    ok(a, "sync", "origin", "--yes")
    ok(b, "sync", "origin", "--yes")
    assert ok(b, "show", "begin", "--json").json["checkpoint"]["id"] == one
    ok(b, "pin", "begin", "first")
    ok(b, "pin", "first", "first-light")
    ok(a, "pin", "begin", "start")
    for clone in (a, b, a):
        ok(clone, "sync", "origin", "--yes")
    assert [ok(clone, "show", one, "--json").json["checkpoint"]["name"] for clone in (a, b)] == ["first-light"] * 2
    forget(a, one)
    ok(a, "unpin", "@")
    assert Sandbox(a.path).try_git("grep", "-q", "first-light", META).code == 1


@pytest.mark.full
def test_a_name_hides_no_track_that_comes_later(three: Sandbox) -> None:
    three.ok("pin", "@~1", "rel")
    three.ok("snapshot", "--track", "rel", "a track of that name")
    assert "a track of that name" in three.ok("show", "rel").out
    three.ok("unpin", "parser~1")


@pytest.mark.deep
def test_what_is_never_read_as_a_name_is_none(three: Sandbox) -> None:
    for name in ("refs/baton/tracks/x", "@{1}", "abcd", "x~1"):
        done = three.baton("pin", "@", name)
        assert done.code == 129 and "that is read as something else" in done.err, name
