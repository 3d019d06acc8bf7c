"""What a checkpoint names is there and whole: beside git's collecting, and after a power cut tore what git had written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gitbaton.git.objects import RefChange, new_object
from gitbaton.git.publish import Durable
from gitbaton.git.repo import discover
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.commands import until
from tests.kit.processes import chain, meanwhile
from tests.kit.threads import put
from tests.kit.tiers import some

TRACK = "refs/baton/tracks/t"
STEP = ("--step", "s", "--run", "r", "--reads", "*.txt", "--writes", "out", "--", "sh", "-c", "echo said; echo made > out")


def test_a_damaged_index_is_replaced_by_a_fresh_one(repo: Sandbox) -> None:
    repo.write("b.txt", "two\n")
    index = repo.path / ".git/index"
    index.write_bytes(index.read_bytes()[: index.stat().st_size // 2])
    done = repo.ok("snapshot", "--track", "t", "s")
    assert done.err.startswith("warning: the index is damaged: ") and "every file was read anew" in done.err
    assert {*repo.tree(TRACK)} == {"a.txt", "b.txt"}


@pytest.mark.deep
def test_another_process_may_write_the_stamp_of_this_start_at_the_same_moment(
    repo: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def late(source: str, target: str, **more: Any) -> None:
        if os.fspath(target).endswith("/boot"):  # the other one has renamed what lay at the common name
            with suppress(FileNotFoundError):
                replace(f"{target}.new", target)
        replace(source, target, **more)

    monkeypatch.setattr(os, "replace", late)
    done = repo.here("snapshot", "--track", "t", "--step", "s")
    assert (done.code, done.err) == (0, "") and (repo.path / ".git/baton/boot").exists()


@pytest.mark.deep
@some("what", ["blob", "tree", "zeros"])
def test_what_a_power_cut_tore_before_is_stored_again_from_the_files(repo: Sandbox, what: str) -> None:
    repo.ok("snapshot", "--track", "t", "before")
    head = repo.commit("more", b="two\n", c="three\n")
    torn = repo.git("rev-parse", f"{head}:b" if what != "tree" else f"{head}^{{tree}}")
    repo.loose(torn).write_bytes(b"" if what != "zeros" else b"\0" * 40)
    stamp = repo.path / ".git/baton/boot"
    stamp.write_text("another start of the machine")
    os.utime(stamp, (1, 1))
    done = repo.ok("snapshot", "--track", "t", "after")
    assert "moved 1 torn object into" in done.err
    assert repo.git("show", f"{TRACK}:b") == "two" and repo.git("show", f"{TRACK}:c") == "three"
    repo.fsck()
    assert repo.ok("snapshot", "--track", "t", "again").err == ""


@some("gone", [False, True])
def test_a_head_that_a_power_cut_took_is_in_the_way_of_no_checkpoint(repo: Sandbox, gone: bool) -> None:
    place = repo.loose(repo.head())
    place.unlink() if gone else place.write_bytes(b"")
    with repo.open() as baton:
        made = baton.snapshot("s")
    assert made.warnings[0] == "HEAD's commit cannot be read; the checkpoint names none"
    assert {*repo.tree("refs/baton/tracks/main")} == {"a.txt"}


@pytest.mark.deep
def test_a_head_that_a_power_cut_took_is_in_the_way_of_no_step(repo: Sandbox) -> None:
    """Also where what the step made is too much to be known without a look at what HEAD has."""
    repo.ok("run", "--run", "r", "--step", "before", "--", "true")
    repo.loose(repo.commit("more", b="two\n")).unlink()
    many = "mkdir out; for i in $(seq 80); do echo $i > out/$i; done"
    repo.ok("run", "--run", "r", "--step", "many", "--writes", "out/*", "--", "sh", "-c", many)
    assert "2 of 2 steps done" in repo.ok("run", "list").out


@some("how", ["moved", "confirmed"])
def test_a_folder_that_others_made_anew_is_on_disk(repo: Sandbox, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """It may have the number of the one that went: that this one was known says nothing of the new one's name."""
    one, two, seen, fsync = "refs/baton/threads/t/one", "refs/baton/threads/t/two", set[int](), os.fsync

    def flushed(fd: int) -> None:
        seen.add(os.fstat(fd).st_ino)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", flushed)
    opened, head = discover(str(repo.path)), repo.head()
    disk = Durable(opened)
    disk.update_all([RefChange(name=one, new=head, old=None)])
    place = repo.path / ".git/refs/baton/threads/t"
    before = place.parent.stat().st_mtime_ns
    while place.parent.stat().st_mtime_ns == before:  # file systems count in some milliseconds
        place.rename(repo.path / ".git/aside").rename(place)
    if how == "confirmed":
        repo.git("update-ref", two, head)
    seen.clear()
    change = RefChange(name=two, new=head, old=head if how == "confirmed" else None)
    disk.confirm([change]) if how == "confirmed" else disk.update_all([change])
    inner, outer = place.stat().st_ino, place.parent.stat().st_ino
    assert {inner, outer} <= seen
    seen.clear()
    disk.update_all([RefChange(name=two, new=None, old=head)])
    assert inner in seen and outer not in seen, "what stays is waited for once"
    disk.close()
    opened.close()


@pytest.mark.deep
def test_a_torn_object_that_git_took_for_stored_is_written_again(repo: Sandbox) -> None:
    """The same bytes were added before the cut: git finds a file, and would not write them."""
    repo.write("new.txt", "new\n")
    oid = repo.git("hash-object", "-w", "new.txt")
    repo.loose(oid).write_bytes(b"")
    done = repo.ok("snapshot", "--track", "t", "s")
    assert "torn object" in done.err and repo.git("show", f"{TRACK}:new.txt") == "new"
    repo.fsck()


def held(folder: Path, verb: str, at: str = "update-ref", *, after: bool = False) -> dict[str, str]:
    """An environment in which our own ``git update-ref`` (or ``at``) first lets a git collect garbage to its end."""
    folder.mkdir()
    real = subprocess.run(["sh", "-c", "command -v git"], capture_output=True, text=True, check=True).stdout.strip()
    first, last = (f'{real} "$@" || exit 1; ', "; exit 0") if after else ("", "")
    alone = "unset GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_INDEX_FILE GIT_DIR GIT_WORK_TREE"
    verb = f"{first}({alone}; {verb.replace('git ', f'{real} ')}){last}"
    text = f"""#!/bin/sh
case " $* " in *" {at} "*) [ -e "{folder}/done" ] || {{ touch "{folder}/done"; {verb}; }} ;; esac
exec {real} "$@"
"""
    (folder / "git").write_text(text)
    (folder / "git").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.deep
@some("verb", ["git gc -q --prune=now", "git prune --expire=now", "git repack -q -a -d"])
def test_git_collects_between_our_objects_and_our_ref(repo: Sandbox, tmp_path: Path, verb: str) -> None:
    repo.ok("snapshot", "--track", "t", "first")
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    repo.write("staged.txt", "later\n")
    repo.write("new.txt", "new\n")
    done = repo.baton("snapshot", "--track", "t", "second", env=held(tmp_path / "bin", verb))
    assert done.code == 0 and (tmp_path / "bin/done").exists(), done.err
    repo.git("reset", "-q", "--hard")
    (repo.path / "new.txt").unlink()
    repo.git("gc", "-q", "--prune=now")
    repo.ok("restore", "t", "--index", "--force")
    assert (repo.path / "new.txt").read_text() == "new\n" and (repo.path / "staged.txt").read_text() == "later\n"
    assert repo.git("show", ":staged.txt") == "staged"
    repo.fsck()


@pytest.mark.full
@some("step", ["rev-list", "pack-objects", "prune", "prune-packed", "update-server-info", "multi-pack-index"])
@some("verb", ["gc --prune=now", "prune --expire=now", "repack -a -d"])
def test_git_is_held_at_each_of_its_steps_while_we_record(repo: Sandbox, tmp_path: Path, verb: str, step: str) -> None:
    """A collecting git has looked at the refs, and goes on only when a snapshot, a restore and its undo, a run and a flush of
    threads have said done."""
    repo.ok("snapshot", "--track", "t", "first")
    gate = tmp_path / "bin"
    gate.mkdir()
    real = subprocess.run(["sh", "-c", "command -v git"], capture_output=True, text=True, check=True).stdout.strip()
    stop = f'case " $* " in *" {step} "*) touch "{gate}/there"; while [ ! -e "{gate}/go" ]; do sleep 0.02; done ;; esac'
    (gate / "git").write_text(f'#!/bin/sh\n{stop}\nexec {real} "$@"\n')
    (gate / "git").chmod(0o755)
    # git starts the others itself from its own folder: there, too, ours is in the way
    path = f"{gate}:{os.environ['PATH']}"
    beside = subprocess.Popen(
        [real, *verb.split()], cwd=repo.path, env={**os.environ, "PATH": path, "GIT_EXEC_PATH": exec_path(gate, real)}
    )
    try:
        until(lambda: (gate / "there").exists() or beside.poll() is not None)
        repo.write("new.txt", "new\n")
        repo.ok("snapshot", "--track", "t", "second")
        repo.write("a.txt", "unsaved\n")
        repo.ok("restore", "t~1", "--force", "--exact")
        repo.ok("undo")
        repo.ok("run", *STEP)
        with ThreadStore.open(repo.path) as store:
            put(store, "talk", "1")
            store.flush()
    finally:
        (gate / "go").touch()
        beside.wait()
    assert "run 'r': finished" in repo.ok("run", "show", "r").out and repo.ok("run", "verify", "r").code == 0
    with ThreadStore.open(repo.path) as store:
        assert [entry.id for entry in store.walk("talk", "")] == ["1"]
    assert (repo.path / "a.txt").read_text() == "unsaved\n" and (repo.path / "new.txt").read_text() == "new\n"
    repo.git("reset", "-q", "--hard")
    (repo.path / "new.txt").unlink(missing_ok=True)
    repo.ok("restore", "t", "--force")
    assert (repo.path / "new.txt").read_text() == "new\n"
    repo.fsck()


@pytest.mark.full
@pytest.mark.parametrize("verb", ["gc -q --prune=now", "prune --expire=now", "repack -q -a -d"])
@some("nth", [2, 1])
def test_git_collects_before_a_record_of_a_run_has_its_ref(repo: Sandbox, verb: str, nth: int) -> None:
    """Its pack has just come to disk. The first record is that of the step's begin, the second that of its end."""
    repo.write("b.txt", "in no commit\n")
    code = f"""
import os, subprocess, sys
fsync, turns = os.fsync, []
def collecting(fd):
    fsync(fd)
    if os.path.samestat(os.fstat(fd), os.stat(".git/objects/pack")):
        turns.append(1)
        if len(turns) == {nth}:
            subprocess.run(["git", *{verb.split()}], check=True)
            sys.stderr.write("collected")
os.fsync = collecting
from gitbaton.cli.main import run
run()
"""
    done = repo.run(sys.executable, "-c", code, "run", *STEP)
    assert done.code == 0 and "collected" in done.err, done.err
    repo.git("gc", "-q", "--prune=now")
    assert "run 'r': finished" in repo.ok("run", "show", "r").out and repo.ok("run", "verify", "r").code == 0
    repo.fsck()


def test_libgit2_reads_each_quarantine(repo: Sandbox) -> None:
    with repo.open(door="libgit2") as baton:
        for number in range(3):
            made = new_object("sha1", "blob", b"%d" % number)
            baton.repo.stow([made])
            assert baton.repo.objects.info(made.oid) is not None, number
            baton.repo.clear()


def exec_path(gate: Path, real: str) -> str:
    """A copy of git's folder of programs, whose ``git`` is the gate."""
    folder = gate / "exec"
    folder.mkdir()
    theirs = Path(subprocess.run([real, "--exec-path"], capture_output=True, text=True, check=True).stdout.strip())
    for program in theirs.iterdir():
        if program.name != "git":
            (folder / program.name).symlink_to(program)
    (folder / "git").symlink_to(gate / "git")
    return os.fspath(folder)


@pytest.mark.deep
def test_a_restore_beside_a_damaged_index_says_so_and_brings_the_files_back(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "s")
    repo.write("a.txt", "lost\n")
    index = repo.path / ".git/index"
    index.write_bytes(index.read_bytes()[: index.stat().st_size // 2])
    done = repo.ok("restore", "t", "--force")
    assert "warning: the index is damaged" in done.err and (repo.path / "a.txt").read_text() == "one\n"
    repo.ok("undo")
    assert (repo.path / "a.txt").read_text() == "lost\n"


@pytest.mark.deep
def test_what_is_large_is_packed_before_the_lock_and_once(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "first")
    for number in range(300):
        repo.write(f"d/{number}", f"{number}\n")
    before = {path.name for path in (repo.path / ".git/objects/pack").glob("*.pack")}
    repo.ok("snapshot", "--track", "t", "many")
    made = [path for path in (repo.path / ".git/objects/pack").glob("*.pack") if path.name not in before]
    counts = sorted(len(repo.git("verify-pack", "-v", str(path)).split(" blob ")) - 1 for path in made)
    assert len(made) == 2 and counts[0] < 5 and counts[1] == 300
    assert len(repo.tree(TRACK)) == 301 and not list((repo.path / ".git/objects/pack").glob("*.keep"))
    repo.fsck()


@pytest.mark.deep
def test_what_a_killed_process_kept_is_let_go(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "first")
    (pack,) = (repo.path / ".git/objects/pack").glob("*.pack")
    keep = pack.with_suffix(".keep")
    keep.write_text(f"gitbaton 999999999 0.0 {os.readlink('/proc/self/ns/pid')}\n")
    os.utime(keep, (1, 1))
    repo.ok("snapshot", "--track", "t", "second")
    assert not keep.exists() and pack.exists()


def test_what_a_killed_process_began_is_removed_once_nobody_can_be_at_work_there(repo: Sandbox) -> None:
    """Also in an object store that lies on another file system than our own folder."""
    git = repo.path / ".git"
    began = [git / "baton/tmp/pack.1.old", git / "objects/baton-pack.1.old"]
    under_way = [git / "baton/tmp/pack.2.new", git / "objects/baton-pack.2.new"]
    for folder in (*began, *under_way):
        (folder / "objects").mkdir(parents=True)
        (folder / "pack-1.pack").write_bytes(b"half")
    for folder in began:
        os.utime(folder, (1, 1))
    repo.ok("snapshot", "--track", "t", "first")
    assert [folder.exists() for folder in (*began, *under_way)] == [False, False, True, True]


def test_objects_on_another_file_system(repo: Sandbox, tmp_path: Path) -> None:
    others = (Path(name) for name in ("/dev/shm", "/var/tmp") if os.access(name, os.W_OK))
    other = next((path for path in others if path.stat().st_dev != repo.path.stat().st_dev), None)
    if other is None:
        pytest.skip("no second file system here")
    with tempfile.TemporaryDirectory(dir=other) as place:
        objects = repo.path / ".git/objects"
        shutil.move(objects, f"{place}/objects")
        objects.symlink_to(f"{place}/objects")
        repo.write("new.txt", "new\n")
        repo.ok("snapshot", "--track", "t", "s")
        assert repo.git("show", f"{TRACK}:new.txt") == "new"
        repo.fsck()


def test_a_word_that_says_nothing_of_what_is_waited_for(repo: Sandbox) -> None:
    repo.git("config", "baton.fsync", "maybe")
    done = repo.baton("snapshot", "--track", "t", "s")
    assert done.code == 129 and "baton.fsync is 'maybe'; it can be 'always', 'ordered' or 'never'" in done.err


@pytest.mark.deep
def test_what_is_under_way_lies_where_no_prune_of_git_looks(repo: Sandbox) -> None:
    """``git prune --expire=now`` takes every ``tmp_*`` of the store, also those that somebody is writing."""
    places = [repo.path / ".git/objects/pack", repo.path / ".git/objects"]

    def prune() -> None:
        for path in (path for place in places if place.exists() for path in place.glob("tmp_*")):
            path.unlink(missing_ok=True)

    with meanwhile(prune):
        for number in range(4):
            repo.write("new.txt", f"{number}\n")
            repo.ok("snapshot", "--track", "t", f"s {number}")
    assert [repo.git("show", f"{TRACK}~{back}:new.txt") for back in range(4)] == ["3", "2", "1", "0"]
    repo.fsck()


@pytest.mark.deep
@pytest.mark.parametrize("verb", ["git gc -q --prune=now", "git-baton prune t --keep-last 1 --yes && git gc -q --prune=now"])
def test_git_collects_while_we_push(repo: Sandbox, bare: Sandbox, tmp_path: Path, verb: str) -> None:
    """The remote's answer is noted here once all is sent: what git has collected meanwhile is never named by a ref of ours."""
    repo.git("remote", "add", "far", str(bare.path))
    for step in ("first", "second", "third"):
        repo.ok("snapshot", "--track", "t", step)
    repo.ok("snapshot", "--track", "private", "not sent", "--no-set-current")
    done = repo.baton("push", "far", "t", "--yes", env=held(tmp_path / "bin", verb, "push", after=True))
    assert done.code == 0 and (tmp_path / "bin/done").exists(), done.err
    repo.fsck()
    repo.git("gc", "-q", "--prune=now")
    repo.ok("sync", "far", "t", "--yes")
    assert repo.ok("doctor", "--mend", "--dry-run").out == "nothing is damaged\n"
    bare.fsck()


MOVED = "git-baton snapshot --track t more && git-baton prune t --keep-last 1 --yes && git gc -q --prune=now"


@pytest.mark.deep
@pytest.mark.parametrize("words", [("prune", "--keep-last", "2"), ("push", "far", "t", "--yes")], ids=["prune", "push"])
def test_what_another_prunes_and_git_collects_while_we_look_is_not_called_broken(
    repo: Sandbox, bare: Sandbox, tmp_path: Path, words: tuple[str, ...]
) -> None:
    repo.git("remote", "add", "far", str(bare.path))
    for step in ("first", "second", "third", "fourth"):
        repo.write("new.txt", f"{step}\n")
        repo.ok("snapshot", "--track", "t", step)
    done = repo.baton(*words, env=held(tmp_path / "bin", MOVED, "rev-list"))
    assert done.code == 0 and (tmp_path / "bin/done").exists(), done.err
    assert [item["step"] for item in chain(repo, "t")] == ["more"]
    repo.fsck()


@pytest.mark.deep
def test_git_collects_while_some_paths_are_restored(repo: Sandbox, tmp_path: Path) -> None:
    """The tree that a restore of a few paths leads to is nowhere yet; what git collects meanwhile is not it."""
    repo.write("b.txt", "two\n")
    repo.ok("snapshot", "--track", "t", "s")
    repo.write("a.txt", "mine\n")
    repo.write("b.txt", "mine, too\n")
    env = held(tmp_path / "bin", "git gc -q --prune=now", "pack-objects")
    done = repo.baton("restore", "t", "--", "a.txt", env=env)
    assert done.code == 0 and (tmp_path / "bin/done").exists(), done.err
    assert (repo.path / "a.txt").read_text() == "one\n" and (repo.path / "b.txt").read_text() == "mine, too\n"
    repo.git("gc", "-q", "--prune=now")
    repo.ok("undo")
    assert (repo.path / "a.txt").read_text() == "mine\n"
    repo.fsck()


@pytest.mark.deep
@pytest.mark.parametrize(("count", "verb"), [(1, "update-ref"), (40, "pack-objects")])
def test_git_collects_while_a_run_records(repo: Sandbox, tmp_path: Path, count: int, verb: str) -> None:
    """What a step read, wrote and printed is held by no ref until its record is: few objects are packed as they are, of
    many git looks itself what they are."""
    line = "mkdir -p out && cat b.txt | tee out/made"
    words = ["run", "--run", "r", "--step", "s", "--reads", "*.txt", "--writes", "out/**", "--", "sh", "-c", line]
    for number in range(1, count):
        repo.write(f"{number}.txt", f"{number}\n")
    repo.write("b.txt", "read\n")
    env = held(tmp_path / "bin", "git gc -q --prune=now", verb)
    # Beside borrowed objects, too.
    done = repo.baton(*words, env={**env, "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(tmp_path)})
    assert done.code == 0 and (tmp_path / "bin/done").exists(), done.err
    shutil.rmtree(repo.path / "out")
    repo.git("gc", "-q", "--prune=now")
    repo.fsck()
    assert "runs" not in repo.ok(*words).err
    assert (repo.path / "out/made").read_text() == "read\n"


@pytest.mark.deep
def test_git_removes_empty_folders_of_objects_while_we_look(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first snapshot after a start of the machine looks at every loose object; a mend, too."""
    listed, gone = os.listdir, list[str]()

    def listing(path: str | int) -> list[str]:
        if isinstance(path, str) and len(os.path.basename(path)) == 2 and "/objects/" in path and not listed(path):
            os.rmdir(path)
            gone.append(path)
        return listed(path)

    monkeypatch.setattr(os, "listdir", listing)
    prune = ("prune", "--keep-last", "1", "--dry-run", "--drop-milestones")
    repo.ok("snapshot", "--track", "t", "before", "--label", "goes")
    (repo.path / ".git/baton/boot").unlink()
    for words in (("snapshot", "--track", "t", "s"), ("doctor", "--mend"), prune):
        place = next(path for n in range(256) if not (path := repo.path / f".git/objects/{n:02x}").exists())
        place.mkdir()
        done = repo.here(*words)
        assert done.code == 0 and gone.pop() == str(place), (words, done.err)


@pytest.mark.deep
def test_git_collects_what_was_staged_when_the_index_was_read(repo: Sandbox, tmp_path: Path) -> None:
    repo.write("new.txt", "staged\n")
    repo.git("add", "new.txt")
    repo.write("new.txt", "later\n")
    verb = f"git -C {repo.path} add new.txt && git -C {repo.path} gc -q --prune=now"
    done = repo.baton("snapshot", "--track", "t", "s", env=held(tmp_path / "bin", verb, "write-tree"))
    assert done.code == 0 and (tmp_path / "bin/done").exists(), done.err
    assert repo.git("show", f"{TRACK}:new.txt") == "later"
    repo.fsck()


@pytest.mark.deep
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_head_moves_and_git_collects_the_commit_that_was_head(repo: Sandbox, tmp_path: Path, after: bool) -> None:
    repo.ok("snapshot", "--track", "t", "first")
    repo.commit("to be amended", b="b\n")
    repo.write("new.txt", "new\n")
    there = f"git -C {repo.path}"
    amend = f"{there} commit -q --amend -m amended; {there} reflog expire --expire=now --all"
    env = held(tmp_path / "bin", f"{amend}; {there} gc -q --prune=now", "pack-objects", after=after)
    done = repo.baton("snapshot", "--track", "t", "second", env=env)
    assert done.code == 0 and (tmp_path / "bin/done").exists(), done.err
    repo.git("gc", "-q", "--prune=now")
    repo.fsck()
    assert chain(repo, "t")[-1]["head"] == repo.head()
    assert repo.git("show", f"{TRACK}:new.txt") == "new"
    repo.ok("verify")


@pytest.mark.deep
@pytest.mark.parametrize("amended", [False, True])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_git_collects_while_a_clean_tree_is_recorded(repo: Sandbox, tmp_path: Path, amended: bool, after: bool) -> None:
    """Its new objects are packed as they are: all else is below HEAD, or was."""
    repo.ok("snapshot", "--track", "t", "first")
    repo.commit("to be amended", b="b\n")
    there = f"git -C {repo.path}"
    amend = f"{there} commit -q --amend -m amended; {there} reflog expire --expire=now --all; " if amended else ""
    env = held(tmp_path / "bin", f"{amend}{there} gc -q --prune=now", after=after)
    done = repo.baton("snapshot", "--track", "t", "second", env=env)
    assert done.code == 0 and (tmp_path / "bin/done").exists(), done.err
    repo.git("gc", "-q", "--prune=now")
    repo.fsck()
    assert [one["step"] for one in chain(repo, "t")] == ["first", "second"]
    assert chain(repo, "t")[-1]["head"] == repo.head() or after
    assert repo.tree(TRACK) == repo.tree("HEAD")


@pytest.mark.deep
def test_git_collects_what_was_staged_when_a_restore_looked(repo: Sandbox, tmp_path: Path) -> None:
    repo.write("new.txt", "then\n")
    repo.ok("snapshot", "--track", "t", "s")
    repo.write("new.txt", "now\n")
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", "later\n")
    verb = f"git -C '{repo.path}' add a.txt && git -C '{repo.path}' gc -q --prune=now && touch '{tmp_path}/collected'"
    done = repo.baton("restore", "t", "--", "new.txt", env=held(tmp_path / "bin", verb, "pack-objects"))
    assert done.code == 0 and (tmp_path / "collected").exists(), done.err
    assert (repo.path / "new.txt").read_text() == "then\n"
    repo.ok("undo")
    assert (repo.path / "new.txt").read_text() == "now\n" and repo.git("show", ":a.txt") == "later"
    repo.fsck()
