"""``git baton verify``."""

from typing import Annotated

from gitbaton import terminal
from gitbaton.codec import Json, plain
from gitbaton.commands.common import AsJson, Tip, Track, one_meant, opened, print_json, tell_foreign, warn_all
from gitbaton.commands.options import Call, Option
from gitbaton.render import live_document, uncompared

WAY_ON = "'git baton diff' shows what changed; 'git baton snapshot \"what is done\"' records where you are"


def command(
    ctx: Call,
    checkpoint: Tip = None,
    track: Track = None,
    strict: Annotated[bool, Option("--strict", help="Exit 1 for an operation in progress and changed files, too.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print nothing; the exit status says it.")] = False,
    json: AsJson = False,
) -> int:
    """Say whether HEAD is where the checkpoint left it: 0 at home, 1 on drift, 2 without a checkpoint.

    At home is also who has committed just what was captured, or amended or rebased the commit that it stands on.
    Changed files and an operation in progress are said, too, and leave the exit status at 0 without --strict.

    A commit of just what was captured is said as committed:N. An operation in progress and changed files (files-changed:N) make
    it 1 with --strict.

    Examples:
        git baton verify
        git baton verify --strict --quiet   # for a script
    """
    one_meant(checkpoint, track)
    with opened(ctx, talks="" if json or quiet else "comparing files") as baton:
        stored, live = baton.verify(track, name=checkpoint)
        lower = bool(baton.store.unread)  # there is a newer one that nobody can compare
        if not quiet:
            tell_foreign(baton, stored)
    code = 1 if live.drift.moved or lower or (strict and (live.drift.anything or live.uncounted)) else 0
    if quiet:
        return code
    if json:
        facts: list[Json] = [{"word": w.word, "sentence": plain(w.sentence)} for w in live.drift.words]
        found = live_document(live)
        strange: dict[str, Json] = {"foreign": True} if stored.foreign else {}
        print_json({"track": stored.checkpoint.track, "id": stored.id, **strange, "live": found, "facts": facts})
        return code
    for word in live.drift.words:
        terminal.say(f"{word.word}: {plain(word.sentence)}")
    warn_all(uncompared(live))
    if code:
        terminal.tell(f"hint: {WAY_ON}")
    return code
