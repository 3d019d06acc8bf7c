"""What an agent did: actions of the like in a row are one, and a failure stands until a success mends it. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gitbaton.values import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["ran", "edited", "called"]
else:
    Kind = str

_SEGMENT = re.compile(r"""(?:\\.|"(?:\\.|[^"\\])*"|'[^']*'|[<>]&\d?|&>|\$\([^()]*\)|[^;&|\n"'\\]|["'])+""", re.S)
_REDIRECTED = re.compile(r"""(?<!\s)\s*(?:\d?>>?&?\d?|&>>?|<)\s*(?:/dev/null|&\d|[^\s;&|<>]+)?""")
_INLINE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1(.*?)(?:\n.*?)?(?:\n[ \t]*\2\b|\Z)", re.S)
_BEFORE = re.compile(
    r"""\A(?:(?:[A-Za-z_]\w*=(?:"[^"]*"|'[^']*'|\S*)|do|then|else|if|while|sudo|time|env|command|exec"""
    r"""|nice(?: -n ?\d+)?|timeout(?: -\S+)* \S+)\s+)+"""
)
"""What stands before a program: assignments, and programs that start another one."""
_NAMES = (
    "cd pushd popd export echo printf set source . true false : sleep wait exit return test [ [[ which type command date pwd ls"
    " cat head tail tee less more grep egrep fgrep rg ag ack find fd stat file wc sort uniq cut tr sed awk jq yq nl column diff"
    " cmp tree du df ps pgrep kill pkill lsof read fi for done case esac { } ( ) #"
)
_LOOKING = frozenset(_NAMES.split())
_READING = frozenset(
    f"git {word}"
    for word in (
        *("cat-file", "show", "log", "diff", "status", "rev-parse", "rev-list", "ls-tree", "ls-files", "ls-remote", "blame"),
        *("grep", "merge-base", "check-ignore", "for-each-ref", "describe", "reflog", "show-ref", "shortlog", "diff-tree"),
    )
)
"""Programs that only look, prepare or show: what they end with is no failure that anybody has to mend."""
_WORD = re.compile(r"[A-Za-z][\w.:@/+-]*\Z")


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


def segments(command: str) -> tuple[str, ...]:
    """Split a command line into what it does: each command alone, without redirections, assignments, and what only looks."""
    command = _INLINE.sub(r"\3", command) if "<<" in command else command
    found = (_REDIRECTED.sub("", _BEFORE.sub("", part.strip(" \t({!"), 1)).strip(" \t)}") for part in _SEGMENT.findall(command))
    lines = (" ".join(part.split()) for part in found if part)
    return tuple(line for line in lines if not (_base(line.split()[0]) in _LOOKING or " ".join(line.split()[:2]) in _READING))


def program(command: str) -> str:
    """Name what a command line does last: the program, and the words after it that say what of it."""
    words = next(iter(segments(command)[::-1]), "").split()
    size = 3 if words[1:2] in (["run"], ["-m"], ["exec"]) else 2
    return " ".join(words[:1] + [word for word in words[1:size] if word == "-m" or _WORD.match(word)])


def fails(command: str) -> bool:
    """Whether a command line does something that can fail: one that only looks cannot."""
    return bool(segments(command))


def mends(later: str, failed: str) -> bool:
    """Whether the success of a ``later`` command line means that what ``failed`` would now succeed: it does the same, or the
    same of a program and leaves nothing out."""
    wanted, done = segments(failed)[-1:], segments(later)
    if not wanted or wanted[0] in done:
        return bool(wanted)
    name = program(wanted[0])
    return any(program(one) == name and (one.startswith(_DOING) or _as_wide(one, wanted[0], name)) for one in done)


def _as_wide(later: str, failed: str, name: str) -> bool:
    """Whether a command takes all that another one of the same program was told to take."""
    size = len(name.split())
    one, other = ([word.partition("=")[0] for word in text.split()[size:]] for text in (later, failed))
    if not _NARROWING.isdisjoint(set(one) - set(other)):
        return False
    targets, wanted = ({word for word in words if word[:1] != "-" and word not in _ALL} for words in (one, other))
    return not targets or wanted <= targets


_DOING = ("git ", "gh ", "glab ", "hg ", "jj ")  # what is told them is each time another
_ALL = ("./...", ".", "...")
_LESS = "-run -skip -short -k -m -t --grep --filter --lf --deselect --ignore --only -p --package"
_NARROWING = frozenset(_LESS.split())


def _base(word: str) -> str:
    return word.rpartition("/")[2]
