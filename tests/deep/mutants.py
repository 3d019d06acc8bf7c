"""Forty plausible mistakes, and which of them the tests notice: ``python -m tests.deep.mutants --coverage FILE``.

Each is made in a copy of the checkout, and the tests that reach its first line are run there until one fails. FILE is what
``python -m tests.deep.covered`` wrote for this very commit. That each can still be made is held by
``tests/promises/test_mutants_apply.py``.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.kit.places import PACKAGE, ROOT

LIST = r"""
store checkpoints/store/chain.py: a lost swap counts as recorded
-if tip() != commit:
+if tip() is None:

store checkpoints/store/join.py: equal times keep their order
-return sorted(chosen.values(), key=lambda link: (link.created, link.id))
+return sorted(chosen.values(), key=lambda link: link.created)

store checkpoints/store/meta.py: pins protect nothing from pruning
-return oid in self.forgotten or (oid in self.pruned and not self.pinned(oid))
+return oid in self.forgotten or oid in self.pruned

codec base/codec/notes.py: a short entry beats a whole one
-entries[oid] = min(entries.get(oid, text), text, key=lambda text: text == short(text))
+entries[oid] = min(entries.get(oid, text), text, key=len)

sync care/sync/kinds.py: a remote that names an id is told its words
-return own if own != text and self.has(oid, own) else text
+return own

codec base/codec/notes.py: a value forges an entry
-lines += ["\t" + line for line in kept[1:]]
+lines += kept[1:]

waist checkpoints/names.py: two meanings are no error
-if len(by_id) > 1:
+if len(by_id) > 2:

waist checkpoints/survey.py: ahead and behind are swapped
-ahead, behind = distance
+behind, ahead = distance

restore checkpoints/restore/attribution.py: the last holder owns it
-first = {path: min((seen for _, seen in held), key=self.rank) for path, held in holders.items()}
+first = {path: max((seen for _, seen in held), key=self.rank) for path, held in holders.items()}

restore checkpoints/restore/attribution.py: what was committed here is somebody else's
-return {path: oid for path, oid in found.items() if oid not in made}
+return found

restore checkpoints/restore/plan.py: what no capture holds goes
-reason = self.goal.scene.unsafe(d.path)
+reason = None

restore checkpoints/restore/apply.py: the intent names no safety
-intent = replace(intent, safety=self.safety.commit if self.safety else None)
+intent = replace(intent, safety=None)

restore checkpoints/restore/recover.py: a killed restore's lock stays
-reached("recover")
-lock.release()
+reached("recover")

worktree git/worktree/index.py: the copy is not old
-os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))
+pass

worktree git/worktree/filetrees.py: .GIT may be written
-text = os.fsdecode(name).translate(_HFS).lower().rstrip(" .")
+text = os.fsdecode(name).translate(_HFS).rstrip(" .")

worktree git/worktree/place.py: a late write is lost
-late = [path for path in self.moved if _is_late(*self.places[path])]
+late = list[str]()

waist checkpoints/mirror.py: the user's LATEST is overwritten
-return [name for name in there if not _MARKS[name].match(_read(folder, name) or b"")]
+return []

hooks agents/hooks/auto.py: earlier turns are not counted
-carried=replace(source, turns=source.turns + turns, foreign=source.foreign or here.foreign, restored=back),
+carried=replace(source, turns=turns, foreign=source.foreign or here.foreign, restored=back),

hooks cli/main.py: a hook fails its caller
-os._exit(0 if _guarding() else code)  # a guard never breaks the guarded
+os._exit(code)

agents agents/signs.py: what was taken back counts
-self.kept = [firm[number] in chain for number in range(len(self._steps))]
+self.kept = [True for _ in self._steps]

agents agents/claude.py: Copilot's events count twice
-if env.get("COPILOT_CLI") or env.get("CURSOR_VERSION") or fields.get("cursor_version"):
+if env.get("CURSOR_VERSION") or fields.get("cursor_version"):

waist checkpoints/briefing.py: stored text forges our rows
-rest = (f"{self.mark}    {row}" if row.strip() else self.mark for row in kept[1:])
+rest = kept[1:]

secrets base/secrets/redactor.py: allowed beginnings allow the rest
-if text[start:end].strip("\f") and not any(pattern.fullmatch(text, start, end) for pattern in self.allow):
+if text[start:end].strip("\f") and not any(pattern.match(text, start, end) for pattern in self.allow):

secrets care/scanning/objects.py: the line before is named
-hit = _nowhere(text.count(b"\n", 0, finding.start) + 1, finding.kind)
+hit = _nowhere(text.count(b"\n", 0, finding.start), finding.kind)

retention care/retention/rules.py: carried words are pruned
-words |= {item.carried} if item.id in found else set()
+words |= set()

retention checkpoints/store/revision.py: carriers come back by sync
-self.meta = replace(self.meta, forgotten=more)
+pass

sync care/sync/push.py: secrets that were seen go
-if hits or not self.manner.write or not moving:
+if not self.manner.write or not moving:

sync care/sync/push.py: nobody agrees to runs
-runs = [move for move in fresh if move.kind == "run"]
+runs = [move for move in moves if move.kind == "run" and move.item in agreed]

sync care/sync/rounds.py: fetch prunes without being asked
-return sorted(gone), lost | {ref for ref, item in fetched.items() if prune and item in gone}
+return sorted(gone), lost | {ref for ref, item in fetched.items() if item in gone}

transcripts agents/transcripts/files.py: what was forgotten is forgotten
-return old and _noted(os.path.join(folder, name)) != _FORGOTTEN
+return old

install agents/install/levels.py: the user's handlers go, too
-alone = len(path) > 3 and group is not None and len(group.members) == 1
+alone = len(path) > 3

install agents/install/githooks.py: kept hooks never come back
-kepthooks.restore(draft, path, event if path == places[0] else None)
+kepthooks.restore(draft, path, None)

journal runs/journal/chain.py: outputs miss the disk
-move_refs(self.repo, [RefChange(name=ref, new=commit.oid, old=tip)], how=how, disk=self._disk)
+self.repo.objects.update([RefChange(name=ref, new=commit.oid, old=tip)])

journal runs/journal/state.py: a doubtful effect never happened
-return _with_effect(step, effect if effect.doubt else replace(effect, state="undone"))
+return _with_effect(step, replace(effect, state="undone"))

runs runs/decide.py: an approval outlives its inputs
-return "open" if step.gate is None or (state.gate == "approved" and state.gate_key == key) else "gate"
+return "open" if step.gate is None or state.gate == "approved" else "gate"

runs runs/effects.py: dependents are undone last
-return undo(ctx, plan, live(ctx.state(), others) + mine[::-1], held)
+return undo(ctx, plan, mine[::-1] + live(ctx.state(), others), held)

runs runs/effects.py: torn outputs become a result
-doubt = "" if person or not step.writes else _doubt(ctx, step, record, found)
+doubt = ""

runs runs/claims.py: unreadable claims hold nobody back
-return held.worktree in (mine.worktree, _UNKNOWN) and globs.overlap(held.writes, mine.writes) is not None
+return held.worktree == mine.worktree and globs.overlap(held.writes, mine.writes) is not None

threads langgraph/threads/log.py: a put outruns the disk
-if token > self._synced and self._strict:
+if token < self._synced and self._strict:

threads langgraph/threads/edit.py: the log drops unflushed lines
-core.stuck = failed if views else {}
-if failed.keys() <= carried:
+core.stuck = failed if views else {}
+if views or failed.keys() <= carried:

threads langgraph/threads/edit.py: early writes are pruned
-gone: dict[str, ThreadCheckpoint | None] = {id: None for id in view.late.ids() if id < head.id and id not in kept}
+gone: dict[str, ThreadCheckpoint | None] = {id: None for id in view.late.ids() if id not in kept}

langgraph langgraph/saver.py: version 10 precedes version 9
-return f"{number + 1:032}.{random.random():016}"
+return f"{number + 1}.{random.random():016}"

mcp cli/commands/mcptools.py: foreign rows lose their mark
-*quote(rows, strange or found[0]),
+*rows,

commands cli/commands/verify.py: changed files fail verify
-code = 1 if live.drift.moved or lower or (strict and (live.drift.anything or live.uncounted)) else 0
+code = 1 if live.drift.anything or lower or (strict and live.uncounted) else 0
"""
COPIED = ("gitbaton", "tests", "hooks", ".github", "pyproject.toml", "README.md", "CHANGELOG.md", "checkpoint_protocol.md")
SECONDS = 300
SEED = 16
WHERE = "import gitbaton, tests; print(gitbaton.__file__); print(tests.__file__)"


class Mutant(NamedTuple):
    """A mistake: whole lines of a file of the package, without their common indentation, and what stands there instead."""

    room: str
    file: str
    what: str
    old: tuple[str, ...]
    new: tuple[str, ...]

    def places(self, source: str) -> list[int]:
        """Where the old lines begin in a source, counted from 0."""
        rows = source.split("\n")
        return [at for at in range(len(rows)) if rows[at : at + len(self.old)] == _indented(self.old, rows[at])]

    def made(self, source: str) -> str:
        """The source with the mistake in it."""
        rows, (at,) = source.split("\n"), self.places(source)
        rows[at : at + len(self.old)] = _indented(self.new, rows[at])
        return "\n".join(rows)


def _indented(lines: Sequence[str], like: str) -> list[str]:
    blank = like[: len(like) - len(like.lstrip())]
    return [blank + line for line in lines]


def _parsed(text: str) -> Mutant:
    title, *rows = text.split("\n")
    place, _, what = title.partition(": ")
    room, _, file = place.partition(" ")
    old, new = (tuple(row[1:] for row in rows if row[0] == sign) for sign in "-+")
    return Mutant(room=room, file=file, what=what, old=old, new=new)


MUTANTS = tuple(_parsed(text) for text in LIST.strip().split("\n\n"))


class Coverage:
    """Which tests reach a line, of those that are to count, the narrowest first: those that reach the fewest files."""

    def __init__(self, path: Path, tests: set[str]) -> None:
        from tests.deep import covered

        self.path, self.covered, self.files = path, covered, covered.lines(path)
        self.width = dict.fromkeys(tests, 0)
        rows = sqlite3.connect(path).execute(
            "select context, count(*) from context join line_bits on context.id = context_id group by context.id"
        )
        for context, count in rows:
            for name in context.split("|"):
                name = name.rsplit(" (", 1)[0]
                if name in self.width:
                    self.width[name] += count

    def chosen(self, file: str, line: int, most: int) -> list[str]:
        """At most so many tests: half of them the narrowest, and of the others some by chance, the same ones each time."""
        found = self.covered.reached_by(self.path, file, line) if file in self.files else set()
        able = sorted(found & self.width.keys(), key=lambda name: (self.width[name], name))
        if len(able) <= most:
            return able
        near, far = able[: most // 2], able[most // 2 :]
        return near + random.Random(SEED).sample(far, most - len(near))


class Copy:
    """A copy of the checkout, in which tests import the package from there and from nowhere else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, symlinks=True)
            else:
                shutil.copy2(ROOT / name, folder / name)
        self.env = {**os.environ, "PYTHONPATH": str(folder)}
        for place in ("/", folder):
            said = subprocess.run([sys.executable, "-c", WHERE], cwd=place, env=self.env, capture_output=True, text=True)
            if said.stdout.split() != [str(folder / name / "__init__.py") for name in ("gitbaton", "tests")]:
                raise SystemExit(f"a copy is not what is tested: {said.stdout}{said.stderr}")

    def failing(self, tests: Sequence[str]) -> str | None:
        """The first test that fails; None where none does, and else what stopped pytest."""
        words = ("-m", "pytest", "-x", "-q", "-n", "2", "-m", "", "-rfE", "--tb=no", "-p", "no:cacheprovider")
        with tempfile.TemporaryFile("w+", errors="replace") as out:
            process = subprocess.Popen(
                [sys.executable, *words, *tests], cwd=self.folder, env=self.env, stdout=out, stderr=out, start_new_session=True
            )
            try:
                code = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return f"the clock ({SECONDS} s)"
            out.seek(0)
            said = out.read()
        if code == 0:
            return None
        if code > 2:
            raise SystemExit(f"pytest ended with {code}:\n{said}")
        rows = [row.split(" ", 1)[1] for row in said.splitlines() if row.startswith(("FAILED ", "ERROR "))]
        named = (test for row in rows for test in tests if row == test or row.startswith(f"{test} - "))
        return next(named, None) or f"pytest, which ended with {code}: {' '.join(rows)[:200] or said[-500:]}"


def killer(mutant: Mutant, tests: Sequence[str], folder: Path) -> str | None:
    """What notices a mistake: a test that fails with it and passes without."""
    changed = Copy(folder / "changed")
    path = changed.folder / "gitbaton" / mutant.file
    path.write_text(mutant.made(path.read_text()))
    plain, left = None, list(tests)
    while left and (found := changed.failing(left)) is not None:
        plain = plain or Copy(folder / "plain")
        if found not in left or plain.failing([found]) is None:
            return found
        print(f"   fails without the mistake, too: {found}", file=sys.stderr)
        left.remove(found)
    return None


def listed(tier: str) -> set[str]:
    """The tests of the default tier, or of both."""
    words = ("-m", "pytest", "--collect-only", "-n", "0", "--dist", "no", *(("-m", "") if tier == "whole" else ()))
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"pytest collects nothing:\n{done.stdout[-2000:]}{done.stderr}")
    return {row for row in done.stdout.splitlines() if "::" in row}


def main(words: list[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.deep.mutants")
    parser.add_argument("--coverage", type=Path, required=True, help="what python -m tests.deep.covered wrote")
    parser.add_argument("--tier", choices=("default", "whole"), default="default")
    parser.add_argument("--only", metavar="N,N", help="only these, counted from 1")
    parser.add_argument("--most", type=int, default=60, help="tests for one mutant (60)")
    given = parser.parse_args(words)
    numbers = [int(word) for word in given.only.split(",")] if given.only else range(1, len(MUTANTS) + 1)
    reached, killed = Coverage(given.coverage, listed(given.tier)), 0
    for number in numbers:
        mutant = MUTANTS[number - 1]
        (at,) = mutant.places((PACKAGE / mutant.file).read_text())
        tests = reached.chosen(mutant.file, at + 1, given.most)
        with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
            found = killer(mutant, tests, Path(folder).resolve()) if tests else None
        killed += found is not None
        said = f"killed by {found}" if found else f"survived {len(tests)} tests" if tests else "not covered"
        print(f"{number:2} {mutant.room}, {mutant.file}:{at + 1}, {mutant.what}: {said}", flush=True)
    print(f"{killed} of {len(numbers)} killed")


if __name__ == "__main__":
    main(sys.argv[1:])
