"""Append to a chain: who holds the lock when, which lock files go, how often a lost race is tried again, and what it says."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.base.errors import GitError, RefConflictError
from gitbaton.checkpoints.store.chain import Guard, append_to, landed
from gitbaton.git.objects import author_at
from tests.kit import Sandbox

REF = "refs/baton/tracks/x"


@pytest.fixture
def baton(repo: Sandbox) -> Iterator[Baton]:
    with repo.open() as opened:
        yield opened


class Race:
    """Attempts that lose so often, and what was held while each of them was built, and while it moved the ref."""

    def __init__(self, losses: int) -> None:
        self.losses, self.held, self.seen = losses, False, list[tuple[bool, bool]]()

    @contextmanager
    def lock(self) -> Iterator[None]:
        self.held = True
        try:
            yield
        finally:
            self.held = False

    def once(self, guard: Guard) -> int:
        built = self.held
        with guard:
            self.seen.append((built, self.held))
        if len(self.seen) <= self.losses:
            raise RefConflictError(f"'{REF}' has moved", "look again")
        return len(self.seen)


def lock_beside(repo: Sandbox, age: float) -> Path:
    path = repo.write(f".git/{REF}.lock", "")
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_a_lost_race_is_tried_again_with_the_lock_held(baton: Baton) -> None:
    race = Race(3)
    assert append_to(baton.repo, (REF,), race.once, seconds=30, lock=race.lock, pauses=(0, 0)) == 4
    assert race.seen == [(True, True)] * 4 and not race.held


def test_the_first_attempts_build_before_the_lock_and_the_last_one_with_it(baton: Baton) -> None:
    race = Race(2)
    assert append_to(baton.repo, (REF,), race.once, seconds=0, lock=race.lock, ahead=2, pauses=(0, 0)) == 3
    assert race.seen == [(False, True), (False, True), (True, True)]


def test_a_race_that_is_lost_for_good_says_what_that_means(baton: Baton) -> None:
    race = Race(9)
    with pytest.raises(RefConflictError) as caught:
        append_to(baton.repo, (REF,), race.once, seconds=0, lock=race.lock, ahead=2, pauses=(0, 0), lost=("nothing", "wait"))
    assert caught.value.message == f"nothing: '{REF}' has moved" and caught.value.hints == ("wait",)
    assert len(race.seen) == 3 and not race.held
    with pytest.raises(RefConflictError) as caught:
        append_to(baton.repo, (REF,), Race(9).once, seconds=0.05, pauses=(0.01, 0.01))
    assert caught.value.message == f"'{REF}' has moved" and caught.value.hints == ("look again",)


def test_any_other_error_is_no_lost_race(baton: Baton) -> None:
    calls = []

    def once(_: object) -> None:
        calls.append(1)
        raise GitError("the disk is full")

    with pytest.raises(GitError, match="full"):
        append_to(baton.repo, (REF,), once, seconds=30)
    assert len(calls) == 1


@pytest.mark.parametrize(("age", "stale", "goes"), [(11, 10.0, True), (5, 10.0, False), (5, 1.0, True)])
def test_a_stale_lock_file_goes_once_a_race_was_lost(baton: Baton, repo: Sandbox, age: float, stale: float, goes: bool) -> None:
    path, there = lock_beside(repo, age), []

    def once(_: object) -> None:
        there.append(path.exists())
        if len(there) == 1:
            raise RefConflictError("lost")

    append_to(baton.repo, (REF,), once, seconds=30, stale=stale, pauses=(0, 0))
    assert there == [True, not goes]


def test_an_error_after_the_ref_has_moved_is_no_failure() -> None:
    new, other = "1" * 40, "2" * 40

    def move() -> None:
        raise GitError("no answer")

    assert landed(lambda: None, lambda: None, new)
    assert not landed(move, lambda: new, new)
    for tip in (None, other):
        with pytest.raises(GitError, match="no answer"):
            landed(move, lambda tip=tip: tip, new)  # type: ignore[misc]


def test_an_author_is_dated_in_utc() -> None:
    when = datetime(2026, 1, 1, 2, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert author_at(b"A <a@b>", when) == b"A <a@b> 1767225600 +0000"
    assert author_at(b"A <a@b>", datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)) == b"A <a@b> -1 +0000"
