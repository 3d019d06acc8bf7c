"""Every kind of damage, mended: every verb works on what is left, nothing readable is gone, and nothing of the user's moves."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.damage import LEFT, MENDED, RUN, THEIRS, TRACK, codes, scene, threads_of
from tests.kit.forkserver import python
from tests.kit.killkit import DRIVER
from tests.kit.processes import meanwhile
from tests.kit.state import files_of
from tests.kit.threads import numbered
from tests.kit.tiers import FULL, full, some

SOME = {"tip commit empty", "thread value gone", "conversation tip gone", "restore record half"}
USERS = ("refs/heads", "refs/remotes", "refs/tags")
# What is gone for good cannot be shown, restored or pushed: the verbs that say so, and with which status.
GONE = {
    "tip commit, tree and json empty": {"transcript": 128},
    "blob gone that a remote has": {"push": 1},  # it has the checkpoint whole, and a sync comes first
    "meta commit empty": {"push": 1},  # a tombstone is lost: what was forgotten here is at the remote, and a sync comes first
    "meta tree gone": {"push": 1},
    "conversation tip gone": {"transcript": 128},
    "conversation chunk gone": {"transcript": 128},
    "pack half": {"push": 1},  # the remote has two checkpoints whole
}


def stored(box: Sandbox) -> dict[str, dict[str, str]]:
    """The checkpoints that tracks hold, by their words and time, each with its files."""
    rows = json.loads(box.ok("log", "--all", "--json").out)["checkpoints"]
    found = {f"{row['step']} {row['created']}": row for row in rows}
    trees = {name: (row["files"] or {}).get("tree") for name, row in found.items()}
    return {name: box.tree(tree) if tree else {} for name, tree in trees.items()}


def users(box: Sandbox) -> dict[str, Any]:
    """All that is not ours: refs, HEAD, the index, files, and the files of objects."""
    store = box.path / ".git/objects"
    oids = box.git("rev-list", "--objects", "--no-object-names", "HEAD").split()
    paths = {oid: store / oid[:2] / oid[2:] for oid in oids}
    return {
        "refs": box.git("for-each-ref", *USERS),
        "head": (box.path / ".git/HEAD").read_bytes(),
        "index": (box.path / ".git/index").read_bytes(),
        "files": files_of(box.path),
        "objects": {oid: (path.read_bytes(), path.stat().st_mtime_ns) for oid, path in paths.items() if path.exists()},
    }


def everything(box: Sandbox) -> dict[str, bytes]:
    """Every file below ``.git``."""
    top = box.path / ".git"
    return {os.fspath(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def readable(box: Sandbox, names: set[str]) -> set[str]:
    """Those of some blobs that can be read."""
    return {name for name in names if box.try_git("cat-file", "-p", name).code == 0}


@some("kind", MENDED, share=SOME)
def test_after_a_mend_every_verb_works_on_what_is_left(kind: str, tmp_path: Path) -> None:
    box = scene(tmp_path / "scene")
    intact, mine = stored(box), users(box)
    MENDED[kind](box)
    blobs = {entry.split(" ")[1] for tree in intact.values() for entry in tree.values()}
    whole = readable(box, blobs)
    before = everything(box)
    box.baton("doctor", "--mend", "--dry-run")
    ours = {name for name, raw in everything(box).items() if before.get(name) != raw and not name.startswith("baton/")}
    assert not ours  # a plan changes nothing
    done = json.loads(box.baton("doctor", "--mend", "--json").out)
    assert not done["left"] and not done["theirs"]
    again = box.ok("doctor", "--mend")
    assert again.out == "nothing is damaged\n"
    assert users(box) == mine
    box.fsck()
    lost = {f"{row['where']}: {row['what']}" for row in done["lost"]}
    mended = stored(box)
    for name, tree in intact.items():
        kept = mended.get(name)
        assert kept is not None or any("a checkpoint or more" in text for text in lost), name
        gone = {path for path, entry in tree.items() if entry.split(" ")[1] in whole and (kept or {}).get(path) != entry}
        assert not gone or kept is None or any("all its files" in text or "sub" in text for text in lost), (name, gone)
    assert {verb: code for verb, code in codes(box).items() if code} == GONE.get(kind, {})


@pytest.mark.parametrize("kind", list(LEFT))
def test_a_run_of_which_nobody_knows_what_it_began_is_never_begun_afresh(kind: str, tmp_path: Path) -> None:
    box = scene(tmp_path / "scene")
    LEFT[kind](box)
    before = (box.path / ".git" / RUN).read_bytes()
    done = box.baton("doctor", "--mend")
    assert done.code == 1 and "so it stays unfinished" in done.out.replace("the run stays", "it stays")
    assert (box.path / ".git" / RUN).read_bytes() == before
    again = ["--run", "job", "--effect", "once", "--step", "deploy", "--key", "k", "--", "sh", "-c", "echo x >> ../deployed"]
    assert box.baton("run", *again).code != 0
    assert (box.path / "../deployed").read_text() == "x\n"
    line = next(row for row in done.out.splitlines() if "done twice: " in row).split("done twice: ")[1]
    box.ok(*line.removeprefix("git baton ").split())
    box.ok("doctor", "--mend")
    assert box.ok("doctor", "--mend").out == "nothing is damaged\n"


@pytest.mark.parametrize("kind", [kind for kind in MENDED if kind.startswith("run ")])
def test_what_happened_once_does_not_happen_again(kind: str, tmp_path: Path) -> None:
    box = scene(tmp_path / "scene")
    MENDED[kind](box)
    box.baton("doctor", "--mend")
    again = ["--run", "job", "--effect", "once", "--step", "deploy", "--key", "k", "--", "sh", "-c", "echo x >> ../deployed"]
    assert box.baton("run", *again).code in (0, 76)
    assert (box.path / "../deployed").read_text() == "x\n"


@some("kind", THEIRS, share={"blob of HEAD empty", "alternates gone"})
def test_what_is_not_ours_is_named_and_left(kind: str, tmp_path: Path) -> None:
    box = scene(tmp_path / "scene")
    THEIRS[kind](box)
    before = everything(box)
    done = box.baton("doctor", "--mend")
    assert done.code in (1, 128) and ("not ours: " in done.out or "nothing is mended" in done.err)
    changed = {name for name, raw in before.items() if everything(box).get(name) != raw and not name.startswith("baton/")}
    assert not changed and not (box.path / ".git/baton/broken").exists()


def test_what_a_command_that_is_named_brings_back_is_back(tmp_path: Path) -> None:
    box = scene(tmp_path / "scene")
    THEIRS["blob of HEAD empty"](box)
    line = box.baton("doctor", "--mend").out.splitlines()[1].split(";")[0].strip()
    assert box.run("sh", "-c", f"{line} && git hash-object -w -- b.txt").code == 0
    box.ok("doctor", "--mend")
    box.fsck()


@pytest.mark.parametrize(
    "kind", ["tip commit, tree and json empty", *map(full, ("middle blob gone", "track ref garbage", "pack hit"))]
)
def test_killed_at_each_step_the_next_mend_ends_it(kind: str, tmp_path: Path) -> None:
    model = scene(tmp_path / "model")
    MENDED[kind](model)
    model.baton("doctor", "--mend")
    due = set(stored(model))
    at = 1
    while True:
        box = scene(tmp_path / f"at{at}")
        MENDED[kind](box)
        words = ["-c", DRIVER, str(at), "doctor", "--mend"]
        ended = python(words, os.fspath(box.path), dict(os.environ), session=True, seconds=60).code != -signal.SIGKILL
        for lock in (box.path / ".git").rglob("*.lock"):
            os.utime(lock, (1, 1))  # a lock of a killed process is removed once it is ten seconds old
        box.baton("doctor", "--mend")
        assert box.ok("doctor", "--mend").out == "nothing is damaged\n"
        box.fsck()
        assert set(stored(box)) == due
        if ended:
            break
        at += 1 if FULL else 9
    assert at > 9


def test_a_remote_that_is_named_gives_back_what_it_has(tmp_path: Path) -> None:
    box = scene(tmp_path / "scene")
    intact = stored(box)
    MENDED["blob gone that a remote has"](box)
    done = box.ok("doctor", "--mend", "--from-remote", "far")
    assert "1 of them found elsewhere" in done.out and "lost" not in done.out
    assert stored(box) == intact


def test_another_work_tree_gives_back_what_it_has(tmp_path: Path) -> None:
    box = scene(tmp_path / "scene")
    intact = stored(box)
    box.git("worktree", "add", "-q", "-b", "side", "../side")
    (tmp_path / "scene/side/a.txt").write_bytes(box.run("git", "cat-file", "-p", f"{TRACK}~3:a.txt").out.encode())
    MENDED["middle blob gone"](box)
    assert "lost" not in box.ok("doctor", "--mend").out
    assert stored(box) == intact


def test_beside_snapshots_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    box = scene(tmp_path / "scene")
    MENDED["tip commit, tree and json empty"](box)
    done: list[str] = []

    def take() -> None:
        step = f"beside {len(done)}"
        if box.baton("snapshot", "--track", "u", "--step", step, "--no-set-current").code == 0:  # none before the first mend
            done.append(step)

    with meanwhile(take):
        for _ in range(3):
            box.baton("doctor", "--mend")
    assert box.ok("doctor", "--mend").out == "nothing is damaged\n"
    steps = {row["step"] for row in json.loads(box.ok("log", "u", "--json").out)["checkpoints"]}
    assert done and steps >= {*done, "u 0", "u 1"}
    box.fsck()


def test_of_two_threads_that_nobody_can_tell_apart_none_is_guessed(tmp_path: Path) -> None:
    box = scene(tmp_path / "scene")
    with threads_of(box) as store:
        numbered(store, 3, thread="other")
    for name in ("=th", "=other"):
        (box.path / f".git/refs/baton/threads/{name}/_").write_bytes(b"")
    done = box.baton("doctor", "--mend")
    assert done.code == 1 and done.out.count("nobody knows which chain that lies about is its") == 2
