"""What a command that is run for the user finds in its environment: the caller's own, a few words of ours, and nothing by which
git would store or look for anything elsewhere. Another repository in which it commits is whole."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.servers import bare, hook
from tests.kit.tiers import some
from tests.verbs.test_tty import on_terminal

# All that we add; and what a shell sets.
MAY = {"RUN", "STEP", "ATTEMPT", "IDEMPOTENCY_KEY", "COMPENSATES", "GROUP"}
LANE = {"GIT_CEILING_DIRECTORIES"}
SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}


@pytest.fixture
def dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder into which ``dump NAME`` on PATH writes its environment; what it is given besides it passes on."""
    folder, programs = tmp_path / "dumps", tmp_path / "programs"
    folder.mkdir()
    programs.mkdir()
    (programs / "dump").write_text(f'#!/bin/sh\nenv -0 >"{folder}/$1"\nshift\ncase $# in 0) ;; *) cat "$1" ;; esac\n')
    (programs / "dump").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return folder


def dumped(folder: Path) -> dict[str, dict[str, str]]:
    """What was dumped, by name."""
    found = {}
    for file in sorted(folder.iterdir()):
        rows = file.read_text().split("\0")[:-1]
        found[file.name] = dict(row.split("=", 1) for row in rows)
    return found


def added(env: dict[str, str]) -> set[str]:
    """The variables that are not as in the environment of this process."""
    return {name for name, text in env.items() if os.environ.get(name) != text} - SHELL


def ours(*more: str) -> set[str]:
    return {f"GIT_BATON_{name}" for name in MAY} | set(more)


PLAN = """
[step.first]
run = "dump first; echo > first; test $GIT_BATON_ATTEMPT = 2"
reads = ["a.txt"]
writes = ["first"]
retries = 1
backoff = "1ms"
catch = "dump catch"
[step.alone]
run = "dump alone; echo > alone"
isolate = "tree"
writes = ["alone"]
verify = "dump verify"
[step.one]
run = "dump one; echo > one; sleep 0.2"
writes = ["one"]
after = ["first", "alone"]
[step.two]
run = "dump two; echo > two; sleep 0.2"
writes = ["two"]
after = ["first", "alone"]
[step.last]
run = "dump last; exit 3"
effect = "once"
probe = "dump probe; exit 0"
compensate = "dump compensate"
catch = "dump catch"
after = ["one", "two"]
"""


@pytest.mark.deep
def test_no_command_of_a_run_has_more_than_the_callers_environment_and_our_words(repo: Sandbox, dumps: Path) -> None:
    repo.write("p.toml", PLAN)
    repo.baton("run", "--plan", "p.toml", "--run", "r", "--jobs", "2")
    repo.baton("run", "compensate", "last", "--run", "r")
    found = dumped(dumps)
    assert set(found) == {"first", "alone", "verify", "one", "two", "last", "probe", "compensate", "catch"}
    for name, env in found.items():
        assert added(env) <= ours(*LANE), name
    assert not added(found["verify"]) - {"GIT_BATON_GROUP"}
    assert not added(found["last"]) & LANE, "a step in place has the caller's own"


@pytest.mark.deep
def test_the_command_of_bisect_has_the_callers_environment(repo: Sandbox, dumps: Path) -> None:
    for word in ("one", "two", "three"):
        repo.write("a.txt", word)
        repo.ok("snapshot", "--track", "t", word)
    repo.ok("bisect", "--good", "t~2", "--", "sh", "-c", "dump bisect; grep -q one a.txt")
    assert added(dumped(dumps)["bisect"]) == {"GIT_BATON_GROUP"}


@pytest.fixture
def drawn(repo: Sandbox, dumps: Path) -> Iterator[Sandbox]:
    """A repository in which git diff calls a pager, a diff program and a text conversion; each dumps its environment."""
    repo.write(".gitattributes", "*.c diff=c\n*.t diff=t=x\n")
    repo.write("x.c", "one\n")
    repo.write("x.t", "one\n")
    repo.commit("kinds")
    repo.git("config", "core.pager", "dump pager -")
    repo.git("config", "diff.c.command", "dump command; echo shown by a program; true")
    repo.git("config", "diff.t=x.textconv", 'dump textconv; sed "s/^/it\'s!  /"')
    for text in ("one", "two"):
        repo.write("x.c", f"{text}\n")
        repo.write("x.t", f"{text}\n")
        repo.ok("snapshot", "--track", "t", text)
    repo.write("x.c", "three\n")
    repo.write("x.t", "three\n")
    yield repo


@pytest.mark.deep
@some(
    "env",
    [
        {},
        {"GIT_PAGER": "dump pager -"},
        {"GIT_EXTERNAL_DIFF": "dump external; echo external; true"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "pager.diff", "GIT_CONFIG_VALUE_0": "dump other -"},
        {"GIT_CONFIG_PARAMETERS": "'core.pager'='dump passed -'"},
        {"GIT_CONFIG_PARAMETERS": "'pager.diff'='false'"},
    ],
    6,
)
def test_what_diff_calls_has_the_environment_that_git_itself_gives_it(drawn: Sandbox, dumps: Path, env: dict[str, str]) -> None:
    seen = []
    for words in (("diff",), ("diff", "t~1", "t")):
        for file in dumps.iterdir():
            file.unlink()
        assert on_terminal(drawn, *words, env=env)[0] == 0
        seen.append(dumped(dumps))
    until_now, between = seen
    for at in (until_now, between):
        assert ("command" in at or "external" in at) and len(at) >= 2 - ("false" in str(env))
    for name in set(until_now) & set(between):
        ours, theirs = until_now[name], between[name]
        for one in (ours, theirs):
            one.pop("GIT_DIFF_PATH_TOTAL", None), one.pop("GIT_DIFF_PATH_COUNTER", None)
        assert ours == theirs, name


COMMITS = """
[step.build]
run = "mkdir -p dist; sed s/base/page/ a.txt > dist/index.html"
reads = ["a.txt"]
writes = ["dist/**"]
[step.publish]
run = "{first}; cp dist/* {other}/; git -C {other} add -A; git -C {other} commit -qm publish; echo ok > published"
reads = ["dist/**"]
writes = ["published"]
after = ["build"]
{more}
"""


def committed_elsewhere(repo: Sandbox, tmp_path: Path, first: str, more: str, *words: str) -> str:
    """What is committed in another repository, a whole one, where a step copies there what an earlier one made."""
    other = Sandbox.init(tmp_path / "pages")
    repo.write("p.toml", COMMITS.format(first=first, other=other.path, more=more))
    done = repo.baton("run", "--plan", "p.toml", *words)
    assert done.code == 0, done.err
    other.fsck()
    return other.git("show", "HEAD:index.html")


def test_a_step_that_is_tried_again_commits_in_another_repository(repo: Sandbox, tmp_path: Path) -> None:
    repo.write("a.txt", "base\n")
    found = committed_elsewhere(repo, tmp_path, "test $GIT_BATON_ATTEMPT = 2 || exit 1", 'retries = 1\nbackoff = "1ms"')
    assert found == "page"


@pytest.mark.deep
def test_isolated_steps_and_those_beside_others_commit_in_another_repository(repo: Sandbox, tmp_path: Path) -> None:
    repo.write("a.txt", "base\n")
    assert committed_elsewhere(repo, tmp_path / "tree", "true", 'isolate = "tree"') == "page"
    beside = '[step.beside]\nrun = "sleep 0.3; echo beside > beside"\nwrites = ["beside"]\nafter = ["build"]'
    assert committed_elsewhere(repo, tmp_path / "jobs", "true", beside, "--jobs", "2") == "page"


@pytest.mark.deep
def test_what_a_step_in_a_lane_commits_here_is_whole(repo: Sandbox) -> None:
    """Its files are those that an earlier step of the run has made: their objects are known to us before git has them."""
    plan = COMMITS.format(first="true", other=".", more='isolate = "tree"').replace("cp dist/* ./; ", "")
    repo.write("p.toml", plan.replace("git -C . commit", "git -C . switch -qc made; git -C . commit"))
    assert repo.baton("run", "--plan", "p.toml").code == 0
    assert repo.git("show", "made:dist/index.html") == (repo.path / "dist/index.html").read_text().rstrip("\n")
    refs = repo.git("for-each-ref", "--format=delete %(refname)", "refs/baton", "refs/checkpoints", "refs/notes")
    assert repo.run("git", "update-ref", "--stdin", stdin=refs.encode() + b"\n").code == 0
    repo.git("gc", "-q", "--prune=now")
    repo.fsck()


@pytest.mark.deep
@pytest.mark.parametrize("linked", [False, True])
def test_a_run_that_a_hook_of_git_starts_commits_in_another_repository(repo: Sandbox, tmp_path: Path, linked: bool) -> None:
    """Git tells a hook its repository by variables; a step that goes elsewhere must not take them along."""
    other = Sandbox.init(tmp_path / "other")
    other.write("there.txt", "there\n")
    hook = repo.path / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    git = f"git -C {other.path}"
    step = f"echo made > made.txt && git add made.txt && {git} add -A && {git} commit -qm there"
    hook.write_text(f'#!/bin/sh\nexec git baton run --step s --writes made.txt -- sh -c "{step}"\n')
    hook.chmod(0o755)
    place = repo
    if linked:
        repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
        place = Sandbox(tmp_path / "side")
    place.write("a.txt", f"changed {linked}\n")
    place.git("add", "a.txt")
    done = place.run("git", "commit", "-qm", "here")
    assert done.code == 0, done.err
    assert place.git("show", "--name-only", "--format=").split() == ["a.txt", "made.txt"]
    assert other.git("show", "--name-only", "--format=").split() == ["there.txt"]
    other.fsck()
    repo.fsck()


@pytest.mark.deep
def test_an_index_of_the_users_own_reaches_a_step(repo: Sandbox) -> None:
    """What says more than git finds by itself is the user's word, and stays: also below the top, where it was relative."""
    repo.write("sub/b.txt", "b\n")
    env = {"GIT_INDEX_FILE": "other-index"}
    assert repo.run("git", "read-tree", "HEAD", env=env).code == 0
    done = repo.baton("run", "--step", "s", "--cwd", "sub", "--", "git", "add", "b.txt", env=env)
    assert done.code == 0, done.err
    assert "sub/b.txt" in repo.run("git", "ls-files", env=env).out and "sub/b.txt" not in repo.git("ls-files")


@pytest.mark.deep
def test_hooks_of_a_remote_on_this_machine_have_what_git_push_gives_them(
    repo: Sandbox, dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook that deploys runs git in yet another repository. How what we send comes to the disk is said to git on its line."""
    far = bare(tmp_path / "far.git")
    hook(far, "post-receive", "dump $WHO")
    repo.git("remote", "add", "origin", str(far))
    repo.ok("snapshot", "--track", "t", "s")
    monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -v")
    assert repo.run("git", "push", "-q", "origin", "main", env={"WHO": "git"}).code == 0
    repo.ok("push", "--yes", env={"WHO": "us"})
    found = dumped(dumps)
    differing = {k for k in {*found["git"], *found["us"]} if found["git"].get(k) != found["us"].get(k)}
    differing = {name for name in differing - SHELL if not name.startswith(("LC_", "LANG"))}
    told = {"GITBATON_TURNS"}  # whose turn it is, so that a push from a hook does not wait for the one that started it
    assert differing <= {"WHO", "PATH", "GIT_PROTOCOL", "GIT_CONFIG_PARAMETERS"} | told
    said = found["us"].get("GIT_CONFIG_PARAMETERS", "")
    assert {name.split(".")[0] for name in re.findall(r"'([\w.]+)'=", said)} <= {"core", "receive"} and "hooksPath" not in said


FILTER = (
    "cat >{here}/$$ && {{ {git} add -A >&2; {git} commit -qm %s >&2;"
    " git hash-object -w {here}/$$ >>{here}.made; cat {here}/$$; }}"
)


@pytest.mark.deep
def test_a_filter_that_commits_in_another_repository_leaves_that_one_whole(repo: Sandbox, tmp_path: Path) -> None:
    """Git runs it for us, where our objects go into a quarantine and the index is a copy; what it stores here stays, too."""
    other = Sandbox.init(tmp_path / "kept")
    line = FILTER.format(here=other.path, git=f"git -C {other.path}")
    repo.write(".gitattributes", "*.k filter=keep\n")
    repo.commit("attributes")
    repo.git("config", "filter.keep.clean", line % "clean")
    repo.git("config", "filter.keep.smudge", line % "smudge")
    for text in ("one", "two"):
        repo.write("x.k", f"{text}\n")
        repo.ok("snapshot", "--track", "t", text)
    repo.ok("restore", "t~1", "--force")
    repo.ok("worktree", str(tmp_path / "beside"), "t")
    assert (repo.path / "x.k").read_text() == "one\n"
    messages = set(other.git("log", "--format=%s").split())
    assert messages == {"clean", "smudge"}
    other.fsck()
    made = Path(f"{other.path}.made").read_text().split()
    assert made and all(repo.git("cat-file", "-t", oid) == "blob" for oid in made)
    repo.fsck()
