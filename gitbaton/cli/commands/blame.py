"""``git baton blame`` and ``why``: where each line of a file came from."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, bare, first_line, in_double_quotes, in_quotes, plain
from gitbaton.base.errors import BatonError, NotFoundError, UsageError
from gitbaton.base.model import (
    BEFORE_PROMPT,
    LAST_PROMPT,
    NOT_ENDED,
    TURN_ENDED,
    Oid,
    Prompt,
    Stored,
    TestRun,
    at_prompt,
    is_turn,
)
from gitbaton.care.tools.blaming import BlamedCommit, BlamedLine, before, blame, turn_around, turns_behind
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import (
    in_shell,
    names_prompt,
    path_in_quotes,
    quote,
    stored_document,
    test_line,
    test_result,
    title,
    turn_of,
    turn_prompt,
)
from gitbaton.checkpoints.store.turns import Span
from gitbaton.cli.columns import brief, cut
from gitbaton.cli.common import AsJson, one_of, opened, paged, print_json, refuse, warn_all
from gitbaton.cli.look import Cell, Column, Look
from gitbaton.cli.options import Argument, Invocation, Option

_COLUMNS = (Column(), Column(goes=2), Column(goes=1, right=True), Column(goes=3), Column())
_WORDS = 40  # columns of a checkpoint's words beside a line
_NOBODYS = "by hand, or by a command of an agent"


def command(
    ctx: Invocation,
    file: Annotated[
        Optional[str],
        Argument(metavar="FILE", help="A file of the work tree, as it is now; with --agent-trace a RANGE of commits, or one."),
    ] = None,
    lines: Annotated[
        Optional[list[str]], Option("-L", metavar="RANGE", help="Only these lines, as for git blame: 3,7 or 3,+5; may repeat.")
    ] = None,
    trace: Annotated[
        bool, Option("--agent-trace", help="Export the lines of commits (HEAD, A..B) that agents wrote, as Agent Trace has it.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Show with which checkpoint each line of a file came, or with which commit.

    A line came with the checkpoint of any track that held it first while its own HEAD did not, else with a commit. Lines that
    nobody committed are included; 'now' is what no checkpoint holds yet.

    --agent-trace [RANGE] prints a record of the Agent Trace specification 0.1.0, JSON in one line, for each commit that brought
    lines which are known to be an agent's: by default HEAD alone. A conversation is a turn, its 'url' git-baton:ID, where ID is
    what 'git baton transcript show' takes. Lines of which it is not known, and a person's, are in no range.

    Examples:
        git baton blame a.txt
        git baton blame a.txt -L 1,1
        git baton blame --agent-trace HEAD
    """
    one_of(**{"agent-trace": trace, "json": json})
    refuse((trace and bool(lines), "--agent-trace and -L exclude each other"))
    if trace:
        return _trace(ctx, file or "HEAD")
    if file is None:
        raise UsageError("missing argument 'FILE'", f"{ctx.command_path} FILE")
    with opened(ctx) as baton, baton.store.keeping(), tempfile.TemporaryDirectory(prefix="gitbaton-") as scratch:
        found, warnings = of_file(baton, scratch, ctx.obj.repo_root, file, lines or ())
        warn_all(warnings)
        behind = turns_behind(baton, found)
        if json:
            print_json({"file": file, "lines": [line_document(line, behind.get(line.number)) for line in found]})
        else:
            with paged(ctx, baton) as look:
                origins = (line.origin for line in found if line.origin)
                ids = look.ids(one.oid if isinstance(one, BlamedCommit) else one.id for one in origins)
                wide = len(str(found[-1].number)) if found else 1
                rows = [
                    [*_origin(look, ids, line, behind.get(line.number)), f"{line.number:{wide}}  {shown(line)}"]
                    for line in found
                ]
                terminal.say_lines(look.table(_COLUMNS, rows))
    return 0


def _trace(ctx: Invocation, word: str) -> int:
    """Print the Agent Trace records of commits, one a line."""
    with opened(ctx) as baton, baton.store.keeping(), tempfile.TemporaryDirectory(prefix="gitbaton-") as scratch:
        from json import dumps

        from gitbaton.care.tools.tracing import records

        found = False
        for told in records(baton, scratch, word):
            terminal.say(dumps(told, separators=(",", ":")))
            found = True
    if not found:
        terminal.tell(f"hint: no line that {in_quotes(word)} brought is known to be an agent's")
    return 0


def of_file(
    baton: Baton, scratch: str, start: Optional[str], file: str, ranges: Sequence[str]
) -> tuple[list[BlamedLine], list[str]]:
    """Return the lines of a file that is named as seen from the current directory, and the warnings; ``scratch`` is a folder
    for objects, to be removed after the last use of ``baton``. Raises NotFoundError, UsageError."""
    root = baton.repo.layout.root
    if root is None:
        raise BatonError("there is no work tree to look at")
    folder, name = os.path.split(os.path.join(os.path.realpath(start or os.getcwd()), file))
    path = os.path.relpath(os.path.join(os.path.realpath(folder), name), os.path.realpath(root))
    if path.startswith("../") or not name:
        raise NotFoundError(f"{path_in_quotes(file)} is no file of this work tree")
    found, warnings = blame(baton, path, scratch, ranges)
    return found, [text for text in warnings if path_in_quotes(path) in text]


def shown(line: BlamedLine) -> str:
    """Return the text of a line, fit for a terminal."""
    return plain(line.text.decode("utf-8", "replace").expandtabs(4).rstrip("\r"))


def _origin(look: Look, ids: Mapping[str, Cell], line: BlamedLine, turn: Optional[Span]) -> list[Cell | str]:
    one, behind = line.origin, _title(turn) if turn is not None else ""
    if one is None:
        return [(("now", "drift"),), "", "", "in no checkpoint yet"]
    if isinstance(one, BlamedCommit):
        words = cut(plain(behind or one.summary), _WORDS)
        return [ids[one.oid], "commit", look.age(one.created), look.words(turn.end, words) if turn and turn.end else words]
    track = plain(one.checkpoint.track)
    words = cut(title(one)[0] if is_turn(one.checkpoint.kind, one.checkpoint.step) else behind or title(one)[0], _WORDS)
    words = _NOBODYS if _is_nobodys(one, line.path) else words
    return [ids[one.id], track, look.age(one.checkpoint.created), look.words(one, words)]


def _is_nobodys(stored: Stored, path: str) -> bool:
    """Whether a checkpoint holds a turn whose prompt no hook heard, and a path is not known to be edited in it."""
    turn = stored.checkpoint.turn
    return turn is not None and turn.unheard and path not in turn.edited


def _title(turn: Span) -> str:
    """Return the title of a turn, as lists have it; empty where its prompt is not known."""
    end = turn.end
    if end is not None and is_turn(end.checkpoint.kind, end.checkpoint.step):
        return title(end)[0]
    return f"{NOT_ENDED}: {first_line(turn.prompt)}" if turn.prompt else ""


def line_document(line: BlamedLine, turn: Optional[Span]) -> dict[str, Json]:
    """Return the JSON of a line, of its origin, and of the turn in which it came."""
    one = line.origin
    origin: Json = None
    if isinstance(one, BlamedCommit):
        origin = {"commit": one.oid, "author": one.author, "summary": one.summary}
    elif one is not None:
        origin = {"checkpoint": stored_document(one)}
    text = line.text.decode("utf-8", "replace")
    found: dict[str, Json] = {"line": line.number, "text": text, "origin": origin, "path": line.path, "then": line.then}
    if turn is not None:
        by, end = turn.session, turn.end
        whose: dict[str, Json] = {"agent": by.name, "session": by.session} if by is not None else {}
        found["turn"] = {**whose, "prompt": turn.prompt, "checkpoint": end.id if end is not None else None}
    return found


_SAID = 12  # lines of what the agent said


def why(
    ctx: Invocation,
    words: Annotated[
        list[str], Argument(metavar="FILE:LINE", help="A line of a file of the work tree, as it is now; or FILE LINE.")
    ],
    json: AsJson = False,
) -> int:
    """Show the words behind a line: the checkpoint that it came with, its prompt, tests and what the agent said.

    The checkpoint is the one that 'git baton blame' names. Conversations are shown as far as they are stored here.

    Examples:
        git baton why a.txt:1
    """
    if words[2:]:
        raise UsageError(f"unexpected argument {in_quotes(words[2])}", f"'{ctx.command_path} -h' shows what there is")
    file, number = line_named(":".join(words))
    with opened(ctx) as baton, baton.store.keeping(), tempfile.TemporaryDirectory(prefix="gitbaton-") as scratch:
        [line], warnings = of_file(baton, scratch, ctx.obj.repo_root, file, [f"{number},+1"])
        warn_all(warnings)
        older, turn = before(baton, line), turns_behind(baton, [line]).get(line.number)
        if json:
            print_json({"file": file, **line_document(line, turn), "before": [*older]})
        else:
            with paged(ctx, baton) as look:
                terminal.say_lines(why_lines(baton, look, file, line, older, turn))
    return 0


def line_named(place: str) -> tuple[str, int]:
    """Return the file and the number of FILE:LINE. Raises UsageError."""
    file, _, number = place.rpartition(":")
    if not file or not number.isdecimal() or len(number) > 9 or int(number) == 0:
        raise UsageError(f"{in_quotes(place)} is not FILE:LINE", "such as src/num.py:13")
    return file, int(number)


def why_lines(baton: Baton, look: Look, file: str, line: BlamedLine, older: tuple[str, ...], turn: Optional[Span]) -> list[str]:
    """Return a line of a file as it is named, and the words behind it: of its origin, and of the turn in which it came."""
    head = f"{plain(file)}:{line.number}   {shown(line).strip()}"
    return [head, *_behind(baton, look, line, older, in_shell(file), turn)]


def _behind(baton: Baton, look: Look, line: BlamedLine, older: tuple[str, ...], file: str, turn: Optional[Span]) -> list[str]:
    one = line.origin
    there = in_shell(f":(top){line.path}") if line.path != os.path.normpath(file) else file  # elsewhere, or renamed since
    was = [_pair("before", plain(text).strip()) for text in older]
    if one is None:
        diff = [f"git baton diff -- {file}"] if baton.store.chains()[0] else []
        return ["came since the newest checkpoint, and is in none yet", *was, *diff]
    if isinstance(one, BlamedCommit):
        oid = look.id(one.oid)
        came = f"came with commit {oid}, {in_double_quotes(one.summary)}, {bare(one.author)}, {look.age(one.created)}"
        said, ends = _of_turn(baton, look, turn) if turn is not None else ([], [])
        return [came, *said, *was, f"git show {oid} -- {there}", *ends]
    c, oid = one.checkpoint, look.id(one.id)
    number = turn_of(turn.end.checkpoint if turn is not None and turn.end is not None and turn_of(c) else c)
    of = f"turn {number} of " if number else "track "
    prompted, by_hand = at_prompt(c.kind, c.step), c.kind == "auto" and c.step == BEFORE_PROMPT
    client, previous = f", {bare(c.agent.name)}" if c.agent and not by_hand else "", c.previous
    came = f"came with {oid}, {of}{bare(c.track)}, {look.age(c.created)}{client}"
    kept = previous is not None and _is_there(baton, previous)
    diff = [f"git baton diff {baton.short(previous)} {baton.short(one.id)} -- {there}"] if previous and kept else []
    perhaps = (
        (not kept and previous is not None, "of an earlier one: those before it were removed"),
        (prompted and not by_hand, "by hand, before the next prompt"),
    )
    doubts = [_pair("perhaps", text) for holds, text in perhaps if holds]
    nobodys = _pair("step", f"{_NOBODYS}: no hook heard the prompt of the turn that ended there")
    words = [nobodys] if _is_nobodys(one, line.path) else _words(baton, look, one, turn)
    return [came, *quote([*words, *was, *doubts], one), *diff, f"git baton show {baton.short(one.id)}"]


def _of_turn(baton: Baton, look: Look, turn: Span) -> tuple[list[str], list[str]]:
    """Return the words of the turn in which a commit was made, and the command that shows its end, if it has one."""
    client, end = f", {bare(turn.session.name)}" if turn.session is not None else "", turn.end
    if end is None:
        return [_pair("turn", f"{'goes on' if turn.open else 'not ended'}{client}"), *_prompted(turn)], []
    c, number = end.checkpoint, turn_of(end.checkpoint)
    state = f"{number} of " if number else "not ended, of " if at_prompt(c.kind, c.step) else ""
    rows = [_pair("turn", f"{state}{bare(c.track)}, {look.age(c.created)}{client}")]
    rows += _words(baton, look, end, turn) if is_turn(c.kind, c.step) else _prompted(turn)
    return quote(rows, end), [f"git baton show {baton.short(end.id)}"]


def _prompted(turn: Span) -> list[str]:
    return [_pair("prompt", turn.prompt)] if turn.prompt else []


def _is_there(baton: Baton, oid: Oid) -> bool:
    try:
        return bool(baton.resolve(oid))
    except NotFoundError:  # pruned since
        return False


def _words(baton: Baton, look: Look, stored: Stored, turn: Optional[Span]) -> list[str]:
    """The words of a checkpoint and of the turn that it ended, or in which it was taken."""
    c, seen = stored.checkpoint, stored.checkpoint.observed
    if at_prompt(c.kind, c.step):  # what was observed is older than the files
        if c.step == BEFORE_PROMPT:
            return [_pair("step", "changed before a prompt, in no turn of this session: by hand, or by another agent")]
        return [_pair("prompt", c.step.removeprefix(NOT_ENDED).removeprefix(": ").rpartition(LAST_PROMPT)[2])]
    tells = stored if c.kind in ("auto", "imported") else turn_around(baton, stored)
    told = baton.told(tells) if tells is not None else None
    asked = (told.asked if told else ()) or (tells.checkpoint.observed.asked if tells and tells.checkpoint.observed else ())
    latest = told.latest if told else None  # which may say nothing by itself
    prompt = turn_prompt(tells.checkpoint.step, asked) if tells is not None and asked else latest
    if turn is not None and turn.prompt and not is_turn(c.kind, c.step):  # in its midst the records may tell of one before
        since = turn.began.checkpoint.created if turn.began is not None else c.created
        own = (one for one in reversed(asked) if names_prompt(f"{TURN_ENDED}: {turn.prompt}", one))
        prompt = next(own, Prompt(text=turn.prompt, at=since))
    decided = [("decision", one.text) for one in c.decided if one.made >= c.created]
    words = [("step", brief(c.step)), *([("note", c.note)] if c.note else []), *decided] if c.kind == "manual" else []
    words += [("prompt", prompt.text)] if prompt is not None else []
    rows = [*(_pair(*word) for word in words), *(_tests(look, run) for run in (seen.tests[:1] if seen else ()))]
    last = (one for one in (told.said, told.saying) if one) if told else ()
    said = next((one for one in last if prompt is None or one.at >= prompt.at), None)
    if said is not None:  # what was said before it was asked is another turn's
        kept = said.text.strip().splitlines()
        one = tells or stored
        more = [f"... and {len(kept) - _SAID} lines more: git baton transcript show {baton.short(one.id)}"]
        rows.append(_pair("said", "\n".join([*kept[:_SAID], *(more if len(kept) > _SAID else [])])))
    return rows or [_pair("step", brief(c.step))]


def _tests(look: Look, run: TestRun) -> str:
    """A test command, and how it ended in a sign and a word."""
    command, ended = first_line(run.command), test_result(run)
    rest = test_line(run, look.age(run.ended), run.edited).removeprefix(f"{command}: {ended}")
    return f"{_pair('tests', command)}  {look.text(look.state(run.result, ended))}{plain(rest)}"


def _pair(name: str, text: str) -> str:
    """Return a name and its text, further lines below each other."""
    first, *rest = [plain(row) for row in text.split("\n")]
    return "\n".join([f"  {name:<9}{first}", *(f"{'':11}{row}" for row in rest)])
