"""``git baton drill``."""

import sys

from gitbaton import terminal
from gitbaton.commands.common import AsJson, opened, picked, print_json
from gitbaton.commands.options import Call
from gitbaton.tools import drilling


def command(
    ctx: Call,
    json: AsJson = False,
) -> int:
    """Prove recovery: kill, lose the context, resume and restore, in a scratch copy of this repository.

    One line a step: what was proven, or what failed. Exit 1 when a step failed. The repository itself stays as it is.
    """
    with opened(ctx) as baton:
        done: list[drilling.Step] = []
        for step in drilling.drill(baton):
            done.append(step)
            if not json:
                terminal.say(f"{'ok' if step.ok else 'FAILED':<6} {step.name}: {step.text} ({step.milliseconds} ms)")
                sys.stdout.flush()
    ok = all(step.ok for step in done)
    if json:
        print_json({"ok": ok, "steps": [picked(step, "name", "ok", "text", "milliseconds") for step in done]})
    return 0 if ok else 1
