"""The whole state of a work tree as git and the disk tell it: bytes, modes, links, index, refs; and how two states differ."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitbaton.checkpoints.store import Store
from gitbaton.checkpoints.store.join import Link, joined
from gitbaton.git.publish import publish
from tests.kit.repos import Outcome, Sandbox

OURS = ("refs/baton/", "refs/checkpoints/", "refs/notes/checkpoints")
MIRROR = ("runtime/checkpoints/LATEST.md", "runtime/checkpoints/LATEST.json")
SAFETY = "refs/baton/safety/main-worktree"
READ_ONLY = {"GIT_OPTIONAL_LOCKS": "0"}
UPPER = re.compile(r"[A-Z][A-Z_]*\Z")
SHORT = 64

Entry = tuple[str, bool, bytes]


@dataclass(frozen=True)
class State:
    """One moment. ``files``: path to kind, exec bit and bytes (the digest of long ones); ``status``: porcelain v2;
    ``index``: path to its rows of ``ls-files -s -v``; ``refs``: HEAD, all refs but ours, reflogs, operation in progress."""

    files: Mapping[str, Entry]
    status: tuple[str, ...]
    index: Mapping[str, tuple[str, ...]]
    refs: Mapping[str, str]
    modes: bool = field(default=True, compare=False)


def state_of(box: Sandbox, *, modes: bool = True) -> State:
    """The state now; ``modes`` False where git is told not to trust them. Nothing is written, not even stat data."""
    return State(
        files=files_of(box.path, modes=modes),
        status=tuple(_status(box)),
        index=index_of(box),
        refs=refs_of(box),
        modes=modes,
    )


def files_of(root: Path, *, modes: bool = True) -> dict[str, Entry]:
    """Everything on disk below a work tree but git's own folders, our mirror, and directories that hold nothing."""
    top = os.fspath(root)
    found: dict[str, Entry] = {}
    for full in _walk(top):
        name = os.path.relpath(full, top)
        if name not in MIRROR:
            found[name] = _entry(full, modes)
    return found


def _walk(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda e: e.name)
    for entry in listed:
        if entry.name == ".git":
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
        else:
            yield entry.path


def _entry(full: str, modes: bool) -> Entry:
    found = os.lstat(full)
    if stat.S_ISLNK(found.st_mode):
        return ("link", False, os.fsencode(os.readlink(full)))
    if not stat.S_ISREG(found.st_mode):
        return ("special", False, str(stat.S_IFMT(found.st_mode)).encode())
    with open(full, "rb") as file:
        data = file.read()
    if len(data) > SHORT:
        data = f"{len(data)} bytes, {hashlib.sha256(data).hexdigest()}".encode()
    return ("file", modes and bool(found.st_mode & stat.S_IXUSR), data)


def _status(box: Sandbox) -> list[str]:
    words = ("status", "--porcelain=v2", "-z", "-uall", "--no-renames", "--ignore-submodules=none")
    return sorted(row for row in box.git(*words, env=READ_ONLY).split("\0") if row)


def index_of(box: Sandbox) -> dict[str, tuple[str, ...]]:
    """The rows of ``git ls-files -s -v`` by path."""
    rows: dict[str, tuple[str, ...]] = {}
    for row in box.git("ls-files", "-s", "-v", "-z", env=READ_ONLY).split("\0"):
        if row:
            what, name = row.split("\t", 1)
            rows[name] = (*rows.get(name, ()), what)
    return rows


def git_dir(box: Sandbox) -> Path:
    return box.path / box.git("rev-parse", "--git-dir")


def common_dir(box: Sandbox) -> Path:
    return box.path / box.git("rev-parse", "--git-common-dir")


def refs_of(box: Sandbox) -> dict[str, str]:
    """What no command of ours may move."""
    rows = box.git("for-each-ref", "--format=%(refname) %(objectname) %(symref)").splitlines()
    found = {row.split(" ", 1)[0]: row.split(" ", 1)[1] for row in rows if not row.startswith(OURS)}
    top, common = git_dir(box), common_dir(box)
    logs = [p for p in (common / "logs").rglob("*") if p.is_file()] if (common / "logs").is_dir() else []
    kept = [p for p in logs if not str(p.relative_to(common / "logs")).startswith(OURS)]
    kept += [p for p in top.iterdir() if p.is_file() and UPPER.match(p.name) and p.name != "BATON_HEAD"]
    for folder in ("rebase-merge", "rebase-apply", "sequencer"):
        kept += [p for p in (top / folder).rglob("*") if p.is_file()] if (top / folder).is_dir() else []
    kept += [p for p in (common / "config", top / "info/sparse-checkout") if p.is_file()]
    for path in kept:
        found[os.fspath(path)] = path.read_bytes().decode("utf-8", "surrogateescape")
    return found


def differences(one: Mapping[str, object], other: Mapping[str, object]) -> str:
    """What two maps say differently, a line a key."""
    lines = [
        f"  {key!r}: {one.get(key, 'nothing')!r} -> {other.get(key, 'nothing')!r}"
        for key in sorted({*one, *other})
        if one.get(key) != other.get(key)
    ]
    return "\n".join(lines[:12] + (["  ..."] if len(lines) > 12 else []))


def assert_same(then: State, now: State, what: str) -> None:
    """Byte for byte, mode for mode, entry for entry."""
    assert then.files == now.files, f"{what}: the work tree differs\n" + differences(then.files, now.files)
    assert then.index == now.index, f"{what}: the index differs\n" + differences(then.index, now.index)
    assert then.refs == now.refs, f"{what}: refs differ\n" + differences(then.refs, now.refs)
    one, two = dict.fromkeys(then.status, "status"), dict.fromkeys(now.status, "status")
    assert then.status == now.status, f"{what}: git status differs\n" + differences(one, two)


def assert_refs_kept(then: State, now: State, what: str) -> None:
    """HEAD, branches, tags, stashes, reflogs, an operation's files: as they were."""
    assert then.refs == now.refs, f"{what}: refs differ\n" + differences(then.refs, now.refs)


def stale_locks(box: Sandbox) -> list[str]:
    """Every lock file in the repository, by its path; what lies in our private folder locks nothing."""
    found = (os.fspath(p) for p in common_dir(box).rglob("*.lock"))
    return sorted(p for p in found if "/baton/tmp/" not in p)


def sound(box: Sandbox) -> None:
    """No lock is left, git reads the index, and finds nothing wrong."""
    left = stale_locks(box)
    assert not left, f"locks are left: {left}"
    done = box.try_git("fsck", "--no-dangling")
    assert done.code == 0, done.out + done.err


def snap(box: Sandbox, track: str = "t", step: str = "s", *options: str) -> str:
    """A checkpoint by the command line; its id."""
    done = box.ok("snapshot", "--track", track, "--step", step, "--porcelain", *options)
    return done.out.splitlines()[-1].split("\t")[1]


def actions(done: Outcome) -> dict[str, str]:
    """``path -> action`` of a run with --json."""
    assert done.out, f"exit {done.code}, and nothing on standard output\n{done.err}"
    return {path_of(row["path"]): row["action"] for row in done.json["paths"]}


def path_of(value: Any) -> str:
    """A path of a JSON document; one that is not UTF-8 is ``{"b64": ...}``."""
    return os.fsdecode(base64.b64decode(value["b64"])) if isinstance(value, dict) else str(value)


def spoken(done: Outcome, prefix: str = "") -> dict[str, str]:
    """``path -> action`` of the lines of a run without --json; what is not such a line is left out."""
    found = {}
    for line in done.out.splitlines():
        match = re.match(re.escape(prefix) + r"(write|create|remove|keep|conflict|refuse) (.*?)(?: \((.*)\))?\Z", line)
        if match:
            found[match.group(2)] = match.group(1)
    return found


def forget_what_no_ref_holds(box: Sandbox) -> None:
    """The sharpest gc there is; reflogs stay, whatever their age."""
    box.git("-c", "gc.reflogExpire=never", "-c", "gc.reflogExpireUnreachable=never", "gc", "-q", "--prune=now")


def insert(store: Store, track: str, more: Iterable[Link]) -> int:
    """Carry out what ``joined`` plans, and nothing that is derived from the chain; how many ids were new.

    Raises RefConflictError when somebody moved the chain meanwhile.
    """
    plan = joined(store, track, more)
    if plan.change is not None:
        publish(store.repo, [plan.change], new=plan.objects)
    return plan.added
