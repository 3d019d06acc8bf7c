"""Starting git: time limits, large streams, odd environments, missing streams, and nothing left behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitbaton.base.errors import GitError, GitTimeoutError
from gitbaton.base.system.process import Process, spawn, together, verb
from gitbaton.git.repo import discover
from gitbaton.git.run import Git, base_environment
from tests.kit import Sandbox
from tests.kit.tiers import some


def git_in(path: Path, timeout: float = 60.0) -> Git:
    return Git(str(path), base_environment(strip_local=True), timeout=timeout)


def children() -> list[str]:
    """What this process started and has not waited for; a helper of the test runner is none of git's."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in pids]
    return [line for line in lines if not line or "git" in line]


@pytest.mark.deep
def test_a_command_that_does_not_end_is_killed(repo: Sandbox) -> None:
    repo.git("config", "alias.hang", "!exec sleep 600")
    others = children()  # of tests that ran before in this process
    with pytest.raises(GitTimeoutError) as caught:
        git_in(repo.path, 0.3).run("hang")
    assert "'git hang'" in caught.value.message
    assert children() == others


@pytest.mark.full
def test_large_input_and_output(repo: Sandbox) -> None:
    git, data = git_in(repo.path), os.urandom(1 << 20) * 20
    oid = git.out("hash-object", "-w", "--stdin", stdin=data).decode().strip()
    together = [git.start("cat-file", "blob", oid) for _ in range(3)]
    assert all(process.finish().out == data for process in reversed(together))
    noisy = git.run("-c", "alias.noise=!head -c 20000000 /dev/zero >&2; exit 3", "noise")
    assert noisy.code == 3 and len(noisy.err) == 1 << 20
    unread = git.run("rev-parse", "HEAD", stdin=data)
    assert unread.code == 0


def test_of_several_commands_none_waits_for_us_to_read_another(repo: Sandbox) -> None:
    git, others = git_in(repo.path), children()
    for name in ("first", "second"):
        os.mkfifo(repo.path / name)
    for name, other, word in (("first", "second", "done"), ("second", "first", "over")):  # each waits for all of the other
        repo.git("config", f"alias.{name}", f"!head -c 3000000 /dev/zero; (echo >{name} &) ; read x <{other}; echo {word}")
    said = together([git.start("first"), git.start("second")])
    assert [(one.code, len(one.out), one.out[-5:]) for one in said] == [(0, 3_000_005, b"done\n"), (0, 3_000_005, b"over\n")]
    repo.git("config", "alias.wrong", "!echo told; exit 3")
    wrong = together([git.start("wrong"), git.start("rev-parse", "HEAD")])
    assert [(one.code, len(one.out)) for one in wrong] == [(3, 5), (0, 41)] and together([]) == []
    slow = git_in(repo.path, 0.3)
    repo.git("config", "alias.hang", "!exec sleep 600")
    with pytest.raises(GitTimeoutError):
        together([slow.start("hang"), slow.start("hang")])

    def starting() -> Iterator[Process]:
        yield git.start("hang")
        raise GitError("the second one cannot be started")

    with pytest.raises(GitError, match="second"):
        together(starting())
    assert children() == others


def test_git_is_not_on_path(repo: Sandbox) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(GitError, match="cannot be started"):
        spawn(["/etc"], {}, 0, 1, 2)
    with pytest.raises(GitError, match="cannot be started"):
        spawn(["git", "x\0y"], {}, 0, 1, 2)
    assert len(os.listdir("/proc/self/fd")) == before
    for place in ("/nowhere", str(repo.write("file", "x\n"))):
        code = repo.run(sys.executable, "-m", "gitbaton", "status", env={"PATH": place})
        assert code.code == 128 and code.err == "fatal: 'git' is not on PATH\n"


ODD = (
    {"GIT_TRACE": "1", "GIT_TRACE2": "1", "GIT_TRACE_SETUP": "2"},
    {"GIT_LITERAL_PATHSPECS": "1", "GIT_ICASE_PATHSPECS": "1"},
    {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de", "LANG": "C"},
    {"GIT_EXTERNAL_DIFF": "false", "GIT_DIFF_OPTS": "-u0", "GIT_PAGER": "false", "PAGER": "false", "GIT_EDITOR": "false"},
    {"GIT_NAMESPACE": "elsewhere", "GIT_OPTIONAL_LOCKS": "1", "GIT_AUTHOR_DATE": "nonsense", "GIT_REFLOG_ACTION": "x"},
    {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "color.ui", "GIT_CONFIG_VALUE_0": "always"},
)


@pytest.mark.full
@some("env", ODD, ids=lambda env: next(iter(env)))
def test_odd_environments(repo: Sandbox, env: dict[str, str]) -> None:
    repo.write("ü*[x].txt", "new\n")
    for words in (("snapshot", "--track", "t", "--step", "s"), ("resume", "--live"), ("verify",), ("status",), ("show",)):
        done = repo.baton(*words, env=env)
        assert (done.code, done.err) == (0, ""), (words, done)
    assert sorted(repo.tree("refs/baton/tracks/t")) == ["a.txt", "ü*[x].txt"]
    assert b"nobody" not in repo.git("log", "-1", "--format=%an", "refs/baton/tracks/t").encode()


@pytest.mark.deep
def test_odd_settings(repo: Sandbox) -> None:
    pairs = [
        "color.ui=always",
        "core.pager=false",
        "core.quotePath=true",
        "alias.status=!false",
        "alias.cat-file=!false",
        "diff.external=false",
        "log.showSignature=true",
        "status.short=true",
        "diff.noprefix=true",
        "core.fsmonitor=false",
        "core.commentChar=;",
        "i18n.commitEncoding=ISO-8859-1",
        "commit.gpgSign=true",
        "core.hooksPath=/dev/null/x",
    ]
    for pair in pairs:
        repo.git("config", *pair.split("=", 1))
    repo.write("ü.txt", "new\n")
    assert repo.ok("snapshot", "--track", "t", "--step", "ü").err == ""
    assert "step=ü\n" in repo.ok("resume", "--porcelain", "--live").out
    assert repo.tree("refs/baton/tracks/t").keys() == {"a.txt", "ü.txt"}


@pytest.mark.full
@some("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "<&- 2>&-"])
def test_closed_streams(repo: Sandbox, closed: str) -> None:
    code = "from gitbaton import Baton; b = Baton('.'); b.snapshot('s', track='t'); b.resume('t', live=True); b.close()"
    for program in (f'"$0" -m gitbaton snapshot --track t --step s {closed}', f'"$0" -c "{code}" {closed}'):
        done = repo.run("sh", "-c", program, sys.executable)
        assert done.code == 0, (program, done)
    assert repo.git("rev-list", "--count", "--first-parent", "refs/baton/tracks/t") == "3"
    repo.fsck()


def test_children_end_at_a_closed_pipe(repo: Sandbox) -> None:
    done = git_in(repo.path).run("-c", "alias.pipe=!yes | head -1 >/dev/null; kill -PIPE $$; exit 7", "pipe")
    assert done.code != 7


@pytest.mark.full
@pytest.mark.parametrize("door", ["binary", "libgit2"])
def test_nothing_is_left_open(repo: Sandbox, door: str) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    repo.git("config", "gc.auto", "0")  # of the user's packs there is no repack in the background
    others = children()  # of tests that ran before in this process
    with repo.open(door=door) as baton:
        baton.snapshot("first", track="t", files=False)
        before = descriptors()
        for n in range(200):
            baton.snapshot(f"step {n}", track="t", files=n % 20 == 0)
        assert descriptors() <= before + (128 if door == "libgit2" else 0)  # so many packs it has open at a time
    before = descriptors()
    for _ in range(10):
        repo.open(door=door).close()
        opened = discover(str(repo.path), door="binary")
        opened.prefetch_settings()
        opened.close()
    assert descriptors() <= before
    assert len(children()) <= len(others) + 1  # what gathers our packs is waited for when the next one is started


def test_the_verb_of_a_command_line() -> None:
    assert verb(["git", "-C", "/x", "-c", "a=b", "--no-pager", "cat-file", "-p"]) == "cat-file"
    assert verb(["git"]) == "git"
