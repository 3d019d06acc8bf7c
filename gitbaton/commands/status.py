"""``git baton status``."""

import os

from gitbaton import terminal
from gitbaton.baton import TAKE_ONE, Baton
from gitbaton.codec import Json, path_document, plain, timestamp
from gitbaton.commands.columns import padded, width
from gitbaton.commands.common import AsJson, Nul, Porcelain, colours, left_out, one_of, opened, print_json, warn_all
from gitbaton.commands.options import Call
from gitbaton.errors import MENDS, NotFoundError, RecordError
from gitbaton.render import age, line, live_document, origin, porcelain, quoting, stored_document, uncompared, verdict
from gitbaton.requests import TrackStatus

COLUMNS = ("current", "track", "id", "created", "validation", "drift", "step", "place")


def command(
    ctx: Call,
    json: AsJson = False,
    stable: Porcelain = False,
    nul: Nul = False,
) -> int:
    """Show every track against the present, newest first.

    A track is held against the work tree that its newest checkpoint was taken in, while that exists.
    """
    one_of(json=json, porcelain=stable or nul)
    with opened(ctx) as baton:
        tracks, problems = baton.status()
        if json:
            listed: list[Json] = []
            for t in tracks:
                item: dict[str, Json] = {"current": t.current, "checkpoint": stored_document(t.stored)}
                item |= {"live": live_document(t.live), "place": None if t.place is None else path_document(t.place)}
                listed.append({**item, "remotes": list(t.remotes)} if t.remotes else item)
            print_json({"tracks": listed})
        elif stable or nul:
            flat = []
            for t in tracks:
                c, said = t.stored.checkpoint, verdict(t.stored, t.live.since)
                head = ("*" if t.current else "", c.track, t.stored.id, timestamp(c.created), said)
                flat.append((*head, str(t.live.drift), c.headline, t.place or ""))
            terminal.write(porcelain(COLUMNS, flat, nul=nul, foreign=[t.stored for t in tracks]))
        elif tracks:
            on, now = colours(ctx, baton), baton.clock()
            colors = [verdict(t.stored, t.live.since) for t in tracks]
            rows = [_cells(baton, t, age(t.stored.checkpoint.created, now)) for t in tracks]
            widths = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
            for row, color in zip(rows, colors, strict=True):
                cells = [padded(c, w, right=False) for c, w in zip(row, widths, strict=True)]
                cells[4] = terminal.paint(cells[4], color, on=on)
                terminal.say("  ".join(cells).rstrip())
        warn_all(baton.newer([t.stored for t in tracks]))
    left_out(problems)
    warn_all(list(dict.fromkeys(text for t in tracks for text in uncompared(t.live))))
    if not tracks and problems:
        raise RecordError("no track of this repository can be read", MENDS)
    if not tracks and not (json or stable or nul):
        raise NotFoundError("there is no checkpoint in this repository", TAKE_ONE)
    return 0


def _cells(baton: Baton, t: TrackStatus, ago: str) -> tuple[str, ...]:
    c, here, place = t.stored.checkpoint, baton.repo.layout.root, t.place or ""
    committed = f"committed as {baton.abbreviate(t.live.head.oid)}"
    words = (committed if w.word.startswith("committed:") else w.word for w in t.live.drift.words)
    return (
        "*" if t.current else " ",
        plain(c.track),
        baton.short(t.stored.id),
        ago,
        verdict(t.stored, t.live.since),
        f"{quoting(t.stored)}{line(c.headline)[:60]} {origin(t.stored, t.remotes)}".rstrip(),
        ",".join(words),
        "" if place in ("", here) else plain(os.path.relpath(place, here) if here else place),
    )
