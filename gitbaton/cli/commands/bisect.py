"""``git baton bisect``."""

import shlex
import sys
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, counted, path_document
from gitbaton.base.errors import UsageError
from gitbaton.care.tools import bisection
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell, stored_document
from gitbaton.checkpoints.survey import tests_then
from gitbaton.cli.common import ended_by_signal, looking, opened, picked, print_json, warn_all
from gitbaton.cli.look import Look
from gitbaton.cli.options import AFTER, Argument, Invocation, Option


def command(
    ctx: Invocation,
    words: Annotated[list[str], Argument(metavar="-- CMD...", help="Exit 0: good, 125: cannot tell, up to 127: bad.")],
    good: Annotated[Optional[str], Option(metavar="CHECKPOINT", help="One where CMD succeeds.")] = None,
    bad: Annotated[
        Optional[str], Option(metavar="CHECKPOINT", help="A later one where CMD fails; default: the track's newest.")
    ] = None,
    trust_good: Annotated[bool, Option("--trust-good", help="Take the good one for good without running CMD on it.")] = False,
    foreign: Annotated[bool, Option("--foreign", help="Run the command on fetched checkpoints, too.")] = False,
    json: Annotated[bool, Option("--json", help="Print JSON; the command's output goes to standard error.")] = False,
) -> int:
    """Find the checkpoint that broke it: run CMD on checkpoints between a good and a bad one.

    CMD runs in a temporary work tree; HEAD, index, files and refs stay as they are. It is run on the bad one first, then on
    the good one. Exit 1 when one of them is not what it is said to be, or those that are left cannot be tried.

    By default the bad one is the newest of the good one's track; --trust-good leaves the run on the good one out. Exit status 0
    of CMD is good, 125 cannot be tried, any other up to 127 is bad; a higher one, or a CMD that cannot be run, ends the search.
    What CMD leaves beside the checkpoint's files stays for the next run, as with 'git bisect run'. Checkpoints without files
    are skipped. The step, the note and the diffstat against the checkpoint before are printed. The work tree is removed; after
    a kill by the next run, bisect or drill. With --json the output of CMD goes to standard error.

    Examples:
        git baton bisect --good parser~2 -- sh -c 'test "$(cat a.txt)" != three'
    """
    if words[0] == "run" and words[1:] and (ctx.meta.get(AFTER) or 0) < len(words):  # as git has it: bisect run CMD
        words = words[1:]
    with ended_by_signal(), opened(ctx) as baton:
        if good is None:
            raise _no_good(baton, bad, words)
        plan = bisection.plan(baton, good, bad, foreign=foreign, trust_good=trust_good)
        warn_all(plan.warnings)
        look = looking(ctx, baton, fd=2 if json else 1)

        def say(step: bisection.BisectStep) -> None:
            left = f"({step.left} left after this, about {counted(step.steps, 'step')})"
            said = f"trying {f'the {step.end} one' if step.end is not None else left}: "
            (terminal.tell if json else terminal.say)(look.fit(said, look.named(step.checkpoint)))
            sys.stdout.flush()
            sys.stderr.flush()

        verdict = bisection.search(baton, plan, words, out=2 if json else 1, say=say)
        if json:
            candidates = [stored_document(c) for c in verdict.candidates]
            changes = [{"path": path_document(c.path), **picked(c, "added", "deleted")} for c in verdict.changes]
            found: dict[str, Json] = {"first_bad": candidates[0] if verdict.found else None, "candidates": candidates}
            print_json({**found, "good": stored_document(verdict.good), "changes": changes, "tried": verdict.tried})
        else:
            _show(baton, look, verdict)
    return 0 if verdict.found else 1


def _no_good(baton: Baton, bad: Optional[str], words: list[str]) -> UsageError:
    """Return the error of a search without a good end, with the line that begins at the oldest checkpoint that has files."""
    last = baton.resolve(bad) if bad is not None else baton.tip()
    items = (s for s in reversed(baton.store.history(last.checkpoint.track).items) if s.checkpoint.files)
    first = next((s for s in items if not s.foreign and s.id != last.id), None)
    hints = ["'git baton log' lists checkpoints"]
    if first is not None:
        ends = f"{baton.short(first.id)}{f' --bad {in_shell(bad)}' if bad else ''} -- {shlex.join(words)}"
        hints.insert(0, f"from the oldest one, if CMD succeeds there: git baton bisect --good {ends}")
    return UsageError("--good is missing: a checkpoint where CMD succeeds", *hints)


def _show(baton: Baton, look: Look, verdict: bisection.BisectVerdict) -> None:
    if not verdict.found:
        terminal.say("only checkpoints that cannot be tried are left; the first bad one is one of")
        terminal.say_lines(look.fit(look.named(stored)) for stored in verdict.candidates)
        return
    from gitbaton.cli import view

    first = verdict.candidates[0]
    terminal.say(f"{look.id(first.id)} is the first bad checkpoint")
    rows = view.words(baton, look, first, view.ViewFacts(later=tests_then(baton.store, first)))
    terminal.say_lines(view.lines(look, first, rows))
    terminal.say(look.fit("against ", look.named(verdict.good)))
    terminal.write(verdict.stat)
