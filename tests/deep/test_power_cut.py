"""The plug is pulled: what each verb acknowledged is there, what it did not is as it was, and everything goes on.

Each verb runs once, recorded; then its disk is put back as it may be after a cut, in many legal states of two models
(``tests/kit/plugdisk.py``), and each state is judged by git and by our own verbs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.plug import Recording, baton, needs_strace, record
from tests.kit.plugdisk import Cut, Disk
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
from tests.kit.state import files_of, snap
from tests.kit.tiers import FULL

TRACK = "refs/baton/tracks/t"
THEN = {"a.txt": b"one\n", "b.txt": b"two\n", "d/c.txt": b"three\n" * 40}
WORK = {"a.txt": b"one, edited\n", "b.txt": b"two\n", "d/c.txt": b"three, edited\n" * 40, "new/e.txt": b"new\n"}


class Scene:
    """A disk with one repository on it."""

    def __init__(self, tmp_path: Path, name: str) -> None:
        needs_strace()
        self.name, self.top = name, tmp_path / "disk"
        self.top.mkdir(exist_ok=True)
        self.box = Sandbox.begun(self.top / "repo")
        shutil.rmtree(self.box.path / ".git/hooks")
        self.write(THEN)
        self.box.commit("all")
        self.first = snap(self.box, "t", "first")

    def write(self, files: dict[str, bytes]) -> None:
        for name, data in files.items():
            self.box.write(name, data)

    def run(self, *words: str, code: int = 0) -> Recording:
        found = baton(self.top, self.box.path, *words)
        assert found.ended.code == code, found.ended
        return found

    def check(self, recording: Recording, judge: Judge) -> None:
        """Judge many states that the disk may have."""
        check(recording, judge, few=self.name == "install")


def taken(scene: Scene, *, always: bool = True) -> Judge:
    """A checkpoint: there and whole when acknowledged; else the track is what it was, or what it became."""
    new, old = tip(scene.box, TRACK), scene.box.git("rev-parse", f"{TRACK}~1")

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        yield from whole(scene.box)
        yield from clean(scene.box)
        found = tip(scene.box, TRACK)
        if found not in (old, new):
            yield Problem(TORN, f"the track is at {found or 'nothing'}")
        if acknowledged and always:
            if found != new:
                yield Problem(LOST, "the acknowledged checkpoint is gone")
            yield from holds(scene.box, new, WORK)
        yield from goes_on(scene.box)

    return judge


def test_a_snapshot(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "snapshot")
    scene.write(WORK)
    recording = scene.run("snapshot", "--track", "t", "--step", "second")
    scene.check(recording, taken(scene))


def test_the_first_snapshot(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "snapshot of a new track")
    scene.write(WORK)
    recording = scene.run("snapshot", "--track", "new", "--step", "first")
    new = tip(scene.box, "refs/baton/tracks/new")

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        yield from whole(scene.box)
        yield from clean(scene.box)
        if acknowledged:
            if tip(scene.box, "refs/baton/tracks/new") != new:
                yield Problem(LOST, "the acknowledged checkpoint is gone")
            yield from holds(scene.box, new, WORK)
        yield from goes_on(scene.box, "new", reads=acknowledged)
        for words in (("log", "t"), ("resume", "t"), ("status",), ("snapshot", "--track", "t", "--step", "elsewhere")):
            yield from spoken(scene.box, *words)[1]

    scene.check(recording, judge)


def test_a_snapshot_by_a_hook(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "snapshot by a hook at the end of a turn")
    client = Client("claude", scene.box.path)
    client.fire("prompt", prompt="now this")
    scene.write(WORK)
    stop = client.words["turn"]
    data = json.dumps(client.payload(stop)).encode()
    recording = baton(scene.top, scene.box.path, "hook", "claude", stop, env=client.env(), stdin=data)
    assert recording.ended.code == 0 and scene.box.git("rev-list", "--count", "--first-parent", f"{scene.first}..{TRACK}")
    scene.check(recording, taken(scene, always=False))


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


def test_a_restore(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "restore")
    scene.write(UNSAVED)
    recording = scene.run("restore", "t", "--exact")
    scene.check(recording, moved(scene, UNSAVED, THEN))


def test_an_undo(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "undo")
    scene.write(UNSAVED)
    scene.box.ok("restore", "t", "--exact")
    scene.write({"b.txt": b"edited since\n"})
    recording = scene.run("undo")
    found = now(scene.box.path)
    after = {name: found[name] for name in UNSAVED}
    edited = {**THEN, "b.txt": b"edited since\n"}
    scene.check(recording, moved(scene, edited, after, "redo"))


STEP = 'mkdir -p out; cp a.txt out/a; date +%s.%N >out/when; echo ran >>"$LEDGER"'


def check_step(tmp_path: Path, name: str, *words: str) -> None:
    """A step: acknowledged, it never runs again and its outputs are there; else it runs, or asks whether it did."""
    scene = Scene(tmp_path, name)
    os.environ["LEDGER"] = os.fspath(scene.top / "world")
    argv = ("run", "--run", "r", "--step", "build", "--reads", "a.txt", "--writes", "out/**", *words, "--", "sh", "-c", STEP)
    recording = scene.run(*argv)
    outputs = {f"out/{each}": (scene.box.path / f"out/{each}").read_bytes() for each in ("a", "when")}
    once = "once" in words
    world = scene.top / "world"
    ran = next(n for n, op in enumerate(recording.ops) if op.kind == "write" and recording.paths[op.file][-1] == "world")

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        happened = cut.at > ran
        world.write_bytes(b"ran\n" * happened)  # the world outside has no plug
        yield from whole(scene.box)
        yield from clean(scene.box)
        done, problems = spoken(scene.box, *argv, good=(0, 76) if once and not acknowledged else (0,))
        yield from problems
        again = world.read_bytes().count(b"ran") - happened
        if again and (acknowledged or (once and happened)):
            yield Problem(LOST, f"it was {'acknowledged' if acknowledged else 'done'}, and ran again (exit {done.code})")
        have = now(scene.box.path)
        if acknowledged and not problems and any(have.get(path) != data for path, data in outputs.items()):
            yield Problem(LOST, "its outputs are not there")
        if done.code == 0 and have.get("out/a") != b"one\n":
            yield Problem(LOST, "exit 0, and its output is not there")
        yield from spoken(scene.box, "steps", "r")[1]
        yield from goes_on(scene.box)

    scene.check(recording, judge)


def test_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER", "")
    check_step(tmp_path, "run")


def test_a_step_with_an_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER", "")
    check_step(tmp_path, "run, a once step", "--effect", "once")


@pytest.mark.parametrize("verb", ["push", "sync"])
def test_an_exchange(tmp_path: Path, verb: str) -> None:
    scene = Scene(tmp_path, verb)
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

    scene.check(recording, judge)


def steps_of(box: Sandbox) -> list[str]:
    """The words of the checkpoints of a track, oldest first, as git has them."""
    found = box.try_git("log", "--first-parent", "--reverse", "--format=%s", TRACK)
    return found.out.split("\n")[:-1] if found.code == 0 else []


@pytest.mark.parametrize("words", [("prune", "--keep-last", "2"), ("forget", "t~2", "--yes")], ids=["prune", "forget"])
def test_checkpoints_go(tmp_path: Path, words: tuple[str, ...]) -> None:
    scene = Scene(tmp_path, words[0])
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

    scene.check(recording, judge)


SAVER = """
import os, sys
from gitbaton.langgraph import GitSaver
from tests.kit.saverkit import config, number, put
saver = GitSaver(sys.argv[1])
for n in range(int(sys.argv[2]), int(sys.argv[3])):
    put(saver, number(n), {"n": n, "big": "x" * 3000}, versions={"n": n, "big": n}, parent=number(n - 1) if n else None)
    saver.put_writes(config(id=number(n)), [("c", n)], f"task {n}")
    os.write(1, b"%d\\n" % n)
saver.close()
os.write(1, b"closed\\n")
"""


def test_a_saver(tmp_path: Path) -> None:
    pytest.importorskip("langgraph.checkpoint.base")
    from gitbaton.langgraph import GitSaver
    from tests.kit.places import ROOT
    from tests.kit.saverkit import config, number, put

    scene = Scene(tmp_path, "a saver's put and flush")
    place = scene.top / "threads.git"
    env = {"PYTHONPATH": os.fspath(ROOT)}
    words = (sys.executable, "-W", "ignore", "-c", SAVER, os.fspath(place))
    subprocess.run([*words, "0", "2"], check=True, capture_output=True, env={**os.environ, **env})
    recording = record(scene.top, scene.box.path, *words, "2", "6", env=env)
    assert recording.ended.code == 0, recording.ended
    acks = [n for n, op in enumerate(recording.ops) if op.kind == "said"]

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        bare = Sandbox(place)
        yield from whole(bare)
        yield from clean(bare)
        sure = 2 + min(4, sum(ack < cut.at for ack in acks))
        try:
            with GitSaver(place) as saver:
                for n in range(6):
                    found = saver.get_tuple(config(id=number(n)))
                    if found is None:
                        if n < sure:
                            yield Problem(LOST, f"put {n} was acknowledged and is gone")
                        continue
                    if found.checkpoint["channel_values"] != {"n": n, "big": "x" * 3000}:
                        yield Problem(TORN, f"put {n} is not whole")
                    if n < sure and found.pending_writes != [(f"task {n}", "c", n)]:
                        yield Problem(LOST, f"the writes of {n} were acknowledged and are gone")
                put(saver, number(6), {"n": 6}, versions={"n": 6}, parent=number(5))
            with GitSaver(place) as saver:
                if saver.get_tuple(config(id=number(6))) is None:
                    yield Problem(LOST, "a put after the cut is gone")
        except Exception as error:
            yield Problem(WEDGED, f"the saver raises {type(error).__name__}: {error}")
        yield from whole(bare)

    scene.check(recording, judge)


def test_an_install(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "install")
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

    scene.check(recording, judge)


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


@pytest.mark.parametrize("verb", ["snapshot", "restore"])
def test_on_a_real_image(tmp_path: Path, verb: str) -> None:
    """The image is copied some seconds after the command has said done, and mounted again."""
    image = Image(tmp_path)
    image.begin()
    try:
        scene = Scene(tmp_path, f"{verb} on ext4")
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
        judge = taken(scene) if verb == "snapshot" else moved(scene, UNSAVED, THEN)
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
    scene = Scene(tmp_path, "the recorder")
    scene.write(WORK)
    recording = scene.run("snapshot", "--track", "t", "--step", "second")
    held, state = now(scene.top), files_of(scene.box.path)
    disk = Disk(recording)
    disk.put(Cut("ordered", len(recording.ops), frozenset(), frozenset(), "nothing is missing"))
    assert now(scene.top) == held and files_of(scene.box.path) == state
    assert list(whole(scene.box)) == [] and list(clean(scene.box)) == []
