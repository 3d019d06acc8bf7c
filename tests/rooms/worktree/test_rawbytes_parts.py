"""The parts that keep raw bytes: which paths are asked about at all, and reading and putting back what was kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gitbaton.base.errors import RecordError
from gitbaton.checkpoints.baton import Request
from gitbaton.git.objects import NewObject, TreeEntry, new_object, tree_data
from gitbaton.git.worktree.capture import capture, private_folder, with_raw
from gitbaton.git.worktree.index import PrivateIndex
from gitbaton.git.worktree.place import make_file
from gitbaton.git.worktree.rawbytes import conversions, differing, entries, read_raw
from gitbaton.git.worktree.untracked import CaptureRules
from tests.kit import Sandbox
from tests.kit.processes import git_log
from tests.kit.tiers import some
from tests.rooms.worktree.test_rawbytes import MIXED, check_gives_back, kept, snapshot


@pytest.mark.deep
@pytest.mark.parametrize("many", [False, True])
def test_plain_repository_costs_no_process(repo: Sandbox, monkeypatch: pytest.MonkeyPatch, many: bool) -> None:
    for number in range(520 if many else 3):
        repo.write(f"d/new{number}", MIXED)
    repo.write("a.txt", MIXED)
    log = git_log(repo, monkeypatch)
    assert snapshot(repo).checkpoint.files
    asked = log.read_text()
    assert "add -A" in asked
    for word in ("check-attr", "--filters", "ls-tree", "hash-object", "gitattributes"):
        assert word not in asked
    assert asked.count("--get-regexp") == 1


@pytest.mark.deep
def test_line_feeds_where_nothing_converts_them_cost_one_process(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write(".gitattributes", "* text=auto\n")
    snapshot(repo)
    repo.write("b.txt", "plain\n")
    log = git_log(repo, monkeypatch)
    assert kept(repo, snapshot(repo)) == {}
    asked = log.read_text()
    assert asked.count("check-attr") == 1 and "--filters" not in asked and "ls-tree" not in asked


@pytest.mark.deep
@some("place", ["info", "home", "xdg", "setting", "folder"], 2)
def test_wherever_attributes_are_found(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    with repo.open() as baton:
        assert [*conversions(baton.repo, str(repo.path), ["d/e/f.txt"])] == []
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg") if place == "xdg" else "")
    files = {
        "info": repo.path / ".git/info/attributes",
        "home": tmp_path / "home/.config/git/attributes",
        "xdg": tmp_path / "xdg/git/attributes",
        "setting": tmp_path / "elsewhere",
        "folder": repo.path / "d/.gitattributes",
    }
    files[place].parent.mkdir(parents=True, exist_ok=True)
    files[place].write_text("*.txt eol=crlf\n")
    if place == "setting":
        repo.git("config", "core.attributesFile", str(files[place]))
    repo.write("d/e/f.txt", "one\n")
    with repo.open() as baton:
        assert [*conversions(baton.repo, str(repo.path), ["d/e/f.txt", "d/e/f.bin"])] == ["d/e/f.txt"]
    check_gives_back(repo, "d/e/f.txt")


def test_more_paths_before_a_restore(repo: Sandbox) -> None:
    """A tracked file that git finds unchanged, and whose checkout would be another."""
    repo.git("config", "core.autocrlf", "input")
    repo.write("b.txt", MIXED)
    repo.write("sub/c.txt", b"plain\n")
    repo.commit("mixed on disk")
    repo.write("a.txt", MIXED)
    with repo.open() as baton, private_folder(baton.repo) as folder:
        captured, index, facts = capture(baton.repo, folder, CaptureRules(), set())
        assert [path for path, _, _ in captured.kept.raw] == ["a.txt"]
        more = with_raw(captured, index, facts, ["a.txt", "b.txt", "sub/c.txt", "absent"])
        assert [path for path, _, _ in more.kept.raw] == ["a.txt", "b.txt"]
        assert more.tree == captured.tree and more.stages[-1].oid != captured.stages[-1].oid
        baton.repo.objects.write(more.stages)
        assert set(read_raw(baton.repo.objects, more.stages[-1].oid)) == {"a.txt", "b.txt"}
        assert isinstance(index, PrivateIndex) and with_raw(more, index, facts, ["sub/c.txt"]) is more


def tree(algorithm: Any, *entries: tuple[bytes, bytes, str]) -> NewObject:
    return new_object(algorithm, "tree", tree_data(TreeEntry(mode=m, name=n, oid=o) for m, n, o in entries))


@pytest.mark.parametrize(
    "entry",
    [
        (b"120000", b"link"),
        (b"160000", b"module"),
        (b"100664", b"odd-mode"),
        (b"40000", b".git"),
        *((b"100644", name) for name in (b"..", b".GIT", b"git~1", ".g\u200cit".encode(), b"a/b")),
    ],
)
def test_what_no_snapshot_writes_is_refused(repo: Sandbox, entry: tuple[bytes, bytes]) -> None:
    with repo.open() as baton:
        objects = baton.repo.objects
        blob = new_object(objects.algorithm, "blob", b"evil")
        inner = tree(objects.algorithm, (b"100644", b"x", blob.oid))
        low = tree(objects.algorithm, (*entry, inner.oid if entry[0] == b"40000" else blob.oid))
        raw = tree(objects.algorithm, (b"40000", b"fine", low.oid))
        top = tree(objects.algorithm, (b"40000", b"raw", raw.oid))
        flat = tree(objects.algorithm, (b"100644", b"raw", blob.oid))
        baton.repo.git.out("hash-object", "-w", "--stdin", stdin=b"evil")
        for item in (inner, low, raw, top, flat):
            baton.repo.git.out("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=item.data)
        for wrong in (top, flat):
            with pytest.raises(RecordError):
                read_raw(objects, wrong.oid)
        assert read_raw(objects, inner.oid) == {}


def test_bytes_are_put_in_place(repo: Sandbox) -> None:
    root = str(repo.path)
    repo.write("d/f", "old")
    make_file(root, "d/f", "100755", MIXED)
    assert (repo.path / "d/f").read_bytes() == MIXED
    assert (repo.path / "d/f").stat().st_mode & 0o111
    make_file(root, "d/f", "100644", b"")
    assert not (repo.path / "d/f").stat().st_mode & 0o111 and (repo.path / "d/f").read_bytes() == b""
    make_file(root, "new/\udcff\n", "100644", b"x")
    make_file(root, "d/f", "120000", b"nowhere")
    assert os.readlink(repo.path / "d/f") == "nowhere" and (repo.path / os.fsdecode(b"new/\xff\n")).read_bytes() == b"x"
    assert os.listdir(repo.path / "d") == ["f"]


def test_bytes_go_through_no_symlink(repo: Sandbox, tmp_path: Path) -> None:
    root, outside = str(repo.path), repo.write("../outside/f", "theirs")
    (repo.path / "dir").symlink_to(outside.parent)
    (repo.path / "folder").mkdir()
    for path in ("dir/f", "dir/new", "folder", "a.txt/x", "../outside/f", ".git/x", "", "a//b"):
        with pytest.raises(OSError):
            make_file(root, path, "100644", b"evil")
    (repo.path / "link").symlink_to(outside)
    (repo.path / "dangling").symlink_to(tmp_path / "nowhere")
    for path in ("link", "dangling"):
        make_file(root, path, "100644", b"its own")
    assert outside.read_text() == "theirs" and sorted(os.listdir(outside.parent)) == ["f"]
    assert not (tmp_path / "nowhere").exists() and not (repo.path / ".git/x").exists()
    assert not (repo.path / "link").is_symlink() and (repo.path / "dangling").read_text() == "its own"


@pytest.mark.deep
def test_garbage_collection_between_capture_and_record(repo: Sandbox) -> None:
    """The captured tree is HEAD's and stays; only the kept bytes are gone, and are stored again."""
    repo.git("config", "core.autocrlf", "input")
    repo.write("a.txt", b"one\r\n")
    with repo.open() as baton:
        plan = baton.plan(Request(track="t", step="state"))
        files = plan.checkpoint.files
        assert files and files.raw == 1 and files.tree == repo.git("rev-parse", "HEAD^{tree}")
        repo.git("gc", "-q", "--prune=now")
        stored = baton.apply(plan).stored
        assert stored.checkpoint.files and stored.checkpoint.files.raw == 1
    repo.fsck()


def test_dry_run_leaves_no_bytes(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "input")
    repo.write("a.txt", MIXED)
    repo.write("big.txt", b"line\r\n" * 200_000)
    before = repo.git("count-objects", "-v")
    with repo.open() as baton:
        files = baton.dry_run(Request(track="t", step="state")).checkpoint.files
        assert files and files.raw == 2
    assert repo.git("count-objects", "-v") == before


@pytest.mark.full
def test_many_files_are_written_in_portions(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "input")
    names = [f"f{number}" for number in range(40)]
    for name in names:
        repo.write(name, name.encode() + MIXED * 60_000)
    check_gives_back(repo, *names)


def test_entries_of_more_paths_than_a_command_line_takes(repo: Sandbox) -> None:
    repo.write("d/b.txt", "two\n")
    (repo.path / "link").symlink_to("a.txt")
    repo.commit("more")
    absent = [f"absent/{number}/{'x' * 200}" for number in range(5200)]
    blob = repo.git("rev-parse", "HEAD:d/b.txt")
    with repo.open() as baton:
        for more in (absent, absent[:700], []):
            found = entries(baton.repo.git, "HEAD", ["d/b.txt", "link", "d", *more])
            assert found == [("d/b.txt", "100644", blob)]


def test_blob_that_is_not_there_is_no_reason_to_stop(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "input")
    repo.write("b.txt", MIXED)
    oid = repo.git("rev-parse", "HEAD:a.txt")
    with repo.open() as baton:
        files = [("b.txt", "100644", "1" * 40), ("a.txt", "100644", oid)]
        assert list(differing(baton.repo.git, str(repo.path), files)) == ["b.txt"]
