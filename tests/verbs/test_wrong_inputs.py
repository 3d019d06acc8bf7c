"""A hundred wrong inputs: one line that says what is wrong, hints that work, the promised exit code, nothing written."""

from __future__ import annotations

import os
import re
import shlex
import shutil

import pytest

from gitbaton.base.codec import encode_track
from gitbaton.cli.main import call
from gitbaton.cli.verbs import VERBS
from gitbaton.git.repo import discover
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Outcome, Sandbox
from tests.kit.tables import each
from tests.kit.threads import QUIET, numbered

# What is typed, the exit code, and what the line says.
WRONG = """
snapshot | 129 | no step is given
snapshot '' | 129 | the step is empty
snapshot -m ' ' | 129 | the step is empty
snapshot one two | 129 | unexpected argument 'two'
snapshot one -m two | 129 | the step is given twice, as 'one' and as 'two'
snapshot x --label '' | 129 | the label is empty
snapshot x --track '' | 129 | a track name cannot be empty
snapshot x --validation red | 129 | --validation is 'red'; it can be 'green', 'pending' or 'failed'
snapshot x --tests pass | 129 | fatal: --tests is 'pass'; it can be 'green', 'pending' or 'failed'
snapshot x --test=pass | 129 | fatal: --tests is 'pass';
snapshot x --extra novalue | 129 | --extra 'novalue' is not KEY=VALUE
snapshot x --extra 'bad key=v' | 129 | the key does not match
snapshot x --extra k=1 --extra k=2 | 129 | names the key 'k' a second time
snapshot x --note - --next-cmd - | 129 | --note and --next-cmd cannot both read standard input
snapshot x --json --porcelain | 129 | --json and --porcelain exclude each other
snapshot x --lable y | 129 | unknown option '--lable'
snapshot x --checkpoint-dir .git/x | 129 | is inside the git directory
snapshot --label | 129 | option '--label' requires an argument
resume nowhere | 2 | there is no checkpoint 'nowhere'
resume t~9 | 2 | track 't' has only 3 checkpoints
resume 't@{9}' | 2 | track 't' has only 3 checkpoints
resume 't@{blurb}' | 129 | 'blurb' is not a time that git understands
resume 't@{1 year ago}' | 2 | track 't' has no checkpoint as old as '1 year ago'
resume --track nowhere | 2 | there is no track 'nowhere'
resume --track t~1 | 2 | there is no track 't~1'
resume t --track t | 129 | the checkpoint 't' and --track exclude each other
resume t u | 129 | unexpected argument 'u'
resume --live=1 | 129 | option '--live' does not take a value
verify nowhere | 2 | there is no checkpoint 'nowhere'
verify '' | 129 | the checkpoint's name is empty
verify t --track t | 129 | exclude each other
verify --strickt | 129 | unknown option '--strickt'
log --s | 129 | '--s' could be '--since' or '--stat'
status t | 129 | unexpected argument 't'
status --json -z | 129 | exclude each other
log nowhere | 2 | there is no checkpoint 'nowhere'
log -n x | 129 | 'x' is not a number
log -n -1 | 129 | -1 is not in the range
log -x | 129 | unknown option '-x'
log t --all | 129 | a checkpoint or track and --all exclude each other
log --all --track t | 129 | --track and --all exclude each other
log t u | 2 | there is no path 'u'
show '@~9' --track 'a b' | 2 | track 'a b' has only 1 checkpoint
show ffff | 2 | there is no checkpoint 'ffff'
show same | 128 | 'same' could mean 2 checkpoints
show t u | 2 | there is no path 'u'
diff nowhere | 2 | 'nowhere' is neither a checkpoint nor a path
diff t u v | 2 | there is no path 'v'
diff both | 128 | 'both' is both a checkpoint and a path
diff t --track t | 129 | exclude each other
restore nowhere | 2 | there is no checkpoint 'nowhere'
restore a.txt | 2 | there is no checkpoint 'a.txt'
restore t --track t | 129 | exclude each other
restore --conversation --json | 129 | exclude each other
restore --conversation-only -- a.txt | 129 | paths and --conversation-only exclude each other
restore words | 128 | was recorded without files
restore t --dry-runn | 129 | unknown option '--dry-runn'
undo | 1 | there is nothing to undo in this work tree
redo t | 129 | unexpected argument 't'
rewind | 129 | rewind asks on a terminal, and this is none
rewind -n 0 | 129 | 0 is not in the range
bisect --good t~1 | 129 | missing argument '-- CMD...'
bisect -- true | 129 | --good is missing: a checkpoint where CMD succeeds
bisect run true | 129 | --good is missing: a checkpoint where CMD succeeds
bisect --good nowhere -- true | 2 | there is no checkpoint 'nowhere'
bisect --good t --bad t~1 -- true | 128 | comes after the bad one
bisect --good t~1 --bad u -- true | 128 | are on different tracks, 't' and 'u'
bisect --good words -- true | 128 | is also the bad one
run | 129 | none of --step, --plan and --continue is given
run --step x | 129 | --step has no command
run --step ../x -- true | 129 | it is no name for a step
run --step x --timeout soon -- true | 129 | --timeout is 'soon'; it must be a duration
run --plan nowhere.toml | 129 | cannot read 'nowhere.toml'
run --continue nowhere | 2 | there is no run 'nowhere'
run --step x --effect twice -- true | 129 | effect is 'twice'; it can be
steps nowhere | 2 | there is no run 'nowhere'
repair | 129 | none of --step, --path and --since is given
settle nothing | 129 | neither --done nor --undone is given
approve nothing | 2 | there is no run yet
compensate | 129 | no step is named
run show --keep 3 | 129 | unknown option '--keep'
journal prune --older soon | 129 | --older is 'soon'; it must be a duration
thread explode x | 129 | 'explode' is not a verb of git baton thread
thread log x 000 | 129 | unexpected argument '000'
thread show nowhere | 2 | there is no thread 'nowhere'
transcript print | 129 | it can be 'show' or 'export'
transcript show t | 128 | knows of no conversation
worktree t | 129 | 't' names a checkpoint, and no directory is given
worktree nowhere ../x | 2 | neither '../x' nor 'nowhere' names a checkpoint
worktree add ../y t~1 | 129 | unexpected argument 't~1'
worktree add ../z | 129 | 'add' is a verb of git worktree, and no directory
worktree a.txt t | 128 | 'a.txt' already exists
branch main t | 128 | a branch 'main' exists already
branch 'a b' t | 129 | 'a b' is not a name that git takes for a branch
redo | 1 | there is nothing to redo
tracks choose t | 129 | 'choose t' is not understood; it can be
tracks use nowhere | 2 | there is no track 'nowhere'
push | 129 | no remote is configured
push nowhere | 129 | 'nowhere' is neither a remote nor a URL nor a path
push 'a b' | 129 | 'a b' is a track and no remote
push --prune | 129 | --prune deletes threads, and needs --threads
prune nowhere --keep-last 1 | 2 | there is no track 'nowhere'
prune --keep-last x | 129 | --keep-last is 'x'; it must be a whole number
pin nowhere | 2 | there is no checkpoint 'nowhere'
forget | 129 | missing argument 'CHECKPOINT...'
scan t --all | 129 | exclude each other
import nowhere | 129 | nowhere' cannot be read
import runtime/checkpoints/LATEST.json | 129 | 'runtime/checkpoints/LATEST.json' is a file and no folder
agent explode | 129 | it can be one of 'install', 'uninstall', 'list', 'doctor'
agent install nobody | 129 | 'nobody' is not an agent
agent doctor --user | 129 | --user is not for 'doctor'
snapsho | 129 | 'snapsho' is not a verb of git baton
label @~1 begin | 129 | 'label' is not a verb of git baton
--nope log | 129 | unknown option '--nope'
--color=pink log | 129 | --color is 'pink'; it can be 'always', 'never' or 'auto'
--repo-root nowhere log | 128 | 'nowhere' is not in a git repository
"""
ROWS = [tuple(part.strip() for part in row.split(" | ")) for row in WRONG.strip().splitlines()]
VERB = f"git baton (?:{'|'.join(VERBS)}|-h)"
NAMED = re.compile(rf"'({VERB}\b[^']*)'|(?:: |^)({VERB}\b.*)")
FILLED = {
    "TURN": "t",
    "NAME": "t",
    "TEXT": "x",
    "CHECKPOINT": "t",
    "PATH": "../there",
    "CMD...": "true",
    "CMD": "true",
    "FILE": "plan.toml",
}
FINE = (0, 1)


@pytest.fixture
def full(repo: Sandbox) -> Sandbox:
    """Tracks, one with a blank in its name and one with a file's; a label that two have; a checkpoint without files."""
    with repo.open() as baton:
        for number in range(3):
            repo.write("a.txt", f"{number}\n")
            baton.snapshot(f"step {number}", track="t", label="same" if number < 2 else None)
        for track in ("u", "both", "a b", "words"):
            baton.snapshot(track, track=track, files=track != "words", set_current=False)
    repo.ok("resume")  # it brings LATEST up to date
    with ThreadStore(discover(str(repo.path)), **QUIET) as store:
        numbered(store, 2, "x")
    repo.write("both", "a file\n")
    repo.write("plan.toml", '[step.lint]\nrun = "true"\n')
    return repo


def state(repo: Sandbox) -> list[tuple[str, int, int]]:
    """All files, those of git among them."""
    found = [(os.path.join(place, name)) for place, _, names in os.walk(repo.path) for name in names]
    return sorted((path, os.lstat(path).st_size, os.lstat(path).st_mtime_ns) for path in found)


def hints(done: Outcome) -> list[str]:
    """The one line is told apart from its hints; there is nothing else."""
    first, *rest = done.err.removesuffix("\n").split("\n")
    assert first.startswith("fatal: ") and done.out == "", done
    text = first.removeprefix("fatal: ")
    assert not text[0].isupper() and not text.endswith(".") and text.isprintable(), text
    assert all(row.startswith("hint: ") and row.isprintable() for row in rest), rest
    return [row.removeprefix("hint: ") for row in rest]


@pytest.mark.deep
def test_a_hundred_wrong_inputs(full: Sandbox, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(full.path)
    before, named = state(full), dict[str, str]()

    @each("words, code, said", ROWS)
    def check(words: str, code: str, said: str) -> None:
        capfd.readouterr()
        done = Outcome(call(shlex.split(words)), *capfd.readouterr())
        rows = hints(done)
        assert (done.code, state(full) == before) == (int(code), True), done
        assert said in done.err.split("\n")[0], done
        rows = [row for row in rows if " is now " not in row]  # the new name of a verb, and no command to type
        named.update((quoted or plain, words) for row in rows for quoted, plain in NAMED.findall(row))

    assert len(ROWS) >= 100
    check()
    check_hints(full, named, capfd, monkeypatch)


def check_hints(repo: Sandbox, named: dict[str, str], capfd: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
    """Every command that a hint named is typed as it stands, what is in capitals filled in, in a copy of the repository."""
    assert len(named) > 30
    copy = repo.path.parent / "copy"
    shutil.copytree(repo.path, copy, symlinks=True)
    patch.chdir(copy)
    call(["run", "--run", "RUN", "--step", "x", "--effect", "once", "--compensate", "true", "--", "true"])

    @each("command, after", named.items())
    def check(command: str, after: str) -> None:
        done = call([FILLED.get(word, word) for word in shlex.split(command)[2:]])
        out, err = capfd.readouterr()
        assert done in FINE or "knows of no conversation" in err or "is of no turn of an agent" in err, (done, out, err)

    check()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("bisect run true", r"git baton bisect --good [0-9a-f]{10} -- true"),
        ("worktree add ../y t~1", r"git baton worktree ../y 't~1'"),
        ("worktree add ../y", r"git baton worktree ../y"),
        ("import ../x.bundle", r"git baton fetch ../x.bundle"),
    ],
)
def test_what_another_verb_takes_is_led_to_the_line_that_does_it(full: Sandbox, words: str, meant: str) -> None:
    full.git("bundle", "create", "-q", "../x.bundle", "refs/baton/tracks/t")
    (hint, *_) = hints(full.baton(*words.split()))
    (command,) = re.findall(f": ({meant})$", hint)
    assert full.baton(*shlex.split(command)[2:]).code == ("bisect" in words)  # which finds that the bad one is good


@pytest.mark.parametrize("name", ["a..b", "HEAD", "@", "x~1", pytest.param("ORIG_HEAD", marks=pytest.mark.deep)])
def test_no_new_track_has_a_name_that_is_read_as_something_else_and_an_old_one_still_reads(repo: Sandbox, name: str) -> None:
    done = repo.baton("snapshot", "--track", name, "x")
    assert done.code == 129 and done.err.startswith(f"fatal: a new track cannot be called '{name}': ")
    assert repo.git("for-each-ref", "refs/baton") == ""
    repo.ok("snapshot", "--track", "a", "x")
    renamed = repo.baton("tracks", "rename", "a", name)
    assert renamed.code == 129 and "cannot be called" in renamed.err
    repo.git("update-ref", f"refs/baton/tracks/{encode_track(name)}", "refs/baton/tracks/a")
    assert repo.ok("log", "--track", name).out
    repo.ok("snapshot", "--track", name, "goes on")
    assert "goes on" in repo.ok("show", f"refs/checkpoints/{encode_track(name)}").out
