"""Exchange while others are at work, here and at the remote: whatever moves at whatever moment, the rest goes on."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit.clones import Clock, Clone, copied
from tests.kit.far import Far, elsewhere, ok, snap, steps
from tests.kit.moments import Args, at
from tests.kit.repos import Outcome
from tests.kit.servers import hook
from tests.kit.tiers import some

Commands = tuple[tuple[str, ...], ...]
ACTIONS: dict[str, tuple[str, Commands]] = {
    "deleted here": ("b", (("tracks", "delete", "new", "--yes"),)),
    "deleted ours": ("b", (("tracks", "delete", "own", "--yes"),)),
    "deleted both": ("b", (("tracks", "delete", "both", "--yes"),)),
    "renamed": ("b", (("tracks", "rename", "both", "other name"),)),
    "renamed own": ("b", (("tracks", "rename", "own", "other name"),)),
    "forgotten": ("b", (("forget", "both", "--yes", "--force"),)),
    "pruned": ("b", (("prune", "--keep-last", "1"),)),
    "recorded": ("b", (("snapshot", "--track", "both", "meanwhile"),)),
    "fetched": ("b", (("fetch",),)),
    "synced": ("b", (("sync", "--yes"),)),
    "pushed": ("b", (("push", "--yes"),)),
    "synced there": ("a", (("sync", "--yes"),)),
    "deleted there": ("a", (("tracks", "delete", "both", "--yes"), ("push", "--yes"))),
    "renamed there": ("a", (("tracks", "rename", "both", "other name"), ("push", "--yes"))),
    "pruned there": ("a", (("prune", "--keep-last", "1"), ("sync", "--yes"))),
    "forgotten there": ("a", (("forget", "both", "--yes", "--force"), ("sync", "--yes"))),
    "new there": ("a", (("snapshot", "--track", "newest", "x"), ("push", "--yes"))),
}
VERBS = {"sync": ("sync", "--yes"), "push": ("push", "--yes"), "fetch": ("fetch",)}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clones that both have something new, and the track 'both' in common. None can have the lock by which exchanges wait
    for each other, on which nothing relies."""
    place = tmp_path_factory.mktemp("far")
    far = Far(place)
    a, b = far.first, far.clone()
    for n in range(2):
        snap(a, f"one {n}", "both")
    ok(a, "push", "--yes")
    ok(b, "sync", "--yes")
    snap(b, "two", "both")
    snap(b, "own", "own")
    snap(a, "three", "both")
    snap(a, "new", "new")
    ok(a, "push", "--yes")
    for clone in (a, b):
        lock = clone.path / ".git/baton/lock/exchange"
        lock.unlink()
        lock.mkdir()
    return place


def both_at_work(place: Path, verb: str, action: str, word: str) -> tuple[Outcome, dict[str, Clone], bool]:
    """The verb in b, with something happening before the first git of that name that it starts; whether there was one."""
    clock, did = Clock(), list[object]()
    clones = {name: Clone(place / name, clock) for name in "ab"}
    elsewhere(*clones.values())
    who, commands = ACTIONS[action]

    def act(args: Args) -> None:
        did.append(args)
        for words in commands if len(did) == 1 else ():
            clones[who].baton(*words)

    with at("os.posix_spawn", lambda args: word in args[1], act):
        done = clones["b"].here(*VERBS[verb])
    return done, clones, bool(did)


MOMENTS = [
    *((verb, word) for verb, words in {"sync": ("ls-remote", "fetch", "push")}.items() for word in words),
    *(("push", word) for word in ("ls-remote", "push")),
    ("fetch", "fetch"),
]


HOLDS = "import fcntl, os, sys; f = os.open(sys.argv[1], 0); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"


@contextmanager
def another_at_it(clone: Clone, where: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the lock by which exchanges of a clone wait for each other, or pushes to a hub on this machine."""
    lock = clone.path.parent / "far.git"
    if where == "here":
        lock = clone.path / ".git/baton/lock/exchange"
        lock.rmdir()
        lock.touch()
    with subprocess.Popen((sys.executable, "-c", HOLDS, str(lock)), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline()
        yield holder


@pytest.mark.deep
@pytest.mark.parametrize("where", ["here", "there"])
def test_an_exchange_goes_on_beside_another_one_that_does_not_end(template: Path, tmp_path: Path, where: str) -> None:
    b = Clone(copied(template, tmp_path / "w") / "b", Clock())
    with another_at_it(b, where) as holder:
        # Half of its time is the most that it waits.
        assert "both: 1 joined" in ok(b, "sync", "--yes", "--timeout", "8").out and holder.poll() is None


@pytest.mark.deep
@pytest.mark.parametrize("where", ["here", "there"])
def test_an_exchange_waits_for_another_one_until_that_is_killed(template: Path, tmp_path: Path, where: str) -> None:
    b = Clone(copied(template, tmp_path / "w") / "b", Clock())
    # Who waits, waits for it.
    with another_at_it(b, where) as holder, at("fcntl.flock", lambda args: args[1] == fcntl.LOCK_EX, lambda _: holder.kill()):
        done = ok(b, "sync", "--yes")
    assert holder.returncode == -signal.SIGKILL and "both: 1 joined" in done.out


@pytest.mark.deep
def test_a_push_that_has_waited_in_vain_for_others_at_a_hub_does_not_wait_again(template: Path, tmp_path: Path) -> None:
    """Also where it is too late then, and looks and sends once more."""
    place, waits = copied(template, tmp_path / "w"), list[object]()
    a, b = (Clone(place / name, Clock()) for name in "ab")
    elsewhere(a)

    def another(_: object) -> None:
        if not (place / "once").exists():
            (place / "once").touch()
            assert a.baton("snapshot", "--track", "newest", "x").code == a.baton("push", "--yes").code == 0

    with (
        another_at_it(b, "there"),
        at("fcntl.flock", lambda args: args[1] == fcntl.LOCK_EX, waits.append),
        at("os.posix_spawn", lambda args: "push" in args[1], another),
    ):
        done = b.here("push", "origin", "own", "--yes", "--timeout", "8")
    assert done.code == 0 and "push 'own': new, 1 checkpoint" in done.out and len(waits) == 1, done


BEGUN = """
import fcntl, os, sys
place = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(place, fcntl.LOCK_EX)
if sys.argv[2] != "folder":
    os.dup2(place, 60)
    os.close(place)
sys.addaudithook(lambda event, args: event == "fcntl.flock" and args[1] == fcntl.LOCK_EX and os._exit(9))
sys.argv = ["git-baton", *sys.argv[3:]]
from gitbaton.cli.main import run
sys.exit(run())
"""


@pytest.mark.deep
@pytest.mark.parametrize(("how", "code"), [("folder", 0), ("variable", 0), ("neither", 9)])
def test_a_push_does_not_wait_for_what_has_begun_it(template: Path, tmp_path: Path, how: str, code: int) -> None:
    """``flock HUB git baton push``, whose folder is open here, and a hook of the hub, which is told whose turn it is."""
    place = copied(template, tmp_path / "w")
    b, hub = Clone(place / "b", Clock()), place / "far.git"
    turn = f"{hub.stat().st_dev}:{hub.stat().st_ino}"
    env = {**os.environ, **({"GITBATON_TURNS": f"1:2 {turn}"} if how == "variable" else {})}
    words = (sys.executable, "-c", BEGUN, str(hub), how, "push", "--yes", "origin", "own")
    done = subprocess.run(words, cwd=b.path, env=env, capture_output=True, text=True)
    assert done.returncode == code, done
    if not code:
        hook(hub, "post-receive", 'echo "$GITBATON_TURNS" >told')
        ok(b, "sync", "--yes")
        assert (hub / "told").read_text().split() == [turn]


@pytest.mark.deep
@some("action", [*ACTIONS], share=3)
@some("moment", MOMENTS, share=2)
def test_whatever_moves_meanwhile_the_rest_goes_on(
    template: Path, tmp_path: Path, moment: tuple[str, str], action: str
) -> None:
    done, clones, did = both_at_work(copied(template, tmp_path / "w"), moment[0], action, moment[1])
    assert did and done.code in (0, 1), done
    assert "fatal:" not in done.err and "cannot lock ref" not in done.err and "there is no" not in done.err, done
    for name in "abab":
        ok(clones[name], "sync", "--yes")
    assert clones["a"].state().chains == clones["b"].state().chains


@pytest.mark.deep
def test_a_track_that_was_joined_and_is_deleted_before_it_is_told(template: Path, tmp_path: Path) -> None:
    place = copied(template, tmp_path / "w")
    b = Clone(place / "b", Clock())
    with at("os.posix_spawn", lambda args: "push" in args[1], lambda _: b.baton("tracks", "delete", "both", "--yes")):
        done = b.here("sync", "--yes")
    assert done.code in (0, 1) and "both: 1 joined" in done.out and "fatal" not in done.err, done
    assert "push 'own': new, 1 checkpoint" in done.out


@pytest.mark.deep
@pytest.mark.parametrize("verb", ["fetch", "sync"])
def test_two_fetches_at_once(template: Path, tmp_path: Path, verb: str) -> None:
    """Git reads our refs, gets the objects, and moves the refs from where it read them: another one was faster."""
    place = copied(template, tmp_path / "w")
    b, program = Clone(place / "b", Clock()), tmp_path / "another"
    spec = "+refs/baton/tracks/*:refs/baton/remotes/origin/tracks/*"
    words = f"unset GIT_DIR; cd {b.path}; git -c uploadpack.packObjectsHook= fetch -q origin '{spec}'"
    program.write_text(f'#!/bin/sh\ntest -e {program}.done || {{ : >{program}.done; ( {words} ) >&2; }}\nexec "$@"\n')
    program.chmod(0o755)
    b.git("config", "--global", "uploadpack.packObjectsHook", str(program))
    done = b.here(*VERBS[verb])
    assert done.code == 0 and "fatal" not in done.err and Path(f"{program}.done").exists(), done
    assert done.out.splitlines()[0].startswith("both: 1 newer")
    assert steps(b.state(), "both")[-1] == ("three" if verb == "sync" else "two")


@pytest.mark.deep
def test_a_lock_that_stays_is_named(template: Path, tmp_path: Path) -> None:
    place = copied(template, tmp_path / "w")
    b, ref = Clone(place / "b", Clock()), "refs/baton/remotes/origin/tracks/both"
    listed = b.path / ".git/reftable/tables.list"
    lock = Path(f"{listed}.lock") if listed.exists() else b.path / f".git/{ref}.lock"
    lock.touch()
    done = b.here("fetch")
    said, hint = done.err.splitlines()
    assert done.code == 1 and said.startswith("fatal: not all is fetched: ") and hint == "hint: try again"
    assert listed.exists() or said.endswith(f": '{ref}' did not move: another process has it")
    lock.unlink()
    assert ok(b, "fetch").code == 0


@pytest.mark.deep
def test_a_push_that_only_another_track_of_others_is_in_the_way_of_goes_on(template: Path, tmp_path: Path) -> None:
    """Notes are everybody's: who pushes another track at the same time is no reason to refuse this one."""
    place = copied(template, tmp_path / "w")
    a, b = (Clone(place / name, Clock()) for name in "ab")
    elsewhere(a, b)

    def another(_: object) -> None:
        if not (place / "once").exists():
            (place / "once").touch()
            assert a.baton("snapshot", "--track", "newest", "x").code == a.baton("push", "--yes").code == 0

    with at("os.posix_spawn", lambda args: "push" in args[1], another):
        done = b.here("push", "origin", "own", "--yes")
    assert done.code == 0 and "push 'own': new, 1 checkpoint" in done.out, done
