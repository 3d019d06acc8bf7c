"""``git baton drill``."""

import sys

from gitbaton.base import terminal
from gitbaton.care.tools import drilling
from gitbaton.cli.common import AsJson, ended_by_signal, opened, picked, print_json
from gitbaton.cli.options import Invocation


def command(
    ctx: Invocation,
    json: AsJson = False,
) -> int:
    """Prove recovery: kill, lose the context, resume and restore, in a scratch copy of this repository.

    One line a step: what was proven, or what failed. Exit 1 when a step failed. The repository itself stays as it is.

    It puts the newest checkpoint of the current (or only) track into a work tree, records, changes files, kills snapshots,
    loses LATEST, tips and notes, resumes in a new process, restores, undoes, kills restores, and collects garbage; plain git
    judges each step. The copy borrows the repository's objects and is removed; after a kill by the next run,
    bisect or drill.

    Examples:
        git baton drill
    """
    with ended_by_signal(), opened(ctx, talks="" if json else "drilling") as baton:
        done: list[drilling.DrillStep] = []
        for step in drilling.drill(baton):
            done.append(step)
            if not json:
                terminal.say(f"{'ok' if step.ok else 'FAILED':<6} {step.name}: {step.text} ({step.milliseconds} ms)")
                sys.stdout.flush()
                baton.repo.progress("drilling", 0, 0)
    ok = all(step.ok for step in done)
    if json:
        print_json({"ok": ok, "steps": [picked(step, "name", "ok", "text", "milliseconds") for step in done]})
    return 0 if ok else 1
