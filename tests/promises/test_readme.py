"""Every example of the README is run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.places import ROOT
from tests.kit.talks import Talk

README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def block_with(language: str, words: str) -> str:
    found = [block for block in blocks(language) if words in block]
    assert len(found) == 1, words
    return found[0]


def test_the_first_screen_shows_what_the_commands_print(tmp_path: Path) -> None:
    sandbox = Sandbox.init(tmp_path / "repo")
    sandbox.commit("first", a_txt="one\n")
    text = block_with("console", "$ git baton snapshot")
    rows = text.splitlines()
    commands = [row[2:].split("#")[0].strip() for row in rows if row.startswith("$ ")]
    assert len(commands) == 2
    printed = [row for command in commands for row in sandbox.run("sh", "-c", command).out.splitlines()]
    shown = [row for row in rows if not row.startswith("$ ")]

    def general(row: str) -> str:
        return re.sub(r"\b[0-9a-f]{10}\b", "ID", row)

    assert [general(r) for r in printed] == [general(r) for r in shown]


def test_the_first_command_does_the_main_job_in_a_clone(tmp_path: Path) -> None:
    line = block_with("sh", ".ci/venv test").splitlines()[0]
    setup, path, *job = line.split(" && ")
    assert setup == "sh .ci/venv" and path.startswith("PATH=")  # the venv itself is what runs this test
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--no-local", str(ROOT), str(clone)], check=True, capture_output=True)
    done = Sandbox(clone).run("sh", "-c", " && ".join(job))
    assert done.code == 0, done.err
    assert "step=first try" in done.out and "next_cmd=git baton status" in done.out and "drift=none" in done.out


def test_the_test_command_is_the_one_that_ci_runs() -> None:
    line = block_with("sh", ".ci/venv test").splitlines()[1]
    assert line == "sh .ci/venv test && .venv/bin/pytest -n 2"
    assert "sed -n 's/^sh \\.ci\\/venv test && //p' README.md" in (ROOT / ".ci" / "run").read_text()


def test_the_python_example_runs(repo: Sandbox) -> None:
    done = repo.run(sys.executable, "-c", block_with("python", "from gitbaton import Baton"))
    assert done.code == 0, done.err
    assert done.out == "pytest tests/parser none\n"


def test_what_the_agents_hooks_leave_is_what_the_readme_shows(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "parser", "--step", "lexer done", "--validation", "green")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.ask("now the error messages\nplease")
    talk.edit("a.txt", "1\n")
    talk.run("pytest -q", "1 failed, 2 passed in 0.10s", 1)
    talk.stop()
    repo.write("a.txt", "2\n")
    talk.fire("compact", trigger="auto")
    shown = block_with("console", "$ git baton log parser").splitlines()[1:]

    def general(row: str) -> list[str]:
        return re.sub(r"^\S+", "ID", re.sub(r"\d+ (second|minute)s? ago", "AGO", row)).split()

    assert [general(row) for row in repo.ok("log", "parser").out.splitlines()] == [general(row) for row in shown]


@pytest.mark.parametrize("linked", [False, True])
def test_plain_git_removes_every_trace(repo: Sandbox, tmp_path: Path, linked: bool) -> None:
    before = repo.git("for-each-ref")
    repo.ok("snapshot", "--track", "a b", "--step", "one")
    where = repo
    if linked:
        repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
        where = Sandbox(tmp_path / "linked")
        where.ok("snapshot", "--track", "other", "--step", "two")
        where.git("symbolic-ref", "--delete", "BATON_HEAD")
        where.run("sh", "-c", 'rm -rf "$(git rev-parse --git-dir)/baton"')
    done = repo.run("sh", "-e", "-c", block_with("sh", "symbolic-ref --delete"))
    assert done.code == 0, done.err
    assert repo.git("for-each-ref") == before
    assert "LATEST" not in (repo.path / ".git/info/exclude").read_text()
    assert not (repo.path / ".git" / "baton").exists() and not (repo.path / ".git" / "BATON_HEAD").exists()
    assert not list((repo.path / "runtime" / "checkpoints").iterdir())
    assert repo.baton("resume").code == 2


def test_keep_langgraphs_state(repo: Sandbox, tmp_path: Path) -> None:
    done = repo.run(sys.executable, "-c", block_with("python", "import GitSaver"))
    assert (done.code, done.out, done.err) == (0, "{'n': 2}\n", "")
    repo.git("init", "-q", "--bare", str(tmp_path / "hub.git"))
    repo.git("remote", "add", "origin", str(tmp_path / "hub.git"))
    said = {}
    for line in block_with("sh", "git baton threads").splitlines():
        words = commands_of(line)[0]
        done = repo.baton(*words, *(["--yes"] if words[0] == "push" else []))
        assert done.code == 0, done.err
        said[words[0]] = done.out
    assert said["threads"].startswith("demo 3 checkpoints")
    assert repo.git("ls-remote", "origin", "refs/baton/threads/*").endswith("refs/baton/threads/=demo/_")
    assert (ROOT / re.findall(r"\]\((examples/[^)]*)\)", README)[0]).exists()


def test_the_log_that_leaves_our_chains_out(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "main", "--step", "one")
    assert len(repo.git("log", "--all", "--format=%H").split()) > 1
    match = re.search(r"`(git log --exclude='refs/baton[^`]*)`", README)
    assert match is not None
    assert repo.run("sh", "-c", f"{match.group(1)} --format=%H").out.split() == [repo.head()]


def test_plain_git_shows_what_the_table_says(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "main", "--step", "step one")
    said = tmp_path / "s.jsonl"
    said.write_text('{"uuid":"u-1"}\n')
    repo.write("a.txt", "two\n")
    payload = {"session_id": "s", "cwd": str(repo.path), "transcript_path": str(said)}
    repo.run("git", "baton", "hook", "claude", "Stop", stdin=json.dumps(payload).encode())
    repo.ok("pin", "main")
    repo.ok("run", "--run", "r1", "--step", "build", "--", "true")
    assert repo.run(sys.executable, "-c", block_with("python", "import GitSaver")).code == 0
    rows = re.findall(r"^\| .* \| `refs/[^`]*` \| `(git [^`]*)` \|$", README, re.MULTILINE)
    assert len(rows) == 7
    for command in rows:
        words = command.replace("<track>", "main").replace("<agent>", "claude").replace("<session>", "s").replace("<run>", "r1")
        told = (("transcripts", "chunks/"), ("meta", "pins/"), ("runs", "build: end"), ("threads", "loop step 1: n"))
        shown = next((text for ref, text in told if ref in command), "step one")
        assert shown in repo.run("sh", "-c", words).out
    assert repo.git("symbolic-ref", "BATON_HEAD") == "refs/checkpoints/main"


def test_put_files_back(repo: Sandbox) -> None:
    block = block_with("sh", "git baton restore parser~1")
    commands = [line.partition("#")[0].split() for line in block.splitlines()]
    assert [words[2] for words in commands] == ["restore", "restore", "undo"]
    repo.ok("snapshot", "--track", "parser", "--step", "one")
    repo.write("a.txt", "two\n")
    repo.ok("snapshot", "--track", "parser", "--step", "two")
    repo.write("a.txt", "three\n")
    seen = []
    for words in commands:
        repo.ok(*words[2:])
        seen.append((repo.path / "a.txt").read_text())
    assert seen == ["three\n", "one\n", "three\n"]


def commands_of(block: str) -> list[list[str]]:
    """The words of each command of a block, after ``git baton``."""
    return [line.partition("  #")[0].split()[2:] for line in block.splitlines()]


def test_many_machines(repo: Sandbox, tmp_path: Path) -> None:
    push, fetch, sync = commands_of(block_with("sh", "git baton sync origin"))
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "remote.git")], check=True)
    repo.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    repo.git("push", "-q", "origin", "HEAD:refs/heads/main")
    repo.ok("snapshot", "--track", "parser", "--step", "lexer done", "--next-cmd", "pytest")
    assert repo.baton(*push).code == 1  # nobody is there to be asked
    repo.git("config", "baton.push", "true")
    repo.ok(*push)
    subprocess.run(["git", "clone", "-q", "-b", "main", str(tmp_path / "remote.git"), str(tmp_path / "other")], check=True)
    other = Sandbox(tmp_path / "other")
    other.ok(*fetch)
    assert "> step=lexer done" in other.ok("resume", "--track", "parser").out
    other.ok("snapshot", "--track", "parser", "--step", "parser done")
    other.git("config", "baton.push", "true")
    other.ok(*sync)
    repo.ok(*sync)
    assert repo.git("rev-parse", "refs/baton/tracks/parser") == other.git("rev-parse", "refs/baton/tracks/parser")
    assert "> step=parser done" in repo.ok("resume").out


def test_long_time(repo: Sandbox) -> None:
    prune, pin, du = commands_of(block_with("sh", "git baton pin parser~3"))
    for number in range(25):
        repo.ok("snapshot", "--track", "parser", "--step", f"step {number}")
    pinned = repo.ok(*pin).out
    count = ("rev-list", "--count", "--first-parent", "refs/baton/tracks/parser")
    assert "step 0" in repo.ok(*prune).out and repo.git(*count) == "26"  # with the root
    repo.ok(*prune[:-1])
    assert repo.git(*count) == "22"  # the newest twenty and the oldest, for there are fewer days than asked for, and the root
    assert pinned and "parser" in repo.ok(*du).out


def test_secrets(repo: Sandbox) -> None:
    snapshot, scan, forget = block_with("sh", "$KEY").splitlines()
    key = "AKIA" + "Q3EGRTUVWXY2Z4A7"
    done = repo.run("sh", "-c", f"KEY={key}; {snapshot}")
    assert done.code == 0 and key not in done.out
    match = re.search(r"# stored as: (.*)", snapshot)
    assert match is not None and repo.ok("show").out.count(match.group(1)) >= 1
    words = scan.partition("  #")[0].split()[2:]
    repo.ok(*words)
    repo.git("config", "baton.redact", "off")
    repo.ok("snapshot", "--track", "parser", "--step", f"key works: {key}")
    repo.git("config", "baton.redact", "on")
    assert repo.baton(*words).code == 1
    repo.ok(*forget.partition("  #")[0].replace("CHECKPOINT", "parser").split()[2:], "--yes")
    repo.ok(*words)


def test_do_a_step_once(repo: Sandbox, tmp_path: Path) -> None:
    told = tmp_path / "told"
    repo.write("baton.toml", block_with("toml", "[step.publish]"))
    repo.write("src/parser.txt", "parser\n")
    for name, word in (("publish", "do"), ("unpublish", "undo")):
        repo.write(f"{name}.sh", f'echo {word} "${{GIT_BATON_COMPENSATES:-$GIT_BATON_IDEMPOTENCY_KEY}}" >> {told}\n')
    repo.write("published.sh", "exit 2\n")
    plan, why, repair, single = [line.partition("  #")[0] for line in block_with("sh", "--plan baton.toml").splitlines()]
    for _ in range(2):
        done = repo.run("sh", "-c", plan)
        assert done.code == 0, done.err
    assert (repo.path / "dist" / "app.txt").read_text() == "parser\n"
    assert [line.split()[0] for line in told.read_text().splitlines()] == ["do"]
    repo.write("src/parser.txt", "corrected\n")
    assert "dist" in repo.run("sh", "-c", why).out or "build" in repo.run("sh", "-c", why).out
    done = repo.run("sh", "-c", repair)
    assert done.code == 0, done.err
    assert (repo.path / "dist" / "app.txt").read_text() == "corrected\n"
    (_, first), (_, undone), (_, second) = rows = [line.split() for line in told.read_text().splitlines()]
    assert [word for word, _ in rows] == ["do", "undo", "do"] and first == undone != second
    assert repo.run("sh", "-c", single).code == 0 and (repo.path / "site" / "parser.txt").exists()
    assert repo.ok("journal", "verify").code == 0
