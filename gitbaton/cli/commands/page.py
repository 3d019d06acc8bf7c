"""``git baton page``."""

import os
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import counted, plain
from gitbaton.base.errors import TAKE_ONE, BatonError, NotFoundError
from gitbaton.base.system.files import read_regular, write_atomic
from gitbaton.care.tools.paging import MARK, page
from gitbaton.checkpoints.render import path_in_quotes
from gitbaton.cli.common import left_out, opened
from gitbaton.cli.options import Argument, Invocation, Option
from gitbaton.git.repo import put


def command(
    ctx: Invocation,
    tracks: Annotated[Optional[list[str]], Argument(metavar="[TRACK]...", help="Only these; all tracks by default.")] = None,
    output: Annotated[Optional[str], Option("-o", "--output", metavar="FILE", help="Where to (.git/baton/page.html).")] = None,
    show: Annotated[bool, Option("--open", help="Open it in the browser.")] = False,
) -> int:
    """Write tracks over time as one HTML file, to attach to a pull request or to see what the agents did.

    The file asks for nothing from anywhere, and can be read without its script. It holds the words of all checkpoints, the
    diffs of the newest 200, and no conversation. Secrets are replaced; a diff that holds what looks like one is left out.
    Without -o it lies in the git directory, so that no snapshot captures it; its path is printed.

    Examples:
        git baton page
        git baton page parser -o ../parser.html
    """
    with opened(ctx) as baton:
        file = output if output is not None else os.path.relpath(os.path.join(baton.repo.shared_dir, "page.html"))
        if os.path.isdir(file):
            raise BatonError(f"{path_in_quotes(file)} is a folder")
        if os.path.lexists(file):
            try:
                ours = MARK in read_regular(file, 4096, follow=True)
            except OSError:
                ours = False
            if not ours:
                raise BatonError(f"{path_in_quotes(file)} exists and is no page of git baton; it is not written over")
        found = [baton.history(name=track) for track in tracks or ()]
        found = found or [baton.store.surely(lambda brief: baton.history(everything=True, brief=brief))]
        items = {stored.id: stored for history in found for stored in history.items}
        for history in found:
            left_out(history.problems)
        if not items:
            raise NotFoundError("there is no checkpoint to show", TAKE_ONE)
        name = os.path.basename(baton.repo.layout.root or os.path.dirname(baton.repo.layout.git_dir)) or "repository"
        made = page(baton, list(items.values()), name)
        if output is None:
            put(baton.repo, os.path.abspath(file), made.data, fresh=f".{os.getpid()}.new")
        else:
            write_atomic(file, made.data, temporary=f"{file}.{os.getpid()}.new")
    hidden = f"; {counted(made.left_out, 'diff')} left out: 'git baton scan --files' says why" if made.left_out else ""
    terminal.say(f"{plain(file)}: {counted(made.checkpoints, 'checkpoint')}, {len(made.data) >> 10} KiB{hidden}")
    if show:
        import webbrowser

        webbrowser.open(f"file://{os.path.abspath(file)}")
    return 0
