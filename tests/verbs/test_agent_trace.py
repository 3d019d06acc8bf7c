"""``git baton blame --agent-trace``: the lines that commits brought and agents wrote, as Agent Trace 0.1.0 has them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.kit import Sandbox
from tests.kit.past import Past
from tests.kit.places import DATA
from tests.kit.talks import Talk

SCHEMA = json.loads((DATA / "agent-trace-0.1.0.schema.json").read_text())


def traces(repo: Sandbox, *words: str) -> list[dict[str, Any]]:
    """The records of a range, each held against the specification."""
    found = [json.loads(line) for line in repo.ok("blame", "--agent-trace", *words).out.splitlines()]
    for one in found:
        jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(one)
    return found


def ranges(trace: dict[str, Any]) -> dict[str, list[tuple[int, int]]]:
    """The lines that a record tells of, by file."""
    return {
        file["path"]: [(one["start_line"], one["end_line"]) for talk in file["conversations"] for one in talk["ranges"]]
        for file in trace["files"]
    }


def commit(repo: Sandbox, message: str) -> None:
    """A commit of all that is there, at this moment."""
    repo.git("add", "-A")
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    done = repo.run("git", "commit", "-q", "-m", message, env={"GIT_COMMITTER_DATE": now, "GIT_AUTHOR_DATE": now})
    assert done.code == 0, done


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    repo.commit("first", **{"x.py": "one\ntwo\nthree\n"})
    repo.ok("snapshot", "--track", "t", "begin")
    return Talk(repo, tmp_path / "talk.jsonl")


def test_lines_of_a_turn_are_the_agents_whoever_commits_them(talk: Talk) -> None:
    repo = talk.repo
    talk.ask("first")
    talk.fire("prompt", prompt="first")
    talk.answer("m1", 10, 1)
    talk.edit("x.py", "one\nA\nB\nthree\nC\n")
    talk.stop()
    turn = repo.ok("show", "@", "--json").json["checkpoint"]["id"]
    repo.write("x.py", "mine\none\nA\nB\nthree\nC\n")
    repo.write("own.py", "mine\n")
    commit(repo, "both")
    (trace,) = traces(repo)
    assert trace["vcs"] == {"type": "git", "revision": repo.head()} and trace["version"] == "0.1.0"
    assert ranges(trace) == {"x.py": [(3, 4), (6, 6)]}
    (conversation,) = trace["files"][0]["conversations"]
    assert conversation["contributor"] == {"type": "ai", "model_id": "anthropic/claude-opus-4-5"}
    assert conversation["url"] == f"git-baton:{turn}"
    assert "part" in repo.ok("transcript", "show", turn).out
    assert traces(repo)[0]["id"] == trace["id"], "a record keeps its id"
    repo.git("mv", "x.py", "y.py")
    commit(repo, "renamed")
    assert traces(repo) == [] and [one["vcs"] for one in traces(repo, "HEAD~2..")] == [trace["vcs"]]


def test_a_commit_that_the_agent_made_in_its_turn_is_traced(talk: Talk) -> None:
    repo = talk.repo
    talk.ask("commit it")
    talk.fire("prompt", prompt="commit it")
    talk.answer("m1", 10, 1)
    talk.edit("x.py", "one\ntwo\nnew\nthree\n")
    commit(repo, "by the agent")
    talk.stop()
    (trace,) = traces(repo, "HEAD")
    assert ranges(trace) == {"x.py": [(3, 3)]}


def test_a_file_that_an_agent_added_is_its_own_also_where_git_holds_no_empty_file(repo: Sandbox) -> None:
    past = Past(repo)
    made = past.turn("Halve it", "half.py", "x / 2\ny / 2\n", "half: begun")
    repo.ok("import", "--all", "--yes")
    assert repo.run("git", "cat-file", "-e", repo.git("hash-object", "--stdin", stdin=b"")).code != 0
    (trace,) = traces(repo, made)
    assert ranges(trace) == {"half.py": [(1, 2)]}


def test_what_is_no_agents_is_in_no_record(repo: Sandbox) -> None:
    repo.commit("first", **{"x.py": "one\n"})
    assert traces(repo) == []
    repo.ok("snapshot", "--track", "t", "by hand")
    repo.commit("second", **{"x.py": "two\n"})
    done = repo.ok("blame", "--agent-trace", "HEAD~1..HEAD")
    assert done.out == "" and "no line that 'HEAD~1..HEAD' brought is known to be an agent's" in done.err
    for words, said in (
        (("nowhere",), "'nowhere' is no commit and no range of commits"),
        (("HEAD:x.py",), "'HEAD:x.py' is no commit and no range of commits"),
        (("HEAD^{tree}",), "'HEAD^{tree}' is no commit and no range of commits"),
        (("HEAD", "-L", "1,1"), "--agent-trace and -L exclude each other"),
        (("HEAD", "--json"), "--agent-trace and --json exclude each other"),
    ):
        failed = repo.baton("blame", "--agent-trace", *words)
        assert (failed.code, failed.out) == (129, "") and f"fatal: {said}" in failed.err, failed
    assert repo.baton("blame").code == 129
