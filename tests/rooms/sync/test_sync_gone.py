"""What was forgotten leaves the remotes as well: also from tracks that are only there, and where it cannot, that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.far import CHAINS, META, Far, lines_of, noted_steps, ok, snap, steps
from tests.kit.servers import REFUSES_REWRITING, hook
from tests.kit.tiers import some


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def holds(far: Far, text: str) -> bool:
    """Whether anything that the remote's refs reach has a text, in whatever object."""
    names = far.remote.git("rev-list", "--objects", "--all", "--no-object-names").split()
    return any(text in far.remote.run("git", "cat-file", "-p", name).out for name in names)


@pytest.mark.deep
@some("name", ["t~1", "t"])
def test_forgotten_in_a_track_that_was_only_fetched_goes_from_the_remote(far: Far, name: str) -> None:
    a, b = far.first, far.clone()
    ids = [snap(a, "harmless"), snap(a, "very secret one"), snap(a, "very secret two")]
    ok(a, "push", "--yes")
    kept = {"t~1": ["harmless", "very secret two"], "t": ["harmless", "very secret one"]}[name]
    gone = ids[1] if name == "t~1" else ids[2]
    ok(b, "fetch")
    done = ok(b, "forget", "--yes", "--everywhere", name)
    assert "run 'git baton push origin'" in done.out
    said = ok(b, "push", "origin").out.splitlines()
    assert f"push 't': rewrite, 1 removed [{CHAINS}t]" in said and f"push {META}: new" in said
    assert steps(far.there()) == kept and far.there().pins(META).forgotten == {gone}
    assert holds(far, kept[1]) and not holds(far, f"very secret {'one' if name == 't~1' else 'two'}")
    assert ok(b, "push").out == "nothing to push\n" and b.state().chains == {}
    ok(a, "sync")
    assert a.state().refs[CHAINS + "t"] == far.there().refs[CHAINS + "t"]
    far.remote.fsck()


@pytest.mark.deep
def test_a_track_only_there_of_which_nothing_may_stay_ends_there(far: Far) -> None:
    a, b = far.first, far.clone()
    gone = snap(a, "very secret", "only")
    snap(a, "harmless", "other")
    ok(a, "push", "--yes")
    ok(b, "fetch")
    ok(b, "forget", "--yes", "--everywhere", gone)
    hook(far.remote.path, "update", REFUSES_REWRITING)
    done = b.here("push")
    assert done.code == 1 and "error: 'origin' keeps 1 forgotten checkpoint" in done.err
    (far.remote.path / "hooks/update").unlink()
    assert f"push 'only': delete, 1 removed [{CHAINS}only]" in ok(b, "push").out.splitlines()
    assert set(far.there().chains) == {"other"} and "very secret" not in noted_steps(far.there())
    assert not holds(far, "very secret") and far.there().pins(META).forgotten == {gone}


@pytest.mark.full
def test_forgotten_where_the_track_is_here_tells_the_remote_though_nothing_else_moves(far: Far) -> None:
    a, b = far.first, far.clone()
    gone = snap(a, "very secret", "t")
    ok(a, "push", "--yes")
    snap(b, "of b", "mine")
    ok(b, "fetch")
    ok(b, "forget", "--yes", "--everywhere", gone)
    done = b.here("push")  # nobody agrees to the first push of 'mine': nothing goes
    assert done.code == 1 and steps(far.there()) == ["very secret"]
    ok(b, "push", "origin", "t")
    assert far.there().chains == {} and far.there().pins(META).forgotten == {gone}


@pytest.mark.full
def test_where_only_deleting_is_refused_the_answer_is_no(far: Far) -> None:
    a = far.first
    hook(far.remote.path, "update", "case $3 in *[!0]*) ;; *) echo 'nothing is deleted here'; exit 1;; esac")
    gone = snap(a, "very secret")
    ok(a, "push", "--yes")
    ok(a, "forget", "--yes", "--everywhere", gone)
    done = a.here("push")
    assert done.code == 1 and "refused: origin refuses rewriting and keeps 't', which was removed here" in lines_of(done)
    assert a.here("push", "--json").json["places"][0]["keeps"].startswith("1 forgotten checkpoint")


@pytest.mark.full
def test_each_line_says_what_becomes_public_with_a_track(far: Far) -> None:
    a = far.first
    a.write("known.txt", "1")
    snap(a, "one")
    snap(a, "other", "u")
    said = ok(a, "push", "--yes").out.splitlines()
    assert said[:2] == [f"push '{t}': new, 1 checkpoint; 1 untracked file [{CHAINS}{t}]" for t in "tu"]
    snap(a, "two")
    assert ok(a, "push").out.splitlines()[0] == f"push 't': forward, 1 checkpoint [{CHAINS}t]"
    a.git("checkout", "-q", "-b", "private")
    a.commit("not public", c_txt="c\n")
    a.write("fresh.txt", "1")
    a.write("staged.txt", "2")
    a.git("add", "staged.txt")
    snap(a, "three")
    snap(a, "four")
    row = f"push 't': forward, 2 checkpoints; 1 unpublished commit, 2 untracked files [{CHAINS}t]"
    assert row in a.here("push", "--dry-run").out
    moves = {m["track"]: (m["commits"], m["untracked"]) for m in a.here("push", "--json").json["places"][0]["moves"]}
    assert moves["t"] == (1, 2) and ok(a, "push").out == "nothing to push\n"
    snap(a, "more", "b")
    said = a.here("push", "--json", "--yes").json["places"][0]["moves"]
    assert [(m["track"], m["action"], m["old"] == m["new"]) for m in said[:3]] == [
        ("b", "new", False),
        ("t", "same", True),
        ("u", "same", True),
    ]
