"""git baton status --at-risk: what no checkpoint and no commit holds, and what git's own commands would take of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gitbaton.care.tools.atrisk import at_risk
from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.capturekit import git_files, index_path, state
from tests.kit.destructive import lived_in
from tests.kit.gates import Gated
from tests.kit.state import SAFETY
from tests.kit.tiers import some
from tests.promises.test_destructive import strike

Rows = dict[str, tuple[str, str]]


@pytest.fixture
def work(repo: Sandbox) -> Sandbox:
    """A repository with a checkpoint, and after it something of every kind."""
    repo.write(".gitignore", "*.log\nnode_modules/\nbuild/*\n")
    repo.write("tracked.txt", "one\n")
    repo.write("staged.txt", "one\n")
    repo.commit("files")
    repo.write("kept.txt", "in the checkpoint\n")
    repo.ok("snapshot", "--track", "t", "one")
    repo.write("tracked.txt", "two\n")
    repo.write("staged.txt", "two\n")
    repo.git("add", "staged.txt")
    repo.write("new.txt", "new\n")
    repo.write(".env", "KEY=1\n")
    repo.write("a.log", "log\n")
    for n in range(30):
        repo.write(f"node_modules/p{n}/index.js", "x" * n)
        repo.write(f"logs/{n}.log", "y\n")
    repo.write("logs/keep.txt", "committed\n")
    repo.write("build/o/x.o", "o\n")
    repo.git("add", "logs/keep.txt")
    repo.git("commit", "-q", "-m", "keep", "--", "logs/keep.txt")
    return repo


def listed(repo: Sandbox) -> dict[str, dict[str, Any]]:
    """The rows by path; a repository may have two."""
    return {row["path"]: row for row in repo.ok("status", "--at-risk", "--json").json["at_risk"]}


def kinds(repo: Sandbox) -> Rows:
    return {path: (row["reason"], row["by"]) for path, row in listed(repo).items()}


def files(root: Path) -> dict[str, bytes]:
    """What the files of a work tree hold."""
    found = (p for p in root.rglob("*") if ".git" not in p.relative_to(root).parts and p.is_file())
    return {str(p.relative_to(root)): p.read_bytes() for p in found}


EVERYTHING: Rows = {
    "tracked.txt": ("changed", "checkout"),
    "staged.txt": ("changed", "disk"),
    "new.txt": ("new", "clean"),
    ".env": ("secret", "clean"),
    "a.log": ("ignored", "clean"),
    "logs/": ("ignored", "clean"),
    "node_modules/": ("ignored", "clean"),
    "build/": ("ignored", "clean"),
}


def test_everything_is_listed_with_its_reason_and_what_takes_it(work: Sandbox) -> None:
    before = state(index_path(work)), git_files(work), work.git("for-each-ref"), files(work.path)
    assert kinds(work) == EVERYTHING
    assert (state(index_path(work)), git_files(work), work.git("for-each-ref"), files(work.path)) == before
    rows = listed(work)
    assert (rows["node_modules/"]["files"], rows["node_modules/"]["size"]) == (30, sum(range(30)))
    assert (rows["logs/"]["files"], rows["logs/"]["size"], rows["tracked.txt"]["size"]) == (30, 60, 4)


@some("command", ["clean -fdx", "checkout ."])
def test_what_git_takes_is_what_was_said(work: Sandbox, command: str) -> None:
    before, rows = files(work.path), listed(work)
    work.git(*command.split())
    after = files(work.path)
    lost = {path for path, data in before.items() if after.get(path) != data} - {"kept.txt"}
    lost = {path for path in lost if not path.startswith("runtime/")}
    said = {path for path, row in rows.items() if row["by"] == command.split()[0]}
    assert {p for p in lost if p in said or any(p.startswith(at) for at in said if at.endswith("/"))} == lost
    assert sum(rows[path]["files"] for path in said) == len(lost)
    work.ok("restore", "t", "--", "kept.txt")
    assert files(work.path)["kept.txt"] == before["kept.txt"], "and what was not listed comes back"


@pytest.mark.deep
def test_what_a_checkpoint_or_a_commit_holds_is_not_listed(work: Sandbox) -> None:
    work.ok("snapshot", "--track", "t", "two", "--include", "new.txt")
    assert kinds(work).keys() == EVERYTHING.keys() - {"tracked.txt", "staged.txt", "new.txt"}
    work.write("tracked.txt", "three\n")
    work.git("commit", "-q", "-m", "three", "--", "tracked.txt")
    assert "tracked.txt" not in kinds(work), "HEAD has it"
    work.write("tracked.txt", "two\n")
    assert "tracked.txt" not in kinds(work), "an older checkpoint has it"
    work.write("tracked.txt", "four\n")
    assert kinds(work)["tracked.txt"] == ("changed", "checkout")
    work.ok("restore", "t", "--force")
    assert work.git("rev-parse", SAFETY)
    work.write("tracked.txt", "four\n")
    assert "tracked.txt" not in kinds(work), "the state before the restore has it"


@pytest.mark.deep
def test_what_is_ignored_since_it_was_captured_is_there_still(work: Sandbox) -> None:
    for n in range(12):
        work.write(f"out/{n}.bin", f"{n}\n")
        work.write(f"many/{n}.tmp", f"{n}\n")
    work.write("many/keep", "k\n")
    work.ok("snapshot", "--track", "t", "two")
    work.write(".gitignore", "out/\n*.tmp\n")
    assert not {"out/", "many/"} & kinds(work).keys()
    work.write("out/3.bin", "edited\n")
    work.write("out/new", "12345\n")
    work.write("many/4.tmp", "edited\n")
    rows = listed(work)
    assert (rows["out/"]["files"], rows["out/"]["size"], rows["out/"]["reason"]) == (2, 13, "ignored")
    assert (rows["many/"]["files"], rows["many/"]["size"]) == (1, 7)


@pytest.mark.deep
def test_without_a_checkpoint_a_commit_counts_and_without_one_nothing(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "fresh")
    box.write("a.txt", "a\n")
    box.write(".gitignore", "*.o\n")
    box.write("x.o", "o\n")
    assert kinds(box) == {"a.txt": ("new", "clean"), ".gitignore": ("new", "clean"), "x.o": ("ignored", "clean")}
    box.commit("one")
    assert kinds(box) == {"x.o": ("ignored", "clean")}
    (box.path / "x.o").unlink()
    done = box.ok("status", "--at-risk")
    assert (done.out, done.err) == ("nothing is at risk: checkpoints or HEAD hold all that is here\n", "")
    assert box.ok("status", "--at-risk", "--json").json["sum"]["disk"] == {"files": 0, "size": 0, "commits": 0}


@pytest.mark.deep
def test_what_is_left_out_has_the_word_of_the_snapshot(work: Sandbox) -> None:
    work.git("config", "baton.maxFileSize", "1k")
    work.git("config", "--add", "baton.exclude", "@default")
    work.git("config", "--add", "baton.exclude", "*.mine")
    work.write("big", "x" * 2000)
    work.write("a.mine", "m\n")
    os.mkfifo(work.path / "pipe")
    found = kinds(work)
    assert (found["big"], found["a.mine"], found[".env"]) == (
        ("too-large", "clean"),
        ("excluded", "clean"),
        ("secret", "clean"),
    )
    assert "pipe" not in found, "it holds nothing"
    assert next(iter(listed(work))) == "big", "the largest is the first"
    work.git("config", "baton.untracked", "none")
    assert kinds(work)["new.txt"] == ("untracked", "clean")


def test_of_one_size_the_newest_is_first(repo: Sandbox) -> None:
    for n, name in enumerate(("b", "c", "a")):
        os.utime(repo.write(f"{name}.txt", "same size\n"), (1_700_000_000 + n * 100,) * 2)
    rows = repo.ok("status", "--at-risk", "--json").json["at_risk"]
    assert [row["path"] for row in rows] == ["a.txt", "c.txt", "b.txt"]
    assert rows[0]["changed"].startswith("2023-11-14T22:16:40")


@pytest.mark.deep
def test_repositories_within_are_looked_into(work: Sandbox, tmp_path: Path) -> None:
    hub = Sandbox.init(tmp_path / "hub", "--bare")
    lib = Sandbox.init(tmp_path / "lib")
    lib.commit("one", l_txt="l\n")
    lib.git("push", "-q", str(hub.path), "main")
    work.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(hub.path), "sub")
    work.git("commit", "-q", "-m", "sub", "--", "sub", ".gitmodules")
    nested = Sandbox.init(work.path / "node_modules/nest")
    nested.commit("alone", n_txt="n\n")
    work.git("worktree", "add", "-q", "build/beside")
    work.ok("snapshot", "--track", "t", "two")
    assert "sub/" not in kinds(work), "it is as its remote has it"
    sub = Sandbox(work.path / "sub")
    sub.write("l.txt", "edited\n")
    sub.write("more.txt", "more\n")
    sub.git("config", "user.name", "a")
    sub.git("config", "user.email", "a@b")
    sub.git("commit", "-q", "--allow-empty", "-m", "unpushed")
    document = work.ok("status", "--at-risk", "--json").json
    rows = {(row["path"], row["reason"]): row for row in document["at_risk"]}
    assert (rows["sub/", "uncommitted"]["files"], rows["sub/", "uncommitted"]["size"]) == (2, 12)
    assert rows["sub/", "unpushed"]["commits"] == 1 and rows["sub/", "unpushed"]["size"] > 0
    assert rows["node_modules/nest/", "unpushed"]["commits"] == 1
    assert rows["node_modules/", "ignored"]["files"] == 30, "what it holds is counted once"
    assert {row["by"] for row in rows.values() if row["reason"] in ("uncommitted", "unpushed")} == {"disk"}
    assert document["worktrees"] == ["build/beside"] and document["sum"]["disk"]["commits"] == 2
    hint = work.ok("status", "--at-risk").out.splitlines()[-1]
    assert hint == "build/beside is a work tree of its own: git -C build/beside baton status --at-risk"
    assert work.run("git", *hint.partition(": git ")[2].split()).code == 0
    work.git("clean", "-fdxq")
    assert (nested.path / "n.txt").exists() and (work.path / "build/beside/tracked.txt").exists()


@pytest.mark.deep
def test_a_stash_and_what_lies_deeper_are_seen(work: Sandbox, tmp_path: Path) -> None:
    hub = Sandbox.init(tmp_path / "hub", "--bare")
    outer = Sandbox.init(work.path / "vendor/outer")
    outer.commit("one", o_txt="o\n")
    outer.git("push", "-q", str(hub.path), "main")
    outer.git("remote", "add", "origin", str(hub.path))
    outer.git("fetch", "-q", "origin")
    inner = Sandbox.init(outer.path / "lib/inner")
    inner.commit("two", i_txt="i\n")
    inner.write("new", "123\n")

    def rows() -> dict[tuple[str, str], tuple[int, int]]:
        found = work.ok("status", "--at-risk", "--json").json["at_risk"]
        return {(r["path"], r["reason"]): (r["files"], r["commits"]) for r in found if r["path"].startswith("vendor")}

    deeper = {("vendor/outer/lib/inner/", "uncommitted"): (1, 0), ("vendor/outer/lib/inner/", "unpushed"): (0, 1)}
    assert rows() == deeper
    outer.git("checkout", "-q", "--detach")
    outer.commit("detached", o_txt="later\n")
    outer.write("o.txt", "stashed\n")
    outer.git("stash", "-q")
    assert rows() == {**deeper, ("vendor/outer/", "unpushed"): (0, 3)}, "two are the stash"
    unborn = Sandbox.init(work.path / "vendor/unborn")
    unborn.write("x", "x\n")
    assert rows()["vendor/unborn/", "uncommitted"] == (1, 0)


def test_no_program_of_a_repository_within_runs(work: Sandbox, tmp_path: Path) -> None:
    nested, ran = Sandbox.init(work.path / "node_modules/nest"), tmp_path / "ran"
    nested.write(".gitattributes", "* filter=evil\n")
    nested.commit("one", n_txt="n\n")
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    for key in ("filter.evil.clean", "filter.evil.smudge", "core.fsmonitor", "core.sshCommand", "core.pager"):
        nested.git("config", key, str(program))
    nested.git("config", "filter.evil.required", "true")
    shutil.copy(program, nested.path / ".git/hooks/post-index-change")
    nested.write("n.txt", "edited\n")
    rows = work.ok("status", "--at-risk", "--json").json["at_risk"]
    assert ("node_modules/nest/", "uncommitted") in {(row["path"], row["reason"]) for row in rows}
    assert not ran.exists()


@pytest.mark.deep
def test_bytes_that_a_checkpoint_keeps_beside_are_there(tmp_path: Path) -> None:
    gated = Gated(tmp_path)
    gated.shut("missing")
    gated.edit()
    tracked = dict.fromkeys(("secret", "deep/secret-too"), ("unfiltered", "checkout"))
    assert kinds(gated.box) == {**tracked, "secret new": ("unfiltered", "clean")}
    gated.box.ok("snapshot", "--track", "t", "shut")
    assert kinds(gated.box) == {}
    gated.box.write("secret new", "edited\n")
    assert kinds(gated.box) == {"secret new": ("unfiltered", "clean")}
    shutil.rmtree(gated.box.path / ".git/baton/held")
    assert kinds(gated.box).keys() == {*tracked, "secret new"}, "what was kept is gone"


@pytest.mark.deep
def test_what_was_taken_in_before_a_command_is_there(tmp_path: Path) -> None:
    box = lived_in(tmp_path / "box")
    assert {path for path, (reason, _) in kinds(box).items() if reason == "ignored"} == {"data/app.db", "build/"}
    strike(Client("claude", box.path), "git clean -fdx")
    assert kinds(box) == {}
    box.write("build/out/app.bin", b"built anew")
    assert kinds(box) == {"build/": ("ignored", "clean")}


def test_names_from_elsewhere_drive_no_terminal(repo: Sandbox) -> None:
    for name in ("new\nline", "\x1b[31mred", "tab\there", 'qu"ote', "-n", "‮bidi", "ok.txt", os.fsdecode(b"\xff")):
        repo.write(name, "x\n")
    out = repo.ok("status", "--at-risk").out
    assert "\x1b" not in out and "‮" not in out and '"new\\nline"' in out and '"\\377"' in out
    stable = repo.ok("status", "--at-risk", "--porcelain").out.splitlines()
    assert stable[:2] == ["# baton porcelain v1", "# size files commits changed reason by whole path"]
    assert all(len(row.split("\t")) == 8 for row in stable[2:]) and len(stable) == 10
    fields = repo.ok("status", "--at-risk", "-z").out.split("\0")
    assert "new\nline" in fields and "# size files commits changed reason by whole path" in fields
    paths = [row["path"] for row in repo.ok("status", "--at-risk", "--json").json["at_risk"]]
    assert {"b64": "/w=="} in paths and "new\nline" in paths


def test_many_rows_are_cut_and_all_lists_them(repo: Sandbox) -> None:
    repo.write(".gitignore", "cache\n")
    repo.commit("rules")
    for n in range(60):
        repo.write(f"d{n:02}/cache/x", "c" * (n + 1))
    rows = repo.ok("status", "--at-risk").out.splitlines()
    assert rows[0].split() == ["SIZE", "AGE", "REASON", "TAKEN", "BY", "PATH"] and len(rows) == 53
    assert rows[1].split()[-3:] == ["d59/", "(1", "file)"] and rows[-2] == "and 10 more (--all lists them)"
    assert rows[-1] == "60 files, 1.8 KiB, that no checkpoint holds: 'git clean -fdx' takes 60, a dead disk all"
    assert len(repo.ok("status", "--at-risk", "--all").out.splitlines()) == 62


@pytest.mark.deep
def test_a_large_tree_is_looked_at_as_far_as_the_limit(work: Sandbox, tmp_path: Path) -> None:
    for most, whole in ((40, False), (500, True)):
        with work.open(door="binary") as baton:
            found = at_risk(baton, str(tmp_path / str(most)), most)
        rows = {row.path: row for row in found.rows}
        assert rows["node_modules/"].whole == whole and (rows["node_modules/"].files == 30) == whole
        assert "tracked.txt" in rows and "logs/" in rows, "what is no folder is there in any case"


def test_without_a_work_tree_it_is_refused(bare: Sandbox) -> None:
    done = bare.baton("status", "--at-risk")
    assert (done.code, done.out) == (128, "") and done.err.startswith("fatal: there is no work tree here")
    done = bare.baton("status", "--at-risk", "--watch")
    assert done.code == 129 and "--at-risk and --watch exclude each other" in done.err
