"""Restore against the complaints of cases.md, T01 to T05: what is nobody's to delete, and what is somebody else's."""

from __future__ import annotations

import pytest

from tests.kit import Outcome, Sandbox
from tests.kit.state import (
    SAFETY,
    State,
    actions,
    assert_refs_kept,
    assert_same,
    forget_what_no_ref_holds,
    snap,
    sound,
    spoken,
    state_of,
)
from tests.kit.tiers import some

STRANGERS = {"notes.txt": "outside\n", "d/beside": "outside, too\n", "new/deep/er": "far out\n"}


@pytest.fixture
def box(repo: Sandbox) -> Sandbox:
    """A repository with a few of everything, clean."""
    repo.write("d/b.txt", "b\n")
    repo.write("d/c.txt", "c\n")
    repo.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (repo.path / "link").symlink_to("a.txt")
    repo.commit("more")
    return repo


def check_kept(box: Sandbox, then: State, *, refs: bool = True) -> State:
    """HEAD and the other refs have not moved, and git finds the repository whole; the state now."""
    now = state_of(box)
    if refs:
        assert_refs_kept(then, now, "after a restore")
    sound(box)
    return now


def restored(box: Sandbox, *words: str, code: int = 0) -> Outcome:
    """A restore that must end with ``code``, and must not move a ref of the user's."""
    before = state_of(box)
    done = box.baton("restore", *words)
    assert done.code == code, f"restore {' '.join(words)}: {done.code}\n{done.out}\n{done.err}"
    check_kept(box, before)
    return done


@pytest.mark.deep
def test_t01_untracked_files_of_somebody_else_are_kept_and_named(box: Sandbox) -> None:
    then = state_of(box)
    snap(box)
    for name, text in STRANGERS.items():
        box.write(name, text)
    box.write("a.txt", "two\n")
    done = restored(box)
    assert spoken(done) == {"a.txt": "write", **dict.fromkeys(STRANGERS, "keep")}
    assert all(f"keep {name} (" in done.out for name in STRANGERS)
    assert {name: (box.path / name).read_text() for name in STRANGERS} == STRANGERS
    now = state_of(box)
    assert {k: v for k, v in now.files.items() if k not in STRANGERS} == then.files


@pytest.mark.deep
def test_t01_exact_removes_them_only_into_a_safety_checkpoint(box: Sandbox) -> None:
    then = state_of(box)
    snap(box)
    for name, text in STRANGERS.items():
        box.write(name, text)
    box.write("a.txt", "two\n")
    mess = state_of(box)
    done = restored(box, "--exact", "--json")
    assert actions(done) == {"a.txt": "write", **dict.fromkeys(STRANGERS, "remove")}
    assert_same(then, state_of(box), "restored")
    assert not (box.path / "new").exists()
    forget_what_no_ref_holds(box)
    for name, text in STRANGERS.items():
        assert box.git("show", f"{SAFETY}:{name}") + "\n" == text
    box.ok("undo")
    assert_same(mess, state_of(box), "undone")


@pytest.mark.deep
def test_t01_exact_leaves_what_no_safety_checkpoint_can_hold(box: Sandbox) -> None:
    box.git("config", "baton.maxFileSize", "1k")
    snap(box)
    box.write(".env", "SECRET=1\n")
    box.write("big.bin", "x" * 5000)
    box.write("deep/.env", "SECRET=2\n")
    box.write("plain.txt", "goes\n")
    done = restored(box, "--exact", "--json", code=1)
    found = actions(done)
    assert found["plain.txt"] == "remove" and not (box.path / "plain.txt").exists()
    assert {found[name] for name in (".env", "big.bin", "deep/.env")} == {"refuse"}
    assert (box.path / ".env").read_text() == "SECRET=1\n" and (box.path / "deep/.env").read_text() == "SECRET=2\n"
    assert (box.path / "big.bin").read_text() == "x" * 5000
    assert "SECRET" not in box.git("log", "--format=", "-p", "--root", "-m", "--first-parent", SAFETY)


@pytest.mark.deep
@some("way", ["excluded", "too-large"])
def test_t01_what_cannot_be_kept_safe_is_refused_and_named(box: Sandbox, way: str) -> None:
    box.write("mine.txt", "then\n")
    snap(box)
    box.git("config", *(("baton.exclude", "mine.txt") if way == "excluded" else ("baton.maxFileSize", "64")))
    box.write("mine.txt", "now, and only here\n" * 20)
    box.write("a.txt", "two\n")
    done = restored(box, code=1)
    assert spoken(done) == {"a.txt": "write", "mine.txt": "refuse"}
    assert "refuse mine.txt (" in done.out
    assert (box.path / "mine.txt").read_text() == "now, and only here\n" * 20
    assert (box.path / "a.txt").read_text() == "one\n"


def test_t01_what_did_not_pass_its_filter_is_kept_and_comes_back(box: Sandbox) -> None:
    box.write(".gitattributes", "*.f filter=f\n")
    box.git("config", "filter.f.clean", "cat")
    box.git("config", "filter.f.smudge", "cat")
    box.git("config", "filter.f.required", "true")
    box.write("x.f", "then\n")
    box.commit("filtered")
    snap(box)
    box.git("config", "filter.f.clean", "no-such-program")
    box.write("x.f", "now, and only here\n")
    box.write("a.txt", "two\n")
    held = box.path / ".git/baton/held"
    assert box.ok("restore", "--dry-run").out == "would write a.txt\nwould write x.f\n" and not held.exists()
    assert spoken(box.ok("restore")) == {"a.txt": "write", "x.f": "write"}
    assert (box.path / "x.f").read_text() == "then\n"
    assert box.baton("undo").code == 0 and (box.path / "x.f").read_text() == "now, and only here\n"
    assert (held.stat().st_mode & 0o777, len(list(held.glob("?" * 64)))) == (0o700, 1)


@some("options", [(), ("--exact",), ("--exact", "--force", "--index")], ids=["default", "exact", "all"], share=0)
@some("place", [".gitignore", ".git/info/exclude"], share=0)
def test_t02_what_is_ignored_now_stays_byte_for_byte(box: Sandbox, place: str, options: tuple[str, ...]) -> None:
    box.write("data/known", "then\n")
    snap(box)
    with (box.path / place).open("a") as file:
        file.write("data/\n")
    box.write("data/known", "precious\n")
    box.write("data/deep/new", "precious, too\n")
    box.write("a.txt", "two\n")
    done = box.baton("restore", *options)
    assert done.code in (0, 1), done.err
    assert (box.path / "a.txt").read_text() == "one\n"
    assert (box.path / "data/known").read_text() == "precious\n"
    assert (box.path / "data/deep/new").read_text() == "precious, too\n"
    sound(box)


@some("options", [("--exact",), ("--exact", "--force", "--index")], ids=["exact", "all"], share=0)
@some("way", ["edited", "removed", "negated", "nested"], share=0)
def test_t02_what_was_ignored_then_stays_byte_for_byte(box: Sandbox, way: str, options: tuple[str, ...]) -> None:
    rules = "sub/.gitignore" if way == "nested" else ".gitignore"
    folder = "sub/data" if way == "nested" else "data"
    box.write(rules, "data/\n*.log\n")
    snap(box)
    box.write(f"{folder}/kept", "precious\n")
    box.write(f"{folder}/other.log", "a log\n")
    box.write("x.txt", "plain\n")
    if way == "removed":
        (box.path / rules).unlink()
    else:
        box.write(rules, "data/\n!data/\n!*.log\n" if way == "negated" else "nothing\n")
    assert "kept" in box.git("status", "--porcelain", "-uall")
    done = box.baton("restore", *options)
    assert done.code in (0, 1), done.err
    assert (box.path / rules).read_text() == "data/\n*.log\n"
    assert (box.path / f"{folder}/kept").read_text() == "precious\n"
    assert (box.path / f"{folder}/other.log").read_text() == "a log\n"
    assert not (box.path / "x.txt").exists()
    sound(box)


@pytest.mark.deep
def test_t02_a_directory_that_holds_ignored_files_is_not_replaced_by_a_file(box: Sandbox) -> None:
    box.write(".gitignore", "*.log\n")
    box.commit("rules")
    snap(box)
    (box.path / "a.txt").unlink()
    box.write("a.txt/build.log", "precious\n")
    for options in ((), ("--exact",), ("--exact", "--force", "--index")):
        done = box.baton("restore", "--json", *options)
        assert done.code == 1, done.out + done.err
        assert actions(done)["a.txt"] == "refuse"
        assert (box.path / "a.txt/build.log").read_text() == "precious\n"
    sound(box)


@some("where", ["here", "elsewhere"])
@some("options", [(), ("--exact", "--index")], ids=["default", "exact"])
def test_t03_a_commit_after_the_checkpoint_stays_where_it_is(box: Sandbox, options: tuple[str, ...], where: str) -> None:
    snap(box)
    commit = box.commit if where == "here" else box.pulled
    after = commit("since", a_txt="committed\n", n_txt="new and committed\n")
    box.write("d/b.txt", "edited\n")
    log = box.git("log", "--format=%H %D", "--branches")
    done = restored(box, "--json", *options, code=0 if where == "here" else 1)
    assert box.head() == after and box.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert box.git("log", "--format=%H %D", "--branches") == log
    found = actions(done)
    assert found["d/b.txt"] == "write" and (box.path / "d/b.txt").read_text() == "b\n"
    if where == "here":
        assert found["a.txt"] == "write" and (box.path / "a.txt").read_text() == "one\n"
        assert (box.path / "n.txt").exists() == (not options)
    else:
        assert found["a.txt"] == "conflict" and (box.path / "a.txt").read_text() == "committed\n"
        assert (box.path / "n.txt").exists()
    box.ok("undo")
    assert (box.path / "a.txt").read_text() == "committed\n" and (box.path / "n.txt").exists()


@pytest.mark.deep
def test_t03_by_force_the_files_come_back_and_head_stays(box: Sandbox) -> None:
    then = state_of(box)
    snap(box)
    after = box.pulled("somebody's", a_txt="committed\n")
    box.git("tag", "kept")
    restored(box, "--force")
    assert state_of(box).files == then.files and box.head() == after
    box.ok("undo")
    assert (box.path / "a.txt").read_text() == "committed\n" and box.git("status", "--porcelain") == ""


@pytest.mark.full
@some("move", ["detach", "amend", "rebase", "switch", "stash"])
def test_t03_wherever_head_went(box: Sandbox, move: str) -> None:
    box.git("branch", "other")
    box.write("work.txt", "in progress\n")
    snap(box)
    if move == "detach":
        box.git("checkout", "-q", "--detach")
    elif move == "switch":
        box.git("checkout", "-q", "other")
    elif move == "amend":
        box.git("commit", "-q", "--amend", "-m", "amended")
    elif move == "rebase":
        box.git("checkout", "-q", "other")
        box.commit("elsewhere", o_txt="o\n")
        box.git("rebase", "-q", "other", "main")
    else:
        box.git("stash", "-q", "-u")
    box.write("work.txt", "spoilt\n")
    restored(box)
    assert (box.path / "work.txt").read_text() == "in progress\n"


@pytest.mark.deep
@some("staged", [False, True], ids=["worktree", "staged"])
def test_t04_deleted_before_the_checkpoint_is_absent_again(box: Sandbox, staged: bool) -> None:
    box.git(*(("rm", "-q", "a.txt") if staged else ("rm", "-q", "-r", "d")))
    if not staged:
        box.git("reset", "-q")
    snap(box)
    then = state_of(box)
    box.git("checkout", "-q", "HEAD", "--", ".")
    mess = state_of(box)
    done = restored(box, "--json")
    assert set(actions(done).items()) == ({("a.txt", "remove")} if staged else {("d/b.txt", "remove"), ("d/c.txt", "remove")})
    assert_same(then, state_of(box), "restored")
    box.ok("undo")
    assert_same(mess, state_of(box), "undone")


@pytest.mark.full
@some("way", ["unlink", "rm", "committed"])
def test_t04_deleted_after_the_checkpoint_is_present_again(box: Sandbox, way: str) -> None:
    then = state_of(box)
    snap(box)
    if way == "unlink":
        (box.path / "d/b.txt").unlink()
        (box.path / "run.sh").unlink()
    else:
        box.git("rm", "-q", "d/b.txt", "run.sh")
    if way == "committed":
        box.git("commit", "-qm", "gone")
    mess = state_of(box)
    words = ("--force",) if way == "committed" else ()
    done = restored(box, "--json", *words)
    assert actions(done) == {"d/b.txt": "create", "run.sh": "create"}
    assert state_of(box).files == then.files
    if way != "committed":
        assert_same(then, state_of(box), "restored")
    box.ok("undo")
    assert_same(mess, state_of(box), "undone")


@pytest.mark.deep
def test_t04_a_file_that_neither_index_nor_head_knew_is_kept(box: Sandbox) -> None:
    box.git("rm", "-q", "d/b.txt")
    box.git("commit", "-qm", "gone for good")
    snap(box)
    box.write("d/b.txt", "back by hand\n")
    done = restored(box, "--json")
    assert actions(done) == {"d/b.txt": "keep"} and (box.path / "d/b.txt").read_text() == "back by hand\n"


@pytest.fixture
def two(box: Sandbox) -> Sandbox:
    """B's checkpoint, then A's work with a checkpoint of A's, then B's own edits."""
    snap(box, "B")
    box.write("a.txt", "A's work\n")
    box.write("d/c.txt", "A's work, too\n")
    box.write("fresh.txt", "A's new file\n")
    snap(box, "A", "s", "--no-set-current")
    box.write("d/b.txt", "B's work\n")
    box.write("run.sh", "B's work\n")
    return box


def contents(box: Sandbox) -> dict[str, str]:
    names = ("a.txt", "d/b.txt", "d/c.txt", "run.sh")
    return {name: (box.path / name).read_text() for name in names}


@pytest.mark.deep
def test_t05_another_tracks_work_is_a_conflict_and_left_alone(two: Sandbox) -> None:
    done = restored(two, code=1)
    found = spoken(done)
    assert found == {"a.txt": "conflict", "d/c.txt": "conflict", "d/b.txt": "write", "run.sh": "write", "fresh.txt": "keep"}
    assert contents(two) == {"a.txt": "A's work\n", "d/c.txt": "A's work, too\n", "d/b.txt": "b\n", "run.sh": "#!/bin/sh\n"}


def test_t05_exact_does_not_remove_another_tracks_file(two: Sandbox) -> None:
    done = restored(two, "--exact", "--json", code=1)
    assert actions(done)["fresh.txt"] == "conflict" and (two.path / "fresh.txt").read_text() == "A's new file\n"


@pytest.mark.deep
def test_t05_by_force_or_by_name_it_comes_back(two: Sandbox) -> None:
    restored(two, "--", "a.txt")
    assert contents(two)["a.txt"] == "one\n" and contents(two)["d/c.txt"] == "A's work, too\n"
    assert contents(two)["d/b.txt"] == "B's work\n"
    two.ok("undo")
    restored(two, "--force")
    assert set(contents(two).values()) == {"one\n", "b\n", "c\n", "#!/bin/sh\n"}
    assert (two.path / "fresh.txt").exists()


@pytest.mark.full
@some("path", [".", "d", "*.txt", ":(glob)**/*.txt", ":/"])
def test_t05_a_directory_or_a_pattern_names_nothing(two: Sandbox, path: str) -> None:
    restored(two, "--", path, code=1)
    assert contents(two)["d/c.txt"] == "A's work, too\n" and contents(two)["a.txt"] == "A's work\n"
    assert contents(two)["d/b.txt"] == "b\n"
    assert (contents(two)["run.sh"] == "#!/bin/sh\n") == (path in (".", ":/"))


@pytest.mark.deep
def test_t05_a_directory_never_widens_the_scope(two: Sandbox) -> None:
    done = two.baton("restore", "--json", "--", ".", cwd=two.path / "d")
    assert done.code == 1 and actions(done) == {"d/b.txt": "write", "d/c.txt": "conflict"}
    assert contents(two)["run.sh"] == "B's work\n"
    two.ok("undo")
    done = two.baton("restore", "--json", "--", "c.txt", cwd=two.path / "d")
    assert done.code == 0 and actions(done) == {"d/c.txt": "write"}
    assert contents(two) == {"a.txt": "A's work\n", "d/b.txt": "B's work\n", "d/c.txt": "c\n", "run.sh": "B's work\n"}


@pytest.mark.deep
def test_t05_content_that_was_ours_first_is_ours(box: Sandbox) -> None:
    snap(box, "B", "one")
    box.write("a.txt", "B's work\n")
    snap(box, "B", "two")
    snap(box, "A", "sees it, too", "--no-set-current")
    restored(box, "B~1")
    assert (box.path / "a.txt").read_text() == "one\n"


@pytest.mark.deep
def test_t05_content_that_nothing_holds_is_ours(box: Sandbox) -> None:
    snap(box, "A")
    snap(box, "B")
    box.write("a.txt", "nobody knows\n")
    restored(box)
    assert (box.path / "a.txt").read_text() == "one\n"
    assert box.git("show", f"{SAFETY}:a.txt") == "nobody knows"


@pytest.mark.deep
def test_what_was_committed_since_is_not_staged_as_taken_back(repo: Sandbox) -> None:
    """``git commit`` after a restore commits nothing that somebody did not stage."""
    repo.write("a.txt", "more\n")
    repo.write("new.txt", "new\n")
    repo.ok("snapshot", "x", "--track", "t")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "more")
    repo.write("a.txt", "junk\n")
    repo.write("new.txt", "junk\n")
    repo.ok("restore")
    assert repo.git("status", "--porcelain") == ""
    repo.write("a.txt", "other\n")
    repo.git("commit", "-qam", "other")
    repo.ok("restore", "--", "a.txt")
    assert repo.git("diff", "--cached", "--name-only") == "" and (repo.path / "a.txt").read_text() == "more\n"
    repo.ok("undo")
    assert repo.git("status", "--porcelain") == ""


def test_what_was_left_out_and_is_gone_is_said(box: Sandbox) -> None:
    """Who takes everything back hears what does not come back."""
    box.git("config", "baton.maxFileSize", "64")
    for name in ("big", "kept", "small"):
        box.write(name, "x" * (8 if name == "small" else 100))
    box.ok("snapshot", "--track", "t", "--step", "s")
    for name in ("big", "small"):
        (box.path / name).unlink()
    oid = box.ok("show", "--json", "t").json["checkpoint"]["id"]
    said = f"the checkpoint does not hold 'big', and it is no longer here; 'git baton show {oid[:10]}' says why"
    assert box.ok("restore", "-n", "t", "--", "small").err == ""
    assert said in box.baton("restore", "t", "--", "big").err
    done = box.ok("restore", "t")
    assert done.out.startswith("create small\n") and f"warning: {said}\n" in done.err
    assert "skipped=too-large big" in box.ok("show", "--porcelain", oid).out
    assert f"warning: {said}\n" in box.ok("restore", "t").err, "also where nothing has to change"
    assert said not in box.ok("undo").err
