"""``git baton statusline``."""

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import check_track, plain
from gitbaton.base.errors import BatonError
from gitbaton.base.model import Stored
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.config import load
from gitbaton.checkpoints.render import passed
from gitbaton.checkpoints.store import chain_ref, safety_ref, state, tip_ref
from gitbaton.checkpoints.survey import Surveyor, tests_then
from gitbaton.cli.common import colours
from gitbaton.cli.look import Cell, Column, Look, step_of, tests_of
from gitbaton.cli.options import Invocation, Option
from gitbaton.cli.statusline import LASTING, StatusLine, asked
from gitbaton.git import places
from gitbaton.git.repo import discover, put

_COLUMNS = (Column(named=True), Column(goes=3), Column(goes=1), Column(goes=2), Column())
_OLD = timedelta(minutes=30)  # after which words are old, though nothing was recorded since
_HAND_OVER = "compaction is near: hand over"


def command(
    ctx: Invocation,
    track: Annotated[
        Optional[str], Option(metavar="NAME", help="Default: GIT_BATON_TRACK, then the current track, or the only one.")
    ] = None,
    long: Annotated[bool, Option("--long", help="Add a line: what happened since the words, and the next command.")] = False,
) -> int:
    """Print where the current track stands in one line, for a client's status line or a shell's prompt.

    That is the track, the age of its words, how its tests stand, what moved since its newest checkpoint, and its step, cut to
    COLUMNS. The files are not looked at. What a client tells on standard input says where its user is and how full the
    context is; where that is nearly full and the words are old, the line begins with 'compaction is near: hand over'.

    It prints nothing where there is no baton or something is wrong, exits with 0 whatever happens, and waits for nothing. It is
    in colour where a client shows it or on a terminal; NO_COLOR and 'git baton --no-color statusline' turn that off.
    'git baton agent install claude --statusline' lets a client show it, and 'git baton help prompts' has lines for shells.

    Examples:
        git baton statusline
        git baton statusline --long
    """
    line = asked()
    with suppress(BatonError, OSError, ValueError):
        named = ctx.obj.repo_root
        begun = ctx.obj.repo if named is None else None
        repo = begun or discover(named or line.told.place, door="binary", named=named is not None)
        with Baton(repo=repo, settings=load(repo, lambda _: None)) as baton:
            _show(ctx, baton, line, track, long=long)
    return 0


def _show(ctx: Invocation, baton: Baton, line: StatusLine, track: str | None, *, long: bool) -> None:
    """Print the line, and keep it."""
    repo = baton.repo
    git_dir, common_dir = repo.layout.git_dir, repo.layout.common_dir
    names = [chain_ref("x"), tip_ref("x"), safety_ref(git_dir, common_dir)]
    paths = places.moving(git_dir, common_dir, repo.objects.head().branch, names)
    paths += [os.path.join(repo.shared_dir, name) for name in ("ours", "ours/tracks", "rewritten", "paused")]
    before, tip = places.looks(paths), _tip(baton, track)
    if tip is None:
        return
    stored, away = baton.here(tip), baton.home(tip)
    look = Look(baton, colours(ctx, baton, tty=line.told.client or os.isatty(1)))
    shown = "".join(f"{row}\n" for row in _rows(baton, look, stored, away, near=line.near, long=long))
    terminal.write(shown)
    if away is None and os.path.isdir(repo.own_dir):
        age, pause = (look.now - stored.checkpoint.written).total_seconds(), state.paused(repo, look.now)
        holds = (pause.until - look.now).total_seconds() if pause is not None and pause.until is not None else LASTING
        kept = line.kept(git_dir, paths, before, min(LASTING - age % LASTING, holds), shown.encode("utf-8", "surrogateescape"))
        if kept is not None:
            put(repo, os.path.join(repo.own_dir, places.STATUS_LINE), kept, fresh=f".{os.getpid()}.new", mode=0o600)


def _tip(baton: Baton, track: str | None) -> Stored | None:
    """Return the newest checkpoint of the track that is meant; None where none is, or that cannot be read."""
    store, named = baton.store, os.environ.get("GIT_BATON_TRACK", "")
    if track is None and named and store.has(check_track(named)):
        track = named
    track = track or store.current()
    if track is None:
        track, *more = store.meant() or [""]
        track = "" if more else track
    return store.tip(check_track(track)) if track else None


def _rows(baton: Baton, look: Look, stored: Stored, away: str | None, *, near: bool, long: bool) -> Iterator[str]:
    """Yield the lines; of a track that is at home in another work tree, ``away``, its place instead of what moved here."""
    c = stored.checkpoint
    live = Surveyor(baton.store, baton.settings.short).live(stored)
    live = replace(live, tests=tests_then(baton.store, stored))
    wordless = c.kind == "auto" and c.carried is None
    old = wordless or c.carried is not None or look.now - c.written > _OLD
    cells: list[Cell | str] = [
        (*look.mark(stored), (look.cut(c.track), "current")),
        "no words" if wordless else f"words {look.age(c.written)}",
        tests_of(stored, live, look),
        look.drift(live, short=True) if away is None else f"at {plain(os.path.relpath(away, baton.repo.layout.root or '/'))}",
        step_of(stored, look),
    ]
    if near and old:  # what comes first is cut last
        yield look.fit(((_HAND_OVER, "stale"),), *(part for cell in cells for part in ("  ", cell)))
    else:
        yield from look.table(_COLUMNS, [cells])
    if long:
        since = passed(live.since) if live.since is not None and not wordless else ""
        silent = "hooks are paused" if state.paused(baton.repo, look.now) else ""
        said = ", ".join(filter(None, (f"since the words: {since}" if since else "", silent)))
        follows: Cell = (("next: ", "heading"), *look.words(stored, c.next_cmd)) if c.next_cmd else ()
        yield look.fit(said, "; " if said and follows else "", follows) or "nothing since the words"
