"""Sync: fetch, join, push; retry after a lost race, a bounded number of times."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from gitbaton.baton import Baton
from gitbaton.errors import NoAnswerError, RemoteError
from gitbaton.git.remotes import Connection
from gitbaton.sync.fetch import fetch
from gitbaton.sync.items import require_meta
from gitbaton.sync.join import join
from gitbaton.sync.push import Manner, push
from gitbaton.sync.values import Choice, Gathered, Joining, Pushing, Synced, in_order
from gitbaton.values import replace

ROUNDS = 5
PAUSE = 0.25  # seconds, at most, times the number of the round


def sync(
    baton: Baton, line: Connection, choice: Choice, manner: Manner, *, pause: Callable[[float], None] = time.sleep
) -> Synced:
    """Fetch, join and push until nobody was faster, five times at most. What was fetched is joined whatever becomes of the
    push; a bundle is not pushed to.

    Raises RemoteError when nothing could be fetched, RecordError where tombstones, the remote's or ours, cannot be read, and
    what ``push`` raises besides RemoteError.
    """
    require_meta(baton, "joined or pushed")
    done: Synced | None = None
    for number in range(1, ROUNDS + 1):
        seen, gathered = fetch(baton, line, choice, ours=baton.store.chains()[0], write=manner.write)
        joining = join(baton, line, seen, gathered, choice, write=manner.write)
        done = _after(done, gathered, joining, number)
        if not line.remote.push:
            return done
        try:
            pushing = push(baton, line, choice, manner, joining=joining, seen=seen)
        except RemoteError as error:
            done = replace(done, failure=error.message)
            if error.kind != "stale":
                return done
        except NoAnswerError as error:
            return replace(done, failure=error.message.removeprefix("nothing is pushed: "))
        else:
            if not _behind(pushing, joining) or not manner.write:
                return replace(done, pushing=pushing, failure="")
            done = replace(done, pushing=pushing, failure=f"'{line.remote.shown}' has got more meanwhile")
        pause(random.uniform(0, PAUSE * number))
    assert done is not None
    return replace(done, failure=f"somebody else was faster {ROUNDS} times: {done.failure}")


def _behind(pushing: tuple[Pushing, ...], joining: Joining) -> bool:
    """Whether the remote has checkpoints that came after the fetch; those of a track or thread that cannot be joined came
    before."""
    apart = {row.item for row in joining.rows if row.problem}
    moves = [move for part in pushing for move in part.moves if move.action == "refused" and move.count]
    return any(move.kind in ("track", "thread") and move.item not in apart for move in moves)


def _after(before: Synced | None, gathered: Gathered, joining: Joining, number: int) -> Synced:
    """One more round: what the first ones brought is not forgotten."""
    if before is None:
        return Synced(gathered=gathered, joining=joining)
    news = {row.item: row for row in gathered.rows if row.state != "same"}
    rows = [*(row for row in before.gathered.rows if row.item not in news), *news.values()]
    gathered = replace(gathered, rows=in_order(rows))
    joining = replace(joining, rows=in_order([*before.joining.rows, *joining.rows]))
    return Synced(gathered=gathered, joining=joining, rounds=number)
