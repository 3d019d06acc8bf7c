"""What stands in the place of a folder or file of ours is not followed, waited for or removed; a crash marker alone proves
nothing."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.git.repo import discover
from gitbaton.git.worktree.isolated import Lane
from gitbaton.runs.claims import Claims
from tests.kit import Sandbox
from tests.kit.processes import in_child
from tests.kit.tiers import some

PATIENCE = 100  # seconds for what takes less than one
TOKEN = "baton-step-0123456789abcdef"
LONG_AGO = 1e9


@pytest.fixture
def used(repo: Sandbox) -> Sandbox:
    """A repository with a checkpoint."""
    repo.ok("snapshot", "--track", "t", "--step", "one")
    return repo


def precious(folder: Path) -> Path:
    """A folder of somebody's, with what must stay in it."""
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/file").write_text("somebody's\n")
    for path in (folder / "deep/file", folder / "deep", folder):
        os.utime(path, (LONG_AGO, LONG_AGO))
    return folder


def seen(folder: Path) -> list[tuple[str, int, int, bytes]]:
    """All of a folder that must be as it was."""
    found = sorted((folder, *folder.rglob("*")))
    return [
        (str(path), path.lstat().st_mode, path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in found
    ]


def marker(repo: Sandbox, name: str, *places: object) -> Path:
    """A crash marker, as of this machine, that names places."""
    folder = repo.path / ".git/baton/isolated"
    folder.mkdir(exist_ok=True)
    lines = [["host", socket.gethostname(), ""], *(["place", str(place)] for place in places)]
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / name


def next_one(repo: Sandbox) -> str:
    """What a marker is read by: the next command that makes such a folder, and doctor, which says something of it."""
    repo.ok("run", "--step", "s", "--isolate", "tree", "--", "true")
    repo.baton("doctor", "--fix")
    return repo.baton("doctor").out


def another_name(repo: Sandbox, top: Path) -> tuple[Path, str, object]:
    return top / "Documents", "Doc", top / "Documents"


def our_name(repo: Sandbox, top: Path) -> tuple[Path, str, object]:
    return top / "Documents", TOKEN, top / "Documents"


def our_name_for_both(repo: Sandbox, top: Path) -> tuple[Path, str, object]:
    return top / TOKEN, TOKEN, top / TOKEN


def above(repo: Sandbox, top: Path) -> tuple[Path, str, object]:
    return top / TOKEN, TOKEN, f"{repo.path}/../{TOKEN}"


def relative(repo: Sandbox, top: Path) -> tuple[Path, str, object]:
    return repo.path / TOKEN, TOKEN, TOKEN


def in_the_work_tree(repo: Sandbox, top: Path) -> tuple[Path, str, object]:
    return repo.path / f"src/{TOKEN}", TOKEN, repo.path / f"src/{TOKEN}"


def through_a_link(repo: Sandbox, top: Path) -> tuple[Path, str, object]:
    (top / "link").symlink_to(top)
    return top / TOKEN, TOKEN, top / "link" / TOKEN


def a_link(repo: Sandbox, top: Path) -> tuple[Path, str, object]:
    (top / TOKEN).symlink_to(top / "Documents")
    return top / "Documents", TOKEN, top / TOKEN


def a_part_of_our_name(repo: Sandbox, top: Path) -> tuple[Path, str, object]:
    return top / f"{TOKEN}-photos", TOKEN, top / f"{TOKEN}-photos"


def a_work_tree_of_another(repo: Sandbox, top: Path) -> tuple[Path, str, object]:
    other = Sandbox.init(top / "other")
    other.commit("one", b_txt="b\n")
    other.git("worktree", "add", "-q", "--detach", str(top / TOKEN))
    return top / TOKEN, TOKEN, top / TOKEN


CRAFTED = (
    *(another_name, our_name, our_name_for_both, above, relative, in_the_work_tree, through_a_link, a_link),
    *(a_part_of_our_name, a_work_tree_of_another),
)


@pytest.mark.deep
@some("crafted", CRAFTED, share=5)
def test_a_marker_that_somebody_wrote_removes_nothing(
    used: Sandbox, tmp_path: Path, crafted: Callable[[Sandbox, Path], tuple[Path, str, object]]
) -> None:
    folder, name, place = crafted(used, tmp_path)
    precious(folder)
    wrote, before = marker(used, name, place), seen(folder)
    said = next_one(used)
    assert seen(folder) == before and wrote.exists()
    assert os.path.basename(str(place)) in said or name in said


@pytest.mark.deep
def test_the_second_place_of_a_marker_is_no_more_believed_than_the_first(used: Sandbox, tmp_path: Path) -> None:
    folders = [precious(tmp_path / f"worktrees/{TOKEN}"), precious(tmp_path / f"lanes.new/{TOKEN}-1")]
    wrote, before = marker(used, TOKEN, tmp_path / TOKEN, *folders), [seen(folder) for folder in folders]
    next_one(used)
    assert [seen(folder) for folder in folders] == before and wrote.exists()


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "file").touch()


SHAPES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": a_folder,
    "no UTF-8": lambda path: path.write_bytes(b'["place", "\xff\xfe"]\n["host", 1]\n[]\n"x"\n'),
    "nothing": lambda path: path.touch(),
    "NUL": lambda path: path.write_text('["place", "/tmp/\\u0000"]\n["place", "\\ud800"]\n["place", ""]\n'),
    "deep": lambda path: path.write_text("[" * 100_000 + "\n"),
    "huge": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 1 << 32),
    "link": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.deep
@pytest.mark.parametrize("shape", SHAPES)
def test_a_marker_of_any_shape_is_passed_over(used: Sandbox, shape: str) -> None:
    """It is named and stays, but for one that names nothing: of that nothing is left to be removed."""
    place = used.path / ".git/baton/isolated" / TOKEN
    place.parent.mkdir()
    SHAPES[shape](place)
    said = next_one(used)
    assert place.parent.is_dir() and os.path.lexists(place) == (TOKEN in said) == (shape not in ("no UTF-8", "nothing", "deep"))


@pytest.mark.deep
def test_what_a_killed_command_left_goes_and_a_copy_of_the_repository_leaves_it(repo: Sandbox, tmp_path: Path) -> None:
    assert in_child(lambda: Lane(discover(str(repo.path))).sync()) == 0
    (lane,) = tmp_path.glob("baton-step-*")
    copy = Sandbox(tmp_path / "copy")
    shutil.copytree(repo.path, copy.path, symlinks=True)
    assert str(lane) in copy.baton("doctor").out
    copy.baton("doctor", "--fix")
    assert (lane / "a.txt").exists()
    repo.baton("doctor", "--fix")
    assert not lane.exists() and not os.listdir(repo.path / ".git/baton/isolated")


@pytest.mark.deep
def test_what_0_2_left_goes_where_it_is_a_work_tree_and_is_named_where_nothing_says_what_it_is(
    used: Sandbox, tmp_path: Path
) -> None:
    """A marker as that version wrote it; of a step's verification it made a plain folder."""
    lane, plain = tmp_path / TOKEN, precious(tmp_path / TOKEN.replace("0", "1"))
    used.git("worktree", "add", "-q", "--detach", str(lane))
    (lane / "left").write_text("by a step\n")
    marker(used, TOKEN, lane, used.path / f".git/worktrees/{TOKEN}", used.path / f".git/baton/lanes.new/{TOKEN}")
    marker(used, plain.name, plain)
    said = next_one(used)
    assert not lane.exists() and not (used.path / ".git/worktrees").exists()
    assert plain.exists() and str(plain) in said


LINKED = ("tmp", "sessions", "transcripts", "claims", "isolated", "wal", "late", "attempts", "hooks", "")


@some("name", LINKED, share=5)
def test_a_link_in_place_of_a_folder_leads_nobody_out(used: Sandbox, tmp_path: Path, name: str) -> None:
    used.ok("install")
    beside = precious(tmp_path / "others")
    for file in ("claude-s", "0.json", "0.new", "users", "log", "claude", "post-commit", "installed", "detached"):
        (beside / file).write_text("{}\n")
        os.utime(beside / file, (LONG_AGO, LONG_AGO))
    (beside / "1.2").mkdir()
    os.utime(beside / "1.2", (LONG_AGO, LONG_AGO))
    os.utime(beside, (LONG_AGO, LONG_AGO))
    place, before = used.path / ".git/baton" / name, seen(beside)
    if place.exists():
        shutil.rmtree(place)
    place.symlink_to(beside)
    hook = json.dumps({"session_id": "s", "cwd": str(used.path), "hook_event_name": "SessionStart", "source": "startup"})
    used.baton("snapshot", "--track", "t", "--step", "two")
    for event in ("SessionStart", "UserPromptSubmit", "Stop"):
        assert used.baton("hook", "claude", event, stdin=hook.encode()).code == 0
    used.baton("run", "--step", "s", "--", "true")
    used.baton("status")
    used.baton("thread", "list")
    used.git("checkout", "-q", "--detach")
    used.git("commit", "-q", "--allow-empty", "--amend", "-m", "more")
    said = used.baton("doctor", "--fix").out + used.baton("doctor").out
    used.baton("uninstall", "--purge", "--yes")
    assert seen(beside) == before
    assert f"'{place}'" in said or str(place).rstrip("/") in said


@pytest.mark.deep
def test_a_link_in_the_git_directory_of_another_work_tree_leads_nobody_out(used: Sandbox, tmp_path: Path) -> None:
    linked = Sandbox(tmp_path / "linked")
    used.git("worktree", "add", "-q", str(linked.path))
    linked.ok("snapshot", "--track", "t", "--step", "two")
    beside, place = precious(tmp_path / "others"), used.path / ".git/worktrees/linked/baton"
    for name in ("expect", "detached", "run", "worktree"):
        (beside / name).write_text("somebody's\n")
        os.utime(beside / name, (LONG_AGO, LONG_AGO))
    before = seen(beside)
    shutil.rmtree(place)
    place.symlink_to(beside)
    done = used.ok("snapshot", "--track", "t", "--step", "three")
    assert f"'{place}' is a symbolic link, and no folder of ours" in done.err
    assert linked.baton("snapshot", "--track", "t", "--step", "four").code == 128
    used.ok("forget", "t~1", "--yes")
    used.ok("uninstall", "--purge", "--yes")
    assert seen(beside)[1:] == before[1:] and not place.is_symlink()


@pytest.mark.deep
def test_what_is_mounted_in_tmp_stays(used: Sandbox, tmp_path: Path) -> None:
    """A part of the same file system, too, which no device tells apart."""
    mounted, places = precious(tmp_path / "others"), [used.path / ".git/baton/tmp/999999999.1"]
    places.append(used.path / ".git/baton/tmp/999999999.2/a folder")
    before = seen(mounted)
    for place in places:
        place.mkdir(parents=True)
        if subprocess.run(["mount", "--bind", str(mounted), str(place)], capture_output=True).returncode != 0:
            pytest.skip("nothing can be mounted here")
        os.utime(place.parent, (LONG_AGO, LONG_AGO))
        try:
            used.ok("snapshot", "--track", "t", "--step", place.name)
            assert seen(mounted) == before
        finally:
            subprocess.run(["umount", str(place)], check=True)


@pytest.mark.deep
def test_a_folder_in_tmp_that_is_none_of_ours_stays_and_is_named(used: Sandbox, tmp_path: Path) -> None:
    ours, theirs = used.path / ".git/baton/tmp/999999999.1", precious(used.path / ".git/baton/tmp/photos")
    precious(ours)
    (used.path / ".git/baton/tmp/999999999.2").symlink_to(precious(tmp_path / "photos"))
    used.ok("snapshot", "--track", "t", "--step", "two")
    assert not ours.exists() and theirs.exists() and (tmp_path / "photos/deep/file").exists()
    assert f"'{theirs}' has no name that we give" in used.baton("doctor").out


def test_git_waits_for_no_pipe_of_ours(used: Sandbox) -> None:
    used.ok("install")
    for name in ("expect", "detached", "quiet", "rewritten"):
        place = used.path / ".git/baton" / name
        place.unlink(missing_ok=True)
        os.mkfifo(place)
    more = ("commit", "-q", "--allow-empty")
    for words in (
        ("checkout", "-q", "--detach"),
        ("checkout", "-q", "-b", "x"),
        (*more, "-m", "x"),
        (*more, "--amend", "-m", "y"),
    ):
        done = subprocess.run(["git", *words], cwd=used.path, capture_output=True, timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (0, b"")
    said = used.baton("doctor")
    assert said.out.count("is a pipe, and no file of ours") == 4 and said.code == 1


@pytest.mark.deep
def test_a_lock_that_is_a_pipe_is_one_line_and_its_mend_works(used: Sandbox) -> None:
    place = used.path / ".git/baton/flock"
    place.unlink()
    os.mkfifo(place)
    done = used.baton("snapshot", "--track", "t", "--step", "two")
    assert (done.code, done.err) == (128, f"fatal: '{place}' cannot be opened: it is a pipe\n")
    (mend,) = [row["mend"] for row in used.baton("doctor", "--json").json["findings"] if row["name"] == "files"]
    assert used.run("sh", "-c", mend).code == 0
    assert used.baton("snapshot", "--track", "t", "--step", "two").code == 0
    assert not [row for row in used.baton("doctor", "--json").json["findings"] if row["name"] == "files"]


@pytest.mark.deep
def test_a_claim_of_another_user_ends_no_process(used: Sandbox) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be two users")
    with (
        subprocess.Popen(["sleep", "600"], start_new_session=True) as child,
        Claims(discover(str(used.path))).take("r", "s", ["out/**"]) as claim,
    ):
        start = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        words = json.loads(Path(claim.path).read_text()) | {
            "pid": 1 << 22,
            "word": "w",
            "group": [child.pid, f"{start}.{boot[:8]}"],
        }
        crafted = Path(claim.path).with_name("0.json")
        crafted.write_text(json.dumps(words | {"step": "other"}))
        os.chown(crafted, 4001, 4001)
        used.baton("run", "--run", "r", "--step", "third", "--writes", "out/**", "--", "true")
        assert child.poll() is None
        child.kill()


# --- sudo


def given_away(repo: Sandbox, user: int) -> None:
    for path in (repo.path, *repo.path.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be what sudo makes")
def test_sudo_is_refused_in_one_line_and_leaves_nothing_of_roots(used: Sandbox) -> None:
    used.ok("install")
    given_away(used, 4001)
    env = {"SUDO_UID": "4001"}
    for words in (
        ("snapshot", "--track", "t", "--step", "two"),
        ("status",),
        ("run", "--step", "s", "--", "true"),
        ("doctor",),
    ):
        done = used.baton(*words, env=env)
        said = f"'{used.path}/.git' is user 4001's, who could not change what root leaves there"
        assert (done.code, done.out, done.err) == (128, "", f"fatal: {said}\nhint: without sudo it works\n")
    hook = json.dumps({"session_id": "s", "cwd": str(used.path), "hook_event_name": "Stop"}).encode()
    done = used.baton("hook", "claude", "Stop", env=env, stdin=hook)
    assert (done.code, done.out, done.err) == (0, "", "")
    for git in (("checkout", "-q", "--detach"), ("commit", "-q", "--allow-empty", "--amend", "-m", "more")):
        assert used.run("git", *git, env=env).code == 0
    assert not [path for path in (used.path / ".git/baton").rglob("*") if path.lstat().st_uid == 0]


@pytest.mark.deep
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be what sudo makes")
def test_what_root_makes_of_ours_where_git_lets_it_in_is_the_owners(repo: Sandbox) -> None:
    given_away(repo, 4001)
    repo.git("config", "--global", "safe.directory", "*")
    repo.ok("snapshot", "--track", "t", "--step", "one")
    repo.ok("run", "--step", "s", "--", "true")
    top = repo.path / ".git/baton"
    assert {path.lstat().st_uid for path in (top, *top.rglob("*"))} == {4001}
    os.chown(top / "expect", 0, 0)
    said = repo.baton("doctor").out
    assert f"'{top}/expect' belongs to user 0, and the repository to user 4001" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be what sudo makes")
def test_root_in_its_own_repository_is_no_matter_how_it_became_that(used: Sandbox) -> None:
    assert used.ok("snapshot", "--track", "t", "--step", "two", env={"SUDO_UID": "4001"}).code == 0
