"""What the user said, as it is kept: without padding, pasted logs as a few rows, and whether it says what is wanted. No I/O."""

from __future__ import annotations

import re

MINUTE = 60.0
"""Seconds within which a prompt that says nearly the same as the one before stands in its place."""
_SAME = 0.8
_IDLE = (
    r"(?i)"
    r"(?:(?:ok(?:ay)?|yes|yep|yeah|yup|y|no|nope|n|sure|please|thanks?|thank you|great|good|nice|perfect|cool|right|fine|now"
    r"|and|or|then|just|so|go|on|ahead|continue|carry|keep|going|proceed|next|resume|do|it|this|that|these|those|them|all|both|of|the"
    r"|first|second|third|last|one|ones|two|three|option|choice|number|point|points|with|let'?s|let us|i"
    r"|agree|agreed|approved?|correct|exactly|absolutely|definitely|sounds|looks|works|for me|to me|as|you|suggest(?:ed)?"
    r"|propose[ds]?|recommend(?:ed)?|lgtm|hi|hello|hey|weiter|ja|nein|bitte|retry|again|try|\#?[0-9]{1,2}|[a-e])"
    r"(?:[\s.,!:;)&+]|\Z)+)+\Z"
)
_GRANTS = (
    r"(?i)\b(?:(?:as|what|like|how|whatever|the way) you(?:'d|'ve| have| would|r last)? (?:just )?"
    r"(?:propose|suggest|recommend|sa(?:y|id)|describe|outline|plan|list|wrote|put it)"
    r"|your (?:last |first |second |third )?(?:proposal|suggestion|recommendation|idea|option|plan|point)s?\b)"
)
_IDLE_LENGTH = 80
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


def idle(text: str) -> bool:
    """Whether a prompt says nothing of what is wanted: ``continue``, ``ok``, ``yes, go on``, ``2``, ``the first one``."""
    said = text.strip().strip("\"'")
    return len(said) <= _IDLE_LENGTH and re.match(_IDLE, said) is not None


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
