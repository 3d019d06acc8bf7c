"""The last words of a turn, which a client may write after it has called the hook: waited for, and not for long."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.agents.records import MAX_LINE
from gitbaton.agents.transcripts import Mode, files, record
from gitbaton.base.clients import HookEvent, Moment
from gitbaton.base.model import Transcript
from gitbaton.base.values import replace
from tests.kit import Sandbox
from tests.rooms.agents.test_conversation_formats import CODEX, item, rows, said
from tests.rooms.transcripts.test_transcripts import SESSION

USER = rows(said("u1", None, "user", "do it"))
WORDS = "It is done.\nAll of it: \u00fc\U0001f600"
LAST = rows(said("u2", "u1", "assistant", [{"type": "text", "text": WORDS + "\n"}]))


class Pauses:
    """What the client does while it is waited for, pause by pause; the pauses are counted and take no time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds: list[float] = []
        self.then: dict[int, Callable[[], object]] = {}
        monkeypatch.setattr("time.sleep", self)

    @property
    def count(self) -> int:
        return len(self.seconds)

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.then.get(self.count, lambda: None)()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    return Pauses(monkeypatch)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(USER)
    return path


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def stop(path: Path, words: str | None = WORDS, agent: str = "claude", moment: Moment = "turn") -> HookEvent:
    return HookEvent(agent=agent, name="Stop", moment=moment, session=SESSION, transcript=str(path), said=words)


def take(box: Sandbox, event: HookEvent, mode: Mode = "position") -> Transcript | None:
    with box.open(door="binary") as baton:
        return record(baton, event, mode, None)


@pytest.mark.parametrize("mode", ["position", "full"])
def test_words_that_come_late_are_waited_for(repo: Sandbox, path: Path, pauses: Pauses, mode: Mode) -> None:
    pauses.then = {
        2: lambda: append(path, LAST[:30]),
        3: lambda: append(path, LAST[30:-1]),  # a line that has not ended is not there yet
        5: lambda: append(path, LAST[-1:]),
    }
    found = take(repo, stop(path), mode)
    assert found is not None and (found.lines, found.last, found.size) == (2, "u2", len(USER + LAST))
    assert pauses.count == 5
    if mode == "full":
        assert repo.run("git", "cat-file", "blob", f"{found.stored}:chunks/00000000").out.encode() == USER + LAST


def test_words_that_never_come_are_not_waited_for_long(repo: Sandbox, path: Path, pauses: Pauses) -> None:
    found = take(repo, stop(path))
    assert found is not None and found.last == "u1"
    assert sum(pauses.seconds) == pytest.approx(0.15)


@pytest.mark.parametrize("moment", ["start", "prompt", "request", "edit", "compact", "compacted", "end", "other"])
def test_only_the_end_of_a_turn_waits(repo: Sandbox, path: Path, pauses: Pauses, moment: Moment) -> None:
    assert take(repo, stop(path, moment=moment)) is not None and pauses.count == 0


def test_nothing_to_wait_for(repo: Sandbox, path: Path, pauses: Pauses) -> None:
    for words in (None, "", " \n"):
        assert take(repo, stop(path, words)) is not None
    assert take(repo, stop(path), "off") is None
    assert take(repo, stop(path.parent / "gone")) is None
    append(path, LAST)
    for words in (WORDS, f" {WORDS} ", "\U0001f600"):
        assert take(repo, stop(path, words)) is not None
    append(path, b'{"type": "mode"}\n' + rows({"type": "system", "uuid": "u3", "content": "2 hooks ran"}) + b"{half")
    assert take(repo, stop(path)) is not None
    assert pauses.count == 0


def test_the_same_words_of_an_earlier_turn_do_not_count(repo: Sandbox, path: Path, pauses: Pauses) -> None:
    append(path, LAST + rows(said("u3", "u2", "user", "again")))
    pauses.then = {1: lambda: append(path, LAST.replace(b'"u2"', b'"u4"'))}
    found = take(repo, stop(path))
    assert found is not None and (found.last, pauses.count) == ("u4", 1)


def test_codex_is_waited_for_as_well(repo: Sandbox, path: Path, pauses: Pauses) -> None:
    path.write_bytes(rows(*CODEX[:5]))
    last = item(type="message", id="m9", role="assistant", content=[{"type": "output_text", "text": WORDS}])
    pauses.then = {1: lambda: append(path, rows(last, {"type": "event_msg", "payload": {"type": "token_count"}}))}
    found = take(repo, stop(path, agent="codex"))
    assert found is not None and (found.last, pauses.count) == ("m9", 1)


@pytest.mark.deep
def test_only_the_tail_is_read_and_long_words_are_in_it(
    repo: Sandbox, path: Path, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    pread = os.pread

    def spy(fd: int, size: int, at: int) -> bytes:
        asked.append(size)
        return pread(fd, size, at)

    monkeypatch.setattr(os, "pread", spy)
    for words in ("x" * 600_000, "\x01" * 300_000):  # one that JSON writes with six bytes each
        path.write_bytes(USER * 20_000 + rows(said("u2", "u1", "assistant", words + ".")))
        event, asked[:] = stop(path, words + "."), []
        with path.open("rb") as file:
            files.settle(file.fileno(), event)
        assert pauses.count == 0 and len(asked) == 1 and asked[0] < 4 << 20
    huge = replace(stop(path), said="y" * (5 << 20))
    asked.clear()
    with path.open("rb") as file:
        files.settle(file.fileno(), huge)
    assert asked == [MAX_LINE] and pauses.count == 15  # looked at once, because nothing was written


def test_whatever_the_file_holds_is_no_error(repo: Sandbox, path: Path, pauses: Pauses) -> None:
    deep = '{"type": "assistant", "message": {"content": [{"type": "tool_use", "input": %s1%s}]}}'
    for depth in (100, 900, 930, 950, 970, 980, 985, 990, 995, 1000, 50_000):
        path.write_bytes((deep % ('{"a":' * depth, "}" * depth)).encode() + b"\n")
        assert take(repo, stop(path)) is not None, depth
    odd = (b"\0" * 1000, b"\xff\n" * 9, json.dumps({"type": "assistant", "message": 1e300}).encode() + b"\n", b"[1]\n1e999\n")
    for data in odd:
        path.write_bytes(data + b"\n")
        assert take(repo, stop(path)) is not None
    pauses.then = {pauses.count + 1: path.unlink, pauses.count + 2: lambda: None}
    assert take(repo, stop(path)) is not None


def test_copilots_record_of_the_call_itself_is_waited_for(path: Path, pauses: Pauses) -> None:
    """Its payload does not say the last words, and its file gets what a turn was in one go, some 100 ms later."""

    def event(kind: str, **data: str) -> bytes:
        return rows({"type": kind, "data": data})

    calls = [event("hook.start", hookType=kind) for kind in ("agentStop", "userPromptSubmitted", "agentStop")]
    path.write_bytes(calls[0] + calls[1])  # of the turn before, and of this one
    pauses.then = {4: lambda: append(path, event("assistant.message", content=WORDS) + calls[2])}
    with path.open("rb") as file:
        files.settle(file.fileno(), replace(stop(path, None, "copilot"), name="agentStop"))
    assert pauses.count == 4
