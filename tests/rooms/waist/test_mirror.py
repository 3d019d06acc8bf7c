"""LATEST.md and LATEST.json (T25 as far as they go): written safely, ignored by git, never captured, never in the way."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitbaton import Baton
from gitbaton.base.errors import UsageError
from gitbaton.base.values import replace
from gitbaton.checkpoints import mirror
from gitbaton.checkpoints.baton import Request
from tests.kit import Sandbox, integer_clock
from tests.kit.tiers import some

FOLDER = "runtime/checkpoints"


@pytest.fixture
def baton(repo: Sandbox) -> Iterator[Baton]:
    with repo.open(clock=integer_clock()) as opened:
        yield opened


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def latest(repo: Sandbox, folder: str = FOLDER) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((repo.path / folder / "LATEST.json").read_bytes())
    return found


def test_content_of_both_files(repo: Sandbox, baton: Baton) -> None:
    one = baton.snapshot("one", track="side work", set_current=False).stored
    two = baton.snapshot("two", track="main", note="a\nb", next_cmd="make", decisions=["d"], extra={"k": "v"}).stored
    found = latest(repo)
    assert found["current_track"] == "main" and list(found) == ["current_track", "generated", "tracks"]
    tracks = found["tracks"]
    assert tracks == {
        "main": {**json.loads(two.raw), "id": two.id},
        "side work": {**json.loads(one.raw), "id": one.id},
    }
    text = (repo.path / FOLDER / "LATEST.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("#")] == ["## CURRENT", "## main", "## side work"]
    body = text.split("## main\n")[0]
    for line in (
        "track=main",
        "step=two",
        "note=a",
        "    b",
        f"head={repo.head()}",
        "next_cmd=make",
        "decision=d",
        "extra.k=v",
    ):
        assert f"    {line}\n" in body
    assert files(repo.path / FOLDER) == ["LATEST.json", "LATEST.md"]


def test_stored_text_forges_no_heading_and_drives_no_terminal(repo: Sandbox, baton: Baton) -> None:
    evil = "x\n## main\n\n# forged\r## more\n```\n<!--\n\x1b[2J\u2028## y"
    plan = baton.plan(Request(track="# t", step=evil, note=evil, decisions=(evil,), extra=(("k", evil),), label=evil))
    stored = replace(plan.draft.checkpoint, next_cmd=evil)  # as one from elsewhere has it
    baton.apply(replace(plan, draft=replace(plan.draft, checkpoint=stored)))
    raw = (repo.path / FOLDER / "LATEST.md").read_text()
    assert [line for line in raw.split("\n") if line and not line.startswith("    ")][1:] == ["## CURRENT", "## # t"]
    assert all(c.isprintable() or c == "\n" for c in raw)
    assert b"\x1b" not in (repo.path / FOLDER / "LATEST.json").read_bytes()


@pytest.mark.deep
def test_t25_git_ignores_them_and_no_snapshot_holds_them(repo: Sandbox, baton: Baton) -> None:
    stored = [baton.snapshot(f"{n}", track="main").stored for n in range(3)]
    assert repo.git("status", "--porcelain", "-uall") == ""
    repo.git("add", "-A")
    assert repo.git("diff", "--cached", "--name-only") == ""
    for s in stored:
        assert set(repo.tree(s.commit)) == {"a.txt"}
    (repo.path / ".git/info/exclude").write_text("")
    captured = baton.snapshot("without the lines", track="main").stored
    assert set(repo.tree(captured.commit)) == {"a.txt"}
    assert repo.git("status", "--porcelain", "-uall") == ""


def test_exactly_the_files_are_excluded(repo: Sandbox, baton: Baton) -> None:
    exclude = repo.path / ".git/info/exclude"
    exclude.write_bytes(b"*.tmp")  # no newline at the end
    baton.snapshot("one", track="main")
    baton.snapshot("two", track="main")
    assert exclude.read_bytes() == b"*.tmp\n/runtime/checkpoints/LATEST.md\n/runtime/checkpoints/LATEST.json\n"
    repo.write(f"{FOLDER}/mine.txt", "x")
    repo.write("LATEST.md", "x")
    assert repo.git("status", "--porcelain", "-uall") == "?? LATEST.md\n?? runtime/checkpoints/mine.txt"


@pytest.mark.deep
@some("folder", ["a*b", "[x]", "!not", "#hash", "sp ace ", "back\\slash", "quest?", "é", ".", "a/../b", "x\udcff"], 7)
def test_any_name_of_the_directory_is_excluded_exactly(repo: Sandbox, folder: str) -> None:
    with repo.open(checkpoint_dir=folder) as baton:
        assert baton.snapshot("one", track="main").warnings == ()
    place = repo.path / os.path.normpath(folder)
    assert {"LATEST.json", "LATEST.md"} <= set(files(place))
    assert repo.git("status", "--porcelain", "-uall") == ""
    (repo.path / "axb").mkdir()
    (repo.path / "axb" / "LATEST.md").touch()
    assert repo.git("status", "--porcelain", "-uall") == "?? axb/LATEST.md"


def test_a_linked_work_tree_has_its_own_files(repo: Sandbox) -> None:
    other = Sandbox(repo.path.parent / "other")
    repo.git("worktree", "add", "-q", str(other.path))
    with repo.open() as here:
        here.snapshot("here", track="main")
    with other.open() as there:
        there.snapshot("there", track="side")
    assert latest(repo)["current_track"] == "main" and latest(other)["current_track"] == "side"
    assert set(latest(other)["tracks"]) == {"main", "side"} and set(latest(repo)["tracks"]) == {"main"}
    for sandbox in (repo, other):
        assert sandbox.git("status", "--porcelain", "-uall") == ""


@pytest.mark.deep
def test_no_info_directory_and_a_read_only_one(repo: Sandbox, baton: Baton) -> None:
    exclude = repo.path / ".git/info/exclude"
    exclude.unlink()
    exclude.parent.rmdir()
    assert baton.snapshot("one", track="main").warnings == ()
    assert repo.git("status", "--porcelain", "-uall") == ""
    exclude.unlink()
    exclude.symlink_to("/nowhere/at/all")  # not even root writes to it
    warnings = baton.snapshot("two", track="main").warnings
    assert len(warnings) == 1 and warnings[0].startswith("the LATEST files will show as untracked: ")
    repo.write(".gitignore", "runtime/\n")
    assert baton.snapshot("three", track="main").warnings == ()


@pytest.mark.parametrize("what", ["first", "second", "dangling"])
def test_never_through_a_linked_directory(repo: Sandbox, baton: Baton, what: str) -> None:
    outside = repo.path.parent / "outside"
    if what != "dangling":
        (outside / "checkpoints").mkdir(parents=True)
    if what == "second":
        (repo.path / "runtime").mkdir()
        (repo.path / FOLDER).symlink_to(outside)
    else:
        (repo.path / "runtime").symlink_to(outside)
    warnings = baton.snapshot("one", track="main").warnings
    assert len(warnings) == 1 and warnings[0].startswith("the LATEST files are not written: ")
    assert files(outside) == ([] if what == "dangling" else ["checkpoints"]) and files(outside / "checkpoints") == []


@pytest.mark.deep
@pytest.mark.parametrize("exists", [True, False])
def test_never_through_a_linked_file(repo: Sandbox, baton: Baton, exists: bool) -> None:
    victim = repo.path.parent / "victim"
    if exists:
        victim.write_text("precious")
    for name in mirror.NAMES:
        (repo.path / FOLDER).mkdir(parents=True, exist_ok=True)
        (repo.path / FOLDER / name).symlink_to(victim)
    hard = repo.path.parent / "hard"
    assert "was not written by git baton and stays" in baton.snapshot("one", track="main").warnings[0]
    assert (victim.read_text() if victim.exists() else None) == ("precious" if exists else None)
    assert all((repo.path / FOLDER / name).is_symlink() for name in mirror.NAMES)
    (repo.path / FOLDER / "LATEST.json").unlink()
    (repo.path / FOLDER / "LATEST.md").unlink()
    assert baton.snapshot("ours", track="main").warnings == ()
    assert all(stat.S_ISREG(os.lstat(repo.path / FOLDER / name).st_mode) for name in mirror.NAMES)
    os.link(repo.path / FOLDER / "LATEST.md", hard)
    before = hard.read_text()
    baton.snapshot("two", track="main")
    assert hard.read_text() == before


def test_a_tracked_file_is_not_ours(repo: Sandbox, baton: Baton) -> None:
    repo.write(f"{FOLDER}/LATEST.md", "a stranger's next_cmd")
    repo.git("add", "-f", ".")
    repo.git("commit", "-qm", "shipped")
    expected = (f"'{FOLDER}/LATEST.md' is tracked by git, so it is not ours and the LATEST files are not written",)
    assert baton.snapshot("one", track="main").warnings == expected
    assert baton.resume("main").warnings == expected
    assert (repo.path / FOLDER / "LATEST.md").read_text() == "a stranger's next_cmd"
    assert files(repo.path / FOLDER) == ["LATEST.md"] and repo.git("status", "--porcelain") == ""


def test_an_absolute_directory_outside(repo: Sandbox) -> None:
    outside = repo.path.parent / "out" / "side"
    with repo.open(checkpoint_dir=str(outside)) as baton:
        assert baton.snapshot("one", track="main").warnings == ()
    assert files(outside) == ["LATEST.json", "LATEST.md"]
    assert "LATEST" not in (repo.path / ".git/info/exclude").read_text()
    assert files(repo.path) == [".git", "a.txt"]


def test_a_directory_above_the_root_is_taken_as_asked(repo: Sandbox) -> None:
    repo.ok("--checkpoint-dir", "../beside", "snapshot", "--track", "main", "--step", "one")
    assert files(repo.path.parent / "beside") == ["LATEST.json", "LATEST.md"] and files(repo.path) == [".git", "a.txt"]


@pytest.mark.parametrize("way", ["absolute", "linked"])
def test_an_absolute_directory_inside_is_known_as_inside(repo: Sandbox, way: str) -> None:
    top = repo.path
    if way == "linked":
        top = repo.path.parent / "alias"
        top.symlink_to(repo.path)
    with repo.open(checkpoint_dir=str(top / "notes")) as baton:
        stored = baton.snapshot("one", track="main").stored
        stored = baton.snapshot("two", track="main").stored
    assert files(repo.path / "notes") == ["LATEST.json", "LATEST.md"]
    assert repo.git("status", "--porcelain", "-uall") == "" and set(repo.tree(stored.commit)) == {"a.txt"}


@pytest.mark.parametrize("folder", [".git", ".git/x", "x/../.git/y", "sub/.git/z", "sub/.GIT", "link/x", "a\nb", "a\x1bb"])
def test_inside_a_git_directory_is_refused(repo: Sandbox, folder: str) -> None:
    (repo.path / "link").symlink_to(".git")
    before = sorted(str(p) for p in (repo.path / ".git").rglob("*"))
    with repo.open(checkpoint_dir=folder) as baton, pytest.raises(UsageError, match="checkpoint directory"):
        baton.snapshot("one", track="main")
    assert repo.git("for-each-ref", "refs/baton", "refs/checkpoints") == ""
    after = [str(p) for p in (repo.path / ".git").rglob("*") if "/objects/" not in str(p) and "/baton" not in str(p)]
    assert sorted(after) == [p for p in before if "/objects/" not in p]


def test_a_bare_repository(tmp_path: Path) -> None:
    bare = Sandbox.init(tmp_path / "bare.git", "--bare")
    with bare.open() as baton:
        assert baton.latest is None
        said = "this repository is bare: there are no files to take, and only the words are recorded"
        assert baton.snapshot("one", track="main").warnings == (said,)
    with bare.open(checkpoint_dir=str(tmp_path / "out")) as baton:
        baton.snapshot("two", track="main")
    assert files(tmp_path / "out") == ["LATEST.json", "LATEST.md"]
    assert bare.baton("--checkpoint-dir", str(bare.path / "x"), "snapshot", "--track", "t", "--step", "s").code == 129


@pytest.mark.deep
@pytest.mark.parametrize("what", ["file", "folder", "full"])
def test_failing_to_write_is_a_warning_and_exit_0(repo: Sandbox, what: str) -> None:
    if what == "file":
        repo.write("runtime", "a file")
    elif what == "folder":
        (repo.path / FOLDER / "LATEST.md").mkdir(parents=True)
    argv = ["snapshot", "--track", "main", "--step", "one"]
    if what == "full":
        repo.ok(*argv)
        script = 'ulimit -f 0; trap "" XFSZ; exec "$@"'
        call = "import sys; from gitbaton import Baton; b = Baton('.'); print(*b.refresh())"
        repo.ok("tracks", "use", "main")
        (repo.path / FOLDER / "LATEST.md").write_text("old")
        done = repo.run("sh", "-c", script, "sh", "python", "-c", call)
        assert done.code == 0 and "the LATEST files are not written" in done.out, done.err
        assert files(repo.path / FOLDER) == ["LATEST.json", "LATEST.md"]
        return
    done = repo.ok(*argv)
    said = (
        "warning: 'runtime/checkpoints/LATEST.md' was not written" if what == "folder" else "warning: the LATEST files are not"
    )
    assert done.out.startswith("main ") and done.err.startswith(said)
    assert repo.ok("resume", "--porcelain").out.startswith("track=main\n")
    assert [f for f in files(repo.path / FOLDER) if f.startswith(".")] == []


OLDER = '{"current_track": "old", "tracks": {"old": {"step": "precious", "timestamp": "2025-01-01T00:00:00Z"}}}\n'


@pytest.mark.full
@some("verb", [["snapshot", "--track", "new", "--step", "s"], ["export"], ["tracks", "use", "t"], ["resume"]], 2)
def test_files_that_somebody_else_wrote_stay(repo: Sandbox, verb: list[str]) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one", "--checkpoint-dir", "elsewhere")
    repo.write(f"{FOLDER}/LATEST.json", OLDER)
    repo.write(f"{FOLDER}/LATEST.md", "# mine\n")
    done = repo.baton(*verb)
    assert "was not written by git baton and stays" in done.err and "git baton import" in done.err
    assert (repo.path / FOLDER / "LATEST.json").read_text() == OLDER
    assert (repo.path / FOLDER / "LATEST.md").read_text() == "# mine\n"
    if verb[0] == "snapshot":
        assert f"{FOLDER}/LATEST.json" in repo.tree("refs/baton/tracks/new")
        assert "old: 1" in repo.ok("import", FOLDER).out


def test_unchanged_content_is_left_alone(repo: Sandbox, baton: Baton) -> None:
    baton.snapshot("one", track="main")
    paths = [repo.path / FOLDER / name for name in mirror.NAMES]
    before = [(p.stat().st_ino, p.stat().st_mtime_ns, p.read_bytes()) for p in paths]
    for _ in range(2):
        assert baton.resume("main").warnings == ()
    assert [(p.stat().st_ino, p.stat().st_mtime_ns, p.read_bytes()) for p in paths] == before
    paths[0].write_text("## CURRENT\n\n    next_cmd=rm -rf /\n")
    baton.resume("main")
    assert "rm -rf" not in paths[0].read_text()
    paths[1].write_text('{"generated": 5}')
    assert "was not written by git baton" in baton.resume("main").warnings[0]
    assert paths[1].read_text() == '{"generated": 5}'


def test_what_a_snapshot_has_written_is_not_put_together_again(repo: Sandbox, baton: Baton) -> None:
    baton.snapshot("one", track="main")
    baton.snapshot("two", track="main")
    mark = repo.path / ".git" / "baton" / "latest"  # how LATEST was left; written anew by whoever puts it together
    before = mark.stat().st_ino, mark.stat().st_mtime_ns
    with repo.open(clock=integer_clock()) as other:
        assert other.resume("main").warnings == () and other.refresh() == []
    assert (mark.stat().st_ino, mark.stat().st_mtime_ns) == before
    repo.ok("snapshot", "--track", "side", "three")  # of another process: what was left holds no more
    assert baton.refresh() == [] and sorted(latest(repo)["tracks"]) == ["main", "side"]


def test_what_a_killed_writer_left_is_cleared_by_the_next(repo: Sandbox, baton: Baton) -> None:
    baton.snapshot("one", track="main")
    for name in mirror.NAMES:
        repo.write(f".git/baton/{name}.new", "half")
    baton.snapshot("two", track="main")
    assert files(repo.path / FOLDER) == ["LATEST.json", "LATEST.md"]
    assert not list((repo.path / ".git" / "baton").glob("*.new"))


def test_a_users_git_add_beside_a_writer_stages_nothing_of_ours(repo: Sandbox, baton: Baton) -> None:
    seen = []
    real = os.replace

    def replace(source: Any, *rest: Any, **more: Any) -> None:
        repo.git("add", "-A")
        seen.append(repo.git("ls-files"))
        real(source, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", replace)
        baton.snapshot("one", track="main")
    assert len(seen) >= 2 and set(seen) == {"a.txt"}


@pytest.mark.full
def test_fifty_tracks(repo: Sandbox, baton: Baton) -> None:
    for number in range(50):
        baton.snapshot(f"step {number}", track=f"track {number}", files=False, set_current=number == 7)
    found = latest(repo)
    assert len(found["tracks"]) == 50 and found["current_track"] == "track 7"
    heads = [line for line in (repo.path / FOLDER / "LATEST.md").read_text().splitlines() if line.startswith("## ")]
    assert heads == ["## CURRENT", *(f"## track {n}" for n in range(49, -1, -1))]


def test_no_track_is_current(repo: Sandbox, baton: Baton) -> None:
    baton.snapshot("one", track="main", set_current=False)
    assert latest(repo)["current_track"] is None
    assert "No track is current in this work tree." in (repo.path / FOLDER / "LATEST.md").read_text()
