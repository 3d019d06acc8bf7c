"""``git baton diff``."""

import os
import tempfile
from typing import Annotated, Optional

from gitbaton.baton import Baton
from gitbaton.commands.common import Track, checkpoint_of, divided, one_meant, opened, tell_foreign, warn_all
from gitbaton.commands.options import AFTER, Argument, Call, Option
from gitbaton.errors import AmbiguousNameError, NotFoundError
from gitbaton.git import foreground
from gitbaton.model import Stored
from gitbaton.tools.comparing import tree_now, tree_of


def command(
    ctx: Call,
    words: Annotated[
        Optional[list[str]],
        Argument(
            metavar="[CHECKPOINT [CHECKPOINT]] [--] [PATH]...",
            help="Default: the newest of the current track, against the work tree now.",
        ),
    ] = None,
    track: Track = None,
    stat: Annotated[bool, Option("--stat", help="Show how much changed in each file.")] = False,
    name_status: Annotated[bool, Option("--name-status", help="Show the names of the files and what became of them.")] = False,
    patch: Annotated[bool, Option("--patch", "-p", help="Show the changes; the default unless another form is given.")] = False,
) -> int:
    """Show what changed since a checkpoint, or between two, as git diff shows it.

    The work tree is taken as a snapshot would take it now, untracked files included. Pager, colours and format are those of
    your own git diff. PATH is relative to the current directory.
    """
    forms = [name for name, given in (("--stat", stat), ("--name-status", name_status), ("--patch", patch)) if given]
    with opened(ctx) as baton, tempfile.TemporaryDirectory(prefix="gitbaton-") as folder:
        checkpoints, paths = _meant(ctx, baton, words or [], track)
        tell_foreign(baton, *checkpoints)
        env = foreground.environment(baton.repo, elsewhere=ctx.obj.repo_root is not None)
        trees = [tree_of(baton, stored) for stored in checkpoints]
        if len(trees) == 1:
            tree, warnings = tree_now(baton, checkpoints[0], folder)
            trees.append(tree)
            warn_all(warnings)
            env = foreground.with_objects(env, os.path.join(folder, "objects"))
        before = ["-C", ctx.obj.repo_root] if ctx.obj.repo_root is not None else []
        before += [] if ctx.obj.pager else ["--no-pager"]
        when = ctx.obj.color  # where it was given; else NO_COLOR, which git does not know, and git's own settings decide
        colour = [f"--color={when}"] if when != "auto" else ["--color=never"] if os.environ.get("NO_COLOR") else []
        return foreground.run([*before, "diff", *colour, *forms, *trees, "--", *paths], env)


def _meant(ctx: Call, baton: Baton, words: list[str], track: Optional[str]) -> tuple[list[Stored], list[str]]:
    """The checkpoints, one or two, and the paths; ``track`` is the one that ``@`` stands for. Without ``--`` the first words
    that name checkpoints are checkpoints, and the others must be there as paths. Raises NotFoundError, AmbiguousNameError."""
    found: list[Stored] = []
    if ctx.meta.get(AFTER) is not None:
        names, paths = divided(ctx, words, 2)
        found = [checkpoint_of(baton, name, track) for name in names]
        return found or [baton.tip(track)], paths
    place = ctx.obj.repo_root or ""
    for word in words[:2]:
        try:
            stored = baton.resolve(word, track)
        except NotFoundError as error:
            if _is_path(place, word):
                break
            raise NotFoundError(f"'{word}' is neither a checkpoint nor a path", error.message, *_HINT) from None
        if os.path.lexists(os.path.join(place, word)):
            raise AmbiguousNameError(f"'{word}' is both a checkpoint and a path", "put '--' between checkpoints and paths")
        one_meant(word, track)
        found.append(stored)
    paths = words[len(found) :]
    for word in paths:
        if not _is_path(place, word):
            raise NotFoundError(f"there is no path '{word}'", *_HINT)
    return found or [baton.tip(track)], paths


_HINT = ("put '--' before paths that are not there now",)


def _is_path(place: str, word: str) -> bool:
    """Whether git would take a word for a path without being told."""
    return os.path.lexists(os.path.join(place, word)) or word.startswith(":") or any(c in word for c in "*?[")
