"""What cannot come back is left and named, path by path, with the reason; all else comes back, and undo is exact."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitbaton.git.worktree.checkout import NESTED
from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.repos import Outcome
from tests.kit.state import Entry, State, actions, path_of, snap, state_of
from tests.kit.tiers import some

TEXT = "what is to come back\n"


def loose(box: Sandbox) -> None:
    """Make each object a file of its own."""
    for path in (box.path / ".git/objects/pack").glob("pack-*.pack"):
        raw = path.read_bytes()
        for part in path.parent.glob(path.stem + ".*"):
            part.unlink()
        box.git("unpack-objects", "-q", stdin=raw)


def file_of(box: Sandbox, oid: str) -> Path:
    return box.path / ".git/objects" / oid[:2] / oid[2:]


def lose(box: Sandbox, oid: str) -> str:
    """Remove an object; the reason that is given then."""
    loose(box)
    file_of(box, oid).unlink()
    return f"object {oid} is not here, or torn"


def tear(box: Sandbox, oid: str, at: int) -> str:
    """Damage an object; the reason that is given then."""
    loose(box)
    place = file_of(box, oid)
    raw = place.read_bytes()
    place.chmod(0o644)
    place.write_bytes(raw[:at] + b"garbage" + raw[at + 7 :])
    return f"object {oid} is not here, or torn"


def blob(box: Sandbox) -> str:
    return box.git("hash-object", "--stdin", stdin=TEXT.encode())


def lose_tree(box: Sandbox) -> str:
    return lose(box, box.git("mktree", stdin=f"100644 blob {blob(box)}\tp.txt\n".encode()))


def any_name(box: Sandbox) -> None:
    box.git("config", "core.protectNTFS", "false")
    box.git("config", "core.protectHFS", "false")


def no_odd_name(box: Sandbox) -> str:
    box.git("config", "core.protectNTFS", "true")
    box.git("config", "core.protectHFS", "true")
    return "invalid-name"


def filtered(box: Sandbox) -> None:
    for key in ("clean", "smudge"):
        box.git("config", f"filter.f.{key}", "cat")
    box.write(".git/info/attributes", "*.f filter=f\n")


def failing(box: Sandbox) -> str:
    box.git("config", "filter.f.smudge", "false")
    box.git("config", "filter.f.required", "true")
    return "filter-missing"


def nothing(box: Sandbox) -> None:
    """Nothing has to be arranged."""


@dataclass(frozen=True)
class Kind:
    """Files that cannot come back once ``block`` was called, which gives the reason; ``named``: what is named, if not they."""

    paths: tuple[str, ...]
    block: Callable[[Sandbox], str]
    arrange: Callable[[Sandbox], None] = nothing
    named: str = ""


KINDS = {
    "blob-gone": Kind(("p.txt",), lambda box: lose(box, blob(box))),
    "blob-torn": Kind(("p.txt",), lambda box: tear(box, blob(box), 12)),
    "blob-hollow": Kind(("p.txt",), lambda box: tear(box, blob(box), 2)),
    "tree-gone": Kind(("deep/down/p.txt",), lose_tree, named="deep/down"),
    "filter": Kind(tuple(f"{n}.f" for n in range(6)), failing, filtered),
    "ntfs": Kind(("git~1",), no_odd_name, any_name),
    "stream": Kind((".git::$INDEX_ALLOCATION/p",), no_odd_name, any_name),
    "backslash": Kind(("a\\.git\\p",), no_odd_name, any_name),
    "hfs": Kind(("sub/.g\u200cit/p",), no_odd_name, any_name),
    "case": Kind(("sub/.GIT /p",), no_odd_name, any_name),
}


def same(then: State, now: State, what: str) -> None:
    """The same files and the same index; git's settings may be others."""
    assert (then.files, then.index, then.status) == (now.files, now.index, now.status), what


def arranged(box: Sandbox, name: str) -> Kind:
    kind = KINDS[name]
    kind.arrange(box)
    box.commit("b", b_txt="b\n")
    return kind


def rest(state: State, kind: Kind) -> dict[str, Entry]:
    """The files but for those that cannot come back."""
    return {path: entry for path, entry in state.files.items() if path not in kind.paths}


def put(box: Sandbox, kind: Kind) -> None:
    for path in kind.paths:
        box.write(path, TEXT)


def spoil(box: Sandbox, kind: Kind) -> None:
    for path in kind.paths:
        (box.path / path).unlink()
        for folder in (box.path / path).parents:
            if folder == box.path or any(folder.iterdir()):
                break
            folder.rmdir()
    box.write("a.txt", "spoilt\n")
    box.write("z.txt", "new\n")
    (box.path / "b.txt").unlink()


def refused(done: Outcome, kind: Kind, reason: str) -> None:
    """Each path is named with the reason, and nothing else is left."""
    assert done.code == 1, f"{done.code}: {done.out}{done.err}"
    rows = {path_of(row["path"]): row["reason"] for row in done.json["paths"] if row["action"] == "refuse"}
    assert rows == dict.fromkeys([kind.named] if kind.named else kind.paths, reason)


@some("name", KINDS, 4)
def test_restore_brings_back_the_rest(repo: Sandbox, name: str) -> None:
    kind = arranged(repo, name)
    put(repo, kind)
    snap(repo)
    then = state_of(repo)
    spoil(repo, kind)
    mess = state_of(repo)
    reason = kind.block(repo)
    if name not in ("filter", "blob-torn"):  # what only a checkout tells a dry run does not
        refused(repo.baton("restore", "--exact", "--dry-run", "--json"), kind, reason)
        same(mess, state_of(repo), "dry run")
    refused(repo.baton("restore", "--exact", "--json"), kind, reason)
    assert state_of(repo).files == rest(then, kind)
    repo.ok("undo")
    same(mess, state_of(repo), "undone")


TAKEN = [name for name in KINDS if name not in ("ntfs", "hfs", "case")]  # those are left alone, whatever is configured


@some("name", TAKEN, 1)
def test_undo_brings_back_the_rest(repo: Sandbox, name: str) -> None:
    kind = arranged(repo, name)
    snap(repo)
    first = state_of(repo)
    put(repo, kind)
    repo.write("a.txt", "mine\n")
    mess = state_of(repo)
    repo.ok("restore", "--exact")
    same(first, state_of(repo), "restored")
    reason = kind.block(repo)
    refused(repo.baton("undo", "--json"), kind, reason)
    assert state_of(repo).files == rest(mess, kind)
    repo.ok("redo")
    same(first, state_of(repo), "redone")


@some("name", TAKEN, 1)
def test_redo_brings_back_the_rest(repo: Sandbox, name: str) -> None:
    kind = arranged(repo, name)
    put(repo, kind)
    snap(repo)
    then = state_of(repo)
    spoil(repo, kind)
    mess = state_of(repo)
    repo.ok("restore", "--exact")
    repo.ok("undo")
    same(mess, state_of(repo), "undone")
    reason = kind.block(repo)
    refused(repo.baton("redo", "--json"), kind, reason)
    assert state_of(repo).files == rest(then, kind)
    repo.ok("undo")
    same(mess, state_of(repo), "undone again")


@some("name", KINDS, 1)
def test_revert_brings_back_the_rest(repo: Sandbox, name: str) -> None:
    kind = arranged(repo, name)
    put(repo, kind)
    snap(repo)
    then = state_of(repo)
    client = Client("claude", repo.path)
    client.fire("prompt", prompt="go")
    spoil(repo, kind)
    client.fire("turn")
    mess = state_of(repo)
    reason = kind.block(repo)
    refused(repo.baton("revert", "--json"), kind, reason)
    assert state_of(repo).files == rest(then, kind)
    repo.ok("undo")
    same(mess, state_of(repo), "undone")


def test_head_that_lost_a_folder_stops_nothing(repo: Sandbox) -> None:
    """What HEAD has is asked for beside the point: whether a file is new, was committed since, or is an edit."""
    repo.commit("deep", **{"deep/down/p.txt": TEXT})
    snap(repo)
    repo.write("deep/down/p.txt", "mine\n")
    repo.write("new.txt", "new\n")
    repo.write("a.txt", "mine\n")
    snap(repo)
    repo.write("a.txt", "an edit\n")
    mess = state_of(repo).files
    lose_tree(repo)
    repo.ok("restore", "@", "--exact")
    assert (repo.path / "a.txt").read_text() == "mine\n"
    assert repo.baton("restore", "@~1", "--exact").code == 1
    repo.git("update-ref", "HEAD", repo.git("commit-tree", "-m", "next", "-p", "HEAD", "HEAD^{tree}"))
    repo.ok("undo")
    repo.ok("undo")
    assert state_of(repo).files == mess


def test_a_link_that_git_does_not_place_is_not_taken_away_either(repo: Sandbox) -> None:
    repo.commit("b", b_txt="b\n")
    repo.write(".gitmodules", "")
    repo.git("add", "-A")
    snap(repo)
    (repo.path / ".gitmodules").unlink()
    (repo.path / ".gitmodules").symlink_to("a.txt")
    repo.git("add", "-A")
    repo.write("a.txt", "mine\n")
    snap(repo)
    mess = state_of(repo)
    done = repo.baton("restore", "@~1", "--exact", "--index", "--json")
    assert done.code == 1 and actions(done)[".gitmodules"] == "refuse"
    assert os.readlink(repo.path / ".gitmodules") == "a.txt" and (repo.path / "a.txt").read_text() != "mine\n"
    repo.baton("undo")
    assert state_of(repo).files == mess.files


@some("name", ["clean", "staged"], 2)
def test_what_is_gone_of_the_present_is_stored_anew(repo: Sandbox, name: str) -> None:
    snap(repo)
    repo.write("a.txt", TEXT)
    repo.git("add", "a.txt")
    if name == "clean":
        repo.git("commit", "-qm", "two")
    lose(repo, blob(repo))
    mess = state_of(repo)
    repo.ok("restore", "--force")
    assert (repo.path / "a.txt").read_text() != TEXT
    repo.ok("undo")
    same(mess, state_of(repo), "undone")


@some("name", ["modes", "raw"], 1)
@some("verb", ["restore", "undo"], 1)
def test_a_lost_list_beside_the_files_stops_nothing(repo: Sandbox, name: str, verb: str) -> None:
    repo.write(".gitattributes", "*.t text\n")
    repo.commit("attributes")
    if verb == "undo":
        snap(repo)
    repo.write("m.t", "one\r\ntwo\n").chmod(0o640)
    ref = "refs/baton/safety/main-worktree" if verb == "undo" else "refs/baton/tracks/t"
    if verb == "undo":
        repo.ok("restore", "--exact")
    else:
        snap(repo)
        (repo.path / "m.t").unlink()
    lose(repo, repo.git("rev-parse", f"{ref}^2^2:{name}"))
    done = repo.ok(verb)
    if name == "modes":
        assert "its owner's alone" in done.err and (repo.path / "m.t").read_bytes() == b"one\r\ntwo\n"
        assert (repo.path / "m.t").stat().st_mode & 0o777 == 0o600
    else:
        assert "as git checks them out" in done.err and (repo.path / "m.t").read_bytes() == b"one\ntwo\n"


def test_what_is_staged_and_gone_is_left(repo: Sandbox) -> None:
    repo.commit("b", b_txt="b\n")
    snap(repo)
    repo.write("b.txt", TEXT)
    repo.git("add", "b.txt")
    repo.write("b.txt", "later\n")
    repo.write("a.txt", "spoilt\n")
    lose(repo, blob(repo))
    mess = state_of(repo)
    for options in ((), ("--index",)):
        done = repo.baton("restore", *options, "--json")
        assert done.code == 1 and actions(done) == {"a.txt": "write", "b.txt": "refuse"}
        assert (repo.path / "b.txt").read_text() == "later\n" and (repo.path / "a.txt").read_text() != "spoilt\n"
        repo.ok("undo")
        same(mess, state_of(repo), "undone")


def test_a_torn_object_of_the_present_is_stored_anew(repo: Sandbox) -> None:
    repo.write("n.txt", TEXT)
    snap(repo)
    repo.write("a.txt", "spoilt\n")
    tear(repo, blob(repo), 12)
    done = repo.ok("restore")
    assert "torn object" in done.err and (repo.path / "n.txt").read_text() == TEXT
    assert repo.git("cat-file", "-p", blob(repo)) == TEXT.strip()


def test_a_checkpoint_that_lost_all_its_files_is_named(repo: Sandbox) -> None:
    made = snap(repo)
    repo.write("a.txt", "spoilt\n")
    reason = lose(repo, repo.git("rev-parse", "refs/baton/tracks/t^{tree}"))
    done = repo.baton("restore")
    assert done.code == 128 and done.err.startswith("fatal: ") and made[:8] in done.err and reason in done.err
    assert "git baton doctor --mend" in done.err and (repo.path / "a.txt").read_text() == "spoilt\n"


def test_a_named_path_in_a_lost_folder_is_refused(repo: Sandbox) -> None:
    repo.write("deep/down/p.txt", TEXT)
    snap(repo)
    (repo.path / "deep/down/p.txt").unlink()
    reason = lose_tree(repo)
    done = repo.baton("restore", "--json", "--", "deep/down/p.txt")
    refused(done, KINDS["tree-gone"], reason)
    assert repo.baton("restore", "--json", "--", "a.txt").code == 0


MADE: dict[str, Callable[[Sandbox], object]] = {
    "repository": lambda box: box.git("init", "-q", "v"),
    "with-commit": lambda box: (box.git("init", "-q", "v"), box.git("-C", "v", "commit", "-q", "--allow-empty", "-m", "x")),
    "worktree": lambda box: (
        box.git("worktree", "add", "-q", "--detach", "../linked"),
        box.write("v/.git", (box.path / "../linked/.git").read_text()),
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_nothing_is_removed_or_written_in_what_became_a_repository(repo: Sandbox, name: str) -> None:
    repo.write("v/a", "1\n")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "v")
    snap(repo)
    repo.write("v/b", TEXT)
    repo.write("v/a", "2\n")
    repo.write("a.txt", "spoilt\n")
    MADE[name](repo)
    done = repo.baton("restore", "--exact", "--force", "--json")
    left = {path: action for path, action in actions(done).items() if path.startswith("v")}
    assert done.code == 1 and left and set(left.values()) <= {"refuse"}
    assert (repo.path / "v/b").read_text() == TEXT and (repo.path / "v/a").read_text() == "2\n"
    assert (repo.path / "a.txt").read_text() != "spoilt\n"
    repo.ok("undo")
    assert (repo.path / "a.txt").read_text() == "spoilt\n" and (repo.path / "v/b").read_text() == TEXT


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("tracked", [True, False])
def test_undo_brings_back_what_a_step_took_from_what_is_a_repository_by_now(repo: Sandbox, name: str, *, tracked: bool) -> None:
    if tracked:
        repo.write("v/a", "1\n")
        repo.git("add", "-A")
        repo.git("commit", "-qm", "v")
    snap(repo)
    repo.write("v/b", TEXT)
    repo.ok("restore", "--exact")
    assert not (repo.path / "v/b").exists()
    (repo.path / "v").mkdir(exist_ok=True)
    MADE[name](repo)
    done = repo.ok("undo", "--json")
    assert actions(done)["v/b"] == "create" and (repo.path / "v/b").read_text() == TEXT
    done = repo.baton("redo", "--json")
    assert done.code == 1 and [row["reason"] for row in done.json["paths"] if path_of(row["path"]) == "v/b"] == [NESTED]
    assert (repo.path / "v/b").read_text() == TEXT


def test_redo_takes_it_again_from_what_is_no_repository_any_more(repo: Sandbox) -> None:
    snap(repo)
    repo.write("v/b", TEXT)
    repo.write("a.txt", "mine\n")
    repo.ok("restore", "--exact")
    restored = state_of(repo).files
    (repo.path / "v").mkdir()
    MADE["with-commit"](repo)
    repo.ok("undo")
    shutil.rmtree(repo.path / "v/.git")
    before = state_of(repo).files
    repo.ok("redo")
    assert state_of(repo).files == restored
    repo.ok("undo")
    assert state_of(repo).files == before


def test_undo_goes_over_no_file_of_what_is_a_repository_by_now(repo: Sandbox) -> None:
    snap(repo)
    repo.write("v/b", TEXT)
    repo.ok("restore", "--exact")
    repo.write("v/b", "theirs\n")
    repo.git("init", "-q", "v")
    done = repo.baton("undo", "--json")
    assert done.code == 1
    assert [(row["action"], row["reason"]) for row in done.json["paths"]] == [("refuse", "nested-repository")]
    assert (repo.path / "v/b").read_text() == "theirs\n"


@pytest.mark.parametrize("reached", [True, False])
@some("lacking", ["blob:none", "tree:0"], 1)
def test_a_partial_clone_gets_what_its_remote_promised(repo: Sandbox, tmp_path: Path, lacking: str, *, reached: bool) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    for text in ("old\n", "new\n"):
        repo.commit(text.strip(), a_txt=text, **{"deep/down/p.txt": text})
    repo.git("checkout", "-q", "HEAD~1")
    snap(repo, "other")
    repo.git("checkout", "-q", "-")
    repo.git("clone", "-q", f"--filter={lacking}", f"file://{repo.path}", os.fspath(tmp_path / "near"))
    near = Sandbox(tmp_path / "near")
    near.ok("fetch", "origin")
    near.write("a.txt", "mine\n")
    if not reached:
        repo.path.rename(tmp_path / "away")
    done = near.baton("restore", "other", "--foreign", "--force", "--json")
    if reached:
        assert done.code == 0, done.out + done.err
        assert (near.path / "a.txt").read_text() == (near.path / "deep/down/p.txt").read_text() == "old\n"
        near.ok("undo")
    elif lacking == "blob:none":
        rows = {path_of(row["path"]): row["reason"] for row in done.json["paths"] if row["action"] == "refuse"}
        assert done.code == 1 and rows.keys() == {"a.txt", "deep/down/p.txt"}
        assert all("'origin' did not give what it promised" in reason for reason in rows.values())
    else:
        assert done.code in (1, 128) and "Traceback" not in done.err
    assert (near.path / "a.txt").read_text() == "mine\n" and (near.path / "deep/down/p.txt").read_text() == "new\n"
