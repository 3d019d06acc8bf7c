"""Words and deeds of a turn as facts keep them: prompts without padding, actions of the like as one, commands in one line. No
I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gitbaton.agents.shell import LONGEST, Segment, UnreadableError, names_of, segments
from gitbaton.base.codec import idle
from gitbaton.base.values import TYPE_CHECKING, replace, value

if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["ran", "edited", "called"]

MINUTE = 60.0
"""Seconds within which a prompt that says nearly the same as the one before stands in its place."""
_SAME = 0.8
_GRANTS = (
    r"(?i)\b(?:(?:as|what|like|how|whatever|the way) you(?:'d|'ve| have| would|r last)? (?:just )?"
    r"(?:propose|suggest|recommend|sa(?:y|id)|describe|outline|plan|list|wrote|put it)"
    r"|your (?:last |first |second |third )?(?:proposal|suggestion|recommendation|idea|option|plan|point)s?\b)"
)
_ANSWER = 200  # characters of a prompt that may be an answer to a question
_INDENT = 8
_IMAGE = r"(?im)\[image(?: ?#\d+)?(?:: [^\]\n]{0,300})?\]|^[ \t]*</?image(?: [^<>\n]{0,300})?>[ \t]*$"
_SHOWN = 3  # of the rows of a log
_DAY, _CLOCK = r"\d{4}[-/]\d\d[-/]\d\d", r"\d{1,2}:\d\d:\d\d"
_LOG = (
    rf"(?:.{{0,60}}?{_DAY}[T ,_]{{1,2}}{_CLOCK}|[\[(]?(?:{_DAY}|{_CLOCK})"
    r"|[\[(<]?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b"
    r"|at [\w$.<>/@:]+ ?\(|File \".*\", line \d|Traceback |Caused by: |\.{3} \d+ more|goroutine \d+ |(?:0x)?[0-9a-f]{8,} "
    r"|[\w./\\@-]+\.\w{1,6}:\d+|(?:===|---|\+\+\+) |(?:ok|FAIL|PASS|FAILED|PASSED|SKIP)[: \t]|E [A-Z ]|npm (?:ERR!|error|warn)"
    r"|\d+ ?[|\u2502]|[\u2502\u2503\u2551\u23bf\u25cf\u2713\u2714\u2717\u2718\u00d7])"
)
_PASTED = rf"(?m)^ *(?:{_LOG}).*(?:\n+ *(?:{_LOG}).*){{5,}}"
_BEFORE = (
    r"\A(?:(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\S*)|sudo|time|env|command|exec|nice(?: -n ?\d+)?|timeout(?: -\S+)* \S+)\s+)+"
)
"""What stands before a program: assignments, and programs that start another one."""
_PREPARING = names_of("cd pushd popd export set source . : shopt ulimit umask trap unset alias") | {""}
_SAYING = names_of("echo printf true")
_LOOKING = (
    _PREPARING
    | _SAYING
    | names_of(
        "false sleep wait exit return test [ [[ which type command date pwd ls cat head tail tee less more grep egrep fgrep rg"
        " ag ack find fd stat file wc sort uniq cut tr sed awk jq yq nl column diff cmp tree du df ps pgrep kill pkill"
        " lsof read"
    )
)
_READING = names_of(
    "cat-file show log diff status rev-parse rev-list ls-tree ls-files ls-remote blame grep merge-base check-ignore"
    " for-each-ref describe reflog show-ref shortlog diff-tree"
)
"""Programs, and verbs of git, that only look, prepare or show: what they end with is no failure that anybody has to mend."""
_WORD = r"[A-Za-z][\w.:@/+-]*\Z"
_FIRST = r"\A(?:\s*(?:#.*|(?:cd|pushd|export|set|source|\.)\s[^;&|\n'\"`$()]*)(?:&&|;|\n|\Z))+"
"""What stands before a loop, and before what cannot be read: comments, and what only prepares."""


@value
class Deed:
    """An action. ``text``: a path, a command, or a task; ``count``: how many of the like were made in a row; ``ended``: whether
    the last one has, with ``status``; ``output``: what a subagent answered. ``key`` names the last call."""

    key: str
    kind: Kind
    text: str
    at: float
    count: int = 1
    ended: bool = False
    status: int | None = None
    output: str = ""


def rows(deeds: Iterable[Deed]) -> list[Deed]:
    """Make one of actions of the like, in a row and with the same end: the same again, or commands of the same program."""
    found: list[Deed] = []
    for deed in deeds:
        last = found[-1] if found else None
        if last is None or (last.kind, last.ended, last.status) != (deed.kind, deed.ended, deed.status) or deed.output:
            found.append(deed)
        elif last.text == deed.text:
            found[-1] = replace(deed, count=last.count + deed.count)
        elif deed.kind == "ran" and (name := program(deed.text)) and program(last.text.removesuffix(" ...")) == name:
            found[-1] = replace(deed, text=f"{name} ...", count=last.count + deed.count)
        else:
            found.append(deed)
    return found


def one_line(command: str) -> str:
    """Put a command into one line: what it does, without comments, the texts that it is given, and what only prepares it."""
    parts = _segments(command)
    shown = [part for part in parts if not (part.name in _PREPARING and part.after in ("&&", ";", ""))]
    plain = [
        part for part in shown if part.name not in _SAYING or part.redirected != part.text or "|" in part.before + part.after
    ]
    if not shown or any(part.loose for part in parts):
        return re.sub(_FIRST, "", command).strip() or command
    joined = (
        f"{'! ' * part.turned}{part.written(redirected=True)}{';' if part.after == ';' else f' {part.after}'}"
        for part in plain or shown
    )
    return " ".join(joined).strip(" ;").removesuffix(" &&")


def actions(command: str) -> list[str]:
    """Split a command line into what it does: each command alone, without redirections, assignments, and what only looks. One
    that cannot be read does one thing."""
    parts = _segments(command)
    found = (re.sub(_BEFORE, "", part.written(redirected=False)) for part in parts)
    words = ((text, *text.split()[:2], "") for text in found if text)
    done = [text for text, name, verb, *_ in words if not (_base(name) in _LOOKING or (name == "git" and verb in _READING))]
    return done if parts else [" ".join(command.split())]


def program(command: str) -> str:
    """Name what a command line does last: the program, and the words after it that say what of it."""
    words = "".join(actions(command)[-1:]).split()
    size = 3 if words[1:2] in (["run"], ["-m"], ["exec"]) else 2
    return " ".join(words[:1] + [word for word in words[1:size] if word == "-m" or re.match(_WORD, word)])


def _segments(command: str) -> tuple[Segment, ...]:
    try:
        return segments(command[:LONGEST])
    except UnreadableError:
        return ()


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def answers(text: str, words: str) -> bool:
    """Whether a prompt cannot be understood without the ``words`` of the agent before it: it says nothing by itself, it grants
    what they propose, or it is short and they ask something."""
    return idle(text) or re.search(_GRANTS, text) is not None or (len(text) <= _ANSWER and "?" in words.rstrip()[-_ANSWER:])


def tidy(text: str) -> str:
    """Take padding out of a prompt: runs of blanks and of empty lines, marks of images, and of logs that were pasted all but
    the first rows and the last one."""
    rows = "\n".join(map(_row, re.sub(_IMAGE, "", text).expandtabs(4).split("\n")))
    return re.sub(r"\n{3,}", "\n\n", re.sub(_PASTED, _first_and_last, rows)).strip()


def alike(one: str, other: str) -> bool:
    """Whether two prompts share four fifths of their words."""
    words, others = (set(re.findall(r"\w+", text.lower())) for text in (one, other))
    return len(words & others) >= _SAME * max(len(words), len(others), 1)


def _row(row: str) -> str:
    said = row.strip()
    return " " * min(len(row) - len(row.lstrip()), _INDENT) + re.sub(r"\s{2,}", " ", said) if said else ""


def _first_and_last(pasted: re.Match[str]) -> str:
    rows = list(filter(None, pasted[0].split("\n")))
    return "\n".join([*rows[:_SHOWN], f"[{len(rows) - _SHOWN - 1} rows]", rows[-1]])
