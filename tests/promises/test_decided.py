"""What the user decided outside a prompt is told like what they asked for, and what goes on in the background is told, too."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, log_of
from tests.kit.talks import Talk
from tests.kit.tiers import some

KEY = "ghp_Zq7T2mK9xW4bV8nR1cY6Zq7T2mK9xW4bV8nR"
REFUSED = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n"
PLAN = "# Cache plan\n\nIt is slow.\n\n1. add an LRU class\n2. do not cache POST requests\n"


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    repo.commit("first", **{"x.py": "one\n"})
    repo.ok("snapshot", "--track", "t", "the old words")
    return Talk(repo, tmp_path / "talk.jsonl")


def answer(talk: Talk, name: str, given: dict[str, Any], text: str, *, failed: bool = False, outcome: Any = None) -> None:
    """A tool is called, and the user's answer is its result."""
    talk.record("assistant", [{"type": "tool_use", "id": f"{name}-1", "name": name, "input": given}])
    block = {"type": "tool_result", "tool_use_id": f"{name}-1", "content": text, "is_error": failed}
    talk.record("user", [block], toolUseResult=outcome)


def told(talk: Talk) -> str:
    """What the next session is told, and what is kept beside the conversation."""
    talk.fire("compact", trigger="auto")
    assert not log_of(talk.repo)
    return talk.fire("start", source="compact")


def test_answers_and_words_at_a_refusal_count_as_asked(talk: Talk) -> None:
    talk.ask("add storage")
    questions = {"questions": [{"question": "Which database?"}, {"question": "Which port?"}]}
    text = 'User has answered your questions: "Which database?"="Postgres, no PII", "Which port?"="5433". You can now continue.'
    answer(talk, "AskUserQuestion", questions, text)
    answer(talk, "Bash", {"command": "rm -rf data"}, f"{REFUSED}never delete data, archive it", failed=True)
    found = told(talk)
    assert "Postgres, no PII" in found and "Which database?" in found and "5433" in found
    assert "never delete data, archive it" in found and "rm -rf data" in found
    asked = json.loads(talk.repo.ok("resume", "--json").out)["told"]["asked"]
    assert [(one.get("kind", ""), one["text"]) for one in asked] == [
        ("", "add storage"),
        ("answer", "Postgres, no PII"),
        ("answer", "5433"),
        ("refused", "never delete data, archive it"),
    ]


@pytest.mark.deep
def test_what_was_not_done_is_not_told_as_done(talk: Talk) -> None:
    talk.ask("rename the flag")
    answer(talk, "Write", {"file_path": "made.py"}, "File created")
    missing = "<tool_use_error>String to replace not found in file.</tool_use_error>"
    answer(talk, "Edit", {"file_path": "x.py", "old_string": "a", "new_string": "b"}, missing, failed=True)
    answer(talk, "Bash", {"command": "pytest -q"}, REFUSED + "no, use tox", failed=True)
    answer(talk, "NotebookEdit", {"notebook_path": "n.ipynb"}, "Cancelled: parallel tool call errored", failed=True)
    found = told(talk)
    assert "edited made.py" in found and "no, use tox" in found
    assert not re.search(r"edited (?:x\.py|n\.ipynb)|edit of|String to replace|not mended|tests:", found)
    assert "tests" not in json.loads(talk.repo.ok("resume", "--json").out)["checkpoint"]["observed"]


@some("mode", ["on", "strict"])
def test_names_of_files_are_told_without_secrets_and_whole(talk: Talk, mode: str) -> None:
    talk.repo.git("config", "baton.redact", mode)
    for name in (f"kept/{KEY}.txt", "lines\nof.txt"):
        talk.repo.write(name, "one\n")
    talk.repo.git("add", "-A")
    talk.repo.git("commit", "-qm", "more")
    talk.repo.ok("snapshot", "--track", "t", "newer words")
    talk.ask("read them")
    for name in (f"kept/{KEY}.txt", "lines\nof.txt"):
        talk.call("Read", {"file_path": str(talk.repo.path / name)}, "one")
    talk.edit(f"made/{KEY}.py", "one\n")
    talk.edit("two\nlines.py", "one\n")
    talk.run("pytest -q", "1 passed in 0.1s\n")
    talk.edit(f"late/{KEY}.py", "two\n")
    talk.edit("a name.py", "one\n")
    found = told(talk)
    read = next(row for row in found.split("\n") if row.startswith("read last: "))
    edited = next(row for row in found.split("\n") if row.startswith("edited last, "))
    assert "[redacted:github-token].txt" in read and '"lines\\nof.txt"' in read
    assert "[redacted:github-token].py" in edited and '"two\\nlines.py"' in edited and "a name.py" in edited
    assert 'edited "two\\nlines.py"' in found
    assert KEY not in found and KEY not in talk.repo.ok("show").out and KEY not in talk.repo.ok("resume", "--json").out
    again = told(talk)
    assert KEY not in again and edited in again


@pytest.mark.parametrize("edited", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_plan_that_the_user_approved_is_the_plan(talk: Talk, edited: bool) -> None:
    talk.ask("plan the cache")
    text = "User has approved your plan. You can now start coding."
    mine = PLAN.replace("an LRU", "a bounded LRU")
    text += f"\n\n## Approved Plan (edited by user):\n{mine}" if edited else ""
    answer(talk, "ExitPlanMode", {"plan": PLAN}, text)
    found = told(talk)
    assert "do not cache POST requests" in found and ("a bounded LRU" if edited else "an LRU") in found
    (plan,) = json.loads(talk.repo.ok("resume", "--json").out)["checkpoint"]["observed"]["plans"]
    assert plan["title"] == "Cache plan" and [item["state"] for item in plan["items"]] == ["open", "open"]


@pytest.mark.deep
def test_why_a_plan_was_rejected_is_told(talk: Talk) -> None:
    talk.ask("plan the cache")
    answer(talk, "ExitPlanMode", {"plan": PLAN}, f"{REFUSED}no LRU, it is too big", failed=True)
    assert "no LRU, it is too big" in told(talk)


def test_what_runs_in_the_background_is_told_until_it_ends(talk: Talk) -> None:
    talk.ask("run the migration")
    begun = "Command running in background with ID: b1. Output is being written to: /tmp/b1.output."
    answer(talk, "Bash", {"command": "python migrate.py", "run_in_background": True}, begun)
    talk.say("It runs.")
    running = [{"id": "b1", "type": "shell", "status": "running", "command": "python migrate.py"}]
    talk.fire("turn", last_assistant_message=None, background_tasks=running)
    other = Client("claude", talk.repo.path, session="5e551011-0000-4000-8000-00000000000f")
    assert "python migrate.py" in other.fire("start")
    talk.record(
        "user",
        "<task-notification>\n<task-id>b1</task-id>\n<tool-use-id>Bash-1</tool-use-id>\n<status>completed</status>\n"
        '<summary>Background command "migrate" completed (exit code 0)</summary>\n</task-notification>',
    )
    talk.say("It has ended.")
    talk.fire("turn", last_assistant_message=None, background_tasks=[])
    told = json.loads(talk.repo.ok("resume", "--json").out)["told"]
    assert not told.get("running") and ("python migrate.py", 0) in [(ran["command"], ran["status"]) for ran in told["commands"]]
    assert [one["text"] for one in told["asked"]] == ["run the migration"], "a notice is nobody's prompt"


@pytest.mark.deep
def test_a_plan_that_a_hook_heard_is_the_plan_on_record(talk: Talk) -> None:
    """The prompt that asks for a plan is told once, as the approval, and is not newer than what was said after it."""
    talk.now = talk.clock() - timedelta(minutes=9)
    talk.clock = lambda: talk.now
    text = f"Implement the following plan:\n\n{PLAN}"
    talk.ask(text)
    talk.client.asked(text, transcript_path=str(talk.path))
    talk.now += timedelta(minutes=5)
    question = {"questions": [{"question": "Which size?"}]}
    answer(
        talk, "AskUserQuestion", question, 'User has answered your questions: "Which size?"="64 entries". You can now go on.'
    )
    found = told(talk)
    assert re.findall(r"^(?:Newest request|The user answered), (.*?): ", found, re.M) == ["4 minutes ago"]
    assert (found.count("add an LRU class"), "Implement the following plan" in found) == (1, False)
