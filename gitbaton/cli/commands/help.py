"""``git baton help``."""

import os
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import BatonError, UsageError
from gitbaton.cli import pages
from gitbaton.cli.columns import screen
from gitbaton.cli.common import located, through_pager
from gitbaton.cli.options import Argument, Invocation
from gitbaton.cli.verbs import GROUPS, OLD, below, find


def command(
    ctx: Invocation,
    words: Annotated[Optional[list[str]], Argument(metavar="[VERB | TOPIC]", help="Default: all verbs, a line each.")] = None,
) -> int:
    """Show the page of a verb, or a guide, in the pager.

    The same pages are man pages where man finds them: git-baton-snapshot(1), gitbaton-files(7).

    Examples:
        git baton help snapshot
        git baton help run why
        git baton help sharing   # a guide
    """
    words = list(words or ())
    if not words:
        terminal.write(pages.overview())
        return 0
    name = " ".join(words)
    verb, rest = find(OLD[name].split()[:2] if name in OLD else words)
    if verb and not rest:
        blocks = pages.of(verb)
    elif name in pages.guides():
        blocks = pages.of_guide(name)
    elif name in ("git-baton", "baton"):
        blocks = pages.of_all()
    elif below(name):
        verbs = next(list(verbs) for verbs in GROUPS.values() if any(verb.startswith(f"{name} ") for verb in verbs))
        blocks = [block for verb in verbs for block in pages.of(verb)]
    elif verb and not below(words[0]):
        raise UsageError(f"unexpected argument {in_quotes(rest[0])}", f"its page: git baton help {verb}")
    else:
        from gitbaton.cli.usage import unknown

        error = unknown("", words[0]) if not below(words[0]) else unknown(words[0], " ".join(words[1:]))
        raise UsageError(
            error.message, *error.hints[:-1], f"guides: {', '.join(pages.guides())}; 'git baton -h' lists the verbs"
        )
    text = pages.as_text(blocks, screen()[0] or 80)
    with through_pager(ctx, lambda: _pager(ctx)):
        terminal.write(text)
    return 0


def _pager(ctx: Invocation) -> str:
    """The user's pager, in a repository and outside one."""
    try:
        return located(ctx).pager()
    except BatonError:  # there is no repository, or none that can be opened
        return os.environ.get("GIT_PAGER") or os.environ.get("PAGER") or "less"
