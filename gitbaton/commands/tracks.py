"""``git baton tracks``."""

from typing import Annotated, Optional

import typer

from gitbaton import terminal
from gitbaton.codec import Json, plain, timestamp
from gitbaton.commands.common import one_of, opened, paged, print_json, warn_all
from gitbaton.errors import UsageError
from gitbaton.render import age, line, origin, porcelain, quoting, stored_document

COLUMNS = ("current", "track", "id", "created", "commit")


def command(
    ctx: typer.Context,
    words: Annotated[Optional[list[str]], typer.Argument(metavar="[use NAME]", help="Set the current track.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    stable: Annotated[bool, typer.Option("--porcelain", help="Print tab-separated output that stays stable.")] = False,
    nul: Annotated[bool, typer.Option("-z", help="End fields with NUL; implies --porcelain.")] = False,
) -> int:
    """List the tracks, newest first; or make one current in this work tree."""
    one_of(json=json, porcelain=stable or nul)
    with opened(ctx) as baton:
        if words:
            if len(words) != 2 or words[0] != "use":
                raise UsageError(f"'{plain(' '.join(words))}' is not understood; it can be 'use NAME'")
            warn_all(baton.use(words[1]))
            return 0
        tips, current = baton.store.all_tips(), baton.current()
        if json:
            rows: list[Json] = [
                {"current": s.checkpoint.track == current, "checkpoint": stored_document(s)} for s in tips.items
            ]
            print_json({"current": current, "tracks": rows})
        elif stable or nul:
            cells = [(s, s.checkpoint) for s in tips.items]
            flat = [("*" if c.track == current else "", c.track, s.id, timestamp(c.created), s.commit) for s, c in cells]
            terminal.write(porcelain(COLUMNS, flat, nul=nul, foreign=tips.items))
        else:
            with paged(ctx, baton) as paint:
                for s in tips.items:
                    c = s.checkpoint
                    mark = "*" if c.track == current else " "
                    ago = age(c.created, baton.clock())
                    said = f"{quoting(s)}{line(c.step)} {origin(s, baton.store.origins(c.track))}".rstrip()
                    terminal.say(f"{mark} {plain(c.track)} {paint(baton.short(s.id), 'id')} {ago}: {said}")
        warn_all(baton.newer(tips.items))
    for problem in tips.problems:
        terminal.warn(f"'{plain(problem.where)}' is left out: {plain(problem.reason)}")
    return 0
