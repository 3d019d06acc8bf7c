"""The list of rewind: what stands in it, counted as git counts, in the room that the terminal has."""

from __future__ import annotations

import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from gitbaton.base.codec import encode, message
from gitbaton.base.model import Carried, Stored
from gitbaton.base.values import replace
from gitbaton.care.tools import rewinding
from gitbaton.care.tools.rewinding import Changes
from gitbaton.cli.columns import cut, width
from gitbaton.cli.commands.rewind import table
from gitbaton.cli.look import Look
from gitbaton.git.objects import commit_data, new_object
from tests.kit import Sandbox
from tests.kit.repos import loose
from tests.kit.rewindkit import WHICH, Screen, steps, take
from tests.kit.state import common_dir
from tests.kit.talks import Talk

CHAIN = "refs/baton/tracks/t"
ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202e\u2028\ufeff]")


def listed(box: Sandbox, *words: str, size: tuple[int, int] = (24, 120), env: dict[str, str] | None = None) -> str:
    """What is shown before the first prompt."""
    screen = Screen(box, *words, size=size, env=env)
    shown = screen.answer(WHICH, "\n")
    assert screen.end()[0] == 0
    return shown


def rows_of(box: Sandbox, track: str = "t") -> list[rewinding.RewindRow]:
    with box.open(door="binary") as baton:
        return list(rewinding.page(baton, track, baton.tip(track).commit, 100).rows)


def grown(box: Sandbox, count: int, first: Stored | None = None) -> Stored:
    """A chain made longer by so many checkpoints, by writing its commits; the last one."""
    stored = first or take(box, "step 0")
    with box.open() as baton:
        new = []
        for number in range(1, count + 1):
            c = stored.checkpoint
            c = replace(c, step=f"step {number}", created=c.created + timedelta(seconds=1), previous=stored.id)
            raw = encode(c)
            parents = (stored.commit, *((stored.base,) if stored.base else ()))
            author = b"A U Thor <a@example.com> %d +0000" % c.created.timestamp()
            data = commit_data(tree=stored.tree, parents=parents, author=author, message=message(c.step, raw))
            new.append(new_object(baton.repo.layout.algorithm, "commit", data))
            blob = new_object(baton.repo.layout.algorithm, "blob", raw)
            stored = replace(stored, id=blob.oid, commit=new[-1].oid, raw=raw, checkpoint=c)
        baton.store.objects.write(new)
    box.git("update-ref", CHAIN, stored.commit)
    return stored


def check_counts(box: Sandbox) -> None:
    """Git itself, asked one by one, says the same."""
    for row in rows_of(box):
        commit, head = row.stored.commit, row.stored.checkpoint.head
        parent = box.git("rev-parse", f"{commit}^1")
        before = parent if "gitbaton root" not in box.git("log", "-1", "--format=%s", parent) else f"{head}"
        said = box.git("diff", "--no-renames", "--shortstat", before, commit)
        numbers = {word[:4]: int(number) for number, word in re.findall(r"(\d+) (file|insertion|deletion)", said)}
        wanted = Changes(files=numbers.get("file", 0), added=numbers.get("inse", 0), removed=numbers.get("dele", 0))
        assert row.changes == wanted, row.stored.checkpoint.step


@pytest.mark.full
def test_counts_are_gits(repo: Sandbox) -> None:
    repo.write("a.txt", "one\ntwo\n")
    take(repo, "the first, against its base")
    repo.write("bin.dat", b"\x00\x01" * 500)
    repo.write('we\u0131rd\n"name"\t \u00e4.txt', "x\ny\n")
    take(repo, "binary, and a hostile name")
    repo.write("bin.dat", b"\x00\x02" * 500)
    (repo.path / "a.txt").rename(repo.path / "moved.txt")
    (repo.path / "link").symlink_to("moved.txt")
    take(repo, "moved")
    take(repo, "nothing")
    repo.git("config", "diff.renames", "copies")
    repo.git("config", "diff.external", "false")
    repo.git("config", "diff.up.textconv", "tr a-z A-Z <")
    repo.write(".gitattributes", "*.txt diff=up\n")
    repo.write("moved.txt", "ONE\ntwo\n")
    repo.commit("committed")
    take(repo, "after a commit")
    repo.git("config", "--unset", "diff.external")
    check_counts(repo)
    assert [row.changes.files for row in rows_of(repo) if row.changes] == [2, 0, 4, 2, 1]
    assert [f.changed for row in rows_of(repo) if (f := row.stored.checkpoint.files)] == [2, 0, 4, 2, 1]
    shown = steps(listed(repo))
    assert re.search(r" 2 files +\+2 +-1 +after a commit$", shown[0]) and re.search(r" 1 file +\+1 +-0 +the first", shown[4])


@pytest.mark.deep
def test_an_unborn_branch_is_counted_against_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    box = Sandbox.init(tmp_path_factory.mktemp("unborn") / "repo")
    box.write("a.txt", "one\n")
    take(box, "s")
    assert [row.changes for row in rows_of(box)] == [Changes(files=1, added=1, removed=0)]
    box.git("add", "a.txt")
    take(box, "staged", track="staged")
    assert [row.changes for row in rows_of(box, "staged")] == [Changes(files=1, added=1, removed=0)]


def test_what_was_fetched_is_quoted(repo: Sandbox) -> None:
    """No command fetches yet: the flag is set on a row."""
    take(repo, "s", label="good")
    with repo.open(door="binary") as baton:
        row = rows_of(repo)[0]
        theirs = replace(row, stored=replace(row.stored, foreign=True))
        look = Look(baton, {})
        assert [text.partition("-0  ")[2] for text in table([row, theirs], look)] == ["s [good]", "> s [good]"]
        assert table([], look) == []


@pytest.mark.deep
def test_one_process_counts_all(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        repo.write("a.txt", f"{number}\n")
        take(repo, f"step {number}")
    trace = repo.path / ".git/trace"
    monkeypatch.setenv("GIT_TRACE", str(trace))
    assert [row.changes for row in rows_of(repo)] == [Changes(files=1, added=1, removed=1)] * 4
    assert trace.read_text().count("diff-tree") == 1


@pytest.mark.deep
def test_what_git_cannot_count_is_listed_all_the_same(repo: Sandbox) -> None:
    take(repo, "one")
    repo.write("a.txt", "two\n")
    lost = repo.git("hash-object", str(repo.path / "a.txt"))
    take(repo, "two")
    repo.write("a.txt", "three\n")
    take(repo, "three")
    loose(common_dir(repo), lost, ".").unlink()
    rows = rows_of(repo)
    assert [row.stored.checkpoint.step for row in rows] == ["three", "two", "one"]
    assert rows[0].changes is None or rows[1].changes is None
    assert "? files" in listed(repo)


@pytest.mark.deep
def test_a_broken_checkpoint_is_named_and_the_others_listed(repo: Sandbox) -> None:
    first = take(repo, "one")
    broken = repo.git("commit-tree", first.tree, "-p", first.commit, "-m", "no checkpoint")
    repo.git("update-ref", CHAIN, broken)
    after = grown(repo, 1, replace(first, commit=broken))
    repo.git("update-ref", CHAIN, after.commit)
    shown = listed(repo)
    assert [row.split()[-1] for row in steps(shown)] == ["1", "one"]
    assert f"commit {broken}' is left out" in shown


@pytest.mark.deep
def test_what_an_automatic_checkpoint_carries_is_said_and_stale(repo: Sandbox) -> None:
    manual = take(repo, "mend the parser", validation="green")
    c = manual.checkpoint
    carried = Carried(id=manual.id, step=c.step, created=c.created, branch="main", head=c.head, tree=manual.tree)
    repo.write("a.txt", "two\n")
    take(repo, "turn ended: go on", kind="auto", validation="green", carried=carried)
    rows = steps(listed(repo))
    assert re.search(r" \.  now  ~ stale .*1 file +\+1 +-1  turn ended: go on \(after: mend the parser\)$", rows[0]), rows
    assert "  o  now  + green " in rows[1]


HOSTILE = "red \x1b[31m\x1b]0;title\x07 back\r\x08 \u202eturn\u2028 \u009b2J end"


@pytest.mark.full
@pytest.mark.parametrize("size", [(24, 80), (24, 400)])
def test_hostile_words_reach_no_terminal(repo: Sandbox, size: tuple[int, int]) -> None:
    take(repo, HOSTILE, label="lab\u202eel")
    screen = Screen(repo, size=size)
    shown = screen.answer(WHICH, "1\n") + screen.answer("[q]uit? ", "q\n")
    assert screen.end()[0] == 0
    assert "red ?[31m" in shown and not ESCAPE.search(shown), shown


@pytest.mark.full
def test_each_line_fits_and_wide_characters_are_aligned(repo: Sandbox) -> None:
    for step in ("plain " * 30, "\u6f22\u5b57" * 40, "e\u0301" * 200, "short"):
        take(repo, step)
    for columns in (20, 33, 40, 60, 80, 120, 300):
        rows = steps(listed(repo, size=(24, columns)))
        assert len(rows) == 4 and all(width(row) < columns for row in rows), rows
        assert rows[0].endswith("short") and all(row.endswith("\u2026") for row in rows[1:] if columns < 140), rows
    at = [width(row.partition("short")[0]) for row in rows[:1]] + [width(row.partition("\u6f22")[0]) for row in rows[2:3]]
    assert at[0] == at[1]


def test_text_is_measured_and_cut_by_columns() -> None:
    assert [width(text) for text in ("ab", "\u6f22", "e\u0301", "\uff21", "")] == [2, 2, 1, 2, 0]
    assert cut("abcdef", 6) == "abcdef" and cut("abcdefg", 6) == "abcde\u2026"
    assert cut("\u6f22\u5b57\u6f22", 5) == "\u6f22\u5b57\u2026"
    assert cut("e\u0301e\u0301e\u0301e\u0301", 3) == "e\u0301e\u0301\u2026"
    for columns in range(8):
        assert width(cut("\u6f22ab\u5b57e\u0301c", columns)) <= columns


@pytest.mark.full
def test_colours_as_other_verbs_have_them(repo: Sandbox) -> None:
    take(repo, "s", validation="green")
    plain = {"NO_COLOR": "1"}
    for env, before, tinted in (({}, (), True), (plain, (), False), ({"TERM": "dumb"}, (), False), (plain, ("--color",), True)):
        base = {"TERM": "xterm", **env}
        program = ("env", "-u", "NO_COLOR", *(f"{k}={v}" for k, v in base.items()), *Screen.PROGRAM)
        screen = Screen(repo, before=before, program=program)
        shown = screen.answer(WHICH, "q\n")
        assert screen.end()[0] == 0
        assert ("\x1b[32m+ green" in shown) == tinted


@pytest.mark.full
def test_a_tiny_window_lists_one_by_one(repo: Sandbox) -> None:
    grown(repo, 3)
    for size in ((1, 10), (4, 20), (5, 40)):
        screen = Screen(repo, "--foreign", size=size)  # written as another machine would
        assert [row.split()[0] for row in steps(screen.answer(WHICH, "m\n"))] == ["1"]
        assert [row.split()[0] for row in steps(screen.answer(WHICH, "2\n"))] == ["2"]
        screen.answer("[q]uit? ", "q\n")
        assert screen.end()[0] == 0


@pytest.mark.deep
def test_a_window_without_a_size(repo: Sandbox) -> None:
    grown(repo, 30)
    assert len(steps(listed(repo, size=(0, 0)))) == 20


@pytest.mark.deep
def test_a_thousand_checkpoints_come_as_they_are_asked_for(repo: Sandbox) -> None:
    grown(repo, 999)
    screen = Screen(repo)
    rows = steps(screen.answer(WHICH, "m\n"))
    assert len(rows) == 20 and rows[0].endswith("step 999") and rows[-1].endswith("step 980")
    take(repo, "meanwhile")
    rows = steps(screen.answer(WHICH, "30\n"))
    assert [row.split()[0] for row in rows] == [str(number) for number in range(21, 41)]
    assert rows[9].endswith("step 970")
    assert "step: step 970\n" in screen.answer("[q]uit? ", "q\n")
    assert screen.end()[0] == 0
    everything = Screen(repo, "-n", "2000", size=(2000, 80))
    rows = steps(everything.answer(WHICH, "m\n"))
    assert len(rows) == 1001 and rows[0].endswith("meanwhile") and rows[-1].endswith("step 0")
    assert "these are all checkpoints of track 't'" in everything.answer(WHICH, "q\n")
    assert everything.end()[0] == 0


@pytest.mark.full
def test_how_many_and_of_which_track(repo: Sandbox) -> None:
    grown(repo, 9)
    take(repo, "elsewhere", "other track", set_current=False)
    assert len(steps(listed(repo, "-n", "3"))) == 3
    assert len(steps(listed(repo, size=(10, 80)))) == 6
    shown = steps(listed(repo, "--track", "other track"))
    assert len(shown) == 1 and shown[0].endswith("elsewhere")
    for words, code in ((("--track", "none"), 2), (("-n", "0"), 129)):
        ended, said = Screen(repo, *words).end()
        assert ended == code and "fatal: " in said and WHICH not in said


@pytest.mark.deep
def test_a_long_plan_shows_first_what_matters_and_says_how_to_see_all(repo: Sandbox) -> None:
    for number in range(60):
        repo.write(f"d/{number}.txt", "x\n")
    take(repo, "all")
    for number in range(60):
        repo.write(f"d/{number}.txt", "y\n")
    (repo.path / "a.txt").unlink()
    (repo.path / "a.txt").mkdir()
    repo.write("a.txt/in.txt", "in the way\n")
    screen = Screen(repo)
    screen.answer(WHICH, "1\n")
    shown = screen.answer("[q]uit? ", "f\n")
    lines = [row for row in shown.splitlines() if row.startswith("would ")]
    assert len(lines) == 10 and lines[0].startswith("would refuse a.txt ("), shown
    assert re.search(r"and 52 more; 'git baton restore --dry-run -v [0-9a-f]{10}' lists them\n", shown)
    assert "files: 1 refuse, 60 write, 1 keep\n" in shown
    code, rest = screen.end()
    assert code == 1 and "wrote 60 files, kept 1 other file, refused 1 path ('git baton undo -n -v' lists them)" in rest


@pytest.mark.full
def test_another_place_and_another_mirror(repo: Sandbox) -> None:
    """The options before the verb mean the same for what is shown and what is carried out."""
    take(repo, "s")
    repo.write("a.txt", "spoilt\n")
    repo.write("mine/LATEST.md", "what the mirror would overwrite\n")
    elsewhere = Sandbox(repo.path.parent)
    screen = Screen(elsewhere, before=("--repo-root", str(repo.path), "--checkpoint-dir", "mine"))
    screen.answer(WHICH, "1\n")
    screen.answer("[q]uit? ", "f\n")
    code, said = screen.end()
    assert code == 0 and "not what was shown" not in said
    assert (repo.path / "a.txt").read_text() == "one\n"


def test_a_bare_repository_has_no_files_to_restore(repo: Sandbox) -> None:
    take(repo, "s")
    bare = repo.path.parent / "bare.git"
    shutil.copytree(repo.path / ".git", bare)  # a mirror's checkpoints would be foreign
    Sandbox(bare).git("config", "core.bare", "true")
    screen = Screen(Sandbox(bare), "--track", "t")
    screen.answer(WHICH, "1\n")
    assert "has no work tree" in screen.answer(WHICH, "q\n")
    assert screen.end()[0] == 0


@pytest.mark.full
def test_a_turn_is_called_and_judged_as_in_log(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "t", "begin", "--validation", "green")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    for asked in ("the lexer first", "now the parser"):
        talk.ask(asked)
        talk.edit("a.txt", f"{asked}\n")
        talk.run("pytest -q", "1 failed in 0.10s\n", 1)
        talk.stop()
    shown, logged = listed(repo), repo.ok("log", "t").out
    for number, asked in enumerate(("the lexer first", "now the parser"), 1):
        for text in (shown, logged):
            [row] = [row for row in text.splitlines() if f"turn {number}  {asked}" in row]
            assert "x failed" in row
