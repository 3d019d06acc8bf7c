"""T22, and each kind of server: what surprises a remote has, each is one line, and the user's data stays as it is."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.clones import Clock, Clone, State
from tests.kit.far import CHAINS, META, NOTES, Far, forget, ok, snap, steps
from tests.kit.repos import Outcome, Sandbox
from tests.kit.servers import (
    LOOPBACK,
    REFUSES_OURS,
    SSHD,
    bare,
    free_port,
    git_daemon,
    hook,
    http_server,
    silent_server,
    ssh_server,
)

KILLS_ONCE = 'test -e killed || { touch killed; kill -9 "$PPID"; sleep 5; }; exit 0'


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the servers of this module serve."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def daemon(served: Path) -> Iterator[str]:
    with git_daemon(served) as url:
        yield url


@pytest.fixture(scope="module")
def web(served: Path) -> Iterator[str]:
    with http_server(served) as url:
        yield url


def one_line(done: Outcome, *words: str) -> None:
    """The answer is no, in one line (and hints), with these words."""
    said = [row for row in done.err.splitlines() if not row.startswith(("hint: ", "first push of", "  "))]
    assert done.code == 1 and len(said) == 1, done.err
    assert all(word in said[0] for word in words), said[0]


def exchange(far: Far, path: Path, url: str, *, removing: bool = True, prepare: tuple[str, ...] = ()) -> list[str]:
    """Two clones over one server: both have everything, less what one removes, and git finds nothing wrong. The steps there."""
    bare(path)
    clones = [far.first, far.clone("b")]
    for number, clone in enumerate(clones):
        if prepare:
            clone.git(*prepare)
        clone.git("remote", "add", "there", url)
        snap(clone, f"step {number}")
        snap(clone, f"odd {number}", "an odd name/é")
        ok(clone, "sync", "--yes", "there")
    if removing:
        forget(clones[1], clones[1].state().chains["t"][0].id)
        ok(clones[1], "sync", "there")
    ok(clones[0], "sync", "there")
    there = State(path)
    assert there.ids() == clones[0].state().ids() == clones[1].state().ids()
    Sandbox(path).fsck()
    return steps(there)


def test_t22_over_git_daemon(far: Far, served: Path, daemon: str) -> None:
    assert exchange(far, served / "daemon.git", f"{daemon}/daemon.git") == ["step 1"]


def test_t22_over_http(far: Far, served: Path, web: str) -> None:
    assert exchange(far, served / "web.git", f"{web}/web.git", removing=False) == ["step 0", "step 1"]


@pytest.mark.skipif(SSHD is None, reason="sshd is not installed")
def test_t22_over_ssh(far: Far, tmp_path: Path) -> None:
    with ssh_server(tmp_path / "sshd") as (url, command):
        address, through = f"{url}{tmp_path}/ssh.git", ("config", "core.sshCommand", command)
        assert exchange(far, tmp_path / "ssh.git", address, removing=False, prepare=through) == ["step 0", "step 1"]


def test_t22_an_empty_remote_of_another_name(far: Far, tmp_path: Path) -> None:
    a = far.first
    a.git("remote", "remove", "origin")
    snap(a, "one")
    assert a.here("push", "--yes").code == 129  # there is none
    a.git("remote", "add", "upstream", str(bare(tmp_path / "empty.git")))
    assert ok(a, "fetch").out == "'upstream' has no tracks\n"
    ok(a, "sync", "--yes")
    there = State(tmp_path / "empty.git")
    assert steps(there) == ["one"] and set(there.refs) == {CHAINS + "t", NOTES}
    assert a.run("git", "ls-remote", "--symref", "upstream", "HEAD").out == ""  # no default branch was made
    clone = Clone(tmp_path / "new", Clock())
    Sandbox.init(clone.path)
    clone.git("remote", "add", "upstream", str(tmp_path / "empty.git"))
    ok(clone, "sync")
    assert steps(clone.state()) == ["one"]


@pytest.mark.parametrize("verb", ["push", "fetch", "sync"])
def test_t22_offline(far: Far, verb: str) -> None:
    snap(far.first, "one")
    before, mine = far.first.state().refs, far.first.mine()
    for url in (f"http://me:secret@{LOOPBACK}:{free_port()}/x.git", f"git://{LOOPBACK}:{free_port()}/x.git"):
        done = far.first.here(verb, url)
        one_line(done, "cannot be reached")
        assert "secret" not in done.err + done.out
    with silent_server() as url:
        one_line(far.first.here(verb, "--timeout", "0.5", f"{url}/x.git"), "did not answer within 0.5 s")
    one_line(far.first.here(verb, "/nowhere/at/all"), "no repository")
    assert far.first.state().refs == before and far.first.mine() == mine


def test_t22_a_hook_that_refuses_our_refs(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(b, "before there was a hook")
    ok(b, "push", "--yes")
    hook(far.remote.path, "pre-receive", REFUSES_OURS)
    mine = snap(a, "one")
    before = a.mine()
    done = a.here("sync", "--yes")
    one_line(done, "a hook of 'origin' refuses our refs: no refs of robots here")
    assert a.mine() == before and steps(a.state()) == ["before there was a hook", "one"]  # what was fetched is joined
    assert steps(far.there()) == ["before there was a hook"] and mine in a.state().ids()["t"]
    a.commit("the user's own", b_txt="b\n")
    ok(a, "install", "--fetch")
    assert a.try_git("push", "origin", "main").code == 0 and a.try_git("push").code == 0


def test_t22_a_read_only_remote(far: Far, tmp_path: Path) -> None:
    a, b = far.first, far.clone()
    snap(b, "of b")
    ok(b, "push", "--yes")
    snap(a, "of a")
    with http_server(tmp_path, writable=False) as url:
        one_line(a.here("sync", "--yes", f"{url}/far.git"), "not pushed:", "cannot be written", "403")
    with git_daemon(tmp_path, writable=False) as url:
        one_line(a.here("push", "--yes", f"{url}/far.git"), "cannot be written")
    assert steps(a.state()) == ["of b", "of a"] and steps(far.there()) == ["of b"]


def test_t22_shallow_on_either_side(far: Far, tmp_path: Path) -> None:
    a = far.first
    for number in range(3):
        a.commit(f"c{number}", a_txt=f"{number}\n")
    a.git("push", "-q")
    shallow = Clone(tmp_path / "shallow", far.clock)
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{far.remote.path}", str(shallow.path)], check=True)
    snap(a, "of a")
    ok(a, "push", "--yes")
    snap(shallow, "of the shallow one")
    ok(shallow, "sync", "--yes")
    ok(a, "sync")
    assert steps(a.state()) == steps(shallow.state()) == ["of a", "of the shallow one"]
    assert shallow.git("rev-parse", "--is-shallow-repository") == "true"
    for box in (a, shallow, far.remote):
        box.fsck()
    other = bare(tmp_path / "other.git")
    one_line(shallow.here("push", "--yes", str(other)), "shallow")
    assert State(other).chains == {}
    shallow.git("fetch", "-q", "--unshallow")  # as its hint says
    ok(shallow, "push", "--yes", str(other))
    assert steps(State(other)) == ["of a", "of the shallow one"]


def test_t22_a_partial_clone_gets_all_that_a_restore_needs(far: Far, tmp_path: Path) -> None:
    a = far.first
    a.write("untracked.txt", "untracked\n")
    oid = snap(a, "one")
    ok(a, "push", "--yes")
    far.remote.git("config", "uploadpack.allowFilter", "true")
    partial = Clone(tmp_path / "partial", far.clock)
    subprocess.run(["git", "clone", "-q", "--filter=tree:0", f"file://{far.remote.path}", str(partial.path)], check=True)
    ok(partial, "sync")
    ok(partial, "restore", "--foreign", oid)
    assert (partial.path / "untracked.txt").read_text() == "untracked\n"


def test_a_server_killed_in_the_middle_of_a_push(far: Far, served: Path, daemon: str) -> None:
    a = far.first
    path = bare(served / "killed.git")
    a.git("remote", "add", "there", f"{daemon}/killed.git")
    hook(path, "pre-receive", KILLS_ONCE)
    snap(a, "one")
    one_line(a.here("push", "--yes", "there"), "'there'")
    assert (path / "killed").exists() and State(path).refs == {}
    assert not [ref for ref in a.state().refs if ref.startswith("refs/baton/remotes/")]
    ok(a, "push", "--yes", "there")
    assert steps(State(path)) == ["one"]
    Sandbox(path).fsck()


def test_a_server_killed_between_two_refs(far: Far, served: Path, daemon: str) -> None:
    a = far.first
    path = bare(served / "half.git", receive_advertiseAtomic="false")
    a.git("remote", "add", "there", f"{daemon}/half.git")
    ids = [snap(a, "one"), snap(a, "two")]
    ok(a, "push", "--yes", "there")
    forget(a, ids[0])
    hook(path, "update", f'case "$1" in {META}) ;; *) exit 0;; esac\n' + KILLS_ONCE)
    one_line(a.here("push", "there"), "'there'")
    assert (path / "killed").exists()
    ok(a, "push", "there")
    there = State(path)
    assert steps(there) == ["two"] and there.pins(META).forgotten == {ids[0]} and len(there.noted()[a.head()]) == 1
    assert ok(a, "push", "there").out == "nothing to push\n"
    Sandbox(path).fsck()


def test_no_prompt_without_a_terminal(far: Far, tmp_path: Path) -> None:
    a = far.first
    snap(a, "one")
    used = tmp_path / "used"
    asks = tmp_path / "asks"
    asks.write_text(f"#!/bin/sh\ntouch '{used}'\necho password\n")
    asks.chmod(0o755)
    bare(tmp_path / "locked.git")
    with http_server(tmp_path, password=True) as url:
        done = a.baton("push", "--yes", f"{url}/locked.git", env={"SSH_ASKPASS": str(asks), "DISPLAY": ":9"})
    one_line(done, "does not let us in")
    assert not used.exists()
