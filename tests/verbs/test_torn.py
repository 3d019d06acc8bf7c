"""A track with a torn middle: nothing is said to be absent that only cannot be read."""

from __future__ import annotations

import pytest

from gitbaton.checkpoints.store.read import own_refs, unreadable_refs
from tests.kit import Sandbox


@pytest.fixture
def torn(repo: Sandbox) -> Sandbox:
    """Six checkpoints; the commit of the fourth newest is gone."""
    with repo.open() as baton:
        for number in range(6):
            repo.write("a.txt", f"{number}\n")
            baton.snapshot(f"step {number}", track="a b", label=f"L{number}", kind="auto" if number > 2 else "manual")
    oid = repo.git("rev-parse", "refs/baton/tracks/a%20b~3")
    repo.loose(oid).unlink()
    return repo


@pytest.mark.deep
def test_what_may_lie_below_the_tear_is_not_called_absent(torn: Sandbox) -> None:
    assert (
        "step=step 3" in torn.ok("show", "--porcelain", "a b~2").out
        and "step=step 5" in torn.ok("show", "--porcelain", "L5").out
    )
    for name in ("a b~3", "a b~4", "a b~99", "a b@{9}", "a b@{1 year ago}", "a b@{manual}"):
        for words in (["show", name], ["diff", name], ["bisect", "--good", name, "--", "false"], ["pin", name]):
            done = torn.baton(*words)
            assert done.code == 128, (words, done)
            assert "the chain of track 'a b' is torn: commit" in done.err and "nor what lies below it" in done.err
    for name in ("L1", "0123456789"):
        done = torn.baton("show", name)
        assert done.code == 2 and f"there is no checkpoint '{name}' as far as the chains can be read" in done.err
        assert "\nhint: what cannot be read is said by: git baton log --track 'a b'\n" in done.err


@pytest.mark.deep
def test_the_list_and_doctor_say_where_it_is_torn(torn: Sandbox) -> None:
    done = torn.ok("log", "a b")
    assert done.out.count("\n") == 3 and "it cannot be read, nor what lies below it" in done.err
    assert "MEND history: the chain of track 'a b' is torn" in torn.baton("doctor").out


def test_a_track_whose_newest_cannot_be_read_is_listed_by_its_name(repo: Sandbox) -> None:
    with repo.open() as baton:
        for number in range(3):
            baton.snapshot(f"step {number}", track="t", files=False)
    chain = "refs/baton/tracks/t"
    broken = repo.git("commit-tree", "-m", "no checkpoint", "-p", chain, f"{chain}^{{tree}}")
    repo.git("update-ref", chain, broken)
    for words in (("log", "t"), ("log", "--track", "t")):
        done = repo.ok(*words)
        assert [row.rsplit(" ", 1)[1] for row in done.out.splitlines()] == ["2", "1", "0"] and broken[:10] in done.err, words


@pytest.mark.parametrize("how", ["ref", "object"])
def test_a_track_that_broke_in_its_place_is_named_beside_the_newest_of_others(repo: Sandbox, how: str) -> None:
    for track in ("t", "u", "v", "w"):
        repo.ok("snapshot", "--track", track, "--step", "one")
    chain = "refs/baton/tracks/t"
    path = repo.path / ".git" / chain if how == "ref" else repo.loose(repo.git("rev-parse", chain))
    path.chmod(0o644)
    path.write_bytes(b"")
    done = repo.ok("log", "--all", "-n", "1")
    assert " w " in done.out and done.err.startswith("warning: 'refs/baton/tracks/t' ")


def bare(repo: Sandbox) -> Sandbox:
    """A remote ``far``, empty."""
    far = repo.path.parent / "far.git"
    repo.git("init", "-q", "--bare", str(far))
    repo.git("remote", "add", "far", str(far))
    return Sandbox(far)


@pytest.mark.parametrize("pushed", [False, True])
@pytest.mark.parametrize("content", [b"", None])
def test_a_torn_commit_of_one_track_keeps_no_other_from_a_push(torn: Sandbox, pushed: bool, content: bytes | None) -> None:
    with torn.open() as baton:
        for number in range(3):
            baton.snapshot(f"p {number}", track="p", files=False)
    far, record = bare(torn), torn.git("rev-parse", "refs/baton/tracks/p~1")
    if pushed:
        torn.ok("push", "far", "--track", "p", "--yes")
    path = torn.loose(record)
    path.unlink() if content is None else path.write_bytes(content)
    torn.ok("snapshot", "--track", "q", "--step", "q 0", "--no-set-current")
    done = torn.baton("push", "far", "--track", "q", "--track", "p", "--yes")
    assert done.code in (0, 1) and "new" in done.out, done
    assert far.git("rev-parse", "refs/baton/tracks/q") == torn.git("rev-parse", "refs/baton/tracks/q"), done
    if not pushed or content is not None:  # else all of it is there already, and git does not look
        assert done.code == 1 and record in done.err.replace("/", "") and "hint: git baton doctor --mend\n" in done.err


def test_a_record_that_is_no_json_keeps_no_other_track_from_a_push(repo: Sandbox) -> None:
    with repo.open() as baton:
        for track in ("p", "q"):
            baton.snapshot("one", track=track, files=False)
    far, chain = bare(repo), "refs/baton/tracks/p"
    raw = repo.run("git", "cat-file", "commit", chain).out.replace('"step": "one"', '"step": one')
    bad = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.encode())
    repo.git("update-ref", chain, bad)
    done = repo.baton("push", "far", "--yes")
    assert done.code == 1 and f"track 'p' is broken here: commit {bad}: record is not JSON" in done.err
    assert far.git("for-each-ref", "--format=%(refname)", "refs/baton/tracks") == "refs/baton/tracks/q"


def test_of_refs_that_are_many_the_same_ones_are_broken(repo: Sandbox) -> None:
    with repo.open() as baton:
        for track in ("p", "q", "s"):
            baton.snapshot("one", track=track, files=False)
    torn, tip = ("refs/baton/tracks/p", "refs/baton/tracks/q")
    repo.loose(repo.git("rev-parse", torn)).unlink()
    repo.git("update-ref", tip, "refs/checkpoints/q")
    (repo.path / ".git" / "refs/baton/tracks/s").write_text("")
    with repo.open() as baton:
        refs = own_refs(baton.store)
        few, many = unreadable_refs(baton.store, refs), unreadable_refs(baton.store, refs, 0)
    assert few == many and few.keys() == {torn, tip, "refs/baton/tracks/s"}
