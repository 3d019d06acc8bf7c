"""``git baton doctor``."""

from typing import Annotated

import typer

from gitbaton import doctor, terminal
from gitbaton.codec import Json, plain
from gitbaton.commands.common import opened, print_json, warn_all


def command(
    ctx: typer.Context,
    fix: Annotated[bool, typer.Option("--fix", help="Repair what is behind; remove stale locks.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Say what is installed, what would not run, what is behind, and the one line that mends it."""
    with opened(ctx) as baton:
        if fix:
            warn_all(doctor.fix(baton))
        found = doctor.examine(baton)
    amiss = any(not f.ok for f in found)
    if json:
        rows: list[Json] = [{"name": f.name, "ok": f.ok, "text": f.text, "mend": f.mend} for f in found]
        print_json({"ok": not amiss, "findings": rows})
    else:
        for f in found:
            terminal.say(f"{'ok  ' if f.ok else 'MEND'} {f.name}: {plain(f.text)}")
            if f.mend and not f.ok:
                terminal.say(f"     {plain(f.mend)}")
    return 1 if amiss else 0
