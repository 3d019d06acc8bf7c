"""Restore in the corners: races, attributes that changed, records made by hand, places that may not be written, two at once."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys

import pytest

from gitbaton.base.errors import BatonError, GitError
from gitbaton.checkpoints.restore import Order, alone, apply, planned
from tests.kit import Sandbox
from tests.kit.capturekit import without_privilege
from tests.kit.moments import Args, at
from tests.kit.state import SAFETY, actions, assert_same, files_of, snap, sound, state_of
from tests.kit.tiers import some

ALL = ("--exact", "--index", "--force")


def held(box: Sandbox, data: bytes) -> bool:
    """Whether a ref still leads to these bytes."""
    return box.git("hash-object", "--stdin", stdin=data) in box.git("rev-list", "--objects", "--all")


@pytest.mark.deep
@some("change", ["edit", "new", "delete", "index", "head"])
def test_a_plan_runs_against_no_other_state(repo: Sandbox, change: str) -> None:
    repo.write("b.txt", "b\n")
    repo.commit("b")
    snap(repo)
    repo.write("a.txt", "spoilt\n")
    repo.write("b.txt", "spoilt\n")
    with repo.open() as baton, planned(baton, Order(checkpoint="@", exact=True, index=True), alone(baton.repo)) as plan:
        if change == "edit":
            repo.write("a.txt", "spoilt otherwise\n")
        elif change == "new":
            repo.write("new.txt", "new\n")
        elif change == "delete":
            (repo.path / "b.txt").unlink()
        elif change == "index":
            repo.git("add", "b.txt")
        else:
            repo.git("commit", "-q", "--allow-empty", "-m", "moved")
        before = state_of(repo)
        with pytest.raises(BatonError):
            apply(plan)
    assert_same(before, state_of(repo), "refused")
    assert repo.try_git("rev-parse", "-q", "--verify", SAFETY).code == 1
    sound(repo)


@pytest.mark.deep
@some("victim", ["z.txt", "aa.txt", "fresh.txt"])
def test_t24_what_is_written_while_restore_runs_is_never_lost(repo: Sandbox, victim: str) -> None:
    """A filter plays the user who saves a file in the midst of it."""
    script = repo.path.parent / "smudge"
    script.write_text(f"#!/bin/sh\necho 'saved in the midst' >'{repo.path}/{victim}'\nexec cat\n")
    script.chmod(0o755)
    repo.write(".gitattributes", "*.k filter=k\n")
    for name in ("aa.txt", "m.k", "z.txt", *(("fresh.txt",) if victim == "fresh.txt" else ())):
        repo.write(name, "then\n")
    repo.commit("filtered")
    snap(repo)
    for name in ("aa.txt", "m.k", "z.txt"):
        repo.write(name, "now\n")
    if victim == "fresh.txt":
        (repo.path / victim).unlink()
    repo.git("config", "filter.k.smudge", os.fspath(script))
    repo.baton("restore")
    kept = (repo.path / victim).read_bytes()
    assert kept == b"saved in the midst\n" or held(repo, b"saved in the midst\n")
    repo.git("config", "--unset", "filter.k.smudge")
    assert repo.baton("status").code == 0
    sound(repo)


@some(("way", "options"), [("new", ("--exact", "--index")), ("gone", ()), ("edited", ())], ids=str)
def test_t24_bytes_come_back_with_the_attributes(repo: Sandbox, way: str, options: tuple[str, ...]) -> None:
    end = b"\n" if way == "new" else b"\r\n"
    if way != "new":
        repo.write(".gitattributes", "*.txt text eol=crlf\n")
    for name in ("a.txt", "b.txt", "c.txt"):
        repo.write(name, name.encode() + end)
    repo.commit("attributes")
    repo.write("c.txt", b"edited" + end)
    then = state_of(repo)
    snap(repo)
    if way == "gone":
        (repo.path / ".gitattributes").unlink()
    else:
        repo.write(".gitattributes", "*.txt text eol=crlf\n" if way == "new" else "*.txt text eol=lf\n")
    for name in ("a.txt", "c.txt"):
        repo.write(name, b"spoilt\n")
    (repo.path / "b.txt").unlink()
    mess = state_of(repo)
    repo.ok("restore", *options)
    now = files_of(repo.path)
    assert {n: now[n] for n in ("a.txt", "b.txt", "c.txt")} == {n: then.files[n] for n in ("a.txt", "b.txt", "c.txt")}
    repo.ok("undo")
    assert_same(mess, state_of(repo), "undone")


@pytest.mark.deep
def test_t05_undo_does_not_take_back_what_another_track_made_of_it(repo: Sandbox) -> None:
    snap(repo, "B")
    repo.write("a.txt", "spoilt\n")
    repo.ok("restore")
    repo.write("a.txt", "A's work\n")
    snap(repo, "A", "s", "--no-set-current")
    done = repo.baton("undo", "--json")
    assert done.code == 1 and actions(done) == {"a.txt": "conflict"}
    assert (repo.path / "a.txt").read_text() == "A's work\n"
    repo.ok("undo", "--force")
    assert (repo.path / "a.txt").read_text() == "spoilt\n" and held(repo, b"A's work\n")


@some("options", [(), ALL], ids=["default", "all"])
@some("way", ["file", "link", "parent"])
def test_t02_what_is_ignored_and_in_the_way_stays(repo: Sandbox, way: str, options: tuple[str, ...]) -> None:
    repo.write("x/d/b.txt", "b\n")
    snap(repo)
    repo.write(".git/info/exclude", "/x\n" if way == "parent" else "/x/d\n")
    shutil.rmtree(repo.path / ("x" if way == "parent" else "x/d"))
    place = repo.path / ("x" if way == "parent" else "x/d")
    if way == "link":
        place.symlink_to("nowhere")
    else:
        place.write_text("precious\n")
    done = repo.baton("restore", "--json", *options)
    assert done.code == 1 and actions(done)["x/d/b.txt"] == "refuse"
    assert place.is_symlink() if way == "link" else place.read_text() == "precious\n"


@pytest.mark.deep
def test_no_hook_runs(repo: Sandbox) -> None:
    log = repo.path.parent / "ran"
    for name in ("post-checkout", "post-index-change", "pre-commit", "post-commit", "reference-transaction", "pre-auto-gc"):
        repo.write(f".git/hooks/{name}", f"#!/bin/sh\necho {name} >>'{log}'\n").chmod(0o755)
    snap(repo)
    repo.write("a.txt", "spoilt\n")
    repo.git("add", "a.txt")
    log.unlink(missing_ok=True)
    repo.ok("restore", "--exact", "--index")
    repo.ok("undo")
    assert not log.exists(), log.read_text()


@pytest.mark.deep
def test_the_current_directory_may_go(repo: Sandbox) -> None:
    snap(repo)
    repo.write("new/deep/x", "x\n")
    mess = state_of(repo)
    done = repo.baton("restore", "--exact", cwd=repo.path / "new/deep")
    assert done.code == 0, done.err
    assert "new/deep/x" not in files_of(repo.path)
    repo.ok("undo")
    assert_same(mess, state_of(repo), "undone")


@pytest.mark.deep
@pytest.mark.parametrize("absolute", [True, False])
def test_git_dir_and_work_tree_by_environment(repo: Sandbox, absolute: bool) -> None:
    repo.write("d/b.txt", "b\n")
    snap(repo)
    then = state_of(repo)
    repo.write("d/b.txt", "spoilt\n")
    top = os.fspath(repo.path) if absolute else ".."
    env = {"GIT_DIR": f"{top}/.git", "GIT_WORK_TREE": top}
    done = repo.baton("restore", "--", "b.txt", cwd=repo.path / "d", env=env)
    assert done.code == 0, done.err
    assert_same(then, state_of(repo), "restored")


def by_hand(repo: Sandbox, tree: str) -> None:
    """Another tree into the newest checkpoint of track ``t``, as a stranger could make it."""
    ref = "refs/baton/tracks/t"
    raw = repo.git("cat-file", "commit", ref) + "\n"
    old = repo.git("rev-parse", f"{ref}^{{tree}}")
    commit = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.replace(old, tree).encode())
    repo.git("update-ref", ref, commit)


def literal_tree(repo: Sandbox, *entries: tuple[str, str, str]) -> str:
    """A tree that no git would make."""
    rows = b"".join(f"{mode} {name}".encode() + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
    return repo.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=rows)


EVIL = "the stranger's\n"


@pytest.mark.deep
@some("way", [".git", ".GIT", "git~1", "..", "link", "slash", "gitmodules-link"])
def test_a_checkpoint_made_by_hand_writes_nowhere_else(repo: Sandbox, way: str) -> None:
    outside = repo.path.parent / "outside"
    outside.mkdir()
    snap(repo)
    evil = repo.git("hash-object", "-w", "--stdin", stdin=EVIL.encode())
    link = repo.git("hash-object", "-w", "--stdin", stdin=os.fsencode(outside))
    inner = literal_tree(repo, ("100644", "config", evil), ("100644", "evil", evil))
    trees = {
        "link": (("120000", "d", link), ("40000", "d", inner)),
        "slash": (("100644", "../outside/evil", evil),),
        "gitmodules-link": (("120000", ".gitmodules", link), ("40000", ".git", inner)),
    }
    by_hand(repo, literal_tree(repo, *trees.get(way, (("40000", way, inner),))))
    config = (repo.path / ".git/config").read_bytes()
    before = {p: p.read_bytes() for p in repo.path.parent.iterdir() if p.is_file()}
    for options in ((), ALL):
        done = repo.baton("restore", *options)
        assert "Traceback" not in done.err and "this is a bug" not in done.err, done.err
        assert (repo.path / ".git/config").read_bytes() == config and not (repo.path / ".git/evil").exists()
        assert list(outside.iterdir()) == []
        assert {p: p.read_bytes() for p in repo.path.parent.iterdir() if p.is_file()} == before
    assert repo.try_git("status").code == 0 and not list((repo.path / ".git").glob("*.lock"))


@pytest.mark.deep
@some("where", ["d", "."])
def test_a_directory_that_may_not_be_written_is_named_and_nothing_is_torn(repo: Sandbox, where: str) -> None:
    lesser = without_privilege(sys.executable, "-m", "gitbaton", "restore", "--exact", "--index")
    if lesser is None:
        pytest.skip("root writes everywhere here, and setpriv is missing")
    repo.write("d/b.txt", "b\n")
    repo.write("e.txt", "e\n")
    repo.commit("more")
    snap(repo)
    then = state_of(repo)
    for name in ("a.txt", "d/b.txt", "e.txt"):
        repo.write(name, "spoilt\n")
    spoilt = state_of(repo)
    (repo.path / where).chmod(0o555)
    try:
        done = repo.run(*lesser)
    finally:
        (repo.path / where).chmod(0o755)
    shut = ("d/b.txt",) if where == "d" else ("a.txt", "e.txt")
    assert done.code in (1, 128) and (where == "." or shut[0] in done.out + done.err), done.out + done.err
    assert repo.baton("status").code == 0
    now = state_of(repo)
    assert {name: now.files[name] for name in shut} == {name: spoilt.files[name] for name in shut}
    if done.code == 128:
        assert_same(spoilt, now, "refused as a whole")
    repo.ok("restore", "--exact", "--index")
    assert_same(then, state_of(repo), "restored")


@pytest.mark.deep
def test_two_restores_at_once_leave_one_state(repo: Sandbox) -> None:
    states = []
    for step in ("one", "two"):
        for number in range(30):
            repo.write(f"f/{number}", f"{step} {number}\n")
        snap(repo, "t", step, "--label", step)
        states.append(files_of(repo.path))
    for number in range(30):
        repo.write(f"f/{number}", f"three {number}\n")
    words = [[sys.executable, "-m", "gitbaton", "restore", step] for step in ("one", "two", "one", "two")]
    running = [subprocess.Popen(w, cwd=repo.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for w in words]
    ends = [(p.communicate()[1], p.returncode) for p in running]
    assert any(code == 0 for _, code in ends), ends
    assert all(code == 0 or err.startswith(("fatal: ", "warning: ")) for err, code in ends), ends
    assert repo.baton("status").code == 0
    assert files_of(repo.path) in states, "wholly one or wholly the other"
    sound(repo)
    for number in range(30):
        assert held(repo, f"three {number}\n".encode())


def test_no_other_restore_is_at_work_while_one_looks(repo: Sandbox) -> None:
    """Else it would take what another one has put aside for a change of somebody's."""
    snap(repo)
    repo.write("a.txt", "spoilt\n")
    listed: list[str] = []

    def another(_: Args) -> None:
        with repo.open() as other, pytest.raises(GitError, match="another restore is at work"), alone(other.repo, 0):
            pass
        listed.append(repo.git("diff-files", "--name-only"))

    with at("os.posix_spawn", lambda args: "write-tree" in args[1], another):
        assert repo.here("restore").code == 0
    assert listed == ["a.txt"]


@pytest.mark.deep
def test_a_private_file_is_not_opened_to_others(repo: Sandbox) -> None:
    """An exec bit is all that git holds of a mode; the rest is not to become looser than it was."""
    repo.write("token", "then\n").chmod(0o600)
    snap(repo)
    repo.write("token", "now\n")
    repo.ok("restore")
    assert stat.S_IMODE((repo.path / "token").stat().st_mode) == 0o600
    assert (repo.path / "token").read_text() == "then\n"


@pytest.mark.deep
def test_a_restore_that_is_killed_opens_no_private_file(repo: Sandbox) -> None:
    repo.write("token", "then\n").chmod(0o600)
    snap(repo)
    repo.write("token", "now\n")
    killed = """import os, sys
def hook(event, args):
    if event == "os.rename" and str(args[1]).endswith("/aside/0"):
        sys.addaudithook(lambda event, args: os.kill(os.getpid(), 9) if event == "os.link" else None)
sys.addaudithook(hook)
sys.argv[1:] = ["restore"]
from gitbaton.cli.main import run
run()
"""
    assert repo.run(sys.executable, "-c", killed).code == -9 and not (repo.path / "token").exists()
    repo.ok("status")
    assert stat.S_IMODE((repo.path / "token").stat().st_mode) == 0o600
    assert (repo.path / "token").read_text() == "then\n"
    repo.ok("undo")
    assert stat.S_IMODE((repo.path / "token").stat().st_mode) == 0o600 and (repo.path / "token").read_text() == "now\n"


@pytest.mark.deep
def test_what_is_staged_while_nothing_else_differs_is_not_lost(repo: Sandbox) -> None:
    """Somebody writes the index at one of the moments at which a restore reads it."""
    repo.write("b.txt", "b\n")
    repo.commit("b")
    repo.write("b.txt", "staged then\n")
    repo.git("add", "b.txt")
    repo.write("b.txt", "b\n")
    snap(repo, "t", "one", "--label", "then")
    repo.git("add", "b.txt")
    snap(repo)
    staged, index = repo.git("hash-object", "-w", "--stdin", stdin=b"staged only\n"), str(repo.path / ".git/index")
    moments = 0
    while True:
        repo.git("add", "b.txt")
        reads: list[Args] = []

        def late(args: Args, reads: list[Args] = reads, moment: int = moments) -> None:
            if len(reads) == moment:
                repo.git("update-index", "--cacheinfo", f"100644,{staged},b.txt")
            reads.append(args)

        with at("open", lambda args: args[0] == index, late):
            done = repo.here("restore", "then", "--index")
        if len(reads) <= moments:
            break
        moments += 1
        if done.code == 0:
            repo.ok("undo")
        assert repo.git("show", ":b.txt") == "staged only", moments
    assert moments > 2


@pytest.mark.deep
def test_a_file_is_taken_as_it_is_without_the_attributes_that_went(repo: Sandbox) -> None:
    """Git finds it unchanged by the attributes that are staged, while its times do not tell."""
    repo.write("d/.gitattributes", "f ident\n")
    repo.write("d/f", "$Id: 1 $\n")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "c")
    (repo.path / "d/.gitattributes").unlink()
    repo.write("d/f", "$Id: 2 $\n")
    snap(repo)
    repo.write("d/f", "spoilt\n")
    repo.ok("restore")
    assert (repo.path / "d/f").read_text() == "$Id: 2 $\n"


def test_a_folder_keeps_its_mode_while_attributes_go_from_it(repo: Sandbox) -> None:
    folder = repo.write("d/x", "x\n").parent
    folder.chmod(0o700)
    repo.commit("d")
    snap(repo)
    (folder / "x").unlink()
    repo.write("d/.gitattributes", "*.q text\n")
    snap(repo)
    for words in (("restore", "@~1", "--exact", "--force"), ("undo",)):
        repo.ok(*words)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.full
@some("options", [(), ("--exact", "--index")], ids=["default", "exact"])
@some("bits", [("--assume-unchanged",), ("--skip-worktree",), ("--assume-unchanged", "--skip-worktree")], ids=str)
@some("intent", [True, False], ids=["intent", "staged"])
def test_t24_an_entry_with_two_flags_comes_back(
    repo: Sandbox, intent: bool, bits: tuple[str, ...], options: tuple[str, ...]
) -> None:
    repo.write("d", "then\n")
    snap(repo)
    repo.git("add", *(["-N"] if intent else []), "d")
    for bit in bits:
        repo.git("update-index", bit, "d")
    repo.write("d", "now\n")
    mess = state_of(repo)
    repo.ok("restore", *options)
    between = state_of(repo)
    for verb, wanted in (("undo", mess), ("redo", between), ("undo", mess)):
        repo.ok(verb)
        assert_same(wanted, state_of(repo), verb)
