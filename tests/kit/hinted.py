"""States in which a repository can be, command lines right and wrong, and the commands that what they print names."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from gitbaton.cli.main import call
from gitbaton.cli.verbs import VERBS
from gitbaton.git.repo import discover
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit.capturekit import submodule, without_privilege
from tests.kit.damage import ABSENT, file_of
from tests.kit.killkit import NAMED, killed
from tests.kit.mcp import Raw
from tests.kit.repos import Outcome, Sandbox
from tests.kit.talks import Talk
from tests.kit.threads import QUIET, numbered

# What is typed in every state: no argument, one that is not there, a path outside, words that look like options, two names,
# an empty one, a wrong value, and what is right where something is there.
LINES = r"""
-h
--version
--nope log
snapsho
save
save 'the words'
stash
stash pop
checkout t
checkout nowhere
rollback
rollback t
gc
rm
delete t
rename t other
list
history t
search words
off
init
clone
keep @
name @ milestone
undelete
sessions
pull origin
fork
config
version
thread ls
run ls
worktree list
worktree remove t
worktree add ../beside
show HEAD
show @ --stat
show @ --name-only
show --porcelain --json
log --oneline
diff --cached
restore --staged a.txt
restore @ --path a.txt
run --once -- true
snapshot -m x -n
snapshot x --next true
resume --porcelain
resume --porcelain --json
revert --abort
revert @~1..@
revert @..
revert --session nowhere
revert --track t
revert --track nowhere
merge --abort
merge t --porcelain
merge t -- a.txt --merge
snapshot
snapshot ''
snapshot 'words' --track t
snapshot 'words' --track new
snapshot one two
snapshot x --validation red
snapshot x --track ''
snapshot x --track -x
snapshot x --include nowhere
snapshot x --include ../outside
snapshot x --include /etc/passwd
snapshot x --withdraw 9
snapshot x --only-if-changed
snapshot x --no-files
resume
resume t
resume nowhere
resume main
resume @~1
resume @~9
resume ''
resume -- -x
resume --track nowhere
resume --live
resume t u
verify
verify @
verify nowhere
verify @~1
verify --strict
verify --words
verify --ci
verify --ci nowhere
verify --ci --words
verify --foreign
verify --ci HEAD --quiet
verify --ci --signed
verify --signed
verify --signatures
verify --signatures @
verify --signatures nowhere
verify --signatures --ci
verify --signatures --words
status
status t
status --at-risk
log
log nowhere
log @~1
log --all
log -n x
log --since soon
log -- nowhere
log -- /etc/passwd
log t u
show
show nowhere
show @~1
show @~9
show HEAD
show main
show @ -- nowhere
show @ -- /etc/passwd
show ''
show @:a.txt
show @:nowhere
diff
diff nowhere
diff @~1
diff @~9
diff t u
diff @ -- nowhere
diff @ -- /etc/passwd
diff main
diff HEAD
diff a.txt
restore
restore --dry-run
restore @~1
restore @~1 --dry-run
restore @~9
restore nowhere
restore a.txt
restore main
restore HEAD
restore @ -- nowhere
restore @ -- /etc/passwd
restore @ -- ../outside
restore -- a.txt
restore @ -- -x
restore --conversation
restore --conversation-only
restore --foreign
restore t u v
restore ''
restore . --dry-run
revert
revert --dry-run
revert nowhere
revert @~1
revert @
revert t..u
revert @..@~1
revert a.txt
revert @ -- nowhere
revert @ -- /etc/passwd
revert ''
merge
merge ''
merge t
merge nowhere
merge u --dry-run
merge u
merge u -- nowhere
merge a.txt
undo
undo --dry-run
undo @~1
redo
redo t
rewind
rewind --list
blame
blame a.txt
blame nowhere
blame /etc/passwd
why
why a.txt
why a.txt:1
why a.txt:99
why nowhere:1
why a.txt 1
overlap
overlap t --json
overlap nowhere
overlap --nope
page
page --output /nowhere/x.html
summary
summary nowhere
summary --track nowhere
bisect
bisect --good @~1 -- true
bisect --good @~1 --bad @ -- true
bisect --good nowhere -- true
worktree
worktree t
worktree ../beside
worktree ../beside t
worktree ../beside nowhere
worktree a.txt t
branch
branch side
branch main t
branch side nowhere
branch 'a b' t
transcript
transcript show
transcript show t
transcript show nowhere
transcript export
transcript print
push
push origin
push nowhere
push origin nowhere
push t
push origin --yes
push --dry-run
fetch
fetch origin
fetch nowhere
fetch origin nowhere
sync
sync origin
sync nowhere
export
export --history
import
import nowhere
import .
import --all
import --client claude --dry-run
import --client nobody
import --all nowhere
import . --yes
tracks
tracks use
tracks use t
tracks use nowhere
tracks use main
tracks choose t
tracks rename t
tracks rename t other
tracks rename nowhere other
tracks rename t u
tracks rename t ''
tracks delete nowhere
tracks delete t --yes
tracks delete t
tracks restore nowhere
tracks restore t
pin
pin @
pin nowhere
pin @ t
pin @ ''
pin @ 'a b'
unpin
unpin @
unpin nowhere
prune
prune --dry-run
prune --keep-last 1 --yes
prune --keep-last 1
prune --keep-last x
prune nowhere --keep-last 1
forget
forget @
forget @ --yes
forget nowhere
forget nowhere --yes
du
du t
scan
scan nowhere
scan t
scan --all
scan t --all
agent
agent list
agent doctor
agent install
agent install nobody
agent install claude
agent install --all
agent install claude --no-agents-md
agent install claude --user
agent install claude -n
agent uninstall --all
agent doctor claude
agent doctor nobody
tracks restore
agent uninstall claude
agent uninstall nobody
mcp --nope
search S
search
search S --in files
search S --track nobody
pause
pause --for 1h
pause --for soon
pause --until soon
pause --end
statusline
statusline --track none
statusline --nope
run
run --step x
run --step x -- true
run --step x -- false
run --step x --effect once -- false
run --step ../x -- true
run --step x --gate 'look at it' -- true
run --step x --timeout soon -- true
run --step x --reads nowhere -- true
run --plan nowhere.toml
run --plan plan.toml
run --continue
run --continue nowhere
run --continue r
run x
run list
run list nowhere
run show
run show nowhere
run show r
run why
run why nowhere
run why eff
run repair
run repair --step eff
run repair --step nowhere
run repair --path a.txt
run settle
run settle nowhere
run settle pub
run settle pub --done
run settle pub --undone
run approve
run approve nowhere
run approve go
run compensate
run compensate eff
run compensate nowhere
run verify
run verify nowhere
run export
run export nowhere
run prune
run prune --older soon
steps
journal show
threads
repair
thread
thread list
thread log
thread log demo
thread log nowhere
thread show
thread show demo
thread show nowhere
thread show demo 000
thread delete
thread delete demo
thread delete nowhere
thread delete nowhere --yes
install
install --dry-run
uninstall
uninstall --purge
doctor
doctor --mend
drill nowhere
completion
completion nosh
completion bash
help nowhere
"""
ROWS = [shlex.split(row) for row in LINES.strip().splitlines()]
ROWS = [[], *ROWS]

_NAMES = "|".join([*dict.fromkeys(name.split()[0] for name in VERBS if name), "-h"])
_GITS = (
    "add|branch|check-ignore|checkout|clone|config|fetch|gc|init|lfs|log|merge|notes|push|rebase|reflog|remote|reset|restore|rm"
    "|show|show-ref|stash|status|switch|update-index|update-ref|for-each-ref|fsck|-C"
)
_START = rf"(?:git[ -]baton(?: (?:{_NAMES})\b|$| --)|git (?:{_GITS})\b|pip install|pipx |echo |mv |rm |chmod |cd )"
_QUOTED = re.compile(rf"(?<![\w'])'({_START}(?:[^']|'(?=\S[^']*' ?))*?)'(?=[\s;,:.)\]]|$)")
_PLAIN = re.compile(rf"(?:^ *|: |hint: )({_START}(?:(?! {{2}})[^;|])*?)(?:$|; |, with | {{2}})")
FINE = {0, 1, 75, 76}  # done; the answer is no; a gate and an unknown outcome, which are said
TELLS = ("hint: ", "warning: ", "fatal: ", "error: ")
DESTROYS = re.compile(
    r"--force\b|\brm\b|\breset\b|\bdelete\b|--purge\b|\bprune\b|\bforget\b|update-ref -d|checkout -f|clean -|branch -D"
)


def commands(row: str) -> list[str]:
    """Extract the commands that a printed line names for typing; none from what git said, a verb's old name, or a fact."""
    if re.search(r"'git [\w-]+' failed: | is now 'git baton|^fatal: no verb of|^(?:ok|note|MEND) ", row):
        return []
    return [found.strip() for found in (_QUOTED.findall(row) or _PLAIN.findall(row))]


def named(done: Outcome) -> Iterator[tuple[str, str]]:
    """Yield each command of what was printed with its line: of hints, warnings, and lines that begin with a command."""
    for row in [*done.err.splitlines(), *done.out.splitlines()]:
        if row.startswith(TELLS) or re.match(rf" *{_START}", row) or re.search(rf"(?:'|: ){_START}", row):
            for command in commands(row):
                yield command, row


class Scene:
    """A repository in a state: ``top`` holds all of it, ``place`` is where commands are typed."""

    def __init__(self, top: Path, cwd: str, *, lesser: bool = False) -> None:
        self.top, self.place, self.lesser = top, top / cwd, lesser
        self._kept = top.with_name(f"{top.name}.kept")
        shutil.copytree(top, self._kept, symlinks=True)
        self._was = self._look()
        known = Sandbox(self.place).try_git("for-each-ref", "--format=%(refname)", "refs/baton").out
        runs, threads = re.findall("^refs/baton/runs/(.+)", known, re.M), re.findall("^refs/baton/threads/=", known, re.M)
        tracks = [unquote(name) for name in re.findall("^refs/baton/(?:remotes/origin/)?tracks/(.+)", known, re.M)]
        self.words = {"RUN": runs[:1], "CHECKPOINT": tracks[:1], "ID": [], "TRACK": tracks[:1]}
        self.words |= {"STEP": ["eff"] * bool(runs), "THREAD": ["demo"] * bool(threads), "TURN": ["t~1"] * bool(runs)}
        self.words |= {"FILE": ["plan.toml"] * (self.place / "plan.toml").exists(), "PATH": ["../new"], "AGENT": ["claude"]}
        self.words |= {
            "CMD": ["true"],
            "CMD...": ["true"],
            "TEXT": ["text"],
            "BRANCH": ["main"],
            "VERB": ["log"],
            "URL": ["../far.git"],
        }
        self.words |= {"NAME": ["other"], "DIR": [], "TOPIC": ["files"], "REMOTE": ["origin"]}
        self._tracks = tracks

    def filled(self, command: str) -> list[str] | None:
        """Return the words of a command, what is in capitals filled in; None where nothing of that kind is here."""
        words = shlex.split(command)
        known = self.words | ({"NAME": self._tracks[:1] * ("restore" not in words)} if "tracks" in words else {})
        if any(word in known and not known[word] for word in words):
            return None
        return [known.get(word, [word])[0] for word in words]

    def _look(self) -> list[tuple[str, int, int, int]]:
        rows = []
        for place, folders, names in os.walk(self.top):
            for name in (*folders, *names):
                path = os.path.join(place, name)
                found = os.lstat(path)
                file = not stat.S_ISDIR(found.st_mode)
                rows.append((path, found.st_mode, found.st_size * file, found.st_mtime_ns * file))
        return sorted(rows)

    def held(self, read: Callable[[], tuple[str, str]]) -> set[str]:
        """Return what nothing that mends may take: the checkpoints, runs and threads that are listed, branches, and files."""
        log, runs, threads = (
            self.type(["git", "baton", *words], read).out
            for words in (["log", "--all", "--porcelain"], ["run", "list", "--json"], ["thread", "list", "--json"])
        )
        refs = Sandbox(self.place).try_git("for-each-ref", "refs/heads", "refs/tags").out
        found = {*refs.splitlines(), *(row.split("\t", 1)[1] for row in log.splitlines()[2:])}  # ids change with what is lost
        found |= {repr(run["run"]) for run in (json.loads(runs)["runs"] if runs else ())}
        found |= {repr((t["thread"], t["checkpoints"])) for t in (json.loads(threads)["threads"] if threads else ())}
        files = [path for path in self.top.rglob("*") if not {".git", "runtime", "home"} & {*path.parts} and path.is_file()]
        return found | {f"{path} {path.read_bytes()!r}" for path in files}

    def again(self) -> None:
        """Make it what it was, where something has changed."""
        if self._look() == self._was:
            return
        os.chdir(self.top.parent)
        shutil.rmtree(self.top)
        shutil.copytree(self._kept, self.top, symlinks=True)
        self._was = self._look()

    def type(self, words: Sequence[str], read: Callable[[], tuple[str, str]]) -> Outcome:
        """Type a command line, ours in this process where permissions need not bind it; ``read`` gives what was printed."""
        os.chdir(self.place)
        if words[0] == "git-baton":
            words = ["git", "baton", *words[1:]]
        ours = list(words[:2]) == ["git", "baton"]
        if ours and not self.lesser:
            read()
            code = call(list(words[2:]))
            return Outcome(code, *read())
        argv = [sys.executable, "-m", "gitbaton", *words[2:]] if ours else list(words)
        return Sandbox(self.place).run(*(without_privilege("env", *argv) if self.lesser else None) or argv)


def _begun(top: Path) -> Sandbox:
    box = Sandbox.begun(top / "repo")
    box.git("init", "-q", "--bare", "../far.git")
    box.git("remote", "add", "origin", "../far.git")
    box.git("push", "-q", "origin", "main")
    (top / "outside").write_text("outside\n")
    return box


def _full(top: Path) -> Sandbox:
    """Two tracks, a turn of an agent, restores, a run that waits, one that nobody knows, a thread, a conversation."""
    box = _begun(top)
    box.write("plan.toml", '[step.lint]\nrun = "true"\n')
    for text in ("one\n", "two\n"):
        box.write("a.txt", text)
        box.ok("snapshot", text, "--track", "t", "--next-cmd", "true")
    box.ok("snapshot", "another", "--track", "u", "--no-set-current")
    talk = Talk(box, top / "talk.jsonl")
    talk.ask("do the work")
    talk.client.fire("prompt", prompt="do the work")
    box.write("a.txt", "three\n")
    talk.say("done")
    talk.fire("turn")
    box.ok("snapshot", "four", "--track", "t", "--decision", "the api stays")
    for words in (("restore", "t~2"), ("restore", "t~1"), ("undo",)):
        box.ok(*words)
    once = ("--effect", "once", "--compensate", "true")
    box.ok("run", "--run", "r", "--step", "eff", *once, "--", "true")
    box.baton("run", "--run", "r", "--step", "pub", "--effect", "once", "--", "false")
    box.baton("run", "--run", "r", "--step", "go", "--gate", "look", "--", "true")
    with ThreadStore(discover(str(box.path)), **QUIET) as store:
        numbered(store, 2, "demo")
        store.flush()
    return box


def _light(top: Path) -> Sandbox:
    """One track of three checkpoints."""
    box = _begun(top)
    for text in ("one\n", "two\n", "three\n"):
        box.write("a.txt", text)
        box.ok("snapshot", text, "--track", "t")
    return box


def _ordinary(top: Path) -> str:
    _full(top)
    return "repo"


def _light_one(top: Path) -> str:
    _light(top)
    return "repo"


def _clean(top: Path) -> str:
    _begun(top)
    return "repo"


def _empty(top: Path) -> str:
    Sandbox.init(top / "repo")
    return "repo"


def _unborn(top: Path) -> str:
    Sandbox.init(top / "repo").write("a.txt", "one\n")
    return "repo"


def _unborn_track(top: Path) -> str:
    box = Sandbox.init(top / "repo")
    box.write("a.txt", "one\n")
    box.ok("snapshot", "first", "--track", "t")
    return "repo"


def _bare(top: Path) -> str:
    _light(top)
    subprocess.run(["git", "clone", "-q", "--mirror", "repo", "bare.git"], cwd=top, check=True)
    return "bare.git"


def _bare_empty(top: Path) -> str:
    subprocess.run(["git", "init", "-q", "--bare", "bare.git"], cwd=top, check=True)
    return "bare.git"


def _detached(top: Path) -> str:
    _light(top).git("checkout", "-q", "--detach")
    return "repo"


def _foreign(top: Path) -> str:
    box = _light(top)
    box.ok("push", "origin", "--yes")
    Sandbox.init(top / "mine")
    mine = Sandbox(top / "mine")
    mine.git("remote", "add", "origin", "../far.git")
    mine.git("pull", "-q", "origin", "main")
    mine.ok("fetch", "origin")
    return "mine"


def _diverged(top: Path) -> str:
    """The same track was continued here and at the remote."""
    _foreign(top)
    mine, box = Sandbox(top / "mine"), Sandbox(top / "repo")
    mine.ok("tracks", "use", "t")
    mine.ok("snapshot", "there", "--track", "t")
    mine.ok("push", "origin", "--yes")
    box.ok("snapshot", "here", "--track", "t")
    return "repo"


def _outside(top: Path) -> str:
    (top / "plain").mkdir()
    (top / "plain" / "a.txt").write_text("one\n")
    return "plain"


def _linked(top: Path) -> str:
    _light(top).git("worktree", "add", "-q", "../linked", "-b", "other")
    return "linked"


def _sub(top: Path) -> str:
    box = _light(top)
    inner = submodule(box, "sub")
    inner.ok("snapshot", "inside", "--track", "t")
    return "repo/sub"


def _inside(top: Path) -> str:
    _light(top)
    return "repo/.git"


def _below(top: Path) -> str:
    _light(top).write("src/deep/b.txt", "b\n")
    return "repo/src/deep"


def _merging(top: Path) -> str:
    box = _light(top)
    box.git("checkout", "-qb", "side", "HEAD", "-f")
    box.commit("side", a_txt="side\n")
    box.git("checkout", "-q", "main")
    box.commit("ours", a_txt="ours\n")
    box.try_git("merge", "side")
    return "repo"


def _rebasing(top: Path) -> str:
    box = _light(top)
    box.git("checkout", "-qb", "side", "HEAD", "-f")
    box.commit("side", a_txt="side\n")
    box.git("checkout", "-q", "main")
    box.commit("ours", a_txt="ours\n")
    box.try_git("rebase", "side")
    return "repo"


def _restoring(top: Path) -> str:
    """A restore that was killed while it placed files."""
    box = _light(top)
    box.write("b.txt", "b\n")
    assert killed(box, ["-c", NAMED, "kill", "3", "restore", "@~1", "--exact"])
    return "repo"


def _paused(top: Path) -> str:
    _light(top).ok("pause", "--for", "1d")
    return "repo"


def _drifted(top: Path) -> str:
    box = _light(top)
    box.commit("more", a_txt="four\n", b_txt="b\n")
    box.git("checkout", "-qb", "topic")
    box.write("a.txt", "five\n")
    return "repo"


def _ambiguous(top: Path) -> str:
    box = _light(top)
    box.git("branch", "-q", "t")
    for name in ("both", "a b", "words", "main", "it's"):
        box.ok("snapshot", name, "--track", name, "--label", "same", *(["--no-files"] * (name == "words")))
    box.write("both", "a file\n")
    box.write("a b", "a file\n")
    (box.path / ".git" / "BATON_HEAD").unlink()
    return "repo"


def _damaged(how: str) -> Callable[[Path], str]:
    track = "refs/baton/tracks/t"
    what = {
        "commit": track,
        "tree": f"{track}^{{tree}}",
        "middle": f"{track}~1",
        "middle-tree": f"{track}~1^{{tree}}",
        "blob": f"{track}:a.txt",
        "meta": "refs/baton/meta",
        "head": "HEAD",
        "run": "refs/baton/runs/r",
        "thread": "refs/baton/threads/=demo/_",
        "safety": "refs/baton/safety/main-worktree",
    }

    def build(top: Path) -> str:
        box = _full(top)
        if how == "meta":
            box.ok("pin", "t~1")
        if how in what:
            file_of(box, what[how]).write_bytes(b"")
        elif how == "index":
            path = box.path / ".git" / "index"
            path.write_bytes(path.read_bytes()[:40])
        elif how == "HEAD":
            (box.path / ".git" / "HEAD").write_bytes(b"")
        elif how == "baton-head":
            (box.path / ".git" / "BATON_HEAD").write_bytes(b"\0\n")
        elif how == "latest":
            for path in (box.path / "runtime/checkpoints").iterdir():
                path.write_bytes(path.read_bytes()[:10])
        else:
            others = {"tip": "refs/checkpoints/t", "fetched": "refs/baton/remotes/origin/tracks/t"}
            path = box.path / ".git" / others.get(how, track)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(ABSENT + "\n") if how == "ref-gone" else path.write_bytes(b"")
        return "repo"

    return build


def _read_only(top: Path) -> str:
    box = _full(top)
    for place, folders, names in os.walk(box.path):
        for name in (*names, *folders):
            path = os.path.join(place, name)
            if not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode & ~0o222)
    os.chmod(box.path, 0o555)
    return "repo"


def _config(top: Path) -> str:
    """Settings that cannot be."""
    _light(top).git("config", "baton.retention.keepLast", "x")
    return "repo"


STATES: dict[str, Callable[[Path], str]] = {
    "ordinary": _ordinary,
    "one track": _light_one,
    "no track": _clean,
    "empty": _empty,
    "unborn": _unborn,
    "unborn, a track": _unborn_track,
    "bare": _bare,
    "bare, empty": _bare_empty,
    "detached": _detached,
    "foreign": _foreign,
    "diverged": _diverged,
    "outside": _outside,
    "linked": _linked,
    "submodule": _sub,
    "inside .git": _inside,
    "in a folder": _below,
    "merging": _merging,
    "rebasing": _rebasing,
    "paused": _paused,
    "drifted": _drifted,
    "ambiguous": _ambiguous,
    "interrupted": _restoring,
    "bad setting": _config,
    "read-only": _read_only,
    **{
        f"torn {how}": _damaged(how)
        for how in (
            *("commit", "tree", "middle", "middle-tree", "blob", "meta", "head", "run", "thread", "safety", "index", "HEAD"),
            *("baton-head", "latest", "ref", "ref-gone", "tip", "fetched"),
        )
    },
}


# What may follow a hint that is right all the same: in which state, of which command, what is said, and was not before.
FOLLOWS = (
    ("read-only", "", "ermission denied"),
    ("read-only", "git baton agent install", "may not be changed"),
    ("bare", "git baton run ", "has no work tree in which a step could run"),
    ("inside .git", "git baton run ", "cwd is '.git'"),
    ("", "git baton run ", "nobody knows whether the effect"),
    ("", "git baton sync", "no remote is configured"),  # it is said of other clones
    ("torn index", "git gc", "unable to read"),
    ("outside", "git baton log --all", "is not in a git repository"),  # it is said of where an agent will be at work
    ("torn HEAD", "git baton log --all", "names neither a branch nor a commit"),
)
# The same where the hint is of how a line is spelled, or of a name: that is judged before what is there is looked at.
FIRST = (
    ("outside", "", "is not in a git repository"),
    ("bare", "git baton agent install claude", "there is no project level"),
    ("torn ", "", "as far as the chains can be read"),
    ("torn ", "", "\nhint: git baton doctor --mend\n"),  # which says what helps
    ("torn head", "", "object file"),  # HEAD's commit is the user's, and nobody else has it here
    ("torn index", "", "the index is damaged"),
    ("torn HEAD", "", "names neither a branch nor a commit"),
)


def faults(scene: Scene, state: str, rows: Iterable[Sequence[str]], read: Callable[[], tuple[str, str]]) -> list[str]:
    """Type each line, and each command that is then named as it stands; return what cannot be obeyed, leads to the same error
    or would destroy something, and errors of ours."""
    wrong, seen = list[str](), set[tuple[str, int]]()
    for words in rows:
        scene.again()
        done, line = scene.type(["git", "baton", *words], read), shlex.join(words)
        if "bug in gitbaton" in done.err or "Traceback" in done.err:
            wrong.append(f"{line}: {done.err}")
        if done.code not in FINE and not re.search("^(?:fatal|error|warning): ", done.err, re.M):
            wrong.append(f"{line}: {done.code}, and no word why")

        def again(fresh: bool, words: Sequence[str] = words) -> Outcome:
            if fresh:
                scene.again()
            return scene.type(["git", "baton", *words], read)

        wrong += disobeyed(scene, state, line, done, seen, again, read)
    return wrong


def disobeyed(
    scene: Scene,
    state: str,
    line: str,
    done: Outcome,
    seen: set[tuple[str, int]],
    again: Callable[[bool], Outcome],
    read: Callable[[], tuple[str, str]],
) -> Iterator[str]:
    """Type the commands that a line's output names, those that were not ``seen``, each where the line was carried out
    ``again``; yield what is wrong with them."""
    for command, row in dict.fromkeys(named(done)):
        aside = command.startswith("mv ")  # the damaged index; 'git reset' then makes another
        if DESTROYS.search(command) and not ("--dry-run" in command or aside or DESTROYS.search(line) or row.startswith(" ")):
            yield f"{line}: {row!r} destroys"
        filled = scene.filled(command) if command.startswith("git") else ["sh", "-c", command] if aside else None
        if filled is None or (command, done.code) in seen:
            continue
        seen.add((command, done.code))
        again(True)
        if first := re.search(r"mv '[^']*' '[^']*'(?=; '" + re.escape(command.split(" REMOTE")[0]) + ")", row):
            scene.type(shlex.split(first[0]), read)
        mends = "--mend" in filled
        before = scene.held(read) if mends else set()
        then = scene.type(filled, read)
        if mends and (lost := before - scene.held(read)):
            yield f"{line}: {row!r}: {shlex.join(filled)}: takes {sorted(lost)}"
        if mends and then.code == 0 and done.code not in FINE and again(False).err == done.err:
            yield f"{line}: {row!r}: {shlex.join(filled)}: mends nothing"
        if then.code == 0 or (then.code in FINE and not re.search("^fatal: ", then.err, re.M)):
            continue
        if "is not a verb of" in done.err and not re.search("fatal: (?:unknown|unexpected)|is not a verb", then.err):
            continue  # what was typed after another tool's verb is handed on as it is, and that verb says what is amiss
        follows = (*FOLLOWS, *(FIRST if done.code in (2, 129) else ()))
        known = [said for where, of, said in follows if state.startswith(where) and command.startswith(of) and said in then.err]
        if not known or any(said in done.err for said in known):
            yield f"{line}: {row!r}: {shlex.join(filled)}: {then.code} {then.err}"


def tool_faults(scene: Scene, state: str, read: Callable[[], tuple[str, str]]) -> list[str]:
    """Call each tool of the MCP server with nothing, and with each of its texts wrong; return as ``faults``."""
    wrong, seen = list[str](), set[tuple[str, int]]()
    os.chdir(scene.place)  # which stays: the server is in it
    server = Raw(scene.place)
    server.begin()
    tools, calls = server.ask(1, "tools/list")["tools"], list[tuple[str, dict[str, Any]]]()
    for tool in sorted(tools, key=lambda tool: bool(tool["name"] == "snapshot")):  # what it records is of another state
        known = tool["inputSchema"]["properties"]
        texts = [key for key, kind in known.items() if kind.get("type") == "string"]
        calls += [(tool["name"], {}), *((tool["name"], {key: word}) for key in texts for word in ("", "nowhere", "@~9"))]
    for number, (name, given) in enumerate(calls, 2):
        result = server.ask(number, "tools/call", name=name, arguments=given)
        text = result["content"][0]["text"] if result.get("isError") else ""
        if "bug in gitbaton" in text or "Traceback" in text:
            wrong.append(f"{name} {given}: {text}")
        said = Outcome(128 * bool(text), "", text)
        wrong += disobeyed(scene, state, f"{name} {given}", said, seen, lambda _: Outcome(0, "", ""), read)
    server.end()
    return wrong


def scene(state: str, top: Path) -> Scene:
    """Build a state below ``top``."""
    top.mkdir(parents=True)
    home = top / "home"
    home.mkdir()
    shutil.copy(Path(os.environ["HOME"]) / ".gitconfig", home)
    os.environ["HOME"] = os.fspath(home)  # the seal of the test puts it back
    return Scene(top, STATES[state](top), lesser=state == "read-only")
