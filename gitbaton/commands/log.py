"""``git baton log``."""

from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.codec import plain, timestamp
from gitbaton.commands.common import AsJson, From, Nul, Porcelain, Track, left_out, one_meant, one_of, opened, paged, print_json
from gitbaton.commands.options import Call, Option
from gitbaton.commands.retaining import marked
from gitbaton.errors import UsageError
from gitbaton.observed import turn
from gitbaton.render import age, line, origin, porcelain, quoting, stored_document, verdict

COLUMNS = ("id", "track", "created", "kind", "validation", "label", "branch", "head", "step")


def command(
    ctx: Call,
    checkpoint: From = None,
    track: Track = None,
    limit: Annotated[Optional[int], Option("-n", "--max-count", metavar="N", min=0, help="List at most N; -3 is -n 3.")] = None,
    everything: Annotated[bool, Option("--all", help="List those of every track.")] = False,
    json: AsJson = False,
    stable: Porcelain = False,
    nul: Nul = False,
) -> int:
    """List the checkpoints of a track, newest first."""
    one_of(json=json, porcelain=stable or nul)
    if everything and (checkpoint is not None or track is not None):
        raise UsageError(f"{'a checkpoint or track' if track is None else '--track'} and --all exclude each other")
    one_meant(checkpoint, track)
    with opened(ctx) as baton:
        history, pins = baton.history(track, limit=limit, everything=everything, name=checkpoint), marked(baton)
        if json:
            print_json({"checkpoints": [{**stored_document(s), "pinned": pins.pinned(s.id)} for s in history.items]})
        elif stable or nul:
            fields = [(s.id, s.checkpoint, verdict(s)) for s in history.items]
            rows = [
                (i, c.track, timestamp(c.created), c.kind, said, c.label or "", c.branch or "", c.head or "", c.step)
                for i, c, said in fields
            ]
            terminal.write(porcelain(COLUMNS, rows, nul=nul, foreign=history.items))
        else:
            with paged(ctx, baton) as paint:
                for s in history.items:
                    c = s.checkpoint
                    words = [paint(baton.short(s.id), "id"), paint(verdict(s).ljust(7), verdict(s))]
                    words += [age(c.created, baton.clock()).rjust(14), f"{plain(c.track)}:" if everything else ""]
                    words += [quoting(s) + (turn(s) or line(c.step)), f"[{line(c.label)}]" if c.label else ""]
                    words += ["(pinned)" if pins.pinned(s.id) else ""]
                    words += ["" if c.kind == "manual" or c.step.endswith(f"({c.kind})") else f"({c.kind})"]
                    words += [origin(s, history.origins.get(s.id) or baton.store.origins(c.track))]
                    terminal.say(" ".join(w for w in words if w))
    left_out(history.problems)
    return 0
