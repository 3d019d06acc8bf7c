"""``git baton verify``."""

from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, in_quotes, plain
from gitbaton.base.errors import MENDS
from gitbaton.base.model import Live, Stored
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell, live_document, uncompared
from gitbaton.cli.columns import broken, screen
from gitbaton.cli.common import AsJson, Tip, Track, one_meant, opened, print_json, tell_foreign, warn_all
from gitbaton.cli.options import Invocation, Option


def command(
    ctx: Invocation,
    checkpoint: Tip = None,
    track: Track = None,
    words: Annotated[
        bool, Option("--words", help="Judge since the words were written, not since the newest checkpoint.")
    ] = False,
    strict: Annotated[bool, Option("--strict", help="Exit 1 for an operation in progress and changed files, too.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print nothing; the exit status says it.")] = False,
    json: AsJson = False,
) -> int:
    """Say whether HEAD is where the checkpoint left it: 0 at home, 1 on drift, 2 without a checkpoint.

    At home is also who has committed just what was captured, or amended or rebased the commit that it stands on.
    Changed files and an operation in progress are said, too, and leave the exit status at 0 without --strict.

    A commit of just what was captured is said as committed:N. An operation in progress and changed files (files-changed:N) make
    it 1 with --strict.

    It is judged against the newest checkpoint of the track, also one that a hook took. --words judges from where somebody wrote
    the words that such a one carries: what turns and commits have done since counts, too.

    Examples:
        git baton verify
        git baton verify --words
        git baton verify --strict --quiet   # for a script
    """
    one_meant(checkpoint, track)
    with opened(ctx, talks="" if json or quiet else "comparing files") as baton:
        stored, live = baton.verify(track, name=checkpoint, words=words)
        lower = bool(baton.store.unread)  # there is a newer one that nobody can compare
        if not quiet:
            tell_foreign(baton, stored)
        code = 1 if live.drift.moved or lower or (strict and (live.drift.anything or live.uncounted)) else 0
        ask = bool(code) and not (quiet or json)
        way = MENDS if lower else way_on(baton, stored, live, checkpoint, track, words=words) if ask else ""
    if quiet:
        return code
    if json:
        print_json(document(stored, live))
        return code
    for word in live.drift.words:
        terminal.say_lines(broken(f"{word.word}: {plain(word.sentence)}", screen()[0]))
    warn_all(uncompared(live))
    if code:
        away = ", ".join(word.word for word in live.drift.away)
        makes = "make" if len(live.drift.away) > 1 else "makes"
        because = (
            f"{away} {makes} the exit status 1; " if 0 < len(live.drift.away) < len(live.drift.words) and not strict else ""
        )
        terminal.tell("\n".join(broken(f"hint: {because}{way}", screen(2)[0])))
    return code


def document(stored: Stored, live: Live) -> dict[str, Json]:
    """Return the JSON of how HEAD and the files have moved since a checkpoint."""
    facts: list[Json] = [{"word": w.word, "sentence": plain(w.sentence)} for w in live.drift.words]
    strange: dict[str, Json] = {"foreign": True} if stored.foreign_words else {}
    return {"track": stored.checkpoint.track, "id": stored.id, **strange, "live": live_document(live), "facts": facts}


def since_head(baton: Baton, stored: Stored, live: Live) -> Optional[str]:
    """Return the command that shows what has happened to HEAD; None where files are others, too, or HEAD's commit is not to be
    had."""
    was, words = stored.checkpoint, [word.word for word in live.drift.words]
    if live.files_changed != 0 or was.head is None or "head-missing" in words:
        return None
    if words == ["branch-switched"] and was.branch is not None:
        return f"'git switch {in_shell(was.branch)}' goes back to its branch"
    return f"'git log --oneline --left-right {baton.abbreviate(was.head)}...' shows what happened to HEAD; no file has changed"


def way_on(
    baton: Baton, stored: Stored, live: Live, checkpoint: Optional[str], track: Optional[str], *, words: bool = False
) -> str:
    """Return the hint for drift, of the checkpoint or of the ``words``, which an automatic one only carries. A track that is at
    home in another work tree is not taken over."""
    carried, name = stored.checkpoint.carried, in_shell(stored.checkpoint.track)
    seen = in_shell(checkpoint) if checkpoint else name if track else "@"
    seen = stored.id[:10] if stored.restored else seen  # other names mean what is not here
    if words and carried is not None:
        seen = carried.id[:10] if checkpoint or stored.restored else f"{seen.removesuffix('@')}@{{manual}}"
    shows = f"'git baton diff {seen}' shows what changed"
    if (elsewhere := baton.home(stored)) is not None:
        return f"{shows}; it was taken in the work tree {in_quotes(elsewhere)}"
    shows = since_head(baton, stored, live) or shows
    return f"{shows}; 'git baton snapshot --track {name} \"what is done\"' records where you are"
