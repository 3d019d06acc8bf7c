"""T23: every verb on odd repositories works, or ends with one documented code and one ``fatal:`` line."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kit import Outcome, Sandbox
from tests.kit.tiers import some

VERBS = (
    ("snapshot", "--track", "main", "--step", "done"),
    ("resume", "--live"),
    ("verify",),
    ("status",),
    ("log",),
    ("show",),
    ("tracks",),
    ("tracks", "use", "main"),
)
CODES = (0, 1, 2, 128, 129)


def one_line(done: Outcome) -> None:
    """A documented code; when it is fatal, one line that says why, and hints."""
    assert done.code in CODES and "Traceback" not in done.err and "this is a bug" not in done.err, done
    lines = done.err.splitlines()
    assert all(line.startswith(("fatal: ", "hint: ", "warning: ")) for line in lines if line.strip()), done.err
    assert sum(line.startswith("fatal: ") for line in lines) == (done.code in (2, 128, 129)), done.err


def check_every_verb(box: Sandbox, *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
    """Each verb succeeds, and git finds nothing wrong afterwards."""
    for words in VERBS:
        done = box.baton(*words, env=env, cwd=cwd)
        one_line(done)
        assert done.code == 0, (words, done)
    box.fsck()


def check_refused(box: Sandbox, said: str, *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
    """Each verb ends with 128 and these words."""
    for words in VERBS:
        done = box.baton(*words, env=env, cwd=cwd)
        one_line(done)
        assert done.code == 128 and said in done.err, (words, done)


def shape(path: Path, kind: str) -> Sandbox:
    """A repository of an odd kind."""
    source = Sandbox.init(path / "source")
    source.commit("first", a_txt="one\n")
    source.commit("second", a_txt="two\n")
    box = Sandbox(path / "box")
    if kind in ("shallow", "partial", "alternates", "bare"):
        option = {"shallow": "--depth=1", "partial": "--filter=blob:none", "alternates": "--shared", "bare": "--bare"}[kind]
        source.git("config", "uploadpack.allowFilter", "true")
        source.git("clone", "-q", option, f"file://{source.path}" if kind != "alternates" else str(source.path), str(box.path))
        return box
    if kind in ("linked", "linked of bare"):
        main = source
        if kind == "linked of bare":
            source.git("clone", "-q", "--bare", str(source.path), str(path / "bare"))
            main = Sandbox(path / "bare")
        main.git("worktree", "add", "-q", "-b", "side", str(box.path))
        return box
    options = {"sha256": ("--object-format=sha256",), "git file": (f"--separate-git-dir={path / 'elsewhere'}",)}.get(kind, ())
    Sandbox.init(box.path, *options)
    if kind != "no commits":
        box.commit("first", a_txt="one\n", b_txt="two\n")
    settings: dict[str, list[tuple[str, ...]]] = {
        "detached": [("checkout", "-q", "--detach")],
        "split index": [("update-index", "--split-index")],
        "sparse index": [("sparse-checkout", "set", "--cone", "--sparse-index", "d")],
        "partialClone": [("config", "core.repositoryformatversion", "1"), ("config", "extensions.partialClone", "o")],
        "refstorage": [("config", "core.repositoryformatversion", "0"), ("config", "extensions.refstorage", "reftable")],
        "inside a submodule": [("submodule", "add", "-q", str(source.path), "sub"), ("commit", "-qm", "sub")],
        "submodule": [("submodule", "add", "-q", str(source.path), "sub")],
        "nested": [("init", "-q", "nested")],
    }
    for command in settings.get(kind, []):
        box.git(*command)
    return Sandbox(box.path / "sub") if kind == "inside a submodule" else box


KINDS = (
    *("no commits", "bare", "linked", "linked of bare", "detached", "submodule", "inside a submodule", "nested", "sha256"),
    *("partial", "partialClone", "refstorage", "shallow", "split index", "sparse index", "git file", "alternates"),
)


@pytest.mark.deep
@some("kind", KINDS, share=3)
def test_t23_every_verb(kind: str, tmp_path: Path) -> None:
    check_every_verb(shape(tmp_path, kind))


@pytest.mark.deep
def test_t23_reftable(new_git: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.path.isabs(new_git):
        monkeypatch.setenv("PATH", os.path.dirname(new_git) + os.pathsep + os.environ["PATH"])
    box = Sandbox.init(tmp_path / "box", "--ref-format=reftable")
    check_every_verb(box)
    box.commit("first", a_txt="one\n")
    check_every_verb(box)


@pytest.mark.deep
def test_t23_no_identity(repo: Sandbox) -> None:
    (Path(os.environ["HOME"]) / ".gitconfig").unlink()
    check_every_verb(repo)
    done = repo.ok("snapshot", "--track", "main", "--step", "again")
    assert "warning: git knows no identity" in done.err
    assert repo.git("log", "-1", "--format=%an <%ae>", "refs/baton/tracks/main") == "gitbaton <gitbaton@localhost>"


@pytest.mark.deep
def test_t23_core_worktree(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "box")
    box.commit("first", a_txt="one\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("moved\n")
    box.git("config", "core.worktree", str(tree))
    check_every_verb(box)
    assert box.git("cat-file", "-p", "refs/baton/tracks/main:a.txt") == "moved"


@pytest.mark.full
def test_t23_inside_the_git_directory(repo: Sandbox) -> None:
    repo.write("new.txt", "new\n")
    check_every_verb(repo, cwd=repo.path / ".git")
    check_every_verb(repo, cwd=repo.path / ".git" / "refs")
    assert repo.git("cat-file", "-p", "refs/baton/tracks/main:new.txt") == "new"


@pytest.mark.full
def test_t23_git_dir_and_work_tree_given(repo: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    check_every_verb(repo, env={"GIT_DIR": "../../repo/.git", "GIT_WORK_TREE": "../../repo"}, cwd=tmp_path / "deep" / "er")
    check_every_verb(repo, env={"GIT_DIR": str(repo.path / ".git")})
    (repo.path / "sub").mkdir()
    check_every_verb(repo, env={"GIT_WORK_TREE": ".."}, cwd=repo.path / "sub")
    assert sorted(repo.tree("refs/baton/tracks/main")) == ["a.txt"]


@pytest.mark.deep
def test_t23_another_repository_is_not_touched(repo: Sandbox, tmp_path: Path) -> None:
    other = Sandbox.init(tmp_path / "other")
    other.commit("other", b_txt="b\n")
    before = sorted((str(p), p.stat().st_mtime_ns) for p in other.path.rglob("*"))
    leak = {
        "GIT_DIR": str(other.path / ".git"),
        "GIT_WORK_TREE": str(other.path),
        "GIT_INDEX_FILE": str(other.path / ".git/index"),
    }
    for words in VERBS:
        assert repo.baton("--repo-root", str(repo.path), *words, env=leak, cwd=other.path).code == 0, words
    assert before == sorted((str(p), p.stat().st_mtime_ns) for p in other.path.rglob("*"))
    assert sorted(repo.tree("refs/baton/tracks/main")) == ["a.txt"]


@pytest.mark.full
def test_t23_as_a_verb_of_git(repo: Sandbox, tmp_path: Path) -> None:
    for front in (("-C", str(repo.path)), ("--git-dir", "repo/.git", "--work-tree", "repo")):
        for words in VERBS:
            done = repo.run("git", *front, "baton", *words, cwd=tmp_path)
            one_line(done)
            assert done.code == 0, (front, words, done)
    done = repo.run("git", "-c", "baton.track=given", "baton", "snapshot", "--step", "x")
    assert done.code == 0 and done.out.startswith("given ")


def test_a_repository_that_may_not_be_read_is_not_called_none(repo: Sandbox) -> None:
    lesser = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
    words = [*(lesser if os.geteuid() == 0 else ()), sys.executable, "-m", "gitbaton", "thread", "list"]
    (repo.path / "sub").mkdir()
    (repo.path / ".git").chmod(0)
    try:
        done = repo.run(*words, cwd=repo.path / "sub")
    finally:
        (repo.path / ".git").chmod(0o755)
    assert done.code == 128 and done.err == f"fatal: '{repo.path / '.git'}' cannot be read: Permission denied\n"


def test_an_extension_that_git_does_not_know_is_named(repo: Sandbox) -> None:
    repo.git("config", "core.repositoryFormatVersion", "1")
    repo.git("config", "extensions.later", "true")
    done = repo.here("thread", "list")
    assert (done.code, done.err) == (128, "fatal: unknown repository extension found: later\nhint: a newer git knows it\n")


@pytest.mark.full
def test_t23_no_repository(tmp_path: Path) -> None:
    box = Sandbox(tmp_path / "nothing")
    box.path.mkdir()
    check_refused(box, "is not in a git repository")
    check_refused(box, "not a git repository: ", env={"GIT_DIR": "missing"})
    (box.path / ".git").write_text("gitdir: /nowhere\n")
    check_refused(box, "not a git repository: /nowhere")


@pytest.mark.deep
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_t23_a_repository_of_somebody_else(repo: Sandbox) -> None:
    for path in (repo.path, repo.path / ".git"):
        os.chown(path, 12345, 12345)
    check_refused(repo, "dubious ownership")
    assert f"hint: git config --global --add safe.directory {repo.path}" in repo.baton("status").err


@pytest.mark.full
@some("name", ["a b", "quo'te\"d", "ü\u202e", "dollar$(x)", "back\\slash", "*?[", "-dash"])
def test_t23_odd_paths(name: str, tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / name)
    box.commit("first", a_txt="one\n")
    check_every_verb(box)
    done = box.baton("--repo-root", str(box.path), "status", cwd=tmp_path)
    assert done.code == 0, done
    dry = box.baton("snapshot", "--track", "main", "--step", "x", "--dry-run")
    assert dry.code == 0, dry


@pytest.mark.deep
def test_t23_a_path_with_a_line_break(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "a\nb")
    check_refused(box, "has a line break")
