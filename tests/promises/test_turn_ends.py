"""The end of a turn that a hook tells of late, early or twice ends that turn, and no other one."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, autos, log_of, steps
from tests.kit.talks import Talk
from tests.kit.tiers import some

ONE, TWO = "Mend the parser", "Now write the changelog"
DONE = "The parser is mended."
NEXT = "5e551011-0000-4000-8000-00000000000f"


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    repo.commit("first", **{"x.py": "one\n"})
    repo.ok("snapshot", "--track", "t", "the old words")
    return Talk(repo, tmp_path / "talk.jsonl")


def ask(talk: Talk, text: str) -> None:
    """A prompt that its hook hears, and that is on record."""
    talk.client.asked(text, transcript_path=str(talk.path))
    talk.ask(text)


def end(talk: Talk, words: str | None, came: float | None = None, step: str = "") -> None:
    """The end of a turn is heard; where it came before, by a process that goes on with it."""
    if came is None:
        talk.fire("turn", last_assistant_message=words)
        return
    name = talk.client.words["turn"]
    payload = talk.client.payload(name, transcript_path=str(talk.path), last_assistant_message=words)
    env = {"GIT_BATON_LATE": step, "GIT_BATON_CAME_AT": str(round(came * 1000))}
    assert talk.client.send(name, payload, env=env).code == 0


def told(talk: Talk) -> dict[str, Any]:
    """What was said around the newest checkpoint."""
    found: dict[str, Any] = json.loads(talk.repo.ok("resume", "--json").out)["told"]
    return found


def first(talk: Talk, words: str = DONE) -> float:
    """A turn up to its last words, and when they were said."""
    ask(talk, ONE)
    talk.edit("x.py", "two\n")
    talk.say(words)
    return time.time()


def second(talk: Talk) -> None:
    """The turn after, in its midst."""
    ask(talk, TWO)
    talk.edit("y.py", "new\n")
    talk.say("Let me look at the tags.")


def goes_on(talk: Talk, said: str = DONE) -> None:
    """The first turn has ended, and the second is told as the one that was cut."""
    found = told(talk)
    assert found["said"]["text"] == said and [one["text"] for one in found["texts"]] == ["Let me look at the tags."]
    assert [one["text"] for one in found["actions"]] == ["edited y.py"] and found["latest"]["text"] == TWO
    text = Client("claude", talk.repo.path, session=NEXT).fire("start")
    assert "\nNewest request, " in text and f" ago: {TWO}" in text and "it may still be at work here" in text, text
    assert "in the midst of a turn" in text and "Of the turn that has not ended" in text and not log_of(talk.repo), text


def over(talk: Talk, rows: Sequence[str] = (f"turn 1  {ONE}",)) -> None:
    """The second turn ends in its turn."""
    words = "The changelog is written."
    talk.say(words)
    end(talk, words)
    found = told(talk)
    assert found["said"]["text"] == words and "texts" not in found and "actions" not in found
    log = talk.repo.ok("log", "--no-fold").out
    assert not [row for row in (*rows, f"turn 2  {TWO}") if row not in log] and not log_of(talk.repo), log


@some("late", [False, True], ids=["its hook is late", "its hook goes on late"])
@some("looked", [False, True], ids=["", "looked at between"])
def test_a_late_end_ends_the_turn_of_its_words(talk: Talk, late: bool, looked: bool) -> None:
    came = first(talk)
    if looked:
        talk.repo.git("config", "baton.auto", "edit")
    second(talk)
    if looked:
        talk.fire("edit")
    end(talk, DONE, came if late else None)
    assert steps(autos(talk.repo, "t"))[-1] == ("after an edit" if looked else f"turn ended: {ONE}")
    goes_on(talk)
    over(talk, rows=() if looked else (f"turn 1  {ONE}",))


@pytest.mark.deep
@some("late", [False, True], ids=["its hook is late", "its hook goes on late"])
def test_an_end_that_another_session_came_before_ends_its_own_turn(talk: Talk, late: bool) -> None:
    """Who starts meanwhile reads the records of both turns."""
    came = first(talk)
    second(talk)
    Client("claude", talk.repo.path, session=NEXT).fire("start")
    end(talk, DONE, came if late else None)
    goes_on(talk)
    over(talk)
    assert told(talk)["said"]["text"] == "The changelog is written."


def test_an_end_that_is_heard_twice_ends_one_turn(talk: Talk) -> None:
    """What could not be recorded in time is begun anew by another process, which hears the same end."""
    came = first(talk)
    end(talk, DONE, came)
    second(talk)
    end(talk, DONE, came)
    talk.fire("compact")
    goes_on(talk)
    over(talk)
    assert told(talk)["said"]["text"] == "The changelog is written."


@pytest.mark.deep
def test_a_turn_whose_end_was_recorded_as_its_time_was_over_is_not_recorded_again(talk: Talk) -> None:
    """The process that goes on finds the state that the session had before."""
    came = first(talk)
    (left,) = (path for path in (talk.repo.path / ".git/baton/sessions").iterdir() if "." not in path.name)
    before = left.read_bytes()
    end(talk, DONE)
    known = autos(talk.repo, "t")
    left.write_bytes(before)
    end(talk, DONE, came, f"turn ended: {ONE}")
    assert autos(talk.repo, "t") == known
    second(talk)
    over(talk)
    assert 'since "the old words": 2 turns' in talk.repo.ok("status").out


@pytest.mark.deep
def test_the_last_words_of_a_session_that_was_only_told_to_go_on_are_its_newest(talk: Talk) -> None:
    for words in ("The parser is half done.", "The parser has its tests."):
        ask(talk, "go on")
        talk.say(words)
        end(talk, words)
        assert told(talk)["said"]["text"] == words


@pytest.mark.deep
def test_ends_that_are_heard_in_another_order_end_their_own_turns(talk: Talk) -> None:
    came = first(talk)
    ask(talk, "and its tests")
    talk.edit("test_x.py", "new\n")
    talk.say("The tests are green.")
    end(talk, "The tests are green.")
    second(talk)
    end(talk, DONE, came)
    talk.fire("compact")
    goes_on(talk, "The tests are green.")
    assert told(talk)["said"]["text"] == "The tests are green." and told(talk)["latest"]["text"] == TWO


@pytest.mark.deep
def test_an_end_before_its_words_are_on_record_ends_its_turn_also_with_the_words_of_one_before(talk: Talk) -> None:
    first(talk, "Done.")
    end(talk, "Done.")
    second(talk)
    end(talk, "Done.")
    found = told(talk)
    assert found["said"]["text"] == "Done." and "texts" not in found and "actions" not in found
    talk.say("Done.")
    ask(talk, "and its date")
    talk.say("I look at the log.")
    talk.fire("compact")
    found = told(talk)
    assert [one["text"] for one in found["texts"]] == ["I look at the log."] and found["said"]["text"] == "Done."


@pytest.mark.deep
def test_the_same_words_without_anything_done_end_the_turn_too(talk: Talk) -> None:
    first(talk, "Done.")
    end(talk, "Done.")
    ask(talk, TWO)
    end(talk, "Done.")
    assert told(talk)["latest"]["text"] == TWO
    text = Client("claude", talk.repo.path, session=NEXT).fire("start")
    assert "in the midst of a turn" not in text and "turn that has not ended" not in text, text


@pytest.mark.deep
@some("late", [False, True], ids=["its hook is late", "its hook goes on late"])
def test_prompts_that_waited_are_of_the_turn_that_they_came_in_or_of_the_one_after(talk: Talk, late: bool) -> None:
    ask(talk, ONE)
    talk.edit("x.py", "two\n")
    talk.attach("and keep the flag")  # while the agent was at work
    talk.edit("z.py", "new\n")
    talk.say(DONE)
    came = time.time()
    second(talk)  # it waited, too, and is sent at once
    end(talk, DONE, came if late else None)
    goes_on(talk)
    observed = json.loads(talk.repo.ok("resume", "--json").out)["checkpoint"]["observed"]
    assert [one["text"] for one in observed["asked"]] == [ONE, "and keep the flag", TWO] and observed["turns"] == 2


@pytest.mark.deep
def test_what_ended_in_the_background_after_the_last_words_begins_no_turn_and_ends_none(talk: Talk) -> None:
    ask(talk, ONE)
    talk.edit("x.py", "two\n")
    note = "Command running in background with ID: b1"
    talk.call("Bash", {"command": "npm run watch", "run_in_background": True}, note)
    talk.say(DONE)
    talk.record(
        "user",
        "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n"
        '<summary>Background command "watch" completed (exit code 0)</summary>\n</task-notification>',
        origin={"kind": "task-notification"},
    )
    second(talk)
    end(talk, DONE)
    goes_on(talk)
    assert told(talk)["said"]["text"] == DONE and told(talk)["latest"]["text"] == TWO
    over(talk)


@pytest.mark.deep
@some("seconds", [-3600, 0], ids=["the clock goes back", "the clock stands"])
def test_an_end_is_that_of_its_words_whatever_the_clock_says(talk: Talk, seconds: int) -> None:
    ask(talk, ONE)
    talk.edit("x.py", "two\n")
    talk.say(DONE)
    now = datetime.now(UTC).timestamp() + seconds
    talk.clock = lambda: datetime.fromtimestamp(now, UTC)
    talk.now = talk.clock()
    ask(talk, TWO)
    talk.edit("y.py", "new\n")
    talk.say("Let me look at the tags.")
    end(talk, DONE)
    found = told(talk)
    assert found["said"]["text"] == DONE and [one["text"] for one in found["texts"]] == ["Let me look at the tags."]
    observed = json.loads(talk.repo.ok("resume", "--json").out)["checkpoint"]["observed"]
    assert observed["turns"] == 1 and steps(autos(talk.repo, "t"))[-1] == f"turn ended: {ONE}"
    talk.say("The changelog is written.")
    end(talk, "The changelog is written.")
    assert "texts" not in told(talk)


@pytest.mark.deep
@some("cut", [False, True], ids=["between turns", "in the midst of one"])
def test_what_another_session_was_asked_is_its_own_also_where_a_prompt_took_it_over(
    talk: Talk, tmp_path: Path, cut: bool
) -> None:
    """A checkpoint at a prompt tells what the one before it does, and is of the session that is asked."""
    if cut:
        ask(talk, ONE)
    other = Talk(talk.repo, tmp_path / "other.jsonl", session=NEXT)
    ask(other, TWO)
    other.edit("y.py", "new\n")
    other.say("The changelog is written.")
    end(other, "The changelog is written.")
    talk.repo.write("mine.txt", "mine\n")
    talk.fire("prompt", prompt="Explain the grammar of this language")
    talk.ask("Explain the grammar of this language")
    talk.say("It is LALR.")
    end(talk, "It is LALR.")
    assert steps(autos(talk.repo, "t"))[1] == (f"turn not ended: {ONE}" if cut else "before a prompt (auto)")
    asked = json.loads(talk.repo.ok("resume", "--json").out)["checkpoint"]["observed"]["asked"]
    assert [one["text"] for one in asked if one.get("earlier")] == [TWO], asked
