"""A repository that holds one of each thing that is ours, and the ways in which a disk can leave it damaged."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from gitbaton.base.codec import payload
from gitbaton.git.objects import object_id
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit.repos import Sandbox
from tests.kit.talks import Talk
from tests.kit.threads import QUIET, numbered

TRACK, OTHER, RUN, THREAD = "refs/baton/tracks/t", "refs/baton/tracks/u", "refs/baton/runs/job", "refs/baton/threads/=th/_"
SAFETY, META, NOTES, TIP = "refs/baton/safety/main-worktree", "refs/baton/meta", "refs/notes/checkpoints", "refs/checkpoints/t"
FETCHED = "refs/baton/remotes/far/tracks/t"
SESSION = "5e551011-0000-4000-8000-000000000001"
ABSENT = "1" * 40
Damage = Callable[[Sandbox], None]


def scene(path: Path) -> Sandbox:
    """A copy of the whole scene: two tracks of which ``t`` has six checkpoints, notes, a pin and a tombstone, two restores, a
    run with an effect that must not happen twice, a thread, a conversation, and a remote that has some of it."""
    return copied(_scene(), path)


def copied(template: Path, path: Path) -> Sandbox:
    """A copy of a repository and of the remote beside it."""
    shutil.copytree(template, path, symlinks=True)
    box = Sandbox(path / "repo")
    box.try_git("update-index", "--refresh")
    box.git("remote", "set-url", "far", os.fspath(path / "far.git"))
    return box


@cache
def _scene() -> Path:
    place = Path(tempfile.mkdtemp(prefix="gitbaton-damage-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    subprocess.run(["git", "init", "-q", "--bare", place / "far.git"], check=True)
    box = Sandbox.init(place / "repo")
    box.write("sub/deep/keep.txt", "kept\n")
    box.commit("first", a_txt="one\n", b_txt="b\n")
    box.git("remote", "add", "far", os.fspath(place / "far.git"))
    box.git("push", "-q", "far", "main")
    for number in range(6):
        box.write("a.txt", f"a {number}\n")
        box.write("sub/new.txt", f"new {number}\n")
        label = ["--label", f"L{number}"] if number in (1, 3) else []
        box.ok("snapshot", "--track", "t", "--step", f"t {number}", "--decision", f"d {number}", *label)
        if number == 2:
            box.ok("push", "far", "--track", "t", "--yes")
            box.ok("fetch", "far")
    box.ok("snapshot", "--track", "u", "--step", "u 0", "--no-set-current")
    box.write("u.txt", "u\n")
    box.ok("snapshot", "--track", "u", "--step", "u 1", "--no-set-current")
    box.ok("pin", "t~2")
    box.ok("forget", "t~5", "--yes")
    box.ok("restore", "t~1", "--force")
    box.ok("undo")
    once = ["--run", "job", "--effect", "once"]
    box.ok("run", "--run", "job", "--step", "build", "--reads", "a.txt", "--writes", "out/**", "--", "sh", "-c", _BUILD)
    box.ok("run", *once, "--step", "deploy", "--key", "k", "--", "sh", "-c", "echo x >> ../deployed")
    with threads_of(box) as store:
        numbered(store, 5, thread="th")
    for path in (box.path / ".git/objects/pack").glob("pack-*.pack"):  # so that each object is a file
        raw = path.read_bytes()
        for part in path.parent.glob(path.stem + ".*"):
            part.unlink()
        box.git("unpack-objects", "-q", stdin=raw)
    talk = Talk(box, place / "talk.jsonl")
    talk.ask("do the work")
    talk.say("done")
    talk.fire("Stop")
    box.write("a.txt", "a 6\n")
    talk.say("more")
    talk.fire("Stop")
    return place


_BUILD = "mkdir -p out && cp a.txt out/a.txt"


def file_of(box: Sandbox, what: str) -> Path:
    """The file of the loose object that a name of git's means, ``json `` before it: of the JSON of a checkpoint, ``note ``: of
    the note of a commit. It can be written."""
    kind, _, name = what.rpartition(" ")
    oid = box.git("rev-parse", "--verify", name)
    if kind == "json":
        oid = object_id("sha1", "blob", payload(box.run("git", "log", "-1", "--format=%B", oid).out.encode()))
    elif kind == "note":
        oid = box.git("notes", f"--ref={NOTES}", "list", oid)
    return box.loose(oid)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _half(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[: max(3, len(raw) // 2)])


def _garbage(path: Path) -> None:
    path.write_bytes(b"\0garbage" * 40)


def _gone(path: Path) -> None:
    path.unlink()


def _objects(how: Callable[[Path], None], *names: str) -> Damage:
    def damage(box: Sandbox) -> None:
        for path in [file_of(box, name) for name in names]:
            how(path)

    return damage


def _ref(ref: str, content: bytes) -> Damage:
    def damage(box: Sandbox) -> None:
        path = box.path / ".git" / ref
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return damage


def _ref_to(ref: str, what: str) -> Damage:
    def damage(box: Sandbox) -> None:
        (box.path / ".git" / ref).write_text(box.git("rev-parse", what) + "\n")

    return damage


def _stale(box: Sandbox) -> None:
    older = file_of(box, f"json {TRACK}~3")
    (box.path / ".git" / TIP).write_text(older.parent.name + older.name + "\n")


def _without_ref(ref: str) -> Damage:
    return lambda box: (box.path / ".git" / ref).unlink()


def _folder(box: Sandbox) -> None:
    path = box.path / ".git" / TRACK
    path.unlink()
    path.mkdir()
    (path / "x").write_bytes(b"")


def _packed(box: Sandbox) -> None:
    box.git("pack-refs", "--all")
    path = box.path / ".git/packed-refs"
    oid = box.git("rev-parse", TRACK)
    path.write_bytes(path.read_bytes().replace(oid.encode() + b" refs/baton/tracks/t\n", b"zz refs/baton/tracks/t\n"))


def _reflog(box: Sandbox) -> None:
    path = box.path / ".git/logs" / TRACK
    path.parent.mkdir(parents=True, exist_ok=True)
    oid, who = box.git("rev-parse", TRACK), "A U Thor <author@example.com> 1767225600 +0000"
    path.write_text(f"{ABSENT} {oid} {who}\tsnapshot\n{oid[:20]}")


def _pack(box: Sandbox, *what: str) -> Path:
    """All that is of our tracks, or of ``what``, alone in one pack."""
    tracks = ["--glob=refs/baton/tracks/*", "--glob=refs/checkpoints/*", NOTES]
    ours = [*(what or tracks), "--not", "--branches", "--remotes"]
    listed = box.git("rev-list", "--objects", "--no-object-names", *ours)
    place = box.path / ".git/objects/pack"
    name = box.git("pack-objects", "-q", os.fspath(place / "pack"), stdin=f"{listed}\n".encode())
    box.git("prune-packed", "-q")
    path = place / f"pack-{name}.pack"
    path.chmod(0o644)
    return path


def _pack_half(box: Sandbox, *what: str) -> None:
    path = _pack(box, *what)
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) * 2 // 3])


def _ref_and_tip(box: Sandbox) -> None:
    _objects(_empty, f"{RUN}:record.json", f"{RUN}^{{tree}}", RUN)(box)
    _ref(RUN, b"")(box)


def _nothing_of_a_run(box: Sandbox) -> None:
    names = [f"{RUN}~{n}" for n in range(4)]
    _objects(_gone, *(f"{name}{end}" for name in names for end in (":record.json", "^{tree}", "")))(box)


def _pack_hit(box: Sandbox) -> None:
    path = _pack(box)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2 : len(raw) // 2 + 64] = bytes(64)
    path.write_bytes(raw)


def _without_index_of_pack(box: Sandbox) -> None:
    _pack(box).with_suffix(".idx").unlink()


def _file(name: str, content: bytes | None) -> Damage:
    """A file below ``.git`` that holds something else; None for half of what it held."""

    def damage(box: Sandbox) -> None:
        path = box.path / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if content is None else content)

    return damage


def _sessions(box: Sandbox) -> None:
    for path in (box.path / ".git/baton/sessions").iterdir():
        _garbage(path)


def _agreements(box: Sandbox) -> None:
    for path in (box.path / ".git/baton/pushed").rglob("*"):
        if path.is_file():
            _garbage(path)


def _locks(box: Sandbox) -> None:
    for name in (f"{TRACK}.lock", f"{TIP}.lock", f"{NOTES}.lock"):
        path = box.path / ".git" / name
        path.write_bytes(b"")
        os.utime(path, (1, 1))


def _alternates(box: Sandbox) -> None:
    """Everything lies in another repository, and that is gone."""
    store = box.path / ".git/objects"
    _objects(_gone, "HEAD^{tree}", "HEAD:sub", "HEAD:b.txt")(box)
    (store / "info").mkdir(exist_ok=True)
    (store / "info/alternates").write_text(os.fspath(box.path / "gone") + "\n")


def _many(box: Sandbox) -> None:
    """What a power cut leaves: all that was written last is empty, and the ref is there."""
    _objects(_empty, TRACK, f"{TRACK}^{{tree}}", f"{TRACK}~1", f"{TRACK}~1^{{tree}}", TIP)(box)


def _mirror(box: Sandbox) -> None:
    for path in (box.path / "runtime/checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:10])


_BLOB, _OLD_BLOB = f"{TRACK}:a.txt", f"{TRACK}~3:a.txt"
MENDED: dict[str, Damage] = {
    **{
        f"tip commit {name}": _objects(how, TRACK)
        for name, how in (("empty", _empty), ("half", _half), ("garbage", _garbage), ("gone", _gone))
    },
    "tip tree empty": _objects(_empty, f"{TRACK}^{{tree}}"),
    "tip tree gone": _objects(_gone, f"{TRACK}^{{tree}}"),
    "tip subtree half": _objects(_half, f"{TRACK}:sub"),
    "tip blob empty": _objects(_empty, _BLOB),
    "tip blob half": _objects(_half, _BLOB),
    "tip commit, tree and json empty": _many,
    "middle commit empty": _objects(_empty, f"{TRACK}~3"),
    "middle commit gone": _objects(_gone, f"{TRACK}~3"),
    "middle commit and its json gone": _objects(_gone, f"{TRACK}~3", f"json {TRACK}~3"),
    "two commits in the middle gone": _objects(_gone, f"{TRACK}~2", f"{TRACK}~4"),
    "middle tree gone": _objects(_gone, f"{TRACK}~3^{{tree}}"),
    "middle blob gone": _objects(_gone, _OLD_BLOB),
    "middle blob garbage": _objects(_garbage, f"{TRACK}~4:sub/new.txt"),
    "blob gone that a remote has": _objects(_gone, f"{TRACK}~5:sub/new.txt"),
    "first commit gone": _objects(_gone, f"{TRACK}~6"),
    "root commit empty": _objects(_empty, f"{TRACK}~7"),
    "root commit gone": _objects(_gone, f"{TRACK}~7"),
    "every commit of a track gone": _objects(_gone, "refs/baton/tracks/u", "refs/baton/tracks/u~1"),
    "safety tip empty": _objects(_empty, SAFETY),
    "safety tree gone": _objects(_gone, f"{SAFETY}^{{tree}}"),
    "safety index commit gone": _objects(_gone, f"{SAFETY}^2"),
    "safety stages commit empty": _objects(_empty, f"{SAFETY}^2^2"),
    "safety middle commit gone": _objects(_gone, f"{SAFETY}~1"),
    "safety blob gone": _objects(_gone, f"{SAFETY}~1:a.txt"),
    "run tip empty": _objects(_empty, RUN),
    "run middle commit gone": _objects(_gone, f"{RUN}~1"),
    "run record gone": _objects(_gone, f"{RUN}:record.json"),
    "run tree half": _objects(_half, f"{RUN}^{{tree}}"),
    "run output gone": _objects(_gone, f"{RUN}~2:writes/out/a.txt"),
    "thread tip empty": _objects(_empty, THREAD),
    "thread middle commit gone": _objects(_gone, f"{THREAD}~2"),
    "thread tree gone": _objects(_gone, f"{THREAD}~1^{{tree}}"),
    "thread value gone": _objects(_gone, f"{THREAD}:c.c"),
    "notes tip empty": _objects(_empty, NOTES),
    "notes tree gone": _objects(_gone, f"{NOTES}^{{tree}}"),
    "notes ref half": _ref(NOTES, b"2d58a336"),
    "note of a commit gone": _objects(_gone, "note HEAD"),
    "meta commit empty": _objects(_empty, META),
    "meta tree gone": _objects(_gone, f"{META}^{{tree}}"),
    "meta pins gone": _objects(_gone, f"{META}:pins"),
    "meta ref empty": _ref(META, b""),
    "conversation tip gone": _objects(_gone, f"refs/baton/transcripts/claude/{SESSION}"),
    "conversation chunk gone": _objects(_gone, f"refs/baton/transcripts/claude/{SESSION}:chunks/00000000"),
    "what was said gone": _objects(_gone, f"refs/baton/transcripts/claude/{SESSION}%2Etold:chunks/00000000"),
    "track ref empty": _ref(TRACK, b""),
    "track ref half": _ref(TRACK, b"a2f1c2465ab23a13e651"),
    "track ref garbage": _ref(TRACK, b"\0\xff\n" * 9),
    "track ref zeros": _ref(TRACK, b"0" * 40 + b"\n"),
    "track ref NULs": _ref(TRACK, bytes(41)),
    "track ref to nothing": _ref(TRACK, ABSENT.encode() + b"\n"),
    "track ref to a blob": _ref_to(TRACK, _BLOB),
    "track ref to a commit of the user's": _ref_to(TRACK, "HEAD"),
    "track ref symbolic to nothing": _ref(TRACK, b"ref: refs/baton/tracks/nothing\n"),
    "folder in place of a track's ref": _folder,
    "track ref gone": _without_ref(TRACK),
    "safety ref empty": _ref(SAFETY, b""),
    "run ref empty": _ref(RUN, b""),
    "thread ref empty": _ref(THREAD, b""),
    "fetched ref empty": _ref(FETCHED, b""),
    "packed-refs has a bad line of ours": _packed,
    "reflog of a track damaged": _reflog,
    "tip ref empty": _ref(TIP, b""),
    "tip ref gone": _without_ref(TIP),
    "tip ref stale": _stale,
    "tip ref to nothing": _ref(TIP, ABSENT.encode() + b"\n"),
    "json of a tip empty": _objects(_empty, TIP),
    "pack half": _pack_half,
    "pack hit": _pack_hit,
    "index of a pack gone": _without_index_of_pack,
    "LATEST half": _mirror,
    "current track half": _file("BATON_HEAD", None),
    "session files garbage": _sessions,
    "agreements garbage": _agreements,
    "revision half": _file("baton/revision", b"gitbaton revision 1\nrefs/baton/tra"),
    "restore record half": _file("baton/restore", b'{"v": 1, "sa'),
    "locks left": _locks,
    "expect garbage": _file("baton/expect", b"\0\xff"),
    "caches garbage": _file("baton/index-facts", b"\0\xff" * 99),
}
# Nobody knows what the run began: it stays unreadable, so that nobody begins it afresh.
LEFT: dict[str, Damage] = {
    "every commit of a run gone": _objects(_gone, *(f"{RUN}~{n}" for n in range(4))),
    "nothing left of a run": _nothing_of_a_run,
    "run tip and its record gone": _objects(_gone, f"{RUN}:record.json", f"{RUN}^{{tree}}", RUN),
    "run ref empty, and its tip": _ref_and_tip,
    "pack of a run half": lambda box: _pack_half(box, RUN),
    "run ref to a commit of the user's": _ref_to(RUN, "HEAD"),
}
THEIRS: dict[str, Damage] = {
    "commit of HEAD empty": _objects(_empty, "HEAD"),
    "commit of HEAD gone": _objects(_gone, "HEAD"),
    "blob of HEAD empty": _objects(_empty, "HEAD:b.txt"),
    "index half": _file("index", None),
    "alternates gone": _alternates,
}


def threads_of(box: Sandbox) -> ThreadStore:
    """The threads of a repository; nothing is flushed but at the end."""
    return ThreadStore.open(box.path, **QUIET)


# What each verb is asked, those that only look first; after each mend all of them work on what is left.
VERBS: dict[str, tuple[str, ...]] = {
    "status": ("status",),
    "log": ("log", "--all"),
    "resume": ("resume", "t"),
    "show": ("show", "t"),
    "diff": ("diff", "t"),
    "tracks": ("tracks",),
    "du": ("du",),
    "scan": ("scan", "--all"),
    "steps": ("steps", "job"),
    "verify journal": ("journal", "verify", "job"),
    "thread log": ("thread", "log", "th"),
    "thread show": ("thread", "show", "th"),
    "transcript": ("transcript", "show", "t"),
    "export": ("export",),
    "snapshot": ("snapshot", "--track", "t", "--step", "after"),
    "snapshot u": ("snapshot", "--track", "u", "--step", "after", "--no-set-current"),
    "restore": ("restore", "t~2", "--force"),
    "undo": ("undo",),
    "run": ("run", "--run", "job", "--step", "look", "--", "true"),
    "pin": ("pin", "t"),
    "prune": ("prune", "--keep-last", "4", "--yes"),
    "push": ("push", "far", "--yes", "--runs", "--threads"),
    "sync": ("sync", "far", "--yes", "--threads"),
    "forget": ("forget", "t~1", "--yes"),
    "gc": ("gc",),
}


def codes(box: Sandbox) -> dict[str, int]:
    """The exit status of every verb, one after the other, ``gc`` of git itself."""
    done = {}
    for name, words in VERBS.items():
        ended = box.try_git("gc", "--quiet", "--prune=now") if words == ("gc",) else box.baton(*words)
        done[name] = -1 if "Traceback" in ended.err else ended.code
    return done
