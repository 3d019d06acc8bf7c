"""The records of clients' transcripts: their parts, the signs made of them, and what is read of whole transcripts, the same way
for all clients. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from gitbaton.agents.client import Client, folder
from gitbaton.agents.payload import MAX_PATH, valid, word
from gitbaton.agents.signs import (
    POINT,
    Answered,
    Asked,
    Branch,
    Called,
    CommandRun,
    Edited,
    Ended,
    Item,
    Looked,
    Message,
    Planned,
    Record,
    Said,
    Searched,
    Shown,
)
from gitbaton.base.model import Usage
from gitbaton.base.values import TYPE_CHECKING, value

if TYPE_CHECKING:
    from typing import TypeGuard

    from gitbaton.agents.signs import Sign, State

MAX_LINE = 8 << 20  # of a longer line nothing is shown, and no id is looked for in it
_SESSION = r"[A-Za-z0-9_-]{1,128}\Z"
_ID = r"[A-Za-z0-9._:-]{1,128}\Z"
_MODEL = r"[A-Za-z0-9][A-Za-z0-9._:/@+()\[\]-]{0,127}\Z"
_LINE = "line of gitbaton"  # where a record says which line it is
_STATES: dict[str, State] = {
    "pending": "open",
    "blocked": "open",
    "in_progress": "doing",
    "completed": "done",
    "done": "done",
    "cancelled": "dropped",
    "deleted": "dropped",
}
_MS = 1 << 47  # of milliseconds; the year 6429
_CODES = 1 << 32  # of exit statuses
_POINTS = (  # the state and the text of a point
    r"(?m)^ *[-*+] \[([ xX])\] +(.+)$",
    r"(?m)^ {0,3}()\d{1,3}[.)] +(.+)$",
    r"(?mi)^#{2,6} +()(?:(?:step|phase|task|part) +)?\d{1,3}[.:)] +(.+)$",
    r"(?m)^ {0,1}()[-*+] +(.+)$",
)
_NOTHING = ("(empty)", "(no output)")
_REFUSED = (  # how clients begin what they tell the model of a call that was not made
    r"(?i)\s*(?:<tool_use_error>|(?:error: )?(?:the )?user (?:doesn't want|did not allow)"
    r"|(?:the )?user (?:has )?(?:rejected|denied|declined|specified a rule)|the tool use was rejected"
    r"|permission (?:to use|for this)|claude requested permissions|this (?:bash )?command (?:requires|contains)"
    r"|cd in '.{0,400}' was blocked|pretooluse:\S+ hook|\S+ operation blocked by hook|hook \S+ denied"
    r"|(?:exec command |patch )?rejected(?: by user|:)|\[operation cancelled\]|tool execution (?:was )?denied"
    r"|(?:cancelled: parallel|sibling) tool call)"
)


@value
class Passage:
    """A part of a conversation as it is searched: of the ``user``, the ``assistant``, a ``call`` or the answer of a ``tool``,
    or of ``other``; ``line``: that of its record."""

    who: str
    text: str
    line: int


@value
class Renamed:
    """A transcript as that of another session; ``left_out``: how many of its lines could not be taken along."""

    data: bytes
    left_out: int


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


def record_of(line: bytes, limit: int | None = MAX_LINE) -> Record | None:
    """The JSON object of one line of a transcript; None for anything else."""
    if (limit is not None and len(line) > limit) or not line.lstrip().startswith(b"{"):
        return None
    try:
        found = _DECODER.decode(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def message_id(of: Client, line: bytes) -> str | None:
    """The id of the message that a line of a client's transcript holds; None where it holds none."""
    record = record_of(line)
    found = of.id_of(record) if record is not None else None
    return found if isinstance(found, str) and re.match(_ID, found) else None


def kept_records(of: Client, raw: bytes) -> Iterator[Record]:
    """Yield the records of a transcript on the branch that counts, in its order."""
    lines = enumerate(raw.split(b"\n"), 1)
    records = of.sift([{**record, _LINE: line} for line, row in lines if (record := record_of(row)) is not None])
    steps = [of.step(record) for record in records]
    kept = Branch(steps, above=False).kept
    last = {step.key: number for number, step in enumerate(steps) if step is not None and kept[number]}
    first = set[str]()
    for number, (record, step) in enumerate(zip(records, steps, strict=True)):
        key = step.key if step is not None else ""
        if kept[number] and key not in first:  # of one that is written again whenever it grows the last
            yield records[last[key]] if key else record
            first |= {key} if key else set()


def passages(of: Client, raw: bytes) -> Iterator[Passage]:
    """Yield what a transcript says, in its order, as it is searched: with what the user said known from all else that stands
    there in the user's name, and what only signs tell."""
    told = [(record, list(of.read(record))) for record in kept_records(of, raw)]
    parts = [part for _, found in told for part in found if not (isinstance(part, Shown) and part.who == "thought")]
    asked = {part.text.strip() for part in parts if isinstance(part, Asked)}
    written = {text_of(part.content).strip() for part in parts if isinstance(part, Shown) and part.who != "tool"}
    for record, found in told:
        line = number(record.get(_LINE) or dict_of(record.get("payload")).get(_LINE))
        for part in found:
            if isinstance(part, Shown) and part.who != "thought":
                call = part.who == "tool" and not part.answer
                text = _given(part.content) if call else text_of(part.content)
                who = "call" if call else part.who
                who = "other" if who == "user" and text.strip() not in asked else who
            elif isinstance(part, (Asked, Said)) and part.text.strip() not in written:
                who, text = "user" if isinstance(part, Asked) else "assistant", part.text
            else:
                continue
            if text.strip():
                yield Passage(who=who, text=text, line=int(line))


def shown(of: Client, raw: bytes) -> Iterator[Shown]:
    """Yield what a transcript shows a reader, in its order."""
    parts = (part for record in kept_records(of, raw) for part in of.read(record))
    yield from (part for part in parts if isinstance(part, Shown) and part.who != "thought")


def messages(of: Client, raw: bytes) -> list[Message]:
    """Return the messages of a transcript, in its order; none for a client with a format that is not known."""
    names: dict[str, str] = {}
    found = []
    for part in shown(of, raw):
        if part.who == "tool" and not part.answer:
            names[part.key] = part.name
        name = names.get(part.key, part.name or "?") if part.who == "tool" else ""
        call = part.who == "tool" and not part.answer
        text = arguments_of(part.content) if call else text_of(part.content)
        found.append(Message(who=part.who, name=name, text=text))
    return [message for message in found if message.text.strip()]


def open_call(of: Client, raw: bytes) -> str | None:
    """The name of a tool that was called last and has not answered; None where every call has its answer."""
    calls: dict[str, str] = {}
    for part in shown(of, raw):
        if part.answer:
            calls.pop(part.key, None)
        elif part.who == "tool":
            calls[part.key] = part.name
    return next(reversed(calls.values()), None)


def signs(of: Client, record: Record) -> Iterator[Sign]:
    """Yield the signs of a record, in its order."""
    return (part for part in of.read(record) if not isinstance(part, Shown))


def may_tell(of: Client, line: bytes) -> bool:
    """Whether a line of a transcript is worth parsing; where it is not, ``signs`` would have nothing to say of it."""
    return of.mark is not None and re.search(of.mark, line) is not None


def renamed(of: Client, raw: bytes, session: str, *, foreign: bool) -> Renamed | None:
    """A transcript as that of a session of another id; None where the client could not resume it.

    Lines that are no JSON object, or none that can be written again (a number beyond all, nested too deep), are left out.
    """
    lines = [line for line in raw.split(b"\n") if line.strip()]
    found = [record for line in lines if (record := record_of(line, None)) is not None and line_of(record) is not None]
    done = of.rewritten(found, session, foreign=foreign)
    if done is None:
        return None
    written = [text for record in done if (text := line_of(record)) is not None]
    return Renamed(data=b"".join(written), left_out=len(lines) - len(found) + len(done) - len(written))


def line_of(record: Record) -> bytes | None:
    """A record as a line; None where no JSON can hold it."""
    try:
        return json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    except (ValueError, RecursionError):
        return None


def as_text(message: Message) -> str:
    """The text of a message; of a call the call and what it gave, for a client without such a tool."""
    if message.who in ("command", "tool"):
        return f"[tool {message.name}] {message.text}\n[result] {message.answer}"
    return message.text


@value
class Spoken:
    """Messages as a client has them in one: the user's, the ``summary`` of a compaction, or what the agent said until it ran a
    ``command``, with that. ``at``: seconds since 1970."""

    who: str
    texts: tuple[str, ...]
    at: float
    command: Message | None = None


def spoken(messages: Iterable[Message]) -> Iterator[Spoken]:
    """Yield what was said, as messages of clients that have the agent's next to each other in one."""
    texts: list[str] = []
    last = 0.0
    for message in messages:
        if texts and message.who in ("user", "summary"):
            yield Spoken(who="assistant", texts=tuple(texts), at=last)
            texts = []
        if message.who in ("user", "summary"):
            yield Spoken(who=message.who, texts=(message.text,), at=message.at)
        elif message.who == "command":
            yield Spoken(who="assistant", texts=tuple(texts), at=message.at, command=message)
            texts = []
        else:
            texts.append(as_text(message))
        last = message.at
    if texts:
        yield Spoken(who="assistant", texts=tuple(texts), at=last)


def iso(at: float, now: datetime) -> str:
    """A time as transcripts have it; ``now`` where it is not known."""
    when = datetime.fromtimestamp(at, UTC) if at else now
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def id_at(session: str, number: int) -> str:
    """The id of the nth record of a session that is written here."""
    from uuid import NAMESPACE_URL, uuid5

    return str(uuid5(NAMESPACE_URL, f"{session}/{number}"))


def where(of: Client, session: str, env: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return where a client keeps the transcript of a session: a folder, and a glob pattern of file names below it."""
    if not of.files or not env.get("HOME", "").startswith("/") or not re.match(_SESSION, session):
        return []
    return [(folder(of, env), pattern.format(session, session[:8])) for pattern in of.files]


def dict_of(found: object) -> Record:
    """A JSON object; an empty one for anything else."""
    return found if isinstance(found, dict) else {}


def list_of(found: object) -> list[object]:
    """A JSON array; an empty one for anything else."""
    return found if isinstance(found, list) else []


def text_of(found: object, depth: int = 4) -> str:
    """The text of a content field: a string, a part, or a list of parts; of other parts their kind."""
    if isinstance(found, str) or depth == 0:
        return found if isinstance(found, str) else "..."
    if isinstance(found, list):
        return "\n".join(text for item in found if (text := text_of(item, depth - 1)))
    part = dict_of(found)
    for key in ("text", "content", "output"):
        if isinstance(part.get(key), (str, list)):
            return text_of(part[key], depth - 1)
    return f"[{part['type']}]" if isinstance(part.get("type"), str) else ""


def _given(found: object, depth: int = 4) -> str:
    """Return the arguments of a tool's call as they are read: texts without the marks of JSON, each below its name."""
    if isinstance(found, str):
        return found
    if not (isinstance(found, (list, dict)) and depth):
        return json.dumps(found, ensure_ascii=False)
    if isinstance(found, list):
        return "\n".join(_given(item, depth - 1) for item in found)
    return "\n".join(f"{key}: {_given(item, depth - 1)}" for key, item in found.items())


def arguments_of(found: object) -> str:
    """Return the arguments of a tool's call; ``{"command": ...}`` as the command itself."""
    if isinstance(found, str):
        return found
    given = dict_of(found)
    only = given.get("command")
    return only if isinstance(only, str) else json.dumps(given, ensure_ascii=False)


def name_of(found: object) -> str:
    """The name of a tool."""
    return found if isinstance(found, str) and found else "?"


def words(kind: type[Asked] | type[Said], at: float | None, content: object) -> Iterator[Sign]:
    """Yield the sign of a message, its texts below each other."""
    texts = texts_of(content)
    if texts:
        yield kind(at=at, text="\n".join(texts))


def nth(at: float | None, number: int) -> float | None:
    """The time of the nth of several things that one record tells, from 0: two of the same time and size would be one."""
    return None if at is None else at + number / 1000


def answered(at: float | None, question: object, answer: str) -> Iterator[Sign]:
    """The user's answer to a question of the agent's."""
    if text := plain(answer):
        yield Asked(at=at, text=text, kind="answer", about=plain(question))


def approved(at: float | None, plan: str) -> Iterator[Sign]:
    """A plan that the user approved: what was asked for, and its points."""
    if text := plain(plan):
        title = title_of(text)
        yield Asked(at=at, text=text, kind="approved", about=title)
        yield from outlined(at, text)


def outlined(at: float | None, plan: str) -> Iterator[Sign]:
    """The points of a plan that is a text: its boxes, else what it numbers, else the points of its lists; outside of code."""
    rows = re.sub(r"(?ms)^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", "", plan)
    for form in _POINTS:
        items = [
            Item(key=f"{POINT}{number}", text=plain(found[2]).strip("*"), state="done" if found[1] in ("x", "X") else "open")
            for number, found in enumerate(re.finditer(form, rows), 1)
        ]
        if items:
            yield Planned(at=at, items=tuple(items), whole=True, title=title_of(plan))
            return


def title_of(plan: str) -> str:
    """The heading of a plan that is a text, else its first line."""
    heading = re.search(r"(?m)^ {0,3}#{1,6} +(.+?) *#*$", plan)
    return plain(heading[1]) if heading else plain(plan.partition("\n")[0])


def called(at: float | None, key: str | None, text: object) -> Iterator[Sign]:
    """The begin of a call of another tool."""
    if key and (task := plain(text)):
        yield Called(at=at, key=key, text=task.partition("\n")[0])


def looked(at: float | None, path: object) -> Iterator[Sign]:
    """A file was read."""
    if (found := _path(path)) is not None:
        yield Looked(at=at, path=found)


def searched(at: float | None, text: str) -> Iterator[Sign]:
    """Yield the sign of what a search found."""
    if text:
        yield Searched(at=at, text=text)


def replied(
    at: float | None, key: str | None, model: object, read: object = None, wrote: object = None, cached: object = 0
) -> Iterator[Sign]:
    """The answer to a request: which model gave it, how many tokens it ``read``, also those from its cache, and ``wrote``."""
    name = model if is_model(model) else ""
    counts = [count for count in (read, wrote, cached) if isinstance(count, int) and not isinstance(count, bool)]
    whole = len(counts) == 3 and all(0 <= count < _MS for count in counts)
    usage = Usage(input=max(0, counts[0] - counts[2]), output=counts[1], cached=counts[2]) if whole else None
    if key and (name or usage):
        yield Answered(at=at, key=key, model=name, usage=usage)


def is_model(found: object) -> TypeGuard[str]:
    """Whether something is the name of a model, in one word."""
    return isinstance(found, str) and re.match(_MODEL, found) is not None


def summed(*counts: object) -> int | None:
    """The sum of some numbers of tokens, of which those that are not told are none; None where the first is not told."""
    known = [count for count in counts if isinstance(count, int) and not isinstance(count, bool)]
    return sum(known) if counts and known[:1] == [counts[0]] else None


def _path(path: object) -> str | None:
    """A path that a file can have."""
    fits = isinstance(path, str) and 0 < len(path) < MAX_PATH and "\0" not in path and valid(path) == path
    return path if isinstance(path, str) and fits else None


def ran(at: float | None, key: str | None, command: object, cwd: object = None) -> Iterator[Sign]:
    """The begin of a command, in a folder if that is known."""
    if key and (text := plain(command)):
        yield CommandRun(at=at, key=key, command=text, cwd=_path(cwd))


def edited(at: float | None, key: str | None, path: object) -> Iterator[Sign]:
    """The begin of an edit of one file."""
    if key and (found := _path(path)) is not None:
        yield Edited(at=at, key=key, path=found)


def patched(begun: float | None, done: float | None, key: str | None, path: object, *, made: bool) -> Iterator[Sign]:
    """One file of an edit that has ended."""
    for edit in edited(begun, key, path):
        yield edit
        yield from ended(done, key, 0 if made else 1)


def ended(
    at: float | None, key: str | None, status: object, output: object = "", *, running: bool = False, refused: bool = False
) -> Iterator[Sign]:
    """Yield the end of a call. The status as far as it can be one: a number below zero is a client's word for none. One without
    a status counts as refused where its words say that it was not made."""
    if key:
        text = valid(output) if isinstance(output, str) and output.strip() not in _NOTHING else ""
        code = status if isinstance(status, int) and not isinstance(status, bool) and 0 <= status < _CODES else None
        refused = refused or (code is None and re.match(_REFUSED, text) is not None)
        yield Ended(at=at, key=key, status=code, output=text, running=running, refused=refused)


def whole(at: float | None, rows: object, field: str) -> Iterator[Sign]:
    """A plan as it was written whole."""
    items = items_of([dict_of(row) for row in list_of(rows)], field)
    if items or rows == []:  # a list of nothing but junk has not been cleared
        yield Planned(at=at, items=tuple(items), whole=True)


def changed(at: float | None, key: object, text: str, state: State | None) -> Iterator[Sign]:
    """A change of one item of a plan."""
    if (name := word(key)) and (text or state):
        yield Planned(at=at, items=(Item(key=name, text=text, state=state),), whole=False)


def items_of(rows: Iterable[Mapping[str, object]], field: str) -> list[Item]:
    """The items of a list that names none: their keys are their places, from 1."""
    found = enumerate(((plain(row.get(field)), state_of(row.get("status"))) for row in rows), 1)
    return [Item(key=str(place), text=text, state=state or "open") for place, (text, state) in found if text]


def whole_plan(items: list[Item], times: Iterable[object]) -> Planned | None:
    """A plan that is kept in a table, as of its newest change; None where it has no items."""
    at = max((time for found in times if (time := time_of(found)) is not None), default=None)
    return Planned(at=at, items=tuple(items), whole=True) if items else None


def state_of(status: object) -> State | None:
    """The state of an item in our words; None for a word that is not known."""
    return _STATES.get(status) if isinstance(status, str) else None


def texts_of(content: object) -> list[str]:
    """The texts of a message, each without blanks around it; no thoughts, no parts of other kinds."""
    parts = [content] if isinstance(content, str) else list_of(content)
    found = (part if isinstance(part, str) or dict_of(part).get("thought") else dict_of(part).get("text") for part in parts)
    return [text for part in found if (text := plain(part))]


def plain(found: object) -> str:
    """A text without blanks around it; an empty one for anything else."""
    return valid(found.strip()) if isinstance(found, str) else ""


def parsed(found: object) -> Record:
    """The object of a JSON text."""
    return (record_of(valid(found).encode()) if isinstance(found, str) else None) or {}


def number(found: object) -> float:
    """A number; 0 for anything else."""
    return found if isinstance(found, (int, float)) else 0


def time_of(found: object) -> float | None:
    """Seconds since 1970; of a text of ISO 8601, in UTC where it names no zone, or a number of milliseconds;
    None of all else, and of what is too late for a clock."""
    if isinstance(found, str):
        try:
            when = datetime.fromisoformat(found)
        except ValueError:
            return None
        seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        return seconds if 0 <= seconds < _MS / 1000 else None
    if isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found < _MS:
        return found / 1000
    return None
