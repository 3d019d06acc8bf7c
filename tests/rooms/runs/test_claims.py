"""Claims on write sets, between real processes: who waits, who is refused, what a killed one leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from gitbaton.base.errors import RunError
from gitbaton.base.system import groups
from gitbaton.base.system.groups import ChildProcess
from gitbaton.git.repo import Repo, discover
from gitbaton.runs.claims import Claim, Claims
from tests.kit import Sandbox
from tests.kit.commands import runs, sweep, until
from tests.kit.hurry import hurry
from tests.kit.places import PYTHON

# Takes a claim, says so, perhaps runs a command under it, and gives it back when its input ends.
HOLDER = """
import json, os, sys
from gitbaton.base.system.children import UserCommand, run as start
from gitbaton.git.repo import discover
from gitbaton.runs import claims
where, run, step, writes, options = json.loads(sys.argv[1])
if options.get("die"):
    os.rename = lambda *_: os.kill(os.getpid(), 9)
repo = discover(where, door="binary")
claim = claims.Claims(repo).take(run, step, writes, wait=options.get("wait"), same=lambda who: print("waits", flush=True))
print("taken", flush=True)
if "line" in options:
    command = UserCommand(argv=("sh", "-c", options["line"]), cwd=where, env=dict(os.environ))
    start(command, started=claim.child, locks=[claim.lock_fd])
sys.stdin.read()
claim.release()
"""


class Holder:
    """Another process that takes a claim."""

    def __init__(self, place: Path, run: str, step: str, *writes: str, **options: Any) -> None:
        words = [sys.executable, "-c", HOLDER, json.dumps([str(place), run, step, writes, options])]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid

    def __enter__(self) -> Holder:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def hears(self, word: bytes) -> Holder:
        """Wait for the next thing that it says."""
        out: IO[bytes] | None = self.process.stdout
        assert out is not None and out.readline() == word + b"\n"
        return self

    def gives_back(self) -> None:
        """Let it release its claim and end."""
        self.process.communicate()
        assert self.process.returncode == 0

    def is_killed(self) -> None:
        """End it as the kernel does when there is no more memory."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    """An opened repository; what wrote its process id into a ``*.pid`` of its work tree is ended afterwards."""
    place = Sandbox.init(tmp_path / "repo").path
    opened = discover(str(place), door="binary")
    yield opened
    opened.close()
    sweep(place)


def top(repo: Repo) -> Path:
    """Its work tree."""
    assert repo.layout.root is not None
    return Path(repo.layout.root)


def files(repo: Repo) -> list[str]:
    """What lies among the claims, but for the lock."""
    return sorted(set(os.listdir(Path(repo.shared_dir) / "claims")) - {"lock"})


def forged(repo: Repo, **changes: Any) -> Path:
    """A claim that looks as if another process had written it, and that nobody holds."""
    claims = Claims(repo)
    claim = claims.take("forged", "made", ("dist/**",))
    words = json.loads(Path(claim.path).read_text()) | changes
    claim.release()
    path = Path(claim.path)
    path.write_text(json.dumps(words))
    return path


@pytest.mark.deep
def test_overlapping_write_sets_are_refused_and_others_are_not(repo: Repo) -> None:
    claims = Claims(repo, agent="me")
    with Holder(top(repo), "r1", "build", "dist/**").hears(b"taken") as holder:
        before = files(repo)
        with pytest.raises(RunError) as caught:
            claims.take("r1", "pack", ("src/*", "dist/a.js"))
        assert caught.value.exit_code == 78
        host = os.uname().nodename
        words = f"the write set of 'pack' is claimed by step 'build' of run 'r1' (process {holder.pid} on '{host}')"
        assert caught.value.message == words
        assert caught.value.hints[0] == "'dist/a.js' of 'pack' and 'dist/**' of 'build' overlap"
        assert files(repo) == before
        other = claims.others()
        assert [(held.run, held.step, held.writes, held.pid) for held in other] == [("r1", "build", ("dist/**",), holder.pid)]
        with claims.take("r1", "pack", ("distant/*",)) as mine, claims.take("r1", "reads-only", ()):
            assert len(files(repo)) == 3 and claims.others() == other
            assert json.loads(Path(mine.path).read_text())["agent"] == "me"
        holder.gives_back()
    claims.take("r1", "pack", ("dist/a.js",)).release()
    assert files(repo) == [] and claims.others() == ()


def test_a_claim_is_waited_for(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = Claims(repo)
    with Holder(top(repo), "r1", "build", "dist/**").hears(b"taken") as holder:
        with monkeypatch.context() as patch:
            slept = hurry(patch)
            with pytest.raises(RunError):
                claims.take("r2", "build", ("dist/**",), wait=20)
            assert sum(slept) > 19
        slept = hurry(monkeypatch, lambda _: holder.gives_back())
        claims.take("r2", "build", ("dist/**",), wait=20).release()
        assert len(slept) == 1


@pytest.mark.full
def test_the_same_step_of_the_same_run_is_waited_for_without_limit(repo: Repo) -> None:
    said: list[str] = []
    for writes in (("dist/**",), ()):
        with Holder(top(repo), "r1", "build", *writes).hears(b"taken") as holder:
            with Holder(top(repo), "r1", "build", *writes) as second:
                second.hears(b"waits")
                holder.gives_back()
                second.hears(b"taken")
            Claims(repo).take("r1", "build", writes, same=said.append).release()
    assert said == [] and files(repo) == []


@pytest.mark.deep
def test_a_linked_work_tree_has_write_sets_of_its_own(repo: Repo, tmp_path: Path) -> None:
    main = Sandbox(top(repo))
    main.commit()
    main.git("worktree", "add", "-q", str(tmp_path / "linked"))
    with Holder(tmp_path / "linked", "r1", "build", "dist/**").hears(b"taken"):
        claims = Claims(repo)
        with claims.take("r1", "pack", ("dist/**",)):
            assert [held.worktree for held in claims.others()] == [str(tmp_path / "linked")]
        with Holder(top(repo), "r1", "build", "dist/**") as second:
            second.hears(b"waits")


@pytest.mark.deep
def test_r42_a_dead_claim_is_taken_over_and_a_live_one_of_another_host_is_not(repo: Repo) -> None:
    with Holder(top(repo), "r1", "build", "dist/**").hears(b"taken") as holder:
        holder.is_killed()
    Claims(repo).take("r2", "pack", ("dist/**",)).release()
    assert files(repo) == []

    far = forged(repo, host="elsewhere", boot="another", pid=1)
    for run, step in (("r2", "pack"), ("forged", "made")):
        with pytest.raises(RunError, match=r"step 'made' of run 'forged' .process 1 on 'elsewhere'.") as caught:
            Claims(repo).take(run, step, ("dist/**",), wait=0.05)
        assert caught.value.exit_code == 78 and far.exists()
    assert [held.host for held in Claims(repo).others()] == ["elsewhere"]


def test_a_claim_of_this_kernel_is_taken_over_whatever_its_container_was_called(repo: Repo) -> None:
    forged(repo, host="container-1")
    Claims(repo).take("r2", "pack", ("dist/**",)).release()
    assert files(repo) == []
    for boot in ("another", ""):
        far = forged(repo, host="container-1", boot=boot)
        with pytest.raises(RunError, match="on 'container-1'"):
            Claims(repo).take("r2", "pack", ("dist/**",))
        far.unlink()


def test_steps_that_would_wait_for_each_other_in_a_circle_are_told(repo: Repo) -> None:
    claims, told = Claims(repo), threading.Event()
    first, second = claims.take("r1", "a", ("a",)), claims.take("r1", "b", ("b",))
    third = claims.take("r1", "c", ("c",))
    got = []

    def waits(step: str, holding: Claim) -> None:
        with Claims(repo).take("r1", step, (), same=lambda who: told.set(), holding=(holding,)):
            got.append(step)

    threads = []
    for step, holding in (("b", first), ("c", second)):
        told.clear()
        threads.append(threading.Thread(target=waits, args=(step, holding), daemon=True))
        threads[-1].start()
        assert told.wait(60)
    os.utime(third.path, (1, 1))
    with pytest.raises(RunError, match="waits for step 'c', which waits for it") as caught:
        claims.take("r1", "a", (), holding=(third,))
    assert caught.value.exit_code == 78
    assert os.stat(third.path).st_mtime == 1, "the others see nothing of it while this one is told"
    third.release()
    threads[1].join(60)
    second.release()
    threads[0].join(60)
    first.release()
    assert got == ["c", "b"] and files(repo) == []


def test_a_killed_holder_that_nobody_has_waited_for_is_dead(repo: Repo) -> None:
    child = top(repo) / "child.pid"
    line = "echo $$ > child.pid; exec sleep 60"
    with Holder(top(repo), "r1", "build", "dist/**", line=line).hears(b"taken") as holder:
        until(lambda: child.exists() and runs(child))
        os.kill(holder.pid, signal.SIGKILL)
        until(lambda: groups.mark(holder.pid) is None)
        Claims(repo).take("r2", "pack", ("dist/**",)).release()
        assert not runs(child)


def test_a_claim_from_before_the_machine_was_started_anew_is_taken_over(repo: Repo) -> None:
    group = (os.getpid(), groups.mark(os.getpid()))  # the numbers of then are others' now
    forged(repo, boot="before", pid=os.getpid(), group=group)
    Claims(repo).take("r2", "pack", ("dist/**",)).release()
    assert files(repo) == []


@pytest.mark.deep
@pytest.mark.parametrize("closes", [False, True], ids=["holds the lock", "closed the lock"])
def test_what_a_killed_holder_left_running_is_ended_before_its_claim_is_taken(repo: Repo, closes: bool) -> None:
    line = "echo $$ > child.pid; exec sleep 60"
    if closes:
        line = f'exec {PYTHON} -c \'import os; os.closerange(3, 99); os.execvp("sh", ["sh", "-c", "{line}"])\''
    child = top(repo) / "child.pid"
    with Holder(top(repo), "r1", "build", "dist/**", line=line).hears(b"taken") as holder:
        until(lambda: child.exists() and runs(child))
        holder.is_killed()
    assert runs(child)
    claims = Claims(repo)
    claims.take("r1", "docs", ("docs/**",)).release()
    assert runs(child) and len(claims.others()) == 1  # its write set is in nobody's way
    claims.take("r2", "pack", ("dist/a",)).release()
    assert not runs(child) and files(repo) == []


@pytest.mark.deep
def test_what_cannot_be_found_but_holds_the_lock_is_waited_for(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    once = "until test -e {}; do sleep 0.01; done"
    line = f"setsid env -i /bin/sh -c 'echo $$ > lost.pid; {once.format('over')}' & {once.format('lost.pid')}"
    lost = top(repo) / "lost.pid"
    with Holder(top(repo), "r1", "build", "dist/**", line=f"{line}; exec sleep 60").hears(b"taken") as holder:
        until(lambda: lost.exists() and runs(lost))
        holder.process.kill()
        holder.process.wait()
        said = json.loads((Path(repo.shared_dir) / "claims" / files(repo)[0]).read_text())
        child = ChildProcess(word=said["word"], pid=said["group"][0], mark=said["group"][1])
        os.killpg(child.pid, signal.SIGKILL)
        until(lambda: not child.alive())
    with pytest.raises(RunError):
        Claims(repo).take("r2", "pack", ("dist/a",))
    assert runs(lost)
    sleep = time.sleep

    def waits(seconds: float) -> None:
        (top(repo) / "over").touch()
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", waits)
    Claims(repo).take("r2", "pack", ("dist/a",), wait=60).release()
    assert not runs(lost)


@pytest.mark.deep
def test_what_a_released_claim_left_running_is_left_alone(repo: Repo) -> None:
    line = "sh -c 'echo $$ > daemon.pid; exec sleep 60' & until test -s daemon.pid; do sleep 0.01; done"
    with Holder(top(repo), "r1", "build", "dist/**", line=line).hears(b"taken") as holder:
        holder.gives_back()
    Claims(repo).take("r2", "pack", ("dist/a",)).release()
    assert runs(top(repo) / "daemon.pid")


def test_a_step_does_not_wait_for_the_step_that_it_is_part_of(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = Claims(repo)
    mine = claims.take("r1", "build", ("dist/**",))
    mine.child(ChildProcess(word="mine"))
    monkeypatch.setenv(groups.VARIABLE, "outer mine")
    for step in ("build", "pack"):
        with pytest.raises(RunError, match=r"step 'build' of run 'r1' .* is under way around this command"):
            claims.take("r1", step, ("dist/**",), wait=60)
    mine.release()


def test_a_crash_between_taking_and_writing_blocks_nobody(repo: Repo) -> None:
    with Holder(top(repo), "r1", "build", "dist/**", die=True) as holder:
        assert holder.process.wait() == -signal.SIGKILL
    assert [name[-4:] for name in files(repo)] == [".new"]
    claims = Claims(repo)
    with claims.take("r2", "pack", ("dist/**",)):
        assert [name[-5:] for name in files(repo)] == [".json"]


@pytest.mark.parametrize(
    "changes",
    [
        {"writes": ["../x"]},
        {"writes": "dist"},
        {"writes": [["dist"]]},
        {"pid": "1"},
        {"pid": -1},
        {"v": 2},
        {"step": None},
        {"group": [1, "x"]},
        {"group": [-5, "x"]},
        {"group": {}},
        {"worktree": 7},
    ],
)
def test_a_claim_that_nobody_can_have_written_blocks_nobody(repo: Repo, changes: dict[str, Any]) -> None:
    path = forged(repo, **changes)
    Claims(repo).take("r2", "pack", ("dist/**",)).release()
    assert not path.exists()


def test_a_torn_claim_blocks_only_while_it_is_held(repo: Repo) -> None:
    for text in ("", "{", "[]", "\0" * 100, "null"):
        (Path(repo.shared_dir) / "claims").mkdir(parents=True, exist_ok=True)
        path = Path(repo.shared_dir) / "claims" / "ab.json"
        path.write_text(text)
        Claims(repo).take("r2", "pack", ("dist/**",)).release()
        assert not path.exists(), text
    mine = Claims(repo).take("r1", "build", ("dist/**",))
    Path(mine.path).write_text("{")
    with pytest.raises(RunError, match="unknown"):
        Claims(repo).take("r2", "pack", ("anything",))
    mine.release()


WORKER = """
import os, sys, time
from gitbaton.git.repo import discover
from gitbaton.runs.claims import Claims
claims = Claims(discover(sys.argv[1], door="binary"))
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
for number in range(25):
    with claims.take(f"r{os.getpid()}", "s", (f"dist/{number % 3}*/**", "dist/**/x"), wait=60):
        os.write(log, b"%d in\\n" % os.getpid())
        os.write(log, b"%d out\\n" % os.getpid())
"""


@pytest.mark.full
def test_eight_processes_never_hold_the_same_write_set_at_once(repo: Repo, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    words = [sys.executable, "-c", WORKER, str(top(repo)), str(log)]
    workers = [subprocess.Popen(words) for _ in range(8)]
    assert [worker.wait() for worker in workers] == [0] * 8
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len(lines) == 400 and len({pid for pid, _ in lines}) == 8
    for (one, began), (other, ended) in zip(lines[::2], lines[1::2], strict=True):
        assert (one, began, ended) == (other, "in", "out")
    assert files(repo) == []
