"""Before a destructive command there is a checkpoint, whoever typed it: replayed payloads, then the command, then a restore."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, autos, checkpoints, log_of, steps, untouched
from tests.kit.destructive import REPORTED, files, lived_in
from tests.kit.killkit import driven
from tests.kit.tiers import first, some

SHARES = 13
AGENTS = ("claude", "codex", "gemini", "copilot", "opencode")
HARMLESS = (
    "git reset",
    "git reset --soft HEAD~1",
    "git checkout -b other",
    "git checkout main",
    "git switch -c other",
    "git restore --staged src/app.py",
    "git clean -nfdx",
    "git stash list",
    "git branch --show-current",
    "git rebase --continue",
    "git commit -m 'rm -rf src; git reset --hard'",
    "git log --oneline | head",
    "git rm --cached src/app.py",
    "rm -f nothing-there",
    "rm -rf /tmp/nothing-of-ours-is-there",
    'echo "rm -rf src"',
    'grep -r "git clean" .',
    "sed -i 's/a/b/' src/app.py",
    "npm test > /dev/null 2>&1",
    "pytest > build/log.txt",
    "cat data/seed.txt >> src/app.py",
    "echo new > not-there-yet.txt",
    "docker run --rm image true",
    "cat <<'END'\nrm -rf src\ngit reset --hard\nEND",
)
QUICK = (
    *("ls -la", "git status --short", "git diff HEAD~1", "git log --oneline | head", "npm run build 2>&1 | tail -20", "pwd"),
    *(
        "npm test > /dev/null 2>&1",
        "pytest -x tests/parser",
        "cat src/app.py",
        "cd src && python3 -m http.server",
        "make check",
    ),
    *("bundle exec ruby -Itest test/a_test.rb", "perl -ne 'print if /x/' src/app.py", "echo a cp-b dd.c"),
    *("git add -A && git commit -m 'more tests'", "grep -rn 'reset' src", "docker run --rm image true", "npm install left-pad"),
    *("git fetch && git push", "git branch --show-current", "sed -n 1,20p src/app.py", "for f in a b; do echo $f; done"),
)


def strike(client: Client, command: str, **fields: Any) -> None:
    """What the client's hook sends before it runs a command; it says nothing, whatever it does."""
    if client.agent == "opencode":
        sent = client.send(
            "command", {"sessionID": client.session, "directory": str(client.place), "command": command, **fields}
        )
    else:
        event = {"gemini": "BeforeTool", "copilot": "preToolUse"}.get(client.agent, "PreToolUse")
        tool = {"gemini": "run_shell_command", "copilot": "bash"}.get(client.agent, "Bash")
        given: dict[str, Any] = {"tool_name": tool, "tool_input": {"command": command}}
        if client.agent == "copilot":
            given = {"toolName": tool, "toolArgs": {"command": command}}
        sent = client.send(event, client.payload(event, **given, **fields))
    assert (sent.code, sent.out, sent.err) == (0, "", ""), f"{command}: {sent}"


def run(repo: Sandbox, command: str, place: Path | None = None) -> None:
    """The command itself, whatever comes of it."""
    subprocess.run(["bash", "-c", command], cwd=place or repo.path, env=dict(os.environ), capture_output=True)


def lost_and_back(repo: Sandbox, client: Client, command: str, *, undo: bool) -> str:
    """What is wrong after a command that its client's hook heard of, and a restore; empty where nothing is. With ``undo`` that
    is taken back and carried out once more."""
    before, state = files(repo.path), untouched(repo)
    strike(client, command)
    if untouched(repo) != state:
        return "the hook changed something of the user's"
    if not steps(autos(repo, "t")) or not steps(autos(repo, "t"))[-1].startswith("before '"):
        return f"no checkpoint {log_of(repo)}"
    run(repo, command)
    lost = files(repo.path)
    done = repo.baton("restore", "t", "--force")
    if done.code != 0 or files(repo.path) != before:
        return f"not all came back: {[*dict(files(repo.path).items() ^ before.items())]} {done}"
    if undo and lost != before:
        done = repo.baton("undo", "--force")
        if done.code != 0 or files(repo.path) != lost:
            return f"not as the command left it: {[*dict(files(repo.path).items() ^ lost.items())]} {done}"
        done = repo.baton("redo", "--force")
    return "" if files(repo.path) == before and log_of(repo) == "" else f"{done} {log_of(repo)}"


def replayed(tmp_path: Path, share: int, *, undo: bool) -> list[str]:
    """What is wrong after a share of the commands, each in a repository of its own and by another client."""
    made, wrong = lived_in(tmp_path / "made"), list[str]()
    for number, command in enumerate(REPORTED[share::SHARES]):
        place = tmp_path / f"r{number}"
        shutil.copytree(made.path, place, symlinks=True)
        repo, client = Sandbox(place), Client(AGENTS[(number * SHARES + share) % len(AGENTS)], place)
        repo.run("git", "update-index", "-q", "--refresh")
        said = lost_and_back(repo, client, command, undo=undo)
        wrong += [f"{client.agent}: {command}: {said}"] if said else []
    return wrong


@some("share", range(SHARES), share=0)  # the next one holds all that this one does, and more
def test_every_byte_comes_back(tmp_path: Path, share: int) -> None:
    wrong = replayed(tmp_path, share, undo=False)
    assert not wrong, "\n".join(wrong)


@pytest.mark.deep
@pytest.mark.parametrize("share", range(SHARES))
def test_what_comes_back_can_be_undone_and_redone(tmp_path: Path, share: int) -> None:
    wrong = replayed(tmp_path, share, undo=True)
    assert not wrong, "\n".join(wrong)


@pytest.mark.deep
def test_what_looks_alike_takes_no_checkpoint(tmp_path: Path) -> None:
    repo = lived_in(tmp_path / "r")
    wrong = []
    for number, command in enumerate(HARMLESS):
        strike(Client(AGENTS[number % len(AGENTS)], repo.path), command)
        wrong += [command] if len(checkpoints(repo, "t")) > 1 else []
    assert not wrong and log_of(repo) == ""


def test_ignored_files_are_held_here_named_and_no_secret(tmp_path: Path) -> None:
    repo = lived_in(tmp_path / "r")
    repo.write(".env", "KEY=1\n")
    repo.write("build/large.bin", os.urandom(300_000))
    repo.git("config", "baton.guardIgnored", "100k")
    strike(Client("claude", repo.path), "git clean -fdX && rm -rf node_modules")
    tip = checkpoints(repo, "t")[-1]
    assert tip["step"] == "before 'git clean -fdX'"
    left = {row["path"]: row["reason"] for row in tip["files"]["skipped"]}
    assert left == {".env": "excluded", "build": "ignored", "data/app.db": "ignored-held"}
    assert bytes(range(256)) * 2 not in repo.run("git", "cat-file", "--batch-all-objects", "--batch").out.encode(
        "utf-8", "surrogateescape"
    )
    told = "git ignores 'data/app.db': that stays on the machine where it was taken"
    far = Sandbox.init(tmp_path / "far", "--bare")
    repo.git("remote", "add", "far", str(far.path))
    assert told in repo.ok("push", "far", "--yes").out + repo.ok("status").err
    shown = repo.ok("show", "--porcelain", "t").out
    assert "skipped=ignored build\n" in shown and "skipped=ignored-held data/app.db\n" in shown


def test_what_is_ignored_and_there_is_written_over_only_once_it_is_held(tmp_path: Path) -> None:
    repo = lived_in(tmp_path / "r")
    strike(Client("claude", repo.path), "rm -rf data build")
    before = files(repo.path)
    assert repo.ok("verify").out == "" and repo.ok("restore", "t").out.startswith("nothing"), "nothing has gone"
    assert repo.ok("diff", "t").out == "", "nor is it compared with what only stands for it"
    repo.write("data/app.db", "newer")
    assert "token" in repo.ok("diff", "t").out
    later = files(repo.path)
    done = repo.ok("restore", "t")
    assert "write data/app.db" in done.out and files(repo.path) == before
    repo.ok("undo")
    assert files(repo.path) == later


@pytest.mark.deep
def test_what_is_struck_through_a_link_or_by_a_folder_that_is_copied_over_it(tmp_path: Path) -> None:
    repo, other = lived_in(tmp_path / "r"), tmp_path / "other"
    (other / "src").mkdir(parents=True)
    (other / "src/app.py").write_text("older\n")
    (other / "link").symlink_to(repo.path / "data")
    client = Client("claude", other)
    for command, number in ((f"cp -r {other}/src {tmp_path}/new", 0), (f"cp -r {other}/src {repo.path}", 1)):
        strike(client, command)
        assert len(autos(repo, "t")) == number, command
    repo.write("data/app.db", "changed\n")
    strike(client, "rm -rf link/*.db link/seed.txt")
    (told,) = checkpoints(repo, "t")[-1]["files"]["skipped"]
    assert told == {"path": "data/app.db", "reason": "ignored-held"} | told
    before = files(repo.path)
    run(repo, f"rm -rf link/*.db link/seed.txt; cp -r src {repo.path}", other)
    assert len(dict(files(repo.path).items() ^ before.items())) == 3
    repo.ok("restore", "t", "--force")
    assert files(repo.path) == before


@pytest.mark.deep
def test_other_work_trees_that_a_command_strikes(tmp_path: Path) -> None:
    repo = lived_in(tmp_path / "r")
    for name in (".worktrees/one", "../two", "../six"):
        repo.git("worktree", "add", "-q", "-b", name[-3:], name)
        (repo.path / name / "work.txt").write_text(f"{name}\n")
    client = Client("claude", repo.path)
    strike(client, "rm -rf .worktrees; git worktree remove --force ../two; rm -rf /nothing-there")
    strike(client, "cd .worktrees/one && git worktree remove --force six")  # git knows it by the end of its path
    for name, track in ((".worktrees/one", "one"), ("../two", "two"), ("../six", "six")):
        tip = checkpoints(repo, track)[-1]
        assert tip["files"]["worktree"]["path"] == os.path.realpath(repo.path / name), tip
        run(repo, f"git worktree remove --force {name}")
        repo.ok("worktree", f"../{track}-again", track)
        assert (tmp_path / f"{track}-again/work.txt").read_text() == f"{name}\n"
    assert list((repo.path / ".git").glob("worktrees/*/baton/sessions/*")) == [], "the session does not work there"


@pytest.mark.deep
def test_a_subagents_command_counts_and_leaves_the_session_alone(tmp_path: Path) -> None:
    repo = lived_in(tmp_path / "r")
    client = Client("claude", repo.path)
    client.asked("mend it")
    strike(client, "git clean -fd", agent_id="a1")
    repo.write("more.txt", "x")
    client.fire("turn")
    assert steps(autos(repo, "t"))[-2:] == ["before 'git clean -fd'", "turn ended: mend it"]
    strike(Client("copilot", repo.path, session="a-child"), "rm -rf src", agentId="a-child")
    assert steps(autos(repo, "t"))[-1] == "turn ended: mend it", "nothing is new"
    assert [path.name for path in (repo.path / ".git/baton/sessions").iterdir() if "a-child" in path.name] == []


def test_what_does_not_stop_a_command(tmp_path: Path) -> None:
    repo = lived_in(tmp_path / "r")
    client = Client("claude", repo.path)
    repo.git("config", "baton.auto", "off")
    strike(client, "rm -rf src")
    assert autos(repo, "t") == []
    repo.git("config", "baton.auto", "compact")
    (repo.path / ".git/baton/restore").write_text("{}")
    strike(client, "rm -rf src")
    assert autos(repo, "t") == [] and "no checkpoint is taken while a restore" in log_of(repo)
    (repo.path / ".git/baton/restore").unlink()
    strike(client, "rm -rf 'src' # token ghp_" + "a1B2" * 9)
    (only,) = autos(repo, "t")
    assert only["step"].startswith("before 'rm -rf 'src'") and "a1B2a1B2" not in only["step"]


@pytest.mark.deep
def test_stashes_and_branches_that_go_are_named(tmp_path: Path) -> None:
    repo = lived_in(tmp_path / "r")
    client = Client("gemini", repo.path)
    repo.git("branch", "side", "HEAD~1")
    for number in range(2):
        repo.write("notes.md", f"{number}\n")
        repo.git("stash")
    first, second, side = (repo.git("rev-parse", "--short", name) for name in ("stash@{0}", "stash@{1}", "side"))
    for command, named in (
        ("git stash drop", f"; stash@{{0}} is {first}"),
        ("git stash pop stash@{1}", f"; stash@{{1}} is {second}"),
        ("git stash clear", f"; stash@{{0}} is {first}, stash@{{1}} is {second}"),
        ("git branch -D side none", f"; side is {side}"),
        ("git checkout -B side HEAD", f"; side is {side}"),
        ("git switch -C side", f"; side is {side}"),
        ("git update-ref -m why -d refs/heads/side", f"; side is {side}"),
    ):
        strike(client, command)
        assert steps(autos(repo, "t"))[-1] == f"before '{command}'{named}"
    repo.git("stash", "clear")
    many = len(checkpoints(repo, "t"))
    for command in ("git branch -D none", "git stash drop", "git stash clear", "git switch -C none", "git checkout -B none"):
        strike(client, command)
    assert len(checkpoints(repo, "t")) == many, "nothing is new, and no name goes"
    repo.git("reset", "-q", "--hard")
    repo.git("stash", "apply", "-q", first)
    assert (repo.path / "notes.md").read_text() == "1\n"


@pytest.mark.parametrize("step", first([3, *range(1, 3), *range(4, 9)], share=3))
def test_a_restore_of_ignored_files_that_is_killed_is_ended_by_the_next_command(tmp_path: Path, step: int) -> None:
    repo = lived_in(tmp_path / "r")
    strike(Client("claude", repo.path), "rm -rf data build src")
    before = files(repo.path)
    run(repo, "rm -rf build src")
    repo.write("data/app.db", "newer, and longer than what was there\n" * 1000)
    lost = files(repo.path)
    driven(repo, "named", step, ("restore", "t", "--force"))
    repo.ok("log")
    now = files(repo.path)
    assert now in (before, lost), f"step {step}: {[*dict(now.items() ^ before.items())]} {[*dict(now.items() ^ lost.items())]}"
    repo.ok("undo" if now == before else "restore", *([] if now == before else ["t", "--force"]))
    assert files(repo.path) == (lost if now == before else before)
