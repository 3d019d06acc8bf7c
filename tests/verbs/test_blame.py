"""``git baton blame`` and ``why``: from a line to the words behind it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.checkpoints.restore import Order, apply, open_plan
from tests.kit import Sandbox
from tests.kit.tables import each
from tests.kit.talks import Talk

FIRST = "def one():\n    return 1\n\ndef half(n):\n    return n / 2\n"


def numbers(repo: Sandbox) -> list[str]:
    """Commit a file, take a snapshot of a change, and change it again; the short ids of commit and checkpoint."""
    head = repo.commit("numbers: first version", num_py=FIRST)
    repo.write("num.py", FIRST.replace("n / 2", "round(n / 2)"))
    repo.ok("snapshot", "make half() round to even", "--note", "banker's rounding")
    made = repo.ok("log", "--json").json["checkpoints"][0]["id"]
    repo.write("num.py", FIRST.replace("n / 2", "round(n / 2)") + "# later\n")
    return [head[:4], made[:4]]


def test_blame_names_commit_checkpoint_and_now(repo: Sandbox) -> None:
    commit, made = numbers(repo)
    done = repo.ok("blame", "num.py")
    rows = done.out.splitlines()
    assert [row.split()[0][:4] for row in rows] == [commit, commit, commit, commit, made, "now"]
    assert rows[0].endswith("numbers: first version     1  def one():") and " commit  " in rows[0]
    assert rows[4].endswith("make half() round to even  5      return round(n / 2)")
    assert rows[5].endswith("in no checkpoint yet       6  # later")
    origins = [line["origin"] for line in repo.ok("blame", "num.py", "-L", "4,+2", "--json").json["lines"]]
    assert origins[0]["commit"][:4] == commit and origins[0]["summary"] == "numbers: first version"
    assert origins[1]["checkpoint"]["id"][:4] == made


@pytest.mark.deep
def test_a_line_stays_its_checkpoints_after_the_commit(repo: Sandbox) -> None:
    _, made = numbers(repo)
    repo.git("commit", "-qam", "round")
    repo.ok("snapshot", "committed", "--track", "other")
    rows = repo.ok("blame", "num.py").out.splitlines()
    assert rows[4].startswith(made)
    assert " commit " in rows[5] and "round" in rows[5]


@pytest.mark.deep
def test_why_says_what_a_line_was_before_only_of_one_that_was_there(repo: Sandbox) -> None:
    repo.commit("first", num_py=FIRST)
    lines = [
        "import math",
        "",
        "def one():",
        "    return 1",
        "",
        "def half(n):",
        '    """Halve."""',
        "    # to even",
        "    return math.floor(n / 2)",
        "# the end",
    ]
    repo.write("num.py", "\n".join(lines) + "\n")
    repo.ok("snapshot", "more")
    repo.write("new.py", "one\ntwo\n")
    repo.git("mv", "num.py", "moved.py")
    repo.ok("snapshot", "a new file, and one that has another name")
    for place in ("moved.py:1", "moved.py:7", "moved.py:8", "moved.py:10", "new.py:1"):
        assert repo.ok("why", place, "--json").json["before"] == [], place
    assert repo.ok("why", "moved.py:9", "--json").json["before"] == ["    return n / 2"]
    repo.write("moved.py", "\n".join(["import cmath", *lines[2:4], "    # one", *lines[4:]]) + "\n")
    repo.ok("snapshot", "two lines are one")
    assert repo.ok("why", "moved.py:1", "--json").json["before"] == ["import math", ""]
    assert repo.ok("why", "moved.py:4", "--json").json["before"] == []


@pytest.mark.full
def test_a_name_is_seen_from_the_current_directory(repo: Sandbox) -> None:
    numbers(repo)
    (repo.path / "sub").mkdir()
    assert repo.run("git", "-C", "sub", "baton", "blame", "../num.py", "-L1,1").out.endswith("1  def one():\n")
    assert repo.run("git", "-C", "sub", "baton", "blame", "num.py").code == 2


@pytest.mark.deep
@each("name", ['a "b"\t\n\\ö.txt', "e\rf.txt"])
def test_odd_names_and_contents_drive_no_terminal(repo: Sandbox, name: str) -> None:
    repo.ok("snapshot", "before")
    (repo.path / name).write_bytes(b"one\x1b[31m\xff\r\n\xe5\xad\x97\n")
    repo.ok("snapshot", "odd")
    done = repo.ok("blame", name)
    assert "\x1b" not in done.out and "字" in done.out
    assert done.out.count("odd") == 2


@pytest.mark.full
def test_the_path_of_a_line_is_named_as_it_was_there(repo: Sandbox) -> None:
    numbers(repo)
    repo.git("commit", "-qam", "all")
    (repo.path / "sub").mkdir()
    repo.git("mv", "num.py", "sub/half.py")
    repo.git("commit", "-qm", "moved")
    shown = [row for row in repo.ok("why", "sub/half.py:1").out.splitlines() if row.startswith("git show")]
    assert "+def one():" in repo.run("sh", "-c", shown[0]).out
    here = repo.run("git", "-C", "sub", "baton", "why", "half.py:1").out.splitlines()[-1]
    assert "+def one():" in repo.run("sh", "-c", f"cd sub && {here}").out


@pytest.mark.full
def test_a_line_that_came_back_is_as_old_as_it_was(repo: Sandbox) -> None:
    """Where the checkpoint just before lacks it, and one before that or HEAD has it; others stay and come."""
    head, text = repo.commit("first", a_txt="top\n\nof head\nend\n"), "top\n\nof head\n\nof one\nend\n"
    made: list[str] = []
    for track, now in (("one", text), ("two", "top\n\nend\n"), ("one", text.replace("of one", "of one\n\nnew"))):
        repo.write("a.txt", now)
        repo.ok("snapshot", track, "--track", track)
        made.append(repo.ok("log", track, "--json").json["checkpoints"][0]["id"])
    lines = repo.ok("blame", "a.txt", "--json").json["lines"]
    told = [line["origin"].get("commit") or line["origin"]["checkpoint"]["id"] for line in lines]
    assert [(line["text"], oid) for line, oid in zip(lines, told, strict=True) if line["text"]] == [
        ("top", head),
        ("of head", head),
        ("of one", made[0]),
        ("new", made[2]),
        ("end", head),
    ]


@pytest.mark.full
def test_a_line_that_was_restored_and_committed_elsewhere_is_as_old_as_it_was(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", a_txt="top\nend\n")
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = Sandbox(tmp_path / "side")
    side.write("a.txt", "top\nonce\nend\n")
    side.ok("snapshot", "with it")
    made = side.ok("log", "--json").json["checkpoints"][0]["id"]
    side.write("a.txt", "top\nend\n")
    side.ok("snapshot", "without")
    side.ok("restore", made)
    side.git("commit", "-qam", "committed")
    repo.git("merge", "-q", "side")
    assert repo.ok("blame", "a.txt", "-L2,2", "--json").json["lines"][0]["origin"]["checkpoint"]["id"] == made


@pytest.mark.deep
def test_a_clock_that_was_ahead_ends_nothing(repo: Sandbox) -> None:
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    moments = {"one": 0, "far": 3600, "two": 660}
    for step, seconds in moments.items():
        if step == "two":
            clock = lambda: now + timedelta(seconds=600)  # noqa: E731
            with Baton(repo.path, clock=clock) as baton, open_plan(baton, "restore", Order(checkpoint="far-off")) as plan:
                apply(plan)
        repo.write("a.txt", f"{step}\n")
        with Baton(repo.path, clock=lambda seconds=seconds: now + timedelta(seconds=seconds)) as baton:  # type: ignore[misc]
            baton.snapshot(step, track="far-off" if step == "far" else "here")
    repo.write("a.txt", "two\nmore\n")
    assert [row.split()[0] for row in repo.ok("blame", "a.txt").out.splitlines()][-1] == "now"


@pytest.mark.deep
def test_text_is_the_files_own_whatever_a_diff_driver_makes_of_it(repo: Sandbox) -> None:
    repo.write(".gitattributes", "*.txt diff=up\n")
    repo.git("config", "diff.up.textconv", "tr a-z A-Z <")
    repo.write("a.txt", "one\n")
    repo.ok("snapshot", "s")
    assert repo.ok("blame", "a.txt").out.endswith("1  one\n")


@pytest.mark.deep
def test_what_is_no_line_is_refused_in_one_line(repo: Sandbox) -> None:
    numbers(repo)
    repo.write(".gitignore", "*.log\n")
    repo.write("x.log", "1\n")
    for words, code, said in (
        (("blame", "nope"), 2, "fatal: 'nope' is no file that a snapshot would hold now"),
        (("blame", "x.log"), 2, "fatal: 'x.log' is no file that a snapshot would hold now"),
        (("blame", "../x"), 2, "fatal: '../x' is no file of this work tree"),
        (("blame", "num.py", "-L", "99"), 129, "fatal: file num.py has only 6 lines"),
        (("why", "num.py"), 129, "fatal: 'num.py' is not FILE:LINE\nhint: such as src/num.py:13"),
        (("why", f"num.py:{9 * '9'}9"), 129, f"fatal: 'num.py:{9 * '9'}9' is not FILE:LINE\nhint: such as src/num.py:13"),
        (("why", "num.py:0"), 129, "fatal: 'num.py:0' is not FILE:LINE\nhint: such as src/num.py:13"),
    ):
        done = repo.baton(*words)
        assert (done.code, done.out, done.err) == (code, "", f"{said}\n"), words


@pytest.mark.deep
def test_blame_leaves_nothing_behind(repo: Sandbox) -> None:
    numbers(repo)
    before = sorted(p for p in (repo.path / ".git").rglob("*") if p.is_file())
    repo.ok("blame", "num.py")
    repo.ok("why", "num.py:5")
    assert sorted(p for p in (repo.path / ".git").rglob("*") if p.is_file()) == before


def test_why_tells_the_words_of_a_checkpoint_and_what_stood_there(repo: Sandbox) -> None:
    commit, made = numbers(repo)
    rows = repo.ok("why", "num.py:5").out.splitlines()
    assert rows[0] == "num.py:5   return round(n / 2)"
    assert rows[1].startswith(f"came with {made}") and "track main" in rows[1]
    assert rows[2:5] == ["  step     make half() round to even", "  note     banker's rounding", "  before   return n / 2"]
    assert rows[-1] == f"git baton show {repo.ok('log', '--json').json['checkpoints'][0]['id'][:10]}"
    assert repo.run("sh", "-c", rows[-1]).code == 0
    said = repo.ok("why", "num.py:1").out.splitlines()
    assert said[1].startswith(f"came with commit {commit}") and '"numbers: first version"' in said[1]
    assert repo.run("sh", "-c", said[-1]).code == 0
    assert repo.ok("why", "num.py:6").out.splitlines()[1] == "came since the newest checkpoint, and is in none yet"


@pytest.mark.deep
def test_why_tells_the_prompt_the_tests_and_what_the_agent_said(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", num_py=FIRST)
    repo.ok("snapshot", "begin")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.ask("make half() round to even, as the standard does")
    talk.edit("num.py", FIRST.replace("n / 2", "round(n / 2)"))
    talk.run("pytest tests/num -q", "12 passed in 0.10s\n")
    talk.say("half() now uses round(); two call sites relied on truncation.")
    talk.stop()
    out = repo.ok("why", "num.py:5").out
    assert "turn 1 of main" in out and "claude" in out
    assert "  prompt   make half() round to even, as the standard does\n" in out
    assert "  tests    pytest tests/num -q  + passed (12 passed)" in out
    assert "  said     half() now uses round(); two call sites relied on truncation.\n" in out
    assert "turn 1  make half() round to even, as t" in repo.ok("blame", "num.py").out


@pytest.mark.full
@pytest.mark.parametrize("add", ["add ", ""])
def test_why_quotes_no_other_turn_and_names_no_checkpoint_that_is_gone(repo: Sandbox, tmp_path: Path, add: str) -> None:
    repo.commit("first", num_py=FIRST)
    repo.ok("snapshot", "begin")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    for asked, said, line in (("one", "One old test expects strings.", "# 1\n"), ("two", "", "# 2\n"), ("three", "", "# 3\n")):
        talk.ask(add + asked)
        talk.edit("num.py", (repo.path / "num.py").read_text() + line)
        if said:
            talk.say(said)
        talk.stop()
    last = len((repo.path / "num.py").read_text().splitlines())
    out = repo.ok("why", f"num.py:{last - 1}").out
    assert f"  prompt   {add}two\n" in out and "said" not in out and "git baton diff" in out
    assert "  said     One old test expects strings.\n" in repo.ok("why", f"num.py:{last - 2}").out
    repo.ok("prune", "main", "--keep-last", "1")
    for number in (last - 2, last - 1, last):
        for words in re.findall(r"^git baton .*", repo.ok("why", f"num.py:{number}").out, re.MULTILINE):
            assert repo.run("sh", "-c", words).code == 0, words


@pytest.mark.deep
def test_why_tells_of_a_snapshot_in_a_turn_the_prompt_of_that_turn(repo: Sandbox, tmp_path: Path) -> None:
    """The newest one that was observed before it is the turn's before."""
    repo.commit("first", num_py="# 0\n")
    repo.ok("snapshot", "begin")
    talk = Talk(repo, tmp_path / "talk.jsonl")

    def turn(asked: str, line: str, said: str, *then: str) -> None:
        talk.ask(asked)
        talk.fire("prompt", prompt=asked)
        talk.edit("num.py", (repo.path / "num.py").read_text() + line)
        for step in then:
            repo.ok("snapshot", step)
            talk.edit("num.py", (repo.path / "num.py").read_text() + f"# after {step}\n")
        talk.say(said)
        talk.stop()

    turn("add one", "# 1\n", "Done with one.")
    turn("add two", "# 2\n", "Done with two.", "the agent's own words")
    repo.write("num.py", (repo.path / "num.py").read_text() + "# by hand\n")
    repo.ok("snapshot", "my own words")
    turn("add three", "# 3\n", "Done with three.")

    def why(line: str) -> str:
        return repo.ok("why", f"num.py:{(repo.path / 'num.py').read_text().splitlines().index(line) + 1}").out

    told = why("# 2")
    assert "  step     the agent's own words\n  prompt   add two\n  said     Done with two.\n" in told
    assert "  prompt   add two\n" in why("# after the agent's own words")
    told = why("# by hand")
    assert "  step     my own words\n" in told and "prompt" not in told and "said" not in told
    repo.ok("pin", repo.ok("log", "--json", "--grep", "my own words").json["checkpoints"][0]["id"])
    repo.ok("prune", "main", "--keep-last", "1")
    assert "prompt" not in why("# by hand"), "the end of the turn before is gone"


@pytest.mark.deep
def test_why_gives_a_snapshot_no_prompt_of_another_session(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", num_py="# 0\n")
    repo.ok("snapshot", "begin")
    one, other = (
        Talk(repo, tmp_path / "one.jsonl"),
        Talk(repo, tmp_path / "other.jsonl", "5e551011-0000-4000-8000-00000000000f"),
    )
    for talk, asked in ((one, "the first's"), (other, "the other's")):
        talk.ask(asked)
        talk.fire("prompt", prompt=asked)
    one.edit("num.py", "# 0\n# 1\n")
    session = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "5e551011-0000-4000-8000-000000000001"}
    assert repo.ok("snapshot", "its agent's", env=session).code == 0
    other.edit("b.txt", "other\n")
    other.say("The other is done.")
    other.stop()
    told = repo.ok("why", "num.py:2").out
    assert "  step     its agent's\n" in told and "prompt" not in told and "said" not in told
    one.edit("num.py", "# 0\n# 1\n# 2\n")
    one.say("The first is done.")
    one.stop()
    told = repo.ok("why", "num.py:3").out
    assert "  prompt   the first's\n" in told and "  said     The first is done.\n" in told and "other" not in told
    assert "turn 1  the first's" in repo.ok("log").out.splitlines()[0]


@pytest.mark.deep
def test_why_shows_foreign_words_quoted(repo: Sandbox, tmp_path: Path) -> None:
    numbers(repo)
    repo.git("commit", "-qam", "all")
    bare, other = tmp_path / "bare", tmp_path / "other"
    repo.git("clone", "-q", "--bare", ".", str(bare))
    repo.git("remote", "add", "origin", str(bare))
    repo.ok("push", "--yes", "origin", "main")
    repo.git("clone", "-q", str(bare), str(other))
    clone = Sandbox(other)
    clone.ok("fetch", "origin")
    rows = clone.ok("why", "num.py:5").out.splitlines()
    assert rows[2].startswith("> ")


@pytest.mark.deep
@pytest.mark.parametrize("how", ["amend", "by another", "rebase", "pick", "squash"])
def test_a_commit_that_was_made_anew_is_named_as_it_is_now(repo: Sandbox, tmp_path: Path, how: str) -> None:
    """As git blame names it; the turn in which it was made first stays known."""
    repo.commit("first", x_py="one\n")
    (repo.path / ".git" / "baton").mkdir()
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.ask("make x")
    talk.fire("prompt", prompt="make x")
    repo.git("switch", "-q", "-c", "topic")
    talk.edit("x.py", "one\ntwo\n")
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    repo.git("commit", "-qam", "two", env={"GIT_COMMITTER_DATE": now, "GIT_AUTHOR_DATE": now})
    made = repo.head()
    talk.stop()
    if how == "amend":
        repo.git("commit", "-q", "--amend", "-m", "again")
    elif how == "by another":
        repo.git("commit", "-q", "--amend", "--reset-author", "-m", "again", env={"GIT_AUTHOR_DATE": "2030-01-01T00:00:00Z"})
    elif how == "rebase":
        repo.git("rebase", "-q", "--force-rebase", "HEAD^")
    else:
        repo.git("switch", "-q", "main")
        repo.commit("own", b_txt="b\n")
        repo.git(*(("cherry-pick", made) if how == "pick" else ("merge", "-q", "--squash", "topic")))
        repo.git("commit", "-q", "--allow-empty", "-m", "again")
    named = repo.git("blame", "-l", "-L2,2", "x.py").split()[0]
    line = repo.ok("blame", "x.py", "--json").json["lines"][1]
    assert line["origin"]["commit"] == named != made and line["turn"]["prompt"] == "make x"
    out = repo.ok("why", "x.py:2").out
    assert f"git show {named[:4]} -- x.py" in out and "  prompt   make x\n" in out
    assert '"start_line":2' in repo.ok("blame", "--agent-trace", named).out
    repo.write("x.py", "zero\none\ntwo\n")
    assert repo.ok("blame", "x.py", "--json", "-L", "3,3").json["lines"][0]["origin"]["commit"] == named
    repo.git("reset", "-q", "--hard", "HEAD~1" if how != "pick" else "HEAD~2")
    repo.write("x.py", "one\ntwo\n")
    assert repo.ok("blame", "x.py", "--json").json["lines"][1]["origin"]["commit"] == made, "no commit of HEAD has it"
