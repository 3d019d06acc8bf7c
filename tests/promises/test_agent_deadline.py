"""A hook's own deadline: a slow git, a held lock, an open standard input and a violent end cost seconds and lose nothing."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from gitbaton.agents.hooks.guard import DeadlineError
from gitbaton.agents.hooks.telling import tell
from gitbaton.agents.transcripts.layout import told_session, transcript_ref
from gitbaton.base.clients import HookEvent
from gitbaton.git.repo import discover
from tests.kit import Sandbox
from tests.kit.agents import PROGRAM, Client, autos, check_next, checkpoints, injected, log_of, written_tree
from tests.kit.state import snap
from tests.kit.talks import Talk
from tests.kit.tiers import deep, some

WORDS = ("--next-cmd", "make check", "--validation", "green")
SLOW = 30  # seconds that a git of the test sleeps; a hook gives up long before
BOUND = 15  # seconds: half of that


@pytest.fixture
def box(repo: Sandbox) -> Sandbox:
    """A repository with a manual checkpoint and something new in the work tree."""
    snap(repo, "t", "S-manual", *WORDS)
    repo.write("new.txt", "new\n")
    return repo


@pytest.mark.deep
@some("start", [b'{"session_id":"s",', b""], share=0)
def test_a_standard_input_that_is_never_closed(box: Sandbox, start: bytes) -> None:
    client = Client("claude", box.path)
    with subprocess.Popen(
        [PROGRAM, "hook", "claude", "Stop"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=box.path,
        env={**os.environ, **client.env()},
    ) as process:
        assert process.stdin is not None
        process.stdin.write(start)
        process.stdin.flush()
        try:
            assert process.wait(BOUND) == 0
        finally:
            process.kill()
    check_next(box)


@contextmanager
def lock_held(box: Sandbox) -> Iterator[None]:
    """Another process holds our lock."""
    code = "import fcntl,sys;f=open(sys.argv[1],'a');fcntl.flock(f,2);print(flush=True);sys.stdin.read()"
    name = str(box.path / ".git" / "baton" / "flock")
    words = [sys.executable, "-c", code, name]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            yield
        finally:
            holder.kill()


def timed(client: Client, event: str, env: dict[str, str]) -> tuple[float, str]:
    """How long a call took until its pipes were closed, too, and what it injected."""
    began = time.monotonic()
    done = client.send(event, client.payload(event), env=env)
    return time.monotonic() - began, injected(client.agent, event, done)


def wait_for(true: Callable[[], object], seconds: int = 3 * SLOW) -> bool:
    """Whether something becomes so in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.full
def test_our_lock_is_held_for_long(box: Sandbox) -> None:
    client = Client("claude", box.path)
    client.asked("p")
    with lock_held(box):
        for event in ("SessionStart", "Stop", "PreCompact"):
            took, text = timed(client, event, {})
            assert took < BOUND, f"{event} took {took:.1f} s"
            assert event != "SessionStart" or "S-manual" in text, "reading needs no lock"
        assert autos(box, "t") == []
    assert wait_for(lambda: autos(box, "t")), "the checkpoint was given up"
    assert autos(box, "t")[0]["files"]["tree"] == written_tree(box)
    assert wait_for(lambda: nobody_is_late(box))
    check_next(box)


def slow_git(folder: Path, pattern: str) -> dict[str, str]:
    """A git that sleeps before calls of that pattern, as long as there is no file ``fast`` beside it."""
    folder.mkdir()
    real = shutil.which("git")
    body = f'case " $* " in {pattern}) [ -e "{folder}/fast" ] || sleep {SLOW};; esac\nexec "{real}" "$@"\n'
    (folder / "git").write_text("#!/bin/sh\n" + body)
    (folder / "git").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.deep
@some("pattern", ["*", '*" add "*', '*" write-tree "*'], share={'*" add "*'})
def test_a_git_that_sleeps(box: Sandbox, tmp_path: Path, pattern: str) -> None:
    env = slow_git(tmp_path / "slow", pattern)
    client = Client("claude", box.path)
    client.asked("p")
    took, text = timed(client, "SessionStart", env)
    assert took < BOUND and (pattern == "*" or "S-manual" in text)
    took, _ = timed(client, "Stop", env)
    assert took < BOUND, f"{took:.1f} s"
    (tmp_path / "slow" / "fast").touch()
    assert wait_for(lambda: autos(box, "t")), "nobody took the checkpoint afterwards\n" + log_of(box)
    assert autos(box, "t")[0]["files"]["tree"] == written_tree(box)
    assert autos(box, "t")[0]["step"] == "turn ended: p"
    check_next(box)


@pytest.mark.deep
def test_the_turn_that_was_cut_is_told_where_others_were_in_the_way(box: Sandbox, tmp_path: Path) -> None:
    """Of what was said, too, nothing is lost: who may wait goes on with it."""
    talk = Talk(box, tmp_path / "talk.jsonl")
    talk.client.asked("Mend the parser", transcript_path=str(talk.path))
    talk.ask("Mend the parser")
    talk.edit("x.py", "two\n")
    talk.say("I begin with half().")
    lock = box.path / ".git" / f"{transcript_ref('claude', told_session(talk.client.session))}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    talk.fire("compact")
    assert autos(box, "t") == [], log_of(box)
    lock.unlink()
    assert wait_for(lambda: autos(box, "t")), "the checkpoint was given up"
    assert wait_for(lambda: nobody_is_late(box))
    told = json.loads(box.ok("resume", "--json").out)["told"]
    assert [one["text"] for one in told["texts"]] == ["I begin with half()."] and told["latest"]["text"] == "Mend the parser"


def nobody_is_late(box: Sandbox) -> bool:
    """Whether no process that nobody waits for is at work in the work tree, nor waits for its turn."""
    for name in ("late-hook", "late-hook-waits"):
        with open(box.path / ".git/baton" / name, "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
    return True


@pytest.mark.deep
def test_many_late_hooks_take_one_checkpoint(box: Sandbox) -> None:
    client = Client("claude", box.path)
    client.asked("p")
    with ThreadPoolExecutor(4) as pool, lock_held(box):
        assert all(took < BOUND for took, _ in pool.map(lambda _: timed(client, "Stop", {}), range(4)))
        snap_job = pool.submit(snap, box, "t", "newer words")
        time.sleep(0.5)
    snap_job.result()
    assert wait_for(lambda: autos(box, "t") or checkpoints(box, "t")[-1]["step"] == "newer words")
    assert wait_for(lambda: nobody_is_late(box))
    check_next(box, words="newer words")
    records = checkpoints(box, "t")
    manual = [r["step"] for r in records].index("newer words")
    assert all(r["carried"]["step"] == "newer words" for r in records[manual + 1 :])
    assert len([r for r in records if r["step"] == "turn ended: p"]) <= 1


def ten_seconds_later(box: Sandbox) -> None:
    """The locks of a git that was killed are stale, as they are ten seconds afterwards; a hook would have waited two."""
    assert wait_for(lambda: nobody_is_late(box))
    for lock in (box.path / ".git").rglob("*.lock"):
        with suppress(FileNotFoundError):
            os.utime(lock, (0, 0))


@pytest.mark.full
def test_hooks_killed_at_any_time(box: Sandbox) -> None:
    chance = random.Random(7)
    client = Client("claude", box.path)
    for number in range(24):
        box.write("new.txt", f"{number}\n")
        event = chance.choice(["Stop", "PreCompact", "UserPromptSubmit", "SessionStart"])
        process = subprocess.Popen(
            [PROGRAM, "hook", "claude", event],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=box.path,
            env={**os.environ, **client.env()},
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(client.payload(event)).encode())
        process.stdin.close()
        time.sleep(chance.uniform(0.02, 0.16))
        how = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
        try:
            (os.killpg if number % 2 else os.kill)(process.pid, how)
        except ProcessLookupError:
            pass
        process.wait()
        if number % 6 == 5:
            ten_seconds_later(box)
            check_next(box, session=f"n{number}")
    ten_seconds_later(box)
    check_next(box)
    left = [p for p in (box.path / ".git").rglob("*.lock") if "tmp" not in p.parts[-3:]]  # copies of the index go in an hour
    assert not left


@pytest.mark.parametrize(
    "pattern", ['*" diff-tree "*', deep('*" status "*'), deep('*" ls-files "*|*" status "*|*" rev-list "*'), deep("*")]
)
def test_what_is_recorded_is_told_where_git_is_too_slow_for_more(box: Sandbox, tmp_path: Path, pattern: str) -> None:
    talk = Talk(box, tmp_path / "talk.jsonl")
    talk.client.asked("Mend the parser", transcript_path=str(talk.path))
    talk.ask("Mend the parser")
    talk.edit("x.py", "two\n")
    talk.say("It is mended.")
    talk.fire("turn", last_assistant_message="It is mended.")
    talk.client.asked("Now its tests", transcript_path=str(talk.path))
    other = Client("claude", box.path, session="5e551011-0000-4000-8000-00000000000f")
    took, text = timed(other, "SessionStart", slow_git(tmp_path / "slow", pattern))
    told = "Now its tests" in text and "It is mended." in text and "S-manual" in text
    assert took < BOUND and (told or pattern == "*"), text


@some(
    ("late", "told"),
    [
        ("telling._live", "Now its tests"),
        ("unended.observing._read_on", "Now its tests"),
        ("telling._unended", "It is mended."),
        ("telling.load", "git baton resume --live"),
    ],
)
def test_whatever_takes_too_long_something_is_told(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str, told: str
) -> None:
    talk = Talk(box, tmp_path / "talk.jsonl")
    talk.client.asked("Mend the parser", transcript_path=str(talk.path))
    talk.ask("Mend the parser")
    talk.edit("x.py", "two\n")
    talk.fire("turn", last_assistant_message="It is mended.")
    talk.client.asked("Now its tests", transcript_path=str(talk.path))

    def over(*_: object, **__: object) -> None:
        raise DeadlineError

    monkeypatch.setattr(f"gitbaton.agents.hooks.{late}", over)
    event = HookEvent(agent="claude", name="SessionStart", moment="start", inject="full", session="next")
    with closing(discover(str(box.path), door="binary")) as repo:
        text, left = tell(repo, event, None, 5.0, lambda _: None)
    assert told in text and left and ("S-manual" in text or late == "telling.load")
