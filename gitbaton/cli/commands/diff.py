"""``git baton diff``."""

import os
import tempfile
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import AmbiguousNameError, NotFoundError, UsageError
from gitbaton.base.model import Stored
from gitbaton.care.tools.comparing import tree_now, tree_of
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.names import parted, unknown
from gitbaton.checkpoints.render import in_shell
from gitbaton.cli.common import (
    NOT_THERE,
    Track,
    divided,
    is_path,
    one_meant,
    one_of,
    opened,
    refuse_no_paths,
    tell_foreign,
    warn_all,
)
from gitbaton.cli.options import AFTER, Argument, Invocation, Option
from gitbaton.git import foreground
from gitbaton.git.run import mends


def command(
    ctx: Invocation,
    words: Annotated[
        Optional[list[str]],
        Argument(
            metavar="[CHECKPOINT [CHECKPOINT] | A..B] [--] [PATH]...",
            help="Default: the newest of the current track, against the work tree now.",
        ),
    ] = None,
    track: Track = None,
    stat: Annotated[bool, Option("--stat", help="Show how much changed in each file.")] = False,
    name_only: Annotated[bool, Option("--name-only", help="Show only the names of the files.")] = False,
    name_status: Annotated[bool, Option("--name-status", help="Show the names of the files and what became of them.")] = False,
    patch: Annotated[bool, Option("--patch", "-p", help="Show the changes; the default unless another form is given.")] = False,
    blanks: Annotated[
        bool, Option("--ignore-all-space", "-w", help="Pass over changes of blanks and tabs alone, as git diff -w does.")
    ] = False,
) -> int:
    """Show what changed since a checkpoint, or between two, as git diff shows it.

    The work tree is taken as a snapshot would take it now, untracked files included. Pager, colours and format are those of
    your own git diff. PATH is relative to the current directory.

    A..B is A against B; a side that is left out is '@', the newest checkpoint of the current track.

    Before a path that is not there now, or that is also a checkpoint's name, '--' must stand. Exits with 0, also when something
    changed.

    Examples:
        git baton diff --stat   # since the newest checkpoint
        git baton diff parser~2..parser --name-only
        git baton diff parser~1 parser -- a.txt
    """
    given = {"--stat": stat, "--name-only": name_only, "--name-status": name_status, "--patch": patch}
    forms = [*(name for name, on in given.items() if on), *(["--ignore-all-space"] if blanks else [])]
    one_of(**{"name-only": name_only, "name-status": name_status})
    with opened(ctx, talks="looking at files") as baton, tempfile.TemporaryDirectory(prefix="gitbaton-") as folder:
        checkpoints, paths = _meant(ctx, baton, words or [], track)
        tell_foreign(baton, *checkpoints)
        trees = [tree_of(baton, stored) for stored in checkpoints]
        if len(trees) == 1:
            tree, warnings = tree_now(baton, checkpoints[0], folder)
            trees.append(tree)
            warn_all(warnings)
        before = [] if ctx.obj.pager else ["--no-pager"]
        when = ctx.obj.color  # where it was given; else NO_COLOR, which git does not know, and git's own settings decide
        colour = [f"--color={when}"] if when != "auto" else ["--color=never"] if os.environ.get("NO_COLOR") else []
        terminal.still()  # from here on the screen is git's
        objects = os.path.join(folder, "objects") if len(checkpoints) == 1 else None
        words = [*before, "diff", *colour, *forms, *trees, "--", *paths]
        code = foreground.run(baton.repo, words, ctx.obj.repo_root, objects)
        if code == 128:  # git has said why
            terminal.tell_hints(mends(baton.repo.git.run("diff", "--stat", *trees)))
        return code


def _meant(ctx: Invocation, baton: Baton, words: list[str], track: Optional[str]) -> tuple[list[Stored], list[str]]:
    """The checkpoints, one or two, and the paths; ``track`` is the one that ``@`` stands for. Without ``--`` the first words
    that name checkpoints are checkpoints, and the others must be there as paths. Raises NotFoundError, AmbiguousNameError."""
    found: list[Stored] = []
    if ctx.meta.get(AFTER) is not None:
        names, paths = divided(ctx, words, 2)
        for name in names:
            found += _named(baton, name, track, first=not found)
            one_meant(name, track)
        if len(found) > 2:
            raise UsageError(f"unexpected argument {in_quotes(names[-1])}", f"'{ctx.command_path} -h' shows what there is")
        return found or [baton.here(baton.tip(track))], paths
    place, taken = ctx.obj.repo_root or "", 0
    for word in words[:2]:
        if len(found) == 2:  # A..B
            break
        try:
            named = _named(baton, word, track, first=not found)
        except NotFoundError as error:
            if is_path(place, word):
                break
            meant = [hint for hint in error.hints if hint.startswith(("perhaps ", "'git baton tracks restore "))]
            why = [] if error.message == unknown(word) else [error.message, *error.hints[:-1]]  # else it is said already
            raise NotFoundError(f"{in_quotes(word)} is neither a checkpoint nor a path", *(meant or why), NOT_THERE) from None
        if os.path.lexists(os.path.join(place, word)):
            raise AmbiguousNameError(
                f"{in_quotes(word)} is both a checkpoint and a path", "put '--' between checkpoints and paths"
            )
        one_meant(word, track)
        found += named
        taken += 1
    paths = words[taken:]
    refuse_no_paths(place, paths)
    return found or [baton.here(baton.tip(track))], paths


def _named(baton: Baton, word: str, track: Optional[str], *, first: bool) -> list[Stored]:
    """The checkpoint that a word names, or where it is the ``first`` the two of ``A..B``. Raises NotFoundError."""
    try:
        return [baton.resolve(word, track)]
    except NotFoundError as error:
        ends = parted(word, "..") if first else None
        if ends is None or not any(ends):
            raise
        if ends[1].startswith("."):  # where two lines part is asked of git's history
            meant = f"{ends[0] or '@'}..{ends[1].lstrip('.') or '@'}"
            raise NotFoundError(error.message, f"perhaps {in_shell(meant)} is meant") from None
    for end in filter(None, ends):
        one_meant(end, track)
    return [baton.resolve(end or "@", track) for end in ends]
