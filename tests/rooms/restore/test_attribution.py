"""Whose work a path's content is: the cases of the contract, each in a real repository."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.base.model import Stored, WorktreeId
from gitbaton.base.values import replace
from gitbaton.checkpoints.restore.attribution import Owner, others
from gitbaton.checkpoints.store import chain_ref
from gitbaton.git.objects import RefChange, commit_data, new_object, parse_commit
from gitbaton.git.repo import Door
from gitbaton.git.worktree.checkout import GitEntry
from tests.kit import Sandbox, integer_clock
from tests.kit.tiers import deep, some

HOSTILE = ("-dash", ":(top)x", "a\nb", "*.c", "[a]?", "d/-e/:f", "\udcff\udcfe", "sp ace", "ü\u202e")


class Scene:
    """A repository, its Python API with a clock of its own, and what a test asks of ``others``."""

    def __init__(self, sandbox: Sandbox, door: Door | None = None, clock: object = None) -> None:
        self.repo = sandbox
        self.clock = clock or integer_clock()
        self.restored = False
        self.baton: Baton = sandbox.open(door=door, clock=self.clock)

    def snap(self, track: str, **words: object) -> Stored:
        return self.baton.snapshot("step", track=track, **words).stored

    def now(self, path: str) -> GitEntry | None:
        """A path as it is in the work tree."""
        full = os.fsencode(self.repo.path / path)
        if not os.path.lexists(full) or (os.path.isdir(full) and not os.path.islink(full)):
            return None
        data = os.readlink(full) if os.path.islink(full) else Path(os.fsdecode(full)).read_bytes()
        mode = "120000" if os.path.islink(full) else "100755" if os.access(full, os.X_OK) else "100644"
        return GitEntry(mode=mode, oid=new_object(self.baton.repo.layout.algorithm, "blob", data).oid)

    def others(self, then: Stored, *paths: str, worktree: WorktreeId | None = None) -> dict[str, Owner]:
        head = self.baton.repo.objects.head().oid
        place = worktree or self.baton.repo.worktree_id()
        return others(self.baton.store, then, head, place, {path: self.now(path) for path in paths})


def theirs(path: str, stored: Stored) -> dict[str, Owner]:
    return {path: Owner(path=path, track=stored.checkpoint.track, where=stored.id)}


def brought(path: str, commit: str) -> dict[str, Owner]:
    return {path: Owner(path=path, track=None, where=commit)}


@pytest.fixture(params=["binary", deep("libgit2"), deep("sha256")])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    kind = request.param
    repo = Sandbox.init(tmp_path / "owned", *(["--object-format=sha256"] if kind == "sha256" else []))
    repo.commit("first", a_txt="one\n", b_txt="b\n")
    made = Scene(repo, "libgit2" if kind == "libgit2" else "binary")
    with made.baton:
        yield made


@pytest.mark.deep
def test_t05_another_sessions_edits(scene: Scene) -> None:
    scene.repo.write("a.txt", "b's draft\n")
    then = scene.snap("b")
    scene.repo.write("a.txt", "a's edit\n")
    scene.repo.write("sub/new.txt", "a's file\n")
    held = scene.snap("a")
    scene.repo.write("b.txt", "edited since, in no checkpoint\n")
    scene.snap("c", files=False)
    assert scene.others(then, "a.txt", "b.txt", "sub/new.txt") == theirs("a.txt", held) | theirs("sub/new.txt", held)
    assert scene.others(held, "a.txt", "b.txt") == {}


@pytest.mark.deep
def test_who_had_it_first_has_it(scene: Scene) -> None:
    scene.repo.write("a.txt", "draft\n")
    scene.repo.write("b.txt", "theirs\n")
    scene.repo.write("c.txt", "mine\n")
    scene.snap("mine")
    scene.repo.write("a.txt", "then\n")
    scene.repo.write("c.txt", "then\n")
    then = scene.snap("mine")
    scene.repo.write("a.txt", "draft\n")
    scene.repo.write("c.txt", "new\n")
    first = scene.snap("other")
    scene.snap("third")
    scene.snap("mine")
    assert scene.others(then, "a.txt", "c.txt") == theirs("c.txt", first)


@pytest.mark.deep
def test_content_of_an_older_checkpoint_of_another_track_is_theirs_unless_it_is_the_commits(scene: Scene) -> None:
    clean = scene.snap("other")
    scene.repo.write("a.txt", "their draft\n")
    draft = scene.snap("other")
    scene.repo.write("a.txt", "mine\n")
    scene.repo.write("b.txt", "mine\n")
    then = scene.snap("mine")
    scene.repo.git("checkout", "-q", "--", "b.txt")
    scene.repo.write("a.txt", "their draft\n")
    assert scene.others(then, "a.txt", "b.txt") == theirs("a.txt", draft)
    assert (there := scene.now("b.txt")) is not None and scene.repo.tree(clean.commit)["b.txt"].endswith(there.oid)
    after = scene.snap("other")
    assert scene.others(then, "a.txt", "b.txt") == theirs("a.txt", draft) | theirs("b.txt", after)


@pytest.mark.deep
def test_a_commit_since_then_brought_it_on_the_first_parent_line(scene: Scene) -> None:
    repo = scene.repo
    repo.write("a.txt", "before\n")
    repo.commit("before then")
    repo.write("a.txt", "dirty\n")
    repo.write("b.txt", "dirty\n")
    then = scene.snap("t")
    repo.git("checkout", "-q", "--", ".")
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("side", b_txt="side\n")
    repo.commit("side, overwritten", s_txt="lost in the merge\n")
    repo.commit("side again", s_txt="side\n")
    repo.git("checkout", "-q", "main")
    main = repo.pulled("main", m_txt="main\n")
    repo.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    merge = repo.head()
    repo.write("u.txt", "uncommitted\n")
    expected = brought("b.txt", merge) | brought("s.txt", merge) | brought("m.txt", main)
    assert scene.others(then, "a.txt", "b.txt", "m.txt", "s.txt", "u.txt") == expected
    repo.write("s.txt", "lost in the merge\n")
    assert scene.others(then, "s.txt") == {}
    repo.commit("away", m_txt="away\n")
    newest = repo.pulled("back", m_txt="main\n")
    assert scene.others(then, "m.txt") == brought("m.txt", newest)


@pytest.mark.full
@some(
    "how", ["commit", "amend", "merged forward", "before", "cherry-pick", "revert", "rebase", "no reflog", "linked", "joined"]
)
def test_what_was_committed_here_is_as_if_it_were_not(scene: Scene, how: str) -> None:
    repo = scene.repo
    side = Sandbox(repo.path.parent / "side") if how == "linked" else repo
    if how in ("before", "cherry-pick", "rebase", "linked", "merged forward"):
        repo.git("branch", "side") if how == "linked" else repo.git("checkout", "-q", "-b", "side")
    if how in ("before", "cherry-pick"):
        repo.commit("side", b_txt="new\n")
        repo.git("checkout", "-q", "main")
    if how == "no reflog":
        repo.git("config", "core.logAllRefUpdates", "false")
        shutil.rmtree(repo.path / ".git/logs")
    if how == "joined":
        repo.git("branch", "-q", "base")
        repo.commit("one side", b_txt="old\n")
    then = scene.snap("mine")
    if how == "joined":
        repo.git("checkout", "-q", "-b", "side", "base")
    if how == "linked":
        repo.git("worktree", "add", "-q", str(side.path), "side")
    if how not in ("before", "cherry-pick"):
        side.commit("since", b_txt="new\n")
    words: dict[str, list[tuple[str, ...]]] = {
        "amend": [("commit", "-q", "--amend", "-m", "otherwise")],
        "merged forward": [("checkout", "-q", "main"), ("merge", "-q", "--ff-only", "side")],
        "before": [("merge", "-q", "--ff-only", "side")],
        "cherry-pick": [("cherry-pick", "-x", "side")],
        "revert": [("revert", "--no-edit", "HEAD"), ("revert", "--no-edit", "HEAD")],
        "rebase": [("checkout", "-q", "main"), ("commit", "-q", "--allow-empty", "-m", "m"), ("rebase", "-q", "main", "side")],
        "linked": [("merge", "-q", "--ff-only", "side")],
        "joined": [("checkout", "-q", "main")],
    }
    for each in words.get(how, []):
        repo.git(*each)
    if how == "joined":
        assert repo.try_git("merge", "side").code
        repo.commit("a merge that was concluded by hand", b_txt="new\n")
    ours = how in ("commit", "amend", "merged forward")  # "before": it was made on another branch than the checkpoint
    assert scene.others(then, "b.txt") == ({} if ours else brought("b.txt", repo.head()))
    scene.snap("mine")
    assert scene.others(then, "b.txt") == ({} if ours else brought("b.txt", repo.head())), "it merely holds what is there"
    repo.write("b.txt", "edited\n")
    assert scene.others(then, "b.txt") == {}
    theirs_too = scene.snap("other")
    assert scene.others(then, "b.txt") == theirs("b.txt", theirs_too)
    more = repo.commit("more", b_txt="more\n")
    changed_last = theirs("b.txt", theirs_too)
    elsewhere = how in ("no reflog", "merged forward")
    assert scene.others(then, "b.txt") == (brought("b.txt", more) if elsewhere else changed_last)


@pytest.mark.full
def test_deleted_by_another_by_a_commit_by_nobody(scene: Scene) -> None:
    repo = scene.repo
    repo.write("u.txt", "untracked\n")
    repo.write("n.txt", "nobody's\n")
    scene.snap("before")  # a checkpoint without x.txt
    repo.write("x.txt", "mine\n")
    then = scene.snap("mine")
    (repo.path / "x.txt").unlink()
    (repo.path / "n.txt").unlink()
    (repo.path / "a.txt").unlink()
    repo.git("add", "-u", "a.txt")
    repo.git("commit", "-q", "-m", "delete")
    assert scene.others(then, "a.txt") == {}
    repo.git("reflog", "delete", "HEAD@{0}")
    assert scene.others(then, "x.txt", "n.txt", "a.txt") == brought("a.txt", repo.head())
    repo.write("n.txt", "nobody's\n")
    (repo.path / "u.txt").unlink()
    held = scene.snap("other")
    (repo.path / "n.txt").unlink()
    expected = theirs("x.txt", held) | theirs("u.txt", held) | theirs("a.txt", held)
    assert scene.others(then, "x.txt", "u.txt", "n.txt", "a.txt") == expected
    repo.write("u.txt", "untracked\n")
    ours = scene.snap("mine")
    (repo.path / "u.txt").unlink()
    assert scene.others(ours, "u.txt", "x.txt") == {}


def test_a_path_that_a_checkpoint_had_to_skip_was_not_deleted(scene: Scene) -> None:
    repo = scene.repo
    repo.write("f.txt", "small\n")
    repo.write("nested/x.txt", "x\n")
    then = scene.snap("mine")
    repo.write("f.txt", "too large " * 200)
    shutil.rmtree(repo.path / "nested")
    Sandbox.init(repo.path / "nested").write("x.txt", "x\n")
    repo.git("config", "baton.maxFileSize", "1k")
    with scene.repo.open(clock=scene.clock) as baton:
        held = baton.snapshot("step", track="other").stored
    assert held.checkpoint.files and {s.path for s in held.checkpoint.files.skipped} == {"f.txt", "nested"}
    (repo.path / "f.txt").unlink()
    shutil.rmtree(repo.path / "nested")
    assert scene.others(then, "f.txt", "nested/x.txt") == {}


@pytest.mark.deep
def test_modes_links_and_directories(scene: Scene) -> None:
    repo = scene.repo
    repo.write("d/x", "x\n")
    (repo.path / "l").symlink_to("a.txt")
    then = scene.snap("mine")
    (repo.path / "a.txt").chmod(0o755)
    (repo.path / "l").unlink()
    (repo.path / "l").symlink_to("b.txt")
    shutil.rmtree(repo.path / "d")
    repo.write("d", "a file\n")
    (repo.path / "b.txt").unlink()
    repo.write("b.txt/in", "a folder\n")
    held = scene.snap("other")
    expected: dict[str, Owner] = {}
    for path in ("a.txt", "l", "d", "d/x", "b.txt", "b.txt/in"):
        expected |= theirs(path, held)
    assert scene.others(then, *expected) == expected
    (repo.path / "a.txt").chmod(0o644)
    (repo.path / "l").unlink()
    repo.write("l", "b.txt")  # the same bytes, and no link
    scene.snap("mine")
    assert scene.others(then, "a.txt", "l") == {}


@pytest.mark.deep
def test_another_work_trees_checkpoints_do_not_count_also_where_a_chain_mixes_them(scene: Scene) -> None:
    repo = scene.repo
    then = scene.snap("mine")
    repo.git("worktree", "add", "-q", "../linked", "-b", "linked")
    linked = Scene(Sandbox(repo.path.parent / "linked"), "binary", scene.clock)
    mark = Path(linked.baton.repo.own_dir) / "worktree"
    linked.baton.repo.worktree_id()
    os.utime(mark, (1700000000, 1700000000))
    with linked.baton:
        for place in (linked.repo, repo):
            place.write("a.txt", "the same\n")
        linked.snap("other")
        for _ in range(3):
            linked.snap("other", note="again")
        assert scene.others(then, "a.txt") == {}
        assert linked.others(then, "a.txt") != {}
        repo.write("b.txt", "b2\n")
        held = scene.snap("other")
        linked.repo.write("b.txt", "b2\n")
        linked.repo.write("a.txt", "moved on\n")
        linked.snap("other")
        assert scene.others(then, "a.txt", "b.txt") == theirs("a.txt", held) | theirs("b.txt", held)
        assert scene.others(then, "a.txt", worktree=WorktreeId(path="/x", created=held.checkpoint.created)) == {}


@pytest.mark.deep
def test_unborn_head(tmp_path: Path) -> None:
    scene = Scene(Sandbox.init(tmp_path / "unborn"))
    with scene.baton:
        scene.repo.write("a.txt", "draft\n")
        then = scene.snap("t")
        scene.repo.write("c.txt", "c\n")
        held = scene.snap("u")
        assert scene.others(then, "c.txt") == theirs("c.txt", held)
        scene.repo.write("n.txt", "n\n")
        assert scene.others(then, "n.txt") == {}
        first = scene.repo.pulled("root", a_txt="committed\n")
        scene.repo.commit("second", b_txt="b\n")
        expected = brought("a.txt", first) | brought("n.txt", first) | theirs("c.txt", held)
        assert scene.others(then, "a.txt", "n.txt", "c.txt") == expected


@pytest.mark.full
@some("gone", ["0" * 39 + "1", "--output=x", "a" * 64], 2)
def test_a_missing_head_says_nothing_of_commits(scene: Scene, gone: str) -> None:
    then = scene.snap("t")
    scene.repo.pulled("since", a_txt="two\n")
    scene.repo.write("b.txt", "theirs\n")
    held = scene.snap("u")
    assert scene.others(then, "a.txt", "b.txt") == theirs("a.txt", held) | theirs("b.txt", held)
    lost = replace(then, checkpoint=replace(then.checkpoint, head=gone))
    scene.repo.git("update-ref", "-d", chain_ref("u"))
    assert scene.others(then, "a.txt", "b.txt") == brought("a.txt", scene.repo.head())
    assert scene.others(lost, "a.txt", "b.txt") == {}


def test_hostile_names(scene: Scene) -> None:
    then = scene.snap("t -t *")
    for name in HOSTILE:
        scene.repo.write(name, f"{name!r}\n")
    held = scene.snap(":x/ü --all")
    assert scene.others(then, *HOSTILE) == {k: v for name in HOSTILE for k, v in theirs(name, held).items()}
    for name in HOSTILE:
        (scene.repo.path / name).unlink()
        scene.repo.write(name + "x", "matches only as a pattern\n")
    assert scene.others(held, *HOSTILE) == {}


@pytest.mark.full
def test_many_paths_are_not_words_of_a_command(scene: Scene) -> None:
    then = scene.snap("mine")
    names = [f"{'d' * 200}/{n}" for n in range(700)]
    for name in names:
        scene.repo.write(name, name)
    held = scene.snap("other")
    scene.repo.write("unsaved", "mine\n")
    assert scene.others(then, *names, "unsaved") == {k: v for name in names for k, v in theirs(name, held).items()}


def _rechain(scene: Scene, track: str, commit: str, message: bytes | None = None, tree: str = "") -> str:
    """Put a commit on top of a chain, made of another one of it."""
    found = scene.baton.store.objects.read(commit)
    old = parse_commit(found.data) if found and found.data else None
    tip = scene.repo.git("rev-parse", chain_ref(track))
    assert old is not None
    data = commit_data(
        tree=tree or old.tree, parents=(tip, *old.parents[1:]), author=old.author, message=message or old.message
    )
    item = new_object(scene.baton.store.objects.algorithm, "commit", data)
    scene.baton.store.objects.write([item])
    scene.baton.store.objects.update([RefChange(name=chain_ref(track), new=item.oid, old=tip)])
    return item.oid


@pytest.mark.deep
def test_broken_records_are_passed_over(scene: Scene) -> None:
    then = scene.snap("mine")
    start = scene.snap("other")
    scene.repo.write("a.txt", "theirs\n")
    held = scene.snap("elsewhere")
    tree = held.tree
    scene.repo.git("update-ref", "-d", chain_ref("elsewhere"))
    _rechain(scene, "other", start.commit, b"no record\n", tree)
    _rechain(scene, "other", start.commit, None, tree)  # not the tree that it names
    scene.repo.git("update-ref", "refs/baton/tracks/blob", scene.repo.git("hash-object", "-w", "a.txt"))
    scene.repo.git("update-ref", "refs/baton/safety/main-worktree", start.commit)
    assert scene.others(then, "a.txt") == {}
    _rechain(scene, "other", held.commit)  # the name of the ref wins over the track in the record
    assert scene.others(then, "a.txt") == {"a.txt": Owner(path="a.txt", track="other", where=held.id)}


def _lose(scene: Scene, oid: str) -> None:
    path = scene.repo.loose(oid)
    path.chmod(0o644)
    path.unlink()


@pytest.mark.deep
@some("what", ["commit", "tree", "subtree"])
def test_a_chain_with_lost_objects_says_what_it_can(scene: Scene, what: str) -> None:
    then = scene.snap("mine")
    scene.repo.write("b.txt", "early\n")
    scene.repo.write("d/x", "lost\n")
    scene.snap("other")
    scene.repo.write("d/x", "early\n")
    lost = scene.snap("other")
    scene.repo.write("d/x", "late\n")
    held = scene.snap("other")
    subtree = scene.repo.git("rev-parse", f"{lost.commit}:d")
    scene.baton.close()
    _lose(scene, {"commit": lost.commit, "tree": lost.tree, "subtree": subtree}[what])
    with scene.repo.open(clock=scene.clock, door=None) as scene.baton:
        assert scene.others(then, "d/x") == theirs("d/x", held)
        scene.repo.write("d/x", "early\n")
        assert scene.others(then, "d/x") == theirs("d/x", held), "who had it is lost, and who changed it last is not"
        assert scene.others(then, "b.txt")["b.txt"].track == "other"
        assert (scene.others(then, "b.txt") == theirs("b.txt", held)) == (what == "commit")


@pytest.mark.full
@some("what", ["commit", "tree", "subtree"])
def test_of_a_track_that_is_alone_what_is_lost_is_nobodys(scene: Scene, what: str) -> None:
    then = scene.snap("mine")
    scene.repo.write("d/x", "x\n")
    lost = scene.snap("mine")
    scene.repo.write("d/x", "y\n")
    scene.snap("mine")
    scene.repo.write("d/y", "y\n")
    scene.snap("mine")
    subtree = scene.repo.git("rev-parse", f"{lost.commit}:d")
    commit = scene.repo.pulled("all of it", b_txt="unseen\n")
    scene.baton.close()
    with scene.repo.open(clock=scene.clock, door=None) as scene.baton:
        assert scene.others(then, "d/x", "d/y", "b.txt") == brought("b.txt", commit)
    _lose(scene, {"commit": lost.commit, "tree": lost.tree, "subtree": subtree}[what])
    with scene.repo.open(clock=scene.clock, door=None) as scene.baton:
        assert scene.others(then, "d/x", "d/y", "b.txt") == brought("b.txt", commit)


@pytest.mark.deep
@pytest.mark.deep
def test_of_a_track_that_is_alone_what_is_far_back_is_found(scene: Scene) -> None:
    """Beyond the newest 200, which are looked at first."""
    then = scene.snap("mine")
    scene.repo.write("d/x", "x\n")
    scene.snap("mine")
    for number in range(200):
        scene.baton.snapshot(str(number), track="mine", files=False)
    commit = scene.repo.pulled("theirs", b_txt="unseen\n")
    assert scene.others(then, "d/x", "b.txt") == brought("b.txt", commit)


def test_a_tie_is_ours(scene: Scene) -> None:
    then = scene.snap("mine")
    scene.repo.write("a.txt", "both\n")
    moment = scene.clock()  # type: ignore[operator]
    with scene.repo.open(clock=lambda: moment) as baton:
        held = baton.snapshot("step", track="other").stored
        assert scene.others(then, "a.txt") == theirs("a.txt", held)
        (scene.repo.path / "b.txt").unlink()
        baton.snapshot("step", track="third")
        scene.repo.write("b.txt", "b\n")
        mine = baton.snapshot("step", track="mine").stored
        (scene.repo.path / "b.txt").unlink()
    assert scene.others(then, "a.txt") == {}
    assert scene.others(mine, "b.txt") == {}  # taken at the same moment is not after


@pytest.mark.deep
def test_users_settings_do_not_matter(scene: Scene) -> None:
    then = scene.snap("mine")
    scene.repo.write("ä.txt", "moved\n")
    held = scene.snap("other")
    commit = scene.repo.pulled("since", b_txt="since\n")
    own = scene.repo.commit("own", c_txt="own\n")
    pairs = ("diff.renames copies", "core.quotePath true", "core.abbrev 7", "log.showSignature true", "diff.external false")
    for pair in (*pairs, "diff.noprefix true", "log.date iso", "i18n.logOutputEncoding UTF-16", "format.pretty email"):
        scene.repo.git("config", *pair.split())
    assert scene.others(then, "ä.txt", "b.txt", "c.txt") == brought("b.txt", commit) | theirs("ä.txt", held), own


WRAPPER = '#!/bin/sh\necho "$@" >>"$CALLS"\nexec "$REAL" "$@"\n'


@pytest.mark.deep
@pytest.mark.parametrize(("door", "count"), [("libgit2", 0), ("binary", 1)])
def test_one_track_and_an_unmoved_head_cost_nothing(
    repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: Door, count: int
) -> None:
    calls, folder = tmp_path / "calls", tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(WRAPPER)
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("REAL", shutil.which("git") or "")
    monkeypatch.setenv("CALLS", str(calls))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    scene = Scene(repo, door)
    with scene.baton:
        then = scene.snap("t")
        repo.write("a.txt", "edited\n")
        worktree, head, present = scene.baton.repo.worktree_id(), then.checkpoint.head, {"a.txt": scene.now("a.txt")}
        assert "ls-files" in calls.read_text()
        calls.write_text("")
        assert others(scene.baton.store, then, head, worktree, present) == {}
        made = calls.read_text().splitlines()
        assert len(made) == count and all("for-each-ref" in call for call in made)
        assert others(scene.baton.store, then, head, worktree, {}) == {}
        assert len(calls.read_text().splitlines()) == count
        repo.pulled("moved", a_txt="edited\n")
        calls.write_text("")
        assert others(scene.baton.store, then, repo.head(), worktree, present) == brought("a.txt", repo.head())
        assert any("rev-list" in call for call in calls.read_text().splitlines())
