"""Scripts of commands that both sides play: random ones, from a seed, and written ones for the verbs that need a story."""

from __future__ import annotations

import os
import random
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.deep.differential.world import Step, hook

NAMES = ("a.txt", "b.txt", "d/c.txt", "d/e/f.txt", "new.txt", "ünï.txt", "sp ace.txt", "link", "x.log", "out/made.txt")
TRACKS = ("main", "side", "deep/er")
SPECS = (
    "main",
    "main~1",
    "main~2",
    "side",
    "side~1",
    "main@{1}",
    "main@{manual}",
    "good",
    "@",
    "@~1",
    "deep/er",
    "gone",
    "HEAD",
)
SECRET = "token = ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
WAITS = (5, 90, 3700, 90_000, 790_000)
LOOK = """
status
status --json
status --porcelain
resume
resume --live
resume --json
resume --live --json
resume --track TRACK
verify
verify --strict
verify --json --track TRACK
log
log --all -n 3
log --porcelain
log TRACK --json
show SPEC
show SPEC --json
diff SPEC
diff SPEC --stat
diff SPEC main --name-status
tracks
tracks --json
doctor
du
scan --all --files
steps
transcript show SPEC
journal show job
threads
"""
RUNS = """
steps job
steps job --json
steps job --why STEP
repair job --step STEP
repair job -n --path a.txt
settle STEP --done --run job
settle STEP --undone --run job
approve STEP --run job
compensate --run job
run --continue job
journal verify job
journal prune
journal export job --output out/exported
journal list
"""
KEEP = """
pin SPEC
unpin SPEC
prune
prune --keep-last 2
prune --keep-daily 2
prune --keep-within 3d
prune -n --keep-weekly 1 --json
prune TRACK --keep-last 1 -y
forget -y SPEC
forget -n SPEC
forget -y --force --everywhere SPEC
tracks use TRACK
tracks delete TRACK -y
tracks delete TRACK -n
branch made SPEC
branch -n other-made SPEC
export
export --history
worktree SPEC @TOP@/beside
bisect --good main~2 -- sh -c 'test -e new.txt'
drill
install
uninstall
agent install claude
agent list
agent doctor
agent uninstall claude
"""
GIT = """
add -A
add a.txt
commit -q -am c
commit -q --allow-empty -m e
commit -q --amend --allow-empty -m amended
checkout -q other
checkout -q main
checkout -q --detach
checkout -q -B third
stash -u
stash pop
reset -q --hard HEAD~1
reset -q
merge -q other
merge --abort
rebase -q other
rebase --abort
rm -q --cached b.txt
update-index --assume-unchanged b.txt
gc -q --prune=now
branch -f third
notes add -f -m mine
config baton.retention keep-last=3
"""
LOOKS = """
status --json
log --all --json
tracks --porcelain
verify --strict
resume --live --json
show --json
diff main~1 --stat
restore -n main~1 --exact --index --json
undo -n
steps job --json
doctor
scan --all
"""


def lines(text: str) -> list[str]:
    """The lines of a list."""
    return text.strip().splitlines()


def one_of(chance: random.Random, text: str) -> tuple[str, ...]:
    """A line of a list, as words; those in capitals stand for some checkpoint, track or step."""
    chosen = {"SPEC": chance.choice(SPECS), "TRACK": chance.choice(TRACKS), "STEP": chance.choice(("one", "two", "three"))}
    return tuple(chosen.get(word, word) for word in shlex.split(chance.choice(lines(text))))


def edit(chance: random.Random) -> Step:
    """A change of one file; what it is is decided now, and done when it is played."""
    name, size, kind = chance.choice(NAMES), chance.choice((0, 3, 80, 4000)), chance.random()
    data = bytes(chance.choices(b"abcdefgh\n", k=size))

    def change(place: Path) -> None:
        path = place / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif os.path.lexists(path):
            path.unlink()
        if kind < 0.15 or any(parent.is_symlink() or parent.is_file() for parent in path.parents if place in parent.parents):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "link":
            path.symlink_to("a.txt" if kind < 0.6 else "nowhere")
        else:
            path.write_bytes(data)
            path.chmod(0o755 if kind > 0.9 else 0o644)

    return Step(edit=change, wait=0)


def random_script(seed: int, length: int = 24) -> list[Step]:
    """A script of that many commands, with edits between them and everything looked at in the end."""
    chance = random.Random(seed)
    steps = [Step(words=("snapshot", "begun", "--track", "main"))]
    for _ in range(length):
        steps += [edit(chance) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
        made = chance.choices(list(COMMANDS), list(COMMANDS.values()))[0](chance)
        place = chance.choices(("repo", "peer"), (9, 1))[0]
        steps.append(replace(made, place=place, wait=chance.choice(WAITS)))
    return [*steps, *(Step(words=tuple(line.split()), wait=1) for line in lines(LOOKS))]


def _snapshot(chance: random.Random) -> Step:
    words = ["snapshot", chance.choice(("did this", "änd that", "three\nlines", ""))]
    words += ["--track", chance.choice(TRACKS)] if chance.random() < 0.7 else []
    words += ["--note", chance.choice(("n", SECRET, "**bold** <x>"))] if chance.random() < 0.3 else []
    words += ["--next-cmd", "make check"] if chance.random() < 0.3 else []
    words += ["--validation", chance.choice(("green", "failed"))] if chance.random() < 0.4 else []
    words += ["--decision", "because"] if chance.random() < 0.2 else []
    words += ["--label", chance.choice(("good", "bad", "v1"))] if chance.random() < 0.2 else []
    words += ["--extra", "k=v"] if chance.random() < 0.2 else []
    words += [chance.choice(("--no-set-current", "--no-files", "-n", "--json", "--porcelain"))] if chance.random() < 0.3 else []
    return Step(words=tuple(words))


def _restore(chance: random.Random) -> Step:
    words = ["restore", chance.choice(SPECS)]
    words += [word for word in ("--force", "--exact", "--index", "--foreign", "-n", "--json") if chance.random() < 0.3]
    words += ["--", *chance.sample(NAMES, 2)] if chance.random() < 0.3 else []
    return Step(words=tuple(words))


def _run(chance: random.Random) -> Step:
    line = chance.choice(("cp a.txt out/made.txt", "exit 3", "mkdir -p out && cat b.txt >out/made.txt", "echo x >>b.txt"))
    words = ["run", "--run", "job", "--step", chance.choice(("one", "two", "three"))]
    words += ["--reads", "*.txt"] if chance.random() < 0.6 else []
    words += ["--writes", "out/**", "--allow-empty"] if chance.random() < 0.6 else []
    words += ["--after", "one"] if chance.random() < 0.2 else []
    words += ["--effect", chance.choice(("once", "idempotent"))] if chance.random() < 0.3 else []
    words += ["--on-undeclared", chance.choice(("report", "restore", "fail"))] if chance.random() < 0.3 else []
    words += ["--take", chance.choice(("ours", "theirs"))] if chance.random() < 0.5 else []
    words += ["--checkpoint", "side"] if chance.random() < 0.2 else []
    words += ["--gate", "look at it"] if chance.random() < 0.1 else []
    return Step(words=(*words, "--", "sh", "-c", line))


def _exchange(chance: random.Random) -> Step:
    verb = chance.choice(("push", "fetch", "sync"))
    words = [verb, *(["origin"] if chance.random() < 0.8 else [])]
    words += ["-y"] if verb != "fetch" and chance.random() < 0.9 else []
    words += ["--runs"] if verb == "push" and chance.random() < 0.4 else []
    words += ["--track", chance.choice(TRACKS)] if chance.random() < 0.2 else []
    words += [chance.choice(("-n", "--json"))] if chance.random() < 0.2 else []
    return Step(words=tuple(words))


def _hook(chance: random.Random) -> Step:
    event = chance.choice(("SessionStart", "UserPromptSubmit", "Stop", "Stop", "PreCompact", "SessionEnd"))
    return hook("claude", event, prompt=chance.choice(("go on", "mend the lexer")), source="startup", trigger="auto")


COMMANDS: dict[Callable[[random.Random], Step], int] = {
    _snapshot: 26,
    _restore: 16,
    lambda chance: Step(words=one_of(chance, LOOK)): 14,
    lambda chance: Step(words=one_of(chance, GIT), git=True): 14,
    lambda chance: Step(words=one_of(chance, KEEP)): 10,
    _run: 8,
    lambda chance: Step(words=one_of(chance, RUNS)): 5,
    _exchange: 7,
    _hook: 8,
    lambda chance: Step(words=one_of(chance, "undo\nundo\nredo\nundo -n --json")): 9,
}


PLAN = """
max-runs = 20

[step.lint]
run = "test -s a.txt && echo clean"
reads = ["a.txt"]

[step.make]
run = "mkdir -p out && cat a.txt b.txt >out/made.txt && echo made >&2"
reads = ["a.txt", "b.txt"]
writes = ["out/made.txt"]
env = ["MODE"]
verify = "test -s out/made.txt"

[step.pack]
argv = ["sh", "-c", "wc -c <out/made.txt >out/size.txt; echo stray >stray.txt"]
reads = ["out/made.txt"]
writes = ["out/size.txt"]
isolate = "tree"

[step.flaky]
run = "echo tried >>tries.log; test $GIT_BATON_ATTEMPT -gt 1"
key = ["1"]
writes = ["tries.log"]
retries = 1
backoff = "0s"

[step.send]
run = "cat out/size.txt >>../sent.txt"
after = ["pack"]
key = ["sent"]
effect = "once"
compensate = "echo undone >>../sent.txt"
probe = "test -e ../sent.txt"

[step.ask]
run = "echo asked"
after = ["send"]
key = ["ask"]
gate = "send it?"
"""
STORY = """
run --plan plan.toml --run job -n
run --plan plan.toml --run job
steps job --json
approve ask --run job
run --continue job
run --plan plan.toml --run job
EDIT a.txt changed
steps job --why make
run --plan plan.toml --run job -n --json
repair job -n --path a.txt
repair job --path a.txt
EDIT out/made.txt by hand
run --plan plan.toml --run job
run --plan plan.toml --run job --take theirs
run --plan plan.toml --run job --take ours
EDIT b.txt
run --plan plan.toml --run job
EDIT b.txt back
run --continue job
repair job --step pack
compensate send --run job
run --plan plan.toml --run other --only make
run --run single --step one --reads *.txt --writes out/** --allow-empty -- sh -c 'cp a.txt out/one.txt'
run --run single --step one --reads *.txt --writes out/** --allow-empty -- sh -c 'cp a.txt out/one.txt'
run --run single --step two --after one --timeout 1s --grace 0s -- sleep 60
run --run single --step one --reads *.txt -- sh -c 'exit 3'
run --continue single
steps single --json
journal show job --json
journal verify job
journal export job --output kept
journal prune --keep 1
resume --json
doctor
"""


def plan_script() -> list[Step]:
    """A plan from its first run to its last, whatever happens to its files in between, and single steps."""

    def write(name: str, text: str) -> Step:
        def change(place: Path) -> None:
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text(text)

        return Step(edit=change, wait=0)

    steps = [write("plan.toml", PLAN), write("a.txt", "begun\n"), write("b.txt", "other\n")]
    for line in lines(STORY):
        verb, *rest = shlex.split(line)
        steps.append(write(rest[0], " ".join(rest[1:])) if verb == "EDIT" else Step(words=(verb, *rest)))
    return steps
