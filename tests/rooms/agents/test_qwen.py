"""Qwen Code: whose words a prompt has, tasks in the background, refusals and answers, and its conversation as a tree."""

from __future__ import annotations

import json
from typing import Any

from gitbaton.agents.client import read
from gitbaton.agents.qwen import CLIENT
from gitbaton.agents.records import kept_records, messages, shown, signs
from gitbaton.agents.signs import Answered, Asked, CommandRun, Edited, Ended, Planned, Said, Searched, Shown, Sign
from gitbaton.base.model import Usage
from tests.kit.places import DATA
from tests.kit.tables import each

AT = "2026-11-29T15:47:24.897Z"


def lines(name: str) -> bytes:
    return (DATA / "plans" / "qwen" / f"{name}.jsonl").read_bytes()


def told(*records: dict[str, Any]) -> list[str]:
    """The signs of some records, a line each."""
    return [line(sign) for record in CLIENT.sift(records) for sign in signs(CLIENT, record)]


def line(sign: Sign) -> str:
    match sign:
        case Asked() | Said():
            return " ".join(
                filter(None, (type(sign).__name__.lower(), sign.kind if isinstance(sign, Asked) else "", sign.text))
            )
        case CommandRun() | Edited():
            return f"{sign.key} {sign.command if isinstance(sign, CommandRun) else sign.path}"
        case Ended():
            how = "refused" if sign.refused else "goes on" if sign.running else str(sign.status)
            return " ".join(filter(None, (sign.key, how, sign.output)))
        case Planned():
            return f"plan {[item.text for item in sign.items]}"
        case Searched():
            return f"found {sign.text}"
    return type(sign).__name__


def row(kind: str, *parts: object, **more: object) -> dict[str, Any]:
    return {"uuid": "u", "parentUuid": "v", "timestamp": AT, "type": kind, "message": {"parts": list(parts)}, **more}


def call(name: str, key: str = "k", **given: object) -> dict[str, Any]:
    return row("assistant", {"functionCall": {"id": key, "name": name, "args": given}})


def gave(name: str, output: str, shown: object = "", key: str = "k", **more: object) -> dict[str, Any]:
    answer = {"functionResponse": {"id": key, "name": name, "response": {"output": output}}}
    result = {"callId": key, "status": "success", "resultDisplay": shown, "executionStatus": "success", **more}
    return row("tool_result", answer, toolCallResult=result)


REMINDER = {"text": "<system-reminder>\n1 background agent was restored.\n</system-reminder>\n\n"}
HOOKED = {"text": "<qwen:user-prompt-submit-context>\nwhat a hook says\n</qwen:user-prompt-submit-context>"}
ENDED = "<task-notification>\n<task-id>{}</task-id>\n{}<status>{}</status>\n<summary>It {}.</summary>\n{}\n</task-notification>"


@each(
    "record, expected",
    [
        (row("user", {"text": "go"}), ["asked go"]),
        (row("user", REMINDER, {"text": "go"}, HOOKED, provenance="real_user"), ["asked go"]),
        (row("user", HOOKED), []),
        (row("user", {"text": "and that"}, subtype="mid_turn_user_message", provenance="real_user"), ["asked and that"]),
        (row("user", {"text": "check the build"}, subtype="cron"), []),
        (row("user", {"text": "go"}, provenance="system"), []),
        (row("user", {"text": "go"}, provenance="hook"), []),
        (row("system", subtype="slash_command", systemPayload={"rawCommand": "/about"}), []),
        (row("assistant", {"text": "hm", "thought": True}, {"text": "done"}), ["said done"]),
        (row("user", {"text": "the child's task"}, isSidechain=True), []),
        (row("assistant", {"text": "the child's answer"}, isSidechain=True), []),
        ({"uuid": 1, "type": "user", "message": {"parts": "x"}}, []),
        ({"type": "tool_result", "message": None, "toolCallResult": []}, []),
    ],
)
def test_only_the_users_words_are_a_prompt(record: dict[str, Any], expected: list[str]) -> None:
    assert told(record) == expected


@each(
    "fields, moment, prompt",
    [
        ({"prompt": "go"}, "prompt", "go"),
        ({"prompt": ""}, "other", ""),
        ({"prompt": "<system-reminder>\nx\n</system-reminder>\n\ngo", "submitted_prompt": "go"}, "prompt", "go"),
        ({"prompt": "<system-reminder>\nx\n</system-reminder>\n\ngo"}, "prompt", "go"),
        ({"prompt": "<system-reminder>\nx\n</system-reminder>"}, "other", ""),
        ({"prompt": "Fix the issue 12.", "submitted_prompt": "/fix 12"}, "prompt", "/fix 12"),
        ({"prompt": "<task-notification>\n<task-id>b</task-id>"}, "other", "<task-notification>\n<task-id>b</task-id>"),
        ({"prompt": 1, "submitted_prompt": []}, "prompt", None),
    ],
)
def test_only_what_the_user_said_opens_a_turn(fields: dict[str, Any], moment: str, prompt: str | None) -> None:
    event = read("qwen", "UserPromptSubmit", json.dumps({"session_id": "s", **fields}).encode(), {})
    assert event is not None and (event.moment, event.prompt) == (moment, prompt)


def test_what_goes_on_in_the_background_is_listed_at_the_end_of_a_turn() -> None:
    tasks = [{"id": "a", "status": status, "description": f"is {status}"} for status in ("running", "completed")]
    payload = {"session_id": "s", "last_assistant_message": "Launched.", "background_tasks": tasks}
    event = read("qwen", "Stop", json.dumps(payload).encode(), {})
    assert event is not None and (event.said, event.running) == ("Launched.", ("is running",))


SHELL = call("run_shell_command", command="make")
RESULT = {"type": "shell_result", "version": 1, "exitCode": 2, "output": "x", "text": "x"}


@each(
    "records, expected",
    [
        ((SHELL, gave("run_shell_command", "Exit Code: 9", RESULT, status="error")), ["k make", "k 2 x"]),
        (
            (SHELL, gave("run_shell_command", "Output: x\nExit Code: 0\nSignal: (none)", "x")),
            ["k make", "k 0 Output: x\nExit Code: 0\nSignal: (none)"],
        ),
        (
            (SHELL, gave("run_shell_command", "denied by rules", "denied", status="error", executionStatus="not_started")),
            ["k make", "k refused denied by rules"],
        ),
        (
            (
                SHELL,
                gave("run_shell_command", "Background shell started.\nid: bg_1\npid: 7"),
                row(
                    "user",
                    {
                        "text": ENDED.format(
                            "bg_1", "", "failed", "failed", "<exit-code>4</exit-code>\n<output-tail>late</output-tail>"
                        )
                    },
                    subtype="notification",
                ),
            ),
            ["k make", "k goes on", "k 4 late"],
        ),
        (
            (
                call("agent", description="a part"),
                gave("agent", "Background agent launched successfully.\ntask_id: gp-k (internal)"),
                row(
                    "user",
                    {
                        "text": ENDED.format(
                            "gp-k", "<tool-use-id>k</tool-use-id>\n", "completed", "ended", "<result>Yes.</result>"
                        )
                    },
                ),
            ),
            ["Called", "k goes on", "k 0 Yes."],
        ),
        ((row("user", {"text": ENDED.format("m", "", "running", "emitted", "")}),), []),
        (
            (call("edit", file_path="/a"), gave("edit", "not read yet", status="error", executionStatus="error")),
            ["k /a", "k 1 not read yet"],
        ),
        ((call("notebook_edit", notebook_path="/a.ipynb"), gave("notebook_edit", "ok")), ["k /a.ipynb", "k 0 ok"]),
        ((gave("grep_search", "File: half.py"),), ["found File: half.py"]),
        ((call("todo_write", todos=[{"content": "a", "status": "pending"}]), gave("todo_write", "ok")), ["plan ['a']"]),
        ((call("todo_write", todos=[{"content": "a"}]), gave("todo_write", "is disabled", status="error")), []),
        (
            (
                gave(
                    "ask_user_question",
                    "x",
                    {"type": "ask_user_question_answers", "answers": [{"question": "Q?", "answer": "B"}]},
                ),
            ),
            ["asked answer B"],
        ),
        (
            (gave("exit_plan_mode", "User approved. You can now", {"type": "plan_summary", "plan": "# P\n1. a"}),),
            ["asked approved # P\n1. a", "plan ['a']"],
        ),
        ((gave("exit_plan_mode", "Rejected.", {"type": "plan_summary", "plan": "# P", "rejected": True}),), []),
    ],
)
def test_what_calls_gave(records: tuple[dict[str, Any], ...], expected: list[str]) -> None:
    assert told(*records) == expected


def test_a_subagent_tells_nothing_but_its_edits() -> None:
    children = [json.loads(raw) for raw in lines("agent.subagent").splitlines()]
    assert [text for text in told(*children) if "child.py" in text] == [
        "call_16 /repo/child.py",
        "call_16 0 Successfully created and wrote to new file: /repo/child.py.",
    ]
    assert CLIENT.task(children[0]) == "SUBAGENT-TASK: look around" and CLIENT.task(children[1]) == ""
    parent = told(*(json.loads(raw) for raw in lines("chat.subagent").splitlines()))
    assert [text for text in parent if text.startswith(("asked", "said"))] == [
        "asked Let somebody look (Do the release)",
        "said Delegating.",
        "said Launched.",
        "said All right.",
        "asked Please fix the issue 12 now.",
        "said All right.",
    ]
    assert "call_13 goes on" in parent and "call_13 0 SUB-ANSWER" in parent


def test_a_reply_says_its_model_and_its_tokens() -> None:
    used = {"promptTokenCount": 1000, "candidatesTokenCount": 7, "totalTokenCount": 1010, "cachedContentTokenCount": 400}
    (sign,) = signs(CLIENT, row("assistant", model="coder-plus", usageMetadata=used))
    assert sign == Answered(at=1795967244.897, key="u", model="coder-plus", usage=Usage(input=600, output=10, cached=400))
    (sign,) = signs(CLIENT, row("assistant", model="coder-plus", usageMetadata={"totalTokenCount": "x"}))
    assert sign == Answered(at=1795967244.897, key="u", model="coder-plus", usage=None)


def test_what_was_taken_back_is_not_on_the_branch() -> None:
    def at(key: str, above: str | None, kind: str, text: str, **more: object) -> bytes:
        return json.dumps({**row(kind, {"text": text}, **more), "uuid": key, "parentUuid": above}).encode()

    raw = b"\n".join(
        [
            at("a", None, "user", "one"),
            at("b", "a", "assistant", "done one"),
            at("c", "b", "user", "two"),
            at("d", "c", "assistant", "done two"),
            at("e", "b", "system", "", subtype="rewind"),
            at("f", "e", "user", "three"),
        ]
    )
    assert [message.text for message in messages(CLIENT, raw)] == ["one", "done one", "three"]
    assert [record["uuid"] for record in kept_records(CLIENT, raw) if record["type"] == "user"] == ["a", "f"]


def test_what_a_hook_said_is_shown_as_the_systems() -> None:
    found = [row("user", {"text": "go"}, provenance="real_user"), row("user", HOOKED), row("user", {"text": "on"}, HOOKED)]
    assert [part.who for record in found for part in CLIENT.read(record) if isinstance(part, Shown)] == [
        *("user", "system"),
        *("user", "system"),
    ]


def test_a_compaction_shows_its_summary_and_large_results_are_let_go() -> None:
    found = [part for part in shown(CLIENT, lines("chat.todos")) if part.summary]
    assert len(found) == 1 and "The parser is being written" in str(found[0].content)
    edits = [json.loads(raw) for raw in lines("chat.todos").splitlines() if b"originalContent" in raw]
    assert edits and not any("originalContent" in json.dumps(CLIENT.light(record)) for record in edits)
