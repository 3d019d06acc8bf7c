"""Makes what lies beside it with the gitbaton that is imported: a repository with something of everything, three copies that a
kill left in the middle of something, and what every verb said of them.

    PYTHONSAFEPATH=1 PYTHONPATH=<the package of 5b105d9>:<this checkout> python tests/data/v5b105d9/make.py

Written with commit 5b105d9, and not to be made again with another one: the point is that these bytes are old.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.conftest import GITCONFIG
from tests.kit.repos import Outcome
from tests.kit.yesterday import ARCHIVE, FOLDER, READS, WRITES, ask, unpack

HOME = Path("/tmp/yesterday")
REPO, REMOTE, OTHER = HOME / "repo", HOME / "origin.git", HOME / "other"
DATE = "1767225600 +0000"
ENV = {k: v for k, v in os.environ.items() if not k.startswith("GIT") and not k.startswith(("CLAUDE", "BATON"))} | {
    "HOME": str(HOME),
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_DATE": DATE,
    "GIT_COMMITTER_DATE": DATE,
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
}
# The command line on a host of yesterday, a minute later each time, from 2026-01-01 10:00.
CLOCK = """
import os, signal, socket, sys
from datetime import UTC, datetime, timedelta
from gitbaton import baton
from gitbaton.git import groups
socket.gethostname = lambda: "yesterday"
groups.boot = lambda: "00000000-0000-4000-8000-000000000000"
minute = int(os.environ["MINUTE"])
now = lambda: datetime(2026, 1, 1, 10, tzinfo=UTC) + timedelta(minutes=minute)
baton.Baton.__init__.__kwdefaults__["clock"] = now
"""
DIE_AMONG_FILES = """
left = None
def hook(event, args):
    global left
    if event == "gitbaton.restore" and args[0] == "files":
        left = 2
    if left is not None and event == "os.link":
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
"""
DIE_IN_A_JOIN = """
kept = False
def hook(event, args):
    global kept
    if kept and event in ("os.posix_spawn", "subprocess.Popen"):
        os.kill(os.getpid(), signal.SIGKILL)
    kept = kept or (event == "os.rename" and os.fspath(args[1]).endswith("baton/revision"))
sys.addaudithook(hook)
"""
RUN = "from gitbaton.main import run\nrun()\n"
SAVER = """
import sys
from tests.kit.saverkit import config, number, put
from gitbaton.langgraph import GitSaver
saver = GitSaver(sys.argv[1])
"""
THREADS = (
    SAVER
    + """
for n in range(4):
    put(saver, number(n), {"n": n, "words": ["same", "words"]}, thread="talk", versions={"n": n, "words": 1},
        parent=number(n - 1) if n else None, metadata={"step": n})
saver.put_writes(config("talk", "", number(3)), [("n", 9), ("__interrupt__", "may I?")], "task-1")
put(saver, number(0), {"deep": "value"}, thread="talk", ns="inner")
put(saver, number(1), {"x": b"bytes", "y": None}, thread="odd/thread \\u00fc")
saver.close()
"""
)
UNFLUSHED = (
    SAVER
    + """
import os, signal
put(saver, number(7), {"n": 7}, thread="talk", parent=number(3), metadata={"step": 7})
put(saver, number(1), {"fresh": "never flushed"}, thread="unflushed")
saver.put_writes(config("unflushed", "", number(1)), [("fresh", "more")], "task-2")
os.kill(os.getpid(), signal.SIGKILL)
"""
)
PLAN = """
[step.lint]
run = "! grep -rn XXX src"
reads = ["src/**"]

[step.build]
run = "mkdir -p dist && cat src/* > dist/app.txt"
reads = ["src/**"]
writes = ["dist/**"]
after = ["lint"]
effect = "idempotent"
compensate = "true"

[step.publish]
run = "true"
reads = ["dist/**"]
after = ["build"]
effect = "once"
gate = "publish it?"
"""
_minute = [0]


def git(*words: str, cwd: Path = REPO, code: int = 0) -> str:
    done = subprocess.run(["git", *words], cwd=cwd, env=ENV, capture_output=True, text=True)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout.strip()


def baton(*words: str, cwd: Path = REPO, code: int = 0, dies: str = "", stdin: str = "") -> str:
    _minute[0] += 1
    env = {**ENV, "MINUTE": str(_minute[0])}
    program = [sys.executable, "-c", CLOCK + dies + RUN, *words]
    done = subprocess.run(program, cwd=cwd, env=env, capture_output=True, text=True, input=stdin)
    assert done.returncode == (-signal.SIGKILL if dies else code), (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def write(name: str, text: str, cwd: Path = REPO) -> None:
    (cwd / name).parent.mkdir(parents=True, exist_ok=True)
    (cwd / name).write_bytes(text.encode())


def saver(code: str, place: Path, *, dies: bool = False) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(place)], env=ENV, capture_output=True, text=True)
    assert done.returncode == (-signal.SIGKILL if dies else 0), done.stderr


def hook(event: str, **fields: str) -> None:
    sent = {"session_id": "s-1", "cwd": str(REPO), "hook_event_name": event, **fields}
    baton("hook", "claude", event, "--track", "auto", stdin=json.dumps(sent))


def begun() -> None:
    """A remote, and a clone of it with files of many kinds."""
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    (HOME / ".gitconfig").write_text(GITCONFIG)
    git("init", "-q", "--bare", str(REMOTE), cwd=HOME)
    git("clone", "-q", str(REMOTE), str(REPO), cwd=HOME)
    write(".gitattributes", "*.crlf eol=crlf\n")
    write(".gitignore", "dist/\n*.log\n")
    write("a.txt", "one\ntwo\nthree\n")
    write("mixed.crlf", "unix\nwindows\r\n")
    write("src/lexer.txt", "lexer\n")
    write("src/parser.txt", "parser\n")
    write("with space é.txt", "odd name\n")
    (REPO / "link").symlink_to("a.txt")
    write("run.sh", "exit 0\n")
    (REPO / "run.sh").chmod(0o755)
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    git("push", "-q", "origin", "HEAD")


def tracked() -> None:
    """Tracks with words, labels, pins, prunes and something forgotten; a checkpoint from within a conflict."""
    baton("snapshot", "--track", "main", "--step", "begun", "--no-files")
    write("a.txt", "one\ntwo, edited\nthree\n")
    baton("snapshot", "--track", "main", "--step", "to be pruned")
    baton("snapshot", "--track", "main", "--step", "to be forgotten")
    write("src/parser.txt", "parser, better\n")
    write("untracked.txt", "nobody added me\n")
    git("add", "src/parser.txt")
    write("src/parser.txt", "parser, better and unstaged\n")
    words = ("--note", "two\n\n\tlines, é, 日本", "--next-cmd", 'make test && echo "ok"', "--validation", "green")
    more = ("--decision", "keep the old parser", "--decision", "no rewrite", "--extra", "pr=17", "--label", "before-rewrite")
    baton("snapshot", "--track", "main", "--step", "parser done\nwith a second line", *words, *more)
    baton("snapshot", "--track", "side work/b", "--step", "another agent", "--no-set-current", "--validation", "failed")
    baton("snapshot", "--track", "ünï", "--step", "a track of another script", "--no-set-current")
    git("stash", "-q")
    git("checkout", "-q", "-b", "topic")
    write("a.txt", "one\ntheirs\nthree\n")
    git("commit", "-q", "-a", "-m", "theirs")
    git("checkout", "-q", "main")
    write("a.txt", "one\nours\nthree\n")
    git("commit", "-q", "-a", "-m", "ours")
    git("merge", "-q", "topic", code=1)
    baton("snapshot", "--track", "main", "--step", "in a conflict", "--label", "conflict")
    git("merge", "--abort")
    git("stash", "pop", "-q", code=1)
    git("checkout", "-q", "--theirs", "a.txt")
    git("reset", "-q")
    git("stash", "drop", "-q")
    write("src/lexer.txt", "lexer, edited\n")
    baton("snapshot", "--track", "main", "--step", "goes on", "--validation", "pending", "--next-cmd", "make lexer")
    baton("pin", "main~1")
    baton("pin", "main")
    baton("unpin", "main")
    baton("forget", "main~4")
    baton("prune", "main", "--keep-last", "3")


def automatic() -> None:
    """A session of an agent: its words carried along, and its conversation."""
    talk = HOME / "talk.jsonl"
    baton("snapshot", "--track", "auto", "--step", "agent begins", "--validation", "green", "--no-set-current")
    said = [{"type": "user", "uuid": "u-1", "message": {"role": "user", "content": "make the lexer faster"}}]
    said += [{"type": "assistant", "uuid": "u-2", "message": {"role": "assistant", "content": "done, twice as fast"}}]
    talk.write_text("".join(json.dumps(one) + "\n" for one in said))
    hook("SessionStart", transcript_path=str(talk), source="startup")
    hook("UserPromptSubmit", transcript_path=str(talk), prompt="make the lexer faster")
    write("src/lexer.txt", "lexer, faster\n")
    hook("Stop", transcript_path=str(talk))
    git("add", "src/lexer.txt")
    git("commit", "-q", "-m", "faster")
    hook("PreCompact", transcript_path=str(talk), trigger="auto")
    talk.unlink()


def restored() -> None:
    """Safety checkpoints: a restore, taken back and carried out again, and one that stands."""
    baton("restore", "before-rewrite", "--force")
    baton("undo")
    baton("redo")
    baton("undo")
    write("run.sh", "exit 1\n")


def ran() -> None:
    """A plan that waits at a gate with an effect that stands, and a step whose outcome nobody knows."""
    write("plan.toml", PLAN)
    baton("run", "--plan", "plan.toml", "--run", "plan", code=75)
    baton(
        "run", "--run", "single", "--step", "hello", "--reads", "a.txt", "--writes", "out.txt", "--", "cp", "a.txt", "out.txt"
    )
    baton("run", "--run", "single", "--step", "deploy", "--effect", "once", "--", "false", code=1)


def exchanged() -> None:
    """What another clone pushed: a track and a run that exist only as fetched, and more of a track that both have."""
    git("config", "baton.push", "true")
    baton("push", "origin", "main", "side work/b")
    git("clone", "-q", str(REMOTE), str(OTHER), cwd=HOME)
    git("config", "baton.push", "true", cwd=OTHER)
    baton("snapshot", "--track", "far", "--step", "from far away", "--label", "far-label", cwd=OTHER)
    baton("snapshot", "--track", "far", "--step", "further", "--next-cmd", "make far", cwd=OTHER)
    baton("run", "--run", "far-run", "--step", "x", "--key", "k", "--", "true", cwd=OTHER)
    baton("fetch", "origin", cwd=OTHER)
    baton("sync", "origin", "main", cwd=OTHER)
    baton("snapshot", "--track", "main", "--step", "a colleague's", cwd=OTHER)
    baton("push", "origin", "--runs", cwd=OTHER)
    baton("fetch", "origin", "--runs")


def copied(name: str) -> Path:
    """A copy of the repository, at the very place where it was made."""
    shutil.copytree(REPO, HOME / name, symlinks=True)
    return HOME / name


def killed(state: str) -> None:
    """The repository as a kill left it; then as it was before."""
    kept = copied("kept")
    if state == "mid-restore":
        baton("restore", "main~1", "--force", dies=DIE_AMONG_FILES)
    elif state == "mid-join":
        baton("sync", "origin", dies=DIE_IN_A_JOIN)
    else:
        saver(UNFLUSHED, REPO, dies=True)
    REPO.rename(HOME / state)
    kept.rename(REPO)


def packed() -> None:
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for name in (*WRITES, REMOTE.name):
            archive.add(HOME / name, name, filter=nobody)


def nobody(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return None if "/.git/hooks/" in info.name else info


def asked() -> dict[str, dict[str, list[str | int]]]:
    found = {}
    for state, text in [("reads", READS), *WRITES.items()]:
        with tempfile.TemporaryDirectory() as folder:
            place = unpack(Path(folder), "whole" if state == "reads" else state)

            def run(words: object, stdin: bytes, place: Path = place) -> Outcome:
                env = {**ENV, "HOME": str(HOME), "PATH": os.path.dirname(sys.executable) + ":" + ENV["PATH"]}
                program = [sys.executable, "-m", "gitbaton", *words]  # type: ignore[misc]
                done = subprocess.run(program, cwd=place, env=env, input=stdin, capture_output=True)
                return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

            found[state] = ask(run, place, text, fresh=state != "reads")
    return found


def main() -> None:
    begun()
    tracked()
    automatic()
    restored()
    ran()
    saver(THREADS, REPO)
    exchanged()
    git("gc", "-q")
    for state in WRITES:
        if state != "whole":
            killed(state)
    REPO.rename(HOME / "whole")
    packed()
    shutil.rmtree(HOME)
    HOME.mkdir()
    (HOME / ".gitconfig").write_text(GITCONFIG)
    text = json.dumps(asked(), indent=1, ensure_ascii=False) + "\n"
    (FOLDER / "answers.json").write_text(text, "utf-8")
    print(f"{ARCHIVE.stat().st_size} bytes, {len(text)} of answers")


if __name__ == "__main__":
    main()
