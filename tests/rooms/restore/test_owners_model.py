"""Whose work a path is, on random histories: a walk over every checkpoint and every tree is the judge."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gitbaton.model import Stored
from gitbaton.owners import Owner, others
from tests.kit import Sandbox
from tests.kit.tiers import model, sized
from tests.rooms.restore.test_owners import Scene

PATHS = ("a", "b", "d/c")
TRACKS = ("mine", "other", "third")
EDIT = st.tuples(st.just("edit"), st.sampled_from(PATHS), st.sampled_from(["", "1", "2", "3"]))
SNAP = st.tuples(st.just("snap"), st.sampled_from(TRACKS), st.sampled_from(["here", "here", "linked", "no files"]))
COMMIT = st.tuples(st.just("commit"), st.just(""), st.just(""))
STEPS = st.lists(st.one_of(EDIT, EDIT, SNAP, SNAP, COMMIT), min_size=4, max_size=16)


def edit(repo: Sandbox, path: str, text: str) -> None:
    if text:
        repo.write(path, text)
    else:
        (repo.path / path).unlink(missing_ok=True)


class Walked:
    """All that the model knows: every checkpoint of one work tree, and the trees of what it names."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        born = scene.baton.repo.worktree_id().created
        history = scene.baton.history(everything=True).items
        kept = (s for s in history if s.checkpoint.files and s.checkpoint.files.worktree.created == born)
        self.items = [(s, scene.repo.tree(s.commit)) for s in kept]

    def expected(self, then: Stored, path: str, content: str) -> Owner | None:
        repo, c = self.scene.repo, then.checkpoint
        base = repo.tree(c.head).get(path, "") if c.head else ""
        holders = [s for s, tree in self.items if tree.get(path, "") == content]
        if content in ("", base):
            holders = [s for s in holders if s.checkpoint.created > c.created]
        first = min(holders, key=lambda s: (s.checkpoint.created, s.checkpoint.track != c.track, s.id), default=None)
        if first is not None and first.checkpoint.track != c.track:
            return Owner(path=path, track=first.checkpoint.track, where=first.id)
        for commit in repo.git("rev-list", "--first-parent", "HEAD", f"^{c.head}" if c.head else "HEAD").split():
            parents = repo.git("rev-parse", f"{commit}^@").split()
            before = repo.tree(parents[0]) if parents else {}
            if before.get(path, "") != repo.tree(commit).get(path, "") == content:
                return Owner(path=path, track=None, where=commit)
        return None


@sized(3, 12, 30)
def test_the_walk_over_everything_agrees(count: int) -> None:
    model(count)(given(before=STEPS, after=STEPS, halves=st.booleans())(agrees))()


def agrees(before: list[tuple[str, ...]], after: list[tuple[str, ...]], halves: bool) -> None:
    start, ticks = datetime(2026, 1, 1, tzinfo=UTC), iter(range(1 << 30))

    def clock() -> datetime:  # several checkpoints within a second, and some at the same moment
        return start + timedelta(milliseconds=200 * (next(ticks) // (2 if halves else 1)))

    with tempfile.TemporaryDirectory() as folder:
        repo = Sandbox.init(Path(folder) / "repo")
        repo.commit("first", a="1", b="1")
        scene = Scene(repo, "binary", clock)
        here = scene.baton.repo.worktree_id()

        def snap(track: str, how: str) -> None:
            if how == "linked":  # the same files, recorded as those of another work tree
                plan = scene.baton.repo
                known, plan.worktree_id = plan.worktree_id, lambda: elsewhere  # type: ignore[method-assign]
                scene.snap(track)
                plan.worktree_id = known  # type: ignore[method-assign]
            else:
                scene.snap(track, files=how != "no files")

        elsewhere = type(here)(path="/elsewhere", created=here.created - timedelta(days=1))
        with scene.baton:
            play(scene, before, snap)
            then = scene.snap("mine")
            play(scene, after, snap)
            check_agreement(scene, then)


def play(scene: Scene, steps: list[tuple[str, ...]], snap: object) -> None:
    for kind, what, how in steps:
        if kind == "edit":
            edit(scene.repo, what, how)
        elif kind == "snap":
            snap(what, how)  # type: ignore[operator]
        else:
            scene.repo.commit("since")


def check_agreement(scene: Scene, then: Stored) -> None:
    held = scene.repo.tree(then.commit)
    now = {p: scene.now(p) for p in PATHS}
    contents = {p: f"{n.mode} {n.oid}" if n.oid else "" for p, n in now.items()}
    present = [now[p] for p in PATHS if contents[p] != held.get(p, "")]
    walked = Walked(scene)
    expected = {p.path: walked.expected(then, p.path, contents[p.path]) for p in present}
    baton = scene.baton
    found = others(baton.store, then, scene.repo.head(), baton.repo.worktree_id(), present)
    assert found == {path: owner for path, owner in expected.items() if owner is not None}
