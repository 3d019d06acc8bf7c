"""Remotes and clones that mean harm, or whose clocks are wrong: nobody else stands still for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.checkpoints.store.meta import MOST_TURNS, Meta
from gitbaton.checkpoints.store.revision import Revision
from gitbaton.git.bounded import failure
from tests.kit.far import META, Far, forget, ok, snap, steps
from tests.kit.tiers import some


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


@pytest.mark.full
@some("rewriting", [True, False])
def test_one_wrong_clock_keeps_nobody_from_pushing(far: Far, rewriting: bool) -> None:
    a, wrong, c = far.first, far.clone("wrong", skew=10_000), far.clone("third")
    first = snap(a, "first")
    ok(a, "push", "--yes")
    ok(wrong, "sync")
    late = snap(wrong, "far ahead")
    ok(wrong, "push")
    if not rewriting:
        hook = far.remote.path / "hooks/update"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\ncase $2 in 0*) exit 0;; esac; git merge-base --is-ancestor $2 $3 || { exit 1; }\n")
        hook.chmod(0o755)
    snap(a, "second")
    done = ok(a, "sync")
    assert f"checkpoint {late} of 't' is from the future" in done.err and "faster" not in done.err
    assert steps(a.state()) == ["first", "second"]
    assert {"first", "second", "far ahead"} == set(steps(far.there())) and steps(far.there())[-1] == "far ahead"
    ok(c, "sync")
    assert steps(c.state()) == ["first", "second"]
    if rewriting:
        forget(c, first)
        ok(c, "sync")
        assert steps(far.there()) == ["second", "far ahead"]
    ok(wrong, "sync")
    assert steps(wrong.state())[-2:] == ["second", "far ahead"]
    assert "nothing to push" in ok(a, "sync").out
    far.remote.git("fsck", "--strict")


@pytest.mark.full
def test_what_others_remove_can_be_found_again(far: Far) -> None:
    a, b = far.first, far.clone()
    ids = [snap(a, f"step {n}") for n in range(3)]
    ok(a, "push", "--yes")
    ok(b, "sync")
    forget(b, *ids)
    ok(b, "sync")
    chain = a.state().refs["refs/baton/tracks/t"]
    assert f"t: 3 would be removed (was {chain[:10]})\n" in ok(a, "sync", "--dry-run").out
    done = ok(a, "sync")
    assert f"t: 3 removed (was {chain[:10]})\n" in done.out and a.state().chains == {}
    assert a.git("log", "--first-parent", "--format=%s", chain).splitlines()[:3] == ["step 2", "step 1", "step 0"]


@pytest.mark.deep
def test_one_of_several_places_that_fails_keeps_nothing_from_the_others(far: Far) -> None:
    a = far.first
    for url in (str(far.place / "nowhere.git"), "../far.git"):
        a.git("config", "--add", "remote.origin.pushurl", url)
    snap(a, "step")
    done = a.here("push", "--yes")
    assert (done.code, steps(far.there())) == (1, ["step"])
    assert done.err.count("error: not pushed: there is no repository at 'origin'") == 1
    done = a.here("sync")
    assert done.code == 1 and done.err.count("error: not pushed:") == 1


def test_a_token_in_a_query_is_not_shown() -> None:
    said = "fatal: unable to access 'https://bob:s3cret@far.example/x.git?token=s3cret/': Could not resolve host: far.example"
    assert str(failure("far", said)) == (
        "'far' cannot be reached: unable to access 'https://far.example/x.git': Could not resolve host: far.example"
    )


@pytest.mark.deep
def test_a_pin_that_was_counted_up_to_the_end_stays_readable(far: Far) -> None:
    a = far.first
    pinned = snap(a, "step")
    with a.open() as baton, baton.repo.lock(()):
        revision = Revision(baton.store)
        revision.meta = Meta(pins={pinned: MOST_TURNS})
        revision.apply()
    done = a.here("unpin", pinned)
    assert (done.code, done.err.count("too often")) == (1, 1)
    ok(a, "sync", "--yes")
    assert far.there().meta == a.state().meta
    a.git("update-ref", META, "HEAD")
    assert f"MEND refs: '{META}' is not what gitbaton writes" in a.here("doctor").out


@pytest.mark.deep
def test_it_is_pushed_where_git_pushes(far: Far) -> None:
    a = far.first
    a.git("clone", "-q", "--bare", str(far.remote.path), str(far.place / "other.git"))
    a.git("config", "remote.origin.url", str(far.place / "other.git"))
    a.git("config", "remote.origin.pushurl", "far:far.git")
    a.git("config", f"url.{far.place}/.insteadOf", "far:")
    a.git("config", f"url.{far.place}/other.git.pushInsteadOf", "far:far.git")  # git heeds it only where there is no pushurl
    a.git("push", "-q", "origin", "main:seen")
    snap(a, "step")
    ok(a, "push", "--yes")
    assert far.remote.git("rev-parse", "seen") and steps(far.there()) == ["step"]
