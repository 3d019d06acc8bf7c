"""Install and uninstall: every route, twice is once, and back to the very bytes (T10)."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import path_without_us
from tests.kit.tiers import some

EVENTS = ("post-checkout", "post-commit", "post-merge", "post-rewrite")


def picture(repo: Sandbox) -> dict[str, tuple[int, bytes]]:
    """Mode and bytes of everything that install may touch."""
    common = Path(repo.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
    files = [common / "config", *sorted((common / "hooks").rglob("*")), *sorted((common / "info").rglob("*"))]
    found: dict[str, tuple[int, bytes]] = {}
    for path in files:
        mode = os.lstat(path).st_mode if os.path.lexists(path) else 0
        data = os.readlink(path).encode() if stat.S_ISLNK(mode) else path.read_bytes() if stat.S_ISREG(mode) else b""
        found[str(path.relative_to(common))] = mode, data
    found["folders"] = 0, b" ".join(sorted(p.name.encode() for p in common.iterdir() if p.name != "index"))
    return found


def hook(repo: Sandbox, event: str, text: str, mode: int = 0o755) -> Path:
    path = repo.path / ".git/hooks" / event
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def new_git_first(tmp_path: Path, new_git: str, patch: pytest.MonkeyPatch) -> None:
    """A git that knows config hooks, first on PATH."""
    said = subprocess.run([new_git, "--version"], capture_output=True, text=True).stdout.split()[2]
    if tuple(int(n) for n in said.split(".")[:2]) < (2, 54):
        pytest.skip("no git of 2.54 or newer: set GITBATON_TEST_GIT")
    folder = tmp_path / "new-git"
    folder.mkdir()
    (folder / "git").symlink_to(os.path.realpath(shutil.which(new_git) or new_git))
    patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def snap_and_leave(repo: Sandbox) -> list[str]:
    """How often a checkout away from a checkpoint warns: the lines of ours."""
    repo.git("branch", "-f", "side", "HEAD")
    repo.commit("more")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    done = repo.run("git", "checkout", "-q", "side")
    assert done.code == 0, done.err
    repo.run("git", "checkout", "-q", "main")
    return [line for line in done.err.splitlines() if line.startswith("warning: HEAD has left")]


@pytest.mark.deep
def test_t10_into_a_plain_hooks_directory_and_back_to_the_byte(repo: Sandbox) -> None:
    hook(repo, "post-checkout", "#!/bin/sh\necho mine\n", 0o750)
    hook(repo, "post-merge", "#!/bin/sh\necho off\n", 0o644)
    (repo.path / ".git/hooks/post-commit").symlink_to("../../a.txt")
    (repo.path / ".git/hooks/post-rewrite").symlink_to("/nowhere")
    config = repo.path / ".git/config"
    config.write_text(config.read_text() + "# by hand\n[notes]\n\trewriteMode = concatenate\n; end\n")
    before = picture(repo)
    plan = repo.ok("install", "--dry-run").out
    assert picture(repo) == before and not (repo.path / ".git/baton").exists()
    done = repo.ok("install")
    assert plan == "".join(f"would {line}\n" for line in done.out.splitlines())
    after = picture(repo)
    assert repo.ok("install").out == "everything is in place\n"
    assert picture(repo) == after
    assert (
        repo.run("git", "checkout", "-q", "-b", "x").err + repo.run("git", "checkout", "-q", "main").out == "mine\nmine\n"[:5]
    )
    keys = repo.git("config", "--local", "--name-only", "--list").split("\n")
    assert [k for k in keys if k.startswith("notes.")] == ["notes.rewritemode", "notes.displayref", "notes.rewriteref"]
    plan = repo.ok("uninstall", "--dry-run").out
    assert picture(repo) == after
    done = repo.ok("uninstall")
    assert plan == "".join(f"would {line}\n" for line in done.out.splitlines())
    assert picture(repo) == before
    assert repo.ok("uninstall").out == "nothing of ours is installed\n"
    assert picture(repo) == before


@pytest.mark.deep
def test_t10_exclude_lines_go_as_they_came(repo: Sandbox) -> None:
    exclude = repo.path / ".git/info/exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("mine\n# context_checkpoint_ of mine\n")
    exclude.chmod(0o600)
    before = picture(repo)
    repo.ok("install")
    repo.ok("snapshot", "--track", "t", "--step", "s", "--label", "l")
    repo.ok("export", "--history")
    assert len(exclude.read_text().splitlines()) == 6
    repo.ok("uninstall")
    after = picture(repo)
    assert {k: v for k, v in after.items() if k != "folders"} == {k: v for k, v in before.items() if k != "folders"}
    repo.ok("resume")


@pytest.mark.full
@some("place", ["linked", "bare", "no hooks folder", "subfolder", "quo'te $HOME"])
def test_t10_from_anywhere(repo: Sandbox, tmp_path: Path, place: str) -> None:
    there = repo
    if place == "linked":
        repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
        there = Sandbox(tmp_path / "linked")
    elif place == "bare":
        repo.git("clone", "-q", "--bare", ".", str(tmp_path / "bare"))
        there = Sandbox(tmp_path / "bare")
    elif place == "no hooks folder":
        shutil.rmtree(repo.path / ".git/hooks", ignore_errors=True)
        shutil.rmtree(repo.path / ".git/info", ignore_errors=True)
    elif place == "subfolder":
        (repo.path / "sub").mkdir()
        there = Sandbox(repo.path / "sub")
    else:
        there = Sandbox.init(tmp_path / place)
        there.commit("first")
    before = picture(there)
    there.ok("install")
    assert {line.split(":")[0] for line in there.baton("doctor").out.splitlines() if "hooks" in line} == {"ok   hooks"}
    assert there.ok("install").out == "everything is in place\n"
    if place != "bare":
        assert there.run("git", "checkout", "-q", "-b", "fresh").err == ""
    there.ok("uninstall")
    after = picture(there)
    assert after == before


@pytest.mark.deep
def test_t10_no_display_and_values_that_cover_us_are_left(repo: Sandbox) -> None:
    repo.ok("install", "--no-display")
    assert repo.git("config", "--get-all", "notes.rewriteRef") == "refs/notes/checkpoints*"
    assert repo.try_git("config", "notes.displayRef").code == 1
    repo.ok("uninstall")
    repo.git("config", "notes.rewriteRef", "refs/notes/*")
    repo.git("config", "--global", "notes.displayRef", "refs/notes/checkpoints")
    before = picture(repo)
    assert "notes" not in repo.ok("install").out
    repo.ok("uninstall")
    assert picture(repo) == before


@pytest.mark.deep
def test_t10_an_older_script_of_ours_is_replaced_and_an_edited_one_is_not(repo: Sandbox) -> None:
    older = b"#!/bin/sh\n# gitbaton: 1\n# an older one\nexit 0\n"
    for event in EVENTS:
        hook(repo, event, older.decode())
    repo.ok("install")
    assert b"an older one" not in (repo.path / ".git/hooks/post-checkout").read_bytes()
    path = repo.path / ".git/hooks/post-merge"
    path.write_bytes(path.read_bytes() + b"echo more\n")
    done = repo.ok("install")
    assert "was changed since it was installed" in done.err and path.read_bytes().endswith(b"echo more\n")
    done = repo.ok("uninstall")
    assert "post-merge' was changed since it was installed and stays" in done.err
    assert sorted(p.name for p in path.parent.iterdir() if not p.name.endswith(".sample")) == ["post-merge"]


@pytest.mark.deep
def test_t10_a_foreign_hook_placed_over_ours_is_left_alone_and_said(repo: Sandbox) -> None:
    mine = hook(repo, "post-commit", "#!/bin/sh\n: kept\n")
    repo.ok("install")
    theirs = hook(repo, "post-checkout", "#!/bin/sh\n: theirs\n")
    later = hook(repo, "post-commit", "#!/bin/sh\n: later\n")
    assert repo.baton("doctor").code == 1
    done = repo.ok("uninstall")
    assert theirs.read_text() == "#!/bin/sh\n: theirs\n" and later.read_text() == "#!/bin/sh\n: later\n"
    kept = repo.path / ".git/hooks.baton-legacy/post-commit"
    assert f"'{mine}' is not ours any more; the hook kept as '{kept}' stays" in done.err
    assert kept.read_text() == "#!/bin/sh\n: kept\n"
    done = repo.ok("install")
    assert f"neither '{mine}' nor '{kept}' is ours, so neither is touched" in done.err
    assert theirs.read_bytes() != b"#!/bin/sh\n: theirs\n" and later.read_text() == "#!/bin/sh\n: later\n"


@pytest.mark.deep
@some("damage", ["gone", "empty", "other"])
def test_t10_without_the_manifest_the_marks_tell(repo: Sandbox, damage: str) -> None:
    before = picture(repo)
    hook(repo, "post-merge", "#!/bin/sh\n: kept\n")
    with_hook = picture(repo)
    repo.ok("install")
    manifest = repo.path / ".git/baton/installed"
    if damage == "gone":
        manifest.unlink()
    else:
        manifest.write_text("" if damage == "empty" else '{"config": 3}')
    repo.ok("uninstall")
    assert picture(repo) == with_hook and before != with_hook
    repo.git("config", "notes.displayRef", "refs/notes/checkpoints*")  # by the user's own hand
    alone = picture(repo)
    assert repo.ok("uninstall").out == "nothing of ours is installed\n"
    assert picture(repo) == alone


def test_t10_an_unreadable_disk_is_one_line(repo: Sandbox) -> None:
    shutil.rmtree(repo.path / ".git/hooks", ignore_errors=True)
    (repo.path / ".git/hooks").write_text("a file\n")
    done = repo.baton("install")
    assert done.code == 128 and done.err.startswith("fatal: write '") and len(done.err.splitlines()) == 1


def test_t10_config_hooks_on_a_new_git(repo: Sandbox, tmp_path: Path, new_git: str, monkeypatch: pytest.MonkeyPatch) -> None:
    new_git_first(tmp_path, new_git, monkeypatch)
    mine = hook(repo, "post-checkout", f"#!/bin/sh\necho called >>'{tmp_path}/called'\n")
    before = picture(repo)
    plan = repo.ok("install", "--dry-run").out
    done = repo.ok("install")
    assert plan == "".join(f"would {line}\n" for line in done.out.splitlines())
    assert mine.read_text().startswith("#!/bin/sh\necho called")
    for event in EVENTS:
        assert f"baton-{event}" in repo.git("hook", "list", event)
    assert repo.ok("install").out == "everything is in place\n"
    assert len(snap_and_leave(repo)) == 1
    assert (tmp_path / "called").read_text() == "called\n" * 2
    assert "ok   hooks: called from the configuration" in repo.baton("doctor").out
    repo.git("commit", "-q", "--allow-empty", "--amend", "-m", "again")
    repo.ok("verify")
    repo.git("config", "core.hooksPath", "/nowhere")
    assert len(snap_and_leave(repo)) == 1
    repo.git("config", "--unset", "core.hooksPath")
    repo.ok("uninstall", "--purge", "--yes")
    assert {k: v for k, v in picture(repo).items() if k != "folders"} == {k: v for k, v in before.items() if k != "folders"}


@pytest.mark.parametrize("damage", ["no folder", "no script", "no shebang", "not executable", "no package", "moved"])
def test_t09_a_config_hook_that_cannot_run_changes_no_exit_status(
    repo: Sandbox, tmp_path: Path, new_git: str, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    new_git_first(tmp_path, new_git, monkeypatch)
    repo.ok("install")
    repo.git("branch", "side")
    repo.commit("more")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    folder = repo.path / ".git/baton/hooks"
    if damage == "no folder":
        shutil.rmtree(repo.path / ".git/baton")
    elif damage == "no script":
        shutil.rmtree(folder)
    elif damage == "no shebang":
        for event in EVENTS:
            (folder / event).write_text("#!/nowhere/sh\n")
    elif damage == "not executable":
        for event in EVENTS:
            (folder / event).chmod(0o644)
    elif damage == "no package":
        monkeypatch.setenv("PATH", path_without_us())
    else:
        repo.path.rename(tmp_path / "elsewhere")
        repo = Sandbox(tmp_path / "elsewhere")
    for args in (("checkout", "-q", "side"), ("merge", "-q", "main"), ("commit", "-q", "--allow-empty", "-m", "x")):
        done = repo.run("git", *args)
        assert done.code == 0 and len(done.err.splitlines()) <= 1, (args, done.err)
    if damage not in ("no package",):
        found = repo.baton("doctor")
        assert found.code == 1 and "MEND" in found.out
        repo.ok("install")
        assert "MEND hooks" not in repo.baton("doctor").out and "MEND scripts" not in repo.baton("doctor").out


def test_t10_git_upgraded_after_install_and_back(
    repo: Sandbox, tmp_path: Path, new_git: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = hook(repo, "post-checkout", "#!/bin/sh\n: mine\n")
    before = picture(repo)
    repo.ok("install")
    with monkeypatch.context() as patch:
        new_git_first(tmp_path, new_git, patch)
        assert len(snap_and_leave(repo)) == 1 and "ok   hooks:" in repo.baton("doctor").out
        repo.ok("install")
        assert mine.read_text() == "#!/bin/sh\n: mine\n"
        assert len(snap_and_leave(repo)) == 1 and "ok   hooks:" in repo.baton("doctor").out
        shutil.copy(repo.path / ".git/baton/hooks/post-merge", repo.path / ".git/hooks/post-merge")
        done = repo.baton("doctor")
        assert done.code == 1 and "MEND hooks-once: called twice" in done.out
        repo.ok("install")
        assert "hooks-once" not in repo.baton("doctor").out
    if repo.git("hook", "run", "--ignore-missing", "nothing") == "" and "2.3" in repo.git("--version"):
        repo.ok("install")
        assert len(snap_and_leave(repo)) == 1 and repo.try_git("config", "--get-regexp", "^hook").code == 1
    repo.ok("uninstall", "--purge", "--yes")
    assert {k: v for k, v in picture(repo).items() if k != "folders"} == {k: v for k, v in before.items() if k != "folders"}
