"""``git baton worktree``: a checkpoint's head, files and index beside this work tree, which stays as it is."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gitbaton.base.errors import GitError
from gitbaton.care.tools import branching
from tests.kit import Outcome, Sandbox
from tests.kit.threads import unprivileged
from tests.kit.tiers import some


def seen(place: Path) -> dict[str, bytes]:
    """Every file and link below a directory, but for git's own."""
    found = {}
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place))
        if name.split("/")[0] == ".git" or name.startswith("runtime") or (path.is_dir() and not path.is_symlink()):
            continue
        found[name] = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
    return found


@pytest.fixture
def busy(repo: Sandbox) -> Sandbox:
    """Staged, then edited; intent-to-add; deleted; untracked; a link; an executable; assume-unchanged."""
    repo.commit("second", gone_txt="x\n", kept_txt="k\n")
    repo.write("s.txt", "staged\n")
    repo.git("add", "s.txt")
    repo.write("s.txt", "edited\n")
    repo.write("intent.txt", "i\n")
    repo.git("add", "-N", "intent.txt")
    (repo.path / "gone.txt").unlink()
    repo.write("new/run.sh", "#!/bin/sh\n").chmod(0o755)
    (repo.path / "link").symlink_to("nowhere")
    repo.git("update-index", "--assume-unchanged", "kept.txt")
    repo.ok("snapshot", "--track", "t", "--step", "busy")
    return repo


@some("word", ["list", "remove", "prune"], 1)
def test_a_verb_of_git_worktree_is_no_directory(repo: Sandbox, word: str) -> None:
    repo.ok("snapshot", "--track", "t", "begun")
    done = repo.baton("worktree", word)
    assert done.code == 129 and f"hint: 'git worktree {word}" in done.err and not (repo.path / word).exists()
    assert "checked out in './list'" in repo.ok("worktree", "./list").out


def test_the_state_beside_is_the_state_at_the_checkpoint(busy: Sandbox, tmp_path: Path) -> None:
    status, listed = busy.git("status", "--porcelain=v2"), busy.git("ls-files", "-s", "-v")
    files, refs = seen(busy.path), busy.git("for-each-ref")
    busy.git("update-index", "--no-assume-unchanged", "kept.txt")
    busy.write("s.txt", "later\n")
    before = busy.git("status", "--porcelain=v2")
    done = busy.ok("worktree", "t", str(tmp_path / "beside"))
    beside = Sandbox(tmp_path / "beside")
    assert "checked out" in done.out and "busy" in done.out
    assert beside.git("status", "--porcelain=v2") == status
    assert beside.git("ls-files", "-s", "-v") == listed
    assert seen(beside.path) == files
    assert beside.head() == busy.head() and beside.try_git("symbolic-ref", "-q", "HEAD").code == 1
    assert busy.git("status", "--porcelain=v2") == before and busy.git("for-each-ref") == refs
    assert not list((busy.path / ".git").rglob("*.lock"))


@pytest.mark.deep
def test_conflicts_come_along(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("switch", "-q", "-c", "side")
    repo.commit("theirs", a_txt="theirs\n")
    repo.git("switch", "-q", "main")
    repo.commit("ours", a_txt="ours\n")
    assert repo.try_git("merge", "side").code == 1
    repo.ok("snapshot", "--track", "t", "--step", "in conflict")
    repo.ok("worktree", "t", str(tmp_path / "beside"))
    beside = Sandbox(tmp_path / "beside")
    assert beside.git("ls-files", "-u") == repo.git("ls-files", "-u") != ""
    assert (beside.path / "a.txt").read_bytes() == (repo.path / "a.txt").read_bytes()


def test_an_unborn_head(tmp_path: Path) -> None:
    repo = Sandbox.init(tmp_path / "repo")
    repo.write("a", "a\n")
    repo.ok("snapshot", "--track", "t", "--step", "none yet")
    done = repo.ok("worktree", "t", str(tmp_path / "beside"))
    assert "warning: the checkpoint stands on no commit" in done.err
    assert seen(tmp_path / "beside") == {"a": b"a\n"}


@pytest.mark.deep
def test_a_directory_in_use_is_refused(busy: Sandbox, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").write_text("x")
    for place in (taken, taken / "mine"):
        done = busy.baton("worktree", "t", str(place))
        assert done.code == 128 and done.err.startswith(f"fatal: '{place}' already exists")
    assert busy.baton("worktree", "nowhere", str(tmp_path / "x")).code == 2
    assert busy.baton("worktree", "t", "").code == 129
    busy.ok("snapshot", "--track", "bare", "--step", "words", "--no-files")
    done = busy.baton("worktree", "bare", str(tmp_path / "x"))
    assert done.code == 128 and "without files" in done.err
    assert busy.git("worktree", "list").count("\n") == 0 and not (tmp_path / "x").exists()


@pytest.mark.parametrize("there", [False, True])
def test_a_failure_leaves_nothing(busy: Sandbox, tmp_path: Path, there: bool) -> None:
    """A blob of the checkpoint is missing: git cannot write the file. An empty folder of the user's stays."""
    if there:
        (tmp_path / "beside").mkdir()
    blob = busy.git("rev-parse", "refs/baton/tracks/t:new/run.sh")
    loose = busy.loose(blob)
    loose.chmod(0o644)
    loose.unlink()
    done = busy.baton("worktree", "t", str(tmp_path / "beside"))
    assert done.code == 128 and done.err.startswith("fatal: ")
    assert (os.listdir(tmp_path / "beside") == []) if there else not (tmp_path / "beside").exists()
    assert busy.git("worktree", "list").count("\n") == 0


def test_an_error_of_the_system_leaves_nothing_either(busy: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(path: str, mode: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    place = tmp_path / "beside"
    with busy.open() as baton:
        plan = branching.plan_worktree(baton, baton.tip("t"), str(place))
        monkeypatch.setattr(os, "chmod", read_only)
        with pytest.raises(GitError, match="Read-only file system"):
            branching.apply_worktree(baton, plan)
    assert not place.exists() and busy.git("worktree", "list").count("\n") == 0


def test_a_failure_leaves_no_folder_that_is_read_only(busy: Sandbox, tmp_path: Path) -> None:
    place = tmp_path / "beside"
    code = f"""
import errno, os
from gitbaton import Baton
from gitbaton.base.errors import GitError
from gitbaton.care.tools import branching

link = os.link
def refused(source, target, **more):
    if not os.fspath(target).endswith("index.lock"):
        return link(source, target, **more)
    os.chmod(os.path.join({str(place)!r}, "new"), 0o500)
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))
os.link = refused
with Baton({str(busy.path)!r}) as baton:
    try:
        branching.apply_worktree(baton, branching.plan_worktree(baton, baton.tip("t"), {str(place)!r}))
    except GitError as error:
        print(error)
"""
    done = unprivileged(busy, code)
    assert done.out.endswith("cannot be made: Read-only file system\n") and done.err == ""
    assert not place.exists() and busy.git("worktree", "list").count("\n") == 0


@pytest.mark.deep
def test_dry_run_and_json(busy: Sandbox, tmp_path: Path) -> None:
    place = tmp_path / "beside"
    assert busy.ok("worktree", "--dry-run", "t", str(place)).out.startswith("would check out")
    assert not place.exists()
    done = busy.ok("worktree", "--json", "t", str(place)).json
    assert done["directory"] == str(place) and done["head"] == busy.head() and not done["dry_run"]
    assert seen(place)["s.txt"] == b"edited\n"


@pytest.fixture
def listing(repo: Sandbox) -> Sandbox:
    """A repository that ignores more than its ``.worktreeinclude`` lists, and lists more than it ignores."""
    repo.write(".gitignore", ".env*\n*.key\nbig/\nnode_modules/\nlink\nodd*\nnest/\nlocal\nout/\npipe\n")
    rules = (
        "# what a work tree needs\n.env*\n!.env.example\n/big/\nlink\nodd*\nnest/\na.txt\nfree\n**/*.key\nlocal\nout/\npipe\n"
    )
    repo.write(".worktreeinclude", rules)
    repo.commit("rules")
    for name, text in (
        (".env", "S=1\n"),
        (".env.example", "e"),
        ("sub/server.key", "k"),
        ("node_modules/m", "m"),
        ("free", "f"),
    ):
        repo.write(name, text)
    repo.write("big/x", os.urandom(1 << 21))
    repo.write("odd\n\t\udcff ü".encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape"), "o")
    repo.write("local", "here\n").chmod(0o750)
    (repo.path / ".env").chmod(0o600)
    (repo.path / "big").chmod(0o700)
    (repo.path / "link").symlink_to("/etc/passwd")
    (repo.path / "out").symlink_to("..")
    os.mkfifo(repo.path / "pipe")
    Sandbox.init(repo.path / "nest").write("inner", "i")
    repo.ok("snapshot", "--track", "t", "one")
    return repo


COPIED = {".env", "big/x", "odd\n\t\udcff ü", "sub/server.key", "local"}


def test_ignored_files_that_are_listed_are_copied_and_secrets_named(listing: Sandbox, tmp_path: Path) -> None:
    status, place = listing.git("status", "--porcelain", "--ignored"), tmp_path / "beside"
    planned = listing.ok("worktree", "-n", str(place))
    assert "would copy 5 ignored files that .worktreeinclude lists: " in planned.out and not place.exists()
    done = listing.ok("worktree", str(place))
    assert "copied 5 ignored files that .worktreeinclude lists: '.env', 'big/x', 'local' and 2 more\n" in done.out
    assert "of them 2 whose names say that they hold secrets: '.env', 'sub/server.key'\n" in done.out
    assert "S=1" not in done.out + done.err
    here = {os.fsdecode(path) for path in listing.run("find", ".", "-type", "f", "-printf", "%P\\0", cwd=place).out.split("\0")}
    assert {name for name in here if name} - {".git"} == COPIED | {"a.txt", ".gitignore", ".worktreeinclude", "free"}
    for name in COPIED:
        old, new = (listing.path / name).lstat(), (place / name).lstat()
        assert (listing.path / name).read_bytes() == (place / name).read_bytes() and old.st_ino != new.st_ino
        assert (old.st_mode, old.st_mtime_ns) == (new.st_mode, new.st_mtime_ns)
    assert (place / "big").stat().st_mode & 0o777 == 0o700
    for left, why in (
        ("link", "it is a symbolic link"),
        ("nest/", "it is a repository of its own"),
    ):
        assert f"warning: '{left}' is not copied: {why}" in done.err
    assert listing.git("status", "--porcelain", "--ignored") == status and "out" not in here


def test_nothing_is_copied_where_that_is_not_wanted_or_nothing_lists_it(listing: Sandbox, tmp_path: Path) -> None:
    listing.ok("worktree", "--no-include", str(tmp_path / "one"))
    assert not COPIED & {name.name for name in (tmp_path / "one").iterdir()}
    (listing.path / ".worktreeinclude").unlink()
    (listing.path / ".worktreeinclude").symlink_to(listing.write("rules", ".env\n"))
    done = listing.ok("worktree", str(tmp_path / "two"), "--json")
    left = [{"path": ".worktreeinclude", "reason": "it is no regular file, and lists nothing"}]
    assert (done.json["included"], done.json["secret"], done.json["left_out"]) == ([], [], left)
    (listing.path / ".worktreeinclude").unlink()
    assert "ignored file" not in listing.ok("worktree", str(tmp_path / "three")).out


def test_what_is_there_stays_and_what_is_not_ignored_there_is_named(repo: Sandbox, tmp_path: Path) -> None:
    repo.write("local", "of the commit\n")
    repo.commit("local is tracked")
    repo.ok("snapshot", "--track", "t", "one")
    repo.git("rm", "-q", "--cached", "local")
    repo.write(".gitignore", "local\nother\n")
    repo.write(".worktreeinclude", "local\nother\n")
    repo.write("local", "mine\n")
    repo.write("other", "mine\n")
    done = repo.ok("worktree", str(tmp_path / "beside"))
    assert (tmp_path / "beside" / "local").read_text() == "of the commit\n"
    assert "warning: 'local' is not copied: something is there already, and stays\n" in done.err
    assert "warning: 'other' is not ignored in the new work tree: 'git add' takes such files\n" in done.err
    assert (tmp_path / "beside" / "other").read_text() == "mine\n"


@pytest.mark.deep
def test_a_step_beside_has_every_ignored_file(listing: Sandbox) -> None:
    done = listing.ok(
        "run", "--step", "s", "--isolate", "tree", "--writes", "made", "--", "sh", "-c", "cat .env local big/x >made"
    )
    assert done.code == 0 and (listing.path / "made").stat().st_size == (1 << 21) + len("S=1\nhere\n")


def test_a_list_that_cannot_be_read_hinders_nothing(listing: Sandbox, tmp_path: Path) -> None:
    def worktree(name: str) -> Outcome:
        words = ["git-baton", "worktree", str(tmp_path / name)]
        return unprivileged(listing, f"import sys; sys.argv = {words!r}; from gitbaton.cli.main import run; run()")

    (listing.path / ".worktreeinclude").chmod(0)
    (listing.path / ".env").chmod(0)
    done = worktree("one")
    assert done.code == 0 and (tmp_path / "one" / "a.txt").exists()
    assert "warning: '.worktreeinclude' is not copied: it lists nothing: " in done.err
    (listing.path / ".worktreeinclude").chmod(0o644)
    done = worktree("two")
    assert "warning: '.env' is not copied: Permission denied\n" in done.err and "'sub/server.key'" in done.out
