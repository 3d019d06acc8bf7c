"""A stranger's clone may hold a whole bare repository as files, with programs in its configuration. No hook and no verb uses
it: the work tree that holds it is meant, where git's safe.bareRepository=explicit refuses. And no repository lets hooks act
everywhere."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.base.errors import NotARepositoryError
from tests.kit import Sandbox
from tests.kit.agents import CLIENTS, Client, autos, tracks
from tests.kit.tiers import full, some
from tests.verbs.test_tty import on_terminal

LIB = "vendor/lib"


def hostile(trace: Path, bare: str = "false", work_tree: str | None = "..") -> str:
    """A configuration each program of which leaves a trace."""
    touch = f"touch {trace};"
    place = f"worktree = {work_tree}\n" if work_tree else ""
    return (
        f"[core]\nrepositoryformatversion = 0\nbare = {bare}\n{place}pager = {touch} cat\nfsmonitor = {touch} echo\n"
        f"hooksPath = .\nsshCommand = {touch} ssh\nattributesFile = attributes\n"
        f'[diff]\nexternal = {touch} true\n[diff "x"]\ntextconv = {touch} cat\n'
        f'[filter "x"]\nclean = {touch} cat\nsmudge = {touch} cat\n[baton]\neverywhere = true\n'
    )


def embed(repo: Sandbox, config: str, folder: str = LIB, more: Callable[[Path], object] = lambda _: None) -> Path:
    """Put a bare repository into the files of another one."""
    lib = repo.path / folder
    repo.git("init", "-q", "--bare", str(lib))
    for name in ("hooks", "branches"):
        shutil.rmtree(lib / name, ignore_errors=True)
    (lib / "objects/.keep").touch()
    (lib / "refs/.keep").touch()
    (lib / "config").write_text(config)
    (lib / "attributes").write_text("* filter=x diff=x\n")
    (lib / "reference-transaction").write_text("#!/bin/sh\n")
    repo.write(f"{folder}/../code.c", "c\n")
    repo.write(f"{folder}/../.gitattributes", "* filter=x diff=x\n")
    more(lib)
    return lib


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "ran"


def cloned(source: Sandbox, place: Path) -> Sandbox:
    """All that the victim does."""
    source.git("add", "-A", "-f")
    source.git("commit", "-q", "-m", "vendor: lib")
    source.git("clone", "-q", str(source.path), str(place))
    return Sandbox(place)


def taken(repo: Sandbox) -> int:
    """How many checkpoints the track ``t`` has."""
    return len(repo.git("log", "--first-parent", "--grep=^{", "--format=%H", "refs/baton/tracks/t").splitlines())


def as_files(lib: Path) -> dict[str, bytes]:
    return {str(p.relative_to(lib)): p.read_bytes() for p in sorted(lib.rglob("*")) if p.is_file()}


def tracked_baton(lib: Path) -> None:
    """What gitbaton keeps in a repository that it is used in, and settings of a project that calls us."""
    (lib / "baton").mkdir()
    for name in ("flock", "expect", "installed"):
        (lib / "baton" / name).touch()
    ref = lib / "refs/baton/tracks/main"
    ref.parent.mkdir(parents=True)
    ref.write_text("1" * 40 + "\n")
    for place in (lib, lib.parent):
        (place / ".claude").mkdir()
        (place / ".claude/settings.json").write_text('{"hooks": {"Stop": [{"command": "git-baton hook claude"}]}}')


def broken(lib: Path) -> None:
    (lib / "config").write_text("[core\n")


def deeper(lib: Path) -> None:
    """Another one within it."""
    shutil.copytree(lib, lib.parent / "deep")
    (lib.parent / "deep").rename(lib / "objects/deep")


CASES: list[tuple[str, str, str | None, Callable[[Path], object], str]] = [
    ("its work tree around it", "false", "..", tracked_baton, ""),
    ("bare", "true", None, tracked_baton, ""),
    ("from below", "false", "..", tracked_baton, "objects"),
    ("work tree of all", "false", "../..", tracked_baton, ""),
    ("broken", "false", "..", broken, ""),
    ("one in another", "false", "..", deeper, "objects/deep"),
]


@pytest.mark.parametrize("used", [True, full(False)])
@some("name, bare, work_tree, more, at", [pytest.param(*case, id=case[0]) for case in CASES])
def test_no_hook_uses_it(
    repo: Sandbox,
    tmp_path: Path,
    trace: Path,
    name: str,
    bare: str,
    work_tree: str | None,
    more: Callable[[Path], object],
    at: str,
    used: bool,
) -> None:
    """Where the victim uses gitbaton, the turn's checkpoint is of the victim's files, else none is taken."""
    embed(repo, hostile(trace, bare, work_tree), more=more)
    victim = cloned(repo, tmp_path / "victim")
    before = as_files(victim.path / LIB)
    if used:
        victim.ok("snapshot", "--track", "mine", "s")
    client = Client("claude", victim.path / LIB / at)
    for event in ("start", "prompt", "edit", "turn", "end"):
        victim.write("new.txt", event)
        client.fire(event)
    assert not trace.exists()
    assert as_files(victim.path / LIB) == before
    assert tracks(victim) == (["mine"] if used else [])
    assert bool(autos(victim, "mine")) is used


@pytest.mark.deep
@some("agent", CLIENTS, 2, 2)
def test_no_client_leads_there(repo: Sandbox, tmp_path: Path, trace: Path, agent: str) -> None:
    """The folder of the payload, that of the client's variables, and that of the process."""
    embed(repo, hostile(trace), more=tracked_baton)
    victim = cloned(repo, tmp_path / "victim")
    place = victim.path / LIB
    client = Client(agent, place)
    for moment in ("start", "prompt", "turn"):
        event = client.words[moment]
        client.send(event, client.payload(event), cwd=tmp_path)
        client.send(event, client.moved({"session_id": "s", "hook_event_name": event}), cwd=place)
    assert not trace.exists() and not (victim.path / ".git/baton").exists()


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["linked", "submodule"])
def test_other_work_trees_hold_one_too(repo: Sandbox, tmp_path: Path, trace: Path, kind: str) -> None:
    embed(repo, hostile(trace), more=tracked_baton)
    victim = cloned(repo, tmp_path / "victim")
    if kind == "linked":
        victim.git("worktree", "add", "-q", str(tmp_path / "beside"))
        work = Sandbox(tmp_path / "beside")
    else:
        victim.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repo.path), "sub")
        work = Sandbox(victim.path / "sub")
    work.ok("snapshot", "--track", "t", "s")
    work.write("new.txt", "new\n")
    Client("claude", work.path / LIB).fire("turn")
    assert not trace.exists() and taken(work) == 2


VERBS = (
    "status; resume; verify; log -p; log --stat; diff; show; tracks; doctor; blame ../code.c; why ../code.c:1; summary; du"
    "; scan; agent doctor; restore @~1 --force; undo; redo; run --step a -- true; run list; thread list; export; branch b"
    "; push; fetch; bisect --good @~1 -- true; install; worktree ../../../beside; prune --keep-last 1; uninstall"
)


@pytest.mark.deep
def test_no_verb_uses_it(repo: Sandbox, tmp_path: Path, trace: Path) -> None:
    embed(repo, hostile(trace), more=tracked_baton)
    victim = cloned(repo, tmp_path / "victim")
    before = as_files(victim.path / LIB)
    inside = Sandbox(victim.path / LIB)
    done = inside.ok("snapshot", "--track", "t", "one")
    assert f"warning: '{inside.path}', a bare repository, lies in the work tree '{victim.path}', which is used\n" == done.err
    victim.write("vendor/code.c", "changed\n")
    victim.write("a.txt", "changed\n")
    inside.ok("snapshot", "--track", "t", "two")
    assert tracks(victim) == ["t"] and victim.git("show", "refs/baton/tracks/t:a.txt") == "changed"
    victim.write("vendor/code.c", "again\n")
    victim.write("a.txt", "again\n")
    for verb in VERBS.split("; "):
        inside.baton(*verb.split())
        assert not trace.exists(), verb
    for words in (("diff",), ("log", "-p"), ("log", "-p", "--", "../code.c"), ("diff", "--", "../code.c"), ("status",)):
        assert on_terminal(inside, *words)[0] == 0
        assert not trace.exists(), words
    assert as_files(inside.path) == before
    assert "a.txt" in inside.ok("diff", "--name-status", "--", "../../a.txt").out


@pytest.mark.deep
def test_the_api_uses_it_where_its_own_path_is_given(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As git with --git-dir; a folder within it, and the current directory, name the work tree."""
    lib = embed(repo, "[core]\nrepositoryformatversion = 0\nbare = true\n")
    with Baton(lib) as baton:
        assert baton.repo.layout.git_dir == str(lib)
    monkeypatch.chdir(lib)
    for place in (None, lib / "refs"):
        with Baton(place) as baton:
            assert baton.repo.layout.root == str(repo.path)
    for done in (
        repo.baton("--repo-root", str(lib), "snapshot", "--track", "theirs", "s", cwd=tmp_path),
        repo.baton("snapshot", "--track", "theirs", "s", cwd=lib, env={"GIT_DIR": "."}),
    ):
        assert done.code == 0 and done.err.startswith("warning: this repository is bare: ") and done.err.count("\n") == 1
    assert tracks(Sandbox(lib)) == ["theirs"] and tracks(repo) == []


@pytest.mark.deep
def test_a_bare_repository_in_no_work_tree_is_the_verbs_but_no_hooks(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("clone", "-q", "--bare", str(repo.path), str(tmp_path / "x.git"))
    bare = Sandbox(tmp_path / "x.git")
    assert bare.ok("snapshot", "--track", "t", "s", "--no-files").err == ""
    bare.git("config", "core.bare", "false")
    bare.git("config", "core.worktree", str(repo.path))
    repo.write("new.txt", "new\n")
    Client("claude", bare.path).fire("turn")
    assert taken(bare) == 1
    done = bare.baton("snapshot", "--track", "t", "s")
    assert done.code == 128 and "is no '.git' of a work tree, and nobody named it\nhint: name it: " in done.err
    assert bare.baton("snapshot", "--track", "t", "s", env={"GIT_DIR": "."}).code == 0 and taken(bare) == 2


@pytest.mark.deep
def test_with_the_users_own_setting_it_has_to_be_named(repo: Sandbox, tmp_path: Path, trace: Path) -> None:
    embed(repo, hostile(trace))
    repo.git("config", "--global", "safe.bareRepository", "explicit")
    assert repo.baton("snapshot", "--track", "t", "s", cwd=repo.path / LIB).code == 0 and tracks(repo) == ["t"]
    bare = Sandbox.init(tmp_path / "x.git", "--bare")
    done = bare.baton("status")
    first, hint = done.err.splitlines()
    assert done.code == 128 and first.startswith("fatal: ") and "safe.bareRepository is 'explicit'" in first
    typed = hint.removeprefix("hint: name it: ").replace("PATH", shlex.quote(str(bare.path))).replace("...", "tracks")
    assert repo.run("sh", "-c", typed, cwd=tmp_path).err == ""
    with pytest.raises(NotARepositoryError):
        Baton(bare.path / "refs")
    assert not trace.exists()


@pytest.mark.deep
def test_within_the_git_folder_of_a_work_tree_that_is_meant(repo: Sandbox) -> None:
    inside = repo.path / ".git/refs"
    assert repo.baton("snapshot", "--track", "t", "s", cwd=inside).err == ""
    assert tracks(repo) == ["t"]


@pytest.mark.parametrize("place", ["repository", *(pytest.param(x, marks=pytest.mark.deep) for x in ("include", "worktree"))])
def test_no_repository_lets_hooks_act_everywhere(repo: Sandbox, tmp_path: Path, place: str) -> None:
    if place == "include":
        (tmp_path / "more").write_text("[baton]\neverywhere = true\n")
        repo.git("config", "include.path", str(tmp_path / "more"))
    elif place == "worktree":
        repo.git("config", "extensions.worktreeConfig", "true")
        repo.git("config", "--worktree", "baton.everywhere", "true")
    else:
        repo.git("config", "baton.everywhere", "true")
    client = Client("claude", repo.path, home=Path(os.environ["HOME"]))
    client.turn("do")
    assert tracks(repo) == [] and not (repo.path / ".git/baton").exists()


@pytest.mark.deep
def test_who_set_it_there_learns_what_counts(repo: Sandbox) -> None:
    """What doctor says mends it; system, user and command line count."""
    repo.git("config", "baton.everywhere", "true")
    repo.ok("agent", "install", "claude", "--user")
    rows = {row["name"]: row for row in repo.baton("agent", "doctor", "--json").json["findings"]}
    assert not rows["user reach"]["ok"] and rows["user reach"]["mend"] == ("git config --global baton.everywhere true")
    (row,) = [r for r in repo.baton("doctor", "--json").json["findings"] if r["name"] == "baton.everywhere"]
    assert not row["ok"] and "does not count" in row["text"]
    assert repo.run("sh", "-c", row["mend"]).code == 0
    assert not [r for r in repo.baton("doctor", "--json").json["findings"] if r["name"] == "baton.everywhere"]
    Client("claude", repo.path, home=Path(os.environ["HOME"])).turn("do")
    assert tracks(repo) == ["main"]
    repo.git("config", "baton.everywhere", "no")
    (row,) = [r for r in repo.baton("doctor", "--json").json["findings"] if r["name"] == "baton.everywhere"]
    assert "baton.auto=off" in row["text"] and repo.run("sh", "-c", row["mend"]).code == 0


@pytest.mark.deep
def test_the_command_line_counts(repo: Sandbox) -> None:
    passed = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "baton.everywhere", "GIT_CONFIG_VALUE_0": "true"}
    client = Client("claude", repo.path)
    client.send("Stop", client.payload("Stop"), env=passed)
    assert tracks(repo) == ["main"]
