"""``git baton overlap``."""

from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, counted, in_quotes, path_document, plain, timestamp
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.overlap import MOST, LiveTrack, Overlap, OverlapSide, live, overlaps, said, sentence
from gitbaton.checkpoints.render import in_shell
from gitbaton.cli.columns import broken, screen
from gitbaton.cli.common import AsJson, opened, paged, print_json, warn_all
from gitbaton.cli.options import Argument, Invocation


def command(
    ctx: Invocation,
    tracks: Annotated[
        Optional[list[str]],
        Argument(metavar="[TRACK]...", help="Only overlaps with these, however old; default: all live tracks."),
    ] = None,
    json: AsJson = False,
) -> int:
    """Show where the newest states of live tracks do not merge, before anybody merges them.

    A track is live where it has moved in the last day: here, in another work tree, or in a clone of which it was fetched. The
    newest checkpoints of each two of different work trees are merged in memory, as 'git merge' would merge commits of them;
    what has changed since is not looked at, and what merges is not listed. A conflict that was solved after 'git baton merge'
    is listed until a commit has both histories: git would meet it again. Nothing is changed and nothing is locked, and no
    merge driver is run. The lines are those of the file as the first track has it. Exit status: 0 none, 1 some.

    Examples:
        git baton overlap
        git baton overlap api --json
    """
    with opened(ctx, talks="" if json else "merging in memory") as baton:
        every = live(baton, tracks or (), None)
        known = [one for n, one in enumerate(every) if n < MOST or one.name in (tracks or ())]
        found = overlaps(baton, known, set(tracks) if tracks else None)
        chosen = tracks or [baton.current() or ""]
        seen = [one if one.mine.name in chosen or one.other.name not in chosen else one.turned() for one in found.found]
        seen.sort(key=lambda one: one.mine.name not in chosen)
        if json:
            print_json(
                {
                    "tracks": [_track(one) for one in known],
                    "overlaps": [document(one) for one in seen],
                    "not_compared": [list(names) for names in (*found.unknown, *found.waiting)],
                }
            )
        elif seen:
            with paged(ctx, baton):
                _say(baton, seen, tracks=len(known))
        else:
            partly, those = bool(found.unknown or found.waiting), counted(len(known), "live track")
            told = f"nothing that was compared overlaps, of {those}" if partly else f"nothing overlaps: {those} merge"
            alone = f"nothing overlaps: there {'is' if len(known) == 1 else 'are'} {those}"
            terminal.say(f"{told}, as of their newest checkpoints" if len(known) > 1 else alone)
    left = len(every) - len(known)
    warn_all([f"{MOST} live tracks are compared, those of this machine first, and {left} are not"] if left else [])
    why = "an object of them is not here, no commit is in both, or it takes too long"
    warn_all([f"{in_quotes(a)} and {in_quotes(b)} are not compared: {why}" for a, b in found.unknown])
    unseen = f"{counted(len(found.waiting), 'pair')} more: there was no time; 'git baton overlap' goes on"
    warn_all([unseen] if found.waiting else [])
    return 1 if seen else 0


def _say(baton: Baton, found: list[Overlap], *, tracks: int) -> None:
    name, now = "", baton.clock()
    for one in found:
        if one.mine.name != name:
            name = one.mine.name
            terminal.say(f"{plain(name)}:")
        mark = "> " if one.other.stored.foreign_words else "  "
        for file in one.files:
            terminal.say_lines(broken(f"{mark}{sentence(file, one.other, now)}", screen()[0], f"{mark}  "))
        if one.more:
            terminal.say(f"{mark}and {counted(one.more, 'file')} more with track {in_quotes(one.other.name)}")
    told = f"{counted(len(found), 'pair')} of {counted(tracks, 'live track')} would not merge, as of their newest checkpoints"
    terminal.say_lines(broken(told, screen()[0]))
    ends = " ".join(in_shell(one.name) for one in (found[0].mine, found[0].other))
    terminal.say_lines(broken(f"to compare two: git baton diff {ends}", screen()[0]))
    if found[0].mine.name == baton.current():
        theirs = in_shell(found[0].other.name)
        terminal.say_lines(broken(f"to see what a merge would do: git baton merge {theirs} --dry-run", screen()[0]))


def document(one: Overlap) -> dict[str, Json]:
    """Return the JSON of an overlap, as seen from its first track."""
    files: list[Json] = [{"reason": file.reason, **_side(file.mine), "other": _side(file.other)} for file in one.files]
    return {"track": one.mine.name, "other": _track(one.other), "files": files, **({"more": one.more} if one.more else {})}


def _side(one: OverlapSide) -> dict[str, Json]:
    return {"path": path_document(one.path), "lines": [list(lines) for lines in one.lines], "removed": one.entry is None}


def _track(one: LiveTrack) -> dict[str, Json]:
    return {
        "track": one.name,
        "checkpoint": one.stored.id,
        "created": timestamp(one.stored.checkpoint.created),
        "said": said(one),
        "foreign": one.stored.foreign_words,
        "place": path_document(one.place) if one.place else None,
    }
