"""Committed is not drift: ``committed:N`` where HEAD went on with just what was captured, else ``head-ahead:N`` as before."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, autos
from tests.kit.state import snap
from tests.kit.tiers import some
from tests.promises.test_hooks import install, spoken

GREEN = ("--validation", "green")
COMMIT = ("commit", "-q", "-m", "c")


def verified(repo: Sandbox, *options: str) -> tuple[int, str]:
    """Exit status and words of ``verify``; ``resume --live`` must say the same words."""
    done = repo.baton("verify", *options)
    said = ",".join(row.split(": ")[0] for row in done.out.splitlines()) or "none"
    hinted = any(f"'git {words} " in done.err for words in ("baton diff", "log --oneline", "switch"))
    assert "hint: " in done.err and hinted if done.code else not done.err
    live = repo.ok("resume", "--live", "--json").json["live"]
    assert (",".join((live.get("words", live) if "--words" in options else live)["drift"]) or "none") == said
    assert "--words" in options or f"\ndrift={said}\n" in repo.ok("resume", "--porcelain", "--live").out
    return done.code, said


def worded(repo: Sandbox) -> tuple[int, str]:
    """The same since the words were written."""
    return verified(repo, "--words")


def removed(repo: Sandbox) -> None:
    (repo.path / "a.txt").unlink()


def renamed(repo: Sandbox) -> None:
    repo.git("mv", "a.txt", "z.txt")


def executable(repo: Sandbox) -> None:
    (repo.path / "a.txt").chmod(0o755)


def linked(repo: Sandbox) -> None:
    removed(repo)
    (repo.path / "a.txt").symlink_to("elsewhere")


def foldered(repo: Sandbox) -> None:
    removed(repo)
    repo.write("a.txt/inside", "x\n")


EDITS = [lambda r: r.write("a.txt", "two\n"), lambda r: r.write("new"), removed, renamed, executable, linked, foldered]


@pytest.mark.full
@some("edit", EDITS, 3, ids=["edit", "new", "removed", "renamed", "mode", "link", "folder"])
def test_a_commit_of_just_what_was_captured_is_at_home(repo: Sandbox, edit: Callable[[Sandbox], object]) -> None:
    edit(repo)
    snap(repo, "t", "done", *GREEN)
    repo.commit("all of it")
    assert verified(repo) == (0, "committed:1") and repo.baton("verify", "--strict").code == 0


@pytest.mark.full
def test_it_is_said_in_every_place(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    snap(repo, "t", "done", *GREEN)
    for text in ("first half", "second half"):
        repo.git(*COMMIT, "--allow-empty", "-a", "-m", text)
    short = repo.git("rev-parse", "--short=10", "HEAD")
    assert repo.ok("verify").out == f"committed:2: HEAD {short} is 2 commits ahead, with nothing but what was captured\n"
    assert "\nvalidation=green\n" in repo.ok("resume", "--porcelain", "--live").out
    live = repo.ok("verify", "--json").json["live"]
    assert live["drift"] == ["committed:2"] and live["moved"] is False and live["since"]["stale"] is False
    assert f"  + green  = committed as {short[:7]}  done\n" in repo.ok("status").out
    assert "\tgreen\tcommitted:2\tdone\t" in repo.ok("status", "--porcelain").out
    told = Client("claude", repo.path).fire("start")
    assert "drift: committed:2\n" in told and "stale" not in told


@pytest.mark.deep
def test_one_path_more_is_ahead_and_is_named(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    snap(repo)
    repo.git(*COMMIT, "-a")
    head = repo.git("rev-parse", "--short=10", "HEAD~1")
    repo.commit("theirs", b_txt="b\n")
    done = repo.baton("verify")
    more = "1 path was committed since, not as the checkpoint holds it: 'b.txt'"
    said = f"is 2 commits ahead of the checkpoint's commit {head}; {more}"
    assert done.code == 1 and f" {said}\n" in done.out and done.out.startswith("head-ahead:2: ")
    repo.commit("more of it", **{f"c{n}_txt": "c\n" for n in range(4)})
    said = "; 5 paths were committed since, not as the checkpoint holds them: 'b.txt', 'c0.txt', 'c1.txt' and 2 more\n"
    assert said in repo.baton("verify").out
    repo.git("rm", "-q", "b.txt", *(f"c{n}.txt" for n in range(4)))
    repo.git(*COMMIT)
    assert verified(repo) == (0, "committed:4"), "what came is gone again"


@pytest.mark.full
def test_what_was_staged_counts_as_what_was_captured(repo: Sandbox) -> None:
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", "on disk\n")
    snap(repo)
    repo.git(*COMMIT)
    assert verified(repo) == (0, "committed:1")
    repo.git(*COMMIT, "-a")
    assert verified(repo) == (0, "committed:2")
    repo.write("a.txt", "later\n")
    repo.git(*COMMIT, "-a")
    assert verified(repo) == (1, "head-ahead:3,files-changed:1")


@pytest.mark.full
def test_an_index_that_is_not_whole_says_nothing_of_what_it_lacks(repo: Sandbox) -> None:
    repo.git("branch", "side")
    repo.commit("ours", a_txt="ours\n")
    repo.git("checkout", "-q", "side")
    repo.commit("theirs", a_txt="theirs\n")
    assert repo.try_git("merge", "main").code == 1
    snap(repo)
    repo.git("reset", "-q", "--hard")
    repo.git("rm", "-q", "a.txt")
    repo.git(*COMMIT)
    assert verified(repo) == (1, "head-ahead:1,operation:none,files-changed:1")


@pytest.mark.deep
def test_nothing_that_differs_is_ahead_as_before(repo: Sandbox) -> None:
    snap(repo)
    repo.git(*COMMIT, "--allow-empty")
    assert verified(repo) == (1, "head-ahead:1")
    short = repo.git("rev-parse", "--short=10", "HEAD~1")
    assert repo.baton("verify").out.endswith(f" is 1 commit ahead of the checkpoint's commit {short}\n")


@pytest.mark.full
def test_without_files_nobody_knows(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    snap(repo, "t", "s", "--no-files")
    repo.git(*COMMIT, "-a")
    assert verified(repo) == (1, "head-ahead:1")


@pytest.mark.deep
def test_the_first_commit_of_all(tmp_path: Path) -> None:
    repo = Sandbox.init(tmp_path / "new")
    repo.write("a.txt", "one\n")
    snap(repo)
    repo.commit("first")
    assert verified(repo) == (0, "committed:1")
    repo.commit("second", b_txt="b\n")
    assert verified(repo) == (1, "head-ahead:2,files-changed:1")
    assert (
        "HEAD has 2 commits" in repo.baton("verify").out
        and "not as the checkpoint holds it: 'b.txt'" in repo.baton("verify").out
    )


def test_another_branch_is_another_branch(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    snap(repo)
    repo.git("checkout", "-q", "-b", "topic")
    repo.git(*COMMIT, "-a")
    assert verified(repo) == (1, "branch-switched,committed:1")
    assert "t: ! branch switched, committed as " in repo.ok("status").out


@pytest.mark.deep
def test_amended_afterwards_and_pulled_afterwards(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    snap(repo)
    repo.git(*COMMIT, "-a")
    repo.git("commit", "-q", "--amend", "-m", "said better")
    assert verified(repo) == (0, "committed:1")
    repo.git("checkout", "-q", "-b", "upstream", "HEAD~1")
    repo.commit("theirs", b_txt="b\n")
    repo.git("checkout", "-q", "main")
    repo.git("rebase", "-q", "upstream")
    assert verified(repo) == (1, "head-ahead:2,files-changed:1")


@pytest.mark.full
def test_a_submodule_that_git_is_to_ignore_counts(repo: Sandbox) -> None:
    library = Sandbox.init(repo.path.parent / "library")
    library.commit("zero")
    library.commit("one")
    repo.git("submodule", "--quiet", "add", str(library.path), "sub")
    repo.git("config", "-f", ".gitmodules", "submodule.sub.ignore", "all")
    repo.commit("with a submodule")
    repo.write("a.txt", "two\n")
    snap(repo)
    repo.git("-C", "sub", "checkout", "-q", "HEAD~1")
    repo.git("update-index", "--cacheinfo", f"160000,{repo.git('-C', 'sub', 'rev-parse', 'HEAD')},sub")
    repo.git("add", "a.txt")
    repo.git(*COMMIT)
    assert verified(repo) == (1, "head-ahead:1,files-changed:1")


@pytest.mark.full
def test_automatic_checkpoints_carry_the_words_home(repo: Sandbox) -> None:
    snap(repo, "t", "words", *GREEN)
    client = Client("claude", repo.path)
    repo.write("a.txt", "two\n")
    client.turn("edit")
    repo.git(*COMMIT, "-a")
    assert worded(repo)[1].startswith("committed:1,files-changed:1") and repo.baton("verify", "--words").code == 0
    assert "stale" in repo.ok("resume", "--porcelain", "--live").out, "the words' tree is not what is there"
    repo.write("b.txt", "b\n")
    client.turn("go on")
    assert len(autos(repo, "t")) == 2 and verified(repo) == (0, "none")
    assert worded(repo)[1].startswith("committed:1,"), "a checkpoint on the new commit changes nothing about it"
    repo.commit("the rest")
    assert worded(repo)[1].startswith("committed:1,")
    client.turn("and rest")
    assert worded(repo)[1].startswith("committed:1,") and repo.baton("verify", "--words").code == 0


@pytest.mark.full
def test_words_are_not_stale_where_their_tree_is_committed(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    snap(repo, "t", "words", *GREEN)
    client = Client("codex", repo.path)
    repo.git("add", "-A")
    client.turn("stage it")
    repo.git(*COMMIT)
    for _ in range(2):
        assert worded(repo) == (0, "committed:1") and "\nvalidation=green\n" in repo.ok("resume", "--porcelain", "--live").out
        client.turn("look")
    assert len(autos(repo, "t")) == 2


@pytest.mark.full
def test_what_is_hinted_at_shows_what_was_counted(repo: Sandbox) -> None:
    snap(repo, "t", "words")
    client = Client("claude", repo.path)
    repo.write("a.txt", "two\n")
    client.turn("edit")
    repo.commit("more", b_txt="b\n")
    repo.commit("and more", c_txt="c\n")
    for named in ([], ["--track", "t"], ["t"]):
        for options, count in (([], 2), (["--words"], 3)):
            done = repo.baton("verify", *options, *named)
            shown, then = re.findall(r"'git baton ((?:diff|snapshot)[^']*)'", done.err)
            assert done.code == 1 and f"files-changed:{count}: {count} paths" in done.out
            assert len(repo.ok(*shown.split(), "--name-status").out.splitlines()) == count, shown
            assert then == 'snapshot --track t "what is done"'


@pytest.mark.full
def test_no_automatic_checkpoint_hides_what_was_pulled(repo: Sandbox) -> None:
    repo.git("branch", "upstream")
    snap(repo, "t", "words", *GREEN)
    client = Client("claude", repo.path)
    repo.git("checkout", "-q", "upstream")
    repo.commit("theirs", b_txt="b\n")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--ff-only", "upstream")
    assert verified(repo) == (1, "head-ahead:1,files-changed:1") == worded(repo)
    client.turn("pulled")
    assert (
        verified(repo) == (0, "none")
        and '\nsince="words": 1 turn, 1 file, 1 commit\n' in repo.ok("resume", "--porcelain", "--live").out
    )
    repo.write("a.txt", "two\n")
    client.turn("edited")
    repo.git(*COMMIT, "-a")
    assert worded(repo)[0] == 1 and worded(repo)[1].startswith("head-ahead:2,")
    assert "1 path was committed since, not as the checkpoint holds it: 'b.txt'\n" in repo.baton("verify", "--words").out
    assert verified(repo) == (0, "committed:1")


@pytest.mark.full
def test_words_whose_commit_was_amended_below_the_automatic_ones(repo: Sandbox) -> None:
    install(repo)
    snap(repo, "t", "words", *GREEN)
    client = Client("claude", repo.path)
    repo.git("commit", "-q", "--amend", "-m", "said better")
    repo.write("a.txt", "two\n")
    client.turn("edit")
    repo.git(*COMMIT, "-a")
    assert repo.baton("verify", "--words").code == 0 and worded(repo)[1].startswith("committed:1,")


@pytest.mark.full
def test_words_below_a_pruned_checkpoint_are_told_by_what_is_left(repo: Sandbox) -> None:
    snap(repo, "t", "words")
    client = Client("claude", repo.path)
    repo.write("a.txt", "two\n")
    client.turn("edit")
    repo.git(*COMMIT, "-a")
    client.turn("rest")
    oldest = autos(repo, "t")[0]["id"]
    repo.ok("forget", "--yes", oldest)
    assert worded(repo)[1].startswith("head-ahead:1,"), "what was captured between the two is not known any more"


@pytest.mark.full
def test_the_hooks_are_silent(repo: Sandbox) -> None:
    install(repo)
    repo.git("config", "baton.warn", "always")
    repo.write("a.txt", "two\n")
    snap(repo)
    before = (repo.path / ".git/baton/expect").read_text()
    assert spoken(repo, *COMMIT, "-a") == []
    expect = (repo.path / ".git/baton/expect").read_text().strip()
    assert expect == repo.head() != before.strip(), "and the next one needs no Python"
    assert spoken(repo, "checkout", "-q", "-b", "same") == []
    repo.git("checkout", "-q", "main")
    assert len(spoken(repo, "checkout", "-q", "HEAD~1")) == 3, "no branch, and behind nothing"
    assert spoken(repo, "checkout", "-q", "main") == []
    repo.write("b.txt", "b\n")
    repo.git("add", "-A")
    assert spoken(repo, *COMMIT) == ["warning: checkpoint 's' of track 't' is behind: head-ahead:2"]


@pytest.mark.full
def test_a_merge_of_what_was_captured_is_silent_and_one_more_path_speaks(repo: Sandbox) -> None:
    install(repo)
    repo.write("a.txt", "two\n")
    snap(repo)
    repo.git("stash", "-q")
    for branch, more in (("mine", {}), ("theirs", {"b_txt": "b\n"})):
        repo.git("checkout", "-q", "-b", branch, "main")
        repo.commit(branch, a_txt="two\n", **more)
    repo.git("checkout", "-q", "main")
    assert spoken(repo, "merge", "-q", "--no-ff", "-m", "m", "mine") == []
    assert verified(repo) == (0, "committed:2")
    lines = spoken(repo, "merge", "-q", "--no-ff", "-m", "m", "theirs")
    assert len(lines) == 3 and lines[1].endswith(": head-ahead:4"), "the merge is over, though git has yet to forget it"


def test_a_tree_that_cannot_be_read_takes_no_other_track_down(repo: Sandbox) -> None:
    tree = repo.git("rev-parse", "HEAD^{tree}")
    repo.write("a.txt", "two\n")
    snap(repo, "t")
    repo.git("commit", "-q", "-a", "-m", "c")
    repo.write("a.txt", "three\n")
    snap(repo, "sound")
    repo.git("commit", "-q", "-a", "-m", "c")
    repo.loose(tree).unlink()
    done = repo.baton("verify", "--track", "t")
    assert done.code == 1 and done.out.startswith("head-ahead:2: ") and "Traceback" not in done.err
    rows = {row.split("\t")[1]: row.split("\t")[5] for row in repo.ok("status", "--porcelain").out.splitlines()[2:]}
    assert rows["sound"] == "committed:1" and rows["t"].startswith("head-ahead:2")
