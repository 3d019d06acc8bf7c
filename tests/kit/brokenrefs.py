"""A repository in which no two refs of ours share what only they hold, and the ways in which one of them can be broken."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.kit.damage import ABSENT, SESSION, copied, threads_of
from tests.kit.repos import Sandbox
from tests.kit.talks import Talk
from tests.kit.threads import numbered

ROOMS = {
    "track": "refs/baton/tracks/t",
    "tip": "refs/checkpoints/t",
    "safety": "refs/baton/safety/main-worktree",
    "run": "refs/baton/runs/job",
    "thread": "refs/baton/threads/=th/_",
    "conversation": f"refs/baton/transcripts/claude/{SESSION}",
    "notes": "refs/notes/checkpoints",
    "fetched": "refs/baton/remotes/far/tracks/t",
}
META = "refs/baton/meta"
# A blob that only the newest of each holds.
BLOBS = {
    "track": "t.txt",
    "safety": "s.txt",
    "run": "record.json",
    "thread": "c.c",
    "conversation": "chunks/00000000",
}
VERBS: dict[str, tuple[str, ...]] = {
    "prune": ("prune", "--keep-last", "1", "--yes"),
    "push": ("push", "far", "--yes", "--runs", "--threads", "--with-transcripts"),
    "fetch": ("fetch", "far", "--runs", "--threads"),
    "sync": ("sync", "far", "--yes", "--threads"),
}


def scene(path: Path) -> Sandbox:
    """A copy of the scene: tracks ``t`` and ``u``, a restore that was undone, two runs, two threads, a conversation, notes, a
    pin, and a remote that has half of ``t`` and a track ``w`` of its own."""
    return copied(_scene(), path)


@cache
def _scene() -> Path:
    place = Path(tempfile.mkdtemp(prefix="gitbaton-broken-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    subprocess.run(["git", "init", "-q", "--bare", place / "far.git"], check=True)
    box = Sandbox.init(place / "repo")
    box.commit("first", a_txt="one\n")
    box.git("remote", "add", "far", os.fspath(place / "far.git"))
    box.git("push", "-q", "far", "main")
    box.ok("snapshot", "--track", "w", "--step", "w", "--no-set-current")
    box.ok("push", "far", "--track", "w", "--yes")
    for ref in ("refs/baton/tracks/w", "refs/checkpoints/w", "refs/baton/remotes/far/tracks/w"):
        box.git("update-ref", "-d", ref)
    talk = Talk(box, place / "talk.jsonl")
    talk.ask("do the work")
    talk.say("done")
    talk.fire("Stop")
    for track in ("t", "u"):
        for number in range(4):
            box.write(f"{track}.txt", f"{track} {number}\n")
            box.ok("snapshot", "--track", track, "--step", f"{track} {number}")
            if track == "t" and number == 1:
                box.ok("push", "far", "--track", "t", "--yes")
                box.ok("fetch", "far", "--track", "t")
        (box.path / f"{track}.txt").unlink()
    box.ok("pin", "t~1")
    box.write("s.txt", "s\n")
    box.ok("restore", "u~1", "--force")
    box.ok("undo")
    (box.path / "s.txt").unlink()
    for run in ("job", "other"):
        box.ok("run", "--run", run, "--step", "build", "--", "sh", "-c", f"echo {run}")
    with threads_of(box) as store:
        numbered(store, 4, thread="th")
        numbered(store, 3, thread="other", start=10)
    for path in (box.path / ".git/objects/pack").glob("pack-*.pack"):  # so that each object is a file
        raw = path.read_bytes()
        for part in path.parent.glob(path.stem + ".*"):
            part.unlink()
        box.git("unpack-objects", "-q", stdin=raw)
    return place


def _written(content: bytes) -> Callable[[Sandbox, str], None]:
    def damage(box: Sandbox, room: str) -> None:
        (box.path / ".git" / ROOMS[room]).write_bytes(content)

    return damage


def _object(what: str, how: Callable[[Path], object]) -> Callable[[Sandbox, str], None]:
    def damage(box: Sandbox, room: str) -> None:
        how(box.loose(box.git("rev-parse", "--verify", ROOMS[room] + what.replace("BLOB", BLOBS.get(room, "")))))

    return damage


def _wrong_kind(box: Sandbox, room: str) -> None:
    other = "HEAD" if room == "tip" else "HEAD:a.txt"
    (box.path / ".git" / ROOMS[room]).write_text(box.git("rev-parse", other) + "\n")


def _half(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[: max(3, len(raw) // 2)])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


# Those that show at the ref itself, and those below it.
SHALLOW: dict[str, Callable[[Sandbox, str], None]] = {
    "empty": _written(b""),
    "zeros": _written(b"0" * 40 + b"\n"),
    "symbolic to nothing": _written(b"ref: refs/baton/tracks/nothing\n"),
    "to nothing": _written(ABSENT.encode() + b"\n"),
    "to another kind": _wrong_kind,
    "object empty": _object("", _empty),
    "object half": _object("", _half),
    "object gone": _object("", Path.unlink),
}
DEEP: dict[str, Callable[[Sandbox, str], None]] = {
    "middle commit gone": _object("~1", Path.unlink),
    "tree gone": _object("^{tree}", Path.unlink),
    "tree empty": _object("^{tree}", _empty),
    "blob gone": _object(":BLOB", Path.unlink),
    "blob half": _object(":BLOB", _half),
}
# What a ref of this kind has no such part of, or shares with others.
NOT_THERE = {(room, kind) for room in ("tip", "fetched") for kind in DEEP} | {
    ("conversation", "middle commit gone"),
    ("notes", "blob gone"),
    ("notes", "blob half"),
    ("fetched", "object empty"),
    ("fetched", "object half"),
    ("fetched", "object gone"),
}


def refs(box: Sandbox) -> dict[str, bytes]:
    """The files of all refs, whatever they hold."""
    top = box.path / ".git/refs"
    return {os.fspath(path.relative_to(top.parent)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def there(box: Sandbox) -> dict[str, str]:
    """The refs of the remote."""
    rows = box.git("--git-dir", os.fspath(box.path.parent / "far.git"), "for-each-ref", "--format=%(refname) %(objectname)")
    return dict(row.split(" ") for row in rows.splitlines())


def length(box: Sandbox, track: str) -> int:
    """The checkpoints of a track that can be read."""
    return int(box.git("rev-list", "--count", "--first-parent", f"refs/baton/tracks/{track}")) - 1
