"""``git baton snapshot``."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.clients import agent_of
from gitbaton.base.codec import EXTRA_KEY, Json, document, in_quotes
from gitbaton.base.errors import UsageError
from gitbaton.base.model import IGNORED, VALIDATIONS, Checkpoint, Decision
from gitbaton.checkpoints.baton import Baton, Request, Snapshot, SnapshotPlan
from gitbaton.checkpoints.render import (
    in_shell,
    kept_here,
    kept_names,
    line,
    porcelain,
    redacted_document,
    skipped_lines,
    stored_document,
)
from gitbaton.checkpoints.store import state
from gitbaton.cli.columns import brief, fitted
from gitbaton.cli.common import Porcelain, Verbose, one_of, opened, picked, print_json, refuse, warn_all
from gitbaton.cli.options import Argument, Invocation, Option

Text = Optional[str]
Texts = Optional[list[str]]
_LISTED = 10  # decisions that a dry run names, the newest
COLUMNS = ("track", "id", "step", "previous", "commit", "changed", "skipped")


def command(
    ctx: Invocation,
    words: Annotated[Texts, Argument(metavar="[STEP]", help="What is done; may be left out with --label.")] = None,
    step: Annotated[Texts, Option("--step", "-m", metavar="TEXT", help="The same, as an option.")] = None,
    track: Annotated[
        Text, Option(metavar="NAME", help="Default: GIT_BATON_TRACK, baton.track, the current one, the branch's name.")
    ] = None,
    note: Annotated[str, Option(metavar="TEXT", help="What the next runner must know; '-' reads standard input.")] = "",
    next_cmd: Annotated[str, Option(metavar="TEXT", help="What to run next, in one line; '-' reads standard input.")] = "",
    validation: Annotated[
        str, Option("--validation", "--tests", metavar="green|pending|failed", help="How the tests stand.")
    ] = "pending",
    decision: Annotated[
        Texts, Option(metavar="TEXT", help="A decision taken, and why; stands until withdrawn; may repeat.")
    ] = None,
    about: Annotated[Texts, Option(metavar="PATH", help="What the decisions of this call are about; may repeat.")] = None,
    withdraw: Annotated[
        Texts, Option(metavar="N|TEXT", help="End a decision: its number in 'resume', or how it begins; may repeat.")
    ] = None,
    keep: Annotated[
        Texts, Option(metavar="note|extra.KEY|N", help="Have later snapshots take it over; affirm decision N; may repeat.")
    ] = None,
    label: Annotated[Text, Option(metavar="TEXT", help="A short name for 'show'; pruning keeps what has one.")] = None,
    extra: Annotated[Texts, Option(metavar="KEY=VALUE", help="Anything else worth keeping; may repeat.")] = None,
    set_current: Annotated[bool, Option(help="Make the track the one that a bare 'resume' means here.")] = True,
    files: Annotated[bool, Option(help="Record the work tree and the index, too.")] = True,
    include: Annotated[Texts, Option(metavar="PATH", help="Take in what was ignored until now; may repeat.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", "-n", help="Say what would be recorded; write nothing.")] = False,
    verbose: Verbose = False,
    json: Annotated[bool, Option("--json", help="Print the checkpoint as JSON.")] = False,
    stable: Porcelain = False,
    checkpoint_dir: Annotated[Text, Option(metavar="DIR", help="Where LATEST.md and LATEST.json go.")] = None,
) -> int:
    """Record a checkpoint: what is done, what comes next, and the whole work tree.

    Prints the track, the checkpoint's short id and the step. HEAD, branches, index and files stay as they are.

    The track comes from --track, GIT_BATON_TRACK or baton.track, else it is the current one, the only one that no other work
    tree has, or one that is named after the branch; it becomes current in this work tree unless --no-set-current is given. The
    step may be left out with --label, which then is the step. '--note -' and '--next-cmd -' read standard input. --no-files
    leaves the work tree out. --include takes in what is left out because ignore rules covered it until now; PATH is a pathspec,
    as seen from the current directory. --dry-run prints what would be recorded and leaves nothing behind.

    Decisions stand until --withdraw ends them: a snapshot takes over those that do, adds its own, and 'resume' numbers them.
    One that is given again stands once; --keep N says that decision N still holds. Where they are --about files or folders,
    'resume' says what changed these since. '--keep note' and '--keep extra.KEY' have the note or an extra taken over in the
    same way, until --withdraw names it.

    Examples:
        git baton snapshot "lexer done" --next-cmd "pytest tests/parser" --validation green   # the usual one
        git baton snapshot "before the rewrite" --label before-rewrite   # a milestone, which prune keeps
        git baton snapshot "api split" --decision "no async: 3.8 must run it" --about src/api   # stands from now on
        git baton snapshot "api is async" --withdraw 1   # until it is taken back
        git baton snapshot "try" --dry-run
    """
    one_of(json=json, porcelain=stable)
    if include and not files:
        raise UsageError("--include and --no-files exclude each other")
    done = _step(words or [], step or [], dry_run=dry_run)
    _check(done, label, note, next_cmd, validation)
    request = Request(
        track=track,
        step=done or "",
        note=_text(note),
        next_cmd=_text(next_cmd),
        validation=next(v for v in VALIDATIONS if v == validation),
        decisions=tuple(decision or ()),
        label=label,
        extra=_pairs(extra or []),
        agent=agent_of(os.environ),
        files=files,
        set_current=set_current,
        include=tuple(include or ()),
        directory=os.getcwd() if include or about else None,
        withdraw=tuple(withdraw or ()),
        about=tuple(about or ()),
        keep=tuple(keep or ()),
    )
    with opened(ctx, checkpoint_dir, talks="" if json or stable else "looking at files") as baton:
        if dry_run:
            return _show_plan(baton.dry_run(request), json=json, stable=stable, verbose=verbose)
        taken = baton.apply(baton.plan(request))
        return _show(baton, taken, named=bool(track or baton.settings.track), json=json, stable=stable, verbose=verbose)


def _step(words: list[str], options: list[str], *, dry_run: bool) -> Text:
    """Return the step, as the argument or as the option."""
    if dry_run and len(words) + len(options) == 2:
        done, then = [*options, *words]
        hint = f"-n is --dry-run; to say what comes next: git baton snapshot {in_shell(done)} --next-cmd {in_shell(then)}"
        raise UsageError(f"unexpected argument {in_quotes(line(then))}", hint)
    if len(words) > 1:
        hint = f"several words are one step in quotes: git baton snapshot {in_shell(' '.join(words))}"
        raise UsageError(f"unexpected argument {in_quotes(line(words[1]))}", hint)
    given = [*words, *options]
    if len(given) > 1:
        raise UsageError(f"the step is given twice, as {in_quotes(line(given[0]))} and as {in_quotes(line(given[1]))}")
    return given[0] if given else None


def _check(step: Text, label: Text, note: str, next_cmd: str, validation: str) -> None:
    """Refuse words that cannot be meant, in the command line's own terms."""
    hint = "say what is done: 'git baton snapshot \"what is done\"'; or name the checkpoint with --label TEXT"
    known = "it can be 'green', 'pending' or 'failed'"
    refuse(
        (note == "-" and next_cmd == "-", "--note and --next-cmd cannot both read standard input"),
        (step is None and label is None, "no step is given", hint),
        (label is not None and not label.strip(), "the label is empty"),
        (step is not None and not step.strip(), "the step is empty"),
        (validation not in VALIDATIONS, f"--validation is {in_quotes(line(validation))}; {known}"),
    )


def _text(value: str) -> str:
    """Return the value, or standard input for ``-``, without its last newline."""
    if value != "-":
        return value
    try:
        return sys.stdin.buffer.read(1 << 20).decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8") from None


def _pairs(entries: list[str]) -> tuple[tuple[str, str], ...]:
    """Return ``KEY=VALUE`` entries as pairs. Raises UsageError that names the entry."""
    pairs: dict[str, str] = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals:
            raise UsageError(f"--extra {in_quotes(line(entry))} is not KEY=VALUE")
        if not EXTRA_KEY.match(key):
            raise UsageError(f"--extra {in_quotes(line(entry))}: the key does not match [A-Za-z0-9][A-Za-z0-9._-]{{0,63}}")
        if key in pairs:
            raise UsageError(f"--extra {in_quotes(line(entry))} names the key '{key}' a second time")
        pairs[key] = value
    return tuple(pairs.items())


def _show(baton: Baton, snapshot: Snapshot, *, named: bool, json: bool, stable: bool, verbose: bool) -> int:
    stored = snapshot.stored
    c = stored.checkpoint
    skipped = c.files.skipped if c.files else ()
    if json:
        said: dict[str, Json] = {"checkpoint": stored_document(stored), "redacted": redacted_document(snapshot.redacted)}
        print_json({**said, **_withdrew(snapshot), **picked(snapshot, "warnings")})
    elif stable:
        changed = str(c.files.changed) if c.files else ""
        row = (c.track, stored.id, c.step, c.previous or "", stored.commit, changed, str(len(skipped)))
        terminal.write(porcelain(COLUMNS, [row], nul=False))
    else:
        terminal.say(fitted(f"{c.track} {baton.short(stored.id)} {brief(c.step)}"))
        terminal.say_lines(fitted(f"withdrew decision {one.number}: {brief(one.text)}") for one in snapshot.ended)
        if c.previous is None:
            _say_new(baton, c.track, named=named)
    warn_all([*snapshot.warnings, *skipped_lines(skipped, baton.short(stored.id), verbose=verbose)])
    if (path := next((s.path for s in skipped if s.reason == IGNORED), None)) is not None:
        file = in_shell(os.path.relpath(os.path.join(baton.repo.layout.root or "", path)))
        terminal.tell(f"hint: 'git baton snapshot -m \"take it in\" --include {file}' takes it in")
    if more := kept_here(c.files, named=False):
        terminal.tell(f"hint: {more}")
    return 0


def _withdrew(of: SnapshotPlan | Snapshot) -> dict[str, Json]:
    """Return the decisions that end, where any do."""
    return {"withdrawn": [picked(one, "number", "text") for one in of.ended]} if of.ended else {}


def _say_new(baton: Baton, track: str, *, named: bool) -> None:
    """Warn that a track is new, where another one may have been meant: one of nearly that name, or, where none was named, the
    newest that was fetched."""
    from gitbaton.checkpoints.names import near

    known = state.read_newest(baton.repo)
    many = known is not None and known.count > state.SHOWN  # then the newest
    tips = () if many else baton.readable_tips().items
    other = near(track, [row[3] for row in known.rows] if known and many else [s.checkpoint.track for s in tips])
    fetched = None if other or named else next((s.checkpoint.track for s in tips if s.foreign), None)
    if meant := other or fetched:
        terminal.warn(f"track {in_quotes(line(track))} is new; there is {in_quotes(line(meant))}, too")
    if fetched:
        terminal.tell(f"hint: 'git baton tracks use {in_shell(fetched)}' goes on with that one")


def _done_to(one: Decision, c: Checkpoint, keep: Sequence[str]) -> str:
    if one.made < c.created:
        return "take over"
    return "affirm" if any(name == str(one.number) or one.text.startswith(name) for name in keep) else "add"


def _show_plan(plan: SnapshotPlan, *, json: bool, stable: bool, verbose: bool) -> int:
    c = plan.checkpoint
    skipped = c.files.skipped if c.files else ()
    if json:
        said: dict[str, Json] = {"plan": document(c), "redacted": redacted_document(plan.redacted)}
        print_json({**said, **_withdrew(plan), **picked(plan.request, "set_current"), **picked(plan, "warnings")})
    elif stable:
        terminal.write(porcelain(COLUMNS, [(c.track, "", c.step, "", "", "", str(len(skipped)))], nul=False))
    else:
        keep, more, kept = plan.request.keep, len(c.decided) - _LISTED, kept_names(c)
        told = (f"would {_done_to(one, c, keep)} decision {one.number}: {brief(one.text)}" for one in c.decided[-_LISTED:])
        rows = [
            fitted(f"would record {c.track}: {brief(c.step)}"),
            *(fitted(f"would withdraw decision {one.number}: {brief(one.text)}") for one in plan.ended),
            *map(fitted, told),
            *([f"would take over {more} more"] if more > 0 else []),
            *([fitted(f"would keep {kept}")] if kept else []),
            *([f"would capture tree {c.files.tree}"] if c.files else []),
            f"would {'' if plan.request.set_current else 'not '}make the track current in this work tree",
        ]
        terminal.say_lines(rows)
    warn_all([*plan.warnings, *skipped_lines(skipped, verbose=verbose)])
    return 0
