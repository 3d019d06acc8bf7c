"""Observed facts of a session: its signs (one value a prompt, plan, command, edit or message of a client's records) are merged
into them, the same way for all clients. No I/O.

All texts are redacted whole and cut afterwards: half a key is not known as one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from gitbaton.agents.payload import valid
from gitbaton.agents.signs import (
    POINT,
    STATES,
    Answered,
    Asked,
    Called,
    CommandRun,
    Edited,
    Ended,
    Item,
    Looked,
    Named,
    Planned,
    Said,
    Searched,
    Sign,
)
from gitbaton.agents.turns import MINUTE, Deed, actions, alike, answers, one_line, rows, tidy
from gitbaton.base.codec import Json, cut, ending, first_line, idle, middle
from gitbaton.base.model import NO_TOKENS, Usage
from gitbaton.base.values import TYPE_CHECKING, replace, value

if TYPE_CHECKING:
    from typing import Any, Literal, Protocol, TypeVar

    from gitbaton.agents.testing import CheckVerdict
    from gitbaton.agents.turns import Kind

    Failing = Literal["check", "ran"]

    class Sized(Protocol):
        """A text, long or short, of a moment."""

        @property
        def at(self) -> float:
            """Seconds since 1970."""

        @property
        def size(self) -> int:
            """Characters."""

    Text = TypeVar("Text", bound=Sized)

ITEMS, ITEM = 50, 200
TESTS, CHECKS = 5, 5
EDITED = 50
PROMPTS = 5
"""The newest prompts that are kept, besides the first and the longest."""
WHOLE, OTHERS = (800, 1200), (300, 200)
"""Characters of a prompt that stay where it is long, of its beginning and of its end: of the first, the longest and the newest,
and of the others."""
APPROVED, ABOUT = (1500, 1500), 600
LISTED, SAID, SAYING = (500, 1000), (600, 1400), (500, 1000)
TEXTS, LINE = 6, 160
DEEDS, DEED, ANSWER = 8, 400, 300
READ, NAMED, RUNNING = 20, 10, 10
COMMANDS, COMMAND, OUTPUT = 10, 300, 500
_EDITS = 10
_CALLS = 50  # that have begun and not ended
_ENDED = 200
_BESIDE = 100
_READ = 40  # files, of which some are not in the work tree
_FOUND, _OF_ONE, _LISTING, _TEXTS_NAMING = (
    120,
    20,
    4 << 10,
    20,
)  # names, those of a text, of how many characters, how many texts
_FILE = r"(?<![\w./@+~-])(?:[\w./@+~-]*/)?[\w@+~-][\w.@+~-]*\.[A-Za-z][A-Za-z0-9]{0,5}(?![\w./-])"
_TOGETHER = 1.0  # seconds between the beginnings of calls that a client makes at once
_RAW = 120  # actions that are looked through for the like
_FAILED = 5  # failures that nothing has mended
_UNHEARD = 5
_PROMPTS_COUNTED, _ANSWERS = 10, 20  # of which the tokens are kept
_LOOKED, _TAIL = 64 << 10, 8 << 10  # characters of a text, and of an output's end, that are redacted before they are cut
_POINT = r"[ \t]{0,12}(?:[-*+\u2022]|\(?[0-9]{1,3}[.)]|[\u2610\u2611\u2612\u2713\u2714\u2717])[ \t]+\S"
_POINTS = 3
_ROWS = 12  # of an output
_WRONG = r"(?i)(?:\b|_)(?:error|fail(?:ed|ure|ing)?|panic|fatal|exception|undefined|denied)\b|\AE  |:\d+:\d+: "
_FEW = 200  # characters of a text by which it is known again
Redact = Callable[[str], str]


@value
class KeptPrompt:
    """A prompt, its beginning and its end where it was long, and when, in seconds since 1970; ``size``: how long it was.
    ``kind`` and ``about`` as in ``gitbaton.base.model.Prompt``."""

    at: float
    text: str
    size: int
    kind: str = ""
    about: str = ""


@value
class Command:
    """A command that has ended. ``status`` is None where it is unknown; ``output``: the last lines of one that failed."""

    command: str
    status: int | None
    started: float | None
    ended: float
    output: str


@value
class Failure:
    """A failure that no later success has mended. ``kind``: what failed: a test, a build or a linter (``check``), or another
    command (``ran``)."""

    kind: Failing
    ran: Command


@value
class Touched:
    """A file that the client's own tools edited, as the client names it, and when."""

    path: str
    at: float


@value
class OpenCall:
    """A call that has begun: a command, an edit of a path, or a task; ``running``: in the background; ``cwd``: the folder of a
    command, empty where it is unknown."""

    key: str
    kind: Kind
    text: str
    at: float
    running: bool = False
    cwd: str = ""


@value
class Test:
    """The newest run of a test command, see ``gitbaton.agents.testing``; ``changed``: the files that the client's own tools
    edited since it began, as the client names them; ``empty``: no test ran; ``lacks``: why it is no proof that all tests
    passed, empty where it is one; ``place``: the folder that it ran in, empty where that is unknown."""

    command: str
    result: str
    passed: int | None
    failed: int | None
    skipped: int | None
    names: tuple[str, ...]
    started: float | None
    ended: float
    changed: tuple[str, ...] = ()
    empty: bool = False
    lacks: str = ""
    place: str = ""


@value
class Unheard:
    """The last words of a turn that ended with no hook called yet, when they were said, how many prompts there were by then,
    and the first line of the newest of them."""

    at: float
    text: str
    turns: int
    prompt: str


@value
class AnswerUsage:
    """The tokens of a request, by its key; None where they were not told."""

    key: str
    usage: Usage | None


@value
class PromptUsage:
    """The tokens of the requests that followed the prompt of a number, and the model that answered last, ``at`` when;
    ``unknown``: how many requests there are besides, at least, of which they were not told."""

    prompt: int
    at: float
    model: str
    usage: Usage = NO_TOKENS
    unknown: int = 0


@value
class Facts:
    """The facts of a session: its plan (None where none was ever written), what that is called and when it changed, the keys
    of items that are not its own but a subagent's (``beside``), newest last; the newest test runs, newest first; edited files,
    newest first; files that were read, newest first; prompts that say something, oldest first, the newest of all (``latest``),
    and how many there were (``turns``); the plan that was approved last; the newest text with a list; commands, newest last;
    ``checks``, the newest run of each of the last test, build and lint commands, and ``failures``, both oldest first; the last
    words of the last turn that ended, and of the last that acted (``worked``); ``unheard``, the turns that have ended by what
    followed them, oldest first; ``heard``, how many prompts there were up to the end that a hook told of last, ``heard_at``,
    when that came, and ``heard_of``, the first line of the newest of them.

    Of the turn that goes on: ``open``, whether one does; what the agent said in it (``texts``) and did (``deeds``), oldest
    first, whether it said something last (``spoke``), and whether it did more than look (``acted``); ``since``: when it, with
    those that only go on with it, was begun, and the one before: failures of others count no more, but for those of
    ``checks``. ``calls`` have not ended. ``begun`` and ``until``: the times of the first record and of the newest; ``ended``:
    the keys of commands that have ended; ``edits``: when the newest ten edits were made; ``used``: the tokens by prompts,
    oldest first, and ``answers``, those of the last requests.
    """

    plan: tuple[Item, ...] | None = None
    planned: float = 0.0
    title: str = ""
    more: int = 0
    beside: tuple[str, ...] = ()
    tests: tuple[Test, ...] = ()
    edited: tuple[Touched, ...] = ()
    read: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    asked: tuple[KeptPrompt, ...] = ()
    latest: KeptPrompt | None = None
    turns: int = 0
    approved: KeptPrompt | None = None
    listed: KeptPrompt | None = None
    commands: tuple[Command, ...] = ()
    checks: tuple[Command, ...] = ()
    failures: tuple[Failure, ...] = ()
    said: KeptPrompt | None = None
    worked: KeptPrompt | None = None
    unheard: tuple[Unheard, ...] = ()
    heard: int = 0
    heard_at: float = 0.0
    heard_of: str = ""
    open: bool = False
    texts: tuple[KeptPrompt, ...] = ()
    deeds: tuple[Deed, ...] = ()
    spoke: bool = False
    acted: bool = False
    since: tuple[float, ...] = ()
    calls: tuple[OpenCall, ...] = ()
    begun: float = 0.0
    until: float = 0.0
    ended: tuple[str, ...] = ()
    edits: tuple[float, ...] = ()
    used: tuple[PromptUsage, ...] = ()
    answers: tuple[AnswerUsage, ...] = ()


@value
class End:
    """The end of a turn, as a hook has heard it at a moment. ``words``: the last ones, where the client says them; ``sure``: it
    was the turn's end, and not that of a session, which may come in the midst of one; ``running``: what goes on in the
    background, where the client lists it; ``late``: there may be later records, and only their times tell."""

    at: float
    words: str = ""
    sure: bool = True
    running: tuple[str, ...] | None = None
    late: bool = True


def fold(facts: Facts, signs: Iterable[Sign], redact: Redact, own: Sequence[str], now: float, end: End | None = None) -> Facts:
    """Merge some more signs, in their order, into what is known. ``own``: the user's own test commands; ``now`` stands for the
    time of what has none. ``end``: that of the turn with its words, else of the one of its moment; what follows there belongs
    to another turn. Raises ScanError where a text cannot be redacted."""
    made, signs = _Fold(facts, redact, own, now), list(signs)
    place = made.place(end, signs) if end is not None else None
    for number, sign in enumerate(signs):
        if end is not None and number == place:
            made.close(end)
        made.take(sign)
    if end is not None and place == len(signs):
        made.close(end)
    return made.facts()


@value
class _Heard:
    """A text that is not redacted yet. ``before``: the agent's words that a prompt answers."""

    at: float
    text: str
    size: int
    kind: str = ""
    about: str = ""
    before: KeptPrompt | _Heard | None = None


class _Fold:
    """The facts while signs are taken in."""

    def __init__(self, facts: Facts, redact: Redact, own: Sequence[str], now: float) -> None:
        self.before, self.redact, self.own, self.now = facts, redact, own, now
        self.begun, self.until = facts.begun, facts.until
        self.ended, self.edits = dict.fromkeys(facts.ended), list(facts.edits)
        self.plan = None if facts.plan is None else {item.key: item for item in facts.plan}
        self.planned, self.title = facts.planned, facts.title
        self.beside, self.named_here = dict.fromkeys(facts.beside), set(self.plan or ())
        self.tests = {test.command: test for test in reversed(facts.tests)}
        self.checks = {check.command: check for check in facts.checks}
        self.failures = {(failure.kind, failure.ran.command): failure for failure in facts.failures}
        self.runs: dict[str, tuple[Ended, OpenCall, float]] = {}  # the newest of each command line
        self.made: list[str] = []  # edits
        self.edited = {touched.path: touched.at for touched in reversed(facts.edited)}
        self.read = dict.fromkeys(reversed(facts.read))
        self.named: list[str] = []  # texts that name files
        self.asked: list[KeptPrompt | _Heard] = list(facts.asked)
        self.latest: KeptPrompt | _Heard | None = facts.latest
        self.turns = facts.turns
        self.approved: KeptPrompt | _Heard | None = facts.approved
        self.listed: KeptPrompt | _Heard | None = facts.listed
        self.said: KeptPrompt | _Heard | None = facts.said
        self.worked: KeptPrompt | _Heard | None = facts.worked
        self.unheard: list[tuple[Unheard | KeptPrompt | _Heard, int, KeptPrompt | _Heard | str]] = [
            (one, one.turns, one.prompt) for one in facts.unheard
        ]
        self.heard, self.heard_at, self.heard_of, self.known = facts.heard, facts.heard_at, facts.heard_of, False
        self.open, self.spoke, self.acted, self.since = facts.open, facts.spoke, facts.acted, facts.since
        self.texts: list[KeptPrompt | _Heard] = list(facts.texts)
        self.deeds: dict[str, Deed | OpenCall] = {deed.key: deed for deed in facts.deeds}
        self.commands: list[tuple[Command, str] | Command] = list(facts.commands)
        self.calls, self.fresh = {call.key: call for call in facts.calls}, set[str]()
        self.used, self.answers = list(facts.used), {one.key: one for one in facts.answers}

    def take(self, sign: Sign) -> None:
        """Take one sign in."""
        at = self._time(sign.at)
        if isinstance(sign, Answered):
            self._count(sign, at if sign.key else 0.0)
            return
        self.until = max(self.until, 0.0 if sign.at is None else at)
        self.begun = self.begun or at
        if isinstance(sign, CommandRun):
            self._begin("ran", sign.key, sign.command, at, sign.cwd or "")
        elif isinstance(sign, Edited):
            self._begin("edited", sign.key, sign.path, at)
        elif isinstance(sign, Called):
            self._begin("called", sign.key, sign.text, at)
        elif isinstance(sign, Ended):
            self._end(sign, at)
        elif isinstance(sign, Planned):
            self._plan(sign, at)
        elif isinstance(sign, Named):
            self._name(sign)
        elif isinstance(sign, Asked):
            self._ask(sign, at)
        elif isinstance(sign, Looked):
            self.read.pop(sign.path, None)
            self.read[sign.path] = None
        elif isinstance(sign, Searched):
            self.named.append(sign.text)
        elif sign.text.strip():
            self._say(sign, at)

    def _time(self, at: float | None) -> float:
        """A moment of the record, as it is kept; clocks jump, and nothing has happened after now."""
        return round(self.now if at is None else min(at, self.now), 3)

    def _count(self, sign: Answered, at: float) -> None:
        """Add the tokens of a request to those of the newest prompt; of one that is told again what it has grown by."""
        last = self.used[-1] if self.used else None
        if last is None or last.prompt != self.turns:
            last = PromptUsage(prompt=self.turns, at=at, model=last.model if last is not None else "")
            self.used.append(last)
        old = self.answers.pop(sign.key, None) if sign.key else None
        was = old.usage if old is not None else None
        now = was if sign.usage is None else sign.usage.most(was or NO_TOKENS)
        if sign.key:
            self.answers[sign.key] = AnswerUsage(key=valid(sign.key), usage=now)
        self.used[-1] = replace(
            last,
            at=max(last.at, at),
            model=sign.model or last.model,
            usage=last.usage + (now or NO_TOKENS) - (was or NO_TOKENS),
            unknown=last.unknown + (now is None) - (old is not None and was is None),
        )

    def _begin(self, kind: Kind, key: str, text: str, at: float, cwd: str = "") -> None:
        again = kind == "edited" and self.edited.get(text) == at  # some clients write a record twice
        if key in self.calls or key in self.ended or again:
            return
        self.calls[key] = call = OpenCall(key=key, kind=kind, text=valid(text[:_LOOKED]), at=at, cwd=cwd)
        self.fresh.add(key)
        name = _name(call)
        self.deeds.pop(name, None)
        self.deeds[name] = call
        self.open, self.spoke = True, False

    def _end(self, sign: Ended, at: float) -> None:
        call = self.calls.get(sign.key)
        if call is None:
            return
        if sign.running or (call.kind == "ran" and sign.status is None and not sign.output):
            self.calls[sign.key] = replace(call, running=call.running or sign.running)
            return
        del self.calls[sign.key]
        status, name = sign.status, _name(call)
        nothing = sign.refused or (call.kind == "edited" and status != 0)  # was done
        if call.kind != "edited" or nothing:
            self.ended[valid(sign.key)] = None
        if nothing:
            self.deeds.pop(name, None)
            return
        self.spoke = self.spoke and call.running  # what went on in the background ends by itself
        if call.kind == "edited":
            self.edits.append(at)
            self.edited.pop(call.text, None)
            self.edited[call.text] = at
            self.made.append(call.text)
            self.acted = True
        else:
            self.named += [call.text, sign.output]
        if call.kind == "ran":
            ran = Command(command=call.text, status=status, started=call.at, ended=at, output="")
            self.commands.append((ran, sign.output))
            self.runs.pop(call.text, None)
            self.runs[call.text] = (sign, call, at)
            self.acted = self.acted or bool(actions(call.text))
        if name in self.deeds:
            output = valid(sign.output[-_TAIL:]) if call.kind == "called" else ""
            text = self.deeds[name].text
            self.deeds[name] = Deed(
                key=valid(name), kind=call.kind, text=text, at=call.at, ended=True, status=status, output=output
            )

    def _judge(self, text: str, run: tuple[Ended, OpenCall, float]) -> None:
        """Take in how the newest run of a command line ended: its tests, builds and linters, and what fails or is mended."""
        from gitbaton.agents.testing import mends, outcomes  # dear to import, and often no command is a test

        sign, call, at = run
        began = call.at
        found = outcomes(text, sign.status, sign.output, self.own)
        for one in found:
            name = self._cut(one.command, ITEM)
            status = {"passed": 0, "failed": sign.status or 1}.get(one.result)
            output = self._last(sign.output) if status else ""
            ran = Command(command=name, status=status, started=began, ended=at, output=output)
            self.checks.pop(name, None)
            self.checks[name] = ran
            if one.kind == "test":
                self._test(one, name, call, at)
            if one.result == "passed":
                self._mend("check", partial(mends, name))
                for other in [key for key, test in self.tests.items() if test.result == "failed" and mends(name, key)]:
                    del self.tests[other]
            elif one.result == "failed":
                self._fail("check", ran)
        if sign.status == 0:
            self._mend("ran", partial(mends, text))
        elif sign.status and actions(text) and not any(one.result == "failed" for one in found):
            name = self._line(text)
            self._fail(
                "ran", Command(command=name, status=sign.status, started=began, ended=at, output=self._last(sign.output))
            )

    def _test(self, found: CheckVerdict, name: str, call: OpenCall, at: float) -> None:
        old = self.tests.pop(name, None)
        if found.result == "unknown" and old is not None:
            self.tests[name] = old  # what is known of it says more
            return
        lacks = found.lacks or (self._beside(call, at) if found.result == "passed" else "")
        self.tests[name] = Test(
            command=name,
            result=found.result,
            passed=found.passed,
            failed=found.failed,
            skipped=found.skipped,
            names=tuple(self._cut(one, ITEM) for one in found.names),
            empty=found.empty,
            lacks=self._cut(lacks, ITEM) if lacks else "",
            place=_place(call.cwd, found.place),
            started=call.at,
            ended=at,
            changed=tuple(path for path, when in self.edited.items() if when > call.at)[-EDITED:],
        )

    def _beside(self, call: OpenCall, at: float) -> str:
        """Say what may have changed files while a test ran: a command that began with it or later."""
        from gitbaton.agents.testscope import doubt_beside

        ran = [one[0] if isinstance(one, tuple) else one for one in self.commands]
        others = [(one.command, one.started or 0.0) for one in ran if one.ended > call.at and one.command != call.text]
        others += [(one.text, one.at) for one in self.calls.values() if one.kind == "ran"]
        found = (doubt_beside(text) for text, since in others if call.at - _TOGETHER < since < at)
        return next(filter(None, found), "")

    def _fail(self, kind: Failing, ran: Command) -> None:
        self.failures.pop((kind, ran.command), None)
        self.failures[kind, ran.command] = Failure(kind=kind, ran=ran)

    def _mend(self, kind: Failing, mended: Callable[[str], bool]) -> None:
        for one in [one for one in self.failures if one[0] == kind and mended(one[1])]:
            del self.failures[one]

    def _plan(self, sign: Planned, at: float) -> None:
        items = {} if sign.whole or self.plan is None else self.plan
        if all(key.startswith(POINT) for key in items):
            items = {}  # the agent's own list takes the place of the points of a text, and has its heading
        for item in sign.items:
            old = items.get(item.key)
            text = item.text or (old.text if old else "")
            state = item.state or (old.state if old else "open")
            if text.strip():
                same = old is not None and old.text == text
                items[item.key] = Item(key=valid(item.key[:ITEM]), text=text if same else self._cut(text, ITEM), state=state)
        self.plan, self.planned = items, at
        if sign.whole or sign.title:
            self.title = self._cut(sign.title, ITEM)

    def _name(self, sign: Named) -> None:
        """An item that both name is the session's."""
        if sign.beside:
            self.beside |= dict.fromkeys(key for key in sign.keys if key not in self.named_here)
            return
        self.named_here.update(sign.keys)
        self.beside = {key: None for key in self.beside if key not in self.named_here}

    def _ask(self, sign: Asked, at: float) -> None:
        if not sign.text.strip():
            return
        text = sign.text.strip() if sign.kind == "approved" else tidy(sign.text)
        known = [*self.asked, *([self.latest] if self.latest else []), *([self.approved] if self.approved else [])]
        if any((old.at, old.size, old.kind) == (at, len(text), sign.kind) for old in known):
            return  # told twice: a history that was written again
        words = self.texts[-1] if self.texts else self.said
        newest = self.latest is None or at >= self.latest.at
        prompts = not sign.kind or (sign.kind == "approved" and not self.open)  # that plan began a session of its own
        self.turns += prompts
        if newest and prompts:
            self._begin_turn(0.0 if idle(text) else at)
        heard = _Heard(at=at, text=text, size=len(text), kind=sign.kind, about=sign.about, before=words)
        self.latest = heard if newest and text else self.latest
        if sign.kind == "approved":
            self.approved = heard
        elif text and (sign.kind or not idle(text)):
            last = self.asked[-1] if self.asked else None
            nearly = last is not None and not (sign.kind or last.kind) and abs(at - last.at) <= MINUTE
            if last is not None and nearly and alike(last.text, middle(text, *WHOLE)):
                self.asked.pop()
            self.asked.append(heard)

    def _begin_turn(self, since: float) -> None:
        """Take a prompt as the beginning of a turn, where the agent said something last; else it came while the agent was at
        work, and the turn goes on. ``since``: when what is wanted became something else, 0 where the prompt does not say."""
        if self.spoke or not (self.texts or self.deeds):
            if self.texts:
                self.unheard.append((self.texts[-1], self.turns - 1, self._prompt()))
            self._ended(self.texts[-1] if self.texts else None)
            self.since = (*self.since, since)[-2:] if since else self.since
        self.open, self.spoke = True, False

    def _say(self, sign: Said, at: float) -> None:
        heard = _Heard(at=at, text=sign.text.strip(), size=len(sign.text))
        if not self.open and self.said is not None and self._ends(self.said, heard.text):
            return  # the last words of a turn whose end was heard before they were on record
        if any(old.at == at and old.size == heard.size for old in self.texts):
            return
        if self.texts and self.texts[-1].at == at and heard.text.startswith(self.texts[-1].text):
            self.texts.pop()  # a message that grows
        self.texts = [*self.texts, heard][-TEXTS:]
        self.open = self.spoke = True
        rows = sign.text.splitlines()
        if len(rows) >= _POINTS and sum(1 for row in rows if re.match(_POINT, row)) >= _POINTS:
            self.listed = heard

    def place(self, end: End, signs: Sequence[Sign]) -> int | None:
        """After how many of the signs to come a turn ended: at the newest text with its words that a prompt follows, or
        nothing that was done; where none has them, before what is later. None where its words are those of a turn before,
        which has ended by what followed it, and where it is heard once more."""
        if round(end.at, 3) == self.heard_at:
            return None
        self.heard_at = round(end.at, 3)
        words = valid(end.words.strip())
        found = [one for one in self._last_words(signs) if self._ends(one[0], words)] if words else []
        early = [one for one in found if one[0].at <= end.at]
        self.known = bool(found)
        if found:
            return (early[-1] if early else found[0])[1]
        before = [one for one in self.unheard if words and self._ends(one[0], words)]
        if before:
            self.unheard.remove(before[-1])
            self._hear(*before[-1][1:])
            return None
        later = (number for number, sign in enumerate(signs) if end.late and sign.at is not None and sign.at > end.at)
        return next(later, len(signs))

    def _last_words(self, signs: Sequence[Sign]) -> Iterator[tuple[KeptPrompt | _Heard, int]]:
        """The texts that are the last of their turn, each with the number of the signs up to it."""
        last: tuple[KeptPrompt | _Heard, int] | None = (self.texts[-1], 0) if self.spoke and self.texts else None
        for number, sign in enumerate(signs, 1):
            if isinstance(sign, Asked) and sign.kind in ("", "approved"):
                yield from [last] if last else []
                last = None
            elif isinstance(sign, Said) and sign.text.strip():
                last = _Heard(at=self._time(sign.at), text=sign.text.strip(), size=len(sign.text)), number
            elif isinstance(sign, (CommandRun, Edited, Called)):
                last = None
        yield from [last] if last else []

    def close(self, end: End) -> None:
        """End the turn that goes on: not where its prompt is later than the end and its words are not on record, nor where
        nothing was asked since the end of the turn before. Words that are on record are not taken anew."""
        later = self._later_than(end) if not self.known else 0
        self._hear(self.turns - later, "" if later else self._prompt())
        if later:
            return
        if end.running is not None:
            self._list_running(end.running, self._time(end.at))
        words, last = valid(end.words.strip()), self.texts[-1] if self.texts else None
        if not end.sure and not self.spoke:
            return  # a session that was left in the midst of a turn
        if words and (last is None or not self._ends(last, words)):
            if self.said is not None and not self.open and self._ends(self.said, words):
                return
            last = _Heard(at=self._time(end.at), text=words, size=len(words))
        self._ended(last)
        self.open = self.spoke = False

    def _ended(self, words: KeptPrompt | _Heard | None) -> None:
        """A turn has ended with these words."""
        self.said = words or self.said
        self.worked = words if words and self.acted else self.worked
        self.texts, self.deeds, self.acted = [], {}, False

    def _hear(self, turns: int, prompt: KeptPrompt | _Heard | str) -> None:
        if turns >= self.heard:
            self.heard, self.heard_of = turns, self._opening(prompt)

    def _prompt(self) -> KeptPrompt | _Heard | str:
        """The newest prompt that is one of its own."""
        newest = [*self.asked, *([self.latest] if self.latest is not None else [])]
        return next((one for one in reversed(newest) if one.kind in ("", "approved")), "")

    def _opening(self, prompt: KeptPrompt | _Heard | str) -> str:
        """The first line of a prompt, as a step has it."""
        return prompt if isinstance(prompt, str) else self._cut(first_line(prompt.text), ITEM)

    def _later_than(self, end: End) -> int:
        """Count the prompts that came after an end."""
        if self.latest is None or self.latest.at <= end.at or not end.late:
            return 0
        return len({one.at for one in (*self.asked, self.latest) if one.at > end.at and one.kind in ("", "approved")}) or 1

    def _ends(self, text: Unheard | KeptPrompt | _Heard, words: str) -> bool:
        """Whether a text ends with some words, or they with it: clients tell of the last part of a message or of all of it."""
        if not isinstance(text, _Heard):  # it was redacted and cut
            words = self._middle(words, SAID)
            kept = {words[-_FEW:], self._middle(words, SAYING)[-_FEW:]}
            return any(text.text.endswith(one) or one.endswith(text.text) for one in kept)
        return text.text.endswith(words) or words.endswith(text.text)

    def _list_running(self, listed: Sequence[str], at: float) -> None:
        """Take what a client lists: what is not there has ended."""
        texts = {self.redact(valid(text[:_LOOKED])): None for text in listed}
        for key, call in list(self.calls.items()):
            text = self._call(call).text
            if call.running and text not in texts:
                del self.calls[key]
            texts.pop(text, None)
        for text in texts:
            key = f"listed {text[:_FEW]}"
            self.calls[key] = OpenCall(key=key, kind="called", text=text, at=at, running=True)

    def _cut(self, text: str, size: int) -> str:
        return cut(self.redact(valid(text[:_LOOKED])), size)

    def _line(self, command: str) -> str:
        return cut(one_line(self.redact(valid(command[:_LOOKED]))), COMMAND)

    def _middle(self, text: str, size: tuple[int, int]) -> str:
        """A text, redacted, with as much of its beginning and its end as there is room for."""
        if len(text) > _LOOKED:
            begin, end = text[: _LOOKED // 2], text[-_LOOKED // 2 :]
            text = f"{begin[: begin.rfind(chr(10)) + 1] or begin}\n{end[end.find(chr(10)) + 1 :]}"
        return middle(self.redact(valid(text)), *size)

    def _last(self, output: str) -> str:
        """Return what is kept of the output of a command that failed: its last lines, or those that say what is wrong."""
        rows = [row for row in self.redact(valid(output[-_TAIL:])).split("\n") if row.strip()]
        wrong = [row for row in rows[:-_ROWS] if re.search(_WRONG, row)]
        shown = rows[-_ROWS:]
        if wrong and not any(re.search(_WRONG, row) for row in shown[:-1]):
            return _last([*wrong, *shown[-1:]], OUTPUT)
        return _last(shown, OUTPUT)

    def facts(self) -> Facts:
        """Return what is known now, within the bounds."""
        if self.made:
            for key, test in self.tests.items():  # runs of before, with what was edited since
                self.tests[key] = replace(test, changed=tuple(dict.fromkeys((*test.changed, *self.made)))[-EDITED:])
        for text, run in self.runs.items():
            self._judge(text, run)
        plan = None if self.plan is None else list(self.plan.values())
        if plan is not None and len(plan) > ITEMS:  # what is done is told last
            plan = sorted(plan, key=lambda item: item.state in ("done", "dropped"))
        checks = list(self.checks)[-CHECKS:]
        since = min(self.since, default=0.0)
        failures = [one for one in self.failures.values() if one.ran.ended >= since or one.ran.command in checks]
        failures.sort(key=lambda failure: failure.ran.ended)
        return Facts(
            plan=None if plan is None else tuple(plan[:ITEMS]),
            planned=self.planned,
            title=self.title,
            more=0 if plan is None else max(0, len(plan) - ITEMS),
            beside=tuple(self.beside)[-_BESIDE:],
            tests=tuple(reversed(self.tests.values()))[:TESTS],
            edited=tuple(Touched(path=path, at=at) for path, at in reversed(self.edited.items()))[: EDITED * 4],
            read=tuple(reversed(self.read))[:_READ],
            found=self._found(),
            asked=tuple(self._kept(one, size) for one, size in kept(self.asked)),
            latest=None if self.latest is None else self._kept(self.latest, WHOLE),
            turns=self.turns,
            approved=None if self.approved is None else self._kept(self.approved, APPROVED),
            listed=None if self.listed is None else self._kept(self.listed, LISTED),
            commands=tuple(map(self._ran, self.commands[-COMMANDS:])),
            checks=tuple(self.checks[name] for name in checks),
            failures=tuple(failures[-_FAILED:]),
            said=None if self.said is None else self._kept(self.said, SAID),
            worked=None if self.worked is None else self._kept(self.worked, SAID),
            unheard=tuple(self._unheard(*one) for one in self.unheard[-_UNHEARD:]),
            heard=self.heard,
            heard_at=self.heard_at,
            heard_of=self.heard_of,
            open=self.open,
            texts=tuple(self._kept(one, SAYING) for one in self.texts),
            deeds=tuple(rows(map(self._done, list(self.deeds.values())[-_RAW:])))[-DEEDS:],
            spoke=self.spoke,
            acted=self.acted,
            since=self.since,
            calls=tuple(map(self._call, list(self.calls.values())[-_CALLS:])),
            begun=self.begun,
            until=self.until,
            ended=tuple(self.ended)[-_ENDED:],
            edits=tuple(self.edits[-_EDITS:]),
            used=tuple(self.used[-_PROMPTS_COUNTED:]),
            answers=tuple(self.answers.values())[-_ANSWERS:],
        )

    def _found(self) -> tuple[str, ...]:
        """Return what may be files among the names in searches and commands, the newest first."""
        names = [
            list(dict.fromkeys(re.findall(_FILE, text[:_LISTING])))[:_OF_ONE] for text in reversed(self.named[-_TEXTS_NAMING:])
        ]
        found = dict.fromkeys(valid(name).removeprefix("./") for some in names for name in some)
        shown = self.redact("\n".join(found)).split("\n") if found else []  # what looks like a name may be a secret
        return tuple(dict.fromkeys([*(name for name in shown if name in found), *self.before.found]))[:_FOUND]

    def _kept(self, said: KeptPrompt | _Heard, size: tuple[int, int]) -> KeptPrompt:
        """A text as it is kept."""
        if isinstance(said, KeptPrompt):
            return replace(said, text=middle(said.text, *size))
        about = self._cut(said.about, ABOUT)
        if not said.kind and said.before is not None and answers(said.text, said.before.text):
            about = ending(self._kept(said.before, SAID).text, ABOUT)
        return KeptPrompt(at=said.at, text=self._middle(said.text, size), size=said.size, kind=said.kind, about=about)

    def _unheard(self, one: Unheard | KeptPrompt | _Heard, turns: int, prompt: KeptPrompt | _Heard | str) -> Unheard:
        if isinstance(one, Unheard):
            return one
        text = self._kept(one, SAID).text[-_FEW:]
        return Unheard(at=one.at, text=text, turns=turns, prompt=self._opening(prompt))

    def _call(self, call: OpenCall) -> OpenCall:
        redacted = call.key in self.fresh and call.kind != "edited"
        return replace(call, key=valid(call.key), text=self.redact(call.text) if redacted else call.text)

    def _done(self, deed: Deed | OpenCall) -> Deed:
        """An action as it is kept."""
        if isinstance(deed, OpenCall):  # it goes on
            deed = Deed(key=valid(_name(deed)), kind=deed.kind, text=deed.text, at=deed.at)
        text = deed.text
        if deed.kind != "edited":
            text = self.redact(text)
            text = cut(first_line(one_line(text) if deed.kind == "ran" else text), DEED)
        output = ending(self.redact(deed.output), ANSWER) if deed.output else ""
        return replace(deed, text=text, output=output)

    def _ran(self, ended: tuple[Command, str] | Command) -> Command:
        if isinstance(ended, Command):
            return ended
        command, output = ended
        failed = command.status not in (0, None)
        return replace(command, command=self._line(command.command), output=self._last(output) if failed else "")


def _place(cwd: str, folders: Iterable[str]) -> str:
    """Return the folder in which a command runs after these ``cd``; empty where that cannot be said."""
    for folder in folders:
        if re.search(r"[$`*?~\[{]|\A-", folder) or not (cwd or folder.startswith("/")):
            return ""
        cwd = os.path.join(cwd, folder)
    return os.path.normpath(cwd) if cwd.startswith("/") else ""


def _name(call: OpenCall) -> str:
    """Return the name of an action: one call may edit several files."""
    return f"{call.key} {call.text[:_FEW]}" if call.kind == "edited" else call.key


def _last(rows: Sequence[str], size: int) -> str:
    """The last of some lines that have room."""
    found: list[str] = []
    for row in reversed(rows):
        size -= len(row) + 1
        if size < 0:
            break
        found.append(row)
    return "\n".join(reversed(found)) if found or not rows else rows[-1][-OUTPUT:]


def kept(prompts: Sequence[Text]) -> list[tuple[Text, tuple[int, int]]]:
    """Of prompts those that are kept, oldest first, and how much of each: the first, the longest and the newest whole, a few of
    the newest before it less."""
    ordered = sorted(prompts, key=lambda one: one.at)
    if not ordered:
        return []
    longest = max(ordered, key=lambda one: one.size)
    rest = [one for one in ordered if one is not ordered[0] and one is not longest][-PROMPTS:]
    whole = {id(ordered[0]), id(longest), id(ordered[-1])}
    few = {id(one) for one in rest}
    return [(one, WHOLE if id(one) in whole else OTHERS) for one in ordered if id(one) in whole | few]


def unsaid(facts: Facts, *, asked: bool) -> Facts:
    """Facts without what was said, without commands and the files that they and searches named or that were read; of prompts
    the first lines, where they are ``asked`` for."""
    prompts = tuple(replace(one, text=line_of(one), about="") for one in facts.asked) if asked else ()
    latest = replace(facts.latest, text=line_of(facts.latest), about="") if asked and facts.latest else None
    calls = tuple(call for call in facts.calls if call.kind == "edited")
    none: dict[str, Any] = dict.fromkeys(("approved", "listed", "said", "worked"))
    none |= dict.fromkeys(("commands", "checks", "failures", "unheard", "texts", "deeds", "read", "found"), ())
    none["heard_of"] = facts.heard_of if asked else ""
    return replace(facts, asked=prompts, latest=latest, calls=calls, **none)


def without(facts: Facts, gone: Callable[[float], bool]) -> Facts:
    """Facts without the words and commands of moments that are ``gone``."""

    def left(said: KeptPrompt | None) -> KeptPrompt | None:
        return None if said is not None and gone(said.at) else said

    return replace(
        facts,
        asked=tuple(one for one in facts.asked if not gone(one.at)),
        latest=left(facts.latest),
        approved=left(facts.approved),
        listed=left(facts.listed),
        said=left(facts.said),
        worked=left(facts.worked),
        texts=tuple(one for one in facts.texts if not gone(one.at)),
        commands=tuple(one for one in facts.commands if not gone(one.ended)),
        checks=tuple(one for one in facts.checks if not gone(one.ended)),
        failures=tuple(one for one in facts.failures if not gone(one.ran.ended)),
        unheard=tuple(one for one in facts.unheard if not gone(one.at)),
        heard_of="" if facts.latest is not None and gone(facts.latest.at) else facts.heard_of,
    )


def usage_of(facts: Facts, since: float, until: float, later: int) -> tuple[str | None, Usage | None]:
    """Return the model that answered last from one moment to another, and the tokens of all requests that were answered there,
    but for those of so many ``later`` prompts; None where they are not known."""
    used = [one for one in facts.used if since <= one.at <= until and one.prompt <= facts.turns - later]
    whole = sum((one.usage for one in used), NO_TOKENS)
    known = whole != NO_TOKENS and not any(one.unknown for one in used)
    return (used[-1].model or None if used else None), (whole if known else None)


def line_of(prompt: KeptPrompt) -> str:
    """The first line of a prompt, as a step has it."""
    return cut(first_line(prompt.text), ITEM)


_KINDS = (Item, KeptPrompt, Command, Failure, Touched, OpenCall, Test, Deed, Unheard, Usage, AnswerUsage, PromptUsage)
_VALUES = {one.__name__: one for one in _KINDS}


def document(facts: Facts) -> dict[str, Json]:
    """Facts as JSON: values are lists of their fields, times whole milliseconds."""
    return {name: _written(getattr(facts, name)) for name in Facts.__annotations__}


def _written(found: object) -> Json:
    if isinstance(found, float):
        return round(found * 1000)
    if isinstance(found, tuple):
        return [_written(one) for one in found]
    if type(found).__name__ in _VALUES:
        return [_written(getattr(found, name)) for name in type(found).__annotations__]
    assert found is None or isinstance(found, (bool, int, str))
    return found


def read(found: Json) -> Facts | None:
    """The facts of a document that ``document`` made; None for anything else: then all is read anew."""
    known = found if isinstance(found, dict) else {}
    try:
        return Facts(**{name: _read(kind, known[name]) for name, kind in Facts.__annotations__.items()})
    except (KeyError, ValueError):
        return None


def _read(kind: str, found: Json) -> Any:
    """A field of a kind, as its class says it. Raises ValueError for another one."""
    for one in kind.split(" | "):
        if one == "float" and type(found) is int:
            return found / 1000
        if (one == "None" and found is None) or type(found).__name__ == one or found in _WORDS.get(one, ()):
            return found
        if one.startswith("tuple[") and isinstance(found, list):
            return tuple(_read(one[len("tuple[") : -len(", ...]")], part) for part in found)
        if one in _VALUES and isinstance(found, list):
            fields: Mapping[str, str] = _VALUES[one].__annotations__
            return _VALUES[one](**{name: _read(of, part) for (name, of), part in zip(fields.items(), found, strict=True)})
    raise ValueError(kind)


_WORDS: dict[str, tuple[str, ...]] = {"State": STATES, "Kind": ("ran", "edited", "called"), "Failing": ("check", "ran")}
