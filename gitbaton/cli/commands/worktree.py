"""``git baton worktree``."""

from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import in_quotes, path_document
from gitbaton.base.errors import AmbiguousNameError, NotFoundError, UsageError
from gitbaton.base.model import Stored
from gitbaton.care.tools import branching
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell, stored_document
from gitbaton.cli.common import AsJson, Newest, Track, looking, one_meant, opened, print_json, warn_all
from gitbaton.cli.options import Argument, Invocation, Option

_OF_GIT = {"list": "", "prune": ""} | dict.fromkeys(("add", "lock", "move", "remove", "repair", "unlock"), " PATH")


def command(
    ctx: Invocation,
    path: Annotated[str, Argument(metavar="PATH", help="The new work tree's directory; it must not exist.")],
    checkpoint: Newest = None,
    track: Track = None,
    dry_run: Annotated[bool, Option("--dry-run", "-n", help="Print what would be done, and do nothing.")] = False,
    json: AsJson = False,
) -> int:
    """Check a checkpoint out beside this work tree: its head, its files and its index, in a linked work tree.

    'git worktree remove -f PATH' takes it away again, with the files that differ from its head. The other order,
    CHECKPOINT PATH, is understood where only one of the two names a checkpoint.

    Examples:
        git baton worktree ../beside parser~1
    """
    with opened(ctx, talks="" if json else "writing files") as baton:
        directory, stored = _meant(baton, path, checkpoint, track)
        plan = branching.plan_worktree(baton, stored, directory)
        if not dry_run:
            branching.apply_worktree(baton, plan)
        if json:
            print_json(
                {
                    "checkpoint": stored_document(plan.stored),
                    "directory": path_document(plan.place),
                    "head": plan.head,
                    "dry_run": dry_run,
                    "warnings": list(plan.warnings),
                }
            )
        else:
            look, said = looking(ctx, baton), "would check out" if dry_run else "checked out"
            terminal.say(look.fit(f"{said} in {in_quotes(directory)}: ", look.named(plan.stored)))
    warn_all(plan.warnings)
    return 0


def _meant(baton: Baton, path: str, checkpoint: Optional[str], track: Optional[str]) -> tuple[str, Stored]:
    """The directory and the checkpoint, in whichever order. Raises NotFoundError, AmbiguousNameError, UsageError."""
    one_meant(checkpoint, track)
    if path in _OF_GIT:
        hint = f"'git worktree {path}{_OF_GIT[path]}' does that; './{path}' is a directory"
        place = in_shell(checkpoint) if path == "add" and checkpoint and baton.current() is not None else ""
        hints = [f"to check a checkpoint out: git baton worktree {place}"] if place else []
        raise UsageError(f"{in_quotes(path)} is a verb of git worktree, and no directory", *hints, hint)
    if checkpoint is None:
        if track is None and _named(baton, path):
            hint = f"name the directory first: git baton worktree PATH {in_shell(path)}"
            raise UsageError(f"{in_quotes(path)} names a checkpoint, and no directory is given", hint)
        return path, baton.tip(track)
    try:
        return path, baton.resolve(checkpoint, track)
    except (NotFoundError, UsageError) as error:
        if not _named(baton, path):
            said = f"neither {in_quotes(checkpoint)} nor {in_quotes(path)} names a checkpoint"
            raise NotFoundError(said, error.message, *error.hints[:-1], "see 'git baton log --all'") from None
    return checkpoint, baton.resolve(path)


def _named(baton: Baton, word: str) -> bool:
    """Whether a word names a checkpoint, or several."""
    try:
        baton.resolve(word)
    except AmbiguousNameError:
        return True
    except (NotFoundError, UsageError):
        return False
    return True
