"""Permissions are never widened: what was private comes back private, whatever brings it back, and at no moment is it less."""

from __future__ import annotations

import json
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.kit import Outcome, Sandbox
from tests.kit.capturekit import git_elsewhere, without_privilege
from tests.kit.moments import Args, always, at
from tests.kit.places import ROOT
from tests.kit.state import differences, files_of
from tests.kit.tiers import model, sized, some
from tests.promises.test_restore_model import STEPS, Agents, paths
from tests.rooms.journal.test_journal_codec import told

PRIVATE = {"token.json": 0o600, "priv/": 0o700, "priv/deep/": 0o750, "priv/deep/key": 0o640, "tool.sh": 0o700}


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(place: Path, *names: str) -> dict[str, int]:
    """The permissions of files and folders (with a slash), of all that are there where none are named."""
    found = names or [
        f"{path.relative_to(place)}{'/' if path.is_dir() else ''}"
        for path in place.rglob("*")
        if not {".git", "runtime"} & {*path.parts} and not path.is_symlink()
    ]
    return {name: stat.S_IMODE((place / name).lstat().st_mode) for name in found if (place / name).exists()}


def make_private(repo: Sandbox) -> None:
    """Files and folders as in PRIVATE, beside public ones."""
    repo.write("open/text", "for all\n")
    for name in PRIVATE:
        if not name.endswith("/"):
            repo.write(name, f"secret of {name}\n")
    for name, mode in PRIVATE.items():
        (repo.path / name).chmod(mode)


@pytest.fixture
def private(repo: Sandbox) -> Sandbox:
    make_private(repo)
    return repo


def remove_all(repo: Sandbox) -> None:
    for name in sorted((name for name in PRIVATE if not name.endswith("/")), reverse=True):
        (repo.path / name).unlink()
    (repo.path / "priv/deep").rmdir()
    (repo.path / "priv").rmdir()


def test_a_private_file_comes_back_private_from_restore_and_undo_and_redo(private: Sandbox) -> None:
    private.ok("snapshot", "with")
    then = modes(private.path)
    assert {name: then[name] for name in PRIVATE} == PRIVATE
    remove_all(private)
    gone = modes(private.path)
    private.ok("restore", "@")
    assert modes(private.path) == then
    private.ok("undo")
    assert modes(private.path) == gone
    private.ok("redo")
    assert modes(private.path) == then


def test_what_a_restore_removes_comes_back_private(repo: Sandbox) -> None:
    repo.ok("snapshot", "without")
    make_private(repo)
    before = modes(repo.path)
    repo.ok("restore", "@", "--exact")
    assert not (repo.path / "priv").exists()
    repo.ok("undo")
    assert modes(repo.path) == before


def test_what_no_checkpoint_holds_is_not_named_with_its_permissions(repo: Sandbox) -> None:
    repo.write(".gitignore", "x\n")
    for name in ("d/x", "d/f"):
        repo.write(name, "private\n").chmod(0o600)
    (repo.path / "d").chmod(0o700)
    repo.commit("all but what is ignored")
    repo.ok("snapshot", "--track", "t", "with")
    assert repo.git("cat-file", "-p", "refs/baton/tracks/t^2^2:modes").split("\0") == ["0700\td/", "0600\td/f", ""]


@pytest.mark.deep
@pytest.mark.parametrize("how", ["untracked", "staged", "committed", "clean since long", "by a second snapshot"])
def test_wherever_git_has_it(private: Sandbox, how: str) -> None:
    """Git's listing names what it finds touched; a file that is clean in the index must be known all the same."""
    if how != "untracked":
        private.git("add", "-A")
    if how in ("committed", "clean since long", "by a second snapshot"):
        private.git("commit", "-q", "-m", "private")
    if how != "untracked" and how != "staged":
        for path in private.path.rglob("*"):
            if path.is_file() and ".git" not in path.parts:
                os.utime(path, (1, 1))
        private.git("update-index", "-q", "--refresh")
    private.ok("snapshot", "one")
    if how == "by a second snapshot":
        private.ok("snapshot", "two")
        private.git("status")
        private.ok("snapshot", "three")
    then = modes(private.path)
    remove_all(private)
    private.ok("restore", "@")
    assert modes(private.path) == then


@pytest.mark.deep
@pytest.mark.parametrize("refreshed", [False, True])
@pytest.mark.parametrize("setting", ["core.trustctime=true", "core.trustctime=false", "core.checkStat=minimal"])
def test_a_mode_that_changes_after_a_snapshot_is_seen_by_the_next(repo: Sandbox, setting: str, refreshed: bool) -> None:
    repo.git("config", *setting.split("="))
    repo.write("token", "t\n")
    repo.write("d/x", "x\n")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "all")
    repo.ok("snapshot", "wide")
    repo.ok("snapshot", "wide again")  # with what is known from the first
    (repo.path / "token").chmod(0o600)
    (repo.path / "d").chmod(0o700)
    if refreshed:
        repo.git("update-index", "-q", "--refresh")
    repo.ok("snapshot", "narrow")
    (repo.path / "token").unlink()
    (repo.path / "d/x").unlink()
    (repo.path / "d").rmdir()
    repo.ok("restore", "@")
    assert modes(repo.path, "token", "d/") == {"token": 0o600, "d/": 0o700}


@pytest.mark.deep
def test_a_file_keeps_the_narrower_of_both_and_undo_gives_back_what_was(repo: Sandbox) -> None:
    repo.write("narrow-then", "then\n").chmod(0o600)
    repo.write("narrow-now", "then\n")
    repo.write("dir/f", "then\n")
    (repo.path / "dir").chmod(0o700)
    repo.write("same", "same\n").chmod(0o600)
    repo.ok("snapshot", "then")
    for name in ("narrow-then", "narrow-now", "dir/f"):
        repo.write(name, "now\n")
    (repo.path / "narrow-then").chmod(0o664)
    (repo.path / "narrow-now").chmod(0o640)
    (repo.path / "dir").chmod(0o755)
    (repo.path / "same").chmod(0o644)
    now = modes(repo.path)
    repo.ok("restore", "@")
    assert modes(repo.path, "narrow-then", "narrow-now", "dir/") == {"narrow-then": 0o600, "narrow-now": 0o640, "dir/": 0o700}
    assert modes(repo.path, "same") == {"same": 0o644}  # nothing comes back there
    repo.ok("undo")
    assert modes(repo.path) == now
    repo.ok("redo")
    assert modes(repo.path, "narrow-then", "narrow-now", "dir/") == {"narrow-then": 0o600, "narrow-now": 0o640, "dir/": 0o700}


@pytest.mark.deep
def test_an_undo_does_not_open_what_was_closed_since(repo: Sandbox) -> None:
    repo.write("f", "then\n")
    repo.write("d/f", "then\n")
    repo.ok("snapshot", "then")
    repo.write("f", "now\n")
    repo.write("d/f", "now\n")
    repo.ok("restore", "@")
    (repo.path / "f").chmod(0o600)
    (repo.path / "d").chmod(0o700)
    repo.ok("undo")
    assert (repo.path / "f").read_text() == "now\n"
    assert modes(repo.path, "f", "d/") == {"f": 0o600, "d/": 0o700}


@pytest.mark.deep
def test_only_another_mode_is_neither_drift_nor_a_conflict(repo: Sandbox) -> None:
    repo.write("f", "f\n")
    repo.ok("snapshot", "--track", "a", "one")
    (repo.path / "f").chmod(0o600)
    assert repo.ok("verify", "--strict").code == 0
    assert repo.ok("restore", "@").out.startswith("nothing")
    assert modes(repo.path, "f") == {"f": 0o600}


@pytest.mark.deep
@some("mode", [0o000, 0o400, 0o444, 0o604, 0o660, 0o700, 0o711, 0o744, 0o4755, 0o2755, 0o6711])
def test_odd_modes(repo: Sandbox, mode: int) -> None:
    """Never wider, and nothing that runs with another one's rights."""
    if os.geteuid() and not mode & 0o400:
        pytest.skip("its owner cannot read it, and so nothing captures it")
    repo.write("f", "f\n").chmod(mode)
    repo.ok("snapshot", "odd")
    (repo.path / "f").unlink()
    repo.ok("restore", "@")
    assert modes(repo.path, "f") == {"f": mode & 0o777 & (0o755 if mode & 0o100 else 0o644)}
    repo.ok("undo")
    repo.ok("redo")
    assert modes(repo.path, "f") == {"f": mode & 0o777 & (0o755 if mode & 0o100 else 0o644)}


@pytest.mark.deep
def test_a_folder_that_nobody_may_write_comes_back_as_it_was_and_goes_again(repo: Sandbox) -> None:
    """Also for a user whom permissions bind."""
    repo.write("ro/sub/f", "f\n")
    for folder in ("ro/sub", "ro"):
        (repo.path / folder).chmod(0o500)
    script = """
import os, subprocess, sys
def run(*words):
    subprocess.run([sys.executable, "-m", "gitbaton", *words], check=True, stdout=subprocess.DEVNULL)
def mode(name):
    return os.stat(name).st_mode & 0o777
run("snapshot", "with")
os.chmod("ro", 0o700), os.chmod("ro/sub", 0o700)
os.unlink("ro/sub/f"), os.rmdir("ro/sub"), os.rmdir("ro")
run("restore", "@")
assert (mode("ro"), mode("ro/sub"), mode("ro/sub/f")) == (0o500, 0o500, 0o644), oct(mode("ro"))
os.chmod("ro", 0o755), os.chmod("ro/sub", 0o755)
open("ro/sub/f", "w").write("now")
run("restore", "@")
assert (mode("ro"), mode("ro/sub")) == (0o500, 0o500)
run("undo")
assert (mode("ro"), mode("ro/sub"), open("ro/sub/f").read()) == (0o755, 0o755, "now")
"""
    words = without_privilege(sys.executable, "-c", script)
    if words is None:
        pytest.skip("permissions bind nobody here")
    done = repo.run(*words, env={"PYTHONPATH": str(ROOT)})
    assert done.code == 0, done.err
    (repo.path / "ro").chmod(0o755)


@pytest.mark.deep
def test_other_umasks(repo: Sandbox) -> None:
    """What was private by the umask stays so under another; a wider umask gives no more, and a narrower one less."""
    os.umask(0o077)
    make_private(repo)
    repo.write("d/plain", "p\n")
    then = modes(repo.path)
    assert then["d/plain"] == 0o600 and then["d/"] == 0o700
    repo.ok("snapshot", "private")
    os.umask(0o022)
    remove_all(repo)
    (repo.path / "d/plain").unlink()
    (repo.path / "d").rmdir()
    repo.ok("restore", "@")
    assert modes(repo.path) == then
    os.umask(0o002)
    repo.write("group", "g\n")
    repo.write("less", "g\n").chmod(0o644)
    repo.ok("snapshot", "group")
    for name in ("group", "less"):
        (repo.path / name).unlink()
    repo.ok("restore", "@")
    assert modes(repo.path, "group", "less") == {"group": 0o664, "less": 0o644}
    for name in ("group", "less"):
        (repo.path / name).unlink()
    os.umask(0o027)
    repo.ok("restore", "@")
    assert modes(repo.path, "group", "less") == {"group": 0o640, "less": 0o640}


@pytest.mark.deep
def test_a_whole_tree_that_is_private(repo: Sandbox) -> None:
    """Of more than a thousand paths most have the same: that is said once, and what differs is listed."""
    os.umask(0o077)
    for number in range(1100):
        repo.write(f"d{number // 100}/f{number}", f"{number}\n")
    repo.write("d0/run", "x\n").chmod(0o700)
    repo.write("open", "o\n").chmod(0o644)
    repo.write("link/f", "o\n")
    (repo.path / "link").chmod(0o755)
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "all")
    for count in range(2):
        repo.write("new", f"{count}\n")
        repo.ok("snapshot", "private")
    assert 0 < size_of_list(repo) < 500
    then = modes(repo.path)
    os.umask(0o022)
    repo.git("rm", "-rq", "--cached", ".")
    for path in sorted(repo.path.rglob("*"), reverse=True):
        if ".git" not in path.parts:
            path.rmdir() if path.is_dir() else path.unlink()
    repo.ok("restore", "@")
    assert modes(repo.path) == then
    repo.ok("worktree", "@", str(repo.path.parent / "beside"))
    assert modes(repo.path.parent / "beside") == then


def size_of_list(repo: Sandbox) -> int:
    """Bytes of the list of permissions of the newest checkpoint; 0 where it has none."""
    found = repo.try_git("cat-file", "-s", "refs/baton/tracks/main^2^2:modes")
    return int(found.out) if found.code == 0 else 0


@pytest.mark.deep
def test_links_stay_links_and_other_names_of_a_file_keep_their_mode(repo: Sandbox) -> None:
    repo.write("one", "then\n").chmod(0o600)
    (repo.path / "link").symlink_to("one")
    repo.ok("snapshot", "then")
    repo.write("one", "now\n")
    other = repo.path.parent / "other"
    os.link(repo.path / "one", other)
    other.chmod(0o644)
    (repo.path / "link").unlink()
    repo.ok("restore", "@")
    assert (repo.path / "link").is_symlink() and modes(repo.path, "one") == {"one": 0o600}
    assert (other.read_text(), stat.S_IMODE(other.stat().st_mode)) == ("now\n", 0o644)


@pytest.mark.deep
def test_without_modes_in_git(repo: Sandbox) -> None:
    repo.git("config", "core.fileMode", "false")
    make_private(repo)
    repo.ok("snapshot", "then")
    then = modes(repo.path)
    remove_all(repo)
    repo.ok("restore", "@")
    back = modes(repo.path)
    assert back.keys() == then.keys() and not any(back[name] & ~then[name] for name in back)
    assert back["token.json"] == 0o600 and back["priv/"] == 0o700


@pytest.mark.deep
def test_an_access_list_does_not_become_the_groups(repo: Sandbox) -> None:
    """With an access list the group bits are its mask: here 0640, and yet the group may not read."""
    path = repo.write("listed", "l\n")
    path.chmod(0o600)
    nobody = 0xFFFFFFFF
    entries = ((1, 6, nobody), (2, 4, 12345), (4, 0, nobody), (16, 4, nobody), (32, 0, nobody))
    rules = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(path, "system.posix_acl_access", rules)
    except OSError:
        pytest.skip("no access lists here")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    repo.ok("snapshot", "listed")
    path.write_text("other\n")
    repo.ok("restore", "@")
    assert modes(repo.path, "listed") == {"listed": 0o600}  # git's files have no list
    path.unlink()
    repo.ok("restore", "@")
    assert modes(repo.path, "listed") == {"listed": 0o600}


@pytest.mark.deep
def test_at_no_moment_is_it_wider(private: Sandbox) -> None:
    """Not where it is prepared, nor where it is put, nor a folder before there is anything in it."""
    private.ok("snapshot", "with")
    remove_all(private)
    seen: list[str] = []

    def linked(args: Args) -> None:
        source = Path(os.fsdecode(args[0]))
        wanted = PRIVATE.get(os.fsdecode(args[1]), PRIVATE.get(f"priv/deep/{os.fsdecode(args[1])}"))
        if wanted is not None and source.is_absolute():
            seen.append(source.name)
            assert stat.S_IMODE(source.stat().st_mode) == wanted
            folders = [p for p in source.parents if ".git/baton/tmp/" in f"{p}/" and p.name not in (".git", "baton", "tmp")]
            assert any(stat.S_IMODE(p.stat().st_mode) == 0o700 for p in folders)

    def made(args: Args) -> None:
        if os.fsdecode(args[0]) in ("priv", "deep") and args[2] != -1:
            seen.append(os.fsdecode(args[0]))
            assert args[1] & ~PRIVATE[{"priv": "priv/", "deep": "priv/deep/"}[os.fsdecode(args[0])]] == 0

    with ExitStack() as stack:
        stack.enter_context(at("os.link", always, linked))
        stack.enter_context(at("os.mkdir", always, made))
        assert private.here("restore", "@").code == 0
    assert {"token.json", "key", "tool.sh", "priv", "deep"} <= {*seen}


@pytest.mark.deep
@pytest.mark.parametrize("moment", ["os.link", "os.mkdir", "os.chmod"])
def test_a_restore_that_is_killed_is_ended_with_the_same_permissions(private: Sandbox, moment: str) -> None:
    (private.path / "priv/deep").chmod(0o500)
    private.ok("snapshot", "with")
    then = modes(private.path)
    (private.path / "priv/deep").chmod(0o700)
    remove_all(private)
    gone = modes(private.path)
    killed = f"""import os, sys
def hook(event, args):
    if event == {moment!r} and (event == "os.link" or "deep" in args or 0o500 in args):
        os.kill(os.getpid(), 9)
sys.argv[1:] = ["restore"]
from gitbaton.cli.main import run
sys.addaudithook(hook)
run()
"""
    assert private.run(sys.executable, "-c", killed).code == -9
    assert "was completed" in private.ok("status").err
    assert modes(private.path) == then
    private.ok("undo")
    assert modes(private.path) == gone


@pytest.mark.deep
def test_where_the_repository_lies_on_another_file_system(repo: Sandbox) -> None:
    """New files are copied there, into a folder that nobody else may enter, until all have what they had."""
    with git_elsewhere(repo):
        make_private(repo)
        repo.write("changed", "then\n").chmod(0o640)
        repo.ok("snapshot", "with")
        then = modes(repo.path)
        remove_all(repo)
        repo.write("changed", "now\n").chmod(0o600)
        gone = modes(repo.path)
        repo.ok("restore", "@")
        assert modes(repo.path) == {**then, "changed": 0o600}
        repo.ok("undo")
        assert modes(repo.path) == gone


@pytest.mark.deep
def test_bytes_that_no_checkout_gives_back(repo: Sandbox) -> None:
    repo.write(".gitattributes", "*.txt text\n")
    repo.write("mixed.txt", "one\r\ntwo\n").chmod(0o600)
    repo.ok("snapshot", "mixed")
    repo.write("mixed.txt", "other\n")
    repo.ok("restore", "@")
    assert ((repo.path / "mixed.txt").read_bytes(), modes(repo.path, "mixed.txt")) == (b"one\r\ntwo\n", {"mixed.txt": 0o600})
    (repo.path / "mixed.txt").unlink()
    repo.ok("restore", "@")
    assert modes(repo.path, "mixed.txt") == {"mixed.txt": 0o600}
    repo.ok("worktree", "@", str(repo.path.parent / "beside"))
    beside = repo.path.parent / "beside"
    assert ((beside / "mixed.txt").read_bytes(), modes(beside, "mixed.txt")) == (b"one\r\ntwo\n", {"mixed.txt": 0o600})


@pytest.mark.deep
@pytest.mark.parametrize("clean", ["false", "tr a-z A-Z"])
def test_bytes_that_stay_here_because_no_filter_cleaned_them(repo: Sandbox, clean: str) -> None:
    repo.git("config", "filter.c.clean", clean)
    repo.write(".gitattributes", "*.key filter=c\n")
    repo.write("priv/a.key", "secret\n").chmod(0o600)
    (repo.path / "priv").chmod(0o700)
    repo.baton("snapshot", "held")
    (repo.path / "priv/a.key").unlink()
    (repo.path / "priv").rmdir()
    repo.baton("restore", "@")
    assert (repo.path / "priv/a.key").read_text() == "secret\n"
    assert modes(repo.path, "priv/", "priv/a.key") == {"priv/": 0o700, "priv/a.key": 0o600}
    repo.ok("worktree", "@", str(repo.path.parent / "beside"))
    assert modes(repo.path.parent / "beside", "priv/", "priv/a.key") == {"priv/": 0o700, "priv/a.key": 0o600}


def test_a_worktree_has_them_and_a_branch_says_that_it_has_not(private: Sandbox) -> None:
    private.ok("snapshot", "with")
    beside = private.path.parent / "beside"
    private.ok("worktree", "@", str(beside))
    assert modes(beside) == modes(private.path)
    assert Sandbox(beside).git("status", "--porcelain") == private.git("status", "--porcelain")
    said = private.ok("branch", "b", "@")
    assert "git keeps no permissions in a branch" in said.err and "'token.json'" in said.err


@pytest.mark.deep
def test_a_worktree_of_a_private_one_is_private(private: Sandbox) -> None:
    private.ok("snapshot", "with")
    private.path.chmod(0o700)
    private.ok("worktree", "@", str(private.path.parent / "beside"))
    assert stat.S_IMODE((private.path.parent / "beside").stat().st_mode) == 0o700


@pytest.mark.deep
def test_they_travel_with_a_checkpoint(private: Sandbox, tmp_path: Path) -> None:
    private.ok("snapshot", "--track", "t", "with")
    private.git("init", "-q", "--bare", str(tmp_path / "remote"))
    private.ok("push", str(tmp_path / "remote"), "--yes")
    private.git("clone", "-q", str(private.path), str(tmp_path / "clone"))
    clone = Sandbox(tmp_path / "clone")
    clone.ok("fetch", str(tmp_path / "remote"))
    clone.ok("restore", "t", "--foreign")
    assert {name: mode for name, mode in modes(clone.path).items() if name in PRIVATE} == PRIVATE


@pytest.mark.deep
def test_a_stranger_opens_nothing(private: Sandbox) -> None:
    """What a fetched checkpoint says of permissions only takes away."""
    private.ok("snapshot", "--track", "t", "with")
    listed = b"0777 0777\ttoken.json\0" + b"7777\ttool.sh\0"
    for name in (b"modes", b"after-modes"):
        rewritten(private, name, listed)
        private.write("token.json", "now\n")
        private.write("tool.sh", "now\n")
        private.baton("restore", "t", "--force")
        assert modes(private.path, "token.json", "tool.sh") == {"token.json": 0o600, "tool.sh": 0o700}


def rewritten(repo: Sandbox, name: bytes, data: bytes) -> None:
    """The newest checkpoint of track ``t`` with another list beside its index, as a stranger could make it."""
    ref, run = "refs/baton/tracks/t", repo.git
    blob = run("hash-object", "-w", "--stdin", stdin=data)
    rows = run("ls-tree", f"{ref}^2^2").splitlines()
    rows = [row for row in rows if not row.endswith("\t" + name.decode())] + [f"100644 blob {blob}\t{name.decode()}"]
    tree = run("mktree", stdin="\n".join(rows).encode() + b"\n")
    old_side, old_index = run("rev-parse", f"{ref}^2^2"), run("rev-parse", f"{ref}^2")
    side = changed_commit(repo, old_side, run("rev-parse", f"{old_side}^{{tree}}"), tree)
    index = changed_commit(repo, old_index, old_side, side)
    run("update-ref", ref, changed_commit(repo, run("rev-parse", ref), old_index, index))


def changed_commit(repo: Sandbox, commit: str, old: str, new: str) -> str:
    raw = repo.git("cat-file", "commit", commit) + "\n"
    return repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.replace(old, new).encode())


@pytest.mark.deep
def test_with_a_list_that_is_malformed_all_is_its_owners_alone(private: Sandbox) -> None:
    private.ok("snapshot", "--track", "t", "with")
    rewritten(private, b"modes", b"0600\t../outside\0")
    outside = private.path.parent / "outside"
    outside.write_text("not ours\n")
    outside.chmod(0o644)
    private.write("plain", "public\n").chmod(0o644)
    (private.path / "token.json").unlink()
    done = private.ok("restore", "t")
    assert "warning: a list of permissions is malformed; what comes back is its owner's alone\n" in done.err
    assert modes(private.path, "token.json", "../outside") == {"token.json": 0o600, "../outside": 0o644}


KEYS = ("run", "--run", "r", "--step", "key", "--reads", "a.txt", "--writes", "keys/**")
MAKE = "umask 077; mkdir -p keys/deep; echo SECRET > keys/deep/id; echo s > keys/tool; chmod 700 keys/tool; chmod 750 keys/deep"
MADE = {"keys/": 0o700, "keys/deep/": 0o750, "keys/deep/id": 0o600, "keys/tool": 0o700}


@pytest.mark.deep
@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_an_output_is_served_as_private_as_it_was_made(repo: Sandbox, isolate: str) -> None:
    words = (*KEYS, "--isolate", isolate, "--", "sh", "-c", MAKE)
    repo.ok(*words)
    assert modes(repo.path, *MADE) == MADE
    repo.run("rm", "-r", "keys")
    assert "cached" in repo.ok(*words).err
    assert modes(repo.path, *MADE) == MADE
    repo.run("rm", "-r", "keys")
    assert "cached" in repo.ok("run", "--run", "other", *words[3:]).err  # borrowed by another run
    assert modes(repo.path, *MADE) == MADE
    repo.run("rm", "-r", "keys")
    repo.ok("run", "--run", "other", *words[3:])
    assert modes(repo.path, *MADE) == MADE


@pytest.mark.deep
@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_what_a_failed_step_found_is_put_back_private(repo: Sandbox, isolate: str) -> None:
    repo.write("keys/mine", "mine\n").chmod(0o600)
    (repo.path / "keys").chmod(0o700)
    repo.write("tracked", "t\n").chmod(0o600)
    repo.write("far/away", "t\n").chmod(0o640)
    (repo.path / "far").chmod(0o750)
    repo.git("add", "tracked", "far")
    repo.git("commit", "-q", "-m", "tracked")
    before = modes(repo.path)
    line = "rm -r keys tracked far; mkdir keys; echo x > keys/x; exit 3"
    done = repo.baton(*KEYS, "--isolate", isolate, "--on-undeclared", "restore", "--", "sh", "-c", line)
    assert done.code == 3
    assert modes(repo.path) == before


@pytest.mark.deep
@pytest.mark.parametrize("point", ["in-command", "after-command", "after-collect", "in-clearing"])
def test_what_a_killed_step_found_is_put_back_private(repo: Sandbox, point: str) -> None:
    repo.write("keys/mine", "mine\n").chmod(0o600)
    (repo.path / "keys").chmod(0o700)
    words = (*KEYS, "--", "sh", "-c", "rm -r keys; mkdir keys; echo new > keys/new; exit $(cat a.txt)")
    repo.write("a.txt", "3\n")
    repo.baton(*words, env={"GIT_BATON_CRASH_AT": point})
    assert repo.baton(*words).code == 3
    assert modes(repo.path, "keys/", "keys/mine") == {"keys/": 0o700, "keys/mine": 0o600}


@pytest.mark.deep
def test_an_isolated_output_that_becomes_private_is_so_in_the_work_tree(repo: Sandbox) -> None:
    repo.write("keys/id", "public\n")
    repo.ok(*KEYS, "--isolate", "tree", "--", "sh", "-c", "echo SECRET > keys/id; chmod 600 keys/id; chmod 700 keys")
    assert modes(repo.path, "keys/", "keys/id") == {"keys/": 0o700, "keys/id": 0o600}


@pytest.mark.deep
def test_an_export_of_a_run_is_for_its_user_alone(repo: Sandbox) -> None:
    repo.ok(*KEYS, "--", "sh", "-c", MAKE)
    repo.ok("run", "export", "r", "--output", "kept")
    found = {name: mode for name, mode in modes(repo.path / "kept").items() if name.startswith("trees/")}
    assert found and not any(mode & 0o077 for mode in found.values())
    assert any(name.endswith("keys/deep/id") for name in found)


class Private(Agents):
    """Two agents in one work tree, as in the model of the restore contract, and files and folders that are closed meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.then: dict[str, dict[str, int]] = {}
        self.ends: tuple[dict[str, int], dict[str, int]] | None = (
            None  # of the step that can be taken back, if nothing followed
        )

    def tick(self) -> None:
        super().tick()
        self.ends = None

    @rule(name=paths, mode=st.sampled_from([0o600, 0o640, 0o700, 0o750, 0o711, 0o400, 0o755, 0o644]))
    def close(self, name: str, mode: int) -> None:
        self.tick()
        path = self.box.path / name
        if path.exists() and not path.is_symlink():
            path.chmod(mode | 0o700 if path.is_dir() else mode)

    def ours(self, *words: str) -> Outcome:
        before, had = self.held(), files_of(self.box.path)
        done = super().ours(*words)
        after, have = self.held(), files_of(self.box.path)
        if words[0] == "snapshot":
            self.then[done.out.splitlines()[-1].split("\t")[1]] = before
        elif words[0] == "restore":
            self.check_narrow(self.then[words[1]], before, after, {name for name in have if have[name] != had.get(name)})
        elif words[0] == "merge":
            self.check_narrow({}, before, after, {name for name in have if have[name] != had.get(name)})
            if (after, have) == (before, had):  # then the step before is still the one that can be taken back
                return done
        elif self.ends is not None:  # with nothing in between
            assert after == self.ends[0], f"{words}: {differences(self.ends[0], after)}"
        self.ends = before, after
        return done

    def held(self) -> dict[str, int]:
        """The permissions of what a checkpoint can hold: no folder without files."""
        found = modes(self.box.path)
        above = {f"{folder}/" for name in files_of(self.box.path) for folder in map(str, PurePosixPath(name).parents)}
        return {name: mode for name, mode in found.items() if not name.endswith("/") or name in above}

    def check_narrow(self, then: dict[str, int], before: dict[str, int], after: dict[str, int], written: set[str]) -> None:
        """What came back has no more than it had, and than what it replaced."""
        for name in [name for name in after if name in written or (name.endswith("/") and name not in before)]:
            assert not after[name] & ~then.get(name, 0o777), f"{name}: {then[name]:o} is {after[name]:o}"
            assert not after[name] & ~before.get(name, 0o777) & 0o666, f"{name}: {before[name]:o} became {after[name]:o}"


@sized(0, 6, 200)
def test_whatever_two_agents_do_nothing_private_is_opened(count: int, repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_BATON_TRACE", "1")
    repo.write("d/x", "x\n")
    repo.commit("more", b="b\n")
    repo.git("branch", "other")
    repo.commit("even more", b="b, newer\n", m_txt="m\n")
    Private.template, Private.total = repo.path, 0
    run_state_machine_as_test(Private, settings=model(count, stateful_step_count=STEPS))
    assert Private.total >= count * STEPS * 0.6


@pytest.mark.deep
def test_more_private_outputs_than_a_record_can_list(repo: Sandbox) -> None:
    """Those that are not listed get what all of them have in common; nothing is opened."""
    repo.write("keys/open", "o\n")
    line = "umask 077; mkdir keys/many; for n in $(seq 1300); do echo $n > keys/many/$n; done"
    words = (*KEYS, "--", "sh", "-c", line)
    repo.ok(*words)
    then = modes(repo.path, *[f"keys/many/{n}" for n in range(1, 1301)], "keys/many/")
    assert {*then.values()} == {0o600, 0o700}
    repo.run("rm", "-r", "keys/many")
    assert "cached" in repo.ok(*words).err
    assert modes(repo.path, *then) == then and modes(repo.path, "keys/open") == {"keys/open": 0o644}
    record = json.loads(repo.git("cat-file", "-p", "refs/baton/runs/r^{tree}:record.json"))
    assert record["writes"]["modes"]["0600"][0] == "" and len(record["writes"]["modes"]["0600"]) <= 1001
    told().validate(record)


@pytest.mark.deep
def test_they_outlive_a_prune_and_a_mend(private: Sandbox) -> None:
    for count in range(3):
        private.write("a.txt", f"{count}\n")
        private.ok("snapshot", "--track", "t", f"s{count}")
    private.ok("prune", "--keep-last", "1", "--yes")
    private.git("gc", "-q", "--prune=now")
    then = modes(private.path)
    remove_all(private)
    private.ok("restore", "t")
    assert modes(private.path) == then
    private.git("update-ref", "-d", "refs/baton/tracks/t")
    (private.path / ".git/refs/baton/tracks").mkdir(parents=True, exist_ok=True)
    (private.path / ".git/refs/baton/tracks/t").write_text("torn")
    private.ok("doctor", "--mend")
    remove_all(private)
    private.ok("restore", "t")
    assert modes(private.path) == then
