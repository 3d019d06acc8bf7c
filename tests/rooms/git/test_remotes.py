"""Exchange with real servers, without our own formats: which remote is meant, what it says, time, prompts and refusals."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitbaton.base.errors import BatonError, RemoteError, UsageError
from gitbaton.git.bounded import KINDS, Bounded, environment, failure, refused, without_credentials
from gitbaton.git.objects import Algorithm, are_refs, is_oid, is_ref
from gitbaton.git.remotes import Connection, Remote, address, default, find
from gitbaton.git.repo import Repo, discover
from tests.kit import Sandbox
from tests.kit.hurry import stand_still
from tests.kit.moments import always, at
from tests.kit.servers import (
    LOOPBACK,
    REFUSES_OURS,
    REFUSES_REWRITING,
    SSHD,
    bare,
    free_port,
    git_daemon,
    hook,
    http_server,
    silent_server,
    ssh_server,
)
from tests.kit.tiers import some

CHAIN = "refs/baton/tracks/t"
REMOTE = "refs/baton/remotes/origin/tracks/t"


@pytest.fixture
def opened(repo: Sandbox) -> Iterator[Repo]:
    found = discover(str(repo.path), door="binary")
    yield found
    found.close()


def connection(opened: Repo, word: str | None = None, seconds: float = 20.0) -> Connection:
    return Connection(opened, find(opened, word, os.getcwd()), seconds)


def push(opened: Repo, word: str, new: str | None, seen: str | None = None) -> str:
    line = connection(opened, word)
    (row,) = line.push({CHAIN: (seen, new)}, line.remote.push[0])
    return row.kind


def round_trip(opened: Repo, box: Sandbox, word: str) -> None:
    """Push, list, push with a stale lease, fetch, delete."""
    first, second = box.head(), box.commit("second")
    assert push(opened, word, first) == ""
    assert push(opened, word, second) == "stale"
    assert push(opened, word, second, first) == ""
    line = connection(opened, word)
    assert line.fetch({CHAIN: REMOTE}) and box.git("rev-parse", REMOTE) == second
    assert not line.fetch({CHAIN: REMOTE, CHAIN + "gone": REMOTE + "gone"})
    assert push(opened, word, None, second) == "" and connection(opened, word).listed() == {}
    assert not (box.path / ".git/FETCH_HEAD").exists()


@pytest.mark.deep
def test_over_a_path(opened: Repo, repo: Sandbox, tmp_path: Path) -> None:
    round_trip(opened, repo, str(bare(tmp_path / "far.git")))
    with pytest.raises(RemoteError, match="no repository at"):
        connection(opened, str(repo.path / "..")).listed()


@pytest.mark.deep
def test_over_git_daemon(opened: Repo, repo: Sandbox, tmp_path: Path) -> None:
    bare(tmp_path / "far.git")
    with git_daemon(tmp_path) as url:
        round_trip(opened, repo, f"{url}/far.git")
        with pytest.raises(RemoteError) as found:
            connection(opened, f"{url}/other.git").listed()
        assert found.value.kind == "missing"
    with git_daemon(tmp_path, writable=False) as url, pytest.raises(RemoteError) as found:
        push(opened, f"{url}/far.git", repo.head())
    assert found.value.kind == "read-only", found.value.message


@pytest.mark.deep
def test_over_http(opened: Repo, repo: Sandbox, tmp_path: Path) -> None:
    bare(tmp_path / "far.git")
    with http_server(tmp_path) as url:
        round_trip(opened, repo, f"{url}/far.git")
        with pytest.raises(RemoteError) as found:
            connection(opened, f"{url}/other.git").listed()
        assert found.value.kind == "missing"
    with http_server(tmp_path, writable=False) as url, pytest.raises(RemoteError) as found:
        push(opened, f"{url}/far.git", repo.head())
    assert found.value.kind == "read-only", found.value.message
    with http_server(tmp_path, password=True) as url:
        with pytest.raises(RemoteError) as found:
            connection(opened, f"{url}/far.git").listed()
        assert found.value.kind == "authentication", found.value.message
        secret = url.replace("//", "//me:pa55word@")
        line = connection(opened, f"{secret}/far.git")
        assert line.listed() == {} and "pa55" not in repr((line.remote.name, line.remote.shown))
        with pytest.raises(RemoteError) as found:
            connection(opened, f"{secret}/other.git").listed()
        assert "pa55" not in found.value.message


@pytest.mark.deep
@pytest.mark.skipif(SSHD is None, reason="sshd is not installed")
def test_over_ssh(opened: Repo, repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare(tmp_path / "far.git")
    with ssh_server(tmp_path / "sshd") as (url, command):
        repo.git("config", "core.sshCommand", command)
        assert push(opened, f"{url}{tmp_path}/far.git", repo.head()) == ""
        with pytest.raises(RemoteError) as found:
            connection(opened, f"{url}{tmp_path}/other.git").listed()
        assert found.value.kind == "missing"
        repo.git("config", "core.sshCommand", command.replace("/sshd/user", "/sshd/host"))
        with pytest.raises(RemoteError) as found:
            connection(opened, f"{url}{tmp_path}/far.git").listed()
        assert found.value.kind == "authentication", found.value.message


def test_nobody_there(opened: Repo) -> None:
    for url in (f"git://{LOOPBACK}:{free_port()}/x", f"http://{LOOPBACK}:{free_port()}/x", f"ssh://{LOOPBACK}:{free_port()}/x"):
        with pytest.raises(RemoteError) as found:
            connection(opened, url).listed()
        assert found.value.kind == "offline" and "\n" not in found.value.message, found.value.message


@pytest.mark.deep
def test_a_server_that_says_nothing(opened: Repo) -> None:
    with silent_server() as url:
        line = connection(opened, f"{url}/x", seconds=0.5)
        for event in ("none", "os.posix_spawn"):  # the allowance is one for all: for the second question git is not started
            with at(event, always, lambda _: pytest.fail("git was started")), pytest.raises(RemoteError) as found:
                line.listed()
            assert found.value.kind == "timeout" and "0.5 s" in found.value.message


@pytest.fixture
def pipe(repo: Sandbox, tmp_path: Path) -> Iterator[int]:
    """From an ssh that never answers, and its child: it says that they have begun, and ends with the last of them."""
    slow, path = tmp_path / "ssh", tmp_path / "pipe"
    os.mkfifo(path)
    slow.write_text(f"#!/bin/sh\nexec 3>'{path}'\nsleep 300 & echo begun >&3\nwait\n")
    slow.chmod(0o755)
    repo.git("config", "core.sshCommand", shlex.quote(str(slow)))
    repo.git("config", "ssh.variant", "ssh")
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield fd
    os.close(fd)


def told(pipe: int, seconds: float = 60.0) -> bytes | None:
    """What comes next, nothing at the end; None where nobody says anything."""
    return os.read(pipe, 9) if select.select([pipe], [], [], seconds)[0] else None


@pytest.mark.deep
@some("prompts", [False, True])
def test_what_git_started_ends_with_it(opened: Repo, pipe: int, monkeypatch: pytest.MonkeyPatch, prompts: bool) -> None:
    opened.progress = lambda *_: None  # who tells somebody looks at the clock now and then
    stand_still(monkeypatch, lambda: told(pipe, 0) == b"begun\n")
    with pytest.raises(RemoteError, match="did not answer"):
        Connection(opened, find(opened, "ssh://nowhere/x", "."), 0.05, prompts=prompts).listed()
    assert told(pipe) == b""


@pytest.mark.deep
@pytest.mark.parametrize("prompts", [False, True])
def test_what_is_done_while_a_remote_is_asked_ends_that_where_it_fails(opened: Repo, pipe: int, prompts: bool) -> None:
    def fails() -> None:
        assert told(pipe) == b"begun\n"
        raise UsageError("no")

    with pytest.raises(UsageError):
        Connection(opened, find(opened, "ssh://nowhere/x", "."), 60, prompts=prompts).listed(meanwhile=fails)
    assert told(pipe) == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_git_started_ends_with_us(repo: Sandbox, pipe: int, number: int) -> None:
    words, null = [sys.executable, "-m", "gitbaton", "fetch", "ssh://nowhere/x"], subprocess.DEVNULL
    with subprocess.Popen(words, cwd=repo.path, stdin=null, stdout=null, stderr=null) as child:
        assert told(pipe) == b"begun\n"
        child.send_signal(number)
        assert child.wait() == -number
    assert told(pipe) == b""


@pytest.mark.deep
def test_refusals(opened: Repo, repo: Sandbox, tmp_path: Path) -> None:
    first, second = repo.head(), repo.commit("second")
    ours, rewriting = bare(tmp_path / "ours.git"), bare(tmp_path / "rewriting.git")
    hook(ours, "pre-receive", REFUSES_OURS)
    hook(rewriting, "update", REFUSES_REWRITING)
    line = connection(opened, str(ours))
    (row,) = line.push({CHAIN: (None, first)}, str(ours))
    assert (row.kind, row.reason) == ("hook", "no refs of robots here see the handbook")
    assert push(opened, str(rewriting), second) == ""
    line = connection(opened, str(rewriting))
    rows = line.push({CHAIN: (second, first), CHAIN + "2": (None, first)}, str(rewriting))
    assert [row.kind for row in rows] == ["hook", "other"] and rows[0].reason == "no rewriting here"
    assert line.listed() == {CHAIN: second}  # all or none
    assert push(opened, str(rewriting), None, second) == "hook"


def test_a_server_without_atomic_pushes(opened: Repo, repo: Sandbox, tmp_path: Path) -> None:
    far = bare(tmp_path / "far.git", receive_advertiseAtomic="false")
    line = connection(opened, str(far))
    rows = line.push({CHAIN: (None, repo.head()), CHAIN + "2": (None, repo.head())}, str(far))
    assert [row.kind for row in rows] == ["", ""] and len(line.listed()) == 2


def test_the_users_settings_of_the_remote_do_not_leak_in(opened: Repo, repo: Sandbox, tmp_path: Path) -> None:
    far = bare(tmp_path / "far.git")
    repo.git("remote", "add", "--mirror=push", "origin", str(far))
    for key, text in (("remote.origin.push", "refs/heads/*"), ("push.gpgSign", "true"), ("push.followTags", "true")):
        repo.git("config", key, text)
    repo.git("tag", "-m", "x", "v1")
    hook(repo.path / ".git", "pre-push", "exit 1")
    assert push(opened, "origin", repo.head()) == ""
    assert list(connection(opened).listed()) == [CHAIN]


def test_a_mirror_whose_name_has_a_sign_of_equality(opened: Repo, repo: Sandbox, tmp_path: Path) -> None:
    far = bare(tmp_path / "far.git")
    repo.git("remote", "add", "--mirror=push", "a=b", str(far))
    assert push(opened, "a=b", repo.head()) == "" and list(connection(opened, "a=b").listed()) == [CHAIN]


def test_which_remote_is_meant(opened: Repo, repo: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no remote is configured"):
        default(opened, pushing=True)
    repo.git("remote", "add", "upstream", "https://me:secret@example.com/x.git")
    assert default(opened, pushing=True) == default(opened, pushing=False) == "upstream"
    repo.git("remote", "add", "fork", str(tmp_path))
    with pytest.raises(UsageError, match="none is the default") as found:
        default(opened, pushing=True)
    assert found.value.hints == ("the remotes are 'upstream', 'fork'",)
    repo.git("remote", "add", "origin", str(tmp_path))
    assert default(opened, pushing=False) == "origin"
    repo.git("config", "branch.main.remote", "upstream")
    assert default(opened, pushing=True) == default(opened, pushing=False) == "upstream"
    repo.git("config", "remote.pushDefault", "fork")
    assert (default(opened, pushing=True), default(opened, pushing=False)) == ("fork", "upstream")
    repo.git("config", "branch.main.pushRemote", "origin")
    assert (default(opened, pushing=True), default(opened, pushing=False)) == ("origin", "upstream")
    for word in ("-x", "--upload-pack=touch x", "", "nowhere", "a track"):
        with pytest.raises(UsageError):
            find(opened, word, str(tmp_path))
    (tmp_path / "plain").write_text("text")
    with pytest.raises(UsageError, match="no bundle"):
        find(opened, "plain", str(tmp_path))
    repo.git("bundle", "create", str(tmp_path / "some.bundle"), "HEAD")
    assert find(opened, "some.bundle", str(tmp_path)).bundle


@pytest.mark.deep
def test_push_addresses(opened: Repo, repo: Sandbox, tmp_path: Path) -> None:
    one, two = bare(tmp_path / "one.git"), bare(tmp_path / "two.git")
    repo.git("remote", "add", "origin", str(one))
    assert find(opened, None, ".").push == ("origin",)
    repo.git("config", "remote.origin.pushurl", str(two))
    remote = find(opened, None, ".")
    assert (remote.name, remote.fetch, remote.push) == ("origin", "origin", (str(two),))
    repo.git("remote", "set-url", "--add", "--push", "origin", str(one))
    assert find(opened, None, ".").push == (str(two), str(one))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@example.com/x.git", "https://example.com/x.git"),
        ("https://me:se@cret@example.com/a@b", "https://example.com/a@b"),
        ("https://me:se/cret@example.com/x.git", "https://example.com/x.git"),
        ("https://me:s?cr#et/secret@example.com/x.git", "https://example.com/x.git"),
        ("https://example.com:8080/@me/x.git", "https://example.com:8080/@me/x.git"),
        ("https://[::1]:80/@me/x.git", "https://[::1]:80/@me/x.git"),
        ("https://example.com/x?token=secret#secret", "https://example.com/x"),
        ("git@example.com:me/x.git", "example.com:me/x.git"),
        ("ssh://git@example.com:22/x", "ssh://example.com:22/x"),
        ("/home/a@b/x", "/home/a@b/x"),
    ],
)
def test_an_address_without_credentials(opened: Repo, url: str, shown: str) -> None:
    assert address(url) == shown
    if not url.startswith("/"):
        remote = find(opened, url, ".")
        assert (remote.name, remote.fetch) == (shown, url) and "secret" not in remote.shown
    long = find(opened, f"{url.partition('?')[0]}/{'long' * 30}/end.git", ".").name
    assert long.startswith("end.git-") and len(long) < 60


def test_ssh_asks_nobody(opened: Repo, repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(**env: str) -> str | None:
        return environment(opened.git.changed(env), prompts=False).get("GIT_SSH_COMMAND")

    assert command() == "ssh -o BatchMode=yes"
    assert command(GIT_SSH="/opt/my ssh/ssh") == "'/opt/my ssh/ssh' -o BatchMode=yes"
    assert command(GIT_SSH="/opt/wrapper") is None
    assert command(GIT_SSH_COMMAND="'/x/plink.exe' -P 2") == "'/x/plink.exe' -P 2 -batch"
    assert command(GIT_SSH_COMMAND="my-ssh 'x") == "my-ssh 'x"
    repo.git("config", "core.sshCommand", "ssh -i key")
    assert command() == "ssh -i key -o BatchMode=yes"
    repo.git("config", "ssh.variant", "simple")
    assert command() is None
    env = environment(opened.git.changed({"SSH_ASKPASS": "x"}), prompts=False)
    assert "SSH_ASKPASS" not in env and env["SSH_ASKPASS_REQUIRE"] == "never" and env["GIT_TERMINAL_PROMPT"] == "0"
    monkeypatch.delenv("GIT_TERMINAL_PROMPT")
    assert "GIT_TERMINAL_PROMPT" not in environment(opened.git, prompts=True)


def test_an_answer_that_is_none(opened: Repo, repo: Sandbox, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "--object-format=sha256", str(tmp_path / "far.git")], check=True)
    with pytest.raises(BatonError):
        push(opened, str(tmp_path / "far.git"), repo.head())


def test_words_of_git() -> None:
    said = "remote: x\nfatal: unable to access 'https://me:secret@example.com/': Could not resolve host: example.com"
    error = failure("origin", said)
    assert (
        error.message
        == "'origin' cannot be reached: unable to access 'https://example.com/': Could not resolve host: example.com"
    )
    assert error.exit_code == 1 and error.kind == "offline" and without_credentials("a@b") == "a@b"
    assert failure("origin", "").message == "the exchange with 'origin' failed: git gives no reason"
    for reason in ("stale info", "hook declined", "shallow update not allowed", "non-fast-forward", "who knows"):
        assert refused(reason) in KINDS
    assert isinstance(Remote(name="a", shown="a", fetch="a", push=()), Remote) and Bounded is not None


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_many_refs_are_what_each_alone_is(algorithm: Algorithm) -> None:
    length = {"sha1": 40, "sha256": 64}[algorithm]
    good = {CHAIN: "0" * length, "refs/heads/v1.0": "ab" * (length // 2), "HEAD": "f" * length}
    names = ["refs/heads/a..b", "refs/heads/@{1}", "heads/a", "refs/a b", "refs/", "", "refs/a\tb", "refs/heads/\udcff"]
    for name, oid in [*((name, "1" * length) for name in names), *(("refs/x", "1" * n) for n in (0, 39, 40, 41, 63, 64, 65))]:
        assert are_refs(algorithm, {**good, name: oid}) == (is_ref(name) and is_oid(algorithm, oid)), (name, oid)
    for oid in ("g" * length, "A" * length, "1" * (length - 1) + "\n", "1" * (length - 1) + "\u0661"):
        assert not are_refs(algorithm, {**good, "refs/x": oid}) and not is_oid(algorithm, oid)
    assert are_refs(algorithm, good) and are_refs(algorithm, {})
