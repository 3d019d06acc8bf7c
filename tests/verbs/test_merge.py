"""``git baton merge``: another track's work is taken into this work tree, as git would merge it, and nothing is committed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.pairs import TEXT, P, Step, both, desks, did, insert, line, link, mode, move, remove, write
from tests.kit.state import actions, assert_same, files_of, state_of

Desk = Callable[[str], Sandbox]
IDLE = "nothing has to change: merge of track 'api': {}\n"


@pytest.fixture
def desk(repo: Sandbox, tmp_path: Path) -> Desk:
    """Work trees beside one repository with a file of 40 lines; each is named after its track."""
    return desks(repo, tmp_path)


def said(box: Sandbox, *words: str, code: int) -> dict[str, tuple[str, str]]:
    """What a merge of 'api' says of each path."""
    done = box.baton("merge", "api", "--json", *words)
    assert done.code == code, done.out + done.err
    return {one["path"]: (one["action"], one["reason"]) for one in done.json["paths"]}


def said_again(box: Sandbox, *, code: int) -> dict[str, tuple[str, str]]:
    """What it says when it is done again, which changes nothing."""
    before = state_of(box)
    told = said(box, code=code)
    assert_same(before, state_of(box), "again")
    return told


def test_their_work_comes_and_nothing_is_committed(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "add refunds", line(P, 10, "api"), write("new.txt", "new\n", 0o755), remove("a.txt"), link("to", "new.txt"))
    did(web, "rename things", line(P, 30, "web"))
    web.git("add", "-A")
    line(P, 35, "later")(web.path)
    before, there = state_of(web), state_of(api)
    shown = web.ok("merge", "api", "--dry-run")
    assert shown.out == (
        "would be done: merge of track 'api': add refunds\n"
        "would remove a.txt\nwould create new.txt\nwould write src/pay.py\nwould create to\n"
    )
    assert_same(before, state_of(web), "dry run")
    done = web.ok("merge", "api")
    assert done.out.endswith("create to\ndone: merge of track 'api': add refunds\n") and "git baton undo" in done.err
    after = state_of(web)
    assert (web.path / P).read_text() == both_lines({10: "api", 30: "web", 35: "later"})
    assert os.access(web.path / "new.txt", os.X_OK) and not (web.path / "a.txt").exists() and (web.path / "to").is_symlink()
    assert (after.index, after.refs) == (before.index, before.refs) and state_of(api) == there
    again = web.ok("merge", "api")
    assert again.out == IDLE.format("add refunds") and again.err == ""
    assert_same(after, state_of(web), "again")
    for verb, state in (("undo", before), ("redo", after), ("undo", before)):
        assert f"{verb}ne: merge of track 'api': add refunds" in web.ok(verb).out
        assert_same(state, state_of(web), verb)


def both_lines(rows: dict[int, str]) -> str:
    return "".join(f"{rows.get(n, f'line {n}')}\n" for n in range(1, 41))


@pytest.mark.deep
def test_the_step_reads_as_what_it_is(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "add refunds", line(P, 10, "api"))
    did(web, "rename things", line(P, 30, "web"))
    web.ok("merge", "api")
    assert web.ok("log").out.splitlines()[0].endswith("merged track 'api': add refunds")
    assert "taken in: track 'api': 'src/pay.py'" in web.ok("resume").out
    assert "taken in" not in api.ok("resume").out and "merged" not in api.ok("log").out
    assert web.ok("log", "--all").out.count("merged track 'api'") == 1
    assert "add refunds" in web.ok("why", f"{P}:10").out
    web.ok("undo")
    assert "taken in" not in web.ok("resume").out


@pytest.mark.deep
def test_what_does_not_merge_is_named_and_left(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    for name in ("gone", "kept", "bin"):
        write(name, b"\0one" if name == "bin" else f"{name}\n")(web.path)
    web.git("add", "-A")
    web.git("commit", "-qm", "more")
    api.git("merge", "-q", "web")
    did(api, "all", line(P, 10, "api"), line(P, 11, "api"), write("gone", "A\n"), remove("kept"), write("bin", b"\0two"))
    did(api, "and new", write("made", "A\n"), write("fine", "A\n"))
    did(web, "mine", line(P, 11, "web"), remove("gone"), write("kept", "B\n"), write("bin", b"\0web"), write("made", "B\n"))
    before = state_of(web)
    told = {
        "bin": ("conflict", "track 'api' changed it too, and it cannot be merged as text"),
        "gone": ("conflict", "track 'api' changed it, which is removed here"),
        "kept": ("conflict", "track 'api' removed it"),
        "made": ("conflict", "line 1: track 'api' added it too, otherwise"),
        P: ("conflict", "line 11: track 'api' changed it too"),
    }
    assert said(web, "-n", code=1) == {"fine": ("create", ""), **told}
    assert said(web, code=1) == {"fine": ("create", ""), **told}
    after = state_of(web)
    assert {p for p in after.files if after.files[p] != before.files.get(p)} == {"fine"}
    done = web.baton("merge", "api")
    assert done.code == 1 and done.err.count("--merge writes both sides of such a text into the file, with markers") == 1
    marked = said(web, "--merge", code=1)
    assert {path: action for path, (action, _) in marked.items() if action != "conflict"} == {"made": "write", P: "write"}
    assert marked[P][1] == marked["made"][1] == "with conflict markers"
    assert (web.path / "made").read_text() == "<<<<<<< now\nB\n=======\nA\n>>>>>>> track api\n"
    assert "<<<<<<< now\nline 10\nweb\n=======\napi\napi\n>>>>>>> track api\n" in (web.path / P).read_text()
    assert said(web, code=1)[P] == ("conflict", "conflict markers of a merge before are in it")
    assert "would be done" not in web.baton("merge", "-n", "api").out, "nothing would"
    web.ok("undo")
    assert_same(after, state_of(web), "undo")


@pytest.mark.deep
def test_a_resolved_conflict_is_not_told_again_and_what_is_new_comes(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "first", line(P, 10, "api"), write("junk", "j\n"), write("fine", "f\n"))
    did(web, "mine", line(P, 10, "web"))
    assert said(web, "--merge", code=1)["junk"] == ("create", "")
    write(P, TEXT.replace("line 10\n", "web and api\n"))(web.path)
    remove("junk")(web.path)  # not wanted here
    was = ("keep", "taken in before, and as it was left since")
    assert said(web, code=0) == {P: was, "junk": was}
    did(api, "second", line(P, 30, "api"))
    web.git("add", "-A")
    web.git("commit", "-qm", "with api's")
    assert said(web, code=0) == {P: ("write", ""), "junk": was}
    assert (web.path / P).read_text() == both_lines({10: "web and api", 30: "api"})
    assert said(web, "junk", code=0) == {"junk": ("create", "")}


@pytest.mark.deep
def test_what_was_merged_under_another_name_is_not_told_again(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "anew", write(P, b"\0anew"))
    did(web, "moved", move(P, "src/paid.py"))
    assert said(web, code=0) == {"src/paid.py": ("write", "")}
    was = ("keep", "taken in before, and as it was left since")
    assert said(web, code=0) == {P: was}
    did(api, "and again", write(P, b"\0again"))
    assert said(web, code=0) == {"src/paid.py": ("write", ""), P: was}
    assert (web.path / "src/paid.py").read_bytes() == b"\0again"


@pytest.mark.deep
def test_the_base_of_a_second_merge_is_what_was_merged_last(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "moved", move(P, "src/paid.py"), line("a.txt", 1, "api"))
    did(web, "moved too", move(P, "src/paid.py"))
    assert said(web, code=0) == {"a.txt": ("write", "")}
    did(api, "another in its place", write(P, b"\0another"))  # of what was moved git would take it for a change
    assert said(web, code=0)[P] == ("create", "")
    assert (web.path / "src/paid.py").read_text() == TEXT and (web.path / P).read_bytes() == b"\0another"


@pytest.mark.deep
def test_a_conflict_that_was_left_is_told_until_it_is_resolved(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "gone", remove(P), line("a.txt", 1, "api"))
    did(web, "moved", move(P, "src/paid.py"))
    open_one = {"src/paid.py": ("conflict", "track 'api' removed it")}
    assert said(web, code=1) == {"a.txt": ("write", ""), **open_one}
    assert said(web, code=1) == open_one
    web.ok("undo")
    web.ok("redo")
    assert said(web, code=1) == open_one
    remove("src/paid.py")(web.path)
    assert said(web, code=0) == {}


@pytest.mark.deep
def test_what_they_have_from_here_is_no_change_of_theirs(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "ours", line(P, 10, "api"))
    did(web, "mine", line(P, 30, "web"))
    api.ok("merge", "web")
    did(api, "with web's", line(P, 10, "api more"))
    line(P, 30, "web more")(web.path)
    assert said(web, code=0) == {P: ("write", "")}
    assert (web.path / P).read_text() == both_lines({10: "api more", 30: "web more"})
    web.ok("undo")
    line(P, 30, "line 30")(web.path)  # no longer wanted
    assert said(web, code=0) == {P: ("write", "")}


@pytest.mark.deep
def test_tracks_that_take_each_others_work_in_turn(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "ours", line(P, 10, "api"))
    did(web, "mine", line(P, 30, "web"))
    web.ok("merge", "api")
    api.ok("merge", "web")
    did(api, "more", line(P, 10, "api more"))
    did(web, "more", line(P, 30, "web more"))
    assert said(web, code=0) == {P: ("write", "")}
    assert api.ok("merge", "web").out.startswith(f"write {P}\n")
    assert (web.path / P).read_text() == (api.path / P).read_text() == both_lines({10: "api more", 30: "web more"})


@pytest.mark.deep
def test_what_both_took_from_a_third_track_is_in_both(desk: Desk) -> None:
    api, web, other = desk("api"), desk("web"), desk("other")
    did(other, "third", line(P, 20, "other"))
    api.ok("merge", "other")
    web.ok("merge", "other")
    did(api, "ours", line(P, 10, "api"))
    line(P, 20, "web on top")(web.path)
    assert said(web, code=0) == {P: ("write", "")}
    assert (web.path / P).read_text() == both_lines({10: "api", 20: "web on top"})


def test_a_conflict_with_what_is_committed_here_is_one(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "work", line(P, 10, "api"))
    line(P, 10, "web")(web.path)
    web.git("commit", "-qam", "web")
    line("a.txt", 1, "web")(web.path)
    assert said(web, "--merge", code=1) == {P: ("write", "with conflict markers")}
    assert "<<<<<<< now\nweb\n=======\napi\n>>>>>>> track api\n" in (web.path / P).read_text()


@pytest.mark.deep
def test_of_files_with_the_same_bytes_the_one_in_conflict_is_named(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "moved", move(P, "src/paid.py"), line("src/paid.py", 1, "api"))
    did(web, "same bytes", write("a.txt", TEXT.replace("line 1\n", "web\n")), line(P, 1, "web"))
    assert said(web, code=1) == {P: ("conflict", "line 1: track 'api' changed it too")}


@pytest.mark.deep
def test_what_was_merged_after_their_checkpoint_is_not_in_it(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(web, "mine", line(P, 30, "web"))
    did(api, "the same", line(P, 10, "api"), line("a.txt", 1, "web"))
    did(web, "more", line("a.txt", 1, "web"))
    api.ok("merge", "web")
    line(P, 30, "web more")(web.path)
    assert said(web, code=0) == {P: ("write", "")}
    assert (web.path / P).read_text() == both_lines({10: "api", 30: "web more"})


@pytest.mark.deep
def test_what_both_have_committed_since_is_the_newer_base(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "one", line(P, 10, "one"))
    web.ok("merge", "api")
    web.git("commit", "-qam", "one")
    did(api, "two", line(P, 10, "two"))
    api.git("commit", "-qam", "two")
    assert web.try_git("merge", "-q", "-X", "theirs", "api").code == 0
    did(api, "three", line(P, 10, "three"))
    assert said(web, code=0) == {P: ("write", "")}
    assert (web.path / P).read_text() == both_lines({10: "three"})


@pytest.mark.deep
def test_markers_are_told_where_nothing_is_left_to_merge(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "one line", line(P, 10, "api"), write("new", "n\n"))
    did(web, "all of them", write(P, "".join(f"other {n}\n" for n in range(40))))
    assert said(web, "--merge", code=1) == {P: ("write", "with conflict markers"), "new": ("create", "")}
    assert said(web, code=1) == {P: ("conflict", "conflict markers of a merge before are in it")}
    write(P, "resolved\n")(web.path)
    assert said(web, code=0) == {P: ("keep", "taken in before, and as it was left since")}


@pytest.mark.deep
def test_no_name_that_git_gave_a_side_is_told(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "folder", remove("a.txt"), write("a.txt/in", "in\n"), line(P, 10, "api"))
    web.ok("merge", "api")
    write("a.txt/own", "own\n")(web.path)
    did(api, "file", remove("a.txt/in"), lambda root: (root / "a.txt").rmdir(), write("a.txt", "file\n"))
    found = said(web, code=1)
    told = "track 'api' has a folder where a file is here, or a file where a folder is"
    assert found == {"a.txt": ("conflict", told), "a.txt/in": ("remove", "")}
    assert files_of(web.path / "a.txt").keys() == {"own"}


def test_what_git_says_of_a_setting_is_passed_on(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "work", line(P, 10, "api"))
    web.git("config", "merge.conflictStyle", "unheard")
    done = web.baton("merge", "api")
    assert (done.code, done.out) == (128, "") and "merge.conflictstyle" in done.err and "torn" not in done.err


@pytest.mark.deep
def test_a_merge_that_was_swept_away_is_done_again(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "first", line(P, 10, "api"), write("new", "n\n"))
    did(web, "mine", line(P, 30, "web"))
    web.ok("merge", "api")
    web.git("stash", "-uq")
    assert said(web, code=0) == {P: ("write", ""), "new": ("create", "")}
    web.git("reset", "-q", "--hard")
    web.git("clean", "-fdq")
    web.git("switch", "-q", "-c", "other")
    write(P, TEXT.replace("line 1\n", "other\n"))(web.path)
    web.git("commit", "-qam", "other")
    assert said(web, "-n", code=0) == {P: ("write", ""), "new": ("create", "")}


def test_what_head_has_of_theirs_is_not_taken_again(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "first", line(P, 10, "api"))
    api.git("commit", "-qam", "first")
    web.git("merge", "-q", "--squash", "api")
    web.git("commit", "-qm", "squashed")
    assert web.ok("merge", "api").out == IDLE.format("first")
    line(P, 10, "web on top")(web.path)
    assert said(web, code=0) == {P: ("keep", "committed here with it, and changed since")}
    did(api, "second", insert(P, 30, "api more"))
    assert said(web, code=0) == {P: ("write", "")}
    assert (web.path / P).read_text() == both_lines({10: "web on top", 30: "line 30\napi more"})


@pytest.mark.deep
def test_what_head_has_of_theirs_is_not_taken_again_after_a_merge_of_other_files(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "first", line(P, 10, "api"))
    api.git("commit", "-qam", "first")
    web.git("merge", "-q", "--squash", "api")
    web.git("commit", "-qm", "squashed")
    did(api, "second", write("new", "n\n"))
    line(P, 10, "line 10")(web.path)
    kept = {P: ("keep", "committed here with it, and changed since")}
    assert said(web, code=0) == {**kept, "new": ("create", "")}
    assert said_again(web, code=0) == kept
    assert said(web, "--", P, code=0) == {P: ("write", "")}


@pytest.mark.deep
@pytest.mark.parametrize("ours", [move(P, "ours.txt"), remove(P)], ids=["renamed", "removed"])
def test_a_rename_that_was_left_as_a_conflict_stays_one(desk: Desk, ours: Step) -> None:
    api, web = desk("api"), desk("web")
    did(api, "first", move(P, "theirs.txt"), write("new", "n\n"))
    did(web, "mine", ours)
    first = said(web, code=1)
    assert first.pop("new") == ("create", "") and {action for action, _ in first.values()} == {"conflict"}
    assert said_again(web, code=1) == first


@pytest.mark.deep
def test_what_was_brought_back_here_stays_after_their_work_on_it_came(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(web, "moved", move(P, "moved"))
    assert actions(api.ok("merge", "web", "--json")) == {P: "remove", "moved": "create"}
    did(api, "new", write("moved", "anew\n"))
    web.git("checkout", "--", P)
    kept = {P: ("keep", "it is there from here, and was changed here since")}
    assert said(web, code=0) == {**kept, "moved": ("write", "")}
    assert said_again(web, code=0) == kept


@pytest.mark.deep
def test_what_they_committed_since_comes_as_well(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    both(line(P, 10, "api"))(api.path)
    api.git("commit", "-qam", "first")
    did(api, "second", line(P, 20, "api"))
    did(web, "mine", line(P, 30, "web"))
    web.git("commit", "-qam", "mine")
    web.ok("merge", "api")
    assert (web.path / P).read_text() == both_lines({10: "api", 20: "api", 30: "web"})


@pytest.mark.deep
def test_renames_are_followed_both_ways(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "move", move(P, "src/paid.py"), line("src/paid.py", 10, "api"), line("a.txt", 1, "api"))
    did(web, "mine", line(P, 30, "web"), move("a.txt", "b.txt"))
    assert said(web, code=0) == {P: ("remove", ""), "src/paid.py": ("create", ""), "b.txt": ("write", "")}
    assert (web.path / "src/paid.py").read_text() == both_lines({10: "api", 30: "web"})
    assert (web.path / "b.txt").read_text() == "api\n" and not (web.path / "a.txt").exists()
    web.ok("undo")
    web.git("config", "core.excludesFile", str(write_excludes(web)))
    write("src/paid.py", "in the way\n")(web.path)
    found = said(web, code=1)
    assert found["src/paid.py"][0] in ("conflict", "refuse") and found.get(P, ("keep", ""))[0] in ("keep", "conflict")
    assert (web.path / P).read_text() == both_lines({30: "web"}) and (web.path / "src/paid.py").read_text() == "in the way\n"


def write_excludes(box: Sandbox) -> Path:
    place = box.path.parent / "excludes"
    place.write_text("paid.py\n")
    return place


@pytest.mark.deep
def test_only_paths_that_are_named(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "all", line(P, 10, "api"), write("src/new.py", "n\n"), write("doc.md", "d\n"), remove("a.txt"))
    did(web, "mine", line(P, 10, "web"))
    (web.path / "src").mkdir(exist_ok=True)
    shown = Sandbox(web.path / "src").baton("merge", "api", "-n", "--", ".")
    assert shown.code == 1 and "doc.md" not in shown.out and "would create src/new.py" in shown.out
    assert said(web, "--", "doc.md", "a.txt", code=0) == {"doc.md": ("create", ""), "a.txt": ("remove", "")}
    bad = web.baton("merge", "api", "--", "nowhere")
    assert (bad.code, bad.err) == (129, "fatal: 'nowhere' matches no file that track 'api' or this work tree holds\n")
    moved = web.baton("merge", "api", "src/new.py", "--json")
    assert moved.code == 0 and actions(moved) == {"src/new.py": "create"}


def test_no_track_of_its_own_and_none_that_is_not_there(desk: Desk) -> None:
    web = desk("web")
    did(web, "mine", line(P, 10, "web"))
    before = state_of(web)
    for words, code, err in (
        ((), 129, "fatal: merge needs the name of a track\nhint: 'git baton tracks' lists them\n"),
        (("nobody",), 2, "fatal: there is no checkpoint 'nobody'\nhint: see 'git baton log --all'\n"),
        (
            ("web",),
            128,
            "fatal: 'web' is the track of this work tree: a merge takes in another one's work\n"
            "hint: 'git baton help restore' says how files of its own checkpoints are put back\n",
        ),
    ):
        done = web.baton("merge", *words)
        assert (done.code, done.out, done.err) == (code, "", err)
    assert_same(before, state_of(web), "refused")


@pytest.mark.deep
def test_unrelated_histories_are_refused(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    api.git("checkout", "-q", "--orphan", "apart")
    api.git("commit", "-qm", "apart")
    did(api, "apart", line(P, 10, "api"))
    before = state_of(web)
    done = web.baton("merge", "api")
    assert (
        done.code == 128 and "and track 'api' (on " in done.err and "have unrelated histories: no commit is in both" in done.err
    )
    assert_same(before, state_of(web), "refused")


@pytest.mark.deep
def test_a_work_tree_without_a_commit(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "work", write("new", "n\n"), line(P, 10, "api"))
    web.git("checkout", "-q", "--orphan", "new-born")
    web.git("rm", "-rqf", ".")
    write(P, "other\n")(web.path)
    found = said(web, code=1)
    assert found == {
        "a.txt": ("create", ""),
        "new": ("create", ""),
        P: ("conflict", "line 1: track 'api' added it too, otherwise"),
    }
    web.ok("undo")
    assert set(files_of(web.path)) == {P}


@pytest.mark.deep
def test_a_fetched_track_asks_for_foreign_where_it_writes(desk: Desk, tmp_path: Path) -> None:
    api, web = desk("api"), desk("web")
    web.git("init", "-q", "--bare", str(tmp_path / "hub.git"))
    web.git("remote", "add", "hub", str(tmp_path / "hub.git"))
    did(api, 'say "hello"', line(P, 10, "api"), write(".vscode/tasks.json", "{}\n"))
    api.ok("push", "hub", "api", "--yes")
    web.git("push", "-q", "hub", "HEAD:refs/heads/main")
    web.git("clone", "-q", "-b", "main", str(tmp_path / "hub.git"), str(tmp_path / "far"))
    far = Sandbox(tmp_path / "far")
    far.ok("fetch", "origin")
    did(far, "mine", line(P, 30, "far"), track="mine")
    before = state_of(far)
    name = "origin/api" if far.baton("merge", "-n", "origin/api").code == 0 else "api"
    refused = far.baton("merge", name)
    assert (
        refused.code == 128
        and "was fetched from elsewhere" in refused.err
        and "--foreign merges it all the same" in refused.err
    )
    assert_same(before, state_of(far), "refused")
    shown = far.ok("merge", "-n", name)
    assert "would write src/pay.py" in shown.out and "hello" not in shown.out
    assert "it is a stranger's: '.vscode/tasks.json'" in shown.out
    done = far.ok("merge", name, "--foreign")
    assert "hello" not in done.out and (far.path / P).read_text() == both_lines({10: "api", 30: "far"})
    assert "hello" not in far.ok("log").out.splitlines()[0]
    far.ok("undo")
    assert_same(before, state_of(far), "undo")


@pytest.mark.deep
def test_untracked_and_ignored_files_in_the_way_stay(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "work", write("plain", "A\n"), write("hidden", "A\n"), write("dir/x", "A\n"), write("same", "S\n"))
    did(web, "mine", write(".gitignore", "hidden\n"))
    both(write("plain", "B\n"), write("hidden", "B\n"), write("dir", "B\n"), write("same", "S\n"))(web.path)
    before = files_of(web.path)
    found = said(web, code=1)
    assert {path for path, (action, _) in found.items() if action in ("conflict", "refuse")} >= {"plain", "hidden"}
    assert files_of(web.path) == before, found


@pytest.mark.deep
def test_the_middle_of_a_merge_of_theirs_and_of_ours(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    line(P, 10, "api")(api.path)
    api.git("commit", "-qam", "api")
    line(P, 10, "web")(web.path)
    web.git("commit", "-qam", "web")
    assert api.try_git("merge", "web").code == 1
    did(api, "in the middle", write("new", "n\n"))
    done = web.baton("merge", "api")
    assert done.code == 1 and f"conflict {P} (unmerged in track 'api')\n" in done.out and "create new\n" in done.out
    assert "warning: track 'api' was in the middle of a merge" in done.err
    assert web.try_git("merge", "api").code == 1
    before, did_before = state_of(web), web.git("ls-files", "-u")
    done = web.baton("merge", "api")
    assert done.code in (0, 1) and web.git("ls-files", "-u") == did_before and state_of(web).refs == before.refs


@pytest.mark.deep
def test_a_driver_of_the_users_is_not_passed_over(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    web.git("config", "merge.mine.driver", "touch ran; false")
    write(".gitattributes", "*.cfg merge=mine\n")(web.path)
    write("x.cfg", "0\n")(web.path)
    web.git("add", "-A")
    web.git("commit", "-qm", "more")
    api.git("merge", "-q", "web")
    did(api, "work", write("x.cfg", "A\n"), line(P, 10, "api"))
    write("x.cfg", "B\n")(web.path)
    found = said(web, code=1)
    assert found == {P: ("write", ""), "x.cfg": ("conflict", "both changed it, and the driver that merges it is not run")}
    assert (web.path / "x.cfg").read_text() == "B\n" and not (web.path / "ran").exists()


@pytest.mark.deep
def test_files_outside_a_sparse_checkout_are_refused(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "work", line(P, 10, "api"), line("a.txt", 1, "api"))
    web.git("sparse-checkout", "set", "--no-cone", "a.txt")
    assert not (web.path / P).exists()
    assert said(web, code=1) == {"a.txt": ("write", ""), P: ("refuse", "skip-worktree")}
    assert not (web.path / P).exists() and (web.path / "a.txt").read_text() == "api\n"


@pytest.mark.deep
def test_line_endings_and_modes(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    web.git("config", "core.autocrlf", "true")
    (web.path / P).write_bytes(TEXT.replace("\n", "\r\n").encode())
    web.git("add", "-A")
    did(api, "work", mode("a.txt", 0o755))
    (api.path / P).write_bytes(TEXT.replace("line 10\n", "api\n").encode())
    api.ok("snapshot", "more", "--track", "api")
    did(web, "mine", write("w", "w\r\n"))
    (web.path / P).write_bytes(TEXT.replace("line 30\n", "web\n").replace("\n", "\r\n").encode())
    before = state_of(web)
    assert said(web, code=0) == {P: ("write", ""), "a.txt": ("write", "")}
    assert (web.path / P).read_bytes() == both_lines({10: "api", 30: "web"}).replace("\n", "\r\n").encode()
    assert os.access(web.path / "a.txt", os.X_OK)
    web.ok("undo")
    assert_same(before, state_of(web), "undo")


@pytest.mark.deep
def test_nothing_of_a_look_stays_in_the_store(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "work", line(P, 10, "api"), line("a.txt", 1, "api"))
    did(web, "mine", line(P, 30, "web"), line("a.txt", 1, "web"))

    def objects() -> dict[str, str]:
        rows = web.git("cat-file", "--batch-all-objects", "--batch-check").splitlines()
        return {oid: kind for oid, kind, _ in map(str.split, rows)}

    before = objects()
    assert web.baton("merge", "api", "-n", "--merge").code == 1
    assert objects() == before
    assert web.baton("merge", "api", "--merge").code == 1
    reached = {*web.git("rev-list", "--objects", "--no-object-names", "--glob=refs/baton/safety").split(), *before}
    new = {oid: kind for oid, kind in objects().items() if oid not in reached}
    assert set(new.values()) <= {"tree"}, new


@pytest.mark.deep
def test_a_folder_that_went_with_its_work_tree_is_not_needed(desk: Desk) -> None:
    api, web = desk("api"), desk("web")
    did(api, "work", line(P, 10, "api"))
    shutil.rmtree(api.path)
    web.git("worktree", "prune")
    assert said(web, code=0) == {P: ("write", "")}
