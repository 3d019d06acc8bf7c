"""The repositories that commit 5b105d9 wrote, what each verb said of them then, and the words that have changed since.

``tests/data/v5b105d9`` holds them, and ``make.py`` there wrote them: ``whole`` has something of everything; the others are
copies of it that a kill left in the middle of a restore, of a join, and with the log of a LangGraph saver unflushed.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tests.kit.places import DATA, unpacked
from tests.kit.repos import Outcome

FOLDER = DATA / "v5b105d9"
ARCHIVE = FOLDER / "repositories.tar.xz"
Run = Callable[[Sequence[str], bytes], Outcome]

# Asked of one copy of ``whole``, each for itself: they change nothing that another one shows.
READS = """
resume
resume --live
resume --json
resume --live --json
resume --track 'side work/b'
resume --track auto --live
resume --track ünï
resume --track far
resume --track gone
verify
verify --strict
verify --json
verify --track auto
verify --track far
status
status --json
status --porcelain
tracks
tracks --json
tracks --porcelain
log
log -n 2
log 'side work/b'
log auto
log far
log --all
log --all -n 5
log --all --json
log --porcelain
log -z
log nothing
show
show before-rewrite
show main~1
show auto
show far
show conflict
show 'main@{1}'
show 'main@{2026-01-01 10:30}'
show main@{manual}
show @~2 --json
show HEAD
show nothing
diff
diff main~1 main
diff main~1 main --name-status
diff before-rewrite --stat -- src
restore -n main~1
restore -n main~1 --exact --index --json
restore -n conflict --index
restore -n far
restore -n far --foreign
restore -n auto
undo -n
undo -n --json
redo -n
transcript show auto
transcript show auto --json
transcript show main
steps
steps plan
steps single
steps plan --json
steps far-run
steps plan --why publish
run --continue plan -n
run --continue single -n
repair plan -n --step build
compensate -n --run plan
journal show plan
journal show single --json
journal show plan --step publish
journal verify plan
journal verify single
journal verify far-run
threads
threads --json
thread log talk
thread log talk --ns inner
thread show talk
thread show talk @~1 --json
thread show 'odd/thread ü'
thread show nobody
prune -n --keep-last 1
prune -n main --keep-daily 2 --json
prune -n --threads
forget -n main~1
forget -n before-rewrite --everywhere
scan
scan --all --files
scan --threads
du --json
doctor
push -n origin
"""

# Asked one after the other of a fresh copy: each may change what the next one shows. An id, and a count of bytes, may be new.
WRITES = {
    "whole": """
snapshot --track main --step 'after the upgrade' --validation green --next-cmd 'make next'
resume --live
restore main~1
undo
redo
log
snapshot --track far --step 'followed here'
log far
pin main~2
tracks use ünï
resume
run --continue plan
approve publish --run plan
run --continue plan
settle deploy --done --run single
run --continue single
steps plan
compensate --run plan
journal verify plan
thread delete talk
threads
prune --keep-last 2
log --all
forget before-rewrite
worktree main ../beside
branch rescue main~1
export --history
sync origin
hook claude SessionStart
hook claude UserPromptSubmit
hook claude Stop
log auto -n 2
""",
    "mid-restore": """
status
restore -n main~1
log
undo
verify --strict
""",
    "mid-join": """
log far
sync origin
snapshot --track main --step 'after the kill'
log --all
status
""",
    "killed-log": """
threads
thread log talk
thread show talk
thread log unflushed
thread show unflushed
""",
}
_MADE_AT = "/tmp/yesterday"
_MOVED = ("config", "baton/restore", "baton/pushed/origin/main", "baton/pushed/origin/side%20work%2Fb")  # files below .git
_AGE = re.compile(r" *\b\d+ (?:second|minute|hour|day|week|month|year)s? ago\b *")
_ID = re.compile(r"\b[0-9a-f]{7,64}\b")
_TIME = re.compile(r"\b20(?!26-01)\d\d-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?Z| \d\d:\d\d:\d\d(?: \+0000)?)")
_RENAMED = re.compile(r"^hint: 'git baton [a-z ]+' is now 'git baton [^']*'\n", re.MULTILINE)  # who uses an old name is told
_LATE = re.compile(r"(?<=/\.git/baton/late/)[^']*")
_HOUSE = re.compile(r"(?<=gitbaton )\d+\.\d+\.\d+\S*(?=,)|(?<=git )\d+\.\d+(?:\.\d+)*$|'[^']*/git-baton'", re.MULTILINE)
_MOMENT = re.compile(r'(?<="duration_ms": )\d+|\b\d+(?:\.\d+)? m?s\b|about \d+(?:\.\d+)? [KMG]?i?B\b')


class Changed(NamedTuple):
    """Words that a later version says in another way: in what ``verbs`` (a pattern of whole command lines) said then, ``old``
    (a pattern) is now ``new``; ``code`` is the exit status now, where that is another one."""

    verbs: str
    old: str
    new: str
    code: int | None = None


def unpack(place: Path, state: str) -> Path:
    """One of the repositories, in a folder of that place, with its remote beside it; it knows where it lies now."""
    unpacked(ARCHIVE, place, state, "origin.git")
    (place / state).rename(place / "repo")
    for name in _MOVED:
        file = place / "repo" / ".git" / name
        if file.exists():
            file.write_text(file.read_text("utf-8").replace(_MADE_AT, str(place)), "utf-8")
    return place / "repo"


def lines(text: str) -> list[str]:
    """The command lines of a list."""
    return [line for line in text.splitlines() if line]


def words(line: str) -> list[str]:
    """A command line as words."""
    return shlex.split(line)


def payload(line: str, place: Path) -> bytes:
    """What a client's hook sends on standard input; empty for any other verb."""
    if not line.startswith("hook "):
        return b""
    event = words(line)[2]
    sent = {"session_id": "s-2", "cwd": str(place), "hook_event_name": event, "transcript_path": "", "source": "startup"}
    return json.dumps({**sent, "prompt": "go on after the upgrade"}).encode()


def said(done: Outcome, place: Path, *, fresh: bool) -> list[str | int]:
    """What a verb said, without the place it lies at and how long ago anything was; with ``fresh`` without ids, too."""
    texts = []
    for text in (done.out, done.err):
        text = text.replace(str(place), "HERE").replace(str(place.parent), "ABOVE")
        text = _RENAMED.sub("", _LATE.sub("KEPT", text))
        text = _MOMENT.sub("SOME", _TIME.sub("NOW", _AGE.sub(" AGE ", _HOUSE.sub("THIS", text))))
        texts.append(_ID.sub("ID", text) if fresh else text)
    return [done.code, *texts]


def ask(
    run: Run, place: Path, text: str, *, fresh: bool, spelled: Mapping[str, str] = MappingProxyType({})
) -> dict[str, list[str | int]]:
    """What the verbs of a list say, by command line; a line asked twice has its number behind it. ``spelled``: lines that are
    asked with other words."""
    found: dict[str, list[str | int]] = {}
    for line in lines(text):
        key, count = line, 1
        while key in found:
            count += 1
            key = f"{line} #{count}"
        found[key] = said(run(words(spelled.get(line, line)), payload(line, place)), place, fresh=fresh)
    return found


@cache
def answers() -> dict[str, dict[str, list[str | int]]]:
    """What the verbs of 5b105d9 said, by repository (``reads`` for those of READS) and command line."""
    return json.loads((FOLDER / "answers.json").read_text("utf-8"))  # type: ignore[no-any-return]


def today(answer: list[str | int], line: str, changes: Sequence[Changed]) -> list[str | int]:
    """An answer of then in the words of now."""
    for change in changes:
        if re.fullmatch(change.verbs, line):
            code, *texts = answer
            texts = [re.sub(change.old, change.new, str(text), flags=re.MULTILINE) for text in texts]
            answer = [code if change.code is None else change.code, *texts]
    return answer
