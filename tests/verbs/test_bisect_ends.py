"""Bisect accuses nobody untested: the bad end is run first, then the good one, and what is not so is said in a line."""

from __future__ import annotations

import pytest

from tests.kit import Outcome, Sandbox


@pytest.fixture
def track(repo: Sandbox) -> Sandbox:
    """Three checkpoints; ``n`` says which."""
    with repo.open() as baton:
        for number in range(3):
            repo.write("n", f"{number}\n")
            baton.snapshot(f"step {number}", track="t")
    return repo


def bisect(repo: Sandbox, script: str, *options: str) -> Outcome:
    return repo.baton("bisect", "--good", "t~2", *options, "--", "sh", "-c", script)


def check_refused(done: Outcome, said: str) -> None:
    """Exit 1, one line and a hint, and nobody is called the first bad one."""
    error, hint, *more = [row for row in done.err.splitlines() if not row.startswith("trying ")]
    assert (done.code, more) == (1, []) and said in error and hint.startswith("hint: name another one with --"), done
    assert "first bad" not in done.out


@pytest.mark.full
def test_a_bad_end_that_is_not_bad(track: Sandbox) -> None:
    for good in ("t~2", "t~1"):  # with and without checkpoints between
        done = track.baton("bisect", "--good", good, "--", "true")
        check_refused(done, "is not bad: 'true' exited with 0 on it")
        assert [row.split(":")[0] for row in done.out.splitlines()] == ["trying the bad one"]
    check_refused(bisect(track, "exit 125"), "the bad checkpoint")
    check_refused(bisect(track, "test $(cat n) != 2 || exit 125"), "cannot be tried: 'sh' exited with 125 on it")
    check_refused(bisect(track, "true", "--json"), "is not bad")


@pytest.mark.deep
def test_a_good_end_that_is_not_good(track: Sandbox) -> None:
    check_refused(bisect(track, "false"), "is not good: 'sh' exited with 1 on it")
    check_refused(bisect(track, "test $(cat n) != 0 && exit 1; exit 125"), "cannot be tried: 'sh' exited with 125 on it")


def test_a_good_end_that_is_trusted(track: Sandbox) -> None:
    found = bisect(track, "false", "--trust-good", "--json")
    assert (found.code, found.json["first_bad"]["step"], found.json["tried"]) == (0, "step 1", 2)
    check_refused(bisect(track, "true", "--trust-good"), "is not bad")
    absent = track.baton("bisect", "--trust-good", "--good", "t~2", "--", "no-such-command")
    assert absent.code == 128 and "it cannot be run" in absent.err


@pytest.mark.deep
def test_ends_without_files(track: Sandbox) -> None:
    track.ok("snapshot", "--track", "t", "--step", "words", "--no-files")
    done = bisect(track, "test $(cat n) -lt 1")
    check_refused(done, "was recorded without files, and cannot be tried")
    assert bisect(track, "test $(cat n) -lt 2", "--bad", "t~1").code == 0
    track.write("n", "3\n")
    track.ok("snapshot", "--track", "t", "--step", "last")
    done = track.baton("bisect", "--good", "t~1", "--", "test", "!", "-e", "n")
    check_refused(done, "the good checkpoint")
    assert track.baton("bisect", "--good", "t~1", "--trust-good", "--", "test", "!", "-e", "n").code == 0


@pytest.mark.deep
def test_a_safety_checkpoint_is_on_no_track(track: Sandbox) -> None:
    track.ok("restore", "t~1")
    safety = track.git("log", "-1", "--format=%H", "refs/baton/safety/main-worktree")
    assert safety
    with track.open() as baton:
        oid = baton.store.tip_at("refs/baton/safety/main-worktree")
    assert oid is not None
    done = track.baton("bisect", "--good", oid.id, "--", "false")
    assert done.code == 128 and "are not both in the chain of track 't'" in done.err
