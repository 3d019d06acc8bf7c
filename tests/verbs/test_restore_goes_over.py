"""What a restore says that it goes over: another session's work, one's own edits, another branch, commits that stay."""

from __future__ import annotations

import pytest

from tests.kit import Outcome, Sandbox
from tests.kit.agents import Client
from tests.kit.state import actions, snap
from tests.kit.terminals import Terminal
from tests.kit.tiers import some


def turn(client: Client, prompt: str, **files: str | None) -> None:
    """A turn of a client that writes files, or removes those without a text."""
    client.fire("prompt", prompt=prompt)
    write(client, **files)
    client.fire("turn")


def write(client: Client, **files: str | None) -> None:
    for name, text in files.items():
        path = client.place / name
        path.unlink() if text is None else path.write_text(text)


def both(repo: Sandbox, other: str = "claude") -> tuple[Client, Client]:
    """Two sessions in one work tree, with a checkpoint before them and files of both."""
    repo.commit("more", foo="foo\n", bar="bar\n")
    snap(repo, "t", "start")
    return Client("claude", repo.path, "A"), Client(other, repo.path, "B")


def rows(done: Outcome) -> dict[str, str]:
    """Action and reason, by path."""
    return {row["path"]: f"{row['action']} {row['reason']}".strip() for row in done.json["paths"]}


def planned(repo: Sandbox, *words: str) -> dict[str, str]:
    done = repo.baton("restore", "-n", "--json", *words)
    assert done.code in (0, 1), done.err
    return rows(done)


B = """conflict session 'B', "change bar\""""


# Sessions.


@some("other", ["claude", "codex"])
def test_what_another_session_wrote_last_stays_and_is_named(repo: Sandbox, other: str) -> None:
    a, b = both(repo, other)
    turn(a, "change foo", foo="A\n")
    turn(b, "change bar", bar="B\n", new="B\n")
    repo.write("notes.md", "mine\n")
    done = repo.baton("restore", "@~2", "--exact")
    assert done.code == 1 and done.out.splitlines()[:5] == [
        "also takes back 1 edit of your own since: notes.md",
        """conflict bar (session 'B', "change bar")""",
        "write foo",
        """conflict new (session 'B', "change bar")""",
        "remove notes.md",
    ]
    assert (repo.path / "bar").read_text() == "B\n" and (repo.path / "foo").read_text() == "foo\n"
    repo.ok("undo")
    assert (repo.path / "notes.md").read_text() == "mine\n" and (repo.path / "foo").read_text() == "A\n"


@pytest.mark.full
def test_the_newest_turn_is_taken_back_whosever_it_is(repo: Sandbox) -> None:
    a, b = both(repo)
    turn(a, "change foo", foo="A\n")
    turn(b, "change bar", bar="B\n")
    assert planned(repo, "@~1") == {"bar": "write"}
    turn(a, "foo again", foo="A again\n")
    assert planned(repo, "@~1") == {"foo": "write"} and planned(repo, "@~2") == {"foo": "write", "bar": B}


@pytest.mark.full
def test_a_file_is_of_the_session_that_wrote_it_last(repo: Sandbox) -> None:
    a, b = both(repo)
    turn(a, "change both", foo="A\n", bar="A\n")
    turn(b, "change bar", foo="B\n", bar="B\n")
    turn(a, "foo again", foo="A again\n")
    assert planned(repo, "@~3") == {"foo": "write", "bar": B}
    turn(b, "remove it", bar=None)
    assert planned(repo, "@~4") == {"foo": "write", "bar": B.replace("change bar", "remove it")}
    done = repo.baton("restore", "@~4", "--", "bar")
    assert done.code == 0 and (repo.path / "bar").read_text() == "bar\n", "it is named"
    assert planned(repo, "@~4") == {"foo": "write"}, "it is as somebody put it"
    repo.write("bar", "mine, upon it\n")
    assert planned(repo, "@~4", "--force") == {"foo": "write", "bar": "write"}


@pytest.mark.full
def test_turns_that_overlap_leave_a_file_to_who_is_known_to_have_edited_it(repo: Sandbox) -> None:
    a, b = both(repo)
    a.fire("prompt", prompt="change foo")
    b.fire("prompt", prompt="change bar")
    write(a, foo="A\n", bar="B\n")
    b.fire("turn")
    a.fire("turn")
    either = """conflict session 'A', "change foo", or session 'B', "change bar": either may have changed it"""
    assert planned(repo, "t~2") == {"foo": either, "bar": either}


@pytest.mark.full
def test_an_edit_upon_another_sessions_work_is_not_worth_less(repo: Sandbox) -> None:
    a, b = both(repo)
    turn(a, "change foo", foo="A\n")
    turn(b, "change bar", bar="B\n")
    repo.write("bar", "B and mine\n")
    repo.write("foo", "A and mine\n")
    assert planned(repo, "@~2") == {"foo": "write", "bar": B}
    b.fire("prompt", prompt="go on")  # the edits are recorded, as nobody's turn
    assert planned(repo, "t~3") == {"foo": "write", "bar": "write"}


@pytest.mark.deep
def test_one_session_and_edits_of_an_open_turn_are_no_word(repo: Sandbox) -> None:
    a, _ = both(repo)
    turn(a, "change foo", foo="A\n")
    a.fire("prompt", prompt="and bar")
    write(a, bar="A\n")
    done = repo.ok("restore", "-n", "@~2")
    assert done.out == "would write bar\nwould write foo\n"


def test_what_is_taken_back_alone_is_not_counted(repo: Sandbox) -> None:
    both(repo)
    repo.write("foo", "mine\n")
    assert repo.ok("restore").out.startswith("write foo\ndone: ")


# On a terminal.


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 1)])
def test_it_asks_before_it_takes_own_edits_back(repo: Sandbox, answer: bytes, code: int) -> None:
    both(repo)
    repo.write("foo", "1\n")
    snap(repo, "t", "more")
    repo.write("bar", "mine\n")
    with Terminal(repo.path, "--no-pager", "restore", "t~1") as screen:
        screen.until(b"restore them? [y/N] ")
        assert (repo.path / "bar").read_text() == "mine\n"
        screen.press(answer)
        assert screen.end() == code
    shown = screen.shown.decode().replace("\r\n", "\n")
    assert "also takes back 1 edit of your own since: bar\n" in shown
    assert (repo.path / "bar").read_text() == ("bar\n" if code == 0 else "mine\n")
    assert ("fatal: nothing is restored\n" in shown) == (code == 1)


@pytest.mark.full
@pytest.mark.parametrize("words", [["--yes"], ["--force"], ["--dry-run"], ["--json"], ["--", "bar"]])
def test_it_does_not_ask_where_that_is_answered(repo: Sandbox, words: list[str]) -> None:
    both(repo)
    repo.write("foo", "1\n")
    snap(repo, "t", "more")
    repo.write("bar", "mine\n")
    with Terminal(repo.path, "--no-pager", "restore", "t~1", *words) as screen:
        assert screen.end() == 0 and b"[y/N]" not in screen.shown


@pytest.mark.full
def test_what_moved_while_it_was_asked_is_shown_and_asked_anew(repo: Sandbox) -> None:
    a, b = both(repo)
    turn(a, "change foo", foo="A\n")
    turn(b, "change bar", bar="B\n")
    with Terminal(repo.path, "--no-pager", "restore", "@~2") as screen:
        screen.until(b"restore them? [y/N] ")
        repo.write("foo", "A, and more\n")
        screen.press(b"y\n")
        screen.until(b"restore them? [y/N] ", 2)
        assert (repo.path / "foo").read_text() == "A, and more\n"
        screen.press(b"y\n")
        assert screen.end() == 1 and (repo.path / "foo").read_text() == "foo\n" and (repo.path / "bar").read_text() == "B\n"


# Branches.


@pytest.mark.deep
def test_a_checkpoint_of_another_branch_leaves_what_only_commits_changed(repo: Sandbox) -> None:
    repo.commit("more", m1="main\n", m2="main\n", gone="main\n")
    snap(repo, "t", "start")
    repo.git("switch", "-qc", "feature")
    (repo.path / "gone").unlink()
    repo.commit("theirs", m1="feature\n", m2="feature\n", new="feature\n")
    repo.write("m2", "mine, upon it\n")
    done = repo.baton("restore", "t")
    assert done.code == 1 and done.out.splitlines()[0] == "recorded on main; you are on feature"
    assert (repo.path / "m1").read_text() == "feature\n" and not (repo.path / "gone").exists()
    assert (repo.path / "m2").read_text() == "main\n", "an edit, and no commit"
    repo.ok("undo")
    assert actions(repo.baton("restore", "-n", "--json", "t", "--force")) == {
        "m1": "write", "m2": "write", "gone": "create", "new": "keep",
    }  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("how", ["detached", "older", "merged", "merged forward", "rebased", "renamed"])
def test_relatives_of_a_switched_branch(repo: Sandbox, how: str) -> None:
    repo.commit("more", m1="main\n")
    snap(repo, "t", "start")
    repo.git("switch", "-qc", "feature")
    repo.commit("theirs", m1="feature\n")
    first = "recorded on main; you are on feature"
    if how == "detached":
        repo.git("checkout", "-q", "--detach")
        first = f"recorded on main; HEAD is at {repo.git('rev-parse', '--short=10', 'HEAD')}"
    elif how == "older":
        repo.git("switch", "-q", "main")
        repo.commit("on", m1="newer\n")
        snap(repo, "t", "newer")
        repo.git("switch", "-q", "feature")
    elif how.startswith("merged"):
        repo.git("switch", "-q", "main")
        repo.git("merge", "-q", *([] if how.endswith("forward") else ["--no-ff", "-m", "merge"]), "feature")
        first = "1 commit since stays: " if how.endswith("forward") else "2 commits since stay: "
    elif how == "rebased":
        repo.git("switch", "-q", "main")
        repo.commit("main goes on", other="main\n")
        repo.git("switch", "-q", "feature")
        repo.git("rebase", "-q", "main")
    else:
        repo.git("switch", "-q", "main")
        repo.git("branch", "-qm", "main", "trunk")
        repo.commit("mine", m1="mine\n")
        first = "1 commit since stays: "
    done = repo.baton("restore", "t")
    assert done.out.startswith(first), done.out
    left = how != "renamed"
    assert done.code == int(left) and ((repo.path / "m1").read_text() == "main\n") == (not left)


# Commits.


@pytest.mark.parametrize("how", ["unborn", "another branch", "commit gone", "in no commit"])
def test_a_file_that_stays_is_told_with_what_is_known_of_it(repo: Sandbox, how: str) -> None:
    if how == "unborn":
        repo.git("checkout", "-q", "--orphan", "fresh")
    elif how == "commit gone":
        repo.git("checkout", "-q", "--orphan", "lost")
        repo.git("commit", "-qm", "lost")
    snap(repo, "t", "start")
    if how == "commit gone":
        gone = repo.git("rev-parse", "HEAD")
        repo.git("checkout", "-q", "main")
        (repo.path / ".git" / "objects" / gone[:2] / gone[2:]).unlink()
    elif how == "another branch":
        repo.git("checkout", "-qb", "topic")
    repo.write("new", "new\n")
    if how != "in no commit":
        repo.git("add", "-A")
        repo.git("commit", "-qm", "new")
    told = {"unborn": "committed here since", "another branch": "committed on topic", "commit gone": "committed on main"}
    done = repo.baton("restore", "-n", "t")
    assert f"would keep new ({told.get(how, 'not in that checkpoint')})" in done.out.splitlines(), done.out + done.err


def test_commits_since_are_said_to_stay(repo: Sandbox) -> None:
    snap(repo, "t", "start")
    repo.commit("the subject", a_txt="2\n", new="new\n")
    one = repo.git("rev-parse", "--short=10", "HEAD")
    done = repo.ok("restore", "t")
    assert done.out.splitlines()[:2] == [
        f'1 commit since stays: {one} "the subject"; to take it back as well, commit what this restore leaves,'
        f" or run 'git revert {one}' in its place",
        "write a.txt",
    ]
    assert "keep new (committed here since)" in done.out.splitlines()
    repo.ok("undo")
    repo.git("revert", "--no-edit", one)
    assert (repo.path / "a.txt").read_text() == "one\n"


@pytest.mark.full
def test_several_commits_are_a_range_that_git_reverts(repo: Sandbox) -> None:
    base = repo.git("rev-parse", "--short=10", "HEAD")
    snap(repo, "t", "start")
    repo.commit("one", new="1\n")
    repo.commit("two", new="2\n")
    repo.write("a.txt", "mine\n")
    span = f"{base}..{repo.git('rev-parse', '--short=10', 'HEAD')}"
    done = repo.ok("restore", "t", "--force")
    assert done.out.splitlines()[0] == f"2 commits since stay: {span}; to take them back: git revert {span}"
    repo.git("revert", "--no-edit", span)
    assert not (repo.path / "new").exists()
    assert "commits since" not in repo.ok("restore", "-n", "t", "--", "a.txt").out


# What lies in repositories of its own.


@pytest.mark.full
@pytest.mark.parametrize("how", ["submodule", "nested", "new", "unborn"])
def test_what_changed_inside_another_repository_is_named(repo: Sandbox, how: str) -> None:
    inner = Sandbox.init(repo.path / "lib") if how != "new" and how != "unborn" else None
    if inner is not None:
        inner.commit("inner", s="s\n")
    if how == "submodule":
        repo.git("-c", "advice.addEmbeddedRepo=false", "add", "lib")
        repo.git("commit", "-qm", "lib")
    snap(repo, "t", "start")
    client = Client("claude", repo.path, "A")
    client.fire("prompt", prompt="change lib")
    if inner is None:
        inner = Sandbox.init(repo.path / "lib")
        inner.commit("inner", s="s\n") if how == "new" else None
    inner.write("s", "agent\n")
    client.fire("turn")
    said = "warning: what was changed inside 'lib' is in no checkpoint, and stays as it is\n"
    assert said in repo.baton("restore", "-n", "@~1", "--exact").err and said in repo.baton("restore", "@~1").err
    assert "warning: what was changed inside 'lib' is in no turn, and in no checkpoint\n" in repo.ok("log").err
    assert repo.ok("log", "--porcelain").err == "" and said not in repo.baton("restore", "@~1", "--", "a.txt").err
    assert (inner.path / "s").read_text() == "agent\n"


@some("words", [(), ("-n",), ("--exact",)])
def test_one_line_where_nothing_has_to_change(repo: Sandbox, words: tuple[str, ...]) -> None:
    client = Client("claude", repo.path, "A")
    snap(repo, "t", "start")
    client.fire("prompt", prompt="look only")
    client.fire("turn")
    done = repo.ok("restore", *words)
    assert done.out.startswith("nothing has to change: restore of ") and done.out.count("\n") == 1 and done.err == ""
    assert repo.ok("revert", *(word for word in words if word != "--exact")).out.count("\n") == 1
