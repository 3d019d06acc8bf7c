"""Restore can be taken back and done again (T06); the plan that is shown is the plan that runs; exit codes and words."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.kit import Sandbox
from tests.kit.state import (
    SAFETY,
    State,
    actions,
    assert_same,
    forget_what_no_ref_holds,
    index_of,
    snap,
    sound,
    spoken,
    stale_locks,
    state_of,
)
from tests.kit.tiers import some


@pytest.fixture
def box(repo: Sandbox) -> Sandbox:
    """Work in progress of every kind, on a commit with a few of everything."""
    repo.write("d/b.txt", "b\n")
    repo.write("d/c.txt", "c\n")
    repo.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (repo.path / "link").symlink_to("a.txt")
    repo.commit("more")
    repo.write("a.txt", "staged\n")
    repo.write("added.txt", "added\n")
    repo.git("add", "a.txt", "added.txt")
    repo.write("a.txt", "edited\n")
    repo.write("untracked.txt", "u\n")
    (repo.path / "d/c.txt").unlink()
    return repo


def spoil(box: Sandbox) -> State:
    """Something of each kind goes wrong."""
    box.write("a.txt", "spoilt\n")
    box.write("d/c.txt", "not deleted\n")
    box.write("stranger.txt", "new\n")
    box.git("add", "d/c.txt", "stranger.txt")
    box.git("rm", "-q", "--cached", "added.txt")
    (box.path / "untracked.txt").unlink()
    (box.path / "run.sh").chmod(0o644)
    (box.path / "link").unlink()
    box.write("link", "a file\n")
    return state_of(box)


def safety(box: Sandbox, ref: str = SAFETY) -> str:
    return box.try_git("rev-parse", "-q", "--verify", ref).out.strip()


@pytest.mark.deep
def test_t06_undo_and_redo_give_each_state_back(box: Sandbox) -> None:
    then = state_of(box)
    snap(box)
    mess = spoil(box)
    done = box.ok("restore", "--exact", "--index", "--json")
    assert done.json["index"] is True and done.json["safety"]
    assert_same(then, state_of(box), "restored")
    for verb, wanted in (("undo", mess), ("redo", then), ("undo", mess), ("redo", then), ("undo", mess)):
        box.ok(verb)
        assert_same(wanted, state_of(box), verb)
    sound(box)


@pytest.mark.deep
def test_t06_the_safety_checkpoint_outlives_the_sharpest_gc(box: Sandbox) -> None:
    then = state_of(box)
    snap(box)
    mess = spoil(box)
    box.ok("restore", "--exact", "--index")
    forget_what_no_ref_holds(box)
    assert_same(then, state_of(box), "restored")
    box.ok("undo")
    forget_what_no_ref_holds(box)
    assert_same(mess, state_of(box), "undone")
    box.ok("redo")
    assert_same(then, state_of(box), "redone")


@pytest.mark.full
def test_t06_where_our_folder_was_removed_undo_says_so_and_the_files_are_there(box: Sandbox) -> None:
    snap(box, "t", "s")
    before = (box.path / "a.txt").read_bytes()
    spoil(box)
    spoilt = (box.path / "a.txt").read_bytes()
    box.ok("restore", "@", "--force")
    shutil.rmtree(box.path / ".git/baton")
    done = box.baton("undo")
    ours = box.path / ".git/baton"
    because = f"another work tree was here then, or '{ours}' was removed since"
    first, hint = done.err.splitlines()
    assert (done.code, first) == (1, f"fatal: the next step to undo is not known to be of this work tree: {because}")
    assert (box.path / "a.txt").read_bytes() == before != spoilt
    box.ok("restore", hint.split("'")[1], "--force", "--foreign")
    assert (box.path / "a.txt").read_bytes() == spoilt


def test_t06_several_steps_back_and_forth(box: Sandbox) -> None:
    states = [state_of(box)]
    snap(box, "t", "0")
    for number in (1, 2):
        box.write("a.txt", f"step {number}\n")
        box.write(f"new-{number}.txt", "n\n")
        states.append(state_of(box))
        snap(box, "t", str(number))
    box.ok("restore", "@~1", "--exact", "--index")
    box.ok("restore", "@~2", "--exact", "--index")
    assert_same(states[0], state_of(box), "two restores")
    for verb, wanted in (("undo", 1), ("undo", 2), ("redo", 1), ("redo", 0), ("undo", 1)):
        box.ok(verb)
        assert_same(states[wanted], state_of(box), f"{verb} to {wanted}")


@pytest.mark.deep
def test_t06_a_new_restore_drops_redo(box: Sandbox) -> None:
    snap(box)
    spoil(box)
    box.ok("restore")
    box.ok("undo")
    box.ok("restore", "--", "a.txt")
    before = state_of(box)
    done = box.baton("redo")
    assert done.code == 1 and done.err
    assert_same(before, state_of(box), "nothing redone")


@pytest.mark.deep
@pytest.mark.parametrize("verb", ["undo", "redo"])
def test_t06_nothing_to_step_over_is_no(box: Sandbox, verb: str) -> None:
    snap(box)
    before = state_of(box)
    done = box.baton(verb)
    assert done.code == 1 and done.err.strip() and "Traceback" not in done.err
    assert_same(before, state_of(box), verb)
    assert not safety(box)


@pytest.mark.deep
def test_t06_undo_touches_only_what_the_restore_touched(box: Sandbox) -> None:
    snap(box)
    spoil(box)
    box.ok("restore", "--", "a.txt")
    box.write("d/b.txt", "a later edit\n")
    box.write("later.txt", "later\n")
    box.git("add", "d/b.txt")
    later = state_of(box)
    box.ok("undo")
    now = state_of(box)
    assert (box.path / "a.txt").read_text() == "spoilt\n"
    assert {k: v for k, v in now.files.items() if k != "a.txt"} == {k: v for k, v in later.files.items() if k != "a.txt"}
    assert {k: v for k, v in now.index.items() if k != "a.txt"} == {k: v for k, v in later.index.items() if k != "a.txt"}
    box.ok("redo")
    assert_same(later, state_of(box), "redone")


@pytest.mark.deep
def test_t06_an_edit_after_the_restore_is_never_lost_by_undo(box: Sandbox) -> None:
    snap(box)
    box.write("a.txt", "spoilt\n")
    box.ok("restore")
    box.write("a.txt", "edited after the restore\n")
    box.baton("undo")
    kept = (box.path / "a.txt").read_text() == "edited after the restore\n"
    assert kept or "edited after the restore" in box.git("log", "-p", "-m", "--format=", "--first-parent", SAFETY)


def test_t06_undo_stops_at_another_work_tree_of_the_same_name(repo: Sandbox) -> None:
    place = repo.path.parent / "linked"
    repo.git("worktree", "add", "-q", "-b", "one", str(place))
    linked = Sandbox(place)
    snap(linked)
    linked.write("a.txt", "spoilt\n")
    linked.ok("restore")
    ref = "refs/baton/safety/worktrees/linked"
    assert safety(repo, ref) and not safety(repo)
    repo.git("worktree", "remove", "--force", str(place))
    repo.git("worktree", "add", "-q", "-b", "two", str(place))
    linked.write("a.txt", "of the second\n")
    before = state_of(linked)
    done = linked.baton("undo")
    assert done.code == 1 and "work tree" in done.err
    assert_same(before, state_of(linked), "nothing undone")


@pytest.mark.deep
def test_t06_each_work_tree_undoes_its_own(repo: Sandbox) -> None:
    linked = Sandbox(repo.path.parent / "linked")
    repo.git("worktree", "add", "-q", "-b", "side", str(linked.path))
    snap(repo, "m")
    snap(linked, "l")
    repo.write("a.txt", "main\n")
    linked.write("a.txt", "linked\n")
    repo.ok("restore")
    assert (linked.path / "a.txt").read_text() == "linked\n"
    assert linked.baton("undo").code == 1
    linked.ok("restore")
    repo.ok("undo")
    assert (repo.path / "a.txt").read_text() == "main\n" and (linked.path / "a.txt").read_text() == "one\n"


@pytest.mark.full
@some("options", [(), ("--exact",), ("--index",), ("--exact", "--index")], ids=lambda o: "".join(o) or "none")
def test_a_dry_run_is_the_plan_that_runs(box: Sandbox, options: tuple[str, ...]) -> None:
    target = snap(box)
    mess = spoil(box)
    refs, objects = box.git("for-each-ref"), box.git("count-objects", "-v").split("\n")[0]
    shown = box.ok("restore", "--dry-run", *options)
    planned = box.ok("restore", "--dry-run", "--json", *options).json
    assert_same(mess, state_of(box), "dry run")
    assert box.git("for-each-ref") == refs and stale_locks(box) == []
    assert box.git("count-objects", "-v").split("\n")[0] == objects
    ran = box.ok("restore", "--json", *options).json
    assert planned["plan"] == ran["plan"] and planned["paths"] == ran["paths"] and planned["v"] == ran["v"] == 1
    assert planned["safety"] is None and ran["safety"] and ran["target"] == planned["target"] == target
    assert ran["safety"] == box.git("hash-object", "--stdin", stdin=last_record(box))
    assert spoken(shown, "would ") == {row["path"]: row["action"] for row in ran["paths"]}
    assert all(line.startswith("would ") for line in shown.out.splitlines() if line.split(" ")[-1].endswith(".txt"))


def last_record(box: Sandbox) -> bytes:
    """The canonical JSON in the newest safety checkpoint."""
    text = box.run("git", "log", "-1", "--format=%B", SAFETY).out.split("\n\n", 1)[1]
    return text[: text.index("\n}\n") + 3].encode()


@pytest.mark.deep
def test_another_state_is_another_plan(box: Sandbox) -> None:
    snap(box)
    spoil(box)
    one = box.ok("restore", "--dry-run", "--json").json["plan"]
    assert box.ok("restore", "--dry-run", "--json").json["plan"] == one
    box.write("a.txt", "spoilt otherwise\n")
    assert box.ok("restore", "--dry-run", "--json").json["plan"] != one


@pytest.mark.full
@some("verb", ["undo", "redo"])
def test_undo_and_redo_have_a_dry_run_too(box: Sandbox, verb: str) -> None:
    snap(box)
    spoil(box)
    box.ok("restore", "--exact", "--index")
    if verb == "redo":
        box.ok("undo")
    before = state_of(box)
    planned = box.ok(verb, "--dry-run", "--json").json
    assert_same(before, state_of(box), "dry run")
    ran = box.ok(verb, "--json").json
    assert planned["plan"] == ran["plan"] and planned["paths"] == ran["paths"] != []


@pytest.mark.deep
def test_a_restore_that_changes_nothing_writes_nothing(box: Sandbox) -> None:
    snap(box)
    before = state_of(box)
    for options in ((), ("--exact", "--index")):
        done = box.ok("restore", "--json", *options).json
        assert done["paths"] == [] and done["safety"] is None
    assert not safety(box) and box.baton("undo").code == 1
    assert_same(before, state_of(box), "nothing to do")


def test_a_safety_checkpoint_says_what_it_was_taken_before(box: Sandbox) -> None:
    target = snap(box)
    spoil(box)
    box.ok("restore")
    box.ok("undo")
    records = box.git("log", "--first-parent", "--format=%B", SAFETY)
    assert records.count('"kind": "safety"') == 2 and f'"to": "{target}"' in records
    assert '"op": "restore"' in records and '"op": "undo"' in records
    listed = box.ok("log", "--porcelain").out
    assert listed.count(target) == 1 and "safety" not in listed, "no safety checkpoint among the track's"


@pytest.mark.deep
@some(
    ("words", "code"),
    [
        (["restore", "no-such"], 2),
        (["restore", "@~9"], 2),
        (["restore", "", "--dry-run"], 129),
        (["restore", "--no-such-option"], 129),
        (["undo", "--exact"], 129),
        (["restore", "@", "--", "../outside"], 128),
        (["restore", "@", "--", "/etc/passwd"], 128),
        (["restore", "--", "no-such-file"], 128),
    ],
    2,
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_bad_input_writes_nothing(box: Sandbox, words: list[str], code: int) -> None:
    snap(box)
    before = spoil(box)
    refs = box.git("for-each-ref")
    done = box.baton(*words)
    assert done.code == code or (code == 128 and done.code in (1, 129)), f"{done.code}\n{done.out}{done.err}"
    assert done.err and "Traceback" not in done.err and "this is a bug" not in done.err
    assert_same(before, state_of(box), "bad input")
    assert box.git("for-each-ref") == refs


def test_no_checkpoint_at_all(repo: Sandbox) -> None:
    assert repo.baton("restore").code == 2
    assert repo.baton("undo").code == 1


def test_a_checkpoint_without_files_is_refused_and_says_so(repo: Sandbox) -> None:
    snap(repo, "t", "s", "--no-files")
    repo.write("a.txt", "two\n")
    done = repo.baton("restore", "--exact", "--force")
    assert done.code != 0 and "file" in done.err
    assert (repo.path / "a.txt").read_text() == "two\n"


@pytest.mark.deep
def test_a_bare_repository_has_nothing_to_restore_into(repo: Sandbox) -> None:
    snap(repo)
    bare = repo.path.parent / "bare.git"
    shutil.copytree(repo.path / ".git", bare)
    (bare / "index").unlink()
    Sandbox(bare).git("config", "core.bare", "true")
    done = Sandbox(bare).baton("restore", "t")
    assert done.code == 128 and done.err.startswith("fatal: ")


@pytest.mark.deep
def test_the_default_touches_only_the_entries_of_touched_paths(box: Sandbox) -> None:
    then = state_of(box)
    snap(box)
    mess = spoil(box)
    touched = {p for p, action in actions(box.ok("restore", "--json")).items() if action in ("write", "create", "remove")}
    now = state_of(box)
    assert touched == {"a.txt", "d/c.txt", "run.sh", "link", "untracked.txt"}
    for name in {*then.index, *mess.index, *now.index}:
        assert now.index.get(name) == (then if name in touched else mess).index.get(name), name
    assert os.path.exists(box.path / "stranger.txt")


@pytest.mark.deep
def test_kept_files_are_staged_as_they_were_with_the_whole_index(box: Sandbox) -> None:
    then = state_of(box)
    snap(box)
    mess = spoil(box)
    box.ok("restore", "--index")
    now = state_of(box)
    assert now.index == then.index and now.files == {**then.files, "stranger.txt": mess.files["stranger.txt"]}
    box.ok("undo")
    assert_same(mess, state_of(box), "undone")


@pytest.mark.deep
def test_only_the_index_differs(box: Sandbox) -> None:
    then = state_of(box)
    snap(box)
    box.git("read-tree", "HEAD")
    mess = state_of(box)
    assert box.ok("restore", "--json").json["paths"] == []
    assert_same(mess, state_of(box), "no path is touched")
    box.ok("restore", "--index")
    assert_same(then, state_of(box), "the index came back")
    box.ok("undo")
    assert_same(mess, state_of(box), "undone")


_SINCE = {
    "committed": [["add", "-A"], ["commit", "-qm", "since"]],
    "committed all": [["add", "-N", "new"], ["commit", "-qam", "since"]],
    "amended": [["add", "-A"], ["commit", "-q", "--amend", "--no-edit"]],
    "committed as it was staged": [["commit", "-qm", "since", "--", "staged.txt"]],
    "staged": [["add", "-A"]],
    "staged with intent": [["add", "-N", "new"]],
    "taken out of the index": [["rm", "-q", "--cached", "a.txt", "staged.txt"]],
    "renamed": [["add", "-A"], ["mv", "a.txt", "renamed"], ["mv", "new", "renamed too"]],
    "another branch": [["add", "-A"], ["commit", "-qm", "since"], ["switch", "-q", "-c", "other"]],
    "flagged": [["update-index", "--assume-unchanged", "a.txt"]],
    "nothing": [],
}


_WHOLE = [(since, ("--index",), False) for since in ("committed", "staged", "taken out of the index", "nothing")]
_GONE = [(since, (), True) for since in ("committed", "taken out of the index", "nothing")]


@some("since, options, gone", [*((since, (), False) for since in _SINCE), *_WHOLE, *_GONE], 1)
def test_what_was_staged_or_committed_since_stays_through_undo_and_redo(
    repo: Sandbox, since: str, options: tuple[str, ...], gone: bool
) -> None:
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    repo.write("a.txt", "two\n")
    repo.write("new", "new\n")
    repo.ok("snapshot", "--track", "t", "begun")
    for name in ("a.txt", "staged.txt", "new"):
        repo.write(name, "bad\n")
    repo.git("add", "a.txt", "staged.txt")
    before = state_of(repo)
    repo.ok("restore", "t", *options)
    left, head = index_of(repo), repo.tree("HEAD")
    for words in _SINCE[since]:
        repo.git(*words)
    staged, now = index_of(repo), repo.tree("HEAD")
    mine = {
        path for path in {*left, *staged, *head, *now} if (left.get(path), head.get(path)) != (staged.get(path), now.get(path))
    }
    assert bool(mine) == (since != "nothing")
    if gone:
        repo.ok("tracks", "-d", "t", "--yes")
        mine -= {"staged.txt"} if since == "taken out of the index" else set()  # nobody knows any more that it was staged
    done = repo.ok("undo")
    assert (repo.path / "new").read_text() == (repo.path / "staged.txt").read_text() == "bad\n"
    assert mine or gone or state_of(repo) == before
    for verb in ("", "redo", "undo"):
        if verb:
            repo.ok(verb)
        kept = index_of(repo)
        assert {path: kept.get(path) for path in mine} == {path: staged.get(path) for path in mine}, verb
    uncommitted = [path for path in mine if head.get(path) == now.get(path) and path in ("a.txt", "staged.txt")]
    assert all(path in done.err for path in uncommitted) and ("stays staged: " in done.err or not uncommitted), done.err
    repo.git("commit", "-q", "--allow-empty", "-m", "unrelated")
    for path in mine:
        row = staged.get(path, ("H 000000 ",))[0].split(" ")
        assert repo.tree("HEAD").get(path) == (
            f"{row[1]} {row[2]}" if path in staged and since != "staged with intent" else None
        )


@pytest.mark.deep
def test_an_undo_says_that_it_goes_over_what_was_committed_since(repo: Sandbox) -> None:
    repo.commit("two files", b_txt="b\n", c_txt="c\n")
    repo.ok("snapshot", "--track", "t", "begun")
    for name in ("a.txt", "b.txt", "c.txt"):
        repo.write(name, "later\n")
    repo.ok("restore", "t")
    said = "warning: HEAD has moved since that restore"
    assert said not in repo.ok("undo", "-n").err
    repo.commit("another file", d_txt="d\n")
    assert said not in repo.ok("undo", "-n").err, "it touches nothing that was committed since"
    repo.ok("undo")
    repo.commit("a and b as they were before the restore", c_txt="c\n")
    kept = state_of(repo)
    told = f"{said}: this redo puts other bytes over 2 files committed since; HEAD has them\n"
    assert told in repo.ok("redo", "-n").err and state_of(repo) == kept
    done = repo.ok("redo")
    assert told in done.err and (repo.path / "a.txt").read_text() == "one\n"
    assert repo.git("show", "HEAD:a.txt") == "later"
    repo.ok("undo")
    assert (repo.path / "a.txt").read_text() == (repo.path / "b.txt").read_text() == "later\n"


@pytest.mark.deep
def test_an_undo_and_a_redo_say_that_they_go_over_edits(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "begun")
    repo.write("a.txt", "later\n")
    repo.ok("restore", "t")
    assert "warning" not in repo.ok("undo", "-n").err
    repo.write("a.txt", "edited\n")
    said = "warning: this undo puts other bytes over 1 file edited since that restore; 'git baton redo' brings the edits back\n"
    assert said in repo.ok("undo").err and (repo.path / "a.txt").read_text() == "later\n"
    assert "warning" not in repo.ok("redo").err and (repo.path / "a.txt").read_text() == "edited\n"
    repo.ok("undo")
    repo.write("a.txt", "again\n")
    assert "over 1 file edited since that undo; 'git baton undo' brings the edits back" in repo.ok("redo").err
    repo.ok("undo")
    assert (repo.path / "a.txt").read_text() == "again\n"


def test_a_path_that_names_nothing_is_said(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "begun")
    repo.write("a.txt", "later\n")
    done = repo.ok("restore", "t", "-n", "--", "a.txt", "--dry-run", "nowhere")
    assert done.out == "would write a.txt\n"
    said = "matches no file that the checkpoint or a capture of the work tree holds"
    assert f"warning: '--dry-run' {said}; options stand before '--'\n" in done.err
    assert f"warning: 'nowhere' {said}\n" in done.err and "'a.txt'" not in done.err
    alone = repo.baton("restore", "t", "--", "--force")
    assert alone.code == 129 and f"fatal: '--force' {said}; options stand before '--'\n" in alone.err
    assert repo.ok("restore", "t", "--", "a.txt", "a.txt").err == "hint: 'git baton undo' takes it back\n"
