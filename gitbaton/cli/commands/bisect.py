"""``git baton bisect``."""

import sys
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, counted, path_document
from gitbaton.care.tools import bisection
from gitbaton.checkpoints.render import key_value, stored_document
from gitbaton.cli.columns import brief
from gitbaton.cli.common import ended_by_signal, looking, opened, picked, print_json, warn_all
from gitbaton.cli.look import Look
from gitbaton.cli.options import Argument, Invocation, Option


def command(
    ctx: Invocation,
    words: Annotated[list[str], Argument(metavar="-- CMD...", help="Exit 0: good, 125: cannot tell, up to 127: bad.")],
    good: Annotated[str, Option(metavar="CHECKPOINT", help="One where CMD succeeds.")],
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
    with ended_by_signal(), opened(ctx) as baton:
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
            _show(look, verdict)
    return 0 if verdict.found else 1


def _show(look: Look, verdict: bisection.BisectVerdict) -> None:
    if not verdict.found:
        terminal.say("only checkpoints that cannot be tried are left; the first bad one is one of")
        terminal.say_lines(look.fit(look.named(stored)) for stored in verdict.candidates)
        return
    first = verdict.candidates[0]
    rows = [
        f"{look.id(first.id)} is the first bad checkpoint",
        key_value("step", brief(first.checkpoint.step)),
        key_value("note", first.checkpoint.note),
        look.fit("against ", look.named(verdict.good)),
    ]
    terminal.say_lines(rows)
    terminal.write(verdict.stat)
