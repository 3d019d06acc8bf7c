"""A turn: from its prompt to its end, or to now: what it began from, what ends it where no end was heard, how it counts."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitbaton.base.model import Stored, Turn
from gitbaton.checkpoints.baton import Baton, Request
from gitbaton.checkpoints.store.turns import Span, open_turn, turns
from tests.kit import Sandbox
from tests.kit.agents import CLIENTS, Client, autos, log_of, steps
from tests.kit.state import snap
from tests.kit.tiers import some

OPEN = "turn not ended: "
EACH = ["claude", *(pytest.param(agent, marks=pytest.mark.full) for agent in CLIENTS if agent != "claude")]


def spans(repo: Sandbox, track: str = "t") -> list[Span]:
    """The turns of a track, newest first."""
    with Baton(repo.path) as baton:
        return list(turns(baton.store, track))


def changed(repo: Sandbox, span: Span) -> list[str]:
    """The paths in which the ends of a turn differ."""
    assert span.before is not None and span.after is not None
    return repo.git("diff-tree", "-r", "--name-only", span.before, span.after).splitlines()


def rows(repo: Sandbox, *words: str) -> list[str]:
    """What ``log`` shows."""
    return repo.ok("log", *words).out.splitlines()


def begun(repo: Sandbox, agent: str = "claude", session: str = "5e551011") -> Client:
    """A client in a work tree with a track."""
    if not (repo.path / ".git" / "refs" / "baton" / "tracks" / "t").exists():
        snap(repo, "t", "start")
    return Client(agent, repo.path, session)


def sides(repo: Sandbox) -> tuple[Client, Client]:
    """Two sessions of one work tree."""
    return begun(repo, session="one"), begun(repo, session="two")


@pytest.mark.parametrize("agent", EACH)
def test_an_open_turn_counts_and_nothing_of_the_users_goes_with_it(repo: Sandbox, agent: str) -> None:
    repo.commit(both="base\n", gone="x\n")
    client = begun(repo, agent)
    client.fire("prompt", prompt="one")
    repo.write("one.txt", "1\n")
    client.fire("turn")
    repo.write("both", "base\nmine\n")  # the user's own edits
    repo.write("own", "mine\n")
    client.fire("prompt", prompt="two")
    repo.write("both", "base\nmine\nagent\n")
    repo.write("junk.txt", "agent\n")
    os.unlink(repo.path / "gone")
    shown = rows(repo)[0]
    assert f"{OPEN}two" in shown and "3 files" in shown and "git baton revert" in shown and shown.startswith(" ")
    found = repo.ok("log", "--json").json["open_turn"]
    assert (found["agent"], found["track"], found["prompt"], found["files"]) == (agent, "t", "two", 3)
    assert repo.ok("status", "--json").json["open_turn"] == found
    assert f'{OPEN[:-2]}: "two", 3 files so far' in repo.ok("status").out
    assert "# open-turn t\t3\ttwo" in repo.ok("log", "--porcelain").out and "# open-turn t" in repo.ok("status", "-z").out
    tip = repo.ok("show", "@", "--json").json["checkpoint"]["id"]
    for name in ("@~1", "@^", "t~1", "@{1}"):
        assert repo.ok("show", name, "--json").json["checkpoint"]["id"] == tip, name
    repo.ok("restore", "@~1", "--exact")
    assert (repo.path / "both").read_text() == "base\nmine\n" and (repo.path / "gone").read_text() == "x\n"
    assert (repo.path / "own").exists() and not (repo.path / "junk.txt").exists() and (repo.path / "one.txt").exists()
    assert OPEN not in repo.ok("log").out and "open_turn" not in repo.ok("status", "--json").json
    assert repo.ok("show", "@~1", "--json").json["checkpoint"]["id"] != tip, "and there it counts no more"
    assert log_of(repo) == ""


def test_a_dry_run_names_the_same_checkpoint(repo: Sandbox) -> None:
    client = begun(repo)
    repo.write("own", "mine\n")
    client.fire("prompt", prompt="one")
    repo.write("junk", "agent\n")
    planned = repo.ok("restore", "@~1", "--exact", "--dry-run").out
    assert "junk" in planned and "own" not in planned


@pytest.mark.deep
def test_what_is_asked_for_has_no_row_of_an_open_turn(repo: Sandbox) -> None:
    client = begun(repo)
    client.fire("prompt", prompt="one")
    repo.write("junk", "agent\n")
    assert OPEN in rows(repo)[0] and OPEN in rows(repo, "t")[0] and OPEN in rows(repo, "--all")[0]
    assert len(rows(repo, "-1")) == 2, "N does not count it"
    for words in (["--kind", "manual"], ["--grep", "start"], ["--graph"], ["t~1"], ["--", "a"], ["--until", "now"]):
        assert OPEN not in repo.ok("log", *words).out, words
    assert OPEN not in repo.ok("log", "--since", "yesterday").out


@pytest.mark.deep
@pytest.mark.parametrize("agent", EACH)
def test_a_turn_that_changed_nothing_has_a_checkpoint_at_its_end(repo: Sandbox, agent: str) -> None:
    client = begun(repo, agent)
    quiet = {name: None for name in ("transcript_path", "transcriptPath") if name in client.payload(client.words["turn"])}
    client.fire("prompt", prompt="one", **quiet)
    repo.write("one", "1\n")
    client.fire("turn", **quiet)
    repo.write("fix", "mine\n")
    client.fire("prompt", prompt="explain", **quiet)
    client.fire("turn", **quiet)
    assert [s.prompt for s in spans(repo)] == ["explain", "one"] and changed(repo, spans(repo)[0]) == []
    assert "nothing has to change" in repo.ok("restore", "@~1", "--exact").out
    assert (repo.path / "fix").exists()
    count = len(autos(repo, "t"))
    client.fire("turn", **quiet)
    assert len(autos(repo, "t")) == count, "an end that is told twice is one"


@pytest.mark.deep
def test_a_cut_turn_that_changed_nothing_has_one_at_the_next_prompt_and_at_the_end(repo: Sandbox) -> None:
    client = begun(repo)
    repo.write("fix", "mine\n")
    client.fire("prompt", prompt="one")
    client.fire("prompt", prompt="two")
    assert steps(autos(repo, "t")) == ["before a prompt (auto)", f"{OPEN}one"]
    client.fire("end")
    assert steps(autos(repo, "t"))[2:] == ["session ended"] and [s.prompt for s in spans(repo)][1:] == ["one"]
    assert all(changed(repo, span) == [] for span in spans(repo))


@pytest.mark.deep
def test_a_turn_is_between_its_ends_whatever_lies_there(repo: Sandbox) -> None:
    client = begun(repo)
    client.fire("prompt", prompt="one")
    repo.write("a", "1\n")
    client.fire("compact")
    repo.ok("snapshot", "by the agent's own hand")
    repo.write("b", "1\n")
    client.fire("turn")
    repo.write("own", "1\n")
    client.fire("prompt", prompt="two")
    repo.write("c", "1\n")
    client.fire("turn")
    two, one = spans(repo)
    assert changed(repo, two) == ["c"] and changed(repo, one) == ["a", "b"]
    assert two.began is not None and two.began.checkpoint.step == "before a prompt (auto)"
    assert not one.open and one.session is not None and one.session.session == client.session


def test_a_turn_that_began_with_no_checkpoint(repo: Sandbox) -> None:
    """The state was HEAD's, or nothing at all."""
    (repo.path / ".git" / "baton").mkdir()
    client = Client("claude", repo.path)
    client.fire("prompt", prompt="one")
    repo.write("a", "1\n")
    client.fire("turn")
    (one,) = spans(repo, "main")
    assert changed(repo, one) == ["a"] and one.began is None and one.prompt == "one"


def test_a_turn_that_began_before_the_first_commit(tmp_path: Path) -> None:
    repo = Sandbox.init(tmp_path / "new")
    (repo.path / ".git" / "baton").mkdir()
    client = Client("claude", repo.path)
    client.fire("prompt", prompt="one")
    repo.commit(a="1\n")
    client.fire("turn")
    (one,) = spans(repo, "main")
    assert changed(repo, one) == ["a"]


@pytest.mark.deep
def test_turns_that_overlap_have_each_its_own_ends(repo: Sandbox) -> None:
    one, two = sides(repo)
    one.fire("prompt", prompt="first")
    repo.write("a", "1\n")
    two.fire("prompt", prompt="second")
    assert steps(autos(repo, "t")) == [f"{OPEN}first"]
    repo.write("b", "1\n")
    one.fire("turn")
    repo.write("c", "1\n")
    assert open_of(repo) == ("two", "second")
    two.fire("turn")
    second, first = spans(repo)
    assert (second.prompt, changed(repo, second)) == ("second", ["b", "c"])
    assert (first.prompt, changed(repo, first)) == ("first", ["a", "b"]), "what was recorded in its midst is no end"


def open_of(repo: Sandbox, track: str = "t") -> tuple[str | None, str] | None:
    """The session and the prompt of the open turn."""
    with Baton(repo.path) as baton:
        found = open_turn(baton.store, track)
    return None if found is None or found.session is None else (found.session.session, found.prompt)


def test_what_its_tools_edited_is_its_own(repo: Sandbox) -> None:
    one, two = sides(repo)
    one.fire("prompt", prompt="first")
    two.fire("prompt", prompt="second")

    def edits(client: Client, name: str) -> None:
        path = os.fspath(repo.write(name, "x\n"))
        client.fire("PostToolUse", tool_name="Write", tool_input={"file_path": path})

    edits(one, "a")
    edits(two, "b")
    edits(one, "sub/c")
    one.fire("PostToolUse", tool_name="Write", tool_input={"file_path": "/etc/passwd"})
    assert [sorted(span.edited) for span in spans(repo)] == [["b"], ["a", "sub/c"]], "while they go on"
    one.fire("turn")
    two.fire("turn")
    assert [sorted(span.edited) for span in spans(repo)] == [["b"], ["a", "sub/c"]]
    two.fire("prompt", prompt="third")
    two.fire("turn")
    assert spans(repo)[0].edited == frozenset()


def ended_by_commit(repo: Sandbox) -> None:
    repo.git("add", ".")
    repo.git("commit", "-qm", "by hand")


def ended_by_snapshot(repo: Sandbox) -> None:
    repo.ok("snapshot", "done by hand")


def ended_by_restore(repo: Sandbox) -> None:
    repo.ok("restore", "@", "--", "k")


@pytest.mark.deep
@some("name", ["\U0001f4c4\U0001f4c4", "a"])
def test_a_turn_with_very_many_edits_is_known_still(repo: Sandbox, name: str) -> None:
    repo.commit("first", **{"a.txt": "one\n"})
    repo.ok("snapshot", "--track", "t", "the words")
    client = Client("codex", repo.path)
    client.fire("prompt", prompt="Rename them all")
    repo.write("a.txt", "two\n")
    patch = "".join(f"*** Add File: {name}{number}\n+1\n" for number in range(12_000))
    client.fire("edit", tool_name="apply_patch", tool_input={"command": f"*** Begin Patch\n{patch}*** End Patch"})
    assert "turn not ended: Rename them all" in repo.ok("log").out and not log_of(repo)
    client.fire("turn")
    (turn,) = (one["turn"] for one in autos(repo, "t"))
    assert f"{name}0" in turn["edited"]["paths"]


def rollout(path: Path, *payloads: dict[str, object]) -> str:
    """A conversation of Codex as older ones write it, with the records of this moment."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    with path.open("a") as file:
        for payload in payloads:
            file.write(json.dumps({"timestamp": now, "type": "response_item", "payload": payload}) + "\n")
    return os.fspath(path)


@some("through", ["", "link"], keep=2)
@some("told", ["hook", "records", "another's look"], share=2)
def test_a_path_counts_from_where_the_client_works(repo: Sandbox, tmp_path: Path, through: str, told: str) -> None:
    repo.write("sub/a.txt", "one\n")
    repo.ok("snapshot", "--track", "t", "the words")
    (tmp_path / "link").symlink_to(repo.path)
    client = Client("codex", (tmp_path / "link" if through else repo.path) / "sub")
    transcript = rollout(tmp_path / "rollout.jsonl")
    client.fire("prompt", prompt="Change it", transcript_path=transcript)
    repo.write("sub/a.txt", "two\n")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch"
    if told == "hook":
        client.fire("edit", tool_name="apply_patch", tool_input={"command": patch}, transcript_path=transcript)
    else:
        call: dict[str, object] = {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c", "input": patch}
        output = json.dumps({"output": "Success.", "metadata": {"exit_code": 0}})
        rollout(Path(transcript), call, {"type": "custom_tool_call_output", "call_id": "c", "output": output})
    if told == "another's look":
        begun(repo, session="other").fire("prompt", prompt="x")
    else:
        client.fire("turn", transcript_path=transcript)
    last = autos(repo, "t")[-1]
    assert last["turn"]["edited"]["paths"] == ["sub/a.txt"] and log_of(repo) == ""
    if told != "hook":
        assert last["observed"]["edited"]["paths"] == ["sub/a.txt"]


@some("ends", [ended_by_commit, ended_by_snapshot, ended_by_restore])
@some("whose", ["another", "another that starts", "its own", "its own end"], share={"its own", "its own end"})
def test_a_later_edit_is_never_a_dead_turns(repo: Sandbox, ends: object, whose: str) -> None:
    repo.commit(k="base\n")
    dead = begun(repo, session="k")
    dead.fire("prompt", prompt="rename the parser")
    repo.write("k", "k\n")
    repo.write("l", "l\n")
    ends(repo)  # type: ignore[operator]
    assert open_of(repo) is None and OPEN not in repo.ok("log").out
    repo.write("own", "mine\n")
    assert OPEN not in repo.ok("log").out and open_of(repo) is None
    client = dead if whose.startswith("its own") else begun(repo, session="c")
    if whose == "another that starts":
        client.fire("start")
    client.fire("end" if whose == "its own end" else "prompt", prompt="go on")
    last = autos(repo, "t")[-1]
    assert last["step"] == ("session ended" if whose == "its own end" else "before a prompt (auto)")
    assert "rename the parser" not in rows(repo)[0] and "rename the parser" not in repo.ok("why", "own:1").out
    ended = [one for one in spans(repo) if one.session is not None and one.session.session == "k" and not one.open]
    assert [changed(repo, one) for one in ended] == [["k", "l"]], "up to what ended it"


@pytest.mark.deep
def test_a_turn_that_goes_on_after_a_commit_is_open(repo: Sandbox) -> None:
    client = begun(repo)
    client.fire("prompt", prompt="commit it")
    repo.write("a", "1\n")
    ended_by_commit(repo)
    path = os.fspath(repo.write("b", "1\n"))
    client.fire("PostToolUse", tool_name="Write", tool_input={"file_path": path})
    assert open_of(repo) == (client.session, "commit it")
    begun(repo, session="other").fire("prompt", prompt="x")
    assert steps(autos(repo, "t")) == [f"{OPEN}commit it"]
    client.fire("turn")
    assert changed(repo, next(span for span in spans(repo) if span.prompt == "commit it")) == ["a", "b"]


@pytest.mark.deep
def test_a_transcript_that_goes_on_is_a_sign_of_life(repo: Sandbox, tmp_path: Path) -> None:
    client = begun(repo)
    file = tmp_path / "talk.jsonl"
    file.write_text("")
    client.fire("prompt", prompt="commit it", transcript_path=os.fspath(file))
    repo.write("a", "1\n")
    ended_by_commit(repo)
    assert open_of(repo) is None
    said = {"type": "assistant", "timestamp": "2100-01-01T00:00:00.000Z", "sessionId": client.session, "uuid": "u1"}
    file.write_text(json.dumps({**said, "message": {"role": "assistant", "content": [{"type": "text", "text": "On."}]}}) + "\n")
    assert open_of(repo) == (client.session, "commit it")
    repo.write("b", "1\n")
    client.fire("prompt", prompt="go on", transcript_path=os.fspath(file))
    assert steps(autos(repo, "t"))[-1].startswith(f"{OPEN}commit it")


@pytest.mark.deep
def test_a_snapshot_of_its_own_ends_no_turn(repo: Sandbox) -> None:
    client = begun(repo)
    client.fire("prompt", prompt="one")
    repo.write("a", "1\n")
    repo.ok("snapshot", "half of it", env={"CLAUDE_CODE_SESSION_ID": client.session})
    repo.write("b", "1\n")
    assert open_of(repo) == (client.session, "one") and "1 file" in rows(repo)[0]


@pytest.mark.deep
def test_a_turn_of_another_work_tree_does_not_count_here(repo: Sandbox, tmp_path: Path) -> None:
    client = begun(repo)
    repo.git("worktree", "add", "-q", os.fspath(tmp_path / "w"))
    other = Sandbox(tmp_path / "w")
    client.fire("prompt", prompt="one")
    repo.write("junk", "agent\n")
    other.write("own", "mine\n")
    tip = repo.ok("show", "t", "--json").json["checkpoint"]["id"]
    assert repo.ok("show", "t~1", "--json").json["checkpoint"]["id"] == tip
    assert other.baton("show", "t~1").code != 0, "there is none before it"
    assert OPEN not in other.ok("log", "t").out and "open_turn" not in other.ok("status", "--json").json


@pytest.mark.deep
def test_a_turn_of_another_track_does_not_count(repo: Sandbox) -> None:
    client = begun(repo)
    snap(repo, "other", "one")
    snap(repo, "other", "two")
    repo.ok("tracks", "use", "t")
    client.fire("prompt", prompt="one")
    repo.write("junk", "agent\n")
    assert OPEN in rows(repo)[0] and OPEN not in repo.ok("log", "other").out
    assert repo.ok("show", "other~1", "--json").json["checkpoint"]["step"] == "one"


def test_an_open_turn_is_one_of_the_newest_prompt(repo: Sandbox) -> None:
    one, two = sides(repo)
    one.fire("prompt", prompt="first")
    two.fire("prompt", prompt="second")
    repo.write("a", "1\n")
    assert open_of(repo) == ("two", "second")
    assert [span.prompt for span in spans(repo)] == ["second", "first"] and all(span.open for span in spans(repo))


def put(repo: Sandbox, *made: tuple[str, str]) -> list[Stored]:
    """Checkpoints as an earlier version took them: each says a step, and writes a file."""
    found = []
    with Baton(repo.path) as baton:
        for step, name in made:
            repo.write(name, f"{step}\n")
            found.append(baton.apply(baton.plan(Request(track="t", step=step, kind="auto"))).stored)
    return found


@pytest.mark.deep
def test_checkpoints_of_before_begin_at_the_nearest_boundary(repo: Sandbox) -> None:
    snap(repo, "t", "start")
    put(repo, ("turn ended: one", "a"), ("before a prompt (auto)", "own"), ("before compaction (auto)", "b"))
    put(repo, ("turn ended: one; last prompt: two", "c"), ("session ended", "own2"), ("turn not ended: three", "d"))
    assert [(span.prompt, changed(repo, span)) for span in spans(repo)] == [
        ("three", ["d"]),
        ("two", ["b", "c"]),
        ("one", ["a"]),
    ]


def test_a_turn_says_what_it_began_from(repo: Sandbox) -> None:
    client = begun(repo)
    client.fire("prompt", prompt="one")
    repo.write("a", "1\n")
    client.fire("turn")
    with Baton(repo.path) as baton:
        newest, start = baton.history("t").items
    assert newest.checkpoint.turn == Turn(began=start.id) and start.checkpoint.turn is None


@pytest.mark.deep
def test_a_turn_goes_on_in_a_track_that_is_renamed(repo: Sandbox) -> None:
    client = begun(repo)
    repo.write("own", "1\n")
    client.fire("prompt", prompt="one")
    repo.write("a", "1\n")
    repo.ok("tracks", "rename", "t", "u")
    assert open_of(repo, "u") == (client.session, "one")
    client.fire("turn")
    assert changed(repo, spans(repo, "u")[0]) == ["a"]


@pytest.mark.deep
def test_a_turn_in_which_the_track_is_another_one_has_both_its_ends(repo: Sandbox) -> None:
    client = begun(repo)
    repo.write("own", "1\n")
    client.fire("prompt", prompt="one")
    repo.write("a", "1\n")
    snap(repo, "u", "elsewhere")
    assert open_of(repo, "u") is None
    client.fire("turn")
    (one,) = spans(repo, "u")
    assert changed(repo, one) == ["a"] and one.began is not None and one.began.checkpoint.track == "t"


@pytest.mark.deep
def test_what_a_turn_began_from_that_was_pruned_is_not_known(repo: Sandbox) -> None:
    client = begun(repo)
    repo.write("own", "1\n")
    client.fire("prompt", prompt="one")
    repo.write("a", "1\n")
    client.fire("turn")
    repo.write("own", "2\n")
    client.fire("prompt", prompt="two")
    client.fire("turn")
    repo.ok("prune", "--keep-last", "3", "--yes")
    assert [(span.prompt, span.before is None) for span in spans(repo)] == [("two", False), ("one", True)]


@pytest.mark.deep
@some("ended", [False, True])
def test_of_a_turn_whose_prompt_had_no_time_nothing_is_taken_back(repo: Sandbox, ended: bool) -> None:
    """What it began from was not kept, and the state before may lack what the user did in between."""
    repo.ok("snapshot", "start")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt="one")
    repo.write("one", "1")
    client.fire("turn")
    repo.write("mine", "mine")
    client.fire("prompt", prompt="two")
    (left,) = [each for each in (repo.path / ".git/baton/sessions").iterdir() if "." not in each.name]
    state = {key: said for key, said in json.loads(left.read_text()).items() if key not in ("began", "began_head")}
    left.write_text(json.dumps(state))
    repo.write("two", "2")
    if ended:
        client.fire("turn")
    done = repo.baton("revert")
    assert done.code == 1 and "what the turn of" in done.err and "is not on record any more" in done.err
    assert all((repo.path / name).exists() for name in ("one", "mine", "two"))


def test_a_secret_in_the_name_of_an_edited_file_is_redacted(repo: Sandbox) -> None:
    client, name = begun(repo), "ghp_" + "a1B2" * 9
    client.fire("prompt", prompt="one")
    client.fire("PostToolUse", tool_name="Write", tool_input={"file_path": os.fspath(repo.write(name, "x\n"))})
    client.fire("turn")
    assert name not in json.dumps(autos(repo, "t")[-1]) and len(spans(repo)[0].edited) == 1
