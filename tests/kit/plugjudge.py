"""Judges of what a command left that was cut short: git reads every object that a ref reaches, and our verbs go on."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from gitbaton.git.objects import new_object
from tests.kit.plug import Recording
from tests.kit.plugdisk import MODELS, Cut, Disk
from tests.kit.repos import Outcome, Sandbox
from tests.kit.state import files_of
from tests.kit.tiers import FULL

LOST, TORN, WEDGED, LITTER, WRONG = KINDS = ("lost", "torn", "wedged", "litter", "wrong")
STATES = dict.fromkeys(MODELS, 400) if FULL else {"killed": 10, "ordered": 6, "weaker": 7}
_turns = count()


@dataclass(frozen=True)
class Problem:
    """Something that must not be: ``lost`` bytes or promises, ``torn`` refs, a ``wedged`` verb, an assertion of the judge that
    is ``wrong``; or ``litter``: git finds something wrong, perhaps with what nothing reaches."""

    kind: str
    text: str


Judge = Callable[[Cut, bool], Iterable[Problem]]


@dataclass(frozen=True)
class Judged:
    """A state and what is wrong with it."""

    cut: Cut
    acknowledged: bool
    problems: tuple[Problem, ...]
    missing: tuple[str, ...]


def check(
    recording: Recording,
    judge: Judge,
    *,
    models: Sequence[str] = MODELS,
    states: int = 0,
    near: str = "",
    few: bool = False,
) -> None:
    """Judge many states of each model, and fail with what is wrong, the shortest reason first.

    ``states``: how many instead of the usual number; ``near``: of which files the writing is cut short most often, a pattern
    of paths; ``few``: nearly all is synced at once, or little is done, so that there are not many states.
    """
    global _turns
    _turns = count()  # the same verb meets the same state, whichever tests ran before
    final, disk = now(recording.top), Disk(recording)
    disk.put(Cut("whole", len(recording.ops), frozenset(), frozenset(), "nothing is missing"))
    assert problems(judge, disk, True) == (), "the judge blames what nothing happened to"
    found = []
    for model in models:
        for cut in disk.states(model, states or STATES[model], 1, near):
            disk.put(cut)
            acknowledged = cut.at >= recording.said()
            found.append(Judged(cut, acknowledged, problems(judge, disk, acknowledged, cut), tuple(disk.missing(cut))))
    wanted = sum(states or STATES[model] for model in models)
    assert few or FULL or len(found) >= wanted * 3 // 4, f"only {len(found)} states of {len(recording.ops)} things done"
    assert not any(wrong(each) for each in found), table(recording, found, final)


def problems(judge: Judge, disk: Disk, acknowledged: bool, cut: Cut | None = None) -> tuple[Problem, ...]:
    """What a judge finds; what it raises is a problem, too."""
    found = list[Problem]()
    try:
        for problem in judge(cut or Cut("whole", len(disk.ops), frozenset(), frozenset(), ""), acknowledged):
            found.append(problem)
    except Exception as error:
        found.append(Problem(WRONG, f"{type(error).__name__}: {error}"))
    return tuple(found)


def wrong(each: Judged) -> list[Problem]:
    """What must not be: litter that nothing reaches only before the command has said done."""
    return [problem for problem in each.problems if problem.kind != LITTER or each.acknowledged]


def table(recording: Recording, found: Sequence[Judged], final: dict[str, bytes]) -> str:
    """What was found, by model; and for each kind of failure the states that lack least."""
    disk, lines = Disk(recording), [f"{len(recording.ops)} things done, {Counter(o.kind for o in recording.ops)}\n"]
    if recording.mapped:
        lines.append(f"  written through memory: {recording.mapped}\n")
    for model in MODELS:
        states = [each for each in found if each.cut.model == model]
        by = Counter(kind for each in states for kind in {problem.kind for problem in each.problems})
        fine = sum(not each.problems for each in states)
        lines.append(f"  {model}: {len(states)} states, {' '.join(f'{kind}={by[kind]}' for kind in KINDS)} fine={fine}\n")
    seen: set[tuple[str, str]] = set()
    for each in sorted(found, key=lambda each: (not each.acknowledged, len(each.cut.missing))):
        why = reasons(each.cut, disk, final)
        for problem in wrong(each):
            key = (problem.kind, problem.text[:24])
            if key not in seen and len(seen) < 40:
                seen.add(key)
                moment = "after it had said done" if each.acknowledged else "before it had said done"
                lines.append(f"  {problem.kind}: {problem.text[:1500]}\n    {moment}; {each.cut.name}\n")
                lines.append(f"    not there: {', '.join(why[:12])}{' ...' if len(why) > 12 else ''}\n")
    return "".join(lines)


def whole(box: Sandbox) -> Iterator[Problem]:
    """Every ref is readable, and all that it reaches: names a problem for each that is not."""
    refs = box.try_git("for-each-ref", "--format=%(objectname)")
    for line in refs.err.splitlines():
        yield Problem(TORN, f"{box.path.name}: {line}")
    heads = "\n".join(dict.fromkeys(refs.out.split()))
    walked = box.run("git", "rev-list", "--objects", "--no-object-names", "--stdin", stdin=heads.encode())
    if refs.code or walked.code:
        yield Problem(TORN, f"{box.path.name}: {last(refs.err + walked.err)}")
        return
    held = subprocess.run(["git", "cat-file", "--batch"], cwd=box.path, input=walked.out.encode(), capture_output=True)
    if held.returncode or re.search(rb"^[0-9a-f]{40,64} missing$", held.stdout, re.MULTILINE):
        gone = re.findall(rb"^([0-9a-f]{40,64}) missing$", held.stdout, re.MULTILINE)
        said = last(held.stderr.decode()) or f"missing {gone[0].decode()}"
        yield Problem(TORN, f"{box.path.name}: a ref reaches what cannot be read: {said}")


def clean(box: Sandbox) -> Iterator[Problem]:
    """Git's own look at everything; what nothing reaches may be torn while a command is under way."""
    done = box.try_git("fsck", "--no-dangling")
    if done.code:
        yield Problem(LITTER, f"{box.path.name}: git fsck: {done.err.splitlines()[0] if done.err else done.out.strip()}")


def last(text: str) -> str:
    """The last line that says something."""
    return ([line for line in text.splitlines() if line.strip()] or [""])[-1].strip()


def spoken(box: Sandbox, *words: str, good: Sequence[int] = (0,)) -> tuple[Outcome, list[Problem]]:
    """A verb, and what is wrong with how it ended."""
    try:
        done = box.here(*words)
    except Exception as error:
        return Outcome(-1, "", ""), [Problem(WEDGED, f"'{words[0]}' raises {type(error).__name__}: {error}")]
    if done.code in good and "Traceback" not in done.err:
        return done, []
    return done, [Problem(WEDGED, f"'{words[0]}' exits {done.code}: {' / '.join(done.err.strip().splitlines()[:2])}")]


def goes_on(box: Sandbox, track: str = "t", *, reads: bool = True) -> Iterator[Problem]:
    """Every verb of a day works: it shows, each in its turn and all at full size, takes the same files again, and gives every
    byte of them back."""
    shows = (("log", track), ("resume", track), ("status",)) if reads else ()
    for words in shows if FULL else shows[next(_turns) % 3 :][:1]:
        yield from spoken(box, *words)[1]
    before = files_of(box.path)
    _, wrong = spoken(box, "snapshot", "--track", track, "--step", "after the cut")
    yield from wrong
    if wrong:
        return
    for path in (path for path in files_of(box.path) if not path.startswith("runtime/")):
        full = box.path / path
        if not full.is_symlink():
            full.write_bytes(b"spoilt\n")
    done, wrong = spoken(box, "restore", track)
    yield from wrong
    now = files_of(box.path)
    for path, held in before.items():
        if not wrong and not path.startswith("runtime/") and now.get(path) != held:
            yield Problem(LOST, f"a snapshot after the cut does not give '{path}' back: {done.err.strip()[:200]}")


def somewhere(top: Path, box: Sandbox, wanted: Mapping[str, bytes]) -> Iterator[Problem]:
    """Bytes are in a file or in an object: names those that are not."""
    ids = {name: new_object("sha1", "blob", data).oid for name, data in wanted.items()}
    held = {path.read_bytes() for path in top.rglob("*") if path.is_file() and not path.is_symlink()}
    for name, data in wanted.items():
        if data not in held and not _stored(box, ids[name], data):
            yield Problem(LOST, f"the bytes that '{name}' had are in no file and in no object")


def _stored(box: Sandbox, oid: str, data: bytes) -> bool:
    done = subprocess.run(["git", "cat-file", "blob", oid], cwd=box.path, capture_output=True)
    return done.returncode == 0 and done.stdout == data


def holds(box: Sandbox, commit: str, wanted: Mapping[str, bytes]) -> Iterator[Problem]:
    """A checkpoint has these files, byte for byte."""
    tree = box.try_git("ls-tree", "-r", commit)
    if tree.code:
        yield Problem(LOST, f"the checkpoint cannot be read: {last(tree.err)}")
        return
    rows = {line.partition("\t")[2]: line.split()[2] for line in tree.out.splitlines()}
    for name, data in wanted.items():
        oid = new_object("sha1", "blob", data).oid
        if rows.get(name) != oid or not _stored(box, oid, data):
            yield Problem(LOST, f"the checkpoint does not give '{name}' back")


def tip(box: Sandbox, ref: str) -> str:
    """What a ref points at; "" where it is not readable."""
    done = box.try_git("rev-parse", "-q", "--verify", ref)
    return done.out.strip() if done.code == 0 else ""


# What a loss is about.


def kind(path: str, final: Mapping[str, bytes]) -> str:
    """What a file of a repository is to us, in one or two words; ``final``: the files after the command, whole."""
    inner = re.sub(r"^.*?(?:\.git|far\.git|threads\.git)/", "", path)
    if inner == path:
        return "LATEST" if "/runtime/" in path else "work tree file"
    if match := re.match(r"objects/[0-9a-f]{2}/[0-9a-f]{38}", inner):
        with contextlib.suppress(zlib.error, KeyError):
            return f"loose {zlib.decompressobj().decompress(final[path], 16).split(b' ')[0].decode()}"
        return f"loose object {match[0][-6:]}"
    if inner.startswith("objects/pack/"):
        return f"pack .{inner.rpartition('.')[2]}"
    if inner.startswith("objects/"):
        return "folder of objects"
    if match := re.match(r"(?:refs|logs)/(?:baton/)?[^/]+", inner):
        return match[0]
    if match := re.match(r"baton/(?:tmp/[^/]+|[^/]+)", inner):
        return re.sub(r"/[^/]*\d[^/]*$", "/*", match[0])
    return inner.split("/")[0]


def reasons(cut: Cut, disk: Disk, final: Mapping[str, bytes]) -> list[str]:
    """The kinds of what a state lacks."""
    found: dict[str, None] = {}
    for number in sorted(cut.missing):
        op = disk.ops[number]
        path = (disk.rec.paths[op.file] or ["?"])[-1]
        found[f"{'name of ' if op.kind == 'name' else 'bytes of '}{kind(path, final)}"] = None
    return list(found)


def now(top: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        os.path.relpath(path, top): path.read_bytes() for path in top.rglob("*") if path.is_file() and not path.is_symlink()
    }
