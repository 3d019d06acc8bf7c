"""Verdicts: which commands of a line test, build or lint, and how they ended. An exit status alone is no result. No I/O.

Which command does, and through which wrappers, is in ``testcommands``; what its output says in ``testoutput``; ``shell`` cuts
a line into commands. A line that cannot be read is ``unknown``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from gitbaton.agents.shell import DEPTH, LONGEST, Segment, UnreadableError, names_of, pieces, segments, words_of
from gitbaton.agents.testcommands import (
    HARMLESS,
    NAMED,
    NARROW,
    VALUED,
    WIDE,
    Check,
    Kind,
    Script,
    check_in,
    hinted,
    shown,
)
from gitbaton.agents.testoutput import ANY, Summary, failing, shows_failure, summary, window
from gitbaton.agents.testscope import doubt_of_line, doubt_of_output, doubt_of_place, left_out, scripts
from gitbaton.agents.turns import actions, program
from gitbaton.base.values import TYPE_CHECKING, value

if TYPE_CHECKING:
    from typing import Literal

    Result = Literal["passed", "failed", "unknown"]


@value
class CheckVerdict:
    """The end of a test, a build or a linter.

    ``command``: the program and its arguments, without wrappers, environment and values that look secret. ``passed``,
    ``failed``, ``skipped``: what the summary line counts, None where it does not say. ``names``: the failing tests as the
    output names them. ``empty``: it is unknown because no test ran. ``lacks``: why a test that passed is no proof that all of
    them did, empty where it is one; ``place``: the folders that the line goes to before it, from where it began.
    """

    kind: Kind
    command: str
    result: Result
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    names: tuple[str, ...] = ()
    empty: bool = False
    lacks: str = ""
    place: tuple[str, ...] = ()


def outcomes(command: str, status: int | None, output: str, own: Sequence[str] = ()) -> tuple[CheckVerdict, ...]:
    """Return a verdict for each test, build and linter in a command line, in their order.

    ``status``: the shell's exit status, None where it is unknown. ``own``: the user's own test commands; each is what a command
    begins with. Evidence of a failure wins over evidence of success, whichever of status and summary tells it.

    A status of 0 says that a command passed if the whole line could not have it otherwise. Another one is its own if nothing
    else could have failed: before it stand only a cd, an export and the like, after it only an echo. Where something before it
    could have failed, its output shows that it did not. All else is for the output; ``unknown`` where that tells nothing.
    """
    runs, mine = _runs(command, own)[-_MOST:], tuple(words_of(text) for text in own)
    if not runs:
        return ()
    marked, cut = window(output)
    text = re.sub(_MARKS, "", marked) if any(run.check.forms in (ANY, ("lint",), ("build",)) for run in runs) else marked
    sums = [_summary(runs, number, text, cut) for number in range(len(runs))]
    begun = [_begun(run, told, marked) for run, told in zip(runs, sums, strict=True)]
    quiet = not text.strip() and all(run.check.silent for run in runs)
    found, broken = list[CheckVerdict](), set[tuple[int, ...]]()  # the chains in which something has failed
    for number, (run, told) in enumerate(zip(runs, sums, strict=True)):
        tests = run.check.kind == "test"
        first = all(shown or one.check.fixing for shown, one in zip(begun[:number], runs, strict=False))
        alone = (
            first and (len(runs) == 1 or not run.check.fixing) and all(one is told or one.result != "failed" for one in sums)
        )
        sure = told.result == "passed" and run.check.forms == ANY  # it may be the summary of one of several programs
        shows = alone and (sure or not told.result) and not (status == 0 and run.zero) and shows_failure(text, sure=sure)
        shows = shows and not re.search(_NOT_RUN, text)
        if run.check.guessed and not told.result and not shows:
            continue
        result = _result(run, status, told, text, begun=begun[number], shows=shows, quiet=quiet)
        if run.chain in broken and not begun[number]:
            result = "unknown"
        elif (
            run.goes_on
            and not told.empty
            and any(b and r.chain == run.chain for b, r in list(zip(begun, runs, strict=True))[number + 1 :])
        ):
            result = "passed"  # else what ``&&`` puts after it would not have begun
        elif run.goes_on and result == "failed":
            broken.add(run.chain)
        found.append(
            CheckVerdict(
                kind=run.check.kind,
                command=shown(run.check.words),
                result=result,
                passed=told.passed,
                failed=told.failed,
                skipped=told.skipped,
                names=failing(text, told.told) if tests and result == "failed" else (),
                empty=tests and result == "unknown" and told.empty,
                lacks=_lacks(run, status, told, text, mine) if tests and result == "passed" else "",
                place=run.place if tests else (),
            )
        )
    return tuple(found)


def _lacks(run: _Run, status: int | None, told: Summary, text: str, own: Sequence[tuple[str, ...]]) -> str:
    """Say why a test that passed does not prove that all of them did."""
    if status != 0 or not run.zero:
        return "its own exit status is not known"
    if told.result != "passed":
        return "no count of tests is shown"
    if word := left_out(run.check, own):
        return f"{shown((word,))} may leave tests out" if not word.startswith("no ") else f"it has {word}"
    if run.doubt:
        return run.doubt
    whole = run.check.words in own
    doubts = (_script(line) for line in (() if whole else scripts(run.check, text)))
    return doubt_of_output(text, whole=whole) or next(filter(None, doubts), "")


def _script(line: str) -> str:
    """Say why a script that a package manager has shown before it ran is not all of the tests."""
    try:
        parts, runs = segments(line), [run for run in _runs(line, ()) if run.check.kind == "test"]
    except UnreadableError:
        return "the script that it runs cannot be read"
    if not runs and parts and all(part.name in _LOUDLESS | names_of("cat exit") for part in parts):
        return "the script that it runs only prints"
    for run in runs:
        if word := left_out(run.check, ()):
            return f"in the script that it runs {shown((word,))} may leave tests out"
        if run.doubt or not run.zero:
            return run.doubt or "the script that it runs hides how it ends"
    return ""


def _begun(run: _Run, told: Summary, text: str) -> bool:
    """Whether an output shows that a command has begun: a test by its summary, a task by its heading."""
    task = re.escape(run.check.words[run.check.head - 1])
    heading = rf"\n(?:\[{task}[\]:]|task: \[{task}\] |> \S+@\S+ {task}\n|> Task :{task}\b)"
    return (run.check.kind == "test" and told.result != "") or (run.check.head > 1 and re.search(heading, text) is not None)


def _summary(runs: Sequence[_Run], number: int, text: str, cut: bool) -> Summary:
    run = runs[number]
    forms = run.check.forms
    if forms == ANY:  # a summary that another test of the line explains says nothing of this one
        others = {form for one in runs if one.check.forms != ANY for form in one.check.forms}
        forms = tuple(form for form in forms if form not in others)
    return summary(text, forms, cut=cut or not run.whole(text), tests=run.check.kind == "test")


_MARKS = (  # of lines of several tasks at once: [web:test], web:test:, packages/web test:, web-1 |
    r"(?m)^(?:\[(?!info|error|warn|success)[a-z][\w:./@-]{0,80}\]|[\w@./-]{1,80}:[a-z][\w-]{0,40}:"
    r"|[\w@.-]{1,80}/[\w@./-]{1,80} [\w:-]{1,40}:|[\w.-]{1,80}-\d{1,3} {1,9}\|) "
)
_KILLED = frozenset((124, 125, 126, 127, 129, 130, 131, 137, 141, 143))  # by timeout, not found, by a signal of another's
_NOTHING = {"python": (2, 5), "bazel": (4, 8)}  # no tests, or interrupted, where no summary says more
_NOT_RUN = (
    r"(?im)No module named '?(?:pytest|tox|nox|nose2|coverage)\b|command not found"
    r"|Missing script:|No rule to make target|Failed to spawn|does not contain recipe|could not determine executable"
    r"|could not find `Cargo\.toml`"
    r"|go\.mod file not found|cannot find main module|there is no POM in this directory|no test specified"
    r"|Unknown command: \"?test|no tasks? \S+ found|no task named"
)
_NO_PLACE = (
    r"(?im)^(?:-|/bin/|/usr/bin/)?(?:bash|sh|zsh|dash|ksh|\(eval\)|cd|pushd|source)(?=[: ]).*"
    r"(?:no such file or directory|not a directory|can't cd to|permission denied|cannot open|can't open)"
)


def _result(run: _Run, status: int | None, told: Summary, text: str, *, begun: bool, shows: bool, quiet: bool) -> Result:
    if run.unread:
        return "unknown"
    if told.result == "failed":
        return "failed"
    if told.result == "none" and (told.empty or status in (0, None)):
        return "failed" if status == 4 and run.check.forms == ("python",) else "unknown"
    likely: Result = "failed" if shows else "passed" if told.result == "passed" else "unknown"
    if status == 0:
        if run.check.listing and run.zero and not run.filters:
            return "failed" if text.strip() else "passed"
        return "passed" if run.zero or (quiet and run.filters and run.whole(text)) else likely
    if status is None or run.nonzero == _OTHER or (run.nonzero == _AFTER and not begun):
        return likely
    code = 128 - status if status < 0 else status
    odd = code in _KILLED or (len(run.check.forms) == 1 and code in _NOTHING.get(run.check.forms[0], ()))
    if odd or (not told.result and (re.search(_NOT_RUN, text) or (run.placed and re.search(_NO_PLACE, text)))):
        return "unknown"
    return "failed"


_MOST, _FREE = 20, 10  # commands in a line that are judged, and those of which nobody knows how they end
_OTHER, _AFTER, _OWN = range(3)
_QUIET = names_of(
    "cd pushd popd export source . set true : echo printf pwd unset shopt ulimit umask alias declare local readonly "
    "sleep clear hash date"
)  # before a test, these do not fail; after one, some of them do not
_LOUDLESS = names_of("echo printf true : pwd date unset popd")
_PASSING = names_of("tail tee cat less more ts nl sort uniq column ansi2txt fold sed")
_PLACES = names_of("cd pushd source .")


@value
class _Run:
    """A check in its place. ``zero``: the shell's status 0 says that its own was 0. ``nonzero``: what another status says:
    _OWN: it is its own; _AFTER: it is, if it has run; _OTHER: nothing. ``placed``: after a cd or the like. ``filters``: what
    its output goes through. ``chain``: the commands that ``&&`` joins; ``goes_on``: whether one after it shows that it passed.
    ``unread``: the line cannot be read. ``doubt``: what may change which tests run, on which files, or what is shown of them;
    ``place``: the folders that the line goes to before it."""

    check: Check
    zero: bool
    nonzero: int
    placed: bool
    filters: tuple[Segment, ...] = ()
    chain: tuple[int, ...] = ()
    goes_on: bool = False
    unread: bool = False
    doubt: str = ""
    place: tuple[str, ...] = ()

    def whole(self, text: str) -> bool:
        """Whether the part of its output that is shown would show a failure."""
        return all(_passes(part, text) for part in self.filters)


def _passes(part: Segment, text: str) -> bool:
    """Whether a filter through which an output came would have shown a failure."""
    if part.name == "head":
        count = re.search(r"\d+", part.text)
        return text.count("\n") <= int(count[0] if count else 10)
    if part.name in ("grep", "egrep", "rg"):
        options, pattern = "".join(re.findall(r"(?<=\s-)[A-Za-z]+", part.text)), re.sub(r"(?<=\s)-\S*", "", part.text)
        return not set(options) & set("coqlL") and ("v" in options) != bool(re.search("(?i)fail|error|result", pattern))
    return part.name in _PASSING


def _runs(command: str, own: Sequence[str]) -> list[_Run]:
    """The checks of a command line, in their order."""
    mine, command = tuple(words for text in own if (words := words_of(text))), command[:LONGEST]
    if not mine and not hinted(command):
        return []
    try:
        return _line(command, mine, True, _OWN, names_of(""), (0,), doubt_of_line(command), ())
    except UnreadableError:
        found = (check_in(tuple(piece.split()), mine) for piece in pieces(command))
        checks = (one for one in found if isinstance(one, Check))
        return [_Run(check=one, zero=False, nonzero=_OTHER, placed=False, unread=True) for one in checks]


def _line(
    text: str,
    own: tuple[tuple[str, ...], ...],
    zero: bool,
    nonzero: int,
    flags: frozenset[str],
    place: tuple[int, ...],
    doubt: str,
    folders: tuple[str, ...],
) -> list[_Run]:
    """The checks of a command line, which may stand in another one: in the ``place`` of it. ``flags``: what ``set`` has set;
    ``doubt`` and ``folders``: of the line around it."""
    if len(place) > DEPTH:
        raise UnreadableError
    parts, found, placed, chain = segments(text), list[_Run](), False, 0
    for number, part in enumerate(parts):
        chain += part.before not in ("&&", "|", "")
        here = (*place[:-1], place[-1], chain)
        for inner in part.inner:
            found += _line(inner, own, False, _OTHER, flags, (*place, number, 0), doubt, folders)
        calm = part.before == "&&" and parts[number - 1].name in _QUIET and not parts[number - 1].turned
        if part.name == "set" and (calm or part.before in ("", ";")) and part.after not in ("|", "||") and not part.grouped:
            flags = _set(flags, part.words[1:])
        placed = placed or part.name in _PLACES
        if part.name in ("cd", "pushd", "popd"):
            folders = (*folders, _folder(part))
        seen = check_in(part.words, own) if part.name not in _QUIET else None
        if seen is None:
            continue
        begin = next((at for at in range(number, -1, -1) if parts[at].before != "|"), 0)
        masked = seen.masked or part.loose or parts[begin].turned
        says_zero, says_other = (False, _OTHER) if masked else _says(parts, number, flags)
        mine_zero, mine_nonzero = zero and says_zero, min(nonzero, says_other)
        if isinstance(seen, Script):
            around = doubt or doubt_of_place(parts, number, None, own)
            inside = _set(frozenset(), seen.options)
            found += _line(seen.text, own, mine_zero, mine_nonzero, inside, (*here, number, 0), around, folders)
            continue
        end = next((n for n in range(number, len(parts)) if parts[n].after != "|"), number)
        plain = not masked and not part.grouped and (part.after == "&&" or ("errexit" in flags and part.after == ";"))
        found.append(
            _Run(
                check=seen,
                zero=mine_zero,
                nonzero=mine_nonzero,
                placed=placed,
                filters=parts[number + 1 : end + 1],
                chain=here,
                goes_on=plain,
                doubt=doubt or (doubt_of_place(parts, number, seen, own) if seen.kind == "test" else ""),
                place=folders,
            )
        )
    return found


def _folder(part: Segment) -> str:
    """The folder that a ``cd`` goes to; one that cannot be said where its words cannot be read."""
    try:
        return " ".join(word for word in part.words[1:] if word != "--") or "~"
    except UnreadableError:
        return "~"


def _says(parts: Sequence[Segment], number: int, flags: frozenset[str]) -> tuple[bool, int]:
    """Return what a status of the whole says of one command: whether 0 says that its own was 0, and what another one says. All
    that may have happened is played through."""
    first = next((at for at in range(number, 0, -1) if parts[at].before in (";", "&") and "errexit" not in flags), 0)
    parts, number = parts[first:], number - first
    grouped = any(part.grouped for part in parts)
    odd = any(part.name == "exit" or (grouped and part.after == "||") or (part.grouped and part.after == "|") for part in parts)
    free = [at for at, part in enumerate(parts) if at == number or not _settled(part, before=at < number)]
    if odd or len(free) > _FREE:
        return False, _OTHER
    ends = {_play(parts, number, flags, dict(zip(free, some, strict=True))) for some in product((0, 1), repeat=len(free))}
    bad = {own for whole, own in ends if whole}
    return {own for whole, own in ends if not whole} == {0}, _OTHER if 0 in bad or not bad else _AFTER if None in bad else _OWN


def _settled(part: Segment, *, before: bool) -> bool:
    """Whether a command before or after a check is one that does not fail."""
    calm = (_QUIET | {""} if before else _LOUDLESS) | (_PASSING | {"head"} if "|" in (part.before, part.after) else _LOUDLESS)
    return part.name in calm and not part.turned and not part.inner


def _play(parts: Sequence[Segment], number: int, flags: frozenset[str], statuses: dict[int, int]) -> tuple[int, int | None]:
    """The status of a line with commands that end so, and that of one of them, None where it does not run."""
    own, whole, pipe, runs = None, 0, 0, True
    for at, part in enumerate(parts):
        if part.before != "|":
            pipe, runs = 0, part.before not in ("&&", "||") or (whole == 0) == (part.before == "&&")
        if not runs:
            continue
        status = statuses.get(at, 0)
        own = status if at == number else own
        pipe = status or (pipe if "pipefail" in flags else 0)
        if part.after != "|":
            whole = 0 if part.after == "&" else pipe
        if whole and "errexit" in flags and part.after in (";", ""):
            break
    return whole, own


def _set(flags: frozenset[str], words: Sequence[str]) -> frozenset[str]:
    """Return the flags that are set after these words of ``set``, or options of a shell."""
    text = " ".join(words)
    named = re.findall(r"(?<!\S)([-+])\w*o (\w+)", text)
    named += [(sign, "errexit") for sign in re.findall(r"(?<!\S)([-+])\w*e", text)]
    return (flags | {name for sign, name in named if sign == "-"}) - {name for sign, name in named if sign == "+"}


_EACH_ANEW = names_of("git gh glab hg jj")  # what is told these is each time another


def mends(later: str, failed: str) -> bool:
    """Whether the success of a ``later`` command line says that what ``failed`` is right now: it does the same, or the same
    program was asked for the same or for more. What is no check may have other options, but none that leave something out."""
    wanted = actions(failed)[-1:]
    return later == failed or any(
        one == wanted[0] or _takes_in(_asked(one), _asked(wanted[0])) for one in wanted and actions(later)
    )


_Asked = tuple[tuple[str, ...], set[tuple[str, str]], list[str], bool]


def _asked(command: str) -> _Asked:
    """Of a command: what it runs, its options with their values, its targets, and whether it is a check."""
    words = words_of(command)
    check = check_in(words, ())
    if isinstance(check, Check):
        words, size = check.words, check.head
    else:
        check, size = None, len(program(command).split())
    options, targets, rest = set[tuple[str, str]](), list[str](), iter(words[size:])
    for word in rest:
        name, sign, given = word.partition("=")
        if not word.startswith("-"):
            targets.append(word)
        elif word != "--":
            options.add((name, next(rest, "") if not sign and name in VALUED else given))
    if words[:1] == ("go",):  # the only one for which no target is this folder alone
        targets = ["./." if target == "." else target for target in targets or ["."]]
    return words[:size], options, targets, check is not None


def _takes_in(later: _Asked, failed: _Asked) -> bool:
    """Whether a later command asks for all that one before asked for."""
    (head, options, targets, check), (old_head, old_options, old_targets, _) = later, failed
    if not head or head != old_head or head[0] in _EACH_ANEW:
        return head == old_head != ()
    less = {new for new in options for old in old_options if _names_more(new, old)}
    new, gone = options - old_options - less, {old for old in old_options if not any(_names_more(one, old) for one in less)}
    fits = _all_in(new, HARMLESS | WIDE) and _all_in(gone - options, HARMLESS | NARROW)
    if not check:
        fits = not any(name in NARROW for name, _ in new)
    return fits and all(any(_within(old, new) for new in targets) for old in (old_targets or ("",)) if targets)


def _all_in(options: set[tuple[str, str]], names: frozenset[str]) -> bool:
    return all(name in names or name.rstrip("0123456789") in names for name, _ in options)


def _names_more(new: tuple[str, str], old: tuple[str, str]) -> bool:
    """Whether an option picks all that another one picks by name: of plain words the one that is in the other."""
    return new[0] == old[0] and new[0] in NAMED and new[1].isidentifier() and old[1].isidentifier() and new[1] in old[1]


def _within(old: str, new: str) -> bool:
    """Whether a target holds another: a folder its files, a file its tests, ``./...`` all below."""
    whole = new.removesuffix("...").rstrip("/")
    if whole in (".", "/") or old in (new, whole):
        return True
    return old.startswith((f"{whole}/", f"{whole}::", f"{whole}:")) and (new.endswith("...") or not old.endswith("..."))
