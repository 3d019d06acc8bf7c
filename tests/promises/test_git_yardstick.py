"""Git is the yardstick: a script of porcelain commands leaves the same behind with us and without us."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.kit import Sandbox

EVENTS = ("post-checkout", "post-commit", "post-merge", "post-rewrite")
# Each line is one command; a leading "!" lets it fail, "edit" and "write" change files.
SCRIPT = """
write a.txt top
git commit -q -m path a.txt
write b.txt changed
write new.txt new
git add new.txt
git commit -q -a -m all
edit p.txt
add-p
git commit -q -m part
git commit -q -am rest
git tag v1
git tag -a -m annotated v2
git checkout -q -b side
write s.txt 1
git add s.txt
git commit -q -m side
git checkout -q main
git checkout -q -b feature
write f.txt 1
git add f.txt
git commit -q -m f1
write f.txt 2
git commit -q -am f2
git commit -q --amend -m f2-again
git checkout -q main
git merge -q --no-ff -m merged feature
git checkout -q -b ff HEAD~1
git merge -q --ff-only main
git checkout -q main
git checkout -q -b clash HEAD~1
write a.txt theirs
git commit -q -am theirs
git checkout -q main
write a.txt ours
git commit -q -am ours
! git merge clash
write a.txt both
git add a.txt
git -c core.editor=true merge --continue
git checkout -q -b rebased feature
git rebase -q clash
rebase-i 1s/^pick/reword/
git cherry-pick side
git revert --no-edit HEAD
write a.txt stashed
git stash push -q
git stash pop -q
git stash push -q -m kept
git checkout -q -- a.txt
git bisect start HEAD HEAD~3
git bisect run test -e a.txt
git bisect reset
git worktree add -q ../NAME-linked -b linked
git clone -q . ../NAME-clone
git submodule --quiet add ../upstream sub
git commit -q -m submodule
git submodule --quiet update --init --recursive
git remote add up ../NAME-up.git
git push -q up HEAD:refs/heads/main
git fetch -q up
git branch -q --set-upstream-to=up/main
write local.txt 1
git add local.txt
git commit -q -m local
git pull -q --rebase
git pull -q --no-rebase
git switch -q --detach HEAD~1
git switch -q rebased
git reset -q --soft HEAD~1
git reset -q --mixed HEAD
git add -A
git commit -q -m again
git reset -q --hard HEAD~1
git branch -f moved HEAD~1
am side
git mv f.txt g.txt
git commit -q -m moved
git rm -q g.txt
git restore --staged g.txt
git restore g.txt
write junk.txt 1
git clean -q -fdx -e runtime
git notes add -m mine HEAD
git sparse-checkout set --no-cone a.txt sub
git sparse-checkout disable
git gc -q
git checkout -q nowhere-to-go
"""


class Side:
    """One of the two repositories, and how it runs the script."""

    def __init__(self, top: Path, name: str) -> None:
        self.name = name
        self.repo = Sandbox.init(top / name)
        lines = "".join(f"{i}\n" for i in range(30))
        self.repo.commit("first", a_txt="1\n", b_txt="1\n", p_txt=lines)
        if not (top / "upstream").exists():
            Sandbox.init(top / "upstream").commit("first", u_txt="1\n")
        self.repo.git("init", "-q", "--bare", str(top / f"{name}-up.git"))
        for event in EVENTS:
            hook = self.repo.path / ".git/hooks" / event
            hook.parent.mkdir(exist_ok=True)
            hook.write_text(f'#!/bin/sh\necho "{event} $*" >>"$(git rev-parse --git-common-dir)/called"\ncat >/dev/null\n')
            hook.chmod(0o755)

    def step(self, line: str) -> tuple[int, str]:
        """Carry out one line; exit status and standard output."""
        words = shlex.split(line.removeprefix("! ").replace("NAME", self.name))
        if words[0] in ("write", "edit"):
            lines = [str(i) for i in range(30)]
            text = words[2] if words[0] == "write" else "\n".join(["top", *lines, "end"])
            self.repo.write(words[1], text + "\n")
            return 0, ""
        env, stdin = {"GIT_EDITOR": "true"}, b""
        if words[0] == "add-p":
            words, stdin = ["git", "add", "-p"], b"y\nn\n"
        elif words[0] == "rebase-i":
            env = {"GIT_SEQUENCE_EDITOR": f"sed -i {words[1]}", "GIT_EDITOR": "true"}
            words = ["git", "rebase", "-q", "-i", "HEAD~2"]
        elif words[0] == "am":
            stdin = self.repo.git("format-patch", "-1", "--stdout", words[1]).encode() + b"\n"
            words = ["git", "am", "-q", "-3"]
        done = self.repo.run(*words, env=env, stdin=stdin)
        return done.code, re.sub(r"[0-9.]+ (ms|seconds)", "", done.out.replace(self.name, "NAME"))

    def picture(self) -> dict[str, str]:
        """Refs (ours aside), HEAD, the index as listing and tree, status, configuration as values, files."""
        show = self.repo.git
        refs = show("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        ours = ("refs/baton/", "refs/checkpoints/", "refs/notes/checkpoints ")
        return {
            "refs": "\n".join(r for r in refs if not r.startswith(ours)),
            "head": self.repo.try_git("symbolic-ref", "-q", "HEAD").out + show("rev-parse", "HEAD"),
            "index": show("ls-files", "-s", "-t", "-v"),
            "flags": re.sub(r"(ctime|mtime|dev|ino|uid|size).*", "", show("ls-files", "--debug")),
            "status": show("status", "--porcelain=v2", "--untracked-files=all"),
            "called": (self.repo.path / ".git/called").read_text() if (self.repo.path / ".git/called").exists() else "",
            "reflog": show("reflog", "--format=%H %gs"),
            "files": " ".join(sorted(p.name for p in self.repo.path.iterdir() if p.name != "runtime")),
        }


@pytest.mark.full
@pytest.mark.parametrize("track", ["head", "always"])
def test_the_same_script_leaves_the_same(tmp_path: Path, track: str) -> None:
    plain, ours = Side(tmp_path, "plain"), Side(tmp_path, "other")
    ours.repo.ok("install", "--no-display")  # which shows notes in what git prints
    ours.repo.ok("snapshot", "--track", "t", "--step", "s")
    ours.repo.git("config", "baton.warn", track)
    commands = [line for line in SCRIPT.splitlines() if line]
    verbs = {" ".join(line.removeprefix("! ").split()[:2]) for line in commands if "git" in line}
    assert len(verbs) >= 28
    for number, line in enumerate(commands):
        theirs, mine = plain.step(line), ours.step(line)
        assert mine == theirs, line
        if not line.startswith("! ") and "nowhere" not in line:
            assert theirs[0] == 0, (line, theirs)
        if number % 12 == 0 and not (ours.repo.path / ".git/MERGE_HEAD").exists():
            assert ours.picture() == plain.picture(), line
        if number == len(commands) // 2:
            ours.repo.ok("snapshot", "--track", "t", "--step", "again")
    assert ours.picture() == plain.picture()
    ours.repo.fsck()
    assert ours.repo.git("write-tree") == plain.repo.git("write-tree")


@pytest.mark.full
def test_t20_plain_fetch_and_pull_break_nothing_and_lose_nothing(tmp_path: Path) -> None:
    one = Sandbox.init(tmp_path / "one")
    one.commit("first", a_txt="1\n")
    one.git("init", "-q", "--bare", str(tmp_path / "up.git"))
    one.git("remote", "add", "origin", str(tmp_path / "up.git"))
    one.git("push", "-q", "-u", "origin", "main")
    one.git("clone", "-q", str(tmp_path / "up.git"), str(tmp_path / "two"))
    two = Sandbox(tmp_path / "two")
    ours = ("refs/baton", "refs/checkpoints", "refs/notes")
    for repo in (one, two):
        repo.ok("install")
        repo.ok("snapshot", "--track", "t", "--step", f"by {repo.path.name}")
    assert one.git("config", "--get-all", "remote.origin.fetch") == "+refs/heads/*:refs/remotes/origin/*"
    kept = two.git("for-each-ref", *ours)
    for theirs in ((), ("refs/notes/*", "refs/baton/*", "refs/checkpoints/*")):  # without our refs there, then divergent ones
        for spec in theirs:
            one.git("push", "-q", "-f", "origin", f"+{spec}:{spec}")
        one.commit("more")
        one.git("push", "-q")
        for args in (("fetch",), ("fetch", "--all", "--prune", "--tags"), ("pull", "-q"), ("pull", "-q", "--rebase")):
            done = two.run("git", *args)
            assert done.code == 0, (args, done.err)
            assert two.git("for-each-ref", *ours) == kept, args
    assert two.ok("resume", "--porcelain", "--live").out.splitlines()[1] == "step=by two"
    assert two.baton("verify").code == 1
    two.fsck()


@pytest.mark.full
def test_t13_hooks_and_uninstall_never_ask(tmp_path: Path) -> None:
    repo = Sandbox.init(tmp_path / "r")
    repo.commit("first")
    repo.git("branch", "side")
    repo.commit("second")
    repo.git("config", "commit.gpgsign", "true")
    repo.git("config", "gpg.program", "false")
    env = {"GIT_EDITOR": "false", "EDITOR": "false", "GIT_ASKPASS": "false", "PAGER": "false"}
    for words in (["install"], ["snapshot", "--track", "t", "--step", "s"], ["doctor"], ["uninstall", "--dry-run"]):
        assert repo.baton(*words, env=env).code == 0, words
    assert repo.run("git", "checkout", "-q", "side", env=env).code == 0
    assert "ok   hooks: called from" in repo.ok("doctor", env=env).out
