"""Observed facts of a session: its events (one value a prompt, plan, command, edit or message of a client's records) are merged
into them, the same way for all clients. No I/O.

All texts are redacted whole and cut afterwards: of half a key nobody could tell that it is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from gitbaton.agents.payload import valid
from gitbaton.agents.signs import STATES, Asked, Edited, Ended, Item, Planned, Ran, Said
from gitbaton.codec import Json, cut, first_line
from gitbaton.values import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.agents.signs import Sign

ITEMS, ITEM = 50, 200
TESTS = 5
EDITED = 50
PROMPTS = 5
"""The newest prompts that are kept, besides the first and the longest."""
WHOLE, OTHERS = 2000, 500
LISTED, SAID = 1500, 1000
COMMANDS, COMMAND, OUTPUT = 10, 300, 500
_EDITS = 10
_CALLS = 50  # that have begun and not ended
_ENDED = 200
_LOOKED, _TAIL = 8 << 10, 8 << 10  # characters of a text, and of an output's end, that are redacted before they are cut
_IDLE = (
    r"(?i)"
    r"(?:(?:ok(?:ay)?|yes|yep|yeah|sure|please|thanks?|thank you|great|good|nice|perfect|cool|right|fine|now|and|then|just|so"
    r"|go|go on|go ahead|continue|carry on|keep going|proceed|next|resume|do it|do that|on it|weiter|ja|retry|again|try again)"
    r"[\s.,!]*)+\Z"
)
_IDLE_LENGTH = 80
_POINT = r"[ \t]{0,12}(?:[-*+\u2022]|\(?[0-9]{1,3}[.)]|[\u2610\u2611\u2612\u2713\u2714\u2717])[ \t]+\S"
_POINTS = 3
Redact = Callable[[str], str]


@value
class Prompt:
    """What the user said: its beginning, and when, in seconds since 1970; ``size``: how long it was."""

    at: float
    text: str
    size: int


@value
class Command:
    """A command that has ended. ``status`` is None where nobody can say; ``output``: the last lines of one that failed."""

    command: str
    status: int | None
    started: float | None
    ended: float
    output: str


@value
class Test:
    """The newest run of a test command, see ``gitbaton.agents.testing``; ``changed``: the files that the client's own tools
    edited since it began, as the client names them; ``empty``: no test ran."""

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


@value
class Facts:
    """What is known of a session: its plan (None where none was ever written) and when that changed; the newest test runs,
    newest first; edited files, newest first; prompts that say something, oldest first, and how many there were in all;
    the newest text with a list; commands, newest last; the last words of the last turn that ended, and what was said
    last in the one that goes on (``saying``). ``calls``: commands and edits that have not ended, by
    their keys: kind, text, when. ``until``: the time of the newest record;
    ``ended``: the keys of commands that have ended; ``edits``: when the newest ten edits were made."""

    plan: tuple[Item, ...] | None = None
    planned: float = 0.0
    more: int = 0
    tests: tuple[Test, ...] = ()
    edited: tuple[str, ...] = ()
    asked: tuple[Prompt, ...] = ()
    turns: int = 0
    listed: Prompt | None = None
    commands: tuple[Command, ...] = ()
    said: Prompt | None = None
    saying: Prompt | None = None
    calls: tuple[tuple[str, tuple[str, str, float]], ...] = ()
    until: float = 0.0
    ended: tuple[str, ...] = ()
    edits: tuple[float, ...] = ()


def fold(facts: Facts, signs: Iterable[Sign], redact: Redact, own: Sequence[str], now: float) -> Facts:
    """What is known after some more signs, in their order. ``own``: the user's own test commands; ``now`` stands for the time
    of what has none. Raises ScanError where a text cannot be redacted."""
    made = _Fold(facts, redact, own, now)
    for sign in signs:
        made.take(sign)
    return made.facts()


def closed(facts: Facts) -> Facts:
    """The same when the turn has ended: what was said last in it are its last words."""
    return replace(facts, said=facts.saying or facts.said, saying=None)


def idle(text: str) -> bool:
    """Whether a prompt says nothing of what is wanted: ``continue``, ``ok``, ``yes, go on``."""
    said = text.strip().strip("\"'")
    return len(said) <= _IDLE_LENGTH and re.match(_IDLE, said) is not None


class _Fold:
    """The facts while signs are taken in."""

    def __init__(self, facts: Facts, redact: Redact, own: Sequence[str], now: float) -> None:
        self.redact, self.own, self.now = redact, own, now
        self.until, self.ended, self.edits = facts.until, dict.fromkeys(facts.ended), list(facts.edits)
        self.plan = None if facts.plan is None else {item.key: item for item in facts.plan}
        self.planned = facts.planned
        self.tests = {test.command: test for test in reversed(facts.tests)}
        self.runs: dict[str, tuple[Ended, float, float, dict[str, None]]] = {}  # the newest of each command line
        self.edited = dict.fromkeys(reversed(facts.edited))
        self.asked, self.turns = list(facts.asked), facts.turns
        self.listed: Said | Prompt | None = facts.listed
        self.said: Said | Prompt | None = facts.said
        self.saying: Said | Prompt | None = facts.saying
        self.commands: list[tuple[Command, str] | Command] = list(facts.commands)
        self.calls, self.fresh = dict(facts.calls), set[str]()

    def take(self, sign: Sign) -> None:
        """Take one sign in."""
        self.until = max(self.until, 0.0 if sign.at is None else min(sign.at, self.now))
        if isinstance(sign, (Ran, Edited)):
            kind, text = ("ran", sign.command) if isinstance(sign, Ran) else ("edited", sign.path)
            if sign.key not in self.calls and sign.key not in self.ended:  # some clients write a record twice
                self.calls[sign.key] = (kind, valid(text[:_LOOKED]), self._time(sign.at))
                self.fresh.add(sign.key)
        elif isinstance(sign, Ended):
            self._end(sign)
        elif isinstance(sign, Planned):
            self._plan(sign)
        elif isinstance(sign, Asked):
            self._ask(sign)
        elif isinstance(sign, Said) and sign.text.strip():
            self.saying = sign
            if sum(1 for row in sign.text.splitlines() if re.match(_POINT, row)) >= _POINTS:
                self.listed = sign

    def _time(self, at: float | None) -> float:
        """A moment of the record; clocks jump, and nothing has happened after now."""
        return self.now if at is None else min(at, self.now)

    def _end(self, sign: Ended) -> None:
        kind, text, began = self.calls.get(sign.key, ("", "", 0.0))
        if not kind:
            return
        if kind == "edited":
            del self.calls[sign.key]
            if sign.status == 0:
                self._edit(text)
                self.edits.append(self._time(sign.at))
            return
        if sign.status is None and not sign.output:
            return  # it goes on in the background
        del self.calls[sign.key]
        self.ended[valid(sign.key)] = None
        at = self._time(sign.at)
        self.commands.append((Command(command=text, status=sign.status, started=began, ended=at, output=""), sign.output))
        self.runs.pop(text, None)
        self.runs[text] = (sign, began, at, {})

    def _edit(self, path: str) -> None:
        self.edited.pop(path, None)
        self.edited[path] = None
        for key, test in self.tests.items():
            if path not in test.changed:
                self.tests[key] = replace(test, changed=(*test.changed, path)[-EDITED:])
        for _, _, _, changed in self.runs.values():
            changed[path] = None

    def _test(self, text: str, run: tuple[Ended, float, float, dict[str, None]]) -> None:
        from gitbaton.agents.testing import verdict  # dear to import, and often no command is a test

        sign, began, at, changed = run
        found = verdict(text, sign.status, sign.output, self.own)
        if found is None:
            return
        name = self._cut(found.command, ITEM)
        self.tests.pop(name, None)
        self.tests[name] = Test(
            command=name,
            result=found.result,
            passed=found.passed,
            failed=found.failed,
            skipped=found.skipped,
            names=tuple(self._cut(one, ITEM) for one in found.names),
            empty=found.empty,
            started=began,
            ended=at,
            changed=tuple(changed)[-EDITED:],
        )

    def _plan(self, sign: Planned) -> None:
        items = {} if sign.whole or self.plan is None else self.plan
        for item in sign.items:
            old = items.get(item.key)
            text = item.text or (old.text if old else "")
            state = item.state or (old.state if old else "open")
            if text.strip():
                same = old is not None and old.text == text
                items[item.key] = Item(key=valid(item.key[:ITEM]), text=text if same else self._cut(text, ITEM), state=state)
        self.plan, self.planned = items, self._time(sign.at)

    def _ask(self, sign: Asked) -> None:
        text = sign.text.strip()
        if not text:
            return
        at = self._time(sign.at)
        if any(old.at == at and old.size == len(text) for old in self.asked):
            return  # told twice: a history that was written again
        self.turns += 1
        self.said, self.saying = self.saying or self.said, None  # the turn before has ended
        if not idle(text):
            self.asked.append(Prompt(at=at, text=self._cut(text, WHOLE), size=len(text)))

    def _cut(self, text: str, size: int) -> str:
        return cut(self.redact(valid(text[:_LOOKED])), size)

    def facts(self) -> Facts:
        """What is known now, within the bounds."""
        for text, run in self.runs.items():
            self._test(text, run)
        plan = None if self.plan is None else list(self.plan.values())
        if plan is not None and len(plan) > ITEMS:  # what is done is told last
            plan = sorted(plan, key=lambda item: item.state in ("done", "dropped"))
        return Facts(
            plan=None if plan is None else tuple(plan[:ITEMS]),
            planned=self.planned,
            more=0 if plan is None else max(0, len(plan) - ITEMS),
            tests=tuple(reversed(self.tests.values()))[:TESTS],
            edited=tuple(reversed(self.edited))[: EDITED * 4],
            asked=kept(self.asked),
            turns=self.turns,
            listed=self._told(self.listed, LISTED),
            commands=tuple(map(self._ran, self.commands[-COMMANDS:])),
            said=self._told(self.said, SAID),
            saying=self._told(self.saying, SAID),
            calls=tuple((valid(key), self._call(key)) for key in list(self.calls)[-_CALLS:]),
            until=self.until,
            ended=tuple(self.ended)[-_ENDED:],
            edits=tuple(self.edits[-_EDITS:]),
        )

    def _call(self, key: str) -> tuple[str, str, float]:
        kind, text, at = self.calls[key]
        return kind, self.redact(text) if key in self.fresh and kind == "ran" else text, at

    def _told(self, said: Said | Prompt | None, size: int) -> Prompt | None:
        if isinstance(said, Said):
            return Prompt(at=self._time(said.at), text=self._cut(said.text.strip(), size), size=len(said.text))
        return said

    def _ran(self, ended: tuple[Command, str] | Command) -> Command:
        if isinstance(ended, Command):
            return ended
        command, output = ended
        failed = command.status not in (0, None)
        rows = self.redact(valid(output[-_TAIL:])).rstrip().rsplit("\n", 12)[-12:] if failed else []
        return replace(command, command=self._cut(command.command, COMMAND), output=_last(rows, OUTPUT))


def _last(rows: Sequence[str], size: int) -> str:
    """The last of some lines that have room."""
    found: list[str] = []
    for row in reversed(rows):
        size -= len(row) + 1
        if size < 0:
            break
        found.append(row)
    return "\n".join(reversed(found)) if found or not rows else rows[-1][-OUTPUT:]


def kept(prompts: Sequence[Prompt]) -> tuple[Prompt, ...]:
    """Of prompts, oldest first, those that are kept: the first and the longest whole, and the newest, shorter."""
    if not prompts:
        return ()
    ordered = sorted(prompts, key=lambda one: one.at)
    longest = max(ordered, key=lambda one: one.size)
    newest = [one for one in ordered if one is not ordered[0] and one is not longest][-PROMPTS:]
    short = {id(one): replace(one, text=cut(one.text, OTHERS)) for one in newest}
    whole = {id(ordered[0]), id(longest)}
    return tuple(short.get(id(one), one) for one in ordered if id(one) in short or id(one) in whole)


def unsaid(facts: Facts, *, asked: bool) -> Facts:
    """Facts without what was said and without commands; of prompts the first lines, where they are ``asked`` for."""
    prompts = tuple(replace(one, text=line_of(one)) for one in facts.asked) if asked else ()
    calls = tuple(call for call in facts.calls if call[1][0] != "ran")
    return replace(facts, asked=prompts, listed=None, said=None, saying=None, commands=(), calls=calls)


def line_of(prompt: Prompt) -> str:
    """The first line of a prompt, as a step has it."""
    return cut(first_line(prompt.text), ITEM)


def document(facts: Facts) -> dict[str, Json]:
    """Facts as JSON; times are whole milliseconds."""
    return {
        "plan": None if facts.plan is None else [[item.key, item.text, item.state] for item in facts.plan],
        "planned": _ms(facts.planned),
        "more": facts.more,
        "tests": [_test_document(test) for test in facts.tests],
        "edited": list(facts.edited),
        "asked": [_prompt_document(one) for one in facts.asked],
        "turns": facts.turns,
        "listed": _prompt_document(facts.listed),
        "commands": [[c.command, c.status, _ms(c.started), _ms(c.ended), c.output] for c in facts.commands],
        "said": _prompt_document(facts.said),
        "saying": _prompt_document(facts.saying),
        "calls": [[key, kind, text, _ms(at)] for key, (kind, text, at) in facts.calls],
        "until": _ms(facts.until),
        "ended": list(facts.ended),
        "edits": [_ms(at) for at in facts.edits],
    }


def _ms(at: float | None) -> int | None:
    return None if at is None else round(at * 1000)


def _prompt_document(prompt: Prompt | None) -> Json:
    return None if prompt is None else [_ms(prompt.at), prompt.text, prompt.size]


def _test_document(test: Test) -> Json:
    counts: list[Json] = [test.passed, test.failed, test.skipped]
    times: list[Json] = [_ms(test.started), _ms(test.ended)]
    return [test.command, test.result, counts, list(test.names), times, list(test.changed), test.empty]


def read(found: Json) -> Facts | None:
    """The facts of a document that ``document`` made; None for anything else: then all is read anew."""
    try:
        return _read(found)
    except (KeyError, TypeError, ValueError, IndexError):
        return None


def _read(found: Json) -> Facts:
    d: dict[str, object] = dict(found)  # type: ignore[arg-type]
    plan = d["plan"]
    return Facts(
        plan=None if plan is None else tuple(_item(*one) for one in plan),  # type: ignore[attr-defined]
        planned=_at(d["planned"]) or 0.0,
        more=int(d["more"]),  # type: ignore[call-overload]
        tests=tuple(_test(*one) for one in d["tests"]),  # type: ignore[attr-defined]
        edited=tuple(map(_text, d["edited"])),  # type: ignore[call-overload]
        asked=tuple(_prompt(*one) for one in d["asked"]),  # type: ignore[attr-defined]
        turns=int(d["turns"]),  # type: ignore[call-overload]
        listed=_prompt(*d["listed"]) if d["listed"] else None,  # type: ignore[misc]
        commands=tuple(_command(*one) for one in d["commands"]),  # type: ignore[attr-defined]
        said=_prompt(*d["said"]) if d["said"] else None,  # type: ignore[misc]
        saying=_prompt(*d["saying"]) if d["saying"] else None,  # type: ignore[misc]
        calls=tuple((_text(k), (_text(kind), _text(t), _at(at) or 0.0)) for k, kind, t, at in d["calls"]),  # type: ignore
        until=_at(d["until"]) or 0.0,
        ended=tuple(map(_text, d["ended"])),  # type: ignore[call-overload]
        edits=tuple(_at(at) or 0.0 for at in d["edits"]),  # type: ignore[attr-defined]
    )


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError
    return found


def _at(found: object) -> float | None:
    return None if found is None else float(found) / 1000  # type: ignore[arg-type]


def _item(key: object, text: object, state: object) -> Item:
    if state not in STATES:
        raise ValueError
    return Item(key=_text(key), text=_text(text), state=state)


def _prompt(at: object, text: object, size: object) -> Prompt:
    return Prompt(at=_at(at) or 0.0, text=_text(text), size=int(size))  # type: ignore[call-overload]


def _command(command: object, status: object, started: object, ended: object, output: object) -> Command:
    code = None if status is None else int(status)  # type: ignore[call-overload]
    return Command(command=_text(command), status=code, started=_at(started), ended=_at(ended) or 0.0, output=_text(output))


def _test(
    command: object, result: object, counts: object, names: object, times: object, changed: object, empty: object = False
) -> Test:
    passed, failed, skipped = (None if one is None else int(one) for one in counts)  # type: ignore[attr-defined]
    started, ended = map(_at, times)  # type: ignore[call-overload]
    return Test(
        command=_text(command),
        result=_text(result),
        passed=passed,
        failed=failed,
        skipped=skipped,
        names=tuple(map(_text, names)),  # type: ignore[call-overload]
        started=started,
        ended=ended or 0.0,
        changed=tuple(map(_text, changed)),  # type: ignore[call-overload]
        empty=empty is True,
    )
