"""``git baton du``."""

from gitbaton.base import terminal
from gitbaton.base.codec import plain
from gitbaton.care.retention.inventory import costs
from gitbaton.cli.common import AsJson, amount, opened, paged, print_json
from gitbaton.cli.look import Column
from gitbaton.cli.options import Invocation

NAMES = {
    "notes": "notes and pins",
    "log": "log of threads",
    "held": "what passed no filter, or is ignored",
    "imported": "imported turns",
    "fetched": "fetched from",
    "track": "track",
}


def command(ctx: Invocation, json: AsJson = False) -> int:
    """Show what each track, the transcripts and the rest cost on disk.

    OWN is what would be free without it, once git has collected garbage; SHARED is what other parts in the list hold as well.
    What the user's own branches and tags hold is in neither. Bytes are those of git's objects as they lie on disk.

    Examples:
        git baton du
    """
    with opened(ctx, talks="" if json else "counting bytes") as baton:
        found = costs(baton)
        if json:
            parts = [{"kind": c.kind, "name": c.name or None, "own": c.own, "shared": c.shared} for c in found]
            print_json({"parts": parts, "own": sum(c.own for c in found)})
        else:
            cells = [(amount(c.own), amount(c.shared), f"{NAMES.get(c.kind, c.kind)} {plain(c.name)}".strip()) for c in found]
            whole = (amount(sum(c.own for c in found)), "", "in all, without what is shared")
            with paged(ctx, baton) as look:
                columns = (Column(name="OWN", right=True), Column(name="SHARED", right=True), Column())
                terminal.say_lines(look.table(columns, [*cells, whole], heading=True))
    return 0
