"""Retention and its neighbours: nobody waits while a prune thinks, and nothing that others write meanwhile is lost."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from gitbaton.base.errors import NotFoundError, RefConflictError
from gitbaton.base.values import replace
from gitbaton.care.retention.forgetting import forget
from gitbaton.care.retention.pruning import apply, plan, prune
from gitbaton.care.retention.rules import KeepRules, Wish, set_pin
from gitbaton.checkpoints.store.join import links
from gitbaton.checkpoints.store.meta import read
from gitbaton.checkpoints.store.revision import Revision
from tests.kit import Sandbox
from tests.kit.moments import Args, at
from tests.kit.state import insert
from tests.verbs.test_retention import checkpoint, every_ref, filled, ids


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a track of automatic checkpoints."""
    with pytest.MonkeyPatch.context() as patch:
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "A")
            patch.setenv(f"GIT_{role}_EMAIL", "a@example.com")
        repo = Sandbox.init(tmp_path_factory.mktemp("template") / "repo")
        repo.commit("first", a_txt="one\n")
        filled(repo, 16)
    return repo.path


@pytest.fixture
def kept(template: Path, tmp_path: Path) -> Sandbox:
    """A copy of it."""
    shutil.copytree(template, tmp_path / "kept", symlinks=True)
    return Sandbox(tmp_path / "kept")


@pytest.mark.deep
def test_only_refs_move_under_the_lock_and_the_busiest_track_is_pruned(kept: Sandbox) -> None:
    lock, written, rivals = kept.path / ".git/baton/flock", list[bool](), list[int]()

    def wrote(_: Args) -> None:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                written.append(False)
            except BlockingIOError:
                written.append(True)

    def rival(_: Args) -> None:
        with kept.open() as other:
            insert(other.store, "t", [checkpoint(other, "t", rivals.pop(), ["x"], None)])

    def taken(args: Args) -> bool:
        return bool(rivals) and os.path.sameopenfile(args[0], watched.fileno())

    with (
        kept.open(door="binary") as baton,
        lock.open() as watched,
        at("os.rename", lambda args: "tmp_obj" in str(args[0]), wrote),
        at("fcntl.flock", taken, rival),
    ):
        apply(baton, plan(baton, Wish(rules=KeepRules(last=9))))
        assert written and not any(written)
        rivals[:] = 900, 901, 902
        prune(baton, Wish(rules=KeepRules(last=2)))
        assert not rivals and len(links(baton.store, "t")) == 2
        rivals[:] = 903, 904
        oldest = links(baton.store, "t")[0].id
        made, said = forget(baton, ["t~1"], everywhere=False)
        assert made.ids == (oldest,) and not said and oldest not in [link.id for link in links(baton.store, "t")]
        assert not rivals
    kept.fsck()


@pytest.mark.deep
def test_a_pin_that_comes_while_the_objects_are_written_is_not_lost(kept: Sandbox) -> None:
    with kept.open() as baton:
        revision = Revision(baton.store)
        revision.meta = replace(revision.meta, pruned=frozenset(ids(kept, "t")[-3:]))
        revision.keep("t", ids(kept, "t")[:-3])
        revision.prepare()
        kept.ok("pin", ids(kept, "t")[-1])
        refs = every_ref(kept)
        with baton.repo.lock(()), pytest.raises(RefConflictError):
            revision.apply()
    assert every_ref(kept) == refs


@pytest.mark.parametrize("name", ["refs/baton/tracks/u", "refs/checkpoints/t"])
def test_t17_a_symbolic_ref_in_our_namespace_moves_nobody_elses(kept: Sandbox, name: str) -> None:
    kept.git("branch", "mine", "refs/baton/tracks/t")
    kept.git("symbolic-ref", name, "refs/heads/mine")
    refs = every_ref(kept)
    for words in (("prune", "--keep-last", "1"), ("forget", "--yes", "t~1")):
        done = kept.baton(*words)
        assert done.code == 128 and f"'{name}' is a symbolic ref, for 'refs/heads/mine'" in done.err
    assert every_ref(kept) == refs


@pytest.mark.deep
def test_no_pin_is_said_to_hold_what_is_removed_just_before(kept: Sandbox) -> None:
    oldest, lock, rivals = ids(kept, "t")[-1], kept.path / ".git/baton/flock", [True]

    def rival(_: Args) -> None:
        rivals.clear()
        kept.ok("prune", "t", "--keep-last", "1", "--yes")

    def taken(args: Args) -> bool:
        return bool(rivals) and os.path.sameopenfile(args[0], watched.fileno())

    with kept.open(door="binary") as baton, lock.open() as watched, at("fcntl.flock", taken, rival):
        with pytest.raises(NotFoundError):
            set_pin(baton, oldest, pinned=True)
        assert not rivals and not read(baton.store).pinned(oldest) and oldest not in ids(kept, "t")


@pytest.mark.deep
def test_what_is_pinned_since_it_was_planned_to_go_stays(kept: Sandbox) -> None:
    oldest, *_ = reversed(ids(kept, "t"))
    with kept.open(door="binary") as baton:
        revision = Revision(baton.store)
        revision.keep("t", ids(kept, "t")[:-1])
        kept.ok("pin", oldest)
        with baton.repo.lock(()), pytest.raises(RefConflictError):
            revision.apply()
    assert oldest in ids(kept, "t")
