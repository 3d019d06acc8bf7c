"""Doctor: each check where it finds the fault and where it does not, and no traceback anywhere."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.care.mending.doctor import examine
from tests.kit import Sandbox
from tests.kit.agents import path_without_us
from tests.kit.manytracks import many_tracks
from tests.kit.moments import Args, at
from tests.kit.tiers import some


@pytest.fixture
def well(repo: Sandbox) -> Sandbox:
    """A repository in which nothing is to be mended."""
    repo.ok("install")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    return repo


def mended(repo: Sandbox, *args: str) -> set[str]:
    """The names of the findings that are not well; text, JSON and exit status agree."""
    found = repo.baton("doctor", "--json", *args)
    data = found.json
    amiss = {row["name"] for row in data["findings"] if not row["ok"]}
    assert (data["v"], data["ok"], found.code) == (1, not amiss, 1 if amiss else 0)
    assert all(row["mend"] == "" or not row["mend"].endswith(".") for row in data["findings"])
    text = repo.baton("doctor")
    assert {line[5:].split(": ")[0] for line in text.out.splitlines() if line.startswith("MEND ")} == amiss
    assert text.code == found.code and text.err == ""
    return amiss


def no_hook(repo: Sandbox) -> None:
    (repo.path / ".git/hooks/post-merge").unlink()


def not_executable(repo: Sandbox) -> None:
    (repo.path / ".git/hooks/post-merge").chmod(0o644)


def other_hooks_path(repo: Sandbox) -> None:
    repo.git("config", "core.hooksPath", "elsewhere")


def no_script(repo: Sandbox) -> None:
    (repo.path / ".git/baton/hooks/post-merge").unlink()


def older_script(repo: Sandbox) -> None:
    path = repo.path / ".git/baton/hooks/post-merge"
    path.write_bytes(path.read_bytes() + b"\n")


def no_rewrite_ref(repo: Sandbox) -> None:
    repo.git("config", "--unset-all", "notes.rewriteRef")


def sorted_notes(repo: Sandbox) -> None:
    repo.git("config", "notes.rewriteMode", "cat_sort_uniq")


def tracked_latest(repo: Sandbox) -> None:
    repo.git("add", "-f", "runtime/checkpoints/LATEST.md")


def stale_latest(repo: Sandbox) -> None:
    (repo.path / "runtime/checkpoints/LATEST.md").write_text("old\n")


def strange_chain(repo: Sandbox) -> None:
    repo.git("update-ref", "refs/baton/tracks/a.b", "HEAD")


def strange_tip(repo: Sandbox) -> None:
    repo.git("update-ref", "refs/checkpoints/a.b", "HEAD")


def not_a_checkpoint(repo: Sandbox) -> None:
    repo.git("update-ref", "refs/baton/tracks/other", "HEAD")


def strange_room(repo: Sandbox) -> None:
    repo.git("update-ref", "refs/baton/other", "HEAD")
    assert repo.baton("prune").code == 128


def tip_behind(repo: Sandbox) -> None:
    repo.git("update-ref", "-d", "refs/checkpoints/t")


def stale_lock(repo: Sandbox) -> None:
    path = repo.path / ".git/refs/baton/tracks/t.lock"
    path.touch()
    os.utime(path, (time.time() - 60,) * 2)


def stale_head_lock(repo: Sandbox) -> None:
    path = repo.path / ".git/BATON_HEAD.lock"
    path.touch()
    os.utime(path, (time.time() - 60,) * 2)


def claim_of_another_machine(repo: Sandbox) -> None:
    words = {"run": "r", "step": "s", "host": "elsewhere", "boot": "b", "start": "1", "worktree": "/w", "agent": None}
    path = repo.path / ".git/baton/claims/1.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"v": 1, **words, "created": None, "pid": 7, "writes": ["x"]}))


def missing_filter(repo: Sandbox) -> None:
    repo.write(".gitattributes", "*.bin filter=big\n")
    repo.write("x.bin", "x")
    repo.git("add", "-A")
    repo.git("config", "filter.big.required", "true")
    repo.git("config", "filter.big.clean", "'/nowhere/a tool' %f")


def lfs_without_configuration(repo: Sandbox) -> None:
    repo.write(".gitattributes", "*.bin filter=lfs\n")
    repo.write("x.bin", "x")
    repo.git("add", "-A")


FAULTS = {
    "hooks": (no_hook, not_executable, other_hooks_path),
    "scripts": (no_script, older_script),
    "notes.rewriteRef": (no_rewrite_ref,),
    "latest": (tracked_latest, stale_latest),
    "refs": (strange_chain, strange_tip, strange_room, not_a_checkpoint),
    "derived": (tip_behind,),
    "locks": (stale_lock, stale_head_lock),
    "filters": (missing_filter, lfs_without_configuration),
}


def not_installed(repo: Sandbox) -> None:
    repo.ok("uninstall")


def remote_that_is_gone(repo: Sandbox) -> None:
    repo.git("update-ref", "refs/baton/remotes/gone/tracks/t", "refs/baton/tracks/t")


REMARKS = {
    ("hooks", "notes.rewriteRef"): not_installed,
    ("notes.rewriteMode",): sorted_notes,
    ("claims",): claim_of_another_machine,
    ("remotes",): remote_that_is_gone,
}


@pytest.mark.deep
@some(("names", "remark"), list(REMARKS.items()))
def test_a_remark_is_no_fault(well: Sandbox, names: tuple[str, ...], remark: Callable[[Sandbox], None]) -> None:
    remark(well)
    assert mended(well) == set()
    said = {row["name"]: row["mend"] for row in well.ok("doctor", "--json").json["findings"] if row["remark"]}
    assert tuple(said) == names and all(said.values())
    told = well.ok("doctor").out
    for name, mend in said.items():
        assert f"note {name}: " in told and f"     {mend}\n" in told


def test_a_new_repository_has_no_fault(repo: Sandbox) -> None:
    found = repo.ok("doctor")
    assert "MEND" not in found.out
    assert (
        "note hooks: git's hooks are not installed; they say when HEAD leaves a checkpoint\n     git baton install\n"
        in found.out
    )


@pytest.mark.deep
def test_git_baton_not_on_path_is_a_fault_of_hooks_alone(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path_without_us())
    assert mended(repo) == set() and "note path: " in repo.ok("doctor").out


@pytest.mark.full
def test_a_repository_that_is_well(well: Sandbox) -> None:
    assert mended(well) == set()
    names = [line[5:].split(":")[0] for line in well.ok("doctor").out.splitlines()]
    expected = ["git", "doors", "path", "hooks", "notes.displayRef", "notes.rewriteRef", "latest", "refs"]
    assert names == [*expected, "derived", "locks", "history", "filters"]


@pytest.mark.deep
@some(("name", "fault"), [(name, fault) for name, faults in FAULTS.items() for fault in faults])
def test_each_fault_is_found_and_nothing_else(well: Sandbox, name: str, fault: Callable[[Sandbox], None]) -> None:
    fault(well)
    assert mended(well) == {name}


@pytest.mark.deep
def test_what_is_no_fault(well: Sandbox) -> None:
    (well.path / ".git/refs/baton/tracks/t.lock").touch()  # of somebody at work
    well.git("config", "filter.unused.required", "true")
    well.git("config", "filter.lfs.required", "true")
    well.git("config", "filter.here.required", "true")
    well.git("config", "filter.here.clean", "cat %f")
    well.write(".gitattributes", "*.bin filter=here\n")
    well.write("x.bin", "x")
    well.git("add", "-A")
    well.git("config", "--unset-all", "notes.displayRef")
    (well.path / "runtime/checkpoints/LATEST.md").unlink()
    (well.path / "runtime/checkpoints/LATEST.json").unlink()
    assert mended(well) == set()


@pytest.mark.full
def test_git_baton_not_on_path(well: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path_without_us())
    assert mended(well) == {"path"}


@pytest.mark.deep
def test_an_old_git(well: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin/git"
    old.write_text(
        f'#!/bin/sh\ncase " $* " in *" version "*) echo git version 2.35.9;; *) exec "{shutil.which("git")}" "$@";; esac\n'
    )
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}{os.pathsep}{os.environ['PATH']}")
    assert mended(well) == {"git"}


@pytest.mark.deep
def test_many_tracks_are_looked_at_by_as_many_processes_as_two(well: Sandbox) -> None:
    counts = list[int]()
    for names in ("a", "bcdefg"):
        for name in names:
            well.ok("snapshot", "--track", name, "--step", name)
        began = list[Args]()
        with well.open(door="binary") as opened, at("os.posix_spawn", lambda _: True, began.append):
            history = next(found.text for found in examine(opened) if found.name == "history")
        counts.append(len(began))
        assert history == f"{2 if len(names) == 1 else 8} checkpoints"
    assert counts[0] == counts[1] > 0


@pytest.mark.deep
def test_a_long_history_is_said_with_its_cure(well: Sandbox) -> None:
    many_tracks(well.path, 1, depth=1001)
    rows = well.baton("doctor", "--json").json["findings"]
    (found,) = [row for row in rows if row["name"] == "history"]
    assert found["ok"] and found["remark"] and found["mend"] == "git config fetch.negotiationAlgorithm skipping"
    well.git("config", "fetch.negotiationAlgorithm", "skipping")
    (found,) = [row for row in well.baton("doctor", "--json").json["findings"] if row["name"] == "history"]
    assert found["ok"] and not found["remark"]


@pytest.mark.deep
@some("fault", [stale_latest, tip_behind, stale_lock, stale_head_lock])
def test_fix_repairs(well: Sandbox, fault: Callable[[Sandbox], None]) -> None:
    fault(well)
    assert well.baton("doctor").code == 1
    assert well.baton("doctor", "--fix").code == 0
    assert mended(well) == set()
    well.fsck()


@pytest.mark.deep
@some(
    "shape",
    ["bare", "unborn", "sha256", "reftable", "none", "detached", "broken chain", "linked"],
    share={"broken chain", "reftable", "sha256"},
)
def test_odd_repositories(repo: Sandbox, tmp_path: Path, shape: str, request: pytest.FixtureRequest) -> None:
    there, git = repo, "git"
    if shape == "bare":
        there = Sandbox.init(tmp_path / "x", "--bare")
    elif shape in ("unborn", "sha256"):
        there = Sandbox.init(tmp_path / "x", *(["--object-format=sha256"] if shape == "sha256" else []))
    elif shape == "reftable":
        git = request.getfixturevalue("new_git")
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "git").symlink_to(git)
        request.getfixturevalue("monkeypatch").setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        there = Sandbox.init(tmp_path / "x", "--ref-format=reftable")
    elif shape == "linked":
        repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "x"))
        there = Sandbox(tmp_path / "x")
    if shape in ("sha256", "reftable"):
        there.commit("first")
    there.ok("install")
    if shape != "none":
        there.ok("snapshot", "--track", "t", "--step", "s")
    if shape == "broken chain":
        (there.path / ".git/refs/baton/tracks/t").write_text("1" * 40 + "\n")
        done = there.baton("doctor")
        assert done.code == 1 and "MEND" in done.out and "Traceback" not in done.err
        there.baton("doctor", "--fix")
        return
    assert mended(there) == set() and git
    assert there.baton("doctor", "--fix").code == 0


def test_outside_of_a_repository(tmp_path: Path) -> None:
    done = Sandbox(tmp_path).baton("doctor")
    assert done.code == 128 and done.err.startswith("fatal: ") and len(done.err.splitlines()) == 1
