"""A command is cut short: what it acknowledged is there, what it did not is as it was, and everything goes on.

Each command runs once, recorded; then its disk is put back as it may be when it was killed at any moment, or the power went, in
many states of three models (``tests/kit/plugdisk.py``), and each state is judged by git and by our own verbs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kit import Sandbox, killkit
from tests.kit.agents import Client
from tests.kit.cutkit import THEN, WORK, Scene
from tests.kit.killkit import MERGE, RESTORE, REVERT, apart, everything, turned
from tests.kit.plug import Recording, baton, needs_strace
from tests.kit.plugdisk import KILLED, MODELS, Cut, Disk
from tests.kit.plugjudge import (
    LOST,
    TORN,
    WEDGED,
    Judge,
    Problem,
    check,
    clean,
    goes_on,
    holds,
    last,
    now,
    somewhere,
    spoken,
    tip,
    whole,
)
from tests.kit.processes import chain, noted
from tests.kit.state import assert_same, files_of, snap, sound, stale_locks, state_of
from tests.kit.tiers import FULL, full, some

TRACK = "refs/baton/tracks/t"
POWER = tuple(model for model in MODELS if model != KILLED)
FILES = r"^(repo|linked)/(?!\.git/|runtime/)|/baton/restore$|/index(\.lock)?$"  # of the work tree, the index, the record


# Snapshots.


def taken(scene: Scene, old: str, track: str = "t", *, always: bool = True) -> Judge:
    """A checkpoint: there and whole when acknowledged; else the track is what it was, or what it became. The index is never
    touched, and what tells of the track is right after the next command."""
    ref = f"refs/baton/tracks/{track}"
    new, index = tip(scene.box, ref), index_of(scene.box)
    assert new and new != old

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        assert index_of(scene.box) == index
        yield from whole(scene.box)
        yield from clean(scene.box)
        found = tip(scene.box, ref)
        if found not in (old, new):
            yield Problem(TORN, f"the track is at {found or 'nothing'}")
        if acknowledged and always:
            if found != new:
                yield Problem(LOST, "the acknowledged checkpoint is gone")
            yield from holds(scene.box, new, WORK)
        if always and cut.model not in POWER:  # a power cut may take what tells of the track: it is not synced
            all_is_told(scene, track, bool(found))
        yield from goes_on(scene.box, track, reads=bool(tip(scene.box, ref)))
        if track != "t":
            for words in (("log", "t"), ("resume", "t"), ("snapshot", "--track", "t", "--step", "elsewhere")):
                yield from spoken(scene.box, *words)[1]

    return judge


def index_of(box: Sandbox) -> bytes:
    return (box.path / box.git("rev-parse", "--git-path", "index")).read_bytes()


def all_is_told(scene: Scene, track: str, there: bool) -> None:
    """Ref, note, LATEST and the current track are those of the newest checkpoint, once a command has read it; and the next
    snapshot follows it, with nothing to warn of."""
    main, box = scene.main, scene.box
    found = [record["step"] for record in chain(main, track)] if there else []
    with box.open() as baton:  # libgit2 finds what the binary door left
        assert len(baton.status()[0]) == len(main.git("for-each-ref", "refs/baton/tracks").splitlines())
        if there:
            resumed = baton.resume(track)
            assert resumed.stored.checkpoint.step == found[-1] and resumed.warnings == ()
            assert main.git("rev-parse", f"refs/checkpoints/{track}") == resumed.stored.id == noted(box, "HEAD")[0]
            assert resumed.stored.id in (box.path / "runtime/checkpoints/LATEST.json").read_text()
    assert box.try_git("status").code == 0
    with box.open(door="binary") as baton:
        assert baton.snapshot("next", track=track).warnings == ()
    records = chain(main, track)
    assert [record["step"] for record in records] == [*found, "next"] and stale_locks(main) == []
    assert noted(box, "HEAD")[: len(records)] == [record["id"] for record in reversed(records)]
    assert box.git("symbolic-ref", "BATON_HEAD") == f"refs/checkpoints/{track}"
    expect = box.path / box.git("rev-parse", "--git-path", "baton") / "expect"
    assert expect.read_text() == box.head() + "\n"
    assert box.git("show", f"refs/baton/tracks/{track}:a.txt") == "one, edited"


@pytest.mark.parametrize(
    ("track", "new", "linked"),
    [
        ("t", False, False),
        full(pytest.param("t", True, False)),
        full(pytest.param("t", False, True)),
        ("t", True, True),
        ("another", False, False),
    ],
    ids=["second", "first", "second-linked", "first-linked", "another-track"],
)
def test_a_snapshot(tmp_path: Path, track: str, new: bool, linked: bool) -> None:
    scene = Scene(tmp_path, linked=linked, new=new)
    scene.write(WORK)
    old = tip(scene.box, f"refs/baton/tracks/{track}")
    recording = scene.run("snapshot", "--track", track, "--step", "second")
    touched = [path for paths in recording.paths.values() for path in paths if path.endswith("/index") and "/tmp/" not in path]
    assert not [op for op in recording.ops if op.file and set(recording.paths[op.file]) & set(touched)]
    check(recording, taken(scene, old, track), models=(KILLED,) if linked else MODELS)


def test_a_snapshot_by_a_hook(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    client = Client("claude", scene.box.path)
    client.fire("prompt", prompt="now this")
    scene.write(WORK)
    stop, old = client.words["turn"], tip(scene.box, TRACK)
    data = json.dumps(client.payload(stop)).encode()
    recording = baton(scene.top, scene.box.path, "hook", "claude", stop, env=client.env(), stdin=data)
    assert recording.ended.code == 0 and tip(scene.box, TRACK) != old
    check(recording, taken(scene, old, always=False))


# Restores.


def moved(scene: Scene, before: dict[str, bytes], after: dict[str, bytes], back: str = "undo") -> Judge:
    """Files were put back: those before or those after are all there, and what stood before is somewhere."""

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        yield from whole(scene.box)
        yield from clean(scene.box)
        yield from spoken(scene.box, "status")[1]
        yield from somewhere(scene.top, scene.box, before)
        have = {name: path.read_bytes() for name in {**before, **after} if (path := scene.box.path / name).is_file()}
        if acknowledged and have != after:
            yield Problem(LOST, f"what was put back is not there: {differ(have, after)}")
        elif have not in (before, after):
            yield Problem(TORN, f"neither before nor after: {differ(have, before)}, {differ(have, after)}")
        if acknowledged:
            done, problems = spoken(scene.box, back)
            yield from problems
            if not problems and any((scene.box.path / name).read_bytes() != data for name, data in before.items()):
                yield Problem(LOST, f"{back} does not give back what stood before: {done.out[:80]}")
        yield from goes_on(scene.box)

    return judge


def differ(one: dict[str, bytes], other: dict[str, bytes]) -> str:
    """Which files differ, and how."""
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return ", ".join(f"{name} {one.get(name, b'(gone)')[:8]!r}" for name in sorted(names)[:2])


UNSAVED = {"a.txt": b"never saved\n", "b.txt": b"never saved either\n", "d/c.txt": b"nor this\n" * 60, "new/e.txt": b"mine\n"}


def test_a_restore_loses_nothing_when_the_power_goes(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write(UNSAVED)
    recording = scene.run("restore", "t", "--exact")
    check(recording, moved(scene, UNSAVED, THEN), models=POWER)


def test_a_revert_loses_nothing_when_the_power_goes(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write({"new/e.txt": b"new\n"})
    client = Client("claude", scene.box.path)
    client.fire("prompt", prompt="spoil it")
    before = {name: (scene.box.path / name).read_bytes() for name in UNSAVED}
    scene.write(UNSAVED)
    client.fire("turn")
    recording = scene.run("revert")
    check(recording, moved(scene, UNSAVED, before), models=POWER)


def test_an_undo_loses_nothing_when_the_power_goes(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write(UNSAVED)
    scene.box.ok("restore", "t", "--exact")
    scene.write({"b.txt": b"edited since\n"})
    recording = scene.run("undo")
    found = now(scene.box.path)
    after = {name: found[name] for name in UNSAVED}
    edited = {**THEN, "b.txt": b"edited since\n"}
    check(recording, moved(scene, edited, after, "redo"), models=POWER)


class Restoring(killkit.Scene):
    """A restore, an undo or a redo that is recorded."""

    recording: Recording

    def __init__(
        self, folder: Path, prepare: Callable[[Sandbox], object], words: tuple[str, ...], linked: bool = False
    ) -> None:
        needs_strace()
        box = Sandbox.begun(folder / "disk/repo")
        if linked:
            self.main, box = box, Sandbox(folder / "disk/linked")
            self.main.git("worktree", "add", "-q", "-b", "side", str(box.path))
        prepare(box)
        super().__init__(box, words, folder / "disk")

    def carry_out(self) -> None:
        self.recording = baton(self.top, self.repo.path, *self.words)
        assert self.recording.ended.code == 0, self.recording.ended


def done_before(*words: tuple[str, ...]) -> Callable[[Sandbox], None]:
    def prepare(box: Sandbox) -> None:
        everything(box)
        for each in words:
            box.ok(*each)

    return prepare


def without_a_folder_for_a_link(box: Sandbox) -> None:
    everything(box)
    shutil.rmtree(box.path / "link")


def filtered(box: Sandbox) -> None:
    box.git("config", "filter.k.smudge", "cat")
    box.git("config", "filter.k.clean", "cat")
    box.write(".gitattributes", "*.k filter=k\n")
    for number in range(4):
        box.write(f"{number}.k", f"{number}\n")
    box.commit("filtered")
    everything(box)
    for number in range(4):
        box.write(f"{number}.k", f"spoilt {number}\n")


def bytes_that_no_filter_gives_back(box: Sandbox) -> None:
    box.git("config", "core.autocrlf", "true")
    for number in range(3):
        box.write(f"{number}.txt", b"x\r\nthen\n")
    snap(box, "t", "s", "--label", "goal")
    for number in range(3):
        box.write(f"{number}.txt", b"x\nnow\r\n")
    box.write("0.txt", b"x\nthen\r\n")


class Case(NamedTuple):
    prepare: Callable[[Sandbox], object]
    words: tuple[str, ...]
    linked: bool = False


CASES = {
    "restore": Case(everything, RESTORE),
    "revert": Case(turned, REVERT),
    "merge": Case(apart, MERGE),
    "undo": Case(done_before(RESTORE), ("undo",)),
    "redo": Case(done_before(RESTORE, ("undo",)), ("redo",)),
    "linked": Case(everything, RESTORE, linked=True),
    "default": Case(without_a_folder_for_a_link, ("restore", "goal")),
    "paths": Case(without_a_folder_for_a_link, ("restore", "goal", "--exact", "--", "d", "a.txt")),
    "filtered": Case(filtered, RESTORE),
    "bytes": Case(bytes_that_no_filter_gives_back, RESTORE),
}


@some("case", CASES, share={"revert", "merge", "undo", "linked", "filtered"})
def test_a_restore_is_ended_by_whatever_command_comes_next(tmp_path: Path, case: str) -> None:
    """It completes it or takes it back, index and all, and says so; never a half state, never a lock; then undo takes back what
    went through."""
    scene, turns, seen = Restoring(tmp_path, *CASES[case]), count(), set[bool]()
    main = state_of(scene.main).files if CASES[case].linked else {}

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        if main:
            assert scene.main.here("status").code == 0, "the other work tree is not disturbed"
        seen.add(through := scene.check_recovery(next(turns), cut.name))
        assert not main or state_of(scene.main).files == main
        if acknowledged and not through:
            yield Problem(LOST, "what was said to be done is not")

    check(scene.recording, judge, models=(KILLED,), near=FILES)  # git itself does not sync an index
    assert seen == {True, False}, "some leave it undone, others done"


_MADE: list[Restoring] = []


@pytest.fixture
def torn(tmp_path_factory: pytest.TempPathFactory) -> Restoring:
    """One recorded restore for several judges."""
    if not _MADE:
        _MADE.append(Restoring(tmp_path_factory.mktemp("torn"), everything, RESTORE))
    return _MADE[0]


def test_the_next_restore_or_undo_ends_it_first(torn: Restoring) -> None:
    turns = count()

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        words, half = (RESTORE, ("undo",))[next(turns) % 2], torn.torn()
        done, problems = spoken(torn.repo, *words, good=(0, 1))
        yield from problems
        assert done.err or not half
        files = state_of(torn.repo).files
        assert files in (torn.before.files, torn.after.files), done.err
        assert words != RESTORE or files == torn.after.files
        sound(torn.repo)

    check(torn.recording, judge, models=(KILLED,), near=FILES)


def test_what_was_edited_since_is_not_lost(torn: Restoring) -> None:
    edits = {name: f"edited after the kill, {name}\n" for name in ("a.txt", "c.txt", "brand-new.txt")}

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        for name, text in edits.items():
            torn.repo.write(name, text)
        torn.repo.here("status")
        for name, text in edits.items():
            if now(torn.repo.path).get(name) != text.encode() and not held_by_a_ref(torn.repo, text):
                yield Problem(LOST, f"the edit of {name}")
        assert stale_locks(torn.repo) == []

    check(torn.recording, judge, models=(KILLED,), near=FILES)


def held_by_a_ref(box: Sandbox, text: str) -> bool:
    oid = box.git("hash-object", "--stdin", stdin=text.encode())
    return oid in box.git("rev-list", "--objects", "--all")


def test_where_head_has_moved_since_nothing_is_written(torn: Restoring) -> None:
    """A work tree that somebody has put in order is not overwritten by the next command, which may only read."""
    repo, kept = torn.repo, list[int]()

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        (repo.path / ".git/index.lock").unlink(missing_ok=True)  # as git says
        repo.git("reset", "-q", "--hard")
        repo.git("clean", "-qfdx")
        repo.git("switch", "-q", "-C", "elsewhere")
        repo.git("commit", "-q", "--allow-empty", "-m", "went on")
        done, problems = spoken(repo, "log")
        yield from problems
        assert repo.git("status", "--porcelain") == ""
        if "HEAD has moved since" in done.err:
            kept.append(cut.at)
            assert "'git baton restore " in done.err and "'git baton undo' takes back what it changed" in done.err
            yield from spoken(repo, "undo", good=(0, 1))[1]

    check(torn.recording, judge, models=(KILLED,), near=FILES)
    assert len(kept) > 1


def test_its_recovery_is_cut_short_too(torn: Restoring) -> None:
    turns, disk = count(), Disk(torn.recording)
    for first in disk.states(KILLED, 60 if FULL else 6, 1, FILES)[: 40 if FULL else 4]:  # in the midst of writing files
        disk.put(first)
        second = baton(torn.top, torn.repo.path, "status")
        assert second.ended.code == 0, second.ended

        def judge(cut: Cut, acknowledged: bool, first: Cut = first) -> tuple[Problem, ...]:
            (torn.repo.path / ".git/packed-refs.lock").unlink(missing_ok=True)  # git's own, as git says
            torn.check_recovery(next(turns), f"{first.name}; and its recovery: {cut.name}")
            return ()

        check(second, judge, models=(KILLED,), states=40 if FULL else 3, few=True)


def test_a_conflict_is_still_a_conflict(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    repo = scene.box
    snap(repo, "t", "s", "--label", "goal")
    repo.write("b.txt", "A's work\n")
    snap(repo, "A", "s", "--no-set-current")
    repo.write("a.txt", "spoilt\n")
    before = state_of(repo)

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        yield from spoken(repo, "status")[1]
        assert stale_locks(repo) == []
        assert (repo.path / "b.txt").read_text() == "A's work\n"
        if state_of(repo).files != before.files:
            yield from spoken(repo, "undo")[1]
        assert_same(before, state_of(repo), "as before")
        sound(repo)

    check(scene.run("restore", "goal", code=1), judge, models=(KILLED,))


# Exchanges, retention, install.


@some("verb", ["sync", "push"], share=0)
def test_an_exchange(tmp_path: Path, verb: str) -> None:
    scene = Scene(tmp_path)
    far = Sandbox.init(scene.top / "far.git", "--bare")
    scene.box.git("remote", "add", "far", os.fspath(far.path))
    scene.box.git("push", "-q", "far", "main")
    scene.box.ok("push", "far", "--yes")
    if verb == "sync":
        other = Sandbox(scene.top / "other")
        scene.box.git("clone", "-q", os.fspath(far.path), os.fspath(other.path))
        other.ok("fetch", "origin")
        other.write("theirs.txt", "theirs\n")
        snap(other, "t", "theirs")
        other.ok("push", "origin", "--yes")
        shutil.rmtree(other.path)
    scene.write(WORK)
    snap(scene.box, "t", "second")
    before = {tip(far, TRACK), tip(scene.box, TRACK)}
    recording = scene.run(verb, "far", "--yes")
    new = tip(far, TRACK)
    assert new == tip(scene.box, TRACK)

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        for box in (scene.box, far):
            yield from whole(box)
            yield from clean(box)
            found = tip(box, TRACK)
            if acknowledged and found != new:
                yield Problem(LOST, f"{box.path.name}: what was exchanged is not there: {found[:8] or 'nothing'}")
            if found not in {*before, new}:
                yield Problem(TORN, f"{box.path.name}: the track is at {found or 'nothing'}")
        for lock in (*far.path.rglob("*.lock"),):  # git's own: who keeps the remote removes what a cut left there
            lock.unlink()
        done, problems = spoken(scene.box, verb, "far", "--yes")
        yield from problems
        if not problems and tip(far, TRACK) != tip(scene.box, TRACK):
            yield Problem(LOST, f"a {verb} after the cut leaves the two apart: {done.out[:80]}")
        yield from whole(far)
        yield from goes_on(scene.box)

    check(recording, judge)


def steps_of(box: Sandbox) -> list[str]:
    """The words of the checkpoints of a track, oldest first, as git has them."""
    found = box.try_git("log", "--first-parent", "--reverse", "--format=%s", TRACK)
    return found.out.split("\n")[:-1] if found.code == 0 else []


@some("words", [("forget", "t~2", "--yes"), ("prune", "--keep-last", "2")], share=0, ids=["forget", "prune"])
def test_checkpoints_go(tmp_path: Path, words: tuple[str, ...]) -> None:
    scene = Scene(tmp_path)
    for number in range(5):
        scene.box.write("a.txt", f"{number}\n")
        snap(scene.box, "t", f"step {number}")
    before = steps_of(scene.box)
    recording = scene.run(*words)
    kept = steps_of(scene.box)
    assert set(kept) < set(before)

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        yield from whole(scene.box)
        yield from clean(scene.box)
        have = steps_of(scene.box)
        if have not in (before, kept):
            yield Problem(TORN if have else LOST, f"neither what was there nor what was to stay: {have}")
        if acknowledged and words[0] == "forget" and have != kept:
            yield Problem(LOST, "what was forgotten is there again")
        yield from spoken(scene.box, *words[:1], *(words[1:] if words[0] == "prune" else ("t~1", "--yes")))[1]
        yield from goes_on(scene.box)

    check(recording, judge)


def test_an_install(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    mine = b"#!/bin/sh\n# mine\nexit 0\n"
    hooks = scene.box.path / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "post-checkout").write_bytes(mine)
    (hooks / "post-checkout").chmod(0o755)
    config = (scene.box.path / ".git/config").read_bytes()
    recording = scene.run("install")
    after = {name: data for name, data in now(scene.box.path / ".git").items() if name.startswith("hooks/")}
    final = (scene.box.path / ".git/config").read_bytes()
    assert after["hooks/post-checkout"] != mine

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        have = now(scene.box.path / ".git")
        if have.get("config") not in (config, final) and acknowledged:
            yield Problem(LOST, "the configuration is not as it was installed")
        yield from somewhere(scene.top, scene.box, {"post-checkout": mine})
        for name, data in after.items():
            if acknowledged and have.get(name) != data:
                yield Problem(LOST, f"{name} is not as it was installed")
            elif name in have and have[name] not in (data, mine):
                yield Problem(TORN, f"{name} is half")
        for argv in (
            ("commit", "-q", "--allow-empty", "-m", "x"),
            ("checkout", "-q", "-b", "side"),
            ("checkout", "-q", "main"),
        ):
            done = scene.box.try_git(*argv)
            if done.code or "hook" in done.err:
                yield Problem(WEDGED, f"git {argv[0]}: {done.code} {last(done.err)}")
        (scene.box.path / ".git/config.lock").unlink(missing_ok=True)  # git's own: who installs removes it, as git says
        yield from spoken(scene.box, "install")[1]
        if any(now(scene.box.path / ".git").get(name) != data for name, data in after.items()):
            yield Problem(WEDGED, "another install does not mend the hooks")
        yield from goes_on(scene.box)

    check(recording, judge, few=True)  # nearly all is synced at once


IMAGE_MOMENTS = (0.0, 2.5, 7.0, 12.0, 33.0) if FULL else (0.0, 2.5)


class Image:
    """A real file system in a file: ext4 as it is set up by default, but that its journal is brought to disk each second, and
    not each fifth: what that does before the bytes are there, 30 seconds later, is then seen sooner."""

    def __init__(self, tmp_path: Path) -> None:
        self.file, self.top = tmp_path / "image", tmp_path / "disk"
        self.top.mkdir()
        with open(self.file, "wb") as file:
            file.truncate(48 << 20)

    def begin(self) -> None:
        """Make it, and mount it; the test is skipped where that cannot be."""
        if shutil.which("mkfs.ext4") is None or os.geteuid() != 0:
            pytest.skip("a real image needs mkfs.ext4 and root")
        subprocess.run(["mkfs.ext4", "-q", os.fspath(self.file)], check=True, capture_output=True)
        done = self.mount(self.file)
        if done.returncode:
            pytest.skip(f"no loop device can be mounted here: {done.stderr.decode().strip()[:100]}")

    def mount(self, file: Path) -> subprocess.CompletedProcess[bytes]:
        words = ["mount", "-t", "ext4", "-o", "loop,commit=1", os.fspath(file), os.fspath(self.top)]
        return subprocess.run(words, capture_output=True)

    def leave(self) -> None:
        subprocess.run(["umount", os.fspath(self.top)], capture_output=True)


@some("verb", ["restore", "snapshot"], share=0)
def test_on_a_real_image(tmp_path: Path, verb: str) -> None:
    """The image is copied some seconds after the command has said done, and mounted again."""
    image = Image(tmp_path)
    image.begin()
    try:
        scene = Scene(tmp_path)
        scene.write(WORK if verb == "snapshot" else UNSAVED)
        os.sync()
        words = ("--track", "t", "--step", "second") if verb == "snapshot" else ("t", "--exact")
        begun = time.monotonic()
        scene.box.ok(verb, *words)
        copies = []
        for moment in IMAGE_MOMENTS:
            time.sleep(max(0.0, begun + moment - time.monotonic()))
            copies.append(tmp_path / f"copy-{moment}")
            subprocess.run(["cp", "--sparse=always", os.fspath(image.file), os.fspath(copies[-1])], check=True)
        judge = taken(scene, scene.first) if verb == "snapshot" else moved(scene, UNSAVED, THEN)
        problems = []
        for copy in copies:
            image.leave()
            assert image.mount(copy).returncode == 0, "the file system itself does not survive"
            cut = Cut("image", 0, frozenset(), frozenset(), copy.name)
            problems += [f"{copy.name}: {problem.kind}: {problem.text}" for problem in judge(cut, True)]
    finally:
        image.leave()
    assert not problems, "\n".join(problems)


def test_a_recording_is_all_that_was_done(tmp_path: Path) -> None:
    """The whole recording, carried out, is what the command left; nothing of it is missing."""
    scene = Scene(tmp_path)
    scene.write(WORK)
    recording = scene.run("snapshot", "--track", "t", "--step", "second")
    held, state = now(scene.top), files_of(scene.box.path)
    disk = Disk(recording)
    disk.put(Cut("ordered", len(recording.ops), frozenset(), frozenset(), "nothing is missing"))
    assert now(scene.top) == held and files_of(scene.box.path) == state
    assert list(whole(scene.box)) == [] and list(clean(scene.box)) == []
