"""Signs folded into facts: which turn goes on, what it did, what failed and runs, and what of what was said is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gitbaton.agents import facts as folding
from gitbaton.agents.facts import End, Facts, document, fold, read
from gitbaton.agents.hooks.guard import deadline
from gitbaton.agents.records import approved, changed
from gitbaton.agents.signs import Answered, Asked, Called, CommandRun, Edited, Ended, Item, Looked, Named, Planned, Said
from gitbaton.agents.testing import mends
from gitbaton.agents.turns import alike, program, tidy
from gitbaton.base.codec import first_line, idle
from gitbaton.base.model import Usage
from tests.kit.tables import each

NOW = 1_000_000.0
KEY = "ghp_Zq7T2mK9xW4bV8nR1cY6Zq7T2mK9xW4bV8nR"


class Session:
    """Signs as they come, a second apart."""

    def __init__(self) -> None:
        self.at, self.facts, self.signs = 1000.0, Facts(), list[Any]()

    def tick(self) -> float:
        self.at += 1
        return self.at

    def ask(self, text: str, **more: str) -> None:
        self.signs.append(Asked(at=self.tick(), text=text, **more))

    def say(self, text: str) -> None:
        self.signs.append(Said(at=self.tick(), text=text))

    def answer(self, key: str, read: int | None, wrote: int = 0, model: str = "m1") -> None:
        usage = None if read is None else Usage(input=read, output=wrote, cached=0)
        self.signs.append(Answered(at=self.tick() if key else None, key=key, model=model, usage=usage))

    def used(self, since: float = 0.0, until: float = NOW, later: int = 0) -> tuple[str | None, tuple[int, int] | None]:
        """The model and the tokens in and out that are known of a stretch of time."""
        model, usage = folding.usage_of(self.look(), since, until, later)
        return model, (usage.input, usage.output) if usage else None

    def run(self, command: str, status: int | None = 0, output: str = "") -> None:
        key = f"k{self.tick()}"
        self.signs.append(CommandRun(at=self.at, key=key, command=command))
        self.signs.append(Ended(at=self.tick(), key=key, status=status, output=output))

    def edit(self, path: str, status: int | None = 0, output: str = "") -> None:
        key = f"k{self.tick()}"
        self.signs.append(Edited(at=self.at, key=key, path=path))
        self.signs.append(Ended(at=self.tick(), key=key, status=status, output=output))

    def look(self, end: End | None = None, redact: folding.Redact = str) -> Facts:
        """What is known after what came since the last look, read back from its file."""
        self.facts = fold(self.facts, self.signs, redact, (), NOW, end)
        self.signs = []
        found = read(json.loads(json.dumps(document(self.facts))))
        assert found == self.facts
        return self.facts

    def stop(self, words: str = "", **more: Any) -> Facts:
        return self.look(End(at=self.tick(), words=words, **more))


def texts(facts: Facts) -> list[str]:
    return [one.text for one in facts.texts]


def deeds(facts: Facts) -> list[str]:
    return [f"{one.count}x {one.text}: {one.status if one.ended else '-'}" for one in facts.deeds]


def words(facts: Facts) -> str:
    return facts.said.text if facts.said else ""


def test_of_the_turn_that_goes_on_what_was_said_and_done() -> None:
    s = Session()
    s.ask("Mend the parser")
    for number in range(8):
        s.say(f"Step {number}.\nAnd more of it.")
        s.edit(f"src/{number}.py")
    facts = s.look()
    assert texts(facts) == [f"Step {n}.\nAnd more of it." for n in range(2, 8)] and facts.open
    assert deeds(facts) == [f"1x src/{n}.py: 0" for n in range(8)]
    s.say("All of it is done.")
    facts = s.stop("All of it is done.")
    assert (texts(facts), facts.deeds, facts.open, words(facts)) == ([], (), False, "All of it is done.")


def worked(facts: Facts) -> str:
    return facts.worked.text if facts.worked else ""


def test_the_last_words_of_work_stay_when_a_question_is_answered() -> None:
    s = Session()
    s.ask("Mend the parser")
    s.edit("a.py")
    s.say("The parser is mended, the printer is next.")
    facts = s.stop()
    assert words(facts) == worked(facts) == "The parser is mended, the printer is next."
    s.ask("What is a token?")
    s.run("git log --oneline | head -3; cat a.py")
    s.look()
    s.say("A token is a word.")
    facts = s.stop()
    assert (words(facts), worked(facts)) == ("A token is a word.", "The parser is mended, the printer is next.")
    s.ask("/cost")  # ends when the next prompt comes: no hook was called
    s.say("Two cents.")
    s.ask("Run the migration")
    assert (words(s.look()), worked(s.facts)) == ("Two cents.", "The parser is mended, the printer is next.")
    s.run("./migrate --all")
    for number in range(9):
        s.run(f"cat {number}.txt")
        s.look()
    s.say("It has run.")
    assert worked(s.stop()) == words(s.facts) == "It has run."
    s.ask("go on")
    s.edit("b.py", 1)  # was refused
    s.say("I may not.")
    assert (words(s.stop()), worked(s.facts)) == ("I may not.", "It has run.")


def test_an_answer_is_not_taken_for_the_last_words_of_work_that_ended_without_any() -> None:
    s = Session()
    s.ask("What is a token?")
    s.say("A token is a word.")
    s.stop()
    s.ask("Mend the parser")
    s.edit("a.py")
    assert worked(s.stop("")) == ""
    s.ask("And a word?")
    s.say("A word is a token.")
    assert (words(s.stop()), worked(s.facts)) == ("A word is a token.", "")


def test_items_of_a_table_that_only_a_subagent_named_are_beside_the_plan() -> None:
    s = Session()

    def name(beside: bool, *keys: str) -> tuple[str, ...]:
        s.signs.append(Named(at=s.tick(), keys=keys, beside=beside))
        return s.look().beside

    assert name(False, "a", "b") == ()
    s.signs.append(Planned(at=s.tick(), items=(Item(key="a", text="A", state="open"),), whole=True))
    s.look()
    s.signs.append(Named(at=s.tick(), keys=("c",), beside=False))
    assert name(True, "a", "c", "x", "y") == ("x", "y"), "it may say how far one of the session's is"
    assert name(False, "y") == ("x",)
    assert len(name(True, *map(str, range(1000)))) == 100


def test_actions_of_the_like_are_one() -> None:
    s = Session()
    s.ask("Mend the parser")
    for number in range(3):
        s.run(f"gh api repos/a/b/pulls/{number} --jq .title")
    s.run("gh api repos/a/b/pulls/9", 1, "HTTP 404")
    s.edit("a.py")
    s.edit("a.py")
    s.run("cat a.py\ncat b.py")
    assert deeds(s.look()) == ["3x gh api ...: 0", "1x gh api repos/a/b/pulls/9: 1", "2x a.py: 0", "1x cat a.py; cat b.py: 0"]
    s.edit("a.py")
    s.signs.append(CommandRun(at=s.tick(), key="open", command="make all"))
    assert deeds(s.look())[-2:] == ["1x a.py: 0", "1x make all: -"]
    s.signs.append(Ended(at=s.tick(), key="open", status=2, output="x"))
    assert deeds(s.look())[-1] == "1x make all: 2", "a call that ends after the look in which it began"


@each(
    "command, told",
    [
        ("# check the thing\nset -euo pipefail\ncd /x && go test ./...", "go test ./..."),
        ("go test ./... 2>&1 | tail -5", "go test ./... 2>&1 | tail -5"),
        ("cd web && export CI=1 && npm test > log 2>&1 || npm run why", "npm test > log 2>&1 || npm run why"),
        ("set -e\n\n# one\nmake build\n# two\nmake test  # slow\n", "make build; make test"),
        ("cat > a.py <<'EOF'\nimport os\n# no\nEOF\npython a.py", "cat > a.py; python a.py"),
        ("python - <<EOF\nprint(1)\nEOF", "python -"),
        ("git add -A && git commit -m 'one\n\ntwo' && git push", "git add -A && git commit -m 'one two' && git push"),
        ("A=b\nTOKEN=$(cat x)\n./deploy --now", "./deploy --now"),
        ("A=b make x", "A=b make x"),
        ("source .venv/bin/activate; pytest \\\n  -q", "pytest -q"),
        ("(cd x && make) 2>/dev/null", "make"),
        ("echo '== one'; make one; echo '== two'\nmake two", "make one; make two"),
        ("echo y | ./install", "echo y | ./install"),
        ("echo a > b", "echo a > b"),
        ("echo done", "echo done"),
        ("! grep -q x a", "! grep -q x a"),
        ("sleep 5 & make", "sleep 5 & make"),
        ("make; ", "make"),
        ("cd x || exit 1\nmake", "cd x || exit 1; make"),
        ("cd /x", "cd /x"),
        ("cd /x && python -c 'import a; a.main()'", "python -c 'import a; a.main()'"),
        ("# only a comment", "# only a comment"),
        ("# all\nfor f in *.py; do\n  python $f\ndone", "for f in *.py; do"),
        ("cd /x && set -e; for f in a b; do x $f; done", "for f in a b; do x $f; done"),
        ("# broken\nmake 'x\ny", "make 'x"),
    ],
)
def test_a_command_is_told_by_what_it_does(command: str, told: str) -> None:
    s = Session()
    s.ask("one")
    s.run(command, 1, "no")
    facts = s.look()
    assert [one.text for one in facts.deeds] == [told]
    assert [first_line(one.command) for one in facts.commands] == [told]
    s.ask("and two")
    assert [one.text for one in s.look().deeds] == [told], "and so it stays"


def test_a_subagent_and_its_answer() -> None:
    s = Session()
    s.ask("Find it")
    s.signs += [Called(at=s.tick(), key="t", text="Explore: where is the lexer"), Ended(at=s.tick(), key="t", status=None)]
    s.signs += [
        Called(at=s.tick(), key="u", text="Plan it"),
        Ended(at=s.tick(), key="u", status=0, output="x. " * 200 + "In lex.py."),
    ]
    facts = s.look()
    assert [one.text for one in facts.deeds] == ["Explore: where is the lexer", "Plan it"]
    assert facts.deeds[-1].output.endswith("In lex.py.") and len(facts.deeds[-1].output) <= 300


def test_a_prompt_that_was_typed_while_the_agent_worked_ends_no_turn() -> None:
    s = Session()
    s.ask("Mend the parser")
    s.say("I begin.")
    s.run("make", 0)
    s.ask("and keep the flag")
    s.edit("a.py")
    facts = s.look()
    assert facts.latest is not None and facts.latest.text == "and keep the flag"
    assert texts(facts) == ["I begin."] and deeds(facts) == ["1x make: 0", "1x a.py: 0"] and words(facts) == ""
    s.say("Both are done.")
    s.ask("thanks")
    facts = s.look()
    assert words(facts) == "Both are done." and not facts.deeds, "words, and then a prompt: that turn had ended"


def test_an_end_that_is_heard_late_ends_its_own_turn_alone() -> None:
    for looked in (False, True):  # whether the turn after was looked at before
        s = Session()
        s.ask("one")
        s.say("One is done.")
        ended = s.tick()
        s.ask("now the second thing")
        s.run("make")
        s.say("Let me look.")
        if looked:
            s.look()
        facts = s.look(End(at=ended, words="One is done."))
        assert words(facts) == "One is done." and texts(facts) == ["Let me look."] and deeds(facts) == ["1x make: 0"]
        assert facts.open and facts.latest is not None and facts.latest.text == "now the second thing"
        s.say("Two is done.")
        assert words(s.stop("Two is done.")) == "Two is done."
        assert words(s.look(End(at=ended, words="One is done."))) == "Two is done.", "and later still"


def test_a_prompt_behind_the_turn_whose_end_is_heard_stays_open() -> None:
    s = Session()
    s.ask("one")
    s.say("Some of it.\n\nOne is done.")
    s.ask("two")
    facts = s.stop("One is done.")
    assert facts.open and words(facts).endswith("One is done.") and facts.latest is not None and facts.latest.text == "two"


def test_words_that_are_not_on_record_are_those_of_the_hook() -> None:
    s = Session()
    s.ask("one")
    s.run("make")
    assert words(s.stop("The make is green.")) == "The make is green."
    s.say("The make is green.")  # written down after the hook was called
    facts = s.look()
    assert not facts.open and texts(facts) == [] and words(facts) == "The make is green."
    s.ask("two")
    s.run("make")
    assert words(s.stop("The make is green.")) == "The make is green." and not s.facts.open, "the same words again"


def test_a_session_that_is_left_in_the_midst_of_a_turn_keeps_it() -> None:
    s = Session()
    s.ask("one")
    s.say("I begin.")
    s.run("make")
    assert texts(s.stop(sure=False)) == ["I begin."] and s.facts.deeds
    s.say("It is made.")
    assert words(s.stop(sure=False)) == "It is made." and not s.facts.deeds


@each("prompt", ["yes", "2", "do it", "ok, go on", "the second one", "continue please", "option b", "no", "1 and 3", "lgtm"])
def test_a_prompt_that_says_nothing_by_itself_is_told_with_what_it_answers(prompt: str) -> None:
    s = Session()
    s.ask("Port the parser")
    s.say("I looked at it.\n\n" + "Long. " * 300 + "\n\nShall I\n1. rewrite it, or\n2. mend it?")
    assert s.stop().asked[-1].text == "Port the parser"
    s.ask(prompt)
    facts = s.look()
    assert idle(prompt) and [one.text for one in facts.asked] == ["Port the parser"]
    assert facts.latest is not None and facts.latest.text == prompt
    assert facts.latest.about.endswith("Shall I\n1. rewrite it, or\n2. mend it?") and len(facts.latest.about) <= 600


@each("prompt", ["fix it", "add tests", "commit this", "no, keep the flag", "Postgres, please", "push", "the other branch"])
def test_a_short_prompt_that_says_something_is_a_request(prompt: str) -> None:
    assert not idle(prompt)


@each(
    "prompt",
    [
        "Looks good, go on with 2. And yes, do the exit status as you propose. " + "Two things I forgot. " * 20,
        "What you say about the minus: yes, refuse it in just those words. " + "No section over 120 words. " * 20,
        "your second suggestion is the better one; " + "and the table by size. " * 20,
    ],
)
def test_a_long_prompt_that_grants_something_is_told_with_the_words_that_proposed_it(prompt: str) -> None:
    s = Session()
    s.ask("Port the parser")
    s.say("It is ported. For the fifth I would end with an exit status of its own, 3.")
    s.stop()
    s.ask(prompt)
    s.ask("continue")
    facts = s.look()
    assert facts.asked[-1].text.startswith(prompt[:40]) and "an exit status of its own, 3." in facts.asked[-1].about
    s.say("I go on.")
    s.ask("The plan of the year says nothing of you; add a parser for it." + " It is long." * 30)
    assert s.look().asked[-1].about == "", "it grants nothing"


def test_an_agents_own_list_takes_the_place_of_the_points_of_the_plan_that_was_approved() -> None:
    s = Session()
    s.ask("Plan the cache")
    s.signs += approved(s.tick(), "# Cache plan\n1. add a class\n2. use it")
    assert [item.text for item in s.look().plan or ()] == ["add a class", "use it"] and s.facts.title == "Cache plan"
    moves: list[tuple[str, str, Any]] = [("1", "Write the class", "open"), ("2", "Test it", "open"), ("1", "", "doing")]
    for key, text, state in moves:
        s.signs += changed(s.tick(), key, text, state)
    found = s.look()
    assert [(item.text, item.state) for item in found.plan or ()] == [("Write the class", "doing"), ("Test it", "open")]
    assert found.title == "Cache plan", "it is the same work"


def test_answers_and_plans_are_kept_beside_prompts() -> None:
    s = Session()
    s.ask("Add storage")
    s.say("Which one?")
    s.ask("Postgres, and no PII", kind="answer", about="Which database?")
    s.ask("never delete data", kind="refused", about="rm -rf data")
    s.ask("# Plan\n" + "1. a step\n" * 600, kind="approved", about="Plan")
    facts = s.look()
    assert [(one.kind, one.text, one.about) for one in facts.asked] == [
        ("", "Add storage", ""),
        ("answer", "Postgres, and no PII", "Which database?"),
        ("refused", "never delete data", "rm -rf data"),
    ]
    assert facts.turns == 1 and facts.open and texts(facts) == ["Which one?"], "they end no turn"
    assert facts.approved is not None and 2900 < len(facts.approved.text) <= 3010
    assert facts.latest is not None and (facts.latest.kind, facts.latest.about) == ("approved", "Plan")


def test_a_plan_that_begins_a_session_is_its_first_request() -> None:
    s = Session()
    s.ask("# Plan\n1. a step", kind="approved", about="Plan")
    s.edit("a.py")
    facts = s.look()
    assert facts.turns == 1 and facts.latest is not None and facts.latest.about == "Plan" and len(facts.deeds) == 1


def test_the_first_the_longest_and_the_newest_prompt_are_whole() -> None:
    s = Session()
    sized = [f"{name} {'is long. ' * 150}end {name}" for name in ("first", "second", "longest", "fourth", "newest")]
    sized[2] *= 2
    for text in sized:
        s.ask(text)
        s.say("ok")
    kept = [one.text for one in s.look().asked]
    assert [len(one) > 1200 for one in kept] == [True, False, True, False, True]
    assert kept[1].startswith("second is long.") and kept[1].endswith("end second"), "their ends stay, too"


def test_of_two_prompts_of_a_minute_with_nearly_the_same_words_the_later_counts() -> None:
    s = Session()
    s.ask("Please mend the parser of the config file and its tests now")
    s.ask("Please mend the parser of the config file and its tests today")
    s.ask("Please write the changelog of the next release, too")
    assert [one.text[-10:] for one in s.look().asked] == ["ests today", "lease, too"]
    s.at += 100
    s.ask("Please write the changelog of the next release, too")
    assert len(s.look().asked) == 3, "it was said again"
    assert not alike("mend it", "mend the parser of the lexer")


def test_padding_images_and_pasted_logs_are_left_out() -> None:
    log = "\n".join(f"2026-01-02T10:00:{n:02} ERROR\trow {n}    of it" for n in range(40))
    assert tidy("<image name=[Image #1]>\n</image>\nthe <image> tag") == "the <image> tag" and tidy("</image>") == ""
    found = tidy(f"[Image #1] It fails:   \n\n\n\n{log}\n\nfix   it\n      deep\n")
    assert found.split("\n") == [
        *("It fails:", "", *(f"2026-01-02T10:00:{n:02} ERROR row {n} of it" for n in range(3))),
        *("[36 rows]", "2026-01-02T10:00:39 ERROR row 39 of it", "", "fix it", "      deep"),
    ]
    plan = "\n".join(f"- requirement {n}: keep it" for n in range(30))
    assert tidy(plan) == plan
    s = Session()
    s.ask("one")
    s.ask("[Image #2]")
    facts = s.look()
    assert facts.turns == 2 and facts.latest is not None and facts.latest.text == "one"


def failed(facts: Facts) -> list[tuple[str, str]]:
    return [(one.kind, one.ran.command) for one in facts.failures]


def test_a_failure_stands_until_a_success_mends_it() -> None:
    s = Session()
    s.ask("one")
    s.run("cd src && go test ./lex -run TestA 2>&1", 1, "--- FAIL: TestA (0.1s)\nFAIL\nFAIL\tlex\t0.1s")
    s.run("git commit -m one", 1, "pre-commit: no")
    s.run("grep -rn x .", 1)
    facts = s.look()
    assert failed(facts) == [("check", "go test ./lex -run TestA"), ("ran", "git commit -m one")]
    assert "FAIL: TestA" in facts.failures[0].ran.output
    s.run("go test ./parse", 0, "ok  \tparse\t0.1s")
    s.run("git commit -m 'another message'")
    assert failed(s.look()) == [("check", "go test ./lex -run TestA")]
    s.run("go test ./... | tail -3", 0, "ok  \tlex\t0.1s\nok  \tparse\t0.1s")
    facts = s.look()
    assert failed(facts) == [] and [one.result for one in facts.tests] == ["passed", "passed"]


def test_a_call_that_was_not_made_is_no_deed() -> None:
    s = Session()
    s.ask("one")
    s.edit("b.py")
    s.edit("a.py", None, "String to replace not found")
    s.edit("a.py", 1, "permission denied")
    for key, sign in (
        ("r", CommandRun(at=s.tick(), key="r", command="pytest -q")),
        ("c", Called(at=s.tick(), key="c", text="Explore: where is it")),
        ("e", Edited(at=s.tick(), key="e", path="c.py")),
    ):
        s.signs.append(sign)
        assert deeds(s.look())[-1].endswith(": -"), "it may yet be made"
        s.signs.append(Ended(at=s.tick(), key=key, status=None, output="The user rejected it", refused=True))
    facts = s.look()
    assert deeds(facts) == ["1x b.py: 0"] and [one.path for one in facts.edited] == ["b.py"]
    assert (facts.commands, facts.tests, facts.checks, facts.failures, facts.calls) == ((), (), (), (), ())
    s.signs.append(sign)
    s.edit("c.py")
    s.run("pytest -q", 0, "1 passed in 0.1s")
    facts = s.look()
    assert deeds(facts)[1:] == ["1x c.py: 0", "1x pytest -q: 0"] and [one.result for one in facts.tests] == ["passed"]


def test_a_failure_of_a_task_before_counts_where_it_is_a_check() -> None:
    s = Session()
    s.ask("Mend the parser")
    s.run("git show nothing", 128, "fatal: bad revision")
    s.run("./deploy", 1, "no such host")
    s.run("go build ./...", 1, "x.go:1:1: undefined: y")
    assert failed(s.look()) == [("ran", "./deploy"), ("check", "go build ./...")]
    s.say("The host is not there.")
    s.ask("yes, go on")
    assert len(failed(s.stop())) == 2, "it is the same task"
    s.ask("Try the other host")
    assert len(failed(s.look())) == 2, "and that may be of it"
    s.say("It is not there, too.")
    s.ask("Now the changelog")
    assert failed(s.look()) == [("check", "go build ./...")]
    for number in range(5):
        s.run(f"pytest tests/{number}", 0, "1 passed in 0.1s")
    assert failed(s.look()) == []


def test_how_each_of_the_last_checks_ended() -> None:
    s = Session()
    s.ask("one")
    for number in range(4):
        s.run(f"pytest tests/{number}", 0, "1 passed in 0.1s")
    s.run("npm run build", 2, "error TS2304: x")
    s.run("pytest -q | tail -1", 0, "1 failed, 2 passed in 0.1s")
    s.run("ruff check . && pytest tests/0", 1, "Found 1 error.")
    facts = s.look()
    assert len(facts.checks) == 5
    ended = {one.command: one.status for one in facts.checks}
    assert ended["npm run build"] == 2 and ended["pytest -q"] == 1 and ended["ruff check ."] == 1


def test_what_the_output_says_of_a_failure_is_kept() -> None:
    s = Session()
    s.ask("one")
    s.run("./deploy", 1, "row\nerror: no such host\n" + "\n".join(f"step {n}" for n in range(30)))
    s.run("./build", 1, "\n".join(f"row {n}" for n in range(30)))
    first, second = (one.ran.output for one in s.look().failures)
    assert first == "error: no such host\nstep 29" and second.startswith("row 18") and second.endswith("row 29")


def test_what_runs_in_the_background_until_its_end_or_a_list_without_it() -> None:
    s = Session()
    s.ask("one")
    for key, command in (("a", "npm start"), ("b", "make watch"), ("c", f"TOKEN={KEY} serve")):
        s.signs += [CommandRun(at=s.tick(), key=key, command=command), Ended(at=s.at, key=key, status=None, running=True)]

    def hide(text: str) -> str:
        return text.replace(KEY, "[redacted]")

    facts = s.look(redact=hide)
    assert [one.text for one in facts.calls if one.running] == ["npm start", "make watch", "TOKEN=[redacted] serve"]
    s.signs.append(Ended(at=s.tick(), key="a", status=1, output="port in use"))
    assert [one.text for one in s.look().calls] == ["make watch", "TOKEN=[redacted] serve"]
    listed = (f"TOKEN={KEY} serve", "an agent: look for it")
    facts = s.look(End(at=s.tick(), running=listed), redact=hide)
    assert [one.text for one in facts.calls if one.running] == ["TOKEN=[redacted] serve", "an agent: look for it"]
    assert s.stop(running=()).calls == ()


def test_files_that_were_read_and_a_plan_with_a_title() -> None:
    s = Session()
    s.signs += [Looked(at=s.tick(), path=f"/r/{n}.py") for n in (1, 2, 3, 1)]
    s.signs.append(Planned(at=s.tick(), items=(Item(key="1", text="a", state="open"),), whole=True, title="The cache"))
    s.signs.append(Planned(at=s.tick(), items=(Item(key="1", text="", state="done"),), whole=False))
    facts = s.look()
    assert facts.read == ("/r/1.py", "/r/3.py", "/r/2.py")
    assert facts.title == "The cache" and facts.plan is not None and facts.plan[0].state == "done"


def test_no_secret_is_kept_also_where_a_cut_would_halve_it() -> None:
    from gitbaton.base.secrets import Redactor

    s = Session()
    for size in (230, 780, 795, 1180, 1990):
        s.ask(f"{'x' * size} {KEY} " + "y " * 1500)
        s.say(f"{'x' * size} {KEY} " + "y " * 1500 + KEY)
        s.run(f"echo {'x' * (size % 150)} {KEY}", 1, "x" * 470 + KEY)
        s.run(f"cat {KEY}.txt", 0, f"{KEY}.json src/{KEY}.py")
        s.signs += [Called(at=s.tick(), key=f"t{size}", text=f"{'x' * 140} {KEY}")]
        s.signs += [Ended(at=s.tick(), key=f"t{size}", status=0, output=KEY + "z" * 290)]
    written = json.dumps(document(s.look(redact=Redactor().text)))
    assert not [n for n in range(len(KEY) - 12) if KEY[n : n + 12] in written]


def test_a_file_of_before_is_read_anew() -> None:
    known = document(Session().look())
    assert read({**known, "asked": [[1, "x", 1]]}) is None, "a prompt had three fields"
    others: list[Any] = [{**known, "turns": "1"}, {**known, "edits": None}, {**known, "calls": [["a"]]}, {}, None, []]
    assert [read(wrong) for wrong in others] == [None] * len(others)


TIMES = st.none() | st.floats(0, 2e6)
TEXTS = st.sampled_from(
    ["", " ", "yes", "Mend it", "- a\n- b\n- c", "x" * 9000, "a?\nb", "\ud800", "pytest -q", "cd x && (make"]
)
KEYS = st.sampled_from(["a", "b", "c"])
SIGNS = st.one_of(
    st.builds(
        Asked, at=TIMES, text=TEXTS, kind=st.sampled_from(["", "answer", "refused", "approved", "rejected"]), about=TEXTS
    ),
    st.builds(Said, at=TIMES, text=TEXTS),
    st.builds(CommandRun, at=TIMES, key=KEYS, command=TEXTS),
    st.builds(Edited, at=TIMES, key=KEYS, path=TEXTS),
    st.builds(Called, at=TIMES, key=KEYS, text=TEXTS),
    st.builds(Looked, at=TIMES, path=TEXTS),
    st.builds(
        Ended,
        at=TIMES,
        key=KEYS,
        status=st.none() | st.integers(0, 2),
        output=TEXTS,
        running=st.booleans(),
        refused=st.booleans(),
    ),
)
ENDS = st.none() | st.builds(End, at=st.floats(0, 2e6), words=TEXTS, sure=st.booleans(), running=st.none() | st.just(("x",)))


@given(st.lists(st.tuples(st.lists(SIGNS, max_size=8), ENDS), max_size=4))
def test_whatever_is_signed_is_kept_within_bounds_and_read_back(looks: Sequence[tuple[list[Any], End | None]]) -> None:
    facts = Facts()
    for signs, end in looks:
        facts = fold(facts, signs, str, (), NOW, end)
        assert read(json.loads(json.dumps(document(facts)))) == facts
        assert len(facts.asked) <= 7 and len(facts.texts) <= 6 and len(facts.deeds) <= 8 and len(facts.failures) <= 5
        assert all(len(one.text) <= 2010 and len(one.about) <= 610 for one in facts.asked)


@each(
    "command, expected",
    [
        ("npm exec vitest run", "npm exec vitest"),
        ("docker exec web make test", "docker exec web"),
        ("runtime x", "runtime x"),
        ("CI=1 sudo nice -n 5 make x", "make x"),
        ("gh pr create --title 'do it'", "gh pr"),
        ("cat <<'E' >x\nmake\nE\nmake y  2>&1", "make y"),
    ],
)
def test_the_program_of_a_command_is_named_by_its_own_words(command: str, expected: str) -> None:
    assert program(command) == expected


@each("long", ["a" * 250_000, "_=" * 60_000, "a" + " " * 120_000 + "b", "cat <<E" + "\n" * 120_000 + "x", "'\"" * 60_000])
def test_a_long_command_takes_no_time(long: str) -> None:
    with deadline(5):
        assert not mends(f"echo {long} | make x", f"make {long}")


def test_the_tokens_of_a_turn_are_its_own() -> None:
    one = Session()
    one.ask("first")
    one.answer("a", 10, 1)
    one.answer("a", 10, 5)  # told again as it grows, here and after a look
    assert one.used() == ("m1", (10, 5))
    one.answer("a", 10, 8)
    one.run("ls")
    one.answer("b", 20, 2, model="m2")
    one.answer("a", 10, 3)  # and late, as it was
    assert one.used() == ("m1", (30, 10))
    began = one.tick()
    one.ask("second")
    assert one.used(began) == (None, None)
    one.answer("c", 7, 1, model="")
    assert one.used(began) == ("m1", (7, 1)) and one.used(0.0, began) == ("m1", (30, 10))
    one.ask("said while it is at work")
    one.answer("d", 5, 1)
    assert one.used(began) == ("m1", (12, 2)) and one.used(began, later=1) == ("m1", (7, 1))
    assert one.used() == ("m1", (42, 12))


def test_tokens_that_are_not_all_known_are_none() -> None:
    one = Session()
    one.ask("first")
    one.answer("a", None)
    one.answer("b", 10, 1)
    assert one.used() == ("m1", None)
    one.answer("a", 5, 5)  # the client writes it down again when it knows
    assert one.used() == ("m1", (15, 6))
    one.answer("", None)
    one.answer("c", 1, 1)
    assert one.used() == ("m1", None), "what was not read is not known"
    began = one.tick()
    one.ask("second")
    one.answer("d", 3, 3)
    assert one.used(began) == ("m1", (3, 3))
    for number in range(30):
        one.ask(f"go through {number}")
        one.answer(f"k{number}", 1, 1)
    assert len(one.look().used) <= 10 and len(one.facts.answers) <= 20
