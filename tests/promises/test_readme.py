"""Every example of the README is run; test_guides.py does the same for the guides."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import CLIENTS
from tests.kit.doors import build
from tests.kit.guides import GUIDES, README, block_with, blocks
from tests.kit.places import ROOT
from tests.kit.talks import Talk

TEXT = README.read_text()


def test_it_is_read_in_five_minutes() -> None:
    assert len(TEXT.splitlines()) <= 120
    assert len(re.findall(r"^git baton ", block_with(TEXT, "text", "git baton snapshot"), re.M)) <= 10


def test_what_it_links_to_is_there() -> None:
    links = [link for link in re.findall(r"\]\(([^)]*)\)", TEXT) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []
    named = re.findall(r"\[(\w+)\]\(gitbaton/data/guides/(\w+)\.md\)", TEXT)
    assert [name for name, _ in named] == [name for _, name in named]
    assert sorted(name for name, _ in named) == sorted(path.stem for path in GUIDES.glob("*.md"))


def test_the_top_level_is_what_the_design_fixes() -> None:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True).stdout
    names = {row.partition("/")[0] for row in listed.splitlines()}
    files = {"checkpoint_protocol.md", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"}
    assert {name for name in names if name[0] != "."} == {"gitbaton", "tests", "hooks", *files}


@pytest.mark.deep
def test_the_first_command_does_the_main_job_in_a_clone(tmp_path: Path) -> None:
    line = block_with(TEXT, "sh", ".ci/venv test").splitlines()[0]
    setup, path, *job = line.split(" && ")
    assert setup == "sh .ci/venv" and path.startswith("PATH=")  # the venv itself is what runs this test
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--no-local", str(ROOT), str(clone)], check=True, capture_output=True)
    done = Sandbox(clone).run("sh", "-c", " && ".join(job))
    assert done.code == 0, done.err
    assert "  first try\n" in done.out and "\nnext      git baton status\n" in done.out and "\ndrift     = home\n" in done.out


def test_the_first_take_back(repo: Sandbox) -> None:
    repo.write("README.md", "begun\n")
    seen = []
    for line in block_with(TEXT, "sh", "echo oops").splitlines():
        assert (done := repo.run("sh", "-c", line)).code == 0, done.err
        seen.append((repo.path / "README.md").read_text())
    assert seen == ["begun\n", "begun\noops\n", "begun\noops\n", "begun\n", "begun\noops\n"]


def test_the_picture_comes_first_and_one_line_says_what_it_is() -> None:
    assert TEXT.startswith("# gitbaton\n\n![") and TEXT.split("\n\n")[2].count("\n") == 1


def test_the_test_command_is_the_one_that_ci_runs() -> None:
    line = block_with(TEXT, "sh", ".ci/venv test").splitlines()[1]
    assert line == "sh .ci/venv test && .venv/bin/pytest -n 2"
    assert "sed -n 's/^sh \\.ci\\/venv test && //p' README.md" in (ROOT / ".ci" / "run").read_text()


GITS_OWN = re.compile(r"/\.git/objects/|/reftable/|/\.git/(worktrees/[^/]+/)?index$|/logs/HEAD$|/packed-refs$")


def whole(folders: list[Path]) -> list[str]:
    """Every file with its bytes and every folder, empty ones too; without what git itself keeps of each command."""
    found = [path for folder in folders for path in sorted(folder.rglob("*")) if not GITS_OWN.search(str(path))]
    return [f"{path}: {path.read_bytes()!r}" if path.is_file() else str(path) for path in found]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("form", "linked", "by"),
    [
        ("binary", 0, "lines"),
        ("binary", 2, "lines"),
        ("binary", 2, "purge"),
        ("sha256", 1, "lines"),
        ("reftable", 1, "lines"),
        ("bare of templates", 1, "lines"),
        ("bare of templates", 1, "purge"),
    ],
)
def test_every_trace_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, linked: int, by: str) -> None:
    repo = build(tmp_path / "repo", form, monkeypatch).sandbox
    algorithm = repo.git("rev-parse", "--show-object-format")
    subprocess.run(["git", "init", "-q", "--bare", f"--object-format={algorithm}", str(tmp_path / "far.git")], check=True)
    repo.git("remote", "add", "origin", str(tmp_path / "far.git"))
    repo.git("config", "core.logAllRefUpdates", "always")
    trees = [repo]
    for number in range(linked):
        repo.git("worktree", "add", "-q", "--detach", str(tmp_path / f"tree {number}"))
        trees.append(Sandbox(tmp_path / f"tree {number}"))
    folders = [tree.path for tree in trees]
    refs, before = repo.git("for-each-ref"), whole(folders)

    repo.ok("install", "--fetch", "origin")
    repo.ok("agent", "install", "claude")
    for number, tree in enumerate(trees):
        tree.ok("snapshot", "--track", f"a {number}", "--step", "one")
        tree.ok("run", "--run", f"r{number}", "--step", "s", "--key", "1", "--", "true")
    repo.ok("restore", "@")
    repo.ok("pin", "@")
    repo.ok("export", "--history")
    repo.ok("push", "origin", "--yes")
    repo.ok("fetch", "origin")
    repo.ok("agent", "uninstall", "--all")
    trees[-1].ok("uninstall", *(["--purge", "--yes"] if by == "purge" else []))
    if by == "lines":
        done = trees[-1].run("sh", "-c", block_with(TEXT, "sh", "update-ref --no-deref -d"))
        assert (done.code, done.out, done.err) == (0, "", "")
    assert repo.git("for-each-ref") == refs
    assert whole(folders) == before
    assert "No checkpoints here yet." in repo.baton("resume").out


def test_the_same_lines_stand_in_the_guide_to_storage() -> None:
    assert block_with((GUIDES / "storage.md").read_text(), "sh", "update-ref --no-deref -d") in blocks(TEXT, "sh")


def test_the_log_that_leaves_our_chains_out(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "main", "--step", "one")
    assert len(repo.git("log", "--all", "--format=%H").split()) > 1
    match = re.search(r"`(git log --exclude='refs/baton[^`]*)`", TEXT)
    assert match is not None
    assert repo.run("sh", "-c", f"{match.group(1)} --format=%H").out.split() == [repo.head()]


def test_plain_git_shows_what_the_table_says(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "main", "--step", "step one")
    rows = re.findall(r"^\| .* \| `[^`]*` \| `(git [^`]*)` \|$", TEXT, re.MULTILINE)
    shown = [repo.run("sh", "-c", row.replace("<track>", "main")).out for row in rows]
    assert ["step one" in text for text in shown] == [True, True, True, False, False]
    assert shown[3] == "refs/checkpoints/main\n" and "refs/baton/tracks/main" in shown[4]
    assert re.search(r"locks, caches.*kept out of `git status`", TEXT) and repo.git("status", "--porcelain") == ""


@pytest.mark.deep
def test_every_day(repo: Sandbox) -> None:
    for number in range(3):
        repo.ok("snapshot", "--track", "parser", f"step {number}")
    repo.write("baton.toml", '[step.one]\nrun = "true"\n')
    block = block_with(TEXT, "text", "git baton snapshot")
    for line in block.splitlines():
        command = re.split(r" {3,}", line)[0]
        done = repo.run("sh", "-c", command)
        assert done.code == 0 or (done.code, "rewind" in command, "terminal" in done.err) == (129, True, True), done


@pytest.mark.deep
def test_a_bad_turn(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("agent", "install", "claude")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    for number in range(3):
        talk.ask(f"do {number}")
        talk.edit("a.txt", f"{number}\n")
        talk.stop()
    seen = []
    for line in block_with(TEXT, "sh", "git baton revert --dry-run").splitlines():
        assert repo.run("sh", "-c", line).code == 0, line
        seen.append((repo.path / "a.txt").read_text())
    assert seen == ["2\n", "2\n", "1\n", "2\n"]


@pytest.mark.deep
def test_a_compaction(repo: Sandbox) -> None:
    install, resume = block_with(TEXT, "sh", "git baton agent install claude").splitlines()
    assert repo.run("sh", "-c", install).code == 0
    clients = set(re.findall(rf"\b({'|'.join(CLIENTS)})\b", install))
    assert clients == set(CLIENTS)
    repo.ok("snapshot", "lexer done", "--next-cmd", "pytest")
    assert "\nnext      pytest" in repo.run("sh", "-c", resume).out


@pytest.mark.deep
def test_elsewhere(repo: Sandbox, tmp_path: Path) -> None:
    push, *there = block_with(TEXT, "sh", "git baton push origin").splitlines()
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "remote.git")], check=True)
    repo.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    repo.git("push", "-q", "origin", "HEAD:refs/heads/main")
    repo.write("new.txt", "new\n")
    repo.ok("snapshot", "--track", "parser", "lexer done")
    assert repo.run("sh", "-c", push).code == 1  # nobody is there to be asked
    repo.git("config", "baton.push", "true")
    assert repo.run("sh", "-c", push).code == 0
    subprocess.run(["git", "clone", "-q", "-b", "main", str(tmp_path / "remote.git"), str(tmp_path / "other")], check=True)
    other = Sandbox(tmp_path / "other")
    done = [other.run("sh", "-c", line) for line in there]
    assert [d.code for d in done] == [0, 0, 0] and "  lexer done\n> taken  " in done[1].out
    assert (other.path / "new.txt").read_text() == "new\n"
    other.ok("snapshot", "--track", "parser", "parser done")
    assert other.git("rev-list", "--count", "--first-parent", "refs/baton/tracks/parser") == "3"  # with the root
