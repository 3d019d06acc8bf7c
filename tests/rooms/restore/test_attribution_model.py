"""Whose work a path is, on random histories: a walk over every checkpoint and every tree is the judge."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gitbaton.base.errors import BatonError
from gitbaton.base.model import Op, Stored
from gitbaton.checkpoints.restore import Order, carry_out
from gitbaton.checkpoints.restore.attribution import Owner, others
from tests.kit import Sandbox
from tests.kit.tiers import model, sized
from tests.rooms.restore.test_attribution import Scene

PATHS = ("a", "b", "d/c")
TRACKS = ("mine", "other", "third")
EDIT = st.tuples(st.just("edit"), st.sampled_from(PATHS), st.sampled_from(["", "1", "2", "3"]))
SNAP = st.tuples(st.just("snap"), st.sampled_from(TRACKS), st.sampled_from(["here", "here", "linked", "no files"]))
COMMIT = st.tuples(st.just("commit"), st.just(""), st.just(""))
PULL = st.tuples(st.sampled_from(["merge", "rebase"]), st.sampled_from(PATHS), st.sampled_from(["1", "2", "3"]))
RESTORE = st.tuples(st.just("restore"), st.sampled_from(TRACKS), st.sampled_from(["--force", "", "undo"]))
STEPS = st.lists(st.one_of(EDIT, EDIT, EDIT, SNAP, SNAP, SNAP, COMMIT, PULL, RESTORE), min_size=4, max_size=16)


def edit(repo: Sandbox, path: str, text: str) -> None:
    if text:
        repo.write(path, text)
    else:
        (repo.path / path).unlink(missing_ok=True)


class Walked:
    """All that the model knows: every checkpoint that counts, the trees of what it names, and what each restore wrote."""

    def __init__(self, scene: Scene, then: Stored) -> None:
        self.scene, self.then, self.track = scene, then, then.checkpoint.track
        self.born = scene.baton.repo.worktree_id().created
        history = scene.baton.history(everything=True).items
        self.items = [(s, scene.repo.tree(s.commit)) for s in history if s.checkpoint.files]
        moves = scene.repo.git("log", "-g", "--format=%H %gs", "HEAD").splitlines()
        self.made = {move.split(" ")[0] for move in moves if move.split(" ")[1] == "commit:"}
        self.states = []
        for s in scene.baton.store.chain("refs/baton/safety/main-worktree", None).items if scene.restored else ():
            before, after = scene.repo.tree(s.commit), scene.repo.tree(f"{s.commit}^2^{parents(scene, s)}:after")
            self.states.append((s, before, {p: after.get(p, "") for p in PATHS if before.get(p, "") != after.get(p, "")}))

    def here(self, s: Stored) -> bool:
        files = s.checkpoint.files
        return files is not None and files.worktree.created == self.born

    def rank(self, s: Stored) -> tuple[object, ...]:
        return s.checkpoint.created, s.checkpoint.track != self.track, s.id

    def expected(self, path: str, content: str) -> Owner | None:
        repo, c = self.scene.repo, self.then.checkpoint
        late = content in ("", repo.tree(c.head).get(path, "") if c.head else "")
        known = [(s, tree) for s, tree in self.items if self.here(s) or s.checkpoint.track == self.track]
        held = [s for s, tree in known if tree.get(path, "") == content]
        held += [s for s, before, written in self.states if path in written and before.get(path, "") == content]
        held = [s for s in held if not late or s.checkpoint.created > c.created]
        first, commit = min(held, key=self.rank, default=None), self.commit(path, content)
        if first is None:
            first = None if commit else self.changer(path, late=late)
        elif first.checkpoint.track == self.track:
            head = repo.tree(first.checkpoint.head).get(path, "") if first.checkpoint.head else ""
            return commit if head == content else None
        if first is None:
            return commit
        return Owner(path=path, track=first.checkpoint.track, where=first.id) if first.checkpoint.track != self.track else None

    def commit(self, path: str, content: str) -> Owner | None:
        """The newest commit on HEAD's first-parent line since then that brought a content, unless it was made here."""
        repo, head = self.scene.repo, self.then.checkpoint.head
        for commit in repo.git("rev-list", "--first-parent", "HEAD", f"^{head}" if head else "HEAD").split():
            above = repo.git("rev-parse", f"{commit}^@").split()
            before = repo.tree(above[0]) if above else {}
            if before.get(path, "") != repo.tree(commit).get(path, "") == content:
                return None if commit in self.made else Owner(path=path, track=None, where=commit)
        return None

    def changer(self, path: str, *, late: bool) -> Stored | None:
        """Who changed a path last, told from beginning to end."""
        events = [(self.rank(s), s, tree.get(path, ""), False) for s, tree in self.items if self.here(s)]
        events += [(self.rank(s), s, written[path], True) for s, _, written in self.states if path in written]
        last: Stored | None = None
        content: str | None = None
        for _, s, now, wrote in sorted(events, key=lambda event: event[0]):
            if content is None and not wrote:
                head = self.scene.repo.tree(s.checkpoint.head).get(path, "") if s.checkpoint.head else ""
                last = s if head != now else None
            elif wrote or now != content:
                last = s
            content = now
        return None if last and late and last.checkpoint.created <= self.then.checkpoint.created else last


def parents(scene: Scene, s: Stored) -> int:
    """Which parent of a state's index commit holds what the restore wrote: its last."""
    return len(scene.repo.git("rev-parse", f"{s.commit}^2^@").split())


@sized(0, 3, 30)
def test_the_walk_over_everything_agrees(count: int) -> None:
    @model(count)
    @given(before=STEPS, after=STEPS, halves=st.booleans())
    def run(before: list[tuple[str, ...]], after: list[tuple[str, ...]], halves: bool) -> None:
        found, expected = both_ways(before, after, halves)
        assert found == expected

    run()


ALONE = st.one_of(EDIT, EDIT, SNAP.filter(lambda step: step[1] == "mine"), COMMIT, PULL, RESTORE)
ALONE_STEPS = st.lists(ALONE, min_size=4, max_size=16)


@sized(0, 3, 150)
def test_of_a_track_that_is_alone_the_same_is_said(count: int) -> None:
    @model(count)
    @given(before=ALONE_STEPS, after=ALONE_STEPS)
    def run(before: list[tuple[str, ...]], after: list[tuple[str, ...]]) -> None:
        found, expected = both_ways(before, after, False)
        assert found == expected

    run()


def both_ways(before: list[tuple[str, ...]], after: list[tuple[str, ...]], halves: bool) -> tuple[object, object]:
    """What is said of each path after such a history, and what the walk over every checkpoint says."""
    start, ticks = datetime(2026, 1, 1, tzinfo=UTC), iter(range(1 << 30))

    def clock() -> datetime:  # several checkpoints within a second, and some at the same moment
        return start + timedelta(milliseconds=200 * (next(ticks) // (2 if halves else 1)))

    with tempfile.TemporaryDirectory() as folder:
        repo = Sandbox.init(Path(folder) / "repo")
        repo.commit("first", a="1", b="1")
        scene = Scene(repo, "binary", clock)
        linked = Sandbox(Path(folder) / "linked")
        repo.git("worktree", "add", "-q", "--detach", str(linked.path))

        def snap(track: str, how: str) -> None:
            if how == "linked":  # the same files, recorded as those of another work tree
                linked.git("reset", "-q", "--soft", repo.head())
                for path in PATHS:
                    edit(linked, path, (repo.path / path).read_text() if (repo.path / path).exists() else "")
                with linked.open(door="binary", clock=clock) as there:
                    there.snapshot("step", track=track)
            else:
                scene.snap(track, files=how != "no files")

        with scene.baton:
            play(scene, before, snap)
            then = scene.snap("mine")
            play(scene, after, snap)
            return verdicts(scene, then)


def play(scene: Scene, steps: list[tuple[str, ...]], snap: object) -> None:
    for kind, what, how in steps:
        if kind == "edit":
            edit(scene.repo, what, how)
        elif kind == "snap":
            snap(what, how)  # type: ignore[operator]
        elif kind == "restore":
            scene.restored |= bring_back(scene, what, how)
        elif kind == "commit":
            scene.repo.commit("since")
        else:
            pull(scene.repo, kind, what, how)


def pull(repo: Sandbox, how: str, path: str, text: str) -> None:
    """A colleague's commit, brought in over what is committed here; what is not stays on top where it can."""
    repo.git("stash", "-q", "-u") if repo.git("status", "--porcelain") else None
    stashed = repo.try_git("rev-parse", "-q", "--verify", "refs/stash").code == 0
    start = repo.git("rev-list", "--first-parent", "HEAD").split()[:2][-1]
    repo.git("checkout", "-q", "-B", "colleague", start)
    repo.pulled("colleague's", **{path: text}) if "/" not in path else repo.pulled("colleague's, nothing")
    repo.git("checkout", "-q", "main")
    words = ("merge", "-q", "--no-ff", "-m", "merge", "-X", "theirs") if how == "merge" else ("rebase", "-q", "-X", "theirs")
    if repo.try_git(*words, "colleague").code:
        repo.git(how, "--abort")
    if stashed and repo.try_git("stash", "pop", "-q").code:
        repo.git("checkout", "-q", "-f", "HEAD", "--", ".")
        repo.git("stash", "drop", "-q")


def bring_back(scene: Scene, track: str, how: str) -> bool:
    """A restore of a track's newest checkpoint but one, or an undo; whether any has been carried out."""
    op: Op = "undo" if how == "undo" else "restore"
    try:
        done, _ = carry_out(scene.baton, op, Order(checkpoint=f"{track}~1", force=how == "--force"))
    except BatonError:
        return False
    return done.safety is not None


def verdicts(scene: Scene, then: Stored) -> tuple[object, object]:
    held = scene.repo.tree(then.commit)
    now = {p: scene.now(p) for p in PATHS}
    contents = {p: f"{n.mode} {n.oid}" if n else "" for p, n in now.items()}
    present = {p: now[p] for p in PATHS if contents[p] != held.get(p, "")}
    walked = Walked(scene, then)
    expected = {p: walked.expected(p, contents[p]) for p in present}
    baton = scene.baton
    found = others(baton.store, then, scene.repo.head(), baton.repo.worktree_id(), present)
    return found, {path: owner for path, owner in expected.items() if owner is not None}
