"""A small world that a script of commands is played in, and all that can be seen of it after each."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.deep.differential.sides import Side
from tests.kit.repos import Sandbox

START = 1769904000  # 2026-02-01, a Sunday
# What is of one process only: temporary names, numbers of processes, how long something took, how many bytes git packed.
MASKS = tuple(
    (re.compile(pattern, re.MULTILINE), name)
    for pattern, name in (
        (r'"duration_ms":\s*\d+', '"duration_ms": N'),
        (r"\b\d+(?:\.\d+)? m?s\b", "N s"),
        (r"about \d+(?:\.\d+)? [KMG]?i?B\b|\b\d+(?:\.\d+)? [KMG]?i?B\b", "N B"),
        (
            r'"(?:bytes|size|reclaimed|on_disk|attempt_id|pid|boot|nonce|lineage|idem|compensates)":\s*(?:"[^"]*"|\d+)',
            '"MASKED"',
        ),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID"),
        (r"(?<=baton-)(?:bisect|drill|scratch)?[.-]?[a-z0-9_]{8}\b", "TMP"),
        (r"(?<=:\d\d)\.\d{6}Z", "Z"),
        (r"/old-package\b", ""),
        (r"(?<=/\.git/baton/late/)[^']*", "KEPT"),
        (r"(?<=: gitbaton )\d+\.\d+\.\d+(?=, git )", "VERSION"),
    )
)
_COUNT = re.compile(r" *\b\d+\b")
_ID = re.compile(r"\b[0-9a-f]{10,40}\b")


class Seen(NamedTuple):
    """What one command said, and what stands afterwards: everything by name."""

    words: str
    code: int
    out: str
    err: str
    state: dict[str, str]


@dataclass(frozen=True)
class Step:
    """One command: of ours (``baton``), of git's, or an edit by Python; ``place`` is a folder of the world."""

    words: tuple[str, ...] = ()
    place: str = "repo"
    stdin: str = ""
    git: bool = False
    edit: Callable[[Path], None] | None = None
    wait: int = 90  # seconds that pass before it; an age in whole units must not stand on an edge


class World:
    """A repository, its clone and a bare remote between them, made of a template; the same path for both sides."""

    def __init__(self, top: Path, side: Side) -> None:
        self.top, self.side, self.now = top, side, START
        self.own: set[str] = set()  # ids that no other process gives, of records that tell how long something took

    def play(self, steps: Sequence[Step]) -> Iterator[Seen]:
        """Do one after the other; what is seen after each."""
        for step in steps:
            self.now += step.wait
            place = self.top / step.place
            if step.edit is not None:
                step.edit(place)
                continue
            if step.git:
                done = Sandbox(place).run("git", *step.words, env=self.side.env(self.now))
            else:
                stdin = step.stdin.replace("@PLACE@", str(place)).encode()
                done = self.side.baton([w.replace("@TOP@", str(self.top)) for w in step.words], place, self.now, stdin)
            self.own |= ids_of_runs(place)
            pattern = _ID if step.words[0] == "drill" else re.compile("|".join(sorted(self.own)) or "$^")
            said = [pattern.sub("ID", masked(text)) for text in (done.out, done.err)]
            if step.words[0] == "du":  # an object with a random id in it is packed into another number of bytes
                said = [_COUNT.sub(" N", text) for text in said]
            words = f"{step.place}: {' '.join(step.words)}"
            yield Seen(words, done.code, said[0], said[1], self.state(place))

    def state(self, place: Path) -> dict[str, str]:
        """Refs, records of runs, files, index and LATEST of a repository."""
        git = Sandbox(place).git
        found: dict[str, str] = {}
        for row in git("for-each-ref", "--format=%(refname) %(objectname) %(symref)").splitlines():
            name, value = row.split(" ", 1)
            found[name] = runs(place, name) if "/runs/" in name else value
        for name in ("HEAD", "BATON_HEAD"):
            path = place / ".git" / name
            found[name] = path.read_text() if path.exists() else ""
        found["index"] = git("ls-files", "-s", "-v")
        found["config"] = masked(git("config", "--list", "--local"))
        found |= {f"file {name}": value for name, value in files(place)}
        return found


def masked(text: str) -> str:
    """A text without what is of one process only."""
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return text


def ids_of_runs(place: Path) -> set[str]:
    """The ids of the records of all runs."""
    return set(
        Sandbox(place)
        .git("log", "--format=%H", "--first-parent", "--glob=refs/baton/runs", "--glob=refs/baton/remotes/*/runs")
        .split()
    )


def runs(place: Path, ref: str) -> str:
    """The records of a run's chain: they tell how long commands took, so that their ids differ."""
    words = ["git", "-C", str(place), "log", "--first-parent", "--format=%T%n%B", ref]
    return digest(subprocess.run(words, capture_output=True, check=True).stdout)


def digest(data: bytes) -> str:
    """The digest of bytes that tell how long something took, so that ids in them differ: these are numbered."""
    known: dict[str, str] = {}
    text = masked(data.decode("utf-8", "replace"))
    text = re.sub(r"\b[0-9a-f]{40}\b", lambda m: known.setdefault(m[0], f"id{len(known)}"), text)
    return hashlib.sha1(text.encode()).hexdigest()


def files(place: Path) -> Iterator[tuple[str, str]]:
    """Every file and link of a work tree: its mode and its bytes' digest."""
    for folder, below, names in os.walk(place):
        below[:] = [name for name in below if name != ".git"]
        for name in (*names, *(name for name in below if os.path.islink(os.path.join(folder, name)))):
            path = os.path.join(folder, name)
            if name == ".git":
                continue
            if os.path.islink(path):
                yield os.path.relpath(path, place), f"link {os.readlink(path)}"
                continue
            data = Path(path).read_bytes()
            held = digest(data) if name == "record.json" else hashlib.sha1(data).hexdigest()
            yield os.path.relpath(path, place), f"{'x' if os.stat(path).st_mode & stat.S_IXUSR else '-'} {held}"


def template(place: Path) -> None:
    """A repository with two commits and a branch, a bare remote, and a clone of it."""
    place.mkdir(parents=True)
    far = Sandbox.init(place / "far.git", "--bare")
    repo = Sandbox.init(place / "repo")
    repo.git("config", "gc.auto", "0")
    repo.commit("first", a_txt="one\n", b_txt="1\n2\n3\n4\n5\n6\n", _gitignore="*.log\nout/\n")
    repo.write("d/c.txt", "c\n")
    repo.git("branch", "other")
    repo.commit("second", a_txt="two\n")
    repo.git("remote", "add", "origin", str(far.path))
    repo.git("push", "-q", "origin", "main", "other")
    subprocess.run(["git", "clone", "-q", str(far.path), str(place / "peer")], check=True)
    Sandbox(place / "peer").git("config", "gc.auto", "0")


def played(place: Path, begun: Path, side: Side, steps: Sequence[Step]) -> list[Seen]:
    """What a side shows of a script, played at ``place`` in a copy of ``begun``."""
    shutil.copytree(begun, place, symlinks=True)
    for name in ("repo", "peer"):
        if (place / name).is_dir():
            Sandbox(place / name).try_git("update-index", "--refresh")
            subprocess.run(["git", "-C", str(place / name), "config", "remote.origin.url", str(place / "far.git")], check=True)
            born = place / name / ".git" / "baton" / "worktree"  # its time is a part of every checkpoint
            born.parent.mkdir(exist_ok=True)
            born.touch()
            os.utime(born, (START, START))
    try:
        return list(World(place, side).play(steps))
    finally:
        shutil.rmtree(place)


def differences(old: Sequence[Seen], new: Sequence[Seen]) -> list[str]:
    """What the two sides did not do alike, in words; the first command that differs is enough."""
    for number, (was, now) in enumerate(zip(old, new, strict=True)):
        told = [f"{name}: {a!r}\n   now: {b!r}" for name, a, b in zip(was._fields[:4], was[:4], now[:4], strict=True) if a != b]
        names = sorted(was.state.keys() | now.state.keys())
        told += [
            f"{name}: {was.state.get(name)!r}\n   now: {now.state.get(name)!r}"
            for name in names
            if was.state.get(name) != now.state.get(name)
        ]
        if told:
            return [f"step {number}, {was.words} ({was.code})", *told]
    return []


def hook(client: str, event: str, **fields: object) -> Step:
    """A client's hook call, with what it sends."""
    sent = {"session_id": "5e551011", "cwd": "@PLACE@", "hook_event_name": event, "transcript_path": "", **fields}
    return Step(words=("hook", client, event), stdin=json.dumps(sent))
